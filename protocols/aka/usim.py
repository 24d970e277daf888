"""USIM that answers a network's challenge or requests resynchronisation (TS 33.102, 6.3)."""

from __future__ import annotations

from dataclasses import dataclass

from protocols.aka.milenage import (
    AMF_OF_RESYNCHRONISATION,
    SQN_BYTES,
    MilenageKey,
    compute_answers,
    compute_macs,
    conceal_sqn,
)


@dataclass(frozen=True)
class CardAccepts:
    """The response to an authentic challenge, with the keys of this challenge."""

    res: bytes
    ck: bytes
    ik: bytes


@dataclass(frozen=True)
class CardResynchronises:
    """The answer to an old sequence number: AUTS reports the card's own number."""

    auts: bytes


class Usim:
    """A subscriber's card with the highest sequence number that it has accepted."""

    def __init__(self, shared: MilenageKey, sqn: int = 0) -> None:
        self._shared, self._sqn = shared, sqn

    def answer_challenge(self, rand: bytes, autn: bytes) -> CardAccepts | CardResynchronises | None:
        """Answer a challenge.

        Return None if it was not created with the subscriber's key.
        """
        made = compute_answers(self._shared, rand)
        sqn, amf = conceal_sqn(autn[:SQN_BYTES], made.ak), autn[SQN_BYTES:SQN_BYTES + 2]
        if compute_macs(self._shared, rand, sqn, amf)[0] != autn[SQN_BYTES + 2:]:
            return None
        if int.from_bytes(sqn, "big") <= self._sqn:
            own = self._sqn.to_bytes(SQN_BYTES, "big")
            return CardResynchronises(
                conceal_sqn(own, made.ak_of_resynchronisation)
                + compute_macs(self._shared, rand, own, AMF_OF_RESYNCHRONISATION)[1])
        self._sqn = int.from_bytes(sqn, "big")
        return CardAccepts(made.res, made.ck, made.ik)


def answer_to_supplicant(card: Usim, request: str) -> str:
    """Answer wpa_supplicant's request to an external SIM (`external_sim`).

    The request is `UMTS-AUTH:RAND:AUTN` in hexadecimal digits. Raises ValueError for another
    request.
    """
    kind, *challenge = request.split(":")
    if kind != "UMTS-AUTH" or len(challenge) != 2:
        raise ValueError(f"a card is asked for {kind}, which is not UMTS-AUTH:RAND:AUTN")
    said = card.answer_challenge(*(bytes.fromhex(part) for part in challenge))
    if said is None:
        return "UMTS-FAIL"
    if isinstance(said, CardResynchronises):
        return f"UMTS-AUTS:{said.auts.hex()}"
    return f"UMTS-AUTH:{said.ik.hex()}:{said.ck.hex()}:{said.res.hex()}"
