"""Milenage algorithm set: the functions f1 to f5* of a subscriber's key (3GPP TS 35.206).

AES is the library's. This module only arranges the blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

RAND_BYTES, SQN_BYTES, AMF_BYTES, MAC_BYTES = 16, 6, 2, 8
#: AMF of a resynchronisation (TS 33.102, 6.3.3).
AMF_OF_RESYNCHRONISATION = bytes(AMF_BYTES)
#: AMF of a challenge whose keys are bound to a network (TS 33.401, annex A.2): the first bit.
SEPARATION = b"\x80\0"
_BLOCK = 16


@dataclass(frozen=True)
class MilenageKey:
    """The secret that USIM and HSS share: the key K and the operator code OPc."""

    key: bytes
    opc: bytes

    @classmethod
    def from_secrets(cls, secrets: Mapping[str, str]) -> MilenageKey:
        """Create a key from a run's secrets `key_hex` and `opc_hex`."""
        return cls(bytes.fromhex(secrets["key_hex"]), bytes.fromhex(secrets["opc_hex"]))


@dataclass(frozen=True)
class ChallengeAnswer:
    """Results of a challenge: response RES and keys.

    The anonymity keys conceal the sequence number, `ak_of_resynchronisation` that of AUTS.
    """

    res: bytes
    ck: bytes
    ik: bytes
    ak: bytes
    ak_of_resynchronisation: bytes


def derive_opc(key: bytes, op: bytes) -> bytes:
    """Return OPc, the operator code OP combined with one subscriber's key."""
    return _xor_bytes(_aes_encryptor(key)(op), op)


def compute_answers(shared: MilenageKey, rand: bytes) -> ChallengeAnswer:
    """Compute the functions f2 to f5 and f5*."""
    encrypt, ours = _aes_encryptor(shared.key), shared.opc
    temporary = encrypt(_xor_bytes(rand, ours))

    def out(turn: int, constant: int) -> bytes:
        mixed = _rotate_left(_xor_bytes(temporary, ours), turn)
        return _xor_bytes(encrypt(_xor_bytes(mixed, constant.to_bytes(_BLOCK, "big"))), ours)

    second = out(0, 1)
    return ChallengeAnswer(res=second[8:], ck=out(4, 2), ik=out(8, 4), ak=second[:SQN_BYTES],
                           ak_of_resynchronisation=out(12, 8)[:SQN_BYTES])


def compute_macs(shared: MilenageKey, rand: bytes, sqn: bytes, amf: bytes) -> tuple[bytes, bytes]:
    """Compute f1 and f1*: the MACs of the network and of a resynchronisation."""
    encrypt, ours = _aes_encryptor(shared.key), shared.opc
    temporary = encrypt(_xor_bytes(rand, ours))
    block = _xor_bytes(_rotate_left(_xor_bytes((sqn + amf) * 2, ours), 8), temporary)
    out = _xor_bytes(encrypt(block), ours)
    return out[:MAC_BYTES], out[MAC_BYTES:]


def conceal_sqn(sqn: bytes, ak: bytes) -> bytes:
    """Conceal a sequence number with its anonymity key, or reveal a concealed number."""
    return _xor_bytes(sqn, ak)


def _aes_encryptor(key: bytes) -> Callable[[bytes], bytes]:
    # Only single blocks are encrypted, so ECB does not act as a mode.
    encryptor = Cipher(algorithms.AES(key), modes.ECB()).encryptor()  # noqa: S305
    return encryptor.update


def _xor_bytes(left: bytes, right: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(left, right, strict=True))


def _rotate_left(block: bytes, count: int) -> bytes:
    return block[count:] + block[:count]
