"""The generator as a program: `python3 -m measure.load TARGET.json`, told what to do by lines.

JSON lines on standard input: {"do": "prime", "stations"}, {"do": "closed", "customers", "count"},
{"do": "open", "rate_per_s", "seed", "stations", "resumed_share", "rate"}, which the next line
ends. Each is answered by one line; what it came to is in the file that it names as "out".
"""

from __future__ import annotations

import json
import sys
import time
from io import FileIO
from pathlib import Path
from typing import Any

from measure.load.generator import Attempt, Generator, Target
from measure.load.schedule import poisson


def do(generator: Generator, command: dict[str, Any],
       lines: FileIO) -> tuple[float, list[Attempt]]:
    """Do a command; when it began, and all attempts."""
    if command["do"] == "prime":
        return time.monotonic(), generator.prime(command["stations"])
    if command["do"] == "closed":
        return generator.closed_loop(command["customers"], command["count"])
    arrivals = poisson(command["rate_per_s"], command["seed"], stations=command["stations"],
                       resumed_share=command["resumed_share"])
    print("open", flush=True)
    began_s, ended = generator.open_loop(arrivals, command["rate"], lines.fileno())
    lines.readline()
    return began_s, ended


def main() -> None:
    """Do what is said, line by line, until there is no more."""
    generator = Generator(Target(**json.loads(Path(sys.argv[1]).read_text())))
    print("ready", flush=True)
    # Unbuffered: whether there is a line has to show at the descriptor.
    lines = FileIO(sys.stdin.fileno(), closefd=False)
    while line := lines.readline():
        command = json.loads(line)
        offset_s = time.time() - time.monotonic()
        used_s = time.process_time()
        began_s, ended = do(generator, command, lines)
        document = {"began_s": began_s + offset_s, "took_s": time.monotonic() - began_s,
                    "processor_s": time.process_time() - used_s,
                    "attempts": [attempt.row(began_s) for attempt in
                                 sorted(ended, key=lambda attempt: attempt.number)]}
        Path(command["out"]).write_text(json.dumps(document))
        print("done", flush=True)


if __name__ == "__main__":
    main()
