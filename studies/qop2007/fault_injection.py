"""Inject faults into the running test network, inside the guest (virtual machine).

Each fault is a negative control of the study qop2007: it takes one protection away while traffic
flows, and the checks must detect that. Examples are a frame without encryption or a deleted IPsec
policy. `apply_control` injects most faults before the streams begin, while packets are captured.
`faults.py` lists all faults and the checks that must fail. This module uses the standard library
only, because the guest has nothing else.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from measure.agent.errors import MeasureError
from measure.agent.workload import Site
from measure.attacks import injection
from measure.capture.tcpdump import TRAFFIC, CaptureDetail, CapturePoint
from measure.packets.mptcp import MPTCP_PORT
from measure.services import iperf
from studies.qop2007 import attacks
from topologies import queueing_disciplines
from topologies.mobile_ip import kernel
from topologies.model import HOME_AGENT, ROUTER, Link, Scenario

if TYPE_CHECKING:  # The builder needs Mininet, which only the guest has.
    from measure.mobile_node.access import NetworkAccess
    from topologies.builder import Testbed

#: Controls in which authenticators are not verified, no node registers, and every registration is
#: denied. Then the modules that run such programs.
UNVERIFIED, UNREGISTERED = "unverified-registration", "unregistered"
DENIED = "denied-registration"
RUNNERS: Mapping[str, str] = {UNVERIFIED: "studies.qop2007.unverified_agent",
                              UNREGISTERED: "studies.qop2007.unregistered_agent",
                              DENIED: "studies.qop2007.denied_agent"}
#: Controls: the capture on the wire loses packets; a companion leaves after all streams; one
#: authentication less takes place than requested; and state of the one before is left.
LOSSY, LEAVES, FEWER, LEFT_OVER = "lossy-capture", "companion-leaves", "one-fewer", "left-over"
#: Control in which packets bypass the agents' tunnel.
UNTUNNELLED = "agents-untunnelled"
#: Controls: the wire to a distant RADIUS server takes no time, and a station takes its address
#: without DHCP.
NEAR_SERVER, STATIC_ADDRESS = "near-server", "static-address"
#: Controls for IPv6: the station takes its address without an advertisement, and streams use IPv4.
STATIC_IPV6, OVER_IPV4 = "static-ipv6-address", "streams-over-ipv4"
#: Control in which the station asks for fast transition over the air, not over the DS.
OVER_THE_AIR = "over-the-air"
#: Control in which the station asks over the DS, and states the channel that it leaves (OCV).
STALE_CHANNEL = "stale-channel"
#: Control in which the air sends every frame alone.
ALONE = "frames-alone"
#: Control in which the wire to a distant RADIUS server has a delay without jitter.
STEADY_SERVER = "steady-server"
#: Controls in which both directions of wires have one rate, and lose each packet by itself.
EQUAL_RATES, SINGLE_LOSSES = "equal-rates", "single-losses"
#: Values of wires under these controls.
_WIRE_CHANGES: Mapping[str, Mapping[str, Any]] = {
    EQUAL_RATES: {"rate_back_bps": None}, SINGLE_LOSSES: {"loss_burst_packets": 1.0}}
#: Controls in which a router translates no addresses, and keeps its mappings.
UNTRANSLATED, KEPT_MAPPING = "untranslated", "kept-mapping"
#: Controls in which the home agent strips MPTCP's options of TCP, as some firewalls do, or accepts
#: no further subflow.
STRIPPED, NO_JOIN = "mptcp-stripped", "mptcp-refuses-joins"
#: Control in which IP fragments are dropped behind access points, and the device that takes them.
FRAGMENTS, _SINK = "dropped-fragments", "sink0"
#: nft's commands that remove MPTCP's options of arriving segments.
_STRIP = (f"add table ip qop; add chain ip qop strip {{ type filter hook prerouting priority raw; "
          f"}}; add rule ip qop strip tcp dport {MPTCP_PORT} reset tcp option mptcp")
#: Commands at the home agent, by control.
_AT_AGENT = {STRIPPED: ["nft", _STRIP],
             NO_JOIN: ["ip", "mptcp", "limits", "set", "subflows", "0"]}
#: Capture buffer with room for two dozen headers.
_NO_ROOM = CaptureDetail(snap_bytes=192, buffer_kib=8)
#: Priority before every policy of charon's, and every rule of Mobile IP's.
_FIRST = "1"
_TABLE = "1"
_ALL_SYSTEMS = "01:00:5e:00:00:01"


def apply_control(site: Site, scenario: Scenario) -> None:
    """Inject the requested fault before the streams, if it belongs to this module."""
    if site.fault in _CONTROLS:
        _CONTROLS[site.fault](site.testbed, scenario)


def apply_to_network(site: Site, scenario: Scenario) -> None:
    """Change wires between access points and RADIUS servers, routers or agents, under controls.

    Under two of them, wires of distant servers lose their delay, or only its jitter. Under the
    third, access points drop IP fragments on their wire in both directions, as some firewalls do.
    Under the fourth, a router forwards packets without translating their addresses. Two others
    change how the home agent treats Multipath TCP, and two make wires ordinary that have a rate for
    each direction, or lose packets in bursts.
    """
    if site.fault in _AT_AGENT:
        site.testbed.run_command(scenario.agent, _AT_AGENT[site.fault])
    if site.fault == FRAGMENTS:
        for name in {scenario.home, scenario.access_point}:
            _drop_fragments(site.testbed, name, scenario.network.link_of(name)[0])
    if site.fault == UNTRANSLATED:
        _stop_translation(site.testbed, scenario)
    if site.fault in _WIRE_CHANGES:
        _change_wires(site, scenario)
    if site.fault not in (NEAR_SERVER, STEADY_SERVER):
        return
    network = scenario.network
    links = [network.link_of(server)[1] for server in scenario.separate_radius_servers.values()]
    if not any(link.delay_ms for link in links):
        raise MeasureError("testbed", f"the control {site.fault} needs a scenario with a distant "
                           "RADIUS server, and this one has none")
    for link in links:
        _rebuild_wire(site.testbed, link, replace(link, jitter_ms=0.0)
                      if site.fault == STEADY_SERVER else None)


def _rebuild_wire(testbed: Testbed, link: Link, changed: Link | None) -> None:
    """Replace the queueing disciplines of a wire by those of another one, None for none."""
    for end in link.ends:
        node, _, port = end.partition("/")
        # An earlier repetition may have removed it.
        testbed.run_unchecked(node, ["tc", "qdisc", "del", "dev", port, "root"])
        for step in queueing_disciplines.wire_commands(changed, port, end) if changed else ():
            testbed.run_command(node, step.split())


def _change_wires(site: Site, scenario: Scenario) -> None:
    """Make wires with a rate for each direction, or with losses in bursts, ordinary.

    Raises:
        MeasureError: the scenario has no such wire.
    """
    changes = _WIRE_CHANGES[site.fault]
    links = [(link, changed) for link in scenario.network.special_links
             if (changed := replace(link, **changes)) != link]
    if not links:
        raise MeasureError("testbed", f"the control {site.fault} needs a scenario whose wires have "
                           f"{next(iter(changes))}, and this one has none")
    for link, changed in links:
        _rebuild_wire(site.testbed, link, changed)


def _stop_translation(testbed: Testbed, scenario: Scenario) -> None:
    """Delete the rules of the router with NAT, and route its subnet to it.

    Raises:
        MeasureError: the scenario has no such router.
    """
    if scenario.foreign_agent is None or scenario.visit is None or scenario.visited_nat is None:
        raise MeasureError("testbed", f"the control {UNTRANSLATED} needs a scenario with nat, and "
                           "this one has none")
    testbed.run_command(scenario.foreign_agent, ["nft", "flush", "ruleset"])
    for router in scenario.network.of_duty(ROUTER):
        testbed.run_command(router, ["ip", "route", "replace", f"{scenario.visit.ip}/32", "via",
                                     scenario.translated_address])


def _drop_fragments(testbed: Testbed, node: str, port: str) -> None:
    """Redirect IP fragments at a node's interface to a device that drops them."""
    # An earlier repetition may have done so.
    testbed.run_unchecked(node, ["ip", "link", "add", _SINK, "up", "type", "dummy"])
    testbed.run_unchecked(node, ["tc", "qdisc", "add", "dev", port, "clsact"])
    for direction in ("ingress", "egress"):
        testbed.run_command(node, ["tc", "filter", "replace", "dev", port, direction, "protocol",
                                   "ip", "prio", _FIRST, "handle", "1", "flower", "ip_flags",
                                   "frag", "action", "mirred", "egress", "redirect", "dev", _SINK])


def apply_to_station(site: Site, scenario: Scenario) -> None:
    """Give the mobile node its address and route without DHCP or SLAAC, under two controls."""
    if site.fault == STATIC_IPV6:
        _set_ipv6_address(site.testbed, scenario)
    if site.fault != STATIC_ADDRESS:
        return
    if not scenario.uses_dhcp:
        raise MeasureError("testbed", f"the control {STATIC_ADDRESS} needs a scenario with DHCP, "
                           "and this one has none")
    node = scenario.network.nodes[scenario.mobile_node]
    radio = node.radio_interface
    for words in (["address", "replace", node.interfaces[radio].address or ""],
                  ["route", "replace", "default", "via", node.gateway or "", "onlink"]):
        site.testbed.run_command(scenario.mobile_node, ["ip", *words, "dev", radio])


def _set_ipv6_address(testbed: Testbed, scenario: Scenario) -> None:
    """Give the mobile node its IPv6 address and route, without a search for duplicates."""
    network, name = scenario.network, scenario.mobile_node
    if not scenario.uses_ipv6:
        raise MeasureError("testbed", f"the control {STATIC_IPV6} needs a scenario with ip: 6, and "
                           "this one has not")
    radio = network.nodes[name].radio_interface
    settings = [f"net.ipv6.conf.{radio}.{setting}=0" for setting in (
        "accept_ra", "router_solicitations", "disable_ipv6")]
    testbed.run_command(name, ["sysctl", "-qw", *settings])
    testbed.run_command(name, ["ip", "-6", "address", "add", f"{network.address_of(name)}/64",
                               "dev", radio, "nodad"])
    testbed.run_command(name, ["ip", "-6", "route", "replace", "default", "via",
                               network.address_of(scenario.agent), "dev", radio, "onlink"])


def find_stream_target(fault: str, scenario: Scenario) -> str:
    """Return the peer's address for streams, of the wrong version of IP under one control."""
    network = scenario.network
    return network.nodes[scenario.peer].address if fault == OVER_IPV4 \
        else network.address_of(scenario.peer)


@contextmanager
def capturing_streams(fault: str, captures: Callable[..., Any], points: Sequence[CapturePoint],
                      detail: CaptureDetail) -> Iterator[None]:
    """Capture packets while the streams run, and make one capture lose packets if requested.

    The fault `lossy-capture` stops the capture on the wire and gives it a tiny buffer. Checks must
    then report an incomplete capture.

    Raises:
        MeasureError: the fault is requested, and no wire is captured.
    """
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


def apply_afterwards(fault: str, access: NetworkAccess, scenario: Scenario) -> None:
    """Inject a fault that belongs after all streams, or remove routes that a fault had added."""
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
    """Add a leftover IPsec SA between mobile node and home agent for the `left-over` fault.

    The context manager deletes the SA at its end. With any other fault it does nothing.
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
    """Send the UDP stream past the IPsec tunnel: allow it in clear at node and home agent."""
    network = scenario.network
    source, target = network.address_of(scenario.mobile_node), network.address_of(scenario.peer)
    for node, directions in ((scenario.mobile_node, ("out",)), (scenario.agent, ("in", "fwd"))):
        for direction in directions:
            testbed.run_command(node,
                                ["ip", "xfrm", "policy", "update", "src", source, "dst", target,
                                 "proto", "udp", "dport", str(iperf.PORT), "dir", direction,
                                 "priority", _FIRST])


def _route_beside_tunnel(testbed: Testbed, scenario: Scenario) -> None:
    """Route the mobile node's UDP stream past its tunnel by WireGuard, QUIC or Multipath TCP."""
    node, rule = scenario.mobile_node, ["priority", _FIRST]
    # An earlier repetition may have left the rule.
    if not testbed.run_command(node, ["ip", "rule", "list", *rule]).strip():
        testbed.run_command(node,
                            ["ip", "rule", "add", *rule, "ipproto", "udp", "dport", str(iperf.PORT),
                             "lookup", "main"])


def _companions_outside(testbed: Testbed, scenario: Scenario) -> None:
    """Delete the IPsec policies of the other mobile nodes, so that their packets pass in clear."""
    nodes = scenario.network.nodes
    for name in scenario.companions:
        for node in (name, nodes[name].agent or ""):
            _delete_policies(testbed, node, {nodes[name].address})


def _agents_outside(testbed: Testbed, scenario: Scenario) -> None:
    """Delete the IPsec policies between the home agents, so that their packets pass in clear."""
    agents = scenario.network.of_duty(HOME_AGENT)
    outer = {scenario.network.nodes[name].outer_address for name in agents}
    for name in agents:
        _delete_policies(testbed, name, outer, both=True)


def _untunnel_agents(testbed: Testbed, scenario: Scenario) -> None:
    """Route the roaming node's packets between the agents without the Mobile IP tunnel."""
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
    """Delete the IPsec policies of a node whose tunnel ends at one of the given addresses.

    Policies that block unprotected packets of these addresses are deleted, too.

    Args:
        testbed: the running test network.
        node: name of the node whose policies are deleted.
        ends: IP addresses of tunnel endpoints.
        both: delete only policies whose two endpoints are both among `ends`.

    Raises:
        MeasureError: the node has no policy with such a tunnel.
    """
    is_deleted = False
    shown = testbed.run_command(node, ["ip", "xfrm", "policy", "list"])
    for selector, direction, tunnel in parse_policies(shown):
        is_direct = not any(tunnel) and any(f"{end}/32" in selector for end in ends)
        has_tunnel = sum(end in ends for end in tunnel) >= 1 + both
        if is_direct or has_tunnel:
            testbed.run_command(node,
                                ["ip", "xfrm", "policy", "delete", *selector, "dir", direction])
        is_deleted = is_deleted or has_tunnel
    if not is_deleted:
        raise MeasureError("testbed", f"{node} has no IPsec policy with a tunnel to "
                           f"{' or '.join(sorted(ends))}, so the control has none to take away")


def parse_policies(text: str) -> Iterator[tuple[list[str], str, tuple[str, str]]]:
    """Parse the output of `ip xfrm policy list`.

    Yields:
        Per policy: the words of its selector, its direction, and the addresses of both tunnel
        endpoints. The endpoints of a policy that blocks packets are "".
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
    """Send an unencrypted frame in the mobile node's name, through a monitor interface.

    The driver applies no key to frames from a monitor interface.
    """
    _from_station(testbed, scenario)


def _clear_but_marked(testbed: Testbed, scenario: Scenario) -> None:
    """Send an unencrypted frame that claims encryption: Protected bit set, with an IV."""
    _from_station(testbed, scenario, flags=injection.PROTECTED, before=bytes((0x12, 0x34, 0x56, 0)))


def _long_but_marked(testbed: Testbed, scenario: Scenario) -> None:
    """Send a 1400-byte unencrypted frame with the Protected bit set.

    It is as long as a frame of the streams, of which captures keep only the headers.
    """
    _from_station(testbed, scenario, flags=injection.PROTECTED,
                  before=bytes((0x12, 0x34, 0x57, 0)), after=bytes(1400))


def _from_station(testbed: Testbed, scenario: Scenario, *, flags: int = 0,
                  before: bytes = b"", after: bytes = b"") -> None:
    nodes = scenario.network.nodes
    station, cell = nodes[scenario.mobile_node], nodes[scenario.access_point]
    frame = injection.station_frame(station.radio_mac, cell.radio_mac, cell.radio_mac,
                                    before + injection.READABLE + after, flags=flags)
    injection.inject_frame(testbed, scenario.mobile_node, station, frame)


def _past_the_agent(testbed: Testbed, scenario: Scenario) -> None:
    """Send a frame from the mobile node directly to another station, not to its access point."""
    nodes = scenario.network.nodes
    station = nodes[scenario.mobile_node]
    companion = nodes[next(iter(scenario.companions))].radio_mac
    injection.inject_frame(testbed, scenario.mobile_node, station, injection.station_frame(
        station.radio_mac, companion, companion, injection.READABLE))


def _clear_multicast(testbed: Testbed, scenario: Scenario) -> None:
    """Send an unencrypted multicast frame in the access point's name, by a monitor interface."""
    name = scenario.access_point
    cell = scenario.network.nodes[name]
    injection.inject_frame(testbed, name, cell,
                           injection.access_point_frame(cell.radio_mac, _ALL_SYSTEMS,
                                                        injection.READABLE))


def _clear_on_wire(testbed: Testbed, scenario: Scenario) -> None:
    """Send a frame without MACsec on the access point's wire, from the mobile node's address."""
    nodes = scenario.network.nodes
    name, port = scenario.access_point, scenario.network.link_of(scenario.access_point)[0]
    injection.send_on_interface(testbed, name, queueing_disciplines.physical_name(port),
                                injection.broadcast_frame(
                                    nodes[scenario.mobile_node].radio_mac))


def _repeated_on_wire(testbed: Testbed, scenario: Scenario) -> None:
    """Send a copy of a captured MACsec frame on the access point's wire.

    An attacker without a key can do the same.
    """
    nodes, name = scenario.network.nodes, scenario.access_point
    node, port = nodes[name], scenario.network.link_of(name)[0]
    injection.replay_macsec_frame(testbed, name, queueing_disciplines.physical_name(port),
                                  node.address,
                                  nodes[node.agent or ""].address)


def _forged_deauthentication(testbed: Testbed, scenario: Scenario) -> None:
    """Send the mobile node a deauthentication frame that is forged in its access point's name."""
    nodes, name = scenario.network.nodes, scenario.access_point
    injection.inject_frame(testbed, name, nodes[name], injection.deauthentication_frame(
        nodes[name].radio_mac, nodes[scenario.mobile_node].radio_mac))


def _send_alone(testbed: Testbed, _: Scenario) -> None:
    """Send every frame alone on the air."""
    if testbed.medium is None or not testbed.medium.has_long_aggregates:
        raise MeasureError("testbed", f"the control {ALONE} needs a medium of 802.11n, ac or ax "
                           "with aggregates, and a policy that may use them")
    testbed.disable_aggregation()


_CONTROLS: Mapping[str, Callable[[Testbed, Scenario], None]] = {
    "bypass": _bypass_tunnel, "beside-wireguard": _route_beside_tunnel,
    "beside-quic": _route_beside_tunnel, "beside-mptcp": _route_beside_tunnel,
    "companion-outside": _companions_outside,
    "agents-outside": _agents_outside, "clear-frame": _clear_frame,
    "clear-under-gcmp": _clear_frame,
    "clear-but-marked": _clear_but_marked, "long-but-marked": _long_but_marked,
    "clear-multicast": _clear_multicast,
    attacks.FORGED: _forged_deauthentication,
    ALONE: _send_alone,
    "past-the-agent": _past_the_agent, UNTUNNELLED: _untunnel_agents,
    "clear-on-wire": _clear_on_wire, "repeated-on-wire": _repeated_on_wire}
