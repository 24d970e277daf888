"""ADP's Wireshark dissector, by the real tshark on captures of what the hosts send."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

import made_up_captures
from adp_hosts import MODERN, OLD, World, message
from conftest import PROJECT
from protocols.adp import packets
from protocols.adp.context import HostSettings
from protocols.adp.effects import EncryptionScope
from protocols.adp.packets import HeaderFlag

SCRIPT = PROJECT / "protocols" / "adp" / "dissector.lua"
FIELDS = [*(f"authdp.{name}" for name in (
    "version", "count", "channel", "flags", "signature.owner", "confirmed", "message.destination",
    "message.data", "malformed")), "_ws.malformed"]

#: Newer tsharks run no script for root, nor for who is root in a namespace.
AS_NOBODY = ["unshare", "--user"] if os.geteuid() == 0 else []

pytestmark = pytest.mark.skipif(shutil.which("tshark") is None, reason="needs tshark")


def capture(file: Path, payloads: list[bytes]) -> None:
    """A pcap file of IP packets under protocol 253."""
    made_up_captures.written(file, [
        (number, struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(payload), number, 0, 64, 253, 0,
                             bytes((10, 9, 0, 1)), bytes((10, 9, 0, 2))) + payload)
        for number, payload in enumerate(payloads)], made_up_captures.RAW_IP)


def dissect(file: Path, names: Sequence[str] = FIELDS) -> list[dict[str, str]]:
    """What tshark finds in each packet, by field."""
    options = [part for name in names for part in ("-e", name)]
    done = subprocess.run(
        [*AS_NOBODY, "tshark", "-X", f"lua_script:{SCRIPT}", "-r", str(file), "-T", "fields",
         "-E", "separator=/t", *options], capture_output=True, text=True, check=True)
    assert "Lua Error" not in done.stdout + done.stderr
    return [dict(zip(names, line.split("\t"), strict=True)) for line in done.stdout.splitlines()]


@pytest.mark.parametrize("version", [OLD, MODERN])
@pytest.mark.parametrize("scope", [EncryptionScope.TRAILER, EncryptionScope.ALL])
def test_what_is_in_clear_is_shown(version, scope, tmp_path):
    """Frames always, owners and messages unless they are encrypted; nothing is malformed."""
    world = World(version, HostSettings(scope=scope))
    for number in range(6):
        world.send("alpha", message(b"%d of these" % number, urgent=number % 3 == 0))
        world.wait(0.1)
    payloads = [shipped.effect.payload for shipped in world.shipped]
    capture(tmp_path / "adp.pcap", payloads)
    rows = dissect(tmp_path / "adp.pcap")
    assert len(rows) == len(payloads)
    for row, payload in zip(rows, payloads, strict=True):
        frame = packets.parse_frame(payload)
        assert row["authdp.channel"] == frame.channel.hex()
        assert int(row["authdp.count"]) == frame.count
        assert int(row["authdp.flags"], 16) == frame.flags
        assert not row["authdp.malformed"] and not row["_ws.malformed"]
    texts = [data for row in rows for data in row["authdp.message.data"].split(",") if data]
    owners = {row["authdp.signature.owner"] for row in rows} - {""}
    if scope is EncryptionScope.TRAILER:
        assert texts == [(b"%d of these" % number).hex() for number in range(6)]
        assert owners == {"xena"}
        assert sum(bool(row["authdp.confirmed"]) for row in rows) == 1
    else:
        assert not texts and not owners
        assert any(packets.parse_frame(payload).flags & HeaderFlag.ALL for payload in payloads)


def test_cut_short(tmp_path):
    """A message cut anywhere is said to be, and is no error of the script's."""
    world = World(OLD, HostSettings(scope=EncryptionScope.NONE))
    world.send("alpha", message())
    payload = world.packets[0].payload
    cuts = [payload[:size] for size in range(packets.HEADER, len(payload))]
    capture(tmp_path / "adp.pcap", cuts)
    rows = dissect(tmp_path / "adp.pcap")
    assert len(rows) == len(cuts)
    assert all(row["authdp.malformed"] == "cut short" for row in rows)


PARTS = ("request.t", "request.s", "request.key", "request.signature", "acknowledgement.key",
         "acknowledgement.signature", "next.channel", "next.key")


@pytest.mark.parametrize(("version", "shown"), [
    (OLD, {"request.t": 16, "request.s": 64}),
    (MODERN, {"request.key": 32, "request.signature": 64, "acknowledgement.key": 32,
              "acknowledgement.signature": 64, "next.channel": 8, "next.key": 32})])
def test_a_handshakes_parts_are_shown(version, shown, tmp_path):
    """Of requests, acknowledgements and next keys, each by itself, with its size in bytes."""
    world = World(version, HostSettings(rekey_after_s=5.0))
    for _ in range(3):
        world.send("alpha", message())
        world.wait(3)
    capture(tmp_path / "adp.pcap", [shipped.effect.payload for shipped in world.shipped])
    rows = dissect(tmp_path / "adp.pcap", [f"authdp.{name}" for name in PARTS])
    assert {name: len(text) // 2 for row in rows for name in PARTS
            if (text := row[f"authdp.{name}"])} == shown
