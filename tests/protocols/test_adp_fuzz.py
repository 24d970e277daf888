"""Any bytes whatever given to ADP's parsers and hosts: the protocol's own error, or none."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adp_hosts import MODERN, OLD, Packet, World, message, reply
from protocols.adp import config, packets
from protocols.adp.context import HostSettings
from protocols.adp.effects import ProgramEvent
from protocols.adp.packets import (
    AdpError,
    Frame,
    HeaderFlag,
    MessageKind,
    OwnerSignature,
    PacketError,
    UserMessage,
)
from protocols.adp.program import _parse_message
from protocols.adp.suite import ReplayWindow
from protocols.fields import ConfigError

BOTH = pytest.mark.parametrize("version", [OLD, MODERN])
NAMES = st.text(min_size=1, max_size=60).filter(
    lambda name: name.isprintable() and 0 < len(name.encode()) <= 255)
U16 = st.integers(0, 0xFFFF)
PROOFS = st.builds(OwnerSignature, U16, NAMES, st.binary(max_size=200))
RECORDS = st.builds(UserMessage, U16, NAMES, U16, st.binary(max_size=300))
COUNTED = st.binary(max_size=200)


@st.composite
def frames(draw):
    """Any frame that can be written."""
    flags = draw(st.integers(0, 0x7F))
    return Frame(draw(st.integers(0, 15)), draw(st.sampled_from(MessageKind)), flags, draw(U16),
                 draw(st.binary(min_size=8, max_size=8)), draw(st.binary(min_size=8, max_size=8)),
                 draw(COUNTED) if flags & HeaderFlag.REQUEST else b"",
                 draw(COUNTED) if flags & HeaderFlag.ACKNOWLEDGE else b"",
                 draw(st.binary(max_size=300)))


@given(frames())
def test_frame_round_trip(frame):
    """What is written is read."""
    assert packets.parse_frame(frame.clear_bytes() + frame.sealed) == frame


@given(st.lists(PROOFS, max_size=5), st.lists(U16, max_size=20), st.lists(RECORDS, max_size=8),
       st.integers(0, 7))
def test_body_round_trip(signatures, confirmed, messages, zeros):
    """What is written is read, with whatever padding is allowed."""
    encoded = packets.encode_body(signatures, confirmed, [
        packets.encode_message(message.source, message.destination.encode(), message.port,
                               message.data)
        for message in messages])
    body = packets.parse_body(encoded + bytes(zeros), len(messages), 8)
    assert body == (tuple(signatures), tuple(confirmed), tuple(messages))
    with pytest.raises(PacketError):
        packets.parse_body(encoded + bytes(8), len(messages), 8)
    with pytest.raises(PacketError):
        packets.parse_body(encoded + b"\1", len(messages), 8)


@settings(max_examples=100)
@given(st.binary(max_size=200))
def test_any_bytes_as_a_frame(data):
    """A frame that stands for exactly these bytes, or an error of the protocol's."""
    try:
        frame = packets.parse_frame(data)
    except PacketError:
        return
    assert frame.clear_bytes() + frame.sealed == data


@settings(max_examples=100)
@given(st.binary(max_size=200), st.integers(0, 20), st.sampled_from([1, 8]))
def test_any_bytes_as_a_body(data, count, padding):
    """A body, or an error of the protocol's."""
    try:
        body = packets.parse_body(data, count, padding)
    except PacketError:
        return
    assert len(body.messages) == count


@BOTH
@settings(max_examples=50, deadline=None)
@given(data=st.lists(st.binary(max_size=300), max_size=5),
       source=st.sampled_from(["beta", "alpha", "nowhere"]), frame=frames())
def test_any_bytes_at_a_host(version, data, source, frame):
    """Fresh, asking, or on a channel: nothing is delivered, nothing is raised."""
    world = World(version)
    number = 1 if version == OLD else 2
    mine = replace(frame, version=number).clear_bytes() + frame.sealed
    for state in range(3):
        for payload in [*data, mine]:
            world.arrive(Packet(source, "alpha", payload))
        world.packets = [packet for packet in world.packets if packet.host != "nowhere"]
        if state == 0:
            world.send("alpha", message())
            current = world.hosts["alpha"]._peers["beta"].channels.tentative.id
            for flags in (frame.flags, frame.flags | HeaderFlag.ACKNOWLEDGE | HeaderFlag.SEALED):
                known = replace(frame, version=number, channel=current, flags=flags)
                world.arrive(Packet("beta", "alpha", known.clear_bytes() + frame.sealed))
        else:
            world.wait(3)
    assert not world.delivered["alpha"]
    assert world.texts("beta") == [b"hello"]


@BOTH
@settings(max_examples=50, deadline=None)
@given(data=st.data())
def test_mutilated_datagrams(version, data):
    """Cut, extended, spliced or overwritten traffic: nothing is raised, nothing false delivered."""
    world = World(version, HostSettings(checksum=True, rekey_after_s=0.5))
    sent = [b"one", b"two", b"three"]
    for text in sent:
        world.send("alpha", message(text))
        world.send("beta", reply(text))
        for _ in range(8):
            if not world.packets:
                break
            packet = world.packets.pop(0)
            payload = packet.payload
            where = data.draw(st.integers(0, len(payload)))
            other = data.draw(st.sampled_from([b"", bytes(30), payload, payload[where:]]))
            world.arrive(replace(packet, payload=payload[:where] + other))
            world.arrive(packet)
        world.wait(1, lossless=False)
    assert set(world.texts("alpha")) | set(world.texts("beta")) <= set(sent)
    assert len(world.texts("beta")) == len(set(world.texts("beta")))


@BOTH
@settings(max_examples=50, deadline=None)
@given(encoded=st.binary(max_size=200), asked=st.booleans())
def test_any_bytes_as_a_request_or_an_acknowledgement(version, encoded, asked):
    """The suites' own parsers: an error of the protocol's, or keys that nobody else has."""
    world = World(version)
    suite = world.hosts["alpha"]._context.suite
    frame = Frame(suite.version, MessageKind.DATA, 0, 0, bytes(8), bytes(8), encoded, encoded)
    request, security = suite.create_request("beta")
    calls = [lambda: suite.accept_request("beta", frame),
             lambda: suite.complete_request(request, security, frame)]
    if asked and version == MODERN:
        other = World(version)
        other.open("alpha", "beta")
        other.flush()
        keys = other.hosts["beta"]._peers["alpha"].channels.current.security
        calls += [lambda: suite.accept_rekey(keys, frame),
                  lambda: suite.complete_rekey(request, keys, frame)]
    for call in calls:
        try:
            call()
        except PacketError:
            continue


@given(st.lists(st.integers(0, 2**64 - 1) | st.integers(0, 200), max_size=100),
       st.integers(1, 70))
def test_replay_window(numbers, width):
    """Each number once, and none that is `width` or more behind; jumps of any size."""
    window, seen = ReplayWindow(width), set()
    for number in numbers:
        highest = max(seen, default=0)
        expected = number > 0 and number not in seen and number > highest - width
        assert window.is_fresh(number) is expected
        if expected:
            window.accept(number)
            seen.add(number)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=10)
    | st.sampled_from(["adp", "alpha", "10.0.0.1", "alice", "ip", "udp", "trailer"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(
        st.sampled_from(["protocol", "host", "owners", "hosts", "network", "name", "kind", "port",
                         "address", "kernel_owner", "scope", "timeout_s", "bound_bytes", "ahead",
                         "private_key", "public_key"]) | st.text(max_size=5), inner, max_size=8),
    max_leaves=30)


@settings(max_examples=75)
@given(value=JSON)
def test_any_json_as_a_configuration(value, tmp_path):
    """One line that names the file, whatever it is."""
    file = tmp_path / "config.json"
    file.write_text(json.dumps(value))
    with pytest.raises(ConfigError, match=r"\Aconfig\.json: [^\n]+\Z"):
        config.load_config(file)


@settings(max_examples=50)
@given(data=st.binary(max_size=100))
def test_any_bytes_as_a_configuration(data, tmp_path):
    """One line that names the file, also if it is no JSON and no text."""
    file = tmp_path / "config.json"
    file.write_bytes(data)
    with pytest.raises(ConfigError, match=r"\Aconfig\.json: [^\n]+\Z"):
        config.load_config(file)


COMMANDS = st.dictionaries(
    st.sampled_from(["do", "source", "host", "destination", "port", "text", "data_hex", "urgent",
                     "max_delay_s", "private", "x"]),
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6)
    | st.sampled_from(["xena", "beta", "yuri", "00ff"]), max_size=11)


@settings(max_examples=100)
@given(COMMANDS)
def test_any_command(command):
    """A message that a host takes, or an error that is told in a line."""
    world = World(MODERN)
    try:
        world.send("alpha", _parse_message(command))
    except (AdpError, ValueError) as error:
        assert "\n" not in str(error)


def test_unknown_hosts_and_versions():
    """Datagrams of nobody's, and of the other version, are dropped and said to be."""
    world = World(OLD)
    other = World(MODERN)
    other.send("alpha", message())
    world.arrive(Packet("nowhere", "beta", other.packets[0].payload))
    world.arrive(Packet("alpha", "beta", other.packets[0].payload))
    assert [note for _, note in world.notes] == [
        ProgramEvent("dropped", {"host": "nowhere", "reason": "no such host"}),
        ProgramEvent("dropped", {"host": "alpha", "reason": "version 2"})]
