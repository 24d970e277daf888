"""Choice of the baseline, the level that other levels of a run are compared with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from analysis.errors import NothingToReport
from analysis.results import Results


@dataclass(frozen=True)
class Baseline:
    """The baseline level of each compared factor.

    `levels` is empty if there is no baseline. `note` says what is unusual about the baseline.
    """

    levels: Mapping[str, str] = field(default_factory=dict)
    note: str = ""

    @property
    def name(self) -> str:
        """Return the ids of the baseline's levels joined by "-", or "" without a baseline."""
        return "-".join(self.levels.values())

    def baseline_cell(self, results: Results, ids: tuple[str, ...]) -> tuple[str, ...] | None:
        """Return the cell that a cell is compared with.

        Args:
            results: The results, which give the order of the factors.
            ids: The ids of the cell's levels.

        Returns:
            The ids of the baseline's cell. None for a cell of the baseline itself, and without a
            baseline.
        """
        if not self.levels:
            return None
        cell = tuple(self.levels.get(name, level)
                     for name, level in zip(results.names, ids, strict=True))
        return None if cell == ids else cell

    def is_baseline(self, results: Results, ids: tuple[str, ...]) -> bool:
        """Return whether a cell is a baseline cell, with which others are compared."""
        return bool(self.levels) and self.baseline_cell(results, ids) is None


def choose_baseline(results: Results, choice: str = "") -> Baseline:
    """Return the baseline that the user asked for, or else the study's own baseline.

    If the baseline level has no records, another level with the same content replaces it. This
    happens only if there is exactly one such level.

    Args:
        results: The results of the run.
        choice: The user's choice: `LEVEL` or `FACTOR=LEVEL,...`; "" for the study's own baseline.

    Returns:
        The baseline, without levels if no record can serve as one.

    Raises:
        NothingToReport: A factor does not exist, or neither the plan nor any record has the level.
    """
    levels = dict(results.study.baseline)
    if choice:
        levels |= _parse_choice(results, choice)
    notes = []
    for factor, level in list(levels.items()):
        if factor not in results.names:
            del levels[factor]
            continue
        standing, note = _find_substitute(results, factor, level)
        if note:
            notes.append(note)
        if standing is None:
            return Baseline({}, note)
        levels[factor] = standing
    return Baseline(levels, " ".join(notes))


def _parse_choice(results: Results, choice: str) -> dict[str, str]:
    asked_of = _split_choice(results, choice if "=" in choice
                             else f"{results.compared[0]}={choice}")
    for factor, level in asked_of.items():
        if level not in (*results.levels[factor], results.study.baseline.get(factor)):
            raise NothingToReport(f"--baseline {choice}: {factor} has no level {level!r} here; it "
                                  f"is one of {', '.join(results.levels[factor])}")
    return asked_of


def _split_choice(results: Results, choice: str) -> dict[str, str]:
    pairs = {name.strip(): level.strip() for name, _, level in (
        part.partition("=") for part in choice.split(","))}
    unknown = [name for name in pairs if name not in results.names]
    if unknown:
        raise NothingToReport(f"--baseline {choice}: there is no factor {unknown[0]!r}; it is one "
                              f"of {', '.join(results.names)}")
    return pairs


def _find_substitute(results: Results, factor: str, level: str) -> tuple[str | None, str]:
    """Return the level to compare with (or None) and a note on it."""
    frame = results.frame
    digests: dict[str, str] = {}
    for name, digest in zip(frame[factor].tolist(), frame[f"{factor}_sha256"].tolist(),
                            strict=True):
        digests.setdefault(name, digest)
    plain = results.study.baseline_digests.get(factor, "")
    own = results.study.baseline.get(factor, level)
    if level in digests:
        if not plain or digests[level] in ("", plain):
            return level, ""
        return level, (f"The baseline {level} is not what the study's own, {own}, is, so "
                       "differences are relative to it.")
    equal = [name for name, digest in digests.items() if plain and digest == plain]
    if len(equal) == 1:
        return equal[0], (f"There are no records of {level}; {equal[0]}, which has the same "
                          "content, is the baseline.")
    return None, (f"No differences: there are no records of the baseline {level}. Measure it in "
                  "the same run.")
