"""Define the study authenticast1998, on signed video streams that receivers cannot fully verify.

It repeats measurements of Schneck and Schwan (1998). `Authenticast1998` tells the measuring program
what to vary (factors), what to measure (metrics), which code runs and evaluates a measurement, and
how to report. `studies.authenticast1998` lists the terms.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, ClassVar

from measure.records.manifest import LevelRecord
from studies import policy_factors
from studies.authenticast1998 import cells, measurements, video
from studies.authenticast1998.faults import ON_AIR, ON_WIRES
from studies.authenticast1998.measurements import LOST, METRICS, TIMELINES, Measurements
from studies.authenticast1998.programs import FRAMES_PER_S, LIMITED
from studies.authenticast1998.settings import DEVICES, Settings
from studies.authenticast1998.thermostat import page
from studies.study import (
    Cell,
    Clock,
    ExpectedCost,
    Factor,
    Fault,
    Judgement,
    LabDefaults,
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


_LAB = LabDefaults({"heuristic": "p20", "clients": "5", "load": "idle",
                    "policy": policy_factors.NO_POLICY,
                    "scenario": cells.WIRES},
                   node=lambda cell: str(cell.value("scenario").mobile_node)
                   if policy_factors.is_on_air(cell) else cells.client_name(1))


class Authenticast1998(Study):
    """The study of signed streams whose receivers are too slow to verify every packet."""

    id: ClassVar[str] = "authenticast1998"
    title: ClassVar[str] = "Authenticast: adaptive authentication of streams"
    paper: ClassVar[str] = ("Schneck and Schwan, Authenticast: An Adaptive Protocol for "
                            "High-Performance, Secure Network Applications, 1998")
    factors: ClassVar[tuple[Factor, ...]] = cells.FACTORS
    judges_claims: ClassVar[bool] = True
    metrics: ClassVar[tuple[Metric, ...]] = METRICS
    timelines: ClassVar[tuple[Metric, ...]] = TIMELINES
    faults: ClassVar[Mapping[str, Fault | str]] = {**ON_WIRES, **ON_AIR}
    proof_sets: ClassVar[Mapping[str, str]] = {"frames": "45"}
    lab: ClassVar[LabDefaults] = _LAB
    live: ClassVar[LivePage | None] = page.PAGE
    clock: ClassVar[Clock] = "virtual"
    devices_by: ClassVar[Sequence[Clock]] = ("virtual", "real")
    settings_type: ClassVar[type[Settings]] = Settings
    measurements_type: ClassVar[type[Measurements]] = Measurements
    workload_module: ClassVar[str] = "studies.authenticast1998.workload"
    judged_with: ClassVar[Sequence[str]] = policy_factors.JUDGED_WITH

    def cells(self, levels: Mapping[str, Sequence[Level]]) -> Iterator[Cell]:
        """Yield the combinations of factor values that a figure, a table or a claim needs."""
        return cells.select_cells(levels)

    def level(self, factor: Factor, name: str, entry: LevelRecord) -> Level:
        """Restore a value of a factor, such as a policy, from its content in a stored plan.

        The content is needed because the user's own files may be gone.
        """
        return cells.PLACES.restore_level(factor.name, name,
                                          entry) or super().level(factor, name, entry)

    def testbed(self, cell: Cell, settings: Settings) -> Spec:  # type: ignore[override]
        """Describe the test network: server and clients on Ethernet, or a policy in a scenario.

        On the air, the scenario's peer streams to its mobile node. Repetitions with a fixed
        verified fraction use another network than the others, so that two can run at a time.
        """
        for setting in DEVICES:
            _check_device(setting, getattr(settings, setting))
        if policy_factors.is_on_air(cell):
            scenario: Scenario = cell.value("scenario")
            policy_factors.refuse_losses(scenario, policy_factors.ACCOUNTED, at=scenario.peer)
            return Spec(scenario.network, cell.value("policy").without_upper_layers,
                        policy_factors.load_scenario_medium(
                scenario, settings.medium, cell.value("policy")),
                        {scenario.peer: settings.server_device,
                         scenario.mobile_node: settings.client_device})
        count = max(_USUAL_CLIENTS, int(cell.ids["clients"]))
        nodes = {cells.client_name(number): settings.client_device for number
                 in range(1, count + 1)}
        kind = "percentages" if cell.value("heuristic").wish["scheme"] == "percentage" else "others"
        if settings.video:
            video.read_trace(settings.video)
        return Spec(cells.build_star(count),
                    devices={cells.SERVER: settings.server_device, **nodes},
                    options={"group": kind})

    def task(self, cell: Cell, settings: Settings) -> Mapping[str, Any]:  # type: ignore[override]
        """Return the instructions for a repetition: its combination of factors and settings."""
        on_air = policy_factors.is_on_air(cell)
        scenario = to_json(cell.value("scenario")) if on_air else None
        stored = settings.model_dump(mode="json")
        if scenario is not None:
            stored["payload_bytes"] = min(settings.payload_bytes, settings.air_payload_bytes)
        return {"heuristic": asdict(cells.heuristic_of(cell)), "clients": cell.ids["clients"],
                "load": asdict(cell.value("load")), "asked": stored, "scenario": scenario,
                "trace": list(video.read_trace(settings.video)) if settings.video else [],
                "has_port": on_air and cell.value("policy").uses_eap}

    def unused_settings(self, cell: Cell,
                        settings: Settings) -> Collection[str]:  # type: ignore[override]
        """Return the settings that have no effect on this combination of factors.

        Over Ethernet these are the settings of the air. Others are times of a disturbance that is
        absent, the cost of precomputed signatures, and LIMIT for a controller without one.
        """
        heuristic, load = cells.heuristic_of(cell), cell.value("load")
        unused = set() if policy_factors.is_on_air(cell) else {"medium", "air_payload_bytes"}
        if not load.share:
            unused |= {"load_from_s", "load_to_s"}
        if settings.signing != "precomputed":
            unused.add("precomputed_ms")
        controller = heuristic.controller
        if controller["kind"] not in LIMITED or "limit" in controller:
            unused.add("limit")
        return unused

    def expected_cost(self, cell: Cell,
                      settings: Settings) -> ExpectedCost:  # type: ignore[override]
        """Estimate duration, CPU time and capture size of a repetition from its packets."""
        packets, lasts_s = self._stream_size(cell, settings)
        return ExpectedCost(lasts_s, 0.7 + 0.0014 * packets,
                            packets * (settings.payload_bytes + 300))

    def deadline_s(self, cell: Cell, settings: Settings) -> float:  # type: ignore[override]
        """Return the longest time (s) that one repetition may take before it is aborted."""
        packets, lasts_s = self._stream_size(cell, settings)
        return 120 + 0.05 * packets + 4 * lasts_s

    def notes(self, cells: Sequence[Cell],
              settings: Settings) -> Sequence[str]:  # type: ignore[override]
        """Return a line that describes the user's own video, if there is one."""
        return [video.describe_video(settings.video, settings.frames)] if settings.video else []

    def _stream_size(self, cell: Cell, settings: Settings) -> tuple[float, float]:
        """Return the number of packets to all clients, and the duration of the stream (s)."""
        clients = int(cell.ids["clients"])
        if not settings.video or cell.value("load").rate_pps:
            return clients * settings.frames * _PACKETS_PER_FRAME, settings.frames / FRAMES_PER_S
        lines = video.read_trace(settings.video)
        share = settings.frames / len(lines)
        packets = sum(-(-int(line.split(",")[1]) // settings.payload_bytes) for line in lines)
        return clients * packets * share, video.encode_video(settings.video).lasts_s * share

    def judge(self, repetition: Repetition) -> Judgement:
        """Evaluate one repetition: verify every packet again, and count lost packets."""
        from studies.authenticast1998 import judge

        return judge.judge_repetition(repetition)

    def values(self, measured: Any) -> Mapping[str, float | int | str | None]:
        """Return the measured values of a repetition as a row, with sums over the clients."""
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
        """Return a repetition's timelines for figures, and each packet's result (Figs. 3, 8)."""
        return {**super().series(measured), measurements.FATES: measurements.packet_fates(
            measured.lost_runs, measured.clients[0].sent)}

    def report(self, results: Results, options: Mapping[str, Any]) -> Report:
        """Build the report of a run: the paper's figures, tables and claims, and comparisons."""
        from studies.authenticast1998.report import build_report

        return build_report(results, options, self)


def _check_device(setting: str, name: str) -> None:
    """Refuse a device model that lacks the time of an operation of the protocol."""
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
