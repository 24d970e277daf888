"""Run hostapd and wpa_supplicant on nodes, and control them through their sockets.

`Hostapd` and `WpaSupplicant` start a daemon on every node that has its configuration, and connect
to it. They take a `Site`: a running network with the settings of its run. `ControlSocket` is the
control interface of both: it sends commands such as STATUS, and returns events with their times.
Its protocol is that of hostap's `wpa_ctrl.c`: datagrams on a UNIX socket, and events with a level
in angle brackets.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import re
import socket
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from measure.agent.errors import MeasureError
from measure.agent.process import Daemon, wait_at_most
from measure.agent.workload import Site
from measure.services.daemons import DaemonService

_COUNTER = itertools.count()
#: Event name and text. The text of a `CTRL-REQ-…` follows a colon, which is no part of the name.
_EVENT = re.compile(r"^<\d+>(CTRL-REQ-[A-Z_]+-\d+(?=:)|\S+)[ :]?(.*)$", re.DOTALL)
_REPLY_S = 5.0


@functools.cache
def private_folder() -> tempfile.TemporaryDirectory[str]:
    """Create a temporary folder for this process's ends of the control sockets.

    The random name cannot be taken in advance by another user of the machine.
    """
    return tempfile.TemporaryDirectory(prefix="qop-ctrl-", dir="/tmp")


@dataclass(frozen=True)
class Event:
    """An event of hostapd or wpa_supplicant, with the wall-clock time at which it was read (s)."""

    at_s: float
    name: str
    text: str


def parse_event(datagram: bytes, at_s: float) -> Event | None:
    """Parse a datagram of hostapd or wpa_supplicant as an event, or return None."""
    match = _EVENT.match(datagram.decode("utf-8", "replace").rstrip("\n"))
    return Event(at_s, match[1], match[2]) if match else None


class ControlSocket:
    """A connection to the control socket of one hostapd or wpa_supplicant. A context manager."""

    def __init__(self, path: Path, name: str) -> None:
        self.name = name
        self._path = path
        self.history: list[Event] = []
        self._sockets: list[socket.socket] = []
        try:
            self._commands = self._open_socket()
            self._events = self._open_socket()
            self._request_ok(self._events, "ATTACH")
        except BaseException:
            self.close_connection()
            raise

    def __enter__(self) -> ControlSocket:
        return self

    def __exit__(self, *_: object) -> None:
        self.close_connection()

    def close_connection(self) -> None:
        """Close the connection to the daemon. Closing it again has no effect."""
        while self._sockets:
            sock = self._sockets.pop()
            local = sock.getsockname()
            sock.close()
            Path(local).unlink(missing_ok=True)

    @property
    def events(self) -> socket.socket:
        """Return the socket of the daemon's events, so that one call can wait for many daemons."""
        return self._events

    def request(self, command: str) -> str:
        """Send a control command to the daemon, and return the reply.

        Raises:
            MeasureError: There is no reply.
        """
        try:
            self._commands.send(command.encode())
            return self._commands.recv(65536).decode("utf-8", "replace")
        except OSError as error:
            raise self._no_reply(command, error) from error

    def read_status(self) -> dict[str, str]:
        """Return the keys and values of the daemon's STATUS reply."""
        lines = self.request("STATUS").splitlines()
        return dict(line.split("=", 1) for line in lines if "=" in line)

    def send_command(self, command: str) -> None:
        """Send a control command to the daemon, and check that the reply is OK.

        Raises:
            MeasureError: There is no reply, or another one.
        """
        self._request_ok(self._commands, command)

    def wait_event(self, names: set[str], deadline_s: float) -> Event | None:
        """Wait for the daemon's next event with one of these names.

        Return None at the deadline.

        Every event that is read meanwhile is kept in `history`. The socket's time limit is set only
        once: setting it for each event would cost time while something is timed.

        Args:
            names: Names of events.
            deadline_s: Deadline on the monotonic clock, in s.
        """
        if (left_s := deadline_s - time.monotonic()) <= 0:
            return None
        wait_at_most(self._events, left_s)
        while time.monotonic() < deadline_s:
            try:
                datagram = self._events.recv(65536)
            except BlockingIOError:
                break
            event = parse_event(datagram, time.time())
            if event is None:
                continue
            self.history.append(event)
            if event.name in names:
                return event
        return None

    def read_pending(self) -> list[Event]:
        """Return the daemon's unread events, without waiting for more."""
        self._events.settimeout(0)
        datagrams = []
        with contextlib.suppress(BlockingIOError):
            while datagram := self._events.recv(65536):
                datagrams.append(datagram)
        at_s = time.time()
        return [event for datagram in datagrams if (event := parse_event(datagram, at_s))]

    def drop_events(self) -> None:
        """Discard the daemon's unread events and the history."""
        self.read_pending()
        self.history = []

    def _open_socket(self) -> socket.socket:
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        local = f"{private_folder().name}/{next(_COUNTER)}"
        sock.bind(local)
        wait_at_most(sock, _REPLY_S)
        try:
            sock.connect(str(self._path))
        except OSError as error:
            sock.close()
            Path(local).unlink(missing_ok=True)
            raise MeasureError("testbed", f"{self.name}: control socket {self._path} "
                               f"cannot be reached ({error})") from error
        self._sockets.append(sock)
        return sock

    def _request_ok(self, sock: socket.socket, command: str) -> None:
        wait_at_most(sock, _REPLY_S)
        try:
            sock.send(command.encode())
            while True:
                reply = sock.recv(65536)
                if not reply.startswith(b"<"):
                    break
        except OSError as error:
            raise self._no_reply(command, error) from error
        if reply.decode("utf-8", "replace") != "OK\n":
            raise MeasureError("testbed", f"{self.name}: {_command_name(command)} was refused: "
                               f"{reply.decode('utf-8', 'replace').strip()}")

    def _no_reply(self, command: str, error: OSError) -> MeasureError:
        why = "timed out" if isinstance(error, BlockingIOError) else error
        return MeasureError("testbed", f"{self.name}: no reply to {_command_name(command)} ({why})")


def disconnect_station(supplicant: ControlSocket) -> None:
    """Make a supplicant disconnect, and delete its scan results and cached keys."""
    supplicant.send_command("DISABLE_NETWORK 0")
    supplicant.send_command("BSS_FLUSH 0")
    # Otherwise the next authentication would be a four-way handshake with this one's cached key.
    supplicant.send_command("PMKSA_FLUSH")


def is_port_open(status: Mapping[str, str]) -> bool:
    """Return whether a supplicant's STATUS shows that the port passes data frames.

    Without 802.1X (PSK, SAE, OWE, open) there is no controlled port, and the result is always True.
    """
    has_port = "802.1X" in status.get("key_mgmt", "802.1X")
    return not has_port or status.get("suppPortStatus") == "Authorized"


def _command_name(command: str) -> str:
    """Return a control command without its arguments, which may be secret."""
    return command.split(maxsplit=1)[0]


# --- Service for hostapd, with a connection to each access point ---

#: hostapd's own values of settings that its file may lack.
_DEFAULTS = {"sae_groups": "19"}
#: Configuration line of opportunistic key caching: access points of one process share cached PMKs.
_SHARES_KEYS = "\nokc=1\n"


class Hostapd(DaemonService):
    """The service that runs hostapd, on every node that has its configuration file."""

    name = "hostapd"
    file = "hostapd.conf"

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self.controls: dict[str, ControlSocket] = {}
        self._connections = ExitStack()

    def launch_on(self, node: str) -> Daemon:
        """Start hostapd on one node.

        Access points that share cached keys run in one process.
        """
        sharing = [name for name in self.list_nodes() if _SHARES_KEYS
                   in self._config_path(name).read_text()]
        if node not in sharing:
            return self.run_daemon(node, ["hostapd", str(self._config_path(node))], r"AP-ENABLED")
        if node != sharing[0]:
            return self.daemons[sharing[0]]
        for name in sharing:
            self.site.run_folder(name)
        last = self.site.network.nodes[sharing[-1]].radio_interface
        return self.run_daemon(node,
                               ["hostapd", *(str(self._config_path(name)) for name in sharing)],
                               rf"^{last}: AP-ENABLED")

    def _config_path(self, node: str) -> Path:
        return self.site.mount / node / self.file

    def wait_ready(self) -> None:
        """Wait until all access points run, then connect to their control sockets."""
        super().wait_ready()
        for name in self.daemons:
            self._open_control(name)
            self.site.testbed.attach_vlan(name)

    def stop(self) -> None:
        """Close the control sockets and end all access points."""
        self._connections.close()
        super().stop()

    def restart_on(self, node: str) -> None:
        """Start an access point's hostapd again, so that it asks its first RADIUS server first.

        hostapd stays with the second one once it has asked it.

        Raises:
            MeasureError: The daemon is not ready in time.
        """
        self.controls[node].close_connection()
        self.daemons[node].stop()
        self.daemons[node] = self.launch_on(node)
        self.daemons[node].wait_ready()
        self._open_control(node)
        self.site.testbed.attach_vlan(node)

    def _open_control(self, node: str) -> None:
        interface = self.site.network.nodes[node].radio_interface
        self.controls[node] = self._connections.enter_context(
            ControlSocket(self.site.run_folder(node) / "hostapd" / interface,
                          f"hostapd on {node}"))

    def wait_authorized(self, node: str, mac: str, deadline_s: float) -> bool:
        """Wait until an access point authorises a station.

        Return False at the deadline.

        The deadline is on the monotonic clock.
        """
        while event := self.controls[node].wait_event({"AP-STA-CONNECTED"}, deadline_s):
            if event.text.startswith(mac):
                return True
        return False

    def set_name(self, node: str, name: str) -> None:
        """Change the name by which an access point calls itself to RADIUS servers.

        Raises:
            MeasureError: hostapd does not take it.
        """
        self.controls[node].send_command(f"SET nas_identifier {name}")

    @contextmanager
    def replace_setting(self, node: str, setting: str, value: str,
                        limit_s: float) -> Iterator[None]:
        """Give an access point another value of a setting inside the context.

        hostapd restarts the access point with it, and afterwards with its file's value.

        Args:
            node: The access point.
            setting: Name of the setting in hostapd.conf.
            value: The other value.
            limit_s: Time limit of each start in s.

        Raises:
            MeasureError: hostapd does not take the value, or does not start in time.
        """
        own = re.search(rf"^{setting}=(.*)$", self._config_path(node).read_text(), re.MULTILINE)
        usual = own[1] if own else _DEFAULTS[setting]
        self._restart_with(node, setting, value, limit_s)
        try:
            yield
        finally:
            self._restart_with(node, setting, usual, limit_s)

    @contextmanager
    def restart_after(self, node: str, limit_s: float) -> Iterator[None]:
        """Restart an access point when the context ends, so that it forgets all stations.

        Args:
            node: The access point.
            limit_s: Time limit of the start in s.

        Raises:
            MeasureError: hostapd does not start in time.
        """
        try:
            yield
        finally:
            self._restart_with(node, "", "", limit_s)

    def _restart_with(self, node: str, setting: str, value: str, limit_s: float) -> None:
        """Restart an access point, with another value of a setting unless `setting` is ""."""
        if self.site.testbed.vlan:
            # After DISABLE and ENABLE, hostapd has no interfaces for VLANs.
            self._restart_process(node, setting, value)
            return
        control = self.controls[node]
        control.send_command("DISABLE")
        if setting:
            control.send_command(f"SET {setting} {value}")
        control.drop_events()
        control.send_command("ENABLE")
        if control.wait_event({"AP-ENABLED"}, time.monotonic() + limit_s) is None:
            raise MeasureError("testbed", f"hostapd on {node} does not start again within "
                               f"{limit_s:.3g} s")

    def _restart_process(self, node: str, setting: str, value: str) -> None:
        """Start an access point's hostapd again, with another value in its file."""
        if setting:
            file = self._config_path(node)
            text, count = re.subn(rf"^{setting}=.*$", f"{setting}={value}", file.read_text(),
                                  count=1, flags=re.MULTILINE)
            file.write_text(text if count else f"{text}{setting}={value}\n")
        self.restart_on(node)

    def expire_station(self, node: str, mac: str) -> None:
        """Make an access point forget a station that has left, as its inactivity timer would.

        The access point keeps the station's cached keys.
        """
        self.controls[node].request(f"DISASSOCIATE {mac} tx=0")
        self.controls[node].drop_events()

    def forget_station(self, mac: str) -> None:
        """Make every access point deauthenticate and forget a station."""
        for control in self.controls.values():
            control.drop_events()
            control.request(f"DEAUTHENTICATE {mac}")
            control.drop_events()

    def update_admitted(self, node: str, admitted: set[str]) -> None:
        """Read an access point's pending events, and update the set of authorised stations.

        Call this regularly when many stations join. Unread events fill the control socket, and
        hostapd then blocks until they are read.
        """
        for event in self.controls[node].read_pending():
            if event.name == "AP-STA-CONNECTED":
                admitted.add(event.text.split()[0])
            elif event.name == "AP-STA-DISCONNECTED":
                admitted.discard(event.text.split()[0])


# --- Service for wpa_supplicant, with a connection to each station's interface ---

class WpaSupplicant(DaemonService):
    """The service that runs wpa_supplicant, on every node that has its configuration file."""

    name = "wpa_supplicant"
    file = "wpa_supplicant.conf"
    #: Settings of OpenSSL, where a policy needs others than OpenSSL's own.
    library_file = "openssl.cnf"

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self.controls: dict[str, ControlSocket] = {}
        self._connections = ExitStack()

    def launch_on(self, node: str) -> Daemon:
        """Start wpa_supplicant on one node."""
        # Started without an interface: adding one through the global socket returns when the
        # interface's own control socket exists.
        settings = self.site.mount / node / self.library_file
        return self.run_daemon(node, ["wpa_supplicant", "-g", self._global_socket(node)],
                               r"Successfully initialized wpa_supplicant",
                               {"OPENSSL_CONF": str(settings)} if settings.exists() else {})

    def wait_ready(self) -> None:
        """Wait until all supplicants run, add their interfaces and connect to them."""
        super().wait_ready()
        for name in self.daemons:
            self.controls[name] = self._connections.enter_context(self._add_interface(name))

    def stop(self) -> None:
        """Close the control sockets and end all supplicants."""
        self._connections.close()
        super().stop()

    @contextmanager
    def replace_setting(self, node: str, setting: str, value: str) -> Iterator[None]:
        """Give a supplicant another value of a global setting inside the context.

        The network is created again with each value, because the supplicant derives secrets of it
        only once (SAE's password element).

        Raises:
            MeasureError: wpa_supplicant does not take the value.
        """
        text = (self.site.mount / node / self.file).read_text()
        own = re.search(rf"^{setting}=(.*)$", text, re.MULTILINE)
        try:
            self._renew_network(node, text, setting, value)
            yield
        finally:
            self._renew_network(node, text, setting, own[1] if own else "")

    def _renew_network(self, node: str, text: str, setting: str, value: str) -> None:
        """Set a global setting, and replace the supplicant's network by an equal one."""
        control = self.controls[node]
        control.send_command(f"SET {setting} {value}")
        control.send_command("REMOVE_NETWORK 0")
        control.request("ADD_NETWORK")
        block = re.search(r"^network=\{\n(.*?)^\}", text, re.MULTILINE | re.DOTALL)
        for line in block[1].splitlines() if block else ():
            name, is_setting, own = line.strip().partition("=")
            if is_setting and not name.startswith("#"):
                control.send_command(f"SET_NETWORK 0 {name} {own}")

    def _global_socket(self, node: str) -> str:
        return str(self.site.run_folder(node) / "global")

    def _add_interface(self, name: str) -> ControlSocket:
        home = self.site.mount / name
        interface = self.site.network.nodes[name].radio_interface
        daemon = self.daemons[name]
        since = daemon.position()
        with ControlSocket(home / "run" / "global", f"wpa_supplicant on {name}") as everything:
            try:
                everything.send_command(f"INTERFACE_ADD {interface}\t{home / self.file}\tnl80211"
                                        f"\t{home / 'run' / 'wpa_supplicant'}")
            except MeasureError as error:
                cause = daemon.cause_since(since) or error.reason
                raise MeasureError("testbed", f"{daemon.name} does not take {interface} with its "
                                   f"configuration: {cause} (log: {daemon.log.name})") from None
        return ControlSocket(home / "run" / "wpa_supplicant" / interface,
                             f"wpa_supplicant on {name}")
