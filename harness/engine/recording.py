"""Make the record of a measured repetition, and announce it to the progress display.

A repetition is one measurement. Its record is a JSON file with values, status, checks (of captures
and kernel state) and circumstances. `judge_repetition` lets the study's code compute values and
checks from the captures. `make_judged_record` makes the record from that judgement,
`make_unmeasured_record` makes one with the reason of a failure. `announce_record` emits an event.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from guest.releases import DEFAULT
from harness.engine import retries
from harness.engine.events import EventLog
from harness.engine.plan import Plan, Step
from harness.engine.postprocessing import PACKED_RAW
from harness.engine.provenance import hash_code
from harness.portable.folder import DATA_SUFFIXES, find_file_kind
from harness.secrets import Secrets, find_secret
from measure.records import judgement
from measure.records.record import (
    NOT_STORED,
    SCHEMA,
    CheckRecord,
    Record,
    StudyRecord,
    upgrade_body,
)
from policies import Policy
from studies import study as studies_study
from studies.study import Cell, Judgement, Repetition, Study, StudyError

#: The medium of radios that are cards of this machine, and not emulated.
AIR = "air"


def judge_repetition(study: Study, repetition: Repetition) -> Judgement:
    """Compute the values and checks of a repetition with the code of its study.

    A repetition that lacks a required metric fails (studies.study). This is a module-level
    function, so that it can be sent to another process.

    Args:
        study: The study.
        repetition: The repetition with its files.

    Raises:
        StudyError: The study keeps a file that results cannot hold. The study's own exceptions are
            passed on.
    """
    verdict = studies_study.judge_repetition(study, repetition)
    for name in verdict.files:
        if "/" in name or not find_file_kind(f"files/{repetition.cell.name}/{name}"):
            raise StudyError(f"the study's judge keeps {name}, which is no data by its name; one "
                             f"that ends in {', '.join(DATA_SUFFIXES)} is, compressed or not")
    return verdict


def make_judged_record(plan: Plan, step: Step, verdict: Judgement, *,
                       environment: Mapping[str, Any],
                       attempt: int, secrets: Secrets) -> Record:
    """Make the record of a judged repetition, with everything needed to judge it again.

    Args:
        plan: The run's plan.
        step: The repetition.
        verdict: The study's judgement.
        environment: The circumstances of the measurement.
        attempt: Number of the attempt, from 1.
        secrets: The run's secrets, of which the record keeps those that the judge needs.
    """
    measured = verdict.measured
    return _make_record(
        plan, step, status=verdict.status, reason=verdict.reason, attempt=attempt,
        measured=None if measured is None else measured.model_dump(mode="json", by_alias=True),
        evidence=list(verdict.evidence), not_made=verdict.not_made, environment=dict(environment),
        captures=[dict(capture) for capture in verdict.captures],
        files=[*verdict.files, PACKED_RAW], elapsed_s=verdict.elapsed_s, raw=dict(verdict.raw),
        secrets={path: find_secret(secrets, path, "the study's judge needs")
                 for path in plan.study.judged_with})


def add_checksums(entry: Record, sums: Mapping[str, str], *, keeps: bool) -> Record:
    """Return a record with checksums of its files, marked if its captures were discarded."""
    note = {} if keeps or not entry.captures else {"captures": NOT_STORED}
    return entry.model_copy(update={"sha256": sums, "environment": entry.environment | note})


def make_unmeasured_record(plan: Plan, step: Step, reason: str, *, environment: Mapping[str, Any],
                           attempt: int, is_skipped: bool = False) -> Record:
    """Make the record of a repetition that could not be measured.

    Args:
        plan: The run's plan.
        step: The repetition.
        reason: Why it could not be measured.
        environment: The circumstances.
        attempt: Number of the attempt, from 1.
        is_skipped: Whether the machine lacks something that the repetition needs.
    """
    status = Judgement(None, reason=reason, is_skipped=is_skipped).status
    return _make_record(plan, step, status=status, reason=reason, attempt=attempt, measured=None,
                        evidence=[], environment=dict(environment), captures=[])


def _make_record(plan: Plan, step: Step, *, not_made: Sequence[str] = (), **fields: Any) -> Record:
    study = plan.study
    return Record(
        schema=SCHEMA, study=StudyRecord(id=study.id, version=study.version), cell=step.cell.ids,
        repetition=step.repetition, asked=plan.asked.to_stored_settings(),
        digests={name: level.digest for name, level in step.cell.levels.items() if level.digest},
        unchecked=list_unchecked(step.cell, fields["evidence"], not_made), **fields)


def list_unchecked(cell: Cell, evidence: Iterable[CheckRecord],
                   not_made: Sequence[str] = ()) -> list[str]:
    """Return the settings of a repetition's policies that none of its checks covers.

    Checks that could not be made follow.
    """
    checks = list(evidence)
    return [*(setting.path for level in cell.levels.values() if isinstance(level.value, Policy)
              for setting in judgement.unchecked_settings(level.value, checks)),
            *(f"{check} (no capture of the air)" for check in not_made)]


def describe_circumstances(plan: Plan, step: Step) -> dict[str, Any]:
    """Return the circumstances of a record, such as clock, medium and version of the code.

    This is the part that is known before a testbed exists.
    """
    spec = plan.testbeds[plan.testbed_of(step.cell)].spec
    medium = spec.medium
    settings = plan.settings
    return {"machine": settings.on, "clock": settings.clock, "builder": settings.builder,
            "debian": (spec.release or DEFAULT.suite) if settings.on == "guest" else None,
            "medium": AIR if settings.cards else medium.name if medium else None,
            "air": medium.air if medium else None, "plan": plan.digest,
            "fault": settings.fault, "code_sha256": hash_code(plan.study.id),
            **({"looks": list(settings.looks)} if settings.looks else {}),
            **({"programs": settings.to_stored()["programs"]} if settings.programs else {}),
            **({"daemons": dict(settings.daemons)} if settings.daemons else {}),
            **({"kept_awake": True} if settings.needs_idle_burners else {}),
            "load_average": os.getloadavg()[0]}


def announce_record(study: Study, entry: Record, events: EventLog, *, is_kept: bool = True) -> None:
    """Emit an event for a new record.

    The event also says whether the repetition will be measured again.

    Args:
        study: the study of the record.
        entry: the record.
        events: log that gets the event.
        is_kept: False if an earlier, flagged record of the repetition is kept instead.
    """
    exclusive = bool(entry.environment.get("alone"))
    flags = entry.environment.get("flags") or []
    events.emit_event("repetition-recorded", name=entry.name, status=entry.status,
                      reason=entry.reason,
                      attempt=entry.attempt, exclusive=exclusive, flags=flags, kept=is_kept,
                      again=retries.needs_exclusive_retry(entry.environment),
                      values=collect_display_values(study, entry),
                      checks=sum(check.ok for check in entry.evidence),
                      unchecked=entry.unchecked or [])
    if flags:
        events.emit_event("repetition-flagged", name=entry.name, flags=flags, exclusive=exclusive)


def collect_display_values(study: Study, entry: Record) -> dict[str, float]:
    """Return the metrics of a record for the terminal or for the stopping rule.

    The result is empty if the study's code fails. The record is written already, and reports show
    what is wrong with it.
    """
    try:
        return collect_metric_values(study, entry)
    except Exception:  # noqa: BLE001 - a study's own code may raise anything
        return {}


def collect_metric_values(study: Study, entry: Record) -> dict[str, float]:
    """Return the values of the study's metrics in a record, by name and in SI units."""
    if entry.measured is None:
        return {}
    body = upgrade_body(entry.measured, study.measurements_type, study.upgrades)
    numbers = study.values(study.measurements_type.model_validate(body))
    return {metric.name: value for metric in study.metrics
            if isinstance(value := numbers.get(metric.name), int | float)}
