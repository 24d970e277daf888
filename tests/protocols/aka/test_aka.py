"""The card and the subscriber server agree, by published vectors and when numbers are stale."""

from __future__ import annotations

import itertools

import pytest

from protocols.aka import eap_aka, milenage
from protocols.aka.milenage import MilenageKey
from protocols.aka.program import Subscriber, SubscriberServer
from protocols.aka.usim import Usim, UsimResponse, UsimResynchronisation, answer_to_supplicant

_IMSI = "001010123456789"
#: 3GPP TS 35.207, test set 1.
_KEY = bytes.fromhex("465b5ce8b199b49faa5f0a2ee238a6bc")
_OP = bytes.fromhex("cdc202d5123e20f62b6d676ac72cb318")
_RAND = bytes.fromhex("23553cbe9637a89d218ae64dae47bf35")
_SHARED = MilenageKey(_KEY, milenage.derive_opc(_KEY, _OP))


def test_published_vectors_of_milenage() -> None:
    """Every function of test set 1 comes out as TS 35.207 prints it."""
    assert _SHARED.opc.hex() == "cd63cb71954a9f4e48a5994e37a02baf"
    made = milenage.compute_answers(_SHARED, _RAND)
    assert made.res.hex() == "a54211d5e3ba50bf"
    assert made.ck.hex() == "b40ba9a3c58b2a05bbf0d987b21bf8cb"
    assert made.ik.hex() == "f769bcd751044604127672711c6d3441"
    assert made.ak.hex() == "aa689c648370"
    assert made.ak_of_resynchronisation.hex() == "451e8beca43b"
    both = milenage.compute_macs(_SHARED, _RAND, bytes.fromhex("ff9bb4d0b607"),
                                 bytes.fromhex("b9b9"))
    assert [mac.hex() for mac in both] == ["4a9ffac354dfafb3", "01cfaf9ec4e871e9"]


def test_published_vector_of_the_generator() -> None:
    """NIST's example for FIPS 186-2 with change notice 1."""
    made = eap_aka.generate_bytes(bytes.fromhex("bd029bbe7f51960bcf9edb2b61f06f0feb5a38b6"), 40)
    assert made.hex() == ("2070b3223dba372fde1c0ffc7b2e3b498b260614"
                          "3c6c18bacb0f6c55babb13788e20d737a3275116")


def test_published_vector_of_aka_prime() -> None:
    """RFC 9048, appendix C, case 1: keys bound to the network WLAN, and what is derived of them."""
    ik, ck = eap_aka.bind_keys(bytes.fromhex("9744871ad32bf9bbd1dd5ce54e3e2e5a"),
                               bytes.fromhex("5349fbe098649f948f5d2e973a81c00f"), "WLAN",
                               bytes.fromhex("bb52e91c747a"))
    assert (ck.hex(), ik.hex()) == ("0093962d0dd84aa5684b045c9edffa04",
                                    "ccfc230ca74fcc96c0a5d61164f5a76c")
    derived = eap_aka.derive_prime_keys("0555444333222111", ik, ck)
    assert derived.authentication.hex() == ("0842ea722ff6835bfa2032499fc3ec23"
                                            "c2f0e388b4f07543ffc677f1696d71ea")
    assert derived.msk.hex() == ("67c42d9aa56c1b79e295e3459fc3d187d42be0bf818d3070e362c5e967a4d544"
                                 "e8ecfe19358ab3039aff03b7c930588c055babee58a02650b067ec4e9347c75a")


def test_a_vector_for_a_bound_network_says_so() -> None:
    """The first bit of its management field, which wpa_supplicant insists on with EAP-AKA'."""
    server = SubscriberServer({_IMSI: Subscriber(_SHARED, separates=True)}, bytes)
    assert _vector(server)[1][6:8] == milenage.SEPARATION
    assert _vector(_server())[1][6:8] == bytes(2)


def _server(sqn: int = 0, shared: MilenageKey = _SHARED) -> SubscriberServer:
    counter = itertools.count(1)
    return SubscriberServer({_IMSI: Subscriber(shared, sqn)},
                            lambda size: next(counter).to_bytes(size, "big"))


def _vector(server: SubscriberServer) -> list[bytes]:
    said = server.answer_message(f"AKA-REQ-AUTH {_IMSI}")
    assert said is not None
    kind, imsi, *parts = said.split()
    assert (kind, imsi) == ("AKA-RESP-AUTH", _IMSI)
    return [bytes.fromhex(part) for part in parts]


def test_a_card_takes_what_its_server_made() -> None:
    """Response and keys are the same at both ends, for one challenge after the other."""
    server, card = _server(), Usim(_SHARED)
    for _ in range(3):
        rand, autn, ik, ck, res = _vector(server)
        assert card.answer_challenge(rand, autn) == UsimResponse(res, ck, ik)


def test_a_used_vector_is_refused_and_the_server_goes_on_from_the_cards_number() -> None:
    """A vector that comes twice, or from a server that fell behind, makes a resynchronisation."""
    server, card = _server(), Usim(_SHARED, sqn=100_000)
    rand, autn, *_ = _vector(server)
    said = card.answer_challenge(rand, autn)
    assert isinstance(said, UsimResynchronisation)
    assert server.answer_message(f"AKA-AUTS {_IMSI} {said.auts.hex()} {rand.hex()}") is None
    rand, autn, *_ = _vector(server)
    assert isinstance(card.answer_challenge(rand, autn), UsimResponse)
    assert isinstance(card.answer_challenge(rand, autn), UsimResynchronisation)


def test_a_resynchronisation_that_is_not_the_cards_is_ignored() -> None:
    """Nobody without the key moves the server's number."""
    server, card = _server(), Usim(_SHARED)
    server.answer_message(f"AKA-AUTS {_IMSI} {'ff' * 14} {_RAND.hex()}")
    rand, autn, *_ = _vector(server)
    assert isinstance(card.answer_challenge(rand, autn), UsimResponse)


def test_a_card_of_another_key_refuses_the_network() -> None:
    """Neither side takes the other for the one that has the key."""
    other = MilenageKey(bytes(16), _SHARED.opc)
    rand, autn, *_ = _vector(_server())
    assert Usim(other).answer_challenge(rand, autn) is None
    assert answer_to_supplicant(Usim(other), f"UMTS-AUTH:{rand.hex()}:{autn.hex()}") == "UMTS-FAIL"


def test_an_unknown_subscriber_has_no_vector() -> None:
    """Who is not in the list is refused."""
    assert _server().answer_message("AKA-REQ-AUTH 999") == "AKA-RESP-AUTH 999 FAILURE"


def test_what_a_supplicant_is_told() -> None:
    """As wpa_supplicant reads it: IK before CK; a stale number; another request is an error."""
    rand, autn, ik, ck, res = _vector(_server())
    asked = f"UMTS-AUTH:{rand.hex()}:{autn.hex()}"
    card = Usim(_SHARED)
    assert answer_to_supplicant(card, asked) == f"UMTS-AUTH:{ik.hex()}:{ck.hex()}:{res.hex()}"
    assert answer_to_supplicant(card, asked).startswith("UMTS-AUTS:")
    with pytest.raises(ValueError, match="GSM-AUTH"):
        answer_to_supplicant(card, "GSM-AUTH:00:11")


def test_a_packet_is_read() -> None:
    """Subtype, attributes and the packet without its MAC; nothing of what is cut short."""
    body = (bytes((1, 5, 0, 0)) + _RAND + bytes((2, 5, 0, 0)) + bytes(range(16))
            + bytes((11, 5, 0, 0)) + b"m" * 16)
    eap = bytes((1, 7, 0, 8 + len(body), eap_aka.EAP_AKA, eap_aka.CHALLENGE, 0, 0)) + body
    packet = eap_aka.parse_aka_packet(eap)
    assert packet is not None
    assert (packet.subtype, packet.rand, packet.autn) == (1, _RAND, bytes(range(16)))
    assert packet.mac == b"m" * 16
    assert packet.unsigned == eap[:-16] + bytes(16)
    assert eap_aka.parse_aka_packet(eap[:-3]) is None
    assert eap_aka.parse_aka_packet(bytes((1, 7, 0, 8, 13, 0, 0, 0))) is None
