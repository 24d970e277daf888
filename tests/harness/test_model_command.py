"""`./qop model`: the toolkit's answers on the command line, and one line for nonsense."""

from __future__ import annotations

import csv
import signal
import subprocess
from pathlib import Path

import pytest

import results_folder
from analysis.queueing import (
    apply_settings,
    assess_model,
    estimate_network,
    load_model,
    solve_network,
)
from analysis.reporting import model_tables
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
    model = load_model(file)
    changed = apply_settings(model.network, {"radius.speed": 4, "renewals.population": 5})
    networks = [model.network, changed]
    chains, stations = model_tables.make_model_tables(networks,
                                                      [estimate_network(each) for each in networks])
    for suffix, network in (("", model.network), ("_what_if", changed)):
        solution = solve_network(network)
        for row, chain in zip(chains.rows, solution.chains, strict=True):
            response = row[chains.column_index(f"response_s{suffix}")].number
            assert response is not None and response.value == chain.response_s
        busy = stations.rows[0][stations.column_index(f"utilization{suffix}")].number
        assert busy is not None and busy.value == solution.station("radius").utilization
    assert stations.rows[1][
        stations.column_index("utilization")].number is None  # a delay has no servers


def test_predictions_stand_beside_measurements(file: Path) -> None:
    """Each with its error, and what was neither measured nor between such loads is marked."""
    model = load_model(file)
    assessment = assess_model(model.network, model.measured["logins"], chain="logins", loads=[45])
    table = model_tables.make_prediction_table({"logins": assessment})
    error, mark = table.column_index("response_error"), table.column_index("mark")
    assert [row[mark].text for row in table.rows] == ["calibrated", "modelled", "extrapolated"]
    number = table.rows[1][error].number
    assert number is not None and number.value == assessment.predictions[1].response_s.error
    assert table.rows[2][error].number is None
    assert not table.has_column("p95_s")


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
    (["--load", "45"], "--load: the model has several chains (logins, renewals); say which one"),
    (["--load", "45"], "say which one by --chain, for example --chain logins"),
    (["--capacity", "mean < 1 s"], "--capacity: the model has several chains (logins, renewals)"),
    (["--chain", "login", "--load", "3"], "did you mean logins?"),
    (["--seed", "-1"], "-1 is not in the range x>=0")])
def test_bad_questions_get_one_line(qop_here: Qop, file: Path, words: list[str], line: str) -> None:
    """What, where and what to do; nothing is written."""
    done = qop_here("model", str(file), *words, "--out", "answers")
    assert done.returncode == 2 and done.stdout == ""
    [said] = done.stderr.splitlines()
    assert line in said and not (qop_here.folder / "answers").exists()


@pytest.mark.parametrize(("words", "where"), [
    (["--what-if", "logins.rate_per_s=500"], "What if: station 'radius': "),
    (["--chain", "logins", "--load", "500"], "load 500: station 'radius': ")])
def test_a_load_beyond_saturation_leaves_the_other_answers(qop_here: Qop, file: Path,
                                                           words: list[str], where: str) -> None:
    """The model's own tables and files, one line of what is wrong, and the status of bad input."""
    done = qop_here("model", str(file), *words, "--out", "answers")
    assert done.returncode == 2
    [said] = done.stderr.splitlines()
    assert where + "open chains bring 500.0% of the work that it can do" in said
    assert "lower rate_per_s of logins from 500 to less than 100" in said
    assert "logins: radius saturates first, at 100 a second; it is 56% busy" in done.stdout
    with (qop_here.folder / "answers/tables/chains.csv").open() as stream:
        logins = next(csv.DictReader(stream))
    assert float(logins["response_s"]) > 0.21 and not logins.get("response_s_what_if")
    assert ("  saturated  " in done.stdout) == ("--load" in words)


def test_a_capacity_without_an_answer_leaves_the_other_answers(qop_here: Qop, file: Path) -> None:
    """Logins that saturate the server leave renewals nothing there, after a what-if only."""
    done = qop_here("model", str(file), "--what-if", "logins.rate_per_s=500",
                    "--chain", "renewals", "--capacity", "mean < 250 ms")
    assert done.returncode == 2
    assert done.stderr.count("What if: station 'radius': open chains bring 500.0%") == 1
    assert "As it is: renewals: up to " in done.stdout and "Stations" in done.stdout


SIMULATED = """
stations: {s: {discipline: fcfs, servers: 2, scv: 0}}
chains: {j: {rate_per_s: 100, classes: {a: {visits: [{station: s, service_s: 0.01}]}}}}
"""


def test_what_has_no_formula_is_simulated_and_said_so(qop_here: Qop) -> None:
    """M/D/2: means, a further load and a percentile's capacity, with intervals; twice the same."""
    (qop_here.folder / "model.yml").write_text(SIMULATED)
    words = ["model", "model.yml", "--load", "120", "--capacity", "p90 < 20 ms"]
    done = qop_here(*words)
    assert done.returncode == 0, done.stderr
    assert "Means: simulated, with 95 % intervals" in done.stdout and "±" in done.stdout
    assert "95 % confidence, simulated) keep to p90 < 20 ms" in done.stdout
    assert qop_here(*words).stdout == done.stdout


def test_a_simulation_is_interrupted_in_one_line(qop: Qop) -> None:
    """Ctrl-C while it goes on: status 130, and nothing of Python's."""
    (qop.folder / "model.yml").write_text(SIMULATED.replace("100,", "199,"))
    running = qop.start("model", "model.yml", *["--capacity", "p99.9 < 100 ms"] * 9)
    with pytest.raises(subprocess.TimeoutExpired):
        running.communicate(timeout=4)
    running.send_signal(signal.SIGINT)
    _, complaints = running.communicate(timeout=60)
    assert (running.returncode, complaints.lstrip()) == (130, "qop: interrupted\n")


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
