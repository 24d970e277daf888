"""The one error that ends a repetition or a testbed with a reason for its record."""


class MeasureError(RuntimeError):
    """Something did not come about in time; the text names node, event and where to look.

    `stage` says how far the repetition got: `testbed`, `link`, `dot1x`, `registration`, `ike`,
    `data`, `stream`.
    """

    def __init__(self, stage: str, reason: str) -> None:
        # All arguments go to the base class, so that the error survives pickling.
        super().__init__(stage, reason)
        self.stage = stage
        self.reason = reason

    def __str__(self) -> str:
        return self.reason
