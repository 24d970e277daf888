"""Records become a frame: one row a repetition, many files read by all processors side by side.

Columns: one for each factor; `repetition`, `status`, `reason`, `attempt`, `verified` (there is
evidence, and all of it is ok), `checks_ok`, `checks`, `unchecked` (settings that no check covers),
`FACTOR_sha256` for every factor (the digest of the level), `medium`, `clock`, `machine`,
`builder`, `fault`, `flagged` (something disturbed it: `flags` says what), `alone` (measured with
nothing beside it), `elapsed_s`, `started_s` (wall clock), `processor_busy_s`, `processor_idle_s`
(of the machine while the repetition ran; not in virtual time); and every value that the study
gives of a record. What was not measured is NaN.
"""

from __future__ import annotations

import math
import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pandas as pd  # type: ignore[import-untyped,unused-ignore]  # stubs are optional

from analysis.bodies import Body, Usable, check, take
from analysis.clock import REAL
from analysis.reserved import CIRCUMSTANCES, DIGEST
from analysis.standing import NOT_COUNTED
from analysis.text import printable
from measure.record import Record, RecordError, listed_settings
from topologies.model import QUEUE

Frame: TypeAlias = pd.DataFrame
#: Reads one record, whatever its schema; raises RecordError.
Reader: TypeAlias = Callable[[Path], Record]
#: Lists by name of each row: numbers, or pairs of time and value.
Lists: TypeAlias = list[Mapping[str, Any]]
_MEASURED = ("_s", "_bps", "_bytes", "_packets")
#: Files whose rows are in memory as rows, before they become columns.
_CHUNK = 2000
_ROOT = Path(__file__).parent.parent
#: Uses of processor time that are no work.
_IDLE = frozenset(("idle", "iowait", "steal"))


@dataclass(frozen=True)
class RecordTable:
    """What was read: a frame (None without any record), its lists, and what is no record."""

    frame: Frame | None
    complaints: list[str] = field(default_factory=list)
    samples: Lists = field(default_factory=list)
    series: Lists = field(default_factory=list)


def read(paths: Sequence[Path], study: Body, reader: Reader,
         processes: int | None = None) -> RecordTable:
    """A row for each record, in the order of the paths, and a line for each file that is none.

    `processes`: by default, one a processor, where there are enough files to be worth their start.
    """
    count = min(processes or len(os.sched_getaffinity(0)), -(-len(paths) // _CHUNK))
    if count < 2:
        return _read(paths, study, reader)
    share = -(-len(paths) // count)
    with ThreadPoolExecutor(count) as pool:
        return _together(list(pool.map(lambda part: _elsewhere(part, study, reader),
                                       [paths[at:at + share] for at in
                                        range(0, len(paths), share)])))


def _elsewhere(paths: Sequence[Path], study: Body, reader: Reader) -> RecordTable:
    """The same in a process of its own; in this one where that is not to be had.

    No multiprocessing: it would run its caller's script again, or fork one that has threads.
    """
    try:
        task = pickle.dumps((paths, study, reader))
    except (pickle.PicklingError, AttributeError, TypeError):  # a study that stands in no module
        return _read(paths, study, reader)
    done = subprocess.run([sys.executable, "-P", "-m", "analysis.records"], input=task,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False,
                          env={**os.environ, "PYTHONPATH": str(_ROOT)})
    if done.returncode:
        return _read(paths, study, reader)
    parts = pickle.loads(done.stdout)  # noqa: S301 # written by this very module
    return RecordTable(*parts)


def _read(paths: Sequence[Path], study: Body, reader: Reader) -> RecordTable:
    return _together([_read_chunk(paths[at:at + _CHUNK], study, reader)
                      for at in range(0, len(paths), _CHUNK)])


def _together(parts: Sequence[RecordTable]) -> RecordTable:
    frames = [part.frame for part in parts if part.frame is not None]
    whole = frames[0] if len(frames) == 1 else \
        pd.concat(frames, ignore_index=True) if frames else None
    return RecordTable(whole, *([item for part in parts for item in getattr(part, name)]
                                for name in ("complaints", "samples", "series")))


def _read_chunk(paths: Sequence[Path], study: Body, reader: Reader) -> RecordTable:
    taken, complaints = [], []
    for path in paths:
        try:
            record = reader(path)
            taken.append(_taken(record, check(record, study, str(path)), study, str(path)))
        except RecordError as error:
            complaints.append(printable(str(error)))
    return _table(taken, complaints)


def _standing(record: Record) -> tuple[str, str]:
    """Return the status of a record and its reason; nothing counts that a control was put into.

    A cell may have nothing of what the control takes away: an open network has no RADIUS server,
    and passes.
    """
    fault = record.environment.get("fault")
    if fault and record.status == "ok":
        return NOT_COUNTED, (f"passes under the negative control '{fault}', which takes nothing "
                             "away that a check of this cell sees")
    return record.status, record.reason


def from_records(records: Sequence[Record], study: Body) -> RecordTable:
    """The frame of records, and their lists; raises RecordError for one that no table can use."""
    return _table([_taken(record, take(record, study, record.name), study, record.name)
                   for record in records])


@dataclass(frozen=True)
class _Taken:
    """What is taken of one record: its row and its lists."""

    row: Mapping[str, Any]
    samples: Mapping[str, Any]
    series: Mapping[str, Any]


def _table(taken: Sequence[_Taken], complaints: Sequence[str] = ()) -> RecordTable:
    return RecordTable(_to_frame([dict(each.row) for each in taken]) if taken else None,
                       list(complaints), [each.samples for each in taken],
                       [each.series for each in taken])


def _taken(record: Record, usable: Usable, study: Body, where: str) -> _Taken:
    """A record's row and lists."""
    row: dict[str, Any] = _row(record)
    twice = row.keys() & usable.row.keys()
    if twice:
        raise RecordError(f"{where}: the study {study.id} calls a value {min(twice)!r}, as every "
                          "record's own column; give it another name")
    row.update(usable.row)
    return _Taken(row, usable.samples, usable.series)


def _to_frame(rows: list[dict[str, Any]]) -> Frame:
    """Rows as columns; what is measured is a float, and NaN where it was not measured."""
    names = dict.fromkeys(name for row in rows for name in row)
    return pd.DataFrame({printable(name): _column(name, [row.get(name) for row in rows])
                         for name in names})


def _column(name: str, values: list[Any]) -> Any:
    first = next((value for value in values if value is not None), None)
    if isinstance(first, str):
        return ["" if value is None else str(value) for value in values]
    if name.endswith(_MEASURED) or not isinstance(first, int) or None in values:
        return np.array(values, dtype=np.float64)  # None becomes NaN
    return values


def _row(record: Record) -> dict[str, Any]:
    """What the envelope says, as the first columns of a row."""
    environment = record.environment
    status, reason = _standing(record)
    return {
        **{factor: printable(level) for factor, level in record.cell.items()},
        "repetition": record.repetition, "status": status,
        "reason": printable(reason), "attempt": record.attempt,
        "checks_ok": sum(check.ok for check in record.evidence), "checks": len(record.evidence),
        "verified": bool(record.evidence) and all(check.ok for check in record.evidence),
        "unchecked": printable(listed_settings(record.unchecked or ())),
        "elapsed_s": record.elapsed_s, "started_s": _started_s(record),
        # Where the machine's clock skips waiting, its processor seconds are meaningless.
        **_processor(record.raw.get("processor_s") if _is_real_time(environment) else None),
        "flagged": bool(environment.get("flags")),
        "flags": " ".join(map(printable, environment.get("flags") or ())),
        "alone": bool(environment.get("alone")),
        **{f"{factor}{DIGEST}": printable(record.digests.get(factor, ""))
           for factor in record.cell},
        **{name: _text(environment.get(name)) for name in CIRCUMSTANCES},
        "air": air_of(environment)}


def _is_real_time(environment: Mapping[str, Any]) -> bool:
    """Return whether the machine's clock was the wall clock; before records said it, it was."""
    return environment.get("clock") in (REAL, None)


def _started_s(record: Record) -> float | None:
    """Return when a repetition began by the wall clock; None where its record does not know.

    Stamps are by the machine's clock, which runs ahead of the wall clock wherever it skips waiting.
    """
    began_s = _number(record.environment, "measured_at_s")
    if began_s is None and _is_real_time(record.environment):
        return _number(record.raw.get("stamps"), "start")
    return began_s


def air_of(environment: Mapping[str, Any]) -> str:
    """Who let stations take turns; before records said it, queues did. "" without a medium."""
    return _text(environment.get("air") or (QUEUE if environment.get("medium") else ""))


def _processor(use: object) -> dict[str, float | None]:
    """Processor time that was used and that was left, in seconds; None where not recorded."""
    if not isinstance(use, dict):
        return {"processor_busy_s": None, "processor_idle_s": None}
    times = {name: value for name, value in use.items()
             if isinstance(value, int | float) and not isinstance(value, bool)
             and math.isfinite(value)}
    return {"processor_busy_s": sum(s for name, s in times.items() if name not in _IDLE),
            "processor_idle_s": times.get("idle")}


def _number(document: object, key: str) -> float | None:
    value = document.get(key) if isinstance(document, dict) else None
    return float(value) if isinstance(value, int | float) else None


def _text(value: object) -> str:
    return "" if value is None else printable(str(value))


if __name__ == "__main__":
    task = pickle.load(sys.stdin.buffer)  # noqa: S301 # written by _elsewhere
    table = _read(*task)
    pickle.dump((table.frame, table.complaints, table.samples, table.series), sys.stdout.buffer)
