"""Every check of the study has a control that fails it, or the documentation says why it has none.

What checks are called is read from the source: one that is added without a control is found out.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import get_args

import pytest

from conftest import PROJECT
from policies.dot1x import EapMethod, Inner
from policies.link import Cipher
from studies.qop2007.controls import FAULTS

PAGE = (PROJECT / "docs" / "proof.md").read_text()
#: Modules that make checks of what others call them by, or for reports without a measurement.
OTHERS = {"measure/judging.py", "studies/qop2007/made_up.py"}
#: What names that are put together may come to, by the expression in the source.
COMPOSED = {
    "measure/evidence.py": {
        "f'{layer.cipher} on every data frame'":
            [f"{cipher} on every data frame" for cipher in get_args(Cipher)],
        "f'EAP method {layer.eap}'": [f"EAP method {method}" for method in get_args(EapMethod)]},
    "measure/macsec.py": {
        "'MACsec encrypts' if layer.is_encrypted else 'MACsec leaves frames in clear'":
            ["MACsec encrypts", "MACsec leaves frames in clear"]},
    "measure/mobility.py": {
        "name": ["registered at home", "registered with the foreign agent",
                 "registered after the move"],
        "f'{kind} between the agents'": ["ESP between the agents", "IP-in-IP between the agents"]},
    "measure/tunnels.py": {
        "'mutual authentication' if is_mutual else 'server shows its certificate'":
            ["mutual authentication", "server shows its certificate"],
        "f'TLS {version}'": ["TLS 1.2", "TLS 1.3"],
        "f'inner method {name}'": [f"inner method {inner}" for inner in get_args(Inner)]},
    "studies/qop2007/evidence.py": {
        # Of any check that is here; of one authentication after the other.
        "f'{name} (earlier authentications)'": ["IKE proposal (earlier authentications)"]},
}


def names() -> Iterator[str]:
    """What the study's checks may be called, read from the modules that make them."""
    for folder in ("measure", "studies/qop2007"):
        for path in sorted((PROJECT / folder).glob("*.py")):
            module = path.relative_to(PROJECT).as_posix()
            for node in ast.walk(ast.parse(path.read_text())) if module not in OTHERS else ():
                if isinstance(node, ast.Call) and ast.unparse(node.func) == "Check":
                    said = node.args[0]
                    made = [said.value] if isinstance(said, ast.Constant) \
                        else COMPOSED[module][ast.unparse(said)]
                    yield from (f"WireGuard: {name}" if path.stem == "wireguard" else name
                                for name in made)


NAMES = sorted(set(names()))
_, _, TABLE = PAGE.partition("### qop2007: what each check is failed by")
ROWS = {columns[1].strip(): columns[3].strip() for line in TABLE.partition("\n###")[0].splitlines()
        if len(columns := line.split("|")) == 5}
_, _, WITHOUT = PAGE.partition("## What no control has failed yet")


def test_names_are_found() -> None:
    """The reading is not of nothing: checks of each layer are among them."""
    assert len(NAMES) > 80
    assert {"captures are complete", "no 802.1X", "WireGuard: carried", "SAE group",
            "evil twin reads nothing", "MOBIKE"} <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_each_check_has_a_control_or_a_reason(name: str) -> None:
    """Its row names controls that there are, which say that they fail it; or it is explained."""
    under = re.findall(r"`([^`]+)`", ROWS.get(name, ""))
    if under:
        assert all(name in FAULTS[control].fails for control in under)
    else:
        assert f"*{name}*" in " ".join(WITHOUT.split()), "neither a control nor a reason"


def test_each_control_that_fails_a_check_is_in_its_row() -> None:
    """By control its checks, by check its controls: both tables of the page say the same."""
    for control, fault in FAULTS.items():
        for name in fault.fails if fault.on else ():
            assert f"`{control}`" in ROWS[name], f"{name} does not name {control}"
