"""Tests of measure.explain on captures that nobody here made, and on damaged ones, on request.

The captures are test data of Wireshark and tcpdump. They come from Debian's source packages, by
version and hash, and take minutes:

QOP_TEST_CAPTURES=1 ./qop test tests/measure/test_explain_archived.py
"""

from __future__ import annotations

import hashlib
import os
import random
import struct
import tarfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import shared
from guest import debian
from harness import explanation
from measure.agent.errors import MeasureError
from measure.capture import pcap
from measure.explain.answer import explain_captures
from recorded import FOLDER

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not os.environ.get("QOP_TEST_CAPTURES"),
                       reason="takes minutes and a mirror; QOP_TEST_CAPTURES=1 has it done")]

#: Source packages of Debian: path in the archive, SHA-256, and the folder of captures inside.
PACKAGES = {
    "wireshark": ("pool/main/w/wireshark/wireshark_4.0.17.orig.tar.bz2",
                  "62fd1491b6211d1651a16a45ead15808970b3a6a9ebde2537f96722af47aaaa5",
                  "test/captures/"),
    "tcpdump": ("pool/main/t/tcpdump/tcpdump_4.99.3.orig.tar.gz",
                "ad75a6ed3dc0d9732945b2e5483cb41dc8b4b528a169315e499c6861952e73b3", "tests/")}


def captures_of(package: str) -> Path:
    """The folder with a package's captures, fetched once a test run."""
    return shared.once(f"captures-of-{package}", lambda: fetch(package))


def fetch(package: str) -> Path:
    """Fetch a source package, check its hash, and unpack its captures."""
    place, digest, inside = PACKAGES[package]
    mirror = debian.find_mirrors().main.rstrip("/")
    folder = shared.folder(f"{package}-source")
    file = folder / "source"
    try:
        urllib.request.urlretrieve(f"{mirror}/{place}", file)
    except urllib.error.URLError as error:
        pytest.skip(f"{place}: the mirror does not have it ({error})")
    assert hashlib.sha256(file.read_bytes()).hexdigest() == digest, place
    with tarfile.open(file) as archive:
        for member in archive:
            if member.isfile() and f"/{inside}" in f"/{member.name}":
                stream = archive.extractfile(member)
                assert stream is not None
                (folder / Path(member.name).name).write_bytes(stream.read())
    file.unlink()
    return folder


def explain(file: Path, *keys: str) -> list[dict[str, Any]]:
    """The negotiations of a capture."""
    return explain_captures([file], keys).to_document()["negotiations"]


#: Captures of Wireshark with answers worked out by hand from tshark's list of frames: place of the
#: negotiation, its first and last frame, its duration in s, and policy.
GOLDEN = [
    ("wpa-eap-tls.pcap.gz", 0, (1, 25), 1.122544, "EAP-TLS, TLS 1.0"),
    ("wpa2-ft-psk.pcapng.gz", 0, (5, 12), 0.013016, "FT-PSK, CCMP, PMF off"),
    ("wpa2-ft-psk.pcapng.gz", 1, (24, 27), 0.006501, "FT-PSK, CCMP, PMF off"),
    ("wpa2-psk-mfp.pcapng.gz", 0, (2, 9), 0.015658, "PSK-SHA256, CCMP, PMF required"),
    ("wpa1-gtk-rekey.pcapng.gz", 0, (9, 21), 0.221720, "PSK, TKIP, PMF off"),
    ("owe.pcapng.gz", 0, (22, 29), 0.013189, "OWE, CCMP, PMF required"),
    ("wpa-Induction.pcap.gz", 0, (78, 94), 0.012023, "PSK, CCMP, PMF off"),
    ("ikev1-certs.pcap", 0, (1, 10), 14.631764, "3des-md5-modp1024")]


@pytest.mark.parametrize(("name", "place", "frames", "duration_s", "policy"), GOLDEN)
def test_answers_are_those_worked_out_by_hand(name: str, place: int, frames: tuple[int, int],
                                              duration_s: float, policy: str) -> None:
    """To a millisecond, with the first and the last frame."""
    each = explain(captures_of("wireshark") / name)[place]
    assert (each["start"]["frame"], each["end"]["frame"]) == frames
    assert each["duration_s"] == pytest.approx(duration_s, abs=1e-3)
    assert each["policy"]["title"] == policy
    assert each["outcome"] == "success"


def test_waits_of_an_authentication_with_a_slow_server() -> None:
    """1.056 s for the network side, one gap of 0.915 s, 63 ms for the station."""
    (each,) = explain(captures_of("wireshark") / "wpa-eap-tls.pcap.gz")
    waits = each["waited_for_s"]
    assert waits["network"] + waits["access point"] == pytest.approx(1.056, abs=1e-3)
    assert waits["station"] == pytest.approx(0.063, abs=1e-3)
    assert each["gaps"][0]["duration_s"] == pytest.approx(0.915, abs=1e-3)
    assert [frame["frame"] for frame in each["gaps"][0]["frames"]] == [6, 7]
    assert [finding["cause"] for finding in each["findings"]] == ["late-radius"]


def test_roam_by_fast_transition_has_no_key_messages() -> None:
    """The second negotiation of the capture is a roam."""
    _, roam = explain(captures_of("wireshark") / "wpa2-ft-psk.pcapng.gz")
    assert roam["previous"] == "02:00:00:00:00:00"
    assert [phase["name"] for phase in roam["phases"]] == ["authentication", "association",
                                                           "first_packet"]
    assert roam["roam_times_s"]["keys"] == roam["duration_s"]


def test_four_exchanges_of_ikev2() -> None:
    """All four kinds of IKEv2 exchanges; a cookie is demanded first."""
    first, second = explain(captures_of("tcpdump") / "ikev2four.pcap")
    assert first["messages"] == {"IKE_SA_INIT": 4, "IKE_AUTH": 2, "CREATE_CHILD_SA": 14}
    assert second["messages"] == {"IKEv2 INFORMATIONAL": 1}
    assert (first["start"]["frame"], first["end"]["frame"]) == (1, 6)
    assert [finding["cause"] for finding in first["findings"]] == ["ike-cookie"]


@pytest.mark.parametrize(("passphrase", "is_right"), [("Induction", True), ("Inductive", False)])
def test_passphrase_is_judged(passphrase: str, is_right: bool) -> None:
    """The right one shows DHCP; the wrong one makes a note."""
    file = captures_of("wireshark") / "wpa-Induction.pcap.gz"
    document = explain_captures([file], [f"wpa-pwd:{passphrase}:Coherer"]).to_document()
    (each,) = document["negotiations"]
    assert any(phase["name"] == "dhcp" for phase in each["phases"]) == is_right
    assert any("none of the keys" in note for note in document["notes"]) != is_right


# --- Hostile captures ---


def survive(file: Path) -> None:
    """Explain a capture and print it, or refuse it on one line."""
    try:
        document = explain_captures([file]).to_document()
    except MeasureError as error:
        assert "\n" not in str(error)
        return
    assert document["answer"]
    assert list(explanation.format_lines(document))


@pytest.mark.parametrize("package", PACKAGES)
def test_every_archived_capture_is_explained_or_refused(package: str) -> None:
    """Dozens of them are malformed on purpose."""
    files = [file for file in sorted(captures_of(package).iterdir()) if ".pcap" in file.name]
    assert len(files) > 90
    for file in files:
        survive(file)


def mutated(frames: list[pcap.CapturedFrame], chance: random.Random) -> Iterator[bytes]:
    """Records of a pcap file: frames dropped, doubled, swapped, cut, with other bytes and times."""
    for frame in frames:
        if chance.random() < 0.05:
            continue
        data = bytearray(frame.data)
        for _ in range(chance.choice((0, 0, 1, 1, 2, 8))):
            data[chance.randrange(len(data))] = chance.randrange(256)
        if chance.random() < 0.1:
            del data[chance.randrange(1, len(data)):]
        at_s = max(0.0, frame.at_s + chance.choice((0, 0, 0, 1e-6, 5.0, -5.0, 1e6, -1e9)))
        record = struct.pack("<IIII", int(at_s) & 0xFFFFFFFF, int(at_s % 1 * 1e6), len(data),
                             len(data)) + data
        yield record * chance.choice((1,) * 19 + (2,))


@pytest.mark.parametrize("seed", range(100))
def test_ten_thousand_mutated_captures_are_explained(seed: int, tmp_path: Path) -> None:
    """A hundred mutated copies of a recording in each of a hundred files."""
    chance = random.Random(seed)
    names = ("auth-air", "auth-mn", "auth-wire")
    source = FOLDER / chance.choice(("P7", "P8", "P12", "P12-R1")) / f"{chance.choice(names)}.pcap"
    link = pcap.read_link_type(source)
    assert link is not None
    frames = list(pcap.read_frames(source, (link,)))[:60]
    head = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65_535, link)
    file = tmp_path / "mutated.pcap"
    file.write_bytes(head + b"".join(b"".join(mutated(frames, chance)) for _ in range(100)))
    survive(file)


@pytest.mark.parametrize("seed", range(20))
def test_damaged_file_is_explained_or_refused(seed: int, tmp_path: Path) -> None:
    """Bytes of the file itself are changed: its header, and lengths of records."""
    chance = random.Random(seed)
    content = bytearray((FOLDER / "P8" / "auth-air.pcap").read_bytes())
    for _ in range(chance.choice((1, 3, 30))):
        content[chance.randrange(chance.choice((24, 60, len(content))))] = chance.randrange(256)
    file = tmp_path / "damaged.pcap"
    file.write_bytes(content[:chance.randrange(1, len(content))])
    survive(file)
