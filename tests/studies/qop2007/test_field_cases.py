"""Settings and faults that public threads report, measured in the guest."""

from __future__ import annotations

from pathlib import Path

import pytest

from conftest import PROJECT, VIRTUAL, Qop, checks
from plans import body

pytestmark = [pytest.mark.guest, pytest.mark.shareable]
EXAMPLES = PROJECT / "examples"
ONE = ("--repetitions", "1", "--stream-bytes", "100k", *VIRTUAL)


def test_a_small_mtu_cures_wireguard_on_a_wire_that_drops_long_packets(qop: Qop,
                                                                       tmp_path: Path) -> None:
    """The default MTU fails and the wire is named; a tunnel of 1280 bytes works."""
    usual = tmp_path / "usual.yml"
    usual.write_text("id: USUAL\nname: WireGuard with the default MTU\n"
                     "layers: {link: {cipher: CCMP, keys: psk}, wireguard: {}}\n")
    done, records = qop.run(
        "mtu", "--policy", str(usual), "--policy", str(EXAMPLES / "wpa2-wireguard.yml"),
        "--scenarios", str(EXAMPLES / "scenarios/mtu-1400.yml"), *ONE)
    assert done.returncode == 1
    by_policy = {found.cell["policy"]: found for found in records.values()}
    assert "link ap-a/eth-a to ha-a/air0 takes 1400 bytes" in by_policy["USUAL"].reason
    cured = by_policy["WPA2-WG"]
    assert {"WireGuard: MTU", "WireGuard: keepalive",
            "WireGuard: pre-shared key"} <= checks(cured).keys()
    assert body(cured).tcp is not None


@pytest.mark.parametrize(("fault", "policy", "scenario", "reason"), [
    ("tls-1.3-alone", "M4", "N2", "protocol version"),
    ("no-r1-keys", "M7", "E1", "status 53"),
    ("stale-channel", "M7", "E1", "primary channel mismatch"),
    ("expired-certificate", "M5", "N2", "certificate"),
    ("expired-server-certificate", "M5", "N2", "error 10 (certificate has expired) depth 0"),
    ("expired-intermediate", "M5", "N2", "error 10 (certificate has expired) depth 1"),
    ("expired-station-intermediate", "M5", "N2", "OpenSSL says error 10 : certificate has")])
def test_reported_faults_fail_as_reported(qop: Qop, fault: str, policy: str, scenario: str,
                                          reason: str) -> None:
    done, records = qop.run("red", "--policies", policy, "--scenarios", scenario, "--fault", fault,
                            *ONE)
    assert done.returncode == 1
    [found] = records.values()
    assert reason in found.reason


@pytest.mark.parametrize(("example", "scenario", "reason"), [
    ("wpa2-peap-label", "N2", "PMKID mismatch"),
    ("wpa2-peap-pmksa-off", "E1", "not proven: goes on with cached keys")])
def test_reported_faults_of_a_policy_fail_as_reported(qop: Qop, example: str, scenario: str,
                                                      reason: str) -> None:
    done, records = qop.run("red-policy", "--policy", str(EXAMPLES / f"{example}.yml"),
                            "--scenarios", scenario, *ONE)
    assert done.returncode == 1
    [found] = [each for each in records.values() if each.cell["policy"] != "P1"]
    assert reason in found.reason


def test_wpa3_stations_of_a_mixed_network_without_pmf_are_found_out(qop: Qop) -> None:
    """The access point offers WPA2 and WPA3 with PMF off. The network with PMF is proven."""
    mixed = ("--policies", "M2", "--policy", str(EXAMPLES / "wpa2-wpa3-sae.yml"), "--scenarios",
             "N2", *ONE)
    done, records = qop.run("mixed-green", *mixed)
    assert done.returncode == 0, done.stdout
    done, records = qop.run("mixed-red", *mixed, "--fault", "mixed-without-pmf")
    assert done.returncode == 1
    [found] = [each for each in records.values() if each.cell["policy"] == "WPA2-WPA3-SAE"]
    assert {each.check for each in found.evidence if not each.ok} == {
        "management frames are protected", "protection of management frames negotiated"}


def test_small_fragments_pass_where_ip_fragments_are_dropped(qop: Qop) -> None:
    """Under that fault, M5 does not log in, and its cure does."""
    done, records = qop.run("fragments", "--policies", "M5", "--policy",
                            str(EXAMPLES / "wpa2-eap-tls-fragments.yml"), "--fault",
                            "dropped-fragments", *ONE)
    assert done.returncode == 1
    by_policy = {found.cell["policy"]: found for found in records.values()}
    assert by_policy["TLS-1000"].status == "ok", by_policy["TLS-1000"].reason
    assert "802.1X did not finish" in by_policy["M5"].reason


def test_a_wrong_password_of_ike_is_the_reason_of_a_failure(qop: Qop) -> None:
    done, records = qop.run("ike", "--policy", str(EXAMPLES / "ikev2-eap-mschapv2.yml"),
                            "--policies", "P3", "--scenarios", "N2", *ONE, "--fault",
                            "wrong-ike-password")
    assert done.returncode == 1
    [found] = [found for found in records.values() if found.cell["policy"] == "IKEv2-EAP-MSCHAPv2"]
    assert "EAP-MS-CHAPv2 failed" in found.reason


def test_further_settings_of_eap_and_ike_are_proven(qop: Qop) -> None:
    names = ("wpa2-peap-rsa3072", "wpa2-peap-tls13", "wpa2-peap-gtc", "wpa2-ttls-chap",
             "wpa2-ttls-mschap", "eduroam", "ikev2-psk", "ikev2-certificates", "ikev2-eap",
             "ikev2-eap-mschapv2")
    files = [part for name in names for part in ("--policy", str(EXAMPLES / f"{name}.yml"))]
    done, records = qop.run("settings", *files, *ONE)
    assert done.returncode == 0, done.stderr
    assert len(records) == len(names) + 1
