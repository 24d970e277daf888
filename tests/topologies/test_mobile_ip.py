"""Mobile IP's packet formats: against octets by hand, against tshark, and against any octets."""

from __future__ import annotations

import contextlib
import hashlib
import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import made_up_captures
from protocols.fields import ConfigError
from topologies.mobile_ip import daemon, discovery, ipv4, packets
from topologies.mobile_ip.discovery import Advertisement, AgentFlag
from topologies.mobile_ip.ipv4 import ICMP, UDP, Ipv4Packet
from topologies.mobile_ip.packets import (
    Association,
    Code,
    Extension,
    ExtensionType,
    MessageError,
    Reply,
    Request,
    RequestFlag,
)

KEY = Association(0x1234, bytes(range(16)))
REQUEST = Request(RequestFlag.REVERSE_TUNNEL, 600, "10.1.0.12", "10.1.0.1", "10.9.0.2",
                  0xEDCB_A987_1234_5678)
REPLY = Reply(Code.HA_IDENTIFICATION, 0, "10.1.0.12", "10.1.0.1", 0xEDCB_A988_1234_5678)
ADVERTISEMENT = Advertisement(
    7, 600, AgentFlag.REGISTRATION_REQUIRED | AgentFlag.HOME_AGENT | AgentFlag.FOREIGN_AGENT
    | AgentFlag.REVERSE_TUNNEL, ("10.9.0.2",), (("10.2.0.1", 0),), 3, (24,))



def octets(text: str) -> bytes:
    """Octets written with comments."""
    return bytes.fromhex("".join(line.partition("#")[0] for line in text.splitlines()))


REQUEST_OCTETS = octets("""
    01          # type: registration request
    02          # flags S B D M G r T x: only T
    0258        # lifetime 600 s
    0a01000c    # home address 10.1.0.12
    0a010001    # home agent 10.1.0.1
    0a090002    # care-of address 10.9.0.2
    edcba987    # identification: seconds since 1900,
    12345678    # and their fraction
""")
REPLY_OCTETS = octets("""
    03          # type: registration reply
    85          # code 133
    0000        # lifetime 0
    0a01000c    # home address 10.1.0.12
    0a010001    # home agent 10.1.0.1
    edcba988    # identification: the home agent's seconds,
    12345678    # the request's low half
""")
ADVERTISEMENT_OCTETS = octets("""
    09          # ICMP type: router advertisement
    00          # code 0: forwards common traffic too
    f381        # checksum: complement of the sum worked out below
    01          # one router address
    02          # of two words
    0003        # lifetime 3 s
    0a020001    # 10.2.0.1
    00000000    # preference 0
    10          # mobility agent advertisement extension
    0a          # length 6 + 4 * 1
    0007        # sequence number 7
    0258        # registration lifetime 600 s
    b1          # R . H F . . . T
    00          # reserved
    0a090002    # care-of address 10.9.0.2
    13          # prefix-lengths extension
    01          # for one address
    18          # 24
""")
# 0900 0102 0003 0a02 0001 0000 0000 add up to 1408, with 100a 0007 0258 b100 0a09 0002 to e17c,
# with 1301 1800 (the odd octet is padded) to 10c7d; the carry comes round: 0c7e.
SOLICITATION_OCTETS = octets("""
    0a          # ICMP type: router solicitation
    00          # code 0
    f5ff        # checksum: complement of 0a00
    00000000    # reserved
""")


# --- by hand -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("message", "expected"), [
    (REQUEST.encode(), REQUEST_OCTETS), (REPLY.encode(), REPLY_OCTETS),
    (ADVERTISEMENT.encode(), ADVERTISEMENT_OCTETS),
    (discovery.encode_solicitation(), SOLICITATION_OCTETS)])
def test_octets(message, expected):
    """Each message has exactly the octets that the RFC's drawings give."""
    assert message.hex(" ") == expected.hex(" ")


def test_parsed_octets():
    """And is read back from them."""
    assert packets.parse_message(REQUEST_OCTETS) == REQUEST
    assert packets.parse_message(REPLY_OCTETS) == REPLY
    assert discovery.parse_advertisement(ADVERTISEMENT_OCTETS) == ADVERTISEMENT
    discovery.check_solicitation(SOLICITATION_OCTETS)


def test_flags_of_a_request():
    """S B D M G r T x, from the left."""
    assert [int(flag) for flag in RequestFlag] == [0x80, 0x40, 0x20, 0x10, 0x08, 0x04, 0x02, 0x01]


@pytest.mark.parametrize(("kind", "number"), [
    (ExtensionType.MOBILE_HOME, "20"), (ExtensionType.MOBILE_FOREIGN, "21"),
    (ExtensionType.FOREIGN_HOME, "22")])
def test_authentication_extension(kind, number):
    """Type, length 20, SPI, HMAC-MD5 over all before and these three, by RFC 2104's definition."""
    key = KEY.key.ljust(64, b"\0")
    head = bytes.fromhex(number + "14" + "00001234")
    inner = hashlib.md5(bytes(octet ^ 0x36 for octet in key) + REQUEST_OCTETS + head).digest()
    outer = hashlib.md5(bytes(octet ^ 0x5C for octet in key) + inner).digest()
    signed = packets.add_authentication(REQUEST, kind, KEY)
    assert signed.encode() == REQUEST_OCTETS + head + outer
    assert packets.is_authentic(packets.parse_message(signed.encode()), kind, KEY)


def test_authenticator_covers_prior_extensions():
    """A second extension's authenticator covers the first; the first ignores the second."""
    first = packets.add_authentication(REQUEST, ExtensionType.MOBILE_HOME, KEY)
    both = packets.add_authentication(first, ExtensionType.FOREIGN_HOME, KEY)
    assert packets.is_authentic(both, ExtensionType.MOBILE_HOME, KEY)
    assert packets.is_authentic(both, ExtensionType.FOREIGN_HOME, KEY)
    swapped = Request(**{**vars(both), "extensions": both.extensions[::-1]})
    assert not packets.is_authentic(swapped, ExtensionType.FOREIGN_HOME, KEY)


def test_authenticity_needs_exactly_one():
    """None, two, another SPI, another key: not authentic (RFC 5944 section 3.8.2.1)."""
    signed = packets.add_authentication(REQUEST, ExtensionType.MOBILE_HOME, KEY)
    twice = packets.add_authentication(signed, ExtensionType.MOBILE_HOME, KEY)
    assert not packets.is_authentic(REQUEST, ExtensionType.MOBILE_HOME, KEY)
    assert not packets.is_authentic(twice, ExtensionType.MOBILE_HOME, KEY)
    for other in (Association(0x1235, KEY.key), Association(KEY.spi, bytes(16))):
        assert not packets.is_authentic(signed, ExtensionType.MOBILE_HOME, other)


def test_ip_and_udp_octets():
    """Headers and checksums of a small datagram."""
    packet = Ipv4Packet(UDP, "10.1.0.12", "10.1.0.1", 255, b"\x01\x02\x03", 1000, 434)
    encoded = packet.encode()
    assert encoded == octets("""
        4500 001f   # version, length 31
        0000 0000   # one piece
        ff11        # TTL 255, UDP
        a7bf        # all else adds up to 1583f, with the carry 5840
        0a01000c    # source 10.1.0.12
        0a010001    # destination 10.1.0.1
        03e8 01b2   # ports 1000 and 434
        000b        # length 11
        e22d        # addresses, 0011, 000b; ports, 000b; 0102, 0300: together 1dd2
        010203
    """)
    assert ipv4.parse_packet(encoded) == packet


def test_gratuitous_arp():
    """An ARP request in which sender and target are the address that is claimed."""
    assert ipv4.gratuitous_arp("10.1.0.12", bytes.fromhex("0200000000a1")) == octets("""
        0001 0800 06 04   # Ethernet, IPv4
        0001              # request
        0200000000a1 0a01000c
        000000000000 0a01000c
    """)


def test_sequence_numbers_skip_the_first_256():
    """After 65535 comes 256 (RFC 5944 section 2.3.2)."""
    assert discovery.next_sequence(0) == 1
    assert discovery.next_sequence(0xFFFF) == 256


# --- timestamps ----------------------------------------------------------------------------------


def test_identification_is_ntp_time():
    """1970 is 2,208,988,800 s after 1900 (RFC 868), half a second half of 2^32."""
    assert packets.make_identification(0.5) == 2_208_988_800 << 32 | 0x8000_0000
    assert packets.make_identification(0.5, 0x7FF) == 2_208_988_800 << 32 | 0x8000_03FF


@given(st.floats(0, 4e9), st.integers(0, 1023))
def test_identification_round_trip(now_s, noise):
    """Seconds come back to within a microsecond, also after 2036."""
    assert packets.seconds_from_identification(
        packets.make_identification(now_s, noise)) == pytest.approx(now_s, abs=1e-6)


def test_window():
    """Seven seconds either way, and later than the last one."""
    stamp = packets.make_identification(1000.0)
    assert packets.is_fresh_identification(stamp, 1007.0, 0)
    assert packets.is_fresh_identification(stamp, 993.0, 0)
    assert not packets.is_fresh_identification(stamp, 1007.1, 0)
    assert not packets.is_fresh_identification(stamp, 992.9, 0)
    assert not packets.is_fresh_identification(stamp, 1000.0, stamp)
    assert packets.is_fresh_identification(stamp, 1000.0, stamp - 1)


def test_resynchronising():
    """The agent's seconds above, the request's low half below."""
    asked = packets.make_identification(1000.25, 5)
    answered = packets.make_resynchronisation(asked, 5000.9)
    assert answered >> 32 == packets.make_identification(5000.0) >> 32
    assert packets.is_answered_identification(answered, asked)
    assert not packets.is_answered_identification(answered, asked + 1)


# --- any octets ----------------------------------------------------------------------------------

ADDRESSES = st.integers(0, 2**32 - 1).map(lambda n: ".".join(map(str, n.to_bytes(4, "big"))))
EXTENSIONS = st.lists(st.builds(Extension, st.integers(0, 255), st.binary(max_size=255)),
                      max_size=4).map(tuple)
U8, U16, U64 = st.integers(0, 0xFF), st.integers(0, 0xFFFF), st.integers(0, 2**64 - 1)
REQUESTS = st.builds(Request, U8, U16, ADDRESSES, ADDRESSES, ADDRESSES, U64, EXTENSIONS)
REPLIES = st.builds(Reply, U8, U16, ADDRESSES, ADDRESSES, U64, EXTENSIONS)
CARE_OF = st.lists(ADDRESSES, min_size=1, max_size=5).map(tuple)
ROUTERS = st.lists(st.tuples(ADDRESSES, st.integers(-2**31, 2**31 - 1)), max_size=5).map(tuple)
ADVERTISEMENTS = st.builds(Advertisement, U16, U16, U16, CARE_OF, ROUTERS, U16,
                           st.lists(st.integers(0, 32), max_size=5).map(tuple),
                           st.sampled_from([0, 16]))
PARSERS = [packets.parse_message, packets.parse_request, packets.parse_reply,
           packets.parse_extensions,
           discovery.parse_advertisement, discovery.check_solicitation, ipv4.parse_packet]


@given(st.one_of(REQUESTS, REPLIES))
def test_registration_round_trip(message):
    """What is written is read, whatever is in it."""
    assert packets.parse_message(message.encode()) == message


@given(ADVERTISEMENTS)
def test_advertisement_round_trip(advertisement):
    """What is written is read, and its checksum is right."""
    assert discovery.parse_advertisement(advertisement.encode()) == advertisement


@given(ADDRESSES, ADDRESSES, U8, st.binary(max_size=200), U16, U16)
def test_packet_round_trip(source, destination, ttl, payload, from_port, to_port):
    """What is written is read."""
    packet = Ipv4Packet(UDP, source, destination, ttl, payload, from_port, to_port)
    assert ipv4.parse_packet(packet.encode()) == packet


@settings(max_examples=200)
@given(st.one_of(
    st.binary(max_size=120),
    st.tuples(st.one_of(REQUESTS, REPLIES, ADVERTISEMENTS).map(lambda m: m.encode()),
              st.integers(0, 2000), st.integers(0, 255)).map(
                  lambda t: t[0][:t[1]] + bytes((t[2],)) + t[0][t[1] + 1:]),
    st.tuples(st.one_of(REQUESTS, ADVERTISEMENTS).map(lambda m: m.encode()),
              st.integers(0, 100)).map(lambda t: t[0][:t[1]])))
def test_parsers_are_total(data):
    """Any octets give a value or a MessageError; a value is worth the same octets."""
    for parser in PARSERS:
        with contextlib.suppress(MessageError):
            parser(data)
    with contextlib.suppress(MessageError):
        assert packets.parse_message(data).encode() == data


@given(st.binary(max_size=60), st.integers(0, 1))
def test_ip_is_total(payload, more):
    """Lengths that contradict each other and broken sums are refused, padding is cut off."""
    data = Ipv4Packet(ICMP, "10.0.0.1", "10.0.0.2", 1, payload).encode()
    assert ipv4.parse_packet(data + bytes(more)).payload == payload
    for broken in (data[:-1], bytes((data[0] ^ 0x0F,)) + data[1:], data[:8] + b"\0" + data[9:]):
        with pytest.raises(MessageError):
            ipv4.parse_packet(broken)


def test_request_with_broken_extension_can_be_answered():
    """The error has the fixed part, to which codes 70 and 134 reply."""
    with pytest.raises(MessageError) as caught:
        packets.parse_request(REQUEST_OCTETS + b"\x20\x14\x00")
    assert caught.value.request == REQUEST


# --- tshark --------------------------------------------------------------------------------------


def dissect(folder, encoded: list[bytes], *fields: str) -> list[dict[str, str]]:
    """Packets as tshark sees them; raises if one is malformed or gets an expert's remark."""
    pcap = made_up_captures.written(folder / "built.pcap", enumerate(encoded),
                                    made_up_captures.RAW_IP)
    checks = ("-o", "ip.check_checksum:TRUE", "-o", "udp.check_checksum:TRUE")
    run = ["tshark", "-r", str(pcap), *checks, "-T"]
    wanted = [part for field in fields for part in ("-e", field)]
    bad = subprocess.run([*run, "text", "-Y", "_ws.malformed || _ws.expert"], check=True,
                         capture_output=True, text=True).stdout
    assert not bad
    found = subprocess.run([*run, "fields", *wanted], check=True, capture_output=True,
                           text=True).stdout
    booleans = {"True": "1", "False": "0"}  # words in Wireshark 4.4
    return [{field: booleans.get(value, value)
             for field, value in zip(fields, line.split("\t"), strict=True) if value}
            for line in found.splitlines()]


def test_tshark_reads_registrations(tmp_path):
    """Every field as meant, authentication extensions included."""
    request = packets.add_authentication(packets.add_authentication(REQUEST,
                                                                    ExtensionType.MOBILE_HOME, KEY),
                                         ExtensionType.FOREIGN_HOME, KEY)
    reply = packets.add_authentication(REPLY, ExtensionType.MOBILE_HOME, KEY)
    seen = dissect(tmp_path, [
        Ipv4Packet(UDP, "10.1.0.12", "10.2.0.1", 255, request.encode(), 50000, 434).encode(),
        Ipv4Packet(UDP, "10.2.0.1", "10.1.0.12", 255, reply.encode(), 434, 50000).encode()],
        "mip.type", "mip.flags", "mip.t", "mip.s", "mip.life", "mip.homeaddr", "mip.haaddr",
        "mip.coa", "mip.code", "mip.ext.type", "mip.ext.len", "mip.auth.spi", "mip.auth.auth",
        "ip.ttl", "udp.checksum.status")
    common = {"mip.homeaddr": "10.1.0.12", "mip.haaddr": "10.1.0.1", "ip.ttl": "255",
              "udp.checksum.status": "1"}
    both = ",".join(extension.data[4:].hex() for extension in request.extensions)
    assert seen[0] == common | {
        "mip.type": "1", "mip.flags": "0x02", "mip.t": "1", "mip.s": "0", "mip.life": "600",
        "mip.coa": "10.9.0.2", "mip.ext.type": "32,34", "mip.ext.len": "20,20",
        "mip.auth.spi": "0x00001234,0x00001234", "mip.auth.auth": both}
    assert seen[1] == common | {
        "mip.type": "3", "mip.code": "133", "mip.life": "0", "mip.ext.type": "32",
        "mip.ext.len": "20", "mip.auth.spi": "0x00001234",
        "mip.auth.auth": reply.extensions[0].data[4:].hex()}


def test_tshark_reads_identifications(tmp_path):
    """Its clock shows the time that was meant."""
    request = Request(**{**vars(REQUEST), "identification": packets.make_identification(1.2e9)})
    (seen,) = dissect(tmp_path, [
        Ipv4Packet(UDP, "10.1.0.12", "10.2.0.1", 255, request.encode(), 434, 434).encode()],
        "mip.ident")
    assert seen["mip.ident"].startswith("Jan 10, 2008 21:20:00.0")


def test_tshark_reads_discovery(tmp_path):
    """Flags, lifetimes, care-of address and prefix length of an advertisement; a solicitation."""
    seen = dissect(tmp_path, [
        Ipv4Packet(ICMP, "10.2.0.1", "224.0.0.1", 1, ADVERTISEMENT.encode()).encode(),
        Ipv4Packet(ICMP, "10.1.0.12", "224.0.0.2", 1, discovery.encode_solicitation()).encode()],
        "icmp.type", "icmp.checksum.status", "icmp.mip.type", "icmp.mip.seq", "icmp.mip.life",
        "icmp.mip.coa", "icmp.mip.prefixlength", *(f"icmp.mip.{f}" for f in FLAGS))
    assert seen[1] == {"icmp.type": "10", "icmp.checksum.status": "1"}
    assert seen[0] == {
        "icmp.type": "9", "icmp.checksum.status": "1", "icmp.mip.type": "16,19",
        "icmp.mip.seq": "7", "icmp.mip.life": "600", "icmp.mip.coa": "10.9.0.2",
        "icmp.mip.prefixlength": "24", **{f"icmp.mip.{f}": str(v) for f, v in FLAGS.items()}}


FLAGS = {"r": 1, "b": 0, "h": 1, "f": 1, "m": 0, "g": 0, "rt": 1}


# --- configurations ------------------------------------------------------------------------------

NODE = {"interface": "wlan0", "home_address": "10.1.0.12", "home_agent": "10.1.0.1", "spi": 256,
        "key_hex": "00" * 16}


def test_configuration(tmp_path):
    """What is not said has its default."""
    path = tmp_path / "node.json"
    path.write_text(json.dumps(NODE))
    node = daemon.load_node_config(path)
    assert (node.lifetime_s, node.by_event, node.retry_s) == (600, True, 1.0)


@pytest.mark.parametrize(("change", "said"), [
    ({"spi": 255}, "spi: an index from 256"), ({"key_hex": "00"}, "key_hex: at least 16 octets"),
    ({"key_hex": "xy"}, "key_hex: "), ({"lifetime_s": 0}, "lifetime_s: a number of seconds"),
    ({"lifetime_s": True}, "lifetime_s: "), ({"home_agent": "10.1"}, "home_agent: an IPv4"),
    ({"home_agent": 7}, "home_agent: an IPv4"), ({"detection": "never"}, "detection: event or"),
    ({"reverse_tunnel": 1}, "reverse_tunnel: true or false"), ({"retry_s": 0}, "retry_s: "),
    ({"clock_offset_s": "1"}, "clock_offset_s: a finite number"), ({"speed": 1}, "unknown: speed")])
def test_wrong_configuration(tmp_path, change, said):
    """One line with file and key."""
    path = tmp_path / "node.json"
    path.write_text(json.dumps(NODE | change))
    with pytest.raises(ConfigError) as caught:
        daemon.load_node_config(path)
    assert str(caught.value).startswith("node.json: ")
    assert said in str(caught.value)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"interface": "air0"}'])
def test_no_configuration(tmp_path, text):
    """What is no object, or lacks a key, is refused too; and so is a file that is not there."""
    path = tmp_path / "agent.json"
    path.write_text(text)
    for place in (path, tmp_path / "none.json"):
        with pytest.raises(ConfigError):
            daemon.load_agent_config(place)


#: A program that the kernel refuses something at its start. It takes signals, so it is a process.
REFUSED_PROGRAM = """
from types import SimpleNamespace
from topologies.mobile_ip import daemon

class Refused:
    def __init__(self, *_): pass
    def start(self): raise PermissionError(1, "Operation not permitted")
    def stop(self): daemon.print_event("undone")

config = SimpleNamespace(interface="wlan0")
raise SystemExit(daemon.run_daemon(["none"], lambda _: config, Refused, lambda _: {}))
"""


def test_a_refused_start_is_one_event() -> None:
    """A traceback would reach nobody: the harness reads events."""
    done = subprocess.run([sys.executable, "-c", REFUSED_PROGRAM], capture_output=True, text=True,
                          check=False, cwd=Path(__file__).parents[2])
    said = [json.loads(line) for line in done.stdout.splitlines()]
    assert (done.returncode, done.stderr) == (1, "")
    assert [(each["event"], each.get("reason")) for each in said] == [
        ("failed", "wlan0: Operation not permitted"), ("undone", None)]
