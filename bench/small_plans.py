"""Small plans of a study, with which benchmarks and tests measure qop itself."""

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
    """A maker of small plans of a study: a few levels (such as policies) of its first factor.

    All other factors have the level that `./qop lab` uses.
    """

    study: Study

    def list_levels(self) -> list[str]:
        """Return the levels of the first factor, such as policies, that small plans can have."""
        first, chosen = self.study.factors[0].name, self._choose_levels(())
        levels = {factor.name: factor.read(chosen[factor.name], ())
                  for factor in self.study.factors}
        usable = {cell.ids[first] for cell in self.study.cells(levels)}
        return [level.id for level in levels[first] if level.id in usable]

    def typical_level(self) -> str:
        """Return the level of the first factor (such as a policy) that `./qop lab` uses.

        Without one it is the first level.
        """
        return self.study.lab.levels.get(self.study.factors[0].name, self.list_levels()[0])

    def small_settings(self) -> dict[str, str]:
        """Return settings that make a repetition as small as a testbed's warm-up."""
        profile = profiles.load_profile(self.study, profiles.DEFAULT)
        little: dict[str, str] = {}
        for clock in get_args(Clock):  # a profile may have other settings for one of the clocks
            settings = self.study.settings_type.model_validate(profile.for_clock(clock).set)
            less = self.study.warm_up(settings)
            little |= {name: str(getattr(less, name)) for name
                       in self.study.settings_type.model_fields
                       if getattr(less, name) != getattr(settings, name)}
        return little

    def make_plan(self, names: Sequence[str], repetitions: int, *, small: bool = True,
                  clock: Clock | None = None) -> Plan:
        """Return a small plan with these levels of the first factor, such as policies.

        Without `clock`, the study's own clock is used.
        """
        return request.build_plan(
            RunRequest(self.study, levels=self._choose_levels(names), sets=self.small_settings()
                       if small else {},
                       repetitions=repetitions), {"builder": MININET, "clock": clock})

    def run_arguments(self, names: Sequence[str], repetitions: int, *,
                      small: bool = True) -> list[str]:
        """Return the arguments of `qop run` that measure a small plan."""
        options = [text for name, value in (self.small_settings() if small else {}).items()
                   for text in ("--set", f"{name}={value}")]
        only = [text for factor, levels in self._choose_levels(names).items()
                for text in ("--only", f"{factor}={','.join(levels)}")]
        return [self.study.id, *only, *options, "--builder", MININET,
                "--repetitions", str(repetitions)]

    def _choose_levels(self, names: Sequence[str]) -> dict[str, list[str]]:
        """Return the levels of each factor in a small plan: some policies in one scenario.

        The scenario is the one that `./qop lab` uses, or that of the first cell.
        """
        first, *others = (factor.name for factor in self.study.factors)
        all_levels = {factor.name: factor.read((), ()) for factor in self.study.factors}
        usual = {**next(iter(self.study.cells(all_levels))).ids, **self.study.lab.levels}
        return {first: list(names), **{name: [usual[name]] for name in others}}


def make_small_plans(study: str = studies.DEFAULT) -> SmallPlans:
    """Return the maker of small plans for a study.

    Raises:
        StudyError: There is no such study.
    """
    return SmallPlans(studies.load_study(study))
