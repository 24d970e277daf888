"""Track the records of a results folder to find those that a fault removed or doubled."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path

from harness.engine import events
from measure.record import Record, RecordError
from studies import records as stored


@dataclass(frozen=True)
class _Entry:
    digest: str
    is_flagged: bool


@dataclass
class Ledger:
    """The good records of one results folder at the last inspection.

    `inspect_folder` returns findings, one line each, by "lost" and "doubled".
    """

    folder: Path
    _known: dict[str, _Entry] = field(default_factory=dict)
    _measured: set[str] = field(default_factory=set)
    _damaged: set[str] = field(default_factory=set)
    #: Number of the folder's events that were read.
    _heard: int = 0

    @property
    def names(self) -> list[str]:
        """Return the names of the good records, sorted."""
        return sorted(self._known)

    def expect_again(self, name: str) -> None:
        """Expect a new measurement of a record that was damaged on purpose."""
        self._known.pop(name, None)
        self._measured.discard(name)
        self._damaged.add(name)

    def inspect_folder(self) -> dict[str, list[str]]:
        """Compare the folder with the last inspection, and remember its state."""
        records = self._read_records()
        now = {name: _Entry(digest, _is_flagged(entry)) for name, (entry, digest) in records.items()
               if entry.status == "ok"}
        lost = []
        for name, before in self._known.items():
            if name not in now:
                lost.append(f"{name}: was whole and is gone")
            elif now[name].digest != before.digest and not (
                    before.is_flagged and records[name][0].environment.get("alone")):
                lost.append(f"{name}: another record has taken its place")
        gone = self._measured - now.keys()
        lost += [f"{name}: was said to be measured, and is not there"
                 for name in sorted(gone - self._known.keys())]
        lost += [f"{path.name}: is not whole" for path in self._record_paths()
                 if path.stem not in records and path.stem not in self._damaged]
        self._measured -= gone
        self._damaged -= now.keys()
        self._known = now
        return {"lost": lost, "doubled": self._find_doubled(records)}

    def read_events(self) -> list[str]:
        """Read new events of runs. Return repetitions that were measured more than once.

        A failed repetition counts as not measured. An exclusive one repeats a flagged one on
        purpose.
        """
        again = []
        said = list(events.read_events(self.folder / events.FILE))
        for event in said[self._heard:]:
            if event["event"] == "repetition-recorded" and event["status"] == "ok":
                name = event["name"]
                if name in self._measured and not event["exclusive"]:
                    again.append(f"{name}: was measured already, and was measured again")
                self._measured.add(name)
        self._heard = len(said)
        return again

    def _record_paths(self) -> list[Path]:
        return sorted((self.folder / "records").glob("*.json"))

    def _read_records(self) -> dict[str, tuple[Record, str]]:
        """Return the readable records and their SHA-256, by the name of their file."""
        records = {}
        for path in self._record_paths():
            try:
                text = path.read_bytes()
                entry = stored.parse_record(text.decode(), str(path))
            except (OSError, UnicodeDecodeError, RecordError):
                continue
            records[path.stem] = entry, hashlib.sha256(text).hexdigest()
        return records

    @staticmethod
    def _find_doubled(records: dict[str, tuple[Record, str]]) -> list[str]:
        """Return files with another repetition's record, and measurements found in two records."""
        lines = [f"{name}: holds the record {entry.name}" for name, (entry, _) in records.items()
                 if entry.name != name]
        seen: dict[str, str] = {}
        for name, (entry, _) in records.items():
            what = json.dumps([entry.raw.get("stamps"), entry.raw.get("events")], sort_keys=True)
            if entry.status == "ok" and seen.setdefault(what, name) != name:
                lines.append(f"{name}: is the same measurement as {seen[what]}")
        return lines


def _is_flagged(entry: Record) -> bool:
    return bool(entry.environment.get("flags")) and not entry.environment.get("alone")
