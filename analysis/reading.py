"""Files to a frame, quickly: many files are read by all processors side by side."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeAlias

import pandas as pd  # type: ignore[import-untyped,unused-ignore]  # stubs are optional
from pydantic import ValidationError

from analysis.rows import check, printable, row
from measure.record import SCHEMA, Record, RecordError
from measure.record import read as read_carefully

Frame: TypeAlias = pd.DataFrame
_Found: TypeAlias = tuple[Frame | None, list[str]]
_MEASURED = ("_s", "_bps", "_bytes", "_packets")
#: Files whose rows are in memory as rows, before they become columns.
_CHUNK = 2000
_ROOT = Path(__file__).parent.parent


def read(paths: Sequence[Path], processes: int | None = None) -> _Found:
    """A row for each record, in the order of the paths, and a line for each file that is none.

    The frame is None where there is no record. `processes`: by default, one a processor, where
    there are enough files to be worth their start.
    """
    count = min(processes or len(os.sched_getaffinity(0)), -(-len(paths) // _CHUNK))
    if count < 2:
        return _read(paths)
    share = -(-len(paths) // count)
    with ThreadPoolExecutor(count) as pool:
        return _together(list(pool.map(_elsewhere, [paths[at:at + share] for at in
                                                    range(0, len(paths), share)])))


def _elsewhere(paths: Sequence[Path]) -> _Found:
    """The same in a process of its own; in this one where that is not to be had.

    No multiprocessing: it would run its caller's script again, or fork one that has threads.
    """
    done = subprocess.run([sys.executable, "-P", "-m", "analysis.reading"],
                          input=pickle.dumps([str(path) for path in paths]),
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False,
                          env={**os.environ, "PYTHONPATH": str(_ROOT)})
    if done.returncode:
        return _read(paths)
    found: _Found = pickle.loads(done.stdout)  # noqa: S301 # written by this very module
    return found


def _read(paths: Sequence[Path]) -> _Found:
    return _together([_read_chunk(paths[at:at + _CHUNK])
                      for at in range(0, len(paths), _CHUNK)])


def _together(found: Sequence[_Found]) -> _Found:
    frames = [frame for frame, _ in found if frame is not None]
    return (pd.concat(frames, ignore_index=True) if frames else None,
            [line for _, lines in found for line in lines])


def to_frame(rows: list[dict[str, Any]]) -> Frame:
    """Rows as columns; what is measured is a float, and NaN where it was not measured."""
    frame = pd.DataFrame.from_records(rows)
    measured = [column for column in frame.columns if column.endswith(_MEASURED)]
    frame[measured] = frame[measured].astype("float64")
    return frame


def _read_chunk(paths: Sequence[Path]) -> _Found:
    rows, complaints = [], []
    for path in paths:
        try:
            record = _record(path)
            check(record, path)
        except RecordError as error:
            complaints.append(printable(str(error)))
        else:
            rows.append(row(record))
    return to_frame(rows) if rows else None, complaints


def _record(path: Path) -> Record:
    """As measure.record.read, which parses twice to name what is wrong; that is seldom needed."""
    try:
        found = Record.model_validate_json(path.read_bytes())
    except (OSError, ValidationError):
        return read_carefully(path)
    return found if found.schema_ == SCHEMA else read_carefully(path)


if __name__ == "__main__":
    asked = pickle.load(sys.stdin.buffer)  # noqa: S301 # written by _elsewhere
    pickle.dump(_read([Path(path) for path in asked]), sys.stdout.buffer)
