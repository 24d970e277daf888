"""Formats of pruned.json and of an archive's manifest.json, as pydantic models."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from topologies import wording

Choice = Literal["all", "failed", "none"]


class DocumentError(ValueError):
    """Text that is not the expected document. The message is one line for the user."""


class Removed(BaseModel):
    """Removed captures of one repetition: sizes in bytes by file name.

    The record's digest shows whether it is still the record that the captures belonged to.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    record_sha256: str
    files: dict[str, int]


class Pruned(BaseModel):
    """The format of pruned.json: captures that are absent by choice, by repetition."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)
    schema_: Literal[1] = Field(default=1, alias="schema")
    captures: dict[str, Removed] = {}

    def covers(self, name: str, record_sha256: str, file: str) -> bool:
        """Return whether a capture of exactly this record was removed by choice."""
        removed = self.captures.get(name)
        return (removed is not None and removed.record_sha256 == record_sha256
                and file in removed.files)

    def with_removed(self, more: Mapping[str, Removed]) -> Pruned:
        """Return a copy with `more` added.

        An entry of another record with the same name is replaced.
        """
        captures = dict(self.captures)
        for name, removed in more.items():
            known = captures.get(name)
            files = known.files if known and known.record_sha256 == removed.record_sha256 else {}
            captures[name] = Removed(record_sha256=removed.record_sha256,
                                     files={**files, **removed.files})
        return Pruned(captures=captures)

    def without_present(self, present: Iterable[str]) -> Pruned:
        """Return a copy without the captures that exist (paths like captures/NAME/x.pcap.gz)."""
        there = set(present)
        left = {name: {file: size for file, size in removed.files.items()
                       if f"captures/{name}/{file}" not in there}
                for name, removed in self.captures.items()}
        return Pruned(captures={
            name: Removed(record_sha256=self.captures[name].record_sha256, files=files)
            for name, files in left.items() if files})

    def without_outdated(self, records: Mapping[str, str]) -> Pruned:
        """Return a copy without entries of replaced records.

        `records` are the current digests by name.
        """
        return Pruned(captures={name: removed for name, removed in self.captures.items()
                                if records.get(name) == removed.record_sha256})


class PackingList(BaseModel):
    """The format of an archive's manifest.json: sizes in bytes by path, and counts.

    It lists every file except itself and SHA256SUMS, which lists it with its checksum.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)
    schema_: Literal[1] = Field(default=1, alias="schema")
    plan: str
    captures: Choice
    records: int
    files: dict[str, int]


_Document = TypeVar("_Document", bound=BaseModel)


def parse_document(model: type[_Document], text: str, where: str) -> _Document:
    """Parse a document with its model.

    Raises:
        DocumentError: The text is invalid; the message names `where` and the field.
    """
    try:
        return model.model_validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"]) or "file"
        raise DocumentError(f"{where}: {field}: {wording.describe_error(first)}") from None


def render_document(document: BaseModel) -> str:
    """Return the document's text, which is always the same for the same document."""
    return document.model_dump_json(by_alias=True, indent=1) + "\n"


def render_pruned(pruned: Pruned) -> str:
    """Return the text of pruned.json, sorted by name."""
    return render_document(Pruned(captures={
        name: Removed(record_sha256=removed.record_sha256,
                      files=dict(sorted(removed.files.items())))
        for name, removed in sorted(pruned.captures.items())}))
