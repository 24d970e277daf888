"""Read the records of a run into a data frame with one row per repetition.

Large numbers of files are read by one process per processor. The columns are:

- one for each factor
- `repetition`, `status`, `reason`, `attempt`
- `verified`: there is evidence, and all of it is ok
- `checks_ok`, `checks`
- `unchecked`: settings that no check covers
- `FACTOR_sha256` for every factor: the digest of the level
- `medium`, `air`, `clock`, `machine`, `builder`, `debian`, `fault`
- `programs`: the user's own daemons in place of Debian's, with version and file
- `flagged`: something disturbed the repetition, and `flags` says what
- `alone`: measured while nothing else was measured
- `elapsed_s`, `started_s` (wall clock)
- `processor_busy_s`, `processor_idle_s`: processor time of the machine while the repetition ran;
  only where the machine's clock is the wall clock
- every value that the study takes from a record

A value that was not measured is NaN.
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

from analysis.cell_status import NOT_COUNTED
from analysis.circumstances import REAL
from analysis.measurements import (
    CIRCUMSTANCES,
    DIGEST_SUFFIX,
    RecordSchema,
    RecordValues,
    check_record,
    extract_values,
)
from analysis.table import to_printable
from measure.records.record import Record, RecordError, format_programs, join_settings
from topologies.model import QUEUE

Frame: TypeAlias = pd.DataFrame
#: Function that reads one record of any schema; it raises RecordError.
RecordReader: TypeAlias = Callable[[Path], Record]
#: Lists by name for each row: numbers, or pairs of time and value.
RowLists: TypeAlias = list[Mapping[str, Any]]
_MEASURED = ("_s", "_bps", "_bytes", "_packets")
#: Number of files whose rows are held as dictionaries before they become columns.
_CHUNK = 2000
_ROOT = Path(__file__).parent.parent
#: Accelerator of a virtual machine whose processor is emulated by software.
_EMULATED = "tcg"
#: Debian release of all guests before records named it.
_FIRST_RELEASE = "bookworm"
#: Kinds of processor time that are not work.
_IDLE = frozenset(("idle", "iowait", "steal"))


@dataclass(frozen=True)
class RecordTable:
    """The records of a run as a data frame (None without records), with lists and complaints.

    `complaints` has a line for each file that is not a usable record.
    """

    frame: Frame | None
    complaints: list[str] = field(default_factory=list)
    samples: RowLists = field(default_factory=list)
    series: RowLists = field(default_factory=list)


def read_records(paths: Sequence[Path], study: RecordSchema, reader: RecordReader,
                 processes: int | None = None) -> RecordTable:
    """Read the files of records, and return a row for each and a line for each unusable one.

    Args:
        paths: The files; rows have the same order.
        study: The study of the records.
        reader: Reads one file.
        processes: Largest number of processes, by default one per processor. There are never more
            than the number of files divided by 2000, rounded up.
    """
    count = min(processes or len(os.sched_getaffinity(0)), -(-len(paths) // _CHUNK))
    if count < 2:
        return _read_in_process(paths, study, reader)
    share = -(-len(paths) // count)
    with ThreadPoolExecutor(count) as pool:
        return _join_tables(list(pool.map(lambda part: _read_in_subprocess(part, study, reader),
                                          [paths[at:at + share] for at in
                                           range(0, len(paths), share)])))


def _read_in_subprocess(paths: Sequence[Path], study: RecordSchema,
                        reader: RecordReader) -> RecordTable:
    """Read records in another process, or in this process if that fails.

    multiprocessing is not used: it would run the caller's script again, or fork a process that has
    threads.
    """
    try:
        task = pickle.dumps((paths, study, reader))
    except (pickle.PicklingError, AttributeError, TypeError):  # study not in a module
        return _read_in_process(paths, study, reader)
    done = subprocess.run([sys.executable, "-P", "-m", "analysis.records"], input=task,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False,
                          env={**os.environ, "PYTHONPATH": str(_ROOT)})
    if done.returncode:
        return _read_in_process(paths, study, reader)
    parts = pickle.loads(done.stdout)  # noqa: S301 # written by this module
    return RecordTable(*parts)


def _read_in_process(paths: Sequence[Path], study: RecordSchema,
                     reader: RecordReader) -> RecordTable:
    return _join_tables([_read_chunk(paths[at:at + _CHUNK], study, reader)
                         for at in range(0, len(paths), _CHUNK)])


def _join_tables(parts: Sequence[RecordTable]) -> RecordTable:
    frames = [part.frame for part in parts if part.frame is not None]
    joined = frames[0] if len(frames) == 1 else \
        pd.concat(frames, ignore_index=True) if frames else None
    return RecordTable(joined, *([item for part in parts for item in getattr(part, name)]
                                 for name in ("complaints", "samples", "series")))


def _read_chunk(paths: Sequence[Path], study: RecordSchema, reader: RecordReader) -> RecordTable:
    taken, complaints = [], []
    for path in paths:
        try:
            record = reader(path)
            taken.append(_extract_record(record, check_record(record, study, str(path)), study,
                                         str(path)))
        except RecordError as error:
            complaints.append(to_printable(str(error)))
    return _make_table(taken, complaints)


def _counted_status(record: Record) -> tuple[str, str]:
    """Return the status of a record and its reason, "not counted" under a negative control.

    A control is a deliberate fault. A repetition can pass under a control if its network lacks what
    the control removes. For example, an open network has no RADIUS server.
    """
    fault = record.environment.get("fault")
    if fault and record.status == "ok":
        return NOT_COUNTED, (f"passes under the negative control '{fault}', which takes nothing "
                             "away that a check of this cell sees")
    return record.status, record.reason


def from_records(records: Sequence[Record], study: RecordSchema) -> RecordTable:
    """Return the data frame of records in memory, with their lists of single measured values.

    Raises:
        RecordError: A record cannot be used in a table.
    """
    return _make_table([_extract_record(record, extract_values(record, study, record.name), study,
                                        record.name)
                        for record in records])


@dataclass(frozen=True)
class _RecordExtract:
    """The data frame row and the lists of values of one record."""

    row: Mapping[str, Any]
    samples: Mapping[str, Any]
    series: Mapping[str, Any]


def _make_table(extracts: Sequence[_RecordExtract], complaints: Sequence[str] = ()) -> RecordTable:
    return RecordTable(_to_frame([dict(each.row) for each in extracts]) if extracts else None,
                       list(complaints), [each.samples for each in extracts],
                       [each.series for each in extracts])


def _extract_record(record: Record, usable: RecordValues, study: RecordSchema,
                    where: str) -> _RecordExtract:
    """Return the data frame row and the lists of values of a record."""
    row: dict[str, Any] = _envelope_row(record)
    twice = row.keys() & usable.row.keys()
    if twice:
        raise RecordError(f"{where}: the study {study.id} calls a value {min(twice)!r}, as every "
                          "record's own column; give it another name")
    row.update(usable.row)
    return _RecordExtract(row, usable.samples, usable.series)


def _to_frame(rows: list[dict[str, Any]]) -> Frame:
    """Return rows as a data frame, with NaN for missing measured values."""
    names = dict.fromkeys(name for row in rows for name in row)
    return pd.DataFrame({to_printable(name): _to_column(name, [row.get(name) for row in rows])
                         for name in names})


def _to_column(name: str, values: list[Any]) -> Any:
    first = next((value for value in values if value is not None), None)
    if isinstance(first, str):
        return ["" if value is None else str(value) for value in values]
    if name.endswith(_MEASURED) or not isinstance(first, int) or None in values:
        return np.array(values, dtype=np.float64)  # None becomes NaN
    return values


def _envelope_row(record: Record) -> dict[str, Any]:
    """Return the columns of a row that do not depend on the study, such as status and clock."""
    environment = record.environment
    status, reason = _counted_status(record)
    return {
        **{factor: to_printable(level) for factor, level in record.cell.items()},
        "repetition": record.repetition, "status": status,
        "reason": to_printable(reason), "attempt": record.attempt,
        "checks_ok": sum(check.ok for check in record.evidence), "checks": len(record.evidence),
        "verified": bool(record.evidence) and all(check.ok for check in record.evidence),
        "unchecked": to_printable(join_settings(record.unchecked or ())),
        "elapsed_s": record.elapsed_s, "started_s": _started_s(record),
        # Where the machine's clock skips waiting, processor seconds have no meaning.
        **_processor_times(record.raw.get("processor_s") if _is_real_time(environment) else None),
        "flagged": bool(environment.get("flags")),
        "flags": " ".join(map(to_printable, environment.get("flags") or ())),
        "alone": bool(environment.get("alone")),
        **{f"{factor}{DIGEST_SUFFIX}": to_printable(record.digests.get(factor, ""))
           for factor in record.cell},
        **{name: _to_text(environment.get(name)) for name in CIRCUMSTANCES},
        "machine": describe_machine(environment), "air": air_of(environment),
        "debian": release_of(environment),
        "programs": to_printable(format_programs(environment.get("programs")))}


def _is_real_time(environment: Mapping[str, Any]) -> bool:
    """Return whether a repetition was measured with the real clock (the wall clock).

    Old records without a clock were measured with it.
    """
    return environment.get("clock") in (REAL, None)


def _started_s(record: Record) -> float | None:
    """Return the wall-clock time at which a repetition began, None if the record lacks it.

    Stamps use the machine's clock, which runs ahead of the wall clock where it skips waiting.
    """
    began_s = _find_number(record.environment, "measured_at_s")
    if began_s is None and _is_real_time(record.environment):
        return _find_number(record.raw.get("stamps"), "start")
    return began_s


def describe_machine(environment: Mapping[str, Any]) -> str:
    """Return the kind of machine of a record, with the accelerator of a virtual machine.

    So values of an emulated processor are never taken for others.
    """
    machine, accelerator = (_to_text(environment.get(name)) for name in ("machine", "accelerator"))
    if accelerator == _EMULATED:
        accelerator = f"emulated processor, {_to_text(environment.get('architecture'))}"
    return f"{machine} ({accelerator})" if accelerator else machine


def air_of(environment: Mapping[str, Any]) -> str:
    """Return the model of the air (DCF or queue) in a record, or "" without a medium.

    Old records without this field used queues.
    """
    return _to_text(environment.get("air") or (QUEUE if environment.get("medium") else ""))


def release_of(environment: Mapping[str, Any]) -> str:
    """Return the Debian release of the guests in a record, or "" for other machines.

    Daemons of another release follow, such as "bookworm, freeradius of trixie". Old records without
    this field are of the only release that there was.
    """
    only = _FIRST_RELEASE if environment.get("machine") == "guest" else ""
    others = environment.get("daemons")
    daemons = sorted(others.items()) if isinstance(others, dict) else []
    return ", ".join([_to_text(environment.get("debian", only)),
                      *(_to_text(f"{name} of {release}") for name, release in daemons)])


def _processor_times(use: object) -> dict[str, float | None]:
    """Return busy and idle time of the processor in seconds, None where not recorded."""
    if not isinstance(use, dict):
        return {"processor_busy_s": None, "processor_idle_s": None}
    times = {name: value for name, value in use.items()
             if isinstance(value, int | float) and not isinstance(value, bool)
             and math.isfinite(value)}
    return {"processor_busy_s": sum(s for name, s in times.items() if name not in _IDLE),
            "processor_idle_s": times.get("idle")}


def _find_number(document: object, key: str) -> float | None:
    value = document.get(key) if isinstance(document, dict) else None
    return float(value) if isinstance(value, int | float) else None


def _to_text(value: object) -> str:
    return "" if value is None else to_printable(str(value))


if __name__ == "__main__":
    task = pickle.load(sys.stdin.buffer)  # noqa: S301 # written by _elsewhere
    table = _read_in_process(*task)
    pickle.dump((table.frame, table.complaints, table.samples, table.series), sys.stdout.buffer)
