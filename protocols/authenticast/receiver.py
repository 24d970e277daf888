"""The receiver of one stream: current setting, verification and delivery.

The module uses no socket, clock or random number generator. The caller passes the times, and the
secret for the choice of packets.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from protocols.authenticast import choice
from protocols.authenticast.account import Account, Exposure
from protocols.authenticast.crypto import Crypto, VerifyingKey
from protocols.authenticast.effects import Deliver, Effect, Fate, Lose, Note
from protocols.authenticast.epochs import Agreed, Epochs
from protocols.authenticast.messages import Change, ReceiverReport
from protocols.authenticast.packets import Data, parse_bundle, parse_data, parse_disclose
from protocols.authenticast.schemes.base import Verdict, Verifier
from protocols.authenticast.schemes.delayed import DelayedOpener
from protocols.authenticast.schemes.tesla import TeslaOpener
from protocols.authenticast.settings import STEPS, Algorithm, Range, Scheme, Setting
from protocols.authenticast.wire import Kind, PacketError, kind_of

# Weight of the newest duration in the running means.
_NEWEST = 0.25


@dataclass(frozen=True)
class Terms:
    """The terms of a stream, as agreed in the handshake.

    At `agreed_ns`, the server's clock was at most `ahead_ns` ahead of the client's.
    """

    stream: int
    session: bytes
    agreed: Agreed
    setting: Setting
    ahead_ns: int
    agreed_ns: int


@dataclass
class Took:
    """Running means of the receiver's time for a packet and for a verification.

    `handle_ns` is the time for a packet without verification.
    """

    handle_ns: float = 0.0
    verify_ns: float = 0.0

    def add_sample(self, passed_ns: int, verifications: int) -> None:
        """Add the time of a datagram, and the number of signatures verified for it."""
        if verifications:
            sample_ns = max(0.0, passed_ns - self.handle_ns) / verifications
            self.verify_ns += (sample_ns - self.verify_ns) * (_NEWEST if self.verify_ns else 1)
        else:
            self.handle_ns += (passed_ns - self.handle_ns) * (_NEWEST if self.handle_ns else 1)


class Receiver:
    """A receiver that verifies one stream, always within the user's range."""

    def __init__(self, crypto: Crypto, keys: Mapping[Algorithm, VerifyingKey], terms: Terms,
                 permitted: Range, secret: bytes) -> None:
        self.account = Account()
        self.took = Took()
        self.setting = terms.setting
        self._crypto = crypto
        self._terms = terms
        self._permitted = permitted
        self._secret = secret
        self._verifier = Verifier(crypto, keys, terms.session)
        self._epochs = Epochs(self._verifier, terms.agreed, terms.ahead_ns, terms.agreed_ns)
        self._epochs.start_epoch(0, terms.setting, b"", b"")
        # Sequence numbers far ahead whose packets are held until their TESLA key is disclosed.
        # They are not accepted before that.
        self._far: set[int] = set()
        self.exposure = Exposure(permitted, self.level, terms.agreed_ns)

    # --- current setting ----------------------------------------------------------------------

    @property
    def level(self) -> float:
        """Return the share of packets that is verified under the current setting."""
        if self.setting.scheme is not Scheme.PERCENTAGE:
            return 1.0
        return self._permitted.clamp(self.setting.level)

    @property
    def newest_epoch(self) -> int:
        """Return the epoch of the newest change received."""
        return self._epochs.newest

    @property
    def waiting(self) -> int:
        """Return the number of packets that are held until they can be verified."""
        return sum(opener.waiting for opener in self._epochs.all_openers()
                   if isinstance(opener, DelayedOpener | TeslaOpener))

    def apply_change(self, change: Change, key: bytes, now_ns: int) -> list[Effect]:
        """Apply a change whose signature was checked. Raises ValueError.

        `key` is a new secret key, or empty. Returns the effects for held packets that are released.
        """
        self._epochs.start_epoch(change.epoch, change.setting, key, change.material)
        self.setting = change.setting
        self.exposure.set_level(self.level, self._permitted, now_ns)
        if change.setting.scheme is not Scheme.PERCENTAGE:
            return []
        self.account.begin_level()
        # Each packet of a bundle is signed as well. A receiver that lags therefore samples the held
        # packets at once and catches up.
        released = [packet for opener in self._epochs.all_openers()
                    if isinstance(opener, DelayedOpener) for packet in opener.release_packets()]
        return self._settle_verdicts([self._sample_packet(packet) for packet in released], now_ns)

    def set_range(self, permitted: Range, now_ns: int) -> None:
        """Set the user's range.

        The range applies at the receiver at once, independently of the server.
        """
        self._permitted = permitted
        self.exposure.set_level(self.level, permitted, now_ns)

    # --- datagrams ---------------------------------------------------------------------------

    def process_datagram(self, datagram: bytes, now_ns: int, dropped: int = 0,
                         arrived_ns: int | None = None) -> list[Effect]:
        """Process a datagram of the data plane.

        Args:
            datagram: The datagram, complete.
            now_ns: Time at which processing starts.
            dropped: The kernel's drop count that came with the datagram.
            arrived_ns: Time at which the kernel received the datagram (default: `now_ns`).

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
        """Perform what is due: give up bundles that have waited too long."""
        self.exposure.advance(now_ns)
        return self._settle_verdicts([verdict for opener in self._epochs.all_openers()
                                      for verdict in opener.tick(now_ns)], now_ns)

    def deadline_ns(self) -> int | None:
        """Return the time at which `tick` is due next."""
        times = [opener.deadline_ns() for opener in self._epochs.all_openers()]
        return min((time for time in times if time is not None), default=None)

    def finish_stream(self, end: int, now_ns: int) -> list[Effect]:
        """Finish the stream, whose sequence numbers are below `end`.

        Held packets cannot be completed any more and are given up.
        """
        self.account.arrivals.count_missing(end)
        self.exposure.advance(now_ns)
        return self._settle_verdicts([verdict for opener in self._epochs.all_openers()
                                      if isinstance(opener, DelayedOpener | TeslaOpener)
                                      for verdict in opener.give_up()], now_ns)

    def to_dict(self) -> dict[str, Any]:
        """Return the statistics and the exposure as values for JSON.

        The result contains the secret of the choice.
        """
        exposure = self.exposure
        return {**self.account.to_dict(self.waiting), "exposure_s": exposure.total_ns / 1e9,
                "longest_exposure_s": exposure.longest_ns / 1e9,
                "below_floor_s": exposure.below_floor_ns / 1e9,
                # With the secret, a reader can recompute the choice. It is reported when the stream
                # is over, to the user of the stream.
                "choice_secret": self._secret.hex()}

    def build_report(self, stream: int, number: int) -> ReceiverReport:
        """Return the report with this number for the server."""
        account, arrivals = self.account, self.account.arrivals
        return ReceiverReport(
            stream, number, arrivals.end, account.processing, account.processed,
            account.fates[Fate.VERIFIED], arrivals.rejected, arrivals.buffer, arrivals.air,
            self.waiting, account.holes, account.lag_ns, int(self.took.verify_ns),
            int(self.took.handle_ns), round(account.level * STEPS))

    def _dispatch_datagram(self, datagram: bytes, now_ns: int, arrived_ns: int) -> list[Verdict]:
        kind = kind_of(datagram)
        if kind is Kind.DATA:
            packet = parse_data(datagram)
            if packet.stream == self._terms.stream:
                return self._judge_packet(packet, now_ns, arrived_ns)
        elif kind is Kind.BUNDLE:
            bundle = parse_bundle(datagram)
            opener = self._find_opener(bundle.stream, bundle.epoch, Scheme.DELAYED)
            if isinstance(opener, DelayedOpener):
                return opener.add_signature(bundle, now_ns)
        else:
            disclosed = parse_disclose(datagram)
            opener = self._find_opener(disclosed.stream, disclosed.epoch, Scheme.TESLA)
            if isinstance(opener, TeslaOpener):
                return opener.process_disclosure(disclosed, arrived_ns)
        self.account.stray += 1
        return []

    def _find_opener(self, stream: int, number: int, scheme: Scheme) -> object:
        epoch = self._epochs[number]
        return epoch.openers.get(scheme) if epoch and stream == self._terms.stream else None

    # --- verdicts ----------------------------------------------------------------------------

    def _judge_packet(self, packet: Data, now_ns: int, arrived_ns: int) -> list[Verdict]:
        arrivals = self.account.arrivals
        if not arrivals.is_new(packet.sequence):
            return []
        if not self._epochs.is_in_epoch(packet):
            return [(packet, Fate.REFUSED)]
        epoch = self._epochs[packet.epoch]
        is_known = epoch is not None and epoch.setting is not None
        # A packet that would move the window far or start an epoch is accepted only when verified.
        must = not is_known or arrivals.is_far(packet.sequence) or (
            epoch is not None and epoch.first is None)
        place = (packet.stream, packet.sequence)
        if not must and choice.is_chosen(self._secret, b"shed", place, self.setting.shed):
            arrivals.accept(packet.sequence)
            return [(packet, Fate.SHED)]
        if packet.scheme is Scheme.TESLA and arrivals.is_far(packet.sequence):
            if packet.sequence in self._far:
                arrivals.duplicates += 1
                return []
            self._far.add(packet.sequence)
            return self._open_packet(packet, now_ns, arrived_ns, must_verify=must)
        verdicts = self._open_packet(packet, now_ns, arrived_ns, must_verify=must)
        if (packet, Fate.FAILED) not in verdicts:
            arrivals.accept(packet.sequence)
        return verdicts

    def _confirm_fate(self, packet: Data, fate: Fate) -> Fate:
        """Return the fate of a packet, corrected for packets from far ahead.

        Such a packet is accepted only when it was verified. Otherwise it leaves no trace.
        """
        if packet.sequence not in self._far:
            return fate
        self._far.discard(packet.sequence)
        if fate is Fate.VERIFIED:
            self.account.arrivals.accept(packet.sequence)
            return fate
        return fate if fate is Fate.FAILED else Fate.REFUSED

    def _open_packet(self, packet: Data, now_ns: int, arrived_ns: int, *,
                     must_verify: bool) -> list[Verdict]:
        opener = self._epochs.find_opener(packet)
        is_lagging = self.setting.scheme is Scheme.PERCENTAGE and (
            packet.epoch <= self.newest_epoch)
        if isinstance(opener, DelayedOpener):
            if is_lagging:
                return [self._sample_packet(packet, must_verify=must_verify)]
            if self.account.arrivals.is_far(packet.sequence) and not (
                    self._verifier.is_authentic(packet)):
                return [(packet, Fate.FAILED)]
            return opener.open_packet(packet, now_ns)
        if opener is not None:
            return opener.open_packet(packet, arrived_ns)
        return [self._sample_packet(packet, must_verify=must_verify)]

    def _sample_packet(self, packet: Data, *, must_verify: bool = False) -> Verdict:
        """Verify a packet if it is chosen or `must_verify` is set (scheme percentage)."""
        place = (packet.stream, packet.sequence)
        if must_verify or choice.is_chosen(self._secret, b"verify", place, self._level_of(packet)):
            is_right = self._verifier.is_authentic(packet)
            return packet, Fate.VERIFIED if is_right else Fate.FAILED
        return packet, Fate.UNVERIFIED

    def _level_of(self, packet: Data) -> float:
        """Return the level at which a packet is verified.

        That is the newest level. While the newest setting has another scheme, it is the level of
        the packet's own epoch.
        """
        epoch = self._epochs[packet.epoch]
        setting = self.setting
        if setting.scheme is not Scheme.PERCENTAGE and epoch is not None and epoch.setting:
            setting = epoch.setting
        return self._permitted.clamp(setting.level)

    def _settle_verdicts(self, verdicts: list[Verdict], now_ns: int) -> list[Effect]:
        effects: list[Effect] = []
        for packet, judged in verdicts:
            fate = self._confirm_fate(packet, judged)
            is_first = fate is Fate.VERIFIED and self._epochs.confirm_packet(packet)
            if is_first and packet.scheme is not Scheme.PERCENTAGE:
                self.account.begin_level()
            hole = self.account.record_fate(packet, fate, now_ns)
            if hole:
                effects.append(Note("hole", {"before": packet.sequence, "missing": hole}))
            if is_first:
                effects.append(Note("epoch", {
                    "epoch": packet.epoch, "sequence": packet.sequence,
                    "scheme": packet.scheme.name.lower(),
                    "algorithm": packet.algorithm.name.lower()}))
            if fate.is_processed:
                effects.append(Deliver(packet.stream, packet.sequence, packet.payload, packet.frame,
                                       packet.flags, packet.sent_ns, fate is Fate.VERIFIED))
            else:
                effects.append(Lose(packet.stream, packet.sequence, fate))
        return effects
