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


@pytest.mark.parametrize(("policy", "fault", "fails"), [
    ("M16", "mptcp-refuses-joins", {
        "MPTCP: kernels have the connection", "MPTCP: new address joins the connection",
        "MPTCP: data sequence goes on"}),
    ("M15", "quic-reconnects", {"QUIC: new path is validated", "QUIC: connection goes on"})])
def test_another_connection_after_the_move_is_found_out(qop: Qop, policy: str, fault: str,
                                                        fails: set[str]) -> None:
    """Traffic flows again after the move, and exactly the checks of the connection fail."""
    done, records = qop.run("another", *VIRTUAL, "--policies", policy, "--scenarios", "R3",
                            "--repetitions", "1", "--stream-bytes", "100k", "--fault", fault)
    assert done.returncode == 1
    [record] = records.values()
    assert {entry.check for entry in record.evidence if not entry.ok} == fails


def test_fast_transition_passes_a_router_with_a_passphrase(moved: dict[str, Record]) -> None:
    """Four frames on the link, and Mobile IP's registration after them."""
    assert {"fast transition", "registered with the foreign agent"} <= checks(
        moved["M2-ft"]).keys()


def test_192_bit_suite_moves_by_fast_transition(qop: Qop) -> None:
    """Its keys are made by SHA-384, beside those by SHA-256, and a control has the other hash."""
    cell = [*VIRTUAL, "--policy", str(PROJECT / "examples" / "wpa3-eap-192-bit-ft.yml"),
            "--scenarios", "E1", "--repetitions", "1", "--stream-bytes", "100k"]
    keys = "fast transition's keys"
    done, records = qop.run("sha384", *cell, "--policies", "M4-ft")
    assert done.returncode == 0, done.stdout
    found = {each.cell["policy"]: checks(each) for each in records.values()}
    assert found["WPA3-192-FT"][keys].startswith("by SHA-384 from 48 bytes")
    assert "1 of 1 handshakes and 2 of 2 reassociation frames" in found["WPA3-192-FT"][keys]
    assert found["M4-ft"][keys].startswith("by SHA-256 from 32 bytes")
    assert "fast transition" in found["WPA3-192-FT"]
    done, records = qop.run("sha256", *cell, "--policies", "M6", "--fault", "sha256-for-sha384")
    assert done.returncode == 1
    [record] = [each for each in records.values() if each.cell["policy"] == "WPA3-192-FT"]
    assert [entry.check for entry in record.evidence if not entry.ok] == [
        "key management negotiated", "key management offered", keys, "EAP packets as computed",
        "RADIUS packets as computed"]


def test_fast_transition_over_the_ds_passes_by_wire(qop: Qop) -> None:
    """As many frames as over the air, which exactly one check tells apart."""
    over_ds = "fast transition over the DS"
    cell = [*VIRTUAL, "--policy", str(PROJECT / "examples" / "wpa3-sae-ft-over-ds.yml"),
            "--policies", "M7", "--scenarios", "E1", "--repetitions", "1",
            "--stream-bytes", "100k"]
    done, records = qop.run("ds", *cell)
    assert done.returncode == 0, done.stdout
    by_policy = {record.cell["policy"]: record for record in records.values()}
    assert {"fast transition", over_ds} <= checks(by_policy["WPA3-FT-DS"]).keys()
    assert over_ds not in checks(by_policy["M7"])
    frames = [{phase.name: phase.packets for phase in body(record).handoff}
              for record in by_policy.values()]
    assert frames[0]["authentication"] == frames[1]["authentication"] == 2
    done, records = qop.run("air", *cell, "--fault", "over-the-air")
    assert done.returncode == 1
    [record] = [each for each in records.values() if each.cell["policy"] == "WPA3-FT-DS"]
    assert [entry.check for entry in record.evidence if not entry.ok] == [over_ds]


def test_a_stream_tells_the_outage_of_each(moved: dict[str, Record]) -> None:
    """In virtual time: charon waits a tenth of a second before it looks for another path."""
    gaps = {policy: max(way.gap_s for way in (body(found).outages or {}).values())
            for policy, found in moved.items()}
    assert gaps["M11"] > 0.1 > max(gaps["M10"], gaps["M15"], gaps["M2-ft"])
