"""EAP and RADIUS packets, computed from certificates and fragments, against recorded captures."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import policies
from conftest import PROJECT
from measure.capture import pcap
from measure.checks.computed_packets import describe_login, last_conversation
from measure.checks.proof import DissectedRepetition
from measure.packets import eap
from measure.packets.certificate_sizes import chain_bytes
from measure.packets.eap_radius_sizes import (
    SERVER_MESSAGE_LIMIT,
    SERVER_REQUEST_LIMIT,
    compute_packets,
    describe_difference,
    describe_radius_difference,
)
from measure.packets.eap_tls_sizes import RELEASES, EapLogin
from policies import DaemonOptions, Layers, TlsSettings
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


#: EAP methods with a tunnel and further settings, in recordings that are of no policy of qop's.
TUNNELLED: dict[str, tuple[str, str | None, TlsSettings]] = {
    "T1": ("TTLS", "MSCHAPV2", TlsSettings(version="1.3", group="x25519")),
    "T2": ("TTLS", "PAP", TlsSettings(version="1.3", group="x25519", sessions="resumed")),
    "N1": ("PEAP", "TLS", TlsSettings(fragment_bytes=500)),
    "N2": ("PEAP", "TLS", TlsSettings(version="1.3", group="x25519")),
    "G1": ("PEAP", "GTC", TlsSettings(version="1.3", group="x25519")),
    "K1": ("TLS", None, TlsSettings(key="p-384")),
}


def tunnelled(name: str) -> Layers:
    """Return the layers of M4 with another method or other settings of TLS."""
    method, inner, tls = TUNNELLED[name]
    return change_layer("dot1x", eap=method, first_offer=method, inner=inner, tls=tls)(
        policies.load_named("M4")).layers


def read_packets(file: Path) -> list[bytes]:
    """Return the EAP packets of the first authentication in a capture."""
    _, packets = next(iter(eap.split_authentications(pcap.eapol_frames(file))))
    return packets


def compute(layers: Layers, server: str = "radius", node: str = "laptop",
            release: str = "bookworm") -> EapLogin:
    """Return the inputs that a record's check takes for a policy."""
    login = describe_login(layers, server=server, user="mobile-node", node=node, release=release)
    assert login is not None
    return login


def further(name: str) -> Layers:
    """Return the layers of M5 with other settings of TLS."""
    return change_layer("dot1x", tls=FURTHER[name])(policies.load_named("M5")).layers


CASES: dict[str, tuple[Path, Callable[[], EapLogin]]] = {
    **{name: (RECORDED / f"{name}.pcap", lambda name=name: compute(  # type: ignore[misc]
        policies.load_named(name).layers)) for name in (
            "M5", "M6", "M13", "M13-resumed", "M14-resumed", "M4-resumed")},
    "M14": (RECORDED / "M14.pcap", lambda: compute(
        policies.load_named("M14").layers, "home", "mn")),
    **{name: (RECORDED / f"{name}.pcap", lambda name=name: compute(  # type: ignore[misc]
        tunnelled(name), "home", "mn")) for name in TUNNELLED},
    "M6-RSA": (RECORDED / "M6-RSA.pcap", lambda: compute(policies.load_policy(
        PROJECT / "examples/wpa3-eap-192-bit-rsa.yml").layers, "home", "mn")),
    "T3": (RECORDED / "T3.pcap", lambda: compute(policies.load_policy(
        PROJECT / "examples/wpa2-ttls-chap.yml").layers, "home", "mn")),
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
         "M6-RSA": PROJECT / "examples/wpa3-eap-192-bit-rsa.yml",
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


SINGLE_DAEMONS = [{daemon: release} for daemon in (
    "wpa_supplicant", "wpa_supplicant/openssl", "freeradius", "freeradius/openssl")
    for release in ("trixie", "forky")]


@pytest.mark.parametrize(("name", "agreeing"), [
    ("station-trixie", [{"wpa_supplicant": "trixie"}, {"wpa_supplicant/openssl": "trixie"}]),
    ("server-trixie", [{"freeradius": "trixie"}, {"freeradius": "forky"}]),
    ("openssl-forky", [{"freeradius/openssl": "trixie"}, {"freeradius/openssl": "forky"}])])
def test_computed_packets_are_those_of_each_daemons_release(
        name: str, agreeing: list[dict[str, str]]) -> None:
    """The station's OpenSSL, the server's and FreeRADIUS itself decide different sizes."""
    packets = last_conversation(read_packets(RECORDED / f"M5-{name}.pcap"))
    assert [daemons for daemons in ({}, *SINGLE_DAEMONS) if not describe_difference(
        login_with_daemons(daemons), packets)] == agreeing


def login_with_daemons(daemons: dict[str, str]) -> EapLogin:
    """Return the inputs of the checks of M5 on Debian 12 with daemons of other releases."""
    scenario = load_scenario("N2")
    repetition = DissectedRepetition(
        scenario, Path(), {"debian": "bookworm", "daemon_releases": daemons}, {},
        {"network": {"eap_identity": "mobile-node"}}, policies.load_named("M5").layers, None)
    [login] = repetition._compute_logins(scenario)
    return login


def test_computed_radius_packets_are_those_of_a_capture() -> None:
    """Sizes with all attributes, and the IP packets of a fragmented request."""
    file = RECORDED / "M13-radius.pcap"
    computed = compute_packets(compute(policies.load_named("M13").layers))
    captured = [message for _, message in pcap.udp_payloads(file, eap.RADIUS_PORT)]
    assert [(packet.is_request, packet.size) for packet in computed.radius] == [
        (message[0] == 1, len(message)) for message in captured]
    assert computed.ip_packets == sum(1 for _ in pcap.read_frames(file))


@pytest.mark.parametrize(("name", "layers"), [
    ("M14", policies.load_named("M14").layers), ("N1", tunnelled("N1")),
    ("TTLS-ML-DSA-65", policies.load_policy(PROJECT / "examples/wpa3-ttls-ml-dsa-65.yml").layers),
    ("MIXED-KEYS", policies.load_policy(PROJECT / "examples/wpa3-eap-tls-mixed-keys.yml").layers)])
def test_further_computed_packets_are_those_of_debian_13(name: str, layers: Layers) -> None:
    """FreeRADIUS' margin is in TTLS, and not in PEAP. Server and station have keys of two kinds."""
    packets = last_conversation(read_packets(RECORDED / f"trixie-{name}.pcap"))
    assert not describe_difference(compute(layers, "home", "mn", "trixie"), packets)
    assert describe_difference(compute(layers, "home", "mn"), packets)


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
    def post_quantum(key: str, fragment_bytes: int = 1024) -> list[int]:
        login = EapLogin(chain_bytes(key, 2, "radius", is_server=True),
                         chain_bytes(key, 2, "user", is_server=False), server_key=key,
                         client_key=key, version="1.3", group="x25519",
                         fragment_bytes=fragment_bytes)
        return [problem.limit for problem in compute_packets(login).problems]

    assert not post_quantum("ml-dsa-65")
    assert post_quantum("ml-dsa-87") == [SERVER_MESSAGE_LIMIT]
    assert post_quantum("ml-dsa-65", 300) == [SERVER_REQUEST_LIMIT]


def test_records_keep_what_the_check_needs() -> None:
    """Judged again from its folder, a repetition has the same checks."""
    assert "network.eap_identity" in JUDGED_WITH


@pytest.mark.parametrize("name", ["policies/M1.yml", "examples/wpa3-eap-aka-prime.yml",
                                  "examples/wpa2-peap-tls-first.yml"])
def test_other_methods_are_not_computed(name: str) -> None:
    assert describe_login(policies.load_policy(PROJECT / name).layers, server="radius",
                          user="mobile-node") is None


@pytest.mark.parametrize("options", [{"radius_auth_req_attr": "126:s:1qop.test"},
                                     {"disable_pmksa_caching": "1"}])
def test_options_that_change_requests_are_not_computed(options: dict[str, str]) -> None:
    policy = change_layer("link", options=DaemonOptions.model_construct(
        hostapd=options, wpa_supplicant={}))(policies.load_named("M5"))
    assert describe_login(policy.layers, server="radius", user="mobile-node") is None


def read_radius(file: Path, mac: str) -> list[bytes]:
    """Return the RADIUS messages of the first accepted authentication in a capture."""
    _, messages = next(eap.split_radius_logins(pcap.udp_payloads(file, eap.RADIUS_PORT), mac))
    return messages


#: The station of recordings on a floor, and in N2, with the names of access point and network.
CAMPUS = ("02:00:00:00:1a:00", {"node": "laptop"})
IN_N2 = ("02:00:00:00:a2:00", {"server": "home", "node": "mn", "access_point": "ap-a",
                               "ssid": "qop"})


@pytest.mark.parametrize(("name", "file", "place"), [
    ("M13", RECORDED / "M13-radius.pcap", CAMPUS), ("M4", TOOLS / "campus/udp-wire.pcap", CAMPUS),
    *((name, FOLDER / name / "auth-wire.pcap", IN_N2) for name in ("P5", "P6", "P8", "P12"))])
def test_computed_radius_packets_agree_for_each_method(
        name: str, file: Path, place: tuple[str, dict[str, str]]) -> None:
    """Open networks, WEP and WPA2 have requests with other attributes."""
    mac, names = place
    login = compute_login(name, **names)
    messages = read_radius(file, mac)
    assert not describe_radius_difference(login, (), messages)
    longer = replace(login, request_bytes=login.request_bytes + 10)
    assert "packet 1 of" in describe_radius_difference(longer, (), messages)
    assert describe_radius_difference(login, (), messages[:-2]) == (
        f"{len(messages) - 2} packets, {len(messages)} computed")


def compute_login(name: str, **names: str) -> EapLogin:
    """Return the inputs of a policy's authentication with names of the network."""
    login = describe_login(policies.load_named(name).layers, **{  # type: ignore[arg-type]
        "server": "radius", "user": "mobile-node", **names})
    assert login is not None
    return login


def test_repeated_radius_messages_count_once() -> None:
    """hostapd sends a request again after 3 s, and the server the answer that it remembers."""
    messages = pcap.udp_payloads(TOOLS / "campus/udp-wire.pcap", eap.RADIUS_PORT)
    repeated = [entry for entry in messages for _ in range(2)]
    mac, _ = CAMPUS
    assert list(eap.split_radius_logins(repeated, mac)) == list(
        eap.split_radius_logins(messages, mac))
    assert not list(eap.split_radius_logins(messages, "02:00:00:00:1b:00"))


def test_request_of_an_abandoned_authentication_does_not_end_another() -> None:
    """After losses, hostapd repeats the first request of an earlier attempt amid the next one."""
    messages = list(pcap.udp_payloads(TOOLS / "campus/udp-wire.pcap", eap.RADIUS_PORT))
    mac, _ = CAMPUS
    expected = list(eap.split_radius_logins(messages, mac))
    begin = next(place for place, (_, message) in enumerate(messages)
                 if message[0] == eap.ACCESS_REQUEST)
    at_s, request = messages[begin]
    abandoned = bytes((request[0], request[1] ^ 0x80)) + request[2:]
    amid = begin + 5
    assert list(eap.split_radius_logins(
        [*messages[:amid], (at_s, abandoned), *messages[amid:]], mac)) == expected
    late = [*messages, (at_s, request), *((at_s, message) for message in expected[0][1][-2:])]
    assert list(eap.split_radius_logins(late, mac)) == expected


def test_computed_radius_packets_agree_inside_tls() -> None:
    """FreeRADIUS as a proxy for RadSec adds Proxy-State, which has no computed size."""
    raw = json.loads((TOOLS / "radsec/raw.json").read_text())
    repetition = DissectedRepetition(
        load_scenario("N2"), TOOLS / "radsec", raw, {},
        {"network": {"eap_identity": "mobile-node"}}, policies.load_named("M5-radsec").layers, None)
    [(_, messages)] = repetition._read_radius(IN_N2[0], ["auth"])
    [login] = repetition._compute_logins(repetition.scenario)
    assert len(messages) == 14
    assert not describe_radius_difference(login, (), messages)


@pytest.mark.parametrize(("scenario", "policy", "server"), [
    ("campus-0ms", "policies/M5.yml", "radius"),
    ("examples/scenarios/radius-failover.yml", "policies/M5.yml", "radius-2"),
    ("examples/scenarios/radius-proxy.yml", "policies/M5.yml", "proxy"),
    ("examples/scenarios/radius-proxy.yml", "examples/wpa2-eap-realm.yml", "home")])
def test_packets_are_computed_for_the_server_that_decides(scenario: str, policy: str,
                                                          server: str) -> None:
    """Certificates of several servers have other names, and so other sizes."""
    place = str(PROJECT / scenario) if "/" in scenario else scenario
    layers = policies.load_policy(PROJECT / policy).layers
    repetition = DissectedRepetition(
        load_scenario(place), Path(), {}, {}, {"network": {"eap_identity": "mobile-node"}}, layers,
        None)
    assert layers.dot1x is not None
    name = f"mobile-node{layers.dot1x.realm_suffix}"
    for login in repetition._compute_logins(repetition.scenario):
        assert login.server_chain == chain_bytes("rsa-2048", 2, server, is_server=True)
        assert login.user == name


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
