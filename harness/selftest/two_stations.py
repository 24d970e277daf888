"""Two stations that always have a frame, solved exactly: what Bianchi's model only approaches.

The model takes stations for independent, which two are least of all. Two have few enough states
for a Markov chain of the protocol itself (IEEE 802.11-2007, 9.2): from one transmission to the
next, who has just got through draws anew, and the other keeps what it has not counted; after a
collision, both draw. Nothing is assumed, and no chance is in it.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from harness.selftest.contention import Saturation, cell
from topologies.timing import Medium

_CLOSE = 1e-11
_ROUNDS = 100_000
_Floats = npt.NDArray[np.float64]


@dataclass
class _Round:
    """What comes of a round, as probabilities: states after it, slots that passed, collisions.

    `left` has those where one of them has got through, by the other's stage and by the slots that
    it has left; `both` those where they have collided, by the stages that they are in then.
    """

    left: _Floats
    both: _Floats
    slots: float = 0.0
    collides: float = 0.0


def saturated(medium: Medium, payload_bytes: int) -> Saturation:
    """What two stations that always have a frame get together."""
    own = cell(medium, payload_bytes)
    last = own["retries"]
    slots, collides = _settled(tuple(min((own["cw_min"] + 1) << stage, own["cw_max"] + 1)
                                     for stage in range(last + 1)), own["timeout_slots"])
    through = 1 - collides
    mean_ns = (own["difs_ns"] + own["frame_ns"] + slots * own["slot_ns"]
               + through * own["after_frame_ns"] + collides * own["after_garbled_ns"])
    return Saturation(through / mean_ns * 1e9, 2 * collides / (through + 2 * collides))


@functools.cache
def _settled(windows: tuple[int, ...], timeout_slots: int) -> tuple[float, float]:
    """The mean slots of a round, and how probably it collides: the same whatever frames last."""
    chain = _Chain(windows, timeout_slots)
    now = chain.start()
    for _ in range(_ROUNDS):
        after = chain.follow(now)
        moved = np.abs(after.left - now.left).sum() + np.abs(after.both - now.both).sum()
        now = after
        if moved < _CLOSE:
            return float(now.slots), float(now.collides)
    raise ArithmeticError("two stations: the chain does not settle")


class _Chain:
    """Rounds of two stations, each of which ends with a transmission, or with two at once."""

    def __init__(self, windows: tuple[int, ...], timeout_slots: int) -> None:
        self._first, self._longest = windows[0], max(windows)
        # Both wait so much longer after a collision, so nothing is left of it.
        self._timeout_slots = timeout_slots
        # Of all pairs of draws by stages of one and other, counted by their difference: the share
        # of those in which the other has so many slots left, of equal ones, and the mean earlier.
        one, other = np.array(windows)[:, None], np.array(windows)[None, :]
        pairs, less = one * other, np.minimum(one, other)
        apart = np.arange(1, self._longest)
        self._apart = np.clip(other[..., None] - apart, 0, one[..., None]) / pairs[..., None]
        self._equal = less / pairs
        earlier = np.arange(self._longest)
        self._earlier = (np.where(earlier < less[..., None], earlier * (
            (one + other - 1)[..., None] - 2 * earlier), 0)).sum(axis=2) / pairs

    def start(self) -> _Round:
        """Both draw."""
        stages = len(self._equal)
        both = np.zeros((stages, stages))
        both[0, 0] = 1.0
        return _Round(np.zeros((stages, self._longest)), both)

    def follow(self, before: _Round) -> _Round:
        """A round later."""
        after = _Round(np.zeros_like(before.left), np.zeros_like(before.both))
        self._one_drew(before.left, after)
        self._both_drew(before.both, after)
        return after

    def _one_drew(self, left: _Floats, after: _Round) -> None:
        """Who got through draws from the first window, beside slots that the other has left."""
        window = self._first
        # It comes first, and the other has so many slots less; or both come at once.
        until = np.cumsum(np.pad(left, ((0, 0), (1, window))), axis=1)
        after.left[:, 1:] += (until[:, window + 1:-1] - until[:, 1:-1 - window]) / window
        self._collide(np.pad(until[None, :, window] / window,
                             ((0, len(left) - 1), (0, 0))), after)
        # The other comes first, and draws in its turn: then this one has slots left.
        slots = left.sum(axis=0) / window
        drawn = np.arange(window)
        after.left[0, 1:window] += np.cumsum(slots[:window - 1])[::-1]
        # Whoever comes first, so many slots have passed.
        after.slots += (drawn * (slots.sum() - np.cumsum(slots[:window]) + slots[:window])).sum()
        after.slots += (drawn * slots[:window] * (window - 1 - drawn)).sum()

    def _both_drew(self, both: _Floats, after: _Round) -> None:
        """Both draw, each from its window."""
        after.left[:, 1:] += np.einsum("ij,ijk->jk", both + both.T, self._apart)
        self._collide(both * self._equal, after)
        after.slots += (both * self._earlier).sum() + both.sum() * self._timeout_slots

    @staticmethod
    def _collide(both: _Floats, after: _Round) -> None:
        """Each goes to its next stage; after the last one, its frame is given up."""
        after.both += np.roll(both, (1, 1), axis=(0, 1))
        after.collides += both.sum()
