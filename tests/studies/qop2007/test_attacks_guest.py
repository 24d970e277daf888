"""Attacks with real packets in the guest: each succeeds against one policy, and not another."""

from __future__ import annotations

import json

import pytest

from conftest import PROJECT, VIRTUAL, Qop

pytestmark = [pytest.mark.guest, pytest.mark.shareable]


#: A mixed network whose station takes WPA3 or WPA2.
MIXED, MIXED_ID = PROJECT / "examples" / "wpa2-wpa3-sae.yml", "WPA2-WPA3-SAE"


@pytest.mark.parametrize(("attack", "check", "falls", "withstands"), [
    ("evil-twin", "evil twin cannot read traffic", "M1", "M5"),
    ("replay", "replayed frame is dropped", "P2", "M2"),
    ("downgrade", "passphrase is not guessed after a downgrade", MIXED_ID, "M3")])
def test_an_attack_succeeds_where_protection_is_less(qop: Qop, attack: str, check: str, falls: str,
                                                     withstands: str) -> None:
    """Exactly its own check fails under one policy; under the other, all hold, that one too.

    A record that is good under a control is not counted, so the files are read as they are.
    """
    done = qop("run", "--out", "attack", "--scenarios", "N2", "--stream-bytes", "100k", *VIRTUAL,
               *(["--policies", withstands, "--policy", str(MIXED)] if falls == MIXED_ID else
                 ["--policies", f"{falls},{withstands}"]), "--fault", attack, "--repetitions", "1")
    assert done.returncode == 1
    records = [json.loads(file.read_text())
               for file in (qop.folder / "attack" / "records").glob("*.json")]
    evidence = {record["cell"]["policy"]: {entry["check"]: entry["ok"]
                                           for entry in record["evidence"]} for record in records}
    assert [name for name, ok in evidence[falls].items() if not ok] == [check], done.stdout
    assert all(evidence[withstands].values()) and check in evidence[withstands], done.stdout
