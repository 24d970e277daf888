"""Static setting: no control, the baseline of every comparison."""

from __future__ import annotations

from protocols.authenticast.controllers.state import Decision, StreamObservation


class Static:
    """A controller that keeps the user's setting."""

    def decide(self, observation: StreamObservation) -> Decision | None:
        """Return None, so that the setting never changes."""
        return None
