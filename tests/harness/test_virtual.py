"""Virtual time: the same daemons and the same air, without waiting and without the host's load."""

from __future__ import annotations

import time

import pytest

from conftest import VIRTUAL, Qop
from measure.records.record import Record
from plans import body
from topologies.loader import load_medium

pytestmark = [pytest.mark.guest, pytest.mark.shareable]

RUN = (*VIRTUAL, "--policies", "P1,P8", "--scenarios", "N2,R1", "--repetitions", "1",
       "--stream-bytes", "1M")
#: The most datagrams that UDP's sender sends at a time, see measure.services.iperf.
LAST_TICK = 9
#: Negotiations as the mobile node sees them: what an exchange consists of does not depend on keys.
COUNTED = ("dot1x", "ike", "registration", "foreign_dot1x", "foreign_ike", "foreign_registration")


@pytest.fixture(scope="module")
def twice(shared_qop: Qop) -> tuple[dict[str, Record], dict[str, Record]]:
    """The same run two times."""
    both = []
    for name in ("virtual-1", "virtual-2"):
        done, records = shared_qop.run(name, *RUN)
        assert done.returncode == 0, done.stderr
        assert len(records) == 4
        both.append(records)
    return both[0], both[1]


def test_two_runs_agree_to_the_packet(
        twice: tuple[dict[str, Record], dict[str, Record]]) -> None:
    """Every negotiation has the same packets; a UDP stream as many datagrams but for its end.

    The queue to the air is full when the last ones are sent, ten milliseconds' worth at a time: how
    many of them it still takes depends on the moment at which the stream meets the beacons, and
    that on keys, whose lengths differ by a byte.
    """
    for name, one in twice[0].items():
        other = twice[1][name]
        assert one.environment["clock"] == other.environment["clock"] == "virtual"
        assert packets(one) == packets(other), name
        first, second = body(one).udp, body(other).udp
        assert first and second
        assert abs(first.iperf["packets"] - second.iperf["packets"]) <= LAST_TICK, name


def packets(found: Record) -> dict[str, int]:
    """Packets of each negotiation by its name."""
    return {phase.name: phase.packets for phase in body(found).phases if phase.name in COUNTED}


def test_the_air_is_the_air(twice: tuple[dict[str, Record], dict[str, Record]]) -> None:
    """UDP fills the air but for its backoffs' luck; nothing is lost to the processor."""
    ceiling_bps = load_medium("802.11b-short").udp_ceiling_bps(1400)
    for records in twice:
        udp = body(records["P1-N2-001"]).udp
        assert udp and udp.goodput_bps == pytest.approx(ceiling_bps, rel=0.02)


def test_virtual_seconds_are_not_the_hosts(
        twice: tuple[dict[str, Record], dict[str, Record]]) -> None:
    """Its negotiations are airtime and protocol: shorter than any processor could compute them."""
    exchange = next(p for p in body(twice[0]["P8-N2-001"]).phases if p.name == "dot1x")
    assert exchange.packets == 17
    # 17 frames of the exchange pay for some 15 ms of air; computing would add as much again.
    assert 0.010 < exchange.duration_s < 0.020


def test_a_record_knows_when_it_was_measured_by_the_wall(
        twice: tuple[dict[str, Record], dict[str, Record]]) -> None:
    """Guests' clocks run ahead of the wall clock, and every one by itself."""
    began = [record.environment["measured_at_s"] for records in twice
             for record in records.values()]
    assert all(0 < time.time() - began_s < 24 * 3600 for began_s in began)
    assert max(record.environment["measured_at_s"] for record in twice[0].values()) < min(
        record.environment["measured_at_s"] for record in twice[1].values())
