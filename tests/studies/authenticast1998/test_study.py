"""The study's parts: cells, the trace, configurations, the level's proof, what is refused."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import studies
from harness.engine import profiles
from harness.engine.request import RunRequest, build_plan
from harness.errors import UserError
from policies import load_policy
from protocols.authenticast.packets import FrameTraceSource, read_frames
from studies import policy_factors
from studies.authenticast1998 import cells, checks, judge, programs
from topologies.loader import load_device
from topologies.yaml_reader import ROOT

STUDY = studies.load_study("authenticast1998")
POLICIES = studies.FOLDER.parent / "policies"
TRACE = studies.FOLDER / STUDY.id / "mpeg1.csv"


def planned(**levels: list[str]):
    """The plan of some levels."""
    return build_plan(RunRequest(STUDY, levels=levels), {})


def test_the_cells_are_those_behind_something():
    """Fig. 4 has its levels at 5 clients, Figs. 5 and 6 one to five, all else one client."""
    made = build_plan(RunRequest(STUDY, profile="paper"), {})
    wired = [cell for cell in made.cells if not policy_factors.is_on_air(cell)]
    names = [cell.name.removesuffix("-no-policy-star-155") for cell in wired]
    assert {f"p{level}-5-idle" for level in cells.PERCENTAGES} <= set(names)
    assert {f"{heuristic}-{count}-idle" for heuristic in ("delayed", "adaptive-1998")
            for count in "12345"} <= set(names)
    assert all(cell.ids["clients"] == "1" for cell in made.cells
               if cell.ids["load"] not in ("idle", "weighted"))
    on_air = {cell.name for cell in made.cells if cell not in wired}
    assert on_air == {f"{heuristic}-1-idle-{policy}-{scenario}" for policy, heuristics in (
        ("P1", cells.ON_AIR), ("P2", cells.BETWEEN), ("P8", cells.BETWEEN),
        ("P12", cells.ON_AIR)) for heuristic in heuristics for scenario in ("N2", "R1")}
    assert len({testbed.spec.policy.id for testbed in made.testbeds.values()
                if testbed.spec.policy}) == 4
    assert made.settings.clock == "virtual"


def test_nothing_is_shown_on_the_seeds_that_settings_were_chosen_on():
    """The static setting is chosen by `training`; no other profile comes to its seeds."""
    seeds = {}
    for name in profiles.profile_names(STUDY):
        made = build_plan(RunRequest(STUDY, profile=name), {})
        first = made.asked.first_seed
        seeds[name] = set(range(first, first + made.settings.repetitions))
    chosen_on = seeds.pop("training")
    assert chosen_on == set(range(50, 55))
    assert {"quick", "paper", "compare", "rates", "fairness"} <= set(seeds)
    assert [name for name, others in seeds.items() if others & chosen_on] == []
    assert {len(seeds[name]) for name in ("compare", "rates", "fairness")} == {30}


def test_a_user_may_ask_for_any_cell():
    """Levels that the study does not combine are combined where somebody asks for them."""
    made = planned(heuristic=["p70"], clients=["7"], load=["most"])
    assert [cell.name for cell in made.cells] == ["p70-7-most-no-policy-star-155"]
    [testbed] = made.testbeds.values()
    assert len(testbed.spec.network.of_duty("client")) == 7


def policy_file(folder: Path, stream: str) -> Path:
    """A policy of the user's that lays a stream over P8's layers."""
    file = folder / "mine.yml"
    (folder / "P8.yml").write_text((POLICIES / "P8.yml").read_text())
    file.write_text(f"id: MINE\nname: mine\nextends: P8.yml\nlayers:\n  stream: {stream}\n")
    return file


def test_a_policy_says_how_its_stream_is_authenticated(tmp_path: Path):
    """Its layer becomes the client's wish; daemons are rendered from the layers below alone."""
    file = policy_file(tmp_path, "{scheme: delayed, bundle: 5, range: [10, 100], "
                       "controller: blend-1998, limit_packets: 40}")
    made = planned(policy=[str(file)], scenario=["N2", "R1"])
    assert [cell.name for cell in made.cells] == [
        "of-policy-1-idle-MINE-N2", "of-policy-1-idle-MINE-R1"]
    task = STUDY.task(made.cells[0], made.asked)
    assert task["heuristic"]["wish"] == {"scheme": "delayed", "range": [10, 100], "bundle": 5,
                                         "automatic": True}
    assert task["heuristic"]["controller"] == {"kind": "blend-1998", "limit": 40}
    assert task["asked"]["payload_bytes"] == 1180
    spec = STUDY.testbed(made.cells[0], made.asked)
    assert spec.policy is not None
    assert spec.policy.digest() == load_policy(POLICIES / "P8.yml").digest()
    kept = made.manifest.levels["policy"]["MINE"]
    assert STUDY.level(STUDY.factors[3], "MINE", kept).digest == made.cells[0].levels[
        "policy"].digest


def test_a_study_that_does_not_run_a_layer_refuses_it(tmp_path: Path):
    """In one line that names the policy, the layer and what to do."""
    file = policy_file(tmp_path, "{scheme: tesla}")
    with pytest.raises(UserError, match=r"policy MINE: layers\.stream is above the network's, and "
                       r"this study does not run it .*; leave it out"):
        build_plan(RunRequest(studies.load_study("qop2007"), files={"policy": [file]}), {})


@pytest.mark.parametrize(("sets", "words"), [
    ({"client_device": "pentium"}, "setting client_device: pentium: no such file in "),
    ({"client_device": "today"}, "device today: does not say what dsa-512-sign takes"),
    ({"load_to_s": "2"}, "--set load_to_s=2: a load has to last"),
    ({"frames": "3"}, "--set frames=3: "), ({"precomputed_ms": "0"}, "--set precomputed_ms=0: ")])
def test_bad_settings_are_one_line(sets: dict[str, str], words: str):
    """What, where, and what to do."""
    with pytest.raises(UserError, match=words) as caught:
        build_plan(RunRequest(STUDY, sets=sets), {})
    assert "\n" not in str(caught.value)


def test_a_device_of_the_users_is_kept_by_its_name(tmp_path: Path):
    """The path of its file is of one machine: the plan is the same from another place."""
    plans = []
    for place in ("here", "there"):
        (tmp_path / place).mkdir()
        file = tmp_path / place / "mine.yml"
        text = (ROOT / "devices" / "ultrasparc-167.yml").read_text()
        file.write_text(text.replace("name: ultrasparc-167", "name: mine"))
        plans.append(build_plan(RunRequest(STUDY, sets={"client_device": str(file)}), {}))
    manifest = plans[0].manifest
    assert manifest.asked["client_device"] == "mine" and "mine" in manifest.devices
    assert str(tmp_path) not in manifest.model_dump_json()
    assert plans[0].digest == plans[1].digest


def test_the_trace_is_mpeg_1():
    """1500 frames with a group of 15, at 1.15 Mbit/s; 117 packets a second."""
    frames = read_frames(TRACE)
    assert len(frames) == 1500
    assert Counter(kind for kind, *_ in frames)["I"] == 101
    bits = 8 * sum(size for _, size, _ in frames)
    assert bits / (1500 / 29.97) == pytest.approx(1.15e6, rel=0.01)
    packets = list(FrameTraceSource(frames, 29.97, 1400).items())
    assert len(packets) / (1500 / 29.97) == pytest.approx(116.8, rel=0.01)


def test_a_seed_chooses_where_the_trace_begins():
    """Each seed has frames of its own, from an I frame on, as many as were asked for."""
    lines = TRACE.read_text().split()
    begun = {seed: programs.rotate_trace(lines, 2000, seed) for seed in range(5)}
    assert all(len(frames) == 2000 and frames[0].startswith("I") for frames in begun.values())
    assert len({tuple(frames) for frames in begun.values()}) == 5


def test_what_a_signature_takes():
    """Precomputed by default; on line it is the device's."""
    device = {"work": {"sha1": {"bytes_per_s": 1e6}, "dsa-512-sign": {"seconds": 0.03},
                       "dsa-512-verify": {"seconds": 0.05}}}
    task = {"asked": {"signing": "online", "precomputed_ms": 4.5, "payload_bytes": 1400,
                      "delay_bound_ms": 1000, "limit": 60},
            "heuristic": {"controller": {"kind": "blend-1998"}}, "load": {"has_security": True}}
    ends: dict[str, Any] = {"address": "a", "keys": TRACE.parent, "trace": TRACE,
                            "clients": ["c1"], "seed": 1}
    online = programs.server_configuration(task, device, **ends)
    assert online["device"]["costs"]["dsa-512-sign"] == 0.03
    assert online["controller"] == {"kind": "blend-1998", "limit": 60}
    task["asked"]["signing"] = "precomputed"
    assert programs.server_configuration(task, device,
                                         **ends)["device"]["costs"]["dsa-512-sign"] == 0.0045
    task["load"]["has_security"] = False
    assert set(programs.server_configuration(task, device,
                                             **ends)["device"]["costs"].values()) == {0}


def test_devices_are_derived_as_they_say():
    """Two processors at 148 MHz are those of 167 MHz, slower by the ratio of the clocks."""
    one, two = load_device("ultrasparc-167"), load_device("ultrasparc-148x2")
    assert two.processors == 2
    for kind, work in one.work.items():
        other = two.work[kind]
        ratio = other.seconds / work.seconds if work.seconds else \
            work.bytes_per_s / other.bytes_per_s
        assert ratio == pytest.approx(167 / 148, rel=0.02), kind


def passed(count: int, settled: int) -> list[Any]:
    """A client of whose altered packets so many were processed."""
    return [SimpleNamespace(altered_and_settled=lambda: (count, settled))]


@pytest.mark.parametrize(("count", "settled", "level", "holds"), [
    (50, 100, 0.5, True), (80, 100, 0.2, True), (80, 100, 0.5, False), (20, 100, 0.5, False),
    (0, 100, 1.0, True), (1, 100, 1.0, False), (0, 0, 1.0, False), (0, 0, 0.5, False)])
def test_the_level_is_proven_by_what_passes(count: int, settled: int, level: float, holds: bool):
    """Altered packets pass as often as the level lets them: not more, and not less either."""
    assert checks._check_level(passed(count, settled), level).ok is holds


def seen(**fields: Any) -> judge.ClientStream:
    """A client of whose packets only something is known."""
    nothing: dict[str, Any] = {
        "name": "c1", "sent": {}, "sent_ns": {}, "arrived": {}, "repeated": 0, "whole": (),
        "verified": None, "rows": (), "account": None, "gaps": (), "kernel_drops": 0, "made_up": 0,
        "away": frozenset()}
    return judge.ClientStream(**{**nothing, **fields})


def test_losses_are_told_by_where():
    """On the way by both captures, of these what was sent between two networks; then the buffer."""
    sent = {(7, number): b"x" for number in range(10)}
    arrived = dict.fromkeys(list(sent)[4:], b"x")
    lost = {"air": 3, "buffer": 3, "failed": 1}
    told = seen(sent=sent, arrived=arrived, account={"lost": lost}, away={(7, 2), (7, 3), (7, 9)})
    assert told.losses == {"air": 2, "handoff": 2, "buffer": 2, "failed": 1}


def row(sequence: int, fate: str) -> judge.PacketOutcome:
    """What became of a packet."""
    return judge.PacketOutcome((7, sequence), 0, 0, fate, "")


@pytest.mark.parametrize(("made_up", "processed", "holds"), [
    (5, (1, "verified"), True), (5, (2 ** 40 + 3, "unverified"), False),
    (5, (2 ** 40 + 3, "failed"), True), (0, (1, "verified"), False)])
def test_nothing_made_up_is_processed(made_up: int, processed: tuple[int, str], holds: bool):
    """A flood that did not arrive proves nothing, and one forged packet in use fails."""
    client = seen(sent={(7, 1): b"x"}, rows=[row(*processed)], made_up=made_up)
    assert checks._check_forged_packets([client]).ok is holds


def test_a_server_signs_more_for_whom_it_is_told():
    """The first client's weight is the load's; a load with a rate has a source of its own."""
    asked = {"signing": "online", "precomputed_ms": 4.5, "payload_bytes": 1400, "frames": 300,
             "delay_bound_ms": 1000, "limit": 60}
    load = {"has_security": True, "weight": 2.0, "rate_pps": 19.0}
    task = {"asked": asked, "load": load, "heuristic": {"controller": {"kind": "static"}}}
    device = {"work": {"sha1": {"bytes_per_s": 1e6}, "dsa-512-sign": {"seconds": 0.03},
                       "dsa-512-verify": {"seconds": 0.05}}}
    made = programs.server_configuration(task, device, address="a", keys=TRACE.parent, trace=TRACE,
                                         clients=["c1", "c2"], seed=1)
    assert [client["weight"] for client in made["clients"]] == [2.0, 1.0]
    assert made["source"] == {"kind": "constant", "packets_per_s": 19.0, "packets": 190,
                              "payload_bytes": 1400, "seed": 1}
