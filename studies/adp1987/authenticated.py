"""Who is at the ends of a channel is proven from its capture, over wires and on the air alike."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from measure.observed import Check
from measure.pcap import CapturedFrame
from studies.adp1987 import opened, sniffed
from studies.adp1987.opened import OpenedCapture

OWNER = "xena"
#: Of owners, what it takes to open and to verify a channel.
KEY_FILES = (f"{OWNER}.pub.pem", "alice.pub.pem", "bob.pem")


def ephemeral(logged: Iterable[Sequence[str]]) -> dict[bytes, bytes]:
    """Ephemeral private keys by their public halves, of a program's log."""
    return {bytes.fromhex(public): bytes.fromhex(private) for public, private in logged}


def captured(frames: Iterable[CapturedFrame], initiator: str, keys: Path,
             secrets: Mapping[bytes, bytes]) -> OpenedCapture:
    """The channels of whole frames. Raises MeasureError."""
    return opened.capture(sniffed.whole(frames), initiator, keys, secrets)


def one_channel(seen: OpenedCapture) -> Check:
    """One request for one channel, signed by both kernels' owners where they are to."""
    requests = sum(len(channel.requests) for channel in seen.channels)
    unsigned = sum(not channel.is_signed for channel in seen.channels)
    return Check("channel", requests == len(seen.channels) == 1 and bool(seen.messages)
                 and not unsigned, (
        f"{requests} request for {len(seen.channels)} channel in the capture, "
        f"{len(seen.messages)} messages on it"
        + f"; {unsigned} whose handshake the kernels' owners have not signed" * bool(unsigned)))


def owner(seen: OpenedCapture, folder: Path) -> Check:
    """One signature an owner and channel, right under its published key, and none once known."""
    key = folder / f"{OWNER}.pub.pem"
    counts = [len(channel.proofs.get(OWNER, ())) for channel in seen.channels]
    others = {name for channel in seen.channels for name in channel.proofs} - {OWNER}
    wrong = sum(not channel.is_signature(OWNER, signature, key) for channel in seen.channels
                for signature in channel.proofs.get(OWNER, ()))
    later = sum(0 <= channel.confirmed_after <= place for channel in seen.channels
                for place in channel.proof_places)
    unknown = sum(channel.confirmed_after < 0 for channel in seen.channels)
    bearing = sum(len(channel.proof_places) for channel in seen.channels)
    ok = bool(counts) and set(counts) == {1} and not (others or wrong or later or unknown)
    return Check("owner", ok, (
        f"{sum(counts)} signature of {OWNER} on {len(counts)} channel, {wrong} of them wrong under "
        f"the published key, in {bearing} of {len(seen.messages)} messages, {later} after it was "
        f"confirmed, {unknown} never confirmed; {len(others)} of other owners"))
