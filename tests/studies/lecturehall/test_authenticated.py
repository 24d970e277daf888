"""Who counts as authenticated in the hall, by a recording of two stations, whole and altered."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import recorded
from harness.engine.request import RunRequest, build_plan
from measure.records.record import CheckRecord
from studies.lecturehall import judge
from studies.lecturehall.study import STUDY
from studies.study import Repetition

RECORDED = recorded.TOOLS / "lecturehall"
STATIONS = ("02:00:00:00:5e:01", "02:00:00:00:5e:02")
FIRST, SECOND = b"02-00-00-00-5E-01", b"02-00-00-00-5E-02"
FILE_HEAD, PACKET_HEAD = 24, 16


def packets(capture: Path, change: Callable[[bytes], bytes | None]) -> None:
    """Every packet of a capture becomes another of the same size, or is taken out."""
    data = capture.read_bytes()
    out, at = data[:FILE_HEAD], FILE_HEAD
    while at < len(data):
        size = int.from_bytes(data[at + 8:at + 12], "little")
        packet = change(data[at + PACKET_HEAD:at + PACKET_HEAD + size])
        if packet is not None:
            assert len(packet) == size
            out += data[at:at + PACKET_HEAD] + packet
        at += PACKET_HEAD + size
    capture.write_bytes(out)


@pytest.fixture
def hall(tmp_path: Path) -> Path:
    """A copy of the recording."""
    shutil.copytree(RECORDED, tmp_path / "out")
    return tmp_path / "out"


def checks(out: Path, secret: str | None = None) -> dict[str, CheckRecord]:
    """What is said of who was let in, by check."""
    cell = build_plan(RunRequest(STUDY, levels={"policy": ["M4"], "stations": ["10"]}), {}).cells[0]
    secrets = json.loads((out / "secrets.json").read_text())
    if secret is not None:
        secrets["network"]["radius_secret"] = secret
    repetition = Repetition(cell, STUDY.settings_type(), out, secrets)
    said = judge._check_admissions(cell.value("policy"), STATIONS, STATIONS, repetition)
    return {check.check: check for check in said}


def without_success(packet: bytes) -> bytes | None:
    """Take EAP-Success out of EAPOL (its type 0, then EAP's code 3)."""
    return None if packet[12:14] == b"\x88\x8e" and packet[15] == 0 and packet[18] == 3 \
        else packet


def without_accept(packet: bytes) -> bytes | None:
    """Take an Access-Accept out of RADIUS: whatever goes to the access point with code 2."""
    return None if packet[42] == 2 else packet


def swapped(packet: bytes) -> bytes:
    """Have the access point ask for the one station under the other's name."""
    nobody = b"\xff" * len(FIRST)
    return packet.replace(FIRST, nobody).replace(SECOND, FIRST).replace(nobody, SECOND)


def test_a_lost_success_is_no_lack(hall: Path) -> None:
    """All hold with every EAP-Success and without any: keys show what that frame only says."""
    assert all(check.ok for check in checks(hall).values())
    assert checks(hall)["each authenticated"].detail == (
        "2 of 2 stations send under keys of their own Access-Accept; 2 got an EAP-Success")
    packets(hall / "hall-ap.pcap", without_success)
    assert checks(hall)["each authenticated"].detail.endswith("; 0 got an EAP-Success")
    assert all(check.ok for check in checks(hall).values())


@pytest.mark.parametrize(("capture", "change"), [
    ("wire", without_accept), ("wire", swapped),
    ("short", lambda packet: None if b"\x88\x8e\x01\x03" in packet else packet)])
def test_who_did_not_authenticate_is_found(
        hall: Path, capture: str, change: Callable[[bytes], bytes | None]) -> None:
    """Without an acceptance, with another station's, and without a handshake under its key.

    Only *each authenticated* fails.
    """
    packets(hall / f"hall-{capture}.pcap", change)
    said = checks(hall)
    assert [name for name, check in said.items() if not check.ok] == ["each authenticated"]
    assert said["each authenticated"].detail.startswith("0 of 2 stations")


def test_another_runs_acceptances_prove_nothing(hall: Path) -> None:
    """Under another secret they deliver other keys."""
    assert not checks(hall, "of another run")["each authenticated"].ok
