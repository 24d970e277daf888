"""Results folders made up for tests: a plan, its records, and captures that are whole."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import fabricated
import made_up_captures
import plans
from harness.engine.plan import Plan
from harness.portable import archive, verification
from measure.records import record
from measure.records.document import DIGEST_FIELD, seal_text

CAPTURES = ("auth-air.pcap", "traffic-air.pcap")
PCAP = made_up_captures.pcap([])


def plan_of(*names: str, repetitions: int = 2) -> Plan:
    """A plan of policies in N2."""
    return plans.plan_of(names or ("P1", "P8"), asked={"medium": "802.11b-long"},
                         repetitions=repetitions)


def make(folder: Path, plan: Plan | None = None, *, failed: tuple[str, ...] = (),
         **changes: float) -> Path:
    """A finished run's folder; repetitions named in `failed` are not ok. Returns the folder."""
    plan = plan or plan_of()
    folder.mkdir(parents=True)
    (folder / "plan.json").write_text(plan.manifest.to_text())
    (folder / ".lock").touch()
    for step in plan.all_steps():
        add_record(folder, plan, step.cell.ids["policy"], step.repetition,
                   ok=step.name not in failed, **changes)
    for name in {step.cell.name for step in plan.all_steps()}:
        write(folder / "logs" / name / "ap-a-hostapd.log", f"{name}\n".encode())
    write(folder / "handoff.svg", b"<svg/>")
    return folder


def add_record(folder: Path, plan: Plan, policy: str, repetition: int, *, ok: bool = True,
               **changes: float) -> str:
    """One record with its captures; its name."""
    made = fabricated.make(policy, repetition, **changes)
    environment = {**made.environment, "plan": plan.digest}
    captures = [{"point": "air", "file": file, "captured": 0, "dropped": 0} for file in CAPTURES]
    made = made.model_copy(update={"environment": environment, "captures": captures,
                                   "status": "ok" if ok else "failed"})
    for file in CAPTURES:
        content = PCAP + f"{made.name} {file}".encode() * 200
        write(folder / "captures" / made.name / f"{file}.gz", gzip.compress(content, mtime=0))
    record.write_record(made, folder / "records")
    return made.name


def write(path: Path, content: bytes) -> None:
    """A file, and the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def tree(folder: Path) -> dict[str, bytes]:
    """Every file by relative path, but locks."""
    return {path.relative_to(folder).as_posix(): path.read_bytes()
            for path in sorted(folder.rglob("*")) if path.is_file() and path.name != ".lock"}


def packed(tmp_path: Path, captures: str = "all", ending: str = "tar.gz",
           **changes: object) -> Path:
    """An archive of a made-up folder called `run`."""
    folder = make(tmp_path / "run", **changes)  # type: ignore[arg-type]
    return archive.export_folder(folder, tmp_path / f"run.{ending}",
                                 captures).file  # type: ignore[arg-type]


def assert_nothing_came(root: Path, folder: Path, before: list[str]) -> None:
    """A refused import has left nothing, at the place, beside it or anywhere above."""
    assert not folder.exists()
    assert sorted(path.name for path in root.parent.iterdir() if path != root) == before
    assert not root.exists() or list(root.iterdir()) == []


def findings(place: Path) -> list[str]:
    """What verify says of a folder or an archive."""
    return [finding.text for finding in verification.verify_results(place).findings]


def seal_anew(path: Path, document: Mapping[str, Any]) -> None:
    """Write a record or a plan as somebody does who has edited it and knows of its digest."""
    path.write_text(seal_text(json.dumps({**document, DIGEST_FIELD: ""})))


def flip(path: Path, at: int = -1) -> None:
    """Change one bit of a file."""
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(bytes(content))
