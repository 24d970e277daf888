"""Decide by confidence intervals which claims of the 2004 paper are confirmed.

A claim is a conclusion such as "authentication time grows slowly with the load". E1 to E8 are the
paper's. K1 says that the queueing model predicts the measured times. `judge_claims` takes the
measured and the predicted values, and returns a verdict on each claim: confirmed, refuted or
undecided. The paper is Kambourakis, Rouskas and Gritzalis (2004) on EAP-TLS. `studies.eapload2004`
lists the terms.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from analysis.blocks import mean_of
from analysis.cells import Cells, Ids, Key, Observation
from analysis.claims import (
    MORE,
    TIMES,
    Band,
    DisplayUnit,
    Finding,
    Question,
    Verdict,
    answer_questions,
    judge_claim,
)
from analysis.statistics import Sample, mean
from studies.eapload2004 import published
from studies.eapload2004.cells import (
    HSS_RTTS_MS,
    RTTS_MS,
    SMALL_FRAGMENT_BYTES,
    TABLE_1,
    aka_ids,
    cell_ids,
)
from studies.eapload2004.measurements import SERVICE
from studies.eapload2004.model import BackgroundPrediction, measured_service_times

#: "Hardly" (the noise of the paper's own table), "much shorter", EAP-AKA's time in "no longer" (s),
#: and tolerance of a slope.
_HARDLY, _MUCH, _AKA_S, _TRIP = 0.03, 0.7, 4.0, 0.01
#: Largest distance from 1 of the interval of measured over modelled.
WITHIN = {"mean": 0.03, "p95": 0.05}
_ALIKE = 0.1
#: Utilization up to which the model has to hold.
_MAX_UTILIZATION = 0.85
_GREW = 5.761 / 4.468
_MORE_THAN_ONE = Band(low=1.0)
_OURS, _THEIRS = "measured_part_s", "modelled_part_s"
_MS, _TRIPS = DisplayUnit("ms", 1e3), DisplayUnit("round trips", 1.0)
_REASONS: Mapping[str, str] = {
    "E1": "the server's queue adds a few milliseconds to round trips of 120 ms; the paper's "
          "growth does not fit a queue at its server (see the notes on Table 1)"}


def judge_claims(cells: Cells, predicted: Sequence[BackgroundPrediction]) -> list[Verdict]:
    """Return the verdicts on all claims. A claim without measurements is undecided."""
    questions: dict[str, Callable[[], Iterator[Question]]] = {
        "E1": _load_questions, "E2": _place_questions, "E3": _rtt_questions,
        "E4": _resumption_questions, "E5": _certificate_questions,
        "E6": _aka_questions, "E7": _fragment_questions, "E8": _hss_questions}
    by_claim = {name: list(make()) for name, make in questions.items()}
    by_claim["K1"] = _equivalence_questions(predicted)
    observations = {**_service_observations(cells), **_part_observations(predicted)}
    return [judge_claim(claim, by_claim[name], observations, _REASONS.get(name, ""),
                        cells.results.planned_looks)
            for name, claim in published.load_claims().items()]


def _is_tested(point: BackgroundPrediction) -> bool:
    """Return whether a load has enough arrivals for a test of the queueing model."""
    return bool(point.parts) and point.utilization <= _MAX_UTILIZATION


def find_equivalence(predicted: Sequence[BackgroundPrediction]) -> Mapping[
        tuple[str, str], Finding]:
    """Test whether predicted and measured times are equivalent (claim K1).

    Returns:
        The answers by name of the load and by statistic, such as the mean.
    """
    findings, _ = answer_questions(_part_observations(predicted), _equivalence_questions(predicted))
    answers = {finding.label: finding for finding in findings}
    return {(each.title, figure): answers[question.label] for each in predicted
            for figure in WITHIN
            if (question := _equivalence_question(each, figure)).label in answers}


def _equivalence_questions(predicted: Sequence[BackgroundPrediction]) -> list[Question]:
    return [_equivalence_question(each, figure) for figure in WITHIN for each in predicted
            if _is_tested(each)]


def _equivalence_question(point: BackgroundPrediction, figure: str) -> Question:
    within = WITHIN[figure]
    return Question(f"measured / modelled {figure} at {point.rate_per_s:.3g}/s",
                    [(_OURS, figure, point.title)], Band(1 - within, 1 + within), TIMES,
                    below=[(_THEIRS, figure, point.title)])


def _part_observations(predicted: Sequence[BackgroundPrediction]) -> Mapping[Key, Observation]:
    """Return measured and modelled statistics of groups of authentications.

    Each pair of a group counts as a block.
    """
    return {(name, figure, each.title): Observation(
        mean([part[side] for part in parts]),
        {block: part[side] for block, part in enumerate(parts)})
        for each in predicted
        for figure, parts in (("mean", each.parts), ("p95", each.p95_parts)) if parts
        for side, name in enumerate((_OURS, _THEIRS))}


def _service_observations(cells: Cells) -> Mapping[Key, Observation]:
    return {_service_key(row): value for row in cells.results.cells
            if (value := measured_service_times(cells, row)) is not None}


def _load_questions() -> Iterator[Question]:
    highest, lowest = (_service_key(cell_ids(load=str(load))) for load in (TABLE_1[-1], TABLE_1[0]))
    yield Question("50/s / 1/s", [highest], _MORE_THAN_ONE, TIMES, below=[lowest])
    yield Question("50/s / 1/s as in Table 1", [highest],
                   Band(_GREW * (1 - _ALIKE), _GREW * (1 + _ALIKE)), TIMES, below=[lowest])


def _place_questions() -> Iterator[Question]:
    for load in TABLE_1:
        yield Question(f"outside / same room at {load}/s",
                       [_service_key(cell_ids(load=str(load), place="outside"))],
                       Band(1 - _HARDLY, 1 + _HARDLY), TIMES,
                       below=[_service_key(cell_ids(load=str(load)))])


def _rtt_questions() -> Iterator[Question]:
    low, high = RTTS_MS[0], RTTS_MS[-1]
    keys = [_service_key(cell_ids(rtt=str(rtt))) for rtt in (low, high)]
    yield Question("longer at 300 ms than without", keys, MORE, _MS, _subtract_first)
    yield _slope_question("slope", keys, high - low, trips=5)


def _resumption_questions() -> Iterator[Question]:
    yield Question("resumed / full", [_service_key(cell_ids(sessions="resumed"))], Band(high=_MUCH),
                   TIMES,
                   below=[_service_key(cell_ids())])


def _certificate_questions() -> Iterator[Question]:
    yield Question("RSA-2048 less RSA-1024",
                   [_service_key(cell_ids()), _service_key(cell_ids(key="rsa-2048"))], MORE, _MS,
                   _subtract_first)
    for chain in ("1", "2"):
        longer = str(int(chain) + 1)
        yield Question(f"chain of {longer} less chain of {chain}",
                       [_service_key(cell_ids(load="0", chain=each)) for each in (chain, longer)],
                       MORE,
                       _MS,
                       _subtract_first)


def _aka_questions() -> Iterator[Question]:
    for load in TABLE_1:
        yield Question(f"service time at {load}/s", [_service_key(cell_ids(load=str(load)))],
                       Band(high=_AKA_S), _MS, mean_of)


def _fragment_questions() -> Iterator[Question]:
    yield Question("in pieces of 256 bytes less at once", [
        _service_key(cell_ids()), _service_key(cell_ids(fragment=str(SMALL_FRAGMENT_BYTES)))], MORE,
                   _MS,
                   _subtract_first)


def _hss_questions() -> Iterator[Question]:
    low, high = HSS_RTTS_MS[0], HSS_RTTS_MS[-1]
    keys = [_service_key(aka_ids(rtt)) for rtt in (low, high)]
    yield Question(f"longer with an HSS at {high} ms than beside it", keys, MORE, _MS,
                   _subtract_first)
    yield _slope_question("slope by its round trip", keys, high - low, trips=1)


def _slope_question(words: str, keys: Sequence[Key], apart_ms: float, *, trips: int) -> Question:
    """Ask by how much longer an authentication takes per additional round trip."""
    return Question(words, keys, Band(trips * (1 - _TRIP), trips * (1 + _TRIP)), _TRIPS,
                    lambda means: _subtract_first(means) / (apart_ms / 1e3))


def _service_key(row: Ids) -> Key:
    return (SERVICE.name, *row)


def _subtract_first(means: Sample) -> Any:
    return means[..., 1] - means[..., 0]
