"""Run the RADIUS load generator as a program: `python3 -m measure.load TARGET.json`.

Studies start it in the guest to measure a RADIUS server under load. TARGET.json has the server and
the credentials (`LoadTarget`). Each command on standard input is a JSON line:

- {"do": "prime", "stations"}: authenticate each station once, so that each has a TLS session that
  it can resume later.
- {"do": "closed", "customers", "count", "pauses_s", "reads_anew"}: keep several authentications in
  progress, until enough have ended.
- {"do": "open", "rate_per_s", "seed", "stations", "offering_share"}: start authentications at
  random times. The next line on standard input ends this load.

The fields of the commands:

- `stations`: number of stations that authenticate
- `customers`: number of authentications in progress at a time
- `count`: number of authentications in all
- `pauses_s`: idle times before each authentication, used in turn (s; for one customer)
- `reads_anew`: whether key and certificates are read for each authentication, as by eapol_test
- `rate_per_s`: mean number of authentications that start in a second
- `seed`: seed of the random start times
- `offering_share`: fraction of authentications that offer to resume a TLS session
- `rate`: factor on the arrival rate (negative control, default 1)
- `late_s`: delay of each start after its due time (s; negative control, default 0)
- `is_even`: whether authentications start at equal intervals (negative control)
- `out`: file for the result

A negative control is a deliberate fault, which the checks must find. The program answers each
command with one line, after it has written the times of all authentications to `out`.
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

from measure.load.generator import (
    LoadAttempt,
    LoadError,
    LoadGenerator,
    LoadTarget,
    even_arrivals,
    poisson_arrivals,
)


def execute_command(generator: LoadGenerator, command: dict[str, Any],
                    lines: FileIO) -> tuple[float, list[LoadAttempt]]:
    """Execute one command, and return its start time (monotonic, s) and all authentications."""
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
    """Execute commands from standard input until it ends."""
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
    """Set this process's real-time priority to 2, above the measured processes.

    `measure.cpu.realtime_priority` may have lowered the priority since the last command, so each
    command sets it again.
    """
    with contextlib.suppress(PermissionError):  # in some containers; lateness then shows it
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(2))


def answer_command(generator: LoadGenerator, command: dict[str, Any], lines: FileIO) -> None:
    """Execute one command, write its result to the file `out`, and print an answer line."""
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
