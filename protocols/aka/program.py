"""Run a server of SIM subscribers (HSS), which gives hostapd authentication vectors for EAP-AKA.

`python3 -m protocols.aka.program serve CONFIG` is the server. It answers requests of hostapd's
`eap_sim_db` over UDP, one message per datagram: an IMSI in, RAND, AUTN, IK, CK and RES out.
`python3 -m protocols.aka.program gateway CONFIG` is a gateway, which forwards messages between
hostapd's local socket and that server. CONFIG is a JSON file.
"""

from __future__ import annotations

import json
import secrets
import select
import socket
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from protocols.aka.milenage import (
    AMF_BYTES,
    AMF_OF_RESYNCHRONISATION,
    RAND_BYTES,
    SEPARATION,
    SQN_BYTES,
    MilenageKey,
    compute_answers,
    compute_macs,
    conceal_sqn,
)

# --- Subscriber server: authentication vectors for hostapd ---
# The messages are those of hostapd's `eap_sim_db`, one line each. `AKA-REQ-AUTH IMSI` is answered
# by `AKA-RESP-AUTH IMSI RAND AUTN IK CK RES` or `AKA-RESP-AUTH IMSI FAILURE`. `AKA-AUTS IMSI AUTS
# RAND` has no answer.

#: Increment of SEQ: the last five bits of SQN are the index IND (TS 33.102, annex C.1.1). This
#: server uses one index only.
_SQN_STEP = 32


@dataclass
class Subscriber:
    """A subscriber's key, and the sequence number of the last authentication vector.

    With `separates`, vectors have the AMF separation bit: their keys are bound to an access
    network, as EAP-AKA' requires.
    """

    shared: MilenageKey
    sqn: int = 0
    separates: bool = False


class SubscriberServer:
    """A server (HSS) with subscribers by IMSI. `random` returns n random bytes."""

    def __init__(self, subscribers: dict[str, Subscriber], random: Callable[[int], bytes]) -> None:
        self._subscribers, self._random = subscribers, random

    def answer_message(self, message: str) -> str | None:
        """Answer a message of hostapd, or return None if it has no answer."""
        kind, imsi, *rest = [*message.split(), "", ""]
        subscriber = self._subscribers.get(imsi)
        if kind == "AKA-REQ-AUTH":
            vector = "FAILURE" if subscriber is None else self._create_vector(subscriber)
            return f"AKA-RESP-AUTH {imsi} {vector}"
        if kind == "AKA-AUTS" and subscriber is not None:
            _resynchronise_subscriber(subscriber, *(bytes.fromhex(part) for part in rest[:2]))
        return None

    def _create_vector(self, subscriber: Subscriber) -> str:
        subscriber.sqn += _SQN_STEP
        rand, sqn = self._random(RAND_BYTES), subscriber.sqn.to_bytes(SQN_BYTES, "big")
        answers = compute_answers(subscriber.shared, rand)
        amf = SEPARATION if subscriber.separates else bytes(AMF_BYTES)
        autn = (conceal_sqn(sqn, answers.ak) + amf
                + compute_macs(subscriber.shared, rand, sqn, amf)[0])
        return " ".join(part.hex() for part in (rand, autn, answers.ik, answers.ck, answers.res))


def _resynchronise_subscriber(subscriber: Subscriber, auts: bytes, rand: bytes) -> None:
    """Continue from the sequence number of the card, if its message AUTS is authentic."""
    answers = compute_answers(subscriber.shared, rand)
    sqn = conceal_sqn(auts[:SQN_BYTES], answers.ak_of_resynchronisation)
    if compute_macs(subscriber.shared, rand, sqn, AMF_OF_RESYNCHRONISATION)[1] == auts[SQN_BYTES:]:
        # Round up: the card may have accepted numbers with another index.
        subscriber.sqn = -(-int.from_bytes(sqn, "big") // _SQN_STEP) * _SQN_STEP


# --- The two programs ---

DIAMETER_PORT = 3868
_MAX_MESSAGE_BYTES = 2048


def run_server(config: dict[str, Any]) -> None:
    """Answer requests one after the other."""
    server = SubscriberServer({imsi: Subscriber(MilenageKey.from_secrets(entry),
                                                separates=config.get("separates", False))
                               for imsi, entry in config["subscribers"].items()},
                              secrets.token_bytes)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as here:
        here.bind((config["address"], DIAMETER_PORT))
        print("ready", flush=True)
        while True:
            data, asker = here.recvfrom(_MAX_MESSAGE_BYTES)
            answer = server.answer_message(data.decode("ascii", "replace"))
            if answer is not None:
                here.sendto(answer.encode(), asker)


def run_gateway(config: dict[str, Any]) -> None:
    """Forward requests of hostapd to the server, and return the answers.

    There is only one hostapd, so answers go to the last sender.
    """
    asker: Any = None
    with (socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as near,
          socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as far):
        near.bind(config["socket"])
        far.connect((config["server"], DIAMETER_PORT))
        print("ready", flush=True)
        while True:
            for ready in select.select((near, far), (), ())[0]:
                try:
                    data, sender = ready.recvfrom(_MAX_MESSAGE_BYTES)
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
