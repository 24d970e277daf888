"""Check that beacons hide the SSID, and that the station probes for it by name."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from measure import pcap
from measure.air_header import MAC_HEADER_BYTES
from measure.observed import Check, Observed
from policies import Policy

#: Name of the check in policies/daemon_options.yml.
NAME = "hidden network"
_BEACON, _PROBE_REQUEST = 0x80, 0x40
#: Timestamp, interval and capabilities, before a beacon's elements (bytes).
_BEACON_FIELDS_BYTES = 12
_SSID = 0


def hides_ssid(policy: Policy) -> bool:
    """Return whether a policy's access points omit the SSID from beacons."""
    return any(setting.name == "ignore_broadcast_ssid" and str(setting.value) != "0"
               for setting in policy.layers.option_settings())


def verify(observed: Observed) -> Check:
    """Return the check of a hidden network, from the air during authentication and stream.

    The stream is needed because an authentication may end between two beacons.
    """
    names: dict[int, list[bytes]] = {_BEACON: [], _PROBE_REQUEST: []}
    for file in (observed.capture_path("auth-air"), observed.capture_path("traffic-air")):
        for data in _read_frames(file) if file.exists() else ():
            sender = ":".join(f"{octet:02x}" for octet in data[10:16])
            if data[0] == _BEACON or (data[0] == _PROBE_REQUEST and sender == observed.mac):
                names[data[0]].append(_parse_ssid(data))
    named = sum(bool(name.strip(b"\0")) for name in names[_BEACON])
    asked = sum(bool(name) for name in names[_PROBE_REQUEST])
    return Check(NAME, bool(names[_BEACON]) and not named and bool(asked),
                 f"{named} of {len(names[_BEACON])} beacons name the network, {asked} of "
                 f"{len(names[_PROBE_REQUEST])} probe requests of the mobile node's")


def _read_frames(file: Path) -> Iterator[bytes]:
    has_radio = pcap.read_link_type(file) == pcap.RADIOTAP
    for frame in pcap.read_frames(file, pcap.IEEE802_11):
        data = frame.data[int.from_bytes(frame.data[2:4], "little") if has_radio else 0:]
        if len(data) > MAC_HEADER_BYTES:
            yield data


def _parse_ssid(data: bytes) -> bytes:
    at = MAC_HEADER_BYTES + (_BEACON_FIELDS_BYTES if data[0] == _BEACON else 0)
    while at + 2 <= len(data):
        element, size = data[at], data[at + 1]
        if element == _SSID:
            return data[at + 2:at + 2 + size]
        at += 2 + size
    return b""
