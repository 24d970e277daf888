"""Provide cryptographic operations for a Kerberos node, and count their time on a slow processor.

A node is a client, KDC, proxy or application server (a *party*). `Party` encrypts, decrypts and
signs. Each operation is *charged* to a `Meter`, with the time that a device file states for it on a
slow processor. The node waits for the sum of these times later.

The work of a node is a generator of `RequestStep` (send a request) and `PhaseMark` (a phase of the
login has ended). `protocols.kerberos.host.Host` runs it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from protocols.kerberos import messages
from protocols.kerberos.messages import DecryptionError, KrbError, KrbErrorCode
from protocols.kerberos.processor import Meter
from protocols.kerberos.suites import CipherSuite, RandomBytes

#: Encryption types of draft 05: private key (signature) and public key.
RSA_PRIVATE, RSA_PUBLIC = 9, 10
MD5_CHECKSUM, SHA256_CHECKSUM = 7, -2
#: Key usages of RFC 4120, 7.5.1. Local usages (above 1024) are for packs under temporary keys.
(AS_REP_TICKET, AS_REP_PART, TGS_AUTHENTICATOR, TGS_REP_PART, AP_AUTHENTICATOR, AP_REP_PART,
 REPLY_KEY_PACK, RANDOM_KEY_PACK, PROXY_PROOF) = 2, 3, 7, 8, 11, 12, 1025, 1026, 1027


@dataclass(frozen=True)
class Party:
    """Cryptographic operations for one piece of work on one node, with a meter that counts them.

    `now_ns` returns nanoseconds since 1970. `lifetime_s` is the lifetime of tickets, and `skew_s`
    the permitted difference between clocks.
    """

    suite: CipherSuite
    meter: Meter
    random_bytes: RandomBytes
    now_ns: Callable[[], int]
    skew_s: int = 300
    lifetime_s: int = 36_000

    def new_key(self) -> dict[str, Any]:
        """Generate a random symmetric key (EncryptionKey)."""
        return key_of(self.suite, self.suite.new_key(self.random_bytes))

    def new_nonce(self) -> int:
        """Generate a 31-bit nonce whose highest bit is set, so that it always takes four bytes."""
        return int.from_bytes(self.random_bytes(4), "big") & 0x3FFFFFFF | 0x40000000

    # --- secret keys -------------------------------------------------------------------------

    def encrypt(self, key: Mapping[str, Any], usage: int, text: bytes) -> dict[str, Any]:
        """Encrypt text with a key for a key usage number, and return EncryptedData."""
        self.meter.charge(self.suite.operation, len(text))
        return {"etype": self.suite.etype, "cipher": self.suite.encrypt(
            key["keyvalue"], usage, text, self.random_bytes)}

    def decrypt(self, key: Mapping[str, Any], usage: int, data: Mapping[str, Any],
                kind: str) -> Any:
        """Decrypt EncryptedData, and decode its content.

        Raises:
            KrbError: the key does not fit (code bad integrity), or the content is malformed.
        """
        self.meter.charge(self.suite.operation, len(data["cipher"]))
        if data["etype"] != self.suite.etype or key["keytype"] != self.suite.etype:
            raise KrbError(KrbErrorCode.BAD_INTEGRITY, f"{kind}: another encryption type")
        try:
            text = self.suite.decrypt(key["keyvalue"], usage, data["cipher"])
        except DecryptionError as error:
            raise KrbError(KrbErrorCode.BAD_INTEGRITY, f"{kind}: {error}") from None
        return messages.decode_message(kind, text, is_padded=True)

    # --- public keys -------------------------------------------------------------------------

    def sign(self, key: rsa.RSAPrivateKey, text: bytes) -> dict[str, Any]:
        """Sign text with an RSA private key."""
        self.meter.charge(f"{self.suite.rsa}-private")
        signature = key.sign(text, padding.PKCS1v15(), self.suite.signature_hash)
        return {"signedHash": {"etype": RSA_PRIVATE, "cipher": signature}}

    def check_signature(self, key: rsa.RSAPublicKey, signature: Mapping[str, Any],
                        text: bytes) -> None:
        """Check that a Signature of text was made with this key.

        Raises:
            KrbError: the signature was made with another key, or is of another text.
        """
        self.verify(key, signature["signedHash"]["cipher"], text, self.suite.signature_hash,
                    KrbErrorCode.INVALID_SIGNATURE)

    def verify(self, key: rsa.RSAPublicKey, signature: bytes, text: bytes,
               algorithm: hashes.HashAlgorithm, code: KrbErrorCode) -> None:
        """Check that a signature was made with this key.

        Raises:
            KrbError: the signature was made with another key. The error has the code `code`.
        """
        self.meter.charge(f"{self.suite.rsa}-public")
        try:
            key.verify(signature, text, padding.PKCS1v15(), algorithm)
        except InvalidSignature:
            raise KrbError(code, "the signature is not its key's") from None

    def seal_key(self, to: rsa.RSAPublicKey, key: Mapping[str, Any]) -> dict[str, Any]:
        """Encrypt a symmetric key for the owner of an RSA public key (TmpKeyPack)."""
        self.meter.charge(f"{self.suite.rsa}-public")
        pack = messages.encode_message("TmpKeyPack", {"tmpKey": key})
        return {"etype": RSA_PUBLIC, "cipher": to.encrypt(pack, padding.PKCS1v15())}

    def open_key(self, private_key: rsa.RSAPrivateKey, data: Mapping[str, Any], *,
                 is_charged: bool = True) -> Any:
        """Decrypt a symmetric key with an RSA private key (TmpKeyPack).

        With a wrong key, PKCS #1 v1.5 returns random bytes instead of an error. Both cases are
        refused in the same way. `is_charged` says whether the operation takes CPU time of the
        model.

        Raises:
            KrbError: the key cannot be decrypted.
        """
        if is_charged:
            self.meter.charge(f"{self.suite.rsa}-private")
        try:
            pack = private_key.decrypt(data["cipher"], padding.PKCS1v15())
            return messages.decode_message("TmpKeyPack", pack)["tmpKey"]
        except (ValueError, KrbError):
            raise KrbError(KrbErrorCode.PREAUTHENTICATION_FAILED,
                           "the temporary key is for somebody else") from None

    # --- time --------------------------------------------------------------------------------

    def current_time(self) -> tuple[Any, int]:
        """Return the current time as KerberosTime and microseconds."""
        now_ns = self.now_ns()
        return messages.kerberos_time(now_ns), messages.to_microseconds(now_ns)

    def check_time(self, time: Any) -> None:
        """Check that a time is close enough to this node's clock.

        Raises:
            KrbError: the difference is larger than `skew_s`.
        """
        apart_s = abs(messages.to_seconds(time) - self.now_ns() // 1_000_000_000)
        if apart_s > self.skew_s:
            raise KrbError(KrbErrorCode.SKEW, f"clocks are {apart_s} s apart")


def key_of(suite: CipherSuite, value: bytes) -> dict[str, Any]:
    """Return a symmetric key (EncryptionKey) of a suite from its bytes."""
    return {"keytype": suite.etype, "keyvalue": value}


# --- Steps of a party's work: requests to other parties, and time marks ---

Transport = Literal["udp", "tcp"]


@dataclass(frozen=True)
class RequestStep:
    """A step that sends a message to a named node and waits for the reply."""

    to: str
    transport: Transport
    message: bytes


@dataclass(frozen=True)
class PhaseMark:
    """A step that ends a phase of a login.

    The phase ends when the time of all operations so far, on the modelled processor, has passed.
    """

    name: str


#: A generator that yields requests and marks, receives replies (b"" for a mark) and returns its own
#: answer.
PartyWork = Generator[RequestStep | PhaseMark, bytes, bytes]
