"""Check by captures that station and load authenticated as one measurement requires.

A station authenticates repeatedly at a RADIUS server, by EAP-TLS or EAP-AKA. Meanwhile a load
generator sends the authentications of many other clients, called the background. `run_checks` takes
`LoadObservations`: captures, the generator's log and the CPU time of the server. It returns the
checks, such as certificates and policy used, losses, and rate of the load. Each is a statement,
whether it holds, and details. `studies.eapload2004` lists the terms.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise, zip_longest
from statistics import fmean
from typing import Any

import numpy as np
from scipy import stats

from measure.checks.release import find_daemon_release
from measure.packets.eap_tls_sizes import RELEASES
from measure.records.record import CheckRecord
from studies.eapload2004.cells import ALL_PERCENT, PLACES
from studies.eapload2004.exchanges import (
    AirLosses,
    CapturedCertificate,
    Exchange,
    parse_certificates,
    parse_groups,
    parse_version,
    read_certificates,
    read_signing_keys,
)
from studies.eapload2004.load import OURS, THEIRS
from studies.eapload2004.measurements import OverloadRecord, ReferenceRecord

# --- Observations of a repetition ---

@dataclass(frozen=True)
class LoadObservations:
    """The captured authentications, logs and raw values of a repetition, for its checks.

    - `cell`: levels of the factors
    - `rate_per_s`: requested load (authentications/s)
    - `raw`: raw values of the workload (`raw.json`)
    - `asked`, `seen`: number of the station's authentications, requested and captured at it
    - `supplicant`: authentications of the station, captured at the access point
    - `server`: the same ones, captured at the server
    - `sample`: background authentications of the generator's first socket
    - `rows`: log of the load generator, by column
    - `ended_s`: duration of the load (s)
    """

    cell: Mapping[str, str]
    rate_per_s: float
    raw: Mapping[str, Any]
    asked: int
    seen: int
    supplicant: Sequence[Exchange]
    server: Sequence[Exchange]
    sample: Sequence[Exchange]
    rows: Sequence[Mapping[str, Any]]
    ended_s: float
    #: Results of authentications at an overloaded server, None without overload.
    overload: OverloadRecord | None = None
    #: Times at the server for the load generator and for `eapol_test`, if both ran.
    reference: dict[str, ReferenceRecord] = field(default_factory=dict)
    #: EAP-AKA: number of challenges by the subscriber server, and differences from recomputed ones.
    vectors: int = 0
    wrong: Sequence[str] = ()
    #: Permanent identity of the subscriber.
    imsi: str = ""
    #: Frames to the station, and late ones of them.
    air: AirLosses = field(default_factory=lambda: AirLosses(0, 0))
    #: Fraction of background authentications that offer a session, where sessions are resumed.
    resumed_share: float = 1.0
    #: Calibration workload: time and duration of each run (s). It runs in real time, in a guest, at
    #: a share of the capacity.
    yardstick: Sequence[tuple[float, float]] = ()
    #: Processor time of an authentication before and after the load (s), where measured.
    saturated_s: Sequence[float] = ()
    #: Fraction of an authentication at an idle server that the test machine itself works. The
    #: modelled processor, if the server has one, does the rest.
    machine_share: float = 1.0


# --- TLS version, certificates and authorities in captured authentications ---

#: Name of the visited network's authority.
_VISITED = "visited"
#: Header and type of an EAP packet (bytes): hostapd does not count them as part of a fragment.
_HEAD_BYTES = 5


def check_certificates(observed: LoadObservations) -> CheckRecord:
    """Check that full authentications send certificates, and resumed ones do not.

    For background authentications, the generator's log says which were resumed.
    """
    station, sample = _tls_exchanges(observed)
    is_full = observed.cell["sessions"] == "full"
    with_certificates = sum(exchange.has_certificates for exchange in (*station, *sample))
    resumed = sum(row["resumed"] for row in observed.rows
                  if row["socket"] == 0 and not row["reason"])
    expected = len(station) * is_full + len(sample) - resumed
    # With full sessions none is resumed. All of the station's authentications are of one kind, and
    # those of the background are resumed as often as the log says.
    ok = (bool(station or sample) and with_certificates == expected
          and not (is_full and resumed)
          and all(exchange.has_certificates == is_full for exchange in station))
    return CheckRecord(check="certificates", ok=ok, detail=f"in {with_certificates} of "
                       f"{len(station) + len(sample)} captured authentications; {expected} are to "
                       "be full")


def _tls_exchanges(observed: LoadObservations) -> tuple[list[Exchange], list[Exchange]]:
    """Return the captured EAP-TLS authentications of the station and of the background.

    If the server is overloaded, incomplete authentications are left out.
    """
    def select_usable(exchanges: Sequence[Exchange]) -> list[Exchange]:
        return [exchange for exchange in exchanges
                if exchange.is_complete or not observed.overload]

    station = observed.supplicant if observed.cell["method"] == "tls" else ()
    return select_usable(station), select_usable(observed.sample)


def check_policy(observed: LoadObservations) -> CheckRecord:
    """Check that TLS, its group, fragments and certificates are as configured.

    With TLS 1.3, certificates and signatures are decrypted.
    """
    cell, (station, sample) = observed.cell, _tls_exchanges(observed)
    captured = [*station, *sample]
    versions = {parse_version(exchange.from_server) for exchange in captured}
    groups = set[str]().union(*(parse_groups(exchange.from_server) for exchange in captured))
    pieces = {size for exchange in captured for size in exchange.pieces}
    chains = [[read_certificates(exchange, is_servers=is_servers) for exchange in captured]
              for is_servers in (True, False)]
    lengths = [{_chain_length(chain) for chain in each if chain} for each in chains]
    keys = {certificate.key for each in chains for chain in each for certificate in chain}
    is_full, is_new = cell["sessions"] == "full", cell["tls"] == "1.3"
    signed = {key for exchange in captured for key in read_signing_keys(exchange)} \
        if is_full and is_new else set()
    ok = (versions == {cell["tls"]} and keys <= {cell["key"]}
          # hostapd as the server takes the group that the station prefers.
          and (cell["server"] == "hostapd" or groups == {cell["group"]}
               or not (groups or is_full))
          # With FreeRADIUS, all certificates of TLS 1.3 are decrypted.
          and all(chain for each in chains for chain in each if is_full and is_new)
          and signed <= {"rsa" if cell["key"].startswith("rsa") else cell["key"]}
          and all(length <= {int(cell["chain"])} for length in lengths)
          and pieces <= {_piece_bytes(cell, find_daemon_release(observed.raw, "freeradius"))})
    described = "; chains of " + " and ".join(
        "/".join(map(str, sorted(length))) for length in lengths) + f", {'/'.join(sorted(keys))}"
    return CheckRecord(
        check="policy", ok=ok, detail=f"TLS {'/'.join(sorted(versions))}"
        + f", {'/'.join(sorted(groups))}" * bool(groups) + described * bool(keys)
        + f", signed with {'/'.join(each or 'nothing' for each in sorted(signed))}" * bool(signed)
        + "".join(f"; in pieces of {size} bytes" for size in sorted(pieces)))


def _piece_bytes(cell: Mapping[str, str], debian: str) -> int:
    """Return the size of a server's EAP packets that other fragments follow (bytes).

    Args:
        cell: levels of the factors.
        debian: suite of the server's Debian release.
    """
    fragment = int(cell["fragment"])
    if cell["server"] == "hostapd":
        return fragment + _HEAD_BYTES
    return fragment - (RELEASES[debian].fragment_margin if debian in RELEASES else 0)


def _chain_length(chain: Sequence[CapturedCertificate]) -> int:
    """Return the length of a certificate chain.

    OpenSSL's clients add a trusted root to a certificate that has no other chain. This root does
    not count.
    """
    is_lone = len(chain) == 2 and chain[1].subject == chain[1].issuer == chain[0].issuer
    return 1 if is_lone else len(chain)


def check_identity(observed: LoadObservations) -> CheckRecord:
    """Check that the station's certificate has the identity that the station claims.

    With a temporary identity, the certificate must have the permanent number instead.
    """
    claimed = {exchange.user for exchange in observed.supplicant}
    named = {certificates[0].subject for exchange in observed.supplicant
             if (certificates := parse_certificates(exchange.from_client))}
    is_temporary = observed.cell["identity"] == "p-tmsi"
    ok = (named == {observed.imsi} and not named & claimed) if is_temporary else named == claimed
    return CheckRecord(check="identity", ok=ok, detail=f"{', '.join(sorted(claimed))} is claimed, "
                       f"{', '.join(sorted(named))} is in the certificate")


def check_authorities(observed: LoadObservations) -> CheckRecord:
    """Check which authorities signed the certificates of server and station.

    A server in the visited network must have a certificate of that network's authority, which the
    home network's authority has certified.
    """
    chains = [parse_certificates(exchange.from_server) for exchange in observed.supplicant]
    stations = [parse_certificates(exchange.from_client) for exchange in observed.supplicant]
    homes = {chain[-1].issuer for chain in stations if chain}
    own = {chain[0].issuer for chain in chains if chain}
    last = {chain[-1].issuer for chain in chains if chain}
    crossed = {chain[-1].subject for chain in chains if len(chain) > 1}
    is_near = observed.cell["path"] == "near"
    ok = bool(own) and last == homes and (own == crossed == {_VISITED} if is_near
                                          else _VISITED not in own)
    return CheckRecord(check="authority", ok=ok, detail=f"the server is certified by "
                       f"{', '.join(sorted(own))}, its chain ends at {', '.join(sorted(last))}, "
                       f"the station's at {', '.join(sorted(homes))}")


# --- All checks of a repetition ---

#: A correct repetition fails a statistical check once in 100,000 cases. At 3.0 and 0.01 one of 100
#: runs at 120 % of the capacity failed.
_SIGMAS, _LEVEL = 4.5, 1e-5
_ALIKE, _GAPS_ALIKE = 0.03, 0.05
_LATE_SHARE = 0.02
#: Allowed difference of a round trip (s): ping prints whole milliseconds from 100 ms on.
_PING_S = 0.0015
#: A server's answer that takes longer than this is a stall (s).
_STALL_S = 0.5
#: Number of clients that share a processor at 80 % of its capacity once in 20,000 times (M/G/1
#: queue with processor sharing). On the study's own device they take half a second.
_SHARING = 45
#: A step that takes at least this fraction of an authentication's charged time has public-key work.
_OF_DEVICE = 0.04
#: Allowed difference between charged and busy time of the modelled processor (s), in addition.
_UNCHARGED_S = 0.001
#: Smallest utilization of an overloaded server.
_BUSY = 0.97
#: Allowed difference between the slowest and fastest mean of the calibration workload, weighted by
#: the machine's own share.
_AS_QUICK = 0.02
#: Allowed difference of an authentication's processor time after the load, against before it.
_AS_MUCH = 0.03
#: Fraction of the calibration workload's times that are trimmed at either end.
_TRIMMED = 0.05


def run_checks(observed: LoadObservations) -> list[CheckRecord]:
    """Run all checks of a repetition."""
    chosen = [_check_authentications, _check_packets, _check_path, _check_round_trip,
              _check_captures]
    chosen += [_check_overload] if observed.overload else [_check_retransmissions, _check_stall]
    if observed.raw["clock"] != "processor":  # by the processor clock, computing itself takes time
        chosen += [_check_signatures, _check_demands]
    if observed.cell["method"] == "tls" or observed.rate_per_s:
        chosen += [check_certificates, check_policy]
    if observed.cell["method"] == "aka":
        chosen.append(_check_challenges)
    elif observed.cell["tls"] == "1.2" and observed.cell["sessions"] == "full":
        chosen += [check_identity, check_authorities]
    if observed.cell["driver"] == "eapol_test":
        chosen.append(_check_drivers)
    if observed.raw["clock"] == "virtual":
        chosen.append(_check_losses)
    if observed.yardstick:
        chosen.append(_check_idle)
    checks = [check(observed) for check in chosen]
    return [*checks, *_check_load(observed)] if observed.rate_per_s else checks


def _check_authentications(observed: LoadObservations) -> CheckRecord:
    """Check that every authentication of the station reached the server and was accepted once.

    An overloaded server may refuse authentications or lose their packets, but not all.
    """
    trips = sorted({len(exchange.trips) for exchange in observed.supplicant})
    accepted = sum(exchange.is_complete for exchange in observed.supplicant)
    if observed.overload:
        ok = 0 < observed.seen == accepted
    else:
        ok = (observed.seen == observed.asked == len(observed.supplicant) == accepted
              == len(observed.server))
    return CheckRecord(check="authentications", ok=ok, detail=f"{observed.seen} at the supplicant, "
                       f"{len(observed.server)} at the server of {observed.asked}; "
                       f"{'/'.join(map(str, trips))} round trips")


def _check_packets(observed: LoadObservations) -> CheckRecord:
    """Check that no authentication has EAP packets without content or acknowledgement."""
    complete = [exchange for exchange in (*observed.supplicant, *observed.sample)
                if exchange.is_complete]
    spare = sum(exchange.spare for exchange in complete)
    return CheckRecord(check="packets", ok=bool(complete) and not spare,
                       detail=f"{spare} EAP packets of {len(complete)} authentications carry "
                       "nothing and acknowledge nothing")


def _check_challenges(observed: LoadObservations) -> CheckRecord:
    """Check each EAP-AKA authentication against the challenges of the subscriber server (HSS).

    Response, MACs and keys must equal the recomputed ones.
    """
    challenged = sum(bool(exchange.aka) for exchange in observed.supplicant)
    ok = not observed.wrong and challenged == len(observed.supplicant) == observed.vectors
    return CheckRecord(check="challenges", ok=ok, detail=f"{challenged} of "
                       f"{len(observed.supplicant)} by EAP-AKA, {observed.vectors} vectors of the "
                       "subscriber server's" + "".join(f"; {reason}" for reason in observed.wrong))


def _check_drivers(observed: LoadObservations) -> CheckRecord:
    """Check that the server needs the same time for the load generator as for `eapol_test`.

    `eapol_test` is the client of the hostap project. The confidence interval of the ratio must be
    within the bounds.
    """
    generator, eapol_test = (observed.reference[name] for name in (OURS, THEIRS))
    requests = generator.requests / eapol_test.requests
    low, high = _ratio_interval(generator.parts_s, eapol_test.parts_s)
    ok = all(abs(ratio - 1) <= _ALIKE for ratio in (requests, low, high))
    return CheckRecord(check="as eapol_test", ok=ok, detail=f"{generator.authentications} each; to "
                       f"eapol_test's, requests {requests:.4f}, time at the server {low:.4f} to "
                       f"{high:.4f} with 95 % confidence")


def _ratio_interval(generator_parts_s: Sequence[float],
                    reference_parts_s: Sequence[float]) -> tuple[float, float]:
    """Return the 95 % interval of the mean ratio of paired times.

    Each time of one program is compared with the other program's from the same period.
    """
    logs = np.log(np.asarray(generator_parts_s) / np.asarray(reference_parts_s))
    half = float(stats.t.ppf(0.975, len(logs) - 1) * stats.sem(logs))
    return math.exp(logs.mean() - half), math.exp(logs.mean() + half)


def _check_path(observed: LoadObservations) -> CheckRecord:
    """Check that requests reach the server from the right node: the proxy, or the access point.

    A request through a proxy must be of a user with a realm.
    """
    askers = {exchange.asker for exchange in observed.server}
    behind = {exchange.asker for exchange in observed.supplicant}
    has_realm = all("@" in exchange.user for exchange in observed.server)
    ok = (not askers & behind and has_realm) if observed.cell["path"] == "proxied" else (
        askers == behind and bool(askers))
    return CheckRecord(check="path", ok=ok, detail=f"the server was asked from "
                       f"{', '.join(sorted(askers))}; the access point asks from "
                       f"{', '.join(sorted(behind))}")


def _check_round_trip(observed: LoadObservations) -> CheckRecord:
    """Check that the fastest ping between the networks takes the configured round-trip time."""
    configured_s = float(observed.cell["rtt"]) / 1e3
    quickest_s = min(observed.raw["ping_s"], default=math.inf)
    return CheckRecord(check="round trip", ok=abs(quickest_s - configured_s) <= _PING_S,
                       detail=f"ping {quickest_s * 1e3:.3f} ms, configured "
                       f"{configured_s * 1e3:g} ms")


def _check_losses(observed: LoadObservations) -> CheckRecord:
    """Check that the air loses as many frames to the station as configured."""
    frames, late = observed.air.frames, observed.air.late
    lost = PLACES[observed.cell["place"]].loss_percent / ALL_PERCENT
    # With eight expected late frames, the probability of none is one in 3,000.
    is_seen = late > 0 or frames * lost < 8
    room = _SIGMAS * math.sqrt(frames * lost * (1 - lost)) + _LATE_SHARE * frames
    return CheckRecord(check="losses on the air", ok=frames > 0 and is_seen
                       and abs(late - lost * frames) <= max(1.0, room), detail=f"{late} of "
                       f"{frames} frames to the supplicant were sent again; at this place "
                       f"{lost:.0%} are lost")


def _check_captures(observed: LoadObservations) -> CheckRecord:
    """Check that no capture has lost a packet."""
    dropped = sum(summary["dropped"] for summary in observed.raw["captures"])
    return CheckRecord(check="captures are complete", ok=not dropped,
                       detail=f"{dropped} packets were lost by captures")


def _check_retransmissions(observed: LoadObservations) -> CheckRecord:
    """Check that no request was sent again on any wire."""
    retransmitted = sum(exchange.repeated for exchange in (*observed.supplicant, *observed.sample))
    retransmitted += sum(row["retransmitted"] for row in observed.rows)
    return CheckRecord(check="no retransmission", ok=not retransmitted,
                       detail=f"{retransmitted} requests were sent again")


def _check_overload(observed: LoadObservations) -> CheckRecord:
    """Check that later authentications waited longer, and that the server never idled."""
    stamps, overload = observed.raw["stamps"], observed.overload
    assert overload is not None
    span_s = stamps["measured"] - stamps["steady"]
    busy = observed.raw["charged_under_load"]["busy_s"] / span_s
    ok = overload.growth > 0 and (busy >= _BUSY or observed.raw["clock"] != "virtual")
    return CheckRecord(
        check="overloaded", ok=ok,
        detail=f"the server was busy for {busy:.1%} of {span_s:.1f} s; whoever came a second later "
        f"took {overload.growth * 1e3:.0f} ms longer; {overload.retransmitted} requests were sent "
        f"again, {overload.failed} of {len(observed.rows)} in the background and "
        f"{overload.refused} of the supplicant's failed")


def _check_stall(observed: LoadObservations) -> CheckRecord:
    """Check that no answer of the server took extremely long.

    In real time, a modelled processor that other clients share may take longer for steps with
    public-key work.
    """
    exchanges = (*observed.server, *observed.sample)
    by_number = zip_longest(*(exchange.trips for exchange in exchanges))
    steps = [[trip.took_s for trip in trips if trip] for trips in by_number]
    longest = max((max(times_s) for times_s in steps), default=0.0)
    latencies = [row["response_s"] for row in observed.rows]
    p99 = (f"; p99 in the background {np.quantile(latencies, 0.99) * 1e3:.0f} ms" if latencies
           else "")
    ok = all(max(times_s) < _longest_s(observed, times_s) for times_s in steps)
    return CheckRecord(check="no stall", ok=ok,
                       detail=f"an answer took the server {longest * 1e3:.1f} ms at most{p99}")


def _longest_s(observed: LoadObservations, step: Sequence[float]) -> float:
    """Return the limit for the time that one answer of the server may take (s).

    `step` has the measured times of the same answer in all authentications.
    """
    charged = observed.raw["charged"]
    demand_s = charged["charged_s"] / max(1, charged["signatures"])
    is_device = observed.raw["clock"] == "real" and min(step) >= _OF_DEVICE * demand_s > 0
    return max(_STALL_S, _SHARING * demand_s) if is_device else _STALL_S


def _check_idle(observed: LoadObservations) -> CheckRecord:
    """Check that the test machine was equally fast before, during and after the load.

    The times of a fixed workload (`measure.load.calibration_workload`) show the machine's speed.
    Their difference counts in proportion to the machine's own part of an authentication, because
    the speed of a modelled processor does not change. Background latencies are not judged.
    """
    begin, end = (observed.raw["stamps"][name] for name in ("begin", "end"))
    third_s = (end - begin) / 3
    bounds = [-math.inf, begin, begin + third_s, end - third_s, end, math.inf]
    by_period = [[took_s for when_s, took_s in observed.yardstick if low <= when_s < high]
                 for low, high in pairwise(bounds)]
    means = [float(stats.trim_mean(times_s, _TRIMMED)) if times_s else math.inf
             for times_s in by_period]
    apart = max(means) / min(means) - 1
    grown = observed.saturated_s[-1] / observed.saturated_s[0] - 1 if observed.saturated_s else 0.0
    ok = apart * observed.machine_share <= _AS_QUICK and abs(grown) <= _AS_MUCH
    return CheckRecord(check="idle machine", ok=ok, detail=("" if ok else "not an idle machine: ")
                       + "a fixed piece of work took "
                       + ", ".join(f"{mean_s * 1e6:.0f}" for mean_s in means) + " us before the "
                       f"load, in its thirds and after it ({apart:.1%} apart; "
                       f"{observed.machine_share:.0%} of an authentication is such work); an "
                       f"authentication took the processor {grown:+.1%} after it")


def _check_signatures(observed: LoadObservations) -> CheckRecord:
    """Check that the server was charged exactly one signature per full authentication.

    Failed authentications of an overloaded server may have been charged or not.
    """
    signed = observed.raw["charged"]["signatures"]
    full = sum(exchange.has_certificates for exchange in observed.supplicant)
    full += sum(not row["reason"] and not row["resumed"] for row in observed.rows)
    in_vain = observed.overload.failed + observed.overload.refused if observed.overload else 0
    return CheckRecord(check="signatures", ok=full <= signed <= full + in_vain,
                       detail=f"the server was charged for {signed:g} signatures; {full} "
                       "authentications were full")


def _check_demands(observed: LoadObservations) -> CheckRecord:
    """Check that the time charged to the server's processor model equals its busy time."""
    busy_s, charged_s = (observed.raw["charged"][name] for name in ("busy_s", "charged_s"))
    off_s = abs(busy_s - charged_s)
    return CheckRecord(check="demands", ok=off_s <= _ALIKE * charged_s + _UNCHARGED_S,
                       detail=f"{charged_s:.3f} s were charged; busy for {busy_s:.3f} s")


def _check_load(observed: LoadObservations) -> Iterator[CheckRecord]:
    """Check number, gaps, punctuality and results of the background authentications."""
    rows, rate = observed.rows, observed.rate_per_s
    expected = rate * observed.ended_s
    off = (len(rows) - expected) / math.sqrt(expected)
    yield CheckRecord(check="offered load", ok=abs(off) <= _SIGMAS, detail=f"{len(rows)} began in "
                      f"{observed.ended_s:.1f} s, {rate:g}/s would be {expected:.0f} "
                      f"({off:+.1f} standard deviations)")
    begun = [row["due_s"] + row["late_s"] for row in rows]
    if len(begun) > 2:
        fit = stats.kstest(np.diff(sorted(begun)), "expon",
                           args=(0, observed.ended_s / len(rows)))
        # Among many arrivals, a few that begin together after a stall are significant but not
        # relevant.
        ok = fit.pvalue > _LEVEL or fit.statistic < _GAPS_ALIKE
        yield CheckRecord(check="gaps", ok=bool(ok), detail="exponential by Kolmogorov and "
                          f"Smirnov, p = {fit.pvalue:.3f}, distance {fit.statistic:.3f}")
    late = fmean(row["late_s"] for row in rows) if rows else math.inf
    mean = fmean(row["response_s"] for row in rows) if rows else 0.0
    yield CheckRecord(check="lateness", ok=late <= _LATE_SHARE * mean,
                      detail=f"begun {late * 1e6:.0f} us late on average, of "
                      f"{mean * 1e3:.2f} ms")
    if observed.cell["sessions"] == "resumed":
        yield _check_resumption(observed)
    refused = [row["reason"] for row in rows if row["reason"]]
    sampled = sum(row["socket"] == 0 for row in rows)
    is_whole = not refused and all(exchange.is_complete for exchange in observed.sample)
    ok = len(observed.sample) == sampled and (is_whole or observed.overload is not None)
    yield CheckRecord(check="background", ok=ok, detail=f"{len(refused)} of {len(rows)} failed"
                      + (f" ({refused[0]})" if refused else "")
                      + f"; {len(observed.sample)} of {sampled} sampled in the capture")


def _check_resumption(observed: LoadObservations) -> CheckRecord:
    """Check that the background resumed as many TLS sessions as configured."""
    rows = [row for row in observed.rows if not row["reason"]]
    resumed, share = sum(row["resumed"] for row in rows), observed.resumed_share
    expected = len(rows) * share
    off = resumed - expected
    ok = abs(off) <= _SIGMAS * math.sqrt(expected * (1 - share))
    return CheckRecord(check="resumption", ok=ok, detail=f"{resumed} of {len(rows)} in the "
                       f"background resumed a session, a share of {share:g} would be "
                       f"{expected:.0f}")
