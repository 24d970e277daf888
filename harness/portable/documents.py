"""The small JSON documents beside the records: what was pruned, an archive's list of its files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from topologies import wording

Choice = Literal["all", "failed", "none"]


class DocumentError(ValueError):
    """Text that is not the document it should be; one line for the user."""


class Removed(BaseModel):
    """Captures of one repetition that were removed: sizes in bytes by file name.

    The record's digest tells whether it is still the record whose captures they were.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    record_sha256: str
    files: dict[str, int]


class Pruned(BaseModel):
    """pruned.json: captures that are absent by choice, by the name of their repetition."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)
    schema_: Literal[1] = Field(default=1, alias="schema")
    captures: dict[str, Removed] = {}

    def covers(self, name: str, record_sha256: str, file: str) -> bool:
        """Whether a capture of this very record was removed by choice."""
        removed = self.captures.get(name)
        return (removed is not None and removed.record_sha256 == record_sha256
                and file in removed.files)

    def with_removed(self, more: Mapping[str, Removed]) -> Pruned:
        """This and more; what is said of another record under the same name gives way."""
        captures = dict(self.captures)
        for name, removed in more.items():
            known = captures.get(name)
            files = known.files if known and known.record_sha256 == removed.record_sha256 else {}
            captures[name] = Removed(record_sha256=removed.record_sha256,
                                     files={**files, **removed.files})
        return Pruned(captures=captures)

    def without(self, present: Iterable[str]) -> Pruned:
        """This, less the captures that are there (paths such as captures/NAME/x.pcap.gz)."""
        there = set(present)
        left = {name: {file: size for file, size in removed.files.items()
                       if f"captures/{name}/{file}" not in there}
                for name, removed in self.captures.items()}
        return Pruned(captures={
            name: Removed(record_sha256=self.captures[name].record_sha256, files=files)
            for name, files in left.items() if files})

    def current(self, records: Mapping[str, str]) -> Pruned:
        """This, less what is about records that are no more; `records` are digests by name."""
        return Pruned(captures={name: removed for name, removed in self.captures.items()
                                if records.get(name) == removed.record_sha256})


class PackingList(BaseModel):
    """manifest.json of an archive: sizes in bytes by path, and how many of what.

    It lists every file but itself and SHA256SUMS, which lists it with its checksum.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)
    schema_: Literal[1] = Field(default=1, alias="schema")
    plan: str
    captures: Choice
    records: int
    files: dict[str, int]


_Document = TypeVar("_Document", bound=BaseModel)


def parse(model: type[_Document], text: str, where: str) -> _Document:
    """The document; raises DocumentError, which names `where` and what is wrong."""
    try:
        return model.model_validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"]) or "file"
        raise DocumentError(f"{where}: {field}: {wording.what(first)}") from None


def render(document: BaseModel) -> str:
    """The document's text, the same for the same document."""
    return document.model_dump_json(by_alias=True, indent=1) + "\n"


def render_pruned(pruned: Pruned) -> str:
    """pruned.json in order of name, whatever order it came about in."""
    return render(Pruned(captures={
        name: Removed(record_sha256=removed.record_sha256,
                      files=dict(sorted(removed.files.items())))
        for name, removed in sorted(pruned.captures.items())}))
