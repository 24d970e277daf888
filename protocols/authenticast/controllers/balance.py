"""Algorithm change (section 4.3.4): work moves to the end that has time for it, if the user agrees.

It stands beside another controller, which decides everything else; used sparingly, as the paper
says: only where the busier end's load falls by a good part.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from protocols.authenticast.controllers.state import Controller, Decision, StreamObservation
from protocols.authenticast.fairness import Load, best_algorithm, busier_end
from protocols.authenticast.settings import Algorithm, Scheme, Setting

_WORTH = 0.8
_SETTLE_S = 5.0


def operations(setting: Setting, rate_pps: float) -> tuple[float, float]:
    """Signatures a second at the server, verifications a second at the client."""
    groups = rate_pps / setting.bundle
    if setting.scheme is Scheme.PERCENTAGE:
        return rate_pps, rate_pps * setting.level
    if setting.scheme is Scheme.DELAYED:
        return rate_pps + groups, groups
    return (groups, groups) if setting.scheme is Scheme.TREE else (0.0, 0.0)


class Balanced:
    """Chooses the algorithm; `costs_s` has the seconds to sign and to verify, by algorithm."""

    def __init__(self, inner: Controller,
                 costs_s: Mapping[Algorithm, tuple[float, float]]) -> None:
        self._inner = inner
        self._costs_s = dict(costs_s)
        self._changed_s: float | None = None

    def decide(self, seen: StreamObservation) -> Decision | None:
        """What the other controller wants; where it wants nothing, perhaps another algorithm."""
        decision = self._inner.decide(seen)
        if decision is not None or not seen.algorithm_change or (
                seen.setting.algorithm not in self._costs_s):
            return decision
        if self._changed_s is not None and seen.now_s - self._changed_s < _SETTLE_S:
            return None
        signs, verifies = operations(seen.setting, seen.rate_pps)
        load = Load(seen.server_load, seen.client_load, signs, verifies)
        best = best_algorithm(self._costs_s, load)
        now = busier_end(self._costs_s[seen.setting.algorithm], load)
        then = busier_end(self._costs_s[best], load)
        if best is seen.setting.algorithm or then > _WORTH * now:
            return None
        self._changed_s = seen.now_s
        return Decision(replace(seen.setting, algorithm=best),
                        f"{best.name}: the busier end's load falls from {now:.2f} to {then:.2f}")
