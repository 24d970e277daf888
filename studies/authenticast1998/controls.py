"""Negative controls on the air: a layer below is taken away, and the stream flows on without it."""

from __future__ import annotations

from collections.abc import Mapping

from studies import mobile
from studies.authenticast1998.programs import AROUND_THE_TUNNEL
from studies.study import Fault


def _on(policy: str) -> dict[str, str]:
    return {"heuristic": "tree-16", "clients": "1", "load": "idle", "policy": policy,
            "scenario": "N2"}


ON_AIR: Mapping[str, Fault] = {
    "stream-without-wep": mobile.without_wep("neither end of the air has WEP", _on("P2")),
    AROUND_THE_TUNNEL: Fault(
        "the stream's packets go around the tunnel", on=_on("P12"),
        fails=["no clear inner packet"])}
