"""`./qop model`: the toolkit's answers on the command line, and one line for nonsense."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

import results_folder
from analysis import model_tables
from analysis.queueing import apply, assess, load, solve
from conftest import Qop

MODEL = """
stations:
  radius: {discipline: ps}
  wan: {discipline: delay, direction: round_trip}
chains:
  logins:
    rate_per_s: 50
    classes:
      all:
        visits:
          - {station: radius, service_s: 0.01}
          - {station: wan, service_s: 0.1, visits: 2}
  renewals:
    population: 3
    think_s: 1
    classes:
      all:
        visits:
          - {station: radius, service_s: 0.02}
measured:
  logins:
    - {load: 1, response_s: 0.2101, calibration: true}
    - {load: 40, response_s: 0.2200, throughput_per_s: 40}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A model with an open and a closed chain, at one queue and one network."""
    path = tmp_path / "model.yml"
    path.write_text(MODEL)
    return path


def test_tables_show_what_the_toolkit_answers(file: Path) -> None:
    """Every number is the solution's, as it is and after what-ifs, by chain and by station."""
    model = load(file)
    changed = apply(model.network, {"radius.speed": 4, "renewals.population": 5})
    chains, stations = model_tables.tables(model.network, changed)
    for suffix, network in (("", model.network), ("_what_if", changed)):
        solution = solve(network)
        for row, chain in zip(chains.rows, solution.chains, strict=True):
            response = row[chains.column(f"response_s{suffix}")].number
            assert response is not None and response.value == chain.response_s
        busy = stations.rows[0][stations.column(f"utilization{suffix}")].number
        assert busy is not None and busy.value == solution.station("radius").utilization
    assert stations.rows[1][stations.column("utilization")].number is None  # a delay has no servers


def test_predictions_stand_beside_measurements(file: Path) -> None:
    """Each with its error, and what was neither measured nor between such loads is marked."""
    model = load(file)
    assessment = assess(model.network, model.measured["logins"], chain="logins", loads=[45])
    table = model_tables.predictions({"logins": assessment})
    error, mark = table.column("response_error"), table.column("mark")
    assert [row[mark].text for row in table.rows] == ["calibrated", "modelled", "extrapolated"]
    number = table.rows[1][error].number
    assert number is not None and number.value == assessment.predictions[1].response_s.error
    assert table.rows[2][error].number is None
    assert not table.has("p95_s")


def test_command_prints_tables_bottlenecks_and_capacity(qop_here: Qop, file: Path) -> None:
    """What is asked is answered for both networks, and written for papers and programs."""
    done = qop_here("model", str(file), "--what-if", "radius.speed=2",
                    "--capacity", "mean < 250 ms", "--chain", "logins", "--load", "45",
                    "--out", "answers")
    assert done.returncode == 0, done.stderr
    assert "As it is: logins: radius saturates first, at 100 a second" in done.stdout
    assert "What if: logins: radius saturates first, at 200 a second" in done.stdout
    assert "keep to mean < 250 ms" in done.stdout and "extrapolated" in done.stdout
    with (qop_here.folder / "answers/tables/stations.csv").open() as stream:
        radius = next(csv.DictReader(stream))
    assert float(radius["demand_s"]) == 2 * float(radius["demand_s_what_if"])


@pytest.mark.parametrize(("words", "line"), [
    (["--what-if", "rad.speed=2"], "there is no station or chain 'rad'; did you mean radius?"),
    (["--what-if", "radius.speed"], "is not a setting; write NAME=NUMBER"),
    (["--capacity", "p95 of 3"], "is not understood; write for example p95 < 150 ms"),
    (["--load", "45"], "logins, renewals"),
    (["--what-if", "logins.rate_per_s=500"], "radius"),
    (["--chain", "login", "--load", "3"], "did you mean logins?"),
    (["--seed", "-1"], "-1 is not in the range x>=0")])
def test_bad_questions_get_one_line(qop_here: Qop, file: Path, words: list[str], line: str) -> None:
    """What, where and what to do; nothing is written."""
    done = qop_here("model", str(file), *words, "--out", "answers")
    assert done.returncode == 2 and done.stdout == ""
    [said] = done.stderr.splitlines()
    assert line in said and not (qop_here.folder / "answers").exists()


def test_folder_without_a_model(qop_here: Qop) -> None:
    """A folder without records has nothing to model, and a study without a model says so."""
    (qop_here.folder / "results").mkdir()
    done = qop_here("model", "results")
    assert done.returncode == 2
    assert done.stderr.startswith("qop: results: holds no records yet; ")
    results_folder.make(qop_here.folder / "other")
    done = qop_here("model", "other")
    assert done.returncode == 2
    assert done.stderr == ("qop: other: the study qop2007 has no queueing model; give a model's "
                           "file, as in docs/queueing.md\n")
