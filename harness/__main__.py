"""`python -m harness`: what ./qop hands over to."""

import sys

from harness.cli import main

if __name__ == "__main__":  # processes that dissect import this file, too
    sys.exit(main())
