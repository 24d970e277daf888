"""Tests of TCP's streams: whatever way segments come, the bytes and their times are right."""

from __future__ import annotations

import random
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from measure.packets.messages import TcpStream, stream_offset

TEXT = bytes(range(256)) * 4


def test_segments_in_order_are_one_piece() -> None:
    """Each place was reached when the segment that has it came."""
    stream = TcpStream()
    assert stream.add_segment(0, b"abc", 1.0)
    assert stream.add_segment(3, b"de", 2.0)
    [piece] = stream.contiguous_parts()
    assert piece.data == b"abcde"
    assert [piece.reached_s(size) for size in (1, 3, 4, 5)] == [1.0, 1.0, 2.0, 2.0]


def test_segment_that_comes_late_delays_what_follows_it() -> None:
    """A gap that is filled later: everything behind it was not there before."""
    stream = TcpStream()
    for place, data, at_s in ((0, b"ab", 1.0), (4, b"ef", 2.0), (2, b"cd", 3.0)):
        assert stream.add_segment(place, data, at_s)
    [piece] = stream.contiguous_parts()
    assert piece.data == b"abcdef"
    assert [piece.reached_s(size) for size in (2, 3, 5)] == [1.0, 3.0, 3.0]


def test_bytes_that_come_again_are_those_of_the_first_time() -> None:
    """In one piece with new ones, in other pieces, or alone, which is nothing new."""
    stream = TcpStream()
    stream.add_segment(0, b"ab", 1.0)
    stream.add_segment(4, b"ef", 2.0)
    assert not stream.add_segment(4, b"XY", 3.0)
    assert stream.add_segment(0, b"ABcdEFg", 4.0)
    [piece] = stream.contiguous_parts()
    assert piece.data == b"abcdefg"


def test_gap_divides_a_stream() -> None:
    """What a capture lacks is not made up."""
    stream = TcpStream()
    stream.add_segment(0, b"ab", 1.0)
    stream.add_segment(3, b"d", 2.0)
    assert [(piece.place, piece.data) for piece
            in stream.contiguous_parts()] == [(0, b"ab"), (3, b"d")]


def test_numbers_go_around() -> None:
    """Before the first and past 2^32."""
    assert stream_offset(5, 0xFFFFFFFE) == 7
    assert stream_offset(0xFFFFFFFE, 5) == -7


@given(st.randoms(use_true_random=False))
def test_any_order_of_any_pieces_gives_the_stream(chance: random.Random) -> None:
    """Overlaps, repetitions and any order: the bytes are the stream's, and times never go back."""
    cuts = sorted({0, len(TEXT), *(chance.randrange(len(TEXT)) for _ in range(10))})
    segments = list(pairwise(cuts))
    segments += [(a, chance.randint(a, len(TEXT))) for a, _ in segments[:5]]
    chance.shuffle(segments)
    stream = TcpStream()
    for at_s, (first, end) in enumerate(segments):
        stream.add_segment(first, TEXT[first:end], float(at_s))
    [piece] = stream.contiguous_parts()
    assert piece.data == TEXT
    times = [piece.reached_s(size) for size in range(1, len(TEXT) + 1)]
    assert times == sorted(times)
    assert times[-1] <= len(segments)
