"""The bench of proofs: what counts as a control that failed its own checks, and its table."""

from __future__ import annotations

import itertools
import random
from pathlib import Path

import pytest

import fabricated
import studies
from bench import proof
from bench.proof import ControlOutcome, ProofTrial
from conftest import PROJECT, Qop
from guest.releases import FORKY
from harness.engine.provenance import hash_code
from harness.errors import UserError
from measure.records import record
from measure.records.record import CheckRecord, Record
from studies.study import Fault

PAGE = PROJECT / "docs" / "proof.md"
STUDIES = [studies.load_study(name) for name in studies.study_names()]
CONTROLS = [(study, name, fault) for study in STUDIES for name in study.faults
            if (fault := study.find_fault(name)) is not None and fault.on]
#: One that spoils a secret, of the study whose records can be made up here.
OF_RECORDS = next(entry for entry in CONTROLS
                  if entry[0].id == fabricated.STUDY.id and not entry[2].fails)


def repetition(*failed: str, held: tuple[str, ...] = ("captures are complete",),
               broke_off: bool = False) -> Record:
    """A repetition by which checks of it do not hold."""
    evidence = [CheckRecord(check=name, ok=name not in failed, detail="") for name in
                (*held, *failed)]
    raw = {"failure": {"stage": "dot1x", "reason": "EAP-Failure"} if broke_off else None}
    return fabricated.make("P1", status="failed" if failed or broke_off else "ok",
                           evidence=evidence, raw=raw)


@pytest.mark.parametrize(("fails", "made", "is_right"), [
    (["A", "B"], repetition("B", "A"), True),
    (["A"], repetition("A", "B"), False),
    (["A", "B"], repetition("A"), False),
    (["A"], repetition(), False),
    (["A"], repetition("A", broke_off=True), False),
    ([], repetition(broke_off=True), True),
    ([], repetition("A"), False),
    ([], repetition(), False),
])
def test_a_control_fails_its_own_checks_and_no_others(
        fails: list[str], made: Record, is_right: bool) -> None:
    """Too few, too many, or a repetition that broke off before anything was checked: not right."""
    outcome = ControlOutcome("control", Fault("", fails=fails), made)
    assert outcome.is_as_declared is is_right
    assert ("NOT AS DECLARED" in outcome.format_line()) is not is_right


def test_a_machine_that_died_shows_nothing(tmp_path: Path) -> None:
    """Nothing flowed, but for another reason than the control: it is measured again."""
    study, name, fault = OF_RECORDS
    plan = proof._make_plan(study, fault, name)
    lost = fabricated.make(**fault.on, status="failed", evidence=[], raw={}, environment={
        "plan": plan.digest, "code_sha256": hash_code(study.id)})
    for declared in (fault, Fault("", fails=["A"])):
        outcome = ControlOutcome(name, declared, lost)
        assert not outcome.is_as_declared
        assert "LOST: give the command again" in outcome.format_line()
    record.write_record(lost, tmp_path / "records")
    assert ProofTrial(name, fault, plan, tmp_path).find_record() is None


def test_a_cell_without_a_control_is_proven() -> None:
    """What a control shows is worth nothing where the cell fails by itself."""
    assert ControlOutcome("", Fault(""), repetition()).is_as_declared
    assert not ControlOutcome("", Fault(""), repetition("A")).is_as_declared


def test_both_tables_say_the_same() -> None:
    """By control its checks, by check the controls; a check that nothing fails is told."""
    outcomes = [ControlOutcome("", Fault(""), repetition(held=("A", "B"))),
                ControlOutcome("first", Fault("what it takes", fails=["A"]),
                               repetition("A", held=("B",))),
                ControlOutcome("second", Fault("a secret"), repetition(broke_off=True)),
                ControlOutcome("third", Fault("an attack", fails=["C"]), repetition("C")),
                ControlOutcome("", Fault(""), repetition(held=("A (again)",)))]
    lines = list(proof.render_tables("study", outcomes, {}))
    assert "| `first` | what it takes | P1-N2 | A | 1 |" in lines
    assert "| `second` | a secret | P1-N2 | none is asked: nothing flows |  |" in lines
    assert "| A | 1 | `first` |" in lines
    assert "| B | 1 | no control yet |" in lines
    assert "| C | asked under its control only | `third` |" in lines
    assert "| A (again) | 1 | as *A*, the same code: `first` |" in lines
    shared = proof.group_failing_controls(outcomes)
    assert shared == {"A": ["`first`"], "C": ["`third`"]}
    assert "| A | 1 | of qop2007: `first` |" in proof.render_tables(
        "other", outcomes[:1], {"third": {}, "qop2007": shared, "fourth": shared})


def test_what_this_code_has_measured_is_not_measured_again(tmp_path: Path) -> None:
    """An interrupted bench goes on; another version of the code or of the plan begins anew."""
    study, name, fault = OF_RECORDS
    plan = proof._make_plan(study, fault, name)
    assert (plan.settings.warm_up, plan.settings.clock, len(plan.all_steps())) == (0, "virtual", 1)
    made = fabricated.make(**fault.on, environment={
        "plan": plan.digest, "code_sha256": hash_code(study.id)})
    trial = ProofTrial(name, fault, plan, tmp_path)
    assert trial.find_record() is None
    record.write_record(made, tmp_path / "records")
    assert trial.find_record() == made
    assert ProofTrial("", fault, proof._make_plan(study, fault, None),
                      tmp_path).find_record() is None
    record.write_record(fabricated.changed(made,
                                           environment={"plan": plan.digest, "code_sha256": "x"}),
                        tmp_path / "records")
    assert trial.find_record() is None


@pytest.mark.parametrize(("study", "name", "fault"), CONTROLS,
                         ids=[f"{study.id}-{name}" for study, name, _ in CONTROLS])
def test_the_page_has_each_control_as_it_is_declared(
        study: studies.Study, name: str, fault: Fault) -> None:
    """The table that the bench made names the control, its cell, and exactly its checks."""
    cell = proof._make_plan(study, fault, name).cells[0]
    _, _, rest = PAGE.read_text().partition(f"### {study.id}: what each control fails")
    [row] = [line for line in rest.partition("\n###")[0].splitlines()
             if line.startswith(f"| `{name}` |")]
    _, _, title, on, fails, _, _ = (column.strip() for column in row.split("|"))
    assert (title, on) == (fault.title, cell.name)
    expected = sorted(fault.fails) or ["none is asked: nothing flows"]
    assert sorted(fails.split(", ")) == expected


def test_some_controls_can_be_chosen() -> None:
    """Of whichever studies; of all others neither controls nor cells; a name that is none."""
    everything = proof.choose_controls()
    assert [(study.id, name) for study, faults in everything for name in faults] == [
        (study.id, name) for study, name, _ in CONTROLS]
    some = proof.choose_controls(["bypass", "unheeded-range"])
    assert {study.id: list(faults) for study, faults in some} == {
        "authenticast1998": ["unheeded-range"], "qop2007": ["bypass"]}
    for name in ("nonsense", "beside-tunnel"):  # the latter has no cell
        with pytest.raises(UserError, match=f"--control {name}: no study has a cell for it"):
            proof.choose_controls([name])


#: Number of controls that a run of the tests measures.
SAMPLED = 8


@pytest.mark.guest
@pytest.mark.shareable
def test_sampled_controls_fail_their_checks_alone(qop: Qop) -> None:
    """The sample follows from the code: each change measures others, the same code the same.

    `./qop bench proof` measures all. Debian testing changes every day, so controls that need it are
    left to the bench.
    """
    drawn = random.Random(hash_code("qop2007")).sample(CONTROLS, len(CONTROLS))
    others = (name for study, name, fault in drawn
              if proof._make_plan(study, fault, name).settings.release != FORKY.suite)
    names = list(itertools.islice(others, SAMPLED))
    done = qop("bench", "proof", "--out", "proof",
               *(word for name in names for word in ("--control", name)))
    assert done.returncode == 0, f"{' '.join(names)}: {done.stderr}"


def test_a_policy_in_force_is_not_the_one_that_is_judged_by() -> None:
    """A control changes what nodes get and leaves the cell as it is; other policies stay equal."""
    for study, name, fault in CONTROLS:
        if fault.policy is not None:
            policy, without = (study.testbed(made.cells[0], made.asked).policy for made in (
                proof._make_plan(study, fault, control) for control in (name, None)))
            assert policy is not None
            in_force = fault.policy(policy)
            assert in_force.id == policy.id and in_force.layers != policy.layers
            assert policy == without
