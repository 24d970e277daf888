"""The notebook of examples/ runs on a results folder, and its numbers are those of the report."""

from __future__ import annotations

import base64
import csv
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest

import fabricated
import results_folder
from doc_commands import PROJECT

NOTEBOOK = PROJECT / "examples/results.ipynb"


def execute(folder: Path) -> tuple[subprocess.CompletedProcess[str], list[Any]]:
    """Execute a copy of the notebook on a results folder; how it ends, and its outputs."""
    home = folder.parent / "home"
    kernel = home / "kernels/python3"
    kernel.mkdir(parents=True)
    (kernel / "kernel.json").write_text(
        f'{{"argv": ["{sys.executable}", "-m", "ipykernel_launcher", "-f", "{{connection_file}}"], '
        '"display_name": "Python 3", "language": "python"}')
    copy = shutil.copy(NOTEBOOK, home)
    done = subprocess.run(
        [Path(sys.executable).with_name("jupyter-execute"), "--inplace", "--timeout=900",
         "--startup_timeout=300", "--KernelManager.transport=ipc", copy], cwd=home, text=True,
        capture_output=True, check=False, env={
            **{name: value for name, value in os.environ.items() if name != "MPLBACKEND"},
            "QOP_RESULTS": str(folder), "JUPYTER_PATH": str(home),
            "JUPYTER_RUNTIME_DIR": str(home / "runtime"), "IPYTHONDIR": str(home / "ipython")})
    cells = nbformat.read(copy, as_version=4).cells
    return done, [output for cell in cells for output in cell.get("outputs", ())]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A made-up results folder of three policies, whose repetitions differ."""
    plan = results_folder.plan_of("P1", "P2", "P8", repetitions=3)
    made = results_folder.make(tmp_path / "lab", plan)
    for number, policy in enumerate(("P1", "P2", "P8"), 1):
        for repetition in (1, 2, 3):
            phases = {name: (duration * (number + repetition / 10), packets)
                      for name, (duration, packets) in fabricated.P1_PHASES.items()}
            results_folder.add_record(made, plan, policy, repetition, phases=phases)
    return made


@pytest.mark.slow
def test_notebook_on_a_folder_has_the_reports_means_and_a_figure(folder: Path, qop: Any) -> None:
    """Each mean and half interval of the notebook is that of the report's table of the run."""
    done = qop("report", folder)
    assert done.returncode == 0, done.stderr
    executed, outputs = execute(folder)
    assert executed.returncode == 0, executed.stderr
    [times] = [output.data["text/plain"] for output in outputs
               if "half_ms" in output.get("data", {}).get("text/plain", "")]
    with (folder / "tables/run.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["policy"] for row in rows] == ["P1", "P2", "P8"]
    for row in rows:
        mean, low, high = (1e3 * float(row[f"authentication_time_{name}"])
                           for name in ("s", "low_s", "high_s"))
        found = re.search(rf"\b{row['policy']} +3.0 +(\S+) +(\S+)$", times, re.MULTILINE)
        assert found, times
        assert float(found[1]) == pytest.approx(mean, abs=0.0051)
        assert float(found[2]) == pytest.approx((high - low) / 2, abs=0.0051)
    pictures = [output.data["image/png"] for output in outputs
                if "image/png" in output.get("data", {})]
    assert len(pictures) == 1
    assert base64.b64decode(pictures[0]).startswith(b"\x89PNG")


@pytest.mark.slow
def test_notebook_without_a_report_fails(folder: Path) -> None:
    """The notebook does not go on without the tables that it names."""
    executed, _ = execute(folder)
    assert executed.returncode != 0
    assert "records.parquet" in executed.stderr


def test_notebook_has_no_outputs() -> None:
    """A notebook in the repository holds no numbers of somebody's run."""
    cells = nbformat.read(NOTEBOOK, as_version=4).cells
    assert all(not cell.get("outputs") and cell.get("execution_count") is None for cell in cells)
