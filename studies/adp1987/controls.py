"""Negative controls are attacks on the channel; what each comes to is in the record.

On the air the messages flow on, and what protects them is taken away.
"""

from __future__ import annotations

from collections.abc import Mapping

from studies import mobile
from studies.adp1987 import design
from studies.adp1987.air import AROUND_THE_TUNNEL, BESIDE, WITHOUT_WEP
from studies.study import Fault


def _on(policy: str) -> dict[str, str]:
    """Modern ADP with queueing over a policy, at home."""
    return dict(zip(design.NAMES, design.ids(
        "ALL", technology="today", protocol="modern", scope="FE", policy=policy, scenario="N2"),
        strict=True))


ON_AIR: Mapping[str, Fault] = {
    BESIDE: Fault("on the air: the channel stands, and the messages go beside it", on=_on("P1"),
                  fails=["carried", "nothing-else", "private"]),
    WITHOUT_WEP: mobile.without_wep("on the air: neither end has WEP", _on("P2")),
    AROUND_THE_TUNNEL: Fault(
        "on the air: the channel's datagrams go around the tunnel", on=_on("P12"),
        fails=["no clear inner packet"])}
FAULTS: Mapping[str, Fault | str] = {
    "forged-owner": "the sender's owner signs with another key than the published one",
    "stale-channel": "what opened a channel is replayed to the receiver's next kernel session",
    "replayed": "every ADP message is sent once more as it is",
    "altered": "the protected end of an ADP message is changed on its way",
    "unprotected-body": "a user message is changed on its way, under its trailer",
    "relayed-owner": "a host that an owner talks to passes itself off as that owner elsewhere",
    "beside-tunnel": "in real time: WireGuard or ESP stands, and the messages go beside it",
    **ON_AIR,
}
