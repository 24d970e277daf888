"""Define the layers of a policy, and check that they can be used together.

`Layers` is a pydantic model of the key `layers` in a policy file: Wi-Fi link, 802.1X, IPsec,
WireGuard, QUIC, Multipath TCP, wires and upper layers. A layer that is absent is switched off.
`Layers` refuses combinations that cannot work, such as IPsec together with WireGuard. `IpsecLayer`,
`WireGuardLayer`, `QuicLayer`, `MptcpLayer` and `WireLayer` (MACsec) are defined here, the other
layers in modules of their own.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    ValidationInfo,
    field_validator,
    model_serializer,
    model_validator,
)

from policies.dot1x import Dot1xLayer
from policies.eap_methods import KEY_DERIVING, USIM_METHODS
from policies.errors import make_fault
from policies.fields import SparseLayer, Whole
from policies.link import LinkLayer
from policies.options import OptionSetting, check_phase1, check_setting, is_secret
from policies.proposals import (
    ADDITIONAL,
    GROUPS,
    check_esp,
    check_ike,
    is_post_quantum,
    pattern_esp,
    pattern_ike,
)
from policies.upper_layers import UpperLayers

_CONFIG = ConfigDict(frozen=True, extra="forbid", strict=True)
#: Layers that are written even if they are absent: the first ones that existed.
_ALWAYS_SAID = frozenset({"link", "dot1x", "ipsec"})
#: Mechanisms by which packets reach a node in another subnet: registrations, or its own tunnel.
MOBILE_IP, MOBIKE, WIREGUARD, QUIC, MPTCP = "mobile-ip", "mobike", "wireguard", "quic", "mptcp"
#: What a QUIC client does when its address changes.
OnMove = Literal["migrate", "reconnect"]
#: How IKE peers authenticate, and the EAP methods among these ways.
_IKE_EAP = ("eap-tls", "eap-mschapv2")
IkeAuthentication = Literal["pubkey", "certificate", "psk", "eap-tls", "eap-mschapv2"]
#: MACsec cipher suites that the daemons of both ends support. Those of Debian 12 and 13 have the
#: first one alone.
Macsec = Literal["GCM-AES-128", "GCM-AES-256"]
#: Kinds of RSA keys of certificates in the 192-bit suite, which has p-384 as well.
_SUITE_RSA_KEYS = ("rsa-3072", "rsa-4096")


def _group_of(proposal: str) -> str:
    """Return the group in an ESP proposal, "" for none."""
    last = proposal.rsplit("-", maxsplit=1)[-1]
    return last if last in GROUPS else ""


class IpsecLayer(SparseLayer):
    """The IPsec tunnel between mobile node and home agent."""

    ike: Annotated[Literal[1, 2], Whole] = Field(description="Version of the key exchange.")
    ike_proposal: str = Field(
        description="strongSwan's keywords: encryption-integrity-group, and what follows it, as "
        "ke1_mlkem768.",
        json_schema_extra={"pattern": pattern_ike()},
    )
    ike_offered: list[str] | None = Field(
        default=None, description="All IKE proposals that the mobile node offers, best first. "
        "ike_proposal is the one that both ends agree on. Left out: that one alone.")
    ike_accepted: list[str] | None = Field(
        default=None, description="All IKE proposals that the gateway accepts. It takes the first "
        "of them that is offered. Left out: ike_proposal alone.")
    esp_proposal: Annotated[str, AfterValidator(check_esp)] = Field(
        description="strongSwan's keywords: encryption-integrity, and a group for forward secrecy.",
        json_schema_extra={"pattern": pattern_esp()},
    )
    esp_offered: list[str] | None = Field(
        default=None, description="All ESP proposals that the mobile node offers, best first. "
        "esp_proposal is the one that both ends agree on. Left out: that one alone.")
    esp_accepted: list[str] | None = Field(
        default=None, description="All ESP proposals that the gateway accepts. It takes the first "
        "of them that is offered. Left out: esp_proposal alone.")
    authentication: IkeAuthentication = Field(
        default="pubkey", description="How the ends prove who they are: by raw RSA keys, X.509 "
        "certificates, a pre-shared key, or EAP-TLS or EAP-MSCHAPv2 against a gateway with a "
        "certificate."
    )
    mode: Literal["tunnel", "transport"] = Field(default="tunnel", description="ESP mode.")
    mobike: Annotated[Literal[0, 1], Whole] | None = Field(
        default=None, description="Whether the tunnel follows its node to other addresses (RFC "
        "4555), in place of Mobile IP. Left out: 0.")
    dpd: Annotated[int, Field(ge=5, le=600)] | None = Field(
        default=None, description="Seconds without a packet of the gateway after which the mobile "
        "node asks whether it is alive, 5 to 600. With MOBIKE this also finds out that a router "
        "changed the node's port. Left out: it never asks.")
    keepalive: Annotated[int, Field(ge=5, le=600)] | None = Field(
        default=None, description="Seconds after which an idle mobile node behind a router with "
        "NAT sends a NAT keepalive (RFC 3948), 5 to 600. Left out: it sends none.")

    @field_validator("ike_proposal")
    @classmethod
    def _ike_proposal_fits(cls, proposal: str, info: ValidationInfo) -> str:
        check_ike(proposal, info.data.get("ike", 2))  # absent when ike itself was wrong
        return proposal

    @field_validator("ike_offered", "ike_accepted")
    @classmethod
    def _ike_lists_fit(cls, proposals: list[str] | None, info: ValidationInfo) -> list[str] | None:
        for proposal in proposals or ():
            check_ike(proposal, info.data.get("ike", 2))
        return proposals

    @field_validator("esp_offered", "esp_accepted")
    @classmethod
    def _esp_lists_fit(cls, proposals: list[str] | None) -> list[str] | None:
        for proposal in proposals or ():
            check_esp(proposal)
        return proposals

    @model_validator(mode="after")
    def _ends_agree(self) -> Self:
        """Refuse lists of proposals from which the ends would not agree on the policy's."""
        for kind in ("ike", "esp"):
            self._check_lists(kind)
        for field in ("ike_offered", "ike_accepted"):
            if not self.is_post_quantum and any(map(is_post_quantum, getattr(self, field) or ())):
                raise make_fault(f"{field} has ML-KEM, and ike_proposal has not",
                                 "leave it out of the list", (field,), ("ike_proposal",))
        # Quick mode has one exchange of keys, in front of the choice (RFC 2409, 5.5).
        groups = {_group_of(name) for name in (self.esp_proposal, *(self.esp_offered or ()))}
        if self.ike == 1 and len(groups) > 1:
            raise make_fault("IKEv1 has one group for all proposals of ESP, and esp_offered has "
                             "several", "write the group of esp_proposal in all of them",
                             ("esp_offered",), ("esp_proposal",))
        return self

    def _check_lists(self, kind: str) -> None:
        """Refuse lists of IKE or ESP proposals that lead to another one than the policy's."""
        chosen: str = getattr(self, f"{kind}_proposal")
        for field in (f"{kind}_offered", f"{kind}_accepted"):
            names: list[str] | None = getattr(self, field)
            if names is None:
                continue
            if chosen not in names:
                raise make_fault(f"{field} lacks {chosen}, which is {kind}_proposal",
                                 "add it", (field,), (f"{kind}_proposal",))
            if len(set(names)) < len(names):
                raise make_fault(f"{field} names one proposal twice", "leave one out", (field,))
        offered = getattr(self, f"{kind}_offered") or [chosen]
        agreed = next(name for name in getattr(self, f"{kind}_accepted") or [chosen]
                      if name in offered)
        if agreed != chosen:
            raise make_fault(f"a gateway that accepts {agreed} first takes it, and {kind}_proposal "
                             f"is {chosen}", f"write {kind}_proposal: {agreed}, or put {chosen} "
                             "before it", (f"{kind}_accepted",), (f"{kind}_proposal",))

    @property
    def is_post_quantum(self) -> bool:
        """Return whether IKE uses ML-KEM, whose keys withstand quantum computers.

        It needs another strongSwan than Debian's.
        """
        return is_post_quantum(self.ike_proposal)

    @property
    def is_hybrid(self) -> bool:
        """Return whether IKE uses ML-KEM in addition to another group (RFC 9370)."""
        return self.ike_proposal.split("-")[-1] in ADDITIONAL

    @model_validator(mode="after")
    def _mobike_fits(self) -> Self:
        if self.mobike and self.ike == 1:
            raise make_fault("mobike belongs to IKEv2, and ike is 1",
                             "write ike: 2, or leave out mobike", ("mobike",), ("ike",))
        if self.authentication != "pubkey" and self.ike == 1:
            raise make_fault(f"authentication: {self.authentication} is for IKEv2 here, and ike "
                             "is 1", "write ike: 2, or leave out authentication",
                             ("authentication",), ("ike",))
        # guest/strongswan.sh compiles it without the plug-ins x509, eap-tls and eap-mschapv2.
        if self.authentication in ("certificate", *_IKE_EAP) and self.is_post_quantum:
            raise make_fault("the strongSwan with ML-KEM has no certificates here",
                             "write authentication: pubkey or psk, or leave mlkem768 out of "
                             "ike_proposal", ("authentication",), ("ike_proposal",))
        for field in ("dpd", "keepalive"):
            if getattr(self, field) and (self.ike == 1 or self.mode == "transport"):
                other = "ike is 1" if self.ike == 1 else "mode is transport"
                raise make_fault(f"{field} is measured with MOBIKE behind a router with NAT, and "
                                 f"{other}", f"leave out {field}", (field,), ("mobike",))
            if getattr(self, field) and not self.mobike:
                raise make_fault(f"{field} is measured behind a router with NAT, and mobike is "
                                 "needed to get there", f"leave out {field}, or write mobike: 1 "
                                 "for a scenario with nat", (field,), ("mobike",))
        if self.dpd and self.keepalive and self.dpd <= self.keepalive:
            raise make_fault(f"dpd: {self.dpd} sends before keepalive: {self.keepalive} is over",
                             "write a shorter keepalive, or leave it out", ("keepalive",),
                             ("dpd",))
        if self.mobike and self.mode == "transport":
            raise make_fault("mobike moves tunnels, and mode is transport",
                             "write mode: tunnel, or leave out mobike", ("mobike",), ("mode",))
        return self


class WireGuardLayer(SparseLayer):
    """The WireGuard tunnel between mobile node and home agent.

    WireGuard has one suite: X25519, ChaCha20-Poly1305 and BLAKE2s.
    """

    authentication: Literal["pubkey"] = Field(
        default="pubkey", description="Raw keys, each end's known to the other.")
    roams: Annotated[Literal[0, 1], Whole] | None = Field(
        default=None, description="Whether the tunnel follows its node to other addresses, in "
        "place of Mobile IP. Left out: 0.")
    mtu: Annotated[int, Field(ge=576, le=1440)] | None = Field(
        default=None, description="Bytes of the longest packet inside the tunnel, 576 to 1440. "
        "Outside it is 60 bytes longer. Left out: 1440.")
    keepalive: Annotated[int, Field(ge=1, le=65535)] | None = Field(
        default=None, description="Seconds after which an idle mobile node sends an empty packet, "
        "1 to 65535. Left out: it sends none.")
    preshared_key: Annotated[Literal[0, 1], Whole] | None = Field(
        default=None, description="Whether both ends also have a symmetric key. Left out: 0.")


class QuicLayer(SparseLayer):
    """The QUIC tunnel between mobile node and home agent, with packets in DATAGRAM frames.

    Its suite is TLS 1.3's: X25519 or P-256, and AES-GCM or ChaCha20-Poly1305. The tunnel follows
    its node to other addresses, in place of Mobile IP.
    """

    authentication: Literal["token"] = Field(
        default="token", description="The agent's certificate, and the mobile node's token inside "
        "the connection.")
    on_move: OnMove | None = Field(
        default=None, description="What the mobile node does at another address: it migrates the "
        "connection (RFC 9000, 9), or opens another one. Left out: migrate.")

    @property
    def migrates(self) -> bool:
        """Return whether the connection moves to the node's new address."""
        return self.on_move != "reconnect"


class MptcpLayer(SparseLayer):
    """The tunnel between mobile node and home agent in a connection of the kernel's Multipath TCP.

    It follows its node to other addresses, in place of Mobile IP, and encrypts nothing. It has no
    settings.
    """


class WireLayer(SparseLayer):
    """The protection of wires between access points and agents: MACsec (802.1AE)."""

    macsec: Macsec = Field(
        description="Cipher suite; keys are agreed by MKA (802.1X) under a key of the network's. "
        "GCM-AES-256 needs Debian testing.")
    encrypts: Annotated[Literal[0, 1], Whole] | None = Field(
        default=None, description="Whether frames are encrypted as well as authenticated. Left "
        "out: 1.")
    replay_window: Annotated[int, Field(ge=1, le=65535)] | None = Field(
        default=None, description="By how many numbers a frame may be late and still be taken, 1 "
        "to 65535. Left out: 0, so that frames have to come in order.")

    @property
    def is_encrypted(self) -> bool:
        """Return whether MACsec encrypts frames as well as authenticating them."""
        return self.encrypts != 0


class Layers(UpperLayers):
    """All layers of a policy. A layer that is absent or null is switched off."""

    model_config = _CONFIG

    link: LinkLayer | None = Field(default=None, description="Frames on the air; absent: open.")
    dot1x: Dot1xLayer | None = Field(
        default=None, description="Who may pass the port; absent: everybody."
    )
    ipsec: IpsecLayer | None = Field(
        default=None, description="Tunnel from mobile node to home agent; absent: none."
    )

    wireguard: WireGuardLayer | None = Field(
        default=None, description="Tunnel from mobile node to home agent by WireGuard; absent: "
        "none.")
    quic: QuicLayer | None = Field(
        default=None, description="Tunnel from mobile node to home agent by QUIC; absent: none.")
    mptcp: MptcpLayer | None = Field(
        default=None, description="Tunnel from mobile node to home agent by Multipath TCP, in "
        "clear; absent: none.")
    wire: WireLayer | None = Field(
        default=None, description="Frames on wires between access points and agents; absent: open.")

    @property
    def mobility(self) -> str:
        """Return how packets reach a mobile node in another subnet: Mobile IP or its tunnel."""
        if self.ipsec is not None and self.ipsec.mobike:
            return MOBIKE
        if self.quic is not None:
            return QUIC
        if self.mptcp is not None:
            return MPTCP
        return WIREGUARD if self.wireguard is not None and self.wireguard.roams else MOBILE_IP

    @model_serializer(mode="wrap")
    def _without_absent_ones(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        # Policies without layers that were added later keep their text, rendering and digest.
        stored: dict[str, Any] = handler(self)
        return {name: value for name, value in stored.items()
                if name in _ALWAYS_SAID or value is not None}

    @model_validator(mode="after")
    def _has_one_tunnel(self) -> Self:
        tunnels = [name for name in ("ipsec", "wireguard", "quic", "mptcp") if getattr(self, name)]
        if len(tunnels) > 1:
            raise make_fault(f"{tunnels[0]} and {tunnels[1]} are tunnels between the same ends",
                             "leave out one of them, or write null for what a base file has",
                             (tunnels[1],), (tunnels[0],))
        return self

    @model_validator(mode="after")
    def _link_fits_dot1x(self) -> Self:
        blame = (("link", "keys"), ("dot1x",))
        keys = self.link.keys if self.link else None
        if keys == "eap" and self.dot1x is None:
            raise make_fault(
                "link.keys: eap has no EAP to take keys from",
                "add layers.dot1x with eap: TLS, or choose other keys",
                *blame,
            )
        if keys == "eap" and self.dot1x and self.dot1x.eap not in KEY_DERIVING:
            raise make_fault(
                f"EAP-{self.dot1x.eap} derives no keys, and link.keys is eap",
                "write dot1x.eap: TLS, or link.keys: static with a WEP cipher",
                *blame,
            )
        if self.link and self.link.has_own_handshake and self.dot1x is not None:
            raise make_fault(
                f"link.keys: {keys} and 802.1X exclude each other",
                "leave out layers.dot1x, or write link.keys: eap",
                *blame,
            )
        return self

    @model_validator(mode="after")
    def _vlan_fits(self) -> Self:
        if self.link is None or not self.link.vlan:
            return self
        if self.wire is not None:
            raise make_fault("vlan puts tags on wires, and wire has MACsec there",
                             "leave out one of them", ("link", "vlan"), ("wire",))
        if self.dot1x and self.dot1x.uses_radsec:
            raise make_fault("vlan is proven by RADIUS by UDP, and transport is radsec",
                             "leave out one of them", ("link", "vlan"), ("dot1x", "transport"))
        if self.aaa is not None and self.aaa.server == "hostapd":
            raise make_fault("hostapd as the server gives no VLAN here",
                             "leave out vlan, or write server: freeradius", ("link", "vlan"),
                             ("aaa", "server"))
        return self

    @property
    def is_suite_b(self) -> bool:
        """Return whether the link has the 192-bit suite of WPA3-Enterprise."""
        return self.link is not None and self.link.is_suite_b

    @model_validator(mode="after")
    def _certificates_fit_suite(self) -> Self:
        if not (self.is_suite_b and self.dot1x
                and self.dot1x.has_certificate_of_server):
            return self
        tls = self.dot1x.tls
        if tls is None or tls.key not in ("p-384", *_SUITE_RSA_KEYS) or tls.version == "1.3":
            raise make_fault("the 192-bit suite has TLS 1.2 and certificates with keys of P-384, "
                             "or of RSA with 3072 bits or more", "write tls: {key: p-384}, without "
                             "version", ("dot1x", "tls" if tls else "eap"), ("link", "akm"))
        # With RSA at the server, wpa_supplicant offers signatures of RSA alone (tls_suiteb=1).
        if tls.station_key and tls.station_key not in _SUITE_RSA_KEYS:
            raise make_fault(f"the 192-bit suite has no certificates with {tls.station_key} beside "
                             f"{tls.key}", "leave out station_key",
                             ("dot1x", "tls", "station_key"), ("link", "akm"))
        return self

    @model_validator(mode="after")
    def _server_fits_eap(self) -> Self:
        eap, server = self.dot1x and self.dot1x.eap, self.aaa and self.aaa.server
        if eap in USIM_METHODS and server != "hostapd":
            raise make_fault(f"EAP-{eap} is not among FreeRADIUS' methods",
                             "add layers.aaa with server: hostapd, or write dot1x.eap: TLS",
                             ("dot1x", "eap"))
        if self.aaa is not None and eap not in ("TLS", *USIM_METHODS):
            raise make_fault("aaa says who decides on EAP-TLS or EAP-AKA, and dot1x.eap is neither",
                             "leave out layers.aaa, or write dot1x.eap: TLS", ("aaa",), ("dot1x",))
        if self.aaa is not None and self.dot1x and self.dot1x.uses_radsec:
            raise make_fault(
                "aaa is about servers that are asked by UDP, and dot1x.transport is radsec",
                             "leave out layers.aaa, or transport", ("dot1x", "transport"), ("aaa",))
        if server == "hostapd" and self.dot1x and self.dot1x.message_authenticator:
            raise make_fault("hostapd as the server takes requests with EAP alone, which need a "
                             "Message-Authenticator in any case", "leave out message_authenticator",
                             ("dot1x", "message_authenticator"), ("aaa", "server"))
        if server == "hostapd" and self.dot1x and self.dot1x.accounting:
            raise make_fault("hostapd as the server takes no accounting",
                             "leave out accounting, or write server: freeradius",
                             ("dot1x", "accounting"), ("aaa", "server"))
        tls = self.dot1x.tls if self.dot1x else None
        if self.aaa is not None and tls is not None and tls.revocation:
            raise make_fault("revocation is checked by the home network's FreeRADIUS, and aaa has "
                             "others decide", "leave out revocation, or layers.aaa",
                             ("dot1x", "tls", "revocation"), ("aaa",))
        if server == "hostapd" and tls is not None and (
                tls.version == "1.3" or tls.sessions == "resumed"):
            raise make_fault("hostapd as the server does full authentications of TLS 1.2 here",
                             "leave out version and sessions, or write server: freeradius",
                             ("dot1x", "tls"))
        if server == "hostapd" and tls is not None and tls.group:
            raise make_fault("hostapd as the server takes the group that the station prefers",
                             "leave out group, or write server: freeradius",
                             ("dot1x", "tls", "group"), ("aaa", "server"))
        if self.aaa is not None and server == "hostapd" and self.aaa.identity == "temporary":
            raise make_fault("temporary identities are mapped by FreeRADIUS alone",
                             "leave out identity, or write server: freeradius", ("aaa", "identity"))
        return self

    @model_validator(mode="after")
    def _server_name_fits_server(self) -> Self:
        tls = self.dot1x.tls if self.dot1x else None
        if self.aaa is not None and tls is not None and tls.checked_name:
            raise make_fault(f"{tls.name_field} is the name of the home network's FreeRADIUS, and "
                             "aaa has others decide", f"leave out {tls.name_field}, or layers.aaa",
                             ("dot1x", "tls", tls.name_field), ("aaa",))
        return self

    def option_settings(self) -> list[OptionSetting]:
        """Return the daemon options that the policy sets, each with its layer."""
        return [setting for name in ("link", "dot1x") if (layer := getattr(self, name)) is not None
                for setting in layer.options.option_settings(name)]

    @model_validator(mode="after")
    def _check_options_unique(self) -> Self:
        known = set[tuple[str, str]]()
        for setting in self.option_settings():
            if (setting.daemon, setting.name) in known:
                raise make_fault(f"{setting.label} stands in both link and dot1x",
                                 "leave it in one of them", setting.path,
                                 ("link", *setting.path[1:]))
            known.add((setting.daemon, setting.name))
        return self

    @model_validator(mode="after")
    def _options_take_effect(self) -> Self:
        for setting in self.option_settings():
            if is_secret(setting.daemon, setting.name, setting.value):
                raise make_fault(f"{setting.label} holds a secret",
                                 "leave it out: secrets are made anew for each run", setting.path)
            check_setting(setting, self._policy_word)
            if (setting.daemon, setting.name) == ("wpa_supplicant", "phase1") and self.dot1x:
                tls = self.dot1x.tls
                check_phase1(setting, self.dot1x.eap, tls.version if tls else "1.2")
                if (self.is_suite_b and tls and tls.key != "p-384"
                        and "tls_suiteb=1" not in str(setting.value).split()):
                    raise make_fault("phase1 stands in place of what has the station refuse RSA "
                                     "keys below 3072 bits, as the 192-bit suite does",
                                     "add tls_suiteb=1 to it", setting.path)
        return self

    def _policy_word(self, field: str) -> str | None:
        """Return the value of a layer's field (such as `link.keys`) as a word, or None."""
        layer, _, name = field.partition(".")
        value = getattr(getattr(self, layer), name, None)
        return None if value is None else str(value)
