"""Handle the server's end of one Authenticast stream: sign packets, and change the setting.

Authenticast streams signed packets over UDP. A setting says how packets are authenticated. `Sender`
numbers the packets and signs them. `Stream` processes the client's reports and requests, asks a
controller for a new setting, and announces it to the client. It returns actions, such as datagrams
to send. `protocols.authenticast.server` has one `Stream` for each client.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from protocols.authenticast import session
from protocols.authenticast.controllers import Controller, StreamObservation
from protocols.authenticast.crypto import Crypto, SigningKey, VerifyingKey
from protocols.authenticast.effects import Effect, ProgramEvent, SendDatagram
from protocols.authenticast.epochs import AgreedAlgorithms
from protocols.authenticast.messages import (
    EXCHANGE_BYTES,
    Ack,
    Bye,
    ControlMessage,
    EpochChange,
    ReceivedMessage,
    ReceiverReport,
    StreamRequest,
)
from protocols.authenticast.packets import StreamPacket
from protocols.authenticast.schemes.base import (
    PacketSigner,
    PercentageSealer,
    Sealer,
    SecretKeySealer,
)
from protocols.authenticast.schemes.delayed import DelayedSealer
from protocols.authenticast.schemes.tesla import (
    TeslaParameters,
    TeslaSchedule,
    TeslaSealer,
    make_key_chain,
)
from protocols.authenticast.schemes.tree import TreeSealer
from protocols.authenticast.session import SessionSecrets
from protocols.authenticast.settings import Algorithm, Scheme, StreamSetting

# --- Sender: numbers packets and adds their authenticators ---
# No packet leaves without an authenticator. A switch of the scheme closes the open bundle or tree
# first, and the new scheme then seals the next packet.

@dataclass(frozen=True)
class SchemeKeys:
    """Keys that a scheme needs besides a signing key: a secret key, or a TESLA key chain."""

    key: bytes = b""
    parameters: TeslaParameters | None = None
    chain: tuple[bytes, ...] = ()


class Sender:
    """A sender that numbers and signs the packets of one stream.

    `hold_ns` is the longest time that a packet waits for its hash tree to fill.
    """

    def __init__(self, crypto: Crypto, keys: Mapping[Algorithm, SigningKey],
                 stream_id: tuple[int, bytes], setting: StreamSetting, hold_ns: int) -> None:
        self._crypto = crypto
        self._keys = keys
        self._stream, self._session = stream_id
        self._hold_ns = hold_ns
        self.next_sequence = 0
        self.epoch = 0
        self.setting = setting
        self._material = SchemeKeys()
        self._sealer = self._sealer_for(setting, self._material)
        self._lingering: list[TeslaSealer] = []

    def seal_payload(self, payload: bytes, now_ns: int, frame: int = 0,
                     flags: int = 0) -> list[bytes]:
        """Give a packet its number, sign it, and return the datagrams to send now.

        Raises:
            ValueError: the TESLA key chain has no key left. Call `switch_setting` before that.
        """
        setting = self.setting
        packet = StreamPacket(setting.scheme, setting.algorithm, flags, self._stream,
                              self.next_sequence,
                              now_ns, frame, self.epoch, 0, 1, payload)
        datagrams = self._sealer.seal_packet(packet, now_ns)
        self.next_sequence += 1
        return datagrams

    def switch_setting(self, epoch: int, setting: StreamSetting, material: SchemeKeys,
                       now_ns: int) -> list[bytes]:
        """Use another setting from the next packet on.

        Returns:
            Datagrams that complete the current group of packets. Send them first.

        Raises:
            ValueError: the keys for the setting are missing.
        """
        sealer = self._sealer_for(setting, self._select_material(setting, material))
        datagrams = self.close_group(now_ns)
        if isinstance(self._sealer, TeslaSealer):
            self._lingering.append(self._sealer)
        self._sealer, self._material = sealer, self._select_material(setting, material)
        self.epoch, self.setting = epoch, setting
        return datagrams

    @property
    def released_end(self) -> int:
        """Return the sequence number below which all packets have been sent.

        Packets that wait for their hash tree have not been sent.
        """
        held = self._sealer.held_count if isinstance(self._sealer, TreeSealer) else 0
        return self.next_sequence - held

    def close_group(self, now_ns: int) -> list[bytes]:
        """Complete the current group of packets (bundle or tree), and return its datagrams."""
        return self._sealer.close_group(now_ns)

    def tick(self, now_ns: int) -> list[bytes]:
        """Return the datagrams that are due: hash trees that have waited, and keys to disclose."""
        datagrams = [datagram for sealer in (*self._lingering, self._sealer)
                     for datagram in sealer.tick(now_ns)]
        self._lingering = [sealer for sealer in self._lingering
                           if sealer.deadline_ns() is not None]
        return datagrams

    def deadline_ns(self) -> int | None:
        """Return the time (ns) at which `tick` must be called next, or None."""
        times = [sealer.deadline_ns() for sealer in (*self._lingering, self._sealer)]
        return min((time for time in times if time is not None), default=None)

    def chain_left(self, now_ns: int) -> int | None:
        """Return how many intervals the TESLA key chain still covers, or None for other schemes."""
        return self._sealer.remaining_intervals(now_ns) if isinstance(self._sealer,
                                                                      TeslaSealer) else None

    def _select_material(self, setting: StreamSetting, material: SchemeKeys) -> SchemeKeys:
        """Return the keys to use: the new ones, or the current secret key if no new one comes."""
        if setting.scheme is Scheme.SECRET_KEY and not material.key:
            return self._material
        return material

    def _sealer_for(self, setting: StreamSetting, material: SchemeKeys) -> Sealer:
        if setting.scheme is Scheme.SECRET_KEY:
            if not material.key:
                raise ValueError("a secret key connection without a key")
            return SecretKeySealer(self._crypto, material.key, self._session)
        if setting.scheme is Scheme.TESLA:
            if material.parameters is None:
                raise ValueError("TESLA without parameters")
            return TeslaSealer(self._crypto, self._session, material.parameters,
                               list(material.chain))
        key = self._keys.get(setting.algorithm)
        if key is None:
            raise ValueError(f"no key for {setting.algorithm.name}")
        signer = PacketSigner(self._crypto, key, self._session)
        if setting.scheme is Scheme.DELAYED:
            return DelayedSealer(signer, setting.bundle)
        if setting.scheme is Scheme.TREE:
            return TreeSealer(signer, setting.bundle, self._hold_ns)
        return PercentageSealer(signer)


# --- Stream of one client ---

RETRY_NS = 200_000_000
MAX_TRIES = 25
# Interval of keep-alives. They show that the server is alive while the application pauses.
KEEPALIVE_NS = 1_000_000_000
_RATE_NS = 2_000_000_000
Address = tuple[str, int]


@dataclass(frozen=True)
class StreamPolicy:
    """Rules for all streams of a server.

    - `keys`: keys that sign packets, by algorithm
    - `identity`: key that signs the server's messages
    - `delay_bound_s`: delay (s) that controllers aim at
    - `hold_ns`: longest time that a packet waits for its hash tree
    - `tesla`: interval length, disclosure delay and chain length of TESLA
    """

    keys: Mapping[Algorithm, SigningKey]
    identity: SigningKey
    delay_bound_s: float = 1.0
    hold_ns: int = 500_000_000
    tesla: TeslaSchedule = field(default_factory=TeslaSchedule)


@dataclass(frozen=True)
class StreamClient:
    """The client of a stream as the server knows it: its keys, addresses and session.

    `number` is the number of the stream. `agreed` has the algorithms and schemes of the handshake.
    """

    name: str
    keys: Mapping[Algorithm, VerifyingKey]
    control: Address
    data: Address
    number: int
    session: SessionSecrets
    agreed: AgreedAlgorithms


@dataclass
class _PendingChange:
    """A new setting that the client has not acknowledged yet.

    `datagram` announces it, and is sent again at `retry_ns`. `tries` counts the transmissions. If
    the setting needs keys (`material`), it takes effect only when it is acknowledged.
    """

    change: EpochChange
    datagram: bytes
    retry_ns: int
    material: SchemeKeys | None
    tries: int = 1


class Stream:
    """The server's end of one client's stream."""

    def __init__(self, policy: StreamPolicy, peer: StreamClient, request: StreamRequest,
                 setting: StreamSetting,
                 now_ns: int,
                 tools: tuple[Crypto, Callable[[int], bytes], Controller]) -> None:
        self._crypto, self._random, self._controller = tools
        self.peer = peer
        self.wish = request
        self._policy = policy
        self._sender = Sender(self._crypto, policy.keys, (peer.number, peer.session.digest),
                              setting, policy.hold_ns)
        self._epoch = 0
        self._pending: _PendingChange | None = None
        self._last_report = self._last_control = 0
        self._sent_ns: deque[int] = deque()
        self._spoke_ns = now_ns
        self.delta = 0
        self.max_delta = 0

    @property
    def setting(self) -> StreamSetting:
        """Return the setting under which the next packet is signed."""
        return self._sender.setting

    @property
    def sent(self) -> int:
        """Return the number of packets so far."""
        return self._sender.next_sequence

    # --- packets and timers ------------------------------------------------------------------

    def begin_stream(self, now_ns: int) -> list[Effect]:
        """Begin the stream after the client has confirmed the handshake.

        If the user wants TESLA, its parameters are announced now. They are not part of the
        handshake.
        """
        if self.wish.setting.scheme is Scheme.TESLA:
            return self._announce_setting(self.wish.setting, "asked for", b"", now_ns)
        return []

    def send_packet(self, payload: bytes, now_ns: int, frame: int = 0,
                    flags: int = 0) -> list[Effect]:
        """Sign a packet of the application and send it.

        Args:
            payload: content of the packet.
            now_ns: current time.
            frame: number of the video frame that the packet belongs to.
            flags: type of the frame, and whether the packet is its first or last one.
        """
        effects = self._renew_chain(now_ns)
        self._spoke_ns = now_ns
        self._sent_ns.append(now_ns)
        while self._sent_ns[0] + _RATE_NS < now_ns:
            self._sent_ns.popleft()
        return effects + self._to_data_plane(
            self._sender.seal_payload(payload, now_ns, frame, flags))

    def close_group(self, now_ns: int) -> list[Effect]:
        """Complete the current group of packets (bundle or tree) and send it."""
        return self._to_data_plane(self._sender.close_group(now_ns))

    def make_bye(self) -> SendDatagram:
        """Return a bye message. The caller repeats it until the client answers."""
        return self._to_control_plane(Bye(self.peer.number, self.sent))

    def tick(self, now_ns: int) -> list[Effect]:
        """Do what is due: send waiting hash trees, disclosed keys and repeated messages."""
        effects = self._to_data_plane(self._sender.tick(now_ns))
        if self._spoke_ns + KEEPALIVE_NS <= now_ns:
            self._spoke_ns = now_ns
            effects.append(self._to_control_plane(Ack(self.peer.number, self._epoch)))
        pending = self._pending
        if pending is None or pending.retry_ns > now_ns:
            return effects
        if pending.tries >= MAX_TRIES:
            self._pending = None
            return [*effects, ProgramEvent("unacknowledged", {"client": self.peer.name,
                                                              "epoch": pending.change.epoch})]
        pending.tries += 1
        pending.retry_ns = now_ns + RETRY_NS
        return [*effects, SendDatagram(pending.datagram, self.peer.control)]

    def sender_deadline_ns(self) -> int | None:
        """Return the time (ns) at which hash trees or keys must be sent, or None."""
        return self._sender.deadline_ns()

    def deadline_ns(self) -> int:
        """Return the time (ns) at which `tick` must be called next."""
        times = [self._sender.deadline_ns(), self._spoke_ns + KEEPALIVE_NS]
        times += [self._pending.retry_ns] if self._pending else []
        return min(time for time in times if time is not None)

    # --- messages from the client -------------------------------------------------------------

    def process_report(self, report: ReceiverReport, received: ReceivedMessage,
                       now_ns: int) -> list[Effect]:
        """Process a report of the client, and apply the setting that the controller chooses."""
        if report.number <= self._last_report or not session.is_sealed(
                self._crypto, self.peer.session.client_key, received):
            return [self._refusal_note("report")]
        self._last_report = report.number
        self.delta = max(0, self._sender.released_end - report.highest)
        self.max_delta = max(self.max_delta, self.delta)
        note = ProgramEvent("report", {
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

    def process_control(self, control: ControlMessage, received: ReceivedMessage,
                        now_ns: int) -> list[Effect]:
        """Process a new request of the user for the stream."""
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

    def process_ack(self, ack: Ack, received: ReceivedMessage, now_ns: int) -> list[Effect]:
        """Process the client's acknowledgement of a new setting.

        A setting that needs keys takes effect now.
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

    def _is_possible(self, setting: StreamSetting) -> bool:
        return self.peer.agreed.is_permitted(setting.scheme, setting.algorithm) and (
            not setting.scheme.is_signed or setting.algorithm in self._policy.keys)

    def _announce_setting(self, setting: StreamSetting, cause: str, exchange: bytes,
                          now_ns: int) -> list[Effect]:
        """Announce a new setting to the client.

        The setting applies at once. If its scheme needs keys, it applies when the client has
        acknowledged them.

        Args:
            setting: the new setting.
            cause: the reason for the change, in words for the client's user.
            exchange: X25519 public key with which the client asked for a secret key, else b"".
            now_ns: current time.
        """
        self._epoch += 1
        try:
            material, said = self._make_material(setting, exchange, now_ns)
        except ValueError:
            return [self._refusal_note("control")]
        change = EpochChange(self.peer.number, self._epoch, self.sent, self._last_control, setting,
                             cause[:200], said)
        datagram = session.seal_signed(self._crypto, self.peer.session.server_key,
                                       self._policy.identity, self.peer.session.digest,
                                       change.encode())
        self._pending = _PendingChange(change, datagram, now_ns + RETRY_NS, material)
        announced: list[Effect] = [SendDatagram(datagram, self.peer.control)]
        return announced + ([] if material else self._switch_setting(change, SchemeKeys(), now_ns))

    def _make_material(self, setting: StreamSetting, exchange: bytes,
                       now_ns: int) -> tuple[SchemeKeys | None, bytes]:
        """Create the keys that a scheme needs.

        Returns:
            The keys (None if the scheme needs none), and the bytes announced to the client: the
            server's X25519 public key, or the parameters of TESLA.

        Raises:
            ValueError: the user wants a secret key, and the client sent no X25519 public key.
        """
        if setting.scheme is Scheme.SECRET_KEY:
            if len(exchange) != EXCHANGE_BYTES:
                raise ValueError("a secret key connection is made on a client's request")
            private = self._random(EXCHANGE_BYTES)
            key = session.derive_secret_key(self._crypto, private, exchange,
                                            self.peer.session.digest, self._epoch)
            return SchemeKeys(key), self._crypto.compute_public_key(private)
        if setting.scheme is Scheme.TESLA:
            tesla = self._policy.tesla
            keys = make_key_chain(self._crypto, self._random(32), tesla.intervals)
            parameters = TeslaParameters(now_ns, tesla.interval_ns, tesla.intervals, tesla.delay,
                                         keys[0])
            return SchemeKeys(parameters=parameters, chain=tuple(keys)), parameters.encode()
        return None, b""

    def _switch_setting(self, change: EpochChange, material: SchemeKeys,
                        now_ns: int) -> list[Effect]:
        setting = change.setting
        closing = self._sender.switch_setting(change.epoch, setting, material, now_ns)
        return [*self._to_data_plane(closing), ProgramEvent("switched", {
            "client": self.peer.name, "epoch": change.epoch, "sequence": self.sent,
            "scheme": setting.scheme.name.lower(), "algorithm": setting.algorithm.name.lower(),
            "bundle": setting.bundle, "level": setting.level, "shed": setting.shed,
            "cause": change.cause})]

    def _renew_chain(self, now_ns: int) -> list[Effect]:
        """Announce a new TESLA key chain when a quarter of the old one is left.

        If the client has not acknowledged it in time, packets are signed instead.
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
        return [SendDatagram(datagram, self.peer.data) for datagram in datagrams]

    def _to_control_plane(self, message: Ack | Bye) -> SendDatagram:
        return SendDatagram(session.seal_message(self._crypto, self.peer.session.server_key,
                                                 message.encode()),
                            self.peer.control)

    def _refusal_note(self, message_name: str) -> ProgramEvent:
        return ProgramEvent("refused",
                            {"client": self.peer.name,
                             "reason": f"{message_name}: replayed, not the client's, or "
                             "impossible"})


def signature_fallback(algorithm: Algorithm, request: StreamRequest) -> StreamSetting:
    """Return a setting with a signature per packet, verified as much as the user permits.

    It is used while a scheme's keys are not available.
    """
    return StreamSetting(Scheme.PERCENTAGE, algorithm, level=request.permitted.high)
