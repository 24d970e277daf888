"""Stations that roam by themselves, and positions that change: files, configuration, kernel."""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped,unused-ignore]

from conftest import PROJECT
from harness.render import make_inventory
from studies import policy_factors
from studies.study import StudyError
from topologies import queueing_disciplines
from topologies.errors import TopologyError
from topologies.loader import load_medium, load_scenario, scenario_ids, to_json
from topologies.medium import Transmitters
from topologies.model import Mobility, Roaming, Scenario, from_json

PLACED = load_medium("802.11b-positions")
LAPTOP = "02:00:00:00:1a:00"


def written(folder: Path, change: Callable[[dict[str, Any]], Any]) -> str:
    """D1 as a file of the user's, changed."""
    document = yaml.safe_load((PROJECT / "topologies/scenarios/D1.yml").read_text())
    document["id"] = "mine"
    change(document)
    (folder / "mine.yml").write_text(yaml.safe_dump(document))
    return str(folder / "mine.yml")


def roaming(**changes: Any) -> Callable[[dict[str, Any]], Any]:
    """Change the scans of D1's station."""
    return lambda document: document["roaming"]["laptop"].update(changes)


@pytest.mark.parametrize(("change", "message"), [
    (roaming(bgscan="learn"), "roaming.laptop.bgscan: 'learn' is not measured here; write simple"),
    (roaming(threshold_dbm=70), "roaming.laptop.threshold_dbm: 70; write a signal in dBm, -100 to"),
    (roaming(short_s=301), "roaming.laptop.short_s: scans every 301 s below the threshold"),
    (lambda document: document["roaming"].update({"ap-1": document["roaming"]["laptop"]}),
     "roaming.ap-1: ap-1 has no supplicant; leave it out"),
    (lambda document: document.pop("mobility"),
     "roaming: laptop does not move, so that its signal stays the same; add mobility"),
    (lambda document: document.update(roams_to="ap-2"),
     "roams_to: the signal decides where laptop roams to, by its roaming; leave one of them out"),
    (lambda document: document.update(
        nodes=["laptop", "ap-1", "gw", "intranet", "radius"]),
     "roaming: there is one access point, so that no other can be better; add another")])
def test_a_drive_that_cannot_be_is_refused(tmp_path: Path, change: Callable[[dict[str, Any]], Any],
                                           message: str) -> None:
    """One line: the place in the file, what is wrong, and what to do."""
    file = written(tmp_path, change)
    with pytest.raises(TopologyError) as caught:
        load_scenario(file)
    assert message in str(caught.value)
    assert str(caught.value).startswith(file)


def test_access_points_of_a_drive_are_one_network(tmp_path: Path) -> None:
    """A station with one address cannot roam to another SSID."""
    network = yaml.safe_load((PROJECT / "topologies/networks/corridor.yml").read_text())
    network["nodes"]["ap-3"]["ssid"] = "other"
    file = written(tmp_path, lambda document: document.update(network=network))
    with pytest.raises(TopologyError, match="ap-3 has another ssid or agent than ap-1"):
        load_scenario(file)


def test_the_supplicant_gets_its_background_scans() -> None:
    """The inventory has wpa_supplicant's option, and only for stations that roam by themselves."""
    hosts = make_inventory(load_scenario("D1").network)["all"]["hosts"]
    assert hosts["laptop"]["node"]["station"]["bgscan"] == "simple:2:-70:300"
    home = make_inventory(load_scenario("E1").network)["all"]["hosts"]
    assert "bgscan" not in home["a2"]["node"]["station"]


def test_a_drive_survives_json_and_older_networks_keep_theirs() -> None:
    """The field is left out where it is not used, so that older plans can be continued."""
    scenario = load_scenario("D1")
    assert from_json(Scenario, to_json(scenario)) == scenario
    assert scenario.network.nodes["laptop"].roaming == Roaming("simple", -70, 2, 300)
    assert all("roaming" not in node for node in to_json(load_scenario("E1"))["network"][
        "nodes"].values())


def test_what_decides_a_drive_is_in_its_digest() -> None:
    """Another threshold, another way and another place of an access point are other scenarios."""
    scenario = load_scenario("D1")
    assert scenario.mobility is not None
    nodes = scenario.network.nodes

    def changed(name: str, **fields: Any) -> Scenario:
        node = dataclasses.replace(nodes[name], **fields)
        return dataclasses.replace(scenario, network=dataclasses.replace(
            scenario.network, nodes={**nodes, name: node}))

    each = [scenario, changed("laptop", roaming=Roaming("simple", -75, 2, 300)),
            changed("ap-2", position=[80, 50]),
            dataclasses.replace(scenario, mobility=Mobility([130, 45], 2, 30))]
    digests = {policy_factors.scenario_digest(to_json(one)) for one in each}
    assert len(digests) == len(each)


def test_drives_are_for_the_study_of_drives() -> None:
    """Others move their station by command, and that study commands nothing."""
    assert set(policy_factors.DRIVES) == {name for name in scenario_ids()
                                          if load_scenario(name).is_drive}
    with pytest.raises(StudyError, match="D1: its station roams by itself, and this study moves"):
        policy_factors.read_scenarios(["D1"], [])
    with pytest.raises(StudyError, match="E1: its station does not roam by itself"):
        policy_factors.read_scenarios(["E1"], [], drives=True)


def test_a_position_on_the_way() -> None:
    """Straight and at a steady pace, and at the ends before and after."""
    drive = Mobility([130, 45], 2, 57)
    for at_s, expected in ((0, [20, 45]), (2, [20, 45]), (29.5, [75, 45]), (57, [130, 45]),
                           (60, [130, 45])):
        assert drive.position_at([20, 45], at_s) == pytest.approx(expected)


def attributes(options: bytes) -> dict[int, bytes]:
    """Netlink attributes, by number."""
    found, at = {}, 0
    while at < len(options):
        length, kind = struct.unpack_from("=HH", options, at)
        found[kind & 0x3FFF] = options[at + 4:at + length]
        at += (length + 3) & ~3
    return found


def test_the_kernel_is_told_signals_of_pairs() -> None:
    """In dBm, rounded; unheard below the medium's bound; nothing where a pair is not placed."""
    channel = queueing_disciplines.DcfChannel(
        PLACED, stations=5, access_points=(3,), cipher_bytes=0, seed=1,
        received_dbm={(3, 4): -56.6, (4, 3): -56.6, (3, 5): -92.1, (5, 3): -92.1,
                      (4, 5): 3.0, (5, 4): 3.0},
        links=((4, 3), (5, 3)), addresses={3: "02:00:00:00:a0:00"})
    options = attributes(attributes(queueing_disciplines.encode_move(channel))[2])
    assert sorted(options) == [3, 4, 6]  # powers, links, signals; no seed and no address
    rows = struct.unpack("=25b", options[6])
    assert rows[2 * 5 + 3] == rows[3 * 5 + 2] == -57
    assert rows[2 * 5 + 4] == -128
    assert rows[3 * 5 + 4] == -1
    assert rows[0] == 0
    silent = dataclasses.replace(channel, addresses={})
    assert 6 not in attributes(attributes(queueing_disciplines.encode_move(silent))[2])


def test_a_moved_radio_is_received_as_strongly_as_from_there() -> None:
    """The power of every pair with it, and of no other, follows the move."""
    there = Transmitters.from_network(load_scenario("D1").network)
    before = there.received_dbm(PLACED, 1)
    after = there.moved_to({LAPTOP: [130, 45]}).received_dbm(PLACED, 1)
    number = there.stations[LAPTOP]
    assert before.keys() == after.keys()
    assert all(after[pair] < before[pair] - 40 for pair in before if number in pair)
