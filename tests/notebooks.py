"""Execute notebooks on results folders, as a reader of the documentation would."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat

from doc_commands import PROJECT

NOTEBOOK = PROJECT / "examples/results.ipynb"


def execute_notebook(notebook: Path, folder: Path
                     ) -> tuple[subprocess.CompletedProcess[str], list[Any]]:
    """Execute a copy of a notebook on a results folder, and return how it ends, and its outputs.

    The copy is in the folder `home` next to the results folder.
    """
    home = folder.parent / "home"
    kernel = home / "kernels/python3"
    kernel.mkdir(parents=True)
    (kernel / "kernel.json").write_text(
        f'{{"argv": ["{sys.executable}", "-m", "ipykernel_launcher", "-f", "{{connection_file}}"], '
        '"display_name": "Python 3", "language": "python"}')
    copy = shutil.copy(notebook, home)
    done = subprocess.run(
        [Path(sys.executable).with_name("jupyter-execute"), "--inplace", "--timeout=900",
         "--startup_timeout=300", "--KernelManager.transport=ipc", copy], cwd=home, text=True,
        capture_output=True, check=False, env={
            **{name: value for name, value in os.environ.items() if name != "MPLBACKEND"},
            "QOP_RESULTS": str(folder), "JUPYTER_PATH": str(home),
            "JUPYTER_RUNTIME_DIR": str(home / "runtime"), "IPYTHONDIR": str(home / "ipython")})
    cells = nbformat.read(copy, as_version=4).cells
    return done, [output for cell in cells for output in cell.get("outputs", ())]
