"""Waits in real time are judged where some messages are late for a host's reasons."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from measure.capture.pcap import CapturedFrame
from measure.checks.observation import Check
from protocols.adp.packets import Frame, HeaderFlag, MessageKind
from studies.adp1987.programs import carriers
from studies.adp1987.proof import realtime_checks
from studies.adp1987.proof.captured_messages import PROTOCOL
from studies.adp1987.proof.timing import Arrival

TASK: dict[str, Any] = {"protocol": "adp", "queue": True, "timeout_s": 0.04, "bound_bytes": 8192}
BEGUN_S, SOURCE = 1700000000.0, "10.9.0.1"
#: Every tenth of a second one that waits, and another one 60 ms later that is urgent.
TRACE: Sequence[Arrival] = [(n / 10 + offset_s, 100, urgent) for n in range(40)
                            for offset_s, urgent in ((0.0, False), (0.06, True))]


def frame(at_s: float, count: int) -> CapturedFrame:
    """The head of an ADP message with so many user messages."""
    content = Frame(2, MessageKind.DATA, HeaderFlag.SEALED | HeaderFlag.ALL, count, bytes(8),
                    bytes(8)).clear_bytes()
    packet = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(content), 1, 0, 64, PROTOCOL, 0,
                         bytes((10, 9, 0, 1)), bytes((10, 9, 0, 2))) + content
    return CapturedFrame(BEGUN_S + at_s, bytes(12) + b"\x08\x00" + packet, 14 + len(packet))


def check(*sent: tuple[float, int], trace: Sequence[Arrival] = TRACE, **task: Any) -> Check:
    """What is judged of ADP messages that went then, each with so many user messages."""
    frames = [frame(at_s, count) for at_s, count in sent]
    return realtime_checks.check_waits(realtime_checks.measure_waits(frames, SOURCE, trace,
                                                                     TASK | task))


def went(timeout_s: float, *, late_s: float = 0.0, every: int = 1) -> list[tuple[float, int]]:
    """The trace by a host with this timeout, which is late by so much but for some."""
    sent = [(at_s + (0.0 if urgent else timeout_s), 1) for at_s, _, urgent in TRACE]
    return [(0.2 + at_s + late_s * bool(number // 2 % every), count)
            for number, (at_s, count) in enumerate(sent)]


def test_what_goes_when_it_has_to_is_in_time() -> None:
    """Whenever the phase began: the messages themselves say that."""
    came = check(*went(0.04))
    assert came.ok
    assert came.detail.startswith("ADP messages by how much later they went than they had to: "
                                  "40 urgent (a quarter by 0.00 ms at most")


def test_a_host_that_is_often_late_is_no_longer_timeout() -> None:
    """Two thirds of all are 15 ms late: a machine with other work."""
    assert check(*went(0.04, late_s=0.015, every=3)).ok


@pytest.mark.parametrize("timeout_s", [0.055, 0.02])
def test_another_timeout_is_told_in_all_messages(timeout_s: float) -> None:
    """Longer or shorter: then those that are urgent come late, against the quickest."""
    assert not check(*went(timeout_s)).ok


def test_a_host_that_lags_behind_is_late_from_the_message_before() -> None:
    """Half a second behind its trace without a queue, it sends each right after the last."""
    trace = [(n / 1000, 100, False) for n in range(200)]
    sent = [(at_s, 1) for at_s, _, _ in trace[:20]] + [(0.5 + n / 1000, 1) for n in range(180)]
    assert check(*sent, trace=trace, queue=False).ok


def test_a_message_without_a_reason_and_one_that_is_missing_are_told() -> None:
    """An urgent one that waited for the next, and one that no capture has."""
    first, *rest = went(0.04)
    late = check(first, (rest[1][0], 2), *rest[2:])
    assert not late.ok and "1 without a reason" in late.detail
    missing = check(*went(0.04)[:-1])
    assert not missing.ok and "1 user messages cannot be placed" in missing.detail


def test_no_message_at_all_is_not_in_time() -> None:
    """Nothing captured proves nothing."""
    assert not check(trace=[]).ok


@given(left_s=st.floats(0.0, 1e7))
def test_a_long_wait_ends_before_its_time(left_s: float) -> None:
    """select may be late by a thousandth of its timeout: a message was late by its pause."""
    timeout_s = carriers.select_timeout_s(left_s)
    assert 0.0 <= timeout_s <= left_s
    assert timeout_s * 1.001 <= max(left_s, 0.051)
