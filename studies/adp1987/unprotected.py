"""Negative controls that keep every message flowing and remove one protection.

A host's configuration differs from the cell's, or the sender disobeys it, or the wire has no rate.
This module runs in the guest and needs no third-party packages.
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
#: Factor by which the timeout is longer than the policy's.
_LONGER = 1.5
_PORT = ("alpha", "to-beta")


def changed_settings(fault: str, host: str, task: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the settings of a host that differ from the task's."""
    if fault == CLEAR_BODY:
        return {"scope": "trailer"}
    if host == "alpha" and fault == UNQUEUED:
        return {"queue": False}
    if host == "alpha" and fault == LONGER_TIMEOUT:
        return {"timeout_s": task["timeout_s"] * _LONGER}
    return {}


def signing_owner(fault: str, host: str, owner: str, sender: str) -> str:
    """Return whose key pair a host uses for the sending owner.

    A control replaces the owner's pair by the unpublished one of `mallory`. For `forged-owner` only
    the sender does so. For `unverified-owner` the receiver has the matching public key.
    """
    is_swapped = owner == sender and (fault == UNVERIFIED or (
        fault == "forged-owner" and host == "alpha"))
    return "mallory" if is_swapped else owner


@contextmanager
def remove_wire_rate(fault: str, site: Site) -> Iterator[None]:
    """Remove the wire's rate inside the context, if the control is `faster-wire`."""
    if fault != FASTER_WIRE:
        yield
        return
    node, port = _PORT
    [link] = [link for link in site.network.links if f"{node}/{port}" in link.ends]
    site.testbed.run_command(node, ["tc", "qdisc", "del", "dev", port, "root"])
    try:
        yield
    finally:
        for command in wires.wire_commands(link, port):
            site.testbed.run_command(node, command.split())
