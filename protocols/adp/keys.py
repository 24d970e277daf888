"""Keys of owners in PEM files, and the program that generates them.

Usage: `python3 -m protocols.adp.keys`.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from protocols.adp.crypto import RsaPrivate, RsaPublic
from protocols.adp.errors import AdpError
from protocols.adp.host import VERSIONS, check_name
from protocols.adp.suite import PrivateKey, PublicKey
from protocols.fields import ConfigError

# The smallest size that the library generates. The paper gives no size.
RSA_BITS = 1024
_USAGE = "usage: python3 -m protocols.adp.keys adp|adp-1987 FOLDER OWNER..."


def load_private(path: Path, version: str) -> PrivateKey:
    """Load a private key of the version's kind. Raises ConfigError."""
    text = _read_key_file(path)
    try:
        key = serialization.load_pem_private_key(text, None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise ConfigError(f"{path.name}: no private key in PEM without a password") from None
    if version == "adp-1987" and isinstance(key, rsa.RSAPrivateKey):
        numbers = key.private_numbers()
        return RsaPrivate(numbers.p, numbers.q, numbers.public_numbers.e)
    if version == "adp" and isinstance(key, Ed25519PrivateKey):
        return key
    raise ConfigError(_wrong_kind(path, version))


def load_public(path: Path, version: str) -> PublicKey:
    """Load a public key of the version's kind. Raises ConfigError."""
    text = _read_key_file(path)
    try:
        key = serialization.load_pem_public_key(text)
    except (ValueError, UnsupportedAlgorithm):
        raise ConfigError(f"{path.name}: no public key in PEM") from None
    if version == "adp-1987" and isinstance(key, rsa.RSAPublicKey):
        return RsaPublic(key.public_numbers().n, key.public_numbers().e)
    if version == "adp" and isinstance(key, Ed25519PublicKey):
        return key
    raise ConfigError(_wrong_kind(path, version))


def public_half(key: PrivateKey) -> PublicKey:
    """Return the public key of a private key."""
    return key.public if isinstance(key, RsaPrivate) else key.public_key()


def generate_key(version: str, folder: Path, owner: str) -> None:
    """Write OWNER.pem and OWNER.pub.pem.

    Raises AdpError for a name that cannot be used, and OSError for a file that cannot be written.
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
