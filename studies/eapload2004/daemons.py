"""Servers, access point and supplicant as services: unmodified daemons on emulated processors."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from measure.charging.device import ChargedDevice, costs_s
from measure.errors import MeasureError
from measure.process import Daemon
from measure.services.daemons import Daemons
from measure.services.eap_server import EapServer
from measure.services.freeradius import FreeRadius
from measure.services.hostapd import Hostapd
from measure.services.wpa_supplicant import WpaSupplicant
from measure.workload import Site
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
    """The emulated processors of server and supplicant.

    Other nodes have no public-key work.
    """

    def __init__(self, site: Site) -> None:
        self.server = self._make_processor(site, network.SERVER)
        self._by_node = {network.SERVER: self.server,
                         network.STATION_NODE: self._make_processor(site, network.STATION_NODE)}

    def environment_of(self, node: str) -> Mapping[str, str]:
        """Return the environment that charges a node's daemon for its work."""
        return self._by_node[node].environment if node in self._by_node else {}

    def _make_processor(self, site: Site, node: str) -> ChargedDevice:
        device, options = site.devices[node], site.options
        costs: Mapping[str, float] = {}
        if any(work.get("seconds") is not None for work in device["work"].values()):
            costs = costs_s(device["work"], options["key"])
        if not options["library"]:
            raise MeasureError("testbed", "no C compiler where this run was begun: install gcc, by "
                               "which daemons are charged for their work")
        return ChargedDevice(site.run_folder(node), options["library"], costs,
                             device.get("processors", 1))


class _Emulated(Daemons):
    """A service whose daemons run on the emulated processors of their nodes."""

    def __init__(self, site: Site, processors: EmulatedProcessors) -> None:
        super().__init__(site)
        self._processors = processors

    def run_daemon(self, node: str, argv: Sequence[str], ready: str,
               environment: Mapping[str, str] | None = None) -> Daemon:
        """Start a daemon of a node on the node's emulated processor."""
        settings = self.site.run_folder(node) / "openssl.cnf"
        settings.write_text(_OPENSSL)
        return super().run_daemon(node, argv, ready, {
            **(environment or {}), **self.processor_environment(node),
            "OPENSSL_CONF": str(settings)})

    def processor_environment(self, node: str) -> Mapping[str, str]:
        """Return the environment that runs a daemon on its node's processor."""
        return self._processors.environment_of(node)


class EmulatedServer(_Emulated, FreeRadius):
    """FreeRADIUS as the authentication server, charged for its work."""

    def launch_on(self, node: str) -> Daemon:
        """Start the server, with the configuration that a negative control changes.

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
        """Return the environment of the server's processor.

        The control `uncharged` has no charges. With `half-processor`, the processor is half as
        fast.
        """
        if self.site.fault == "uncharged":
            return {}
        half = {"QOP_CHARGE_PROCESSORS": "0.5"} if self.site.fault == "half-processor" else {}
        return {**super().processor_environment(node), **half}


class EmulatedEapServer(_Emulated, EapServer):
    """hostapd as the authentication server, charged for its work."""


class EmulatedSupplicant(_Emulated, WpaSupplicant):
    """wpa_supplicant, charged for its work."""


class AskingHostapd(Hostapd):
    """The access point's hostapd, which bypasses the proxy in a negative control."""

    def launch_on(self, node: str) -> Daemon:
        """Start hostapd, with the server's own address for `around-the-proxy`."""
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
