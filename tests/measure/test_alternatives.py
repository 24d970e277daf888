"""Attempts with what else an end accepts, judged from packets of real daemons."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from conftest import PROJECT
from measure.attacks import sae_flood
from measure.checks import alternatives, observation
from measure.checks.observation import Check
from measure.mobile_node.alternatives import POINT
from policies import load_policy
from policies.alternatives import CHECKS, ESP_GROUP, Alternative, list_alternatives
from topologies.loader import load_scenario

RECORDED = PROJECT / "tests" / "recorded" / "alternatives"


def judge(folder: Path, example: str, *captures: str, **raw: Any) -> Check:
    """Return the check of a policy's attempts, with a recorded capture for each."""
    policy = load_policy(PROJECT / "examples" / f"{example}.yml")
    wanted = list_alternatives(policy.layers)
    for number, name in enumerate(captures, 1):
        shutil.copy(RECORDED / f"{name}.pcap", folder / f"port-{POINT.format(number)}.pcap")
    tried = [{"field": each.field, "value": each.value, "authorized": "yes", "cause": "", **raw}
             for each in wanted[:len(captures)]]
    built = observation.build_observation(load_scenario("N2"), {
        "stamps": {"start": 0.0}, "kernel": {}, "alternatives": tried}, {})
    [check] = alternatives.check_alternatives(policy, replace(built, folder=folder))
    return check


PFS = {"ike_sas": [{"child-sas": {"qop-2": {"dh-group": "CURVE_25519"}}}]}


@pytest.mark.parametrize(("example", "captures", "raw", "said"), [
    ("wpa3-sae-groups", ["station-group", "access-point-group"], {},
     "21 of station_groups: group [21] in the commits, 2 sides confirm, let in; 21 of access_poi"),
    ("wpa3-sae-anti-clogging", ["tokens"], {},
     "3 of 3 strangers answered, 0 asked for a token (status 76) before, the station asked after"),
    ("wpa2-wpa3-sae", ["key-management"], {}, "AKM [2] offered, [2] requested, let in"),
    ("ikev2-proposals", ["proposal", "second-proposal"], {},
     "aes256-sha256-modp3072 offered, let in; aes128-sha256-modp2048 of ike_accepted: aes128-sha2"),
    ("ikev2-forward-secrecy", ["forward-secrecy"], PFS, "curve25519 at the mobile node's charon")])
def test_attempt_of_real_daemons_holds(example: str, captures: list[str], raw: dict[str, Any],
                                       said: str, tmp_path: Path) -> None:
    check = judge(tmp_path, example, *captures, **raw)
    assert check.ok and said in check.detail, check.detail


@pytest.mark.parametrize(("example", "captures", "raw"), [
    ("wpa3-sae-groups", ["no-station-group", "access-point-group"], {}),
    ("wpa3-sae-groups", ["station-group"], {}),  # the second one was not tried
    ("wpa3-sae-groups", ["station-group", "access-point-group"], {"authorized": "no"}),
    ("wpa3-sae-anti-clogging", ["later-tokens"], {}),
    ("wpa2-wpa3-sae", ["one-key-management"], {}),
    ("wpa2-wpa3-sae", ["key-management"], {"cause": "a2: no association within 6 s"}),
    ("ikev2-proposals", ["second-proposal", "proposal"], {}),
    ("ikev2-forward-secrecy", ["no-forward-secrecy"], PFS),
    ("ikev2-forward-secrecy", ["forward-secrecy"], {})])
def test_attempt_without_the_alternative_fails(example: str, captures: list[str],
                                               raw: dict[str, Any], tmp_path: Path) -> None:
    """Captures of the controls, and attempts of which a part is missing."""
    assert not judge(tmp_path, example, *captures, **raw).ok


def test_each_alternative_has_a_check_and_an_attempt() -> None:
    """A field that comes later needs both."""
    assert alternatives._READERS.keys() == CHECKS.keys()


@pytest.mark.parametrize(("example", "found"), [
    ("ikev2-forward-secrecy", [Alternative(ESP_GROUP, "curve25519")]),
    ("ikev2-esp-proposals", [
        Alternative(f"ipsec.{field}", value) for field, value in (
            ("esp_offered", "chacha20poly1305"), ("esp_offered", "aes128gcm16"),
            ("esp_accepted", "aes128-sha256"), ("esp_accepted", "aes128gcm16"))])])
def test_alternatives_of_a_policy_are_what_ends_do_not_use(
        example: str, found: list[Alternative]) -> None:
    policy = load_policy(PROJECT / "examples" / f"{example}.yml")
    assert list_alternatives(policy.layers) == found


@pytest.mark.parametrize(("group", "octets"), [(19, 32), (20, 48), (21, 66)])
def test_commit_of_a_stranger_is_as_long_as_its_group_says(group: int, octets: int) -> None:
    """IEEE 802.11-2020, 9.4.1.39 and 12.4.7.4: scalar and both coordinates of the element."""
    frame = sae_flood.commit_frame("02:00:00:00:ee:01", "02:00:00:00:a0:00", group, is_h2e=True)
    assert frame[:2] == b"\xb0\0" and frame[24:32] == bytes((3, 0, 1, 0, 126, 0, group, 0))
    assert len(frame) == 24 + 8 + 3 * octets
    assert frame[10:16].hex(":") == "02:00:00:00:ee:01"
