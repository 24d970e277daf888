"""The one error that ends a repetition or a testbed with a reason for its record."""


class MeasureError(RuntimeError):
    """Something did not come about in time; the text names node, event and where to look.

    `stage` says how far the repetition got: `testbed`, `link`, `dot1x`, `registration`, `ike`,
    `data`, `stream`. `cause` is what daemons' logs say of why; it is the reason's end.
    """

    def __init__(self, stage: str, reason: str, cause: str = "") -> None:
        # All arguments go to the base class, so that the error survives pickling.
        super().__init__(stage, reason, cause)
        self.stage = stage
        self.reason = f"{reason}; {cause}" if cause else reason
        self.cause = cause

    def __str__(self) -> str:
        return self.reason
