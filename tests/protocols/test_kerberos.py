"""Tests of Kerberos with public keys: every protocol from end to end, and what each refuses."""

from __future__ import annotations

import hashlib
from pathlib import Path
from secrets import token_bytes

import pytest

from kerberos_realms import Realms
from protocols.kerberos import keytab, messages
from protocols.kerberos.messages import DecryptionError, KrbError, KrbErrorCode
from protocols.kerberos.suites import SUITES, CipherSuite
from studies.kerberos2002.variants import VARIANTS

_PKCROSS = ["client>kdc-l udp AS-REQ", "kdc-l>client udp AS-REP", "client>kdc-l udp TGS-REQ",
            "kdc-l>kdc-r tcp AS-REQ", "kdc-r>kdc-l tcp AS-REP", "kdc-l>client udp TGS-REP",
            "client>kdc-r udp TGS-REQ", "kdc-r>client udp TGS-REP", "client>app1 udp AP-REQ",
            "app1>client udp AP-REP"]


@pytest.mark.parametrize("suite", ["era", "today"])
@pytest.mark.parametrize("protocol", VARIANTS)
def test_every_protocol_comes_to_its_end(protocol: str, suite: str, tmp_path: Path) -> None:
    """Each of the paper's protocols authenticates in both suites; all it said decodes again."""
    realms = Realms(tmp_path, protocol, suite)
    realms.transaction(VARIANTS[protocol].way)
    assert realms.said[-1][3]
    for *_, message in realms.said:
        kind = messages.kind_of(message)
        assert messages.encode_message(kind, messages.decode_message(kind, message)) == message


def test_pkcross_is_the_ten_messages_of_appendix_a(tmp_path: Path) -> None:
    """PKCROSS says what the paper lists, in its order, by UDP but for the KDCs' exchange."""
    realms = Realms(tmp_path, "pkcross")
    realms.transaction("pkcross")
    assert realms.kinds == _PKCROSS


@pytest.mark.parametrize(("protocol", "party", "private", "public"), [
    ("pkcross", "kdc-l", 2, 3), ("pkcross", "kdc-r", 1, 4), ("pkcross", "client", 0, 0),
    ("pktapp", "client", 2, 3), ("pktapp", "app1", 1, 4),
    ("m-standard", "client", 2, 3), ("m-standard", "kdc-l", 1, 4),
    ("m-client-key", "client", 1, 1), ("m-client-key", "kdc-l", 1, 3),
    ("mp-trusted", "client", 2, 2), ("mp-trusted", "proxy", 1, 3), ("mp-trusted", "kdc-l", 1, 3),
    ("mp-assist", "client", 2, 2), ("mp-assist", "proxy", 1, 3), ("mp-standard", "proxy", 0, 0)])
def test_operations_are_those_of_the_messages(protocol: str, party: str, private: int, public: int,
                                              tmp_path: Path) -> None:
    """With chains of two certificates, private and public operations are as counted by hand."""
    realms = Realms(tmp_path, protocol)
    realms.transaction(VARIANTS[protocol].way)
    done = realms.operations(party)
    assert (done.get("rsa-1024-private", 0), done.get("rsa-1024-public", 0)) == (private, public)


@pytest.mark.parametrize(("fault", "protocol", "code"), [
    ("wrong-user", "m-standard", KrbErrorCode.CLIENT_NAME_MISMATCH),
    ("wrong-user", "pktapp", KrbErrorCode.CLIENT_NAME_MISMATCH),
    ("no-purpose", "m-client-key", KrbErrorCode.INCONSISTENT_KEY_PURPOSE),
    ("unfitting-key", "m-standard", KrbErrorCode.INVALID_SIGNATURE),
    ("rogue-authority", "m-standard", KrbErrorCode.CANNOT_VERIFY_CERTIFICATE),
    ("expired-certificate", "m-standard", KrbErrorCode.INVALID_CERTIFICATE),
    ("clock-skew", "pkcross", KrbErrorCode.SKEW),
    ("clock-skew", "m-client-key", KrbErrorCode.SKEW),
    ("weak-client-key", "m-client-key", KrbErrorCode.KEY_TOO_WEAK),
    ("replayed-ap-request", "pkcross", KrbErrorCode.REPEATED),
    ("wrong-pkcross-key", "pkcross", KrbErrorCode.TGT_REVOKED),
    ("beyond-policy", "pkcross", KrbErrorCode.POLICY),
    ("proxy-with-another-key", "mp-trusted", KrbErrorCode.PREAUTHENTICATION_FAILED),
    ("stale-chain", "mp-assist", KrbErrorCode.INVALID_CERTIFICATE)])
def test_what_is_wrong_is_refused_with_its_code(fault: str, protocol: str, code: KrbErrorCode,
                                                tmp_path: Path) -> None:
    """Every control is refused by who should, and the client is told the code."""
    realms = Realms(tmp_path, protocol, fault=fault)
    with pytest.raises(KrbError) as refused:
        realms.transaction(VARIANTS[protocol].way)
    assert refused.value.code == code
    assert refused.value.is_told


def test_a_byte_altered_in_a_request_is_refused(tmp_path: Path) -> None:
    """Any one byte of the signed part, of a ticket or of an authenticator: none is accepted."""
    for protocol, asker in (("m-standard", "client"), ("pkcross", "client")):
        realms = Realms(tmp_path, protocol)
        realms.transaction(VARIANTS[protocol].way)
        for who, to, transport, message in list(realms.said):
            if who != asker:
                continue
            for at in range(40, len(message), max(1, len(message) // 25)):
                altered = message[:at] + bytes((message[at] ^ 0x41,)) + message[at + 1:]
                reply = realms.ask(who, to, transport, altered)
                is_reply = messages.kind_of(reply) != "KRB-ERROR"
                # A request without a signature is anybody's, and answered to the user's own key.
                assert not is_reply or messages.kind_of(message) == "AS-REQ", (protocol, at)


def test_known_answer_of_rfc_8009() -> None:
    """AES256-CTS-HMAC-SHA384-192 gives the RFC's own cipher text of an empty message."""
    key = bytes.fromhex("6D404D37FAF79F9DF0D33568D320669800EB4836472EA8A026D16B7182460C52")
    confounder = bytes.fromhex("F764E9FA15C276478B2C7D0C4E5F58E4")
    sealed = SUITES["today"].encrypt(key, 2, b"", lambda _: confounder)
    assert sealed.hex() == ("41f53fa5bfe7026d91faf9be959195a058707273a96a40f0"
                            "a01960621ac612748b9bbfbe7eb4ce3c")


@pytest.mark.parametrize(("text", "size", "folded"), [
    (b"kerberos", 16, "6b65726265726f737b9b5b2b93132b93"), (b"012345", 8, "be072631276b1955"),
    (b"password", 7, "78a07b6caf85fa"),
    (b"Q", 21, "518a54a215a8452a518a54a215a8452a518a54a215")])
def test_known_foldings_of_rfc_3961(text: bytes, size: int, folded: str) -> None:
    """The n-fold gives the RFC's own results, to more and to fewer bytes."""
    assert keytab.fold_bits(text, size).hex() == folded


def test_known_answers_of_rfc_3962() -> None:
    """A password's key is the RFC's; MIT's known cipher text of no text opens by its key alone."""
    start = hashlib.pbkdf2_hmac("sha1", b"password", b"ATHENA.MIT.EDUraeburn", 1, 32)
    assert keytab.derive_aes256_key(start, b"kerberos").hex() == (
        "fe697b52bc0d3ce14432ba036a92e65bbb52280990a2fa27883998d72af30161")
    key = bytes.fromhex("17f275f2954f2ed1f90c377ba7f4d6a369aa0136e0bf0c927ad6133c693759a9")
    sealed = bytes.fromhex("e5094c55ee7b38262e2b044280b069379a95bf95bd8376fb3281b435")
    assert keytab.decrypt_aes256(key, 0, sealed) == b""
    for wrong, usage, data in ((key[::-1], 0, sealed), (key, 2, sealed), (key, 0, sealed[::-1]),
                               (key, 0, sealed[:27])):
        with pytest.raises(DecryptionError):
            keytab.decrypt_aes256(wrong, usage, data)


@pytest.mark.parametrize("suite", SUITES.values())
def test_only_the_right_key_opens(suite: CipherSuite) -> None:
    """Texts of every length come back; with another key, usage (today) or a changed byte, none."""
    key, other = suite.new_key(token_bytes), suite.new_key(token_bytes)
    for size in (0, 1, 15, 16, 17, 31, 32, 33, 200):
        text = token_bytes(size)
        sealed = suite.encrypt(key, 3, text, token_bytes)
        opened = suite.decrypt(key, 3, sealed)
        assert opened[:size] == text
        assert not any(opened[size:])
        altered = bytes((sealed[0] ^ 1,)) + sealed[1:]
        for wrong, data in ((other, sealed), (key, altered)):
            with pytest.raises(DecryptionError):
                suite.decrypt(wrong, 3, data)
