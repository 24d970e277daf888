"""Tests of the looks of a sequential design, and of verdicts under them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from analysis import statistics
from analysis.blocks import fieller_ratio, mean_of
from analysis.cells import Observation
from analysis.claims import (
    MORE,
    TIMES,
    Band,
    Claim,
    DisplayUnit,
    Finding,
    Question,
    answer_questions,
    describe_looks,
    judge_claim,
    positive_band,
    settle_claim,
)
from analysis.reporting.significance import decide_at_looks
from analysis.statistics import Estimate, Looks, plan_looks
from fabricated import make, manifest_of, results_of
from studies.qop2007.report import build_report

LOOKS = Looks((3, 5, 8))
CLAIM = Claim("A", "more", "here")
QUESTION = Question("x", [("x", "P1", "N2")], MORE, DisplayUnit(), mean_of)


def observed(*values: float, cell: str = "P1") -> dict[Any, Observation]:
    blocks = dict(enumerate(values, 1))
    return {("x", cell, "N2"): Observation(statistics.mean(values), blocks, tuple(
        f"{cell}-N2-{number:03d}" for number in blocks))}


@pytest.mark.parametrize(("first", "last", "counts"), [
    (6, 48, (6, 9, 14, 21, 32, 48)), (3, 40, (3, 5, 8, 12, 18, 27, 40)), (1, 3, (1, 2, 3)),
    (6, 7, (6, 7)), (6, 10, (6, 10)), (5, 5, (5,))])
def test_looks_are_planned_up_to_the_last(first: int, last: int, counts: tuple[int, ...]) -> None:
    assert plan_looks(first, last).counts == counts


@pytest.mark.parametrize("looks", [LOOKS, plan_looks(6, 48), Looks((10,))])
@pytest.mark.parametrize("level", [0.95, 0.999])
def test_the_errors_of_all_looks_add_up_to_the_whole_error(looks: Looks, level: float) -> None:
    """Lan and DeMets' spending in proportion to the repetitions; one look is a plain interval."""
    errors = [1 - looks.raise_level(number, level) for number in range(1, len(looks.counts) + 1)]
    assert sum(errors) == pytest.approx(1 - level)
    assert sum(errors[:1]) == pytest.approx((1 - level) * looks.counts[0] / looks.last_count)


def test_the_latest_look_is_that_of_the_repetitions() -> None:
    assert [LOOKS.find_look(count) for count in (2, 3, 4, 5, 8, 99)] == [0, 1, 1, 2, 3, 3]
    assert [LOOKS.next_count(count) for count in (0, 3, 4, 8)] == [3, 5, 5, None]


def test_a_verdict_uses_the_wider_interval_of_its_look() -> None:
    """An interval of 95 % excludes 0 here, that of the first look does not."""
    values = observed(1.0, 1.5, 2.2)
    assert judge_claim(CLAIM, [QUESTION], values).verdict == "confirmed"
    [finding], _ = answer_questions(values, [QUESTION], LOOKS)
    assert finding.word == "undecided" and finding.shown_level == 1 - 0.05 * 3 / 8
    assert finding.estimate == statistics.mean([1.0, 1.5, 2.2], 1 - 0.05 * 3 / 8)


def test_between_two_looks_only_blocks_of_the_former_count() -> None:
    """A fourth value does not make a look; its record is not behind the answer."""
    [three], _ = answer_questions(observed(1.0, 1.5, 2.2), [QUESTION], LOOKS)
    [four], _ = answer_questions(observed(1.0, 1.5, 2.2, 1.4), [QUESTION], LOOKS)
    assert four.estimate == three.estimate and four.records == three.records


def test_before_the_first_look_nothing_is_decided() -> None:
    found = judge_claim(CLAIM, [QUESTION], observed(1.0, 1.001), looks=LOOKS)
    assert found.verdict == "undecided"


def test_an_answer_stands_as_of_the_look_that_decided_it() -> None:
    """What is measured later for other claims does not open it again."""
    sure = (1.0, 1.01, 1.02)
    later = observed(*sure, 9.0, -9.0)
    assert judge_claim(CLAIM, [QUESTION], later).verdict == "undecided"
    [finding], _ = answer_questions(later, [QUESTION], LOOKS)
    assert (finding.word, finding.estimate.n) == ("confirmed", 3)


def _finding(label: str, mean: float, half: float, band: Band, cells: int) -> Finding:
    estimate = Estimate(mean, mean - half, mean + half, 6)
    return Finding(label, estimate, estimate, band, DisplayUnit(), records=tuple(
        f"{label}{number}-N2-001" for number in range(cells)))


def needed(*findings: Finding, missing: tuple[str, ...] = ()) -> list[str]:
    found = settle_claim(CLAIM, findings, missing, "")
    return sorted({cell[0] for cells in found.needed for cell in cells})


def test_a_claim_needs_the_answers_that_decide_it_with_least_effort() -> None:
    """All to confirm it; to refute it one: by its distance, or within what does not matter."""
    near, far = _finding("a", 1.0, 1.1, MORE, 2), _finding("b", 1.0, 1.5, MORE, 2)
    assert needed(near, far) == ["a", "b"]
    against = _finding("c", -1.0, 1.1, MORE, 2)
    assert needed(near, far, against) == ["c"]
    assert needed(against, _finding("d", -1.0, 1.1, MORE, 40)) == ["c"]
    assert needed(near, _finding("e", 0.01, 1.2, positive_band(1.0), 2)) == ["e"]


def test_what_was_not_measured_cannot_be_confirmed_by_repetitions() -> None:
    near = _finding("a", 1.0, 1.1, MORE, 2)
    assert needed(near, missing=("P9",)) == []
    assert needed(near, _finding("c", -1.0, 1.1, MORE, 2), missing=("P9",)) == ["c"]


def test_a_ratio_to_what_may_be_0_still_excludes_small_ratios() -> None:
    """Fieller's interval then is all but a gap: 1 / ratio is bounded, and 0 is in it."""
    rng = np.random.default_rng(4)
    above, below = 10 + rng.normal(0, 0.5, 8), rng.normal(0.1, 0.5, 8)
    ratio = fieller_ratio(above, below)
    inverse = fieller_ratio(below, above)
    assert ratio is not None and inverse is not None and ratio.low is None
    assert inverse.low is not None and inverse.high is not None and inverse.spans_zero
    assert ratio.excluded == pytest.approx((1 / inverse.low, 1 / inverse.high))
    about_3 = Finding("a / b", ratio, ratio, Band(2.8, 4.2), TIMES)
    assert about_3.word == "refuted" and " (not " in about_3.text
    beyond = Band(2.8, 2 * ratio.excluded[1])
    assert Finding("a / b", ratio, ratio, beyond, TIMES).word == "undecided"
    none = fieller_ratio(rng.normal(0, 1, 8), rng.normal(0, 1, 8))
    assert none is not None and none.excluded is None


def test_differences_are_decided_at_looks_with_the_error_of_the_whole_run() -> None:
    """Of 2,000 runs without any difference at most 5 % find one; judged as ever, far more do."""
    looks, family, runs = plan_looks(3, 48), 4, 2000
    generator, at_looks, each_time = np.random.default_rng(8), 0, 0
    for _ in range(runs):
        values = generator.normal(0, 1, (family, looks.last_count))
        at_looks += any(decide_at_looks(row, 0.0, looks, family) == "different" for row in values)
        each_time += any(not statistics.mean(row[:count], 1 - 0.05 / family).spans_zero
                         for row in values for count in looks.counts)
    assert at_looks / runs <= 0.05 and each_time / runs > 0.1


def test_a_difference_stands_as_of_the_look_that_decided_it() -> None:
    """Later values do not open it again, and values between two looks are not used."""
    sure = np.array([1.0, 1.01, 1.02])
    assert decide_at_looks(np.append(sure, (9.0, -9.0)), 0.0, LOOKS, 1) == "different"
    assert decide_at_looks(sure[:2], 0.0, LOOKS, 1) == "undecided"
    assert decide_at_looks(np.array([0.01, -0.01, 0.0]), 1.0, LOOKS, 1) == "equivalent"


def test_a_report_says_that_the_design_was_sequential() -> None:
    """On the page, in the notes of the claims' table, and in the verdicts' intervals."""
    records = [make(policy, number, tcp=4e6 + 1e5 * number) for policy in ("P1", "P3", "P5")
               for number in (1, 2, 3)]
    plain = manifest_of(records)
    sequential = plain.model_copy(update={"settings": {**plain.settings, "looks": [3, 5, 8]}})
    made, before = (build_report(results_of(*records, manifest=each), {}) for each
                    in (sequential, plain))
    assert before.design == "" and made.design == describe_looks(LOOKS)
    assert "after 3, 5, 8 repetitions" in made.design
    tables = {table.id: table for table in made.tables}
    assert made.design in tables["claims"].notes
