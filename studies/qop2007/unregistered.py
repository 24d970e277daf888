"""Program: a mobile node's Mobile IP program that registers with nobody and says that it has.

A negative control: at home packets find the node all the same.
`python3 -m studies.qop2007.unregistered MODULE CONFIG.json`.
"""

from __future__ import annotations

import importlib
import sys

from topologies.mobile_ip.effects import DaemonEvent, Effect
from topologies.mobile_ip.mobile_node import MobileNode


def main(arguments: list[str]) -> int:
    """Run the program of the module that is named first until it ends."""
    MobileNode._start = _claimed  # type: ignore[assignment, method-assign]  # noqa: SLF001 - what it is for
    module, *its_own = arguments
    status: int = importlib.import_module(module).main(its_own)
    return status


def _claimed(node: MobileNode, *_: float) -> list[Effect]:
    """In place of a request, and of waiting for its reply."""
    node.registered = True
    agent = node.agent
    return [DaemonEvent("registered", {"agent": agent.address if agent else "", "place": "home"})]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
