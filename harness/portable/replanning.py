"""Recompute a stored plan from its levels and its study, and compare the two.

A plan's digest shows that the file is as it was written, but an editor of a plan can write a new
digest. This module finds content that does not follow from its levels and the study's code.
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
from studies.validating import describe_exception
from topologies.checks import TopologyError

#: Fields that are not compared: they are about the file, or about its history.
_NOT_COMPARED = ("schema", "former_digests", DIGEST_FIELD)
#: Largest number of differences that are listed.
_MAX_DIFFERENCES = 20


@dataclass(frozen=True)
class Replanned:
    """The result for a plan: a line for each difference, and why parts were not recomputed."""

    differences: tuple[str, ...] = ()
    not_redone: str = ""


def compare_plan(plan: Manifest) -> Replanned:
    """Compare each text and number of a plan with its levels and its study."""
    try:
        study = studies.load_study(plan.study.id)
    except StudyError as error:
        return Replanned(not_redone=str(error))
    if study.version != plan.study.version:
        return Replanned(not_redone=f"is of version {plan.study.version} of {study.id}, which is "
                         f"of version {study.version} here")
    anew, reason = _recompute_plan(study, plan)
    then = {name: value for name, value in plan.model_dump(mode="json", by_alias=True).items()
            if name in anew}
    found = [f"{FILE}: {line}" for line in (*find_differences(then, anew, ""),
                                            *builtin.find_changed_texts(study, plan))]
    more = len(found) - _MAX_DIFFERENCES
    return Replanned((*found[:_MAX_DIFFERENCES],
                      *([f"{FILE}: and {more} more differences"] if more > 0 else [])), reason)


def _recompute_plan(study: Study, plan: Manifest) -> tuple[dict[str, Any], str]:
    """Return the fields that the study computes from a plan's levels, and why some are missing."""
    anew: dict[str, Any] = {"factors": [factor_record(factor).model_dump()
                                        for factor in study.factors]}
    try:
        levels = {factor.name: [_read_level(study, factor, name, entry) for name, entry
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
        return anew, f"cannot be made anew as a whole ({describe_exception(error)})"
    # Manifests of earlier schemas contain no wires.
    left_out = _NOT_COMPARED if "wires" in plan.model_fields_set else (*_NOT_COMPARED, "wires")
    return {name: value for name, value in whole.items() if name not in left_out}, ""


def _read_level(study: Study, factor: Factor, name: str, entry: LevelRecord) -> Level:
    """Return a level as its content or the study defines it."""
    level = study.level(factor, name, entry)
    # If only name and digest of a level are known, nothing else is compared.
    return level if level.content or not entry.content else replace(level, content=entry.content)
