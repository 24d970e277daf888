"""Decide by confidence intervals which claims of the 1998 paper are confirmed.

A claim is a conclusion of the paper, such as "delayed authentication loses fewer packets".
`judge_claims` takes the measured values of a run. It turns each claim into numerical questions
(`_ask_` functions) and returns a verdict: confirmed, refuted or undecided. The paper is Schneck and
Schwan (1998) on signed video streams. `studies.authenticast1998` lists the terms.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from analysis.blocks import mean_of
from analysis.cells import Cells
from analysis.claims import MORE, PERCENT, Band, Claim, Question, Verdict, judge_claim, unit_of
from analysis.metrics import Metric
from analysis.statistics import Sample
from documents.yaml_reader import load_own
from studies.authenticast1998.measurements import DELAY_P99, EXPOSURE, MAX_GAP, RETENTION, SENT
from studies.authenticast1998.report import comparisons

_FILE = Path(__file__).parents[1] / "published" / "claims.yml"
#: Thresholds for retaining everything and for losing packets. The text has "reasonable" and "loss".
_ALL, _LOSS = 0.99, 0.95
#: Levels of Fig. 4 between which its curve bends (per cent), and the bend of the paper's curve.
_BENDING, _KNEE = (15, 20, 25, 30), Band(0.15, 0.25)
#: Noticeable delay (s) for "user-recognizable": up to 150 ms one way suit most applications (ITU-T
#: G.114).
_NOTICED_S = 0.15
_BELOW = "below_floor_s"
_REASONS: Mapping[str, str] = {
    "A2": "a bundle of 3 still needs more than the processor can do, and whole bundles are lost",
    "A4": "in virtual time only charged operations take time, so this shows the cost of the "
          "heuristics' messages, and not of their computing",
    "A7": "the cost of a signature at the server was chosen so that sending slows (see README)"}


def judge_claims(cells: Cells) -> list[Verdict]:
    """Judge all claims of the 1998 paper. A claim without measurements is undecided."""
    questions = {"A1": _ask_steepness, "A2": _ask_delayed, "A3": _ask_blend,
                 "A4": _ask_free_operations, "A5": _ask_drastic_drop,
                 "A6": _ask_gap, "A7": _ask_clients, "A8": _ask_range}
    observations = comparisons.select_wired({**cells.observations, **{
        (_BELOW, *ids): observed for ids in cells.results.cells
        if (observed := cells.mean_of_any(_BELOW, ids)) is not None}})
    documents: list[dict[str, Any]] = load_own(_FILE)
    return [judge_claim(Claim(**document), list(questions[document["id"]]()), observations,
                        _REASONS.get(document["id"], ""), cells.results.planned_looks)
            for document in documents]


def _cell_key(metric: Metric, heuristic: str, clients: str = "1",
              load: str = "idle") -> tuple[str, ...]:
    return (metric.name, heuristic, clients, load)


def _share_question(label: str, key: tuple[str, ...], band: Band) -> Question:
    return Question(label, [key], band, PERCENT, mean_of)


def _first_less_second(means: Sample) -> Any:
    """Return the first measured mean minus the second one, as the answer to a question."""
    return means[..., 0] - means[..., 1]


def _difference_question(label: str, metric: Metric, first: tuple[str, str, str],
                         second: tuple[str, str, str]) -> Question:
    return Question(label, [_cell_key(metric, *first), _cell_key(metric, *second)], MORE,
                    unit_of(metric),
                    _first_less_second)


def _ask_steepness() -> Iterator[Question]:
    yield _share_question("15 % verified", _cell_key(RETENTION, "p15", "5"), Band(low=_LOSS))
    yield _share_question("30 % verified", _cell_key(RETENTION, "p30", "5"), Band(high=_LOSS))
    yield Question(f"verified where less than {100 * _ALL:.0f} % begin to be retained",
                   [_cell_key(RETENTION, f"p{level}", "5") for level in _BENDING], _KNEE, PERCENT,
                   knee_share)
    yield _difference_question("retained at 20 % less at 50 %", RETENTION, ("p20", "5", "idle"),
                               ("p50", "5", "idle"))


def knee_share(retained: Sample) -> Any:
    """Return the verified fraction above which a receiver begins to lose packets.

    It is the fraction at which the curve of retained packets falls below `_ALL`, with linear
    interpolation. If it never falls that far, the result is the largest measured fraction. If it is
    below from the start, the result is the smallest.

    Args:
        retained: fractions of retained packets. The last axis is that of the verified fractions in
            `_BENDING`.
    """
    falls = np.argmax(retained < _ALL, axis=-1)[..., None]
    behind = np.clip(falls, 1, len(_BENDING) - 1)
    levels = np.asarray(_BENDING) / 100
    (before, after) = (np.take_along_axis(retained, place, axis=-1)[..., 0]
                       for place in (behind - 1, behind))
    low, high = levels[behind - 1][..., 0], levels[behind][..., 0]
    between = low + (high - low) * (before - _ALL) / np.where(before > after, before - after, 1)
    outside = np.where(retained[..., 0] < _ALL, levels[0], levels[-1])
    return np.where(falls[..., 0] > 0, between, outside)


def _ask_delayed() -> Iterator[Question]:
    yield _difference_question("delayed less 100 %, 1 client", RETENTION, ("delayed", "1", "idle"),
                               ("p100", "1", "idle"))
    yield _difference_question("delayed less 100 %, 5 clients", RETENTION, ("delayed", "5", "idle"),
                               ("p100", "5", "idle"))


def _ask_blend() -> Iterator[Question]:
    yield _difference_question("blend less delayed, 1 client", RETENTION,
                               ("adaptive-1998", "1", "idle"),
                               ("delayed", "1", "idle"))
    yield _difference_question("blend less 100 %, 1 client", RETENTION,
                               ("adaptive-1998", "1", "idle"),
                               ("p100", "1", "idle"))


def _ask_free_operations() -> Iterator[Question]:
    yield _share_question("retained without security operations",
                          _cell_key(RETENTION, "adaptive-1998", "1", "free"), Band(low=_ALL))
    yield Question("99th percentile of the delay more than without heuristics",
                   [_cell_key(DELAY_P99, "adaptive-1998", "1", "free"),
                    _cell_key(DELAY_P99, "p0", "1", "free")], Band(high=_NOTICED_S),
                   unit_of(DELAY_P99),
                   _first_less_second)


def _ask_drastic_drop() -> Iterator[Question]:
    yield _difference_question("retained after a drop to 10 % less after one to 18 %", RETENTION,
                               ("adaptive-1998", "1", "idle"), ("adaptive-gradual", "1", "idle"))
    yield _difference_question("exposed after a drop to 18 % less after one to 10 %", EXPOSURE,
                               ("adaptive-gradual", "1", "idle"), ("adaptive-1998", "1", "idle"))


def _ask_gap() -> Iterator[Question]:
    yield _share_question("retained with LIMIT 60", _cell_key(RETENTION, "adaptive-1998"),
                          Band(low=_ALL))
    yield _share_question("retained with LIMIT 150", _cell_key(RETENTION, "adaptive-limit-150"),
                          Band(high=_ALL))
    yield Question("largest gap with LIMIT 150", [_cell_key(MAX_GAP, "adaptive-limit-150")],
                   Band(low=100.0), unit_of(MAX_GAP), mean_of)


def _ask_clients() -> Iterator[Question]:
    yield _difference_question("5 clients less 1, retention", RETENTION, ("delayed", "5", "idle"),
                               ("delayed", "1", "idle"))
    yield _difference_question("1 client less 5, sending rate", SENT, ("delayed", "1", "idle"),
                               ("delayed", "5", "idle"))


def _ask_range() -> Iterator[Question]:
    for heuristic in ("adaptive-1998", "adaptive-1998-delayed-first", "bounded", "floor"):
        yield Question(f"seconds below the floor, {heuristic}", [(_BELOW, heuristic, "1", "idle")],
                       Band(0.0, 0.0), unit_of(DELAY_P99), mean_of)
