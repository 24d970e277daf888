"""A static setting: no control, the baseline of every comparison."""

from __future__ import annotations

from protocols.authenticast.controllers.state import Decision, StreamObservation


class Static:
    """Leaves the user's setting as it is."""

    def decide(self, seen: StreamObservation) -> Decision | None:
        """Nothing, ever."""
        return None
