"""Refused groups and anti-clogging tokens of SAE, measured in the guest."""

from __future__ import annotations

import pytest

from conftest import PROJECT, VIRTUAL, Qop, checks
from measure.records.record import Record
from policies import load_policy
from policies.alternatives import ACCEPTED, ANTI_CLOGGING, CHECKS, STATION_GROUPS

pytestmark = [pytest.mark.guest, pytest.mark.shareable]

FURTHER = CHECKS[STATION_GROUPS]
GROUPS = str(PROJECT / "examples" / "wpa3-sae-groups.yml")
SMALL = [*VIRTUAL, "--policies", "M3", "--repetitions", "1", "--stream-bytes", "100k"]


def record_of(records: dict[str, Record], policy: str) -> Record:
    """The only record of a policy."""
    [record] = [each for each in records.values() if each.cell["policy"] == policy]
    return record


def test_refused_group_is_tried_at_each_access_point(qop: Qop) -> None:
    """Before and after a move, the first commit is refused, and another group is agreed."""
    done, records = qop.run("groups", *SMALL, "--policy", GROUPS, "--scenarios", "E1")
    assert done.returncode == 0, done.stdout
    found = checks(record_of(records, "WPA3-SAE-GROUPS"))
    assert found["SAE groups tried"].startswith(
        "[20, 19] and [20, 19] in the station's commits, [20] and [20] refused by status 77")
    assert found["SAE group"].startswith("group [19] in the commits")
    assert found[FURTHER].count("group [21] in the commits, 2 sides confirm, let in") == 2


#: Policies of the examples, with the check of an attempt that no authentication shows.
SHOWN = {"wpa3-sae-anti-clogging": CHECKS[ANTI_CLOGGING], "wpa2-wpa3-sae": CHECKS[ACCEPTED]}
#: SAE element and further fields of a policy, and the number of groups that are refused first.
TOKENS = {"TOKEN-H2E": ("h2e", "", 0), "TOKEN-LOOP": ("loop", "", 0),
          "TOKEN-GROUPS": ("h2e", ", station_groups: [20, 19]", 1)}


@pytest.fixture(scope="module")
def at_home(shared_qop: Qop) -> dict[str, Record]:
    """A repetition of each policy of `SHOWN` and `TOKENS`, and of M3, by policy."""
    files = [PROJECT / "examples" / f"{name}.yml" for name in SHOWN]
    for name, (element, groups, _) in TOKENS.items():
        files.append(shared_qop.folder / f"{name}.yml")
        files[-1].write_text(
            f"id: {name}\nname: {name}\nlayers: {{link: {{cipher: CCMP, keys: sae, pmf: 2, "
            f"sae: {element}{groups}, options: {{hostapd: {{anti_clogging_threshold: 0}}}}}}}}\n")
    done, records = shared_qop.run("sae", *SMALL, *(
        word for file in files for word in ("--policy", str(file))), "--scenarios", "N2")
    assert done.returncode == 0, done.stdout
    return {record.cell["policy"]: record for record in records.values()}


@pytest.mark.parametrize("policy", SHOWN)
def test_attempt_shows_what_no_authentication_does(at_home: dict[str, Record],
                                                   policy: str) -> None:
    """Tokens under load, and another key management."""
    record = at_home[load_policy(PROJECT / "examples" / f"{policy}.yml").id]
    assert SHOWN[policy] in checks(record) and not record.unchecked


@pytest.mark.parametrize("policy", TOKENS)
def test_access_point_asks_for_anti_clogging_token(at_home: dict[str, Record],
                                                   policy: str) -> None:
    """With a threshold of 0, hostapd asks every station for a token, also in another group."""
    text = checks(at_home[policy])["SAE exchange"]
    refused = TOKENS[policy][-1]
    assert f"1 asked for a token, {refused} refused a group, 0 have another status" in text
    assert "0 asked for a token" in checks(at_home["M3"])["SAE exchange"]
