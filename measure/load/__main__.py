"""Run the load generator as a program: `python3 -m measure.load TARGET.json`.

Commands are JSON lines on standard input:

- {"do": "prime", "stations"}
- {"do": "closed", "customers", "count", "pauses_s", "reads_anew"}
- {"do": "open", "rate_per_s", "seed", "stations", "offering_share"}; the next line ends this load.
  Negative controls add "rate", "late_s" or "is_even".

The program answers each command with one line. It writes the result to the file that the command
names as "out".
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from io import FileIO
from pathlib import Path
from typing import Any

from measure.load.generator import LoadAttempt, LoadError, LoadGenerator, LoadTarget
from measure.load.schedule import even_arrivals, poisson_arrivals


def execute_command(generator: LoadGenerator, command: dict[str, Any],
                    lines: FileIO) -> tuple[float, list[LoadAttempt]]:
    """Execute one command and return its start time (monotonic, s) and all attempts."""
    if command["do"] == "prime":
        return time.monotonic(), generator.prime_sessions(command["stations"])
    if command["do"] == "closed":
        return generator.closed_loop(command["customers"], command["count"],
                                     command.get("pauses_s", ()),
                                     reads_anew=command.get("reads_anew", False))
    schedule = even_arrivals if command.get("is_even") else poisson_arrivals
    arrivals = schedule(command["rate_per_s"], command["seed"], stations=command["stations"],
                        offering_share=command["offering_share"])
    print("open", flush=True)
    began_s, ended = generator.open_loop(arrivals, command.get("rate", 1.0), lines.fileno(),
                                         command.get("late_s", 0.0))
    lines.readline()
    return began_s, ended


def main() -> None:
    """Execute the command of each input line until the input ends."""
    target = LoadTarget(**json.loads(Path(sys.argv[1]).read_text()))
    # Unbuffered: select() must show each pending line on the descriptor.
    lines = FileIO(sys.stdin.fileno(), closefd=False)
    with LoadGenerator(target) as generator:
        print("ready", flush=True)
        while line := lines.readline():
            if target.goes_first:
                _raise_priority()
            try:
                answer_command(generator, json.loads(line), lines)
            except LoadError as error:
                sys.exit(str(error))


def _raise_priority() -> None:
    """Set the real-time priority to 2, above the measured processes.

    `measure.precedence` may have lowered the priority since the last command, so each command sets
    it again.
    """
    with contextlib.suppress(PermissionError):  # in some containers; lateness then shows it
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(2))


def answer_command(generator: LoadGenerator, command: dict[str, Any], lines: FileIO) -> None:
    """Execute one command and write its result to the file `out`."""
    offset_s = time.time() - time.monotonic()
    used_s = time.process_time()
    began_s, ended = execute_command(generator, command, lines)
    document = {"began_s": began_s + offset_s, "took_s": time.monotonic() - began_s,
                "processor_s": time.process_time() - used_s,
                "attempts": [attempt.to_row(began_s) for attempt in
                             sorted(ended, key=lambda attempt: attempt.number)]}
    Path(command["out"]).write_text(json.dumps(document))
    print("done", flush=True)


if __name__ == "__main__":
    main()
