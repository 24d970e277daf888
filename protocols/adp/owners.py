"""Owners on one channel: authenticated in either direction, and their held messages."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from protocols.adp.context import KERNEL_OWNER, Context
from protocols.adp.effects import Deliver, Effect, Note
from protocols.adp.packets import MAX_CONFIRMED, MAX_PROOFS, Proof, UserMessage
from protocols.adp.suite import Security


@dataclass
class Outgoing:
    """A local owner.

    Its signature is computed once, and sent until the peer confirms it.
    """

    number: int
    signature: bytes = b""
    confirmed: bool = False


@dataclass(frozen=True, slots=True)
class Held:
    """A message whose sender has not signed yet."""

    record: UserMessage
    private: bool
    at_s: float


@dataclass
class Owners:
    """The caches of section 3.1.2.

    A channel's next key inherits them.
    """

    context: Context
    peer: str
    to_peer: dict[str, Outgoing] = field(default_factory=dict)
    from_peer: dict[int, str] = field(default_factory=dict)
    confirmations: list[int] = field(default_factory=list)
    _held: list[Held] = field(default_factory=list)
    _held_bytes: int = 0

    def trust_kernel_owners(self) -> None:
        """Cache both kernel owners, which the modern handshake authenticates."""
        context = self.context
        self.from_peer[KERNEL_OWNER] = context.directory.kernel_owners[self.peer]
        self.to_peer[context.identity.kernel_owner] = Outgoing(KERNEL_OWNER, confirmed=True)

    def register_owner(self, owner: str) -> Outgoing:
        """Register a local owner for authentication to the peer."""
        outgoing = self.to_peer.get(owner)
        if outgoing is None:
            outgoing = self.to_peer[owner] = Outgoing(self.context.owner_number(owner))
        return outgoing

    def has_unconfirmed(self) -> bool:
        """Return whether a signature awaits the peer's confirmation."""
        return any(not outgoing.confirmed for outgoing in self.to_peer.values())

    def is_confirmed(self, owner: str) -> bool:
        """Return whether the peer has confirmed the owner's signature."""
        outgoing = self.to_peer.get(owner)
        return outgoing is not None and outgoing.confirmed

    def unconfirmed_proofs(self, security: Security) -> list[Proof]:
        """Return unconfirmed signatures, as many as fit.

        The others follow later.
        """
        proofs: list[Proof] = []
        size = 0
        if not security.can_prove:
            return proofs
        for name, outgoing in self.to_peer.items():
            if outgoing.confirmed:
                continue
            if not outgoing.signature:
                outgoing.signature = security.sign_owner(name, self.context.identity.keys[name])
            size += len(outgoing.signature) + len(name.encode()) + 5
            if size > MAX_PROOFS:
                break
            proofs.append(Proof(outgoing.number, name, outgoing.signature))
        return proofs

    def take_confirmations(self) -> list[int]:
        """Remove and return the confirmations to send to the peer."""
        taken = self.confirmations[:MAX_CONFIRMED]
        del self.confirmations[:MAX_CONFIRMED]
        return taken

    def mark_confirmed(self, numbers: Iterable[int]) -> None:
        """Mark signatures as confirmed by the peer."""
        if not numbers:
            return
        by_number = {outgoing.number: outgoing for outgoing in self.to_peer.values()}
        for number in numbers:
            if number in by_number:
                by_number[number].confirmed = True

    def check_proof(self, proof: Proof, security: Security) -> list[Effect]:
        """Verify an owner's signature, and deliver the messages held for it.

        A signature that is already cached is confirmed again without a public-key operation.
        """
        known = self.from_peer.get(proof.number)
        if known is None:
            key = self.context.directory.keys.get(proof.name)
            if key is None or not security.is_proof(proof.name, key, proof.signature):
                return self._refuse_proof(proof, "no public key" if key is None
                                          else "wrong signature")
            self.from_peer[proof.number] = proof.name
        elif known != proof.name:
            return self._refuse_proof(proof, f"its number is {known}'s")
        if proof.number not in self.confirmations:
            self.confirmations.append(proof.number)
        if known is not None:
            return []
        note = Note("authenticated", {"owner": proof.name, "host": self.peer})
        return [note, *self._release_messages(proof.number, proof.name)]

    def deliver_message(self, record: UserMessage, now_s: float, *, private: bool) -> list[Effect]:
        """Deliver a message, or hold it until its sender has signed."""
        name = self.from_peer.get(record.source)
        if name is not None:
            return [self._deliver_record(record, name, private=private)]
        if self._held_bytes + len(record.data) > self.context.settings.hold_bytes:
            return [Note("dropped", {"host": self.peer, "reason": "too much waits for signatures"})]
        self._held_bytes += len(record.data)
        self._held.append(Held(record, private, now_s))
        return []

    def held_until_s(self) -> float | None:
        """Return the time at which the oldest held message is dropped."""
        if not self._held:
            return None
        return self._held[0].at_s + self.context.settings.give_up_s

    def drop_stale(self, now_s: float) -> list[Effect]:
        """Drop messages whose sender has not signed within `give_up_s`."""
        # Use the sum that `held_until_s` returns: a difference may be rounded differently.
        patience_s = self.context.settings.give_up_s
        stale = [held for held in self._held if held.at_s + patience_s <= now_s]
        if not stale:
            return []
        self._replace_waiting([held for held in self._held if held.at_s + patience_s > now_s])
        return [Note("dropped", {"host": self.peer, "messages": len(stale),
                                 "reason": "their sender has not signed"})]

    def _release_messages(self, number: int, name: str) -> list[Effect]:
        ready = [held for held in self._held if held.record.source == number]
        self._replace_waiting([held for held in self._held if held.record.source != number])
        return [self._deliver_record(held.record, name, private=held.private) for held in ready]

    def _refuse_proof(self, proof: Proof, reason: str) -> list[Effect]:
        if proof.number not in self.from_peer:
            self._replace_waiting([held for held in self._held
                                   if held.record.source != proof.number])
        return [Note("refused", {"owner": proof.name, "host": self.peer, "reason": reason})]

    def _replace_waiting(self, messages: list[Held]) -> None:
        self._held = messages
        self._held_bytes = sum(len(entry.record.data) for entry in messages)

    def _deliver_record(self, record: UserMessage, name: str, *, private: bool) -> Effect:
        if record.destination not in self.context.identity.keys:
            return Note("dropped", {"host": self.peer, "owner": name,
                                    "reason": f"no owner {record.destination} here"})
        return Deliver(name, self.peer, record.destination, record.port, record.data, private)
