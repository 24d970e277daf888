"""Lists of IKE proposals that differ between the ends, measured in the guest."""

from __future__ import annotations

import pytest

from conftest import PROJECT, VIRTUAL, Qop, checks

pytestmark = [pytest.mark.guest, pytest.mark.shareable]

CELL = [*VIRTUAL, "--policy", str(PROJECT / "examples" / "ikev2-proposals.yml"),
        "--policies", "P3", "--scenarios", "N2", "--repetitions", "1", "--stream-bytes", "100k"]


def test_ends_with_lists_agree_on_what_the_policy_says(qop: Qop) -> None:
    """All of the node's list is offered; the gateway takes the first of its own."""
    done, records = qop.run("lists", *CELL)
    assert done.returncode == 0, done.stdout
    [record] = [each for each in records.values() if each.cell["policy"] == "IKEv2-LISTS"]
    found = checks(record)
    assert found["IKE proposals offered"].count("aes128-sha256-modp2048") == 2
    assert found["IKE proposal"].startswith("aes128-sha256-ecp256 chosen")


def test_gateway_takes_the_first_esp_proposal_that_is_offered(qop: Qop) -> None:
    """Both kernels have it, and IKE is in the group P-521. A control of each end has another."""
    cell = [*VIRTUAL, "--policy", str(PROJECT / "examples" / "ikev2-esp-proposals.yml"),
            "--scenarios", "N2", "--repetitions", "1", "--stream-bytes", "100k"]
    done, records = qop.run("esp", *cell, "--policies", "P3")
    assert done.returncode == 0, done.stdout
    [record] = [each for each in records.values() if each.cell["policy"] == "IKEv2-ESP-LISTS"]
    assert checks(record)["IKE proposal"].startswith("aes256-sha512-ecp521 chosen")
    assert checks(record)["ESP transforms in the kernel"].startswith("4 of 4 SAs")
    for control in ("other-esp-preference", "other-esp-offer"):
        _, records = qop.run(control, *cell, "--policies", "P3", "--fault", control)
        [record] = [each for each in records.values() if each.cell["policy"] == "IKEv2-ESP-LISTS"]
        assert [entry.check for entry in record.evidence if not entry.ok] == [
            "ESP transforms in the kernel"]


@pytest.mark.parametrize(("control", "fails"), [
    ("one-proposal", ["IKE proposals offered"]), ("other-preference", ["IKE proposal"])])
def test_another_list_at_either_end_is_found(control: str, fails: list[str], qop: Qop) -> None:
    done, records = qop.run(control, *CELL, "--fault", control)
    assert done.returncode == 1
    [record] = [each for each in records.values() if each.cell["policy"] == "IKEv2-LISTS"]
    assert [entry.check for entry in record.evidence if not entry.ok] == fails
