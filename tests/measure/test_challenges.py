"""An authentication by EAP-AKA' from recorded captures; whatever is altered is seen."""

from __future__ import annotations

from collections.abc import Iterable
from copy import deepcopy
from dataclasses import replace
from pathlib import Path

import pytest

from conftest import PROJECT
from measure.capture import pcap
from measure.checks import layer_checks
from measure.checks.observation import Observation
from measure.packets import eap
from measure.packets.eap import AkaAuthentication
from protocols.aka import eap_aka
from protocols.aka.eap_aka import recompute_challenge
from protocols.aka.milenage import MilenageKey

RECORDED = PROJECT / "tests" / "recorded" / "aka-prime"
STATION, WIRE = RECORDED / "auth-mn.pcap", RECORDED / "auth-wire.pcap"
#: Of the run that the captures are of.
SECRETS = {"network": {"radius_secret": "f7c61f734978be9acf5378e10669c699"},
           "subscriber": {"key_hex": "7ff8eb6d1148a3aebae46c1a301421ef",
                          "opc_hex": "a0e20328212d0927c8ba708288c29d11"}}
_EAP_AT = 4


def _read(station: Path = STATION,
          secrets: dict[str, dict[str, str]] = SECRETS) -> AkaAuthentication:
    [seen] = eap.recompute_aka_authentications([station], [WIRE], secrets)
    return seen


def _packets() -> list[eap_aka.AkaPacket]:
    return [packet for _, frame in pcap.eapol_frames(STATION)
            if (packet := eap_aka.parse_aka_packet(frame[_EAP_AT:])) is not None]


def test_a_challenge_is_worked_out_again() -> None:
    """Challenge, response, MACs, and the keys that the access point got: all of the key."""
    assert _read().faults == ()
    assert {packet.method for packet in _packets()} == {eap_aka.EAP_AKA_PRIME}
    assert {packet.network for packet in _packets() if packet.network} == {"WLAN"}


@pytest.mark.parametrize(("place", "name", "said"), [
    ("subscriber", "key_hex", "not of the subscriber's key"),
    ("subscriber", "opc_hex", "not of the subscriber's key"),
    ("network", "radius_secret", "was not given the keys")])
def test_another_secret_does_not_fit(place: str, name: str, said: str) -> None:
    """Neither the subscriber's key nor what hides the access point's keys may be another."""
    secrets = deepcopy(SECRETS)
    secrets[place][name] = "00" * 16
    assert any(said in fault for fault in _read(secrets=secrets).faults)


def test_a_changed_byte_of_the_method_is_seen(tmp_path: Path) -> None:
    """In whichever packet with a MAC it is, at its end or in its middle."""
    frames = list(pcap.read_frames(STATION))
    signed = [at for at, frame in enumerate(frames) if frame.kind == 0x888E
              and (packet := eap_aka.parse_aka_packet(frame.payload[_EAP_AT:])) and packet.mac]
    assert len(signed) == 2
    for at in signed:
        for place in (-3, 60):
            data = bytearray(frames[at].data)
            data[place] ^= 1
            file = tmp_path / "altered.pcap"
            pcap.write_frames(file, [*frames[:at], replace(frames[at], data=bytes(data)),
                                     *frames[at + 1:]])
            assert _read(file).faults


def test_a_challenge_for_no_network_is_seen() -> None:
    """Without the separation bit, or without the network's name, keys are bound to nothing."""
    said = _packets()
    shared = MilenageKey.from_secrets(SECRETS["subscriber"])
    user = "6001010123456789@wlan.mnc001.mcc001.3gppnetwork.org"
    assert recompute_challenge(said, user, shared).faults == ()
    for at, packet in enumerate(said):
        attributes = {kind: value for kind, value in packet.attributes.items() if kind != 23}
        altered = [*said[:at], replace(packet, attributes=attributes), *said[at + 1:]]
        faults = recompute_challenge(altered, user, shared).faults
        assert (packet.network == "") == ("a challenge that says nothing of a network that keys "
                                          "are bound to" not in faults)


def test_another_method_takes_other_keys() -> None:
    """As EAP-AKA, whose keys are bound to no network, the same packets do not fit."""
    said = [replace(packet, method=eap_aka.EAP_AKA) for packet in _packets()]
    assert any("MAC" in fault for fault in recompute_challenge(
        said, "6001010123456789@wlan.mnc001.mcc001.3gppnetwork.org",
        MilenageKey.from_secrets(SECRETS["subscriber"])).faults)


def _check(made: Iterable[AkaAuthentication], *, moves: bool = False) -> bool:
    stamps = {"stamps": {"foreign_start": 10.0} if moves else {}}
    seen = Observation(stamps, {}, "", frozenset(), frozenset(), moves=moves, challenges=[*made])
    return layer_checks.check_challenges(seen).ok


def test_there_is_one_in_each_negotiation() -> None:
    """None, two, or one with a fault fails; away there is another one."""
    home, away = AkaAuthentication(1.0, ()), AkaAuthentication(11.0, ())
    assert _check([home])
    assert not _check([])
    assert not _check([home, home])
    assert not _check([AkaAuthentication(1.0, ("other key",))])
    assert _check([home, away], moves=True)
    assert not _check([home], moves=True)


def test_packets_that_are_sent_again_count_once(tmp_path: Path) -> None:
    """Each EAP packet twice, as where an answer was lost; another challenge beside it is seen."""
    file = tmp_path / "again.pcap"
    frames = list(pcap.read_frames(STATION))
    pcap.write_frames(file, [frame for frame in frames for _ in range(1 + (frame.kind == 0x888E))])
    twice = eap.recompute_aka_authentications([file], [WIRE], SECRETS)
    assert [each.faults for each in twice if each.faults] == []
    challenge = next(frame for frame in frames if frame.kind == 0x888E
                     and (packet := eap_aka.parse_aka_packet(frame.payload[_EAP_AT:]))
                     and packet.mac)
    other = bytearray(challenge.data)
    other[14 + _EAP_AT + 1] ^= 1
    pcap.write_frames(file, [replace(challenge, data=bytes(other)), *frames])
    assert any("packets of a challenge" in fault for each
               in eap.recompute_aka_authentications(
        [file], [WIRE], SECRETS) for fault in each.faults)
