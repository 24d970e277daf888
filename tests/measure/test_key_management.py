"""Tests of what modern links are proven by: one thing otherwise, and exactly its check fails."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from measure import dissect, key_management, management, retransmissions, tunnels
from measure.dissect import Packet
from measure.inside import Inside
from measure.management import Management
from measure.observed import Observed
from policies import Dot1xLayer, LinkLayer

STATION, ACCESS_POINT = "02:00:00:00:a2:00", "02:00:00:00:a0:00"
BLANK = dissect.parse_fields("0\t60\n")[0]
#: Required and possible protection, and validation of the channel.
CAPABILITIES = 0x40C0
SAE = LinkLayer.model_validate({
    "cipher": "CCMP", "keys": "sae", "sae": "h2e", "group": 19, "pmf": 2, "beacon_protection": 1,
    "ocv": 1})
OWE = LinkLayer.model_validate({"cipher": "CCMP", "keys": "owe", "pmf": 2})


def frame(time_s: float, subtype: int, by: str = STATION, **said: Any) -> Management:
    """A management frame of the mobile node, or of its access point."""
    to = ACCESS_POINT if by == STATION else STATION
    return Management(time_s, subtype, by, to, protected=False, **said)


def frames(akm: int) -> list[Management]:
    """A beacon, SAE's exchange or that of OWE, an association, and its end."""
    agreed = {"akms": (akm,), "capabilities": CAPABILITIES}
    exchange = [frame(2 + n, dissect.AUTHENTICATION_SUBTYPE, by, algorithm=3, sequence=sequence,
                      status=status, sae_group=19 if sequence == 1 else None)
                for n, (by, sequence, status) in enumerate((
                    (STATION, 1, 126), (ACCESS_POINT, 1, 126), (STATION, 2, 0),
                    (ACCESS_POINT, 2, 0)))]
    keys = [{"owe_group": 19, "owe_key": key} if akm == 18 else {} for key in ("aa", "bb")]
    return [frame(1, management.BEACON, ACCESS_POINT, says_beacons_are_protected=True,
                  elements=(0, 48, 76), **agreed),
            *(exchange if akm == 8 else []),
            frame(7, management.ASSOCIATION_REQUEST, group_cipher=6, **agreed, **keys[0]),
            frame(8, management.ASSOCIATION_RESPONSE, ACCESS_POINT, **keys[1]),
            replace(frame(20, management.DEAUTHENTICATION), protected=True)]


def seen(managed: list[Management], akm: int) -> Observed:
    """What a mobile node left that joined by these management frames."""
    request = replace(BLANK, time_s=7, subtype=0, transmitter=STATION, receiver=ACCESS_POINT,
                      rsn_cipher=4, rsn_akm=akm)
    keys = [replace(BLANK, time_s=9 + n, eapol_type=dissect.EAPOL_KEY) for n in range(4)]
    raw = {"kernel": {"station": {"MFP": "yes"}}, "stamps": {}}
    return Observed(raw, {"auth-air": [request], "auth-mn": keys}, STATION,
                    macs=frozenset({STATION}), addresses=frozenset(), management=managed)


def failing(layer: LinkLayer, managed: list[Management], akm: int) -> set[str]:
    """Names of the checks that do not hold."""
    return {check.check for check in key_management.verify(layer, seen(managed, akm))
            if not check.ok}


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
    assert failing(layer, frames(akm), akm) == set()
    managed = frames(akm)
    managed[index] = replace(managed[index], **change)
    assert failing(layer, managed, akm) == {expected}, what


def sae(time_s: float, by: str, sequence: int, status: int, group: int | None = 19) -> Management:
    """A frame of SAE; of a confirm there is no group."""
    return frame(time_s, dissect.AUTHENTICATION_SUBTYPE, by, algorithm=3, sequence=sequence,
                 status=status, sae_group=group if sequence == 1 else None)


def with_exchange(*exchange: Management) -> list[Management]:
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
def test_legal_exchange_of_sae_is_whole(exchange: list[Management]) -> None:
    """A token against clogging, a group that is refused, and frames that are sent again."""
    assert failing(SAE, with_exchange(*exchange), 8) == set()


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
        exchange: list[Management], expected: set[str]) -> None:
    """What was refused counts for nothing, however many frames there are."""
    assert failing(SAE, with_exchange(*exchange), 8) == expected


def owe(time_s: float, subtype: int, by: str, key: str, group: int = 19, **said: Any) -> Management:
    """A request or response with a public key."""
    more = {"akms": (18,), "capabilities": CAPABILITIES, "group_cipher": 6} if by == STATION else {}
    return frame(time_s, subtype, by, owe_group=group, owe_key=key, **more, **said)


REQUEST, RESPONSE = management.ASSOCIATION_REQUEST, management.ASSOCIATION_RESPONSE


@pytest.mark.parametrize(("further", "expected"), [
    ([owe(6.9, REQUEST, STATION, "aa")], set()),
    ([owe(6.8, REQUEST, STATION, "cc", 20), frame(6.9, RESPONSE, ACCESS_POINT, status=77)], set()),
    ([owe(8.1, RESPONSE, ACCESS_POINT, "bb")], set()),
    ([owe(6.9, REQUEST, STATION, "bb")], {"OWE exchange"}),
], ids=["request again", "other group refused", "response again", "the key sent back"])
def test_request_for_owe_may_be_sent_again(further: list[Management], expected: set[str]) -> None:
    """The same, or in another group; a key that comes back is no exchange."""
    managed = sorted([*frames(18), *further], key=lambda one: one.time_s)
    assert failing(OWE, managed, 18) == expected


LATE = frame(20.1, management.DEAUTHENTICATION, ACCESS_POINT)
AGAIN = frame(30, management.REASSOCIATION_REQUEST, group_cipher=6, akms=(8,),
              capabilities=CAPABILITIES)
#: By fast transition there are keys once the association is agreed on.
FAST = [frame(29, dissect.AUTHENTICATION_SUBTYPE, algorithm=2), AGAIN,
        frame(30.1, management.REASSOCIATION_RESPONSE, ACCESS_POINT)]
GIVEN_UP = frame(30.2, management.DEAUTHENTICATION)


@pytest.mark.parametrize(("further", "expected"), [
    ([LATE], set()),
    ([replace(LATE, time_s=19.9)], {"nobody leaves in clear"}),
    ([AGAIN, GIVEN_UP], set()),
    ([*FAST, GIVEN_UP], {"nobody leaves in clear"}),
    ([*FAST, replace(GIVEN_UP, protected=True)], set())],
    ids=["answer to a late frame", "before it leaves", "attempt without keys",
         "of the next association", "protected"])
def test_only_associations_with_keys_end_in_protected_frames(
        further: list[Management], expected: set[str]) -> None:
    """An attempt is given up in clear, and one that was left answers so; with keys, none may."""
    assert failing(SAE, [*frames(8), *further], 8) == expected


def test_the_kernels_word_alone_fails_alone() -> None:
    """Protection was agreed, and the access point's kernel does not do it."""
    observed = seen(frames(8), 8)
    observed.raw["kernel"]["station"]["MFP"] = "no"
    assert [check.check for check in key_management.verify(SAE, observed) if not check.ok] == [
        "management frames are protected"]


def hello(source: str, **said: Any) -> Inside:
    """A frame of TLS inside EAP."""
    nothing: dict[str, Any] = dict.fromkeys(
        ("identities", "handshakes", "versions", "groups", "suites", "curves", "attributes",
         "data"), ())
    return Inside(5.0, source, **{"types": (13,), **nothing, **said})


TLS_1_3 = Dot1xLayer.model_validate({
    "eap": "TLS", "identity": "anonymous", "tls": {"version": "1.3", "group": "x25519"}})
OPENED = [hello(STATION, types=(1,), identities=("anonymous",)),
          hello(ACCESS_POINT, handshakes=(2,), versions=(0x0304,), groups=(29,)),
          hello(ACCESS_POINT, handshakes=(8, 11, 13, 15, 20)),
          hello(STATION, handshakes=(11, 15, 20))]


@pytest.mark.parametrize(("index", "change", "expected"), [
    (0, {"identities": ("mobile-node",)}, "identity is hidden"),
    (1, {"versions": (0x0303,)}, "TLS 1.3"),
    (1, {"groups": (23,)}, "TLS group"),
    (2, {"handshakes": (8, 20)}, "mutual authentication"),
    (3, {"handshakes": (20,)}, "mutual authentication"),
])
def test_each_check_of_tls_fails_alone(index: int, change: dict[str, Any], expected: str) -> None:
    """Certificates that TLS 1.3 hides, its version and group, and the identity before it."""
    def verified(inside: list[Inside]) -> set[str]:
        observed = replace(seen([], 5), inside=inside)
        return {check.check for check in tunnels.verify(TLS_1_3, [[]], observed) if not check.ok}

    assert verified(OPENED) == set()
    altered = [*OPENED]
    altered[index] = replace(altered[index], **change)
    assert verified(altered) == {expected}


def test_server_that_asks_for_another_key_share_says_the_group_twice() -> None:
    """Its first hello asks (HelloRetryRequest), the second agrees; another group in one fails."""
    asking = hello(ACCESS_POINT, handshakes=(2,), versions=(0x0304,))
    for first, expected in ((asking, set()), (replace(asking, groups=(29,)), set()),
                            (replace(asking, groups=(23,)), {"TLS group"})):
        observed = replace(seen([], 5), inside=[OPENED[0], first, *OPENED[1:]])
        assert {check.check for check in tunnels.verify(TLS_1_3, [[]], observed)
                if not check.ok} == expected


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
    assert retransmissions.find_retransmissions(observed) == said
