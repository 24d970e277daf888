"""Prove from captures who is at the ends of a channel.

The checks are the same over wires and on the air.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from measure.observed import Check
from measure.pcap import CapturedFrame
from studies.adp1987 import opened, sniffed
from studies.adp1987.opened import OpenedCapture
from studies.adp1987.sniffed import SniffedHead

OWNER = "xena"
#: Key files that are needed to open a channel and to verify its signatures.
KEY_FILES = (f"{OWNER}.pub.pem", "alice.pub.pem", "bob.pem")


def ephemeral_keys(logged: Iterable[Sequence[str]]) -> dict[bytes, bytes]:
    """Return the ephemeral private keys in a program's log, by their public keys."""
    return {bytes.fromhex(public): bytes.fromhex(private) for public, private in logged}


def open_frames(frames: Iterable[CapturedFrame], initiator: str, keys: Path,
                secrets: Mapping[bytes, bytes]) -> OpenedCapture:
    """Open the channels in whole captured frames.

    Args:
        frames: Captured frames, in order of time.
        initiator: IPv4 address of the host that requests channels.
        keys: Folder with the owners' key files.
        secrets: Ephemeral private keys by their public keys.

    Raises:
        MeasureError: The frames cannot be read.
    """
    return opened.open_capture(sniffed.reassemble_messages(frames), initiator, keys, secrets)


def check_channel(capture: OpenedCapture, later: Sequence[SniffedHead] = ()) -> Check:
    """Check that one request led to one channel that both kernel owners signed.

    Only the modern protocol has handshake signatures. `later` holds the heads of later phases. All
    of them must be on that channel, and none may request another one.
    """
    requests = sum(len(channel.requests) for channel in capture.channels)
    unsigned = sum(not channel.is_signed for channel in capture.channels)
    asking = sum(head.is_request for head in later)
    strange = sniffed.count_channels({head.channel for head in later},
                                     capture.by_number.keys() | {head.announced for head in later})
    return Check("channel", requests == len(capture.channels) == 1 and bool(capture.messages)
                 and not (unsigned or asking or strange), (
        f"{requests} request for {len(capture.channels)} channel in the capture, "
        f"{len(capture.messages)} messages on it; {strange} other channels and {asking} requests "
        "in "
        f"the {len(later)} ADP messages of later phases"
        + f"; {unsigned} whose handshake the kernels' owners have not signed" * bool(unsigned)))


def check_owner(capture: OpenedCapture, folder: Path, later: Sequence[SniffedHead] = ()) -> Check:
    """Check that the owner signs a channel validly and only once.

    The signature must verify under the owner's published key, and none may follow the confirmation.
    `later` heads may carry no further signature, as far as signatures are in the clear.
    """
    key = folder / f"{OWNER}.pub.pem"
    counts = [len(channel.proofs.get(OWNER, ())) for channel in capture.channels]
    others = {name for channel in capture.channels for name in channel.proofs} - {OWNER}
    wrong = sum(not channel.is_signature(OWNER, signature, key) for channel in capture.channels
                for signature in channel.proofs.get(OWNER, ()))
    after = sum(0 <= channel.confirmed_after <= place for channel in capture.channels
                for place in channel.proof_places)
    unknown = sum(channel.confirmed_after < 0 for channel in capture.channels)
    unread = sum(message.body is None for message in capture.messages)
    bearing = sum(len(channel.proof_places) for channel in capture.channels)
    again = sum(head.signatures for head in later)
    ok = bool(counts) and set(counts) == {1} and not (
        others or wrong or after or unknown or unread or again)
    return Check("owner", ok, (
        f"{sum(counts)} signature of {OWNER} on {len(counts)} channel, {wrong} of them wrong under "
        f"the published key, in {bearing} of {len(capture.messages)} messages ({unread} of them "
        f"unreadable), {after} after it was confirmed, {unknown} never confirmed; {len(others)} of "
        f"other owners"
        + f"; {again} in the clear in the {len(later)} ADP messages of later phases" * bool(later)))
