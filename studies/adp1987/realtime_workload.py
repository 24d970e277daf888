"""Measure ADP, WireGuard and ESP in real time, with today's programs.

ADP is the Authenticated Datagram Protocol of 1987. The study's other measurements imitate a
processor of that year. Here all operations take the time that they really take on this machine. So
ADP with today's cryptography can be compared with protocols in the kernel.

`measure_repetition` runs one measurement (repetition) in the guest, the virtual machine of the test
network. It sets up a tunnel, sends messages through it, and removes it, so that the handshake is
measured, too. IKEv2 negotiates the keys of ESP. Captures, counters and logs are left for the
evaluation.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from measure.agent import kernel_state
from measure.agent.errors import MeasureError
from measure.agent.time_limits import TimeLimits
from measure.agent.workload import Session, Site
from measure.capture.tcpdump import (
    HEADERS,
    WHOLE,
    CaptureDetail,
    CapturePoint,
    capture_packets,
    settle_captures,
)
from measure.packets.wireguard import WIREGUARD_PORT
from measure.services import charon
from measure.services.charon import Charon
from measure.services.daemons import ServiceStarter
from measure.services.programs import HostProgram
from measure.services.wireguard import WireGuardEnd, WireGuardPeer, WireGuardTunnels, make_key
from studies.adp1987.fault_injection import BESIDE_TUNNEL, LONGER_TIMEOUT_IN_REAL_TIME
from studies.adp1987.programs.realtime import REPORT, WINDOW

if TYPE_CHECKING:
    from studies.adp1987.workload import HostPrograms


_ENDS = {"alpha": "beta", "beta": "alpha"}
#: Addresses inside of the WireGuard tunnel.
INNER = {"alpha": "10.77.0.1", "beta": "10.77.0.2"}
_CHILD = "messages"
#: Algorithms of the modern protocol and of WireGuard: X25519, ChaCha20-Poly1305, Ed25519.
_IKE_PROPOSAL, _ESP_PROPOSAL = "chacha20poly1305-prfsha256-x25519", "chacha20poly1305"
_STRONGSWAN = """charon {{
  load = random nonce sha1 sha2 hmac kdf openssl pem pkcs1 pkcs8 pubkey curve25519 kernel-netlink \
socket-default vici
  install_routes = no
  install_virtual_ip = no
  plugins {{ vici {{ socket = unix://{socket} }} }}
  filelog {{ qop {{ path = stderr
    default = 1
    flush_line = yes }} }}
}}
"""
_SWANCTL = """connections {{ host {{
  version = 2
  local_addrs = {here}
  remote_addrs = {there}
  proposals = {ike}
  mobike = no
  encap = no
  send_certreq = no
  send_cert = never
  dpd_delay = 0
  rekey_time = 0
  local {{ auth = pubkey
    pubkeys = {name}.pem
    id = fqdn:{name} }}
  remote {{ auth = pubkey
    pubkeys = {peer}.pem
    id = fqdn:{peer} }}
  children {{ {child} {{
    mode = transport
    esp_proposals = {esp}
    local_ts = {here}/32
    remote_ts = {there}/32
    rekey_time = 0
    start_action = none }} }}
}} }}
"""


class Tunnels:
    """The tunnels of the test network, one per repetition."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self.charon = Charon(site)
        self._addresses = {node: site.network.nodes[node].address for node in _ENDS}
        self._write_configs()

    @contextmanager
    def keep_tunnel(self, protocol: str, raw: dict[str, Any]) -> Iterator[None]:
        """Set up the tunnel of a protocol, and remove it at the end of the context.

        The kernels' counters at the end are stored in `raw`.
        """
        if protocol == "wireguard":
            with self._wireguard_tunnel(raw):
                yield
        elif protocol == "esp":
            with self._esp_tunnel(raw):
                yield
        else:
            yield

    def start_handshake(self, protocol: str) -> None:
        """Start the handshake of the tunnel before the first message."""
        if protocol == "esp":
            limit_s = TimeLimits.for_testbed(self._site.testbed).ike_between_s(*_ENDS)
            with charon.open_session(self.charon.socket_path("alpha"), limit_s) as session:
                charon.negotiate_tunnel(session, _CHILD, limit_s,
                                        self._site.log_path(self.charon.name, "alpha"))
        elif protocol == "wireguard":
            # The kernel makes the WireGuard handshake for the first packet through the tunnel.
            self._site.testbed.run_command("alpha", ["ping", "-nqc", "1", INNER["beta"]])

    @contextmanager
    def _wireguard_tunnel(self, raw: dict[str, Any]) -> Iterator[None]:
        keys = {node: make_key() for node in _ENDS}
        tunnels = WireGuardTunnels(self._site, {
            node: WireGuardEnd(keys[node], f"{INNER[node]}/24", [WireGuardPeer(
                keys[peer].public, [f"{INNER[peer]}/32"], self._addresses[peer])])
            for node, peer in _ENDS.items()})
        with ServiceStarter([tunnels]):
            yield
            raw["wireguard"] = {node: [asdict(state) for state in tunnels.read_state(node)]
                                for node in _ENDS}

    @contextmanager
    def _esp_tunnel(self, raw: dict[str, Any]) -> Iterator[None]:
        try:
            yield
            raw["esp"] = {node: kernel_state.xfrm_states(self._site.testbed, node) for node
                          in _ENDS}
        finally:
            for node in _ENDS:
                with charon.open_session(self.charon.socket_path(node)) as session:
                    charon.delete_sas(session)

    def bypass_tunnel(self, protocol: str) -> None:
        """Remove the ESP policies, so that messages bypass the tunnel (injected fault).

        Other protocols need nothing here.
        """
        if protocol == "esp":
            for node in _ENDS:
                self._site.testbed.run_command(node, ["ip", "xfrm", "policy", "flush"])

    def _write_configs(self) -> None:
        """Write the configuration files of charon (strongSwan's IKE daemon), with new keys."""
        keys = {node: Ed25519PrivateKey.generate() for node in _ENDS}
        for node, peer in _ENDS.items():
            home = self._site.mount / node
            self._site.run_folder(node)
            for folder in ("private", "pubkey"):
                (home / "swanctl" / folder).mkdir(parents=True, exist_ok=True)
            (home / "swanctl" / "private" / f"{node}.pem").write_bytes(keys[node].private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption()))
            for name, key in keys.items():
                (home / "swanctl" / "pubkey" / f"{name}.pem").write_bytes(
                    key.public_key().public_bytes(
                        serialization.Encoding.PEM,
                        serialization.PublicFormat.SubjectPublicKeyInfo))
            (home / "swanctl" / "swanctl.conf").write_text(_SWANCTL.format(
                here=self._addresses[node], there=self._addresses[peer], name=node, peer=peer,
                ike=_IKE_PROPOSAL, esp=_ESP_PROPOSAL, child=_CHILD))
            (home / Charon.file).write_text(
                _STRONGSWAN.format(socket=self.charon.socket_path(node)))


def message_addresses(site: Site, protocol: str, *, bypasses_tunnel: bool) -> Sequence[str]:
    """Return the addresses of sender and receiver.

    With WireGuard, these are addresses inside the tunnel. If the injected fault lets messages
    bypass the tunnel, they are the hosts' own addresses.
    """
    through = protocol == "wireguard" and not bypasses_tunnel
    return [INNER[node] if through else site.network.nodes[node].address for node in _ENDS]


# --- Workload: a tunnel, two programs and three captured phases ---
# A short phase is captured whole for the proof. Then the trace is replayed in its own time, with
# headers captured. At last it is replayed as fast as it is taken. Only packets that do not belong
# to the protocol are captured then.

#: Negative controls, with the protocols for which each exists.
CONTROLS = {BESIDE_TUNNEL: ("wireguard", "esp"), LONGER_TIMEOUT_IN_REAL_TIME: ("adp",)}
#: Capture filter for the packets of a protocol, fragments included.
OWN = {"adp": "ip proto 253", "wireguard": f"udp port {WIREGUARD_PORT}", "none": "udp",
       "esp": "esp or udp port 500"}
_COUNTERS = ("tx_bytes", "tx_packets", "rx_bytes", "rx_packets")


def measure_repetition(hosts: HostPrograms, tunnels: Tunnels, session: Session) -> None:
    """Run one repetition in real time.

    Args:
        hosts: programs of the sending and the receiving host.
        tunnels: tunnels of the test network.
        session: gets time stamps, raw values and progress reports.

    Raises:
        MeasureError: a tunnel fails, or the injected fault does not exist for the protocol.
    """
    task, site = hosts.task, hosts.site
    protocol, fault = task["protocol"], task.get("fault", site.fault)
    if fault and protocol not in CONTROLS.get(fault, ()):
        raise MeasureError("testbed", f"--fault {fault}: is not for {protocol} in real time")
    captures = _Captures(site, hosts.out, session)
    session.raw["counters"] = {}
    with ExitStack() as stack:
        stack.enter_context(tunnels.keep_tunnel(protocol, session.raw))
        sink = stack.enter_context(_start_carrier(hosts, "sink", "beta"))
        source = stack.enter_context(_start_carrier(hosts, "source", "alpha"))
        with captures.capture_part("proof", WHOLE, "ip"):
            session.stamp("start")
            tunnels.start_handshake(protocol)
            if fault == BESIDE_TUNNEL:
                tunnels.bypass_tunnel(protocol)
            source.run_command("establish")
            hosts.report_wait("proof", session)
            source.run_command("proof")
        _run_phases(hosts, captures, session, source)
        source.finish()
        sink.finish()


def _run_phases(hosts: HostPrograms, captures: _Captures, session: Session,
                source: HostProgram) -> None:
    """Run the phases that send the trace at its own times, and as fast as possible.

    The kernel's packet counters of each phase are stored in the session's raw values.
    """
    own = OWN[hosts.task["protocol"]]
    for phase, expression in (("latency", "ip"), ("throughput", f"ip and not ({own})")):
        with captures.capture_part(phase, HEADERS, expression):
            before = _read_counters(hosts.site)
            session.stamp(phase)
            hosts.report_wait(phase, session)
            session.report(f"{phase}-begins")
            source.run_command(phase)
            session.report(f"{phase}-ends")
            after = _read_counters(hosts.site)
            settle_captures()
        session.raw["counters"][phase] = {name: after[name] - before[name] for name in after}
    session.stamp("end")


class _Captures:
    """Captures at the sender's end of the wire."""

    def __init__(self, site: Site, out: Path, session: Session) -> None:
        self._site, self._out, self._session = site, out, session

    @contextmanager
    def capture_part(self, part: str, detail: CaptureDetail, expression: str) -> Iterator[None]:
        """Capture packets while the context lasts."""
        with capture_packets(self._site.testbed,
                             [CapturePoint("alpha", "alpha", "to-beta", expression)],
                             detail, part=part, out=self._out, logs=self._site.logs,
                             summaries=self._session.raw["captures"]):
            yield


def _read_counters(site: Site) -> Mapping[str, int]:
    """Return the kernel's packet counters at the sender's end of the wire."""
    folder = "/sys/class/net/to-beta/statistics"
    output = site.testbed.run_command("alpha", ["cat", *(f"{folder}/{name}" for name in _COUNTERS)])
    return dict(zip(_COUNTERS, map(int, output.split()), strict=True))


def _start_carrier(hosts: HostPrograms, role: str, host: str) -> HostProgram:
    """Start the sending or the receiving program on a host. `role` is `source` or `sink`."""
    task = hosts.task
    bypasses_tunnel = hosts.fault == BESIDE_TUNNEL
    ends = message_addresses(hosts.site, task["protocol"], bypasses_tunnel=bypasses_tunnel)
    address, peer_address = ends if host == "alpha" else ends[::-1]
    counts = [len(json.loads((hosts.out / f"{phase}.json").read_text())["messages"])
              for phase in hosts.phases]
    return hosts.start_carrier(role, host, {
        "address": address, "peer_address": peer_address,
        "config": str(hosts.write_config(host)) if task["protocol"] == "adp" else "",
        "totals": [sum(counts[:place + 1]) for place in range(len(counts))],
        "counts_from": sum(counts[:-1]), "counts_after": "",
        "window": WINDOW, "report": REPORT, "may_lose": False})
