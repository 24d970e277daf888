"""Program that runs a mobile node's Mobile IP program, which only claims to register.

A negative control: at home packets still find the node. `python3 -m studies.qop2007.unregistered
MODULE CONFIG.json`.
"""

from __future__ import annotations

import importlib
import sys

from topologies.mobile_ip.effects import DaemonEvent, Effect
from topologies.mobile_ip.mobile_node import MobileNode


def main(arguments: list[str]) -> int:
    """Run the program of the module that is the first argument until it ends."""
    MobileNode._start_registration = _claim_registration  # type: ignore[assignment, method-assign]  # noqa: SLF001 - what it is for
    module, *its_own = arguments
    status: int = importlib.import_module(module).main(its_own)
    return status


def _claim_registration(node: MobileNode, *_: float) -> list[Effect]:
    """Claim a registration, instead of sending a request and waiting for its reply."""
    node.registered = True
    agent = node.agent
    return [DaemonEvent("registered", {"agent": agent.address if agent else "", "place": "home"})]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
