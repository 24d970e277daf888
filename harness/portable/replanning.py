"""Making a kept plan anew: what its words and numbers have to be, by its study and its levels.

A plan's digest tells that it is as it was written, and whoever edits a plan can write another one.
What does not follow from what its levels say, and from the study as it is here, is found here.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, fields, replace
from typing import Any

import studies
from harness.engine.plan import Plan, RunSettings, factor_record, level_record
from harness.portable import builtin
from harness.portable.redoing import find_differences
from measure.document import DIGEST_FIELD
from measure.manifest import FILE, LevelRecord, Manifest
from policies import PolicyError
from studies.study import Factor, Level, Study, StudyError
from studies.validating import said
from topologies.checks import TopologyError

#: What is about the file, or about how much of the same is asked for.
_NOT_COMPARED = ("schema", "former_digests", DIGEST_FIELD)
#: More of them say nothing new.
_MAX_DIFFERENCES = 20


@dataclass(frozen=True)
class Replanned:
    """What came of a plan: a line for each difference, and why some of it was not made anew."""

    differences: tuple[str, ...] = ()
    not_redone: str = ""


def compare_plan(plan: Manifest) -> Replanned:
    """Compare each word and number of a plan with what its levels and its study say."""
    try:
        study = studies.load(plan.study.id)
    except StudyError as error:
        return Replanned(not_redone=str(error))
    if study.version != plan.study.version:
        return Replanned(not_redone=f"is of version {plan.study.version} of {study.id}, which is "
                         f"of version {study.version} here")
    anew, reason = _replanned(study, plan)
    then = {name: value for name, value in plan.model_dump(mode="json", by_alias=True).items()
            if name in anew}
    found = [f"{FILE}: {line}" for line in (*find_differences(then, anew, ""),
                                            *builtin.find_reworded(study, plan))]
    more = len(found) - _MAX_DIFFERENCES
    return Replanned((*found[:_MAX_DIFFERENCES],
                      *([f"{FILE}: and {more} more differences"] if more > 0 else [])), reason)


def _replanned(study: Study, plan: Manifest) -> tuple[dict[str, Any], str]:
    """Return what the study makes of a plan's levels, and why that is not all of a plan."""
    anew: dict[str, Any] = {"factors": [factor_record(factor).model_dump()
                                        for factor in study.factors]}
    try:
        levels = {factor.name: [_level(study, factor, name, entry) for name, entry
                                in plan.levels.get(factor.name, {}).items()]
                  for factor in study.factors}
        anew["levels"] = {name: {level.id: level_record(level).model_dump(mode="json")
                                 for level in of_factor} for name, of_factor in levels.items()}
        known = {field.name for field in fields(RunSettings)}
        settings = RunSettings(**{name: value for name, value in plan.settings.items()
                                  if name in known})
        asked = study.asked.model_validate_json(json.dumps(plan.asked))
        whole = Plan(study, levels, asked, settings).manifest.model_dump(mode="json",
                                                                         by_alias=True)
    except (StudyError, PolicyError, TopologyError, KeyError, TypeError, ValueError) as error:
        return anew, f"cannot be made anew as a whole ({said(error)})"
    # Wires are in no manifest of an earlier schema.
    left_out = _NOT_COMPARED if "wires" in plan.model_fields_set else (*_NOT_COMPARED, "wires")
    return {name: value for name, value in whole.items() if name not in left_out}, ""


def _level(study: Study, factor: Factor, name: str, entry: LevelRecord) -> Level:
    """Return a level as its content or the study has it."""
    level = study.level(factor, name, entry)
    # Of a level that only its name and digest are known of, nothing else is compared.
    return level if level.content or not entry.content else replace(level, content=entry.content)
