"""Read 802.11 management frames from captures: what a link offered, requested and agreed on.

`read_management_frames` takes a capture and decryption keys, runs tshark, and returns a
`ManagementFrame` for each frame. It has the fields of key management: AKM and cipher suites, MFP
capabilities, status codes, SAE and OWE groups, and mobility domain. Checks of policies and `qop
explain` use them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from measure.capture import tshark

#: Fields that `parse_management_frame` needs.
MANAGEMENT_FIELDS = (
    "frame.time_epoch", "wlan.fc.type_subtype", "wlan.ta", "wlan.da", "wlan.fc.protected",
    "wlan.rsn.akms.type", "wlan.rsn.gmcs.type", "wlan.rsn.capabilities",
    "wlan.extcap.b84", "wlan.extcap.b19", "wlan.rmcap.b1", "wlan.tag.number",
    "wlan.fixed.auth.alg", "wlan.fixed.auth_seq", "wlan.fixed.status_code",
    "wlan.fixed.finite_cyclic_group", "wlan.ext_tag.owe_dh_parameter.group",
    "wlan.ext_tag.owe_dh_parameter.public_key",
    "wlan.mobility_domain.mdid", "wlan.rsn.pmkid.count", "wlan.rsn.gcs.type",
    "wlan.fixed.category_code", "wlan.fixed.action_code", "wlan.fixed.target_ap_address")
_PROTECTION_REQUIRED, _PROTECTION_CAPABLE, _CHANNEL_VALIDATION = 1 << 6, 1 << 7, 1 << 14

BEACON, PROBE_RESPONSE = 0x08, 0x05
ASSOCIATION_REQUEST, ASSOCIATION_RESPONSE = 0x00, 0x01
REASSOCIATION_REQUEST, REASSOCIATION_RESPONSE = 0x02, 0x03
DISASSOCIATION, DEAUTHENTICATION, ACTION = 0x0A, 0x0C, 0x0D
#: Authentication algorithms (IEEE 802.11-2020, 9.4.1.1).
FAST_TRANSITION, SAE = 2, 3
#: Statuses of SAE that are no refusal: token required, group refused, hash to element.
SAE_STATUSES = (76, 77, 126)
#: Actions of fast transition over the DS (IEEE 802.11-2020, 9.6.8.1).
FT_REQUEST, FT_RESPONSE = 1, 2
#: FILS with a shared key, without and with perfect forward secrecy (Diffie-Hellman).
FILS = (4, 5)
#: Management MIC element, which beacon protection adds.
_MANAGEMENT_MIC = 76
#: RM Enabled Capabilities element (IEEE 802.11-2020, 9.4.2.44).
_RADIO_MEASUREMENT = 70


class FramePurpose:
    """The purpose of a management frame while a station joins, by the frame's subtype.

    An access point makes an offer in beacons and probe responses. A request or response belongs to
    an association or a reassociation.
    """

    subtype: int

    @property
    def is_offer(self) -> bool:
        """Return whether this is a beacon or a probe response."""
        return self.subtype in (BEACON, PROBE_RESPONSE)

    @property
    def is_request(self) -> bool:
        """Return whether this is an association or reassociation request."""
        return self.subtype in (ASSOCIATION_REQUEST, REASSOCIATION_REQUEST)

    @property
    def is_response(self) -> bool:
        """Return whether this is an association or reassociation response."""
        return self.subtype in (ASSOCIATION_RESPONSE, REASSOCIATION_RESPONSE)


@dataclass(frozen=True)
class ManagementFrame(FramePurpose):
    """An 802.11 management frame. Missing values are None or an empty tuple.

    - `subtype`, `protected`: subtype of the frame, and its Protected bit
    - `akms`: key management suites of the RSN element
    - `group_cipher`: cipher suite of group-addressed management frames
    - `data_group_cipher`: cipher suite of group-addressed data frames
    - `says_beacons_are_protected`: capability of the extended capabilities element
    - `has_bss_transition`: capability of BSS transition management (802.11v), likewise
    - `reports_neighbors`: capability of neighbor reports (802.11k)
    - `elements`: identifiers of all elements
    - `algorithm`, `sequence`, `status`: fields of an Authentication frame
    - `sae_group`, `owe_group`, `owe_key`: group of SAE, group and public key of OWE
    - `mobility_domain`: mobility domain of fast transition
    - `category`, `action`: fields of an Action frame
    - `target`: access point that a request of fast transition over the DS is for
    """

    time_s: float
    subtype: int
    transmitter: str
    receiver: str
    protected: bool
    akms: tuple[int, ...] = ()
    group_cipher: int | None = None
    #: Capabilities of the RSN element.
    capabilities: int = 0
    says_beacons_are_protected: bool = False
    elements: tuple[int, ...] = ()
    algorithm: int | None = None
    sequence: int | None = None
    status: int | None = None
    sae_group: int | None = None
    owe_group: int | None = None
    owe_key: str = ""
    mobility_domain: int | None = None
    #: Number of PMKIDs in the frame.
    key_names: int = 0
    data_group_cipher: int | None = None
    category: int | None = None
    action: int | None = None
    target: str = ""
    has_bss_transition: bool = False
    reports_neighbors: bool = False

    @property
    def is_over_ds(self) -> bool:
        """Return whether this is a request or response of fast transition over the DS."""
        return (self.category == tshark.FAST_TRANSITION_CATEGORY
                and self.action in (FT_REQUEST, FT_RESPONSE))

    @property
    def requires_protection(self) -> bool:
        """Return whether the sender requires protected management frames (MFP required)."""
        return bool(self.capabilities & _PROTECTION_REQUIRED)

    @property
    def can_protect(self) -> bool:
        """Return whether the sender supports protected management frames (MFP capable)."""
        return bool(self.capabilities & _PROTECTION_CAPABLE)

    @property
    def validates_channel(self) -> bool:
        """Return whether the sender supports operating channel validation (OCV)."""
        return bool(self.capabilities & _CHANNEL_VALIDATION)

    @property
    def measures_radio(self) -> bool:
        """Return whether the sender supports radio measurement (802.11k)."""
        return _RADIO_MEASUREMENT in self.elements

    @property
    def has_mic(self) -> bool:
        """Return whether the management frame has a Management MIC element."""
        return _MANAGEMENT_MIC in self.elements

    @property
    def is_end(self) -> bool:
        """Return whether the frame is a deauthentication or disassociation frame."""
        return self.subtype in (DISASSOCIATION, DEAUTHENTICATION)


def read_management_frames(capture: Path, keys: Sequence[str] = (),
                           subtype: int | None = None) -> list[ManagementFrame]:
    """Return the management frames in a capture of the air, in order.

    Args:
        capture: The capture file.
        keys: Keys that decrypt protected frames.
        subtype: Subtype of the frames; None for all.

    Raises:
        MeasureError: tshark is missing or cannot read the file.
    """
    wanted = "wlan.fc.type == 0" if subtype is None else f"wlan.fc.type_subtype == {subtype}"
    return [parse_management_frame(dict(zip(MANAGEMENT_FIELDS, row, strict=True)))
            for row in tshark.read_fields(capture, MANAGEMENT_FIELDS, wanted,
                                          options=tshark.decryption_options(keys))]


def parse_management_frame(c: Mapping[str, str]) -> ManagementFrame:
    """Return the management frame with these columns, by the names of `MANAGEMENT_FIELDS`."""
    return ManagementFrame(
        float(c["frame.time_epoch"]), tshark.parse_number(c["wlan.fc.type_subtype"]) or 0,
        tshark.first_value(c["wlan.ta"]), tshark.first_value(c["wlan.da"]),
        tshark.is_set(c["wlan.fc.protected"]),
        akms=tshark.parse_numbers(c["wlan.rsn.akms.type"]),
        group_cipher=tshark.parse_number(c["wlan.rsn.gmcs.type"]),
        capabilities=tshark.parse_number(c["wlan.rsn.capabilities"]) or 0,
        says_beacons_are_protected=tshark.is_set(c["wlan.extcap.b84"]),
        elements=tshark.parse_numbers(c["wlan.tag.number"]),
        algorithm=tshark.parse_number(c["wlan.fixed.auth.alg"]),
        sequence=tshark.parse_number(c["wlan.fixed.auth_seq"]),
        status=tshark.parse_number(c["wlan.fixed.status_code"]),
        sae_group=tshark.parse_number(c["wlan.fixed.finite_cyclic_group"]),
        owe_group=tshark.parse_number(c["wlan.ext_tag.owe_dh_parameter.group"]),
        owe_key=tshark.first_value(c["wlan.ext_tag.owe_dh_parameter.public_key"]),
        mobility_domain=tshark.parse_number(c["wlan.mobility_domain.mdid"]),
        key_names=tshark.parse_number(c["wlan.rsn.pmkid.count"]) or 0,
        data_group_cipher=tshark.parse_number(c["wlan.rsn.gcs.type"]),
        category=tshark.parse_number(c["wlan.fixed.category_code"]),
        action=tshark.parse_number(c["wlan.fixed.action_code"]),
        target=tshark.first_value(c["wlan.fixed.target_ap_address"]),
        has_bss_transition=tshark.is_set(c["wlan.extcap.b19"]),
        reports_neighbors=tshark.is_set(c["wlan.rmcap.b1"]))
