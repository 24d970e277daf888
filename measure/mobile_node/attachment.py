"""Let a mobile node join a network, move it, and record what each step yields.

A study needs this for every repetition (one measurement) with a mobile node. `AttachmentSteps`
takes the node's `NetworkAccess` and the scenario. It authenticates the node, moves it, and stores
time stamps and raw values in the session. `WirelessAccess` adds captures, for studies that run
programs of their own on the node. Times are on the guest's wall clock, which also stamps the
captures. Whether the policy was applied is checked later, outside of the guest.

At home, the steps are association, address, registration (Mobile IP), tunnel, and first answered
packet. The steps after a move to a second access point depend on two properties:

- Some tunnels *follow* the node to another address (MOBIKE, WireGuard, QUIC, MPTCP).
- A node *roams* if it joins the second access point without disconnecting from the first.

| tunnel follows | move | registration | tunnel |
|---|---|---|---|
| yes | any | none | moved to the new address |
| no | roams within its subnet | none | kept |
| no | roams to another subnet | repeated | kept, because Mobile IP keeps the home address |
| no | disconnects, and stays in its subnet | repeated | kept |
| no | disconnects, and joins another subnet | repeated | negotiated again |
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

from measure.agent import kernel_state
from measure.agent.errors import MeasureError
from measure.agent.running_programs import read_release
from measure.agent.workload import HANDOFF_PMKSA, Service, Session, Site
from measure.attacks import vlan_probes
from measure.capture import tcpdump
from measure.capture.tcpdump import (
    AIR_PART,
    AUTH,
    MOVE,
    NAT,
    OTHER_NAME,
    TRAFFIC,
    CaptureDetail,
    CapturePoint,
    auth_points,
    capture_packets,
    path_points,
)
from measure.cpu import realtime_priority
from measure.mobile_node import station
from measure.mobile_node.access import NetworkAccess
from measure.mobile_node.alternatives import try_alternatives
from measure.mobile_node.station import PortCheck
from measure.packets.messages import HOST_POINT_PREFIX
from measure.services import macsec, radius, revocation
from measure.services.mobile_ip import MobileIp
from measure.services.slaac import SlaacClient
from topologies import queueing_disciplines
from topologies.address_translation import delete_mappings
from topologies.model import ACCESS_POINT, Link, Scenario

#: Time for tcpdump to read the last packets of an attempt, in s.
_LOGIN_SETTLE_S = 0.25


class AttachmentSteps:
    """The steps by which one mobile node joins the network.

    Raw values and time stamps are stored in the session, whose `raw` has `events`, `kernel` and
    `registration` at the end. Values of a visited network have the prefix `foreign_`. `roams_to` is
    the name of the access point to which the node moves, if it does.
    """

    def __init__(self, access: NetworkAccess, scenario: Scenario, session: Session, *,
                 roaming: str = "", is_over_ds: bool = False) -> None:
        self.access = access
        #: How the node moves without disconnecting first: HANDOFF_FULL (full authentication), or
        #: the link layer's `roaming`. With "" it disconnects and starts from a clean state.
        self._roaming = roaming
        #: Whether it asks for fast transition over the DS: by its access point, not over the air.
        self._is_over_ds = is_over_ds
        self._has_visited = False
        self.scenario = scenario
        self.station = access.get_station(scenario.mobile_node)
        self._session = session
        self._testbed = access.site.testbed
        self._nodes = access.site.network.nodes
        self._keys_before: dict[str, int] = {}
        self._quic_keys_before: dict[str, int] = {}
        #: Captures of MACsec key agreements by file, with the access point.
        self._agreements: dict[Path, str] = {}
        session.raw.update(events=[], kernel={}, roaming=roaming, roams_to=scenario.roams_to,
                           debian=read_release())
        if access.site.asked_releases:
            session.raw["daemon_releases"] = dict(access.site.asked_releases)
        if access.site.own_programs:
            session.raw["own_programs"] = sorted(access.site.own_programs)
        if access.site.packages:
            session.raw["own_packages"] = sorted(access.site.packages)
        medium = self._testbed.medium
        if medium is not None and medium.phy is not None:
            session.raw["medium"] = asdict(medium)

    @property
    def _used_access_points(self) -> list[str]:
        """Return the access points that the mobile node joins in this scenario."""
        return [name for name in (self.scenario.home, self.scenario.roams_to) if name]

    @property
    def peer(self) -> str:
        """Return the address of the node with which the mobile node communicates."""
        return self.access.site.network.address_of(self.scenario.peer)

    def reset_state(self) -> None:
        """Remove earlier state of the mobile node, and record any state that is left."""
        self.access.reset_mobile_node(self.scenario)
        if self._roaming:
            self.station.keep_neighbours()
        self._session.raw["left"] = self.access.remaining_state(self.scenario)
        self._keys_before = {node: len(keys) for node, keys in self.access.read_tls_keys().items()}
        self._quic_keys_before = {
            node: len(keys) for node, keys in self.access.read_quic_keys().items()}

    def visit_first(self) -> None:
        """Join the second access point once, if a later move uses the keys cached there.

        Raises:
            MeasureError: The mobile node could not join.
        """
        if self._roaming == HANDOFF_PMKSA and self.scenario.roams_to:
            self._join_access_point(self.scenario.roams_to, has_moved=False)
            self._has_visited = True

    def attach_at(self, access_point: str, prefix: str = "") -> None:
        """Let the mobile node join the network at one access point.

        The steps last from the first probe to the first answered packet. Names of raw values begin
        with `prefix`: "" at home, "foreign_" after a move.

        Raises:
            MeasureError: A step failed; the text includes the daemons' cause.
        """
        try:
            with self.access.explain_failures():
                self._attach_steps(access_point, prefix)
        finally:
            # After the timed part, when no step waits for it.
            self._session.raw["kernel"][f"{prefix}station"] = self._station_flags(access_point)
            if "medium" in self._session.raw:
                self._session.raw["kernel"][f"{prefix}rates"] = self._station_rates(access_point)

    def _attach_steps(self, access_point: str, prefix: str) -> None:
        raw, station = self._session.raw, self.station
        if not prefix:
            self._session.before_timing()
        self._session.stamp(f"{prefix}start")
        try:
            self._join_access_point(access_point, has_moved=bool(prefix))
        finally:
            self._session.stamp(f"{prefix}link")
        station.obtain_address()
        if isinstance(station.address_client, SlaacClient):
            self._session.stamp(f"{prefix}addressed")
        is_known = bool(prefix) and self._stays_in_subnet
        if prefix and self.access.has_following_tunnel:
            self.access.follow_tunnel(self.scenario)
        elif not (is_known and self._roaming):
            station.register()
        if station.registration is not None and not (is_known and self._roaming):
            raw[f"{prefix}registration"] = station.registration.history
        self._session.stamp(f"{prefix}registered")
        if not prefix or self._leaves_tunnel:
            self.access.negotiate_tunnel(station, self.scenario)
        self._session.stamp(f"{prefix}tunnel")
        limits, scenario = self.access.limits, self.scenario
        limit_s = limits.data_s(scenario)
        answered = station.is_reachable(self.peer, limit_s, limits.echo_again_s(scenario))
        self._session.stamp(f"{prefix}first_packet")
        raw.setdefault("link_keys", []).extend(kernel_state.link_keys(station.mac))
        if not answered:
            raise MeasureError("data", f"{station.name}: associated, but no packet "
                               f"comes back from {self.peer} within {limit_s:.3g} s")

    def move_to(self, access_point: str) -> None:
        """Move the mobile node to another access point, with existing keys or without."""
        self._session.before_timing()
        self._session.stamp("handoff")
        if not self._roaming:
            self.station.leave(keeps_tunnel=not self._leaves_tunnel)
        self.attach_at(access_point, "foreign_")

    def _join_access_point(self, access_point: str, *, has_moved: bool) -> None:
        """Let the mobile node associate and authenticate with an access point.

        A supplicant that is bound to one BSSID cannot roam. So only a node that never roams is
        bound to the access point. Another one joins its first access point while it ignores all
        others, and reaches each further one by roaming.

        Args:
            access_point: Name of the access point.
            has_moved: Whether the node moves to it during the measurement.
        """
        if not self._roaming:
            self.access.join_access_point(self.station, access_point)
            return
        if has_moved or self._has_visited:
            if not has_moved:  # what its home offers must show in this part, too
                self.station.scan_channel(self._nodes[access_point])
            self.station.roam(self._nodes[access_point],
                              is_over_ds=has_moved and self._is_over_ds)
            if not has_moved and self.scenario.roams_to:
                self.access.expire_station(self.station, self.scenario.roams_to)
        else:
            others = [self._nodes[name] for name in self._nodes_of(ACCESS_POINT)
                      if name != access_point]
            self.station.join_first(self._nodes[access_point], others)
        self.access.wait_authorized(self.station, access_point)

    @property
    def _stays_in_subnet(self) -> bool:
        """Return whether the mobile node keeps its home agent and its tunnel when it moves."""
        return self.scenario.foreign_agent is None

    @property
    def _leaves_tunnel(self) -> bool:
        """Return whether the mobile node gives up its tunnel at a move, and negotiates another one.

        It keeps the tunnel in three cases. The new access point is in the same subnet, or the node
        changes access points without disconnecting first (`roaming`), or the tunnel follows the
        node to its new address.
        """
        return not (self._stays_in_subnet or self._roaming or self.access.has_following_tunnel)

    def check_port(self, out: Path, *, has_port: bool,
                   probes_server: bool = False,
                   revoked: Mapping[str, str] | None = None,
                   other_name: str = "") -> dict[str, Any] | None:
        """Test that an unauthorised 802.1X port passes no frame, once per mobile node.

        With `probes_server`, the RADIUS server gets requests with and without a
        Message-Authenticator, too. With `revoked` (`version` of TLS, and `realm`), a revoked
        certificate is tried. With `other_name`, the RADIUS server shows the mobile node a
        certificate with this name.

        The result is None if no port exists, or if a service is left out that the test needs. Every
        repetition gets both small captures: `port-air.pcap` and `port-wire.pcap`.
        """
        if not has_port or self.access.site.withhold:
            return None
        known = self.access.port_checks
        if self.station.name not in known:
            check = self._check_closed_port(out)
            if probes_server:
                check.captures.append(
                    radius.probe_server(self.access.site, self.scenario.home, out))
            if revoked:
                raw, captures = revocation.try_revoked_certificate(
                    self.access.site, self.scenario, revoked["version"], revoked["realm"],
                    self.access.freeradius, out)
                check.revocation.update(raw)
                check.captures.extend(captures)
            if other_name:
                self._try_other_name(check, other_name, out)
            known[self.station.name] = check
        check = known[self.station.name]
        for summary, octets in check.captures:
            (out / summary["file"]).write_bytes(octets)
            self._session.raw["captures"].append(summary)
        if check.revocation:
            self._session.raw["revocation"] = check.revocation
        if check.other_name:
            self._session.raw["other_name"] = check.other_name
        return check.raw

    def try_alternatives(self, alternatives: Sequence[Sequence[str]], out: Path) -> None:
        """Try what else the ends accept, once per mobile node.

        Every repetition gets the raw values and the captures.

        Args:
            alternatives: Field of the policy and value of each attempt.
            out: Folder of the repetition.
        """
        if not alternatives or self.access.site.withhold:
            return
        known, name = self.access.alternatives, self.station.name
        if name not in known:
            known[name] = try_alternatives(self.access, self.scenario, alternatives, out)
        for summary, octets in known[name].captures:
            (out / summary["file"]).write_bytes(octets)
            self._session.raw["captures"].append(summary)
        self._session.raw["alternatives"] = known[name].raw

    def record_wires(self, out: Path) -> None:
        """Record how access points set up their RadSec connections and MACsec keys.

        Both happen once per testbed. Every repetition gets the captures at the access points that
        it uses.
        """
        raw, used = self._session.raw, self._used_access_points
        known = [entry for name, entry in self.access.radsec_connections.items() if name in used]
        for connected in known:
            (out / str(connected.summary["file"])).write_bytes(connected.octets)
            raw["captures"].append(connected.summary)
        if known:
            raw["radsec_keys"] = [line for connected in known for line in connected.keys]
        if self._testbed.macsec:
            self._agreements = {out / f"{macsec.MACSEC_PART}-{name}.pcap": name for name in used}
        for file in self._agreements:
            raw["captures"].append({"point": macsec.MACSEC_PART, "file": file.name, "captured": 0,
                                    "dropped": 0, "one_in": 1})
        self._record_agreements()

    def _record_agreements(self) -> None:
        """Record the MACsec key agreement messages that have distributed keys so far."""
        raw = self._session.raw
        for file, access_point in self._agreements.items():
            is_saved = self.access.wire_keys.save_key_messages(access_point, file)
            for entry in raw["captures"]:
                if entry["file"] == file.name:
                    entry["captured"] = is_saved

    def probe_vlans(self) -> None:
        """Send requests for the mobile node in its VLAN and outside, if it has one."""
        if not self._testbed.vlan:
            return
        node, port = self.scenario.network.wire_beyond(self.scenario.access_point)
        own = self._testbed.vlan_of(self.station.name)
        others = [vlan for name in self.scenario.companions
                  if (vlan := self._testbed.vlan_of(name)) != own]
        vlan_probes.send_vlan_probes(self._testbed, node, port, self.station.address, own,
                                     others[0] if others else 0)

    def probe_translation(self, captures: Callable[..., Any], idle_s: float, *,
                          restarts: bool = True) -> None:
        """Let the mobile node idle behind a router with NAT, and then restart the router.

        The node idles twice: before and after the router deletes its mappings. Each time an echo
        request follows, first from the peer, then from the node. `nat` in the raw values has
        which ones were answered, and address and port of the node in the agent's kernel.

        Args:
            captures: Context manager of captures, with `part`.
            idle_s: Time without packets of programs (s), each time.
            restarts: Whether the router deletes its mappings.
        """
        scenario, router = self.scenario, self.scenario.foreign_agent
        if scenario.visited_nat is None or router is None or scenario.roams_to is None:
            return
        raw, limits = self._session.raw, self.access.limits
        limit_s, again_s = limits.data_s(scenario), limits.echo_again_s(scenario)
        values = raw["nat"] = {"idle_s": idle_s, "endpoints": []}
        points = [tcpdump.wire_point(scenario.network, "inside", scenario.roams_to),
                  CapturePoint("outside", router, scenario.visited_nat.outside)]
        with captures(points, tcpdump.WHOLE, part=NAT):
            self.station.is_reachable(self.peer, limit_s, again_s)
            for moment in ("kept", "restarted"):
                values["endpoints"].append(self.access.agent_endpoints(scenario))
                self._session.stamp(f"nat_{moment}_idle")
                if moment == "restarted" and restarts:
                    delete_mappings(self._testbed.node(router).pid)
                time.sleep(idle_s)
                self._session.stamp(f"nat_{moment}")
                values[moment] = {
                    "from_peer": self._testbed.run_unchecked(scenario.peer, [
                        "ping", "-n", "-q", "-c", "1", "-i", f"{again_s:.1f}", "-w",
                        str(math.ceil(limit_s)), self.station.address],
                        2 * limit_s + 10).returncode == 0,
                    "from_node": self.station.is_reachable(self.peer, limit_s, again_s)}
            values["endpoints"].append(self.access.agent_endpoints(scenario))
            self._session.stamp("nat_end")
            tcpdump.settle_captures(self._testbed)

    def record_tunnel_state(self) -> None:
        """Record the state of the tunnel at mobile node and home agent after the traffic."""
        if states := self.access.tunnel_states(self.scenario):
            self._session.raw["kernel"]["wireguard"] = states
        self._session.raw.update(self.access.program_states(self.scenario))
        if self.access.has_ipsec:
            self._session.raw["kernel"]["after_traffic"] = self.access.ipsec_states(self.scenario)

    def _read_queues(self, links: Sequence[Link]) -> dict[str, list[dict[str, Any]]]:
        """Return the queueing disciplines at both ends of wires, by `node/interface`."""
        found = {}
        for link in links:
            is_protected = bool(self._testbed.macsec) \
                and link in self.scenario.network.protectable
            for end in link.ends:
                node, _, port = end.partition("/")
                found[end] = kernel_state.read_queues(
                    self._testbed, node,
                    queueing_disciplines.physical_name(port) if is_protected else port)
        return found

    def record_path_state(self) -> None:
        """Record kernel state of other mobile nodes, and of the tunnel between their gateways."""
        of_nodes, agents = self._session.raw["kernel"], self.scenario.network.tunnel_gateways
        of_nodes["companions"] = {
            name: {"station": self._station_flags(self.scenario.home_of(name), name),
                   "sas": self._pair_sas(name, self._nodes[name].agent or "")
                   if self.access.has_ipsec else {}}
            for name in self.scenario.companions}
        if special := self.scenario.network.special_links:
            of_nodes["queues"] = self._read_queues(special)
        if self._testbed.vlan:
            of_nodes["vlans"] = {name: kernel_state.read_vlan_state(
                self._testbed, name, self._nodes[name].radio_interface, self.station.mac)
                for name in [self.scenario.access_point]}
            of_nodes["companion_vlans"] = {name: kernel_state.read_vlan_state(
                self._testbed, home, self._nodes[home].radio_interface, self._nodes[name].radio_mac)
                for name in self.scenario.companions if (home := self.scenario.home_of(name))}
        self._session.raw["companion_keys"] = [
            key for name in self.scenario.companions
            for key in kernel_state.link_keys(self.access.get_station(name).mac)]
        if self.access.has_ipsec:
            esp_keys = self._session.raw.setdefault("esp_keys", [])
            for node in dict.fromkeys((self.scenario.mobile_node, *self.scenario.companions,
                                       *agents)):
                esp_keys += [key for key in kernel_state.xfrm_keys(self._testbed, node) if key not
                             in esp_keys]
        if self._testbed.macsec:
            of_nodes["wires"] = self.access.wire_keys.read_states(self._used_access_points)
        if self.access.has_ipsec and len(agents) > 1:
            of_nodes["agents"] = self._sas_between(
                agents, {self.access.site.network.outer_address_of(agent) for agent in agents})

    def _nodes_of(self, duty: str) -> list[str]:
        return self.scenario.network.of_duty(duty)

    def _pair_sas(self, station: str, agent: str) -> dict[str, Any]:
        network = self.access.site.network
        return self._sas_between((station, agent), {network.address_of(station),
                                                    network.address_of(agent)})

    def _sas_between(self, nodes: Sequence[str], ends: set[str]) -> dict[str, Any]:
        """Return the IPsec SAs between two addresses in the kernels of these nodes."""
        return {node: [state for state in kernel_state.xfrm_states(self._testbed, node)
                       if {state["src"], state["dst"]} == ends] for node in nodes}

    def record_end(self) -> None:
        """Record the values that are complete only at the end of a repetition."""
        self._session.raw["events"] = [vars(event) for event in self.station.supplicant.history]
        self._record_agreements()
        self._session.raw["ike_sas"] = self.station.ike_sas
        self._session.raw["tls_keys"] = [
            line for node, keys in self.access.read_tls_keys().items()
            for line in keys[self._keys_before.get(node, 0):]]
        if quic_keys := [line for node, keys in self.access.read_quic_keys().items()
                         for line in keys[self._quic_keys_before.get(node, 0):]]:
            self._session.raw["quic_keys"] = quic_keys

    def _check_closed_port(self, out: Path) -> PortCheck:
        """Test that an associated station's port passes nothing without authentication.

        The authentication server is stopped meanwhile.
        """
        asked_s = time.time()
        captures: list[tuple[dict[str, Any], bytes]] = []
        self.access.reset_mobile_node(self.scenario)
        supplicant = self.station.supplicant
        with self.access.suspend_radius(self.scenario.home):
            self.station.start_joining(self._nodes[self.scenario.home])
            associated = supplicant.wait_event(
                {"Associated"}, time.monotonic() + self.access.limits.link_s) is not None
            flags = self._station_flags(self.scenario.home)
            if associated:
                captures = station.probe_port(self.access.site, self.scenario, self.station, out)
        self.access.reset_mobile_node(self.scenario)
        return PortCheck({"at_s": asked_s, "associated": associated,
                          "authorized": flags.get("authorized", "unknown")}, captures)

    def _try_other_name(self, check: PortCheck, name: str, out: Path) -> None:
        """Let the mobile node log in to a RADIUS server whose certificate has another name.

        What happens is added to `check`: raw values, and a capture at the mobile node.
        """
        point = CapturePoint(OTHER_NAME, self.station.name, self.station.radio,
                             "ether proto 0x888e")
        known = {node: len(keys) for node, keys in self.access.read_tls_keys().items()}
        taken: list[dict[str, Any]] = []
        self.access.reset_mobile_node(self.scenario)
        with (self.access.use_other_certificate(self.scenario.home, name),
              capture_packets(self._testbed, [point], tcpdump.WHOLE, part="port", out=out,
                              logs=self.access.site.logs, summaries=taken)):
            event, cause = self.station.try_login(self._nodes[self.scenario.home])
            time.sleep(_LOGIN_SETTLE_S)
        self.access.reset_mobile_node(self.scenario)
        check.other_name.update(event=event, cause=cause, tls_keys=[
            line for node, lines in self.access.read_tls_keys().items()
            for line in lines[known.get(node, 0):]])
        check.captures.extend((each, (out / each["file"]).read_bytes()) for each in taken)

    def _station_rates(self, access_point: str) -> dict[str, str]:
        """Return the bit rates to and from the mobile node in an access point's kernel."""
        stations = kernel_state.station_rates(self._testbed, access_point,
                                              self._nodes[access_point].radio_interface)
        return stations.get(self.station.mac, {})

    def _station_flags(self, access_point: str, station: str = "") -> dict[str, str]:
        """Return an access point's kernel flags of a station, by default the mobile node."""
        stations = kernel_state.station_flags(self._testbed, access_point,
                                              self._nodes[access_point].radio_interface)
        return stations.get(self.access.get_station(station or self.station.name).mac, {})


# --- A study's own programs over a policy on the air ---
# Authentication and captures are those of `NetworkAccess`, so `measure.checks.proof` can prove the
# policy's layers. The programs are the study's.

#: Enough for the inner headers inside a tunnel and the start of a payload.
_HEADS = CaptureDetail(snap_bytes=320, buffer_kib=2048, in_blocks=True)


def host_points(client: str, hosts: Sequence[str], interface: str,
                expression: str) -> list[CapturePoint]:
    """Return capture points at hosts at home, where a client's packets are not encrypted.

    Args:
        client: Address of the mobile node.
        hosts: Names of the hosts.
        interface: The hosts' interface.
        expression: Capture filter of the packets.
    """
    return [CapturePoint(f"{HOST_POINT_PREFIX}{host}", host, interface,
                         f"host {client} and ({expression})")
            for host in hosts]


class WirelessAccess:
    """Wireless access for a study's own programs: a mobile node that joins, with captures.

    With `repeatable`, two runs of a seed are equal, which needs virtual time. Two things change:

    - Mobile IP's agents advertise only on solicitation (RFC 5944, 2.3), not at random times.
    - All processes of the guest except tcpdump get real-time priority during the traffic.
    """

    def __init__(self, site: Site, *, repeatable: bool = False) -> None:
        keys = site.secrets["mobile_ip"]
        self._site = site
        self._is_repeatable = repeatable
        self.access = NetworkAccess(site, MobileIp(keys["key_hex"], keys["node_key_hex"],
                                                   advertisement_interval_s=0.0 if repeatable
                                                   else 1.0))

    def list_services(self) -> Sequence[Service]:
        """Return the daemons that the policy needs, as services."""
        return self.access.list_services()

    @contextmanager
    def attach_node(self, scenario: Scenario, out: Path, session: Session, *,
                    has_port: bool, resumes: bool = False,
                    detail: CaptureDetail = _HEADS) -> Iterator[AttachedNode]:
        """Let the mobile node join the network at home, and capture its packets inside the context.

        The node can then talk to its peer. Raw values are stored as the part AIR_PART of the
        repetition, apart from raw values of the study's own programs.

        Args:
            scenario: The scenario.
            out: Folder for captures.
            session: The repetition's session.
            has_port: Whether the policy has an 802.1X port, to be checked as closed first
                (`Policy.uses_eap`).
            resumes: Whether the node authenticates once before, to have a TLS session to resume.
            detail: How much of each packet captures keep while the study's programs run.

        Raises:
            MeasureError: A step failed, or the workload did not move the node as the scenario
                requires.
        """
        session = session.create_part(AIR_PART)
        raw = session.raw
        arrival = AttachmentSteps(self.access, scenario, session)
        captures = partial(capture_packets, self._site.testbed, out=out, logs=self._site.logs,
                           summaries=raw.setdefault("captures", []))
        raw["port_check"] = arrival.check_port(out, has_port=has_port)
        arrival.record_wires(out)
        if resumes:
            self.access.begin_session(scenario)
        used = [scenario.home, *([scenario.roams_to] if scenario.roams_to else [])]
        points = path_points(self._site, scenario, has_ipsec=self.access.has_ipsec,
                             access_points=used)
        whole = tcpdump.whole_frames(self._site.testbed)
        try:
            arrival.reset_state()
            with captures(auth_points(replace(scenario, roams_to=None),
                                      has_macsec=bool(self._site.testbed.macsec),
                                      has_ocsp=self.access.has_ocsp), whole, part=AUTH):
                arrival.attach_at(scenario.home)
                tcpdump.settle_captures(self._site.testbed, whole)
            stay = AttachedNode(self._site, arrival, session, captures)
            with captures(points, detail, part=TRAFFIC), ExitStack() as stack:
                if self._is_repeatable:
                    stack.enter_context(realtime_priority.real_time_priority(os.getpid(),
                                                                             tcpdump.PROGRAMS))
                stay.record_keys()
                yield stay
                stay.record_keys()
                arrival.record_tunnel_state()
                arrival.record_path_state()
                tcpdump.settle_captures(self._site.testbed)
            if scenario.roams_to and not stay.has_moved:
                raise MeasureError("testbed", f"{scenario.mobile_node} did not move while it was "
                                   "measured; have the study's workload move it")
        finally:
            session.stamp("end")
            arrival.record_end()

    def bypass_tunnel(self, scenario: Scenario, selector: Sequence[str]) -> None:
        """Let certain packets bypass the IPsec tunnel at both ends, as a deliberate fault.

        Args:
            scenario: Scenario with the nodes at both ends.
            selector: Selector of the packets, in the syntax of `ip xfrm policy`.
        """
        nodes = scenario.network.nodes
        source, target = nodes[scenario.peer].address, nodes[scenario.mobile_node].address
        for node, directions in ((scenario.agent, ("out", "fwd")), (scenario.mobile_node, ("in",))):
            for direction in directions:
                self._site.testbed.run_command(node, [
                    "ip", "xfrm", "policy", "update", "src", source, "dst", target, *selector,
                    "dir", direction, "priority", "1"])


class AttachedNode:
    """A mobile node that has joined the network, and can move if the scenario requires it."""

    def __init__(self, site: Site, arrival: AttachmentSteps, session: Session,
                 captures: Any) -> None:
        self._site, self._arrival, self._session = site, arrival, session
        self._captures = captures
        self.has_moved = False

    @property
    def has_pending_move(self) -> bool:
        """Return whether the scenario has a handoff that did not take place yet."""
        return bool(self._arrival.scenario.roams_to) and not self.has_moved

    def move_away(self, at_s: float = 0.0) -> None:
        """Move the mobile node to the visited network while the study's programs run.

        Args:
            at_s: Time of the handoff on the machine's monotonic clock; later if captures are not
                ready.

        Raises:
            MeasureError: The node could not get onto the visited network.
        """
        scenario = self._arrival.scenario
        assert scenario.roams_to is not None
        points = [point for point in auth_points(scenario,
                                                 has_macsec=bool(self._site.testbed.macsec),
                                                 has_ocsp=self._arrival.access.has_ocsp)
                  if point.name not in ("wire", tcpdump.MACSEC_POINTS[0])]
        with self._captures(points, tcpdump.WHOLE, part=MOVE):
            time.sleep(max(0.0, at_s - time.monotonic()))
            self._arrival.move_to(scenario.roams_to)
            tcpdump.settle_captures(self._site.testbed, tcpdump.WHOLE)
        self.has_moved = True

    def record_keys(self) -> None:
        """Record the keys of the IPsec SAs at peer and mobile node, to decrypt captures later."""
        if self._arrival.access.has_ipsec:
            scenario = self._arrival.scenario
            esp_keys = self._session.raw.setdefault("esp_keys", [])
            for node in dict.fromkeys((scenario.mobile_node, scenario.peer)):
                esp_keys += [key for key in kernel_state.xfrm_keys(self._site.testbed, node)
                             if key not in esp_keys]
