"""Operations of a party with its cipher suite, meter and clock."""

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

#: Encryption types of draft 05: private key (signature) and public key.
RSA_PRIVATE, RSA_PUBLIC = 9, 10
MD5_CHECKSUM, SHA256_CHECKSUM = 7, -2
#: Key usages of RFC 4120, 7.5.1. Local usages (above 1024) are for packs under temporary keys.
(AS_REP_TICKET, AS_REP_PART, TGS_AUTHENTICATOR, TGS_REP_PART, AP_AUTHENTICATOR, AP_REP_PART,
 REPLY_KEY_PACK, RANDOM_KEY_PACK, PROXY_PROOF) = 2, 3, 7, 8, 11, 12, 1025, 1026, 1027


@dataclass(frozen=True)
class Party:
    """Operations for one piece of work on one node.

    `now_ns` returns nanoseconds since 1970. `lifetime_s` applies to tickets, and `skew_s` is the
    permitted clock difference.
    """

    suite: Suite
    meter: Meter
    random_bytes: RandomBytes
    now_ns: Callable[[], int]
    skew_s: int = 300
    lifetime_s: int = 36_000

    def new_key(self) -> dict[str, Any]:
        """Generate an EncryptionKey."""
        return key_of(self.suite, self.suite.new_key(self.random_bytes))

    def new_nonce(self) -> int:
        """Generate a 31-bit nonce with bit 30 set, which always takes four bytes."""
        return int.from_bytes(self.random_bytes(4), "big") & 0x3FFFFFFF | 0x40000000

    # --- secret keys -------------------------------------------------------------------------

    def encrypt(self, key: Mapping[str, Any], usage: int, text: bytes) -> dict[str, Any]:
        """Encrypt text with an EncryptionKey and return EncryptedData."""
        self.meter.charge(self.suite.operation, len(text))
        return {"etype": self.suite.etype, "cipher": self.suite.encrypt(
            key["keyvalue"], usage, text, self.random_bytes)}

    def decrypt(self, key: Mapping[str, Any], usage: int, data: Mapping[str, Any],
                kind: str) -> Any:
        """Decrypt EncryptedData and decode its value.

        Raises Refusal (bad integrity).
        """
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
        """Sign text and return a Signature."""
        self.meter.charge(f"{self.suite.rsa}-private")
        signature = key.sign(text, padding.PKCS1v15(), self.suite.signature_hash)
        return {"signedHash": {"etype": RSA_PRIVATE, "cipher": signature}}

    def check_signature(self, key: rsa.RSAPublicKey, signature: Mapping[str, Any],
                        text: bytes) -> None:
        """Raise Refusal if a Signature was not made with this key."""
        self.verify(key, signature["signedHash"]["cipher"], text, self.suite.signature_hash,
                    RefusalCode.INVALID_SIGNATURE)

    def verify(self, key: rsa.RSAPublicKey, signature: bytes, text: bytes,
               algorithm: hashes.HashAlgorithm, code: RefusalCode) -> None:
        """Raise Refusal with a given code if a signature was not made with this key."""
        self.meter.charge(f"{self.suite.rsa}-public")
        try:
            key.verify(signature, text, padding.PKCS1v15(), algorithm)
        except InvalidSignature:
            raise Refusal(code, "the signature is not its key's") from None

    def seal_key(self, to: rsa.RSAPublicKey, key: Mapping[str, Any]) -> dict[str, Any]:
        """Encrypt a TmpKeyPack for the owner of a public key."""
        self.meter.charge(f"{self.suite.rsa}-public")
        pack = messages.encode("TmpKeyPack", {"tmpKey": key})
        return {"etype": RSA_PUBLIC, "cipher": to.encrypt(pack, padding.PKCS1v15())}

    def open_key(self, private_key: rsa.RSAPrivateKey, data: Mapping[str, Any], *,
                 is_charged: bool = True) -> Any:
        """Return the key of a TmpKeyPack. Raises Refusal.

        With a wrong key, PKCS #1 v1.5 returns random bytes instead of an error. Both cases are
        refused in the same way.
        """
        if is_charged:
            self.meter.charge(f"{self.suite.rsa}-private")
        try:
            pack = private_key.decrypt(data["cipher"], padding.PKCS1v15())
            return messages.decode("TmpKeyPack", pack)["tmpKey"]
        except (ValueError, Refusal):
            raise Refusal(RefusalCode.PREAUTHENTICATION_FAILED,
                          "the temporary key is for somebody else") from None

    # --- time --------------------------------------------------------------------------------

    def current_time(self) -> tuple[Any, int]:
        """Return the current time as KerberosTime and microseconds."""
        now_ns = self.now_ns()
        return messages.kerberos_time(now_ns), messages.to_microseconds(now_ns)

    def check_time(self, time: Any) -> None:
        """Raise Refusal if a time differs from this clock by more than the skew."""
        apart_s = abs(messages.to_seconds(time) - self.now_ns() // 1_000_000_000)
        if apart_s > self.skew_s:
            raise Refusal(RefusalCode.SKEW, f"clocks are {apart_s} s apart")


def key_of(suite: Suite, value: bytes) -> dict[str, Any]:
    """Return an EncryptionKey for a suite."""
    return {"keytype": suite.etype, "keyvalue": value}
