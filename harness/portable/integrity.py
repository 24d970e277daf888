"""Whether a results folder or an archive is what it says: each finding of a survey, a line."""

from __future__ import annotations

from collections.abc import Callable

from harness.portable import seal
from harness.portable.contents import (
    DESCRIBING,
    MANIFEST,
    PLAN,
    PRUNED,
    SUMS,
    capture_owner,
    kind_of,
)
from harness.portable.documents import PlanFile
from harness.portable.survey import Finding, Survey, record_path
from measure.record import Record


def judge(survey: Survey, *, archived: bool) -> list[Finding]:
    """All findings, in order of path; none means that everything there is whole and belongs there.

    A folder may lack SHA256SUMS, and its reports may change; an archive must be complete.
    """
    before = len(survey.findings)
    if PLAN not in survey.files:
        survey.complain(f"{PLAN}: is not there, so nobody knows what was to be measured")
    _judge_sums(survey, archived=archived)
    if archived:
        _judge_manifest(survey)
    for name, found in survey.records.items():
        _judge_record(survey, name, found)
    for path, complaint in survey.broken.items():
        # A run that was killed leaves captures of a repetition that has no record yet.
        if record_path(capture_owner(path)) in survey.files:
            survey.complain(f"{path}: {complaint}")
    _judge_pruned(survey)
    return [*survey.findings[:before],
            *sorted(survey.findings[before:], key=lambda finding: finding.text)]


def _judge_sums(survey: Survey, *, archived: bool) -> None:
    if survey.sums is None:
        if archived and SUMS not in survey.files:
            survey.complain(f"{SUMS}: is not there; this is no archive of './qop export'")
        return
    for path, digest in survey.sums.items():
        facts = survey.files.get(path)
        if facts is None:
            if not _is_pruned(survey, path):
                survey.complain(f"{path}: is missing; {SUMS} lists it")
        elif facts.sha256 != digest:
            survey.complain(f"{path}: is not what it was when {SUMS} was written")
    for path in survey.files:
        wanted = path != SUMS if archived else seal.is_kept(path)
        if wanted and path not in survey.sums and not _is_pruned(survey, path):
            survey.complain(f"{path}: is not listed in {SUMS}", renewable=not archived)


def _is_pruned(survey: Survey, path: str) -> bool:
    """Whether a file is a capture that was removed by choice."""
    if not path.startswith("captures/"):
        return False
    name = capture_owner(path)
    record = survey.files.get(record_path(name))
    return record is not None and survey.pruned.covers(name, record.sha256, path.split("/", 2)[2])


def _judge_manifest(survey: Survey) -> None:
    manifest = survey.manifest
    if manifest is None:
        if MANIFEST not in survey.files:
            survey.complain(f"{MANIFEST}: is not there; this is no archive of './qop export'")
        return
    there = {path: facts.bytes for path, facts in survey.files.items()
             if kind_of(path) not in DESCRIBING}
    for path in manifest.files.keys() | there.keys():
        if manifest.files.get(path) != there.get(path):
            survey.complain(f"{path}: {_size(there.get(path))}, by {MANIFEST} "
                            f"{_size(manifest.files.get(path))}")
    records = sum(path.startswith("records/") for path in there)
    if manifest.records != records:
        survey.complain(f"{MANIFEST}: counts {manifest.records} records, there are {records}")
    if survey.plan is not None and manifest.plan != survey.plan.digest:
        survey.complain(f"{MANIFEST}: is of another plan than {PLAN}")


def _size(size: int | None) -> str:
    return "not there" if size is None else f"{size} bytes"


def _judge_record(survey: Survey, name: str, found: Record) -> None:
    path = record_path(name)
    if found.name != name:
        survey.complain(f"{path}: holds the record {found.name}; rename it, or move it away")
        return
    if survey.plan is not None:
        # One reason is enough: a record of another plan differs in more than one way.
        reason = next(filter(None, (check(survey.plan, found) for check in _BELONGS)), None)
        if reason:
            survey.complain(f"{path}: {reason}")
    for capture in found.captures:
        _judge_capture(survey, name, capture.get("file"))


def _judge_capture(survey: Survey, name: str, file: object) -> None:
    path = record_path(name)
    if not isinstance(file, str) or "/" in file:
        survey.complain(f"{path}: names a capture that cannot be one ({file!r})")
        return
    packed = file if file.endswith(".gz") else f"{file}.gz"
    choices = [f"captures/{name}/{choice}" for choice in (packed, file)]
    # What is listed and gone has its line already.
    if any(choice in survey.files or choice in (survey.sums or {}) for choice in choices):
        return
    if not survey.pruned.covers(name, survey.files[path].sha256, packed):
        survey.complain(f"captures/{name}/{packed}: is missing; {path} names it")


def _judge_pruned(survey: Survey) -> None:
    for name, removed in survey.pruned.current(survey.record_digests()).captures.items():
        for file in removed.files:
            if f"captures/{name}/{file}" in survey.files:
                survey.complain(f"captures/{name}/{file}: is there, and {PRUNED} says that it was "
                                "removed; './qop prune' was interrupted, give it again")


def _known_policy(plan: PlanFile, found: Record) -> str:
    return "" if found.policy in plan.policies else f"policy {found.policy} is not in the plan"


def _known_scenario(plan: PlanFile, found: Record) -> str:
    return ("" if found.scenario in plan.scenarios
            else f"scenario {found.scenario} is not in the plan")


def _same_policy(plan: PlanFile, found: Record) -> str:
    same = found.environment.get("policy_sha256") == plan.policies.get(found.policy)
    return "" if same else (f"was measured with another version of policy {found.policy} than the "
                            "plan's; './qop run' measures it again")


def _same_plan(plan: PlanFile, found: Record) -> str:
    same = found.environment.get("plan") == plan.digest
    return "" if same else "was measured for another plan; move it away"


_BELONGS: tuple[Callable[[PlanFile, Record], str], ...] = (
    _known_policy, _known_scenario, _same_policy, _same_plan)
