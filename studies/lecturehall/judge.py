"""Evaluate one measurement of lecturehall: compute measured values and run its checks.

Many stations join one access point at once, and stream to a server. `judge_repetition` reads the
captures and kernel state that one measurement (repetition) left. It returns measured values and
checks: were all stations admitted, frames protected, and streams received?
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

from measure.capture import dissection, pcap, tshark
from measure.checks import layer_checks
from measure.packets import decryption_keys, eap, truncated_frames
from measure.records import judgement
from measure.records.record import CheckRecord
from policies import LinkLayer, Policy
from studies.lecturehall import network
from studies.lecturehall.measurements import HallMeasurements
from studies.study import Judgement, Repetition
from topologies.model import STATION, Network

_RECORDED_RAW = ("stamps", "failure", "link_keys")
_AP = network.build_hall(1).nodes[network.ACCESS_POINT]
_CELL = _AP.interfaces[_AP.radio_interface].radio or ""
_AUTHENTICATED = "each authenticated"
#: Captures of the air: short frames whole, and the headers of all frames.
_AIR = ("short", "air")


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
    policy: Policy = repetition.cell.value("policy")
    hall = network.build_hall(int(repetition.cell.ids["stations"]))
    names = hall.of_duty(STATION)
    handshakes = _handshake_times(repetition)
    took = [times[-1] - times[0] for mac in _station_macs(hall, names)
            if (times := handshakes.get(mac))]
    begun, all_on, end = (raw["stamps"][name] for name in ("start", "all_on", "end"))
    arrived = _arrival_times(repetition)
    settings = repetition.settings.model_dump()
    until = min(end, all_on + settings["stream_s"])
    bits = 8 * settings["stream_payload_bytes"]
    rates = [bits * sum(all_on <= at_s < until for at_s in arrived[hall.nodes[name].address])
             / (until - all_on) for name in names]
    checks = [*_check_admissions(policy, _station_macs(hall, names), raw["let_in"], repetition),
              *_check_air(policy.layers.link, frozenset(_station_macs(hall, names)),
                          [hall.nodes[name].address for name in names], repetition,
                          raw["link_keys"]),
              _check_streams(names, rates)]
    reasons = [*judgement.failure_reasons(checks), *judgement.dropped_packets_reason(raw)]
    measured = HallMeasurements(handshakes_s=took, streams_bps=rates,
                                admissions_s=[raw["on_s"][name] - begun for name in names])
    return Judgement(measured, checks, "; ".join(reasons), **about)


def _station_macs(hall: Network, names: Sequence[str]) -> list[str]:
    return [hall.nodes[name].interfaces["wlan0"].radio or "" for name in names]


def _handshake_times(repetition: Repetition) -> Mapping[str, list[float]]:
    """Return the times of each station's EAPOL frames at the access point, by MAC address."""
    times: dict[str, list[float]] = defaultdict(list)
    for at, source, target in tshark.read_fields(repetition.out / "hall-ap.pcap",
                                          ("frame.time_epoch", "eth.src", "eth.dst"), "eapol"):
        times[target if source == _CELL else source].append(float(at))
    return times


def _arrival_times(repetition: Repetition) -> Mapping[str, list[float]]:
    """Return the arrival times of datagrams at the server, by sender."""
    times: dict[str, list[float]] = defaultdict(list)
    for at, source in tshark.read_fields(repetition.out / "hall-server.pcap",
                                         ("frame.time_epoch", "ip.src"), "udp"):
        times[source].append(float(at))
    return times


def _check_admissions(policy: Policy, macs: Sequence[str], let_in: Sequence[str],
                      repetition: Repetition) -> list[CheckRecord]:
    """Check that every station was admitted after EAP, a four-way handshake, or both.

    The policy says which of them is required.
    """
    missing = set(macs) - set(let_in)
    checks = [CheckRecord(check="all let in", ok=not missing,
                          detail=f"{len(macs) - len(missing)} of {len(macs)} stations are "
                          "authorized by the access point's kernel")]
    capture = repetition.out / "hall-ap.pcap"
    link = policy.layers.link
    has_handshake = link is not None and not link.is_wep
    if policy.uses_eap:
        accepted = {target for (target,) in tshark.read_fields(capture, ("eth.dst",),
                                                               f"eap.code == {tshark.EAP_SUCCESS}")}
        # With roaming within a subnet, access points hand over keys. They are known from the kernel
        # only, because no capture shows them.
        if link is not None and has_handshake and not link.roaming:
            checks.append(_check_keys(link, macs, accepted, repetition))
        else:
            checks.append(CheckRecord(check=_AUTHENTICATED, ok=set(macs) <= accepted,
                                      detail=f"{len(accepted & set(macs))} of {len(macs)} stations "
                                      "got an EAP-Success"))
    if has_handshake:
        last = {source for (source,) in tshark.read_fields(
            capture, ("eth.src",), "wlan_rsna_eapol.keydes.msgnr == 4")}
        checks.append(CheckRecord(check="each station has its own keys", ok=set(macs) <= last,
                                  detail=f"{len(last & set(macs))} of {len(macs)} stations ended "
                                  "a four-way handshake"))
    return checks


def _check_keys(link: LinkLayer, macs: Sequence[str], authenticated: AbstractSet[str],
                repetition: Repetition) -> CheckRecord:
    """Check that each station uses the keys that the RADIUS server sent in its Access-Accept.

    So the server accepted the station, and the station completed the EAP method. An EAP-Success
    would prove less, because anyone can send one. If it is lost, it is not sent again, and a
    station with keys continues without it (RFC 3748, 4.2).
    """
    secrets = repetition.secrets["network"]
    messages = pcap.udp_payloads(repetition.out / "hall-wire.pcap", eap.RADIUS_PORT)
    delivered = [(session.station, decryption_keys.master_key(link, session))
                 for session in eap.session_keys((message for _, message in messages),
                                                 secrets["radius_secret"].encode())]
    used = decryption_keys.master_keys_in_use(repetition.out / "hall-short.pcap",
                                              [f"wpa-psk:{key}" for _, key in delivered])
    keyed = {mac for mac, key in delivered if key in used.get(mac, ())} & set(macs)
    return CheckRecord(check=_AUTHENTICATED, ok=keyed == set(macs),
                       detail=f"{len(keyed)} of {len(macs)} stations send under keys of their own "
                       f"Access-Accept; {len(authenticated & set(macs))} got an EAP-Success")


def _check_air(link: LinkLayer | None, macs: AbstractSet[str], addresses: Sequence[str],
               repetition: Repetition, kernel_keys: Sequence[str]) -> Iterator[CheckRecord]:
    """Check that all frames on the air are protected as the policy requires.

    Short frames must also decrypt.

    Args:
        link: layer `link` of the policy.
        macs: MAC addresses of the stations.
        addresses: IP addresses of the stations.
        repetition: the repetition with its captures.
        kernel_keys: pairwise keys from the kernel, used if captures do not give the keys.
    """
    keys = None if link is None else decryption_keys.derive_decryption_keys(
        link, repetition.secrets["network"], repetition.out, parts=["hall"], ssids=[_AP.ssid or ""],
        kernel_keys=kernel_keys, receiving="ap")
    captures = dissection.read_all_packets([repetition.out / f"hall-{point}.pcap" for point
                                            in _AIR],
                                           keys or ())
    short, frames = ([p for p in packets if p.is_data and not p.is_eapol
                     and (p.transmitter in macs or p.transmitter == _CELL)]
                     for packets in captures)
    senders = {p.transmitter for p in frames} & set(macs)
    as_due = sum(bool(layer_checks.frame_counter(link.cipher, p)) if link and p.protected
                 else not (link or p.protected) for p in frames)
    yield CheckRecord(check="protected as the policy says",
                      ok=as_due == len(frames) and senders == set(macs),
                      detail=f"{as_due} of {len(frames)} frames of {len(senders)} stations and the "
                      f"access point are {f'under {link.cipher}' if link else 'in clear'}")
    if keys is not None:
        own = [p for p in short if not macs.isdisjoint((p.transmitter, p.receiver))]
        is_open, detail = layer_checks.describe_decryption(own, "the keys of their negotiations")
        heard = {p.transmitter for p in own if p.has_llc} & macs
        # Only the headers of the streams' frames are captured. The check finds readable headers in
        # frames that are only marked as encrypted.
        readable, example = truncated_frames.count_readable_frames(
            repetition.out / f"hall-{point}.pcap" for point in _AIR)
        begun = None
        if link:
            temporal_keys = decryption_keys.temporal_keys(link, keys,
                                                          [repetition.out / "hall-ap.pcap"])
            begun = truncated_frames.verify_frame_heads(link, [repetition.out / "hall-air.pcap"],
                                                        temporal_keys, macs, addresses)
        closed = begun.closed if begun else ()
        yield CheckRecord(check="frames open with the keys in force",
                          ok=is_open and heard == macs and not readable and not closed,
                          detail=f"{detail}; of {len(heard)} of {len(macs)} stations"
                          f"{begun.detail if begun else ''}{example}")
    elif link is not None:
        yield CheckRecord(check="frames open with the keys in force", ok=False,
                          detail="no kernel has told a key")


def _check_streams(names: Sequence[str], rates: Sequence[float]) -> CheckRecord:
    """Check that data of every station arrived while all stations streamed."""
    heard = sum(rate > 0 for rate in rates)
    return CheckRecord(check="all streams arrive", ok=heard == len(names),
                       detail=f"of {heard} of {len(names)} stations")
