"""Policies of 2007 and of tomorrow on Debian 13: proven, and each protection's loss is detected."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import policies
from conftest import PROJECT, VIRTUAL, Qop, checks
from guest import image
from guest.build import BuildError
from guest.releases import FORKY
from measure.records.record import Record
from plans import body

pytestmark = [pytest.mark.guest, pytest.mark.shareable]

SMALL = ["--release", "trixie", "--scenarios", "N2", "--repetitions", "1", "--stream-bytes", "100k"]
EARLIER = " (earlier authentications)"
POST_QUANTUM = "WPA3-ML-DSA-65"
EXAMPLES = {size: str(PROJECT / f"examples/wpa3-eap-tls-ml-dsa-{size}.yml") for size in (65, 87)}


@pytest.fixture(scope="module")
def measured(shared_qop: Qop) -> dict[str, Record]:
    """A repetition of old and new policies on Debian 13, by policy."""
    options = [word for file in EXAMPLES.values() for word in ("--policy", file)]
    _, records = shared_qop.run("trixie", *SMALL, "--policies", "P1,P12,M5,M13", *options)
    return {record.cell["policy"]: record for record in records.values()}


def test_policies_are_proven_on_the_newer_release(measured: dict[str, Record]) -> None:
    for policy in ("P1", "P12", "M5", "M13", POST_QUANTUM):
        record = measured[policy]
        assert record.status == "ok", f"{policy}: {record.reason}"
        assert record.environment["debian"] == "trixie"
        assert record.environment["freeradius"].startswith("3.2.7")


def test_streams_of_both_releases_agree(shared_qop: Qop) -> None:
    """Both have the same iperf3. That of Debian 13 ends late, and loses most datagrams here."""
    rates: dict[str, list[float]] = {}
    for release in ("bookworm", "trixie"):
        _, records = shared_qop.run(f"streams-{release}", *SMALL, "--policies", "P1",
                                    "--release", release, "--stream-bytes", "1M", "--clock",
                                    "virtual")
        [record] = records.values()
        assert record.status == "ok", record.reason
        assert record.environment["iperf3"].startswith("3.12-")
        assert record.measured is not None
        rates[release] = [record.measured[name]["goodput_bps"] for name in ("tcp", "udp")]
    assert rates["trixie"] == pytest.approx(rates["bookworm"], rel=0.05)


def test_study_of_releases_proves_tunnels_and_counts_all_methods(shared_qop: Qop) -> None:
    """In virtual time, captures have the last packet of a tunnel. PEAP's bytes are counted, too."""
    shared_qop("run", "releases", "--out", "releases-virtual", "--release", "bookworm", *VIRTUAL,
               "--policies", "M4,P3", "--scenarios", "N2", "--repetitions", "1")
    measured = {record.cell["policy"]: record
                for record in shared_qop.records("releases-virtual").values()}
    for record in measured.values():
        assert record.status == "ok", record.reason
    counted = measured["M4"].measured
    assert counted is not None
    assert counted["eap_packets"] > 10 and counted["eap_bytes"] > 2000


def test_post_quantum_login_is_proven_by_its_packets(measured: dict[str, Record]) -> None:
    """The group, the keys that signed, and every packet's size."""
    held = checks(measured[POST_QUANTUM])
    assert "0x905" in held["post-quantum certificates"]
    assert held["TLS group"].startswith("the server chose [4588]")
    assert "packets of EAP-TLS" in held["EAP packets as computed"]


def test_certificates_that_are_too_long_fail_with_the_servers_limit(
        measured: dict[str, Record]) -> None:
    """ML-DSA-87: the station's message is longer than FreeRADIUS takes."""
    record = measured["WPA3-ML-DSA-87"]
    assert record.status == "failed"
    assert "16,384" in record.reason or "16384" in record.reason


#: Policies with ML-DSA-65 and X25519MLKEM768 on the whole path, by the round trips of their move.
FAST, FULL = ("ft", "okc", "fils"), ("eap-tls", "radsec", "peap", "ttls")
ROUND_TRIP_S = 0.020
FAR = ["--release", "trixie", *VIRTUAL, "--repetitions", "1", "--stream-bytes", "100k",
       "--move-stream", "5"]


def test_post_quantum_certificates_cost_their_round_trips_over_the_path(shared_qop: Qop) -> None:
    """Full authentications pay each round trip at the move, too. Those with keys spare them."""
    files = {kind: PROJECT / f"examples/wpa3-{kind}-ml-dsa-65.yml" for kind in (*FAST, *FULL)}
    options = [word for file in files.values() for word in ("--policy", str(file))]
    _, records = shared_qop.run("far-new", *FAR, *options, "--scenarios", "campus-20ms")
    by_id = {record.cell["policy"]: record for record in records.values()}
    moves_s = {kind: _move_s(by_id[policies.load_policy(file).id]) for kind, file in files.items()}
    assert all(moves_s[kind] < ROUND_TRIP_S for kind in FAST)
    assert all(moves_s[kind] > 20 * ROUND_TRIP_S for kind in FULL)
    assert moves_s["ttls"] < moves_s["peap"] < moves_s["eap-tls"]
    held = checks(by_id[policies.load_policy(files["radsec"]).id])
    assert "4588 (x25519mlkem768) expected" in held["RadSec: TLS group"]


def _move_s(record: Record) -> float:
    """Return how long the move of a proven repetition took (s)."""
    assert record.status == "ok", f"{record.cell}: {record.reason}"
    return body(record).handoff_s or 0.0


def test_post_quantum_authentication_survives_a_wire_that_loses_packets(shared_qop: Qop) -> None:
    """With 5 % lost, packets are sent again, and each authentication is proven."""
    _, records = shared_qop.run(
        "lossy-new", *FAR, "--policies", EXAMPLES[65], "--scenarios",
        str(PROJECT / "examples/scenarios/campus-5-percent-lost.yml"))
    [record] = records.values()
    assert _move_s(record) > 30 * ROUND_TRIP_S


def test_ttls_resumes_sessions_of_tls_1_3(shared_qop: Qop, tmp_path: Path) -> None:
    """No certificate is shown and no password sent, in the first and in the second session."""
    file = tmp_path / "resumed.yml"
    file.write_text(f"""
id: TTLS-RESUMED
name: TTLS-PAP with TLS 1.3, resumed
extends: {PROJECT / "policies/M5.yml"}
layers:
  dot1x: {{eap: TTLS, inner: PAP, identity: anonymous,
          tls: {{version: "1.3", group: x25519, sessions: resumed}}}}
""")
    _, records = shared_qop.run("ttls-resumed", *SMALL, "--policies", str(file),
                                "--authentications", "2")
    [record] = records.values()
    assert record.status == "ok", record.reason
    held = checks(record)
    for name in ("session resumed", "no inner method in a resumed session", "TLS 1.3"):
        assert {name, name + EARLIER} <= held.keys()


# --- Debian testing, whose packages change every day ---


@pytest.fixture(scope="module")
def measured_on_testing(shared_qop: Qop) -> dict[str, Record]:
    """A repetition of old and new policies on Debian testing, by policy, or a skip.

    Only QOP_TEST_RELEASES=forky has it done: a package in transition is no fault of qop's.
    """
    if FORKY.suite not in os.environ.get("QOP_TEST_RELEASES", "").split(","):
        pytest.skip("testing changes every day; QOP_TEST_RELEASES=forky has it measured")
    try:
        image.ensure_image(release=FORKY)
    except BuildError as error:
        pytest.skip(f"Debian testing cannot be had today: {str(error).partition(chr(10))[0]}")
    _, records = shared_qop.run("forky", *SMALL, *VIRTUAL, "--release", "forky", "--policies",
                                "P1,P8,P12,M5,M12,M13", "--policy", EXAMPLES[65], "--policy",
                                str(PROJECT / "examples" / "wpa3-eap-macsec-256.yml"))
    return {record.cell["policy"]: record for record in records.values()}


def test_policies_are_proven_on_testing(measured_on_testing: dict[str, Record]) -> None:
    """Packets of EAP-TLS have the sizes that are known of its daemons."""
    assert len(measured_on_testing) == 8
    old = measured_on_testing["P12"]
    assert (old.status, "without IKEv1" in old.reason) == ("skipped", True), old.reason
    for policy, record in (measured_on_testing | {"P12": measured_on_testing["P8"]}).items():
        assert record.status == "ok", f"{policy}: {record.reason}"
        assert record.environment["debian"] == "forky"
    for policy in ("M5", "M13", POST_QUANTUM):
        held = checks(measured_on_testing[policy])
        assert "packets of EAP-TLS" in held["EAP packets as computed"]
    assert "2 of 2 ends have GCM-AES-256" in checks(
        measured_on_testing["MACSEC-256"])["MACsec in the kernels"]


def test_testings_own_strongswan_has_ml_kem(measured_on_testing: dict[str, Record]) -> None:
    """M12 boots the image of all, and no strongSwan is compiled."""
    hybrid, plain = measured_on_testing["M12"], measured_on_testing["P1"]
    assert checks(hybrid)["ML-KEM-768 is exchanged"].startswith("IKE_INTERMEDIATE")
    assert hybrid.environment["image"] == plain.environment["image"]
    assert "strongswan-mlkem" not in hybrid.environment
    assert hybrid.environment["strongswan-charon"].startswith("6.")
