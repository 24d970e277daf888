"""`qop bench medium`: the emulated air against what 802.11's timing says it carries.

Every trial is a small open network of its own in a guest of its own, loaded with UDP. The same code
runs outside of guests first, beside Bianchi's model and what ns-3 answered.
"""

from __future__ import annotations

import asyncio
import functools
import json
import resource
import statistics
import tempfile
from collections.abc import Callable, Coroutine
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import click

from guest import boot, image
from harness.engine import machine, setup
from harness.errors import UserError
from harness.selftest.contention import bianchi, side_by_side
from topologies.loader import load_medium
from topologies.model import Interface, Link, Medium, Network, Node

PROFILES = ("802.11b-long", "802.11b-short", "802.11g")
PAYLOADS_BYTES = (1470, 256)
#: What is offered, in ceilings: an overload.
OVERLOAD = 1.1
#: Processor of a frame is told of these, and for so long in virtual time.
PROCESSOR, PROCESSOR_S = ("802.11b-short", "802.11n-300"), 5.0
CROWDS = (("802.11b-short", 10), ("802.11b-short", 50))


@dataclass(frozen=True)
class Flow:
    """A stream of UDP datagrams from one node to another."""

    client: str
    server: str
    payload_bytes: int
    rate_bps: float


@dataclass(frozen=True)
class MediumTrial:
    """A network on a medium, and loads to put on it one after another; a load is several flows."""

    network: Network
    medium: Medium | None
    loads: list[list[Flow]] = field(default_factory=list)
    seconds: float = 3.0
    #: Whether stations and access points authenticate each other (WPA2 with a passphrase).
    protected: bool = False
    #: All stations send datagrams of so many bytes all the time, after the loads; 0: they do not.
    crowd_bytes: int = 0


@dataclass(frozen=True)
class Outcome:
    """Goodput of each flow of each load, and what was seen before there was any.

    `connected` counts the frames in every class of a channel when the stations were in;
    `round_trip_s` is the shortest of a packet of 84 bytes from a station to its agent.
    """

    goodput_bps: list[list[float]]
    connected: dict[str, dict[str, int]] | None
    round_trip_s: float
    #: Frames a second of each class of channel 1, where there was a crowd.
    crowd_per_s: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Ratio:
    """One line of the table: measured over expected, with the bounds it has to keep."""

    name: str
    samples: list[float]
    least: float
    most: float

    @property
    def kept(self) -> bool:
        """The median is within the bounds."""
        return self.least <= statistics.median(self.samples) <= self.most

    def line(self) -> str:
        """Median, range, bounds and verdict, as printed."""
        low, high = min(self.samples), max(self.samples)
        return (f"{self.name:<58} {statistics.median(self.samples):7.4f} "
                f"({low:.4f} to {high:.4f}, n={len(self.samples)})  "
                f"{self.least:.2f} to {self.most:.2f}  {'kept' if self.kept else 'MISSED'}")


def cell(letter: str, number: int, stations: int, channel: int) -> tuple[dict[str, Node], Link]:
    """An access point with stations `a1`, `a2`, ... and an agent that they send everything to."""
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


def network(*cells: tuple[dict[str, Node], Link]) -> Network:
    """A network of cells that have nothing in common, except perhaps a channel."""
    return Network("bench", {name: node for nodes, _ in cells for name, node in nodes.items()},
                   [link for _, link in cells])


def one_cell() -> Network:
    """Two stations, an access point, an agent."""
    return network(cell("a", 1, 2, channel=1))


def two_cells(second_channel: int) -> Network:
    """Two access points with a station each; the first is on channel 1."""
    return network(cell("a", 1, 1, channel=1), cell("b", 2, 1, channel=second_channel))


def overload(medium: Medium, client: str, server: str, payload_bytes: int = 1470,
             factor: float = OVERLOAD) -> Flow:
    """More than the medium carries; or less, with a factor below 1."""
    return Flow(client, server, payload_bytes, factor * medium.udp_ceiling_bps(payload_bytes))


async def run(trial: MediumTrial, built: image.Image, processor: int,
              clock: boot.Clock = "real") -> Outcome:
    """Do a trial in a guest. Raises UserError if it comes to nothing."""
    with tempfile.TemporaryDirectory(prefix="qop-medium-") as work:
        job = Path(work, "job")
        machine.copy_code(job / "code")
        (job / "trial.json").write_text(json.dumps(asdict(trial)))
        console = Path(work, "console.log")
        console.touch()
        command = [str(machine.TESTBED_PYTHON), "-m", "measure.air", "/host"]
        async with await boot.boot(built, job, cpu=processor, console_log=console,
                                   scratch=Path(work, "scratch"), command=command,
                                   clock=clock) as guest:
            said = [json.loads(line) async for line in guest.stdout]
            end = await guest.wait()
        if not end.ok:
            last = [line for line in console.read_text(errors="replace").splitlines()
                    if "Error" in line]
            raise UserError(f"bench medium: {end.reason or ''} {last[-1] if last else ''}".strip(),
                            status=1)
    return Outcome([entry["goodput_bps"] for entry in said if "goodput_bps" in entry],
                   next(entry["connected"] for entry in said if "connected" in entry),
                   next(entry["round_trip_s"] for entry in said if "round_trip_s" in entry),
                   next((entry["crowd_per_s"] for entry in said if "crowd_per_s" in entry), {}))


_Part = Callable[[int, image.Image, int], Coroutine[Any, Any, list[Ratio]]]


async def one_sender(name: str, runs: int, built: image.Image,
                     processor: int) -> list[Ratio]:
    """One sender against the ceiling, and by way of its agent to another station."""
    medium = load_medium(name)
    loads = [[overload(medium, "a1", server, payload)] for payload in PAYLOADS_BYTES
             for server in ("ha-a", "a2")]
    trial = MediumTrial(one_cell(), medium, loads)
    samples: list[list[float]] = [[] for _ in loads]
    for _ in range(runs):
        outcome = await run(trial, built, processor)
        for sample, [flow], [goodput_bps] in zip(samples, loads, outcome.goodput_bps, strict=True):
            senders = 1 if flow.server == "ha-a" else 2
            sample.append(senders * goodput_bps / saturated_bps(
                medium, flow.payload_bytes, senders))
    words = {"ha-a": "to its agent / ceiling", "a2": "to a station / model of two, halved"}
    return [Ratio(f"{name}, UDP {flow.payload_bytes} bytes, {words[flow.server]}", sample,
                  0.98, 1.02)
            for sample, [flow] in zip(samples, loads, strict=True)]


def saturated_bps(medium: Medium, payload_bytes: int, stations: int) -> float:
    """What stations that always send get together (bit/s): Bianchi's model."""
    return bianchi(medium, payload_bytes, stations).delivered_per_s * payload_bytes * 8


async def crowds(runs: int, built: image.Image, processor: int) -> list[Ratio]:
    """Many stations of one cell, which all send all the time, against Bianchi's model."""
    ratios = []
    for name, stations in CROWDS:
        medium = load_medium(name)
        trial = MediumTrial(network(cell("a", 1, stations, channel=1)), medium,
                            crowd_bytes=PAYLOADS_BYTES[0], seconds=5.0)
        model = bianchi(medium, PAYLOADS_BYTES[0], stations).delivered_per_s
        samples = [sum((await run(trial, built, processor, "virtual")).crowd_per_s.values()) / model
                   for _ in range(runs)]
        ratios.append(Ratio(f"{name}, {stations} stations / model", samples, 0.98, 1.02))
    return ratios


async def frames_work(runs: int, built: image.Image, core: int) -> list[Ratio]:
    """Processor of a frame (user and system) where stations contend, against an air of queues.

    Of all that a guest takes for a crowd, less what it takes without: with aggregates, more frames
    come through than queues let pass, and it is told by frame.
    """
    ratios = []
    for name in PROCESSOR:
        medium = load_medium(name)
        samples = []
        for _ in range(runs):
            contended, queued = [await _per_frame_s(air, built, core)
                                 for air in (medium, medium.in_turns)]
            samples.append(contended / queued)
        ratios.append(Ratio(f"{name}, processor of a frame / by queues", samples, 0.0, 1.1))
    return ratios


async def _per_frame_s(medium: Medium, built: image.Image, core: int) -> float:
    """Processor seconds of a frame that came through (s)."""
    one = network(cell("a", 1, 2, channel=1))
    taken_s, frames = [], 0.0
    for crowd_bytes in (0, PAYLOADS_BYTES[0]):
        before_s = _children_s()
        outcome = await run(MediumTrial(one, medium, crowd_bytes=crowd_bytes, seconds=PROCESSOR_S),
                            built, core, "virtual")
        taken_s.append(_children_s() - before_s)
        # A second goes by before frames are counted.
        frames = sum(outcome.crowd_per_s.values()) * (PROCESSOR_S + 1)
    return (taken_s[1] - taken_s[0]) / frames


def _children_s() -> float:
    """What ended processes of this one have taken of processors (s)."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


async def two_media(runs: int, built: image.Image, processor: int) -> list[Ratio]:
    """Two access points together against one alone: on two channels twice it, on one the same."""
    medium = load_medium("802.11b-short")
    flows = [overload(medium, f"{letter}1", f"ha-{letter}") for letter in "ab"]
    ratios = []
    two = saturated_bps(medium, PAYLOADS_BYTES[0], 2) / medium.udp_ceiling_bps(PAYLOADS_BYTES[0])
    for channel, shares in ((6, 2.0), (1, two)):
        trial = MediumTrial(two_cells(channel), medium, [flows[:1], flows])
        samples = []
        for _ in range(runs):
            [alone], together = (await run(trial, built, processor)).goodput_bps
            samples.append(sum(together) / alone / shares)
        ratios.append(Ratio(f"two access points, channels 1 and {channel} / "
                            f"{'twice one alone' if channel == 6 else 'model of two'}",
                            samples, 0.97, 1.03))
    return ratios


def bench(runs: int) -> None:
    """Print the table as it comes about; raises UserError if a bound is missed."""
    embedded = setup.embedded()
    built, processor = embedded.image, embedded.processors[-1]
    parts: list[_Part] = [*(functools.partial(one_sender, name) for name in PROFILES),
                          two_media, crowds, frames_work]
    ratios = []
    click.echo("\n".join(side_by_side()))
    for part in parts:
        new = asyncio.run(part(runs, built, processor))
        click.echo("\n".join(ratio.line() for ratio in new))
        ratios += new
    missed = sum(not ratio.kept for ratio in ratios)
    if missed:
        raise UserError(f"bench medium: {missed} of {len(ratios)} bounds missed; a busy machine "
                        "can be the reason, so try again", status=1)

