"""Program: runs a Mobile IP program whose denials are taken for acceptance, a negative control.

`python3 -m studies.qop2007.denied MODULE CONFIG.json`. A home agent serves whom it tells that it
does not, and a mobile node goes on as if it were served.
"""

from __future__ import annotations

import importlib
import sys
from dataclasses import replace

from topologies.mobile_ip import packets
from topologies.mobile_ip.packets import ACCEPTED, Code, Reply


def main(module: str, *arguments: str) -> int:
    """Run the module's program until it ends."""
    encode = packets.Reply.encode

    def denying(reply: Reply) -> bytes:
        return encode(replace(reply, code=Code.HA_PROHIBITED) if reply.code in ACCEPTED else reply)

    packets.Reply.encode = denying  # type: ignore[method-assign]
    packets.Reply.accepted = property(lambda _: True)  # type: ignore[method-assign, assignment]
    status: int = importlib.import_module(module).main(list(arguments))
    return status


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
