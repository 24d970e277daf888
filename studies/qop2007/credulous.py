"""Program that runs a Mobile IP program which accepts every authenticator: a negative control.

`python3 -m studies.qop2007.credulous MODULE CONFIG.json`.
"""

from __future__ import annotations

import importlib
import sys

from topologies.mobile_ip import packets


def main(arguments: list[str]) -> int:
    """Run the program of the module that is the first argument until it ends."""
    packets.is_authentic = lambda *_: True
    module, *its_own = arguments
    status: int = importlib.import_module(module).main(its_own)
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
