"""The client's part of the handshake: send a hello and verify the server's answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from protocols.authenticast import session
from protocols.authenticast.crypto import Crypto, SigningKey, VerifyingKey
from protocols.authenticast.epochs import Agreed
from protocols.authenticast.messages import (
    EXCHANGE_BYTES,
    NONCE_BYTES,
    Hello,
    HelloAck,
    Received,
    Wish,
)
from protocols.authenticast.receiver import Terms
from protocols.authenticast.session import SessionSecrets
from protocols.authenticast.settings import Algorithm, Scheme


@dataclass(frozen=True)
class ClientPolicy:
    """The client's identity, the server's keys, and what the client accepts.

    The client accepts only the given algorithms and schemes. `wish` is the user's request for the
    stream.
    """

    name: str
    identity: SigningKey
    server: str
    server_keys: Mapping[Algorithm, VerifyingKey]
    wish: Wish
    data_port: int
    algorithms: frozenset[Algorithm]
    schemes: frozenset[Scheme] = frozenset(Scheme)


class Asking:
    """A handshake attempt of the client: one signed hello and its answer."""

    def __init__(self, policy: ClientPolicy, request: Wish, crypto: Crypto,
                 random: Callable[[int], bytes], now_ns: int) -> None:
        self._policy = policy
        self._wish = request
        self._crypto = crypto
        self._asked_ns = now_ns
        self._private = random(EXCHANGE_BYTES)
        hello = Hello(policy.name, now_ns, policy.data_port, session.to_mask(policy.algorithms),
                      session.to_mask(policy.schemes), random(NONCE_BYTES),
                      crypto.compute_public_key(self._private), request)
        body = hello.encode()
        self.datagram = body + session.signature_block(
            crypto, policy.identity, session.signing_context("hello", b"") + body)

    def is_answer(self, ack: HelloAck) -> bool:
        """Return whether the hello-ack names this hello by its digest."""
        return ack.hello == self._crypto.compute_digest(self.datagram)

    def accept_answer(self, ack: HelloAck, received: Received,
                      now_ns: int) -> tuple[SessionSecrets, Terms]:
        """Return the session's secrets and terms from the server's answer.

        Raises ValueError if the answer is not the server's, or does not fit the request.
        """
        policy = self._policy
        said = session.signing_context("hello-ack", b"") + self.datagram + received.body
        if ack.name != policy.server or not session.is_signed(
                self._crypto, policy.server_keys, said, received.authentication):
            raise ValueError("the hello-ack is not the server's")
        agreed = Agreed(session.algorithms_from_mask(ack.algorithms) & policy.algorithms,
                        session.schemes_from_mask(ack.schemes) & policy.schemes)
        ack.setting.check(self._wish.permitted)
        made = session.establish_session(self._crypto, self._private, ack.exchange, self.datagram,
                                         received.body + received.authentication)
        # The server read `time_ns` from its clock after the hello was sent. The difference is an
        # upper bound of how far the server's clock is ahead (RFC 4082, section 3.2.1).
        return made, Terms(ack.stream, made.digest, agreed, ack.setting,
                           ack.time_ns - self._asked_ns, now_ns)
