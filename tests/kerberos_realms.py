"""Two realms in memory: parties ask each other by function calls, and all messages are noted."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from protocols.kerberos import messages
from protocols.kerberos.client import Client
from protocols.kerberos.config import ClientRole, load_config
from protocols.kerberos.messages import KrbError
from protocols.kerberos.party import Party, PartyWork, PhaseMark
from protocols.kerberos.processor import Meter
from protocols.kerberos.program import party_of
from studies.kerberos2002 import pki, programs

SERVICES = 3
#: The control that is made with the keys.
OF_KEYS = "one-key-for-two"


def keys(suite: str, chain_length: int = 2, fault: str = "") -> Path:
    """The keys of a suite with chains of so many certificates, made once; some are a control's."""
    return _made(suite, chain_length, is_shared=fault == OF_KEYS)


@cache
def _made(suite: str, chain_length: int, *, is_shared: bool) -> Path:
    file = Path(mkdtemp()) / "keys.json"
    pki.make_keys(file, suite, SERVICES, 1800, chain_length)
    if is_shared:
        pki.share_key(file)
    return file


class Realms:
    """All parties of a task, and what they said."""

    def __init__(self, folder: Path, protocol: str, suite: str = "era", servers: int = 1,
                 fault: str = "", options: Mapping[str, Any] | None = None) -> None:
        task = {"protocol": protocol, "servers": servers, "customers": 1, "suite": suite,
                "xtkt_cache": False, "kdc_signs": False, "own_proxy_key": False,
                "spares_opening": False,
                "variation": "fixed", "transactions": 1, "seed": 1, **(options or {})}
        self.documents = programs.build_configurations(
            task, keys(suite, int(task.get("chain_length", 2)), fault), {}, fault)
        self.meters: dict[str, Meter] = {}
        self.said: list[tuple[str, str, str, bytes]] = []
        self.marks: list[str] = []
        self._read = {}
        for name, document in self.documents.items():
            file = folder / f"{name}.json"
            file.write_text(json.dumps(document))
            self._read[name] = load_config(file)
        self.parties: dict[str, Any] = {}
        for name, read in self._read.items():
            if not isinstance(read.role, ClientRole):
                self.parties[name] = party_of(read.role)

    def party(self, name: str) -> Party:
        """A node's operations, counted over its whole life."""
        read = self._read[name]
        offset_ns = round(read.clock_offset_s * 1e9)
        meter = self.meters.setdefault(name, Meter({}))
        return Party(read.suite, meter, secrets.token_bytes, lambda: time.time_ns() + offset_ns)

    def transaction(self, way: str) -> None:
        """One transaction. Raises Refusal."""
        role = self._read["client"].role
        assert isinstance(role, ClientRole)
        self._run("client", Client(role.settings).run_transaction(self.party("client"), way))

    def ask(self, asker: str, to: str, transport: str, message: bytes) -> bytes:
        """A party's reply."""
        self.said.append((asker, to, transport, message))
        try:
            reply = self._run(to, self.parties[to].answer_request(self.party(to), message))
        except KrbError as refusal:
            reply = messages.error_message(refusal, time.time_ns(), *self.parties[to].name)
        self.said.append((to, asker, transport, reply))
        return reply

    def _run(self, name: str, work: PartyWork) -> bytes:
        reply: bytes | None = None
        try:
            while True:
                step = work.send(reply)  # type: ignore[arg-type]
                if isinstance(step, PhaseMark):
                    self.marks.append(step.name)
                    reply = b""
                else:
                    reply = self.ask(name, step.to, step.transport, step.message)
        except StopIteration as end:
            answer: bytes = end.value
            return answer

    @property
    def kinds(self) -> list[str]:
        """What was said, in order."""
        return [f"{asker}>{to} {transport} {messages.kind_of(message)}"
                for asker, to, transport, message in self.said]

    def operations(self, name: str) -> Mapping[str, int]:
        """What a party has done."""
        return self.meters[name].operations
