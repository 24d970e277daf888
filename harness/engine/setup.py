"""What measuring needs, built when it is missing: images of the guest, or this very machine."""

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


def embedded(builder: str = MININET) -> EmbeddedMachine:
    """The embedded machine for testbeds of a builder. Raises UserError.

    The plain image is built first if there is none; the one with Mininet-WiFi only when it is
    asked for (`build`), because it is fetched from elsewhere.
    """
    variant = builders.VARIANTS[builder]
    built = image.find(variant=variant)
    if built is None:
        if lacking := builders.lacking("guest")[builder]:
            raise UserError(f"--builder {builder}: {lacking}")
        built = build(variant)
    return EmbeddedMachine(built)


def machine(plan: Plan, *, builds: bool = True) -> Machine:
    """What a plan is measured on, with the packages that its testbeds name. Raises UserError.

    Where others do without, testbeds whose packages are not to be had are skipped. Images with
    packages are built where there are none, unless it `builds` nothing: so does a worker of a
    cluster, which asks with every share, and whose run says what it lacks.
    """
    added = variants.named(plan)
    made = HostMachine() if plan.settings.on == "host" else embedded(plan.settings.builder)
    if builds and isinstance(made, EmbeddedMachine):
        check_clock(plan, made.image)
    for name, packages in added.items():
        try:
            _provide(made, plan, packages, builds=builds)
        except UserError as error:
            said = str(error).partition("\n")[0]
            # Records are passed on: no address, and no path of this machine.
            made.lacking[name] = _ADDRESS.sub("", said.partition(";")[0])
            if all(testbed.spec.packages in made.lacking for testbed in plan.testbeds.values()):
                raise
            if builds:
                skipped = ", ".join(key for key, testbed in plan.testbeds.items()
                                    if testbed.spec.packages == name)
                click.echo(f"qop: skipping {skipped}: {said}", err=True)
    return made


def check_clock(plan: Plan, built: image.Image) -> None:
    """Refuse a clock that an image's kernel has not got. Raises UserError."""
    if plan.settings.clock == "processor" and not built.processor_clock:
        raise UserError(f"--clock processor: {lack_of_processor_clock(built)}; add --clock real, "
                        "which every kernel has")


def _provide(made: HostMachine | EmbeddedMachine, plan: Plan, packages: Packages, *,
             builds: bool) -> None:
    if isinstance(made, HostMachine):
        _check_host(plan.study.id, packages)
        return
    variant = builders.VARIANTS[plan.settings.builder]
    if not builds and image.find(variant=variant, packages=packages) is None:
        raise UserError(f"no guest image with packages {packages.name} is built; give "
                        f"'{variants.provision(plan)}'", status=1)
    made.variants[packages.name] = build(variant, packages=packages)


def _check_host(study: str, packages: Packages) -> None:
    lacking = variants.lacking_on_host(packages)
    if lacking and isinstance(packages, PackagesAndStrongswan):
        raise UserError(f"--on host: this machine lacks {', '.join(lacking)}; it is compiled for "
                        "images of the guest alone, so leave out --on host")
    if lacking:
        raise UserError(f"--on host: this machine lacks {', '.join(lacking)}, which {study} needs; "
                        f"run 'sudo ./qop provision --on host --study {study}'")


def build(variant: str, source: str = "", packages: Packages | None = None) -> image.Image:
    """A variant of the guest's image, built first if there is none. Raises UserError."""
    try:
        return image.ensure(variant=variant, source=source, packages=packages)
    except BuildError as error:
        raise UserError(str(error), status=1) from None
