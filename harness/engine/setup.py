"""What measuring in the embedded guest needs, built when it is missing."""

from __future__ import annotations

from guest import image
from guest.commands import BuildError
from harness.engine import builders
from harness.engine.machine import EmbeddedMachine
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


def build(variant: str, source: str = "") -> image.Image:
    """A variant of the guest's image, built first if there is none. Raises UserError."""
    try:
        return image.ensure(variant=variant, source=source)
    except BuildError as error:
        raise UserError(str(error), status=1) from None
