"""Comparison of PKCROSS and PKTAPP by servers, round trip and keys (I7).

Nothing here is measured.

Counts are those of the protocols' definition (`expected`), costs are a device's. A single client is
the paper's, which takes no time unless it is charged.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from studies.kerberos2002 import expected
from studies.kerberos2002.variants import VARIANTS
from topologies.loader import load_device

#: Device whose file has both key lengths, and these lengths.
DEVICE = "celeron-850"
KEYS = ("rsa-1024", "rsa-2048")
SERVERS = (1, 2, 3, 4, 8, 16)
ROUND_TRIPS_S = (0.001, 0.02, 0.1, 0.5)
_FAR = ("kdc-r", "app")


@dataclass(frozen=True)
class SurfacePoint:
    """Both protocols at one point: a single client's times (s) and largest rates (1/s).

    `charged_s` is PKTAPP's time with a client on the same device. `pktapp_per_s` has the rate on
    one machine, then with a machine for each server.
    """

    key: str
    round_trip_s: float
    servers: int
    pkcross_s: float
    pktapp_s: float
    charged_s: float
    pkcross_per_s: float
    pktapp_per_s: tuple[float, float]


def compute_points() -> Iterator[SurfacePoint]:
    """Yield all points of the surface."""
    for key in KEYS:
        for round_trip_s in ROUND_TRIPS_S:
            for servers in SERVERS:
                yield _compute_point(key, round_trip_s, servers)


def far_trips(protocol: str, servers: int) -> int:
    """Count the round trips to the remote realm, including those to open connections.

    Each server has a machine of its own.
    """
    steps = expected.transaction_steps(VARIANTS[protocol], _server_nodes(servers))
    asked = [step for step in steps if step[3].endswith("-REQ") and step[1].startswith(_FAR)]
    connections = {(asker, target) for asker, target, transport, _ in asked if transport == "tcp"}
    return len(asked) + len(connections)


def _server_nodes(servers: int) -> dict[str, str]:
    return {f"app/a{number}": f"app{number}" for number in range(1, servers + 1)}


def _compute_point(key: str, round_trip_s: float, servers: int) -> SurfacePoint:
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
    """Return the seconds of public-key work in a transaction, by party."""
    work = load_device(DEVICE).work
    private_s, public_s = (work[f"{key}-{kind}"].seconds or 0.0 for kind in ("private", "public"))
    counts = expected.public_key_operations(VARIANTS[protocol], _server_nodes(servers))
    return {party: private * private_s + public * public_s
            for party, (private, public) in counts.items()}
