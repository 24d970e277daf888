"""A station leaves, joins an access point, registers with an agent and has its tunnel built."""

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
from measure.wpa_ctrl import ControlSocket, give_up_link, port_is_open
from topologies.coverage import out_of_reach
from topologies.medium import frequency_mhz
from topologies.model import Node
from topologies.visited import VisitedSubnet

if TYPE_CHECKING:  # the builder needs Mininet, which only the machine has
    from topologies.builder import Testbed

POLL_S = 0.0005
#: Until charon has thought about other addresses, which it does 0.1 s later: with an association
#: by then, it would say something of them.
_ADDRESSES_S = 0.3
#: Between two looks at whether a tunnel has followed its node.
_FOLLOW_POLL_S = 0.02
#: The supplicant asks for what a card elsewhere says.
_CARD_ASKED = "CTRL-REQ-SIM-0"
_UP = {"CTRL-EVENT-CONNECTED", _CARD_ASKED, "CTRL-EVENT-EAP-FAILURE", "CTRL-EVENT-ASSOC-REJECT",
       "CTRL-EVENT-AUTH-REJECT", "CTRL-EVENT-SSID-TEMP-DISABLED"}
_REFUSED = {"CTRL-EVENT-EAP-FAILURE": "EAP-Failure",
            "CTRL-EVENT-ASSOC-REJECT": "association refused",
            "CTRL-EVENT-AUTH-REJECT": "802.11 authentication refused",
            "CTRL-EVENT-SSID-TEMP-DISABLED": "network given up by the supplicant"}
#: Of an event's text, what says why: a status (IEEE 802.11-2020, table 9-50) or hostap's word.
_EVENT_REASON = re.compile(r"(?:reason|status_code)=(\w+)")


def _bssid(access_point: Node) -> str:
    return access_point.interfaces[access_point.radio_interface].radio or ""


class MeasuredStation:
    """One mobile node with its supplicant, its Mobile IP and, where the policy has it, its IKE.

    `charon` is the vici socket, None without IPsec; `registration` None where no Mobile IP runs.
    `card` answers what the supplicant asks of a subscriber's card; `echoes` asks for echoes.
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
        self._limits = TimeLimits.of(testbed)
        self.radio = node.radio_interface
        self.mac = node.interfaces[self.radio].radio or ""
        self.address = node.address
        #: Its addresses, where its tunnel follows it.
        self.whereabouts = VisitingAddress(testbed, name, node)
        self.ike_sas: list[dict[str, Any]] = []
        #: The access point that it is about to join.
        self._access_point: Node | None = None

    def leave(self, *, keeps_tunnel: bool = False) -> None:
        """Give the link up and forget what was found; the tunnel's SAs go, its policies stay.

        Where the next link is in the same subnet, the tunnel outlives the move (`keeps_tunnel`).
        """
        self.give_up_link()
        if self.registration is not None:
            self.registration.detached()
        if self.charon and not keeps_tunnel:
            with ike.session(self.charon) as session:
                ike.terminate(session)
        if not keeps_tunnel and self.whereabouts.visit is not None:
            self.whereabouts.give_back()
            if self.charon:
                time.sleep(_ADDRESSES_S)

    def give_up_link(self) -> None:
        """Off the air, and without what was found there; what goes over the link is not told."""
        give_up_link(self.supplicant)

    def keep_neighbours(self) -> None:
        """Have the kernel know its subnet's addresses over a moment without link, as iwd has it.

        Or a node that moves amid traffic asks for its gateway before the new access point lets it
        pass, and again after a whole second only (Linux's ip-sysctl, arp_evict_nocarrier).
        """
        self.testbed.run(self.name, ["sysctl", "-qw",
                                     f"net.ipv4.conf.{self.radio}.arp_evict_nocarrier=0"])

    def begin(self, access_point: Node) -> None:
        """Have the supplicant look for one access point and join it; wait for nothing."""
        self._access_point = access_point
        self.supplicant.command(f"SET_NETWORK 0 bssid {_bssid(access_point)}")
        self.supplicant.command("ENABLE_NETWORK 0")

    def join(self, access_point: Node) -> None:
        """Scan, associate and authenticate with one access point. Raises MeasureError."""
        self.begin(access_point)
        self._wait_until_up()

    def join_first(self, access_point: Node, others: Sequence[Node]) -> None:
        """The same where it may move on to another one: it knows them all, and takes this one.

        A supplicant that is told to stay with one access point does not move by itself.
        """
        self._access_point = access_point
        self.supplicant.command("SET_NETWORK 0 bssid any")
        self.supplicant.command("BSSID_IGNORE clear")
        for other in others:
            self.supplicant.command(f"BSSID_IGNORE {_bssid(other)}")
        self.supplicant.command("ENABLE_NETWORK 0")
        self._wait_until_up()
        self.supplicant.command("BSSID_IGNORE clear")

    def look(self, access_point: Node) -> None:
        """Scan an access point's channel, as who is about to move there does."""
        self.supplicant.command(f"SCAN freq={frequency_mhz(access_point.channel or 1)}")
        limit_s = self._limits.link_s
        if self.supplicant.wait({"CTRL-EVENT-SCAN-RESULTS"}, time.monotonic() + limit_s) is None:
            raise MeasureError("link", f"{self.name}: no results of a scan within {limit_s:.3g} s")

    def move(self, access_point: Node) -> None:
        """Move on to an access point that it knows, with the keys that it has."""
        self._access_point = access_point
        self.supplicant.command(f"ROAM {_bssid(access_point)}")
        self._wait_until_up()

    def _wait_until_up(self) -> None:
        limit_s = self._limits.link_s
        until = time.monotonic() + limit_s
        while (event := self.supplicant.wait(_UP, until)) and event.name == _CARD_ASKED:
            self.supplicant.command(f"CTRL-RSP-SIM-0:{self._card(event.text)}")
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
        raise MeasureError(stage, f"{self.name}: {what} {self._clue()}".strip())

    def _wait_for_port(self) -> None:
        """Until anything but EAPOL passes: the supplicant says "connected" a moment before."""
        until = time.monotonic() + self._limits.link_s
        while not port_is_open(self.supplicant.status()):
            if time.monotonic() > until:
                raise MeasureError("link", f"{self.name}: connected, but its port stays closed")
            time.sleep(POLL_S)

    def register(self) -> None:
        """Find the agent of this link and register with it, by Mobile IP. Raises MeasureError."""
        if self.registration is not None:
            self.registration.attached(self._limits.registration_s)

    def tunnel(self) -> None:
        """Negotiate IKE and the tunnel's SAs, if the policy has them. Raises MeasureError."""
        if not self.charon:
            return
        limit_s = self._limits.ike_s
        with ike.session(self.charon, limit_s) as session:
            ike.initiate(session, "qop", limit_s, self._charon_log)
            self.ike_sas = ike.security_associations(session)

    def follow(self, visit: VisitedSubnet) -> None:
        """Take an address where it visits, and have the tunnel go by it. Raises MeasureError.

        IKE's daemon notices by itself, and says so to the agent; other tunnels need no word.
        """
        self.whereabouts.take(visit)
        if not self.charon:
            return
        limit_s = self._limits.ike_s
        until = time.monotonic() + limit_s
        while not any(visit.ip in (state["src"], state["dst"]) for state in self.left_over()):
            if time.monotonic() > until:
                raise MeasureError("ike", f"{self.name}: its tunnel does not follow it to "
                                   f"{visit.ip} within {limit_s:.3g} s")
            time.sleep(_FOLLOW_POLL_S)
        with ike.session(self.charon) as session:
            self.ike_sas = ike.security_associations(session)

    def ping(self, address: str, seconds: float, again_s: float = AGAIN_S) -> bool:
        """Whether one echo is answered, which is asked for again and again."""
        return self._echoes.answered(address, seconds, again_s)

    def left_over(self) -> list[dict[str, Any]]:
        """IPsec SAs that the kernel still has."""
        return kernel.xfrm_states(self.testbed, self.name) if self.charon else []

    def cached_keys(self) -> int:
        """Pairwise master keys that the supplicant still has of earlier authentications."""
        heading, *entries = self.supplicant.request("PMKSA").splitlines() or [""]
        if not heading.startswith("Index"):
            raise MeasureError("testbed", f"{self.name}: the supplicant does not say which keys it "
                               f"has cached ({heading.strip() or 'no answer'})")
        return len([entry for entry in entries if entry.strip()])

    def _clue(self) -> str:
        """What the supplicant said of certificates, if anything."""
        for event in self.supplicant.history:
            if event.name == "CTRL-EVENT-EAP-TLS-CERT-ERROR":
                match = re.search(r"err='([^']*)'", event.text)
                shown = re.search(r"subject='([^']*)'", event.text)
                of = f" of the certificate for {shown[1]}" if shown else ""
                return f"({match[1] if match else event.text}{of})"
        return ""
