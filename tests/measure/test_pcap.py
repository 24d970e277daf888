"""UDP payloads read from captures as bytes: what tshark sees, and nothing of other files."""

from __future__ import annotations

from pathlib import Path

import pytest

import recorded
from measure import fields, pcap
from measure.errors import MeasureError


def test_payloads_are_those_that_tshark_sees() -> None:
    """Registrations and IKE of a recording, with their times, byte for byte."""
    file = recorded.path("P12-R1", "auth-mn")
    for port in (434, 500):
        seen = fields.read(file, ("frame.time_epoch", "udp.payload"), f"udp.port == {port}")
        payloads = pcap.udp_payloads(file, port)
        assert len(payloads) == len(seen) >= 2
        for (time_s, payload), (at, text) in zip(payloads, seen, strict=True):
            assert payload.hex() == text
            assert time_s == pytest.approx(float(at), abs=1e-6)


def test_eapol_frames_are_those_that_tshark_sees() -> None:
    """EAP and keys, from the version on."""
    file = recorded.path("P8", "auth-mn")
    frames = [frame for _, frame in pcap.eapol(file)]
    types = [int(kind[0]) for kind in fields.read(file, ("eapol.type",), "eapol")]
    assert [frame[1] for frame in frames] == types and len(types) == 17


def test_a_capture_that_is_cut_gives_what_is_whole(tmp_path: Path) -> None:
    """However many bytes are left, no error, and no payload that was not there."""
    whole = recorded.path("P1", "auth-mn").read_bytes()
    expected = pcap.udp_payloads(recorded.path("P1", "auth-mn"), 434)
    for length in range(24, len(whole), 97):
        (tmp_path / "cut.pcap").write_bytes(whole[:length])
        payloads = pcap.udp_payloads(tmp_path / "cut.pcap", 434)
        assert payloads == expected[:len(payloads)]


@pytest.mark.parametrize("content", [b"", b"text", recorded.path("P1", "auth-air").read_bytes()])
def test_other_files_are_refused(tmp_path: Path, content: bytes) -> None:
    """Nothing, no capture, and one of another link layer."""
    (tmp_path / "other.pcap").write_bytes(content)
    with pytest.raises(MeasureError, match="is no capture of Ethernet frames"):
        pcap.udp_payloads(tmp_path / "other.pcap", 434)
    with pytest.raises(OSError, match="missing"):
        pcap.udp_payloads(tmp_path / "missing.pcap", 434)
