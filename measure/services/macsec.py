"""Run wpa_supplicant at both ends of wires with MACsec, to agree on keys (MKA).

`MacsecKeyAgreement` starts it for a `Site`: a running network with the settings of its run. The
MACsec interfaces exist from the start of the network, and pass nothing until they have keys. The
key agreement is captured from its first message on. Keys are distributed once, and no later packet
or kernel state shows them. `is_secured` takes the state of an interface, and returns whether it has
keys for both directions.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from measure.agent.errors import MeasureError
from measure.agent.process import Daemon
from measure.agent.workload import Site
from measure.capture import pcap
from measure.capture.tcpdump import WHOLE, Capture, CapturePoint
from measure.packets import mka
from measure.services.daemons import DaemonService
from topologies import queueing_disciplines

#: Prefix of the captures of key agreements; the access point's name follows.
MACSEC_PART = "macsec"
_FILTER = "ether proto 0x888e"
# In s. Agreement took two hello intervals of 2 s each; an emulated, shared processor needs more.
_AGREED_S, _POLL_S = 30.0, 0.05


class MacsecKeyAgreement(DaemonService):
    """The service that runs MACsec key agreement (MKA) at every end of a protected wire."""

    name = "macsec"
    file = "macsec.conf"

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self._recording = ExitStack()
        #: Captures of the key agreements, by both ends of the wire.
        self._files: dict[str, Path] = {}

    def list_nodes(self) -> Sequence[str]:
        """Return the nodes that have wires with MACsec."""
        return [node for node in super().list_nodes() if self.list_ports(node)]

    def list_ports(self, node: str) -> list[str]:
        """Return a node's interfaces on wires with MACsec."""
        if not self.site.testbed.macsec:
            return []
        ends = (end.split("/") for link in self.site.network.protectable for end in link.ends)
        return [port for name, port in ends if name == node]

    def launch_on(self, node: str) -> Daemon:
        """Start the key agreement on all MACsec wires of a node."""
        file, argv = self.site.mount / node / self.file, ["wpa_supplicant"]
        for port in self.list_ports(node):
            argv += ["-N"] if len(argv) > 1 else []
            argv += ["-D", "macsec_linux", "-i", queueing_disciplines.physical_name(port), "-c",
                     str(file)]
        return self.run_daemon(node, argv, r"Successfully initialized wpa_supplicant")

    def start(self) -> None:
        """Start to capture the key agreement of each wire, then the agreement at all ends."""
        nodes = self.list_nodes()
        for link in self.site.network.protectable if nodes else ():
            node, port = link.ends[0].split("/")
            file = self.site.run_folder(node) / f"{MACSEC_PART}-{port}.pcap"
            capture = Capture(self.site.testbed,
                              CapturePoint(MACSEC_PART, node,
                                           queueing_disciplines.physical_name(port), _FILTER),
                              file, self.site.log_path(f"{port}-{MACSEC_PART}-tcpdump", node),
                              detail=WHOLE)
            self._recording.callback(capture.stop)
            capture.wait_ready()
            self._files.update(dict.fromkeys(link.ends, file))
        super().start()

    def wait_ready(self) -> None:
        """Wait until every MACsec wire passes frames in both directions.

        Raises:
            MeasureError: A wire has no keys in time.
        """
        super().wait_ready()
        until = time.monotonic() + _AGREED_S
        for node, daemon in self.daemons.items():
            for port in self.list_ports(node):
                while not is_secured(self.read_state(node, port)):
                    if time.monotonic() > until:
                        raise MeasureError("testbed", f"{self.name} on {node}: no keys for {port} "
                                           f"within {_AGREED_S:g} s: {daemon.find_cause()} (log: "
                                           f"{daemon.log.name})")
                    time.sleep(_POLL_S)

    def stop(self) -> None:
        """End the key agreement and its captures."""
        super().stop()
        self._recording.close()
        self._files = {}

    def read_state(self, node: str, port: str) -> dict[str, Any]:
        """Return the kernel's state of a node's MACsec interface (`ip macsec show`)."""
        [state] = json.loads(self.site.testbed.run_command(
            node, ["ip", "-s", "-j", "macsec", "show", port]))
        return dict(state)

    def read_states(self, access_points: Sequence[str]) -> dict[str, dict[str, Any]]:
        """Return the MACsec states at both ends of access points' wires, by `node/interface`."""
        ends = {end for name in access_points for end in self._wire_ends(name)}
        return {end: self.read_state(*end.split("/")) for end in sorted(ends)}

    def save_key_messages(self, access_point: str, file: Path) -> int:
        """Write the messages that distributed MACsec keys on an access point's wire to a file.

        Returns:
            The number of messages.
        """
        recorded = next((self._files[end] for end in self._wire_ends(access_point)), None)
        messages = [frame for frame in pcap.read_frames(recorded)
                    if mka.distributes_key(frame.data)] \
            if recorded else []
        pcap.write_frames(file, messages)
        return len(messages)

    def _wire_ends(self, access_point: str) -> Sequence[str]:
        """Return both ends of an access point's first wire, or nothing without MACsec."""
        _, link = self.site.network.link_of(access_point)
        return link.ends if link.ends[0] in self._files else ()


def is_secured(state: Mapping[str, Any]) -> bool:
    """Return whether a MACsec interface has active keys to send and to receive."""
    def active(associations: Sequence[Mapping[str, Any]]) -> bool:
        return any(each.get("active") for each in associations)
    channels = state.get("rx_sc", ())
    return active(state.get("sa_list", ())) and bool(channels) and all(
        active(channel.get("sa_list", ())) for channel in channels)
