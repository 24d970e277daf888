"""List the faults that can be injected into the study adp1987, and how they are detected.

A fault is a negative control: it shows that a check detects a missing protection. `FAULTS` has all
faults by their names for the option `--fault`. A `Fault` has a description, the values of factors
to measure it with, and the checks that must fail. Faults are attacks on the secure channel between
two hosts, and removed protections. They are carried out by `fault_injection`. The record of an
attack says how often the receiver accepted it.
"""

from __future__ import annotations

from collections.abc import Mapping

from studies import policy_factors
from studies.adp1987 import cells, fault_injection
from studies.adp1987.fault_injection import (
    AROUND_THE_TUNNEL,
    BESIDE_CHANNEL,
    FALSE_LOG_ON_AIR,
    LATER_CHANNEL_ON_AIR,
    LONGER_TIMEOUT_ON_AIR,
    SECOND_CHANNEL_ON_AIR,
    UNVERIFIED_OWNER_ON_AIR,
    WITHOUT_WEP,
)
from studies.study import Fault


def _air_levels(policy: str) -> dict[str, str]:
    """Return the factor values of a fault over the air: today's ADP, a policy, scenario N2."""
    return dict(zip(cells.NAMES, cells.cell_ids(
        "ALL", technology="today", protocol="modern", scope="FE", policy=policy, scenario="N2"),
        strict=True))


def _wire_levels(scope: str = "PE") -> dict[str, str]:
    """Return the factor values of a fault over Ethernet: ADP of 1987 at its nominal settings."""
    return dict(zip(cells.NAMES, cells.cell_ids("ALL", scope=scope), strict=True))


ON_AIR: Mapping[str, Fault] = {
    BESIDE_CHANNEL: Fault("on the air: the channel is up, and the messages bypass it",
                          on=_air_levels("P1"),
                          fails=["carried", "in-time", "nothing-else", "private"]),
    WITHOUT_WEP: policy_factors.make_wep_fault("on the air: neither end has WEP",
                                               _air_levels("P2")),
    AROUND_THE_TUNNEL: Fault(
        "on the air: the channel's datagrams go around the tunnel", on=_air_levels("P12"),
        fails=["no clear inner packet"]),
    LONGER_TIMEOUT_ON_AIR: Fault("on the air: the sender's timeout is 1.5 times as long",
                                 on=_air_levels("P1"),
                                 fails=["in-time"]),
    UNVERIFIED_OWNER_ON_AIR: Fault(
        "on the air: the owner signs with an unpublished key, and the receiver accepts it",
        on=_air_levels("P1"), fails=["owner"]),
    SECOND_CHANNEL_ON_AIR: Fault(
        "on the air: the sender restarts after the first phase",
                                 on=_air_levels("P1"), fails=["sessions"]),
    LATER_CHANNEL_ON_AIR: Fault("on the air: the sender restarts in the middle of the messages",
                                on=_air_levels("P1"), fails=["handshake", "sessions"]),
    FALSE_LOG_ON_AIR: Fault("on the air: the receiver's log lacks a message", on=_air_levels("P1"),
                            fails=["accounted"])}
_NOMINAL, _WHOLE = _wire_levels(), _wire_levels(scope="FE")
ATTACKS: Mapping[str, Fault] = {
    "forged-owner": Fault("the sender's owner signs with another key than the published one",
                          on=_NOMINAL, fails=["owner", "intact"]),
    "stale-channel": Fault(
        "the handshake of a channel is replayed to the receiver after its restart", on=_NOMINAL,
        fails=["fresh"]),
    "replayed": Fault("every ADP message is sent twice", on=_NOMINAL,
                      fails=["fresh"]),
    "altered": Fault("the protected end of an ADP message is changed on its way", on=_NOMINAL,
                     fails=["intact"]),
    "unprotected-body": Fault("a user message is changed on its way, under its trailer",
                              on=_NOMINAL, fails=["intact"]),
    "relayed-owner": Fault(
        "a host that an owner talks to impersonates that owner elsewhere", on=_NOMINAL,
        fails=["impostors"])}
FLOWING: Mapping[str, Fault] = {
    fault_injection.SECOND_CHANNEL: Fault(
        "the sender restarts, and its channel ends",
                                          on=_NOMINAL, fails=["channel"]),
    fault_injection.LATER_CHANNEL: Fault(
        "the sender restarts after the first phase, and the owner signs again",
        on=_NOMINAL, fails=["channel", "owner"]),
    fault_injection.BESIDE_WIRE: Fault("a message is also sent by UDP, outside of the channel",
                                       on=_NOMINAL,
                                       fails=["nothing-else"]),
    fault_injection.UNVERIFIED_OWNER: Fault(
        "the owner signs with an unpublished key, and the receiver accepts it", on=_NOMINAL,
        fails=["owner"]),
    fault_injection.CLEAR_BODY: Fault("the trailer alone is encrypted", on=_WHOLE, fails=["scope"]),
    fault_injection.UNQUEUED: Fault("the sender ships each message at once", on=_NOMINAL,
                                    fails=["piggybacked"]),
    fault_injection.LONGER_TIMEOUT: Fault("the sender's timeout is 1.5 times as long", on=_NOMINAL,
                                          fails=["in-time"]),
    fault_injection.FALSE_LOG: Fault("the sender's log joins two ADP messages", on=_NOMINAL,
                                     fails=["counted"]),
    fault_injection.FASTER_WIRE: Fault("the wire has no rate", on=_NOMINAL, fails=["on-the-wire"])}
FAULTS: Mapping[str, Fault | str] = {
    **ATTACKS, **FLOWING,
    fault_injection.BESIDE_TUNNEL: "in real time: the WireGuard or ESP tunnel is up, and the "
    "messages bypass it",
    fault_injection.LONGER_TIMEOUT_IN_REAL_TIME: "in real time: the sender's timeout is 1.5 times "
    "as long",
    **ON_AIR,
}
