"""Judge a repetition: measured values and evidence from captures and the generator's journal."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from measure import judging
from measure.errors import MeasureError
from measure.load.generator import FIRST_PORT, ROW, SOCKETS
from studies.eapload2004 import capacity, challenges
from studies.eapload2004.air import count_losses
from studies.eapload2004.asked import Asked
from studies.eapload2004.body import (
    Measured,
    OverloadRecord,
    ReferenceRecord,
    SaturationRecord,
    SplitRecord,
)
from studies.eapload2004.capacity import BEFORE, capacity_per_s
from studies.eapload2004.evidence import run_checks
from studies.eapload2004.exchanges import Exchange, SupplicantTime, exchanges, supplicant_times
from studies.eapload2004.metrics import BACKGROUND, BACKGROUND_P95, METRICS
from studies.eapload2004.observed import ObservedLoad
from studies.eapload2004.overload import is_overloaded
from studies.eapload2004.reference import OURS, THEIRS
from studies.eapload2004.waterfall import (
    AUTHENTICATOR,
    PARTS,
    SERVER,
    UNDIVIDED_PARTS,
    build_waterfalls,
    mean_s,
    quickest_steps,
    with_waiting,
)
from studies.study import Judged, Repetition

#: The generator's journals, which are stored with the record so that it can be judged again.
_JOURNALS = ("open.json", *capacity.BEFORE, *capacity.AFTER, capacity.YARDSTICK)
_KEPT = ("stamps", "clock", "seed", "ping_s", "charged", "charged_under_load", "refused",
         "is_ordered", "processor_s", "clock_step_s", "failure", "saturated_busy_s")

#: Number of parts in a comparison of drivers; the interval is computed over them.
_PARTS = 20


def judge_repetition(repetition: Repetition) -> Judged:
    """Return the measured values and the evidence of a repetition.

    Args:
        repetition: The repetition with its cell, settings and folder.

    Raises:
        MeasureError: A capture cannot be read or is incomplete.
        OSError: A file of the repetition is missing.
    """
    out = repetition.out
    raw = json.loads((out / "raw.json").read_text())
    kept = judging.select_raw_values(raw, _KEPT)
    if raw["failure"]:
        return Judged(None, reason=f"{raw['failure']['stage']}: {raw['failure']['reason']}",
                      captures=raw.get("captures", ()), raw=kept)
    seen = list(supplicant_times(out / "auth-mn.pcap"))
    journal = _read_journal(out / "open.json")
    settings = repetition.asked
    assert isinstance(settings, Asked)
    asked = settings.model_dump()
    ended_s = raw["stamps"]["end"] - raw["stamps"]["begin"]
    if journal:
        ended_s = max([row["due_s"] for row in journal["rows"]], default=ended_s)
    front, given = exchanges(out / "auth-ap.pcap"), _read_vectors(out)
    rows = journal.get("rows", ())
    observed = ObservedLoad(
        cell=repetition.cell.ids, rate_per_s=_requested_rate(repetition.cell.ids, out), raw=raw,
        asked=asked["authentications"], seen=len(seen),
        supplicant=front, server=exchanges(out / "auth-server.pcap"),
        sample=exchanges(out / "auth-load.pcap"), rows=rows, ended_s=ended_s,
        overload=_measure_overload(rows, raw["refused"])
        if is_overloaded(repetition.cell.ids, settings) else None,
        reference=_read_reference(out, asked["saturating"]), vectors=len(given),
        air=count_losses(out), resumed_share=settings.resumed_share, yardstick=_read_yardstick(out),
        saturated_s=[1 / capacity_per_s(out / journals.saturated)
                     for journals in (capacity.BEFORE, capacity.AFTER)
                     if (out / journals.saturated).exists()],
        own_share=_own_share(out, raw.get("saturated_busy_s", ())),
        imsi=repetition.secrets.get("network", {}).get("imsi", ""),
        wrong=challenges.find_faults(front, given, repetition.secrets)
        if repetition.cell.ids["method"] == "aka" else ())
    checks = run_checks(observed)
    reason = "; ".join(judging.failure_reasons(checks))
    measured = _measure(observed, seen, journal, asked, out) if seen and observed.server else None
    return Judged(measured, checks, reason, captures=raw["captures"], raw=kept,
                  files=judging.existing_files(out, _JOURNALS),
                  causes=_missing_value_causes(seen, observed, asked["steady_s"]))


def _missing_value_causes(authentications: Sequence[SupplicantTime], observed: ObservedLoad,
                          steady_s: float) -> dict[str, str]:
    """Return why a metric has no value, by the metric's name."""
    accepted = [row for row in observed.rows if not row["reason"]]
    came = sum(row["due_s"] >= steady_s for row in accepted)
    of_all = (
        f"{len(authentications)} whole authentications of the supplicant and "
        f"{len(observed.server)} at "
              "the server are captured")
    background = (f"{len(observed.rows)} authentications of the background began, "
                  f"{len(accepted)} were accepted, {came} of them begun after the first "
                  f"{steady_s:g} s; ask for more --authentications")
    return {**dict.fromkeys((each.name for each in METRICS), of_all), **(
        {BACKGROUND.name: background, BACKGROUND_P95.name: background} if authentications else {})}


def _requested_rate(cell: Mapping[str, str], out: Path) -> float:
    """Return the requested load (1/s), also if it is a share of the measured capacity."""
    share = float(cell["share"]) / 100
    return share * capacity_per_s(out / BEFORE.saturated) if share else float(cell["load"])


def _read_reference(out: Path, count: int) -> dict[str, ReferenceRecord]:
    """Return the cost of an authentication by driver, empty with one driver only."""
    file = out / "auth-reference.pcap"
    if not file.exists():
        return {}
    captured: dict[str, list[Exchange]] = {OURS: [], THEIRS: []}
    for exchange in _complete_exchanges(exchanges(file)):
        is_ours = exchange.port in range(FIRST_PORT, FIRST_PORT + SOCKETS)
        captured[OURS if is_ours else THEIRS].append(exchange)
    for name, those in captured.items():
        if len(those) != count:
            raise MeasureError("load", f"{len(those)} authentications by {name} are in the "
                               f"capture, {count} were to be")
    return {name: ReferenceRecord(
        authentications=count, requests=fmean(len(exchange.trips) for exchange in those),
        parts_s=[float(np.median(part)) for part in np.array_split(
            [exchange.served_s for exchange in those], _PARTS)])
        for name, those in captured.items()}


def _measure_overload(rows: Sequence[Mapping[str, Any]], refused: Sequence[str]) -> OverloadRecord:
    """Return the fate of the authentications of background and supplicant.

    The growth is computed from accepted ones.
    """
    due, took = ([row[name] for row in rows if not row["reason"]] for name in (
        "due_s", "response_s"))
    return OverloadRecord(
        growth=float(np.polyfit(due, took, 1)[0]) if len(due) > 1 else 0.0,
        retransmitted=sum(row["retransmitted"] for row in rows),
        failed=sum(bool(row["reason"]) for row in rows), refused=len(refused))


def _read_vectors(out: Path) -> list[tuple[bytes, bytes]]:
    """Return the vectors of the subscriber server, empty without one."""
    file = out / "auth-hss.pcap"
    return challenges.read_vectors(file) if file.exists() else []


def _read_yardstick(out: Path) -> list[tuple[float, float]]:
    """Return times and durations of the calibration workload (s), empty without one."""
    file = out / capacity.YARDSTICK
    return [(when_s, took_s) for when_s, took_s in json.loads(file.read_text())] \
        if file.exists() else []


def _own_share(out: Path, busy_s: Sequence[float]) -> float:
    """Return the share of a client's time alone in which the device is not busy.

    This is the machine's own share; without a device it is 1.
    """
    if not any(busy_s):
        return 1.0
    rows, alone = (_read_journal(out / name)["rows"] for name in (BEFORE.saturated, BEFORE.alone))
    return max(0.0, 1 - busy_s[0] / len(rows) / fmean(row["response_s"] for row in alone))


def _read_journal(file: Path) -> dict[str, Any]:
    """Return the generator's journal with rows by column name, empty without a file."""
    if not file.exists():
        return {}
    document = json.loads(file.read_text())
    return {**document, "rows": [dict(zip(ROW, row, strict=True))
                                 for row in document["attempts"]]}


def _measure(observed: ObservedLoad, authentications: Sequence[SupplicantTime],
             journal: Mapping[str, Any],
             settings: Mapping[str, Any], out: Path) -> Measured:
    raw, services = observed.raw, [each.took_s for each in authentications]
    # An overloaded server leaves some authentications without an answer, which say nothing about
    # its times. If there are no others, nothing is proven.
    behind, at_server = (_complete_exchanges(those) or those
                         for those in (observed.supplicant, observed.server))
    charged = raw["charged"]
    busy_s = raw.get("saturated_busy_s", ()) if raw["clock"] == "real" else ()
    saturation, after = (_measure_saturation(out, settings, journals,
                                             is_ordered=raw.get("is_ordered", False)
                                             and not charged["charged_s"], busy_s=busy)
                         for journals, busy in zip_longest((capacity.BEFORE, capacity.AFTER),
                                                           busy_s))
    span_s = raw["stamps"]["end"] - raw["stamps"]["begin"]
    return Measured(
        seed=raw["seed"], rate_per_s=observed.rate_per_s, service_time_s=fmean(services),
        service_p95_s=float(np.quantile(services, 0.95)), services_s=services,
        **_measure_times(authentications, behind, at_server, out),
        round_trips=fmean(len(exchange.trips) for exchange in behind),
        utilization_share=_measure_utilization(observed, saturation, span_s),
        demand_s=charged["charged_s"] / max(1, charged["signatures"]),
        cycle_s=(raw["stamps"]["measured"] - raw["stamps"]["steady"]) / len(authentications),
        saturation=saturation, saturation_after=after,
        reference=observed.reference, overload=observed.overload,
        **_measure_background(journal, settings["steady_s"]),
        meetings_s=[max(exchange.trips, key=lambda trip: trip.took_s).asked_s - journal["began_s"]
                    for exchange in observed.server] if journal else [],
        asked_s=[[trip.asked_s - journal["began_s"] for trip in together] for together in zip(*(
            exchange.trips for exchange in at_server), strict=False)] if journal else [])


def _measure_utilization(observed: ObservedLoad, saturation: SaturationRecord | None,
                         span_s: float) -> float | None:
    """Return the utilization of the server's processor.

    For an emulated processor it is the busy time. For a real one it is the rate of authentications
    over the capacity, or None if the capacity was not measured.
    """
    if observed.raw["clock"] == "virtual" or observed.raw["charged"]["charged_s"]:
        return float(observed.raw["charged"]["busy_s"] / span_s)
    came = len(observed.rows) + len(observed.server)
    return came / span_s / saturation.capacity_per_s if saturation else None


def _complete_exchanges(those: Sequence[Exchange]) -> list[Exchange]:
    return [exchange for exchange in those if exchange.is_complete]


def _measure_times(authentications: Sequence[SupplicantTime], behind: Sequence[Exchange],
                   at_server: Sequence[Exchange], out: Path) -> dict[str, Any]:
    """Return the parts of the time, as means and for the median authentication."""
    every = build_waterfalls(out, authentications)
    demands_s = quickest_steps(every)
    total, client = fmean(each.took_s for each
                          in authentications), fmean(each.client_s for each in authentications)
    waited, served = (fmean(exchange.served_s for exchange in those)
                      for those in (behind, at_server))
    alone, authenticator = sum(demands_s[SERVER]), mean_s(every, AUTHENTICATOR)
    _, median = sorted(zip(authentications, every, strict=True), key=lambda pair: pair[0].took_s)[
        len(authentications) // 2]
    steps = list(with_waiting(median, demands_s[SERVER]))
    parts = PARTS if authenticator is not None else UNDIVIDED_PARTS
    return {"split": SplitRecord(client_s=client, air_s=total - client - waited
                                 - (authenticator or 0.0), authenticator_s=authenticator,
                                 wire_s=waited - served, server_s=alone,
                                 waiting_s=served - alone),
            "demands_s": demands_s,
            "waterfall_s": {part: [instant for name, *span in steps if name == part
                                   for instant in span] for part in parts}}


def _measure_background(journal: Mapping[str, Any], steady_s: float) -> dict[str, Any]:
    accepted = [row for row in journal.get("rows", ()) if not row["reason"]]
    rows = [row for row in accepted if row["due_s"] >= steady_s]
    if not rows:
        return {}
    latencies, late = ([row[name] for row in rows] for name in ("response_s", "late_s"))
    everyone = journal["rows"]
    span_s = rows[-1]["due_s"] - steady_s
    return {
        "offered_per_s": len(rows) / span_s if span_s else 0.0, "background_s": fmean(latencies),
        "background_p95_s": float(np.quantile(latencies, 0.95)),
        "background_p99_s": float(np.quantile(latencies, 0.99)), "lateness_s": fmean(late),
        "lateness_p99_s": float(np.quantile(late, 0.99)),
        "generator_processor_s": journal["processor_s"] / len(everyone),
        "resumed": sum(row["resumed"] for row in everyone),
        "arrivals_s": [row["due_s"] for row in accepted],
        "latencies_s": [row["response_s"] for row in accepted]}


def _measure_saturation(out: Path, settings: Mapping[str, Any],
                        journals: capacity.Journals, *, is_ordered: bool,
                        busy_s: float | None = None) -> SaturationRecord | None:
    alone, saturated, rested = (_read_journal(out / name) for name in journals)
    if not saturated:
        return None
    took_s = [row["response_s"] for row in alone.get("rows", ())]
    paused_s, rests_s = _measure_rests(rested.get("rows", ()))
    return SaturationRecord(alone_s=fmean(took_s) if took_s else None,
                            customers=settings["customers"],
                            paused_s=paused_s, rests_s=rests_s,
                            steps_s=_measure_steps(alone, out / f"auth-{capacity.CALIBRATION}.pcap")
                            if is_ordered else [],
                            capacity_per_s=capacity_per_s(out / journals.saturated),
                            busy_s=busy_s / len(saturated["rows"]) if busy_s else None,
                            saturated_s=fmean(row["response_s"] for row in saturated["rows"]))


def _measure_rests(rows: Sequence[Mapping[str, Any]]) -> tuple[list[float], list[float]]:
    """Return the mean pauses before clients alone, and their mean authentication times (s)."""
    count = len(capacity.PAUSES_S)
    left_s = [row["due_s"] + row["response_s"] for row in rows]
    pairs = [(later["due_s"] - earlier_s, later["response_s"])
             for earlier_s, later in zip(left_s, rows[1:], strict=False)]
    together = [pairs[number::count] for number in range(count)]
    means = sorted((fmean(pause_s for pause_s, _ in those), fmean(took_s for _, took_s in those))
                   for those in together if those)
    return [pause_s for pause_s, _ in means], [took_s for _, took_s in means]


def _measure_steps(alone: Mapping[str, Any], file: Path) -> list[float]:
    """Return the mean times of a client alone, generator and server in turn (s).

    The list is empty without a capture: after the load there is none.
    """
    if not (alone and file.exists()):
        return []
    due_s = [alone["began_s"] + row["due_s"] for row in alone["rows"] if row["socket"] == 0]
    ended_s = alone["began_s"] + alone["took_s"]
    asked = [exchange for exchange in _complete_exchanges(exchanges(file))
             if alone["began_s"] <= exchange.trips[0].asked_s <= ended_s]
    parts = [[trip_s for before_s, trip in zip(
        [begun_s, *(trip.answered_s for trip in exchange.trips)], exchange.trips, strict=False)
        for trip_s in (trip.asked_s - before_s, trip.took_s)]
        for begun_s, exchange in zip(due_s, asked, strict=False)]
    return [max(0.0, fmean(those)) for those in zip(*parts, strict=False)]
