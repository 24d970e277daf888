"""Check the IKE and ESP proposals of a policy against the keywords that strongSwan supports.

`check_ike` and `check_esp` take a proposal, such as `aes128-sha256-modp2048`. They raise an error
that names the wrong keyword. Only keywords are listed that Debian 12's charon with the installed
plugins offers, or the charon with ML-KEM (strongSwan's documentation, "IKEv2 Cipher Suites").
Aliases are left out (``aes128``, not ``aes``), so that two policies which negotiate the same are
written the same. `pattern_ike` and `pattern_esp` return regular expressions for editors.
"""

from __future__ import annotations

from policies.errors import advise_choice, make_fault, show_value

CIPHERS = ("3des", "aes128", "aes192", "aes256")
AEADS = ("aes128gcm16", "aes256gcm16", "chacha20poly1305")  # integrity is part of the cipher
INTEGRITY = ("md5", "sha1", "sha256", "sha384", "sha512")
PRFS = tuple(f"prf{name}" for name in INTEGRITY)
GROUPS = (
    *("modp1024", "modp1536", "modp2048", "modp3072", "modp4096"),
    *("ecp256", "ecp384", "ecp521", "curve25519"),
)
#: Key encapsulation that withstands quantum computers: in place of a group, or after one (RFC
#: 9370). For IKEv2 only, with another strongSwan than Debian's.
KEMS = ("mlkem768",)
ADDITIONAL = tuple(f"ke1_{name}" for name in KEMS)
# Names from other programs that are too different for a suggestion by spelling.
_ALIASES = {"aes": "aes128", "sha": "sha1", "sha2": "sha256", "x25519": "curve25519"}

_Part = tuple[str, tuple[str, ...]]
_ENCRYPTION: _Part = ("encryption", (*CIPHERS, *AEADS))
_INTEG: _Part = ("integrity", INTEGRITY)
_PRF: _Part = ("pseudo-random function", PRFS)
_DH: _Part = ("Diffie-Hellman group", GROUPS)
_KEY_EXCHANGE: _Part = ("Diffie-Hellman group or key encapsulation", (*GROUPS, *KEMS))
_LATER: _Part = ("additional key exchange", ADDITIONAL)


def check_ike(proposal: str, ike: int) -> None:
    """Check that a text is one IKE proposal in strongSwan syntax, for an IKE version.

    Raises:
        PydanticCustomError: The text is not such a proposal.
    """
    tokens = _split_proposal(proposal, "aes256-sha256-modp2048")
    if tokens[0] in AEADS and ike == 1:
        raise make_fault(
            f"{tokens[0]} protects IKEv2 only, and ike is 1", f"use {', '.join(CIPHERS)}, or ike: 2"
        )
    if is_post_quantum(proposal) and ike == 1:
        raise make_fault("ML-KEM is for IKEv2 only, and ike is 1", "write ike: 2, or leave it out")
    if tokens[-1] in ADDITIONAL and tokens[-2] in KEMS:
        raise make_fault(f"{show_value(tokens[-1])} after {tokens[-2]} would do the same twice",
                         "write a Diffie-Hellman group before it, such as curve25519")
    parts = [_ENCRYPTION, _PRF if tokens[0] in AEADS else _INTEG,
             *([_DH] if ike == 1 else [_KEY_EXCHANGE, _LATER])]
    example = "aes128gcm16-prfsha256-ecp256" if tokens[0] in AEADS else "aes256-sha256-modp2048"
    _check_tokens(proposal, tokens, parts, 3, example)


def check_esp(proposal: str) -> str:
    """Check that a text is one ESP proposal in strongSwan syntax, and return it.

    Raises:
        PydanticCustomError: The text is not such a proposal.
    """
    tokens = _split_proposal(proposal, "aes128-sha256")
    if is_post_quantum(proposal):
        raise make_fault(f"ML-KEM has no place in {show_value(proposal)}, which is ESP's",
                         "leave it out, and write it in ike_proposal, from whose keys ESP's come")
    aead = tokens[0] in AEADS
    parts = [_ENCRYPTION, _DH] if aead else [_ENCRYPTION, _INTEG, _DH]
    _check_tokens(proposal, tokens, parts, len(parts) - 1, "aes128gcm16" if aead
                  else "aes128-sha256")
    return proposal


def is_post_quantum(proposal: str) -> bool:
    """Return whether a proposal names ML-KEM, which Debian's own strongSwan lacks."""
    return any(name in proposal.casefold() for name in ("mlkem", "ml-kem"))


def pattern_ike() -> str:
    """Return a regular expression for IKE proposals, for editors."""
    groups, prfs = "|".join(GROUPS), "|".join(PRFS)
    plain = f"({'|'.join(CIPHERS)})-({'|'.join(INTEGRITY)})"
    exchanges = f"({groups})(-({'|'.join(ADDITIONAL)}))?|{'|'.join(KEMS)}"
    return f"^({plain}|({'|'.join(AEADS)})-({prfs}))-({exchanges})$"


def pattern_esp() -> str:
    """Return a regular expression for ESP proposals, for editors."""
    plain = f"({'|'.join(CIPHERS)})-({'|'.join(INTEGRITY)})"
    return f"^({plain}|{'|'.join(AEADS)})(-({'|'.join(GROUPS)}))?$"


def _split_proposal(proposal: str, example: str) -> list[str]:
    if not all(char.isalnum() or char in "-_" for char in proposal) or not proposal:
        # With a list or a trailing "!" the negotiated suite, and so what is measured, would be
        # open.
        raise make_fault(
            f"{show_value(proposal)} is not one proposal of strongSwan",
            f"write one, such as {example}"
        )
    return proposal.split("-")


def _check_tokens(proposal: str, tokens: list[str], parts: list[_Part], least: int,
                  example: str) -> None:
    for token, (role, known) in zip(tokens, parts, strict=False):
        if token not in known:
            alias = _ALIASES.get(token.casefold())
            advice = advise_choice(alias if alias in known else token, known)
            raise make_fault(
                f"{show_value(token)} is no {role} known here, in {show_value(proposal)}", advice)
    if not least <= len(tokens) <= len(parts):
        count = "1 part" if len(tokens) == 1 else f"{len(tokens)} parts"
        shape = "-".join(f"({role})" for role, _ in parts[:least])
        shape += "".join(f"[-({role})]" for role, _ in parts[least:])
        raise make_fault(
            f"{show_value(proposal)} has {count} where {shape} belongs",
            f"write it like {example}",
        )
