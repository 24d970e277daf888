"""`qop bench cluster`: time a run on one worker machine and on two, one processor each."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import click

from bench import small_plans
from guest.processes import build_tied_command
from harness.cluster import dask_settings
from harness.engine import setup
from harness.engine.machine import ROOT
from harness.errors import UserError
from studies import records as stored

#: Largest ratio of two workers' time to one worker's time.
BOUND = 0.6
_ENDING_S = 60


def run_bench(runs: int) -> None:
    """Print how long a run takes with one and with two workers, and the ratio.

    Raises:
        UserError: dask or a second processor is missing, or a run fails.
    """
    dask_settings.require_dask("bench cluster")
    processors = sorted(os.sched_getaffinity(0))[:2]
    if len(processors) < 2:
        raise UserError("bench cluster: two workers of one processor each need two processors")
    setup.make_embedded_machine()
    plans = small_plans.make_small_plans()
    plan = plans.run_arguments(plans.list_levels(), 3, small=False)
    click.echo(f"./qop run {' '.join(plan)} on workers of one processor each")
    for _ in range(runs):
        single_s, again_single = _time_run(plan, processors[:1])
        both_s, again_both = _time_run(plan, processors)
        for text, seconds, flagged in (("1 worker", single_s, again_single),
                                       ("2 workers", both_s, again_both)):
            click.echo(f"{text:<12} {seconds:8.1f} s   measured again exclusively: {flagged}")
        click.echo(f"{'ratio':<12} {both_s / single_s:8.2f}     <= {BOUND}")


def _time_run(plan: Sequence[str], processors: Sequence[int]) -> tuple[float, int]:
    """Time a run with one worker on each of these processors.

    Returns:
        The time in seconds, and the number of repetitions that were measured again.
    """
    with tempfile.TemporaryDirectory(prefix="qop-bench-") as folder, ExitStack() as stack:
        where = ""
        for processor in processors:
            arguments = [where] if where else ["--scheduler", "tls://127.0.0.1:0"]
            address = stack.enter_context(_start_worker(processor, arguments))
            where = where or address
        begun = time.monotonic()
        done = subprocess.run(
            [sys.executable, "-P", "-m", "harness", "run", *plan, "--cluster", where,
             "--out", str(Path(folder, "out"))], env=_make_environment(), capture_output=True,
            text=True, check=False)
        seconds = time.monotonic() - begun
        if done.returncode:
            raise UserError(f"bench cluster: the run failed: {done.stderr.strip()[-300:]}",
                            status=1)
        records, _ = stored.read_all(Path(folder, "out", "records"))
        return seconds, sum(bool(entry.environment.get("alone")) for entry in records)


@contextmanager
def _start_worker(processor: int, arguments: Sequence[str]) -> Iterator[str]:
    """Start a worker on one processor and yield the address of its scheduler."""
    process = subprocess.Popen(
        # The worker ends with the benchmark, however that ends.
        [*build_tied_command("TERM"), "taskset", "-c", str(processor), sys.executable, "-P", "-m",
         "harness",
         "worker", *arguments], env=_make_environment(), text=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert process.stdout is not None
    try:
        for line in process.stdout:
            match = re.search(r"--cluster (\S+)'", line)
            if match:
                yield match[1]
                return
        raise UserError("bench cluster: a worker did not start", status=1)
    finally:
        process.terminate()
        try:
            process.wait(_ENDING_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()


def _make_environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT)}
