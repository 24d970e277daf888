"""Encrypt and decrypt single blocks, as building blocks of modes on truncated data."""

from __future__ import annotations

import subprocess

#: openssl's names; the key size in bits is inserted where several exist.
_OPENSSL = {"aes": "aes-{}-ecb", "3des": "des-ede3-ecb"}


def transform_blocks(cipher: str, key: bytes, blocks: bytes, *, decrypts: bool = False) -> bytes:
    """Return each block encrypted or decrypted on its own, under "aes" or "3des"."""
    try:
        # Imported here: the container image lacks it and has openssl, which starts more slowly.
        from cryptography.hazmat.decrepit.ciphers.algorithms import TripleDES
        from cryptography.hazmat.primitives.ciphers import Cipher
        from cryptography.hazmat.primitives.ciphers.algorithms import AES
        from cryptography.hazmat.primitives.ciphers.modes import ECB
    except ImportError:
        return subprocess.run(
            ["openssl", "enc", "-" + _OPENSSL[cipher].format(len(key) * 8), "-nopad", "-K",
             key.hex(), *(["-d"] if decrypts else [])],
            input=blocks, stdout=subprocess.PIPE, check=True).stdout
    # ECB: each of thousands of frames has its own counter or vector, which a mode would need
    # separately.
    tool = Cipher(AES(key) if cipher == "aes" else TripleDES(key), ECB())  # noqa: S305
    return (tool.decryptor() if decrypts else tool.encryptor()).update(blocks)
