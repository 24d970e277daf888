"""Read from captures which rates and channel access access points and stations announce.

`read_capabilities` takes a capture of the air, and yields the `Capabilities` of each management
frame: beacons, probe responses, and association requests and responses. They have the supported
rates, HT, VHT and HE capabilities and operation, and WMM's parameters. These elements are never
encrypted. The check of the physical layer (`measure.checks.physical_layer`) uses them. Clauses are
those of IEEE 802.11-2020, those of HE of IEEE 802.11ax-2021.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from measure.capture import pcap
from measure.capture.pcap import MAC_HEADER_BYTES
from measure.packets.management_frames import (
    ASSOCIATION_REQUEST,
    ASSOCIATION_RESPONSE,
    BEACON,
    PROBE_RESPONSE,
    REASSOCIATION_REQUEST,
    REASSOCIATION_RESPONSE,
    FramePurpose,
)
from topologies.phy_rates import HE, HT, VHT

#: Bytes of fixed fields before the elements, by the frame's subtype (9.3.3).
_FIXED_BYTES = {BEACON: 12, PROBE_RESPONSE: 12, ASSOCIATION_REQUEST: 4, REASSOCIATION_REQUEST: 10,
                ASSOCIATION_RESPONSE: 6, REASSOCIATION_RESPONSE: 6}
#: Element IDs (table 9-92); elements of ID 255 have another ID in their first byte.
_RATES, _MORE_RATES, _HT_CAPABILITIES, _HT_OPERATION = 1, 50, 45, 61
_VHT_CAPABILITIES, _VHT_OPERATION, _VENDOR, _EXTENDED = 191, 192, 221, 255
_HE_CAPABILITIES, _HE_OPERATION, _HE_6_GHZ = 35, 36, 59
#: Least bytes of elements by ID and extended ID. Shorter ones are malformed and left out.
_LEAST_BYTES = {(_HT_CAPABILITIES, 0): 26, (_HT_OPERATION, 0): 22, (_VHT_CAPABILITIES, 0): 12,
                (_VHT_OPERATION, 0): 5, (_EXTENDED, _HE_CAPABILITIES): 21,
                (_EXTENDED, _HE_OPERATION): 6, (_EXTENDED, _HE_6_GHZ): 2}
#: Prefix of WMM's parameter element, and bytes before its four records of 4 bytes.
_WMM, _WMM_RECORDS_AT = bytes.fromhex("0050f20201"), 8
_RECORD_BYTES, _BEST_EFFORT = 4, 0
#: Time in us of the codes of the least spacing of frames in an A-MPDU (9.4.2.55.3).
_SPACING_US = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
#: Exponents of the limit of an A-MPDU in bytes, which is 2^(exponent + code) - 1: of HT and VHT, of
#: HE where VHT is announced, too, and of HE where only HT is.
_HT_EXPONENT, _HE_BESIDE_VHT, _HE_BESIDE_HT = 13, 20, 16
#: HE operation (9.4.2.249): flags of its optional parts, their bytes, and bytes before them. The
#: last part is that of the 6 GHz band, whose second byte has the channel's width.
_VHT_PART, _HOSTED_PART, _UPPER_PART = 1 << 14, 1 << 15, 1 << 17
_VHT_PART_BYTES, _HOSTED_PART_BYTES, _PARTS_AT = 3, 1, 6
#: Bit of HE's physical capabilities for 80 MHz in 5 and 6 GHz, and the byte that has it.
_WIDTH_80, _WIDTHS_AT = 1 << 2, 6
#: Code of the longest A-MPDU by HE's 6 GHz capabilities, which HE's own extend (9.4.2.263).
_LONGEST_CODE = 7
#: Limit of an A-MPDU in HE (27.4.4).
_HE_LIMIT_BYTES = 6_500_631
#: Bits of HT's capabilities by width in MHz, and a bit of VHT's.
_SHORT_GUARDS, _WIDTH_40, _SHORT_GUARD_80 = {20: 1 << 5, 40: 1 << 6}, 1 << 1, 1 << 5
_UNIT_BPS, _IS_BASIC = 500_000, 0x80
#: Values in the list of rates that are no rates: what stations of the network must know, such as
#: SAE by hash to element (Table 9-93).
_SELECTORS = range(122, 128)
#: Streams of a map of MCS in VHT and HE, two bits each; 3 means none.
_STREAMS, _NO_MCS = 8, 3
#: Highest MCS by the code in these maps.
_VHT_MCS, _HE_MCS = (7, 8, 9), (7, 9, 11)


@dataclass(frozen=True)
class ChannelAccess:
    """WMM's parameters of best effort: AIFSN, windows and TXOP limit.

    Windows are in slots, the limit in units of 32 us.
    """

    aifsn: int
    cw_min: int
    cw_max: int
    txop: int


@dataclass(frozen=True)
class FormatCapabilities:
    """The capabilities of a sender in one format: HT, VHT or HE.

    `width_mhz` is the width of a network's channel, or the widest that a station can use.
    `highest_mcs` is the highest MCS of each stream, by the number of streams. `short_guards_mhz`
    are the widths at which a short guard interval is received. An A-MPDU of `aggregate_bytes` is
    received whose frames begin `spacing_us` apart.
    """

    width_mhz: int
    highest_mcs: Mapping[int, int]
    short_guards_mhz: frozenset[int]
    aggregate_bytes: int
    spacing_us: float


@dataclass(frozen=True)
class Capabilities(FramePurpose):
    """The announcements in a management frame. `formats` are HT, VHT and HE, the newest last."""

    subtype: int
    transmitter: str
    receiver: str
    formats: Mapping[str, FormatCapabilities] = field(default_factory=dict)
    basic_rates_bps: frozenset[int] = frozenset()
    access: ChannelAccess | None = None


def read_capabilities(capture: Path) -> Iterator[Capabilities]:
    """Yield the announcements in the management frames of a capture of the air, in order.

    Raises:
        MeasureError: The file is no capture of the air.
    """
    for data in pcap.read_wlan_frames(capture):
        if not data[0] & pcap.TYPE and data[0] >> 4 in _FIXED_BYTES:
            yield parse_capabilities(data)


def parse_capabilities(data: bytes) -> Capabilities:
    """Parse a management frame of a known subtype, without radiotap header."""
    subtype = data[0] >> 4
    elements = _split_elements(data[MAC_HEADER_BYTES + _FIXED_BYTES[subtype]:])
    formats: dict[str, FormatCapabilities] = {}
    for name, parse in ((HT, _parse_ht), (VHT, _parse_vht), (HE, _parse_he)):
        found = parse(elements, formats)
        if found is not None:
            formats[name] = found
    rates = elements.get((_RATES, 0), b"") + elements.get((_MORE_RATES, 0), b"")
    return Capabilities(
        subtype, data[10:16].hex(":"), data[4:10].hex(":"), formats,
        frozenset((rate & ~_IS_BASIC) * _UNIT_BPS for rate in rates
                  if rate & _IS_BASIC and rate & ~_IS_BASIC not in _SELECTORS),
        _parse_access(elements.get((_VENDOR, 0), b"")))


#: Elements by ID and extended ID.
_Elements = Mapping[tuple[int, int], bytes]


def _split_elements(data: bytes) -> _Elements:
    """Return the whole elements of a frame. Of vendors', only WMM's parameters are returned."""
    found: dict[tuple[int, int], bytes] = {}
    at = 0
    while at + 2 <= len(data) and at + 2 + data[at + 1] <= len(data):
        element, value = data[at], data[at + 2:at + 2 + data[at + 1]]
        at += 2 + len(value)
        if element == _EXTENDED and value:
            found[element, value[0]] = value[1:]
        elif element != _VENDOR or value.startswith(_WMM):
            found[element, 0] = value
    return {key: value for key, value in found.items() if len(value) >= _LEAST_BYTES.get(key, 0)}


def _parse_ht(elements: _Elements, _: Mapping[str, FormatCapabilities]
              ) -> FormatCapabilities | None:
    """Parse HT capabilities and operation (9.4.2.55, 9.4.2.56)."""
    element, operation = elements.get((_HT_CAPABILITIES, 0)), elements.get((_HT_OPERATION, 0))
    if element is None:
        return None
    info = int.from_bytes(element[:2], "little")
    is_wide = info & _WIDTH_40 if operation is None else operation[1] & 3 and operation[1] & 4
    return FormatCapabilities(
        40 if is_wide else 20,
        {stream + 1: mcs.bit_length() - 1 for stream, mcs in enumerate(element[3:7]) if mcs},
        frozenset(width for width, bit in _SHORT_GUARDS.items() if info & bit),
        (1 << _HT_EXPONENT + (element[2] & 3)) - 1, _SPACING_US[element[2] >> 2 & 7])


def _parse_vht(elements: _Elements, formats: Mapping[str, FormatCapabilities]
               ) -> FormatCapabilities | None:
    """Parse VHT capabilities and operation (9.4.2.157, 9.4.2.158)."""
    element, operation = elements.get((_VHT_CAPABILITIES, 0)), elements.get((_VHT_OPERATION, 0))
    if element is None or HT not in formats:
        return None
    info, ht = int.from_bytes(element[:4], "little"), formats[HT]
    return FormatCapabilities(
        80 if operation is None or operation[0] else ht.width_mhz,
        _parse_map(element[4:6], _VHT_MCS),
        ht.short_guards_mhz | (frozenset({80}) if info & _SHORT_GUARD_80 else frozenset()),
        (1 << _HT_EXPONENT + (info >> 23 & 7)) - 1, ht.spacing_us)


def _parse_he(elements: _Elements, formats: Mapping[str, FormatCapabilities]
              ) -> FormatCapabilities | None:
    """Parse HE capabilities, which extend VHT or HT capabilities (9.4.2.248)."""
    element, before = elements.get((_EXTENDED, _HE_CAPABILITIES)), formats.get(VHT, formats.get(HT))
    if element is not None and before is None:
        return _parse_he_in_6_ghz(element, elements)
    if element is None or before is None:
        return None
    extension = element[3] >> 3 & 3
    longest = (1 << (_HE_BESIDE_VHT if VHT in formats else _HE_BESIDE_HT) + extension) - 1
    return FormatCapabilities(
        before.width_mhz, _parse_map(element[17:19], _HE_MCS), frozenset(),
        min(longest, _HE_LIMIT_BYTES) if extension else before.aggregate_bytes, before.spacing_us)


def _parse_he_in_6_ghz(element: bytes, elements: _Elements) -> FormatCapabilities | None:
    """Parse HE capabilities in the 6 GHz band, which has neither HT nor VHT (9.4.2.263)."""
    band = elements.get((_EXTENDED, _HE_6_GHZ))
    if band is None:
        return None
    operation, codes = elements.get((_EXTENDED, _HE_OPERATION)), int.from_bytes(band[:2], "little")
    if operation is None:
        width_mhz = 80 if element[_WIDTHS_AT] & _WIDTH_80 else 20
    else:
        flags = int.from_bytes(operation[:3], "little")
        at = _PARTS_AT + _VHT_PART_BYTES * bool(flags & _VHT_PART) + (
            _HOSTED_PART_BYTES * bool(flags & _HOSTED_PART))
        width_mhz = 20 << (operation[at + 1] & 3) if (
            flags & _UPPER_PART and len(operation) > at + 1) else 0
    code, extension = codes >> 3 & 7, element[3] >> 3 & 3
    longest = (1 << (_HE_BESIDE_VHT + extension if extension and code == _LONGEST_CODE
                     else _HT_EXPONENT + code)) - 1
    return FormatCapabilities(width_mhz, _parse_map(element[17:19], _HE_MCS), frozenset(),
                              min(longest, _HE_LIMIT_BYTES), _SPACING_US[codes & 7])


def _parse_map(octets: bytes, highest: Sequence[int]) -> dict[int, int]:
    """Return the highest MCS by number of streams, from a map of VHT or HE."""
    codes = int.from_bytes(octets, "little")
    return {stream + 1: highest[code] for stream in range(_STREAMS)
            if (code := codes >> 2 * stream & 3) != _NO_MCS}


def _parse_access(element: bytes) -> ChannelAccess | None:
    for at in range(_WMM_RECORDS_AT, len(element) - _RECORD_BYTES + 1, _RECORD_BYTES):
        record = element[at:at + _RECORD_BYTES]
        if record[0] >> 5 & 3 == _BEST_EFFORT:
            return ChannelAccess(record[0] & 15, (1 << (record[1] & 15)) - 1,
                                 (1 << (record[1] >> 4)) - 1, int.from_bytes(record[2:], "little"))
    return None
