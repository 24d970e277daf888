"""Cryptographic suites in strongSwan's proposal syntax, from IKE numbers and kernel names."""

from __future__ import annotations

from collections.abc import Mapping

#: IKEv1 (RFC 2409 and IANA's registry); key sizes are added where a cipher has several.
_CIPHERS_1 = {"5": "3des", "7": "aes"}
_HASHES_1 = {"1": "md5", "2": "sha1", "4": "sha256", "5": "sha384", "6": "sha512"}
#: IKEv2 (RFC 7296 and IANA's registry).
_CIPHERS_2 = {"3": "3des", "12": "aes", "20": "aes{}gcm16", "28": "chacha20poly1305"}
_INTEGRITY_2 = {"1": "md5", "2": "sha1", "12": "sha256", "13": "sha384", "14": "sha512"}
_PRFS_2 = {"1": "prfmd5", "2": "prfsha1", "5": "prfsha256", "6": "prfsha384", "7": "prfsha512"}
_GROUPS = {"1": "modp768", "2": "modp1024", "5": "modp1536", "14": "modp2048", "15": "modp3072",
           "16": "modp4096", "19": "ecp256", "20": "ecp384", "31": "curve25519",
           "36": "mlkem768"}
#: Transform type of an additional key exchange (RFC 9370, 3).
_FIRST_ADDITIONAL = "6"
#: The kernel's algorithm and its key size in bits, 0 if it has one size only. Some keys include a
#: salt (RFC 4106, RFC 7634).
_KERNEL: Mapping[str, tuple[str, int]] = {
    "3des": ("cbc(des3_ede)", 0), "aes128": ("cbc(aes)", 128), "aes192": ("cbc(aes)", 192),
    "aes256": ("cbc(aes)", 256), "aes128gcm16": ("rfc4106(gcm(aes))", 128 + 32),
    "aes256gcm16": ("rfc4106(gcm(aes))", 256 + 32),
    "chacha20poly1305": ("rfc7539esp(chacha20,poly1305)", 0), "md5": ("hmac(md5)", 0),
    "sha1": ("hmac(sha1)", 0), "sha256": ("hmac(sha256)", 0), "sha384": ("hmac(sha384)", 0),
    "sha512": ("hmac(sha512)", 0)}


def ikev1_proposal(cipher: str, hashing: str, group: str, bits: str) -> str:
    """Format a chosen IKEv1 proposal from tshark's numbers, with "?" for unknown ones."""
    name = _CIPHERS_1.get(cipher, "?")
    return "-".join((name + (bits if name == "aes" else ""), _HASHES_1.get(hashing, "?"),
                     _GROUPS.get(group, "?")))


def ikev2_proposal(cipher: str, integrity: str, prf: str, group: str, bits: str, kinds: str = "",
                   other: str = "") -> str:
    """Format an IKEv2 proposal in strongSwan syntax.

    With an AEAD cipher the PRF replaces the integrity algorithm. `kinds` are the types of all
    transforms, `other` the ids of those that tshark has no name for.
    """
    name = _CIPHERS_2.get(cipher, "?")
    name = name.format(bits) if "{}" in name else name + (bits if name == "aes" else "")
    second = _INTEGRITY_2.get(integrity, "?") if integrity else _PRFS_2.get(prf, "?")
    later = f"ke1_{_GROUPS.get(other, '?')}" if _FIRST_ADDITIONAL in kinds.split(",") else ""
    return "-".join(filter(None, (name, second, _GROUPS.get(group, "?"), later)))


def kernel_algorithms(proposal: str) -> set[str]:
    """Return the kernel's names of an ESP proposal's algorithms.

    Key sizes are added where several exist. A group is no matter of the kernel.
    """
    return {f"{name} {bits}" if bits else name for token in proposal.split("-")
            if token in _KERNEL for name, bits in [_KERNEL[token]]}


def sa_algorithms(state: Mapping[str, object]) -> set[str]:
    """Return the algorithms of an SA of `measure.kernel`, as `kernel_algorithms` does."""
    several = {name for name, bits in _KERNEL.values() if bits}
    return {f"{state[kind]} {state.get(f'{kind}_bits', '?')}" if state[kind] in several
            else str(state[kind]) for kind in ("enc", "auth", "aead") if kind in state}
