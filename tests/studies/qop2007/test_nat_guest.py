"""A tunnel behind a router that translates addresses (NAT), measured in the guest."""

from __future__ import annotations

import pytest

from conftest import PROJECT, VIRTUAL, Qop, checks
from measure.records.record import Record

pytestmark = [pytest.mark.guest, pytest.mark.shareable]
SMALL = (*VIRTUAL, "--scenarios", str(PROJECT / "examples/scenarios/nat.yml"),
         "--repetitions", "1", "--stream-bytes", "100k")
IKE, WIREGUARD = (str(PROJECT / f"examples/{name}-nat.yml") for name in ("ikev2", "wireguard"))
IDLE, NEW_PORT = "peer reaches the idle node", "tunnel goes on at the new port"


@pytest.fixture(scope="module")
def measured_behind_nat(shared_qop: Qop) -> dict[str, Record]:
    """A repetition of each tunnel with its timers, and of two without, by policy."""
    _, records = shared_qop.run(
        "nat", *SMALL, "--policies", "M10,M11", "--policy", IKE, "--policy", WIREGUARD)
    return {found.cell["policy"]: found for found in records.values()}


def failing(record: Record) -> set[str]:
    """The names of the checks that do not hold."""
    return {entry.check for entry in record.evidence if not entry.ok}


def test_tunnels_with_timers_are_proven_behind_nat(
        measured_behind_nat: dict[str, Record]) -> None:
    """The router translates, and the peer reaches the idle node before and after its restart."""
    for policy in ("IKEv2-NAT", "WG-NAT"):
        found = checks(measured_behind_nat[policy])
        assert {"router translates addresses and ports", "router changes the port", IDLE,
                NEW_PORT} <= found.keys()
        assert not failing(measured_behind_nat[policy])
    ike = checks(measured_behind_nat["IKEv2-NAT"])
    assert {"ESP in UDP", "NAT keepalives", "dead peer detection"} <= ike.keys()
    assert "4 of 4 SAs" in ike["ESP in UDP"]


@pytest.mark.parametrize("policy", ["M10", "M11"])
def test_silent_node_is_out_of_reach_behind_nat(measured_behind_nat: dict[str, Record],
                                                policy: str) -> None:
    """Until the node sends: then the agent answers to its new port."""
    record = measured_behind_nat[policy]
    assert failing(record) == {IDLE, NEW_PORT}
    details = {entry.check: entry.detail for entry in record.evidence}
    assert "of the node after it answered" in details[NEW_PORT]
