"""Check by captured packets that a stream was authentic, and verified as reported.

In one measurement (repetition), a server streams signed video to its clients. `run_checks` takes
the streams as captures and logs show them. It returns the checks: a statement, whether it holds,
and details. `CellRequirements` says what is required for the way to authenticate packets
(heuristic) and the disturbance of the stream (load). `studies.authenticast1998` lists the terms.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from scipy import stats

from measure.records.record import CheckRecord
from studies.authenticast1998 import verification
from studies.authenticast1998.cells import Disturbance, Heuristic
from studies.authenticast1998.verification import WireDatagram

if TYPE_CHECKING:
    from studies.authenticast1998.judge import ClientStream

#: Confidence of the exact binomial interval that a share has to lie in. One correct repetition in a
#: thousand may fail.
CONFIDENCE = 0.999
_MESSAGES = {verification.REPORT, verification.CONTROL, verification.ACK, verification.HELLO,
             verification.BYE}


@dataclass(frozen=True)
class CellRequirements:
    """Requirements of a stream, which the checks test.

    They follow from the heuristic (the way to authenticate packets) and from the load.

    - `level`: fraction of packets that is verified, None if a controller decides
    - `is_tampered`: packets are altered on purpose
    - `is_signed`: packets have signatures until the end, which are not replaced by MACs
    - `is_flooded`: forged packets are added
    """

    level: float | None
    is_tampered: bool
    is_signed: bool
    is_flooded: bool = False

    @classmethod
    def from_levels(cls, heuristic: Heuristic, load: Disturbance) -> CellRequirements:
        """Return what the checks require of a stream with this heuristic under this load.

        A load is a level of the factor `load`: work, losses or attacks that disturb the stream.
        """
        wish = heuristic.wish
        level = None if wish.get("automatic") else \
            wish["level"] / 100 if wish["scheme"] == "percentage" else 1.0
        return cls(level, load.tampered_one_in > 0, wish["scheme"] != "secret-key",
                   load.flooded_one_in > 0)


def run_checks(streams: Sequence[ClientStream], heads: Sequence[WireDatagram],
               addresses: Mapping[str, str],
               expected: CellRequirements) -> list[CheckRecord]:
    """Check one repetition.

    Args:
        streams: what is known about each client's stream.
        heads: datagrams captured at the server, with their first bytes.
        addresses: IP address of each client, by name.
        expected: what the checks require of the streams of this cell.

    Returns:
        All checks, whether they hold or not.
    """
    checks = [_check_handshakes(streams), _check_signatures(streams, expected),
            _check_algorithms(streams), _check_no_duplicates(streams),
            _check_messages(streams, heads, addresses), _check_range(streams),
            _check_accounts(streams)]
    # A user who turned a dial changed the cell's setting, so its level no longer holds.
    is_as_asked = _count_turns(streams) == 0
    if not expected.is_signed and is_as_asked:
        checks.append(_check_secret_key(streams))
    if expected.is_flooded:
        checks.append(_check_forged_packets(streams))
    if expected.is_tampered and expected.level is not None and is_as_asked:
        checks.append(_check_level(streams, expected.level))
    return checks


def _check_handshakes(streams: Sequence[ClientStream]) -> CheckRecord:
    complaints = Counter(errors for one in streams for errors in one.verified.complaints)
    without = [one.name for one in streams if len(one.verified.sessions) != 1]
    errors = [f"{count} times {what}" for what, count in complaints.items()]
    errors += [f"{name} has not one session" for name in without]
    return CheckRecord(check="messages are signed", ok=not errors, detail="; ".join(errors) or (
        f"{len(streams)} handshakes and every change of setting, by the run's keys"))


def _check_signatures(streams: Sequence[ClientStream], expected: CellRequirements) -> CheckRecord:
    """Check that all data packets verify, except those that were altered on purpose."""
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


def _check_algorithms(streams: Sequence[ClientStream]) -> CheckRecord:
    unlike = sum(len(one.verified.unlike) for one in streams)
    kinds = {(epoch.scheme, epoch.algorithm) for one in streams
             for session in one.verified.sessions.values() for epoch in session.epochs.values()}
    return CheckRecord(
        check="algorithm as announced", ok=unlike == 0 and bool(kinds),
        detail=f"{unlike} packets of another scheme or algorithm than the server has signed for "
        f"their epoch; {len(kinds)} announced")


def _check_no_duplicates(streams: Sequence[ClientStream]) -> CheckRecord:
    repeated = sum(one.repeated for one in streams)
    return CheckRecord(check="no packet arrives twice", ok=repeated == 0,
                       detail=f"{repeated} data packets arrived more than once")


def _check_messages(streams: Sequence[ClientStream], heads: Sequence[WireDatagram],
                    addresses: Mapping[str, str]) -> CheckRecord:
    """Check that each message that reached the server was sent by a client, byte by byte."""
    at_server = Counter((datagram.source, datagram.payload[:verification.COMMON_BYTES])
                        for datagram in heads if datagram.kind in _MESSAGES
                        and datagram.target == addresses["server"])
    sent = Counter((datagram.source, datagram.payload[:verification.COMMON_BYTES])
                   for one in streams for datagram in one.whole if datagram.kind in _MESSAGES
                   and datagram.target == addresses["server"])
    strange = (at_server - sent).total()
    return CheckRecord(check="control messages come from the clients",
                       ok=strange == 0 and sent.total() > 0,
                       detail=f"{at_server.total()} messages reached the server, {strange} of "
                       "which no client has sent")


def _check_range(streams: Sequence[ClientStream]) -> CheckRecord:
    """Check that the verified fraction never left the range that the user permits."""
    outside = [f"{epoch.level:.0%}" for one in streams for session in one.verified.sessions.values()
               for epoch in session.epochs.values() if epoch.scheme == verification.PERCENTAGE
               and not _is_within(epoch.level, session.ranges.get(epoch.answers))]
    below_s = sum(float(one.account["below_floor_s"]) for one in streams if one.account)
    epochs = sum(len(session.epochs) for one in streams for session
                 in one.verified.sessions.values())
    turns = _count_turns(streams)
    return CheckRecord(check="level in the user's range", ok=not outside and below_s == 0,
                       detail=f"{epochs} settings, {len(outside)} outside; {below_s:g} s below"
                       + (f"; the range was set {turns} times more" if turns else ""))


def _is_within(level: float, permitted: tuple[float, float] | None) -> bool:
    """Return whether a verified fraction is within the range that the client signed last."""
    return permitted is not None and permitted[0] <= level <= permitted[1]


def _count_turns(streams: Sequence[ClientStream]) -> int:
    """Count the signed requests by which users changed the permitted fractions to verify."""
    return sum(len(session.ranges) - 1 for one in streams
               for session in one.verified.sessions.values())


def _check_accounts(streams: Sequence[ClientStream]) -> CheckRecord:
    wrong = [text for one in streams for text in _find_contradictions(one)]
    lost = sum(sum(one.losses.values()) for one in streams)
    return CheckRecord(
        check="every packet is accounted for", ok=not wrong,
        detail="; ".join(wrong) or f"{sum(len(one.sent) for one in streams)} sent = "
        f"{sum(len(one.processed_rows) for one in streams)} processed + {lost} lost, by cause")


def _find_contradictions(one: ClientStream) -> list[str]:
    """List contradictions between packet counts of receiver, captures, application and kernel."""
    if one.account is None:
        return [f"{one.name} has no account"]
    lost = one.losses
    processed = len({row.place for row in one.processed_rows})
    sides = {
        "sent, by the server's capture": (len(one.sent) - len(one.left_packets),
                                          one.account["sent"]),
        "the sum": (len(one.sent), processed + one.account["waiting"] + sum(lost.values())),
        "processed, by the application": (processed, one.account["processed"])}
    wrong = [f"{one.name}: {what} is {first}, the account says {second}"
             for what, (first, second) in sides.items() if first != second]
    # The kernel counts dropped bundle signatures, too, so its count may only be higher.
    if not 0 <= lost["buffer"] <= one.kernel_drops:
        wrong.append(f"{one.name}: {lost['buffer']} lost at the buffer, the kernel counts "
                     f"{one.kernel_drops}")
    return wrong


def _check_secret_key(streams: Sequence[ClientStream]) -> CheckRecord:
    """Check that packets have MACs and no signatures after the change to a secret key."""
    tagged = sum(len(one.verified.tagged) for one in streams)
    mixed = sum(1 for one in streams for place in one.verified.right
                if any(place < other for other in one.verified.tagged
                       if other[0] == place[0]) and place > min(one.verified.tagged))
    return CheckRecord(check="secret key is used", ok=tagged > 0 and mixed == 0,
                       detail=f"{tagged} packets with a tag, {mixed} signed ones after the first")


def _check_forged_packets(streams: Sequence[ClientStream]) -> CheckRecord:
    """Check that forged packets arrived and that the application got none of them."""
    made_up = sum(one.made_up for one in streams)
    processed = sum(row.place not in one.sent for one in streams for row in one.processed_rows)
    return CheckRecord(check="forged packets are not processed", ok=made_up > 0 and processed == 0,
                       detail=f"{made_up} forged packets arrived, {processed} were processed")


def _check_level(streams: Sequence[ClientStream], level: float) -> CheckRecord:
    """Check that altered packets pass unverified as often as the verified fraction permits.

    The receiver's own statement about the fraction is not used.
    """
    passed, settled = map(sum, zip(*(one.altered_and_settled() for one in streams), strict=True))
    if settled == 0:
        return CheckRecord(check="verified fraction matches the level", ok=False,
                           detail="no altered packet arrived")
    if level == 1:
        return CheckRecord(check="verified fraction matches the level", ok=passed == 0,
                           detail=f"{passed} of {settled} altered packets were processed")
    interval = stats.binomtest(passed, settled).proportion_ci(CONFIDENCE, "exact")
    return CheckRecord(
        check="verified fraction matches the level",
        ok=bool(interval.low <= 1 - level <= interval.high),
        detail=f"{passed} of {settled} altered packets were processed: {interval.low:.1%} to "
        f"{interval.high:.1%} hold the {1 - level:.0%} of a level of {level:.0%}")
