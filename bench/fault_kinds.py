"""Faults that `qop bench faults` injects into a run, and checks that no record was lost.

Examples of faults are a killed guest (virtual machine), a full disk and a damaged file. `KINDS`
lists each of them with the time at which it can be injected. The faults affect the run alone. The
disk that is filled is one that no other program uses, and the clock that is set is a guest's. Other
processes, the machine's own disk and its clock are not changed.

After a fault, `RecordTracker` finds lost and doubled records. `find_leftovers` finds processes that
still run.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import resource
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Literal

from bench import fault_injection
from guest.processes import PROC
from harness.engine import events
from harness.engine.plan import Plan
from harness.portable.folder import read_manifest_or_none
from measure.records import record
from measure.records.record import Record, RecordError

# --- Tracker of records: finds those that a fault removed or doubled ---

@dataclass(frozen=True)
class _TrackedRecord:
    digest: str
    is_flagged: bool


@dataclass
class RecordTracker:
    """A list of the good records in one results folder, to find those that a fault changed.

    `inspect_folder` compares the folder with the list. It returns a line for each record that is
    lost or doubled, under the keys "lost" and "doubled".
    """

    folder: Path
    _known: dict[str, _TrackedRecord] = field(default_factory=dict)
    _measured: set[str] = field(default_factory=set)
    _damaged: set[str] = field(default_factory=set)
    #: Number of the folder's events that were read.
    _events_read: int = 0

    @property
    def names(self) -> list[str]:
        """Return the names of all good records, sorted."""
        return sorted(self._known)

    def expect_again(self, name: str) -> None:
        """Note that a record was damaged on purpose and has to be measured again."""
        self._known.pop(name, None)
        self._measured.discard(name)
        self._damaged.add(name)

    def inspect_folder(self) -> dict[str, list[str]]:
        """Compare the records in the folder with the last inspection, and return differences."""
        records = self._read_records()
        now = {name: _TrackedRecord(digest, _is_flagged(entry)) for name, (entry, digest)
               in records.items()
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
        """Return the repetitions that were measured more than once, from new events of the run.

        A failed repetition counts as not measured. An exclusive one repeats a flagged one on
        purpose.
        """
        repeated = []
        read = list(events.read_events(self.folder / events.FILE))
        for event in read[self._events_read:]:
            if event["event"] == "repetition-recorded" and event["status"] == "ok":
                name = event["name"]
                if name in self._measured and not event["exclusive"]:
                    repeated.append(f"{name}: was measured already, and was measured again")
                self._measured.add(name)
        self._events_read = len(read)
        return repeated

    def _record_paths(self) -> list[Path]:
        return sorted((self.folder / "records").glob("*.json"))

    def _read_records(self) -> dict[str, tuple[Record, str]]:
        """Return the readable records and their SHA-256, by the name of their file."""
        records = {}
        for path in self._record_paths():
            try:
                text = path.read_bytes()
                entry = record.parse_record(text.decode(), str(path))
            except (OSError, UnicodeDecodeError, RecordError):
                continue
            records[path.stem] = entry, hashlib.sha256(text).hexdigest()
        return records

    @staticmethod
    def _find_doubled(records: dict[str, tuple[Record, str]]) -> list[str]:
        """Return files with another repetition's record, and measurements found in two records."""
        lines = [f"{name}: holds the record {entry.name}" for name, (entry, _) in records.items()
                 if entry.name != name]
        known: dict[str, str] = {}
        for name, (entry, _) in records.items():
            what = json.dumps([entry.raw.get("stamps"), entry.raw.get("events")], sort_keys=True)
            if entry.status == "ok" and known.setdefault(what, name) != name:
                lines.append(f"{name}: is the same measurement as {known[what]}")
        return lines


def _is_flagged(entry: Record) -> bool:
    return bool(entry.environment.get("flags")) and not entry.environment.get("alone")


# --- Faults: how each is injected, and when ---

#: File size limit in bytes: a record is longer, so that it is cut off in the middle.
_FILE_BYTES = 4096
_MAX_FREE_BYTES = 200_000
_ORDER_S = 6.0
_STEPS_S = (-86_400, -3600, -2, 2, 3600, 86_400)
_NOISE = b'{"schema": 2, "study": {"id": "rec'

#: Environment variables of callers that must not change what a run measures.
_VARIABLES: Sequence[Mapping[str, str]] = (
    {"LC_ALL": "C"}, {"LC_ALL": "POSIX"}, {"LC_ALL": "de_DE.ISO-8859-1"},
    {"LC_NUMERIC": "de_DE.UTF-8"}, {"LANG": "fr_FR.UTF-8"}, {"PYTHONIOENCODING": "ascii"},
    {"ANSIBLE_STDOUT_CALLBACK": "json"}, {"WIRESHARK_CONFIG_DIR": "/nonexistent"})
#: Command prefixes that take a resource away from a run.
_RESTRICTIONS: Sequence[Sequence[str]] = (
    ("prlimit", "--nofile=16"), ("prlimit", "--as=400000000"),
    ("sh", "-c", 'exec "$@" >&-', "sh"), ("sh", "-c", 'exec "$@" <&-', "sh"),
    ("sh", "-c", 'exec "$@" >/dev/full', "sh"),
    ("unshare", "--map-root-user", "--mount", "sh", "-c",
     'mount -t tmpfs -o ro none /dev/shm; exec "$@"', "sh"))

InjectionTime = Literal["between", "during", "ending", "starting"]


@dataclass
class FaultTarget:
    """A run into which faults are injected.

    - `folder`: results folder of the run, by its path on this host
    - `ledger`: list of the run's records, to find lost ones
    - `plan`: plan of the run
    - `rng`: random numbers that choose what to damage
    - `filler`: file that fills the run's disk, None if other programs share the disk
    - `run`: process id, 0 if the run is not running
    """

    folder: Path
    ledger: RecordTracker
    plan: Plan
    rng: Random
    filler: Path | None
    run: int = 0
    #: Environment variables and command prefix, for the next start only.
    variables: Mapping[str, str] = field(default_factory=dict)
    prefix: Sequence[str] = ()

    @property
    def guests(self) -> list[int]:
        """Return the process ids of the run's guests (of their kernels).

        A kernel's command line has the number of radios, as an option of mac80211_hwsim.
        """
        return self._find_children(b"mac80211_hwsim")

    @property
    def dissectors(self) -> list[int]:
        """Return the ids of the run's processes that dissect captures.

        They are those that Python's multiprocessing has started (`spawn_main`).
        """
        return self._find_children(b"spawn_main")

    @property
    def trackers(self) -> list[int]:
        """Return the ids of Python's resource trackers (of semaphores) in the run."""
        return self._find_children(b"resource_tracker")

    @property
    def mergers(self) -> list[int]:
        """Return the process ids of mergecap, which the run starts to dissect captures."""
        return [pid for parent in self.dissectors for pid in _children_of(parent)
                if b"mergecap" in _command_line(pid)]

    def _find_children(self, word: bytes) -> list[int]:
        return [pid for pid in _children_of(self.run) if word in _command_line(pid)]


@dataclass(frozen=True)
class FaultKind:
    """A kind of fault to inject into a run, such as a killed guest.

    `inject` returns whether there was a target for it. `when` is the time of the fault: between two
    runs, during a run that is to continue, or during a run that the fault ends.
    """

    name: str
    when: InjectionTime
    inject: Callable[[FaultTarget], bool]


def _children_of(pid: int) -> Iterator[int]:
    with contextlib.suppress(OSError):
        for task in (PROC / str(pid) / "task").iterdir():
            yield from map(int, (task / "children").read_text().split())


def _command_line(pid: int) -> bytes:
    """Return a process's command line, which is empty once the process has ended."""
    with contextlib.suppress(OSError):
        return (PROC / str(pid) / "cmdline").read_bytes()
    return b""


def _send_signal(number: signal.Signals) -> Callable[[FaultTarget], bool]:
    def send(target: FaultTarget) -> bool:
        with contextlib.suppress(ProcessLookupError):
            os.kill(target.run, number)
            return True
        return False
    return send


def _kill_one_of(pids: list[int], rng: Random, number: signal.Signals) -> bool:
    with contextlib.suppress(ProcessLookupError):
        if pids:
            os.kill(rng.choice(pids), number)
            return True
    return False


def _kill_guest(target: FaultTarget) -> bool:
    return _kill_one_of(target.guests, target.rng, signal.SIGKILL)


def _kill_dissector(target: FaultTarget) -> bool:
    return _kill_one_of(target.dissectors, target.rng, signal.SIGKILL)


def _kill_tracker(target: FaultTarget) -> bool:
    return _kill_one_of(target.trackers, target.rng, signal.SIGKILL)


def _kill_merger(target: FaultTarget) -> bool:
    """Kill a mergecap process. Each runs for a fraction of a second, so poll often."""
    until = time.monotonic() + _ORDER_S
    while time.monotonic() < until and (PROC / str(target.run)).exists():
        if _kill_one_of(target.mergers, target.rng, signal.SIGKILL):
            return True
        time.sleep(0.002)
    return False


def _change_environment(target: FaultTarget) -> bool:
    target.variables = target.rng.choice(_VARIABLES)
    return True


def _set_restrictions(target: FaultTarget) -> bool:
    target.prefix = target.rng.choice(_RESTRICTIONS)
    return True


def _hang_guest(target: FaultTarget) -> bool:
    """Stop one guest of the run forever.

    Two kinds of guests are left out: those that the run itself has stopped, because it would
    continue them soon, and those that have not started to measure, because the run waits for them
    for a minute.
    """
    running = [pid for pid in target.guests
               if fault_injection.is_measuring(pid) and not _is_stopped(pid)]
    return _kill_one_of(running, target.rng, signal.SIGSTOP)


def _is_stopped(pid: int) -> bool:
    with contextlib.suppress(OSError, IndexError):
        return (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()[0] in "TZX"
    return True


def _kill_daemon(target: FaultTarget) -> bool:
    """Kill one running daemon in a guest."""
    daemons = target.rng.sample(fault_injection.DAEMONS, len(fault_injection.DAEMONS))
    return _send_order(target, fault_injection.kill_daemon(daemons))


def _step_clock(target: FaultTarget) -> bool:
    return _send_order(target, fault_injection.step_clock(target.rng.choice(_STEPS_S)))


def _send_order(target: FaultTarget, text: str) -> bool:
    guests = [pid for pid in target.guests if fault_injection.is_listening(pid)]
    return bool(guests) and fault_injection.send_order_to_guest(target.rng.choice(guests), text,
                                                                _ORDER_S)


def _limit_files(target: FaultTarget) -> bool:
    """Limit the size of files that the run can write, like an exceeded quota."""
    with contextlib.suppress(ProcessLookupError):
        _, hard = resource.prlimit(target.run, resource.RLIMIT_FSIZE)
        resource.prlimit(target.run, resource.RLIMIT_FSIZE, (_FILE_BYTES, hard))
        return True
    return False


def _fill_disk(target: FaultTarget) -> bool:
    """Fill the run's disk if no other program uses it, or else limit the size of the run's files.

    Up to 200 kB stay free.
    """
    if target.filler is None:
        return _limit_files(target)
    state = os.statvfs(target.folder.parent)
    size = state.f_bavail * state.f_frsize - target.rng.randrange(_MAX_FREE_BYTES)
    if size <= 0:
        return False
    descriptor = os.open(target.filler, os.O_WRONLY | os.O_CREAT)
    try:
        os.posix_fallocate(descriptor, 0, size)
    except OSError:
        return True  # the run was quicker: the disk is full
    finally:
        os.close(descriptor)
    return True


def _damage_record(target: FaultTarget) -> bool:
    if not target.ledger.names:
        return False
    name = target.rng.choice(target.ledger.names)
    target.ledger.expect_again(name)
    _damage_file(target.folder / "records" / f"{name}.json", target.rng)
    return True


def _damage_plan(target: FaultTarget) -> bool:
    path = target.folder / "plan.json"
    if not path.exists():
        return False
    _damage_file(path, target.rng)
    return True


def remove_damaged_plan(folder: Path) -> None:
    """Remove a damaged plan.json, as the error message about it advises."""
    if (folder / "plan.json").exists() and read_manifest_or_none(folder) is None:
        (folder / "plan.json").unlink()


def _damage_file(path: Path, rng: Random) -> None:
    """Damage a file: truncate it, empty it, or replace its content by random bytes."""
    content = path.read_bytes()
    path.write_bytes(rng.choice([content[:rng.randrange(len(content) - 2)], b"", b"\xff\x00",
                                 b"null"]))


def _leave_files(target: FaultTarget) -> bool:
    """Create the incomplete files that a killed run may leave, one of each kind."""
    step = target.rng.choice(target.plan.all_steps())
    (target.folder / "records").mkdir(parents=True, exist_ok=True)
    (target.folder / "records" / f".{step.name}.4711.tmp").write_bytes(_NOISE)
    for name in (".plan.json.4711.tmp", ".provenance.json.4711.tmp", "events.jsonl"):
        with (target.folder / name).open("ab") as file:
            file.write(_NOISE)
    if step.name not in target.ledger.names:
        captures = target.folder / "captures" / step.name
        captures.mkdir(parents=True, exist_ok=True)
        (captures / "part-air.pcap.gz").write_bytes(b"\x1f\x8b\x08")
    testbed = f"1-{target.plan.testbed_of(step.cell)}"
    job = target.folder / "work" / "jobs" / testbed / "out" / step.name
    job.mkdir(parents=True, exist_ok=True)
    (job / "raw.json").write_bytes(_NOISE)
    return True


#: Longest time in seconds that a run may continue after a fault that ends it.
ENDING_S = 40.0
KINDS = (
    FaultKind("orchestrator killed", "ending", _send_signal(signal.SIGKILL)),
    FaultKind("orchestrator terminated", "ending", _send_signal(signal.SIGTERM)),
    FaultKind("orchestrator interrupted", "ending", _send_signal(signal.SIGINT)),
    FaultKind("interrupted at its start", "starting", _send_signal(signal.SIGINT)),
    FaultKind("disk full", "ending", _fill_disk),
    FaultKind("file size limit", "ending", _limit_files),
    FaultKind("guest killed", "during", _kill_guest),
    FaultKind("guest hung", "during", _hang_guest),
    FaultKind("daemon in guest killed", "during", _kill_daemon),
    FaultKind("clock of guest set", "during", _step_clock),
    FaultKind("dissector killed", "during", _kill_dissector),
    FaultKind("resource tracker killed", "during", _kill_tracker),
    FaultKind("mergecap killed", "during", _kill_merger),
    FaultKind("caller's environment", "between", _change_environment),
    FaultKind("caller's restrictions", "between", _set_restrictions),
    FaultKind("record damaged", "between", _damage_record),
    FaultKind("plan damaged", "between", _damage_plan),
    FaultKind("leftover files", "between", _leave_files),
)


def find_leftovers(folder: Path, patience_s: float = 5.0) -> list[str]:
    """Return the ids and command lines of processes that still use a folder.

    Wait up to `patience_s` seconds for them to end.
    """
    until = time.monotonic() + patience_s
    while (working := _working_in(str(folder))) and time.monotonic() < until:
        time.sleep(0.05)
    return working


def _working_in(folder: str) -> list[str]:
    working = []
    for entry in PROC.iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        with contextlib.suppress(OSError):
            line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            place = os.readlink(entry / "cwd")
            if f"{folder}/" in f"{line}/" or place.startswith(folder):
                working.append(f"{entry.name}: {line or place}")
    return working
