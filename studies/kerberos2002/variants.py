"""Describe the login protocols of the 2002 paper: the messages and operations that each needs.

A `ProtocolVariant` describes one protocol, such as PKCROSS or PKTAPP. `transaction_steps` returns
the messages of a login, and `public_key_operations` counts the operations at each node. Checks and
predictions of the study kerberos2002 compare the programs with them. The paper is Harbitter and
Menascé (2002). `studies.kerberos2002` lists the terms.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from policies import KerberosLayer


@dataclass(frozen=True)
class ProtocolVariant:
    """A login protocol of the 2002 paper.

    - `way`: its family. `pkcross`: the KDCs of two realms authenticate each other. `pktapp`: the
      client authenticates to each application server. `mobile`: PKINIT in one realm.
    - `initial`: how the first request proves the client, and who makes the key of the reply. With
      `client-key`, the client makes it.
    - `proxy`: use of a proxy. `forward`: it only forwards. `trusted`: it also gets the client's
      key. `assist`: it also adds the client's certificate chain.
    """

    title: str
    way: Literal["pkcross", "pktapp", "mobile"]
    initial: Literal["password", "pkinit", "client-key"] = "password"
    proxy: Literal["none", "forward", "trusted", "assist"] = "none"


VARIANTS: Mapping[str, ProtocolVariant] = {
    "pkcross": ProtocolVariant("PKCROSS", "pkcross"),
    "pktapp": ProtocolVariant("PKTAPP", "pktapp", "pkinit"),
    "m-standard": ProtocolVariant("M-PKINIT standard", "mobile", "pkinit"),
    "m-client-key": ProtocolVariant("M-PKINIT client session key", "mobile", "client-key"),
    "mp-standard": ProtocolVariant("MP-PKINIT standard", "mobile", "pkinit", "forward"),
    "mp-client-key": ProtocolVariant("MP-PKINIT client session key", "mobile", "client-key",
                                     "forward"),
    "mp-trusted": ProtocolVariant("MP-PKINIT trusted proxy", "mobile", "client-key", "trusted"),
    "mp-assist": ProtocolVariant("MP-PKINIT proxy assist", "mobile", "client-key", "assist"),
}
#: Protocols of Table III, row by row.
MOBILE = tuple(name for name, variant in VARIANTS.items() if variant.way == "mobile")

#: Operations whose cost a device must state, by suite.
CIPHERS = {"era": ("rsa-1024-private", "rsa-1024-public", "des-operation"),
           "today": ("rsa-2048-private", "rsa-2048-public", "aes-operation")}
MAX_SERVERS = 16


def protocol_from_layer(layer: KerberosLayer) -> str:
    """Return the login protocol that a policy's layer `kerberos` requires."""
    if layer.realms != "one":
        return layer.realms
    initial = "client-key" if layer.reply_key == "client" else "pkinit"
    return next(name for name in MOBILE if (VARIANTS[name].initial, VARIANTS[name].proxy) == (
        initial, layer.proxy))


# --- Nodes of the parties, by a cell's level of the factor wire ---
# This part runs inside the guest, too. It uses the standard library only.

#: Application servers: as many as can have a machine of their own.
SERVER_NODES = ("app1", "app2", "app3", "app4")
_WIDE = {server: f"{server}-wan" for server in SERVER_NODES}
#: Node of a party, by the level of the factor wire.
_PLACES: Mapping[str, Mapping[str, str]] = {
    "lan": {}, "slow": {party: f"{party}-slow" for party in ("kdc-r", *SERVER_NODES)},
    "2g": {"client": "client-2g", **_WIDE}, "3g": {"client": "client-3g", **_WIDE}}


def node_of(party: str, wire: str, *, is_mobile: bool) -> str:
    """Return the node that runs a program. Clients that are not mobile are at workstations."""
    if party == "client" and not is_mobile:
        return "workstation"
    return _PLACES[wire].get(party, party)


# --- Required messages of each protocol, and the operations that follow from them ---
# They are written from appendix A and Figures 7 and 8 of the paper. Nothing is shared with the
# programs.

Step = tuple[str, str, str, str]
_CLIENT, _LOCAL, _REMOTE, _PROXY = "client", "kdc-l", "kdc-r", "proxy"


def transaction_steps(variant: ProtocolVariant, servers: Mapping[str, str]) -> list[Step]:
    """Return the messages of a login in order.

    Args:
        variant: the login protocol.
        servers: node of each application server.
    """
    if variant.way == "pkcross":
        return list(_pkcross_steps(servers))
    if variant.way == "pktapp":
        return [step for node in servers.values() for step in (
            *_exchange_steps(_CLIENT, node, "tcp", "AS"),
            *_exchange_steps(_CLIENT, node, "udp", "AP"))]
    return list(_mobile_steps(variant, servers))


def _exchange_steps(requester: str, responder: str, transport: str,
                    exchange: str) -> tuple[Step, Step]:
    """Return the request and the reply of an exchange, such as TGS-REQ and TGS-REP."""
    return ((requester, responder, transport, f"{exchange}-REQ"),
            (responder, requester, transport, f"{exchange}-REP"))


def _pkcross_steps(servers: Mapping[str, str]) -> Iterator[Step]:
    yield from _exchange_steps(_CLIENT, _LOCAL, "udp", "AS")
    ask, answer = _exchange_steps(_CLIENT, _LOCAL, "udp", "TGS")
    yield ask
    yield from _exchange_steps(_LOCAL, _REMOTE, "tcp", "AS")
    yield answer
    for node in servers.values():
        yield from _exchange_steps(_CLIENT, _REMOTE, "udp", "TGS")
        yield from _exchange_steps(_CLIENT, node, "udp", "AP")


def _mobile_steps(variant: ProtocolVariant, servers: Mapping[str, str]) -> Iterator[Step]:
    yield from _client_exchange(variant, _LOCAL, "tcp", "AS")
    for node in servers.values():
        yield from _client_exchange(variant, _LOCAL, "udp", "TGS")
        yield from _client_exchange(variant, node, "udp", "AP")


def _client_exchange(variant: ProtocolVariant, node: str, transport: str,
                     exchange: str) -> Iterator[Step]:
    """Yield request and reply of a client, directly or through the proxy."""
    if variant.proxy == "none":
        yield from _exchange_steps(_CLIENT, node, transport, exchange)
        return
    yield _CLIENT, _PROXY, transport, "ProxyRequest"
    yield from _exchange_steps(_PROXY, node, transport, exchange)
    yield _PROXY, _CLIENT, transport, "ProxyReply"


def preauthentication_way(variant: ProtocolVariant, requester: str) -> str:
    """Return how a first request proves the client: `pkinit`, `client-key` or `password`."""
    if requester == _LOCAL:
        return "pkinit"  # PKCROSS, from KDC to KDC
    return variant.initial


# Numbers of private-key operations, of public-key operations, and of certificate chains to verify.
# A chain takes a public-key operation for each of its certificates.

#: PKINIT: the party that sends a signed request.
_ASKS = (2, 1, 1)
#: PKINIT: the party that answers a signed request.
_ANSWERS = (1, 2, 1)
#: The party that makes a session key, and sends it to another one.
_TELLS = (1, 1, 0)
#: The party that receives such a key.
_IS_TOLD = (1, 1, 1)
#: A KDC that signs its reply.
_SIGNS = (1, 0, 0)


def public_key_operations(variant: ProtocolVariant, servers: Mapping[str, str], *,
                          kdc_signs: bool = False, spares_opening: bool = False,
                          chain_length: int = 2) -> dict[str, tuple[int, int]]:
    """Return the number of private-key and of public-key operations of a login, by node.

    Args:
        variant: the login protocol.
        servers: node of each application server.
        kdc_signs: the KDC signs replies under a client's key, as in the paper's programs.
        spares_opening: the client skips a private-key operation, as in the paper's programs.
        chain_length: number of certificates in a chain, without the trust anchor.

    Returns:
        Pairs of both numbers by node. Nodes without any operation are left out.
    """
    total: Counter[tuple[str, int]] = Counter()

    def add(party: str, counts: tuple[int, int, int]) -> None:
        private, public, chains = counts
        total[party, 0] += private
        total[party, 1] += public + chains * chain_length
    asks = (_ASKS[0] - spares_opening, *_ASKS[1:])
    if variant.way == "pkcross":
        add(_LOCAL, _ASKS)
        add(_REMOTE, _ANSWERS)
    elif variant.way == "pktapp":
        for node in servers.values():
            add(_CLIENT, asks)
            add(node, _ANSWERS)
    elif variant.initial == "pkinit":
        add(_CLIENT, asks)
        add(_LOCAL, _ANSWERS)
    elif variant.initial == "client-key":
        add(_CLIENT, _TELLS)
        add(_LOCAL, _IS_TOLD)
        if kdc_signs:
            add(_LOCAL, _SIGNS)
        if variant.proxy in ("trusted", "assist"):
            add(_CLIENT, _TELLS)
            add(_PROXY, _IS_TOLD)
    return {party: (total[party, 0], total[party, 1]) for party, _ in total}
