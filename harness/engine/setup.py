"""Choose the machine for a run, and build its disk images if they are missing.

Emulated networks run in a guest (User-Mode Linux), in a QEMU machine, or on this host.
`make_machine_for_plan` takes the plan of a run. It returns the machine, with an image that has the
network builder (Mininet-WiFi or plain Mininet) and the packages that the plan needs. If packages
are not available, the measurements that need them are skipped.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Collection
from pathlib import Path

import click

from guest import image, root_variants, vm
from guest.boot import GuestError, describe_missing_processor_clock
from guest.build import BuildError
from guest.releases import DEFAULT, RELEASES, Release
from guest.root_variants import PackageList, PackageListWithStrongswan, leave_out_strongswan
from harness.engine import host_checks, virtual
from harness.engine.machine import (
    ROOT,
    TESTBED_PYTHON,
    EmbeddedMachine,
    HostMachine,
    Machine,
    find_foreign_object,
)
from harness.engine.plan import Plan
from harness.errors import UserError
from studies import packages, place_of_study
from studies.study import StudyError
from topologies.builders import MININET, MININET_WIFI, NAMES

# --- Network builder (--builder): the requested or the first working one ---

AUTO_BUILDER = "auto"
#: Values of the option --builder.
BUILDER_CHOICES = (*NAMES, AUTO_BUILDER)
#: The variant of the guest's image that each builder needs.
VARIANT_OF_BUILDER = {MININET_WIFI: image.MININET_WIFI, MININET: image.PLAIN}
#: The command that builds that variant.
PROVISION_COMMANDS = {MININET_WIFI: "./qop provision --mininet-wifi", MININET: "./qop provision"}
_INSTALL_ADVICE = {
    "guest": "no guest image has Mininet-WiFi; './qop provision --mininet-wifi' builds one",
    "vm": "no image of virtual machines has Mininet-WiFi; './qop provision --on vm --mininet-wifi' "
    "builds one",
    "host": "Mininet-WiFi is not installed here; run 'sudo ./qop provision --on host "
    "--mininet-wifi'"}
_IMPORT_DEADLINE_S = 60


def find_missing_by_builder(on: str) -> dict[str, str]:
    """Return, for each network builder, the reason why it does not work.

    The best builder comes first. The text says how to install the builder, and is "" if it works.
    `on` is "guest", "vm" or "host".
    """
    if on == "host":
        return _find_missing_builders()
    built = image.find_image(variant=image.MININET_WIFI, vm=vm_architecture(on))
    # The plain image is built on first use.
    return {MININET_WIFI: "" if built else _INSTALL_ADVICE[on], MININET: ""}


def vm_architecture(on: str) -> str:
    """Return the processor architecture of the virtual machines of `--on vm`, "" for guests.

    Raises:
        UserError: No virtual machine is provided for this machine's architecture.
    """
    try:
        return vm.find_architecture().name if on == "vm" else ""
    except GuestError as error:
        raise UserError(f"--on vm: {error}") from None


def list_working_builders(on: str) -> list[str]:
    """Return the network builders that work on guest, vm or host, best first."""
    return [name for name, lack in find_missing_by_builder(on).items() if not lack]


def choose_builder(requested: str, on: str) -> str:
    """Return the network builder to use: the requested one, or the best that works.

    Args:
        requested: The requested builder, or AUTO_BUILDER for the first one that works.
        on: "guest", "vm" or "host".

    Raises:
        UserError: The requested builder does not work.
    """
    lacks = find_missing_by_builder(on)
    if requested == AUTO_BUILDER:
        return next((name for name, lack in lacks.items() if not lack), MININET)
    if lacks[requested]:
        raise UserError(f"--builder {requested}: {lacks[requested]}")
    return requested


def _find_missing_builders() -> dict[str, str]:
    """Return, for each network builder such as Mininet, why it is missing on this host."""
    if not TESTBED_PYTHON.exists():
        return dict.fromkeys(NAMES, "the testbed is not installed here; run "
                             "'sudo ./qop provision --on host'")
    # One minute is enough, even when the modules are read from disk for the first time.
    argv = ["timeout", str(_IMPORT_DEADLINE_S), str(TESTBED_PYTHON), "-P", "-m",
            "topologies.builders"]
    done = subprocess.run(argv, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True,
                          text=True, check=False)
    try:
        lacks: dict[str, str] = json.loads(done.stdout)
    except ValueError:
        last = (done.stderr.strip().splitlines() or [f"status {done.returncode}"])[-1]
        return dict.fromkeys(NAMES, f"{TESTBED_PYTHON} cannot be asked ({last}); run "
                             "'sudo ./qop provision --on host' again")
    return {name: f"{_INSTALL_ADVICE['host']} ({lacks[name]})" if lacks[name] and name
            == MININET_WIFI
            else lacks[name] for name in NAMES}


# --- Images that a plan needs: the builder's own, and images with more packages ---

#: Program for another Python that prints which packages it lacks.
_LIST_MISSING_PACKAGES = """
import importlib.metadata as m, json, sys
def there(name, version):
    try:
        return m.version(name) == version
    except m.PackageNotFoundError:
        return False
print(json.dumps([text for text in sys.argv[1:] if not there(*text.split("=="))]))
"""


def read_declared_packages(study: str) -> dict[str, PackageList]:
    """Return the Debian and Python packages that a study declares, by the name of the list.

    Raises:
        StudyError: The declaration is invalid.
    """
    where = f"{place_of_study(study)}/{packages.FILE}"
    return {name: (PackageListWithStrongswan if variant.compiled else PackageList)(
        name, variant.debian, variant.lock, where)
            for name, variant in packages.load_variants(study).items()}


def list_package_names(study: str, name: str, release: Release = DEFAULT
                       ) -> dict[str, list[str]]:
    """Return the names of a study's additional packages, whose versions the worker reports.

    For packages compiled from source, the version is included.

    Args:
        study: Name of the study.
        name: Name of its list of packages, "" for none.
        release: The guest's Debian release, which may have some of them itself.
    """
    added = leave_out_strongswan(read_declared_packages(study)[name], release) if name else None
    if added is None:
        return {}
    return {"debian": list(added.debian),
            "python": [text.partition("==")[0] for text in added.python],
            **({"compiled": compiled} if (compiled := list_compiled_packages(added)) else {})}


def list_compiled_packages(added: PackageList) -> list[str]:
    """Return names and versions of those packages that are compiled from source."""
    return [f"strongswan-mlkem {root_variants.STRONGSWAN_VERSION}"] \
        if isinstance(added, PackageListWithStrongswan) else []


def list_plan_packages(plan: Plan) -> dict[str, PackageList]:
    """Return the additional Debian and Python packages that a plan needs, by list name.

    Raises:
        StudyError: A testbed uses packages that the study does not declare.
    """
    names = sorted({testbed.spec.packages for testbed in plan.testbeds.values()} - {""})
    brought = read_declared_packages(plan.study.id) if names else {}
    for name in names:
        if name not in brought:
            raise StudyError(
                f"{plan.study.id}: a testbed names the packages {name!r}; "
                f"{place_of_study(plan.study.id)}/{packages.FILE} "
                + (f"has {', '.join(brought)}" if brought else "does not exist or is empty"))
    return {name: brought[name] for name in names}


def list_plan_images(plan: Plan) -> dict[str, tuple[Release, PackageList | None]]:
    """Return release and additional packages of the images that a plan needs besides the plain one.

    The dictionary is by the image's name (`TestbedSpec.image_name`).

    Raises:
        StudyError: A testbed uses packages that the study does not declare.
    """
    brought = list_plan_packages(plan)
    specs = {testbed.spec.image_name: testbed.spec for testbed in plan.testbeds.values()}
    images = {name: (RELEASES[spec.release or DEFAULT.suite], brought.get(spec.packages))
              for name, spec in sorted(specs.items()) if name}
    others: dict[str, tuple[Release, PackageList | None]] = {
        plain_image_name(suite): (RELEASES[suite], None)
        for suite in plan.daemon_releases.values() if suite != DEFAULT.suite}
    return others | images


def plain_image_name(suite: str) -> str:
    """Return the name of a release's image without additional packages, "" for the default."""
    return "" if suite == DEFAULT.suite else f"@{suite}"


def describe_image(release: Release, added: PackageList | None) -> str:
    """Return what an image has, such as "with packages X of Debian 13", "" for the plain one.

    The default release is not named.
    """
    return " ".join([*([f"with packages {added.name}"] if added else []),
                     *([f"of {release.title}"] if release != DEFAULT else [])])


def list_built_image_keys(plan: Plan) -> dict[str, str]:
    """Return the cache keys of a plan's guest images that are built already.

    The dictionary is by the image's name, "" for the plain one.
    """
    variant = VARIANT_OF_BUILDER[plan.settings.builder]
    needed = {"": (DEFAULT, None), **list_plan_images(plan)}
    images = {name: image.find_image(variant=variant, packages=added, release=release)
              for name, (release, added) in needed.items()}
    return {name: built.key for name, built in images.items() if built is not None}


def can_measure(plan: Plan, images: Collection[str]) -> bool:
    """Return whether the available images suffice to measure at least a part of a plan.

    The image without additional packages is always needed.
    """
    return "" in images and any(testbed.spec.image_name in images
                                for testbed in plan.testbeds.values())


def provision_command(plan: Plan) -> str:
    """Return the `./qop provision` command that builds the images of a plan.

    It has one part for each Debian release. Every run needs the plain image of the default one.
    """
    on = " --on vm" if plan.settings.on == "vm" else ""
    study = f" --study {plan.study.id}" if list_plan_packages(plan) else ""
    command = f"{PROVISION_COMMANDS[plan.settings.builder]}{on}{study}"
    return " && ".join([command,
                        *(f"{command} --release {suite}" for suite in plan.other_releases)])


def find_missing_packages(added: PackageList) -> list[str]:
    """Return the packages of a list that are not installed on this host."""
    done = subprocess.run(["dpkg-query", "-W", "-f", "${Package} ${db:Status-Status}\n",
                           *added.debian], capture_output=True, text=True, check=False)
    installed = {line.partition(" ")[0] for line in done.stdout.splitlines()
                 if line.endswith(" installed")}
    compiled = isinstance(added, PackageListWithStrongswan) and not Path(
        root_variants.STRONGSWAN_HOME).exists()
    argv = [str(TESTBED_PYTHON), "-c", _LIST_MISSING_PACKAGES, *added.python]
    output = subprocess.run(argv, capture_output=True, text=True, check=False).stdout
    return [*(name for name in added.debian if name not in installed),
            *(json.loads(output) if output else added.python),
            *([f"strongSwan {root_variants.STRONGSWAN_VERSION} in {root_variants.STRONGSWAN_HOME}"]
              if compiled else [])]


# --- Machine for a plan ---

_ADDRESS = re.compile(r" from \w+://\S+")


def make_embedded_machine(builder: str = MININET) -> EmbeddedMachine:
    """Return the machine that boots guests (User-Mode Linux) for a network builder.

    The plain image is built if it is missing. The image with Mininet-WiFi is built only on request
    (`ensure_variant`), because Mininet-WiFi is fetched from another source.

    Args:
        builder: The network builder, one of `topologies.builders.NAMES`.

    Raises:
        UserError: There is no image, and it cannot be built.
    """
    return EmbeddedMachine(_ensure_image("guest", builder))


def _ensure_image(on: str, builder: str) -> image.GuestImage:
    variant, architecture = VARIANT_OF_BUILDER[builder], vm_architecture(on)
    built = image.find_image(variant=variant, vm=architecture)
    if built is None:
        if lacking := find_missing_by_builder(on)[builder]:
            raise UserError(f"--builder {builder}: {lacking}")
        built = ensure_variant(variant, vm=architecture)
    return built


def _make_machine(plan: Plan) -> HostMachine | EmbeddedMachine:
    on, builder = plan.settings.on, plan.settings.builder
    if on == "host":
        return HostMachine()
    if on == "vm":
        return virtual.make_machine(_ensure_image(on, builder))
    return make_embedded_machine(builder)


def make_machine_for_plan(plan: Plan, *, builds: bool = True) -> Machine:
    """Return the machine that measures a plan, with the additional packages that it needs.

    If some packages are not available, the testbeds that need them are skipped.

    Args:
        plan: The plan.
        builds: Whether missing images with packages are built. A worker of a cluster builds none:
            it asks with every share, and the run reports what is missing.

    Raises:
        UserError: No testbed of the plan can be measured.
    """
    added = list_plan_images(plan)
    # Before an image is built, which takes minutes.
    if plan.settings.on != "host" and (why := find_foreign_object(
            plan.study.id, vm_architecture(plan.settings.on) or "amd64")):
        raise UserError(f"{why}; compile it there, or list the package that has it in "
                        f"{place_of_study(plan.study.id)}/{packages.FILE}")
    machine = _make_machine(plan)
    if builds and isinstance(machine, EmbeddedMachine):
        check_clock(plan, machine.image)
    for name, (release, wanted) in added.items():
        try:
            _provide_image(machine, plan, name, release, wanted, builds=builds)
        except UserError as error:
            reason = str(error).partition("\n")[0]
            # Records are passed on to others, so they must not contain an address or a path of this
            # machine.
            machine.lacking[name] = _ADDRESS.sub("", reason.partition(";")[0])
            if all(testbed.spec.image_name in machine.lacking
                   for testbed in plan.testbeds.values()):
                raise
            if builds:
                skipped = ", ".join(key for key, testbed in plan.testbeds.items()
                                    if testbed.spec.image_name == name)
                click.echo(f"qop: skipping {skipped}: {reason}", err=True)
    return machine


def check_clock(plan: Plan, built: image.GuestImage) -> None:
    """Raise UserError if the kernel of a guest image does not support the plan's clock."""
    if plan.settings.clock == "processor" and not built.processor_clock:
        raise UserError(
            f"--clock processor: {describe_missing_processor_clock(built)}; add --clock real, "
            "which every kernel has")


def _provide_image(target: HostMachine | EmbeddedMachine, plan: Plan, name: str,
                   release: Release, packages: PackageList | None, *, builds: bool) -> None:
    if isinstance(target, HostMachine):
        if packages is not None:
            _check_host(plan.study.id, packages)
        return
    variant = VARIANT_OF_BUILDER[plan.settings.builder]
    architecture = vm_architecture(plan.settings.on)
    if not builds and image.find_image(variant=variant, packages=packages,
                                       vm=architecture, release=release) is None:
        raise UserError(f"no guest image {describe_image(release, packages)} is built; give "
                        f"'{provision_command(plan)}'", status=1)
    target.variants[name] = ensure_variant(variant, packages=packages, vm=architecture,
                                           release=release)


def _check_host(study: str, packages: PackageList) -> None:
    lacking = find_missing_packages(packages)
    if lacking and isinstance(packages, PackageListWithStrongswan):
        raise UserError(f"--on host: this machine lacks {', '.join(lacking)}; it is compiled for "
                        "images of the guest alone, so leave out --on host")
    if lacking:
        raise UserError(f"--on host: this machine lacks {', '.join(lacking)}, which {study} needs; "
                        f"run 'sudo ./qop provision --on host --study {study}'")


def check_plan_build(plan: Plan) -> None:
    """Raise UserError if an image that a plan needs is missing and cannot be built.

    The checks of `check_before_build` are made only if something has to be built.
    """
    on = plan.settings.on
    if on == "host":
        return
    variant, vm_name = VARIANT_OF_BUILDER[plan.settings.builder], vm_architecture(on)
    if missing := find_missing_parts(variant, vm=vm_name):
        check_before_build(is_vm=on == "vm", is_whole=all(missing.values()))


def find_missing_parts(variant: str, source: str = "", packages: PackageList | None = None,
                       vm: str = "", release: Release = DEFAULT) -> dict[str, bool]:
    """Return for each part of an image whether it has to be built, {} if none has to."""
    parts = image.list_image_parts(variant=variant, source=source, packages=packages, vm=vm,
                                   release=release)
    missing = {part.name: part.store.find_build(part.recipe.key()) is None for part in parts}
    return missing if any(missing.values()) else {}


def check_before_build(*, is_vm: bool = False, is_whole: bool = True, measures: bool = True
                       ) -> None:
    """Raise UserError with every obstacle to building an image and measuring with it.

    Each obstacle has a line with what to do.

    Args:
        is_vm: whether virtual machines will boot the image.
        is_whole: whether kernel and root are both missing, which takes most disk space.
        measures: whether captures will be dissected.
    """
    lines = [f"{finding.what.partition(':')[0]}: {finding.remedy}" for finding
             in host_checks.find_build_obstacles(is_vm=is_vm, is_whole=is_whole,
                                                 measures=measures)]
    if lines:
        separator = "\n  " if len(lines) > 1 else " "
        raise UserError(f"before the guest is built:{separator}{separator.join(lines)}; "
                        "'./qop doctor' checks everything")


def ensure_variant(variant: str, source: str = "", packages: PackageList | None = None,
                   vm: str = "", release: Release = DEFAULT) -> image.GuestImage:
    """Return the guest image with a network builder, packages or release, built if missing.

    Raises:
        UserError: The image cannot be built. What can be checked is checked before the build.
    """
    if missing := find_missing_parts(variant, source, packages, vm, release):
        check_before_build(is_vm=bool(vm), is_whole=all(missing.values()))
    try:
        return image.ensure_image(variant=variant, source=source, packages=packages, vm=vm,
                                  release=release)
    except BuildError as error:
        raise UserError(str(error), status=1) from None
