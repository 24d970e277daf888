"""`qop bench mutations`: explain mutated captures, and count tracebacks and hangs.

Each mutated capture is a copy of a recorded one with frames dropped, doubled, cut, with other bytes
and times, or with other bytes in the file's own headers. `qop explain` must answer or refuse it on
one line. Results are kept, so an interrupted bench continues.
"""

from __future__ import annotations

import json
import os
import random
import signal
import struct
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from types import FrameType

import click

from harness import explanation
from harness.engine.machine import ROOT
from harness.engine.results import RESULTS
from harness.errors import UserError
from measure.agent.errors import MeasureError
from measure.capture import pcap
from measure.explain.answer import explain_captures

EXPLAINED, REFUSED, TRACEBACK, HANG = "explained", "refused on one line", "traceback", "hang"
#: Time in s after which an explanation of a small capture counts as a hang.
_HANG_S = 120
_MOST_FRAMES = 200
#: Mutated captures between two entries of the log, which are not done again.
_BATCH = 50
_LOG = "outcomes.jsonl"
#: Recordings that are mutated: they have every layer, on the air and on wires.
_RECORDED = "studies/*/recorded/**/*.pcap*"


def mutate_capture(source: Path, chance: random.Random) -> bytes:
    """Return a mutated copy of a capture, as a pcap file."""
    link = pcap.read_link_type(source)
    if link is None or chance.random() < 0.25:
        return _mutate_file(source.read_bytes(), chance)
    frames = list(_first_frames(source, link))
    head = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65_535,
                       chance.choice((link,) * 9 + (1, 105, 127)))
    return head + b"".join(_mutate_frames(frames, chance))


def _first_frames(source: Path, link: int) -> Iterator[pcap.CapturedFrame]:
    for number, frame in enumerate(pcap.read_frames(source, (link,))):
        if number == _MOST_FRAMES:
            return
        yield frame


def _mutate_file(content: bytes, chance: random.Random) -> bytes:
    """Return a file with other bytes and another length."""
    changed = bytearray(content)
    for _ in range(chance.choice((1, 3, 30))):
        reach = min(chance.choice((24, 60, len(changed))), len(changed))
        changed[chance.randrange(reach)] = chance.randrange(256)
    return bytes(changed[:chance.randrange(1, len(changed))])


def _mutate_frames(frames: Sequence[pcap.CapturedFrame],
                   chance: random.Random) -> Iterator[bytes]:
    """Yield records of a pcap file."""
    for frame in frames:
        if chance.random() < 0.05:
            continue
        data = bytearray(frame.data)
        for _ in range(chance.choice((0, 0, 1, 1, 2, 8))):
            data[chance.randrange(len(data))] = chance.randrange(256)
        if len(data) > 1 and chance.random() < 0.1:
            del data[chance.randrange(1, len(data)):]
        at_s = max(0.0, frame.at_s + chance.choice((0, 0, 0, 1e-6, 5.0, -5.0, 1e6, -1e9)))
        record = struct.pack("<IIII", int(at_s) & 0xFFFFFFFF, int(at_s % 1 * 1e6), len(data),
                             len(data)) + data
        yield record * chance.choice((1,) * 19 + (2,))


def explain_mutation(number: int, seed: int, sources: Sequence[Path], out: Path) -> str:
    """Explain one mutated capture, and return the outcome. Keep the capture if it is a fault."""
    chance = random.Random(f"{seed}/{number}")  # noqa: S311 - no secret
    file = out / f"{number:05d}.pcap"
    file.write_bytes(mutate_capture(chance.choice(sources), chance))
    signal.signal(signal.SIGALRM, _stop_hang)
    signal.alarm(_HANG_S)
    try:
        document = explain_captures([file]).to_document()
        list(explanation.format_lines(document))
        json.dumps(document)
        outcome = EXPLAINED
    except MeasureError as error:
        outcome = TRACEBACK if "\n" in str(error) else REFUSED
    except Exception as error:  # noqa: BLE001 - what the bench looks for
        file.with_suffix(".txt").write_text(traceback.format_exc())
        outcome = HANG if isinstance(error, TimeoutError) else TRACEBACK
    finally:
        signal.alarm(0)
    if outcome in (EXPLAINED, REFUSED):
        file.unlink()
    return outcome


def _stop_hang(_number: int, _frame: FrameType | None) -> None:
    raise TimeoutError(f"no answer within {_HANG_S} s")


def run_bench(faults: int, seed: int, out: Path | None = None) -> int:
    """Explain mutated captures, and print how many were answered.

    Returns:
        0, or 1 if there was a traceback or a hang.

    Raises:
        UserError: There is no recording to mutate.
    """
    folder = (out or RESULTS / "mutations") / str(seed)
    folder.mkdir(parents=True, exist_ok=True)
    sources = sorted(file for file in ROOT.glob(_RECORDED) if file.suffix == ".pcap")
    if not sources:
        raise UserError(f"bench mutations: no recordings in {_RECORDED}; use a complete checkout")
    log = folder / _LOG
    counts = _read_log(log)
    explain = partial(explain_mutation, seed=seed, sources=sources, out=folder)
    with ProcessPoolExecutor(len(os.sched_getaffinity(0))) as pool, log.open("a") as log_file:
        for begin in range(counts.total(), faults, _BATCH):
            batch = Counter(pool.map(explain, range(begin, min(begin + _BATCH, faults))))
            log_file.write(json.dumps(batch) + "\n")
            log_file.flush()
            counts += batch
            click.echo(f"{counts.total()} of {faults}: {_describe_counts(counts)}", err=True)
    click.echo(f"{counts.total()} mutated captures of {len(sources)} recordings: "
               f"{_describe_counts(counts)}")
    return int(counts[TRACEBACK] + counts[HANG] > 0)


def _read_log(log: Path) -> Counter[str]:
    """Count the outcomes in a log, and remove an incomplete last line, as from a full disk."""
    counts = Counter[str]()
    content = log.read_bytes() if log.exists() else b""
    size = 0
    for line in content.splitlines(keepends=True):
        try:
            batch = json.loads(line) if line.endswith(b"\n") else None
        except ValueError:
            batch = None
        if not isinstance(batch, dict):
            os.truncate(log, size)
            break
        counts.update(batch)
        size += len(line)
    return counts


def _describe_counts(counts: Counter[str]) -> str:
    return ", ".join(f"{counts[name]} {name}" for name in (EXPLAINED, REFUSED, TRACEBACK, HANG))
