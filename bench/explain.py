"""`qop bench explain`: test by blind trials whether `qop explain` finds the right causes.

Each trial draws a fault, its details and its place by a seed, and injects it into a small network
in a guest (`bench.explain_faults`). `qop explain` gets the trial's capture alone. The causes that
it names are compared with the injected one. Captures and injected causes are kept. So an
interrupted bench continues, and the captures can be explained again after a change of the rules.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import json
import math
import os
import random
import shutil
import tempfile
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click

from bench.explain_faults import CONTROLS, draw_draft
from bench.explain_keys import make_keys
from bench.explain_network import STATION, Truth, make_trial
from guest import boot
from guest.image import GuestImage
from harness.engine import machine, setup
from harness.engine.machine import link_worker_code
from harness.engine.results import RESULTS
from harness.errors import UserError
from measure.explain.answer import explain_captures

RIGHT, CANNOT_TELL, WRONG = "right", "cannot tell", "wrong"
_VERDICTS = (RIGHT, CANNOT_TELL, WRONG)
_HEALTHY = "healthy"
#: Share of healthy trials.
_HEALTHY_SHARE = 0.15
#: Time in s that the guest of a trial may take.
_TRIAL_S = 240.0
_TRUTH = "truth.json"
#: The 97.5 % quantile of the normal distribution.
_NORMAL_95 = 1.959964


@dataclass(frozen=True)
class BlindTrial:
    """A drawn trial with its control, the guest's job, and the causes to find."""

    number: int
    control: str
    folder: Path
    truth: Truth
    job: Mapping[str, Any]
    files: Mapping[str, str]

    @property
    def job_digest(self) -> str:
        """Return a hash of everything that decides what the trial captures."""
        text = json.dumps([self.job, self.files, asdict(self.truth)], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def capture_files(self) -> list[Path]:
        """Return the captures of the trial in order of name."""
        return sorted((self.folder / "captures").glob("*.pcap"))

    def is_captured(self) -> bool:
        """Return whether this trial has been captured completely."""
        try:
            stored_truth = json.loads((self.folder / _TRUTH).read_text())
        except (OSError, ValueError):
            return False
        return bool(stored_truth["digest"] == self.job_digest)

    def keep_truth(self) -> None:
        """Store the truth when the captures are complete."""
        (self.folder / _TRUTH).write_text(json.dumps(
            {"digest": self.job_digest, "control": self.control, **asdict(self.truth)}, indent=1))


def draw_trial(seed: int, number: int, out: Path, controls: Sequence[str] = ()) -> BlindTrial:
    """Return the trial that a seed and a number determine.

    `controls` names the only controls to draw from, by default all.
    """
    # Faults are dealt from a shuffled deck, so that all are drawn equally often.
    deck = list(controls or (name for name in CONTROLS if name != _HEALTHY))
    deal, place = divmod(number, len(deck))
    random.Random(f"{seed}/{deal}").shuffle(deck)  # noqa: S311 - no secret
    rng = random.Random(f"{seed}/{deal}/{place}")  # noqa: S311 - no secret
    is_healthy = not controls and rng.random() < _HEALTHY_SHARE
    control = _HEALTHY if is_healthy else deck[place]
    draft = draw_draft(rng)
    truth = CONTROLS[control](draft)
    job, files = make_trial(draft)
    return BlindTrial(number, control, out / f"{number:04d}", truth, job, files)


async def capture_trial(trial: BlindTrial, built: GuestImage, keys: Path, processor: int) -> str:
    """Make a trial's fault in a guest, and keep the captures.

    Returns:
        The reason why there are no captures, "" if there are.
    """
    shutil.rmtree(trial.folder, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix="qop-explain-") as work:
        job = Path(work, "job")
        job.mkdir()
        link_worker_code(job)
        shutil.copytree(keys, job / "pki")
        (job / "trial.json").write_text(json.dumps(trial.job))
        for name, text in trial.files.items():
            (job / name).parent.mkdir(exist_ok=True)
            (job / name).write_text(text)
        console = Path(work, "console.log")
        console.touch()
        command = [str(machine.TESTBED_PYTHON), "-m", "measure.load.blind_trial", "/host"]
        async with await boot.boot_guest(built, job, cpu=processor, console_log=console,
                                         scratch=Path(work, "scratch"), command=command,
                                         clock="virtual") as guest:
            try:
                end = await asyncio.wait_for(guest.wait(), _TRIAL_S)
            except TimeoutError:
                end = await guest.kill(f"took longer than {_TRIAL_S:g} s")
        trial.folder.mkdir(parents=True)
        for name in ("captures", "logs"):
            if (job / name).is_dir():
                shutil.copytree(job / name, trial.folder / name)
        shutil.copy(console, trial.folder)
        if not end.ok:
            return end.reason or f"its program failed; {trial.folder}/{console.name} says why"
    trial.keep_truth()
    return ""


# --- Judge ---

#: What the judge names: cause, station, and the access point on the air.
Named = tuple[str, str, str]


def name_causes(captures: Sequence[Path], keys: Sequence[str] = ()) -> list[Named]:
    """Return the causes that `explain` finds in captures, each with its station and peer."""
    document = explain_captures(captures, keys).to_document()
    return [(finding["cause"], each["station"], each["peer"])
            for each in document["negotiations"] for finding in each["findings"]]


def judge_trial(truth: Truth, named: Sequence[Named]) -> str:
    """Return the verdict on the causes that the judge named.

    It is wrong if a cause is named that is not true, or that is true for another station or access
    point. It cannot tell if it names a part of the causes.
    """
    known = {*truth.causes, *truth.consequences}
    for cause, station, peer in named:
        if cause not in known or station not in (truth.station, "") or (
                truth.peer and cause in truth.causes and peer != truth.peer):
            return WRONG
    causes = {cause for cause, _, _ in named}
    return RIGHT if causes >= set(truth.causes) else CANNOT_TELL


def format_table(verdicts: Sequence[tuple[str, str]]) -> Iterator[str]:
    """Yield a Markdown table of verdicts by control, with Wilson intervals of all.

    Args:
        verdicts: Control and verdict of each trial.
    """
    yield from ("| control | trials | right | cannot tell | wrong |", "|---|--:|--:|--:|--:|")
    for control in dict.fromkeys(sorted(name for name, _ in verdicts)):
        counts = Counter(verdict for name, verdict in verdicts if name == control)
        yield f"| `{control}` | {counts.total()} | " + " | ".join(
            str(counts[verdict] or "") for verdict in _VERDICTS) + " |"
    counts = Counter(verdict for _, verdict in verdicts)
    shares = []
    for verdict in _VERDICTS:
        low, high = wilson_interval(counts[verdict], len(verdicts))
        shares.append(f"{counts[verdict]} ({100 * low:.1f} to {100 * high:.1f} %)")
    yield f"| all, with 95 % intervals | {len(verdicts)} | {' | '.join(shares)} |"


def wilson_interval(count: int, total: int) -> tuple[float, float]:
    """Return the 95 % interval of a proportion (Wilson, 1927, JASA 22:209-212)."""
    share, spread = count / total, _NORMAL_95 ** 2 / total
    middle = (share + spread / 2) / (1 + spread)
    half = _NORMAL_95 / (1 + spread) * math.sqrt(share * (1 - share) / total
                                                 + spread / (4 * total))
    return max(0.0, middle - half), min(1.0, middle + half)


# --- Bench ---

def run_bench(faults: int, seed: int, out: Path | None = None,
              controls: Sequence[str] = ()) -> int:
    """Capture and judge blind trials, and print the table.

    Returns:
        0, or 1 if a verdict is wrong or a trial could not be captured.

    Raises:
        UserError: There is no such control.
    """
    for name in controls:
        if name not in CONTROLS:
            raise UserError(f"--control {name}: no blind trial has it; choose from "
                            f"{', '.join(CONTROLS)}")
    folder = (out or RESULTS / "explain") / str(seed)
    if controls:
        folder /= "+".join(controls)
    trials = [draw_trial(seed, number, folder, controls) for number in range(faults)]
    waiting = deque(trial for trial in trials if not trial.is_captured())
    if waiting:
        asyncio.run(_capture_all(waiting, folder))
    trials = [trial for trial in trials if trial.is_captured()]
    if not trials:
        raise UserError("bench explain: no trial could be captured; the lines above say why",
                        status=1)
    verdicts = list(_judge_all(trials))
    text = "\n".join(format_table(verdicts))
    (folder / "table.md").write_text(text + "\n")
    click.echo(text)
    return int(len(trials) < faults or any(verdict == WRONG for _, verdict in verdicts))


def _judge_all(trials: Sequence[BlindTrial]) -> Iterator[tuple[str, str]]:
    """Yield control and verdict of each trial, and print those that are not right."""
    with ProcessPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for trial, named in zip(trials, pool.map(name_causes, *zip(*(
                (trial.capture_files, trial.truth.keys) for trial in trials), strict=True)),
                                strict=True):
            verdict = judge_trial(trial.truth, named)
            if verdict != RIGHT:
                click.echo(f"trial {trial.number}: {trial.control} is {verdict}: "
                           f"{_describe_verdict(trial.truth, named)}", err=True)
            yield trial.control, verdict


def _describe_verdict(truth: Truth, named: Sequence[Named]) -> str:
    found = ", ".join(f"{cause} of {'the station' if station == STATION else station} with {peer}"
                      for cause, station, peer in named)
    return f"drawn {', '.join(truth.causes) or 'nothing'}; named {found or 'nothing'}"


async def _capture_all(waiting: deque[BlindTrial], folder: Path) -> None:
    """Capture trials, one guest on each processor at a time, with progress."""
    folder.mkdir(parents=True, exist_ok=True)
    keys = make_keys(folder.parent / "pki")
    built = setup.make_embedded_machine().image
    total, ended = len(waiting), itertools.count(1)

    async def keep_busy(processor: int) -> None:
        while waiting:
            trial = waiting.popleft()
            reason = await capture_trial(trial, built, keys, processor)
            click.echo(f"{next(ended)} of {total}: trial {trial.number} "
                       + (f"({trial.control}) failed: {reason}" if reason else "is captured"),
                       err=True)

    async with asyncio.TaskGroup() as group:
        for processor in sorted(os.sched_getaffinity(0)):
            group.create_task(keep_busy(processor))
