"""Required messages of each protocol, and the operations that follow from them.

Written from appendix A and Figures 7 and 8 of the paper. Nothing is shared with the programs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from studies.kerberos2002.variants import ProtocolVariant

Step = tuple[str, str, str, str]
_CLIENT, _LOCAL, _REMOTE, _PROXY = "client", "kdc-l", "kdc-r", "proxy"


def transaction_steps(variant: ProtocolVariant, servers: Mapping[str, str]) -> list[Step]:
    """Return a transaction's messages in order. `servers` has the node of each service."""
    if variant.way == "pkcross":
        return list(_pkcross_steps(servers))
    if variant.way == "pktapp":
        return [step for node in servers.values() for step in (
            *_exchange_steps(_CLIENT, node, "tcp", "AS"),
            *_exchange_steps(_CLIENT, node, "udp", "AP"))]
    return list(_mobile_steps(variant, servers))


def _exchange_steps(requester: str, responder: str, transport: str,
                    exchange: str) -> tuple[Step, Step]:
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
    """Yield an exchange directly, or wrapped for the proxy on the client's side."""
    if variant.proxy == "none":
        yield from _exchange_steps(_CLIENT, node, transport, exchange)
        return
    yield _CLIENT, _PROXY, transport, "ProxyRequest"
    yield from _exchange_steps(_PROXY, node, transport, exchange)
    yield _PROXY, _CLIENT, transport, "ProxyReply"


def preauthentication_way(variant: ProtocolVariant, requester: str) -> str:
    """Return how a first request proves the client: `pkinit`, `client-key` or only `password`."""
    if requester == _LOCAL:
        return "pkinit"  # PKCROSS, from KDC to KDC
    return variant.initial


#: Private and public operations of the party that asks with a signature, that answers, that gives a
#: key and that gets a key. The third number is the count of chains to verify, each with a public
#: operation per certificate.
_ASKS, _ANSWERS, _TELLS, _IS_TOLD = (2, 1, 1), (1, 2, 1), (1, 1, 0), (1, 1, 1)
_SIGNS = (1, 0, 0)


def public_key_operations(variant: ProtocolVariant, servers: Mapping[str, str], *,
                          kdc_signs: bool = False, spares_opening: bool = False,
                          chain_length: int = 2) -> dict[str, tuple[int, int]]:
    """Return the private and public operations of a transaction, by party.

    Parties without any operation are left out. `chain_length` is the number of certificates in a
    chain, without the anchor.
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
