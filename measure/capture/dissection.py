"""Dissect capture files with tshark, and return their packets for checks and timing.

`read_all_packets` takes capture files and keys, runs tshark (`measure.capture.tshark`) and returns
the packets of each file. Version 4.0 of tshark mistakes some encrypted data frames for mesh frames,
although no emulated network has a mesh. `correct_packets` decrypts these frames with the known
keys, dissects them again without protection, and replaces the mistaken packets.
"""

from __future__ import annotations

import tempfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from measure.capture import pcap, tshark
from measure.capture.pcap import (
    MAC_HEADER_BYTES,
    PROTECTED,
    QOS,
    CapturedFrame,
    addresses_end,
    header_bytes,
)
from measure.capture.tshark import Packet
from measure.packets import ciphers, eap

_TRANSMITTER = slice(10, 16)
#: Bit of the fourth byte after the header: four more bytes of the packet number follow.
_IS_EXTENDED, _VECTOR_BYTES, _EXTENDED_BYTES = 0x20, 4, 8
#: ICV of WEP and TKIP; TKIP has the Michael MIC before it, which is not checked here.
_CHECK_BYTES, _MICHAEL_BYTES = 4, 8
#: Offsets at which tshark looks for LLC: after a Mesh Control field of each size.
_LLC_PLACES = (6, 12, 18)
#: Length of CCMP's MIC by key length (IEEE 802.11-2020, 12.5.3).
_CHECKS_OF_CCMP = {16: 8, 32: 16}
#: Fields with the keys that tshark decrypted frames with.
_FOUND = ("wlan.analysis.tk", "wlan.analysis.gtk")


def read_packets(capture: Path, keys: Sequence[str] = (), timeout_s: float = 300.0) -> list[Packet]:
    """Dissect one capture file and return its packets (see `read_all_packets`).

    `keys` decrypt frames, in the syntax of tshark.
    """
    return read_all_packets([capture], keys, timeout_s)[0]


def read_all_packets(captures: Sequence[Path], keys: Sequence[str] = (),
                     timeout_s: float = 300.0) -> list[list[Packet]]:
    """Dissect capture files and return the packets of each.

    A frame whose ICV fails after decryption shows no inner addresses. One tshark dissects all files
    in order, because its start takes longer than most files. It keeps reassembly state from one
    file to the next; the first file is dissected as if it were alone.

    Args:
        captures: The capture files.
        keys: Decryption keys: `wep:HEX`, `wpa-psk:HEX` (a pairwise master key),
            `wpa-pwd:PASSPHRASE:SSID` or `tk:HEX`.
        timeout_s: Time limit in s.

    Raises:
        MeasureError: A tool is missing, or a file cannot be read.
    """
    packets = tshark.read_uncorrected(captures, keys, timeout_s)
    is_told = any(key.startswith("tk:") for key in keys)
    if any(packet.is_mesh or (is_told and packet.is_closed_tkip)
           for packets_of_file in packets for packet in packets_of_file):
        correct_packets(captures, packets, keys)
    return packets


def correct_packets(captures: Sequence[Path], packets: Sequence[list[Packet]],
                    keys: Sequence[str]) -> None:
    """Replace packets that tshark mistook for mesh frames by correctly dissected ones.

    The fault concerns frames from access points whose first byte after the header is below 3. If
    two encrypted bytes also equal the start of an LLC header by chance, tshark assumes a mesh
    frame. It then looks for the initialisation vector after a Mesh Control field, and does not
    decrypt. No preference of tshark prevents that.

    TKIP frames whose temporal key a kernel showed are replaced, too. A frame that no key decrypts
    stays encrypted.

    Args:
        captures: The capture files.
        packets: Packets of each file; changed in place.
        keys: Keys as for `read_all_packets`.

    Raises:
        MeasureError: tshark cannot read a file.
    """
    is_told = any(key.startswith("tk:") for key in keys)
    mistaken = [(capture, place) for capture, packets_of_file in enumerate(packets)
                for place, packet in enumerate(packets_of_file)
                if packet.is_mesh or (is_told and packet.is_closed_tkip)]
    if not mistaken:
        return
    known = _candidate_keys(captures, keys)
    frames = {capture: list(pcap.read_frames(captures[capture], pcap.IEEE802_11))
              for capture in {capture for capture, _ in mistaken}}
    shown = []
    for capture, place in mistaken:
        packet, frame = packets[capture][place], frames[capture][place]
        data = frame.data[packet.radiotap_bytes:]
        plain = decrypt_frame(data, known) if packet.is_decryptable else None
        shown += [replace(frame, data=_remove_llc_pattern(data)),
                  replace(frame, data=_unprotected_frame(data, plain) if plain
                          else _remove_llc_pattern(data))]
    seen_now = _dissect_frames(shown)
    for (capture, place), closed, clear in zip(mistaken, seen_now[::2], seen_now[1::2],
                                               strict=True):
        was = packets[capture][place]
        packets[capture][place] = replace(
            clear, time_s=was.time_s, length=was.length, captured=was.captured,
            radiotap_bytes=was.radiotap_bytes, protected=closed.protected, wep_iv=closed.wep_iv,
            ccmp_iv=closed.ccmp_iv, tkip_iv=closed.tkip_iv)


def _dissect_frames(frames: Iterable[CapturedFrame]) -> list[Packet]:
    with tempfile.TemporaryDirectory(prefix="qop-") as folder:
        file = Path(folder, "mistaken.pcap")
        pcap.write_frames(file, frames, pcap.IEEE802_11_ALONE)
        [packets] = tshark.read_uncorrected([file])
    return packets


def _candidate_keys(captures: Sequence[Path], keys: Sequence[str]) -> list[bytes]:
    """Return all keys that may decrypt a frame: the given ones, and those from handshakes."""
    given = [value for kind, _, value in (key.partition(":") for key in keys)
             if kind in ("wep", "tk")]
    derived = _handshake_keys(captures, keys) if any(key.startswith("wpa-") for key in keys) else ()
    return [bytes.fromhex(key) for key in dict.fromkeys((*given, *derived))]


def _handshake_keys(captures: Sequence[Path], keys: Sequence[str]) -> list[str]:
    """Return the temporal keys that tshark derives from the four-way handshakes in captures.

    The handshake may be in another capture than the frames, so all captures of the air are joined.
    """
    air = [frame for file in captures if pcap.read_link_type(file) in pcap.IEEE802_11
           for frame in pcap.read_frames(file, pcap.IEEE802_11)]
    with tempfile.TemporaryDirectory(prefix="qop-") as folder:
        file = Path(folder, "air.pcap")
        pcap.write_frames(file, air, pcap.RADIOTAP)
        rows = tshark.read_fields(file, _FOUND, " || ".join(_FOUND),
                                  options=tshark.decryption_options(keys))
    return [value for row in rows for column in row for value in column.split(",") if value]


def _remove_llc_pattern(data: bytes) -> bytes:
    """Return a frame whose encrypted bytes are set to zero if they look like an LLC header.

    The packet number stays as it is.
    """
    head = header_bytes(data)
    blunt = bytearray(data)
    is_extended = any(flags & _IS_EXTENDED for flags in data[head + 3:head + 4])
    counter_bytes = _EXTENDED_BYTES if is_extended else _VECTOR_BYTES
    for place in _LLC_PLACES:
        if place >= counter_bytes and head + place < len(data):
            blunt[head + place] = 0
    return bytes(blunt)


def _unprotected_frame(data: bytes, plain: bytes) -> bytes:
    return data[:1] + bytes((data[1] & ~PROTECTED,)) + data[2:header_bytes(data)] + plain


def decrypt_frame(data: bytes, keys: Iterable[bytes]) -> bytes | None:
    """Return the content of a protected frame, decrypted with the first key that fits, or None."""
    body = data[header_bytes(data):]
    if not data[1] & PROTECTED or len(body) <= _EXTENDED_BYTES:
        return None
    readers = _decrypt_numbered if body[3] & _IS_EXTENDED else _decrypt_wep
    return next(readers(data, body, keys), None)


def _decrypt_wep(_: bytes, body: bytes, keys: Iterable[bytes]) -> Iterator[bytes]:
    """Yield a WEP frame's content as decrypted with each key (IEEE 802.11-2020, 12.3.2)."""
    for key in keys:
        text = eap.rc4(body[:3] + key, body[_VECTOR_BYTES:])
        if _has_valid_icv(text):
            yield text[:-_CHECK_BYTES]


def _has_valid_icv(text: bytes) -> bool:
    plain, check = text[:-_CHECK_BYTES], text[-_CHECK_BYTES:]
    return zlib.crc32(plain).to_bytes(_CHECK_BYTES, "little") == check


def _decrypt_numbered(data: bytes, body: bytes, keys: Iterable[bytes]) -> Iterator[bytes]:
    """Yield a TKIP, CCMP or GCMP frame's content as decrypted with each key.

    IEEE 802.11-2020, 12.5.2, 12.5.3 and 12.5.5.
    """
    known = [key for key in keys if len(key) in _CHECKS_OF_CCMP]
    if body[1] == (body[0] | 0x20) & 0x7F:
        yield from _decrypt_tkip(data, body, known)
    yield from _decrypt_aes(data, body, known)


def _decrypt_tkip(data: bytes, body: bytes, keys: Iterable[bytes]) -> Iterator[bytes]:
    number = int.from_bytes(bytes(body[at] for at in (7, 6, 5, 4, 0, 2)), "big")
    for key in keys:
        text = eap.rc4(ciphers.frame_key(key, data[_TRANSMITTER], number),
                       body[_EXTENDED_BYTES:])
        if _has_valid_icv(text):
            yield text[:-_CHECK_BYTES - _MICHAEL_BYTES]


def _decrypt_aes(data: bytes, body: bytes, keys: Iterable[bytes]) -> Iterator[bytes]:
    try:
        # Imported here: the container image lacks the library.
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import AESCCM, AESGCM
    except ImportError:
        return
    priority, additional_data = _authenticated_data(data)
    nonce = data[_TRANSMITTER] + bytes(body[at] for at in (7, 6, 5, 4, 1, 0))
    for key in keys:
        ccm = AESCCM(key, tag_length=_CHECKS_OF_CCMP[len(key)])
        for cipher, number in ((ccm, bytes((priority,)) + nonce), (AESGCM(key), nonce)):
            try:
                yield cipher.decrypt(number, body[_EXTENDED_BYTES:], additional_data)
            except InvalidTag:
                continue


def _authenticated_data(data: bytes) -> tuple[int, bytes]:
    """Return a frame's priority and additional authenticated data (802.11-2020, 12.5.3.3.3)."""
    has_qos, end = bool(data[0] & QOS), addresses_end(data)
    priority = data[end] & 0x0F if has_qos else 0
    return priority, b"".join((
        bytes((data[0] & 0x8F, data[1] & (0x47 if has_qos else 0xC7))), data[4:22],
        bytes((data[22] & 0x0F, 0)), data[MAC_HEADER_BYTES:end],
        bytes((priority, 0)) if has_qos else b""))
