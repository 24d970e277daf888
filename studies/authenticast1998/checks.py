"""Checks of a repetition from packets: signatures, order, level and account."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from scipy import stats

from measure.record import CheckRecord
from studies.authenticast1998 import captures
from studies.authenticast1998.captures import WireDatagram
from studies.authenticast1998.factors import Disturbance, Heuristic

if TYPE_CHECKING:
    from studies.authenticast1998.judge import Seen

#: Confidence of the exact binomial interval that a share has to lie in. One correct repetition in a
#: thousand may fail.
CONFIDENCE = 0.999
_MESSAGES = {captures.REPORT, captures.CONTROL, captures.ACK, captures.HELLO, captures.BYE}


@dataclass(frozen=True)
class Expectation:
    """Requirements of a cell that the checks compare with.

    `level` is the share of packets that is verified, or None where a controller decides.
    `is_tampered`: packets are altered on purpose. `is_signed`: packets bear signatures until the
    end and are not replaced by message tags. `is_flooded`: forged packets are added.
    """

    level: float | None
    is_tampered: bool
    is_signed: bool
    is_flooded: bool = False

    @classmethod
    def from_levels(cls, heuristic: Heuristic, load: Disturbance) -> Expectation:
        """Return the expectation for the cell's heuristic and load."""
        wish = heuristic.wish
        level = None if wish.get("automatic") else \
            wish["level"] / 100 if wish["scheme"] == "percentage" else 1.0
        return cls(level, load.tampered_one_in > 0, wish["scheme"] != "secret-key",
                   load.flooded_one_in > 0)


def check_all(streams: Sequence[Seen], heads: Sequence[WireDatagram], addresses: Mapping[str, str],
              expected: Expectation) -> list[CheckRecord]:
    """Return all checks of a repetition."""
    made = [_check_handshakes(streams), _check_signatures(streams, expected),
            _check_algorithms(streams), _check_no_duplicates(streams),
            _check_messages(streams, heads, addresses), _check_range(streams),
            _check_accounts(streams)]
    # A user who turned a dial changed the cell's setting, so its level no longer holds.
    is_as_asked = _count_turns(streams) == 0
    if not expected.is_signed and is_as_asked:
        made.append(_check_secret_key(streams))
    if expected.is_flooded:
        made.append(_check_forged_packets(streams))
    if expected.is_tampered and expected.level is not None and is_as_asked:
        made.append(_check_level(streams, expected.level))
    return made


def _check_handshakes(streams: Sequence[Seen]) -> CheckRecord:
    complaints = Counter(said for one in streams for said in one.verified.complaints)
    without = [one.name for one in streams if len(one.verified.sessions) != 1]
    said = [f"{count} times {what}" for what, count in complaints.items()]
    said += [f"{name} has not one session" for name in without]
    return CheckRecord(check="messages are signed", ok=not said, detail="; ".join(said) or (
        f"{len(streams)} handshakes and every change of setting, by the run's keys"))


def _check_signatures(streams: Sequence[Seen], expected: Expectation) -> CheckRecord:
    right, wrong, altered = 0, 0, 0
    for one in streams:
        on_purpose = one.altered_packets if expected.is_tampered else set()
        right += len((one.verified.right | one.verified.tagged) - on_purpose)
        # A tag cannot be verified without its key. An altered packet must never verify.
        wrong += len(one.verified.wrong - on_purpose) + len(one.verified.right & on_purpose)
        altered += len(on_purpose)
        wrong += one.verified.bundles_wrong if not on_purpose else 0
    more = f", {altered} that were altered on purpose do not" if expected.is_tampered else ""
    return CheckRecord(
        check="every packet is authentic", ok=wrong == 0 and right > 0,
        detail=f"{right} data packets verify outside the machine, {wrong} do not{more}")


def _check_algorithms(streams: Sequence[Seen]) -> CheckRecord:
    unlike = sum(len(one.verified.unlike) for one in streams)
    kinds = {(epoch.scheme, epoch.algorithm) for one in streams
             for session in one.verified.sessions.values() for epoch in session.epochs.values()}
    return CheckRecord(
        check="algorithm as announced", ok=unlike == 0 and bool(kinds),
        detail=f"{unlike} packets of another scheme or algorithm than the server has signed for "
        f"their epoch; {len(kinds)} announced")


def _check_no_duplicates(streams: Sequence[Seen]) -> CheckRecord:
    repeated = sum(one.repeated for one in streams)
    return CheckRecord(check="every packet once", ok=repeated == 0,
                       detail=f"{repeated} data packets arrived more than once")


def _check_messages(streams: Sequence[Seen], heads: Sequence[WireDatagram],
                    addresses: Mapping[str, str]) -> CheckRecord:
    """Check that each message that reached the server was sent by a client."""
    at_server = Counter((datagram.source, datagram.payload[:captures.COMMON_BYTES])
                        for datagram in heads if datagram.kind in _MESSAGES
                        and datagram.target == addresses["server"])
    sent = Counter((datagram.source, datagram.payload[:captures.COMMON_BYTES])
                   for one in streams for datagram in one.whole if datagram.kind in _MESSAGES
                   and datagram.target == addresses["server"])
    strange = (at_server - sent).total()
    return CheckRecord(check="messages are the clients'", ok=strange == 0 and sent.total() > 0,
                       detail=f"{at_server.total()} messages reached the server, {strange} of "
                       "which no client has sent")


def _check_range(streams: Sequence[Seen]) -> CheckRecord:
    outside = [f"{epoch.level:.0%}" for one in streams for session in one.verified.sessions.values()
               for epoch in session.epochs.values() if epoch.scheme == captures.PERCENTAGE
               and not _is_within(epoch.level, session.ranges.get(epoch.answers))]
    below_s = sum(float(one.account["below_floor_s"]) for one in streams if one.account)
    epochs = sum(len(session.epochs) for one in streams for session
                 in one.verified.sessions.values())
    turns = _count_turns(streams)
    return CheckRecord(check="level in the user's range", ok=not outside and below_s == 0,
                       detail=f"{epochs} settings, {len(outside)} outside; {below_s:g} s below"
                       + (f"; the range was set {turns} times more" if turns else ""))


def _is_within(level: float, permitted: tuple[float, float] | None) -> bool:
    """Return whether a level is in the range that the client signed last."""
    return permitted is not None and permitted[0] <= level <= permitted[1]


def _count_turns(streams: Sequence[Seen]) -> int:
    """Count the signed changes of the range (turns of the dial)."""
    return sum(len(session.ranges) - 1 for one in streams
               for session in one.verified.sessions.values())


def _check_accounts(streams: Sequence[Seen]) -> CheckRecord:
    wrong = [said for one in streams for said in _find_contradictions(one)]
    lost = sum(sum(one.losses.values()) for one in streams)
    return CheckRecord(
        check="every packet is accounted for", ok=not wrong,
        detail="; ".join(wrong) or f"{sum(len(one.sent) for one in streams)} sent = "
        f"{sum(len(one.processed_rows) for one in streams)} processed + {lost} lost, by cause")


def _find_contradictions(one: Seen) -> list[str]:
    """List contradictions between a client's account and captures, application and kernel."""
    if one.account is None:
        return [f"{one.name} has no account"]
    lost = one.losses
    processed = len({row.place for row in one.processed_rows})
    sides = {
        "sent, by the server's capture": (len(one.sent) - len(one.left_packets),
                                          one.account["sent"]),
        "the sum": (len(one.sent), processed + one.account["waiting"] + sum(lost.values())),
        "processed, by the application": (processed, one.account["processed"])}
    wrong = [f"{one.name}: {what} is {here}, the account says {there}"
             for what, (here, there) in sides.items() if here != there]
    # The kernel counts dropped bundle signatures, too, so its count may only be higher.
    if not 0 <= lost["buffer"] <= one.kernel_drops:
        wrong.append(f"{one.name}: {lost['buffer']} lost at the buffer, the kernel counts "
                     f"{one.kernel_drops}")
    return wrong


def _check_secret_key(streams: Sequence[Seen]) -> CheckRecord:
    """Check that after the change to a secret key packets have tags and no signatures."""
    tagged = sum(len(one.verified.tagged) for one in streams)
    mixed = sum(1 for one in streams for place in one.verified.right
                if any(place < other for other in one.verified.tagged
                       if other[0] == place[0]) and place > min(one.verified.tagged))
    return CheckRecord(check="secret key in force", ok=tagged > 0 and mixed == 0,
                       detail=f"{tagged} packets with a tag, {mixed} signed ones after the first")


def _check_forged_packets(streams: Sequence[Seen]) -> CheckRecord:
    """Check that forged packets arrived and that none of them was processed."""
    made_up = sum(one.made_up for one in streams)
    processed = sum(row.place not in one.sent for one in streams for row in one.processed_rows)
    return CheckRecord(check="nothing made up is processed", ok=made_up > 0 and processed == 0,
                       detail=f"{made_up} forged packets arrived, {processed} were processed")


def _check_level(streams: Sequence[Seen], level: float) -> CheckRecord:
    """Check that altered packets pass as often as the level allows.

    The receiver's own statement is not used.
    """
    passed, settled = map(sum, zip(*(one.altered_and_settled() for one in streams), strict=True))
    if settled == 0:
        return CheckRecord(check="level in force", ok=False, detail="no altered packet arrived")
    if level == 1:
        return CheckRecord(check="level in force", ok=passed == 0,
                           detail=f"{passed} of {settled} altered packets were processed")
    interval = stats.binomtest(passed, settled).proportion_ci(CONFIDENCE, "exact")
    return CheckRecord(
        check="level in force", ok=bool(interval.low <= 1 - level <= interval.high),
        detail=f"{passed} of {settled} altered packets were processed: {interval.low:.1%} to "
        f"{interval.high:.1%} hold the {1 - level:.0%} of a level of {level:.0%}")
