"""Check that the wires behind access points were protected by MACsec (IEEE 802.1AE).

`check_macsec` takes the wire layer of a policy, and the results of a repetition (one measurement of
the policy). It yields checks from captures of the protected wire, keys and kernel state. Only
MACsec frames and their key agreement (`measure.packets.mka`) may pass. The frames are decrypted
after the measurement, with keys that were distributed under the network's connectivity association
key (CAK). Their content must equal the captures of the unprotected side. `read_macsec_capture`
reads the frames of one capture.
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

from measure.capture import pcap
from measure.capture.pcap import CapturedFrame
from measure.capture.tcpdump import MACSEC_POINTS, TRAFFIC
from measure.checks.observation import MACSEC, Check, Observation
from measure.packets import mka
from measure.packets.mka import DistributedKey
from policies.layers import WireLayer

_ETHERTYPE = 0x88E5
_ADDRESSES_BYTES, _TAG_BYTES, _ICV_BYTES = 12, 16, 16
_HEAD_BYTES = _ADDRESSES_BYTES + _TAG_BYTES
#: Bits of the tag's first byte: SCI present, encrypted, changed text; and the association number.
_EXPLICIT, _ENCRYPTED, _CHANGED, _ASSOCIATION = 0x20, 0x08, 0x04, 0x03
_IPV4, _ARP = b"\x08\x00", b"\x08\x06"
_ARP_BYTES = 28
#: Points above MACsec by the points below: behind the first access point, and behind the second.
_ABOVE = dict(zip(MACSEC_POINTS, ("wire", "foreign"), strict=True))
#: The kernel's counters of invalid frames.
_REFUSED = ("InPktsInvalid", "InPktsNotValid", "InPktsNotUsingSA", "InPktsUnusedSA")
#: Bytes of the key number in a key identifier, after the member identifier.
_NUMBER_BYTES = 4


@dataclass(frozen=True)
class ProtectedFrame:
    """A captured MACsec frame, complete or truncated."""

    at_s: float
    data: bytes
    wire_bytes: int

    @property
    def is_encrypted(self) -> bool:
        """Return whether the MACsec tag says that the content is encrypted."""
        return self.data[14] & (_ENCRYPTED | _CHANGED) == _ENCRYPTED | _CHANGED

    @property
    def is_truncated(self) -> bool:
        """Return whether the capture stored only the first bytes of the frame."""
        return len(self.data) < self.wire_bytes

    @property
    def association(self) -> int:
        """Return the association number (AN), which selects the key of a MACsec channel."""
        return self.data[14] & _ASSOCIATION

    @property
    def number(self) -> int:
        """Return the packet number (PN) of the MACsec frame."""
        return int.from_bytes(self.data[16:20], "big")

    @property
    def channel(self) -> bytes:
        """Return the sender's secure channel identifier (SCI)."""
        return self.data[20:28]

    def decrypt(self, key: bytes) -> bytes | None:
        """Decrypt and verify the MACsec frame, and return the Ethernet frame inside.

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
        """Return whether the decrypted first bytes of a truncated frame fit its length."""
        sealed = self.data[_HEAD_BYTES:]
        if self.is_encrypted:
            # GCM encrypts in counter mode from counter 2 on (NIST SP 800-38D, 7.1).
            first = self.channel + self.data[16:20] + (2).to_bytes(4, "big")
            sealed = Cipher(AES(key), CTR(first)).decryptor().update(sealed)
        size = self.wire_bytes - _HEAD_BYTES - _ICV_BYTES - len(_IPV4)
        return ((sealed[:2] == _IPV4 and int.from_bytes(sealed[4:6], "big") == size)
                or (sealed[:2] == _ARP and size == _ARP_BYTES))


@dataclass(frozen=True)
class MacsecCapture:
    """The MACsec frames in one capture.

    - `part`, `point`: part of the repetition, and place of the capture
    - `frames`: MACsec frames. The capture keeps 1 in `one_in` of the frames.
    - `agreements`: number of frames of the MACsec Key Agreement protocol
    - `strange`: number of other frames
    """

    part: str
    point: str
    frames: Sequence[ProtectedFrame]
    agreements: int
    strange: int
    one_in: int

    @property
    def is_whole(self) -> bool:
        """Return whether the frames were captured to their last byte."""
        return self.part != TRAFFIC


def read_macsec_capture(file: Path, part: str, point: str, one_in: int = 1) -> MacsecCapture:
    """Read the MACsec frames of a capture, and count key agreement and other frames.

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
    return MacsecCapture(part, point, frames, counts["agreement"], counts["strange"], one_in)


def check_macsec(layer: WireLayer, observed: Observation) -> Iterator[Check]:
    """Yield the checks for a policy that protects wires by MACsec."""
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
    if layer.replay_window:
        yield _check_window(layer, observed)


def _list_captures(observed: Observation) -> Iterator[tuple[str, str, str, int]]:
    """Yield each capture that may have MACsec frames.

    Yields:
        File name, part of the repetition, capture point, and N if the capture has one of N packets.
    """
    for entry in observed.raw["captures"]:
        part, _, point = str(entry["file"]).removesuffix(".pcap").rpartition("-")
        if (observed.folder / entry["file"]).exists():
            yield entry["file"], part, point, entry.get("one_in", 1)


def _captures_below(observed: Observation) -> list[MacsecCapture]:
    return [read_macsec_capture(observed.folder / file, part, point, one_in)
            for file, part, point, one_in in _list_captures(observed) if point in MACSEC_POINTS]


def _is_protected(frame: CapturedFrame) -> bool:
    """Return whether a frame has a MACsec tag with a secure channel identifier."""
    return (frame.kind == _ETHERTYPE and len(frame.data) >= _HEAD_BYTES
            and bool(frame.data[14] & _EXPLICIT))


def _distributed_keys(observed: Observation) -> tuple[list[DistributedKey], int]:
    """Return the keys that MACsec key agreement distributed.

    The second value counts messages under another connectivity association key (CAK).
    """
    if not observed.wires_key:
        return [], 0
    messages = ((frame.at_s, frame.data) for file, *_ in _list_captures(observed)
                if file.startswith(MACSEC)
                for frame in pcap.read_frames(observed.folder / file))
    return mka.distributed_keys(messages, observed.wires_key)


def _check_decryption(observed: Observation, files: Sequence[MacsecCapture],
                      keys: Sequence[DistributedKey],
                      unknown: int) -> Iterator[Check]:
    """Check that every MACsec frame decrypts to a frame captured on the unprotected side."""
    closed, complete, heads = 0, 0, 0
    inside: dict[tuple[str, str], Counter[bytes]] = {}
    for each in files:
        carried = inside.setdefault((each.part, each.point), Counter())
        for frame in each.frames:
            fitting = [handed.key for handed in keys if handed.association == frame.association]
            if not each.is_whole:
                heads += 1
                closed += not any(map(frame.has_plausible_start if frame.is_truncated
                                      else frame.decrypt, fitting))
            elif data := next(filter(None, map(frame.decrypt, fitting)), None):
                carried[data] += 1
                complete += 1
            else:
                closed += 1
    yield Check("MACsec frames open", bool(complete) and not closed and not unknown,
                f"with {len(keys)} keys handed out under the network's {complete} frames open and "
                f"{heads} begin as they should, {closed} do not; {unknown} messages have keys "
                "under another")
    begun_s = float(observed.raw["stamps"].get("start", float("inf")))
    above, lacking = 0, 0
    for (part, point), carried in inside.items():
        file = observed.folder / f"{part}-{_ABOVE[point]}.pcap"
        if part == TRAFFIC or not file.exists():
            continue
        unprotected = Counter(f.data for f in pcap.read_frames(file) if f.at_s >= begun_s)
        above += unprotected.total()
        lacking += (unprotected - carried).total()
    yield Check("MACsec carries what is captured above it", bool(above) and not lacking,
                f"{above - lacking} of {above} frames of the captures above were inside")


def _check_numbers(files: Sequence[MacsecCapture], *, may_lose: bool) -> Check:
    """Check that the packet numbers of every MACsec channel rise by one for each frame.

    With sampling, they rise by the sampling ratio. On a wire that loses packets, numbers may be
    missing, but never repeat or fall.
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


def _check_kernels(layer: WireLayer, observed: Observation,
                   keys: Sequence[DistributedKey]) -> Check:
    """Check the MACsec state of both ends' kernels: settings, keys, and no refused frame."""
    states: Mapping[str, Mapping[str, Any]] = observed.raw["kernel"].get("wires", {})
    wrong = sorted(end for end, state in states.items() if not _follows_policy(layer, state, keys))
    suites = sorted({str(state.get("cipher_suite")) for state in states.values()})
    return Check("MACsec in the kernels", len(states) > observed.moves + 1 and not wrong,
                 f"{len(states) - len(wrong)} of {len(states)} ends have {layer.macsec}"
                 f"{', and encrypt' if layer.is_encrypted else ''}; suites: "
                 f"{', '.join(suites) or 'none'}{'; not ' + ', '.join(wrong) if wrong else ''}")


def _check_window(layer: WireLayer, observed: Observation) -> Check:
    """Check the replay window in the kernels at both ends of each wire, and count late frames."""
    states: Mapping[str, Mapping[str, Any]] = observed.raw["kernel"].get("wires", {})
    windows = {end: state.get("window") if state.get("replay") else None
               for end, state in states.items()}
    late = sum(channel.get("InPktsLate", 0) for state in states.values()
               for channel in state.get("rx_sc", ()))
    return Check("MACsec replay window", len(windows) > observed.moves + 1
                 and set(windows.values()) == {layer.replay_window},
                 f"{', '.join(f'{end}: {window}' for end, window in sorted(windows.items()))}; "
                 f"{late} frames were dropped as late")


def _follows_policy(layer: WireLayer, state: Mapping[str, Any],
                    keys: Sequence[DistributedKey]) -> bool:
    """Return whether a kernel's MACsec settings follow the policy and it accepted every frame.

    Each direction must have keys, of which all are distributed ones, and must have carried frames.
    """
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
    """Return a MACsec key identifier in the form in which the kernel shows it.

    The kernel has the key number in the processor's byte order (little-endian).
    """
    number = int.from_bytes(identifier[-_NUMBER_BYTES:], "big")
    return (identifier[:-_NUMBER_BYTES] + number.to_bytes(_NUMBER_BYTES, "little")).hex()
