"""Program: runs a Mobile IP program that takes every authenticator for right, a negative control.

`python3 -m studies.qop2007.credulous MODULE CONFIG.json`.
"""

from __future__ import annotations

import importlib
import sys

from topologies.mobile_ip import packets


def main(module: str, *arguments: str) -> int:
    """Run the module's program until it ends."""
    packets.is_authentic = lambda *_: True
    status: int = importlib.import_module(module).main(list(arguments))
    return status


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
