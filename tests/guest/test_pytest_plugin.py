"""The plug-in for pytest, installed in an environment of another project's."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

import shared
from conftest import PATIENCE_S, PROJECT

PLUGIN, EXAMPLE = PROJECT / "integrations/pytest", PROJECT / "examples/pytest-radios"
_FAILING = """
def test_here_is_no_radio():
    import os
    assert not os.path.exists("/sys/class/ieee80211/phy0")

def test_radio_is_missing(radios):
    print("printed in the machine")
    assert radios[0].run("ls", "/sys/class/net").stdout == "nothing"

def test_machine_has_no_other_network(radios):
    assert "wlan1" in radios[0].run("ls", "/sys/class/net").stdout
"""


def environment_of_its_own() -> Path:
    """Return the Python of a fresh environment with the plug-in, made once in a test run."""

    def make() -> Path:
        folder = shared.folder("pytest-plugin")
        source = shutil.copytree(PLUGIN, folder / "source")
        subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
        python = folder / "venv/bin/python"
        subprocess.run([python, "-m", "pip", "install", "--quiet", source], check=True)
        return python

    return shared.once("pytest-plugin-python", make)


def run_pytest(folder: Path, *arguments: str, variables: Mapping[str, str]
               ) -> subprocess.CompletedProcess[str]:
    """Run the other project's pytest, which finds nothing of this checkout by itself."""
    environment = {name: value for name, value in os.environ.items()
                   if not name.startswith(("QOP_", "PYTEST_", "PYTHONPATH"))
                   or name == "QOP_CACHE"}
    return subprocess.run(
        [environment_of_its_own(), "-m", "pytest", "-p", "no:cacheprovider", "-v", *arguments],
        cwd=folder, env=environment | dict(variables), capture_output=True, text=True, check=False,
        timeout=PATIENCE_S)


_FAKE_QOP = """#!/bin/sh
printf '%s ' "$@" >"$QOP_CALLED"
while [ "$1" != -- ]; do shift; done
shift
"$@"
"""


def run_without_machine(folder: Path, text: str, *arguments: str, qop: str = _FAKE_QOP
                        ) -> tuple[str, str]:
    """Run a test file with a program in place of qop, which runs the command here.

    Returns:
        What pytest prints, and the arguments of `qop`.
    """
    (folder / "test_it.py").write_text(text)
    program, called = folder / "checkout/qop", folder / "called"
    program.parent.mkdir()
    program.write_text(qop)
    program.chmod(0o755)
    environment = {name: value for name, value in os.environ.items()
                   if not name.startswith(("QOP_", "PYTEST_"))}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments], cwd=folder,
        env=environment | {"QOP_CHECKOUT": str(program.parent), "QOP_CALLED": str(called),
                           "PYTHONPATH": str(PLUGIN), "PYTEST_PLUGINS": "pytest_qop_radios"},
        capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    return done.stdout, called.read_text() if called.exists() else ""


_MARKED = """
import pytest

@pytest.mark.radios({mark})
def test_it(radios):
    assert [radio.namespace for radio in radios] == {namespaces}
"""


def test_mark_becomes_options_of_qop_radio(tmp_path: Path) -> None:
    text = _MARKED.format(mark="namespaces=['ap1', 'sta1'], channels=(1, 6), memory=700",
                          namespaces=["ap1", "sta1"])
    shown, called = run_without_machine(tmp_path, text)
    assert "1 passed" in shown, shown
    assert "--namespaces ap1,sta1 --channels 1,6 --memory 700 -- env " in called


@pytest.mark.parametrize(("mark", "message"), [
    ("3", "mark radios: its arguments have names; write for example count=3"),
    ("namespaces='ap1'", "mark radios: namespaces is no list; write for example namespaces=["),
    ("channels=1", "mark radios: channels is no list"),
    ("number=3", "mark radios: number is no argument; choose from count")])
def test_wrong_mark_fails_the_test_alone(mark: str, message: str, tmp_path: Path) -> None:
    """It takes no effect, so the test is not run."""
    shown, called = run_without_machine(tmp_path, _MARKED.format(mark=mark, namespaces=[]))
    assert message in shown
    assert "1 failed" in shown
    assert not called


@pytest.mark.parametrize("arguments", [[], ["-n", "1"]])
def test_options_of_xdist_in_the_project_are_no_obstacle(arguments: list[str],
                                                         tmp_path: Path) -> None:
    """They are for the tests outside of machines."""
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = --dist loadfile -n 2\n")
    shown, _ = run_without_machine(tmp_path, "def test_it(radios):\n    pass\n", *arguments)
    assert "1 passed" in shown, shown


def test_machine_that_ends_early_is_a_failure_of_its_test(tmp_path: Path) -> None:
    """With its output, of any bytes, and without half a report."""
    qop = _FAKE_QOP.replace('"$@"\n', """
printf '\\377 killed'
for word; do case $word in QOP_RADIOS_REPORTS=*) printf '{"half' >"${word#*=}";; esac; done
exit 9
""").replace('printf \'%s \' "$@" >"$QOP_CALLED"', "")
    shown, _ = run_without_machine(tmp_path, "def test_it(radios):\n    pass\n", qop=qop)
    assert "ended with status 9" in shown
    assert "killed" in shown
    assert "1 failed" in shown


@pytest.mark.guest
@pytest.mark.shareable
def test_example_passes_in_an_environment_of_its_own(tmp_path: Path) -> None:
    project = shutil.copytree(EXAMPLE, tmp_path / "project")
    done = run_pytest(project, variables={"QOP_CHECKOUT": str(PROJECT)})
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"\b3 passed\b", done.stdout)
    assert "Unknown" not in done.stdout  # the mark is registered


@pytest.mark.guest
@pytest.mark.shareable
def test_failure_in_the_machine_is_one_here(tmp_path: Path) -> None:
    """The failed test's reason and output come back, and other tests run where they are."""
    (tmp_path / "test_it.py").write_text(_FAILING)
    done = run_pytest(tmp_path, variables={"QOP_CHECKOUT": str(PROJECT)})
    assert done.returncode == 1, done.stdout + done.stderr
    assert re.search(r"1 failed, 2 passed\b", done.stdout)
    assert "printed in the machine" in done.stdout
    assert "== 'nothing'" in done.stdout


@pytest.mark.guest
@pytest.mark.shareable
@pytest.mark.parametrize(("mark", "variables", "text"), [
    ("", {}, "set QOP_CHECKOUT to a checkout of it, or QOP_IMAGE to its container image"),
    ("", {"QOP_CHECKOUT": "/nowhere"}, "QOP_CHECKOUT=/nowhere: has no program qop"),
    ("@pytest.mark.radios(number=3)", {"QOP_CHECKOUT": str(PROJECT)},
     "mark radios: number is no argument; choose from count"),
    ("@pytest.mark.radios(medium='nosuch')", {"QOP_CHECKOUT": str(PROJECT)},
     "--medium nosuch: no such file")])
def test_machine_that_cannot_be_made_is_a_failure(
        tmp_path: Path, mark: str, variables: dict[str, str], text: str) -> None:
    """What was asked for and is missing is no skipped test."""
    (tmp_path / "test_it.py").write_text(f"import pytest\n{mark}\ndef test_it(radios):\n    pass\n")
    done = run_pytest(tmp_path, variables=variables)
    assert done.returncode == 1
    assert text in done.stdout, done.stdout
