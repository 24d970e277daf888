"""The error for missing results. Its text is shown to the user."""


class NothingToReport(ValueError):
    """An error for results without a usable record.

    The text says where, and what to do.
    """
