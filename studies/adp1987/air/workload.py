"""The part over a policy on the air: a peer's messages to a mobile node, through its move.

Alpha is the scenario's peer and beta its mobile node. A short phase is captured whole, for proof;
then the trace goes in its own time, in whose middle the node moves if the scenario has it move,
and last as fast as it is taken, where the node is then. Nothing is judged here.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from measure.capture import WHOLE, Detail, Point, capturing, settle
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

#: More than all messages of a phase: nothing is reported before it is asked for.
_NEVER = 1 << 31
#: An access point has room for 50 frames: so much may be under way that it fits. A message alone
#: has a frame of its own at least; of those that wait for others, two messages of ADP fit.
_ALONE, _REPORT_ALONE = (16, 24_576), (8, 8192)
_QUEUED = (WINDOW[0], 49_152)
_REASSEMBLY_S = 1
#: Of tunnels, enough for the heads of what they hold.
_HEADS = Detail(snap_bytes=320, buffer_kib=4096, in_blocks=True)


def measure(air: OverAir, hosts: HostPrograms, session: Session) -> None:
    """One repetition. Raises MeasureError."""
    task, site = hosts.task, hosts.site
    scenario: Scenario = from_json(Scenario, task["scenario"])
    fault = task.get("fault", site.fault)
    if fault and (fault not in CONTROLS or task["protocol"] not in VERSIONS):
        raise MeasureError("testbed", f"--fault {fault}: is not for {task['protocol']} on the air")
    # Of a datagram that lacks a fragment its receiver tells the sender once it gives it up, quoting
    # what it has: not half a minute later, amid a repetition whose payloads nobody is to read.
    for node in hosts.nodes.values():
        site.testbed.run(node, ["sysctl", "-qw", f"net.ipv4.ipfrag_time={_REASSEMBLY_S}"])
    with ExitStack() as stack:
        stay = stack.enter_context(air.connected(scenario, hosts.out, session,
                                                 has_port=task["has_port"]))
        if fault == AROUND_THE_TUNNEL:
            air.around_the_tunnel(scenario, ["proto", str(PROTOCOL)])
        sink = stack.enter_context(_program(hosts, "sink", "beta", fault))
        source = stack.enter_context(_program(hosts, "source", "alpha", fault))
        with _captured(hosts, "proof", WHOLE, session):
            session.stamp("start")
            source.do("establish")
            hosts.say_wait("proof", session)
            _stamped("proof", source, session)
            _phase("proof", source, sink)
        with _captured(hosts, "later", _HEADS, session):
            if fault == SECOND_CHANNEL:
                source.do("begin-anew")
            hosts.say_wait("latency", session)
            _stamped("latency", source, session)
            half_s = hosts.lasts_s("latency") / 2
            _phase("latency", source, sink, stay, half_s)
            if fault == LATER_CHANNEL:
                source.do("begin-anew")
            _stamped("throughput", source, session)
            _phase("throughput", source, sink)
            settle()
        session.stamp("end")
        source.end()
        sink.end()


def nodes(scenario: Mapping[str, Any]) -> Mapping[str, str]:
    """Which node each host is."""
    return {"alpha": scenario["peer"], "beta": scenario["mobile_node"]}


def _stamped(name: str, source: HostProgram, session: Session) -> None:
    """A phase begins now, with nothing under way: its messages' times count from here."""
    source.do("quiet")
    session.stamp(name)


def _phase(name: str, source: HostProgram, sink: HostProgram, stay: Stay | None = None,
           moves_after_s: float = 0.0) -> None:
    """All messages of a phase, and what arrived of them; amid them the node may have to move."""
    source.tell(name)
    if stay is not None and stay.moves:
        time.sleep(moves_after_s)
        stay.move()
    source.expect(f"done {name}")
    sink.do(name)


@contextmanager
def _captured(hosts: HostPrograms, part: str, detail: Detail, session: Session) -> Iterator[None]:
    """At both ends what goes between them; through a tunnel, what one sends shows as ESP only."""
    site = hosts.site
    here, there = hosts.address("alpha"), hosts.address("beta")
    points = []
    for host, node in hosts.nodes.items():
        address = hosts.address(host)
        points.append(Point(host, node, site.network.nodes[node].interface_of(address),
                            f"(not esp and host {here} and host {there}) or "
                            f"(esp and src host {address})"))
    with capturing(site.testbed, points, detail, part=part, out=hosts.out, logs=site.logs,
                   summaries=session.raw["captures"]):
        yield


def _program(hosts: HostPrograms, role: str, host: str, fault: str) -> HostProgram:
    task = hosts.task
    peer = next(name for name in hosts.nodes if name != host)
    has_channel = task["protocol"] in VERSIONS
    queued = has_channel and task["queue"] and fault != BESIDE
    return hosts.carrying(role, host, {
        "address": hosts.address(host), "peer_address": hosts.address(peer), "peer": peer,
        "config": str(hosts.config(host)) if has_channel else "",
        "work": hosts.site.devices[hosts.nodes[host]]["work"], "rsa_bits": task["rsa_bits"],
        "wire": None, "beside_channel": fault == BESIDE,
        "is_false": fault == FALSE_LOG and role == "sink",
        "totals": [], "counts_from": _NEVER, "counts_after": "latency",
        "window": _QUEUED if queued else _ALONE,
        "report": REPORT if queued else _REPORT_ALONE, "may_lose": True,
        "added_s": TimeLimits.of(hosts.site.testbed).crossing_s(
            from_json(Scenario, task["scenario"]))})
