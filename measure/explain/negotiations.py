"""Group the messages of a capture into negotiations: each authentication and roam of a station.

`qop explain` describes a capture by them. A `Tracker` takes frame after frame (`feed_frame`). Its
method `take_ended` returns the negotiations that have ended, so that memory does not grow with the
capture. A `Negotiation` has the messages of one station with one access point, or of one exchange
such as IKE, DHCP or RADIUS. It also has the network's offer (`Network`), the scan, and counts of
data frames.
"""

from __future__ import annotations

import pickle
import zlib
from collections import Counter, defaultdict, deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from measure.capture import tshark
from measure.checks import layer_checks
from measure.explain import messages
from measure.explain.frames import DISORDER_S, Frame, FrameReference, is_group_address
from measure.explain.messages import (
    ACCESS_POINT,
    ASSOCIATION,
    EAP,
    FOUR_WAY,
    NETWORK,
    RADIUS,
    SERVER,
    STATION,
    Message,
)
from measure.packets import management_frames, wireguard

#: Kinds of negotiations.
WIRELESS, WIRED = "802.11", "802.1X on a wire"
_NEWEST = 10
_KINDS = {messages.DHCP: "DHCP", messages.KERBEROS: "Kerberos", messages.IKE: "IKE",
          messages.WIREGUARD: "WireGuard", messages.REGISTRATION: "Mobile IP", RADIUS: "RADIUS"}
#: Time without a message after which a further one begins a new negotiation, in s.
_PAUSE_S = 60.0
#: Time without a probe request after which a further one belongs to another scan, in s. A scan
#: of all passive channels of the 5 GHz band takes less.
_SCAN_PAUSE_S = 3.0
#: Limits of what is kept, against endless captures: of messages, stations, networks and requests.
_MOST_MESSAGES, _MOST_STATIONS, _MOST_NETWORKS, _MOST_REQUESTS = 4000, 20_000, 5000, 20_000
#: Frames after which messages that were not used since the last time are compressed. A message
#: takes 3 KB otherwise, until its station joins again.
_PACK_FRAMES = 5000
#: Time in s after which no other capture adds a frame to a message any more.
_MERGED_S = 10.0
#: Time in s in which a message on a wire is in the capture again if several interfaces or a mirror
#: port have it. No node sends a message again so soon.
COPY_S = 0.005
#: Statuses of authentication after which the station goes on: of SAE and of fast transition.
_CONTINUED = (*management_frames.SAE_STATUSES, 28, 52, 53, 54, 55)
#: Exchanges of IKE after which the negotiation goes on.
_IKE_BEGINNINGS = ("IKE_SA_INIT", "IKE_INTERMEDIATE", "IKEv1 main mode", "IKEv1 informational")


@dataclass(frozen=True, slots=True)
class Mark:
    """A moment in a capture: reference and time in s of a frame."""

    reference: FrameReference
    time_s: float

    @classmethod
    def from_frame(cls, frame: Frame) -> Mark:
        """Return the moment of a frame."""
        return cls(frame.reference, frame.time_s)


@dataclass
class DataFrames:
    """The 802.11 data frames of a station with one access point, counted."""

    first: Mark | None = None
    last: Mark | None = None
    count: int = 0
    retries: int = 0
    #: Frames by their cipher header, "" for frames in clear.
    ciphers: Counter[str] = field(default_factory=Counter)
    #: The newest frames, and whether each is a retry.
    newest: deque[tuple[Mark, bool]] = field(default_factory=lambda: deque(maxlen=_NEWEST))

    def count_frame(self, frame: Frame, cipher: str) -> None:
        """Count a data frame with its cipher header, "" for a frame in clear."""
        mark = Mark.from_frame(frame)
        self.first, self.last = self.first or mark, mark
        self.count += 1
        is_retry = frame.is_set("wlan.fc.retry")
        self.retries += is_retry
        self.newest.append((mark, is_retry))
        self.ciphers[cipher] += 1


def _cipher_header(frame: Frame) -> str:
    packet = frame.packet
    if not packet.protected:
        return ""
    if packet.wep_iv:
        return "WEP"
    if layer_checks.frame_counter("CCMP", packet) == packet.ccmp_iv and packet.ccmp_iv:
        return "CCMP or GCMP"
    return "TKIP" if packet.tkip_iv else "unknown"


@dataclass
class Network:
    """An access point's offer in beacons and probe responses.

    - `akms`: numbers of the AKM suites
    - `can_protect`, `requires_protection`: protected management frames (MFP capable, MFP required)
    - `mobility_domain`: mobility domain of fast transition, None without one
    - `load`, `load_from`: share of time in which the channel is in use, 0 to 1, and the frame that
      says so (BSS Load element); None without one
    """

    bssid: str
    ssid: str = ""
    akms: tuple[int, ...] = ()
    can_protect: bool = False
    requires_protection: bool = False
    mobility_domain: int | None = None
    load: float | None = None
    load_from: FrameReference | None = None


@dataclass
class ChannelUse:
    """Airtime on the channel of a negotiation, as far as its capture has frames with a rate.

    - `place`: capture and channel
    - `before_s`: airtime of all frames there before the negotiation
    - `own_s`, `others_s`: airtime of its own frames, and of others up to its newest message
    """

    place: tuple[str, str]
    before_s: float
    own_s: float = 0.0
    others_s: float = 0.0

    @property
    def channel_number(self) -> str:
        """Return the number of the channel, "" if it is unknown."""
        return self.place[1]


@dataclass
class Scan:
    """Probe requests of a station before it authenticates."""

    first: Mark
    last: Mark
    count: int = 0
    channels: set[str] = field(default_factory=set)


@dataclass
class Negotiation:
    """The messages of one authentication, roam or exchange of a station with a peer.

    An authentication or roam is on the air, and its peer is an access point. An exchange has
    another protocol, such as RADIUS, DHCP or IKE. The fields on the access point before a roam are
    empty for all other negotiations.
    """

    kind: str
    station: str
    peer: str
    ssid: str = ""
    #: Access point before a roam, "" without one.
    previous: str = ""
    #: Last data frame with that access point.
    data_before: Mark | None = None
    scan: Scan | None = None
    data: DataFrames = field(default_factory=DataFrames)
    network: Network | None = None
    previous_network: Network | None = None
    #: Last data frames with the access point before a roam, and whether each is a retry.
    retries_before: tuple[tuple[Mark, bool], ...] = ()
    #: None without a message on the air.
    channel_use: ChannelUse | None = None
    #: Frames in which the station says that it goes to sleep, the first one after each message.
    dozes: list[Mark] = field(default_factory=list)
    #: Time without a packet in a WireGuard tunnel before the handshake in s, None if not captured.
    idle_before_s: float | None = None
    #: Whether the station sent an encrypted Action frame shortly before, which cannot be read.
    has_hidden_action: bool = False
    #: Number of messages that are not kept, because there are too many.
    left_out: int = 0
    _messages: list[Message] = field(default_factory=list)
    _packed: bytes = b""
    _is_idle: bool = False
    _is_asleep: bool = False

    @property
    def messages(self) -> list[Message]:
        """Return the messages in order."""
        self._is_idle = False
        if self._packed:
            self._messages = pickle.loads(zlib.decompress(self._packed))  # noqa: S301 - own data
            self._packed = b""
        return self._messages

    def pack_messages(self, before_s: float | None) -> None:
        """Compress the messages if none was added or read since the last call of this method.

        Args:
            before_s: Time in s of the capture. Messages stay as they are if the last one is not
                earlier. None compresses them in any case.
        """
        if self._is_idle and self._messages and (
                before_s is None or self._messages[-1].time_s < before_s):
            self._packed = zlib.compress(pickle.dumps(self._messages), level=1)
            self._messages = []
        self._is_idle = True

    def add_message(self, message: Message) -> None:
        """Add a message, unless there are too many."""
        self._is_asleep = False
        if len(self.messages) < _MOST_MESSAGES:
            self.messages.append(message)
        else:
            self.left_out += 1

    def note_doze(self, frame: Frame) -> None:
        """Note a frame in which the station says that it goes to sleep."""
        if not self._is_asleep and len(self.dozes) < _MOST_MESSAGES:
            self.dozes.append(Mark.from_frame(frame))
        self._is_asleep = True

    @property
    def is_wireless(self) -> bool:
        """Return whether this is a negotiation on the air."""
        return self.kind == WIRELESS

    def of_phase(self, *phases: str) -> list[Message]:
        """Return the messages of some phases, such as EAP or the four-way handshake."""
        return [message for message in self.messages if message.phase in phases]

    @property
    def association_request(self) -> Message | None:
        """Return the first (re)association request of the station. None means there is none."""
        return next((each for each in self.of_phase(ASSOCIATION) if each.sender == STATION), None)

    @property
    def is_associated(self) -> bool:
        """Return whether the access point has accepted the station, or data shows so."""
        return bool(self.data.count or self.of_phase(EAP, FOUR_WAY)) or any(
            each.sender != STATION and each.frame.parse_management().status == 0
            for each in self.of_phase(ASSOCIATION))

    @property
    def is_fast(self) -> bool:
        """Return whether the station authenticated by fast transition or FILS."""
        return any(each.over_ds_target or each.frame.parse_management().algorithm in (
            management_frames.FAST_TRANSITION, *management_frames.FILS)
            for each in self.of_phase(messages.AUTHENTICATION))

    @property
    def is_complete(self) -> bool:
        """Return whether the negotiation has reached its end, successful or not.

        DHCP and other use of the link may follow.
        """
        sent = [m for m in self.messages if m.phase != "end"]
        last = next((m for m in reversed(sent) if m.phase in messages.JOINING),
                    sent[-1] if sent else None)
        return bool(self.messages) and (
            self.is_ended or (last is not None and _is_final(last)))

    @property
    def is_answered(self) -> bool:
        """Return whether one of the messages may be the last of a negotiation."""
        return any(map(_is_final, self.messages))

    @property
    def is_ended(self) -> bool:
        """Return whether the association has been ended."""
        return self.messages[-1].phase == "end" if self.messages else False


def _is_final(last: Message) -> bool:  # noqa: PLR0911 # a case for each phase
    """Return whether a message may be the last one of a negotiation."""
    packet = last.frame.packet
    match last.phase:
        case messages.FOUR_WAY:
            return last.frame.key_message in (4, None)
        case messages.GROUP_KEY:
            return True
        case messages.EAP:
            return packet.eap_code in (tshark.EAP_SUCCESS, tshark.EAP_FAILURE)
        case messages.RADIUS:
            return packet.radius_code in (messages.ACCESS_ACCEPT, messages.ACCESS_REJECT)
        case messages.ASSOCIATION:
            return last.frame.parse_management().is_response
        case messages.AUTHENTICATION:
            status = last.frame.parse_management().status
            return last.sender != STATION and bool(status) and status not in _CONTINUED
        case messages.DHCP:
            return last.frame.get_number("dhcp.option.dhcp") in (5, 6)
        case messages.WIREGUARD | messages.KERBEROS | messages.REGISTRATION:
            return last.sender == SERVER
        case messages.IKE:
            return last.name == "IKEv1 quick mode" or (
                last.sender == SERVER and last.name not in _IKE_BEGINNINGS)
    return False


@dataclass
class _Station:
    current: Negotiation | None = None
    #: Roam that is requested over the DS. It begins with the first frame at the next access point.
    requested: Negotiation | None = None
    scan: Scan | None = None
    #: Access point and last data frame, without a negotiation in the capture.
    served_by: str = ""
    last_data: Mark | None = None
    #: Time in s of the last Action frame that is encrypted and cannot be read.
    hidden_action_s: float | None = None

    @property
    def open_negotiations(self) -> list[Negotiation]:
        """Return the negotiations that have not ended."""
        return [each for each in (self.current, self.requested) if each]


@dataclass
class Tracker:
    """The negotiations in a capture, found frame by frame."""

    networks: dict[str, Network] = field(default_factory=dict)
    #: 802.11 data frames by cipher header, and by station and access point.
    data_frames: Counter[str] = field(default_factory=Counter)
    pairs: Counter[tuple[str, str]] = field(default_factory=Counter)
    #: Airtime of all frames in s, by capture and channel.
    _airtime_s: defaultdict[tuple[str, str], float] = field(
        default_factory=lambda: defaultdict(float))
    _stations: dict[str, _Station] = field(default_factory=dict)
    _ended: list[Negotiation] = field(default_factory=list)
    _requests: dict[tuple[str, ...], str] = field(default_factory=dict)
    _exchanges: dict[tuple[str, str], Negotiation] = field(default_factory=dict)
    #: Time of the last packet in each WireGuard tunnel, by its ends.
    _tunnels: dict[frozenset[str], float] = field(default_factory=dict)
    #: Whether frames are of several captures of the same events.
    is_merged: bool = False
    #: IP addresses of stations that were captured on the air, too.
    _hosts: dict[str, str] = field(default_factory=dict)
    #: Messages on a wire that were captured again at another interface, by capture.
    copies: Counter[str] = field(default_factory=Counter)
    #: Times in s and keys of the newest messages on a wire.
    _newest: deque[tuple[float, tuple[object, ...]]] = field(default_factory=deque)
    #: Time in s of the newest frame.
    _newest_s: float = 0.0
    _fed: int = 0

    def feed_frame(self, frame: Frame, earlier: Frame | None = None) -> None:
        """Take the next frame of the captures.

        Args:
            frame: The frame.
            earlier: The frame of another capture with the same packet, which had it before.
        """
        if frame.time_s < self._newest_s - DISORDER_S:
            self._end_at_step()
        self._newest_s = frame.time_s
        self._fed += 1
        if self._fed % _PACK_FRAMES == 0:
            self._pack_idle(frame.time_s)
        if self.is_merged:
            self._note_host(frame)
        if earlier:
            earlier.later += (frame,)
            if frame.packet.is_data and not frame.packet.is_eapol and not earlier.is_wireless:
                self._feed_wireless(frame, is_again=True)
        elif frame.is_wireless:
            self._feed_wireless(frame)
        else:
            self._note_tunnel(frame)
            message = messages.wired_message(frame)
            if message and not self._is_copy(message):
                self._feed_wired(message)

    def _end_at_step(self) -> None:
        """Close all open negotiations where the capture's time stamps jump back.

        Durations across the jump are unknown.
        """
        for mac, station in self._stations.items():
            self._ended += station.open_negotiations
            current = station.current
            is_served = current and current.is_wireless and current.is_associated
            self._stations[mac] = _Station(
                served_by=current.peer if current and is_served else station.served_by)
        self._ended += self._exchanges.values()
        self._exchanges.clear()
        self._tunnels.clear()
        self._newest.clear()

    def _pack_idle(self, now_s: float) -> None:
        """Compress the messages of negotiations that have no new one."""
        before_s = now_s - _MERGED_S if self.is_merged else None
        for station in self._stations.values():
            for negotiation in station.open_negotiations:
                negotiation.pack_messages(before_s)
        for exchange in self._exchanges.values():
            exchange.pack_messages(before_s)

    def take_ended(self) -> list[Negotiation]:
        """Return the negotiations that have ended since the last call."""
        ended, self._ended = self._ended, []
        return ended

    def end_all(self) -> Iterator[Negotiation]:
        """End all negotiations, and yield each that has not been returned, without keeping it."""
        yield from self.take_ended()
        for mac in [*self._stations]:
            yield from self._stations.pop(mac).open_negotiations
        for key in [*self._exchanges]:
            yield self._exchanges.pop(key)

    # --- 802.11 ---

    def _feed_wireless(self, frame: Frame, *, is_again: bool = False) -> None:
        bssid, packet = frame.get_text("wlan.bssid"), frame.packet
        self._airtime_s[_capture_and_channel(frame)] += _airtime_s(frame)
        if packet.subtype in (management_frames.BEACON, management_frames.PROBE_RESPONSE):
            self._note_network(frame)
            return
        if packet.subtype == _PROBE_REQUEST:
            self._note_probe(frame)
            return
        by_network = packet.transmitter == bssid
        mac = frame.get_text("wlan.ra") if by_network else packet.transmitter
        if is_group_address(mac) or is_group_address(bssid):
            return
        sender = NETWORK if by_network else STATION
        if not by_network and frame.is_set("wlan.fc.pwrmgt"):
            self._note_doze(frame, mac, bssid)
        if frame.is_management:
            message = messages.management_message(frame, sender)
            if message:
                self._add_managed(message, self._find_station(mac, bssid), mac, bssid)
            elif sender == STATION and _is_hidden_action(frame):
                self._find_station(mac).hidden_action_s = frame.time_s
        elif packet.eapol_type in messages.EAPOL_TYPES:
            self._add_eapol(messages.eapol_message(frame, sender), mac, bssid, WIRELESS)
        elif packet.is_data:
            self._count_data(frame, mac, bssid, is_again=is_again)

    def _note_doze(self, frame: Frame, mac: str, bssid: str) -> None:
        station = self._stations.get(mac)
        current = station.current if station else None
        if current and current.peer == bssid:
            current.note_doze(frame)

    def _find_station(self, mac: str, bssid: str = "") -> _Station:
        """Return a station, which leaves for an access point if that is the requested one."""
        if mac not in self._stations and len(self._stations) >= _MOST_STATIONS:
            self._ended += self._stations.pop(next(iter(self._stations))).open_negotiations
        station = self._stations.setdefault(mac, _Station())
        requested = station.requested
        if requested and requested.peer == bssid:
            station.requested = None
            self._begin_negotiation(station, requested)
        return station

    def _note_network(self, frame: Frame) -> None:
        bssid = frame.packet.transmitter
        if bssid not in self.networks and len(self.networks) >= _MOST_NETWORKS:
            return
        managed, utilization = frame.parse_management(), frame.get_number("wlan.qbss.cu")
        self.networks[bssid] = Network(
            bssid, frame.get_text("wlan.ssid"), managed.akms, managed.can_protect,
            managed.requires_protection, managed.mobility_domain,
            None if utilization is None else utilization / _WHOLE_LOAD,
            None if utilization is None else frame.reference)

    def _note_probe(self, frame: Frame) -> None:
        station = self._find_station(frame.packet.transmitter)
        mark = Mark.from_frame(frame)
        if station.scan is None or mark.time_s - station.scan.last.time_s > _SCAN_PAUSE_S:
            station.scan = Scan(mark, mark)
        station.scan.last = mark
        station.scan.count += 1
        station.scan.channels.add(frame.get_text("wlan_radio.channel"))

    def _add_managed(self, message: Message, station: _Station, mac: str, bssid: str) -> None:
        current = station.current
        if message.phase == "end":
            if current and current.peer == bssid and not current.is_ended:
                current.add_message(message)
            return
        peer = message.over_ds_target or bssid
        is_request = peer != bssid and not (current and current.peer == peer)
        if is_request:
            current = station.requested
        if current is None or current.peer != peer or (
                message.sender == STATION and _begins_anew(current, message)):
            current = self._create_negotiation(station, WIRELESS, mac, peer)
            if is_request:
                self._ended += filter(None, (station.requested,))
                station.requested = current
                self._note_previous(station, current)
            else:
                self._begin_negotiation(station, current)
            hidden_s, station.hidden_action_s = station.hidden_action_s, None
            current.has_hidden_action = (hidden_s is not None
                                         and message.time_s - hidden_s < _HIDDEN_S)
        if peer != bssid:
            current.previous = current.previous or bssid
        current.add_message(message)
        self._note_airtime(current, message.frame)
        current.ssid = current.ssid or message.frame.get_text("wlan.ssid")

    def _create_negotiation(self, station: _Station, kind: str, mac: str,
                            peer: str) -> Negotiation:
        network = self.networks.get(peer)
        scan, station.scan = station.scan, None
        return Negotiation(kind, mac, peer, network=network, scan=scan,
                           ssid=network.ssid if network else "")

    def _begin_negotiation(self, station: _Station, begun: Negotiation) -> None:
        """Make a negotiation the current one of a station, and end those before."""
        self._note_previous(station, begun)
        if station.current:
            self._ended.append(station.current)
        station.current = begun
        if station.requested and begun.peer != station.requested.previous:
            self._ended.append(station.requested)
            station.requested = None

    def _note_previous(self, station: _Station, begun: Negotiation) -> None:
        """Note the access point that a station leaves for another one."""
        before, peer = station.current, begun.peer
        if not begun.is_wireless:
            return
        if before and before.peer != peer and before.is_wireless:
            if before.is_associated:
                begun.previous = before.peer
                begun.data_before = before.data.last
                begun.previous_network = self.networks.get(before.peer)
                begun.retries_before = tuple(before.data.newest)
            elif before.previous != peer:  # an attempt that failed in between
                begun.previous = before.previous or begun.previous
                begun.data_before = before.data_before
                begun.previous_network = before.previous_network
                begun.retries_before = before.retries_before
        elif before is None and station.served_by not in ("", peer):
            begun.previous, begun.data_before = station.served_by, station.last_data

    def _count_data(self, frame: Frame, mac: str, bssid: str, *, is_again: bool) -> None:
        if (mac, bssid) in self.pairs or len(self.pairs) < _MOST_STATIONS:
            self.pairs[mac, bssid] += 1
        cipher = _cipher_header(frame)
        self.data_frames[cipher] += 1
        station = self._find_station(mac, bssid)
        current = station.current
        if current and current.peer == bssid:
            current.data.count_frame(frame, cipher)
            if current.channel_use:
                current.channel_use.own_s += _airtime_s(frame)
            message = None if is_again else messages.upper_message(frame)
            if message:
                self._add_upper(message, current, mac)
        else:
            station.served_by, station.last_data = bssid, Mark.from_frame(frame)

    def _add_upper(self, message: Message, current: Negotiation, mac: str) -> None:
        """Add a message that a data frame of a station has, such as one of DHCP or IKE."""
        if not message.sender:  # both ends of IKE look alike
            message = replace(message, sender=(
                STATION if self._is_from(message.frame, mac) else SERVER))
        if message.phase == messages.ARP:
            is_ours = self._is_from(message.frame, mac) == (message.sender == STATION)
            if is_ours and message.time_s - current.messages[0].time_s < _ARP_S:
                current.add_message(message)
        elif _is_near(current, message):
            current.add_message(message)
        elif message.phase == messages.IKE:
            self._add_ike(message)
        else:
            self._add_exchange(message, mac, "")

    # --- 802.1X ---

    def _add_eapol(self, message: Message, mac: str, peer: str, kind: str) -> None:
        station = self._find_station(mac, peer)
        current = station.current
        if current is None or (current.peer != peer and kind == WIRELESS) or (
                _begins_anew(current, message)):
            current = self._create_negotiation(station, kind, mac, peer)
            self._begin_negotiation(station, current)
        current.peer = current.peer or peer
        current.add_message(message)
        if message.phase != messages.GROUP_KEY and kind == WIRELESS:
            self._note_airtime(current, message.frame)

    def _note_airtime(self, current: Negotiation, frame: Frame) -> None:
        """Note the airtime of others up to a frame of a negotiation."""
        place, own_s = _capture_and_channel(frame), _airtime_s(frame)
        use = current.channel_use
        if use is None:
            use = current.channel_use = ChannelUse(place, self._airtime_s[place] - own_s)
        if use.place == place:
            use.own_s += own_s
            use.others_s = self._airtime_s[place] - use.before_s - use.own_s

    def _is_copy(self, message: Message) -> bool:
        """Return whether a message on a wire was captured before, at another interface."""
        while self._newest and self._newest[0][0] < message.time_s - COPY_S:
            self._newest.popleft()
        key = _copy_key(message)
        is_copy = any(key == each for _, each in self._newest)
        self.copies[message.frame.reference.capture] += is_copy
        self._newest.append((message.time_s, key))
        return is_copy

    def _feed_wired(self, message: Message) -> None:
        if message.phase in (EAP, FOUR_WAY, messages.GROUP_KEY):
            self._feed_eapol(message)
        elif message.phase == RADIUS:
            self._feed_radius(message)
        else:
            self._feed_upper(message)

    def _feed_eapol(self, message: Message) -> None:
        frame = message.frame
        is_sent = message.sender == STATION
        mac = frame.source_mac if is_sent else frame.get_text("eth.dst")
        peer = frame.get_text("eth.dst") if is_sent else frame.source_mac
        if is_group_address(mac):  # addressed to the port, or in a cooked capture
            mac = next((known for known, station in reversed(self._stations.items())
                        if station.current and station.current.kind == WIRED), "")
        peer = "" if is_group_address(peer) else peer
        nameless = self._stations.get("")
        if mac and nameless and nameless.current and mac not in self._stations:
            nameless.current.station = mac
            self._stations[mac] = self._stations.pop("")
        self._add_eapol(message, mac, peer, WIRED)

    # --- RADIUS and what has no link of its own ---

    def _feed_radius(self, message: Message) -> None:
        frame, packet = message.frame, message.frame.packet
        is_request = message.sender == ACCESS_POINT
        client, server = ((frame.source_ip, frame.target_ip) if is_request
                          else (frame.target_ip, frame.source_ip))
        port = str(packet.udp_src if is_request else packet.udp_dst)
        key = client, port, server, frame.get_text("radius.id")
        if is_request:
            name = _normal_mac(frame.get_text("radius.Calling_Station_Id")) or f"a user of {client}"
            if len(self._requests) >= _MOST_REQUESTS:
                self._requests.pop(next(iter(self._requests)))
            self._requests[key] = name
        name = self._requests.get(key, f"a user of {client}")
        station = self._stations.get(name)
        if station and station.current and station.current.of_phase(EAP):
            station.current.add_message(message)
        else:
            self._add_exchange(message, name, server)

    def _note_tunnel(self, frame: Frame) -> None:
        is_data = frame.get_number("wg.type") == wireguard.TRANSPORT
        if is_data and len(self._tunnels) < _MOST_STATIONS:
            self._tunnels[frozenset((frame.source_ip, frame.target_ip))] = frame.time_s

    def _feed_upper(self, message: Message) -> None:
        mac = self._find_host(message.frame) if self.is_merged else ""
        station = self._stations.get(mac)
        if station and station.current and station.current.is_wireless:
            self._add_upper(message, station.current, mac)
        elif message.phase != messages.ARP:
            self._add_wired(message)

    def _note_host(self, frame: Frame) -> None:
        """Note the IP address of a station that is on the air."""
        mac = frame.packet.transmitter or frame.packet.ethernet_src
        if mac in self._stations and frame.source_ip.strip("0.:"):
            if frame.source_ip not in self._hosts and len(self._hosts) >= _MOST_STATIONS:
                self._hosts.pop(next(iter(self._hosts)))
            self._hosts[frame.source_ip] = mac

    def _find_host(self, frame: Frame) -> str:
        """Return the MAC address of the station whose packet is on a wire, "" without one."""
        known = (frame.packet.ethernet_src, frame.get_text("eth.dst"),
                 frame.get_text("dhcp.hw.mac_addr"), self._hosts.get(frame.source_ip, ""),
                 self._hosts.get(frame.target_ip, ""))
        return next((mac for mac in known if mac in self._stations), "")

    def _is_from(self, frame: Frame, mac: str) -> bool:
        """Return whether a station sent a frame, or the packet in it."""
        return mac in (frame.packet.transmitter, frame.packet.ethernet_src,
                       self._hosts.get(frame.source_ip))

    def _add_wired(self, message: Message) -> None:
        frame, packet = message.frame, message.frame.packet
        if message.phase == messages.DHCP:
            mac = frame.get_text("dhcp.hw.mac_addr")
            station = self._stations.get(mac)
            if station and station.current and _is_near(station.current, message):
                station.current.add_message(message)
            else:
                self._add_exchange(message, mac, "")
        elif message.phase == messages.IKE:
            self._add_ike(message)
        else:
            ends = frame.source_ip, frame.target_ip
            name, peer = ends if message.sender == STATION else ends[::-1]
            self._add_exchange(message, name, peer or packet.ip_dst)

    def _add_ike(self, message: Message) -> None:
        frame = message.frame
        key = message.phase, frame.packet.ike_spi
        known = self._exchanges.get(key)
        initiator = known.station if known else frame.source_ip
        sender = STATION if frame.source_ip == initiator else SERVER
        named = Message(frame, sender, message.name, message.phase)
        if known:
            known.add_message(named)
        else:
            self._add_to(key, named, initiator, frame.target_ip)

    def _add_exchange(self, message: Message, name: str, peer: str) -> None:
        key = message.phase, name
        current = self._exchanges.get(key)
        if current and not _is_near(current, message, after_end=message.sender != SERVER):
            self._ended.append(self._exchanges.pop(key))
            current = None
        if current:
            current.add_message(message)
            current.peer = current.peer or peer
        else:
            self._add_to(key, message, name, peer)

    def _add_to(self, key: tuple[str, str], message: Message, name: str, peer: str) -> None:
        if len(self._exchanges) >= _MOST_STATIONS:
            self._ended.append(self._exchanges.pop(next(iter(self._exchanges))))
        begun = Negotiation(_KINDS[message.phase], name, peer)
        begun.add_message(message)
        used_s = self._tunnels.get(frozenset((name, peer)))
        if message.phase == messages.WIREGUARD and used_s is not None:
            begun.idle_before_s = message.time_s - used_s
        self._exchanges[key] = begun


_PROBE_REQUEST = 0x04
#: Value of a BSS Load element for a channel that is always in use.
_WHOLE_LOAD = 255
_CHAINED_S = 2.0
#: Time after an encrypted Action frame in which it may have requested fast transition, in s.
_HIDDEN_S = 10.0
#: Time after joining in which ARP belongs to it, in s.
_ARP_S = 10.0


def _copy_key(message: Message) -> tuple[object, ...]:
    """Return a key that a message on a wire and its copies at other interfaces have.

    Addresses of the link change at a router, and those of IP at a relay of DHCP. Names of EAP
    messages have the TLS messages in them, which tshark shows in one of the copies only.
    """
    frame, packet = message.frame, message.frame.packet
    fields: tuple[str, ...] = "radius.id", "udp.checksum", "tcp.seq", "arp.src.proto_ipv4"
    ends: tuple[object, ...] = frame.source_ip, frame.target_ip, packet.udp_src
    if message.phase == messages.DHCP:
        ends, fields = (), ("dhcp.id", "dhcp.hw.mac_addr", "dhcp.option.dhcp_server_id")
    elif packet.eapol_type is not None:
        ends = frame.source_mac, packet.eapol_type, packet.eap_id, frame.key_message
        fields = "eth.dst", "eapol.keydes.replay_counter", "eapol.keydes.key_iv"
    name = "" if packet.eap_code is not None else message.name
    return name, packet.radius_code, packet.eap_code, *ends, *map(frame.get_text, fields)


def _capture_and_channel(frame: Frame) -> tuple[str, str]:
    """Return the capture and the channel of a frame. An unknown channel is ""."""
    return frame.reference.capture, frame.get_text("wlan_radio.channel")


def _is_hidden_action(frame: Frame) -> bool:
    """Return whether this is an Action frame that is encrypted and cannot be read."""
    return (frame.packet.subtype == management_frames.ACTION and frame.packet.protected
            and frame.packet.action_category is None)


def _airtime_s(frame: Frame) -> float:
    """Return the time in s that a frame takes on the air, 0 if its rate is unknown."""
    return (frame.get_number("wlan_radio.duration") or 0) * 1e-6


def _is_near(current: Negotiation, message: Message, *, after_end: bool = False) -> bool:
    """Return whether a message is soon enough after a negotiation's last one to belong to it."""
    gap_s = message.time_s - current.messages[-1].time_s
    chained_s = _CHAINED_S if message.phase == messages.KERBEROS else 0.0
    limit_s = chained_s if after_end and current.is_complete else _PAUSE_S
    return gap_s <= limit_s


def _begins_anew(  # noqa: PLR0911 # a case for each phase
        current: Negotiation, message: Message) -> bool:
    """Return whether a message with the same access point begins another negotiation."""
    if current.is_ended:
        return True
    last = current.messages[-1] if current.messages else None
    if last and message.time_s - last.time_s > _PAUSE_S:
        return True
    if not current.is_complete:
        return False
    is_first_key = message.phase == FOUR_WAY and message.frame.key_message == 1
    keyed = bool(current.of_phase(FOUR_WAY))
    match message.phase:
        case messages.AUTHENTICATION:
            return True
        case messages.ASSOCIATION:
            return bool(current.of_phase(ASSOCIATION)) and message.sender == STATION
        case messages.EAP:
            ends = message.frame.packet.eap_code in (tshark.EAP_SUCCESS, tshark.EAP_FAILURE)
            if ends and last and last.phase == RADIUS:
                return False  # the access point passes on what the server said
            return bool(current.of_phase(EAP)) or keyed
        case messages.FOUR_WAY:
            return is_first_key and keyed
    return False


def _normal_mac(text: str) -> str:
    digits = "".join(sign for sign in text.lower() if sign in "0123456789abcdef")[:12]
    return ":".join(digits[at:at + 2] for at in range(0, 12, 2)) if len(digits) == 12 else ""
