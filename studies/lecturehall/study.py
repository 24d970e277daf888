"""Define the study lecturehall: many stations join one access point and stream at the same time.

`LectureHall` tells the measuring program what to vary (factors, such as the number of stations) and
what to measure (metrics). It names the code that runs and evaluates a measurement, and the faults
to inject.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any, ClassVar

from measure.records.manifest import LevelRecord
from policies import Policy
from studies import policy_factors
from studies.lecturehall import network
from studies.lecturehall.measurements import HallMeasurements
from studies.lecturehall.settings import HallSettings
from studies.policy_factors import change_layer, remove_layer
from studies.study import (
    Cell,
    Clock,
    DoctorTrial,
    ExpectedCost,
    Factor,
    Fault,
    Judgement,
    LabDefaults,
    Level,
    Metric,
    Repetition,
    Settings,
    Study,
    StudyError,
    fixed_levels,
)
from studies.study import TestbedSpec as Spec

STATIONS = (1, 10, 25, 50)


#: Settings that no check of the hall covers, by layer.
_NOT_PROVEN: Mapping[str, Sequence[str]] = {
    "link": ("group_cipher", "passphrases", "owe_transition", "offered", "accepted",
             "station_pmf", "station_groups", "access_point_groups", "anti_clogging"),
    "dot1x": ("message_authenticator", "accounting")}


def _refusal_reason(policy: Policy) -> str:
    """Return why the study cannot measure a policy, or "" if it can."""
    for layer, tunnel in (("ipsec", "IPsec"), ("wireguard", "WireGuard"), ("quic", "QUIC"),
                          ("mptcp", "Multipath TCP")):
        if getattr(policy.layers, layer):
            return f"{tunnel} is not measured here; leave layers.{layer} out, or run qop2007"
    for layer, names in _NOT_PROVEN.items():
        for name in names:
            if getattr(getattr(policy.layers, layer), name, None):
                return f"{layer}.{name} is not proven here; leave it out, or run qop2007"
    return ("access points ask by UDP here; leave dot1x.transport out, or run qop2007"
            if policy.uses_radsec else "")


_TEN: Mapping[str, str] = {"policy": "M2", "stations": "10"}
_KEYS, _PROTECTED = "each station has its own keys", "protected as the policy says"
_OPEN = "frames open with the keys in force"


class LectureHall(Study):
    """The study of many stations that join one access point and stream at once."""

    id: ClassVar[str] = "lecturehall"
    version: ClassVar[int] = 3
    title: ClassVar[str] = "A lecture hall at nine o'clock"
    factors: ClassVar[tuple[Factor, ...]] = (
        Factor("policy", "Policy",
               policy_factors.PolicyReader(("P1", "M2", "M4"), refusal=_refusal_reason),
               plural="policies", option="--policies", file_option="--policy",
               help="Protect the stations' traffic by these policies without IPsec, names or "
               ".yml files (default: from the profile, else P1, M2 and M4).",
               file_help="Measure a policy file of your own (may be repeated)."),
        Factor("stations", "Stations", fixed_levels(
            [Level(str(number), number=number) for number in STATIONS]), is_number=True,
            plural="stations"))
    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric("all_admitted_s", "until all are on", unit="s", better="lower", short="all",
               stops=True),
        Metric("admission_mean_s", "until a station is on", unit="s", better="lower"),
        Metric("handshake_mean_s", "authentication", unit="ms", scale=1e3, better="lower"),
        Metric("streams_total_bps", "all streams", unit="Mbit/s", scale=1e-6, better="higher"),
        Metric("stream_worst_bps", "the slowest stream", unit="Mbit/s", scale=1e-6,
               better="higher"),
        Metric("stream_fairness", "Jain's index", unit="", better="higher"))
    distributions: ClassVar[tuple[Metric, ...]] = (
        Metric("admissions_s", "until a station is on, each", unit="s"),
        Metric("handshakes_s", "authentication, each station", unit="ms", scale=1e3))
    faults: ClassVar[Mapping[str, Fault | str]] = {
        "hall-in-clear": Fault("no station in the hall has the link's protection",
                               policy=remove_layer("link"), on=_TEN,
                               fails=[_KEYS, _PROTECTED, _OPEN]),
        "hall-weaker-cipher": Fault("TKIP in place of CCMP", on=_TEN, fails=[_PROTECTED, _OPEN],
                                    policy=change_layer("link", cipher="TKIP")),
        "hall-clear-but-marked": Fault("one frame with the Protected bit is not encrypted",
                                       on=_TEN, fails=[_OPEN]),
        "hall-one-remembered": Fault(
            "one station comes with keys of an earlier authentication",
            on={"policy": "M4", "stations": "10"}, fails=["each authenticated", _OPEN]),
        "hall-one-leaves": Fault("one station is gone at the end", on=_TEN,
                                 fails=["all let in"]),
        "hall-one-unheard": Fault("one station's stream goes to a closed port", on=_TEN,
                                  fails=["all streams arrive"])}
    judged_with: ClassVar[Sequence[str]] = policy_factors.JUDGED_WITH
    lab: ClassVar[LabDefaults] = LabDefaults(node=lambda _: network.station_name(1))
    trial: ClassVar[DoctorTrial | None] = DoctorTrial(
        {"policy": "P1", "stations": "1"}, {"stream_s": "0.2"},
        ("hall-air.pcap", "hall-server.pcap"))
    clock: ClassVar[Clock] = "virtual"
    settings_type: ClassVar[type[HallSettings]] = HallSettings
    measurements_type: ClassVar[type[HallMeasurements]] = HallMeasurements
    workload_module: ClassVar[str] = "studies.lecturehall.workload"

    def level(self, factor: Factor, name: str, entry: LevelRecord) -> Level:
        """Restore a value of a factor, such as a policy, from its content in a stored plan."""
        return policy_factors.restore_level(factor.name, name, entry) if factor.name == "policy" \
            else super().level(factor, name, entry)

    def testbed(self, cell: Cell, settings: Settings) -> Spec:
        """Describe the test network: a hall with a number of stations, and a policy."""
        assert isinstance(settings, HallSettings)
        policy = cell.value("policy")
        return Spec(network=network.build_hall(int(cell.ids["stations"])), policy=policy,
                    medium=policy_factors.fit_medium(
                        policy_factors.read_medium(settings.medium), policy))

    def expected_cost(self, cell: Cell, settings: Settings) -> ExpectedCost:
        """Estimate the duration of a repetition: two seconds, and the streams."""
        assert isinstance(settings, HallSettings)
        return ExpectedCost(duration_s=2.0 + settings.stream_s, processor_s=3.0,
                            capture_bytes=30e3 * int(cell.ids["stations"]))

    def deadline_s(self, cell: Cell, settings: Settings) -> float:
        """Return the longest time (s) that one repetition may take before it is aborted.

        It is 90 s plus ten times the duration of the streams. The 90 s include the longest wait for
        the stations (60 s).
        """
        assert isinstance(settings, HallSettings)
        return 90.0 + 10 * settings.stream_s

    def check_clock(self, clock: Clock, settings: Settings) -> None:
        """Refuse to measure without a radio medium, because stations would not share the air."""
        assert isinstance(settings, HallSettings)
        if policy_factors.read_medium(settings.medium) is None:
            raise StudyError("setting medium: none; a hall without an air has nothing to share")

    def judge(self, repetition: Repetition) -> Judgement:
        """Evaluate one repetition by captures from access point, air, wire and server."""
        from studies.lecturehall import judge

        raw: dict[str, Any] = json.loads((repetition.out / "raw.json").read_text())
        return judge.judge_repetition(repetition, raw)

    def required_metrics(self, cell: Cell, settings: Settings,
                         clock: Clock | None) -> Sequence[Metric]:
        """Return the metrics that a repetition must have.

        Authentication times need a policy with a handshake.
        """
        has_handshake = cell.value("policy").has_handshake
        return [metric for metric in self.metrics
                if has_handshake or metric.name != "handshake_mean_s"]

    def values(self, measured: Any) -> Mapping[str, float | int | str | None]:
        """Return means, sums and the worst value over the stations of a repetition."""
        rates: Sequence[float] = measured.streams_bps
        waits: Sequence[float] = measured.admissions_s
        took: Sequence[float] = measured.handshakes_s
        squares = sum(rate ** 2 for rate in rates)
        return {"all_admitted_s": max(waits, default=None),
                "admission_mean_s": fmean(waits) if waits else None,
                "handshake_mean_s": fmean(took) if took else None,
                "streams_total_bps": sum(rates), "stream_worst_bps": min(rates, default=None),
                "stream_fairness": sum(rates) ** 2 / len(rates) / squares if squares else None}


STUDY = LectureHall()
