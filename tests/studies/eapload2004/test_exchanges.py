"""Authentications are read from recorded captures, full and resumed, and nothing else passes."""

from __future__ import annotations

import json
import math
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import made_up_captures
from conftest import PROJECT
from measure.agent.errors import MeasureError
from measure.capture import pcap
from measure.load.generator import FIRST_PORT
from studies.eapload2004 import checks, judge, load
from studies.eapload2004.checks import LoadObservations, check_policy, run_checks
from studies.eapload2004.exchanges import (
    AirLosses,
    CapturedCertificate,
    Exchange,
    RoundTrip,
    add_keys,
    count_spare,
    parse_groups,
    parse_version,
    read_certificates,
    read_exchanges,
    read_signing_keys,
    read_supplicant_times,
)
from studies.eapload2004.measurements import OverloadRecord, ReferenceRecord
from studies.eapload2004.study import STUDY

RECORDED = PROJECT / "tests" / "recorded" / "eapload2004"
CELL = {"load": "5", "rtt": "120", "sessions": "full", "path": "direct", "identity": "imsi",
        "method": "tls", "server": "freeradius", "hss": "0", "tls": "1.2", "share": "0",
        "driver": "generator", "chain": "2", "key": "rsa-1024", "fragment": "1024",
        "place": "room", "group": "p-256"}


@pytest.mark.parametrize(("kind", "trips"), [("full", 5), ("resumed", 3)])
def test_authentications_behind_the_access_point(kind: str, trips: int) -> None:
    """Four, each with its round trips, accepted; certificates in the full ones only."""
    seen = read_exchanges(RECORDED / f"{kind}-ap.pcap")
    assert [len(exchange.trips) for exchange in seen] == [trips] * 4
    assert all(exchange.is_complete and not exchange.repeated for exchange in seen)
    assert {exchange.has_certificates for exchange in seen} == {kind == "full"}
    assert all(trip.took_s >= 0.12 for exchange in seen for trip in exchange.trips)


@pytest.mark.parametrize(("kind", "least_s"), [("full", 0.6), ("resumed", 0.36)])
def test_authentications_at_the_supplicant(kind: str, least_s: float) -> None:
    """Each takes its round trips and little more; four-way handshakes are no part of it."""
    seen = list(read_supplicant_times(RECORDED / f"{kind}-mn.pcap"))
    assert len(seen) == 4
    assert all(least_s < each.took_s < least_s + 0.1 for each in seen)
    assert all((each.client_s > 0.01) == (kind == "full") for each in seen)


def test_a_capture_that_ends_early_has_no_whole_authentication(tmp_path: Path) -> None:
    """An authentication whose last answer lacks is there, and not complete."""
    data = (RECORDED / "full-ap.pcap").read_bytes()
    frames = list(pcap.read_frames(RECORDED / "full-ap.pcap"))
    cut = tmp_path / "cut.pcap"
    cut.write_bytes(data[:-len(frames[-1].data) - 16])
    assert [exchange.is_complete for exchange in read_exchanges(cut)] == [True, True, True, False]


@pytest.mark.parametrize("place", [0, 1])
def test_request_sent_again_begins_no_authentication(tmp_path: Path, place: int) -> None:
    """Neither before its answer nor behind it, where the two have met on the way."""
    frames = [(frame.at_s, frame.data) for frame in pcap.read_frames(RECORDED / "full-ap.pcap")]
    last = len(frames) - 2  # the last request; its answer follows
    frames.insert(last + 1 + place, (frames[last + place][0], frames[last][1]))
    again = tmp_path / "again.pcap"
    made_up_captures.written(again, frames)
    seen = read_exchanges(again)
    assert [exchange.is_complete for exchange in seen] == [True] * 4
    assert [exchange.repeated for exchange in seen] == [0, 0, 0, 1]


@pytest.fixture
def observed() -> LoadObservations:
    """What a repetition of 4 authentications left, with 20 in the background that are made up."""
    behind = read_exchanges(RECORDED / "full-ap.pcap")
    gaps_s = [-0.2 * math.log(1 - (number * 7 % 20 + 0.5) / 20) for number in range(20)]
    rows = [{"due_s": sum(gaps_s[:number + 1]), "late_s": 1e-6, "response_s": 0.012,
             "station": 1, "socket": 1, "packets": 5, "retransmitted": 0, "resumed": False,
             "reason": ""} for number in range(20)]
    raw = {"clock": "virtual", "ping_s": [0.24, 0.12], "captures": [{"dropped": 0}],
           "charged": {"signatures": len(rows) + len(behind), "busy_s": 0.2701,
                       "charged_s": 0.27}}
    return LoadObservations(cell=CELL, rate_per_s=5.0, raw=raw, asked=4, seen=4, supplicant=behind,
                            server=behind, sample=[], rows=rows, ended_s=4.1,
                            air=AirLosses(frames=40, late=0))


def broken(observed: LoadObservations) -> set[str]:
    """The checks that do not hold."""
    return {check.check for check in run_checks(observed) if not check.ok}


def test_what_is_as_it_should_be_is_proven(observed: LoadObservations) -> None:
    """All eighteen checks hold."""
    assert broken(observed) == set()
    assert len(run_checks(observed)) == 18


@pytest.mark.parametrize("name", sorted(file.name for file in RECORDED.glob("*-ap.pcap")))
def test_no_packet_is_one_too_many(name: str) -> None:
    """By EAP-TLS, full, resumed and near, and by EAP-AKA: all packets are of use."""
    assert [exchange.spare for exchange in read_exchanges(RECORDED / name)]
    assert not any(exchange.spare for exchange in read_exchanges(RECORDED / name))


@pytest.mark.parametrize(("spoken", "spare"), [
    ([], 0), ([(1, 4, b"\x10" * 17), (2, 3, b"\x0d")], 2), ([(1, 13, b"\0")], 1),
    ([(2, 13, b"\0"), (1, 13, b"\0")], 2)])
def test_a_packet_too_many_is_counted(spoken: list[tuple[int, int, bytes]], spare: int) -> None:
    """Another method's offer and its refusal; packets without any content; but for the last."""
    made = Exchange()
    for code, kind, content in [(2, 1, b"name"), *spoken, (1, 13, b"\x20"), (2, 13, b"\0hello"),
                                (1, 13, b"\x40part"), (2, 13, b"\0"), (1, 13, b"\0part"),
                                (2, 13, b"\0")]:
        count_spare(made, bytes((code, 1, 0, 5 + len(content), kind)) + content)
    count_spare(made, b"\x03\x01\0\x04")
    assert made.spare == spare


@pytest.mark.parametrize(("check", "changes"), [
    ("authentications", {"asked": 5}),
    ("certificates", {"cell": {**CELL, "sessions": "resumed"}}),
    ("round trip", {"cell": {**CELL, "rtt": "118"}}),
    ("path", {"cell": {**CELL, "path": "proxied"}}),
    ("authority", {"cell": {**CELL, "path": "near"}}),
    ("policy", {"cell": {**CELL, "chain": "3"}}),
    ("policy", {"cell": {**CELL, "key": "rsa-2048"}}),
    ("policy", {"cell": {**CELL, "key": "p-256"}}),
    ("policy", {"cell": {**CELL, "tls": "1.3"}}),
    ("policy", {"cell": {**CELL, "fragment": "256"}}),
    ("policy", {"cell": {**CELL, "fragment": "1020"}}),
    ("policy", {"cell": {**CELL, "group": "x25519mlkem768"}}),
    ("identity", {"cell": {**CELL, "identity": "p-tmsi"}, "imsi": "mobile-node"}),
    ("challenges", {"cell": {**CELL, "method": "aka"}}),
    ("losses on the air", {"cell": {**CELL, "place": "outside"}}),
    ("losses on the air", {"air": AirLosses(frames=40, late=8)}),
    ("losses on the air", {"air": AirLosses(frames=0, late=0)}),
    ("offered load", {"ended_s": 40.0}),
    ("offered load", {"rate_per_s": 20.0}),
])
def test_a_check_fails_for_another_cell(observed: LoadObservations, check: str,
                                        changes: dict[str, Any]) -> None:
    """The same packets do not prove what they do not show."""
    assert check in broken(replace(observed, **changes))


@pytest.mark.parametrize(("check", "changes"), [
    ("no retransmission", {"retransmitted": 1}), ("background", {"reason": "Access-Reject"}),
    ("lateness", {"late_s": 0.02}), ("signatures", {"resumed": True}),
    ("background", {"socket": 0})])
def test_a_check_fails_for_a_row_of_the_journal(observed: LoadObservations, check: str,
                                                changes: dict[str, Any]) -> None:
    """One in the background that is not as it should be is enough."""
    rows = [{**row, **changes} if number == 3 else row
            for number, row in enumerate(observed.rows)]
    assert check in broken(replace(observed, rows=rows))


def test_one_packet_too_many_is_seen(observed: LoadObservations) -> None:
    """Of any authentication, in front or in the background."""
    spoilt = replace(observed.supplicant[2], spare=1)
    assert broken(replace(observed, sample=[spoilt])) >= {"packets"}


def test_work_that_nobody_asked_for_is_seen(observed: LoadObservations) -> None:
    """The processor was busy for longer than all demands add up to."""
    charged = {**observed.raw["charged"], "busy_s": 0.3}
    assert "demands" in broken(replace(observed, raw={**observed.raw, "charged": charged}))


def test_sessions_that_should_not_be_resumed_are_seen(observed: LoadObservations) -> None:
    """Neither side shows a certificate, where each is to show its own."""
    behind = read_exchanges(RECORDED / "resumed-ap.pcap")
    assert {"certificates", "identity", "authority"} <= broken(replace(
        observed, supplicant=behind, server=behind))


def test_a_share_of_the_background_resumes(observed: LoadObservations) -> None:
    """As many as were to, and those without certificates are the ones that did."""
    full, resumed = (read_exchanges(RECORDED / f"{kind}-ap.pcap") for kind in ("full", "resumed"))
    rows = [{**row, "resumed": number % 2 == 0, "socket": int(number >= 8)}
            for number, row in enumerate(observed.rows)]
    half = replace(observed, cell={**CELL, "sessions": "resumed"}, supplicant=resumed,
                   sample=[*full, *resumed], rows=rows, resumed_share=0.5)
    assert not broken(half) & {"certificates", "resumption", "policy"}
    assert "certificates" in broken(replace(half, sample=[*full[:3], *resumed, resumed[0]]))
    assert "certificates" in broken(replace(half, supplicant=full))
    assert "resumption" in broken(replace(half, resumed_share=1.0))
    assert "resumption" in broken(replace(half, resumed_share=0.1))


def test_a_lone_certificate_may_bring_its_root(observed: LoadObservations) -> None:
    """Which OpenSSL's clients add where there is nothing else; a chain of two is no lone one."""
    leaf, root = (CapturedCertificate(name, "root", "rsa-1024") for name in ("user", "root"))
    middle = CapturedCertificate("qop1", "root", "rsa-1024")
    assert [checks._chain_length(chain) for chain in (
        [leaf], [leaf, root], [leaf, middle], [leaf, middle, root])] == [1, 1, 2, 3]
    assert "policy" in broken(replace(observed, cell={**CELL, "chain": "1"}))


def test_the_version_is_the_one_the_server_chose() -> None:
    """TLS 1.3's hello says 1.2, and what was chosen among what is added."""
    def hello(*added: bytes) -> bytes:
        body = (b"\3\3" + bytes(32) + b"\2ab" + b"\x13\x01\0"
                + len(b"".join(added)).to_bytes(2, "big") + b"".join(added))
        message = b"\2" + len(body).to_bytes(3, "big") + body
        return b"\x16\3\3" + len(message).to_bytes(2, "big") + message
    other = b"\0\x17\0\0"
    assert parse_version(hello(other)) == "1.2"
    assert parse_version(hello(other, b"\0\x2b\0\2\3\4")) == "1.3"
    assert parse_version(hello(b"\0\x2b\0\2\3\2")) == "0x0302"
    assert parse_version(b"") == ""


@pytest.mark.parametrize(("during", "grown", "ok"), [
    (1.0, 1.0, True), (1.015, 1.025, True), (1.03, 1.0, False), (1.4, 1.0, False),
    (1.0, 1.04, False), (1.0, 0.96, False)])
def test_a_machine_that_changes_its_speed_is_told(observed: LoadObservations, during: float,
                                                  grown: float, ok: bool) -> None:
    """By a fixed piece of work, in any third of the load, or by what authentications take."""
    raw = {**observed.raw, "stamps": {"begin": 100.0, "end": 130.0}}
    # A stall of the machine is one in a hundred, and not its speed.
    yardstick = [(80 + number * 0.1, 300e-6 * (during if 300 <= number < 400 else 1.0)
                  * (40 if number % 100 == 50 else 1.0)) for number in range(700)]
    made = replace(observed, raw=raw, yardstick=yardstick, saturated_s=[0.005, 0.005 * grown])
    [check] = [each for each in run_checks(made) if each.check == "idle machine"]
    assert check.ok == ok
    assert check.detail.startswith("not an idle machine: ") is not ok
    assert "idle machine" in broken(replace(made, yardstick=yardstick[:150]))  # it broke off
    # Where a device takes nine tenths, the machine's speed counts a tenth; what one takes, all.
    on_device = replace(made, machine_share=0.1)
    assert ("idle machine" in broken(on_device)) == (during > 1.2 or abs(grown - 1) > 0.03)


def test_gaps_that_are_not_exponential_are_seen(observed: LoadObservations) -> None:
    """As many arrivals as there should be, but at equal distances."""
    rows = [{**observed.rows[0], "due_s": 0.2 * number} for number in range(200)]
    assert "gaps" in broken(replace(observed, rows=rows, ended_s=40.0))


def test_a_server_that_stood_still_is_seen(observed: LoadObservations) -> None:
    """One answer that took long at the server."""
    behind = read_exchanges(RECORDED / "full-ap.pcap")
    behind[2].trips[1].answered_s += 0.6
    assert "no stall" in broken(replace(observed, server=behind))


@pytest.mark.parametrize(("clock", "demand_s", "unsigned_s", "signed_s", "ok"), [
    ("real", 0.08, 0.4, 3.0, True), ("real", 0.08, 0.4, 4.0, False),
    ("real", 0.08, 0.6, 3.0, False), ("real", 0.0, 0.4, 0.6, False),
    ("virtual", 0.08, 0.4, 0.6, False)])
def test_a_slow_devices_queue_is_no_stall(observed: LoadObservations, clock: str, demand_s: float,
                                          unsigned_s: float, signed_s: float, ok: bool) -> None:
    """In real time, what it signs may wait for 45 that share it; what it does not sign may not."""
    def asked(unsigned_s: float, signed_s: float) -> Exchange:
        return Exchange(trips=[RoundTrip(1.0, 1.0 + took_s) for took_s in (unsigned_s, signed_s)])

    made = replace(observed, server=[asked(0.001, 0.07), asked(unsigned_s, signed_s)], sample=[],
                   raw={**observed.raw, "clock": clock,
                        "charged": {"charged_s": 4 * demand_s, "signatures": 4,
                                    "busy_s": 4 * demand_s}})
    [check] = [each for each in run_checks(made) if each.check == "no stall"]
    assert check.ok == ok


def test_an_overload_that_is_none_is_seen(observed: LoadObservations) -> None:
    """What was to be overloaded rested, or nobody waited longer; what it refused is no fault."""
    raw = {**observed.raw, "stamps": {"steady": 0.0, "measured": 0.27},
           "charged_under_load": {"busy_s": 0.27}}
    grown = OverloadRecord(growth=0.2, retransmitted=3, failed=1, refused=0)
    rows = [*observed.rows[1:], {**observed.rows[0], "retransmitted": 3, "reason": "no answer"}]
    overloaded = replace(observed, raw=raw, overload=grown, rows=rows)
    assert broken(overloaded) == set()
    assert {"no retransmission", "background"} <= broken(replace(overloaded, overload=None))
    still = grown.model_copy(update={"growth": 0.0})
    assert broken(replace(overloaded, overload=still)) == {"overloaded"}
    rested = {**raw, "charged_under_load": {"busy_s": 0.2}}
    assert broken(replace(overloaded, raw=rested)) == {"overloaded"}


def test_where_time_goes_is_told_by_who_got_answers(observed: LoadObservations,
                                                    tmp_path: Path) -> None:
    """Whoever an overloaded server left without its last answer has no time there."""
    seen, asked = list(read_supplicant_times(RECORDED / "full-mn.pcap")), {"steady_s": 0.0}
    for name, recorded in (("mn", "mn"), ("ap", "ap"), ("server", "ap")):
        shutil.copy(RECORDED / f"full-{recorded}.pcap", tmp_path / f"auth-{name}.pcap")
    stamps = dict.fromkeys(("begin", "steady"), 0.0) | dict.fromkeys(("measured", "end"), 10.0)
    observed = replace(observed, raw={**observed.raw, "seed": 1, "stamps": stamps})
    last = observed.supplicant[-1]
    cut = replace(last, is_accepted=False, trips=[
        *last.trips[:2], RoundTrip(last.trips[2].asked_s)])
    refused = replace(observed, supplicant=[*observed.supplicant, cut],
                      server=[cut, *observed.server])
    usual, those = (judge._measure(each, seen, {}, asked, tmp_path)
                    for each in (observed, refused))
    assert those.split == usual.split
    assert those.round_trips == usual.round_trips == 5


def test_a_driver_is_told_by_whole_authentications(observed: LoadObservations, tmp_path: Path,
                                                   monkeypatch: pytest.MonkeyPatch) -> None:
    """One that had no answer is none of those that were to be, and its time is nobody's."""
    (tmp_path / "auth-reference.pcap").touch()
    theirs = [*observed.server] * 5
    ours = [replace(exchange, port=FIRST_PORT) for exchange in theirs]
    cut = replace(ours[0], is_accepted=False, trips=[RoundTrip(1.0)])
    monkeypatch.setattr(judge, "read_exchanges", lambda _: [cut, *ours, *theirs])
    made = judge._read_reference(tmp_path, len(ours))
    assert made["ours"] == made["eapol_test"]
    monkeypatch.setattr(judge, "read_exchanges", lambda _: [cut, *ours[1:], *theirs])
    with pytest.raises(MeasureError, match="19 authentications by ours are in the capture, 20"):
        judge._read_reference(tmp_path, len(ours))


@pytest.mark.parametrize(("requests", "factor", "is_alike"), [
    (5.0, 1.0, True), (5.0, 0.98, True), (5.0, 0.96, False), (5.0, 1.04, False),
    (6.0, 1.0, False)])
def test_who_loads_the_server_otherwise_is_seen(observed: LoadObservations, requests: float,
                                                factor: float, *, is_alike: bool) -> None:
    """More requests, or more work for the server than 3 %, however much both drift together."""
    drifting = [0.0025 * (1 + 0.01 * part) for part in range(20)]
    ours = ReferenceRecord(authentications=40, requests=requests, parts_s=[
        factor * took_s * (1 + 0.002 * (-1) ** part) for part, took_s in enumerate(drifting)])
    theirs = ReferenceRecord(authentications=40, requests=5.0, parts_s=drifting)
    compared = replace(observed, cell={**CELL, "driver": "eapol_test"},
                       reference={"ours": ours, "eapol_test": theirs})
    assert ("as eapol_test" not in broken(compared)) is is_alike


#: The cell of a capture on Debian 13, whose FreeRADIUS makes EAP packets 4 bytes smaller.
POST_QUANTUM = {**CELL, "tls": "1.3", "key": "ml-dsa-65", "group": "x25519mlkem768"}


def read_post_quantum(*, has_keys: bool = True) -> list[Exchange]:
    """Return a captured authentication with ML-DSA-65, with its lines of the server's key log."""
    captured = read_exchanges(RECORDED / "ml-dsa-ap.pcap")
    if has_keys:
        add_keys(captured, (RECORDED / "ml-dsa-keys.txt").read_text().splitlines())
    return captured


def test_certificates_of_tls_1_3_are_decrypted() -> None:
    """The server's key log shows certificates and signatures; hellos show the group."""
    [exchange] = read_post_quantum()
    chains = [read_certificates(exchange, is_servers=side) for side in (True, False)]
    assert [[each.subject for each in chain] for chain in chains] == [
        ["server", "qop1"], ["mobile-node", "qop1"]]
    assert {each.key for chain in chains for each in chain} == {"ml-dsa-65"}
    assert read_signing_keys(exchange) == ["ml-dsa-65", "ml-dsa-65"]
    assert parse_groups(exchange.from_server) == {"x25519mlkem768"}


@pytest.mark.parametrize(("cell", "debian", "has_keys", "ok"), [
    ({}, "trixie", True, True),
    ({}, "bookworm", True, False), ({}, "trixie", False, False),
    ({"key": "rsa-2048"}, "trixie", True, False), ({"group": "x25519"}, "trixie", True, False),
    ({"chain": "1"}, "trixie", True, False), ({"fragment": "1028"}, "trixie", True, False),
    ({"server": "hostapd"}, "trixie", True, False)])
def test_post_quantum_certificates_are_proven(
        observed: LoadObservations, cell: dict[str, str], debian: str, has_keys: bool,
        ok: bool) -> None:
    """The check fails for another key, group, chain or fragment, and without keys."""
    captured = read_post_quantum(has_keys=has_keys)
    check = check_policy(replace(
        observed, cell={**POST_QUANTUM, **cell}, supplicant=captured,
        raw={**observed.raw, "debian": debian}))
    assert check.ok is ok, check.detail


def test_controls_are_named() -> None:
    """Each can be asked for, and says what it does."""
    assert {"no-cache", "half-rate", "server-stopped", "expired-certificate", "rogue-authority",
            "another-identity", "denied-identity", "no-cross-certificate", "wrong-key",
            "permanent-identity", "home-authority", "uncharged", "stale-sequence", "hss-down",
            "killed", "longer-chain", "even-gaps", "late-arrivals", "longer-way", "request-lost",
            "other-offer", "one-fewer", "late-sample", "around-the-proxy", "half-processor",
            "late-frames", "other-fragments", "classical-certificates",
            "classical-group"} == set(STUDY.faults)


def test_a_calibration_is_told_step_by_step(tmp_path: Path,
                                            monkeypatch: pytest.MonkeyPatch) -> None:
    """Generator and server in turn, of who was alone, and what one takes after each pause."""
    first, second = (Exchange(trips=[RoundTrip(at_s + 0.001, at_s + 0.003),
                                     RoundTrip(at_s + 0.004, at_s + 0.008)], is_accepted=True)
                     for at_s in (50.0, 50.5))
    while_saturated = Exchange(trips=[RoundTrip(60.0, 61.0)] * 2, is_accepted=True)
    monkeypatch.setattr(judge, "read_exchanges", lambda _: [first, second, while_saturated])
    (tmp_path / "auth-calibration.pcap").touch()
    pauses_s = load.PAUSES_S

    def journal(name: str, began_s: float, rows: list[tuple[float, float, int]]) -> None:
        attempts = [[due_s, 0.0, took_s, 0, socket, 5, 0, False, ""]
                    for due_s, took_s, socket in rows]
        (tmp_path / name).write_text(json.dumps({"began_s": began_s, "took_s": 1.0,
                                                 "attempts": attempts}))

    journal(load.BEFORE.alone, 50.0, [(0.0, 0.009, 0), (0.25, 0.009, 1), (0.5, 0.009, 0)])
    journal(load.BEFORE.saturated, 55.0, [(0.0, 1.0, 0), (0.0, 2.0, 1)])
    due_s, rested = 0.0, []
    for number in range(2 * len(pauses_s) + 1):
        due_s += pauses_s[number % len(pauses_s)]
        rested.append((due_s, 0.01 + pauses_s[number % len(pauses_s)] / 10, 0))
        due_s += rested[-1][1]
    journal(load.BEFORE.rested, 70.0, rested)
    made = judge._measure_saturation(tmp_path, {"customers": 2}, load.BEFORE, is_ordered=True)
    assert made is not None
    assert made.capacity_per_s == pytest.approx(1.0)
    assert made.steps_s == pytest.approx([0.001, 0.002, 0.001, 0.004])
    assert made.paused_s == pytest.approx(list(pauses_s))
    assert made.rests_s == pytest.approx([0.01 + pause_s / 10 for pause_s in pauses_s])
    # Two came to 1 a second, of which the device rested a tenth.
    on_device = judge._measure_saturation(tmp_path, {"customers": 2}, load.BEFORE,
                                          is_ordered=False,
                                          busy_s=1.8)
    assert on_device is not None
    assert on_device.to_samples()["saturated_demand_s"] == pytest.approx([0.9])
    assert made.to_samples()["saturated_demand_s"] == pytest.approx([1.0])
    without = judge._measure_saturation(tmp_path, {"customers": 2}, load.BEFORE,
                                        is_ordered=False)
    assert without == made.model_copy(update={"steps_s": []})
    assert judge._measure_saturation(tmp_path, {"customers": 2}, load.AFTER,
                                     is_ordered=True) is None
