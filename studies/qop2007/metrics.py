"""Metrics of the study, and stages that the processor must not limit."""

from __future__ import annotations

from analysis.metrics import Metric, Stage

_TIMES = "Authentication"
TRAFFIC = "Throughput and cryptographic overhead"
#: Difference of time (s) that does not matter: a thirtieth of the 0.15 s below which the paper
#: takes a delay for inaudible.
_NEGLIGIBLE_S = 0.005

AUTHENTICATION = Metric(
    "authentication_time_s", "authentication time", unit="ms", scale=1e3, short="auth",
    better="lower", negligible=_NEGLIGIBLE_S, heading=("auth.", "time"), part=_TIMES)
HANDOFF = Metric(
    "handoff_s", "handoff", unit="ms", scale=1e3, short="handoff", better="lower",
    negligible=_NEGLIGIBLE_S, heading=("hand-", "off"), part=_TIMES)
OUTAGE = Metric(
    "outage_s", "outage", unit="ms", scale=1e3, short="outage", better="lower",
    negligible=_NEGLIGIBLE_S, heading=("out-", "age"), part=_TIMES)
LOST = Metric(
    "outage_lost_packets", "lost over the move", unit="packets", short="lost", better="lower",
    negligible=1, heading=("lost", ""), part=_TIMES)
TCP_OVERHEAD = Metric("tcp_overhead_bps", "TCP overhead", unit="kbit/s", scale=1e-3,
                      better="lower", heading=("overhead", "TCP"), part=TRAFFIC)
UDP_OVERHEAD = Metric("udp_overhead_bps", "UDP overhead", unit="kbit/s", scale=1e-3,
                      better="lower", heading=("overhead", "UDP"), part=TRAFFIC)
TCP = Metric(
    "tcp_goodput_bps", "TCP goodput", unit="Mbit/s", scale=1e-6, short="tcp", better="higher",
    negligible=0.01, is_relative=True, stops=True, heading=("goodput", "TCP"), part=TRAFFIC,
    difference=TCP_OVERHEAD)
UDP = Metric(
    "udp_goodput_bps", "UDP goodput", unit="Mbit/s", scale=1e-6, short="udp", better="higher",
    negligible=0.01, is_relative=True, stops=True, heading=("goodput", "UDP"), part=TRAFFIC,
    difference=UDP_OVERHEAD)
METRICS = (AUTHENTICATION, HANDOFF, OUTAGE, LOST, TCP, UDP)
#: Metrics of streams by protocol, as tables and options name them.
STREAMS = {"tcp": TCP, "udp": UDP}
OVERHEADS = {"tcp": TCP_OVERHEAD, "udp": UDP_OVERHEAD}

#: Limits are from measurements in which the waiting of every program counts (docs/running.md).
#: Without other load, authentication waits for 0.2 to 0.3 of its time, because the kernel and its
#: programs share one processor. Beyond 0.35 it takes a fifth to two fifths longer. Goodput does not
#: depend on it.
STAGES = (
    Stage("authentication", ("start",), ("foreign_first_packet", "first_packet"), limit=0.35),
    Stage("tcp", ("tcp_start",), ("tcp_end",), limit=0.3),
    Stage("udp", ("udp_start",), ("udp_end",), limit=0.4),
)
