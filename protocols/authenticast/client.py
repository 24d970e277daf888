"""The client's side of a stream: messages to and from the server.

They are the handshake, changes, reports and the user's requests. A message from the server is
accepted only with the session's MAC, and a change only with the server's signature as well. Random
bytes come from the caller.
"""

from __future__ import annotations

from collections.abc import Callable

from protocols.authenticast import messages, session
from protocols.authenticast.asking import Asking, ClientPolicy
from protocols.authenticast.choice import SECRET_BYTES
from protocols.authenticast.crypto import Crypto
from protocols.authenticast.effects import Effect, Note, Send
from protocols.authenticast.messages import (
    EXCHANGE_BYTES,
    Ack,
    Bye,
    Change,
    Control,
    HelloAck,
    Received,
    Wish,
)
from protocols.authenticast.receiver import Receiver
from protocols.authenticast.session import SessionSecrets
from protocols.authenticast.settings import Scheme
from protocols.authenticast.wire import PacketError

RETRY_NS = 500_000_000
REPORT_NS = 100_000_000
REPORT_PACKETS = 32
SILENCE_NS = 5_000_000_000
QUIET_NS = 500_000_000


class Client:
    """The client of one stream: its session, its receiver and its timers."""

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
        self._asking: Asking | None = None
        self._answered: Asking | None = None
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
        """Request a stream from the server.

        An existing stream remains in use until the new one is agreed.
        """
        self._asking = Asking(self.policy, self.wish, self._crypto, self._random, now_ns)
        self._retry_ns = now_ns + RETRY_NS
        return [Send(self._asking.datagram), Note("asked", {"server": self.policy.server})]

    def process_data(self, datagram: bytes, now_ns: int, dropped: int = 0,
                     arrived_ns: int | None = None) -> list[Effect]:
        """Process a datagram from the data port.

        Args:
            datagram: The datagram, complete.
            now_ns: Time at which processing starts.
            dropped: The kernel's drop count that came with the datagram.
            arrived_ns: Time at which the kernel received the datagram (default: `now_ns`).

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
        """Update the kernel's drop count of the data port, read without a datagram."""
        if self.receiver is not None:
            self.receiver.account.arrivals.count_drops(total)

    def record_duration(self, passed_ns: int, verifications: int) -> None:
        """Record the processing time of the last datagram.

        `verifications` is the number of signatures that were verified for it.
        """
        if self.receiver is not None:
            self.receiver.took.add_sample(passed_ns, verifications)

    def process_message(self, datagram: bytes, now_ns: int) -> list[Effect]:
        """Process a datagram from the control port."""
        try:
            received = messages.parse_message(datagram)
        except PacketError:
            return []
        if isinstance(received.message, HelloAck):
            return self._process_hello_ack(received.message, received, now_ns)
        if self._session is None or self.receiver is None:
            return []
        if isinstance(received.message, Change):
            return self._process_change(received.message, received, self._session, now_ns)
        if session.is_sealed(self._crypto, self._session.server_key, received):
            self._mark_server_alive(now_ns)
            if isinstance(received.message, Bye) and self._end is None:
                # Packets before the end may still wait in the data port's buffer.
                self._end, self._retry_ns, self._data_ns = received.message.end, None, now_ns
                return self._finish_if_over(now_ns)
        return []

    def update_request(self, request: Wish, now_ns: int) -> list[Effect]:
        """Change the user's request for the stream and send it to the server.

        The range applies at this receiver at once. Raises SettingError for a level outside the
        range.
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
        body = Control(self._stream, self._controls, request, exchange).encode()
        self._control = session.seal_signed(self._crypto, self._session.client_key,
                                            self.policy.identity, self._session.digest, body)
        self._retry_ns = now_ns + RETRY_NS
        return [Send(self._control),
                Note("turned", {"number": self._controls, **request.to_event_fields()})]

    def stop_stream(self, now_ns: int) -> list[Effect]:
        """End the stream and send the server a bye."""
        if self.receiver is None or self.ended:
            return []
        self._end = self.receiver.account.arrivals.end
        return self._finish_stream(self.receiver, now_ns)

    def tick(self, now_ns: int) -> list[Effect]:
        """Perform what is due.

        Sends retransmissions and reports, and a new hello to a silent server.
        """
        if self.ended:
            return []
        effects: list[Effect] = []
        if self.receiver is not None:
            effects += self.receiver.tick(now_ns)
            if self._end is not None:
                effects += self._finish_if_over(now_ns)
            elif self._asking is None and now_ns - self._heard_ns >= SILENCE_NS:
                return [*effects, Note("silence", {"seconds": SILENCE_NS / 1e9}),
                        *self.request_stream(now_ns)]
        if self._retry_ns is not None and self._retry_ns <= now_ns:
            self._retry_ns = now_ns + RETRY_NS
            effects += [Send(self._control)] if self._control else []
            effects += [Send(self._asking.datagram)] if self._asking is not None else []
        return effects + self._report_if_due(now_ns)

    def deadline_ns(self) -> int | None:
        """Return the time at which `tick` is due next."""
        times = [self._retry_ns, self._report_ns]
        if self.receiver is not None and not self.ended:
            times += [self.receiver.deadline_ns()]
            if self._end is not None:
                times.append(self._data_ns + self._quiet_ns(self.receiver))
            elif self._asking is None:
                times.append(self._heard_ns + SILENCE_NS)
        return min((time for time in times if time is not None), default=None)

    # --- messages from the server -------------------------------------------------------------

    def _process_hello_ack(self, ack: HelloAck, received: Received, now_ns: int) -> list[Effect]:
        if self._asking is None or not self._asking.is_answer(ack):
            is_repeated = self._answered is not None and self._answered.is_answer(ack)
            return self._confirm_handshake() if is_repeated else []
        try:
            made, terms = self._asking.accept_answer(ack, received, now_ns)
            receiver = Receiver(self._crypto, self.policy.server_keys, terms, self.wish.permitted,
                                self._random(SECRET_BYTES))
        except ValueError as error:
            return [Note("refused", {"reason": str(error)})]
        replaced = self._finish_replaced_stream(now_ns)
        self._session, self._stream, self.receiver = made, ack.stream, receiver
        self._answered, self._asking = self._asking, None
        self._heard_ns, self._controls, self._reports, self._reported = now_ns, 0, 0, 0
        self._control = self._proof_key = self._asked_private = b""
        self._retry_ns, self._report_ns = None, now_ns + REPORT_NS
        granted = Note("granted", {
            "stream": ack.stream, "scheme": ack.setting.scheme.name.lower(),
            "algorithm": ack.setting.algorithm.name.lower()})
        # The server makes a secret key only on request, so a client that starts with one requests
        # it at once.
        asks = self.wish.setting.scheme is Scheme.SECRET_KEY
        return [*replaced, *self._confirm_handshake(), granted,
                *(self.update_request(self.wish, now_ns) if asks else [])]

    def _finish_replaced_stream(self, now_ns: int) -> list[Effect]:
        """Finish the old stream and report its statistics, because a new stream replaces it.

        Sequence numbers start again with the new stream.
        """
        receiver = self.receiver
        if receiver is None:
            return []
        return [*receiver.finish_stream(receiver.account.arrivals.end, now_ns),
                Note("replaced", {"stream": self._stream, **receiver.to_dict()})]

    def _mark_server_alive(self, now_ns: int) -> None:
        """Register that the server still has this stream.

        A hello that was sent in the meantime is no longer needed.
        """
        self._heard_ns, self._asking = now_ns, None
        if not self._control:
            self._retry_ns = None

    def _confirm_handshake(self) -> list[Effect]:
        assert self._session is not None
        return [Send(session.seal_message(self._crypto, self._session.client_key,
                                          Ack(self._stream, 0).encode()))]

    def _process_change(self, change: Change, received: Received, secrets: SessionSecrets,
                        now_ns: int) -> list[Effect]:
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
            return [Note("refused", {"reason": "the change is not the server's"})]
        try:
            key = self._derive_secret_key(change, secrets)
            effects = receiver.apply_change(change, key, now_ns)
        except ValueError as error:
            return [Note("refused", {"reason": str(error)})]
        self._proof_key = key
        self._mark_server_alive(now_ns)
        if change.answers >= self._controls:
            self._control, self._retry_ns = b"", None
        return [*self._acknowledge_change(secrets), Note("changed", {
            "epoch": change.epoch, "scheme": change.setting.scheme.name.lower(),
            "algorithm": change.setting.algorithm.name.lower(), "bundle": change.setting.bundle,
            "level": receiver.level, "cause": change.cause}), *effects]

    def _derive_secret_key(self, change: Change, secrets: SessionSecrets) -> bytes:
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
        return [Send(session.seal_message(self._crypto, secrets.client_key,
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
        """Return the silence after which the data port's buffer counts as empty."""
        return QUIET_NS + 4 * int(receiver.took.verify_ns)

    def _finish_stream(self, receiver: Receiver, now_ns: int) -> list[Effect]:
        assert self._session is not None and self._end is not None
        self.ended = True
        self._retry_ns = self._report_ns = None
        body = Bye(self._stream, self._end).encode()
        return [*receiver.finish_stream(self._end, now_ns),
                Send(session.seal_message(self._crypto, self._session.client_key, body)),
                Note("ended", {**receiver.to_dict(), "signatures_made": self._crypto.signed,
                               "signatures_verified": self._crypto.verified})]

    # --- reports -----------------------------------------------------------------------------

    def _report_if_due(self, now_ns: int) -> list[Effect]:
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
        return [Send(session.seal_message(self._crypto, self._session.client_key, report.encode()))]
