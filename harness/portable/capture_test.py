"""Test whether a compressed capture is complete, as a stream and without storing it."""

from __future__ import annotations

import zlib

_PIECE_BYTES = 1 << 20
_GZIP = 16 + zlib.MAX_WBITS
#: First bytes of pcap (micro- and nanoseconds, either byte order) and of pcapng.
_MAGIC = (b"\xa1\xb2\xc3\xd4", b"\xd4\xc3\xb2\xa1", b"\xa1\xb2\x3c\x4d", b"\x4d\x3c\xb2\xa1",
          b"\x0a\x0d\x0d\x0a")


class CaptureTest:
    """A test of a .pcap.gz or .pcap file that is fed piece by piece.

    `find_fault` gives the result.

    For a compressed file that is no capture, only the gzip stream is tested.
    """

    def __init__(self, name: str, *, is_capture: bool = True) -> None:
        self._compressed = name.endswith(".gz")
        self._is_capture = is_capture
        self._inflater = zlib.decompressobj(_GZIP)
        self._head = b""
        self._broken = ""

    def feed(self, data: bytes) -> None:
        """Process the next piece of the file."""
        if self._broken or not self._compressed:
            self._note_head(data)
            return
        try:
            self._inflate(data)
        except zlib.error as error:
            self._broken = f"gzip stream is damaged ({str(error).rpartition(': ')[2]})"

    def find_fault(self) -> str:
        """Return what is wrong with the complete file, "" if nothing is."""
        if self._broken:
            return self._broken
        if self._compressed and not self._inflater.eof:
            return "gzip stream is cut short"
        return "" if self._head in _MAGIC or not self._is_capture else "is not a packet capture"

    def _inflate(self, data: bytes) -> None:
        while data:
            if self._inflater.eof:
                # A gzip file may consist of several streams; padding after the last one is
                # allowed, too.
                data = data.lstrip(b"\0")
                if not data:
                    return
                self._inflater = zlib.decompressobj(_GZIP)
            # In pieces, because the output may be a thousand times as large as the input.
            self._note_head(self._inflater.decompress(data, _PIECE_BYTES))
            data = self._inflater.unused_data or self._inflater.unconsumed_tail
        # Read the output that the inflater still buffers when all input is consumed.
        while not self._inflater.eof and (more := self._inflater.decompress(b"", _PIECE_BYTES)):
            self._note_head(more)

    def _note_head(self, data: bytes) -> None:
        if len(self._head) < 4:
            self._head += data[:4 - len(self._head)]
