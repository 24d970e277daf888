"""The server's side of one stream.

It sends packets, processes reports and the user's requests, and announces changes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from protocols.authenticast import session
from protocols.authenticast.controllers.state import Controller, StreamObservation
from protocols.authenticast.crypto import Crypto, SigningKey, VerifyingKey
from protocols.authenticast.effects import Effect, Note, Send
from protocols.authenticast.epochs import Agreed
from protocols.authenticast.messages import (
    EXCHANGE_BYTES,
    Ack,
    Bye,
    Change,
    Control,
    Received,
    ReceiverReport,
    Wish,
)
from protocols.authenticast.schemes.tesla import Parameters, Schedule, make_key_chain
from protocols.authenticast.sender import Material, Sender
from protocols.authenticast.session import SessionSecrets
from protocols.authenticast.settings import Algorithm, Scheme, Setting

RETRY_NS = 200_000_000
MAX_TRIES = 25
# Interval of keep-alives. They show that the server is alive while the application pauses.
KEEPALIVE_NS = 1_000_000_000
_RATE_NS = 2_000_000_000
Address = tuple[str, int]


@dataclass(frozen=True)
class StreamPolicy:
    """The policy of all streams of a server.

    `keys` sign packets by algorithm, `identity` signs the server's announcements. `delay_bound_s`
    is for controllers. `hold_ns` is the longest time that a packet waits for its tree.
    """

    keys: Mapping[Algorithm, SigningKey]
    identity: SigningKey
    delay_bound_s: float = 1.0
    hold_ns: int = 500_000_000
    tesla: Schedule = field(default_factory=Schedule)


@dataclass(frozen=True)
class Peer:
    """The client of a stream, as the server knows it.

    It has a name, public keys, the addresses of both planes and a session. `number` is the stream's
    number. `agreed` has the algorithms and schemes of the handshake.
    """

    name: str
    keys: Mapping[Algorithm, VerifyingKey]
    control: Address
    data: Address
    number: int
    session: SessionSecrets
    agreed: Agreed


@dataclass
class _Pending:
    """A change that is not acknowledged yet.

    With `material`, it takes effect only when it is acknowledged.
    """

    change: Change
    datagram: bytes
    retry_ns: int
    material: Material | None
    tries: int = 1


class Stream:
    """The stream of one client."""

    def __init__(self, policy: StreamPolicy, peer: Peer, request: Wish, setting: Setting,
                 now_ns: int,
                 tools: tuple[Crypto, Callable[[int], bytes], Controller]) -> None:
        self._crypto, self._random, self._controller = tools
        self.peer = peer
        self.wish = request
        self._policy = policy
        self._sender = Sender(self._crypto, policy.keys, (peer.number, peer.session.digest),
                              setting, policy.hold_ns)
        self._epoch = 0
        self._pending: _Pending | None = None
        self._last_report = self._last_control = 0
        self._sent_ns: deque[int] = deque()
        self._spoke_ns = now_ns
        self.delta = 0
        self.max_delta = 0

    @property
    def setting(self) -> Setting:
        """Return the setting that seals the next packet."""
        return self._sender.setting

    @property
    def sent(self) -> int:
        """Return the number of packets so far."""
        return self._sender.next_sequence

    # --- packets and timers ------------------------------------------------------------------

    def begin_stream(self, now_ns: int) -> list[Effect]:
        """Begin the stream after the client has confirmed the handshake.

        Announces TESLA if the user requests it, because its parameters were not part of the
        handshake.
        """
        if self.wish.setting.scheme is Scheme.TESLA:
            return self._announce_setting(self.wish.setting, "asked for", b"", now_ns)
        return []

    def send_packet(self, payload: bytes, now_ns: int, frame: int = 0,
                    flags: int = 0) -> list[Effect]:
        """Seal a packet of the application and send it."""
        effects = self._renew_chain(now_ns)
        self._spoke_ns = now_ns
        self._sent_ns.append(now_ns)
        while self._sent_ns[0] + _RATE_NS < now_ns:
            self._sent_ns.popleft()
        return effects + self._to_data_plane(
            self._sender.seal_payload(payload, now_ns, frame, flags))

    def close_group(self, now_ns: int) -> list[Effect]:
        """Close the open bundle or tree."""
        return self._to_data_plane(self._sender.close_group(now_ns))

    def make_bye(self) -> Send:
        """Return a bye. The caller repeats it until the client answers with one."""
        return self._to_control_plane(Bye(self.peer.number, self.sent))

    def tick(self, now_ns: int) -> list[Effect]:
        """Perform what is due.

        Sends waiting trees, keys to disclose, keep-alives and repeated changes.
        """
        effects = self._to_data_plane(self._sender.tick(now_ns))
        if self._spoke_ns + KEEPALIVE_NS <= now_ns:
            self._spoke_ns = now_ns
            effects.append(self._to_control_plane(Ack(self.peer.number, self._epoch)))
        pending = self._pending
        if pending is None or pending.retry_ns > now_ns:
            return effects
        if pending.tries >= MAX_TRIES:
            self._pending = None
            return [*effects, Note("unacknowledged", {"client": self.peer.name,
                                                      "epoch": pending.change.epoch})]
        pending.tries += 1
        pending.retry_ns = now_ns + RETRY_NS
        return [*effects, Send(pending.datagram, self.peer.control)]

    def sender_deadline_ns(self) -> int | None:
        """Return when trees or keys are due, or None if nothing is open."""
        return self._sender.deadline_ns()

    def deadline_ns(self) -> int:
        """Return the time at which `tick` is due next."""
        times = [self._sender.deadline_ns(), self._spoke_ns + KEEPALIVE_NS]
        times += [self._pending.retry_ns] if self._pending else []
        return min(time for time in times if time is not None)

    # --- messages from the client -------------------------------------------------------------

    def process_report(self, report: ReceiverReport, received: Received,
                       now_ns: int) -> list[Effect]:
        """Process a client's report, and apply the controller's decision."""
        if report.number <= self._last_report or not session.is_sealed(
                self._crypto, self.peer.session.client_key, received):
            return [self._refusal_note("report")]
        self._last_report = report.number
        self.delta = max(0, self._sender.released_end - report.highest)
        self.max_delta = max(self.max_delta, self.delta)
        note = Note("report", {
            "client": self.peer.name, "sent": self.sent, "delta": self.delta,
            "processed": report.processed, "verified": report.verified, "failed": report.failed,
            "buffer": report.buffer, "air": report.air, "waiting": report.waiting,
            "holes": report.holes, "level": report.level / 1e4, "lag_s": report.lag_ns / 1e9})
        if not self.wish.automatic or (self._pending and self._pending.material is not None):
            return [note]
        decision = self._controller.decide(self._make_observation(report, now_ns))
        if decision is None or not self._is_possible(decision.setting):
            return [note]
        return [note, *self._announce_setting(decision.setting, decision.cause, b"", now_ns)]

    def process_control(self, control: Control, received: Received, now_ns: int) -> list[Effect]:
        """Process a new request of the user."""
        if control.number == self._last_control:
            return []  # a repetition: the client has not received the change that answers it
        if control.number <= self._last_control:
            return [self._refusal_note("control")]
        if not session.is_sealed_and_signed(self._crypto, self.peer.session.client_key,
                                            self.peer.keys, self.peer.session.digest, received):
            return [self._refusal_note("control")]
        self._last_control = control.number
        setting = control.wish.setting
        if not self._is_possible(setting):
            return [self._refusal_note("control"), *self._announce_setting(
                self.setting, f"{setting.scheme.name} is not agreed", b"", now_ns)]
        self.wish = control.wish
        return self._announce_setting(setting, "asked for", control.exchange, now_ns)

    def process_ack(self, ack: Ack, received: Received, now_ns: int) -> list[Effect]:
        """Process an acknowledgement of the newest change.

        A change that needs keys takes effect now.
        """
        pending = self._pending
        if pending is None or ack.epoch != pending.change.epoch or not session.is_sealed(
                self._crypto, self.peer.session.client_key, received):
            return []
        material = pending.material
        if material is not None and material.key and ack.proof != session.make_proof(
                self._crypto, material.key, ack.epoch):
            return [self._refusal_note("ack")]
        self._pending = None
        if pending.material is None:
            return []
        return self._switch_setting(pending.change, pending.material, now_ns)

    # --- changes -----------------------------------------------------------------------------

    def _is_possible(self, setting: Setting) -> bool:
        return self.peer.agreed.is_permitted(setting.scheme, setting.algorithm) and (
            not setting.scheme.is_signed or setting.algorithm in self._policy.keys)

    def _announce_setting(self, setting: Setting, cause: str, exchange: bytes,
                          now_ns: int) -> list[Effect]:
        """Announce a setting.

        The setting applies at once. If its scheme needs keys, it applies when the client has them.
        """
        self._epoch += 1
        try:
            material, said = self._make_material(setting, exchange, now_ns)
        except ValueError:
            return [self._refusal_note("control")]
        change = Change(self.peer.number, self._epoch, self.sent, self._last_control, setting,
                        cause[:200], said)
        datagram = session.seal_signed(self._crypto, self.peer.session.server_key,
                                       self._policy.identity, self.peer.session.digest,
                                       change.encode())
        self._pending = _Pending(change, datagram, now_ns + RETRY_NS, material)
        announced: list[Effect] = [Send(datagram, self.peer.control)]
        return announced + ([] if material else self._switch_setting(change, Material(), now_ns))

    def _make_material(self, setting: Setting, exchange: bytes,
                       now_ns: int) -> tuple[Material | None, bytes]:
        """Return the keys that the scheme needs, and the part that is announced.

        Raises ValueError if the client sent no X25519 public key for a secret key.
        """
        if setting.scheme is Scheme.SECRET_KEY:
            if len(exchange) != EXCHANGE_BYTES:
                raise ValueError("a secret key connection is made on a client's request")
            private = self._random(EXCHANGE_BYTES)
            key = session.derive_secret_key(self._crypto, private, exchange,
                                            self.peer.session.digest, self._epoch)
            return Material(key), self._crypto.compute_public_key(private)
        if setting.scheme is Scheme.TESLA:
            tesla = self._policy.tesla
            keys = make_key_chain(self._crypto, self._random(32), tesla.intervals)
            parameters = Parameters(now_ns, tesla.interval_ns, tesla.intervals, tesla.delay,
                                    keys[0])
            return Material(parameters=parameters, chain=tuple(keys)), parameters.encode()
        return None, b""

    def _switch_setting(self, change: Change, material: Material, now_ns: int) -> list[Effect]:
        setting = change.setting
        closing = self._sender.switch_setting(change.epoch, setting, material, now_ns)
        return [*self._to_data_plane(closing), Note("switched", {
            "client": self.peer.name, "epoch": change.epoch, "sequence": self.sent,
            "scheme": setting.scheme.name.lower(), "algorithm": setting.algorithm.name.lower(),
            "bundle": setting.bundle, "level": setting.level, "shed": setting.shed,
            "cause": change.cause})]

    def _renew_chain(self, now_ns: int) -> list[Effect]:
        """Announce a new TESLA chain when a quarter of the intervals is left.

        If the client has not acknowledged the new chain before the old one ends, signatures are
        used.
        """
        left = self._sender.chain_left(now_ns)
        if left is None or left > self._policy.tesla.intervals // 4:
            return []
        if left < 1:
            return self._announce_setting(signature_fallback(self._policy.identity.algorithm,
                                                             self.wish),
                                          "the TESLA chain is used up", b"", now_ns)
        if self._pending is not None:
            return []
        return self._announce_setting(self.setting, "a new TESLA chain", b"", now_ns)

    # --- helpers -----------------------------------------------------------------------------

    def _make_observation(self, report: ReceiverReport, now_ns: int) -> StreamObservation:
        span_ns = max(1, now_ns - self._sent_ns[0]) if self._sent_ns else 1
        rate_pps = len(self._sent_ns) / max(span_ns / 1e9, 0.1)
        return StreamObservation(
            now_s=now_ns / 1e9, setting=self.setting, permitted=self.wish.permitted,
            sent=self.sent, processed=report.processed, delta=self.delta, rate_pps=rate_pps,
            holes=report.holes, buffer_drops=report.buffer, verify_s=report.verify_ns / 1e9,
            handle_s=report.handle_ns / 1e9, delay_bound_s=self._policy.delay_bound_s,
            algorithm_change=self.wish.algorithm_change)

    def _to_data_plane(self, datagrams: list[bytes]) -> list[Effect]:
        return [Send(datagram, self.peer.data) for datagram in datagrams]

    def _to_control_plane(self, message: Ack | Bye) -> Send:
        return Send(session.seal_message(self._crypto, self.peer.session.server_key,
                                         message.encode()),
                    self.peer.control)

    def _refusal_note(self, message_name: str) -> Note:
        return Note("refused",
                    {"client": self.peer.name, "reason": f"{message_name}: replayed, not the "
                                "client's, or impossible"})


def signature_fallback(algorithm: Algorithm, request: Wish) -> Setting:
    """Return a setting with signatures at the highest level that the user permits.

    It is used while a scheme's keys are not available yet, or not any more.
    """
    return Setting(Scheme.PERCENTAGE, algorithm, level=request.permitted.high)
