"""Tests of moves within a subnet: how a policy moves on, and what attacks are judged by."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from measure import dissect, management
from measure.observed import Check, Observed
from policies import load_named
from studies.qop2007 import attempts, matrix
from topologies.loader import load_scenario

STATION, ACCESS_POINT = "02:00:00:00:a2:00", "02:00:00:00:a0:00"
BLANK = dissect.parse_fields("0\t60\n")[0]


@pytest.mark.parametrize(("policy", "scenario", "expected"), [
    ("P1", "E1", "full"), ("M5", "E2", "full"), ("M7", "E1", "ft"), ("M8-pull", "E1", "ft-pull"),
    ("M8-okc", "E1", "okc"), ("M8-pmksa", "E2", "pmksa"), ("M9", "E1", "fils"),
    ("M8", "R1", ""), ("M8", "N2", "")])
def test_a_policy_says_how_a_node_moves_on(policy: str, scenario: str, expected: str) -> None:
    """Within a subnet by the link layer's word, in full without one; between subnets it leaves."""
    assert matrix.roaming(load_named(policy), load_scenario(scenario)) == expected


def test_the_far_server_is_the_only_difference_between_e1_and_e2() -> None:
    """One link has 20 ms each way, and all else is the same."""
    near, far = (load_scenario(name).network for name in ("E1", "E2"))
    assert near.nodes == far.nodes
    changed = [(a, b) for a, b in zip(near.links, far.links, strict=True) if a != b]
    assert [replace(a, delay_ms=20) == b for a, b in changed] == [True]


def attacked(*packets: dissect.Packet, attack: str = attempts.FORGED) -> Observed:
    """What was on the air while the stream went on."""
    raw: dict[str, Any] = {"attack": attack}
    return Observed(raw, {"traffic-air": list(packets)}, STATION, macs=frozenset({STATION}),
                    addresses=frozenset())


def judged(*packets: dissect.Packet, attack: str = attempts.FORGED) -> list[Check]:
    """The checks of what was tried, in E1 and with a passphrase that nobody asks for."""
    return list(attempts.verify(attacked(*packets, attack=attack), load_scenario("E1"), ""))


def test_whoever_begins_anew_has_not_outlived_the_attack() -> None:
    """The forged frame, then data: the check holds; with an authentication after it, it fails."""
    forged = replace(BLANK, time_s=1, subtype=management.DEAUTHENTICATION, receiver=STATION,
                     transmitter=ACCESS_POINT)
    data = replace(BLANK, time_s=2, subtype=0x20, transmitter=STATION, receiver=ACCESS_POINT)
    again = replace(data, time_s=1.5, subtype=dissect.AUTHENTICATION_SUBTYPE)
    assert [check.ok for check in judged(forged, data)] == [True]
    assert [check.ok for check in judged(forged, again, data)] == [False]
    assert [check.ok for check in judged(data)] == [False]
    assert judged(forged, data, attack="") == []
