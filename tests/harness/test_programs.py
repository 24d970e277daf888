"""`qop run --programs`: the user's own daemons take the place of Debian's."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from conftest import Qop
from guest.image import GuestImage, ensure_image
from harness.engine import programs
from harness.errors import UserError
from measure.services import replaced_programs

_PATHS = {"hostapd": "usr/sbin/hostapd", "wpa_supplicant": "usr/sbin/wpa_supplicant",
          "freeradius": "usr/sbin/freeradius", "charon": "usr/lib/ipsec/charon",
          "wpasupplicant": "usr/sbin/wpa_supplicant"}  # the package's name


def copy_program(name: str, folder: Path) -> Path:
    """Copy a daemon of the guest's root file system, with a mode of its own."""
    file = folder / name
    folder.mkdir(parents=True, exist_ok=True)
    file.write_bytes(subprocess.run(
        ["rdsquashfs", "-c", _PATHS[name], str(ensure_image().root)], capture_output=True,
        check=True).stdout)
    file.chmod(0o755)
    return file


def build_package(folder: Path, name: str, version: str = "1", *, architecture: str = "amd64",
                  depends: str = "", program: Path | None = None) -> Path:
    """Build a Debian package, with a program of the guest's if there is one."""
    tree = folder.parent / f"{name}-{version.replace(':', '.')}"
    (tree / "DEBIAN").mkdir(parents=True)
    (tree / "DEBIAN/control").write_text(
        f"Package: {name}\nVersion: {version}\nArchitecture: {architecture}\n"
        + (f"Depends: {depends}\n" if depends else "")
        + "Maintainer: Somebody <somebody@example.org>\nDescription: made up\n")
    if program:
        (tree / _PATHS[name]).parent.mkdir(parents=True)
        shutil.copy(program, tree / _PATHS[name])
    folder.mkdir(exist_ok=True)
    file = folder / f"{tree.name}.deb"
    subprocess.run(["dpkg-deb", "--root-owner-group", "--build", str(tree), str(file)], check=True,
                   stdout=subprocess.DEVNULL)
    return file


def patch(file: Path, old: bytes, new: bytes) -> None:
    """Change bytes of a program to others of the same length."""
    content = file.read_bytes()
    assert old in content and len(old) == len(new)
    file.write_bytes(content.replace(old, new))


# --- Refusals ---


@pytest.fixture
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache without an image; building one takes longer than the test may."""
    folder = tmp_path / "empty"
    folder.mkdir()
    monkeypatch.setenv("QOP_CACHE", str(folder))
    return folder


@pytest.mark.parametrize(("place", "text"), [
    ("nowhere", "--programs nowhere: is no folder"),
    ("/usr/sbin", "--programs /usr/sbin: a guest has files of its own in /usr/sbin"),
    ("/tmp", "--programs /tmp: a guest has files of its own in /tmp"),
    (".", "--programs .: has none of wpa_supplicant, hostapd, freeradius, charon"),
])
def test_folder_without_programs_is_refused(qop_here: Qop, empty_cache: Path, place: str, text: str
                                            ) -> None:
    """Before an image is built."""
    done = qop_here("run", "--programs", place, "--dry-run")
    assert not list(empty_cache.iterdir())
    assert done.returncode == 2
    assert text in done.stderr and done.stderr.count("\n") == 1, done.stderr


@pytest.mark.parametrize(("option", "text"), [
    (["--on", "vm"], "machines of --on vm cannot see this folder"),
    (["--cluster", "ssh:other"], "machines of --cluster cannot see this folder")])
def test_machine_that_cannot_see_the_folder_is_refused(qop_here: Qop, option: list[str], text: str
                                                       ) -> None:
    done = qop_here("run", "--programs", ".", "--clock", "real", *option)
    assert done.returncode == 2 and text in done.stderr and done.stderr.count("\n") == 1


def test_folder_that_no_plan_can_name_is_refused(qop_here: Qop) -> None:
    """plan.json is UTF-8; a program that cannot be read has no digest."""
    elf = Path(shutil.which("true") or "").read_bytes()
    for name in (b"k\xe9", b"a,b"):
        folder = Path(os.fsdecode(bytes(qop_here.folder) + b"/" + name))
        folder.mkdir()
        (folder / "hostapd").write_bytes(elf)
        (folder / "hostapd").chmod(0o755)
        done = qop_here("run", "--programs", str(folder), "--dry-run")
        assert done.returncode == 2 and done.stderr.count("\n") == 1, done.stderr
        assert "its path has a comma, a line break, or bytes that are not UTF-8" in done.stderr
    folder = qop_here.folder / "broken"
    folder.mkdir()
    (folder / "hostapd").symlink_to("/proc/self/mem")
    done = qop_here("run", "--programs", "broken", "--dry-run")
    assert done.returncode == 2 and done.stderr.count("\n") == 1, done.stderr
    assert "--programs broken: " in done.stderr and "cannot be read" in done.stderr


def test_program_that_cannot_be_one_is_refused(qop_here: Qop, empty_cache: Path) -> None:
    """A script, another processor's program, and one without the mode to be executed."""
    assert not list(empty_cache.iterdir())
    file = qop_here.folder / "own" / "hostapd"
    file.parent.mkdir()
    elf = Path(shutil.which("true") or "").read_bytes()
    for content, mode, text in (
            (b"#!/bin/sh\n", 0o755, "is no program of machine code"),
            (elf[:18] + b"\xb7\0" + elf[20:], 0o755, "is for another processor"),
            (elf, 0o644, "is not executable; give 'chmod +x own/hostapd'")):
        file.write_bytes(content)
        file.chmod(mode)
        done = qop_here("run", "--programs", "own", "--dry-run")
        assert done.returncode == 2
        assert f"own/hostapd {text}" in done.stderr and done.stderr.count("\n") == 1, done.stderr


def test_package_that_cannot_be_one_is_refused(qop_here: Qop, empty_cache: Path) -> None:
    """Before an image is built: no package, another processor's, two of one name, and programs."""
    assert not list(empty_cache.iterdir())
    folder = qop_here.folder / "debs"

    def refuse(text: str) -> None:
        done = qop_here("run", "--programs", "debs", "--dry-run")
        assert done.returncode == 2 and done.stderr.count("\n") == 1, done.stderr
        assert text in done.stderr

    build_package(folder, "hostapd", architecture="arm64")
    refuse("debs/hostapd-1.deb is for arm64, and guests are amd64; give the package for that")
    (folder / "hostapd-1.deb").write_bytes(b"!<arch>\n")
    refuse("debs/hostapd-1.deb is no Debian package")
    (folder / "hostapd-1.deb").unlink()
    build_package(folder, "hostapd", "2")
    build_package(folder, "hostapd", "3")
    refuse("debs/hostapd-3.deb and debs/hostapd-2.deb are both hostapd; leave one of them")
    (folder / "hostapd").write_bytes(b"\x7fELF")
    refuse("has programs (hostapd) and Debian packages; give one of both in a folder of its own")


def test_packages_are_for_guests_alone(tmp_path: Path) -> None:
    folder = build_package(tmp_path / "debs", "hostapd").parent
    with pytest.raises(UserError, match="installed in guests alone; leave out --on host"):
        programs.describe_programs(folder, None)


def test_disk_that_is_full_in_an_image_build_is_not_blamed_on_the_folder(tmp_path: Path) -> None:
    folder = build_package(tmp_path / "debs", "hostapd").parent

    def build_image() -> list[GuestImage]:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "cache")

    with pytest.raises(OSError, match="No space left on device: 'cache'"):
        programs.describe_programs(folder, build_image)


def test_everything_that_the_loader_misses_is_named() -> None:
    output = (
        "./hostapd: /lib/x86_64-linux-gnu/libc.so.6: version `GLIBC_2.38' not found (required by "
        "./hostapd)\n./hostapd: /lib/x86_64-linux-gnu/libssl.so.3: version `OPENSSL_3.2.0' not "
        "found (required by ./hostapd)\n./charon: error while loading shared libraries: "
        "libcharon.so.0: cannot open shared object file: No such file or directory\n"
        "./hostapd: symbol lookup error: ./hostapd: undefined symbol: nl_socket_x\n")
    assert programs.list_missing(output) == [
        "GLIBC_2.38", "OPENSSL_3.2.0", "libcharon.so.0", "nl_socket_x"]


def test_users_freeradius_loads_its_own_modules(tmp_path: Path) -> None:
    modules, file = tmp_path / "lib" / "freeradius", tmp_path / "radiusd.conf"
    file.write_text("name = radiusd\nlibdir = /usr/lib/freeradius\n")
    program = str(tmp_path / "sbin" / "radiusd")
    replaced_programs.use_own_modules(program, file)
    assert "libdir = /usr/lib/freeradius\n" in file.read_text()
    modules.mkdir(parents=True)
    (modules / "rlm_eap.so").touch()
    replaced_programs.use_own_modules(program, file)
    assert f"libdir = {modules}\n" in file.read_text()


@pytest.mark.guest
@pytest.mark.shareable
def test_program_for_another_c_library_is_refused_in_one_line(qop: Qop) -> None:
    """The loader of the testbed's own system says what is missing."""
    patch(copy_program("hostapd", qop.folder / "own"), b"\0GLIBC_2.34\0", b"\0GLIBC_9.99\0")
    done = qop("run", "--programs", "own", "--dry-run")
    assert done.returncode == 2 and done.stderr.count("\n") == 1, done.stderr
    assert ("own/hostapd cannot run on Debian bookworm of the testbed, which lacks GLIBC_9.99; "
            "build it there") in done.stderr


@pytest.mark.guest
@pytest.mark.shareable
def test_package_that_the_release_cannot_install_is_refused_in_one_line(qop: Qop) -> None:
    """dpkg of the testbed's own system says which package is missing."""
    build_package(qop.folder / "debs", "hostapd", depends="libhostap9 (>= 9)")
    done = qop("run", "--programs", "debs", "--dry-run")
    assert done.returncode == 2 and done.stderr.count("\n") == 1, done.stderr
    assert ("--programs debs: Debian bookworm cannot install these packages (hostapd needs "
            "libhostap9 (>= 9)); add what they need to the folder") in done.stderr


# --- Measurements ---


@pytest.fixture
def own(qop: Qop) -> Path:
    """All four daemons of Debian's, each with a version of its own."""
    folder = qop.folder / "own"
    for name, old, new in (("hostapd", b"2.10", b"2.77"),
                           ("wpa_supplicant", b"2.10", b"2.78"),
                           ("freeradius", b"3.2.1", b"3.2.9"), ("charon", b"", b"")):
        patch(copy_program(name, folder), old, new)
    return folder


@pytest.mark.guest
@pytest.mark.shareable
def test_own_programs_are_measured_proven_and_recorded(qop: Qop, own: Path) -> None:
    """802.1X, IPsec: all checks hold; the record names file, version and hash of each program."""
    done, records = qop.run("results", "--programs", "own", "--policies", "P12",
                            "--repetitions", "1")
    assert done.returncode == 0, done.stderr
    [entry] = records.values()
    assert entry.status == "ok" and all(check.ok for check in entry.evidence)
    recorded = entry.environment["programs"]
    assert {name: program["version"] for name, program in recorded.items()} == {
        "hostapd": "v2.77", "wpa_supplicant": "v2.78", "freeradius": "3.2.9", "charon": "5.9.8"}
    assert recorded["hostapd"]["file"] == "own/hostapd"
    assert recorded["hostapd"]["sha256"] == replaced_programs.hash_file(own / "hostapd")
    assert entry.environment["wpasupplicant"] == "v2.78 (own/wpa_supplicant)"
    assert qop("verify", "results").returncode == 0
    (own / "hostapd").write_bytes(copy_program("hostapd", qop.folder / "other").read_bytes())
    done = qop("run", "--out", "results", "--programs", "own", "--policies", "P12",
               "--stream-bytes", "200k", "--scenarios", "N2", "--repetitions", "1")
    assert done.returncode == 2 and "programs" in done.stderr, done.stderr


@pytest.mark.guest
@pytest.mark.shareable
def test_negative_control_fails_with_own_programs(qop: Qop, own: Path) -> None:
    assert own.exists()
    done, records = qop.run("results", "--programs", "own", "--policies", "P2", "--fault",
                            "no-wep", "--repetitions", "1")
    assert done.returncode == 1
    assert [entry.status for entry in records.values()] == ["failed"]


@pytest.mark.guest
@pytest.mark.shareable
def test_defect_of_the_users_build_fails_the_repetition(qop: Qop) -> None:
    """A wpa_supplicant that never says that it has connected: so this program is the one in use."""
    patch(copy_program("wpa_supplicant", qop.folder / "own"), b"CTRL-EVENT-CONNECTED",
          b"CTRL-EVENT-UNCERTAIN")
    done, records = qop.run("results", "--programs", "own", "--policies", "P2",
                            "--repetitions", "1")
    assert done.returncode == 1, done.stdout
    assert [entry.status for entry in records.values()] == ["failed"]


@pytest.mark.guest
@pytest.mark.shareable
@pytest.mark.parametrize("release", ["bookworm", "trixie"])
def test_packages_are_installed_measured_and_recorded(qop: Qop, release: str) -> None:
    """A version that no archive has: the guest's dpkg, plan and record name it."""
    folder = qop.folder / "debs"
    program = copy_program("hostapd", qop.folder / "own")
    file = build_package(folder, "hostapd", "9:2.77-1", program=program)
    done, records = qop.run("results", "--programs", "debs", "--release", release, "--policies",
                            "P8", "--repetitions", "1")
    assert done.returncode == 0, done.stderr
    [entry] = records.values()
    assert entry.status == "ok" and entry.environment["debian"] == release
    assert entry.environment["hostapd"] == "9:2.77-1"
    assert entry.environment["programs"] == {"hostapd": {
        "file": f"debs/{file.name}", "version": "9:2.77-1",
        "sha256": replaced_programs.hash_file(file)}}
    told = f"hostapd 9:2.77-1 (debs/{file.name})"
    assert told in qop("status", "results").stdout
    assert told in " ".join(qop("report", "results").stdout.split())
    assert qop("verify", "results").returncode == 0


@pytest.mark.guest
@pytest.mark.shareable
def test_defect_of_a_package_fails_the_repetition(qop: Qop) -> None:
    """A wpa_supplicant that never says that it has connected: so the package is in use."""
    program = copy_program("wpasupplicant", qop.folder / "own")
    patch(program, b"CTRL-EVENT-CONNECTED", b"CTRL-EVENT-UNCERTAIN")
    build_package(qop.folder / "debs", "wpasupplicant", "9", program=program)
    done, records = qop.run("results", "--programs", "debs", "--policies", "P2",
                            "--repetitions", "1")
    assert done.returncode == 1, done.stdout
    assert [entry.status for entry in records.values()] == ["failed"]
