"""Checks on packets and kernel state that prove a policy, layer by layer.

No check relies on a daemon's statement. Each names its counts, so that a reader can repeat it on
the captures. `verify_layers` combines the checks of a policy; a study with other claims uses them
one by one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence

from measure import (
    dissect,
    esp_heads,
    heads,
    key_management,
    marked,
    pairwise,
    post_quantum,
    suites,
    tunnels,
)
from measure.air_header import MAC_HEADER_BYTES
from measure.dissect import Packet
from measure.esp_heads import EspHeads
from measure.heads import OpenedHeads
from measure.observed import Check, Observed, join_values
from measure.points import AUTH, MOVE, TRAFFIC
from policies import Dot1xLayer, IpsecLayer, LinkLayer, Policy
from policies.dot1x import BY_CARD
from policies.link import EXCHANGED

_EAP_TYPES = {"MD5": 4, "TLS": 13, "TTLS": 21, "PEAP": 25, "PWD": 52, "AKA": 23, "AKA'": 50}
_EAP_OVERHEAD_TYPES = frozenset({1, 2, 3})  # Identity, Notification, Nak
#: Captures behind the visited access point, if traffic moves there, and behind the peer's access
#: point, if it is another one.
_FAR = ("traffic-foreign", "traffic-far")
_CLEAR_POINTS = ("auth-wire", "auth-foreign", "traffic-wire", *_FAR, "auth-air", "traffic-air")
_IPSEC_POINTS = ("auth-wire", "auth-foreign", "traffic-wire", *_FAR, "traffic-core")
#: Two directions, at both ends.
_SAS_OF_A_PAIR = 4
_LLC_BYTES = 8
_IKE_PACKETS = {1: 9, 2: 4}  # IKEv1: main mode 6, quick mode 3; IKEv2: IKE_SA_INIT 2, IKE_AUTH 2
#: A further key exchange adds IKE_INTERMEDIATE in both directions.
_INTERMEDIATES = 2


def verify_layers(policy: Policy, observed: Observed) -> list[Check]:
    """Return all checks of the policy's layers, including those for layers that must be absent."""
    has = policy.layers
    checks = [*check_completeness(observed), *check_association(observed)]
    checks += check_link(has.link, observed) if has.link else check_open_air(observed)
    checks += check_dot1x(has.dot1x, observed) if has.dot1x else check_no_dot1x(has.link, observed)
    return [*checks, *(check_ipsec(has.ipsec, observed) if has.ipsec else check_no_ipsec(observed))]


def check_completeness(observed: Observed) -> Iterator[Check]:
    """Check that no capture lost a packet, and state what sampling left out."""
    dropped = sum(max(0, c["dropped"]) for c in observed.raw["captures"])
    unknown = [c["point"] for c in observed.raw["captures"] if c["dropped"] < 0]
    one_in = max((c.get("one_in", 1) for c in observed.raw["captures"]), default=1)
    yield Check("captures are complete",
                bool(observed.raw["captures"]) and not dropped and not unknown,
                f"{sum(c['captured'] for c in observed.raw['captures'])} packets, {dropped} dropped"
                + (f", no count for {', '.join(unknown)}" if unknown else "")
                + (f"; of streams, 1 in {one_in} of the expected packets is kept, and all "
                   "unexpected ones" if one_in > 1 else ""))


def check_association(observed: Observed) -> Iterator[Check]:
    """Check that the access point's kernel lists the mobile node, in each network."""
    associated = [flags.get("associated", "no") for flags in observed.stations]
    yield Check("station is associated", set(associated) == {"yes"},
                f"access point's kernel: associated {', '.join(associated)}")


def check_open_air(observed: Observed) -> Iterator[Check]:
    """Check that no frame is protected by the link layer."""
    protected = sum(p.protected for p in observed.air)
    yield Check("air is open", bool(observed.air) and not protected,
                f"{protected} of {len(observed.air)} data frames protected")


def check_link(layer: LinkLayer, observed: Observed) -> Iterator[Check]:
    """Check the link layer's cipher and keys, frame by frame."""
    frames = observed.air
    clear = [p for p in frames if not p.protected]
    wep = layer.cipher.startswith("WEP")
    vectors = [frame_counter(layer.cipher, p) for p in frames if p.protected]
    marked = [vector for vector in vectors if vector]
    yield Check(f"{layer.cipher} on every data frame",
                bool(frames) and not clear and len(marked) == len(frames),
                f"{len(marked)} of {len(frames)} data frames carry "
                f"{'a WEP IV' if wep else 'a packet number'}, {len(clear)} in clear")
    # A WEP IV counts per sender; other counters restart with every key. Two captures at the same
    # time contain the same frame.
    used = Counter((sender, receiver, vector) for _, sender, receiver, vector in {
        (p.time_s, p.transmitter, p.receiver, p.wep_iv) for p in frames if p.protected and wep})
    again = sum(many - 1 for (*_, vector), many in used.items() if vector)
    yield Check("initialisation vectors differ", len(set(marked)) > 1 and not again,
                f"{len(set(marked))} values in {len(marked)} frames"
                + (f", {again} of them used again between the same two" if wep else ""))
    yield from _check_wep_keys(layer, observed) if wep else key_management.verify(layer, observed)
    if observed.has_link_keys:
        yield _check_lengths(layer, observed)
        if layer.keys != "static":
            yield _check_decryption(layer, observed)
    elif layer.keys in EXCHANGED or layer.roaming:
        yield Check("frames open with the keys in force", ok=False,
                    detail="no kernel has told a key")


def _check_lengths(layer: LinkLayer, observed: Observed) -> Check:
    """Check that frames are as long as the airtime model charges.

    The overhead of each IP packet is a header without options, LLC and the cipher's expansion. Only
    decrypted frames count.
    """
    added = Counter(p.length - p.radiotap_bytes - MAC_HEADER_BYTES - _LLC_BYTES - p.ip_bytes
                    for p in observed.air if p.ip_bytes)
    return Check("frames are as long as the air charges",
                 set(added) == {layer.frame_expansion_bytes},
                 f"{', '.join(f'{many} add {size} bytes' for size, many in sorted(added.items()))}"
                 f" to their packets, {layer.frame_expansion_bytes} are charged")


def _check_decryption(layer: LinkLayer, observed: Observed) -> Check:
    """Check that frames decrypt with keys derived from captures and the run's secrets.

    Companions authenticated before the captures. Their frames decrypt with keys from the kernels,
    if the kernels show them.
    """
    told = bool(observed.raw.get("companion_keys"))
    macs = observed.macs if told else frozenset({observed.mac})
    is_open, detail = describe_decryption([p for p in observed.air
                                           if macs & {p.transmitter, p.receiver}],
                            "the keys of its negotiations"
                            + (" and its companions' by their kernels" if told else ""))
    readable, said = _count_readable(observed)
    begun = _verify_heads(layer, observed, macs)
    return Check("frames open with the keys in force",
                 is_open and not readable and not begun.closed, detail + begun.detail + said)


def _verify_heads(layer: LinkLayer, observed: Observed, macs: Collection[str]) -> OpenedHeads:
    """Decrypt the truncated frames of streams and check their first bytes."""
    keys = pairwise.temporal_keys(layer, observed.link_keys, [
        observed.folder / f"{part}-mn.pcap" for part in (observed.part or AUTH, MOVE)])
    if not keys:
        return OpenedHeads(0, ())
    return heads.verify_heads(layer, [observed.capture_path(name) for name in observed.captures
                                      if name.endswith("-air")], keys, macs, observed.addresses)


def _count_readable(observed: Observed) -> tuple[int, str]:
    """Count frames that are marked as protected but readable, including truncated ones."""
    return marked.count_in_files(observed.capture_path(name) for name in observed.captures
                                 if name.endswith("-air"))


def describe_decryption(frames: Sequence[Packet], keys: str) -> tuple[bool, str]:
    """Return whether all whole frames were protected and decrypted, with a description."""
    whole = [p for p in frames if p.is_decryptable]
    closed = [p for p in whole if not (p.protected and p.has_llc)]
    first = f"; the first that does not: {_describe_frame(closed[0])}" if closed else ""
    return bool(whole) and not closed, (
        f"{len(whole) - len(closed)} of {len(whole)} wholly captured data frames decrypt with "
        f"{keys}{first}")


def _describe_frame(frame: Packet) -> str:
    """Return the details of a frame that did not decrypt as it should."""
    vector = frame.wep_iv or frame.ccmp_iv or frame.tkip_iv
    how = (f"under the initialisation vector {vector or 'none'}" if frame.protected else "in clear")
    return (f"{frame.length} bytes from {frame.transmitter} to {frame.receiver} at "
            f"{frame.time_s:.6f} s, {how}")


def frame_counter(cipher: str, packet: Packet) -> str:
    """Return the counter in a frame's cipher header.

    For an encrypted CCMP frame, tshark reports TKIP if the second byte of the packet number matches
    TKIP's by chance. That happens for 1 of 64 numbers from 0x2000 to 0x3fff. The byte that would be
    the last one of TKIP's number, and change with each frame, is zero there.
    """
    if cipher.startswith("WEP"):
        return packet.wep_iv
    if cipher == "TKIP" or (packet.tkip_iv and not int(packet.tkip_iv, 16) & 0xFF):
        return packet.tkip_iv
    return packet.ccmp_iv


def _check_wep_keys(layer: LinkLayer, observed: Observed) -> Iterator[Check]:
    keys = [[p for p in stay if p.eapol_type == dissect.EAPOL_KEY]
            for stay in observed.by_attachment("auth-mn")]
    if layer.keys == "eap":
        late = [sum(p.time_s >= success for p in frames)
                for frames, success in zip(keys, _success_times(observed), strict=True)]
        yield Check("keys delivered by EAPOL-Key", min(late) >= 2,
                    f"{join_values(late)} EAPOL-Key frames after EAP-Success")
        return
    is_open, detail = describe_decryption(observed.air, "the policy's key")
    readable, said = _count_readable(observed)
    begun = _verify_heads(layer, observed, observed.macs)
    yield Check("static WEP key in use",
                is_open and not readable and not begun.closed and not any(keys),
                f"{detail}{begun.detail}{said}, {sum(map(len, keys))} EAPOL-Key frames")


def _success_times(observed: Observed) -> list[float]:
    """Return the time of EAP-Success in each attachment, infinity if there is none."""
    return [next((p.time_s for p in stay if p.eap_code == dissect.EAP_SUCCESS), float("inf"))
            for stay in observed.select_full(observed.by_attachment("auth-mn"))]


def check_dot1x(layer: Dot1xLayer, observed: Observed) -> Iterator[Check]:
    """Check the EAP method and the port that it opens."""
    stays = [[p for p in stay if p.is_eapol] for stay
             in observed.select_full(observed.by_attachment("auth-mn"))]
    used = [_last_method(frames) for frames in stays]
    offered = [_first_method(frames) for frames in stays]
    yield Check(f"EAP method {layer.eap}", set(used) == {_EAP_TYPES[layer.eap]}
                and set(offered) == {_EAP_TYPES[layer.first_offer]},
                f"EAP type {join_values(used)} completed, {join_values(offered)} offered first, "
                f"{sum(map(len, stays))} EAP and EAPOL frames")
    seen_at = [success < float("inf") for success in _success_times(observed)]
    yield Check("EAP-Success", all(seen_at),
                f"seen by the mobile node in {sum(seen_at)} of {len(seen_at)} negotiations")
    if layer.eap in BY_CARD:
        yield check_challenges(observed)
    yield from tunnels.verify(layer, stays, observed)
    yield from _check_port(observed)


def check_challenges(observed: Observed) -> Check:
    """Check each negotiation's challenge, response, MACs and keys against the subscriber's key."""
    ended = [sum((each.ended_s >= observed.moved_s) == away for each in observed.challenges)
             for away in range(len(observed.select_full(observed.by_attachment("auth-mn"))))]
    faults = [fault for each in observed.challenges for fault in each.faults]
    return Check("challenge of the subscriber's key", bool(ended) and set(ended) == {1}
                 and not faults, f"{join_values(ended)} authentications worked out again of the "
                 "subscriber's key, to the keys of the Access-Accept"
                 + "".join(f"; {fault}" for fault in faults[:3]))


def _first_method(frames: Sequence[Packet]) -> int | None:
    """Return the EAP method that the server proposed first."""
    return next((p.eap_type for p in frames if p.eap_code == dissect.EAP_REQUEST
                 and p.eap_type not in _EAP_OVERHEAD_TYPES), None)


def _last_method(frames: Sequence[Packet]) -> int | None:
    """Return the last EAP method, which follows any method rejected by a NAK."""
    methods = [p.eap_type for p in frames
               if p.eap_type and p.eap_type not in _EAP_OVERHEAD_TYPES]
    return methods[-1] if methods else None


def _check_port(observed: Observed) -> Iterator[Check]:
    gate = observed.raw.get("port_check") or {}
    sent, passed = len(observed.packets_of("port-air")), len(observed.packets_of("port-wire"))
    yield Check("port is closed before", gate.get("authorized") == "no"
                and gate.get("associated") is True and sent > 0 and not passed,
                "once in this testbed, with the RADIUS server held still: associated "
                f"{gate.get('associated', 'unknown')}, authorized "
                f"{gate.get('authorized', 'unknown')}; {sent} frames sent past its own kernel, "
                f"{passed} behind the access point")
    times = _success_times(observed)
    early = [p for stay, success
             in zip(observed.select_full(observed.by_attachment("auth-air")), times, strict=True)
             for p in _frames_since_join(stay, observed) if p.time_s < success and p.is_data
             and not p.is_eapol and observed.mac in (p.transmitter, p.receiver)]
    yield Check("only EAPOL before EAP-Success", max(times) < float("inf") and not early,
                f"{len(early)} other data frames from or to the mobile node")
    authorized = [flags.get("authorized", "no") for flags in observed.stations]
    wires = observed.select_full(observed.behind_access_points("auth"))
    behind = [sum(p.ethernet_src == observed.mac and p.time_s >= success for p in wire)
              for wire, success in zip(wires, times, strict=True)]
    yield Check("port is open after", set(authorized) == {"yes"} and min(behind) > 0,
                f"access point's kernel: authorized {', '.join(authorized)}; {join_values(behind)} "
                "packets of the mobile node's behind it")


def _frames_since_join(frames: Sequence[Packet], observed: Observed) -> Sequence[Packet]:
    """Return the frames from the mobile node's first frame to its new access point on.

    During traffic, earlier frames still pass the old access point, which sends to the node for a
    while, too. If the node disconnects first, all frames are returned.
    """
    first = next((p for p in frames if p.transmitter == observed.mac
                  and p.subtype == dissect.AUTHENTICATION_SUBTYPE), None)
    if first is None or not (observed.roaming or "pulses" in observed.raw):
        return frames
    others = observed.cells - {first.receiver}
    return [p for p in frames if p.time_s >= first.time_s and p.transmitter not in others]


def check_no_dot1x(layer: LinkLayer | None, observed: Observed) -> Iterator[Check]:
    """Check that there is no 802.1X, except the link layer's own handshake."""
    eap = [p for p in observed.packets_of("auth-mn") if p.eapol_type == dissect.EAPOL_EAP]
    keys = [p for p in observed.packets_of("auth-mn") if p.eapol_type == dissect.EAPOL_KEY]
    handshake_due = layer is not None and layer.has_own_handshake
    yield Check("no 802.1X", not eap and (handshake_due or not keys),
                f"{len(eap)} EAP frames, {len(keys)} EAPOL-Key frames")


def check_ipsec(layer: IpsecLayer, observed: Observed) -> Iterator[Check]:
    """Check the negotiation, the kernel's transforms, and that no packet bypasses the tunnel."""
    packets = [[p for p in stay if p.is_isakmp] for stay in observed.by_attachment("auth-mn")]
    # The tunnel survives a move within a subnet. If it follows its node, `following` checks it.
    if observed.tunnel_follows and observed.care_of:
        packets = packets[:1]
    isakmp = [len({p.ike_message_key for p in stay}) for stay in packets]
    again = sum(map(len, packets)) - sum(isakmp)
    each = _IKE_PACKETS[layer.ike] + (_INTERMEDIATES if layer.is_hybrid else 0)
    expected = [each if place == 0 or observed.renews_tunnel else 0
                for place in range(len(isakmp))]
    yield Check("ISAKMP packets", isakmp == expected,
                f"{join_values(isakmp)}, {join_values(expected)} expected; "
                f"{f'{again} more of messages sent again; ' if again else ''}"
                f"{join_values([sum(p.ip_bytes for p in stay) for stay in packets])} bytes")
    yield _check_proposal(layer, observed)
    if layer.is_post_quantum:
        yield post_quantum.verify(layer, [
            stay for stay, due in zip(packets, expected, strict=True) if due], observed.mac)
    yield _check_transforms(layer, observed)
    inner = [p for name in _CLEAR_POINTS for p in observed.packets_of(name)
             if _is_clear_inner(p, observed.addresses)]
    wires = [observed.carried, *(name for name in _FAR if name in observed.captures)]
    esp = [sum(p.ip_proto == dissect.ESP for p in observed.packets_of(name)) for name in wires]
    begun = EspHeads(
        0, 0) if observed.part or "esp_keys" not in observed.raw else esp_heads.verify_heads(
        (observed.capture_path(name) for name in observed.captures if name in _IPSEC_POINTS
         and name.startswith(TRAFFIC)), observed.raw["esp_keys"])
    yield Check("no clear inner packet", min(esp, default=0) > 0 and not inner and not begun.closed,
                f"{join_values(esp)} ESP packets between access point and agent{begun.detail}, "
                f"{len(inner)} packets of mobile nodes outside their tunnels")


def _check_proposal(layer: IpsecLayer, observed: Observed) -> Check:
    """Check the IKE proposal that the agent chose, in its own unencrypted packet."""
    chosen = [{p.ike_suite for p in stay if p.ike_suite and p.ethernet_src != observed.mac}
              for stay in observed.by_attachment("auth-mn")[:None if observed.renews_tunnel else 1]]
    return Check("IKE proposal", all(suites == {layer.ike_proposal} for suites in chosen),
                 f"{join_values([', '.join(sorted(suites)) or 'none' for suites in chosen])} "
                 "chosen, "
                 f"{layer.ike_proposal} expected")


def _is_clear_inner(packet: Packet, addresses: frozenset[str]) -> bool:
    return (bool(addresses & {packet.ip_src, packet.ip_dst}) and packet.ip_proto != dissect.ESP
            and not packet.is_isakmp and not packet.is_mobile_ip)


def _check_transforms(layer: IpsecLayer, observed: Observed) -> Check:
    """Check the SAs of the mobile node, every companion and the agents."""
    kernel, expected = observed.raw["kernel"], suites.kernel_algorithms(layer.esp_proposal)
    pairs = [kernel.get("after_traffic", {}), *(
        kernel.get("companions", {}).get(name, {}).get("sas", {}) for name in observed.companions)]
    ends = [[state for node in pair.values() for state in node] for pair in pairs]
    agents = [state for node in kernel.get("agents", {}).values() for state in node]
    states = [state for pair in ends for state in pair]
    good = [state for state, mode in (*((state, layer.mode) for state in states),
                                      *((state, "tunnel") for state in agents))
            if state.get("proto") == "esp" and state.get("mode") == mode
            and suites.sa_algorithms(state) == expected]
    packets = [state.get("packets", 0) for state in states]
    complete = all(len(pair) == _SAS_OF_A_PAIR for pair in ends) and (
        len(observed.agents) < 2 or len(agents) >= _SAS_OF_A_PAIR)
    return Check("ESP transforms in the kernel",
                 complete and len(good) == len(states) + len(agents)
                 and min(packets, default=0) > 0,
                 f"{len(good)} of {len(states)} SAs of mobile nodes and {len(agents)} between "
                 f"agents are ESP {layer.mode} with {', '.join(sorted(expected))}; "
                 f"packets {packets}")


def check_no_ipsec(observed: Observed) -> Iterator[Check]:
    """Check that there are no ESP packets."""
    esp = sum(p.ip_proto == dissect.ESP for name in _IPSEC_POINTS for p
              in observed.packets_of(name))
    yield Check("no IPsec", not esp, f"{esp} ESP packets")
