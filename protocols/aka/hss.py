"""A subscriber server makes authentication vectors, in the words of hostapd's `eap_sim_db`.

A message is one line: `AKA-REQ-AUTH IMSI`, answered by `AKA-RESP-AUTH IMSI RAND AUTN IK CK RES` or
`AKA-RESP-AUTH IMSI FAILURE`; and `AKA-AUTS IMSI AUTS RAND`, which nobody answers.
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
    answers,
    hidden,
    macs,
)

#: The last five bits say which of a number's users it is for (TS 33.102, annex C.1.1); here is one.
_STEP = 32


@dataclass
class Subscriber:
    """Whose key it is, with the sequence number of the last vector.

    `separates` says that vectors are for networks that keys are bound to, as EAP-AKA' has it.
    """

    shared: MilenageKey
    sqn: int = 0
    separates: bool = False


class SubscriberServer:
    """Subscribers by IMSI; `random` gives so many random bytes."""

    def __init__(self, subscribers: dict[str, Subscriber], random: Callable[[int], bytes]) -> None:
        self._subscribers, self._random = subscribers, random

    def answer(self, message: str) -> str | None:
        """What to say to a message; None where nothing is to be said."""
        kind, imsi, *rest = [*message.split(), "", ""]
        subscriber = self._subscribers.get(imsi)
        if kind == "AKA-REQ-AUTH":
            vector = "FAILURE" if subscriber is None else self._vector(subscriber)
            return f"AKA-RESP-AUTH {imsi} {vector}"
        if kind == "AKA-AUTS" and subscriber is not None:
            _resynchronise(subscriber, *(bytes.fromhex(part) for part in rest[:2]))
        return None

    def _vector(self, subscriber: Subscriber) -> str:
        subscriber.sqn += _STEP
        rand, sqn = self._random(RAND_BYTES), subscriber.sqn.to_bytes(SQN_BYTES, "big")
        made = answers(subscriber.shared, rand)
        amf = SEPARATION if subscriber.separates else bytes(AMF_BYTES)
        autn = hidden(sqn, made.ak) + amf + macs(subscriber.shared, rand, sqn, amf)[0]
        return " ".join(part.hex() for part in (rand, autn, made.ik, made.ck, made.res))


def _resynchronise(subscriber: Subscriber, auts: bytes, rand: bytes) -> None:
    """Go on from the card's sequence number, if it is the card that says so."""
    made = answers(subscriber.shared, rand)
    sqn = hidden(auts[:SQN_BYTES], made.ak_of_resynchronisation)
    if macs(subscriber.shared, rand, sqn, AMF_OF_RESYNCHRONISATION)[1] == auts[SQN_BYTES:]:
        # Numbers for other users of the same card may be between.
        subscriber.sqn = -(-int.from_bytes(sqn, "big") // _STEP) * _STEP
