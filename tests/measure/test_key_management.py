"""Tests of what modern links are proven by: one thing otherwise, and exactly its check fails."""

from __future__ import annotations

import hmac
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import made_up_captures
from measure.attacks import passphrase_guessing
from measure.capture import tshark
from measure.capture.tshark import Packet
from measure.checks import eap_tunnel, key_management, layer_checks, phases
from measure.checks.observation import Observation
from measure.packets import decryption_keys, management_frames
from measure.packets.eap import InnerEapFrame, read_nested_eap_frames
from measure.packets.management_frames import ManagementFrame
from policies import Dot1xLayer, IpsecLayer, LinkLayer

STATION, ACCESS_POINT = "02:00:00:00:a2:00", "02:00:00:00:a0:00"
BLANK = tshark.parse_packets("0\t60\n")[0]
#: Required and possible protection, and validation of the channel.
CAPABILITIES = 0x40C0
SAE = LinkLayer.model_validate({
    "cipher": "CCMP", "keys": "sae", "sae": "h2e", "group": 19, "pmf": 2, "beacon_protection": 1,
    "ocv": 1})
MIXED = LinkLayer.model_validate({
    "cipher": "CCMP", "keys": "sae", "pmf": 1, "offered": ["WPA-PSK", "SAE"]})
GROUP = LinkLayer.model_validate({"cipher": "CCMP", "keys": "psk", "group_cipher": "TKIP"})
OLDER = LinkLayer.model_validate({
    "cipher": "CCMP", "keys": "psk", "pmf": 1, "offered": ["WPA-PSK", "SAE"], "station_pmf": 0})
OWE = LinkLayer.model_validate({"cipher": "CCMP", "keys": "owe", "pmf": 2})


def frame(time_s: float, subtype: int, by: str = STATION, **said: Any) -> ManagementFrame:
    """A management frame of the mobile node, or of its access point."""
    to = ACCESS_POINT if by == STATION else STATION
    return ManagementFrame(time_s, subtype, by, to, protected=False, **said)


def frames(akm: int) -> list[ManagementFrame]:
    """A beacon, SAE's exchange or that of OWE, an association, and its end."""
    agreed = {"akms": (akm,), "capabilities": CAPABILITIES, "data_group_cipher": 2}
    exchange = [frame(2 + n, tshark.AUTHENTICATION_SUBTYPE, by, algorithm=3, sequence=sequence,
                      status=status, sae_group=19 if sequence == 1 else None)
                for n, (by, sequence, status) in enumerate((
                    (STATION, 1, 126), (ACCESS_POINT, 1, 126), (STATION, 2, 0),
                    (ACCESS_POINT, 2, 0)))]
    keys = [{"owe_group": 19, "owe_key": key} if akm == 18 else {} for key in ("aa", "bb")]
    return [frame(1, management_frames.BEACON, ACCESS_POINT, says_beacons_are_protected=True,
                  elements=(0, 48, 76), **agreed),
            *(exchange if akm == 8 else []),
            frame(7, management_frames.ASSOCIATION_REQUEST, group_cipher=6, **agreed, **keys[0]),
            frame(8, management_frames.ASSOCIATION_RESPONSE, ACCESS_POINT, **keys[1]),
            replace(frame(20, management_frames.DEAUTHENTICATION), protected=True)]


def mixed_frames(akm: int) -> list[ManagementFrame]:
    """The same in a network that offers a passphrase, too, and does not insist on protection."""
    [beacon, *rest] = [replace(each, capabilities=each.capabilities and 0x4080)
                       for each in frames(akm)]
    return [replace(beacon, akms=(2, 8)), *rest]


def seen(managed: list[ManagementFrame], akm: int, mfp: str = "yes") -> Observation:
    """What a mobile node left that joined by these management frames."""
    request = replace(BLANK, time_s=7, subtype=0, transmitter=STATION, receiver=ACCESS_POINT,
                      rsn_cipher=4, rsn_akm=akm)
    keys = [replace(BLANK, time_s=9 + n, eapol_type=tshark.EAPOL_KEY) for n in range(4)]
    raw = {"kernel": {"station": {"MFP": mfp}}, "stamps": {}}
    return Observation(raw, {"auth-air": [request], "auth-mn": keys}, STATION,
                       macs=frozenset({STATION}), addresses=frozenset(), management=managed)


def failing(layer: LinkLayer, managed: list[ManagementFrame], akm: int,
            mfp: str = "yes") -> set[str]:
    """Names of the checks that do not hold."""
    return {check.check for check in key_management.check_key_management(
        layer, seen(managed, akm, mfp)) if not check.ok}


CASES: list[tuple[str, LinkLayer, int, int, dict[str, Any], str]] = [
    ("weaker suite beside it", SAE, 8, 0, {"akms": (8, 2)}, "key management offered"),
    ("protection not required", SAE, 8, 0, {"capabilities": 0x4080},
     "protection of management frames negotiated"),
    ("other group cipher", SAE, 8, 5, {"group_cipher": 12},
     "protection of management frames negotiated"),
    ("beacon without check", SAE, 8, 0, {"elements": (0, 48)}, "beacons are protected"),
    ("channel not validated", SAE, 8, 5, {"capabilities": 0xC0},
     "operating channel validation negotiated"),
    ("left in clear", SAE, 8, 7, {"protected": False}, "nobody leaves in clear"),
    ("other group", SAE, 8, 2, {"sae_group": 20}, "SAE group"),
    ("hunting and pecking", SAE, 8, 1, {"status": 0}, "SAE element"),
    ("confirm refused", SAE, 8, 4, {"status": 1}, "SAE exchange"),
    ("no confirm", SAE, 8, 3, {"transmitter": ACCESS_POINT}, "SAE exchange"),
    ("group cipher is another", GROUP, 2, 0, {"data_group_cipher": 4}, "group cipher negotiated"),
    ("station has another group cipher", GROUP, 2, 1, {"data_group_cipher": None},
     "group cipher negotiated"),
    ("older suite is not offered", MIXED, 8, 0, {"akms": (8,)}, "key management offered"),
    ("access point of a mixed network insists", MIXED, 8, 0, {"capabilities": 0x40C0},
     "protection of management frames negotiated"),
    ("other group of OWE", OWE, 18, 1, {"owe_group": 20}, "OWE exchange"),
    ("no key in the answer", OWE, 18, 2, {"owe_key": ""}, "OWE exchange"),
    ("the key sent back", OWE, 18, 2, {"owe_key": "aa"}, "OWE exchange"),
]


@pytest.mark.parametrize(("what", "layer", "akm", "index", "change", "expected"), CASES,
                         ids=[case[0] for case in CASES])
def test_each_check_of_key_management_fails_alone(
        what: str, layer: LinkLayer, akm: int, index: int, change: dict[str, Any],
        expected: str) -> None:
    """One frame otherwise than the policy says, and exactly the check for it fails."""
    managed = mixed_frames(akm) if layer.offered else frames(akm)
    assert failing(layer, managed, akm) == set()
    managed[index] = replace(managed[index], **change)
    assert failing(layer, managed, akm) == {expected}, what


@pytest.mark.parametrize(("at_station", "mfp", "expected"), [
    (0, "no", set()), (0x80, "no", {"station without protected management frames"}),
    (0, "yes", {"station without protected management frames"})])
def test_older_station_of_mixed_network_has_no_protection(at_station: int, mfp: str,
                                                          expected: set[str]) -> None:
    """Neither its request nor the kernel says so, while the access point offers protection."""
    managed = [replace(each, capabilities=at_station) if each.is_request else each
               for each in mixed_frames(2)]
    assert failing(OLDER, managed, 2, mfp) == expected


def sae(time_s: float, by: str, sequence: int, status: int,
        group: int | None = 19) -> ManagementFrame:
    """A frame of SAE; of a confirm there is no group."""
    return frame(time_s, tshark.AUTHENTICATION_SUBTYPE, by, algorithm=3, sequence=sequence,
                 status=status, sae_group=group if sequence == 1 else None)


def with_exchange(*exchange: ManagementFrame) -> list[ManagementFrame]:
    """The frames of an association with another exchange of SAE in front of it."""
    beacon, _, _, _, _, *rest = frames(8)
    return [beacon, *exchange, *rest]


TOKENS = [sae(2, STATION, 1, 126), sae(2.1, ACCESS_POINT, 1, 76), sae(2.2, STATION, 1, 126),
          sae(2.3, ACCESS_POINT, 1, 126), sae(2.4, STATION, 2, 0), sae(2.5, ACCESS_POINT, 2, 0)]
OTHER_GROUP = [sae(1.5, STATION, 1, 126, 20), sae(1.6, ACCESS_POINT, 1, 77, 20), *frames(8)[1:5]]
REPEATED = [sae(2, STATION, 1, 126), sae(2.1, STATION, 1, 126), sae(2.2, ACCESS_POINT, 1, 126),
            sae(2.3, STATION, 2, 0), sae(2.4, ACCESS_POINT, 1, 126), sae(2.5, STATION, 2, 0),
            sae(2.6, ACCESS_POINT, 2, 0), sae(2.7, ACCESS_POINT, 2, 0)]


@pytest.mark.parametrize("exchange", [TOKENS, OTHER_GROUP, REPEATED,
                                      [*OTHER_GROUP[:2], *TOKENS]],
                         ids=["token", "other group refused", "sent again", "both"])
def test_legal_exchange_of_sae_is_whole(exchange: list[ManagementFrame]) -> None:
    """A token against clogging, a group that is refused, and frames that are sent again."""
    assert failing(SAE, with_exchange(*exchange), 8) == set()


TRIED = SAE.model_copy(update={"station_groups": [20, 19]})


@pytest.mark.parametrize(("exchange", "fails"), [
    (OTHER_GROUP, set()), ([*OTHER_GROUP[:2], *TOKENS], set()),
    (TOKENS, {"SAE groups tried"}), ([OTHER_GROUP[0], *TOKENS], {"SAE groups tried"}),
    ([sae(1.2, STATION, 1, 126, 21), sae(1.3, ACCESS_POINT, 1, 77, 21), *OTHER_GROUP],
     {"SAE groups tried"})],
    ids=["refused", "refused, then a token", "other group alone", "not refused", "a third group"])
def test_groups_are_tried_in_the_stations_order(exchange: list[ManagementFrame],
                                                fails: set[str]) -> None:
    assert failing(TRIED, with_exchange(*exchange), 8) == fails


@pytest.mark.parametrize(("exchange", "expected"), [
    (TOKENS[:2], {"SAE exchange", "SAE group", "SAE element"}),
    (TOKENS[:3], {"SAE exchange"}),
    ([*TOKENS[:4], TOKENS[5]], {"SAE exchange"}),
    ([*frames(8)[1:5], sae(6, ACCESS_POINT, 1, 76)],
     {"SAE exchange", "SAE group", "SAE element"}),
    ([*TOKENS[:2], replace(TOKENS[2], sae_group=20), replace(TOKENS[3], sae_group=20),
      *TOKENS[4:]], {"SAE group"}),
    ([*TOKENS[:2], replace(TOKENS[2], status=0), replace(TOKENS[3], status=0), *TOKENS[4:]],
     {"SAE element"}),
    ([*TOKENS[:2], replace(TOKENS[2], status=76), *TOKENS[2:]], {"SAE exchange"}),
    ([*TOKENS[:3], replace(TOKENS[3], status=1), *TOKENS[3:]], {"SAE exchange"}),
], ids=["asked for a token only", "not answered", "no confirm", "refused in the end",
        "another group", "another element", "refused by the station", "refused otherwise"])
def test_exchange_of_sae_that_agrees_on_nothing_is_none(
        exchange: list[ManagementFrame], expected: set[str]) -> None:
    """What was refused counts for nothing, however many frames there are."""
    assert failing(SAE, with_exchange(*exchange), 8) == expected


def owe(time_s: float, subtype: int, by: str, key: str, group: int = 19,
        **said: Any) -> ManagementFrame:
    """A request or response with a public key."""
    more = {"akms": (18,), "capabilities": CAPABILITIES, "group_cipher": 6} if by == STATION else {}
    return frame(time_s, subtype, by, owe_group=group, owe_key=key, **more, **said)


REQUEST, RESPONSE = management_frames.ASSOCIATION_REQUEST, management_frames.ASSOCIATION_RESPONSE


@pytest.mark.parametrize(("further", "expected"), [
    ([owe(6.9, REQUEST, STATION, "aa")], set()),
    ([owe(6.8, REQUEST, STATION, "cc", 20), frame(6.9, RESPONSE, ACCESS_POINT, status=77)], set()),
    ([owe(8.1, RESPONSE, ACCESS_POINT, "bb")], set()),
    ([owe(6.9, REQUEST, STATION, "bb")], {"OWE exchange"}),
], ids=["request again", "other group refused", "response again", "the key sent back"])
def test_request_for_owe_may_be_sent_again(further: list[ManagementFrame],
                                           expected: set[str]) -> None:
    """The same, or in another group; a key that comes back is no exchange."""
    managed = sorted([*frames(18), *further], key=lambda one: one.time_s)
    assert failing(OWE, managed, 18) == expected


LATE = frame(20.1, management_frames.DEAUTHENTICATION, ACCESS_POINT)
AGAIN = frame(30, management_frames.REASSOCIATION_REQUEST, group_cipher=6, akms=(8,),
              capabilities=CAPABILITIES)
#: By fast transition there are keys once the association is agreed on.
FAST = [frame(29, tshark.AUTHENTICATION_SUBTYPE, algorithm=2), AGAIN,
        frame(30.1, management_frames.REASSOCIATION_RESPONSE, ACCESS_POINT)]
BY_WIRE = [frame(29, 0x0D, category=6, action=1, target=ACCESS_POINT), *FAST[1:]]
GIVEN_UP = frame(30.2, management_frames.DEAUTHENTICATION)


@pytest.mark.parametrize(("further", "expected"), [
    ([LATE], set()),
    ([replace(LATE, time_s=19.9)], {"nobody leaves in clear"}),
    ([AGAIN, GIVEN_UP], set()),
    ([*FAST, GIVEN_UP], {"nobody leaves in clear"}),
    ([*BY_WIRE, GIVEN_UP], {"nobody leaves in clear"}),
    ([*FAST, replace(GIVEN_UP, protected=True)], set())],
    ids=["answer to a late frame", "before it leaves", "attempt without keys",
         "of the next association", "of the next one over the DS", "protected"])
def test_only_associations_with_keys_end_in_protected_frames(
        further: list[ManagementFrame], expected: set[str]) -> None:
    """An attempt is given up in clear, and one that was left answers so; with keys, none may."""
    assert failing(SAE, [*frames(8), *further], 8) == expected


NEXT = "02:00:00:00:c0:00"
OVER_DS = LinkLayer.model_validate({
    "cipher": "CCMP", "keys": "psk", "roaming": "ft", "ft_over_ds": 1})


def passed_on(number: int, station: str = STATION) -> bytes:
    """A frame of hostapd's between access points, with a request or response of a station."""
    ends = [bytes.fromhex(mac.replace(":", "")) for mac in (NEXT, ACCESS_POINT, station)]
    return (ends[0] + ends[1] + bytes.fromhex("890d") + bytes((1, number - 1, 2, 0)) + ends[1]
            + bytes((6, number)) + ends[2] + ends[0] + bytes(2))


def moved_over_ds(folder: Path, changes: dict[int, dict[str, Any]],
                  wire: list[bytes]) -> dict[str, bool]:
    """The checks of a station's move whose frames are changed by number."""
    asked: dict[str, Any] = {"category": 6, "target": NEXT, "mobility_domain": 1}
    managed = [frame(21, 0x0D, action=1, **asked),
               frame(22, 0x0D, ACCESS_POINT, action=2, status=0, **asked),
               replace(frame(23, management_frames.REASSOCIATION_REQUEST), receiver=NEXT),
               replace(frame(24, management_frames.REASSOCIATION_RESPONSE, NEXT, status=0,
                             mobility_domain=1))]
    for number, change in changes.items():
        managed[number] = replace(managed[number], **change)
    made_up_captures.written(folder / "auth-foreign.pcap", [(21.5, data) for data in wire])
    observed = replace(seen(managed, 4), moves=True, roaming="ft", folder=folder,
                       raw={"kernel": {}, "stamps": {"foreign_start": 20.5}})
    return {check.check: check.ok for check in key_management.check_key_management(
        OVER_DS, observed) if check.check.startswith("fast transition")}


@pytest.mark.parametrize(("changes", "wire", "fails"), [
    ({}, [1, 2], set()), ({}, [1], {"fast transition over the DS"}),
    ({}, [], {"fast transition over the DS"}),
    ({0: {"target": ACCESS_POINT}}, [1, 2], {"fast transition over the DS"}),
    ({0: {"receiver": NEXT}}, [1, 2], {"fast transition over the DS"}),
    ({1: {"status": 53}}, [1, 2], {"fast transition"}),
    ({1: {"category": 5}}, [1, 2], {"fast transition", "fast transition over the DS"}),
    ({0: {"subtype": 0x0B, "algorithm": 2, "category": None, "receiver": NEXT},
      1: {"subtype": 0x0B, "algorithm": 2, "category": None, "transmitter": NEXT}}, [1, 2],
     {"fast transition over the DS"})], ids=[
         "passed on", "no answer", "not passed on", "for another one", "of the next one itself",
         "refused", "other answer", "over the air"])
def test_fast_transition_over_the_ds_passes_by_wire(
        changes: dict[int, dict[str, Any]], wire: list[int], fails: set[str],
        tmp_path: Path) -> None:
    found = moved_over_ds(tmp_path, changes, [passed_on(number) for number in wire])
    assert found.keys() == {"fast transition", "fast transition over the DS"}
    assert {name for name, ok in found.items() if not ok} == fails


def test_another_stations_fast_transition_is_not_the_nodes(tmp_path: Path) -> None:
    others = [passed_on(number, "02:00:00:00:ff:00") for number in (1, 2)]
    assert not moved_over_ds(tmp_path, {}, others)["fast transition over the DS"]
    strange = [b"\0" * 12 + bytes.fromhex("890d0101"), passed_on(1)[:30]]
    assert not moved_over_ds(tmp_path, {}, strange)["fast transition over the DS"]


def test_the_kernels_word_alone_fails_alone() -> None:
    """Protection was agreed, and the access point's kernel does not do it."""
    observed = seen(frames(8), 8)
    observed.raw["kernel"]["station"]["MFP"] = "no"
    assert [check.check for check in key_management.check_key_management(SAE, observed)
            if not check.ok] == [
        "management frames are protected"]


def hello(source: str, **said: Any) -> InnerEapFrame:
    """A frame of TLS inside EAP."""
    nothing: dict[str, Any] = dict.fromkeys(
        ("identities", "handshakes", "versions", "groups", "suites", "curves", "attributes",
         "data"), ())
    return InnerEapFrame(5.0, source, **{"types": (13,), **nothing, **said})


TLS_1_3 = Dot1xLayer.model_validate({
    "eap": "TLS", "identity": "anonymous", "tls": {
        "version": "1.3", "group": "x25519", "fragment_bytes": 1024}})
OPENED = [hello(STATION, types=(1,), identities=("anonymous",)),
          hello(ACCESS_POINT, handshakes=(2,), versions=(0x0304,), groups=(29,)),
          hello(ACCESS_POINT, handshakes=(8, 11, 13, 15, 20), signatures_bytes=(256,),
                certificates=(728, 710), size_bytes=1024, has_more=True),
          hello(STATION, handshakes=(11, 15, 20), signatures_bytes=(256,), certificates=(709, 710))]


@pytest.mark.parametrize(("index", "change", "expected"), [
    (0, {"identities": ("mobile-node",)}, "identity is hidden"),
    (1, {"versions": (0x0303,)}, "TLS 1.3"),
    (1, {"groups": (23,)}, "TLS group"),
    (2, {"handshakes": (8, 11, 20)}, ""),
    (3, {"handshakes": (11, 20)}, "mutual authentication"),
    (2, {"signatures_bytes": (128,)}, "TLS certificate keys"),
    (3, {"signatures_bytes": ()}, ""),
    (3, {"certificates": (709,)}, "TLS certificate chain"),
    (2, {"size_bytes": 1020}, "TLS fragments"),
    (1, {"size_bytes": 1025}, "TLS fragments"),
])
def test_each_check_of_tls_fails_alone(index: int, change: dict[str, Any], expected: str) -> None:
    """Certificates that TLS 1.3 hides, its version and group, and the identity before it."""
    def verified(inside: list[InnerEapFrame]) -> set[str]:
        observed = replace(seen([], 5), inside=inside)
        return {check.check for check in eap_tunnel.check_eap_tunnel(TLS_1_3, [[]], observed)
                if not check.ok}

    assert verified(OPENED) == set()
    altered = [*OPENED]
    altered[index] = replace(altered[index], **change)
    assert verified(altered) == {expected} - {""}


NESTED = Dot1xLayer.model_validate({"eap": "PEAP", "inner": "TLS", "identity": "anonymous"})
#: Bodies of TLS handshake messages, as short as may be.
_HELLO = bytes.fromhex("0303") + bytes(33)
_BODIES = {1: _HELLO + bytes.fromhex("0002c02f0100"), 2: _HELLO + bytes.fromhex("c02f00"),
           11: bytes(3), 14: b"", 15: bytes.fromhex("040300020000")}


def handshake(*kinds: int) -> bytes:
    """A TLS record with these handshake messages."""
    messages = b"".join(bytes((kind,)) + len(_BODIES[kind]).to_bytes(3, "big") + _BODIES[kind]
                        for kind in kinds)
    return b"\x16\x03\x03" + len(messages).to_bytes(2, "big") + messages


def nested(server: tuple[int, ...], node: tuple[int, ...]) -> list[InnerEapFrame]:
    """What PEAP carries: EAP-TLS with these messages of both ends, the node's in fragments."""
    proof = handshake(*node)
    parts = [(ACCESS_POINT, b"\x0d\x20"), (STATION, b"\x0d\0" + handshake(1)),
             (ACCESS_POINT, b"\x0d\0" + handshake(*server)),
             (STATION, b"\x0d\xc0" + len(proof).to_bytes(4, "big") + proof[:7]),
             (ACCESS_POINT, b"\x0d\0"), (STATION, b"\x0d\0" + proof[7:])]
    return [hello(STATION, types=(1,), identities=("anonymous",)),
            *(hello(source, data=(data,)) for source, data in parts)]


@pytest.mark.parametrize(("server", "node", "ok"), [
    ((2, 11, 14), (11, 15), True), ((2, 14), (11, 15), False), ((2, 11, 14), (11,), False)],
    ids=["both", "server shows none", "node proves nothing"])
def test_both_ends_show_certificates_inside_peap(server: tuple[int, ...], node: tuple[int, ...],
                                                 ok: bool) -> None:
    inside = nested(server, node)
    observed = replace(seen([], 5), inside=inside, nested=[
        read_nested_eap_frames(inside, STATION, [])])
    found = {check.check: check.ok for check in eap_tunnel.check_eap_tunnel(
        NESTED, [[]], observed)}
    assert found["inner method TLS"]
    assert found["mutual authentication inside the tunnel"] is ok


def test_tunnel_without_eap_tls_inside_shows_no_certificates() -> None:
    assert read_nested_eap_frames([hello(STATION, data=(b"\x1a\x02",))], STATION, []) == []
    assert not eap_tunnel._check_nested_certificates([], seen([], 5)).ok


def test_server_that_asks_for_another_key_share_says_the_group_twice() -> None:
    """Its first hello asks (HelloRetryRequest), the second agrees; another group in one fails."""
    asking = hello(ACCESS_POINT, handshakes=(2,), versions=(0x0304,))
    for first, expected in ((asking, set()), (replace(asking, groups=(29,)), set()),
                            (replace(asking, groups=(23,)), {"TLS group"})):
        observed = replace(seen([], 5), inside=[OPENED[0], first, *OPENED[1:]])
        assert {check.check for check in eap_tunnel.check_eap_tunnel(TLS_1_3, [[]], observed)
                if not check.ok} == expected


@pytest.mark.parametrize(("version", "sessions", "said", "holds"), [
    ("1.3", "full", {"suites": (0x1302,), "groups": (24,)}, True),
    ("1.3", "full", {"suites": (0x1301,), "groups": (24,)}, False),
    ("1.3", "full", {"suites": (0x1302,), "groups": (23,)}, False),
    ("1.3", "full", {"suites": (0xC02C,), "curves": (24,)}, False),
    ("1.2", "full", {"suites": (0xC02C,), "curves": (24,)}, True),
    ("1.2", "full", {"suites": (0xC02C,), "curves": (23,)}, False),
    ("1.2", "full", {"suites": (0xC02C,)}, False),
    ("1.2", "resumed", {"suites": (0xC02C,)}, True),
    ("1.2", "resumed", {"suites": (0xC02B,)}, False)])
def test_suite_of_p384_follows_from_the_version(version: str, sessions: str, said: dict[str, Any],
                                                *, holds: bool) -> None:
    """TLS 1.3 names the suite without the key exchange, whose group is that of the key share."""
    layer = Dot1xLayer.model_validate({"eap": "PEAP", "inner": "MSCHAPV2", "tls": {
        "key": "p-384", "version": version, "sessions": sessions}})
    inside = [hello(ACCESS_POINT, handshakes=(2,), **said)]
    checks = eap_tunnel.check_eap_tunnel(layer, [[]], replace(seen([], 5), inside=inside))
    assert [check.ok for check in checks if check.check == "TLS suite"] == [holds]


@pytest.mark.parametrize(("curve", "holds"), [(23, True), (29, False)])
def test_group_of_tls_1_2_is_that_of_the_key_exchange_message(curve: int, *, holds: bool) -> None:
    layer = Dot1xLayer.model_validate({"eap": "TLS", "tls": {"group": "p-256"}})
    inside = [hello(ACCESS_POINT, handshakes=(2, 11, 12), curves=(curve,))]
    checks = eap_tunnel.check_eap_tunnel(layer, [[]], replace(seen([], 5), inside=inside))
    assert [check.ok for check in checks if check.check == "TLS group"] == [holds]


@pytest.mark.parametrize(("key", "size_bytes", "holds"), [
    ("rsa-1024", 128, True), ("rsa-3072", 384, True), ("rsa-4096", 512, True),
    ("rsa-4096", 384, False), ("p-256", 71, True), ("p-256", 102, False), ("p-384", 103, True),
    ("p-384", 71, False)])
def test_key_of_a_certificate_is_known_by_its_signatures(key: str, size_bytes: int, *,
                                                         holds: bool) -> None:
    layer = Dot1xLayer.model_validate({"eap": "TLS", "tls": {"key": key}})
    inside = [hello(ACCESS_POINT, handshakes=(2,), versions=(0x0303,)),
              hello(ACCESS_POINT, handshakes=(11, 12), signatures_bytes=(size_bytes,))]
    checks = eap_tunnel.check_eap_tunnel(layer, [[]], replace(seen([], 5), inside=inside))
    assert [check.ok for check in checks if check.check == "TLS certificate keys"] == [holds]


@pytest.mark.parametrize(("inner", "codes"), [
    ("PAP", (1, 2)), ("CHAP", (1, 3, 60)), ("MSCHAP", (1, 11, 1)), ("MSCHAPV2", (1, 11, 25))])
def test_inner_method_of_ttls_is_known_by_its_attributes(inner: str,
                                                         codes: tuple[int, ...]) -> None:
    """Each method's attributes prove that method, and no other."""
    def proves(other: str) -> bool:
        layer = Dot1xLayer.model_validate({"eap": "TTLS", "inner": other})
        observed = replace(seen([], 5), inside=[hello(STATION, attributes=codes)])
        return next(check.ok for check in eap_tunnel.check_eap_tunnel(layer, [[]], observed)
                    if check.check == f"inner method {other}")

    assert [other for other in ("PAP", "CHAP", "MSCHAP", "MSCHAPV2") if proves(other)] == [inner]


@pytest.mark.parametrize(("authentication", "sent", "back"), [
    ("pubkey", 548, 500), ("psk", 276, 228), ("certificate", 1300, 1250),
    ("eap-tls", 260, 1230)])
def test_ends_of_ike_are_known_by_the_length_of_their_proof(authentication: str, sent: int,
                                                            back: int) -> None:
    """Each way to authenticate proves itself, and no other one."""
    packets = [replace(BLANK, isakmp_exchange=35, ethernet_src=source, ip_bytes=size + 28)
               for source, size in ((STATION, sent), (ACCESS_POINT, back))]

    def proves(way: str) -> bool:
        layer = IpsecLayer.model_validate({
            "ike": 2, "ike_proposal": "aes128-sha256-ecp256", "esp_proposal": "aes128-sha256",
            "authentication": way})
        return layer_checks.check_ike_authentication(layer, [packets], STATION).ok

    ways = ("pubkey", "psk", "certificate", "eap-tls")
    assert [way for way in ways if proves(way)] == [authentication]


def eap(time_s: float, identifier: int) -> Packet:
    """An EAP request."""
    return replace(BLANK, time_s=time_s, eap_code=1, eap_id=identifier, ethernet_src=ACCESS_POINT)


def asking(time_s: float) -> Packet:
    """A registration request of the mobile node."""
    return replace(BLANK, time_s=time_s, mip_type=1, ethernet_src=STATION)


def ike(time_s: float, to: str = "10.1.0.1", **values: Any) -> Packet:
    """A request of IKE's version 2."""
    return replace(BLANK, time_s=time_s, ethernet_src=STATION, isakmp_exchange=37, ike_spi="aa",
                   ike_number=2, ip_src="10.2.0.140", ip_dst=to, **values)


REPLY = replace(BLANK, time_s=4, mip_type=3, mip_code=133)


@pytest.mark.parametrize(("packets", "said"), [
    ([eap(1, 7), eap(2, 8)], []),
    ([eap(1, 7), eap(4.004, 7), eap(5, 8)], ["EAP request 7 sent again after 3.004 s"]),
    ([asking(1), asking(2.5)], ["registration request sent again after 1.500 s"]),
    ([asking(1), REPLY, asking(5)], []),  # denied, and asked anew
    ([ike(1), ike(3)], ["IKE message sent again after 2.000 s"]),
    ([ike(1), replace(ike(1.1), ike_number=3), ike(2, length=90)], []),
    ([ike(1), ike(1, "10.1.1.1"), ike(1, "10.0.1.1")], []),  # MOBIKE looks for a way
])
def test_retransmissions_are_found(packets: list[Packet], said: list[str]) -> None:
    """A request of the same identifier, or another before any answer; its wait is in the time."""
    observed = replace(seen([], 5), captures={"auth-mn": packets})
    assert phases.find_retransmissions(observed) == said


@pytest.mark.parametrize(("made_with", "holds"), [
    ("own", True), ("other", False), ("shared", False), ("", False)])
def test_handshake_is_made_with_the_passphrase_of_the_device(
        tmp_path: Path, made_with: str, holds: bool) -> None:
    """Neither that of another device, nor one that all devices have."""
    other = "02:00:00:00:a3:00"
    words = {"own": decryption_keys.device_passphrase("secret", STATION), "shared": "secret",
             "other": decryption_keys.device_passphrase("secret", other)}
    frames = handshake_frames(words[made_with], "lab") if made_with else []
    file = made_up_captures.written(tmp_path / "auth-mn.pcap", enumerate(frames))
    layer = LinkLayer.model_validate({"cipher": "CCMP", "keys": "psk", "passphrases": "by-device"})
    seen_by = replace(seen(frames_of_psk(), 2), folder=file.parent, passphrase="secret",
                      ssids=("lab",), macs=frozenset({STATION, other}))
    found = {check.check: check.ok for check in key_management.check_key_management(layer, seen_by)}
    assert found["passphrase is the device's own"] is holds
    assert all(ok for name, ok in found.items() if "passphrase" not in name)


@pytest.mark.parametrize(("key_data", "holds"), [
    ("dd07000fac0d510100", True), ("dd07000fac0a510100", False), ("", False)])
def test_station_without_its_channel_in_the_handshake_is_noticed(
        tmp_path: Path, key_data: str, *, holds: bool) -> None:
    """The second message of the handshake has class and number of the channel (OCI)."""
    request, answer = handshake_frames("secret", "lab")
    file = made_up_captures.written(tmp_path / "auth-mn.pcap", enumerate(
        [request, extend_handshake(answer, bytes.fromhex(key_data))]))
    found = {check.check: check.ok for check in key_management.check_key_management(
        SAE, replace(seen(frames(8), 8), folder=file.parent))}
    assert [name for name, ok in found.items() if not ok] == (
        [] if holds else ["station states its channel"])


def extend_handshake(frame_: bytes, key_data: bytes) -> bytes:
    """Return a message of a handshake with key data at its end, and its length set."""
    at = 14 + 2
    size = int.from_bytes(frame_[at:at + 2], "big") + len(key_data)
    return frame_[:at] + size.to_bytes(2, "big") + frame_[at + 2:-2] + len(
        key_data).to_bytes(2, "big") + key_data


@pytest.mark.parametrize(("transmitter", "elements", "holds"), [
    (ACCESS_POINT, (0, 48, 76), True), (ACCESS_POINT, (0, 48), False),
    ("02:00:00:00:a0:01", (0,), True)])
def test_beacons_of_the_open_network_beside_owe_need_no_protection(
        transmitter: str, elements: tuple[int, ...], *, holds: bool) -> None:
    """In OWE transition mode the beacons of the network with OWE alone count."""
    layer = LinkLayer.model_validate({"cipher": "CCMP", "keys": "owe", "pmf": 2,
                                      "beacon_protection": 1})
    managed = [*frames(18), replace(frames(18)[0], transmitter=transmitter, elements=elements,
                                    akms=frames(18)[0].akms if transmitter == ACCESS_POINT else ())]
    found = {check.check: check.ok for check in key_management.check_key_management(
        layer, replace(seen(managed, 18), cells=frozenset({ACCESS_POINT})))}
    assert found["beacons are protected"] is holds
    assert sum(not ok for ok in found.values()) == (not holds)


def frames_of_psk() -> list[ManagementFrame]:
    """The frames of an association with a passphrase, without protection."""
    return [each for each in frames(2) if not each.is_end]


def handshake_frames(passphrase: str, ssid: str) -> list[bytes]:
    """The first two messages of a four-way handshake that is made with a passphrase."""
    cell, station = (bytes.fromhex(mac.replace(":", "")) for mac in (ACCESS_POINT, STATION))
    nonces = bytes([1] * 32), bytes([2] * 32)
    blank = [bytes((2, 3, 0, 95, 2, 1, 10)) + bytes(10) + nonce + bytes(32) + bytes(16) + bytes(2)
             for nonce in nonces]
    seed = b"".join((*sorted((cell, station)), *sorted(nonces)))
    key = hmac.digest(passphrase_guessing.master_key(passphrase, ssid),
                      b"Pairwise key expansion\0" + seed + b"\0", "sha1")[:16]
    check = hmac.digest(key, blank[1], "sha1")[:16]
    answer = blank[1][:81] + check + blank[1][97:]
    kind = b"\x88\x8e"
    return [station + cell + kind + blank[0], cell + station + kind + answer]


@pytest.mark.parametrize(("offer", "request_", "broken"), [
    ({}, {}, set()),
    ({"reports_neighbors": False}, {}, {"neighbor reports supported"}),
    ({"has_bss_transition": False}, {}, {"BSS transition supported"}),
    ({}, {"elements": ()}, {"neighbor reports supported"}),
    ({}, {"has_bss_transition": False}, {"BSS transition supported"})])
def test_hints_for_roaming_are_announced_by_both_sides(
        offer: dict[str, Any], request_: dict[str, Any], broken: set[str]) -> None:
    layer = LinkLayer.model_validate(
        {"cipher": "CCMP", "keys": "psk", "neighbor_report": 1, "bss_transition": 1})
    beacon = frame(1, management_frames.BEACON, ACCESS_POINT, **{
        "reports_neighbors": True, "has_bss_transition": True, **offer})
    request = frame(7, management_frames.REASSOCIATION_REQUEST, **{
        "elements": (0, 70), "has_bss_transition": True, **request_})
    checks = list(key_management.check_roaming_support(layer, [beacon, beacon], [request]))
    assert {check.check for check in checks if not check.ok} == broken
    assert not any(check.ok for check in key_management.check_roaming_support(layer, [], []))
    assert not list(key_management.check_roaming_support(SAE, [beacon], [request]))
