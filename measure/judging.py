"""What judges of all studies say alike of a repetition: why it is not proven, and what is kept."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from measure.record import CheckRecord

_SHOWN = 3


class MadeCheck(Protocol):
    """A check that was made, as it is seen or as a record has it."""

    @property
    def check(self) -> str:
        """What was checked."""

    @property
    def ok(self) -> bool:
        """Whether it holds."""

    @property
    def detail(self) -> str:
        """The counts behind it."""


def judged(name: str, complaints: Sequence[str], detail: str) -> CheckRecord:
    """A check that holds where nobody complains; of many complaints the first few are told."""
    said = "; ".join(complaints[:_SHOWN]) + (
        f" and {len(complaints) - _SHOWN} more" if len(complaints) > _SHOWN else "")
    return CheckRecord(check=name, ok=not complaints, detail=said or detail)


def recorded(checks: Iterable[MadeCheck]) -> list[CheckRecord]:
    """Checks as a record has them."""
    return [CheckRecord(check=made.check, ok=made.ok, detail=made.detail) for made in checks]


def unproven(checks: Iterable[MadeCheck]) -> list[str]:
    """A reason for each check that does not hold."""
    return [f"not proven: {check.check} ({check.detail})" for check in checks if not check.ok]


def lost(raw: Mapping[str, Any]) -> list[str]:
    """The reason that captures lost packets; none where they did not."""
    packets = sum(int(capture["dropped"]) for capture in raw["captures"])
    return [f"the captures lack {packets} packets"] * bool(packets)


def kept(raw: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Of the raw values those that a record keeps, as far as they are there."""
    return {name: raw[name] for name in names if name in raw}


def present(out: Path, names: Sequence[str]) -> list[str]:
    """Of the files that are kept beside a record those that the repetition left."""
    return [name for name in names if (out / name).exists()]
