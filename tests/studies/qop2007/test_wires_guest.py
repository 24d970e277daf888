"""Wires with a rate for each direction and with losses in bursts, measured in the guest."""

from __future__ import annotations

import pytest

from conftest import PROJECT, VIRTUAL, Qop, checks
from plans import body

pytestmark = [pytest.mark.guest, pytest.mark.shareable]

CELL = [*VIRTUAL, "--policies", "P1", "--repetitions", "1", "--stream-bytes", "100k"]
RATES, BURSTS = "wires have a rate for each direction", "wires lose packets in bursts"


@pytest.mark.parametrize(("scenario", "check", "control"), [
    ("N2-asymmetric", RATES, "equal-rates"), ("N2-bursts", BURSTS, "single-losses")])
def test_wires_are_in_the_kernels_as_the_scenario_says(scenario: str, check: str, control: str,
                                                       qop: Qop) -> None:
    """At both ends, and exactly the wire's check fails if it is an ordinary one."""
    cell = [*CELL, "--scenarios", str(PROJECT / "examples" / "scenarios" / f"{scenario}.yml")]
    done, records = qop.run("special", *cell)
    assert done.returncode == 0, done.stdout
    [record] = records.values()
    assert "ap-a/eth-a" in checks(record)[check] and "ha-a/air0" in checks(record)[check]
    if check == RATES:  # upwards, the wire is slower than the air
        udp = body(record).udp
        assert udp is not None and 1.8e6 < udp.goodput_bps < 2e6
    done, records = qop.run("ordinary", *cell, "--fault", control)
    assert done.returncode == 1
    [record] = records.values()
    assert [entry.check for entry in record.evidence if not entry.ok] == [check]
