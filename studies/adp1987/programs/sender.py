"""Send the messages of a trace by ADP as a program, and log their times.

ADP is the Authenticated Datagram Protocol of 1987. A trace is a list of messages with their times.
The study adp1987 starts `python3 -m studies.adp1987.programs.sender JOB.json` on the sending host.
The name of a phase on standard input starts it, such as `latency` (the trace at its own times) or
`throughput` (as fast as possible). A line on standard output reports its end. The log is written
when standard input ends. `receiver` is the other end.
"""

from __future__ import annotations

import gzip
import json
import socket
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from protocols.adp.effects import Effect, Message, ProgramEvent, SendCause, SendFrame
from studies.adp1987.fault_injection import FALSE_LOG
from studies.adp1987.programs.endpoint import PacedEndpoint, read_job
from studies.adp1987.traces import Payload, TraceMessage

#: Time in which all datagrams arrive (s); in virtual time waiting costs nothing.
_QUIET_S = 3.0
_ESTABLISH_S = 20.0
_BESIDE_BYTES = 64


class TraceReplay:
    """The sending host, which replays the messages of a trace through ADP."""

    def __init__(self, job: dict[str, Any]) -> None:
        self._job = job
        self._payload = Payload(job["seed"])
        self.log: dict[str, Any] = {"phases": {}, "errors": []}
        self._shipped: list[tuple[int, int, int, str]] = []
        self.endpoint = PacedEndpoint(job, self._log_effect)

    def establish_channel(self) -> None:
        """Set up a secure channel, and authenticate the user to the receiving host."""
        endpoint = self.endpoint
        endpoint.processor.advance_to(time.monotonic_ns())
        endpoint.perform_effects(endpoint.host.open_channel("beta", [self._job["owner"]],
                                                            endpoint.now_s))
        # Time for the request, the signature and its confirmation.
        self._serve_for(_ESTABLISH_S)

    def replay_trace(self, name: str, trace: Sequence[TraceMessage], *, saturated: bool) -> None:
        """Send the messages of a trace, at their own times or as fast as possible.

        Args:
            name: name of the phase in the log.
            trace: messages in order.
            saturated: send each message as soon as the previous one is taken.
        """
        endpoint, processor = self.endpoint, self.endpoint.processor
        self._shipped = []
        handed, busy_ns = [], processor.busy_ns
        processor.advance_to(time.monotonic_ns())
        start_ns = processor.now_ns
        for number, message in enumerate(trace):
            due_ns = processor.now_ns
            if saturated:
                endpoint.tick()
            else:
                due_ns = start_ns + round(message.at_s * 1e9)
                endpoint.serve_until(due_ns)
            processor.charge_operation("user-message-send")
            at_ns = processor.settle_charges()
            handed.append((due_ns - start_ns, at_ns - start_ns))
            data = self._payload.message_data(number, message.bytes)
            endpoint.perform_effects(endpoint.host.send(Message(
                self._job["owner"], "beta", "bob", 7, data, urgent=message.urgent),
                endpoint.now_s))
        while sum(messages for _, _, messages, _ in self._shipped) < len(trace):
            last_ns = endpoint.due_ns()
            if last_ns is None:
                break
            endpoint.serve_until(max(last_ns, processor.now_ns + 1))
        end_ns = processor.now_ns
        self.wait_for_arrivals()
        self.log["phases"][name] = {
            "start_ns": start_ns, "handed_ns": handed, "busy_ns": processor.busy_ns - busy_ns,
            "lasted_ns": end_ns - start_ns,
            "shipped": [(at - start_ns, size, count, cause)
                        for at, size, count, cause in self._shipped]}

    def restart_session(self) -> None:
        """Restart the host, so that it sets up another channel (injected fault)."""
        self.endpoint.start_session()

    def send_outside_channel(self) -> None:
        """Send 64 bytes of data by UDP, outside of the secure channel (injected fault)."""
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
            other.sendto(self._payload.message_data(0, _BESIDE_BYTES),
                         (self._job["peer_address"], 7))
        time.sleep(_QUIET_S)

    def falsify_log(self) -> None:
        """Merge two datagrams of the second phase into one in the log (injected fault)."""
        shipped = self.log["phases"]["latency"]["shipped"]
        (at_ns, size, count, cause), (_, further, more, _) = shipped[:2]
        shipped[:2] = [(at_ns, size + further, count + more, cause)]

    def resend_all(self) -> None:
        """Send all recorded datagrams again, without reading answers (injected fault)."""
        self.endpoint.datagrams.resend_all()
        time.sleep(_QUIET_S)

    def contact_mid(self) -> None:
        """Let the user send a message to host mid, the attacker (injected fault)."""
        message = Message(self._job["owner"], "mid", "mallory", 7, b"good morning", urgent=True)
        self.endpoint.processor.advance_to(time.monotonic_ns())
        self.endpoint.perform_effects(self.endpoint.host.send(message, self.endpoint.now_s))
        self._serve_for(_ESTABLISH_S)

    def wait_for_arrivals(self) -> None:
        """Wait until all datagrams on the way have arrived."""
        self._serve_for(_QUIET_S)

    def _serve_for(self, seconds: float) -> None:
        self.endpoint.serve_until(self.endpoint.processor.now_ns + round(seconds * 1e9))

    def _log_effect(self, effect: Effect, _: int) -> None:
        if isinstance(effect, SendFrame) and effect.cause is not SendCause.CONTROL:
            self._shipped.append((self.endpoint.datagrams.sent_ns, len(effect.payload),
                                  effect.messages, str(effect.cause)))
        elif isinstance(effect, ProgramEvent):
            if effect.event == "opened" and effect.fields["host"] == "beta":
                self.log["establishment_ns"] = round(effect.fields["after_s"] * 1e9)
            if effect.event in ("dropped", "refused", "unreachable", "error"):
                self.log["errors"].append([effect.event, effect.fields])


def main(path: str) -> int:
    """Run the sender until standard input ends, and write its log."""
    job = read_job(path)
    sender = TraceReplay(job)
    commands = {"establish": sender.establish_channel, "again": sender.resend_all,
                "lure": sender.contact_mid,
                "rest": sender.wait_for_arrivals, "crash": sender.restart_session,
                "beside": sender.send_outside_channel}
    print("ready", flush=True)
    for line in sys.stdin:
        name = line.strip()
        if name in commands:
            commands[name]()
        else:
            phase = json.loads(Path(job["phases"][name]).read_text())
            sender.replay_trace(name, [TraceMessage(*arrival) for arrival in phase["messages"]],
                                saturated=phase["saturated"])
        print(f"done {name}", flush=True)
    if job.get("fault") == FALSE_LOG:
        sender.falsify_log()
    sender.log["off_time"] = sender.endpoint.off_time
    Path(job["log"]).write_bytes(gzip.compress(json.dumps(sender.log).encode(), mtime=0))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
