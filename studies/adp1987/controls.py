"""Negative controls of the study: attacks on the channel, and removal of a protection.

The record of an attack says how often it succeeded. On the air all messages keep flowing, and only
the protection is taken away.
"""

from __future__ import annotations

from collections.abc import Mapping

from studies import mobile
from studies.adp1987 import design, realtime, unprotected
from studies.adp1987.air import (
    AROUND_THE_TUNNEL,
    BESIDE,
    FALSE_LOG,
    LATER_CHANNEL,
    LONGER_TIMEOUT,
    SECOND_CHANNEL,
    UNVERIFIED,
    WITHOUT_WEP,
)
from studies.study import Fault


def _air_levels(policy: str) -> dict[str, str]:
    """Return the levels of modern ADP with queueing under a policy at home (N2)."""
    return dict(zip(design.NAMES, design.ids(
        "ALL", technology="today", protocol="modern", scope="FE", policy=policy, scenario="N2"),
        strict=True))


def _wire_levels(scope: str = "PE") -> dict[str, str]:
    """Return the levels of the 1987 protocol at the paper's nominal setting, by factor."""
    return dict(zip(design.NAMES, design.ids("ALL", scope=scope), strict=True))


ON_AIR: Mapping[str, Fault] = {
    BESIDE: Fault("on the air: the channel stands, and the messages go beside it",
                  on=_air_levels("P1"),
                  fails=["carried", "in-time", "nothing-else", "private"]),
    WITHOUT_WEP: mobile.without_wep("on the air: neither end has WEP", _air_levels("P2")),
    AROUND_THE_TUNNEL: Fault(
        "on the air: the channel's datagrams go around the tunnel", on=_air_levels("P12"),
        fails=["no clear inner packet"]),
    LONGER_TIMEOUT: Fault("on the air: the sender's timeout is half as long again",
                          on=_air_levels("P1"),
                          fails=["in-time"]),
    UNVERIFIED: Fault("on the air: the owner signs with a key that nobody has published, and the "
                      "receiver takes it", on=_air_levels("P1"), fails=["owner"]),
    SECOND_CHANNEL: Fault("on the air: the sender's kernel session ends after the first phase",
                          on=_air_levels("P1"), fails=["sessions"]),
    LATER_CHANNEL: Fault("on the air: the sender's kernel session ends amid the messages",
                         on=_air_levels("P1"), fails=["handshake", "sessions"]),
    FALSE_LOG: Fault("on the air: the receiver's log lacks a message", on=_air_levels("P1"),
                     fails=["accounted"])}
_NOMINAL, _WHOLE = _wire_levels(), _wire_levels(scope="FE")
ATTACKS: Mapping[str, Fault] = {
    "forged-owner": Fault("the sender's owner signs with another key than the published one",
                          on=_NOMINAL, fails=["owner", "intact"]),
    "stale-channel": Fault(
        "what opened a channel is replayed to the receiver's next kernel session", on=_NOMINAL,
        fails=["fresh"]),
    "replayed": Fault("every ADP message is sent once more as it is", on=_NOMINAL,
                      fails=["fresh"]),
    "altered": Fault("the protected end of an ADP message is changed on its way", on=_NOMINAL,
                     fails=["intact"]),
    "unprotected-body": Fault("a user message is changed on its way, under its trailer",
                              on=_NOMINAL, fails=["intact"]),
    "relayed-owner": Fault(
        "a host that an owner talks to passes itself off as that owner elsewhere", on=_NOMINAL,
        fails=["impostors"])}
FLOWING: Mapping[str, Fault] = {
    unprotected.SECOND_CHANNEL: Fault("the sender's kernel session ends, and its channel with it",
                                      on=_NOMINAL, fails=["channel"]),
    unprotected.LATER_CHANNEL: Fault(
        "the sender's kernel session ends after the first phase, and the owner signs again",
        on=_NOMINAL, fails=["channel", "owner"]),
    unprotected.BESIDE: Fault("a user message goes beside the channel, too, by UDP", on=_NOMINAL,
                              fails=["nothing-else"]),
    unprotected.UNVERIFIED: Fault("the owner signs with a key that nobody has published, and the "
                                  "receiver takes it", on=_NOMINAL, fails=["owner"]),
    unprotected.CLEAR_BODY: Fault("the trailer alone is encrypted", on=_WHOLE, fails=["scope"]),
    unprotected.UNQUEUED: Fault("the sender ships each message at once", on=_NOMINAL,
                                fails=["piggybacked"]),
    unprotected.LONGER_TIMEOUT: Fault("the sender's timeout is half as long again", on=_NOMINAL,
                                      fails=["in-time"]),
    unprotected.FALSE_LOG: Fault("the sender's log has two ADP messages as one", on=_NOMINAL,
                                 fails=["counted"]),
    unprotected.FASTER_WIRE: Fault("the wire has no rate", on=_NOMINAL, fails=["on-the-wire"])}
FAULTS: Mapping[str, Fault | str] = {
    **ATTACKS, **FLOWING,
    realtime.BESIDE: "in real time: WireGuard or ESP stands, and the messages go beside it",
    realtime.LONGER_TIMEOUT: "in real time: the sender's timeout is half as long again",
    **ON_AIR,
}
