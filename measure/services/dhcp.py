"""Run DHCP in a test network: dnsmasq as the server, and udhcpc on stations.

`DhcpServers` starts a server on every node that has its configuration. A server reserves one
address for each station. `DhcpClients` starts a client on every station that gets its address by
DHCP. Both take a `Site`: a running network with the settings of its run. `DhcpClient` controls one
client: it asks for an address when the link is up, and drops the address before the next
authentication. Standard library only: it runs in the guest.
"""

from __future__ import annotations

import fcntl
import signal
import socket
import struct
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from measure.agent.errors import MeasureError
from measure.agent.process import Daemon, wait_at_most
from measure.agent.time_limits import DHCP_TIMER
from measure.services.daemons import DaemonService
from topologies.model import STATION
from topologies.namespaces import network_of
from topologies.netlink import NetlinkSocket

# --- Control of the client on one station ---

#: Numbers of linux/rtnetlink.h and linux/sockios.h.
_DEL_ADDRESS, _NEW_ROUTE = 21, 24
_ADDRESS_GROUP, _ROUTE_GROUP = 0x10, 0x40
_MAIN_TABLE = 254
_GET_ADDRESS = 0x8915
_INTERFACE_REQUEST = struct.Struct("16s24x")
#: Time in which the client drops its address, in s.
_RELEASE_S = 10.0


@dataclass(frozen=True)
class DhcpClient:
    """The DHCP client of one station.

    Signals make the client request and release its lease, as a network manager does when the link
    comes up or goes down. The kernel's messages about addresses and routes show when that is done.
    `pid` is a process in the station's namespace.
    """

    daemon: Daemon
    pid: int
    interface: str

    @property
    def has_address(self) -> bool:
        """Return whether the interface has an IPv4 address."""
        with network_of(self.pid), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
            request = _INTERFACE_REQUEST.pack(self.interface.encode())
            try:
                fcntl.ioctl(asking, _GET_ADDRESS, request)
            except OSError:
                return False
        return True

    def obtain_address(self, limit_s: float) -> None:
        """Ask for an address, and wait until the interface has it and the default route.

        An interface that has an address keeps it.

        Args:
            limit_s: Time limit in s.

        Raises:
            MeasureError: The client has no lease in time.
        """
        if not self.has_address and not self._signal_client(signal.SIGUSR1, _is_default_route,
                                                            limit_s):
            raise MeasureError("dhcp", f"{self.daemon.name}: no address by DHCP within "
                               f"{limit_s:.3g} s")

    def release_address(self) -> None:
        """Make the client give up its lease and remove the address.

        Raises:
            MeasureError: The interface keeps the address.
        """
        if self.has_address and not self._signal_client(signal.SIGUSR2, _is_removed_address,
                                                        _RELEASE_S):
            raise MeasureError("dhcp", f"{self.daemon.name}: keeps its address after its release")

    def _signal_client(self, number: signal.Signals, is_expected: Callable[[int, bytes], bool],
                       limit_s: float) -> bool:
        """Send a signal, and return whether the kernel announces what is expected in time."""
        return await_event(self.pid, _ADDRESS_GROUP | _ROUTE_GROUP,
                           lambda: self.daemon.process.send_signal(number), is_expected, limit_s)


def await_event(pid: int, groups: int, cause: Callable[[], object],
                is_expected: Callable[[int, bytes], bool], limit_s: float) -> bool:
    """Cause an event of the kernel, and return whether it announces the event in time.

    Args:
        pid: A process in the network namespace.
        groups: Mask of rtnetlink's multicast groups.
        cause: Function that causes the event.
        is_expected: Function that returns whether a message (kind, body) is the event.
        limit_s: Time limit in s.
    """
    with network_of(pid):
        events = NetlinkSocket(socket.NETLINK_ROUTE, groups=groups)
    with events:
        until = time.monotonic() + limit_s
        cause()
        while (left_s := until - time.monotonic()) > 0:
            wait_at_most(events.event_socket, left_s)
            try:
                messages = events.receive_messages()
            except BlockingIOError:
                return False
            if any(is_expected(kind, body) for kind, body in messages):
                return True
    return False


def _is_removed_address(kind: int, _: bytes) -> bool:
    return kind == _DEL_ADDRESS


def _is_default_route(kind: int, body: bytes) -> bool:
    """Return whether a kernel's message announces a default route in the main table."""
    return kind == _NEW_ROUTE and body[1] == 0 and body[4] == _MAIN_TABLE


# --- Services ---

#: Program that udhcpc runs at each event; it sets the address and the route of a lease.
_SCRIPT = """#!/bin/sh
case $1 in
bound | renew)
	exec ip -batch - <<-END
		address replace $ip/$mask brd + valid_lft $lease preferred_lft $lease dev $interface
		route replace default via ${router%% *} dev $interface onlink
	END
	;;
deconfig) exec ip address flush dev $interface ;;
esac
"""
#: Requests before the client pauses for 20 s.
_TRIES = 20


class DhcpServers(DaemonService):
    """A server of DHCP or of router advertisements on every node that has its configuration."""

    name = "dnsmasq"
    file = "dnsmasq.conf"

    def launch_on(self, node: str) -> Daemon:
        """Start the server of one node."""
        return self.run_daemon(node, ["dnsmasq", "--keep-in-foreground", "--log-facility=-",
                                      f"--conf-file={self.site.mount / node / self.file}"],
                               r"started, version")


class DhcpClients(DaemonService):
    """A DHCP client on every station that gets its address by DHCP."""

    name = "udhcpc"

    def list_nodes(self) -> Sequence[str]:
        """Return the stations that get their address by DHCP."""
        nodes = self.site.network.nodes
        return [name for name in self.site.network.of_duty(STATION) if nodes[name].uses_dhcp]

    def launch_on(self, node: str) -> Daemon:
        """Start the client of one station."""
        script = self.site.run_folder(node) / "udhcpc.script"
        _write_program(script, _SCRIPT)
        return self.run_daemon(node, [
            "busybox", "udhcpc", "-f", "-i", self.site.network.nodes[node].radio_interface,
            "-s", str(script), "-t", str(_TRIES), "-T", f"{DHCP_TIMER.first_s:.0f}"],
            r"udhcpc: started")

    def wait_ready(self) -> None:
        """Wait until the clients run, and make them wait for an order to ask."""
        super().wait_ready()
        for daemon in self.daemons.values():
            daemon.process.send_signal(signal.SIGUSR2)

    def client_of(self, station: str) -> DhcpClient | None:
        """Return a station's client, or None if the network's file gives its address."""
        if station not in self.daemons:
            return None
        return DhcpClient(self.daemons[station], self.site.testbed.node(station).pid,
                          self.site.network.nodes[station].radio_interface)


def _write_program(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o700)
