"""The link layer of a policy: protection of frames on the air, and checks of combinations."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import (
    Field,
    field_validator,
    model_validator,
)

from policies.errors import make_fault
from policies.fields import SparseLayer, Whole
from policies.options import NOT_BUILT_IN, DaemonOptions

Cipher = Literal["WEP-40", "WEP-104", "TKIP", "CCMP", "GCMP", "CCMP-256", "GCMP-256"]
Keys = Literal["static", "eap", "psk", "sae", "owe"]
Akm = Literal["sha1", "sha256", "suite-b-192"]
Sae = Literal["loop", "h2e"]
Roaming = Literal["ft", "ft-pull", "okc", "pmksa", "fils"]
GroupManagement = Literal["BIP-CMAC-128", "BIP-GMAC-256"]

WEP_CIPHERS = frozenset({"WEP-40", "WEP-104"})

#: Bytes that a cipher adds to a data frame: IEEE 802.11-2020, 12.3.2 (WEP: IV and ICV), 12.5.2
#: (TKIP: extended IV, MIC, ICV), 12.5.3 and 12.5.5 (CCMP, GCMP: header and MIC).
FRAME_EXPANSION_BYTES: dict[str, int] = {
    "WEP-40": 8, "WEP-104": 8, "TKIP": 20, "CCMP": 16, "GCMP": 24, "CCMP-256": 24, "GCMP-256": 24}
#: Keys that station and access point negotiate themselves, without a port of 802.1X.
OWN_HANDSHAKE = frozenset({"psk", "sae", "owe"})
#: Kinds of roaming with their own key management, so that `akm` does not apply.
OWN_KEY_MANAGEMENT = frozenset({"ft", "ft-pull", "fils"})
#: Allowed sources of the keys for each kind of roaming within a subnet.
_MOVES_WITH: dict[str, tuple[str, ...]] = {
    "ft": ("psk", "sae", "eap"), "ft-pull": ("sae", "eap"), "okc": ("eap",),
    "pmksa": ("sae", "eap"), "fils": ("eap",)}
#: Keys from an exchange before or during association.
EXCHANGED = frozenset({"sae", "owe"})


class LinkLayer(SparseLayer):
    """Protection of frames on the air."""

    cipher: Cipher = Field(description="Protects data frames. WEP-128 is WEP-104 here.")
    keys: Keys = Field(description="Where keys come from: configured, EAP, passphrase, SAE or an "
                       "unauthenticated exchange (OWE).")
    pmf: Annotated[Literal[0, 1, 2], Whole] = Field(
        default=0, description="Protected management frames: 0 off, 1 optional, 2 required."
    )
    akm: Akm | None = Field(
        default=None, description="The hash of key management with a passphrase or EAP, or the "
        "192-bit suite of WPA3-Enterprise. Left out: sha1, as WPA2 has it.")
    sae: Sae | None = Field(
        default=None, description="How SAE finds its element: by hunting and pecking (loop), or by "
        "hash to element (h2e). Left out: the daemon's choice, which is loop.")
    group: Annotated[Literal[19, 20, 21], Whole] | None = Field(
        default=None, description="Group of SAE or OWE: P-256, P-384 or P-521. Left out: 19.")
    group_mgmt: GroupManagement | None = Field(
        default=None, description="Cipher of management frames to all. Left out: BIP-CMAC-128.")
    roaming: Roaming | None = Field(
        default=None, description="How a station moves on between access points of one subnet: "
        "by fast transition whose keys are pushed (ft) or fetched (ft-pull), opportunistic key "
        "caching (okc), keys of an earlier visit (pmksa), or FILS with cached keys (fils). Left "
        "out: it negotiates all anew.")
    beacon_protection: Annotated[Literal[0, 1], Whole] | None = Field(
        default=None, description="Whether beacons bear a check of their own.")
    ocv: Annotated[Literal[0, 1], Whole] | None = Field(
        default=None, description="Whether the operating channel is verified in handshakes.")
    options: DaemonOptions = Field(
        default=DaemonOptions(), description="Further options by the daemons' own names."
    )

    @field_validator("sae", mode="before")
    @classmethod
    def _sae_is_built_in(cls, value: object) -> object:
        if value == "pk":
            raise make_fault(f"SAE-PK {NOT_BUILT_IN}", "write sae: h2e")
        return value

    @property
    def is_wep(self) -> bool:
        """Return whether the cipher is WEP-40 or WEP-104."""
        return self.cipher in WEP_CIPHERS

    @property
    def has_own_handshake(self) -> bool:
        """Return whether the keys come from a handshake without a port of 802.1X."""
        return self.keys in OWN_HANDSHAKE

    @property
    def moves_fast(self) -> bool:
        """Return whether a station roams by fast transition."""
        return self.roaming in ("ft", "ft-pull")

    @property
    def frame_expansion_bytes(self) -> int:
        """Return the number of bytes that the cipher adds to every data frame."""
        return FRAME_EXPANSION_BYTES[self.cipher]

    @model_validator(mode="after")
    def _keys_fit_cipher(self) -> Self:
        if self.is_wep and self.keys not in ("static", "eap"):
            raise make_fault(
                f"keys: {self.keys} cannot feed {self.cipher}",
                "write keys: static or eap, or a cipher such as CCMP",
                ("keys",),
            )
        if not self.is_wep and self.keys == "static":
            raise make_fault(
                f"{self.cipher} takes no static keys",
                "write keys: psk, sae, owe or eap, or a WEP cipher",
                ("keys",),
            )
        if self.cipher == "TKIP" and self.keys in EXCHANGED:
            raise make_fault(f"{self.keys.upper()} cannot feed TKIP", "write cipher: CCMP or GCMP",
                             ("cipher",))
        return self

    @model_validator(mode="after")
    def _pmf_fits(self) -> Self:
        if self.pmf and (self.is_wep or self.cipher == "TKIP"):
            raise make_fault(
                f"{self.cipher} has no protected management frames",
                "write pmf: 0, or a cipher such as CCMP",
                ("pmf",),
            )
        if self.keys in EXCHANGED and not self.pmf:
            raise make_fault(
                f"keys: {self.keys} needs protected management frames",
                "write pmf: 2 (or 1, where older stations shall join)",
                ("pmf",),
                ("keys",),
            )
        for name in ("group_mgmt", "beacon_protection", "ocv"):
            if getattr(self, name) and not self.pmf:
                raise make_fault(f"{name} needs protected management frames", "write pmf: 1 or 2",
                                 (name,), ("pmf",))
        return self

    @model_validator(mode="after")
    def _key_management_fits(self) -> Self:
        if self.akm and (self.is_wep or self.cipher == "TKIP" or self.keys not in ("psk", "eap")):
            raise make_fault(
                f"akm is for keys of a passphrase or of EAP, and keys is {self.keys} with "
                             f"{self.cipher}", "leave out akm", ("akm",))
        if self.akm == "suite-b-192" and not (
                self.keys == "eap" and self.cipher.endswith("-256") and self.pmf == 2
                and self.group_mgmt == "BIP-GMAC-256"):
            raise make_fault("the 192-bit suite is made of keys: eap, GCMP-256, pmf: 2 and "
                             "BIP-GMAC-256", "write cipher: GCMP-256, keys: eap, pmf: 2 and "
                             "group_mgmt: BIP-GMAC-256", ("akm",))
        self._check_roaming()
        if self.sae and self.keys != "sae":
            raise make_fault(f"sae says how SAE is done, and keys is {self.keys}",
                             "leave out sae, or write keys: sae", ("sae",), ("keys",))
        if self.group and self.keys not in EXCHANGED:
            raise make_fault(f"group is that of SAE or OWE, and keys is {self.keys}",
                             "leave out group, or write keys: sae or owe", ("group",), ("keys",))
        return self

    def _check_roaming(self) -> None:
        """Refuse kinds of roaming that do not fit the keys."""
        if self.roaming is None:
            return
        sources = _MOVES_WITH[self.roaming]
        if self.keys not in sources or self.is_wep or self.cipher == "TKIP":
            raise make_fault(
                f"roaming: {self.roaming} is for keys: {' or '.join(sources)}, with CCMP "
                             "or GCMP", "change keys or cipher, or leave out roaming", ("roaming",))
        if self.akm == "suite-b-192" and self.moves_fast:
            raise make_fault(
                f"roaming: {self.roaming} with the 192-bit suite is a key management of "
                             "its own (FT-EAP-SHA384), which is not here",
                             "leave out roaming, or akm",
                             ("roaming",), ("akm",))
        if self.akm and self.roaming in OWN_KEY_MANAGEMENT:
            raise make_fault(f"roaming: {self.roaming} is a key management of its own",
                             "leave out akm, or roaming", ("roaming",), ("akm",))
