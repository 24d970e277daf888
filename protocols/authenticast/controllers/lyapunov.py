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

    def decide(self, observation: StreamObservation) -> Decision | None:
        """Return the highest level or the floor, by the smaller drift plus penalty.

        None if the setting remains the same, or without measurements of the receiver.
        """
        if not observation.is_measured:
            return None
        backlog = max(0, observation.delta)
        # Hysteresis: every change costs the receiver a verification, so the level rises at half
        # the backlog at which it falls.
        worth = self._worth * (1 if self._was_high(observation) else _RETURN)
        pays = worth >= backlog * observation.verify_s
        level = observation.permitted.high if pays else observation.permitted.low
        bound = observation.delay_bound_s * observation.rate_pps
        is_shedding = observation.setting.shed > 0
        sheds = not pays and backlog > bound * (_RETURN if is_shedding else 1)
        shed = self._excess_share(observation) if sheds else 0.0
        setting = Setting(Scheme.PERCENTAGE, observation.setting.algorithm, level=level, shed=shed)
        if setting == observation.setting:
            return None
        return Decision(setting, f"backlog {backlog}: {100 * level:g} %"
                        + (f", {100 * shed:g} % shed" if shed else ""))

    @staticmethod
    def _was_high(observation: StreamObservation) -> bool:
        return observation.setting.level >= observation.permitted.high

    def _excess_share(self, observation: StreamObservation) -> float:
        """Return the share of packets that the receiver cannot process at the floor.

        Rounded to tenths, at least 0.1.
        """
        cost_s = observation.handle_s + observation.permitted.low * observation.verify_s
        load = observation.rate_pps * cost_s
        return min(1.0, max(0.1, round(10 * (1 - 1 / load)) / 10 if load > 1 else 0.1))
