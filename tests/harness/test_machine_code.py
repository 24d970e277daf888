"""The worker's code in a job folder is compiled already, and what is changed there counts."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

from harness.engine import machine


def output_of(code: Path, script: str, *options: str) -> str:
    """What a fresh Python that writes nothing says of a script beside a job's code."""
    done = subprocess.run([sys.executable, "-B", *options, "-c", script], cwd=code,
                          env={**os.environ, "PYTHONPATH": str(code)}, capture_output=True,
                          text=True, check=True)
    return done.stdout + done.stderr


def test_the_code_comes_compiled(tmp_path: Path) -> None:
    """A worker's Python takes every module of ours as it is, but for a study's emptied package."""
    machine.copy_code(tmp_path / "code", "qop2007")
    sources = sorted((tmp_path / "code").rglob("*.py"))
    emptied = [path for path in sources if path.parent.name in ("studies", "qop2007")
               and path.name == "__init__.py"]
    assert len(sources) > 100 and len(emptied) == 2
    for path in set(sources) - set(emptied):
        compiled = Path(importlib.util.cache_from_source(str(path))).read_bytes()
        stated = path.stat()
        assert compiled[:4] == importlib.util.MAGIC_NUMBER, path
        assert [int.from_bytes(compiled[at:at + 4], "little") for at in (4, 8, 12)] == [
            0, int(stated.st_mtime), stated.st_size], path
    said = output_of(tmp_path / "code", "import topologies.mobile_ip.packets", "-v")
    assert f"matches {tmp_path / 'code/topologies/mobile_ip/packets.py'}" in said


def test_what_is_changed_in_a_job_counts(tmp_path: Path) -> None:
    """Python compiles a changed copy anew, though it is as long as it was."""
    machine.copy_code(tmp_path / "code")
    changed = tmp_path / "code/topologies/mobile_ip/packets.py"
    text = changed.read_text()
    assert "PORT = 434" in text
    changed.write_text(text.replace("PORT = 434", "PORT = 435"))
    assert output_of(tmp_path / "code", "from topologies.mobile_ip import packets\n"
                     "print(packets.PORT)").strip() == "435"
