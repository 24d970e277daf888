"""What every party has: its node's meter and suite, the time, and the operations on both."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from protocols.kerberos import messages
from protocols.kerberos.errors import Refusal, RefusalCode, Undecipherable
from protocols.kerberos.meter import Meter
from protocols.kerberos.suites import RandomBytes, Suite

#: Encryption types of draft 05: with a private key (a signature), with a public one.
RSA_PRIVATE, RSA_PUBLIC = 9, 10
MD5_CHECKSUM, SHA256_CHECKSUM = 7, -2
#: Key usages of RFC 4120, 7.5.1; the local ones (above 1024) are of packs under temporary keys.
(AS_REP_TICKET, AS_REP_PART, TGS_AUTHENTICATOR, TGS_REP_PART, AP_AUTHENTICATOR, AP_REP_PART,
 REPLY_KEY_PACK, RANDOM_KEY_PACK, PROXY_PROOF) = 2, 3, 7, 8, 11, 12, 1025, 1026, 1027


@dataclass(frozen=True)
class Party:
    """The operations of one piece of work on one node.

    `now_ns` is nanoseconds since 1970; `lifetime_s` of tickets, `skew_s` between clocks.
    """

    suite: Suite
    meter: Meter
    random_bytes: RandomBytes
    now_ns: Callable[[], int]
    skew_s: int = 300
    lifetime_s: int = 36_000

    def new_key(self) -> dict[str, Any]:
        """A fresh EncryptionKey."""
        return key_of(self.suite, self.suite.new_key(self.random_bytes))

    def nonce(self) -> int:
        """A number of 31 bits, the uppermost one set: it always has four bytes."""
        return int.from_bytes(self.random_bytes(4), "big") & 0x3FFFFFFF | 0x40000000

    # --- secret keys -------------------------------------------------------------------------

    def encrypt(self, key: Mapping[str, Any], usage: int, text: bytes) -> dict[str, Any]:
        """EncryptedData under an EncryptionKey."""
        self.meter.charge(self.suite.operation, len(text))
        return {"etype": self.suite.etype, "cipher": self.suite.encrypt(
            key["keyvalue"], usage, text, self.random_bytes)}

    def decrypt(self, key: Mapping[str, Any], usage: int, data: Mapping[str, Any],
                kind: str) -> Any:
        """The value of a kind within EncryptedData. Raises Refusal (bad integrity)."""
        self.meter.charge(self.suite.operation, len(data["cipher"]))
        if data["etype"] != self.suite.etype or key["keytype"] != self.suite.etype:
            raise Refusal(RefusalCode.BAD_INTEGRITY, f"{kind}: another encryption type")
        try:
            text = self.suite.decrypt(key["keyvalue"], usage, data["cipher"])
        except Undecipherable as error:
            raise Refusal(RefusalCode.BAD_INTEGRITY, f"{kind}: {error}") from None
        return messages.decode(kind, text, is_padded=True)

    # --- public keys -------------------------------------------------------------------------

    def sign(self, key: rsa.RSAPrivateKey, text: bytes) -> dict[str, Any]:
        """A Signature of some text."""
        self.meter.charge(f"{self.suite.rsa}-private")
        signature = key.sign(text, padding.PKCS1v15(), self.suite.signature_hash)
        return {"signedHash": {"etype": RSA_PRIVATE, "cipher": signature}}

    def check_signature(self, key: rsa.RSAPublicKey, signature: Mapping[str, Any],
                        text: bytes) -> None:
        """Raises Refusal for a signature that is not this key's."""
        self.verify(key, signature["signedHash"]["cipher"], text, self.suite.signature_hash,
                    RefusalCode.INVALID_SIGNATURE)

    def verify(self, key: rsa.RSAPublicKey, signature: bytes, text: bytes,
               algorithm: hashes.HashAlgorithm, code: RefusalCode) -> None:
        """Raises Refusal with a code for a signature that is not this key's."""
        self.meter.charge(f"{self.suite.rsa}-public")
        try:
            key.verify(signature, text, padding.PKCS1v15(), algorithm)
        except InvalidSignature:
            raise Refusal(code, "the signature is not its key's") from None

    def seal_key(self, to: rsa.RSAPublicKey, key: Mapping[str, Any]) -> dict[str, Any]:
        """A TmpKeyPack for the owner of a public key."""
        self.meter.charge(f"{self.suite.rsa}-public")
        pack = messages.encode("TmpKeyPack", {"tmpKey": key})
        return {"etype": RSA_PUBLIC, "cipher": to.encrypt(pack, padding.PKCS1v15())}

    def open_key(self, own: rsa.RSAPrivateKey, data: Mapping[str, Any], *,
                 is_charged: bool = True) -> Any:
        """The key of a TmpKeyPack. Raises Refusal.

        A wrong key of PKCS #1 v1.5 gives random bytes instead of an error: those are refused alike.
        """
        if is_charged:
            self.meter.charge(f"{self.suite.rsa}-private")
        try:
            pack = own.decrypt(data["cipher"], padding.PKCS1v15())
            return messages.decode("TmpKeyPack", pack)["tmpKey"]
        except (ValueError, Refusal):
            raise Refusal(RefusalCode.PREAUTHENTICATION_FAILED,
                          "the temporary key is for somebody else") from None

    # --- time --------------------------------------------------------------------------------

    def stamp(self) -> tuple[Any, int]:
        """The time as KerberosTime and microseconds."""
        now_ns = self.now_ns()
        return messages.kerberos_time(now_ns), messages.microseconds(now_ns)

    def check_time(self, time: Any) -> None:
        """Raises Refusal where another clock differs too much from this one."""
        apart_s = abs(messages.seconds(time) - self.now_ns() // 1_000_000_000)
        if apart_s > self.skew_s:
            raise Refusal(RefusalCode.SKEW, f"clocks are {apart_s} s apart")


def key_of(suite: Suite, value: bytes) -> dict[str, Any]:
    """An EncryptionKey of a suite."""
    return {"keytype": suite.etype, "keyvalue": value}
