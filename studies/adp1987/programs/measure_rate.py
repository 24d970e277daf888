"""Measure how many messages per second of CPU time ADP can carry on this machine.

ADP is the Authenticated Datagram Protocol, here with today's cryptography. Sender and receiver are
two programs on this machine, which talk over the loopback interface. `python3 -m
studies.adp1987.programs.measure_rate [TRACE [MESSAGES]]` sends the messages of a trace (a list of
messages) as fast as possible. The rate is the number of messages divided by the CPU time of both
programs together.

It is measured twice: with queueing, where messages that are not urgent wait so that one datagram
carries many, and without. Two lines show the rates, with the CPU times of each program. No guest
and no root rights are needed.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from measure.agent.kernel_state import processor_seconds_of
from protocols.adp.keys import generate_key
from studies.adp1987 import traces
from studies.adp1987.programs.realtime import REPORT, WINDOW

_ROOT = Path(__file__).parents[3]
_OWNERS = {"alpha": ("alice", "xena"), "beta": ("bob",)}
_ADDRESSES = {"alpha": "127.0.0.1", "beta": "127.0.0.2"}
_UDP_PORT = 4988
_ROLES = {"sink": "beta", "source": "alpha"}
_PHASE = "throughput"
_MESSAGES = 100_000


class LoopbackEnd:
    """The program of the sending or the receiving host."""

    def __init__(self, folder: Path, role: str, count: int, *, queue: bool) -> None:
        host = _ROLES[role]
        _write_config(folder, host, queue=queue)
        job = folder / f"{role}-job.json"
        job.write_text(json.dumps({
            "role": role, "protocol": "adp", "seed": 1, "log": str(folder / f"{role}.json.gz"),
            "config": str(folder / f"{host}.json"), "totals": [count], "counts_from": 0,
            "counts_after": "", "window": WINDOW, "report": REPORT, "may_lose": False,
            "phases": {_PHASE: str(folder / f"{_PHASE}.json")}}))
        self._process = subprocess.Popen(
            [sys.executable, "-m", "studies.adp1987.programs.realtime", str(job)], cwd=_ROOT,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._expect_line("ready")

    def used_s(self) -> tuple[float, float]:
        """Return the user and system CPU time of the program (s) since its start."""
        return processor_seconds_of(self._process.pid)

    def run_command(self, what: str) -> None:
        """Let the program run a command, and wait until it is done.

        Raises:
            RuntimeError: the program has ended.
        """
        assert self._process.stdin is not None
        self._process.stdin.write(f"{what}\n")
        self._process.stdin.flush()
        self._expect_line(f"done {what}")

    def end(self) -> None:
        """End the program."""
        self._process.communicate()  # closes its input, and its output when that has ended

    def _expect_line(self, line: str) -> None:
        assert self._process.stdout is not None
        if self._process.stdout.readline().strip() != line:
            raise RuntimeError("a program has ended; standard error says why")


def measure_trace(folder: Path, count: int, *, queue: bool) -> dict[str, tuple[float, float]]:
    """Send a trace, and return user and system CPU time (s) of each program.

    Args:
        folder: folder with the trace and the keys.
        count: number of messages in the trace.
        queue: whether messages that are not urgent wait, so that one datagram carries many.

    Returns:
        Pairs of user and system time, by program: `source` (sender) and `sink` (receiver).
    """
    sink, source = (LoopbackEnd(folder, role, count, queue=queue) for role in _ROLES)
    try:
        source.run_command("establish")
        before = {"sink": sink.used_s(), "source": source.used_s()}
        source.run_command(_PHASE)
        after = {"sink": sink.used_s(), "source": source.used_s()}
    finally:
        source.end()
        sink.end()
    return {role: (after[role][0] - before[role][0], after[role][1] - before[role][1])
            for role in after}


def _write_config(folder: Path, host: str, *, queue: bool) -> None:
    owners = [{"name": owner, ("private_key" if place == host else "public_key"):
               f"{owner}.pem" if place == host else f"{owner}.pub.pem"}
              for place, names in _OWNERS.items() for owner in names]
    hosts = [{"name": place, "address": _ADDRESSES[place], "kernel_owner": names[0]}
             for place, names in _OWNERS.items()]
    (folder / f"{host}.json").write_text(json.dumps({
        "protocol": "adp", "host": host, "network": {"kind": "udp", "port": _UDP_PORT},
        "owners": owners, "hosts": hosts, "scope": "all", "queue": queue}))


def main(trace: str = "ALL", messages: str = str(_MESSAGES)) -> int:
    """Print the rate of messages with queueing, and without."""
    if trace not in traces.TRACES or not messages.isdigit() or not int(messages):
        sys.stderr.write("usage: python3 -m studies.adp1987.programs.measure_rate "
                         f"[{'|'.join(traces.TRACES)} [MESSAGES]]\n")
        return 2
    count = int(messages)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for owner in (owner for owners in _OWNERS.values() for owner in owners):
            generate_key("adp", folder, owner)
        (folder / f"{_PHASE}.json").write_text(json.dumps({"saturated": True, "messages": [
            (message.at_s, message.bytes, message.urgent)
            for message in traces.generate_trace(trace, count, 1)]}))
        for queue in (True, False):
            used = measure_trace(folder, count, queue=queue)
            total_s = sum(map(sum, used.values()))
            ends = "; ".join(f"{role} {user:.2f} s user, {system:.2f} s system"
                             for role, (user, system) in used.items())
            sys.stdout.write(f"{trace}, queueing {'on' if queue else 'off'}: {count / total_s:.0f} "
                             f"messages a second of a core, both ends ({ends})\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3]))
