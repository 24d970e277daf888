"""The load generator as a running program, by commands. Inside the machine."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from measure.services.program import HostProgram
from studies.eapload2004.capacity import SATURATED


class LoadProgram:
    """The generator in its program, by commands."""

    def __init__(self, program: HostProgram, out: Path) -> None:
        self._program, self._out = program, out

    def do(self, what: str, name: str = "", **arguments: Any) -> None:
        """Have it do something to its end; what came of it is in `NAME.json`."""
        self._tell(do=what, out=str(self._out / f"{name or what}.json"), **arguments)
        self._program.expect("done")

    def calibrate(self, asked: Mapping[str, Any]) -> None:
        """Have it ask the server alone, and then keep it as busy as it can be."""
        self.do("closed", "alone", customers=1, count=20)
        self.do("closed", SATURATED.removesuffix(".json"), customers=asked["customers"],
                count=asked["saturating"])

    def begin(self, task: Mapping[str, Any], seed: int, *, rate_per_s: float,
              pace: float) -> None:
        """Have it load the server on schedule from now on."""
        asked = task["asked"]
        share = asked["resumed_share"] if task["sessions"] == "resumed" else 0.0
        self._tell(do="open", out=str(self._out / "open.json"), rate_per_s=rate_per_s, seed=seed,
                   stations=asked["stations"], offering_share=share, rate=pace)
        self._program.expect("open")

    def end(self) -> None:
        """No more arrivals; wait until those under way have their answers."""
        self._tell(do="stop")
        self._program.expect("done")

    def kill(self) -> None:
        """End it where it is (a negative control)."""
        self._program.kill()

    def _tell(self, **command: Any) -> None:
        self._program.tell(json.dumps(command))
