"""User namespaces that an ordinary user lacks are named with their cause and their remedy."""

from __future__ import annotations

import errno
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import PROJECT
from guest import debian, namespaces
from guest.build import BuildError
from harness.engine import host_checks

APPARMOR = "kernel.apparmor_restrict_unprivileged_userns"


@pytest.fixture(autouse=True)
def _nothing_known() -> Iterator[None]:
    """What another test found out is forgotten, and so is what these find."""
    namespaces.as_root_command.cache_clear()
    yield
    namespaces.as_root_command.cache_clear()


@pytest.fixture
def ordinary_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An ordinary user, whom no program gives a namespace; settings are in the folder."""
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("unshare", "mmdebstrap"):
        (programs / name).write_text("#!/bin/sh\necho $0: Operation not permitted >&2; exit 1\n")
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    monkeypatch.setattr(namespaces, "user_name", lambda: "ann")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(namespaces, "_SYSCTLS", tmp_path / "sys")
    files = (tmp_path / "subuid", tmp_path / "subgid")
    for file in files:
        file.write_text("ann:100000:65536\n")
    monkeypatch.setattr(namespaces, "_SUBORDINATE", files)
    return tmp_path


def set_sysctl(folder: Path, name: str, value: str) -> None:
    """A kernel setting as /proc shows it."""
    file = folder / "sys" / name.replace(".", "/")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"{value}\n")


@pytest.mark.parametrize(("name", "refused", "allowed", "who"), [
    (APPARMOR, "1", "0", "AppArmor"),
    ("kernel.unprivileged_userns_clone", "0", "1", "the kernel's setting"),
    ("user.max_user_namespaces", "0", "10000", "the kernel's setting")])
def test_setting_that_refuses_namespaces_is_named(ordinary_user: Path, name: str, refused: str,
                                                  allowed: str, who: str) -> None:
    """By the command that fails and by the doctor, in one line with what root has to run."""
    set_sysctl(ordinary_user, name, refused)
    with pytest.raises(BuildError, match=rf"{who} .*'sysctl -w {name}={allowed}'") as caught:
        debian._mmdebstrap_start()
    assert "\n" not in str(caught.value)
    finding = host_checks.check_namespaces()
    assert not finding.ok and f"sysctl -w {name}={allowed}" in finding.remedy


def test_setting_that_allows_namespaces_is_not_blamed(ordinary_user: Path) -> None:
    """Ubuntu with the restriction off, and no line for the user."""
    set_sysctl(ordinary_user, APPARMOR, "0")
    (ordinary_user / "subgid").write_text("bob:100000:65536\n")
    with pytest.raises(BuildError, match=r"subgid has no line for ann; .*usermod") as caught:
        debian._mmdebstrap_start()
    assert "subuid has" not in str(caught.value) and "AppArmor" not in str(caught.value)


def test_unknown_cause_shows_what_unshare_said(ordinary_user: Path) -> None:
    """As in a container that forbids the system call."""
    assert ordinary_user
    with pytest.raises(BuildError, match=r"here \(.*Operation not permitted\); allow"):
        debian._mmdebstrap_start()


@pytest.mark.skipif(os.geteuid() == 0 and subprocess.run(
    ["mmdebstrap", "--unshare-helper", "true"], capture_output=True, check=False).returncode != 0,
    reason="mmdebstrap makes no namespace here")
def test_mmdebstraps_own_namespace_is_used_where_unshare_gets_none(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On Ubuntu AppArmor has a profile for mmdebstrap, and none for unshare."""
    real = subprocess.run(["sh", "-c", "command -v unshare"], capture_output=True, text=True,
                          check=True).stdout.strip()
    (tmp_path / "unshare").write_text(
        f'#!/bin/sh\n[ "$1" != --user ] || exit 1\nexec {real} "$@"\n')
    (tmp_path / "unshare").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert namespaces.as_root_command()[0] == "mmdebstrap"
    monkeypatch.setattr(debian, "build_root_command", namespaces.as_root_command)
    start = debian._mmdebstrap_start()
    assert start[:2] == ["mmdebstrap", "--unshare-helper"] and start[-1] == "--mode=unshare"


def test_machine_whose_apt_knows_no_debian_archive_uses_debians_own(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on Ubuntu; a mirror that is chosen is used, and one that apt knows is preferred."""
    monkeypatch.delenv(debian.MIRROR_VARIABLE, raising=False)
    apt = shutil.which("apt-get")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")

    def have_apt_know(*lines: str) -> debian.DebianMirrors:
        said = "".join(f"echo '{line}'\n" for line in lines)
        (tmp_path / "apt-get").write_text(
            f'#!/bin/sh\n[ "$1" = indextargets ] || exec {apt} "$@"\n{said}')
        (tmp_path / "apt-get").chmod(0o755)
        return debian.find_mirrors()

    ubuntu = ("Ubuntu|Ubuntu|noble|http://ubuntu.example/ubuntu/",
              "Ubuntu|Ubuntu|noble-security|http://ubuntu.example/ubuntu/")
    own = re.findall(r"mirror += '(\S+/debian(?:-security)?)';",
                     Path(str(shutil.which("mmdebstrap"))).read_text())
    assert have_apt_know(*ubuntu) == have_apt_know() == debian.DebianMirrors(*own)
    assert have_apt_know(
        "Debian|Debian|trixie|http://near.example/debian/") == debian.DebianMirrors(
        "http://near.example/debian/", None)
    assert have_apt_know(
        "Debian|Debian|trixie|http://near.example/debian/",
        "Debian|Debian-Security|trixie-security|http://near.example/security/",
    ).security == "http://near.example/security/"
    monkeypatch.setenv(debian.MIRROR_VARIABLE, "http://mine.example/debian")
    assert have_apt_know(*ubuntu) == debian.DebianMirrors("http://mine.example/debian", None)


#: A process that the kernel answers as one of an ordinary user whom AppArmor restricts. Its
#: arguments are the number of a system call, the error of its answer and the folder of settings.
_RESTRICTED = """
import ctypes, os, struct, sys
from pathlib import Path
call, error = int(sys.argv[1]), int(sys.argv[2])
steps = [(0x20, 0, 0, 0), (0x15, 0, 1, call), (0x06, 0, 0, 0x00050000 | error),
         (0x06, 0, 0, 0x7fff0000)]  # load the number; if it is that: errno; else allow
code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(steps), ctypes.addressof(code)))
prctl = ctypes.CDLL(None, use_errno=True).prctl
assert prctl(22, 2, program, 0, 0) == 0, os.strerror(ctypes.get_errno())  # PR_SET_SECCOMP, filter
os.setgroups([]); os.setgid(65534); os.setuid(65534)
from guest import debian, namespaces
from guest.build import BuildError
namespaces._SYSCTLS = Path(sys.argv[3])
assert not namespaces.has_namespaces()
try:
    debian._mmdebstrap_start()
except BuildError as refusal:
    print(refusal)
"""


@pytest.mark.skipif(os.geteuid() != 0 or os.uname().machine != "x86_64",
                    reason="only root may filter the system calls of another user's programs")
@pytest.mark.parametrize("error", [errno.EPERM, errno.EACCES])
@pytest.mark.parametrize(("call", "number"), [("unshare", 272), ("mount", 165)])
def test_kernels_refusal_of_a_system_call_is_explained(error: int, call: str, number: int) -> None:
    """With the real programs. AppArmor refuses the namespace itself, or the capability to mount."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        Path(folder).chmod(0o755)
        shutil.copytree(PROJECT / "guest", f"{folder}/guest",
                        ignore=shutil.ignore_patterns("__pycache__"))
        set_sysctl(Path(folder), APPARMOR, "1")
        done = subprocess.run(
            ["/usr/bin/python3", "-B", "-c", _RESTRICTED, str(number), str(error),
             f"{folder}/sys"], cwd="/", env={"PATH": os.environ["PATH"], "PYTHONPATH": folder},
            capture_output=True, text=True, check=False)
    assert done.returncode == 0, (call, done.stderr)
    [line] = done.stdout.splitlines()
    assert line.startswith("building the guest as an ordinary user: AppArmor (Ubuntu's default)")
    assert f"'sysctl -w {APPARMOR}=0'" in line
