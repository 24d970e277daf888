"""Evaluate one drive: find its roams in the captures, and check that the signal decided them.

`judge_repetition` reads the captures and kernel state that one measurement (repetition) left. Roams
are found by management frames on the air, and signals in frames that the station received.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from measure.capture import dissection, tshark
from measure.checks import layer_checks
from measure.mobile_node.outages import DOWN, UP
from measure.packets import management_frames
from measure.records import judgement
from measure.records.record import CheckRecord
from policies import Policy
from studies import policy_factors
from studies.drivetest import neighbors, path, steering_checks
from studies.drivetest.measurements import (
    CONNECTED,
    EXCHANGE,
    PLACES,
    PROTECTED,
    STRONGER,
    THRESHOLD,
    TRAFFIC,
    VISITS,
    DriveMeasurements,
    RoamRecord,
)
from studies.drivetest.steering_checks import Hint, Visit
from studies.study import Judgement, Repetition
from topologies.medium_model import Medium
from topologies.model import ACCESS_POINT, Scenario

_RECORDED_RAW = ("stamps", "failure", "link_keys", "connected", "authorized_at")
_AIR, _STATION = "drive-air.pcap", "drive-station.pcap"
_AUTHENTICATION = 0x0B
#: Longest interruption (s) after which traffic goes on because of the roam, and not by chance.
_LONGEST_GAP_S = 5.0
#: Largest difference of a received signal from the position's, in dB: half a dB of rounding, and a
#: step of the drive.
_TOLERANCE_DB = 1.5
#: Time before and after a roam in which its packets count (s), and time of one drawn value (s).
_AROUND_S, _DRAWN_S = 0.1, 0.5
#: Earliest time of a scan at a good signal, as a share of the long interval.
_LONG_SHARE = 0.9
_FOUR_WAY = 4


@dataclass(frozen=True)
class Heard:
    """Frames of an access point that the station received: their times (s) and signals (dBm)."""

    times_s: Sequence[float]
    dbm: Sequence[float]

    def last_before(self, at_s: float) -> float | None:
        """Return the signal of the last frame before a time, None if there is none."""
        place = bisect.bisect_left(self.times_s, at_s)
        return self.dbm[place - 1] if place else None

    def first_below(self, threshold_dbm: float, since_s: float, until_s: float) -> float | None:
        """Return the first time in a period when a frame was below a signal, None without one."""
        return next((at_s for at_s, dbm in zip(self.times_s, self.dbm, strict=True)
                     if since_s <= at_s < until_s and dbm < threshold_dbm), None)


@dataclass(frozen=True)
class _Join:
    """An answered association on the air, with its access point and the frames before it."""

    access_point: str
    begin_s: float
    end_s: float
    left: str
    is_reassociation: bool
    algorithm: int | None


def judge_repetition(repetition: Repetition, raw: Mapping[str, Any]) -> Judgement:
    """Evaluate one repetition by the files that its workload left.

    Args:
        repetition: the combination of factors, settings and folder of the files.
        raw: raw values of the workload (raw.json).

    Raises:
        MeasureError: a capture cannot be interpreted.
    """
    about: dict[str, Any] = {"captures": raw["captures"], "elapsed_s": raw["elapsed_s"],
                             "raw": judgement.select_raw_values(raw, _RECORDED_RAW)}
    if raw["failure"]:
        return Judgement(None, reason=raw["failure"]["reason"], **about)
    scenario: Scenario = repetition.cell.value("scenario")
    policy: Policy = repetition.cell.value("policy")
    medium = policy_factors.read_medium(str(repetition.settings.model_dump()["medium"]))
    assert medium is not None
    begun_s, ended_s = raw["stamps"]["start"], raw["stamps"]["end"]
    names = {scenario.network.nodes[name].radio_mac: name
             for name in scenario.network.of_duty(ACCESS_POINT)}
    heard = _read_heard(repetition.out / _STATION, names)
    joins = [join for join in _read_joins(repetition.out / _AIR, names, _mac_of(scenario))
             if begun_s <= join.begin_s <= ended_s]
    home = max((name for name in heard if heard[name].last_before(begun_s + 1) is not None),
               key=lambda name: heard[name].last_before(begun_s + 1) or 0.0, default="")
    hints = steering_checks.read_hints(repetition.out / _AIR,
                                       [f"tk:{key}" for key in raw["link_keys"]],
                                       _mac_of(scenario))
    roams = _measure_roams(joins, home, heard, raw, repetition.out / _AIR)
    visits = _list_visits(roams, home, begun_s, ended_s)
    roams = _describe_scans(roams, visits, hints, heard, scenario)
    checks = [_check_places(heard, scenario, medium, begun_s),
              *_check_roams(roams, home, scenario, medium, begun_s),
              *_check_exchange(policy, roams),
              *_check_protection(policy, repetition.out / _AIR, raw, _mac_of(scenario)),
              *_check_hints(policy, scenario, repetition.out, raw, steering_checks.Drive(
                  visits, roams, hints, neighbors.list_neighbors(scenario, medium),
                  {name: mac for mac, name in names.items()})),
              _check_traffic(roams, raw, scenario)]
    measured = DriveMeasurements(
        roams=[roam.model_copy(update={
            "begin_s": roam.begin_s - begun_s, "end_s": roam.end_s - begun_s,
            "weak_s": None if roam.weak_s is None else roam.weak_s - begun_s}) for roam in roams],
        home=home,
        positions=[(step.at_s, step.position[0], step.position[1])
                   for step in path.list_steps(scenario)],
        heard_dbm={name: _thin_out(heard[name], begun_s) for name in sorted(heard)},
        lost_packets=sum(_count_lost(raw["pulses"][way]["arrivals"]) for way in (UP, DOWN)))
    reasons = [*judgement.failure_reasons(checks), *judgement.dropped_packets_reason(raw)]
    return Judgement(measured, checks, "; ".join(reasons), **about)


def _mac_of(scenario: Scenario) -> str:
    return scenario.network.nodes[scenario.mobile_node].radio_mac


# --- What the captures show ---

def _read_heard(capture: Path, names: Mapping[str, str]) -> dict[str, Heard]:
    """Return the beacons and probe responses that the station received, by access point."""
    frames: dict[str, tuple[list[float], list[float]]] = {}
    for at, sender, dbm in tshark.read_fields(
            capture, ("frame.time_epoch", "wlan.ta", "radiotap.dbm_antsignal"),
            f"wlan.fc.type_subtype == {management_frames.BEACON} || "
            f"wlan.fc.type_subtype == {management_frames.PROBE_RESPONSE}"):
        if sender in names and dbm:
            times, signals = frames.setdefault(names[sender], ([], []))
            times.append(float(at))
            signals.append(float(tshark.first_value(dbm)))
    return {name: Heard(times, signals) for name, (times, signals) in frames.items()}


def _read_joins(capture: Path, names: Mapping[str, str], station: str) -> Iterator[_Join]:
    """Yield the answered associations of the station on the air, in order."""
    begin: tuple[float, int | None] | None = None
    request: tuple[int, str] | None = None
    for at, subtype, sender, receiver, algorithm, status, current in tshark.read_fields(
            capture, ("frame.time_epoch", "wlan.fc.type_subtype", "wlan.ta", "wlan.da",
                      "wlan.fixed.auth.alg", "wlan.fixed.status_code", "wlan.fixed.current_ap"),
            f"wlan.fc.type == 0 && wlan.addr == {station}"):
        kind = tshark.parse_number(subtype)
        if kind == _AUTHENTICATION and sender == station:
            if begin is None:
                begin = float(at), tshark.parse_number(algorithm)
        elif kind in (management_frames.ASSOCIATION_REQUEST,
                      management_frames.REASSOCIATION_REQUEST):
            request = kind, tshark.first_value(current)
        elif kind in (management_frames.ASSOCIATION_RESPONSE,
                      management_frames.REASSOCIATION_RESPONSE) and receiver == station:
            if tshark.parse_number(status) == 0 and begin and request and sender in names:
                yield _Join(names[sender], begin[0], float(at), names.get(request[1], ""),
                            request[0] == management_frames.REASSOCIATION_REQUEST, begin[1])
            begin = request = None


def _measure_roams(joins: Sequence[_Join], home: str, heard: Mapping[str, Heard],
                   raw: Mapping[str, Any], air: Path) -> list[RoamRecord]:
    """Return the roams of a drive, with absolute times (s)."""
    frames = [(float(at), bool(code)) for at, code in tshark.read_fields(
        air, ("frame.time_epoch", "eap.code"), "eapol")]
    roams, before = list[RoamRecord](), home
    for place, join in enumerate(joins):
        until_s = joins[place + 1].begin_s if place + 1 < len(joins) else raw["stamps"]["end"]
        own = [frame for frame in frames if join.begin_s <= frame[0] < until_s]
        end_s = max([join.end_s, *(at for at, _ in own)])
        left = heard[before].last_before(join.begin_s) if before in heard else None
        joined = heard[join.access_point].last_before(join.begin_s) \
            if join.access_point in heard else None
        effects = {way: _find_interruption(raw["pulses"][way]["arrivals"], join.begin_s, end_s)
                   for way in (DOWN, UP)}
        roams.append(RoamRecord(
            from_ap=before, to_ap=join.access_point, begin_s=join.begin_s, end_s=end_s,
            left_dbm=left if left is not None else path.UNHEARD_DBM,
            joined_dbm=joined if joined is not None else path.UNHEARD_DBM,
            is_reassociation=join.is_reassociation and join.left == before,
            fast=join.algorithm == management_frames.FAST_TRANSITION,
            eapol_frames=len(own), eap_frames=sum(has_eap for _, has_eap in own),
            gap_down_s=effects[DOWN][0], gap_up_s=effects[UP][0],
            lost_down=effects[DOWN][1], lost_up=effects[UP][1]))
        before = join.access_point
    return roams


def _list_visits(roams: Sequence[RoamRecord], home: str, begun_s: float,
                ended_s: float) -> list[Visit]:
    """Return the visits on access points, one more than there are roams."""
    begins = [begun_s, *(roam.end_s for roam in roams)]
    ends = [*(roam.begin_s for roam in roams), ended_s]
    return [Visit(name, begin_s, end_s) for name, begin_s, end_s in zip(
        [home, *(roam.to_ap for roam in roams)], begins, ends, strict=True) if name]


def _describe_scans(roams: Sequence[RoamRecord], visits: Sequence[Visit], hints: Sequence[Hint],
                    heard: Mapping[str, Heard], scenario: Scenario) -> list[RoamRecord]:
    """Add to each roam since when the signal was weak, and which channels the station probed."""
    roaming = scenario.network.nodes[scenario.mobile_node].roaming
    assert roaming is not None
    return [roam.model_copy(update={
        "weak_s": heard[visit.access_point].first_below(roaming.threshold_dbm, visit.begin_s,
                                                       visit.end_s)
        if visit.access_point in heard else None,
        "probed_mhz": steering_checks.select_probed(hints, visit)})
        for roam, visit in zip(roams, visits, strict=False)]


def _find_interruption(arrivals: Sequence[tuple[int, float]], begin_s: float,
                  end_s: float) -> tuple[float | None, int]:
    """Return the longest gap between arrivals around a roam (s), and the packets lost in it.

    The gap is None if nothing arrived afterwards.
    """
    ordered = sorted(((at_s, number) for number, at_s in arrivals))
    times = [at_s for at_s, _ in ordered]
    first = max(0, bisect.bisect_left(times, begin_s - _AROUND_S) - 1)
    last = bisect.bisect_right(times, end_s + _AROUND_S)
    if last >= len(times) or not times:
        return None, 0
    part = ordered[first:last + 1]
    gap_s = max((later[0] - earlier[0] for earlier, later in pairwise(part)), default=None)
    numbers = {number for _, number in part}
    return gap_s, max(numbers) - min(numbers) + 1 - len(numbers)


def _count_lost(arrivals: Sequence[tuple[int, float]]) -> int:
    numbers = {number for number, _ in arrivals}
    return max(numbers) + 1 - len(numbers) if numbers else 0


def _thin_out(heard: Heard, begun_s: float) -> list[tuple[float, float]]:
    """Return time since the start and signal of received frames, at most one in `_DRAWN_S`."""
    drawn: list[tuple[float, float]] = []
    for at_s, dbm in zip(heard.times_s, heard.dbm, strict=True):
        if not drawn or at_s - begun_s - drawn[-1][0] >= _DRAWN_S:
            drawn.append((round(at_s - begun_s, 3), dbm))
    return drawn


# --- Checks ---

def _check_places(heard: Mapping[str, Heard], scenario: Scenario, medium: Medium,
                  begun_s: float) -> CheckRecord:
    """Check that each received signal is that of the medium at the station's position."""
    steps = path.list_steps(scenario)
    times = [step.at_s for step in steps]
    worst, far, count = 0.0, 0, 0
    for name, frames in heard.items():
        signals = [path.signals_at(scenario, medium, step.position)[name] for step in steps]
        for at_s, dbm in zip(frames.times_s, frames.dbm, strict=True):
            place = max(0, bisect.bisect_right(times, at_s - begun_s) - 1)
            # The kernel may hear of a step a little later than it is due.
            off = min(abs(dbm - signal) for signal in signals[max(0, place - 1):place + 2])
            worst, far, count = max(worst, off), far + (off > _TOLERANCE_DB), count + 1
    return CheckRecord(check=PLACES, ok=count > 0 and not far,
                       detail=f"{count - far} of {count} beacons and probe responses of "
                       f"{len(heard)} access points within {_TOLERANCE_DB:g} dB; the farthest "
                       f"{worst:.1f} dB off")


def _check_roams(roams: Sequence[RoamRecord], home: str, scenario: Scenario, medium: Medium,
                 begun_s: float) -> Iterator[CheckRecord]:
    """Check that the signal decided when the station roamed, and where to."""
    roaming = scenario.network.nodes[scenario.mobile_node].roaming
    assert roaming is not None
    expected = path.expected_visits(scenario, medium)
    visited = [home, *(roam.to_ap for roam in roams)]
    yield CheckRecord(check=VISITS, ok=visited == expected,
                      detail=f"{len(roams)} roams: {', '.join(visited)}; the positions demand "
                      f"{', '.join(expected)}")
    signals = "; ".join(f"{roam.from_ap} at {roam.left_dbm:.0f} dBm for {roam.to_ap} at "
                        f"{roam.joined_dbm:.0f} dBm" for roam in roams) or "no roam"
    since_s = [begun_s, *(roam.end_s for roam in roams)]
    due = [roam.left_dbm < roaming.threshold_dbm
           or roam.begin_s - joined_s >= _LONG_SHARE * roaming.long_s
           for roam, joined_s in zip(roams, since_s, strict=False)]
    yield CheckRecord(check=THRESHOLD, ok=bool(roams) and all(due),
                      detail=f"{signals}; the threshold is {roaming.threshold_dbm} dBm")
    yield CheckRecord(check=STRONGER, ok=bool(roams) and all(
        roam.joined_dbm > roam.left_dbm for roam in roams), detail=signals)
    joined = sum(roam.is_reassociation for roam in roams)
    yield CheckRecord(check=CONNECTED, ok=bool(roams) and joined == len(roams),
                      detail=f"{joined} of {len(roams)} roams are reassociations that name the "
                      "access point before")


def _check_exchange(policy: Policy, roams: Sequence[RoamRecord]) -> Iterator[CheckRecord]:
    """Check the key negotiation of each roam: fast transition, or a four-way handshake."""
    link = policy.layers.link
    if link is None:
        return
    counts = "; ".join(f"{roam.eapol_frames} EAPOL frames, {roam.eap_frames} with EAP"
                       f"{', FT authentication' if roam.fast else ''}" for roam in roams)
    if (link.roaming or "").startswith("ft"):
        ok = all(roam.fast and not roam.eapol_frames for roam in roams)
    else:
        has_eap = policy.uses_eap and link.roaming != "okc"
        ok = all(not roam.fast and roam.eapol_frames - roam.eap_frames >= _FOUR_WAY
                 and bool(roam.eap_frames) == has_eap for roam in roams)
    yield CheckRecord(check=EXCHANGE, ok=bool(roams) and ok, detail=counts or "no roam")


def _check_protection(policy: Policy, air: Path, raw: Mapping[str, Any],
                      mac: str) -> Iterator[CheckRecord]:
    """Check that the station's data frames on the air have the policy's cipher, and decrypt."""
    link = policy.layers.link
    [frames] = dissection.read_all_packets([air], [f"tk:{key}" for key in raw["link_keys"]])
    own = [p for p in frames if p.is_data and not p.is_eapol and mac in (p.transmitter, p.receiver)]
    if link is None:
        yield CheckRecord(check=PROTECTED, ok=bool(own) and not any(p.protected for p in own),
                          detail=f"{len(own)} data frames in clear")
        return
    as_due = sum(bool(layer_checks.frame_counter(link.cipher, p)) for p in own if p.protected)
    is_open, detail = layer_checks.describe_decryption(own, "the keys of access points' kernels")
    yield CheckRecord(check=PROTECTED, ok=bool(own) and as_due == len(own) and is_open,
                      detail=f"{as_due} of {len(own)} data frames are under {link.cipher}; "
                      f"{detail}")


def _check_hints(policy: Policy, scenario: Scenario, out: Path, raw: Mapping[str, Any],
                 drive: steering_checks.Drive) -> Iterator[CheckRecord]:
    """Check neighbor reports and BSS transition requests, if the policy has them."""
    link = policy.layers.link
    if link is None:
        return
    yield from steering_checks.check_support(
        link, out / _AIR, out / _STATION, [f"tk:{key}" for key in raw["link_keys"]], drive.bssids,
        _mac_of(scenario))
    yield from steering_checks.check_hints(link, drive)


def _check_traffic(roams: Sequence[RoamRecord], raw: Mapping[str, Any],
                   scenario: Scenario) -> CheckRecord:
    """Check that packets arrive soon after each roam, and that the station is authorized."""
    last = roams[-1].to_ap if roams else scenario.home
    silent = [roam.to_ap for roam in roams
              if any(gap_s is None or gap_s > _LONGEST_GAP_S
                     for gap_s in (roam.gap_down_s, roam.gap_up_s))]
    return CheckRecord(check=TRAFFIC, ok=not silent and last in raw["authorized_at"],
                       detail=f"packets arrive in both directions after {len(roams) - len(silent)} "
                       f"of {len(roams)} roams; at the end the station is authorized by "
                       f"{', '.join(raw['authorized_at']) or 'none'}")
