"""Wires with a rate for each direction and with losses in bursts, measured in the guest."""

from __future__ import annotations

import pytest

from conftest import PROJECT, VIRTUAL, Qop, checks
from plans import body

pytestmark = [pytest.mark.guest, pytest.mark.shareable]

CELL = [*VIRTUAL, "--policies", "P1", "--repetitions", "1", "--stream-bytes", "100k"]
RATES, BURSTS = "wires have a rate for each direction", "wires lose packets in bursts"


def test_wires_are_in_the_kernels_as_the_scenario_says(qop: Qop) -> None:
    """At both ends."""
    scenarios = {"N2-asymmetric": RATES, "N2-bursts": BURSTS}
    done, records = qop.run("special", *CELL, "--scenarios", ",".join(
        str(PROJECT / "examples" / "scenarios" / f"{name}.yml") for name in scenarios))
    assert done.returncode == 0, done.stdout
    found = {record.cell["scenario"]: record for record in records.values()}
    for name, check in scenarios.items():
        assert "ap-a/eth-a" in checks(found[name])[check]
        assert "ha-a/air0" in checks(found[name])[check]
    udp = body(found["N2-asymmetric"]).udp  # upwards, the wire is slower than the air
    assert udp is not None and 1.8e6 < udp.goodput_bps < 2e6
