"""Drift plus penalty (Neely): verify while it is worth more than the backlog it causes.

The controller has no model of the load. A verification has the worth V, and a second of work costs
the backlog. The level is therefore the user's highest level or the floor. Packets are shed at the
floor if the backlog exceeds the delay bound.
"""

from __future__ import annotations

from protocols.authenticast.controllers.state import Decision, StreamObservation
from protocols.authenticast.settings import Scheme, Setting

_RETURN = 0.5


class Lyapunov:
    """A drift-plus-penalty controller of the level, for the scheme percentage.

    `worth` is V, in packets of backlog times seconds of verification.
    """

    def __init__(self, worth: float = 1.0) -> None:
        if worth <= 0:
            raise ValueError("lyapunov: give a worth above 0")
        self._worth = worth

    def decide(self, seen: StreamObservation) -> Decision | None:
        """Return the highest level or the floor, by the smaller drift plus penalty.

        None if the setting remains the same, or without measurements of the receiver.
        """
        if not seen.is_measured:
            return None
        backlog = max(0, seen.delta)
        # Hysteresis: every change costs the receiver a verification, so the level rises at half
        # the backlog at which it falls.
        worth = self._worth * (1 if self._was_high(seen) else _RETURN)
        pays = worth >= backlog * seen.verify_s
        level = seen.permitted.high if pays else seen.permitted.low
        bound = seen.delay_bound_s * seen.rate_pps
        is_shedding = seen.setting.shed > 0
        sheds = not pays and backlog > bound * (_RETURN if is_shedding else 1)
        shed = self._excess(seen) if sheds else 0.0
        setting = Setting(Scheme.PERCENTAGE, seen.setting.algorithm, level=level, shed=shed)
        if setting == seen.setting:
            return None
        return Decision(setting, f"backlog {backlog}: {100 * level:g} %"
                        + (f", {100 * shed:g} % shed" if shed else ""))

    @staticmethod
    def _was_high(seen: StreamObservation) -> bool:
        return seen.setting.level >= seen.permitted.high

    def _excess(self, seen: StreamObservation) -> float:
        """Return the share of packets that the receiver cannot process at the floor.

        Rounded to tenths, at least 0.1.
        """
        cost_s = seen.handle_s + seen.permitted.low * seen.verify_s
        load = seen.rate_pps * cost_s
        return min(1.0, max(0.1, round(10 * (1 - 1 / load)) / 10 if load > 0 else 0.1))
