"""Tests of outages: the gap of a steady stream over a move, and what of it never arrived."""

from __future__ import annotations

import socket

from measure.mobile_node import outages, udp_probe
from measure.mobile_node.outages import Outage

#: A datagram each 5 ms from 0 s on, of which numbers 10 to 29 are lost: nothing from 45 to 150 ms.
ARRIVALS = [(number, number * 0.005) for number in range(60) if not 10 <= number < 30]


def test_the_gap_is_the_longest_from_the_move_on() -> None:
    """From the last arrival before the first one after, and the numbers between are lost."""
    seen = outages.compute_outage(ARRIVALS, left_s=0.046, back_s=0.2)
    assert seen == Outage(gap_s=0.150 - 0.045, lost_packets=20)


def test_a_pause_before_the_move_is_none_of_its_gap() -> None:
    """A stream that paused before the move has a gap of its own interval afterwards."""
    seen = outages.compute_outage(ARRIVALS, left_s=0.2, back_s=0.21)
    assert seen is not None
    assert round(seen.gap_s, 6) == 0.005


def test_arrivals_out_of_order_are_put_in_order() -> None:
    """Datagrams may overtake each other when the old path is longer than the new one."""
    assert outages.compute_outage(ARRIVALS[::-1], 0.046,
                                  0.2) == outages.compute_outage(ARRIVALS, 0.046, 0.2)


def test_a_stream_that_does_not_come_back_has_no_outage() -> None:
    """Nothing before the move, or nothing after it: there are no two ends to measure between."""
    assert outages.compute_outage(ARRIVALS, left_s=0.046, back_s=1.0) is None
    assert outages.compute_outage(ARRIVALS[10:], left_s=0.01, back_s=0.2) is None
    assert outages.compute_outage([], left_s=0.0, back_s=0.0) is None


def test_both_directions_are_asked_of_a_repetition() -> None:
    """One that did not come back is left out; without a stream or a move there is none."""
    stamps = {"handoff": 0.046, "foreign_first_packet": 0.2}
    raw = {"stamps": stamps, "pulses": {"up": {"sent": 60, "arrivals": ARRIVALS},
                                        "down": {"sent": 60, "arrivals": ARRIVALS[:5]}}}
    assert set(outages.find_outages(raw)) == {"up"}
    assert outages.find_outages({"stamps": stamps}) == {}
    assert outages.find_outages({**raw, "stamps": {"handoff": 0.046}}) == {}


def test_a_stream_that_keeps_its_address_sends_from_no_other() -> None:
    """Where a tunnel is to follow, the visited network's address would go past it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as peer:
        peer.bind(("127.0.0.3", udp_probe.PORT))
        end = udp_probe.UdpProbe("127.0.0.3", 1.0, "127.0.0.2")
        with end._socket:
            end._send_datagram()
        assert peer.recvfrom(udp_probe.PAYLOAD_BYTES)[1] == ("127.0.0.2", udp_probe.PORT)
