"""Which node of the network a party is at, by the wire that a cell asks for.

Runs inside the machine, too: standard library only.
"""

from __future__ import annotations

from collections.abc import Mapping

#: Which node a party is at, by the level of the factor wire.
_PLACES: Mapping[str, Mapping[str, str]] = {
    "lan": {}, "slow": {"kdc-r": "kdc-r-slow", "app1": "app1-slow"},
    "2g": {"client": "client-2g", "app1": "app1-wan"},
    "3g": {"client": "client-3g", "app1": "app1-wan"}}


def place(party: str, wire: str, *, is_mobile: bool) -> str:
    """The node that a party is at; clients that are not mobile are at workstations."""
    if party == "client" and not is_mobile:
        return "workstation"
    return _PLACES[wire].get(party, party)
