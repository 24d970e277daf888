"""The air is shared half-duplex channels: who passes an access point's radio goes by one.

Whatever passes an access point's radio, up or down, makes a detour by one device a channel, `air1`
for channel 1, where every transmitter has a queue of its own. In the guest, they contend for it as
802.11's DCF has it (`topologies.dcf`). Elsewhere the kernel's general queueing disciplines serve
time instead of bytes: a size table turns a frame's length into its airtime, a frame waits in its
queue for that, and above them all take turns. Management frames pass no interface and go by it.
See docs/medium.md.
"""

from __future__ import annotations

import itertools
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from topologies import dcf, model
from topologies.interfaces import inside
from topologies.signal import distance_m
from topologies.sizetable import set_size_table
from topologies.timing import QUEUE_FRAMES

if TYPE_CHECKING:  # Mininet is on machines only
    from mininet.node import Node

#: What one byte stands for on the air's device, in microseconds. A divisor of what standards count.
UNIT_US = 0.25
_RATE = f"{round(8e6 / UNIT_US)}bit"
# Ethernet's header, which the device sees, and LLC, which it does not: 802.11 carries the second.
_ETHERNET_BYTES = 14
_LLC_BYTES = 8
_LONGEST_BYTES = 2304 + _ETHERNET_BYTES
# Airtime that the channel may make up for after the machine was late. Only several transmitters
# together can overdraw it, and only when they start.
_SLACK_US = 20_000
_HANDLE = 1 << 16
# The shaper above all queues is class 1.
_OTHERS = 2
_FIRST_CLASS = 3


def frequency_mhz(channel: int) -> int:
    """The middle of a channel of the 2.4 GHz band."""
    return 2484 if channel == 14 else 2407 + 5 * channel


def airtimes(medium: model.Medium, cipher_bytes: int) -> list[int]:
    """Airtime of an Ethernet frame of n bytes at index n, in units; losses' share included.

    Ciphers work below the device, which therefore does not see what they add to a frame.
    """
    return [round(medium.delivery_us(max(0, length - _ETHERNET_BYTES) + _LLC_BYTES + cipher_bytes)
                  / UNIT_US) for length in range(_LONGEST_BYTES + 1)]


@dataclass(frozen=True)
class Transmitters:
    """Class numbers of those who send: stations by MAC address, access points by interface."""

    stations: Mapping[str, int]
    access_points: Mapping[str, int]
    #: By class number: MAC addresses, positions, and the access points' channels.
    addresses: Mapping[int, str] = field(default_factory=dict)
    positions: Mapping[int, Sequence[float]] = field(default_factory=dict)
    channels: Mapping[int, int] = field(default_factory=dict)

    @classmethod
    def of(cls, network: model.Network) -> Transmitters:
        """Every radio of a network: a station may come to any access point."""
        # Access points first: their numbers have to fit the kernel's 64 bits.
        radios = [network.nodes[name] for duty in ("access_point", "station")
                  for name in network.of_duty(duty)]
        by_class = dict(enumerate(radios, _FIRST_CLASS))
        classes = {node.interfaces[node.radio_interface].radio or "": number
                   for number, node in by_class.items()}
        access_points = {number: node for number, node in by_class.items()
                         if node.has("access_point")}
        return cls(
            {mac: number for mac, number in classes.items() if number not in access_points},
            {node.radio_interface: number for number, node in access_points.items()},
            {number: mac for mac, number in classes.items()},
            {number: node.position for number, node in by_class.items() if node.position},
            {number: node.channel or 0 for number, node in access_points.items()})

    def on(self, channel: int) -> tuple[int, ...]:
        """The access points of a channel."""
        return tuple(number for number, its in self.channels.items() if its == channel)

    def links(self, medium: model.Medium, channel: int) -> tuple[tuple[int, int], ...]:
        """Every station with every access point of a channel, where distance matters."""
        return tuple((station, access_point) for station in self.stations.values()
                     for access_point in self.on(channel)) if medium.signal else ()

    def received_dbm(self, medium: model.Medium,
                     channel: int) -> Mapping[tuple[int, int], float]:
        """What each gets of each on a channel; raises RuntimeError for who stands nowhere."""
        signal = medium.signal
        if signal is None:
            return {}
        there = [*self.on(channel), *self.stations.values()]
        if missing := [self.addresses[number] for number in there if number not in self.positions]:
            raise RuntimeError(f"medium {medium.name}: {missing[0]} has no position; give its node "
                               "one in the network, or take a medium without signal")
        return {(one, other): signal.received_dbm(
            distance_m(self.positions[one], self.positions[other]), frequency_mhz(channel) * 1e6)
            for one, other in itertools.permutations(there, 2)}

    @property
    def last(self) -> int:
        """The highest class number."""
        return max((_OTHERS, *self.stations.values(), *self.access_points.values()))


class Air:
    """One channel in the access points' network namespace, which `host` is a node of."""

    def __init__(self, host: Node, channel: int, medium: model.Medium, cipher_bytes: int,
                 transmitters: Transmitters, seed: int = 0) -> None:
        self.device = f"air{channel}"
        self._host = host
        self._number = channel
        self._dcf: dcf.DcfChannel | None = None
        self._transmitters = transmitters
        try:
            with inside(host.pid) as interfaces:
                interfaces.add_detour(self.device)
        except OSError as error:
            raise RuntimeError(f"medium: {error.strerror}") from None
        #: Whether frames say who receives them: rates, capture and aggregates ask.
        self._names_receivers = medium.signal is not None or medium.aggregate > 1
        if medium.air == model.DCF:
            self._dcf = dcf.DcfChannel(
                medium, transmitters.last, transmitters.on(channel),
                cipher_bytes, QUEUE_FRAMES, self._seeded(seed), frequency_mhz(channel),
                received_dbm=transmitters.received_dbm(medium, channel),
                links=transmitters.links(medium, channel),
                addresses=transmitters.addresses if medium.management else {})
            dcf.make(host.pid, self.device, _HANDLE, self._dcf)
            return
        sizes = airtimes(medium, cipher_bytes)
        self._run(["tc", "-batch", "-"], self._queues(max(sizes), medium.residual_loss))
        set_size_table(host.pid, self.device, "htb", _HANDLE, sizes)

    def draw_anew(self, seed: int) -> None:
        """Draw backoffs from this seed on; where stations take turns there are none."""
        if self._dcf is not None:
            dcf.draw_anew(self._host.pid, self.device, _HANDLE,
                          replace(self._dcf, seed=self._seeded(seed)))

    def _seeded(self, seed: int) -> int:
        """Channels of one run have random numbers of their own."""
        return (seed << 8) + self._number

    def attach(self, radios: Sequence[str]) -> None:
        """Send everything that passes access points' radios, both ways, by the channel."""
        self._run(["tc", "-batch", "-"], [line for interface in radios
                                          for line in self._filters(interface)])

    def _filters(self, interface: str) -> list[str]:
        up = f"filter add dev {interface} ingress protocol all"
        own = self._transmitters.access_points[interface]
        down = f"filter add dev {interface} egress protocol all"
        to_stations = self._transmitters.stations.items() if self._names_receivers else ()
        return [
            f"qdisc add dev {interface} clsact",
            *(f"{down} prio 1 flower dst_mac {mac} {self._detour(own, number)}"
              for mac, number in to_stations),
            f"{down}{' prio 2' if self._names_receivers else ''} matchall {self._detour(own)}",
            # The kernel's own word to switches that a station has come was never on the air.
            f"filter add dev {interface} ingress protocol 802_2 prio 1 matchall classid :1",
            *(f"{up} prio 2 flower src_mac {mac} {self._detour(number, own)}"
              for mac, number in self._transmitters.stations.items()),
            f"{up} prio 3 matchall {self._detour(_OTHERS)}"]

    def _queues(self, longest: int, loss: float) -> list[str]:
        """A shaper with one class a transmitter; who has frames waiting gets an equal share of it.

        Netem keeps a frame for its own airtime, counted from when the one before was done; the
        shaper alone would let it pass at once and make the next one pay. It also loses frames, at
        the queue's entrance; what they cost is in the size table.
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
            # What is within a class's own rate comes before the others' turns: it has next to none.
            lines += [
                f"{add_class} 1:1 classid 1:{number:x} htb rate 8kbit burst 1 {shared}",
                f"{add_queue} 1:{number:x} netem limit {QUEUE_FRAMES} rate {_RATE}{lost}"]
        return lines

    def _detour(self, number: int, receiver: int = 0) -> str:
        marked = f" mark {receiver}" if receiver and self._names_receivers else ""
        return (f"action skbedit priority 1:{number:x}{marked} pipe "
                f"action mirred egress redirect dev {self.device}")

    def _run(self, argv: Sequence[str], lines: Sequence[str]) -> None:
        done = subprocess.run(["mnexec", "-a", str(self._host.pid), *argv], text=True, check=False,
                              input="\n".join(lines) + "\n", capture_output=True)
        if done.returncode:
            raise RuntimeError(f"medium: {self.device}: {' '.join(done.stderr.split())}")
