"""What a full hall left is judged: who was let in, what the air showed, what arrived from whom."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from measure import dissect, fields, judging
from measure.record import CheckRecord
from policies import Policy
from studies.lecturehall import network
from studies.lecturehall.study import HallMeasured
from studies.study import Judged, Repetition
from topologies.model import STATION, Network

_RECORDED_RAW = ("stamps", "failure")


def judge(repetition: Repetition, raw: Mapping[str, Any]) -> Judged:
    """The body of the record, and evidence of it. Raises MeasureError."""
    about: dict[str, Any] = {"captures": raw["captures"], "elapsed_s": raw["elapsed_s"],
                             "raw": judging.kept(raw, _RECORDED_RAW)}
    if raw["failure"]:
        return Judged(None, reason=raw["failure"]["reason"], status="failed", **about)
    policy: Policy = repetition.cell.value("policy")
    hall = network.hall(int(repetition.cell.ids["stations"]))
    names = hall.of_duty(STATION)
    handshakes = _handshakes(repetition)
    took = [times[-1] - times[0] for mac in _macs(hall, names) if (times := handshakes.get(mac))]
    begun, all_on, end = (raw["stamps"][name] for name in ("start", "all_on", "end"))
    arrived = _arrived(repetition)
    asked = repetition.asked.model_dump()
    until = min(end, all_on + asked["stream_s"])
    bits = 8 * asked["stream_payload_bytes"]
    rates = [bits * sum(all_on <= at_s < until for at_s in arrived[hall.nodes[name].address])
             / (until - all_on) for name in names]
    evidence = [*_let_in(policy, _macs(hall, names), raw["let_in"], repetition),
                _on_the_air(policy, _macs(hall, names), repetition),
                _streams(names, rates)]
    reasons = [*judging.unproven(evidence), *judging.lost(raw)]
    measured = HallMeasured(handshakes_s=took, streams_bps=rates,
                            admissions_s=[raw["on_s"][name] - begun for name in names])
    return Judged(measured, evidence, "; ".join(reasons), "failed" if reasons else "ok", **about)


def _macs(hall: Network, names: Sequence[str]) -> list[str]:
    return [hall.nodes[name].interfaces["wlan0"].radio or "" for name in names]


def _handshakes(repetition: Repetition) -> Mapping[str, list[float]]:
    """When each station's EAPOL frames passed the access point, by its address."""
    own = network.hall(1).nodes[network.ACCESS_POINT].interfaces["wlan-ap"].radio
    times: dict[str, list[float]] = defaultdict(list)
    for at, source, target in fields.read(repetition.out / "hall-ap.pcap",
                                          ("frame.time_epoch", "eth.src", "eth.dst"), "eapol"):
        times[target if source == own else source].append(float(at))
    return times


def _arrived(repetition: Repetition) -> Mapping[str, list[float]]:
    """When the server had each datagram, by its sender."""
    times: dict[str, list[float]] = defaultdict(list)
    for at, source in fields.read(repetition.out / "hall-server.pcap",
                                  ("frame.time_epoch", "ip.src"), "udp"):
        times[source].append(float(at))
    return times


def _let_in(policy: Policy, macs: Sequence[str], let_in: Sequence[str],
            repetition: Repetition) -> list[CheckRecord]:
    """Everybody is let in, after what the policy asks of each: EAP's success, a handshake."""
    missing = set(macs) - set(let_in)
    checks = [CheckRecord(check="all let in", ok=not missing,
                          detail=f"{len(macs) - len(missing)} of {len(macs)} stations are "
                          "authorized by the access point's kernel")]
    capture = repetition.out / "hall-ap.pcap"
    if policy.uses_eap:
        passed = {target for (target,) in fields.read(capture, ("eth.dst",),
                                                      f"eap.code == {dissect.EAP_SUCCESS}")}
        checks.append(CheckRecord(check="each authenticated", ok=set(macs) <= passed,
                                  detail=f"{len(passed & set(macs))} of {len(macs)} stations got "
                                  "an EAP-Success"))
    link = policy.layers.link
    if link is not None and not link.cipher.startswith("WEP"):
        last = {source for (source,) in fields.read(
            capture, ("eth.src",), "wlan_rsna_eapol.keydes.msgnr == 4")}
        checks.append(CheckRecord(check="each has keys of its own", ok=set(macs) <= last,
                                  detail=f"{len(last & set(macs))} of {len(macs)} stations ended "
                                  "a four-way handshake"))
    return checks


def _on_the_air(policy: Policy, macs: Sequence[str], repetition: Repetition) -> CheckRecord:
    """Frames with data that stations sent are protected if the policy says so, and only then."""
    frames = fields.read(repetition.out / "hall-air.pcap", ("wlan.ta", "wlan.fc.protected"),
                         "wlan.fc.type == 2 && !(wlan.fc.subtype & 4) && !eapol")
    own = [protected in ("1", "True") for sender, protected in frames if sender in set(macs)]
    senders = {sender for sender, _ in frames} & set(macs)
    due = policy.layers.link is not None
    as_due = sum(protected is due for protected in own)
    return CheckRecord(check="protected as the policy says",
                       ok=as_due == len(own) and senders == set(macs),
                       detail=f"{as_due} of {len(own)} frames of {len(senders)} stations are "
                       f"{'protected' if due else 'in clear'}")


def _streams(names: Sequence[str], rates: Sequence[float]) -> CheckRecord:
    """Something of every station's stream arrived while all streamed."""
    heard = sum(rate > 0 for rate in rates)
    return CheckRecord(check="all streams arrive", ok=heard == len(names),
                       detail=f"of {heard} of {len(names)} stations")
