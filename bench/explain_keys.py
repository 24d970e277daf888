"""Make the keys and certificates for `qop bench explain`: valid ones, and ones that fail.

Those that fail are expired, too large for a RADIUS packet, or signed by another authority. The
bench injects them as faults (`bench.explain_faults`).
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

#: Lifetime of certificates in days. They begin earlier, because clocks differ.
_DAYS, _EARLIER_DAYS = 3650, 2
#: Number of alternative names that make a certificate larger than a RADIUS packet may be.
_MANY_NAMES = 60


@dataclass(frozen=True)
class _Leaf:
    """A certificate to make: its authority, number of alternative names, and whether it expired."""

    name: str
    authority: str = "ca"
    names: int = 1
    is_expired: bool = False


_LEAVES = (_Leaf("server"), _Leaf("client"), _Leaf("large-client", names=_MANY_NAMES),
           _Leaf("expired-server", is_expired=True), _Leaf("expired-client", is_expired=True),
           _Leaf("other-client", authority="other-ca"))


def make_keys(folder: Path) -> Path:
    """Make the keys in a folder, unless they are there, and return the folder.

    `ca.pem` has signed all certificates but `other-client`, which is of `other-ca.pem`. The key of
    `NAME.pem` is `NAME.key`.
    """
    if all((folder / f"{leaf.name}.key").exists() for leaf in _LEAVES):
        return folder
    shutil.rmtree(folder, ignore_errors=True)  # of an earlier version
    partial = folder.with_name(f"{folder.name}-partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    authorities = {name: _make_authority(name) for name in ("ca", "other-ca")}
    for name, authority in authorities.items():
        _write_certificate(partial / f"{name}.pem", authority.certificate)
    for leaf in _LEAVES:
        key = ec.generate_private_key(ec.SECP256R1())
        _write_certificate(partial / f"{leaf.name}.pem",
                           authorities[leaf.authority].sign_leaf(leaf, key.public_key()))
        (partial / f"{leaf.name}.key").write_bytes(key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption()))
    partial.rename(folder)
    return folder


@dataclass(frozen=True)
class _Authority:
    """A certificate authority with its key and certificate."""

    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate

    def sign_leaf(self, leaf: _Leaf, key: ec.EllipticCurvePublicKey) -> x509.Certificate:
        """Return a certificate for a public key, signed by this authority."""
        usage = (ExtendedKeyUsageOID.SERVER_AUTH if leaf.name.endswith("server")
                 else ExtendedKeyUsageOID.CLIENT_AUTH)
        names = [x509.DNSName(f"{leaf.name}-{number}.test") for number in range(leaf.names)]
        builder = _start_certificate(leaf.name, self.certificate.subject, key,
                                     is_expired=leaf.is_expired)
        return builder.add_extension(x509.SubjectAlternativeName(names), critical=False
                                     ).add_extension(x509.ExtendedKeyUsage([usage]), critical=False
                                                     ).sign(self.key, hashes.SHA256())


def _make_authority(name: str) -> _Authority:
    key = ec.generate_private_key(ec.SECP256R1())
    builder = _start_certificate(name, _common_name(name), key.public_key())
    return _Authority(key, builder.add_extension(
        x509.BasicConstraints(ca=True, path_length=None), critical=True).sign(
        key, hashes.SHA256()))


def _start_certificate(name: str, issuer: x509.Name, key: ec.EllipticCurvePublicKey, *,
                       is_expired: bool = False) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    end = now - timedelta(days=1) if is_expired else now + timedelta(days=_DAYS)
    return (x509.CertificateBuilder().subject_name(_common_name(name)).issuer_name(issuer)
            .public_key(key).serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=_EARLIER_DAYS)).not_valid_after(end))


def _common_name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _write_certificate(path: Path, certificate: x509.Certificate) -> None:
    path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
