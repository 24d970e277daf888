"""Program that runs a Mobile IP program in which a denial counts as an acceptance.

A negative control: the home agent denies every registration by the code of its reply, and carries
it out. The receiver of the reply takes it for accepted. `python3 -m studies.qop2007.denied MODULE
CONFIG.json`.
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
    """Run the program of the module that is the first argument until it ends."""
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
