"""Make sample reports for the documentation site from results folders.

`make_samples` takes the results folders of runs. It puts an HTML report of each, with records but
without captures and logs, into a folder of the site. It returns a description of each sample, for
the site's list.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import studies
from harness.engine.machine import ROOT
from harness.errors import UserError
from harness.portable.folder import read_manifest

#: Folder of the samples in the site.
FOLDER = "samples"
#: Parts of a results folder that a sample keeps. The report's page links the records.
PARTS = ("plan.json", "provenance.json", "records")


@dataclass(frozen=True)
class Sample:
    """A sample report of the site: its folder's name, study, repetitions and policies."""

    name: str
    study: str
    repetitions: int
    levels: str

    @property
    def report_path(self) -> str:
        """Return the path of the report in the site."""
        return f"{FOLDER}/{self.name}/report.html"


def make_samples(folders: Sequence[Path], site: Path) -> list[Sample]:
    """Make reports of results folders, and put each report into a folder of the site.

    A sample is a results folder without captures and logs.

    Args:
        folders: The results folders. Their names become those of the samples.
        site: The folder of the site.

    Returns:
        The samples in the order of the folders.

    Raises:
        UserError: A folder has no results, or two folders have one name.
    """
    samples: dict[str, Sample] = {}
    for folder in folders:
        name = folder.resolve().name
        if name in samples:
            raise UserError(f"--samples {folder}: another sample is called {name}; rename the "
                            "folder")
        samples[name] = _make_sample(folder, site / FOLDER / name)
    return list(samples.values())


def _make_sample(folder: Path, target: Path) -> Sample:
    """Make the report of a copy of a results folder, and return the sample's description."""
    manifest = read_manifest(folder)
    if manifest is None or not (folder / "records").is_dir():
        raise UserError(f"--samples {folder}: there is no plan with records; give a results folder "
                        "of './qop run'")
    target.mkdir(parents=True)
    for part in (folder / name for name in PARTS):
        if part.is_dir():
            shutil.copytree(part, target / part.name)
        elif part.exists():
            shutil.copy2(part, target)
    done = subprocess.run([sys.executable, "-P", "-m", "harness", "report", str(target)], cwd=ROOT,
                          capture_output=True, text=True, check=False)
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise UserError(f"--samples {folder}: the report failed ({reason.removeprefix('qop: ')}); "
                        f"give './qop report {folder}'", status=1)
    study = studies.load_study(manifest.study.id)
    return Sample(target.name, study.title, len(list((target / "records").glob("*.json"))),
                  "; ".join(f"{factor}: {', '.join(levels)}"
                            for factor, levels in manifest.levels.items()))
