"""Error that ends a repetition or a testbed with a reason for its record."""


class MeasureError(RuntimeError):
    """A failure of a testbed or a repetition.

    The text names node, event and log. `stage` states how far the repetition got: `testbed`,
    `link`, `dot1x`, `registration`, `ike`, `data` or `stream`. `cause` is the cause from the
    daemons' logs, and ends the reason.
    """

    def __init__(self, stage: str, reason: str, cause: str = "") -> None:
        # Pass all arguments to the base class: pickling restores the error from them.
        super().__init__(stage, reason, cause)
        self.stage = stage
        self.reason = f"{reason}; {cause}" if cause else reason
        self.cause = cause

    def __str__(self) -> str:
        return self.reason
