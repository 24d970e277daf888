"""Kinds of faults: the effect of each on a run, and when it can be injected.

No fault touches the machine itself: its clock, its disk and other processes stay as they are.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Literal

from guest.processes import PROC
from harness.engine.plan import Plan
from harness.portable.reading import readable_manifest
from harness.selftest import sabotage
from harness.selftest.ledger import Ledger

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

When = Literal["between", "during", "ending", "starting"]


@dataclass
class Target:
    """A run that faults are injected into.

    `folder` is its results folder as seen from here, `run` its process id (0: not running).
    `filler` is a file that fills its disk, None if the disk is shared with other programs.
    """

    folder: Path
    ledger: Ledger
    plan: Plan
    rng: Random
    filler: Path | None
    run: int = 0
    #: Environment variables and command prefix, for the next start only.
    variables: Mapping[str, str] = field(default_factory=dict)
    prefix: Sequence[str] = ()

    @property
    def guests(self) -> list[int]:
        """Return the process ids of the guests' kernels."""
        return self._find_children(b"mac80211_hwsim")

    @property
    def dissectors(self) -> list[int]:
        """Return the process ids of the dissectors of captures."""
        return self._find_children(b"spawn_main")

    @property
    def trackers(self) -> list[int]:
        """Return the process ids of Python's resource trackers, which look after semaphores."""
        return self._find_children(b"resource_tracker")

    @property
    def mergers(self) -> list[int]:
        """Return the process ids of mergecap, which dissectors start."""
        return [pid for parent in self.dissectors for pid in _children_of(parent)
                if b"mergecap" in _command_line(pid)]

    def _find_children(self, word: bytes) -> list[int]:
        return [pid for pid in _children_of(self.run) if word in _command_line(pid)]


@dataclass(frozen=True)
class FaultKind:
    """A kind of fault. `inject` returns whether there was a target for it.

    `when` is the time of the fault: between two runs, during a run that is to continue, or during
    a run that the fault ends.
    """

    name: str
    when: When
    inject: Callable[[Target], bool]


def _children_of(pid: int) -> Iterator[int]:
    with contextlib.suppress(OSError):
        for task in (PROC / str(pid) / "task").iterdir():
            yield from map(int, (task / "children").read_text().split())


def _command_line(pid: int) -> bytes:
    """Return a process's command line, which is empty once the process has ended."""
    with contextlib.suppress(OSError):
        return (PROC / str(pid) / "cmdline").read_bytes()
    return b""


def _send_signal(number: signal.Signals) -> Callable[[Target], bool]:
    def send(target: Target) -> bool:
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


def _kill_guest(target: Target) -> bool:
    return _kill_one_of(target.guests, target.rng, signal.SIGKILL)


def _kill_dissector(target: Target) -> bool:
    return _kill_one_of(target.dissectors, target.rng, signal.SIGKILL)


def _kill_tracker(target: Target) -> bool:
    return _kill_one_of(target.trackers, target.rng, signal.SIGKILL)


def _kill_merger(target: Target) -> bool:
    """Kill a mergecap process. Each runs for a fraction of a second, so poll often."""
    until = time.monotonic() + _ORDER_S
    while time.monotonic() < until and (PROC / str(target.run)).exists():
        if _kill_one_of(target.mergers, target.rng, signal.SIGKILL):
            return True
        time.sleep(0.002)
    return False


def _change_environment(target: Target) -> bool:
    target.variables = target.rng.choice(_VARIABLES)
    return True


def _set_restrictions(target: Target) -> bool:
    target.prefix = target.rng.choice(_RESTRICTIONS)
    return True


def _hang_guest(target: Target) -> bool:
    """Stop one guest forever.

    A guest that the run itself has stopped is left out, because the run would continue it soon. So
    is a guest that has not started to measure, for which a run waits a minute.
    """
    running = [pid for pid in target.guests
               if sabotage.is_measuring(pid) and not _is_stopped(pid)]
    return _kill_one_of(running, target.rng, signal.SIGSTOP)


def _is_stopped(pid: int) -> bool:
    with contextlib.suppress(OSError, IndexError):
        return (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()[0] in "TZX"
    return True


def _kill_daemon(target: Target) -> bool:
    """Kill one running daemon in a guest."""
    daemons = target.rng.sample(sabotage.DAEMONS, len(sabotage.DAEMONS))
    return _send_order(target, sabotage.kill_daemon(daemons))


def _step_clock(target: Target) -> bool:
    return _send_order(target, sabotage.step_clock(target.rng.choice(_STEPS_S)))


def _send_order(target: Target, text: str) -> bool:
    guests = [pid for pid in target.guests if sabotage.is_listening(pid)]
    return bool(guests) and sabotage.run_in_guest(target.rng.choice(guests), text, _ORDER_S)


def _limit_files(target: Target) -> bool:
    """Limit the file size of the run, which has the effect of an exhausted quota."""
    with contextlib.suppress(ProcessLookupError):
        _, hard = resource.prlimit(target.run, resource.RLIMIT_FSIZE)
        resource.prlimit(target.run, resource.RLIMIT_FSIZE, (_FILE_BYTES, hard))
        return True
    return False


def _fill_disk(target: Target) -> bool:
    """Fill nearly all of the run's disk, if it has a private one."""
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


def _damage_record(target: Target) -> bool:
    if not target.ledger.names:
        return False
    name = target.rng.choice(target.ledger.names)
    target.ledger.expect_again(name)
    _damage_file(target.folder / "records" / f"{name}.json", target.rng)
    return True


def _damage_plan(target: Target) -> bool:
    path = target.folder / "plan.json"
    if not path.exists():
        return False
    _damage_file(path, target.rng)
    return True


def mend_plan(folder: Path) -> None:
    """Remove a damaged plan, as the error message about it advises."""
    if (folder / "plan.json").exists() and readable_manifest(folder) is None:
        (folder / "plan.json").unlink()


def _damage_file(path: Path, rng: Random) -> None:
    """Truncate a file, empty it, or replace its content by noise."""
    whole = path.read_bytes()
    path.write_bytes(rng.choice([whole[:rng.randrange(len(whole) - 2)], b"", b"\xff\x00",
                                  b"null"]))


def _leave_files(target: Target) -> bool:
    """Leave the files of a run that was killed at the worst moment.

    A part of each kind of file is left.
    """
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
    """Return ids and command lines of processes that still work in a folder.

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
