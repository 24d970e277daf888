"""Policies measured for real: daemons, radios and packets in the embedded guest."""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import time
from pathlib import Path

import pytest

import shared
from conftest import MEASURED, PATIENCE_S, PROJECT, VIRTUAL, Qop, checks
from measure.records.record import Record
from plans import body

pytestmark = [pytest.mark.guest, pytest.mark.shareable]


@pytest.fixture
def at_home(measured: dict[str, Record]) -> dict[str, Record]:
    """The shared run's records of N2, by policy."""
    return {found.cell["policy"]: found for found in measured.values()
            if found.cell["scenario"] == "N2"}


@pytest.mark.parametrize("scenario", ["N2", "R1"])
@pytest.mark.parametrize("policy", MEASURED)
def test_every_policy_is_measured_and_proven(
        measured: dict[str, Record], policy: str, scenario: str) -> None:
    """Each record is ok, holds every number asked for, and no piece of its evidence fails."""
    found = measured[f"{policy}-{scenario}-001"]
    assert found.status == "ok", found.reason
    assert all(check.ok for check in found.evidence)
    assert body(found).tcp and body(found).udp
    # Of UDP a busy machine may lose more than the air does; TCP repeats it.
    assert body(found).tcp.bytes > 100_000
    for stream in (body(found).tcp, body(found).udp):
        # 802.11b cannot carry more than its ceiling; how near it comes, test_virtual.py shows.
        assert 0 < stream.goodput_bps < 7.2e6
    assert {"scan", "authentication", "association", "first_packet"} <= {
        phase.name for phase in body(found).phases}
    assert found.environment["kernel"].startswith("Linux")


def test_open_network_has_only_mobile_ip(at_home: dict[str, Record]) -> None:
    """P1: frames in clear, nothing negotiated; its authentication time is Mobile IP's alone."""
    assert body(at_home["P1"]).authentication_sum == ["mip_registration_home"]
    assert "air is open" in checks(at_home["P1"])


def test_wep_protects_every_frame(at_home: dict[str, Record]) -> None:
    """P2: a WEP IV on every data frame, and the frames decrypt with the policy's own key."""
    held = checks(at_home["P2"])
    assert "0 in clear" in held["WEP-104 on every data frame"]
    assert "static WEP key in use" in held


def test_ipsec_takes_nine_packets(at_home: dict[str, Record]) -> None:
    """P3: main and quick mode in exactly 9 ISAKMP packets; 3DES and SHA-1 in the kernel."""
    phases = {phase.name: phase for phase in body(at_home["P3"]).phases}
    assert phases["ike"].packets == 9
    held = checks(at_home["P3"])
    assert "cbc(des3_ede), hmac(sha1)" in held["ESP transforms in the kernel"]
    assert "no clear inner packet" in held


def test_eap_md5_with_static_wep(at_home: dict[str, Record]) -> None:
    """P7: method MD5, a port that was closed before, and WEP keys that EAP did not deliver."""
    held = checks(at_home["P7"])
    assert {"EAP method MD5", "port is closed before", "port is open after",
            "static WEP key in use"} <= held.keys()
    assert "0 EAPOL-Key frames" in held["static WEP key in use"]


@pytest.mark.parametrize("policy", ["P8", "P12"])
def test_eap_tls_delivers_wep_keys(at_home: dict[str, Record], policy: str) -> None:
    """P8, P12: mutual EAP-TLS in the paper's 17 packets, keys by EAPOL-Key."""
    phases = {phase.name: phase for phase in body(at_home[policy]).phases}
    assert phases["dot1x"].packets == 17
    held = checks(at_home[policy])
    assert {"EAP method TLS", "mutual authentication", "keys delivered by EAPOL-Key",
            "frames open with the keys in force"} <= held.keys()


def test_all_layers_together(at_home: dict[str, Record]) -> None:
    """P12: 802.1X and IPsec each proven; its authentication times are Table 4's sum."""
    found = at_home["P12"]
    for authentication in body(found).authentications:
        phases = {phase.name: phase for phase in authentication.phases}
        assert phases["ike"].packets == 9
        parts = authentication.components_s
        assert parts["eap_home"] == pytest.approx(phases["dot1x"].duration_s)
        assert parts["ike_home"] == pytest.approx(phases["ike"].duration_s)
    parts = body(found).authentication_components_s
    assert body(found).authentication_time_s == pytest.approx(
        parts["eap_home"] + parts["ike_home"] + parts["mip_registration_home"])


def test_captures_stand_behind_each_number(measured: dict[str, Record], shared_qop: Qop) -> None:
    """Every record's captures are kept, compressed, under its name."""
    for found in measured.values():
        kept = shared_qop.folder / "measured" / "captures" / found.name
        assert {path.name for path in kept.iterdir()} == {
            f"{capture['file']}.gz" for capture in found.captures}


@pytest.fixture(scope="module")
def own(shared_qop: Qop) -> dict[str, Record]:
    """Today's policies, and two of a user's own, between two cells of a subnet: by policy."""
    (shared_qop.folder / "eap.yml").write_text(
        "id: WPA2-EAP\nname: 802.1X EAP-TLS, CCMP\nlayers:\n  link: {cipher: CCMP, keys: eap}\n"
        "  dot1x: {eap: TLS}\n")
    done, records = shared_qop.run(
        "own", *VIRTUAL, "--policies", "P1,M1,M3,M4,M8,M8-okc,M9", "--policy", "eap.yml",
        "--policy", str(PROJECT / "examples" / "wpa2-psk.yml"), "--scenarios", "E1",
        "--repetitions", "1", "--move-stream", "5")
    assert done.returncode == 0, done.stderr
    return {found.cell["policy"]: found for found in records.values()}


def test_users_own_policy(own: dict[str, Record]) -> None:
    """WPA2-PSK with CCMP, without touching any code: proven, and with its authentication time."""
    held = checks(own["WPA2-PSK"])
    assert {"CCMP on every data frame", "pairwise cipher negotiated",
            "four-way handshake", "frames open with the keys in force"} <= held.keys()
    assert "frames open with the keys in force" in checks(own["WPA2-EAP"])
    assert body(own["WPA2-PSK"]).authentication_time_s


def test_records_are_judged_anew_without_anybodys_files(
        own: dict[str, Record], shared_qop: Qop, tmp_path: Path) -> None:
    """EAP, PSK, SAE, OWE, TLS: from an archive alone, all that was measured comes out the same."""
    (shared_qop.folder / "eap.yml").rename(tmp_path / "eap.yml")
    packed = str(tmp_path / "own.tar.gz")
    assert shared_qop("export", "own", "--captures", "all", "-o", packed).returncode == 0
    done = shared_qop("verify", "--redo", packed)
    assert done.returncode == 0, done.stdout
    assert f"{len(own)} records judged anew say the same" in done.stdout


def test_every_authentication_is_whole(own: dict[str, Record]) -> None:
    """Keys are not taken from an earlier repetition: EAP and SAE run again after the warm-up."""
    packets = {policy: {phase.name: phase.packets for phase in body(found).phases}
               for policy, found in own.items()}
    assert packets["WPA2-EAP"]["dot1x"] >= 13 + 4  # EAP-TLS, and the four-way handshake
    # Commit and confirm both ways, in place of two frames of open system authentication.
    assert packets["M3"]["authentication"] == packets["M3"]["foreign_authentication"] == 4


def test_todays_links_are_proven(own: dict[str, Record]) -> None:
    """OWE, SAE, PEAP: their exchanges, what is offered, what is hidden, and frames that open."""
    for policy in ("M1", "M3", "M4"):
        assert {"key management offered", "frames open with the keys in force"} <= checks(
            own[policy]).keys()
    assert "OWE exchange" in checks(own["M1"])
    assert body(own["M1"]).authentication_sum[:2] == ["mip_registration_home", "owe_home"]
    assert {"SAE element", "SAE group", "beacons are protected"} <= checks(own["M3"]).keys()
    assert {"inner method MSCHAPV2", "identity is hidden"} <= checks(own["M4"]).keys()


def test_a_fast_transition_takes_four_frames(own: dict[str, Record]) -> None:
    """EAP-TLS 1.3 at home, and two frames of authentication and association each after the move."""
    assert {"fast transition", "TLS 1.3", "TLS group", "mutual authentication"} <= checks(
        own["M8"]).keys()
    moved = {phase.name.removeprefix("foreign_"): phase.packets for phase in body(own["M8"]).phases
             if phase.name.startswith("foreign_")}
    assert (moved["authentication"], moved["association"]) == (2, 2)
    assert not {"scan", "dot1x", "four_way_handshake", "registration"} & moved.keys()
    # In virtual time, where computing takes none: frames and their way alone.
    handoff_s = {policy: body(record).handoff_s or 0.0 for policy, record in own.items()}
    assert handoff_s["M8"] < handoff_s["M4"]


def test_cached_keys_spare_eap(own: dict[str, Record]) -> None:
    """OKC goes on with a handshake, FILS with two frames each way; neither says EAP again."""
    frames = {policy: {phase.name: phase.packets for phase in body(own[policy]).phases
                       if phase.name.startswith("foreign_")} for policy in ("M4", "M8-okc", "M9")}
    assert frames["M4"]["foreign_dot1x"] > frames["M8-okc"]["foreign_four_way_handshake"] == 4
    assert not {"foreign_dot1x", "foreign_four_way_handshake"} & frames["M9"].keys()
    assert "goes on with cached keys" in checks(own["M8-okc"])
    assert "FILS with cached keys" in checks(own["M9"])


def test_a_stream_over_the_move_tells_its_outage(own: dict[str, Record]) -> None:
    """Both ways, a gap of the stream's interval at least; what is not lost has arrived."""
    for found in own.values():
        ways = body(found).outages or {}
        assert set(ways) == {"up", "down"}
        # Of 200 ms before and after at 5 ms each, arrivals are some microseconds apart in time.
        assert all(way.gap_s > 0.004 and way.lost_packets >= 0 for way in ways.values())


@pytest.mark.parametrize(("fault", "policy", "reason"), [
    ("wrong-password", "P5", "Access-Reject"),
    ("wrong-ca", "P6", "unable to get local issuer certificate"),
    ("wrong-wep-key", "P2", "do not decrypt with the access point's WEP key"),
    ("unknown-peer-key", "P3", "AUTHENTICATION_FAILED"),
    ("radius-down", "P8", "the RADIUS server answered none of"),
])
def test_negative_controls_fail_for_the_right_reason(qop: Qop, fault: str, policy: str,
                                                     reason: str) -> None:
    """A spoilt secret gives a failed record that says why, exit status 1, and no numbers."""
    done, records = qop.run("fault", *VIRTUAL, "--policies", policy, "--fault", fault,
                            "--repetitions", "1")
    assert done.returncode == 1
    [found] = records.values()
    assert found.status == "failed"
    assert reason in found.reason
    if found.measured is not None:
        judged = body(found)
        assert judged.tcp is None and judged.udp is None and judged.authentication_time_s is None


def test_an_authentication_in_clear_fails_its_repetition(qop: Qop) -> None:
    """The second of four builds no tunnel; its ping is answered, and all others are protected.

    The repetition fails for that one, by its number, and gives no authentication time.
    """
    done, records = qop.run("fault", *VIRTUAL, "--policies", "P3", "--fault", "second-in-clear",
                            "--authentications", "4", "--repetitions", "1")
    assert done.returncode == 1
    [found] = records.values()
    assert found.status == "failed" and body(found).authentication_time_s is None
    failed = {check.check: check.detail for check in found.evidence if not check.ok}
    assert failed.keys() == {f"{name} (earlier authentications)" for name in (
        "ISAKMP packets", "IKE proposal", "ESP transforms in the kernel", "no clear inner packet")}
    assert all(re.findall(r"authentication \d", detail) == ["authentication 2"]
               for detail in failed.values())
    assert "not proven: ISAKMP packets (earlier authentications) (authentication 2: 0, 9 expected" \
        in found.reason
    # It got on, without the tunnel: the protection alone was missing.
    stamps = [found.raw["parts"][f"auth{number}"]["stamps"] for number in (1, 2, 3)]
    assert all("first_packet" in each for each in stamps)
    assert [len(each.components_s) for each in body(found).authentications] == [2, 1, 2, 2]


@pytest.fixture(scope="module")
def several(shared_qop: Qop) -> dict[str, Record]:
    """Repetitions that authenticate three times and move twice: their records by policy."""
    def measure() -> dict[str, Record]:
        done, records = shared_qop.run("several", *VIRTUAL, "--policies", "P2,P12", "--scenarios",
                                       "R1", "--authentications", "3", "--moves", "2",
                                       "--repetitions", "1")
        assert done.returncode == 0, done.stderr
        return {found.cell["policy"]: found for found in records.values()}

    return shared.once("several", measure)


@pytest.mark.parametrize(("policy", "check"), [
    ("P2", "static WEP key in use"), ("P12", "mutual authentication"),
    ("P12", "port is open after"), ("P12", "ESP transforms in the kernel")])
def test_every_authentication_is_a_sample(several: dict[str, Record], policy: str,
                                          check: str) -> None:
    """Three times from nothing, each with captures, evidence, components and phases of its own."""
    found = several[policy]
    held, measured = checks(found), body(found)
    assert held["authentications"] == (
        "3 of 3 took place, after 2 of them a move, 2 asked for")
    assert held["each authentication starts without earlier state"].startswith("before each of 3")
    assert re.findall(r"authentication \d", held[f"{check} (earlier authentications)"]) == [
        "authentication 1", "authentication 2"]
    home = [{name for name in each.components_s if name.endswith("_home")}
            for each in measured.authentications]
    assert len(home) == 3 and home[0] == home[1] == home[2]
    # Only the last two go on to the visited network.
    moved = [any(phase.name.startswith("foreign_") for phase in each.phases)
             for each in measured.authentications]
    assert moved == [False, True, True]
    assert len(measured.handoffs_s) == 2 and all(time_s > 0 for time_s in measured.handoffs_s)
    abroad = held["registered with the foreign agent (earlier authentications)"]
    assert re.findall(r"authentication \d", abroad) == ["authentication 2"]
    assert measured.authentication_time_s == pytest.approx(sum(
        measured.authentication_components_s[name] for name in measured.authentication_sum))
    files = {capture["file"] for capture in found.captures}
    assert {f"{part}-{point}.pcap" for part in ("auth1", "auth2", "auth")
            for point in ("air", "mn", "wire")} <= files


def test_every_move_is_a_sample_however_a_node_moves(qop: Qop) -> None:
    """Back to keys of an earlier visit, and to another subnet with a tunnel that follows: proven.

    A node that comes back scans first, so that what its home offers is in each capture.
    """
    done, records = qop.run("moves", *VIRTUAL, "--policies", "M8-pmksa,M10,M11", "--scenarios",
                            "E1,R3", "--authentications", "3", "--moves", "3",
                            "--repetitions", "1")
    assert done.returncode == 0, done.stderr
    assert len(records) == 6
    for found in records.values():
        assert len(body(found).handoffs_s) == 3
        held = checks(found)
        mobile_ip = "registered at home" if found.cell["policy"] == "M8-pmksa" else "no Mobile IP"
        for name in ("station is associated", "captures hold what was counted", mobile_ip):
            said = held[f"{name} (earlier authentications)"]
            assert re.findall(r"authentication \d", said) == [
                "authentication 1", "authentication 2"], name


def test_lab_is_a_shell_on_a_terminal(qop: Qop) -> None:
    """On a terminal `qop lab` is interactive: names hop, Ctrl-C ends a command, exit the lab."""
    here, there = pty.openpty()
    running = subprocess.Popen(qop.argv("lab", "--policy", "P1"), cwd=qop.folder, stdin=there,
                               stdout=there, stderr=there, start_new_session=True,
                               env={**os.environ, "PYTHONPATH": str(PROJECT), "TERM": "dumb"})
    os.close(there)

    def expect(text: str) -> None:
        seen, until = "", time.monotonic() + PATIENCE_S
        while text not in seen:
            ready, _, _ = select.select([here], [], [], until - time.monotonic())
            assert ready, f"{text!r} did not come: {seen!r}"
            seen += os.read(here, 65536).decode(errors="replace")

    def say(keys: bytes) -> None:
        time.sleep(0.5)  # on a busy machine, keys that come with the prompt may be lost
        os.write(here, keys)

    expect("[a2] ")
    say(b"ha-a\n")
    expect("[ha-a] ")
    say(b"ip -br addr show air0; sleep 1000\n")
    expect("10.1.0.1/24")
    say(b"\x03")
    expect("[ha-a] ")
    say(b"exit\n")
    expect("[a2] ")
    say(b"exit\n")
    assert running.wait(PATIENCE_S) == 0
    os.close(here)
    assert not qop.left_over()


def test_waiting_for_advertisements_is_selectable(qop: Qop) -> None:
    """With --detection advertisement nobody solicits: the node waits for the agent's next one."""
    done, records = qop.run("waiting", *VIRTUAL, "--policies", "P1", "--scenarios", "R1",
                            "--repetitions", "1", "--detection", "advertisement")
    assert done.returncode == 0, done.stderr
    [found] = records.values()
    phases = {phase.name: phase for phase in body(found).phases}
    assert phases["agent_discovery"].packets == phases["foreign_agent_discovery"].packets == 1


def test_coming_home_from_abroad_is_in_no_authentication_at_home(qop: Qop) -> None:
    """Whatever came before: no announcement of a return is in it, and its agent has no binding."""
    done, records = qop.run("home", *VIRTUAL, "--policies", "P1", "--scenarios", "N2,R1",
                            "--authentications", "2", "--repetitions", "2", "--captures", "all")
    assert done.returncode == 0, done.stderr
    assert len(records) == 4
    for name, found in records.items():
        capture = qop.folder / "home/captures" / name / "auth1-mn.pcap.gz"
        said = subprocess.run(["tshark", "-r", str(capture), "-Y", "arp.isgratuitous == 1"],
                              capture_output=True, text=True, check=True).stdout
        assert said == "", name
        assert found.raw["parts"]["auth1"]["left"]["tunnelled"] is False
        first, *_ = body(found).authentications
        assert sum(phase.packets for phase in first.phases if phase.name == "registration") == 2


def test_report_of_a_run(shared_qop: Qop, measured: dict[str, Record]) -> None:
    """`qop report` shows a row a policy, from the records alone."""
    done = shared_qop("report", "measured", "--format", "csv")
    assert done.returncode == 0, done.stderr
    for policy in MEASURED:
        assert any(policy in line.split(",") for line in done.stdout.splitlines())


def test_results_are_self_contained(shared_qop: Qop, measured: dict[str, Record]) -> None:
    """Nothing secret stays: no rendered keys or passwords in the results folder."""
    del measured
    kept = [path.name for path in Path(shared_qop.folder, "measured").rglob("*") if path.is_file()]
    assert not [name for name in kept if name.endswith((".pem", ".conf", "vars.json"))]
