"""Check that a results folder or an archive is intact: one line for each finding."""

from __future__ import annotations

from collections.abc import Callable

from harness.portable import checksums
from harness.portable.contents import (
    DESCRIBING,
    PACKING_LIST,
    PLAN,
    PRUNED,
    SUMS,
    kind_of,
    repetition_of,
)
from harness.portable.survey import IntegrityFinding, Survey, record_path
from measure.manifest import Manifest
from measure.record import Record


def judge_survey(survey: Survey, *, archived: bool) -> list[IntegrityFinding]:
    """Return all findings in order of path. An empty list means that everything is intact.

    Args:
        survey: What was read of the folder or archive.
        archived: Whether this is an archive, which must be complete. A folder may lack SHA256SUMS,
            and its reports may change.
    """
    before = len(survey.findings)
    if PLAN not in survey.files:
        survey.add_finding(f"{PLAN}: is not there, so nobody knows what was to be measured")
    _judge_sums(survey, archived=archived)
    if archived:
        _judge_packing_list(survey)
    for name, entry in survey.records.items():
        _judge_record(survey, name, entry)
    for path, complaint in survey.broken.items():
        # A killed run leaves captures of a repetition that has no record yet.
        if record_path(repetition_of(path)) in survey.files:
            survey.add_finding(f"{path}: {complaint}")
    _judge_pruned(survey)
    said = {finding.text.partition(": ")[0] for finding in survey.findings}
    for path, complaint in survey.altered.items():
        # A more detailed finding about the same document exists already.
        if path not in said:
            survey.add_finding(complaint)
    return [*survey.findings[:before],
            *sorted(survey.findings[before:], key=lambda finding: finding.text)]


def _judge_sums(survey: Survey, *, archived: bool) -> None:
    if survey.sums is None:
        if archived and SUMS not in survey.files:
            survey.add_finding(f"{SUMS}: is not there; this is not an archive of './qop export'")
        return
    for path, digest in survey.sums.items():
        facts = survey.files.get(path)
        if facts is None:
            if not _is_pruned(survey, path):
                survey.add_finding(f"{path}: is missing; {SUMS} lists it")
        elif facts.sha256 != digest:
            survey.add_finding(f"{path}: is not what it was when {SUMS} was written")
    for path in survey.files:
        belongs = path != SUMS if archived else checksums.is_listed(path)
        if belongs and path not in survey.sums and not _is_pruned(survey, path):
            survey.add_finding(f"{path}: is not listed in {SUMS}", renewable=not archived)


def _is_pruned(survey: Survey, path: str) -> bool:
    """Return whether a file is a capture that was removed by choice."""
    if not path.startswith("captures/"):
        return False
    name = repetition_of(path)
    record = survey.files.get(record_path(name))
    return record is not None and survey.pruned.covers(name, record.sha256, path.split("/", 2)[2])


def _judge_packing_list(survey: Survey) -> None:
    packing_list = survey.packing_list
    if packing_list is None:
        if PACKING_LIST not in survey.files:
            survey.add_finding(f"{PACKING_LIST}: is not there; this is not an archive of "
                               "'./qop export'")
        return
    there = {path: facts.bytes for path, facts in survey.files.items()
             if kind_of(path) not in DESCRIBING}
    for path in packing_list.files.keys() | there.keys():
        if packing_list.files.get(path) != there.get(path):
            survey.add_finding(f"{path}: {_describe_size(there.get(path))}, by {PACKING_LIST} "
                               f"{_describe_size(packing_list.files.get(path))}")
    records = sum(path.startswith("records/") for path in there)
    if packing_list.records != records:
        survey.add_finding(f"{PACKING_LIST}: counts {packing_list.records} records, there are "
                           f"{records}")
    if survey.plan is not None and packing_list.plan not in _known_digests(survey.plan):
        survey.add_finding(f"{PACKING_LIST}: is of another plan than {PLAN}")


def _describe_size(size: int | None) -> str:
    return "not there" if size is None else f"{size} bytes"


def _judge_record(survey: Survey, name: str, entry: Record) -> None:
    path = record_path(name)
    if entry.name != name:
        return  # reported when it was read
    if survey.plan is not None:
        # One reason is enough: a record of another plan differs in more than one way.
        reason = next(filter(None, (check(survey.plan, entry) for check in _BELONGS)), None)
        if reason:
            survey.add_finding(f"{path}: {reason}")
    for capture in entry.captures:
        _judge_capture(survey, name, capture.get("file"), is_kept=entry.keeps_captures)
    for file in entry.files:
        if f"files/{name}/{file}" not in survey.files:
            survey.add_finding(f"files/{name}/{file}: is missing; {path} names it")


def _judge_capture(survey: Survey, name: str, file: object, *, is_kept: bool) -> None:
    path = record_path(name)
    if not isinstance(file, str) or "/" in file:
        survey.add_finding(f"{path}: names a capture that cannot be one ({file!r})")
        return
    packed = file if file.endswith(".gz") else f"{file}.gz"
    choices = [f"captures/{name}/{choice}" for choice in (packed, file)]
    # A listed file that is missing is reported already.
    if any(choice in survey.files or choice in (survey.sums or {}) for choice in choices):
        return
    if is_kept and not survey.pruned.covers(name, survey.files[path].sha256, packed):
        survey.add_finding(f"captures/{name}/{packed}: is missing; {path} names it")


def _judge_pruned(survey: Survey) -> None:
    for name, removed in survey.pruned.without_outdated(survey.record_digests()).captures.items():
        for file in removed.files:
            if f"captures/{name}/{file}" in survey.files:
                survey.add_finding(
                    f"captures/{name}/{file}: is there, and {PRUNED} says that it was "
                                   "removed; './qop prune' was interrupted, give it again")


def _known_digests(plan: Manifest) -> list[str]:
    """Return the digests by which records of a plan may name it."""
    return [plan.digest, *plan.former_digests]


def _same_study(plan: Manifest, entry: Record) -> str:
    return "" if entry.study == plan.study else (
        f"is of study {entry.study.id}, version {entry.study.version}, and the plan of "
        f"{plan.study.id}, version {plan.study.version}; move it away")


def _known_levels(plan: Manifest, entry: Record) -> str:
    if list(entry.cell) != [factor.name for factor in plan.factors]:
        return f"is of other factors than the plan's ({', '.join(entry.cell)}); move it away"
    return next((f"{factor} {level} is not in the plan" for factor, level in entry.cell.items()
                 if level not in plan.levels.get(factor, {})), "")


def _known_cell(plan: Manifest, entry: Record) -> str:
    return "" if list(entry.cell.values()) in plan.cells else (
        f"cell {'-'.join(entry.cell.values())} is not in the plan")


def _same_levels(plan: Manifest, entry: Record) -> str:
    for factor, digest in entry.digests.items():
        level = plan.levels[factor][entry.cell[factor]] if factor in plan.levels else None
        if level is None or level.digest != digest:
            return (f"was measured with another version of {factor} {entry.cell.get(factor)} than "
                    "the plan's; './qop run' measures it again")
    return ""


def _same_plan(plan: Manifest, entry: Record) -> str:
    same = entry.environment.get("plan") in _known_digests(plan)
    return "" if same else "was measured for another plan; move it away"


def _same_control(plan: Manifest, entry: Record) -> str:
    """Check that a record names the same negative control as its plan, or none."""
    there, here = entry.environment.get("fault"), plan.settings.get("fault")
    return "" if there == here else (
        f"was measured under {_describe_control(there)}, and the plan has "
        f"{_describe_control(here)}; move it away")


def _describe_control(fault: object) -> str:
    return f"the negative control '{fault}'" if fault else "no negative control"


def _same_circumstances(plan: Manifest, entry: Record) -> str:
    """Check that a record's circumstances match its plan's.

    These are clock, machine, builder, medium and settings.
    """
    there = entry.environment
    pairs = [(name, plan.settings[setting], there[name]) for name, setting in _SETTINGS.items()
             if setting in plan.settings and there.get(name) is not None]
    medium = there.get("medium")
    if isinstance(medium, str) and plan.media:
        document = plan.media.get(medium)
        pairs.append(("medium", medium if document else ", ".join(plan.media), medium))
        if document and there.get("air") is not None and "air" in document:
            pairs.append(("air", document["air"], there["air"]))
    pairs += [(f"asked.{name}", plan.asked[name], value) for name, value in entry.asked.items()
              if name in plan.asked]
    return next((f"says {name} {said!r}, and the plan {planned!r}; move it away"
                 for name, planned, said in pairs if planned != said), "")


#: Fields of a record's environment, with the settings of the plan that they must equal.
_SETTINGS = {"clock": "clock", "machine": "on", "builder": "builder"}
_BELONGS: tuple[Callable[[Manifest, Record], str], ...] = (
    _same_study, _known_levels, _known_cell, _same_levels, _same_plan, _same_control,
    _same_circumstances)
