"""Tests of the rule of --until-decided, and of its error rate over whole campaigns."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import plans
import studies
from analysis import statistics
from analysis.blocks import mean_of
from analysis.cells import Cells, Observation
from analysis.claims import (
    MORE,
    PERCENT,
    TIMES,
    Band,
    Claim,
    ClaimQuestion,
    DisplayUnit,
    ExtremeQuestion,
    Question,
    SpreadQuestion,
    Verdict,
    judge_claim,
    positive_band,
)
from analysis.reporting.significance import decide_differences, make_verdicts
from analysis.statistics import Looks, Sample, plan_looks
from fabricated import make, manifest_of, results_of
from harness.commands import status
from harness.engine import deciding, profiles, results
from harness.engine.deciding import DecisionRule
from harness.engine.events import EventLog, RunState
from harness.engine.plan import Step
from harness.errors import UserError
from measure.records import record
from plans import plan_of
from policies import load_named

LOOKS = Looks((3, 5, 8))
CELLS = ("P1", "P2", "P3")


def verdict(name: str, *needed: str, word: Any = "undecided") -> Verdict:
    """A verdict that needs answers of the named policies' cells, a text of policies each."""
    return Verdict(name, f"words of {name}", "", word, "somewhere", needed=tuple(
        frozenset(f"{policy}-N2" for policy in policies.split()) for policies in needed))


def tried(**counts: int) -> dict[str, dict[int, bool]]:
    """So many good repetitions of each policy's cell."""
    return {f"{policy}-N2": dict.fromkeys(range(1, count + 1), True)
            for policy, count in counts.items()}


def names(steps: Sequence[Step]) -> list[str]:
    return sorted(step.name for step in steps)


PLAN = plan_of("P1,P2,P3", repetitions=3)


def test_only_cells_of_open_claims_get_repetitions() -> None:
    """Up to the next look; what is decided needs none."""
    rule = DecisionRule(LOOKS)
    steps = rule.choose_steps(PLAN, tried(P1=3, P2=3, P3=3), [
        verdict("A", "P1 P2"), verdict("B", word="confirmed")])
    assert names(steps) == ["P1-N2-004", "P1-N2-005", "P2-N2-004", "P2-N2-005"]
    assert rule.open_claims == ("A",)
    assert rule.line == ("1 of 2 claims decided; open: A, which get 4 more repetitions of 2 cells\n"
                         "A: words of A")


def test_words_of_an_open_claim_are_told_once() -> None:
    """At the next look its id is enough; a claim that was not told of has its words."""
    rule = DecisionRule(LOOKS)
    rule.choose_steps(PLAN, tried(P1=3, P2=3), [verdict("A", "P1 P2")])
    rule.choose_steps(PLAN, tried(P1=5, P2=5, P3=5), [verdict("A", "P1 P2"), verdict("B", "P3")])
    first, *others = rule.line.splitlines()
    assert first.startswith("0 of 2 claims decided; open: A, B, which get ")
    assert others == ["B: words of B"]


def test_a_cell_that_is_ahead_is_not_measured_again() -> None:
    """Another claim has had more of P1; only common blocks count."""
    steps = DecisionRule(LOOKS).choose_steps(PLAN, tried(P1=8, P2=3), [verdict("A", "P1 P2")])
    assert names(steps) == ["P2-N2-004", "P2-N2-005"]


def test_a_lost_repetition_is_made_up_for_by_a_further_block() -> None:
    """Of five blocks one has failed for P2, so that a sixth of both makes five in common."""
    there = tried(P1=5, P2=5)
    there["P2-N2"][4] = False
    steps = DecisionRule(LOOKS).choose_steps(PLAN, there, [verdict("A", "P1 P2")])
    assert names(steps) == ["P1-N2-006", "P2-N2-006"]


def test_after_the_last_look_the_rule_gives_up_and_says_so() -> None:
    rule = DecisionRule(LOOKS)
    assert rule.choose_steps(PLAN, tried(P1=8, P2=8), [verdict("A", "P1 P2")]) == []
    assert rule.line == ("0 of 1 claims decided; undecided at the limit of 8 repetitions: A\n"
                         "A (words of A) is undecided: somewhere")


def test_a_cell_that_always_fails_ends_the_run_all_the_same() -> None:
    rule, there = DecisionRule(LOOKS), tried(P1=3, P2=3)
    for _ in range(20):
        steps = rule.choose_steps(PLAN, there, [verdict("A", "P1 P2")])
        for step in steps:
            there[step.cell.name][step.repetition] = step.cell.name != "P2-N2"
        if not steps:
            break
    else:
        pytest.fail("goes on for ever")
    assert max(there["P2-N2"]) <= LOOKS.last_count * 1.2


def test_a_claim_that_needs_what_the_plan_lacks_is_named() -> None:
    rule = DecisionRule(LOOKS)
    assert rule.choose_steps(PLAN, tried(P1=3), [verdict("A")]) == []
    assert "not decided by repetitions of this plan: A" in rule.line


def test_a_difference_that_needs_too_many_repetitions_is_named_apart() -> None:
    """The plan has its cells, but the last look comes too early."""
    rule = DecisionRule(LOOKS)
    name = "handoff of P2 in R1"
    difference = Verdict(name, f"{name} differs from P1", "", "undecided", "", is_difference=True)
    assert rule.choose_steps(PLAN, tried(P1=3), [difference, verdict("A")]) == []
    assert rule.line.splitlines()[0] == (
        "0 of 2 claims decided; not decided by repetitions of this plan: A; "
        f"unlikely to be decided by {LOOKS.last_count} repetitions: {name}")


@pytest.mark.parametrize(("measured", "left"), [
    (4, "2 more repetitions"), (5, "1 more repetition"), (6, "")])
def test_status_names_what_an_interrupted_rule_has_left(
        tmp_path: Path, capsys: pytest.CaptureFixture[str], measured: int, left: str) -> None:
    """The plan's own repetitions are done. Claims that are open stand there in both cases."""
    events = EventLog(tmp_path)
    events.emit_event("run-started", already=0, total=3)
    events.emit_event("claims-judged", open=["Q9"], line="")
    events.emit_event("run-extended", more=3)
    for number in range(measured):
        events.emit_event("repetition-recorded", name=f"P1-N2-{number}", status="ok", kept=True)
    events.emit_event("run-ended", failed=0)
    state = RunState.from_folder(tmp_path)
    assert state is not None
    status._show_open(state, 0)
    line = f"  interrupted: {left} requested by the stopping rule; the same './qop run' continues\n"
    assert capsys.readouterr().out == (line if left else "") + (
        "  open: Q9; the same './qop run' with --until-decided measures more for those that "
        "further repetitions can decide\n")


def test_no_claims_is_one_line() -> None:
    rule = DecisionRule(LOOKS)
    assert rule.choose_steps(PLAN, tried(P1=3), []) == []
    assert rule.line == "this plan has no claims and no differences to decide"


def test_records_of_a_folder_are_judged(tmp_path: Path) -> None:
    """The study's own report judges them: P3 against P5 (Q2), which differ clearly here."""
    plan = deciding.with_looks(plan_of("P3,P5", repetitions=3), LOOKS)
    rng = np.random.default_rng(3)
    with results.ResultsFolder(tmp_path) as folder:
        folder.adopt_plan(plan)
        for number in (1, 2, 3):
            for policy in ("P3", "P5"):
                record.write_record(make(policy, number, tcp=4e6 + 1e5 * rng.normal()),
                                    folder.records)
        rule = DecisionRule(LOOKS)
        rule.next_block(plan, folder.records)
    assert " of 16 claims decided" in rule.line


def test_a_plan_without_claims_repeats_what_its_differences_need(tmp_path: Path) -> None:
    """M13's UDP goodput is decided at the first look. Its TCP goodput is open, and gets more."""
    plan = deciding.with_looks(dataclasses.replace(
        plan_of("M4,M13", repetitions=3), baseline={"policy": "M4"}), LOOKS)
    with results.ResultsFolder(tmp_path) as folder:
        folder.adopt_plan(plan)
        for number, udp in enumerate((1.0, 1.01, 0.99), 1):
            for policy, factor in (("M4", 1.0), ("M13", 0.5)):
                record.write_record(make(
                    policy, number, udp=factor * udp * 5e6, tcp=4e6 + 4e5 * (number - 2) * factor,
                    digests={"policy": load_named(policy).digest()}), folder.records)
        rule = DecisionRule(LOOKS)
        steps = rule.next_block(plan, folder.records)
    assert names(steps) == ["M13-N2-004", "M13-N2-005", "M4-N2-004", "M4-N2-005"]
    assert "TCP goodput of M13 in N2" in rule.open_claims
    assert "UDP goodput of M13 in N2" not in rule.open_claims
    assert " differences decided; open: " in rule.line and "\n" not in rule.line


def test_a_difference_that_needs_too_many_repetitions_gets_none() -> None:
    """Noise alone: after five repetitions, the estimate is beyond the last look."""
    records = [make(policy, number, udp=5e6 + 1e6 * (-1) ** (number + (policy == "P6")))
               for policy in ("P1", "P6") for number in range(1, 6)]
    plan = manifest_of(records, settings={"repetitions": 3, "looks": LOOKS.counts})
    cells = Cells(results_of(*records, manifest=plan))
    made = {verdict.id: verdict for verdict in make_verdicts(cells, decide_differences(cells))}
    assert made["UDP goodput of P6 in N2"].verdict == "undecided"
    assert made["UDP goodput of P6 in N2"].needed == ()


@pytest.mark.parametrize("study", studies.study_names())
def test_studies_without_claims_are_refused_in_one_line(study: str, tmp_path: Path) -> None:
    """A study that judges claims has looks; any other is refused before anything starts."""
    known = studies.load_study(study)
    if known.judges_claims:
        assert deciding.plan_rule(known, tmp_path, 3, 9).looks.last_count == 9
    else:
        with pytest.raises(UserError, match=f"--until-decided: {study} has no claims") as caught:
            deciding.plan_rule(known, tmp_path, 3, None)
        assert "\n" not in str(caught.value)


def test_an_interrupted_run_goes_on_by_the_same_looks(tmp_path: Path) -> None:
    """They are in the folder; another limit there is refused, and a plain run keeps them."""
    plan = plan_of("P1,P2", repetitions=3)
    with results.ResultsFolder(tmp_path) as folder:
        folder.adopt_plan(deciding.with_looks(plan, LOOKS))
    assert deciding.plan_rule(plans.STUDY, tmp_path, 6, None).looks == LOOKS
    with pytest.raises(UserError, match=r"the looks in .* were planned up to 8"):
        deciding.plan_rule(plans.STUDY, tmp_path, 3, 40)
    with results.ResultsFolder(tmp_path) as folder:
        folder.adopt_plan(plan_of("P1,P2", repetitions=7))
    kept = results.require_manifest(tmp_path)
    assert (kept.settings["looks"], kept.settings["repetitions"]) == ([3, 5, 8], 7)


def test_a_plain_plan_has_no_looks(tmp_path: Path) -> None:
    """The manifest of a run with a planned number of repetitions is as it was before."""
    assert "looks" not in plan_of("P1,P2").manifest.settings
    sequential = deciding.with_looks(plan_of("P1,P2"), LOOKS)
    assert sequential.manifest.settings["looks"] == [3, 5, 8]
    assert sequential.digest == plan_of("P1,P2").digest


# --- the error rate ------------------------------------------------------------------------------

#: Campaigns of a simulation, and its seed, which nothing was tuned on.
CAMPAIGNS, SEED = 200, 20261128
#: Largest number of errors among them that an error rate of 5 % has with a probability of 99.9 %.
ALLOWED = 21
Truth = Mapping[str, float]


@dataclass(frozen=True)
class Case:
    """A claim at the edge of what it says, so that any of `errors` as its verdict is wrong."""

    questions: tuple[ClaimQuestion, ...]
    truth: Truth
    errors: tuple[str, ...]
    #: Standard deviations of the cells and of what a block adds to all of them.
    noise: float = 0.1
    drift: float = 0.05

    @property
    def policies(self) -> list[str]:
        """The policies whose cells the questions are about."""
        return list(dict.fromkeys(key[1] for asks in self.questions for key in asks.keys))


def _keys(*policies: str) -> list[tuple[str, str, str]]:
    return [("x", policy, "N2") for policy in policies]


def _less(means: Sample) -> Any:
    return means[..., 0] - means[..., 1]


def _variance_excess(means: Sample) -> Any:
    return means[..., :3].var(axis=-1, ddof=1) - means[..., 3:].var(axis=-1, ddof=1)


def _difference(first: str, second: str, band: Band) -> Question:
    return Question(f"{first} less {second}", _keys(first, second), band, DisplayUnit(), _less)


_SIX = tuple(plans.policies(6))
CASES: Mapping[str, Case] = {
    # Either verdict is an error where both are equal.
    "equal": Case((_difference("P1", "P2", MORE),), {}, ("confirmed", "refuted")),
    # A difference that just matters must not be called negligible.
    "just matters": Case((_difference("P1", "P2", positive_band(0.05)),), {"P1": 1.05},
                         ("refuted",)),
    "ratio at its bound": Case((Question("P1 / P2", _keys("P1"), Band(0.8, 1.2), TIMES,
                                         below=_keys("P2")),), {"P1": 1.2},
                               ("confirmed", "refuted")),
    # Five differences of 0: one of them refutes the claim by chance.
    "five questions": Case(tuple(_difference("P1", other, MORE) for other in _SIX[1:]), {},
                           ("refuted",)),
    "variances": Case((Question("variances", _keys(*_SIX), MORE, DisplayUnit(), _variance_excess),),
                      {"P1": 1.2, "P2": 0.8, "P4": 1.2, "P5": 0.8}, ("confirmed", "refuted")),
    "largest of six": Case((ExtremeQuestion("largest", tuple(
        Question(policy, _keys(policy), Band(low=1.0), DisplayUnit(), mean_of) for policy in _SIX),
        "largest"),), {}, ("confirmed", "refuted")),
    "spread of six": Case((SpreadQuestion("spread", _keys(*_SIX), Band(low=0.2), PERCENT),),
                          {"P1": 1.2}, ("confirmed", "refuted")),
}


_WHOLE = plan_of(_SIX, repetitions=3)
#: Looks of `./qop run --until-decided` with the default profile, and of a design that begins with
#: the fewest repetitions that have an interval of use.
PLANNED = profiles.load_profile(plans.STUDY, profiles.DEFAULT).for_clock(
    plans.STUDY.clock).repetitions
DEFAULT = plan_looks(PLANNED, deciding.MAX_REPETITIONS)
EARLY = plan_looks(3, 40)


def _observe(values: Mapping[str, Sample], there: deciding.Tried) -> dict[Any, Observation]:
    """Return the observations of the repetitions that were measured."""
    observed = {}
    for policy, of_cell in values.items():
        blocks = {number: float(of_cell[number - 1]) for number in there.get(f"{policy}-N2", {})}
        if blocks:
            observed["x", policy, "N2"] = Observation(
                statistics.mean(blocks.values()), blocks,
                tuple(f"{policy}-N2-{number:03d}" for number in blocks))
    return observed


def simulate_campaign(case: Case, looks: Looks, rng: np.random.Generator,
                      judge: Callable[..., Verdict] = judge_claim) -> tuple[str, int]:
    """Return the verdict at the end of a simulated campaign, and its repetitions."""
    policies = case.policies
    most = math.ceil(looks.last_count * 1.2)
    blocks = case.drift * rng.standard_normal(most)
    values = {policy: case.truth.get(policy, 1.0) + blocks + case.noise * rng.standard_normal(most)
              for policy in policies}
    rule = DecisionRule(looks)
    there = tried(**dict.fromkeys(policies, looks.counts[0]))
    while True:
        found = judge(Claim("A", "", ""), case.questions, _observe(values, there), "", looks)
        steps = rule.choose_steps(_WHOLE, there, [found])
        if not steps:
            return found.verdict, sum(map(len, there.values()))
        for step in steps:
            there[step.cell.name][step.repetition] = True


def count_errors(case: Case, looks: Looks, seed: int,
                 judge: Callable[..., Verdict] = judge_claim) -> int:
    rng = np.random.default_rng(seed)
    return sum(simulate_campaign(case, looks, rng, judge)[0] in case.errors
               for _ in range(CAMPAIGNS))


def test_the_simulated_design_is_the_default_one(tmp_path: Path) -> None:
    """The looks of the simulation are those that a run of the default profile plans."""
    assert deciding.plan_rule(plans.STUDY, tmp_path, PLANNED, None).looks == DEFAULT
    assert DEFAULT.counts == (6, 9, 14, 21, 32, 48)


@pytest.mark.parametrize("name", CASES)
def test_whole_campaigns_err_in_at_most_5_percent(name: str) -> None:
    """The default design with the rule's own choice of cells, at the edge of each claim."""
    assert count_errors(CASES[name], DEFAULT, SEED) <= ALLOWED


def test_whole_campaigns_of_few_repetitions_err_in_at_most_5_percent() -> None:
    """From 3 to 40 repetitions, with the claim that errs most often."""
    assert count_errors(CASES["variances"], EARLY, SEED) <= ALLOWED


def test_intervals_of_a_fixed_number_would_err_too_often() -> None:
    """The control: without the looks' levels the same simulation finds too many errors."""
    class Careless(Looks):
        def raise_level(self, number: int, level: float = 0.95) -> float:
            return level

    def judge(claim: Claim, questions: Sequence[ClaimQuestion], observed: Any, reason: str,
              looks: Looks) -> Verdict:
        return judge_claim(claim, questions, observed, reason, Careless(looks.counts))

    assert count_errors(CASES["equal"], DEFAULT, SEED, judge) > ALLOWED
