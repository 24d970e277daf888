"""List the faults that the study authenticast1998 injects on purpose (negative controls).

Faults are an attacker on the wire, a server with a wrong key, or a protection of the link that is
switched off. Each entry names the combination of factors to measure, and the checks that must then
fail. So a check that cannot fail is noticed. Streams flow with every fault except the wrong server.
"""

from __future__ import annotations

from collections.abc import Mapping

from studies import policy_factors
from studies.authenticast1998.cells import WIRES
from studies.authenticast1998.programs import AROUND_THE_TUNNEL, IGNORED_RANGE
from studies.study import Fault


def _cell_levels(policy: str, scenario: str = "N2", heuristic: str = "tree-16") -> dict[str, str]:
    return {"heuristic": heuristic, "clients": "1", "load": "idle", "policy": policy,
            "scenario": scenario}


#: Cells over wires where each packet has its own signature and half are verified on arrival.
_SIGNED = _cell_levels(policy_factors.NO_POLICY, WIRES, "p50")
ON_WIRES: Mapping[str, Fault] = {
    "tampered-packet": Fault("packets are altered on the wire", on=_SIGNED,
                             fails=["every packet is authentic"]),
    "replayed-packet": Fault("packets are sent twice on the wire", on=_SIGNED,
                             fails=["no packet arrives twice"]),
    # No stream begins with a stranger as server, so the checks that need a stream fail, too.
    "wrong-server-key": Fault(
        "the server has another key than clients know", on=_SIGNED,
        fails=["messages are signed", "every packet is authentic", "algorithm as announced",
               "every packet is accounted for"]),
    "downgraded-algorithm": Fault("the algorithm flag is altered on the wire", on=_SIGNED,
                                  fails=["algorithm as announced"]),
    IGNORED_RANGE: Fault("programs ignore the range that the user permits", on=_SIGNED,
                         fails=["level in the user's range"]),
    "forged-report": Fault("an attacker sends the server a forged report of a client", on=_SIGNED,
                           fails=["control messages come from the clients"]),
}


ON_AIR: Mapping[str, Fault] = {
    "stream-without-wep": policy_factors.make_wep_fault("neither end of the air has WEP",
                                                        _cell_levels("P2")),
    AROUND_THE_TUNNEL: Fault(
        "the stream's packets go around the tunnel", on=_cell_levels("P12"),
        fails=["no clear inner packet"])}
