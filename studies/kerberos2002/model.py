"""Predict response times of Kerberos logins by a queueing model, as in the 2002 paper.

The model is a closed network: a fixed number of users log in again and again, and share the
processors of KDCs, servers and proxy. All other time (wires, the client) is a delay.
`transaction_of` reads requests and CPU times from measurements of a single user. `response_curve`
returns throughput and response time for each number of users. `predict_phases` predicts the phases
of the paper's Table III, and `compute_surface_points` compares PKCROSS with PKTAPP. The paper is
Harbitter and Menascé (2002). `studies.kerberos2002` lists the terms.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from analysis.cells import Cells, Ids
from analysis.queueing import (
    Chain,
    CustomerClass,
    QueueingError,
    QueueingNetwork,
    QueueingStation,
    Visit,
    intervals,
    solve_network,
)
from analysis.queueing.solution import Method
from studies.kerberos2002 import variants
from studies.kerberos2002.cells import NODES
from studies.kerberos2002.decryption import TransmittedMessage
from studies.kerberos2002.measurements import RESPONSES
from studies.kerberos2002.variants import SERVER_NODES, VARIANTS, ProtocolVariant, node_of
from topologies.loader import load_device, load_wire
from topologies.model import Wire

#: Parties whose processors customers share. Each client has a processor of its own.
SHARED = ("kdc-l", "kdc-r", "proxy", *SERVER_NODES)
#: Classes of visits, by their names in records.
CLASSES = ("AS-REQ", "PKINIT AS-REQ", "PKCROSS AS-REQ", "TGS-REQ", "cross-realm TGS-REQ", "AP-REQ",
           "proxied AS-REQ", "proxied PKINIT AS-REQ", "proxied TGS-REQ", "proxied AP-REQ")
_DELAY, _CHAIN = "wires and client", "transaction"


def column_name(kind: str, party: str, name: str) -> str:
    """Return the name of a column: `visits` (requests per login) or `service` (s) of a node."""
    slug = f"{party}_{name}".replace("-", "_").replace(" ", "_").lower()
    return f"{kind}_{slug}" + ("_s" if kind == "service" else "")


@dataclass(frozen=True)
class Transaction:
    """CPU times of one login, as input of the queueing model.

    `visits` has the number of requests and the CPU time of each (s), by node and kind of request.
    `delay_s` is the part of a single user's response time that is spent at no shared processor.
    """

    visits: Mapping[tuple[str, str], tuple[float, float]]
    delay_s: float

    def demand_s(self, party: str) -> float:
        """Return the CPU time (s) of a node per login."""
        return sum(count * each_s for (where, _), (count, each_s) in self.visits.items()
                   if where == party)

    @property
    def bottleneck(self) -> str:
        """Return the node whose processor saturates first."""
        return max({party for party, _ in self.visits}, key=self.demand_s)

    @property
    def capacity_per_s(self) -> float:
        """Return the largest possible number of logins per second."""
        return 1 / self.demand_s(self.bottleneck)

    def with_faster_processors(self, speed: float, *parties: str) -> Transaction:
        """Return the login with faster processors at some nodes, or at all.

        Args:
            speed: factor by which they are faster.
            parties: names of the nodes. None given means all.
        """
        return replace(self, visits={
            (party, name): (count, each_s / (speed if not parties or party in parties else 1))
            for (party, name), (count, each_s) in self.visits.items()})

    def to_network(self, customers: int) -> QueueingNetwork:
        """Return the closed queueing network of this login for a number of users."""
        parties = list(dict.fromkeys(party for party, _ in self.visits))
        classes = [CustomerClass(f"{name} at {party}", (Visit(party, each_s, count),))
                   for (party, name), (count, each_s) in self.visits.items()]
        classes.append(CustomerClass("under way", (Visit(_DELAY, self.delay_s),)))
        stations = [QueueingStation(party) for party in parties]
        return QueueingNetwork((*stations, QueueingStation(_DELAY, "delay")),
                               (Chain(_CHAIN, tuple(classes), population=customers),))

    def to_chain(self, name: str, customers: int) -> tuple[list[str], Chain]:
        """Return the nodes that a login uses, and its chain of requests for the model."""
        network = self.to_network(customers)
        return [station.name for station in network.stations[:-1]], replace(
            network.chains[0], name=name)

    def mean_performance(self, customers: int, method: Method = "exact") -> tuple[float, float]:
        """Return throughput (logins/s) and response time (s) for a number of users."""
        solved = solve_network(self.to_network(customers), method).chain(_CHAIN)
        return solved.throughput_per_s, solved.response_s


def transaction_of(cells: Cells, cell: Ids) -> Transaction | None:
    """Return a login's CPU times, measured with a single user, or None if there are none."""
    visits = {place: pair for place, pair in _visits_of(cells, cell).items() if place[0] in SHARED}
    response = mean_of(cells, "transaction_s", cell)
    if not visits or response is None:
        return None
    transaction = Transaction(visits, 0.0)
    own_s = sum(transaction.demand_s(party) for party in {party for party, _ in visits})
    return replace(transaction, delay_s=max(0.0, response - own_s))


def _visits_of(cells: Cells, cell: Ids) -> dict[tuple[str, str], tuple[float, float]]:
    """Return the mean number of requests per login and the CPU time (s) of each.

    Both are by node and kind of request.
    """
    pairs = {}
    for party in SHARED:
        for name in CLASSES:
            count = mean_of(cells, column_name("visits", party, name), cell)
            each_s = mean_of(cells, column_name("service", party, name), cell)
            if count and each_s:
                pairs[party, name] = (count, each_s)
    return pairs


def mean_of(cells: Cells, name: str, cell: Ids) -> float | None:
    """Return the measured mean of a value, or None if there is none."""
    value = cells.find_value(name, cell)
    return value.estimate.mean if value else None


def half_width(cells: Cells, cell: Ids) -> float | None:
    """Return half the width of the response time's 95 % interval, relative to the mean.

    It comes from batch means. None if there is no interval.
    """
    times = [value for row in cells.good_rows(cell)
             for value in cells.results.samples[row].get(RESPONSES.name, ())]
    try:
        interval = intervals.mean_interval(np.array(times))
    except QueueingError:
        return None
    return (interval.high - interval.low) / 2 / interval.value


def response_curve(demands: Transaction, customers: Sequence[int]) -> list[tuple[float, float]]:
    """Return throughput (logins/s) and response time (s) for each number of users."""
    return [demands.mean_performance(count) for count in customers]


def mixed_response_times(first: Transaction, second: Transaction, customers: tuple[int, int],
                         method: Method = "exact") -> tuple[float, float]:
    """Return the response times (s) of two groups of users who share processors.

    The groups log in by different protocols.
    """
    parts = [transaction.to_chain(name, count) for transaction, name, count in
             zip((first, second), ("first", "second"), customers, strict=True)]
    parties = dict.fromkeys(party for names, _ in parts for party in names)
    stations = (*(QueueingStation(party) for party in parties), QueueingStation(_DELAY, "delay"))
    solved = solve_network(QueueingNetwork(stations, tuple(chain for _, chain in parts)), method)
    return solved.chain("first").response_s, solved.chain("second").response_s


# --- Prediction of Table III's phases: operations times their costs on the devices ---

#: Bytes of Ethernet, IP and UDP or TCP headers, and most bytes in a segment.
_HEADERS_BYTES = {"udp": (42, 1 << 16), "tcp": (66, 1448)}

#: Operations of the client before its first message, by how the reply's key is made.
_BEFORE = {"pkinit": {"private": 1, "chain-sent": 1, "message-tcp": 1},
           "client-key": {"private": 1, "public": 1, "secret": 1, "chain-sent": 1,
                          "message-tcp": 1}}
#: Operations of the KDC, between its two messages.
_KDC = {"pkinit": {"private": 1, "public": 2, "chain": 1, "secret": 3, "chain-sent": 1,
                   "chain-read": 1, "message-tcp": 2},
        "client-key": {"private": 1, "public": 1, "chain": 1, "secret": 3, "chain-read": 1,
                       "message-tcp": 2}}
#: Operations of the client after the reply.
_AFTER = {"pkinit": {"private": 1, "public": 1, "chain": 1, "secret": 2, "chain-read": 1,
                     "message-tcp": 1},
          "client-key": {"secret": 1, "message-tcp": 1}}
#: Additional operations of client and proxy when the client gives the proxy a key.
_TELLING = {"private": 1, "public": 1, "secret": 1}
_TOLD = {"private": 1, "public": 1, "chain": 1, "secret": 2, "chain-read": 1}
_RELAYED = {"message-tcp": 4}
#: Operations for a service ticket and its use: at the client, at KDC and server, and at a proxy
#: that relays four messages.
_TICKETS_CLIENT = {"secret": 4, "message-udp": 4}
_TICKETS_SERVERS = {"secret": 7, "message-udp": 4}
_TICKETS_RELAYED = {"message-udp": 8}


def predict_phases(variant: ProtocolVariant, task: Mapping[str, Any]) -> dict[str, float]:
    """Return the CPU time (s) of each phase of a login, or {} for protocols without phases."""
    if variant.way != "mobile":
        return {}
    client, server = task["devices"]["mobile"], task["devices"]["server"]
    speed, suite = float(task["speed"]), task["suite"]

    def by(device: Mapping[str, Any], *groups: Mapping[str, int]) -> float:
        # A chain is verified by a public operation for each of its certificates.
        return sum(count * (task["chain_length"] * _operation_seconds(device, "public", suite)
                            if kind == "chain" else _operation_seconds(device, kind, suite))
                   for group in groups for kind, count in group.items())
    has_proxy, is_told = variant.proxy != "none", variant.proxy in ("trusted", "assist")
    before = dict(_BEFORE[variant.initial])
    if variant.proxy == "assist":
        del before["chain-sent"]
    kdc = dict(_KDC[variant.initial])
    kdc["private"] += int(task["kdc_signs"] and variant.initial == "client-key")
    after = dict(_AFTER[variant.initial])
    after["private"] = after.get("private", 0) - int(
        task["spares_opening"] and variant.initial == "pkinit")
    proxied = [_RELAYED] * has_proxy + [_TOLD] * is_told
    proxied += [{"chain-sent": 1}] * (variant.proxy == "assist")
    return {
        "pre_auth_s": by(client, before, *[_TELLING] * is_told),
        "auth_s": by(server, kdc, *proxied) / speed,
        "post_auth_s": by(client, after, *[{"secret": 1}] * is_told),
        "tgt_st_s": by(client, _TICKETS_CLIENT) + by(
            server, _TICKETS_SERVERS, *[_TICKETS_RELAYED] * has_proxy) / speed}


def wire_seconds(sent_messages: Sequence[TransmittedMessage], wire: str) -> dict[str, float]:
    """Return the time (s) of a mobile user's messages on its link and behind it, by phase.

    TCP messages belong to the phase Auth, the others to TGT & ST. A connection's first round trip
    is left out. Segments of a message overlap on the two wires, so only its last segment counts on
    the second one.
    """
    totals = {"auth_s": 0.0, "tgt_st_s": 0.0}
    for message in sent_messages:
        headers, most = _HEADERS_BYTES[message.transport]
        size = len(message.payload)
        segments = -(-size // most)
        last = size - (segments - 1) * most + headers
        first, second = (load_wire(NODES[node_of(party, wire, is_mobile=True)])
                         for party in (message.source, message.target))
        took_s = _on_wire(first, size + segments * headers, segments) + _on_wire(second, last, 1)
        totals["auth_s" if message.transport == "tcp" else "tgt_st_s"] += took_s
    return totals


def _on_wire(wire: Wire, size: int, frames: int) -> float:
    assert wire.rate_bps is not None
    return 8 * (size + frames * wire.overhead_bytes) / wire.rate_bps + wire.delay_ms / 1e3


def _operation_seconds(device: Mapping[str, Any], kind: str, suite: str) -> float:
    """Return the time (s) of an operation on a device model, or 0 if it states none."""
    names = {"era": {"private": "rsa-1024-private", "public": "rsa-1024-public",
                     "secret": "des-operation"},
             "today": {"private": "rsa-2048-private", "public": "rsa-2048-public",
                       "secret": "aes-operation"}}[suite]
    work = device.get("work", {}).get(names.get(kind, kind))
    return float(work["seconds"]) if work else 0.0


# --- Comparison of PKCROSS and PKTAPP by servers, round trip and keys ---
# Nothing here is measured. Counts are those of the protocols' definition (`variants.py`), costs are
# a device's. A single client is the paper's, which takes no time unless it is charged.

#: Device whose file has both key lengths, and these lengths.
SURFACE_DEVICE = "celeron-850"
SURFACE_KEY_BITS = ("rsa-1024", "rsa-2048")
SURFACE_SERVERS = (1, 2, 3, 4, 8, 16)
ROUND_TRIPS_S = (0.001, 0.02, 0.1, 0.5)
_FAR = ("kdc-r", "app")


@dataclass(frozen=True)
class SurfacePoint:
    """Comparison of PKCROSS and PKTAPP for one number of servers, round-trip time and key length.

    It has a single user's times (s) and the largest rates (logins/s). `charged_s` is PKTAPP's time
    if the client's operations take time, too. `pktapp_per_s` has the rate on one machine, then with
    a machine for each server.
    """

    key: str
    round_trip_s: float
    servers: int
    pkcross_s: float
    pktapp_s: float
    charged_s: float
    pkcross_per_s: float
    pktapp_per_s: tuple[float, float]


def compute_surface_points() -> Iterator[SurfacePoint]:
    """Compute the comparison of PKCROSS and PKTAPP for all servers, round trips and keys."""
    for key in SURFACE_KEY_BITS:
        for round_trip_s in ROUND_TRIPS_S:
            for servers in SURFACE_SERVERS:
                yield _compute_point(key, round_trip_s, servers)


def far_trips(protocol: str, servers: int) -> int:
    """Count the round trips to the remote realm in a login, with one per opened connection.

    Each server has a machine of its own.
    """
    steps = variants.transaction_steps(VARIANTS[protocol], _server_nodes(servers))
    requests = [step for step in steps if step[3].endswith("-REQ") and step[1].startswith(_FAR)]
    connections = {(client, target) for client, target, transport, _ in requests
                   if transport == "tcp"}
    return len(requests) + len(connections)


def _server_nodes(servers: int) -> dict[str, str]:
    return {f"app/a{number}": f"app{number}" for number in range(1, servers + 1)}


def _compute_point(key: str, round_trip_s: float, servers: int) -> SurfacePoint:
    """Compute times and largest rates of PKCROSS and PKTAPP for one combination."""
    cross, direct = (_party_seconds(protocol, key, servers) for protocol in ("pkcross", "pktapp"))
    cross_s, direct_s = (far_trips(protocol, servers) * round_trip_s
                         for protocol in ("pkcross", "pktapp"))
    client_s = direct.pop("client")
    return SurfacePoint(
        key, round_trip_s, servers, pkcross_s=cross_s + sum(cross.values()),
        pktapp_s=direct_s + sum(direct.values()),
        charged_s=direct_s + sum(direct.values()) + client_s,
        pkcross_per_s=1 / max(cross.values()),
        pktapp_per_s=(1 / sum(direct.values()), 1 / max(direct.values())))


def _party_seconds(protocol: str, key: str, servers: int) -> dict[str, float]:
    """Return the time (s) of public-key operations in a login, by node."""
    work = load_device(SURFACE_DEVICE).work
    private_s, public_s = (work[f"{key}-{kind}"].seconds or 0.0 for kind in ("private", "public"))
    counts = variants.public_key_operations(VARIANTS[protocol], _server_nodes(servers))
    return {party: private * private_s + public * public_s
            for party, (private, public) in counts.items()}
