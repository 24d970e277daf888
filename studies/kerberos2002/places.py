"""Nodes of the parties, by a cell's level of the factor wire.

Runs inside the guest, too: standard library only.
"""

from __future__ import annotations

from collections.abc import Mapping

#: Application servers: as many as can have a machine of their own.
SERVERS = ("app1", "app2", "app3", "app4")
_WIDE = {server: f"{server}-wan" for server in SERVERS}
#: Node of a party, by the level of the factor wire.
_PLACES: Mapping[str, Mapping[str, str]] = {
    "lan": {}, "slow": {party: f"{party}-slow" for party in ("kdc-r", *SERVERS)},
    "2g": {"client": "client-2g", **_WIDE}, "3g": {"client": "client-3g", **_WIDE}}


def node_of(party: str, wire: str, *, is_mobile: bool) -> str:
    """Return the node of a party. Clients that are not mobile are at workstations."""
    if party == "client" and not is_mobile:
        return "workstation"
    return _PLACES[wire].get(party, party)
