"""Messages of a repetition's parties in order, merged from all captures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from measure.messages import Traffic
from protocols.kerberos import messages
from protocols.kerberos.errors import Refusal

#: Number of messages of a repetition that are decoded completely.
MAX_READ = 600


@dataclass(frozen=True)
class Spoken:
    """A message and its parties.

    `value` is its content by the schema, or None where it does not follow the schema. Only the
    first messages of long runs are decoded. Of the others (`is_read` false) only the kind is known.
    """

    source: str
    target: str
    transport: str
    kind: str
    payload: bytes
    value: Any
    at_s: float
    is_read: bool = True

    @property
    def step(self) -> tuple[str, str, str, str]:
        """Return the message's parties, transport and kind."""
        return self.source, self.target, self.transport, self.kind


def merge_messages(traffic: Mapping[str, Traffic], addresses: Mapping[str, str]) -> list[Spoken]:
    """Return each message once by time, from the capture nearest to the client."""
    parties = {address: party for party, address in addresses.items()}
    places = list(traffic)
    heard: list[tuple[float, str, str, str, str, bytes]] = []
    for number, place in enumerate(places):
        before = set(places[:number])
        for message in traffic[place].messages:
            source, target = parties.get(message.source, ""), parties.get(message.target, "")
            if {source, target} & before or not {source, target} & {place}:
                continue
            kind = messages.kind_of(message.payload)
            heard.append((message.ended_s, source, target, message.transport, kind,
                          message.payload))
    return [Spoken(source, target, transport, kind, payload,
                 decode_exactly(kind, payload) if number < MAX_READ else None, at_s,
                   number < MAX_READ)
            for number, (at_s, source, target, transport, kind, payload) in enumerate(
                sorted(heard))]


def decode_exactly(kind: str, payload: bytes) -> Any:
    """Return the content of a message, or None unless the schema gives these bytes."""
    try:
        value = messages.decode(kind, payload) if kind else None
        return value if value is not None and messages.encode(kind, value) == payload else None
    except Refusal:
        return None


def refusal_texts(sent_messages: Sequence[Spoken]) -> list[str]:
    """Return the texts of all errors that were sent, without duplicates."""
    return list(dict.fromkeys(
        f"{message.source} refuses with error {message.value['error-code']} "
        f"({message.value.get('e-text', '')})" for message in sent_messages
        if message.kind == "KRB-ERROR" and message.value))
