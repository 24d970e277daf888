"""Check neighbor reports (802.11k) and BSS transition requests (802.11v) in a drive's captures.

`read_hints` reads the frames from a capture of the air, `check_hints` makes the checks that the
policy requires.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from measure.capture import tshark
from measure.checks import key_management
from measure.packets import management_frames
from measure.records import judgement
from measure.records.record import CheckRecord
from policies.link import LinkLayer
from studies.drivetest.measurements import (
    ACCEPTED,
    REPORTS,
    REQUESTS,
    ROAMS_NAMED,
    SCANS_NAMED,
    RoamRecord,
)
from studies.drivetest.neighbors import Neighbor

_PROBE_REQUEST = 0x04
#: Categories of action frames, and actions (IEEE 802.11-2020, 9.4.1.11, 9.6.6.1 and 9.6.13.1).
_RADIO_MEASUREMENT, _NEIGHBOR_REQUEST, _NEIGHBOR_RESPONSE = 5, 4, 5
_WNM, _TRANSITION_REQUEST, _TRANSITION_RESPONSE = 10, 7, 8
#: With several keys, tshark 4.0 may not decrypt the first frame between two stations in one pass.
_TWO_PASSES = ("-2",)
_FIELDS = ("frame.time_epoch", "wlan.fc.type_subtype", "wlan.ta", "wlan.ra", "wlan.fc.protected",
           "wlan.fixed.category_code", "wlan.fixed.action_code",
           "wlan.nreport.bssid", "wlan.nreport.opeclass", "wlan.nreport.channumber",
           "wlan.fixed.bss_transition_status_code", "wlan.fixed.bss_transition_target_bss",
           "radiotap.channel.freq")


@dataclass(frozen=True)
class Visit:
    """The time (s) of a station on one access point, until it roams or the drive ends."""

    access_point: str
    begin_s: float
    end_s: float


@dataclass(frozen=True)
class Hint:
    """A probe request of the station, or an action frame of 802.11k or 802.11v.

    - `sender`, `receiver`: MAC addresses
    - `is_probe`, `is_protected`: the frame is a probe request, or is encrypted
    - `category`, `action`: kind of an action frame, None for a probe request
    - `named`: BSSID, operating class and channel of each access point that the frame names
    - `status`, `target`: answer to a BSS transition request, and BSSID to which the station moves
    - `frequency_mhz`: frequency on which the frame was sent
    """

    at_s: float
    sender: str
    receiver: str
    is_probe: bool
    is_protected: bool
    category: int | None
    action: int | None
    named: frozenset[tuple[str, int, int]]
    status: int | None
    target: str
    frequency_mhz: int

    def is_action(self, category: int, action: int) -> bool:
        """Return whether this is an action frame of a kind."""
        return (self.category, self.action) == (category, action)


def read_hints(air: Path, keys: Sequence[str], station: str) -> list[Hint]:
    """Return a station's probe requests and the action frames that it sends or receives, by time.

    Args:
        air: capture of the radio channel.
        keys: keys that decrypt protected frames.
        station: MAC address of the station.
    """
    rows = tshark.read_fields(
        air, _FIELDS, f"wlan.addr == {station} && (wlan.fc.type_subtype == {_PROBE_REQUEST} || "
        f"wlan.fc.type_subtype == {management_frames.ACTION})",
        options=[*_TWO_PASSES, *tshark.decryption_options(keys)])
    return [_parse_hint(dict(zip(_FIELDS, row, strict=True))) for row in rows]


def _parse_hint(c: Mapping[str, str]) -> Hint:
    bssids = [bssid for bssid in c["wlan.nreport.bssid"].split(",") if bssid]
    classes, channels = (tshark.parse_numbers(c[f"wlan.nreport.{name}"])
                         for name in ("opeclass", "channumber"))
    return Hint(
        float(c["frame.time_epoch"]), tshark.first_value(c["wlan.ta"]),
        tshark.first_value(c["wlan.ra"]),
        tshark.parse_number(c["wlan.fc.type_subtype"]) == _PROBE_REQUEST,
        tshark.is_set(c["wlan.fc.protected"]),
        tshark.parse_number(c["wlan.fixed.category_code"]),
        tshark.parse_number(c["wlan.fixed.action_code"]),
        frozenset(zip(bssids, classes, channels, strict=False)),
        tshark.parse_number(c["wlan.fixed.bss_transition_status_code"]),
        tshark.first_value(c["wlan.fixed.bss_transition_target_bss"]),
        tshark.parse_number(c["radiotap.channel.freq"]) or 0)


def select_probed(hints: Sequence[Hint], visit: Visit) -> list[int]:
    """Return the frequencies (MHz) on which a station sent probe requests during a visit."""
    return sorted({hint.frequency_mhz for hint in hints
                   if hint.is_probe and visit.begin_s <= hint.at_s < visit.end_s})


@dataclass(frozen=True)
class Drive:
    """The frames of a drive on which the checks of 802.11k and 802.11v depend.

    - `visits`, `roams`: visits on access points, and the roams between them
    - `hints`: probe requests and action frames of the station
    - `neighbors`: neighbors by access point, as the positions and the medium say
    - `bssids`: MAC addresses of the access points
    """

    visits: Sequence[Visit]
    roams: Sequence[RoamRecord]
    hints: Sequence[Hint]
    neighbors: Mapping[str, Sequence[Neighbor]]
    bssids: Mapping[str, str]

    def select_frames(self, visit: Visit, category: int, action: int, *,
               by_station: bool) -> list[Hint]:
        """Return the action frames between a station and its serving access point in a visit."""
        bssid = self.bssids[visit.access_point]
        return [hint for hint in self.hints if hint.is_action(category, action)
                and visit.begin_s <= hint.at_s < visit.end_s
                and (hint.receiver if by_station else hint.sender) == bssid]

    def expected_neighbors(self, place: int, *,
                 has_former: bool = True) -> frozenset[tuple[str, int, int]]:
        """Return the neighbors that the access point of a visit has to name.

        Args:
            place: number of the visit.
            has_former: whether the access point that the station came from is among them.
        """
        former = "" if has_former or not place else self.visits[place - 1].access_point
        return frozenset((each.bssid, each.operating_class, each.channel)
                         for each in self.neighbors[self.visits[place].access_point]
                         if each.name != former)


def check_support(link: LinkLayer, air: Path, station_capture: Path, keys: Sequence[str],
                  bssids: Mapping[str, str], station: str) -> Iterator[CheckRecord]:
    """Check that access points and station announce 802.11k and 802.11v as the policy has them.

    Args:
        link: link layer of the policy.
        air: capture of the air.
        station_capture: capture of the station's monitor interface, with beacons.
        keys: keys that decrypt protected frames.
        bssids: MAC addresses of the access points.
        station: MAC address of the station.
    """
    if not (link.neighbor_report or link.bss_transition):
        return
    offers = [frame for frame in management_frames.read_management_frames(
        station_capture, subtype=management_frames.BEACON)
        if frame.transmitter in bssids.values()]
    requests = [frame for frame in management_frames.read_management_frames(air, keys)
                if frame.is_request and frame.transmitter == station]
    yield from judgement.to_records(
        key_management.check_roaming_support(link, offers, requests))


def check_hints(link: LinkLayer, drive: Drive) -> Iterator[CheckRecord]:
    """Check the reports, requests and answers of a drive, and that the station followed them."""
    if link.neighbor_report:
        yield _check_reports(link, drive)
    if link.bss_transition:
        yield _check_requests(link, drive)
        yield _check_answers(drive)
    if link.neighbor_report or link.bss_transition:
        yield from _check_followed(drive)


def _check_reports(link: LinkLayer, drive: Drive) -> CheckRecord:
    """Check that the station asks for a neighbor report before each roam, and gets it."""
    right = 0
    reports: list[Hint] = []
    for place, visit in enumerate(drive.visits[:len(drive.roams)]):
        asked, answers = (drive.select_frames(visit, _RADIO_MEASUREMENT, action,
                                              by_station=action == _NEIGHBOR_REQUEST)
                          for action in (_NEIGHBOR_REQUEST, _NEIGHBOR_RESPONSE))
        reports += answers
        right += bool(asked) and bool(answers) and all(
            answer.named == drive.expected_neighbors(place) for answer in answers)
    hidden = sum(report.is_protected for report in reports)
    ok = 0 < right == len(drive.roams) and hidden == (len(reports) if link.pmf_of_station else 0)
    return CheckRecord(check=REPORTS, ok=ok, detail=f"before {right} of {len(drive.roams)} roams "
                       f"the station asks, and gets the neighbors; {_list_named(reports)}; "
                       f"{hidden} of {len(reports)} reports are protected")


def _check_requests(link: LinkLayer, drive: Drive) -> CheckRecord:
    """Check that each roam follows a request with the access point's neighbors as candidates."""
    right = 0
    requests: list[Hint] = []
    for place, visit in enumerate(drive.visits[:len(drive.roams)]):
        hints = drive.select_frames(visit, _WNM, _TRANSITION_REQUEST, by_station=False)
        requests += hints
        right += bool(hints) and all(
            hint.named == drive.expected_neighbors(place, has_former=False) for hint in hints)
    hidden = sum(request.is_protected for request in requests)
    ok = 0 < right == len(drive.roams) and hidden == (len(requests) if link.pmf_of_station else 0)
    return CheckRecord(check=REQUESTS, ok=ok, detail=f"before {right} of {len(drive.roams)} roams "
                       f"the access point asks the station to move to its neighbors; "
                       f"{_list_named(requests)}; {hidden} of {len(requests)} requests are "
                       "protected")


def _check_answers(drive: Drive) -> CheckRecord:
    """Check that the station accepts the last request before each roam, and names its target."""
    right, answered = 0, list[str]()
    for visit, roam in zip(drive.visits, drive.roams, strict=False):
        answers = drive.select_frames(visit, _WNM, _TRANSITION_RESPONSE, by_station=True)
        answered += [f"status {answer.status}" for answer in answers]
        right += bool(answers) and answers[-1].status == 0 \
            and answers[-1].target == drive.bssids[roam.to_ap]
    return CheckRecord(check=ACCEPTED, ok=0 < right == len(drive.roams),
                       detail=f"{right} of {len(drive.roams)} roams go to the access point that "
                       f"the station named when it accepted; {', '.join(answered) or 'no'} answers")


def _check_followed(drive: Drive) -> Iterator[CheckRecord]:
    """Check that the station probed and joined what its access point had named."""
    complaints, to_named, probed_mhz = list[str](), 0, list[int]()
    for place, visit in enumerate(drive.visits):
        naming = [hint for action in ((_RADIO_MEASUREMENT, _NEIGHBOR_RESPONSE),
                                      (_WNM, _TRANSITION_REQUEST))
                  for hint in drive.select_frames(visit, *action, by_station=False)]
        named = frozenset[tuple[str, int, int]]().union(*(hint.named for hint in naming))
        allowed = {each.frequency_mhz for each in drive.neighbors[visit.access_point]
                   if each.channel in {channel for _, _, channel in named}}
        probed = select_probed(drive.hints, visit)
        probed_mhz += probed
        strange = [frequency for frequency in probed if frequency not in allowed]
        if strange or (place < len(drive.roams) and not probed):
            complaints.append(f"{visit.access_point}: {strange or 'no'} MHz probed")
        to_named += place < len(drive.roams) and drive.bssids[drive.roams[place].to_ap] in {
            bssid for bssid, _, _ in named}
    yield judgement.make_check(SCANS_NAMED, complaints if drive.roams else ["no roam"],
                               f"{', '.join(map(str, probed_mhz))} MHz probed")
    yield CheckRecord(check=ROAMS_NAMED, ok=0 < to_named == len(drive.roams),
                      detail=f"{to_named} of {len(drive.roams)} roams go to an access point that "
                      "the one before had named")


def _list_named(hints: Sequence[Hint]) -> str:
    named = sorted({f"{bssid} on channel {channel}" for hint in hints
                    for bssid, _, channel in hint.named})
    return f"named: {', '.join(named) or 'none'}"
