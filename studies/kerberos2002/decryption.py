"""Decrypt captured Kerberos logins with the run's keys, and collect everything that is wrong.

`merge_messages` orders the messages of all captures. `TransactionDecryption` reads them in order,
and learns each key from the message that delivers it. It decrypts every part with the right key,
and tries all other keys. `DecryptedContent` has the parts and the errors, which the checks of the
study kerberos2002 use.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from measure.packets.messages import CapturedMessages
from protocols.kerberos import messages
from protocols.kerberos.certificates import (
    CLIENT_PURPOSE,
    KDC_PURPOSE,
    PRINCIPAL_NAME,
    is_valid_at,
)
from protocols.kerberos.messages import DecryptionError, KrbError
from protocols.kerberos.suites import SUITES, CipherSuite
from studies.kerberos2002.pki import LOCAL, REMOTE, USER

# --- Messages of a repetition's parties in order, merged from all captures ---

#: Number of messages of a repetition that are decoded completely.
MAX_READ = 600


@dataclass(frozen=True)
class TransmittedMessage:
    """A captured Kerberos message, with sender and receiver.

    `value` is its content, or None if it does not follow the ASN.1 schema. In a long run, only the
    first messages are decoded. For all others, `is_read` is false, and only the kind is known.
    """

    source: str
    target: str
    transport: str
    kind: str
    payload: bytes
    value: Any
    at_s: float
    is_read: bool = True

    @property
    def step(self) -> tuple[str, str, str, str]:
        """Return sender, receiver, transport and kind of the message."""
        return self.source, self.target, self.transport, self.kind


def merge_messages(traffic: Mapping[str, CapturedMessages],
                   addresses: Mapping[str, str]) -> list[TransmittedMessage]:
    """Return each message once, in order of time, from the capture nearest to the client."""
    parties = {address: party for party, address in addresses.items()}
    places = list(traffic)
    heard: list[tuple[float, str, str, str, str, bytes]] = []
    for number, place in enumerate(places):
        before = set(places[:number])
        for message in traffic[place].messages:
            source, target = parties.get(message.source, ""), parties.get(message.target, "")
            if {source, target} & before or not {source, target} & {place}:
                continue
            kind = messages.kind_of(message.payload)
            heard.append((message.ended_s, source, target, message.transport, kind,
                          message.payload))
    return [TransmittedMessage(source, target, transport, kind, payload,
                               decode_exactly(kind, payload) if number < MAX_READ else None, at_s,
                               number < MAX_READ)
            for number, (at_s, source, target, transport, kind, payload) in enumerate(
                sorted(heard))]


def decode_exactly(kind: str, payload: bytes) -> Any:
    """Decode a message, or return None if encoding the result again gives other bytes."""
    try:
        value = messages.decode_message(kind, payload) if kind else None
        return value if value is not None and messages.encode_message(kind,
                                                                      value) == payload else None
    except KrbError:
        return None


def refusal_texts(sent_messages: Sequence[TransmittedMessage]) -> list[str]:
    """Return the texts of all Kerberos errors that were sent, without duplicates."""
    return list(dict.fromkeys(
        f"{message.source} refuses with error {message.value['error-code']} "
        f"({message.value.get('e-text', '')})" for message in sent_messages
        if message.kind == "KRB-ERROR" and message.value))


# --- Keys, encrypted parts and complaints ---

_PURPOSES = {"client": CLIENT_PURPOSE, "KDC": KDC_PURPOSE}


@dataclass(frozen=True)
class CertificateRequirement:
    """Requirements of a certificate: purpose, principal and realm, and when it is valid (s)."""

    purpose: str
    name: str
    realm: str
    at_s: float


@dataclass(frozen=True)
class SealedPart:
    """An encrypted part of a message.

    - `where`: description of the part
    - `usage`, `kind`: its key usage number (RFC 4120), and its ASN.1 type
    - `cipher`: its encrypted bytes
    - `expected`: name of the key that must decrypt it
    """

    where: str
    usage: int
    kind: str
    cipher: bytes
    expected: str


@dataclass(frozen=True)
class SealedKey:
    """A symmetric key, encrypted with a public key.

    `where` describes it, `cipher` has its encrypted bytes. `expected` is the identity whose private
    key must decrypt it.
    """

    where: str
    cipher: bytes
    expected: str


class RunKeys:
    """All keys of a run: secret keys of principals, private keys, and the trust anchor."""

    def __init__(self, file: Path) -> None:
        document = json.loads(file.read_text())
        self.suite: CipherSuite = SUITES[document["suite"]]
        self.secrets = {name: bytes.fromhex(text) for name, text in document["secrets"].items()}
        self.anchor = x509.load_pem_x509_certificate(document["anchor"].encode())
        self.private: dict[str, rsa.RSAPrivateKey] = {}
        for label, entry in document["identities"].items():
            # The primes of the study's own keys are trusted unchecked, which saves time.
            key = load_pem_private_key(entry["key"].encode(), None,
                                       unsafe_skip_rsa_key_validation=True)
            assert isinstance(key, rsa.RSAPrivateKey)
            self.private[label] = key

    def open_pack(self, label: str, cipher: bytes) -> bytes | None:
        """Decrypt a symmetric key with an identity's private key, or return None if that fails."""
        try:
            text = self.private[label].decrypt(cipher, padding.PKCS1v15())
            key: bytes = messages.decode_message("TmpKeyPack", text)["tmpKey"]["keyvalue"]
        except (ValueError, KrbError):
            return None
        return key

    def open_part(self, key: bytes, part: SealedPart) -> Any:
        """Decrypt a message part with a key, or return None if that fails."""
        try:
            return messages.decode_message(part.kind,
                                           self.suite.decrypt(key, part.usage, part.cipher),
                                           is_padded=True)
        except (DecryptionError, KrbError, ValueError):
            return None


@dataclass
class DecryptedContent:
    """Decrypted content of a login: message parts, keys, and everything that is wrong.

    - `keys`: keys of the run
    - `known`: symmetric keys found so far, by name
    - `parts`, `packs`: encrypted message parts, and encrypted keys
    - `signatures`: number of valid signatures
    - `complaints`: descriptions of everything that is wrong
    """

    keys: RunKeys
    known: dict[str, bytes]
    parts: list[SealedPart] = field(default_factory=list)
    packs: list[SealedKey] = field(default_factory=list)
    signatures: int = 0
    complaints: list[str] = field(default_factory=list)

    # --- decryption --------------------------------------------------------------------------

    def open_part(self, where: str, usage: int, kind: str, data: Mapping[str, Any],
                  key: str) -> Any:
        """Decrypt a message part with a key that is known by its name, and record the part.

        Args:
            where: description of the part, for complaints.
            usage: key usage number of the part (RFC 4120).
            kind: ASN.1 type of the decrypted part, such as `EncASRepPart`.
            data: the part as EncryptedData, whose `cipher` has the encrypted bytes.
            key: name of the key in `known`.

        Returns:
            The decoded part, or None if the key does not decrypt it.
        """
        part = SealedPart(where, usage, kind, data["cipher"], key)
        self.parts.append(part)
        value = self.keys.open_part(self.known[key], part) if key in self.known else None
        if value is None:
            self.complaints.append(f"{where}: {key} does not open the {kind}")
        return value

    def open_pack(self, where: str, data: Mapping[str, Any], label: str) -> str:
        """Decrypt a symmetric key with a private key, and return the name of the stored key."""
        self.packs.append(SealedKey(where, data["cipher"], label))
        key = self.keys.open_pack(label, data["cipher"])
        if key is None:
            self.complaints.append(f"{where}: the key of {label} does not open the pack")
        return self.remember_key(f"temporary key in {where}", key)

    def remember_key(self, name: str, key: bytes | None) -> str:
        """Store a key under a name."""
        if key is not None:
            self.known[name] = key
        return name

    def verify_signature(self, where: str, chain: Sequence[Mapping[str, Any]],
                         holder: CertificateRequirement,
                         signature: Mapping[str, Any], text: bytes) -> None:
        """Verify a signature and the certificate chain of its signer, up to the trust anchor."""
        try:
            path = [x509.load_der_x509_certificate(entry["certData"]) for entry in chain]
            for below, above in zip(path, [*path[1:], self.keys.anchor], strict=True):
                below.verify_directly_issued_by(above)
                self.signatures += 1
            self.complaints += [f"{where}: {fault}" for fault in _certificate_faults(
                path, self.keys.anchor, holder)]
            key = path[0].public_key()
            assert isinstance(key, rsa.RSAPublicKey)
            key.verify(signature["signedHash"]["cipher"], text, padding.PKCS1v15(),
                       self.keys.suite.signature_hash)
            self.signatures += 1
        except (InvalidSignature, KrbError, ValueError, TypeError, IndexError,
                x509.ExtensionNotFound) as error:
            self.complaints.append(f"{where}: signature or chain does not verify ({error!r:.80})")

    # --- tests with wrong keys ---------------------------------------------------------------

    def find_wrong_openers(self) -> Iterator[str]:
        """Yield parts that a wrong key decrypts, or that their own key does not."""
        for part in self.parts:
            openers = {name for name, key in self.known.items()
                       if self.keys.open_part(key, part) is not None}
            # A key may have several names, but not those of two principals.
            same = {name for name in openers if self.known[name] == self.known.get(part.expected)
                    and (name == part.expected or name not in self.keys.secrets)}
            if part.expected not in openers or openers - same:
                yield f"{part.where}: opened by {', '.join(sorted(openers)) or 'no key'}"
        for pack in self.packs:
            labels = [label for label in self.keys.private
                      if self.keys.open_pack(label, pack.cipher)]
            if not self._are_one(labels, pack.expected):
                yield f"{pack.where}: opened by {', '.join(labels) or 'no key'}"

    def _are_one(self, labels: Sequence[str], expected: str) -> bool:
        """Return whether these identities have the key pair of the expected one."""
        numbers = {label: self.keys.private[label].private_numbers() for label in labels}
        return expected in numbers and all(number == numbers[expected]
                                           for number in numbers.values())

    def keys_in_clear(self, payloads: Sequence[bytes]) -> list[str]:
        """Return the names of the keys whose bytes appear in a message."""
        everything = b"\0".join(payloads)
        return [name for name, key in self.known.items() if key in everything]


def _certificate_faults(path: Sequence[x509.Certificate], anchor: x509.Certificate,
                        holder: CertificateRequirement) -> Iterator[str]:
    """Yield what is wrong with the certificates of a chain, apart from their signatures."""
    if not all(above.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
               for above in [*path[1:], anchor]):
        yield "an issuer is not an authority"
    if not all(is_valid_at(each, holder.at_s) for each in path):
        yield "a certificate is not valid then"
    extensions = path[0].extensions
    usage = extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    if _PURPOSES[holder.purpose] not in usage:
        yield f"the certificate is not a {holder.purpose}'s"
    names = extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    bound = [messages.decode_message("KRB5PrincipalName", name.value)
             for name in names.get_values_for_type(x509.OtherName)
             if name.type_id == PRINCIPAL_NAME]
    if [(messages.name_of(name["principalName"]), name["realm"]) for name in bound] != [
            (holder.name, holder.realm)]:
        yield f"the certificate is not of {holder.name} of {holder.realm}"


def new_result(keys: RunKeys) -> DecryptedContent:
    """Return an empty result that knows only the principals' secret keys."""
    return DecryptedContent(keys, dict(keys.secrets))


def ticket_service(reply: TransmittedMessage) -> str:
    """Return the service for which the ticket in a reply is."""
    return messages.name_of(reply.value["ticket"]["sname"])


# --- Walk through a transaction ---

#: Key usages (RFC 4120, 7.5.1), and those of packs, as the protocol's page defines them.
(_TICKET, _AS_PART, _TGS_AUTHENTICATOR, _TGS_PART, _AP_AUTHENTICATOR, _AP_PART, _REPLY_PACK,
 _RANDOM_PACK, _PROOF) = 2, 3, 7, 8, 11, 12, 1025, 1026, 1027
_LABELS = {"client": USER, "proxy": USER, "kdc-l": f"kdc {LOCAL}", "kdc-r": f"kdc {REMOTE}"}
_MAX_SKEW_S = 300
_REALMS = {"kdc-l": LOCAL, "kdc-r": REMOTE}


def _request_signer(message: TransmittedMessage) -> CertificateRequirement:
    """Return who must sign a request: the principal in it, of the local realm."""
    return CertificateRequirement("KDC" if message.source.startswith("kdc") else "client",
                                  messages.name_of(message.value["req-body"]["cname"]), LOCAL,
                                  message.at_s)


def _reply_signer(message: TransmittedMessage) -> CertificateRequirement:
    """Return who must sign a reply: the KDC of a realm, or with PKTAPP the server itself."""
    if message.source in _REALMS:
        realm = _REALMS[message.source]
        return CertificateRequirement("KDC", messages.krbtgt_name(realm), realm, message.at_s)
    return CertificateRequirement("KDC", ticket_service(message), message.value["ticket"]["realm"],
                                  message.at_s)


@dataclass
class TransactionDecryption:
    """A reader of a login's messages, which decrypts each encrypted part.

    `proxy_keys` has the names of the keys that the client gave to the proxy.
    """

    opened: DecryptedContent
    proxy_keys: list[str] = field(default_factory=list)
    _reply_keys: dict[str, str] = field(default_factory=dict)
    _told_key: str = ""
    _number: int = 0

    def read_all(self, sent_messages: Sequence[TransmittedMessage]) -> None:
        """Read all messages in order. A message without a required part is recorded as an error."""
        steps = {"AS-REQ": self._as_request, "AS-REP": self._as_reply, "TGS-REQ": self._tgs_request,
                 "TGS-REP": self._tgs_reply, "AP-REQ": self._ap_request, "AP-REP": self._ap_reply,
                 "ProxyRequest": self._to_proxy, "ProxyReply": self._from_proxy}
        for self._number, message in enumerate(sent_messages, 1):
            if message.kind == "KRB-ERROR":
                self.opened.complaints.append(
                    f"{message.source} refuses with error {message.value['error-code']}")
                continue
            try:
                steps[message.kind](message)
            except (KeyError, TypeError, IndexError) as error:
                self.opened.complaints.append(
                    f"{message.kind} of {message.source}: lacks {error!r:.60}")

    def _label_of(self, message: TransmittedMessage) -> str:
        """Return a name for a message, with a number because kinds repeat."""
        return f"{message.source}'s {message.kind} ({self._number})"

    # --- initial exchanges -------------------------------------------------------------------

    def _as_request(self, message: TransmittedMessage) -> None:
        """Verify the client's proof in an AS-REQ, and learn the key that the client generated."""
        padata = messages.padata_of(message.value)
        where = self._label_of(message)
        self._reply_keys[message.target] = ""
        if messages.PA_PK_AS_REQ in padata:
            value = messages.decode_message("PA-PK-AS-REQ", padata[messages.PA_PK_AS_REQ])
            signed = value["signedAuthPack"]
            self._check_time(where, message, signed["authPack"]["pkAuthenticator"])
            self.opened.verify_signature(where, value["userCert"], _request_signer(message),
                                         signed["authPackSig"],
                                         messages.encode_message("AuthPack", signed["authPack"]))
        elif messages.PA_PK_AS_SIGN in padata:
            value = messages.decode_message("PA-PK-AS-SIGN", padata[messages.PA_PK_AS_SIGN])
            self._reply_keys[message.target] = self._open_client_key(where, value, message)

    def _check_time(self, where: str, message: TransmittedMessage,
                    authenticator: Mapping[str, Any]) -> None:
        """Check that a signed time is close to the time of the packet."""
        apart_s = abs(messages.to_seconds(authenticator["ctime"]) - message.at_s)
        if apart_s > _MAX_SKEW_S:
            self.opened.complaints.append(f"{where}: signed {apart_s:.0f} s from when it passed")

    def _open_client_key(self, where: str, value: Mapping[str, Any],
                         message: TransmittedMessage) -> str:
        """Decrypt a key that a client generated, encrypted and signed, and return its name."""
        temporary = self.opened.open_pack(where, value["encTmpKeyPack"], _LABELS[message.target])
        signed = self.opened.open_part(where, _RANDOM_PACK, "SignedRandomKeyPack",
                                       value["encSignedRandomKeyPack"], temporary)
        pack = signed["randomkeyPack"]
        self._check_time(where, message, pack["randomKeyAuth"])
        self.opened.verify_signature(where, value["userCert"], _request_signer(message),
                                     signed["randomkeyPackSig"],
                                     messages.encode_message("RandomKeyPack", pack))
        return self.opened.remember_key(f"key of {where}", pack["randomKey"]["keyvalue"])

    def _as_reply(self, message: TransmittedMessage) -> None:
        """Decrypt an AS-REP with the reply key, which PKINIT delivers, and open its ticket."""
        padata = messages.padata_of(message.value)
        where = self._label_of(message)
        if messages.PA_PK_AS_REP in padata:
            value = messages.decode_message("PA-PK-AS-REP", padata[messages.PA_PK_AS_REP])
            temporary = self.opened.open_pack(where, value["encTmpKeyPack"],
                                              _LABELS[message.target])
            signed = self.opened.open_part(where, _REPLY_PACK, "SignedReplyKeyPack",
                                           value["encSignedReplyKeyPack"], temporary)
            pack = signed["replyKeyPack"]
            self.opened.verify_signature(where, value["kdcCert"], _reply_signer(message),
                                         signed["replyKeyPackSig"],
                                         messages.encode_message("ReplyKeyPack", pack))
            key = self.opened.remember_key(f"key of {where}", pack["replyKey"]["keyvalue"])
        else:
            key = self._reply_keys.get(message.source) or messages.name_of(message.value["cname"])
        part = self.opened.open_part(where, _AS_PART, "EncASRepPart", message.value["enc-part"],
                                     key)
        self._open_ticket(where, message, part["key"]["keyvalue"])

    def _open_ticket(self, where: str, message: TransmittedMessage, session: bytes) -> None:
        """Decrypt a ticket with its service's key, and compare its session key with the reply's."""
        service = ticket_service(message)
        self.opened.remember_key(f"session with {service}", session)
        cross = [entry["data-value"] for entry in message.value["ticket"].get("extensions", [])
                 if entry["data-type"] == messages.TE_PKCROSS_CLIENT]
        key = f"session with pkcross/{service.partition('/')[2]}" if cross else (
            "pkcross" if service.startswith("pkcross/") else service)
        part = self.opened.open_part(f"the ticket in {where}", _TICKET, "EncTicketPart",
                                     message.value["ticket"]["enc-part"], key)
        if part["key"]["keyvalue"] != session:
            self.opened.complaints.append(f"{where}: ticket and reply have different keys")
        if cross:
            inner = messages.decode_message("Ticket", cross[0])
            self.opened.open_part(f"the XTKT in {where}", _TICKET, "EncTicketPart",
                                  inner["enc-part"],
                                  "pkcross")

    # --- tickets in use ----------------------------------------------------------------------

    def _tgs_request(self, message: TransmittedMessage) -> None:
        padata = messages.padata_of(message.value)
        request = messages.decode_message("AP-REQ", padata[messages.PA_TGS_REQ])
        service = messages.name_of(request["ticket"]["sname"])
        self.opened.open_part(f"the TGS-REQ to {message.target}", _TGS_AUTHENTICATOR,
                              "Authenticator",
                              request["authenticator"], f"session with {service}")
        self._reply_keys[message.target] = f"session with {service}"

    def _tgs_reply(self, message: TransmittedMessage) -> None:
        where = self._label_of(message)
        part = self.opened.open_part(where, _TGS_PART, "EncTGSRepPart", message.value["enc-part"],
                                     self._reply_keys[message.source])
        self._open_ticket(where, message, part["key"]["keyvalue"])

    def _ap_request(self, message: TransmittedMessage) -> None:
        service = messages.name_of(message.value["ticket"]["sname"])
        self.opened.open_part(f"the AP-REQ to {service}", _AP_AUTHENTICATOR, "Authenticator",
                              message.value["authenticator"], f"session with {service}")
        self._reply_keys[message.target] = f"session with {service}"

    def _ap_reply(self, message: TransmittedMessage) -> None:
        self.opened.open_part(f"{message.source}'s AP-REP", _AP_PART, "EncAPRepPart",
                              message.value["enc-part"], self._reply_keys[message.source])

    # --- proxy -------------------------------------------------------------------------------

    def _to_proxy(self, message: TransmittedMessage) -> None:
        if "told" not in message.value:
            return
        # The chain is in the request inside, or the proxy had it before. In the latter case the
        # KDC's side shows it.
        self._told_key = self._open_proxy_key(message.value["told"], message)
        self.proxy_keys.append(self._told_key)

    def _open_proxy_key(self, value: Mapping[str, Any], message: TransmittedMessage) -> str:
        where = "the client's ProxyRequest"
        temporary = self.opened.open_pack(where, value["encTmpKeyPack"], "proxy")
        signed = self.opened.open_part(where, _RANDOM_PACK, "SignedRandomKeyPack",
                                       value["encSignedRandomKeyPack"], temporary)
        return self.opened.remember_key(f"key of {where}",
                                        signed["randomkeyPack"]["randomKey"]["keyvalue"])

    def _from_proxy(self, message: TransmittedMessage) -> None:
        if "proof" in message.value:
            self.opened.open_part("the proxy's proof", _PROOF, "EncAPRepPart",
                                  message.value["proof"],
                                  self._told_key)
