"""Define the study eapload2004, on EAP-TLS authentication at a loaded RADIUS server.

It repeats Kambourakis, Rouskas and Gritzalis' paper of 2004 on EAP-TLS from a visited network.
`EapLoad2004` tells the measuring program what to vary (factors), what to measure (metrics), which
code runs and evaluates a measurement, and how to report. `build_policy` returns the security policy
of a combination of factors. `studies.eapload2004` lists the terms.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from measure.charging.device import costs_s
from policies import AaaLayer, DaemonOptions, Dot1xLayer, Layers, LinkLayer, Policy, TlsSettings
from studies.eapload2004 import cells, network
from studies.eapload2004 import cells as eapload2004_cells
from studies.eapload2004.faults import CONTROLS
from studies.eapload2004.measurements import (
    BACKGROUND,
    BACKGROUND_P95,
    CAPACITY,
    DISTRIBUTIONS,
    METRICS,
    ROUND_TRIPS,
    SERVICE,
    SERVICE_P95,
    UTILIZATION,
    Measurements,
    OverloadRecord,
)
from studies.eapload2004.settings import Settings
from studies.study import (
    Cell,
    Clock,
    ExpectedCost,
    Factor,
    Fault,
    Judgement,
    Level,
    Metric,
    Repetition,
    Study,
    StudyError,
)
from studies.study import TestbedSpec as Spec
from topologies.device import Device
from topologies.loader import TopologyError, load_device, load_medium

if TYPE_CHECKING:
    from analysis.present.report import Report
    from analysis.queueing import Model
    from analysis.results import Results

#: Factors that belong to the policy.
_OF_POLICY = ("key", "chain", "tls", "sessions", "path", "fragment", "identity", "method",
              "server", "group")
#: Realm of the home network.
REALM = "home.example"
#: CPU time of the host for an authentication of the supplicant (s).
_FRONT_S = 0.06
#: CPU time of the host for an authentication of the background (s).
_BACK_S = 0.011
#: CPU time of the host for all else in a repetition (s).
_REPETITION_S = 4.0
#: One authentication by the load generator and one by eapol_test take as much CPU time as this
#: number of background authentications.
_REFERENCE = 6
#: Time from one authentication of the supplicant to the next without its round trips (s).
_TURN_S = 0.13
#: Round trips of an authentication between access point and server.
_TRIPS = 5
#: Number of saturations in a repetition, including the time of one client alone.
_SATURATIONS = 5
#: Assumed capacity (1/s) for the plan, if the device states none.
_CAPACITY = 90


class EapLoad2004(Study):
    """The study of EAP-TLS authentications at a RADIUS server that other clients load."""

    id: ClassVar[str] = "eapload2004"
    title: ClassVar[str] = "EAP-TLS under load, with the server in another network"
    paper: ClassVar[str] = ("Kambourakis, Rouskas and Gritzalis, Performance Evaluation of "
                            "Certificate Based Authentication in Integrated Emerging 3G and Wi-Fi "
                            "Networks, 2004")
    factors: ClassVar[tuple[Factor, ...]] = eapload2004_cells.FACTORS
    judges_claims: ClassVar[bool] = True
    metrics: ClassVar[tuple[Metric, ...]] = METRICS
    distributions: ClassVar[tuple[Metric, ...]] = DISTRIBUTIONS
    baseline: ClassVar[Mapping[str, str]] = {"place": "room"}
    faults: ClassVar[Mapping[str, Fault | str]] = CONTROLS
    proof_sets: ClassVar[Mapping[str, str]] = {"authentications": "6", "saturating": "40"}
    judged_with: ClassVar[Sequence[str]] = (
        "network.radius_secret", "network.imsi", "subscriber.key_hex", "subscriber.opc_hex")
    clock: ClassVar[Clock] = "virtual"
    devices_by: ClassVar[Sequence[Clock]] = ("virtual", "real")
    settings_type: ClassVar[type[Settings]] = Settings
    measurements_type: ClassVar[type[Measurements]] = Measurements
    workload_module: ClassVar[str] = "studies.eapload2004.workload"

    def cells(self, levels: Mapping[str, Sequence[Level]]) -> Iterator[Cell]:
        """Yield the combinations of factor values to measure, which vary one factor at a time."""
        return eapload2004_cells.select_cells(levels)

    def testbed(self, cell: Cell, settings: Settings) -> Spec:  # type: ignore[override]
        """Describe the test network: the paper's Figure 4 with policy, round trip and losses.

        Raises:
            StudyError: a processor model is unknown or lacks a time, or the load is too high.
        """
        place: eapload2004_cells.AirPlace = cell.value("place")
        medium = load_medium("802.11g")
        if place.loss_percent:
            medium = replace(medium, name=f"{medium.name}-{place.loss_percent:g}-percent-lost",
                             loss_percent=place.loss_percent, retries=place.retries)
        nodes = {network.SERVER: settings.server_device,
                 network.STATION_NODE: settings.client_device}
        for name in nodes.values():
            _check_device(name, cell.ids["key"])
        cells.check_offered(cell.ids, settings)
        drawn = network.figure_4(float(cell.ids["rtt"]), path=cell.ids["path"],
                                 hss_ms=float(cell.ids["hss"]) if cell.ids["method"] == "aka"
                                 else None)
        return Spec(drawn, build_policy(cell.ids), medium, nodes,
                    options={"key": cell.ids["key"]},
                    packages="eapol-test" if cell.ids["driver"] == "eapol_test" else "",
                    memory_mb=cells.memory_mb(cell.ids, settings))

    def task(self, cell: Cell, settings: Settings) -> Mapping[str, Any]:  # type: ignore[override]
        """Return the instructions for a repetition: its load and the settings."""
        return {"load": float(cell.ids["load"]), "share": float(cell.ids["share"]) / 100,
                "tls": cell.ids["tls"], "sessions": cell.ids["sessions"],
                "driver": cell.ids["driver"], "calibrates": _is_calibration(cell),
                "overloads": cells.is_overloaded(cell.ids, settings),
                "asked": settings.model_dump(mode="json")}

    def unused_settings(self, cell: Cell,
                        settings: Settings) -> Collection[str]:  # type: ignore[override]
        """Return the settings that have no effect on this combination of factors."""
        ids, unused = cell.ids, set[str]()
        is_loaded = ids["load"] != "0" or ids["share"] != "0"
        if not is_loaded:
            unused |= {"steady_s", "arrivals"}
        if not is_loaded and ids["sessions"] != "resumed":
            unused.add("stations")
        if not is_loaded or ids["sessions"] != "resumed":
            unused.add("resumed_share")
        if not (_is_calibration(cell) or ids["share"] != "0"):
            unused.add("customers")
            if ids["driver"] != "eapol_test":
                unused.add("saturating")
        if not cells.is_overloaded(ids, settings):
            unused.add("overload_s")
        return unused

    def warm_up(self, settings: Settings) -> Settings:  # type: ignore[override]
        """Return settings for a first run that is not measured: two authentications.

        More are not needed, because times do not change from the first one on.
        """
        return settings.model_copy(update={"authentications": 2, "saturating": 40})

    def expected_cost(self, cell: Cell,
                      settings: Settings) -> ExpectedCost:  # type: ignore[override]
        """Estimate duration, CPU time (s) and capture bytes of a repetition."""
        capacity = cells.capacity_per_s(cell.ids, settings) or _CAPACITY
        behind = (_loaded_s(cell, settings) * cells.rate_per_s(cell.ids, capacity)
                  + settings.saturating * (_is_calibration(cell) or cell.ids["share"] != "0"))
        if cell.ids["driver"] == "eapol_test":
            behind += _REFERENCE * settings.saturating
        processor_s = (_REPETITION_S + _FRONT_S * settings.authentications + _BACK_S * behind)
        return ExpectedCost(processor_s, processor_s, 4000 * behind / 8)

    def deadline_s(self, cell: Cell, settings: Settings) -> float:  # type: ignore[override]
        """Return the longest time (s) that one repetition may take before it is aborted.

        It is 120 s plus ten times its expected time. Twice the time of load and calibration is
        added, because real time skips nothing.
        """
        capacity = cells.capacity_per_s(cell.ids, settings) or _CAPACITY
        waited_s = _loaded_s(cell, settings) + _SATURATIONS * settings.saturating / capacity
        return 120 + 10 * self.expected_cost(cell, settings).duration_s + 2 * waited_s

    def check_clock(self, clock: Clock, settings: Settings) -> None:  # type: ignore[override]
        """Check that the clock can measure with the chosen processor models.

        In virtual time computing is free, so the server needs a model. In real time, a model of the
        station needs one of the server: the queueing model assumes that the station computes on the
        machine's one processor.

        Raises:
            StudyError: the clock cannot measure with these processor models.
        """
        if clock == "virtual" and load_device(settings.server_device).is_neutral:
            raise StudyError(
                f"server: device {settings.server_device}: computing is free in virtual "
                "time, so that nobody would wait for a server; give --server-device "
                "one with times, or --clock real")
        server, client = (load_device(name).is_neutral for name in (
            settings.server_device, settings.client_device))
        if clock == "real" and server and not client:
            raise StudyError(
                f"client: device {settings.client_device}: in real time the supplicant "
                "has a device only beside a server that has one; give "
                "--client-device today, or a --server-device with times")

    def judge(self, repetition: Repetition) -> Judgement:
        """Evaluate one repetition: compute measured values from captures, and check them."""
        from studies.eapload2004 import judge

        return judge.judge_repetition(repetition)

    def required_metrics(self, cell: Cell, settings: Settings,  # type: ignore[override]
                         clock: Clock | None) -> Sequence[Metric]:
        """Return the metrics that a repetition must have.

        The station's metrics are always required, others if the combination measures them. An
        overloaded server may accept no background authentication. In real time the utilization is
        unknown without a measured capacity.
        """
        has_share = bool(float(cell.ids["share"]))
        has_capacity = has_share or _is_calibration(cell)
        has_background = (has_share or bool(float(cell.ids["load"]))) and not (
            cells.is_overloaded(cell.ids, settings))
        return [SERVICE, SERVICE_P95, ROUND_TRIPS,
                *([BACKGROUND, BACKGROUND_P95] if has_background else []),
                *([CAPACITY] if has_capacity else []),
                *([UTILIZATION] if has_capacity or clock == "virtual" else [])]

    def values(self, measured: Any) -> Mapping[str, float | int | str | None]:
        """Return the measured values of a repetition as a row, with steps and capacity."""
        saturation, after = measured.saturation, measured.saturation_after
        overloaded = OverloadRecord.model_fields
        return {**super().values(measured), **dict(measured.split),
                **{name: getattr(measured.overload, name, None) for name in overloaded},
                "capacity_per_s": saturation.capacity_per_s if saturation else None,
                "alone_s": saturation.alone_s if saturation else None,
                "rested_s": saturation.rested_s if saturation else None,
                "alone_after_s": after.alone_s if after else None,
                "capacity_after_per_s": after.capacity_per_s if after else None,
                "rate_per_s": measured.rate_per_s or None}

    def samples(self, measured: Any) -> Mapping[str, Sequence[float]]:
        """Return lists of measured values: authentication times, arrivals, and steps."""
        calibrations = {"before": measured.saturation, "after": measured.saturation_after}
        return {**super().samples(measured), "arrivals_s": measured.arrivals_s,
                **{f"{name}_{when}": seconds for when, calibration in calibrations.items()
                   if calibration for name, seconds in calibration.to_samples().items()},
                "meetings_s": measured.meetings_s,
                **{f"asked_{number}_s": instants
                   for number, instants in enumerate(measured.asked_s)},
                **{f"demand_{part}_s": seconds for part, seconds in measured.demands_s.items()},
                **{f"waterfall_{part}_s": instants
                   for part, instants in measured.waterfall_s.items()}}

    def queueing_model(self, results: Results) -> Model:
        """Return the queueing model of the server with station and background.

        Raises:
            QueueingError: its inputs were not measured.
        """
        from analysis.cells import Cells
        from studies.eapload2004 import model

        return model.build_model(Cells(results))

    def report(self, results: Results, options: Mapping[str, Any]) -> Report:
        """Build the report: Table 1, Figure 5, queueing model and claims."""
        from studies.eapload2004.report import build_report

        return build_report(results, options, self)


def _loaded_s(cell: Cell, settings: Settings) -> float:
    """Return the approximate duration of the load (s)."""
    if cells.is_overloaded(cell.ids, settings):
        return settings.steady_s + settings.overload_s
    turn_s = _TURN_S + _TRIPS * float(cell.ids["rtt"]) / 1e3
    capacity = cells.capacity_per_s(cell.ids, settings) or _CAPACITY
    rate = cells.rate_per_s(cell.ids, capacity)
    return max(settings.steady_s + settings.authentications * turn_s,
               settings.arrivals / rate if rate else 0.0)


def _is_calibration(cell: Cell) -> bool:
    """Return whether the combination measures the server's capacity, without load."""
    return tuple(cell.ids.values()) == eapload2004_cells.ALONE


def build_policy(ids: Mapping[str, str]) -> Policy:
    """Return the security policy of a combination, with EAP method, certificates and sessions."""
    is_tls = ids["method"] == "tls"
    tls = TlsSettings.model_validate({"version": ids["tls"], "key": ids["key"],
                                      "chain": int(ids["chain"]), "sessions": ids["sessions"],
                                      "fragment_bytes": int(ids["fragment"]),
                                      # P-256 is what FreeRADIUS insists on by itself.
                                      "group": ids["group"] if ids["group"]
                                      != eapload2004_cells.NOMINAL["group"] else None,
                                      "realm": REALM if ids["path"] == "proxied" else None})
    name = "-".join(ids[factor] if factor == "group" else f"{factor}-{ids[factor]}"
                    for factor in _OF_POLICY
                    if ids[factor] != eapload2004_cells.NOMINAL[factor]) or "nominal"
    # The usual fragment is as large as the background's: its request is one IP packet.
    is_usual = ids["fragment"] == eapload2004_cells.NOMINAL["fragment"]
    options = DaemonOptions(wpa_supplicant={
        "fragment_size": 1200 if is_usual else int(ids["fragment"])})
    return Policy(id=name.replace(".", "-"), name=f"EAP-{ids['method'].upper()} {name}",
                  layers=Layers(link=LinkLayer(cipher="CCMP", keys="eap"), dot1x=Dot1xLayer(
                      eap="TLS" if is_tls else "AKA", tls=tls, options=options),
                                aaa=_build_aaa_layer(ids)))


def _build_aaa_layer(ids: Mapping[str, str]) -> AaaLayer | None:
    """Return the policy's layer for the RADIUS server, or None for the defaults.

    The defaults are FreeRADIUS in the home network, and the permanent identity.
    """
    layer = AaaLayer.model_validate({
        "server": ids["server"], "authority": "visited" if ids["path"] == "near" else "home",
        "identity": "temporary" if ids["identity"] == "p-tmsi" else "permanent"})
    return None if layer == AaaLayer() else layer


def _check_device(name: str, key: str) -> None:
    """Check that a processor model has the times of the required kind of key.

    Raises:
        StudyError: the model is unknown or lacks a time.
    """
    try:
        device: Device = load_device(name)
    except TopologyError as error:
        raise StudyError(str(error)) from None
    if device.is_neutral:
        return
    try:
        costs_s({kind: vars(work) for kind, work in device.work.items()}, key)
    except KeyError as error:
        raise StudyError(f"device {name}: does not say what {error.args[0]} takes; choose another, "
                         "or add it with its source") from None


STUDY = EapLoad2004()
