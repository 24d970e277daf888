"""Exact solution for two saturated stations, which Bianchi's model only approximates.

The model assumes that stations are independent, which is least true for two. Two stations have few
enough states for a Markov chain of the protocol itself (IEEE 802.11-2007, 9.2), from one
transmission to the next. The station that succeeded draws a new backoff, and the other keeps its
remaining slots. After a collision both draw. There is no approximation and no random error.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from harness.selftest.contention import Saturation, frame_settings
from topologies.timing import Medium

_CLOSE = 1e-11
_ROUNDS = 100_000
_Floats = npt.NDArray[np.float64]


@dataclass
class _Round:
    """The result of a round: probabilities of the states after it, and slots and collisions.

    `left` are the states after a success, by the other station's stage and remaining slots. `both`
    are the states after a collision, by both stages. `slots` is the mean number of slots that
    passed, `collides` the probability of a collision.
    """

    left: _Floats
    both: _Floats
    slots: float = 0.0
    collides: float = 0.0


def solve_saturated(medium: Medium, payload_bytes: int) -> Saturation:
    """Return the total throughput of two stations that always have a frame."""
    own = frame_settings(medium, payload_bytes)
    last = own["retries"]
    slots, collides = _solve_chain(tuple(min((own["cw_min"] + 1) << stage, own["cw_max"] + 1)
                                         for stage in range(last + 1)), own["timeout_slots"])
    through = 1 - collides
    mean_ns = (own["difs_ns"] + own["frame_ns"] + slots * own["slot_ns"]
               + through * own["after_frame_ns"] + collides * own["after_garbled_ns"])
    return Saturation(through / mean_ns * 1e9, 2 * collides / (through + 2 * collides))


@functools.cache
def _solve_chain(windows: tuple[int, ...], timeout_slots: int) -> tuple[float, float]:
    """Return the mean slots of a round, and its collision probability.

    Both are independent of the duration of frames.
    """
    chain = _Chain(windows, timeout_slots)
    now = chain.first_round()
    for _ in range(_ROUNDS):
        after = chain.next_round(now)
        moved = np.abs(after.left - now.left).sum() + np.abs(after.both - now.both).sum()
        now = after
        if moved < _CLOSE:
            return float(now.slots), float(now.collides)
    raise ArithmeticError("two stations: the chain does not settle")


class _Chain:
    """A Markov chain of rounds, each of which ends with one transmission or a collision."""

    def __init__(self, windows: tuple[int, ...], timeout_slots: int) -> None:
        self._first, self._longest = windows[0], max(windows)
        # Both stations wait this long after a collision, so none of the timeout remains.
        self._timeout_slots = timeout_slots
        # Over all pairs of draws, by the stages of the first and the second station: the share of
        # draws in which the second has a given number of slots left, the share of equal draws, and
        # the mean of the earlier draw.
        one, other = np.array(windows)[:, None], np.array(windows)[None, :]
        pairs, less = one * other, np.minimum(one, other)
        apart = np.arange(1, self._longest)
        self._apart = np.clip(other[..., None] - apart, 0, one[..., None]) / pairs[..., None]
        self._equal = less / pairs
        earlier = np.arange(self._longest)
        self._earlier = (np.where(earlier < less[..., None], earlier * (
            (one + other - 1)[..., None] - 2 * earlier), 0)).sum(axis=2) / pairs

    def first_round(self) -> _Round:
        """Return the first round, in which both draw."""
        stages = len(self._equal)
        both = np.zeros((stages, stages))
        both[0, 0] = 1.0
        return _Round(np.zeros((stages, self._longest)), both)

    def next_round(self, before: _Round) -> _Round:
        """Return the next round."""
        after = _Round(np.zeros_like(before.left), np.zeros_like(before.both))
        self._one_drew(before.left, after)
        self._both_drew(before.both, after)
        return after

    def _one_drew(self, left: _Floats, after: _Round) -> None:
        """Let the station that succeeded draw, against the other's remaining slots.

        It draws from the first window.
        """
        window = self._first
        # It sends first, and the other has that many slots less; or both send at once.
        until = np.cumsum(np.pad(left, ((0, 0), (1, window))), axis=1)
        after.left[:, 1:] += (until[:, window + 1:-1] - until[:, 1:-1 - window]) / window
        self._collide(np.pad(until[None, :, window] / window,
                             ((0, len(left) - 1), (0, 0))), after)
        # The other sends first and draws next: then this station has slots left.
        slots = left.sum(axis=0) / window
        drawn = np.arange(window)
        after.left[0, 1:window] += np.cumsum(slots[:window - 1])[::-1]
        # The slots that have passed, whichever station sends first.
        after.slots += (drawn * (slots.sum() - np.cumsum(slots[:window]) + slots[:window])).sum()
        after.slots += (drawn * slots[:window] * (window - 1 - drawn)).sum()

    def _both_drew(self, both: _Floats, after: _Round) -> None:
        """Let both stations draw, each from its window."""
        after.left[:, 1:] += np.einsum("ij,ijk->jk", both + both.T, self._apart)
        self._collide(both * self._equal, after)
        after.slots += (both * self._earlier).sum() + both.sum() * self._timeout_slots

    @staticmethod
    def _collide(both: _Floats, after: _Round) -> None:
        """Move both to their next stage. After the last stage the frame is dropped."""
        after.both += np.roll(both, (1, 1), axis=(0, 1))
        after.collides += both.sum()
