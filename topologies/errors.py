"""What the package raises for files that cannot be used."""


class TopologyError(ValueError):
    """A topology file that cannot be used; the text is one line for the user."""
