"""A metric says once what a number is: title, unit, which way is better, what is negligible.

Studies declare them; whoever counts, compares or presents reads them here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Metric:
    """A number that every repetition hands up; it is stated here and nowhere else.

    `name` ends in its SI unit (`_s`, `_bps`, `_bytes`, ...). It is shown as `title`, times `scale`
    in `unit`, with `digits` after the point (None: by the interval). `short` is what `--until-ci`
    and a run's lines call it, `heading` the lines of a narrow column's title; metrics of one `part`
    stay together where a table has to be split. A difference is negligible
    below `negligible`, which is absolute (in SI units) or, where `is_relative`, a share of the
    baseline's mean. `difference` names the difference from the baseline where the study reports it:
    a metric of its own, with its title. It is by how much a cell is worse: baseline minus cell
    where higher is better, cell minus baseline elsewhere. A value below 0 makes a record unusable
    unless the metric is `signed`.
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
    #: Whether a stopping rule without names looks at it.
    stops: bool = False
    difference: Metric | None = None
    heading: tuple[str, ...] = ()
    part: str = ""
    signed: bool = False

    @property
    def sentence(self) -> str:
        """The title as a sentence or a heading begins with it."""
        return f"{self.title[:1].upper()}{self.title[1:]}"


@dataclass(frozen=True)
class Stage:
    """A part of a repetition between two stamps, and what share of it may be spent waiting.

    `begins` and `ends` are names of stamps, the first that a repetition has counts. Above `limit`,
    waiting for the processor was what limited this stage, and the repetition is flagged.
    """

    name: str
    begins: tuple[str, ...]
    ends: tuple[str, ...]
    limit: float


def named(name: str, ending: str) -> str:
    """A name with an ending before its unit.

    >>> named("delay_s", "p95")
    'delay_p95_s'
    """
    stem, _, unit = name.rpartition("_")
    return f"{stem}_{ending}_{unit}" if stem else f"{name}_{ending}"
