"""Check that a mobile node was in the VLAN of its policy (IEEE 802.1Q, RFC 3580).

`check_vlan` takes the link layer of a policy, and the results of a repetition (one measurement of
the policy). The RADIUS server's Access-Accept or the device's passphrase selects the VLAN. On the
wire behind the access point, each frame of the mobile node has the tag of this VLAN. The access
point's kernel has the node at an interface that is bridged only with this VLAN. ARP requests with
other tags, or without a tag, do not reach the node (`measure.attacks.vlan_probes`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from measure.attacks.vlan_probes import OTHER, OWN, SENDERS, UNTAGGED
from measure.capture import pcap
from measure.capture.pcap import CapturedFrame
from measure.capture.tcpdump import AUTH, TRAFFIC
from measure.checks.observation import Check, Observation, join_values
from measure.packets import eap
from policies import LinkLayer

_VLAN, _ARP = 0x8100, 0x0806
#: Bits of a tag with the number of the VLAN, and bytes of a tag.
_NUMBER, _TAG_BYTES = 0x0FFF, 4
#: Offset of the sender's IP address in an ARP packet, and the operation of a request.
_SENDER, _REQUEST = 14, b"\0\1"


def check_vlan(layer: LinkLayer, observed: Observation) -> Iterator[Check]:
    """Yield the checks for a policy that puts stations into a VLAN."""
    vlan = _find_vlan(layer, observed, observed.mac)
    if layer.keys == "eap":
        yield _check_accepts(vlan, observed)
    yield _check_tags(vlan, observed)
    yield _check_kernels(vlan, observed)
    yield _check_probes(vlan, observed)
    if layer.further_vlans:
        yield _check_companions(layer, observed)


def _find_vlan(layer: LinkLayer, observed: Observation, mac: str) -> int:
    """Return the VLAN of a station.

    The stations of a network get the VLANs of the policy in turn.
    """
    place = observed.station_macs.index(mac) if mac in observed.station_macs else 0
    return layer.all_vlans[place % len(layer.all_vlans)]


def _check_companions(layer: LinkLayer, observed: Observation) -> Check:
    """Check that each station except the mobile node is in its VLAN.

    The access point's kernel has the bridges of the stations. On the wire, the frames of each
    station have the tag of its VLAN.
    """
    states: Mapping[str, Mapping[str, Any]] = observed.raw["kernel"].get("companion_vlans", {})
    expected = {name: _find_vlan(layer, observed, mac)
                for name, mac in sorted(observed.companion_macs.items())}
    texts, is_right = [], bool(states) and states.keys() == expected.keys()
    for name, state in states.items():
        vlan = expected.get(name, 0)
        found = sorted({port["vlan"] for port in state["ports"].values()})
        is_right = is_right and bool(state["interface"]) and found == [vlan]
        texts.append(f"{name} is bridged with VLAN {', '.join(map(str, found)) or 'none'}, "
                     f"{vlan} expected")
    tags = Counter((name, read_tag(frame)) for part in (AUTH, TRAFFIC)
                   if (file := observed.capture_path(f"{part}-wire")).exists()
                   for frame in pcap.read_frames(file)
                   for name, mac in observed.companion_macs.items()
                   if bytes.fromhex(mac.replace(":", "")) in (frame.data[:6], frame.data[6:12]))
    strange = sum(many for (name, tag), many in tags.items() if tag != expected.get(name))
    return Check("other stations are in their VLANs", is_right and not strange,
                 f"{'; '.join(texts) or 'no kernel has told of them'}; {strange} of "
                 f"{tags.total()} frames of theirs on the wire have another tag")


def read_tag(frame: CapturedFrame) -> int:
    """Return the VLAN in a frame's tag, 0 for a frame without one."""
    if frame.kind != _VLAN:
        return 0
    return int.from_bytes(frame.payload[:2], "big") & _NUMBER


def _check_accepts(vlan: int, observed: Observation) -> Check:
    """Check that each Access-Accept names the VLAN, and is authentic."""
    found = []
    for name in observed.select_full(["wire", "foreign"] if observed.moves else ["wire"]):
        file = observed.capture_path(f"{AUTH}-{name}")
        requests: dict[int, bytes] = {}
        vlans: list[int | None] = []
        for _, message in pcap.udp_payloads(file, eap.RADIUS_PORT) if file.exists() else ():
            if message[:1] == bytes((eap.ACCESS_REQUEST,)):
                requests[message[1]] = message[4:20]
            elif message[:1] == bytes((eap.ACCESS_ACCEPT,)) and eap.is_authentic(
                    message, observed.radius_secret, requests.get(message[1], b"")):
                vlans.append(eap.read_tunnel_vlan(message))
        found.append(vlans)
    return Check("VLAN from the RADIUS server", bool(found) and all(
        vlans and set(vlans) == {vlan} for vlans in found),
        f"{join_values([', '.join(map(str, vlans)) or 'no Access-Accept' for vlans in found])} in "
        f"authentic Access-Accepts, {vlan} expected")


def _check_tags(vlan: int, observed: Observation) -> Check:
    """Check that the node's frames on wires behind its access points have the VLAN's tag."""
    node = bytes.fromhex(observed.mac.replace(":", ""))
    tags, is_everywhere = Counter[int](), True
    for part in (AUTH, TRAFFIC):
        for name in ("wire", "foreign"):
            file = observed.capture_path(f"{part}-{name}")
            own = [frame for frame in pcap.read_frames(file)
                   if node in (frame.data[:6], frame.data[6:12])] if file.exists() else []
            is_everywhere = is_everywhere and (bool(own) or not file.exists() or part == TRAFFIC)
            tags.update(map(read_tag, own))
    return Check("VLAN tag on the wire", is_everywhere and set(tags) == {vlan},
                 ", ".join(f"{many} frames of the mobile node with {_describe_tag(tag)}"
                           for tag, many in sorted(tags.items())) or "no frame")


def _describe_tag(tag: int) -> str:
    return f"tag {tag}" if tag else "no tag"


def _check_kernels(vlan: int, observed: Observation) -> Check:
    """Check that the access point's kernel bridges the station with its VLAN alone."""
    states: Mapping[str, Mapping[str, Any]] = observed.raw["kernel"].get("vlans", {})
    good = [name for name, state in states.items() if state["interface"] and state["ports"] and all(
        port["vlan"] == vlan for port in state["ports"].values())]
    text = "; ".join(f"{name}: {state['interface'] or 'no interface'} in bridge "
                     f"{state['bridge'] or 'none'} with {', '.join(state['ports']) or 'no port'}"
                     for name, state in states.items())
    return Check("station is in its VLAN's bridge", bool(states) and len(good) == len(states),
                 text or "no kernel has told of a VLAN")


def _check_probes(vlan: int, observed: Observation) -> Check:
    """Check that requests reach the node in its own VLAN, and neither in another nor without."""
    last = "foreign" if observed.moves else "wire"
    sent, arrived = (_find_probes(observed, f"{AUTH}-{name}") for name in (last, "mn"))
    # The tag that the wire shows counts, not the name of the probe.
    tags = {tag for tag, _ in sent}
    got = {kind for _, kind in arrived}
    own = {kind for tag, kind in sent if tag == vlan}
    return Check("other VLANs do not reach the station",
                 {0, vlan} < tags and {kind for _, kind in sent} == {UNTAGGED, OWN, OTHER}
                 and bool(own) and got == own,
                 f"requests with {', '.join(map(_describe_tag, sorted(tags))) or 'nothing'} on "
                 f"the wire; {', '.join(sorted(got)) or 'none'} arrived at the mobile node")


def _find_probes(observed: Observation, capture: str) -> set[tuple[int, str]]:
    """Return the probes in a capture: the VLAN of its tag (0 for none), and its kind."""
    file = observed.capture_path(capture)
    found = set()
    for frame in pcap.read_frames(file) if file.exists() else ():
        tag = read_tag(frame)
        kind, packet = frame.kind, frame.payload
        if frame.kind == _VLAN:
            kind, packet = int.from_bytes(packet[2:4], "big"), packet[_TAG_BYTES:]
        if kind == _ARP and packet[6:8] == _REQUEST and packet[_SENDER:_SENDER + 4] in SENDERS:
            found.add((tag, SENDERS[packet[_SENDER:_SENDER + 4]]))
    return found
