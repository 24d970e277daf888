"""Packets of EAP-TLS, computed from certificates and fragments, against recorded captures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import policies
from conftest import PROJECT
from measure.capture import pcap
from measure.checks.eap_tls_packets import describe_login, last_conversation
from measure.checks.proof import DissectedRepetition
from measure.packets import eap
from measure.packets.eap_tls_sizes import (
    RELEASES,
    EapTlsLogin,
    chain_bytes,
    compute_packets,
    describe_difference,
)
from policies import Layers, TlsSettings
from recorded import FOLDER, TOOLS
from studies.policy_factors import JUDGED_WITH, change_layer
from topologies.loader import load_scenario

RECORDED = TOOLS / "eap_tls"
#: Settings of TLS in recordings that are of no policy of qop's.
FURTHER = {
    "X1": TlsSettings(version="1.3"),  # asks for another key share than the station guesses
    "X2": TlsSettings(version="1.3", key="p-256", chain=3, group="x25519"),
    "X4": TlsSettings(version="1.2", chain=3, fragment_bytes=300),
}


def read_packets(file: Path) -> list[bytes]:
    """Return the EAP packets of the first authentication in a capture."""
    _, packets = next(iter(eap.split_authentications(pcap.eapol_frames(file))))
    return packets


def compute(layers: Layers, server: str = "radius", node: str = "laptop",
            release: str = "bookworm") -> EapTlsLogin:
    """Return the inputs that a record's check takes for a policy."""
    login = describe_login(layers, server=server, user="mobile-node", node=node, release=release)
    assert login is not None
    return login


def further(name: str) -> Layers:
    """Return the layers of M5 with other settings of TLS."""
    return change_layer("dot1x", tls=FURTHER[name])(policies.load_named("M5")).layers


CASES: dict[str, tuple[Path, Callable[[], EapTlsLogin]]] = {
    **{name: (RECORDED / f"{name}.pcap", lambda name=name: compute(  # type: ignore[misc]
        policies.load_named(name).layers)) for name in ("M5", "M6", "M13", "M13-resumed")},
    "M5-resumed": (RECORDED / "M5-resumed.pcap", lambda: compute(policies.load_policy(
        PROJECT / "examples/wpa3-eap-tls-resumed.yml").layers)),
    **{name: (RECORDED / f"{name}.pcap", lambda name=name: compute(  # type: ignore[misc]
        further(name))) for name in FURTHER},
    **{name: (FOLDER / name / "auth-mn.pcap", lambda name=name: compute(  # type: ignore[misc]
        policies.load_named(name).layers, "home", "mn")) for name in ("P6", "P8", "P12")}}


@pytest.mark.parametrize("name", CASES)
def test_computed_packets_are_those_of_a_capture(name: str) -> None:
    """Number, direction and size of each EAP packet, but for ECDSA's signatures."""
    file, make = CASES[name]
    login, packets = make(), last_conversation(read_packets(file))
    assert not describe_difference(login, packets)
    if "p-" not in login.server_key:
        assert [packet.size for packet in compute_packets(login).eap] == list(map(len, packets))


NEWER = {"M13": PROJECT / "policies/M13.yml", "M13-resumed": PROJECT / "policies/M13-resumed.yml",
         "ML-DSA-65": PROJECT / "examples/wpa3-eap-tls-ml-dsa-65.yml",
         "P384-ML-KEM": PROJECT / "examples/wpa3-eap-tls-secp384r1-ml-kem.yml"}


@pytest.mark.parametrize(("release", "name", "file"), [
    *((release, *item) for release in ("trixie", "forky") for item in NEWER.items()),
    ("forky", "M6", PROJECT / "policies/M6.yml")])
def test_computed_packets_are_those_of_a_newer_release(release: str, name: str,
                                                       file: Path) -> None:
    """Longer hellos, smaller fragments, certificates that the station compresses.

    OpenSSL 3.6 of testing names fewer point formats. The group of P384-ML-KEM has none.
    """
    packets = last_conversation(read_packets(RECORDED / f"{release}-{name}.pcap"))
    layers = policies.load_policy(file).layers
    agreeing = [other for other in RELEASES if not describe_difference(
        compute(layers, "ha-a", "a2", other), packets)]
    assert agreeing == (["trixie", "forky"] if name == "P384-ML-KEM" else [release])


def test_computed_radius_packets_are_those_of_a_capture() -> None:
    """Sizes with all attributes, and the IP packets of a fragmented request."""
    file = RECORDED / "M13-radius.pcap"
    computed = compute_packets(compute(policies.load_named("M13").layers))
    captured = [message for _, message in pcap.udp_payloads(file, eap.RADIUS_PORT)]
    assert [(packet.is_request, packet.size) for packet in computed.radius] == [
        (message[0] == 1, len(message)) for message in captured]
    assert computed.ip_packets == sum(1 for _ in pcap.read_frames(file))


@pytest.mark.parametrize(("changes", "says"), [
    ({"fragment_bytes": 500}, "13 packets, 17 computed"),
    ({"server_chain": chain_bytes("rsa-2048", 1, "radius", is_server=True)},
     "packet 7 of 13 has 945 bytes"),
    ({"client_key": "rsa-1024"}, "packet 10 of 13 has 444 bytes, 316 computed"),
    ({"identity": "somebody-else"}, "packet 2 of 13 has 14 bytes, 18 computed"),
])
def test_difference_is_named_by_packet(changes: dict[str, Any], says: str) -> None:
    login = replace(compute(policies.load_named("M13").layers), **changes)
    assert says in describe_difference(login, read_packets(RECORDED / "M13.pcap"))


def test_other_versions_packets_are_refused() -> None:
    login = compute(policies.load_named("M5").layers)
    assert describe_difference(login, read_packets(RECORDED / "M13.pcap"))


def test_limits_of_the_server_are_named() -> None:
    """FreeRADIUS takes 16,384 bytes of TLS in one message, and 51 requests."""
    def post_quantum(key: str, fragment_bytes: int = 1024) -> list[str]:
        login = EapTlsLogin(chain_bytes(key, 2, "radius", is_server=True),
                            chain_bytes(key, 2, "user", is_server=False), server_key=key,
                            client_key=key, version="1.3", group="x25519",
                            fragment_bytes=fragment_bytes)
        return list(compute_packets(login).problems)

    assert not post_quantum("ml-dsa-65")
    [length] = post_quantum("ml-dsa-87")
    assert "takes at most 16,384" in length
    [requests] = post_quantum("ml-dsa-65", 300)
    assert "ends a session after 51" in requests


def test_records_keep_what_the_check_needs() -> None:
    """Judged again from its folder, a repetition has the same checks."""
    assert "network.eap_identity" in JUDGED_WITH


@pytest.mark.parametrize("name", ["M4", "P5", "M1"])
def test_other_methods_are_not_computed(name: str) -> None:
    assert describe_login(policies.load_named(name).layers, server="radius",
                          user="mobile-node") is None


@pytest.mark.parametrize(("name", "is_computed"), [
    ("campus-0ms", True), (str(PROJECT / "examples/scenarios/radius-failover.yml"), False),
    (str(PROJECT / "examples/scenarios/radius-proxy.yml"), False)])
def test_packets_are_computed_where_one_server_may_answer(name: str, *, is_computed: bool) -> None:
    """Certificates of several servers have other names, and so other sizes."""
    repetition = DissectedRepetition(
        load_scenario(name), Path(), {}, {}, {"network": {"eap_identity": "mobile-node"}},
        policies.load_named("M5").layers, None)
    assert bool(repetition._compute_logins(repetition.scenario)) is is_computed


def test_an_authentication_without_a_move_is_computed_for_its_own_server() -> None:
    """Of several authentications of a repetition, the first ones may end before the move."""
    scenario = load_scenario("E1")
    repetition = DissectedRepetition(
        scenario, Path(), {}, {}, {"network": {"eap_identity": "mobile-node"}},
        policies.load_named("M5").layers, None)
    assert len(repetition._compute_logins(scenario)) == 2
    assert len(repetition._compute_logins(replace(scenario, roams_to=None))) == 1


def test_packets_of_other_releases_are_not_computed() -> None:
    """With --on host the daemons are this machine's, whose messages have other sizes."""
    layers = policies.load_named("M5").layers
    assert describe_login(layers, server="radius", user="mobile-node", release="noble") is None


@pytest.mark.parametrize(("programs", "is_computed"), [
    (["charon", "hostapd"], True), (["freeradius"], False), (["wpa_supplicant"], False)])
def test_packets_of_the_users_own_daemons_are_not_computed(programs: list[str], *,
                                                           is_computed: bool) -> None:
    """FreeRADIUS 3.2.7 makes smaller fragments than Debian 12's, and proves a policy as well."""
    repetition = DissectedRepetition(
        load_scenario("N2"), Path(), {"own_programs": programs}, {},
        {"network": {"eap_identity": "mobile-node"}}, policies.load_named("M5").layers, None)
    assert bool(repetition._compute_logins(repetition.scenario)) is is_computed
