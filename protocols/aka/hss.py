"""Subscriber server (HSS) that generates authentication vectors for hostapd.

The messages are those of hostapd's `eap_sim_db`, one line each. `AKA-REQ-AUTH IMSI` is answered by
`AKA-RESP-AUTH IMSI RAND AUTN IK CK RES` or `AKA-RESP-AUTH IMSI FAILURE`. `AKA-AUTS IMSI AUTS RAND`
has no answer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

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

#: Increment of SEQ: the last five bits of SQN are the index IND (TS 33.102, annex C.1.1). This
#: server uses one index only.
_STEP = 32


@dataclass
class Subscriber:
    """A subscriber's key, with the sequence number of the last vector.

    With `separates`, vectors carry the AMF separation bit: their keys are bound to an access
    network, as EAP-AKA' requires.
    """

    shared: MilenageKey
    sqn: int = 0
    separates: bool = False


class SubscriberServer:
    """An HSS with subscribers by IMSI.

    `random` returns n random bytes.
    """

    def __init__(self, subscribers: dict[str, Subscriber], random: Callable[[int], bytes]) -> None:
        self._subscribers, self._random = subscribers, random

    def answer_message(self, message: str) -> str | None:
        """Return the answer to a message, or None if it has no answer."""
        kind, imsi, *rest = [*message.split(), "", ""]
        subscriber = self._subscribers.get(imsi)
        if kind == "AKA-REQ-AUTH":
            vector = "FAILURE" if subscriber is None else self._create_vector(subscriber)
            return f"AKA-RESP-AUTH {imsi} {vector}"
        if kind == "AKA-AUTS" and subscriber is not None:
            _resynchronise_subscriber(subscriber, *(bytes.fromhex(part) for part in rest[:2]))
        return None

    def _create_vector(self, subscriber: Subscriber) -> str:
        subscriber.sqn += _STEP
        rand, sqn = self._random(RAND_BYTES), subscriber.sqn.to_bytes(SQN_BYTES, "big")
        made = compute_answers(subscriber.shared, rand)
        amf = SEPARATION if subscriber.separates else bytes(AMF_BYTES)
        autn = conceal_sqn(sqn, made.ak) + amf + compute_macs(subscriber.shared, rand, sqn, amf)[0]
        return " ".join(part.hex() for part in (rand, autn, made.ik, made.ck, made.res))


def _resynchronise_subscriber(subscriber: Subscriber, auts: bytes, rand: bytes) -> None:
    """Continue from the card's sequence number if its AUTS is authentic."""
    made = compute_answers(subscriber.shared, rand)
    sqn = conceal_sqn(auts[:SQN_BYTES], made.ak_of_resynchronisation)
    if compute_macs(subscriber.shared, rand, sqn, AMF_OF_RESYNCHRONISATION)[1] == auts[SQN_BYTES:]:
        # Round up: the card may have accepted numbers with another index.
        subscriber.sqn = -(-int.from_bytes(sqn, "big") // _STEP) * _STEP
