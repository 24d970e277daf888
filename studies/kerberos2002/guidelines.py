"""What section 6.4's guidelines are about is counted in a transaction's messages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from protocols.kerberos import messages
from studies.kerberos2002.evidence import Case
from studies.kerberos2002.opened import Opened

#: What RFC 4120 has; of its padata, numbers below 0 are anybody's own.
_STANDARD = {"AS-REQ", "AS-REP", "TGS-REQ", "TGS-REP", "AP-REQ", "AP-REP", "KRB-ERROR"}
_REPLY = "EncASRepPart"


def counted(case: Case) -> dict[str, float]:
    """By name, of a lone customer of a mobile protocol; {} of any other.

    `proxy_keys` are the sealed keys that the proxy's private key opens, `proxy_parts` what these
    and the keys within open in turn, of so many `parts`. `own_messages` are those at KDC and
    server that no standard has a number for, `key_holders` are the parties that know the reply's
    key, and `kdc_made` is how many of these the KDC makes.
    """
    if case.customers > 1 or case.variant.way != "mobile":
        return {}
    opened = case.walk.opened
    told = {key for pack in opened.packs if case.variant.proxy != "none"
            and (key := case.keys.open_pack("proxy", pack.cipher)) is not None}
    parts, known = _reached(opened, told)
    replies = [part.expected for part in opened.parts if part.kind == _REPLY]
    is_known = any(opened.known.get(name) in known for name in replies)
    return {"proxy_keys": len(told), "proxy_parts": parts, "parts": len(opened.parts),
            "own_messages": sum(_is_own(said.kind, said.value) for said in case.said
                                if {said.source, said.target} - {"client", "proxy"}),
            "key_holders": 2 + is_known,
            "kdc_made": sum(name.startswith("key of kdc") for name in replies)}


def _reached(opened: Opened, first: set[bytes]) -> tuple[int, set[bytes]]:
    """How many parts some keys open, with those that are in what they open; and all the keys."""
    closed, known, fresh = list(opened.parts), set(first), set(first)
    while fresh:
        values = [(part, value) for part in closed for key in fresh
                  if (value := opened.keys.opens(key, part)) is not None]
        read = [part for part, _ in values]
        closed = [part for part in closed if part not in read]
        fresh = {key for _, value in values for key in _keys_in(value)} - known
        known |= fresh
    return len(opened.parts) - len(closed), known


def _keys_in(value: Any) -> Iterator[bytes]:
    """Every key that a decoded value holds, however deep."""
    if isinstance(value, dict):
        if isinstance(key := value.get("keyvalue"), bytes):
            yield key
        for inner in value.values():
            yield from _keys_in(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _keys_in(inner)


def _is_own(kind: str, value: Any) -> bool:
    """Whether a message, or data in it, has no number of a standard's."""
    if kind not in _STANDARD:
        return True
    return any(number < 0 for number in messages.padata_of(value or {}))
