"""Keys and certificates of a cluster's roles: scheduler, run and worker.

Dask provides TLS, but with only one kind of member. Here a worker must not be able to act as a run
or as a scheduler. So each role has its own secret, whose public key is its certification
authority: a member issues its own certificate with the secret. The text form of a key has the
role, its secret and the scheduler's public key. A scheduler derives the secrets of the other roles
from its own.
"""

from __future__ import annotations

import asyncio
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
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.x509.oid import NameOID
from distributed import Security
from distributed.comm import get_address_host_port

from guest.cache import cache_root
from harness.errors import UserError

#: Environment variable for a key that is not stored on this machine.
VARIABLE = "QOP_CLUSTER_KEY"
#: Value of the variable when the key is the first line of standard input; the worker ends with
#: that input.
FROM_INPUT = "-"
#: Length of a secret and of a public key in bytes.
_BYTES = 32
#: Time limit of a TLS handshake over a slow network, in seconds.
_HANDSHAKE_S = 10.0
#: Validity of certificates before and after now: clocks of machines differ, and a cluster's
#: authorities end with it.
_EARLIER, _LATER = dt.timedelta(days=2), dt.timedelta(days=366)


class Role(enum.Enum):
    """The role of a member of a cluster."""

    SCHEDULER = "scheduler"
    RUN = "run"
    WORKER = "worker"


@dataclass(frozen=True)
class ClusterKey:
    """The key of a role: the role's secret and the scheduler's public key."""

    role: Role
    secret: bytes
    scheduler: bytes

    @classmethod
    def from_secret(cls, secret: bytes = b"") -> ClusterKey:
        """Return the scheduler's key of a new cluster, from `secret` or a random secret."""
        secret = secret or secrets.token_bytes(_BYTES)
        return cls(Role.SCHEDULER, secret, _public_key(secret))

    @classmethod
    def parse(cls, text: str, role: Role) -> ClusterKey:
        """Return the key that a text encodes.

        Raises:
            UserError: The text is no key, or the key of another role.
        """
        name, _, encoded = text.strip().partition("-")
        try:
            content = base64.b64decode(encoded, b"-_", validate=True)
        except ValueError:
            content = b""
        lengths = {each.value: _BYTES if each is Role.SCHEDULER else 2 * _BYTES for each in Role}
        if len(content) != lengths.get(name):
            raise UserError(f"{VARIABLE}: no key of a cluster; give the one that its scheduler "
                            f"printed for this, '{role.value}-...'")
        if name != role.value:
            raise UserError(f"{VARIABLE}: is the key for a {name}, and this is a {role.value}; "
                            "give the one that the scheduler printed for it")
        secret, scheduler = content[:_BYTES], content[_BYTES:]
        return cls(role, secret, scheduler) if scheduler else cls.from_secret(secret)

    def __str__(self) -> str:
        content = self.secret + (b"" if self.role is Role.SCHEDULER else self.scheduler)
        return f"{self.role.value}-{base64.urlsafe_b64encode(content).decode()}"

    def derive_key(self, role: Role) -> ClusterKey:
        """Derive the key for another role from the scheduler's key."""
        secret = hmac.digest(self.secret, f"qop cluster, {role.value}".encode(), hashlib.sha256)
        return ClusterKey(role, secret, self.scheduler)

    def trusted_keys(self) -> dict[Role, bytes]:
        """Return the public keys of the roles that may connect.

        A scheduler accepts runs and workers; those accept the scheduler.
        """
        if self.role is not Role.SCHEDULER:
            return {Role.SCHEDULER: self.scheduler}
        return {role: _public_key(self.derive_key(role).secret) for role in (Role.RUN, Role.WORKER)}

    def tls_security(self) -> Security:
        """Return dask's TLS settings: the role's certificate and its trusted authorities."""
        private = Ed25519PrivateKey.from_private_bytes(self.secret)
        own = {"cert": _make_certificate(self.role, private.public_key(), private),
               "key": private.private_bytes(
                   serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8,
                   serialization.NoEncryption()).decode()}
        # Only name and public key of an authority's certificate count, so any key may sign it
        # here; only the role itself knows the authority's secret.
        believed = [_make_certificate(role, Ed25519PublicKey.from_public_bytes(public),
                                      Ed25519PrivateKey.generate(), is_authority=True)
                    for role, public in self.trusted_keys().items()]
        return Security(
            require_encryption=True, tls_min_version=ssl.TLSVersion.TLSv1_3,
            tls_ca_file="".join(believed),
            **{f"tls_{name}_{kind}": text for name in ("client", "scheduler", "worker")
               for kind, text in own.items()})


async def refuse_foreign_key(address: str, key: ClusterKey) -> None:
    """Refuse a key that the scheduler at an address does not accept.

    A key of another scheduler is refused as well. Dask treats a failed TLS handshake as a
    scheduler that has not started yet, and retries for a minute. Where no scheduler listens, dask
    reports that itself.

    Raises:
        UserError: TLS failed because of the scheduler's certificate or this key's.
    """
    host, port = get_address_host_port(address)
    context = key.tls_security().get_connection_args(key.role.value.replace("run", "client"))
    try:
        async with asyncio.timeout(_HANDSHAKE_S):
            reader, writer = await asyncio.open_connection(
                host, port, ssl=context["ssl_context"])
            try:
                # In TLS 1.3 a server refuses a certificate after the handshake has succeeded for
                # the client.
                is_accepted = bool(await reader.read(1))
            finally:
                writer.transport.abort()
    except ssl.SSLError:
        is_accepted = False
    except (OSError, TimeoutError):
        return
    if not is_accepted:
        raise UserError(f"{address}: the scheduler there does not accept this key, which is "
                        f"another cluster's; use the key for a {key.role.value} that it printed")


def role_of(certificate: bytes, trusted: dict[Role, bytes]) -> Role | None:
    """Return the role whose public key a verified certificate (DER) has, or None."""
    key = x509.load_der_x509_certificate(certificate).public_key()
    return next((role for role, public in trusted.items()
                 if isinstance(key, Ed25519PublicKey) and key.public_bytes_raw() == public), None)


def _public_key(secret: bytes) -> bytes:
    return Ed25519PrivateKey.from_private_bytes(secret).public_key().public_bytes_raw()


def _make_certificate(role: Role, public: Ed25519PublicKey, signer: Ed25519PrivateKey, *,
                      is_authority: bool = False) -> str:
    """Return a certificate (PEM) issued by a role's authority.

    The authority's own certificate may not sign further authorities.
    """
    now = dt.datetime.now(dt.UTC)
    authority = f"qop cluster's {role.value}s"
    names = [x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
             for name in (authority if is_authority else f"a {role.value}", authority)]
    return (x509.CertificateBuilder().subject_name(names[0]).issuer_name(names[1])
            .public_key(public).serial_number(x509.random_serial_number())
            .not_valid_before(now - _EARLIER).not_valid_after(now + _LATER)
            .add_extension(x509.BasicConstraints(is_authority, 0 if is_authority else None),
                           critical=True)
            .sign(signer, None).public_bytes(serialization.Encoding.PEM).decode())


# Keys are stored where workers and runs of the same user find them, while their scheduler lasts.


def _key_path(address: str, role: Role) -> Path:
    return cache_root() / "cluster" / "keys" / f"{address.partition('://')[2]}-{role.value}"


def store_keys(address: str, key: ClusterKey) -> list[Path]:
    """Store a scheduler's keys for runs and workers, readable only by its user.

    Raises:
        OSError: A file cannot be written.
    """
    paths = []
    for role in (Role.RUN, Role.WORKER):
        path = _key_path(address, role)
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.unlink(missing_ok=True)
        path.touch(0o600, exist_ok=False)
        path.write_text(f"{key.derive_key(role)}\n")
        paths.append(path)
    return paths


def read_from_input() -> bool:
    """Read the key from standard input if the environment says so. Return whether it was read."""
    if os.environ.get(VARIABLE) != FROM_INPUT:
        return False
    os.environ[VARIABLE] = sys.stdin.readline()
    return True


def find_scheduler_key() -> ClusterKey:
    """Return a scheduler's own key: from the environment, or a new one.

    Raises:
        UserError: The text in the environment is no scheduler's key.
    """
    text = _take_from_environment()
    return ClusterKey.parse(text, Role.SCHEDULER) if text else ClusterKey.from_secret()


def find_key(address: str, role: Role) -> ClusterKey:
    """Return the key for a role in a scheduler's cluster: from the environment, or stored here.

    Raises:
        UserError: There is no key, or it is invalid.
    """
    try:
        return ClusterKey.parse(_take_from_environment() or _key_path(address, role).read_text(),
                                role)
    except OSError:
        raise UserError(f"{address}: no key for this cluster here; put {VARIABLE}=... in front "
                        "of the command, as its scheduler printed it") from None


def _take_from_environment() -> str:
    """Return the key's text and remove it from the environment, which child processes inherit."""
    return os.environ.pop(VARIABLE, "")
