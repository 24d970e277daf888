"""Definition of the study, as the engine uses it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, ClassVar

from measure.manifest import LevelRecord
from studies import mobile
from studies.authenticast1998 import factors, network, timelines, video
from studies.authenticast1998.asked import DEVICES, Asked
from studies.authenticast1998.body import LOST, Measured
from studies.authenticast1998.controls import ON_AIR, ON_WIRES
from studies.authenticast1998.metrics import METRICS, TIMELINES
from studies.authenticast1998.programs import FRAMES_PER_S, LIMITED
from studies.authenticast1998.thermostat import showing
from studies.study import (
    Cell,
    Clock,
    Expected,
    Factor,
    Fault,
    Judged,
    Lab,
    Level,
    LivePage,
    Metric,
    Repetition,
    Study,
    StudyError,
)
from studies.study import TestbedSpec as Spec
from topologies.loader import TopologyError, load_device, to_json
from topologies.model import Scenario

if TYPE_CHECKING:
    from analysis.present.report import Report
    from analysis.results import Results

#: A testbed has this many clients. A cell with more clients gets a larger testbed.
_USUAL_CLIENTS = 5
_PACKETS_PER_FRAME = 3.9
#: Causes of losses that a packet with a wrong signature leads to.
_FAILED = ("failed", "bundle_failed", "bundle_incomplete")


_LAB = Lab({"heuristic": "p20", "clients": "5", "load": "idle", "policy": mobile.NO_POLICY,
            "scenario": factors.WIRES},
           node=lambda cell: str(cell.value("scenario").mobile_node)
           if mobile.is_on_air(cell) else network.client_name(1))


class Authenticast1998(Study):
    """A study of authenticated streams whose receivers cannot afford to verify every packet."""

    id: ClassVar[str] = "authenticast1998"
    title: ClassVar[str] = "Authenticast: adaptive authentication of streams"
    paper: ClassVar[str] = ("Schneck and Schwan, Authenticast: An Adaptive Protocol for "
                            "High-Performance, Secure Network Applications, 1998")
    factors: ClassVar[tuple[Factor, ...]] = factors.FACTORS
    metrics: ClassVar[tuple[Metric, ...]] = METRICS
    timelines: ClassVar[tuple[Metric, ...]] = TIMELINES
    faults: ClassVar[Mapping[str, Fault | str]] = {**ON_WIRES, **ON_AIR}
    proof_sets: ClassVar[Mapping[str, str]] = {"frames": "45"}
    lab: ClassVar[Lab] = _LAB
    live: ClassVar[LivePage | None] = showing.PAGE
    clock: ClassVar[Clock] = "virtual"
    devices_by: ClassVar[Sequence[Clock]] = ("virtual", "real")
    asked: ClassVar[type[Asked]] = Asked
    measured: ClassVar[type[Measured]] = Measured
    inside: ClassVar[str] = "studies.authenticast1998.inside"
    judged_with: ClassVar[Sequence[str]] = mobile.JUDGED_WITH

    def cells(self, levels: Mapping[str, Sequence[Level]]) -> Iterator[Cell]:
        """Yield the cells behind a figure, a table or a claim."""
        return factors.select_cells(levels)

    def level(self, factor: Factor, name: str, entry: LevelRecord) -> Level:
        """Return a level from a results folder.

        Policies and scenarios may be the user's own, so they are built from the stored content.
        """
        return factors.PLACES.restore_level(factor.name, name,
                                            entry) or super().level(factor, name, entry)

    def testbed(self, cell: Cell, settings: Asked) -> Spec:  # type: ignore[override]
        """Return server and clients on wires, or a policy in a scenario.

        Percentages are grouped apart from the other heuristics, so that two processors have work.
        On the air, the scenario's peer streams to its mobile node.
        """
        for setting in DEVICES:
            _check_device(setting, getattr(settings, setting))
        if mobile.is_on_air(cell):
            scenario: Scenario = cell.value("scenario")
            mobile.refuse_losses(scenario, mobile.ACCOUNTED, at=scenario.peer)
            return Spec(scenario.network, cell.value("policy").without_upper_layers,
                        mobile.medium_for(
                scenario, settings.medium),
                        {scenario.peer: settings.server_device,
                         scenario.mobile_node: settings.client_device})
        count = max(_USUAL_CLIENTS, int(cell.ids["clients"]))
        nodes = {network.client_name(number): settings.client_device for number
                 in range(1, count + 1)}
        kind = "percentages" if cell.value("heuristic").wish["scheme"] == "percentage" else "others"
        if settings.video:
            video.read_trace(settings.video)
        return Spec(network.build_star(count),
                    devices={network.SERVER: settings.server_device, **nodes},
                    options={"group": kind})

    def task(self, cell: Cell, settings: Asked) -> Mapping[str, Any]:  # type: ignore[override]
        """Return cell and settings as plain data."""
        on_air = mobile.is_on_air(cell)
        scenario = to_json(cell.value("scenario")) if on_air else None
        said = settings.model_dump(mode="json")
        if scenario is not None:
            said["payload_bytes"] = min(settings.payload_bytes, settings.air_payload_bytes)
        return {"heuristic": asdict(factors.heuristic_of(cell)), "clients": cell.ids["clients"],
                "load": asdict(cell.value("load")), "asked": said, "scenario": scenario,
                "trace": list(video.read_trace(settings.video)) if settings.video else [],
                "has_port": on_air and cell.value("policy").uses_eap}

    def unused_settings(self, cell: Cell, settings: Asked) -> Collection[str]:  # type: ignore[override]
        """Return the settings without effect in this cell.

        Over wires these are the settings of the air. Others are load times without a load, the cost
        of precomputed signing without it, and LIMIT where the controller has none.
        """
        heuristic, load = factors.heuristic_of(cell), cell.value("load")
        unused = set() if mobile.is_on_air(cell) else {"medium", "air_payload_bytes"}
        if not load.share:
            unused |= {"load_from_s", "load_to_s"}
        if settings.signing != "precomputed":
            unused.add("precomputed_ms")
        controller = heuristic.controller
        if controller["kind"] not in LIMITED or "limit" in controller:
            unused.add("limit")
        return unused

    def expected_cost(self, cell: Cell, settings: Asked) -> Expected:  # type: ignore[override]
        """Estimate the duration and costs from the number of packets."""
        packets, lasts_s = self._stream_size(cell, settings)
        return Expected(lasts_s, 0.7 + 0.0014 * packets,
                        packets * (settings.payload_bytes + 300))

    def deadline_s(self, cell: Cell, settings: Asked) -> float:  # type: ignore[override]
        """Return a deadline far above the time that the packets take on a slow machine."""
        packets, lasts_s = self._stream_size(cell, settings)
        return 120 + 0.05 * packets + 4 * lasts_s

    def notes(self, cells: Sequence[Cell], settings: Asked) -> Sequence[str]:  # type: ignore[override]
        """Return a line on the user's video, if there is one."""
        return [video.describe_video(settings.video, settings.frames)] if settings.video else []

    def _stream_size(self, cell: Cell, settings: Asked) -> tuple[float, float]:
        """Return the packets to all clients, and the duration of the stream (s)."""
        clients = int(cell.ids["clients"])
        if not settings.video or cell.value("load").rate_pps:
            return clients * settings.frames * _PACKETS_PER_FRAME, settings.frames / FRAMES_PER_S
        lines = video.read_trace(settings.video)
        share = settings.frames / len(lines)
        packets = sum(-(-int(line.split(",")[1]) // settings.payload_bytes) for line in lines)
        return clients * packets * share, video.encode_video(settings.video).lasts_s * share

    def judge(self, repetition: Repetition) -> Judged:
        """Verify every packet again, and account for it."""
        from studies.authenticast1998 import judge

        return judge.judge_repetition(repetition)

    def values(self, measured: Any) -> Mapping[str, float | int | str | None]:
        """Return the metrics and the sums over clients that Table 1 and the claims need."""
        clients = measured.clients
        # A favoured stream ends first and leaves its share to the others, so rates are compared
        # while all streams last.
        rates = [client.contended_pps or client.sent_pps for client in clients]
        lost = Counter[str]()
        for client in clients:
            lost.update(client.lost)
        return {**super().values(measured),
                **{f"lost_{cause}_packets": lost[cause] for cause in LOST},
                "verified_share": sum(client.verified for client in clients)
                / sum(client.sent for client in clients),
                "verified_pps": sum(client.verified / client.duration_s for client in clients),
                "first_sent_pps": rates[0], "others_sent_pps": sum(rates[1:]) / (
                    len(rates) - 1) if rates[1:] else None,
                "fairness_share": sum(rates) ** 2 / len(rates) / sum(
                    rate ** 2 for rate in rates) if any(rates) else None,
                "worst_sent_pps": min(rates),
                "altered_settled_packets": sum(client.altered_settled for client in clients),
                "altered_processed_packets": sum(client.altered_processed for client in clients),
                "failed_packets": sum(client.lost[cause] for client in clients
                                      for cause in _FAILED),
                "below_floor_s": max(client.below_floor_s for client in clients)}

    def series(self, measured: Any) -> Mapping[str, Sequence[tuple[float, float]]]:
        """Return the timelines, and each packet's fate by sequence number (Figs. 3 and 8)."""
        return {**super().series(measured), timelines.FATES: timelines.packet_fates(
            measured.lost_runs, measured.clients[0].sent)}

    def report(self, results: Results, options: Mapping[str, Any]) -> Report:
        """Return figures and tables of the paper, later comparisons and the claims."""
        from studies.authenticast1998.report import build_report

        return build_report(results, options, self)


def _check_device(setting: str, name: str) -> None:
    """Refuse a device that does not state the costs of the protocol's operations."""
    try:
        device = load_device(name)
    except TopologyError as error:
        raise StudyError(f"setting {setting}: {error}") from None
    lacking = [kind for kind in ("dsa-512-sign", "dsa-512-verify", "sha1")
               if kind not in device.work]
    if lacking:
        raise StudyError(f"setting {setting}: device {name}: does not say what {lacking[0]} takes; "
                         "choose another, or add it with its source")


STUDY = Authenticast1998()
