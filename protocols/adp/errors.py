"""Errors of the protocol: its functions raise no others for bad input."""

from __future__ import annotations


class AdpError(ValueError):
    """A mistake of the protocol's user, described in one line."""


class PacketError(AdpError):
    """A message that is malformed or not protected as required."""
