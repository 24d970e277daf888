"""MIT Kerberos in a guest: what was used is seen in packets; what was not is not taken for it."""

from __future__ import annotations

import gzip
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import studies
from conftest import Qop
from measure.records.record import CheckRecord, Record
from studies.krb5today import cells
from studies.krb5today.settings import Settings
from studies.study import Cell, Judgement, Repetition

pytestmark = [pytest.mark.guest, pytest.mark.shareable]
STUDY = studies.load_study("krb5today")
MECHANISMS = ("fast", "pkinit-rsa", "pkinit-ecdh", "cross-realm", "pktapp", "iakerb")
NEAR = ("--only", "wire=lan", "--only", "transport=default", "--only", "customers=1",
        "--repetitions", "1", "--logins", "2")


@pytest.fixture(scope="module")
def logins(shared_qop: Qop) -> dict[str, Record]:
    """Two logins of each of six mechanisms, in one guest."""
    done = shared_qop("run", "krb5today", "--out", "mit-logins", "--mechanisms",
                      ",".join(MECHANISMS), *NEAR)
    records = shared_qop.records("mit-logins")
    assert done.returncode == 0, [record.reason for record in records.values()] + [done.stderr]
    return {record.cell["mechanism"]: record for record in records.values()}


@pytest.fixture
def judged(shared_qop: Qop, logins: dict[str, Record], tmp_path: Path) -> Callable[..., Judgement]:
    """What the judge says of a mechanism's packets if they were another mechanism's."""
    def judge(mechanism: str, as_if: str, change: Callable[[Path], None] = lambda _: None
              ) -> Judgement:
        name = logins[mechanism].name
        files = shared_qop.folder / "mit-logins" / "files" / name
        for packed in (*files.iterdir(), *(shared_qop.folder / "mit-logins" / "captures" / name
                                           ).iterdir()):
            if packed.suffix == ".gz":
                (tmp_path / packed.stem).write_bytes(gzip.decompress(packed.read_bytes()))
            else:
                shutil.copy(packed, tmp_path)
        change(tmp_path)
        levels = {factor.name: factor.read([level], ())[0] for factor, level in zip(
            cells.FACTORS, cells.cell_ids(as_if), strict=True)}
        return STUDY.judge(Repetition(Cell(levels), Settings(logins=2), tmp_path, {}))
    return judge


def body(record: Record) -> dict[str, Any]:
    """A record's measured values."""
    assert record.measured is not None
    return record.measured


def broken(verdict: Judgement) -> set[str]:
    """The checks that do not hold."""
    return {check.check for check in verdict.evidence if not CheckRecord.model_validate(check).ok}


def test_logins_are_proven_from_packets(logins: dict[str, Record]) -> None:
    """Each mechanism holds its checks; what this krb5 cannot do is skipped with the reason."""
    assert {name: record.status for name, record in logins.items()} == {
        **dict.fromkeys(MECHANISMS, "ok"), "pkinit-ecdh": "skipped"}
    assert "has no ECDH in PKINIT" in logins["pkinit-ecdh"].reason
    checks = {name: {check.check for check in record.evidence} for name, record in logins.items()}
    assert "the client reaches the proxy only" in checks["iakerb"]
    assert "the ticket is the service's own" in checks["pktapp"]
    assert "the other realm issues the service's ticket" in checks["cross-realm"]
    assert "signatures verify" in checks["pkinit-rsa"]
    assert "signatures verify" not in checks["fast"]


def test_prices_are_those_of_the_messages(logins: dict[str, Record]) -> None:
    """Round trips follow from the exchange, and the KDC's computing is counted."""
    trips = {name: body(logins[name])["round_trips"] for name in ("fast", "pkinit-rsa", "pktapp")}
    # FAST: asked for more twice. PKINIT: once, and a connection, as it does not fit a datagram;
    # PKTAPP goes on to the server, by a further connection.
    assert trips == {"fast": 3, "pkinit-rsa": 3, "pktapp": 5}
    # Which of two takes longer is for repetitions to say: a busy machine slows down one login.
    assert min(body(logins[name])["kdc_s"] for name in trips) > 0


@pytest.mark.parametrize(("mechanism", "as_if", "fails"), [
    ("fast", "spake", {"requested login method is used"}),
    ("fast", "pkinit-rsa", {"requested login method is used", "tickets name the login method"}),
    ("pkinit-rsa", "pkinit-dh", {"requested login method is used"}),
    ("pkinit-rsa", "fast", {"requested login method is used", "tickets name the login method"}),
    ("pkinit-rsa", "anonymous", {"signatures verify", "requested login method is used",
                                 "tickets name the login method"}),
    ("iakerb", "cross-realm", {"the other realm issues the service's ticket"}),
    ("cross-realm", "iakerb", {"the client reaches the proxy only",
                               "the proxy forwards messages unchanged"})])
def test_another_mechanism_is_not_taken_for_it(
        judged: Callable[..., Judgement], mechanism: str, as_if: str, fails: set[str]) -> None:
    """Logins that succeed by another way than was asked for fail the checks that are about it."""
    assert broken(judged(mechanism, as_if)) == fails


def test_pktapp_is_no_login_at_a_realm(judged: Callable[..., Judgement]) -> None:
    """A ticket for the service that was got by a ticket-granting ticket is not PKTAPP's."""
    assert "the ticket is the service's own" in broken(judged("cross-realm", "pktapp"))


def test_a_byte_changed_in_what_is_signed_is_seen(judged: Callable[..., Judgement]) -> None:
    """The last byte of what the client signs, changed in every packet: the signature fails."""
    def change(folder: Path) -> None:
        capture = folder / "logins-client.pcap"
        data = capture.read_bytes()
        # Of the signed part, the digest attribute's object identifier precedes the digest.
        name = bytes.fromhex("06092a864886f70d010904")
        assert name in data
        place = data.index(name) + len(name) + 6
        capture.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1:])

    assert broken(judged("pkinit-rsa", "pkinit-rsa", change)) == {"signatures verify"}


def test_keys_of_others_open_nothing(judged: Callable[..., Judgement]) -> None:
    """With another realm's key in its place, no ticket opens and none says how it was got."""
    def change(folder: Path) -> None:
        keytab = folder / "LOCAL.TEST.keytab"
        data = bytearray(keytab.read_bytes())
        for place in range(data.index(b"krbtgt") + 60, len(data) - 40):
            data[place] ^= 0x55 if data[place - 4:place] == b"\x00\x14\x00\x20" else 0
        keytab.write_bytes(bytes(data))

    assert "tickets name the login method" in broken(judged("pkinit-rsa", "pkinit-rsa", change))


def test_an_answer_that_is_not_by_the_session_key_is_seen(judged: Callable[..., Judgement]) -> None:
    """A byte of the server's last AP-REP changed: the ticket's key opens it no more."""
    def change(folder: Path) -> None:
        capture = folder / "logins-client.pcap"
        data = bytearray(capture.read_bytes())
        # [APPLICATION 15] of some 150 bytes; what is encrypted ends it.
        data[data.rindex(b"\x6f\x81\x97\x30") + 120] ^= 1
        capture.write_bytes(bytes(data))

    assert broken(judged("pktapp", "pktapp", change)) == {"client and server prove the key"}


def test_a_key_in_a_message_is_seen(judged: Callable[..., Judgement]) -> None:
    """Were 32 bytes of a request somebody's key, it would not be in clear unnoticed."""
    def change(folder: Path) -> None:
        keytab = (folder / "LOCAL.TEST.keytab").read_bytes()
        name = bytes.fromhex("06092a864886f70d010904")
        data = (folder / "logins-client.pcap").read_bytes()
        said = data[data.index(name) + 20:][:32]
        place = keytab.index(b"\x00\x14\x00\x20") + 4
        (folder / "another.keytab").write_bytes(
            keytab[:place] + said + keytab[place + 32:])
        for file in folder.glob("LOCAL.TEST.keytab"):
            file.rename(folder / "z.keytab")

    assert "no key in clear" in broken(judged("pkinit-rsa", "pkinit-rsa", change))


def test_a_message_of_another_form_is_seen(judged: Callable[..., Judgement]) -> None:
    """A request whose outer tag is another one is no message of Kerberos."""
    def change(folder: Path) -> None:
        capture = folder / "logins-client.pcap"
        data = bytearray(capture.read_bytes())
        data[data.index(b"\x6a\x82")] = 0x6F
        capture.write_bytes(bytes(data))

    assert "messages follow the schema" in broken(judged("fast", "fast", change))


def test_a_login_through_esp_where_it_has_moved_to(shared_qop: Qop) -> None:
    """One YAML file: PKINIT by the proxy, through a tunnel, at home and in the visited network.

    The tunnel, the registrations and the mechanism are all proven; the handoff tears nothing down.
    """
    (shared_qop.folder / "mine.yml").write_text(
        "id: mine\nname: IAKERB through ESP\nlayers:\n  ipsec: {ike: 2, ike_proposal: "
        "aes128-sha256-modp2048, esp_proposal: aes128-sha256}\n"
        "  kerberos: {initial: pkinit, proxy: forward}\n")
    done = shared_qop("run", "krb5today", "--out", "moved", "--policy", "mine.yml", "--scenarios",
                      "R1", "--clock", "virtual", "--repetitions", "1", "--logins", "2")
    (record,) = shared_qop.records("moved").values()
    assert done.returncode == 0, record.reason
    checks = {check.check for check in record.evidence}
    assert {"ESP transforms in the kernel", "no clear inner packet", "ESP between the agents",
            "the client reaches the proxy only", "requested login method is used"} <= checks
    assert body(record)["logins"] == 4  # two at home, two away
    # The tunnel between the agents is on a wire that takes no time: backoffs differ, and no more.
    assert body(record)["login_s"] > 0
    assert body(record)["away_login_s"] == pytest.approx(body(record)["login_s"], rel=0.05)
