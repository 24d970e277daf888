"""Small plans of the default study, for whatever measures the harness itself."""

from __future__ import annotations

from collections.abc import Sequence

import studies
from harness.engine import profiles, request
from harness.engine.plan import Plan
from harness.engine.request import RunRequest
from studies.study import Study
from topologies.builders import MININET


def study() -> Study:
    """The study that the harness is measured with."""
    return studies.load(studies.DEFAULT)


def levels() -> list[str]:
    """Levels of its first factor."""
    return [level.id for level in study().factors[0].read((), ())]


def typical() -> str:
    """The level of its first factor that a lab takes, or the first."""
    return study().lab.levels.get(study().factors[0].name, levels()[0])


def sets() -> dict[str, str]:
    """Settings by which a repetition is as small as those that testbeds begin with."""
    asked = study().asked.model_validate(profiles.load(study(), profiles.DEFAULT).set)
    little = study().warm_up(asked)
    return {name: str(getattr(little, name)) for name in study().asked.model_fields
            if getattr(little, name) != getattr(asked, name)}


def chosen(names: Sequence[str]) -> dict[str, list[str]]:
    """These levels of the first factor, and of all others the one that a lab takes."""
    first, *others = study().factors
    return {first.name: list(names),
            **{factor.name: [study().lab.levels.get(factor.name, factor.read((), ())[0].id)]
               for factor in others}}


def plan(names: Sequence[str], repetitions: int, *, small: bool = True) -> Plan:
    """A plan of these levels of the first factor."""
    return request.plan(RunRequest(study(), levels=chosen(names), sets=sets() if small else {},
                                   repetitions=repetitions), {"builder": MININET})


def arguments(names: Sequence[str], repetitions: int, *, small: bool = True) -> list[str]:
    """What `qop run` is given for the same."""
    asked = [text for name, value in (sets() if small else {}).items()
             for text in ("--set", f"{name}={value}")]
    only = [text for factor, levels in chosen(names).items()
            for text in ("--only", f"{factor}={','.join(levels)}")]
    return [study().id, *only, *asked, "--builder", MININET, "--repetitions", str(repetitions)]
