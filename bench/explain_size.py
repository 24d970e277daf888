"""`qop bench explain-size`: measure time and memory of `qop explain` for captures up to 1 GB.

The captures are made of two recorded ones: of joining and roaming, and of traffic, whose frames are
filled to their length on the air. Each copy has later times, and every second one has a station of
its own.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import click

from guest.processes import PROC, list_members, read_private_memory
from harness.engine.machine import ROOT
from harness.errors import UserError
from measure.capture import pcap

#: A station that joins and roams by EAP-TLS, and its address.
_RECORDED = ROOT / "studies/qop2007/recorded/P12-R1"
_STATION = bytes.fromhex("02000000a200")
#: Stations that come again, and the first bytes of the address of those that do not.
_OLD_STATIONS, _NEW_PREFIX = 50, b"\x06\x00"
#: Copies of the traffic after each copy of joining.
_TRAFFIC = 5
#: Time in s between two copies.
_PAUSE_S = 0.2
#: Sizes that are measured, as shares of the largest one.
_SHARES = 0.01, 0.1, 1.0
#: Bounds of private memory in bytes, for a capture of any size. tshark's grows up to the number of
#: frames after which it forgets.
_MOST_EXPLAIN_BYTES, _MOST_TSHARK_BYTES = 100_000_000, 500_000_000
_POLL_S = 0.1


@dataclass(frozen=True)
class _ExplainCost:
    """The cost of an explanation: elapsed seconds, and peaks of private memory in bytes."""

    elapsed_s: float
    negotiations: int
    explain_bytes: int
    tshark_bytes: int


def make_capture(file: Path, size: int, traffic: int = _TRAFFIC) -> int:
    """Write a capture of at least `size` bytes, and return its number of frames.

    `traffic` is the number of copies of the traffic after each copy of joining.
    """
    frames = _read_filled("auth-air")
    for frame in _read_filled("traffic-air") * traffic:
        frames.append(replace(frame, at_s=max(frame.at_s, frames[-1].at_s + 1e-4)))
    period_s = frames[-1].at_s - frames[0].at_s + _PAUSE_S
    pcap.write_frames(file, (), pcap.RADIOTAP)
    count = copy = 0
    with file.open("ab") as out:
        while out.tell() < size:
            station = (_STATION[:4] + (copy // 2 % _OLD_STATIONS).to_bytes(2, "big")
                       if copy % 2 else _NEW_PREFIX + copy.to_bytes(4, "big"))
            for frame in frames:
                at_us = round((frame.at_s + copy * period_s) * 1e6)
                data = frame.data.replace(_STATION, station)
                out.write(pcap.pack_record(at_us, data, frame.wire_bytes))
            count, copy = count + len(frames), copy + 1
    return count


def _read_filled(capture: str) -> list[pcap.CapturedFrame]:
    """Return the frames of a recorded capture, with zeros where their ends were not captured."""
    return [replace(frame, data=frame.data.ljust(frame.wire_bytes, b"\0")) for frame
            in pcap.read_frames(_RECORDED / f"{capture}.pcap", (pcap.RADIOTAP,))]


def run_bench(megabytes: int) -> None:
    """Measure and print the cost for captures up to a size.

    Args:
        megabytes: Size of the largest capture.

    Raises:
        UserError: Memory is above its bound, or a capture is not explained.
    """
    click.echo("| MB | frames | negotiations | s | explain, MB | tshark, MB |\n"
               "|--:|--:|--:|--:|--:|--:|")
    with tempfile.TemporaryDirectory(prefix="qop-bench-") as place:
        file = Path(place, "made.pcap")
        for share in _SHARES:
            frames = make_capture(file, round(megabytes * share * 1e6))
            cost = _measure_explain(file)
            click.echo(f"| {file.stat().st_size / 1e6:.0f} | {frames} | {cost.negotiations} | "
                       f"{cost.elapsed_s:.1f} | {cost.explain_bytes / 1e6:.0f} | "
                       f"{cost.tshark_bytes / 1e6:.0f} |")
            if cost.explain_bytes > _MOST_EXPLAIN_BYTES or cost.tshark_bytes > _MOST_TSHARK_BYTES:
                raise UserError("bench explain-size: memory is above "
                                f"{_MOST_EXPLAIN_BYTES / 1e6:.0f} MB for explain or "
                                f"{_MOST_TSHARK_BYTES / 1e6:.0f} MB for tshark; find what is kept "
                                "of each negotiation", status=1)


def _measure_explain(file: Path) -> _ExplainCost:
    begun = time.monotonic()
    with file.with_suffix(".json").open("w+") as output:
        child = subprocess.Popen(
            [sys.executable, "-P", "-m", "harness", "explain", "--json", str(file)], stdout=output,
            stderr=subprocess.DEVNULL, process_group=0,
            env={**os.environ, "PYTHONPATH": str(ROOT)})
        peaks = {"tshark": 0, "": 0}
        try:
            while child.poll() is None:
                for name, size in _read_memory(child.pid):
                    kind = name if name in peaks else ""
                    peaks[kind] = max(peaks[kind], size)
                with suppress(subprocess.TimeoutExpired):
                    child.wait(_POLL_S)
            elapsed_s = time.monotonic() - begun
        finally:
            if child.poll() is None:
                os.killpg(child.pid, signal.SIGTERM)
                child.wait()
        output.seek(0)
        negotiations = sum(line == '   "kind": "802.11",\n' for line in output)
    if child.returncode or not negotiations:
        raise UserError(f"bench explain-size: explaining {file.stat().st_size} bytes failed",
                        status=1)
    return _ExplainCost(elapsed_s, negotiations, peaks[""], peaks["tshark"])


def _read_memory(group: int) -> Iterator[tuple[str, int]]:
    """Yield the name of each process in a group, and its private memory in bytes."""
    for pid in list_members(group):
        with suppress(OSError):  # it has ended
            yield (PROC / str(pid) / "comm").read_text().strip(), read_private_memory(pid)
