"""One row a cell: how much of it is good, and every metric with its interval."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

import numpy as np

from analysis import overhead, statistics
from analysis.frame import METRICS, Frame, Plan, Results, components, natural, phases
from analysis.notes import Notes, notes
from analysis.overhead import Baseline
from analysis.statistics import Estimate, Sample

#: Metrics that are compared with the baseline, and what the difference is called.
OVERHEADS = {"tcp_goodput_bps": "tcp_overhead_bps", "udp_goodput_bps": "udp_overhead_bps"}


class Missing(Enum):
    """Why there is no number; the value is the word that a table shows in its place."""

    NOT_RUN = "not run"
    FAILED = "failed"
    SKIPPED = "skipped"
    TOO_FEW = "too few"
    ABSENT = "-"
    REFERENCE = "baseline"
    NO_BASELINE = "no base"


Value = Estimate | Missing


@dataclass(frozen=True)
class Phase:
    """A phase in a cell: its duration, and the fewest and most packets that it took."""

    duration_s: Value
    packets: tuple[int, int] | None


@dataclass(frozen=True)
class Cell:
    """One policy in one scenario; `values` has METRICS and OVERHEADS by name, in SI units.

    `components` are those of the authentication time, and `summed` those of them that it adds up
    here. `handoff` are the phases of the handoff, `handoff_sum_s` their sum, and `handoff_gap_s`
    how far that is from the measured `values["handoff_s"]` in the worst repetition.
    """

    policy: str
    name: str
    scenario: str
    good: int
    total: int
    verified: bool
    verified_reason: str
    values: Mapping[str, Value]
    components: Mapping[str, Value]
    summed: frozenset[str]
    phases: Mapping[str, Phase]
    handoff: Mapping[str, Phase]
    handoff_sum_s: Value
    handoff_gap_s: float | None
    failures: tuple[str, ...]

    @property
    def state(self) -> str:
        """`ok`, or the word that stands in every column for why there are no numbers."""
        value = self.values[METRICS[0]]
        return "ok" if isinstance(value, Estimate) or value is Missing.ABSENT else value.value


@dataclass(frozen=True)
class Summary:
    """All cells by scenario, each in the run's order or else the paper's, and what to know.

    All numbers are of one `clock`.
    """

    cells: Mapping[str, tuple[Cell, ...]]
    components: tuple[str, ...]
    phases: tuple[str, ...]
    handoff: tuple[str, ...]
    baseline: str | None
    notes: Notes
    complaints: tuple[str, ...]
    clock: str = ""

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a reader of the whole table is warned of."""
        return (*self.notes.about_baseline, *self.notes.about_data)


@dataclass(frozen=True)
class _Names:
    """What the cells of a summary have."""

    components: tuple[str, ...]
    phases: tuple[str, ...]
    handoff: tuple[str, ...]


def summarize(results: Results, baseline: str = "P1") -> Summary:
    """The summary of a run; `baseline` is the id of the policy without security."""
    reference = overhead.choose_baseline(results.frame, baseline)
    good = results.good
    lost = {metric: overhead.differences(good, metric, reference.policy)
            if reference.policy else {} for metric in OVERHEADS}
    parts = {(str(key[0]), str(key[1])): part for key, part in
             results.frame.groupby(["policy", "scenario"], sort=False)}
    names = _Names(components(results.frame), phases(results.frame),
                   phases(results.frame, "handoff_"))
    cells: dict[str, tuple[Cell, ...]] = {}
    for scenario in _order(results.plan.scenarios, results.frame["scenario"]):
        cells[scenario] = tuple(
            _cell(policy, scenario, parts.get((policy, scenario), results.frame.iloc[:0]),
                  results.plan, names, reference, lost)
            for policy in _order(results.plan.policies, results.frame["policy"]))
    counts = {(cell.good, cell.total) for row in cells.values() for cell in row}
    return Summary(cells, names.components, names.phases, names.handoff, reference.policy,
                   notes(results, reference, counts), tuple(results.complaints),
                   results.clock)


def _order(planned: tuple[str, ...], found: Iterable[str]) -> list[str]:
    """The run's order; what it does not name follows in the paper's (P1 P2 ... P12)."""
    return [*planned, *sorted(set(found) - set(planned), key=natural)]


def _cell(policy: str, scenario: str, part: Frame, plan: Plan, names: _Names,
          reference: Baseline, lost: Mapping[str, Mapping[tuple[str, str], Sample]]) -> Cell:
    total = max(len(part), plan.repetitions)
    good = part[part["status"] == "ok"]
    # One good repetition is an answer only where one was asked for.
    enough = min(2, total)
    missing = _missing(part, len(good), enough)
    values: dict[str, Value] = {
        metric: missing or _value(_finite(good[metric]), enough) for metric in METRICS}
    for metric, name in OVERHEADS.items():
        values[name] = missing or _overhead(policy, scenario, values[metric], reference,
                                            lost[metric], enough)
    verified, why = _verified(part, good, missing)
    moved = good[good["handoff_sum_s"].notna()]
    gaps = _finite((moved["handoff_sum_s"] - moved["handoff_s"]).abs())
    return Cell(
        policy, plan.names.get(policy, ""), scenario, len(good), total, verified, why, values,
        components={name: missing or _value(_parts(good[f"component_{name}_s"]), 1)
                    for name in names.components},
        summed=frozenset(name for text in good["authentication_sum"] for name in text.split("+")),
        phases={name: _phase(good, f"phase_{name}", missing) for name in names.phases},
        # What is no part of one handoff takes no time of it; so the means add up to the sum's.
        handoff={name: _phase(moved, f"handoff_{name}", missing, filled=True)
                 for name in names.handoff},
        handoff_sum_s=missing or _value(_finite(moved["handoff_sum_s"]), enough),
        handoff_gap_s=float(gaps.max()) if gaps.size else None,
        failures=_failures(part))


def _missing(part: Frame, good: int, enough: int) -> Missing | None:
    if part.empty:
        return Missing.NOT_RUN
    if good >= enough:
        return None
    if good:
        return Missing.TOO_FEW
    return Missing.SKIPPED if (part["status"] == "skipped").all() else Missing.FAILED


def _value(sample: Sample, enough: int) -> Value:
    if not sample.size:
        return Missing.ABSENT
    return statistics.mean(sample) if sample.size >= enough else Missing.TOO_FEW


def _overhead(policy: str, scenario: str, value: Value, reference: Baseline,
              lost: Mapping[tuple[str, str], Sample], enough: int) -> Value:
    if policy == reference.policy:
        return Missing.REFERENCE
    if not isinstance(value, Estimate):
        return value
    pairs = lost.get((policy, scenario))
    if pairs is None or not pairs.size:
        return Missing.NO_BASELINE
    return _value(pairs, enough)


def _phase(good: Frame, name: str, missing: Missing | None, *, filled: bool = False) -> Phase:
    if missing:
        return Phase(missing, None)
    durations = good[f"{name}_duration_s"]
    found = _parts(durations) if filled else _finite(durations)
    packets = _finite(good[f"{name}_packets"])
    if not found.size:
        return Phase(Missing.ABSENT, None)
    return Phase(statistics.mean(found), (int(packets.min()), int(packets.max())))


def _parts(column: Frame) -> Sample:
    """The parts of a sum, 0 where another repetition has one; nothing where none has."""
    return _finite(column.fillna(0.0)) if column.notna().any() else _finite([])


def _verified(part: Frame, good: Frame, missing: Missing | None) -> tuple[bool, str]:
    """Whether every good repetition proved its policy; and with which evidence, or why not."""
    if missing is Missing.NOT_RUN:
        return False, "not run"
    if good.empty:
        return False, str(part["reason"].iloc[-1]) or "no good repetition"
    if not good["verified"].all():
        return False, f"{int((~good['verified']).sum())} good repetitions without full evidence"
    if missing:
        return False, f"only {len(good)} good: {part[part['status'] != 'ok']['reason'].iloc[-1]}" \
            if len(good) < len(part) else f"only {len(good)} measured so far"
    return True, f"{int(good['checks'].sum())} checks"


def _failures(part: Frame) -> tuple[str, ...]:
    """A line for each reason for which repetitions do not count, the most frequent first."""
    bad = part[part["status"] != "ok"]
    reasons = Counter(zip(bad["status"], bad["reason"], strict=True))
    lines = []
    for (status, reason), count in reasons.most_common():
        which = bad[(bad["status"] == status) & (bad["reason"] == reason)]["repetition"]
        shown = ", ".join(str(number) for number in sorted(which)[:5])
        lines.append(f"{status} {count} of {len(part)} (repetition {shown}"
                     f"{', ...' if count > 5 else ''}): {reason or 'no reason given'}")
    return tuple(lines)


def _finite(column: Iterable[float]) -> Sample:
    values = np.asarray(column, dtype=np.float64)
    return values[np.isfinite(values)]
