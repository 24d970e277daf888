"""Run TCP and UDP streams with iperf3, and evaluate its JSON report."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from measure.errors import MeasureError
from measure.process import Daemon
from topologies.timing import QUEUE_FRAMES

if TYPE_CHECKING:  # the builder needs Mininet, which only the machine has
    from topologies.builder import Testbed

PORT = 5201
#: Error of iperf3's client if the answer to its first datagram is missing. One of both was lost,
#: and the client tries only once.
_UNANSWERED = "unable to read from stream socket"
# Interval of the UDP sender's pacing timer in us, and datagrams per burst. The default of iperf3 is
# one datagram per 1 ms, which is shorter than a datagram's time on the air of 802.11b. That
# interval costs more system calls than the rest of the stream.
_PACING_US, _LEAST_PACING_US = 10_000, 1_000
_BURST = 3


def start_server(testbed: Testbed, node: str, log: Path) -> Daemon:
    """Start an iperf3 server on a node, which serves one stream after another."""
    argv = testbed.node_command(node, ["iperf3", "--server", "--forceflush",
                                       "--port", str(PORT)])
    return Daemon(f"iperf3 server on {node}", argv, log, r"Server listening")


def is_waiting(output: Sequence[str]) -> bool:
    """Return whether a server with this output waits for a client."""
    said = [line for line in output if line.strip("-")]
    return bool(said) and said[-1].startswith("Server listening")


def run_stream(testbed: Testbed, node: str, address: str, *, protocol: str, size_bytes: int,
               timeout_s: float, rate_bps: float = 0, payload_bytes: int = 0) -> dict[str, Any]:
    """Send a stream from a node to a server and return iperf3's JSON report.

    Args:
        testbed: The running testbed.
        node: The client's node.
        address: The server's address.
        protocol: "tcp" or "udp".
        size_bytes: Bytes to send.
        timeout_s: Time limit in s.
        rate_bps: Bit rate in bit/s (UDP only).
        payload_bytes: UDP payload of a datagram in bytes (UDP only).

    Raises:
        MeasureError: iperf3 failed or did not end in time.
    """
    argv = ["iperf3", "--client", address, "--port", str(PORT), "--json", "--bytes",
            str(size_bytes)]
    if protocol == "udp":
        argv += ["--udp", "--bitrate", f"{round(rate_bps)}/{_BURST}", "--length",
                 str(payload_bytes), "--pacing-timer", str(pacing_us(rate_bps, payload_bytes))]
    try:
        done = subprocess.run(
            testbed.node_command(node, argv, library=testbed.for_streams if protocol == "tcp"
                                 else ""),
            capture_output=True, text=True, timeout=timeout_s, check=False)
    except subprocess.TimeoutExpired:
        raise MeasureError("stream", f"{protocol.upper()} stream of {size_bytes} bytes from {node} "
                           f"did not end within {timeout_s:.3g} s") from None
    return parse_report(done.stdout, protocol)


def is_unanswered(error: MeasureError) -> bool:
    """Return whether a UDP stream did not start because its first datagram was lost."""
    return _UNANSWERED in error.reason


def pacing_us(rate_bps: float, payload_bytes: int) -> int:
    """Return the interval of the UDP sender's pacing timer in us.

    The datagrams due after this interval fill half of a station's queue. The other half is on the
    air, where frames are aggregated. Datagrams beyond the queue are lost.
    """
    half_us = QUEUE_FRAMES / 2 * payload_bytes * 8 / rate_bps * 1e6
    return round(min(max(half_us, _LEAST_PACING_US), _PACING_US))


def parse_report(text: str, protocol: str) -> dict[str, Any]:
    """Parse iperf3's JSON report.

    Raises:
        MeasureError: iperf3 failed; the text quotes its message.
    """
    try:
        report: Any = json.loads(text)
    except json.JSONDecodeError:
        raise MeasureError("stream", f"{protocol.upper()} stream: iperf3 gave no JSON but "
                           f"{text[:80]!r}") from None
    if isinstance(report, dict) and "error" in report:
        raise MeasureError("stream", f"{protocol.upper()} stream: iperf3 says "
                           f"'{report['error']}'")
    if not isinstance(report, dict) or "sum_received" not in (report.get("end") or {}):
        raise MeasureError("stream", f"{protocol.upper()} stream: iperf3's report has no end")
    return report


def summarize(report: Mapping[str, Any]) -> dict[str, float]:
    """Return goodput, bytes, duration (s) and losses or retransmissions of a report.

    The receiver's values count: the sender's include data that has not arrived.
    """
    received = report["end"]["sum_received"]
    sent = report["end"]["sum_sent"]
    result = {"bytes": received["bytes"], "duration_s": received["seconds"],
              "goodput_bps": received["bytes"] * 8 / received["seconds"]
              if received["seconds"] else 0.0,
              "sent_bytes": sent["bytes"], "sent_duration_s": sent["seconds"]}
    if "retransmits" in sent:
        result["retransmits"] = sent["retransmits"]
    if "lost_packets" in received:
        result["lost_packets"] = received["lost_packets"]
        result["packets"] = received["packets"]
        result["jitter_s"] = received["jitter_ms"] / 1e3
    return result


def tcp_totals(report: Mapping[str, Any]) -> tuple[int, int, float]:
    """Return largest TCP segment, bytes received by the server, and their duration in s.

    The duration starts when the server is ready for the first byte.
    """
    largest: int = report["start"]["tcp_mss_default"]
    received = report["end"]["sum_received"]
    return largest, received["bytes"], received["seconds"]


def udp_totals(report: Mapping[str, Any]) -> tuple[int, int]:
    """Return the UDP payload size in bytes, and the datagrams that the server received."""
    size_bytes: int = report["start"]["test_start"]["blksize"]
    return size_bytes, report["end"]["sum_received"]["bytes"] // size_bytes
