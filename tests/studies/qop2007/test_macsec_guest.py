"""MACsec behind access points, measured in the guest: at home, and moving between two cells."""

from __future__ import annotations

import pytest

from conftest import VIRTUAL, Qop, checks
from measure.records.record import Record

pytestmark = [pytest.mark.guest, pytest.mark.shareable]

SMALL = [*VIRTUAL, "--scenarios", "N2,E1", "--repetitions", "1", "--stream-bytes", "100k",
         "--authentications", "2"]


@pytest.fixture(scope="module")
def protected(shared_qop: Qop) -> dict[str, Record]:
    """A repetition of two authentications at home, and one that moves, by scenario."""
    done, records = shared_qop.run("macsec", *SMALL, "--policies", "M5-macsec")
    assert done.returncode == 0, done.stderr
    return {record.cell["scenario"]: record for record in records.values()}


def test_wires_are_protected(protected: dict[str, Record]) -> None:
    """Every frame behind every access point in use, each opened with the keys in force."""
    for scenario, ends in (("N2", 2), ("E1", 4)):
        held = checks(protected[scenario])
        assert " 0 others" in held["MACsec on every frame of the wire"]
        assert " 0 do not; 0 messages have" in held["MACsec frames open"]
        assert f"{ends} of {ends} ends have GCM-AES-128" in held["MACsec in the kernels"]
