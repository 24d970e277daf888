"""Tests of measure.explain and `qop explain`: recorded captures, made-up ones, and bad input."""

from __future__ import annotations

import csv
import gzip
import json
import os
import pickle
import re
import shlex
import struct
import subprocess
import threading
import tracemalloc
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import made_up_captures
from bench import explain_size
from conftest import PROJECT
from harness import cli, explanation
from harness.errors import UserError
from measure.agent.errors import MeasureError
from measure.capture import pcap, stream, tshark
from measure.explain import documents, negotiations
from measure.explain import frames as frames_module
from measure.explain.answer import explain_captures
from measure.explain.recordings import find_recordings
from recorded import MAC, TOOLS, WEP_KEY, path

ACCESS_POINT = "02:00:00:00:a0:00"
STATION, BSS, OTHER_BSS = (bytes.fromhex(f"0200000000{end}") for end in ("a2", "a0", "b0"))
BROADCAST = b"\xff" * 6


def explain(*captures: Path, **options: Any) -> dict[str, Any]:
    """The document of captures."""
    return explain_captures(captures, **options).to_document()


def run_command(*arguments: object) -> str:
    """The output of `qop explain`."""
    done = CliRunner().invoke(cli.qop, ["explain", *map(str, arguments)])
    if done.exception and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.stdout


# --- Recorded captures ---


def test_recorded_roam_is_explained() -> None:
    """P12-R1 authenticates twice by EAP-TLS; the roam's times follow from the frames' times."""
    first, roam = (each for each in explain(path("P12-R1", "auth-air"))["negotiations"]
                   if each["kind"] == "802.11")
    assert first["station"] == roam["station"] == MAC
    assert roam["previous"] == first["peer"] == ACCESS_POINT
    for each in (first, roam):
        assert each["outcome"] == "success"
        assert each["policy"]["eap"] == "EAP-TLS"
        assert all(size > 300 for size in each["policy"]["server_certificates_bytes"])
        assert [phase["name"] for phase in each["phases"]][:3] == ["scan", "authentication",
                                                                   "association"]
        assert sum(each["waited_for_s"].values()) == pytest.approx(each["duration_s"], abs=1e-5)
    times = roam["roam_times_s"]
    assert 0 < times["reassociation"] < roam["duration_s"]
    assert first["roam_times_s"] is None


def test_times_are_those_of_tshark() -> None:
    """Start, end and the longest gap equal the times of the frames that are named."""
    capture = path("P8", "auth-air")
    (each,) = (each for each in explain(capture)["negotiations"] if each["kind"] == "802.11")
    done = subprocess.run(["tshark", "-r", capture, "-T", "fields", "-e", "frame.time_epoch"],
                          capture_output=True, text=True, check=True)
    times = [float(line) for line in done.stdout.split()]
    start, end = (times[each[name]["frame"] - 1] for name in ("start", "end"))
    assert each["duration_s"] == pytest.approx(end - start, abs=1e-5)
    gap = each["gaps"][0]
    before, after = (times[frame["frame"] - 1] for frame in gap["frames"])
    assert gap["duration_s"] == pytest.approx(after - before, abs=1e-5)


@pytest.mark.parametrize(("recording", "capture", "kind"), [
    ("P12", "auth-mn", "802.1X on a wire"), ("P12", "auth-wire", "RADIUS"),
    ("P12", "auth-wire", "IKE"), ("P12", "auth-mn", "Mobile IP")])
def test_negotiations_of_ethernet_captures(recording: str, capture: str, kind: str) -> None:
    """At the station's interface EAPOL, behind the access point RADIUS, above both IKE."""
    found = [each for each in explain(path(recording, capture))["negotiations"]
             if each["kind"] == kind]
    assert found
    assert all(each["outcome"] == "success" for each in found)


def test_radius_waits_for_the_server() -> None:
    """Behind the access point, the server's share is separate from the access point's."""
    for each in explain(path("P12", "auth-wire"))["negotiations"]:
        if each["kind"] == "RADIUS":
            assert each["station"] == MAC
            assert set(each["waited_for_s"]) <= {"server", "access point"}


def test_frames_in_clear_are_seen() -> None:
    """P5 has 802.1X over an open link: nothing was agreed, so no statement is made."""
    (each,) = (each for each in explain(path("P5", "auth-air"))["negotiations"]
               if each["kind"] == "802.11")
    assert each["policy"]["eap"] == "EAP-MD5"
    assert each["policy"]["in_force"] == "cannot tell"


# --- Made-up captures, where the answer is known to the microsecond ---


def management(subtype: int, source: bytes, target: bytes, bss: bytes, body: bytes) -> bytes:
    """A management frame without a radio's header."""
    return struct.pack("<HH", subtype << 4, 0) + target + source + bss + b"\0\0" + body


def authentication(bss: bytes, number: int, algorithm: int = 0, status: int = 0) -> bytes:
    """An authentication frame: from the station if its number is odd."""
    ends = (STATION, bss) if number % 2 else (bss, STATION)
    return management(0x0B, *ends, bss, struct.pack("<HHH", algorithm, number, status))


def association(bss: bytes, *, response: bool = False, again: bool = False,
                status: int = 0) -> bytes:
    """An association or reassociation frame for the SSID `net`."""
    ssid = b"\0\3net\1\1\x82"
    if response:
        return management(3 if again else 1, bss, STATION, bss,
                          struct.pack("<HHH", 0, status, 1) + b"\1\1\x82")
    return management(2 if again else 0, STATION, bss, bss,
                      struct.pack("<HH", 0, 1) + (BSS if again else b"") + ssid)


def data(bss: bytes, *, protected: bool = False) -> bytes:
    """A data frame of the station's, in clear or with the header of CCMP."""
    head = struct.pack("<HH", 0x4108 if protected else 0x0108, 0) + bss + STATION + bss + b"\0\0"
    return head + (b"\1\0\0\x20\0\0\0\0" if protected else b"") + b"\xaa\xaa\3\0\0\0\x88\xb5" * 4


def write(file: Path, frames: Iterable[tuple[float, bytes]]) -> Path:
    """A capture of 802.11 frames."""
    return made_up_captures.written(file, frames, made_up_captures.IEEE802_11)


def joining(bss: bytes, at_s: float, *, again: bool = False,
            algorithm: int = 0) -> list[tuple[float, bytes]]:
    """Authentication and association, a millisecond apart."""
    return [(at_s, authentication(bss, 1, algorithm)),
            (at_s + 0.001, authentication(bss, 2, algorithm)),
            (at_s + 0.002, association(bss, again=again)),
            (at_s + 0.003, association(bss, response=True, again=again))]


def probe(at_s: float) -> tuple[float, bytes]:
    """A probe request of the station's."""
    return at_s, management(4, STATION, BROADCAST, BROADCAST, b"\0\0\1\1\x82")


def test_roam_times_by_the_four_definitions(tmp_path: Path) -> None:
    """Each definition has its own begin and end."""
    frames = [*joining(BSS, 10.0), (11.0, data(BSS)), (11.5, data(BSS)), probe(11.6), probe(11.7),
              *joining(OTHER_BSS, 12.0, again=True, algorithm=2), (12.5, data(OTHER_BSS))]
    _, roam = explain(write(tmp_path / "roam.pcap", frames))["negotiations"]
    assert roam["roam_times_s"] == {"reassociation": 0.003, "keys": 0.003, "handoff": 0.403,
                                    "data_gap": 1.0}
    assert roam["phases"][0] == {"name": "scan", "start_s": -0.4, "duration_s": 0.1, "packets": 2}


def test_roam_time_that_the_capture_does_not_decide_is_none(tmp_path: Path) -> None:
    """Without probe requests and data frames two definitions have no value."""
    frames = [*joining(BSS, 10.0), *joining(OTHER_BSS, 12.0, again=True, algorithm=2)]
    _, roam = explain(write(tmp_path / "roam.pcap", frames))["negotiations"]
    assert roam["roam_times_s"] == {"reassociation": 0.003, "keys": 0.003, "handoff": None,
                                    "data_gap": None}
    assert roam["roam_times_missing"] == {
        "handoff": "no probe request before the roam",
        "data_gap": "no data frame with the old access point and no data frame with the new access "
                    "point"}
    assert "roam time, data_gap: cannot tell" in run_command(tmp_path / "roam.pcap")


# --- Fast transition over the DS ---

OVER_DS = TOOLS / "over_ds"
(OVER_DS_AIR,) = OVER_DS.glob("captures/*/auth-air.pcap.gz")


def over_ds_keys() -> list[str]:
    """The temporal keys of the recorded roam, for tshark."""
    (file,) = OVER_DS.glob("files/*/raw.json.gz")
    return [f"tk:{key}" for key in json.loads(gzip.decompress(file.read_bytes()))["link_keys"]]


def times_by_tshark(keys: Iterable[str], display_filter: str) -> list[float]:
    """The times of frames that a display filter of tshark selects, with temporal keys."""
    options = [word for key in keys for word in
               ("-o", f'uat:80211_keys:"tk","{key.removeprefix("tk:")}"')]
    done = subprocess.run(["tshark", "-o", "wlan.enable_decryption:TRUE", *options, "-r",
                           OVER_DS_AIR, "-Y", display_filter, "-T", "fields", "-e",
                           "frame.time_epoch"], capture_output=True, text=True, check=True)
    return [float(line) for line in done.stdout.split()]


def test_recorded_roam_over_the_ds_begins_at_the_request() -> None:
    """Its times are those of the frames that tshark's display filters select."""
    (roam,) = explain(OVER_DS_AIR, keys=over_ds_keys())["negotiations"]
    station_data = f"wlan.fc.type == 2 && (wlan.ta == {MAC} || wlan.ra == {MAC}) && wlan.bssid =="
    (request,), (answer,), (response,), old, new = (
        times_by_tshark(over_ds_keys(), display_filter) for display_filter in (
            "wlan.fixed.category_code == 6 && wlan.fixed.action_code == 1",
            "wlan.fixed.category_code == 6 && wlan.fixed.action_code == 2",
            "wlan.fc.type_subtype == 3", f"{station_data} {ACCESS_POINT}",
            f"{station_data} 02:00:00:00:c0:00"))
    assert (roam["previous"], roam["peer"]) == (ACCESS_POINT, "02:00:00:00:c0:00")
    assert (roam["start"]["time_s"], roam["outcome"], roam["reason"]) == (request, "success", "")
    assert roam["duration_s"] == pytest.approx(response - request, abs=1e-3)
    assert response - request > 2e-3
    assert roam["roam_times_s"] == {
        "reassociation": pytest.approx(response - request, abs=1e-3),
        "keys": pytest.approx(response - request, abs=1e-3), "handoff": None,
        "data_gap": pytest.approx(new[0] - old[-1], abs=1e-3)}
    assert times_by_tshark((), "wlan.fc.type_subtype == 4") == []
    assert roam["roam_times_missing"] == {"handoff": "no probe request before the roam"}
    assert roam["phases"][0] == {"name": "ft_over_ds", "start_s": 0.0, "packets": 2,
                                 "duration_s": pytest.approx(answer - request, abs=1e-5)}
    assert "authentication" not in [phase["name"] for phase in roam["phases"]]


def test_folder_of_a_roam_over_the_ds_names_its_phase(tmp_path: Path) -> None:
    """The keys of the results folder decrypt the request."""
    page = tmp_path / "page.html"
    text = " ".join(run_command("--html", page, OVER_DS).split())
    assert ">FT over the DS</span></th>" in page.read_text()
    by_whom = f"FT over the DS: request/response by the current access point {ACCESS_POINT}"
    assert by_whom in text and by_whom in page.read_text()
    assert "roam time, handoff: cannot tell, no probe request before the roam" in text


def test_roam_over_the_ds_without_keys_says_what_they_would_show() -> None:
    """With PMF the request is encrypted, so two times have no begin, and the start is missing."""
    (roam,) = explain(OVER_DS_AIR)["negotiations"]
    missing = roam["roam_times_missing"]
    assert [name for name, time_s in roam["roam_times_s"].items() if time_s is None] == [*missing]
    assert set(missing) == {"reassociation", "keys", "handoff"}
    assert all("encrypted Action frame" in missing[name] for name in ("reassociation", "keys"))
    assert not roam["is_from_start"]


def over_ds(at_s: float, *, status: int = 0) -> list[tuple[float, bytes]]:
    """FT request by the access point in use for the next one, and its response, 1 ms later."""
    ends = STATION + OTHER_BSS
    return [(at_s, management(0x0D, STATION, BSS, BSS, b"\6\1" + ends)),
            (at_s + 0.001, management(0x0D, BSS, STATION, BSS,
                                      b"\6\2" + ends + struct.pack("<H", status)))]


def test_roam_times_over_the_ds_by_the_four_definitions(tmp_path: Path) -> None:
    """The old access point has data until the station leaves it, after the request."""
    frames = [*joining(BSS, 10.0), (11.0, data(BSS)), probe(11.6), *over_ds(12.0),
              (12.01, data(BSS)), *joining(OTHER_BSS, 12.018, again=True)[2:],
              (12.03, data(BSS)), (12.5, data(OTHER_BSS))]
    _, roam = explain(write(tmp_path / "roam.pcap", frames))["negotiations"]
    assert roam["roam_times_s"] == {"reassociation": 0.021, "keys": 0.021, "handoff": 0.421,
                                    "data_gap": 0.49}
    assert roam["roam_times_missing"] == {}


def test_capture_that_begins_with_a_request_over_the_ds_is_a_roam(tmp_path: Path) -> None:
    """The request itself says which access point is in use."""
    frames = [*over_ds(12.0), *joining(OTHER_BSS, 12.0, again=True)[2:]]
    (roam,) = explain(write(tmp_path / "roam.pcap", sorted(frames)))["negotiations"]
    assert roam["previous"] == "02:00:00:00:00:a0"
    assert roam["roam_times_s"]["keys"] == 0.003


def test_refused_request_over_the_ds_and_then_over_the_air_is_one_roam(tmp_path: Path) -> None:
    """Both phases show, the refusal is named, and the roam begins at the first request."""
    frames = [*joining(BSS, 10.0), (11.0, data(BSS)), *over_ds(12.0, status=53),
              *joining(OTHER_BSS, 12.1, again=True, algorithm=2)]
    _, roam = explain(write(tmp_path / "roam.pcap", frames))["negotiations"]
    assert [(each["name"], each["start_s"], each["packets"]) for each in roam["phases"]] == [
        ("ft_over_ds", 0.0, 2), ("authentication", 0.1, 2), ("association", 0.102, 2)]
    assert roam["roam_times_s"]["reassociation"] == 0.103
    assert [each["cause"] for each in roam["findings"]] == ["ft-key-missing"]


def test_other_action_frames_begin_no_roam(tmp_path: Path) -> None:
    """Neither another category nor a confirm of fast transition is a request."""
    frames = [*joining(BSS, 10.0), *((12.0, management(
        0x0D, STATION, BSS, BSS, head + STATION + OTHER_BSS)) for head in (b"\5\1", b"\6\3"))]
    assert len(explain(write(tmp_path / "a.pcap", frames))["negotiations"]) == 1


def test_waits_are_those_of_the_sender_of_the_next_message(tmp_path: Path) -> None:
    """A gap before the access point's message was a wait for the access point."""
    frames = [(1.0, authentication(BSS, 1)), (1.25, authentication(BSS, 2)),
              (1.35, association(BSS)), (1.36, association(BSS, response=True))]
    (each,) = explain(write(tmp_path / "a.pcap", frames))["negotiations"]
    assert each["waited_for_s"] == {"access point": 0.26, "station": 0.1}
    assert [frame["frame"] for frame in each["gaps"][0]["frames"]] == [1, 2]
    assert each["gaps"][0]["waited_for"] == "access point"


def test_message_sent_again_is_no_wait_for_its_sender(tmp_path: Path) -> None:
    """The station asks twice: the first second is until it asks again."""
    frames = [(1.0, authentication(BSS, 1)), (2.0, authentication(BSS, 1)),
              (2.01, authentication(BSS, 2))]
    (each,) = explain(write(tmp_path / "a.pcap", frames))["negotiations"]
    assert each["waited_for_s"] == {"sent again": 1.0, "access point": 0.01}
    (again,) = each["repeated"]
    assert (again["first_frame"]["frame"], again["frame"]["frame"], again["after_s"]) == (1, 2, 1.0)
    assert not again["is_link"]


def test_refused_association_is_a_failure_with_its_frame(tmp_path: Path) -> None:
    """Status 17: the access point is full."""
    frames = [*joining(BSS, 1.0)[:3], (1.003, association(BSS, response=True, status=17))]
    (each,) = explain(write(tmp_path / "a.pcap", frames))["negotiations"]
    assert each["outcome"] == "failure"
    assert each["reason"] == "association response with status 17"
    assert each["reason_frame"] == {"capture": "a.pcap", "frame": 4}
    assert "association response with status 17 in frame 4" in run_command(tmp_path / "a.pcap")


def test_policy_is_in_force_only_if_every_frame_is_protected(tmp_path: Path) -> None:
    """One data frame in clear among protected ones is enough to say no."""
    protected = [(2.0 + index / 10, data(BSS, protected=True)) for index in range(3)]
    for more, expected in ([], "yes"), ([(3.0, data(BSS))], "no"):
        frames = [*joining(BSS, 1.0), *protected, *more]
        (each,) = explain(write(tmp_path / "a.pcap", frames))["negotiations"]
        assert each["policy"]["in_force"] == expected, each["policy"]


def test_login_over_tcp_is_seen_to_its_end() -> None:
    """PKINIT does not fit into UDP. Its request and reply have two segments of TCP each."""
    (each,) = explain(TOOLS / "pkinit" / "client.pcap")["negotiations"]
    assert each["messages"] == {"Kerberos AS-REQ": 2, "Kerberos KRB-ERROR": 1,
                                "Kerberos AS-REP": 1}
    assert (each["start"]["frame"], each["end"]["frame"]) == (1, 12)
    assert each["duration_s"] == pytest.approx(0.014576, abs=1e-6)
    assert each["repeated"] == each["findings"] == []


@pytest.mark.parametrize(("has_ticket", "logins", "code", "outcome", "causes"), [
    *((False, 1, code, "cannot tell", []) for code in (25, 52, 68, 90, 91)),
    (False, 1, 6, "failure", []), (False, 1, 37, "failure", ["kerberos-clock-skew"]),
    (True, 0, 7, "success", []), (True, 1, 6, "failure", [])])
def test_login_that_ends_with_an_error(
        has_ticket: bool, logins: int, code: int, outcome: str, causes: list[str],
        tmp_path: Path) -> None:
    """After some errors a client goes on. An error after the ticket is none of the login."""
    before = [*pcap.read_frames(TOOLS / "pkinit" / "client.pcap")]
    first, error = before[:2]
    field = b"\xa6\x03\x02\x01"
    assert error.data.count(field + b"\x19") == 1
    changed = replace(error, data=error.data.replace(field + b"\x19", field + bytes([code])))
    after = [replace(frame, at_s=before[-1].at_s + 0.1) for frame in (*[first] * logins, changed)]
    pcap.write_frames(tmp_path / "a.pcap", [*before * has_ticket, *after])
    (each,) = explain(tmp_path / "a.pcap")["negotiations"]
    assert (each["outcome"], [finding["cause"] for finding in each["findings"]]) == (
        outcome, causes)
    assert (each["reason"] == f"Kerberos KRB-ERROR with code {code}") == (outcome == "failure")


# --- Formats, keys and output ---


def rename(document: Any, name: str, other: str) -> Any:
    """Return a document in which a capture has another name."""
    return json.loads(json.dumps(document).replace(f'"{name}"', f'"{other}"'))


def test_compressed_capture_and_pcapng_are_read(tmp_path: Path) -> None:
    """Both give the same answer as the plain capture."""
    plain = path("P8", "auth-air")
    packed = tmp_path / "a.pcap.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    newer = tmp_path / "a.pcapng"
    subprocess.run(["editcap", "-F", "pcapng", plain, newer], check=True, capture_output=True)
    expected = explain(plain)["negotiations"]
    for file in packed, newer:
        assert rename(explain(file)["negotiations"], file.name, plain.name) == expected


def test_numbers_go_on_where_tshark_begins_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """tshark counts from 1 again after each session, here of 25 frames."""
    capture = path("P12-R1", "auth-air")
    expected = [(each["start"], each["end"]["frame"]) for each in explain(capture)["negotiations"]]
    monkeypatch.setattr(stream, "SESSION_FRAMES", 25)
    monkeypatch.setattr(frames_module, "SESSION_FRAMES", 25)
    assert [(each["start"], each["end"]["frame"]) for each
            in explain(capture)["negotiations"]] == expected
    assert expected[1][0]["frame"] > 4 * 25


@pytest.mark.parametrize("captures", [["auth-air"], ["auth-air", "auth-mn", "auth-wire"]],
                         ids=["one", "merged"])
def test_messages_that_are_compressed_give_the_same_answer(
        captures: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Here they are as soon as two frames do not use them."""
    files = [path("P12-R1", name) for name in captures]
    expected = explain(*files)
    packed = []
    pack = negotiations.zlib.compress
    monkeypatch.setattr(negotiations.zlib, "compress",
                        lambda data, level: (packed.append(data), pack(data, level))[1])
    monkeypatch.setattr(negotiations, "_PACK_FRAMES", 1)
    monkeypatch.setattr(negotiations, "_MERGED_S", 0.01)
    assert explain(*files) == expected
    assert sum(data.startswith(pickle.PROTO) for data in packed) >= 2


def test_memory_does_not_grow_with_negotiations(tmp_path: Path,
                                                monkeypatch: pytest.MonkeyPatch) -> None:
    """What 60 more copies of two negotiations take; kept as they are, it would be 4 MB."""
    monkeypatch.setattr(negotiations, "_PACK_FRAMES", 500)
    monkeypatch.setattr(tshark, "_parse_known_columns", tshark._parse_columns)  # fills slowly
    peaks = []
    for copies in 60, 120:
        file = tmp_path / f"{copies}.pcap"
        explain_size.make_capture(file, copies * path("P12-R1", "auth-air").stat().st_size,
                                  traffic=0)
        tracemalloc.start()
        answer = explain_captures([file])
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert len(answer.negotiations) >= 2 * copies
    assert peaks[1] - peaks[0] < 1_000_000


def test_stored_documents_are_in_order_of_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """In memory and on disk. Those of the same time stay in the order in which they came."""
    for size in 1_000_000, 10:
        monkeypatch.setattr(documents, "_MEMORY_BYTES", size)
        stored = documents.StoredDocuments()
        assert not stored
        for time_s, name in (2.0, "b"), (3.0, "d"), (2.0, "c"), (1.0, "a"):
            stored.add_document({"name": name, "values": [1.5, None]}, time_s)
        assert "".join(each["name"] for each in stored) == "abcd"
        assert stored[1:3] == [{"name": name, "values": [1.5, None]} for name in "bc"]
        stored.add_document({"name": "e"}, 9.0)
        assert stored[-1] == {"name": "e"}


@pytest.mark.parametrize("buffering", [0, 4096])
def test_full_disk_is_one_line(buffering: int) -> None:
    """The line says where, and what to do. Nothing is written again when the file is closed."""
    full = open("/dev/full", "w+b", buffering)  # noqa: SIM115
    stored = documents.StoredDocuments(full)
    with pytest.raises(MeasureError, match=r"cannot be kept \(No space left .*TMPDIR"):
        stored.add_document({}, 1.0)
    assert full.closed


def test_key_that_fits_no_handshake_is_told() -> None:
    """The times are there all the same."""
    capture = TOOLS / "lecturehall" / "hall-ap.pcap"
    document = explain(capture, keys=["wpa-pwd:wrong-passphrase:net"])
    assert any("none of the keys fits" in note for note in document["notes"])
    assert document["negotiations"]


@pytest.mark.parametrize(("arguments", "message"), [
    (["--psk", "net:short", "x.pcap"], "--psk net:...: an SSID has 1 to 32 bytes"),
    (["--psk", "no name, but net:short"[:16], "x.pcap"], "--psk: an SSID has 1 to 32 bytes"),
    (["--psk", f"net:{'ü' * 40}", "x.pcap"], "--psk net:...: an SSID has"),
    (["--psk", f"{'n' * 33}:long enough", "x.pcap"], "a passphrase 8 to 63; write SSID:PASS"),
    (["--json", "--csv", "x.pcap"], "--json: goes without --csv"),
    (["--pmk", "0123", "x.pcap"], "--pmk: a pairwise master key has 64 or 96 hexadecimal digits"),
    (["x.pcap"], "x.pcap: cannot be read (No such file or directory); give a capture"),
    (["--tls-keys", "no.keys", str(path("P8", "auth-mn"))], "no.keys: cannot be read")])
def test_wrong_option_is_one_line_that_repeats_no_secret(arguments: list[str],
                                                         message: str) -> None:
    """A refused passphrase is not printed."""
    with pytest.raises(UserError) as caught:
        run_command(*arguments)
    assert message in str(caught.value)
    assert "net:short" not in str(caught.value)
    assert "no name" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_outputs_agree(tmp_path: Path) -> None:
    """JSON has the version, CSV a line each, the page the same names; text fits 80 columns."""
    capture = path("P12-R1", "auth-air")
    document = json.loads(run_command("--json", capture))
    assert document["version"] == 2
    rows = list(csv.DictReader(run_command("--csv", capture).splitlines()))
    assert [(row["version"], row["capture"], row["frame"], row["end_frame"]) for row in rows] == [
        ("2", "auth-air.pcap", str(each["start"]["frame"]), str(each["end"]["frame"]))
        for each in document["negotiations"]]
    text = run_command("--html", tmp_path / "page.html", capture)
    assert max(map(len, text.splitlines())) <= 80
    assert " ".join(text.split()).startswith(document["answer"])
    page = (tmp_path / "page.html").read_text()
    assert all(each["station"] in page for each in document["negotiations"])


@pytest.mark.parametrize("capture", [path("P12-R1", "auth-air"), path("P1", "auth-wire")],
                         ids=["several", "none"])
def test_outputs_in_parts_are_whole(capture: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """JSON is as if printed at once, and CSV has one header."""
    text = run_command("--json", capture)
    assert text == json.dumps(json.loads(text), indent=1) + "\n"
    expected = run_command("--csv", capture)
    monkeypatch.setattr(explanation, "_ROWS", 1)
    assert run_command("--csv", capture) == expected
    assert len(expected.splitlines()) == 1 + len(json.loads(text)["negotiations"])


def test_wireshark_profile_filters_the_frames_of_each_finding(tmp_path: Path) -> None:
    """Its filter selects the frames that the finding names; the keys are in the profile."""
    capture = path("P12-R1", "auth-air")
    document = json.loads(run_command("--json", "--pmk", "ab" * 32, "--wireshark", tmp_path,
                                      capture))
    profile = tmp_path / "profiles" / "auth-air.pcap"
    buttons = [line.split('","') for line in
               (profile / "dfilter_buttons").read_text().splitlines()]
    findings = [(f"{number} {finding['cause']}", finding["filters"][0]["filter"],
                 [frame["frame"] for frame in finding["frames"]])
                for number, each in enumerate(document["negotiations"], 1)
                for finding in each["findings"]]
    assert findings
    assert [(button[1], button[2]) for button in buttons] == [each[:2] for each in findings]
    done = subprocess.run(["tshark", "-r", capture, "-Y", findings[0][1], "-T", "fields", "-e",
                           "frame.number"], capture_output=True, text=True, check=True)
    assert [int(line) for line in done.stdout.split()] == findings[0][2]
    assert (profile / "80211_keys").read_text() == f'"wpa-psk","{"ab" * 32}"\n'


def test_wireshark_profile_has_the_keys_of_its_own_repetition(tmp_path: Path) -> None:
    """802.11 keys of one repetition are in no other's profile; TLS is decrypted by its profile."""
    folder, profiles = TOOLS / "results", tmp_path / "profiles"
    run_command("--wireshark", tmp_path, folder)
    keyed = {each.name: (each / "80211_keys").read_text() for each in profiles.iterdir()}
    assert {name for name, keys in keyed.items() if keys} == {
        name for name in keyed if name in {"auth-air.pcap.gz", "auth-radius.pcap.gz"}
        or name.startswith("M13-")}
    (capture,) = folder.glob("captures/M13-*/auth-air.pcap.gz")
    for options, count in (([], 0), (["-C", "auth-air.pcap.gz"], 4)):
        done = subprocess.run(["tshark", *options, "-r", capture, "-Y", "tls.handshake.type == 20"],
                              capture_output=True, text=True, check=True,
                              env=os.environ | {"WIRESHARK_CONFIG_DIR": str(tmp_path)})
        assert len(done.stdout.splitlines()) == count


def test_wireshark_profile_has_the_key_files_that_were_given(tmp_path: Path,
                                                             monkeypatch: pytest.MonkeyPatch
                                                             ) -> None:
    """Wireshark finds them from any working folder."""
    monkeypatch.chdir(tmp_path)
    for name in ("tls.keys", "wg.keys"):
        Path(name).touch()
    run_command("--tls-keys", "tls.keys", "--wireguard-keys", "wg.keys", "--wireshark", "w",
                path("P8", "auth-air"))
    lines = Path("w/profiles/auth-air.pcap/preferences").read_text().splitlines()
    assert {f"tls.keylog_file: {tmp_path}/tls.keys",
            f"wg.keylog_file: {tmp_path}/wg.keys"} <= set(lines)


def test_name_of_a_network_may_be_any_bytes() -> None:
    """An SSID is no text (IEEE 802.11-2020, 9.4.2.2)."""
    assert run_command("--psk", os.fsdecode(b"\xffnet:password"), path("P8", "auth-air"))


def test_progress_reaches_the_end_of_each_capture() -> None:
    """The share grows to 1, for both passes over several captures."""
    shares: dict[str, list[float]] = {}
    files = [path("P8", f"auth-{point}") for point in ("air", "wire")]
    explain(*files, report=lambda name, share: shares.setdefault(name, []).append(share))
    assert set(shares) == {file.name for file in files}
    for each in shares.values():
        assert each[-1] == 1.0
        assert all(0 <= share <= 1 for share in each)


def fields_of(document: Any) -> Iterable[str]:
    """The names of all fields of a document, but those of counts by name."""
    if isinstance(document, list):
        for each in document:
            yield from fields_of(each)
    elif isinstance(document, dict):
        for name, value in document.items():
            yield name
            if name not in {"links", "messages", "waited_for_s", "roam_times_s",
                            "roam_times_missing", "alone"}:
                yield from fields_of(value)


def test_every_field_of_the_document_is_described() -> None:
    """docs/explain.md names each field of the document and each column of the table."""
    capture = path("P12-R1", "auth-air")
    text = (PROJECT / "docs" / "explain.md").read_text()
    section = text[text.index("## The document"):text.index("## Bad captures")]
    described = set(re.findall(r"`([a-z_]+)`", section))
    assert set(fields_of(explain(capture))) - described == set()


def test_frames_of_several_captures_are_named_with_the_capture(tmp_path: Path) -> None:
    """Frame 1 is in both files: text, document and table say in which."""
    files = [write(tmp_path / f"{name}.pcap", [
        *joining(bss, at_s)[:3], (at_s + 0.5, association(bss, response=True, status=17))])
        for name, bss, at_s in (("one", BSS, 1.0), ("two", OTHER_BSS, 50.0))]
    document = json.loads(run_command("--json", *files))
    assert [each["start"] for each in document["negotiations"]] == [
        {"capture": f"{name}.pcap", "frame": 1, "time_s": at_s}
        for name, at_s in (("one", 1.0), ("two", 50.0))]
    for each, file in zip(document["negotiations"], files, strict=True):
        assert each["findings"], each
        for finding in each["findings"]:
            assert {frame["capture"] for frame in finding["frames"]} == {file.name}
            assert [shown["capture"] for shown in finding["filters"]] == [file.name]
    text = " ".join(run_command(*files).split())
    assert "frames 1 to 4 of two.pcap" in text
    assert "status 17 in frame 4 of one.pcap" in text
    alone = " ".join(run_command(files[0]).split())
    assert "of one.pcap" not in alone


# --- Captures without an answer ---


def test_file_that_is_no_capture_is_one_line(tmp_path: Path) -> None:
    """The line says what to do."""
    (tmp_path / "a.pcap").write_text("no capture\n" * 10)
    with pytest.raises(UserError, match=r"a\.pcap: cannot be read \(.*\); give a capture"):
        run_command(tmp_path / "a.pcap")


def test_results_folder_stands_for_its_captures(tmp_path: Path) -> None:
    """Captures of the same name in several repetitions are told apart by their paths."""
    for name in ("one", "two"):
        (tmp_path / "captures" / name).mkdir(parents=True)
        write(tmp_path / "captures" / name / "auth-air.pcap", joining(BSS, 1.0))
    document = json.loads(run_command("--json", tmp_path))
    assert [each["start"]["capture"] for each in document["negotiations"]] == [
        f"{name}/auth-air.pcap" for name in ("one", "two")]
    with pytest.raises(UserError, match="no captures in this folder"):
        run_command(tmp_path / "captures")
    alone = json.loads(run_command("--json", tmp_path / "captures" / "one"))
    assert [capture["name"] for capture in alone["captures"]] == ["auth-air.pcap"]
    twice = json.loads(run_command("--json", tmp_path, tmp_path / "captures" / "one", tmp_path))
    assert twice["negotiations"] == document["negotiations"]
    capture = tmp_path / "captures" / "one" / "auth-air.pcap"
    (tmp_path / "link.pcap").symlink_to(capture)
    twice = json.loads(run_command("--json", capture, tmp_path, tmp_path / "link.pcap"))
    assert twice["negotiations"] == document["negotiations"]
    twice = json.loads(run_command("--json", capture, tmp_path / "link.pcap"))
    assert [each["name"] for each in twice["captures"]] == ["auth-air.pcap"]


def test_line_that_opens_wireshark_has_the_path_of_the_capture(tmp_path: Path) -> None:
    """It serves from any working folder, and with a name that a shell would split."""
    folder = tmp_path / "my profiles"
    capture = write(tmp_path / "the air.pcap", joining(BSS, 1.0))
    done = CliRunner().invoke(cli.qop, ["explain", "--wireshark", str(folder), str(capture)])
    setting, *command = shlex.split(done.stderr.removeprefix("Written: "))
    assert setting == f"WIRESHARK_CONFIG_DIR={folder}"
    assert command == ["wireshark", "-C", "the air.pcap", str(capture)]
    assert (folder / "profiles" / command[2]).is_dir()


def test_captures_whose_names_differ_by_a_slash_have_two_profiles(tmp_path: Path) -> None:
    """`b.pcap` of two folders is named with its folder, and a profile's name has no slash."""
    files = [tmp_path / name for name in ("a/b.pcap", "c/b.pcap", "a-b.pcap")]
    for number, file in enumerate(files):
        file.parent.mkdir(exist_ok=True)
        write(file, joining(BSS, 1.0 + number))
    done = CliRunner().invoke(cli.qop, ["explain", "--wireshark", str(tmp_path / "w"),
                                        *map(str, files)])
    opened = [shlex.split(line)[-2:] for line in done.stderr.splitlines()
              if line.startswith("Written")]
    assert sorted(path for _, path in opened) == sorted(map(str, files))
    assert len({profile for profile, _ in opened}) == 3
    assert {each.name for each in (tmp_path / "w/profiles").iterdir()} == {
        profile for profile, _ in opened}


@pytest.mark.parametrize(("option", "target"), [
    ("--html", "no/folder/page.html"), ("--html", "folder"), ("--html", "capture.pcap/page.html"),
    ("--wireshark", "capture.pcap"), ("--wireshark", "capture.pcap/w")])
def test_target_that_cannot_be_written_is_refused_before_captures_are_read(
        option: str, target: str, tmp_path: Path) -> None:
    capture = write(tmp_path / "capture.pcap", joining(BSS, 1.0))
    (tmp_path / "folder").mkdir()
    done = CliRunner().invoke(cli.qop, ["explain", option, str(tmp_path / target), str(capture)])
    assert isinstance(done.exception, UserError)
    assert re.fullmatch(rf"{option} .*: cannot be written \(.*\); choose another \w+",
                        str(done.exception))
    assert done.stdout == ""


def test_page_of_a_capture_that_is_refused_is_not_left(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot be read"):
        run_command("--html", tmp_path / "page.html", tmp_path / "none.pcap")
    assert not list(tmp_path.iterdir())


def test_page_may_go_into_a_pipe(tmp_path: Path) -> None:
    """Its reader gets the whole page."""
    capture = write(tmp_path / "capture.pcap", joining(BSS, 1.0))
    pipe, pages = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: pages.append(pipe.read_text()))
    reader.start()
    run_command("--html", pipe, capture)
    reader.join()
    assert pages[0].rstrip().endswith("</html>")


def test_pipe_among_several_captures_is_refused(tmp_path: Path) -> None:
    """Several captures are read twice, a single one once."""
    capture = write(tmp_path / "a.pcap", joining(BSS, 1.0))
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(UserError, match="pipe: a pipe can be read once"):
        run_command(capture, pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(capture.read_bytes(),))
    writer.start()
    assert json.loads(run_command("--json", pipe))["negotiations"]
    writer.join()


def test_drift_that_rounds_to_zero_has_no_sign() -> None:
    """`-0 ppm` would tell of a slow clock."""
    clock = {"packets": 9, "offset_s": 0.5, "drift_ppm": -0.3, "uncertainty_s": 1e-4}
    text = " ".join(explanation.format_lines({
        "answer": "none", "notes": [], "negotiations": [],
        "captures": [{"name": "air.pcap", "clock": clock}]}))
    assert "drift 0 ppm" in text


@pytest.mark.parametrize(("raw", "is_decrypted"), [
    ({"link_keys": [WEP_KEY]}, True), ({"parts": {"air": {"companion_keys": [WEP_KEY]}}}, True),
    ({"link_keys": ["00" * 13]}, False), (None, False)])
def test_results_folder_has_its_keys(raw: dict[str, Any] | None, tmp_path: Path,
                                     *, is_decrypted: bool) -> None:
    """The registration of P2 is encrypted by WEP; a wrong key is no reproach to the user."""
    captures, values = tmp_path / "captures" / "P2-N2-001", tmp_path / "files" / "P2-N2-001"
    for folder in captures, values:
        folder.mkdir(parents=True)
    (captures / "auth-air.pcap").write_bytes(path("P2", "auth-air").read_bytes())
    if raw is not None:
        (values / "raw.json.gz").write_bytes(gzip.compress(json.dumps(raw).encode()))
    document = json.loads(run_command("--json", tmp_path))
    (each,) = (each for each in document["negotiations"] if each["kind"] == "802.11")
    assert any(phase["name"] == "registration" for phase in each["phases"]) == is_decrypted
    assert document["notes"] == []


def damaged_gzip() -> bytes:
    """A gzip file with other bytes in its middle."""
    packed = bytearray(gzip.compress(json.dumps({"link_keys": [WEP_KEY] * 100}).encode()))
    packed[15:40] = b"\xff" * 25
    return bytes(packed)


@pytest.mark.parametrize("raw", [[], {
    "parts": [1], "link_keys": 3, "tls_keys": [{}], "esp_keys": ["0x1"]}])
def test_values_of_other_types_have_no_keys(raw: Any, tmp_path: Path) -> None:
    """They are of another version, or of somebody else."""
    (tmp_path / "captures" / "one").mkdir(parents=True)
    (tmp_path / "files" / "one").mkdir(parents=True)
    write(tmp_path / "captures" / "one" / "auth-air.pcap", joining(BSS, 1.0))
    (tmp_path / "files" / "one" / "raw.json.gz").write_bytes(
        gzip.compress(json.dumps(raw).encode()))
    (found,) = find_recordings(tmp_path)
    assert (found.link_keys, found.tls_keys, found.esp_keys) == ((), (), ())


@pytest.mark.parametrize("content", [b"damaged", damaged_gzip(), gzip.compress(b"["), b""],
                         ids=["text", "damaged", "cut JSON", "empty"])  # gzip has the time in it
def test_damaged_values_of_a_results_folder_are_one_line(content: bytes, tmp_path: Path) -> None:
    """The line names the file and the command that checks it."""
    captures, values = tmp_path / "captures" / "P1-N2-001", tmp_path / "files" / "P1-N2-001"
    for folder in captures, values:
        folder.mkdir(parents=True)
    write(captures / "auth-air.pcap", joining(BSS, 1.0))
    (values / "raw.json.gz").write_bytes(content)
    with pytest.raises(UserError, match=r"raw\.json\.gz: cannot be read .*; './qop verify'"):
        run_command(tmp_path)


def test_empty_capture(tmp_path: Path) -> None:
    """A capture without frames has an answer, which says so."""
    assert run_command(write(tmp_path / "a.pcap", [])) == "a.pcap: no frames\n"


def test_capture_without_authentication_says_what_is_there(tmp_path: Path) -> None:
    """Data frames of a station whose joining was not captured."""
    frames = [(1.0 + index, data(BSS, protected=True)) for index in range(5)]
    assert " ".join(run_command(write(tmp_path / "a.pcap", frames)).split()) == (
        "a.pcap: no authentication inside; what is here: 5 CCMP or GCMP data frames of 1 station; "
        "no handshake between 02:00:00:00:00:a2 and 02:00:00:00:00:a0")


def test_capture_that_is_cut_short_is_explained_up_to_there(tmp_path: Path) -> None:
    """The last frame is missing, and a note says so."""
    whole = write(tmp_path / "a.pcap", joining(BSS, 1.0)).read_bytes()
    (tmp_path / "a.pcap").write_bytes(whole[:-20])
    document = explain(tmp_path / "a.pcap")
    assert "unreadable after frame 3" in document["notes"][0]
    assert document["negotiations"][0]["outcome"] == "cannot tell"


def test_clock_step_is_noted(tmp_path: Path) -> None:
    """A clock that goes back makes times across it wrong."""
    frames = [*joining(BSS, 100.0), *joining(OTHER_BSS, 50.0)]
    document = explain(write(tmp_path / "a.pcap", frames))
    (note,) = document["notes"]
    assert note == ("a.pcap: the clock steps by -50.003 s at frame 5; times across that frame are "
                    "wrong")


def test_capture_that_starts_in_the_middle_says_so(tmp_path: Path) -> None:
    """The access point's data of 802.1X without the association before it."""
    capture = path("P8", "auth-air")
    late = tmp_path / "late.pcap"
    start = next(each["start"]["frame"] for each in explain(capture)["negotiations"]
                 if each["kind"] == "802.11")
    subprocess.run(["editcap", capture, late, f"1-{start + 8}"], check=True,
                   capture_output=True)
    assert "the capture starts in the middle of it" in run_command(late)
    assert "the capture starts in the middle of it" not in run_command(capture)


def test_negotiation_ends_where_the_clock_goes_back(tmp_path: Path) -> None:
    """No duration crosses the step, and the roam keeps the access point before it."""
    frames = [(100.0, authentication(BSS, 1)), (100.001, authentication(BSS, 2)),
              (50.0, association(BSS)), (50.001, association(BSS, response=True)),
              *joining(OTHER_BSS, 40.0, again=True, algorithm=2)]
    roam, rest, first = explain(write(tmp_path / "a.pcap", frames))["negotiations"]
    assert (first["start"]["time_s"], first["duration_s"]) == (100.0, 0.001)
    assert (rest["start"]["time_s"], rest["duration_s"]) == (50.0, 0.001)
    assert roam["previous"] == rest["peer"]
    assert roam["roam_times_s"]["data_gap"] is None


def radiotap(frame: bytes, *, is_damaged: bool = False) -> bytes:
    """A frame with a header of radiotap that has flags, and with a checksum behind it."""
    flags = 0x50 if is_damaged else 0x10
    return struct.pack("<BBHIB", 0, 0, 9, 1 << 1, flags) + frame + b"\0\0\0\0"


def test_frames_received_with_errors_are_left_out(tmp_path: Path) -> None:
    """A damaged copy of a response has another status, which nobody sent."""
    whole = joining(BSS, 1.0)
    frames = [(at_s, radiotap(frame)) for at_s, frame in whole]
    damaged = radiotap(association(BSS, response=True, status=256), is_damaged=True)
    capture = made_up_captures.written(tmp_path / "a.pcap", [*frames[:3], (1.0025, damaged),
                                                             frames[3]], made_up_captures.RADIOTAP)
    document = explain(capture)
    assert document["notes"] == ["a.pcap: frames received with errors, which are left out: 1"]
    (each,) = document["negotiations"]
    assert each["outcome"] == "success"
    assert each["end"]["frame"] == 5


@pytest.mark.parametrize(("recording", "name"), [("P12", "auth-wire"), ("P12", "auth-mn")])
def test_copies_at_several_interfaces_count_once(recording: str, name: str,
                                                 tmp_path: Path) -> None:
    """Each packet comes twice, as in a capture of all interfaces or at a mirror port."""
    capture = path(recording, name)
    frames = [(frame.at_s, frame.data) for frame in pcap.read_frames(Path(capture))]
    twice = made_up_captures.written(tmp_path / "twice.pcap", [
        (at_s + delay_s, frame) for at_s, frame in frames for delay_s in (0.0, 3e-5)])
    document = explain(twice)
    (note,) = document["notes"]
    assert "messages that are there again within 5 ms" in note
    once = explain(capture)["negotiations"]
    for each, single in zip(document["negotiations"], once, strict=True):
        assert not each["repeated"]
        assert each["duration_s"] == single["duration_s"]
        assert [one["cause"] for one in each["findings"]] == [
            one["cause"] for one in single["findings"]]


def test_picture_is_no_capture(tmp_path: Path) -> None:
    """Wireshark opens pictures, too: as one frame without a time."""
    picture = tmp_path / "a.png"
    picture.write_bytes(bytes.fromhex("89504e470d0a1a0a0000000d49484452000000010000000108060000001f"
                                      "15c4890000000049454e44ae426082"))
    with pytest.raises(UserError, match=r"a\.png: cannot be read \(no frame of it has a time\)"):
        run_command(picture)
