"""Define the metrics of a study: the numbers that it measures in each repetition.

A `Metric`, such as goodput, has a title, a unit, and the direction that is better. Studies declare
their metrics. Tables, figures and stopping rules read from them how to show and compare the
numbers. A `Stage` is a part of a repetition, such as the TCP stream. If it waits too long for the
processor, the repetition is flagged as disturbed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Metric:
    """A number that every repetition provides, such as goodput, with how it is shown.

    `name` ends in the SI unit (`_s`, `_bps`, `_bytes`, ...). Tables show the number as `title`,
    times `scale` in `unit`, with `digits` after the point (None: by the interval). `short` is the
    name for `--until-ci` and in a run's lines. `heading` has the lines of a narrow column's title.
    Metrics of one `part` stay together where a table is split.

    A difference below `negligible` does not matter. This limit is absolute (in SI units) or, if
    `is_relative`, a fraction of the baseline's mean. `difference` is the metric of the difference
    from the baseline, with its own title, if the study reports it. Positive differences are worse:
    baseline minus cell where higher is better, cell minus baseline elsewhere. A value below 0 makes
    a record unusable unless the metric is `signed`.
    """

    name: str
    title: str
    unit: str = ""
    scale: float = 1.0
    digits: int | None = None
    short: str = ""
    better: Literal["lower", "higher", ""] = ""
    negligible: float = 0.0
    is_relative: bool = False
    #: Use in a stopping rule that names no metric.
    stops: bool = False
    difference: Metric | None = None
    heading: tuple[str, ...] = ()
    part: str = ""
    signed: bool = False

    @property
    def sentence(self) -> str:
        """Return the metric's title with a capital first letter, to begin a sentence."""
        return f"{self.title[:1].upper()}{self.title[1:]}"


@dataclass(frozen=True)
class Stage:
    """A part of a repetition, such as the TCP stream, with a limit on waiting for the processor.

    It lasts from one time stamp to another. `begins` and `ends` are names of time stamps; the first
    one that the repetition has is used. If the fraction of time spent waiting exceeds `limit`, the
    repetition is flagged as disturbed.
    """

    name: str
    begins: tuple[str, ...]
    ends: tuple[str, ...]
    limit: float


def insert_before_unit(name: str, ending: str) -> str:
    """Return a name with an ending inserted before its unit.

    >>> insert_before_unit("delay_s", "p95")
    'delay_p95_s'
    """
    stem, _, unit = name.rpartition("_")
    return f"{stem}_{ending}_{unit}" if stem else f"{name}_{ending}"
