"""The main job in root file systems of other releases, from nothing but a checkout.

It takes minutes and needs the release's archive, so it is done only where QOP_TEST_HOSTS names
releases, each with the user who measures (sudo, user or root, by default sudo):
QOP_TEST_HOSTS=trixie,noble:user,resolute:root ./qop test tests/guest/test_hosts.py
Ubuntu's releases come from the archive that mmdebstrap chooses for them, or from that at the
address QOP_TEST_UBUNTU_MIRROR. With QOP_TEST_HOSTS_SUITE=1, the tests without guests run there as
well.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from conftest import PROJECT, TESTS
from guest import debian, image
from guest.build import BuildCommands
from measure.records import record

# Packages and images are fetched and built, on a busy machine, too.
pytestmark = [pytest.mark.guest, pytest.mark.shareable, pytest.mark.slow,
              pytest.mark.timeout(3600)]

HOSTS = [name for name in os.environ.get("QOP_TEST_HOSTS", "").split(",") if name]
#: Suites of Ubuntu (24.04 and 26.04), whose archive and keys are not Debian's.
UBUNTU = ("noble", "resolute")
MIRROR_VARIABLE = "QOP_TEST_UBUNTU_MIRROR"
UBUNTU_KEYRING = Path("/usr/share/keyrings/ubuntu-archive-keyring.gpg")
#: Debian's release with a package of Ubuntu's keys.
KEYRING_SUITE, KEYRING_PACKAGE = "trixie", "ubuntu-keyring"
#: What an installed machine has and mmdebstrap's smallest variant lacks. There is no `mount`.
INCLUDED = ("ca-certificates", "passwd", "sudo")
#: This machine's ways to the network, which the host needs, too.
NETWORK = ("/etc/resolv.conf", "/etc/hosts", "/etc/pip.conf", "/etc/ssl/certs/ca-certificates.crt")
PASSED_ON = re.compile(r"(PIP_|SSL_CERT|[a-z]+_proxy$|QOP_DEBIAN_MIRROR)", re.IGNORECASE)
USER = "ann"
HOMES = {"root": "/root", USER: f"/home/{USER}"}
CELL = "--policies P1,P12 --scenarios N2 --repetitions 1 --stream-bytes 100k"


@dataclass(frozen=True)
class Host:
    """A root file system in which programs run as on a machine of its own.

    `kind` says who measures: root, a user with sudo, or one whose administrator installs packages.
    """

    root: Path
    suite: str
    kind: str

    @property
    def user(self) -> str:
        """The user who measures."""
        return "root" if self.kind == "root" else USER

    @property
    def home(self) -> Path:
        """The home of the user who measures, from outside."""
        return self.root / HOMES[self.user][1:]

    def run(self, line: str, user: str = "root") -> subprocess.CompletedProcess[str]:
        """Run a shell's line as a user in their home."""
        passed = [f"{name}={value}" for name, value in os.environ.items() if PASSED_ON.match(name)]
        become = (["setpriv", f"--reuid={user}", f"--regid={user}", "--init-groups"]
                  if user != "root" else [])
        return subprocess.run(
            ["unshare", "--mount", "--pid", "--fork", "--kill-child", sys.executable,
             str(TESTS / "enter_root.py"), str(self.root), *become, "env", "-i",
             "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
             f"HOME={HOMES[user]}", "LC_ALL=C.UTF-8", *passed, "sh", "-c",
             f"cd {HOMES[user]} && {line}"],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)

    def succeed(self, line: str, user: str = "root") -> str:
        """The output of a line that must succeed."""
        done = self.run(line, user)
        # pytest shows it whole, where it shortens what is compared.
        print(done.stdout, done.stderr)
        assert done.returncode == 0, line
        return done.stdout + done.stderr


def source_lines(suite: str, folder: Path) -> str:
    """Where a suite's packages come from, or a skip."""
    if suite not in UBUNTU:
        return debian.find_mirrors().source_lines(suite, f"{suite}-updates", f"{suite}-security")
    mirror = os.environ.get(MIRROR_VARIABLE) or debian.list_default_archives(suite).get(suite, "")
    try:
        with urllib.request.urlopen(f"{mirror}/dists/{suite}/Release", timeout=20):
            pass
    except (OSError, ValueError) as error:
        pytest.skip(f"{suite}: {mirror or 'no mirror'} does not answer ({error}); set "
                    f"{MIRROR_VARIABLE} to another address of Ubuntu's archive")
    keyring = UBUNTU_KEYRING if UBUNTU_KEYRING.exists() else fetch_keyring(folder)
    signed = f"deb [signed-by={keyring}] {mirror}"
    return "".join(f"{signed} {name} main universe\n" for name in (
        suite, f"{suite}-updates", f"{suite}-security"))


def fetch_keyring(folder: Path) -> Path:
    """Ubuntu's keys, as Debian packages and signs them. Debian 12 has no such package."""
    commands = BuildCommands("keyring", folder / "keyring.log")
    apt = debian.PrivateApt(folder / "apt", debian.find_mirrors().source_lines(KEYRING_SUITE),
                            commands)
    apt.update_lists()
    (version, _), *_ = apt.list_versions(KEYRING_PACKAGE)
    package = apt.download_package(KEYRING_PACKAGE, version, folder)
    subprocess.run(["dpkg-deb", "--extract", package, folder / "keys"], check=True)
    return folder / "keys" / str(UBUNTU_KEYRING)[1:]


def copy_checkout(target: Path) -> None:
    """Copy this checkout's files, without those that git does not know."""
    listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                            cwd=PROJECT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, listed.split("\0")):
        if (PROJECT / name).exists():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(PROJECT / name, target / name)


@pytest.fixture(scope="module", params=HOSTS or ["none"])
def host(request: pytest.FixtureRequest,
         tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """A machine with a user, a checkout and this machine's network; it has no package of qop's."""
    if not HOSTS:
        pytest.skip("takes minutes and a mirror; QOP_TEST_HOSTS=trixie has it done")
    if os.geteuid() != 0:
        pytest.skip("only root can enter another root file system")
    suite, _, kind = request.param.partition(":")
    folder = tmp_path_factory.mktemp(suite)
    try:
        yield make_host(suite, kind or "sudo", folder)
    finally:
        subprocess.run(["rm", "-rf", "--one-file-system", str(folder)], check=True)


def make_host(suite: str, kind: str, folder: Path) -> Host:
    """Make the root file system with the user who measures."""
    root = folder / "root"
    root.mkdir()
    command = debian.build_mmdebstrap_command(
        suite, str(folder / "root.tar"), source_lines(suite, folder), INCLUDED, [])
    done = subprocess.run(command, env={**os.environ, "TMPDIR": str(folder)}, capture_output=True,
                          text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    subprocess.run(["tar", "--extract", "--file", folder / "root.tar", "--directory", root],
                   check=True)
    (folder / "root.tar").unlink()
    if suite in UBUNTU:  # the root has the keys at their usual place
        sources = root / "etc/apt/sources.list"
        sources.write_text(re.sub(r"signed-by=\S+]", f"signed-by={UBUNTU_KEYRING}]",
                                  sources.read_text()))
    for name in NETWORK:
        if Path(name).exists():
            (root / name[1:]).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(name, root / name[1:])
    acquire = subprocess.run(["apt-config", "dump", "Acquire"], capture_output=True, text=True,
                             check=True).stdout
    (root / "etc/apt/apt.conf.d/99acquire").write_text(acquire)
    host = Host(root, suite, kind)
    assert host.succeed(". /etc/os-release; echo $VERSION_CODENAME").strip() == suite
    if kind != "root":
        host.succeed(f"useradd --shell /bin/sh {USER}")
    copy_checkout(host.home / "qop")
    host.succeed(f"chown -R {host.user}: {HOMES[host.user]}")
    return host


@pytest.fixture(scope="module")
def measured(host: Host) -> str:
    """What a user's first run said.

    Kernel and root of the guest are this machine's, because they take minutes to build. The
    libraries that programs in the guest preload are built on the host.
    """
    assert host.run("command -v mount").returncode != 0
    built = image.ensure_image()
    for kind, place in (("kernels", built.kernel.parent), ("roots", built.root.parent)):
        shutil.copytree(place, host.home / ".cache/qop" / kind / place.name)
    host.succeed(f"chown -R {host.user}: {HOMES[host.user]} && apt-get -q update")
    if host.kind != "root":
        alone = host.run(f"qop/qop run {CELL}", USER)
        assert alone.returncode == 2 and " mount " in alone.stderr, alone.stderr
        advice = re.search(r"have somebody run: (apt-get install .*)", alone.stderr)
        assert advice is not None, alone.stderr
        host.succeed(f"DEBIAN_FRONTEND=noninteractive {advice[1]}" if host.kind == "user" else
                     f"echo '{USER} ALL=(ALL) NOPASSWD: ALL' > /etc/sudoers.d/{USER}")
    return host.succeed(f"qop/qop run {CELL} --out first", host.user)


def test_ubuntu_that_is_skipped_says_why(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The archive is probed first (docs/install.md)."""
    monkeypatch.setenv(MIRROR_VARIABLE, "http://127.0.0.1:9")
    with pytest.raises(pytest.skip.Exception,
                       match=r"noble: http://127\.0\.0\.1:9 does not answer \("):
        source_lines(UBUNTU[0], tmp_path)


def test_mmdebstrap_names_the_archive_of_a_release() -> None:
    """So the project names none; it is another one than Debian's."""
    ubuntu = debian.list_default_archives(UBUNTU[0])[UBUNTU[0]]
    assert ubuntu.startswith("http")
    assert ubuntu != debian.list_default_archives("bookworm")["bookworm"]


def test_first_run_proves_its_policies(host: Host, measured: str) -> None:
    """Both commands of the README work; what is built is the libraries, by the user."""
    assert ("installing system packages" in measured) is (host.kind != "user")
    assert "building the guest" in measured
    # Python 3.13 logs what asyncio cannot remove.
    assert not re.search(r"Unable to|Traceback|Warning", measured), measured
    folder = host.home / "first"
    records = [record.read_record(file) for file in sorted((folder / "records").glob("*.json"))]
    assert sorted(each.cell["policy"] for each in records) == ["P1", "P12"]
    assert all(each.status == "ok" and all(item.ok for item in each.evidence) for each in records)
    host.succeed("qop/qop report first", host.user)


@pytest.mark.usefixtures("measured")
def test_judging_anew_agrees(host: Host) -> None:
    """With the host's own tshark, and here with this machine's."""
    assert "2 records judged anew say the same" in host.succeed(
        "qop/qop verify --redo first", host.user)
    here = subprocess.run([str(PROJECT / "qop"), "verify", "--redo", str(host.home / "first")],
                          capture_output=True, text=True, check=False)
    assert here.returncode == 0 and "2 records judged anew say the same" in here.stdout, here


@pytest.mark.usefixtures("measured")
def test_doctor_finds_nothing_missing(host: Host) -> None:
    """It boots a guest, and a station's frames are captured."""
    lines = host.succeed("qop/qop doctor", host.user).splitlines()
    assert not [line for line in lines if line.startswith("MISSING")], lines
    assert lines[-1].startswith("ok       trial: a guest boots"), lines[-1]


@pytest.mark.usefixtures("measured")
def test_tests_without_guests_pass(host: Host) -> None:
    """With the host's own Python, tshark and OpenSSL."""
    if not os.environ.get("QOP_TEST_HOSTS_SUITE"):
        pytest.skip("takes ten minutes; QOP_TEST_HOSTS_SUITE=1 has it done")
    lines = host.succeed("qop/qop test -m 'not guest' -q 2>&1", host.user).splitlines()
    assert re.match(r"=* ?\d+ passed", lines[-1]) and "failed" not in lines[-1], lines[-30:]


@pytest.mark.usefixtures("measured")
def test_uninstall_leaves_nothing_of_the_cache(host: Host) -> None:
    """Last: the packages are named that qop installed, and results stay."""
    said = host.succeed("qop/qop uninstall --yes", host.user)
    assert not (host.home / ".cache/qop").exists()
    assert re.search("apt-get remove --autoremove .*tshark", said), said
    assert (host.home / "first/records").is_dir()
