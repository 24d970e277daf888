"""Where nodes stand, and media that know of it: refused where one is without the other."""

from __future__ import annotations

import dataclasses

import pytest

from harness.errors import UserError
from plans import plan_of
from studies.qop2007 import matrix
from studies.study import StudyError
from topologies.loader import load_medium, load_scenario

WITH_SIGNAL, WITHOUT = "802.11b-positions", "802.11b-short"


@pytest.mark.parametrize("medium", [WITHOUT, "none"])
@pytest.mark.parametrize("name", ["N2-near", "N2-far", "N2-edge"])
def test_distance_without_a_signal_is_refused(name: str, medium: str) -> None:
    """It was planned without a word, and three scenarios would have measured the same."""
    with pytest.raises(UserError, match=rf"^scenario {name}: .*medium {medium} has no signal"):
        plan_of("P1", name, asked={"medium": medium})
    assert plan_of("P1", name, asked={"medium": WITH_SIGNAL}).steps()


def test_a_signal_to_a_radio_that_stands_nowhere_is_refused() -> None:
    """A wired node needs no place."""
    scenario, air = load_scenario("R1"), load_medium(WITH_SIGNAL)
    matrix.check_places(scenario, air)
    nodes = dict(scenario.network.nodes)
    for name in ("a1", "cn-a"):
        if name in nodes:
            nodes[name] = dataclasses.replace(nodes[name], position=None)
    placeless = dataclasses.replace(scenario, network=dataclasses.replace(
        scenario.network, nodes=nodes))
    matrix.check_places(placeless, load_medium(WITHOUT))
    with pytest.raises(StudyError, match=r"^scenario R1: a1 has no position"):
        matrix.check_places(placeless, air)
