"""Read the frames of any capture file, with the fields that `qop explain` needs.

`read_frames` takes a capture file and decryption keys, runs tshark, and yields a `Frame` for each
packet. It leaves out 802.11 control frames. A `Frame` has the packet as tshark dissects it
(`measure.capture.tshark.Packet`), its number in the file, and further Wireshark fields. Facts on
the file as a whole are collected in `CaptureFacts`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from measure.capture import tshark
from measure.capture.stream import SESSION_FRAMES, CaptureStream
from measure.capture.tshark import Packet
from measure.packets.management_frames import (
    MANAGEMENT_FIELDS,
    ManagementFrame,
    parse_management_frame,
)

#: Flags of headers of radios: the frame was received with errors.
BAD_CHECKSUMS = "radiotap.flags.badfcs", "ppi.80211-common.flags.fcs-invalid"
_FIELDS = (
    "frame.number", "frame.protocols", "wlan.ra", "wlan.sa", "wlan.bssid", "wlan.fc.retry",
    "wlan.fc.pwrmgt",
    "wlan.seq", "wlan.ssid", "wlan.fixed.reason_code", "wlan.fixed.category_code",
    *BAD_CHECKSUMS, "wlan.analysis.pmk", "wlan_radio.channel", "wlan_radio.duration",
    "wlan.qbss.cu", "wlan.fixed.timestamp",
    "eth.dst", "sll.src.eth", "arp.src.proto_ipv4",
    "arp.dst.proto_ipv4",
    "wlan_rsna_eapol.keydes.key_info", "wlan_rsna_eapol.keydes.data_len",
    "eapol.keydes.replay_counter", "eapol.keydes.key_iv",
    "eap.identity", "eap.desired_type", "eap.len", "tls.handshake.version",
    "tls.handshake.extensions.supported_version", "tls.handshake.extension.type",
    "tls.handshake.ciphersuite",
    "tls.handshake.certificate_length", "tls.alert_message.desc",
    "radius.id", "radius.Calling_Station_Id", "udp.checksum", "tcp.seq",
    "dhcp.option.dhcp", "dhcp.hw.mac_addr", "dhcp.id", "dhcp.option.dhcp_server_id",
    "kerberos.msg_type", "kerberos.error_code",
    "kerberos.CNameString", "isakmp.rspi", "isakmp.flags",
    "isakmp.notify.msgtype", "isakmp.version", "isakmp.length", "wg.type")
FIELDS = tuple(dict.fromkeys((*tshark.PACKET_FIELDS, *MANAGEMENT_FIELDS, *_FIELDS)))

_NO_MANAGEMENT = dict.fromkeys(MANAGEMENT_FIELDS, "")
#: Types in the frame control field of 802.11.
_MANAGEMENT = range(0x10)
_GROUP_BIT = 1
#: Bits of an EAPOL-Key frame's key information (IEEE 802.11-2020, 12.7.2).
_PAIRWISE, _INSTALL, _ACK, _MIC, _SECURE, _REQUEST = (
    0x0008, 0x0040, 0x0080, 0x0100, 0x0200, 0x0800)
#: Message numbers for the group key handshake, after those of the four-way handshake.
GROUP_KEY_1, GROUP_KEY_2 = 5, 6


class FrameReference(NamedTuple):
    """A frame as users find it: name of its capture, and its number in the file."""

    capture: str
    number: int

    def to_document(self) -> dict[str, str | int]:
        """Return the reference as part of the document of `qop explain`."""
        return {"capture": self.capture, "frame": self.number}


@dataclass(slots=True)
class Frame:
    """A frame of a capture: where it is, its packet and its columns."""

    reference: FrameReference
    packet: Packet
    columns: dict[str, str]
    #: The same packet in other captures, which had it later.
    later: tuple[Frame, ...] = ()

    @property
    def time_s(self) -> float:
        """Return the capture time in s."""
        return self.packet.time_s

    def get_text(self, name: str) -> str:
        """Return the first value of a field, "" without one."""
        return tshark.first_value(self.columns.get(name, "")).strip('"')

    def get_number(self, name: str) -> int | None:
        """Return the first number of a field, or None."""
        return tshark.parse_number(self.columns.get(name, ""))

    def is_set(self, name: str) -> bool:
        """Return whether a flag is set."""
        return tshark.is_set(self.columns.get(name, ""))

    def get_numbers(self, name: str) -> tuple[int, ...]:
        """Return all numbers of a field."""
        return tshark.parse_numbers(self.columns.get(name, ""))

    @property
    def is_wireless(self) -> bool:
        """Return whether this is an 802.11 frame."""
        return self.packet.subtype is not None

    @property
    def is_management(self) -> bool:
        """Return whether this is an 802.11 management frame."""
        return self.packet.subtype in _MANAGEMENT

    def parse_management(self) -> ManagementFrame:
        """Return the frame as an 802.11 management frame."""
        return parse_management_frame(_NO_MANAGEMENT | self.columns)

    @property
    def source_mac(self) -> str:
        """Return the sender's address on the link: of 802.11, Ethernet or a cooked capture."""
        return (self.packet.transmitter or self.packet.ethernet_src or self.get_text("sll.src.eth"))

    @property
    def source_ip(self) -> str:
        """Return the IP address of the sender, of either version."""
        return self.packet.ip_src

    @property
    def target_ip(self) -> str:
        """Return the IP address of the receiver, of either version."""
        return self.packet.ip_dst

    @property
    def key_message(self) -> int | None:
        """Return which message of a handshake this EAPOL-Key frame is, None for other frames.

        1 to 4 are the messages of the four-way handshake. `GROUP_KEY_1` and `GROUP_KEY_2` are the
        messages of the group key handshake. The second message of the four-way handshake has key
        data, the fourth has none.
        """
        bits = self.get_number("wlan_rsna_eapol.keydes.key_info")
        if bits is None or bits & _REQUEST:
            return None
        from_access_point = bool(bits & _ACK)
        if not bits & _PAIRWISE:
            return GROUP_KEY_1 if from_access_point else GROUP_KEY_2
        if from_access_point:
            return 3 if bits & (_MIC | _INSTALL) else 1  # FILS has no MIC field
        has_data = bool(self.get_number("wlan_rsna_eapol.keydes.data_len"))
        return 2 if has_data and not bits & _SECURE else 4


@dataclass
class CaptureFacts:
    """Facts on a capture file as a whole, which are complete after its last frame.

    - `name`, `frames`: name of the file, and number of frames
    - `first_s`, `last_s`: times of the first and the last frame (s), None without frames
    - `links`: number of frames by kind of link, such as 802.11 or Ethernet
    - `complaint`: tshark's reason if the rest of the file is unreadable, "" otherwise
    """

    name: str
    frames: int = 0
    first_s: float | None = None
    last_s: float | None = None
    #: Frames at which the clock has gone back or forward by more than a second: number and step.
    clock_steps: list[tuple[int, float]] = field(default_factory=list)
    #: Capture time and own clock (s) of each access point at its newest beacon.
    beacon_clocks: dict[str, tuple[float, float]] = field(default_factory=dict, repr=False)
    links: dict[str, int] = field(default_factory=dict)
    #: Frames without a time, and frames whose columns cannot be read.
    unreadable: int = 0
    #: 802.11 frames that were received with errors.
    damaged: int = 0
    complaint: str = ""


#: Time in s by which a capture's clock may go back, as some captures are not in order.
DISORDER_S = 1.0
_MOST_STEPS, _MOST_BEACON_CLOCKS = 100, 1000
#: Time in s after which nobody waits for an access point that is started again.
_LONGEST_RESTART_S = 30 * 86_400
_LINKS = {"wlan": "802.11", "eth": "Ethernet", "sll": "cooked", "raw": "raw IP"}


def read_frames(capture: Path, facts: CaptureFacts, keys: Sequence[str] = (),
                key_files: Mapping[str, Path | bytes] | None = None,
                more_fields: Sequence[str] = (),
                report: Callable[[float], None] | None = None) -> Iterator[Frame]:
    """Yield the frames of a capture file in its order, without 802.11 control frames.

    Frames that were received with errors are counted only.

    Args:
        capture: The capture file, in any format of Wireshark.
        facts: Filled while frames are read.
        keys: Decryption keys of 802.11, as for `measure.capture.dissection`.
        key_files: Files with keys of other protocols, or their content, by tshark's preference.
        more_fields: Names of further columns.
        report: Called with the share of the file that has been read, 0 to 1.

    Raises:
        MeasureError: tshark is missing, or reads nothing of the file.
    """
    names = tuple(dict.fromkeys((*FIELDS, *more_fields)))
    stream = CaptureStream(capture, names, keys, key_files or {}, report=report)
    number, before = 0, 0  # of the newest frame in its session, and of frames in earlier sessions
    for columns in stream.read_columns():
        try:
            last, number = number, int(columns["frame.number"])
            before += SESSION_FRAMES * (number <= last)
            frame = Frame(FrameReference(facts.name, before + number),
                          tshark.packet_from_columns(columns),
                          {name: column for name, column in columns.items() if column})
        except ValueError:  # no time, or a number that is none
            facts.unreadable += 1
            continue
        _count_frame(facts, frame)
        if has_bad_checksum(columns):
            facts.damaged += 1
        else:
            yield frame
    facts.complaint = stream.complaint


def has_bad_checksum(columns: Mapping[str, str]) -> bool:
    """Return whether a frame was received with errors, so that no field of it is right for sure."""
    return any(tshark.is_set(columns.get(name, "")) for name in BAD_CHECKSUMS)


def _count_frame(facts: CaptureFacts, frame: Frame) -> None:
    facts.frames = frame.reference.number
    link = next((_LINKS[name] for name in frame.columns.get("frame.protocols", "").split(":")
                 if name in _LINKS), "another link")
    facts.links[link] = facts.links.get(link, 0) + 1
    if facts.first_s is None or facts.last_s is None:
        facts.first_s = frame.time_s
    elif frame.time_s < facts.last_s - DISORDER_S:
        _add_step(facts, frame.time_s - facts.last_s)
    if frame.is_management and (clock_us := frame.get_number("wlan.fixed.timestamp")):
        _compare_clocks(facts, frame, clock_us / 1e6)
    facts.last_s = frame.time_s


def _add_step(facts: CaptureFacts, step_s: float) -> None:
    if len(facts.clock_steps) < _MOST_STEPS:
        facts.clock_steps.append((facts.frames, step_s))


def _compare_clocks(facts: CaptureFacts, frame: Frame, clock_s: float) -> None:
    """Find steps forward of the capture's clock, by the clock of an access point in its beacons.

    The access point's clock (IEEE 802.11-2020, 11.1.3.1) starts at 0 when it starts. Where it shows
    less than the time since the beacon before, the access point may have been started again. Then
    nothing is known of the capture's clock.
    """
    clocks, sender = facts.beacon_clocks, frame.packet.transmitter
    before = clocks.get(sender)
    if before is None and len(clocks) >= _MOST_BEACON_CLOCKS:
        return
    clocks[sender] = frame.time_s, clock_s
    if before is None or clock_s < before[1]:
        return
    passed_s, own_s = frame.time_s - before[0], clock_s - before[1]
    is_restarted = clock_s < passed_s < _LONGEST_RESTART_S
    if passed_s - own_s > DISORDER_S and not is_restarted:
        _add_step(facts, passed_s - own_s)
        clocks.clear()  # those of other access points are of the time before the step, too
        clocks[sender] = frame.time_s, clock_s


def is_group_address(mac: str) -> bool:
    """Return whether a MAC address is a multicast or broadcast address, or is empty ("")."""
    return not mac or bool(int(mac[:2], 16) & _GROUP_BIT)
