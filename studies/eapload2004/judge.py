"""Evaluate one measurement of eapload2004: compute measured values and run its checks.

In one measurement (repetition), a station authenticates by EAP-TLS again and again at a loaded
RADIUS server. `judge_repetition` reads the captures and the load generator's log (journal) outside
of the guest (virtual machine). It returns measured values, checks and the reason of a failure.
`studies.eapload2004` lists the terms.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from measure.agent.errors import MeasureError
from measure.load.generator import FIRST_PORT, ROW, SOCKETS
from measure.records import judgement
from studies.eapload2004 import exchanges, load
from studies.eapload2004.cells import is_overloaded
from studies.eapload2004.checks import LoadObservations, run_checks
from studies.eapload2004.exchanges import (
    Exchange,
    SupplicantTime,
    count_losses,
    read_exchanges,
    read_supplicant_times,
)
from studies.eapload2004.load import BEFORE, OURS, THEIRS, capacity_per_s
from studies.eapload2004.measurements import (
    BACKGROUND,
    BACKGROUND_P95,
    METRICS,
    Measurements,
    OverloadRecord,
    ReferenceRecord,
    SaturationRecord,
    SplitRecord,
)
from studies.eapload2004.settings import Settings
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
from studies.study import Judgement, Repetition

#: The generator's journals, which are stored with the record so that it can be judged again.
_JOURNALS = ("open.json", *load.BEFORE, *load.AFTER, load.YARDSTICK, load.TLS_KEYS)
_KEPT = ("debian", "daemon_releases", "stamps", "clock", "seed", "ping_s", "charged",
         "charged_under_load", "refused", "is_ordered", "processor_s", "clock_step_s",
         "failure", "saturated_busy_s")

#: Number of parts in a comparison of drivers; the interval is computed over them.
_PARTS = 20


def judge_repetition(repetition: Repetition) -> Judgement:
    """Evaluate one repetition by the files that its workload left.

    Args:
        repetition: the combination of factors, settings and folder of the files.

    Returns:
        Measured values, results of the checks, and the reason if the repetition failed.

    Raises:
        MeasureError: a capture cannot be read or is incomplete.
        OSError: a file is missing.
    """
    out = repetition.out
    raw = json.loads((out / "raw.json").read_text())
    raw_values = judgement.select_raw_values(raw, _KEPT)
    if raw["failure"]:
        return Judgement(None, reason=f"{raw['failure']['stage']}: {raw['failure']['reason']}",
                         captures=raw.get("captures", ()), raw=raw_values)
    times = list(read_supplicant_times(out / "auth-mn.pcap"))
    journal = _read_journal(out / "open.json")
    settings = repetition.settings
    assert isinstance(settings, Settings)
    options = settings.model_dump()
    ended_s = raw["stamps"]["end"] - raw["stamps"]["begin"]
    if journal:
        ended_s = max([row["due_s"] for row in journal["rows"]], default=ended_s)
    at_access_point, vectors = read_exchanges(out / "auth-ap.pcap"), _read_vectors(out)
    sample = read_exchanges(out / "auth-load.pcap")
    exchanges.add_keys([*at_access_point, *sample], _read_tls_keys(out))
    rows = journal.get("rows", ())
    observed = LoadObservations(
        cell=repetition.cell.ids, rate_per_s=_requested_rate(repetition.cell.ids, out), raw=raw,
        asked=options["authentications"], seen=len(times),
        supplicant=at_access_point, server=read_exchanges(out / "auth-server.pcap"),
        sample=sample, rows=rows, ended_s=ended_s,
        overload=_measure_overload(rows, raw["refused"])
        if is_overloaded(repetition.cell.ids, settings) else None,
        reference=_read_reference(out, options["saturating"]), vectors=len(vectors),
        air=count_losses(out), resumed_share=settings.resumed_share, yardstick=_read_yardstick(out),
        saturated_s=[1 / capacity_per_s(out / journals.saturated)
                     for journals in (load.BEFORE, load.AFTER)
                     if (out / journals.saturated).exists()],
        machine_share=_machine_share(out, raw.get("saturated_busy_s", ())),
        imsi=repetition.secrets.get("network", {}).get("imsi", ""),
        wrong=exchanges.find_challenge_faults(at_access_point, vectors, repetition.secrets)
        if repetition.cell.ids["method"] == "aka" else ())
    checks = run_checks(observed)
    reason = "; ".join(judgement.failure_reasons(checks))
    measured = (_measure(observed, times, journal, options, out)
                if times and observed.server else None)
    return Judgement(measured, checks, reason, captures=raw["captures"], raw=raw_values,
                     files=judgement.existing_files(out, _JOURNALS),
                     causes=_missing_value_causes(times, observed, options["steady_s"]))


def _missing_value_causes(authentications: Sequence[SupplicantTime], observed: LoadObservations,
                          steady_s: float) -> dict[str, str]:
    """Explain per metric why its value is missing."""
    accepted = [row for row in observed.rows if not row["reason"]]
    steady_count = sum(row["due_s"] >= steady_s for row in accepted)
    captured = (f"{len(authentications)} whole authentications of the supplicant and "
                f"{len(observed.server)} at the server are captured")
    causes = {metric.name: captured for metric in METRICS}
    if authentications:
        causes[BACKGROUND.name] = causes[BACKGROUND_P95.name] = (
            f"{len(observed.rows)} authentications of the background began, "
            f"{len(accepted)} were accepted, {steady_count} of them begun after the first "
            f"{steady_s:g} s; ask for more --authentications")
    return causes


def _requested_rate(cell: Mapping[str, str], out: Path) -> float:
    """Return the requested load (authentications/s), also for a percentage of the capacity."""
    share = float(cell["share"]) / 100
    return share * capacity_per_s(out / BEFORE.saturated) if share else float(cell["load"])


def _read_reference(out: Path, count: int) -> dict[str, ReferenceRecord]:
    """Return the server's time per authentication for the load generator and for `eapol_test`.

    The result is empty if `eapol_test` did not run.

    Args:
        out: folder of the repetition.
        count: requested number of authentications by each of the two programs.

    Raises:
        MeasureError: another number of authentications was captured.
    """
    file = out / "auth-reference.pcap"
    if not file.exists():
        return {}
    captured: dict[str, list[Exchange]] = {OURS: [], THEIRS: []}
    for exchange in _complete_exchanges(read_exchanges(file)):
        is_ours = exchange.port in range(FIRST_PORT, FIRST_PORT + SOCKETS)
        captured[OURS if is_ours else THEIRS].append(exchange)
    records = {}
    for name, authentications in captured.items():
        if len(authentications) != count:
            raise MeasureError("load", f"{len(authentications)} authentications by {name} are in "
                               f"the capture, {count} were to be")
        groups = np.array_split([exchange.served_s for exchange in authentications], _PARTS)
        records[name] = ReferenceRecord(
            authentications=count,
            requests=fmean(len(exchange.trips) for exchange in authentications),
            parts_s=[float(np.median(group)) for group in groups])
    return records


def _measure_overload(rows: Sequence[Mapping[str, Any]], refused: Sequence[str]) -> OverloadRecord:
    """Count what happened to authentications at an overloaded server.

    The growth of their times is computed from accepted ones.
    """
    accepted = [row for row in rows if not row["reason"]]
    due_s = [row["due_s"] for row in accepted]
    responses_s = [row["response_s"] for row in accepted]
    return OverloadRecord(
        growth=float(np.polyfit(due_s, responses_s, 1)[0]) if len(accepted) > 1 else 0.0,
        retransmitted=sum(row["retransmitted"] for row in rows),
        failed=sum(bool(row["reason"]) for row in rows), refused=len(refused))


def _read_vectors(out: Path) -> list[tuple[bytes, bytes]]:
    """Return RAND and AUTN of each challenge of the subscriber server, or [] without a server.

    The server is the HSS, the home subscriber server of 3GPP.
    """
    file = out / "auth-hss.pcap"
    return exchanges.read_vectors(file) if file.exists() else []


def _read_tls_keys(out: Path) -> list[str]:
    """Return the lines of the server's TLS key log, or [] without one."""
    file = out / load.TLS_KEYS
    return list(json.loads(file.read_text())) if file.exists() else []


def _read_yardstick(out: Path) -> list[tuple[float, float]]:
    """Return the times and durations of the calibration workload (s), or [] if it did not run."""
    file = out / load.YARDSTICK
    return [(when_s, took_s) for when_s, took_s in json.loads(file.read_text())] \
        if file.exists() else []


def _machine_share(out: Path, busy_s: Sequence[float]) -> float:
    """Return the fraction of an authentication time that the test machine and network take.

    It is the fraction in which the server's modelled processor is idle, for a single client
    without load. Without a modelled processor, the fraction is 1.

    Args:
        out: folder of the repetition.
        busy_s: how long the modelled processor was busy (s) in each measurement of the server's
            capacity. The first one was before the load.
    """
    if not any(busy_s):
        return 1.0
    saturated = _read_journal(out / BEFORE.saturated)["rows"]
    alone = _read_journal(out / BEFORE.alone)["rows"]
    alone_s = fmean(row["response_s"] for row in alone)
    return max(0.0, 1 - busy_s[0] / len(saturated) / alone_s)


def _read_journal(file: Path) -> dict[str, Any]:
    """Return the load generator's log, with rows by column, or {} without a file."""
    if not file.exists():
        return {}
    document = json.loads(file.read_text())
    return {**document, "rows": [dict(zip(ROW, row, strict=True))
                                 for row in document["attempts"]]}


def _measure(observed: LoadObservations, authentications: Sequence[SupplicantTime],
             journal: Mapping[str, Any], settings: Mapping[str, Any], out: Path) -> Measurements:
    """Compute the measured values of a repetition.

    Args:
        observed: the captured authentications, and the log of the load generator.
        authentications: authentications at the station's interface.
        journal: log of the background load, {} without a load.
        settings: settings of the run.
        out: folder of the repetition.
    """
    raw, charged, stamps = observed.raw, observed.raw["charged"], observed.raw["stamps"]
    services_s = [authentication.took_s for authentication in authentications]
    # An overloaded server leaves some authentications without an answer, which say nothing about
    # its times. If all are incomplete, the checks fail.
    at_access_point = _complete_exchanges(observed.supplicant) or observed.supplicant
    at_server = _complete_exchanges(observed.server) or observed.server
    saturation, saturation_after = _measure_saturations(raw, settings, out)
    return Measurements(
        seed=raw["seed"], rate_per_s=observed.rate_per_s, service_time_s=fmean(services_s),
        service_p95_s=float(np.quantile(services_s, 0.95)), services_s=services_s,
        **_measure_times(authentications, at_access_point, at_server, out),
        round_trips=fmean(len(exchange.trips) for exchange in at_access_point),
        utilization_share=_measure_utilization(observed, saturation,
                                               stamps["end"] - stamps["begin"]),
        demand_s=charged["charged_s"] / max(1, charged["signatures"]),
        cycle_s=(stamps["measured"] - stamps["steady"]) / len(authentications),
        saturation=saturation, saturation_after=saturation_after,
        reference=observed.reference, overload=observed.overload,
        **_measure_background(journal, settings["steady_s"]),
        **(_measure_request_times(observed.server, at_server, journal["began_s"])
           if journal else {}))


def _measure_request_times(captured: Sequence[Exchange], at_server: Sequence[Exchange],
                           began_s: float) -> dict[str, Any]:
    """Return when the station's requests reached the server (s after the begin of the load).

    Args:
        captured: all authentications of the station at the server. `meetings_s` has the request
            of each that took the server longest.
        at_server: the complete ones. `asked_s` has their first requests, their second ones, ...
        began_s: begin of the load.
    """
    longest = [max(exchange.trips, key=lambda trip: trip.took_s) for exchange in captured]
    by_number = zip(*(exchange.trips for exchange in at_server), strict=False)
    return {"meetings_s": [trip.asked_s - began_s for trip in longest],
            "asked_s": [[trip.asked_s - began_s for trip in trips] for trips in by_number]}


def _measure_utilization(observed: LoadObservations, saturation: SaturationRecord | None,
                         span_s: float) -> float | None:
    """Return the utilization of the server's processor.

    For a modelled processor it is the busy fraction of `span_s`, the duration of the load.
    Otherwise it is the rate of authentications divided by the capacity, or None if the capacity
    was not measured.
    """
    if observed.raw["clock"] == "virtual" or observed.raw["charged"]["charged_s"]:
        return float(observed.raw["charged"]["busy_s"] / span_s)
    arrived = len(observed.rows) + len(observed.server)
    return arrived / span_s / saturation.capacity_per_s if saturation else None


def _complete_exchanges(exchanges: Sequence[Exchange]) -> list[Exchange]:
    return [exchange for exchange in exchanges if exchange.is_complete]


def _measure_times(authentications: Sequence[SupplicantTime], at_access_point: Sequence[Exchange],
                   at_server: Sequence[Exchange], out: Path) -> dict[str, Any]:
    """Return the parts of an authentication's time, as means and for the median authentication.

    Args:
        authentications: authentications at the station's interface.
        at_access_point: the same ones at the access point's wired interface.
        at_server: the same ones at the server.
        out: folder of the repetition.
    """
    waterfalls = build_waterfalls(out, authentications)
    quickest_s = quickest_steps(waterfalls)
    total_s = fmean(authentication.took_s for authentication in authentications)
    client_s = fmean(authentication.client_s for authentication in authentications)
    wire_and_server_s = fmean(exchange.served_s for exchange in at_access_point)
    at_server_s = fmean(exchange.served_s for exchange in at_server)
    computing_s = sum(quickest_s[SERVER])
    authenticator_s = mean_s(waterfalls, AUTHENTICATOR)
    by_time = sorted(zip(authentications, waterfalls, strict=True),
                     key=lambda pair: pair[0].took_s)
    _, median = by_time[len(by_time) // 2]
    steps = list(with_waiting(median, quickest_s[SERVER]))
    parts = PARTS if authenticator_s is not None else UNDIVIDED_PARTS
    return {"split": SplitRecord(
        client_s=client_s,
        air_s=total_s - client_s - wire_and_server_s - (authenticator_s or 0.0),
        authenticator_s=authenticator_s, wire_s=wire_and_server_s - at_server_s,
        server_s=computing_s, waiting_s=at_server_s - computing_s),
            "demands_s": quickest_s,
            "waterfall_s": {part: [instant_s for name, *span in steps if name == part
                                   for instant_s in span] for part in parts}}


def _measure_background(journal: Mapping[str, Any], steady_s: float) -> dict[str, Any]:
    """Return the values of the background load, {} if no authentication was accepted.

    Means and percentiles leave out authentications in the first `steady_s` seconds of the load.
    """
    accepted = [row for row in journal.get("rows", ()) if not row["reason"]]
    rows = [row for row in accepted if row["due_s"] >= steady_s]
    if not rows:
        return {}
    responses_s = [row["response_s"] for row in rows]
    late_s = [row["late_s"] for row in rows]
    span_s = rows[-1]["due_s"] - steady_s
    return {
        "offered_per_s": len(rows) / span_s if span_s else 0.0,
        "background_s": fmean(responses_s),
        "background_p95_s": float(np.quantile(responses_s, 0.95)),
        "background_p99_s": float(np.quantile(responses_s, 0.99)), "lateness_s": fmean(late_s),
        "lateness_p99_s": float(np.quantile(late_s, 0.99)),
        "generator_processor_s": journal["processor_s"] / len(journal["rows"]),
        "resumed": sum(row["resumed"] for row in journal["rows"]),
        "arrivals_s": [row["due_s"] for row in accepted],
        "latencies_s": [row["response_s"] for row in accepted]}


def _measure_saturations(raw: Mapping[str, Any], settings: Mapping[str, Any],
                         out: Path) -> list[SaturationRecord | None]:
    """Return the measurements of the server without other load, before and after the load."""
    # In virtual time, the modelled processor takes all of the server's time.
    busy_s = raw.get("saturated_busy_s", ()) if raw["clock"] == "real" else ()
    is_ordered = raw.get("is_ordered", False) and not raw["charged"]["charged_s"]
    return [_measure_saturation(out, settings, journals, is_ordered=is_ordered, busy_s=busy)
            for journals, busy in zip_longest((load.BEFORE, load.AFTER), busy_s)]


def _measure_saturation(out: Path, settings: Mapping[str, Any],
                        journals: load.JournalFiles, *, is_ordered: bool,
                        busy_s: float | None = None) -> SaturationRecord | None:
    """Return the measurements of one calibration of the server, None if it was not calibrated.

    Args:
        out: folder of the repetition.
        settings: settings of the run.
        journals: logs of the load generator.
        is_ordered: whether load generator and server share the guest's processor in real time, so
            that the steps of both are measured.
        busy_s: busy time of the server's modelled processor in saturation, None without one.
    """
    alone, saturated, rested = (_read_journal(out / name) for name in journals)
    if not saturated:
        return None
    responses_s = [row["response_s"] for row in alone.get("rows", ())]
    paused_s, rests_s = _measure_rests(rested.get("rows", ()))
    return SaturationRecord(alone_s=fmean(responses_s) if responses_s else None,
                            customers=settings["customers"],
                            paused_s=paused_s, rests_s=rests_s,
                            steps_s=_measure_steps(alone, out / f"auth-{load.CALIBRATION}.pcap")
                            if is_ordered else [],
                            capacity_per_s=capacity_per_s(out / journals.saturated),
                            busy_s=busy_s / len(saturated["rows"]) if busy_s else None,
                            saturated_s=fmean(row["response_s"] for row in saturated["rows"]))


def _measure_rests(rows: Sequence[Mapping[str, Any]]) -> tuple[list[float], list[float]]:
    """Return the mean pauses before authentications of a single client, and the mean times.

    Both lists are in seconds, and in the order of the pauses. The load generator takes the pauses
    of `load.PAUSES_S` in turn, so authentications with one pause are that many rows apart.
    """
    count = len(load.PAUSES_S)
    ends_s = [row["due_s"] + row["response_s"] for row in rows]
    measured = [(row["due_s"] - end_s, row["response_s"])
                for end_s, row in zip(ends_s, rows[1:], strict=False)]
    groups = [measured[number::count] for number in range(count)]
    means = sorted((fmean(pause_s for pause_s, _ in group),
                    fmean(response_s for _, response_s in group)) for group in groups if group)
    return [pause_s for pause_s, _ in means], [response_s for _, response_s in means]


def _measure_steps(alone: Mapping[str, Any], file: Path) -> list[float]:
    """Return the mean times of a single client's steps (s), without other load.

    Steps of the load generator and of the server alternate. The result is empty without a capture,
    as after the load.

    Args:
        alone: the load generator's log of the single client.
        file: capture of the server's packets during the calibration.
    """
    if not (alone and file.exists()):
        return []
    due_s = [alone["began_s"] + row["due_s"] for row in alone["rows"] if row["socket"] == 0]
    ended_s = alone["began_s"] + alone["took_s"]
    captured = [exchange for exchange in _complete_exchanges(read_exchanges(file))
                if alone["began_s"] <= exchange.trips[0].asked_s <= ended_s]
    by_authentication = [_step_times(begun_s, exchange)
                         for begun_s, exchange in zip(due_s, captured, strict=False)]
    return [max(0.0, fmean(times_s)) for times_s in zip(*by_authentication, strict=False)]


def _step_times(begun_s: float, exchange: Exchange) -> list[float]:
    """Return the times of the steps of an authentication (s), generator and server in turn."""
    times_s, before_s = [], begun_s
    for trip in exchange.trips:
        times_s += [trip.asked_s - before_s, trip.took_s]
        before_s = trip.answered_s
    return times_s
