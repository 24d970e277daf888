"""Read the state of nodes' kernels, such as IPsec SAs, associated stations and link keys.

A node is a network namespace of the emulated network. Checks compare this state with the policy,
because no check relies on a daemon's statement. `read_` functions, such as `read_xfrm_states`,
query the kernel by netlink for a process's namespace, because starting `ip` or `iw` takes 10 ms in
a guest. Functions such as `xfrm_states` and `station_flags` take a started network and the name of
a node, and return dicts. Standard library only.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import re
import socket
import struct
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from topologies.namespaces import network_of
from topologies.netlink import (
    ACK,
    DUMP,
    GenericNetlink,
    NetlinkSocket,
    encode_attribute,
    parse_attributes,
)

if TYPE_CHECKING:
    from topologies.builder import Testbed


# --- IPsec SAs, as shown by `ip xfrm state` ---
# Structures and numbers: linux/xfrm.h.

_NETLINK_XFRM = 6
_GET_SA = 18
#: Offsets in struct xfrm_usersa_info: addresses, protocol, counters, family and mode.
_SA_BYTES = 224
_DESTINATION, _PROTOCOL, _SOURCE, _CURRENT, _SA_FAMILY = 56, 76, 80, 160, 212
_PROTOCOLS = {50: "esp", 51: "ah", 108: "comp"}
_MODES = ("transport", "tunnel", "ro", "in_trigger", "beet", "iptfs")
#: XFRMA_ALG_*, and the bytes before the key. The kernel reports an integrity algorithm twice; the
#: attribute with the truncated length comes first.
_ALGORITHMS = {"auth": ((20, 72), (1, 68)), "enc": ((2, 68),), "aead": ((18, 72),)}
_NAME_BYTES = 64
#: XFRMA_ENCAP with struct xfrm_encap_tmpl: type, and UDP ports in network byte order.
_ENCAPSULATION, _PORTS = 4, struct.Struct("!2xHH")


def read_xfrm_states(pid: int) -> list[dict[str, Any]]:
    """Return the IPsec SAs of the kernel in a process's network namespace.

    Returns:
        A dict for each SA: src, dst, proto, mode, enc, auth or aead, bytes, packets. `enc_bits` and
        so on are the key sizes. `encap_sport` and `encap_dport` are the ports of ESP in UDP.

    Raises:
        OSError: The query failed.
    """
    with network_of(pid):  # a socket stays in the namespace in which it was created
        netlink = NetlinkSocket(_NETLINK_XFRM)
    with netlink:
        return [parse_xfrm_state(body) for body in netlink.send_request(_GET_SA, DUMP, b"")]


def parse_xfrm_state(body: bytes) -> dict[str, Any]:
    """Parse an IPsec SA from the bytes of a netlink message after its header."""
    family, mode = struct.unpack_from("=HB", body, _SA_FAMILY)
    size_bytes, packets = struct.unpack_from("=QQ", body, _CURRENT)
    address_bytes = 4 if family == socket.AF_INET else 16
    source, destination = (socket.inet_ntop(family, body[place:place + address_bytes])
                           for place in (_SOURCE, _DESTINATION))
    protocol = body[_PROTOCOL]
    attributes = parse_attributes(body[_SA_BYTES:])
    ports = _PORTS.unpack_from(attributes[_ENCAPSULATION]) if _ENCAPSULATION in attributes else ()
    return {"src": source, "dst": destination, "proto": _PROTOCOLS.get(protocol, str(protocol)),
            "mode": _MODES[mode] if mode < len(_MODES) else str(mode),
            **_parse_algorithms(attributes), "bytes": size_bytes, "packets": packets,
            **dict(zip(("encap_sport", "encap_dport"), ports, strict=False))}


def _parse_algorithms(attributes_by_type: Mapping[int, bytes]) -> dict[str, Any]:
    algorithms: dict[str, Any] = {}
    for kind, forms in _ALGORITHMS.items():
        for number, _ in forms:
            if kind not in algorithms and number in attributes_by_type:
                value = attributes_by_type[number]
                algorithms[kind] = value[:_NAME_BYTES].partition(b"\0")[0].decode()
                (algorithms[f"{kind}_bits"],) = struct.unpack_from("=I", value, _NAME_BYTES)
    return algorithms


# --- Stations of an access point, as shown by `iw station dump`: flags and rates ---
# Numbers: linux/nl80211.h.

_NL80211_FAMILY = "nl80211"
_GET_STATION = 17
_INTERFACE, _ADDRESS, _INFORMATION, _FLAGS = 3, 6, 21, 17
#: struct nl80211_sta_flag_update: mask of known flags, and their values.
_UPDATE = struct.Struct("=II")
#: Rates of the last data frame to and from a station; the attributes of a rate, and its formats.
_RATES = {"to": 8, "from": 14}
_BITRATE, _WIDTHS_MHZ = 5, {3: 40, 8: 80, 10: 160}
_FORMATS = {2: "HT", 6: "VHT", 13: "HE", 19: "EHT"}
_UNIT_MBPS = 0.1
_BITS = {"authorized": 1, "authenticated": 5, "associated": 7, "MFP": 4}


def read_station_flags(pid: int, interface: str) -> dict[str, dict[str, str]]:
    """Return the flags of each station at an access point's interface, by MAC address.

    Args:
        pid: A process in the network namespace.
        interface: The access point's interface.

    Returns:
        "yes" or "no" for `authorized`, `authenticated`, `associated` and `MFP` (protected
        management frames), as far as known.

    Raises:
        OSError: The query failed.
    """
    return dict(map(parse_station_flags, _list_stations(pid, interface)))


def read_station_rates(pid: int, interface: str) -> dict[str, dict[str, str]]:
    """Return the rates of the last data frames to (`to`) and from (`from`) each station.

    Args:
        pid: A process in the network namespace.
        interface: The access point's interface.

    Raises:
        OSError: The query failed.
    """
    return dict(map(parse_station_rates, _list_stations(pid, interface)))


def _list_stations(pid: int, interface: str) -> list[dict[int, bytes]]:
    with network_of(pid):  # a socket stays in the namespace in which it was created
        index = socket.if_nametoindex(interface)
        netlink = GenericNetlink(_NL80211_FAMILY)
    with netlink:
        return netlink.list_entries(_GET_STATION,
                                    encode_attribute(_INTERFACE, struct.pack("=I", index)))


def parse_station_flags(station: dict[int, bytes]) -> tuple[str, dict[str, str]]:
    """Return MAC address and flags of one station, from its nl80211 attributes."""
    known, are_set = _UPDATE.unpack(parse_attributes(station[_INFORMATION]).get(_FLAGS, bytes(8)))
    return station[_ADDRESS].hex(":"), {
        name: "yes" if are_set & 1 << bit else "no"
        for name, bit in _BITS.items() if known & 1 << bit}


def parse_station_rates(station: dict[int, bytes]) -> tuple[str, dict[str, str]]:
    """Return MAC address and rates of one station, from its netlink attributes."""
    information = parse_attributes(station[_INFORMATION])
    return station[_ADDRESS].hex(":"), {
        way: _format_rate(parse_attributes(information[number]))
        for way, number in _RATES.items() if number in information}


def _format_rate(rate: Mapping[int, bytes]) -> str:
    """Return format, width and bit rate as one text."""
    mbps = int.from_bytes(rate.get(_BITRATE, b""), "little") * _UNIT_MBPS
    form = next((f"{name} MCS {rate[number][0]}" for number, name in reversed(_FORMATS.items())
                 if number in rate), "non-HT")
    width_mhz = next((width for number, width in _WIDTHS_MHZ.items() if number in rate), 20)
    return f"{form}, {width_mhz} MHz, {mbps:.1f} Mbit/s"


# --- Routes and neighbours, by rtnetlink ---
# Structures and numbers: linux/rtnetlink.h, linux/neighbour.h.

_DEL_NEIGHBOUR, _GET_NEIGHBOUR, _GET_ROUTE = 29, 30, 26
_ROUTE, _NEIGHBOUR = struct.Struct("=BBBBBBBBI"), struct.Struct("=BxxxiHBB")
_ROUTE_TO, _ROUTE_BY, _NEIGHBOUR_AT = 1, 4, 1
#: States of neighbours that were not learnt: set by hand, or without an address.
_NO_ARP, _PERMANENT = 0x40, 0x80


def output_device(pid: int, address: str) -> str:
    """Return the device to which a network namespace routes packets for an IPv4 address.

    Raises:
        OSError: The query failed, or there is no route.
    """
    with network_of(pid), NetlinkSocket(socket.NETLINK_ROUTE) as netlink:
        [answer] = netlink.send_request(_GET_ROUTE, ACK, _ROUTE.pack(
            socket.AF_INET, 32, 0, 0, 0, 0, 0, 0, 0) + encode_attribute(
                _ROUTE_TO, socket.inet_aton(address)))
        (index,) = struct.unpack("=I", parse_attributes(answer[_ROUTE.size:])[_ROUTE_BY])
        return socket.if_indextoname(index)


def delete_neighbours(pid: int, device: str) -> None:
    """Delete the learnt ARP entries of a device in a process's network namespace.

    Raises:
        OSError: The query or a deletion failed.
    """
    with network_of(pid):
        index = socket.if_nametoindex(device)
        netlink = NetlinkSocket(socket.NETLINK_ROUTE)
    with netlink:
        for known in netlink.send_request(_GET_NEIGHBOUR, DUMP, _NEIGHBOUR.pack(0, 0, 0, 0, 0)):
            family, at, state, _, _ = _NEIGHBOUR.unpack_from(known)
            if at != index or state & (_NO_ARP | _PERMANENT):
                continue
            address = parse_attributes(known[_NEIGHBOUR.size:])[_NEIGHBOUR_AT]
            with contextlib.suppress(FileNotFoundError):  # it expired meanwhile
                netlink.send_request(_DEL_NEIGHBOUR, ACK, _NEIGHBOUR.pack(family, index, 0, 0, 0)
                                     + encode_attribute(_NEIGHBOUR_AT, address))


# --- State of a testbed's nodes and of the machine ---

_TICK_S = 1 / os.sysconf("SC_CLK_TCK")
#: debugfs folder of mac80211, present in kernels built with it, as qop's guest.
_RADIOS = Path("/sys/kernel/debug/ieee80211")


def station_flags(testbed: Testbed, node: str, interface: str) -> dict[str, dict[str, str]]:
    """Return the flags of each station that an access point's kernel knows, by MAC address."""
    return _read_stations(read_station_flags, testbed, node, interface)


def station_rates(testbed: Testbed, node: str, interface: str) -> dict[str, dict[str, str]]:
    """Return the rates to and from each station in an access point's kernel, by MAC address."""
    return _read_stations(read_station_rates, testbed, node, interface)


def _read_stations(read: Callable[[int, str], dict[str, dict[str, str]]], testbed: Testbed,
                   node: str, interface: str) -> dict[str, dict[str, str]]:
    """Return the stations at a radio's interface, and at its interfaces for VLANs."""
    pid = testbed.node(node).pid
    return {name: values for port in dict.fromkeys((interface, *testbed.vlan_interfaces(interface)))
            for name, values in read(pid, port).items()}


def read_vlan_state(testbed: Testbed, node: str, radio: str, mac: str) -> dict[str, Any]:
    """Return where an access point's kernel has a station whose frames belong to a VLAN.

    Returns:
        interface: The interface that lists the station, "" for none.
        bridge: The bridge of this interface, "" for none.
        ports: The bridge's other ports, each with the VLAN of its tags (0 for none) and the
            interface below.
    """
    pid = testbed.node(node).pid
    listed = next((port for port in (*testbed.vlan_interfaces(radio), radio)
                   if mac in read_station_flags(pid, port)), "")
    links = json.loads(testbed.run_command(node, ["ip", "-d", "-j", "link", "show"]))
    bridge = next((link.get("master", "") for link in links if link["ifname"] == listed), "")
    return {"interface": listed, "bridge": bridge, "ports": {
        link["ifname"]: {"vlan": link.get("linkinfo", {}).get("info_data", {}).get("id", 0),
                         "below": link.get("link", "")}
        for link in links if bridge and link.get("master") == bridge
        and link["ifname"] != listed}}


def is_authorized(testbed: Testbed, node: str, interface: str, mac: str,
                  root: Path = _RADIOS) -> bool:
    """Return whether an access point's kernel has authorised a station to send data frames.

    Callers wait for the answer, so the fastest source comes first: a file of debugfs, if it exists.
    """
    for device in root.glob(f"*/netdev:{interface}"):
        try:
            return "AUTHORIZED" in (device / "stations" / mac / "flags").read_text().split()
        except FileNotFoundError:
            return False
    flags = station_flags(testbed, node, interface)
    return flags.get(mac, {}).get("authorized") == "yes"


def link_keys(mac: str, root: Path = _RADIOS) -> list[str]:
    """Return the pairwise keys that access points' kernels have for a station, in hex.

    The list is empty if the kernel does not show keys.
    """
    keys = []
    for folder in sorted(root.glob("*/keys/*")):
        station = folder / "station"
        if station.is_symlink() and station.readlink().name == mac:
            keys.append((folder / "key").read_text().strip())
    return keys


def read_queues(testbed: Testbed, node: str, port: str) -> list[dict[str, Any]]:
    """Return the options of each queueing discipline of a node's interface, as `tc -j` has them."""
    shown = json.loads(testbed.run_command(node, ["tc", "-j", "qdisc", "show", "dev", port]))
    return [each.get("options", {}) for each in shown]


def xfrm_states(testbed: Testbed, node: str) -> list[dict[str, Any]]:
    """Return a node's IPsec SAs from its kernel, with key sizes instead of keys."""
    return read_xfrm_states(testbed.node(node).pid)


def xfrm_keys(testbed: Testbed, node: str) -> list[dict[str, str]]:
    """Return the keys of a node's ESP SAs, in the form of `parse_xfrm_keys`."""
    return parse_xfrm_keys(testbed.run_command(node, ["ip", "xfrm", "state", "list"]))


def parse_xfrm_keys(text: str) -> list[dict[str, str]]:
    """Parse the output of `ip xfrm state` into a dict for each ESP SA.

    The dict has spi, mode, enc and enc_key, auth and auth_key, with keys in hex. `auth_bits` is the
    length of the truncated ICV. `ip` is 6 between IPv6 addresses.
    """
    keys: list[dict[str, str]] = []
    version: dict[str, str] = {}
    for words in map(str.split, text.splitlines()):
        if words[:1] == ["src"]:
            version = {"ip": "6"} if ":" in words[1] else {}
        elif words[:2] == ["proto", "esp"]:
            keys.append({name: words[words.index(name) + 1] for name in ("spi", "mode")} | version)
        elif keys and words[:1] in (["enc"], ["aead"]):
            # Null encryption has no key.
            keys[-1] |= {"enc": words[1], "enc_key": "".join(words[2:3]).removeprefix("0x")}
        elif keys and words[:1] == ["auth-trunc"]:
            keys[-1] |= {"auth": words[1], "auth_key": words[2].removeprefix("0x"),
                         "auth_bits": words[3]}
    return keys


def is_tunnelled(testbed: Testbed, agent: str, address: str) -> bool:
    """Return whether a home agent's kernel sends a mobile node's packets through a tunnel."""
    return output_device(testbed.node(agent).pid, address).startswith("mip")


def received_bytes(testbed: Testbed, node: str, port: int) -> dict[str, int]:
    """Return the bytes that a server's TCP connections have received, by client address:port."""
    return parse_sockets(testbed.run_command(node, ["ss", "-Htni", "state", "established",
                                                    f"sport = :{port}"]))


def parse_sockets(text: str) -> dict[str, int]:
    """Parse the output of `ss -Htni` into the bytes received from each peer's address:port."""
    received: dict[str, int] = {}
    peer = ""
    for line in text.splitlines():
        if line[:1].strip():
            # A dual-stack socket shows IPv4 addresses as IPv4-mapped IPv6 addresses.
            peer = line.split()[-1].replace("[::ffff:", "").replace("]", "")
            received[peer] = 0
        match = re.search(r"\bbytes_received:(\d+)", line)
        if match and peer:
            received[peer] = int(match[1])
    return received


def processor_seconds(stat: str | None = None) -> dict[str, float]:
    """Return the CPU time since boot by use, in s (first line of /proc/stat)."""
    line = (stat if stat is not None else Path("/proc/stat").read_text()).splitlines()[0]
    names = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
    return {name: int(ticks) / 100 for name, ticks in zip(names, line.split()[1:], strict=False)}


def processor_seconds_of(pid: int) -> tuple[float, float]:
    """Return the user and system CPU time of a process with its threads, in s."""
    # The process name, in brackets, may contain blanks and brackets; count fields after it.
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) * _TICK_S, int(fields[12]) * _TICK_S


def harness_work(net: Path = Path("/proc/net")) -> dict[str, int]:
    """Return the work of qop itself in a guest, which the processor clock charges to no node.

    By the processor clock, a node's time passes with the CPU time that its programs use. The dict
    has nanoseconds of work (`work_ns`), system calls (`entries`) and page faults (`faults`). It is
    empty under other clocks.
    """
    file = net / "processor"
    if not _exists(file):
        return {}
    counted = dict(line.split() for line in file.read_text().splitlines())
    return {"work_ns": sum(int(value) for name, value in counted.items()
                           if name.startswith("work_")),
            "entries": int(counted["entries"]), "faults": int(counted["faults"])}


@functools.cache  # looked up once, not while something is timed
def _exists(file: Path) -> bool:
    return file.exists()


def processor_clock() -> dict[str, str]:
    """Return the settings and counters of the guest kernel's processor clock.

    Keys are the kernel's: `counter`, `calibration_ns`, `work_total_ns`, ... The dict is empty under
    other clocks.
    """
    try:
        text = Path("/proc/processor_clock").read_text()
    except OSError:
        return {}
    return dict(line.split(None, 1) for line in text.splitlines() if " " in line.strip())


# --- Permanent neighbour entries ---
# No ARP exchange on a wire then disturbs a measurement.

def set_neighbours(testbed: Testbed) -> None:
    """Set permanent ARP entries at both ends of each wire, so that no ARP request is needed."""
    nodes = testbed.network.nodes
    for link in testbed.network.links:
        ends = [end.split("/") for end in link.ends]
        for (node, port), (other, its_port) in (ends, ends[::-1]):
            hardware = testbed.run_command(other, ["cat", f"/sys/class/net/{its_port}/address"])
            testbed.run_command(node,
                                ["ip", "neigh", "replace", nodes[other].interfaces[its_port].ip,
                                 "lladdr", hardware.strip(), "dev", port, "nud", "permanent"])
