"""Footnotes of a run's table on intervals, circumstances and mixed records."""

from __future__ import annotations

from collections.abc import Iterator

from analysis.cells import Cells
from analysis.contention import contention_lines
from analysis.metrics import Metric
from analysis.records import Frame
from analysis.results import Results
from analysis.text import count_noun

_MAX_COMPLAINTS = 5


def describe_intervals(cells: Cells) -> str:
    """Return a sentence on the kind of the intervals and the number of repetitions."""
    counts = {(standing.good, standing.total) for standing in
              map(cells.standing, cells.results.cells)}
    text = "mean \N{PLUS-MINUS SIGN} half of the 95 % interval (Student's t) of n good repetitions"
    totals = {total for _, total in counts}
    if totals == {1}:
        return "One repetition a cell: values without interval; ask for more with --repetitions."
    if all(good == total for good, total in counts) and len(totals) == 1:
        said = f"Each value: {text}, n = {min(totals)} in every cell."
    else:
        said = f"Each value: {text}; column n gives good of planned."
    # The 95 % quantile of Student's t is 12.7 for two values, 4.3 for three and 2.8 for five.
    return said + " Two make wide intervals: take five or more." if max(totals) == 2 else said


def describe_differences(cells: Cells) -> Iterator[str]:
    """Yield a sentence that explains the differences from the baseline, if any are reported."""
    reported: list[Metric] = [metric.difference for metric in cells.results.study.metrics
                              if metric.difference is not None]
    if cells.baseline.levels and reported:
        titles = " and ".join(metric.sentence for metric in reported)
        what = "the difference" if len(reported) == 1 else "differences"
        yield (f"{titles}: {what} from {cells.baseline.name} within blocks (repetitions), "
               "averaged; positive is worse.")


def describe_circumstances(results: Results) -> str:
    """Return sentences on the circumstances of a run.

    They name the medium, wires, clock, machine and builder.
    """
    frame, wires = results.frame, results.wires
    medium = _join_distinct(frame, "medium") or ("none" if wires else
                                                 "none given (as fast as the emulator)")
    if air := _join_distinct(frame, "air"):
        medium = f"{medium} (air: {air})"
    wired = f" Wires: {wires}." if wires else ""
    return (f"Medium: {medium}.{wired} Clock: {_join_distinct(frame, 'clock') or 'not recorded'}. "
            f"Machine: {_join_distinct(frame, 'machine') or 'not recorded'}. "
            f"Builder: {_join_distinct(frame, 'builder') or 'not recorded'}.")


def describe_baseline(cells: Cells) -> Iterator[str]:
    """Yield sentences on an unusual baseline, and on surroundings where the baseline is missing."""
    results = cells.results
    if _join_distinct(results.frame, "fault"):  # a negative control has no good repetitions
        return
    if cells.baseline.note:
        yield cells.baseline.note
    if not cells.baseline.levels or not any(metric.difference for metric in results.study.metrics):
        return
    for section, members in cells.sections.items():
        base = [ids for ids in members if cells.baseline.is_baseline(results, ids)]
        if results.surroundings and not any(cells.standing(ids).good for ids in base):
            yield (f"No differences in {', '.join(section)}: the baseline {cells.baseline.name} "
                   "has no good repetition there.")


def describe_data(cells: Cells) -> Iterator[str]:
    """Yield warnings on left-out, flagged or mixed records.

    They belong before the table.
    """
    results = cells.results
    yield from results.notices
    if results.left_out:
        yield results.left_out
    yield from contention_lines(results)
    yield from _describe_mixtures(results.frame, results.good, results.names)


def list_complaints(cells: Cells) -> Iterator[str]:
    """Yield a line for each unusable file of the cells' results, as `list_result_complaints`."""
    return list_result_complaints(cells.results)


def list_result_complaints(results: Results) -> Iterator[str]:
    """Yield lines for at most five unusable files, and the number of others."""
    lines = results.complaints
    if lines:
        yield (f"{count_noun(len(lines), 'file is', 'files are')} no usable record and left out:")
        yield from lines[:_MAX_COMPLAINTS]
    if len(lines) > _MAX_COMPLAINTS:
        yield f"and {len(lines) - _MAX_COMPLAINTS} more"


def _describe_mixtures(frame: Frame, good: Frame, factors: tuple[str, ...]) -> Iterator[str]:
    """Yield warnings where a mean mixes records of different content or circumstances."""
    for factor in factors:
        pairs = set(zip(good[factor], good[f"{factor}_sha256"], strict=True))
        names = [name for name, _ in sorted(pairs)]
        if changed := sorted({name for name in names if names.count(name) > 1}):
            yield (f"{', '.join(changed)}: records of different versions of the {factor} are "
                   "averaged; keep each version in a folder of its own.")
    for column in ("medium", "machine", "builder"):
        # A study may vary these between cells. Within one cell a difference is a mistake.
        if len(good) and good.groupby(list(factors))[column].nunique().max() > 1:
            yield (
                f"Records of different {column} ({_join_distinct(good, column)}) are averaged; "
                "keep "
                   "each in a folder of its own.")
    if faults := _join_distinct(frame, "fault"):
        yield f"Negative control: the fault '{faults}' was put in, so failures are meant."


def _join_distinct(frame: Frame, column: str) -> str:
    return ", ".join(sorted({str(value) for value in frame[column].unique()} - {""}))
