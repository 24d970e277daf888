"""The error for topology files that cannot be used."""


class TopologyError(ValueError):
    """A topology file that cannot be used. The text is one line for the user."""
