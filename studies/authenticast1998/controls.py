"""Negative controls: an attacker on the wire, a stranger or a missing lower layer.

Each control fails its own checks only. Streams flow in all controls except the one with a stranger
as server.
"""

from __future__ import annotations

from collections.abc import Mapping

from studies import mobile
from studies.authenticast1998.factors import WIRES
from studies.authenticast1998.programs import AROUND_THE_TUNNEL, UNHEEDING
from studies.study import Fault


def _cell_levels(policy: str, scenario: str = "N2", heuristic: str = "tree-16") -> dict[str, str]:
    return {"heuristic": heuristic, "clients": "1", "load": "idle", "policy": policy,
            "scenario": scenario}


#: Cells over wires where each packet has its own signature and half are verified on arrival.
_SIGNED = _cell_levels(mobile.NO_POLICY, WIRES, "p50")
ON_WIRES: Mapping[str, Fault] = {
    "tampered-packet": Fault("packets are altered on the wire", on=_SIGNED,
                             fails=["every packet is authentic"]),
    "replayed-packet": Fault("packets are sent twice on the wire", on=_SIGNED,
                             fails=["every packet once"]),
    # No stream begins with a stranger as server, so the checks that need a stream fail, too.
    "wrong-server-key": Fault(
        "the server has another key than clients know", on=_SIGNED,
        fails=["messages are signed", "every packet is authentic", "algorithm as announced",
               "every packet is accounted for"]),
    "downgraded-algorithm": Fault("the algorithm flag is altered on the wire", on=_SIGNED,
                                  fails=["algorithm as announced"]),
    UNHEEDING: Fault("nobody heeds what the user permits", on=_SIGNED,
                     fails=["level in the user's range"]),
    "forged-report": Fault("a stranger tells the server that a client lags", on=_SIGNED,
                           fails=["messages are the clients'"]),
}


ON_AIR: Mapping[str, Fault] = {
    "stream-without-wep": mobile.without_wep("neither end of the air has WEP", _cell_levels("P2")),
    AROUND_THE_TUNNEL: Fault(
        "the stream's packets go around the tunnel", on=_cell_levels("P12"),
        fails=["no clear inner packet"])}
