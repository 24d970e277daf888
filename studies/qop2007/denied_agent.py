"""Run Mobile IP with an injected fault: the home agent denies every registration.

The denial is only the code in the home agent's reply. The home agent still carries the registration
out. All agents and the mobile node run this program in place of their Mobile IP program, so they
count the code as accepted, and traffic flows. With this negative control, the study's checks of the
reply's code must fail. The program replaces parts of the Mobile IP program and then runs it:
`python3 -m studies.qop2007.denied_agent MODULE CONFIG.json`.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

from topologies.mobile_ip import packets
from topologies.mobile_ip.effects import SendMessage
from topologies.mobile_ip.home_agent import HomeAgent
from topologies.mobile_ip.packets import Code


def main(arguments: list[str]) -> int:
    """Make replies deny, count them as accepted, then run the Mobile IP program until it ends.

    Args:
        arguments: name of the program's module, then its arguments.

    Returns:
        The exit status of the program.
    """
    reply = HomeAgent._build_reply  # noqa: SLF001 - what it is for

    def denying(agent: HomeAgent, datagram: Any, request: Any, _: int, *rest: Any) -> SendMessage:
        return reply(agent, datagram, request, Code.HA_UNSPECIFIED, *rest)

    HomeAgent._build_reply = denying  # type: ignore[assignment, method-assign]  # noqa: SLF001
    packets.ACCEPTED |= {Code.HA_UNSPECIFIED}
    module, *its_own = arguments
    status: int = importlib.import_module(module).main(its_own)
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
