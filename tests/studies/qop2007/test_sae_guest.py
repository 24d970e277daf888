"""Refused groups and anti-clogging tokens of SAE, measured in the guest."""

from __future__ import annotations

from pathlib import Path

import pytest

from conftest import PROJECT, VIRTUAL, Qop, checks
from measure.records.record import Record
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


@pytest.mark.parametrize(("control", "fails"), [
    ("one-sae-group", ["SAE groups tried"]),
    ("first-sae-group", ["SAE group", "SAE groups tried"]),
    ("fewer-station-groups", [FURTHER]), ("fewer-access-point-groups", [FURTHER])])
def test_other_groups_at_either_end_are_found(control: str, fails: list[str], qop: Qop) -> None:
    done, records = qop.run(control, *SMALL, "--policy", GROUPS, "--scenarios", "N2",
                            "--fault", control)
    assert done.returncode == 1
    assert [entry.check for entry in record_of(records, "WPA3-SAE-GROUPS").evidence
            if not entry.ok] == fails


@pytest.mark.parametrize(("policy", "name", "control"), [
    ("wpa3-sae-anti-clogging", CHECKS[ANTI_CLOGGING], "later-tokens"),
    ("wpa2-wpa3-sae", CHECKS[ACCEPTED], "one-key-management")])
def test_attempt_shows_what_no_authentication_does(policy: str, name: str, control: str,
                                                   qop: Qop) -> None:
    """Tokens under load, and another key management. Each control fails its check alone."""
    given = [*SMALL, "--policy", str(PROJECT / "examples" / f"{policy}.yml"), "--scenarios", "N2"]
    done, records = qop.run("shown", *given)
    assert done.returncode == 0, done.stdout
    [record] = [each for each in records.values() if each.cell["policy"] != "M3"]
    assert name in checks(record) and not record.unchecked
    done, records = qop.run(control, *given, "--fault", control)
    assert done.returncode == 1
    [record] = [each for each in records.values() if each.cell["policy"] != "M3"]
    assert [entry.check for entry in record.evidence if not entry.ok] == [name]


@pytest.mark.parametrize(("element", "groups", "refused"), [
    ("h2e", "", 0), ("loop", "", 0), ("h2e", ", station_groups: [20, 19]", 1)])
def test_access_point_asks_for_anti_clogging_token(element: str, groups: str, refused: int,
                                                   qop: Qop, tmp_path: Path) -> None:
    """With a threshold of 0, hostapd asks every station for a token, also in another group."""
    policy = tmp_path / "token.yml"
    policy.write_text(
        f"id: TOKEN\nname: SAE with tokens\nlayers: {{link: {{cipher: CCMP, keys: sae, pmf: 2, "
        f"sae: {element}{groups}, options: {{hostapd: {{anti_clogging_threshold: 0}}}}}}}}\n")
    done, records = qop.run("token", *SMALL, "--policy", str(policy), "--scenarios", "N2")
    assert done.returncode == 0, done.stdout
    text = checks(record_of(records, "TOKEN"))["SAE exchange"]
    assert f"1 asked for a token, {refused} refused a group, 0 have another status" in text
    assert "0 asked for a token" in checks(record_of(records, "M3"))["SAE exchange"]
