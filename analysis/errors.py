"""The error that says why there is nothing to report; its text is for the user as it is."""


class NothingToReport(ValueError):
    """No usable record; the text says where, and what to do."""
