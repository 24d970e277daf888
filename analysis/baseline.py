"""The baseline: the level that others are compared with, chosen once for a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from analysis.errors import NothingToReport
from analysis.results import Results


@dataclass(frozen=True)
class Baseline:
    """The level of each compared factor that others are compared with, empty if there is none.

    `note` says what is unusual.
    """

    levels: Mapping[str, str] = field(default_factory=dict)
    note: str = ""

    @property
    def name(self) -> str:
        """Its levels' ids, "" without one."""
        return "-".join(self.levels.values())

    def of(self, results: Results, ids: tuple[str, ...]) -> tuple[str, ...] | None:
        """The cell that a cell is compared with; None for the baseline itself, and without one."""
        if not self.levels:
            return None
        cell = tuple(self.levels.get(name, level)
                     for name, level in zip(results.names, ids, strict=True))
        return None if cell == ids else cell

    def holds(self, results: Results, ids: tuple[str, ...]) -> bool:
        """Whether a cell is one that others are compared with."""
        return bool(self.levels) and self.of(results, ids) is None


def choose(results: Results, asked: str = "") -> Baseline:
    """The baseline asked for (`LEVEL`, or `FACTOR=LEVEL,...`), and else the study's own.

    Where its level has no records, another with the same content stands in, if there is just one.
    Raises NothingToReport for a factor that there is not, and for a level that neither the plan nor
    any record has.
    """
    levels = dict(results.study.baseline)
    if asked:
        levels |= _asked(results, asked)
    notes = []
    for factor, level in list(levels.items()):
        if factor not in results.names:
            del levels[factor]
            continue
        standing, note = _stand_in(results, factor, level)
        if note:
            notes.append(note)
        if standing is None:
            return Baseline({}, note)
        levels[factor] = standing
    return Baseline(levels, " ".join(notes))


def _asked(results: Results, asked: str) -> dict[str, str]:
    asked_of = _pairs(results, asked if "=" in asked else f"{results.compared[0]}={asked}")
    for factor, level in asked_of.items():
        if level not in (*results.levels[factor], results.study.baseline.get(factor)):
            raise NothingToReport(f"--baseline {asked}: {factor} has no level {level!r} here; it "
                                  f"is one of {', '.join(results.levels[factor])}")
    return asked_of


def _pairs(results: Results, asked: str) -> dict[str, str]:
    pairs = {name.strip(): level.strip() for name, _, level in (
        part.partition("=") for part in asked.split(","))}
    unknown = [name for name in pairs if name not in results.names]
    if unknown:
        raise NothingToReport(f"--baseline {asked}: there is no factor {unknown[0]!r}; it is one "
                              f"of {', '.join(results.names)}")
    return pairs


def _stand_in(results: Results, factor: str, asked: str) -> tuple[str | None, str]:
    """The level to compare with, and what is to be said of it."""
    frame = results.frame
    digests: dict[str, str] = {}
    for name, digest in zip(frame[factor].tolist(), frame[f"{factor}_sha256"].tolist(),
                            strict=True):
        digests.setdefault(name, digest)
    plain = results.study.baseline_digests.get(factor, "")
    own = results.study.baseline.get(factor, asked)
    if asked in digests:
        if not plain or digests[asked] in ("", plain):
            return asked, ""
        return asked, (f"The baseline {asked} is not what the study's own, {own}, is, so "
                       "differences are relative to it.")
    equal = [name for name, digest in digests.items() if plain and digest == plain]
    if len(equal) == 1:
        return equal[0], (f"There are no records of {asked}; {equal[0]}, which has the same "
                          "content, is the baseline.")
    return None, (f"No differences: there are no records of the baseline {asked}. Measure it in "
                  "the same run.")
