"""Control one mobile node: join access points, register by Mobile IP, negotiate IKE.

`MeasuredStation` sends commands to the node's wpa_supplicant, Mobile IP client, DHCP client and
charon, and waits until each step is done. `measure.mobile_node.access` and `attachment` call it in
the guest. `VisitingAddress` gives a node whose tunnel moves with it an address in the visited
subnet. `probe_port` sends an ARP request past a closed 802.1X port. It returns captures of the air
and of the wire, where the frame must not appear.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from measure.agent import kernel_state
from measure.agent.errors import MeasureError
from measure.agent.time_limits import TimeLimits
from measure.agent.workload import Site
from measure.attacks import injection
from measure.capture.tcpdump import AIR_INTERFACE, WHOLE, CapturePoint, capture_packets, wire_point
from measure.services import charon
from measure.services.dhcp import DhcpClient
from measure.services.hostap import ControlSocket, disconnect_station, is_port_open
from measure.services.icmp_echo import AGAIN_S, EchoSocket
from measure.services.mobile_ip import RegistrationDaemon
from measure.services.slaac import SlaacClient
from topologies.medium import tuned_frequency_mhz
from topologies.model import Node, Scenario, VisitedSubnet
from topologies.paths import explain_unreachable

if TYPE_CHECKING:
    from topologies.builder import Testbed


# --- Addresses of a node whose tunnel follows it to a visited subnet ---
# The home address moves to a dummy device and stays the programs' source address, inside the
# tunnel. The visited address is the tunnel's own. It is assigned at once, without DHCP.

#: Device of the home address while away; charon is configured not to send from it.
_DEVICE = "home0"
#: Routing table, other than charon's own (220), whose rule comes first.
_TABLE = "403"
#: Rule priorities after those that send packets into WireGuard's tunnel.
_TO_AGENT, _PRIORITY = "402", "403"


class VisitingAddress:
    """The IP addresses and routes of one mobile node, at home and in a visited subnet."""

    def __init__(self, testbed: Testbed, name: str, node: Node) -> None:
        self._testbed, self._name, self._node = testbed, name, node
        #: The visited subnet, None at home.
        self.visit: VisitedSubnet | None = None

    def configure_visit(self, visit: VisitedSubnet) -> None:
        """Give the node an address in a visited subnet, and routes through its gateway."""
        home, radio = f"{self._node.address}/32", self._node.radio_interface
        out = ["default", "via", visit.gateway, "dev", radio, "onlink"]
        self._run_ip("link", "add", _DEVICE, "type", "dummy")
        self._run_ip("link", "set", _DEVICE, "up")
        self._run_ip("address", "add", home, "dev", _DEVICE)
        self._run_ip("address", "add", visit.address, "dev", radio)
        self._run_ip("address", "del", home, "dev", radio)
        self._run_ip("route", "replace", *out)
        self._run_ip("route", "del", self._node.gateway or "", "dev", radio)
        # Sockets without a bound address use the home address, and so the tunnel.
        self._run_ip("route", "replace", *out, "src", self._node.address, "table", _TABLE)
        for rule in self._visit_rules(visit):
            self._run_ip("rule", "add", *rule)
        self.visit = visit

    def restore_home(self) -> None:
        """Restore the node's addresses and routes at home, if it is away."""
        if self.visit is None:
            return
        home, radio = f"{self._node.address}/32", self._node.radio_interface
        gateway = self._node.gateway or ""
        for rule in self._visit_rules(self.visit):
            self._run_ip("rule", "del", *rule)
        self._run_ip("route", "flush", "table", _TABLE)
        self._run_ip("link", "del", _DEVICE)
        self._run_ip("address", "add", home, "brd", "+", "dev", radio)
        self._run_ip("route", "replace", gateway, "dev", radio)
        self._run_ip("route", "replace", "default", "via", gateway, "dev", radio, "onlink")
        self._run_ip("address", "del", self.visit.address, "dev", radio)
        self.visit = None

    @staticmethod
    def _visit_rules(visit: VisitedSubnet) -> list[list[str]]:
        """Return the `ip rule` entries of a node in the visited subnet.

        All packets use the visited table, except the tunnel's own packets to the agent.
        """
        return [*(["priority", _TO_AGENT, "to", address, "lookup", "main"]
                  for address in visit.agent), ["priority", _PRIORITY, "lookup", _TABLE]]

    def _run_ip(self, *words: str) -> None:
        self._testbed.run_command(self._name, ["ip", *words])


# --- The station: link, registration and tunnel ---

POLL_S = 0.0005
#: charon reacts to address changes after 0.1 s. Wait longer, so that it announces nothing on the
#: next SA.
_ADDRESSES_S = 0.3
#: Interval between two checks that a tunnel has followed its node, in s.
_FOLLOW_POLL_S = 0.02
#: Event by which the supplicant requests the response of an external card.
_USIM_REQUEST = "CTRL-REQ-SIM-0"
#: Events that end an attempt to log in.
_LOGIN_ENDS = {"CTRL-EVENT-CONNECTED", "CTRL-EVENT-EAP-FAILURE"}
_UP = {"CTRL-EVENT-CONNECTED", _USIM_REQUEST, "CTRL-EVENT-EAP-FAILURE", "CTRL-EVENT-ASSOC-REJECT",
       "CTRL-EVENT-AUTH-REJECT", "CTRL-EVENT-SSID-TEMP-DISABLED"}
_REFUSED = {"CTRL-EVENT-EAP-FAILURE": "EAP-Failure",
            "CTRL-EVENT-ASSOC-REJECT": "association refused",
            "CTRL-EVENT-AUTH-REJECT": "802.11 authentication refused",
            "CTRL-EVENT-SSID-TEMP-DISABLED": "network given up by the supplicant"}
#: Reason in an event's text: a status code (IEEE 802.11-2020, table 9-50) or hostap's own word.
_EVENT_REASON = re.compile(r"(?:reason|status_code)=(\w+)")


class MeasuredStation:
    """A mobile node with its supplicant, Mobile IP client and IKE daemon.

    - `charon`: the vici socket, None without IPsec.
    - `registration`: the Mobile IP program, None without Mobile IP.
    - `card`: answers the supplicant's requests to a subscriber's card.
    - `echoes`: socket for ICMP echo requests.
    """

    def __init__(self, testbed: Testbed, name: str, supplicant: ControlSocket,
                 registration: RegistrationDaemon | None, charon: Path | None,
                 charon_log: Path, card: Callable[[str], str], *,
                 echoes: EchoSocket) -> None:
        node = testbed.network.nodes[name]
        self.testbed = testbed
        self.name = name
        self.node = node
        self.supplicant = supplicant
        self.registration = registration
        self.charon = charon
        #: Client for DHCP or SLAAC, None if the network's file gives the address.
        self.address_client: DhcpClient | SlaacClient | None = None
        self._charon_log = charon_log
        self._card = card
        self._echoes = echoes
        self._limits = TimeLimits.for_testbed(testbed)
        self.radio = node.radio_interface
        self.mac = node.interfaces[self.radio].radio or ""
        self.address = testbed.network.address_of(name)
        #: The node's addresses, if its tunnel follows it.
        self.whereabouts = VisitingAddress(testbed, name, node)
        self.ike_sas: list[dict[str, Any]] = []
        #: The access point that the node is joining.
        self._access_point: Node | None = None
        #: How often the supplicant's network was changed.
        self._configurations = 0

    def leave(self, *, keeps_tunnel: bool = False) -> None:
        """Disconnect, delete scan results, the tunnel's SAs and a leased address.

        The tunnel's IPsec policies stay.

        Args:
            keeps_tunnel: Keep SAs and address: the next link is in the same subnet, so the tunnel
                survives the move.
        """
        self.disconnect()
        if self.registration is not None:
            self.registration.report_link_down()
        if self.charon and not keeps_tunnel:
            with charon.open_session(self.charon) as session:
                charon.delete_sas(session)
        if not keeps_tunnel and self.whereabouts.visit is not None:
            self.whereabouts.restore_home()
            if self.charon:
                time.sleep(_ADDRESSES_S)
        if self.address_client is not None and not keeps_tunnel:
            self.address_client.release_address()

    def disconnect(self) -> None:
        """Disconnect and delete scan results, without notifying IKE or Mobile IP."""
        disconnect_station(self.supplicant)

    def forget_session(self) -> None:
        """Make the supplicant forget its TLS session, as after a change of its network."""
        self._configurations += 1
        self.supplicant.send_command(f'SET_NETWORK 0 id_str "{self._configurations}"')

    def keep_neighbours(self) -> None:
        """Make the kernel keep its neighbours' addresses while the link is down, as iwd does.

        Otherwise a node that moves during traffic sends an ARP request before the new access point
        lets it pass. The next request follows a whole second later (Linux's ip-sysctl,
        arp_evict_nocarrier).
        """
        self.testbed.run_command(self.name, [
            "sysctl", "-qw", f"net.ipv4.conf.{self.radio}.arp_evict_nocarrier=0",
            f"net.ipv6.conf.{self.radio}.ndisc_evict_nocarrier=0"])

    def start_joining(self, access_point: Node) -> None:
        """Start to join one access point, without waiting for the result."""
        self._access_point = access_point
        self.supplicant.send_command(f"SET_NETWORK 0 bssid {access_point.radio_mac}")
        self.supplicant.send_command("ENABLE_NETWORK 0")

    def join_access_point(self, access_point: Node) -> None:
        """Scan, associate and authenticate with one access point.

        Raises:
            MeasureError: The supplicant reported a failure, or time ran out.
        """
        self.start_joining(access_point)
        self._wait_until_up()

    def join_first(self, access_point: Node, other_access_points: Sequence[Node]) -> None:
        """Join one access point, and allow a later move to the others.

        A supplicant that is bound to one BSSID does not roam. So all other BSSIDs are ignored until
        the node has joined.

        Raises:
            MeasureError: The supplicant reported a failure, or time ran out.
        """
        self._access_point = access_point
        self.supplicant.send_command("SET_NETWORK 0 bssid any")
        self.supplicant.send_command("BSSID_IGNORE clear")
        for other in other_access_points:
            self.supplicant.send_command(f"BSSID_IGNORE {other.radio_mac}")
        self.supplicant.send_command("ENABLE_NETWORK 0")
        self._wait_until_up()
        self.supplicant.send_command("BSSID_IGNORE clear")

    def scan_channel(self, access_point: Node) -> None:
        """Scan an access point's channel, as before a move to it.

        Raises:
            MeasureError: No scan results came in time.
        """
        frequency_mhz = tuned_frequency_mhz(self.testbed.medium, access_point.channel or 1,
                                            self.testbed.network.access_point_channels)
        self.supplicant.send_command(f"SCAN freq={frequency_mhz}")
        limit_s = self._limits.link_s
        if self.supplicant.wait_event({"CTRL-EVENT-SCAN-RESULTS"}, time.monotonic()
                                      + limit_s) is None:
            raise MeasureError("link", f"{self.name}: no results of a scan within {limit_s:.3g} s")

    def roam(self, access_point: Node, *, is_over_ds: bool = False) -> None:
        """Move to a known access point with the keys that the node has.

        Args:
            access_point: The access point.
            is_over_ds: Whether fast transition is requested over the DS (IEEE 802.11-2020, 13.5.3):
                the access point in use passes the request on by wire.
        """
        self._access_point = access_point
        command = "FT_DS" if is_over_ds else "ROAM"
        self.supplicant.send_command(f"{command} {access_point.radio_mac}")
        self._wait_until_up()

    def _wait_until_up(self) -> None:
        limit_s = self._limits.link_s
        until = time.monotonic() + limit_s
        while (event := self.supplicant.wait_event(_UP, until)) and event.name == _USIM_REQUEST:
            self.supplicant.send_command(f"CTRL-RSP-SIM-0:{self._card(event.text)}")
        if event is not None and event.name == "CTRL-EVENT-CONNECTED":
            self._wait_for_port()
            return
        names = {past.name for past in self.supplicant.history}
        stage = "dot1x" if "CTRL-EVENT-EAP-STARTED" in names else "link"
        if event is not None:
            what = _REFUSED[event.name]
            if why := _EVENT_REASON.search(event.text):
                what += f" (status {why[1]})" if why[1].isdecimal() else f" ({why[1]})"
        else:
            goal = "802.1X did not finish" if stage == "dot1x" else "no association"
            what = f"{goal} within {limit_s:.3g} s"
            if reason := explain_unreachable(self.testbed.medium, self.node,
                                             self._access_point or self.node):
                what += f": {reason}"
        raise MeasureError(stage, f"{self.name}: {what} {self._certificate_error()}".strip())

    def _wait_for_port(self) -> None:
        """Wait until the 802.1X port passes data frames.

        The supplicant reports "connected" a moment before.
        """
        until = time.monotonic() + self._limits.link_s
        while not is_port_open(self.supplicant.read_status()):
            if time.monotonic() > until:
                raise MeasureError("link", f"{self.name}: connected, but its port stays closed")
            time.sleep(POLL_S)

    def obtain_address(self) -> None:
        """Get an address by DHCP or SLAAC, if the network uses one of them and the node has none.

        Raises:
            MeasureError: There is no address in time.
        """
        if self.address_client is not None:
            self.address_client.obtain_address(
                self._limits.slaac_s if isinstance(self.address_client, SlaacClient)
                else self._limits.lease_s)

    def register(self) -> None:
        """Find the mobility agent of this link, and register with it by Mobile IP.

        Raises:
            MeasureError: The registration failed.
        """
        if self.registration is not None:
            self.registration.register(self._limits.registration_s)

    def negotiate_tunnel(self) -> None:
        """Negotiate IKE and the tunnel's SAs, if the policy has IPsec.

        Raises:
            MeasureError: The negotiation failed.
        """
        if not self.charon:
            return
        limit_s = self._limits.ike_s
        with charon.open_session(self.charon, limit_s) as session:
            charon.negotiate_tunnel(session, "qop", limit_s, self._charon_log)
            self.ike_sas = charon.list_ike_sas(session)

    def renew_child(self) -> None:
        """Negotiate new keys of the tunnel's ESP SAs.

        Raises:
            MeasureError: The keys are not renewed in time.
        """
        if not self.charon:
            return
        limit_s = self._limits.ike_s
        with charon.open_session(self.charon, limit_s) as session:
            charon.renew_child(session, "qop", limit_s)
            self.ike_sas = charon.list_ike_sas(session)

    def follow_visit(self, visit: VisitedSubnet) -> None:
        """Take an address in the visited subnet, and wait until the tunnel uses it.

        charon notices the address by itself and informs the agent. Other tunnels need no message.

        Raises:
            MeasureError: The tunnel did not follow in time.
        """
        self.whereabouts.configure_visit(visit)
        if not self.charon:
            return
        limit_s = self._limits.ike_s
        until = time.monotonic() + limit_s
        while not any(visit.ip in (state["src"], state["dst"]) for state in self.remaining_sas()):
            if time.monotonic() > until:
                raise MeasureError("ike", f"{self.name}: its tunnel does not follow it to "
                                   f"{visit.ip} within {limit_s:.3g} s")
            time.sleep(_FOLLOW_POLL_S)
        with charon.open_session(self.charon) as session:
            self.ike_sas = charon.list_ike_sas(session)

    def is_reachable(self, address: str, seconds: float, again_s: float = AGAIN_S) -> bool:
        """Return whether an address answers an ICMP echo request in time, with retransmissions.

        Args:
            address: The peer's address.
            seconds: Time limit in s.
            again_s: Interval of retransmissions in s.
        """
        return self._echoes.is_answered(address, seconds, again_s)

    def remaining_sas(self) -> list[dict[str, Any]]:
        """Return the IPsec SAs that the node's kernel still has."""
        return kernel_state.xfrm_states(self.testbed, self.name) if self.charon else []

    def count_cached_keys(self) -> int:
        """Return how many pairwise master keys (PMKSAs) the supplicant has cached."""
        heading, *entries = self.supplicant.request("PMKSA").splitlines() or [""]
        if not heading.startswith("Index"):
            raise MeasureError("testbed", f"{self.name}: the supplicant does not say which keys it "
                               f"has cached ({heading.strip() or 'no answer'})")
        return len([entry for entry in entries if entry.strip()])

    def try_login(self, access_point: Node) -> tuple[str, str]:
        """Try to log in, and return the event that ends it and the complaint about a certificate.

        Both are "" if there is none in time.
        """
        self.start_joining(access_point)
        event = self.supplicant.wait_event(_LOGIN_ENDS, time.monotonic() + self._limits.link_s)
        return event.name if event else "", self._certificate_error()

    def _certificate_error(self) -> str:
        """Return the supplicant's complaint about a certificate, "" if there is none."""
        for event in self.supplicant.history:
            if event.name == "CTRL-EVENT-EAP-TLS-CERT-ERROR":
                match = re.search(r"err='([^']*)'", event.text)
                shown = re.search(r"subject='([^']*)'", event.text)
                of = f" of the certificate for {shown[1]}" if shown else ""
                return f"({match[1] if match else event.text}{of})"
        return ""


# --- An unauthorised 802.1X port must pass nothing ---
# A frame is sent past the port. Captures on the air and on the wire show whether it passes.

_KNOCK_S = 0.25


@dataclass(frozen=True)
class PortCheck:
    """The result of testing that an 802.1X port is closed: raw values and captures.

    `revocation` and `other_name` have the raw values of two attempts, if there were any: with a
    revoked certificate, and with a server of another name.
    """

    raw: dict[str, Any]
    captures: list[tuple[dict[str, Any], bytes]]
    revocation: dict[str, Any] = field(default_factory=dict)
    other_name: dict[str, Any] = field(default_factory=dict)


def probe_port(site: Site, scenario: Scenario, measured: MeasuredStation,
               out: Path) -> list[tuple[dict[str, Any], bytes]]:
    """Send an ARP request past a station's unauthorised 802.1X port, and capture it.

    The station's kernel drops frames while the port is unauthorised. So the frame is sent through a
    monitor interface of the same radio.

    Returns:
        Summary and content of the captures on the air and on the wire.
    """
    nodes, home, mac = site.network.nodes, scenario.home, measured.mac
    station, cell = nodes[measured.name], nodes[home]
    question = injection.arp_request(mac, station.address, nodes[scenario.agent].address)
    frame = injection.station_frame(mac, cell.interfaces[cell.radio_interface].radio or "",
                                    injection.BROADCAST, question)
    points = [CapturePoint("air", None, AIR_INTERFACE, f"type data and wlan addr2 {mac} and "
                           f"wlan addr3 {injection.BROADCAST}"),
              wire_point(scenario.network, "wire", home, f"arp and ether src {mac}")]
    taken: list[dict[str, Any]] = []
    with capture_packets(site.testbed, points, WHOLE, part="port", out=out, logs=site.logs,
                         summaries=taken):
        injection.inject_frame(site.testbed, measured.name, station, frame)
        time.sleep(_KNOCK_S)  # time for a frame that must not come
    return [(summary, (out / summary["file"]).read_bytes()) for summary in taken]
