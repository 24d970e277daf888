"""Generate and read the key files (PEM) of ADP users and services.

ADP is the Authenticated Datagram Protocol, for secure messages between hosts. An owner is a user or
service with a key pair: RSA in the version of 1987, Ed25519 in the modern one. The command `python3
-m protocols.adp.keys VERSION FOLDER OWNER...` writes OWNER.pem and OWNER.pub.pem for each owner.
`load_private` and `load_public` read such files for a host's configuration.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from protocols.adp.crypto import RsaPrivateKey, RsaPublicKey
from protocols.adp.host import VERSIONS, check_name
from protocols.adp.packets import AdpError
from protocols.adp.suite import PrivateKey, PublicKey
from protocols.fields import ConfigError

# The smallest size that the library generates. The paper gives no size.
RSA_BITS = 1024
_USAGE = "usage: python3 -m protocols.adp.keys adp|adp-1987 FOLDER OWNER..."


def load_private(path: Path, version: str) -> PrivateKey:
    """Read a private key of the kind that the protocol version needs.

    Raises:
        ConfigError: the file is missing, or has another kind of key.
    """
    text = _read_key_file(path)
    try:
        key = serialization.load_pem_private_key(text, None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise ConfigError(f"{path.name}: no private key in PEM without a password") from None
    if version == "adp-1987" and isinstance(key, rsa.RSAPrivateKey):
        numbers = key.private_numbers()
        return RsaPrivateKey(numbers.p, numbers.q, numbers.public_numbers.e)
    if version == "adp" and isinstance(key, Ed25519PrivateKey):
        return key
    raise ConfigError(_wrong_kind(path, version))


def load_public(path: Path, version: str) -> PublicKey:
    """Read a public key of the kind that the protocol version needs.

    Raises:
        ConfigError: the file is missing, or has another kind of key.
    """
    text = _read_key_file(path)
    try:
        key = serialization.load_pem_public_key(text)
    except (ValueError, UnsupportedAlgorithm):
        raise ConfigError(f"{path.name}: no public key in PEM") from None
    if version == "adp-1987" and isinstance(key, rsa.RSAPublicKey):
        return RsaPublicKey(key.public_numbers().n, key.public_numbers().e)
    if version == "adp" and isinstance(key, Ed25519PublicKey):
        return key
    raise ConfigError(_wrong_kind(path, version))


def public_half(key: PrivateKey) -> PublicKey:
    """Return the public key that belongs to a private key."""
    return key.public if isinstance(key, RsaPrivateKey) else key.public_key()


def generate_key(version: str, folder: Path, owner: str) -> None:
    """Generate a key pair, and write it to OWNER.pem and OWNER.pub.pem.

    Raises:
        AdpError: the name cannot be used.
        OSError: a file cannot be written.
    """
    check_name(owner)
    if "/" in owner or owner in {".", ".."}:
        raise AdpError(f"{owner}: no name for a file")
    key: rsa.RSAPrivateKey | Ed25519PrivateKey
    if version == "adp-1987":
        key = rsa.generate_private_key(65537, RSA_BITS)
    else:
        key = Ed25519PrivateKey.generate()
    private = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8,
                                serialization.NoEncryption())
    public = key.public_key().public_bytes(serialization.Encoding.PEM,
                                           serialization.PublicFormat.SubjectPublicKeyInfo)
    # Create the file with mode 0600, so that it is never readable by others. O_EXCL keeps an
    # existing key.
    descriptor = os.open(folder / f"{owner}.pem", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(private)
    (folder / f"{owner}.pub.pem").write_bytes(public)


def main(arguments: list[str]) -> int:
    """Generate keys for owners and return the exit status."""
    if len(arguments) < 3 or arguments[0] not in VERSIONS:
        sys.stderr.write(_USAGE + "\n")
        return 2
    version, folder, *owners = arguments
    try:
        for owner in owners:
            generate_key(version, Path(folder), owner)
    except AdpError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    except OSError as error:
        sys.stderr.write(f"{error.filename}: {error.strerror}\n")
        return 1
    return 0


def _read_key_file(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "no path"
        raise ConfigError(f"{path.name}: {reason}") from None


def _wrong_kind(path: Path, version: str) -> str:
    kind = "an RSA key" if version == "adp-1987" else "an Ed25519 key"
    return f"{path.name}: {version} needs {kind}; python3 -m protocols.adp.keys makes one"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
