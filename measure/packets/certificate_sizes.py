"""Compute the sizes of the certificates that a RADIUS server or a station sends in TLS.

`chain_bytes` returns the sizes of qop's own certificates (ansible/roles/pki). They follow from the
kind of key, the names and the extensions. `KEY_KINDS` has the sizes of keys and signatures.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple


class KeyKind(NamedTuple):
    """The sizes of a kind of key (bytes).

    An ECDSA signature has two integers, each of which may be shorter than `signature`'s part. Then
    a certificate is a few bytes smaller.
    """

    #: SubjectPublicKeyInfo in DER.
    public: int
    #: Longest signature.
    signature: int
    #: AlgorithmIdentifier of a signature in DER.
    algorithm: int


KEY_KINDS = {
    "rsa-1024": KeyKind(162, 128, 15),
    "rsa-2048": KeyKind(294, 256, 15),
    "rsa-3072": KeyKind(422, 384, 15),
    "rsa-4096": KeyKind(550, 512, 15),
    "p-256": KeyKind(91, 72, 12),
    "p-384": KeyKind(120, 104, 12),
    "ml-dsa-44": KeyKind(1334, 2420, 13),
    "ml-dsa-65": KeyKind(1974, 3309, 13),
    "ml-dsa-87": KeyKind(2614, 4627, 13),
}
#: Extensions of a root, of an authority that may certify another one, and of one that may not.
#: OpenSSL adds key identifiers to the first two.
_ROOT_BYTES, _AUTHORITY_BYTES, _LAST_AUTHORITY_BYTES = 64, 97, 36
_CLIENT_BYTES, _SERVER_BYTES = 37, 50
#: Version, serial number of five bytes, and validity of a certificate.
_FIXED_BYTES = 5 + 7 + 32
#: Names of qop's authorities.
ROOT, _INTERMEDIATE = "root", "qop"


def der_bytes(content: int) -> int:
    """Return the size of a DER element, with tag and length, from the size of its content."""
    return content + (2 if content < 0x80 else 3 if content < 0x100 else 4)


def certificate_bytes(key: str, issuer: str, subject: str, extensions: int) -> int:
    """Return the size of an X.509 certificate whose issuer has the same kind of key.

    Args:
        key: Kind of both keys, of `KEY_KINDS`.
        issuer: Common name of the issuer.
        subject: Common name of the subject.
        extensions: Bytes of its extensions.
    """
    kind = KEY_KINDS[key]
    names = sum(len(name) + 13 for name in (issuer, subject))
    signed = der_bytes(_FIXED_BYTES + kind.algorithm + names + kind.public
                       + der_bytes(der_bytes(extensions)))
    return der_bytes(signed + kind.algorithm + der_bytes(1 + kind.signature))


def authority_names(key: str, length: int) -> list[str]:
    """Return the common names of the root and of all intermediates below it.

    Args:
        key: Kind of every key.
        length: Number of certificates below the root.
    """
    return [ROOT, *([_INTERMEDIATE] if length == 2 and key == "rsa-2048" else [
        f"{_INTERMEDIATE}{number}" for number in range(1, length)])]


def chain_bytes(key: str, length: int, subject: str, *, is_server: bool) -> tuple[int, ...]:
    """Return the sizes (bytes) of the certificates that a server or client sends in TLS.

    The sender's own certificate comes first, then the issuer's certificate, and so on. qop made all
    of these certificates (ansible/roles/pki). If the client's chain has no intermediate, the client
    (wpa_supplicant) also sends the root.

    Args:
        key: Kind of every key (`KEY_KINDS`).
        length: Number of certificates from the leaf up to the root, without the root.
        subject: Common name of the leaf.
        is_server: Whether the leaf is a server's certificate, which also has `subject` as a DNS
            name.
    """
    names = authority_names(key, length)
    above = [certificate_bytes(key, issuer, name, _LAST_AUTHORITY_BYTES if name == names[-1]
                               else _AUTHORITY_BYTES)
             for issuer, name in pairwise(names)]
    leaf = certificate_bytes(key, names[-1], subject, _SERVER_BYTES + len(subject) if is_server
                             else _CLIENT_BYTES)
    roots = [certificate_bytes(key, ROOT, ROOT, _ROOT_BYTES)] if length == 1 and not is_server \
        else []
    return (leaf, *reversed(above), *roots)
