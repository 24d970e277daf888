"""Walk through a transaction's messages, with each key learnt where it is delivered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from protocols.kerberos import messages
from studies.kerberos2002.opened import Holder, Opened, ticket_service
from studies.kerberos2002.pki import LOCAL, REMOTE, USER
from studies.kerberos2002.said import Spoken

#: Key usages (RFC 4120, 7.5.1), and those of packs, as the protocol's page defines them.
(_TICKET, _AS_PART, _TGS_AUTHENTICATOR, _TGS_PART, _AP_AUTHENTICATOR, _AP_PART, _REPLY_PACK,
 _RANDOM_PACK, _PROOF) = 2, 3, 7, 8, 11, 12, 1025, 1026, 1027
_LABELS = {"client": USER, "proxy": USER, "kdc-l": f"kdc {LOCAL}", "kdc-r": f"kdc {REMOTE}"}
_MAX_SKEW_S = 300
_REALMS = {"kdc-l": LOCAL, "kdc-r": REMOTE}


def _request_signer(message: Spoken) -> Holder:
    """Return the required signer of a request: the principal in it, of the local realm."""
    return Holder("KDC" if message.source.startswith("kdc") else "client",
                  messages.name_of(message.value["req-body"]["cname"]), LOCAL, message.at_s)


def _reply_signer(message: Spoken) -> Holder:
    """Return the required signer of a reply: a realm's KDC, or a server itself (PKTAPP)."""
    if message.source in _REALMS:
        realm = _REALMS[message.source]
        return Holder("KDC", messages.krbtgt_name(realm), realm, message.at_s)
    return Holder("KDC", ticket_service(message), message.value["ticket"]["realm"], message.at_s)


@dataclass
class Walk:
    """A walk through messages. `told` has the names of the keys that the proxy was given."""

    opened: Opened
    told: list[str] = field(default_factory=list)
    _reply_keys: dict[str, str] = field(default_factory=dict)
    _told_key: str = ""
    _number: int = 0

    def read_all(self, sent_messages: Sequence[Spoken]) -> None:
        """Walk through all messages. A message that lacks a required part is a complaint."""
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

    def _label_of(self, message: Spoken) -> str:
        """Return the label of a message, with a number because kinds repeat."""
        return f"{message.source}'s {message.kind} ({self._number})"

    # --- initial exchanges -------------------------------------------------------------------

    def _as_request(self, message: Spoken) -> None:
        padata = messages.padata_of(message.value)
        where = self._label_of(message)
        self._reply_keys[message.target] = ""
        if messages.PA_PK_AS_REQ in padata:
            value = messages.decode("PA-PK-AS-REQ", padata[messages.PA_PK_AS_REQ])
            signed = value["signedAuthPack"]
            self._check_time(where, message, signed["authPack"]["pkAuthenticator"])
            self.opened.verify_signature(where, value["userCert"], _request_signer(message),
                                         signed["authPackSig"],
                                         messages.encode("AuthPack", signed["authPack"]))
        elif messages.PA_PK_AS_SIGN in padata:
            value = messages.decode("PA-PK-AS-SIGN", padata[messages.PA_PK_AS_SIGN])
            self._reply_keys[message.target] = self._open_client_key(where, value, message)

    def _check_time(self, where: str, message: Spoken, authenticator: Mapping[str, Any]) -> None:
        """Check that a signed time is close to the time of the packet."""
        apart_s = abs(messages.to_seconds(authenticator["ctime"]) - message.at_s)
        if apart_s > _MAX_SKEW_S:
            self.opened.complaints.append(f"{where}: signed {apart_s:.0f} s from when it passed")

    def _open_client_key(self, where: str, value: Mapping[str, Any], message: Spoken) -> str:
        """Return the name of a key that a client has made, sealed and signed."""
        temporary = self.opened.open_pack(where, value["encTmpKeyPack"], _LABELS[message.target])
        signed = self.opened.open_part(where, _RANDOM_PACK, "SignedRandomKeyPack",
                                       value["encSignedRandomKeyPack"], temporary)
        pack = signed["randomkeyPack"]
        self._check_time(where, message, pack["randomKeyAuth"])
        self.opened.verify_signature(where, value["userCert"], _request_signer(message),
                                     signed["randomkeyPackSig"],
                                     messages.encode("RandomKeyPack", pack))
        return self.opened.remember_key(f"key of {where}", pack["randomKey"]["keyvalue"])

    def _as_reply(self, message: Spoken) -> None:
        padata = messages.padata_of(message.value)
        where = self._label_of(message)
        if messages.PA_PK_AS_REP in padata:
            value = messages.decode("PA-PK-AS-REP", padata[messages.PA_PK_AS_REP])
            temporary = self.opened.open_pack(where, value["encTmpKeyPack"],
                                              _LABELS[message.target])
            signed = self.opened.open_part(where, _REPLY_PACK, "SignedReplyKeyPack",
                                           value["encSignedReplyKeyPack"], temporary)
            pack = signed["replyKeyPack"]
            self.opened.verify_signature(where, value["kdcCert"], _reply_signer(message),
                                         signed["replyKeyPackSig"],
                                         messages.encode("ReplyKeyPack", pack))
            key = self.opened.remember_key(f"key of {where}", pack["replyKey"]["keyvalue"])
        else:
            key = self._reply_keys.get(message.source) or messages.name_of(message.value["cname"])
        part = self.opened.open_part(where, _AS_PART, "EncASRepPart", message.value["enc-part"],
                                     key)
        self._open_ticket(where, message, part["key"]["keyvalue"])

    def _open_ticket(self, where: str, message: Spoken, session: bytes) -> None:
        """Open a ticket by its service's key, and compare its session key with the reply's."""
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
            inner = messages.decode("Ticket", cross[0])
            self.opened.open_part(f"the XTKT in {where}", _TICKET, "EncTicketPart",
                                  inner["enc-part"],
                                  "pkcross")

    # --- tickets in use ----------------------------------------------------------------------

    def _tgs_request(self, message: Spoken) -> None:
        padata = messages.padata_of(message.value)
        request = messages.decode("AP-REQ", padata[messages.PA_TGS_REQ])
        service = messages.name_of(request["ticket"]["sname"])
        self.opened.open_part(f"the TGS-REQ to {message.target}", _TGS_AUTHENTICATOR,
                              "Authenticator",
                              request["authenticator"], f"session with {service}")
        self._reply_keys[message.target] = f"session with {service}"

    def _tgs_reply(self, message: Spoken) -> None:
        where = self._label_of(message)
        part = self.opened.open_part(where, _TGS_PART, "EncTGSRepPart", message.value["enc-part"],
                                     self._reply_keys[message.source])
        self._open_ticket(where, message, part["key"]["keyvalue"])

    def _ap_request(self, message: Spoken) -> None:
        service = messages.name_of(message.value["ticket"]["sname"])
        self.opened.open_part(f"the AP-REQ to {service}", _AP_AUTHENTICATOR, "Authenticator",
                              message.value["authenticator"], f"session with {service}")
        self._reply_keys[message.target] = f"session with {service}"

    def _ap_reply(self, message: Spoken) -> None:
        self.opened.open_part(f"{message.source}'s AP-REP", _AP_PART, "EncAPRepPart",
                              message.value["enc-part"], self._reply_keys[message.source])

    # --- proxy -------------------------------------------------------------------------------

    def _to_proxy(self, message: Spoken) -> None:
        if "told" not in message.value:
            return
        # The chain is in the request inside, or the proxy had it before. In the latter case the
        # KDC's side shows it.
        self._told_key = self._open_proxy_key(message.value["told"], message)
        self.told.append(self._told_key)

    def _open_proxy_key(self, value: Mapping[str, Any], message: Spoken) -> str:
        where = "the client's ProxyRequest"
        temporary = self.opened.open_pack(where, value["encTmpKeyPack"], "proxy")
        signed = self.opened.open_part(where, _RANDOM_PACK, "SignedRandomKeyPack",
                                       value["encSignedRandomKeyPack"], temporary)
        return self.opened.remember_key(f"key of {where}",
                                        signed["randomkeyPack"]["randomKey"]["keyvalue"])

    def _from_proxy(self, message: Spoken) -> None:
        if "proof" in message.value:
            self.opened.open_part("the proxy's proof", _PROOF, "EncAPRepPart",
                                  message.value["proof"],
                                  self._told_key)
