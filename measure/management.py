"""Read management frames from captures: what a link offered, requested and agreed on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from measure import dissect, fields

_NAMES = (
    "frame.time_epoch", "wlan.fc.type_subtype", "wlan.ta", "wlan.da", "wlan.fc.protected",
    "wlan.rsn.akms.type", "wlan.rsn.gmcs.type", "wlan.rsn.capabilities",
    "wlan.extcap.b84", "wlan.tag.number",
    "wlan.fixed.auth.alg", "wlan.fixed.auth_seq", "wlan.fixed.status_code",
    "wlan.fixed.finite_cyclic_group", "wlan.ext_tag.owe_dh_parameter.group",
    "wlan.ext_tag.owe_dh_parameter.public_key",
    "wlan.mobility_domain.mdid", "wlan.rsn.pmkid.count")
_PROTECTION_REQUIRED, _PROTECTION_CAPABLE, _CHANNEL_VALIDATION = 1 << 6, 1 << 7, 1 << 14

BEACON, PROBE_RESPONSE = 0x08, 0x05
ASSOCIATION_REQUEST, ASSOCIATION_RESPONSE = 0x00, 0x01
REASSOCIATION_REQUEST, REASSOCIATION_RESPONSE = 0x02, 0x03
DISASSOCIATION, DEAUTHENTICATION = 0x0A, 0x0C
#: Authentication algorithms (IEEE 802.11-2020, 9.4.1.1).
FAST_TRANSITION, SAE = 2, 3
#: FILS with a shared key, without and with perfect forward secrecy (Diffie-Hellman).
FILS = (4, 5)
#: Management MIC element, which beacon protection adds.
_MANAGEMENT_MIC = 76


@dataclass(frozen=True)
class Management:
    """A management frame, with None or an empty tuple for missing values."""

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

    @property
    def requires_protection(self) -> bool:
        """Return whether the sender requires management frame protection."""
        return bool(self.capabilities & _PROTECTION_REQUIRED)

    @property
    def can_protect(self) -> bool:
        """Return whether the sender is capable of management frame protection."""
        return bool(self.capabilities & _PROTECTION_CAPABLE)

    @property
    def validates_channel(self) -> bool:
        """Return whether the sender validates the operating channel (OCV)."""
        return bool(self.capabilities & _CHANNEL_VALIDATION)

    @property
    def has_mic(self) -> bool:
        """Return whether the frame has a management MIC element."""
        return _MANAGEMENT_MIC in self.elements

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

    @property
    def is_end(self) -> bool:
        """Return whether this frame ends an association or an authentication."""
        return self.subtype in (DISASSOCIATION, DEAUTHENTICATION)


def read_frames(capture: Path, keys: Sequence[str] = (),
                subtype: int | None = None) -> list[Management]:
    """Return the management frames of a capture of the air, in order.

    Args:
        capture: The capture file.
        keys: Keys that decrypt protected frames.
        subtype: Subtype of the frames; None for all.

    Raises:
        MeasureError: tshark is missing or cannot read the file.
    """
    asked = "wlan.fc.type == 0" if subtype is None else f"wlan.fc.type_subtype == {subtype}"
    return [_parse_frame(dict(zip(_NAMES, row, strict=True)))
            for row
            in fields.read_fields(capture, _NAMES, asked, options=dissect.decryption_options(keys))]


def _parse_frame(c: Mapping[str, str]) -> Management:
    return Management(
        float(c["frame.time_epoch"]), int(c["wlan.fc.type_subtype"], 0), _first_value(c["wlan.ta"]),
        _first_value(c["wlan.da"]), _is_set(c["wlan.fc.protected"]),
        akms=_parse_numbers(c["wlan.rsn.akms.type"]),
        group_cipher=_parse_number(c["wlan.rsn.gmcs.type"]),
        capabilities=_parse_number(c["wlan.rsn.capabilities"]) or 0,
        says_beacons_are_protected=_is_set(c["wlan.extcap.b84"]),
        elements=_parse_numbers(c["wlan.tag.number"]),
        algorithm=_parse_number(c["wlan.fixed.auth.alg"]),
        sequence=_parse_number(c["wlan.fixed.auth_seq"]),
        status=_parse_number(c["wlan.fixed.status_code"]),
        sae_group=_parse_number(c["wlan.fixed.finite_cyclic_group"]),
        owe_group=_parse_number(c["wlan.ext_tag.owe_dh_parameter.group"]),
        owe_key=_first_value(c["wlan.ext_tag.owe_dh_parameter.public_key"]),
        mobility_domain=_parse_number(c["wlan.mobility_domain.mdid"]),
        key_names=_parse_number(c["wlan.rsn.pmkid.count"]) or 0)


def _first_value(column: str) -> str:
    return column.partition(",")[0]


def _is_set(column: str) -> bool:
    return _first_value(column) in ("1", "True")


def _parse_numbers(column: str) -> tuple[int, ...]:
    return tuple(int(entry, 0) for entry in column.split(",") if entry)


def _parse_number(column: str) -> int | None:
    first = _first_value(column)
    return int(first, 0) if first else None
