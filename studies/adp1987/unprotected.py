"""Negative controls that leave every message flowing, and take one protection away.

By a host's configuration that is not the cell's, by a sender that does what it is not told, or by
a wire without a rate. Standard library only: this runs inside the machine.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from measure.workload import Site
from topologies import wires

CLEAR_BODY, UNQUEUED, LONGER_TIMEOUT = "clear-body", "unqueued", "longer-timeout"
UNVERIFIED, SECOND_CHANNEL = "unverified-owner", "second-channel"
LATER_CHANNEL, BESIDE = "later-channel", "beside-wire"
FALSE_LOG, FASTER_WIRE = "false-log", "faster-wire"
ON_WIRES = (CLEAR_BODY, UNQUEUED, LONGER_TIMEOUT, UNVERIFIED, SECOND_CHANNEL,
            LATER_CHANNEL, BESIDE, FALSE_LOG, FASTER_WIRE)
#: A timeout that is longer than the policy's.
_LONGER = 1.5
_PORT = ("alpha", "to-beta")


def settings(fault: str, host: str, task: Mapping[str, Any]) -> Mapping[str, Any]:
    """What a host's configuration has in place of the task's."""
    if fault == CLEAR_BODY:
        return {"scope": "trailer"}
    if host == "alpha" and fault == UNQUEUED:
        return {"queue": False}
    if host == "alpha" and fault == LONGER_TIMEOUT:
        return {"timeout_s": task["timeout_s"] * _LONGER}
    return {}


def signs_as(fault: str, host: str, owner: str, sender: str) -> str:
    """Whose key pair a host has for the sending owner: hers, or one that nobody has published.

    A forger has another one alone; where nobody verifies, the other end has its public half.
    """
    is_swapped = owner == sender and (fault == UNVERIFIED or (
        fault == "forged-owner" and host == "alpha"))
    return "mallory" if is_swapped else owner


@contextmanager
def wire(fault: str, site: Site) -> Iterator[None]:
    """Without its rate while this lasts, where that is the control's."""
    if fault != FASTER_WIRE:
        yield
        return
    node, port = _PORT
    [link] = [link for link in site.network.links if f"{node}/{port}" in link.ends]
    site.testbed.run(node, ["tc", "qdisc", "del", "dev", port, "root"])
    try:
        yield
    finally:
        for command in wires.commands(link, port):
            site.testbed.run(node, command.split())
