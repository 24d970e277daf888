"""Sessions of a cluster whose records are made up, for workers in the tests' own process."""

from __future__ import annotations

import time
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path

from distributed import get_worker

from fabricated import make
from harness.cluster.wire import Finished, Said, Share
from harness.engine.plan import Step

BROKEN = "no space left on device"
LINE = b"a line\n"


@dataclass
class Script:
    """How sessions behave, and what they did."""

    #: Steps that no process survives.
    poisonous: set[str] = field(default_factory=set)
    #: Steps that are flagged unless they are measured exclusively.
    flagged: set[str] = field(default_factory=set)
    #: Addresses of workers that cannot even begin.
    broken: set[str] = field(default_factory=set)
    #: The first worker that has sent so many repetitions says nothing new any more.
    stalls_after: int = 10**6
    stalled: str = ""
    #: Steps by the address of the worker that measured them, in order.
    measured: dict[str, list[str]] = field(default_factory=dict)
    closed: list[str] = field(default_factory=list)


SCRIPT = Script()


class MadeUp:
    """A session that has finished one more repetition whenever it is asked."""

    def __init__(self, share: Share, place: Path) -> None:
        assert place.is_dir()
        self.serial = share.serial
        self._at = get_worker().address
        self._todo = [(step, False) for step in share.steps]
        self._todo += [(step, True) for step in share.again]
        self._unkept: dict[int, Finished] = {}
        self._number = 0

    def ask(self, kept: Collection[int], patience_s: float) -> Said:
        """What has not been acknowledged, and one more."""
        for number in kept:
            del self._unkept[number]
        if self._at in SCRIPT.broken:
            return Said(ended=True, broken=BROKEN)
        if not self._todo:
            return Said(ended=True, logs={"cells/P1-N2.log": LINE, "../../outside": LINE})
        step, exclusive = self._todo[0]
        started = {"event": "repetition-started", "at": 1.0, "name": step.name,
                   "testbed": "P1", "attempt": 1, "exclusive": exclusive}
        if self._number >= SCRIPT.stalls_after and SCRIPT.stalled in {"", self._at}:
            SCRIPT.stalled = self._at
            time.sleep(0.05)
            return Said(events=[started])
        if step.name in SCRIPT.poisonous:
            return Said(events=[started], ended=True, broken="its process was killed")
        self._finish(step, exclusive=exclusive)
        return Said(list(self._unkept.values()), [started])

    def close(self) -> None:
        """Note it."""
        SCRIPT.closed.append(self._at)

    def _finish(self, step: Step, *, exclusive: bool) -> None:
        SCRIPT.measured.setdefault(self._at, []).append(step.name)
        self._number += 1
        is_flagged = step.name in SCRIPT.flagged and not exclusive
        self._todo = self._todo[1:] + ([(step, True)] if is_flagged else [])
        made = make(step.cell.ids["policy"], step.repetition)
        made = made.model_copy(update={"files": ["trace.txt"], "environment": {
            **made.environment, "flags": ["processor"] if is_flagged else [], "alone": exclusive}})
        self._unkept[self._number] = Finished(
            self._number, made.model_dump_json(by_alias=True),
            {"auth-mn.pcap.gz": step.name.encode()}, {"trace.txt": step.name.encode()}, LINE)
