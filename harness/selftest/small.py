"""Small plans of a study, for whatever measures the harness itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import get_args

import studies
from harness.engine import profiles, request
from harness.engine.plan import Plan
from harness.engine.request import RunRequest
from studies.study import Clock, Study
from topologies.builders import MININET


@dataclass(frozen=True)
class SmallPlans:
    """Plans of some levels of a study's first factor, and of others the one that a lab takes."""

    study: Study

    def levels(self) -> list[str]:
        """Levels of its first factor that can be measured so."""
        first, chosen = self.study.factors[0].name, self._chosen(())
        levels = {factor.name: factor.read(chosen[factor.name], ())
                  for factor in self.study.factors}
        there = {cell.ids[first] for cell in self.study.cells(levels)}
        return [level.id for level in levels[first] if level.id in there]

    def typical(self) -> str:
        """The level of its first factor that a lab takes, or the first."""
        return self.study.lab.levels.get(self.study.factors[0].name, self.levels()[0])

    def sets(self) -> dict[str, str]:
        """Settings by which a repetition is as small as those that testbeds begin with."""
        profile = profiles.load(self.study, profiles.DEFAULT)
        little: dict[str, str] = {}
        for clock in get_args(Clock):  # a profile may ask for more by one of them
            asked = self.study.asked.model_validate(profile.of(clock).set)
            less = self.study.warm_up(asked)
            little |= {name: str(getattr(less, name)) for name in self.study.asked.model_fields
                       if getattr(less, name) != getattr(asked, name)}
        return little

    def plan(self, names: Sequence[str], repetitions: int, *, small: bool = True,
             clock: Clock | None = None) -> Plan:
        """A plan of these levels of the first factor; without a clock by the study's own."""
        return request.plan(
            RunRequest(self.study, levels=self._chosen(names), sets=self.sets() if small else {},
                       repetitions=repetitions), {"builder": MININET, "clock": clock})

    def arguments(self, names: Sequence[str], repetitions: int, *, small: bool = True) -> list[str]:
        """What `qop run` is given for the same."""
        asked = [text for name, value in (self.sets() if small else {}).items()
                 for text in ("--set", f"{name}={value}")]
        only = [text for factor, levels in self._chosen(names).items()
                for text in ("--only", f"{factor}={','.join(levels)}")]
        return [self.study.id, *only, *asked, "--builder", MININET,
                "--repetitions", str(repetitions)]

    def _chosen(self, names: Sequence[str]) -> dict[str, list[str]]:
        """These levels of the first factor; of others those of a lab, or of the first cell."""
        first, *others = (factor.name for factor in self.study.factors)
        every = {factor.name: factor.read((), ()) for factor in self.study.factors}
        usual = {**next(iter(self.study.cells(every))).ids, **self.study.lab.levels}
        return {first: list(names), **{name: [usual[name]] for name in others}}


def of(study: str = studies.DEFAULT) -> SmallPlans:
    """Those of a study by its name. Raises StudyError."""
    return SmallPlans(studies.load(study))
