"""`python -m harness`: what ./qop hands over to."""

import sys

from harness.cli import main

sys.exit(main())
