"""What measuring needs, built when it is missing: images of the guest, or this very machine."""

from __future__ import annotations

from guest import image
from guest.commands import BuildError
from guest.packages import Packages
from harness.engine import builders, variants
from harness.engine.machine import EmbeddedMachine, HostMachine, Machine
from harness.engine.plan import Plan
from harness.errors import UserError
from topologies.builders import MININET


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


def machine(plan: Plan) -> Machine:
    """What a plan is measured on, with the packages that its testbeds name. Raises UserError."""
    added = variants.named(plan)
    if plan.settings.on == "host":
        host = HostMachine()
        for packages in added.values():
            _check_host(plan.study.id, packages)
        return host
    embedded_machine = embedded(plan.settings.builder)
    variant = builders.VARIANTS[plan.settings.builder]
    for name, packages in added.items():
        embedded_machine.variants[name] = build(variant, packages=packages)
    return embedded_machine


def _check_host(study: str, packages: Packages) -> None:
    lacking = variants.lacking_on_host(packages)
    if lacking:
        raise UserError(f"--on host: this machine lacks {', '.join(lacking)}, which {study} needs; "
                        f"run 'sudo ./qop provision --on host --study {study}'")


def build(variant: str, source: str = "", packages: Packages | None = None) -> image.Image:
    """A variant of the guest's image, built first if there is none. Raises UserError."""
    try:
        return image.ensure(variant=variant, source=source, packages=packages)
    except BuildError as error:
        raise UserError(str(error), status=1) from None
