"""Modules that a test network loaded on a host: unloaded afterwards, unless somebody uses them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from topologies import kernel_modules
from topologies.kernel_modules import _Link, unload_new_modules

DUMMY0 = _Link("dummy0", "dummy", is_up=False)


@pytest.mark.parametrize(("before", "links", "unloaded"), [
    ([], [[DUMMY0]], ["dummy"]),
    ([], [[DUMMY0], [_Link("veth0", "veth", is_up=True)]], ["dummy"]),
    (["dummy"], [[DUMMY0]], []),
    ([], [[_Link("dummy0", "dummy", is_up=True)]], []),
    ([], [[DUMMY0], [_Link("of-another-program", "dummy", is_up=False)]], []),
])
def test_only_a_new_and_unused_module_is_unloaded(
        before: list[str], links: list[list[_Link]], unloaded: list[str], tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch) -> None:
    commands: list[list[str]] = []
    monkeypatch.setattr(kernel_modules, "_MODULES", tmp_path)
    monkeypatch.setattr(kernel_modules, "call_in_networks", lambda _: links)
    monkeypatch.setattr(subprocess, "run", lambda command, **_: commands.append(command))
    for name in before:
        (tmp_path / name).mkdir()
    with unload_new_modules():
        (tmp_path / "dummy").mkdir(exist_ok=True)
        (tmp_path / "dummy/initstate").write_text("live\n")
    assert [command[-1] for command in commands] == unloaded


def test_module_that_the_kernel_has_built_in_stays(tmp_path: Path,
                                                   monkeypatch: pytest.MonkeyPatch) -> None:
    """Parameters of such a module may appear, but it has no state."""
    monkeypatch.setattr(kernel_modules, "_MODULES", tmp_path)
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: pytest.fail("was unloaded"))
    with unload_new_modules():
        (tmp_path / "ifb").mkdir()
