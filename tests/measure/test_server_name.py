"""The name in a RADIUS server's certificate, judged from packets of real daemons."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from measure.checks import observation, server_name
from measure.checks.observation import Check
from measure.packets import eap
from policies import TlsSettings
from topologies.loader import load_scenario

RECORDED = Path(__file__).parents[1] / "recorded" / "server_name"
RAW: Mapping[str, Mapping[str, Any]] = json.loads((RECORDED / "raw.json").read_text())
NAME = TlsSettings(server_name="radius.campus.example")
DOMAIN = TlsSettings(server_domain="campus.example")
ATTEMPT = "port-othername.pcap"


def judge(folder: Path, recorded: str, tls: TlsSettings, attempt: str = "",
          **raw: Any) -> Check:
    """Return the check of a recorded repetition, perhaps with the attempt of another one."""
    shutil.copy(RECORDED / f"{attempt or recorded}-{ATTEMPT}", folder / ATTEMPT)
    values = {**RAW[recorded], **raw}
    built = observation.build_observation(load_scenario("N2"), values, {})
    inside = eap.read_inner_eap_frames(RECORDED / f"{recorded}-auth-mn.pcap", values["tls_keys"])
    return server_name.check_server_name(tls, replace(built, folder=folder, inside=inside))


@pytest.mark.parametrize(("recorded", "tls", "other"), [
    ("name", NAME, "not.radius.campus.example"), ("domain", DOMAIN, "radius.not-campus.example")])
def test_attempt_with_an_alert_and_a_failure_is_a_refusal(
        recorded: str, tls: TlsSettings, other: str, tmp_path: Path) -> None:
    """TLS 1.2 shows the certificate in clear, and 1.3 to those who have the keys."""
    check = judge(tmp_path, recorded, tls)
    assert check.ok
    assert f"certificate for {other} in place of radius.campus.example: " in check.detail
    assert "TLS alert internal_error, EAP-Failure" in check.detail


def test_attempt_that_ends_with_success_is_no_refusal(tmp_path: Path) -> None:
    """This is the control: wpa_supplicant without the name."""
    check = judge(tmp_path, "name", NAME, attempt="name-unchecked",
                  other_name=RAW["name-unchecked"]["other_name"])
    assert not check.ok and "EAP-Success" in check.detail


@pytest.mark.parametrize("tls", [
    TlsSettings(server_name="not.radius.campus.example"), DOMAIN,
    TlsSettings(server_name="radius.elsewhere.example")])
def test_names_that_are_not_the_policys_prove_nothing(tls: TlsSettings, tmp_path: Path) -> None:
    """The other name must not be in the domain, and the name of the measured login must fit."""
    assert not judge(tmp_path, "name", tls).ok


def test_repetition_without_an_attempt_or_without_keys_proves_nothing(tmp_path: Path) -> None:
    """An encrypted certificate has no name, and neither has one that is not there."""
    assert not judge(tmp_path, "domain", DOMAIN, other_name={}).ok
    assert not judge(tmp_path, "domain", DOMAIN, tls_keys=[]).ok
    built = observation.build_observation(load_scenario("N2"), RAW["name"], {})
    (tmp_path / "empty").mkdir()
    check = server_name.check_server_name(NAME, replace(built, folder=tmp_path / "empty"))
    assert not check.ok and "no answer" in check.detail


@pytest.mark.parametrize(("tls", "name", "is_accepted"), [
    (NAME, "radius.campus.example", True), (NAME, "RADIUS.campus.example", True),
    (NAME, "not.radius.campus.example", False), (NAME, "campus.example", False),
    (DOMAIN, "campus.example", True), (DOMAIN, "a.radius.campus.example", True),
    (DOMAIN, "not-campus.example", False), (DOMAIN, "campus.example.org", False)])
def test_name_fits_as_wpa_supplicant_compares_it(tls: TlsSettings, name: str, *,
                                                 is_accepted: bool) -> None:
    """A domain ends names at a dot (wpa_supplicant.conf, domain_match and domain_suffix_match)."""
    assert tls.is_accepted_name(name) is is_accepted
    assert not tls.is_accepted_name(tls.other_name) and tls.is_accepted_name(tls.certified_name)
