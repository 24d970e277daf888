"""Attacking host that an owner talks to and that impersonates this owner to another host.

`python3 -m studies.adp1987.mallory JOB.json` runs on host `mid`. Mallory is a legitimate user with
keys of her own. With the protocol of 1987 she has the owner sign a challenge of another host. A
line on standard input starts the attack.
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
from protocols.adp.config import Config, load_config
from protocols.adp.crypto import Crypto
from protocols.adp.effects import Scope
from protocols.adp.network import Datagrams
from protocols.adp.packets import Flag, Frame, Kind, Proof
from protocols.adp.suite import Identity, Tools
from protocols.adp.suite_1987 import Suite1987
from protocols.adp.suite_modern import SuiteModern
from studies.adp1987.endpoint import read_job

_NUMBER = 9  # owner number that she gives to the impersonated owner
_PATIENCE_S = 30.0
TEXT = b"not from xena at all"


class Mallory:
    """A man-in-the-middle program that is built from parts of the protocol."""

    def __init__(self, config: Config, owner: str) -> None:
        self._config, self._owner = config, owner
        self._session = os.urandom(8)
        self._challenge: bytes | None = None
        identity = Identity("mid", "mallory", config.keys, self._session)
        tools = Tools(identity, config.directory, Crypto(lambda _operation, _size: None),
                      self._random_or_challenge, Scope.TRAILER, 64)
        self._is_old = config.version == "adp-1987"
        self._suite: Any = (Suite1987(tools, checksum=False) if self._is_old
                            else SuiteModern(tools))
        self._datagrams = Datagrams(config.network.kind, config.network.number,
                                    config.addresses["mid"])

    def run_attack(self) -> None:
        """Open a channel to beta and use the owner's signature there."""
        keys, channel = self._open_channel("beta")
        proof = self._lure_owner(keys.theirs if self._is_old else None)
        frame = self._make_frame(channel)
        self._send_to("beta", self._seal_message(keys, frame, (Proof(_NUMBER, self._owner,
                                                                     proof.signature),), TEXT))

    def _random_or_challenge(self, size: int) -> bytes:
        """Return random bytes, or the challenge that another owner is to sign."""
        return os.urandom(size) if self._challenge is None else self._challenge

    def _open_channel(self, host: str) -> tuple[Any, bytes]:
        """Open a channel to a host like any legitimate user, and return keys and number."""
        request, keys = self._suite.create_request(host)
        frame = self._make_frame(request.channel, Flag.REQUEST, request=request.encoded)
        self._send_to(host, frame.clear_bytes() if keys is None
                      else self._seal_message(keys, frame))
        keys = self._suite.complete_request(request, keys, self._receive_from(host))
        self._send_to(host, self._seal_message(keys, self._make_frame(request.channel)))
        return keys, request.channel

    def _lure_owner(self, challenge: bytes | None) -> Proof:
        """Accept the owner's channel and return the owner's signature."""
        request = self._receive_from("alpha")
        self._challenge = challenge
        keys, acknowledgement = self._suite.accept_request("alpha", request)
        self._challenge = None
        frame = self._make_frame(request.channel, Flag.ACKNOWLEDGE, acknowledgement=acknowledgement)
        self._send_to("alpha", self._seal_message(keys, frame))
        while True:
            answer = self._receive_from("alpha")
            body = packets.parse_body(keys.open(answer.clear_bytes(), answer), answer.count,
                                      self._suite.padding)
            for proof in body.proofs:
                if proof.name == self._owner:
                    return proof

    def _make_frame(self, channel: bytes, flags: int = 0, request: bytes = b"",
                    acknowledgement: bytes = b"") -> Frame:
        return Frame(self._suite.version, Kind.DATA, flags, 0, channel, self._session, request,
                     acknowledgement)

    def _seal_message(self, keys: Any, frame: Frame, proofs: tuple[Proof, ...] = (),
                      text: bytes | None = None) -> bytes:
        records = [] if text is None else [packets.encode_record(_NUMBER, b"bob", 7, text)]
        whole = replace(frame, flags=frame.flags | self._suite.header_flags(private=False),
                        count=len(records))
        body = packets.encode_body(proofs, (), records)
        return whole.clear_bytes() + bytes(keys.seal(whole.clear_bytes(), body, private=False))

    def _send_to(self, host: str, payload: bytes) -> None:
        self._datagrams.send(payload, self._config.addresses[host])

    def _receive_from(self, host: str) -> Frame:
        """Return the next message of a host.

        Raises:
            TimeoutError: None has arrived in 30 s.
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
