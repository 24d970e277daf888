"""Helpers shared by the studies' judges: failed checks, dropped packets, files and values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from measure.record import CheckRecord

_SHOWN = 3


class MadeCheck(Protocol):
    """A check with its result, as made or as recorded."""

    @property
    def check(self) -> str:
        """Return the statement that was checked."""

    @property
    def ok(self) -> bool:
        """Return whether the statement holds."""

    @property
    def detail(self) -> str:
        """Return the counts behind the result."""


def make_check(name: str, complaints: Sequence[str], detail: str) -> CheckRecord:
    """Return a check that holds if there are no complaints.

    The detail lists the first few complaints. Args: name: The statement that is checked.
    complaints: Reasons why the statement does not hold. detail: Detail of a check that holds.
    """
    said = "; ".join(complaints[:_SHOWN]) + (
        f" and {len(complaints) - _SHOWN} more" if len(complaints) > _SHOWN else "")
    return CheckRecord(check=name, ok=not complaints, detail=said or detail)


def to_records(checks: Iterable[MadeCheck]) -> list[CheckRecord]:
    """Convert checks to the form of records."""
    return [CheckRecord(check=made.check, ok=made.ok, detail=made.detail) for made in checks]


def failure_reasons(checks: Iterable[MadeCheck]) -> list[str]:
    """Return a failure reason for each check that does not hold."""
    return [f"not proven: {check.check} ({check.detail})" for check in checks if not check.ok]


def dropped_packets_reason(raw: Mapping[str, Any]) -> list[str]:
    """Return the reason that captures lost packets, or nothing if none did."""
    packets = sum(int(capture["dropped"]) for capture in raw["captures"])
    return [f"the captures lack {packets} packets"] * bool(packets)


def select_raw_values(raw: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Return the raw values with these names, as far as they exist."""
    return {name: raw[name] for name in names if name in raw}


def existing_files(out: Path, names: Sequence[str]) -> list[str]:
    """Return those of the named files that the repetition left in its folder."""
    return [name for name in names if (out / name).exists()]
