"""The guest images that a plan needs: the backend's own, and images with more packages."""

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

#: Program for another Python that prints which packages it lacks.
_LACKING = """
import importlib.metadata as m, json, sys
def there(name, version):
    try:
        return m.version(name) == version
    except m.PackageNotFoundError:
        return False
print(json.dumps([text for text in sys.argv[1:] if not there(*text.split("=="))]))
"""


def declared_packages(study: str) -> dict[str, Packages]:
    """Return the packages that a study declares, by name. Raises StudyError."""
    where = f"studies/{study}/{packages.FILE}"
    return {name: (PackagesAndStrongswan if variant.compiled else Packages)(
                name, variant.debian, variant.lock, where)
            for name, variant in packages.load_variants(study).items()}


def package_names(study: str, name: str) -> dict[str, list[str]]:
    """Return the names of a variant's packages, from which the worker reports versions.

    For compiled packages, the version is included.
    """
    if not name:
        return {}
    added = declared_packages(study)[name]
    return {"debian": list(added.debian),
            "python": [text.partition("==")[0] for text in added.python],
            **({"compiled": compiled} if (compiled := compiled_for(added)) else {})}


def compiled_for(added: Packages) -> list[str]:
    """Return the names and versions of a variant's packages that are compiled from source."""
    return [f"strongswan-mlkem {strongswan.VERSION}"] \
        if isinstance(added, PackagesAndStrongswan) else []


def packages_of_plan(plan: Plan) -> dict[str, Packages]:
    """Return the declared packages that testbeds of the plan use.

    Raises:
        StudyError: A testbed uses packages that the study does not declare.
    """
    names = sorted({testbed.spec.packages for testbed in plan.testbeds.values()} - {""})
    brought = declared_packages(plan.study.id) if names else {}
    for name in names:
        if name not in brought:
            raise StudyError(
                f"{plan.study.id}: a testbed names the packages {name!r}; "
                f"studies/{plan.study.id}/{packages.FILE} "
                + (f"has {', '.join(brought)}" if brought else "does not exist or is empty"))
    return {name: brought[name] for name in names}


def built_image_keys(plan: Plan) -> dict[str, str]:
    """Return the keys of a plan's images that are built, by packages.

    The image without packages has the name "".
    """
    variant = builders.VARIANTS[plan.settings.builder]
    needed: dict[str, Packages | None] = {"": None, **packages_of_plan(plan)}
    images = {name: image.find_image(variant=variant, packages=added)
              for name, added in needed.items()}
    return {name: built.key for name, built in images.items() if built is not None}


def can_measure(plan: Plan, images: Collection[str]) -> bool:
    """Return whether these images allow to measure a part of a plan.

    The image without packages is always needed.
    """
    return "" in images and any(testbed.spec.packages in images
                                for testbed in plan.testbeds.values())


def provision_command(plan: Plan) -> str:
    """Return the command that builds a plan's images."""
    study = f" --study {plan.study.id}" if packages_of_plan(plan) else ""
    return f"{builders.PROVISION[plan.settings.builder]}{study}"


def lacking_on_host(added: Packages) -> list[str]:
    """Return those of the given packages that this host lacks."""
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
