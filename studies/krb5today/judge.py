"""Judge of a repetition by its stamps and captures and the run's keys."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from measure import judging, messages, on_air
from measure.errors import MeasureError
from protocols.kerberos import keytab
from protocols.kerberos.errors import RefusalCode
from studies import mobile
from studies.krb5today import design, evidence, exchange, network
from studies.krb5today.body import LoginMessage, Measured
from studies.krb5today.evidence import LoginCase
from studies.krb5today.mechanisms import MECHANISMS
from studies.study import Judged, Repetition

_RECORDED_RAW = ("stamps", "addresses", "processor_s", "work_s", "failure", "parts")
#: Files of the services' keys, the authority's certificate and the user's private key.
_FILES = ("*.keytab", "*.pem", "*.key")
#: KRB-ERRORs that belong to a successful login: more data is required, or the reply does not fit
#: into a datagram.
_MORE = {25, 52, 91}


def judge_repetition(repetition: Repetition) -> Judged:
    """Judge a repetition by the files in its folder.

    Raises:
        MeasureError: A capture cannot be interpreted, or no login took time.
        OSError: A file cannot be read.
    """
    out = repetition.out
    raw = json.loads((out / "raw.json").read_text())
    about: dict[str, Any] = {
        "captures": on_air.list_captures(raw), "elapsed_s": raw["elapsed_s"],
        "files": [file.name for kind in _FILES for file in sorted(out.glob(kind))],
        "raw": judging.select_raw_values(raw, _RECORDED_RAW)}
    if raw["failure"]:
        return Judged(None, reason=raw["failure"]["reason"], status="failed", **about)
    if raw["lacking"]:
        return Judged(None, reason=raw["lacking"], status="skipped", **about)
    case = _build_case(repetition, raw)
    checks, has_air = evidence.gather_checks(case), mobile.is_on_air(repetition.cell)
    if has_air:
        scenario = network.at_home(repetition.cell.value("scenario"))
        checks += on_air.verify_repetition(repetition.cell.value("policy"), scenario, out, raw,
                               repetition.secrets)
    refused = Counter(pair.reply.error for pair in case.exchanges
                      if pair.reply.error is not None and pair.reply.error not in _MORE)
    failed = [entry["said"] for entry in raw["logins"] if entry["status"]]
    reasons = [f"refused: {_error_name(code)}" for code in refused if code]
    reasons += [f"{len(failed)} logins failed: {failed[0]}"] if failed and not refused else []
    reasons += [*judging.failure_reasons(checks), *judging.dropped_packets_reason(raw)]
    measured = None if failed or refused else _compute_measured(case, raw, has_air=has_air)
    return Judged(measured, checks, "; ".join(reasons), "failed" if reasons else "ok", **about)


def _error_name(code: int) -> str:
    """Return a KRB-ERROR's code with its name, if known."""
    names = {int(known): known.name.lower().replace("_", " ") for known in RefusalCode}
    return f"{code} {names.get(code, '(RFC 4120)')}"


def _build_case(repetition: Repetition, raw: Mapping[str, Any]) -> LoginCase:
    from studies.krb5today import study

    out, addresses = repetition.out, raw["addresses"]
    client = next((node for node in addresses if node not in network.SERVERS), "")
    if not client:
        raise MeasureError("data", "no client is among those whose addresses were kept")
    traffic = messages.read_by_point(raw["captures"], out, client, exchange.LEADS)
    said = exchange.parse_traffic(traffic[client], addresses)
    try:
        keys = {name: key for file in out.glob("*.keytab")
                for name, key in keytab.read_keytab(file).items()}
        user_key = load_pem_private_key((out / "user.key").read_bytes(), None)
    except ValueError as error:
        raise MeasureError("data", str(error)) from None
    if not isinstance(user_key, rsa.RSAPrivateKey):
        raise MeasureError("data", "the user's key is none of RSA")
    layer = study.kerberos_layer(repetition.cell, repetition.asked)  # type: ignore[arg-type]
    return LoginCase(
        MECHANISMS[design.LOGINS.chosen_mechanism(repetition.cell)], layer, client,
        len(raw["logins"]), said,
        exchange.pair_exchanges(said), exchange.parse_traffic(traffic["app"], addresses),
        traffic[client],
        addresses, keys, x509.load_pem_x509_certificate((out / "ca.pem").read_bytes()),
        user_key)


def _compute_measured(case: LoginCase, raw: Mapping[str, Any], *, has_air: bool) -> Measured:
    logins, count = raw["logins"], case.logins
    is_lone = len({entry["customer"] for entry in logins}) == 1
    said = [(entry["began_ns"] / 1e9, entry["ended_ns"] / 1e9) for entry in logins]
    # A client on the air is captured where its tunnels end, which does not show when a login began.
    windows = (said if has_air else list(_login_windows(case, logins))) if is_lone else []
    times = [end - begin for begin, end in windows or said]
    away = [took for took, entry in zip(times, logins, strict=True) if entry.get("is_away")]
    # The application's data after a login is excluded, but the end of a connection is included.
    is_all = not windows or not case.mechanism.target
    packets = [size for at_s, size in case.traffic.packets
               if is_all or any(begin <= at_s <= end for begin, end in windows)]
    sent = Counter(message.payload for message in case.said if message.kind
                   and message.source == case.client)
    servers = ("local", "remote") if not case.mechanism.is_direct else ("app",)
    return Measured(
        schema=1, logins=count, login_s=fmean(times[:count - len(away)]),
        away_login_s=fmean(away) if away else None, logins_per_s=_login_rate(logins),
        kdc_s=_work_s(raw, servers), client_s=_work_s(raw, (case.client,)),
        round_trips=(len(case.traffic.opened_s) + len(case.exchanges)) / count,
        login_packets=len(packets) / count, login_bytes=sum(packets) / count,
        repeated_requests=sum(times - 1 for times in sent.values()) / count,
        retransmitted_packets=case.traffic.retransmitted, login_times_s=times,
        messages=list(_login_messages(case, windows)))


def _work_s(raw: Mapping[str, Any], nodes: Sequence[str]) -> float | None:
    """Return the processor time of these nodes per login (s), if the clock counts it."""
    work = [raw["work_s"][node] for node in nodes if node in raw["work_s"]]
    return sum(work) / len(raw["logins"]) if work else None


def _login_rate(logins: Sequence[Mapping[str, Any]]) -> float:
    """Return logins per second while all customers log in.

    The span begins at the first end of any login, and ends when the first customer has finished.
    The pauses of a single customer are not counted.
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


def _login_windows(case: LoginCase,
             logins: Sequence[Mapping[str, Any]]) -> Iterator[tuple[float, float]]:
    """Generate the times of each login's first packet and last Kerberos message."""
    for entry in logins:
        began_s, ended_s = entry["began_ns"] / 1e9, entry["ended_ns"] / 1e9
        first = min((at_s for at_s, _ in case.traffic.packets if at_s >= began_s), default=None)
        last = [pair.reply.at_s for pair in case.exchanges if began_s <= pair.reply.at_s <= ended_s]
        if first is None or not last:
            raise MeasureError("data", "a login without any packet")
        yield first, max(last)


def _login_messages(case: LoginCase,
                    windows: Sequence[tuple[float, float]]) -> Iterator[LoginMessage]:
    """Generate the messages of a single customer's first login."""
    for message in case.said if windows else ():
        began_s, ended_s = windows[0]
        if message.kind and began_s <= message.at_s <= ended_s:
            yield LoginMessage(
                source=message.source, target=message.target, transport=message.way,
                kind=message.kind, padata=sorted(message.padata),
                message_bytes=len(message.payload), at_s=message.at_s - began_s)
