"""Definition of the study eapload2004 for the engine."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from measure.charging import library
from measure.charging.device import costs_s
from policies import AaaLayer, DaemonOptions, Dot1xLayer, Layers, LinkLayer, Policy, TlsSettings
from studies.eapload2004 import design, network, overload
from studies.eapload2004.asked import Asked
from studies.eapload2004.body import Measured, OverloadRecord
from studies.eapload2004.controls import CONTROLS
from studies.eapload2004.metrics import (
    BACKGROUND,
    BACKGROUND_P95,
    CAPACITY,
    DISTRIBUTIONS,
    METRICS,
    ROUND_TRIPS,
    SERVICE,
    SERVICE_P95,
    UTILIZATION,
)
from studies.study import (
    Cell,
    Clock,
    Expected,
    Factor,
    Fault,
    Judged,
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
              "server")
#: Realm of the home network.
REALM = "home.example"
#: Processor seconds of the host: per authentication of the supplicant, per one of the background,
#: and per repetition.
_FRONT_S, _BACK_S, _REPETITION_S = 0.06, 0.011, 4.0
#: Cost of one authentication by the generator and one by eapol_test, in those of the background.
_REFERENCE = 6
#: Time (s) from one authentication of the supplicant to the next without its round trips, and their
#: number.
_TURN_S, _TRIPS = 0.13, 5
#: Number of saturations in a repetition, including the time of one client alone.
_SATURATIONS = 5
#: Assumed capacity (1/s) for the plan, if the device states none.
_CAPACITY = 90


class EapLoad2004(Study):
    """The study of EAP-TLS authentications at a server that is loaded with others."""

    id: ClassVar[str] = "eapload2004"
    title: ClassVar[str] = "EAP-TLS under load, with the server in another network"
    paper: ClassVar[str] = ("Kambourakis, Rouskas and Gritzalis, Performance Evaluation of "
                            "Certificate Based Authentication in Integrated Emerging 3G and Wi-Fi "
                            "Networks, 2004")
    factors: ClassVar[tuple[Factor, ...]] = design.FACTORS
    metrics: ClassVar[tuple[Metric, ...]] = METRICS
    distributions: ClassVar[tuple[Metric, ...]] = DISTRIBUTIONS
    baseline: ClassVar[Mapping[str, str]] = {"place": "room"}
    faults: ClassVar[Mapping[str, Fault | str]] = CONTROLS
    proof_sets: ClassVar[Mapping[str, str]] = {"authentications": "6", "saturating": "40"}
    judged_with: ClassVar[Sequence[str]] = (
        "network.radius_secret", "network.imsi", "subscriber.key_hex", "subscriber.opc_hex")
    clock: ClassVar[Clock] = "virtual"
    devices_by: ClassVar[Sequence[Clock]] = ("virtual", "real")
    asked: ClassVar[type[Asked]] = Asked
    measured: ClassVar[type[Measured]] = Measured
    inside: ClassVar[str] = "studies.eapload2004.inside"

    def cells(self, levels: Mapping[str, Sequence[Level]]) -> Iterator[Cell]:
        """Yield the cells of the chosen levels, one varied factor at a time."""
        return design.select_cells(levels)

    def testbed(self, cell: Cell, settings: Asked) -> Spec:  # type: ignore[override]
        """Return the testbed: the paper's Figure 4 with the cell's policy, round trip and losses.

        Raises:
            StudyError: A device is unknown or lacks a cost, or the load cannot be offered.
        """
        place: design.AirPlace = cell.value("place")
        medium = load_medium("802.11g")
        if place.loss_percent:
            medium = replace(medium, name=f"{medium.name}-{place.loss_percent:g}-percent-lost",
                             loss_percent=place.loss_percent, retries=place.retries)
        nodes = {network.SERVER: settings.server_device,
                 network.STATION_NODE: settings.client_device}
        for name in nodes.values():
            _check_device(name, cell.ids["key"])
        overload.check_offered(cell.ids, settings)
        drawn = network.figure_4(float(cell.ids["rtt"]), path=cell.ids["path"],
                                 hss_ms=float(cell.ids["hss"]) if cell.ids["method"] == "aka"
                                 else None)
        return Spec(drawn, build_policy(cell.ids), medium, nodes,
                    options={"key": cell.ids["key"], "library": library.compile_if_possible()},
                    packages="eapol-test" if cell.ids["driver"] == "eapol_test" else "",
                    memory_mb=overload.memory_mb(cell.ids, settings))

    def task(self, cell: Cell, settings: Asked) -> Mapping[str, Any]:  # type: ignore[override]
        """Return the workload's task: the load of the cell, and the settings."""
        return {"load": float(cell.ids["load"]), "share": float(cell.ids["share"]) / 100,
                "tls": cell.ids["tls"], "sessions": cell.ids["sessions"],
                "driver": cell.ids["driver"], "calibrates": _is_calibration(cell),
                "overloads": overload.is_overloaded(cell.ids, settings),
                "asked": settings.model_dump(mode="json")}

    def unused_settings(self, cell: Cell, settings: Asked) -> Collection[str]:  # type: ignore[override]
        """Return the settings without effect in the cell, such as the background's without load."""
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
        if not overload.is_overloaded(ids, settings):
            unused.add("overload_s")
        return unused

    def warm_up(self, settings: Asked) -> Asked:  # type: ignore[override]
        """Return settings with two authentications.

        More are not needed: times do not change from the first one on.
        """
        return settings.model_copy(update={"authentications": 2, "saturating": 40})

    def expected_cost(self, cell: Cell, settings: Asked) -> Expected:  # type: ignore[override]
        """Return the expected times (s) and capture bytes, by number of authentications."""
        capacity = overload.capacity_per_s(cell.ids, settings) or _CAPACITY
        behind = (_loaded_s(cell, settings) * overload.rate_per_s(cell.ids, capacity)
                  + settings.saturating * (_is_calibration(cell) or cell.ids["share"] != "0"))
        if cell.ids["driver"] == "eapol_test":
            behind += _REFERENCE * settings.saturating
        processor_s = (_REPETITION_S + _FRONT_S * settings.authentications + _BACK_S * behind)
        return Expected(processor_s, processor_s, 4000 * behind / 8)

    def deadline_s(self, cell: Cell, settings: Asked) -> float:  # type: ignore[override]
        """Return the time limit of a repetition: 120 s plus ten times its expected time.

        Twice the time of load and calibration is added, because real time skips nothing.
        """
        capacity = overload.capacity_per_s(cell.ids, settings) or _CAPACITY
        waited_s = _loaded_s(cell, settings) + _SATURATIONS * settings.saturating / capacity
        return 120 + 10 * self.expected_cost(cell, settings).duration_s + 2 * waited_s

    def check_clock(self, clock: Clock, settings: Asked) -> None:  # type: ignore[override]
        """Check that the clock can measure with the devices.

        In virtual time computing is free, so the server needs a device. In real time, a
        supplicant's device needs a device of the server: the model assumes that the supplicant's
        work is on the machine's one processor.

        Raises:
            StudyError: The clock cannot measure with the devices.
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

    def judge(self, repetition: Repetition) -> Judged:
        """Return the measured values and the evidence of a repetition."""
        from studies.eapload2004 import judge

        return judge.judge_repetition(repetition)

    def required_metrics(self, cell: Cell, settings: Asked,  # type: ignore[override]
                         clock: Clock | None) -> Sequence[Metric]:
        """Return the metrics that a cell must have.

        The supplicant's are always required, the background's and the capacity where the cell has
        them. An overloaded server may accept none of the background. In real time the utilization
        is unknown without a measured capacity.
        """
        has_share = bool(float(cell.ids["share"]))
        has_capacity = has_share or _is_calibration(cell)
        has_background = (has_share or bool(float(cell.ids["load"]))) and not (
            overload.is_overloaded(cell.ids, settings))
        return [SERVICE, SERVICE_P95, ROUND_TRIPS,
                *([BACKGROUND, BACKGROUND_P95] if has_background else []),
                *([CAPACITY] if has_capacity else []),
                *([UTILIZATION] if has_capacity or clock == "virtual" else [])]

    def values(self, measured: Any) -> Mapping[str, float | int | str | None]:
        """Return the record's numbers, the parts of the time and the server's capacity."""
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
        """Return the distributions, arrivals at the server and the steps of an authentication."""
        calibrations = {"before": measured.saturation, "after": measured.saturation_after}
        return {**super().samples(measured), "arrivals_s": measured.arrivals_s,
                **{f"{name}_{when}": seconds for when, each in calibrations.items()
                   if each for name, seconds in each.to_samples().items()},
                "meetings_s": measured.meetings_s,
                **{f"asked_{number}_s": instants
                   for number, instants in enumerate(measured.asked_s)},
                **{f"demand_{part}_s": seconds for part, seconds in measured.demands_s.items()},
                **{f"waterfall_{part}_s": instants
                   for part, instants in measured.waterfall_s.items()}}

    def queueing_model(self, results: Results) -> Model:
        """Return the queueing model of the server and its two kinds of customers.

        Raises:
            QueueingError: The cells that calibrate the model were not measured.
        """
        from analysis.cells import Cells
        from studies.eapload2004 import modelled

        return modelled.build_model(Cells(results))

    def report(self, results: Results, options: Mapping[str, Any]) -> Report:
        """Return the report: Table 1, Figure 5, the model and the claims."""
        from studies.eapload2004.report import build_report

        return build_report(results, options, self)


def _loaded_s(cell: Cell, settings: Asked) -> float:
    """Return the approximate duration of the load (s)."""
    if overload.is_overloaded(cell.ids, settings):
        return settings.steady_s + settings.overload_s
    turn_s = _TURN_S + _TRIPS * float(cell.ids["rtt"]) / 1e3
    capacity = overload.capacity_per_s(cell.ids, settings) or _CAPACITY
    rate = overload.rate_per_s(cell.ids, capacity)
    return max(settings.steady_s + settings.authentications * turn_s,
               settings.arrivals / rate if rate else 0.0)


def _is_calibration(cell: Cell) -> bool:
    """Return whether the cell measures the server's capacity."""
    return tuple(cell.ids.values()) == design.ALONE


def build_policy(ids: Mapping[str, str]) -> Policy:
    """Return the policy of a cell: EAP with its method, certificates and sessions, and CCMP."""
    is_tls = ids["method"] == "tls"
    tls = TlsSettings.model_validate({"version": ids["tls"], "key": ids["key"],
                                      "chain": int(ids["chain"]), "sessions": ids["sessions"],
                                      "fragment_bytes": int(ids["fragment"]),
                                      "realm": REALM if ids["path"] == "proxied" else None})
    name = "-".join(f"{factor}-{ids[factor]}" for factor in _OF_POLICY
                    if ids[factor] != design.NOMINAL[factor]) or "nominal"
    # The usual fragment is as large as the background's: its request is one IP packet.
    is_usual = ids["fragment"] == design.NOMINAL["fragment"]
    options = DaemonOptions(wpa_supplicant={
        "fragment_size": 1200 if is_usual else int(ids["fragment"])})
    return Policy(id=name.replace(".", "-"), name=f"EAP-{ids['method'].upper()} {name}",
                  layers=Layers(link=LinkLayer(cipher="CCMP", keys="eap"), dot1x=Dot1xLayer(
                      eap="TLS" if is_tls else "AKA", tls=tls, options=options),
                                aaa=_build_aaa_layer(ids)))


def _build_aaa_layer(ids: Mapping[str, str]) -> AaaLayer | None:
    """Return the policy's AAA layer, None for its defaults.

    The defaults are FreeRADIUS of the home network and the permanent identity.
    """
    layer = AaaLayer.model_validate({
        "server": ids["server"], "authority": "visited" if ids["path"] == "near" else "home",
        "identity": "temporary" if ids["identity"] == "p-tmsi" else "permanent"})
    return None if layer == AaaLayer() else layer


def _check_device(name: str, key: str) -> None:
    """Check that a device with costs has those for the kind of key.

    Raises:
        StudyError: The device is unknown or lacks a cost.
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
