"""Wires are measured: presets keep what they state; a chain of hops needs no radio."""

from __future__ import annotations

import ipaddress
import itertools
import statistics
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from conftest import TESTS
from driven import Driven, job
from topologies import checks, link_checks, queueing_disciplines, shapes
from topologies.loader import TopologyError, load_scenario, load_wire, wire_names
from topologies.model import Interface, Link, Network, Node, Wire

PROBE = TESTS / "wired_probe.py"
# What a datagram's payload has around it on a wire: UDP, IP and Ethernet headers.
HEADERS_BYTES = 8 + 20 + 14
ASYMMETRIC = Wire("asymmetric", "a wire for tests", "made up", rate_bps=1e6, rate_back_bps=8e6)
BURSTS = Wire("bursts", "a wire for tests", "made up", loss_percent=10, loss_burst_packets=4)
LOSSY = Wire("lossy", "a wire for tests", "made up", delay_ms=5, loss_percent=10)
SHALLOW = Wire("shallow", "a wire for tests", "made up", rate_bps=100_000, queue_packets=20,
               delay_ms=400)


def pairs(of: list[Wire]) -> Network:
    """A client and a server for each wire, called c-NAME and s-NAME by its place in the list."""
    nodes, links = {}, []
    for number, wire in enumerate(of, 1):
        client, server = f"c{number}", f"s{number}"
        for place, name in ((1, client), (2, server)):
            nodes[name] = Node([name[0]], {"eth0": Interface(address=f"10.{number}.0.{place}/24")})
        links.append(shapes.make_link(f"{client}/eth0", f"{server}/eth0", wire))
    return Network("pairs", nodes, links)


def frame_s(wire: Wire, payload_bytes: int) -> float:
    """How long a datagram keeps a wire."""
    assert wire.rate_bps is not None
    return (payload_bytes + HEADERS_BYTES + wire.overhead_bytes) * 8 / wire.rate_bps


# Without a machine ------------------------------------------------------------------------------


def test_a_plain_wire_gets_no_queue() -> None:
    """Links that say nothing stay as quick as the processor."""
    assert queueing_disciplines.wire_commands(Link(["a/b", "c/d"]), "b") == []


@pytest.mark.parametrize(("scenario", "protected"), [
    ("N2", [["ap-a/eth-a", "ha-a/air0"]]),
    ("E1", [["ap-a/eth-a", "ha-a/air0"], ["ap-a/lan-a", "ap-c/eth-c"]]),
    ("R1", [["ap-a/eth-a", "ha-a/air0"], ["ap-b/eth-b", "ha-b/air0"]])])
def test_macsec_is_between_access_points_and_agents(scenario: str,
                                                    protected: list[list[str]]) -> None:
    """No wire between agents, routers and correspondents is."""
    assert [link.ends for link in load_scenario(scenario).network.protectable] == protected


def test_macsec_takes_the_name_and_the_room_of_its_wire() -> None:
    """What is above has the wire's name and its MTU; below it, frames are 32 bytes longer."""
    steps = "; ".join(queueing_disciplines.macsec_commands("eth-a", 1500, encrypts=True))
    assert "dev eth-a-sec mtu 1532" in steps
    assert "link eth-a-sec name eth-a type macsec" in steps
    assert "encrypt on validate strict" in steps
    assert "dev eth-a gso_max_segs 1 mtu 1500" in steps
    assert "encrypt off validate strict" in "; ".join(
        queueing_disciplines.macsec_commands("eth-a", 1500, encrypts=False))
    assert len(queueing_disciplines.physical_name("a" * 15)) == 15


def test_hosts_behind_an_agent_are_in_what_it_serves() -> None:
    """Each has a wire and a subnet of its own within it, and names that are taken are refused."""
    network = load_scenario("R1").network
    made = shapes.add_hosts_behind(network, "ha-a", {"local": ["kdc"], "app": ["server"]})
    served = ipaddress.ip_network("10.1.0.0/16")
    for host in ("local", "app"):
        own = ipaddress.ip_interface(made.nodes[host].interfaces[shapes.STAR_PORT].address or "")
        gate = made.nodes["ha-a"].interfaces[f"to-{host}"].address
        assert own in served and f"{made.nodes[host].gateway}/24" == gate
        assert not any(ipaddress.ip_interface(port.address).ip in own.network
                       for node in network.nodes.values() for port in node.interfaces.values()
                       if port.address)
    assert [link.ends for link in made.links[-2:]] == [
        ["ha-a/to-local", "local/wire"], ["ha-a/to-app", "app/wire"]]
    with pytest.raises(ValueError, match="has a node a1 already"):
        shapes.add_hosts_behind(network, "ha-a", {"a1": []})


def test_a_file_that_changes_is_read_again(tmp_path: Path) -> None:
    """What was parsed is kept for as long as the text is the same, and no longer."""
    file = tmp_path / "mine.yml"
    text = "name: mine\ntitle: mine\nsource: made up\nrate_bps: 1000\n"
    file.write_text(text)
    assert load_wire(str(file)).rate_bps == 1000
    file.write_text(text.replace("1000", "2000"))
    assert load_wire(str(file)).rate_bps == 2000
    file.write_text(text.replace("1000", "0"))
    with pytest.raises(TopologyError, match=r"mine\.yml:4: rate_bps: 0"):
        load_wire(str(file))


def test_rate_comes_before_delay() -> None:
    """Packets wait for their turn in a short queue, and only then are on their way."""
    rated, delayed = queueing_disciplines.wire_commands(shapes.make_link("a/b", "c/d", SHALLOW),
                                                        "b")
    assert rated == "tc qdisc add dev b root handle 1: netem limit 20 rate 100000bit 0"
    assert delayed.startswith("tc qdisc add dev b parent 1:1 netem")
    assert "delay 400ms" in delayed
    assert "rate" not in delayed
    assert queueing_disciplines.wire_commands(shapes.make_link("a/b", "c/d", LOSSY), "b") == [
        "tc qdisc add dev b root netem limit 100000 delay 5ms loss 10%"]


@pytest.mark.parametrize(("figures", "words"), [
    ({"delay_ms": 40.0, "jitter_ms": 20.0}, "delay 40.0ms 20.0ms rate 1tbit loss 0.0%"),
    ({"loss_percent": 2.0, "loss_burst_packets": 4.0},
     "delay 0.0ms loss gemodel 0.510204% 25%"),
    ({"loss_percent": 2.0}, "delay 0.0ms loss 2.0%")])
def test_jitter_and_bursts_are_netems(figures: dict[str, float], words: str) -> None:
    """A burst ends with one packet in four; then 2 of 100 are lost in all (Gilbert's model)."""
    assert queueing_disciplines.wire_commands(Link(["a/b", "c/d"], **figures), "b") == [
        f"tc qdisc add dev b root netem limit 100000 {words}"]


def test_each_direction_has_its_rate() -> None:
    """The second end sends at the rate back, and a wire with one rate has it at both ends."""
    link = shapes.make_link("a/b", "c/d", ASYMMETRIC)
    assert [queueing_disciplines.wire_commands(link, end.partition("/")[2], end)
            for end in link.ends] == [
        ["tc qdisc add dev b root handle 1: netem limit 100 rate 1000000bit 0"],
        ["tc qdisc add dev d root handle 1: netem limit 100 rate 8000000bit 0"]]
    assert link.slowest_rate_bps == 1e6
    equal = shapes.make_link("a/b", "c/d", SHALLOW)
    assert [equal.rate_from(end) for end in equal.ends] == [100_000, 100_000]


def test_rate_back_is_refused_without_a_rate() -> None:
    with pytest.raises(TopologyError, match="rate_back_bps: has an effect with rate_bps alone"):
        link_checks.check_wire(Link(["a/b", "c/d"], rate_back_bps=1e6), "x.yml")
    with pytest.raises(TopologyError, match="rate_back_bps: 1; write 1000 to"):
        link_checks.check_wire(Link(["a/b", "c/d"], rate_bps=1e6, rate_back_bps=1), "x.yml")


@pytest.mark.parametrize(("figures", "words"), [
    ({}, ""), ({"rate_bps": 1e6, "rate_back_bps": 8e6}, "1 Mbit/s, 8 Mbit/s back"),
    ({"loss_percent": 2.0}, "2 % loss"),
    ({"loss_percent": 2.0, "loss_burst_packets": 4.0}, "2 % loss in bursts of 4 packets"),
    ({"delay_ms": 40.0, "jitter_ms": 20.0, "wire": "far"}, "far (40 ms, 20 ms of jitter)")])
def test_limits_name_all_that_a_link_does(figures: dict[str, Any], words: str) -> None:
    """Two runs over different links have different words in their plans."""
    assert Link(["a/b", "c/d"], **figures).limits == words


@pytest.mark.parametrize(("percent", "is_possible"), [(75.0, True), (75.1, False)])
def test_bursts_of_three_packets_lose_three_of_four_at_most(percent: float, *,
                                                            is_possible: bool) -> None:
    """One packet at least arrives between two bursts."""
    link = Link(["a/b", "c/d"], loss_percent=percent, loss_burst_packets=3.0)
    with nullcontext() if is_possible else pytest.raises(
            TopologyError, match=r"loss_percent: 75.1 is more than bursts of 3 packets can lose; "
            "write at most 75, or"):
        link_checks.check_wire(link, "x.yml")


@pytest.mark.parametrize("hops", [1, 2, 3, 7])
def test_chains_are_valid_networks(hops: int) -> None:
    """A chain has a link a hop, routers between, and passes the loader's own checks."""
    network = shapes.make_chain(hops, load_wire("lan-10m"))
    checks.check_network(network, Path("chain"))
    assert len(network.links) == hops
    assert len(network.of_duty("router")) == hops - 1
    assert {link.wire for link in network.links} == {"lan-10m"}
    assert not network.has_radios


@pytest.mark.parametrize("hops", [0, -1, 251])
def test_impossible_chains_are_refused(hops: int) -> None:
    """There is no network of no hops, nor one with more subnets than the addresses have."""
    with pytest.raises(ValueError, match=f"a chain of {hops} hops"):
        shapes.make_chain(hops)


# In a guest -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def of() -> list[Wire]:
    """The wires that are measured: every preset with a rate, and two of the test's own."""
    return [*map(load_wire, wire_names()), LOSSY, SHALLOW]


@pytest.mark.guest
@pytest.mark.shareable
async def test_wires_are_what_they_say(of: list[Wire], tmp_path: Path) -> None:
    """Round trips and rates of all presets agree within 3 % with what they state.

    In virtual time, where computing takes none: what is left is the wire's own.
    """
    told = job(pairs(of), "wired_probe", clock="virtual")
    raw: dict[str, dict[str, Any]] = {}
    async with Driven(tmp_path, told, PROBE) as driven:
        await driven.ready()
        for number, wire in enumerate(of, 1):
            ends = {"from": f"c{number}", "to": f"s{number}"}
            pinged = await driven.measure(f"ping{number}", what="ping", bytes=56, **ends)
            sent = await driven.measure(f"burst{number}", what="burst", count=60, bytes=1000,
                                        patience_s=10, **ends)
            raw[wire.name] = {**pinged, **sent}
        losses = await driven.measure(
            "losses", what="burst", count=2000, bytes=100, patience_s=2, gap_s=0.001,
            **{"from": f"c{len(of) - 1}", "to": f"s{len(of) - 1}"})
        await driven.ask("bye", do="stop")
    for wire in of:
        if wire.rate_bps is None:
            continue
        # An echo is an ICMP header of 8 bytes where a datagram has UDP's.
        round_trip_s = 2 * (wire.delay_ms / 1e3 + frame_s(wire, 56))
        assert statistics.median(raw[wire.name]["round_trips_s"]) == pytest.approx(
            round_trip_s, rel=0.03), wire.name
        arrivals_s = raw[wire.name]["arrivals_s"]
        mean_gap_s = (arrivals_s[-1] - arrivals_s[0]) / (len(arrivals_s) - 1)
        assert mean_gap_s == pytest.approx(frame_s(wire, 1000), rel=0.03), wire.name
        assert len(arrivals_s) == min(60, wire.queue_packets), wire.name
    # The first holds the search for the address, and losses may have left few others.
    assert min(raw["lossy"]["round_trips_s"]) == pytest.approx(0.01, rel=0.03)
    assert len(losses["arrivals_s"]) / 2000 == pytest.approx(0.9, abs=0.03)


@pytest.mark.guest
@pytest.mark.shareable
async def test_directions_and_bursts_are_what_they_say(tmp_path: Path) -> None:
    """Each direction keeps its rate within 3 %. Losses come four in a row on average."""
    gap_s, count = 0.001, 8000
    async with Driven(tmp_path, job(pairs([ASYMMETRIC, BURSTS]), "wired_probe", clock="virtual"),
                      PROBE) as driven:
        await driven.ready()
        for name, ends, rate_bps in (("there", {"from": "c1", "to": "s1"}, 1e6),
                                     ("back", {"from": "s1", "to": "c1"}, 8e6)):
            sent = await driven.measure(name, what="burst", count=60, bytes=1000, patience_s=10,
                                        **ends)
            arrivals_s = sent["arrivals_s"]
            mean_gap_s = (arrivals_s[-1] - arrivals_s[0]) / (len(arrivals_s) - 1)
            assert mean_gap_s == pytest.approx(8 * (1000 + HEADERS_BYTES) / rate_bps,
                                               rel=0.03), name
        sent = await driven.measure("bursts", what="burst", count=count, bytes=100, patience_s=2,
                                    gap_s=gap_s, **{"from": "c2", "to": "s2"})
        await driven.ask("bye", do="stop")
    arrivals_s = sent["arrivals_s"]
    spacing_s = (arrivals_s[-1] - arrivals_s[0]) / (count - 1)
    lost = [round((after - before) / spacing_s) - 1
            for before, after in itertools.pairwise(arrivals_s)]
    bursts = [each for each in lost if each]
    assert 1 - len(arrivals_s) / count == pytest.approx(0.1, abs=0.03)
    assert statistics.mean(bursts) == pytest.approx(4, rel=0.25)


@pytest.mark.guest
@pytest.mark.shareable
@pytest.mark.parametrize("clock", ["real", "virtual"])
async def test_a_chain_of_three_hops(clock: str, tmp_path: Path) -> None:
    """Three hops of wide-area wire without any radio: three times a hop's round trip, by routers.

    And the repetition speaks and listens: commands come in while it runs, in the clock's order.
    """
    wire = load_wire("wide-area")
    told = job(shapes.make_chain(3, wire), "wired_probe", clock=clock)
    async with Driven(tmp_path, told, PROBE) as driven:
        ready = await driven.ready()
        assert "kernel" in ready["environment"]
        pinged = await driven.measure("ping", what="ping", bytes=56,
                                      **{"from": "client", "to": "server"})
        driven.send(do="measure", name="listen", task={"what": "listen"})
        await driven.event("report")
        if clock == "real":
            driven.send(do="tell", level=3)
        driven.send(do="tell", stop=True)
        await driven.event("measured")
        answer = await driven.ask("called", do="call", command="echo", task={"say": "hello"})
        shown = await driven.ask("shell_ended", do="shell", node="r1", argv=["ip", "-br", "link"])
        await driven.ask("bye", do="stop")
    round_trip_s = 6 * (wire.delay_ms / 1e3 + frame_s(wire, 56))
    # By a clock that goes on, a busy machine adds to it.
    most = 1.03 if clock == "virtual" else float("inf")
    assert 0.97 < min(pinged["round_trips_s"]) / round_trip_s < most
    assert pinged["ttl"] == [62] * 5
    assert answer["result"] == {"said": "hello"}
    assert "wlan" not in shown["output"]
    reports = [event for event in driven.events if event["event"] == "report"]
    names = [report["name"] for report in reports]
    assert names[0] == "shareable"
    assert "tick" in names
    assert [report["command"] for report in reports if report["name"] == "told"][-1] == {
        "stop": True}
    times = [report["time_s"] for report in reports]
    assert times == sorted(times)


@pytest.mark.guest
@pytest.mark.shareable
async def test_failures_of_a_workload_are_events(tmp_path: Path) -> None:
    """What a workload raises keeps its raw values; a bug of its own is one line, and goes on."""
    async with Driven(tmp_path, job(shapes.make_chain(1), "wired_probe"), PROBE) as driven:
        await driven.ready()
        raw = await driven.measure("failed", what="fail")
        assert raw["half"] == 1
        assert raw["failure"] == {"stage": "data", "reason": "as asked"}
        for command, reason in (
                ({"do": "measure", "name": "bug", "task": {"what": "fail", "bug": True}},
                 "KeyError \"a bug of the study's\""),
                ({"do": "call", "command": "sing", "task": {}}, "no call 'sing' in this study"),
                ({"do": "dance"}, "unknown command 'dance'"),
                ({"do": "configure"}, "configured already"),
                ({"do": "shell", "node": "nobody", "argv": ["true"]}, "no node 'nobody'")):
            assert reason in (await driven.ask("failed", **command))["reason"]
        assert (await driven.measure("again", what="ping", bytes=56,
                                     **{"from": "client", "to": "server"}))["failure"] is None
