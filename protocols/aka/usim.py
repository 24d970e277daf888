"""Emulate a SIM card (USIM) that answers the challenges of a UMTS network.

`Usim` takes the subscriber's key and the highest accepted sequence number. Its `answer_challenge`
takes RAND and AUTN. It returns RES, CK and IK (`UsimResponse`), or a request to resynchronise
(AUTS, 3GPP TS 33.102, section 6.3). It returns None if the challenge was not made with the key.
`answer_to_supplicant` takes a request of wpa_supplicant (option `external_sim`) as text, and
returns the answer as text.
"""

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
class UsimResponse:
    """The card's response to an authentic challenge, with the keys of this challenge."""

    res: bytes
    ck: bytes
    ik: bytes


@dataclass(frozen=True)
class UsimResynchronisation:
    """The card's answer to an old sequence number: AUTS reports the card's own number."""

    auts: bytes


class Usim:
    """A SIM card with the highest sequence number that it has accepted."""

    def __init__(self, shared: MilenageKey, sqn: int = 0) -> None:
        self._shared, self._sqn = shared, sqn

    def answer_challenge(self, rand: bytes,
                         autn: bytes) -> UsimResponse | UsimResynchronisation | None:
        """Answer a challenge, or return None if it was not made with the subscriber's key."""
        answers = compute_answers(self._shared, rand)
        sqn, amf = conceal_sqn(autn[:SQN_BYTES], answers.ak), autn[SQN_BYTES:SQN_BYTES + 2]
        if compute_macs(self._shared, rand, sqn, amf)[0] != autn[SQN_BYTES + 2:]:
            return None
        if int.from_bytes(sqn, "big") <= self._sqn:
            own = self._sqn.to_bytes(SQN_BYTES, "big")
            return UsimResynchronisation(
                conceal_sqn(own, answers.ak_of_resynchronisation)
                + compute_macs(self._shared, rand, own, AMF_OF_RESYNCHRONISATION)[1])
        self._sqn = int.from_bytes(sqn, "big")
        return UsimResponse(answers.res, answers.ck, answers.ik)


def answer_to_supplicant(card: Usim, request: str) -> str:
    """Answer a request of wpa_supplicant to an external SIM card (its option `external_sim`).

    The request is `UMTS-AUTH:RAND:AUTN` in hexadecimal digits.

    Raises:
        ValueError: the request is another one.
    """
    kind, *challenge = request.split(":")
    if kind != "UMTS-AUTH" or len(challenge) != 2:
        raise ValueError(f"a card is asked for {kind}, which is not UMTS-AUTH:RAND:AUTN")
    response = card.answer_challenge(*(bytes.fromhex(part) for part in challenge))
    if response is None:
        return "UMTS-FAIL"
    if isinstance(response, UsimResynchronisation):
        return f"UMTS-AUTS:{response.auts.hex()}"
    return f"UMTS-AUTH:{response.ik.hex()}:{response.ck.hex()}:{response.res.hex()}"
