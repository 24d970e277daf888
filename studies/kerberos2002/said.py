"""What a repetition's parties said is put in order, by party, from all captures together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from measure.messages import Traffic
from protocols.kerberos import messages
from protocols.kerberos.errors import Refusal

#: Messages of a repetition that are read whole.
MAX_READ = 600


@dataclass(frozen=True)
class Spoken:
    """A message with its parties; `value` is what it says by the schema, None for nonsense.

    Of long runs the first messages are read, and of the others (`is_read` false) just the kind.
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
        """Who says what kind of message to whom, and how."""
        return self.source, self.target, self.transport, self.kind


def in_order(traffic: Mapping[str, Traffic], addresses: Mapping[str, str]) -> list[Spoken]:
    """Each message once, by time: of several captures, the one nearest to the client counts."""
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
                 value_of(kind, payload) if number < MAX_READ else None, at_s, number < MAX_READ)
            for number, (at_s, source, target, transport, kind, payload) in enumerate(
                sorted(heard))]


def value_of(kind: str, payload: bytes) -> Any:
    """What a message says, if it is exactly what the schema would write."""
    try:
        value = messages.decode(kind, payload) if kind else None
        return value if value is not None and messages.encode(kind, value) == payload else None
    except Refusal:
        return None


def refusals(said: Sequence[Spoken]) -> list[str]:
    """What errors were told, each once."""
    return list(dict.fromkeys(
        f"{message.source} refuses with error {message.value['error-code']} "
        f"({message.value.get('e-text', '')})" for message in said
        if message.kind == "KRB-ERROR" and message.value))
