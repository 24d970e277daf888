"""The study `lecturehall` with its factors, metrics and controls."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any, ClassVar

from pydantic import Field

from measure.manifest import LevelRecord
from measure.record import RecordPart
from policies import Policy
from studies import mobile
from studies.changes import change_layer, remove_layer
from studies.lecturehall import network
from studies.study import (
    Asked,
    Cell,
    Clock,
    Expected,
    Factor,
    Fault,
    Judged,
    Lab,
    Level,
    Metric,
    Repetition,
    Study,
    StudyError,
    fixed_levels,
)
from studies.study import TestbedSpec as Spec

STATIONS = (1, 10, 25, 50)


def _refusal_reason(policy: Policy) -> str:
    """Return the reason why a policy cannot be measured in the hall, or ""."""
    if policy.layers.ipsec:
        return "IPsec is not measured here; leave layers.ipsec out, or run qop2007"
    return ("access points ask by UDP here; leave dot1x.transport out, or run qop2007"
            if policy.uses_radsec else "")


class HallAsked(Asked):
    """Settings of a repetition."""

    medium: str = Field("802.11g", description="The air, by the name of a medium or a .yml file.",
                        json_schema_extra={"option": "--medium"})
    stream_rate_bps: int = Field(1_000_000, ge=8_000, description="What each station streams.")
    stream_payload_bytes: int = Field(1200, ge=64, le=1472, description="Of each datagram.")
    stream_s: float = Field(3.0, gt=0, le=600, description="How long all stream together (s).")


class HallMeasured(RecordPart):
    """Results of a repetition.

    Lists have one value per station, in order.
    """

    #: Time from the first to the last EAPOL frame at the access point; empty without EAPOL.
    handshakes_s: list[float]
    #: Time from the common start until a station is connected.
    admissions_s: list[float]
    #: Rate of the data that arrived at the server while all stations streamed.
    streams_bps: list[float]


_TEN: Mapping[str, str] = {"policy": "M2", "stations": "10"}
_KEYS, _PROTECTED = "each has keys of its own", "protected as the policy says"
_OPEN = "frames open with the keys in force"


class LectureHall(Study):
    """Study of stations that connect to one cell and stream at once."""

    id: ClassVar[str] = "lecturehall"
    version: ClassVar[int] = 3
    title: ClassVar[str] = "A lecture hall at nine o'clock"
    factors: ClassVar[tuple[Factor, ...]] = (
        Factor("policy", "Policy", mobile.Policies(("P1", "M2", "M4"), refusal=_refusal_reason),
               plural="policies", option="--policies", file_option="--policy",
               help="What protects the cell: names of policies without IPsec, or .yml files.",
               file_help="A policy file of your own; may be repeated."),
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
        "hall-in-clear": Fault("nobody in the hall has the link's protection",
                               policy=remove_layer("link"), on=_TEN,
                               fails=[_KEYS, _PROTECTED, _OPEN]),
        "hall-weaker-cipher": Fault("TKIP in place of CCMP", on=_TEN, fails=[_PROTECTED, _OPEN],
                                    policy=change_layer("link", cipher="TKIP")),
        "hall-clear-but-marked": Fault("one frame that says it is encrypted and is not",
                                       on=_TEN, fails=[_OPEN]),
        "hall-one-remembered": Fault(
            "one station comes with keys of an earlier authentication",
            on={"policy": "M4", "stations": "10"}, fails=["each authenticated", _OPEN]),
        "hall-one-leaves": Fault("one station is gone at the end", on=_TEN,
                                 fails=["all let in"]),
        "hall-one-unheard": Fault("one station's stream goes where nobody listens", on=_TEN,
                                  fails=["all streams arrive"])}
    judged_with: ClassVar[Sequence[str]] = mobile.JUDGED_WITH
    lab: ClassVar[Lab] = Lab(node=lambda _: network.station_name(1))
    clock: ClassVar[Clock] = "virtual"
    asked: ClassVar[type[HallAsked]] = HallAsked
    measured: ClassVar[type[HallMeasured]] = HallMeasured
    inside: ClassVar[str] = "studies.lecturehall.inside"

    def level(self, factor: Factor, name: str, entry: LevelRecord) -> Level:
        """Restore a level, a policy from its content because it may be the user's."""
        return mobile.restore_level(factor.name, name, entry) if factor.name == "policy" \
            else super().level(factor, name, entry)

    def testbed(self, cell: Cell, settings: Asked) -> Spec:
        """Return a hall of the cell's size with the cell's policy."""
        assert isinstance(settings, HallAsked)
        return Spec(network=network.build_hall(int(cell.ids["stations"])),
                    policy=cell.value("policy"),
                    medium=mobile.read_medium(settings.medium))

    def expected_cost(self, cell: Cell, settings: Asked) -> Expected:
        """Return the expected cost: two seconds, and the duration of the streams."""
        assert isinstance(settings, HallAsked)
        return Expected(duration_s=2.0 + settings.stream_s, processor_s=3.0,
                        capture_bytes=30e3 * int(cell.ids["stations"]))

    def deadline_s(self, cell: Cell, settings: Asked) -> float:
        """Return 90 s plus ten times the duration of the streams.

        The 90 s include the longest wait for the stations (60 s).
        """
        assert isinstance(settings, HallAsked)
        return 90.0 + 10 * settings.stream_s

    def check_clock(self, clock: Clock, settings: Asked) -> None:
        """Refuse a hall without a medium, which would not be shared."""
        assert isinstance(settings, HallAsked)
        if mobile.read_medium(settings.medium) is None:
            raise StudyError("setting medium: none; a hall without an air has nothing to share")

    def judge(self, repetition: Repetition) -> Judged:
        """Judge the captures and the list of admitted stations.

        The captures are from the access point, the air, the wire and the server.
        """
        from studies.lecturehall import judge

        raw: dict[str, Any] = json.loads((repetition.out / "raw.json").read_text())
        return judge.judge_repetition(repetition, raw)

    def required_metrics(self, cell: Cell, settings: Asked,
                         clock: Clock | None) -> Sequence[Metric]:
        """Return all metrics that the policy allows.

        The authentication time is required only if the policy has a handshake.
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
