"""Implement the server of Authenticast streams without sockets: handshakes and fair signing.

Authenticast streams signed packets over UDP. `Server` takes datagrams of clients, packets to send,
and times. It returns actions (`effects`), such as a datagram to send. It signs the packets of
several clients in a fair order. Addresses are (host, port) as the caller gives them. Stream packets
go to the host that sent the hello, and to the port named in the hello. `server_program` runs it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from protocols.authenticast import messages, session
from protocols.authenticast.controllers import Controller
from protocols.authenticast.crypto import Crypto, VerifyingKey
from protocols.authenticast.effects import Effect, ProgramEvent, SendDatagram
from protocols.authenticast.epochs import AgreedAlgorithms
from protocols.authenticast.fairness import FairQueue
from protocols.authenticast.messages import (
    EXCHANGE_BYTES,
    NONCE_BYTES,
    Ack,
    Bye,
    ControlMessage,
    Hello,
    HelloAck,
    ReceivedMessage,
    ReceiverReport,
)
from protocols.authenticast.settings import SIGNATURES, Algorithm, Scheme, StreamSetting
from protocols.authenticast.stream import (
    Address,
    Stream,
    StreamClient,
    StreamPolicy,
    signature_fallback,
)
from protocols.authenticast.wire import PacketError

SILENCE_NS = 5_000_000_000
BYE_NS = 200_000_000
_BYES = 10
_QUEUE = 64
# Cost of a MAC in signatures. It is not 0, so that such streams are also shared fairly.
_TAG_COST = 0.01


@dataclass(frozen=True)
class ServerPolicy:
    """The server's name, rules for streams, and known clients.

    `clients` has the public keys of each client. `weights` has each client's weight in the fair
    order.
    """

    name: str
    stream: StreamPolicy
    clients: Mapping[str, Mapping[Algorithm, VerifyingKey]]
    schemes: frozenset[Scheme] = frozenset(Scheme)
    weights: Mapping[str, float] = field(default_factory=dict)


@dataclass
class _ServedStream:
    """A stream to one client, with its handshake messages and its timers.

    - `hello`, `hello_ns`: the client's request, and its time
    - `answer`: the server's answer, which is sent again if the request is
    - `heard_ns`: time of the client's last message
    - `confirmed`: whether the client has shown that it got the answer
    - `byes`, `bye_ns`: number of messages that end the stream, and time of the next one
    """

    stream: Stream
    hello: bytes
    hello_ns: int
    answer: bytes
    heard_ns: int
    confirmed: bool = False
    byes: int = 0
    bye_ns: int | None = None


@dataclass(frozen=True)
class _SigningJob:
    payload: bytes
    frame: int
    flags: int


class Server:
    """A server with all its streams."""

    def __init__(self, policy: ServerPolicy, crypto: Crypto, random: Callable[[int], bytes],
                 controller: Callable[[], Controller]) -> None:
        self.policy = policy
        self._crypto = crypto
        self._random = random
        self._controller = controller
        self._served: dict[str, _ServedStream] = {}
        self._offered: dict[str, _ServedStream] = {}
        self._queue: FairQueue[str, _SigningJob] = FairQueue()

    # --- messages ----------------------------------------------------------------------------

    def process_message(self, datagram: bytes, source: Address, now_ns: int) -> list[Effect]:
        """Process a datagram from the port for control messages."""
        try:
            received = messages.parse_message(datagram)
        except PacketError:
            return []
        message = received.message
        if isinstance(message, Hello):
            return self._process_hello(message, received, datagram, source, now_ns)
        if isinstance(message, HelloAck | messages.EpochChange):
            return []
        offered = self._find_by_number(self._offered, message.stream)
        if offered is not None and self._is_from_client(offered, received):
            return self._confirm_stream(offered, now_ns) + self._process_stream_message(
                offered, received, now_ns)
        served = self._find_by_number(self._served, message.stream)
        return self._process_stream_message(served, received, now_ns) if served is not None else []

    def _process_stream_message(self, served: _ServedStream, received: ReceivedMessage,
                                now_ns: int) -> list[Effect]:
        """Process a client's message about its stream, such as a report or a new request."""
        stream, message = served.stream, received.message
        if self._is_from_client(served, received):
            served.heard_ns = now_ns
        if isinstance(message, ReceiverReport):
            return stream.process_report(message, received, now_ns)
        if isinstance(message, ControlMessage):
            return stream.process_control(message, received, now_ns)
        if isinstance(message, Ack):
            return stream.process_ack(message, received, now_ns)
        if isinstance(message, Bye) and session.is_sealed(
                self._crypto, stream.peer.session.client_key, received):
            return self._remove_client(stream.peer.name, "the client is done")
        return []

    def _is_from_client(self, served: _ServedStream, received: ReceivedMessage) -> bool:
        """Return whether a message has a valid MAC of its client.

        A signature is not checked here.
        """
        return session.is_from(self._crypto, served.stream.peer.session.client_key, received)

    # --- handshake ---------------------------------------------------------------------------

    def _process_hello(self, hello: Hello, received: ReceivedMessage, datagram: bytes,
                       source: Address,
                       now_ns: int) -> list[Effect]:
        """Answer a client's signed request for a stream, or refuse it."""
        keys = self.policy.clients.get(hello.name)
        known = [served for served in (self._offered.get(hello.name),
                                       self._served.get(hello.name)) if served is not None]
        for served in known:
            if served.hello == datagram:
                return [SendDatagram(served.answer, source)]
        if keys is None or any(hello.time_ns <= served.hello_ns for served in known) or (
                not session.is_signed(self._crypto, keys, session.signing_context("hello", b"")
                                      + received.body, received.authentication)):
            return [ProgramEvent("refused",
                                 {"client": hello.name, "reason": "hello: unknown, replayed or not "
                                  "the client's"})]
        agreed = AgreedAlgorithms(session.algorithms_from_mask(hello.algorithms) & (
            self.policy.stream.keys.keys() & SIGNATURES),
            session.schemes_from_mask(hello.schemes) & self.policy.schemes)
        setting = self._initial_setting(hello, agreed)
        if setting is None:
            return [ProgramEvent("refused",
                                 {"client": hello.name, "reason": "hello: no algorithm or scheme "
                                  "that both have"})]
        return self._offer_stream(hello, datagram, (keys, agreed, setting), source, now_ns)

    def _initial_setting(self, hello: Hello, agreed: AgreedAlgorithms) -> StreamSetting | None:
        wish = hello.wish
        if agreed.is_permitted(wish.setting.scheme, wish.setting.algorithm) and (
                wish.setting.scheme.is_signed):
            return wish.setting
        setting = signature_fallback(self.policy.stream.identity.algorithm, wish)
        possible = agreed.is_permitted(wish.setting.scheme, wish.setting.algorithm)
        return setting if possible and agreed.is_permitted(setting.scheme,
                                                           setting.algorithm) else None

    def _offer_stream(self, hello: Hello, datagram: bytes, terms: tuple[
            Mapping[Algorithm, VerifyingKey], AgreedAlgorithms, StreamSetting], source: Address,
            now_ns: int) -> list[Effect]:
        """Create the stream that a client requested, and send the signed answer."""
        keys, agreed, setting = terms
        private = self._random(EXCHANGE_BYTES)
        number = int.from_bytes(self._random(4), "big")
        ack = HelloAck(self.policy.name, number, now_ns, session.to_mask(agreed.algorithms),
                       session.to_mask(agreed.schemes), self._crypto.compute_digest(datagram),
                       self._random(NONCE_BYTES), self._crypto.compute_public_key(private), setting)
        body = ack.encode()
        signed = session.signing_context("hello-ack", b"") + datagram + body
        answer = body + session.signature_block(self._crypto, self.policy.stream.identity, signed)
        try:
            secrets = session.establish_session(self._crypto, private, hello.exchange, datagram,
                                                answer)
        except ValueError as error:
            return [ProgramEvent("refused", {"client": hello.name, "reason": f"hello: {error}"})]
        peer = StreamClient(hello.name, keys, source, (source[0], hello.data_port), number, secrets,
                            agreed)
        stream = Stream(self.policy.stream, peer, hello.wish, setting, now_ns,
                        (self._crypto, self._random, self._controller()))
        self._offered[hello.name] = _ServedStream(stream, datagram, hello.time_ns, answer, now_ns)
        return [SendDatagram(answer, source)]

    def _confirm_stream(self, offered: _ServedStream, now_ns: int) -> list[Effect]:
        """Start the stream of a client that has confirmed the handshake.

        Only now an older stream of the client ends, because the client has proven its identity.
        """
        name = offered.stream.peer.name
        effects = self._remove_client(name, "replaced") if name in self._served else []
        del self._offered[name]
        self._served[name] = offered
        offered.heard_ns = now_ns
        self._queue.add_client(name, self.policy.weights.get(name, 1.0))
        setting = offered.stream.setting
        return [*effects, ProgramEvent("stream", {
            "client": name, "stream": offered.stream.peer.number,
            "session": offered.stream.peer.session.digest.hex(),
            "scheme": setting.scheme.name.lower(), "algorithm": setting.algorithm.name.lower(),
            "bundle": setting.bundle, "level": setting.level}),
            *offered.stream.begin_stream(now_ns)]

    # --- streams -----------------------------------------------------------------------------

    @property
    def clients(self) -> list[str]:
        """Return the names of the clients whose streams have not ended."""
        return [name for name, served in self._served.items() if served.bye_ns is None]

    def get_stream(self, client: str) -> Stream:
        """Return the stream of a client.

        Raises:
            KeyError: the client has no stream.
        """
        return self._served[client].stream

    def has_room(self, client: str) -> bool:
        """Return whether a client's queue can accept another packet.

        A full queue means that signing is too slow, and the application has to wait.
        """
        return client in self._served and self._queue.count_jobs(client) < _QUEUE

    def count_waiting(self, client: str) -> int:
        """Return the number of a client's packets that are not signed yet."""
        return self._queue.count_jobs(client)

    def queue_packet(self, client: str, payload: bytes, frame: int = 0, flags: int = 0) -> None:
        """Queue a packet of the application until its client's turn to be signed."""
        cost = sealing_cost(self._served[client].stream.setting)
        self._queue.push_job(client, cost, _SigningJob(payload, frame, flags))

    def has_work(self) -> bool:
        """Return whether packets wait to be signed."""
        return len(self._queue) > 0

    def seal_next(self, now_ns: int) -> list[Effect]:
        """Sign the waiting packet of the client whose turn it is, and return the datagrams to send.

        Raises:
            IndexError: no packet waits.
        """
        client, job = self._queue.pop_job()
        return self._served[client].stream.send_packet(job.payload, now_ns, job.frame, job.flags)

    def finish_stream(self, client: str, now_ns: int) -> list[Effect]:
        """End a client's stream, because the application has no more packets.

        An open group of packets is signed. Bye messages to the client follow from `tick`.
        """
        served = self._served[client]
        served.bye_ns = now_ns
        return served.stream.close_group(now_ns)

    def tick(self, now_ns: int) -> list[Effect]:
        """Do what is due: send bye messages and repeated messages, and remove silent clients.

        A client is removed after 5 s of silence.
        """
        effects: list[Effect] = []
        for name, served in list(self._served.items()):
            effects += served.stream.tick(now_ns)
            if now_ns - served.heard_ns >= SILENCE_NS:
                effects += self._remove_client(name, f"silent for {SILENCE_NS / 1e9:g} s")
            elif served.bye_ns is not None and served.bye_ns <= now_ns:
                effects += self._say_bye(name, served, now_ns)
        for name, offered in list(self._offered.items()):
            if now_ns - offered.heard_ns >= SILENCE_NS:
                del self._offered[name]
        return effects

    def deadline_ns(self) -> int | None:
        """Return the time (ns) at which `tick` must be called next, or None."""
        times: list[int | None] = [served.stream.deadline_ns()
                                   for served in self._served.values()]
        times += [served.bye_ns for served in self._served.values()]
        times += [served.heard_ns + SILENCE_NS
                  for served in (*self._served.values(), *self._offered.values())]
        return min((time for time in times if time is not None), default=None)

    def _say_bye(self, name: str, served: _ServedStream, now_ns: int) -> list[Effect]:
        if served.stream.sender_deadline_ns() is not None or self._queue.count_jobs(name):
            served.bye_ns = now_ns + BYE_NS  # keys are still to be disclosed
            return []
        if served.byes >= _BYES:
            return self._remove_client(name, "no answer to the end")
        served.byes += 1
        served.bye_ns = now_ns + BYE_NS
        return [served.stream.make_bye()]

    def _remove_client(self, name: str, reason: str) -> list[Effect]:
        served = self._served.pop(name)
        self._queue.remove_client(name)
        return [ProgramEvent("left", {"client": name, "reason": reason, "sent": served.stream.sent,
                                      "max_delta": served.stream.max_delta,
                                      "signatures_made": self._crypto.signed,
                                      "signatures_verified": self._crypto.verified})]

    @staticmethod
    def _find_by_number(streams: dict[str, _ServedStream], number: int) -> _ServedStream | None:
        return next((served for served in streams.values()
                     if served.stream.peer.number == number), None)


def sealing_cost(setting: StreamSetting) -> float:
    """Return the cost of a packet under a setting, as a number of signatures."""
    if setting.scheme is Scheme.PERCENTAGE:
        return 1.0
    if setting.scheme is Scheme.DELAYED:
        return 1 + 1 / setting.bundle
    return 1 / setting.bundle if setting.scheme is Scheme.TREE else _TAG_COST
