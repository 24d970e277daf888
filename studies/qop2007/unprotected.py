"""Negative controls in the guest: take a protection away while the streams go on.

Most are applied before the streams begin, while captures run. Standard library only.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from measure import injection, iperf
from measure.capture import Detail, Point
from measure.errors import MeasureError
from measure.points import TRAFFIC
from measure.workload import Site
from studies.qop2007 import attempts
from topologies import wires
from topologies.mobile_ip import kernel
from topologies.model import HOME_AGENT, ROUTER, Node, Scenario

if TYPE_CHECKING:  # The builder needs Mininet, which only the guest has.
    from measure.access import Access
    from topologies.builder import Testbed

#: Controls in which authenticators are not verified, no node registers, and every registration is
#: denied. Then the modules that run such programs.
UNVERIFIED, UNREGISTERED = "unverified-registration", "unregistered"
DENIED = "denied-registration"
RUNNERS: Mapping[str, str] = {UNVERIFIED: "studies.qop2007.credulous",
                              UNREGISTERED: "studies.qop2007.unregistered",
                              DENIED: "studies.qop2007.denied"}
#: Controls: the capture on the wire loses packets; a companion leaves after all streams; one
#: authentication less takes place than requested; and state of the one before is left.
LOSSY, LEAVES, FEWER, LEFT_OVER = "lossy-capture", "companion-leaves", "one-fewer", "left-over"
#: Control in which packets bypass the agents' tunnel.
UNTUNNELLED = "agents-untunnelled"
#: Capture buffer with room for two dozen headers.
_NO_ROOM = Detail(snap_bytes=192, buffer_kib=8)
#: Priority before every policy of charon's, and every rule of Mobile IP's.
_FIRST = "1"
_TABLE = "1"
_ALL_SYSTEMS = "01:00:5e:00:00:01"


def apply_control(site: Site, scenario: Scenario) -> None:
    """Apply the fault of the run's control, if it is one of these."""
    if site.fault in _CONTROLS:
        _CONTROLS[site.fault](site.testbed, scenario)


@contextmanager
def capturing_streams(fault: str, captures: Callable[..., Any], points: Sequence[Point],
                      detail: Detail) -> Iterator[None]:
    """Capture the streams, under one control with a stopped and tiny capture on the wire."""
    still = [point for point in points if fault == LOSSY and point.name == "wire"]
    if fault == LOSSY and not still:
        raise MeasureError("testbed", f"the control {LOSSY} needs a capture on the wire, and this "
                           "cell has none")
    with (captures([point for point in points if point not in still], detail, part=TRAFFIC),
          captures(still, _NO_ROOM, part=TRAFFIC) as stopped):
        for capture in stopped:
            capture.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            for capture in stopped:
                capture.send_signal(signal.SIGCONT)


def apply_afterwards(fault: str, access: Access, scenario: Scenario) -> None:
    """Apply a control's fault after all streams, and undo faults that would last."""
    if fault == LEAVES:
        if not scenario.companions:
            raise MeasureError("testbed", f"the control {LEAVES} needs a scenario with another "
                               "mobile node, and this one has none")
        for name in scenario.companions:
            access.dismiss_companion(name)
    elif fault == UNTUNNELLED:
        testbed, away = access.site.testbed, scenario.foreign_agent or ""
        for name in (scenario.agent, away, away):
            testbed.run_command(name, ["ip", "rule", "del", "priority", _FIRST])
        [router] = scenario.network.of_duty(ROUTER)
        testbed.run_command(router, ["ip", "route", "del",
                                     scenario.network.nodes[scenario.mobile_node].address])


@contextmanager
def leaving_sa(fault: str, testbed: Testbed, scenario: Scenario) -> Iterator[None]:
    """Add an IPsec SA that no daemon knows, under one control.

    It is between mobile node and agent, and exists while this lasts.
    """
    if fault != LEFT_OVER:
        yield
        return
    nodes = scenario.network.nodes
    ends = ["src", nodes[scenario.agent].address, "dst", nodes[scenario.mobile_node].address,
            "proto", "esp", "spi", "0x1"]
    testbed.run_command(scenario.agent,
                        ["ip", "xfrm", "state", "add", *ends, "mode", "tunnel", "auth",
                                         "hmac(sha1)", f"0x{'00' * 20}", "enc", "ecb(cipher_null)",
                         ""])
    try:
        yield
    finally:
        testbed.run_command(scenario.agent, ["ip", "xfrm", "state", "delete", *ends])


def _bypass_tunnel(testbed: Testbed, scenario: Scenario) -> None:
    """Let the stream's datagrams bypass the mobile node's tunnel, at both of its ends."""
    nodes = scenario.network.nodes
    source, target = nodes[scenario.mobile_node].address, nodes[scenario.peer].address
    for node, directions in ((scenario.mobile_node, ("out",)), (scenario.agent, ("in", "fwd"))):
        for direction in directions:
            testbed.run_command(node,
                                ["ip", "xfrm", "policy", "update", "src", source, "dst", target,
                                       "proto", "udp", "dport", str(iperf.PORT), "dir", direction,
                                       "priority", _FIRST])


def _beside_wireguard(testbed: Testbed, scenario: Scenario) -> None:
    """Let the stream's datagrams bypass the mobile node's WireGuard tunnel."""
    node, rule = scenario.mobile_node, ["priority", _FIRST]
    # An earlier repetition may have left the rule.
    if not testbed.run_command(node, ["ip", "rule", "list", *rule]).strip():
        testbed.run_command(node,
                            ["ip", "rule", "add", *rule, "ipproto", "udp", "dport", str(iperf.PORT),
                                   "lookup", "main"])


def _companions_outside(testbed: Testbed, scenario: Scenario) -> None:
    """Delete the policies that send the companions' packets through their tunnels."""
    nodes = scenario.network.nodes
    for name in scenario.companions:
        for node in (name, nodes[name].agent or ""):
            _delete_policies(testbed, node, {nodes[name].address})


def _agents_outside(testbed: Testbed, scenario: Scenario) -> None:
    """Delete the policies that send packets through the tunnel between the home agents."""
    agents = scenario.network.of_duty(HOME_AGENT)
    outer = {scenario.network.nodes[name].outer_address for name in agents}
    for name in agents:
        _delete_policies(testbed, name, outer, both=True)


def _untunnel_agents(testbed: Testbed, scenario: Scenario) -> None:
    """Let the visiting node's packets cross between the agents without a tunnel, both ways."""
    network = scenario.network
    home, away = scenario.agent, scenario.foreign_agent or ""
    node, [router] = network.nodes[scenario.mobile_node].address, network.of_duty(ROUTER)
    outer = {name: network.nodes[name].outer_address for name in (home, away)}
    next_hop = _next_hop(testbed.run_command(home, ["ip", "route", "get", outer[away]]))
    for name, command in (
            (home, ["route", "replace", node, "via", next_hop, "table", _TABLE]),
            (home, ["rule", "add", "priority", _FIRST, "to", node, "lookup", _TABLE]),
            (router, ["route", "replace", node, "via", outer[away]]),
            (away, ["rule", "add", "priority", _FIRST, "to", node, "lookup",
                    str(kernel.TO_VISITOR)]),
            (away, ["rule", "add", "priority", _FIRST, "from", node, "lookup", "main"])):
        testbed.run_command(name, ["ip", *command])


def _next_hop(route: str) -> str:
    words = route.split()
    return words[words.index("via") + 1]


def _delete_policies(testbed: Testbed, node: str, ends: Collection[str], *,
                     both: bool = False) -> None:
    """Delete IPsec policies whose tunnel has one of these ends, or two of them.

    Policies that block packets of these addresses without a tunnel are deleted, too.

    Raises:
        MeasureError: there is no policy with such a tunnel.
    """
    is_deleted = False
    shown = testbed.run_command(node, ["ip", "xfrm", "policy", "list"])
    for selector, direction, tunnel in parse_policies(shown):
        held = not any(tunnel) and any(f"{end}/32" in selector for end in ends)
        has_tunnel = sum(end in ends for end in tunnel) >= 1 + both
        if held or has_tunnel:
            testbed.run_command(node,
                                ["ip", "xfrm", "policy", "delete", *selector, "dir", direction])
        is_deleted = is_deleted or has_tunnel
    if not is_deleted:
        raise MeasureError("testbed", f"{node} has no IPsec policy with a tunnel to "
                           f"{' or '.join(sorted(ends))}, so the control has none to take away")


def parse_policies(text: str) -> Iterator[tuple[list[str], str, tuple[str, str]]]:
    """Yield selector, direction and both tunnel ends from `ip xfrm policy list`.

    Both ends of a policy that blocks are "", because it has no tunnel.
    """
    selector: list[str] = []
    direction = ""
    for line in text.splitlines():
        words = line.split()
        if line.startswith("src "):
            selector = words
        elif words[:1] == ["dir"]:
            direction = words[1]
            if "block" in words:
                yield selector, direction, ("", "")
        elif words[:1] == ["tmpl"]:
            yield selector, direction, (words[2], words[4])


def _clear_frame(testbed: Testbed, scenario: Scenario) -> None:
    """Send a frame of the mobile node in clear by a monitor interface.

    No key applies to that interface.
    """
    _from_station(testbed, scenario)


def _clear_but_marked(testbed: Testbed, scenario: Scenario) -> None:
    """Send a clear frame that is marked as encrypted and has an initialisation vector."""
    _from_station(testbed, scenario, flags=injection.PROTECTED, before=bytes((0x12, 0x34, 0x56, 0)))


def _long_but_marked(testbed: Testbed, scenario: Scenario) -> None:
    """Send a marked clear frame as long as a stream's.

    Captures keep its head only.
    """
    _from_station(testbed, scenario, flags=injection.PROTECTED,
                  before=bytes((0x12, 0x34, 0x57, 0)), after=bytes(1400))


def _from_station(testbed: Testbed, scenario: Scenario, *, flags: int = 0,
                  before: bytes = b"", after: bytes = b"") -> None:
    nodes = scenario.network.nodes
    station, cell = nodes[scenario.mobile_node], nodes[scenario.access_point]
    frame = injection.station_frame(_mac_address(station), _mac_address(cell), _mac_address(cell),
                                    before + injection.READABLE + after, flags=flags)
    injection.inject(testbed, scenario.mobile_node, station, frame)


def _past_the_agent(testbed: Testbed, scenario: Scenario) -> None:
    """Send a frame of the mobile node that is addressed to a companion's radio."""
    nodes = scenario.network.nodes
    station = nodes[scenario.mobile_node]
    companion = _mac_address(nodes[next(iter(scenario.companions))])
    injection.inject(testbed, scenario.mobile_node, station, injection.station_frame(
        _mac_address(station), companion, companion, injection.READABLE))


def _clear_multicast(testbed: Testbed, scenario: Scenario) -> None:
    """Send a multicast frame of the access point in clear, by a monitor interface."""
    name = scenario.access_point
    cell = scenario.network.nodes[name]
    injection.inject(testbed, name, cell,
                     injection.access_point_frame(_mac_address(cell), _ALL_SYSTEMS,
                                                  injection.READABLE))


def _clear_on_wire(testbed: Testbed, scenario: Scenario) -> None:
    """Send a frame in the mobile node's name on its access point's wire, below MACsec."""
    nodes = scenario.network.nodes
    name, port = scenario.access_point, scenario.network.link_of(scenario.access_point)[0]
    injection.send_on_interface(testbed, name, wires.physical_name(port),
                                injection.broadcast_frame(
                                    _mac_address(nodes[scenario.mobile_node])))


def _repeated_on_wire(testbed: Testbed, scenario: Scenario) -> None:
    """Repeat a frame of the access point on its wire.

    An attacker without a key can do that.
    """
    nodes, name = scenario.network.nodes, scenario.access_point
    node, port = nodes[name], scenario.network.link_of(name)[0]
    injection.replay_macsec_frame(testbed, name, wires.physical_name(port), node.address,
                                  nodes[node.agent or ""].address)


def _forged_deauthentication(testbed: Testbed, scenario: Scenario) -> None:
    """Send a forged deauthentication of the mobile node in its access point's name."""
    nodes, name = scenario.network.nodes, scenario.access_point
    injection.inject(testbed, name, nodes[name], injection.deauthentication_frame(
        _mac_address(nodes[name]), _mac_address(nodes[scenario.mobile_node])))


def _mac_address(node: Node) -> str:
    return node.interfaces[node.radio_interface].radio or ""


_CONTROLS: Mapping[str, Callable[[Testbed, Scenario], None]] = {
    "bypass": _bypass_tunnel, "beside-wireguard": _beside_wireguard,
    "companion-outside": _companions_outside,
    "agents-outside": _agents_outside, "clear-frame": _clear_frame,
    "clear-under-gcmp": _clear_frame,
    "clear-but-marked": _clear_but_marked, "long-but-marked": _long_but_marked,
    "clear-multicast": _clear_multicast,
    attempts.FORGED: _forged_deauthentication,
    "past-the-agent": _past_the_agent, UNTUNNELLED: _untunnel_agents,
    "clear-on-wire": _clear_on_wire, "repeated-on-wire": _repeated_on_wire}
