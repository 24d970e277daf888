"""Records to a tidy frame: one row a repetition, units in the names of the columns.

Columns: `policy`, `scenario`, `repetition`, `status`, `reason`, `attempt`, `verified` (there is
evidence, and all of it is ok), `checks_ok`, `checks`, `policy_sha256`, `medium`, `clock`,
`machine`, `builder`, `fault`, `flagged` (it waited long for the processor), `alone` (measured with
nothing beside it), the metrics (see METRICS), `authentication_sum` (components, joined by `+`),
`handoff_sum_s`, `tcp_bytes`, `udp_bytes`, `udp_sent_packets`, `udp_lost_packets` (iperf3's counts),
`started_s` (wall clock), `processor_busy_s`, `processor_idle_s` (of the machine while the
repetition ran; not in virtual time), and for every NAME that any record has `component_NAME_s`, and
`phase_NAME_duration_s` and `phase_NAME_packets`; the same for the phases of a handoff with
`handoff_` in place of `phase_`. What was not measured is NaN.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import pandas as pd  # type: ignore[import-untyped,unused-ignore]  # stubs are optional

from analysis import reading
from analysis.errors import NothingToReport
from analysis.one_clock import separated
from analysis.rows import FOREIGN, printable, row
from measure.record import Record

__all__ = ["FOREIGN", "METRICS", "Frame", "Plan", "Results", "components", "from_records", "load",
           "natural", "phases", "printable"]

Frame: TypeAlias = pd.DataFrame
METRICS = ("authentication_time_s", "handoff_s", "tcp_goodput_bps", "udp_goodput_bps")
#: Phases in the order in which a mobile node goes through them.
_PHASES = ("scan", "authentication", "association", "dot1x", "four_way_handshake",
           "agent_discovery", "registration", "ike", "first_packet")
#: Components of the authentication time in that order, at home before away.
_COMPONENTS = tuple(f"{name}_{place}" for place in ("home", "foreign")
                    for name in ("eap", "mip_registration", "ike"))


@dataclass(frozen=True)
class Plan:
    """What a run set out to measure, as far as its `plan.json` says; empty where it does not."""

    policies: tuple[str, ...] = ()
    scenarios: tuple[str, ...] = ()
    repetitions: int = 0
    names: dict[str, str] = field(default_factory=dict)
    clock: str = ""


@dataclass(frozen=True)
class Results:
    """A run's repetitions, all of one clock; what is no record, and what was planned.

    `complaints` has a line for each file that is no record. `left_out` is a line about the records
    of another clock, "" where there are none.
    """

    frame: Frame
    complaints: list[str]
    plan: Plan = field(default_factory=Plan)
    left_out: str = ""

    @property
    def clock(self) -> str:
        """The clock of all repetitions: real, virtual, or "" where records do not say."""
        return str(self.frame["clock"].iloc[0])

    @property
    def good(self) -> Frame:
        """The repetitions that count: only these enter any mean."""
        return self.frame[self.frame["status"] == "ok"]


def load(folder: Path) -> Results:
    """Every record of a results folder (or of its `records/`); raises NothingToReport.

    A file that is damaged, foreign, a copy, or holds impossible numbers becomes a complaint. Of
    records of two clocks, those of one are left out (analysis.one_clock says which).
    """
    if not folder.is_dir():
        raise NothingToReport(f"{folder}: no such folder; give a results folder, or measure "
                              "with './qop run'")
    records = folder / "records" if (folder / "records").is_dir() else folder
    paths = sorted(path for path in records.glob("*.json") if path.name != "plan.json")
    frame, complaints = reading.read(paths)
    if frame is None and complaints:
        raise NothingToReport(f"{records}: none of its {len(paths)} files is a record that can be "
                              f"used; the first: {complaints[0]}")
    if frame is None:
        raise NothingToReport(f"{records}: holds no records yet; measure with "
                              f"'./qop run --out {folder}', or give another results folder")
    return _results(frame, complaints, _plan(records.parent / "plan.json"))


def from_records(records: list[Record], plan: Plan | None = None) -> Results:
    """The same from records in memory, such as those of the run that just ended."""
    if not records:
        raise NothingToReport("nothing was measured; there is no table to show")
    frame = reading.to_frame([row(record) for record in records])
    return _results(frame, [], plan or Plan())


def phases(frame: Frame, prefix: str = "phase_") -> tuple[str, ...]:
    """Names of the phases in a frame (or with `handoff_`, of its handoffs) as they follow.

    At home before away. An unknown phase goes before `first_packet`, which by definition is last.
    """
    names = [column[len(prefix):-len("_duration_s")] for column in frame.columns
             if column.startswith(prefix) and column.endswith("_duration_s")]
    rank = {name: number for number, name in enumerate(_PHASES)}

    def place(name: str) -> tuple[bool, float, str]:
        plain = name.removeprefix(FOREIGN)
        return name != plain, rank.get(plain, rank["first_packet"] - 0.5), name

    return tuple(sorted(names, key=place))


def components(frame: Frame) -> tuple[str, ...]:
    """Names of what authentication times are summed up from, as they follow; unknown ones last."""
    names = [column[len("component_"):-len("_s")] for column in frame.columns
             if column.startswith("component_")]
    rank = {name: number for number, name in enumerate(_COMPONENTS)}
    return tuple(sorted(names, key=lambda name: (rank.get(name, len(rank)), name)))


def natural(name: str) -> tuple[Any, ...]:
    """Sort key that puts P2 before P10."""
    return tuple((0, int(part), "") if part.isdecimal() else (1, 0, part)
                 for part in re.split(r"([0-9]+)", name) if part)


def _results(frame: Frame, complaints: list[str], plan: Plan) -> Results:
    kept, left_out = separated(_ordered(frame), plan.clock)
    return Results(kept.reset_index(drop=True), complaints, plan, left_out)


def _ordered(frame: Frame) -> Frame:
    """The rows by scenario, policy and repetition, names in their natural order."""
    ranked = frame[["policy", "scenario", "repetition"]].copy()
    for column in ("policy", "scenario"):
        ranks = {name: rank for rank, name in enumerate(sorted(set(frame[column]), key=natural))}
        ranked[column] = frame[column].map(ranks)
    ordered = ranked.sort_values(["scenario", "policy", "repetition"], kind="stable").index
    return frame.loc[ordered].reset_index(drop=True)


def _plan(path: Path) -> Plan:
    """The plan beside the records; a missing or strange one costs only names and order."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        names = {str(key): printable(str(name)) for key, name in found["names"].items()}
        return Plan(tuple(map(str, found["policies"])), tuple(map(str, found["scenarios"])),
                    int(found["settings"]["repetitions"]), names,
                    printable(str(found["settings"].get("clock", ""))))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return Plan()
