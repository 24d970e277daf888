"""Tests of analysis.queueing's loader: a model.yml becomes a network, or one line of advice."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.queueing import Model, QueueingError, asymptotic_bounds, load_model, solve_network
from conftest import PROJECT

GOOD = """\
stations:
  radius: {servers: 2}
  wan: {discipline: delay, direction: round_trip}
chains:
  auth:
    population: 20
    think_s: 1.5
    shares: {full: 0.25, resumed: 0.75}
    classes:
      hello:
        visits:
          - {station: wan, service_s: 0.04}
      handshake:
        variant: full
        visits:
          - {station: radius, service_s: 0.002, visits: 4}
          - {station: wan, service_s: 0.04, visits: 4}
      ticket:
        variant: resumed
        visits:
          - {station: radius, service_s: 0.001}
measured:
  auth:
    - {load: 1, response_s: 0.09, calibration: true}
    - {load: 20, response_s: 0.11, throughput_per_s: 12.4, p95_s: 0.3}
"""


def read(folder: Path, text: str) -> Model:
    """The model of a text."""
    file = folder / "model.yml"
    file.write_text(text, encoding="utf-8")
    return load_model(file)


def refusal(folder: Path, text: str) -> str:
    """What the loader says, without the folder; it has to be one line."""
    with pytest.raises(QueueingError) as error:
        read(folder, text)
    assert "\n" not in str(error.value)
    return str(error.value).removeprefix(f"{folder}/")


def test_visits_may_be_urgent(tmp_path: Path) -> None:
    """At a station that knows priorities; none is unless that is said."""
    text = GOOD.replace("servers: 2", "discipline: priority").replace(
        "service_s: 0.001}", "service_s: 0.001, urgent: true}")
    network = read(tmp_path, text).network
    assert network.station("radius").discipline == "priority"
    [ticket] = [member for member in network.chain().classes if member.name == "ticket"]
    assert [visit.is_urgent for member in network.chain().classes for visit in member.visits
            if member is not ticket] == [False] * 3
    assert [visit.is_urgent for visit in ticket.visits] == [True]


def test_a_model_becomes_a_network(tmp_path: Path) -> None:
    """Stations, classes with variants, loads and measurements; and it can be solved."""
    model = read(tmp_path, GOOD)
    station = model.network.station("radius")
    assert (station.discipline, station.servers) == ("ps", 2)
    assert model.network.station("wan").direction == "round_trip"
    means = {s.name: s.demand_s[0] for s in solve_network(model.network).stations}
    assert means["radius"] == pytest.approx(0.25 * 4 * 0.002 + 0.75 * 0.001)
    assert means["wan"] == pytest.approx(0.04 + 0.25 * 0.16)
    assert asymptotic_bounds(model.network).saturation_per_s == pytest.approx(2 / 0.00275)
    first, second = model.measured["auth"]
    assert (first.load, first.calibration, second.p95_s) == (1, True, 0.3)


@pytest.mark.parametrize(("old", "new", "line", "words"), [
    ("service_s: 0.001}", "service_s: 0}", 21,
     "chains.auth.classes.ticket.visits.0.service_s: 0 is not above 0"),
    ("service_s: 0.001}", "service_s: fast}", 21, "service_s: 'fast' is not a number"),
    ("service_s: 0.001}", "service_s: .inf}", 21, "service_s: inf is not a finite number"),
    ("service_s: 0.001}", "service_ms: 1}", 21,
     "service_ms: there is no such field; did you mean service_s?"),
    ("visits: 4}", "visits: -4}", 16, "visits.0.visits: -4 is not above 0"),
    ("population: 20", "population: 0", 6, "population: 0 is not 1 or more"),
    ("population: 20", "population: 2.5", 6, "population: 2.5 is not a whole number"),
    ("population: 20", "population: yes", 6, "population: true is not a whole number"),
    ("population: 20", "population: 020", 6, ("chains.auth.population: YAML reads 020 as an octal "
                                              "number, which is 16; write the decimal number")),
    ("think_s: 1.5", "think_s: 1:30", 7, "as a sexagesimal number (base 60), which is 90; write"),
    ("think_s: 1.5", "think_s: 1:30.5", 7, "as a sexagesimal number (base 60), which is 90.5;"),
    ("think_s: 1.5", "think_s: 0x10", 7, "as a hexadecimal number, which is 16; write"),
    ("think_s: 1.5", "think_s: 0b11", 7, "as a binary number, which is 3; write"),
    ("think_s: 1.5", "think_s: 1_0", 7, "as a number with underscores, which is 10; write"),
    ("think_s: 1.5", "think_s: 80M", 7, "'80M' is not a number; write 80000000"),
    ("population: 20", "population: 1000001", 6, "1000001 is not 1000000 or less"),
    ("population: 20", "populaton: 20", 6, "did you mean population?"),
    ("servers: 2", "servers: 0", 2, "stations.radius.servers: 0 is not 1 or more"),
    ("discipline: delay", "discipline: lifo", 3,
     "'lifo' is none of ps, fcfs, priority or delay"),
    ("service_s: 0.001}", "service_s: 0.001, urgent: 2}", 21, "urgent: 2 is not true or false"),
    ("direction: round_trip", "direction: up", 3, "'up' is none of round_trip or one_way"),
    ("think_s: 1.5", "think_s: -1", 7, "think_s: -1 is not 0.0 or more"),
    ("  radius: {servers: 2}", "  my radius: {}", 2, "is not written as it has to be"),
    ("  radius: {servers: 2}", "  radius: 3", 2, "stations.radius: 3 is not a mapping"),
    ("load: 1,", "load: 0,", 24, "measured.auth.0.load: 0 is not above 0"),
    ("    think_s: 1.5", "    population: 3", 7, "'population' was given on line 6; keep one"),
    ("calibration: true", "calibration: '1'", 24, "is not true or false"),
    ("chains:", "chains: &a", 4, "anchors and aliases (& and *) are not used; write it out"),
    ("population: 20", "population: !!int 20", 6, "the tag 'tag:yaml.org,2002:int' is not used"),
    ("population: 20", "population: [20", 7, "is not valid YAML"),
    ("population: 20", "population: " + "[" * 9 + "]" * 9, 6, "nested deeper than 10 levels"),
    ("measured:", "---\nmeasured:", 22, "a second document begins"),
    ("population: 20", "? [a]\n    : 3", 6, "a block or list stands where a key belongs"),
    ("population: 20", "population: 2020-13-45", 6, "'2020-13-45' is not a whole number; write a"),
])
def test_bad_fields_are_one_line_with_their_line(tmp_path: Path, old: str, new: str, line: int,
                                                 words: str) -> None:
    """What is wrong, on which line, and what to write."""
    assert GOOD.count(old) >= 1
    text = refusal(tmp_path, GOOD.replace(old, new, 1))
    assert text.startswith(f"model.yml:{line}: ")
    assert words in text


@pytest.mark.parametrize(("old", "new", "words"), [
    ("station: radius, service_s: 0.001", "station: raduis, service_s: 0.001",
     "chain 'auth', class 'ticket': visits station 'raduis', which is not there; did you mean rad"),
    ("    population: 20\n", "", "chain 'auth': is neither closed nor open"),
    ("population: 20", "population: 20\n    rate_per_s: 3", "give either population or rate_per_s"),
    ("population: 20", "rate_per_s: 3", "is open, and think_s is for closed chains"),
    ("resumed: 0.75", "resumed: 1.75", "share 1.75 of variant 'resumed' is not a share"),
    ("resumed: 0.75", "resumed: 0.5", "shares add up to 0.75; make them add up to 1"),
    (", resumed: 0.75", "", "variant 'resumed' has no share"),
    ("resumed: 0.75", "resumed: 0.75, old: 0", "variant 'old' is not a class's variant"),
    ("measured:\n  auth:", "measured:\n  aut:", "chain 'aut': is not in this network; did you mea"),
    ("  radius: {servers: 2}", "  radius: {servers: 2}\n  auth: {}", "and a chain have one name"),
    ("servers: 2", "servers: 2, discipline: priority", "several servers have no order"),
])
def test_what_does_not_fit_together_is_one_line(tmp_path: Path, old: str, new: str,
                                                words: str) -> None:
    """Fields that are right each by itself: the file, the chain or station, what to do."""
    text = refusal(tmp_path, GOOD.replace(old, new, 1))
    assert text.startswith("model.yml: ")
    assert words in text


@pytest.mark.parametrize(("text", "words"), [
    *((text, "; write stations: and chains:") for text in ("", "- a", "3")),
    ("stations: {}\nchains: {}\n", "stations: is empty; see docs/queueing.md (and 1 more)"),
    ("stations: {a: {}}\n", "chains: is missing"),
    ("a\0b", "this is a binary file"), ("x: '\\UFFFFFFFF'", "x: there is no such field"),
    ('x: "\\UFFFFFFFF"', "is not valid YAML"), ("x: 1\n" * 60_000, "bytes are too many"),
    ("stations: {a: {}}\nchains:\n  <<: {b: 1}\n", "there is no such field"),
    ("? 1\n: 2", "1: there is no such field"), ("null: 3", "null: there is no such field"),
])
def test_other_files_are_one_line(tmp_path: Path, text: str, words: str) -> None:
    """Empty, binary, huge or other YAML files."""
    assert words in refusal(tmp_path, text)


def test_missing_files_are_one_line(tmp_path: Path) -> None:
    """No file, a folder, bytes that are no text."""
    for name, words in (("nowhere.yml", "there is no such file; check the path"),
                        (".", "is a folder")):
        with pytest.raises(QueueingError, match=words):
            load_model(tmp_path / name)
    (tmp_path / "latin.yml").write_bytes(b"a: \xff\xfe")
    with pytest.raises(QueueingError, match="is not UTF-8 text"):
        load_model(tmp_path / "latin.yml")


def test_the_page_shows_what_its_example_prints(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str]) -> None:
    """docs/queueing.md: the model is loaded, the program runs, and prints what stands there."""
    page = (PROJECT / "docs" / "queueing.md").read_text(encoding="utf-8")
    fences = dict(re.findall(r"```([^\n]+)\n(.*?)```", page, flags=re.DOTALL))
    (tmp_path / "model.yml").write_text(fences["yaml model.yml"], encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    exec(compile(fences["python"], "docs/queueing.md", "exec"), {})
    assert capsys.readouterr().out == fences["text"]


words = st.sampled_from([
    "stations", "chains", "auth", ":", "{", "}", "[", "]", "\n", "  ", "- ", ",", "population", "0",
    "1e3", "-1", "null", "~", "classes", "visits", "'", '"', "&a", "*a", "!!x", "|", "---", "?",
    "\t", "radius", "servers: 2", "é"])


@settings(deadline=None, max_examples=50)
@given(st.one_of(st.text(max_size=60), st.lists(words, max_size=30).map("".join),
                 st.tuples(st.integers(0, len(GOOD)), st.integers(0, 12), st.text(max_size=4)).map(
                     lambda cut: GOOD[:cut[0]] + cut[2] + GOOD[cut[0] + cut[1]:])))
def test_any_text_is_a_model_or_one_line(tmp_path_factory: pytest.TempPathFactory,
                                         text: str) -> None:
    """Whatever a file holds, nobody sees a traceback."""
    file = tmp_path_factory.getbasetemp() / "model.yml"
    file.write_bytes(text.encode("utf-8", "surrogatepass"))
    try:
        assert load_model(file).network.chains
    except QueueingError as error:
        assert "\n" not in str(error)
        assert "; " in str(error)
