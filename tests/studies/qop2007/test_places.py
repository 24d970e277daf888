"""Where nodes stand, and media that know of it: refused where one is without the other."""

from __future__ import annotations

import dataclasses

import pytest

from harness.errors import UserError
from plans import plan_of
from policies import load_named
from studies import policy_factors
from studies.study import StudyError
from topologies.loader import load_scenario

WITH_SIGNAL, WITHOUT = "802.11b-positions", "802.11b-short"
P1 = load_named("P1")


@pytest.mark.parametrize("medium", [WITHOUT, "none"])
@pytest.mark.parametrize("name", ["N2-near", "N2-far", "N2-edge"])
def test_distance_without_a_signal_is_refused(name: str, medium: str) -> None:
    """It was planned without a word, and three scenarios would have measured the same."""
    with pytest.raises(UserError, match=rf"^scenario {name}: .*medium {medium} has no signal"):
        plan_of("P1", name, asked={"medium": medium})
    assert plan_of("P1", name, asked={"medium": WITH_SIGNAL}).all_steps()


def test_a_signal_to_a_radio_that_stands_nowhere_is_refused() -> None:
    """A wired node needs no place."""
    scenario = load_scenario("N1")
    assert policy_factors.load_scenario_medium(scenario, WITH_SIGNAL, P1)
    nodes = dict(scenario.network.nodes)
    for name in ("a1", "cn-a"):
        if name in nodes:
            nodes[name] = dataclasses.replace(nodes[name], position=None)
    placeless = dataclasses.replace(scenario, network=dataclasses.replace(
        scenario.network, nodes=nodes))
    assert policy_factors.load_scenario_medium(placeless, WITHOUT, P1)
    with pytest.raises(StudyError, match=r"^scenario N1: a1 has no position"):
        policy_factors.load_scenario_medium(placeless, WITH_SIGNAL, P1)


def test_a_station_beyond_its_cell_is_refused() -> None:
    """Before anything starts, with distance and signal; by a medium without signal it is let be."""
    scenario = load_scenario("N2")
    nodes = scenario.network.nodes
    far = dataclasses.replace(scenario, network=dataclasses.replace(scenario.network, nodes={
        **nodes, "a2": dataclasses.replace(nodes["a2"], position=[900.0, 10.0])}))
    assert policy_factors.load_scenario_medium(far, WITHOUT, P1)
    with pytest.raises(StudyError, match=r"^scenario N2: a2 does not reach ap-a: 851 m away, "
                       "-133.3 dBm arrive by medium 802.11b-positions, and its radios hear "
                       "nothing below -92 dBm; give it a position nearby, or take another medium$"):
        policy_factors.load_scenario_medium(far, WITH_SIGNAL, P1)


def test_a_node_has_to_reach_the_access_point_that_it_moves_to() -> None:
    """Measurements know no drive: where it stands, it moves from one to the other."""
    with pytest.raises(StudyError, match=r"^scenario R1: a2 does not reach ap-b: 110 m away"):
        policy_factors.load_scenario_medium(load_scenario("R1"), WITH_SIGNAL, P1)
