"""Confidence levels for a run that is judged several times while repetitions are added.

`./qop run --until-decided` needs them. It judges the claims of a study, and adds repetitions while
a claim is undecided. If it used a 95 % interval each time, more than 5 % of its decisions would be
wrong, because every judgement is another chance for an error.

So the judgements, called looks, are planned before the run. The permitted error of 5 % is divided
among them: the interval at each look has a level above 95 %. Then all intervals together hold with
95 %, whatever made the run stop. Such intervals are called repeated confidence intervals: Jennison
and Turnbull (1989), "Interim analyses: the repeated confidence interval approach", J. R. Stat. Soc.
B 51(3), 305-361.

Each look gets a part of the error in proportion to the repetitions since the look before: Lan and
DeMets (1983), "Discrete sequential boundaries for clinical trials", Biometrika 70(3), 659-663, with
the function `alpha t` of Kim and DeMets (1987), "Design and analysis of group sequential tests
based on the type I error spending rate function", Biometrika 74(1), 149-154.

The probability of any error is at most the sum of these parts (Bonferroni's inequality). This is
true for intervals of every kind, not only for Student's t. The exact joint distribution of
Student's t over five looks would make an interval only 5 % narrower.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from analysis.statistics.estimates import LEVEL

#: Growth of the number of repetitions from one look to the next.
GROWTH = 1.5


@dataclass(frozen=True)
class Looks:
    """The planned judgements of a run: the numbers of repetitions after which it is judged."""

    counts: tuple[int, ...]

    @property
    def last_count(self) -> int:
        """Return the number of repetitions at the last planned judgement."""
        return self.counts[-1]

    def find_look(self, count: int) -> int:
        """Return how many planned judgements have taken place after `count` repetitions."""
        return sum(planned <= count for planned in self.counts)

    def next_count(self, count: int) -> int | None:
        """Return the number of repetitions at the next planned judgement, None after the last."""
        return next((planned for planned in self.counts if planned > count), None)

    def raise_level(self, number: int, level: float = LEVEL) -> float:
        """Return the confidence level for one judgement, so that all together hold at `level`.

        Args:
            number: Number of the look, from 1.
            level: Level at which the intervals of all looks hold together.
        """
        before = self.counts[number - 2] if number > 1 else 0
        return 1 - (1 - level) * (self.counts[number - 1] - before) / self.last_count

    def to_text(self) -> str:
        """Return a text that lists after which numbers of repetitions a run is judged."""
        return f"after {', '.join(map(str, self.counts))} repetitions"


def plan_looks(first: int, last: int) -> Looks:
    """Return the looks (planned judgements) of a run with `first` to `last` repetitions.

    The first look comes after `first` repetitions, each further one after 1.5 times as many as the
    one before. If less than a quarter would remain after a look, it is postponed to `last`.

    Raises:
        ValueError: `last` is smaller than `first`.
    """
    counts = [first]
    while counts[-1] < last:
        following = max(counts[-1] + 1, math.ceil(counts[-1] * GROWTH))
        counts.append(last if following * (1 + GROWTH) / 2 > last else following)
    return Looks(tuple(counts))
