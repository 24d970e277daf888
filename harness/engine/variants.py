"""Which images the testbeds of a plan boot: the builder's own, and others with more packages."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Collection
from pathlib import Path

from guest import image, strongswan
from guest.packages import Packages
from guest.strongswan import PackagesAndStrongswan
from harness.engine import builders
from harness.engine.machine import TESTBED_PYTHON
from harness.engine.plan import Plan
from studies import packages
from studies.study import StudyError

#: How a Python says which of some packages it lacks.
_LACKING = """
import importlib.metadata as m, json, sys
def there(name, version):
    try:
        return m.version(name) == version
    except m.PackageNotFoundError:
        return False
print(json.dumps([text for text in sys.argv[1:] if not there(*text.split("=="))]))
"""


def declared(study: str) -> dict[str, Packages]:
    """What a study brings, by the name that its testbeds give. Raises StudyError."""
    where = f"studies/{study}/{packages.FILE}"
    return {name: (PackagesAndStrongswan if variant.compiled else Packages)(
                name, variant.debian, variant.lock, where)
            for name, variant in packages.load(study).items()}


def listed(study: str, name: str) -> dict[str, list[str]]:
    """The names of a variant's packages, for the worker to tell versions.

    With the version of what was compiled.
    """
    if not name:
        return {}
    added = declared(study)[name]
    return {"debian": list(added.debian),
            "python": [text.partition("==")[0] for text in added.python],
            **({"compiled": compiled} if (compiled := compiled_for(added)) else {})}


def compiled_for(added: Packages) -> list[str]:
    """What a variant has that is made of its source: names and versions."""
    return [f"strongswan-mlkem {strongswan.VERSION}"] \
        if isinstance(added, PackagesAndStrongswan) else []


def named(plan: Plan) -> dict[str, Packages]:
    """Of what its study brings, what testbeds of the plan name. Raises StudyError."""
    names = sorted({testbed.spec.packages for testbed in plan.testbeds.values()} - {""})
    brought = declared(plan.study.id) if names else {}
    for name in names:
        if name not in brought:
            raise StudyError(
                f"{plan.study.id}: a testbed names the packages {name!r}; "
                f"studies/{plan.study.id}/{packages.FILE} "
                + (f"has {', '.join(brought)}" if brought else "does not exist or is empty"))
    return {name: brought[name] for name in names}


def keys(plan: Plan) -> dict[str, str]:
    """The keys of those images of a plan that are built, by packages ("" is without)."""
    variant = builders.VARIANTS[plan.settings.builder]
    needed: dict[str, Packages | None] = {"": None, **named(plan)}
    images = {name: image.find(variant=variant, packages=added)
              for name, added in needed.items()}
    return {name: built.key for name, built in images.items() if built is not None}


def suffice(plan: Plan, images: Collection[str]) -> bool:
    """Whether with these images something of a plan can be measured; the plain one is needed."""
    return "" in images and any(testbed.spec.packages in images
                                for testbed in plan.testbeds.values())


def provision(plan: Plan) -> str:
    """The command that builds a plan's images."""
    study = f" --study {plan.study.id}" if named(plan) else ""
    return f"{builders.PROVISION[plan.settings.builder]}{study}"


def lacking_on_host(added: Packages) -> list[str]:
    """Of these packages, those that this very machine lacks."""
    done = subprocess.run(["dpkg-query", "-W", "-f", "${Package} ${db:Status-Status}\n",
                           *added.debian], capture_output=True, text=True, check=False)
    there = {line.partition(" ")[0] for line in done.stdout.splitlines()
             if line.endswith(" installed")}
    compiled = isinstance(added, PackagesAndStrongswan) and not Path(strongswan.HOME).exists()
    argv = [str(TESTBED_PYTHON), "-c", _LACKING, *added.python]
    said = subprocess.run(argv, capture_output=True, text=True, check=False).stdout
    return [*(name for name in added.debian if name not in there),
            *(json.loads(said) if said else added.python),
            *([f"strongSwan {strongswan.VERSION} in {strongswan.HOME}"] if compiled else [])]
