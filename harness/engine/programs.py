"""Find the user's own daemons or Debian packages (`--programs FOLDER`), with their versions.

A run then uses the wpa_supplicant, hostapd, FreeRADIUS or charon in this folder instead of
Debian's, or installs the packages (.deb files) in place of the release's. `describe_programs` takes
the folder, and returns the version and hash of each program or package for plan and records. The
virtual machine of the test network sees the folder at the path that it has here, so an installation
below a prefix finds its libraries and plug-ins.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import shlex
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from guest import boot, elf, image
from guest.image import GuestImage
from harness.errors import UserError
from measure.services import replaced_programs

#: File names of each program that can be replaced, by the name that the testbed starts it by.
_FILES = {"wpa_supplicant": ("wpa_supplicant",), "hostapd": ("hostapd",),
          "freeradius": ("freeradius", "radiusd"), "charon": ("charon",)}
#: Places of programs below the folder: a flat folder, a prefix, hostap's source tree, and a package
#: that was unpacked.
_PLACES = ("", "sbin", "bin", "libexec/ipsec", "lib/ipsec", "hostapd", "wpa_supplicant",
           "usr/sbin", "usr/lib/ipsec")
#: Options that make a program print its version and end, and the line with it.
_VERSION_OPTIONS = {"charon": "--version"}
_VERSIONS = {"wpa_supplicant": r"wpa_supplicant (v\S+)", "hostapd": r"hostapd (v\S+)",
             "freeradius": r"FreeRADIUS Version ([^\s,]+)", "charon": r"strongSwan (\S+)"}
#: What the loader of programs prints about symbol versions, libraries and symbols that are missing.
_MISSING = re.compile(r"version `([^']+)' not found|loading shared libraries: ([^:]+): cannot open|"
                      r"(?:undefined symbol|symbol lookup error): (?:.*undefined symbol: )?(\S+)")
#: Folders in which a guest has files of its own.
_OF_THE_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc", "/dev", "/proc", "/sys",
                  "/host", "/opt/qop", "/boot", "/var/lib")
#: Their exception, which is empty in a guest.
_LOCAL = Path("/usr/local")
#: Limit of a guest in which programs print their versions.
_LIMIT_S = 60.0
_MEMORY_MB = 128
#: Limit and memory of a guest that installs packages.
INSTALLING_LIMIT_S = 300.0
_INSTALLING_MB = 256
_MARK = "@program "
#: Debian's name of the architecture of User-Mode Linux.
_GUESTS_ARCHITECTURE = "amd64"


def describe_programs(folder: Path, ensure_images: Callable[[], Sequence[GuestImage]] | None
                      ) -> dict[str, dict[str, str]]:
    """Return the programs or packages in a folder by names, as plan and records contain them.

    Each has its `file` as the user named it, the `version` that it prints (or the package has), and
    its `sha256`. If the folder has shared libraries, `libraries_sha256` is a hash of them all.

    Args:
        folder: The user's folder.
        ensure_images: Returns the guests' images, in each of which the programs must run. It is
            called after the cheap checks of files, as it may build an image for minutes. None if
            the programs will run on this machine.

    Raises:
        UserError: There is no program in the folder, or one cannot run in the testbed.
    """
    architecture = (_GUESTS_ARCHITECTURE if ensure_images is not None
                    else image.NATIVE_ARCHITECTURE)
    try:
        place = _resolve_folder(folder, is_mounted=ensure_images is not None)
        packages = sorted(place.glob(f"*{replaced_programs.PACKAGE_SUFFIX}"))
        files = {name: file for name in _FILES if (file := _find_file(place, name))}
        named = {name: folder / file.relative_to(place) for name, file in files.items()}
        if packages and files:
            raise UserError(f"--programs {folder}: has programs ({', '.join(files)}) and Debian "
                            "packages; give one of both in a folder of its own")
        if packages and ensure_images is None:
            raise UserError(f"--programs {folder}: Debian packages are installed in guests alone; "
                            "leave out --on host")
        described = _describe_packages(folder, packages)
        for name, file in files.items():
            _check_file(named[name], file, architecture)
        digests = {name: replaced_programs.hash_file(file) for name, file in files.items()}
        shared = _hash_libraries(place) if files else ""
    except OSError as error:
        raise UserError(f"--programs {folder}: {error.filename or folder}: cannot be read "
                        f"({error.strerror}); give a folder whose files can be read") from None
    if ensure_images is not None and packages:
        _try_packages(folder, place, packages, ensure_images())
        return described
    if not files:
        raise UserError(f"--programs {folder}: has none of {', '.join(_FILES)}, neither there nor "
                        f"in {', '.join(_PLACES[1:5])}; give the folder of a build, or of Debian "
                        "packages")
    outputs = {"this machine": _run_here(files)} if ensure_images is None else {
        f"Debian {built.manifest['root']['suite']} of the testbed":
        _split_output(asyncio.run(_run_in_guest(built, place, _version_script(files))))
        for built in ensure_images()}
    versions = {name: _read_version(name, named[name], output.get(name, ""), system)
                for system, output in outputs.items() for name in files}
    return {name: {"file": str(named[name]), "version": versions[name], "sha256": digests[name],
                   **({"libraries_sha256": shared} if shared else {})} for name in files}


def make_job_entry(folder: str, programs: Mapping[str, Mapping[str, str]], *,
                   is_mounted: bool) -> dict[str, object]:
    """Return what the worker must know of the replaced programs, {} without any.

    Args:
        folder: The user's folder, "" for none.
        programs: The programs as plan and records contain them.
        is_mounted: Whether the worker mounts the folder, which is the job's `programs`.
    """
    if not folder:
        return {}
    place = Path(folder).resolve()
    entries = {name: {**program, "path": str(place / Path(program["file"]).relative_to(folder))}
               for name, program in programs.items()}
    packages = {name: entry for name, entry in entries.items() if _is_package(entry)}
    return {"folder": str(place), "is_mounted": is_mounted, "packages": packages,
            "files": {name: entry for name, entry in entries.items() if name not in packages}}


def provision_limit_s(programs: Mapping[str, Mapping[str, str]]) -> float:
    """Return how many seconds a guest may take to install the user's packages.

    The result is 0 if the user has no packages.
    """
    return INSTALLING_LIMIT_S if any(map(_is_package, programs.values())) else 0.0


def _is_package(entry: Mapping[str, str]) -> bool:
    return entry["file"].endswith(replaced_programs.PACKAGE_SUFFIX)


def _resolve_folder(folder: Path, *, is_mounted: bool) -> Path:
    if not folder.is_dir():
        raise UserError(f"--programs {folder}: is no folder; give the folder of your build")
    place = folder.resolve()
    if is_mounted and place != _LOCAL and (len(place.parts) < 3 or any(
            place.is_relative_to(system) for system in _OF_THE_SYSTEM
            if not place.is_relative_to(_LOCAL))):
        raise UserError(f"--programs {folder}: a guest has files of its own in {place}; copy the "
                        "programs to another folder")
    if any(character in ",\n" or "\ud800" <= character <= "\udfff"
           for character in f"{folder}{place}"):
        raise UserError(f"--programs {folder}: its path has a comma, a line break, or bytes that "
                        "are not UTF-8; rename it")
    return place


def _find_file(place: Path, name: str) -> Path | None:
    return next((file for below in _PLACES for file_name in _FILES[name]
                 if (file := place / below / file_name).is_file()), None)


def _check_file(named: Path, file: Path, architecture: str) -> None:
    """Raise UserError if a file cannot be a program of the testbed."""
    content = file.read_bytes()
    if not elf.is_object(content):
        raise UserError(f"--programs: {named} is no program of machine code; give the compiled one")
    if not elf.is_for(content, architecture):
        raise UserError(f"--programs: {named} is for another processor than the testbed's "
                        f"{architecture}; build it for that")
    if not os.access(file, os.X_OK):
        raise UserError(f"--programs: {named} is not executable; give 'chmod +x {named}'")


def _version_script(files: Mapping[str, Path]) -> Iterator[str]:
    """Yield the lines of a shell script in which each program prints its version."""
    for name, file in files.items():
        option = _VERSION_OPTIONS.get(name, "-v")
        yield f"echo {shlex.quote(_MARK + name)}"
        yield f"LD_BIND_NOW=1 timeout 20 {shlex.quote(str(file))} {option} 2>&1 </dev/null"
    yield "exit 0"


def _run_here(files: Mapping[str, Path]) -> dict[str, str]:
    done = subprocess.run(["sh", "-c", "\n".join(_version_script(files))], capture_output=True,
                          text=True, errors="replace", check=False)
    return _split_output(done.stdout)


async def _run_in_guest(built: GuestImage, place: Path, lines: Iterable[str],
                        memory_mb: int = _MEMORY_MB, limit_s: float = _LIMIT_S) -> str:
    """Return the output of a shell script in a guest that sees the user's folder."""
    mount = replaced_programs.mount_commands(place)
    script = "\n".join([*(shlex.join(argv) for argv in mount), *lines])
    with tempfile.TemporaryDirectory(prefix="qop-programs-") as work:
        job = Path(work) / "job"
        job.mkdir()
        (job / replaced_programs.LINK).symlink_to(place)
        try:
            async with asyncio.timeout(limit_s), await boot.boot_guest(
                    built, job, memory_mb=memory_mb, console_log=Path(work) / "console",
                    scratch=Path(work) / "scratch", command=["sh", "-c", script]) as guest:
                return (await guest.stdout.read()).decode("utf-8", "replace")
        except (boot.GuestError, TimeoutError) as error:
            raise UserError(f"--programs: no guest could try the programs "
                            f"({str(error) or f'no answer in {limit_s:g} s'}); './qop doctor' "
                            "checks this machine", status=1) from None


def _split_output(output: str) -> dict[str, str]:
    """Return what each program printed, by its name."""
    parts = [part.partition("\n") for part in ("\n" + output).split(f"\n{_MARK}")[1:]]
    return {name.strip(): text for name, _, text in parts}


def _read_version(name: str, named: Path, output: str, system: str) -> str:
    if found := re.search(_VERSIONS[name], output):
        return found[1]
    missing = list_missing(output)
    if missing:
        raise UserError(f"--programs: {named} cannot run on {system}, which lacks "
                        f"{', '.join(missing)}; build it there")
    last = next((line for line in reversed(output.splitlines()) if line.strip()), "no output")
    raise UserError(f"--programs: {named} does not tell its version ({last.strip()[:120]}); "
                    f"'{named} {_VERSION_OPTIONS.get(name, '-v')}' has to print it")


def list_missing(output: str) -> list[str]:
    """Return the symbol versions, libraries and symbols that the loader of programs misses."""
    return list(dict.fromkeys(name for found in _MISSING.finditer(output)
                              for name in found.groups() if name))


def _hash_libraries(place: Path) -> str:
    """Return a hash of all shared libraries below a folder, "" if there are none."""
    found = sorted(_walk_libraries(place))
    if not found:
        return ""
    lines = [f"{file.relative_to(place)} {replaced_programs.hash_file(file)}\n" for file in found]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def _walk_libraries(place: Path) -> Iterator[Path]:
    for below, _, names in os.walk(place):
        files: Sequence[Path] = [Path(below, name) for name in names
                                 if name.endswith(".so") or ".so." in name]
        yield from (file for file in files if file.is_file())


# --- Debian packages ---

_INSTALLED = "@installed"
#: dpkg's lines about a dependency that is not met, and about any other error.
_UNMET = re.compile(r"^ (\S+) (?:pre-)?depends on (.+?); however:$", re.M)
_BREAKS = re.compile(r"^ (\S+ \(\S+\)) breaks (.+) and is installed\.$", re.M)
_DPKG_ERROR = re.compile(r"^dpkg: error(?: processing \S+ \S+ \(--\S+\))?: (.+)$", re.M)
_APT_UNMET = re.compile(r"^ (\S+) : Depends: (.+?)(?: but .+)?$", re.M)


def _describe_packages(folder: Path, files: Sequence[Path]) -> dict[str, dict[str, str]]:
    """Return the Debian packages of a folder by their names, with file, version and hash.

    Raises:
        OSError: A file cannot be read.
        UserError: A file is no package for guests.
    """
    found: dict[str, dict[str, str]] = {}
    for file in files:
        named = folder / file.name
        name, version, architecture = _read_package(file, named)
        if architecture not in ("all", _GUESTS_ARCHITECTURE):
            raise UserError(f"--programs: {named} is for {architecture}, and guests are "
                            f"{_GUESTS_ARCHITECTURE}; give the package for that")
        if name in found:
            raise UserError(f"--programs: {named} and {found[name]['file']} are both {name}; leave "
                            "one of them in the folder")
        found[name] = {"file": str(named), "version": version,
                       "sha256": replaced_programs.hash_file(file)}
    return found


def _try_packages(folder: Path, place: Path, files: Sequence[Path], images: Iterable[GuestImage]
                  ) -> None:
    """Install packages once in a guest of each image.

    Raises:
        UserError: A release cannot install them.
    """
    script = [shlex.join([*replaced_programs.INSTALL, *map(str, files)])
              + f" 2>&1 && apt-get check 2>&1 && echo {_INSTALLED}", "exit 0"]
    for built in images:
        output = asyncio.run(_run_in_guest(built, place, script, memory_mb=_INSTALLING_MB,
                                           limit_s=INSTALLING_LIMIT_S))
        if _INSTALLED not in output.splitlines():
            raise UserError(f"--programs {folder}: Debian {built.manifest['root']['suite']} "
                            f"cannot install these packages ({_find_obstacle(output)}); add what "
                            "they need to the folder, or choose another release")


def _read_package(file: Path, named: Path) -> tuple[str, str, str]:
    """Return name, version and architecture of a Debian package."""
    done = subprocess.run(["dpkg-deb", "--show", "--showformat",
                           "${Package}\n${Version}\n${Architecture}\n", str(file)],
                          capture_output=True, text=True, errors="replace", check=False)
    fields = done.stdout.splitlines()
    if done.returncode or len(fields) != len(("name", "version", "architecture")):
        raise UserError(f"--programs: {named} is no Debian package; give one that "
                        f"'dpkg-deb --info {named}' can read")
    return fields[0], fields[1], fields[2]


def _find_obstacle(output: str) -> str:
    """Return why dpkg could not install packages: a dependency or conflict, else its error."""
    for pattern, verb in ((_UNMET, "needs"), (_BREAKS, "breaks"), (_APT_UNMET, "needs")):
        if found := pattern.search(output):
            return f"{found[1]} {verb} {found[2]}"
    if found := _DPKG_ERROR.search(output):
        return found[1][:160]
    return next((line.strip() for line in reversed(output.splitlines()) if line.strip()),
                "no output")[:160]
