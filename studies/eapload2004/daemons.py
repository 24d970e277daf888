"""Run unmodified FreeRADIUS, hostapd and wpa_supplicant as if on slow processors.

A library that is loaded into a daemon makes public-key operations take the time of a slow processor
(device model). The service classes start the daemons of RADIUS server, access point and station in
the guest (virtual machine). `RepeatedStation` lets the station authenticate from a clean state,
again and again.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from measure.agent.errors import MeasureError
from measure.agent.process import Daemon
from measure.agent.workload import Site
from measure.charging.device import DaemonProcessor, costs_s
from measure.services.daemons import DaemonService, explain_failures
from measure.services.hostap import Hostapd, WpaSupplicant, disconnect_station
from measure.services.radius import EapServer, FreeRadius
from measure.services.usim import SoftwareUsim
from studies.eapload2004 import network

#: OpenSSL's default security level refuses keys of 1024 bits before a daemon can use them.
_OPENSSL = """openssl_conf = settings
[settings]
ssl_conf = ssl
[ssl]
system_default = everywhere
[everywhere]
CipherString = DEFAULT@SECLEVEL=0
MinProtocol = TLSv1.2
"""


class EmulatedProcessors:
    """The modelled processors of server and station. Other nodes have no public-key work."""

    def __init__(self, site: Site) -> None:
        self.server = self._make_processor(site, network.SERVER)
        self._by_node = {network.SERVER: self.server,
                         network.STATION_NODE: self._make_processor(site, network.STATION_NODE)}

    def environment_of(self, node: str) -> Mapping[str, str]:
        """Return the environment variables that charge the daemon of a node for its operations."""
        return self._by_node[node].environment if node in self._by_node else {}

    def _make_processor(self, site: Site, node: str) -> DaemonProcessor:
        device = site.devices[node]
        costs: Mapping[str, float] = {}
        if any(work.get("seconds") is not None for work in device["work"].values()):
            costs = costs_s(device["work"], site.options["key"])
        if not site.charge_library:
            raise MeasureError("testbed", "no C compiler where this run was begun: install gcc, by "
                               "which daemons are charged for their work")
        return DaemonProcessor(site.run_folder(node), site.charge_library, costs,
                               device.get("processors", 1))


class _EmulatedDaemons(DaemonService):
    """A service whose daemons run on the modelled processors of their nodes."""

    def __init__(self, site: Site, processors: EmulatedProcessors, **options: bool) -> None:
        super().__init__(site, **options)
        self._processors = processors

    def run_daemon(self, node: str, argv: Sequence[str], ready: str,
                   environment: Mapping[str, str] | None = None) -> Daemon:
        """Start the daemon of a node on the node's modelled processor."""
        settings = self.site.run_folder(node) / "openssl.cnf"
        settings.write_text(_OPENSSL)
        return super().run_daemon(node, argv, ready, {
            **(environment or {}), **self.processor_environment(node),
            "OPENSSL_CONF": str(settings)})

    def processor_environment(self, node: str) -> Mapping[str, str]:
        """Return the environment variables that run a daemon on its node's modelled processor."""
        return self._processors.environment_of(node)


class EmulatedServer(_EmulatedDaemons, FreeRadius):
    """FreeRADIUS as the authentication server, on a modelled processor."""

    def launch_on(self, node: str) -> Daemon:
        """Start the server, with a configuration that an injected fault may change.

        `no-cache` switches off the session cache. `around-the-proxy` accepts the access point as a
        client.
        """
        home = self.site.mount / node
        if self.site.fault == "no-cache":
            _edit_file(home / "freeradius" / "radiusd.conf", r"(cache \{\s+enable = )yes", r"\1no",
                       "cache to be switched off")
        if self.site.fault == "around-the-proxy" and node == network.SERVER:
            proxy, asker = (self.site.network.nodes[name].address
                            for name in (network.PROXY, network.AP))
            _edit_file(home / "freeradius" / "clients.conf", rf"(?m)(ipaddr = ){re.escape(proxy)}$",
                       rf"\g<1>{asker}", "proxy that asks")
        return super().launch_on(node)

    def processor_environment(self, node: str) -> Mapping[str, str]:
        """Return the environment variables of the server's modelled processor.

        With the injected fault `uncharged`, operations take no time. With `half-processor`, the
        processor is half as fast.
        """
        if self.site.fault == "uncharged":
            return {}
        half = {"QOP_CHARGE_PROCESSORS": "0.5"} if self.site.fault == "half-processor" else {}
        return {**super().processor_environment(node), **half}


class EmulatedEapServer(_EmulatedDaemons, EapServer):
    """hostapd as the authentication server, on a modelled processor."""


class EmulatedSupplicant(_EmulatedDaemons, WpaSupplicant):
    """wpa_supplicant of the station, on a modelled processor."""


class ProxyBypassingHostapd(Hostapd):
    """hostapd of the access point, which bypasses the RADIUS proxy if that fault is injected."""

    def launch_on(self, node: str) -> Daemon:
        """Start hostapd. With the fault `around-the-proxy` it sends to the server directly."""
        if self.site.fault == "around-the-proxy":
            server = self.site.network.nodes[network.SERVER].address
            _edit_file(self.site.mount / node / self.file, r"(?m)^(auth_server_addr=).*$",
                       rf"\g<1>{server}", "server to be asked")
        return super().launch_on(node)


def _edit_file(file: Path, pattern: str, replacement: str, description: str) -> None:
    text, count = re.subn(pattern, replacement, file.read_text())
    if count != 1:
        raise MeasureError("testbed", f"{file.name}: there is no {description}")
    file.write_text(text)


# --- Control of the station: authenticate from scratch, and leave the air ---

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
    """A station that authenticates again and again."""

    def __init__(self, site: Site, supplicant: EmulatedSupplicant,
                 hostapd: ProxyBypassingHostapd) -> None:
        self._site, self._supplicant, self._hostapd = site, supplicant, hostapd
        self._card = SoftwareUsim(site.secrets["card"])

    def authenticate(self) -> None:
        """Authenticate once without earlier state, and leave the air.

        Raises:
            MeasureError: the authentication was refused or took too long.
        """
        with explain_failures((self._supplicant, self._hostapd)):
            self._authenticate_once()

    def _authenticate_once(self) -> None:
        """Enable the station's network, answer its requests for the SIM card, and leave the air."""
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
        """Let the station also send the root certificate of its chain (injected fault)."""
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
        disconnect_station(self._supplicant.controls[network.STATION_NODE])
        self._hostapd.controls[network.AP].wait_event({_STATION_GONE}, time.monotonic() + _LEAVE_S)
        self._hostapd.forget_station(node.interfaces[network.RADIO].radio or "")
