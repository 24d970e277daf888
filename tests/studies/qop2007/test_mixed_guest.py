"""Networks with several ways in, and RADIUS servers as they are run, measured in the guest."""

from __future__ import annotations

from pathlib import Path

import pytest

from conftest import PROJECT, VIRTUAL, Qop, checks
from measure.records.record import Record
from plans import body

pytestmark = [pytest.mark.guest, pytest.mark.shareable]

EXAMPLES = PROJECT / "examples"
PROXY = str(EXAMPLES / "scenarios" / "radius-proxy.yml")
SMALL = [*VIRTUAL, "--repetitions", "1", "--stream-bytes", "100k"]
#: Policies of the examples, with a check that only each of them has, or "".
POLICIES = {"wpa2-wpa3-sae": "SAE exchange",
            "wpa2-wpa3-psk": "station without protected management frames",
            "wpa2-wpa3-eap": "EAP method PEAP", "wpa2-tkip-group": "group cipher negotiated",
            "owe-transition": "OWE transition",
            "wpa2-psk-by-device": "passphrase is the device's own",
            "wpa2-eap-vlan": "VLAN from the RADIUS server",
            "wpa2-psk-vlan": "VLAN tag on the wire",
            "wpa2-eap-accounting": "session is accounted",
            "wpa2-eap-message-authenticator": "server requires Message-Authenticator"}


@pytest.fixture(scope="module")
def mixed(shared_qop: Qop) -> dict[str, Record]:
    """A repetition of each policy."""
    files = [word for name in POLICIES for word in ("--policy", str(EXAMPLES / f"{name}.yml"))]
    done, records = shared_qop.run("mixed", *SMALL, *files, "--policies", "M2",
                                   "--scenarios", "N2")
    assert done.returncode == 0, done.stderr
    return {found.cell["policy"]: found for found in records.values()}


def test_each_way_into_a_network_is_proven(mixed: dict[str, Record]) -> None:
    """By the check that is about it, among others that all hold."""
    ids = {"wpa2-eap-message-authenticator": "WPA2-EAP-AUTHENTIC",
           "wpa2-psk-by-device": "WPA2-BY-DEVICE"}
    for name, check in POLICIES.items():
        record = mixed[ids.get(name, name.upper())]
        assert check in checks(record), record.name
        assert all(entry.ok for entry in record.evidence)


def test_transition_mode_costs_an_older_station_nothing(mixed: dict[str, Record]) -> None:
    """It has the frames of WPA2. One with SAE has two more."""
    older, newer, alone = (body(mixed[name]) for name in (
        "WPA2-WPA3-PSK", "WPA2-WPA3-SAE", "M2"))
    assert older.authentication_time_s == pytest.approx(alone.authentication_time_s, abs=0.001)
    assert [{found.name: found.packets for found in each.phases}["authentication"]
            for each in (older, newer)] == [2, 4]


def test_group_key_is_renewed_during_streams(qop: Qop) -> None:
    """Every second, under the pairwise key."""
    cell = [*VIRTUAL, "--policies", "M2", "--policy", str(EXAMPLES / "wpa2-psk-group-rekey.yml"),
            "--scenarios", "N2", "--repetitions", "1", "--stream-bytes", "2M"]
    done, records = qop.run("renewed", *cell)
    assert done.returncode == 0, done.stdout
    found = {each.cell["policy"]: checks(each) for each in records.values()}
    assert "expected by an interval of 1 s" in found["WPA2-GROUP-REKEY"]["group key is renewed"]
    assert "group key is renewed" not in found["M2"]


@pytest.fixture(scope="module")
def proxied(shared_qop: Qop) -> dict[str, Record]:
    """A repetition of each policy with a realm, behind a proxy, by policy."""
    files = [word for name in ("wpa2-eap-realm", "eduroam", "wpa2-ttls-realm")
             for word in ("--policy", str(EXAMPLES / f"{name}.yml"))]
    done, records = shared_qop.run("proxy", *SMALL, *files, "--scenarios", PROXY)
    assert done.returncode == 0, done.stdout
    return {found.cell["policy"]: found for found in records.values()}


def test_server_of_the_realm_decides_behind_a_proxy(proxied: dict[str, Record]) -> None:
    """Each of its exchanges takes the realm's round trip."""
    record = proxied["WPA2-EAP-REALM"]
    assert "server of the realm decides" in checks(record)
    assert body(record).authentication_time_s > 5 * 0.020


def test_tunnels_have_the_realm_inside_and_outside(proxied: dict[str, Record], qop: Qop) -> None:
    """The realm's server decides for eduroam's PEAP and for TTLS. Without a realm it does not."""
    for policy in ("eduroam", "TTLS-REALM"):
        assert {"server of the realm decides", "user inside the tunnel has the realm",
                "identity is hidden"} <= checks(proxied[policy]).keys()
    done, records = qop.run("no-realm", *SMALL, "--policies", "P1", "--policy",
                            str(EXAMPLES / "eduroam.yml"), "--scenarios", PROXY, "--fault",
                            "no-realm")
    assert done.returncode == 1
    [record] = [each for each in records.values() if each.cell["policy"] == "eduroam"]
    # The station refuses the proxy, which has another name than the realm's server.
    assert "Domain mismatch" in record.reason


def test_certificates_inside_peap_are_proven(qop: Qop, tmp_path: Path) -> None:
    """Also with MOBIKE above, where there is no Mobile IP."""
    nested = (EXAMPLES / "wpa2-peap-eap-tls.yml").read_text().replace("id: PEAP-", "id: MOBIKE-")
    mobike = tmp_path / "mobike.yml"
    mobike.write_text(f"{nested}  ipsec:\n    ike: 2\n    mobike: 1\n"
                      "    esp_proposal: aes256gcm16\n"
                      "    ike_proposal: aes256gcm16-prfsha384-curve25519\n")
    checked = ["inner method TLS", "mutual authentication inside the tunnel"]
    cell = [*SMALL, "--policy", str(EXAMPLES / "wpa2-peap-eap-tls.yml"), "--policies", "M4",
            "--scenarios", "N2"]
    done, records = qop.run("nested", *cell, "--policy", str(mobike))
    assert done.returncode == 0, done.stdout
    by_policy = {each.cell["policy"]: each for each in records.values()}
    for name in ("PEAP-EAP-TLS", "MOBIKE-EAP-TLS"):
        assert {*checked} <= checks(by_policy[name]).keys()
    times = [body(by_policy[name]).authentication_time_s for name in ("M4", "PEAP-EAP-TLS")]
    assert times[0] < times[1]


def test_revoked_certificates_are_refused(qop: Qop) -> None:
    """By a list or by OCSP, whose responder costs three round trips."""
    refused, good = "revoked certificate is refused", "OCSP response is good"
    names = {"TLS-CRL": "wpa2-eap-tls-crl", "TLS-OCSP": "wpa2-eap-tls-ocsp"}
    files = {name: ["--policy", str(EXAMPLES / f"{file}.yml")] for name, file in names.items()}
    far = ["--scenarios", str(EXAMPLES / "scenarios" / "ocsp-20ms.yml")]
    done, records = qop.run("revoked", *SMALL, *files["TLS-CRL"], *files["TLS-OCSP"], *far)
    assert done.returncode == 0, done.stdout
    by_policy = {each.cell["policy"]: each for each in records.values()}
    listed, asked = by_policy["TLS-CRL"], by_policy["TLS-OCSP"]
    assert refused in checks(listed) and {refused, good} <= set(checks(asked))
    times = [body(each).authentication_time_s for each in (listed, asked)]
    assert times[1] - times[0] == pytest.approx(3 * 0.020, abs=0.003)


def test_stations_of_one_cell_are_in_vlans_of_their_own(qop: Qop) -> None:
    """By passphrase and by RADIUS."""
    files = [word for kind in ("psk", "eap")
             for word in ("--policy", str(EXAMPLES / f"wpa2-{kind}-vlans.yml"))]
    done, records = qop.run("vlans", *SMALL, "--policies", "P1", *files, "--scenarios",
                            "N1,N3,R1")
    assert done.returncode == 0, done.stdout
    found = [checks(each) for each in records.values() if each.cell["policy"] != "P1"]
    assert len(found) == 6
    assert all("other stations are in their VLANs" in each for each in found)


def test_server_with_another_name_is_refused(qop: Qop) -> None:
    """By its name or its domain, also by RadSec."""
    refused = "server with another name is refused"
    files = {"PEAP-NAME": "wpa2-peap-server-name", "TLS-DOMAIN": "wpa2-eap-tls-server-domain"}
    given = {name: ["--policy", str(EXAMPLES / f"{file}.yml")] for name, file in files.items()}
    radsec = qop.folder / "radsec-name.yml"
    radsec.write_text(
        "id: RADSEC-NAME\nname: RadSec and a domain\nlayers:\n"
        "  link: {cipher: CCMP, keys: eap, pmf: 1}\n"
        "  dot1x: {eap: TTLS, inner: PAP, transport: radsec, tls: {version: '1.3', chain: 3,\n"
        "          key: p-256, server_domain: home.example}}\n")
    cell = ["--scenarios", "E1"]
    done, records = qop.run("named", *SMALL, *given["PEAP-NAME"], *given["TLS-DOMAIN"],
                            "--policy", str(radsec), *cell)
    assert done.returncode == 0, done.stdout
    by_policy = {each.cell["policy"]: each for each in records.values()}
    details = {name: checks(by_policy[name])[refused] for name in (*files, "RADSEC-NAME")}
    assert "for not.radius.campus.example in place of radius.campus" in details["PEAP-NAME"]
    assert "for radius.not-campus.example in place of radius.campus" in details["TLS-DOMAIN"]
    assert all("TLS alert internal_error, EAP-Failure" in each for each in details.values())


def test_second_radius_server_takes_over(qop: Qop) -> None:
    """After hostapd's four attempts."""
    scenario = ["--policies", "M4", "--scenarios",
                str(EXAMPLES / "scenarios" / "radius-failover.yml")]
    done, records = qop.run("failover", *SMALL, *scenario, "--authentications", "2")
    assert done.returncode == 0, done.stdout
    [record] = records.values()
    assert "second RADIUS server takes over" in checks(record)
    assert body(record).authentication_time_s > 3 + 6
