"""Questions about extremes that are picked by the data.

Their intervals hold for whichever cell turns out to be the extreme.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from analysis.blocks import Observations, common_blocks, find_observations
from analysis.cells import Key
from analysis.claims.finding import Band, Question, Unit
from analysis.statistics import Estimate, relative_spread


@dataclass(frozen=True)
class Extreme:
    """The largest or smallest answer to several questions of one band and unit.

    The interval reaches from the extreme of all lower ends to the extreme of all upper ends. Each
    end is at the level that Bonferroni's correction gives for that number of questions. So all
    intervals hold together, and the interval of the extreme holds too.
    """

    label: str
    among: Sequence[Question]
    pick: Literal["largest", "smallest"]

    @property
    def keys(self) -> Sequence[Key]:
        """Return the keys of all questions, each once."""
        return tuple(dict.fromkeys(key for question in self.among for key in question.keys))

    @property
    def band(self) -> Band:
        """Return the band in which the claim puts the answer."""
        return self.among[0].band

    @property
    def unit(self) -> Unit:
        """Return the unit of the answer."""
        return self.among[0].unit

    def answer(self, observations: Observations, level: float) -> Estimate | None:
        """Return the estimate with an interval of that level, or None without data.

        The result is None where a cell has no number.
        """
        each = 1 - (1 - level) / len(self.among)
        answers = [question.answer(observations, each) for question in self.among]
        known = [answer for answer in answers if answer is not None]
        if len(known) < len(answers):
            return None
        pick = max if self.pick == "largest" else min
        lows = [answer.low for answer in known if answer.low is not None]
        highs = [answer.high for answer in known if answer.high is not None]
        bounded = len(lows) == len(highs) == len(known)
        return Estimate(pick(answer.mean for answer in known), pick(lows) if bounded else None,
                        pick(highs) if bounded else None, min(answer.n for answer in known))


@dataclass(frozen=True)
class Spread:
    """The share by which the largest mean of some cells exceeds the smallest."""

    label: str
    keys: Sequence[Key]
    band: Band
    unit: Unit

    def answer(self, observations: Observations, level: float) -> Estimate | None:
        """Return the estimate with an interval of that level, or None without data.

        The result is None where a cell has no number above 0.
        """
        asked = find_observations(observations, self.keys)
        if len(asked) < 2:
            return None
        blocks = common_blocks(asked)
        means = [observation.estimate.mean for observation in asked]
        if min(means) <= 0:
            return None
        if len(blocks) < 2 or blocks.min() <= 0:
            return Estimate(max(means) / min(means) - 1, None, None, len(blocks))
        return relative_spread(blocks, level)
