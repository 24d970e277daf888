"""Suites by strongSwan's words: whatever a policy may say has its number, and its kernel's name."""

from __future__ import annotations

import itertools

import pytest

import recorded
from measure.capture import tshark
from policies import proposals
from xfrm_text import parse_xfrm_state

PLAIN = [*itertools.product(proposals.CIPHERS, proposals.INTEGRITY, proposals.GROUPS)]


def number(table: dict[str, str], word: str) -> str:
    """The number that stands for a word."""
    [found] = [number for number, name in table.items() if name == word]
    return found


@pytest.mark.parametrize("version", [1, 2])
def test_every_plain_suite_is_told_from_every_other(version: int) -> None:
    """Cipher, size of its key, integrity and group, of either version of IKE."""
    told = set()
    for cipher, integrity, group in PLAIN:
        name, bits = ("aes", cipher[3:]) if cipher.startswith("aes") else (cipher, "")
        groups = number(tshark._GROUPS, group)
        if version == 1:
            told.add(tshark.ikev1_proposal(number(tshark._CIPHERS_1, name),
                                           number(tshark._HASHES_1, integrity), groups, bits))
        else:
            told.add(tshark.ikev2_proposal(number(tshark._CIPHERS_2, name),
                                           number(tshark._INTEGRITY_2, integrity),
                                           number(tshark._PRFS_2, f"prf{integrity}"), groups,
                                           bits))
    assert told == {"-".join(suite) for suite in PLAIN}


def test_suites_that_authenticate_by_themselves() -> None:
    """The pseudo-random function stands where integrity stands otherwise."""
    for cipher, prf, group in itertools.product(proposals.AEADS, proposals.PRFS,
                                                proposals.GROUPS):
        code, bits = ("28", "") if cipher.startswith("chacha") else ("20", cipher[3:6])
        assert tshark.ikev2_proposal(code, "", number(tshark._PRFS_2, prf),
                                     number(tshark._GROUPS, group),
                                     bits) == f"{cipher}-{prf}-{group}"


def test_another_function_beside_an_integrity_algorithm_is_named() -> None:
    """It fits no policy: those have the function of the same hash."""
    assert tshark.ikev2_proposal("12", "12", "6", "19", "128") == "aes128-sha256-prfsha384-ecp256"
    assert tshark.ikev2_proposal("12", "12", "8", "19", "128") == "aes128-sha256-?-ecp256"


def test_a_further_key_exchange_is_part_of_the_suite() -> None:
    """Only a transform of that type counts, and only ML-KEM-768 is what policies may name."""
    told = [tshark.ikev2_proposal("20", "", "6", "31", "256", kinds, other)
            for kinds, other in (("1,2,4", ""), ("1,2,4,6", "36"), ("1,2,4,6", "37"),
                                 ("1,2,4,7", "36"))]
    assert told == [f"aes256gcm16-prfsha384-curve25519{tail}" for tail in (
        "", "-ke1_mlkem768", "-ke1_?", "")]
    assert tshark.ikev2_proposal("20", "", "6", "36", "256") == "aes256gcm16-prfsha384-mlkem768"


def test_what_is_not_known_is_no_suite_of_a_policy() -> None:
    """An unknown number, several of them, or none can match nothing that a policy may say."""
    for suite in (tshark.ikev1_proposal("9", "2", "2", ""),
                  tshark.ikev1_proposal("5,7", "2", "2", ""),
                  tshark.ikev2_proposal("12", "2", "", "99", "128"),
                  tshark.ikev2_proposal("12", "", "", "2", "")):
        assert "?" in suite or suite.startswith("aes-")


def test_every_esp_cipher_has_its_kernel_name() -> None:
    """No word of a proposal is passed over, but a group; keys of different size are different."""
    words = [*proposals.CIPHERS, *proposals.AEADS, *proposals.INTEGRITY]
    names = [tshark.kernel_algorithms(word) for word in words]
    assert all(len(name) == 1 for name in names)
    assert len(set.union(*names)) == len(words)
    assert tshark.kernel_algorithms("aes256-sha256-modp2048") == tshark.kernel_algorithms(
        "aes256-sha256")


def test_keys_are_measured_and_not_kept() -> None:
    """Their sizes tell ciphers of one name apart; where keys are hidden, nothing does."""
    text = recorded.text("ip-xfrm-state-aead.txt")
    [hidden, *_] = parse_xfrm_state(text)
    assert tshark.sa_algorithms(hidden) == {"rfc4106(gcm(aes)) ?"}
    key = "0x" + 20 * "ab"
    [shown, *_] = parse_xfrm_state(text.replace("<<Keys hidden>>", key))
    assert tshark.sa_algorithms(shown) == tshark.kernel_algorithms("aes128gcm16")
    assert key not in str(shown) and "abab" not in str(shown)


def test_a_cipher_without_a_key_is_read() -> None:
    """The kernel shows nothing behind the name of one that encrypts nothing."""
    text = recorded.text("ip-xfrm-state.txt").replace("cbc(des3_ede) <<Keys hidden>>",
                                                      "ecb(cipher_null) ")
    assert parse_xfrm_state(text)[0]["enc"] == "ecb(cipher_null)"
