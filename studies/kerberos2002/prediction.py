"""Prediction of Table III's phases: the operations of each, times their cost on the devices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from studies.kerberos2002.network import NODES
from studies.kerberos2002.places import node_of
from studies.kerberos2002.said import Spoken
from studies.kerberos2002.variants import ProtocolVariant
from topologies.loader import load_wire
from topologies.model import Wire

#: Bytes of Ethernet, IP and UDP or TCP headers, and most bytes in a segment.
_HEADERS_BYTES = {"udp": (42, 1 << 16), "tcp": (66, 1448)}

#: Operations of the client before its first message, by how the reply's key is made.
_BEFORE = {"pkinit": {"private": 1, "chain-sent": 1, "message-tcp": 1},
           "client-key": {"private": 1, "public": 1, "secret": 1, "chain-sent": 1,
                          "message-tcp": 1}}
#: Operations of the KDC, between its two messages.
_KDC = {"pkinit": {"private": 1, "public": 2, "chain": 1, "secret": 3, "chain-sent": 1,
                   "chain-read": 1, "message-tcp": 2},
        "client-key": {"private": 1, "public": 1, "chain": 1, "secret": 3, "chain-read": 1,
                       "message-tcp": 2}}
#: Operations of the client after the reply.
_AFTER = {"pkinit": {"private": 1, "public": 1, "chain": 1, "secret": 2, "chain-read": 1,
                     "message-tcp": 1},
          "client-key": {"secret": 1, "message-tcp": 1}}
#: Additional operations of client and proxy when the client gives the proxy a key.
_TELLING = {"private": 1, "public": 1, "secret": 1}
_TOLD = {"private": 1, "public": 1, "chain": 1, "secret": 2, "chain-read": 1}
_RELAYED = {"message-tcp": 4}
#: Operations for a service ticket and its use: at the client, at KDC and server, and at a proxy
#: that relays four messages.
_TICKETS_CLIENT = {"secret": 4, "message-udp": 4}
_TICKETS_SERVERS = {"secret": 7, "message-udp": 4}
_TICKETS_RELAYED = {"message-udp": 8}


def predict_phases(variant: ProtocolVariant, task: Mapping[str, Any]) -> dict[str, float]:
    """Return the processor seconds of each phase, or {} for protocols without phases."""
    if variant.way != "mobile":
        return {}
    client, server = task["devices"]["mobile"], task["devices"]["server"]
    speed, suite = float(task["speed"]), task["suite"]

    def by(device: Mapping[str, Any], *groups: Mapping[str, int]) -> float:
        # A chain is verified by a public operation for each of its certificates.
        return sum(count * (task["chain_length"] * _operation_seconds(device, "public", suite)
                            if kind == "chain" else _operation_seconds(device, kind, suite))
                   for group in groups for kind, count in group.items())
    has_proxy, is_told = variant.proxy != "none", variant.proxy in ("trusted", "assist")
    before = dict(_BEFORE[variant.initial])
    if variant.proxy == "assist":
        del before["chain-sent"]
    kdc = dict(_KDC[variant.initial])
    kdc["private"] += int(task["kdc_signs"] and variant.initial == "client-key")
    after = dict(_AFTER[variant.initial])
    after["private"] = after.get("private", 0) - int(
        task["spares_opening"] and variant.initial == "pkinit")
    proxied = [_RELAYED] * has_proxy + [_TOLD] * is_told
    proxied += [{"chain-sent": 1}] * (variant.proxy == "assist")
    return {
        "pre_auth_s": by(client, before, *[_TELLING] * is_told),
        "auth_s": by(server, kdc, *proxied) / speed,
        "post_auth_s": by(client, after, *[{"secret": 1}] * is_told),
        "tgt_st_s": by(client, _TICKETS_CLIENT) + by(
            server, _TICKETS_SERVERS, *[_TICKETS_RELAYED] * has_proxy) / speed}


def wire_seconds(sent_messages: Sequence[Spoken], wire: str) -> dict[str, float]:
    """Return the seconds of a single mobile client's messages on their two wires.

    TCP messages belong to Auth, the others to TGT & ST. A connection's first round trip is left
    out. Segments of a message overlap on the two wires, so only its last segment counts on the
    second one.
    """
    totals = {"auth_s": 0.0, "tgt_st_s": 0.0}
    for message in sent_messages:
        headers, most = _HEADERS_BYTES[message.transport]
        size = len(message.payload)
        segments = -(-size // most)
        last = size - (segments - 1) * most + headers
        first, second = (load_wire(NODES[node_of(party, wire, is_mobile=True)])
                         for party in (message.source, message.target))
        took_s = _on_wire(first, size + segments * headers, segments) + _on_wire(second, last, 1)
        totals["auth_s" if message.transport == "tcp" else "tgt_st_s"] += took_s
    return totals


def _on_wire(wire: Wire, size: int, frames: int) -> float:
    assert wire.rate_bps is not None
    return 8 * (size + frames * wire.overhead_bytes) / wire.rate_bps + wire.delay_ms / 1e3


def _operation_seconds(device: Mapping[str, Any], kind: str, suite: str) -> float:
    """Return the seconds of an operation, or 0 where the device states none."""
    names = {"era": {"private": "rsa-1024-private", "public": "rsa-1024-public",
                     "secret": "des-operation"},
             "today": {"private": "rsa-2048-private", "public": "rsa-2048-public",
                       "secret": "aes-operation"}}[suite]
    work = device.get("work", {}).get(names.get(kind, kind))
    return float(work["seconds"]) if work else 0.0
