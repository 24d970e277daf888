"""What a run plans, prints, keeps and leaves out, without measuring anything."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from harness.engine import preview, profiles, results, stopping
from harness.selftest.paper_bench import Projection
from harness.errors import UserError
from harness.engine.plan import Plan, Settings
from measure import record
from measure.record import Record
from policies import load_all
from tests.conftest import Qop
from tests.fabricated import make
from topologies.loader import load_medium, load_scenario

MEDIUM = load_medium("802.11b-short")


def plan_of(repetitions: int = 3) -> Plan:
    """P1 and P2 in N2."""
    return Plan(load_all()[:2], [load_scenario("N2")], MEDIUM, Settings(repetitions=repetitions))


def kept(folder: Path, *records: Record) -> results.ResultsFolder:
    """A results folder with these records in it."""
    for one in records:
        record.write(one, folder / "records")
    return results.ResultsFolder(folder)


def flagged(policy: str, repetition: int, **environment: object) -> Record:
    """A good record during which the processor was the limit."""
    found = make(policy, repetition)
    return found.model_copy(update={"environment": {
        **found.environment, "flags": ["processor"], "alone": False, **environment}})


def test_what_has_a_good_record_is_not_measured_again(tmp_path: Path) -> None:
    """Resuming is listing what exists, in the plan's own order."""
    plan = plan_of()
    folder = kept(tmp_path, make("P1", 1), make("P2", 2))
    done = {"P1-N2-001", "P2-N2-002"}
    assert [s.name for s in folder.missing(plan)] == [
        s.name for s in plan.steps() if s.name not in done]


def test_an_edited_policy_invalidates_its_own_cells_only(tmp_path: Path) -> None:
    """Its records are put aside, not deleted and not counted; the others stay."""
    plan = plan_of(1)
    stale = make("P2", 1).model_copy(update={"environment": {"policy_sha256": "0" * 64}})
    kept(tmp_path, make("P1", 1), stale)
    captures = tmp_path / "captures" / stale.name
    captures.mkdir(parents=True)
    (captures / "auth-air.pcap.gz").write_bytes(b"x")
    with results.ResultsFolder(tmp_path) as folder:
        folder.adopt(plan)
        assert [s.name for s in folder.missing(plan)] == ["P2-N2-001"]
    aside = tmp_path / "superseded" / ("0" * 12)
    assert record.read(aside / "records" / "P2-N2-001.json") == stale
    assert (aside / "captures" / stale.name / "auth-air.pcap.gz").read_bytes() == b"x"
    assert not (tmp_path / "records" / "P2-N2-001.json").exists()


def test_a_folder_of_another_plan_is_refused(tmp_path: Path) -> None:
    """Other settings are other results: one line, nothing changed."""
    plan = plan_of()
    with results.ResultsFolder(tmp_path) as folder:
        folder.adopt(plan)
    kept(tmp_path, make("P1", 1))
    other = dataclasses.replace(plan, settings=dataclasses.replace(plan.settings, seed=2))
    with results.ResultsFolder(tmp_path) as folder, pytest.raises(UserError, match="another plan"):
        folder.adopt(other)


def test_flagged_repetitions_are_measured_again_once(tmp_path: Path) -> None:
    """One that was measured alone already stays as it is, flag and all."""
    folder = kept(tmp_path, make("P1", 1), flagged("P1", 2), flagged("P2", 1, alone=True))
    assert [step.name for step in folder.flagged(plan_of())] == ["P1-N2-002"]


@pytest.mark.parametrize(("text", "widths"), [
    ("2%", {"tcp": 0.02, "udp": 0.02}), ("0.5", {"tcp": 0.005, "udp": 0.005}),
    ("tcp:2%,auth=10%", {"tcp": 0.02, "auth": 0.1})])
def test_stopping_rules(text: str, widths: dict[str, float]) -> None:
    """One width for the goodputs, or one by name."""
    assert stopping.parse(text, 30).widths == pytest.approx(widths)


@pytest.mark.parametrize("text", ["", "x", "0%", "-2%", "rtt:2%", "2%%"])
def test_bad_stopping_rules_are_one_line(text: str) -> None:
    """What is no width is named, with an example."""
    with pytest.raises(UserError, match="--until-ci") as caught:
        stopping.parse(text, 30)
    assert "\n" not in str(caught.value)


def test_a_rule_goes_on_where_intervals_are_wide_and_only_there(tmp_path: Path) -> None:
    """P1 hardly varies, P2 does: the next block holds P2 alone, up to the bound."""
    plan = plan_of(3)
    kept(tmp_path, *(make("P1", i, tcp=5e6 + i) for i in (1, 2, 3)),
         *(make("P2", i, tcp=4e6 + i * 5e5) for i in (1, 2, 3)))
    rule = stopping.parse("tcp:2%", most=4)
    assert [s.name for s in rule.next_block(plan, tmp_path / "records")] == ["P2-N2-004"]
    record.write(make("P2", 4, tcp=9e6), tmp_path / "records")
    assert rule.next_block(plan, tmp_path / "records") == []  # as many as may be
    assert stopping.parse("tcp:300%", 9).next_block(plan, tmp_path / "records") == []


def test_a_failed_repetition_counts_towards_the_bound_and_not_for_the_width(
        tmp_path: Path) -> None:
    """A cell that always fails ends the run all the same."""
    plan = dataclasses.replace(plan_of(2), policies=load_all()[:1])
    bad = make("P1", 3, status="failed", reason="no", authentication_time_s=None)
    kept(tmp_path, make("P1", 1), make("P1", 2, tcp=1e6), bad)
    assert [s.repetition for s in stopping.parse("2%", 9).next_block(
        plan, tmp_path / "records")] == [4]
    assert stopping.parse("2%", 3).next_block(plan, tmp_path / "records") == []


def test_profiles_are_the_two_of_the_documentation() -> None:
    """The paper's is what the paper says."""
    assert profiles.names() == ["quick", "paper"]
    paper = profiles.load("paper")
    assert paper.repetitions > 15 and paper.stream_bytes == 16_000_000


@pytest.mark.parametrize(("text", "words"), [
    ("repetitions: 0\nstream_bytes: 1\ntitle: x", "repetitions"), ("- 1", "top level"),
    ("title: x\nrepetitions: 1\nstream_bytes: 1\nseconds: 3", "seconds"), ("{", "cannot be read")])
def test_bad_profiles_are_one_line(tmp_path: Path, text: str, words: str) -> None:
    """The file, the field, and what to do."""
    path = tmp_path / "mine.yml"
    path.write_text(text)
    with pytest.raises(UserError, match=words) as caught:
        profiles.load(str(path))
    assert "\n" not in str(caught.value) and str(path) in str(caught.value)


def test_dry_run_prints_and_does_nothing(qop: Qop) -> None:
    """Cells, order, time and disk; no folder appears."""
    done = qop("run", "--dry-run", "--policies", "P1,P8", "--profile", "paper")
    assert done.returncode == 0, done.stderr
    assert "2 policies x 5 scenarios x 16 repetitions of 16 MB" in done.stdout
    assert "160 of 160 repetitions to measure" in done.stdout
    assert "Expected time" in done.stdout and "Expected disk" in done.stdout
    assert done.stdout.count("block 16, ") == 5
    assert not list(qop.folder.iterdir())


def test_virtual_time_is_expected_to_be_faster_than_the_air() -> None:
    """The paper's profile: days of air, less than an hour of two processors."""
    plan = Plan(load_all(), [load_scenario(n) for n in ("N1", "N2", "N3", "R1", "R2")], MEDIUM,
                Settings(16, 16_000_000, 16_000_000))
    virtual = dataclasses.replace(plan, settings=dataclasses.replace(
        plan.settings, clock="virtual"))
    air = preview.expected_s(plan, plan.steps(), 2)
    assert preview.expected_s(virtual, plan.steps(), 2) < air / 3


@pytest.mark.parametrize(("arguments", "words"), [
    (["--profile", "fast"], "choose from quick, paper"),
    (["--clock", "virtual", "--on", "host"], "--clock virtual"),
    (["--until-ci", "wide"], "--until-ci wide")])
def test_bad_options_are_one_line(qop: Qop, arguments: list[str], words: str) -> None:
    """Refused before anything starts."""
    done = qop("run", *arguments)
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and words in done.stderr


def test_fresh_refuses_a_folder_with_records(qop: Qop) -> None:
    """Starting over never mixes with what is there, and never deletes it."""
    record.write(make("P1", 1), qop.folder / "out" / "records")
    done = qop("run", "--fresh", "--out", "out")
    assert done.returncode == 2 and "holds records already" in done.stderr
    assert len(list((qop.folder / "out" / "records").iterdir())) == 1


def test_the_projection_is_the_start_once_and_the_rest_by_number() -> None:
    """120 of 960 repetitions in 20 + 100 s: 20 + 800 s for all; and so much faster than the air."""
    found = Projection(measured=120, planned=960, lasted_s=200, later=60, later_s=60, air_s=4160)
    assert found.total_s == pytest.approx(1040)
    assert found.total_air_s == pytest.approx(33_280)
    text = "\n".join(found.lines())
    assert "120 of 960" in text and "32.0 times faster" in text and "1.00 s x 840" in text
