"""Tests of the checks of TLS inside EAP that need no recorded capture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from conftest import PROJECT
from measure.checks import eap_tunnel
from measure.checks.observation import Check, build_observation
from measure.packets.eap import InnerEapFrame
from policies import Dot1xLayer, TlsSettings, load_policy
from topologies.loader import load_scenario

_VERIFY, _ML_DSA_65, _RSA, _P_256 = 15, 0x0905, 0x0804, 0x0403


def signed(source: str, algorithm: int) -> InnerEapFrame:
    """Return a frame with the CertificateVerify of a sender."""
    return InnerEapFrame(1.0, source, (), (), (_VERIFY,), (), (), (), (), (), (),
                         signatures=(algorithm,))


TUNNELS = {
    "PEAP": Dot1xLayer.model_validate({"eap": "PEAP", "inner": "MSCHAPV2", "identity": "anonymous",
                                       "tls": {"realm": "home.example"}}),
    "TTLS": Dot1xLayer.model_validate({"eap": "TTLS", "inner": "PAP", "identity": "anonymous",
                                       "tls": {"realm": "home.example"}})}


def check_names(eap: str, outer: str, inner: Sequence[str]) -> dict[str, bool]:
    """Return which checks of identities hold for names outside and inside of a tunnel."""
    observed = build_observation(load_scenario("N2"), {"stamps": {}, "kernel": {}}, {})

    def frame(source: str, **fields: Any) -> InnerEapFrame:
        nothing: dict[str, Any] = dict.fromkeys(
            ("types", "identities", "handshakes", "versions", "groups", "suites", "curves",
             "attributes", "data"), ())
        return InnerEapFrame(1.0, source, **{**nothing, **fields})

    inside = {"user_names": tuple(inner)} if eap == "TTLS" else {
        "data": tuple(b"\x01" + name.encode() for name in inner)}
    # The server's request for the identity inside PEAP has a type, and no name.
    frames = [frame(observed.mac, types=(1,), identities=(outer,)),
              frame("server", data=(b"\x01",)), frame(observed.mac, **inside)]
    return {check.check: check.ok for check in eap_tunnel.check_eap_tunnel(
        TUNNELS[eap], [[]], replace(observed, inside=frames))}


OUTSIDE, INSIDE = "identity is hidden", "user inside the tunnel has the realm"
ANONYMOUS, USER = "anonymous@home.example", "user@home.example"


@pytest.mark.parametrize("eap", TUNNELS)
@pytest.mark.parametrize(("outer", "inner", "failing"), [
    (ANONYMOUS, [USER], set()), ("anonymous", [USER], {OUTSIDE}), (USER, [USER], {OUTSIDE}),
    (ANONYMOUS, ["user"], {INSIDE}), (ANONYMOUS, [], {INSIDE}), (ANONYMOUS, [ANONYMOUS], {INSIDE}),
    (ANONYMOUS, [USER, "user@evil.example"], {INSIDE})])
def test_names_outside_and_inside_a_tunnel_have_the_realm(
        eap: str, outer: str, inner: list[str], failing: set[str]) -> None:
    """Outside the name is anonymous, and inside it is the user's own."""
    found = check_names(eap, outer, inner)
    assert {check for check in (OUTSIDE, INSIDE) if not found[check]} == failing


def check_signatures(policy: str, by_server: Sequence[int], by_node: Sequence[int]) -> Check:
    """Return the check of the keys that signed a handshake."""
    observed = build_observation(load_scenario("N2"), {"stamps": {}, "kernel": {}}, {})
    frames = [*(signed("server", algorithm) for algorithm in by_server),
              *(signed(observed.mac, algorithm) for algorithm in by_node)]
    layer = load_policy(PROJECT / "examples" / policy).layers.dot1x
    assert layer is not None
    [found] = [check for check in eap_tunnel.check_eap_tunnel(
        layer, [[]], replace(observed, inside=frames))
        if check.check == "post-quantum certificates"]
    return found


@pytest.mark.parametrize(("policy", "by_server", "by_node", "holds"), [
    ("wpa3-eap-tls-ml-dsa-65.yml", [_ML_DSA_65], [_ML_DSA_65], True),
    ("wpa3-eap-tls-ml-dsa-65.yml", [_ML_DSA_65], [_RSA], False),
    ("wpa3-eap-tls-ml-dsa-65.yml", [_ML_DSA_65], [], False),
    ("wpa3-eap-tls-mixed-keys.yml", [_ML_DSA_65], [_P_256], True),
    ("wpa3-eap-tls-mixed-keys.yml", [_ML_DSA_65], [_ML_DSA_65], False),
    ("wpa3-eap-tls-mixed-keys.yml", [_P_256], [_P_256], False),
    ("wpa3-eap-tls-mixed-keys.yml", [_ML_DSA_65], [], False),
    ("wpa3-peap-ml-dsa-65.yml", [_ML_DSA_65], [], True),
    ("wpa3-peap-ml-dsa-65.yml", [_RSA], [], False),
    ("wpa3-ttls-ml-dsa-65.yml", [_ML_DSA_65], [], True),
    ("wpa3-ttls-ml-dsa-65.yml", [], [], False)])
def test_post_quantum_signatures_are_those_of_sides_with_certificates(
        policy: str, by_server: list[int], by_node: list[int], *, holds: bool) -> None:
    """A station of PEAP or TTLS has a password, and signs nothing."""
    assert check_signatures(policy, by_server, by_node).ok is holds


def check_certificates(policy: str, check: str, *, is_suite_b: bool = False,
                       **fields: Any) -> bool:
    """Return whether a check holds for a server and a station, whose frames have these fields."""
    observed = build_observation(load_scenario("N2"), {"stamps": {}, "kernel": {}}, {})
    nothing: dict[str, Any] = dict.fromkeys(
        ("types", "identities", "handshakes", "versions", "groups", "suites", "curves",
         "attributes", "data"), ())
    frames = [InnerEapFrame(1.0, source, **{**nothing, **{
        name: values[place] for name, values in fields.items()}})
        for place, source in enumerate(("server", observed.mac))]
    layer = load_policy(PROJECT / "examples" / policy).layers.dot1x
    assert layer is not None
    [found] = [each.ok for each in eap_tunnel.check_eap_tunnel(
        layer, [[]], replace(observed, inside=frames), is_suite_b=is_suite_b)
        if each.check == check]
    return found


@pytest.mark.parametrize(("suite", "curve", "holds"), [
    (0xC030, 0x18, True), (0xC02F, 0x18, False), (0xC030, 0x17, False), (0xC02C, 0x18, False)])
def test_192_bit_suite_with_rsa_has_one_cipher_suite(suite: int, curve: int, *,
                                                     holds: bool) -> None:
    """ECDHE-RSA-AES256-GCM-SHA384 with P-384 (WPA3-Enterprise 192-bit)."""
    assert check_certificates("wpa3-eap-192-bit-rsa.yml", "TLS suite", is_suite_b=True,
                              handshakes=((2,), ()), suites=((suite,), ()),
                              curves=((curve,), ())) is holds


@pytest.mark.parametrize(("server", "node", "holds"), [
    (3309, 71, True), (3309, 3309, False), (71, 71, False), (71, 3309, False)])
def test_each_side_signs_with_its_own_kind_of_key(server: int, node: int, *, holds: bool) -> None:
    """A signature of ML-DSA-65 has 3309 bytes, and one of P-256 at most 72."""
    assert check_certificates("wpa3-eap-tls-mixed-keys.yml", "TLS certificate keys",
                              signatures_bytes=((server,), (node,))) is holds


@pytest.mark.parametrize(("server", "node", "holds"), [(2, 2, True), (2, 1, False), (1, 2, False)])
def test_each_side_sends_its_whole_chain(server: int, node: int, *, holds: bool) -> None:
    assert check_certificates(
        "wpa3-eap-tls-mixed-keys.yml", "TLS certificate chain", handshakes=((11,), (11,)),
        certificates=((100,) * server, (100,) * node)) is holds


def test_station_with_one_certificate_adds_the_root() -> None:
    """OpenSSL does so where the root itself has signed the certificate."""
    tls = TlsSettings(chain=1)
    layer = Dot1xLayer.model_validate({"eap": "TLS", "tls": tls})
    observed = build_observation(load_scenario("N2"), {"stamps": {}, "kernel": {}}, {})
    nothing: dict[str, Any] = dict.fromkeys(
        ("types", "identities", "versions", "groups", "suites", "curves", "attributes", "data"), ())

    def holds(of_server: int, of_node: int) -> bool:
        frames = [InnerEapFrame(1.0, source, handshakes=(11,), certificates=(100,) * count,
                                **nothing)
                  for source, count in (("server", of_server), (observed.mac, of_node))]
        return next(check.ok for check in eap_tunnel.check_eap_tunnel(
            layer, [[]], replace(observed, inside=frames))
            if check.check == "TLS certificate chain")

    assert holds(1, 2)
    assert not holds(2, 2)
    assert not holds(1, 1)


@pytest.mark.parametrize(("release", "sizes", "holds"), [
    ("", (1000, 400), True), ("bookworm", (1000, 996), True), ("bookworm", (996, 400), False),
    ("trixie", (996, 400), True), ("trixie", (1000, 400), False), ("forky", (996, 400), True)])
def test_fragments_have_the_length_of_the_releases_server(release: str, sizes: tuple[int, ...], *,
                                                          holds: bool) -> None:
    """FreeRADIUS of Debian 13 and testing leaves a margin of 4 bytes. So do first fragments."""
    raw = {"stamps": {}, "kernel": {}, **({"debian": release} if release else {})}
    observed = build_observation(load_scenario("N2"), raw, {})
    nothing: dict[str, Any] = dict.fromkeys(
        ("types", "identities", "handshakes", "versions", "groups", "suites", "curves",
         "attributes", "data"), ())
    frames = [InnerEapFrame(1.0, "server", **nothing, size_bytes=size, has_more=size > 900)
              for size in sizes]
    layer = load_policy(PROJECT / "examples" / "wpa2-eap-tls-fragments.yml").layers.dot1x
    assert layer is not None
    [found] = [check for check in eap_tunnel.check_eap_tunnel(
        layer, [[]], replace(observed, inside=frames)) if check.check == "TLS fragments"]
    assert found.ok is holds
