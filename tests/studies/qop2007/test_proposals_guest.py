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


@pytest.mark.parametrize(("control", "fails"), [
    ("one-proposal", ["IKE proposals offered"]), ("other-preference", ["IKE proposal"])])
def test_another_list_at_either_end_is_found(control: str, fails: list[str], qop: Qop) -> None:
    done, records = qop.run(control, *CELL, "--fault", control)
    assert done.returncode == 1
    [record] = [each for each in records.values() if each.cell["policy"] == "IKEv2-LISTS"]
    assert [entry.check for entry in record.evidence if not entry.ok] == fails
