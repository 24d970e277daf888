"""Moves to another subnet in the guest: by Mobile IP, MOBIKE, WireGuard, QUIC and MPTCP."""

from __future__ import annotations

import pytest

from conftest import PROJECT, VIRTUAL, Qop, checks
from measure.records.record import Record
from plans import body

pytestmark = [pytest.mark.guest, pytest.mark.shareable]


@pytest.fixture(scope="module")
def moved(shared_qop: Qop) -> dict[str, Record]:
    """A repetition of each way in R3, by policy."""
    done, records = shared_qop.run(
        "subnets", *VIRTUAL, "--policies", "M2-ft,M10,M11,M15,M16", "--scenarios", "R3",
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


def test_quic_connection_migrates_past_a_router(moved: dict[str, Record]) -> None:
    """The new path is validated, within the connection that was opened at home."""
    found = checks(moved["M15"])
    assert {"no Mobile IP", "tunnel goes by the new address", "QUIC: connection goes on"} <= \
        found.keys()
    assert "1 with equal data" in found["QUIC: new path is validated"]
    assert "quic_home" in body(moved["M15"]).authentication_sum


def test_multipath_tcp_connection_is_joined_past_a_router(moved: dict[str, Record]) -> None:
    """The new address joins the connection that was opened at home, and no packet is lost."""
    assert {"no Mobile IP", "tunnel goes by the new address", "kernels have the new address",
            "MPTCP: new address joins the connection", "MPTCP: data sequence goes on"} <= \
        checks(moved["M16"]).keys()
    assert "mptcp_home" in body(moved["M16"]).authentication_sum
    assert [way.lost_packets for way in (body(moved["M16"]).outages or {}).values()] == [0, 0]


def test_fast_transition_passes_a_router_with_a_passphrase(moved: dict[str, Record]) -> None:
    """Four frames on the link, and Mobile IP's registration after them."""
    assert {"fast transition", "registered with the foreign agent"} <= checks(
        moved["M2-ft"]).keys()


@pytest.fixture(scope="module")
def within_subnet(shared_qop: Qop) -> dict[str, Record]:
    """A repetition of fast transitions in E1, by policy: two of the profile, two of examples."""
    files = [str(PROJECT / "examples" / f"{name}.yml")
             for name in ("wpa3-eap-192-bit-ft", "wpa3-sae-ft-over-ds")]
    done, records = shared_qop.run(
        "within-subnet", *VIRTUAL, "--policies", "M4-ft,M7", "--scenarios", "E1",
        "--repetitions", "1", "--stream-bytes", "100k",
        *(word for file in files for word in ("--policy", file)))
    assert done.returncode == 0, done.stdout
    return {found.cell["policy"]: found for found in records.values()}


def test_192_bit_suite_moves_by_fast_transition(within_subnet: dict[str, Record]) -> None:
    """Its keys are made by SHA-384, beside those by SHA-256."""
    keys = "fast transition's keys"
    found = checks(within_subnet["WPA3-192-FT"])
    assert found[keys].startswith("by SHA-384 from 48 bytes")
    assert "1 of 1 handshakes and 2 of 2 reassociation frames" in found[keys]
    assert checks(within_subnet["M4-ft"])[keys].startswith("by SHA-256 from 32 bytes")
    assert "fast transition" in found


def test_fast_transition_over_the_ds_passes_by_wire(within_subnet: dict[str, Record]) -> None:
    """As many frames as over the air, which exactly one check tells apart."""
    over_ds = "fast transition over the DS"
    assert {"fast transition", over_ds} <= checks(within_subnet["WPA3-FT-DS"]).keys()
    assert over_ds not in checks(within_subnet["M7"])
    for policy in ("WPA3-FT-DS", "M7"):
        frames = {phase.name: phase.packets for phase in body(within_subnet[policy]).handoff}
        assert frames["authentication"] == 2


def test_a_stream_tells_the_outage_of_each(moved: dict[str, Record]) -> None:
    """In virtual time: charon waits a tenth of a second before it looks for another path."""
    gaps = {policy: max(way.gap_s for way in (body(found).outages or {}).values())
            for policy, found in moved.items()}
    assert gaps["M11"] > 0.1 > max(gaps["M10"], gaps["M15"], gaps["M2-ft"])
