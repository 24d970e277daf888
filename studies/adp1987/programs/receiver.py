"""Receive messages by ADP as a program, and log when each message was delivered.

ADP is the Authenticated Datagram Protocol of 1987. The study adp1987 starts `python3 -m
studies.adp1987.programs.receiver JOB.json` on the receiving host. JOB.json has the configuration of
the host and the path of the log. The log has delivered messages with times and senders, events and
keys. It is written when standard input ends. `sender` is the other end.
"""

from __future__ import annotations

import gzip
import json
import sys
import zlib
from pathlib import Path
from typing import Any

from protocols.adp.effects import DeliverMessage, Effect, ProgramEvent
from studies.adp1987.programs.endpoint import PacedEndpoint, read_job


class TraceSink:
    """A receiving host, with a log of delivered messages, events and keys."""

    def __init__(self, job: dict[str, Any]) -> None:
        self.log: dict[str, Any] = {"delivered": [], "notes": [], "keys": []}
        self.endpoint = PacedEndpoint(job, self._log_effect)
        self.endpoint.host.log_keys(
            lambda public, private: self.log["keys"].append([public.hex(), private.hex()]))

    def serve_until_end(self) -> None:
        """Receive datagrams until standard input ends."""
        while not (self.endpoint.serve_until(None, [sys.stdin]) and not sys.stdin.read(1)):
            pass
        self.log["off_time"] = self.endpoint.off_time

    def _log_effect(self, effect: Effect, at_ns: int) -> None:
        if isinstance(effect, DeliverMessage):
            self.log["delivered"].append((at_ns, len(effect.data), zlib.crc32(effect.data),
                                          effect.source, effect.source_host))
        elif isinstance(effect, ProgramEvent):
            self.log["notes"].append([effect.event, effect.fields])


def main(path: str) -> int:
    """Run the receiver until standard input ends, and write its log."""
    job = read_job(path)
    receiver = TraceSink(job)
    print("ready", flush=True)
    receiver.serve_until_end()
    Path(job["log"]).write_bytes(gzip.compress(json.dumps(receiver.log).encode(), mtime=0))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
