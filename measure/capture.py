"""Captures take packets on nodes with tcpdump, from a known first moment to a known last."""

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

#: What captures run as.
PROGRAMS = ("tcpdump",)
_COUNTS = re.compile(r"^(\d+) packets? (captured|received by filter|dropped by kernel)$")
# Tcpdump is handed a block after a second at the latest, promptly (prompt.c) after a tenth or as
# soon as a capture's detail says; and then what it was handed is taken however late it comes to it.
# A block is used up whatever is in it, so the sooner, the shorter a capture may be kept from the
# processor before it loses packets: 40 ms were too few amid a stream on a busy machine.
_SETTLE_S, _PROMPTLY_MS = 1.2, 100
#: The kernel's timers count in hundredths.
_TIMERS_S = 0.05


@dataclass(frozen=True)
class Point:
    """Where to capture: a name, a node (None: the machine itself), an interface, a filter.

    A filter may leave all but 1 in `one_in` of the expected packets out, see `sampling`.
    """

    name: str
    node: str | None
    interface: str
    expression: str = ""
    one_in: int = 1


@dataclass(frozen=True)
class Detail:
    """How much of each packet a capture keeps, and how much the kernel holds for it meanwhile.

    A capture that loses packets cannot serve as evidence; but a guest is small, and what this takes
    is missing where programs' pages are kept. With `in_blocks` a capture wakes up for many packets
    at a time, which takes far less of the processor; `settle` before it ends, or its last second is
    lost, or its last `promptly_ms` where a testbed's captures can be prompt.
    """

    snap_bytes: int
    buffer_kib: int
    in_blocks: bool = False
    promptly_ms: int = _PROMPTLY_MS


#: More than any frame has. Without blocks the kernel keeps room for as many bytes for each; getting
#: on a network is some hundred frames.
WHOLE = Detail(snap_bytes=4096, buffer_kib=1024)
#: The same in real time, where whoever takes packet by packet has the processor that those want who
#: are timed: of two dozen programs' turns, a few are left.
WHOLE_PROMPTLY = Detail(snap_bytes=4096, buffer_kib=2048, in_blocks=True, promptly_ms=20)
#: The same amid a stream: as much as a frame has on these networks, of more frames.
WHOLE_AMID_STREAM = Detail(snap_bytes=2048, buffer_kib=4096)
#: Enough for radio, 802.11, WEP, IP, ESP and UDP headers; payloads are not needed. A second of busy
#: air is two thousand headers; without a medium only the processor limits a stream.
HEADERS = Detail(snap_bytes=192, buffer_kib=2048, in_blocks=True)
HEADERS_UNLIMITED = Detail(snap_bytes=192, buffer_kib=8192, in_blocks=True)


@dataclass(frozen=True)
class CaptureSummary:
    """A finished capture: where it was taken, its file, and what the kernel counted.

    `one_in` says that it holds 1 in so many of the packets that its stream should consist of.
    """

    point: str
    file: str
    captured: int
    dropped: int
    one_in: int = 1


def parse_counts(lines: list[str]) -> dict[str, int]:
    """Tcpdump's closing counts, keyed by `captured`, `received by filter`, `dropped by kernel`."""
    matches = (_COUNTS.match(line.strip()) for line in lines)
    return {match[2]: int(match[1]) for match in matches if match}


def whole(testbed: Testbed) -> Detail:
    """How all of what getting on a network consists of is captured on a testbed.

    Where waiting is skipped, or captures cannot be prompt, packet by packet: nothing is settled.
    """
    return WHOLE_PROMPTLY if testbed.for_captures else WHOLE


def settle(testbed: Testbed | None = None, detail: Detail = HEADERS) -> None:
    """Wait until captures in blocks have what was sent so far; shortly where a testbed's can."""
    if detail.in_blocks:
        is_prompt = testbed is not None and testbed.for_captures
        time.sleep(detail.promptly_ms / 1e3 + _TIMERS_S if is_prompt else _SETTLE_S)


class Capture:
    """One running tcpdump."""

    def __init__(self, testbed: Testbed, point: Point, file: Path, log: Path, *,
                 detail: Detail) -> None:
        self.point = point
        self.file = file
        # To standard output: a file of its own tcpdump would give to another user, which fails
        # where the file is the host's and the host's user not root.
        argv = ["tcpdump", "-i", point.interface, "-n", "-p", "-w", "-",
                "-B", str(detail.buffer_kib), "-s", str(detail.snap_bytes)]
        argv += [] if detail.in_blocks else ["-U", "--immediate-mode"]
        argv += [point.expression] if point.expression else []
        is_prompt = bool(testbed.for_captures) and detail.in_blocks
        # On the machine itself all that is computed is nobody's.
        env = testbed.tool_environment if point.node else None
        command: Sequence[str] | Start = argv
        # That one is prompt with whatever it captures.
        if testbed.copies is not None and is_prompt == bool(testbed.for_captures):
            command = partial(testbed.copies.start, argv,
                              of_process=testbed.node(point.node).pid if point.node else None,
                              promptly_ms=detail.promptly_ms if is_prompt else None)
        elif is_prompt:
            # In real time nobody has precedence, and a guest ends with its worker, and all with it.
            command = testbed.on(point.node, argv) if point.node else argv
            env = {**os.environ, "LD_PRELOAD": testbed.for_captures,
                   "QOP_PROMPTLY_MS": str(detail.promptly_ms)}
        else:
            argv = [*LOOKING_ON, *argv]
            command = testbed.tool(point.node, argv) if point.node else \
                ["setpriv", "--pdeathsig", "KILL", *argv]
        self._daemon = Daemon(f"tcpdump ({point.name})", command, log, r"listening on",
                              stop_signal=signal.SIGINT, data=file, env=env)

    def wait_ready(self) -> None:
        """Block until packets are being captured."""
        self._daemon.wait_ready()

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal to the capture's own process.

        Raises:
            MeasureError: the capture has ended.
        """
        if self._daemon.process.poll() is not None:
            raise MeasureError("testbed", f"{self._daemon.name} has ended and takes no signal "
                               f"{number.name} (log: {self._daemon.log.name})")
        self._daemon.process.send_signal(number)

    def ask_to_stop(self) -> None:
        """Tell the capture to end, while others do."""
        self._daemon.ask_to_stop()

    def stop(self) -> dict[str, object]:
        """End the capture; its summary as JSON. The file is complete afterwards."""
        self._daemon.stop()
        counts = parse_counts(self._daemon.output())
        return asdict(CaptureSummary(self.point.name, self.file.name, counts.get("captured", 0),
                                     counts.get("dropped by kernel", -1), self.point.one_in))


@contextmanager
def capturing(testbed: Testbed, points: Iterable[Point], detail: Detail, *, part: str, out: Path,
              logs: Path, summaries: list[dict[str, object]]) -> Iterator[Sequence[Capture]]:
    """Captures at all points while this lasts, to `out/PART-POINT.pcap`.

    However it ends, each is complete and its summary in `summaries` then.
    """
    running: list[Capture] = []
    with ExitStack() as stack:
        for point in points:
            capture = Capture(testbed, point, out / f"{part}-{point.name}.pcap",
                              logs / f"{part}-{point.name}-tcpdump.log", detail=detail)
            stack.callback(_end, capture, summaries)
            running.append(capture)
        for capture in running:
            capture.wait_ready()
        try:
            yield running
        finally:
            for capture in running:
                capture.ask_to_stop()


def _end(capture: Capture, summaries: list[dict[str, object]]) -> None:
    summaries.append(capture.stop())
