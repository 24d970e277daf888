"""Realms in a guest: protocols are proven from captures, and loads fit the model."""

from __future__ import annotations

from typing import Any

import pytest

from analysis import Cells
from conftest import Qop
from harness.commands.report import load_results
from measure.records.record import Record
from studies.kerberos2002.report.tables import measured_loads

pytestmark = [pytest.mark.guest, pytest.mark.shareable]
STUDY = "kerberos2002"
LONE = ("--only", "servers=1", "--only", "customers=1", "--only", "speed=1", "--only", "suite=era")


def run(qop: Qop, out: str, *arguments: str) -> tuple[int, dict[str, Record]]:
    """The exit status, and the records by their names."""
    done = qop("run", STUDY, "--out", out, "--repetitions", "1", *arguments)
    return done.returncode, {record.name: record for record in qop.records(out).values()}


@pytest.fixture(scope="module")
def lone(shared_qop: Qop) -> dict[str, Record]:
    """One transaction of each of three protocols at LAN speed and, where there is one, at 2G."""
    status, records = run(shared_qop, "lone", "--protocols", "pkcross,m-standard,mp-assist", *LONE,
                          "--only", "wire=lan,2g")
    assert status == 0, [record.reason for record in records.values()]
    return {"-".join(record.cell[name] for name in ("protocol", "wire")): record
            for record in records.values()}


def measured(record: Record) -> dict[str, Any]:
    """A record's body."""
    assert record.measured is not None
    return record.measured


def test_transactions_are_proven_from_packets(lone: dict[str, Record]) -> None:
    """Every record holds its checks, the assisting proxy's among them."""
    assert {record.status for record in lone.values()} == {"ok"}
    checks = {check.check for check in lone["mp-assist-2g"].evidence}
    assert {"chains stay behind the proxy", "the proxy opens only the key that it was given",
            "the client reaches the proxy only", "no key in clear"} <= checks


def test_phases_are_those_of_the_operations(lone: dict[str, Record]) -> None:
    """At LAN speed each phase is within 5 % of what its operations and messages take."""
    for protocol in ("m-standard", "mp-assist"):
        body = measured(lone[f"{protocol}-lan"])
        for phase, due_s in body["predicted"].items():
            assert 0.95 * due_s <= body[phase] <= 1.05 * due_s, (protocol, phase)


def test_wires_take_what_they_should(lone: dict[str, Record]) -> None:
    """At 2G what the client's wire carries takes 9600 bit/s, and every message 0.52 s."""
    for protocol in ("m-standard", "mp-assist"):
        slow, quick = (measured(lone[f"{protocol}-{wire}"]) for wire in ("2g", "lan"))
        added_s = slow["transaction_s"] - quick["transaction_s"]
        asks = sum(message["source"] == "client" for message in slow["messages"])
        # A request and its reply each take 0.52 s, the connection a round trip besides; nearly
        # nothing passes both ways at once.
        assert added_s > 0.75 * 8 * slow["client_bytes"] / 9600 + 0.95 * 2 * 0.52 * (asks + 1)


def test_the_model_predicts_a_load(shared_qop: Qop) -> None:
    """Exact MVA on a record's demands is near the throughput of four customers."""
    status, records = run(shared_qop, "load", "--protocols", "m-standard", "--only", "servers=1",
                          "--only", "wire=lan", "--only", "speed=1", "--only", "suite=era",
                          "--only", "customers=1,4", "--transactions", "40")
    assert status == 0, [record.reason for record in records.values()]
    seen = list(measured_loads(Cells(load_results(shared_qop.folder / "load"))))
    assert [entry.customers for entry in seen] == [4]
    # Forty transactions; the study's own bound is of more.
    assert seen[0].error < 0.1


def test_a_transaction_over_wpa2(shared_qop: Qop) -> None:
    """One YAML file: the assisting proxy for a client on the air, with the frames' protection."""
    (shared_qop.folder / "mine.yml").write_text(
        "id: mine\nname: assisted\nlayers:\n  link: {cipher: CCMP, keys: psk}\n  kerberos: {by: "
        "programs, initial: pkinit, reply_key: client, proxy: assist, suite: era}\n")
    status, records = run(shared_qop, "over-wpa2", "--policy", "mine.yml", "--scenarios", "N2")
    assert status == 0, [record.reason for record in records.values()]
    (record,) = records.values()
    checks = {check.check for check in record.evidence}
    assert {"CCMP on every data frame", "frames open with the keys in force",
            "chains stay behind the proxy", "messages in the protocol's order"} <= checks
    assert measured(record)["auth_s"] > 5  # the device's, as on the test bed
