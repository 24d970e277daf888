"""What a control says besides: a request of the schema with a session key in it."""

from __future__ import annotations

import struct

import pytest

from protocols.kerberos import messages
from studies.krb5today import key_disclosure

KEY = bytes(range(32))


def text(value: bytes) -> bytes:
    """Counted, as in a cache."""
    return struct.pack("!I", len(value)) + value


def principal(realm: bytes, *names: bytes) -> bytes:
    """With its type, which is not looked at."""
    return struct.pack("!II", 1, len(names)) + text(realm) + b"".join(map(text, names))


def credential(server: bytes, key: bytes) -> bytes:
    """A ticket for alice: key, times, an address, no further data, and two tickets."""
    return (principal(b"LOCAL.TEST", b"alice") + server + struct.pack("!H", 18) + text(key)
            + bytes(4 * 4 + 1 + 4) + struct.pack("!IH", 1, 2) + text(bytes(4)) + bytes(4)
            + text(b"a ticket") + text(b""))


def cache(*credentials: bytes) -> bytes:
    """A cache of MIT krb5's file format 4, with a header."""
    return (b"\5\4" + struct.pack("!H", 12) + bytes(12) + principal(b"LOCAL.TEST", b"alice")
            + b"".join(credentials))


def test_a_key_is_told_in_a_request_of_the_schema() -> None:
    """To the byte what the schema writes, with the key in it: nothing but the key is wrong."""
    request = key_disclosure.create_request("LOCAL.TEST", "alice", KEY)
    value = messages.decode_message("AS-REQ", request)
    assert messages.encode_message("AS-REQ", value) == request
    assert KEY in request
    assert messages.name_of(value["req-body"]["cname"]) == "alice"


def test_the_key_is_that_of_the_first_ticket() -> None:
    """What the library notes of itself is no ticket; a cache without any is refused."""
    note = credential(principal(b"X-CACHECONF:", b"krb5_ccache_conf_data", b"pa_type"), b"")
    ticket = credential(principal(b"LOCAL.TEST", b"krbtgt", b"LOCAL.TEST"), KEY)
    assert key_disclosure.session_key(cache(ticket)) == key_disclosure.session_key(
        cache(note, ticket)) == KEY
    with pytest.raises(ValueError, match="no ticket"):
        key_disclosure.session_key(cache(note))
