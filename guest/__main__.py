"""Build the guest's image if it is missing, and print its paths (`python3 -m guest`)."""

from __future__ import annotations

import sys

from guest.build import BuildError
from guest.image import ensure_image


def main() -> int:
    """Build the guest's image if it is missing, print its paths, and return the exit status."""
    try:
        image = ensure_image()
    except BuildError as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    print(image.kernel, image.root, sep="\n")
    return 0


sys.exit(main())
