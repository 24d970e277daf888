"""Read and change the state of an 802.11 card by netlink, such as its type, address and flags.

`read_card` returns the `CardState` of an interface, and `restore_card` restores that state.
`move_radio` moves a card's radio to another network namespace, and `return_radio` brings it back.
`read_link` returns rates, retries and signal of a connected station. Numbers: linux/nl80211.h,
linux/if_link.h. Standard library only.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import struct
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from measure.agent.errors import MeasureError
from measure.agent.kernel_state import parse_station_rates
from topologies.namespaces import call_in_networks
from topologies.netlink import (
    ACK,
    GenericNetlink,
    NetlinkSocket,
    encode_attribute,
    iterate_attributes,
    parse_attributes,
)

_NET = Path("/sys/class/net")
#: Radios of the network namespace of this process, by name.
_RADIOS = Path("/sys/class/ieee80211")
# Commands of nl80211.
_GET_WIPHY, _SET_WIPHY, _GET_INTERFACE, _SET_INTERFACE = 1, 2, 5, 6
_NEW_INTERFACE, _DEL_INTERFACE, _SET_NAMESPACE = 7, 8, 49
_GET_STATION, _REQUEST_RULES, _GET_RULES, _SET_POWER_SAVE, _GET_POWER_SAVE = 17, 27, 31, 61, 62
# Attributes of nl80211.
_WIPHY, _INDEX, _NAME, _TYPE, _ADDRESS, _STATION = 1, 3, 4, 5, 6, 21
_TYPES, _COUNTRY, _FREQUENCY, _CHANNEL_TYPE, _POWER_SAVE = 32, 33, 38, 39, 93
_DEVICE, _NAMESPACE = 153, 219
# Attributes of regulatory rules, and of a rule: flags, frequencies (kHz) and power (mBm).
_REGULATORY_RULES, _RULE_FLAGS, _RULE_START, _RULE_END, _RULE_WIDTH, _RULE_POWER = 34, 1, 2, 3, 4, 6
#: Flags of a rule, by their bit.
_FLAG_NAMES = {0: "no OFDM", 4: "radar detection", 7: "no transmission before one is heard"}
# Attributes of a station: signal (dBm), frames sent, retries and failures.
_SIGNAL, _SENT, _RETRIES, _FAILED = 7, 10, 11, 12
#: Types of interfaces.
STATION, ACCESS_POINT, MONITOR = 2, 3, 6
_TYPE_NAMES = {1: "IBSS", 2: "station", 3: "access point", 6: "monitor", 7: "mesh point"}
# rtnetlink: a changed link, its address and its link mode; the flag of an interface that is up.
_NEW_LINK, _LINK_ADDRESS, _LINK_NAME, _LINK_MODE, _UP = 16, 1, 3, 17, 1
_LINK = struct.Struct("=BxHiII")
# ethtool: request of the driver's name, and the structure's parts of 32 bytes.
_ETHTOOL, _GET_DRIVER, _DRIVER = 0x8946, 3, struct.Struct("=I32s32s32s32s32s12s5I")
#: Longest wait for another country's rules, in s.
_RULES_S, _RULES_POLL_S = 3.0, 0.05
_NMCLI_S = 15.0
#: Longest waits for a radio whose namespace ends, and for a name that another card gives up, in s.
_RETURN_S, _NAME_S = 10.0, 5.0
#: Number of NetworkManager's state "unmanaged".
_UNMANAGED = "10"
#: Longest name of an interface.
_NAME_LENGTH = 15


@dataclass(frozen=True)
class CardState:
    """The state of a card's interface, as far as measuring may change it.

    - `name`, `index`: the interface. The kernel may change both when the radio changes its network
      namespace
    - `phy`, `permanent_address`: number of the radio, and the address that its driver gave it
    - `device`: nl80211's number of the interface, which is the same in all network namespaces
    - `type`: type of the interface, such as `STATION`
    - `address`: MAC address
    - `is_up`, `link_mode`: flag and link mode of the interface
    - `power_save`: whether power save is on, None if the driver has none
    - `country`: country whose rules apply to the machine, "00" for the rules of all countries
    - `has_manager`: whether NetworkManager manages the interface
    """

    name: str
    index: int
    phy: int
    type: int
    address: str
    is_up: bool
    link_mode: int
    power_save: bool | None
    country: str
    has_manager: bool
    permanent_address: str = ""
    device: int = 0

    @property
    def type_name(self) -> str:
        """Return the type of the interface in words."""
        return _TYPE_NAMES.get(self.type, f"type {self.type}")


def list_cards() -> list[str]:
    """Return the interfaces of all 802.11 cards in this network namespace."""
    return sorted(path.name for path in _NET.iterdir() if (path / "phy80211").exists())


def read_card(name: str) -> CardState:
    """Return the state of a card.

    Raises:
        MeasureError: There is no such card.
    """
    folder = _NET / name
    cards = ", ".join(list_cards()) or "none"
    if not name or "/" in name or not folder.exists():
        raise MeasureError("testbed", f"{name}: there is no such interface; cards here: {cards}")
    if not (folder / "phy80211").exists():
        raise MeasureError("testbed", f"{name}: is no 802.11 card; cards here: {cards}")
    index = _read_number(folder / "ifindex")
    with GenericNetlink("nl80211") as netlink:
        interface = next(each for each in netlink.list_entries(_GET_INTERFACE)
                         if _INDEX in each and _to_number(each[_INDEX]) == index)
        power_save = None
        with contextlib.suppress(OSError):
            [answer] = netlink.request_answers(_GET_POWER_SAVE, _encode_index(index))
            power_save = bool(_to_number(answer[_POWER_SAVE]))
        country = _read_country(netlink)
    is_up = bool(int((folder / "flags").read_text(), 16) & _UP)
    return CardState(
        name, index, _to_number(interface[_WIPHY]), _to_number(interface[_TYPE]),
        (folder / "address").read_text().strip(), is_up, _read_number(folder / "link_mode"),
        power_save, country, _is_managed(name),
        (folder / "phy80211/macaddress").read_text().strip(), _to_number(interface[_DEVICE]))


@dataclass(frozen=True)
class Interface:
    """An interface of a radio: its index and name in the current network namespace."""

    index: int
    name: str


def list_interfaces(phy: int) -> dict[int, Interface]:
    """Return the interfaces of a radio in the current network namespace, by nl80211's number.

    Devices without an interface, such as those of Wi-Fi Direct, are left out.
    """
    with GenericNetlink("nl80211") as netlink:
        return {_to_number(each[_DEVICE]): Interface(_to_number(each[_INDEX]),
                                                     each[_NAME].rstrip(b"\0").decode())
                for each in netlink.list_entries(_GET_INTERFACE)
                if _to_number(each[_WIPHY]) == phy and _NAME in each}


def is_connected(name: str) -> bool:
    """Return whether a card has a link, by its carrier."""
    try:
        return (_NET / name / "carrier").read_text().strip() == "1"
    except OSError:  # the interface is down, or gone
        return False


def find_block(name: str) -> str:
    """Return how rfkill blocks a card: "soft", "hard", or "" for no block."""
    for folder in (_NET / name / "phy80211").glob("rfkill*"):
        for kind in ("hard", "soft"):
            if (folder / kind).read_text().strip() == "1":
                return kind
    return ""


def supports_type(phy: int, number: int) -> bool:
    """Return whether the driver of a radio supports a type of interfaces, such as `MONITOR`."""
    with GenericNetlink("nl80211") as netlink:
        for answer in netlink.request_answers(_GET_WIPHY, encode_attribute(
                _WIPHY, struct.pack("=I", phy))):
            if _TYPES in answer:
                return number in parse_attributes(answer[_TYPES])
    return False


def read_driver(name: str) -> dict[str, str]:
    """Return a card's driver, version, firmware and bus as in `ethtool -i`."""
    buffer = bytearray(_DRIVER.pack(_GET_DRIVER, *[b""] * 6, *[0] * 5))
    request = bytearray(name.encode().ljust(16, b"\0")) + bytearray(24)
    import ctypes

    data = (ctypes.c_char * len(buffer)).from_buffer(buffer)
    struct.pack_into("=Q", request, 16, ctypes.addressof(data))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        try:
            fcntl.ioctl(sock, _ETHTOOL, request)
        except OSError:
            return {}
    parts = _DRIVER.unpack(bytes(buffer))[1:5]
    return {key: text for key, value in zip(("driver", "version", "firmware", "bus"), parts,
                                            strict=True)
            if (text := value.partition(b"\0")[0].decode("utf-8", "replace"))}


def read_link(name: str) -> dict[str, Any]:
    """Return rates, signal (dBm) and the driver's counters of a station's link, {} without one."""
    with GenericNetlink("nl80211") as netlink:
        stations = netlink.list_entries(_GET_STATION,
                                        _encode_index(socket.if_nametoindex(name)))
    if not stations:
        return {}
    bssid, rates = parse_station_rates(stations[0])
    counters = parse_attributes(stations[0][_STATION])
    link: dict[str, Any] = {"bssid": bssid, "rates": rates}
    if _SIGNAL in counters:
        link["signal_dbm"] = int.from_bytes(counters[_SIGNAL][:1], "little", signed=True)
    return link | {key: _to_number(counters[number]) for key, number in (
        ("sent", _SENT), ("retries", _RETRIES), ("failed", _FAILED)) if number in counters}


def read_frequency_mhz(name: str) -> int:
    """Return the frequency of an interface's channel, 0 without a channel."""
    with GenericNetlink("nl80211") as netlink:
        [interface] = netlink.request_answers(_GET_INTERFACE, _encode_index(
            socket.if_nametoindex(name)))
    return _to_number(interface.get(_FREQUENCY, b""))


def read_country(phy: int | None = None) -> str:
    """Return the country whose rules apply to a radio, or to the machine.

    The rules of all countries are "00".
    """
    with GenericNetlink("nl80211") as netlink:
        return _read_country(netlink, phy)


def _read_country(netlink: GenericNetlink, phy: int | None = None) -> str:
    """Return the country of the machine, or of a radio with rules of its own."""
    country = "00"
    for rules in netlink.list_entries(_GET_RULES):
        own = _to_number(rules[_WIPHY]) if _WIPHY in rules else None
        if _COUNTRY in rules and own in (None, phy):
            country = rules[_COUNTRY].rstrip(b"\0").decode("ascii", "replace")
            if own is not None:
                break
    return country


def read_rules(phy: int | None = None) -> list[str]:
    """Return the regulatory rules that apply to a radio, or to the machine, as text.

    Two sets of rules may have the country "00": the kernel's own, and those of its database.
    """
    with GenericNetlink("nl80211") as netlink:
        answers = netlink.list_entries(_GET_RULES)
    of_radio = [each for each in answers if phy is not None and _WIPHY in each
                and _to_number(each[_WIPHY]) == phy]
    common = [each for each in answers if _WIPHY not in each]
    return [_format_rule(parse_attributes(rule)) for rules in (of_radio or common)[:1]
            for _, rule in iterate_attributes(rules.get(_REGULATORY_RULES, b""))]


def _format_rule(rule: Mapping[int, bytes]) -> str:
    """Return a rule as text, with frequencies, width and power."""
    start, end, width, power, flags = (_to_number(rule.get(number, b"")) for number in (
        _RULE_START, _RULE_END, _RULE_WIDTH, _RULE_POWER, _RULE_FLAGS))
    names = [name for bit, name in _FLAG_NAMES.items() if flags >> bit & 1]
    return ", ".join([f"{start / 1e3:g}-{end / 1e3:g} MHz", f"width {width / 1e3:g} MHz",
                      f"{power / 100:g} dBm", *names])


def _read_number(file: Path) -> int:
    return int(file.read_text())


def _to_number(value: bytes) -> int:
    return int.from_bytes(value, "little")


def _encode_index(index: int) -> bytes:
    return _encode_number(_INDEX, index)


def _encode_number(kind: int, number: int) -> bytes:
    return encode_attribute(kind, struct.pack("=I", number))


# --- Changes ---


def set_link(index: int, *, is_up: bool) -> None:
    """Set an interface up or down. Raises OSError, as all functions here, if the kernel refuses."""
    _change_link(index, _UP if is_up else 0, _UP)


def set_address(index: int, address: str) -> None:
    """Set the MAC address of an interface that is down."""
    _change_link(index, 0, 0, encode_attribute(
        _LINK_ADDRESS, bytes.fromhex(address.replace(":", ""))))


def set_link_mode(index: int, mode: int) -> None:
    """Set the link mode of an interface, by which the kernel or a program sets its state."""
    _change_link(index, 0, 0, encode_attribute(_LINK_MODE, bytes([mode])))


def rename_interface(index: int, name: str) -> None:
    """Rename an interface that is down."""
    _change_link(index, 0, 0, encode_attribute(_LINK_NAME, name.encode() + b"\0"))


def _change_link(index: int, flags: int, change: int, attributes: bytes = b"") -> None:
    with NetlinkSocket(socket.NETLINK_ROUTE) as links:
        links.send_request(_NEW_LINK, ACK, _LINK.pack(0, 0, index, flags, change) + attributes)


def set_type(index: int, number: int) -> None:
    """Set the type of an interface that is down."""
    _send_command(_SET_INTERFACE, _encode_index(index), _encode_number(_TYPE, number))


def add_monitor(phy: int, name: str) -> None:
    """Create an interface of type monitor at a radio, and set it up."""
    _send_command(_NEW_INTERFACE, _encode_number(_WIPHY, phy), encode_attribute(
        _NAME, name.encode() + b"\0"), _encode_number(_TYPE, MONITOR))
    try:
        set_link(socket.if_nametoindex(name), is_up=True)
    except OSError:
        remove_interface(name)
        raise


def tune_monitor(index: int, frequency_mhz: int) -> None:
    """Tune a radio that has no interface but a monitor to a channel of 20 MHz."""
    _send_command(_SET_WIPHY, _encode_index(index), _encode_number(_FREQUENCY, frequency_mhz),
                  _encode_number(_CHANNEL_TYPE, 0))


def remove_interface(name: str) -> None:
    """Remove an interface of a radio, if there is one of this name."""
    with contextlib.suppress(OSError):
        _send_command(_DEL_INTERFACE, _encode_index(socket.if_nametoindex(name)))


def set_power_save(index: int, *, is_on: bool) -> None:
    """Switch power save of an interface on or off."""
    _send_command(_SET_POWER_SAVE, _encode_index(index), _encode_number(_POWER_SAVE, is_on))


def request_country(country: str) -> None:
    """Request a country's rules for the machine, and wait until they apply."""
    _send_command(_REQUEST_RULES, encode_attribute(_COUNTRY, country.encode() + b"\0"))
    until = time.monotonic() + _RULES_S
    while read_country() != country and time.monotonic() < until:
        time.sleep(_RULES_POLL_S)


def _send_command(command: int, *attributes: bytes) -> None:
    with GenericNetlink("nl80211") as netlink:
        netlink.send_command(command, b"".join(attributes))


# --- Radios in other network namespaces ---


def find_radio(state: CardState) -> int | None:
    """Return the number of a card's radio in this process's namespace, None if it is elsewhere."""
    for folder in _RADIOS.iterdir():
        with contextlib.suppress(OSError):
            if (folder / "macaddress").read_text().strip() == state.permanent_address:
                return _read_number(folder / "index")
    return None


def move_radio(phy: int, namespace: int) -> None:
    """Move a radio with all of its interfaces to a network namespace, given by its descriptor."""
    _send_command(_SET_NAMESPACE, _encode_number(_WIPHY, phy),
                  _encode_number(_NAMESPACE, namespace))


def return_radio(state: CardState) -> int | None:
    """Bring a card's radio back from another network namespace, and return its number.

    A radio also comes back by itself to the system's first namespace, soon after the last program
    of its namespace has ended. The result is None if the radio is gone, as when it was unplugged.
    """
    until = time.monotonic() + _RETURN_S
    while (phy := find_radio(state)) is None and time.monotonic() < until:
        _fetch_radio(state.phy)
        time.sleep(_RULES_POLL_S)
    return phy


def _fetch_radio(phy: int) -> None:
    """Move a radio to this process's namespace from any other that has it."""
    home = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        call_in_networks(lambda: move_radio(phy, home))  # refused where the radio is not
    finally:
        os.close(home)


def restore_card(state: CardState, monitor: str = "", *, has_moved: bool = False) -> None:
    """Restore an earlier state of a card, and remove the monitor interface of its radio.

    Programs that use the card must have ended. For a card that is gone, nothing is done.

    Args:
        state: The earlier state.
        monitor: Name of the monitor interface, "" without one.
        has_moved: Whether the radio may be in another network namespace, and its interface may have
            another name. All other interfaces of the radio are removed then.

    Raises:
        MeasureError: The card is in another state afterwards.
    """
    problem = ""
    try:
        if has_moved:
            state = _restore_name(state)
        if monitor:
            remove_interface(monitor)
        if not (_NET / state.name).exists():
            return
        _restore_interface(state)
    except OSError as error:
        problem = error.strerror or str(error)
    if state.has_manager:
        set_managed(state.name, is_managed=True)
    differences = list(compare_states(state, read_card(state.name)))
    if differences:
        raise MeasureError("testbed", f"{state.name}: was not restored "
                           f"({', '.join(differences)}{f': {problem}' if problem else ''}); set it "
                           "by hand")


def release_name(state: CardState) -> None:
    """Give a card's interface a name of its own, if it has another name than before.

    Another card may need the present name back, as when two cards had each other's name.
    """
    phy = find_radio(state)
    present = list_interfaces(phy).get(state.device) if phy is not None else None
    if present is not None and present.name != state.name:
        set_link(present.index, is_up=False)
        own_name = f"qop{state.permanent_address.replace(':', '')}"
        rename_interface(present.index, own_name[:_NAME_LENGTH])


def _restore_name(state: CardState) -> CardState:
    """Bring a card's radio back, give the interface its name, and return the state to restore.

    The interface may have another index than before, if another interface took that one.
    """
    phy = return_radio(state)
    if phy is None:
        return state
    interfaces = list_interfaces(phy)
    for device, interface in interfaces.items():
        if device != state.device:
            remove_interface(interface.name)
    if state.device not in interfaces:
        return state
    release_name(state)
    index = interfaces[state.device].index
    if list_interfaces(phy)[state.device].name != state.name:
        until = time.monotonic() + _NAME_S
        while (_NET / state.name).exists() and time.monotonic() < until:
            time.sleep(_RULES_POLL_S)
        rename_interface(index, state.name)
    return replace(state, index=index, phy=phy)


def _restore_interface(state: CardState) -> None:
    present = read_card(state.name)
    differs = (present.type, present.address) != (state.type, state.address)
    if present.is_up and (differs or not state.is_up or is_connected(state.name)):
        set_link(state.index, is_up=False)  # ends a connection, too
    if present.type != state.type:
        set_type(state.index, state.type)
    if present.address != state.address:
        set_address(state.index, state.address)
    if present.link_mode != state.link_mode:
        set_link_mode(state.index, state.link_mode)
    if state.is_up:
        set_link(state.index, is_up=True)
    if state.power_save is not None and present.power_save != state.power_save:
        set_power_save(state.index, is_on=state.power_save)
    if present.country != state.country:
        request_country(state.country)


def compare_states(before: CardState, after: CardState) -> Iterator[str]:
    """Yield a description of each difference between two states of a card.

    A manager may set a card up or down as soon as it manages the card again.
    """
    for field, words in (("index", "interface"), ("phy", "radio"), ("type_name", "type"),
                         ("address", "address"), ("is_up", "up"), ("link_mode", "link mode"),
                         ("power_save", "power save"), ("country", "regulatory domain"),
                         ("has_manager", "managed by NetworkManager")):
        values = getattr(before, field), getattr(after, field)
        is_managers = before.has_manager and field in ("is_up", "link_mode", "power_save",
                                                       "address")
        if values[0] != values[1] and not is_managers:
            yield f"{words} {_format_value(values[1])}, not {_format_value(values[0])}"


def _format_value(value: object) -> str:
    return {True: "yes", False: "no"}.get(value, str(value)) if isinstance(
        value, bool) else str(value)


# --- NetworkManager ---


def _is_managed(name: str) -> bool:
    """Return whether NetworkManager runs and manages an interface."""
    answer = _run_nmcli("-g", "GENERAL.STATE", "device", "show", name)
    return answer is not None and bool(answer) and answer.split()[0] != _UNMANAGED


def set_managed(name: str, *, is_managed: bool) -> None:
    """Make NetworkManager start or stop managing an interface.

    Raises:
        MeasureError: NetworkManager refuses, or does not do so in time.
    """
    answer = _run_nmcli("device", "set", name, "managed", "yes" if is_managed else "no")
    until = time.monotonic() + _NMCLI_S
    while answer is not None and _is_managed(name) != is_managed:
        if time.monotonic() > until:
            answer = None
        time.sleep(_RULES_POLL_S)
    if answer is None:
        raise MeasureError("testbed", f"{name}: NetworkManager does not "
                           f"{'manage it again' if is_managed else 'leave it alone'}; give 'nmcli "
                           f"device set {name} managed {'yes' if is_managed else 'no'}'")


def _run_nmcli(*arguments: str) -> str | None:
    """Return the output of nmcli, None if it is missing, or if NetworkManager refuses."""
    environment: Mapping[str, str] = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C"}
    try:
        done = subprocess.run(["nmcli", *arguments], capture_output=True, text=True, check=False,
                              timeout=_NMCLI_S, env=environment)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
