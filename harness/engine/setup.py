"""Provide the machine for a run, and build the guest's images if they are missing."""

from __future__ import annotations

import re

import click

from guest import image
from guest.boot import lack_of_processor_clock
from guest.commands import BuildError
from guest.packages import Packages
from guest.strongswan import PackagesAndStrongswan
from harness.engine import builders, variants
from harness.engine.machine import EmbeddedMachine, HostMachine, Machine
from harness.engine.plan import Plan
from harness.errors import UserError
from topologies.builders import MININET

_ADDRESS = re.compile(r" from \w+://\S+")


def embedded_machine(builder: str = MININET) -> EmbeddedMachine:
    """Return the embedded machine for testbeds of a network backend.

    The plain image is built if it is missing. The one with Mininet-WiFi is built only on request
    (`ensure_variant`), because it is fetched from another source.

    Args:
        builder: The network backend.

    Raises:
        UserError: There is no image, and it cannot be built.
    """
    variant = builders.VARIANTS[builder]
    built = image.find_image(variant=variant)
    if built is None:
        if lacking := builders.missing_by_builder("guest")[builder]:
            raise UserError(f"--builder {builder}: {lacking}")
        built = ensure_variant(variant)
    return EmbeddedMachine(built)


def machine_for_plan(plan: Plan, *, builds: bool = True) -> Machine:
    """Return the machine for a plan, with the packages that its testbeds need.

    If some packages are not available, the testbeds that need them are skipped.

    Args:
        plan: The plan.
        builds: Whether missing images with packages are built. A worker of a cluster builds none:
            it asks with every share, and the run reports what is missing.

    Raises:
        UserError: No testbed of the plan can be measured.
    """
    added = variants.packages_of_plan(plan)
    made = HostMachine() if plan.settings.on == "host" else embedded_machine(plan.settings.builder)
    if builds and isinstance(made, EmbeddedMachine):
        check_clock(plan, made.image)
    for name, packages in added.items():
        try:
            _provide_packages(made, plan, packages, builds=builds)
        except UserError as error:
            said = str(error).partition("\n")[0]
            # Records are passed on to others, so they must not contain an address or a path of this
            # machine.
            made.lacking[name] = _ADDRESS.sub("", said.partition(";")[0])
            if all(testbed.spec.packages in made.lacking for testbed in plan.testbeds.values()):
                raise
            if builds:
                skipped = ", ".join(key for key, testbed in plan.testbeds.items()
                                    if testbed.spec.packages == name)
                click.echo(f"qop: skipping {skipped}: {said}", err=True)
    return made


def check_clock(plan: Plan, built: image.Image) -> None:
    """Raise UserError if an image's kernel does not have the plan's clock."""
    if plan.settings.clock == "processor" and not built.processor_clock:
        raise UserError(f"--clock processor: {lack_of_processor_clock(built)}; add --clock real, "
                        "which every kernel has")


def _provide_packages(target: HostMachine | EmbeddedMachine, plan: Plan, packages: Packages, *,
                      builds: bool) -> None:
    if isinstance(target, HostMachine):
        _check_host(plan.study.id, packages)
        return
    variant = builders.VARIANTS[plan.settings.builder]
    if not builds and image.find_image(variant=variant, packages=packages) is None:
        raise UserError(f"no guest image with packages {packages.name} is built; give "
                        f"'{variants.provision_command(plan)}'", status=1)
    target.variants[packages.name] = ensure_variant(variant, packages=packages)


def _check_host(study: str, packages: Packages) -> None:
    lacking = variants.lacking_on_host(packages)
    if lacking and isinstance(packages, PackagesAndStrongswan):
        raise UserError(f"--on host: this machine lacks {', '.join(lacking)}; it is compiled for "
                        "images of the guest alone, so leave out --on host")
    if lacking:
        raise UserError(f"--on host: this machine lacks {', '.join(lacking)}, which {study} needs; "
                        f"run 'sudo ./qop provision --on host --study {study}'")


def ensure_variant(variant: str, source: str = "", packages: Packages | None = None) -> image.Image:
    """Return a variant of the guest's image, built first if it is missing. Raises UserError."""
    try:
        return image.ensure_image(variant=variant, source=source, packages=packages)
    except BuildError as error:
        raise UserError(str(error), status=1) from None
