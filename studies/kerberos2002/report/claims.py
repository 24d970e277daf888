"""Decide by measurements which claims of the 2002 paper on Kerberos are confirmed.

A claim is a conclusion such as "PKTAPP is faster for one server". `judge_claims` takes the measured
values of a run, and returns a verdict on each of C1 to C14: confirmed, refuted or undecided. Claims
on single measurements are decided by them, claims on curves by the queueing model. The paper is
Harbitter and Menascé (2002). `studies.kerberos2002` lists the terms.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from analysis.cells import Cells
from analysis.claims import Claim, Verdict, VerdictWord
from studies.kerberos2002 import model, published
from studies.kerberos2002.cells import FIG_6, FIG_6_SPEEDS, LOADED, cell_ids
from studies.kerberos2002.model import Transaction
from studies.kerberos2002.report.tables import NEAR_MODEL, measured_loads

#: Numbers for the paper's words "nearly indifferent", "meaningfully better" and "noticeable".
_INDIFFERENT, _MEANINGFUL, _NOTICEABLE = 0.15, 0.05, 0.02
#: Numbers of customers at which curves are compared: one, and enough to saturate a party.
_LOADS = (1, 20)
_ABOUT = 0.2


@dataclass(frozen=True)
class ClaimEvidence:
    """A number behind a claim as text, and whether it agrees with the claim."""

    text: str
    holds: bool
    cells: tuple[str, ...] = ()


_REASONS = {
    "C3": "with a machine for each server PKTAPP's capacity does not fall (I7); on one machine the "
          "claim is about the PKTAPP server's processor",
    "C4": "each further server needs 10 messages of the client and of the remote KDC; in the "
          "paper's model, messages cost almost nothing",
    "C5": "as C3: the crossover exists only where servers share a machine (I7)",
    "C8": "a KDC of draft 05 does one private operation either way, and a faithful standard client "
          "one more: the client's key costs less from the start (I4)",
    "C9": "the paper degrades 9600 bit/s by frame errors of unstated rate (I6), and its standard "
          "client does one private operation less",
    "C10": "only the proxy's operations count; at 3G the certificates that it adds save almost "
           "nothing",
    "C11": "at this load the proxy is the bottleneck: with the key that it is given it does as "
           "much work as the KDC, whose reply is not signed (I4)",
    "C14": "a proxy that is given a key does one private and three public operations, like the "
           "KDC, and handles twice as many messages; the paper's KDC did two private ones (I4)",
    "C12": "twice the processor speed is exactly twice the throughput of a saturated KDC"}


def judge_claims(cells: Cells) -> tuple[Verdict, ...]:
    """Return the verdicts on all claims, in the paper's order."""
    asked: Mapping[str, Callable[[Cells], Iterator[ClaimEvidence]]] = {
        "C1": _model_fits, "C2": _one_server, "C3": _several_servers, "C4": _ask_indifferent,
        "C5": _crossover_holds, "C6": _kdc_first, "C7": _same_operations, "C8": _client_key,
        "C9": _assist_at_2g, "C10": _proxy_at_3g, "C11": _slower_proxy, "C12": _faster_kdc,
        "C13": _assist_at_lan, "C14": _kdc_with_proxy}
    return tuple(_settle_claim(claim, list(asked[name](cells)))
                 for name, claim in published.load_claims().items())


def _settle_claim(claim: Claim, answers: list[ClaimEvidence]) -> Verdict:
    """Judge a claim by its numbers.

    A single user's times are exact in virtual time (computed, not waited for), so they need no
    interval.
    """
    if not answers:
        return Verdict(claim.id, claim.says, claim.where, "undecided", "not measured")
    against = [answer for answer in answers if not answer.holds]
    word: VerdictWord = "refuted" if against else "confirmed"
    return Verdict(claim.id, claim.says, claim.where, word, (against or answers)[0].text,
                   tuple(f"{answer.text}: {'as' if answer.holds else 'not as'} the claim says"
                         for answer in answers),
                   tuple(dict.fromkeys(cell for answer in answers for cell in answer.cells)),
                   why=_REASONS.get(claim.id, "") if against else "")


# --- Claims on large networks ---

def _model_fits(cells: Cells) -> Iterator[ClaimEvidence]:
    """Yield the error of the queueing model for each number of users, the largest first."""
    for load in sorted(measured_loads(cells), key=lambda load: -load.error):
        name = "-".join(cell_ids(load.protocol, customers=load.customers))
        yield ClaimEvidence(
            f"{load.protocol}, {load.customers} customers: {100 * load.error:.1f} % off",
                            load.error <= NEAR_MODEL, (name,))


def _transaction_pair(cells: Cells, servers: int,
                      **place: str | int) -> tuple[Transaction, Transaction] | None:
    """Return the logins by PKCROSS and by PKTAPP with this number of servers."""
    transactions = [model.transaction_of(cells, cell_ids(name, servers=servers, **place))  # type: ignore[arg-type]
                    for name in ("pkcross", "pktapp")]
    return (transactions[0], transactions[1]) if transactions[0] and transactions[1] else None


def _compare_responses(pair: tuple[Transaction, Transaction], says: str, *,
                       first: bool) -> Iterator[ClaimEvidence]:
    """Compare the response times of PKCROSS and PKTAPP for each number of users.

    `first` says whether the claim is that PKCROSS takes less time.
    """
    for customers in _LOADS:
        cross, direct = (asked.mean_performance(customers)[1] for asked in pair)
        yield ClaimEvidence(
            f"{says}, {customers} customer{'s' * (customers > 1)}: PKCROSS {cross:.3g} s, "
                            f"PKTAPP {direct:.3g} s", (cross < direct) is first)


def _one_server(cells: Cells) -> Iterator[ClaimEvidence]:
    if pair := _transaction_pair(cells, 1):
        yield from _compare_responses(pair, "one server", first=False)


def _several_servers(cells: Cells) -> Iterator[ClaimEvidence]:
    for placement in ("one", "each"):
        if pair := _transaction_pair(cells, 4, placement=placement):
            where = "one machine" if placement == "one" else "a machine each"
            yield from _compare_responses(pair, f"four servers on {where}", first=True)


def _ask_indifferent(cells: Cells) -> Iterator[ClaimEvidence]:
    few, many = (model.transaction_of(cells, cell_ids("pkcross", servers=count)) for count
                 in (1, 16))
    if few and many:
        for customers in _LOADS:
            ratio = many.mean_performance(customers)[1] / few.mean_performance(customers)[1]
            yield ClaimEvidence(f"{customers} customer{'s' * (customers > 1)}: 16 servers take "
                                f"{ratio:.2f} times as long as one", ratio <= 1 + _INDIFFERENT)


def _crossover_holds(cells: Cells) -> Iterator[ClaimEvidence]:
    """Compare the capacities of PKCROSS and PKTAPP with servers on one machine and on several.

    Each server is used once per login. So PKTAPP's capacity with one server also holds for servers
    on separate machines.
    """
    for speed in FIG_6_SPEEDS:
        cross, *direct = (model.transaction_of(cells, cell_ids(
            name, servers=servers, wire="slow", speed=speed)) for name, servers in (
                ("pkcross", max(FIG_6["pkcross"])), ("pktapp", max(FIG_6["pktapp"])),
                ("pktapp", 1)))
        for asked, where in zip(direct, ("on one machine", "a machine each"), strict=True):
            if cross and asked:
                yield ClaimEvidence(
                    f"{speed} times as fast, saturated, {where}: PKCROSS with 16 servers "
                                    f"{cross.capacity_per_s:.3g}/s, PKTAPP with 2 "
                                    f"{asked.capacity_per_s:.3g}/s",
                                    cross.capacity_per_s > asked.capacity_per_s)


def _kdc_first(cells: Cells) -> Iterator[ClaimEvidence]:
    for count in (1, 16):
        if transaction := model.transaction_of(cells, cell_ids("pkcross", servers=count)):
            share = transaction.demand_s("app1") / transaction.demand_s(transaction.bottleneck)
            yield ClaimEvidence(
                f"{count} server{'s' * (count > 1)}: {transaction.bottleneck} saturates first, "
                                f"the server is then {100 * share:.0f} % busy",
                                transaction.bottleneck.startswith("kdc"))


def _same_operations(cells: Cells) -> Iterator[ClaimEvidence]:
    parties = {"pkcross": ("client", "kdc_l", "kdc_r", "app1"), "pktapp": ("client", "app1")}
    counts = {name: tuple(sum(model.mean_of(cells, f"{kind}_{party}", cell_ids(name)) or 0
                              for party in row) for kind in ("private", "public"))
              for name, row in parties.items()}
    if all(map(sum, counts.values())):
        cross, direct = counts.values()
        yield ClaimEvidence(f"PKCROSS {cross[0]:.0f} private and {cross[1]:.0f} public, PKTAPP "
                            f"{direct[0]:.0f} and {direct[1]:.0f}", cross == direct)


# --- Claims on mobile clients ---

def _mean_response(cells: Cells, protocol: str, **place: str | int) -> float | None:
    return model.mean_of(cells, "transaction_s", cell_ids(protocol, **place))  # type: ignore[arg-type]


def _client_key(cells: Cells) -> Iterator[ClaimEvidence]:
    for wire in ("2g", "3g"):
        for speed in (1, 10, 20):
            standard, own = (_mean_response(cells, name, wire=wire, speed=speed)
                             for name in ("m-standard", "m-client-key"))
            if standard and own:
                yield ClaimEvidence(
                    f"{wire}, speed-up {speed}: {own:.2f} s instead of {standard:.2f} s",
                                    (own > standard) is (speed == 1))


def _assist_at_2g(cells: Cells) -> Iterator[ClaimEvidence]:
    for name, due_s in (("m-standard", 20.0), ("mp-assist", 14.0)):
        if took_s := _mean_response(cells, name, wire="2g", speed=20):
            yield ClaimEvidence(f"{name}, speed-up 20: {took_s:.1f} s for about {due_s:g} s",
                                abs(took_s / due_s - 1) <= _ABOUT)
    without, assisted = (_mean_response(cells, name, wire="2g", speed=20)
                         for name in ("m-client-key", "mp-assist"))
    if without and assisted:
        yield ClaimEvidence(
            f"speed-up 20: {assisted:.1f} s with the proxy, {without:.1f} s without",
                            assisted < without)


def _proxy_at_3g(cells: Cells) -> Iterator[ClaimEvidence]:
    due_s = published.load_values().figure_10_s["3g_penalty"]
    for speed in (1, 20):
        without, assisted = (_mean_response(cells, name, wire="3g", speed=speed)
                             for name in ("m-client-key", "mp-assist"))
        if without and assisted:
            yield ClaimEvidence(f"speed-up {speed}: {assisted - without:.2f} s more",
                                assisted - without > due_s)


def _slower_proxy(cells: Cells) -> Iterator[ClaimEvidence]:
    if transaction := model.transaction_of(cells, cell_ids("mp-assist", wire="2g", speed=50)):
        slower = transaction.with_faster_processors(30 / 50, "proxy")
        for customers in (1, 100):
            ratio = (slower.mean_performance(customers)[1]
                     / transaction.mean_performance(customers)[1])
            yield ClaimEvidence(
                f"{customers} customer{'s' * (customers > 1)}: {100 * (ratio - 1):.1f} % "
                                "longer", ratio - 1 <= _NOTICEABLE)


def _faster_kdc(cells: Cells) -> Iterator[ClaimEvidence]:
    pair = [model.transaction_of(cells, cell_ids("mp-assist", wire="2g", speed=speed))
            for speed in (50, 100)]
    if pair[0] and pair[1]:
        ratio = pair[1].capacity_per_s / pair[0].capacity_per_s
        yield ClaimEvidence(f"{ratio:.2f} times the throughput", ratio > 2)


def _assist_at_lan(cells: Cells) -> Iterator[ClaimEvidence]:
    trusted, assist = (_mean_response(cells, name) for name in ("mp-trusted", "mp-assist"))
    if trusted and assist:
        yield ClaimEvidence(f"{assist:.2f} s instead of {trusted:.2f} s",
                            1 - assist / trusted <= _MEANINGFUL)


def _kdc_with_proxy(cells: Cells) -> Iterator[ClaimEvidence]:
    for name in (*LOADED[2:], "m-client-key", "mp-standard", "mp-trusted", "mp-assist"):
        if transaction := model.transaction_of(cells, cell_ids(name)):
            proxy = transaction.demand_s("proxy")
            proxy_text = f" (proxy {proxy:.2f} s)" if proxy else ""
            yield ClaimEvidence(f"{name}: KDC {transaction.demand_s('kdc-l'):.2f} s{proxy_text}",
                                transaction.bottleneck == "kdc-l")
