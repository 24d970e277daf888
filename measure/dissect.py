"""Packets of a capture as plain values, dissected by tshark outside the machine."""

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

# What is chosen of a proposal, in the order that `suites` takes it.
_IKE_1 = ("isakmp.ike.attr.encryption_algorithm", "isakmp.ike.attr.hash_algorithm",
          "isakmp.ike.attr.group_description", "isakmp.ike.attr.key_length")
_IKE_2 = ("isakmp.tf.id.encr", "isakmp.tf.id.integ", "isakmp.tf.id.prf", "isakmp.tf.id.dh",
          "isakmp.ike2.attr.key_length", "isakmp.tf.type", "isakmp.tf.id")
# One field a column: the time, then what many packets have in common, then what counts them.
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
# No column is about TCP or what iperf3 sends, which would take most of the time to dissect.
_LEFT_OUT = ("--disable-protocol", "tcp", "-d", f"udp.port=={iperf.PORT},data")
# Ethernet, IPv4 without options, UDP.
_HEAD_BYTES = 14 + 20 + 8
# First bytes of a pcap file: either byte order, stamps in micro- or nanoseconds. Tshark takes any
# file for something, and an empty one for a capture of nothing.
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
#: Statuses of a program that was killed: by itself, and through a shell's convention.
_KILLED = (-signal.SIGKILL, -signal.SIGTERM, 128 + signal.SIGKILL, 128 + signal.SIGTERM)
#: The first type of exchange of IKE's version 2 (RFC 7296, 3.1).
_FIRST_OF_IKE_2 = 34
#: What a shell's or nice's exit status says of a program that is not there.
NOT_FOUND = 127
_LEAST_DECRYPTED_BYTES = 17  # Wireshark's DOT11DECRYPT_CRYPTED_DATA_MINLEN
# On few cores the next repetition is being measured meanwhile.
_NICELY = ("nice", "-n", "10")
#: A user's own preferences may hide columns and disable protocols.
UNCONFIGURED = {"WIRESHARK_CONFIG_DIR": "/nonexistent"}
# Names of manufacturers, enterprises and services, which no column shows, are half of what tshark
# does before the first packet: it reads them twice. It heeds this only if it is not root's.
_NAMELESS = {"WIRESHARK_DATA_DIR": "/nonexistent", "WIRESHARK_PLUGIN_DIR": "/nonexistent"}
#: What tshark starts with beside what there is.
ENVIRONMENT = UNCONFIGURED | _NAMELESS
_AS_NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
_TAB = "\t"
_TABS = _TAB * (len(_FIELDS) - 1)


@dataclass(slots=True)  # frozen, it would take three times as long to make, of the run's processor
class Packet:
    """One packet; what it does not have is None (numbers), "" (addresses) or () (lists)."""

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
    #: Whether its payload could be read, for a protected frame: whether it was decrypted.
    has_llc: bool = False
    radiotap_bytes: int = 0
    #: What it proposes or chooses for IKE, in strongSwan's words; "" where that is not to be seen.
    ike_suite: str = ""
    eap_id: int | None = None
    #: Of its outermost IP packet, header and all.
    ip_bytes: int = 0
    #: Whether tshark has taken it for a mesh's frame, of which there are none.
    is_mesh: bool = False
    #: Of a message of IKE: the initiator's index of the association, the message's number in it,
    #: and of what kind its first payload is.
    ike_spi: str = ""
    ike_number: int | None = None
    ike_payload: int | None = None
    tkip_iv: str = ""

    @property
    def ike_message(self) -> tuple[object, ...]:
        """What a message of IKE has in common with itself sent again, and with no other one.

        In version 2 that is its number: a request in fragments, or once more with a cookie or in
        another group, has the same (RFC 7296, 2.2 and 2.6; RFC 7383, 2.6). Of version 1 the number
        tells exchanges apart, and within one the kind and the length do.
        """
        one = self.ethernet_src, self.ike_spi, self.isakmp_exchange, self.ike_number
        return one if (self.isakmp_exchange or 0) >= _FIRST_OF_IKE_2 else (
            *one, self.ike_payload, self.length)

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
        protected = self.length - self.radiotap_bytes - MAC_HEADER_BYTES
        return self.is_whole and protected >= _LEAST_DECRYPTED_BYTES

    @property
    def is_closed_tkip(self) -> bool:
        """Whether this is a frame under TKIP that stays closed; tshark opens none by its key."""
        return (bool(self.tkip_iv) and self.protected and not self.has_llc
                and self.is_decryptable)

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
    """Packets from tshark's tab-separated columns, one packet a line; missing ones are empty."""
    return _packets(line for line in text.splitlines() if line.strip())


def _packets(lines: Iterable[str]) -> list[Packet]:
    """As `parse_fields`. Few packets differ in more than time and counters: all else is kept."""
    packets: list[Packet] = []
    known: dict[str, tuple[Any, ...]] = {}
    for line in lines:
        time, _, rest = f"{line}{_TABS[line.count(_TAB):]}".partition(_TAB)
        common, wep_iv, ccmp_iv, tkip_iv = rest.rsplit(_TAB, len(_COUNTERS))
        values = known.get(common)
        if values is None:
            values = known[common] = _values(common.split(_TAB))
        packet = Packet(float(time), _first(wep_iv), _first(ccmp_iv), *values)
        if tkip_iv:
            packet.tkip_iv = _first(tkip_iv)
        packets.append(packet)
    return packets


def read(capture: Path, keys: Sequence[str] = (), timeout_s: float = 300.0) -> list[Packet]:
    """The packets of a capture file; as `read_all`."""
    return read_all([capture], keys, timeout_s)[0]


def read_all(captures: Sequence[Path], keys: Sequence[str] = (),
             timeout_s: float = 300.0) -> list[list[Packet]]:
    """The packets of each capture file; frames under one of the keys are decrypted.

    Keys are `wep:HEX`, `wpa-psk:HEX` (a pairwise master key) or `wpa-pwd:PASSPHRASE:SSID`.

    A frame whose checksum fails after decryption shows no inner addresses. One tshark dissects the
    files one after the other, as starting it takes longer than most files do. It remembers from one
    to the next what it needs to put messages together; the first is dissected as if it were alone.
    Raises MeasureError if a tool is missing or a file cannot be read.
    """
    packets = read_as_tshark(captures, keys, timeout_s)
    is_told = any(key.startswith("tk:") for key in keys)
    if any(packet.is_mesh or (is_told and packet.is_closed_tkip)
           for seen in packets for packet in seen):
        from measure import reopening  # which dissects in its turn

        reopening.mend(captures, packets, keys)
    return packets


def datagrams(capture: Path) -> list[Packet]:
    """The packets of an Ethernet capture of UDP datagrams, without tshark: as `read` gives them.

    A fragment that begins a datagram counts as one. Raises MeasureError for another file.
    """
    refuse_others(capture)
    known: dict[tuple[bytes, int, int], tuple[Any, ...]] = {}
    packets = []
    for frame in pcap.frames(capture):
        head = frame.data[:_HEAD_BYTES]
        # All but the packet's number and checksums, which differ from one to the next.
        key = head[:18] + head[20:24] + head[26:40], frame.wire_bytes, len(frame.data)
        values = known.get(key)
        if values is None:
            values = known[key] = _values([_datagram(frame).get(name, "") for name in _COMMON])
        packets.append(Packet(frame.at_s, "", "", *values))
    return packets


def _datagram(frame: pcap.CapturedFrame) -> dict[str, str]:
    """The columns that a datagram has; what is none has those of a frame."""
    columns = {"frame.len": str(frame.wire_bytes), "frame.cap_len": str(len(frame.data)),
               "eth.src": frame.data[6:12].hex(":")}
    udp = pcap.udp_head(frame)
    if udp is None:
        return columns
    return columns | {"ip.src": udp.source, "ip.dst": udp.target, "ip.proto": str(pcap.UDP),
                      "udp.srcport": str(udp.source_port), "udp.dstport": str(udp.target_port),
                      "ip.len": str(udp.ip_bytes)}


class _KilledError(MeasureError):
    """A program that read captures was killed."""


def read_as_tshark(captures: Sequence[Path], keys: Sequence[str] = (),
                   timeout_s: float = 300.0) -> list[list[Packet]]:
    """As `read_all`; frames that tshark mistakes for a mesh's show as what it takes them for."""
    for capture in captures:
        refuse_others(capture)
    if not captures:
        return []
    try:
        try:
            text = _dissect(captures, keys, timeout_s)
        except _KilledError:  # for want of memory, or by somebody; the captures are as they were
            text = _dissect(captures, keys, timeout_s)
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
    return [_packets(entry) for entry in lines]


def _dissect(captures: Sequence[Path], keys: Sequence[str], timeout_s: float) -> str:
    """Lines of `_FIELDS` of all packets, in the order of the files, each with its file's index."""
    # Appended, not sorted by time: the order within each file stays, and no state comes into the
    # first. With no interfaces merged, a packet's interface is its file.
    with subprocess.Popen([*_NICELY, "mergecap", "-a", "-I", "none", "-w", "-",
                           *map(str, captures)], text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE) as merging:
        assert merging.stdout is not None
        assert merging.stderr is not None
        try:
            done = ready.run(_tshark(), decryption(keys)[1::2], merging.stdout,
                             environment=os.environ | ENVIRONMENT, timeout_s=timeout_s)
        except BaseException:
            merging.kill()  # it may be what tshark waits for
            raise
        finally:
            merging.stdout.close()  # ends it if tshark did not read all
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


def _tshark() -> list[str]:
    """The command, without keys.

    Custom columns give the values of -T fields, without texts for all others.
    """
    columns = ",".join(f'"{name}","%Cus:{name}:0:U"' for name in ("frame.interface_id", *_FIELDS))
    return [*_NICELY, *tshark(), "-n", "-r", "-", "-T", "tabs", "-o",
            f"gui.column.format:{columns}", *_LEFT_OUT]


def tshark() -> Sequence[str]:
    """The command that tshark starts by, with no rights but anybody's; with `ENVIRONMENT`."""
    return [*_giving_up_rights(shutil.which("tshark")), "tshark"]


@functools.cache
def _giving_up_rights(tshark: str | None) -> Sequence[str]:
    """What root puts before a command of tshark's; nothing where that would not work.

    In a container without further user ids, for one, all is as before, but takes longer.
    """
    if os.geteuid() or tshark is None:
        return ()
    try:
        tried = subprocess.run([*_AS_NOBODY, "test", "-x", tshark], capture_output=True,
                               check=False)
    except FileNotFoundError:
        return ()
    return () if tried.returncode else _AS_NOBODY


def refuse_others(capture: Path) -> None:
    """Raise MeasureError unless a file is a capture, whatever tshark would take it for."""
    try:
        with capture.open("rb") as file:
            is_capture = file.read(4) in _MAGIC
    except OSError as error:
        raise MeasureError("testbed", f"tshark cannot read {capture}: {error.strerror}") from None
    if not is_capture:
        raise MeasureError("testbed", f"tshark cannot read {capture}: not a pcap file")


def decryption(keys: Sequence[str]) -> list[str]:
    """Options of tshark by which frames under one of these keys are opened."""
    if not keys:
        return ["-o", "wlan.enable_decryption:FALSE"]
    pairs = (key.partition(":") for key in keys)
    return ["-o", "wlan.enable_decryption:TRUE", *(
        word for kind, _, value in pairs for word in ("-o", f'uat:80211_keys:"{kind}","{value}"'))]


def _values(columns: Sequence[str]) -> tuple[Any, ...]:
    """`Packet`'s attributes after the counters, from the columns in common."""
    c = dict(zip(_COMMON, columns, strict=True))
    return (
        int(c["frame.len"]), _number(c["wlan.fc.type_subtype"]), _first(c["wlan.ta"]),
        _first(c["wlan.da"]), _first(c["wlan.fc.protected"]) in ("1", "True"),
        _number(c["wlan.rsn.pcs.type"] or c["wlan.wfa.ie.wpa.ucs.type"]),
        # Tshark 4.0 and later call the last one otherwise.
        _number(c["wlan.rsn.akms.type"] or c["wlan.wfa.ie.wpa.akms.type"]
                or c["wlan.wfa.ie.wpa.type"]),
        *(_number(c[name]) for name in ("eapol.type", "eap.code", "eap.type", "eapol.keydes.type")),
        tuple(int(entry, 0) for entry in c["tls.handshake.type"].split(",") if entry),
        *(_number(c[name]) for name in ("radius.code", "arp.opcode", "icmp.type")),
        _first(c["ip.src"]), _first(c["ip.dst"]),
        *(_number(c[name]) for name in ("ip.proto", "udp.srcport", "udp.dstport",
                                        "isakmp.exchangetype")),
        _first(c["esp.spi"]), _first(c["eth.src"]), _number(c["frame.cap_len"]) or 0,
        _number(c["mip.type"]), _number(c["mip.code"]), _first(c["mip.coa"]),
        bool(c["llc.dsap"]), _number(c["radiotap.length"]) or 0, _suite(c), _number(c["eap.id"]),
        _number(c["ip.len"]) or 0, bool(c["wlan.fixed.mesh_ttl"]), _first(c["isakmp.ispi"]),
        _number(c["isakmp.messageid"]), _number(c["isakmp.nextpayload"]))


def _suite(c: Mapping[str, str]) -> str:
    first, second = ([c[name] for name in names] for names in (_IKE_1, _IKE_2))
    if first[0]:
        return suites.ike_1(*first)
    return suites.ike_2(*second) if second[0] else ""


def _first(column: str) -> str:
    return column.partition(",")[0]


def _number(column: str) -> int | None:
    first = _first(column)
    return int(first, 0) if first else None
