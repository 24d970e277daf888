"""Encrypt and decrypt single blocks, from which modes are made of heads alone."""

from __future__ import annotations

import subprocess

#: By the name here: what openssl calls it, without the bits of a key of which there are several.
_OPENSSL = {"aes": "aes-{}-ecb", "3des": "des-ede3-ecb"}


def transformed(cipher: str, key: bytes, blocks: bytes, *, decrypts: bool = False) -> bytes:
    """Return each block encrypted or decrypted by itself under "aes" or "3des"."""
    try:
        # Only here: the container image lacks it, and has openssl, which takes longer to start.
        from cryptography.hazmat.decrepit.ciphers.algorithms import TripleDES
        from cryptography.hazmat.primitives.ciphers import Cipher
        from cryptography.hazmat.primitives.ciphers.algorithms import AES
        from cryptography.hazmat.primitives.ciphers.modes import ECB
    except ImportError:
        return subprocess.run(
            ["openssl", "enc", "-" + _OPENSSL[cipher].format(len(key) * 8), "-nopad", "-K",
             key.hex(), *(["-d"] if decrypts else [])],
            input=blocks, stdout=subprocess.PIPE, check=True).stdout
    # No mode of its own: each of thousands of heads has a counter or a vector of its own.
    tool = Cipher(AES(key) if cipher == "aes" else TripleDES(key), ECB())  # noqa: S305
    return (tool.decryptor() if decrypts else tool.encryptor()).update(blocks)
