"""The error that says why there is nothing to report; its text is for the user as it is."""


class NothingToReport(ValueError):  # noqa: N818 - it is no error that the run is still empty
    """No usable record; the text says where, and what to do."""
