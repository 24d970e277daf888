"""Dissect capture files with tshark, and return their packets as `Packet` objects.

Checks use these packets to prove which protection was used. `read_uncorrected` takes capture files
and decryption keys, and returns a list of packets for each file. Checks call it through
`measure.capture.dissection`, which repairs some errors of tshark 4.0. `read_fields` returns any
Wireshark fields of packets that pass a display filter. Further functions convert tshark's numbers
to strongSwan's proposals (`ikev2_proposal`), or build tshark's command line. The module runs on the
host, not in the guest.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from measure.agent.errors import MeasureError
from measure.capture import pcap, tshark_server
from measure.capture.pcap import MAC_HEADER_BYTES
from measure.services import iperf

# --- Cryptographic suites in strongSwan's proposal syntax ---
# They are made from numbers in IKE messages, and compared with the kernel's names.

#: IKEv1 (RFC 2409 and IANA's registry); key sizes are added where a cipher has several.
_CIPHERS_1 = {"5": "3des", "7": "aes"}
_HASHES_1 = {"1": "md5", "2": "sha1", "4": "sha256", "5": "sha384", "6": "sha512"}
#: IKEv2 (RFC 7296 and IANA's registry).
_CIPHERS_2 = {"3": "3des", "12": "aes", "20": "aes{}gcm16", "28": "chacha20poly1305"}
_INTEGRITY_2 = {"1": "md5", "2": "sha1", "12": "sha256", "13": "sha384", "14": "sha512"}
_PRFS_2 = {"1": "prfmd5", "2": "prfsha1", "5": "prfsha256", "6": "prfsha384", "7": "prfsha512"}
_GROUPS = {"1": "modp768", "2": "modp1024", "5": "modp1536", "14": "modp2048", "15": "modp3072",
           "16": "modp4096", "19": "ecp256", "20": "ecp384", "21": "ecp521", "31": "curve25519",
           "36": "mlkem768"}
#: Transform type of an additional key exchange (RFC 9370, 3).
_FIRST_ADDITIONAL = "6"
#: The kernel's algorithm and its key size in bits, 0 if it has one size only. Some keys include a
#: salt (RFC 4106, RFC 7634).
_KERNEL: Mapping[str, tuple[str, int]] = {
    "3des": ("cbc(des3_ede)", 0), "aes128": ("cbc(aes)", 128), "aes192": ("cbc(aes)", 192),
    "aes256": ("cbc(aes)", 256), "aes128gcm16": ("rfc4106(gcm(aes))", 128 + 32),
    "aes256gcm16": ("rfc4106(gcm(aes))", 256 + 32),
    "chacha20poly1305": ("rfc7539esp(chacha20,poly1305)", 0), "md5": ("hmac(md5)", 0),
    "sha1": ("hmac(sha1)", 0), "sha256": ("hmac(sha256)", 0), "sha384": ("hmac(sha384)", 0),
    "sha512": ("hmac(sha512)", 0)}


def ikev1_proposal(cipher: str, hashing: str, group: str, bits: str) -> str:
    """Format an IKEv1 proposal in strongSwan syntax from tshark's numbers.

    Unknown numbers become "?".
    """
    name = _CIPHERS_1.get(cipher, "?")
    return "-".join((name + (bits if name == "aes" else ""), _HASHES_1.get(hashing, "?"),
                     _GROUPS.get(group, "?")))


def ikev2_proposal(cipher: str, integrity: str, prf: str, group: str, bits: str, kinds: str = "",
                   other: str = "") -> str:
    """Format an IKEv2 proposal in strongSwan syntax.

    With an AEAD cipher the PRF replaces the integrity algorithm. After an integrity algorithm, the
    PRF is named only if it is another one, as strongSwan does. `kinds` are the types of all
    transforms, `other` the ids of those that tshark has no name for.
    """
    name = _CIPHERS_2.get(cipher, "?")
    name = name.format(bits) if "{}" in name else name + (bits if name == "aes" else "")
    second = _INTEGRITY_2.get(integrity, "?") if integrity else _PRFS_2.get(prf, "?")
    if integrity and prf and (function := _PRFS_2.get(prf, "?")) != f"prf{second}":
        second += f"-{function}"
    later = f"ke1_{_GROUPS.get(other, '?')}" if _FIRST_ADDITIONAL in kinds.split(",") else ""
    return "-".join(filter(None, (name, second, _GROUPS.get(group, "?"), later)))


def kernel_algorithms(proposal: str) -> set[str]:
    """Return the kernel's names for the algorithms of an ESP proposal.

    Key sizes are added where several exist. The group is left out, because the kernel does not know
    it.
    """
    return {f"{name} {bits}" if bits else name for token in proposal.split("-")
            if token in _KERNEL for name, bits in [_KERNEL[token]]}


def sa_algorithms(state: Mapping[str, object]) -> set[str]:
    """Return the algorithms of an IPsec SA in the kernel, in the form of `kernel_algorithms`."""
    several = {name for name, bits in _KERNEL.values() if bits}
    return {f"{state[kind]} {state.get(f'{kind}_bits', '?')}" if state[kind] in several
            else str(state[kind]) for kind in ("enc", "auth", "aead") if kind in state}


# --- Columns of tshark as packets ---

# Fields of the chosen IKE proposal, in the order of the parameters of `ikev1_proposal` and
# `ikev2_proposal`.
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
           "isakmp.messageid", "isakmp.nextpayload", "wlan.fixed.category_code",
           "icmpv6.type", "ipv6.src", "ipv6.dst", "ipv6.nxt", "ipv6.plen")
_COUNTERS = ("wlan.wep.iv", "wlan.ccmp.extiv", "wlan.tkip.extiv")
#: Fields that `packet_from_columns` needs.
PACKET_FIELDS = ("frame.time_epoch", *_COMMON, *_COUNTERS)
# No column needs TCP or iperf3's payload, whose dissection would take most of the time.
_LEFT_OUT = ("--disable-protocol", "tcp", "-d", f"udp.port=={iperf.PORT},data")
# Ethernet, IPv4 without options or IPv6, UDP.
_HEAD_BYTES = 14 + 40 + 8
_IPV6_BYTES = 40
# First bytes of a pcap file, in either byte order and for micro- or nanoseconds. Without this check
# tshark accepts any file as some format, and an empty file as a capture without packets.
_MAGIC = frozenset(bytes.fromhex(word) for word in ("d4c3b2a1", "a1b2c3d4", "4d3cb2a1", "a1b23c4d"))

DATA_SUBTYPES = frozenset({0x20, 0x28})
PROBE_SUBTYPES = frozenset({0x04, 0x05})
AUTHENTICATION_SUBTYPE = 0x0B
#: Category of Action frames that request fast transition over the DS (IEEE 802.11-2020, 9.4.1.11).
FAST_TRANSITION_CATEGORY = 6
ASSOCIATION_SUBTYPES = frozenset({0x00, 0x01, 0x02, 0x03})
EAP_REQUEST, EAP_SUCCESS, EAP_FAILURE = 1, 3, 4
EAPOL_EAP, EAPOL_KEY = 0, 3
ESP, IP_IN_IP = 50, 4
ECHO_REPLY, ECHO_REQUEST, AGENT_ADVERTISEMENT, AGENT_SOLICITATION = 0, 8, 9, 10
#: ICMPv6 (RFC 4443, RFC 4861). `Packet.icmp_type` has the types of both; none of these is ICMP's.
ECHO_REPLY_6, ROUTER_SOLICITATION, NEIGHBOUR_SOLICITATION = 129, 133, 135
#: Router and neighbour solicitations and advertisements.
NEIGHBOUR_DISCOVERY = range(ROUTER_SOLICITATION, ROUTER_SOLICITATION + 4)
ECHO_REPLIES = (ECHO_REPLY, ECHO_REPLY_6)
REGISTRATION_REQUEST, REGISTRATION_REPLY = 1, 3
REGISTRATION_ACCEPTED = (0, 1)
#: UDP ports of DHCP: the server's and the client's (RFC 2131, 4.1).
DHCP_PORTS = frozenset({67, 68})
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
_TABS = _TAB * (len(PACKET_FIELDS) - 1)


@dataclass(slots=True)  # frozen would take three times as long to create
class Packet:
    """A dissected packet: the fields that checks need.

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
    #: Category of an 802.11 Action frame, if it is not encrypted or was decrypted.
    action_category: int | None = None
    tkip_iv: str = ""

    @property
    def ike_message_key(self) -> tuple[object, ...]:
        """Return a key that is equal for an IKE message and its retransmissions only.

        In IKEv2 that is the message ID. A request has the same ID in fragments, with a cookie, or
        with another group (RFC 7296, 2.2 and 2.6; RFC 7383, 2.6). In IKEv1 the message ID
        identifies the exchange; within an exchange, payload type and length identify the message.
        """
        one = self.ethernet_src, self.ike_spi, self.isakmp_exchange, self.ike_number
        return one if (self.isakmp_exchange or 0) >= _FIRST_OF_IKE_2 else (
            *one, self.ike_payload, self.length)

    @property
    def is_esp(self) -> bool:
        """Return whether the packet is ESP, in IP or in UDP (RFC 3948)."""
        return self.ip_proto == ESP or bool(self.esp_spi)

    @property
    def is_ipv6(self) -> bool:
        """Return whether the outermost IP packet is of version 6."""
        return ":" in self.ip_src

    @property
    def is_mobile_ip(self) -> bool:
        """Return whether the packet is an agent advertisement, a solicitation or a registration."""
        return self.mip_type is not None or self.icmp_type in (
            AGENT_ADVERTISEMENT, AGENT_SOLICITATION)

    @property
    def is_dhcp(self) -> bool:
        """Return whether the packet belongs to DHCP (RFC 2131)."""
        return bool({self.udp_src, self.udp_dst} & DHCP_PORTS)

    @property
    def is_whole(self) -> bool:
        """Return whether every byte of the packet was captured, which decryption needs."""
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
        """Return whether this is a TKIP frame that tshark could not decrypt.

        tshark decrypts no TKIP frame by its temporal key.
        """
        return (bool(self.tkip_iv) and self.protected and not self.has_llc
                and self.is_decryptable)

    @property
    def is_data(self) -> bool:
        """Return whether this is an 802.11 data frame with content (no null frame)."""
        return self.subtype in DATA_SUBTYPES

    @property
    def is_eapol(self) -> bool:
        """Return whether this is an EAPOL frame."""
        return self.eapol_type is not None

    @property
    def is_isakmp(self) -> bool:
        """Return whether the packet is an IKE message."""
        return self.isakmp_exchange is not None


def parse_packets(text: str) -> list[Packet]:
    """Parse the tab-separated output of tshark, one packet a line.

    Missing columns count as empty.
    """
    return _parse_lines(line for line in text.splitlines() if line.strip())


def _parse_lines(lines: Iterable[str]) -> list[Packet]:
    """Parse lines of tshark's output into packets.

    Packets with equal columns share their parsed values. This saves time, because most packets
    differ only in time and counters.
    """
    packets: list[Packet] = []
    known: dict[str, tuple[Any, ...]] = {}
    for line in lines:
        time, _, rest = f"{line}{_TABS[line.count(_TAB):]}".partition(_TAB)
        common, wep_iv, ccmp_iv, tkip_iv = rest.rsplit(_TAB, len(_COUNTERS))
        values = known.get(common)
        if values is None:
            values = known[common] = _parse_columns(common.split(_TAB))
        packet = Packet(float(time), first_value(wep_iv), first_value(ccmp_iv), *values)
        if tkip_iv:
            packet.tkip_iv = first_value(tkip_iv)
        packets.append(packet)
    return packets


def packet_from_columns(c: Mapping[str, str]) -> Packet:
    """Return the packet with these columns. They have all of `PACKET_FIELDS`, and a time."""
    wep_iv, ccmp_iv, tkip_iv = (first_value(c[name]) for name in _COUNTERS)
    packet = Packet(float(c["frame.time_epoch"]), wep_iv, ccmp_iv,
                    *_parse_known_columns(tuple(c[name] for name in _COMMON)))
    packet.tkip_iv = tkip_iv
    return packet


def read_datagrams(capture: Path) -> list[Packet]:
    """Return the packets of an Ethernet capture that has UDP datagrams only, without tshark.

    The result equals that of `dissection.read_packets`. A first fragment counts as a datagram.

    Raises:
        MeasureError: The file is no Ethernet capture.
    """
    check_is_capture(capture)
    known: dict[tuple[bytes, int, int], tuple[Any, ...]] = {}
    packets = []
    for frame in pcap.read_frames(capture):
        head = frame.data[:_HEAD_BYTES]
        # All header bytes but the packet's ID and checksums, which differ between packets.
        key = (head if frame.kind != pcap.IPV4 else head[:18] + head[20:24] + head[26:40],
               frame.wire_bytes, len(frame.data))
        values = known.get(key)
        if values is None:
            values = known[key] = _parse_columns([_datagram_columns(frame).get(name, "") for name
                                                  in _COMMON])
        packets.append(Packet(frame.at_s, "", "", *values))
    return packets


def _datagram_columns(frame: pcap.CapturedFrame) -> dict[str, str]:
    """Return the fields of a UDP datagram, or of a frame without one, as tshark would name them."""
    columns = {"frame.len": str(frame.wire_bytes), "frame.cap_len": str(len(frame.data)),
               "eth.src": frame.data[6:12].hex(":")}
    udp = pcap.parse_udp_header(frame)
    if udp is None:
        return columns
    columns |= {"udp.srcport": str(udp.source_port), "udp.dstport": str(udp.target_port)}
    if frame.kind == pcap.IPV6:
        return columns | {"ipv6.src": udp.source, "ipv6.dst": udp.target, "ipv6.nxt": str(pcap.UDP),
                          "ipv6.plen": str(udp.ip_bytes - _IPV6_BYTES)}
    return columns | {"ip.src": udp.source, "ip.dst": udp.target, "ip.proto": str(pcap.UDP),
                      "ip.len": str(udp.ip_bytes)}


class _KilledError(MeasureError):
    """An error: a program that read captures was killed."""


def read_uncorrected(captures: Sequence[Path], keys: Sequence[str] = (),
                     timeout_s: float = 300.0) -> list[list[Packet]]:
    """Dissect capture files without repairing mistaken mesh frames (see `dissection`)."""
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
    """Run tshark and return one line for each packet, with its fields and its file's index."""
    # Appended, not sorted by time: packets stay in file order, and the first file sees no earlier
    # state. Without merged interfaces, a packet's interface ID is the index of its file.
    with subprocess.Popen([*_NICELY, "mergecap", "-a", "-I", "none", "-w", "-",
                           *map(str, captures)], text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE) as merging:
        assert merging.stdout is not None
        assert merging.stderr is not None
        try:
            done = tshark_server.run_tshark(_column_command(), decryption_options(keys)[1::2],
                                            merging.stdout,
                                            environment=os.environ | ENVIRONMENT,
                                            timeout_s=timeout_s)
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
    # Wireshark 4.4 takes a file that is cut short in part, complains, and exits with 0.
    has_failed = merging.returncode or complaint.startswith("mergecap: ")
    if has_failed and not (merging.returncode == -signal.SIGPIPE and done.returncode):
        message = " ".join(complaint.split()).removeprefix("mergecap: ") or "mergecap failed"
        raise MeasureError("testbed", f"tshark cannot read a capture: {message}")
    if done.returncode:
        raise MeasureError("testbed", f"tshark cannot read {', '.join(map(str, captures))}: "
                           f"{(done.stderr.strip().splitlines() or ['no word'])[-1]}")
    return done.stdout


def _column_command() -> list[str]:
    """Return the tshark command that prints the needed fields, without decryption keys.

    Custom columns contain the values of -T fields, but tshark formats no texts for other fields.
    """
    return [*_NICELY, *tshark_command(), "-n", "-r", "-",
            *column_options(("frame.interface_id", *PACKET_FIELDS)), *_LEFT_OUT]


def column_options(names: Sequence[str]) -> list[str]:
    """Return the tshark options that print fields as columns. An unknown field is empty."""
    columns = ",".join(f'"{name}","%Cus:{name}:0:U"' for name in names)
    return ["-T", "tabs", "-o", f"gui.column.format:{columns}"]


def tshark_command() -> Sequence[str]:
    """Return the start of every tshark command, which runs tshark as an unprivileged user."""
    return [*_drop_privileges_prefix(shutil.which("tshark")), "tshark"]


@functools.cache
def _drop_privileges_prefix(tshark: str | None) -> Sequence[str]:
    """Return the command prefix with which root runs tshark without privileges.

    The prefix is empty if that fails, for example in a container without further user ids. tshark
    then runs as before, but slower.
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
    """Return the values of `Packet` fields from the columns that several packets may share."""
    c = dict(zip(_COMMON, columns, strict=True))
    return (
        int(c["frame.len"]), parse_number(c["wlan.fc.type_subtype"]), first_value(c["wlan.ta"]),
        first_value(c["wlan.da"]), is_set(c["wlan.fc.protected"]),
        parse_number(c["wlan.rsn.pcs.type"] or c["wlan.wfa.ie.wpa.ucs.type"]),
        # tshark 4.0 and later name the last field differently.
        parse_number(c["wlan.rsn.akms.type"] or c["wlan.wfa.ie.wpa.akms.type"]
                      or c["wlan.wfa.ie.wpa.type"]),
        *(parse_number(c[name]) for name
          in ("eapol.type", "eap.code", "eap.type", "eapol.keydes.type")),
        tuple(int(entry, 0) for entry in c["tls.handshake.type"].split(",") if entry),
        *(parse_number(c[name]) for name in ("radius.code", "arp.opcode")),
        parse_number(c["icmp.type"] or c["icmpv6.type"]),
        first_value(c["ip.src"] or c["ipv6.src"]), first_value(c["ip.dst"] or c["ipv6.dst"]),
        parse_number(c["ip.proto"] or c["ipv6.nxt"]),
        *(parse_number(c[name]) for name in ("udp.srcport", "udp.dstport", "isakmp.exchangetype")),
        first_value(c["esp.spi"]), first_value(c["eth.src"]), parse_number(c["frame.cap_len"])
        or 0,
        parse_number(c["mip.type"]), parse_number(c["mip.code"]), first_value(c["mip.coa"]),
        bool(c["llc.dsap"]), parse_number(c["radiotap.length"]) or 0, _parse_suite(c),
        parse_number(c["eap.id"]),
        _parse_ip_bytes(c), bool(c["wlan.fixed.mesh_ttl"]),
        first_value(c["isakmp.ispi"]),
        parse_number(c["isakmp.messageid"]), parse_number(c["isakmp.nextpayload"]),
        parse_number(c["wlan.fixed.category_code"]))


def _parse_ip_bytes(c: Mapping[str, str]) -> int:
    """Return the length of the outermost IP packet, 0 if there is none."""
    if c["ip.len"] or not c["ipv6.plen"]:
        return parse_number(c["ip.len"]) or 0
    return _IPV6_BYTES + (parse_number(c["ipv6.plen"]) or 0)


#: The same, with the values of columns that came lately; most packets share theirs with others.
_parse_known_columns = functools.lru_cache(maxsize=4096)(_parse_columns)


def _parse_suite(c: Mapping[str, str]) -> str:
    first, second = ([c[name] for name in names] for names in (_IKE_1, _IKE_2))
    if first[0]:
        return ikev1_proposal(*first)
    return ikev2_proposal(*second) if second[0] else ""


def first_value(column: str) -> str:
    """Return the first value in a column of tshark's output."""
    return column.partition(",")[0]


def is_set(column: str) -> bool:
    """Return whether the first flag in a column of tshark's output is set.

    Wireshark 4.0 writes 1, and 4.4 writes True.
    """
    return first_value(column) in ("1", "True")


def parse_numbers(column: str) -> tuple[int, ...]:
    """Return all numbers in a column of tshark's output."""
    return tuple(int(entry, 0) for entry in column.split(",") if entry)


def parse_number(column: str) -> int | None:
    """Return the first number in a column of tshark's output, or None."""
    first = first_value(column)
    return int(first, 0) if first else None


# --- Fields of a study's own protocols, by Wireshark's names ---

_SEPARATOR = "\t"
#: Time limit of a query of fields (s).
_QUERY_S = 300.0


def read_fields(capture: Path, names: Sequence[str], display_filter: str = "", *,
                options: Sequence[str] = ()) -> list[tuple[str, ...]]:
    """Read Wireshark fields of every packet that passes a display filter, in file order.

    Args:
        capture: The capture file.
        names: Names of fields.
        display_filter: A Wireshark display filter.
        options: Further options of tshark (`-d`, `-o`).

    Returns:
        A tuple per packet. Missing fields are ""; several values of one field are joined by commas.

    Raises:
        MeasureError: tshark is missing, does not know a name, or cannot read the file.
    """
    check_is_capture(capture)
    rows, complaint = _run_field_query(capture, names, display_filter, options)
    if complaint:
        raise MeasureError("testbed", f"tshark cannot read {capture}: {complaint}")
    return rows


def read_any_format(capture: Path, names: Sequence[str], *,
                    options: Sequence[str] = ()) -> tuple[list[tuple[str, ...]], str]:
    """Read Wireshark fields of all packets of a file in any format that tshark knows.

    Returns:
        The packets up to the first unreadable one, and tshark's reason ("" if all were read).

    Raises:
        MeasureError: tshark is missing or reads nothing.
    """
    rows, complaint = _run_field_query(capture, names, "", options)
    reason = _strip_file_name(complaint)
    if reason and not rows:
        raise MeasureError("testbed", reason)
    return rows, reason


def _strip_file_name(complaint: str) -> str:
    """Return a message of tshark without the name of the capture file."""
    return re.sub(r'^tshark: The file ".*" (appears to have been |appears to be )?', "",
                  complaint).rstrip(".")


def _run_field_query(capture: Path, names: Sequence[str], display_filter: str,
                     options: Sequence[str]) -> tuple[list[tuple[str, ...]], str]:
    """Run tshark, and return its rows of fields, and its last message if it failed."""
    fields = [argument for name in names for argument in ("-e", name)]
    argv = ["nice", "-n", "10", "tshark", "-n", "-r", str(capture.absolute()), "-T", "fields",
            "-E", f"separator={_SEPARATOR}", *options, *fields]
    argv += ["-Y", display_filter] if display_filter else []
    try:
        done = subprocess.run(argv, capture_output=True, encoding="utf-8", errors="replace",
                              timeout=_QUERY_S, check=False, env=os.environ | UNCONFIGURED)
    except FileNotFoundError:
        raise MeasureError("testbed", "nice (of coreutils) is missing; './qop doctor' tells how "
                           "to get it") from None
    except subprocess.TimeoutExpired:
        raise MeasureError("testbed",
                           f"tshark took more than {_QUERY_S:g} s for {capture}") from None
    if done.returncode == NOT_FOUND:
        raise MeasureError("testbed", "tshark is missing; './qop doctor' tells how to get it")
    rows = [tuple(line.split(_SEPARATOR)) for line in done.stdout.splitlines()]
    return rows, last_message(done.stderr) if done.returncode else ""


def last_message(words: str) -> str:
    """Return the last message that tshark printed.

    A line in brackets is a detail of the line before.
    """
    lines = [line.strip() for line in words.splitlines() if line.strip()]
    lines = [line for line in lines if not line.startswith("(")] or lines
    return (lines or ["no word"])[-1]
