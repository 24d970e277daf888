"""Packets of a capture as plain values, dissected by tshark outside the machine."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from measure.errors import MeasureError

# One field a column, in the order of `Packet`'s attributes.
_FIELDS = ("frame.time_epoch", "frame.len", "wlan.fc.type_subtype", "wlan.ta", "wlan.da",
           "wlan.fc.protected", "wlan.wep.iv", "wlan.ccmp.extiv", "wlan.rsn.pcs.type",
           "wlan.rsn.akms.type", "eapol.type", "eap.code", "eap.type", "eapol.keydes.type",
           "tls.handshake.type", "radius.code", "arp.opcode", "icmp.type", "ip.src", "ip.dst",
           "ip.proto", "udp.srcport", "udp.dstport", "isakmp.exchangetype", "esp.spi", "eth.src",
           "frame.cap_len", "mip.type", "mip.code", "mip.coa", "wlan.tkip.extiv",
           "wlan.wfa.ie.wpa.ucs.type", "wlan.wfa.ie.wpa.akms.type", "llc.dsap", "radiotap.length")
# First bytes of a pcap file: either byte order, stamps in micro- or nanoseconds. Tshark takes any
# file for something, and an empty one for a capture of nothing.
_MAGIC = frozenset(bytes.fromhex(word) for word in ("d4c3b2a1", "a1b2c3d4", "4d3cb2a1", "a1b23c4d"))

DATA_SUBTYPES = frozenset({0x20, 0x28})
PROBE_SUBTYPES = frozenset({0x04, 0x05})
AUTHENTICATION_SUBTYPE = 0x0B
ASSOCIATION_SUBTYPES = frozenset({0x00, 0x01, 0x02, 0x03})
EAP_SUCCESS, EAP_FAILURE = 3, 4
EAPOL_EAP, EAPOL_KEY = 0, 3
ESP, IP_IN_IP = 50, 4
ECHO_REPLY, AGENT_ADVERTISEMENT, AGENT_SOLICITATION = 0, 9, 10
REGISTRATION_REQUEST, REGISTRATION_REPLY = 1, 3
REGISTRATION_ACCEPTED = (0, 1)
_NOT_FOUND = 127
_MAC_HEADER_BYTES = 24
_LEAST_DECRYPTED_BYTES = 17  # Wireshark's DOT11DECRYPT_CRYPTED_DATA_MINLEN


@dataclass(frozen=True)
class Packet:
    """One packet; what it does not have is None (numbers), "" (addresses) or () (lists)."""

    time_s: float
    length: int
    subtype: int | None
    transmitter: str
    receiver: str
    protected: bool
    wep_iv: str
    ccmp_iv: str
    rsn_cipher: int | None
    rsn_akm: int | None
    eapol_type: int | None
    eap_code: int | None
    eap_type: int | None
    key_descriptor: int | None
    tls_handshakes: tuple[int, ...]
    radius_code: int | None
    arp_opcode: int | None
    icmp_type: int | None
    ip_src: str
    ip_dst: str
    ip_proto: int | None
    udp_src: int | None
    udp_dst: int | None
    isakmp_exchange: int | None
    esp_spi: str
    ethernet_src: str
    captured: int
    mip_type: int | None = None
    mip_code: int | None = None
    mip_care_of: str = ""
    #: Whether its payload could be read, for a protected frame: whether it was decrypted.
    has_llc: bool = False
    radiotap_bytes: int = 0

    @property
    def is_mobile_ip(self) -> bool:
        """Whether this belongs to agent discovery or to a registration."""
        return self.mip_type is not None or self.icmp_type in (
            AGENT_ADVERTISEMENT, AGENT_SOLICITATION)

    @property
    def is_whole(self) -> bool:
        """Whether the capture kept every byte, as decryption needs."""
        return self.captured == self.length

    @property
    def is_decryptable(self) -> bool:
        """Whether tshark would decrypt this frame with the right key: whole, and not too short.

        Access points ask idle stations for a sign of life; the answer is an LLC header without
        anything behind it, which is less than tshark tries.
        """
        protected = self.length - self.radiotap_bytes - _MAC_HEADER_BYTES
        return self.is_whole and protected >= _LEAST_DECRYPTED_BYTES

    @property
    def is_data(self) -> bool:
        """Whether this is a frame of the air that carries data (no null frame)."""
        return self.subtype in DATA_SUBTYPES

    @property
    def is_eapol(self) -> bool:
        """Whether this is an EAP or EAPOL frame."""
        return self.eapol_type is not None

    @property
    def is_isakmp(self) -> bool:
        """Whether this is a packet of the IKE negotiation."""
        return self.isakmp_exchange is not None


def parse_fields(text: str) -> list[Packet]:
    """Packets from tshark's tab-separated fields, one packet a line."""
    return [_packet(line.split("\t")) for line in text.splitlines() if line.strip()]


def read(capture: Path, wep_key: str = "", timeout_s: float = 120.0) -> list[Packet]:
    """The packets of a capture file; frames under a static WEP key are decrypted with it.

    A frame whose checksum fails after decryption shows no inner addresses.
    Raises MeasureError if tshark is missing or cannot read the file.
    """
    _refuse_others(capture)
    # Nicely: on few cores the next repetition is being measured meanwhile.
    argv = ["nice", "-n", "10", "tshark", "-n", "-r", str(capture), "-T", "fields",
            "-E", "separator=/t", "-E", "occurrence=a", "-E", "aggregator=,"]
    argv += _decryption(wep_key)
    for name in _FIELDS:
        argv += ["-e", name]
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=timeout_s, check=False)
    except FileNotFoundError:
        raise MeasureError("testbed", "nice (of coreutils) is missing; './qop doctor' tells how "
                           "to get it") from None
    except subprocess.TimeoutExpired:
        raise MeasureError("testbed", f"tshark took more than {timeout_s:g} s for {capture}") \
            from None
    if done.returncode == _NOT_FOUND:
        raise MeasureError("testbed", "tshark is missing; './qop doctor' tells how to get it")
    if done.returncode:
        raise MeasureError("testbed", f"tshark cannot read {capture}: "
                           f"{(done.stderr.strip().splitlines() or ['no word'])[-1]}")
    return parse_fields(done.stdout)


def _refuse_others(capture: Path) -> None:
    try:
        with capture.open("rb") as file:
            is_capture = file.read(4) in _MAGIC
    except OSError as error:
        raise MeasureError("testbed", f"tshark cannot read {capture}: {error.strerror}") from None
    if not is_capture:
        raise MeasureError("testbed", f"tshark cannot read {capture}: not a pcap file")


def _decryption(wep_key: str) -> list[str]:
    if not wep_key:
        return ["-o", "wlan.enable_decryption:FALSE"]
    return ["-o", "wlan.enable_decryption:TRUE", "-o", f'uat:80211_keys:"wep","{wep_key}"']


def _packet(columns: Sequence[str]) -> Packet:
    c = [*columns, *[""] * (len(_FIELDS) - len(columns))]
    return Packet(
        time_s=float(c[0]), length=int(c[1]), subtype=_number(c[2]), transmitter=_first(c[3]),
        receiver=_first(c[4]), protected=_first(c[5]) in ("1", "True"), wep_iv=_first(c[6]),
        ccmp_iv=_first(c[7]) or _first(c[30]), rsn_cipher=_number(c[8] or c[31]),
        rsn_akm=_number(c[9] or c[32]),
        eapol_type=_number(c[10]), eap_code=_number(c[11]), eap_type=_number(c[12]),
        key_descriptor=_number(c[13]), tls_handshakes=_numbers(c[14]), radius_code=_number(c[15]),
        arp_opcode=_number(c[16]), icmp_type=_number(c[17]), ip_src=_first(c[18]),
        ip_dst=_first(c[19]), ip_proto=_number(c[20]), udp_src=_number(c[21]),
        udp_dst=_number(c[22]), isakmp_exchange=_number(c[23]), esp_spi=_first(c[24]),
        ethernet_src=_first(c[25]), captured=_number(c[26]) or 0,
        mip_type=_number(c[27]), mip_code=_number(c[28]), mip_care_of=_first(c[29]),
        has_llc=bool(c[33]), radiotap_bytes=_number(c[34]) or 0)


def _first(column: str) -> str:
    return column.partition(",")[0]


def _number(column: str) -> int | None:
    first = _first(column)
    return int(first, 0) if first else None


def _numbers(column: str) -> tuple[int, ...]:
    return tuple(int(entry, 0) for entry in column.split(",") if entry)
