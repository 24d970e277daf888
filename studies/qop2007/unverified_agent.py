"""Run Mobile IP with an injected fault: every authenticator is accepted without verification.

With this negative control, the study's checks of the authentication between node and agents must
fail. The program replaces a function of the Mobile IP program and then runs it: `python3 -m
studies.qop2007.unverified_agent MODULE CONFIG.json`.
"""

from __future__ import annotations

import importlib
import sys

from topologies.mobile_ip import packets


def main(arguments: list[str]) -> int:
    """Switch off the verification of authenticators, then run the Mobile IP program until it ends.

    Args:
        arguments: name of the program's module, then its arguments.

    Returns:
        The exit status of the program.
    """
    packets.is_authentic = lambda *_: True
    module, *its_own = arguments
    status: int = importlib.import_module(module).main(its_own)
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
