"""Capture packets on a node with tcpdump, from a known first moment to a known last."""

from __future__ import annotations

import re
import signal
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from measure.process import Daemon

if TYPE_CHECKING:  # the builder needs Mininet, which only the machine has
    from topologies.builder import Testbed

_COUNTS = re.compile(r"^(\d+) packets? (captured|received by filter|dropped by kernel)$")
# Room for a second of a busy radio: a capture that loses packets cannot serve as evidence.
_BUFFER_KIB = 8192


@dataclass(frozen=True)
class CaptureSummary:
    """A finished capture: where it was taken, its file, and what the kernel counted."""

    point: str
    file: str
    captured: int
    dropped: int


def parse_counts(lines: list[str]) -> dict[str, int]:
    """Tcpdump's closing counts, keyed by `captured`, `received by filter`, `dropped by kernel`."""
    matches = (_COUNTS.match(line.strip()) for line in lines)
    return {match[2]: int(match[1]) for match in matches if match}


class Capture:
    """One running tcpdump on an interface of a node, or of the machine itself (`node` None)."""

    def __init__(self, testbed: Testbed, point: str, node: str | None, interface: str,
                 file: Path, log: Path, *, snap_bytes: int = 0, expression: str = "") -> None:
        self.point = point
        self.file = file
        argv = ["tcpdump", "-i", interface, "-n", "-p", "-U", "-w", str(file),
                "--immediate-mode", "-B", str(_BUFFER_KIB), "-s", str(snap_bytes)]
        argv += [expression] if expression else []
        argv = testbed.command(node, argv) if node else ["setpriv", "--pdeathsig", "KILL", *argv]
        self._daemon = Daemon(f"tcpdump ({point})", argv, log, r"listening on",
                              stop_signal=signal.SIGINT)

    def wait_ready(self) -> None:
        """Block until packets are being captured."""
        self._daemon.wait_ready()

    def stop(self) -> dict[str, object]:
        """End the capture; its summary as JSON. The file is complete afterwards."""
        self._daemon.stop()
        counts = parse_counts(self._daemon.output())
        return asdict(CaptureSummary(self.point, self.file.name, counts.get("captured", 0),
                                     counts.get("dropped by kernel", -1)))
