"""No line of the engine and its toolkits names a study, its metrics, scenarios or policies."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

import studies
from harness.commands import lab
from import_graph import ROOT
from studies import Study
from topologies.loader import load_network, network_names

ROOMS = ("harness", "measure", "analysis", "topologies", "policies", "guest")
#: Data that studies use: a policy says its own name there, a scenario its own.
DATA = ("policies/*.yml", "topologies/**/*.yml", "topologies/examples/*.py",
        "measure/explain/references.json")
#: Factors whose levels are such data; levels of others are words like any ("1", "TLS").
NAMED = ("policy", "scenario")
#: Names of one word ("medium", "altered") are words like any; and so are these of the field.
COMPOUND = re.compile(r"\w[ _-]\w")
FIELDS = {
    "payload_bytes", "hunting-and-pecking", "wrong-passphrase", "first-server-runs", "releases",
    "round trip", "round trips", "round_trips", "round_trip_s", "certificate_bytes", "eap_bytes",
    "EAP packets", "IKE packets", "logins_per_s"}
TEXT = {".py", ".yml", ".json", ".j2", ".html", ".css", ".js", ".sh", ".md", ""}


def words(study: Study) -> set[str]:
    """What nobody but the study itself may say of it."""
    metrics = {metric.name for metric in study.metrics}
    metrics |= {metric.difference.name for metric in study.metrics if metric.difference}
    levels = {level.id for factor in study.factors if factor.name in NAMED
              for level in factor.read((), ())}
    return {study.id, *metrics, *levels, *spoken(study)} - FIELDS


def spoken(study: Study) -> set[str]:
    """What a study calls its controls, settings, options, itself and its metrics, and stops by."""
    settings = study.settings_type.model_fields.values()
    options = {str(extra.get("option", "")) for setting in settings
               if isinstance(extra := setting.json_schema_extra, dict)}
    metrics = (*study.metrics, *study.distributions, *study.timelines)
    names = {*study.faults, *study.settings_type.model_fields, *options, study.title,
             *(option.name for option in study.report_options),
             *(metric.title for metric in metrics)}
    rules = {f"{metric.short}:{percent}%" for metric in metrics if metric.short
             for percent in (1, 2, 5, 10)}
    return {name for name in names if COMPOUND.search(name)} - FIELDS | rules


def named(forbidden: Iterable[str], root: Path = ROOT) -> Iterator[str]:
    """Lines of the rooms that hold one of the words, as `file:line: word`."""
    either = "|".join(map(re.escape, sorted(forbidden)))
    word = re.compile(rf"(?<![\w-])(?:{either})(?!\w)")
    for file, text in texts(root).items():
        if word.search(text):
            for number, line in enumerate(text.splitlines(), 1):
                if said := word.search(line):
                    yield f"{file.relative_to(root)}:{number}: {said[0]}"


@cache
def texts(root: Path) -> dict[Path, str]:
    """What stands in the rooms' files."""
    data = {file for pattern in DATA for file in root.glob(pattern)}
    return {file: file.read_text() for room in ROOMS
            for file in sorted(set((root / room).rglob("*")) - data)
            if file.is_file() and file.suffix in TEXT and "__pycache__" not in file.parts}


@pytest.mark.parametrize("study", studies.study_names())
def test_only_the_study_names_what_is_its_own(study: str) -> None:
    """A new study is a folder and nothing else: nobody else knows of it."""
    assert list(named(words(studies.load_study(study)))) == []


def test_words_are_read_from_the_study() -> None:
    """Its id, its metrics with their differences, the policies and scenarios, all that it names."""
    said = words(studies.load_study("qop2007"))
    assert said >= {
        "qop2007", "authentication_time_s", "tcp_overhead_bps", "P1", "P12", "N2", "R1",
        "radius-down", "stream_bytes", "--stream-bytes", "authentication time", "tcp:2%"}
    assert not {"medium", "detection", "tcp", "handoff"} & said


@pytest.mark.parametrize(("file", "line"), [
    ("harness/cli.py", 'DEFAULT = "qop2007"'),
    ("analysis/rows.py", "row['tcp_goodput_bps'] = 1  # a comment counts, too"),
    ("measure/inner/x.py", "# as under P12"),
    ("topologies/loader.py", 'load_scenario("N2")'),
    ("policies/loader.py", '"""P1 to P12."""'),
    ("guest/init", "echo P8-N2-001"),
    ("harness/secrets.py", 'SPOILT = {"wrong-ca": "rogue"}'),
    ("harness/stopping.py", '"""A rule such as `auth:10%`."""'),
    ("harness/options.py", "asked['stream_bytes']"),
    ("analysis/page.html", "<p>R1</p>"),
])
def test_a_name_is_seen(file: str, line: str, tmp_path: Path) -> None:
    """The check itself: a word of the study's is found in code, comments and templates."""
    (tmp_path / file).parent.mkdir(parents=True)
    (tmp_path / file).write_text(f"first\n{line}\n")
    seen = list(named(words(studies.load_study("qop2007")), tmp_path))
    assert len(seen) == 1
    assert seen[0].startswith(f"{file}:2: ")


@pytest.mark.parametrize(("file", "line"), [
    ("policies/P1.yml", "id: P1"),
    ("topologies/scenarios/N2.yml", "id: N2"),
    ("topologies/examples/roaming.py", 'load_scenario("R1")'),
    ("measure/x.py", "PMK-R1 = P100 + udp_goodput_bps_s + qop20071"),
    ("studies/qop2007/study.py", 'id = "qop2007"'),
    ("docs/running.md", "P1 in N2"),
])
def test_data_and_other_words_pass(file: str, line: str, tmp_path: Path) -> None:
    """The check itself: policies and scenarios are data, and longer words are other words."""
    (tmp_path / file).parent.mkdir(parents=True)
    (tmp_path / file).write_text(f"{line}\n")
    assert list(named(words(studies.load_study("qop2007")), tmp_path)) == []


def test_the_labs_help_is_every_studys() -> None:
    """It names no node: another study's testbed has others."""
    nodes = {name for network in network_names() for name in load_network(network).nodes
             if "-" in name}
    assert "ha-a" in nodes
    assert not [name for name in nodes if name in (lab.command.help or "")]
