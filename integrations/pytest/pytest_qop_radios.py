"""Give pytest tests emulated 802.11 radios, by the fixture `radios`.

This plug-in is for other projects whose tests need radios. A test with the fixture runs in a
User-Mode Linux machine with the Python, packages and files of the caller, and gets a list of
`Radio`. The test's process starts `qop radio`, whose command is pytest with this one test. The
result comes back in a file and is reported as usual. The variable QOP_CHECKOUT names a checkout of
qop, QOP_IMAGE its container image.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

#: Variable of the pytest inside a machine: the file for its reports.
INSIDE = "QOP_RADIOS_REPORTS"
#: Options of `qop radio` that a mark may give, by the mark's argument.
_OPTIONS = {"count": "-n", "clock": "--clock", "medium": "--medium", "memory": "--memory"}
_LISTS = {"namespaces": "--namespaces", "channels": "--channels"}


@dataclass(frozen=True)
class Radio:
    """A radio of the machine.

    Attributes:
        interface: Name of the radio's interface, such as wlan0.
        namespace: The network namespace that has the radio, "" for that of the test itself.
    """

    interface: str
    namespace: str = ""

    def command(self, argv: Sequence[str]) -> list[str]:
        """Return a command that runs `argv` in the namespace of the radio."""
        return [*(["ip", "netns", "exec", self.namespace] if self.namespace else []), *argv]

    def run(self, *argv: str, **settings: Any) -> subprocess.CompletedProcess[str]:
        """Run a program to its end in the namespace of the radio, and return its output.

        Args:
            argv: The program and its arguments.
            settings: Further arguments of `subprocess.run`; an exit status other than 0 raises
                CalledProcessError unless `check` is false.
        """
        settings = {"check": True, "text": True, "capture_output": True, **settings}
        return subprocess.run(self.command(argv), **settings)  # noqa: PLW1510 - it is in them

    def start(self, *argv: str, **settings: Any) -> subprocess.Popen[str]:
        """Start a program in the namespace of the radio. It ends with the machine at the latest."""
        return subprocess.Popen(self.command(argv), **{"text": True, **settings})


@pytest.fixture
def radios(request: pytest.FixtureRequest) -> list[Radio]:
    """Return the radios of the machine in which the test runs.

    The mark `radios(count=2, namespaces=["ap1", "sta1"], clock="virtual", medium="802.11g",
    channels=[1], memory=MB)` describes the machine. Every argument may be left out.
    """
    namespaces = [*_mark_of(request.node).get("namespaces", ())]
    count = int(_mark_of(request.node).get("count", 0)) or max(2, len(namespaces))
    return [Radio(f"wlan{number}", namespaces[number] if number < len(namespaces) else "")
            for number in range(count)]


def pytest_configure(config: pytest.Config) -> None:
    """Register the mark `radios`."""
    config.addinivalue_line(
        "markers", "radios(count, namespaces, clock, medium, channels, memory): the machine in "
        "which a test with the fixture radios runs")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Run a test with the fixture `radios` in a machine, and pass on its reports."""
    del nextitem
    if "radios" not in getattr(item, "fixturenames", ()) or INSIDE in os.environ:
        return None
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    for report in _run_in_machine(item):
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """In the machine, append a report of the test to the file for reports."""
    if file := os.environ.get(INSIDE):
        document = _config.hook.pytest_report_to_serializable(config=_config, report=report)
        with Path(file).open("a") as reports:
            reports.write(json.dumps(document) + "\n")


def pytest_sessionstart(session: pytest.Session) -> None:
    """Note the configuration, which the hook for reports does not get."""
    global _config  # noqa: PLW0603 - pytest has one session in a process
    _config = session.config


_config: pytest.Config


def _mark_of(item: pytest.Item) -> dict[str, Any]:
    mark = item.get_closest_marker("radios")
    return dict(mark.kwargs) if mark else {}


def _run_in_machine(item: pytest.Item) -> Iterator[pytest.TestReport]:
    """Run one test in a machine, and yield its reports, or one of a failure to do so."""
    config = item.config
    with tempfile.TemporaryDirectory(prefix="radios-") as folder:
        file = Path(folder, "reports")
        # The options of pytest-xdist may be in `addopts`, so it is loaded, and has no workers.
        serial = ["-n", "0"] if config.pluginmanager.hasplugin("xdist") else []
        inner = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *serial,
                 "--rootdir", str(config.rootpath),
                 *(["-c", str(config.inipath)] if config.inipath else []), item.nodeid]
        try:
            argv = [*_find_qop(folder), *_make_options(item), "--",
                    "env", "-C", str(config.rootpath), f"{INSIDE}={file}", *inner]
        except LookupError as error:
            yield _failure(item, str(error))
            return
        done = subprocess.run(argv, capture_output=True, text=True, errors="replace", check=False,
                              stdin=subprocess.DEVNULL)
        # A machine that was killed may leave a part of a line.
        lines = file.read_text().split("\n")[:-1] if file.exists() else []
        reports = [config.hook.pytest_report_from_serializable(config=config, data=json.loads(line))
                   for line in lines]
        yield from reports
        if not any(report.when == "teardown" for report in reports):
            yield _failure(item, f"{shlex.join(argv)}\nended with status {done.returncode}\n"
                           f"{done.stdout}{done.stderr}")


def _make_options(item: pytest.Item) -> list[str]:
    """Return the options of `qop radio` for the mark of a test.

    Raises:
        LookupError: The mark has an argument that it does not take.
    """
    mark = _mark_of(item)
    if any(each.args for each in item.iter_markers("radios")):
        raise LookupError("mark radios: its arguments have names; write for example count=3")
    wrong = next((name for name in _LISTS if not isinstance(mark.get(name, []), list | tuple)), "")
    if wrong:
        raise LookupError(f"mark radios: {wrong} is no list; write for example {wrong}=[...]")
    unknown = mark.keys() - {*_OPTIONS, *_LISTS}
    if unknown:
        raise LookupError(f"mark radios: {min(unknown)} is no argument; choose from "
                          f"{', '.join((*_OPTIONS, *_LISTS))}")
    return [word for name, value in mark.items()
            for word in ((_OPTIONS[name], str(value)) if name in _OPTIONS
                         else (_LISTS[name], ",".join(map(str, value))))]


def _find_qop(folder: str) -> list[str]:
    """Return the command `qop radio` that lets a test write to one folder.

    Raises:
        LookupError: Neither variable leads to qop.
    """
    if checkout := os.environ.get("QOP_CHECKOUT"):
        if not os.access(Path(checkout, "qop"), os.X_OK):
            raise LookupError(f"QOP_CHECKOUT={checkout}: has no program qop; name the folder of a "
                              "checkout")
        return [str(Path(checkout, "qop")), "radio", "--bind", folder]
    if image := os.environ.get("QOP_IMAGE"):
        program = shutil.which("podman") or shutil.which("docker")
        if program is None:
            raise LookupError(f"QOP_IMAGE={image}: there is no podman or docker; install one")
        return [program, "run", "--rm", "--network", "none", "--tmpfs", "/tmp:exec,size=1g",
                "-v", "/:/host:ro", "-v", f"{folder}:/host{folder}", image, "radio",
                "--root", "/host", "--bind", f"/host{folder}"]
    raise LookupError("radios: qop is not found; set QOP_CHECKOUT to a checkout of it, or "
                      "QOP_IMAGE to its container image")


def _failure(item: pytest.Item, text: str) -> pytest.TestReport:
    return pytest.TestReport(nodeid=item.nodeid, location=item.location,
                             keywords=dict.fromkeys(item.keywords, 1), outcome="failed",
                             longrepr=text, when="call")
