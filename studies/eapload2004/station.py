"""Control of the station in the guest: authenticate from scratch, and leave the air."""

from __future__ import annotations

import time

from measure.card import SoftwareCard
from measure.errors import MeasureError
from measure.services.explaining import explain_failures
from measure.workload import Site
from measure.wpa_ctrl import disconnect
from studies.eapload2004 import network
from studies.eapload2004.daemons import AskingHostapd, EmulatedSupplicant

_CONNECTED, _CARD_ASKED = "CTRL-EVENT-CONNECTED", "CTRL-REQ-SIM-0"
_STATION_CONNECTED, _STATION_GONE = "AP-STA-CONNECTED", "AP-STA-DISCONNECTED"
_REFUSED = {"CTRL-EVENT-EAP-FAILURE": "EAP-Failure",
            "CTRL-EVENT-ASSOC-REJECT": "association refused",
            "CTRL-EVENT-SSID-TEMP-DISABLED": "network given up by the supplicant"}
#: Time limit of an authentication (s). A long time is a result of overload; after this limit the
#: server counts as failed.
_LINK_S = 60.0
_LEAVE_S = 1.0


class RepeatedStation:
    """The station whose supplicant authenticates repeatedly."""

    def __init__(self, site: Site, supplicant: EmulatedSupplicant, hostapd: AskingHostapd) -> None:
        self._site, self._supplicant, self._hostapd = site, supplicant, hostapd
        self._card = SoftwareCard(site.secrets["card"])

    def authenticate(self) -> None:
        """Authenticate from scratch and leave the air.

        Raises:
            MeasureError: The authentication was refused or took too long.
        """
        with explain_failures((self._supplicant, self._hostapd)):
            self._authenticate_once()

    def _authenticate_once(self) -> None:
        control = self._supplicant.controls[network.STATION_NODE]
        access_point = self._hostapd.controls[network.AP]
        for either in (control, access_point):
            either.drop_events()
        control.send_command("ENABLE_NETWORK 0")
        deadline_s = time.monotonic() + _LINK_S
        awaited = {_CONNECTED, _CARD_ASKED, *_REFUSED}
        while (event := control.wait_event(awaited, deadline_s)) and event.name == _CARD_ASKED:
            control.send_command(f"CTRL-RSP-SIM-0:{self._card.answer_challenge(event.text)}")
        if event is not None and event.name == _CONNECTED:
            # The access point gets the keys a moment later and must not be disturbed before.
            access_point.wait_event({_STATION_CONNECTED}, time.monotonic() + _LEAVE_S)
        self._take_off()
        if event is None or event.name != _CONNECTED:
            what = _REFUSED[event.name] if event else f"not connected within {_LINK_S:g} s"
            raise MeasureError("dot1x", f"{network.STATION_NODE}: {what}")

    def lengthen_chain(self) -> None:
        """Make the supplicant also send its authority's root (negative control)."""
        pki = self._site.mount / network.STATION_NODE / "pki"
        longer = self._site.run_folder(network.STATION_NODE) / "longer.pem"
        longer.write_bytes((pki / "cert.pem").read_bytes() + (pki / "ca.pem").read_bytes())
        self._supplicant.controls[network.STATION_NODE].send_command(
            f'SET_NETWORK 0 client_cert "{longer}"')

    def _take_off(self) -> None:
        """Leave the air, and remove the station at the access point.

        The access point may not receive the deauthentication.
        """
        node = self._site.network.nodes[network.STATION_NODE]
        disconnect(self._supplicant.controls[network.STATION_NODE])
        self._hostapd.controls[network.AP].wait_event({_STATION_GONE}, time.monotonic() + _LEAVE_S)
        self._hostapd.forget_station(node.interfaces[network.RADIO].radio or "")
