"""Read programs and shared libraries (ELF), and find symbols that a root file system lacks.

The root file system of a guest (the virtual machine of a test network) may contain programs that
were compiled outside of Debian. When it is built, `read_squashfs` reads all its programs and
libraries, and `RootObjects` finds those that the guest could not load. `parse_object` reads one
file. `is_for` says whether a file of a user or a study is for the guest's processor. The files are
read and never run, so those of another processor architecture can be checked, too.
"""

from __future__ import annotations

import posixpath
import struct
import subprocess
import tarfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, NamedTuple

_MAGIC = b"\x7fELF"
#: Class and byte order that are read: 64 bits, little endian, as on amd64 and arm64.
_CLASS_AND_ORDER = b"\x02\x01"
#: Place of the processor's number in an object, and these numbers by Debian's names.
_PROCESSOR_AT = slice(18, 20)
_PROCESSORS = {"amd64": 62, "arm64": 183}
#: Debian's folders of libraries, by architecture, below /usr/lib.
TRIPLETS = {"amd64": "x86_64-linux-gnu", "arm64": "aarch64-linux-gnu"}
# Types of sections, tags of the dynamic section, and bindings of symbols (System V ABI, gABI 4.1;
# versions: Linux Standard Base, "Symbol Versioning").
_DYNAMIC, _DYNSYM = 6, 11
_VERSIONS_DEFINED, _VERSIONS_NEEDED, _VERSIONS_OF_SYMBOLS = 0x6FFFFFFD, 0x6FFFFFFE, 0x6FFFFFFF
_TAG_NEEDED, _TAG_RPATH, _TAG_RUNPATH = 1, 15, 29
_UNDEFINED, _LOCAL, _GLOBAL = 0, 0, 1
_VERSION_MASK = 0x7FFF
#: Type of a compiler's object, which no loader loads, also one for the kernel's eBPF.
_RELOCATABLE = 1
_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_DYNAMIC_ENTRY = struct.Struct("<qQ")


class ElfError(Exception):
    """An error: an object cannot be read. The text says why."""


@dataclass(frozen=True)
class ElfObject:
    """A program or shared library of machine code.

    - `needed`: names of the libraries that the loader loads with it
    - `search`: folders in which the loader looks for these first (RPATH, RUNPATH)
    - `wanted`: dynamic symbols that it must find, as SYMBOL or SYMBOL@VERSION
    - `defined`: dynamic symbols that it has, each also without its version
    """

    processor: int
    needed: tuple[str, ...] = ()
    search: tuple[str, ...] = ()
    wanted: frozenset[str] = frozenset()
    defined: frozenset[str] = frozenset()


class _Section(NamedTuple):
    """A section of an object: its type, content, linked section and number of entries."""

    type: int
    content: bytes
    link: int
    info: int


def is_object(content: bytes) -> bool:
    """Return whether a file's content is a program or library of machine code."""
    return content.startswith(_MAGIC)


def is_for(content: bytes, architecture: str) -> bool:
    """Return whether a program or library is for an architecture, named as Debian names it."""
    return int.from_bytes(content[_PROCESSOR_AT], "little") == _PROCESSORS.get(architecture)


def parse_object(content: bytes) -> ElfObject:
    """Return what the loader of programs reads of an object.

    Raises:
        ElfError: The object is damaged, or not of 64 bits and little endian.
    """
    if not is_object(content):
        raise ElfError("is no program or library")
    if content[4:6] != _CLASS_AND_ORDER:
        raise ElfError("is not of 64 bits and little endian")
    try:
        return _parse_sections(int.from_bytes(content[_PROCESSOR_AT], "little"),
                               _read_sections(content))
    except (struct.error, IndexError, ValueError) as error:
        raise ElfError(f"is damaged ({error})") from None


def _read_sections(content: bytes) -> list[_Section]:
    (*_, begin, _, _, _, _, size, count, _) = _HEADER.unpack_from(content)
    sections = []
    for number in range(count):
        _, kind, _, _, at, length, link, info, *_ = _SECTION.unpack_from(
            content, begin + number * size)
        sections.append(_Section(kind, content[at:at + length], link, info))
    return sections


def _parse_sections(processor: int, sections: list[_Section]) -> ElfObject:
    by_type = {section.type: section for section in sections}
    if _DYNSYM not in by_type:
        return ElfObject(processor)  # a static program, or the object of a compiler
    symbols = by_type[_DYNSYM]
    needed, search = [], []
    if dynamic := by_type.get(_DYNAMIC):
        for tag, value in _DYNAMIC_ENTRY.iter_unpack(dynamic.content):
            if tag == _TAG_NEEDED:
                needed.append(_read_text(sections[dynamic.link], value))
            elif tag in (_TAG_RPATH, _TAG_RUNPATH):
                search += _read_text(sections[dynamic.link], value).split(":")
    versions = _read_versions(sections, by_type)
    of_symbols = by_type.get(_VERSIONS_OF_SYMBOLS)
    numbers = [number & _VERSION_MASK for number, in struct.iter_unpack(
        "<H", of_symbols.content)] if of_symbols else []
    wanted, defined = set(), set()
    for index, (name_at, info, _, section, _, _) in enumerate(
            _SYMBOL.iter_unpack(symbols.content)):
        binding = info >> 4
        if binding == _LOCAL or not name_at or (section == _UNDEFINED and binding != _GLOBAL):
            continue
        name = _read_text(sections[symbols.link], name_at)
        version = versions.get(numbers[index]) if numbers else None
        full = f"{name}@{version}" if version else name
        if section == _UNDEFINED:
            wanted.add(full)
        else:
            defined |= {name, full}
    return ElfObject(processor, tuple(needed), tuple(search), frozenset(wanted),
                     frozenset(defined))


def _read_versions(sections: list[_Section], by_type: Mapping[int, _Section]) -> dict[int, str]:
    """Return the names of symbol versions by their numbers in an object."""
    versions = {}
    if defined := by_type.get(_VERSIONS_DEFINED):
        at = 0
        for _ in range(defined.info):
            _, _, number, _, _, first, following = struct.unpack_from("<HHHHIII", defined.content,
                                                                     at)
            name_at, = struct.unpack_from("<I", defined.content, at + first)
            versions[number & _VERSION_MASK] = _read_text(sections[defined.link], name_at)
            at += following
    if wanted := by_type.get(_VERSIONS_NEEDED):
        at = 0
        for _ in range(wanted.info):
            _, count, _, first, following = struct.unpack_from("<HHIII", wanted.content, at)
            place = at + first
            for _ in range(count):
                _, _, number, name_at, step = struct.unpack_from("<IHHII", wanted.content, place)
                versions[number & _VERSION_MASK] = _read_text(sections[wanted.link], name_at)
                place += step
            at += following
    # The first version that an object defines is its own name, which symbols without one have.
    return {number: name for number, name in versions.items() if number > 1}


def _read_text(table: _Section, at: int) -> str:
    return table.content[at:table.content.index(b"\0", at)].decode(errors="replace")


# --- Objects of a root file system ---

#: Folders in which the loader looks for libraries, without that of the architecture.
_LIBRARY_FOLDERS = ("usr/lib", "lib")
#: Folders of a root for what no Debian package brings.
_OWN_FOLDERS = ("opt/", "usr/local/")
_MOST_LINKS = 40


@dataclass
class RootObjects:
    """The programs and libraries of a root file system, and its symbolic links.

    Both are by their paths in the root, without a leading slash. `unread` has the objects that
    cannot be read, with the reason.
    """

    architecture: str
    objects: dict[str, ElfObject] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)
    unread: dict[str, str] = field(default_factory=dict)
    _symbols: dict[str, frozenset[str]] = field(default_factory=dict)

    def add_file(self, path: str, content: bytes) -> None:
        """Add a file if it is a program or library."""
        if not is_object(content) or int.from_bytes(content[16:18], "little") == _RELOCATABLE:
            return
        try:
            self.objects[path] = parse_object(content)
        except ElfError as error:
            self.unread[path] = str(error)

    def list_own(self) -> list[str]:
        """Return the paths of objects that no Debian package brings."""
        return sorted(path for path in (*self.objects, *self.unread)
                      if path.startswith(_OWN_FOLDERS))

    def find_object(self, path: str) -> ElfObject | None:
        """Return the object at a path, with symbolic links followed, None if there is none."""
        return self.objects.get(self._resolve_links(path))

    def load_program(self, path: str) -> tuple[dict[str, ElfObject], list[str]]:
        """Return an object and all libraries that it needs at any depth, by path.

        The second value has the names of libraries that the root lacks. A library that one object
        of a program finds is there for all others, too.
        """
        loaded, names, found, waiting = {}, set(), set(), [self._resolve_links(path)]
        while waiting:
            place = waiting.pop()
            if place in loaded:
                continue
            loaded[place] = self.objects[place]
            for name in loaded[place].needed:
                names.add(name)
                library = self._find_library(name, place)
                if library is not None:
                    found.add(name)
                    waiting.append(library)
        return loaded, sorted(names - found)

    def describe_misfits(self, path: str) -> list[str]:
        """Return what the root lacks for an object to be loaded, one line each, [] if nothing.

        A library without some symbols or libraries may be a plug-in, or a part of one program. Then
        one program that may load it must have all of them, with the libraries of that program.
        """
        if path in self.unread:
            return [f"{path}: {self.unread[path]}"]
        wanting = self.objects[path]
        if wanting.processor != _PROCESSORS[self.architecture]:
            return [f"{path}: is not for {self.architecture}"]
        loaded, missing = self.load_program(path)
        lacking = list_lacking(wanting, loaded.values())
        if (lacking or missing) and any(
                self._list_symbols(program).issuperset((*lacking, *missing))
                for program in self._list_loaders(path)):
            return []
        return [*(f"{path}: lacks the library {name}" for name in missing),
                *(f"{path}: lacks {symbol}" for symbol in lacking)]

    def _list_loaders(self, path: str) -> list[str]:
        """Return the programs that may load a plug-in.

        One below /opt is loaded by programs of the same folder there, or by Python.
        """
        own = path.startswith(_OWN_FOLDERS)
        places = ("/".join(path.split("/")[:2]) + "/", "usr/bin/python3") if own else ("",)
        return [place for place in self.objects
                if place.startswith(places) and ".so" not in posixpath.basename(place)]

    def _list_symbols(self, program: str) -> frozenset[str]:
        """Return the symbols that a program has with all its libraries, and their names."""
        if program not in self._symbols:
            loaded, missing = self.load_program(program)
            names = {name for item in loaded.values() for name in item.needed}.difference(missing)
            self._symbols[program] = frozenset(names).union(
                *(item.defined for item in loaded.values()))
        return self._symbols[program]

    def _find_library(self, name: str, of: str) -> str | None:
        """Return the path of a library that an object needs."""
        folder = posixpath.dirname(of)
        searched = [place.replace("$ORIGIN", folder).replace("${ORIGIN}", folder).strip("/")
                    for place in self.objects[of].search]
        for place in (*searched, *(f"{each}/{TRIPLETS[self.architecture]}"
                                   for each in _LIBRARY_FOLDERS), *_LIBRARY_FOLDERS):
            found = self._resolve_links(posixpath.normpath(f"{place}/{name}"))
            if found in self.objects:
                return found
        return None

    def _resolve_links(self, path: str) -> str:
        """Return a path without symbolic links."""
        done: list[str] = []
        parts, followed = path.split("/")[::-1], 0
        while parts:
            part = parts.pop()
            if part in ("", "."):
                continue
            if part == "..":
                del done[-1:]
                continue
            target = self.links.get("/".join([*done, part]))
            if target is None or (followed := followed + 1) > _MOST_LINKS:
                done.append(part)
                continue
            if target.startswith("/"):
                done.clear()
            parts += target.split("/")[::-1]
        return "/".join(done)


def list_lacking(wanting: ElfObject, loaded: Iterable[ElfObject]) -> list[str]:
    """Return the symbols that an object must find, and neither it nor a loaded object has."""
    had = wanting.defined.union(*(item.defined for item in loaded))
    return sorted(wanting.wanted - had)


def read_tar(stream: IO[bytes], architecture: str) -> RootObjects:
    """Return the objects of a root file system in a tar."""
    found = RootObjects(architecture)
    with tarfile.open(fileobj=stream, mode="r|*") as tar:
        for member in tar:
            path = posixpath.normpath(member.name).lstrip("/")
            if member.issym():
                found.links[path] = member.linkname
            elif member.islnk():
                found.links[path] = f"/{posixpath.normpath(member.linkname).lstrip('/')}"
            elif member.isfile():
                content = tar.extractfile(member)
                assert content is not None  # it is a file
                head = content.read(len(_MAGIC))
                if is_object(head):
                    found.add_file(path, head + content.read())
    return found


def read_squashfs(file: Path, architecture: str) -> RootObjects:
    """Return the objects of a root file system in a squashfs file.

    Raises:
        ElfError: The file cannot be unpacked.
    """
    with subprocess.Popen(["sqfs2tar", "--no-xattr", str(file)], stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None  # it is a pipe
        try:
            return read_tar(process.stdout, architecture)
        except tarfile.TarError as error:
            raise ElfError(f"{file.name} cannot be unpacked ({error})") from None
