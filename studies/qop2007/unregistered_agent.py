"""Run Mobile IP with an injected fault: the mobile node sends no Registration Request.

The mobile node only claims to be registered. At home, packets still find the node without a
registration, so traffic flows. With this negative control, the study's checks of the registration
must fail. The program replaces a function of the Mobile IP program and then runs it: `python3 -m
studies.qop2007.unregistered_agent MODULE CONFIG.json`.
"""

from __future__ import annotations

import importlib
import sys

from topologies.mobile_ip.effects import DaemonEvent, Effect
from topologies.mobile_ip.mobile_node import MobileNode


def main(arguments: list[str]) -> int:
    """Make the mobile node skip its registration, then run the Mobile IP program until it ends.

    Args:
        arguments: name of the program's module, then its arguments.

    Returns:
        The exit status of the program.
    """
    MobileNode._start_registration = _claim_registration  # type: ignore[assignment, method-assign]  # noqa: SLF001 - what it is for
    module, *its_own = arguments
    status: int = importlib.import_module(module).main(its_own)
    return status


def _claim_registration(node: MobileNode, *_: float) -> list[Effect]:
    """Mark the mobile node as registered, and send no Registration Request."""
    node.registered = True
    agent = node.agent
    return [DaemonEvent("registered", {"agent": agent.address if agent else "", "place": "home"})]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
