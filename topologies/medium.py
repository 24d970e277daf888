"""Emulate half-duplex Wi-Fi channels, each shared by the access points and stations on it.

mac80211_hwsim alone takes no airtime. So every frame that passes an access point's radio is
redirected through one device for each channel (`air1` for channel 1), with a queue for every
transmitter. `Channel` sets this up for the access points of an emulated network. In the guest
(virtual machine) the queues contend by 802.11's DCF (`topologies.queueing_disciplines`). Elsewhere
they take turns (`Channel._queue_commands`).

Management frames pass no interface, so they are not redirected. See docs/medium.md.
"""

from __future__ import annotations

import itertools
import subprocess
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from topologies import model, queueing_disciplines
from topologies.interfaces import enter_namespace
from topologies.medium_model import distance_m
from topologies.netlink import encode_request
from topologies.queueing_disciplines import set_size_table

if TYPE_CHECKING:  # Mininet exists on machines only
    from mininet.node import Node

#: Airtime in microseconds of one byte on the device; it divides the units of the standards.
UNIT_US = 0.25
_RATE = f"{round(8e6 / UNIT_US)}bit"
# The device sees Ethernet's header, which 802.11 does not carry, but not LLC, which it does.
_ETHERNET_BYTES = 14
_LLC_BYTES = 8
_LONGEST_BYTES = 2304 + _ETHERNET_BYTES
# Airtime in microseconds that the channel may catch up after the machine was late. Only several
# transmitters together can exceed it, and only when they start.
_SLACK_US = 20_000
_HANDLE = 1 << 16
# The shaper above all queues is class 1.
_OTHERS = 2
_FIRST_CLASS = 3
#: Highest channel number of the 2.4 GHz band.
_LAST_LOWER = 14


def frequency_mhz(channel: int, *, is_in_6_ghz: bool = False) -> int:
    """Return the centre frequency in MHz of a channel.

    Without `is_in_6_ghz`, it is one of the 2.4 or the 5 GHz band.
    """
    if is_in_6_ghz:
        return 5950 + 5 * channel
    if channel > _LAST_LOWER:
        return 5000 + 5 * channel
    return 2484 if channel == _LAST_LOWER else 2407 + 5 * channel


def tuned_frequency_mhz(medium: model.Medium | None, channel: int,
                        channels: Collection[int]) -> int:
    """Return the frequency in MHz to which a medium tunes a channel of the network.

    Args:
        medium: The medium, None for none.
        channel: The access point's channel in the network.
        channels: The channels of all access points in the network.
    """
    if medium is None:
        return frequency_mhz(channel)
    phy = medium.phy
    return frequency_mhz(medium.tuned_channel(channel, channels),
                         is_in_6_ghz=phy is not None and phy.is_in_6_ghz)


def frame_airtimes(medium: model.Medium, cipher_bytes: int) -> list[int]:
    """Return the airtime of Ethernet frames in units of UNIT_US, indexed by length in bytes.

    Airtimes include retransmissions after losses. Ciphers work below the emulating device, which
    therefore does not see the bytes that they add.
    """
    return [round(medium.delivery_us(max(0, length - _ETHERNET_BYTES) + _LLC_BYTES + cipher_bytes)
                  / UNIT_US) for length in range(_LONGEST_BYTES + 1)]


@dataclass(frozen=True)
class Transmitters:
    """The number of each transmitter on the air: stations by MAC address, APs by interface."""

    stations: Mapping[str, int]
    access_points: Mapping[str, int]
    #: By class number: MAC addresses, positions, and channels of access points.
    addresses: Mapping[int, str] = field(default_factory=dict)
    positions: Mapping[int, Sequence[float]] = field(default_factory=dict)
    channels: Mapping[int, int] = field(default_factory=dict)

    @classmethod
    def from_network(cls, network: model.Network) -> Transmitters:
        """Return all transmitters (radios) of a network. A station may use any access point."""
        # Access points first: their numbers have to fit the kernel's 64 bits.
        radios = [network.nodes[name] for duty in ("access_point", "station")
                  for name in network.of_duty(duty)]
        by_class = dict(enumerate(radios, _FIRST_CLASS))
        classes = {node.interfaces[node.radio_interface].radio or "": number
                   for number, node in by_class.items()}
        access_points = {number: node for number, node in by_class.items()
                         if node.has_duty("access_point")}
        return cls(
            {mac: number for mac, number in classes.items() if number not in access_points},
            {node.radio_interface: number for number, node in access_points.items()},
            {number: mac for mac, number in classes.items()},
            {number: node.position for number, node in by_class.items() if node.position},
            {number: node.channel or 0 for number, node in access_points.items()})

    @classmethod
    def from_radios(cls, addresses: Sequence[str], channels: Sequence[int],
                    positions: Sequence[Sequence[float]] = ()) -> Transmitters:
        """Return the transmitters of radios whose interfaces are wlan0, wlan1 and so on.

        Args:
            addresses: MAC addresses of all radios.
            channels: Channels of the first radios, which are access points. The others are
                stations.
            positions: Positions of the radios in m, if distances matter.
        """
        numbers = [_FIRST_CLASS + number for number in range(len(addresses))]
        split = len(channels)
        return cls(dict(zip(addresses[split:], numbers[split:], strict=True)),
                   {f"wlan{radio}": number for radio, number in enumerate(numbers[:split])},
                   dict(zip(numbers, addresses, strict=True)),
                   dict(zip(numbers, positions, strict=False)),
                   dict(zip(numbers, channels, strict=False)))

    def access_points_on(self, channel: int) -> tuple[int, ...]:
        """Return the numbers of the access points on a channel."""
        return tuple(number for number, its in self.channels.items() if its == channel)

    def radio_links(self, medium: model.Medium, channel: int) -> tuple[tuple[int, int], ...]:
        """Return every pair of a station and an access point on a channel, if distance matters."""
        return tuple((station, access_point) for station in self.stations.values()
                     for access_point in self.access_points_on(channel)) if medium.signal else ()

    def received_dbm(self, medium: model.Medium,
                     channel: int) -> Mapping[tuple[int, int], float]:
        """Return the received power in dBm for each sender and listener on a channel.

        Raises:
            RuntimeError: A radio has no position.
        """
        signal = medium.signal
        if signal is None:
            return {}
        there = [*self.access_points_on(channel), *self.stations.values()]
        if missing := [self.addresses[number] for number in there if number not in self.positions]:
            raise RuntimeError(f"medium {medium.name}: {missing[0]} has no position; give its node "
                               "one in the network, or take a medium without signal")
        return {(one, other): signal.received_dbm(
            distance_m(self.positions[one], self.positions[other]), frequency_mhz(channel) * 1e6)
            for one, other in itertools.permutations(there, 2)}

    def moved_to(self, positions: Mapping[str, Sequence[float]]) -> Transmitters:
        """Return the transmitters with other positions (m) of some radios, by MAC address."""
        return replace(self, positions={
            **self.positions, **{number: positions[mac] for number, mac in self.addresses.items()
                                 if mac in positions}})

    @property
    def last(self) -> int:
        """Return the highest transmitter number."""
        return max((_OTHERS, *self.stations.values(), *self.access_points.values()))


def names_receivers(medium: model.Medium) -> bool:
    """Return whether each frame in the emulated air must be marked with its receiver.

    The mark is the receiver's number (`Transmitters`). The air needs it if the rate or the loss of
    a frame depends on the receiver, and for aggregation.
    """
    return medium.signal is not None or medium.aggregate > 1


def make_dcf_channel(medium: model.Medium, transmitters: Transmitters, channel: int,
                     cipher_bytes: int, seed: int,
                     more_group_bytes: int = 0) -> queueing_disciplines.DcfChannel:
    """Return the settings of a channel on which these transmitters contend.

    `more_group_bytes` is what the cipher of frames to all adds beyond `cipher_bytes`.

    Raises:
        RuntimeError: A radio has no position.
    """
    return queueing_disciplines.DcfChannel(
        medium, transmitters.last, transmitters.access_points_on(channel), cipher_bytes,
        seed, frequency_mhz(channel),
        received_dbm=transmitters.received_dbm(medium, channel),
        links=transmitters.radio_links(medium, channel), more_group_bytes=more_group_bytes,
        addresses=transmitters.addresses if medium.management else {})


def filter_commands(interface: str, device: str, transmitters: Transmitters, *,
                    names_receivers: bool, vlan_interface: str = "") -> list[str]:
    """Return `tc` commands that redirect all frames of an access point through a channel.

    Args:
        interface: The access point's radio.
        vlan_interface: The interface of a VLAN's stations on this radio, whose frames are
            redirected in place of the radio's own; "" for none.
        device: The channel's device.
        transmitters: All transmitters.
        names_receivers: Whether each frame is marked with the number of its receiver.
    """

    def redirect_action(number: int, receiver: int = 0) -> str:
        marked = f" mark {receiver}" if receiver and names_receivers else ""
        return (f"action skbedit priority 1:{number:x}{marked} pipe "
                f"action mirred egress redirect dev {device}")

    number = transmitters.access_points[interface]
    interface = vlan_interface or interface
    up = f"filter add dev {interface} ingress protocol all"
    down = f"filter add dev {interface} egress protocol all"
    to_stations = transmitters.stations.items() if names_receivers else ()
    return [
        f"qdisc add dev {interface} clsact",
        *(f"{down} prio 1 flower dst_mac {mac} {redirect_action(number, station)}"
          for mac, station in to_stations),
        (f"{down}{' prio 2' if names_receivers else ''} matchall "
         f"{redirect_action(number)}"),
        # The kernel's own message to switches about a new station was never on the air.
        f"filter add dev {interface} ingress protocol 802_2 prio 1 matchall classid :1",
        *(f"{up} prio 2 flower src_mac {mac} {redirect_action(station, number)}"
          for mac, station in transmitters.stations.items()),
        f"{up} prio 3 matchall {redirect_action(_OTHERS)}"]


def describe_channel(medium: model.Medium, transmitters: Transmitters, channel: int,
                     cipher_bytes: int) -> tuple[str, str, bytes, str]:
    """Return the commands that set up an emulated Wi-Fi channel in a machine without Python.

    The first process of `./qop radio`'s machine executes them, which is a C program.

    Returns:
        The name of the device that emulates the channel, the shell command that creates the device,
        the netlink request that configures the channel on it, and the shell command that redirects
        the access points' frames through it. The machine inserts the device's index into the
        request.

    Raises:
        RuntimeError: A radio has no position.
    """
    device = f"air{channel}"
    request = queueing_disciplines.build_dcf_request(
        0, _HANDLE, make_dcf_channel(medium, transmitters, channel, cipher_bytes, channel))
    on_channel = set(transmitters.access_points_on(channel))
    lines = [line for interface, number in transmitters.access_points.items()
             if number in on_channel for line in filter_commands(
                 interface, device, transmitters, names_receivers=names_receivers(medium))]
    return (device, f"ip link add {device} type ifb && ip link set {device} up",
            encode_request(*request), "\n".join(["tc -batch - <<end", *lines, "end"]))


class Channel:
    """An emulated Wi-Fi channel, as a device in the access points' network namespace.

    `host` is a node in this namespace.
    """

    def __init__(self, host: Node, channel: int, medium: model.Medium, cipher_bytes: int,
                 transmitters: Transmitters, seed: int = 0, more_group_bytes: int = 0) -> None:
        self.device = f"air{channel}"
        self._host = host
        self._number = channel
        self._dcf: queueing_disciplines.DcfChannel | None = None
        self._transmitters = transmitters
        self._queue_frames = medium.queue_frames
        try:
            with enter_namespace(host.pid) as interfaces:
                interfaces.add_detour(self.device)
        except OSError as error:
            raise RuntimeError(f"medium: {error.strerror}") from None
        self._names_receivers = names_receivers(medium)
        if medium.air == model.DCF:
            self._dcf = replace(make_dcf_channel(medium, transmitters, channel, cipher_bytes,
                                                 self._channel_seed(seed), more_group_bytes),
                                frequency_mhz=self._frequency_mhz(medium))
            queueing_disciplines.make_channel(host.pid, self.device, _HANDLE, self._dcf)
            return
        sizes = frame_airtimes(medium, cipher_bytes)
        self._run_command(["tc", "-batch", "-"],
                          self._queue_commands(max(sizes), medium.residual_loss))
        set_size_table(host.pid, self.device, "htb", _HANDLE, sizes)

    def _frequency_mhz(self, medium: model.Medium) -> int:
        return tuned_frequency_mhz(medium, self._number, self._transmitters.channels.values())

    def reseed_backoffs(self, seed: int) -> None:
        """Restart the random backoffs of the channel from a seed.

        Stations that take turns have no backoffs.
        """
        if self._dcf is not None:
            queueing_disciplines.reseed_backoffs(self._host.pid, self.device, _HANDLE,
                                                 replace(self._dcf, seed=self._channel_seed(seed)))

    def plan_move(self, positions: Mapping[str, Sequence[float]]) -> Callable[[], None]:
        """Prepare new positions of radios, and return a function that applies them.

        The function only sends a request, so it takes little time during a measurement.

        Args:
            positions: New positions in m, by MAC address.
        """
        assert self._dcf is not None
        moved = self._transmitters.moved_to(positions)
        channel = replace(self._dcf, received_dbm=moved.received_dbm(self._dcf.medium,
                                                                     self._number))
        request = queueing_disciplines.encode_move(channel)
        return partial(queueing_disciplines.move_radios, self._host.pid, self.device, _HANDLE,
                       request)

    def read_counters(self, mac: str) -> queueing_disciplines.TransmissionCounters:
        """Return the kernel's counters of a station on a channel with contention."""
        return queueing_disciplines.read_counters(self._host.pid, self.device)[
            self._transmitters.stations[mac]]

    def disable_aggregation(self) -> None:
        """Replace a channel with contention by one on which every frame is sent alone.

        Only a negative control does this. Frames that wait are dropped.
        """
        assert self._dcf is not None
        self._dcf = replace(self._dcf, medium=self._dcf.medium.without_aggregation)
        self._run_command(["tc", "-batch", "-"], [f"qdisc del dev {self.device} root"])
        queueing_disciplines.make_channel(self._host.pid, self.device, _HANDLE, self._dcf)

    def _channel_seed(self, seed: int) -> int:
        """Return a seed for this channel, as channels of one run need different random numbers."""
        return (seed << 8) + self._number

    def attach_radios(self, radios: Sequence[str], vlan_interface: str = "") -> None:
        """Redirect all frames that pass these access points' radios through the channel.

        With `vlan_interface`, the frames of a VLAN's stations on one radio are redirected.
        """
        self._run_command(["tc", "-batch", "-"], [line for interface in radios
                                                  for line in filter_commands(
                                                      interface, self.device, self._transmitters,
                                                      names_receivers=self._names_receivers,
                                                      vlan_interface=vlan_interface)])

    def _queue_commands(self, longest: int, loss: float) -> list[str]:
        """Return `tc` commands for a channel on which transmitters take turns.

        The kernel's general queueing disciplines serve time here instead of bytes: a size table
        turns a frame's length into its airtime.

        Transmitters with waiting frames get equal parts of the time. Netem holds a frame for its
        own airtime, counted from the end of the previous one. The shaper alone would let it pass at
        once and delay the next. Netem also drops frames at the queue's entrance; the size table
        includes their airtime.
        """
        slack = round(_SLACK_US / UNIT_US)
        lost = f" loss {loss * 100:.6f}%" if loss else ""
        shared = f"ceil {_RATE} cburst {slack} quantum {longest}"
        add_class = f"class add dev {self.device} parent"
        add_queue = f"qdisc add dev {self.device} parent"
        everyone = self._transmitters
        lines = [f"qdisc add dev {self.device} root handle 1: htb default {_OTHERS}",
                 f"{add_class} 1: classid 1:1 htb rate {_RATE} burst {slack} {shared}"]
        for number in (_OTHERS, *everyone.stations.values(), *everyone.access_points.values()):
            # A class's own rate has priority over the others' turns, so it is close to zero.
            lines += [
                f"{add_class} 1:1 classid 1:{number:x} htb rate 8kbit burst 1 {shared}",
                f"{add_queue} 1:{number:x} netem limit {self._queue_frames} rate {_RATE}{lost}"]
        return lines

    def _run_command(self, argv: Sequence[str], lines: Sequence[str]) -> None:
        done = subprocess.run(["mnexec", "-a", str(self._host.pid), *argv], text=True, check=False,
                              input="\n".join(lines) + "\n", capture_output=True)
        if done.returncode:
            raise RuntimeError(f"medium: {self.device}: {' '.join(done.stderr.split())}")
