"""Moves to another subnet, measured in the guest: by Mobile IP, MOBIKE and WireGuard."""

from __future__ import annotations

import pytest

from conftest import VIRTUAL, Qop, checks
from measure.record import Record
from plans import body

pytestmark = [pytest.mark.guest, pytest.mark.shareable]


@pytest.fixture(scope="module")
def moved(shared_qop: Qop) -> dict[str, Record]:
    """A repetition of each way in R3, by policy."""
    done, records = shared_qop.run(
        "subnets", *VIRTUAL, "--policies", "M2-ft,M10,M11", "--scenarios", "R3",
        "--repetitions", "1", "--move-stream", "5", "--stream-bytes", "100k")
    assert done.returncode == 0, done.stderr
    return {found.cell["policy"]: found for found in records.values()}


def test_a_tunnel_follows_its_node_past_a_router(moved: dict[str, Record]) -> None:
    """Its packets go by the new address, both kernels have it, and no Mobile IP is there."""
    for policy in ("M10", "M11"):
        assert {"no Mobile IP", "tunnel goes by the new address",
                "kernels have the new address"} <= checks(moved[policy]).keys()
        assert not any("mip" in name for name in body(moved[policy]).authentication_sum)
    assert "MOBIKE" in checks(moved["M11"])
    assert checks(moved["M11"])["ISAKMP packets"].startswith("4, 4")


def test_fast_transition_passes_a_router_with_a_passphrase(moved: dict[str, Record]) -> None:
    """Four frames on the link, and Mobile IP's registration after them."""
    assert {"fast transition", "registered with the foreign agent"} <= checks(
        moved["M2-ft"]).keys()


def test_a_stream_tells_the_outage_of_each(moved: dict[str, Record]) -> None:
    """In virtual time: charon waits a tenth of a second before it looks for another path."""
    gaps = {policy: max(way.gap_s for way in (body(found).outages or {}).values())
            for policy, found in moved.items()}
    assert gaps["M11"] > 0.1 > max(gaps["M10"], gaps["M2-ft"])
