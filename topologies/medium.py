"""The medium of half-duplex channels, which all frames of an access point's radio share.

Every frame that passes an access point's radio, up or down, is redirected through one device for
each channel (`air1` for channel 1). There every transmitter has a queue of its own. In the guest
the queues contend by 802.11's DCF (`topologies.dcf`). Elsewhere the kernel's general queueing
disciplines serve time instead of bytes. A size table turns a frame's length into its airtime. The
frame waits in its queue for that time, and the queues take turns. Management frames pass no
interface, so they are not redirected. See docs/medium.md.
"""

from __future__ import annotations

import itertools
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from topologies import dcf, model
from topologies.interfaces import enter_namespace
from topologies.signal import distance_m
from topologies.sizetable import set_size_table
from topologies.timing import QUEUE_FRAMES

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


def frequency_mhz(channel: int) -> int:
    """Return the centre frequency in MHz of a channel of the 2.4 GHz band."""
    return 2484 if channel == 14 else 2407 + 5 * channel


def frame_airtimes(medium: model.Medium, cipher_bytes: int) -> list[int]:
    """Return airtimes in units of UNIT_US of Ethernet frames, indexed by length in bytes.

    They include the share of losses. Ciphers work below the device, which therefore does not see
    the bytes that they add.
    """
    return [round(medium.delivery_us(max(0, length - _ETHERNET_BYTES) + _LLC_BYTES + cipher_bytes)
                  / UNIT_US) for length in range(_LONGEST_BYTES + 1)]


@dataclass(frozen=True)
class Transmitters:
    """Class numbers of transmitters: stations by MAC address, access points by interface."""

    stations: Mapping[str, int]
    access_points: Mapping[str, int]
    #: By class number: MAC addresses, positions, and channels of access points.
    addresses: Mapping[int, str] = field(default_factory=dict)
    positions: Mapping[int, Sequence[float]] = field(default_factory=dict)
    channels: Mapping[int, int] = field(default_factory=dict)

    @classmethod
    def from_network(cls, network: model.Network) -> Transmitters:
        """Return the transmitters of a network: every radio.

        A station may use any access point.
        """
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

    def access_points_on(self, channel: int) -> tuple[int, ...]:
        """Return the access points of a channel."""
        return tuple(number for number, its in self.channels.items() if its == channel)

    def radio_links(self, medium: model.Medium, channel: int) -> tuple[tuple[int, int], ...]:
        """Return every pair of a station and an access point of a channel, if distance matters."""
        return tuple((station, access_point) for station in self.stations.values()
                     for access_point in self.access_points_on(channel)) if medium.signal else ()

    def received_dbm(self, medium: model.Medium,
                     channel: int) -> Mapping[tuple[int, int], float]:
        """Return the received power in dBm by sender and listener on a channel.

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

    @property
    def last(self) -> int:
        """Return the highest class number."""
        return max((_OTHERS, *self.stations.values(), *self.access_points.values()))


class Air:
    """A channel in the access points' network namespace, of which `host` is a node."""

    def __init__(self, host: Node, channel: int, medium: model.Medium, cipher_bytes: int,
                 transmitters: Transmitters, seed: int = 0) -> None:
        self.device = f"air{channel}"
        self._host = host
        self._number = channel
        self._dcf: dcf.DcfChannel | None = None
        self._transmitters = transmitters
        try:
            with enter_namespace(host.pid) as interfaces:
                interfaces.add_detour(self.device)
        except OSError as error:
            raise RuntimeError(f"medium: {error.strerror}") from None
        #: Whether frames carry their receiver's number, which rates, capture and aggregation need.
        self._names_receivers = medium.signal is not None or medium.aggregate > 1
        if medium.air == model.DCF:
            self._dcf = dcf.DcfChannel(
                medium, transmitters.last, transmitters.access_points_on(channel),
                cipher_bytes, QUEUE_FRAMES, self._channel_seed(seed), frequency_mhz(channel),
                received_dbm=transmitters.received_dbm(medium, channel),
                links=transmitters.radio_links(medium, channel),
                addresses=transmitters.addresses if medium.management else {})
            dcf.make_channel(host.pid, self.device, _HANDLE, self._dcf)
            return
        sizes = frame_airtimes(medium, cipher_bytes)
        self._run_command(["tc", "-batch", "-"],
                          self._queue_commands(max(sizes), medium.residual_loss))
        set_size_table(host.pid, self.device, "htb", _HANDLE, sizes)

    def reseed_backoffs(self, seed: int) -> None:
        """Restart the backoffs from this seed. Stations that take turns have none."""
        if self._dcf is not None:
            dcf.reseed_backoffs(self._host.pid, self.device, _HANDLE,
                                replace(self._dcf, seed=self._channel_seed(seed)))

    def _channel_seed(self, seed: int) -> int:
        """Return a seed of this channel, as channels of one run need different random numbers."""
        return (seed << 8) + self._number

    def attach_radios(self, radios: Sequence[str]) -> None:
        """Redirect all frames that pass these access points' radios through the channel."""
        self._run_command(["tc", "-batch", "-"], [line for interface in radios
                                                  for line in self._filter_commands(interface)])

    def _filter_commands(self, interface: str) -> list[str]:
        up = f"filter add dev {interface} ingress protocol all"
        own = self._transmitters.access_points[interface]
        down = f"filter add dev {interface} egress protocol all"
        to_stations = self._transmitters.stations.items() if self._names_receivers else ()
        return [
            f"qdisc add dev {interface} clsact",
            *(f"{down} prio 1 flower dst_mac {mac} {self._redirect_action(own, number)}"
              for mac, number in to_stations),
            (f"{down}{' prio 2' if self._names_receivers else ''} matchall "
             f"{self._redirect_action(own)}"),
            # The kernel's own message to switches about a new station was never on the air.
            f"filter add dev {interface} ingress protocol 802_2 prio 1 matchall classid :1",
            *(f"{up} prio 2 flower src_mac {mac} {self._redirect_action(number, own)}"
              for mac, number in self._transmitters.stations.items()),
            f"{up} prio 3 matchall {self._redirect_action(_OTHERS)}"]

    def _queue_commands(self, longest: int, loss: float) -> list[str]:
        """Return commands for a shaper with one class for each transmitter.

        Transmitters with waiting frames get equal shares. Netem holds a frame for its own airtime,
        counted from the end of the previous one. The shaper alone would let it pass at once and
        delay the next. Netem also drops frames at the queue's entrance; the size table includes
        their airtime.
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
                f"{add_queue} 1:{number:x} netem limit {QUEUE_FRAMES} rate {_RATE}{lost}"]
        return lines

    def _redirect_action(self, number: int, receiver: int = 0) -> str:
        marked = f" mark {receiver}" if receiver and self._names_receivers else ""
        return (f"action skbedit priority 1:{number:x}{marked} pipe "
                f"action mirred egress redirect dev {self.device}")

    def _run_command(self, argv: Sequence[str], lines: Sequence[str]) -> None:
        done = subprocess.run(["mnexec", "-a", str(self._host.pid), *argv], text=True, check=False,
                              input="\n".join(lines) + "\n", capture_output=True)
        if done.returncode:
            raise RuntimeError(f"medium: {self.device}: {' '.join(done.stderr.split())}")
