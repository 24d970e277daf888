"""Servers and supplicant as services of this study: the daemons as they are, on a processor."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from measure.charging.device import ChargedDevice, costs_s
from measure.errors import MeasureError
from measure.process import Daemon
from measure.services.eap_server import EapServer
from measure.services.freeradius import FreeRadius
from measure.services.wpa_supplicant import WpaSupplicant
from measure.workload import Site
from studies.eapload2004 import network

#: The usual level of OpenSSL refuses keys of 1024 bits before any daemon is asked.
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
    """The emulated processors of server and supplicant."""

    def __init__(self, site: Site) -> None:
        self.server = self._of(site, network.SERVER)
        self.supplicant = self._of(site, network.STATION_NODE)

    def _of(self, site: Site, node: str) -> ChargedDevice:
        device, options = site.devices[node], site.options
        costs: Mapping[str, float] = {}
        if any(work.get("seconds") is not None for work in device["work"].values()):
            costs = costs_s(device["work"], options["key"])
        if not options["library"]:
            raise MeasureError("testbed", "no C compiler where this run was begun: install gcc, by "
                               "which daemons are charged for their work")
        return ChargedDevice(site.run_folder(node), options["library"], costs,
                             device.get("processors", 1))


def _environment(site: Site, node: str, processor: ChargedDevice | None) -> dict[str, str]:
    settings = site.run_folder(node) / "openssl.cnf"
    settings.write_text(_OPENSSL)
    return {**(processor.environment if processor else {}), "OPENSSL_CONF": str(settings)}


class EmulatedServer(FreeRadius):
    """The authentication server, charged for its work."""

    def __init__(self, site: Site, processors: EmulatedProcessors) -> None:
        super().__init__(site)
        self._processor = processors.server

    def launch(self, node: str) -> Daemon:
        """Start it with room for sessions; with the cache switched off if that is the fault."""
        home = self.site.mount / node
        (self.site.run_folder(node) / "sessions").mkdir(exist_ok=True)
        if self.site.fault == "no-cache":
            _edit(home / "freeradius" / "radiusd.conf", r"(cache \{\s+enable = )yes", r"\1no")
        return super().launch(node)

    def daemon(self, node: str, argv: Sequence[str], ready: str,
               environment: Mapping[str, str] | None = None) -> Daemon:
        """As any server, on its own processor."""
        # A proxy has no public-key work.
        processor = self._processor if node == network.SERVER else None
        return super().daemon(node, argv, ready, {
            **(environment or {}), **_environment(self.site, node, processor)})


class EmulatedEapServer(EapServer):
    """Hostapd as the authentication server, charged for its work."""

    def __init__(self, site: Site, processors: EmulatedProcessors) -> None:
        super().__init__(site)
        self._processor = processors.server

    def daemon(self, node: str, argv: Sequence[str], ready: str,
               environment: Mapping[str, str] | None = None) -> Daemon:
        """As any, on its own processor."""
        return super().daemon(node, argv, ready, {
            **(environment or {}), **_environment(self.site, node, self._processor)})


class EmulatedSupplicant(WpaSupplicant):
    """The supplicant, charged for its work."""

    def __init__(self, site: Site, processors: EmulatedProcessors) -> None:
        super().__init__(site)
        self._processor = processors.supplicant

    def daemon(self, node: str, argv: Sequence[str], ready: str,
               environment: Mapping[str, str] | None = None) -> Daemon:
        """As any supplicant, on its own processor."""
        return super().daemon(node, argv, ready, {
            **(environment or {}), **_environment(self.site, node, self._processor)})


def _edit(file: Path, pattern: str, replacement: str) -> None:
    text, count = re.subn(pattern, replacement, file.read_text())
    if count != 1:
        raise MeasureError("testbed", f"{file.name}: there is no cache to be switched off")
    file.write_text(text)
