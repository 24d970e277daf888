"""Attacks with real packets in the guest: each succeeds against one policy, and not another."""

from __future__ import annotations

import json

import pytest

from conftest import VIRTUAL, Qop

pytestmark = [pytest.mark.guest, pytest.mark.shareable]


@pytest.mark.parametrize(("attack", "check", "falls", "withstands"), [
    ("evil-twin", "evil twin reads nothing", "M1", "M5"),
    ("replay", "a frame that is sent again is not taken again", "P2", "M2")])
def test_an_attack_succeeds_where_protection_is_less(qop: Qop, attack: str, check: str, falls: str,
                                                     withstands: str) -> None:
    """Exactly its own check fails under one policy; under the other, all hold, that one too.

    A record that is good under a control is not counted, so the files are read as they are.
    """
    done = qop("run", "--out", "attack", "--scenarios", "N2", "--stream-bytes", "100k", *VIRTUAL,
               "--policies", f"{falls},{withstands}", "--fault", attack, "--repetitions", "1")
    assert done.returncode == 1
    records = [json.loads(file.read_text())
               for file in (qop.folder / "attack" / "records").glob("*.json")]
    evidence = {record["cell"]["policy"]: {entry["check"]: entry["ok"]
                                           for entry in record["evidence"]} for record in records}
    assert [name for name, ok in evidence[falls].items() if not ok] == [check], done.stdout
    assert all(evidence[withstands].values()) and check in evidence[withstands], done.stdout
