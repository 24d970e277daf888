"""Check from captured management frames how a Wi-Fi link agreed on its keys.

`check_key_management` takes a policy's link layer, and the packets of a repetition (one measurement
of the policy). It yields checks that the offers, requests and exchanges are those of the policy.
They cover cipher and AKM suites, management frame protection, SAE, OWE, FILS and fast transition.
`check_hidden_network` checks that no beacon or probe request has the SSID. `check_owe_transition`
checks that an open network and its hidden OWE network name each other in beacons.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections import defaultdict
from collections.abc import Collection, Container, Iterator, Sequence
from pathlib import Path

from measure.attacks import passphrase_guessing
from measure.capture import pcap, tshark
from measure.capture.pcap import MAC_HEADER_BYTES
from measure.capture.tcpdump import AUTH, MOVE
from measure.checks.observation import Check, Observation, join_values
from measure.packets import decryption_keys, eap, fast_transition, management_frames, sae_pk
from measure.packets.management_frames import ManagementFrame
from policies import LinkLayer, Policy
from policies.link import USUAL_GROUP

#: AKM suites for fast transition (IEEE 802.11-2020, table 9-151), by key source.
_FAST_SUITES = {"eap": 3, "psk": 4, "sae": 9}
_FAST_SUITE_OF_192_BITS = 13
#: AKM suite of FILS with SHA-256, and all other suites by key source and hash.
_FILS_SUITE = 14
_SUITES = {("eap", "sha1"): 1, ("eap", "sha256"): 5, ("eap", "suite-b-192"): 12,
           ("psk", "sha1"): 2, ("psk", "sha256"): 6, ("sae", "sha1"): 8, ("owe", "sha1"): 18}
#: AKM suites of key managements that are offered together, in hostapd's words.
AKM_SUITES = {"WPA-EAP": 1, "WPA-PSK": 2, "FT-EAP": 3, "FT-PSK": 4, "WPA-EAP-SHA256": 5,
                 "WPA-PSK-SHA256": 6, "SAE": 8, "FT-SAE": 9}
_CIPHERS = {"TKIP": 2, "CCMP": 4, "GCMP": 8, "GCMP-256": 9, "CCMP-256": 10}
_GROUP_CIPHERS = {"BIP-CMAC-128": 6, "BIP-GMAC-256": 12}
_COMMIT, _CONFIRM = 1, 2
#: Status of an SAE commit (IEEE 802.11-2020, table 9-50): hash to element, or hunting and pecking.
_HASH_TO_ELEMENT, _PUBLIC_KEY, _SUCCESS = 126, 127, 0
_ACCEPTED = (_SUCCESS, _HASH_TO_ELEMENT, _PUBLIC_KEY)
_SAE_STATUSES = {"h2e": _HASH_TO_ELEMENT, "pk": _PUBLIC_KEY, "loop": _SUCCESS}
#: Status of an SAE commit that must be repeated with a token, or in another group.
_TOKEN_REQUIRED, _GROUP_REFUSED = 76, 77
#: Protection of management frames by `pmf`.
_LEVELS = ("off", "possible", "required")
_REQUIRED = 2
_HANDSHAKE_FRAMES = 4


def check_key_management(layer: LinkLayer, observed: Observation) -> Iterator[Check]:
    """Yield all checks of a link's key management (RSN: WPA2, WPA3 and similar)."""
    yield _check_cipher(layer, observed)
    if layer.group_cipher:
        yield _check_group_cipher(layer, observed)
    yield from _check_suite(layer, observed)
    yield from _check_frame_protection(layer, observed)
    yield from check_roaming_support(layer, _list_offers(observed), _request_frames(observed))
    if layer.keys == "sae":
        yield from _check_sae(layer, observed)
    if layer.keys == "owe":
        yield _check_owe(layer, observed)
    if layer.passphrases:
        yield _check_passphrases(observed)
    if layer.owe_transition:
        yield check_owe_transition(observed)
    keys = [sum(p.eapol_type == tshark.EAPOL_KEY for p in stay)
            for stay in observed.by_attachment("auth-mn")]
    has_one = observed.select_full(keys) if layer.moves_fast or layer.roaming == "fils" else keys
    yield Check("four-way handshake", min(has_one) >= _HANDSHAKE_FRAMES,
                f"{join_values(keys)} EAPOL-Key frames")
    if layer.moves_fast and layer.keys == "eap" and observed.has_link_keys:
        yield _check_fast_keys(layer, observed)
    if observed.keeps_keys:
        yield from _check_move(layer, observed, keys)


def _check_move(layer: LinkLayer, observed: Observation, keys: Sequence[int]) -> Iterator[Check]:
    """Check how the node moved to the next access point with its keys.

    `keys` counts EAPOL-Key frames by attachment.
    """
    if layer.moves_fast:
        yield _check_fast_transition(observed, keys)
        if layer.ft_over_ds:
            yield _check_over_ds(observed)
    elif layer.roaming == "fils":
        yield _check_fils(observed, keys)
    else:
        yield _check_cached_keys(observed)


def _own_after_move(observed: Observation) -> list[ManagementFrame]:
    """Return the node's management frames, sent or received, after it moved."""
    return [frame for frame in observed.management_by_attachment()[-1]
            if observed.mac in (frame.transmitter, frame.receiver)]


def _frames_after_move(observed: Observation, algorithms: Sequence[int]) -> tuple[
        list[ManagementFrame], list[ManagementFrame]]:
    """Return the authentication frames and association responses after the node moved.

    Only authentication frames of these algorithms count.
    """
    after = _own_after_move(observed)
    return ([frame for frame in after if frame.algorithm in algorithms],
            [frame for frame in after if frame.is_response])


def _check_fils(observed: Observation, keys: Sequence[int]) -> Check:
    """Check that after a move both sides authenticate by FILS, without EAPOL frames.

    `keys` counts EAPOL-Key frames by attachment.
    """
    exchange, associations = _frames_after_move(observed, management_frames.FILS)
    accepted = all(not frame.status for frame in (*exchange, *associations))
    eap = sum(p.is_eapol for p in observed.by_attachment("auth-mn")[-1])
    return Check("FILS with cached keys", len({frame.transmitter for frame in exchange}) == 2
                 and bool(associations) and accepted and not eap and not keys[-1],
                 f"{len(exchange)} authentication frames of FILS and {len(associations)} "
                 f"association responses after the move; {eap} EAPOL frames")


def _check_cached_keys(observed: Observation) -> Check:
    """Check that after a move the cached PMK is used, without EAP or SAE."""
    exchange, associations = _frames_after_move(observed, (management_frames.SAE,))
    requests = [frame for frame in _request_frames(observed) if frame.time_s >= observed.moved_s]
    named = [frame for frame in requests if frame.key_names]
    eap = sum(p.eap_code is not None for p in observed.by_attachment("auth-mn")[-1])
    return Check("goes on with cached keys", bool(requests) and len(named) == len(requests)
                 and bool(associations) and not eap and not exchange,
                 f"{len(named)} of {len(requests)} association requests after the move name a "
                 f"cached key; {eap} EAP frames, {len(exchange)} of SAE")


def _check_fast_transition(observed: Observation, keys: Sequence[int]) -> Check:
    """Check that after a move both sides authenticate by fast transition, without EAPOL.

    `keys` counts EAPOL-Key frames by attachment.
    """
    exchange, associations = _frames_after_move(observed, (management_frames.FAST_TRANSITION,))
    exchange += _over_ds_frames(observed)
    agreed = [frame for frame in (*exchange, *associations) if frame.mobility_domain is not None]
    accepted = all(not frame.status for frame in (*exchange, *associations))
    eap = sum(p.is_eapol for p in observed.by_attachment("auth-mn")[-1])
    return Check("fast transition",
                 len({frame.transmitter for frame in exchange}) == 2 and bool(associations)
                 and len(agreed) == len(exchange) + len(associations) and accepted
                 and not eap and not keys[-1],
                 f"{len(exchange)} authentication frames of fast transition and "
                 f"{len(associations)} association responses after the move, {len(agreed)} of "
                 f"them of a mobility domain; {eap} EAPOL frames")


def _check_fast_keys(layer: LinkLayer, observed: Observation) -> Check:
    """Check that the keys of fast transition follow from EAP's by the policy's hash.

    Handshakes at the first access point and reassociations at the next one have MICs under these
    keys, and the kernels have the temporal keys.
    """
    suite = fast_transition.SHA384 if layer.is_fast_with_sha384 else fast_transition.SHA256
    size = decryption_keys.TEMPORAL_KEY_BYTES[layer.cipher]
    masters = [(session.receive + session.send, ssid.encode()) for session
               in _read_sessions(observed) for ssid in dict.fromkeys(observed.ssids)]
    handshakes = [message for file in _files_of(observed, "mn") for message
                  in fast_transition.read_initial_handshakes(pcap.read_frames(file), suite)]
    reassociations = [message for file in _files_of(observed, "air") for message
                      in fast_transition.read_reassociations(
                          pcap.read_wlan_frames(file), suite,
                          bytes.fromhex(observed.mac.replace(":", "")))]
    found = [[message.find_keys(suite, masters, size) for message in messages]
             for messages in (handshakes, reassociations)]
    derived = {keys.temporal.hex() for each in found for keys in each if keys}
    installed = {f"tk:{key}" for key in derived} & {*observed.link_keys}
    made = [sum(keys is not None for keys in each) for each in found]
    needs_both = observed.keeps_keys and observed.moves
    return Check("fast transition's keys", 0 < made[0] == len(handshakes)
                 and made[1] == len(reassociations) and (made[1] > 1 or not needs_both)
                 and len(installed) == len(derived),
                 f"by SHA-{suite.digest[3:]} from {suite.master} bytes of the session's key: "
                 f"{made[0]} of {len(handshakes)} handshakes and {made[1]} of "
                 f"{len(reassociations)} reassociation frames have a right MIC of {suite.mic} "
                 f"bytes; {len(installed)} of {len(derived)} temporal keys are in the kernels")


def _files_of(observed: Observation, *points: str) -> list[Path]:
    """Return the captures of authentication and move at these points of the network."""
    return [file for part in (AUTH, MOVE) for point in points
            if (file := observed.capture_path(f"{part}-{point}")).exists()]


def _read_sessions(observed: Observation) -> list[eap.SessionKey]:
    """Return the session keys of EAP in RADIUS, by UDP or inside TLS."""
    tls_keys = observed.raw.get("radsec_keys", ())
    return [session for file in _files_of(observed, *decryption_keys.WIRES) for session in (
        *(decryption_keys.session_keys_in_tls(file, tls_keys) if tls_keys else ()),
        *eap.session_keys((message for _, message in pcap.udp_payloads(file, eap.RADIUS_PORT)),
                          observed.radius_secret))]


def _over_ds_frames(observed: Observation) -> list[ManagementFrame]:
    """Return the requests and responses of fast transition over the DS after the node moved."""
    return [frame for frame in _own_after_move(observed) if frame.is_over_ds]


def _check_over_ds(observed: Observation) -> Check:
    """Check that the node asked for fast transition over the DS, and not over the air.

    Its own access point passes the request on by wire, and the answer back (IEEE 802.11-2020,
    13.5.3 and 13.10.3).
    """
    frames, (over_air, associations) = _over_ds_frames(observed), _frames_after_move(
        observed, (management_frames.FAST_TRANSITION,))
    joined = {frame.transmitter for frame in associations}
    asked = [frame for frame in frames if frame.action == management_frames.FT_REQUEST
             and frame.transmitter == observed.mac and {frame.target} == joined
             and frame.receiver not in joined]
    answered = [frame for frame in frames if frame.action == management_frames.FT_RESPONSE
                and frame.receiver == observed.mac and {frame.target} == joined
                and frame.transmitter in {request.receiver for request in asked}]
    passed = _passed_on(observed, joined)
    return Check("fast transition over the DS",
                 bool(asked) and bool(answered) and not over_air
                 and passed == {management_frames.FT_REQUEST, management_frames.FT_RESPONSE},
                 f"{len(asked)} requests to the access point in use for the next one, "
                 f"{len(answered)} responses, {len(passed)} of 2 passed on between access points; "
                 f"{len(over_air)} authentication frames over the air")


#: Start of an FT Action frame's body: category, action, addresses of station and target.
_FT_ACTION = struct.Struct("<BB6s6s")
#: EtherType of the Remote Request Broker (RRB), and the length of its header: type of frame, type
#: of packet, length (2), and address of the access point in use (IEEE 802.11-2020, 13.10.3).
_RRB, _RRB_HEADER_BYTES = 0x890D, 10


def _passed_on(observed: Observation, joined: Collection[str]) -> set[int]:
    """Return which actions of the node's fast transition passed on the next access point's wire."""
    actions, file = set[int](), observed.capture_path("auth-foreign")
    for frame in pcap.read_frames(file) if file.exists() else ():
        passed = frame.payload[_RRB_HEADER_BYTES:]
        if frame.kind == _RRB and len(passed) >= _FT_ACTION.size:
            category, number, station, target = _FT_ACTION.unpack_from(passed)
            if (category == tshark.FAST_TRANSITION_CATEGORY and station.hex(":") == observed.mac
                    and target.hex(":") in joined):
                actions.add(number)
    return actions


def _check_cipher(layer: LinkLayer, observed: Observation) -> Check:
    requested = {p.rsn_cipher for p in _association_requests(observed)}
    return Check("pairwise cipher negotiated", requested == {_CIPHERS[layer.cipher]},
                 f"RSN cipher suite {sorted(filter(None, requested))} in the association request, "
                 f"{_CIPHERS[layer.cipher]} expected")


def _check_group_cipher(layer: LinkLayer, observed: Observation) -> Check:
    """Check that access point and station name the policy's cipher of data frames to all."""
    expected = _CIPHERS[layer.group_cipher or layer.cipher]
    offers = {frame.data_group_cipher for frame in _list_offers(observed)}
    requests = {frame.data_group_cipher for frame in _request_frames(observed)}
    return Check("group cipher negotiated", offers == requests == {expected},
                 f"RSN group cipher suite {sorted(filter(None, offers))} offered, "
                 f"{sorted(filter(None, requests))} requested, {expected} expected")


def _list_offers(observed: Observation) -> list[ManagementFrame]:
    """Return beacons and probe responses of the network's access points.

    Frames of other networks are left out, such as the open network of OWE transition.
    """
    return [frame for frame in observed.management if frame.is_offer
            and (not observed.cells or frame.transmitter in observed.cells)]


def _association_requests(observed: Observation) -> list[tshark.Packet]:
    return [p for p in observed.packets_of("auth-air") if p.transmitter == observed.mac
            and p.subtype
            in (management_frames.ASSOCIATION_REQUEST, management_frames.REASSOCIATION_REQUEST)]


def _expected_suite(layer: LinkLayer) -> int:
    if layer.moves_fast:
        return _FAST_SUITE_OF_192_BITS if layer.is_fast_with_sha384 else _FAST_SUITES[layer.keys]
    return _FILS_SUITE if layer.roaming == "fils" else _SUITES[layer.keys, layer.akm or "sha1"]


def _check_suite(layer: LinkLayer, observed: Observation) -> Iterator[Check]:
    """Check that the policy's AKM suite is requested, and which suites are offered."""
    expected = _expected_suite(layer)
    requested = {p.rsn_akm for p in _association_requests(observed)}
    yield Check("key management negotiated", requested == {expected},
                f"RSN key management suite {sorted(filter(None, requested))} in the association "
                f"request, {expected} expected")
    if layer.cipher == "TKIP":  # WPA uses another element
        return
    offers = _list_offers(observed)
    suites = {tuple(sorted(frame.akms)) for frame in offers}
    due = tuple(sorted(AKM_SUITES[name] for name in layer.offered)) if layer.offered \
        else (expected,)
    yield Check("key management offered", suites == {due},
                f"RSN key management suites {sorted(suites)} in {len(offers)} beacons and probe "
                f"responses, {' and '.join(map(str, due))} alone expected")


def _check_frame_protection(layer: LinkLayer, observed: Observation) -> Iterator[Check]:
    """Check management frame protection: kernel state, negotiation and frames on the air."""
    if not layer.pmf:
        return
    protects = [flags.get("MFP", "no") for flags in observed.stations]
    offers, requests = _list_offers(observed), _request_frames(observed)
    agreed = [*(_has_protection(frame, layer.pmf) for frame in offers),
              *(_has_protection(frame, layer.pmf_of_station, may_insist=True)
                for frame in requests)]
    if not layer.pmf_of_station:
        yield Check("station without protected management frames", set(protects) == {"no"}
                    and bool(requests) and bool(offers) and all(agreed),
                    f"access point's kernel: MFP {', '.join(protects)}; {sum(agreed)} of "
                    f"{len(offers)} offers and {len(requests)} requests are as the policy says: "
                    f"{_LEVELS[layer.pmf]} at the access point, {_LEVELS[0]} at the station")
        return
    yield Check("management frames are protected", set(protects) == {"yes"},
                f"access point's kernel: MFP {', '.join(protects)}")
    expected = _GROUP_CIPHERS[layer.group_mgmt or "BIP-CMAC-128"]
    ciphers = {frame.group_cipher for frame in requests}
    yield Check("protection of management frames negotiated",
                bool(requests) and bool(offers) and all(agreed) and ciphers == {expected},
                f"{sum(agreed)} of {len(offers)} offers and {len(requests)} requests say that it "
                f"is {_LEVELS[layer.pmf]}"
                + (f", and {_LEVELS[layer.pmf_of_station]} at the station"
                   if layer.pmf_of_station != layer.pmf else "") + "; group cipher "
                f"{sorted(filter(None, ciphers))}, {expected} expected")
    yield from _check_ends(observed)
    if layer.beacon_protection:
        yield _check_beacons(offers, observed.captures)
    if layer.ocv:
        valid = sum(frame.validates_channel for frame in (*offers, *requests))
        yield Check("operating channel validation negotiated",
                    bool(requests) and 0 < valid == len(offers) + len(requests),
                    f"{valid} of {len(offers)} offers and {len(requests)} requests say so")
        yield from _check_stated_channel(observed)


#: Operating channel information in the key data of a handshake (IEEE 802.11-2020, table 12-9): type
#: and length of the element, OUI and type. A class of channels and the channel follow.
_CHANNEL_INFORMATION = bytes.fromhex("dd07000fac0d")
#: Headers and fixed fields of an EAPOL-Key frame in front of its key data (bytes).
_LEAST_KEY_BYTES = 99


def _check_stated_channel(observed: Observation) -> Iterator[Check]:
    """Check that the station states its operating channel in each four-way handshake.

    The second message has the channel in clear. Whether an end refuses another channel is not
    checked here.
    """
    file = observed.capture_path("auth-mn")
    if not file.exists():
        return
    shaken = list(passphrase_guessing.find_handshakes(pcap.read_frames(file)))
    stated = sum(_CHANNEL_INFORMATION in each.message[_LEAST_KEY_BYTES:] for each in shaken)
    yield Check("station states its channel", 0 < stated == len(shaken),
                f"{stated} of {len(shaken)} handshakes have the operating channel in their second "
                "message")


def _check_beacons(offers: Sequence[ManagementFrame], captures: Container[str]) -> Check:
    """Check that all beacons of a policy's networks are protected, and that these offer it."""
    beacons = [frame for frame in offers if frame.subtype == management_frames.BEACON]
    marked = sum(frame.has_mic and frame.says_beacons_are_protected for frame in beacons)
    # An authentication may see no beacon; during a stream there is one every 0.1 s.
    least = 1 if "traffic-air" in captures else 0
    says = all(frame.says_beacons_are_protected for frame in offers)
    return Check("beacons are protected", says and least <= marked == len(beacons),
                 f"{marked} of {len(beacons)} beacons say so and bear a check")


def check_roaming_support(layer: LinkLayer, offers: Sequence[ManagementFrame],
                          requests: Sequence[ManagementFrame]) -> Iterator[Check]:
    """Check that access points and station support the policy's 802.11k and 802.11v.

    Args:
        layer: The link layer of the policy.
        offers: Beacons and probe responses of access points.
        requests: Association and reassociation requests of the station.
    """
    if layer.neighbor_report:
        able = sum(frame.reports_neighbors for frame in offers)
        asking = sum(frame.measures_radio for frame in requests)
        yield Check("neighbor reports supported", _is_everywhere(able, offers, asking, requests),
                    f"{able} of {len(offers)} offers announce neighbor reports, {asking} of "
                    f"{len(requests)} requests radio measurement")
    if layer.bss_transition:
        able, asking = (sum(frame.has_bss_transition for frame in frames)
                        for frames in (offers, requests))
        yield Check("BSS transition supported", _is_everywhere(able, offers, asking, requests),
                    f"{able} of {len(offers)} offers and {asking} of {len(requests)} requests "
                    "announce BSS transition management")


def _is_everywhere(able: int, offers: Sequence[ManagementFrame], asking: int,
                   requests: Sequence[ManagementFrame]) -> bool:
    return 0 < able == len(offers) and 0 < asking == len(requests)


def _has_protection(frame: ManagementFrame, pmf: int, *, may_insist: bool = False) -> bool:
    """Return whether a frame announces frame protection as `pmf` says: off, possible, required.

    `may_insist` allows "required" for "possible": a station insists once its network has told it
    that WPA2 is gone (transition disable).
    """
    if may_insist and pmf:
        return frame.requires_protection or (frame.can_protect and pmf < _REQUIRED)
    return (frame.can_protect, frame.requires_protection) == (pmf > 0, pmf == _REQUIRED)


def _check_ends(observed: Observation) -> Iterator[Check]:
    """Check that deauthentication and disassociation frames are protected, if there are any."""
    ends = list(_association_ends(observed))
    if ends:
        protected = sum(frame.protected for frame in ends)
        yield Check("nobody leaves in clear", protected == len(ends),
                    f"{protected} of {len(ends)} deauthentication and disassociation frames that "
                    "end an association of the mobile node's are protected")


def _association_ends(observed: Observation) -> Iterator[ManagementFrame]:
    """Yield the frame that ends each association which had keys.

    Without keys, an attempt can only be ended by an unprotected frame. After the end there are no
    keys either: an access point answers a late data frame with an unprotected frame (IEEE
    802.11-2020, 11.3). That frame ends no association.
    """
    keys = [p.time_s for p in observed.packets_of("auth-mn") if p.eapol_type == tshark.EAPOL_KEY]
    cell, since, has_keys = "", float("inf"), False
    is_fast = False
    for frame in sorted(observed.management, key=lambda frame: frame.time_s):
        if frame.transmitter == observed.mac and frame.algorithm is not None:
            is_fast = frame.algorithm in (management_frames.FAST_TRANSITION,
                                          *management_frames.FILS)
        if frame.transmitter == observed.mac and frame.is_over_ds:
            is_fast = True
        if frame.is_request and frame.transmitter == observed.mac:
            cell, since, has_keys = frame.receiver, frame.time_s, False
        elif {frame.transmitter, frame.receiver} == {observed.mac, cell}:
            has_keys = has_keys or (frame.is_response and is_fast)
            if frame.is_end:
                shaken = sum(since < at_s < frame.time_s for at_s in keys)
                if has_keys or shaken >= _HANDSHAKE_FRAMES:
                    yield frame
                cell = ""


def _request_frames(observed: Observation) -> list[ManagementFrame]:
    return [frame for frame in observed.management
            if frame.is_request and frame.transmitter == observed.mac]


def _check_passphrases(observed: Observation) -> Check:
    """Check that handshakes are made with the device's passphrase, not with that of others."""
    file = observed.capture_path("auth-mn")
    shaken = list(passphrase_guessing.find_handshakes(
        pcap.read_frames(file))) if file.exists() else []
    device = decryption_keys.device_passphrase(observed.passphrase, observed.mac)
    others = [observed.passphrase, *(decryption_keys.device_passphrase(observed.passphrase, mac)
                                     for mac in sorted(observed.macs - {observed.mac}))]
    right, wrong = (sum(any(each.is_made_with(word, ssid) for word in words
                            for ssid in observed.ssids) for each in shaken)
                    for words in ([device], others))
    return Check("passphrase is the device's own", bool(shaken) and right == len(shaken)
                 and not wrong, f"{right} of {len(shaken)} handshakes are made with it, {wrong} "
                 f"with one of {len(others)} others")


def _check_sae(layer: LinkLayer, observed: Observation) -> Iterator[Check]:
    """Check that both sides sent SAE commit and confirm frames.

    With cached keys there would be none. An access point may request an anti-clogging token or
    reject a group. The station then repeats its commit. Lost frames are retransmitted (IEEE
    802.11-2020, 12.4.7 and 12.4.8).
    """
    stays = [[frame for frame in stay if frame.algorithm == management_frames.SAE
              and observed.mac in (frame.transmitter, frame.receiver)]
             for stay in observed.select_full(observed.management_by_attachment())]
    agreed = [_accepted_commits(stay, observed.mac) for stay in stays]
    confirms = [[frame for frame in stay if frame.sequence == _CONFIRM and commits
                 and frame.time_s > commits[0].time_s]
                for stay, commits in zip(stays, agreed, strict=True)]
    is_whole = all(len(_sender_addresses(frames)) == 2 for frames in (*agreed, *confirms))
    refused = [frame for stay in stays for frame in stay if _is_refusal(frame, observed.mac)]
    tokens = sum(frame.status == _TOKEN_REQUIRED for frame in refused)
    strange = [frame for stay in stays for frame in stay if frame not in refused
               and frame.status not in (_ACCEPTED if frame.sequence == _COMMIT else (_SUCCESS,))]
    yield Check("SAE exchange", bool(stays) and is_whole and not strange,
                f"{join_values([len(stay) for stay in stays])} SAE frames: "
                f"{join_values([len(_sender_addresses(each)) for each in agreed])} sides "
                f"committed, {join_values([len(_sender_addresses(each)) for each in confirms])} "
                f"confirmed, 2 in a whole exchange; {tokens} asked for a token, "
                f"{len(refused) - tokens} refused a group, {len(strange)} have another status")
    group = layer.group or USUAL_GROUP
    groups = {frame.sae_group for commits in agreed for frame in commits}
    if layer.sae == "pk":  # tshark reads no group in commits with this status
        groups = (groups - {None}).union(*(sae_pk.read_groups(pcap.read_wlan_frames(file))
                                           for file in _files_of(observed, "air")))
    yield Check("SAE group", groups == {group},
                f"group {sorted(filter(None, groups))} in the commits, {group} expected")
    if layer.station_groups:
        yield _check_tried_groups(layer.tried_groups, stays, observed.mac)
    if layer.sae:
        expected = _SAE_STATUSES[layer.sae]
        statuses = {frame.status for commits in agreed for frame in commits}
        yield Check("SAE element", statuses == {expected},
                    f"status {sorted(s for s in statuses if s is not None)} of the commits, "
                    f"{expected} expected ({_HASH_TO_ELEMENT}: hash to element, {_PUBLIC_KEY}: "
                    f"SAE-PK, {_SUCCESS}: hunting and pecking)")
    if layer.sae == "pk":
        yield _check_public_key(observed, len(stays))


def _check_public_key(observed: Observation, exchanges: int) -> Check:
    """Check that access points sign each SAE exchange with the key of the network's password.

    `exchanges` is the number of exchanges. The password has to be the fingerprint of the public key
    in the frame.
    """
    pairs = json.loads(observed.sae_keys or "{}")
    valid = fitting = 0
    for ssid in dict.fromkeys(observed.ssids):
        if ssid not in pairs:
            continue
        modifier = bytes.fromhex(pairs[ssid]["modifier"])
        for file in _files_of(observed, "air"):
            for confirm in sae_pk.find_signatures(pcap.read_wlan_frames(file), modifier):
                valid += confirm.is_valid
                digest = hashlib.sha256(ssid.encode() + modifier + confirm.public_key).digest()
                fitting += confirm.is_valid and pairs[ssid]["password"] == sae_pk.format_password(
                    digest)
    return Check("SAE-PK signature", 0 < exchanges <= valid == fitting,
                 f"{valid} confirm frames of access points are signed under their public key, "
                 f"{fitting} of these keys have the password as fingerprint, in {exchanges} "
                 "exchanges")


def _check_tried_groups(expected: Sequence[int], stays: Sequence[Sequence[ManagementFrame]],
                        mac: str) -> Check:
    """Check which groups the station tried in order, and that others than the last are refused.

    An access point refuses a group by the status of its commit (IEEE 802.11-2020, 12.4.8.6.4).
    """
    tried = [list(dict.fromkeys(frame.sae_group for frame in stay if frame.transmitter == mac
                                and frame.sequence == _COMMIT)) for stay in stays]
    refused = [list(dict.fromkeys(frame.sae_group for frame in stay if frame.transmitter != mac
                                  and frame.status == _GROUP_REFUSED)) for stay in stays]
    return Check("SAE groups tried", bool(stays) and all(
        groups == [*expected] and others == [*expected[:-1]]
        for groups, others in zip(tried, refused, strict=True)),
        f"{join_values(tried)} in the station's commits, {join_values(refused)} refused by status "
        f"{_GROUP_REFUSED}; {[*expected]} expected, the last one accepted")


def _is_refusal(frame: ManagementFrame, mac: str) -> bool:
    """Return whether an access point's SAE answer makes the station repeat its commit."""
    return (frame.sequence == _COMMIT and frame.transmitter != mac
            and frame.status in (_TOKEN_REQUIRED, _GROUP_REFUSED))


def _accepted_commits(frames: Sequence[ManagementFrame], mac: str) -> list[ManagementFrame]:
    """Return the SAE commit frames at one access point after its last refusal."""
    refused_s = max((frame.time_s for frame in frames if _is_refusal(frame, mac)),
                    default=float("-inf"))
    return [frame for frame in frames if frame.sequence == _COMMIT
            and frame.status in _ACCEPTED and frame.time_s > refused_s]


def _sender_addresses(frames: Sequence[ManagementFrame]) -> set[str]:
    return {frame.transmitter for frame in frames}


def _check_owe(layer: LinkLayer, observed: Observation) -> Check:
    """Check that OWE request and response carry public keys in the policy's group.

    A request may be retransmitted, and a request in a rejected group does not count. The response
    answers the last request before it.
    """
    expected, whole, groups = layer.group or USUAL_GROUP, [], set()
    for stay in observed.management_by_attachment():
        with_keys = [frame for frame in stay if frame.owe_key
                     and observed.mac in (frame.transmitter, frame.receiver)]
        answers = [frame for frame in with_keys if frame.is_response and not frame.status]
        requests = [frame for frame in with_keys if frame.is_request and answers
                    and frame.time_s < answers[-1].time_s]
        agreed = [*requests[-1:], *answers]
        groups |= {frame.owe_group for frame in agreed}
        whole.append(bool(requests) and bool(answers) and not (
            {frame.owe_key for frame in requests} & {frame.owe_key for frame in answers}))
    return Check("OWE exchange", all(whole) and groups == {expected},
                 f"public keys both ways in {sum(whole)} of {len(whole)} associations, group "
                 f"{sorted(filter(None, groups))}, {expected} expected")


# --- OWE transition mode: an open network that points at a hidden one with OWE ---

_VENDOR, _RSN = 221, 48
#: OUI of the Wi-Fi Alliance, and its type of the OWE transition mode element (WFA OWE 1.1, 2.2.1).
_OWE_TRANSITION = bytes.fromhex("506f9a1c")
_MAC_BYTES = 6


def check_owe_transition(observed: Observation) -> Check:
    """Check that an open network and a hidden one with OWE name each other in all beacons.

    Beacons of authentication and stream count, because an authentication may see few of them.
    """
    beacons: dict[bool, list[dict[int, list[bytes]]]] = {True: [], False: []}
    senders: dict[bool, set[str]] = {True: set(), False: set()}
    for file in (observed.capture_path("auth-air"), observed.capture_path("traffic-air")):
        for data in pcap.read_wlan_frames(file) if file.exists() else ():
            if data[0] == _BEACON:
                sender = data[10:16].hex(":")
                has_owe = sender in observed.cells
                senders[has_owe].add(sender)
                beacons[has_owe].append(_parse_elements(data))
    hidden = [each for each in beacons[True] if _RSN in each and not b"".join(
        each.get(_SSID, [b""])).strip(b"\0") and _owe_target(each)[0] in senders[False]]
    named = [each for each in beacons[False] if _RSN not in each
             and _owe_target(each)[0] in senders[True]]
    targets = {_owe_target(each)[1] for each in hidden}
    names = {b"".join(each.get(_SSID, [])) for each in named}
    return Check("OWE transition", bool(hidden) and bool(named)
                 and len(hidden) == len(beacons[True]) and len(named) == len(beacons[False])
                 and targets == names,
                 f"{len(hidden)} of {len(beacons[True])} beacons with OWE are nameless and name "
                 f"an open network, {len(named)} of {len(beacons[False])} of that are without "
                 "protection and name the one with OWE")


def _owe_target(elements: dict[int, list[bytes]]) -> tuple[str, bytes]:
    """Return BSSID and SSID of the network that an OWE transition element names, or "" and b""."""
    for content in elements.get(_VENDOR, ()):
        start = len(_OWE_TRANSITION)
        name = start + _MAC_BYTES + 1
        if content.startswith(_OWE_TRANSITION) and len(content) >= name:
            bssid = content[start:start + _MAC_BYTES].hex(":")
            return bssid, content[name:name + content[name - 1]]
    return "", b""


# --- Hidden networks: beacons without SSID, probe requests with it ---

#: Name of the check in policies/daemon_options.yml.
HIDDEN_NETWORK_CHECK = "hidden network"
_BEACON, _PROBE_REQUEST = 0x80, 0x40
#: Timestamp, interval and capabilities, before a beacon's elements (bytes).
_BEACON_FIELDS_BYTES = 12
_SSID = 0


def hides_ssid(policy: Policy) -> bool:
    """Return whether a policy's access points leave the SSID out of beacons."""
    return any(setting.name == "ignore_broadcast_ssid" and str(setting.value) != "0"
               for setting in policy.layers.option_settings())


def check_hidden_network(observed: Observation) -> Check:
    """Check that no beacon or probe request during authentication and stream has the SSID.

    The stream is needed because an authentication may end between two beacons.
    """
    names: dict[int, list[bytes]] = {_BEACON: [], _PROBE_REQUEST: []}
    for file in (observed.capture_path("auth-air"), observed.capture_path("traffic-air")):
        for data in pcap.read_wlan_frames(file) if file.exists() else ():
            sender = ":".join(f"{octet:02x}" for octet in data[10:16])
            if data[0] == _BEACON or (data[0] == _PROBE_REQUEST and sender == observed.mac):
                names[data[0]].append(_parse_ssid(data))
    named = sum(bool(name.strip(b"\0")) for name in names[_BEACON])
    probes = sum(bool(name) for name in names[_PROBE_REQUEST])
    return Check(HIDDEN_NETWORK_CHECK, bool(names[_BEACON]) and not named and bool(probes),
                 f"{named} of {len(names[_BEACON])} beacons name the network, {probes} of "
                 f"{len(names[_PROBE_REQUEST])} probe requests of the mobile node's")


def _parse_ssid(data: bytes) -> bytes:
    return next(iter(_parse_elements(data).get(_SSID, ())), b"")


def _parse_elements(data: bytes) -> dict[int, list[bytes]]:
    """Return the elements of a beacon or probe request by number."""
    elements = defaultdict[int, list[bytes]](list)
    fixed_bytes = _BEACON_FIELDS_BYTES if data[0] == _BEACON else 0
    for number, content in pcap.split_elements(data[MAC_HEADER_BYTES + fixed_bytes:]):
        elements[number].append(content)
    return elements
