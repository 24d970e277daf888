"""A static setting: no control, the baseline of every comparison."""

from __future__ import annotations

from protocols.authenticast.controllers.state import Decision, Observation


class Static:
    """Leaves the user's setting as it is."""

    def decide(self, seen: Observation) -> Decision | None:
        """Nothing, ever."""
        return None
