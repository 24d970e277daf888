"""Definition of the metrics of a study.

A metric states the title, the unit, the better direction and the negligible difference. Studies
declare metrics. All parts of qop that count, compare or present values read them here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Metric:
    """A number that every repetition provides.

    `name` ends in the SI unit (`_s`, `_bps`, `_bytes`, ...). Tables show the number as `title`,
    times `scale` in `unit`, with `digits` after the point (None: by the interval). `short` is the
    name for `--until-ci` and in a run's lines. `heading` has the lines of a narrow column's title.
    Metrics of one `part` stay together where a table is split.

    A difference below `negligible` does not matter. This limit is absolute (in SI units) or, if
    `is_relative`, a share of the baseline's mean. `difference` is the metric of the difference from
    the baseline, with its own title, if the study reports it. Positive differences are worse:
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
        """Return the title with a capital first letter, for a sentence or a heading."""
        return f"{self.title[:1].upper()}{self.title[1:]}"


@dataclass(frozen=True)
class Stage:
    """A part of a repetition between two stamps, with its permitted share of waiting.

    `begins` and `ends` are names of stamps; the first one that the repetition has is used. Above
    `limit`, waiting for the processor limited this stage, and the repetition is flagged.
    """

    name: str
    begins: tuple[str, ...]
    ends: tuple[str, ...]
    limit: float


def insert_before_unit(name: str, ending: str) -> str:
    """Return a name with an ending inserted before its unit.

    >>> named("delay_s", "p95")
    'delay_p95_s'
    """
    stem, _, unit = name.rpartition("_")
    return f"{stem}_{ending}_{unit}" if stem else f"{name}_{ending}"
