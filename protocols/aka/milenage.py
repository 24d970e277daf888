"""Compute the Milenage functions f1 to f5* of a SIM card and its server (3GPP).

`compute_answers` takes the subscriber's key and a challenge (RAND), and returns RES, CK, IK and
anonymity keys. `compute_macs` returns the MAC of the network (f1) and of a resynchronisation (f1*).
`MilenageKey` has the key K and the operator code OPc, which `derive_opc` derives. The emulated card
(`usim`), the server and checks use them. The functions are those of 3GPP TS 35.206. AES is from the
library `cryptography`.
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
    """The secret that SIM card and server (HSS) share: key K and operator code OPc."""

    key: bytes
    opc: bytes

    @classmethod
    def from_secrets(cls, secrets: Mapping[str, str]) -> MilenageKey:
        """Create a key from a run's secrets `key_hex` and `opc_hex`."""
        return cls(bytes.fromhex(secrets["key_hex"]), bytes.fromhex(secrets["opc_hex"]))


@dataclass(frozen=True)
class ChallengeAnswer:
    """Results of a challenge: response RES, keys CK and IK, and anonymity keys.

    An anonymity key conceals the sequence number, and `ak_of_resynchronisation` conceals that of
    AUTS.
    """

    res: bytes
    ck: bytes
    ik: bytes
    ak: bytes
    ak_of_resynchronisation: bytes


def derive_opc(key: bytes, op: bytes) -> bytes:
    """Derive OPc, the operator code OP combined with the key of one subscriber."""
    return _xor_bytes(_aes_encryptor(key)(op), op)


def compute_answers(shared: MilenageKey, rand: bytes) -> ChallengeAnswer:
    """Compute the functions f2 to f5 and f5*: the response to a challenge, and keys."""
    encrypt, opc = _aes_encryptor(shared.key), shared.opc
    temporary = encrypt(_xor_bytes(rand, opc))

    def out(turn: int, constant: int) -> bytes:
        mixed = _rotate_left(_xor_bytes(temporary, opc), turn)
        return _xor_bytes(encrypt(_xor_bytes(mixed, constant.to_bytes(_BLOCK, "big"))), opc)

    second = out(0, 1)
    return ChallengeAnswer(res=second[8:], ck=out(4, 2), ik=out(8, 4), ak=second[:SQN_BYTES],
                           ak_of_resynchronisation=out(12, 8)[:SQN_BYTES])


def compute_macs(shared: MilenageKey, rand: bytes, sqn: bytes, amf: bytes) -> tuple[bytes, bytes]:
    """Compute f1 and f1*: the MAC of the network, and the MAC of a resynchronisation."""
    encrypt, opc = _aes_encryptor(shared.key), shared.opc
    temporary = encrypt(_xor_bytes(rand, opc))
    block = _xor_bytes(_rotate_left(_xor_bytes((sqn + amf) * 2, opc), 8), temporary)
    out = _xor_bytes(encrypt(block), opc)
    return out[:MAC_BYTES], out[MAC_BYTES:]


def conceal_sqn(sqn: bytes, ak: bytes) -> bytes:
    """Conceal a sequence number with an anonymity key, or reveal a concealed one."""
    return _xor_bytes(sqn, ak)


def _aes_encryptor(key: bytes) -> Callable[[bytes], bytes]:
    # Only single blocks are encrypted, so ECB does not act as a mode.
    encryptor = Cipher(algorithms.AES(key), modes.ECB()).encryptor()  # noqa: S305
    return encryptor.update


def _xor_bytes(left: bytes, right: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(left, right, strict=True))


def _rotate_left(block: bytes, count: int) -> bytes:
    return block[count:] + block[:count]
