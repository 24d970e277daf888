"""Protect a cluster by TLS with one shared key, and encode the messages from its workers.

A cluster is several machines that measure for one run. Holders of its key (`ClusterKey`) are
trusted as workers, as runs and as the scheduler that connects them. The key is the secret of the
cluster's certification authority: a member issues its own certificate with it, and accepts
certificates of that authority only. `find_key` returns the key from the environment or a file.
`pack_message` and `unpack_message` convert messages to bytes and back.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import datetime as dt
import os
import secrets
import ssl
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgpack
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.x509.oid import NameOID
from distributed import Security
from distributed.comm import get_address_host_port

from guest.cache import cache_root
from harness.errors import UserError

# --- Keys, certificates and TLS settings ---

#: Environment variable for a key that is not stored on this machine.
KEY_VARIABLE = "QOP_CLUSTER_KEY"
#: Value of the variable when the key is the first line of standard input; the worker ends with
#: that input.
KEY_FROM_INPUT = "-"
#: Length of a secret in bytes.
_KEY_BYTES = 32
#: Time limit of a TLS handshake over a slow network, in seconds.
_HANDSHAKE_S = 10.0
#: Validity of certificates before and after now: clocks of machines differ, and a cluster's
#: authority ends with it.
_EARLIER, _LATER = dt.timedelta(days=2), dt.timedelta(days=366)
_AUTHORITY, _MEMBER = "qop cluster", "a member"


@dataclass(frozen=True)
class ClusterKey:
    """The key of a cluster: the secret of its certification authority."""

    secret: bytes

    @classmethod
    def make_new(cls) -> ClusterKey:
        """Return the key of a new cluster."""
        return cls(secrets.token_bytes(_KEY_BYTES))

    @classmethod
    def from_text(cls, text: str) -> ClusterKey:
        """Return the key that a text encodes.

        Raises:
            UserError: The text is no key.
        """
        try:
            secret = base64.b64decode(text.strip(), b"-_", validate=True)
        except ValueError:
            secret = b""
        if len(secret) != _KEY_BYTES:
            raise UserError(f"{KEY_VARIABLE}: no key of a cluster; give the one that its scheduler "
                            "printed")
        return cls(secret)

    def __str__(self) -> str:
        return base64.urlsafe_b64encode(self.secret).decode()

    def tls_security(self) -> Security:
        """Return dask's TLS settings: a certificate of a member, and the cluster's authority."""
        private = Ed25519PrivateKey.from_private_bytes(self.secret)
        own = {"cert": _make_certificate(_MEMBER, private),
               "key": private.private_bytes(
                   serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8,
                   serialization.NoEncryption()).decode()}
        return Security(
            require_encryption=True, tls_min_version=ssl.TLSVersion.TLSv1_3,
            tls_ca_file=_make_certificate(_AUTHORITY, private),
            **{f"tls_{name}_{kind}": text for name in ("client", "scheduler", "worker")
               for kind, text in own.items()})


async def refuse_foreign_key(address: str, key: ClusterKey) -> None:
    """Check at once that the scheduler at an address accepts this key.

    Dask takes a failed TLS handshake for a scheduler that has not started yet, and retries for a
    minute. Where no scheduler listens, dask reports that itself.

    Raises:
        UserError: TLS failed because of the scheduler's certificate or this key's.
    """
    host, port = get_address_host_port(address)
    context = key.tls_security().get_connection_args("client")
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
                        "another cluster's; use the key that it printed")


def _make_certificate(name: str, private: Ed25519PrivateKey) -> str:
    """Return a certificate (PEM) of the cluster's authority, for itself or for a member.

    The authority may not sign further authorities.
    """
    now, is_authority = dt.datetime.now(dt.UTC), name == _AUTHORITY
    names = [x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, each)])
             for each in (name, _AUTHORITY)]
    return (x509.CertificateBuilder().subject_name(names[0]).issuer_name(names[1])
            .public_key(private.public_key()).serial_number(x509.random_serial_number())
            .not_valid_before(now - _EARLIER).not_valid_after(now + _LATER)
            .add_extension(x509.BasicConstraints(is_authority, 0 if is_authority else None),
                           critical=True)
            .sign(private, None).public_bytes(serialization.Encoding.PEM).decode())


# --- Keys on disk, for workers and runs of the same user while their scheduler runs ---

def _key_path(address: str) -> Path:
    return cache_root() / "cluster" / "keys" / address.partition("://")[2]


def store_key(address: str, key: ClusterKey) -> Path:
    """Store the key of the cluster of a scheduler in a file that only this user can read.

    Raises:
        OSError: The file cannot be written.
    """
    path = _key_path(address)
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    path.unlink(missing_ok=True)
    path.touch(0o600, exist_ok=False)
    path.write_text(f"{key}\n")
    return path


def read_from_input() -> bool:
    """Read a cluster key from standard input if QOP_CLUSTER_KEY requests that.

    Returns whether the key was read.
    """
    if os.environ.get(KEY_VARIABLE) != KEY_FROM_INPUT:
        return False
    os.environ[KEY_VARIABLE] = sys.stdin.readline()
    return True


def find_scheduler_key() -> ClusterKey:
    """Return the key for a scheduler that starts: from the environment, or a new one.

    Raises:
        UserError: The text in the environment is no key.
    """
    text = _take_from_environment()
    return ClusterKey.from_text(text) if text else ClusterKey.make_new()


def find_key(address: str) -> ClusterKey:
    """Return the key of a scheduler's cluster: from the environment, or stored here.

    Raises:
        UserError: There is no key, or it is invalid.
    """
    try:
        return ClusterKey.from_text(_take_from_environment() or _key_path(address).read_text())
    except OSError:
        raise UserError(f"{address}: no key for this cluster here; put {KEY_VARIABLE}=... in front "
                        "of the command, as its scheduler printed it") from None


def _take_from_environment() -> str:
    """Return the cluster key in the environment, and remove it from there.

    Child processes would inherit it.
    """
    return os.environ.pop(KEY_VARIABLE, "")


# --- Messages from workers: bytes that contain plain data ---
# Dask encodes messages as MessagePack, and pickles every object that MessagePack lacks. Therefore
# tasks encode their messages themselves, and a run decodes nothing else.

#: Prefix of the topics on which tasks send their messages.
TOPIC = "qop-"
#: Largest message in bytes: one repetition with its captures.
MESSAGE_BYTES = 256 << 20


def pack_message(message: Mapping[str, Any]) -> bytes:
    """Encode a message as bytes.

    It may contain numbers, texts, bytes, lists and mappings.

    Raises:
        TypeError: The message contains another object.
        UserError: The message is too large.
    """
    data: bytes = msgpack.packb(message)
    if len(data) > MESSAGE_BYTES:
        raise UserError(f"{message.get('name', message['kind'])}: {len(data)} bytes, more than a "
                        "worker may send; measure it with '--captures none', or without --cluster",
                        status=1)
    return data


def unpack_message(data: object) -> dict[str, Any]:
    """Decode a message of a worker.

    Raises:
        ValueError: The data is no message.
    """
    message = None
    if isinstance(data, bytes) and len(data) <= MESSAGE_BYTES:
        with contextlib.suppress(ValueError):
            message = msgpack.unpackb(data)
    if not isinstance(message, dict) or "kind" not in message:
        raise ValueError("its data is no message of this version")
    return message
