"""Real captures, kernel state and iperf3 reports of ten policies at home, some away; see README.md.

A recording goes by its folder's name: the policy, and the scenario unless that is N2.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import shared
from measure.capture import tshark
from measure.capture.tshark import Packet
from measure.checks.observation import Observation, build_observation
from measure.checks.observation import read_captures as observed_captures
from policies import Policy, load_all
from studies.qop2007.judge import judge_repetition
from studies.qop2007.settings import Settings
from studies.study import Cell, Judgement, Level, Repetition
from topologies.loader import load_scenario
from topologies.model import Scenario

#: The study's own recordings, and output of single tools.
FOLDER = Path(__file__).parents[2] / "studies" / "qop2007" / "recorded"
TOOLS = Path(__file__).parent
#: Ten policies at home, in N2.
IDS = ("P1", "P2", "P3", "P4", "P5", "P6", "P7", "P8", "P9", "P12")
#: Other scenarios: between subnets, and away.
ELSEWHERE = ("P3-N3", "P1-R1", "P12-R1", "P1-R2")
AWAY = ("P1-R1", "P12-R1", "P1-R2")
POLICIES: dict[str, Policy] = {policy.id: policy for policy in load_all()}
#: Captures of every recording; `captures` adds those that a scenario has besides.
CAPTURES = ("auth-air", "auth-mn", "auth-wire", "traffic-air", "traffic-wire", "traffic-peer")
#: The static key of the run, long over, that all of these were recorded in.
WEP_KEY = "f25d999254eb24bb21709bcd40"

SCENARIO = load_scenario("N2")
_NODES = SCENARIO.network.nodes
MAC = _NODES[SCENARIO.mobile_node].interfaces["wlan0"].radio or ""
ADDRESS = _NODES[SCENARIO.mobile_node].address
PEER = _NODES[SCENARIO.peer].address


def policy_of(recording: str) -> Policy:
    """The policy that was recorded."""
    return POLICIES[recording.partition("-")[0]]


@functools.cache
def scenario_of(recording: str) -> Scenario:
    """The scenario it was recorded in."""
    return load_scenario(recording.partition("-")[2] or "N2")


def captures(recording: str) -> list[str]:
    """Names of a recording's captures, such as `auth-air`."""
    return sorted(file.stem for file in (FOLDER / recording).glob("*.pcap"))


def path(recording: str, capture: str) -> Path:
    """The file of a recorded capture."""
    return FOLDER / recording / f"{capture}.pcap"


def packets(recording: str, capture: str, wep_key: str = "") -> tuple[Packet, ...]:
    """A recorded capture, dissected; once a test run, as tshark takes its time."""
    return _dissected(recording, wep_key)[capture]


@functools.cache
def _dissected(recording: str, wep_key: str) -> dict[str, tuple[Packet, ...]]:
    """All captures of a recording, read as the judge reads them: once for both."""
    keys = [f"wep:{wep_key}"] if wep_key else []
    with dissected_once():
        every = observed_captures(raw(recording), FOLDER / recording, keys)
    return {name: tuple(packets) for name, packets in every.items()}


@contextmanager
def dissected_once() -> Iterator[None]:
    """Within it, what was dissected once in a test run is not again: for tests of what follows.

    It is the same for the same bytes and keys, whatever the files are called.
    """
    dissected = tshark._run_tshark

    def once(files: Sequence[Path], keys: Sequence[str], timeout_s: float) -> str:
        digest = hashlib.sha256(repr([*keys]).encode())
        for file in files:
            digest.update(hashlib.sha256(file.read_bytes()).digest())
        return shared.once(f"tshark-{digest.hexdigest()}",
                           lambda: dissected(files, keys, timeout_s))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tshark, "_run_tshark", once)
        yield


def raw(recording: str) -> dict[str, Any]:
    """The raw values of a recorded repetition, a fresh copy at each call."""
    value: dict[str, Any] = json.loads((FOLDER / recording / "raw.json").read_text())
    return value


def text(name: str) -> str:
    """A recorded output of a tool."""
    return (TOOLS / name).read_text()


def has_static_key(policy: Policy) -> bool:
    """Whether frames of this policy are read with the static WEP key."""
    return policy.layers.link is not None and policy.layers.link.keys == "static"


def observed(recording: str) -> Observation:
    """What is judged of a recorded repetition; free to be changed by a test."""
    values = raw(recording)
    key = ""
    if has_static_key(policy_of(recording)):
        key = WEP_KEY
        values["wep_key"] = "static"
    found = {capture: list(packets(recording, capture, key)) for capture in captures(recording)}
    return build_observation(scenario_of(recording), values, found)


def judged(recording: str, out: Path | None = None, wep_key: str = WEP_KEY,
           **asked: int) -> Judgement:
    """What the study's judge says of a recording, or of a changed copy of it in `out`."""
    policy, scenario = policy_of(recording), scenario_of(recording)
    cell = Cell({"policy": Level(policy.id, value=policy),
                 "scenario": Level(scenario.id, value=scenario)})
    with dissected_once():
        return judge_repetition(Repetition(cell, Settings.model_validate(asked),
                                           out or FOLDER / recording,
                                           {"network": {"wep_key": wep_key}}))
