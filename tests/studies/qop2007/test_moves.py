"""Tests of moves within a subnet: how a policy moves on, and what attacks are judged by."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from conftest import PROJECT
from measure.capture import tshark
from measure.checks.observation import Check, Observation
from measure.packets import management_frames
from measure.packets.decryption_keys import device_passphrase
from policies import LinkLayer, load_named, load_policy
from studies import policy_factors
from studies.qop2007 import attacks, cells
from studies.qop2007.cells import FACTORS
from studies.study import StudyError
from topologies.loader import load_scenario

STATION, ACCESS_POINT = "02:00:00:00:a2:00", "02:00:00:00:a0:00"
BLANK = tshark.parse_packets("0\t60\n")[0]


@pytest.mark.parametrize(("policy", "scenario", "expected"), [
    ("P1", "E1", "full"), ("M5", "E2", "full"), ("M7", "E1", "ft"), ("M8-pull", "E1", "ft-pull"),
    ("M8-okc", "E1", "okc"), ("M8-pmksa", "E2", "pmksa"), ("M9", "E1", "fils"),
    ("M8", "R1", ""), ("M8", "N2", ""), ("M5", "R3", "full"), ("M2-ft", "R4", "ft")])
def test_a_policy_says_how_a_node_moves_on(policy: str, scenario: str, expected: str) -> None:
    """By the link layer's word, in full without one; in the paper's scenarios it leaves first."""
    assert cells.roaming_mode(load_named(policy), load_scenario(scenario)) == expected


def test_a_node_asks_over_the_ds_where_it_moves_by_fast_transition() -> None:
    """As the policy says, but not where it does not move, or leaves its network first."""
    policy = load_policy(PROJECT / "examples" / "wpa3-sae-ft-over-ds.yml")
    assert [cells.moves_over_ds(policy, load_scenario(name)) for name in ("E1", "R1", "N2")] == [
        True, False, False]
    assert not cells.moves_over_ds(load_named("M7"), load_scenario("E1"))


def test_keys_do_not_follow_past_a_router() -> None:
    """Fast transition, caching and FILS between subnets are refused, but keys of a passphrase."""
    for policy in ("M7", "M8", "M8-pull", "M8-okc", "M9"):
        with pytest.raises(StudyError, match=f"policy {policy} in scenario R3: roaming: .* router"):
            cells.check_move(load_named(policy), load_scenario("R3"))
        cells.check_move(load_named(policy), load_scenario("E1"))
        cells.check_move(load_named(policy), load_scenario("R1"))
    for policy in ("M2-ft", "M5", "M8-pmksa", "P1"):
        cells.check_move(load_named(policy), load_scenario("R3"))


def test_a_session_is_of_one_server() -> None:
    """Resumed at home and within a subnet; between two agents, each with a server, it is not."""
    policy = load_policy(PROJECT / "examples" / "wpa2-eap-tls-resumed.yml")
    for name in ("N1", "N2", "E1", "E2"):
        policy_factors.check_sessions(policy, load_scenario(name))
    for name in ("R1", "R3"):
        with pytest.raises(StudyError, match=f"in scenario {name}: sessions: resumed .* server"):
            policy_factors.check_sessions(policy, load_scenario(name))
        policy_factors.check_sessions(load_policy(PROJECT / "examples" / "wpa2-eap-tls.yml"),
                                      load_scenario(name))


def test_a_session_of_tls_1_3_is_resumed_once() -> None:
    """So the node stays, or moves with its keys."""
    policy = load_policy(PROJECT / "examples" / "wpa3-eap-tls-resumed.yml")
    assert policy.resumes_once and not load_named("M13-resumed").resumes_once
    policy_factors.check_sessions(policy, load_scenario("N2"))
    with pytest.raises(StudyError, match=r"in scenario E1: with TLS 1\.3 FreeRADIUS resumes"):
        policy_factors.check_sessions(policy, load_scenario("E1"))
    fast = policy.model_copy(update={"layers": policy.layers.model_copy(update={
        "link": load_named("M8").layers.link})})
    assert cells.keeps_keys(fast, load_scenario("E1"))
    assert not cells.keeps_keys(policy, load_scenario("E1"))
    policy_factors.check_sessions(fast, load_scenario("E1"), keeps_keys=True)


@pytest.mark.parametrize(("layers", "said"), [
    ({"dot1x": {"eap": "TLS"}, "aaa": {"server": "hostapd"}}, "layers.aaa is for a card here"),
    ({"dot1x": {"eap": "AKA'", "tls": {}}, "aaa": {"server": "hostapd"}}, "layers.aaa is for"),
    ({"dot1x": {"eap": "AKA"}, "aaa": {"server": "hostapd", "authority": "visited"}},
     "layers.aaa is for")])
def test_who_decides_is_what_the_study_has(layers: dict[str, Any], said: str, tmp_path: Path,
                                           ) -> None:
    """Servers that are not there, in one line."""
    file = tmp_path / "x.yml"
    file.write_text(json.dumps({"id": "X", "name": "X", "layers": layers}))
    with pytest.raises(StudyError, match=said) as caught:
        FACTORS[0].read([], [file])
    assert "\n" not in str(caught.value)


def test_a_session_has_to_be_begun_before() -> None:
    """A study that measures the first authentication refuses the policy in a line."""
    with pytest.raises(StudyError, match=r"sessions: resumed takes .* choose the study qop2007"):
        policy_factors.PolicyReader(["P1"])([], [PROJECT / "examples" / "wpa2-eap-tls-resumed.yml"])


def test_macsec_takes_a_wire_to_an_agent() -> None:
    """Every scenario of the project's has one; elsewhere the policy is refused in a line."""
    policy = load_named("M5-macsec")
    for name in ("N1", "N2", "E1", "R1", "R3"):
        policy_factors.check_wires(policy, load_scenario(name))
    scenario = load_scenario("N2")
    nodes = dict(scenario.network.nodes)
    nodes["ha-a"] = replace(nodes["ha-a"], duties=["router"])
    elsewhere = replace(scenario, network=replace(scenario.network, nodes=nodes))
    with pytest.raises(StudyError, match=r"policy M5-macsec in scenario N2: wire: .* ap-a has"):
        policy_factors.check_wires(policy, elsewhere)
    policy_factors.check_wires(load_named("M5"), elsewhere)


def test_transport_mode_takes_a_peer_that_is_the_agent() -> None:
    """Elsewhere the stream would go in clear: the cell is refused in a line."""
    tunnels = load_named("P3")
    layers = tunnels.layers.model_copy(update={
        "ipsec": tunnels.layers.ipsec.model_copy(update={"mode": "transport"})})
    policy = tunnels.model_copy(update={"layers": layers})
    for name in ("N2", "N2-far"):
        cells.check_transport_mode(policy, load_scenario(name))
    for name in ("N1", "N3", "E1", "R1", "R3"):
        cells.check_transport_mode(tunnels, load_scenario(name))
        with pytest.raises(StudyError, match=f"in scenario {name}: mode: transport .* tunnel"):
            cells.check_transport_mode(policy, load_scenario(name))


def test_the_far_server_is_the_only_difference_between_e1_and_e2() -> None:
    """One link has 20 ms each way, and all else is the same."""
    near, far = (load_scenario(name).network for name in ("E1", "E2"))
    assert near.nodes == far.nodes
    changed = [(a, b) for a, b in zip(near.links, far.links, strict=True) if a != b]
    assert [replace(a, delay_ms=20) == b for a, b in changed] == [True]


def attacked(*packets: tshark.Packet, attack: str = attacks.FORGED,
             there: Sequence[tshark.Packet] = (), point: str = "peer") -> Observation:
    """What was on the air while the stream or the attack went on, and at another point."""
    raw: dict[str, Any] = {"attack": attack}
    captures = {"traffic-air": list(packets), "attack-air": list(packets),
                f"attack-{point}": list(there)}
    return Observation(raw, captures, STATION, macs=frozenset({STATION}),
                       addresses=frozenset(), cells=frozenset({ACCESS_POINT}))


def judged(*packets: tshark.Packet, attack: str = attacks.FORGED) -> list[Check]:
    """The checks of what was tried, in E1 and with a passphrase that nobody asks for."""
    return list(attacks.check_attack(attacked(*packets, attack=attack), load_scenario("E1"), None))


def test_whoever_begins_anew_has_not_outlived_the_attack() -> None:
    """The forged frame, then data: the check holds; with an authentication after it, it fails."""
    forged = replace(BLANK, time_s=1, subtype=management_frames.DEAUTHENTICATION, receiver=STATION,
                     transmitter=ACCESS_POINT)
    data = replace(BLANK, time_s=2, subtype=0x20, transmitter=STATION, receiver=ACCESS_POINT)
    again = replace(data, time_s=1.5, subtype=tshark.AUTHENTICATION_SUBTYPE)
    assert [check.ok for check in judged(forged, data)] == [True]
    assert [check.ok for check in judged(forged, again, data)] == [False]
    assert [check.ok for check in judged(data)] == [False]
    assert judged(forged, data, attack="") == []


@pytest.mark.parametrize(("change", "made_with", "withstood"), [
    ({}, "secret", False), ({}, "another", True),
    ({"passphrases": "by-device"}, "device", False), ({"passphrases": "by-device"}, "secret", True),
    ({"roaming": "ft"}, "secret", False), ({"roaming": "ft"}, "another", False),
    ({"keys": "sae", "pmf": 2, "roaming": "ft"}, "another", True)])
def test_guessing_tries_the_passphrase_of_the_handshake(
        change: dict[str, Any], made_with: str, *, withstood: bool, tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch) -> None:
    """A device's own passphrase is the right word; handshakes of fast transition are not tried."""
    class Recorded:
        def is_made_with(self, word: str, _ssid: str) -> bool:
            return word == {"device": device_passphrase("secret", STATION)}.get(made_with,
                                                                                made_with)

    monkeypatch.setattr(attacks.passphrase_guessing, "find_handshakes", lambda _: [Recorded()])
    link = LinkLayer.model_validate({"cipher": "CCMP", "keys": "psk", **change})
    observed = replace(attacked(attack=attacks.GUESSING), passphrase="secret", folder=tmp_path)
    [check] = attacks.check_attack(observed, load_scenario("N2"), link)
    assert check.ok is withstood, check.detail


def test_whatever_arrives_twice_has_been_taken_again() -> None:
    """Once at the peer it was not; nor is anything shown where it was not sent again."""
    sent = replace(BLANK, subtype=0x20, transmitter=STATION, ccmp_iv="0x07", protected=True)
    asked = replace(BLANK, icmp_type=8)
    for air, peer, expected in (((sent, sent), (asked,), True), ((sent, sent), (asked,) * 2, False),
                                ((sent,), (asked,), False), ((sent, sent), (), False),
                                ((sent, replace(sent, ccmp_iv="0x08")), (asked,), False)):
        [check] = attacks.check_attack(attacked(*air, attack=attacks.REPLAY, there=peer),
                                       load_scenario("E1"), None)
        assert check.ok is expected, check.detail


def test_a_twin_that_reads_nothing_was_there_and_met() -> None:
    """It has beacons, the mobile node went to it, and no question of its came legibly."""
    beacon = replace(BLANK, subtype=management_frames.BEACON, transmitter=ACCESS_POINT)
    met = replace(BLANK, subtype=tshark.AUTHENTICATION_SUBTYPE, transmitter=STATION)
    legible = replace(BLANK, ethernet_src=STATION, icmp_type=8)
    tunnelled = replace(BLANK, ethernet_src=STATION, ip_proto=tshark.ESP)
    for air, twin, expected in (((beacon, met), (), True), ((beacon, met), (tunnelled,), True),
                                ((beacon, met), (tunnelled, legible), False),
                                ((beacon,), (), False), ((met,), (), False)):
        [check] = attacks.check_attack(
            attacked(*air, attack=attacks.TWIN, there=twin, point="twin"),
            load_scenario("E1"), None)
        assert check.ok is expected, check.detail
