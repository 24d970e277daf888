"""Tests of configurations: what is unknown, lacks or cannot be is refused in one line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kerberos_realms import Realms
from protocols.fields import ConfigError
from protocols.kerberos.config import load_config


@pytest.mark.parametrize(("path", "value", "says"), [
    ("suite", "yesterday", "suite: 'yesterday' is not one of era, today"),
    ("role", "king", "role: 'king' is not one of kdc"),
    ("client.initial", "hope", "initial: 'hope' is not one of password"),
    ("client.customers", 0, "customers: a whole number from 1 to 10000 is needed"),
    ("client.identity", "nobody", "uses: has no identity nobody; add it"),
    ("client.secret", "nobody", "has no secret of nobody; add it"),
    ("processor.speed", 0, "speed: a number from 1e-06"),
    ("costs.des-operation", [1], "costs: a list of 2 is needed"),
    ("spare", 1, "unknown: spare"), ("client.spare", 1, "client: unknown: spare"),
    ("keys", "nowhere.json", "nowhere.json: No such file")])
def test_what_cannot_be_is_refused(path: str, value: Any, says: str, tmp_path: Path) -> None:
    """One line with the place, whatever is wrong."""
    document = Realms(tmp_path, "m-standard").documents["client"]
    *places, name = path.split(".")
    inner = document
    for place in places:
        inner = inner.setdefault(place, {})
    inner[name] = value
    file = tmp_path / "client.json"
    file.write_text(json.dumps(document))
    with pytest.raises(ConfigError) as refused:
        load_config(file)
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)
