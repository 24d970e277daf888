"""Verify the packets of an Authenticast stream at the receiving end, and keep statistics.

Authenticast streams signed packets, of which the receiver verifies a fraction (the level).
`Receiver` takes datagrams and times, and returns actions, such as a packet to deliver or to drop.
It keeps the level within the user's range. `StreamStatistics` counts lost packets by cause, delays
and the level. The module uses no sockets, clock or random numbers.

The server may change the setting of a stream: the scheme (`schemes`), the algorithm and the level.
The packets under one setting are an *epoch*, which has a number. In the scheme `percentage` each
packet has a signature. In `delayed`, one more signature covers a *bundle* of packets. In `tesla`,
keys are disclosed later. An *opener* verifies packets, and holds them until it can. Packets are
*shed* if they are dropped to save processor time. A sequence number is *far* if it is so far ahead
that it may be forged (`is_far`).
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from protocols.authenticast import crypto
from protocols.authenticast.crypto import Crypto, VerifyingKey
from protocols.authenticast.effects import (
    DeliverPacket,
    DropPacket,
    Effect,
    PacketFate,
    ProgramEvent,
)
from protocols.authenticast.epochs import AgreedAlgorithms, Epochs
from protocols.authenticast.messages import EpochChange, ReceiverReport
from protocols.authenticast.packets import StreamPacket, parse_bundle, parse_data, parse_disclosure
from protocols.authenticast.schemes.base import PacketVerdict, PacketVerifier
from protocols.authenticast.schemes.delayed import DelayedOpener
from protocols.authenticast.schemes.tesla import TeslaOpener
from protocols.authenticast.settings import STEPS, Algorithm, LevelRange, Scheme, StreamSetting
from protocols.authenticast.wire import MessageKind, PacketError, kind_of

# --- Statistics of a stream at its receiver ---
# Losses by cause, gaps, lag, the security level that was reached, and the time for which it was
# below the upper end of the user's range.

# A sequence number this far behind the newest counts as a duplicate.
ARRIVAL_WINDOW = 4096
# The lowest level is updated only from at least this many packets: fewer are not meaningful.
_MIN_PACKETS = 20
_LEVEL_NS = 1_000_000_000
_REJECTED = frozenset({PacketFate.FAILED, PacketFate.REFUSED})


class ArrivalRegister:
    """A register of received sequence numbers, which also finds out why others are missing.

    A missing packet was lost in transit (`air`), or dropped at the full receive buffer (`buffer`).
    Each datagram comes with the kernel's drop count at the time when it was queued. An increase
    explains the gap before that datagram.
    """

    def __init__(self) -> None:
        self.end = 0
        #: One more than the highest verified sequence number. Forged packets cannot change it.
        self.verified_end = 0
        self.accepted = 0
        self.air = 0
        self.buffer = 0
        self.duplicates = 0
        self._seen: set[int] = set()
        self._rejected: set[int] = set()
        self._rejected_before = 0
        self._dropped = 0
        self._drops = 0

    @property
    def rejected(self) -> int:
        """Return of how many packets only copies with a wrong signature arrived."""
        return self._rejected_before + sum(number < self.end for number in self._rejected)

    def count_drops(self, dropped: int) -> None:
        """Update the number of packets dropped by the kernel, from the count of a datagram."""
        self._drops += max(0, dropped - self._dropped)
        self._dropped = max(self._dropped, dropped)

    def is_new(self, sequence: int) -> bool:
        """Return whether a sequence number is new, and count a duplicate if it is not.

        A number that is too old to be remembered counts as a duplicate.
        """
        if sequence in self._seen or sequence + ARRIVAL_WINDOW < self.end:
            self.duplicates += 1
            return False
        return True

    def is_far(self, sequence: int) -> bool:
        """Return whether a sequence number is far ahead of all verified ones.

        Such a packet is always verified. Otherwise forged packets could move the window of accepted
        numbers.
        """
        return sequence >= self.verified_end + ARRIVAL_WINDOW // 2

    def accept(self, sequence: int) -> None:
        """Record a packet that is held or processed as arrived."""
        self.accepted += 1
        self._seen.add(sequence)
        if sequence >= self.end:
            self.count_missing(sequence)
            self.end = sequence + 1
        elif sequence in self._rejected:
            self._rejected.discard(sequence)
        elif self.air:
            self.air -= 1  # late, not lost: a datagram that the kernel dropped never arrives
        else:
            self.buffer -= 1
        self._drops = 0
        self._forget_old()

    def reject(self, sequence: int) -> None:
        """Record a packet with a wrong signature. The right one may still arrive."""
        if sequence >= self.end + ARRIVAL_WINDOW or sequence + ARRIVAL_WINDOW < self.end:
            return
        if sequence in self._seen:
            # The packet was accepted and held; its verification failed now.
            self._seen.discard(sequence)
            self.accepted -= 1
        elif sequence < self.end and sequence not in self._rejected:
            # The packet counted as missing. Now a wrong copy of it has arrived.
            if self.air:
                self.air -= 1
            elif self.buffer:
                self.buffer -= 1
        self._rejected.add(sequence)

    def count_missing(self, sequence: int) -> None:
        """Count packets as lost if they are missing before a sequence number."""
        missing = sum(number not in self._rejected for number in range(self.end, sequence))
        in_buffer = min(missing, self._drops)
        self.buffer += in_buffer
        self.air += missing - in_buffer
        self.end = max(self.end, sequence)

    def _forget_old(self) -> None:
        if len(self._seen) > 2 * ARRIVAL_WINDOW:
            self._seen = {number for number in self._seen if number + ARRIVAL_WINDOW >= self.end}
        if len(self._rejected) > 2 * ARRIVAL_WINDOW:
            old = {number for number in self._rejected if number + ARRIVAL_WINDOW < self.end}
            self._rejected_before += len(old)
            self._rejected -= old


@dataclass
class LevelExposure:
    """Time during which a smaller fraction of packets was verified than the user wants.

    - `permitted`: range of fractions that the user permits
    - `level`: fraction that is verified since `since_ns`
    - `total_ns`, `longest_ns`: all of this time, and the longest part without interruption
    - `below_floor_ns`: time below the lowest permitted fraction
    """

    permitted: LevelRange
    level: float
    since_ns: int
    total_ns: int = 0
    longest_ns: int = 0
    below_floor_ns: int = 0
    _run_ns: int = 0

    def advance(self, now_ns: int) -> None:
        """Add the time since the last call, which was spent at the current level."""
        passed_ns = max(0, now_ns - self.since_ns)
        self.since_ns = max(self.since_ns, now_ns)
        if self.level < self.permitted.high:
            self.total_ns += passed_ns
            self._run_ns += passed_ns
            self.longest_ns = max(self.longest_ns, self._run_ns)
        else:
            self._run_ns = 0
        if self.level < self.permitted.low:
            self.below_floor_ns += passed_ns

    def set_level(self, level: float, permitted: LevelRange, now_ns: int) -> None:
        """Set the verified fraction and the user's range from this time on."""
        self.advance(now_ns)
        self.level, self.permitted = level, permitted


@dataclass
class StreamStatistics:
    """Statistics about the packets of a stream at its receiver.

    - `arrivals`, `fates`: sequence numbers that arrived, and number of packets by result
    - `bytes_processed`: bytes that the application got
    - `processing`: one more than the highest sequence number that was processed
    - `holes`, `missed`: number of gaps between processed packets, and of packets missing in them
    - `stray`, `malformed`: packets that are not of this stream, and packets that cannot be parsed
    - `lag_ns`, `max_lag_ns`: delay of the last processed packet beyond the smallest delay, and the
      largest such delay (ns)
    - `lowest_level`: smallest fraction of packets that was verified
    """

    arrivals: ArrivalRegister = field(default_factory=ArrivalRegister)
    fates: Counter[PacketFate] = field(default_factory=Counter)
    bytes_processed: int = 0
    processing: int = 0
    holes: int = 0
    missed: int = 0
    stray: int = 0
    malformed: int = 0
    lag_ns: int = 0
    max_lag_ns: int = 0
    lowest_level: float = 1.0
    _quickest_ns: int | None = None
    _last: int = -1
    _recent: deque[tuple[int, bool]] = field(default_factory=deque)
    _recent_verified: int = 0
    _last_level: float = 1.0

    @property
    def processed(self) -> int:
        """Return the number of packets that the application received."""
        return self.fates[PacketFate.VERIFIED] + self.fates[PacketFate.UNVERIFIED]

    @property
    def level(self) -> float:
        """Return the fraction of recent packets that were verified before the application got them.

        Packets of the last second are recent, or packets since the setting last changed. Without
        recent packets, the fraction before that change is returned.
        """
        return self._recent_verified / len(self._recent) if self._recent else self._last_level

    def begin_level(self) -> None:
        """Start to count the verified fraction again, because the setting changed."""
        self._last_level = self.level
        self._recent.clear()
        self._recent_verified = 0

    def record_fate(self, packet: StreamPacket, fate: PacketFate, now_ns: int) -> int:
        """Record what became of a packet, such as verified or rejected.

        Returns:
            The number of packets that are missing before this one.
        """
        self.fates[fate] += 1
        if fate in _REJECTED:
            self.arrivals.reject(packet.sequence)
        if fate is PacketFate.VERIFIED:
            self.arrivals.verified_end = max(self.arrivals.verified_end, packet.sequence + 1)
        if not fate.is_processed:
            return 0
        self.bytes_processed += len(packet.payload)
        hole = max(0, packet.sequence - self._last - 1)
        self.holes += hole > 0
        self.missed += hole
        self._last = packet.sequence
        self.processing = max(self.processing, packet.sequence + 1)
        self._update_lag(now_ns - packet.sent_ns)
        self._update_level(fate is PacketFate.VERIFIED, now_ns)
        return hole

    def _update_lag(self, delay_ns: int) -> None:
        # The two clocks may differ, so lag is relative to the packet with the smallest delay.
        if self._quickest_ns is None or delay_ns < self._quickest_ns:
            self._quickest_ns = delay_ns
        self.lag_ns = delay_ns - self._quickest_ns
        self.max_lag_ns = max(self.max_lag_ns, self.lag_ns)

    def _update_level(self, is_verified: bool,  # noqa: FBT001 - booked as it is
                      now_ns: int) -> None:
        self._recent.append((now_ns, is_verified))
        self._recent_verified += is_verified
        while self._recent[0][0] + _LEVEL_NS < now_ns:
            self._recent_verified -= self._recent.popleft()[1]
        if len(self._recent) >= _MIN_PACKETS:
            self.lowest_level = min(self.lowest_level, self.level)

    def to_dict(self, waiting: int) -> dict[str, Any]:
        """Return the statistics as values for JSON.

        Processed, waiting and lost packets add up to the sent ones.

        Args:
            waiting: number of packets that are held until they can be verified.
        """
        arrivals = self.arrivals
        processed = self.processed
        return {
            "sent": arrivals.end, "processed": processed, "waiting": waiting,
            "verified": self.fates[PacketFate.VERIFIED], "bytes_processed": self.bytes_processed,
            "level": self.fates[PacketFate.VERIFIED] / processed if processed else None,
            "lowest_level": self.lowest_level,
            "lost": {"air": arrivals.air, "buffer": arrivals.buffer, "failed": arrivals.rejected,
                     **{fate.value: self.fates[fate] for fate in PacketFate
                        if not fate.is_processed and fate not in _REJECTED}},
            "failed_operations": self.fates[PacketFate.FAILED],
            "refused": self.fates[PacketFate.REFUSED],
            "duplicates": arrivals.duplicates, "stray": self.stray, "malformed": self.malformed,
            "holes": self.holes, "missed": self.missed, "max_lag_s": self.max_lag_ns / 1e9,
        }


# --- Verification and delivery ---

# Weight of the newest duration in the running means.
_NEWEST = 0.25


@dataclass(frozen=True)
class StreamTerms:
    """The terms of a stream that client and server agreed on in the handshake.

    At the time `agreed_ns`, the server's clock was at most `ahead_ns` ahead of the client's.
    """

    stream: int
    session: bytes
    agreed: AgreedAlgorithms
    setting: StreamSetting
    ahead_ns: int
    agreed_ns: int


@dataclass
class VerificationTimes:
    """Running means of the receiver's time to verify a signature and to handle a packet.

    `handle_ns` is the time for a packet without verification.
    """

    handle_ns: float = 0.0
    verify_ns: float = 0.0

    def add_sample(self, passed_ns: int, verifications: int) -> None:
        """Add the processing time of a datagram, with the number of signatures verified for it."""
        if verifications:
            sample_ns = max(0.0, passed_ns - self.handle_ns) / verifications
            self.verify_ns += (sample_ns - self.verify_ns) * (_NEWEST if self.verify_ns else 1)
        else:
            self.handle_ns += (passed_ns - self.handle_ns) * (_NEWEST if self.handle_ns else 1)


class Receiver:
    """A receiver of one stream that verifies a fraction of its packets, as the user permits."""

    def __init__(self, crypto: Crypto, keys: Mapping[Algorithm, VerifyingKey], terms: StreamTerms,
                 permitted: LevelRange, secret: bytes) -> None:
        self.account = StreamStatistics()
        self.took = VerificationTimes()
        self.setting = terms.setting
        self._crypto = crypto
        self._terms = terms
        self._permitted = permitted
        self._secret = secret
        self._verifier = PacketVerifier(crypto, keys, terms.session)
        self._epochs = Epochs(self._verifier, terms.agreed, terms.ahead_ns, terms.agreed_ns)
        self._epochs.start_epoch(0, terms.setting, b"", b"")
        # Sequence numbers far ahead whose packets are held until their TESLA key is disclosed.
        # They are not accepted before that.
        self._far: set[int] = set()
        self.exposure = LevelExposure(permitted, self.level, terms.agreed_ns)

    # --- current setting ----------------------------------------------------------------------

    @property
    def level(self) -> float:
        """Return the fraction of packets that the current setting verifies, 0 to 1."""
        if self.setting.scheme is not Scheme.PERCENTAGE:
            return 1.0
        return self._permitted.clamp(self.setting.level)

    @property
    def newest_epoch(self) -> int:
        """Return the number of the newest setting that the server has announced."""
        return self._epochs.newest

    @property
    def waiting(self) -> int:
        """Return the number of packets that are held until they can be verified."""
        return sum(opener.waiting for opener in self._epochs.all_openers()
                   if isinstance(opener, DelayedOpener | TeslaOpener))

    def apply_change(self, change: EpochChange, key: bytes, now_ns: int) -> list[Effect]:
        """Apply a new setting that the server has announced and signed.

        Args:
            change: the announcement. Its signature has been verified.
            key: a new secret key, or empty.
            now_ns: current time (ns).

        Returns:
            Packets that were held and can now be delivered or dropped.

        Raises:
            ValueError: the setting was not agreed in the handshake.
        """
        self._epochs.start_epoch(change.epoch, change.setting, key, change.material)
        self.setting = change.setting
        self.exposure.set_level(self.level, self._permitted, now_ns)
        if change.setting.scheme is not Scheme.PERCENTAGE:
            return []
        self.account.begin_level()
        # Each packet of a bundle is signed as well. So a receiver that lags behind the new setting
        # samples the held packets at once and catches up.
        released = [packet for opener in self._epochs.all_openers()
                    if isinstance(opener, DelayedOpener) for packet in opener.release_packets()]
        return self._settle_verdicts([self._sample_packet(packet) for packet in released], now_ns)

    def set_range(self, permitted: LevelRange, now_ns: int) -> None:
        """Set which fractions of verified packets the user permits. This applies at once."""
        self._permitted = permitted
        self.exposure.set_level(self.level, permitted, now_ns)

    # --- datagrams ---------------------------------------------------------------------------

    def process_datagram(self, datagram: bytes, now_ns: int, dropped: int = 0,
                         arrived_ns: int | None = None) -> list[Effect]:
        """Process a datagram from the port for stream packets.

        Args:
            datagram: the complete datagram.
            now_ns: time at which processing starts (ns).
            dropped: drop count of the socket, which the kernel adds to the datagram.
            arrived_ns: time at which the kernel received the datagram (default: `now_ns`).

        Returns:
            Packets to deliver, packets that are lost, and events.
        """
        self.account.arrivals.count_drops(dropped)
        try:
            verdicts = self._dispatch_datagram(datagram, now_ns,
                                               now_ns if arrived_ns is None else arrived_ns)
        except PacketError:
            self.account.malformed += 1
            return []
        return self._settle_verdicts(verdicts, now_ns)

    def tick(self, now_ns: int) -> list[Effect]:
        """Do what is due: give up groups of packets that have waited too long."""
        self.exposure.advance(now_ns)
        return self._settle_verdicts([verdict for opener in self._epochs.all_openers()
                                      for verdict in opener.tick(now_ns)], now_ns)

    def deadline_ns(self) -> int | None:
        """Return the time (ns) at which `tick` must be called next, or None."""
        times = [opener.deadline_ns() for opener in self._epochs.all_openers()]
        return min((time for time in times if time is not None), default=None)

    def finish_stream(self, end: int, now_ns: int) -> list[Effect]:
        """End the stream, whose sequence numbers are below `end`, and give up all held packets."""
        self.account.arrivals.count_missing(end)
        self.exposure.advance(now_ns)
        return self._settle_verdicts([verdict for opener in self._epochs.all_openers()
                                      if isinstance(opener, DelayedOpener | TeslaOpener)
                                      for verdict in opener.give_up()], now_ns)

    def to_dict(self) -> dict[str, Any]:
        """Return the statistics of the stream as values for JSON.

        They contain the secret by which packets were chosen for verification.
        """
        exposure = self.exposure
        return {**self.account.to_dict(self.waiting), "exposure_s": exposure.total_ns / 1e9,
                "longest_exposure_s": exposure.longest_ns / 1e9,
                "below_floor_s": exposure.below_floor_ns / 1e9,
                # With the secret, a reader can recompute the choice. It is reported when the stream
                # is over, to the user of the stream.
                "choice_secret": self._secret.hex()}

    def build_report(self, stream: int, number: int) -> ReceiverReport:
        """Return the report to the server with this number."""
        account, arrivals = self.account, self.account.arrivals
        return ReceiverReport(
            stream, number, arrivals.end, account.processing, account.processed,
            account.fates[PacketFate.VERIFIED], arrivals.rejected, arrivals.buffer, arrivals.air,
            self.waiting, account.holes, account.lag_ns, int(self.took.verify_ns),
            int(self.took.handle_ns), round(account.level * STEPS))

    def _dispatch_datagram(self, datagram: bytes, now_ns: int,
                           arrived_ns: int) -> list[PacketVerdict]:
        """Process a datagram by its kind: data packet, bundle signature or disclosed key."""
        kind = kind_of(datagram)
        if kind is MessageKind.DATA:
            packet = parse_data(datagram)
            if packet.stream == self._terms.stream:
                return self._judge_packet(packet, now_ns, arrived_ns)
        elif kind is MessageKind.BUNDLE:
            bundle = parse_bundle(datagram)
            opener = self._find_opener(bundle.stream, bundle.epoch, Scheme.DELAYED)
            if isinstance(opener, DelayedOpener):
                return opener.add_signature(bundle, now_ns)
        else:
            disclosed = parse_disclosure(datagram)
            opener = self._find_opener(disclosed.stream, disclosed.epoch, Scheme.TESLA)
            if isinstance(opener, TeslaOpener):
                return opener.process_disclosure(disclosed, arrived_ns)
        self.account.stray += 1
        return []

    def _find_opener(self, stream: int, number: int, scheme: Scheme) -> object:
        epoch = self._epochs[number]
        return epoch.openers.get(scheme) if epoch and stream == self._terms.stream else None

    # --- verdicts ----------------------------------------------------------------------------

    def _judge_packet(self, packet: StreamPacket, now_ns: int,
                      arrived_ns: int) -> list[PacketVerdict]:
        """Return the verdicts on packets that follow from the arrival of a data packet.

        The packet is dropped if it is a copy, belongs to no announced setting, or is to be shed.
        """
        arrivals = self.account.arrivals
        if not arrivals.is_new(packet.sequence):
            return []
        if not self._epochs.is_in_epoch(packet):
            return [(packet, PacketFate.REFUSED)]
        epoch = self._epochs[packet.epoch]
        is_known = epoch is not None and epoch.setting is not None
        # A packet that would move the window far or start an epoch is accepted only when verified.
        must = not is_known or arrivals.is_far(packet.sequence) or (
            epoch is not None and epoch.first is None)
        place = (packet.stream, packet.sequence)
        if not must and crypto.is_chosen(self._secret, b"shed", place, self.setting.shed):
            arrivals.accept(packet.sequence)
            return [(packet, PacketFate.SHED)]
        if packet.scheme is Scheme.TESLA and arrivals.is_far(packet.sequence):
            if packet.sequence in self._far:
                arrivals.duplicates += 1
                return []
            self._far.add(packet.sequence)
            return self._open_packet(packet, now_ns, arrived_ns, must_verify=must)
        verdicts = self._open_packet(packet, now_ns, arrived_ns, must_verify=must)
        if (packet, PacketFate.FAILED) not in verdicts:
            arrivals.accept(packet.sequence)
        return verdicts

    def _confirm_fate(self, packet: StreamPacket, fate: PacketFate) -> PacketFate:
        """Return the result for a packet, but refuse one from far ahead that was not verified."""
        if packet.sequence not in self._far:
            return fate
        self._far.discard(packet.sequence)
        if fate is PacketFate.VERIFIED:
            self.account.arrivals.accept(packet.sequence)
            return fate
        return fate if fate is PacketFate.FAILED else PacketFate.REFUSED

    def _open_packet(self, packet: StreamPacket, now_ns: int, arrived_ns: int, *,
                     must_verify: bool) -> list[PacketVerdict]:
        """Verify a data packet by its scheme, or hold it until it can be verified."""
        opener = self._epochs.find_opener(packet)
        # The receiver lags if a packet comes from before the newest setting, which verifies packets
        # one by one. Then it samples packets of a bundle at once, too (see `apply_change`).
        is_lagging = self.setting.scheme is Scheme.PERCENTAGE and (
            packet.epoch <= self.newest_epoch)
        if isinstance(opener, DelayedOpener):
            if is_lagging:
                return [self._sample_packet(packet, must_verify=must_verify)]
            if self.account.arrivals.is_far(packet.sequence) and not (
                    self._verifier.is_authentic(packet)):
                return [(packet, PacketFate.FAILED)]
            return opener.open_packet(packet, now_ns)
        if opener is not None:
            return opener.open_packet(packet, arrived_ns)
        return [self._sample_packet(packet, must_verify=must_verify)]

    def _sample_packet(self, packet: StreamPacket, *, must_verify: bool = False) -> PacketVerdict:
        """Verify a packet if the secret choice selects it, or if `must_verify` is set."""
        place = (packet.stream, packet.sequence)
        if must_verify or crypto.is_chosen(self._secret, b"verify", place, self._level_of(packet)):
            is_right = self._verifier.is_authentic(packet)
            return packet, PacketFate.VERIFIED if is_right else PacketFate.FAILED
        return packet, PacketFate.UNVERIFIED

    def _level_of(self, packet: StreamPacket) -> float:
        """Return the fraction of packets that is verified among packets like this one.

        The fraction is that of the newest setting. If that setting has another scheme, the fraction
        is that of the packet's own setting.
        """
        epoch = self._epochs[packet.epoch]
        setting = self.setting
        if setting.scheme is not Scheme.PERCENTAGE and epoch is not None and epoch.setting:
            setting = epoch.setting
        return self._permitted.clamp(setting.level)

    def _settle_verdicts(self, verdicts: list[PacketVerdict], now_ns: int) -> list[Effect]:
        """Record the results for packets, and deliver or drop each packet."""
        effects: list[Effect] = []
        for packet, judged in verdicts:
            fate = self._confirm_fate(packet, judged)
            is_first = fate is PacketFate.VERIFIED and self._epochs.confirm_packet(packet)
            if is_first and packet.scheme is not Scheme.PERCENTAGE:
                self.account.begin_level()
            hole = self.account.record_fate(packet, fate, now_ns)
            if hole:
                effects.append(ProgramEvent("hole", {"before": packet.sequence, "missing": hole}))
            if is_first:
                effects.append(ProgramEvent("epoch", {
                    "epoch": packet.epoch, "sequence": packet.sequence,
                    "scheme": packet.scheme.name.lower(),
                    "algorithm": packet.algorithm.name.lower()}))
            if fate.is_processed:
                effects.append(DeliverPacket(packet.stream, packet.sequence, packet.payload,
                                             packet.frame,
                                             packet.flags, packet.sent_ns,
                                             fate is PacketFate.VERIFIED))
            else:
                effects.append(DropPacket(packet.stream, packet.sequence, fate))
        return effects
