"""Counts for the guidelines of section 6.4, from the messages of a transaction."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from protocols.kerberos import messages
from studies.kerberos2002.evidence import Case
from studies.kerberos2002.opened import Opened

#: Messages of RFC 4120. Its padata types below 0 are private.
_STANDARD = {"AS-REQ", "AS-REP", "TGS-REQ", "TGS-REP", "AP-REQ", "AP-REP", "KRB-ERROR"}
_REPLY = "EncASRepPart"


def count_for_guidelines(case: Case) -> dict[str, float]:
    """Return the counts of a mobile protocol's single customer, or {} otherwise.

    `proxy_keys` are the sealed keys that the proxy's private key opens. `proxy_parts` are the
    parts, out of `parts`, that these keys and the keys inside them open. `own_messages` are the
    messages at KDC and server that no standard has a number for. `key_holders` are the parties that
    know the reply's key, and `kdc_made` counts the reply keys that the KDC makes.
    """
    if case.customers > 1 or case.variant.way != "mobile":
        return {}
    opened = case.walk.opened
    told = {key for pack in opened.packs if case.variant.proxy != "none"
            and (key := case.keys.open_pack("proxy", pack.cipher)) is not None}
    parts, known = _open_reachable(opened, told)
    replies = [part.expected for part in opened.parts if part.kind == _REPLY]
    is_known = any(opened.known.get(name) in known for name in replies)
    return {"proxy_keys": len(told), "proxy_parts": parts, "parts": len(opened.parts),
            "own_messages": sum(_is_own(said.kind, said.value) for said in case.said
                                if {said.source, said.target} - {"client", "proxy"}),
            "key_holders": 2 + is_known,
            "kdc_made": sum(name.startswith("key of kdc") for name in replies)}


def _open_reachable(opened: Opened, first: set[bytes]) -> tuple[int, set[bytes]]:
    """Return the number of parts that keys open directly or indirectly, and these keys."""
    closed, known, fresh = list(opened.parts), set(first), set(first)
    while fresh:
        values = [(part, value) for part in closed for key in fresh
                  if (value := opened.keys.open_part(key, part)) is not None]
        read = [part for part, _ in values]
        closed = [part for part in closed if part not in read]
        fresh = {key for _, value in values for key in _keys_in(value)} - known
        known |= fresh
    return len(opened.parts) - len(closed), known


def _keys_in(value: Any) -> Iterator[bytes]:
    """Yield every key in a decoded value, at any depth."""
    if isinstance(value, dict):
        if isinstance(key := value.get("keyvalue"), bytes):
            yield key
        for inner in value.values():
            yield from _keys_in(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _keys_in(inner)


def _is_own(kind: str, value: Any) -> bool:
    """Return whether a message or data in it has no number in a standard."""
    if kind not in _STANDARD:
        return True
    return any(number < 0 for number in messages.padata_of(value or {}))
