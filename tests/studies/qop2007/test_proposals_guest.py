"""Lists of IKE proposals that differ between the ends, measured in the guest."""

from __future__ import annotations

import pytest

from conftest import PROJECT, VIRTUAL, Qop, checks
from policies.alternatives import CHECKS, ESP_GROUP, ESP_OFFERED

pytestmark = [pytest.mark.guest, pytest.mark.shareable]

FURTHER = CHECKS[ESP_OFFERED]
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
    assert checks(record)[FURTHER].count("4 of 4 SAs in the kernels have it, let in") == 4
    for control, fails in (("other-esp-preference", "ESP transforms in the kernel"),
                           ("other-esp-offer", "ESP transforms in the kernel"),
                           ("fewer-esp-offers", FURTHER), ("fewer-esp-proposals", FURTHER)):
        _, records = qop.run(control, *cell, "--policies", "P3", "--fault", control)
        [record] = [each for each in records.values() if each.cell["policy"] == "IKEv2-ESP-LISTS"]
        assert [entry.check for entry in record.evidence if not entry.ok] == [fails]


@pytest.mark.parametrize("proposals", [
    "", ("ike: 2\nmobike: 1\nike_proposal: aes128-sha256-modp2048\n"
     "esp_proposal: aes128-sha256-modp2048")])
def test_keys_of_esp_are_renewed_in_the_group(proposals: str, qop: Qop) -> None:
    """Messages have room for public keys, and charon names the group."""
    file = PROJECT / "examples" / "ikev2-forward-secrecy.yml"
    if proposals:
        file = qop.folder / "own.yml"
        lines = proposals.replace("\n", "\n    ")
        file.write_text(f"id: IKEv2-PFS\nname: x\nlayers:\n  ipsec:\n    {lines}\n")
    cell = [*VIRTUAL, "--policy", str(file), "--policies", "P3", "--scenarios", "N2",
            "--repetitions", "1", "--stream-bytes", "100k"]
    done, records = qop.run("renewed", *cell)
    assert done.returncode == 0, done.stdout
    [record] = [each for each in records.values() if each.cell["policy"] == "IKEv2-PFS"]
    assert not record.unchecked and "renew the keys" in checks(record)[CHECKS[ESP_GROUP]]
    if not proposals:
        _, records = qop.run("kept", *cell, "--fault", "no-forward-secrecy")
        [record] = [each for each in records.values() if each.cell["policy"] == "IKEv2-PFS"]
        assert [entry.check for entry in record.evidence if not entry.ok] == [CHECKS[ESP_GROUP]]


@pytest.mark.parametrize(("control", "fails"), [
    ("one-proposal", ["IKE proposals offered"]), ("other-preference", ["IKE proposal"]),
    ("fewer-ike-proposals", [FURTHER])])
def test_another_list_at_either_end_is_found(control: str, fails: list[str], qop: Qop) -> None:
    done, records = qop.run(control, *CELL, "--fault", control)
    assert done.returncode == 1
    [record] = [each for each in records.values() if each.cell["policy"] == "IKEv2-LISTS"]
    assert [entry.check for entry in record.evidence if not entry.ok] == fails
