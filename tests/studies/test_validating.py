"""A study's folder that lacks a part or is broken: each mistake is one line, in every command."""

from __future__ import annotations

import importlib
from collections.abc import Iterator

import click
import pytest

import own_study
import studies
from conftest import PROJECT, Qop
from harness.commands import lab, report
from harness.commands.options import engine_options, study_parameters
from studies import validation

FILES = own_study.tutorial()
STUDY, WORKLOAD = "study.py", "workload.py"
FACTOR = 'study.Factor("hops", "Hops", is_number=True'
FACTORS = "factors = (study.Factor("
METRIC = 'study.Metric("round_trip_s", "round-trip time"'
SETTING = "requests: int = Field(50, ge=2,"
LEVEL = "study.Level(str(number), number=number)"
CHAIN = 'return study.TestbedSpec(network=chain(int(cell.ids["hops"])))'
JUDGE = "    def judge(self"
CLASSES = "    settings_type, measurements_type = Settings"
VALUES = "    def values(self"


def changed(file: str, old: str, new: str) -> dict[str, str]:
    """The tutorial's files with one thing changed."""
    assert old in FILES[file], old
    return {**FILES, file: FILES[file].replace(old, new, 1)}


#: What is wrong with the folder: its files, and what the one line says.
BROKEN: dict[str, tuple[dict[str, str], str]] = {
    "a name that there is not": (changed(STUDY, "STUDY = Hops()", "STUDY = Hopps()"), "NameError"),
    "a file that there is not": (
        changed(STUDY, "STUDY = Hops()", 'STUDY = open("/nowhere/x")'), "FileNotFoundError"),
    "it ends Python": (changed(STUDY, "STUDY = Hops()", "raise SystemExit(0)"), "SystemExit"),
    "a field that pydantic refuses": (
        changed(STUDY, SETTING, "requests = Field(50, ge=2,"), "PydanticUserError"),
    "a syntax error": (changed(STUDY, "FIRST_TTL = 64", "FIRST_TTL ="), "SyntaxError"),
    "no factors": (changed(STUDY, FACTORS, "factors = ()\n    others = (study.Factor("),
                   "factors is empty"),
    "a factor that is none": (changed(STUDY, FACTORS, 'factors = ("hops", study.Factor('),
                              "'hops', which is no Factor"),
    "a factor twice": (
        changed(STUDY, FACTORS, "factors = 2 * (study.Factor("), "factor 'hops' is there twice"),
    "a factor with a column's name": (
        changed(STUDY, FACTOR, FACTOR.replace("hops", "clock")), "a column of that name"),
    "a factor with the name of an option of lab": (
        changed(STUDY, FACTOR, FACTOR.replace("hops", "node")), "'./qop lab' has an option"),
    "no testbed": (changed(STUDY, "    def testbed(", "    def testbet("), "has no testbed"),
    "no judge": (changed(STUDY, JUDGE, "    def juge(self"), "has no judge"),
    "no workload.py": ({name: text for name, text in FILES.items() if name != WORKLOAD},
                     "there is no such module"),
    "no Workload": (changed(WORKLOAD, "class Workload", "class Workloat"), "no class Workload"),
    "workload.py with a syntax error": (changed(WORKLOAD, "def services(", "def services"),
                                      "cannot be read"),
    "settings of another class": (
        changed(STUDY, CLASSES, "    settings_type, measurements_type = dict"),
        "derives from Settings"),
    "no metrics": (changed(STUDY, "metrics = (", "metrics = ()\n    others = ("),
                   "metrics is empty"),
    "a metric twice": (changed(STUDY, "metrics = (", "metrics = 2 * ("),
                       "metric 'round_trip_s' is there twice"),
    "a metric with a column's name": (
        changed(STUDY, METRIC, METRIC.replace("round_trip_s", "elapsed_s")), "a column of that"),
    "a baseline of an unknown factor": (
        changed(STUDY, CLASSES, '    baseline = {"hop": "1"}\n' + CLASSES), "no factor 'hop'"),
    "a baseline of an unknown level": (
        changed(STUDY, CLASSES, '    baseline = {"hops": "9"}\n' + CLASSES), "9: no such level"),
    "an option of the engine's": (changed(STUDY, '"--requests"', '"--seed"'),
                                  "'./qop run' has one of that name"),
    "an option without dashes": (changed(STUDY, '"--requests"', '"requests"'), "two dashes"),
    "a setting with a profile's key": (
        changed(STUDY, SETTING, "repetitions: int = Field(50, ge=2,"), "profiles have a key"),
    "an option without results, and no report for it": (
        changed(STUDY, CLASSES, '    report_options = (study.ReportOption("--printed", "in print", '
                'without_results=True),)\n' + CLASSES), "no report_alone, which --printed asks"),
    "a clock that there is not": (
        changed(STUDY, CLASSES, '    clock = "sundial"\n' + CLASSES), "clock is 'sundial'"),
    "no study.py": ({name: text for name, text in FILES.items() if name != STUDY}, "no study.py"),
    "a testbed that fails": (changed(STUDY, CHAIN, 'return {}["chain"]'), "testbed: KeyError"),
    "a testbed that is none": (changed(STUDY, CHAIN, "return None"), "testbed: AttributeError"),
    "levels that fail": (changed(STUDY, LEVEL, "study.Level(0) for _ in [1] or (1)"),
                         "factor hops: ValueError"),
    "a level at no number": (changed(STUDY, LEVEL, LEVEL.replace("=number", "=number * 1e999")),
                             "stands at inf"),
    "an expectation that is not a number": (
        changed(STUDY, VALUES, "    def expected_cost(self, cell, asked):\n        return "
                "study.ExpectedCost(float('nan'))\n\n" + VALUES), "expected_cost: ValueError"),
    "faults without names": (changed(STUDY, CLASSES, '    faults = ("x",)\n' + CLASSES),
                             "not Faults or texts"),
    "a network that cannot be": (changed(STUDY, ".2/24", ".2/99"), "network chain-1: "),
    "a task that is no plain data": (
        changed(STUDY, VALUES, "    def task(self, cell, asked):\n        return {'x': "
                "object()}\n\n" + VALUES), "task: TypeError"),
}


#: The ids of these studies.
IDS = {f"broken_{number}": name for number, name in enumerate(BROKEN)}


def called(study: str, files: dict[str, str]) -> dict[str, str]:
    """The tutorial's files as a study of another id."""
    text = files.get(STUDY, "").replace('id = "hops"', f'id = "{study}"')
    text = text.replace("studies.hops", f"studies.{study}")
    return {**files, STUDY: text} if STUDY in files else files


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """All of them side by side, and the tutorial's as it is."""
    files = {study: called(study, BROKEN[name][0]) for study, name in IDS.items()}
    with own_study.installed(tmp_path_factory.mktemp("broken"), {**files, "hops": FILES}):
        yield


@pytest.mark.usefixtures("broken")
@pytest.mark.parametrize("study", IDS, ids=list(BROKEN))
def test_a_broken_study_is_one_line(study: str, qop_here: Qop) -> None:
    """It is refused with status 2; the line names the study and says what is wrong."""
    done = qop_here("run", study, "--dry-run")
    assert done.returncode == 2 and done.stderr.count("\n") == 1, done.stderr
    assert BROKEN[IDS[study]][1] in done.stderr and study in done.stderr


@pytest.mark.usefixtures("broken")
def test_broken_studies_do_not_hide_the_others(qop_here: Qop) -> None:
    """Those that are whole are listed; each other has its line, and the status is 1."""
    done = qop_here("studies")
    assert done.returncode == 1
    assert "\nhops: Round-trip" in done.stdout and done.stdout.startswith("qop2007: ")
    lines = done.stderr.splitlines()
    assert len(lines) == len(BROKEN)
    assert {study for study in IDS for line in lines if f"{study}:" in line
            or f"{study}," in line or f"{study}/" in line} == set(IDS)


def test_every_study_here_is_whole() -> None:
    """What is asked of a user's study, those of the project give."""
    for path in (PROJECT / "studies").glob("*/study.py"):
        study = importlib.import_module(f"studies.{path.parent.name}.study").STUDY
        validation.validate_study(study)


def test_names_that_are_taken_are_those_of_the_commands() -> None:
    """The lists of taken options are what the commands have, whichever study it is."""
    study = studies.load_study(studies.DEFAULT)
    own = {name for part in study_parameters(study) for name in part.opts} - {"--fault"}

    def options(params: list[click.Parameter]) -> set[str]:
        return {name for part in params if isinstance(part, click.Option) for name in part.opts
                if name.startswith("--")}
    assert options(engine_options(study)) | {"--fault", "--help"} <= validation.RUN_OPTIONS
    assert options(report._report_params(study)) - {each.name for each in study.report_options} <= \
        validation.REPORT_OPTIONS
    assert options(lab._lab_options(study)) - own - {f"--{each.name}" for each
                                                     in study.factors} <= \
        validation.LAB_OPTIONS
