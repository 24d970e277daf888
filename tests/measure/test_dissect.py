"""Tests of measure.capture.tshark.

Every field of Packet on real captures, and files that are none.
"""

from __future__ import annotations

import dataclasses
import os
import re
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

import made_up_captures
from conftest import PROJECT
from measure.agent.errors import MeasureError
from measure.capture import dissection, tshark
from measure.capture.tshark import Packet
from measure.checks import layer_checks
from measure.services import iperf
from recorded import (
    ADDRESS,
    ELSEWHERE,
    IDS,
    MAC,
    PEER,
    POLICIES,
    WEP_KEY,
    captures,
    has_static_key,
    path,
    policy_of,
)
from recorded import packets as recorded

ACCESS_POINT = "02:00:00:00:a0:00"
STATIC = [policy for policy in IDS if has_static_key(POLICIES[policy])]
TCP, UDP = 6, 17  # protocol numbers of IP


def pcap(frames: Iterable[bytes], link_type: int = made_up_captures.IEEE802_11) -> bytes:
    """A capture file with these frames, a microsecond apart, in the classic pcap format."""
    return made_up_captures.pcap(
        [(1 + index / 1e6, frame) for index, frame in enumerate(frames)], link_type)


def data_frame(cipher_header: bytes) -> bytes:
    """A protected data frame from the mobile node, whose body begins with `cipher_header`."""
    station, access_point = bytes.fromhex("02000000a200"), bytes.fromhex("02000000a000")
    to_access_point_protected = 0x4108
    return (struct.pack("<HH", to_access_point_protected, 0) + access_point + station
            + access_point + b"\0\0" + cipher_header + bytes(range(40)))


# Fields --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("recording", "capture"), [
    (recording, capture) for recording in (*IDS, *ELSEWHERE) for capture in captures(recording)
    if not capture.startswith("port")])  # a frame on the air, and none behind it
def test_every_packet_of_every_recording_is_dissected(recording: str, capture: str) -> None:
    """Times rise, lengths are set and within the snap length: no column is out of step."""
    found = recorded(recording, capture)
    assert len(found) >= 3
    times = [p.time_s for p in found]
    assert times == sorted(times)
    snap = 192 if capture.startswith("traffic") else 262144
    assert all(0 < p.captured <= min(p.length, snap) for p in found)


# For each attribute a capture in which it shows, and one packet's value in it.
SHOWN: list[tuple[str, str, Callable[[Packet], object], object]] = [
    ("P12", "auth-air", lambda p: p.subtype, tshark.AUTHENTICATION_SUBTYPE),
    ("P12", "auth-air", lambda p: p.subtype, 0x00),
    ("P12", "auth-air", lambda p: p.subtype, 0x08),
    ("P12", "auth-air", lambda p: (p.transmitter, p.receiver), (MAC, ACCESS_POINT)),
    ("P12", "auth-air", lambda p: (p.transmitter, p.receiver), (ACCESS_POINT, MAC)),
    ("P12", "auth-mn", lambda p: p.ethernet_src, MAC),
    ("P12", "auth-mn", lambda p: (p.eapol_type, p.eap_code, p.eap_type), (0, 1, 1)),  # Identity
    ("P12", "auth-mn", lambda p: (p.eap_code, p.eap_type), (1, 4)),  # MD5 offered ...
    ("P12", "auth-mn", lambda p: (p.eap_code, p.eap_type), (2, 3)),  # ... and NAKed
    ("P12", "auth-mn", lambda p: (p.eap_code, p.eap_type), (2, 13)),
    ("P12", "auth-mn", lambda p: (p.eap_code, p.eap_type), (tshark.EAP_SUCCESS, None)),
    ("P12", "auth-mn", lambda p: (p.eapol_type, p.key_descriptor), (tshark.EAPOL_KEY, 1)),  # RC4
    ("P12", "auth-mn", lambda p: (p.ethernet_src, p.tls_handshakes), (MAC, (1,))),
    ("P12", "auth-mn", lambda p: p.tls_handshakes, (2, 11, 12, 13, 14)),
    ("P12", "auth-mn", lambda p: p.tls_handshakes[:3], (11, 16, 15)),
    ("P12", "auth-mn", lambda p: p.arp_opcode, 1),
    ("P12", "auth-mn", lambda p: p.icmp_type, 0),
    ("P12", "auth-mn", lambda p: (p.ip_src, p.ip_dst, p.ip_proto), (ADDRESS, PEER, 17)),
    ("P12", "auth-mn", lambda p: (p.udp_src, p.udp_dst, p.isakmp_exchange), (500, 500, 2)),
    ("P12", "auth-mn", lambda p: p.isakmp_exchange, 32),
    ("P12", "auth-wire", lambda p: p.radius_code, 1),
    ("P12", "auth-wire", lambda p: p.radius_code, 2),
    ("P12", "auth-wire", lambda p: p.radius_code, 11),
    ("P12", "traffic-wire", lambda p: (p.ip_proto, p.esp_spi), (tshark.ESP, "0xcd0c0b2f")),
    ("P1", "auth-mn", lambda p: (p.icmp_type, p.ip_src), (10, ADDRESS)),  # solicitation
    ("P1", "auth-mn", lambda p: (p.icmp_type, p.ip_src), (9, PEER)),  # advertisement
    ("P1-R1", "auth-mn", lambda p: (p.mip_type, p.mip_code, p.mip_care_of), (1, None, ADDRESS)),
    ("P1-R1", "auth-mn", lambda p: (p.mip_type, p.mip_code, p.mip_care_of), (1, None, "10.0.2.1")),
    ("P1-R1", "auth-mn", lambda p: (p.mip_type, p.mip_code, p.mip_care_of), (3, 0, "")),
    ("P1-R1", "auth-foreign", lambda p: (p.mip_type, p.udp_dst), (1, 434)),
    # Of a packet in a packet the outer header counts.
    ("P1-R1", "traffic-core", lambda p: (p.ip_src, p.ip_dst, p.ip_proto),
     ("10.0.2.1", PEER, tshark.IP_IN_IP)),
    ("P1-R1", "traffic-core", lambda p: (p.ip_src, p.ip_dst, p.ip_proto),
     (PEER, "10.0.2.1", tshark.IP_IN_IP)),
    ("P3-N3", "traffic-core", lambda p: (p.ip_src, p.ip_dst, p.ip_proto),
     ("10.0.1.1", "10.0.2.1", tshark.ESP)),
    ("P2", "auth-air", lambda p: (p.protected, len(p.wep_iv)), (True, len("0x000102"))),
    ("P1", "auth-mn", lambda p: p.icmp_type, 8),
    ("P1", "auth-mn", lambda p: p.arp_opcode, 2),
    ("P1", "auth-air", lambda p: (p.is_data, p.protected, p.ip_src), (True, False, ADDRESS)),
]


@pytest.mark.parametrize("case", SHOWN, ids=lambda case: f"{case[0]}-{case[1]}")
def test_field_on_a_real_capture(
    case: tuple[str, str, Callable[[Packet], object], object],
) -> None:
    """Each attribute takes the value that the protocol has there, and not in every packet."""
    policy, capture, get, value = case
    matching = sum(get(p) == value for p in recorded(policy, capture))
    assert 0 < matching < len(recorded(policy, capture))


def test_mobile_ip_is_told_from_everything_else() -> None:
    """Discovery and registration are Mobile IP's; ARP, echoes and the rest are not."""
    kinds = [p.mip_type or p.icmp_type for p in recorded("P1", "auth-mn") if p.is_mobile_ip]
    assert kinds == [tshark.AGENT_SOLICITATION, tshark.AGENT_ADVERTISEMENT,
                     tshark.REGISTRATION_REQUEST, tshark.REGISTRATION_REPLY]
    assert not any(p.is_mobile_ip for p in recorded("P1", "traffic-wire"))


def test_every_attribute_is_shown_by_some_recording_or_frame() -> None:
    """No attribute of Packet stays empty in all recordings but those of RSN, tested below."""
    empty = {field.name for field in dataclasses.fields(Packet)}
    for recording in (*IDS, *ELSEWHERE):
        for capture in captures(recording):
            for packet in recorded(recording, capture):
                empty -= {name for name in empty if not _is_absent(getattr(packet, name))}
    assert empty == {"ccmp_iv", "tkip_iv", "rsn_cipher", "rsn_akm", "is_mesh", "action_category"}


def _is_absent(value: object) -> bool:
    return value is False or value in (None, "", ())


def test_eapol_frames_of_the_two_methods() -> None:
    """EAP-MD5 takes 5 frames, EAP-TLS 15, and 17 with the two EAPOL-Key frames of P8 and P12."""
    counts = {policy: sum(p.is_eapol for p in recorded(policy, "auth-mn")) for policy in IDS}
    assert counts == {"P1": 0, "P2": 0, "P3": 0, "P4": 0, "P5": 5, "P6": 15, "P7": 5, "P8": 17,
                      "P9": 5, "P12": 17}


def test_isakmp_packets_of_main_and_quick_mode() -> None:
    """Every IPsec recording shows 6 packets of main mode (2) and 3 of quick mode (32)."""
    for policy in ("P3", "P4", "P9", "P12"):
        exchanges = [p.isakmp_exchange for p in recorded(policy, "auth-mn") if p.is_isakmp]
        assert exchanges == [2] * 6 + [32] * 3


def test_frames_of_rsn_ciphers(tmp_path: Path) -> None:
    """A CCMP header is told from a WEP IV by its extended IV bit, and its packet number is read."""
    file = tmp_path / "x.pcap"
    wep, ccmp = bytes([0, 1, 2, 0]), bytes([1, 0, 0, 0x20, 3, 0, 0, 0])
    file.write_bytes(pcap([data_frame(wep), data_frame(ccmp)]))
    first, second = dissection.read_packets(file)
    assert (first.wep_iv, first.ccmp_iv) == ("0x000102", "")
    assert (second.wep_iv, second.ccmp_iv) == ("", "0x000000030001")
    assert first.protected
    assert second.protected
    assert first.is_data
    assert second.is_data
    assert (first.transmitter, first.receiver) == (MAC, ACCESS_POINT)


def test_request_of_fast_transition_over_the_ds(tmp_path: Path) -> None:
    """An Action frame shows its category; one under protection shows none without its key."""
    file = tmp_path / "x.pcap"
    mac, next_one = (bytes.fromhex(f"0200000000{end}") for end in ("a200", "c000"))
    head, body = bytes(22) + bytes(2), bytes([6, 1]) + mac + next_one
    file.write_bytes(pcap([bytes([0xd0, flags]) + head[2:] + body + bytes(8)
                           for flags in (0, 0x40)]))
    assert [(frame.subtype, frame.action_category)
            for frame in dissection.read_packets(file)] == [(0x0d, 6), (0x0d, None)]


def test_frames_of_tkip(tmp_path: Path) -> None:
    """A TKIP frame shows its packet number, as verifying a TKIP policy needs."""
    file = tmp_path / "x.pcap"
    file.write_bytes(pcap([data_frame(bytes([1, 0x21, 2, 0x20, 3, 0, 0, 0]))]))
    [frame] = dissection.read_packets(file)
    assert (frame.ccmp_iv, frame.tkip_iv) == ("", "0x000000030102")


def test_long_streams_under_ccmp_have_no_frame_that_only_tkip_could_have(tmp_path: Path) -> None:
    """From 0x2000 on tshark calls some packet numbers TKIP's, if it cannot open the frame.

    All are told apart by the byte that CCMP leaves zero, and 255 in 256 of TKIP's own.
    """
    file = tmp_path / "x.pcap"
    numbers = [number.to_bytes(6, "little") for number in range(0x1f80, 0x2480)]
    file.write_bytes(pcap(data_frame(number[:2] + b"\0\x20" + number[2:]) for number in numbers))
    frames = dissection.read_packets(file)
    assert any(frame.tkip_iv and not frame.ccmp_iv for frame in frames)
    assert all(layer_checks.frame_counter("CCMP", frame) for frame in frames)
    file.write_bytes(pcap(data_frame(bytes([0, 0x20, low, 0x20, 0, 0, 0, 0]))
                          for low in range(256)))
    assert sum(bool(layer_checks.frame_counter("CCMP", frame)) for frame
               in dissection.read_packets(file)) == 1


def test_association_request_names_cipher_and_key_management(tmp_path: Path) -> None:
    """The RSN element's pairwise cipher (4, CCMP) and key management (8, SAE) are read."""
    station, access_point = bytes.fromhex("02000000a200"), bytes.fromhex("02000000a000")
    suites = bytes.fromhex("0100 000fac04 0100 000fac04 0100 000fac08 8000")
    body = b"\x01\x00\x05\x00" + b"\0\x03qop" + bytes([48, len(suites)]) + suites
    frame = struct.pack("<HH", 0, 0) + access_point + station + access_point + b"\0\0" + body
    file = tmp_path / "x.pcap"
    file.write_bytes(pcap([frame]))
    packet = dissection.read_packets(file)[0]
    assert (packet.subtype, packet.rsn_cipher, packet.rsn_akm) == (0, 4, 8)
    assert packet.subtype in tshark.ASSOCIATION_SUBTYPES
    assert not packet.is_data


def test_null_frames_are_no_data() -> None:
    """A null frame (0x24) carries nothing, so that it may pass in clear under any cipher."""
    packet = recorded("P1", "auth-air")[0]
    assert not dataclasses.replace(packet, subtype=0x24).is_data
    assert dataclasses.replace(packet, subtype=0x28).is_data  # QoS data


# Decryption ----------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", STATIC)
def test_right_key_shows_what_is_inside(policy: str) -> None:
    """With the key every wholly captured frame shows addresses; without it none does."""
    clear, opened = (
        [p for p in recorded(policy, "auth-air", key) if p.is_data and p.protected]
        for key in ("", WEP_KEY))
    assert len(clear) == len(opened) >= 4
    assert not any(p.ip_src or p.arp_opcode for p in clear)
    assert all(p.ip_src or p.arp_opcode or p.is_eapol for p in opened)
    assert [p.wep_iv for p in clear] == [p.wep_iv for p in opened]


@pytest.mark.parametrize("key", ["00" * 13, WEP_KEY[:-1] + "1", WEP_KEY[:10]])
def test_wrong_key_shows_nothing(key: str) -> None:
    """A key that is wrong, wrong by a digit or too short opens no frame."""
    frames = [p for p in dissection.read_packets(path("P7", "auth-air"), [f"wep:{key}"])
              if p.is_data and p.protected]
    assert frames
    assert not any(p.ip_src or p.arp_opcode is not None for p in frames)


def test_static_key_does_not_open_frames_under_eap_keys() -> None:
    """P8's frames stay closed to the key of P7: its keys came from EAP."""
    opened = [p for p in recorded("P8", "auth-air", WEP_KEY) if p.is_data and p.protected]
    assert opened
    assert not any(p.ip_src or p.arp_opcode is not None for p in opened)


def test_truncated_frames_are_not_whole_and_do_not_decrypt() -> None:
    """What the snap length cut is told from what was captured whole, and cannot be decrypted."""
    frames = [p for p in recorded("P2", "traffic-air", WEP_KEY) if p.is_data and p.protected]
    cut = [p for p in frames if not p.is_whole]
    whole = [p for p in frames if p.is_whole]
    assert cut
    assert whole
    assert all(p.captured <= 192 for p in cut)
    assert not any(p.ip_src for p in cut)
    assert all(p.ip_src or p.arp_opcode for p in whole)


# Failures ------------------------------------------------------------------------------------


def test_missing_file_is_named(tmp_path: Path) -> None:
    """A capture that is not there is a MeasureError that names it."""
    with pytest.raises(MeasureError, match=r"tshark cannot read .*none\.pcap") as caught:
        dissection.read_packets(tmp_path / "none.pcap")
    assert caught.value.stage == "testbed"
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize("cut_at", [30, 500, -1])
def test_capture_cut_short_is_named(cut_at: int, tmp_path: Path) -> None:
    """A file that ends within a packet, as of a killed guest, is refused, not taken in part."""
    file = tmp_path / "half.pcap"
    file.write_bytes(path("P12", "auth-mn").read_bytes()[:cut_at])
    with pytest.raises(MeasureError, match=r"cannot read .*half\.pcap.*cut short"):
        dissection.read_packets(file)


def test_capture_that_mergecap_takes_in_part_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Newer ones complain of a file that is cut short, and succeed."""
    real = shutil.which("mergecap")
    newer = tmp_path / "mergecap"
    newer.write_text("#!/bin/sh\necho 'mergecap: The file \"half.pcap\" appears to have been cut "
                     f"short in the middle of a packet.' >&2\nexec {real} \"$@\"\n")
    newer.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    with pytest.raises(MeasureError, match=r"cannot read .*half\.pcap.*cut short"):
        dissection.read_packets(path("P1", "auth-mn"))


@pytest.mark.parametrize("content", [b"", b"junk\n", b"{}", b"\xd4\xc3"])
def test_file_that_is_no_capture_is_named(content: bytes, tmp_path: Path) -> None:
    """A file of something else is refused by name, not read as a capture without packets."""
    file = tmp_path / "junk.pcap"
    file.write_bytes(content)
    with pytest.raises(MeasureError, match=r"junk\.pcap"):
        dissection.read_packets(file)


def test_capture_without_packets_is_fine(tmp_path: Path) -> None:
    """Nothing heard is a finding, not a failure."""
    file = tmp_path / "quiet.pcap"
    file.write_bytes(pcap([]))
    assert dissection.read_packets(file) == []


def test_without_tshark_the_error_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No tshark on the PATH: one line, with the remedy."""
    nice = shutil.which("nice")
    assert nice is not None
    (tmp_path / "nice").symlink_to(nice)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MeasureError, match=r"tshark is missing; .*qop doctor") as caught:
        dissection.read_packets(path("P1", "auth-mn"))
    assert len(str(caught.value).splitlines()) == 1


def test_with_an_empty_path_the_error_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing at all on the PATH is no traceback either."""
    monkeypatch.setenv("PATH", "")
    with pytest.raises(MeasureError, match="missing"):
        dissection.read_packets(path("P1", "auth-mn"))


def test_slow_tshark_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tshark that hangs ends in an error that names file and limit, not in a hang."""
    slow = tmp_path / "tshark"
    slow.write_text("#!/bin/sh\nexec sleep 30\n")
    slow.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    with pytest.raises(MeasureError, match=r"more than 0\.2 s for .*auth-mn\.pcap"):
        dissection.read_packets(path("P1", "auth-mn"), timeout_s=0.2)


def test_without_mergecap_the_error_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Tshark alone, as of a damaged installation, is not taken for captures without packets."""
    for tool in ("nice", "tshark"):
        found = shutil.which(tool)
        assert found is not None
        (tmp_path / tool).symlink_to(found)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MeasureError, match=r"mergecap is missing; .*qop doctor"):
        dissection.read_packets(path("P1", "auth-mn"))


def test_tshark_that_stops_early_is_no_end_of_the_captures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Tshark's own complaint is told, not that of mergecap, which then has nobody to write to."""
    big = tmp_path / "big.pcap"
    big.write_bytes(pcap([bytes(1000)] * 1000))  # more than a pipe holds
    broken = tmp_path / "tshark"
    broken.write_text("#!/bin/sh\necho no memory >&2\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    with pytest.raises(MeasureError, match=r"cannot read .*big\.pcap: no memory"):
        dissection.read_packets(big)


def test_slow_mergecap_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A mergecap that hangs is ended, too, and all captures are spoken of."""
    slow = tmp_path / "mergecap"
    slow.write_text("#!/bin/sh\nexec sleep infinity\n")
    slow.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    files = [path("P1", capture) for capture in captures("P1")]
    with pytest.raises(MeasureError, match=r"more than 0\.2 s for .*auth-air\.pcap and 5 more"):
        dissection.read_all_packets(files, timeout_s=0.2)


@pytest.mark.parametrize(("recording", "capture"), [("P12-R1", "auth-wire"), ("P8", "auth-wire")])
def test_nothing_is_missed_without_tsharks_files(
    recording: str, capture: str, monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Neither a dictionary of RADIUS nor any other file of its own tells tshark of a field."""
    without = dissection.read_packets(path(recording, capture))
    monkeypatch.setattr(tshark, "ENVIRONMENT", tshark.UNCONFIGURED)
    assert dissection.read_packets(path(recording, capture)) == without
    assert any(p.radius_code for p in without)
    assert any(p.eap_code for p in without)


@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("setpriv") is None,
                    reason="only root has rights to give up, by setpriv")
def test_root_gives_up_its_rights_for_tshark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Captures hold what others sent, so tshark reads them as nobody, and heeds its settings."""
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder, "tshark")
        program.write_text(
            "#!/bin/sh\necho user $(id -u), groups $(id -G), $WIRESHARK_DATA_DIR >&2\nexit 1\n")
        for place in (program, program.parent):
            place.chmod(0o755)
        monkeypatch.setenv("PATH", folder, prepend=os.pathsep)
        with pytest.raises(MeasureError, match="user 65534, groups 65534, /nonexistent"):
            dissection.read_packets(path("P1", "auth-mn"))


def test_a_users_own_preferences_do_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A protocol that somebody disabled in Wireshark is dissected here all the same."""
    (tmp_path / "disabled_protos").write_text("icmp\n")
    monkeypatch.setenv("WIRESHARK_CONFIG_DIR", str(tmp_path))
    assert any(p.icmp_type for p in dissection.read_packets(path("P1", "auth-mn")))


# Several captures ----------------------------------------------------------------------------


@pytest.mark.parametrize(("recording", "names"), [
    ("P4", ["auth-mn", "auth-air"]),
    ("P12-R1", ["auth-mn", "auth-air", "auth-wire", "auth-foreign", "traffic-core"])])
def test_captures_read_at_once_are_what_each_is_alone(recording: str, names: list[str]) -> None:
    """EAP-TLS, RADIUS and IKE, seen at several points, do not change what any point shows."""
    key = WEP_KEY if has_static_key(policy_of(recording)) else ""
    keys = [f"wep:{key}"] if key else []
    for name in names:
        assert tuple(dissection.read_packets(path(recording, name),
                                             keys)) == recorded(recording, name, key)


def test_captures_keep_apart_whatever_their_stamps_and_links(tmp_path: Path) -> None:
    """Micro- and nanoseconds, radio and Ethernet, none and repeated packets, later before earlier.

    The order is that of the files, and no packet changes its file.
    """
    frame = data_frame(bytes([0, 1, 2, 0]))
    nano = bytearray(pcap([frame, frame]))
    nano[:4] = (0xA1B23C4D).to_bytes(4, "little")
    contents = {"late": pcap([frame] * 3).replace(b"\1\0\0\0\0\0\0\0", b"\2\0\0\0\0\0\0\0", 1),
                "none": pcap([]), "nano": bytes(nano),
                "wired": pcap([bytes(60)], link_type=made_up_captures.ETHERNET)}
    for name, content in contents.items():
        (tmp_path / f"{name}.pcap").write_bytes(content)
    late, none, fine, wired = dissection.read_all_packets([tmp_path / f"{name}.pcap" for name
                                                           in contents])
    assert [p.time_s for p in late] == [2.0, 1.000001, 1.000002]
    assert none == []
    assert [p.time_s for p in fine] == [1.0, 1.000000001]
    assert [(p.ethernet_src, p.subtype) for p in wired] == [("00:00:00:00:00:00", None)]
    assert {p.transmitter for p in (*late, *fine)} == {MAC}
    assert dissection.read_all_packets([]) == []


SPOILT = [(pcap([bytes(60)] * 3)[:-1], "cut short"), (pcap([])[:20], "cut short"),
          (pcap([]) + b"\xff" * 600, "damaged"), (b"", "not a pcap file"),
          (b"\x0a\x0d\x0d\x0a" + bytes(60), "not a pcap file")]


@pytest.mark.parametrize(("spoilt", "content", "complaint"), [
    *(("second", *each) for each in SPOILT),
    *((place, *SPOILT[2]) for place in ("first", "third"))], ids=range(7))
def test_the_spoilt_one_of_several_captures_is_named(
    spoilt: str, content: bytes, complaint: str, tmp_path: Path,
) -> None:
    """One bad file is enough to refuse all, and the error says which it is, in one line."""
    files = [tmp_path / f"{name}.pcap" for name in ("first", "second", "third")]
    for file in files:
        file.write_bytes(content if file.stem == spoilt else pcap([bytes(60)] * 3))
    with pytest.raises(MeasureError, match=f"cannot read .*{spoilt}\\.pcap.*{complaint}") as caught:
        dissection.read_all_packets(files)
    assert len(str(caught.value).splitlines()) == 1
    assert sum(file.name in str(caught.value) for file in files) == 1


def test_iperf_datagrams_keep_their_ports() -> None:
    """What is not dissected further still shows who sent it to whom."""
    found = [p for p in recorded("P1", "traffic-peer") if p.ip_proto == UDP]
    assert {p.udp_dst for p in found} == {iperf.PORT}
    assert all(p.udp_src and p.ip_src == ADDRESS and p.ip_dst == PEER for p in found)


@pytest.mark.parametrize("recording", ["P1", "P5"])
def test_datagrams_are_what_tshark_says_that_they_are(recording: str) -> None:
    """In every attribute; the dissector is spared, which takes as long as for any packet."""
    capture = path(recording, "traffic-peer")
    plain, told = tshark.read_datagrams(capture), dissection.read_packets(capture)
    assert plain
    assert {packet.udp_dst for packet in plain} == {iperf.PORT}
    assert [dataclasses.replace(packet, time_s=0) for packet in plain] == [
        dataclasses.replace(packet, time_s=0) for packet in told]
    assert [packet.time_s for packet in plain] == pytest.approx(
        [packet.time_s for packet in told], rel=0, abs=1e-6)


def test_what_is_no_datagram_is_a_packet_all_the_same(tmp_path: Path) -> None:
    """So that a capture has as many as were counted; a datagram's first fragment is one of it."""
    first = bytes.fromhex("020000000001" "020000000002" "0800"
                          "4500001c" "00012000" "40110000" "0a000001" "0a000002"
                          "c0001451" "00080000")
    later = first[:20] + b"\0\1" + first[22:]
    capture = tmp_path / "traffic-peer.pcap"
    capture.write_bytes(pcap([first, later, first[:12] + b"\x08\x06" + bytes(28)], 1))
    assert [packet.udp_dst for packet in tshark.read_datagrams(capture)] == [0x1451, None, None]


@pytest.mark.parametrize("content", [b"", b"GIF89a", bytes(64)])
def test_datagrams_of_a_file_that_is_no_capture(content: bytes, tmp_path: Path) -> None:
    """It is named, as it is for the dissector."""
    capture = tmp_path / "traffic-peer.pcap"
    capture.write_bytes(content)
    with pytest.raises(MeasureError, match="traffic-peer"):
        tshark.read_datagrams(capture)


def test_segments_of_tcp_keep_their_addresses(tmp_path: Path) -> None:
    """TCP is not dissected, but what carries it is."""
    segment = struct.pack(">HHIIHHHH", 40000, iperf.PORT, 1, 1, 0x5010, 65535, 0, 0) + bytes(40)
    header = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 20 + len(segment), 1, 0, 64, TCP, 0,
                         bytes([10, 1, 0, 12]), bytes([10, 1, 0, 1]))
    file = tmp_path / "x.pcap"
    file.write_bytes(pcap([bytes.fromhex("02000000a000 02000000a200 0800") + header + segment],
                          link_type=made_up_captures.ETHERNET))
    (found,) = dissection.read_packets(file)
    assert (found.ip_src, found.ip_dst, found.ip_proto) == (ADDRESS, "10.1.0.1", TCP)
    assert (found.ethernet_src, found.udp_dst, found.length) == (MAC, None, 94)


# Columns -------------------------------------------------------------------------------------


def test_short_and_empty_lines() -> None:
    """Columns that a line lacks are absent values; an empty line is no packet."""
    assert tshark.parse_packets("") == []
    packet = tshark.parse_packets("1.5\t60\n\n")[0]
    assert (packet.time_s, packet.length, packet.captured) == (1.5, 60, 0)
    assert (packet.subtype, packet.ip_src, packet.tls_handshakes, packet.protected) \
        == (None, "", (), False)
    assert not packet.is_data
    assert not packet.is_eapol
    assert not packet.is_isakmp


def test_first_of_several_occurrences_counts() -> None:
    """Of a packet in a packet (ICMP's quotation, RADIUS's EAP) the outer value is taken."""
    shown = {"frame.time_epoch": "2.0", "frame.len": "60", "ip.src": "10.1.0.1,10.9.9.9",
             "ip.dst": "10.1.0.12,10.8.8.8", "ip.proto": "1,17"}
    columns = [shown.get(field, "") for field in tshark.PACKET_FIELDS]
    packet = tshark.parse_packets("\t".join(columns))[0]
    assert (packet.ip_src, packet.ip_dst, packet.ip_proto) == ("10.1.0.1", "10.1.0.12", 1)


def test_packets_alike_but_for_time_and_counter() -> None:
    """Of lines that differ in time and counter alone, each keeps its own; other columns count."""
    columns = dict.fromkeys(tshark.PACKET_FIELDS, "") | {"frame.len": "60"}
    lines = [columns | {"frame.time_epoch": str(n), "wlan.wep.iv": f"0x{n}"} for n in range(3)]
    lines.append(lines[1] | {"ip.src": "10.1.0.1"})
    lines.append(lines[0] | {"wlan.wep.iv": "", "wlan.tkip.extiv": "0x7"})
    lines.append(lines[0] | {"wlan.wep.iv": "", "wlan.ccmp.extiv": "0x8"})
    found = tshark.parse_packets("\n".join("\t".join(line.values()) for line in lines))
    assert [(p.time_s, p.wep_iv, p.tkip_iv or p.ccmp_iv, p.ip_src) for p in found] == [
        (0, "0x0", "", ""), (1, "0x1", "", ""), (2, "0x2", "", ""), (1, "0x1", "", "10.1.0.1"),
        (0, "", "0x7", ""), (0, "", "0x8", "")]
    assert found[0] == dataclasses.replace(found[1], time_s=0, wep_iv="0x0")


def test_answers_to_a_sign_of_life_are_not_decryptable() -> None:
    """A frame of 62 bytes, as idle stations send it, holds an LLC header and nothing to decrypt."""
    frame = next(p for p in recorded("P2", "auth-air", WEP_KEY) if p.is_data and p.protected)
    assert frame.is_decryptable
    assert frame.radiotap_bytes > 0
    short = frame.radiotap_bytes + 24 + 4 + 8 + 4  # radio, MAC, IV, LLC, ICV
    assert not dataclasses.replace(frame, length=short, captured=short).is_decryptable


@pytest.mark.parametrize("tool", ["mergecap", "tshark"])
@pytest.mark.parametrize("killings", [1, 2])
def test_killed_program_is_run_once_more(tool: str, killings: int, tmp_path: Path,
                                         monkeypatch: pytest.MonkeyPatch) -> None:
    """The captures are as they were, so a second try gives the same packets."""
    capture = tmp_path / "air.pcap"
    capture.write_bytes(pcap([data_frame(bytes(8))]))
    before = tshark.read_uncorrected([capture])
    program = tmp_path / tool
    program.write_text(f"#!/bin/sh\necho >>{tmp_path}/started\n"
                       f"[ $(wc -l <{tmp_path}/started) -gt {killings} ] || kill -9 $$\n"
                       f'exec {shutil.which(tool)} "$@"\n')
    program.chmod(0o755)
    tmp_path.chmod(0o777)
    (tmp_path / "started").touch()
    (tmp_path / "started").chmod(0o666)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    if killings == 1:
        assert tshark.read_uncorrected([capture]) == before
    else:
        with pytest.raises(MeasureError, match=f"{tool} was killed .* is memory short"):
            tshark.read_uncorrected([capture])


# What Wireshark writes for flags ---------------------------------------------------------------


@pytest.mark.parametrize(("column", "expected"), [
    ("", False), ("0", False), ("1", True), ("False", False), ("True", True),
    ("True,False", True), ("0,1", False)])
def test_flags_of_both_versions(column: str, expected: bool) -> None:
    """Wireshark 4.0 writes numbers, and 4.4 writes words."""
    assert tshark.is_set(column) == expected


def test_no_flag_is_read_as_a_number() -> None:
    """With Wireshark 4.4 that would fail at the first packet that has the flag."""
    listed = subprocess.run(["tshark", "-G", "fields"], capture_output=True, text=True, check=True)
    fields = [line.split("\t") for line in listed.stdout.splitlines() if line.startswith("F\t")]
    flags = {field[2] for field in fields if field[3] == "FT_BOOLEAN"}
    text = "".join(file.read_text() for room in ("measure", "studies")
                   for file in sorted((PROJECT / room).rglob("*.py")))
    used = flags & set(re.findall(r'"([a-z0-9_]+(?:\.[a-z0-9_]+)+)"', text))
    assert "wlan.fc.protected" in used, "tshark's list has another form"
    assert not [name for name in used if re.search(
        rf'(\bint|parse_numbers?|get_numbers?)\([^()]*"{re.escape(name)}"', text)]
