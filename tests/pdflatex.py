"""LaTeX, really run, complains of nothing in a report's tables."""

from __future__ import annotations

import subprocess
from pathlib import Path


def problems(folder: Path) -> list[str]:
    """What LaTeX complains of in a folder's tables.tex; raises where there is no PDF."""
    for _ in range(2):  # labels are known the second time
        done = subprocess.run(["pdflatex", "-interaction=nonstopmode", "-halt-on-error",
                               "tables.tex"], cwd=folder, capture_output=True, check=False)
        assert done.returncode == 0, done.stdout.decode(errors="replace")[-1500:]
    said = (folder / "tables.log").read_text(errors="replace")
    return [line for line in said.splitlines()
            if line.startswith("Overfull") or "Warning" in line]
