"""Check MACsec on wires (IEEE 802.1AE) by frames, by keys and by kernel state.

Only MACsec and its key agreement (`mka`) may pass. Frames are decrypted outside the machine with
keys that were distributed under the network's CAK. Their content must equal the captures above
MACsec, from which all other checks of the wire are made.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CTR

from measure import mka, pcap
from measure.mka import HandedKey
from measure.observed import MACSEC, Check, Observed
from measure.pcap import CapturedFrame
from measure.points import BELOW, TRAFFIC
from policies.layers import WireLayer

_ETHERTYPE = 0x88E5
_ADDRESSES_BYTES, _TAG_BYTES, _ICV_BYTES = 12, 16, 16
_HEAD_BYTES = _ADDRESSES_BYTES + _TAG_BYTES
#: Bits of the tag's first byte: SCI present, encrypted, changed text; and the association number.
_EXPLICIT, _ENCRYPTED, _CHANGED, _ASSOCIATION = 0x20, 0x08, 0x04, 0x03
_IPV4, _ARP = b"\x08\x00", b"\x08\x06"
_ARP_BYTES = 28
#: Points above MACsec by the points below: behind the first access point, and behind the second.
_ABOVE = dict(zip(BELOW, ("wire", "foreign"), strict=True))
#: The kernel's counters of invalid frames.
_REFUSED = ("InPktsInvalid", "InPktsNotValid", "InPktsNotUsingSA", "InPktsUnusedSA")
#: Bytes of the key number in a key identifier, after the member identifier.
_NUMBER_BYTES = 4


@dataclass(frozen=True)
class ProtectedFrame:
    """A MACsec frame, whole or truncated by the capture."""

    at_s: float
    data: bytes
    wire_bytes: int

    @property
    def is_encrypted(self) -> bool:
        """Return whether the tag states that the content is encrypted."""
        return self.data[14] & (_ENCRYPTED | _CHANGED) == _ENCRYPTED | _CHANGED

    @property
    def association(self) -> int:
        """Return the association number (AN), which selects a channel's key."""
        return self.data[14] & _ASSOCIATION

    @property
    def number(self) -> int:
        """Return the packet number (PN)."""
        return int.from_bytes(self.data[16:20], "big")

    @property
    def channel(self) -> bytes:
        """Return the sender's channel identifier (SCI)."""
        return self.data[20:28]

    def decrypt(self, key: bytes) -> bytes | None:
        """Decrypt and verify the frame, and return the Ethernet frame inside.

        The result is None if the key is wrong or the frame was changed.
        """
        head, rest = self.data[:_HEAD_BYTES], self.data[_HEAD_BYTES:]
        nonce = self.channel + self.data[16:20]
        clear, sealed = (b"", rest) if self.is_encrypted else (rest[:-_ICV_BYTES],
                                                               rest[-_ICV_BYTES:])
        try:
            inside = AESGCM(key).decrypt(nonce, sealed, head + clear)
        except InvalidTag:
            return None
        return head[:_ADDRESSES_BYTES] + (inside or clear)

    def has_plausible_start(self, key: bytes) -> bool:
        """Return whether a truncated frame's decrypted first bytes fit its length."""
        rest = self.data[_HEAD_BYTES:]
        if self.is_encrypted:
            # GCM encrypts in counter mode from counter 2 on (NIST SP 800-38D, 7.1).
            first = self.channel + self.data[16:20] + (2).to_bytes(4, "big")
            rest = Cipher(AES(key), CTR(first)).decryptor().update(rest)
        size = self.wire_bytes - _HEAD_BYTES - _ICV_BYTES - len(_IPV4)
        return ((rest[:2] == _IPV4 and int.from_bytes(rest[4:6], "big") == size)
                or (rest[:2] == _ARP and size == _ARP_BYTES))


@dataclass(frozen=True)
class BelowCapture:
    """The frames of one capture below MACsec.

    The capture keeps 1 in `one_in` of the expected frames.
    """

    part: str
    point: str
    frames: Sequence[ProtectedFrame]
    agreements: int
    strange: int
    one_in: int

    @property
    def is_whole(self) -> bool:
        """Return whether frames are captured to their end."""
        return self.part != TRAFFIC


def read_capture(file: Path, part: str, point: str, one_in: int = 1) -> BelowCapture:
    """Read a capture below MACsec: its MACsec frames, and counts of MKA and other frames.

    Raises:
        MeasureError: The file cannot be read.
    """
    counts: Counter[str] = Counter()
    frames = []
    for frame in pcap.read_frames(file):
        if _is_protected(frame):
            frames.append(ProtectedFrame(frame.at_s, frame.data, frame.wire_bytes))
        else:
            counts["agreement" if mka.is_mka(frame.data) else "strange"] += 1
    return BelowCapture(part, point, frames, counts["agreement"], counts["strange"], one_in)


def verify(layer: WireLayer, observed: Observed) -> Iterator[Check]:
    """Yield the checks for a policy that protects wires."""
    files = _captures_below(observed)
    frames = [frame for each in files for frame in each.frames]
    agreements, strange = (sum(getattr(each, name) for each in files)
                           for name in ("agreements", "strange"))
    is_everywhere = bool(files) and all(each.frames for each in files)
    yield Check("MACsec on every frame of the wire", is_everywhere and not strange,
                f"in {len(files)} captures {len(frames)} frames of MACsec, {agreements} of its key "
                f"agreement, {strange} others")
    encrypted = sum(frame.is_encrypted for frame in frames)
    yield Check("MACsec encrypts" if layer.is_encrypted else "MACsec leaves frames in clear",
                bool(frames) and encrypted == (len(frames) if layer.is_encrypted else 0),
                f"{encrypted} of {len(frames)} frames are encrypted")
    keys, unknown = _distributed_keys(observed)
    yield from _check_decryption(observed, files, keys, unknown)
    yield _check_numbers(files, may_lose=observed.wires_lose > 0)
    yield _check_kernels(layer, observed, keys)


def _list_captures(observed: Observed) -> Iterator[tuple[str, str, str, int]]:
    """Yield file, part, point and sampling ratio of each existing capture."""
    for entry in observed.raw["captures"]:
        part, _, point = str(entry["file"]).removesuffix(".pcap").rpartition("-")
        if (observed.folder / entry["file"]).exists():
            yield entry["file"], part, point, entry.get("one_in", 1)


def _captures_below(observed: Observed) -> list[BelowCapture]:
    return [read_capture(observed.folder / file, part, point, one_in)
            for file, part, point, one_in in _list_captures(observed) if point in BELOW]


def _is_protected(frame: CapturedFrame) -> bool:
    """Return whether a frame has a MACsec tag with an SCI."""
    return (frame.kind == _ETHERTYPE and len(frame.data) >= _HEAD_BYTES
            and bool(frame.data[14] & _EXPLICIT))


def _distributed_keys(observed: Observed) -> tuple[list[HandedKey], int]:
    """Return the distributed keys, and the number of messages under another CAK."""
    if not observed.wires_key:
        return [], 0
    messages = ((frame.at_s, frame.data) for file, *_ in _list_captures(observed)
                if file.startswith(MACSEC)
                for frame in pcap.read_frames(observed.folder / file))
    return mka.distributed_keys(messages, observed.wires_key)


def _check_decryption(observed: Observed, files: Sequence[BelowCapture], keys: Sequence[HandedKey],
                      unknown: int) -> Iterator[Check]:
    """Check that every frame decrypts, and contains what is captured above."""
    closed, whole, heads = 0, 0, 0
    inside: dict[tuple[str, str], Counter[bytes]] = {}
    for each in files:
        carried = inside.setdefault((each.part, each.point), Counter())
        for frame in each.frames:
            fitting = [handed.key for handed in keys if handed.association == frame.association]
            if not each.is_whole:
                heads += 1
                closed += not any(map(frame.has_plausible_start, fitting))
            elif data := next(filter(None, map(frame.decrypt, fitting)), None):
                carried[data] += 1
                whole += 1
            else:
                closed += 1
    yield Check("MACsec frames open", bool(whole) and not closed and not unknown,
                f"with {len(keys)} keys handed out under the network's {whole} frames open and "
                f"{heads} begin as they should, {closed} do not; {unknown} messages have keys "
                "under another")
    begun_s = float(observed.raw["stamps"].get("start", float("inf")))
    above, lacking = 0, 0
    for (part, point), carried in inside.items():
        file = observed.folder / f"{part}-{_ABOVE[point]}.pcap"
        if part == TRAFFIC or not file.exists():
            continue
        there = Counter(f.data for f in pcap.read_frames(file) if f.at_s >= begun_s)
        above += there.total()
        lacking += (there - carried).total()
    yield Check("MACsec carries what is captured above it", bool(above) and not lacking,
                f"{above - lacking} of {above} frames of the captures above were inside")


def _check_numbers(files: Sequence[BelowCapture], *, may_lose: bool) -> Check:
    """Check that packet numbers rise by one (or the sampling ratio) in every channel.

    On a wire that loses packets, numbers may be missing, but never repeat or fall.
    """
    channels, gaps, lost = 0, 0, 0
    for each in files:
        numbers: dict[tuple[bytes, int], list[int]] = defaultdict(list)
        for frame in each.frames:
            numbers[frame.channel, frame.association].append(frame.number)
        channels += len(numbers)
        steps = [after - before for sequence in numbers.values()
                 for before, after in pairwise(sequence) if after - before != each.one_in]
        left_out = [step for step in steps if may_lose and step > 0 and not step % each.one_in]
        lost += sum(step // each.one_in - 1 for step in left_out)
        gaps += len(steps) - len(left_out)
    return Check("MACsec packet numbers", bool(channels) and not gaps,
                 f"{gaps} gaps or repetitions in {channels} sequences"
                 + (f"; {lost} numbers are left out, and a wire loses packets" if lost else ""))


def _check_kernels(layer: WireLayer, observed: Observed, keys: Sequence[HandedKey]) -> Check:
    """Check that both ends' kernels follow the policy, use these keys and refused no frame."""
    states: Mapping[str, Mapping[str, Any]] = observed.raw["kernel"].get("wires", {})
    wrong = sorted(end for end, state in states.items() if not _follows_policy(layer, state, keys))
    suites = sorted({str(state.get("cipher_suite")) for state in states.values()})
    return Check("MACsec in the kernels", len(states) > observed.moves + 1 and not wrong,
                 f"{len(states) - len(wrong)} of {len(states)} ends have {layer.macsec}"
                 f"{', and encrypt' if layer.is_encrypted else ''}; suites: "
                 f"{', '.join(suites) or 'none'}{'; not ' + ', '.join(wrong) if wrong else ''}")


def _follows_policy(layer: WireLayer, state: Mapping[str, Any], keys: Sequence[HandedKey]) -> bool:
    """Return whether an end's kernel follows the policy and accepted every frame."""
    settings = (state.get("cipher_suite"), state.get("icv_length"), state.get("validate"),
                state.get("protect"), state.get("replay"), state.get("encrypt"))
    channels = state.get("rx_sc") or [{}]
    lists = [each.get("sa_list", ()) for each in (state, *channels)]
    identifiers = {_kernel_identifier(handed.identifier) for handed in keys}
    sent = state.get("OutPktsEncrypted" if layer.is_encrypted else "OutPktsProtected", 0)
    return (settings == (layer.macsec, _ICV_BYTES, "strict", True, True,
                         layer.is_encrypted)
            and all(lists) and sent > 0
            and {each.get("key") for used in lists for each in used} <= identifiers
            and all(channel.get("InPktsOK", 0) > 0 and not any(
                channel.get(name) for name in _REFUSED) for channel in channels))


def _kernel_identifier(identifier: bytes) -> str:
    """Return a key identifier as the kernel shows it.

    The kernel has the key number in the processor's byte order (little-endian).
    """
    number = int.from_bytes(identifier[-_NUMBER_BYTES:], "big")
    return (identifier[:-_NUMBER_BYTES] + number.to_bytes(_NUMBER_BYTES, "little")).hex()
