"""Evaluate one measurement of krb5today: compute measured values and run its checks.

One measurement (repetition) is one or more logins by MIT krb5. `judge_repetition` reads time stamps
and captures, which are decrypted with the run's keys. It returns measured values, checks and the
reason of a failure. `studies.krb5today` lists the terms.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from measure.agent.errors import MeasureError
from measure.checks import proof
from measure.packets import messages
from measure.records import judgement
from policies import KerberosLayer
from protocols.kerberos import keytab
from protocols.kerberos.messages import KrbErrorCode
from studies import policy_factors
from studies.krb5today import cells, exchanges
from studies.krb5today import checks as krb5today_checks
from studies.krb5today.checks import LoginEvidence
from studies.krb5today.measurements import LoginMessage, Measurements
from studies.krb5today.mechanisms import MECHANISMS
from studies.study import Judgement, Repetition

_RECORDED_RAW = ("stamps", "addresses", "processor_s", "work_s", "failure", "parts")
#: Files of the services' keys, the authority's certificate and the user's private key.
_FILES = ("*.keytab", "*.pem", "*.key")
#: KRB-ERRORs that belong to a successful login: more data is required, or the reply does not fit
#: into a datagram.
_MORE = {25, 52, 91}


def judge_repetition(repetition: Repetition, layer: KerberosLayer) -> Judgement:
    """Evaluate one repetition by the files that its workload left.

    Args:
        repetition: the combination of factors, settings and folder of the files.
        layer: layer `kerberos` of the policy, with which the logins must agree.

    Raises:
        MeasureError: a capture cannot be interpreted, or no login took time.
        OSError: a file cannot be read.
    """
    out = repetition.out
    raw = json.loads((out / "raw.json").read_text())
    about: dict[str, Any] = {
        "captures": proof.list_captures(raw), "elapsed_s": raw["elapsed_s"],
        "files": [file.name for kind in _FILES for file in sorted(out.glob(kind))],
        "raw": judgement.select_raw_values(raw, _RECORDED_RAW)}
    if raw["failure"]:
        return Judgement(None, reason=raw["failure"]["reason"], **about)
    if raw["lacking"]:
        return Judgement(None, reason=raw["lacking"], is_skipped=True, **about)
    case = _build_case(repetition, raw, layer)
    checks, has_air = krb5today_checks.run_checks(case), policy_factors.is_on_air(repetition.cell)
    if has_air:
        scenario = cells.at_home(repetition.cell.value("scenario"))
        checks += proof.verify_repetition(repetition.cell.value("policy"), scenario, out, raw,
                                          repetition.secrets)
    refused = Counter(pair.reply.error for pair in case.exchanges
                      if pair.reply.error is not None and pair.reply.error not in _MORE)
    failed = [entry["said"] for entry in raw["logins"] if entry["status"]]
    reasons = [f"refused: {_error_name(code)}" for code in refused if code]
    reasons += [f"{len(failed)} logins failed: {failed[0]}"] if failed and not refused else []
    reasons += [*judgement.failure_reasons(checks), *judgement.dropped_packets_reason(raw)]
    measured = None if failed or refused else _compute_measured(case, raw, has_air=has_air)
    return Judgement(measured, checks, "; ".join(reasons), **about)


def _error_name(code: int) -> str:
    """Return the code of a KRB-ERROR with its name, if known."""
    names = {int(known): known.name.lower().replace("_", " ") for known in KrbErrorCode}
    return f"{code} {names.get(code, '(RFC 4120)')}"


def _build_case(repetition: Repetition, raw: Mapping[str, Any],
                layer: KerberosLayer) -> LoginEvidence:
    """Collect messages, keys and settings of a repetition for the checks.

    Raises:
        MeasureError: a capture, a key or the client's address is missing or unusable.
    """
    out, addresses = repetition.out, raw["addresses"]
    client = next((node for node in addresses if node not in cells.SERVERS), "")
    if not client:
        raise MeasureError("data", "no client is among those whose addresses were kept")
    traffic = messages.read_messages_by_point(raw["captures"], out, client, exchanges.LEADS)
    near = exchanges.parse_traffic(traffic[client], addresses)
    try:
        keys = {name: key for file in out.glob("*.keytab")
                for name, key in keytab.read_keytab(file).items()}
        user_key = load_pem_private_key((out / "user.key").read_bytes(), None)
    except ValueError as error:
        raise MeasureError("data", str(error)) from None
    if not isinstance(user_key, rsa.RSAPrivateKey):
        raise MeasureError("data", "the user's key is none of RSA")
    return LoginEvidence(
        MECHANISMS[cells.LOGINS.chosen_mechanism(repetition.cell)], layer, client,
        len(raw["logins"]), near,
        exchanges.pair_exchanges(near), exchanges.parse_traffic(traffic["app"], addresses),
        traffic[client],
        addresses, keys, x509.load_pem_x509_certificate((out / "ca.pem").read_bytes()),
        user_key)


def _compute_measured(case: LoginEvidence, raw: Mapping[str, Any], *,
                      has_air: bool) -> Measurements:
    """Return the measured values of a repetition.

    `has_air` says whether the client is on the air, where a capture does not show when a login
    begins.
    """
    logins, count = raw["logins"], case.logins
    is_lone = len({entry["customer"] for entry in logins}) == 1
    reported = [(entry["began_ns"] / 1e9, entry["ended_ns"] / 1e9) for entry in logins]
    # A client on the air is captured where its tunnels end, which does not show when a login began.
    windows = (reported if has_air else list(_login_windows(case, logins))) if is_lone else []
    times = [end - begin for begin, end in windows or reported]
    away = [took for took, entry in zip(times, logins, strict=True) if entry.get("is_away")]
    # The application's data after a login is excluded, but the end of a connection is included.
    is_all = not windows or not case.mechanism.target
    packets = [size for at_s, size in case.traffic.packets
               if is_all or any(begin <= at_s <= end for begin, end in windows)]
    sent = Counter(message.payload for message in case.sent_messages if message.kind
                   and message.source == case.client)
    servers = ("local", "remote") if not case.mechanism.is_direct else ("app",)
    return Measurements(
        schema=1, logins=count, login_s=fmean(times[:count - len(away)]),
        away_login_s=fmean(away) if away else None, logins_per_s=_login_rate(logins),
        kdc_s=_work_s(raw, servers), client_s=_work_s(raw, (case.client,)),
        round_trips=(len(case.traffic.opened_s) + len(case.exchanges)) / count,
        login_packets=len(packets) / count, login_bytes=sum(packets) / count,
        repeated_requests=sum(times - 1 for times in sent.values()) / count,
        retransmitted_packets=case.traffic.retransmitted, login_times_s=times,
        messages=list(_login_messages(case, windows)))


def _work_s(raw: Mapping[str, Any], nodes: Sequence[str]) -> float | None:
    """Return the CPU time of some nodes per login (s), or None if the clock does not count it."""
    work = [raw["work_s"][node] for node in nodes if node in raw["work_s"]]
    return sum(work) / len(raw["logins"]) if work else None


def _login_rate(logins: Sequence[Mapping[str, Any]]) -> float:
    """Return logins per second (1/s) while all users log in.

    The time begins at the first end of any login, and ends when the first user has finished. The
    pauses of a single user do not count.
    """
    ends = sorted(entry["ended_ns"] for entry in logins)
    customers = {entry["customer"] for entry in logins}
    if len(customers) == 1:
        count, span_ns = len(logins), sum(entry["ended_ns"] - entry["began_ns"] for entry in logins)
    else:
        until_ns = min(max(entry["ended_ns"] for entry in logins if entry["customer"] == customer)
                       for customer in customers)
        count, span_ns = sum(ends[0] < end <= until_ns for end in ends), until_ns - ends[0]
    if span_ns <= 0:
        raise MeasureError("stream", "the logins took no time at all")
    return float(count * 1e9 / span_ns)


def _login_windows(case: LoginEvidence,
                   logins: Sequence[Mapping[str, Any]]) -> Iterator[tuple[float, float]]:
    """Yield for each login the times of its first packet and its last Kerberos message."""
    for entry in logins:
        began_s, ended_s = entry["began_ns"] / 1e9, entry["ended_ns"] / 1e9
        first = min((at_s for at_s, _ in case.traffic.packets if at_s >= began_s), default=None)
        last = [pair.reply.at_s for pair in case.exchanges if began_s <= pair.reply.at_s <= ended_s]
        if first is None or not last:
            raise MeasureError("data", "a login without any packet")
        yield first, max(last)


def _login_messages(case: LoginEvidence,
                    windows: Sequence[tuple[float, float]]) -> Iterator[LoginMessage]:
    """Yield the messages of the first login if there is a single user."""
    for message in case.sent_messages if windows else ():
        began_s, ended_s = windows[0]
        if message.kind and began_s <= message.at_s <= ended_s:
            yield LoginMessage(
                source=message.source, target=message.target, transport=message.way,
                kind=message.kind, padata=sorted(message.padata),
                message_bytes=len(message.payload), at_s=message.at_s - began_s)
