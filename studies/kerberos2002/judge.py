"""Evaluate one measurement of kerberos2002: compute measured values and run its checks.

One measurement (repetition) is one Kerberos login, or many at a time. `judge_repetition` reads the
client's time stamps, the captures and the programs' counts. It returns measured values, checks and
the reason of a failure. For one combination of factors, `time_operations` also times the
cryptographic operations of the paper's Table I on this machine. The paper is Harbitter and Menascé
(2002). `studies.kerberos2002` lists the terms.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from statistics import fmean
from typing import Any

from cryptography.hazmat.decrepit.ciphers.algorithms import TripleDES
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.ciphers import Cipher, CipherAlgorithm, modes
from cryptography.hazmat.primitives.ciphers.algorithms import AES

from measure.agent.errors import MeasureError
from measure.checks import proof
from measure.packets import messages
from measure.packets.messages import CapturedMessages
from measure.records import judgement
from studies import policy_factors
from studies.kerberos2002 import cells, checks, decryption, model
from studies.kerberos2002 import checks as kerberos2002_checks
from studies.kerberos2002.checks import TransactionEvidence
from studies.kerberos2002.decryption import RunKeys
from studies.kerberos2002.measurements import Measurements, MessageRecord, VisitRecord
from studies.kerberos2002.variants import VARIANTS
from studies.study import Cell, Judgement, Repetition

# --- Times of Table I's operations on this machine's processor ---

#: Block of text as in the paper, and exponent of the public keys.
_TEXT, _EXPONENT = bytes(64), 65537
_BATCH_S, _BATCHES = 0.01, 5


def time_operations() -> dict[str, float]:
    """Measure the CPU time (s) of each operation of Table I on this machine.

    Each time is that of the fastest of several batches. The library has DES as triple DES with one
    key only.
    """
    return {name: _time_operation(operation) for name, operation in _make_operations().items()}


def _make_operations() -> Mapping[str, Callable[[], object]]:
    operations: dict[str, Callable[[], object]] = {
        "DES-56": _make_encryption(TripleDES(bytes(range(8)) * 3)),
        "3DES-112": _make_encryption(TripleDES(bytes(range(16)) + bytes(range(8)))),
        "AES-128": _make_encryption(AES(bytes(range(16))))}
    for bits in (1024, 2048):
        key = rsa.generate_private_key(_EXPONENT, bits)
        encrypt = partial(key.public_key().encrypt, _TEXT, padding.PKCS1v15())
        operations[f"RSA-{bits}-encrypt"] = encrypt
        operations[f"RSA-{bits}-decrypt"] = partial(key.decrypt, encrypt(), padding.PKCS1v15())
    return operations


def _make_encryption(algorithm: CipherAlgorithm) -> Callable[[], object]:
    cipher = Cipher(algorithm, modes.CBC(bytes(8 if isinstance(algorithm, TripleDES) else 16)))

    def encrypt() -> object:
        encryptor = cipher.encryptor()
        return encryptor.update(_TEXT) + encryptor.finalize()
    return encrypt


def _time_operation(operation: Callable[[], object]) -> float:
    """Return the CPU time (s) of an operation."""
    took = []
    for _ in range(_BATCHES):
        count, begun_s = 0, time.thread_time()
        while (spent_s := time.thread_time() - begun_s) < _BATCH_S:
            operation()
            count += 1
        took.append(spent_s / count)
    return min(took)


# --- Judge of a repetition ---

_RECORDED_RAW = ("stamps", "seed", "addresses", "processor_s", "failure", "parts")
#: Fraction of the logins that is a warm-up.
_WARM_UP = 0.1
#: Smallest number of warm-up logins of a user, because all users begin at the same time.
_WARM_UP_EACH = 2


def judge_repetition(repetition: Repetition, task: Mapping[str, Any]) -> Judgement:
    """Evaluate one repetition by the files that its workload left.

    Args:
        repetition: the combination of factors, settings, secrets of the run and folder of the
            files.
        task: the instructions that the workload had.

    Returns:
        Measured values, results of the checks, and the reason if the repetition failed.

    Raises:
        MeasureError, OSError: a file is missing or cannot be read, or no time passed.
    """
    out = repetition.out
    raw = json.loads((out / "raw.json").read_text())
    about: dict[str, Any] = {
        "captures": proof.list_captures(raw), "elapsed_s": raw["elapsed_s"],
        "files": [file.name for file in sorted(out.glob("*.json*")) if file.name != "raw.json"],
        "raw": judgement.select_raw_values(raw, _RECORDED_RAW)}
    if raw["failure"]:
        return Judgement(None, reason=raw["failure"]["reason"], **about)
    events = raw["events"]
    failed = [f"{party}: {event.get('reason', event['event'])}" for party, event in events.items()
              if event["event"] != "ended"]
    if failed:
        return Judgement(None, reason="; ".join(failed), **about)
    case = _gather_case(repetition, raw, task)
    refused = [row["refused"] for row in events["client"]["transactions"] if row["refused"]]
    refusals = [*dict.fromkeys(refused), *decryption.refusal_texts(case.sent_messages)]
    checks = kerberos2002_checks.run_checks(case)
    if policy_factors.is_on_air(repetition.cell):
        scenario = cells.with_realms_at_home(repetition.cell.value("scenario"))
        checks += proof.verify_repetition(repetition.cell.value("policy"), scenario, out, raw,
                                          repetition.secrets)
    reasons = [f"refused: {refusals[0]}"] if refusals else []
    reasons += [*judgement.failure_reasons(checks), *judgement.dropped_packets_reason(raw)]
    measured = None if refusals else _measure(
        case, events["client"]["transactions"], raw["seed"],
        times_operations=is_timed(repetition.cell))
    return Judgement(measured, checks, "; ".join(reasons), **about)


def _gather_case(repetition: Repetition, raw: Mapping[str, Any],
                 task: Mapping[str, Any]) -> TransactionEvidence:
    """Collect everything that a repetition left, for the checks."""
    from studies.kerberos2002 import programs

    # The proxy's capture comes before the KDC's. The client's comes first in any case.
    nearest = sorted(raw["captures"], key=lambda capture: capture["point"] == "kdc-l")
    traffic = messages.read_messages_by_point(nearest, repetition.out, "client")
    tallies = {party: event["tallies"] for party, event in raw["events"].items()}
    return TransactionEvidence(
        VARIANTS[task["protocol"]], programs.server_nodes(task),
        decryption.merge_messages(traffic, raw["addresses"]), traffic, raw["addresses"],
        RunKeys(repetition.out / "keys.json"), tallies,
        len(raw["events"]["client"]["transactions"]), task["customers"], task)


def _measure(case: TransactionEvidence, rows: Sequence[Mapping[str, Any]], seed: int, *,
             times_operations: bool) -> Measurements:
    """Return the measured values of a repetition.

    Args:
        case: everything that the repetition left.
        rows: start and end of each login.
        seed: seed of the repetition.
        times_operations: whether cryptographic operations are also timed on this machine.

    Raises:
        MeasureError: the logins took no time.
    """
    left_out = min(len(rows) // 2, max(int(len(rows) * _WARM_UP), _WARM_UP_EACH * case.customers))
    counted = rows[left_out:] if case.customers > 1 else rows
    responses = [(row["end_ns"] - row["start_ns"]) / 1e9 for row in counted]
    began_ns = rows[len(rows) - len(counted) - 1]["end_ns"] if case.customers > 1 \
        else rows[0]["start_ns"]
    span_s = (counted[-1]["end_ns"] - began_ns) / 1e9
    if span_s <= 0:
        raise MeasureError("stream", "the transactions took no time at all")
    client = case.traffic["client"]
    return Measurements(
        schema=1, seed=seed, transactions=len(counted),
        transaction_s=fmean(responses), transactions_per_s=len(counted) / span_s,
        client_packets=len(client.packets) / len(rows),
        client_bytes=sum(size for _, size in client.packets) / len(rows),
        retransmitted_packets=sum(traffic.retransmitted for traffic in case.traffic.values()),
        transaction_times_s=responses, visits=list(_visit_records(case, len(rows))),
        messages=list(_message_records(case, client)),
        predicted=_predict_phases(case), counted=checks.count_for_guidelines(case),
        **_phase_means(case, counted),
        operations_here_s=time_operations() if times_operations else {})


def is_timed(cell: Cell) -> bool:
    """Return whether this combination also times cryptographic operations on this machine."""
    return tuple(cell.ids.values()) == cells.cell_ids("pkcross")


def _predict_phases(case: TransactionEvidence) -> dict[str, float]:
    """Predict the duration of each phase of a login from its operations and messages.

    Messages count only if there is a single user.
    """
    phases = model.predict_phases(case.variant, case.task)
    wires = model.wire_seconds(case.sent_messages, case.task["wire"]) \
        if phases and case.customers == 1 and not case.task["scenario"] else {}
    return {name: seconds + wires.get(name, 0.0) for name, seconds in phases.items()}


def _phase_means(case: TransactionEvidence, rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return the mean duration (s) of the paper's four phases of a login."""
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


def _visit_records(case: TransactionEvidence, transactions: int) -> Iterator[VisitRecord]:
    """Yield for each node and kind of request how many requests a login needs, and their CPU time.

    With several users some logins are unfinished, so the numbers are rounded.
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


def _message_records(case: TransactionEvidence,
                     client: CapturedMessages) -> Iterator[MessageRecord]:
    """Yield the messages of the first login if there is a single user.

    Messages of simultaneous logins cannot be told apart.
    """
    if case.customers > 1:
        return
    began_s = client.packets[0][0]
    for message in case.sent_messages:
        yield MessageRecord(source=message.source, target=message.target,
                            transport=message.transport, kind=message.kind or "unknown",
                            message_bytes=len(message.payload),
                            at_s=message.at_s - began_s)
