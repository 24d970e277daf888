"""WEP and TKIP exclude HT: such policies get the medium's older rates, and tables say so."""

from __future__ import annotations

import dataclasses
import re

import pandas as pd
import pytest

from analysis.circumstances import list_media_without_ht
from plans import plan_of
from policies import Policy, load_all, load_named
from studies import policy_factors
from studies.qop2007 import cells
from studies.study import StudyError
from topologies.loader import load_medium, load_scenario
from topologies.model import Scenario

_TKIP = Policy.model_validate({"id": "T", "name": "t",
                               "layers": {"link": {"cipher": "TKIP", "keys": "psk"}}})


def has_wep(policy: Policy) -> bool:
    """Whether frames are encrypted by WEP."""
    return policy.layers.link is not None and policy.layers.link.is_wep


@pytest.mark.parametrize("name", ["802.11n-ht20", "802.11n-ht40", "802.11ac", "802.11ax"])
def test_wep_and_tkip_have_older_rates(name: str) -> None:
    """54 Mbit/s, one frame at a time; all other ciphers have the medium as it is."""
    medium = load_medium(name)
    for policy in [*load_all(), _TKIP]:
        fitted = policy_factors.fit_medium(medium, policy)
        if has_wep(policy) or policy is _TKIP:
            assert fitted == medium.without_ht
            assert (fitted.name, fitted.rate_bps, fitted.aggregate) == (
                f"{name}-non-ht", 54_000_000, 1)
        else:
            assert fitted is medium


@pytest.mark.parametrize("name", ["802.11b-short", "802.11g", "802.11b-positions"])
def test_older_media_are_the_same_for_all(name: str) -> None:
    """They have no HT that a cipher could exclude."""
    medium = load_medium(name)
    assert all(policy_factors.fit_medium(medium, policy) is medium for policy in load_all())
    assert policy_factors.fit_medium(None, _TKIP) is None


def test_cells_of_a_plan_have_the_medium_of_their_policy() -> None:
    """Testbeds, offered rates and the plan's media are by cell."""
    plan = plan_of("P1,P2,M2", "N2", asked={"medium": "802.11ac"})
    media = {cell.ids["policy"]: cells.load_medium(cell, plan.asked) for cell in plan.cells}
    assert {name: medium and medium.name for name, medium in media.items()} == {
        "P1": "802.11ac", "P2": "802.11ac-non-ht", "M2": "802.11ac"}
    tested = {spec.spec.policy.id: spec.spec.medium.name for spec in plan.testbeds.values()}
    assert tested == {"P1": "802.11ac", "P2": "802.11ac-non-ht", "M2": "802.11ac"}


def with_channels(*channels: int) -> Scenario:
    """A scenario whose access points have these channels."""
    scenario = load_scenario("R1")
    nodes = dict(scenario.network.nodes)
    for name, channel in zip(("ap-a", "ap-b", "ap-c"), channels, strict=False):
        nodes[name] = dataclasses.replace(nodes["ap-a"], channel=channel)
    return dataclasses.replace(scenario, network=dataclasses.replace(
        scenario.network, nodes=nodes))


def test_more_channels_than_the_band_has_are_refused() -> None:
    """80 MHz leave two blocks without radar detection, 40 MHz four."""
    said = ("medium 802.11ac: the network's access points have 3 channels, and of 80 MHz there are "
            "2 (36, 149); give access points fewer channels, or take a medium with narrower ones")
    policy = load_named("M2")
    with pytest.raises(StudyError, match=f"^{re.escape(said)}$"):
        policy_factors.load_scenario_medium(with_channels(1, 6, 11), "802.11ac", policy)
    for channels, name in (((1, 6), "802.11ac"), ((1, 6, 11), "802.11n-ht40"),
                           ((1, 6, 11), "802.11n-ht20")):
        assert policy_factors.load_scenario_medium(with_channels(*channels), name, policy)


def test_tables_say_who_had_older_rates() -> None:
    """One line for each such medium, and none where nobody had it."""
    frame = pd.DataFrame({"policy": ["P1", "P2", "P12", "P2"],
                          "medium": ["802.11ac", "802.11ac-non-ht", "802.11ac-non-ht", "802.11b"]})
    assert list(list_media_without_ht(frame, "policy")) == [
        ("P12, P2: WEP and TKIP exclude HT, VHT and HE (IEEE 802.11-2020, 12.6.3), so that frames "
         "go one by one at 54 Mbit/s (medium 802.11ac-non-ht).")]
    assert not list(list_media_without_ht(frame[frame["medium"] == "802.11ac"], "policy"))


@pytest.mark.parametrize(("policy", "why"), [
    ("P1", "is open"), ("P2", "has pmf below 2"), ("M2", "has pmf below 2"), ("M1", ""), ("M3", ""),
    ("M5", ""), ("M6", "")])
def test_band_of_6_ghz_needs_wpa3_or_owe(policy: str, why: str) -> None:
    """IEEE 802.11ax-2021, 12.12.2: no open network, no WEP, no WPA2."""
    scenario = load_scenario("N2")
    if not why:
        medium = policy_factors.load_scenario_medium(scenario, "802.11ax-6ghz", load_named(policy))
        assert medium is not None and medium.name == "802.11ax-6ghz"
        return
    with pytest.raises(StudyError, match=f"policy {policy}: medium .* the policy {why}; write pmf"):
        policy_factors.load_scenario_medium(scenario, "802.11ax-6ghz", load_named(policy))


@pytest.mark.parametrize(("link", "why"), [
    ({"keys": "psk"}, "has keys: psk"), ({"keys": "sae", "sae": "loop"}, "without sae: h2e")])
def test_band_of_6_ghz_refuses_older_keys(link: dict[str, object], why: str) -> None:
    policy = Policy.model_validate({"id": "X", "name": "x", "layers": {
        "link": {"cipher": "CCMP", "pmf": 2, **link}}})
    with pytest.raises(StudyError, match=why):
        policy_factors.load_scenario_medium(load_scenario("N2"), "802.11ax-6ghz", policy)
