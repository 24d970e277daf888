"""Algorithm change (section 4.3.4), which moves work to the less busy end.

It extends another controller, which decides everything else. The user must permit it. It is used
sparingly, as the paper says: only if the load of the busier end falls clearly.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from protocols.authenticast.controllers.state import Controller, Decision, StreamObservation
from protocols.authenticast.fairness import Load, best_algorithm, busier_end_load
from protocols.authenticast.settings import Algorithm, Scheme, Setting

_WORTH = 0.8
_SETTLE_S = 5.0


def operation_rates(setting: Setting, rate_pps: float) -> tuple[float, float]:
    """Return signatures per second at the server and verifications per second at the client."""
    groups = rate_pps / setting.bundle
    if setting.scheme is Scheme.PERCENTAGE:
        return rate_pps, rate_pps * setting.level
    if setting.scheme is Scheme.DELAYED:
        return rate_pps + groups, groups
    return (groups, groups) if setting.scheme is Scheme.TREE else (0.0, 0.0)


class Balanced:
    """A controller that adds the choice of the algorithm to another controller.

    `costs_s` has the seconds to sign and to verify, by algorithm.
    """

    def __init__(self, inner: Controller,
                 costs_s: Mapping[Algorithm, tuple[float, float]]) -> None:
        self._inner = inner
        self._costs_s = dict(costs_s)
        self._changed_s: float | None = None

    def decide(self, observation: StreamObservation) -> Decision | None:
        """Return the other controller's decision, or an algorithm change if there is none.

        An algorithm change follows the last one after 5 s at the earliest.
        """
        decision = self._inner.decide(observation)
        if decision is not None or not observation.algorithm_change or (
                observation.setting.algorithm not in self._costs_s):
            return decision
        if self._changed_s is not None and observation.now_s - self._changed_s < _SETTLE_S:
            return None
        signs, verifies = operation_rates(observation.setting, observation.rate_pps)
        load = Load(observation.server_load, observation.client_load, signs, verifies)
        best = best_algorithm(self._costs_s, load)
        now = busier_end_load(self._costs_s[observation.setting.algorithm], load)
        then = busier_end_load(self._costs_s[best], load)
        if best is observation.setting.algorithm or then > _WORTH * now:
            return None
        self._changed_s = observation.now_s
        return Decision(replace(observation.setting, algorithm=best),
                        f"{best.name}: the busier end's load falls from {now:.2f} to {then:.2f}")
