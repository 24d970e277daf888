"""Capture packets on nodes with tcpdump, between a known start and a known end."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from measure.errors import MeasureError
from measure.precedence import LOOKING_ON
from measure.process import Daemon, Start

if TYPE_CHECKING:  # the builder needs Mininet, which only the machine has
    from topologies.builder import Testbed

#: Process name of captures.
PROGRAMS = ("tcpdump",)
_COUNTS = re.compile(r"^(\d+) packets? (captured|received by filter|dropped by kernel)$")
# Wait for the kernel's blocks in s, and the interval of prompt captures in ms. tcpdump gets a block
# after a second at the latest. With prompt.c it gets one after 100 ms, or after the interval that a
# capture's detail states. Blocks are used up even if they are partly empty. A shorter interval
# therefore leaves less time before packets are lost: 40 ms were too few during a stream on a busy
# machine.
_SETTLE_S, _PROMPTLY_MS = 1.2, 100
#: Resolution of the kernel's timers, with a margin, in s.
_TIMERS_S = 0.05


@dataclass(frozen=True)
class Point:
    """A capture point: name, node (None: the machine itself), interface and filter.

    A filter may omit all but 1 in `one_in` of the expected packets, see `sampling`.
    """

    name: str
    node: str | None
    interface: str
    expression: str = ""
    one_in: int = 1


@dataclass(frozen=True)
class Detail:
    """The snapshot length of a capture and its buffer in the kernel.

    A capture that loses packets is no evidence. But a guest is small, and buffers take memory from
    its page cache. With `in_blocks` a capture wakes up for many packets at a time, which needs far
    less processor time. Call `settle_captures` before such a capture ends. Otherwise its last
    second is lost, or its last `promptly_ms` if the testbed's captures are prompt.
    """

    snap_bytes: int
    buffer_kib: int
    in_blocks: bool = False
    promptly_ms: int = _PROMPTLY_MS


#: Longer than any frame. Without blocks the kernel reserves these bytes for each packet; an
#: authentication has some hundred frames.
WHOLE = Detail(snap_bytes=4096, buffer_kib=1024)
#: Whole frames in real time: a capture that wakes up for each packet takes processor time from the
#: timed programs. Blocks reduce the wake-ups of two dozen programs to a few.
WHOLE_PROMPTLY = Detail(snap_bytes=4096, buffer_kib=2048, in_blocks=True, promptly_ms=20)
#: Whole frames during a stream: frames on these networks are shorter, but there are more of them.
WHOLE_AMID_STREAM = Detail(snap_bytes=2048, buffer_kib=4096)
#: Enough for radiotap, 802.11, WEP, IP, ESP and UDP headers; payloads are not needed. A second of
#: busy air has two thousand frames; without a medium only the processor limits a stream.
HEADERS = Detail(snap_bytes=192, buffer_kib=2048, in_blocks=True)
HEADERS_UNLIMITED = Detail(snap_bytes=192, buffer_kib=8192, in_blocks=True)


@dataclass(frozen=True)
class CaptureSummary:
    """A finished capture: point, file, and the kernel's packet counts.

    The capture holds 1 in `one_in` of its stream's expected packets.
    """

    point: str
    file: str
    captured: int
    dropped: int
    one_in: int = 1


def parse_counts(lines: list[str]) -> dict[str, int]:
    """Parse tcpdump's closing counts.

    Keys are `captured`, `received by filter` and `dropped by kernel`.
    """
    matches = (_COUNTS.match(line.strip()) for line in lines)
    return {match[2]: int(match[1]) for match in matches if match}


def whole_frames(testbed: Testbed) -> Detail:
    """Return the capture detail for whole frames of an authentication on a testbed.

    Packets are captured one by one where waiting is skipped or captures cannot be prompt. Then no
    `settle_captures` is needed.
    """
    return WHOLE_PROMPTLY if testbed.for_captures else WHOLE


def settle_captures(testbed: Testbed | None = None, detail: Detail = HEADERS) -> None:
    """Wait until captures in blocks have received all packets sent so far.

    The wait is short if the testbed's captures are prompt.
    """
    if detail.in_blocks:
        is_prompt = testbed is not None and testbed.for_captures
        time.sleep(detail.promptly_ms / 1e3 + _TIMERS_S if is_prompt else _SETTLE_S)


class Capture:
    """A running tcpdump."""

    def __init__(self, testbed: Testbed, point: Point, file: Path, log: Path, *,
                 detail: Detail) -> None:
        self.point = point
        self.file = file
        # To standard output: tcpdump changes the owner of a file of its own. That fails if the file
        # is the host's and the host's user is not root.
        argv = ["tcpdump", "-i", point.interface, "-n", "-p", "-w", "-",
                "-B", str(detail.buffer_kib), "-s", str(detail.snap_bytes)]
        argv += [] if detail.in_blocks else ["-U", "--immediate-mode"]
        argv += [point.expression] if point.expression else []
        is_prompt = bool(testbed.for_captures) and detail.in_blocks
        # On the machine itself, computing is charged to no node anyway.
        env = testbed.tool_environment if point.node else None
        command: Sequence[str] | Start = argv
        # A copied tcpdump is prompt for all captures or for none.
        if testbed.copies is not None and is_prompt == bool(testbed.for_captures):
            command = partial(testbed.copies.start_copy, argv,
                              of_process=testbed.node(point.node).pid if point.node else None,
                              promptly_ms=detail.promptly_ms if is_prompt else None)
        elif is_prompt:
            # In real time no process has real-time priority; a guest ends with its worker, and so
            # do captures.
            command = testbed.plain_command(point.node, argv) if point.node else argv
            env = {**os.environ, "LD_PRELOAD": testbed.for_captures,
                   "QOP_PROMPTLY_MS": str(detail.promptly_ms)}
        else:
            argv = [*LOOKING_ON, *argv]
            command = testbed.tool_command(point.node, argv) if point.node else \
                ["setpriv", "--pdeathsig", "KILL", *argv]
        self._daemon = Daemon(f"tcpdump ({point.name})", command, log, r"listening on",
                              stop_signal=signal.SIGINT, data=file, env=env)

    def wait_ready(self) -> None:
        """Wait until packets are captured."""
        self._daemon.wait_ready()

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal to the capture's own process.

        Raises:
            MeasureError: The capture has ended.
        """
        if self._daemon.process.poll() is not None:
            raise MeasureError("testbed", f"{self._daemon.name} has ended and takes no signal "
                               f"{number.name} (log: {self._daemon.log.name})")
        self._daemon.process.send_signal(number)

    def ask_to_stop(self) -> None:
        """Send the stop signal, without waiting for the end."""
        self._daemon.ask_to_stop()

    def stop(self) -> dict[str, object]:
        """End the capture and return its summary as JSON.

        The file is complete afterwards.
        """
        self._daemon.stop()
        counts = parse_counts(self._daemon.last_lines())
        return asdict(CaptureSummary(self.point.name, self.file.name, counts.get("captured", 0),
                                     counts.get("dropped by kernel", -1), self.point.one_in))


@contextmanager
def capturing(testbed: Testbed, points: Iterable[Point], detail: Detail, *, part: str, out: Path,
              logs: Path, summaries: list[dict[str, object]]) -> Iterator[Sequence[Capture]]:
    """Capture at all points inside the context, to `out/PART-POINT.pcap`.

    However the context ends, each capture is complete, and its summary is appended to `summaries`.

    Args:
        testbed: The running testbed.
        points: The capture points.
        detail: Snapshot length and buffer.
        part: Prefix of the file names.
        out: Folder for the captures.
        logs: Folder for tcpdump's logs.
        summaries: Receives the summaries.
    """
    running: list[Capture] = []
    with ExitStack() as stack:
        for point in points:
            capture = Capture(testbed, point, out / f"{part}-{point.name}.pcap",
                              logs / f"{part}-{point.name}-tcpdump.log", detail=detail)
            stack.callback(_stop_capture, capture, summaries)
            running.append(capture)
        for capture in running:
            capture.wait_ready()
        try:
            yield running
        finally:
            for capture in running:
                capture.ask_to_stop()


def _stop_capture(capture: Capture, summaries: list[dict[str, object]]) -> None:
    summaries.append(capture.stop())
