"""Error for topology files that cannot be used."""

from __future__ import annotations


class TopologyError(ValueError):
    """A topology file that cannot be used. The text is one line for the user."""
