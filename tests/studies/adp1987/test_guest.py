"""Two hosts in the machine: what is measured is proven, repeats to the last digit, and can fail."""

from __future__ import annotations

import json
import shutil
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

import studies
from conftest import PROJECT, Qop
from driven import Driven, job
from harness.engine.plan import Plan, node_devices
from harness.engine.request import RunRequest, build_plan
from measure.capture import tshark
from studies.adp1987 import judge
from studies.adp1987.faults import ATTACKS, FLOWING
from studies.adp1987.measurements import Measurements
from studies.study import Judgement, Repetition

pytestmark = [pytest.mark.guest, pytest.mark.shareable]
in_one_machine = pytest.mark.asyncio(loop_scope="module")

STUDY = studies.load_study("adp1987")
#: What every repetition is proven by.
CHECKS = {"channel", "owner", "impostors", "scope", "nothing-else", "fresh", "intact",
          "piggybacked", "in-time", "counted", "on-the-wire"}
OLD, MODERN = "1987", "modern"
DISSECTOR = PROJECT / "protocols" / "adp" / "dissector.lua"


def small(technology: str, protocol: str, scope: str = "PE") -> Plan:
    """A plan of one cell of ALL's at nominal levels, on a short trace."""
    levels = {"trace": ["ALL"], "urgency": ["U3"], "rate": ["1"], "scope": [scope],
              "technology": [technology], "queue": ["ON"], "timeout": ["40"],
              "protocol": [protocol]}
    return build_plan(RunRequest(STUDY, levels=levels,
                                 sets={"messages": "200", "proof_messages": "60"}),
                      {})


@dataclass
class Hosts:
    """A machine with the three hosts, in which one cell after the other is measured."""

    driven: Driven
    count: int = 0
    #: Of the last one.
    out: Path = Path()

    async def judged(self, protocol: str, scope: str = "PE", fault: str = "",
                     **task: Any) -> Judgement:
        """A repetition, with a control or other settings of the task if asked for, as judged."""
        made = small("today", protocol, scope)
        [cell] = made.cells
        self.count += 1
        name = f"{cell.name}-{self.count:03d}"
        told = {**STUDY.task(cell, made.asked), "fault": fault, **task}
        await self.driven.measure(name, **told)
        self.out = self.driven.folder / "out" / name
        return judge.judge_repetition(Repetition(cell, made.asked, self.out, {}))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def hosts(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Hosts]:
    """One guest for all of this file's repetitions but those through the command line."""
    spec = next(iter(small("today", OLD).testbeds.values())).spec
    told = job(spec.network, "studies.adp1987.workload", clock="virtual",
               devices=node_devices(spec))
    folder = tmp_path_factory.mktemp("adp")
    driven = Driven(folder, told, PROJECT / "studies" / "adp1987" / "workload.py")
    code = driven.folder / "code"
    for room in ("protocols", "studies/adp1987"):
        shutil.copytree(PROJECT / room, code / room, ignore=shutil.ignore_patterns("*.yml"))
    for package in ("studies", "studies/adp1987"):
        (code / package / "__init__.py").write_text("")
    async with driven:
        await driven.ready()
        yield Hosts(driven)
        await driven.ask("bye", do="stop")


def failed(judged: Judgement) -> set[str]:
    """The checks that do not hold."""
    return {check.check for check in judged.evidence if not check.ok}


def body(judged: Judgement) -> Measurements:
    """What was measured."""
    assert isinstance(judged.measured, Measurements)
    return judged.measured


@in_one_machine
@pytest.mark.parametrize(("protocol", "scope"), [
    (OLD, "NE"), (OLD, "FE"), (MODERN, "PE"), (MODERN, "FE")])
async def test_what_is_measured_is_proven(hosts: Hosts, protocol: str, scope: str) -> None:
    """Every check holds, every number is there, and Wireshark reads the capture by our script."""
    judged = await hosts.judged(protocol, scope)
    assert judged.reason == ""
    assert {check.check for check in judged.evidence} == CHECKS
    measured = body(judged)
    assert measured.throughput_bytes_per_s and measured.latency_s and measured.establishment_s
    assert len(measured.latencies_s) == 20
    assert not measured.overloaded
    shown = tshark.read_fields(hosts.out / "proof-alpha.pcap", ("authdp.version", "authdp.count"),
                               "authdp and not authdp.malformed and not _ws.malformed",
                               options=("-X", f"lua_script:{DISSECTOR}"))
    assert {version for version, _ in shown} == {"1" if protocol == OLD else "2"}
    assert sum(int(count) for _, count in shown) == 60


@in_one_machine
@pytest.mark.parametrize(("fault", "protocol", "is_accepted"), [
    ("forged-owner", OLD, False), ("stale-channel", OLD, False), ("stale-channel", MODERN, False),
    ("replayed", OLD, False), ("altered", OLD, False),
    ("unprotected-body", OLD, True), ("unprotected-body", MODERN, False),
    ("relayed-owner", OLD, True)])
async def test_each_attack_fails_its_checks_alone(hosts: Hosts, fault: str, protocol: str,
                                                  is_accepted: bool) -> None:
    """The channel goes on, and those are seen to fail; what 1987 lets through is shown."""
    judged = await hosts.judged(protocol, fault=fault)
    assert judged.status == "failed"
    assert failed(judged) == set(ATTACKS[fault].fails), judged.reason
    attack = body(judged).attack
    assert attack is not None and attack.tried > 0
    assert (attack.accepted > 0) is is_accepted, attack


@in_one_machine
@pytest.mark.parametrize(("fault", "protocol"), [
    *((fault, OLD) for fault in FLOWING), ("unverified-owner", MODERN)])
async def test_what_flows_without_a_protection_fails_its_check_alone(
        hosts: Hosts, fault: str, protocol: str) -> None:
    """Every message arrives, and exactly what was taken away is missed."""
    judged = await hosts.judged(protocol, FLOWING[fault].on["scope"], fault)
    assert failed(judged) == set(FLOWING[fault].fails), judged.reason
    assert body(judged).throughput_bytes_per_s


@in_one_machine
async def test_a_relayed_owner_fails_against_the_modern_protocol(hosts: Hosts) -> None:
    """What mallory gets signed is of her own channel: nothing of hers arrives as xena's."""
    judged = await hosts.judged(MODERN, fault="relayed-owner")
    attack = body(judged).attack
    assert attack is not None
    assert (attack.tried, attack.accepted) == (1, 0)
    assert "wrong signature" in attack.detail
    assert failed(judged) == set(), judged.reason


@in_one_machine
@pytest.mark.parametrize("protocol", [OLD, MODERN])
async def test_a_pause_of_any_length_makes_no_message_late(hosts: Hosts, protocol: str) -> None:
    """select is late by a thousandth of a wait: 90 s would make a message 90 ms late."""
    trace = [(burst * 90.0 + number * 0.01, 200, number == 0)
             for burst in range(4) for number in range(5)]
    judged = await hosts.judged(protocol, own_trace=trace)
    assert failed(judged) == set(), judged.reason
    late = {check.check: check.detail for check in judged.evidence}["in-time"]
    assert "0 of 8 of proof, 0 of 8 of latency" in late


def numbers(qop: Qop, out: str) -> dict[str, Any]:
    """What a run's records have measured, by name."""
    return {path.stem: json.loads(path.read_text())["measured"]
            for path in sorted(Path(qop.folder, out, "records").glob("*.json"))}


def test_two_runs_of_one_seed_are_identical_and_judged_anew(qop: Qop) -> None:
    """In every number of every record: from two machines, with other keys, at another time."""
    for out in ("first", "second"):
        done = qop("run", "adp1987", "--messages", "200", "--repetitions", "1", "--traces", "ALL",
                   *(word for level in ("urgency=U3", "rate=1", "scope=PE", "technology=HW",
                                        "timeout=40", "queue=ON")
                     for word in ("--only", level)), "--out", out)
        assert done.returncode == 0, done.stderr
    first, second = numbers(qop, "first"), numbers(qop, "second")
    assert first == second
    [measured] = first.values()
    assert len(measured["latencies_s"]) == 20
    done = qop("verify", "--redo", "second")
    assert "; 1 records judged anew say the same" in done.stdout
