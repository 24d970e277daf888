"""`./qop cost`: the numbers on the command line, and one line for bad input."""

from __future__ import annotations

import re
from base64 import b64encode
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, get_args

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding

import policies
from conftest import PROJECT, Qop
from guest import releases
from harness.commands.cost import (
    FITTED_SIGNATURE_S,
    estimate_retries,
    estimate_server_time,
    find_remedies,
    time_server_operations,
)
from measure.checks.computed_packets import describe_login
from measure.packets.certificate_sizes import KEY_KINDS
from measure.packets.eap_radius_sizes import LoginPackets, RadiusPacket, compute_packets
from measure.packets.eap_tls_sizes import GROUPS, RELEASES, EapLogin
from policies import TlsSettings
from studies.policy_factors import change_layer


def login_of(policy: str) -> EapLogin:
    """Return the inputs of a policy's authentication."""
    login = describe_login(policies.load_named(policy).layers, server="radius",
                           user="mobile-node")
    assert login is not None
    return login


def write_certificate(folder: Path, key: Any) -> Path:
    """Write a self-signed certificate in PEM, and return its file."""
    name = x509.Name([])
    certificate = x509.CertificateBuilder(
        name, name, key.public_key(), 1, datetime(2026, 1, 1, tzinfo=UTC),
        datetime(2027, 1, 1, tzinfo=UTC)).sign(
            key, None if isinstance(key, ed25519.Ed25519PrivateKey) else hashes.SHA256())
    file = folder / "cert.pem"
    file.write_bytes(certificate.public_bytes(Encoding.PEM))
    return file


def test_numbers_are_those_of_the_packets(qop_here: Qop) -> None:
    packets = compute_packets(login_of("M5"))
    output = qop_here("cost", "--policy", "M5", "--rtt", "80").stdout
    rows = {line[:42].strip(): line[42:].split() for line in output.splitlines() if line[42:]}
    assert rows["EAP packets"][0] == str(len(packets.eap)) == "15"
    assert rows["bytes in RADIUS packets"][0] == f"{packets.radius_bytes:,}"
    assert rows["waiting for the wire [ms]"][0] == f"{packets.round_trips * 80:.1f}"


def test_every_packet_is_listed_on_request(qop_here: Qop) -> None:
    lines = qop_here("cost", "--policy", "M5", "--packets").stdout.splitlines()
    assert [line.split()[-2:] for line in lines if line.startswith("5 ")] == [["1024", "1090"]]


@pytest.mark.parametrize(("options", "says"), [
    (["--policy", "P1"], "--policy P1: this has no EAP-TLS, PEAP, TTLS or EAP-MD5"),
    (["--policy", "nowhere.yml"], "--policy: nowhere.yml:1: there is no such file"),
    (["--policy", "P5", "--key", "p-256"], "--key: EAP-MD5 has no TLS"),
    (["--policy", "M13", "--resumed", "--chain", "1"],
     "--chain: a resumed session shows no certificate"),
    (["--policy", "M4", "--client-chain", "nowhere.pem"],
     "--client-chain: a station of PEAP shows no certificate"),
    (["--group", "x25519"], "--group x25519: goes with TLS 1.3"),
    (["--key", "ml-dsa-44"], "--tls 1.2: has neither ML-KEM nor ML-DSA"),
    (["--policy", "M5", "--key", "ml-dsa-44", "--release", "bookworm"],
     "--release bookworm: its OpenSSL 3.0 has neither ML-KEM nor ML-DSA"),
    (["--server-chain", "nowhere.pem"], "--server-chain nowhere.pem: cannot be read"),
    (["--policy", "M6", "--key", "rsa-2048"],
     "--policy M6 --key: the 192-bit suite has TLS 1.2 and certificates with keys of P-384"),
    (["--policy", "M6", "--tls", "1.3", "--chain", "5"], "--policy M6 --tls --chain: the 192-bit"),
    (["--rtt", "nan"], "--rtt nan: is no number"),
    (["--loss", "nan"], "--loss nan: is no number"),
    (["--logins", "inf"], "cost: invalid value for '--logins': inf is not in the range"),
    (["--rtt", "1e308"], "cost: invalid value for '--rtt': 1e+308 is not in the range"),
    (["--server-chain", str(PROJECT)], f"--server-chain {PROJECT}: cannot be read (Is a dir"),
    (["--client-chain", str(PROJECT / "README.md")],
     f"--client-chain {PROJECT / 'README.md'}: has no certificate in PEM"),
])
def test_bad_input_is_refused_in_one_line(qop_here: Qop, options: list[str], says: str) -> None:
    done = qop_here("cost", *options)
    [line] = done.stderr.splitlines()
    assert done.returncode == 2
    assert line.startswith(f"qop: {says}")


def test_certificates_of_files_count_in_place_of_ours(qop_here: Qop, tmp_path: Path) -> None:
    """A chain of qop's form, read from its file, makes the packets that are computed for it."""
    file = write_certificate(tmp_path, rsa.generate_private_key(65537, 2048))
    size = len(x509.load_pem_x509_certificate(file.read_bytes()).public_bytes(Encoding.DER))
    output = qop_here("cost", "--server-chain", str(file), "--client-chain", str(file)).stdout
    assert f"1 certificate of {size} bytes and 1 certificate of {size} bytes" in output


@pytest.mark.parametrize(("key", "says"), [
    (ec.generate_private_key(ec.SECP256K1()), "secp256k1"),
    (ec.generate_private_key(ec.SECP521R1()), "secp521r1"),
    (ed25519.Ed25519PrivateKey.generate(), "ed25519")])
def test_key_without_a_known_size_is_refused(qop_here: Qop, tmp_path: Path,
                                             key: Any, says: str) -> None:
    """A curve of 256 bits is not P-256."""
    done = qop_here("cost", "--server-chain", str(write_certificate(tmp_path, key)))
    [line] = done.stderr.splitlines()
    assert done.returncode == 2
    assert f"cert.pem: the key is {says}, whose signature has an unknown size" in line


def test_key_of_an_unknown_algorithm_is_refused(qop_here: Qop, tmp_path: Path) -> None:
    """Such as SLH-DSA: the library reads the certificate, and not its key."""
    file = write_certificate(tmp_path, ed25519.Ed25519PrivateKey.generate())
    der = x509.load_pem_x509_certificate(file.read_bytes()).public_bytes(Encoding.DER)
    ed25519_id, other_id = bytes.fromhex("06032b6570"), bytes.fromhex("06032b657f")
    body = b64encode(der.replace(ed25519_id, other_id)).decode()
    file.write_text(f"-----BEGIN CERTIFICATE-----\n{body}\n-----END CERTIFICATE-----\n")
    done = qop_here("cost", "--client-chain", str(file))
    [line] = done.stderr.splitlines()
    assert done.returncode == 2
    assert "cert.pem: the key is of an unknown kind" in line


@pytest.mark.parametrize(("options", "tls"), [
    (["--key", "p-384"], TlsSettings(version="1.3", key="p-384")),
    (["--key", "rsa-4096", "--chain", "3"], TlsSettings(
        version="1.3", group="x25519", key="rsa-4096", chain=3)),
    (["--fragment", "500"], TlsSettings(version="1.3", group="x25519", fragment_bytes=500))])
def test_changed_setting_is_that_of_a_policy(qop_here: Qop, options: list[str],
                                             tls: TlsSettings) -> None:
    """P-384 also changes the group, and what the station offers."""
    login = describe_login(change_layer("dot1x", tls=tls)(policies.load_named("M5")).layers,
                           server="radius", user="mobile-node")
    assert login is not None
    output = qop_here("cost", "--policy", "M5", *options).stdout
    assert f"bytes in EAP packets                      {compute_packets(login).eap_bytes:,}\n" in \
        re.sub(r" +\n", "\n", output)


def test_changed_key_keeps_the_realm(qop_here: Qop, tmp_path: Path) -> None:
    """The station's certificate has the whole identity, which makes it longer."""
    text = (PROJECT / "policies" / "M5.yml").read_text().replace(
        "identity: anonymous", "").replace("id: M5", "id: own")
    file, sizes = tmp_path / "realm.yml", list[int]()
    for realm in ("", "      realm: university.example\n"):
        file.write_text(text.replace("    tls:\n", f"    tls:\n{realm}"))
        output = qop_here("cost", "--policy", str(file), "--key", "rsa-3072").stdout
        [size] = re.findall(r"and 2 certificates of ([\d,]+) bytes", " ".join(output.split()))
        sizes.append(int(size.replace(",", "")))
    assert sizes[1] == sizes[0] + len("@university.example")


def test_choices_are_those_of_policies_and_guests() -> None:
    """Sizes are in one place, what policies and guests can have in others."""
    assert set(KEY_KINDS) == set(get_args(TlsSettings.model_fields["key"].annotation))
    [literal] = [each for each in get_args(TlsSettings.model_fields["group"].annotation)
                 if get_args(each)]
    assert set(GROUPS) == {*get_args(literal), "p-384"}
    assert list(RELEASES) == list(releases.RELEASES)


ONE_TRIP = LoginPackets((), (RadiusPacket(True, 100), RadiusPacket(False, 100)))


def test_wait_for_lost_packets_follows_hostapds_timer() -> None:
    """Requests after 0, 3, 9 and 21 s; after 30 s all again, until the station gives up."""
    retries = estimate_retries(ONE_TRIP, 0.1, 0.0)
    assert retries.undisturbed == pytest.approx(0.81)
    lost = 1 - 0.81
    ends = {30 * again + wait_s: 0.81 * lost ** (4 * again + number) for again in range(3)
            for number, wait_s in enumerate((0, 3, 9, 21)) if 30 * again + wait_s < 70}
    assert retries.completed == pytest.approx(sum(ends.values()))
    assert retries.wait_s == pytest.approx(
        sum(at_s * chance for at_s, chance in ends.items()) / retries.completed)
    fragmented = LoginPackets((), (RadiusPacket(True, 1652), RadiusPacket(False, 100)))
    assert estimate_retries(fragmented, 0.1, 0.0).undisturbed == pytest.approx(0.9 ** 3)


def test_answer_after_hostapds_limit_completes_nothing() -> None:
    """With 22 s, the requests after 0 and 3 s count. With 30 s, none does."""
    assert estimate_retries(ONE_TRIP, 0.0, 29.9).completed == 1
    assert estimate_retries(ONE_TRIP, 0.0, 30.0).completed == 0
    lost = 1 - 0.81
    assert estimate_retries(ONE_TRIP, 0.1, 22.0).completed == pytest.approx(
        0.81 * (1 + lost + lost ** 2 + lost ** 3))


@pytest.mark.parametrize(("options", "says"), [
    (["--rtt", "60000"], "Fails: an answer of the RADIUS server takes 60 s, and hostapd begins"),
    (["--policy", "P5", "--rtt", "29000"], ""), (["--rtt", "5000", "--loss", "1"], ""),
    (["--policy", "M18", "--rtt", "2200"], ""),
    (["--policy", "M18", "--rtt", "2400"], (
        "Fails: 30 round trips take 72 s, and wpa_supplicant gives up after 70 s. A round trip "
        "below 2,333 ms helps")),
    (["--policy", "M18", "--loss", "50"], "Fails: fewer than 1 in 1,000 authentications")])
def test_authentication_beyond_the_time_limits_fails(qop_here: Qop, options: list[str],
                                                     says: str) -> None:
    """The limit and its daemon are named."""
    output = " ".join(qop_here("cost", *options).stdout.split())
    assert (says in output) if says else ("Fails" not in output)


def test_resumed_session_takes_no_public_key_operation() -> None:
    login = login_of("M13")
    assert time_server_operations(login) > 0
    assert time_server_operations(replace(login, is_resumed=True)) == 0


#: Processor time of FreeRADIUS 3.2.7 for a login, and of its public-key operations (ms), as
#: measured (docs/cost.md). Those of the first line fitted the model.
MEASURED = [
    ("TLS", TlsSettings(), 1.80, 0.399), ("TTLS", TlsSettings(), 1.51, 0.308),
    ("TLS", TlsSettings(sessions="resumed"), 0.99, 0), ("TLS", TlsSettings(chain=3), 2.05, 0.427),
    ("TLS", TlsSettings(key="rsa-3072"), 2.65, 0.913),
    ("TLS", TlsSettings(version="1.3", group="x25519", key="p-256"), 1.75, 0.265),
    ("TLS", TlsSettings(version="1.3", group="x25519", key="rsa-4096"), 3.76, 1.77),
    ("TLS", TlsSettings(version="1.3", group="x25519mlkem768", key="ml-dsa-44"), 4.42, 0.794),
    ("PEAP", TlsSettings(), 2.46, 0.309),
    ("PEAP", TlsSettings(version="1.3", group="x25519mlkem768", key="ml-dsa-65"), 4.11, 0.51)]


@pytest.mark.parametrize(("method", "tls", "measured_ms", "operation_ms"), MEASURED)
def test_processor_time_is_within_a_fifth_of_the_measured_one(
        method: str, tls: TlsSettings, measured_ms: float, operation_ms: float) -> None:
    """Public-key operations alone would be a tenth to a half of it."""
    inner = {"TLS": None, "PEAP": "MSCHAPV2", "TTLS": "PAP"}[method]
    login = describe_login(change_layer("dot1x", eap=method, first_offer=method, inner=inner,
                                        tls=tls)(policies.load_named("M4")).layers,
                           server="radius", user="mobile-node", release="trixie")
    assert login is not None
    estimated_s = estimate_server_time(login, compute_packets(login).round_trips,
                                       operation_ms / 1e3, FITTED_SIGNATURE_S)
    assert estimated_s * 1e3 == pytest.approx(measured_ms, rel=0.2)


def test_slower_machine_takes_longer_for_packets_too() -> None:
    login = login_of("M5")
    once, twice = (estimate_server_time(login, 8, 0, FITTED_SIGNATURE_S * factor)
                   for factor in (1, 2))
    assert twice == pytest.approx(2 * once)


@pytest.mark.parametrize(("tls", "remedies"), [
    ({"key": "ml-dsa-87", "chain": 1}, [
        "certificates of the station with at most 11,613 bytes in all",
        "keys of ml-dsa-65 at the station",
        "PEAP or TTLS, where the station shows no certificate"]),
    ({"key": "ml-dsa-65", "fragment_bytes": 400}, [
        "fragments of the server with 500 bytes", "keys of ml-dsa-44 on both sides",
        "PEAP or TTLS, where the station shows no certificate"]),
    ({"key": "ml-dsa-87", "station_key": "p-256", "fragment_bytes": 100}, [
        "fragments of the server with 500 bytes"])])
def test_remedies_stay_within_the_limits(tls: dict[str, Any], remedies: list[str]) -> None:
    """A shorter chain is none: a station with one certificate adds the root."""
    layers = change_layer("dot1x", tls=TlsSettings(version="1.3", group="x25519", **tls))(
        policies.load_named("M5")).layers
    login = describe_login(layers, server="radius", user="mobile-node", release="trixie")
    assert login is not None
    [problem] = compute_packets(login).problems
    assert find_remedies(login, problem) == remedies


@pytest.mark.parametrize("policy", ["M18", "M13"])
def test_resumed_session_has_no_certificates_in_the_table(qop_here: Qop, policy: str) -> None:
    """Neither their sizes nor their kind of key."""
    output = " ".join(qop_here("cost", "--policy", policy, "--resumed").stdout.split())
    assert "a resumed session" in output
    assert not re.search(r"station's certificates|ml-dsa|rsa", output)


def test_station_has_a_key_of_its_own_kind(qop_here: Qop) -> None:
    output = " ".join(qop_here("cost", "--policy", "M18", "--station-key", "p-256").stdout.split())
    assert "ml-dsa-65 at the server, p-256 at the station" in output
    again = " ".join(qop_here("cost", "--policy", str(
        PROJECT / "examples/wpa3-eap-tls-mixed-keys.yml")).stdout.split())
    assert re.findall(r"EAP packets (\d+)", output) == re.findall(r"EAP packets (\d+)", again)
