"""Libraries that are preloaded in a guest, and other objects loaded there, fit its C library."""

from __future__ import annotations

import dataclasses
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import plans
import studies
from elf_objects import find_misfits, make_newer_object
from guest import elf, image, libraries, root
from guest.build import BuildCommands, BuildError, BuildProgress
from guest.releases import DEFAULT, RELEASES
from harness.engine import machine, setup
from harness.errors import UserError
from measure.charging import library

#: Objects of the root that every program there has loaded.
_ALWAYS = tuple(f"usr/lib/x86_64-linux-gnu/{name}" for name in (
    "libc.so.6", "ld-linux-x86-64.so.2"))
needs_compiler = pytest.mark.skipif(
    not (shutil.which("cc") and shutil.which("readelf")), reason="needs cc and readelf")


def built_images() -> dict[str, image.GuestImage]:
    """The plain image, and each release, variant and study's packages that is built, by name."""
    found = {"plain": image.ensure_image(),
             "mininet-wifi": image.find_image(variant=image.MININET_WIFI),
             **{suite: image.find_image(release=release) for suite, release in RELEASES.items()}}
    for study in studies.study_names():
        for name, packages in setup.read_declared_packages(study).items():
            found[f"{study}-{name}"] = image.find_image(packages=packages)
    return {name: built for name, built in found.items() if built is not None}


@pytest.mark.guest
@pytest.mark.shareable
def test_no_object_loaded_in_a_guest_needs_a_symbol_the_root_lacks() -> None:
    """Preloaded libraries, the kernel, and every program and library of a root.

    Those that no package of Debian's brought are pip's wheels, Mininet-WiFi's programs and
    strongSwan with ML-KEM.
    """
    for name, built in built_images().items():
        found = elf.read_squashfs(built.root, "amd64")
        assert any("cryptography" in path for path in found.list_own()), name
        assert find_misfits(found) == [], name
        always = [item for path in _ALWAYS if (item := found.find_object(path))]
        preloaded = sorted(built.libraries.glob("*.so"))
        assert [path.stem for path in preloaded] == [path.stem for path in libraries.list_sources()]
        # Programs that preload them, such as tcpdump, need not have loaded libm or Python.
        for path in preloaded:
            assert elf.list_lacking(elf.parse_object(path.read_bytes()), always) == [], (name, path)
        found.add_file("opt/kernel", built.kernel.read_bytes())
        assert found.describe_misfits("opt/kernel") == [], name


@pytest.mark.guest
@pytest.mark.shareable
def test_c_library_of_the_root_is_the_one_that_objects_are_judged_by() -> None:
    """Its newest version is known, and no other one."""
    with subprocess.Popen(["sqfs2tar", "--no-xattr", str(image.ensure_image().root)],
                          stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        c_library = elf.read_tar(process.stdout, "amd64").find_object(_ALWAYS[0])
    assert c_library is not None
    versions = {tuple(map(int, found.groups())) for symbol in c_library.defined
                if (found := re.search(r"@GLIBC_(\d+)\.(\d+)", symbol))}
    assert max(versions) == libraries.C_LIBRARY


@pytest.mark.parametrize("study", studies.study_names())
def test_studies_bring_no_machine_code(study: str) -> None:
    """What a worker gets as code is text; programs come with packages, built in a root."""
    assert not [name for name, file in machine._list_files(study)
                if elf.is_object(file.content)]


@needs_compiler
def test_object_of_a_study_for_a_newer_c_library_is_refused(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its name may say nothing, and any object of the study counts; text does not."""
    newer = make_newer_object(tmp_path / "newer").read_bytes()
    (tmp_path / "study/tools").mkdir(parents=True)
    (tmp_path / "study/notes.txt").write_bytes(b"GLIBC_2.99")
    monkeypatch.setattr(machine, "study_folder", lambda _: tmp_path / "study")
    monkeypatch.setattr(machine, "place_of_study", lambda _: "studies/mine")
    assert machine.find_foreign_object("mine") == ""
    (tmp_path / "study/tools/counter").write_bytes(newer)
    assert machine.find_foreign_object("mine") == (
        "studies/mine/tools/counter: needs GLIBC_2.38, and Debian bookworm has 2.36")
    assert machine.find_foreign_object("mine", "arm64") == (
        "studies/mine/tools/counter: is not for arm64")


@pytest.mark.parametrize("on", ["guest", "vm"])
def test_object_of_a_study_is_refused_before_an_image_is_built(monkeypatch: pytest.MonkeyPatch,
                                                               on: str) -> None:
    """Building takes minutes; this host's own kernel runs what this host's compiler made."""
    plan = plans.plan_of(plans.policies(1), "N2", repetitions=1, clock="real")
    monkeypatch.setattr(setup, "find_foreign_object", lambda *_: "studies/mine/counter: is old")
    monkeypatch.setattr(setup, "_make_machine", lambda _: pytest.fail("an image is built"))
    with pytest.raises(UserError, match=r"^studies/mine/counter: is old; compile it there"):
        setup.make_machine_for_plan(
            dataclasses.replace(plan, settings=dataclasses.replace(plan.settings, on=on)))


def test_newest_version_of_the_c_library_counts() -> None:
    """Names stand one behind the other; 2.9 is older than 2.36, and minor numbers do not matter."""
    def make(*versions: str) -> bytes:
        head = b"\x7fELF" + bytes(14) + (62).to_bytes(2, "little")
        return head + b"\0" + b"".join(f"GLIBC_{each}\0".encode() for each in versions)

    assert libraries.describe_misfit(make("2.9", "2.36", "2.2.5")) == ""
    for newer in ("2.37", "2.38.1", "3.0"):
        assert "needs GLIBC_" in libraries.describe_misfit(make("2.2.5", newer, "2.34"))


#: The header of an object without sections.
STATIC_OBJECT = b"\x7fELF\x02\x01" + bytes(58)


class NoCommands(BuildCommands):
    """Keeps the command that it is given, and says what mmdebstrap would."""

    def __init__(self, folder: Path) -> None:
        super().__init__("libraries", folder / "log")
        self.given: list[str] = []

    def run(self, command: Any, *, each_line: Any = None, environment: Any = None,
            may_fail: bool = False) -> str:
        """Say what a build's hooks say."""
        self.given = list(command)
        for name in ("libc.so.6", *(f"../{path.stem}.so" for path in libraries.list_sources())):
            (self.log.parent / "c-library" / name).write_bytes(STATIC_OBJECT)
        for line in ("I: running hooks", "@compiler 12.2.0"):
            each_line(line)
        return ""


@needs_compiler
def test_library_that_needs_more_than_the_c_library_is_not_built(tmp_path: Path) -> None:
    """One line names it; the symbol of a newer C library has no version there."""
    c_library = tmp_path / "libc.so.6"
    for made, code in ((c_library, "long strtol(void) { return 0; }"),
                       (tmp_path / "fits.so", "long strtol(void); long a(void) {return strtol();}"),
                       (tmp_path / "copies.so",
                        "long __isoc23_strtol(void); long b(void) {return __isoc23_strtol();}")):
        (tmp_path / "code.c").write_text(code)
        subprocess.run([*library.ARGV, "-w", "-fno-builtin", "-o", made, tmp_path / "code.c"],
                       check=True)
    libraries.check_symbols([tmp_path / "fits.so"], [c_library], DEFAULT)
    with pytest.raises(BuildError) as refusal:
        libraries.check_symbols([tmp_path / "fits.so", tmp_path / "copies.so"], [c_library],
                                DEFAULT)
    assert str(refusal.value) == ("building the preloaded libraries failed: copies.so: needs "
                                  "__isoc23_strtol, which Debian 12 lacks; change copies.c")


def test_libraries_are_compiled_in_a_root_of_the_guests_suite(tmp_path: Path) -> None:
    """Not by a compiler of this machine; the manifest names the one that did."""
    commands = NoCommands(tmp_path)
    manifest = libraries.build(tmp_path, commands, BuildProgress("libraries", libraries.EXPECTED_S))
    assert manifest == {"suite": root.SUITE, "compiler": "gcc 12.2.0"}
    assert {root.SUITE, "/dev/null", "--include=gcc,libc6-dev"} <= set(commands.given)
    for source in libraries.list_sources():
        assert any(f"{source.stem}.so" in word and "download" in word for word in commands.given)
    assert not (tmp_path / "c-library").exists()


def test_key_follows_sources_and_environment(tmp_path: Path,
                                             monkeypatch: pytest.MonkeyPatch) -> None:
    """Another source, or another suite, is another set of libraries and the same kernel."""
    for source in libraries.list_sources():
        shutil.copy(source, tmp_path)
    keys: Mapping[str, str] = {part.name: part.recipe.key() for part in image.list_image_parts()}
    assert list(keys) == list(image.PARTS)
    monkeypatch.setattr(libraries, "SOURCES", tmp_path)
    assert libraries.key() == keys["libraries"]
    with (tmp_path / "copies.c").open("a") as file:
        file.write("/* more */\n")
    assert libraries.key() != keys["libraries"]
    assert keys["kernel"] == image.list_image_parts()[0].recipe.key()


def test_image_without_libraries_is_not_built(tmp_path: Path) -> None:
    """A run builds what is missing, and no more."""
    for part in image.list_image_parts(tmp_path):
        assert image.find_image(tmp_path) is None
        part.store.find_or_build(part.recipe.key(), lambda _: {"seccomp": True})
    found = image.find_image(tmp_path)
    assert found is not None and found.libraries.name == libraries.key()
    assert os.fspath(found.libraries.parent) == f"{tmp_path}/libraries"
