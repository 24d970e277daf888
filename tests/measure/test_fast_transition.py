"""Keys of fast transition, computed from a session's key and compared with recorded messages."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from conftest import PROJECT
from measure.capture.pcap import CapturedFrame
from measure.packets import fast_transition
from measure.packets.fast_transition import SHA256, SHA384, HashSuite, ProtectedMessage

RECORDED: dict[str, dict[str, Any]] = json.loads(
    (PROJECT / "tests/recorded/fast_transition/messages.json").read_text())
STATION, SSID = bytes.fromhex("02000000a200"), b"qop"
SUITES = [(SHA256, 16), (SHA384, 32)]


def messages(digest: str, suite: HashSuite) -> list[ProtectedMessage]:
    """The second message of a handshake, and a reassociation, as recorded under a hash."""
    eapol, air = ([bytes.fromhex(text) for text in RECORDED[digest][part]]
                  for part in ("eapol", "air"))
    return [*fast_transition.read_initial_handshakes(
        (CapturedFrame(0.0, data, len(data)) for data in eapol), suite),
        *fast_transition.read_reassociations(air, suite, STATION)]


def keys_of(read: Sequence[ProtectedMessage], suite: HashSuite, size: int, session: bytes,
            ssid: bytes = SSID) -> set[str]:
    """Temporal keys of the messages whose MIC is right."""
    found = (each.find_keys(suite, [(session, ssid)], size) for each in read)
    return {keys.temporal.hex() for keys in found if keys}


@pytest.mark.parametrize(("suite", "size"), SUITES)
def test_recorded_messages_have_the_keys_that_the_kernels_had(suite: HashSuite, size: int) -> None:
    """The handshake, the request and its response all have right MICs."""
    recorded = RECORDED[suite.digest]
    read, session = messages(suite.digest, suite), bytes.fromhex(recorded["session"])
    assert len(read) == 3
    assert keys_of(read, suite, size, session) == set(recorded["keys"])
    assert all(each.find_keys(suite, [(session, SSID)], size) for each in read)


@pytest.mark.parametrize(("suite", "size"), SUITES)
def test_another_session_network_or_message_has_no_right_mic(suite: HashSuite, size: int) -> None:
    session = bytes.fromhex(RECORDED[suite.digest]["session"])
    read = messages(suite.digest, suite)
    assert not keys_of(read, suite, size, session[::-1])
    assert not keys_of(read, suite, size, session, b"other")
    changed = [replace(each, data=each.data[:-1] + bytes((each.data[-1] ^ 1,))) for each in read]
    assert not keys_of(changed, suite, size, session)


def test_the_other_hash_finds_no_message() -> None:
    """MICs of another length leave no names where the hash expects them."""
    for digest, suite, size in (("sha256", SHA384, 32), ("sha384", SHA256, 16)):
        session = bytes.fromhex(RECORDED[digest]["session"])
        assert not keys_of(messages(digest, suite), suite, size, session)
