"""Recompute an AKA challenge and its answer from captured packets and the subscriber's key."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from protocols.aka import keys, packets
from protocols.aka.milenage import (
    AMF_BYTES,
    SEPARATION,
    SQN_BYTES,
    ChallengeAnswer,
    MilenageKey,
    compute_answers,
    compute_macs,
    conceal_sqn,
)
from protocols.aka.packets import AkaPacket


@dataclass(frozen=True)
class RecomputedChallenge:
    """Deviations from the subscriber's key (one reason each), request and MSK."""

    faults: tuple[str, ...]
    request: AkaPacket | None = None
    msk: bytes = b""


def recompute_challenge(exchange: Sequence[AkaPacket], user: str,
                        shared: MilenageKey) -> RecomputedChallenge:
    """Recompute the challenge of one authentication and compare it with the packets.

    Args:
        exchange: The authentication's EAP packets in order.
        user: The identity sent first; an AT_IDENTITY in the packets replaces it.
        shared: The subscriber's key.
    """
    if any(packet.subtype == packets.SYNCHRONIZATION_FAILURE for packet in exchange):
        return RecomputedChallenge((
            "the card had seen a later sequence number, and had the server resynchronised",))
    challenges = [packet for packet in exchange if packet.subtype == packets.CHALLENGE]
    if len(challenges) != 2:
        return RecomputedChallenge((
            f"{len(challenges)} packets of a challenge, which are a request and its answer",))
    request, answer = challenges
    identity = next((packet.identity for packet in exchange if packet.identity), user)
    made = compute_answers(shared, request.rand)
    derived = _derive_keys(request, identity, made)
    sqn, rest = conceal_sqn(request.autn[:SQN_BYTES], made.ak), request.autn[SQN_BYTES:]
    amf, mac = rest[:AMF_BYTES], rest[AMF_BYTES:]
    is_bound = request.method == packets.EAP_AKA_PRIME
    faults = [reason for reason, holds in (
        ("a challenge that is not of the subscriber's key",
         compute_macs(shared, request.rand, sqn, amf)[0] == mac),
        ("a challenge that says nothing of a network that keys are bound to",
         not is_bound or (amf[:1] >= SEPARATION[:1] and bool(request.network))),
        ("a response that is not of the subscriber's key", answer.res == made.res),
        ("a packet whose MAC is not of the keys that the challenge makes",
         all(derived.compute_mac(packet.unsigned) == packet.mac for packet in challenges)),
    ) if not holds]
    return RecomputedChallenge(tuple(faults), request, derived.msk)


def _derive_keys(request: AkaPacket, identity: str, computed: ChallengeAnswer) -> keys.AkaKeys:
    if request.method != packets.EAP_AKA_PRIME:
        return keys.derive_keys(identity, computed.ik, computed.ck)
    return keys.derive_prime_keys(identity,
                                  *keys.bind_keys(computed.ik, computed.ck, request.network,
                                                            request.autn[:SQN_BYTES]))
