"""Media of 802.11n and ax in the guest: frames are aggregated, except with WEP."""

from __future__ import annotations

import pytest

from conftest import VIRTUAL, Qop, checks

pytestmark = [pytest.mark.guest, pytest.mark.shareable]

AGGREGATED = "frames are aggregated"
SMALL = [*VIRTUAL, "--scenarios", "N2", "--repetitions", "1", "--stream-bytes", "200k",
         "--authentications", "1"]


@pytest.mark.parametrize("medium", ["802.11n-ht20", "802.11ax"])
def test_frames_are_aggregated_except_with_wep(qop: Qop, medium: str) -> None:
    """Every repetition proves it, and WEP goes without HT and aggregates."""
    done, records = qop.run("media", *SMALL, "--policies", "M2,P2", "--medium", medium)
    assert done.returncode == 0, done.stderr
    found = {record.cell["policy"]: checks(record) for record in records.values()}
    assert AGGREGATED in found["M2"]
    assert AGGREGATED not in found["P2"]
