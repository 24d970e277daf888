"""Attack ADP: impersonate a user, who talks to the attacker, to another host.

The study adp1987 runs this program as an injected fault, because ADP of 1987 (Authenticated
Datagram Protocol) has this weakness: a user signs any challenge. The attacker Mallory has
legitimate keys of her own. She gets a challenge from host beta, passes it on to the user on host
alpha, and uses the signature at beta. The command `python3 -m studies.adp1987.programs.mallory
JOB.json` runs on host `mid`. A line on standard input starts the attack, and the program answers
`done`.
"""

from __future__ import annotations

import os
import select
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from protocols.adp import packets
from protocols.adp.config import HostConfig, load_config
from protocols.adp.crypto import Crypto
from protocols.adp.effects import EncryptionScope
from protocols.adp.packets import Frame, HeaderFlag, MessageKind, OwnerSignature
from protocols.adp.program import DatagramSocket
from protocols.adp.suite import Identity, SuiteTools
from protocols.adp.suite_1987 import Suite1987
from protocols.adp.suite_modern import SuiteModern
from studies.adp1987.programs.endpoint import read_job

_NUMBER = 9  # owner number that she gives to the impersonated owner
_PATIENCE_S = 30.0
TEXT = b"not from xena at all"


class Mallory:
    """An attacker in the middle, built from parts of the protocol."""

    def __init__(self, config: HostConfig, owner: str) -> None:
        self._config, self._owner = config, owner
        self._session = os.urandom(8)
        self._challenge: bytes | None = None
        identity = Identity("mid", "mallory", config.keys, self._session)
        tools = SuiteTools(identity, config.directory, Crypto(lambda _operation, _size: None),
                           self._random_or_challenge, EncryptionScope.TRAILER, 64)
        self._is_old = config.version == "adp-1987"
        self._suite: Any = (Suite1987(tools, checksum=False) if self._is_old
                            else SuiteModern(tools))
        self._datagrams = DatagramSocket(config.network.kind, config.network.number,
                                         config.addresses["mid"])

    def run_attack(self) -> None:
        """Open a channel to host beta, and use the user's signature there."""
        keys, channel = self._open_channel("beta")
        signature = self._lure_owner(keys.theirs if self._is_old else None)
        frame = self._make_frame(channel)
        relayed = OwnerSignature(_NUMBER, self._owner, signature.value)
        self._send_to("beta", self._seal_message(keys, frame, (relayed,), TEXT))

    def _random_or_challenge(self, size: int) -> bytes:
        """Return random bytes, or the challenge that the attacked user is to sign."""
        return os.urandom(size) if self._challenge is None else self._challenge

    def _open_channel(self, host: str) -> tuple[Any, bytes]:
        """Open a channel to a host like any legitimate user, and return its keys and its number."""
        request, keys = self._suite.create_request(host)
        frame = self._make_frame(request.channel, HeaderFlag.REQUEST, request=request.encoded)
        self._send_to(host, frame.clear_bytes() if keys is None
                      else self._seal_message(keys, frame))
        keys = self._suite.complete_request(request, keys, self._receive_from(host))
        self._send_to(host, self._seal_message(keys, self._make_frame(request.channel)))
        return keys, request.channel

    def _lure_owner(self, challenge: bytes | None) -> OwnerSignature:
        """Accept the attacked user's channel, and return the user's signature."""
        request = self._receive_from("alpha")
        self._challenge = challenge
        keys, acknowledgement = self._suite.accept_request("alpha", request)
        self._challenge = None
        frame = self._make_frame(request.channel, HeaderFlag.ACKNOWLEDGE,
                                 acknowledgement=acknowledgement)
        self._send_to("alpha", self._seal_message(keys, frame))
        while True:
            answer = self._receive_from("alpha")
            body = packets.parse_body(keys.open(answer.clear_bytes(), answer), answer.count,
                                      self._suite.padding)
            for signature in body.signatures:
                if signature.name == self._owner:
                    return signature

    def _make_frame(self, channel: bytes, flags: int = 0, request: bytes = b"",
                    acknowledgement: bytes = b"") -> Frame:
        return Frame(self._suite.version, MessageKind.DATA, flags, 0, channel, self._session,
                     request,
                     acknowledgement)

    def _seal_message(self, keys: Any, frame: Frame, signatures: tuple[OwnerSignature, ...] = (),
                      text: bytes | None = None) -> bytes:
        messages = [] if text is None else [packets.encode_message(_NUMBER, b"bob", 7, text)]
        sealed_frame = replace(frame, flags=frame.flags | self._suite.header_flags(private=False),
                               count=len(messages))
        body = packets.encode_body(signatures, (), messages)
        clear = sealed_frame.clear_bytes()
        return clear + bytes(keys.seal(clear, body, private=False))

    def _send_to(self, host: str, payload: bytes) -> None:
        self._datagrams.send(payload, self._config.addresses[host])

    def _receive_from(self, host: str) -> Frame:
        """Return the next datagram of a host.

        Raises:
            TimeoutError: nothing has arrived in 30 s.
        """
        until_s = time.monotonic() + _PATIENCE_S
        while (left_s := until_s - time.monotonic()) > 0:
            select.select([self._datagrams.fileno()], [], [], left_s)
            received = self._datagrams.receive()
            if received is not None and received[1] == self._config.addresses[host]:
                return packets.parse_frame(received[0])
        raise TimeoutError(f"nothing from {host}")


def main(path: str) -> int:
    """Run the attack for each line on standard input."""
    job = read_job(path)
    mallory = Mallory(load_config(Path(job["config"])), job["owner"])
    print("ready", flush=True)
    for line in sys.stdin:
        mallory.run_attack()
        print(f"done {line.strip()}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
