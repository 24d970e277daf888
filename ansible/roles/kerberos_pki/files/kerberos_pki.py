"""Create the certificates for Kerberos logins (PKINIT) of a run, and install a node's.

An Ansible role runs this program for each KDC and each client. The certificates are created once
per run, in the folder `kerberos-BITS` of the store (`key_store`). They are the root certificate, a
certificate for each KDC, the user's, and wrong ones, such as an expired one. Negative controls
(deliberate faults, which must make the login fail) present the wrong ones.

The program prints a line for each folder that it creates and each file that it writes, none if all
existed already.
"""

# ruff: noqa: INP001  # an __init__.py in ansible/ would shadow ansible-core
from __future__ import annotations

import argparse
import os
import sys
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "files"))
from key_store import Store, install, validity

#: RFC 4556: object identifiers for a principal's name in a certificate, and for a key's purpose.
PRINCIPAL_NAME = x509.ObjectIdentifier("1.3.6.1.5.2.2")
CLIENT, KDC = x509.ObjectIdentifier("1.3.6.1.5.2.3.4"), x509.ObjectIdentifier("1.3.6.1.5.2.3.5")
OTHER_PURPOSE = x509.ObjectIdentifier("1.3.6.1.5.5.7.3.2")
NT_PRINCIPAL, NT_SERVICE = 1, 2
#: Names of a client's files for negative controls, by what is wrong with the certificate.
WRONG = ("another-user", "no-purpose", "expired", "rogue")
_LONG = 0x80


@dataclass(frozen=True)
class Authority:
    """A certification authority: a certificate and its key."""

    certificate: x509.Certificate
    key: rsa.RSAPrivateKey


@dataclass(frozen=True)
class Subject:
    """The owner of a certificate: common name, principals by realm, and purpose of the key."""

    name: str
    principals: tuple[tuple[str, int, str], ...]
    purpose: x509.ObjectIdentifier
    is_expired: bool = False


def encode_der(tag: int, content: bytes) -> bytes:
    """Return a value in DER."""
    size = len(content)
    if size < _LONG:
        return bytes([tag, size]) + content
    length = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes([tag, _LONG | len(length)]) + length + content


def principal_name(realm: str, kind: int, name: str) -> bytes:
    """Return a KRB5PrincipalName (RFC 4556, 3.2.2) in DER."""
    def text(value: str) -> bytes:
        return encode_der(0x1B, value.encode())

    parts = encode_der(0x30, b"".join(map(text, name.split("/"))))
    named = encode_der(0x30, encode_der(0xA0, encode_der(2, bytes([kind])))
                       + encode_der(0xA1, parts))
    return encode_der(0x30, encode_der(0xA0, text(realm)) + encode_der(0xA1, named))


def certificate_builder(name: str, key: rsa.RSAPrivateKey, issuer: x509.Name | None,
                        *, is_expired: bool = False) -> x509.CertificateBuilder:
    """Return a certificate builder with the fields that every certificate has."""
    first, last = validity(is_expired=is_expired)
    own = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    return x509.CertificateBuilder(
        issuer_name=issuer or own, subject_name=own, public_key=key.public_key(),
        serial_number=x509.random_serial_number(), not_valid_before=first, not_valid_after=last)


def key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    """Return the key usage extension, which MIT's KDC requires.

    Without it the KDC reports "inconsistent key purpose".
    """
    return x509.KeyUsage(
        digital_signature=True, content_commitment=False, key_encipherment=not signs_certificates,
        data_encipherment=False, key_agreement=not signs_certificates,
        key_cert_sign=signs_certificates, crl_sign=signs_certificates, encipher_only=False,
        decipher_only=False)


def make_authority(name: str, bits: int) -> Authority:
    """Create a self-signed certification authority."""
    key = rsa.generate_private_key(65537, bits)
    certificate = (certificate_builder(name, key, None)
                   .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
                   .add_extension(key_usage(signs_certificates=True), critical=True))
    return Authority(certificate.sign(key, hashes.SHA256()), key)


def write_certificate(folder: Path, file: str, subject: Subject, signer: Authority,
                      bits: int) -> None:
    """Write a key and its certificate to a folder, as FILE.key and FILE.pem."""
    key = rsa.generate_private_key(65537, bits)
    names = [x509.OtherName(PRINCIPAL_NAME, principal_name(*principal))
             for principal in subject.principals]
    certificate = (certificate_builder(subject.name, key, signer.certificate.subject,
                                       is_expired=subject.is_expired)
                   .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
                   .add_extension(key_usage(signs_certificates=False), critical=True)
                   .add_extension(x509.SubjectAlternativeName(names), critical=False)
                   .add_extension(x509.ExtendedKeyUsage([subject.purpose]), critical=False))
    (folder / f"{file}.pem").write_bytes(
        certificate.sign(signer.key, hashes.SHA256()).public_bytes(Encoding.PEM))
    (folder / f"{file}.key").write_bytes(key.private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))


def make_certificates(folder: Path, realms: list[str], user: str, bits: int) -> None:
    """Create all Kerberos certificates of a run."""
    anchor, rogue = make_authority("realms", bits), make_authority("rogue", bits)
    for name, signer in (("ca", anchor), ("rogue-ca", rogue)):
        (folder / f"{name}.pem").write_bytes(signer.certificate.public_bytes(Encoding.PEM))
    for realm in realms:
        write_certificate(folder, f"kdc-{realm}", Subject(
            f"kdc {realm}", ((realm, NT_SERVICE, f"krbtgt/{realm}"),), KDC), anchor, bits)

    def principals_of(name: str) -> tuple[tuple[str, int, str], ...]:
        return tuple((realm, NT_PRINCIPAL, name) for realm in realms)

    write_certificate(folder, "user", Subject(user, principals_of(user), CLIENT), anchor, bits)
    write_certificate(folder, "another-user", Subject("mallory", principals_of("mallory"), CLIENT),
                      anchor, bits)
    write_certificate(folder, "no-purpose", Subject(user, principals_of(user), OTHER_PURPOSE),
                      anchor, bits)
    write_certificate(folder, "expired",
                      Subject(user, principals_of(user), CLIENT, is_expired=True), anchor, bits)
    write_certificate(folder, "rogue", Subject(user, principals_of(user), CLIENT), rogue, bits)


def files_of(kdc_of: str) -> dict[str, str]:
    """Return the files that a node gets: file in the unit, by file on the node."""
    if kdc_of:
        return {"ca.pem": "ca.pem", **{f"kdc.{end}": f"kdc-{kdc_of}.{end}"
                                       for end in ("pem", "key")}}
    names = [f"{name}.{end}" for name in ("user", *WRONG) for end in ("pem", "key")]
    return {name: name for name in ("ca.pem", "rogue-ca.pem", *names)}


def main() -> int:
    """Create missing certificates, and install those that a node lacks."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--store", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--bits", type=int, required=True)
    parser.add_argument("--user", required=True)
    parser.add_argument("--realm", action="append", required=True)
    parser.add_argument("--kdc-of", default="")
    options = parser.parse_args()
    os.umask(0o077)
    store, unit = Store(options.store), f"kerberos-{options.bits}"
    store.make(unit, lambda folder: make_certificates(folder, sorted(options.realm), options.user,
                                                      options.bits))
    install(options.output, {f"pkinit/{name}": store.path(unit, source)
                             for name, source in files_of(options.kdc_of).items()})
    return 0


if __name__ == "__main__":
    sys.exit(main())
