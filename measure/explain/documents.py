"""Documents that are kept outside of memory, and read one at a time."""

from __future__ import annotations

import json
import tempfile
import weakref
import zlib
from array import array
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import IO, Any

from measure.agent.errors import MeasureError

#: Bytes up to which the documents stay in memory. Compressed, one takes about 1 KB.
_MEMORY_BYTES = 8_000_000


@dataclass(eq=False)
class StoredDocuments(Sequence[dict[str, Any]]):
    """Documents in order of time, in a temporary file. A document that is read is a copy."""

    _file: IO[bytes] = field(default_factory=lambda: tempfile.SpooledTemporaryFile(  # noqa: SIM115
        max_size=_MEMORY_BYTES))
    _times_s: array[float] = field(default_factory=lambda: array("d"))
    #: Where each document begins in the file, and where the last one ends.
    _places: array[int] = field(default_factory=lambda: array("q", (0,)))
    _order: Sequence[int] = ()

    def __post_init__(self) -> None:
        weakref.finalize(self, self._file.close)

    def add_document(self, document: dict[str, Any], time_s: float) -> None:
        """Add a document with its time in s.

        Raises:
            MeasureError: The disk is full.
        """
        packed = zlib.compress(json.dumps(document).encode(), level=1)
        try:
            self._file.seek(self._places[-1])
            self._file.write(packed)
            self._file.flush()
        except OSError as error:
            with suppress(OSError):  # Closing writes what is left once more.
                self._file.close()
            raise MeasureError("testbed", f"{tempfile.gettempdir()}: the answer cannot be kept "
                               f"({error.strerror}); set TMPDIR to a folder with more room"
                               ) from None
        self._times_s.append(time_s)
        self._places.append(self._places[-1] + len(packed))

    def _count_documents(self) -> int:
        return len(self._times_s)

    def _read_documents(self, index: Any) -> Any:
        """Return the document at an index, or a list of those in a slice."""
        if len(self._order) != len(self):
            self._order = array("q", sorted(range(len(self)), key=self._times_s.__getitem__))
        if isinstance(index, slice):
            return [self._read_document(number) for number in self._order[index]]
        return self._read_document(self._order[index])

    __len__, __getitem__ = _count_documents, _read_documents

    def _read_document(self, number: int) -> dict[str, Any]:
        begin, end = self._places[number:number + 2]
        self._file.seek(begin)
        document: dict[str, Any] = json.loads(zlib.decompress(self._file.read(end - begin)))
        return document
