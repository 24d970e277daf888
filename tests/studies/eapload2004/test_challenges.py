"""EAP-AKA and a near server's certificates, from recorded captures; what is altered is seen."""

from __future__ import annotations

from copy import deepcopy

import pytest

from conftest import PROJECT
from studies.eapload2004.exchanges import (
    CapturedCertificate,
    find_challenge_faults,
    parse_certificates,
    read_exchanges,
    read_vectors,
)

RECORDED = PROJECT / "tests" / "recorded" / "eapload2004"
#: Of the run that the captures are of.
SECRETS = {"network": {"radius_secret": "2a876c55084ed0166bc2c90a93645422"},
           "subscriber": {"key_hex": "55722e54c11ec6af07b8bcf4935e175f",
                          "opc_hex": "61ff99bb5f7a6f7f21c9811547f9762a"}}


def test_challenges_are_worked_out_again() -> None:
    """Four authentications, three round trips each: responses, MACs and keys are the key's."""
    seen, given = read_exchanges(RECORDED / "aka-ap.pcap"), read_vectors(RECORDED / "aka-hss.pcap")
    assert [len(exchange.trips) for exchange in seen] == [3] * 4
    assert all(exchange.is_complete and not exchange.from_client for exchange in seen)
    assert len(set(given)) == 4
    assert find_challenge_faults(seen, given, SECRETS) == []


@pytest.mark.parametrize(("place", "name", "said"), [
    ("subscriber", "key_hex", "not of the subscriber's key"),
    ("network", "radius_secret", "given other keys")])
def test_another_secret_does_not_fit(place: str, name: str, said: str) -> None:
    """Neither the subscriber's key nor what hides the access point's keys may be another."""
    secrets = deepcopy(SECRETS)
    secrets[place][name] = "00" * 16
    seen, given = read_exchanges(RECORDED / "aka-ap.pcap"), read_vectors(RECORDED / "aka-hss.pcap")
    assert any(said in reason for reason in find_challenge_faults(seen, given, secrets))


def test_a_vector_of_nobodys_is_seen() -> None:
    """A challenge that the subscriber server gave nobody is not its."""
    seen = read_exchanges(RECORDED / "aka-ap.pcap")
    assert "gave nobody" in find_challenge_faults(seen, read_vectors(RECORDED / "aka-hss.pcap")[1:],
                                                  SECRETS)[0]


@pytest.mark.parametrize("step", range(4))
def test_an_altered_packet_is_seen(step: int) -> None:
    """A changed byte in any of the four packets of the method fails what is worked out."""
    seen = read_exchanges(RECORDED / "aka-ap.pcap")[:1]
    packet = bytearray(seen[0].aka[step])
    packet[-3] ^= 1
    seen[0].aka[step] = bytes(packet)
    reasons = find_challenge_faults(seen, read_vectors(RECORDED / "aka-hss.pcap"), SECRETS)
    assert bool(reasons) == (step > 0)  # the first asks for the identity, and has nothing else


def test_a_near_server_is_of_another_authority() -> None:
    """Its chain ends at the home network's root, by what that certified of the visited one's."""
    [exchange, *_] = read_exchanges(RECORDED / "near-ap.pcap")
    assert parse_certificates(exchange.from_server) == [
        CapturedCertificate("server", "visited", "rsa-1024"),
                                                        CapturedCertificate(
                                                            "visited", "root", "rsa-1024")]
    assert parse_certificates(exchange.from_client)[-1].issuer == "root"
