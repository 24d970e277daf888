"""Store with the results which code, programs and host produced them.

`write_provenance` adds this to the results folder: versions, hashes of qop's code, and hardware and
operating system of the host. It contains nothing that identifies a person or a place, because
results are meant to be passed on. `hash_code` returns the hash of all code that can influence a
study's measurements. Each record contains this hash.
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

from harness.engine import host
from harness.engine.machine import ROOT, EmbeddedMachine, Machine
from harness.engine.plan import Plan
from harness.engine.virtual import VirtualMachine
from harness.portable import checksums
from measure.capture import tshark
from measure.records import manifest
from studies import FOLDER as STUDIES
from studies import study_folder

FILE = manifest.HISTORY
#: File with the commit of the code, where git is missing: in a container image.
REVISION = ROOT / "revision.json"
#: Packages whose code counts for every study. Missing packages are ignored.
_PACKAGES = ("ansible", "documents", "guest", "harness", "measure", "policies", "protocols",
             "topologies")
_SUFFIXES = frozenset({".py", ".yml", ".j2", ".sh", ".c", ".config", ".cfg", ""})
_DISTRIBUTIONS = ("ansible-core", "pydantic", "numpy", "scipy", "pandas")


@cache
def hash_code(study: str) -> str:
    """Return the SHA-256 of all code that can influence the measurements of a study.

    This is the study's own folder and all packages of qop except other studies, by path and
    content. The path of a study outside of the checkout is that which it would have in the
    checkout.
    """
    digest = hashlib.sha256()
    for path in sorted((ROOT / "studies").glob("*.py")):
        _add_file(digest, path, f"studies/{path.name}")
    for package in _PACKAGES:
        _add_folder(digest, ROOT / package, package)
    _add_folder(digest, study_folder(study), f"studies/{study}")
    return digest.hexdigest()


def hash_outside_study(study: str) -> dict[str, str]:
    """Return the SHA-256 of a study's code if the study is outside of qop's checkout.

    The Git revision does not include such a study. The result is empty for a study of qop.
    """
    if (folder := study_folder(study)).parent == STUDIES:
        return {}
    digest = hashlib.sha256()
    _add_folder(digest, folder, f"studies/{study}")
    return {"study_sha256": digest.hexdigest()}


def _add_folder(digest: hashlib._Hash, folder: Path, name: str) -> None:
    """Add the code files of a folder to a hash, without hidden and compiled files."""
    for path in sorted(folder.rglob("*")):
        below = path.relative_to(folder)
        if not any(part == "__pycache__" or part.startswith(".") for part in below.parts):
            _add_file(digest, path, f"{name}/{below}")


def _add_file(digest: hashlib._Hash, path: Path, name: str) -> None:
    if path.is_file() and path.suffix in _SUFFIXES:
        digest.update(f"{name}\0".encode())
        digest.update(path.read_bytes())


def write_provenance(folder: Path, plan: Plan, machine: Machine) -> None:
    """Add the present code, programs and host to the provenance in a results folder.

    Earlier entries remain.
    """
    add_circumstances(folder, describe_provenance(plan, machine))


def add_circumstances(folder: Path, circumstances: dict[str, Any]) -> None:
    """Add an entry to the provenance in a results folder, unless it is there already."""
    history = manifest.read_history(folder)
    if circumstances not in history:
        checksums.replace_file(folder / FILE, json.dumps([*history, circumstances], indent=1)
                               + "\n")


def describe_provenance(plan: Plan, machine: Machine) -> dict[str, Any]:
    """Return the code, programs and host of the present run, as data for its records."""
    # Run the programs in parallel: this saves 0.2 s before the first measurement.
    with ThreadPoolExecutor() as asking:
        versions = {name: asking.submit(_program_output, *argv) for name, argv
                    in _version_commands().items()}
        revised = asking.submit(read_revision)
        digest = hash_code(plan.study.id)
    return {"code": {"sha256": digest, **hash_outside_study(plan.study.id),
                     **revised.result()},
            **_image_manifests(machine),
            "programs": {name: output.result().partition("\n")[0]
                         for name, output in versions.items()},
            "python": {"version": platform.python_version(),
                       **{name: metadata.version(name) for name in _DISTRIBUTIONS}},
            "host": describe_host()}


def _version_commands() -> dict[str, Sequence[str]]:
    """Return, for each program, the command that prints its version."""
    return {"tshark": [*tshark.tshark_command(), "--version"],
            "mergecap": ["mergecap", "--version"],
            "git": ["git", "--version"]}


def _image_manifests(machine: Machine) -> dict[str, Any]:
    """Return descriptions of the guest images that a run uses, as stored when they were built."""
    if not isinstance(machine, EmbeddedMachine):
        return {"image": None}
    variants = {name: dict(built.manifest) for name, built in machine.variants.items()}
    virtual = {"vm": machine.describe_machine()} if isinstance(machine, VirtualMachine) else {}
    return {"image": dict(machine.image.manifest), **({"variants": variants} if variants else {}),
            **virtual}


def read_revision() -> dict[str, Any]:
    """Return the Git commit of qop's code, and whether files were changed since.

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
            "processors": len(os.sched_getaffinity(0)), "memory_mb": host.read_total_mb(),
            "kernel": platform.release(), "platform": sys.platform,
            "distribution": release.get("PRETTY_NAME", "").strip('"')}


def _program_output(*argv: str) -> str:
    """Return what a program prints, "" if the program is missing or fails."""
    try:
        done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=20,
                              cwd=ROOT, env=os.environ | tshark.ENVIRONMENT)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def _read_text(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""
