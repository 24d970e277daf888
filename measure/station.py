"""A measured station: join access points, register by Mobile IP and negotiate IKE."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from measure import ike, kernel
from measure.echo import AGAIN_S, EchoSocket
from measure.errors import MeasureError
from measure.registration import RegistrationDaemon
from measure.time_limits import TimeLimits
from measure.visiting import VisitingAddress
from measure.wpa_ctrl import ControlSocket, disconnect, is_port_open
from topologies.coverage import out_of_reach
from topologies.medium import frequency_mhz
from topologies.model import Node
from topologies.visited import VisitedSubnet

if TYPE_CHECKING:  # the builder needs Mininet, which only the machine has
    from topologies.builder import Testbed

POLL_S = 0.0005
#: charon reacts to address changes after 0.1 s. Wait longer, so that it announces nothing on the
#: next SA.
_ADDRESSES_S = 0.3
#: Interval between two checks that a tunnel has followed its node, in s.
_FOLLOW_POLL_S = 0.02
#: Event by which the supplicant requests the response of an external card.
_CARD_ASKED = "CTRL-REQ-SIM-0"
_UP = {"CTRL-EVENT-CONNECTED", _CARD_ASKED, "CTRL-EVENT-EAP-FAILURE", "CTRL-EVENT-ASSOC-REJECT",
       "CTRL-EVENT-AUTH-REJECT", "CTRL-EVENT-SSID-TEMP-DISABLED"}
_REFUSED = {"CTRL-EVENT-EAP-FAILURE": "EAP-Failure",
            "CTRL-EVENT-ASSOC-REJECT": "association refused",
            "CTRL-EVENT-AUTH-REJECT": "802.11 authentication refused",
            "CTRL-EVENT-SSID-TEMP-DISABLED": "network given up by the supplicant"}
#: Reason in an event's text: a status code (IEEE 802.11-2020, table 9-50) or hostap's own word.
_EVENT_REASON = re.compile(r"(?:reason|status_code)=(\w+)")


def _bssid(access_point: Node) -> str:
    return access_point.interfaces[access_point.radio_interface].radio or ""


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
        self._charon_log = charon_log
        self._card = card
        self._echoes = echoes
        self._limits = TimeLimits.for_testbed(testbed)
        self.radio = node.radio_interface
        self.mac = node.interfaces[self.radio].radio or ""
        self.address = node.address
        #: The node's addresses, if its tunnel follows it.
        self.whereabouts = VisitingAddress(testbed, name, node)
        self.ike_sas: list[dict[str, Any]] = []
        #: The access point that the node is joining.
        self._access_point: Node | None = None

    def leave(self, *, keeps_tunnel: bool = False) -> None:
        """Disconnect, flush scan results and delete the tunnel's SAs.

        The tunnel's IPsec policies stay.

        Args:
            keeps_tunnel: Keep the SAs: the next link is in the same subnet, so the tunnel survives
                the move.
        """
        self.disconnect()
        if self.registration is not None:
            self.registration.report_link_down()
        if self.charon and not keeps_tunnel:
            with ike.open_session(self.charon) as session:
                ike.delete_sas(session)
        if not keeps_tunnel and self.whereabouts.visit is not None:
            self.whereabouts.restore_home()
            if self.charon:
                time.sleep(_ADDRESSES_S)

    def disconnect(self) -> None:
        """Disconnect and flush scan results, without notifying IKE or Mobile IP."""
        disconnect(self.supplicant)

    def keep_neighbours(self) -> None:
        """Make the kernel keep its ARP entries while the link is down, as iwd does.

        Otherwise a node that moves during traffic sends an ARP request before the new access point
        lets it pass. The next request follows a whole second later (Linux's ip-sysctl,
        arp_evict_nocarrier).
        """
        self.testbed.run_command(self.name, ["sysctl", "-qw",
                                             f"net.ipv4.conf.{self.radio}.arp_evict_nocarrier=0"])

    def start_joining(self, access_point: Node) -> None:
        """Start to join one access point, without waiting."""
        self._access_point = access_point
        self.supplicant.send_command(f"SET_NETWORK 0 bssid {_bssid(access_point)}")
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
            self.supplicant.send_command(f"BSSID_IGNORE {_bssid(other)}")
        self.supplicant.send_command("ENABLE_NETWORK 0")
        self._wait_until_up()
        self.supplicant.send_command("BSSID_IGNORE clear")

    def scan_channel(self, access_point: Node) -> None:
        """Scan an access point's channel, as before a move to it.

        Raises:
            MeasureError: No scan results came in time.
        """
        self.supplicant.send_command(f"SCAN freq={frequency_mhz(access_point.channel or 1)}")
        limit_s = self._limits.link_s
        if self.supplicant.wait_event({"CTRL-EVENT-SCAN-RESULTS"}, time.monotonic()
                                      + limit_s) is None:
            raise MeasureError("link", f"{self.name}: no results of a scan within {limit_s:.3g} s")

    def roam(self, access_point: Node) -> None:
        """Roam to a known access point with the keys that the node has."""
        self._access_point = access_point
        self.supplicant.send_command(f"ROAM {_bssid(access_point)}")
        self._wait_until_up()

    def _wait_until_up(self) -> None:
        limit_s = self._limits.link_s
        until = time.monotonic() + limit_s
        while (event := self.supplicant.wait_event(_UP, until)) and event.name == _CARD_ASKED:
            self.supplicant.send_command(f"CTRL-RSP-SIM-0:{self._card(event.text)}")
        if event is not None and event.name == "CTRL-EVENT-CONNECTED":
            self._wait_for_port()
            return
        seen = {past.name for past in self.supplicant.history}
        stage = "dot1x" if "CTRL-EVENT-EAP-STARTED" in seen else "link"
        if event is not None:
            what = _REFUSED[event.name]
            if why := _EVENT_REASON.search(event.text):
                what += f" (status {why[1]})" if why[1].isdecimal() else f" ({why[1]})"
        else:
            goal = "802.1X did not finish" if stage == "dot1x" else "no association"
            what = f"{goal} within {limit_s:.3g} s"
            if reason := out_of_reach(self.testbed.medium, self.node,
                                      self._access_point or self.node):
                what += f": {reason}"
        raise MeasureError(stage, f"{self.name}: {what} {self._certificate_error()}".strip())

    def _wait_for_port(self) -> None:
        """Wait until the port passes data frames.

        The supplicant reports "connected" a moment before.
        """
        until = time.monotonic() + self._limits.link_s
        while not is_port_open(self.supplicant.read_status()):
            if time.monotonic() > until:
                raise MeasureError("link", f"{self.name}: connected, but its port stays closed")
            time.sleep(POLL_S)

    def register(self) -> None:
        """Find the agent of this link and register with it by Mobile IP.

        Raises:
            MeasureError: The registration failed.
        """
        if self.registration is not None:
            self.registration.register(self._limits.registration_s)

    def negotiate_tunnel(self) -> None:
        """Negotiate IKE and the tunnel's SAs, if the policy has them.

        Raises:
            MeasureError: The negotiation failed.
        """
        if not self.charon:
            return
        limit_s = self._limits.ike_s
        with ike.open_session(self.charon, limit_s) as session:
            ike.negotiate_tunnel(session, "qop", limit_s, self._charon_log)
            self.ike_sas = ike.list_ike_sas(session)

    def follow_visit(self, visit: VisitedSubnet) -> None:
        """Take an address in the visited subnet and wait until the tunnel uses it.

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
        with ike.open_session(self.charon) as session:
            self.ike_sas = ike.list_ike_sas(session)

    def is_reachable(self, address: str, seconds: float, again_s: float = AGAIN_S) -> bool:
        """Return whether an echo request is answered in time, with retransmissions.

        Args:
            address: The peer's address.
            seconds: Time limit in s.
            again_s: Interval of retransmissions in s.
        """
        return self._echoes.is_answered(address, seconds, again_s)

    def remaining_sas(self) -> list[dict[str, Any]]:
        """Return the IPsec SAs that the kernel still has."""
        return kernel.xfrm_states(self.testbed, self.name) if self.charon else []

    def count_cached_keys(self) -> int:
        """Return the number of PMKSAs that the supplicant has cached."""
        heading, *entries = self.supplicant.request("PMKSA").splitlines() or [""]
        if not heading.startswith("Index"):
            raise MeasureError("testbed", f"{self.name}: the supplicant does not say which keys it "
                               f"has cached ({heading.strip() or 'no answer'})")
        return len([entry for entry in entries if entry.strip()])

    def _certificate_error(self) -> str:
        """Return the supplicant's complaint about a certificate, if there is one."""
        for event in self.supplicant.history:
            if event.name == "CTRL-EVENT-EAP-TLS-CERT-ERROR":
                match = re.search(r"err='([^']*)'", event.text)
                shown = re.search(r"subject='([^']*)'", event.text)
                of = f" of the certificate for {shown[1]}" if shown else ""
                return f"({match[1] if match else event.text}{of})"
        return ""
