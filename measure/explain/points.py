"""Merge captures of several points of a network: align their clocks, and join equal packets.

`qop explain` merges captures on the air and behind the access point in this way. `group_captures`
takes the packet times of each capture, and returns groups of captures with packets in common. Each
capture has the offset of its clock. `merge_frames` then yields the frames of all captures in order
of time, with the earlier copy of each packet. A packet in two captures gives the offset of their
clocks plus the time on the way. Packets of both directions bound the offset from both sides.
"""

from __future__ import annotations

import heapq
import itertools
import statistics
import zlib
from bisect import bisect_right
from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from measure.capture import tshark
from measure.capture.stream import CaptureStream
from measure.explain import messages
from measure.explain.frames import BAD_CHECKSUMS, Frame, has_bad_checksum
from measure.packets import management_frames

_AIR_ENDS = "wlan.ta", "wlan.ra"
_KEY_FIELDS = ("wlan_rsna_eapol.keydes.nonce", "wlan_rsna_eapol.keydes.mic",
               "eapol.keydes.replay_counter", "eapol.keydes.key_iv")
_IKE_FIELDS = ("isakmp.ispi", "isakmp.messageid", "isakmp.exchangetype", "isakmp.flags",
               "isakmp.length")
_WIREGUARD_FIELDS = "wg.type", "wg.sender", "wg.receiver", "wg.counter", "wg.ephemeral"
#: Counters in 802.11 frames: the timestamp of beacons, and packet numbers of the ciphers. WEP's has
#: 24 bits only, and comes again.
_COUNTERS = "wlan.fixed.timestamp", "wlan.ccmp.extiv", "wlan.tkip.extiv"
#: Fields by which a packet is known in another capture.
FIELDS = (
    "frame.time_epoch", "wlan.fc.type_subtype", *_AIR_ENDS, "wlan.seq", "wlan.fc.retry",
    "wlan.wep.iv", *_COUNTERS, "eth.src", "eth.dst", "eap.code", "eap.id", "eap.len", "eap.type",
    *_KEY_FIELDS, "radius.code", "radius.id", "radius.authenticator", "dhcp.id",
    "dhcp.option.dhcp", "arp.opcode", "arp.src.proto_ipv4", "arp.dst.proto_ipv4", *_IKE_FIELDS,
    *_WIREGUARD_FIELDS, "mip.type", "mip.ident", "ip.src", "ip.dst", "ip.id", "ip.len", "ip.ttl",
    "ip.proto", "icmp.type", "esp.spi", "esp.sequence", "tls.handshake.random", "eap.md5.value",
    *BAD_CHECKSUMS)
#: ICMP errors, which repeat the head of another packet.
_ICMP_ERRORS = frozenset({"3", "4", "5", "11", "12"})
#: Identifiers that are kept of a capture. Beyond, each capture keeps a sample, of the same packets.
_MOST_IDENTIFIERS = 50_000


# --- Packets by content ---

LIKELY, POSSIBLE, RANDOM = range(3)


class PacketIdentifier(NamedTuple):
    """An identifier that a packet has in each capture of it.

    - `content`: values that stay the same on its way
    - `path`: the two ends between which it travels
    - `is_forward`: its direction; None on the air, where each capture has it at the same moment
    - `strength`: whether another packet may have the same content: `LIKELY`, `POSSIBLE` or `RANDOM`
      (no other packet, because a random number or a counter is part of it)
    """

    content: Hashable
    path: Hashable
    is_forward: bool | None
    strength: int = 2


def find_identifiers(columns: Mapping[str, str]) -> Iterator[PacketIdentifier]:
    """Yield the identifiers of a packet. The first one is that of its signalling message."""
    for list_identifiers in (_eapol_identifiers, _radius_identifiers, _upper_identifiers,
                             _air_identifiers, _eap_identifiers):
        yield from list_identifiers(columns)
    yield from _ip_identifiers(columns)


def _first_values(columns: Mapping[str, str], *names: str) -> tuple[str, ...]:
    return tuple(tshark.first_value(columns.get(name, "")) for name in names)


def _is_air(columns: Mapping[str, str]) -> bool:
    return bool(columns.get("wlan.fc.type_subtype"))


def _eapol_identifiers(columns: Mapping[str, str]) -> Iterator[PacketIdentifier]:
    ends = _first_values(columns, *(_AIR_ENDS if _is_air(columns) else ("eth.src", "eth.dst")))
    key = _first_values(columns, *_KEY_FIELDS)
    if any(key):
        yield PacketIdentifier(("key", *ends, *key), ("802.1X", *sorted(ends)), ends[0] < ends[1])
    packet = _first_values(columns, "eap.code", "eap.id", "eap.len", "eap.type")
    if packet[0] and not columns.get("radius.code"):
        yield PacketIdentifier(("eapol", *ends, *packet), ("802.1X", *sorted(ends)),
                               ends[0] < ends[1], LIKELY)


def _eap_identifiers(columns: Mapping[str, str]) -> Iterator[PacketIdentifier]:
    """Yield identifiers of an EAP packet that are equal on the air and inside RADIUS."""
    packet = _first_values(columns, "eap.code", "eap.id", "eap.len", "eap.type")
    if not packet[0]:
        return
    is_response = packet[0] == str(messages.EAP_RESPONSE)
    for number in _first_values(columns, "tls.handshake.random", "eap.md5.value"):
        if number:
            yield PacketIdentifier(("number", number), "EAP", is_response)
    yield PacketIdentifier(("eap", *packet), "EAP", is_response, POSSIBLE)


def _radius_identifiers(columns: Mapping[str, str]) -> Iterator[PacketIdentifier]:
    content = _first_values(columns, "radius.code", "radius.id", "radius.authenticator")
    if content[0]:
        yield PacketIdentifier(("radius", *content), "RADIUS",
                               content[0] == str(messages.ACCESS_REQUEST))


def _upper_identifiers(columns: Mapping[str, str]) -> Iterator[PacketIdentifier]:
    source, target = _innermost_value(columns, "ip.src"), _innermost_value(columns, "ip.dst")
    path, is_forward = ("IP", *sorted((source, target))), source < target
    if columns.get("dhcp.id"):
        kind, number = _first_values(columns, "dhcp.option.dhcp", "dhcp.id")
        yield PacketIdentifier(("dhcp", kind, number), "DHCP",
                               kind not in messages.DHCP_OF_SERVER_TEXTS)
    if columns.get("arp.opcode"):
        ends = _first_values(columns, "arp.src.proto_ipv4", "arp.dst.proto_ipv4")
        yield PacketIdentifier(("arp", columns["arp.opcode"], *ends), ("ARP", *sorted(ends)),
                               ends[0] < ends[1], LIKELY)
    if columns.get("isakmp.ispi"):
        yield PacketIdentifier(("ike", *_first_values(columns, *_IKE_FIELDS), is_forward), path,
                               is_forward)
    if columns.get("wg.type"):
        yield PacketIdentifier(("wg", *_first_values(columns, *_WIREGUARD_FIELDS)), path,
                               is_forward)
    if columns.get("kerberos.msg_type"):
        yield from _ip_identifiers(columns)
    if columns.get("mip.ident"):
        (kind,) = _first_values(columns, "mip.type")
        yield PacketIdentifier(("mip", kind, columns["mip.ident"]), "Mobile IP",
                               kind == str(tshark.REGISTRATION_REQUEST))


def _air_identifiers(columns: Mapping[str, str]) -> Iterator[PacketIdentifier]:
    """Yield an identifier of an 802.11 frame that is equal in all captures of the air."""
    if not _is_air(columns):
        return
    subtype = tshark.parse_number(columns["wlan.fc.type_subtype"])
    content = ("frame", subtype, tshark.is_set(columns.get("wlan.fc.retry", "")),
               *_first_values(columns, *_AIR_ENDS, "wlan.seq", "wlan.wep.iv", *_COUNTERS))
    has_counter = any(columns.get(name) for name in _COUNTERS)
    yield PacketIdentifier(content, "air", None, RANDOM if has_counter else LIKELY)


def _innermost_value(columns: Mapping[str, str], name: str) -> str:
    """Return the field of the innermost IP header: that packet passes through tunnels."""
    return columns.get(name, "").rpartition(",")[2]


def _ip_identifiers(columns: Mapping[str, str]) -> Iterator[PacketIdentifier]:
    if not columns.get("ip.src") or _ICMP_ERRORS & set(columns.get("icmp.type", "").split(",")):
        return
    source, target, number, size, protocol = (_innermost_value(columns, name) for name in (
        "ip.src", "ip.dst", "ip.id", "ip.len", "ip.proto"))
    path, is_forward = ("IP", *sorted((source, target))), source < target
    if columns.get("esp.spi"):
        yield PacketIdentifier(("esp", columns["esp.spi"], columns.get("esp.sequence", "")),
                               path, is_forward)
    elif number.strip("0x"):
        content = "ip", source, target, number, size, protocol
        yield PacketIdentifier(content, path, is_forward)
        # A packet that passes a point twice, before and after a router, has two TTLs.
        yield PacketIdentifier((*content, _innermost_value(columns, "ip.ttl")), path, is_forward)


# --- Packets of a capture ---

@dataclass
class PacketTimes:
    """The times in s at which a capture has packets, by their identifiers.

    An identifier that comes twice has the time None. Of many packets a sample is kept, which is
    chosen by content, so that two captures keep the same packets.
    """

    times_s: dict[PacketIdentifier, float | None] = field(default_factory=dict)
    _kept_of: int = 1

    def add_packet(self, columns: Mapping[str, str]) -> None:
        """Add a packet by its columns."""
        try:
            time_s = float(columns["frame.time_epoch"])
        except ValueError:
            return
        for identifier in find_identifiers(columns):
            if identifier.strength != LIKELY and self._is_kept(identifier):
                self.times_s[identifier] = None if identifier in self.times_s else time_s
        if len(self.times_s) > _MOST_IDENTIFIERS:
            self._kept_of *= 2
            self.times_s = {identifier: time_s for identifier, time_s in self.times_s.items()
                            if self._is_kept(identifier)}

    def _is_kept(self, identifier: PacketIdentifier) -> bool:
        return self._kept_of == 1 or (
            zlib.crc32(repr(identifier.content).encode()) % self._kept_of == 0)


def read_packet_times(capture: Path, keys: Sequence[str] = (),
                      key_files: Mapping[str, Path | bytes] | None = None,
                      report: Callable[[float], None] | None = None) -> PacketTimes:
    """Read which packets a capture has. The arguments are as for `frames.read_frames`.

    Raises:
        MeasureError: tshark is missing, or cannot read the file.
    """
    found = PacketTimes()
    for columns in CaptureStream(capture, FIELDS, keys, key_files or {},
                                 report=report).read_columns():
        if not has_bad_checksum(columns):
            found.add_packet(columns)
    return found


# --- The clocks ---

@dataclass(frozen=True)
class Clock:
    """A capture's clock compared with that of another capture, the reference.

    - `own_s`, `reference_s`: one moment by both clocks, in s since 1970
    - `drift`: how much faster the capture's clock is, such as 40e-6 for 40 ppm
    - `uncertainty_s`: largest error of the offset, None with packets of one direction only
    - `packets`: number of packets in both captures, 0 if the clock is known without any
    """

    own_s: float = 0.0
    reference_s: float = 0.0
    drift: float = 0.0
    uncertainty_s: float | None = 0.0
    packets: int = 0

    @property
    def offset_s(self) -> float:
        """Return by how many s the capture's clock was ahead."""
        return self.own_s - self.reference_s

    def to_reference(self, time_s: float) -> float:
        """Return the reference's time at a time of the capture."""
        return self.reference_s + (time_s - self.own_s) / (1 + self.drift)

    def compose_with(self, outer: Clock) -> Clock:
        """Return this clock compared with the reference of its reference."""
        uncertainty_s = (None if self.uncertainty_s is None or outer.uncertainty_s is None
                         else self.uncertainty_s + outer.uncertainty_s)
        return Clock(self.own_s, outer.to_reference(self.reference_s),
                     (1 + self.drift) * (1 + outer.drift) - 1, uncertainty_s, self.packets)

    def invert_direction(self) -> Clock:
        """Return the reference's clock compared with this one."""
        return Clock(self.reference_s, self.own_s, 1 / (1 + self.drift) - 1, self.uncertainty_s,
                     self.packets)


class Match(NamedTuple):
    """A packet in two captures: both times in s, and the end of its identifier."""

    reference_s: float
    own_s: float
    path: Hashable
    is_forward: bool | None
    strength: int = RANDOM

    @property
    def difference_s(self) -> float:
        """Return the time at the capture minus the time at the reference."""
        return self.own_s - self.reference_s


#: Fewest packets in both captures that give a clock, with a random packet among them and without.
_FEWEST_MATCHES, _FEWEST_POSSIBLE = 3, 6
#: Longest time from one point to the other, in s, and largest drift of a clock.
_LONGEST_WAY_S, _LARGEST_DRIFT = 1.0, 200e-6
#: Usual drift between two machines' clocks.
_USUAL_DRIFT = 30e-6
_OUTLIER = 4.0
#: Least uncertainty of frames that both captures have at the same moment, in s.
_INSTANT_S = 1e-4


def find_matches(reference: PacketTimes, capture: PacketTimes) -> list[Match]:
    """Return the packets that two captures have once each, in order of time."""
    found = []
    for identifier in min(reference.times_s, capture.times_s, key=len):
        reference_s, own_s = (each.times_s.get(identifier) for each in (reference, capture))
        if reference_s is not None and own_s is not None:
            found.append(Match(reference_s, own_s, *identifier[1:]))
    return sorted(set(found), key=lambda match: match.reference_s)


def estimate_clock(matches: Sequence[Match]) -> Clock | None:
    """Estimate a capture's clock from packets in both captures, None if no clock fits them.

    Packets whose difference is far from that of most packets are left out: their identifiers are
    equal by chance.
    """
    agreeing = _largest_agreeing(matches)
    count = count_packets(agreeing)
    has_random = any(match.strength == RANDOM for match in agreeing)
    if count < max(_FEWEST_MATCHES if has_random else _FEWEST_POSSIBLE, count_packets(matches) / 2):
        return None
    center_s = statistics.fmean(match.reference_s for match in agreeing)
    drift = _estimate_drift(agreeing, center_s)
    straight = [match._replace(own_s=match.own_s - drift * (match.reference_s - center_s))
                for match in agreeing]
    offset_s, uncertainty_s = _bound_offset(straight)
    return Clock(center_s + offset_s, center_s, drift, uncertainty_s, count)


def count_packets(matches: Iterable[Match]) -> int:
    """Return the number of packets, of which each may have several matches."""
    return len({(match.reference_s, match.own_s) for match in matches})


def _largest_agreeing(matches: Sequence[Match]) -> list[Match]:
    """Return the most matches whose differences are within one window."""
    if not matches:
        return []
    window_s = _LONGEST_WAY_S + _LARGEST_DRIFT * (
        matches[-1].reference_s - matches[0].reference_s)
    ordered = sorted(matches, key=lambda match: match.difference_s)
    differences = [match.difference_s for match in ordered]
    begin, end = max(((place, bisect_right(differences, first_s + window_s))
                      for place, first_s in enumerate(differences)),
                     key=lambda span: span[1] - span[0])
    return ordered[begin:end]


def _by_direction(matches: Iterable[Match]) -> dict[Hashable, list[Match]]:
    groups: dict[Hashable, list[Match]] = defaultdict(list)
    for match in matches:
        groups[match.path, match.is_forward].append(match)
    return groups


def _estimate_drift(matches: Sequence[Match], center_s: float) -> float:
    """Estimate the drift by least squares, with one offset for each direction of a path.

    The estimate is drawn towards 0 as far as the scatter allows for a usual drift.
    """
    kept, drift = list(matches), 0.0
    for _ in range(3):
        points = [(match.reference_s - center_s - time_s, match.difference_s - difference_s)
                  for group in _by_direction(kept).values()
                  for time_s, difference_s in [(
                      statistics.fmean(m.reference_s for m in group) - center_s,
                      statistics.fmean(m.difference_s for m in group))]
                  for match in group]
        residuals = [y - drift * x for x, y in points]
        variance = max(statistics.fmean(r * r for r in residuals), _INSTANT_S**2)
        spread = sum(x * x for x, _ in points)
        drift = sum(x * y for x, y in points) / (spread + variance / _USUAL_DRIFT**2)
        kept = list(_without_outliers(kept, drift, center_s))
    return max(-_LARGEST_DRIFT, min(drift, _LARGEST_DRIFT))


def _without_outliers(matches: Sequence[Match], drift: float, center_s: float) -> Iterator[Match]:
    for group in _by_direction(matches).values():
        rest = [m.difference_s - drift * (m.reference_s - center_s) for m in group]
        middle = statistics.median(rest)
        scatter = statistics.median(abs(r - middle) for r in rest) or _INSTANT_S
        yield from (m for m, r in zip(group, rest, strict=True)
                    if abs(r - middle) <= _OUTLIER * scatter)


def _bound_offset(matches: Sequence[Match]) -> tuple[float, float | None]:
    """Return the offset in s that packets of both directions allow, and its uncertainty."""
    instant = [match.difference_s for match in matches if match.is_forward is None]
    if len(instant) >= _FEWEST_MATCHES:
        return statistics.median(instant), _INSTANT_S
    upper, lower = [], []
    groups = _by_direction(matches)
    for path in {match.path for match in matches}:
        there, back = ([m.difference_s for m in groups.get((path, way), ())]
                       for way in (True, False))
        if not there or not back:
            continue
        if statistics.median(there) < statistics.median(back):
            there, back = back, there
        upper.append(min(there))
        lower.append(max(back))
    if not upper:
        return statistics.median(m.difference_s for m in matches), None
    low_s, high_s = max(lower), min(upper)
    return (low_s + high_s) / 2, max(abs(high_s - low_s) / 2, _INSTANT_S)


# --- Captures of the same events ---

@dataclass(frozen=True)
class Group:
    """Captures of the same events, each with its clock compared with that of the first capture."""

    clocks: Mapping[str, Clock]


def group_captures(packets: Mapping[str, PacketTimes]) -> tuple[list[Group], list[str]]:
    """Group captures that have packets in common.

    Args:
        packets: The packets of each capture, by its name.

    Returns:
        The groups in the order of their first captures, and why captures are in no group with
        others, a line each.
    """
    names, links = list(packets), {}
    common = {}
    for first, second in itertools.combinations(names, 2):
        matches = find_matches(packets[first], packets[second])
        common[first, second] = common[second, first] = count_packets(matches)
        clock = estimate_clock(matches)
        if clock:
            links[first, second], links[second, first] = clock.invert_direction(), clock
    groups: list[Group] = []
    for name in names:
        if not any(name in group.clocks for group in groups):
            groups.append(Group(_chain_clocks(name, names, links)))
    alone = [next(iter(group.clocks)) for group in groups if len(group.clocks) == 1]
    if len(alone) == len(names):
        del alone[:1]
    return groups, [_describe_alone(name, names, common) for name in alone]


def _chain_clocks(first: str, names: Sequence[str],
                  links: Mapping[tuple[str, str], Clock]) -> dict[str, Clock]:
    """Return the clocks of all captures that are linked to the first one, by the surest links."""
    clocks: dict[str, Clock] = {}
    waiting = [(0.0, 0, first, Clock())]
    order = itertools.count(1)
    while waiting:
        cost, _, name, clock = heapq.heappop(waiting)
        if name in clocks:
            continue
        clocks[name] = clock
        for other in names:
            link = links.get((other, name))
            if link and other not in clocks:
                more = _LONGEST_WAY_S if link.uncertainty_s is None else link.uncertainty_s
                heapq.heappush(waiting, (cost + more, next(order), other, link.compose_with(clock)))
    return {name: clocks[name] for name in names if name in clocks}


def _describe_alone(name: str, names: Sequence[str],
                    common: Mapping[tuple[str, str], int]) -> str:
    other = max((other for other in names if other != name), key=lambda other: common[name, other])
    count = common[name, other]
    if not count:
        return f"{name}: no packet of it is in another capture; it is explained by itself"
    return (f"{name}: {count} packet{'s' * (count != 1)} of it may be in {other}, too, but no "
            "offset of the clocks fits them; it is explained by itself")


# --- Frames of several captures, in order of time ---

@dataclass
class KnownPackets:
    """The newest packets of merged captures, by which a packet's further captures are found."""

    _frames: dict[Hashable, list[Frame]] = field(default_factory=lambda: defaultdict(list))
    _order: deque[tuple[float, Hashable]] = field(default_factory=deque)

    def find_earlier(self, frame: Frame) -> Frame | None:
        """Return the frame of another capture that has the same packet, and note this frame.

        A packet that was sent again belongs to the frame that is next in time.
        """
        identifier = next(find_identifiers(frame.columns), None)
        if identifier is None or (identifier.path == "air"
                                  and frame.packet.subtype == management_frames.BEACON):
            return None
        self._forget_before(frame.time_s - 2 * _LONGEST_WAY_S)
        known = self._frames[identifier.content]
        for earlier in reversed(known):
            captures = {each.reference.capture for each in (earlier, *earlier.later)}
            if frame.reference.capture not in captures:
                return earlier
        known.append(frame)
        self._order.append((frame.time_s, identifier.content))
        return None

    def _forget_before(self, time_s: float) -> None:
        while self._order and (self._order[0][0] < time_s or len(self._order) > _MOST_IDENTIFIERS):
            _, content = self._order.popleft()
            known = self._frames[content]
            known.pop(0)
            if not known:
                del self._frames[content]


def merge_frames(streams: Sequence[tuple[Clock, Iterator[Frame]]]
                 ) -> Iterator[tuple[Frame, Frame | None]]:
    """Yield the frames of captures of the same events in order of time, by one clock.

    With each frame comes the earlier frame of another capture that has the same packet, or None.
    """
    if len(streams) == 1:
        yield from ((frame, None) for frame in streams[0][1])
        return
    known = KnownPackets()
    for frame in heapq.merge(*(_correct_times(clock, frames) for clock, frames in streams),
                             key=lambda frame: frame.time_s):
        yield frame, known.find_earlier(frame)


def _correct_times(clock: Clock, frames: Iterator[Frame]) -> Iterator[Frame]:
    for frame in frames:
        frame.packet.time_s = clock.to_reference(frame.packet.time_s)
        yield frame
