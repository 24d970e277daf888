"""What measuring in the embedded guest needs, built when it is missing."""

from __future__ import annotations

from guest import image
from guest.commands import BuildError
from harness.errors import UserError
from harness.machine import EmbeddedMachine


def embedded() -> EmbeddedMachine:
    """The embedded machine; its image is built first if there is none. Raises UserError."""
    try:
        return EmbeddedMachine(image.ensure())
    except BuildError as error:
        raise UserError(str(error), status=1) from None
