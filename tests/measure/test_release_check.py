"""The check that daemons are those of the release: by their files, not by what is installed."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from measure.agent import running_programs
from measure.checks.release import check_release

PROGRAM = {"program": "hostapd", "file": "/usr/sbin/hostapd", "md5": "aa", "package": "hostapd",
           "package_md5": "aa", "version": "2:2.10-24", "release": "trixie", "is_own": False,
           "is_compiled": False}


def raw(found: str = "trixie", daemons: dict[str, str] | None = None,
        **changes: Any) -> dict[str, Any]:
    """Return raw values of a guest of Debian 13, in which hostapd ran."""
    return {"release": {"asked": "trixie", "found": found, "daemons": daemons or {},
                        "programs": [PROGRAM | changes]}}


@pytest.mark.parametrize(("values", "is_held"), [
    (raw(), True), (raw(found="bookworm"), False), (raw(md5="bb"), False),
    (raw(package_md5=""), False), (raw(md5="bb", is_own=True), True),
    (raw(md5="bb", is_compiled=True), True), (raw(release="bookworm"), False),
    (raw(release="bookworm", daemons={"hostapd": "bookworm"}), True),
    (raw(daemons={"hostapd": "bookworm"}), False),
    (raw(openssl_md5="cc", openssl_package_md5="cc", openssl_version="3.5.9"), True),
    (raw(openssl_md5="cc", openssl_package_md5="dd", openssl_version="3.5.9"), False)])
def test_another_file_or_root_fails(values: dict[str, Any], *, is_held: bool) -> None:
    check = check_release(values)
    assert check is not None
    assert check.ok is is_held, check.detail


def test_machine_without_a_release_has_no_check() -> None:
    assert check_release({"stamps": {}}) is None


@pytest.fixture
def started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[subprocess.Popen[bytes]]:
    """A process whose file is called hostapd, in a root where a package has that file."""
    monkeypatch.setattr(running_programs, "_noted", {})
    monkeypatch.setattr(running_programs, "_described", {})
    program = tmp_path / "usr/sbin/hostapd"
    program.parent.mkdir(parents=True)
    shutil.copy(shutil.which("sleep") or "", program)
    info = tmp_path / "var/lib/dpkg/info"
    info.mkdir(parents=True)
    md5 = subprocess.run(["md5sum", str(program)], capture_output=True, text=True,
                         check=True).stdout.split()[0]
    (info / "hostapd.md5sums").write_text(f"00  usr/share/doc/hostapd\n{md5}  usr/sbin/hostapd\n")
    (info.parent / "status").write_text("Package: hostapd\nStatus: install ok installed\n"
                                        "Version: 2:2.10-24\n\n")
    (tmp_path / "usr/lib").mkdir()
    (tmp_path / "usr/lib/os-release").write_text('VERSION_CODENAME="trixie"\n')
    process = subprocess.Popen([str(program), "60"])
    # The process is the copied program only after its exec.
    while os.readlink(f"/proc/{process.pid}/exe") != str(program):
        pass
    yield process
    process.kill()
    process.wait()


def test_file_of_a_process_is_compared_even_if_it_was_replaced(
        started: subprocess.Popen[bytes], tmp_path: Path) -> None:
    running_programs.note_program(started.pid)
    (tmp_path / "usr/sbin/hostapd").unlink()
    (tmp_path / "usr/sbin/hostapd").write_text("another file")
    [entry] = running_programs.describe_programs({"hostapd": tmp_path}, [])
    assert (entry["md5"], entry["version"], entry["release"]) == (
        entry["package_md5"], "2:2.10-24", "trixie")


def test_other_file_than_the_packages_is_found(started: subprocess.Popen[bytes],
                                               tmp_path: Path) -> None:
    sums = tmp_path / "var/lib/dpkg/info/hostapd.md5sums"
    sums.write_text("0123456789abcdef0123456789abcdef  usr/sbin/hostapd\n")
    running_programs.note_program(started.pid)
    [entry] = running_programs.describe_programs({"hostapd": tmp_path}, [])
    assert entry["md5"] != entry["package_md5"]
