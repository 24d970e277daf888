"""A challenge and its answer are worked out again of the subscriber's key, from packets alone."""

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
    answers,
    hidden,
    macs,
)
from protocols.aka.packets import AkaPacket


@dataclass(frozen=True)
class RecomputedChallenge:
    """What is not as the subscriber's key has it, a reason each; the request, and the MSK."""

    faults: tuple[str, ...]
    request: AkaPacket | None = None
    msk: bytes = b""


def recompute(said: Sequence[AkaPacket], user: str, shared: MilenageKey) -> RecomputedChallenge:
    """Of one authentication's packets in order, by whoever said to be `user` at first."""
    if any(packet.subtype == packets.SYNCHRONIZATION_FAILURE for packet in said):
        return RecomputedChallenge((
            "the card had seen a later sequence number, and had the server resynchronised",))
    challenges = [packet for packet in said if packet.subtype == packets.CHALLENGE]
    if len(challenges) != 2:
        return RecomputedChallenge((
            f"{len(challenges)} packets of a challenge, which are a request and its answer",))
    request, answer = challenges
    identity = next((packet.identity for packet in said if packet.identity), user)
    made = answers(shared, request.rand)
    derived = _derived(request, identity, made)
    sqn, rest = hidden(request.autn[:SQN_BYTES], made.ak), request.autn[SQN_BYTES:]
    amf, mac = rest[:AMF_BYTES], rest[AMF_BYTES:]
    is_bound = request.method == packets.EAP_AKA_PRIME
    faults = [reason for reason, holds in (
        ("a challenge that is not of the subscriber's key",
         macs(shared, request.rand, sqn, amf)[0] == mac),
        ("a challenge that says nothing of a network that keys are bound to",
         not is_bound or (amf[:1] >= SEPARATION[:1] and bool(request.network))),
        ("a response that is not of the subscriber's key", answer.res == made.res),
        ("a packet whose MAC is not of the keys that the challenge makes",
         all(derived.mac(packet.unsigned) == packet.mac for packet in challenges)),
    ) if not holds]
    return RecomputedChallenge(tuple(faults), request, derived.msk)


def _derived(request: AkaPacket, identity: str, made: ChallengeAnswer) -> keys.AkaKeys:
    if request.method != packets.EAP_AKA_PRIME:
        return keys.derive(identity, made.ik, made.ck)
    return keys.derive_prime(identity, *keys.bound(made.ik, made.ck, request.network,
                                                   request.autn[:SQN_BYTES]))
