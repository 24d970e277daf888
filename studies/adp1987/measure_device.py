"""Measure how long the operations of ADP take on this machine, for a device file.

ADP is the Authenticated Datagram Protocol of 1987. A device file states how long operations take on
a computer, so that the study adp1987 can imitate it. The command `python3 -m
studies.adp1987.measure_device` prints CPU times of this Python implementation as lines for such a
file. `measure_cryptography` measures cryptographic operations, `measure_messages` the work per
message and datagram. System calls for datagrams are not included.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable
from functools import partial

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from protocols.adp.context import HostSettings
from protocols.adp.crypto import Crypto, RsaPrivateKey
from protocols.adp.effects import DeliverMessage, Effect, EncryptionScope, Message, SendFrame
from protocols.adp.host import Host, create_host
from protocols.adp.keys import RSA_BITS
from protocols.adp.suite import KeyDirectory

_ROUNDS, _LARGE, _BATCH = 2000, 16_384, 11
_PRIMES = {512: (2**255 + 95, 2**256 - 189), 1024: (2**511 + 111, 2**512 - 569)}


def time_operation(operation: Callable[[], object], rounds: int = _ROUNDS) -> float:
    """Return the CPU time (s) of an operation: the best mean of five, to exclude other load."""
    best = float("inf")
    for _ in range(5):
        start = time.process_time()
        for _ in range(rounds):
            operation()
        best = min(best, (time.process_time() - start) / rounds)
    return best


def measure_cryptography() -> dict[str, float]:
    """Measure the CPU time (s) of each cryptographic operation. Names with `_byte` are per byte."""
    crypto = Crypto(lambda _operation, _size: None)
    key, small, large = b"8 bytes!", bytes(16), bytes(_LARGE)
    signer, aead = Ed25519PrivateKey.generate(), ChaCha20Poly1305(bytes(32))
    verifier, signature = signer.public_key(), signer.sign(small)
    figures: dict[str, float] = {}
    for bits, (p, q) in _PRIMES.items():
        # These numbers need not be prime: the work is the same, and the result is not used.
        private = RsaPrivateKey(p, q, 65537)
        public = type(private.public)(p * q, 65537)
        block = bytes(public.size - 1) + b"2"
        figures[f"rsa-{bits}-private"] = time_operation(partial(crypto.rsa_private, private, block),
                                                        200)
        figures[f"rsa-{bits}-public"] = time_operation(partial(crypto.rsa_public, public, block),
                                                       200)
    figures |= {
        "x25519": time_operation(partial(crypto.x25519_public, bytes(32))),
        "ed25519-sign": time_operation(partial(crypto.sign, signer, small)),
        "ed25519-verify": time_operation(partial(crypto.verify, verifier, signature, small))}
    bulk: dict[str, Callable[[bytes], object]] = {
        "des": partial(crypto.des_encrypt, key),
        "chacha20-poly1305": partial(crypto.seal, aead, 1, clear=b""), "sha256": crypto.digest}
    for name, run in bulk.items():
        each = time_operation(partial(run, small))
        figures[f"{name}_byte"] = (time_operation(partial(run, large), 200) - each) / _LARGE
        figures[f"{name}-operation"] = each
    return figures


def measure_messages() -> dict[str, float]:
    """Measure a host's CPU time (s) per message and per datagram, without cryptography.

    There is a time for sending and one for receiving.
    """
    one, many = _time_trip(1), _time_trip(_BATCH)
    figures = {}
    for way, alone, together in zip(("send", "receive"), one, many, strict=True):
        user = (together - alone) / (_BATCH - 1)
        figures[f"user-message-{way}"] = user
        figures[f"adp-message-{way}"] = alone - user
    return figures


def _time_trip(batch: int) -> tuple[float, float]:
    """Return the CPU time (s) of both hosts for a datagram with `batch` messages."""
    alpha, beta = _make_hosts()
    effects: list[Effect] = []
    spent = [0.0, 0.0]
    for number in range(_ROUNDS // batch + 1):
        start = time.process_time()
        for place in range(batch):
            effects = alpha.send(Message("a", "beta", "b", 7, bytes(100),
                                         urgent=place == batch - 1), number)
        spent[0] += time.process_time() - start
        sent = [effect.payload for effect in effects if isinstance(effect, SendFrame)]
        start = time.process_time()
        delivered = [effect for payload in sent
                     for effect in beta.receive(payload, "alpha", number)]
        spent[1] += time.process_time() - start
        if number and sum(isinstance(effect, DeliverMessage) for effect in delivered) != batch:
            raise RuntimeError("a message was not delivered")
    rounds = _ROUNDS // batch + 1
    return spent[0] / rounds, spent[1] / rounds


def _make_hosts() -> tuple[Host, Host]:
    """Create two ADP hosts with an open channel between them."""
    keys = {name: _make_rsa_key() for name in ("a", "b")}
    directory = KeyDirectory({"alpha": "a", "beta": "b"},
                             {name: key.public for name, key in keys.items()})
    rng = random.Random(1)  # noqa: S311 - nothing is protected here
    alpha, beta = (create_host("adp-1987", host=host, keys={owner: keys[owner]},
                               directory=directory,
                               settings=HostSettings(scope=EncryptionScope.NONE),
                               random=rng.randbytes,
                               meter=lambda _operation, _size: None)
                   for host, owner in (("alpha", "a"), ("beta", "b")))
    ends = {"alpha": alpha, "beta": beta}
    waiting = [("alpha", effect) for effect in alpha.open_channel("beta", ["a"], 0.0)]
    while waiting:
        source, effect = waiting.pop(0)
        if isinstance(effect, SendFrame):
            answers = ends[effect.host].receive(effect.payload, source, 0.0)
            answers += ends[effect.host].tick(1.0)
            waiting += [(effect.host, answer) for answer in answers]
    return alpha, beta


def _make_rsa_key() -> RsaPrivateKey:
    from cryptography.hazmat.primitives.asymmetric import rsa

    numbers = rsa.generate_private_key(65537, RSA_BITS).private_numbers()
    return RsaPrivateKey(numbers.p, numbers.q, numbers.public_numbers.e)


def main() -> int:
    """Print the measured times, one per line."""
    for name, value in {**measure_cryptography(), **measure_messages()}.items():
        operation, _, byte = name.partition("_")
        shown = f"bytes_per_s: {1 / value:.3g}" if byte else f"seconds: {value:.3g}"
        sys.stdout.write(f"{operation}: {{{shown}}}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
