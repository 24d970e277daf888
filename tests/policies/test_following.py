"""Tests of what policies say of tunnels that follow their node, and of TLS versions."""

from __future__ import annotations

from pathlib import Path

import pytest

from policies import PolicyError, load_named, load_policy
from policies.layers import MOBIKE, MOBILE_IP, MPTCP, QUIC, WIREGUARD

SUITE = "ike_proposal: aes256gcm16-prfsha384-curve25519, esp_proposal: aes256gcm16"


def written(folder: Path, layers: str) -> Path:
    """A policy file with these layers."""
    file = folder / "own.yml"
    file.write_text(f"id: OWN\nname: own\nlayers:\n{layers}\n")
    return file


@pytest.mark.parametrize(("policy", "mobility"), [
    ("P1", MOBILE_IP), ("P12", MOBILE_IP), ("M10", WIREGUARD), ("M11", MOBIKE),
    ("M10-mip", MOBILE_IP), ("M11-mip", MOBILE_IP), ("M15", QUIC), ("M15-new", QUIC),
    ("M16", MPTCP), ("M16-ft", MPTCP)])
def test_a_policy_says_what_has_packets_find_its_node(policy: str, mobility: str) -> None:
    """Mobile IP, unless its tunnel is said to follow the node."""
    assert load_named(policy).layers.mobility == mobility


def test_a_layer_without_the_new_field_says_what_it_always_did() -> None:
    """So that older policies render and digest the same."""
    assert "mobike" not in load_named("P12").layers.model_dump()["ipsec"]
    assert "roams" not in load_named("M10-mip").layers.model_dump()["wireguard"]


@pytest.mark.parametrize(("layers", "words"), [
    (("  ipsec: {ike: 1, ike_proposal: aes256-sha256-modp2048, esp_proposal: aes256-sha256, "
     "mobike: 1}"), "mobike belongs to IKEv2, and ike is 1"),
    (f"  ipsec: {{ike: 2, {SUITE}, mode: transport, mobike: 1}}", "mobike moves tunnels"),
    ("  wireguard: {roams: 2}", "roams"),
    ("  quic: {on_move: roam}", "write one of: migrate, reconnect"),
    ("  quic: {mobike: 1}", "unknown key 'mobike' in layers.quic"),
    ("  quic: {}\n  wireguard: {}", "wireguard and quic are tunnels between the same ends"),
    ("  quic: {}\n  mptcp: {}", "quic and mptcp are tunnels between the same ends"),
    ("  mptcp: {on_move: join}", "unknown key 'on_move' in layers.mptcp; leave it out"),
    (f"  wireguard: {{roams: 1}}\n  ipsec: {{ike: 2, {SUITE}, mobike: 1}}",
     "tunnels between the same ends"),
    (("  ipsec: {ike: 1, ike_proposal: aes256-sha256-mlkem768, esp_proposal: aes256-sha256}"),
     "ML-KEM is for IKEv2 only, and ike is 1"),
    (("  ipsec: {ike: 2, ike_proposal: aes256gcm16-prfsha384-mlkem768-ke1_mlkem768, "
      "esp_proposal: aes256gcm16}"), "would do the same twice"),
    (("  ipsec: {ike: 2, ike_proposal: aes256gcm16-prfsha384-curve25519-ke1_mlkem1024, "
      "esp_proposal: aes256gcm16}"), "write one of: ke1_mlkem768"),
    ("  link: {cipher: CCMP, keys: sae, pmf: 2, options: {hostapd: {sae_password: ''}}}",
     "made anew for each run"),
    (("  link: {cipher: CCMP, keys: eap, pmf: 2}\n  dot1x: {eap: TLS, options: {wpa_supplicant: "
     "{phase1: tls_disable_tlsv1_3=0 tls_disable_tlsv1_2=1}}}"), "phase1 switches TLS 1.2 off"),
    ("  link: {cipher: CCMP, keys: eap}\n  dot1x: {eap: TLS, transport: radsec}\n  aaa: {}",
     "aaa is about servers that are asked by UDP"),
    ("  wire: {encrypts: 0}", "layers.wire lacks the key 'macsec'"),
    ("  wire: {macsec: GCM-AES-XPN-128}",
     "'GCM-AES-XPN-128' is not measured here (GCM-AES-128 is), as"),
    ("  wire: {macsec: GCM-AES-128, encrypts: 2}", "encrypts"),
    ("  link: {cipher: CCMP, keys: eap}\n  dot1x: {eap: TLS, transport: tls}",
     "transport: 'tls' is radsec; write transport: radsec"),
    ("  link: {cipher: CCMP, keys: eap, pmf: 2}\n  dot1x: {eap: TLS, tls: {version: '1.4'}}",
     "write one of: 1.2, 1.3"),
])
def test_what_cannot_be_is_one_line(tmp_path: Path, layers: str, words: str) -> None:
    """Refused as the file is read, before anything starts, with what to do."""
    with pytest.raises(PolicyError) as refused:
        load_policy(written(tmp_path, layers))
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)
