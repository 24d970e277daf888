"""The provenance of results: the code, programs and host that produced them.

It is stored in the results folder and contains nothing that identifies a person or a place, because
results are meant to be passed on.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from harness.engine import memory
from harness.engine.machine import ROOT, EmbeddedMachine, Machine
from harness.engine.plan import Plan
from harness.portable import checksums
from measure import dissect, manifest

FILE = manifest.HISTORY
#: File with the commit of the code, where git is missing: in a container image.
REVISION = ROOT / "revision.json"
#: Packages whose code counts for every study. Missing packages are ignored.
_PACKAGES = ("ansible", "guest", "harness", "measure", "policies", "protocols", "topologies")
_SUFFIXES = frozenset({".py", ".yml", ".j2", ".sh", ".c", ".config", ".cfg", ""})
_DISTRIBUTIONS = ("ansible-core", "pydantic", "numpy", "scipy", "pandas")


@cache
def code_digest(study: str) -> str:
    """Return the SHA-256 of all code that decides how a study is measured.

    The code is the study's own folder and all packages except other studies, by path and content.
    """
    digest = hashlib.sha256()
    own = sorted((ROOT / "studies").glob("*.py"))
    for path in [*own, *(file for folder in (*_PACKAGES, f"studies/{study}")
                         for file in sorted((ROOT / folder).rglob("*")))]:
        if path.is_file() and path.suffix in _SUFFIXES and "__pycache__" not in path.parts:
            digest.update(f"{path.relative_to(ROOT)}\0".encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()


def write_provenance(folder: Path, plan: Plan, machine: Machine) -> None:
    """Add the present provenance to a results folder.

    Earlier entries remain.
    """
    add_circumstances(folder, describe_provenance(plan, machine))


def add_circumstances(folder: Path, circumstances: dict[str, Any]) -> None:
    """Add one set of circumstances to a results folder, unless it is there already."""
    history = manifest.read_history(folder)
    if circumstances not in history:
        checksums.replace_file(folder / FILE, json.dumps([*history, circumstances], indent=1)
                               + "\n")


def describe_provenance(plan: Plan, machine: Machine) -> dict[str, Any]:
    """Return the present provenance, equal for every record that is made under it."""
    # Run the programs in parallel: this saves 0.2 s before the first measurement.
    with ThreadPoolExecutor() as asking:
        versions = {name: asking.submit(_program_output, *argv) for name, argv
                    in _version_commands().items()}
        revised = asking.submit(read_revision)
        digest = code_digest(plan.study.id)
    return {"code": {"sha256": digest, **revised.result()},
            **_image_manifests(machine),
            "programs": {name: said.result().partition("\n")[0]
                         for name, said in versions.items()},
            "python": {"version": platform.python_version(),
                       **{name: metadata.version(name) for name in _DISTRIBUTIONS}},
            "host": describe_host()}


def _version_commands() -> dict[str, Sequence[str]]:
    """Return the command that prints each program's version."""
    return {"tshark": [*dissect.tshark_command(), "--version"],
            "mergecap": ["mergecap", "--version"],
            "git": ["git", "--version"]}


def _image_manifests(machine: Machine) -> dict[str, Any]:
    """Return the manifests of the guests' images, with those for a study's packages."""
    if not isinstance(machine, EmbeddedMachine):
        return {"image": None}
    variants = {name: dict(built.manifest) for name, built in machine.variants.items()}
    return {"image": dict(machine.image.manifest), **({"variants": variants} if variants else {})}


def read_revision() -> dict[str, Any]:
    """Return the commit of the code, and whether files have changed since.

    The commit is "" if it is unknown.
    """
    try:
        built: dict[str, Any] = json.loads(REVISION.read_text())
    except OSError:
        return {"revision": _program_output("git", "rev-parse", "HEAD"),
                "changed": bool(_program_output("git", "status", "--porcelain"))}
    return built


def describe_host() -> dict[str, Any]:
    """Return a description of this host's hardware and operating system."""
    lines = [line.partition(":") for line in _read_text("/proc/cpuinfo").splitlines()]
    models = [value.strip() for key, _, value in lines if key.strip() == "model name"]
    release = dict(line.split("=", 1) for line in _read_text("/etc/os-release").splitlines()
                   if "=" in line)
    return {"processor": models[0] if models else platform.machine(),
            "processors": len(os.sched_getaffinity(0)), "memory_mb": memory.total_mb(),
            "kernel": platform.release(), "platform": sys.platform,
            "distribution": release.get("PRETTY_NAME", "").strip('"')}


def _program_output(*argv: str) -> str:
    """Return a program's output.

    The result is "" if the program is missing or fails.
    """
    try:
        done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=20,
                              cwd=ROOT, env=os.environ | dissect.ENVIRONMENT)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def _read_text(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""
