"""Program of the subscriber server, and of the gateway from hostapd to this server.

`python3 -m protocols.aka.program serve CONFIG` listens on the configured address over UDP, one
message per datagram. `python3 -m protocols.aka.program gateway CONFIG` forwards messages between
hostapd's local socket and that server.
"""

from __future__ import annotations

import json
import secrets
import select
import socket
import sys
from pathlib import Path
from typing import Any

from protocols.aka.hss import Subscriber, SubscriberServer
from protocols.aka.milenage import MilenageKey

PORT = 3868
_BYTES = 2048


def run_server(config: dict[str, Any]) -> None:
    """Answer requests one after the other."""
    server = SubscriberServer({imsi: Subscriber(MilenageKey.from_secrets(said),
                                                separates=config.get("separates", False))
                               for imsi, said in config["subscribers"].items()},
                              secrets.token_bytes)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as here:
        here.bind((config["address"], PORT))
        print("ready", flush=True)
        while True:
            data, asker = here.recvfrom(_BYTES)
            said = server.answer_message(data.decode("ascii", "replace"))
            if said is not None:
                here.sendto(said.encode(), asker)


def run_gateway(config: dict[str, Any]) -> None:
    """Forward hostapd's requests, and send answers to the last sender.

    There is only one hostapd.
    """
    asker: Any = None
    with (socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as near,
          socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as far):
        near.bind(config["socket"])
        far.connect((config["server"], PORT))
        print("ready", flush=True)
        while True:
            for ready in select.select((near, far), (), ())[0]:
                try:
                    data, sender = ready.recvfrom(_BYTES)
                    if ready is near:
                        asker = sender
                        far.send(data)
                    elif asker:
                        near.sendto(data, asker)
                except OSError:
                    continue  # treat the message as lost: no process listens at the destination


def main() -> None:
    """Run the server or the gateway."""
    {"serve": run_server,
     "gateway": run_gateway}[sys.argv[1]](json.loads(Path(sys.argv[2]).read_text()))


if __name__ == "__main__":
    main()
