"""Dissect captures with tshark outside the machine, into packets of plain values."""

from __future__ import annotations

import functools
import os
import shutil
import signal
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from measure import iperf, pcap, ready, suites
from measure.air_header import MAC_HEADER_BYTES
from measure.errors import MeasureError

# Fields of the chosen IKE proposal, in the order that `suites` takes them.
_IKE_1 = ("isakmp.ike.attr.encryption_algorithm", "isakmp.ike.attr.hash_algorithm",
          "isakmp.ike.attr.group_description", "isakmp.ike.attr.key_length")
_IKE_2 = ("isakmp.tf.id.encr", "isakmp.tf.id.integ", "isakmp.tf.id.prf", "isakmp.tf.id.dh",
          "isakmp.ike2.attr.key_length", "isakmp.tf.type", "isakmp.tf.id")
# One field per column: the time, then fields that many packets share, then counters.
_COMMON = ("frame.len", "wlan.fc.type_subtype", "wlan.ta", "wlan.da", "wlan.fc.protected",
           "wlan.rsn.pcs.type", "wlan.wfa.ie.wpa.ucs.type", "wlan.rsn.akms.type",
           "wlan.wfa.ie.wpa.akms.type", "wlan.wfa.ie.wpa.type", "eapol.type", "eap.code",
           "eap.type", "eapol.keydes.type",
           "tls.handshake.type", "radius.code", "arp.opcode", "icmp.type", "ip.src", "ip.dst",
           "ip.proto", "udp.srcport", "udp.dstport", "isakmp.exchangetype", "esp.spi", "eth.src",
           "frame.cap_len", "mip.type", "mip.code", "mip.coa", "llc.dsap", "radiotap.length",
           "eap.id", *_IKE_1, *_IKE_2, "ip.len", "wlan.fixed.mesh_ttl", "isakmp.ispi",
           "isakmp.messageid", "isakmp.nextpayload")
_COUNTERS = ("wlan.wep.iv", "wlan.ccmp.extiv", "wlan.tkip.extiv")
_FIELDS = ("frame.time_epoch", *_COMMON, *_COUNTERS)
# No column needs TCP or iperf3's payload, whose dissection would take most of the time.
_LEFT_OUT = ("--disable-protocol", "tcp", "-d", f"udp.port=={iperf.PORT},data")
# Ethernet, IPv4 without options, UDP.
_HEAD_BYTES = 14 + 20 + 8
# First bytes of a pcap file, in either byte order and for micro- or nanoseconds. Without this check
# tshark accepts any file as some format, and an empty file as a capture without packets.
_MAGIC = frozenset(bytes.fromhex(word) for word in ("d4c3b2a1", "a1b2c3d4", "4d3cb2a1", "a1b23c4d"))

DATA_SUBTYPES = frozenset({0x20, 0x28})
PROBE_SUBTYPES = frozenset({0x04, 0x05})
AUTHENTICATION_SUBTYPE = 0x0B
ASSOCIATION_SUBTYPES = frozenset({0x00, 0x01, 0x02, 0x03})
EAP_REQUEST, EAP_SUCCESS, EAP_FAILURE = 1, 3, 4
EAPOL_EAP, EAPOL_KEY = 0, 3
ESP, IP_IN_IP = 50, 4
ECHO_REPLY, ECHO_REQUEST, AGENT_ADVERTISEMENT, AGENT_SOLICITATION = 0, 8, 9, 10
REGISTRATION_REQUEST, REGISTRATION_REPLY = 1, 3
REGISTRATION_ACCEPTED = (0, 1)
#: Exit statuses of a killed program: its own, and by a shell's convention.
_KILLED = (-signal.SIGKILL, -signal.SIGTERM, 128 + signal.SIGKILL, 128 + signal.SIGTERM)
#: The first exchange type of IKEv2 (RFC 7296, 3.1).
_FIRST_OF_IKE_2 = 34
#: Exit status of a shell or of nice if the program does not exist.
NOT_FOUND = 127
_LEAST_DECRYPTED_BYTES = 17  # Wireshark's DOT11DECRYPT_CRYPTED_DATA_MINLEN
# On few cores, the next repetition is measured at the same time.
_NICELY = ("nice", "-n", "10")
#: A user's own preferences could hide columns and disable protocols.
UNCONFIGURED = {"WIRESHARK_CONFIG_DIR": "/nonexistent"}
# No column shows names of manufacturers, enterprises and services. Reading them, twice, is half of
# tshark's work before the first packet. tshark heeds this variable only if it does not run as root.
_NAMELESS = {"WIRESHARK_DATA_DIR": "/nonexistent", "WIRESHARK_PLUGIN_DIR": "/nonexistent"}
#: Environment variables of tshark in addition to the process's own.
ENVIRONMENT = UNCONFIGURED | _NAMELESS
_AS_NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
_TAB = "\t"
_TABS = _TAB * (len(_FIELDS) - 1)


@dataclass(slots=True)  # frozen would take three times as long to create
class Packet:
    """A dissected packet.

    Missing numbers are None, missing addresses "" and missing lists ().
    """

    time_s: float
    wep_iv: str
    ccmp_iv: str
    length: int
    subtype: int | None
    transmitter: str
    receiver: str
    protected: bool
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
    #: Whether the payload was readable; for a protected frame: whether it was decrypted.
    has_llc: bool = False
    radiotap_bytes: int = 0
    #: Proposed or chosen IKE suite in strongSwan's syntax; "" if not visible.
    ike_suite: str = ""
    eap_id: int | None = None
    #: Length of the outermost IP packet with its header.
    ip_bytes: int = 0
    #: Whether tshark took the frame for a mesh frame; these networks have none.
    is_mesh: bool = False
    #: Fields of an IKE message: initiator SPI, message ID, and type of the first payload.
    ike_spi: str = ""
    ike_number: int | None = None
    ike_payload: int | None = None
    tkip_iv: str = ""

    @property
    def ike_message_key(self) -> tuple[object, ...]:
        """Return a key that an IKE message shares with its retransmissions only.

        In IKEv2 that is the message ID. A request has the same ID in fragments, with a cookie, or
        with another group (RFC 7296, 2.2 and 2.6; RFC 7383, 2.6). In IKEv1 the message ID
        identifies the exchange; within an exchange, payload type and length identify the message.
        """
        one = self.ethernet_src, self.ike_spi, self.isakmp_exchange, self.ike_number
        return one if (self.isakmp_exchange or 0) >= _FIRST_OF_IKE_2 else (
            *one, self.ike_payload, self.length)

    @property
    def is_mobile_ip(self) -> bool:
        """Return whether the packet belongs to agent discovery or registration."""
        return self.mip_type is not None or self.icmp_type in (
            AGENT_ADVERTISEMENT, AGENT_SOLICITATION)

    @property
    def is_whole(self) -> bool:
        """Return whether the capture kept every byte, which decryption needs."""
        return self.captured == self.length

    @property
    def is_decryptable(self) -> bool:
        """Return whether tshark would decrypt the frame with the right key.

        The frame must be whole and long enough. Access points poll idle stations; the answer is a
        bare LLC header, which is shorter than what tshark tries to decrypt.
        """
        protected = self.length - self.radiotap_bytes - MAC_HEADER_BYTES
        return self.is_whole and protected >= _LEAST_DECRYPTED_BYTES

    @property
    def is_closed_tkip(self) -> bool:
        """Return whether this is a TKIP frame that stayed encrypted.

        tshark decrypts no TKIP frame by its temporal key.
        """
        return (bool(self.tkip_iv) and self.protected and not self.has_llc
                and self.is_decryptable)

    @property
    def is_data(self) -> bool:
        """Return whether this is a data frame with content (no null frame)."""
        return self.subtype in DATA_SUBTYPES

    @property
    def is_eapol(self) -> bool:
        """Return whether this is an EAPOL frame."""
        return self.eapol_type is not None

    @property
    def is_isakmp(self) -> bool:
        """Return whether this packet belongs to the IKE negotiation."""
        return self.isakmp_exchange is not None


def parse_fields(text: str) -> list[Packet]:
    """Parse tshark's tab-separated columns, one packet per line.

    Missing columns count as empty.
    """
    return _parse_lines(line for line in text.splitlines() if line.strip())


def _parse_lines(lines: Iterable[str]) -> list[Packet]:
    """Parse lines of columns, and reuse the values of equal columns.

    Most packets differ only in time and counters.
    """
    packets: list[Packet] = []
    known: dict[str, tuple[Any, ...]] = {}
    for line in lines:
        time, _, rest = f"{line}{_TABS[line.count(_TAB):]}".partition(_TAB)
        common, wep_iv, ccmp_iv, tkip_iv = rest.rsplit(_TAB, len(_COUNTERS))
        values = known.get(common)
        if values is None:
            values = known[common] = _parse_columns(common.split(_TAB))
        packet = Packet(float(time), _first_value(wep_iv), _first_value(ccmp_iv), *values)
        if tkip_iv:
            packet.tkip_iv = _first_value(tkip_iv)
        packets.append(packet)
    return packets


def read_packets(capture: Path, keys: Sequence[str] = (), timeout_s: float = 300.0) -> list[Packet]:
    """Dissect one capture file (see `read_all_packets`)."""
    return read_all_packets([capture], keys, timeout_s)[0]


def read_all_packets(captures: Sequence[Path], keys: Sequence[str] = (),
                     timeout_s: float = 300.0) -> list[list[Packet]]:
    """Dissect capture files and return the packets of each.

    A frame whose ICV fails after decryption shows no inner addresses. One tshark dissects all files
    in order, because its start takes longer than most files. It keeps reassembly state from one
    file to the next; the first file is dissected as if it were alone.

    Args:
        captures: The capture files.
        keys: Decryption keys: `wep:HEX`, `wpa-psk:HEX` (a pairwise master key),
            `wpa-pwd:PASSPHRASE:SSID` or `tk:HEX`.
        timeout_s: Time limit in s.

    Raises:
        MeasureError: A tool is missing, or a file cannot be read.
    """
    packets = read_uncorrected(captures, keys, timeout_s)
    is_told = any(key.startswith("tk:") for key in keys)
    if any(packet.is_mesh or (is_told and packet.is_closed_tkip)
           for seen in packets for packet in seen):
        from measure import reopening  # it imports this module

        reopening.correct_packets(captures, packets, keys)
    return packets


def read_datagrams(capture: Path) -> list[Packet]:
    """Return the packets of an Ethernet capture of UDP datagrams, without tshark.

    The result equals that of `read_packets`. A first fragment counts as a datagram.

    Raises:
        MeasureError: The file is no Ethernet capture.
    """
    check_is_capture(capture)
    known: dict[tuple[bytes, int, int], tuple[Any, ...]] = {}
    packets = []
    for frame in pcap.read_frames(capture):
        head = frame.data[:_HEAD_BYTES]
        # All header bytes but the packet's ID and checksums, which differ between packets.
        key = head[:18] + head[20:24] + head[26:40], frame.wire_bytes, len(frame.data)
        values = known.get(key)
        if values is None:
            values = known[key] = _parse_columns([_datagram_columns(frame).get(name, "") for name
                                                  in _COMMON])
        packets.append(Packet(frame.at_s, "", "", *values))
    return packets


def _datagram_columns(frame: pcap.CapturedFrame) -> dict[str, str]:
    """Return the columns of a UDP datagram, or else of a plain frame."""
    columns = {"frame.len": str(frame.wire_bytes), "frame.cap_len": str(len(frame.data)),
               "eth.src": frame.data[6:12].hex(":")}
    udp = pcap.parse_udp_header(frame)
    if udp is None:
        return columns
    return columns | {"ip.src": udp.source, "ip.dst": udp.target, "ip.proto": str(pcap.UDP),
                      "udp.srcport": str(udp.source_port), "udp.dstport": str(udp.target_port),
                      "ip.len": str(udp.ip_bytes)}


class _KilledError(MeasureError):
    """An error: a program that read captures was killed."""


def read_uncorrected(captures: Sequence[Path], keys: Sequence[str] = (),
                     timeout_s: float = 300.0) -> list[list[Packet]]:
    """Dissect capture files without the correction of mesh frames (see `read_all_packets`)."""
    for capture in captures:
        check_is_capture(capture)
    if not captures:
        return []
    try:
        try:
            text = _run_tshark(captures, keys, timeout_s)
        except _KilledError:  # out of memory, or killed by hand; the captures are unchanged
            text = _run_tshark(captures, keys, timeout_s)
    except FileNotFoundError:
        raise MeasureError("testbed", "nice (of coreutils) is missing; './qop doctor' tells how "
                           "to get it") from None
    except subprocess.TimeoutExpired:
        more = f" and {len(captures) - 1} more" if len(captures) > 1 else ""
        raise MeasureError("testbed", f"tshark took more than {timeout_s:g} s for {captures[0]}"
                           f"{more}") from None
    lines: list[list[str]] = [[] for _ in captures]
    for line in text.splitlines():
        capture_index, _, columns = line.partition(_TAB)
        lines[int(capture_index)].append(columns)
    return [_parse_lines(entry) for entry in lines]


def _run_tshark(captures: Sequence[Path], keys: Sequence[str], timeout_s: float) -> str:
    """Return lines of `_FIELDS` for all packets in file order, each with its file's index."""
    # Appended, not sorted by time: packets stay in file order, and the first file sees no earlier
    # state. Without merged interfaces, a packet's interface ID is the index of its file.
    with subprocess.Popen([*_NICELY, "mergecap", "-a", "-I", "none", "-w", "-",
                           *map(str, captures)], text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE) as merging:
        assert merging.stdout is not None
        assert merging.stderr is not None
        try:
            done = ready.run_tshark(_column_command(), decryption_options(keys)[1::2],
                                    merging.stdout,
                                    environment=os.environ | ENVIRONMENT, timeout_s=timeout_s)
        except BaseException:
            merging.kill()  # tshark may be waiting for it
            raise
        finally:
            merging.stdout.close()  # ends mergecap if tshark did not read all
        complaint = merging.stderr.read()
    for tool, status in (("tshark", done.returncode), ("mergecap", merging.returncode)):
        if status == NOT_FOUND:
            raise MeasureError("testbed", f"{tool} is missing; './qop doctor' tells how to get it")
        if status in _KILLED:
            raise _KilledError("testbed", f"{tool} was killed while it read captures, and killed "
                               "again when that was tried once more; is memory short?")
    if merging.returncode and not (merging.returncode == -signal.SIGPIPE and done.returncode):
        said = " ".join(complaint.split()).removeprefix("mergecap: ") or "mergecap failed"
        raise MeasureError("testbed", f"tshark cannot read a capture: {said}")
    if done.returncode:
        raise MeasureError("testbed", f"tshark cannot read {', '.join(map(str, captures))}: "
                           f"{(done.stderr.strip().splitlines() or ['no word'])[-1]}")
    return done.stdout


def _column_command() -> list[str]:
    """Return the tshark command without keys.

    Custom columns contain the values of -T fields, but tshark formats no texts for other fields.
    """
    columns = ",".join(f'"{name}","%Cus:{name}:0:U"' for name in ("frame.interface_id", *_FIELDS))
    return [*_NICELY, *tshark_command(), "-n", "-r", "-", "-T", "tabs", "-o",
            f"gui.column.format:{columns}", *_LEFT_OUT]


def tshark_command() -> Sequence[str]:
    """Return the command prefix that starts tshark as an unprivileged user, with `ENVIRONMENT`."""
    return [*_drop_privileges_prefix(shutil.which("tshark")), "tshark"]


@functools.cache
def _drop_privileges_prefix(tshark: str | None) -> Sequence[str]:
    """Return root's command prefix that drops privileges, or nothing if that fails.

    It fails in a container without further user ids, for example. tshark then runs as before, but
    slower.
    """
    if os.geteuid() or tshark is None:
        return ()
    try:
        tried = subprocess.run([*_AS_NOBODY, "test", "-x", tshark], capture_output=True,
                               check=False)
    except FileNotFoundError:
        return ()
    return () if tried.returncode else _AS_NOBODY


def check_is_capture(capture: Path) -> None:
    """Check that a file is a pcap capture.

    Raises:
        MeasureError: The file cannot be read or has another format.
    """
    try:
        with capture.open("rb") as file:
            is_capture = file.read(4) in _MAGIC
    except OSError as error:
        raise MeasureError("testbed", f"tshark cannot read {capture}: {error.strerror}") from None
    if not is_capture:
        raise MeasureError("testbed", f"tshark cannot read {capture}: not a pcap file")


def decryption_options(keys: Sequence[str]) -> list[str]:
    """Return the tshark options that decrypt frames with these keys."""
    if not keys:
        return ["-o", "wlan.enable_decryption:FALSE"]
    pairs = (key.partition(":") for key in keys)
    return ["-o", "wlan.enable_decryption:TRUE", *(
        word for kind, _, value in pairs for word in ("-o", f'uat:80211_keys:"{kind}","{value}"'))]


def _parse_columns(columns: Sequence[str]) -> tuple[Any, ...]:
    """Return the attributes of `Packet` after the counters, from the shared columns."""
    c = dict(zip(_COMMON, columns, strict=True))
    return (
        int(c["frame.len"]), _parse_number(c["wlan.fc.type_subtype"]), _first_value(c["wlan.ta"]),
        _first_value(c["wlan.da"]), _first_value(c["wlan.fc.protected"]) in ("1", "True"),
        _parse_number(c["wlan.rsn.pcs.type"] or c["wlan.wfa.ie.wpa.ucs.type"]),
        # tshark 4.0 and later name the last field differently.
        _parse_number(c["wlan.rsn.akms.type"] or c["wlan.wfa.ie.wpa.akms.type"]
                      or c["wlan.wfa.ie.wpa.type"]),
        *(_parse_number(c[name]) for name
          in ("eapol.type", "eap.code", "eap.type", "eapol.keydes.type")),
        tuple(int(entry, 0) for entry in c["tls.handshake.type"].split(",") if entry),
        *(_parse_number(c[name]) for name in ("radius.code", "arp.opcode", "icmp.type")),
        _first_value(c["ip.src"]), _first_value(c["ip.dst"]),
        *(_parse_number(c[name]) for name in ("ip.proto", "udp.srcport", "udp.dstport",
                                              "isakmp.exchangetype")),
        _first_value(c["esp.spi"]), _first_value(c["eth.src"]), _parse_number(c["frame.cap_len"])
        or 0,
        _parse_number(c["mip.type"]), _parse_number(c["mip.code"]), _first_value(c["mip.coa"]),
        bool(c["llc.dsap"]), _parse_number(c["radiotap.length"]) or 0, _parse_suite(c),
        _parse_number(c["eap.id"]),
        _parse_number(c["ip.len"]) or 0, bool(c["wlan.fixed.mesh_ttl"]),
        _first_value(c["isakmp.ispi"]),
        _parse_number(c["isakmp.messageid"]), _parse_number(c["isakmp.nextpayload"]))


def _parse_suite(c: Mapping[str, str]) -> str:
    first, second = ([c[name] for name in names] for names in (_IKE_1, _IKE_2))
    if first[0]:
        return suites.ikev1_proposal(*first)
    return suites.ikev2_proposal(*second) if second[0] else ""


def _first_value(column: str) -> str:
    return column.partition(",")[0]


def _parse_number(column: str) -> int | None:
    first = _first_value(column)
    return int(first, 0) if first else None
