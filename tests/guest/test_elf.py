"""Programs and libraries that a root cannot load are found by reading them, on any processor."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from elf_objects import find_misfits, make_newer_object
from guest import debian, elf, image, libraries, root
from guest.build import BuildCommands, BuildError, BuildProgress
from guest.cache import BuildStore
from guest.releases import DEFAULT

needs_compiler = pytest.mark.skipif(not shutil.which("cc"), reason="needs cc")
needs_squashfs = pytest.mark.skipif(
    not (shutil.which("tar2sqfs") and shutil.which("sqfs2tar")), reason="needs squashfs-tools-ng")
ARM64 = 183
LIBRARIES = {name: f"usr/lib/{triplet}" for name, triplet in elf.TRIPLETS.items()}
#: Folder of the C library, also in a root that is only unpacked: /lib is no link to /usr/lib there.
UNPACKED = "lib/aarch64-linux-gnu"
VENV = "opt/qop/venv/lib/python3.11/site-packages"


def link(folder: Path, name: str, code: str, *arguments: str) -> bytes:
    """The content of an object that this machine's compiler links."""
    (folder / "code.c").write_text(code)
    subprocess.run(["cc", "-w", "-shared", "-fPIC", "-nostdlib", "-fno-builtin",
                    f"-Wl,-soname,{name}", "-o", name, "code.c", *arguments], cwd=folder,
                   check=True)
    return (folder / name).read_bytes()


def relabel(content: bytes, processor: int = ARM64) -> bytes:
    """An object as one of another processor: what the loader reads is laid out the same."""
    return content[:18] + processor.to_bytes(2, "little") + content[20:]


def make_root(files: Mapping[str, bytes], links: Mapping[str, str] | None = None,
              architecture: str = "amd64") -> elf.RootObjects:
    """A root with some files and symbolic links."""
    return elf.read_tar(io.BytesIO(pack(files, links)), architecture)


def pack(files: Mapping[str, bytes], links: Mapping[str, str] | None = None) -> bytes:
    """The tar of a root with some files and symbolic links."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(f"./{name}")
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
        for name, target in (links or {}).items():
            member = tarfile.TarInfo(f"./{name}")
            member.type, member.linkname = tarfile.SYMTYPE, target
            tar.addfile(member)
    return packed.getvalue()


@needs_compiler
def test_symbol_of_newer_c_library_is_reported(tmp_path: Path) -> None:
    """By name and version; one without a version may be of any."""
    newer = make_newer_object(tmp_path / "newer")
    older = link(tmp_path, "older.so", "long strtol(void) { return 0; }")
    needing = elf.parse_object(newer.read_bytes())
    assert elf.list_lacking(needing, [elf.parse_object(older)]) == ["__isoc23_strtol@GLIBC_2.38"]
    assert needing.needed == ("libc.so.6",)
    newer_libc = elf.parse_object((newer.parent / "libc.so.6").read_bytes())
    assert elf.list_lacking(needing, [newer_libc]) == []
    plain = elf.parse_object(link(tmp_path, "plain.so",
                                  "int other(void); int one(void) { return other(); }"))
    assert elf.list_lacking(plain, [newer_libc]) == ["other"]
    weak = elf.parse_object(link(tmp_path, "weak.so", "int other(void) __attribute__((weak));"
                                 "int one(void) { return other ? other() : 0; }"))
    assert elf.list_lacking(weak, []) == []


@needs_compiler
@pytest.mark.parametrize("architecture", ["amd64", "arm64"])
def test_symbol_of_a_library_that_is_not_loaded_is_reported(tmp_path: Path,
                                                            architecture: str) -> None:
    """The root has it, but not where the object that needs it looks; depth does not matter."""
    made = {}
    for name, code, *linked in (
            ("libdeep.so", "int deep(void) { return 0; }"),
            ("libnear.so", "extern int deep(void); int near(void) { return deep(); }",
             "libdeep.so"),
            ("program", "extern int near(void), deep(void);int a(void) { return near()+deep(); }",
             "libnear.so"),
            ("alone", "extern int deep(void); int b(void) { return deep(); }")):
        made[name] = relabel(link(tmp_path, name, code, *linked),
                             {"amd64": 62, "arm64": ARM64}[architecture])
    place = LIBRARIES[architecture]
    files = {f"{place}/libdeep.so.1": made["libdeep.so"], f"{place}/libnear.so": made["libnear.so"],
             "usr/bin/program": made["program"], "opt/one/alone.so": made["alone"]}
    links = {f"{place}/libdeep.so": "libdeep.so.1", "lib": "usr/lib"}
    whole = make_root(files, links, architecture)
    assert whole.describe_misfits("usr/bin/program") == []
    assert whole.describe_misfits("opt/one/alone.so") == ["opt/one/alone.so: lacks deep"]
    del files[f"{place}/libdeep.so.1"]
    assert make_root(files, links, architecture).describe_misfits("usr/bin/program") == [
        "usr/bin/program: lacks the library libdeep.so", "usr/bin/program: lacks deep"]


@needs_compiler
def test_plugin_has_the_symbols_of_a_program_that_loads_it(tmp_path: Path) -> None:
    """A program of its own folder below /opt, or Python; any other one loads no such plug-in."""
    plugin = link(tmp_path, "plugin.so", "int hook(void); int run(void) { return hook(); }")
    program = link(tmp_path, "program", "int hook(void) { return 0; }")
    for place, fits in (("opt/vpn/sbin/charon", True), ("usr/bin/python3.11", True),
                        ("opt/other/charon", False), ("usr/lib/ipsec/charon", False)):
        found = make_root({"opt/vpn/plugins/plugin.so": plugin, place: program})
        assert (found.describe_misfits("opt/vpn/plugins/plugin.so") == []) is fits, place


@needs_compiler
def test_library_that_a_program_finds_is_there_for_its_other_libraries(tmp_path: Path) -> None:
    """The program names the folder of both, as systemd's do."""
    deep = link(tmp_path, "libdeep.so", "int deep(void) { return 0; }")
    part = link(tmp_path, "libpart.so", "int deep(void); int part(void) { return deep(); }",
                "libdeep.so")
    code = "int part(void); int run(void) { return part(); }"
    private = "usr/lib/private"
    for search, lacks in (("-Wl,-rpath,/usr/lib/private", False), ("-Wl,-rpath,/usr", True)):
        program = link(tmp_path, "program", code, search, "-Wl,--no-as-needed", "libpart.so",
                       "libdeep.so")
        found = make_root({f"{private}/libdeep.so": deep, f"{private}/libpart.so": part,
                           "usr/bin/program": program})
        for path in ("usr/bin/program", f"{private}/libpart.so"):
            assert bool(found.describe_misfits(path)) is lacks, (path, search)


@needs_compiler
def test_library_beside_an_object_is_found_by_its_path(tmp_path: Path) -> None:
    """As in wheels, whose objects name $ORIGIN, and in what is installed to a prefix."""
    library_ = link(tmp_path, "libown.so", "int own(void) { return 0; }")
    for search, place in (("$ORIGIN/../wheel.libs", f"{VENV}/wheel.libs"),
                          ("/opt/vpn/lib", "opt/vpn/lib")):
        wanting = link(tmp_path, "wanting.so", "int own(void); int a(void) { return own(); }",
                       "libown.so", f"-Wl,-rpath,{search}")
        path = f"{VENV}/wheel/wanting.so"
        assert make_root({path: wanting, f"{place}/libown.so": library_}
                         ).describe_misfits(path) == []
        assert make_root({path: wanting, "usr/lib/elsewhere/libown.so": library_}
                         ).describe_misfits(path)[0] == f"{path}: lacks the library libown.so"


@needs_compiler
def test_damaged_and_foreign_objects_are_named(tmp_path: Path) -> None:
    """An object that was cut short, one of 32 bits, and one for another processor."""
    content = link(tmp_path, "whole.so", "int own(void) { return 0; }")
    found = make_root({"opt/cut.so": content[:-300], "opt/small.so": b"\x7fELF\x01\x01" + bytes(60),
                       "opt/foreign.so": relabel(content), "opt/text": b"no object"})
    assert found.list_own() == ["opt/cut.so", "opt/foreign.so", "opt/small.so"]
    assert found.describe_misfits("opt/cut.so")[0].startswith("opt/cut.so: is damaged")
    assert found.describe_misfits("opt/small.so") == [
        "opt/small.so: is not of 64 bits and little endian"]
    assert found.describe_misfits("opt/foreign.so") == ["opt/foreign.so: is not for amd64"]


@needs_compiler
def test_objects_of_a_compiler_are_not_loaded(tmp_path: Path) -> None:
    """Such as programs for the kernel's eBPF, which is another processor."""
    (tmp_path / "code.c").write_text("int other(void); int one(void) { return other(); }")
    subprocess.run(["cc", "-c", "-o", "code.o", "code.c"], cwd=tmp_path, check=True)
    content = (tmp_path / "code.o").read_bytes()
    assert make_root({"opt/code.o": relabel(content, 247)}).list_own() == []


@needs_squashfs
def test_damaged_root_is_named(tmp_path: Path) -> None:
    """Not by a traceback."""
    (tmp_path / "root.squashfs").write_bytes(b"hsqs")
    with pytest.raises(BuildError, match=r"failed: root.squashfs cannot be unpacked \(.*; try"):
        image._check_root(tmp_path, "amd64", DEFAULT)


def test_endless_links_end() -> None:
    """A link to itself leads to no object."""
    assert make_root({}, {"lib/a.so": "b.so", "lib/b.so": "a.so"}).find_object("lib/a.so") is None


class RootOf:
    """A recipe whose root file system is a tar."""

    EXPECTED_S: Mapping[str, float] = {"pack": 1.0}

    def __init__(self, packed: bytes) -> None:
        self.packed = packed

    def key(self) -> str:
        """Return the same key each time."""
        return "0123"

    def build(self, unfinished: Path, commands: BuildCommands,
              track: BuildProgress) -> Mapping[str, Any]:
        """Pack the root file system."""
        assert commands and track
        subprocess.run(["tar2sqfs", "--quiet", unfinished / "root.squashfs"], input=self.packed,
                       check=True)
        return {}


@needs_compiler
@needs_squashfs
@pytest.mark.parametrize("vm", ["", "amd64", "arm64"])
def test_root_with_an_object_that_it_cannot_load_is_not_built(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch, vm: str) -> None:
    """For every architecture and before it is in the cache; one line names the first object."""
    architecture = vm or "amd64"
    label = {"amd64": 62, "arm64": ARM64}[architecture]
    newer = make_newer_object(tmp_path / "newer")
    older = link(tmp_path, "libc.so.6", "long strtol(void) { return 0; }")
    files = {f"{LIBRARIES[architecture]}/libc.so.6": relabel(older, label),
             f"{VENV}/_rust.abi3.so": relabel(newer.read_bytes(), label),
             f"{VENV}/newer.so": relabel(newer.read_bytes(), label)}
    monkeypatch.setattr(image.platform, "machine", lambda: "x86_64")
    for packed, fits in ((pack(files), False),
                         (pack({**files, f"{LIBRARIES[architecture]}/libc.so.6": relabel(
                             (newer.parent / "libc.so.6").read_bytes(), label)}), True)):
        part = image.ImagePart(
            "root", BuildStore(tmp_path / f"roots-{fits}", "root file system"), RootOf(packed),
            image.list_image_parts(tmp_path, vm=vm)[1].check)
        if fits:
            image.build_all([part], tmp_path, lambda _: None)
            continue
        with pytest.raises(BuildError) as refusal:
            image.build_all([part], tmp_path, lambda _: None)
        assert str(refusal.value) == (
            f"building the root file system failed: Debian 12 on {architecture} cannot load "
            f"{VENV}/_rust.abi3.so: lacks __isoc23_strtol@GLIBC_2.38 (and 1 more); choose "
            "another version, or add the Debian package that it needs")
        assert part.store.find_build("0123") is None


def make_arm_root(folder: Path) -> elf.RootObjects:
    """A root of ARM with the worker's wheels, by default unpacked from packages.

    Neither an ARM processor nor an emulator is needed for that. QOP_TEST_ARM_ROOT names another
    root, a tar or squashfs file.
    """
    commands = BuildCommands("root of ARM", folder / "log")
    if given := os.environ.get("QOP_TEST_ARM_ROOT"):
        found = read_root(Path(given))
    else:
        names = root.parse_packages((root.ROLE / "defaults/main.yml").read_text())
        sources = debian.find_mirrors().source_lines(*DEFAULT.archive_suites)
        command = debian.build_mmdebstrap_command(DEFAULT.suite, str(folder / "root.tar"), sources,
                                                  names, [], architecture="arm64")
        commands.run([word.replace("--variant=apt", "--variant=extract") for word in command],
                     environment={**os.environ, "TMPDIR": str(folder)})
        found = read_root(folder / "root.tar")
        (folder / "root.tar").unlink()
    if found.list_own():
        return found
    root._fetch_wheels(folder, commands, "arm64", DEFAULT)
    for wheel in (folder / "wheels").glob("*.whl"):
        shutil.unpack_archive(wheel, folder / "unpacked", "zip")
    for path in (folder / "unpacked").rglob("*"):
        if path.is_file():
            found.add_file(f"{VENV}/{path.relative_to(folder / 'unpacked')}", path.read_bytes())
    return found


def read_root(file: Path) -> elf.RootObjects:
    """The objects of a root of ARM in a tar or squashfs file."""
    if file.suffix != ".tar":
        return elf.read_squashfs(file, "arm64")
    with file.open("rb") as packed:
        return elf.read_tar(packed, "arm64")


needs_time = pytest.mark.skipif("QOP_NO_TIME" in os.environ, reason="QOP_NO_TIME is set: a root of "
                                "ARM is 200 MB to unpack")


@pytest.mark.guest
@pytest.mark.shareable
@pytest.mark.slow
@needs_time
@pytest.mark.timeout(1800)
def test_no_object_of_an_arm_root_needs_a_symbol_it_lacks(tmp_path: Path) -> None:
    """Every program and library of Debian's packages and of the wheels.

    The image of `QOP_VM_ARCHITECTURE=aarch64 ./qop provision --on vm` counts, too, if it is built.
    """
    found = make_arm_root(tmp_path)
    assert len(found.objects) > 500
    assert any("cryptography" in path for path in found.list_own())
    assert find_misfits(found) == []
    c_library = found.find_object(f"{UNPACKED}/libc.so.6")
    assert c_library is not None
    assert any("@GLIBC_2.36" in symbol for symbol in c_library.defined)
    if built := image.find_image(vm="arm64"):
        assert find_misfits(elf.read_squashfs(built.root, "arm64")) == []


@pytest.mark.guest
@pytest.mark.shareable
@pytest.mark.slow
@needs_time
@pytest.mark.timeout(1800)
def test_preloaded_libraries_compile_for_arm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch
                                             ) -> None:
    """As on an ARM machine, by a cross compiler; the build checks that the C library suffices."""
    monkeypatch.setattr(libraries, "PACKAGES", ("gcc-aarch64-linux-gnu", "libc6-dev-arm64-cross"))
    monkeypatch.setattr(libraries, "_COMPILE",
                        libraries._COMPILE.replace("gcc ", "aarch64-linux-gnu-gcc "))
    monkeypatch.setattr(libraries, "_COPY_C_LIBRARY", libraries._COPY_C_LIBRARY.replace(
        "/lib/*-linux-gnu", "/usr/aarch64-linux-gnu/lib"))
    libraries.build(tmp_path, BuildCommands("libraries", tmp_path / "log"),
                    BuildProgress("libraries", libraries.EXPECTED_S))
    made = [*(f"{source.stem}.so" for source in libraries.list_sources()),
            *(path.stem for path in libraries.list_programs())]
    assert all(elf.is_for((tmp_path / name).read_bytes(), "arm64") for name in made)
