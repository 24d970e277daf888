"""Negative controls are attacks on the channel; what each comes to is in the record."""

from __future__ import annotations

from collections.abc import Mapping

FAULTS: Mapping[str, str] = {
    "forged-owner": "the sender's owner signs with another key than the published one",
    "stale-channel": "what opened a channel is replayed to the receiver's next kernel session",
    "replayed": "every ADP message is sent once more as it is",
    "altered": "the protected end of an ADP message is changed on its way",
    "unprotected-body": "a user message is changed on its way, under its trailer",
    "relayed-owner": "a host that an owner talks to passes itself off as that owner elsewhere",
    "beside-tunnel": "in real time: WireGuard or ESP stands, and the messages go beside it",
}
