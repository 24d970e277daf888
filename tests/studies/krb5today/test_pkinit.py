"""PKINIT's data made up: each way to agree a key is told from the others, and signatures verify."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import cache
from types import SimpleNamespace
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.ciphers.algorithms import AES256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, pkcs7

from policies import KerberosLayer
from protocols.kerberos.certificates import (
    CLIENT_PURPOSE,
    KDC_PURPOSE,
    CertificateContent,
    Issuer,
    issue_certificate,
)
from studies.krb5today import checks, exchanges, pkinit
from studies.krb5today import pkinit as signing
from studies.krb5today.exchanges import (
    PKINIT_REPLY,
    PKINIT_REQUEST,
    KerberosExchange,
    KerberosMessage,
    pair_exchanges,
)

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
DAYS = timedelta(days=1)
BODY = b"\x30\x03\x02\x01\x07"
USER, REALM = "alice@R.TEST", "R.TEST"
SHA256 = hashes.SHA256()


def tagged(tag: int, *contents: bytes) -> bytes:
    """A value of DER."""
    content = b"".join(contents)
    size = len(content)
    length = bytes([size]) if size < 128 else b"\x82" + size.to_bytes(2, "big")
    return bytes([tag]) + length + content


@cache
def keys() -> tuple[rsa.RSAPrivateKey, ...]:
    """The authority's, the user's, the KDC's."""
    return tuple(rsa.generate_private_key(65537, 2048) for _ in range(3))


def anchor() -> Issuer:
    """The run's authority."""
    made = issue_certificate(CertificateContent("realms", is_authority=True),
                             keys()[0].public_key(), None,
                             keys()[0], NOW)
    return Issuer(made, keys()[0])


def held(number: int, name: str, purpose: x509.ObjectIdentifier, signer: Issuer,
         valid_from: timedelta = -DAYS) -> x509.Certificate:
    """A principal's certificate."""
    return issue_certificate(CertificateContent(name, REALM, purpose, valid_from=valid_from,
                                                valid_to=5 * DAYS),
                             keys()[number].public_key(), signer, signer.key, NOW)


def signed(text: bytes, certificate: x509.Certificate, key: rsa.RSAPrivateKey,
           digest: hashes.SHA224 | hashes.SHA256 = SHA256) -> bytes:
    """A ContentInfo of SignedData."""
    builder = pkcs7.PKCS7SignatureBuilder().set_data(text).add_signer(certificate, key, digest)
    return builder.sign(Encoding.DER, [pkcs7.PKCS7Options.Binary])


def public_value(kind: str) -> bytes:
    """A SubjectPublicKeyInfo of DH (RFC 3279's algorithm) or of a curve; none for RSA."""
    if kind == "RSA":
        return b""
    if kind == "ECDH":
        key = ec.generate_private_key(ec.SECP256R1()).public_key()
        return tagged(0xA1, key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo))
    # As MIT's client says it, but for the numbers: what is told apart is the algorithm.
    group = tagged(0x30, b"\x02\x01\x17", b"\x02\x01\x02", b"\x02\x01\x0b")
    algorithm = tagged(0x30, tagged(6, bytes.fromhex("2a8648ce3e0201")), group)
    return tagged(0xA1, tagged(0x30, algorithm, tagged(3, b"\0\x02\x01\x04")))


def exchange(kind: str, answer: str = "", *, ctime: datetime = NOW,
             valid_from: timedelta = -DAYS, spoilt: bool = False
             ) -> tuple[KerberosExchange, dict[str, Any]]:
    """A login that asks and is answered by those ways; and what its signatures are held to."""
    signer, (_, user, kdc) = anchor(), keys()
    checksum = hashlib.sha1(BODY).digest()
    authenticator = tagged(0x30, tagged(0xA0, b"\x02\x01\x01"), tagged(
        0xA1, tagged(0x18, f"{ctime:%Y%m%d%H%M%SZ}".encode())), tagged(
        0xA2, b"\x02\x01\x09"), tagged(0xA3, tagged(4, checksum)))
    pack = tagged(0x30, tagged(0xA0, authenticator), public_value(kind))
    request = signed(pack, held(1, "alice", CLIENT_PURPOSE, signer, valid_from), user)
    own = held(2, f"krbtgt/{REALM}", KDC_PURPOSE, signer)
    said = signed(b"the key", own, user if spoilt else kdc)
    if (answer or kind) == "RSA":
        reply = enveloped(exchanges.parse_first(said).parts[1].parts[0].whole)
    else:
        reply = tagged(0xA0, tagged(0x30, tagged(0x80, said)))
    asked = message("AS-REQ", {PKINIT_REQUEST: tagged(0x30, tagged(0x80, request))},
                    tagged(0x6A, tagged(0x30, tagged(0xA4, BODY))), {})
    answered = message("AS-REP", {PKINIT_REPLY: reply}, b"", {"ticket": {"realm": REALM}})
    return KerberosExchange(asked, answered), {
        "anchor": signer.certificate, "user_key": user}


def enveloped(inner: bytes) -> bytes:
    """A reply in RSA mode with this in it, for the user's key."""
    builder = pkcs7.PKCS7EnvelopeBuilder().set_data(inner).add_recipient(
        held(1, "alice", CLIENT_PURPOSE, anchor())).set_content_encryption_algorithm(AES256)
    return tagged(0x81, builder.encrypt(Encoding.DER, [pkcs7.PKCS7Options.Binary]))


def message(kind: str, padata: Mapping[int, bytes], payload: bytes, value: Any) -> KerberosMessage:
    """A message of that moment."""
    return KerberosMessage("client", "local", "tcp", kind, value, payload, NOW.timestamp(), 1,
                           padata)


@pytest.mark.parametrize(("kind", "answer", "agreed"), [
    ("DH", "DH", "DH"), ("ECDH", "DH", "ECDH"), ("RSA", "RSA", "RSA"),
    ("ECDH", "RSA", "ECDH requested and RSA replied"),
    ("RSA", "DH", "RSA requested and DH replied")])
def test_what_is_agreed_is_told_by_the_algorithm(kind: str, answer: str, agreed: str) -> None:
    """A public value of a MODP group is DH and no ECDH, one of a curve ECDH and no DH."""
    assert pkinit.key_agreement(exchange(kind, answer)[0]) == agreed


@pytest.mark.parametrize("kind", ["DH", "ECDH", "RSA"])
def test_both_signatures_verify(kind: str) -> None:
    """What client and KDC sign is verified; in RSA mode the KDC's is read by the user's key."""
    made, held_to = exchange(kind)
    assert list(pkinit.find_pkinit_faults(made, USER, **held_to)) == []


@pytest.mark.parametrize("kind", ["DH", "RSA"])
def test_a_reply_that_another_signed_is_seen(kind: str) -> None:
    """A KDC's certificate with a signature of another key's, in the open and enveloped."""
    made, held_to = exchange(kind, spoilt=True)
    assert list(pkinit.find_pkinit_faults(made, USER, **held_to)) == [
        "the KDC: the signature does not fit"]


def test_an_envelope_for_another_is_seen() -> None:
    """What the user's key does not open is nothing that this KDC told the user."""
    made, held_to = exchange("RSA")
    (complaint,) = pkinit.find_pkinit_faults(made, USER, **{**held_to, "user_key": keys()[2]})
    assert complaint.startswith("the KDC: what it signed cannot be read")


def test_an_envelope_with_nothing_signed_in_it_is_seen() -> None:
    """What opens and is no SignedData cannot be read, whoever asks what it is."""
    made, held_to = exchange("RSA")
    made.reply.padata[PKINIT_REPLY] = enveloped(tagged(0x30,
                                                       b"\x02\x01\x03"))  # type: ignore[index]
    assert list(pkinit.find_pkinit_faults(made, USER, **held_to)) == [
        "the KDC: what it signed cannot be read (nothing tagged 0x30)"]
    with pytest.raises(ValueError, match="nothing tagged 0x30"):
        list(pkinit.key_lengths(made, **held_to))


def test_a_signature_by_an_unknown_digest_is_seen() -> None:
    """None of PKINIT's: a complaint, and no error."""
    own = held(1, "alice", CLIENT_PURPOSE, anchor())
    content = signing.parse_signed(signed(b"any", own, keys()[1], hashes.SHA224()))
    assert content.find_fault(anchor().certificate, USER, CLIENT_PURPOSE, NOW.timestamp()) == (
        "signed in a way that is not known here")


@pytest.mark.parametrize(("change", "says"), [
    ({"ctime": NOW + timedelta(minutes=20)}, "the client: signed 1200 s from when it passed"),
    ({"valid_from": DAYS}, "the client: its certificate is not valid then")])
def test_what_is_signed_is_of_its_time(change: dict[str, Any], says: str) -> None:
    """A request signed for another moment, and a certificate before its time, are seen."""
    made, held_to = exchange("DH", **change)
    assert list(pkinit.find_pkinit_faults(made, USER, **held_to)) == [says]


@pytest.mark.parametrize(("kind", "group"), [
    ("DH", {("the client", "group", 5)}), ("ECDH", set()), ("RSA", set())])
def test_lengths_are_those_of_keys_and_groups(kind: str, group: set[tuple[str, str, int]]) -> None:
    """The keys in both certificates have 2048 bits, the made-up group's prime (23) has five."""
    made, held_to = exchange(kind)
    assert set(pkinit.key_lengths(made, **held_to)) == group | {
        ("the client", "key", 2048), ("the KDC", "key", 2048)}


def spoken(words: str) -> list[KerberosMessage]:
    """What a wire has, a second apart: requests by kind, way and size, and what comes back.

    52 is a KRB-ERROR: the reply does not fit a datagram.
    """
    messages = []
    for at_s, word in enumerate(words.split(", "), 1):
        kind, way, size = word.split() if " " in word else (word, "udp", "1")
        value, ends = {}, ("client", "local") if kind.endswith("REQ") else ("local", "client")
        if kind == "52":
            kind, value = "KRB-ERROR", {"error-code": 52}
        messages.append(KerberosMessage(*ends, way, kind, value, bytes(int(size)), at_s, 1))
    return messages


@pytest.mark.parametrize(("said", "opened_s", "limit", "complaint"), [
    ("AS-REQ udp 200, AS-REQ udp 1465", [], None, ""),
    ("AS-REQ udp 200, AS-REQ tcp 1466", [1.5], None, ""),
    ("AS-REQ udp 200, AS-REQ udp 1466, AS-REQ tcp 1466", [1.5], None, ""),
    ("AS-REQ udp 200, AS-REQ udp 1466", [2.5], None, "AS-REQ of 1466 bytes by UDP first"),
    ("AS-REQ tcp 200", [0.5], None, "AS-REQ of 200 bytes by TCP first"),
    ("AS-REQ udp 200, 52, AS-REQ tcp 200, AS-REQ tcp 300", [2.5, 3.5], None, ""),
    ("AS-REQ tcp 300, AS-REQ udp 200, 52", [0.5], None, "AS-REQ of 300 bytes by TCP first"),
    ("AS-REQ udp 200, 52, AS-REQ tcp 200, AS-REP, AS-REQ tcp 300", [2.5, 4.5], None,
     "AS-REQ of 300 bytes by TCP first"),
    ("AS-REQ udp 200, 52, AS-REQ tcp 200, AS-REP, TGS-REQ tcp 300", [2.5, 4.5], None,
     "TGS-REQ of 300 bytes by TCP first"),
    ("TGS-REQ udp 300, 52, TGS-REQ tcp 300, TGS-REP, TGS-REQ tcp 310", [2.5, 4.5], None, ""),
    ("TGS-REQ udp 300, 52, TGS-REQ tcp 300, TGS-REP, AP-REQ, TGS-REQ tcp 310", [2.5, 5.5], None,
     "TGS-REQ of 310 bytes by TCP first"),
    ("AS-REQ tcp 200", [0.5], 1, ""),
    ("AS-REQ udp 200, AS-REQ tcp 200", [0.5], 1, ""),
    ("AS-REQ udp 200", [], 1, "AS-REQ of 200 bytes by UDP first")])
def test_the_transport_that_comes_first_is_the_policys(
        said: str, opened_s: list[float], limit: int | None, complaint: str) -> None:
    """A longer request has its connection first, whichever way is answered; a shorter one none.

    But for a login that goes on after a reply that did not fit, until it has its ticket.
    """
    messages = spoken(said)
    case = SimpleNamespace(
        client="client", layer=KerberosLayer(udp_limit_bytes=limit), sent_messages=messages,
        exchanges=pair_exchanges(messages), traffic=SimpleNamespace(opened_s=opened_s))
    assert list(checks._check_transport(case)) == ([complaint] if complaint
                                                   else [])  # type: ignore[arg-type]
