"""The notebook of examples/ runs on a results folder, and its numbers are those of the report."""

from __future__ import annotations

import base64
import csv
import re
from pathlib import Path
from typing import Any

import nbformat
import pytest

import fabricated
import results_folder
from notebooks import NOTEBOOK, execute_notebook


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
    executed, outputs = execute_notebook(NOTEBOOK, folder)
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
    executed, _ = execute_notebook(NOTEBOOK, folder)
    assert executed.returncode != 0
    assert "records.parquet" in executed.stderr


def test_notebook_has_no_outputs() -> None:
    """A notebook in the repository holds no numbers of somebody's run."""
    cells = nbformat.read(NOTEBOOK, as_version=4).cells
    assert all(not cell.get("outputs") and cell.get("execution_count") is None for cell in cells)
