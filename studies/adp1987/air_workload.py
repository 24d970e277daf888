"""Measure the study adp1987 over Wi-Fi: a peer sends messages to a mobile node.

`measure_repetition` runs in the guest for each repetition (one measurement). It lets the mobile
node join, starts the sending and the receiving program, and captures at both ends. Its results are
captures, logs and time stamps, which are evaluated outside of the guest. The messages are protected
by ADP (Authenticated Datagram Protocol of 1987) or sent by plain UDP. A trace is a list of messages
with their times. A repetition has three phases:

- `proof`: a few messages, which are captured with all bytes, for the checks.
- `latency`: the trace at its own times. In the middle the node moves, if the scenario has a
  handoff.
- `throughput`: the trace as fast as possible.

`host_nodes` returns which nodes send (alpha, the scenario's peer) and receive (beta, the mobile
node).
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from measure.agent.errors import MeasureError
from measure.agent.time_limits import TimeLimits
from measure.agent.workload import Session
from measure.capture.tcpdump import (
    WHOLE,
    CaptureDetail,
    CapturePoint,
    capture_packets,
    settle_captures,
)
from measure.mobile_node.attachment import AttachedNode, WirelessAccess
from measure.services.programs import HostProgram
from protocols.adp.host import VERSIONS
from studies.adp1987.fault_injection import (
    AIR_FAULTS,
    AROUND_THE_TUNNEL,
    BESIDE_CHANNEL,
    FALSE_LOG_ON_AIR,
    LATER_CHANNEL_ON_AIR,
    SECOND_CHANNEL_ON_AIR,
)
from studies.adp1987.programs.realtime import REPORT, WINDOW
from studies.adp1987.proof.captured_messages import PROTOCOL
from topologies.model import Scenario, from_json

if TYPE_CHECKING:
    from studies.adp1987.workload import HostPrograms

#: More than all messages of a phase, so that the sink sends no counts before they are needed.
_NEVER = 1 << 31
# Limits of messages and bytes on the way, so that they fit the queue of an access point (50
# frames).
#: Limits if each message has an ADP message of its own, and the limits after which the receiver
#: reports. A message has at least one frame.
_ALONE, _REPORT_ALONE = (16, 24_576), (8, 8192)
#: Limits if messages share ADP messages: two of these fit the queue.
_QUEUED = (WINDOW[0], 49_152)
_REASSEMBLY_S = 1
#: Enough bytes for the heads of packets inside a tunnel.
_HEADS = CaptureDetail(snap_bytes=320, buffer_kib=4096, in_blocks=True)


def measure_repetition(air: WirelessAccess, hosts: HostPrograms, session: Session) -> None:
    """Run one repetition over the air.

    Args:
        air: connects the mobile node to the networks of the scenario.
        hosts: programs of the sending and the receiving host.
        session: gets time stamps, raw values and progress reports.

    Raises:
        MeasureError: a service fails, or the injected fault does not exist for the protocol.
    """
    task, site = hosts.task, hosts.site
    scenario: Scenario = from_json(Scenario, task["scenario"])
    fault = task.get("fault", site.fault)
    if fault and (fault not in AIR_FAULTS or task["protocol"] not in VERSIONS):
        raise MeasureError("testbed", f"--fault {fault}: is not for {task['protocol']} on the air")
    # A receiver gives up an incomplete datagram and quotes it to the sender in an ICMP error. With
    # the default of half a minute, this would show payload bytes in the middle of a later
    # repetition.
    for node in hosts.nodes.values():
        site.testbed.run_command(node, ["sysctl", "-qw", f"net.ipv4.ipfrag_time={_REASSEMBLY_S}"])
    with ExitStack() as stack:
        stay = stack.enter_context(air.attach_node(scenario, hosts.out, session,
                                                   has_port=task["has_port"]))
        if fault == AROUND_THE_TUNNEL:
            air.bypass_tunnel(scenario, ["proto", str(PROTOCOL)])
        sink = stack.enter_context(_start_carrier(hosts, "sink", "beta", fault))
        source = stack.enter_context(_start_carrier(hosts, "source", "alpha", fault))
        with _capture_ends(hosts, "proof", WHOLE, session):
            session.stamp("start")
            source.run_command("establish")
            hosts.report_wait("proof", session)
            _stamp_phase("proof", source, session)
            _run_phase("proof", source, sink)
        with _capture_ends(hosts, "later", _HEADS, session):
            if fault == SECOND_CHANNEL_ON_AIR:
                source.run_command("begin-anew")
            hosts.report_wait("latency", session)
            _stamp_phase("latency", source, session)
            half_s = hosts.lasts_s("latency") / 2
            _run_phase("latency", source, sink, stay, half_s)
            if fault == LATER_CHANNEL_ON_AIR:
                source.run_command("begin-anew")
            _stamp_phase("throughput", source, session)
            _run_phase("throughput", source, sink)
            settle_captures()
        session.stamp("end")
        source.finish()
        sink.finish()


def host_nodes(scenario: Mapping[str, Any]) -> Mapping[str, str]:
    """Return which node of the scenario is the sender (alpha) and which the receiver (beta)."""
    return {"alpha": scenario["peer"], "beta": scenario["mobile_node"]}


def _stamp_phase(name: str, source: HostProgram, session: Session) -> None:
    """Wait until earlier messages have arrived, then record the start time of a phase.

    The times of the phase's messages count from this time stamp.
    """
    source.run_command("quiet")
    session.stamp(name)


def _run_phase(name: str, source: HostProgram, sink: HostProgram,
               connection: AttachedNode | None = None,
               moves_after_s: float = 0.0) -> None:
    """Run a phase, and wait until its messages have arrived.

    Args:
        name: name of the phase.
        source: program of the sender.
        sink: program of the receiver.
        connection: mobile node that moves during the phase, if any.
        moves_after_s: time (s) from the start of the phase to the handoff.
    """
    source.send_command(name)
    if connection is not None and connection.has_pending_move:
        time.sleep(moves_after_s)
        connection.move_away()
    source.expect_line(f"done {name}")
    sink.run_command(name)


@contextmanager
def _capture_ends(hosts: HostPrograms, part: str, detail: CaptureDetail,
                  session: Session) -> Iterator[None]:
    """Capture the packets between sender and receiver at both ends.

    If packets go through a tunnel, each end captures only the ESP packets that it sends.
    """
    site = hosts.site
    alpha, beta = hosts.address_of("alpha"), hosts.address_of("beta")
    points = []
    for host, node in hosts.nodes.items():
        address = hosts.address_of(host)
        points.append(CapturePoint(host, node, site.network.nodes[node].interface_of(address),
                                   f"(not esp and host {alpha} and host {beta}) or "
                                   f"(esp and src host {address})"))
    with capture_packets(site.testbed, points, detail, part=part, out=hosts.out, logs=site.logs,
                         summaries=session.raw["captures"]):
        yield


def _start_carrier(hosts: HostPrograms, role: str, host: str, fault: str) -> HostProgram:
    """Start the sending or the receiving program on a host, with limits for messages on the way.

    `role` is `source` or `sink`. `fault` is the injected fault, or "".
    """
    task = hosts.task
    peer = next(name for name in hosts.nodes if name != host)
    has_channel = task["protocol"] in VERSIONS
    queued = has_channel and task["queue"] and fault != BESIDE_CHANNEL
    return hosts.start_carrier(role, host, {
        "address": hosts.address_of(host), "peer_address": hosts.address_of(peer), "peer": peer,
        "config": str(hosts.write_config(host)) if has_channel else "",
        "work": hosts.site.devices[hosts.nodes[host]]["work"], "rsa_bits": task["rsa_bits"],
        "wire": None, "beside_channel": fault == BESIDE_CHANNEL,
        "is_false": fault == FALSE_LOG_ON_AIR and role == "sink",
        "totals": [], "counts_from": _NEVER, "counts_after": "latency",
        "window": _QUEUED if queued else _ALONE,
        "report": REPORT if queued else _REPORT_ALONE, "may_lose": True,
        "added_s": TimeLimits.for_testbed(hosts.site.testbed).crossing_s(
            from_json(Scenario, task["scenario"]))})
