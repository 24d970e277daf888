"""What a results folder has held, so that whatever a fault takes away or doubles is found out."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from measure import record
from measure.record import Record, RecordError

#: A finished repetition as `qop run` prints it.
_ANNOUNCED = re.compile(r"\[\d+/\d+\] (\S+) +(\S+) repetition (\d+): (FAILED)?(.*)")


@dataclass(frozen=True)
class _Entry:
    digest: str
    is_flagged: bool


@dataclass
class Ledger:
    """The good records of one results folder, as they were when last looked at.

    `look` gives back what is wrong, one line each, by "lost" and "doubled".
    """

    folder: Path
    _known: dict[str, _Entry] = field(default_factory=dict)
    _measured: set[str] = field(default_factory=set)
    _damaged: set[str] = field(default_factory=set)

    @property
    def names(self) -> list[str]:
        """Good records there are, in order of name."""
        return sorted(self._known)

    def forget(self, name: str) -> None:
        """A record was damaged on purpose; it has to be measured again."""
        self._known.pop(name, None)
        self._measured.discard(name)
        self._damaged.add(name)

    def look(self) -> dict[str, list[str]]:
        """Compare with what is there now, and remember it."""
        found = self._read()
        now = {name: _Entry(digest, _is_flagged(entry)) for name, (entry, digest) in found.items()
               if entry.status == "ok"}
        lost = []
        for name, before in self._known.items():
            if name not in now:
                lost.append(f"{name}: was whole and is gone")
            elif now[name].digest != before.digest and not (
                    before.is_flagged and found[name][0].environment.get("alone")):
                lost.append(f"{name}: another record has taken its place")
        gone = self._measured - now.keys()
        lost += [f"{name}: was said to be measured, and is not there"
                 for name in sorted(gone - self._known.keys())]
        lost += [f"{path.name}: is not whole" for path in self._files()
                 if path.stem not in found and path.stem not in self._damaged]
        self._measured -= gone
        self._damaged -= now.keys()
        self._known = now
        return {"lost": lost, "doubled": self._doubled(found)}

    def heard(self, lines: Iterable[str]) -> list[str]:
        """Take down what a run said that it has measured; what it had measured before already."""
        again = []
        for line in lines:
            match = _ANNOUNCED.search(line)
            if match is None or match[4]:
                continue
            name = record.record_name(match[1], match[2], int(match[3]))
            if name in self._measured and ", alone" not in match[5]:
                again.append(f"{name}: was measured already, and was measured again")
            self._measured.add(name)
        return again

    def _files(self) -> list[Path]:
        return sorted((self.folder / "records").glob("*.json"))

    def _read(self) -> dict[str, tuple[Record, str]]:
        """Records by the name of their file, with the digest of it."""
        found = {}
        for path in self._files():
            try:
                text = path.read_bytes()
                entry = record.parse(text.decode(), str(path))
            except (OSError, UnicodeDecodeError, RecordError):
                continue
            found[path.stem] = entry, hashlib.sha256(text).hexdigest()
        return found

    @staticmethod
    def _doubled(found: dict[str, tuple[Record, str]]) -> list[str]:
        """Files with another repetition's record, and measurements that stand in two records."""
        lines = [f"{name}: holds the record {entry.name}" for name, (entry, _) in found.items()
                 if entry.name != name]
        seen: dict[str, str] = {}
        for name, (entry, _) in found.items():
            what = json.dumps([entry.raw.get("stamps"), entry.raw.get("events")], sort_keys=True)
            if entry.status == "ok" and seen.setdefault(what, name) != name:
                lines.append(f"{name}: is the same measurement as {seen[what]}")
        return lines


def _is_flagged(entry: Record) -> bool:
    return bool(entry.environment.get("flags")) and not entry.environment.get("alone")
