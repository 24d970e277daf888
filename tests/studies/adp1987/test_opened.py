"""Tests that channels of the modern protocol open with the receiver's key log, and only so."""

from __future__ import annotations

from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from adp_hosts import KEYS, MODERN, World, message
from protocols.adp import packets
from protocols.adp.context import Settings
from protocols.adp.effects import Scope
from studies.adp1987 import opened
from studies.adp1987.logs import DerivedKeys
from studies.adp1987.sniffed import SniffedMessage

TEXTS = [b"first", b"second", b"third"]


def talked(scope: Scope) -> tuple[list[SniffedMessage], list[DerivedKeys]]:
    """What alpha and beta sent, and what beta logged of its keys."""
    world = World(MODERN, Settings(scope=scope, queue=False))
    keys: list[DerivedKeys] = []
    world.hosts["beta"].log_keys(lambda salt, derived: keys.append(DerivedKeys(salt, derived)))
    for text in TEXTS:
        world.send("alpha", message(text))
        world.flush()
    world.wait(5)
    assert world.texts("beta") == TEXTS
    return [SniffedMessage(shipped.at_s, shipped.host, shipped.effect.payload,
                           packets.parse(shipped.effect.payload))
            for shipped in world.shipped], keys


def said(channel: opened.OpenedChannel) -> list[bytes]:
    return [record.data for each in channel.messages if each.body for record in each.body.records]


@pytest.mark.parametrize("scope", [Scope.ALL, Scope.TRAILER])
def test_a_channel_opens_with_its_key_log(tmp_path: Path, scope: Scope) -> None:
    """Every message and the owner's only signature; it is right for her, this channel, her key."""
    sent, keys = talked(scope)
    channel = opened.channel(sent, "alpha", tmp_path, keys)
    assert said(channel) == TEXTS and channel.spoilt == 0
    [signature] = channel.proofs["xena"]
    assert channel.confirmed_after >= 0
    files = {}
    for name in ("xena", "yuri"):
        files[name] = tmp_path / f"{name}.pub.pem"
        key = KEYS[MODERN][name].public_key()  # type: ignore[union-attr]
        files[name].write_bytes(key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    transcript = keys[0].salt
    assert opened.is_modern_signature(signature, transcript, "xena", files["xena"])
    assert not opened.is_modern_signature(signature, transcript, "xena", files["yuri"])
    assert not opened.is_modern_signature(signature, transcript, "yuri", files["xena"])
    assert not opened.is_modern_signature(signature, bytes(32), "xena", files["xena"])


def test_without_its_keys_nothing_opens(tmp_path: Path) -> None:
    """Nor with another channel's, nor where a byte was changed: that is spoilt."""
    sent, keys = talked(Scope.ALL)
    assert said(opened.channel(sent, "alpha", tmp_path)) == []
    other = [DerivedKeys(bytes(32), bytes(96))]
    assert said(opened.channel(sent, "alpha", tmp_path, other)) == []
    last = max(at for at, each in enumerate(sent) if each.source == "alpha" and each.frame
               and each.frame.count)
    payload = sent[last].payload[:-1] + bytes([sent[last].payload[-1] ^ 1])
    sent[last] = SniffedMessage(0.0, "alpha", payload, packets.parse(payload))
    channel = opened.channel(sent, "alpha", tmp_path, keys)
    assert said(channel) == TEXTS[:-1] and channel.spoilt == 1
