"""Check key management from management frames: what was offered, requested and exchanged."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from measure import dissect, management
from measure.management import Management
from measure.observed import Check, Observed, join_values
from policies import LinkLayer

#: AKM suites for fast transition (IEEE 802.11-2020, table 9-151), by key source.
_FAST_SUITES = {"eap": 3, "psk": 4, "sae": 9}
#: AKM suite of FILS with SHA-256, and all other suites by key source and hash.
_FILS_SUITE = 14
_SUITES = {("eap", "sha1"): 1, ("eap", "sha256"): 5, ("eap", "suite-b-192"): 12,
           ("psk", "sha1"): 2, ("psk", "sha256"): 6, ("sae", "sha1"): 8, ("owe", "sha1"): 18}
_CIPHERS = {"TKIP": 2, "CCMP": 4, "GCMP": 8, "GCMP-256": 9, "CCMP-256": 10}
_GROUP_CIPHERS = {"BIP-CMAC-128": 6, "BIP-GMAC-256": 12}
_COMMIT, _CONFIRM = 1, 2
#: Status of an SAE commit (IEEE 802.11-2020, table 9-50): hash to element, or hunting and pecking.
_HASH_TO_ELEMENT, _SUCCESS = 126, 0
_ACCEPTED = (_SUCCESS, _HASH_TO_ELEMENT)
#: Status of an SAE commit that must be repeated with a token, or in another group.
_TOKEN_ASKED, _GROUP_REFUSED = 76, 77
#: Group P-256, which every station and access point supports.
_USUAL_GROUP = 19
_HANDSHAKE_FRAMES = 4


def verify(layer: LinkLayer, observed: Observed) -> Iterator[Check]:
    """Yield all checks of an RSN's key management."""
    yield _check_cipher(layer, observed)
    yield from _check_suite(layer, observed)
    yield from _check_frame_protection(layer, observed)
    if layer.keys == "sae":
        yield from _check_sae(layer, observed)
    if layer.keys == "owe":
        yield _check_owe(layer, observed)
    keys = [sum(p.eapol_type == dissect.EAPOL_KEY for p in stay)
            for stay in observed.by_attachment("auth-mn")]
    has_one = observed.select_full(keys) if layer.moves_fast or layer.roaming == "fils" else keys
    yield Check("four-way handshake", min(has_one) >= _HANDSHAKE_FRAMES,
                f"{join_values(keys)} EAPOL-Key frames")
    if observed.keeps_keys and layer.moves_fast:
        yield _check_fast_transition(observed, keys)
    elif observed.keeps_keys and layer.roaming == "fils":
        yield _check_fils(observed, keys)
    elif observed.keeps_keys:
        yield _check_cached_keys(observed)


def _frames_after_move(observed: Observed, algorithms: Sequence[int]) -> tuple[
        list[Management], list[Management]]:
    """Return the authentication frames and association responses after the move.

    Only authentication frames of these algorithms count.
    """
    after = [frame for frame in observed.management_by_attachment()[-1]
             if observed.mac in (frame.transmitter, frame.receiver)]
    return ([frame for frame in after if frame.algorithm in algorithms],
            [frame for frame in after if frame.is_response])


def _check_fils(observed: Observed, keys: Sequence[int]) -> Check:
    """Check that after the move FILS authenticates both ways, without EAPOL frames."""
    exchange, associations = _frames_after_move(observed, management.FILS)
    accepted = all(not frame.status for frame in (*exchange, *associations))
    eap = sum(p.is_eapol for p in observed.by_attachment("auth-mn")[-1])
    return Check("FILS with cached keys", len({frame.transmitter for frame in exchange}) == 2
                 and bool(associations) and accepted and not eap and not keys[-1],
                 f"{len(exchange)} authentication frames of FILS and {len(associations)} "
                 f"association responses after the move; {eap} EAPOL frames")


def _check_cached_keys(observed: Observed) -> Check:
    """Check that after the move a cached PMK is used, without EAP or SAE."""
    exchange, associations = _frames_after_move(observed, (management.SAE,))
    requests = [frame for frame in _request_frames(observed) if frame.time_s >= observed.moved_s]
    named = [frame for frame in requests if frame.key_names]
    eap = sum(p.eap_code is not None for p in observed.by_attachment("auth-mn")[-1])
    return Check("goes on with cached keys", bool(requests) and len(named) == len(requests)
                 and bool(associations) and not eap and not exchange,
                 f"{len(named)} of {len(requests)} association requests after the move name a "
                 f"cached key; {eap} EAP frames, {len(exchange)} of SAE")


def _check_fast_transition(observed: Observed, keys: Sequence[int]) -> Check:
    """Check that after the move fast transition authenticates both ways, without EAPOL frames."""
    exchange, associations = _frames_after_move(observed, (management.FAST_TRANSITION,))
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


def _check_cipher(layer: LinkLayer, observed: Observed) -> Check:
    asked = {p.rsn_cipher for p in _association_requests(observed)}
    return Check("pairwise cipher negotiated", asked == {_CIPHERS[layer.cipher]},
                 f"RSN cipher suite {sorted(filter(None, asked))} in the association request, "
                 f"{_CIPHERS[layer.cipher]} expected")


def _association_requests(observed: Observed) -> list[dissect.Packet]:
    return [p for p in observed.packets_of("auth-air") if p.transmitter == observed.mac
            and p.subtype in (management.ASSOCIATION_REQUEST, management.REASSOCIATION_REQUEST)]


def _expected_suite(layer: LinkLayer) -> int:
    if layer.moves_fast:
        return _FAST_SUITES[layer.keys]
    return _FILS_SUITE if layer.roaming == "fils" else _SUITES[layer.keys, layer.akm or "sha1"]


def _check_suite(layer: LinkLayer, observed: Observed) -> Iterator[Check]:
    """Check that the policy's AKM suite is requested, and is the only one offered."""
    expected = _expected_suite(layer)
    asked = {p.rsn_akm for p in _association_requests(observed)}
    yield Check("key management negotiated", asked == {expected},
                f"RSN key management suite {sorted(filter(None, asked))} in the association "
                f"request, {expected} expected")
    if layer.cipher == "TKIP":  # WPA uses another element
        return
    offers = [frame for frame in observed.management if frame.is_offer]
    suites = {frame.akms for frame in offers}
    yield Check("key management offered", suites == {(expected,)},
                f"RSN key management suites {sorted(suites)} in {len(offers)} beacons and probe "
                f"responses, {expected} alone expected")


def _check_frame_protection(layer: LinkLayer, observed: Observed) -> Iterator[Check]:
    """Check management frame protection: kernel state, negotiation and frames on the air."""
    if not layer.pmf:
        return
    protects = [flags.get("MFP", "no") for flags in observed.stations]
    yield Check("management frames are protected", set(protects) == {"yes"},
                f"access point's kernel: MFP {', '.join(protects)}")
    offers = [frame for frame in observed.management if frame.is_offer]
    requests = _request_frames(observed)
    said = [frame.requires_protection if layer.pmf == 2 else frame.can_protect
            for frame in (*offers, *requests)]
    expected = _GROUP_CIPHERS[layer.group_mgmt or "BIP-CMAC-128"]
    ciphers = {frame.group_cipher for frame in requests}
    yield Check("protection of management frames negotiated",
                bool(requests) and bool(offers) and all(said) and ciphers == {expected},
                f"{sum(said)} of {len(offers)} offers and {len(requests)} requests say that it is "
                f"{'required' if layer.pmf == 2 else 'possible'}; group cipher "
                f"{sorted(filter(None, ciphers))}, {expected} expected")
    yield from _check_ends(observed)
    if layer.beacon_protection:
        beacons = [frame for frame in observed.management if frame.subtype == management.BEACON]
        marked = sum(frame.has_mic and frame.says_beacons_are_protected for frame in beacons)
        # An authentication may see no beacon; during a stream there is one every 0.1 s.
        least = 1 if "traffic-air" in observed.captures else 0
        says = all(frame.says_beacons_are_protected for frame in offers)
        yield Check("beacons are protected", says and least <= marked == len(beacons),
                    f"{marked} of {len(beacons)} beacons say so and bear a check")
    if layer.ocv:
        valid = sum(frame.validates_channel for frame in (*offers, *requests))
        yield Check("operating channel validation negotiated",
                    bool(requests) and 0 < valid == len(offers) + len(requests),
                    f"{valid} of {len(offers)} offers and {len(requests)} requests say so")


def _check_ends(observed: Observed) -> Iterator[Check]:
    """Check that frames which end an association are protected, if there are any."""
    ends = list(_association_ends(observed))
    if ends:
        protected = sum(frame.protected for frame in ends)
        yield Check("nobody leaves in clear", protected == len(ends),
                    f"{protected} of {len(ends)} deauthentication and disassociation frames that "
                    "end an association of the mobile node's are protected")


def _association_ends(observed: Observed) -> Iterator[Management]:
    """Yield the frame that ends each association that had keys.

    Without keys, an attempt can only be ended by an unprotected frame. After the end there are no
    keys either: an access point answers a late data frame with an unprotected frame (IEEE
    802.11-2020, 11.3). That frame ends no association.
    """
    keys = [p.time_s for p in observed.packets_of("auth-mn") if p.eapol_type == dissect.EAPOL_KEY]
    cell, since, has_keys = "", float("inf"), False
    is_fast = False
    for frame in sorted(observed.management, key=lambda frame: frame.time_s):
        if frame.transmitter == observed.mac and frame.algorithm is not None:
            is_fast = frame.algorithm in (management.FAST_TRANSITION, *management.FILS)
        if frame.is_request and frame.transmitter == observed.mac:
            cell, since, has_keys = frame.receiver, frame.time_s, False
        elif {frame.transmitter, frame.receiver} == {observed.mac, cell}:
            has_keys = has_keys or (frame.is_response and is_fast)
            if frame.is_end:
                shaken = sum(since < at_s < frame.time_s for at_s in keys)
                if has_keys or shaken >= _HANDSHAKE_FRAMES:
                    yield frame
                cell = ""


def _request_frames(observed: Observed) -> list[Management]:
    return [frame for frame in observed.management
            if frame.is_request and frame.transmitter == observed.mac]


def _check_sae(layer: LinkLayer, observed: Observed) -> Iterator[Check]:
    """Check the SAE commit and confirm of both sides, which cached keys would omit.

    An access point may request an anti-clogging token or reject a group. The station then repeats
    its commit. Lost frames are retransmitted (IEEE 802.11-2020, 12.4.7 and 12.4.8).
    """
    stays = [[frame for frame in stay if frame.algorithm == management.SAE
              and observed.mac in (frame.transmitter, frame.receiver)]
             for stay in observed.select_full(observed.management_by_attachment())]
    agreed = [_accepted_commits(stay, observed.mac) for stay in stays]
    confirms = [[frame for frame in stay if frame.sequence == _CONFIRM and commits
                 and frame.time_s > commits[0].time_s]
                for stay, commits in zip(stays, agreed, strict=True)]
    is_whole = all(len(_sender_addresses(frames)) == 2 for frames in (*agreed, *confirms))
    refused = [frame for stay in stays for frame in stay if _is_refusal(frame, observed.mac)]
    tokens = sum(frame.status == _TOKEN_ASKED for frame in refused)
    strange = [frame for stay in stays for frame in stay if frame not in refused
               and frame.status not in (_ACCEPTED if frame.sequence == _COMMIT else (_SUCCESS,))]
    yield Check("SAE exchange", bool(stays) and is_whole and not strange,
                f"{join_values([len(stay) for stay in stays])} SAE frames: "
                f"{join_values([len(_sender_addresses(each)) for each in agreed])} sides "
                "committed, "
                f"{join_values([len(_sender_addresses(each)) for each in confirms])} confirmed, 2 "
                "in a whole "
                f"exchange; {tokens} asked for a token, {len(refused) - tokens} refused "
                f"a group, {len(strange)} have another status")
    group = layer.group or _USUAL_GROUP
    groups = {frame.sae_group for commits in agreed for frame in commits}
    yield Check("SAE group", groups == {group},
                f"group {sorted(filter(None, groups))} in the commits, {group} expected")
    if layer.sae:
        expected = _HASH_TO_ELEMENT if layer.sae == "h2e" else _SUCCESS
        statuses = {frame.status for commits in agreed for frame in commits}
        yield Check("SAE element", statuses == {expected},
                    f"status {sorted(s for s in statuses if s is not None)} of the commits, "
                    f"{expected} expected ({_HASH_TO_ELEMENT}: hash to element, {_SUCCESS}: "
                    "hunting and pecking)")


def _is_refusal(frame: Management, mac: str) -> bool:
    """Return whether an access point's answer makes the station repeat its commit."""
    return (frame.sequence == _COMMIT and frame.transmitter != mac
            and frame.status in (_TOKEN_ASKED, _GROUP_REFUSED))


def _accepted_commits(frames: Sequence[Management], mac: str) -> list[Management]:
    """Return the commits of one attachment after the last refusal."""
    refused_s = max((frame.time_s for frame in frames if _is_refusal(frame, mac)),
                    default=float("-inf"))
    return [frame for frame in frames if frame.sequence == _COMMIT
            and frame.status in _ACCEPTED and frame.time_s > refused_s]


def _sender_addresses(frames: Sequence[Management]) -> set[str]:
    return {frame.transmitter for frame in frames}


def _check_owe(layer: LinkLayer, observed: Observed) -> Check:
    """Check that request and response carry public keys in the policy's group.

    A request may be retransmitted, and a request in a rejected group does not count. The response
    answers the last request before it.
    """
    expected, whole, groups = layer.group or _USUAL_GROUP, [], set()
    for stay in observed.management_by_attachment():
        said = [frame for frame in stay if frame.owe_key
                and observed.mac in (frame.transmitter, frame.receiver)]
        answers = [frame for frame in said if frame.is_response and not frame.status]
        asked = [frame for frame in said if frame.is_request and answers
                 and frame.time_s < answers[-1].time_s]
        agreed = [*asked[-1:], *answers]
        groups |= {frame.owe_group for frame in agreed}
        whole.append(bool(asked) and bool(answers) and not (
            {frame.owe_key for frame in asked} & {frame.owe_key for frame in answers}))
    return Check("OWE exchange", all(whole) and groups == {expected},
                 f"public keys both ways in {sum(whole)} of {len(whole)} associations, group "
                 f"{sorted(filter(None, groups))}, {expected} expected")
