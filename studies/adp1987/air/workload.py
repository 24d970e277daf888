"""Workload on the air: messages of a peer to a mobile node, through its handoff.

Alpha is the scenario's peer and beta its mobile node. A short phase is captured whole for the
proof. Then the trace is replayed in its own time. In its middle the node moves, if the scenario has
a handoff. At last the trace is replayed as fast as it is taken, at the node's last place. Nothing
is judged here.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from measure.capture import WHOLE, Detail, Point, capturing, settle_captures
from measure.errors import MeasureError
from measure.over_air import OverAir, Stay
from measure.services.program import HostProgram
from measure.time_limits import TimeLimits
from measure.workload import Session
from protocols.adp.host import VERSIONS
from studies.adp1987.air import (
    AROUND_THE_TUNNEL,
    BESIDE,
    CONTROLS,
    FALSE_LOG,
    LATER_CHANNEL,
    SECOND_CHANNEL,
)
from studies.adp1987.realtime.program import REPORT, WINDOW
from studies.adp1987.sniffed import PROTOCOL
from topologies.model import Scenario, from_json

if TYPE_CHECKING:
    from studies.adp1987.inside import HostPrograms

#: More than all messages of a phase, so that the sink sends no counts before they are needed.
_NEVER = 1 << 31
#: Limits of messages and bytes on the way, so that they fit the queue of an access point (50
#: frames). A message alone has at least one frame. Of messages that share ADP messages, two ADP
#: messages fit.
_ALONE, _REPORT_ALONE = (16, 24_576), (8, 8192)
_QUEUED = (WINDOW[0], 49_152)
_REASSEMBLY_S = 1
#: Enough bytes for the heads of packets inside a tunnel.
_HEADS = Detail(snap_bytes=320, buffer_kib=4096, in_blocks=True)


def measure_repetition(air: OverAir, hosts: HostPrograms, session: Session) -> None:
    """Measure one repetition on the air.

    Args:
        air: Connects the mobile node to the networks of the scenario.
        hosts: Programs of the repetition's hosts.
        session: Gets time stamps, raw values and progress reports.

    Raises:
        MeasureError: The negative control does not exist for the protocol, or a service fails.
    """
    task, site = hosts.task, hosts.site
    scenario: Scenario = from_json(Scenario, task["scenario"])
    fault = task.get("fault", site.fault)
    if fault and (fault not in CONTROLS or task["protocol"] not in VERSIONS):
        raise MeasureError("testbed", f"--fault {fault}: is not for {task['protocol']} on the air")
    # A receiver gives up an incomplete datagram and quotes it to the sender in an ICMP error. With
    # the default of half a minute, this would show payload bytes in the middle of a later
    # repetition.
    for node in hosts.nodes.values():
        site.testbed.run_command(node, ["sysctl", "-qw", f"net.ipv4.ipfrag_time={_REASSEMBLY_S}"])
    with ExitStack() as stack:
        stay = stack.enter_context(air.connected(scenario, hosts.out, session,
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
            if fault == SECOND_CHANNEL:
                source.run_command("begin-anew")
            hosts.report_wait("latency", session)
            _stamp_phase("latency", source, session)
            half_s = hosts.lasts_s("latency") / 2
            _run_phase("latency", source, sink, stay, half_s)
            if fault == LATER_CHANNEL:
                source.run_command("begin-anew")
            _stamp_phase("throughput", source, session)
            _run_phase("throughput", source, sink)
            settle_captures()
        session.stamp("end")
        source.finish()
        sink.finish()


def host_nodes(scenario: Mapping[str, Any]) -> Mapping[str, str]:
    """Return the node of each host."""
    return {"alpha": scenario["peer"], "beta": scenario["mobile_node"]}


def _stamp_phase(name: str, source: HostProgram, session: Session) -> None:
    """Let earlier messages arrive, then record the start of a phase.

    The times of the phase's messages count from this stamp.
    """
    source.run_command("quiet")
    session.stamp(name)


def _run_phase(name: str, source: HostProgram, sink: HostProgram, connection: Stay | None = None,
               moves_after_s: float = 0.0) -> None:
    """Run a phase and collect what arrived.

    With a `connection` whose node moves, the handoff is `moves_after_s` seconds after the start.
    """
    source.send_command(name)
    if connection is not None and connection.moves:
        time.sleep(moves_after_s)
        connection.move_away()
    source.expect_line(f"done {name}")
    sink.run_command(name)


@contextmanager
def _capture_ends(hosts: HostPrograms, part: str, detail: Detail,
                  session: Session) -> Iterator[None]:
    """Capture the traffic between the hosts at both ends.

    In a tunnel, each end captures only the ESP packets that it sends.
    """
    site = hosts.site
    here, there = hosts.address_of("alpha"), hosts.address_of("beta")
    points = []
    for host, node in hosts.nodes.items():
        address = hosts.address_of(host)
        points.append(Point(host, node, site.network.nodes[node].interface_of(address),
                            f"(not esp and host {here} and host {there}) or "
                            f"(esp and src host {address})"))
    with capturing(site.testbed, points, detail, part=part, out=hosts.out, logs=site.logs,
                   summaries=session.raw["captures"]):
        yield


def _start_carrier(hosts: HostPrograms, role: str, host: str, fault: str) -> HostProgram:
    task = hosts.task
    peer = next(name for name in hosts.nodes if name != host)
    has_channel = task["protocol"] in VERSIONS
    queued = has_channel and task["queue"] and fault != BESIDE
    return hosts.start_carrier(role, host, {
        "address": hosts.address_of(host), "peer_address": hosts.address_of(peer), "peer": peer,
        "config": str(hosts.write_config(host)) if has_channel else "",
        "work": hosts.site.devices[hosts.nodes[host]]["work"], "rsa_bits": task["rsa_bits"],
        "wire": None, "beside_channel": fault == BESIDE,
        "is_false": fault == FALSE_LOG and role == "sink",
        "totals": [], "counts_from": _NEVER, "counts_after": "latency",
        "window": _QUEUED if queued else _ALONE,
        "report": REPORT if queued else _REPORT_ALONE, "may_lose": True,
        "added_s": TimeLimits.for_testbed(hosts.site.testbed).crossing_s(
            from_json(Scenario, task["scenario"]))})
