"""Set up tunnels, routes and ARP entries of Mobile IP in the kernel.

`AgentKernel` and `NodeKernel` perform the actions that the logic of agent and mobile node requests
(`effects`), through netlink. All routes are in routing tables of the daemons' own, ahead of the
main table. So a node's other routes are not changed, and everything can be undone.
"""

from __future__ import annotations

import contextlib
import errno
import socket
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from socket import inet_aton

from topologies.mobile_ip.effects import Admit, Bind, Dismiss, Unbind, UseAgent
from topologies.netlink import ACK, NetlinkSocket, encode_attribute

# --- Requests to the kernel, by rtnetlink ---
# A registration waits for them: 0.1 ms per request in the guest, where starting `ip` takes 4 ms.
# Errors are OSError. Structures: linux/rtnetlink.h, if_link.h, if_tunnel.h, fib_rules.h,
# neighbour.h.

_REPLACE, _EXCLUSIVE, _CREATE = 0x100, 0x200, 0x400
_NEW_LINK, _DEL_LINK, _NEW_ADDRESS, _DEL_ADDRESS = 16, 17, 20, 21
_NEW_ROUTE, _DEL_ROUTE, _NEW_NEIGHBOUR, _DEL_NEIGHBOUR = 24, 25, 28, 29
_NEW_RULE, _DEL_RULE = 32, 33
_INET = socket.AF_INET
_UP = 1
_ONLINK = 4
_STATIC = 4
_UNIVERSE, _LINK_SCOPE, _ANY_SCOPE = 0, 253, 255
_UNICAST = 1
_TO_TABLE = 1
PERMANENT, REACHABLE = 0x80, 0x02
_PROXY = 8


class RoutingNetlink(NetlinkSocket):
    """A netlink connection to the kernel's routing tables.

    It belongs to the network namespace in which it is opened. Methods raise OSError if the kernel
    refuses.
    """

    def __init__(self) -> None:
        super().__init__(socket.NETLINK_ROUTE)

    def add_tunnel(self, name: str, local: str, remote: str) -> int:
        """Create an IP-in-IP interface that is up (RFC 2003), and return its index."""
        data = (encode_attribute(2, inet_aton(local)) + encode_attribute(3, inet_aton(remote))
                + encode_attribute(4, b"\x40")
                + encode_attribute(10, b"\x01"))  # TTL 64, path MTU discovery
        info = encode_attribute(1, b"ipip") + encode_attribute(2, data)
        body = struct.pack("=BxHiII", 0, 0, 0, _UP, _UP)
        body += encode_attribute(3, name.encode() + b"\0") + encode_attribute(18, info)
        self.send_request(_NEW_LINK, ACK | _CREATE | _EXCLUSIVE, body)
        return socket.if_nametoindex(name)

    def delete_link(self, name: str) -> None:
        """Remove an interface and its routes."""
        body = struct.pack("=BxHiII", 0, 0, 0, 0, 0) + encode_attribute(3, name.encode() + b"\0")
        self.send_request(_DEL_LINK, ACK, body)

    def add_address(self, address: str, interface: int) -> None:
        """Give an interface a /32 address."""
        self.send_request(_NEW_ADDRESS, ACK | _CREATE | _EXCLUSIVE,
                          _address_body(address, interface))

    def delete_address(self, address: str, interface: int) -> None:
        """Remove a /32 address."""
        self.send_request(_DEL_ADDRESS, ACK, _address_body(address, interface))

    def set_route(self, table: int, interface: int, address: str | None = None,
                  via: str | None = None, source: str | None = None) -> None:
        """Route an address (None: all packets) to an interface.

        `via` need not be in a subnet of the interface.
        """
        self.send_request(_NEW_ROUTE, ACK | _CREATE | _REPLACE,
                          _route_body(table, interface, address, via, source))

    def delete_route(self, table: int, interface: int, address: str | None = None) -> None:
        """Remove a route that `set_route` created."""
        self.send_request(_DEL_ROUTE, ACK,
                          _route_body(table, interface, address, None, None, _ANY_SCOPE))

    def add_rule(self, priority: int, table: int, source: str | None = None,
                 interface: str | None = None) -> None:
        """Create a rule: look packets up in a table.

        It may be limited to an address or interface.
        """
        self.send_request(_NEW_RULE, ACK | _CREATE | _EXCLUSIVE,
                          _rule_body(priority, table, source, interface))

    def delete_rule(self, priority: int, table: int, source: str | None = None,
                    interface: str | None = None) -> None:
        """Remove a rule that `add_rule` created."""
        self.send_request(_DEL_RULE, ACK, _rule_body(priority, table, source, interface))

    def flush_rules(self, priority: int) -> None:
        """Remove all rules of a priority, regardless of their creator."""
        while True:
            try:
                self.send_request(_DEL_RULE, ACK, _rule_body(priority, 0, None, None))
            except FileNotFoundError:
                return

    def set_neighbour(self, address: str, link: bytes, interface: int, state: int) -> None:
        """Set the link-layer address of an IP address (ARP entry)."""
        self.send_request(_NEW_NEIGHBOUR, ACK | _CREATE | _REPLACE,
                          _neighbour_body(address, interface, state, 0)
                          + encode_attribute(2, link))

    def delete_neighbour(self, address: str, interface: int) -> None:
        """Remove the link-layer address of an IP address (ARP entry)."""
        self.send_request(_DEL_NEIGHBOUR, ACK, _neighbour_body(address, interface, 0, 0))

    def add_proxy(self, address: str, interface: int) -> None:
        """Answer ARP requests for an address (`ip neighbour add proxy`)."""
        self.send_request(_NEW_NEIGHBOUR, ACK | _CREATE,
                          _neighbour_body(address, interface, PERMANENT, _PROXY))

    def delete_proxy(self, address: str, interface: int) -> None:
        """Stop answering ARP requests for an address."""
        self.send_request(_DEL_NEIGHBOUR, ACK, _neighbour_body(address, interface, 0, _PROXY))


def _encode_number(kind: int, value: int) -> bytes:
    return encode_attribute(kind, struct.pack("=I", value))


def _address_body(address: str, interface: int) -> bytes:
    packed = inet_aton(address)
    return (struct.pack("=BBBBI", _INET, 32, 0, _UNIVERSE, interface)
            + encode_attribute(2, packed) + encode_attribute(1, packed))


def _route_body(table: int, interface: int, address: str | None, via: str | None,
                source: str | None, scope: int | None = None) -> bytes:
    if scope is None:
        scope = _UNIVERSE if via else _LINK_SCOPE
    head = struct.pack("=BBBBBBBBI", _INET, 32 if address else 0, 0, 0, 0, _STATIC, scope,
                       _UNICAST, _ONLINK if via else 0)
    body = head + _encode_number(15, table) + _encode_number(4, interface)
    for kind, value in ((1, address), (5, via), (7, source)):
        if value:
            body += encode_attribute(kind, inet_aton(value))
    return body


def _rule_body(priority: int, table: int, source: str | None, interface: str | None) -> bytes:
    body = struct.pack("=BBBBBBBBI", _INET, 0, 32 if source else 0, 0, 0, 0, 0, _TO_TABLE, 0)
    body += _encode_number(6, priority) + _encode_number(15, table)
    if source:
        body += encode_attribute(2, inet_aton(source))
    if interface:
        body += encode_attribute(3, interface.encode() + b"\0")
    return body


def _neighbour_body(address: str, interface: int, state: int, flags: int) -> bytes:
    return (struct.pack("=BxHiHBB", _INET, 0, interface, state, flags, _UNICAST)
            + encode_attribute(1, inet_aton(address)))


# --- Kernel state of agents and mobile nodes ---

# Priorities of the rules, and tables with the same numbers; Linux uses 0, 32766 and 32767, and 434
# is Mobile IP's port. A visitor's packets come first: even those to the subnet that it visits go
# home first (RFC 3024 section 2).
FROM_VISITOR, TO_VISITOR, OWN = 432, 433, 434
_FIRST_REVERSE_TABLE = 43_400
_GONE = frozenset({errno.ENOENT, errno.ESRCH, errno.ENODEV, errno.EADDRNOTAVAIL, errno.ENXIO})
_CONF = "net/ipv4/conf"
_TUNNEL = "mip"
Claim = Callable[[str, bytes], None]


@contextlib.contextmanager
def _ignore_missing() -> Iterator[None]:
    """Ignore inside the context that an object to delete does not exist.

    A link that goes down removes its routes.
    """
    try:
        yield
    except OSError as error:
        if error.errno not in _GONE:
            raise


class Sysctls:
    """Kernel settings below /proc/sys, whose first values can be restored."""

    def __init__(self) -> None:
        self._before: dict[Path, str] = {}

    def set_sysctl(self, name: str, value: int) -> None:
        """Write a kernel setting, and remember its first value.

        Raises:
            OSError: The switch cannot be read or written.
        """
        path = Path("/proc/sys") / name
        before = path.read_text().strip()
        if before != str(value):
            self._before.setdefault(path, before)
            path.write_text(str(value))

    def restore(self) -> None:
        """Restore the saved kernel settings, ignoring interfaces that no longer exist."""
        for path, value in self._before.items():
            with contextlib.suppress(OSError):
                path.write_text(value)
        self._before.clear()


class IpInIpTunnels:
    """IP-in-IP tunnel interfaces, one for each pair of ends, removed when nothing uses them."""

    def __init__(self, netlink: RoutingNetlink) -> None:
        self._netlink = netlink
        self._users: dict[str, int] = {}

    def flush(self) -> None:
        """Remove all tunnels, including those of a daemon that was killed."""
        self._users.clear()
        for _, name in socket.if_nameindex():
            if name.startswith(_TUNNEL):
                self._netlink.delete_link(name)

    def acquire(self, role: str, local: str, remote: str) -> str:
        """Return the name of the tunnel between two addresses, and create it if needed.

        Raises:
            OSError: The kernel refuses.
        """
        name = f"{_TUNNEL}{role}{inet_aton(remote).hex()}"
        if name not in self._users:
            self._netlink.add_tunnel(name, local, remote)
            # Decapsulated packets have sources to which no route leads through the tunnel.
            Path("/proc/sys", _CONF, name, "rp_filter").write_text("0")
        self._users[name] = self._users.get(name, 0) + 1
        return name

    def release(self, name: str) -> bool:
        """Release one use of a tunnel, and return whether the tunnel is removed now."""
        self._users[name] -= 1
        if self._users[name]:
            return False
        del self._users[name]
        with _ignore_missing():
            self._netlink.delete_link(name)
        return True


class AgentKernel:
    """The kernel state of an agent, in its network namespace. Methods raise OSError.

    `link` is the interface's own link-layer address. `claim` broadcasts the link-layer address of
    an IP address (gratuitous ARP).
    """

    def __init__(self, interface: str, address: str, care_of: str, link: bytes, claim: Claim,
                 wired_interface: str | None = None) -> None:
        self._interface = interface
        self._wired = wired_interface
        self._index = socket.if_nametoindex(interface)
        self._link = link
        self._address = address
        self._care_of = care_of
        self._claim = claim
        self._netlink = RoutingNetlink()
        self._tunnels = IpInIpTunnels(self._netlink)
        self._switches = Sysctls()
        self._bound: dict[str, str] = {}
        self._visitors: dict[str, tuple[str, bool]] = {}
        self._reverse_tables: dict[str, int] = {}

    def start(self) -> None:
        """Enable forwarding, and route packets of bound nodes before all other packets."""
        self._switches.set_sysctl("net/ipv4/ip_forward", 1)
        for place in filter(None, ("all", self._interface, self._wired)):
            self._switches.set_sysctl(f"{_CONF}/{place}/rp_filter", 0)
            self._switches.set_sysctl(f"{_CONF}/{place}/send_redirects", 0)
        # Without this a proxy waits up to 0.8 s before it answers.
        self._switches.set_sysctl(f"net/ipv4/neigh/{self._interface}/proxy_delay", 0)
        self._flush_all()
        self._netlink.add_rule(OWN, OWN)

    def stop(self) -> None:
        """Remove all tunnels, routes and rules of the agent."""
        for visitor in list(self._visitors):
            self.dismiss(Dismiss(visitor))
        for home, tunnel in list(self._bound.items()):
            self.unbind(Unbind(home, tunnel))
        self._flush_all()
        self._switches.restore()
        self._netlink.close()

    def bind(self, effect: Bind) -> None:
        """Tunnel a node's packets to its care-of address, and answer ARP for the node at home."""
        home = effect.home_address
        old = self._bound.get(home)
        name = self._tunnels.acquire("h", self._address, effect.care_of)
        if name == old:
            self._tunnels.release(name)
            return
        try:
            self._netlink.set_route(OWN, socket.if_nametoindex(name), home)
        except OSError:
            self._tunnels.release(name)
            raise
        self._bound[home] = name
        if old:
            self._tunnels.release(old)
            return
        self._netlink.add_proxy(home, self._index)
        # RFC 5944 section 4.6: neighbours that know the node's link-layer address replace it by
        # ours.
        self._claim(home, self._link)

    def unbind(self, effect: Unbind) -> None:
        """Deliver a node's packets on the home link again."""
        name = self._bound.pop(effect.home_address, None)
        if name is None:
            return
        with _ignore_missing():
            self._netlink.delete_route(OWN, socket.if_nametoindex(name), effect.home_address)
        self._tunnels.release(name)
        with _ignore_missing():
            self._netlink.delete_proxy(effect.home_address, self._index)
        if effect.link is not None:
            self._claim(effect.home_address, effect.link)
            self._netlink.set_neighbour(effect.home_address, effect.link, self._index, REACHABLE)

    def admit(self, effect: Admit) -> None:
        """Deliver packets from the tunnel to a visitor, and send its packets into the tunnel."""
        home = effect.home_address
        name = self._tunnels.acquire("f", self._care_of, effect.home_agent)
        if home in self._visitors and self._visitors[home] != (name, effect.reverse_tunnel):
            self.dismiss(Dismiss(home))
        if home in self._visitors:
            self._tunnels.release(name)
        else:
            self._visitors[home] = name, effect.reverse_tunnel
            self._open_tunnel(name)
            if effect.reverse_tunnel:
                self._netlink.add_rule(FROM_VISITOR, self._reverse_tables[name], home,
                                       self._interface)
        # RFC 5944 section 4.6: never resolve a visitor by ARP; it has sent its address.
        self._netlink.set_neighbour(home, effect.link, self._index, PERMANENT)
        self._netlink.set_route(TO_VISITOR, self._index, home)

    def dismiss(self, effect: Dismiss) -> None:
        """Stop serving a visitor, and remove its routes."""
        name, reverse = self._visitors.pop(effect.home_address, ("", False))
        if not name:
            return
        table = self._reverse_tables[name]
        with _ignore_missing():
            self._netlink.delete_route(TO_VISITOR, self._index, effect.home_address)
        with _ignore_missing():
            self._netlink.delete_neighbour(effect.home_address, self._index)
        if reverse:
            with _ignore_missing():
                self._netlink.delete_rule(FROM_VISITOR, table, effect.home_address,
                                          self._interface)
        if self._tunnels.release(name):
            del self._reverse_tables[name]
            with _ignore_missing():
                self._netlink.delete_rule(TO_VISITOR, TO_VISITOR, interface=name)

    def _flush_all(self) -> None:
        for priority in (FROM_VISITOR, TO_VISITOR, OWN):
            self._netlink.flush_rules(priority)
        self._tunnels.flush()

    def _open_tunnel(self, name: str) -> None:
        """Create the table and rule for a home agent's tunnel when its first visitor arrives.

        Only packets from the tunnel are delivered here. Packets of this subnet to a visitor go to
        its home like all others. This also holds for a visitor that has left before its visit
        expired.
        """
        if name in self._reverse_tables:
            return
        used = set(self._reverse_tables.values())
        table = next(n for n in range(_FIRST_REVERSE_TABLE, 1 << 30) if n not in used)
        self._reverse_tables[name] = table
        self._netlink.set_route(table, socket.if_nametoindex(name))
        self._netlink.add_rule(TO_VISITOR, TO_VISITOR, interface=name)


class NodeKernel:
    """The kernel state of a mobile node, like AgentKernel. Methods raise OSError."""

    def __init__(self, interface: str, home_address: str, link: bytes, claim: Claim) -> None:
        self._interface = interface
        self._index = socket.if_nametoindex(interface)
        self._home = home_address
        self._link = link
        self._claim = claim
        self._netlink = RoutingNetlink()
        self._switches = Sysctls()
        self._agent: str | None = None
        self._was_away = False
        self._added_address = False

    def start(self) -> None:
        """Keep the node's home address on its interface, wherever the node is."""
        for place in ("all", self._interface):
            self._switches.set_sysctl(f"{_CONF}/{place}/rp_filter", 0)
        with contextlib.suppress(FileExistsError):
            self._netlink.add_address(self._home, self._index)
            self._added_address = True
        self._netlink.flush_rules(OWN)
        self._netlink.add_rule(OWN, OWN)

    def stop(self) -> None:
        """Remove all routes and rules of the mobile node."""
        self._forget_agent(self._agent)
        self._netlink.flush_rules(OWN)
        if self._added_address:
            with _ignore_missing():
                self._netlink.delete_address(self._home, self._index)
        self._switches.restore()
        self._netlink.close()

    def use_agent(self, effect: UseAgent) -> None:
        """Route all packets through an agent on the link, which no subnet of the node contains."""
        if self._agent not in {None, effect.address}:
            self._forget_agent(self._agent)
        self._agent = effect.address
        # ARP must not be used at all away from home (RFC 5944 section 4.6).
        state = REACHABLE if effect.at_home else PERMANENT
        self._netlink.set_neighbour(effect.address, effect.link, self._index, state)
        self._netlink.set_route(OWN, self._index, effect.address, source=self._home)
        self._netlink.set_route(OWN, self._index, via=effect.address, source=self._home)
        if effect.at_home and self._was_away:
            self._claim(self._home, self._link)
        self._was_away = not effect.at_home

    def _forget_agent(self, agent: str | None) -> None:
        if agent is None:
            return
        for address in (None, agent):
            with _ignore_missing():
                self._netlink.delete_route(OWN, self._index, address)
        with _ignore_missing():
            self._netlink.delete_neighbour(agent, self._index)
