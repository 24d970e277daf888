"""Read the file packages.yml, in which a study asks for further packages in its guests.

A guest is the virtual machine in which a study is measured. `load_variants` takes the name of the
study. It returns for each named guest the Debian packages, Python packages and programs built from
source to install there. A mistake in the file gives a message of one line.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

import studies
from studies.contract import describe_refusal
from studies.study import StudyError
from topologies import yaml_reader
from topologies.errors import TopologyError

FILE = "packages.yml"
_Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,30}$")]
_Package = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9.+-]+$")]  # Debian's rule for names
_REQUIREMENT = re.compile(
    r"[A-Za-z0-9][\w.-]*==[^\s;]+(\s*;[^-]*)?(\s+--hash=sha256:[0-9a-f]{64})+")
_WORDS = {"debian": "a Debian package's name has small letters, digits, '.', '+' and '-'",
          "python": "name a file with hashes beside packages.yml",
          "compiled": "what is compiled is strongswan",
          "[key]": "a variant's name has small letters, digits and '-', at most 31"}
_FORM = "write 'NAME: {debian: [PACKAGE, ...], python: FILE.lock}', or 'NAME: {study: STUDY}'"


@dataclass(frozen=True)
class Variant:
    """Packages of a guest: Debian packages, and Python packages for the workload.

    `compiled` lists programs built from source, which the project knows how to build. `lock` is the
    text of `lock_file`, a requirements file with hashes. Both are "" if there is none.
    """

    debian: tuple[str, ...]
    lock_file: str = ""
    lock: str = ""
    compiled: tuple[str, ...] = ()


class _Entry(BaseModel):
    """A guest as packages.yml declares it. With `study`, the named study declares its packages."""

    model_config = ConfigDict(extra="forbid", strict=True)

    study: str = ""
    debian: list[_Package] = []
    python: Annotated[str, Field(pattern=r"^([A-Za-z0-9][\w.-]*)?$")] = ""
    compiled: list[Literal["strongswan"]] = []


_ENTRIES = TypeAdapter(dict[_Name, _Entry])


def packages_path(study: str) -> Path:
    """Return the path of a study's packages.yml, which may not exist."""
    return studies.study_folder(study) / FILE


def load_variants(study: str) -> dict[str, Variant]:
    """Return the guests that a study declares, by name.

    Without a file there are none.

    Raises:
        StudyError: the file is faulty.
    """
    return {name: (_find_variant if entry.study else _make_variant)(study, name, entry)
            for name, entry in _read_entries(study).items()}


def _name_file(study: str) -> str:
    return f"{studies.place_of_study(study)}/{FILE}"


def _read_entries(study: str) -> dict[str, _Entry]:
    """Return the entries of a study's packages.yml, which may not exist.

    Raises:
        StudyError: the file has another form.
    """
    file, where = packages_path(study), _name_file(study)
    if not file.is_file():
        return {}
    try:
        entries = _ENTRIES.validate_python(yaml_reader.read_mapping(file, _FORM))
    except TopologyError as error:
        raise StudyError(str(error).replace(str(file), where)) from None
    except ValidationError as error:
        place = error.errors()[0]["loc"]
        field = next((str(part) for part in reversed(place) if str(part) in _WORDS), "")
        raise StudyError(
            f"{where}: {describe_refusal(error)}; {_WORDS.get(field, _FORM)}") from None
    return entries


def _make_variant(study: str, name: str, entry: _Entry) -> Variant:
    """Return a guest as an entry declares it.

    Raises:
        StudyError: the entry has no package, or its requirements file is faulty.
    """
    if not entry.debian and not entry.python and not entry.compiled:
        raise StudyError(f"{_name_file(study)}: {name}: brings no package; {_FORM}, or leave it "
                         "out")
    return Variant(tuple(entry.debian), entry.python,
                   _read_lock(study, entry.python) if entry.python else "", tuple(entry.compiled))


def _find_variant(study: str, name: str, entry: _Entry) -> Variant:
    """Return the guest of this name that another study declares.

    Raises:
        StudyError: the other study does not declare it, or the entry has packages besides.
    """
    where = f"{_name_file(study)}: {name}"
    if entry.debian or entry.python or entry.compiled:
        raise StudyError(f"{where}: takes its packages from {entry.study}; leave out the others")
    other = _read_entries(entry.study) if entry.study in studies.study_names() else {}
    if name not in other or other[name].study:
        raise StudyError(f"{where}: {entry.study} declares no packages of this name; write the "
                         "name of a study that does")
    return _make_variant(entry.study, name, other[name])


def _to_single_line(message: str) -> str:
    return " ".join(message.split())[:200]


def _read_lock(study: str, name: str) -> str:
    """Read a requirements file with pinned versions and hashes.

    Raises:
        StudyError: it cannot be read, or a package has no hash.
    """
    where = f"{studies.place_of_study(study)}/{name}"
    try:
        text = packages_path(study).with_name(name).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise StudyError(
            f"{where}: cannot be read ({_to_single_line(str(error))}); give a requirements file "
            "with hashes") from None
    lines = [re.sub(r"(^|\s)#.*", "", line).strip()
             for line in re.sub(r"\\\n", " ", text).splitlines()]
    for line in filter(None, lines):
        if not _REQUIREMENT.fullmatch(line):
            raise StudyError(f"{where}: {line.split()[0]!r} is not pinned with its hash; make the "
                             "file with 'pip-compile --generate-hashes --no-emit-index-url'")
    return text
