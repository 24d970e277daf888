"""Trial of the emulated air: stations of a small network send UDP, and their goodput is measured.

The network is open, or protected by WPA2. Each trial has its own guest. Its loads are applied one
after another. Each load is several UDP streams.
"""

from __future__ import annotations

import json
import statistics
import tempfile
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from guest import boot, image, processes
from harness.engine import machine
from harness.engine.machine import link_worker_code
from harness.errors import UserError
from topologies.model import Interface, Link, Medium, Network, Node

#: Offered load as a multiple of the medium's UDP ceiling.
OVERLOAD = 1.1


@dataclass(frozen=True)
class UdpFlow:
    """A stream of UDP datagrams from one node to another."""

    client: str
    server: str
    payload_bytes: int
    rate_bps: float


@dataclass(frozen=True)
class MediumTrial:
    """A network on a medium, with loads to apply one after another. A load is several streams."""

    network: Network
    medium: Medium | None
    loads: list[list[UdpFlow]] = field(default_factory=list)
    seconds: float = 3.0
    #: Whether stations and access points authenticate each other (WPA2 with a passphrase).
    protected: bool = False
    #: Payload in bytes of the datagrams that all stations send after the loads; 0: none.
    crowd_bytes: int = 0
    #: Pause in seconds after each burst of half a queue from every station.
    crowd_pause_s: float = 0.02
    #: Seed of the backoffs.
    seed: int = 0


@dataclass(frozen=True)
class TrialResult:
    """The result of a trial: goodput of each stream in bit/s, and values before any load.

    `connected` counts the frames of every class of a channel when the stations were associated.
    `round_trip_s` is the shortest round trip of a packet of 84 bytes from a station to its agent.
    """

    goodput_bps: list[list[float]]
    connected: dict[str, dict[str, int]] | None
    round_trip_s: float
    #: Frames in a second of each class of channel 1, if there was a crowd.
    crowd_per_s: dict[str, float] = field(default_factory=dict)
    #: Processor seconds (user and system) of the guest during the crowd; 0 without a crowd.
    crowd_processor_s: float = 0.0


@dataclass(frozen=True)
class RatioLine:
    """A line of the benchmark's table: ratios of measured to expected values, with bounds."""

    name: str
    samples: list[float]
    least: float
    most: float

    @property
    def is_within_bounds(self) -> bool:
        """Return whether the median ratio is within its bounds."""
        return self.least <= statistics.median(self.samples) <= self.most

    def format_line(self) -> str:
        """Return median, range, bounds and verdict of the ratio as text."""
        low, high = min(self.samples), max(self.samples)
        return (f"{self.name:<58} {statistics.median(self.samples):7.4f} "
                f"({low:.4f} to {high:.4f}, n={len(self.samples)})  "
                f"{self.least:.2f} to {self.most:.2f}  "
                f"{'kept' if self.is_within_bounds else 'MISSED'}")


def make_cell(letter: str, number: int, stations: int,
              channel: int) -> tuple[dict[str, Node], Link]:
    """Create an access point's cell with stations `a1`, `a2`, ... that send to a home agent.

    Returns:
        The nodes by name, and the link between access point and home agent.
    """
    agent = f"ha-{letter}"
    nodes = {f"{letter}{i}": Node(
        ["station"], {"wlan0": Interface(f"10.{number}.0.1{i}/32",
                                         f"02:00:00:{i // 10:02x}:{letter}{i % 10}:00")},
        gateway=f"10.{number}.0.1", agent=agent) for i in range(1, stations + 1)}
    nodes[f"ap-{letter}"] = Node(["access_point"], {
        f"wlan-{letter}": Interface(radio=f"02:00:00:00:{letter}0:00", bridge=f"br-{letter}"),
        f"eth-{letter}": Interface(bridge=f"br-{letter}"),
        f"br-{letter}": Interface(f"10.{number}.0.2/24")},
        agent=agent, ssid=f"qop-{letter}", channel=channel)
    nodes[agent] = Node(["home_agent"], {"air0": Interface(f"10.{number}.0.1/24")}, forwarding=True)
    return nodes, Link([f"ap-{letter}/eth-{letter}", f"{agent}/air0"])


def make_network(*cells: tuple[dict[str, Node], Link]) -> Network:
    """Return a network of several access points with their stations, not connected.

    They may be on the same channel.
    """
    return Network("bench", {name: node for nodes, _ in cells for name, node in nodes.items()},
                   [link for _, link in cells])


def make_one_cell_network() -> Network:
    """Return a network of two stations, an access point and an agent."""
    return make_network(make_cell("a", 1, 2, channel=1))


def make_two_cell_network(second_channel: int) -> Network:
    """Return two access points with a station each. The first is on channel 1."""
    return make_network(make_cell("a", 1, 1, channel=1),
                        make_cell("b", 2, 1, channel=second_channel))


def make_overload(medium: Medium, client: str, server: str, payload_bytes: int = 1470,
                  factor: float = OVERLOAD) -> UdpFlow:
    """Return a UDP stream with more than the highest possible goodput of a medium.

    With a factor less than 1 it has less.
    """
    return UdpFlow(client, server, payload_bytes, factor * medium.udp_ceiling_bps(payload_bytes))


async def repeat_trial(trial: MediumTrial, runs: int, built: image.GuestImage, processor: int,
                       clock: boot.Clock = "real") -> list[TrialResult]:
    """Run a trial several times, each with another seed of the random backoffs.

    Raises:
        UserError: A trial has no result.
    """
    return [await run_trial(replace(trial, seed=seed), built, processor, clock) for seed
            in range(runs)]


async def run_trial(trial: MediumTrial, built: image.GuestImage, processor: int,
                    clock: boot.Clock = "real") -> TrialResult:
    """Run a trial of the emulated air in a guest, and return its measured values.

    Args:
        trial: The network, its medium and the loads.
        built: The image from which the guest boots.
        processor: Number of the processor on which the guest runs.
        clock: The rule by which time passes in the guest.

    Returns:
        Goodput of each stream, and the values that were measured before any load.

    Raises:
        UserError: The trial has no result.
    """
    with tempfile.TemporaryDirectory(prefix="qop-medium-") as work:
        job = Path(work, "job")
        job.mkdir()
        link_worker_code(job)
        (job / "trial.json").write_text(json.dumps(asdict(trial)))
        console = Path(work, "console.log")
        console.touch()
        command = [str(machine.TESTBED_PYTHON), "-m", "measure.load.medium_load", "/host"]
        async with await boot.boot_guest(built, job, cpu=processor, console_log=console,
                                         scratch=Path(work, "scratch"), command=command,
                                         clock=clock) as guest:
            lines: list[dict[str, Any]] = []
            used_s: dict[str, float] = {}
            async for line in guest.stdout:
                lines.append(json.loads(line))
                used_s |= dict.fromkeys(lines[-1], processes.read_used_cpu_s(guest.pid))
            end = await guest.wait()
        if not end.ok:
            last = [text for text in console.read_text(errors="replace").splitlines()
                    if "Error" in text]
            raise UserError(f"bench medium: {end.reason or ''} {last[-1] if last else ''}".strip(),
                            status=1)
    return TrialResult([entry["goodput_bps"] for entry in lines if "goodput_bps" in entry],
                       next(entry["connected"] for entry in lines if "connected" in entry),
                       next(entry["round_trip_s"] for entry in lines if "round_trip_s" in entry),
                       next((entry["crowd_per_s"] for entry in lines if "crowd_per_s" in entry),
                            {}),
                       max(0.0, used_s.get("crowd_per_s", 0.0) - used_s["round_trip_s"]))
