"""Program of the receiving host: take messages and log when each was delivered.

Run it by `python3 -m studies.adp1987.receiver JOB.json`. It writes its log when standard input
ends.
"""

from __future__ import annotations

import gzip
import json
import sys
import zlib
from pathlib import Path
from typing import Any

from protocols.adp.effects import Deliver, Effect, Note
from studies.adp1987.endpoint import PacedEndpoint, read_job


class TraceSink:
    """The acceptor of the channel, with a log of deliveries, notes and keys."""

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
        if isinstance(effect, Deliver):
            self.log["delivered"].append((at_ns, len(effect.data), zlib.crc32(effect.data),
                                          effect.source, effect.source_host))
        elif isinstance(effect, Note):
            self.log["notes"].append([effect.event, effect.fields])


def main(path: str) -> int:
    """Run a receiver until standard input ends, and write its log."""
    job = read_job(path)
    receiver = TraceSink(job)
    print("ready", flush=True)
    receiver.serve_until_end()
    Path(job["log"]).write_bytes(gzip.compress(json.dumps(receiver.log).encode(), mtime=0))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
