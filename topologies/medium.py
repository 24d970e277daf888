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
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from topologies import dcf, model
from topologies.sizetable import set_size_table

if TYPE_CHECKING:  # Mininet is on machines only
    from mininet.node import Node

#: What one byte stands for on the air's device, in microseconds. A divisor of what standards count.
UNIT_US = 0.25
_RATE = f"{round(8e6 / UNIT_US)}bit"
# Ethernet's header, which the device sees, and LLC, which it does not: 802.11 carries the second.
_ETHERNET_BYTES = 14
_LLC_BYTES = 8
_LONGEST_BYTES = 2304 + _ETHERNET_BYTES
# A driver's transmit queue; ath5k's holds 50 frames. At 2 ms a frame that is 100 ms, more than any
# window needs on a path without delay, and no more than people endure.
_QUEUE_FRAMES = 50
# Airtime that the channel may make up for after the machine was late. Only several transmitters
# together can overdraw it, and only when they start.
_SLACK_US = 20_000
_HANDLE = 1 << 16
# The shaper above all queues is class 1.
_OTHERS = 2
_FIRST_CLASS = 3


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

    @classmethod
    def of(cls, network: model.Network) -> Transmitters:
        """Every radio of a network: a station may come to any access point."""
        radios = {duty: [network.nodes[name] for name in network.of_duty(duty)]
                  for duty in ("station", "access_point")}
        numbers = itertools.count(_FIRST_CLASS)
        access_points = {node.radio_interface: next(numbers) for node in radios["access_point"]}
        return cls({node.interfaces[node.radio_interface].radio or "": next(numbers)
                    for node in radios["station"]}, access_points)

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
        self._run(["ip", "-batch", "-"], [f"link add {self.device} type ifb",
                                          f"link set {self.device} up"])
        if medium.air == model.DCF:
            self._dcf = dcf.DcfChannel(
                medium, transmitters.last, tuple(transmitters.access_points.values()),
                cipher_bytes, _QUEUE_FRAMES, self._seeded(seed))
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

    def attach(self, interface: str) -> None:
        """Send everything that passes an access point's radio, both ways, by the channel."""
        up = f"filter add dev {interface} ingress protocol all"
        down = self._transmitters.access_points[interface]
        self._run(["tc", "-batch", "-"], [
            f"qdisc add dev {interface} clsact",
            f"filter add dev {interface} egress protocol all matchall {self._detour(down)}",
            # The kernel's own word to switches that a station has come was never on the air.
            f"filter add dev {interface} ingress protocol 802_2 prio 1 matchall classid :1",
            *(f"{up} prio 2 flower src_mac {mac} {self._detour(number)}"
              for mac, number in self._transmitters.stations.items()),
            f"{up} prio 3 matchall {self._detour(_OTHERS)}"])

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
                f"{add_queue} 1:{number:x} netem limit {_QUEUE_FRAMES} rate {_RATE}{lost}"]
        return lines

    def _detour(self, number: int) -> str:
        return (f"action skbedit priority 1:{number:x} pipe "
                f"action mirred egress redirect dev {self.device}")

    def _run(self, argv: Sequence[str], lines: Sequence[str]) -> None:
        done = subprocess.run(["mnexec", "-a", str(self._host.pid), *argv], text=True, check=False,
                              input="\n".join(lines) + "\n", capture_output=True)
        if done.returncode:
            raise RuntimeError(f"medium: {self.device}: {' '.join(done.stderr.split())}")
