"""Define the link layer of a policy: how frames on the air are protected.

`LinkLayer` is a pydantic model of the key `link` in a policy file. Its fields are cipher, source of
the keys (static, passphrase, EAP, SAE or OWE), AKM suite, management frame protection, fast roaming
and others. It refuses combinations that hostapd and wpa_supplicant cannot apply.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal, Self, get_args

from pydantic import (
    Field,
    model_validator,
)

from policies.errors import make_fault
from policies.fields import SparseLayer, Whole
from policies.options import DaemonOptions

Cipher = Literal["WEP-40", "WEP-104", "TKIP", "CCMP", "GCMP", "CCMP-256", "GCMP-256"]
KeySource = Literal["static", "eap", "psk", "sae", "owe"]
Akm = Literal["sha1", "sha256", "suite-b-192"]
SaeElement = Literal["loop", "h2e", "pk"]
Group = Annotated[Literal[19, 20, 21], Whole]
Passphrases = Literal["by-device"]
Roaming = Literal["ft", "ft-pull", "okc", "pmksa", "fils"]
GroupCipher = Literal["TKIP", "CCMP"]
GroupManagement = Literal["BIP-CMAC-128", "BIP-GMAC-256"]
#: Key managements that an access point can offer together, in hostapd's words and in the order in
#: which wpa_supplicant 2.10 prefers them.
KeyManagement = Literal["FT-EAP", "FT-SAE", "SAE", "FT-PSK", "WPA-EAP-SHA256", "WPA-PSK-SHA256",
                        "WPA-EAP", "WPA-PSK"]
_KEY_MANAGEMENT_OF = {"psk": "WPA-PSK", "sae": "SAE", "eap": "WPA-EAP"}
_SAE_MANAGEMENTS = frozenset({"SAE", "FT-SAE"})

WEP_CIPHERS = frozenset({"WEP-40", "WEP-104"})

#: Bytes that a cipher adds to a data frame: IEEE 802.11-2020, 12.3.2 (WEP: IV and ICV), 12.5.2
#: (TKIP: extended IV, MIC, ICV), 12.5.3 and 12.5.5 (CCMP, GCMP: header and MIC).
FRAME_EXPANSION_BYTES: dict[str, int] = {
    "WEP-40": 8, "WEP-104": 8, "TKIP": 20, "CCMP": 16, "GCMP": 24, "CCMP-256": 24, "GCMP-256": 24}
#: Ciphers that frames to all may have instead of those between two, for older stations.
_WEAKER_CIPHERS: dict[str, tuple[str, ...]] = {
    "CCMP": ("TKIP",), **dict.fromkeys(("GCMP", "CCMP-256", "GCMP-256"), ("TKIP", "CCMP"))}
#: Keys that station and access point negotiate themselves, without a port of 802.1X.
OWN_HANDSHAKE = frozenset({"psk", "sae", "owe"})
#: Kinds of roaming with their own key management, so that `akm` does not apply.
OWN_KEY_MANAGEMENT = frozenset({"ft", "ft-pull", "fils"})
#: Allowed sources of the keys for each kind of roaming within a subnet.
_MOVES_WITH: dict[str, tuple[str, ...]] = {
    "ft": ("psk", "sae", "eap"), "ft-pull": ("sae", "eap"), "okc": ("eap",),
    "pmksa": ("sae", "eap"), "fils": ("eap",)}
#: Group P-256, which every station and access point supports.
USUAL_GROUP = 19
#: Keys from an exchange before or during association.
EXCHANGED = frozenset({"sae", "owe"})


class LinkLayer(SparseLayer):
    """The link layer of a policy: cipher, keys and frame protection on the air."""

    cipher: Cipher = Field(description="Protects data frames. WEP-128 is WEP-104 here.")
    keys: KeySource = Field(
        description="Where keys come from: configured, EAP, passphrase, SAE or an "
                            "unauthenticated exchange (OWE).")
    pmf: Annotated[Literal[0, 1, 2], Whole] = Field(
        default=0, description="Protected management frames: 0 off, 1 optional, 2 required."
    )
    akm: Akm | None = Field(
        default=None, description="The hash of key management with a passphrase or EAP, or the "
        "192-bit suite of WPA3-Enterprise, which may have roaming: ft (FT-EAP-SHA384). Left out: "
        "sha1, as WPA2 has it.")
    sae: SaeElement | None = Field(
        default=None, description="How SAE finds its element: by hunting and pecking (loop), or by "
        "hash to element (h2e). With SAE-PK (pk) it is hash to element, and the password is a "
        "fingerprint of the access point's public key, which needs Debian testing. Left out: the "
        "daemon's choice, which is loop.")
    group: Group | None = Field(
        default=None, description="Group of SAE or OWE: P-256, P-384 or P-521. Left out: 19.")
    station_groups: list[Group] | None = Field(
        default=None, description="All groups that the station tries in SAE, best first. group is "
        "the first of them that access points accept. Left out: group alone.")
    access_point_groups: list[Group] | None = Field(
        default=None, description="All groups that access points accept in SAE. They refuse "
        "others. Left out: group alone.")
    anti_clogging: Annotated[int, Field(ge=0, le=10)] | None = Field(
        default=None, description="Unfinished exchanges of SAE at which access points ask stations "
        "for a token, 0 to 10. With 0 they ask each one. Left out: the daemon's own, which is 5.")
    group_mgmt: GroupManagement | None = Field(
        default=None, description="Cipher of management frames to all. Left out: BIP-CMAC-128.")
    roaming: Roaming | None = Field(
        default=None, description="How a station moves on between access points of one subnet: "
        "by fast transition whose keys are pushed (ft) or fetched (ft-pull), opportunistic key "
        "caching (okc), keys of an earlier visit (pmksa), or FILS with cached keys (fils). Left "
        "out: it negotiates all anew.")
    ft_over_ds: Annotated[Literal[0, 1], Whole] | None = Field(
        default=None, description="Whether the station asks for fast transition through its access "
        "point and the wire (over the DS), in place of over the air. Left out: 0.")
    neighbor_report: Annotated[Literal[0, 1], Whole] | None = Field(
        default=None, description="Whether access points answer requests for neighbor reports "
        "(802.11k), so that stations scan the named channels only. Left out: 0.")
    bss_transition: Annotated[Literal[0, 1], Whole] | None = Field(
        default=None, description="Whether access points offer BSS transition management "
        "(802.11v), and ask a station with a weak signal to move. Left out: 0.")
    beacon_protection: Annotated[Literal[0, 1], Whole] | None = Field(
        default=None, description="Whether beacons bear a check of their own.")
    ocv: Annotated[Literal[0, 1], Whole] | None = Field(
        default=None, description="Whether the operating channel is verified in handshakes.")
    passphrases: Passphrases | None = Field(
        default=None, description="Whether each device has a passphrase of its own, bound to its "
        "MAC address (by-device). Left out: all devices have one.")
    vlan: Annotated[int, Field(ge=1, le=4094)] | None = Field(
        default=None, description="VLAN into which access points put stations, 1 to 4094: the "
        "RADIUS server's Access-Accept names it (keys: eap), or it belongs to the device's "
        "passphrase (passphrases: by-device). Left out: none.")
    further_vlans: list[Annotated[int, Field(ge=1, le=4094)]] | None = Field(
        default=None, description="VLANs of the network's further stations: the first station is "
        "in vlan, and the others are in these, in turn. Left out: all are in vlan.")
    group_cipher: GroupCipher | None = Field(
        default=None, description="Cipher of data frames to all, where it is weaker than cipher, "
        "for older stations. Left out: cipher.")
    offered: list[KeyManagement] | None = Field(
        default=None, description="All key managements that access points offer, such as [WPA-PSK, "
        "SAE] of WPA3's transition mode. keys says which one the station uses. Left out: that one.")
    accepted: list[KeyManagement] | None = Field(
        default=None, description="All key managements that the station accepts. Left out: that of "
        "keys.")
    owe_transition: Annotated[Literal[0, 1], Whole] | None = Field(
        default=None, description="Whether access points also have an open network, which points "
        "stations at the hidden network with OWE. Left out: 0.")
    station_pmf: Annotated[Literal[0, 1, 2], Whole] | None = Field(
        default=None, description="Protected management frames of the station, where it differs "
        "from its access points. Left out: pmf.")
    options: DaemonOptions = Field(
        default=DaemonOptions(), description="Further options by the daemons' own names."
    )

    @property
    def is_wep(self) -> bool:
        """Return whether the cipher is WEP-40 or WEP-104."""
        return self.cipher in WEP_CIPHERS

    @property
    def excludes_ht(self) -> bool:
        """Return whether stations may not use HT, VHT or HE, as with WEP and TKIP.

        IEEE 802.11-2020, 12.6.3: an HT station eliminates TKIP where the access point has HT. WEP
        is older than RSN. hostapd and mac80211 then use the rates of 802.11a and g.
        """
        return self.is_wep or self.cipher == "TKIP"

    @property
    def tried_groups(self) -> Sequence[int]:
        """Return the groups of SAE that the station tries: refused ones, then the agreed one."""
        agreed: int = self.group or USUAL_GROUP
        groups: Sequence[int] = self.station_groups or [agreed]
        return groups[:groups.index(agreed) + 1]

    @property
    def has_own_handshake(self) -> bool:
        """Return whether keys come from a handshake without 802.1X, such as SAE or a passphrase."""
        return self.keys in OWN_HANDSHAKE

    @property
    def moves_fast(self) -> bool:
        """Return whether a station roams by fast transition (802.11r)."""
        return self.roaming in ("ft", "ft-pull")

    @property
    def is_suite_b(self) -> bool:
        """Return whether the link has the 192-bit suite of WPA3-Enterprise."""
        return self.akm == "suite-b-192"

    @property
    def is_fast_with_sha384(self) -> bool:
        """Return whether the 192-bit suite moves by fast transition, with keys by SHA-384."""
        return self.moves_fast and self.is_suite_b

    @property
    def key_management(self) -> str | None:
        """Return the station's key management by hostapd's name (such as WPA-EAP), or None.

        An access point may offer several key managements in one network, if this is one of them.
        WEP, OWE, FILS and the 192-bit suite can only be alone in a network. For these, the result
        is None.
        """
        if self.is_wep or self.keys not in _KEY_MANAGEMENT_OF or self.roaming == "fils" \
                or self.is_suite_b:
            return None
        if self.moves_fast:
            return f"FT-{self.keys.upper()}"
        return _KEY_MANAGEMENT_OF[self.keys] + ("-SHA256" if self.akm == "sha256" else "")

    @property
    def all_vlans(self) -> Sequence[int]:
        """Return the VLANs of the network's stations in turn, empty without VLANs."""
        return [self.vlan, *(self.further_vlans or ())] if self.vlan else []

    @property
    def weakest_keys(self) -> KeySource:
        """Return the weakest source of keys that an attacker can have the station accept."""
        has_psk = self.keys == "sae" and any(name.endswith(("-PSK", "-PSK-SHA256"))
                                             for name in self.accepted or ())
        return "psk" if has_psk else self.keys

    @property
    def pmf_of_station(self) -> int:
        """Return the station's setting of protected management frames (`pmf`)."""
        return self.pmf if self.station_pmf is None else self.station_pmf

    @property
    def frame_expansion_bytes(self) -> int:
        """Return the number of bytes that the cipher adds to every data frame."""
        return FRAME_EXPANSION_BYTES[self.cipher]

    @property
    def group_expansion_bytes(self) -> int:
        """Return the number of bytes that the group cipher adds to data frames to all."""
        return FRAME_EXPANSION_BYTES[self.group_cipher or self.cipher]

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
    def _hints_fit(self) -> Self:
        for name in ("neighbor_report", "bss_transition") if self.is_wep else ():
            if getattr(self, name):
                raise make_fault(f"{name} is measured with WPA2 and later, and cipher is "
                                 f"{self.cipher}", f"leave out {name}, or write cipher: CCMP",
                                 (name,), ("cipher",))
        return self

    @model_validator(mode="after")
    def _pmf_fits(self) -> Self:
        if self.pmf and (self.is_wep or self.cipher == "TKIP"):
            raise make_fault(
                f"{self.cipher} has no protected management frames",
                "write pmf: 0, or a cipher such as CCMP",
                ("pmf",),
            )
        needs = "needs protected management frames"
        if self.keys in EXCHANGED and not self.pmf:
            raise make_fault(
                f"keys: {self.keys} {needs}",
                "write pmf: 2 (or 1, where older stations shall join)",
                ("pmf",),
                ("keys",),
            )
        if not self.pmf and _SAE_MANAGEMENTS.intersection(self.offered or ()):
            raise make_fault(f"an access point that offers SAE {needs}",
                             "write pmf: 1, with which older stations can join", ("pmf",),
                             ("offered",))
        for name in ("group_mgmt", "beacon_protection", "ocv"):
            if getattr(self, name) and not self.pmf:
                raise make_fault(f"{name} {needs}", "write pmf: 1 or 2", (name,), ("pmf",))
            if getattr(self, name) and not self.pmf_of_station:
                raise make_fault(f"{name} {needs}, and the station has none",
                                 f"leave out station_pmf, or {name}", ("station_pmf",), (name,))
        return self

    @model_validator(mode="after")
    def _group_cipher_fits(self) -> Self:
        group = self.group_cipher
        if group is None:
            return self
        if group not in _WEAKER_CIPHERS.get(self.cipher, ()):
            raise make_fault(f"group_cipher: {group} is not weaker than {self.cipher}",
                             "leave out group_cipher", ("group_cipher",), ("cipher",))
        if self.is_suite_b:
            raise make_fault("the 192-bit suite has one cipher for all frames",
                             "leave out group_cipher", ("group_cipher",), ("akm",))
        if group == "TKIP" and self.pmf:
            raise make_fault("a network with TKIP has no protected management frames",
                             "leave out group_cipher" if self.keys in EXCHANGED
                             else "write pmf: 0, or leave out group_cipher",
                             ("group_cipher",), ("pmf",))
        return self

    @model_validator(mode="after")
    def _station_pmf_fits(self) -> Self:
        if self.station_pmf is None:
            return self
        if self.keys in EXCHANGED and not self.station_pmf:
            raise make_fault(f"keys: {self.keys} needs protected management frames",
                             "leave out station_pmf", ("station_pmf",), ("keys",))
        if {self.pmf, self.station_pmf} == {0, 2}:
            raise make_fault(f"pmf is {self.pmf} and station_pmf {self.station_pmf}, so the "
                             "station cannot join", "write 1 for one of them", ("station_pmf",),
                             ("pmf",))
        if not self.pmf:
            raise make_fault("station_pmf has no effect where access points have pmf: 0",
                             "leave it out, or write pmf: 1", ("station_pmf",), ("pmf",))
        return self

    @model_validator(mode="after")
    def _key_management_fits(self) -> Self:
        if self.akm and (self.is_wep or self.cipher == "TKIP" or self.keys not in ("psk", "eap")):
            raise make_fault(
                f"akm is for keys of a passphrase or of EAP, and keys is {self.keys} with "
                f"{self.cipher}", "leave out akm", ("akm",))
        if self.is_suite_b and not (
                self.keys == "eap" and self.cipher.endswith("-256") and self.pmf == 2
                and self.group_mgmt == "BIP-GMAC-256"):
            raise make_fault("the 192-bit suite is made of keys: eap, GCMP-256, pmf: 2 and "
                             "BIP-GMAC-256", "write cipher: GCMP-256, keys: eap, pmf: 2 and "
                             "group_mgmt: BIP-GMAC-256", ("akm",))
        self._check_roaming()
        self._check_mixture()
        self._check_groups()
        if self.passphrases and (self.offered or self.cipher == "TKIP"
                                 or self.key_management != "WPA-PSK"):
            raise make_fault("passphrases by device are of keys: psk with CCMP or GCMP, without "
                             "roaming and akm: sha256, in a network that offers nothing else",
                             "leave out passphrases", ("passphrases",), ("keys",))
        self._check_vlans()
        self._check_owe_transition()
        self._check_sae_fields()
        if self.group and self.keys not in EXCHANGED:
            raise make_fault(f"group is that of SAE or OWE, and keys is {self.keys}",
                             "leave out group, or write keys: sae or owe", ("group",), ("keys",))
        return self

    def _check_owe_transition(self) -> None:
        """Refuse OWE transition mode without OWE, and with what it cannot have."""
        if self.owe_transition and self.keys != "owe":
            raise make_fault(f"owe_transition is of OWE, and keys is {self.keys}",
                             "leave out owe_transition, or write keys: owe", ("owe_transition",),
                             ("keys",))
        if self.owe_transition and self.ocv:
            raise make_fault("in OWE transition mode, wpa_supplicant states no channel, and access "
                             "points with ocv refuse it", "leave out ocv, or owe_transition",
                             ("ocv",), ("owe_transition",))

    def _check_sae_fields(self) -> None:
        """Refuse settings of SAE without SAE, and those that do not go with SAE-PK."""
        if self.sae and self.keys != "sae":
            raise make_fault(f"sae says how SAE is done, and keys is {self.keys}",
                             "leave out sae, or write keys: sae", ("sae",), ("keys",))
        if self.sae == "pk":
            for name in ("group", "station_groups", "access_point_groups", "roaming", "offered",
                         "accepted"):
                if getattr(self, name):
                    raise make_fault(f"sae: pk is measured without {name}",
                                     f"leave out {name}, or write sae: h2e", (name,), ("sae",))
        if self.anti_clogging is not None and self.keys != "sae":
            raise make_fault(f"anti_clogging belongs to SAE, and keys is {self.keys}",
                             "leave out anti_clogging, or write keys: sae", ("anti_clogging",),
                             ("keys",))

    def _check_vlans(self) -> None:
        """Refuse a VLAN that nothing assigns, and `further_vlans` without a VLAN in `vlan`."""
        if self.vlan and (self.is_wep or self.roaming
                          or not (self.keys == "eap" or self.passphrases)):
            raise make_fault("a VLAN needs a RADIUS server (keys: eap, without WEP) or "
                             "passphrases: by-device, and no roaming", "leave out vlan",
                             ("vlan",), ("keys",))
        if self.further_vlans is not None and not self.vlan:
            raise make_fault("further_vlans are for stations after the first one, which has no "
                             "vlan", "add vlan, or leave out further_vlans", ("further_vlans",))
        if self.further_vlans is not None and (not self.further_vlans or len(
                {self.vlan, *self.further_vlans}) <= len(self.further_vlans)):
            raise make_fault("further_vlans is empty, has a VLAN twice, or has that of vlan",
                             "write a list of other VLANs, such as [30]", ("further_vlans",),
                             ("vlan",))

    def _check_roaming(self) -> None:
        """Refuse kinds of roaming that do not fit the way in which keys are made."""
        if self.ft_over_ds and not self.moves_fast:
            raise make_fault("ft_over_ds is of fast transition, and roaming is "
                             f"{self.roaming or 'left out'}",
                             "leave out ft_over_ds, or write roaming: ft", ("ft_over_ds",),
                             ("roaming",))
        if self.ft_over_ds and self.ocv:
            raise make_fault("over the DS, wpa_supplicant states the channel that it leaves, and "
                             "access points with ocv refuse it", "leave out ft_over_ds, or ocv",
                             ("ocv",), ("ft_over_ds",))
        if self.roaming is None:
            return
        sources = _MOVES_WITH[self.roaming]
        if self.keys not in sources or self.is_wep or self.cipher == "TKIP":
            raise make_fault(
                f"roaming: {self.roaming} is for keys: {' or '.join(sources)}, with CCMP or "
                "GCMP", "change keys or cipher, or leave out roaming", ("roaming",))
        if self.akm and self.roaming in OWN_KEY_MANAGEMENT and not self.is_fast_with_sha384:
            raise make_fault(f"roaming: {self.roaming} is a key management of its own",
                             "leave out akm, or roaming", ("roaming",), ("akm",))

    def _check_groups(self) -> None:
        """Refuse lists of groups from which the ends would not agree on `group`."""
        agreed: int = self.group or USUAL_GROUP
        for field in ("station_groups", "access_point_groups"):
            groups: list[int] | None = getattr(self, field)
            if groups is None:
                continue
            if self.keys != "sae":
                raise make_fault(f"{field} are those of SAE, and keys is {self.keys}",
                                 f"leave out {field}, or write keys: sae", (field,), ("keys",))
            if agreed not in groups:
                raise make_fault(f"{field} lacks {agreed}, which both ends use by group",
                                 f"add {agreed} to it, or write another group", (field,),
                                 ("group",))
            if len(set(groups)) < len(groups):
                raise make_fault(f"{field} names one group twice", "leave one out", (field,))
        accepted: Sequence[int] = self.access_point_groups or [agreed]
        tried: Sequence[int] = self.station_groups or [agreed]
        first = next(group for group in tried if group in accepted)
        if first != agreed:
            raise make_fault(f"a station that tries {first} first uses it, and group is {agreed}",
                             f"write group: {first}, or leave {first} out of one list",
                             ("station_groups",), ("group",))

    def _check_mixture(self) -> None:
        """Refuse key managements that do not fit the one of `keys`."""
        own = self.key_management
        for field in ("offered", "accepted"):
            names: list[str] | None = getattr(self, field)
            if names is None:
                continue
            if own is None or self.cipher == "TKIP":
                raise make_fault(f"{field} is for keys: psk, sae or eap with CCMP or GCMP, without "
                                 "FILS and the 192-bit suite", f"leave out {field}", (field,))
            if own not in names:
                raise make_fault(f"{field} lacks {own}, which the station uses by keys: "
                                 f"{self.keys}", f"add {own} to it", (field,), ("keys",))
            strange = [name for name in names if ("EAP" in name) != (self.keys == "eap")
                       or (name.startswith("FT-") and not self.moves_fast)]
            if strange:
                raise make_fault(f"{field}: {strange[0]} does not go with {own}",
                                 "write EAP and passphrases in networks of their own, and FT with "
                                 "roaming: ft", (field,))
            if len(set(names)) < len(names):
                raise make_fault(f"{field} names one key management twice", "leave one out",
                                 (field,))
        self._check_preference(own)
        self._check_h2e()

    def _check_h2e(self) -> None:
        """Refuse a station of hash to element that accepts key managements without SAE.

        wpa_supplicant 2.10 skips each access point that does not announce hash to element.
        """
        without = [name for name in self.accepted or () if name not in _SAE_MANAGEMENTS]
        is_strict = self.sae == "h2e" or str(
            self.options.wpa_supplicant.get("sae_pwe", "")) == "1"
        if self.keys == "sae" and is_strict and without:
            place = ("sae",) if self.sae else ("options", "wpa_supplicant")
            cause = "sae" if self.sae else "the option sae_pwe"
            raise make_fault("a station of hash to element joins no access point without it, so "
                             f"that it does not use {without[0]}",
                             f"leave {without[0]} out of accepted, or leave out {cause}",
                             ("accepted",), place)

    def _check_preference(self, key_management: str | None) -> None:
        """Refuse a station that would use another key management than that of `keys`."""
        if key_management is None:
            return
        accepted: Sequence[str] = self.accepted or [key_management]
        offered: Sequence[str] = self.offered or [key_management]
        common = [name for name in get_args(KeyManagement) if name in accepted and name in offered]
        if common and common[0] != key_management:
            raise make_fault(
                f"a station that accepts {common[0]} and {key_management} uses {common[0]}, and "
                f"keys is {self.keys}", f"leave {common[0]} out of accepted, or write its keys",
                ("accepted",), ("keys",))
