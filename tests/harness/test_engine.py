"""What a run plans, prints, keeps and leaves out, without measuring anything."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path

import click
import pytest

import plans
import results_folder
import studies
from bench.paper import Projection
from conftest import Qop
from fabricated import make
from guest.boot import Clock
from guest.image import GuestImage
from harness.commands import options
from harness.engine import events, profiles, progress, recording, results, setup, stopping_rule
from harness.engine.plan import Plan, node_devices
from harness.engine.request import RunRequest, build_plan
from harness.errors import UserError
from measure.records import record
from measure.records.record import Record, StudyRecord
from studies import contract as study_parts
from studies import records as stored
from studies.policy_factors import scenario_level
from studies.study import Judgement, Repetition
from topologies.loader import load_device
from topologies.model import Interface, Link, Network, Node

STUDY = studies.load_study("qop2007")



def plan_of(repetitions: int = 3, asked: Mapping[str, str] | None = None) -> Plan:
    """P1 and P2 in N2."""
    return plans.plan_of("P1,P2", asked=asked, repetitions=repetitions)


@pytest.mark.parametrize(("scenarios", "warm"), [
    ("N2,N3", "P1-N2"), ("N2,R1", "P1-R1"), ("N2,E1,R2", "P1-R2")])
def test_a_testbed_warms_up_by_a_cell_that_goes_abroad(scenarios: str, warm: str) -> None:
    """Where one does: daemons of the other subnet load, too, before anything is recorded."""
    [planned, *_] = plans.plan_of("P1", scenarios).testbeds.values()
    cells = [cell for cell in planned.cells if cell.name.startswith("P1")]
    assert STUDY.warm_up_cell(cells).name == warm


def kept(folder: Path, *records: Record) -> results.ResultsFolder:
    """A results folder with these records in it."""
    for one in records:
        record.write_record(one, folder / "records")
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
    assert [s.name for s in folder.missing_steps(plan)] == [
        s.name for s in plan.all_steps() if s.name not in done]


def test_an_edited_policy_invalidates_its_own_cells_only(tmp_path: Path) -> None:
    """Its records are put aside, not deleted and not counted; the others stay."""
    plan = plan_of(1)
    stale = make("P2", 1).model_copy(update={"digests": {"policy": "0" * 64}})
    kept(tmp_path, make("P1", 1), stale)
    captures = tmp_path / "captures" / stale.name
    captures.mkdir(parents=True)
    (captures / "auth-air.pcap.gz").write_bytes(b"x")
    with results.ResultsFolder(tmp_path) as folder:
        folder.adopt_plan(plan)
        assert [s.name for s in folder.missing_steps(plan)] == ["P2-N2-001"]
    aside = tmp_path / "superseded" / ("0" * 12)
    assert stored.read_record(aside / "records" / "P2-N2-001.json") == stale
    assert (aside / "captures" / stale.name / "auth-air.pcap.gz").read_bytes() == b"x"
    assert not (tmp_path / "records" / "P2-N2-001.json").exists()


def test_a_folder_of_another_plan_is_refused(tmp_path: Path) -> None:
    """Other settings are other results: one line, nothing changed."""
    plan = plan_of()
    with results.ResultsFolder(tmp_path) as folder:
        folder.adopt_plan(plan)
    kept(tmp_path, make("P1", 1))
    other = dataclasses.replace(plan, settings=dataclasses.replace(plan.settings, seed=2))
    others = {"seed 1 there, 2 here": other,
              "stream_bytes 1000000 there, 50000 here": plans.plan_of(
                  "P1,P2", asked={"stream_bytes": "50k"}),
              "authentications not given there, 3 here": plans.plan_of(
                  "P1,P2", asked={"authentications": "3"}),
              "other levels of policy": plans.plan_of("P1")}
    for says, unlike in others.items():
        with results.ResultsFolder(tmp_path) as folder, pytest.raises(UserError) as raised:
            folder.adopt_plan(unlike)
        assert f": holds results of another plan ({says}); " in str(raised.value)
        with pytest.raises(UserError, match="holds results of another plan"):
            progress.print_preview(unlike, tmp_path, "all")


def test_a_folder_whose_wires_were_others_is_refused(tmp_path: Path) -> None:
    """Where no level tells it: a report would state wires that nothing was measured over.

    It is not gone on with by itself, either. An edited scenario is a level that tells; and nothing
    is known of the wires of folders that were begun before a plan had them.
    """
    made = plan_of()
    scenario = made.levels["scenario"][0].value
    links = [dataclasses.replace(link, delay_ms=9.0) for link in scenario.network.links]
    edited = scenario_level(dataclasses.replace(
        scenario, network=dataclasses.replace(scenario.network, links=links)))
    level = made.levels["scenario"][0]
    rewired = plans.with_levels(made, scenario=[dataclasses.replace(edited, digest=level.digest)])
    assert rewired.digest == made.digest and rewired.manifest.wires != made.manifest.wires
    with results.ResultsFolder(tmp_path / "run") as folder:
        folder.adopt_plan(made)
    kept(tmp_path / "run", make("P1", 1))
    before = (tmp_path / "run" / "plan.json").read_bytes()
    with results.ResultsFolder(tmp_path / "run") as folder, \
            pytest.raises(UserError, match=r"another plan \(other wires\)"):
        folder.adopt_plan(rewired)
    assert (tmp_path / "run" / "plan.json").read_bytes() == before
    assert results.choose_results_folder(None, tmp_path, made, fresh=False) == tmp_path / "run"
    assert results.choose_results_folder(None, tmp_path, rewired, fresh=False) != tmp_path / "run"
    assert made.manifest.is_compatible_with(plans.with_levels(made, scenario=[edited]).manifest)
    document = json.loads(before)
    del document["wires"]
    results_folder.seal_anew(tmp_path / "run" / "plan.json", document)
    with results.ResultsFolder(tmp_path / "run") as folder:
        assert folder.adopt_plan(rewired) == ""


def test_a_folder_whose_levels_stood_elsewhere_is_refused(tmp_path: Path) -> None:
    """The number of a level is where its records are drawn."""
    levels = [study_parts.Level("N2", number=number, value=level.value, content=level.content)
              for level in plan_of().levels["scenario"] for number in (4.0, 40.0)]
    first, second = (plans.with_levels(plan_of(), scenario=[level]) for level in levels)
    with results.ResultsFolder(tmp_path) as folder:
        folder.adopt_plan(first)
    kept(tmp_path, make("P1", 1))
    with results.ResultsFolder(tmp_path) as folder, pytest.raises(UserError, match="another plan"):
        folder.adopt_plan(second)


def test_the_newest_folder_is_the_one_measured_last(tmp_path: Path) -> None:
    """Not the one whose name comes last: a user gives folders any name."""
    made = plan_of()
    for name in ("z-before", "a-after"):
        with results.ResultsFolder(tmp_path / name) as folder:
            folder.adopt_plan(made)
        kept(tmp_path / name, make("P1", 1))
    for path in (tmp_path / "z-before").rglob("*"):
        os.utime(path, (1.0, 1.0))
    (tmp_path / "z-before" / "report.html").touch()  # somebody has looked at it since
    assert results.find_latest_folder(tmp_path) == tmp_path / "a-after"
    assert results.choose_results_folder(None, tmp_path, made, fresh=False) == tmp_path / "a-after"


SCHEMA_3 = '{"schema": 3, "what": "a later version knows"}'


@pytest.mark.parametrize("content", [SCHEMA_3, '{"schema": 1}', "{", "", "null", '{"schema": 2}'])
def test_a_plan_that_cannot_be_read_is_refused(tmp_path: Path, content: str) -> None:
    """Of a later version or damaged: one line, and neither it nor a record is changed."""
    kept(tmp_path, make("P1", 1))
    (tmp_path / "plan.json").write_text(content)
    (tmp_path / "records" / "P2-N2-001.json").write_text(SCHEMA_3)
    before = results_folder.tree(tmp_path)
    with results.ResultsFolder(tmp_path) as folder, pytest.raises(UserError, match="or move") as no:
        folder.adopt_plan(plan_of())
    assert str(tmp_path / "plan.json") in str(no.value) and "\n" not in str(no.value)
    assert results_folder.tree(tmp_path) == before


#: By what is wrong: the text in the place of P1-N2-001, and what is said of it.
FOREIGN = {
    "of a later schema": (SCHEMA_3, "schema 3, this version reads 2"),
    "of an earlier schema": ('{"schema": 1, "policy": "P1"}', "schema 1, this version reads 2"),
    "with a strange environment": (json.dumps(make("P1", 1).model_dump(
        mode="json", by_alias=True) | {"environment": 7}), "environment: "),
    "cut short": ('{"schema": 2, "cell"', "Expecting"),
    "of another repetition": (make("P1", 3).model_dump_json(by_alias=True), "holds the record"),
    "of another study": (make("P1", 1, study=StudyRecord(id="other", version=1)).model_dump_json(
        by_alias=True), "is of the study other"),
    "of another version of the study": (
        make("P1", 1, study=StudyRecord(id="qop2007", version=7)).model_dump_json(by_alias=True),
        "version 7, not of qop2007, version 3"),
    "of another plan": (make("P1", 1, environment={"plan": "x"}).model_dump_json(by_alias=True),
                        "was measured for another plan")}


@pytest.mark.parametrize(("content", "says"), FOREIGN.values(), ids=list(FOREIGN))
def test_what_does_not_count_is_moved_and_never_overwritten(tmp_path: Path, content: str,
                                                            says: str) -> None:
    """It is measured again; what was there is whole in superseded/, captures with it."""
    plan = plan_of(1)
    kept(tmp_path, make("P2", 1))
    results_folder.write(tmp_path / "records" / "P1-N2-001.json", content.encode())
    results_folder.write(tmp_path / "captures" / "P1-N2-001" / "auth-air.pcap.gz", b"x")
    with results.ResultsFolder(tmp_path) as folder:
        line = folder.adopt_plan(plan)
        assert [step.name for step in folder.missing_steps(plan)] == ["P1-N2-001"]
        folder.keep_record(make("P1", 1), None)
        assert folder.adopt_plan(plan) == "" and folder.missing_steps(plan) == []
    assert says in line and "\n" not in line and "1 record of the plan" in line
    [aside] = tmp_path.glob("superseded/*/records/P1-N2-001.json")
    assert aside.read_text() == content
    assert (aside.parent.parent / "captures" / "P1-N2-001" / "auth-air.pcap.gz").exists()


def test_what_is_put_aside_twice_is_there_twice(tmp_path: Path) -> None:
    """Edited and edited back: each measurement of the same level stays."""
    for reason in ("first", "second"):
        stale = make("P2", 1, reason=reason, digests={"policy": "0" * 64})
        kept(tmp_path, stale)
        with results.ResultsFolder(tmp_path) as folder:
            assert folder.adopt_plan(plan_of(1)) == ""
    aside = tmp_path.glob("superseded/*/records/P2-N2-001.json")
    assert {stored.read_record(path).reason for path in aside} == {"first", "second"}


def test_a_repetition_that_a_stopping_rule_comes_to_is_not_overwritten(tmp_path: Path) -> None:
    """Beyond the plan's own repetitions, a record that cannot be read moves aside, too."""
    results_folder.write(tmp_path / "records" / "P1-N2-004.json", SCHEMA_3.encode())
    with results.ResultsFolder(tmp_path) as folder:
        assert "schema 3" in folder.adopt_plan(plan_of(3))
    assert not any((tmp_path / "records").iterdir())


def test_flagged_repetitions_are_measured_again_once(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that was measured alone already stays as it is, flag and all; or every one, if asked."""
    folder = kept(tmp_path, make("P1", 1), flagged("P1", 2), flagged("P2", 1, alone=True))
    assert [step.name for step in folder.flagged_steps(plan_of())] == ["P1-N2-002"]
    monkeypatch.setenv("QOP_FLAGGED", "keep")
    assert folder.flagged_steps(plan_of()) == []


@pytest.mark.parametrize(("text", "widths"), [
    ("2%", {"tcp_goodput_bps": 0.02, "udp_goodput_bps": 0.02}),
    ("0.5", {"tcp_goodput_bps": 0.005, "udp_goodput_bps": 0.005}),
    ("tcp:2%,auth=10%", {"tcp_goodput_bps": 0.02, "authentication_time_s": 0.1})])
def test_stopping_rules(text: str, widths: dict[str, float]) -> None:
    """One width for the goodputs, or one by name."""
    assert stopping_rule.parse_stopping_rule(text, 30, STUDY).widths == pytest.approx(widths)


@pytest.mark.parametrize("text", ["", "x", "0%", "-2%", "rtt:2%", "2%%"])
def test_bad_stopping_rules_are_one_line(text: str) -> None:
    """What is no width is named, with an example."""
    with pytest.raises(UserError, match="--until-ci") as caught:
        stopping_rule.parse_stopping_rule(text, 30, STUDY)
    assert "\n" not in str(caught.value)


def test_a_rule_goes_on_where_intervals_are_wide_and_only_there(tmp_path: Path) -> None:
    """P1 hardly varies, P2 does: the next block holds P2 alone, up to the bound."""
    plan = plan_of(3)
    kept(tmp_path, *(make("P1", i, tcp=5e6 + i) for i in (1, 2, 3)),
         *(make("P2", i, tcp=4e6 + i * 5e5) for i in (1, 2, 3)))
    rule = stopping_rule.parse_stopping_rule("tcp:2%", 4, STUDY)
    assert [s.name for s in rule.next_block(plan, tmp_path / "records")] == ["P2-N2-004"]
    record.write_record(make("P2", 4, tcp=9e6), tmp_path / "records")
    assert rule.next_block(plan, tmp_path / "records") == []  # as many as may be
    assert stopping_rule.parse_stopping_rule("tcp:300%", 9,
                                             STUDY).next_block(plan, tmp_path / "records") == []


def test_a_failed_repetition_counts_towards_the_bound_and_not_for_the_width(
        tmp_path: Path) -> None:
    """A cell that always fails ends the run all the same."""
    plan = plans.plan_of("P1", repetitions=2)
    bad = make("P1", 3, status="failed", reason="no", authentication_time_s=None)
    kept(tmp_path, make("P1", 1), make("P1", 2, tcp=1e6), bad)
    assert [s.repetition for s in stopping_rule.parse_stopping_rule("2%", 9, STUDY).next_block(
        plan, tmp_path / "records")] == [4]
    assert stopping_rule.parse_stopping_rule("2%", 3,
                                             STUDY).next_block(plan, tmp_path / "records") == []


def test_profiles_are_those_of_the_documentation() -> None:
    """The paper's is what the paper says."""
    assert profiles.profile_names(STUDY) == ["quick", "campus", "channels", "clock", "devices",
                                             "moves", "paper", "subnets", "today"]
    paper = profiles.load_profile(STUDY, "paper")
    assert paper.repetitions > 15 and paper.set["stream_bytes"] == 16_000_000


def test_a_profile_of_one_study_stands_for_both() -> None:
    """`./qop run today` is the study that has it, with it; of a name that several have, none."""
    assert profiles.find_only_study("today") == "qop2007"
    assert profiles.find_only_study("quick") == profiles.find_only_study("none") == ""
    assert options._with_profile(["--fresh", "today", "--seed", "2"], "today") == [
        "--fresh", "qop2007", "--profile", "today", "--seed", "2"]
    for name in ("qop2007", "paper", ""):
        assert options._with_profile([name], name) == [name]


def test_settings_may_stand_at_the_top_of_a_profile(tmp_path: Path) -> None:
    """As they did while there was one study: a user's own file goes on working."""
    path = tmp_path / "mine.yml"
    path.write_text("title: x\nrepetitions: 2\nstream_bytes: 200000\nset: {detection: event}\n")
    assert profiles.load_profile(STUDY, str(path)).set == {"stream_bytes": 200_000,
                                                           "detection": "event"}


def test_a_profile_says_otherwise_for_one_clock(tmp_path: Path) -> None:
    """By that clock alone, and what it does not say stays; the command line goes before both."""
    path = tmp_path / "mine.yml"
    path.write_text("title: x\nrepetitions: 2\nset: {stream_bytes: 200000, detection: event}\n"
                    "by_clock: {processor: {repetitions: 7, set: {stream_bytes: 100000}}}\n")

    def asked(clock: str, repetitions: int | None = None, **sets: str) -> tuple[int, object]:
        made = build_plan(RunRequest(STUDY, profile=str(path), repetitions=repetitions, sets=sets),
                          {"clock": clock, "builder": "mininet"})
        return made.settings.repetitions, made.asked.model_dump()["stream_bytes"]

    assert asked("real") == asked("virtual") == (2, 200_000)
    assert asked("processor") == (7, 100_000)
    assert asked("processor", 3, stream_bytes="50000") == (3, 50_000)


def test_what_a_profile_says_by_one_clock_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                                  qop_here: Qop) -> None:
    """Its title where profiles are listed, and that it decides where an option has a default."""
    monkeypatch.setattr(profiles, "_folder", lambda _: tmp_path)
    (tmp_path / "quick.yml").write_text(
        "title: x\nset: {stream_bytes: 200000}\n"
        "by_clock: {virtual: {title: y, set: {authentications: 4}}}\n")
    defaults = {param.name: param.help.rpartition("(default: ")[2]
                for param in options.run_parameters(STUDY)
                if isinstance(param, click.Option) and param.help}
    for name, default in (("stream_bytes", "from the profile)."),
                          ("authentications", "from the profile)."),
                          ("udp_payload_bytes", "1400).")):
        assert defaults[f"setting_{name}"] == default
    monkeypatch.undo()
    quick = profiles.load_profile(STUDY, "quick")
    title = quick.for_clock(build_plan(RunRequest(STUDY), {}).settings.clock).title
    assert f"  profile quick: {title}; " in qop_here("studies").stdout


def test_build_plan_takes_the_profiles_baseline_if_it_is_measured(tmp_path: Path) -> None:
    """Other levels leave it out; a profile that does not measure its own baseline is refused."""
    path = tmp_path / "mine.yml"

    def baseline(only: str, **levels: list[str]) -> dict[str, str]:
        path.write_text(f"title: x\nbaseline: {{policy: P2}}\nonly: {{policy: {only}}}\n")
        made = build_plan(RunRequest(STUDY, profile=str(path), levels=levels),
                          {"builder": "mininet"})
        return made.manifest.baseline

    assert baseline("[P1, P2]") == {"policy": "P2"}
    assert baseline("[P1, P2]", policy=["P1", "P3"]) == {}
    with pytest.raises(UserError, match=r"baseline\.policy: P2 is not measured by this profile"):
        baseline("[P1, P3]")


def test_build_plan_measures_own_files_beside_the_profiles_baseline() -> None:
    """As with the study's own baseline, P1; names given by the user replace it."""
    for given, expected in (({"profile": "campus"}, "M4"), ({}, "P1"), (
            {"profile": "campus", "levels": {"policy": ["M13"]}}, "M13")):
        made = build_plan(RunRequest(
            STUDY, files={"policy": [Path("examples/wpa2-psk.yml")]}, **given), {})
        assert [level.id for level in made.levels["policy"]] == [expected, "WPA2-PSK"]


@pytest.mark.parametrize(("text", "words"), [
    ("title: x\nby_clock: {sundial: {}}", "by_clock"),
    ("title: x\nby_clock: {real: {only: {}}}", r"by_clock\.real\.only: there is no such field"),
    ("repetitions: 0\nstream_bytes: 1\ntitle: x", "repetitions"), ("- 1", "the file holds a list"),
    ("title: x\nrepetitions: 1\nstream_bytes: 1\nseconds: 3", "seconds"),
    ("{", "this is not valid YAML"),
    ("title: x\nonly: {colour: [red]}", "no such factor"),
    ("title: x\nbaseline: {colour: red}", r"baseline\.colour: qop2007 has no such factor"),
    ("title: x\ntitle: y", "'title' was given on line 1"), ("title: [3]", "title: is not text"),
    ("title: x\nonly: {policy: []}", r"only\.policy: is empty"),
    ("title: x\nbreadth: 3", "breadth: there is no such field"), ("title: x\nset: 3", "set")])
def test_bad_profiles_are_one_line(tmp_path: Path, text: str, words: str) -> None:
    """The file, the field, and what to do."""
    path = tmp_path / "mine.yml"
    path.write_text(text)
    with pytest.raises(UserError, match=words) as caught:
        profiles.load_profile(STUDY, str(path))
    assert "\n" not in str(caught.value) and str(path) in str(caught.value)


def test_dry_run_prints_and_does_nothing(qop_here: Qop) -> None:
    """Cells, order, time and disk; no folder appears."""
    done = qop_here("run", "--dry-run", "--policies", "P1,P8", "--profile", "paper")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("2 policies x 5 scenarios x 16 repetitions of qop2007; "
                                  "stream_bytes 16000000")
    assert "160 of 160 repetitions to measure" in done.stdout
    assert "Expected time" in done.stdout and "Expected disk" in done.stdout
    assert done.stdout.count("block 16, ") == 5
    assert not list(qop_here.folder.iterdir())


def test_virtual_time_is_expected_to_be_faster_than_the_air() -> None:
    """The paper's profile: days of air, less than an hour of two processors."""
    plan = plans.plan_of(plans.policies(12), "N1,N2,N3,R1,R2", repetitions=16,
                         asked={"stream_bytes": "16M"})
    virtual = dataclasses.replace(plan, settings=dataclasses.replace(
        plan.settings, clock="virtual"))
    air = progress.estimate_duration_s(plan, plan.all_steps(), 2)
    assert progress.estimate_duration_s(virtual, plan.all_steps(), 2) < air / 3


@pytest.mark.parametrize("study", studies.study_names())
def test_side_by_side_is_never_expected_to_take_longer(
        study: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str]) -> None:
    """Every profile, by both clocks: computing is compared with computing, waiting with waiting."""
    monkeypatch.setattr(progress, "format_duration", str)
    of = studies.load_study(study)
    for name in profiles.profile_names(of):
        made = build_plan(RunRequest(of, name), {})
        for clock in ("real", "virtual"):
            progress.print_preview(dataclasses.replace(made, settings=dataclasses.replace(
                made.settings, clock=clock)), tmp_path, "all")
            said = re.search(r"Expected time: (\S+) on \d+ processors \((\S+) one after the other",
                             capsys.readouterr().out)
            assert said is not None and float(said[1]) <= float(said[2]), (name, clock)


@pytest.mark.parametrize(("arguments", "words"), [
    (["--profile", "fast"], "choose from quick, campus, channels, clock, devices, moves"),
    (["--clock", "virtual", "--on", "host"], "--clock virtual"),
    (["--until-ci", "wide"], "--until-ci wide")])
def test_bad_options_are_one_line(qop_here: Qop, arguments: list[str], words: str) -> None:
    """Refused before anything starts."""
    done = qop_here("run", *arguments)
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and words in done.stderr


def test_fresh_refuses_a_folder_with_records(qop_here: Qop) -> None:
    """Starting over never mixes with what is there, and never deletes it."""
    record.write_record(make("P1", 1), qop_here.folder / "out" / "records")
    done = qop_here("run", "--fresh", "--out", "out")
    assert done.returncode == 2 and "holds records already" in done.stderr
    assert len(list((qop_here.folder / "out" / "records").iterdir())) == 1


def test_the_projection_is_the_start_once_and_the_rest_by_number() -> None:
    """120 of 960 repetitions in 20 + 100 s: 20 + 800 s for all; and so much faster than the air."""
    found = Projection(measured=120, planned=960, lasted_s=200, later=60, later_s=60, air_s=4160)
    assert found.total_s == pytest.approx(1040)
    assert found.total_air_s == pytest.approx(33_280)
    text = "\n".join(found.format_lines())
    assert "120 of 960" in text and "32.0 times faster" in text and "1.00 s x 840" in text


def test_a_studys_own_options_and_settings_say_the_same(qop_here: Qop) -> None:
    """`--policies`, `--only` and a profile's `only` choose levels, options and `--set` settings."""
    (qop_here.folder / "mine.yml").write_text(
        "title: x\nrepetitions: 2\nset: {stream_bytes: 200000, authentications: 1}\n"
        "only: {policy: [P3]}\n")
    said = [qop_here("run", "--dry-run", "--out", "out", "--scenarios", "N2",
                *arguments).stdout.partition("Expected disk")[0]
            for arguments in (
                ["--policies", "P3", "--stream-bytes", "200k", "--repetitions", "2",
                 "--authentications", "1"],
                ["--only", "policy=P3", "--set", "stream_bytes=200k", "--repetitions", "2",
                 "--set", "authentications=1"],
                ["--profile", "mine.yml"],
                ["qop2007", "--profile", "mine.yml"])]
    assert said[0].startswith("1 policy x 1 scenario x 2 repetitions of qop2007; "
                              "stream_bytes 200000")
    assert len(set(said)) == 1


@pytest.mark.parametrize(("arguments", "words"), [
    (["nosuch"], "no study 'nosuch'; choose from qop2007"),
    (["--only", "colour=red"], "has no factor 'colour'; choose from policy, scenario"),
    (["--only", "policy=P99"], "P99: no such policy"),
    (["--only", "policy="], "names no level"),
    (["--only", "policy=P1", "--policies", "P2"], "levels of policy were given before"),
    (["--set", "colour=red"], "no such setting; choose from stream_bytes"),
    (["--set", "stream_bytes"], "has no value; give KEY=VALUE"),
    (["--set", "stream_bytes=10k"], "--set stream_bytes=10k: give between 50k and 10G"),
    (["--set", "udp_payload_bytes=many"], "--set udp_payload_bytes=many: is not a whole number\n"),
    (["--udp-payload", "5"], "--udp-payload 5: "),
    (["--stream-bytes", "1 k"], "is not a size; write 500k, 1M or 16M"),
    (["--stream-bytes", "1M", "--set", "stream_bytes=2M"], "was given with --stream-bytes, too")])
def test_what_a_study_does_not_have_is_one_line(qop_here: Qop, arguments: list[str],
                                                words: str) -> None:
    """A study, factor, level or setting that there is not, or a value out of its range."""
    done = qop_here("run", *arguments, "--out", "out")
    assert done.returncode == 2, done.stderr
    assert done.stderr.count("\n") == 1 and words in done.stderr
    assert not list(qop_here.folder.iterdir())


def test_studies_are_listed(qop_here: Qop) -> None:
    """Factors with their levels, metrics, and the time that each profile takes."""
    done = qop_here("studies")
    assert done.returncode == 0, done.stderr
    for words in ("qop2007: ", "factor policy: P1, P2", "factor scenario: N1, N2",
                  "metric tcp_goodput_bps: TCP goodput in Mbit/s, higher is better",
                  "profile quick: ", "960 repetitions, about "):
        assert words in done.stdout


def test_a_run_is_what_its_events_add_up_to(tmp_path: Path) -> None:
    """Progress and status count the same: from events, as they come or from the folder."""
    heard = events.RunState()
    log = events.EventLog(tmp_path, heard.apply_event)
    log.emit_event("run-started", already=1, total=3)
    log.emit_event("testbed-starting", testbed="P1")
    log.emit_event("testbed-ready", testbed="P1")
    log.emit_event("repetition-started", name="P1-N2-001", testbed="P1")
    log.emit_event("repetition-started", name="P2-N2-001", testbed="P2")
    recording.announce_record(STUDY, flagged("P1", 1), log)
    recording.announce_record(STUDY, make("P2", 1, status="failed", reason="no"), log)
    assert heard == events.RunState.from_folder(tmp_path)
    assert (heard.done, heard.total, heard.already) == (3, 4, 1)  # one is to be measured again
    assert heard.flagged == {"P1-N2-001"} and heard.failed == {"P2-N2-001"}
    assert heard.running == {} and heard.testbeds == {"/P1"}
    recording.announce_record(STUDY, make("P1", 1), log)
    log.emit_event("testbed-ended", testbed="P1")
    assert heard.flagged == set() and heard.testbeds == set() and heard.done == heard.total


def test_a_flagged_repetition_that_stays_is_counted_once(
        monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """With QOP_FLAGGED=keep nothing is planned again, so that a run does not end at 1 of 2."""
    monkeypatch.setenv("QOP_FLAGGED", "keep")
    heard = events.RunState()
    log = events.EventLog(tmp_path, heard.apply_event)
    log.emit_event("run-started", already=0, total=1)
    recording.announce_record(STUDY, flagged("P1", 1), log)
    assert (heard.done, heard.total, heard.flagged) == (1, 1, {"P1-N2-001"})


def test_what_a_machine_cannot_measure_has_not_failed(tmp_path: Path) -> None:
    """A skipped repetition is done, and does not make a run's end a bad one."""
    heard = events.RunState()
    log = events.EventLog(tmp_path, heard.apply_event)
    log.emit_event("run-started", already=0, total=1)
    recording.announce_record(STUDY, make("P2", 1, status="skipped", reason="no GCMP here"), log)
    assert heard.done == 1 and heard.failed == set()


def test_events_that_a_full_disk_broke_off_are_passed_over(tmp_path: Path) -> None:
    """The next one begins on a line of its own."""
    log = events.EventLog(tmp_path)
    log.emit_event("run-started", already=0, total=1)
    with (tmp_path / events.FILE).open("ab") as file:
        file.write(b'{"at": 1, "event": "repetition-rec')
    log.emit_event("run-ended")
    assert [event["event"] for event in events.read_events(tmp_path / events.FILE)] == [
        "run-started", "run-ended"]


@pytest.mark.parametrize(("clock", "device", "refusal"), [
    ("real", "pentium-pro-200", "no effect by the real clock"),
    ("processor", "pentium-pro-200", "says nothing of other work, which the processor clock needs"),
    ("virtual", "strongarm-206", "no effect by the virtual clock; .* with --clock processor"),
    ("processor", "strongarm-206", ""), ("real", "today", ""), ("virtual", "today", "")])
def test_a_device_without_effect_is_refused(clock: Clock, device: str, refusal: str) -> None:
    """No number may claim a processor that nothing emulated: one line, before anything starts.

    The daemons of this study charge nothing; studies whose programs do say by which clocks.
    """
    made = plan_of()
    scenario = made.levels["scenario"][0].value
    nodes = {**scenario.network.nodes, "a2": dataclasses.replace(
        scenario.network.nodes["a2"], device=load_device(device))}
    slow = dataclasses.replace(scenario, network=dataclasses.replace(scenario.network, nodes=nodes))
    factor = dataclasses.replace(STUDY.factors[1], read=lambda *_: [scenario_level(slow)])
    study = type("Slow", (type(STUDY),), {"factors": (STUDY.factors[0], factor)})()
    asked = RunRequest(study, levels={"policy": ["P1"]})
    if refusal:
        with pytest.raises(UserError, match=f"a2: device {device}:? {refusal}"):
            build_plan(asked, {"clock": clock})
    else:
        assert build_plan(asked, {"clock": clock}).cells


@pytest.mark.parametrize(("devices", "said"), [
    ("zz=today", "zz: no such node to compute on a device; choose from"),
    ("a2", "give NODE=DEVICE"), ("a2=today,a2=today", "a node has one device"),
    ("a2=nonesuch", "nonesuch"), ("a2=ultrasparc-148x2", "says nothing of other work")])
def test_devices_that_cannot_be_given_are_refused(devices: str, said: str) -> None:
    """One line before anything starts: a strange node, and what is no device or not for nodes."""
    with pytest.raises(UserError, match=said):
        build_plan(RunRequest(STUDY, sets={"devices": devices}), {"clock": "processor"})


@pytest.mark.parametrize(("sets", "said"), [
    ({"moves": "2", "authentications": "1"}, r"^--set moves=2: each comes after one of 1 authent"),
    ({"moves": "2", "authentications": "2", "move_stream_ms": "5"},
     r"^--set moves=2: a stream goes over one move"),
    ({"moves": "0"}, r"^--set moves=0: is not 1 or more$")])
def test_moves_that_cannot_be_are_refused(sets: dict[str, str], said: str) -> None:
    """One line before anything starts: a move has an authentication, and a stream has one move."""
    with pytest.raises(UserError, match=said):
        build_plan(RunRequest(STUDY, sets=sets), {"clock": "real"})


def test_moves_are_part_of_the_plan() -> None:
    """Where there are several; plans of before, in which a repetition moved once, go on."""
    asked = {"moves": "2", "authentications": "3"}
    made = build_plan(RunRequest(STUDY, sets=asked), {"clock": "real"})
    assert made.manifest.asked["moves"] == 2
    told = {cell.value("scenario").roams_to is not None: STUDY.task(cell, made.asked)["moves"]
            for cell in made.cells}
    assert told == {True: 2, False: 1}  # who stays has none to be told of
    assert "moves" not in plan_of().manifest.asked


def test_moves_are_reckoned_with() -> None:
    """By what is expected of a repetition that moves, and by when it counts as hung."""
    once, often = (build_plan(RunRequest(
        STUDY, levels={"policy": ["P1"], "scenario": ["R1"]},
        sets={"authentications": "5", "moves": moves}), {"clock": "real"})
        for moves in ("1", "5"))
    [cell] = once.cells
    assert (STUDY.expected_cost(cell, often.asked).duration_s
            > STUDY.expected_cost(cell, once.asked).duration_s + 2)
    assert STUDY.deadline_s(cell, often.asked) > STUDY.deadline_s(cell, once.asked)


def test_a_device_of_all_nodes_is_that_of_those_without_one() -> None:
    """It is given to every node of a network but those that have another; testbeds stay shared."""
    asked = RunRequest(STUDY, levels={"policy": ["P1"], "scenario": ["N2", "N3"]},
                       sets={"devices": "all=today,a2=strongarm-206"})
    made = build_plan(asked, {"clock": "processor"})
    [testbed] = made.testbeds.values()
    given = {node: device["name"] for node, device in node_devices(testbed.spec).items()}
    assert given == {**dict.fromkeys(testbed.spec.network.nodes, "today"), "a2": "strongarm-206"}
    assert made.manifest.asked["devices"] == "all=today,a2=strongarm-206"


def test_devices_are_part_of_the_plan() -> None:
    """They are kept by node and in full; without any, nothing is said of them, as ever."""
    asked = "a2=strongarm-206,ha-b=pentium4-2600"
    made = build_plan(RunRequest(STUDY, sets={"devices": asked}), {"clock": "processor"})
    assert made.manifest.asked["devices"] == asked
    assert sorted(made.manifest.devices) == ["pentium4-2600", "strongarm-206"]
    assert "devices" not in plan_of().manifest.asked


@pytest.mark.parametrize(("node", "end", "words"), [
    ({"address": "10.0.0.1/99"}, "b/left", "qop2007: network pair: a/right"),
    ({"address": "10.0.0.1/24"}, "nobody/left", "'nobody/left' names no interface")])
def test_a_network_that_a_study_composes_is_checked(node: dict[str, str], end: str,
                                                    words: str) -> None:
    """As those of files are: one line before anything starts, not a machine that will not do."""
    composed = Network("pair", {"a": Node([], {"right": Interface(**node)}),
                                "b": Node([], {"left": Interface("10.0.0.2/24")})},
                       [Link(["a/right", end])])
    study = type("Composed", (type(STUDY),), {
        "testbed": lambda *_: study_parts.TestbedSpec(composed)})()
    with pytest.raises(UserError, match=words):
        build_plan(RunRequest(study), {})


def test_the_plan_says_what_wires_do() -> None:
    """In words, each once; wires as quick as the processor are not mentioned."""
    made = plan_of()
    assert made.manifest.wires == []
    scenario = made.levels["scenario"][0].value
    first, *others = scenario.network.links
    links = [dataclasses.replace(first, rate_bps=1e7, delay_ms=0.5, wire="lan"),
             *(dataclasses.replace(link, loss_percent=2.0) for link in others)]
    network = dataclasses.replace(scenario.network, links=links)
    level = scenario_level(dataclasses.replace(scenario, network=network))
    wires = plans.with_levels(made, scenario=[level]).manifest.wires
    assert wires == (["2 % loss"] if others else []) + ["lan (10 Mbit/s, 0.5 ms)"]


def test_a_study_has_a_clock_of_its_own() -> None:
    """Where nobody says another; so a study of devices runs, and can be planned, as it stands."""
    study = type("Virtual", (type(STUDY),), {"clock": "virtual"})()
    assert build_plan(RunRequest(study), {}).settings.clock == "virtual"
    assert build_plan(RunRequest(study), {"clock": "real"}).settings.clock == "real"
    assert build_plan(RunRequest(STUDY), {}).settings.clock == "processor"
    for asked, clock in ((study, "virtual"), (STUDY, "processor")):
        option = next(param for param in options.run_parameters(asked) if param.name == "clock")
        assert f"(default: from the profile, else {clock}" in option.help


@pytest.mark.parametrize(("usual", "on", "clock"), [
    ("processor", "guest", "processor"), ("processor", "host", "real"), ("real", "host", "real"),
    ("virtual", "host", "virtual")])
def test_a_machines_own_kernel_counts_no_work(usual: str, on: str, clock: str) -> None:
    """So it is measured by in real time there; a clock that was asked for is never replaced."""
    study = type("Usual", (type(STUDY),), {"clock": usual})()
    assert build_plan(RunRequest(study), {"on": on}).settings.clock == clock
    assert build_plan(RunRequest(study),
                      {"on": on, "clock": "processor"}).settings.clock == "processor"


def test_a_named_folder_goes_on_by_the_clock_that_it_was_begun_with(qop_here: Qop) -> None:
    """With a line that says so; another one has to be asked for, and is refused there."""
    arguments = ("run", "--dry-run", "--policies", "P1,P2", "--scenarios", "N2", "--builder",
                 "mininet")
    for clock in ("real", "processor"):
        made = plans.plan_of(repetitions=1, clock=clock)
        folder = qop_here.folder / clock
        with results.ResultsFolder(folder) as begun:
            begun.adopt_plan(made)
        kept(folder, make("P1", 1))
        done = qop_here(*arguments, "--out", clock, "--repetitions", "1")
        assert done.returncode == 0, done.stderr
        assert f"; clock {clock}, " in done.stdout and "1 of 2 repetitions" in done.stdout
        says = f"qop: {clock}: goes on by the {clock} clock, as it was begun; the usual one of "
        assert done.stderr.startswith(says) == (clock != STUDY.clock)
    done = qop_here(*arguments, "--out", "real", "--clock", "virtual")
    assert done.returncode == 2 and '(clock "real" there, "virtual" here)' in done.stderr


def test_a_new_folder_is_begun_with_a_word_of_one_by_another_clock(
        tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Where that has the same cells and is not complete; it would be forgotten otherwise."""
    real, other = (plans.plan_of(repetitions=1, clock=clock) for clock in ("real", "virtual"))
    with results.ResultsFolder(tmp_path / "run") as folder:
        folder.adopt_plan(real)
    kept(tmp_path / "run", make("P1", 1))

    def told(made: Plan) -> str:
        results.print_other_clock_hint(tmp_path, made)
        return capsys.readouterr().err

    line = told(other)
    assert line.count("\n") == 1 and line.startswith(
        f"qop: {tmp_path / 'run'}: has the same cells by the real clock, unfinished; '--out ")
    assert told(real) == told(plans.plan_of("P1", repetitions=1, clock="virtual")) == ""
    kept(tmp_path / "run", make("P2", 1))
    assert told(other) == ""


@pytest.mark.parametrize(("kernel", "words"), [
    ({}, "is from before it"),
    ({"version": "6.12.1", "patches_left_out": ["50-processor-clock.patch"]},
     "is 6.12.1, to which 50-processor-clock.patch cannot be applied; add --clock real"),
    ({"version": "6.12.1", "patches_left_out": []}, "is 6.12.1, which traps system calls without"),
    ({"version": "7.2.12", "patches_left_out": [], "processor_clock": True}, "")])
def test_a_kernel_without_the_clock_is_refused_before_anything_starts(
        kernel: dict[str, object], words: str) -> None:
    """In one line that says what to do; other clocks are every kernel's."""
    built = GuestImage(Path("linux"), Path("root"), True, "", {"kernel": kernel} if kernel else {})
    setup.check_clock(plans.plan_of(clock="virtual"), built)
    refusing = pytest.raises(UserError, match=words) if words else contextlib.nullcontext()
    with refusing as caught:
        setup.check_clock(plans.plan_of(clock="processor"), built)
    if caught is not None:
        assert "\n" not in str(caught.value) and "add --clock real" in str(caught.value)


@pytest.mark.parametrize(("name", "is_data"), [
    ("answers.csv", True), ("raw.json.gz", True), ("client.keytab", True), ("page.html", False),
    ("drawing.svg", False), ("tables.tex", False), ("run", False), ("a/x.csv", False)])
def test_a_study_keeps_data_alone(tmp_path: Path, name: str, *, is_data: bool) -> None:
    """Anything else could not be passed on: its archive would be refused."""
    study = type("Keeping", (type(STUDY),), {
        "judge": staticmethod(lambda _: Judgement(None, files=[name]))})()
    step = plan_of().all_steps()[0]
    repetition = Repetition(step.cell, plan_of().asked, tmp_path, {})
    if is_data:
        assert recording.judge_repetition(study, repetition).files == [name]
    else:
        with pytest.raises(study_parts.StudyError, match=f"keeps {name}, which is no data"):
            recording.judge_repetition(study, repetition)


def test_bar_and_lines_count_alike_in_a_continued_run(
        tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Both leave out what an earlier start has measured."""
    shown = progress.ProgressDisplay(plans.plan_of("P1"), tmp_path)
    log = events.EventLog(tmp_path, shown.show_event)
    log.emit_event("run-started", already=6, total=10)
    log.emit_event("repetition-started", name="P1-N2-007", testbed="P1", attempt=1)
    log.emit_event("repetition-recorded", name="P1-N2-007", status="failed", reason="x",
                   kept=True, testbed="P1")
    assert "[1/4] P1-N2-007" in capsys.readouterr().err

    async def update_once() -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.01):
                await shown.update_until_cancelled()

    asyncio.run(update_once())
    [task] = shown._bar.tasks
    assert (task.completed, task.total) == (1, 4)
