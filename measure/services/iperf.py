"""Run TCP and UDP streams with iperf3 between nodes, and explain streams that stall.

`Iperf3` is the service that runs the servers on some nodes of a `Site` (a running network with the
settings of its run). `run_stream` takes the client's node and the server's address, and returns
iperf3's JSON report. `summarize_report` returns its goodput, bytes, duration and losses. A small
MTU may stall a stream, so `largest_packet` finds the largest packet that passes a path, and
`describe_cause` explains it.
"""

from __future__ import annotations

import json
import math
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from measure.agent.errors import MeasureError
from measure.agent.process import Daemon
from measure.agent.workload import Site
from measure.services.daemons import DaemonService
from topologies.medium_model import QUEUE_FRAMES

if TYPE_CHECKING:
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
    """Return whether an iperf3 server waits for a client, according to its output."""
    lines = [line for line in output if line.strip("-")]
    return bool(lines) and lines[-1].startswith("Server listening")


def run_stream(testbed: Testbed, node: str, address: str, *, protocol: str, size_bytes: int,
               timeout_s: float, rate_bps: float = 0, payload_bytes: int = 0) -> dict[str, Any]:
    """Send a stream from a node to an iperf3 server, and return iperf3's JSON report.

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
                 str(payload_bytes), "--pacing-timer", str(pacing_us(
                     rate_bps, payload_bytes, _queue_frames(testbed)))]
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
    """Return whether a UDP stream failed because its first datagram was lost."""
    return _UNANSWERED in error.reason


def _queue_frames(testbed: Testbed) -> int:
    """Return how many frames a station's transmit queue holds."""
    return testbed.medium.queue_frames if testbed.medium else QUEUE_FRAMES


def pacing_us(rate_bps: float, payload_bytes: int, queue_frames: int = QUEUE_FRAMES) -> int:
    """Return the interval (us) between two groups of datagrams that the UDP sender sends.

    A group usually fills half of a station's transmit queue. The other half is left to frames that
    are on the air as an aggregate. Datagrams beyond the queue are lost.
    """
    half_us = queue_frames / 2 * payload_bytes * 8 / rate_bps * 1e6
    return round(min(max(half_us, _LEAST_PACING_US), _PACING_US))


def parse_report(text: str, protocol: str) -> dict[str, Any]:
    """Parse the JSON report of iperf3.

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


def summarize_report(report: Mapping[str, Any]) -> dict[str, float]:
    """Return goodput, bytes, duration (s) and losses or retransmissions of a stream.

    They are from iperf3's JSON report. The receiver's values count: the sender's include data that
    has not arrived.
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
    """Return a TCP stream's largest segment, the bytes received, and their duration in s.

    The duration starts when the server is ready for the first byte.
    """
    largest: int = report["start"]["tcp_mss_default"]
    received = report["end"]["sum_received"]
    return largest, received["bytes"], received["seconds"]


def udp_totals(report: Mapping[str, Any]) -> tuple[int, int]:
    """Return a UDP stream's payload size in bytes, and how many datagrams were received."""
    size_bytes: int = report["start"]["test_start"]["blksize"]
    return size_bytes, report["end"]["sum_received"]["bytes"] // size_bytes


# --- Service for the iperf3 server, on the nodes where streams end ---

_LOOK_S = 0.01


class Iperf3(DaemonService):
    """The service that runs an iperf3 server on some nodes, for one stream after another."""

    name = "iperf3"

    def __init__(self, site: Site, nodes: Iterable[str]) -> None:
        super().__init__(site)
        self._nodes = list(dict.fromkeys(nodes))

    def list_nodes(self) -> Sequence[str]:
        """Return the nodes on which iperf3 servers run."""
        return self._nodes

    def wait_idle(self, node: str, within_s: float) -> None:
        """Wait until a node's iperf3 server is free for the next stream, or replace the server.

        After a broken stream, an iperf3 server waits for its client for a long time.

        Args:
            node: The server's node.
            within_s: Time until the server is replaced, in s.

        Raises:
            MeasureError: The new server is not ready in time.
        """
        until = time.monotonic() + within_s
        while time.monotonic() < until and self.daemons[node].process.poll() is None:
            if is_waiting(self.daemons[node].last_lines()):
                return
            time.sleep(_LOOK_S)
        self.daemons[node].stop()
        self.daemons[node] = self.launch_on(node).wait_ready()

    def launch_on(self, node: str) -> Daemon:
        """Start the iperf3 server of one node."""
        return start_server(self.site.testbed, node, self.site.log_path(self.name, node))


# --- The largest packet that passes a path whole ---
# It may explain a stalled stream: a bridge cannot fragment and reports no drops. So a node sends
# echo requests of several sizes that no router may fragment.

#: Headers of IPv4 and IPv6, and of ICMP, around an echo's payload (bytes).
_IPV4_BYTES, _IPV6_BYTES, _ICMP_BYTES = 20, 40, 8
#: Least MTU of any path (RFC 791), and the largest packet of a stream.
_LEAST_BYTES, _MOST_BYTES = 68, 1500
_ASKED_TIMES, _SPARE_S = 3, 5.0


def largest_packet(testbed: Testbed, node: str, address: str, within_s: float) -> int | None:
    """Return the size of the largest IP packet that gets to an address and is answered.

    Three echo requests are sent per size, each with a time limit of `within_s`. The result is None
    if not even the smallest size is answered.
    """
    header_bytes = (_IPV6_BYTES if ":" in address else _IPV4_BYTES) + _ICMP_BYTES

    def passes(size_bytes: int) -> bool:
        wait_s = max(1, math.ceil(within_s))
        argv = ["ping", "-n", "-q", "-M", "do", "-c", str(_ASKED_TIMES), "-i", "0.2",
                "-W", str(wait_s), "-s", str(size_bytes - header_bytes), address]
        return testbed.run_unchecked(node, argv, _ASKED_TIMES + wait_s + _SPARE_S).returncode == 0

    if not passes(_LEAST_BYTES):
        return None
    low, high = _LEAST_BYTES, _MOST_BYTES + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if passes(middle) else (low, middle)
    return low


def describe_cause(largest_bytes: int | None, device_bytes: int, address: str) -> str:
    """Return why a stream stalls on a small MTU, "" if the MTU is large enough.

    Args:
        largest_bytes: Result of `largest_packet`.
        device_bytes: MTU of the outgoing device.
        address: The destination.
    """
    if largest_bytes is None:
        return f"no packet comes back from {address} any more"
    if largest_bytes >= device_bytes:
        return ""
    return (f"packets of up to {largest_bytes} bytes reach {address}, and longer ones, of up to "
            f"{device_bytes}, do not: a link on the path has a smaller MTU")
