"""Judge of a full hall: admitted stations, frames on the air and arrived streams."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

from measure import (
    decryption,
    dissect,
    eap_keys,
    evidence,
    fields,
    heads,
    judging,
    marked,
    pairwise,
    pcap,
)
from measure.record import CheckRecord
from policies import LinkLayer, Policy
from studies.lecturehall import network
from studies.lecturehall.study import HallMeasured
from studies.study import Judged, Repetition
from topologies.model import STATION, Network

_RECORDED_RAW = ("stamps", "failure", "link_keys")
_AP = network.build_hall(1).nodes[network.ACCESS_POINT]
_CELL = _AP.interfaces[_AP.radio_interface].radio or ""
_AUTHENTICATED = "each authenticated"
#: Captures of the air: short frames whole, and the headers of all frames.
_AIR = ("short", "air")


def judge_repetition(repetition: Repetition, raw: Mapping[str, Any]) -> Judged:
    """Compute the body of the record and its checks.

    Args:
        repetition: The repetition, with the folder of its captures.
        raw: Values of the workload (raw.json).

    Raises:
        MeasureError: A capture cannot be interpreted.
    """
    about: dict[str, Any] = {"captures": raw["captures"], "elapsed_s": raw["elapsed_s"],
                             "raw": judging.select_raw_values(raw, _RECORDED_RAW)}
    if raw["failure"]:
        return Judged(None, reason=raw["failure"]["reason"], status="failed", **about)
    policy: Policy = repetition.cell.value("policy")
    hall = network.build_hall(int(repetition.cell.ids["stations"]))
    names = hall.of_duty(STATION)
    handshakes = _handshake_times(repetition)
    took = [times[-1] - times[0] for mac in _station_macs(hall, names)
            if (times := handshakes.get(mac))]
    begun, all_on, end = (raw["stamps"][name] for name in ("start", "all_on", "end"))
    arrived = _arrival_times(repetition)
    asked = repetition.asked.model_dump()
    until = min(end, all_on + asked["stream_s"])
    bits = 8 * asked["stream_payload_bytes"]
    rates = [bits * sum(all_on <= at_s < until for at_s in arrived[hall.nodes[name].address])
             / (until - all_on) for name in names]
    checks = [*_check_admissions(policy, _station_macs(hall, names), raw["let_in"], repetition),
              *_check_air(policy.layers.link, frozenset(_station_macs(hall, names)),
                            [hall.nodes[name].address for name in names], repetition,
                            raw["link_keys"]),
              _check_streams(names, rates)]
    reasons = [*judging.failure_reasons(checks), *judging.dropped_packets_reason(raw)]
    measured = HallMeasured(handshakes_s=took, streams_bps=rates,
                            admissions_s=[raw["on_s"][name] - begun for name in names])
    return Judged(measured, checks, "; ".join(reasons), "failed" if reasons else "ok", **about)


def _station_macs(hall: Network, names: Sequence[str]) -> list[str]:
    return [hall.nodes[name].interfaces["wlan0"].radio or "" for name in names]


def _handshake_times(repetition: Repetition) -> Mapping[str, list[float]]:
    """Return the times of each station's EAPOL frames at the access point, by address."""
    times: dict[str, list[float]] = defaultdict(list)
    for at, source, target in fields.read_fields(repetition.out / "hall-ap.pcap",
                                          ("frame.time_epoch", "eth.src", "eth.dst"), "eapol"):
        times[target if source == _CELL else source].append(float(at))
    return times


def _arrival_times(repetition: Repetition) -> Mapping[str, list[float]]:
    """Return the arrival times of datagrams at the server, by sender."""
    times: dict[str, list[float]] = defaultdict(list)
    for at, source in fields.read_fields(repetition.out / "hall-server.pcap",
                                  ("frame.time_epoch", "ip.src"), "udp"):
        times[source].append(float(at))
    return times


def _check_admissions(policy: Policy, macs: Sequence[str], let_in: Sequence[str],
            repetition: Repetition) -> list[CheckRecord]:
    """Check that every station was admitted after the required authentication.

    Depending on the policy, this is EAP, a four-way handshake, or both.
    """
    missing = set(macs) - set(let_in)
    checks = [CheckRecord(check="all let in", ok=not missing,
                          detail=f"{len(macs) - len(missing)} of {len(macs)} stations are "
                          "authorized by the access point's kernel")]
    capture = repetition.out / "hall-ap.pcap"
    link = policy.layers.link
    has_handshake = link is not None and not link.is_wep
    if policy.uses_eap:
        told = {target for (target,) in fields.read_fields(capture, ("eth.dst",),
                                                    f"eap.code == {dissect.EAP_SUCCESS}")}
        # With roaming within a subnet, access points hand over keys. They are known from the kernel
        # only, because no capture shows them.
        if link is not None and has_handshake and not link.roaming:
            checks.append(_check_keys(link, macs, told, repetition))
        else:
            checks.append(CheckRecord(check=_AUTHENTICATED, ok=set(macs) <= told,
                                      detail=f"{len(told & set(macs))} of {len(macs)} stations "
                                      "got an EAP-Success"))
    if has_handshake:
        last = {source for (source,) in fields.read_fields(
            capture, ("eth.src",), "wlan_rsna_eapol.keydes.msgnr == 4")}
        checks.append(CheckRecord(check="each has keys of its own", ok=set(macs) <= last,
                                  detail=f"{len(last & set(macs))} of {len(macs)} stations ended "
                                  "a four-way handshake"))
    return checks


def _check_keys(link: LinkLayer, macs: Sequence[str], authenticated: AbstractSet[str],
             repetition: Repetition) -> CheckRecord:
    """Check that each station uses keys of its own Access-Accept.

    The server accepted the station, and the station had the result of the EAP method. An
    EAP-Success proves less, because anyone can send one. If it is lost, it is not retransmitted,
    and a station with keys continues without it (RFC 3748, 4.2).
    """
    secrets = repetition.secrets["network"]
    messages = pcap.udp_payloads(repetition.out / "hall-wire.pcap", eap_keys.PORT)
    delivered = [(session.station, decryption.master_key(link, session))
                 for session in eap_keys.session_keys((message for _, message in messages),
                                                  secrets["radius_secret"].encode())]
    used = decryption.master_keys_in_use(repetition.out / "hall-short.pcap",
                                         [f"wpa-psk:{key}" for _, key in delivered])
    keyed = {mac for mac, key in delivered if key in used.get(mac, ())} & set(macs)
    return CheckRecord(check=_AUTHENTICATED, ok=keyed == set(macs),
                       detail=f"{len(keyed)} of {len(macs)} stations send under keys of their own "
                       f"Access-Accept; {len(authenticated & set(macs))} got an EAP-Success")


def _check_air(link: LinkLayer | None, macs: AbstractSet[str], addresses: Sequence[str],
                repetition: Repetition, kernel_keys: Sequence[str]) -> Iterator[CheckRecord]:
    """Check that all frames are protected as the policy requires.

    Short frames must also open with the keys. `kernel_keys` are pairwise keys from the kernel, used
    if no keys can be derived from the captures.
    """
    keys = None if link is None else decryption.keys_in_force(
        link, repetition.secrets["network"], repetition.out, parts=["hall"], ssids=[_AP.ssid or ""],
        kernel_keys=kernel_keys, receiving="ap")
    captures = dissect.read_all_packets([repetition.out / f"hall-{point}.pcap" for point in _AIR],
                                keys or ())
    short, every = ([p for p in packets if p.is_data and not p.is_eapol
                     and (p.transmitter in macs or p.transmitter == _CELL)]
                    for packets in captures)
    senders = {p.transmitter for p in every} & set(macs)
    as_due = sum(bool(evidence.frame_counter(link.cipher, p)) if link and p.protected
                 else not (link or p.protected) for p in every)
    yield CheckRecord(check="protected as the policy says",
                      ok=as_due == len(every) and senders == set(macs),
                      detail=f"{as_due} of {len(every)} frames of {len(senders)} stations and the "
                      f"access point are {f'under {link.cipher}' if link else 'in clear'}")
    if keys is not None:
        own = [p for p in short if not macs.isdisjoint((p.transmitter, p.receiver))]
        is_open, detail = evidence.describe_decryption(own, "the keys of their negotiations")
        heard = {p.transmitter for p in own if p.has_llc} & macs
        # Of streams, only the headers are captured. The check finds readable headers in frames that
        # are only marked as encrypted.
        readable, said = marked.count_in_files(repetition.out / f"hall-{point}.pcap" for point
                                               in _AIR)
        begun = heads.verify_heads(link, [repetition.out / "hall-air.pcap"], pairwise.temporal_keys(
            link, keys, [repetition.out / "hall-ap.pcap"]), macs, addresses) if link else None
        closed = begun.closed if begun else ()
        yield CheckRecord(check="frames open with the keys in force",
                          ok=is_open and heard == macs and not readable and not closed,
                          detail=f"{detail}; of {len(heard)} of {len(macs)} stations"
                          f"{begun.detail if begun else ''}{said}")
    elif link is not None:
        yield CheckRecord(check="frames open with the keys in force", ok=False,
                          detail="no kernel has told a key")


def _check_streams(names: Sequence[str], rates: Sequence[float]) -> CheckRecord:
    """Check that data of every station arrived while all stations streamed."""
    heard = sum(rate > 0 for rate in rates)
    return CheckRecord(check="all streams arrive", ok=heard == len(names),
                       detail=f"of {heard} of {len(names)} stations")
