"""The study's parts put together, as the engine is handed them."""

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

#: Factors that are a policy's.
_OF_POLICY = ("key", "chain", "tls", "sessions", "path", "fragment", "identity", "method",
              "server")
#: The home network's.
REALM = "home.example"
#: Seconds of the emulating processor: for an authentication, for one in the background, beside.
_FRONT_S, _BACK_S, _REPETITION_S = 0.06, 0.011, 4.0
#: Of an authentication by the generator and one by eapol_test, in those of the background.
_REFERENCE = 6
#: What the supplicant takes from one authentication to the next, besides its round trips.
_TURN_S, _TRIPS = 0.13, 5
#: How often a server is kept busy, and one customer alone besides.
_SATURATIONS = 5
#: About what a server takes a second whose device does not say, to plan by.
_CAPACITY = 90


class EapLoad2004(Study):
    """A supplicant's EAP-TLS authentications while its server is loaded with others."""

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
        """One factor at a time around the paper's own experiment."""
        return design.cells(levels)

    def testbed(self, cell: Cell, asked: Asked) -> Spec:  # type: ignore[override]
        """The paper's Figure 4 with the cell's certificates, round trip and losses."""
        place: design.AirPlace = cell.value("place")
        medium = load_medium("802.11g")
        if place.loss_percent:
            medium = replace(medium, name=f"{medium.name}-{place.loss_percent:g}-percent-lost",
                             loss_percent=place.loss_percent, retries=place.retries)
        nodes = {network.SERVER: asked.server_device, network.STATION_NODE: asked.client_device}
        for name in nodes.values():
            _check_device(name, cell.ids["key"])
        overload.check_offered(cell.ids, asked)
        drawn = network.figure_4(float(cell.ids["rtt"]), path=cell.ids["path"],
                                 hss_ms=float(cell.ids["hss"]) if cell.ids["method"] == "aka"
                                 else None)
        return Spec(drawn, policy(cell.ids), medium, nodes,
                    options={"key": cell.ids["key"], "library": library.to_send()},
                    packages="eapol-test" if cell.ids["driver"] == "eapol_test" else "",
                    memory_mb=overload.memory_mb(cell.ids, asked))

    def task(self, cell: Cell, asked: Asked) -> Mapping[str, Any]:  # type: ignore[override]
        """The load, and what was asked."""
        return {"load": float(cell.ids["load"]), "share": float(cell.ids["share"]) / 100,
                "tls": cell.ids["tls"], "sessions": cell.ids["sessions"],
                "driver": cell.ids["driver"], "calibrates": _calibrates(cell),
                "overloads": overload.is_overloaded(cell.ids, asked),
                "asked": asked.model_dump(mode="json")}

    def unused(self, cell: Cell, asked: Asked) -> Collection[str]:  # type: ignore[override]
        """Of the background where there is none, of sessions where there are none, and so on."""
        ids, unused = cell.ids, set[str]()
        is_loaded = ids["load"] != "0" or ids["share"] != "0"
        if not is_loaded:
            unused |= {"steady_s", "arrivals"}
        if not is_loaded and ids["sessions"] != "resumed":
            unused.add("stations")
        if not is_loaded or ids["sessions"] != "resumed":
            unused.add("resumed_share")
        if not (_calibrates(cell) or ids["share"] != "0"):
            unused.add("customers")
            if ids["driver"] != "eapol_test":
                unused.add("saturating")
        if not overload.is_overloaded(ids, asked):
            unused.add("overload_s")
        return unused

    def warm_up(self, asked: Asked) -> Asked:  # type: ignore[override]
        """Two authentications: what is measured is the same from the first one on."""
        return asked.model_copy(update={"authentications": 2, "saturating": 40})

    def expected(self, cell: Cell, asked: Asked) -> Expected:  # type: ignore[override]
        """By the authentications in front and in the background."""
        capacity = overload.capacity_per_s(cell.ids, asked) or _CAPACITY
        behind = (_loaded_s(cell, asked) * overload.rate_per_s(cell.ids, capacity)
                  + asked.saturating * (_calibrates(cell) or cell.ids["share"] != "0"))
        if cell.ids["driver"] == "eapol_test":
            behind += _REFERENCE * asked.saturating
        processor_s = (_REPETITION_S + _FRONT_S * asked.authentications + _BACK_S * behind)
        return Expected(processor_s, processor_s, 4000 * behind / 8)

    def deadline_s(self, cell: Cell, asked: Asked) -> float:  # type: ignore[override]
        """Ten times what it takes, and then some; nothing is skipped in real time."""
        capacity = overload.capacity_per_s(cell.ids, asked) or _CAPACITY
        waited_s = _loaded_s(cell, asked) + _SATURATIONS * asked.saturating / capacity
        return 120 + 10 * self.expected(cell, asked).duration_s + 2 * waited_s

    def check_clock(self, clock: Clock, asked: Asked) -> None:  # type: ignore[override]
        """Virtual time takes a device: computing is free without, and nobody would wait.

        In real time a supplicant on a device, beside a server that is none, is refused: the model
        has it keep the machine's one processor busy.
        """
        if clock == "virtual" and load_device(asked.server_device).is_neutral:
            raise StudyError(f"server: device {asked.server_device}: computing is free in virtual "
                             "time, so that nobody would wait for a server; give --server-device "
                             "one with times, or --clock real")
        server, client = (load_device(name).is_neutral for name in (
            asked.server_device, asked.client_device))
        if clock == "real" and server and not client:
            raise StudyError(f"client: device {asked.client_device}: in real time the supplicant "
                             "has a device only beside a server that has one; give "
                             "--client-device today, or a --server-device with times")

    def judge(self, repetition: Repetition) -> Judged:
        """Times and proof from captures."""
        from studies.eapload2004 import judge

        return judge.judge(repetition)

    def required_metrics(self, cell: Cell, asked: Asked,  # type: ignore[override]
                         clock: Clock | None) -> Sequence[Metric]:
        """Return the supplicant's; the background's and the capacity where the cell has them.

        A server with too much to do may accept nobody of the background. In real time nobody
        knows how busy a server is whose capacity was not measured.
        """
        has_share = bool(float(cell.ids["share"]))
        has_capacity = has_share or _calibrates(cell)
        has_background = (has_share or bool(float(cell.ids["load"]))) and not (
            overload.is_overloaded(cell.ids, asked))
        return [SERVICE, SERVICE_P95, ROUND_TRIPS,
                *([BACKGROUND, BACKGROUND_P95] if has_background else []),
                *([CAPACITY] if has_capacity else []),
                *([UTILIZATION] if has_capacity or clock == "virtual" else [])]

    def values(self, measured: Any) -> Mapping[str, float | int | str | None]:
        """Its numbers, where the time goes, and the server's capacity."""
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
        """The distributions, when customers came to the server, and one authentication's steps."""
        calibrations = {"before": measured.saturation, "after": measured.saturation_after}
        return {**super().samples(measured), "arrivals_s": measured.arrivals_s,
                **{f"{name}_{when}": seconds for when, each in calibrations.items()
                   if each for name, seconds in each.lists().items()},
                "meetings_s": measured.meetings_s,
                **{f"asked_{number}_s": instants
                   for number, instants in enumerate(measured.asked_s)},
                **{f"demand_{part}_s": seconds for part, seconds in measured.demands_s.items()},
                **{f"waterfall_{part}_s": instants
                   for part, instants in measured.waterfall_s.items()}}

    def queueing_model(self, results: Results) -> Model:
        """The server with its two kinds of customers, calibrated without any load."""
        from analysis.cells import Cells
        from studies.eapload2004 import modelled

        return modelled.model(Cells(results))

    def report(self, results: Results, options: Mapping[str, Any]) -> Report:
        """Table 1 and Fig. 5 with published, measured and modelled; the claims; K1."""
        from studies.eapload2004.report import report

        return report(results, options, self)


def _loaded_s(cell: Cell, asked: Asked) -> float:
    """About how long there is load."""
    if overload.is_overloaded(cell.ids, asked):
        return asked.steady_s + asked.overload_s
    turn_s = _TURN_S + _TRIPS * float(cell.ids["rtt"]) / 1e3
    capacity = overload.capacity_per_s(cell.ids, asked) or _CAPACITY
    rate = overload.rate_per_s(cell.ids, capacity)
    return max(asked.steady_s + asked.authentications * turn_s,
               asked.arrivals / rate if rate else 0.0)


def _calibrates(cell: Cell) -> bool:
    """Whether the server's capacity is measured in the cell."""
    return tuple(cell.ids.values()) == design.ALONE


def policy(ids: Mapping[str, str]) -> Policy:
    """EAP with the cell's method, certificates and sessions, and CCMP with the keys it derives."""
    is_tls = ids["method"] == "tls"
    tls = TlsSettings.model_validate({"version": ids["tls"], "key": ids["key"],
                                      "chain": int(ids["chain"]), "sessions": ids["sessions"],
                                      "fragment_bytes": int(ids["fragment"]),
                                      "realm": REALM if ids["path"] == "proxied" else None})
    name = "-".join(f"{factor}-{ids[factor]}" for factor in _OF_POLICY
                    if ids[factor] != design.NOMINAL[factor]) or "nominal"
    # The usual one is as large as the background's: a request with it is one IP packet.
    is_usual = ids["fragment"] == design.NOMINAL["fragment"]
    options = DaemonOptions(wpa_supplicant={
        "fragment_size": 1200 if is_usual else int(ids["fragment"])})
    return Policy(id=name.replace(".", "-"), name=f"EAP-{ids['method'].upper()} {name}",
                  layers=Layers(link=LinkLayer(cipher="CCMP", keys="eap"), dot1x=Dot1xLayer(
                      eap="TLS" if is_tls else "AKA", tls=tls, options=options), aaa=_aaa(ids)))


def _aaa(ids: Mapping[str, str]) -> AaaLayer | None:
    """Who decides; None for the home network's FreeRADIUS, by the name that is claimed."""
    layer = AaaLayer.model_validate({
        "server": ids["server"], "authority": "visited" if ids["path"] == "near" else "home",
        "identity": "temporary" if ids["identity"] == "p-tmsi" else "permanent"})
    return None if layer == AaaLayer() else layer


def _check_device(name: str, key: str) -> None:
    """Refuse a device that says how quick it is at something, but not at these keys."""
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
