"""Two stations that always have a frame, solved exactly: what Bianchi's model only approaches.

The model takes stations for independent, which two are least of all. Two have few enough states
for a Markov chain of the protocol itself (IEEE 802.11-2007, 9.2): from one transmission to the
next, who has just got through draws anew, and the other keeps what it has not counted; after a
collision, both draw. Nothing is assumed, and no chance is in it.
"""

from __future__ import annotations

from collections.abc import Mapping
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
    chain = _Chain(own)
    now = chain.start()
    for _ in range(_ROUNDS):
        after = chain.follow(now)
        moved = np.abs(after.left - now.left).sum() + np.abs(after.both - now.both).sum()
        now = after
        if moved < _CLOSE:
            break
    else:
        raise ArithmeticError("two stations: the chain does not settle")
    through = 1 - now.collides
    mean_ns = (own["difs_ns"] + own["frame_ns"] + now.slots * own["slot_ns"]
               + through * own["after_frame_ns"] + now.collides * own["after_garbled_ns"])
    return Saturation(float(through / mean_ns * 1e9),
                      float(2 * now.collides / (through + 2 * now.collides)))


class _Chain:
    """Rounds of two stations, each of which ends with a transmission, or with two at once."""

    def __init__(self, own: Mapping[str, int]) -> None:
        last = own["retries"]
        self._windows = [min((own["cw_min"] + 1) << stage, own["cw_max"] + 1)
                         for stage in range(last + 1)]
        self._next = [stage + 1 if stage < last else 0 for stage in range(last + 1)]
        # Both wait so much longer after a collision, so nothing is left of it.
        self._timeout_slots = own["timeout_slots"]

    def start(self) -> _Round:
        """Both draw."""
        stages = len(self._windows)
        both = np.zeros((stages, stages))
        both[0, 0] = 1.0
        return _Round(np.zeros((stages, max(self._windows))), both)

    def follow(self, before: _Round) -> _Round:
        """A round later."""
        after = _Round(np.zeros_like(before.left), np.zeros_like(before.both))
        self._one_drew(before.left, after)
        for one, other in np.argwhere(before.both):
            self._both_drew(int(one), int(other), before.both[one, other], after)
        return after

    def _one_drew(self, left: _Floats, after: _Round) -> None:
        """Who got through draws from the first window, beside slots that the other has left."""
        window = self._windows[0]
        slots = left.sum(axis=0) / window
        for drawn in range(window):
            # It comes first, and the other has so many slots less; or both come at once.
            after.left[:, 1:left.shape[1] - drawn] += left[:, drawn + 1:] / window
            after.slots += drawn * slots[drawn:].sum()
            for stage, probability in enumerate(left[:, drawn] / window):
                self._collide(0, stage, probability, after)
            # The other comes first, and draws in its turn: then this one has slots left.
            after.left[0, 1:drawn + 1] += slots[:drawn][::-1]
            after.slots += (np.arange(drawn) * slots[:drawn]).sum()

    def _both_drew(self, one: int, other: int, probability: float, after: _Round) -> None:
        """Both draw, each from its window; the pairs of draws are counted by their difference."""
        first, second = self._windows[one], self._windows[other]
        share, less = probability / (first * second), min(first, second)
        apart = np.arange(1, after.left.shape[1])
        after.left[other, 1:] += share * np.clip(second - apart, 0, first)
        after.left[one, 1:] += share * np.clip(first - apart, 0, second)
        self._collide(one, other, share * less, after)
        earlier = np.arange(less)
        after.slots += share * (earlier * (first + second - 2 * earlier - 1)).sum()
        after.slots += probability * self._timeout_slots

    def _collide(self, one: int, other: int, probability: float, after: _Round) -> None:
        after.both[self._next[one], self._next[other]] += probability
        after.collides += probability
