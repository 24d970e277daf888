"""Check from captures and kernel state that a measured network applied its security policy.

A policy has layers: link (Wi-Fi), 802.1X and IPsec. `verify_layers` takes a policy and the packets
of a repetition (one measurement of the policy), and returns a list of checks. A layer that the
policy lacks must be absent from the packets, too. Each check has a statement, whether it holds, and
the counts behind it. No check relies on a daemon's statement. A study can also call one check
alone, such as `check_link`. Checks of TLS inside EAP are in `eap_tunnel`, those of WPA2 and WPA3
key management in `key_management`.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Collection, Iterator, Sequence

from measure.capture import pcap, tshark
from measure.capture.pcap import MAC_HEADER_BYTES
from measure.capture.tcpdump import AUTH, MOVE, TRAFFIC
from measure.capture.tshark import Packet
from measure.checks import eap_tunnel, key_management, physical_layer
from measure.checks.computed_packets import check_computed_packets, check_computed_radius
from measure.checks.observation import Check, Observation, join_values
from measure.packets import decryption_keys, ike, truncated_frames
from measure.packets.truncated_frames import DecryptedEspHeads, DecryptedFrameHeads
from policies import Dot1xLayer, IpsecLayer, LinkLayer, Policy
from policies.eap_methods import METHODS, USIM_METHODS
from policies.link import EXCHANGED, FRAME_EXPANSION_BYTES
from policies.proposals import AEADS
from topologies.model import IPV4, IPV6, Medium

# --- ML-KEM in IKEv2, by message lengths ---
# No other message is as long.

#: Exchange type and name, with ML-KEM as first and as additional key exchange (RFC 9370).
_FIRST, _LATER = (34, "IKE_SA_INIT"), (43, "IKE_INTERMEDIATE")
#: Encapsulation key and ciphertext of ML-KEM-768 (FIPS 203, table 3), in bytes.
_KEY_BYTES, _CIPHERTEXT_BYTES = 1184, 1088
_IPV4_UDP_BYTES, _IPV6_UDP_BYTES = 28, 48


def check_ml_kem(layer: IpsecLayer, stays: Sequence[Sequence[Packet]], mac: str) -> Check:
    """Check that an ML-KEM key and ciphertext passed in the IKE packets at each access point.

    Another check states that ML-KEM-768 was chosen; IKE_INTERMEDIATE is encrypted, so its size
    counts.
    """
    kind, name = _LATER if layer.is_hybrid else _FIRST
    sizes = [[_message_bytes([p for p in packets if p.isakmp_exchange == kind
                              and (p.ethernet_src == mac) == is_sent]) for is_sent in (True, False)]
             for packets in stays]
    text = "; ".join(f"{sent or 'no'} bytes sent, {back or 'none'} back" for sent, back in sizes)
    return Check("ML-KEM-768 is exchanged", bool(stays) and all(
        sent > _KEY_BYTES and back > _CIPHERTEXT_BYTES for sent, back in sizes),
        f"{name}: {text}, more than {_KEY_BYTES} and {_CIPHERTEXT_BYTES} expected")


def _message_bytes(packets: Sequence[Packet]) -> int:
    """Return the size of an IKE message in bytes, over all its fragments.

    Retransmissions are not counted. IKE_SA_INIT has no fragments (RFC 7383, 2.5). It may be sent
    again with a cookie, so its size is that of the largest message.
    """
    sizes = {_udp_payload_bytes(p) for p in packets}
    return max(sizes, default=0) if packets and packets[0].isakmp_exchange == _FIRST[0] \
        else sum(sizes)


def _udp_payload_bytes(packet: Packet) -> int:
    """Return the payload of a UDP datagram in bytes."""
    return packet.ip_bytes - (_IPV6_UDP_BYTES if packet.is_ipv6 else _IPV4_UDP_BYTES)


# --- Layers of a policy: link, 802.1X and IPsec ---

_EAP_OVERHEAD_TYPES = frozenset({1, 2, 3})  # Identity, Notification, Nak
#: Captures behind the visited access point, if traffic moves there, and behind the peer's access
#: point, if it is another one.
_FAR = ("traffic-foreign", "traffic-far")
_CLEAR_POINTS = ("auth-wire", "auth-foreign", "traffic-wire", *_FAR, "auth-air", "traffic-air")
_IPSEC_POINTS = ("auth-wire", "auth-foreign", "traffic-wire", *_FAR, "traffic-core")
#: Two directions, at both ends.
_SAS_OF_A_PAIR = 4
_LLC_BYTES, _CHECKSUM_BYTES = 8, 4
#: Bit of the first byte of a group address.
_GROUP = 0x01
_IKE_PACKETS = {1: 9, 2: 4}  # IKEv1: main mode 6, quick mode 3; IKEv2: IKE_SA_INIT 2, IKE_AUTH 2
_IKE_AUTH = 35
#: What the first IKE_AUTH message of each end proves its identity by.
_SECRET, _SIGNATURE, _SIGNED_CERTIFICATE = "no signature", "signature", "signature and certificate"
_PROOFS_OF_ENDS = {
    "pubkey": (_SIGNATURE, _SIGNATURE), "psk": (_SECRET, _SECRET),
    "certificate": (_SIGNED_CERTIFICATE, _SIGNED_CERTIFICATE),
    **dict.fromkeys(("eap-tls", "eap-mschapv2"), (_SECRET, _SIGNED_CERTIFICATE))}
#: Least bytes of a first IKE_AUTH message with each of them: identities, ESP proposal, selectors
#: and notifies take fewer than 400 bytes.
_LEAST_BYTES = ((_SIGNED_CERTIFICATE, 900), (_SIGNATURE, 400), (_SECRET, 1))
#: Further packets of EAP inside IKE_AUTH, and of the proof of the keys. EAP-MSCHAPv2 has a response
#: to the challenge, and an acknowledgement of success (draft-kamath-pppext-eap-mschapv2).
_PACKETS_OF_EAP = {"eap-tls": 12, "eap-mschapv2": 6}
#: A further key exchange adds IKE_INTERMEDIATE in both directions.
_INTERMEDIATES = 2


def verify_layers(policy: Policy, observed: Observation) -> list[Check]:
    """Return all checks of a policy's layers. A layer that the policy lacks must be absent."""
    has = policy.layers
    checks = [*check_completeness(observed), *check_association(observed),
              *physical_layer.check_physical_layer(observed)]
    checks += check_link(has.link, observed) if has.link else check_open_air(observed)
    checks += check_dot1x(has.dot1x, observed, is_suite_b=has.is_suite_b) if has.dot1x else \
        check_no_dot1x(has.link, observed)
    return [*checks, *(check_ipsec(has.ipsec, observed) if has.ipsec else check_no_ipsec(observed))]


def check_completeness(observed: Observation) -> Iterator[Check]:
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


def check_association(observed: Observation) -> Iterator[Check]:
    """Check that each access point's kernel lists the mobile node as a station."""
    associated = [flags.get("associated", "no") for flags in observed.stations]
    yield Check("station is associated", set(associated) == {"yes"},
                f"access point's kernel: associated {', '.join(associated)}")


def check_open_air(observed: Observation) -> Iterator[Check]:
    """Check that no frame on the air is encrypted, for a policy with an open link."""
    protected = sum(p.protected for p in observed.air)
    yield Check("air is open", bool(observed.air) and not protected,
                f"{protected} of {len(observed.air)} data frames protected")


def check_link(layer: LinkLayer, observed: Observation) -> Iterator[Check]:
    """Check cipher and keys of the Wi-Fi link, frame by frame."""
    frames = observed.air
    clear = [p for p in frames if not p.protected]
    wep = layer.cipher.startswith("WEP")
    vectors = [frame_counter(_cipher_of(layer, p, observed), p) for p in frames if p.protected]
    marked = [vector for vector in vectors if vector]
    yield Check(f"{layer.cipher} on every data frame",
                bool(frames) and not clear and len(marked) == len(frames),
                f"{len(marked)} of {len(frames)} data frames carry "
                f"{'a WEP IV' if wep else 'a packet number'}, {len(clear)} in clear")
    # A WEP IV counts per sender; other counters restart with every key. Two captures at the same
    # time contain the same frame.
    used = Counter((sender, receiver, vector) for _, sender, receiver, vector in {
        (p.time_s, p.transmitter, p.receiver, p.wep_iv) for p in frames if p.protected and wep})
    reused = sum(many - 1 for (*_, vector), many in used.items() if vector)
    yield Check("initialisation vectors differ", len(set(marked)) > 1 and not reused,
                f"{len(set(marked))} values in {len(marked)} frames"
                + (f", {reused} of them used again between the same two" if wep else ""))
    yield from _check_wep_keys(layer, observed) if wep else key_management.check_key_management(
        layer, observed)
    if observed.has_link_keys:
        if not observed.raw.get("cards"):  # real radios need no model of airtime
            yield _check_lengths(layer, observed)
        if layer.keys != "static":
            yield from _check_decryption(layer, observed)
    elif layer.keys in EXCHANGED or layer.roaming:
        yield Check("frames open with the keys in force", ok=False,
                    detail="no kernel has told a key")


def _check_lengths(layer: LinkLayer, observed: Observation) -> Check:
    """Check that frames have the length that the airtime model assumes.

    The overhead of each IP packet is a header without options, LLC and the cipher's expansion. Only
    decrypted frames count.
    """
    medium, cells = observed.phy_medium, observed.cells
    added = Counter((p.length - p.radiotap_bytes - _header_bytes(p, medium, cells) - _LLC_BYTES
                     - p.ip_bytes, FRAME_EXPANSION_BYTES[_cipher_of(layer, p, observed)])
                    for p in observed.air if p.ip_bytes)
    sizes = Counter[int]()
    for (size, _), many in added.items():
        sizes[size] += many
    to_all = f" ({layer.group_expansion_bytes} to frames to all)" if layer.group_cipher else ""
    return Check("frames are as long as the air charges",
                 bool(added) and all(size == charged for size, charged in added),
                 f"{', '.join(f'{many} add {size} bytes' for size, many in sorted(sizes.items()))}"
                 f" to their packets, {layer.frame_expansion_bytes} are charged{to_all}")


def _cipher_of(layer: LinkLayer, packet: Packet, observed: Observation) -> str:
    """Return the cipher of a frame: the group cipher in an access point's frame to all."""
    return (layer.group_cipher or layer.cipher) if _is_to_all(packet, observed.cells) \
        else layer.cipher


def _is_to_all(packet: Packet, cells: Collection[str]) -> bool:
    """Return whether a frame is an access point's to a group address."""
    return packet.transmitter in cells and bool(int(packet.receiver[:2], 16) & _GROUP)


def _header_bytes(packet: Packet, medium: Medium | None, cells: Collection[str]) -> int:
    """Return the length of the MAC header that the air charges for a frame, without checksum."""
    if medium is None:
        return MAC_HEADER_BYTES
    is_to_all = _is_to_all(packet, cells)
    return (medium.group_mac_bytes if is_to_all else medium.mac_bytes) - _CHECKSUM_BYTES


def _check_decryption(layer: LinkLayer, observed: Observation) -> Iterator[Check]:
    """Check that frames decrypt with keys derived from captures and the run's secrets.

    Further mobile nodes authenticated before the captures. Their frames decrypt with keys from the
    kernels, if the kernels show them.
    """
    has_keys = bool(observed.raw.get("companion_keys"))
    macs = observed.macs if has_keys else frozenset({observed.mac})
    is_open, detail = describe_decryption([p for p in observed.air
                                           if macs & {p.transmitter, p.receiver}],
                                          "the keys of its negotiations"
                            + (" and its companions' by their kernels" if has_keys else ""))
    readable, example = _count_readable(observed)
    begun = _verify_heads(layer, observed, macs)
    yield Check("frames open with the keys in force",
                is_open and not readable and not begun.closed, detail + begun.detail + example)
    interval_s = _group_rekey_s(layer)
    times_s = [] if observed.part else [p.time_s for p in observed.packets_of("traffic-air")]
    if interval_s and times_s and max(times_s) - min(times_s) >= interval_s:
        yield _check_group_renewal(interval_s, begun.group_messages,
                                   int((max(times_s) - min(times_s)) / interval_s))


#: By how much a renewal may be late (s).
_RENEWED_LATE_S = 0.25
#: After this time hostapd repeats the first message 1 that a station has not answered (s).
_GROUP_RETRY_S = 0.5
#: By how much such a repeated message may be late (s).
_GROUP_RETRY_LATE_S = 0.05


def _group_rekey_s(layer: LinkLayer) -> int:
    """Return hostapd's interval between group keys in s, 0 for none."""
    value = str(layer.options.hostapd.get("wpa_group_rekey", 0))
    return int(value) if value.isdecimal() else 0


def _check_group_renewal(interval_s: int, messages: Sequence[tuple[float, bool]],
                         due: int) -> Check:
    """Check that the access point renewed the group key at its intervals during the streams.

    Message 1 of each group key handshake has the new key. Message 2 may be captured whole, and is
    not needed. Other group keys passed before the streams.
    """
    sent_s: list[float] = []
    for at_s, is_first in messages:
        is_repeated = sent_s and abs(at_s - sent_s[-1] - _GROUP_RETRY_S) <= _GROUP_RETRY_LATE_S
        if is_first and not is_repeated:
            sent_s.append(at_s)
    gaps_s = [after - before for before, after in itertools.pairwise(sent_s)]
    return Check("group key is renewed", len(sent_s) >= due > 0
                 and all(abs(gap - interval_s) <= _RENEWED_LATE_S for gap in gaps_s),
                 f"{len(sent_s)} new keys passed during streams, {due} or more expected by an "
                 f"interval of {interval_s} s; they are "
                 f"{', '.join(f'{gap:.2f}' for gap in gaps_s) or 'no'} s apart")


def _verify_heads(layer: LinkLayer, observed: Observation,
                  macs: Collection[str]) -> DecryptedFrameHeads:
    """Check that the first bytes of the streams' truncated frames decrypt to packets."""
    keys = decryption_keys.temporal_keys(layer, observed.link_keys, [
        observed.folder / f"{part}-mn.pcap" for part in (observed.part or AUTH, MOVE)])
    if not keys:
        return DecryptedFrameHeads(0, ())
    return truncated_frames.verify_frame_heads(layer,
                                               [observed.capture_path(name) for name
                                                in observed.captures
                                                       if name.endswith("-air")], keys, macs,
                                               observed.addresses)


def _count_readable(observed: Observation) -> tuple[int, str]:
    """Count frames that are marked as protected but are readable, including truncated ones.

    Returns:
        The number of readable frames, and a clause with this number for a check's description (""
        for none).
    """
    return truncated_frames.count_readable_frames(observed.capture_path(name) for name
                                                  in observed.captures
                                                  if name.endswith("-air"))


def describe_decryption(frames: Sequence[Packet], keys: str) -> tuple[bool, str]:
    """Check that all completely captured data frames were encrypted and decrypt.

    Args:
        frames: The captured frames.
        keys: Words for the decryption keys in the description, such as "the policy's key".

    Returns:
        Whether the check holds (False without any such frame), and a description with the number of
        frames that decrypt and the first frame that does not.
    """
    complete = [p for p in frames if p.is_decryptable]
    closed = [p for p in complete if not (p.protected and p.has_llc)]
    first = f"; the first that does not: {_describe_frame(closed[0])}" if closed else ""
    return bool(complete) and not closed, (
        f"{len(complete) - len(closed)} of {len(complete)} wholly captured data frames decrypt "
        f"with {keys}{first}")


def _describe_frame(frame: Packet) -> str:
    """Return details of a frame that did not decrypt, for a check's text."""
    vector = frame.wep_iv or frame.ccmp_iv or frame.tkip_iv
    how = (f"under the initialisation vector {vector or 'none'}" if frame.protected else "in clear")
    return (f"{frame.length} bytes from {frame.transmitter} to {frame.receiver} at "
            f"{frame.time_s:.6f} s, {how}")


def frame_counter(cipher: str, packet: Packet) -> str:
    """Return the packet number in the cipher header of a protected frame.

    For an encrypted CCMP frame, tshark reports TKIP if the second byte of the packet number matches
    TKIP's by chance. That happens for 1 of 64 numbers from 0x2000 to 0x3fff. The byte that would be
    the last one of TKIP's number, and change with each frame, is zero there.
    """
    if cipher.startswith("WEP"):
        return packet.wep_iv
    if cipher == "TKIP" or (packet.tkip_iv and not int(packet.tkip_iv, 16) & 0xFF):
        return packet.tkip_iv
    return packet.ccmp_iv


def _check_wep_keys(layer: LinkLayer, observed: Observation) -> Iterator[Check]:
    keys = [[p for p in stay if p.eapol_type == tshark.EAPOL_KEY]
            for stay in observed.by_attachment("auth-mn")]
    if layer.keys == "eap":
        late = [sum(p.time_s >= success for p in frames)
                for frames, success in zip(keys, _success_times(observed), strict=True)]
        yield Check("keys delivered by EAPOL-Key", min(late) >= 2,
                    f"{join_values(late)} EAPOL-Key frames after EAP-Success")
        return
    is_open, detail = describe_decryption(observed.air, "the policy's key")
    readable, example = _count_readable(observed)
    begun = _verify_heads(layer, observed, observed.macs)
    yield Check("static WEP key in use",
                is_open and not readable and not begun.closed and not any(keys),
                f"{detail}{begun.detail}{example}, {sum(map(len, keys))} EAPOL-Key frames")


def _success_times(observed: Observation) -> list[float]:
    """Return the time of EAP-Success at each access point, infinity if there is none."""
    return [next((p.time_s for p in stay if p.eap_code == tshark.EAP_SUCCESS), float("inf"))
            for stay in observed.select_full(observed.by_attachment("auth-mn"))]


def check_dot1x(layer: Dot1xLayer, observed: Observation, *,
                is_suite_b: bool = False) -> Iterator[Check]:
    """Check the EAP method of 802.1X, and that the port opens only after it succeeded.

    Args:
        layer: The policy's 802.1X layer.
        observed: The results of the repetition.
        is_suite_b: Whether the link has the 192-bit suite.
    """
    stays = [[p for p in stay if p.is_eapol] for stay
             in observed.select_full(observed.by_attachment("auth-mn"))]
    used = [_last_method(frames) for frames in stays]
    offered = [_first_method(frames) for frames in stays]
    yield Check(f"EAP method {layer.eap}", set(used) == {METHODS[layer.eap].eap_type}
                and set(offered) == {METHODS[layer.first_offer].eap_type},
                f"EAP type {join_values(used)} completed, {join_values(offered)} offered first, "
                f"{sum(map(len, stays))} EAP and EAPOL frames")
    seen_at = [success < float("inf") for success in _success_times(observed)]
    yield Check("EAP-Success", all(seen_at),
                f"seen by the mobile node in {sum(seen_at)} of {len(seen_at)} negotiations")
    if layer.eap in USIM_METHODS:
        yield check_challenges(observed)
    yield from eap_tunnel.check_eap_tunnel(layer, stays, observed, is_suite_b=is_suite_b)
    if observed.computed_logins:
        yield check_computed_packets(observed)
        if observed.has_computed_radius:
            yield check_computed_radius(observed)
    yield from _check_port(observed)


def check_challenges(observed: Observation) -> Check:
    """Check each EAP-AKA authentication against the subscriber's key.

    Challenge, response, MACs and keys are computed again.
    """
    ended = [sum((each.ended_s >= observed.moved_s) == away for each in observed.challenges)
             for away in range(len(observed.select_full(observed.by_attachment("auth-mn"))))]
    faults = [fault for each in observed.challenges for fault in each.faults]
    return Check("challenge of the subscriber's key", bool(ended) and set(ended) == {1}
                 and not faults, f"{join_values(ended)} authentications worked out again of the "
                 "subscriber's key, to the keys of the Access-Accept"
                 + "".join(f"; {fault}" for fault in faults[:3]))


def _first_method(frames: Sequence[Packet]) -> int | None:
    """Return the EAP method that the authentication server proposed first."""
    return next((p.eap_type for p in frames if p.eap_code == tshark.EAP_REQUEST
                 and p.eap_type not in _EAP_OVERHEAD_TYPES), None)


def _last_method(frames: Sequence[Packet]) -> int | None:
    """Return the last EAP method of an authentication, which follows any rejected by a NAK."""
    methods = [p.eap_type for p in frames
               if p.eap_type and p.eap_type not in _EAP_OVERHEAD_TYPES]
    return methods[-1] if methods else None


def _check_port(observed: Observation) -> Iterator[Check]:
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


def _frames_since_join(frames: Sequence[Packet], observed: Observation) -> Sequence[Packet]:
    """Return the frames since the mobile node sent its first frame to its new access point.

    During traffic, earlier frames still pass the old access point, which sends to the node for a
    while, too. If the node disconnects first, all frames are returned.
    """
    first = next((p for p in frames if p.transmitter == observed.mac
                  and p.subtype == tshark.AUTHENTICATION_SUBTYPE), None)
    if first is None or not (observed.roaming or "pulses" in observed.raw):
        return frames
    others = observed.cells - {first.receiver}
    return [p for p in frames if p.time_s >= first.time_s and p.transmitter not in others]


def check_no_dot1x(layer: LinkLayer | None, observed: Observation) -> Iterator[Check]:
    """Check that there is no 802.1X frame, except the link layer's four-way handshake."""
    eap = [p for p in observed.packets_of("auth-mn") if p.eapol_type == tshark.EAPOL_EAP]
    keys = [p for p in observed.packets_of("auth-mn") if p.eapol_type == tshark.EAPOL_KEY]
    handshake_due = layer is not None and layer.has_own_handshake
    yield Check("no 802.1X", not eap and (handshake_due or not keys),
                f"{len(eap)} EAP frames, {len(keys)} EAPOL-Key frames")


def check_ipsec(layer: IpsecLayer, observed: Observation) -> Iterator[Check]:
    """Check the IKE negotiation, the kernel's algorithms, and that no packet bypasses IPsec."""
    packets = [[p for p in stay if p.is_isakmp] for stay in observed.by_attachment("auth-mn")]
    # The tunnel survives a move within a subnet. If it follows its node, `check_no_mobile_ip`
    # of `measure.checks.mobility` checks it.
    if observed.tunnel_follows and observed.care_of:
        packets = packets[:1]
    isakmp = [len({p.ike_message_key for p in stay}) for stay in packets]
    retransmitted = sum(map(len, packets)) - sum(isakmp)
    each = (_IKE_PACKETS[layer.ike] + (_INTERMEDIATES if layer.is_hybrid else 0)
            + _PACKETS_OF_EAP.get(layer.authentication, 0))
    expected = [each if place == 0 or observed.renews_tunnel else 0
                for place in range(len(isakmp))]
    yield Check("ISAKMP packets", isakmp == expected,
                f"{join_values(isakmp)}, {join_values(expected)} expected; "
                f"{f'{retransmitted} more of messages sent again; ' if retransmitted else ''}"
                f"{join_values([sum(p.ip_bytes for p in stay) for stay in packets])} bytes")
    yield _check_proposal(layer, observed)
    if layer.ike_offered:
        yield _check_offer(layer.ike_offered, observed)
    if layer.is_post_quantum:
        yield check_ml_kem(layer, [
            stay for stay, due in zip(packets, expected, strict=True) if due], observed.mac)
    if layer.ike == 2:
        yield check_ike_authentication(layer, [
            stay for stay, due in zip(packets, expected, strict=True) if due], observed.mac)
    yield _check_transforms(layer, observed)
    inner = [p for name in _CLEAR_POINTS for p in observed.packets_of(name)
             if _is_clear_inner(p, observed.addresses)]
    wires = [observed.carried, *(name for name in _FAR if name in observed.captures)]
    esp = [sum(p.is_esp for p in observed.packets_of(name)) for name in wires]
    begun = DecryptedEspHeads(0, 0)
    if not observed.part and "esp_keys" in observed.raw:
        begun = truncated_frames.verify_esp_heads(
            (observed.capture_path(name) for name in observed.captures
             if name in _IPSEC_POINTS and name.startswith(TRAFFIC)), observed.raw["esp_keys"],
            IPV6 if observed.ipv6_ends else IPV4)
    yield Check("no clear inner packet", min(esp, default=0) > 0 and not inner and not begun.closed,
                f"{join_values(esp)} ESP packets between access point and agent{begun.detail}, "
                f"{len(inner)} packets of mobile nodes outside their tunnels")


def _check_proposal(layer: IpsecLayer, observed: Observation) -> Check:
    """Check the IKE proposal that the home agent chose, in its own unencrypted packet."""
    chosen = [{p.ike_suite for p in stay if p.ike_suite and p.ethernet_src != observed.mac}
              for stay in observed.by_attachment("auth-mn")[:None if observed.renews_tunnel else 1]]
    return Check("IKE proposal", all(suites == {layer.ike_proposal} for suites in chosen),
                 f"{join_values([', '.join(sorted(suites)) or 'none' for suites in chosen])} "
                 f"chosen, {layer.ike_proposal} expected")


def _check_offer(expected: Sequence[str], observed: Observation) -> Check:
    """Check that the mobile node's first IKE message offers the policy's proposals in order.

    A later message may offer them in another order: if the gateway wants another group, those with
    that group come first.
    """
    file = observed.capture_path("auth-mn")
    sent = [offer for at_s, message in (pcap.udp_payloads(file, ike.IKE_PORT) if file.exists()
                                        else ()) if (offer := ike.parse_offer(at_s, message))]
    offers = [list(stay[0].proposals) if stay else [] for stay in observed.split_by_attachment(
        sent)[:None if observed.renews_tunnel else 1]]
    return Check("IKE proposals offered", all(names == [*expected] for names in offers),
                 f"{join_values([', '.join(names) or 'none' for names in offers])} offered, "
                 f"{', '.join(expected)} expected")


def check_ike_authentication(layer: IpsecLayer, stays: Sequence[Sequence[Packet]],
                              mac: str) -> Check:
    """Check how the ends authenticate, by the lengths of the first IKE_AUTH messages.

    The messages are encrypted. A signature of RSA-2048 adds 256 bytes, a certificate some 700.
    """
    expected = _PROOFS_OF_ENDS[layer.authentication]
    further = sum(map(_esp_proposal_bytes, (layer.esp_offered or ())[1:]))
    sizes = [[next((_udp_payload_bytes(p) - further * is_sent for p in packets
                    if p.isakmp_exchange == _IKE_AUTH
                    and (p.ethernet_src == mac) == is_sent), 0) for is_sent in (True, False)]
             for packets in stays]
    kinds = [tuple(next((kind for kind, least in _LEAST_BYTES if size >= least), "none")
                   for size in pair) for pair in sizes]
    text = "; ".join(f"{sent} bytes sent ({kind}), {back} back ({answer})"
                     for (sent, back), (kind, answer) in zip(sizes, kinds, strict=True))
    return Check("IKE authentication", bool(kinds) and all(kind == expected for kind in kinds),
                 f"first IKE_AUTH: {text or 'none'}; {' and '.join(expected)} expected")


def _esp_proposal_bytes(proposal: str) -> int:
    """Return the length of an ESP proposal in IKE_AUTH, where its group is left out.

    It has a header of 8 bytes, an SPI of 4, and transforms of 8 (RFC 7296, 3.3). A key length takes
    4 more.
    """
    cipher = proposal.split("-", maxsplit=1)[0]
    transforms = 2 if cipher in AEADS else 3
    return 12 + 8 * transforms + (4 if cipher.startswith("aes") else 0)


def _is_clear_inner(packet: Packet, addresses: frozenset[str]) -> bool:
    """Return whether a packet of these addresses should have been in the IPsec tunnel, but is not.

    IKE, Mobile IP, DHCP and neighbour discovery go outside of the tunnel by design.
    """
    return (bool(addresses & {packet.ip_src, packet.ip_dst}) and not packet.is_esp
            and not packet.is_isakmp and not packet.is_mobile_ip and not packet.is_dhcp
            and packet.icmp_type not in tshark.NEIGHBOUR_DISCOVERY)


def _check_transforms(layer: IpsecLayer, observed: Observation) -> Check:
    """Check the IPsec SAs in the kernels of all mobile nodes and the home agents."""
    kernel, expected = observed.raw["kernel"], tshark.kernel_algorithms(layer.esp_proposal)
    pairs = [kernel.get("after_traffic", {}), *(
        kernel.get("companions", {}).get(name, {}).get("sas", {}) for name in observed.companions)]
    ends = [[state for node in pair.values() for state in node] for pair in pairs]
    agents = [state for node in kernel.get("agents", {}).values() for state in node]
    states = [state for pair in ends for state in pair]
    good = [state for state, mode in (*((state, layer.mode) for state in states),
                                      *((state, "tunnel") for state in agents))
            if state.get("proto") == "esp" and state.get("mode") == mode
            and tshark.sa_algorithms(state) == expected]
    packets = [state.get("packets", 0) for state in states]
    complete = all(len(pair) == _SAS_OF_A_PAIR for pair in ends) and (
        len(observed.agents) < 2 or len(agents) >= _SAS_OF_A_PAIR)
    return Check("ESP transforms in the kernel",
                 complete and len(good) == len(states) + len(agents)
                 and min(packets, default=0) > 0,
                 f"{len(good)} of {len(states)} SAs of mobile nodes and {len(agents)} between "
                 f"agents are ESP {layer.mode} with {', '.join(sorted(expected))}; "
                 f"packets {packets}")


def check_no_ipsec(observed: Observation) -> Iterator[Check]:
    """Check that there are no ESP packets, for a policy without IPsec."""
    esp = sum(p.is_esp for name in _IPSEC_POINTS for p
              in observed.packets_of(name))
    yield Check("no IPsec", not esp, f"{esp} ESP packets")
