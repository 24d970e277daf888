"""Implement the client of an Authenticast stream without sockets: handshake and session.

Authenticast streams signed packets, and the client verifies a fraction of them. `ClientHandshake`
agrees on a session with the server. `Client` then takes datagrams, times and requests of the user.
It returns actions (`effects`), such as a packet to deliver or a report to send, and passes stream
packets to its `Receiver`. A message is accepted only with the session's MAC. A message that changes
the stream's setting also needs the server's signature. `client_program` runs it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from protocols.authenticast import messages, session
from protocols.authenticast.crypto import CHOICE_SECRET_BYTES, Crypto, SigningKey, VerifyingKey
from protocols.authenticast.effects import Effect, ProgramEvent, SendDatagram
from protocols.authenticast.epochs import AgreedAlgorithms
from protocols.authenticast.messages import (
    EXCHANGE_BYTES,
    NONCE_BYTES,
    Ack,
    Bye,
    ControlMessage,
    EpochChange,
    Hello,
    HelloAck,
    ReceivedMessage,
    StreamRequest,
)
from protocols.authenticast.receiver import Receiver, StreamTerms
from protocols.authenticast.session import SessionSecrets
from protocols.authenticast.settings import Algorithm, Scheme
from protocols.authenticast.wire import PacketError

# --- Handshake: send a hello and verify the server's answer ---

@dataclass(frozen=True)
class ClientPolicy:
    """The client's identity key, the server's public keys, and what the client accepts.

    The client accepts only the given signature algorithms and schemes. `wish` is the user's request
    for the stream.
    """

    name: str
    identity: SigningKey
    server: str
    server_keys: Mapping[Algorithm, VerifyingKey]
    wish: StreamRequest
    data_port: int
    algorithms: frozenset[Algorithm]
    schemes: frozenset[Scheme] = frozenset(Scheme)


class ClientHandshake:
    """An attempt of a client to agree on a session: a signed hello and the server's answer."""

    def __init__(self, policy: ClientPolicy, request: StreamRequest, crypto: Crypto,
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
        """Return whether the server's answer is to this hello, by the digest of the hello."""
        return ack.hello == self._crypto.compute_digest(self.datagram)

    def accept_answer(self, ack: HelloAck, received: ReceivedMessage,
                      now_ns: int) -> tuple[SessionSecrets, StreamTerms]:
        """Verify the server's answer to the hello, and derive the session keys.

        Returns:
            The secrets of the session, and the terms of the stream.

        Raises:
            ValueError: the answer is not signed by the server, or does not fit the request.
        """
        policy = self._policy
        signed = session.signing_context("hello-ack", b"") + self.datagram + received.body
        if ack.name != policy.server or not session.is_signed(
                self._crypto, policy.server_keys, signed, received.authentication):
            raise ValueError("the hello-ack is not the server's")
        agreed = AgreedAlgorithms(session.algorithms_from_mask(ack.algorithms) & policy.algorithms,
                                  session.schemes_from_mask(ack.schemes) & policy.schemes)
        ack.setting.check(self._wish.permitted)
        secrets = session.establish_session(self._crypto, self._private, ack.exchange,
                                            self.datagram,
                                            received.body + received.authentication)
        # The server read `time_ns` from its clock after the hello was sent. The difference is an
        # upper bound of how far the server's clock is ahead (RFC 4082, section 3.2.1).
        return secrets, StreamTerms(ack.stream, secrets.digest, agreed, ack.setting,
                                    ack.time_ns - self._asked_ns, now_ns)


# --- Running stream ---

RETRY_NS = 500_000_000
REPORT_NS = 100_000_000
REPORT_PACKETS = 32
SILENCE_NS = 5_000_000_000
QUIET_NS = 500_000_000


class Client:
    """A client that receives one stream: its session with the server, its receiver and timers."""

    def __init__(self, policy: ClientPolicy, crypto: Crypto,
                 random: Callable[[int], bytes]) -> None:
        self.policy = policy
        self.wish = policy.wish
        self.receiver: Receiver | None = None
        self.ended = False
        self._crypto = crypto
        self._random = random
        self._session: SessionSecrets | None = None
        self._stream = 0
        #: The attempt without an answer so far, and the attempt that led to the session.
        self._asking: ClientHandshake | None = None
        self._answered: ClientHandshake | None = None
        self._asked_private = b""
        self._proof_key = b""
        self._control: bytes = b""
        self._controls = self._reports = 0
        self._end: int | None = None
        self._data_ns = 0
        self._retry_ns: int | None = None
        self._report_ns: int | None = None
        self._heard_ns = 0
        self._reported = 0

    # --- interface for the program ------------------------------------------------------------

    def request_stream(self, now_ns: int) -> list[Effect]:
        """Send the server a hello that requests a stream.

        An existing stream stays in use until the server has granted the new one.
        """
        self._asking = ClientHandshake(self.policy, self.wish, self._crypto, self._random, now_ns)
        self._retry_ns = now_ns + RETRY_NS
        return [SendDatagram(self._asking.datagram),
                ProgramEvent("asked", {"server": self.policy.server})]

    def process_data(self, datagram: bytes, now_ns: int, dropped: int = 0,
                     arrived_ns: int | None = None) -> list[Effect]:
        """Process a datagram from the port for stream packets.

        Args:
            datagram: the complete datagram.
            now_ns: time at which processing starts (ns).
            dropped: drop count of the socket, which the kernel adds to the datagram.
            arrived_ns: time at which the kernel received the datagram (default: `now_ns`).

        Returns:
            Packets to deliver, packets that are lost, messages to send and events.
        """
        if self.receiver is None:
            return []
        self._data_ns = now_ns
        before = self.receiver.account.arrivals.accepted
        effects = self.receiver.process_datagram(datagram, now_ns, dropped, arrived_ns)
        if self.receiver.account.arrivals.accepted > before:
            self._mark_server_alive(now_ns)
        return effects + self._report_if_due(now_ns)

    def count_drops(self, total: int) -> None:
        """Update the number of datagrams that the kernel dropped at the port for stream packets."""
        if self.receiver is not None:
            self.receiver.account.arrivals.count_drops(total)

    def record_duration(self, passed_ns: int, verifications: int) -> None:
        """Record how long the last datagram took to process, for the report to the server.

        Args:
            passed_ns: processing time (ns).
            verifications: number of signatures that were verified for the datagram.
        """
        if self.receiver is not None:
            self.receiver.took.add_sample(passed_ns, verifications)

    def process_message(self, datagram: bytes, now_ns: int) -> list[Effect]:
        """Process a datagram from the port for control messages."""
        try:
            received = messages.parse_message(datagram)
        except PacketError:
            return []
        if isinstance(received.message, HelloAck):
            return self._process_hello_ack(received.message, received, now_ns)
        if self._session is None or self.receiver is None:
            return []
        if isinstance(received.message, EpochChange):
            return self._process_change(received.message, received, self._session, now_ns)
        if session.is_sealed(self._crypto, self._session.server_key, received):
            self._mark_server_alive(now_ns)
            if isinstance(received.message, Bye) and self._end is None:
                # Packets before the end may still wait in the data port's buffer.
                self._end, self._retry_ns, self._data_ns = received.message.end, None, now_ns
                return self._finish_if_over(now_ns)
        return []

    def update_request(self, request: StreamRequest, now_ns: int) -> list[Effect]:
        """Change the user's request for the stream, and send the request to the server.

        The request has a range: the smallest and the largest fraction of packets that the user
        wants to have verified. This client keeps to the new range at once, before the server's
        answer.

        Raises:
            SettingError: the requested fraction is outside of that range.
        """
        request.setting.check(request.permitted)
        self.wish = request
        if self._session is None or self.receiver is None:
            return []
        self.receiver.set_range(request.permitted, now_ns)
        exchange = b""
        if request.setting.scheme is Scheme.SECRET_KEY:
            self._asked_private = self._random(EXCHANGE_BYTES)
            exchange = self._crypto.compute_public_key(self._asked_private)
        self._controls += 1
        body = ControlMessage(self._stream, self._controls, request, exchange).encode()
        self._control = session.seal_signed(self._crypto, self._session.client_key,
                                            self.policy.identity, self._session.digest, body)
        self._retry_ns = now_ns + RETRY_NS
        return [SendDatagram(self._control),
                ProgramEvent("turned", {"number": self._controls, **request.to_event_fields()})]

    def stop_stream(self, now_ns: int) -> list[Effect]:
        """End the stream, and tell the server by a bye message."""
        if self.receiver is None or self.ended:
            return []
        self._end = self.receiver.account.arrivals.end
        return self._finish_stream(self.receiver, now_ns)

    def tick(self, now_ns: int) -> list[Effect]:
        """Do what is due: repeat messages, send a report, or greet a silent server again."""
        if self.ended:
            return []
        effects: list[Effect] = []
        if self.receiver is not None:
            effects += self.receiver.tick(now_ns)
            if self._end is not None:
                effects += self._finish_if_over(now_ns)
            elif self._asking is None and now_ns - self._heard_ns >= SILENCE_NS:
                return [*effects, ProgramEvent("silence", {"seconds": SILENCE_NS / 1e9}),
                        *self.request_stream(now_ns)]
        if self._retry_ns is not None and self._retry_ns <= now_ns:
            self._retry_ns = now_ns + RETRY_NS
            effects += [SendDatagram(self._control)] if self._control else []
            effects += [SendDatagram(self._asking.datagram)] if self._asking is not None else []
        return effects + self._report_if_due(now_ns)

    def deadline_ns(self) -> int | None:
        """Return the time (ns) at which `tick` must be called next, or None."""
        times = [self._retry_ns, self._report_ns]
        if self.receiver is not None and not self.ended:
            times += [self.receiver.deadline_ns()]
            if self._end is not None:
                times.append(self._data_ns + self._quiet_ns(self.receiver))
            elif self._asking is None:
                times.append(self._heard_ns + SILENCE_NS)
        return min((time for time in times if time is not None), default=None)

    # --- messages from the server -------------------------------------------------------------

    def _process_hello_ack(self, ack: HelloAck, received: ReceivedMessage,
                           now_ns: int) -> list[Effect]:
        """Start the stream that the server grants, and confirm the handshake."""
        if self._asking is None or not self._asking.is_answer(ack):
            is_repeated = self._answered is not None and self._answered.is_answer(ack)
            return self._confirm_handshake() if is_repeated else []
        try:
            secrets, terms = self._asking.accept_answer(ack, received, now_ns)
            receiver = Receiver(self._crypto, self.policy.server_keys, terms, self.wish.permitted,
                                self._random(CHOICE_SECRET_BYTES))
        except ValueError as error:
            return [ProgramEvent("refused", {"reason": str(error)})]
        replaced = self._finish_replaced_stream(now_ns)
        self._session, self._stream, self.receiver = secrets, ack.stream, receiver
        self._answered, self._asking = self._asking, None
        self._heard_ns, self._controls, self._reports, self._reported = now_ns, 0, 0, 0
        self._control = self._proof_key = self._asked_private = b""
        self._retry_ns, self._report_ns = None, now_ns + REPORT_NS
        granted = ProgramEvent("granted", {
            "stream": ack.stream, "scheme": ack.setting.scheme.name.lower(),
            "algorithm": ack.setting.algorithm.name.lower()})
        # The server makes a secret key only on request, so a client that starts with one requests
        # it at once.
        asks = self.wish.setting.scheme is Scheme.SECRET_KEY
        return [*replaced, *self._confirm_handshake(), granted,
                *(self.update_request(self.wish, now_ns) if asks else [])]

    def _finish_replaced_stream(self, now_ns: int) -> list[Effect]:
        """End the old stream and report its statistics, once the server has granted a new one.

        Sequence numbers start again with the new stream.
        """
        receiver = self.receiver
        if receiver is None:
            return []
        return [*receiver.finish_stream(receiver.account.arrivals.end, now_ns),
                ProgramEvent("replaced", {"stream": self._stream, **receiver.to_dict()})]

    def _mark_server_alive(self, now_ns: int) -> None:
        """Record that the server still sends this stream, so that no new hello is needed."""
        self._heard_ns, self._asking = now_ns, None
        if not self._control:
            self._retry_ns = None

    def _confirm_handshake(self) -> list[Effect]:
        assert self._session is not None
        return [SendDatagram(session.seal_message(self._crypto, self._session.client_key,
                                                  Ack(self._stream, 0).encode()))]

    def _process_change(self, change: EpochChange, received: ReceivedMessage,
                        secrets: SessionSecrets,
                        now_ns: int) -> list[Effect]:
        """Apply a new setting that the server announces with a signature, and acknowledge it."""
        receiver = self.receiver
        assert receiver is not None
        if change.stream != self._stream:
            return []
        if change.epoch <= receiver.newest_epoch:
            # The newest change is repeated when its ack was lost. Older changes are ignored.
            is_repeated = change.epoch == receiver.newest_epoch and session.is_from(
                self._crypto, secrets.server_key, received)
            return self._acknowledge_change(secrets) if is_repeated else []
        if not session.is_sealed_and_signed(self._crypto, secrets.server_key,
                                            self.policy.server_keys, secrets.digest, received):
            return [ProgramEvent("refused", {"reason": "the change is not the server's"})]
        try:
            key = self._derive_secret_key(change, secrets)
            effects = receiver.apply_change(change, key, now_ns)
        except ValueError as error:
            return [ProgramEvent("refused", {"reason": str(error)})]
        self._proof_key = key
        self._mark_server_alive(now_ns)
        if change.answers >= self._controls:
            self._control, self._retry_ns = b"", None
        return [*self._acknowledge_change(secrets), ProgramEvent("changed", {
            "epoch": change.epoch, "scheme": change.setting.scheme.name.lower(),
            "algorithm": change.setting.algorithm.name.lower(), "bundle": change.setting.bundle,
            "level": receiver.level, "cause": change.cause}), *effects]

    def _derive_secret_key(self, change: EpochChange, secrets: SessionSecrets) -> bytes:
        if change.setting.scheme is not Scheme.SECRET_KEY or not change.material:
            return b""
        if not self._asked_private or len(change.material) != EXCHANGE_BYTES:
            raise ValueError("a secret key connection that nobody asked for")
        key = session.derive_secret_key(self._crypto, self._asked_private, change.material,
                                        secrets.digest, change.epoch)
        self._asked_private = b""
        return key

    def _acknowledge_change(self, secrets: SessionSecrets) -> list[Effect]:
        assert self.receiver is not None
        epoch = self.receiver.newest_epoch
        proof = session.make_proof(self._crypto, self._proof_key, epoch) if self._proof_key else b""
        return [SendDatagram(session.seal_message(self._crypto, secrets.client_key,
                                                  Ack(self._stream, epoch, proof).encode()))]

    # --- end of the stream --------------------------------------------------------------------

    def _finish_if_over(self, now_ns: int) -> list[Effect]:
        receiver = self.receiver
        if receiver is None or self._end is None or self.ended:
            return []
        is_quiet = now_ns - self._data_ns >= self._quiet_ns(receiver)
        if not is_quiet and (receiver.account.arrivals.end < self._end or receiver.waiting):
            return []
        return self._finish_stream(receiver, now_ns)

    def _quiet_ns(self, receiver: Receiver) -> int:
        """Return how long (ns) the data port must be silent before its buffer counts as empty."""
        return QUIET_NS + 4 * int(receiver.took.verify_ns)

    def _finish_stream(self, receiver: Receiver, now_ns: int) -> list[Effect]:
        assert self._session is not None and self._end is not None
        self.ended = True
        self._retry_ns = self._report_ns = None
        body = Bye(self._stream, self._end).encode()
        return [*receiver.finish_stream(self._end, now_ns),
                SendDatagram(session.seal_message(self._crypto, self._session.client_key, body)),
                ProgramEvent("ended", {**receiver.to_dict(), "signatures_made": self._crypto.signed,
                                       "signatures_verified": self._crypto.verified})]

    # --- reports -----------------------------------------------------------------------------

    def _report_if_due(self, now_ns: int) -> list[Effect]:
        """Send a report to the server after enough time or packets."""
        receiver = self.receiver
        if receiver is None or self._session is None or self._report_ns is None:
            return []
        account = receiver.account
        if now_ns < self._report_ns and account.arrivals.accepted - self._reported < (
                REPORT_PACKETS):
            return []
        self._reports += 1
        self._report_ns, self._reported = now_ns + REPORT_NS, account.arrivals.accepted
        report = receiver.build_report(self._stream, self._reports)
        return [SendDatagram(session.seal_message(self._crypto, self._session.client_key,
                                                  report.encode()))]
