"""Send or receive the messages of a trace as a program, in real time or over the air.

The study adp1987 compares ADP (Authenticated Datagram Protocol) with UDP, WireGuard and ESP by it.
A trace is a list of messages with their times. The command is `python3 -m
studies.adp1987.programs.realtime JOB.json`. The sender (source) follows commands on standard input.
The receiver (sink) counts messages, and reports the count to the sender. The sender never sends
more than the buffers can hold. Both write a log of messages and times when standard input ends.

If messages may be lost (`may_lose`), the sender waits for reports only briefly. Then the receiver
logs how many messages have arrived when a command says that a phase is over.
"""

from __future__ import annotations

import gzip
import json
import os
import sys
import time
import zlib
from pathlib import Path
from typing import Any

from studies.adp1987.programs.carriers import Carrier, make_carrier, wait_for_events
from studies.adp1987.programs.endpoint import sharpen_timers
from studies.adp1987.traces import Payload

#: Largest number of messages and of bytes on the way.
WINDOW = (128, 65_536)
#: Number of messages and of bytes after which the receiver reports.
REPORT = (32, 16_384)
_COUNT_BYTES = 4
_PATIENCE_S = 20.0
_QUIET_S = 0.2
#: Time after which the messages of a window have arrived or are lost (s).
_LOST_S = 0.5
#: Time after which the last messages have arrived or are lost (s).
_LATE_S = 3.0


class TraceSource:
    """A sender of a trace's messages in several phases.

    The number of a message determines its data.
    """

    def __init__(self, job: dict[str, Any], carrier: Carrier) -> None:
        self._job, self._carrier = job, carrier
        self._payload = Payload(job["seed"])
        self.log: dict[str, Any] = {"phases": {}}
        self._sent = self._counted = 0
        #: Time that the network adds to every wait (s).
        self._added_s = float(job.get("added_s", 0.0))

    def prepare_carrier(self) -> None:
        """Set up keys before the first message. If this takes too long, a check will show it."""
        self._carrier.establish()
        self._serve_for(_QUIET_S + self._added_s)
        until_s = time.monotonic() + _PATIENCE_S + 10 * self._added_s
        while not self._carrier.is_established() and time.monotonic() < until_s:
            wait_for_events(self._carrier, until_s)
            self._receive_counts()

    def drain_counts(self) -> None:
        """Read the receiver's remaining reports about the previous phase."""
        self._serve_for(_QUIET_S + self._added_s)

    def begin_anew(self) -> None:
        """Restart the ADP host, which then sets up another channel (injected fault)."""
        self._carrier.begin_anew()  # type: ignore[attr-defined]
        self._serve_for(_QUIET_S + self._added_s)

    def replay_phase(self, name: str) -> None:
        """Send the messages of a phase, at their own times or as fast as the receiver counts."""
        phase = json.loads(Path(self._job["phases"][name]).read_text())
        messages, base = phase["messages"], self._counted
        start_s = time.monotonic()
        due_ns = self._replay_saturated(messages) if phase["saturated"] else self._replay_paced(
            messages, start_s)
        if not self._job["may_lose"]:
            self._wait_for_count(base + len(messages))
        self.log["phases"][name] = {"due_ns": due_ns}
        self._serve_for((_LATE_S if self._job["may_lose"] else _QUIET_S) + self._added_s)

    def _replay_paced(self, messages: list[Any], start_s: float) -> list[int]:
        for number, (at_s, size, urgent) in enumerate(messages):
            self._serve_for(start_s + at_s - time.monotonic())
            self._send_message(number, size, time.monotonic(), urgent=urgent)
        return [round((start_s + at_s) * 1e9) for at_s, _, _ in messages]

    def _replay_saturated(self, messages: list[Any]) -> list[int]:
        """Send messages as fast as the receiver counts them, and return when each was sent (ns).

        The messages and bytes on the way never exceed the window. If a report does not come in
        time, all messages on the way count as lost.
        """
        handed, ends, total, given_up = [], [0], 0, 0
        base, (most, most_bytes) = self._counted, self._job["window"]
        for number, (_, size, urgent) in enumerate(messages):
            while True:
                over = min(number, self._counted - base + given_up)
                if number - over < most and total - ends[over] + size <= most_bytes:
                    break
                if not self._wait_for_report():
                    given_up = number - (self._counted - base)
            now_s = time.monotonic()
            handed.append(round(now_s * 1e9))
            self._send_message(number, size, now_s, urgent=urgent)
            total += size
            ends.append(total)
        return handed

    def _send_message(self, number: int, size: int, now_s: float, *, urgent: bool) -> None:
        self._carrier.send(self._payload.message_data(number, size), now_s, urgent=urgent)
        self._sent += 1
        self._carrier.tick(now_s)

    def _wait_for_count(self, count: int) -> None:
        """Wait until the receiver has counted this many messages."""
        while self._counted < count:
            self._wait_for_report()

    def _wait_for_report(self) -> bool:
        """Wait for the receiver's report, and return whether it arrived in time.

        Raises:
            TimeoutError: no report arrived, although messages cannot be lost.
        """
        may_lose, before = self._job["may_lose"], self._counted
        until_s = time.monotonic() + (_LOST_S if may_lose else _PATIENCE_S) + self._added_s
        while self._counted == before:
            wait_for_events(self._carrier, until_s)
            self._receive_counts()
            if time.monotonic() >= until_s:
                if may_lose:
                    return False
                raise TimeoutError(f"{self._sent - self._counted} of {self._sent} messages did "
                                   "not arrive")
        return True

    def _serve_for(self, seconds: float) -> None:
        until_s = time.monotonic() + seconds
        while time.monotonic() < until_s:
            wait_for_events(self._carrier, until_s)
            self._receive_counts()

    def _receive_counts(self) -> None:
        for data in self._carrier.receive():
            self._counted = max(self._counted, int.from_bytes(data[:_COUNT_BYTES]))


class TraceCounter:
    """A receiver that logs each message with its time, and reports counts to the sender.

    `totals` are the counts at which phases are over.
    """

    def __init__(self, job: dict[str, Any], carrier: Carrier) -> None:
        self._carrier = carrier
        self._totals = set(job["totals"])
        self._counts_from, self._counts_after = job["counts_from"], job["counts_after"]
        self._report_messages, self._report_bytes = job["report"]
        self.log: dict[str, Any] = {"delivered": [], "ends": {}}
        self._reported = self._bytes = 0

    def serve_until_end(self) -> None:
        """Receive messages, and log the ends of phases, until standard input ends."""
        while True:
            if wait_for_events(self._carrier, None, [sys.stdin]):
                name = sys.stdin.readline().strip()
                if not name:
                    return
                self._end_phase(name)
            self._receive_messages()

    def _end_phase(self, phase: str) -> None:
        """Log and report how many messages arrived until the end of a phase.

        After the phase `counts_after`, the receiver reports regularly, because the sender waits for
        reports.
        """
        self._receive_messages()
        count = self.log["ends"][phase] = len(self.log["delivered"])
        if phase == self._counts_after:
            self._counts_from = count
        self._report_count(count, time.monotonic())
        print(f"done {phase}", flush=True)

    def _receive_messages(self) -> None:
        """Log all messages that have arrived, and report the count to the sender when it is due."""
        arrived = self._carrier.receive()
        now_s, delivered = time.monotonic(), self.log["delivered"]
        at_ns = round(now_s * 1e9)
        for data in arrived:
            delivered.append((at_ns, len(data), zlib.crc32(data)))
            self._bytes += len(data)
            count = len(delivered)
            # A report is due at the end of a phase, and else after enough messages or bytes.
            if count in self._totals or (count > self._counts_from and (
                    count - self._reported >= self._report_messages
                    or self._bytes >= self._report_bytes)):
                self._report_count(count, now_s)

    def _report_count(self, count: int, now_s: float) -> None:
        self._carrier.send(count.to_bytes(_COUNT_BYTES), now_s, urgent=True)
        self._reported, self._bytes = count, 0


def main(path: str) -> int:
    """Run the sender or the receiver until standard input ends, and write its log."""
    job: dict[str, Any] = json.loads(Path(path).read_text())
    sharpen_timers()
    # SCHED_BATCH: a process that a message wakes does not preempt its sender on the shared
    # processor.
    os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
    carrier = make_carrier(job)
    print("ready", flush=True)
    if job["role"] == "sink":
        counter = TraceCounter(job, carrier)
        counter.serve_until_end()
        log = counter.log
        if job.get("is_false"):  # negative control: the last message is not logged
            log["ends"][max(log["ends"], key=log["ends"].__getitem__)] -= 1
            log["delivered"].pop()
    else:
        source = TraceSource(job, carrier)
        commands = {"establish": source.prepare_carrier, "quiet": source.drain_counts,
                    "begin-anew": source.begin_anew}
        for line in sys.stdin:
            name = line.strip()
            if name in commands:
                commands[name]()
            else:
                source.replay_phase(name)
            print(f"done {line.strip()}", flush=True)
        log = source.log
    log |= {"notes": getattr(carrier, "notes", []), "keys": getattr(carrier, "keys", [])}
    Path(job["log"]).write_bytes(gzip.compress(json.dumps(log).encode(), mtime=0))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
