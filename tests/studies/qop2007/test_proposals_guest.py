"""Lists of IKE proposals that differ between the ends, measured in the guest."""

from __future__ import annotations

import pytest

from conftest import PROJECT, VIRTUAL, Qop, checks
from policies.alternatives import CHECKS, ESP_GROUP, ESP_OFFERED

pytestmark = [pytest.mark.guest, pytest.mark.shareable]

FURTHER = CHECKS[ESP_OFFERED]
#: Examples with the policy that each of them has.
EXAMPLES = {"IKEv2-LISTS": "ikev2-proposals", "IKEv2-ESP-LISTS": "ikev2-esp-proposals",
            "IKEv2-PFS": "ikev2-forward-secrecy"}
#: A policy whose messages have a public key of the group modp2048.
MODP = """id: IKEv2-MODP
name: x
layers:
  ipsec: {ike: 2, mobike: 1, ike_proposal: aes128-sha256-modp2048,
          esp_proposal: aes128-sha256-modp2048}
"""


@pytest.fixture(scope="module")
def tunnels(shared_qop: Qop) -> dict[str, dict[str, str]]:
    """The checks that hold of each policy, all of which are proven."""
    own = shared_qop.folder / "modp.yml"
    own.write_text(MODP)
    files = [str(PROJECT / "examples" / f"{name}.yml") for name in EXAMPLES.values()]
    done, records = shared_qop.run(
        "proposals", *VIRTUAL, "--policies", "P3", "--scenarios", "N2", "--repetitions", "1",
        "--stream-bytes", "100k", *(word for file in (*files, str(own))
                                    for word in ("--policy", file)))
    assert done.returncode == 0, done.stdout
    assert not any(record.unchecked for record in records.values()
                   if record.cell["policy"] in ("IKEv2-PFS", "IKEv2-MODP"))
    return {record.cell["policy"]: checks(record) for record in records.values()}


def test_ends_with_lists_agree_on_what_the_policy_says(tunnels: dict[str, dict[str, str]]) -> None:
    """All of the node's list is offered; the gateway takes the first of its own."""
    found = tunnels["IKEv2-LISTS"]
    assert found["IKE proposals offered"].count("aes128-sha256-modp2048") == 2
    assert found["IKE proposal"].startswith("aes128-sha256-ecp256 chosen")


def test_gateway_takes_the_first_esp_proposal_that_is_offered(
        tunnels: dict[str, dict[str, str]]) -> None:
    """Both kernels have it, and IKE is in the group P-521."""
    found = tunnels["IKEv2-ESP-LISTS"]
    assert found["IKE proposal"].startswith("aes256-sha512-ecp521 chosen")
    assert found["ESP transforms in the kernel"].startswith("4 of 4 SAs")
    assert found[FURTHER].count("4 of 4 SAs in the kernels have it, let in") == 4


@pytest.mark.parametrize("policy", ["IKEv2-PFS", "IKEv2-MODP"])
def test_keys_of_esp_are_renewed_in_the_group(policy: str,
                                              tunnels: dict[str, dict[str, str]]) -> None:
    """Messages have room for public keys, and charon names the group."""
    assert "renew the keys" in tunnels[policy][CHECKS[ESP_GROUP]]
