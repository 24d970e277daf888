"""Daemons of two Debian releases in one run: what each changes, and an old one in place of new."""

from __future__ import annotations

import pytest

from conftest import VIRTUAL, Qop, checks
from measure.checks.release import NAME
from measure.records.record import Record

pytestmark = [pytest.mark.guest, pytest.mark.shareable]

#: Checks of the packets' sizes.
COMPUTED = ("EAP packets as computed", "RADIUS packets as computed")
SMALL = [*VIRTUAL, "--scenarios", "N2", "--repetitions", "1"]


def measure(qop: Qop, folder: str, *options: str) -> dict[str, Record]:
    """Return the records of a run of the study, by release and policy."""
    qop("run", "releases", "--out", folder, *SMALL, *options)
    return {"-".join((record.cell.get("release", "bookworm"), record.cell["policy"])): record
            for record in qop.records(folder).values()}


def test_daemon_of_another_release_is_the_one_asked_for(shared_qop: Qop) -> None:
    """FreeRADIUS' own change is there, and the station's hello is that of its release."""
    before = measure(shared_qop, "one-release", "--policies", "P8", "--release", "bookworm")
    mixed = measure(shared_qop, "one-daemon", "--policies", "P8", "--release", "bookworm",
                    "--daemon", "freeradius=trixie")
    [plain], [other] = before.values(), mixed.values()
    assert (plain.status, other.status) == ("ok", "ok"), (plain.reason, other.reason)
    assert "freeradius 3.2.1" in checks(plain)[NAME]
    assert "freeradius 3.2.7" in checks(other)[NAME] and "of trixie" in checks(other)[NAME]
    assert other.environment["daemons"] == {"freeradius": "trixie"}
    assert plain.measured is not None and other.measured is not None
    facts = [record["facts"] for record in (plain.measured, other.measured)]
    assert [fact["reply_attributes"]["value"].startswith("Message-Authenticator")
            for fact in facts] == [False, True]
    assert facts[0]["hello_bytes"]["value"] == facts[1]["hello_bytes"]["value"]
    assert {*COMPUTED} <= checks(plain).keys() & checks(other).keys()


def test_packets_of_mixed_releases_are_computed(shared_qop: Qop) -> None:
    """On Debian 12 with OpenSSL of Debian 13, M17 works, and smaller fragments fail both checks."""
    options = ["--release", "bookworm", "--daemon", "freeradius/openssl=trixie", "--daemon",
               "wpa_supplicant/openssl=trixie", "--policies"]
    for record in measure(shared_qop, "mixed-openssl", *options, "M5,M17").values():
        assert record.status == "ok", record.reason
        assert {*COMPUTED} <= checks(record).keys()
    shared_qop("run", "--out", "fragments", *SMALL, "--stream-bytes", "100k", *options, "M5",
               "--fault", "smaller-fragments")
    [record] = shared_qop.records("fragments").values()
    assert {check.check for check in record.evidence if not check.ok} == {*COMPUTED}


def test_openssl_alone_changes_the_stations_hello(shared_qop: Qop) -> None:
    """The station's program stays, with the library of the other release."""
    records = measure(shared_qop, "library", "--policies", "P8", "--release", "bookworm",
                      "--daemon", "wpa_supplicant/openssl=trixie")
    [record] = records.values()
    assert record.status == "ok", record.reason
    assert "wpa_supplicant 2:2.10-12" in checks(record)[NAME]
    assert "with OpenSSL 3.5." in checks(record)[NAME]
    assert record.measured is not None
    assert record.measured["facts"]["hello_bytes"]["value"] == "199"


def test_openssl_alone_serves_each_nodes_charon(shared_qop: Qop) -> None:
    """Every charon has a /run of its own in the root with the other OpenSSL, too."""
    records = measure(shared_qop, "charon", "--policies", "M11", "--release", "bookworm",
                      "--daemon", "charon/openssl=trixie")
    [record] = records.values()
    assert record.status == "ok", record.reason
    assert "charon 5.9.8" in checks(record)[NAME] and "with OpenSSL 3.5." in checks(record)[NAME]


def test_other_study_measures_both_releases_in_one_folder(shared_qop: Qop) -> None:
    """Each repetition ran daemons of its own release, and the run's table names it."""
    shared_qop("run", "lecturehall", "--out", "both", "--release", "bookworm,trixie", "--only",
               "stations=1", "--policies", "M2", "--repetitions", "1", *VIRTUAL)
    records = shared_qop.records("both")
    assert {record.cell["release"] for record in records.values()} == {"bookworm", "trixie"}
    for record in records.values():
        assert record.status == "ok", record.reason
        assert record.environment["debian"] == record.cell["release"]
        assert checks(record)[NAME].startswith(f"{record.cell['release']}: hostapd ")
    table = shared_qop("report", "both", "--format", "csv").stdout
    assert ",bookworm," in table and ",trixie," in table
