"""A cluster's own authorities, made of one secret: who may schedule, who may ask, who may lend.

Each role has an authority that signs the certificates of its members. A key as text is the role's
secret and the scheduler's public key, `worker-...` or `run-...`: whoever has it makes himself a
certificate. The secret of a lower role follows from a higher one's and not the other way round,
so a worker can pass for another worker, and never for a run or a scheduler.
"""

from __future__ import annotations

import base64
import datetime as dt
import enum
import hashlib
import hmac
import os
import secrets
import ssl
import sys
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.x509.oid import NameOID
from distributed import Security

from guest.cache import cache_root
from harness.errors import UserError

#: Where a key is given that is not kept on this machine.
VARIABLE = "QOP_CLUSTER_KEY"
#: In place of a key: it is the first line of standard input, whose end is the worker's, too.
FROM_INPUT = "-"
_SECRET_BYTES = _PUBLIC_BYTES = 32
#: Clocks of machines differ; a cluster's authorities end with it.
_EARLIER, _LATER = dt.timedelta(days=2), dt.timedelta(days=366)


class Role(enum.Enum):
    """What a member of a cluster is, from the one that may most."""

    SCHEDULER = "scheduler"
    RUN = "run"
    WORKER = "worker"


_ORDER = list(Role)


@dataclass(frozen=True)
class ClusterKey:
    """What a member of a role knows: its role's secret and the scheduler's authority."""

    role: Role
    secret: bytes
    scheduler: bytes

    @classmethod
    def new(cls) -> ClusterKey:
        """A new cluster's: its scheduler's."""
        return cls._of_scheduler(secrets.token_bytes(_SECRET_BYTES))

    @classmethod
    def _of_scheduler(cls, secret: bytes) -> ClusterKey:
        return cls(Role.SCHEDULER, secret, _public(_authority(Role.SCHEDULER, secret)))

    @classmethod
    def parse(cls, text: str, role: Role) -> ClusterKey:
        """The key that a text is, if it is one for this role. Raises UserError."""
        key = cls._read(text.strip())
        if key is None:
            raise UserError(f"{VARIABLE}: no key of a cluster; give the one that its scheduler "
                            f"printed for this, '{role.value}-...'")
        if _ORDER.index(key.role) > _ORDER.index(role):
            raise UserError(f"{VARIABLE}: is the key for a {key.role.value}, and this is a "
                            f"{role.value}; give the one that the scheduler printed for it")
        return key.lowered(role)

    @classmethod
    def _read(cls, text: str) -> ClusterKey | None:
        """The key that a text is; None if it is none."""
        name, _, encoded = text.partition("-")
        try:
            role, content = Role(name), base64.b64decode(encoded, b"-_", validate=True)
        except ValueError:
            return None
        secret, scheduler = content[:_SECRET_BYTES], content[_SECRET_BYTES:]
        if role is Role.SCHEDULER and len(content) == _SECRET_BYTES:
            return cls._of_scheduler(secret)
        is_whole = role is not Role.SCHEDULER and len(scheduler) == _PUBLIC_BYTES
        return cls(role, secret, scheduler) if is_whole else None

    def __str__(self) -> str:
        content = self.secret + (b"" if self.role is Role.SCHEDULER else self.scheduler)
        return f"{self.role.value}-{base64.urlsafe_b64encode(content).decode()}"

    def lowered(self, role: Role) -> ClusterKey:
        """The key of a role that may no more than this one."""
        return ClusterKey(role, self._secret_of(role), self.scheduler)

    def _secret_of(self, role: Role) -> bytes:
        secret = self.secret
        for lower in _ORDER[_ORDER.index(self.role) + 1:_ORDER.index(role) + 1]:
            secret = _derived(secret, f"role {lower.value}")
        return secret

    def security(self) -> Security:
        """The role's TLS: a certificate of its own, and whom it believes.

        The scheduler believes workers and runs, and those only the scheduler.
        """
        certificate, private = _issued(_authority(self.role, self.secret), self.role)
        believed = "".join(_pem(anchor) for anchor in self.believed().values())
        return Security(require_encryption=True, tls_min_version=ssl.TLSVersion.TLSv1_3,
                        tls_ca_file=believed, **{
                            f"tls_{name}_{kind}": text for name in ("client", "scheduler", "worker")
                            for kind, text in (("cert", certificate), ("key", private))})

    def believed(self) -> dict[Role, x509.Certificate]:
        """The authorities of those who may connect, by role."""
        if self.role is not Role.SCHEDULER:
            return {Role.SCHEDULER: _anchor(Role.SCHEDULER, self.scheduler)}
        return {role: _anchor(role, _public(_authority(role, self._secret_of(role))))
                for role in (Role.RUN, Role.WORKER)}


def role_of(certificate: bytes, believed: dict[Role, x509.Certificate]) -> Role | None:
    """Whose authority signed a certificate (DER) itself; None if nobody's."""
    peer = x509.load_der_x509_certificate(certificate)
    for role, anchor in believed.items():
        try:
            peer.verify_directly_issued_by(anchor)
        except (ValueError, TypeError, InvalidSignature):
            continue
        return role
    return None


def _derived(secret: bytes, label: str) -> bytes:
    return hmac.digest(secret, f"qop cluster, {label}".encode(), hashlib.sha256)


def _authority(role: Role, secret: bytes) -> Ed25519PrivateKey:
    return Ed25519PrivateKey.from_private_bytes(_derived(secret, f"authority of {role.value}s"))


def _public(key: Ed25519PrivateKey) -> bytes:
    return key.public_key().public_bytes_raw()


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _anchor_name(role: Role) -> x509.Name:
    return _name(f"qop cluster's {role.value}s")


def _builder(subject: x509.Name, issuer: x509.Name,
             public: Ed25519PublicKey) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    return (x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(public)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - _EARLIER).not_valid_after(now + _LATER))


def _anchor(role: Role, public: bytes) -> x509.Certificate:
    """An authority as the others know it: of its certificate only name and public key count.

    So anybody's signature will do; the authority's own is known to nobody but its role. It signs
    members and no further authorities.
    """
    name = _anchor_name(role)
    return (_builder(name, name, Ed25519PublicKey.from_public_bytes(public))
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .sign(Ed25519PrivateKey.generate(), None))


def _issued(authority: Ed25519PrivateKey, role: Role) -> tuple[str, str]:
    """A new member's certificate and private key."""
    key = Ed25519PrivateKey.generate()
    certificate = (_builder(_name(f"a {role.value}"), _anchor_name(role), key.public_key())
                   .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
                   .sign(authority, None))
    private = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8,
                                serialization.NoEncryption())
    return _pem(certificate), private.decode()


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()


# Keys are kept where the same user's workers and runs find them, while their scheduler lasts.


def _kept(address: str) -> Path:
    return cache_root() / "cluster" / "keys" / address.partition("://")[2]


def keep(address: str, key: ClusterKey) -> Path:
    """Keep the key for runs, and so for workers, at a scheduler's address; readable to its user.

    Raises OSError.
    """
    path = _kept(address)
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    path.unlink(missing_ok=True)
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(f"{key.lowered(Role.RUN)}\n")
    return path


def given_by_input() -> bool:
    """Take the key from standard input if it is to come from there; whether it was."""
    if os.environ.get(VARIABLE) != FROM_INPUT:
        return False
    os.environ[VARIABLE] = sys.stdin.readline()
    return True


def _given() -> str:
    """As text, and no longer in the environment, which programs of ours inherit."""
    return os.environ.pop(VARIABLE, "")


def scheduler() -> ClusterKey:
    """A scheduler's own key: as given, or a new one. Raises UserError."""
    text = _given()
    return ClusterKey.parse(text, Role.SCHEDULER) if text else ClusterKey.new()


def find(address: str, role: Role) -> ClusterKey:
    """The key for a role in the cluster of a scheduler: as given, or as kept here. UserError."""
    text = _given()
    if not text:
        try:
            text = _kept(address).read_text()
        except OSError:
            raise UserError(f"{address}: no key for this cluster here; put {VARIABLE}=... in front "
                            "of the command, as its scheduler printed it") from None
    return ClusterKey.parse(text, role)
