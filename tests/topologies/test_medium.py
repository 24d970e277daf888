"""Tests of the medium: its arithmetic against published values, its queues, and the real thing."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import itertools
import struct
import subprocess
from typing import Any
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench import medium_trial
from bench.dcf import solve_bianchi
from bench.medium_trial import (
    MediumTrial,
    make_one_cell_network,
    make_overload,
    make_two_cell_network,
)
from guest.boot import Clock
from harness.engine import setup
from harness.errors import UserError
from topologies import loader, medium, queueing_disciplines, yaml_reader
from topologies.loader import load_medium
from topologies.model import Medium

#: Of frames that go alone; aggregates are no air of queues.
MEDIA = [name for name in loader.medium_names() if load_medium(name).aggregate == 1]


def changed(name: str, **changes: Any) -> Medium:
    """A shipped medium with other values in some fields."""
    return dataclasses.replace(load_medium(name), **changes)


# Published values ----------------------------------------------------------------------------


def test_maximum_of_80211b() -> None:
    """Jun, Peddabachagari, Sichitiu (2003): 6.06 Mbit/s, from 8 x / (0.72727 x + 890.73) us.

    Their MSDU of 1500 bytes is sent with 34 bytes of MAC header (four addresses) and checksum.
    """
    theirs = changed("802.11b-long", mac_bytes=34)
    assert theirs.ceiling_bps(1500) == pytest.approx(6.06e6, abs=0.005e6)
    assert theirs.airtime_us(0) == pytest.approx(890.73, abs=0.005)
    assert theirs.airtime_us(1) - theirs.airtime_us(0) == pytest.approx(0.72727, abs=1e-5)


def test_maximum_of_80211a() -> None:
    """The same paper: 31.4 Mbit/s at 54 Mbit/s, with its SIFS of 9 us and ACK at 54 Mbit/s."""
    theirs = changed("802.11a", mac_bytes=34, sifs_us=9, ack_rate_bps=54_000_000)
    assert theirs.ceiling_bps(1500) == pytest.approx(31.4e6, abs=0.05e6)


@pytest.mark.parametrize(("name", "ack_rate_bps", "mbps", "per_second"), [
    ("802.11b-long", 11_000_000, 5.6, 479), ("802.11a", 54_000_000, 27.3, 2336)])
def test_tcp_transactions(name: str, ack_rate_bps: int, mbps: float, per_second: int) -> None:
    """Gast, "When is 54 not equal to 54?" (2003): TCP at one acknowledgement a segment.

    His model has no backoff and acknowledges at the data's rate. (For 802.11b he rounds up times to
    whole microseconds, hence 479 and not 480.6 transactions.)
    """
    theirs = changed(name, cw_min=0, ack_rate_bps=ack_rate_bps)
    tcp_bps = theirs.tcp_ceiling_bps(1460, header_bytes=40, segments_per_ack=1)
    assert tcp_bps == pytest.approx(mbps * 1e6, abs=0.05e6)
    assert tcp_bps / 8 / 1460 == pytest.approx(per_second, abs=2)


@pytest.mark.parametrize(("name", "parts_us"), [
    # DIFS, backoff, preamble, frame, extension, SIFS, acknowledgement; 1536 bytes on the air
    ("802.11b-long", (50, 310, 192, 1536 * 8 / 11, 0, 10, 192 + 112)),
    ("802.11b-short", (50, 310, 96, 1536 * 8 / 11, 0, 10, 96 + 56)),
    ("802.11g", (28, 67.5, 20, 57 * 4, 6, 10, 20 + 2 * 4 + 6)),
    ("802.11a", (34, 67.5, 20, 57 * 4, 0, 16, 20 + 2 * 4)),
    # two more bytes of QoS; 12326 bits in symbols of 260
    ("802.11n", (37, 67.5, 36, 48 * 4, 6, 10, 20 + 2 * 4 + 6)),
])
def test_airtime_by_hand(name: str, parts_us: tuple[float, ...]) -> None:
    """A packet of 1500 bytes: every part of its airtime."""
    assert load_medium(name).airtime_us(1500 + 8) == pytest.approx(sum(parts_us))


def test_every_medium_is_tested() -> None:
    """These, and no further one that nobody has checked."""
    assert MEDIA == ["802.11a", "802.11b-long", "802.11b-positions", "802.11b-short", "802.11g",
                     "802.11g-positions", "802.11n"]


# Losses --------------------------------------------------------------------------------------


def test_losses_cost_airtime() -> None:
    """A fifth lost: a delivered frame costs 1.25 transmissions, however they are repeated."""
    for retries in (0, 1, 7):
        lossy = changed("802.11g", loss_percent=20, retries=retries)
        assert lossy.delivery_us(1508) == pytest.approx(1.25 * lossy.airtime_us(1508))
        assert lossy.udp_ceiling_bps(1470) == pytest.approx(
            0.8 * load_medium("802.11g").udp_ceiling_bps(1470))
        assert lossy.residual_loss == pytest.approx(0.2 ** (retries + 1))


def test_attempts_add_up() -> None:
    """The mean that is charged is that of a simulation by hand: attempts over deliveries."""
    loss, retries = 0.3, 2
    attempts = sum(loss ** attempt for attempt in range(retries + 1))
    lossy = changed("802.11a", loss_percent=100 * loss, retries=retries)
    delivered = 1 - lossy.residual_loss
    assert lossy.delivery_us(100) == pytest.approx(lossy.airtime_us(100) * attempts / delivered)


def test_losing_everything_is_refused(tmp_path: Any) -> None:
    """A medium that delivers nothing has no ceiling."""
    file = tmp_path / "dead.yml"
    text = (yaml_reader.ROOT / "media" / "802.11g.yml").read_text()
    file.write_text(text + "loss_percent: 100\n")
    with pytest.raises(loader.TopologyError, match="loss_percent"):
        load_medium(str(file))


# What the kernel is told ---------------------------------------------------------------------


@pytest.mark.parametrize("name", MEDIA)
@pytest.mark.parametrize("cipher_bytes", [0, 8, 16])
def test_airtimes_are_the_models(name: str, cipher_bytes: int) -> None:
    """The table has the airtime of every Ethernet frame, to the quarter of a microsecond."""
    air = load_medium(name)
    table = medium.frame_airtimes(air, cipher_bytes)
    for payload_bytes in (256, 1470):
        on_air_us = table[14 + 20 + 8 + payload_bytes] * medium.UNIT_US
        ceiling_bps = air.udp_ceiling_bps(payload_bytes, cipher_bytes)
        assert payload_bytes * 8 / on_air_us * 1e6 == pytest.approx(ceiling_bps, rel=1e-3)
    assert len(table) > 14 + 1500
    assert all(low <= high for low, high in itertools.pairwise(table))


@given(st.lists(st.integers(1, 10**6), min_size=1, max_size=50))
def test_a_size_table_is_what_the_kernel_reads(sizes: list[int]) -> None:
    """Header, handle, kind and table are where the kernel looks; large sizes lose low bits only."""
    request = queueing_disciplines.build_size_table_request(7, "htb", 1 << 16, sizes)
    assert (request.kind, request.flags) == (36, 4)
    assert struct.unpack_from("=BxxxiII", request.body) == (0, 7, 1 << 16, 0xFFFFFFFF)
    found = _attributes(request.body[20:])
    assert found[1] == b"htb\0"
    inner = _attributes(found[8])
    base = struct.unpack("=BBhiIIII", inner[1])
    shift, count = base[1], base[-1]
    assert count == len(sizes)
    entries = struct.unpack(f"={count}H", inner[2])
    assert [entry << shift for entry in entries] == [size >> shift << shift for size in sizes]


def _attributes(data: bytes) -> dict[int, bytes]:
    """Netlink attributes by number."""
    found = {}
    while data:
        length, number = struct.unpack_from("=HH", data)
        found[number] = data[4:length]
        data = data[(length + 3) // 4 * 4:]
    return found


class Told:
    """Stands in for `subprocess.run`: keeps the batches."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def __call__(self, argv: list[str], *, input: str,  # noqa: A002 - as subprocess has it
                 **_: Any) -> subprocess.CompletedProcess[str]:
        """Succeed."""
        self.lines += input.splitlines()
        return subprocess.CompletedProcess(argv, 0, "", "")


class Host:
    """Stands in for a Mininet node."""

    pid = 1


@pytest.mark.parametrize(("retries", "loss"), [(None, ""), (0, " loss 10.000000%"),
                                               (1, " loss 1.000000%")])
def test_every_transmitter_has_a_queue(
    monkeypatch: pytest.MonkeyPatch, retries: int | None, loss: str,
) -> None:
    """Stations, access points and unknown senders: a class and a short queue each, with losses."""
    told = Told()
    monkeypatch.setattr(subprocess, "run", told)
    monkeypatch.setattr(medium, "set_size_table", lambda *_: None)
    made = Mock()
    monkeypatch.setattr(medium, "enter_namespace", lambda _: contextlib.nullcontext(made))
    air = changed("802.11g", air="queue") if retries is None else changed(
        "802.11g", air="queue", loss_percent=10, retries=retries)
    everyone = medium.Transmitters.from_network(make_two_cell_network(6))
    assert list(everyone.stations) == ["02:00:00:00:a1:00", "02:00:00:00:b1:00"]
    assert list(everyone.access_points) == ["wlan-a", "wlan-b"]
    channel = medium.Channel(Host(), 6, air, 0, everyone)
    made.add_detour.assert_called_once_with("air6")
    queues = [line for line in told.lines if "netem" in line]
    assert len(queues) == 1 + 2 + 2
    assert all(line.startswith("qdisc add dev air6 ") and line.endswith(f"rate 32000000bit{loss}")
               for line in queues)
    del told.lines[:]
    channel.attach_radios(["wlan-b"])
    own = f"priority 1:{everyone.access_points['wlan-b']:x} "
    assert [line for line in told.lines if own in line] == [
        line for line in told.lines if " egress protocol all matchall" in line]
    for mac in everyone.stations:
        assert any(f"src_mac {mac} " in line and "dev air6" in line for line in told.lines)


# In guests; `./qop bench medium` has all media in real time ---------------------------------------

SHORT = "802.11b-short"


def measured(trial: MediumTrial, clock: Clock = "virtual") -> medium_trial.TrialResult:
    """A trial in a guest; in virtual time unless said, where nobody else's work takes any."""
    machine = setup.make_embedded_machine()
    return asyncio.run(medium_trial.run_trial(trial, machine.image, machine.processors[-1], clock))


@pytest.fixture
def loads() -> list[list[medium_trial.UdpFlow]]:
    """Overloads by one sender: to its agent, and by way of it to a station, once threefold."""
    air = load_medium(SHORT)
    return [[make_overload(air, "a1", "ha-a")], [make_overload(air, "a1", "a2")],
            [make_overload(air, "a1", "a2", factor=3)]]


@pytest.mark.guest
@pytest.mark.shareable
@pytest.mark.e2e
def test_one_cell(loads: list[list[medium_trial.UdpFlow]]) -> None:
    """One sender reaches the ceiling; by way of the agent, half of what two get by Bianchi's model.

    And a lone frame is late by preamble and bits. Its answer, which takes no time here, finds the
    channel busy with the acknowledgement: it waits for that, for DIFS and for some whole slots.
    """
    air = load_medium(SHORT)
    outcome = measured(MediumTrial(make_one_cell_network(), air, loads))
    waits_us = (outcome.round_trip_s * 1e6 - 2 * air.latency_us(84 + 8)
                - air.sifs_us - air.ack_us - air.difs_us)
    slots = waits_us / air.slot_us
    # ping rounds to 1 us: of its two ends together, to 2 us.
    assert slots == pytest.approx(round(slots), abs=2 / air.slot_us)
    assert 0 <= slots < 10
    [direct], *relayed = outcome.goodput_bps
    assert direct == pytest.approx(air.udp_ceiling_bps(1470), rel=0.02)
    two_bps = solve_bianchi(air, 1470, 2).delivered_per_s * 1470 * 8
    # A few seconds of luck; by queues it would be 5 % less.
    for [goodput_bps] in relayed:
        assert goodput_bps == pytest.approx(two_bps / 2, rel=0.035)


@pytest.mark.guest
@pytest.mark.shareable
@pytest.mark.e2e
def test_one_cell_in_real_time(loads: list[list[medium_trial.UdpFlow]]) -> None:
    """By a clock that goes on there is no more of the air; a busy machine only takes away."""
    air = load_medium(SHORT)
    outcome = measured(MediumTrial(make_one_cell_network(), air, loads, seconds=1.5), "real")
    shares = [goodput_bps / air.udp_ceiling_bps(1470) for [goodput_bps] in outcome.goodput_bps]
    assert 0 < shares[0] < 1.05
    assert all(0 < share < 0.56 for share in shares[1:])
    assert outcome.round_trip_s * 1e6 >= 2 * air.latency_us(84 + 8)


@pytest.mark.guest
@pytest.mark.shareable
@pytest.mark.e2e
@pytest.mark.parametrize(("channel", "way"), [(6, "queue"), (1, "dcf"), (1, "queue")])
def test_channels(channel: int, way: str) -> None:
    """Two access points carry the ceiling each on two channels, and share the air on one.

    Who waits in queues gets half a lone sender's; who contends, what Bianchi's model says of two.
    Another air than the one that was asked for would show.
    """
    air = changed(SHORT, air=way)
    both = [make_overload(air, "a1", "ha-a"), make_overload(air, "b1", "ha-b")]
    outcome = measured(MediumTrial(make_two_cell_network(channel), air, [both]))
    [[one, other]] = outcome.goodput_bps
    together_bps = {"queue": (1 if channel == 1 else 2) * air.udp_ceiling_bps(1470),
                    "dcf": solve_bianchi(air, 1470, 2).delivered_per_s * 1470 * 8}[way]
    assert one + other == pytest.approx(together_bps, rel=0.02)
    assert one == pytest.approx(other, rel=0.1)
    if way == "queue":
        # A lone frame waits in its queue for all of its airtime.
        assert outcome.round_trip_s * 1e6 == pytest.approx(2 * air.airtime_us(84 + 8), rel=0.05)


@pytest.mark.guest
@pytest.mark.shareable
@pytest.mark.e2e
def test_eapol_pays_airtime() -> None:
    """The 4-way handshake passes the queues, two frames each way, and nothing else has by then.

    In real time: the last frame has to be through when it is counted, a moment after it was sent.
    """
    outcome = measured(MediumTrial(make_two_cell_network(6), load_medium(SHORT), protected=True),
                       "real")
    assert outcome.connected
    ap_a, ap_b, station_a, station_b = (f"1:{number:x}" for number in range(3, 7))
    for channel, senders in (("1", {station_a, ap_a}), ("6", {station_b, ap_b})):
        sent = {number: count for number, count in outcome.connected[channel].items() if count}
        assert sent == dict.fromkeys(senders, 2)


@pytest.mark.guest
@pytest.mark.shareable
@pytest.mark.e2e
def test_frames_go_together_in_a_guest() -> None:
    """What is offered comes through, and of more than the air takes nine tenths of its ceiling.

    Datagrams that come in heaps which no queue holds would be lost: 0.30 of 0.40, and 0.47. In a
    second it is 0.889 to 0.901 of the ceiling (8 runs), in 0.3 s 0.871 to 0.913 (24).
    """
    air = load_medium("802.11n-300")
    loads = [make_overload(air, "a1", "ha-a", factor=factor) for factor
             in (0.4, medium_trial.OVERLOAD)]
    outcome = measured(MediumTrial(make_one_cell_network(), air, [[load] for load in loads],
                                   seconds=1.0))
    [below], [beyond] = outcome.goodput_bps
    assert below == pytest.approx(loads[0].rate_bps, rel=0.03)
    assert 0.87 < beyond / air.udp_ceiling_bps(1470) < 1.02


@pytest.mark.guest
@pytest.mark.shareable
@pytest.mark.e2e
@pytest.mark.parametrize("name", ["802.11n-ht20", "802.11ac", "802.11ax"])
def test_aggregates_carry_more_than_single_frames(name: str) -> None:
    """Of an overload, most of the ceiling comes through, and without aggregates their own."""
    air = load_medium(name)
    load = make_overload(air, "a1", "ha-a")
    for used in (air, air.without_aggregation):
        [[goodput_bps]] = measured(MediumTrial(make_one_cell_network(), used, [[load]],
                                               seconds=0.3)).goodput_bps
        assert 0.8 < goodput_bps / used.udp_ceiling_bps(1470) < 1.03
    assert air.udp_ceiling_bps(1470) > 1.9 * air.without_aggregation.udp_ceiling_bps(1470)


def measured_despite_losses(trial: MediumTrial) -> medium_trial.TrialResult:
    """As `measured`, again where iperf3's own talk, lost like any frame, came to a stop."""
    for _ in range(2):
        with contextlib.suppress(UserError):
            return measured(trial)
    return measured(trial)


@pytest.mark.guest
@pytest.mark.shareable
@pytest.mark.e2e
@pytest.mark.parametrize(("loss_percent", "retries", "delivered"), [(5, 0, 0.95), (10, 4, 1.0)])
def test_losses(loss_percent: float, retries: int, delivered: float) -> None:
    """Lost transmissions are missing at the receiver; repeating them delivers nearly all."""
    air = changed(SHORT, loss_percent=loss_percent, retries=retries)
    # Half the ceiling: beside a full queue iperf3's own talk would not survive the losses.
    load = make_overload(air, "a1", "ha-a", factor=0.5)
    [[goodput_bps]] = measured_despite_losses(
        MediumTrial(make_one_cell_network(), air, [[load]])).goodput_bps
    assert goodput_bps == pytest.approx(delivered * load.rate_bps, rel=0.04)


@pytest.mark.guest
@pytest.mark.shareable
@pytest.mark.e2e
def test_without_a_medium() -> None:
    """No medium, no limit: three times what 802.11b could carry arrives in full."""
    load = make_overload(load_medium(SHORT), "a1", "a2", factor=3)
    outcome = measured(MediumTrial(make_one_cell_network(), None, [[load]]))
    assert outcome.connected is None
    assert outcome.round_trip_s * 1e6 < load_medium(SHORT).latency_us(84 + 8)
    assert outcome.goodput_bps == [[pytest.approx(load.rate_bps, rel=0.02)]]
