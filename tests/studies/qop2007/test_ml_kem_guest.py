"""ML-KEM in IKEv2, measured in the guest: its key passes, and its answer."""

from __future__ import annotations

import pytest

from conftest import VIRTUAL, Qop, checks
from measure.records.record import Record

pytestmark = [pytest.mark.guest, pytest.mark.shareable]

SMALL = [*VIRTUAL, "--scenarios", "N2", "--repetitions", "1", "--stream-bytes", "100k"]


@pytest.fixture(scope="module", params=["bookworm", "trixie"])
def exchanges(shared_qop: Qop, request: pytest.FixtureRequest) -> dict[str, Record]:
    """Measure ML-KEM-768 after x25519 and alone, and a policy without, on each release."""
    done, records = shared_qop.run(f"ml-kem-{request.param}", *SMALL, "--policies",
                                   "P1,M12,M12-kem", "--release", request.param)
    assert done.returncode == 0, done.stderr
    measured = {record.cell["policy"]: record for record in records.values()}
    if measured["M12"].status == "skipped":
        assert measured["P1"].status == "ok"
        pytest.skip(f"the image cannot be built here: {measured['M12'].reason}")
    return measured


def test_keys_of_ml_kem_pass(exchanges: dict[str, Record]) -> None:
    """In an exchange of its own after x25519, or in the first one in place of it."""
    hybrid, alone = checks(exchanges["M12"]), checks(exchanges["M12-kem"])
    assert hybrid["ISAKMP packets"].startswith("6, 6 expected")
    assert hybrid["ML-KEM-768 is exchanged"].startswith("IKE_INTERMEDIATE")
    assert alone["ISAKMP packets"].startswith("4, 4 expected")
    assert alone["ML-KEM-768 is exchanged"].startswith("IKE_SA_INIT")


def test_radius_goes_inside_tls_behind_the_access_point(exchanges: dict[str, Record]) -> None:
    """As M5-radsec has it, which M12 builds on; both ends of the connection are known."""
    held = checks(exchanges["M12"])
    assert " of RADIUS inside TLS 1.3 (AES-256-GCM)" in held["RADIUS inside TLS"]
    assert held["RadSec: mutual certificates"].endswith("ha-a to ap-a, ap-a to its server")


def test_an_image_of_its_own(exchanges: dict[str, Record]) -> None:
    """All else is measured as ever: with Debian's daemons, on the image of all."""
    images = {policy: record.environment["image"] for policy, record in exchanges.items()}
    assert images["M12"] == images["M12-kem"] != images["P1"]
