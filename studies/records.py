"""Read records of any study and any schema: measure.record with the upgrades that studies know."""

from __future__ import annotations

from pathlib import Path

from measure import record
from measure.record import Record, Upgrade
from studies.qop2007.body import from_schema_1

#: By the schema that each reads. Schema 1 knew one study only.
UPGRADES: dict[int, Upgrade] = {1: from_schema_1}


def read(path: Path) -> Record:
    """Read a record; raises RecordError for anything else."""
    return record.read(path, UPGRADES)


def parse(text: str | bytes, where: str) -> Record:
    """The record that a text is; raises RecordError, which names `where` it stands."""
    return record.parse(text, where, UPGRADES)


def read_all(folder: Path) -> tuple[list[Record], list[str]]:
    """Every record of a folder in order of name, and a line for each file that is none."""
    return record.read_all(folder, UPGRADES)
