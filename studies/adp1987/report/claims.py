"""Decide by measured values which claims of the 1987 paper on ADP are confirmed.

A claim is a conclusion of the paper, such as "queueing improves throughput". The paper has eight
claims, D1 to D8. `judge_claims` takes the measured values of a run. It turns each claim into
numerical questions and returns a verdict: confirmed, refuted or undecided. The paper is the report
of Anderson, Ferrari, Rangan and Sartirana (1987). `studies.adp1987` lists the terms.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from analysis.blocks import mean_of
from analysis.cells import Cells, Ids, Key, Observation
from analysis.claims import (
    MORE,
    PERCENT,
    TIMES,
    Band,
    DisplayUnit,
    Question,
    Verdict,
    band_around,
    judge_claim,
)
from analysis.statistics import Sample
from studies.adp1987 import published
from studies.adp1987.cells import TIMEOUTS_MS, URGENCY, cell_ids
from studies.adp1987.measurements import ESTABLISHMENT, UTILISATION
from studies.adp1987.published import L, T, scope_ids

#: Ratios for "little", "halved" and "ruinous", and a share for "next to nothing".
_LITTLE, _HALVED, _RUINED, _NOTHING = 0.95, 0.55, 0.2, 0.01
_MS = DisplayUnit("ms", 1e3)
_REASONS = {
    "D5": "urgent messages are chosen at random here; the paper does not say how it chose them, "
          "and their positions matter more than their number, as its authors say; its "
          "throughputs, except at 10 %, contradict Table 3 (Table 6 against Table 3)",
    "D6": "the paper states no key size; the charged time is that of 512-bit RSA on a 68020, "
          "measured in 1999 with a routine that may be better than that of 1987",
    "D7": "the traces are generated, and their bursts differ from those of the paper's trace"}


def judge_claims(cells: Cells) -> tuple[Verdict, ...]:
    """Return a verdict on each claim of the paper, in its order."""
    questions = {"D1": _scope_questions, "D2": _queue_questions, "D3": _software_questions,
                 "D4": _timeout_questions, "D5": _urgency_questions,
                 "D6": _establishment_questions, "D7": _distribution_questions,
                 "D8": _utilisation_questions}
    observations = _select_observations(cells)
    return tuple(judge_claim(claim, list(questions[name]()), observations, _REASONS.get(name, ""),
                             cells.results.planned_looks)
                 for name, claim in published.load_claims().items())


def _select_observations(cells: Cells) -> Mapping[Key, Observation]:
    """Return the measured values of all metrics, with median and deviation of the latency."""
    further = {(name, *cell): cells.value(name, cell) for cell in cells.results.cells
               for name in ("latency_median_s", "latency_deviation_s")}
    return {**cells.observations,
            **{key: value for key, value in further.items() if isinstance(value, Observation)}}


def _ratio_question(label: str, metric: str, above: Ids, below: Ids, band: Band) -> Question:
    return Question(label, [(metric, *above)], band, TIMES, below=[(metric, *below)])


def _scope_questions() -> Iterator[Question]:
    for trace in ("ALL", "ND"):
        plain = scope_ids(trace, "NE", "ON")
        yield _ratio_question(f"{trace}: T of PE / NE", T, scope_ids(trace, "PE", "ON"), plain,
                              Band(_LITTLE, 1 / _LITTLE))
        yield _ratio_question(f"{trace}: T of FE / NE", T, scope_ids(trace, "FE", "ON"), plain,
                              Band(high=_HALVED))


def _queue_questions() -> Iterator[Question]:
    def more_for_latency(means: Sample) -> Any:
        return (means[..., 0] / means[..., 1]) / (means[..., 2] / means[..., 3])

    for trace in ("ALL", "ND"):
        for scope in ("NE", "PE", "FE"):
            off, on = (scope_ids(trace, scope, queue) for queue in ("OFF", "ON"))
            yield _ratio_question(f"{trace} {scope}: T with / without", T, on, off, Band(low=1.0))
            yield Question(f"{trace} {scope}: gain in L / gain in T",
                           [(L, *off), (L, *on), (T, *on), (T, *off)], Band(low=1.0), TIMES,
                           more_for_latency)


def _software_questions() -> Iterator[Question]:
    for trace in ("ALL", "ND"):
        yield _ratio_question(f"{trace}: T of SW / HW", T, cell_ids(trace, technology="SW"),
                              cell_ids(trace),
                              Band(high=_RUINED))
        yield _ratio_question(f"{trace}: L of SW / HW", L, cell_ids(trace, technology="SW"),
                              cell_ids(trace),
                              Band(low=1 / _RUINED))


def _timeout_questions() -> Iterator[Question]:
    def dip(means: Sample) -> Any:
        ends = np.minimum(means[..., 0], means[..., -1])
        return ends - means[..., 1:-1].min(axis=-1)

    for trace in ("ALL", "TCP", "ND"):
        yield _ratio_question(f"{trace}: T at 200 / 100 ms", T, cell_ids(trace, timeout="200"),
                              cell_ids(trace, timeout="100"), Band(_LITTLE, 1 / _LITTLE))
        yield Question(f"{trace}: L at the ends less its minimum between", _cell_keys(L, [
            cell_ids(trace, timeout=str(value)) for value in TIMEOUTS_MS]), MORE, _MS, dip)


def _urgency_questions() -> Iterator[Question]:
    def rise(means: Sample) -> Any:
        return np.diff(means, axis=-1).max(axis=-1)

    def fall(means: Sample) -> Any:
        return -np.diff(means, axis=-1).min(axis=-1)

    rows = [cell_ids("ALL", urgency=urgency) for urgency in URGENCY]
    yield Question("largest rise of T with more urgency", _cell_keys(T, rows), MORE,
                   DisplayUnit("kB/s", 1e-3), rise)
    yield Question("largest fall of L with more urgency", _cell_keys(L, rows), MORE, _MS, fall)


def _establishment_questions() -> Iterator[Question]:
    yield Question("C", [(ESTABLISHMENT.name, *cell_ids("ALL"))],
                   band_around(published.load_values().establishment_s), _MS, mean_of)


def _distribution_questions() -> Iterator[Question]:
    printed = published.load_values().figure_7_ms
    for name, key in ((L, "mean"), ("latency_median_s", "median"),
                      ("latency_deviation_s", "deviation")):
        yield Question(key, [(name, *cell_ids("ALL"))], band_around(printed[key] / 1e3), _MS,
                       mean_of)


def _utilisation_questions() -> Iterator[Question]:
    def difference(means: Sample) -> Any:
        return means[..., 0] - means[..., 1]

    yield Question("ND: utilisation of PE less NE", _cell_keys(UTILISATION.name, [
        scope_ids("ND", scope, "ON") for scope in ("PE", "NE")]), Band(-_NOTHING, _NOTHING),
        PERCENT, difference)


def _cell_keys(metric: str, cells: Sequence[Ids]) -> list[Key]:
    return [(metric, *cell) for cell in cells]
