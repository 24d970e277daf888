"""Judge: turn stamps, captures and tallies into a record's body and evidence."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from typing import Any

from measure import judging, messages, on_air
from measure.errors import MeasureError
from measure.messages import Traffic
from studies import mobile
from studies.kerberos2002 import design, evidence, guidelines, network, prediction, said, timing
from studies.kerberos2002.body import Measured, MessageRecord, VisitRecord
from studies.kerberos2002.evidence import Case
from studies.kerberos2002.opened import RunKeys
from studies.kerberos2002.variants import VARIANTS
from studies.study import Cell, Judged, Repetition

_RECORDED_RAW = ("stamps", "seed", "addresses", "processor_s", "failure", "parts")
#: Share of the transactions that is a warm-up, and its least number per customer, because all
#: customers begin at the same time.
_WARM_UP, _WARM_UP_EACH = 0.1, 2


def judge_repetition(repetition: Repetition) -> Judged:
    """Judge a repetition by the files that its workload left.

    Args:
        repetition: the cell, the settings, the run's secrets and the folder of the files.

    Returns:
        The measured values, the evidence, and the reason of a failure.

    Raises:
        MeasureError, OSError: a file is missing or cannot be read, or no time passed.
    """
    out = repetition.out
    raw = json.loads((out / "raw.json").read_text())
    about: dict[str, Any] = {
        "captures": on_air.list_captures(raw), "elapsed_s": raw["elapsed_s"],
        "files": [file.name for file in sorted(out.glob("*.json*")) if file.name != "raw.json"],
        "raw": judging.select_raw_values(raw, _RECORDED_RAW)}
    if raw["failure"]:
        return Judged(None, reason=raw["failure"]["reason"], status="failed", **about)
    events = raw["events"]
    failed = [f"{party}: {said.get('reason', said['event'])}" for party, said in events.items()
              if said["event"] != "ended"]
    if failed:
        return Judged(None, reason="; ".join(failed), status="failed", **about)
    case = _gather_case(repetition, raw)
    refused = [row["refused"] for row in events["client"]["transactions"] if row["refused"]]
    told = [*dict.fromkeys(refused), *said.refusal_texts(case.said)]
    checks = evidence.check_all(case)
    if mobile.is_on_air(repetition.cell):
        scenario = network.with_realms_at_home(repetition.cell.value("scenario"))
        checks += on_air.verify_repetition(repetition.cell.value("policy"), scenario, out, raw,
                                           repetition.secrets)
    reasons = [f"refused: {told[0]}"] if told else []
    reasons += [*judging.failure_reasons(checks), *judging.dropped_packets_reason(raw)]
    measured = None if told else _measure(
        case, events["client"]["transactions"], raw["seed"],
        times_operations=is_timed(repetition.cell))
    return Judged(measured, checks, "; ".join(reasons), "failed" if reasons else "ok", **about)


def _gather_case(repetition: Repetition, raw: Mapping[str, Any]) -> Case:
    from studies.kerberos2002 import programs
    from studies.kerberos2002.study import STUDY

    task = STUDY.task(repetition.cell, repetition.asked)  # type: ignore[arg-type]
    # The proxy's capture comes before the KDC's. The client's comes first in any case.
    nearest = sorted(raw["captures"], key=lambda capture: capture["point"] == "kdc-l")
    traffic = messages.read_by_point(nearest, repetition.out, "client")
    tallies = {party: event["tallies"] for party, event in raw["events"].items()}
    return Case(
        VARIANTS[task["protocol"]], programs.server_nodes(task),
        said.merge_messages(traffic, raw["addresses"]), traffic, raw["addresses"],
        RunKeys(repetition.out / "keys.json"), tallies,
        len(raw["events"]["client"]["transactions"]), task["customers"], task)


def _measure(case: Case, rows: Sequence[Mapping[str, Any]], seed: int, *,
             times_operations: bool) -> Measured:
    left_out = min(len(rows) // 2, max(int(len(rows) * _WARM_UP), _WARM_UP_EACH * case.customers))
    counted = rows[left_out:] if case.customers > 1 else rows
    responses = [(row["end_ns"] - row["start_ns"]) / 1e9 for row in counted]
    began_ns = rows[len(rows) - len(counted) - 1]["end_ns"] if case.customers > 1 \
        else rows[0]["start_ns"]
    span_s = (counted[-1]["end_ns"] - began_ns) / 1e9
    if span_s <= 0:
        raise MeasureError("stream", "the transactions took no time at all")
    client = case.traffic["client"]
    return Measured(
        schema=1, seed=seed, transactions=len(counted),
        transaction_s=fmean(responses), transactions_per_s=len(counted) / span_s,
        client_packets=len(client.packets) / len(rows),
        client_bytes=sum(size for _, size in client.packets) / len(rows),
        retransmitted_packets=sum(traffic.retransmitted for traffic in case.traffic.values()),
        transaction_times_s=responses, visits=list(_visit_records(case, len(rows))),
        messages=list(_message_records(case, client)),
        predicted=_predict_phases(case), counted=guidelines.count_for_guidelines(case),
        **_phase_means(case, counted),
        operations_here_s=timing.time_operations() if times_operations else {})


def is_timed(cell: Cell) -> bool:
    """Return whether this is the cell whose records time the operations on this machine."""
    return tuple(cell.ids.values()) == design.cell_ids("pkcross")


def _predict_phases(case: Case) -> dict[str, float]:
    """Predict the phases from operations, and for a single customer also from wires."""
    made = prediction.predict_phases(case.variant, case.task)
    wires = prediction.wire_seconds(case.said, case.task["wire"]) \
        if made and case.customers == 1 and not case.task["scenario"] else {}
    return {name: seconds + wires.get(name, 0.0) for name, seconds in made.items()}


def _phase_means(case: Case, rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return the means of the paper's four phases (s), by the client's stamps."""
    if case.variant.way != "mobile":
        return {}
    totals = dict.fromkeys(("pre_auth_s", "auth_s", "post_auth_s", "tgt_st_s"), 0.0)
    for row in rows:
        _, asked_ns, answered_ns = row["asks"][0]
        over_ns = dict(row["marks"])["authenticated"]
        for name, span_ns in zip(totals, (asked_ns - row["start_ns"], answered_ns - asked_ns,
                                          over_ns - answered_ns, row["end_ns"] - over_ns),
                                 strict=True):
            totals[name] += span_ns / 1e9 / len(rows)
    return totals


def _visit_records(case: Case, transactions: int) -> Iterator[VisitRecord]:
    """Yield the visits of a transaction by party and class.

    With several customers some transactions are unfinished, so the visits are rounded.
    """
    for party, tallies in case.tallies.items():
        for name, tally in tallies.items():
            visits = round(tally["visits"] / transactions) if case.customers > 1 \
                else tally["visits"]
            if visits:
                yield VisitRecord(
                    party=party, name=name, visits=visits,
                    service_s=tally["work_s"] / tally["visits"],
                    operations={kind: visits * count / tally["visits"]
                                for kind, count in tally["operations"].items()})


def _message_records(case: Case, client: Traffic) -> Iterator[MessageRecord]:
    """Yield the first transaction's messages, if there is one customer.

    Messages of simultaneous transactions cannot be told apart.
    """
    if case.customers > 1:
        return
    began_s = client.packets[0][0]
    for message in case.said:
        yield MessageRecord(source=message.source, target=message.target,
                            transport=message.transport, kind=message.kind or "unknown",
                            message_bytes=len(message.payload),
                            at_s=message.at_s - began_s)
