"""Make sample reports for the documentation site from archives and results folders.

`make_samples` takes the archives of SHIPPED, which come with qop, and results folders of the user.
It puts an HTML report of each, with records but without captures and logs, into a folder of the
site. It returns a description of each sample, for the site's list.
"""

from __future__ import annotations

import html
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import studies
from harness.engine.machine import ROOT
from harness.errors import UserError
from harness.portable.folder import read_manifest
from harness.portable.importing import import_archive
from measure.records.manifest import read_history
from studies import records as stored

#: Folder of the samples in the site.
FOLDER = "samples"
#: Archives of the runs whose reports every site has, in the order of its list.
#: `./qop export FOLDER --records-only` makes them (docs/samples.md).
SHIPPED = tuple(ROOT / "docs" / "samples" / f"{name}.tar.xz"
                for name in ("default", "today", "campus"))
#: Parts of a results folder that a sample keeps. The report's page links the records.
PARTS = ("plan.json", "provenance.json", "records")


@dataclass(frozen=True)
class Sample:
    """A sample report of the site: its run, and when, by what code and where it was measured."""

    name: str
    study: str
    repetitions: int
    day: str
    commit: str
    machine: str

    @property
    def report_path(self) -> str:
        """Return the path of the report in the site."""
        return f"{FOLDER}/{self.name}/report.html"


def make_samples(places: Sequence[Path], site: Path) -> list[Sample]:
    """Make reports of runs in parallel, and put each report into a folder of the site.

    A sample is a results folder without captures and logs.

    Args:
        places: Archives and results folders. Their names become those of the samples.
        site: The folder of the site.

    Returns:
        The samples in the order of the places.

    Raises:
        UserError: A place has no results, or two places have one name.
    """
    names = dict[str, Path]()
    for place in places:
        name = place.name.partition(".tar.")[0] if place.is_file() else place.resolve().name
        if name in names:
            raise UserError(f"--samples {place}: another sample is called {name}; rename the "
                            "folder")
        if not place.is_file() and (read_manifest(place) is None
                                    or not (place / "records").is_dir()):
            raise UserError(f"--samples {place}: there is no plan with records; give a results "
                            "folder of './qop run'")
        names[name] = place
    with ThreadPoolExecutor(os.cpu_count()) as workers:
        return list(workers.map(lambda name: _make_sample(names[name], site / FOLDER / name),
                                names))


def _make_sample(place: Path, target: Path) -> Sample:
    """Make the report of a copy of an archive or a folder, and return the sample's description."""
    if place.is_file():
        import_archive(place, target, target.parent)
    else:
        target.mkdir(parents=True)
        for part in (place / name for name in PARTS):
            if part.is_dir():
                shutil.copytree(part, target / part.name)
            elif part.exists():
                shutil.copy2(part, target)
    done = subprocess.run([sys.executable, "-P", "-m", "harness", "report", str(target)], cwd=ROOT,
                          capture_output=True, text=True, check=False)
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise UserError(f"--samples {place}: the report failed ({reason.removeprefix('qop: ')}); "
                        f"give './qop report {place}'", status=1)
    return _describe_sample(target)


def _describe_sample(folder: Path) -> Sample:
    """Return the description of the sample in a folder, from its plan, records and provenance."""
    manifest = read_manifest(folder)
    assert manifest is not None, "its report was made"
    records, _ = stored.read_all(folder / "records")
    ended_s = max((record.environment.get("measured_at_s", 0) for record in records), default=0)
    provenance: dict[str, Any] = next(reversed(read_history(folder)), {})
    code, host = provenance.get("code", {}), provenance.get("host", {})
    return Sample(
        folder.name, studies.load_study(manifest.study.id).title, len(records),
        f"{datetime.fromtimestamp(ended_s, UTC):%Y-%m-%d}" if ended_s else "",
        _join_words(code.get("revision", "")[:12], "changed" if code.get("changed") else ""),
        _join_words(host.get("processor"), _count_processors(host), host.get("distribution")))


def _count_processors(host: dict[str, Any]) -> str:
    """Return the number of a host's processors in words, "" if it is not known."""
    return f"{host['processors']} processors" if "processors" in host else ""


def _join_words(*words: str | None) -> str:
    """Return words in a cell of a table."""
    return html.escape(", ".join(filter(None, words)))
