"""Create records from a study's judgement, and announce them as events."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

from harness.engine import contention
from harness.engine.events import EventLog
from harness.engine.packing import PACKED_RAW
from harness.engine.plan import Plan, Step
from harness.engine.provenance import code_digest
from harness.portable.contents import DATA_SUFFIXES, kind_of
from harness.secrets import Secrets, look_up
from measure import unproven
from measure.body import upgrade_body
from measure.record import NOT_KEPT, SCHEMA, CheckRecord, Record, StudyRecord
from policies import Policy
from studies import required
from studies.study import Cell, Judged, Repetition, Study, StudyError


def judge_repetition(study: Study, repetition: Repetition) -> Judged:
    """Judge a repetition by its study.

    A repetition that lacks a required metric fails (studies.required). This is a module-level
    function, so that it can be sent to another process.

    Args:
        study: The study.
        repetition: The repetition with its files.

    Raises:
        StudyError: The study keeps a file that results cannot hold. The study's own exceptions are
            passed on.
    """
    verdict = required.judge_repetition(study, repetition)
    for name in verdict.files:
        if "/" in name or not kind_of(f"files/{repetition.cell.name}/{name}"):
            raise StudyError(f"the study's judge keeps {name}, which is no data by its name; one "
                             f"that ends in {', '.join(DATA_SUFFIXES)} is, compressed or not")
    return verdict


def judged_record(plan: Plan, step: Step, verdict: Judged, *, environment: Mapping[str, Any],
                  attempt: int, secrets: Secrets) -> Record:
    """Return the record of a judged repetition, with everything needed to judge it again.

    Args:
        plan: The run's plan.
        step: The repetition.
        verdict: The study's judgement.
        environment: The circumstances of the measurement.
        attempt: Number of the attempt, from 1.
        secrets: The run's secrets, of which the record keeps those that the judge needs.
    """
    status = verdict.status if verdict.status != "ok" or not verdict.reason else "failed"
    measured = verdict.measured
    return _make_record(
        plan, step, status=status, reason=verdict.reason, attempt=attempt,
        measured=None if measured is None else measured.model_dump(mode="json", by_alias=True),
        evidence=list(verdict.evidence), environment=dict(environment),
        captures=[dict(capture) for capture in verdict.captures],
        files=[*verdict.files, PACKED_RAW], elapsed_s=verdict.elapsed_s, raw=dict(verdict.raw),
        secrets={path: look_up(secrets, path, "the study's judge needs")
                 for path in plan.study.judged_with})


def with_checksums(entry: Record, sums: Mapping[str, str], *, keeps: bool) -> Record:
    """Return the record with file checksums, marked if its captures were discarded."""
    said = {} if keeps or not entry.captures else {"captures": NOT_KEPT}
    return entry.model_copy(update={"sha256": sums, "environment": entry.environment | said})


def unmeasured_record(plan: Plan, step: Step, reason: str, *, environment: Mapping[str, Any],
                      attempt: int, is_skipped: bool = False) -> Record:
    """Return the record of a repetition that could not be measured.

    Its status is "skipped" if the machine lacks something that the repetition needs, else "failed".
    """
    return _make_record(plan, step, status="skipped" if is_skipped else "failed", reason=reason,
                        attempt=attempt, measured=None, evidence=[], environment=dict(environment),
                        captures=[])


def _make_record(plan: Plan, step: Step, **fields: Any) -> Record:
    study = plan.study
    return Record(
        schema=SCHEMA, study=StudyRecord(id=study.id, version=study.version), cell=step.cell.ids,
        repetition=step.repetition, asked=plan.asked.to_stored_settings(),
        digests={name: level.digest for name, level in step.cell.levels.items() if level.digest},
        unchecked=list_unchecked(step.cell, fields["evidence"]), **fields)


def list_unchecked(cell: Cell, evidence: Iterable[CheckRecord]) -> list[str]:
    """Return the settings of a cell's policies that no check of the evidence covers."""
    made = list(evidence)
    return [setting.path for level in cell.levels.values() if isinstance(level.value, Policy)
            for setting in unproven.unchecked_settings(level.value, made)]


def describe_circumstances(plan: Plan, step: Step) -> dict[str, Any]:
    """Return the part of a record's environment that is known without a testbed."""
    medium = plan.testbeds[plan.testbed_of(step.cell)].spec.medium
    settings = plan.settings
    return {"machine": settings.on, "clock": settings.clock, "builder": settings.builder,
            "medium": medium.name if medium else None,
            "air": medium.air if medium else None, "plan": plan.digest,
            "fault": settings.fault, "code_sha256": code_digest(plan.study.id),
            **({"kept_awake": True} if settings.needs_idle_burners else {}),
            "load_average": os.getloadavg()[0]}


def announce_record(study: Study, entry: Record, events: EventLog, *, is_kept: bool = True) -> None:
    """Announce a recorded repetition as an event, and whether it will be measured `again`.

    `is_kept` is False if an earlier, flagged record remains in its place.
    """
    exclusive = bool(entry.environment.get("alone"))
    flags = entry.environment.get("flags") or []
    events.emit_event("repetition-recorded", name=entry.name, status=entry.status,
                      reason=entry.reason,
                      attempt=entry.attempt, exclusive=exclusive, flags=flags, kept=is_kept,
                      again=contention.is_due_again(entry.environment),
                      values=display_values(study, entry),
                      checks=sum(check.ok for check in entry.evidence),
                      unchecked=entry.unchecked or [])
    if flags:
        events.emit_event("repetition-flagged", name=entry.name, flags=flags, exclusive=exclusive)


def display_values(study: Study, entry: Record) -> dict[str, float]:
    """Return a record's metrics for display or for the stopping rule.

    The result is empty if the study's code fails. The record is written already, and reports show
    what is wrong with it.
    """
    try:
        return metric_values(study, entry)
    except Exception:  # noqa: BLE001 - a study's own code may raise anything
        return {}


def metric_values(study: Study, entry: Record) -> dict[str, float]:
    """Return the study's metrics that a record has, by name and in SI units."""
    if entry.measured is None:
        return {}
    body = upgrade_body(entry.measured, study.measured, study.upgrades)
    numbers = study.values(study.measured.model_validate(body))
    return {metric.name: value for metric in study.metrics
            if isinstance(value := numbers.get(metric.name), int | float)}
