"""The entry point: what it needs, what it says when it cannot go on, and what it hands over to."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from conftest import PATIENCE_S, PROJECT
from harness.cli import COMMANDS

LOCKS = sorted((PROJECT / "requirements").glob("*.lock"))
needs_tools = pytest.mark.skipif(
    shutil.which("mmdebstrap") is None, reason="needs what the entry point installs"
)
# Found by the entry point in its search path, before anything is set up.
BASICS = ["cat", "readlink", "sha256sum", "mkdir", "cut", "getent", "env", "tail", "flock", "rm"]
BASICS += ["mv"]


def _program(folder: Path, name: str, text: str) -> None:
    (folder / name).write_text("#!/bin/sh\n" + text + "\n")
    (folder / name).chmod(0o755)


@pytest.fixture
def tools(tmp_path) -> Path:
    """A search path with the basics, a user without privileges, and no package installed."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in BASICS:
        found = shutil.which(name)
        assert found is not None
        (folder / name).symlink_to(found)
    _program(folder, "id", "echo 1000")
    _program(folder, "uname", '[ "$1" = -s ] && echo Linux || echo x86_64')
    for name in ("dpkg-query", "apt-get"):
        _program(folder, name, "exit 1")
    return folder


def _qop(tools: Path | str, cache: Path, *arguments: str, start: Path = PROJECT / "qop"):
    environment = {"PATH": str(tools), "HOME": str(cache), "QOP_CACHE": str(cache)}
    return subprocess.run(
        [str(start), *arguments],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


def test_neither_root_nor_sudo(tools, tmp_path):
    """One line with the very command that would help, and status 2."""
    done = _qop(tools, tmp_path / "cache", "run")
    assert done.returncode == 2
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert "neither root nor sudo" in line
    command = line.partition("apt-get install -y --no-install-recommends ")[2].split()
    assert {"mmdebstrap", "squashfs-tools-ng", "tshark", "python3-venv"} <= set(command)


@pytest.mark.parametrize(("machine", "package"), [
    ("x86_64", "qemu-system-x86"), ("aarch64", "qemu-system-arm")])
def test_virtual_machines_need_qemu(tools, tmp_path, machine, package):
    """`--on vm` installs QEMU for this machine's processor; nothing else does."""
    _program(tools, "uname", f"echo {machine}")
    for arguments in (["run", "--on", "vm"], ["run", "x", "--on=vm"], ["provision", "--on", "vm"],
                      ["doctor", "--on", "vm"]):
        assert package in _qop(tools, tmp_path / "cache", *arguments).stderr.split()
    assert "qemu" not in _qop(tools, tmp_path / "cache", "run", "--on", "host").stderr


def test_processor_that_nothing_is_made_for_is_named(tools, tmp_path):
    """Before anything is installed. pip has no packages for it."""
    _program(tools, "uname", "echo riscv64")
    done = _qop(tools, tmp_path / "cache", "run")
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    assert "x86_64 or aarch64; this machine has riscv64" in done.stderr
    assert not (tmp_path / "cache").exists()


def test_sudo_that_asks_is_no_use_without_a_terminal(tools, tmp_path):
    """Nothing waits for a password that nobody can type."""
    _program(tools, "sudo", "exit 1")
    done = _qop(tools, tmp_path / "cache", "run")
    assert done.returncode == 2
    assert "neither root nor sudo" in done.stderr


def test_installs_what_is_missing_through_sudo(tools, tmp_path):
    """apt-get gets exactly the missing packages, asks nothing, and is helped by an update."""
    asked = tmp_path / "asked"
    _program(tools, "sudo", f'[ "$1" != -n ] || exit 0\necho "$@" >>{asked}\nexit 1')
    _program(
        tools, "dpkg-query", 'for last; do :; done; [ "$last" = tshark ] || echo installed\n'
    )
    _program(tools, "sleep", ":")
    done = _qop(tools, tmp_path / "cache", "run")
    assert done.returncode == 1
    assert "installing system packages: tshark" in done.stderr
    assert "full log: " in done.stderr
    first, second, *_, last = asked.read_text().splitlines()
    assert first == last
    assert first.startswith("env DEBIAN_FRONTEND=noninteractive apt-get ")
    assert "DPkg::Lock::Timeout" in first
    assert first.endswith(" -y --no-install-recommends install tshark")
    assert second.endswith(" update")


@pytest.mark.parametrize(("missing", "name"), [("dpkg-query", "dpkg"), ("apt-get", "apt-get")])
def test_distribution_without_apt_or_dpkg_is_told_what_is_needed(tools, tmp_path, missing, name):
    """Fedora and Arch package dpkg. Nothing is written."""
    (tools / missing).unlink()
    done = _qop(tools, tmp_path / "cache", "run")
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    assert f"there is no {name} here (Debian 12" in done.stderr
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize(("machine", "programs", "line"), [
    ("Linux x86_64", (), "podman load -i qop.tar && mkdir -p results && podman run --rm "),
    ("Linux x86_64", ("docker",), '&& docker run --rm --network none --user "$(id -u):$(id -g)"'),
    ("Linux x86_64", ("docker", "podman"),
     '&& podman run --rm --network none --tmpfs /tmp:exec,size=4g -v "$PWD/results:/results" qop'),
    ("Linux x86_64", ("podman", "selinuxenabled"), '-v "$PWD/results:/results:Z" qop run'),
    ("Darwin x86_64", ("docker",), "&& docker run --rm --network none "),
    ("Linux aarch64", ("podman",), "Linux (virtual) machine"),
    ("Darwin arm64", ("docker",), "Linux (virtual) machine"),
])
def test_other_distribution_is_told_the_line_with_the_container_image(
        tools, tmp_path, machine, programs, line):
    """The user can type the line as it is; the image has no port to ARM and macOS."""
    (tools / "dpkg-query").unlink()
    system, processor = machine.split()
    _program(tools, "uname", f'[ "$1" = -s ] && echo {system} || echo {processor}')
    if system == "Darwin":  # has neither
        for name in ("sha256sum", "flock"):
            (tools / name).unlink()
    for name in programs:
        _program(tools, name, ":")
    done = _qop(tools, tmp_path / "cache", "run")
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    assert line in done.stderr
    typed = done.stderr.partition("Give: ")[2]
    subprocess.run(["dash", "-n", "-c", typed], check=True)


@pytest.mark.parametrize("has_image", [True, False])
def test_line_of_the_container_makes_a_missing_image(tools, tmp_path, has_image):
    """From the checkout, in a container of Debian; an image that was copied here is loaded."""
    (tools / "dpkg-query").unlink()
    _program(tools, "podman", f'echo "$*" >>{tmp_path}/calls')
    line = _qop(tools, tmp_path / "cache", "run").stderr.partition("Give: ")[2]
    if has_image:
        (tmp_path / "qop.tar").touch()
    subprocess.run([str(shutil.which("dash")), "-c", line], cwd=tmp_path, check=True,
                   env={"PATH": str(tools)})
    *made, load, run = (tmp_path / "calls").read_text().splitlines()
    assert load == "load -i qop.tar" and run.endswith(f"-v {tmp_path}/results:/results qop run")
    assert made == ([] if has_image else [
        (f"run --rm -v {PROJECT}:/qop -v qop-cache:/root/.cache/qop -v {tmp_path}:/out -w /qop "
         "debian:12 ./qop image container --out /out/qop.tar")])


def test_uninstall_of_nothing_sets_nothing_up(tools, tmp_path):
    """No package, no Python environment and no cache are made in order to remove them."""
    done = _qop(tools, tmp_path / "cache", "uninstall")
    assert (done.returncode, done.stderr) == (0, f"qop: {tmp_path}/cache: there is no cache\n")
    assert not (tmp_path / "cache").exists()


def test_uninstall_without_an_environment_makes_none(tools, tmp_path):
    """A first start that asked for packages leaves a cache; its list of packages is named."""
    _qop(tools, tmp_path / "cache", "run")
    _program(tools, "dpkg-query", 'for last; do :; done; [ "$last" != tshark ] || printf installed')
    refused = _qop(tools, tmp_path / "cache", "uninstall")
    assert (refused.returncode, len(refused.stderr.splitlines())) == (2, 1)
    assert "add --yes" in refused.stderr
    done = _qop(tools, tmp_path / "cache", "uninstall", "--yes")
    assert (done.returncode, done.stderr) == (0, "")
    assert not (tmp_path / "cache").exists()
    assert done.stdout.endswith("sudo apt-get remove --autoremove tshark\n")


@pytest.mark.parametrize("has_dpkg", [True, False])
def test_help_and_version_without_packages_are_shown(tools, tmp_path, has_dpkg):
    """Neither installs anything, nor needs dpkg, an environment, or a cache that can be written."""
    (tools / "sed").symlink_to(str(shutil.which("sed")))
    if not has_dpkg:
        (tools / "dpkg-query").unlink()
    (tmp_path / "file").touch()
    for option in ("--help", "-h"):
        done = _qop(tools, tmp_path / "file/cache", option)
        assert (done.returncode, done.stderr) == (0, "")
        assert [line.split()[0] for line in done.stdout.splitlines()[3:]] == list(COMMANDS)
    done = _qop(tools, tmp_path / "file/cache", "--version")
    assert (done.returncode, done.stdout) == (0, subprocess.run(
        [PROJECT / "qop", "--version"], capture_output=True, text=True, check=True).stdout)


@pytest.mark.parametrize(
    "arguments", [["image", "--help"], ["run", "-h"], ["bench", "proof", "-h"]])
def test_help_of_a_command_looks_for_no_packages(cache, tools, arguments):
    """The environment is enough, as pip makes it; the next command still looks for packages."""
    (stamp,) = cache.glob("python/harness-*/.complete")
    stamp.write_text("")
    done = _qop(tools, cache, *arguments)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith(f"-m harness {' '.join(arguments)}\n")
    assert "neither root nor sudo" in _qop(tools, cache, "run").stderr


@pytest.mark.parametrize("is_there", [True, False])
@pytest.mark.parametrize(("command", "programs"), [
    ("explain", ["tshark"]), ("measure", ["tshark", "wpa_supplicant"])])
def test_command_needs_its_programs_and_python_alone(cache, tools, command, programs, is_there):
    """With them no package is looked for; without one no package of guests is asked for."""
    (stamp,) = cache.glob("python/harness-*/.complete")
    stamp.write_text("")
    for program in programs[:None if is_there else -1]:
        _program(tools, program, "exit 1")
    done = _qop(tools, cache, command, "word")
    assert (f"-m harness {command} word" in done.stdout) == is_there
    assert ("neither root nor sudo" in done.stderr) == (not is_there)
    assert "mmdebstrap" not in done.stderr


@pytest.mark.parametrize(("arguments", "line"), [
    (["measure", "--card", "wlan99"], "--card wlan99: there is no such interface; cards here: "),
    (["measure", "--ssid", "x", "--card=lo"], "--card lo: is no 802.11 card; cards here: "),
    (["run", "--card", "monitor=none", "--card", "a2=wlan99"],
     "--card a2=wlan99: there is no such interface; cards here: "),
    (["run", "--card=monitor=lo,wlan99"], "--card monitor=lo,wlan99: is no 802.11 card; cards ")])
def test_missing_card_is_named_before_anything_is_installed(tools, tmp_path, arguments, line):
    done = _qop(tools, tmp_path / "cache", *arguments)
    assert (done.returncode, len(done.stderr.splitlines())) == (1, 1)
    assert done.stderr.startswith(f"qop: {line}")
    assert not (tmp_path / "cache").exists()


def test_version_sets_everything_up_while_a_box_is_made(cache, tools):
    (stamp,) = cache.glob("python/harness-*/.complete")
    stamp.write_text("")
    done = subprocess.run([PROJECT / "qop", "--version"], capture_output=True, text=True,
                          check=False, env={"PATH": str(tools), "HOME": str(cache),
                                            "QOP_CACHE": str(cache), "QOP_SETS_UP": "1"})
    assert "neither root nor sudo" in done.stderr


def test_help_of_a_command_on_a_node_is_not_ours(cache, tools):
    """`lab ... ip -h` starts a testbed, which needs the packages."""
    (stamp,) = cache.glob("python/harness-*/.complete")
    stamp.write_text("")
    assert "neither root nor sudo" in _qop(tools, cache, "lab", "--node", "a2", "ip", "-h").stderr


def test_unwritable_cache(tools, tmp_path):
    """A cache that cannot be written is named, with the way out."""
    (tmp_path / "file").touch()
    done = _qop(tools, tmp_path / "file/cache", "run")
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    assert "QOP_CACHE" in done.stderr


def _set_up_by_hand(cache: Path, kind: str) -> None:
    """An environment as the entry point leaves it, with a Python that says what it is given."""
    python = Path("/usr/bin/python3")
    content = (PROJECT / f"requirements/{kind}.lock").read_bytes()
    link = (str(python.readlink()) + "\n").encode() if python.is_symlink() else b""
    done = subprocess.run(["sha256sum"], input=content + link, capture_output=True, check=True)
    folder = cache / f"python/{kind}-{done.stdout.decode()[:20]}"
    (folder / "bin").mkdir(parents=True)
    packages = re.search(r"^packages='(.*)'$", (PROJECT / "qop").read_text(), re.M)
    assert packages is not None
    (folder / ".complete").write_text(packages[1] + "\n")
    _program(folder / "bin", "python", f'echo {kind} "$PYTHONPATH" "$@"')


@pytest.fixture
def cache(tmp_path) -> Path:
    """A cache in which everything is set up."""
    for kind in ("harness", "dev"):
        _set_up_by_hand(tmp_path / "cache", kind)
    return tmp_path / "cache"


@needs_tools
@pytest.mark.parametrize(("command", "kind"), [
    ("run", "harness"), ("test", "dev"), ("site", "dev")])
def test_hands_over(cache, tmp_path, command, kind):
    """The harness gets the project's folder, through links too, and the arguments as given.

    Tests get the environment that has what tests use.
    """
    (tmp_path / "a").mkdir()
    (tmp_path / "a/link").symlink_to(PROJECT / "qop")
    (tmp_path / "relative").symlink_to("a/link")
    for start in (PROJECT / "qop", tmp_path / "relative"):
        done = _qop(os.environ["PATH"], cache, command, "a  b", start=start)
        assert done.stdout == f"{kind} {PROJECT} -P -m harness {command} a  b\n"
        assert done.stderr == ""


@needs_tools
def test_costs_next_to_nothing_when_nothing_is_missing(cache, tmp_path):
    """Four small programs, none of which looks for packages, and then the harness."""
    started = tmp_path / "started"
    (tmp_path / "watched").mkdir()
    for name in (*BASICS, "mmdebstrap", "tshark", "id", "apt-get", "dpkg-query"):
        _program(tmp_path / "watched", name,
                 f'echo {name} >>{started}\nexec {shutil.which(name) or "false"} "$@"')
    assert _qop(tmp_path / "watched", cache, "status").stdout.startswith("harness ")
    assert sorted(started.read_text().split()) == ["cat", "env", "readlink", "sha256sum"]


@needs_tools
def test_more_packages_include_fewer(cache):
    """What was set up for a command that wants more serves all others; and not the reverse."""
    (stamp,) = cache.glob("python/harness-*/.complete")
    enough = stamp.read_text()
    stamp.write_text(enough.replace("\n", " zstd\n"))
    before = stamp.stat().st_mtime_ns
    assert _qop(os.environ["PATH"], cache, "run").stdout.startswith("harness ")
    assert stamp.stat().st_mtime_ns == before
    stamp.write_text(enough.replace(" openssl", ""))
    _qop(os.environ["PATH"], cache, "run")
    assert stamp.read_text() == enough


def test_half_an_environment_is_not_used(cache, tools):
    """Without its stamp an environment is not there, whatever is in it."""
    (stamp,) = cache.glob("python/harness-*/.complete")
    stamp.unlink()
    assert _qop(tools, cache, "run").returncode == 2


@pytest.mark.parametrize("name", ["qop", "guest/init", "guest/first-init", "guest/kernel.sh",
                                  "guest/vm/init", "guest/vm/kernel.sh",
                                  "harness/container/start"])
def test_shell_syntax(name):
    """The POSIX shell takes every script."""
    subprocess.run(["dash", "-n", str(PROJECT / name)], check=True)


def test_mounted_folder_on_the_same_disk_counts_as_mounted(tmp_path):
    """Device numbers are equal there, so the mount table decides."""
    start = (PROJECT / "harness/container/start").read_text()
    function = start[start.index("is_mounted() {"):start.index("case ${1-} in\nrun")]
    (tmp_path / "host").mkdir()
    (tmp_path / "place/within").mkdir(parents=True)
    script = f"""{function}
for folder in place place/within; do
    is_mounted {tmp_path}/$folder && echo mounted || echo not
    mount --bind {tmp_path}/host {tmp_path}/place
    mkdir -p {tmp_path}/place/within
done"""
    done = subprocess.run(["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script],
                          capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("not\nmounted\n", "")


@pytest.mark.parametrize("lock", LOCKS, ids=lambda path: path.stem)
def test_lock_files(lock):
    """Every requirement is pinned and hashed; no address, index or folder of a machine is in it."""
    text = lock.read_text()
    code = [line for line in text.splitlines() if line and not line.lstrip().startswith("#")]
    names = [line for line in code if not line.startswith(" ")]
    assert names
    pinned = r"[a-z0-9_.-]+==[\w.!+]+( ; python_version [<>=]+ \"[\d.]+\")? \\"
    assert all(re.fullmatch(pinned, line) for line in names)
    hashes = [line for line in code if line.startswith(" ")]
    assert all(re.fullmatch(r" +--hash=sha256:[0-9a-f]{64}( \\)?", line) for line in hashes)
    assert text.count("--hash=") >= len(names)
    assert not re.search(r"://|find-links|index-url|(^|\s)/", text)


def test_the_locks_agree():
    """One package has one version, whichever environment it is in."""
    pins = [dict(re.findall(r"^([\w.-]+)==(\S+)", lock.read_text(), re.M)) for lock in LOCKS]
    merged: dict[str, str] = {}
    for versions in pins:
        for name, version in versions.items():
            assert merged.setdefault(name, version) == version


def test_installed_packages_are_recorded_for_uninstall(cache, tools, tmp_path):
    """Only those that were missing, one a line, and only after they were installed."""
    (stamp,) = cache.glob("python/harness-*/.complete")
    stamp.write_text("")
    _program(tools, "sudo", '[ "$1" = -n ] || shift; exit ${FAILS-0}')
    _program(tools, "dpkg-query", "for last; do :; done; case $last in tshark | mount) ;; "
                                  "*) echo installed ;; esac")
    assert _qop(tools, cache, "run").returncode == 0
    assert (cache / "installed-packages").read_text().split() == ["mount", "tshark"]
    _program(tools, "sudo", '[ "$1" = -n ] && exit 0; exit 1')
    _program(tools, "sleep", ":")
    _qop(tools, tmp_path / "other", "run")
    assert not (tmp_path / "other/installed-packages").exists()
