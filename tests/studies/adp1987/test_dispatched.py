"""When messages went is told from heads of ADP messages: too late, too soon, as they should."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from measure.capture.pcap import CapturedFrame
from protocols.adp.packets import HeaderFlag
from studies.adp1987.proof import timing
from studies.adp1987.proof.captured_messages import CapturedHead
from studies.adp1987.proof.checks import PieceSearch
from studies.adp1987.proof.timing import Arrival, PhaseTraffic, SenderSetting
from studies.adp1987.traces import Payload

TASK = {"protocol": "adp-1987", "queue": True, "timeout_s": 0.04, "bound_bytes": 8192}
WIRE = {"rate_bps": 10e6, "overhead_bytes": 24}
#: A message is taken in a quarter of a millisecond, an ADP message made in 2 and 0.2.
SECONDS = {"user-message-send": (0.00025, 0.0), "adp-message-send": (0.002, 0.0),
           "des": (0.0002, 0.0)}
SETTING = SenderSetting(TASK, SECONDS, WIRE)
START_S, TAKE_S, MAKE_S = 100.0, 0.00025, 0.0022


def head(batch: Sequence[Arrival], begun_s: float) -> CapturedHead:
    """An ADP message of these, which its host began to make then."""
    size = min(1500, 20 + SETTING.message_bytes(batch))
    made = CapturedHead(0.0, size, len(batch), HeaderFlag.TRAILER)
    return replace(made, at_s=begun_s + MAKE_S + SETTING.head_s(made))


def phase(*batches: tuple[Sequence[Arrival], float], is_paced: bool = True) -> PhaseTraffic:
    """ADP messages, each with when its host began to make it after the phase's start."""
    return PhaseTraffic("latency", [arrival for batch, _ in batches for arrival in batch],
                        is_paced, START_S,
                        [head(batch, START_S + begun_s) for batch, begun_s in batches])


def lateness_ms(seen: PhaseTraffic, setting: SenderSetting = SETTING) -> list[float]:
    """By how much the messages of each waited longer than they may."""
    return [round(timing.lateness_s(dispatch, setting) * 1e3, 3)
            for dispatch in timing.find_transmissions(seen, setting)]


def early(seen: PhaseTraffic, setting: SenderSetting = SETTING) -> int:
    """How many went without a reason."""
    return sum(len(each.by_s) for each in timing.find_early([seen], setting).values())


WAITING: Sequence[Arrival] = [(0.01, 100, False), (0.02, 100, False)]


@pytest.mark.parametrize(("begun_s", "late_ms", "is_early"), [
    (0.01 + TAKE_S + 0.04, -0.25, False),
    (0.01 + TAKE_S + 0.06, 19.75, False),
    (0.01 + TAKE_S + 0.03, -10.25, True)])
def test_a_timeout_is_told_to_the_millisecond(begun_s: float, late_ms: float,
                                              is_early: bool) -> None:
    """Kept, half as long again, and too short: of what was on the wire alone."""
    seen = phase((WAITING, begun_s))
    assert lateness_ms(seen) == [late_ms]
    assert timing.check_waits([seen], SETTING).ok is (late_ms < 0)
    assert bool(early(seen)) is is_early


def test_an_urgent_message_waits_for_nothing() -> None:
    """It takes all with it at once; the one that comes 5 ms later is too late, and is seen."""
    batch = [*WAITING, (0.03, 40, True)]
    assert lateness_ms(phase((batch, 0.03 + TAKE_S))) == [-0.25]
    assert lateness_ms(phase((batch, 0.035 + TAKE_S))) == [4.75]
    assert early(phase((batch, 0.03 + TAKE_S))) == 0
    behind = [*batch, (0.031, 40, False)]
    assert early(phase((behind, 0.031 + TAKE_S))) == 1


def test_a_busy_host_is_no_late_one() -> None:
    """What it is in the middle of is on the wire before: a page takes 7 ms, and then it goes on."""
    page: Sequence[Arrival] = [(0.01, 8100, True)]
    behind: Sequence[Arrival] = [(0.011, 40, True)]
    free_s = 0.01 + TAKE_S + MAKE_S + SETTING.wire_s(SETTING.message_bytes(page))
    seen = phase((page, 0.01 + TAKE_S), (behind, free_s + TAKE_S))
    assert lateness_ms(seen) == [-0.25, -0.25] and early(seen) == 0


def test_a_full_queue_goes_before_its_time() -> None:
    """By its bytes, or since the next does not fit, which goes alone right behind."""
    full: Sequence[Arrival] = [(0.01, 4096, False), (0.011, 4096, False)]
    assert early(phase((full, 0.011 + TAKE_S))) == 0
    both = phase((WAITING, 0.03 + TAKE_S + MAKE_S), ([(0.03, 8100, False)], 0.0))
    first, second = both.heads
    sent_s = first.at_s - SETTING.head_s(first)
    after_s = sent_s + SETTING.wire_s(SETTING.message_bytes(WAITING)) + SETTING.head_s(second)
    both = replace(both, heads=[first, replace(second, at_s=after_s)])
    assert early(both) == 0
    assert max(lateness_ms(both)) < 0


def test_without_a_queue_each_goes_alone() -> None:
    """Two in one were queued, behind the policy's back."""
    setting = SenderSetting({**TASK, "queue": False}, SECONDS, WIRE)
    alone = phase((WAITING[:1], 0.01 + TAKE_S), (WAITING[1:], 0.02 + TAKE_S))
    assert early(alone, setting) == 0 and max(lateness_ms(alone, setting)) < 0
    together = phase((WAITING, 0.02 + TAKE_S))
    assert early(together, setting) == 1 and max(lateness_ms(together, setting)) > 9


def test_a_checksum_costs_what_des_does() -> None:
    """On every device that has DES; an ADP message with one is made for longer by that."""
    work = {"user-message-send": {"seconds": 0.00025}, "adp-message-send": {"seconds": 0.002},
            "des-operation": {"seconds": 0.0002}, "des": {"bytes_per_s": 1e6}}
    setting = SenderSetting.from_job(TASK, {"work": work, "rsa_bits": 512, "wire": WIRE})
    plain, checked = (setting.ship_s(WAITING, flags) for flags in (
        HeaderFlag.TRAILER, HeaderFlag.TRAILER | HeaderFlag.CHECKSUM))
    assert checked - plain == pytest.approx(0.0002 + setting.message_bytes(WAITING) / 1e6)


def test_one_late_message_of_many_is_seen() -> None:
    """No clock of the machine's is an excuse: the wait for a timer ends when it has to."""
    def of(*late_s: float) -> PhaseTraffic:
        batches = [([(place * 0.2, 40, True)], place * 0.2 + TAKE_S + later)
                   for place, later in enumerate(late_s)]
        return phase(*batches)

    assert timing.check_waits([of(*[0.0009] * 40)], SETTING).ok
    assert not timing.check_waits([of(*[0.0] * 1999, 0.0013)], SETTING).ok
    # Messages of another phase, in which nothing waits, are no excuse.
    others = replace(of(*[0.0] * 4000), name="throughput")
    assert not timing.check_waits([of(*[0.0] * 39, 0.003), others], SETTING).ok


def test_one_early_message_of_many_is_seen() -> None:
    """A shorter timeout is seen in a single ADP message."""
    def off(sooner_s: float) -> timing.TimingDeviations:
        batches = [([(place * 0.2, 40, False)], place * 0.2 + TAKE_S + SETTING.timeout_s
                    - sooner_s * (place == 5)) for place in range(40)]
        [every] = timing.find_early([phase(*batches)], SETTING).values()
        return every

    assert not off(0.0009).by_s and len(off(0.0013).by_s) == 1


def test_one_with_two_reasons_is_never_excused() -> None:
    """The first urgent message is a reason to go, at once: no clock explains the second one."""
    both: Sequence[Arrival] = [(0.01, 40, True), (0.011, 40, True)]
    [off] = timing.find_early([phase((both, 0.011 + TAKE_S))], SETTING).values()
    assert off.by_s


def test_a_message_that_nobody_captured_is_missed() -> None:
    """Then the others cannot be placed."""
    seen = phase((WAITING, 0.01 + TAKE_S + 0.04))
    lacking = replace(seen, arrivals=[*seen.arrivals, (0.2, 9, False)])
    assert timing.check_waits([seen], SETTING).ok and not timing.check_waits([lacking], SETTING).ok


def frame(at_s: float, offset: int, size: int = 1480) -> CapturedFrame:
    """A fragment of alpha's."""
    packet = bytearray(b"\x45" + bytes(19) + bytes(size))
    packet[6:8], packet[9], packet[12:16] = (offset // 8).to_bytes(2), 253, bytes((10, 9, 0, 1))
    return CapturedFrame(at_s, bytes(12) + b"\x08\x00" + bytes(packet), 34 + size)


@pytest.mark.parametrize(("factor", "early_ones", "late"), [
    (1.0, 0, 0), (0.98, 2, 0), (0.0, 2, 0), (2.0, 0, 2)])
def test_a_wires_rate_shows_between_fragments(factor: float, early_ones: int, late: int) -> None:
    """A frame of 1514 bytes and what a frame has beside takes 1.23 ms at 10 Mbit/s."""
    gap_s = factor * (1514 + 24) * 8 / 10e6
    wire = timing.measure_wire([frame(5.0 + place * gap_s, 1480 * place) for place in range(3)],
                               "10.9.0.1", WIRE)
    assert (wire.frames, wire.early, wire.following, wire.late) == (3, early_ones, 2, late)


def test_a_piece_shows_wherever_it_begins() -> None:
    """Sixteen bytes of any payload at any place; fifteen are none, nor is another seed's."""
    payload = Payload(5)
    search, piece = PieceSearch(payload), payload.message_data(77, 16)
    for place in (0, 1, 2, 3, 997):
        data = bytes(place) + piece + bytes(9)
        assert search.has_piece(data) and not PieceSearch(Payload(6)).has_piece(data)
        assert not search.has_piece(data[:place + 15])
    shown = search.search_frames([CapturedFrame(0.0, bytes(14) + piece, 60),
                                  CapturedFrame(0.0, bytes(90), 90)])
    assert (shown.frames, shown.showing, shown.cut) == (2, 1, 1)
