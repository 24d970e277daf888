"""The errors of this protocol: all that any of its functions raises on bad input."""

from __future__ import annotations


class AdpError(ValueError):
    """What a user of the protocol did wrong, in one line."""


class PacketError(AdpError):
    """Bytes that are not the message they should be, or are not protected as they should be."""
