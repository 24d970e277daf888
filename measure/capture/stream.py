"""Dissect a large capture of any format with tshark, packet by packet, in constant memory.

`qop explain` uses it for captures of users. `CaptureStream` takes a file and names of fields. Its
`read_columns` yields these fields of one packet after the other, while tshark reads the file. The
file may be pcap, pcapng or another format of Wireshark, also compressed by gzip.
"""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from measure.agent.errors import MeasureError
from measure.capture import tshark, tshark_server

#: Time without a line of tshark after which it counts as hung, in s.
_SILENCE_S = 120.0
#: Frames after which tshark forgets conversations and fragments, and numbers frames from 1 again.
#: Its memory would grow by the size of the capture otherwise.
SESSION_FRAMES = 1_000_000
_CHUNK_BYTES = 1 << 16
_MISSING = "tshark is missing; './qop doctor' tells how to get it"
#: What no column needs of TCP. Its payload is dissected, because Kerberos may be inside.
_LEFT_OUT = ("-o", "tcp.analyze_sequence_numbers:FALSE", "-o", "tcp.calculate_timestamps:FALSE")
#: 802.11 control frames, which are half of the frames on the air and have no information here.
_WANTED = "!(wlan.fc.type == 1)"


@dataclass(frozen=True)
class _RunningTshark:
    """A tshark that dissects a capture, with the functions that wait for its end and kill it."""

    stdout: IO[bytes]
    wait: Callable[[], int]
    kill: Callable[[], None]


@dataclass
class CaptureStream:
    """The packets of one capture file, as the columns that tshark prints.

    After the last packet, `complaint` is tshark's reason if the rest of the file is unreadable, ""
    otherwise.
    """

    capture: Path
    names: Sequence[str]
    keys: Sequence[str] = ()
    #: Files with keys, or their content, by tshark's preference.
    key_files: Mapping[str, Path | bytes] = field(default_factory=dict)
    complaint: str = ""
    #: Called with the share of the file that has been read, 0 to 1.
    report: Callable[[float], None] | None = None
    _file: IO[bytes] | None = None

    def read_columns(self) -> Iterator[dict[str, str]]:
        """Yield the columns of each packet, by the names of their fields.

        Raises:
            MeasureError: The file cannot be read, or tshark is missing or hangs.
        """
        with contextlib.ExitStack() as stack:
            complaints = stack.enter_context(tempfile.TemporaryFile())
            process = self._start_tshark(stack, complaints)
            try:
                for line in self._read_lines(process):
                    columns = line.split("\t")
                    columns += [""] * (len(self.names) - len(columns))
                    yield dict(zip(self.names, columns, strict=False))
            except BaseException:
                process.kill()
                raise
            status = process.wait()
            complaints.seek(0)
            words = complaints.read().decode("utf-8", "replace")
        if status == tshark.NOT_FOUND:
            raise MeasureError("testbed", _MISSING)
        self.complaint = tshark.last_message(words) if status else ""

    def _start_tshark(self, stack: contextlib.ExitStack,
                      complaints: IO[bytes]) -> _RunningTshark:
        try:
            file = stack.enter_context(self.capture.open("rb"))
        except OSError as error:
            raise MeasureError("data", f"{self.capture}: cannot be read ({error.strerror}); give "
                               "a capture that Wireshark opens") from None
        self._file = file
        command = [*tshark.tshark_command(), "-n", "-M", str(SESSION_FRAMES), "-r", "-",
                   *tshark.column_options(self.names), *_LEFT_OUT, "-Y", _WANTED]
        decryption = tshark.decryption_options(self.keys)
        environment = os.environ | tshark.UNCONFIGURED
        if not self.key_files:
            forked = tshark_server.fork_tshark(command, decryption[1::2], file, complaints,
                                               environment=environment)
            if forked is not None:
                stack.callback(forked.close_output)
                return _RunningTshark(forked.stdout, forked.wait_for_exit, forked.kill_fork)
        options, descriptors = [], []
        for preference, keys in self.key_files.items():
            descriptor = _copy_to_memory(keys)
            stack.callback(os.close, descriptor)
            options += ["-o", f"{preference}:/proc/self/fd/{descriptor}"]
            descriptors.append(descriptor)
        try:
            process = stack.enter_context(subprocess.Popen(
                [*command, *decryption, *options], stdin=file, stdout=subprocess.PIPE,
                stderr=complaints, pass_fds=descriptors, env=environment))
        except FileNotFoundError:
            raise MeasureError("testbed", _MISSING) from None
        assert process.stdout is not None
        return _RunningTshark(process.stdout, process.wait, process.kill)

    def _read_lines(self, process: _RunningTshark) -> Iterator[str]:
        descriptor, rest = process.stdout.fileno(), b""
        while True:
            if not select.select([descriptor], [], [], _SILENCE_S)[0]:
                raise MeasureError("testbed", f"tshark took more than {_SILENCE_S:g} s for "
                                   f"{self.capture}")
            chunk = os.read(descriptor, _CHUNK_BYTES)
            self._report_place()
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                yield line.decode("utf-8", "replace")
            if not chunk:
                return

    def _report_place(self) -> None:
        """Report how far tshark has read. It shares the position in the file with this process."""
        if self.report is None or self._file is None:
            return
        with contextlib.suppress(OSError):  # a pipe has no position
            place = os.lseek(self._file.fileno(), 0, os.SEEK_CUR)
            self.report(place / max(1, os.fstat(self._file.fileno()).st_size))


def _copy_to_memory(keys: Path | bytes) -> int:
    """Copy keys to memory, where tshark without privileges can read them.

    Raises:
        MeasureError: The file cannot be read.
    """
    if isinstance(keys, bytes):
        content = keys
    else:
        try:
            content = keys.read_bytes()
        except OSError as error:
            raise MeasureError("testbed", f"{keys}: cannot be read ({error.strerror}); give a file "
                               "with keys") from None
    descriptor = os.memfd_create("keys", 0)
    os.write(descriptor, content)
    return descriptor
