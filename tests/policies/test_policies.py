"""Tests of policies/: the paper's twelve, every cross-check, and every error's one line."""

from __future__ import annotations

import ast
import hashlib
import json
import os
import pickle
import re
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped,unused-ignore]
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

import policies.policy
from conftest import PROJECT
from policies import Policy, PolicyError, load_all, load_policy
from policies.document import DEPTH_LIMIT, SIZE_LIMIT
from policies.errors import advise_choice, suggest_word
from policies.loader import EXTENDS_LIMIT, find_declaration
from policies.options import DAEMONS, is_secret, load_options
from policies.proposals import pattern_esp, pattern_ike
from policies.schema import SCHEMA_FILE, generated_texts

EXAMPLES = sorted((PROJECT / "examples").glob("*.yml"))
HEAD = "id: X\nname: a test\nlayers:\n"

# Table 1 of the 2007 paper: the names of its policies.
PAPER_NAMES = {
    "P1": "No security",
    "P2": "WEP-128",
    "P3": "IPsec-3DES-SHA",
    "P4": "IPsec-3DES-SHA-WEP-128",
    "P5": "8021x-EAP-MD5",
    "P6": "8021x-EAP-TLS",
    "P7": "8021x-EAP-MD5-WEP-128",
    "P8": "8021x-EAP-TLS-WEP-128",
    "P9": "8021x-EAP-MD5-WEP-128-IPsec-3DES-MD5",
    "P10": "8021x-EAP-TLS-WEP-128-IPsec-3DES-MD5",
    "P11": "8021x-EAP-MD5-WEP-128-IPsec-3DES-SHA",
    "P12": "8021x-EAP-TLS-WEP-128-IPsec-3DES-SHA",
}
TWELVE = load_all()


def link(**changes: Any) -> dict[str, Any]:
    return {"cipher": "CCMP", "keys": "psk"} | changes


def eap_tls(**tls: str) -> dict[str, Any]:
    return {"link": link(keys="eap"), "dot1x": {"eap": "TLS", "tls": tls}}


#: The link layer of the 192-bit suite.
SUITE_192 = {"cipher": "GCMP-256", "keys": "eap", "akm": "suite-b-192", "pmf": 2,
             "group_mgmt": "BIP-GMAC-256"}


def ipsec(**changes: Any) -> dict[str, Any]:
    base = {"ike": 2, "ike_proposal": "aes128-sha256-ecp256", "esp_proposal": "aes128-sha256"}
    return base | changes


def message(folder: Path, text: str | bytes, name: str = "x.yml") -> str:
    """The error that a file with this content gives, checked to be one line naming the file."""
    file = folder / name
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(PolicyError) as caught:
        load_policy(file)
    line = str(caught.value)
    assert re.match(rf"{re.escape(str(folder))}/[^/]+:\d+: .+; .+", line)
    assert line.isprintable()
    return line.removeprefix(f"{folder}/")


def layers_message(folder: Path, **layers: Any) -> str:
    """The error that these layers give, written as YAML."""
    document = {"id": "X", "name": "a test", "layers": layers}
    return message(folder, yaml.safe_dump(document, sort_keys=False))


# The twelve policies of the paper


def test_the_twelve_have_the_papers_names_in_order() -> None:
    """load_all gives P1 to P12 in order, under the names of Table 1."""
    assert {policy.id: policy.name for policy in TWELVE} == PAPER_NAMES
    assert [policy.id for policy in TWELVE] == list(PAPER_NAMES)


@pytest.mark.parametrize("policy", TWELVE, ids=lambda policy: policy.id)
def test_layers_are_those_of_the_name(policy: Policy) -> None:
    """Each layer is switched on exactly when the paper's name mentions it, with its algorithms."""
    name, layers = policy.name, policy.layers
    method = "TLS" if "EAP-TLS" in name else "MD5" if "EAP-MD5" in name else None
    assert policy.eap_method == method
    assert policy.uses_eap == ("8021x" in name)
    assert policy.uses_certificates == (method == "TLS")
    assert policy.encrypts_air == policy.uses_wep == ("WEP-128" in name)
    assert policy.uses_ipsec == ("IPsec" in name)
    if layers.link:
        assert (layers.link.cipher, layers.link.pmf) == ("WEP-104", 0)
    if layers.ipsec:
        hashed = "sha1" if name.endswith(("3DES-SHA", "3DES-SHA-WEP-128")) else "md5"
        assert layers.ipsec.ike == 1
        assert layers.ipsec.ike_proposal == f"3des-{hashed}-modp1024"
        assert layers.ipsec.esp_proposal == f"3des-{hashed}"
        assert (layers.ipsec.authentication, layers.ipsec.mode) == ("pubkey", "tunnel")


def test_where_wep_keys_come_from() -> None:
    """Only EAP-TLS derives keys, so P8, P10 and P12 deliver theirs and the others are static."""
    keys = {policy.id: policy.layers.link.keys for policy in TWELVE if policy.layers.link}
    static = dict.fromkeys(["P2", "P4", "P7", "P9", "P11"], "static")
    assert keys == static | dict.fromkeys(["P8", "P10", "P12"], "eap")
    assert [policy.id for policy in TWELVE if policy.keys_by_eapol] == ["P8", "P10", "P12"]


def test_eap_tls_is_offered_after_md5_as_the_paper_counts() -> None:
    """The 17 packets of EAP-TLS contain an MD5 request and its NAK; EAP-MD5 is offered at once."""
    offers = {p.id: p.layers.dot1x.first_offer for p in TWELVE if p.layers.dot1x}
    assert set(offers) == {"P5", "P6", "P7", "P8", "P9", "P10", "P11", "P12"}
    assert set(offers.values()) == {"MD5"}


def test_every_shipped_file_names_its_schema_and_what_it_is() -> None:
    """The first line is for editors, the second one for people."""
    shipped = [PROJECT / "policies" / f"{name}.yml" for name in PAPER_NAMES]
    for file in [*shipped, *EXAMPLES]:
        first, second, *_ = file.read_text().splitlines()
        schema = first.removeprefix("# yaml-language-server: $schema=")
        assert (file.parent / schema).resolve() == SCHEMA_FILE.resolve()
        assert second.startswith("# ")


def test_examples_load() -> None:
    """The examples are valid, and are what their names say."""
    by_id = {policy.id: policy for policy in map(load_policy, EXAMPLES)}
    wpa2, wpa3 = by_id["WPA2-PSK"].layers.link, by_id["WPA3-SAE"].layers.link
    assert wpa2 and (wpa2.cipher, wpa2.keys, wpa2.pmf) == ("CCMP", "psk", 0)
    assert wpa3 and (wpa3.cipher, wpa3.keys, wpa3.pmf) == ("CCMP", "sae", 2)
    assert by_id["WPA2-PSK"].keys_by_eapol and not by_id["WPA2-PSK"].uses_eap


# The model


def test_policies_are_frozen_and_strict() -> None:
    """A loaded policy cannot be changed, and Python code is held to the same types as files."""
    with pytest.raises(ValidationError):
        TWELVE[0].name = "other"  # type: ignore[misc,unused-ignore]
    for wrong in (True, 1.0, "1"):
        with pytest.raises(ValidationError):
            policies.LinkLayer(cipher="CCMP", keys="psk", pmf=wrong)  # type: ignore[arg-type]


def test_json_round_trip() -> None:
    """What goes to the renderer as JSON is the whole policy: loading it back gives the same."""
    for policy in TWELVE:
        assert Policy.model_validate(json.loads(policy.model_dump_json())) == policy


def test_digest_depends_on_layers_only(tmp_path: Path) -> None:
    """Twelve policies have twelve digests; name, order, and spelt-out defaults do not matter."""
    assert len({policy.digest() for policy in TWELVE}) == len(TWELVE)
    assert TWELVE[0].digest() == hashlib.sha256(b"{}").hexdigest()
    file = tmp_path / "x.yml"
    file.write_text(HEAD + "  link: {pmf: 0, keys: static, options: {}, cipher: WEP-104}\n")
    assert load_policy(file).digest() == TWELVE[1].digest()


def test_the_twelve_are_what_they_were() -> None:
    """Layers that came later are no part of them: digests in folders of before still fit."""
    assert [policy.digest()[:8] for policy in TWELVE] == [
        "44136fa3", "dab13e12", "f3129e85", "db2217b2", "1e38f8e7", "9b7a34d0", "2d1751c3",
        "f485f60b", "beba61b2", "ce3b5d20", "5a5b646f", "97e7a32e"]
    assert all("stream" not in policy.layers.model_dump() for policy in TWELVE)


@pytest.mark.parametrize(("stream", "words"), [
    ("{scheme: delayed, bundle: 0}", "layers.stream.bundle: 0 is too small; write 1 to 1024"),
    ("{scheme: percentage, range: [50, 10]}", "range: 50 to 10 % is upside down; write the lower"),
    ("{scheme: percentage, range: [50, 100], level: 10}", "level: 10 % is below the floor of 50"),
    ("{scheme: percentage, range: [0, 50], level: 80}", "level: 80 % is above the range, which"),
    ("{scheme: tree, level: 50}", "tree verifies every packet, so that it has no level; leave"),
    ("{scheme: tree, range: [5]}", "range: two levels belong there; write"),
    ("{scheme: tree, range: [5, 101]}", "layers.stream.range.1: 101 is too large; write 0 to 100"),
    ("{scheme: tesla, bundle: 3}", "tesla has no bundles; leave out bundle"),
    ("{scheme: tesla, controller: bounded}", "bounded chooses bundles, and tesla has none; write"),
    ("{scheme: tree, limit_packets: 4}", "limit_packets is for the controllers of 1998; leave"),
    ("{scheme: delay}", "'delay' is not known; did you mean 'delayed'?"),
    ("yes", "layers.stream: yes is a boolean in YAML, where a block of keys belongs; write")])
def test_a_streams_layer_is_checked(tmp_path: Path, stream: str, words: str) -> None:
    """One line, with the file's: what is wrong and what to do."""
    said = message(tmp_path, HEAD + f"  stream: {stream}\n")
    assert said.startswith(f"x.yml:{HEAD.count(chr(10)) + 1}: ")
    assert words in said


@pytest.mark.parametrize(("channel", "words"), [
    ("{protocol: adp, scope: none}", "scope: adp always authenticates; write trailer or all"),
    ("{protocol: adp, trailer: checksum}", "adp ends with a tag of its own; leave out"),
    ("{protocol: adp, timeout_ms: -1}", "layers.channel.timeout_ms: -1 is too small; write 0"),
    ("{protocol: adp, timeout_ms: 20000}", "20000 is too large; write 0 to 10000"),
    ("{protocol: adp, queue_bytes: 100}", "100 is too small; write 8192 to 57344"),
    ("{protocol: adp-1986}", "'adp-1986' is not known; write one of: adp, adp-1987"),
    ("{scope: all}", "layers.channel lacks the key 'protocol'; add protocol")])
def test_a_channels_layer_is_checked(tmp_path: Path, channel: str, words: str) -> None:
    """A timeout below zero, a bound that a message does not fit, what one protocol has not."""
    said = message(tmp_path, HEAD + f"  channel: {channel}\n")
    assert said.startswith(f"x.yml:{HEAD.count(chr(10)) + 1}: ")
    assert words in said


def test_the_layers_below_are_a_policy_of_their_own(tmp_path: Path) -> None:
    """What daemons are rendered from has nothing of the layers above, and digests as without."""
    file = tmp_path / "x.yml"
    file.write_text(HEAD + "  link: {keys: static, cipher: WEP-104}\n  stream: {scheme: tree}\n")
    policy = load_policy(file)
    assert policy.layers.upper_names == ["stream"]
    assert policy.digest() != TWELVE[1].digest() == policy.without_upper_layers.digest()
    assert Policy.model_validate(json.loads(policy.model_dump_json())) == policy


def test_first_offer_defaults_to_the_method(tmp_path: Path) -> None:
    """Without first_offer the server proposes the method that decides, and says so in the data."""
    file = tmp_path / "x.yml"
    for method in ("MD5", "TLS"):
        file.write_text(HEAD + f"  dot1x: {{eap: {method}}}\n")
        dot1x = load_policy(file).layers.dot1x
        assert dot1x and dot1x.first_offer == method


def test_errors_survive_pickling() -> None:
    """A worker process can hand a PolicyError to its parent unharmed."""
    error = PolicyError("x.yml", 3, "what", "advice", 2)
    assert str(pickle.loads(pickle.dumps(error))) == "x.yml:3: what; advice (and 2 more)"


def test_package_imports_nothing_of_ours() -> None:
    """Of the project, policies imports only itself and the reader of YAML files."""
    ours = {path.name for path in PROJECT.iterdir() if path.is_dir()} - {"documents", "policies"}
    for file in (PROJECT / "policies").glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not {name.split(".")[0] for name in names} & ours


# The schema


def test_committed_schema_is_current() -> None:
    """Generated files are what the models say; if not, run ``python -m policies.schema``."""
    texts = dict(generated_texts())
    assert {path.parts[-3] for path in texts} >= {"freeradius", "hostapd", "wpa_supplicant"}
    assert SCHEMA_FILE in texts
    assert [path for path, text in texts.items() if path.read_text() != text] == []


def test_schema_patterns_agree_with_the_checks() -> None:
    """Editors accept the proposals that the loader accepts, and refuse a misspelt one."""
    for policy in TWELVE:
        if policy.layers.ipsec:
            assert re.search(pattern_ike(), policy.layers.ipsec.ike_proposal)
            assert re.search(pattern_esp(), policy.layers.ipsec.esp_proposal)
    assert re.search(pattern_ike(), "aes128gcm16-prfsha256-curve25519")
    assert re.search(pattern_esp(), "chacha20poly1305-ecp384")
    assert not re.search(pattern_ike(), "3des-sha-modp1024")
    assert not re.search(pattern_esp(), "aes128gcm16-sha256")


# Cross-checks: layers, expected line, words of the message

BAD_LAYERS: dict[str, tuple[dict[str, Any], str]] = {
    "WEP takes no passphrase": (
        {"link": link(cipher="WEP-40")},
        "x.yml:6: keys: psk cannot feed WEP-40; write keys: static or eap",
    ),
    "CCMP takes no static key": (
        {"link": link(keys="static")},
        "x.yml:6: CCMP takes no static keys; write keys: psk, sae, owe or eap",
    ),
    "keys from EAP need 802.1X": (
        {"link": link(keys="eap")},
        "x.yml:6: link.keys: eap has no EAP to take keys from; add layers.dot1x",
    ),
    "EAP-MD5 derives no WEP keys": (
        {"link": link(cipher="WEP-104", keys="eap"), "dot1x": {"eap": "MD5"}},
        "x.yml:6: EAP-MD5 derives no keys, and link.keys is eap; write dot1x.eap: TLS",
    ),
    "EAP-MD5 derives no CCMP keys": (
        {"link": link(keys="eap"), "dot1x": {"eap": "MD5"}},
        "x.yml:6: EAP-MD5 derives no keys",
    ),
    "a passphrase excludes 802.1X": (
        {"link": link(), "dot1x": {"eap": "TLS"}},
        "x.yml:6: link.keys: psk and 802.1X exclude each other; leave out layers.dot1x",
    ),
    "SAE excludes 802.1X": (
        {"link": link(keys="sae", pmf=2), "dot1x": {"eap": "TLS"}},
        "x.yml:6: link.keys: sae and 802.1X exclude each other",
    ),
    "a passphrase has no controller's cache": (
        {"link": link(roaming="okc")},
        "x.yml:7: roaming: okc is for keys: eap, with CCMP or GCMP; change keys or cipher",
    ),
    "FILS is a key management of its own": (
        {"link": link(keys="eap", akm="sha256", roaming="fils"), "dot1x": {"eap": "TLS"}},
        "x.yml:8: roaming: fils is a key management of its own; leave out akm, or roaming",
    ),
    "192 bits have no FILS": (
        {"link": link(cipher="GCMP-256", keys="eap", akm="suite-b-192", pmf=2, roaming="fils",
                      group_mgmt="BIP-GMAC-256"), "dot1x": {"eap": "TLS"}},
        "x.yml:9: roaming: fils is a key management of its own; leave out akm, or roaming",
    ),
    "SAE beside a passphrase needs PMF": (
        {"link": link(offered=["WPA-PSK", "SAE"])},
        "x.yml:8: an access point that offers SAE needs protected management frames; write pmf: 1",
    ),
    "the station's own is among those offered": (
        {"link": link(pmf=1, offered=["SAE"])},
        "x.yml:9: offered lacks WPA-PSK, which the station uses by keys: psk; add WPA-PSK to it",
    ),
    "passphrases and EAP are not mixed": (
        {"link": link(offered=["WPA-PSK", "WPA-EAP"])},
        "x.yml:8: offered: WPA-EAP does not go with WPA-PSK; write EAP and passphrases in",
    ),
    "fast transition is not offered to others": (
        {"link": link(offered=["WPA-PSK", "FT-PSK"])}, "x.yml:8: offered: FT-PSK does not go with"),
    "OWE is offered alone": (
        {"link": link(keys="owe", pmf=2, offered=["WPA-PSK"])},
        "x.yml:9: offered is for keys: psk, sae or eap with CCMP or GCMP, without FILS and"),
    "no key management twice": (
        {"link": link(offered=["WPA-PSK", "WPA-PSK"])},
        "x.yml:8: offered names one key management twice; leave one out"),
    "a station uses the better of two": (
        {"link": link(pmf=1, offered=["WPA-PSK", "SAE"], accepted=["WPA-PSK", "SAE"])},
        "x.yml:12: a station that accepts SAE and WPA-PSK uses SAE, and keys is psk; leave SAE"),
    "a station with SAE needs PMF": (
        {"link": link(keys="sae", pmf=1, station_pmf=0)},
        "x.yml:8: keys: sae needs protected management frames; leave out station_pmf"),
    "a station without PMF where it is required": (
        {"link": link(pmf=2, station_pmf=0)},
        "x.yml:8: pmf is 2 and station_pmf 0, so the station cannot join; write 1 for one of them"),
    "a station's PMF where there is none": (
        {"link": link(station_pmf=1)},
        "x.yml:7: station_pmf has no effect where access points have pmf: 0; leave it out, or"),
    "beacons cannot be checked by a station without PMF": (
        {"link": link(pmf=1, station_pmf=0, beacon_protection=1)},
        "x.yml:8: beacon_protection needs protected management frames, and the station has none"),
    "key managements are named as hostapd names them": (
        {"link": link(pmf=1, offered=["psk"])},
        "x.yml:9: layers.link.offered.0: 'psk' is WPA-PSK; write WPA-PSK (known: "),
    "a station of hash to element joins WPA3 alone": (
        {"link": link(keys="sae", pmf=1, sae="h2e", accepted=["SAE", "WPA-PSK"])},
        "x.yml:10: a station of hash to element joins no access point without it, so that"),
    "a station with an option for hash to element joins WPA3 alone": (
        {"link": link(keys="sae", pmf=1, accepted=["SAE", "WPA-PSK"],
                      options={"wpa_supplicant": {"sae_pwe": 1}})},
        "x.yml:9: a station of hash to element joins no access point without it, so that"),
    "dead peers are detected with MOBIKE": (
        {"ipsec": ipsec(ike=1, ike_proposal="aes256-sha256-modp2048", dpd=30)},
        "x.yml:8: dpd is measured with MOBIKE behind a router with NAT, and ike is 1; leave"),
    "key managements are a list": (
        {"link": link(pmf=1, offered="WPA-PSK SAE")},
        "x.yml:8: layers.link.offered: 'WPA-PSK SAE' stands where a list belongs; write offered: "),
    "passphrases by device are of WPA2 alone": (
        {"link": link(keys="sae", pmf=2, passphrases="by-device")},
        "x.yml:8: passphrases by device are of keys: psk with CCMP or GCMP, without roaming and"),
    "what both ends agree on is offered": (
        {"ipsec": ipsec(ike_offered=["aes256-sha256-ecp256"])},
        "x.yml:9: ike_offered lacks aes128-sha256-ecp256, which is ike_proposal; add it"),
    "and accepted": (
        {"ipsec": ipsec(ike_accepted=["aes256-sha256-ecp256"])},
        "x.yml:9: ike_accepted lacks aes128-sha256-ecp256, which is ike_proposal; add it"),
    "no proposal twice": (
        {"ipsec": ipsec(ike_offered=["aes128-sha256-ecp256"] * 2)},
        "x.yml:9: ike_offered names one proposal twice; leave one out"),
    "a gateway takes the first that it accepts": (
        {"ipsec": ipsec(ike_offered=["aes128-sha256-ecp256", "aes128-sha1-modp2048"],
                        ike_accepted=["aes128-sha1-modp2048", "aes128-sha256-ecp256"])},
        "x.yml:12: a gateway that accepts aes128-sha1-modp2048 first takes it, and"),
    "ML-KEM is not offered beside other proposals": (
        {"ipsec": ipsec(ike_offered=["aes256-sha256-mlkem768", "aes128-sha256-ecp256"])},
        "x.yml:9: ike_offered has ML-KEM, and ike_proposal has not; leave it out of the list"),
    "each of a list is a proposal": (
        {"ipsec": ipsec(ike_offered=["aes128-sha256-ecp256", "aes128-sha256"])},
        "x.yml:9: layers.ipsec.ike_offered: 'aes128-sha256' has 2 parts where"),
    "over the DS passes fast transition alone": (
        {"link": link(ft_over_ds=1)},
        "x.yml:7: ft_over_ds is of fast transition, and roaming is left out; leave out ft_over_ds"),
    "over the DS passes no cached keys": (
        {"link": link(keys="eap", roaming="okc", ft_over_ds=1), "dot1x": {"eap": "TLS"}},
        "x.yml:8: ft_over_ds is of fast transition, and roaming is okc; leave out ft_over_ds"),
    "transition mode of OWE is OWE's": (
        {"link": link(pmf=1, owe_transition=1)},
        "x.yml:8: owe_transition is of OWE, and keys is psk; leave out owe_transition, or write"),
    "no channel is stated in OWE transition mode": (
        {"link": link(keys="owe", pmf=2, owe_transition=1, ocv=1)},
        "x.yml:9: in OWE transition mode, wpa_supplicant states no channel, and access points"),
    "the channel of before is stated over the DS": (
        {"link": link(keys="sae", pmf=2, roaming="ft", ft_over_ds=1, ocv=1)},
        "x.yml:10: over the DS, wpa_supplicant states the channel that it leaves, and access"),
    "a group cipher is the weaker one": (
        {"link": link(group_cipher="CCMP")},
        "x.yml:7: group_cipher: CCMP is not weaker than CCMP; leave out group_cipher"),
    "TKIP for frames to all excludes PMF": (
        {"link": link(pmf=1, group_cipher="TKIP")},
        "x.yml:8: a network with TKIP has no protected management frames; write pmf: 0, or leave"),
    "the agreed group of SAE is among the station's": (
        {"link": link(keys="sae", pmf=2, station_groups=[20, 21])},
        "x.yml:9: station_groups lacks 19, which both ends use by group; add 19 to it, or write"),
    "the agreed group of SAE is among the access point's": (
        {"link": link(keys="sae", pmf=2, group=20, access_point_groups=[19])},
        "x.yml:10: access_point_groups lacks 20, which both ends use by group"),
    "a station uses the first group that is accepted": (
        {"link": link(keys="sae", pmf=2, station_groups=[20, 19], access_point_groups=[19, 20])},
        "x.yml:9: a station that tries 20 first uses it, and group is 19; write group: 20, or"),
    "a group of SAE stands once in a list": (
        {"link": link(keys="sae", pmf=2, station_groups=[19, 19])},
        "x.yml:9: station_groups names one group twice; leave one out"),
    "OWE has one group": (
        {"link": link(keys="owe", pmf=2, access_point_groups=[19, 20])},
        "x.yml:9: access_point_groups are those of SAE, and keys is owe; leave out"),
    "the ESP proposal is among those offered": (
        {"ipsec": ipsec(esp_offered=["aes256gcm16"])},
        "x.yml:9: esp_offered lacks aes128-sha256, which is esp_proposal; add it"),
    "an ESP proposal stands once in a list": (
        {"ipsec": ipsec(esp_accepted=["aes128-sha256"] * 2)},
        "x.yml:9: esp_accepted names one proposal twice; leave one out"),
    "the gateway takes the first of its ESP proposals": (
        {"ipsec": ipsec(esp_offered=["aes128-sha256", "aes256gcm16"],
                        esp_accepted=["aes256gcm16", "aes128-sha256"])},
        "x.yml:12: a gateway that accepts aes256gcm16 first takes it, and esp_proposal is aes128-"),
    "ESP's lists have ESP's proposals": (
        {"ipsec": ipsec(esp_offered=["aes128-sha256", "aes128gcm16-prfsha256-ecp256"])},
        "x.yml:9: layers.ipsec.esp_offered: "),
    "IKEv1 has one group for ESP": (
        {"ipsec": ipsec(ike=1, esp_offered=["aes128-sha256", "aes128-sha256-ecp521"])},
        "x.yml:9: IKEv1 has one group for all proposals of ESP, and esp_offered has several"),
    "TLS protects RADIUS already": (
        {"link": link(keys="eap"), "dot1x": {"eap": "TLS", "transport": "radsec",
                                             "message_authenticator": "required"}},
        "x.yml:10: message_authenticator belongs to RADIUS by UDP, and transport is radsec, where"),
    "only PEAP has EAP-TLS inside": (
        {"link": link(keys="eap"), "dot1x": {"eap": "TTLS", "inner": "TLS"}},
        "x.yml:9: EAP-TTLS has no TLS inside; write inner: PAP or MSCHAPV2"),
    "no session with EAP-TLS inside is resumed": (
        {"link": link(keys="eap"), "dot1x": {"eap": "PEAP", "inner": "TLS",
                                             "tls": {"sessions": "resumed"}}},
        "x.yml:11: wpa_supplicant 2.10 does not answer the first request of a resumed session"),
    "revocation is checked without a tunnel": (
        {"link": link(keys="eap"), "dot1x": {"eap": "PEAP", "inner": "TLS",
                                             "tls": {"revocation": "crl"}}},
        "x.yml:11: revocation is about certificates of stations, and a station of EAP-PEAP shows"),
    "revocation is about stations' certificates": (
        {"link": link(keys="eap"), "dot1x": {"eap": "PEAP", "inner": "GTC",
                                             "tls": {"revocation": "crl"}}},
        "x.yml:11: revocation is about certificates of stations, and a station of EAP-PEAP shows"),
    "no certificate is checked in a resumed session": (
        {"link": link(keys="eap"), "dot1x": {"eap": "TLS", "tls": {"sessions": "resumed",
                                                                   "revocation": "crl"}}},
        "x.yml:11: no certificate is shown or checked where a session is resumed; leave out"),
    "station_key is another kind": (
        eap_tls(key="p-256", station_key="p-256"),
        "x.yml:11: station_key is p-256, as key is; leave out station_key"),
    "the 192-bit suite has equal keys": (
        eap_tls(key="p-384", station_key="p-256"),
        "x.yml:11: with key: p-384, both ends have such keys; leave out station_key, or"),
    "ML-DSA at the station goes with TLS 1.3": (
        eap_tls(station_key="ml-dsa-44"),
        "x.yml:10: certificates with ml-dsa-44 go with TLS 1.3; write version"),
    "revocation has keys of one kind": (
        eap_tls(revocation="crl", station_key="p-256"),
        "x.yml:11: revocation needs one kind of key at both ends; leave out station_key, or"),
    "resumed sessions show no key": (
        eap_tls(sessions="resumed", station_key="p-256"),
        "x.yml:11: no certificate is shown where a session is resumed; leave out station_key, or"),
    "a station of PEAP has no key": (
        {"link": link(keys="eap"), "dot1x": {"eap": "PEAP", "inner": "GTC",
                                             "tls": {"station_key": "p-256"}}},
        "x.yml:11: station_key is about certificates of stations, and a station of EAP-PEAP shows"),
    "ML-DSA has no revocation": (
        {"link": link(keys="eap"), "dot1x": {"eap": "TLS", "tls": {
            "version": "1.3", "key": "ml-dsa-44", "revocation": "ocsp"}}},
        "x.yml:12: certificates with ml-dsa-44 are not revoked here; leave out revocation, or"),
    "revocation is proven by UDP": (
        {"link": link(keys="eap"), "dot1x": {"eap": "TLS", "transport": "radsec",
                                             "tls": {"revocation": "ocsp"}}},
        "x.yml:11: revocation is proven by RADIUS by UDP, and transport is radsec; leave out one"),
    "the home network's server checks revocation": (
        {"link": link(keys="eap"), "dot1x": {"eap": "TLS", "tls": {"revocation": "ocsp"}},
         "aaa": {"identity": "temporary"}},
        "x.yml:10: revocation is checked by the home network's FreeRADIUS, and aaa has others"),
    "a server's name has a dot": (
        {"link": link(keys="eap"), "dot1x": {"eap": "TLS", "tls": {"server_name": "ha-a"}}},
        "x.yml:10: layers.dot1x.tls.server_name: 'ha-a' is not a server's name; write one DNS"),
    "a server's name fits into a certificate": (
        {"link": link(keys="eap"), "dot1x": {"eap": "TLS", "tls": {
            "server_domain": f"{'a' * 46}.example"}}},
        f"x.yml:10: layers.dot1x.tls.server_domain: '{'a' * 37}...' is not a server's name; "),
    "a server's name is whole or not": (
        {"link": link(keys="eap"), "dot1x": {"eap": "TLS", "tls": {
            "server_name": "radius.home.example", "server_domain": "home.example"}}},
        "x.yml:10: server_name is the server's whole name, and server_domain its end; leave out"),
    "no name is checked in a resumed session": (
        {"link": link(keys="eap"), "dot1x": {"eap": "TLS", "tls": {
            "sessions": "resumed", "server_domain": "home.example"}}},
        "x.yml:11: no name is checked where a session is resumed; leave out server_domain, or"),
    "a card knows no name of a server": (
        {"link": link(keys="eap"), "dot1x": {"eap": "AKA", "tls": {
            "server_name": "radius.home.example"}}, "aaa": {"server": "hostapd"}},
        "x.yml:10: server_name is about certificates of servers, and EAP-AKA shows none; leave"),
    "the server's name is said twice": (
        {"link": link(keys="eap"), "dot1x": {"eap": "TLS", "tls": {
            "server_name": "radius.home.example"}, "options": {"wpa_supplicant": {
                "domain_match": "radius.home.example"}}}},
        "x.yml:10: wpa_supplicant's option domain_match and tls.server_name say the same; leave"),
    "the home network's server has the name": (
        {"link": link(keys="eap"), "dot1x": {"eap": "TLS", "tls": {
            "server_name": "radius.home.example"}}, "aaa": {"identity": "temporary"}},
        "x.yml:10: server_name is the name of the home network's FreeRADIUS, and aaa has"),
    "a VLAN is named by RADIUS by UDP": (
        {"link": link(keys="eap", vlan=20), "dot1x": {"eap": "TLS", "transport": "radsec"}},
        "x.yml:7: vlan is proven by RADIUS by UDP, and transport is radsec; leave out one of"),
    "a VLAN's tags and MACsec": (
        {"link": link(passphrases="by-device", vlan=20), "wire": {"macsec": "GCM-AES-128"}},
        "x.yml:8: vlan puts tags on wires, and wire has MACsec there; leave out one of them"),
    "hostapd as the server gives no VLAN": (
        {"link": link(keys="eap", vlan=20), "dot1x": {"eap": "AKA"}, "aaa": {"server": "hostapd"}},
        "x.yml:7: hostapd as the server gives no VLAN here; leave out vlan, or write server"),
    "accounting goes by UDP": (
        {"link": link(keys="eap"), "dot1x": {"eap": "TLS", "transport": "radsec", "accounting": 1}},
        "x.yml:10: accounting goes by UDP here, and transport is radsec; leave out one of them"),
    "hostapd as the server takes EAP alone": (
        {"link": link(keys="eap"), "dot1x": {"eap": "AKA", "message_authenticator": "required"},
         "aaa": {"server": "hostapd"}},
        "x.yml:9: hostapd as the server takes requests with EAP alone, which need a Message-"),
    "one tunnel is enough": (
        {"ipsec": ipsec(), "wireguard": {}},
        "x.yml:8: ipsec and wireguard are tunnels between the same ends; leave out one of them",
    ),
    "ML-KEM is IKE's": (
        {"ipsec": ipsec(esp_proposal="aes256gcm16-mlkem768")},
        "x.yml:7: layers.ipsec.esp_proposal: ML-KEM has no place in 'aes256gcm16-mlkem768', which",
    ),
    "SAE needs PMF": (
        {"link": link(keys="sae", pmf=0)},
        "x.yml:7: keys: sae needs protected management frames; write pmf: 2",
    ),
    "SAE needs PMF, which is off by default": (
        {"link": link(keys="sae")},
        "x.yml:6: keys: sae needs protected management frames; write pmf: 2",
    ),
    "SAE feeds no TKIP": (
        {"link": link(cipher="TKIP", keys="sae", pmf=2)},
        "x.yml:5: SAE cannot feed TKIP; write cipher: CCMP",
    ),
    "WEP has no PMF": (
        {"link": link(cipher="WEP-104", keys="static", pmf=1)},
        "x.yml:7: WEP-104 has no protected management frames; write pmf: 0",
    ),
    "TKIP has no PMF": (
        {"link": link(cipher="TKIP", pmf=1)},
        "x.yml:7: TKIP has no protected management frames; write pmf: 0",
    ),
    "an option stands in one layer": (
        {
            "link": link(keys="eap", options={"hostapd": {"eapol_version": 1}}),
            "dot1x": {"eap": "TLS", "options": {"hostapd": {"eapol_version": 2}}},
        },
        "x.yml:14: hostapd's option eapol_version stands in both link and dot1x; leave it in one",
    ),
    "a misspelt cipher": (
        {"link": link(cipher="CMCP")},
        "x.yml:5: layers.link.cipher: 'CMCP' is not known; did you mean 'CCMP'? (known: WEP-40,",
    ),
    "WEP-128 is WEP-104": (
        {"link": link(cipher="WEP-128", keys="static")},
        "x.yml:5: layers.link.cipher: 'WEP-128' is WEP-104; write cipher: WEP-104",
    ),
    "an unknown EAP method": (
        {"dot1x": {"eap": "GTC"}},
        "x.yml:5: layers.dot1x.eap: 'GTC' is not measured here; write one of: MD5, TLS",
    ),
    "a tunnel with nothing inside": (
        {"dot1x": {"eap": "PEAP"}},
        "x.yml:5: EAP-PEAP is a tunnel, and the method inside is missing; add inner: MSCHAPV2",
    ),
    "TLS of a method without it": (
        {"dot1x": {"eap": "MD5", "tls": {"version": "1.3"}}},
        "x.yml:7: EAP-MD5 has no TLS to set; leave out tls, or write eap: TLS, PEAP or TTLS",
    ),
    "a password that PEAP does not carry": (
        {"dot1x": {"eap": "PEAP", "inner": "PAP"}},
        "x.yml:6: EAP-PEAP has no PAP inside; write inner: MSCHAPV2",
    ),
    "no tunnel for an inner method": (
        {"dot1x": {"eap": "TLS", "inner": "PAP"}},
        "x.yml:6: EAP-TLS has no PAP inside; leave out inner",
    ),
    "an identity that is the password's": (
        {"dot1x": {"eap": "PWD", "identity": "anonymous"}},
        "x.yml:6: EAP-PWD needs the user's own identity in clear; leave out identity",
    ),
    "SAE-PK in another group": (
        {"link": link(keys="sae", pmf=2, sae="pk", group=20)},
        "x.yml:9: sae: pk is measured without group; leave out group, or write sae: h2e",
    ),
    "a card without who knows its key": (
        {"dot1x": {"eap": "AKA'"}},
        "x.yml:5: EAP-AKA' is not among FreeRADIUS' methods; add layers.aaa with server: hostapd",
    ),
    "OWE without protected management frames": (
        {"link": link(keys="owe")},
        "x.yml:6: keys: owe needs protected management frames; write pmf: 2",
    ),
    "key management of SAE": (
        {"link": link(keys="sae", pmf=2, akm="sha256")},
        "x.yml:8: akm is for keys of a passphrase or of EAP, and keys is sae with CCMP",
    ),
    "192 bits of less": (
        {"link": link(keys="eap", akm="suite-b-192", pmf=2), "dot1x": {"eap": "TLS"}},
        "x.yml:7: the 192-bit suite is made of keys: eap, GCMP-256, pmf: 2 and BIP-GMAC-256;",
    ),
    "hash to element without SAE": (
        {"link": link(sae="h2e")},
        "x.yml:7: sae says how SAE is done, and keys is psk; leave out sae",
    ),
    "a group without an exchange": (
        {"link": link(group=19)},
        "x.yml:7: group is that of SAE or OWE, and keys is psk; leave out group",
    ),
    "beacons of nothing": (
        {"link": link(beacon_protection=1)},
        "x.yml:7: beacon_protection needs protected management frames; write pmf: 1 or 2",
    ),
    "x25519 of TLS 1.2": (
        {"dot1x": {"eap": "TLS", "tls": {"group": "x25519"}}},
        "x.yml:7: the group x25519 goes with TLS 1.3, and with other keys than p-384;",
    ),
    "a group that certificates of P-384 rule out": (
        {"dot1x": {"eap": "TLS", "tls": {"key": "p-384", "group": "p-256"}}},
        "x.yml:8: the group is p-384 with such keys, and not p-256; leave out group",
    ),
    "the 192-bit suite with short keys of RSA": (
        {"link": SUITE_192, "dot1x": {"eap": "TLS", "tls": {"key": "rsa-2048"}}},
        "x.yml:13: the 192-bit suite has TLS 1.2 and certificates with keys of P-384, or of RSA wi",
    ),
    "the 192-bit suite with short keys of stations": (
        {"link": SUITE_192, "dot1x": {"eap": "TLS", "tls": {
            "key": "rsa-3072", "station_key": "rsa-2048"}}},
        "x.yml:14: the 192-bit suite has no certificates with rsa-2048 beside rsa-3072;",
    ),
    "the 192-bit suite without its check of RSA keys": (
        {"link": SUITE_192, "dot1x": {"eap": "TLS", "tls": {"key": "rsa-3072"}, "options": {
            "wpa_supplicant": {"phase1": "tls_disable_time_checks=1"}}}},
        "x.yml:16: phase1 stands in place of what has the station refuse RSA keys below 3072 bits",
    ),
    "the 192-bit suite with TLS 1.3": (
        {"link": SUITE_192, "dot1x": {"eap": "TLS", "tls": {"key": "p-384", "version": "1.3"}}},
        "x.yml:13: the 192-bit suite has TLS 1.2 and certificates with keys of P-384, or of RSA wi",
    ),
    "the 192-bit suite with usual certificates": (
        {"link": SUITE_192, "dot1x": {"eap": "TLS"}},
        "x.yml:11: the 192-bit suite has TLS 1.2 and certificates with keys of P-384, or of RSA wi",
    ),
    "a group of hostapd as the server": (
        {"dot1x": {"eap": "TLS", "tls": {"group": "p-256"}}, "aaa": {"server": "hostapd"}},
        "x.yml:7: hostapd as the server takes the group that the station prefers; leave out group",
    ),
    "TKIP for all beside SAE": (
        {"link": link(keys="sae", pmf=1, group_cipher="TKIP")},
        "x.yml:8: a network with TKIP has no protected management frames; leave out group_cipher",
    ),
    "passphrases by device with fast transition": (
        {"link": link(passphrases="by-device", roaming="ft")},
        "x.yml:7: passphrases by device are of keys: psk with CCMP or GCMP, without roaming and",
    ),
    "a VLAN with one passphrase for all": (
        {"link": link(vlan=20)},
        "x.yml:7: a VLAN needs a RADIUS server (keys: eap, without WEP) or passphrases: by-device",
    ),
    "a VLAN that does not exist": (
        {"link": link(keys="eap", vlan=4095), "dot1x": {"eap": "TLS"}},
        "x.yml:7: layers.link.vlan: 4095 is too large; write 1 to 4094",
    ),
    "further VLANs without a first one": (
        {"link": link(passphrases="by-device", further_vlans=[30])},
        "x.yml:9: further_vlans are for stations after the first one, which has no vlan; add vlan",
    ),
    "a further VLAN that is the first one": (
        {"link": link(passphrases="by-device", vlan=20, further_vlans=[30, 20])},
        "x.yml:10: further_vlans is empty, has a VLAN twice, or has that of vlan; write a list of",
    ),
    "tokens against clogging without SAE": (
        {"link": link(anti_clogging=0)},
        "x.yml:7: anti_clogging belongs to SAE, and keys is psk; leave out anti_clogging, or write",
    ),
    "neighbor reports with WEP": (
        {"link": {"cipher": "WEP-104", "keys": "static", "neighbor_report": 1}},
        "x.yml:7: neighbor_report is measured with WPA2 and later, and cipher is WEP-104; leave",
    ),
    "passphrases by device with SHA-256": (
        {"link": link(passphrases="by-device", akm="sha256")},
        "x.yml:7: passphrases by device are of keys: psk with CCMP or GCMP, without roaming and",
    ),
    "a passphrase, which no message shows": (
        {"link": link(passphrases="of our own")},
        "x.yml:7: layers.link.passphrases: this value is not known; write one of: by-device",
    ),
    "a list in place of a word": (
        {"dot1x": {"eap": "PEAP", "inner": ["GTC"]}},
        "x.yml:6: layers.dot1x.inner: a list stands where one value belongs; write inner: GTC",
    ),
    "certificates of the strongSwan with ML-KEM": (
        {"ipsec": ipsec(ike_proposal="aes256gcm16-prfsha384-mlkem768", authentication="eap-tls",
                        esp_proposal="aes256gcm16")},
        "x.yml:8: the strongSwan with ML-KEM has no certificates here; write authentication:",
    ),
    "a pre-shared key of IKE": (
        {"ipsec": {"ike": 2, "ike_proposal": "aes256-sha256-modp2048",
                   "esp_proposal": "aes256-sha256", "psk": "of our own"}},
        "x.yml:8: layers.ipsec: 'psk' is a secret that qop makes, and authentication: psk says",
    ),
    "a missing key": (
        {"link": {"cipher": "CCMP"}},
        "x.yml:4: layers.link lacks the key 'keys'; add keys: static or eap or psk or sae",
    ),
    "an unknown key, before the key it leaves missing": (
        {"link": {"ciphr": "CCMP", "keys": "psk"}},
        "x.yml:5: unknown key 'ciphr' in layers.link; did you mean 'cipher'? (known: cipher, keys,",
    ),
    "an unknown layer": (
        {"ipsek": {}},
        "x.yml:4: unknown key 'ipsek' in layers; did you mean 'ipsec'?",
    ),
    "a number out of range": (
        {"link": link(pmf=3)},
        "x.yml:7: layers.link.pmf: 3 is not known; write one of: 0, 1, 2",
    ),
    "a number in quotes": (
        {"link": link(pmf="1")},
        "x.yml:7: layers.link.pmf: '1' is text; write 1 without quotes",
    ),
    "a list where keys belong": (
        {"link": ["CCMP"]},
        "x.yml:4: layers.link: a list stands where a block of keys belongs; write link: {ciph",
    ),
    "authentication of IKEv2 with IKEv1": (
        {"ipsec": ipsec(ike=1, authentication="psk")},
        "x.yml:8: authentication: psk is for IKEv2 here, and ike is 1; write ike: 2, or leave out",
    ),
}


@pytest.mark.parametrize("case", BAD_LAYERS)
def test_impossible_layers_are_refused(case: str, tmp_path: Path) -> None:
    """Each impossible combination or value names its line and what to write."""
    layers, expected = BAD_LAYERS[case]
    assert layers_message(tmp_path, **layers).startswith(expected)


GOOD_LAYERS: list[dict[str, Any]] = [
    {},
    {"link": None, "dot1x": None, "ipsec": None},
    {"link": link(pmf=1)},
    {"link": link(cipher="TKIP")},
    {"link": link(cipher="GCMP-256", keys="sae", pmf=1)},
    {"link": link(cipher="CCMP-256", keys="eap", pmf=2), "dot1x": {"eap": "TLS"}},
    {"link": link(cipher="WEP-40", keys="static"), "dot1x": {"eap": "TLS"}},
    {"dot1x": {"eap": "MD5", "first_offer": "TLS"}},
    {"link": link(options={"hostapd": {"wpa_group_rekey": 0, "wpa_ptk_rekey": "600"}})},
    {"link": link(options={"wpa_supplicant": {"wpa_ptk_rekey": 600}})},
    {"ipsec": ipsec(mode="transport", ike=1)},
    {"link": link(keys="owe", pmf=2), "wireguard": {"authentication": "pubkey"}},
    {"link": link(roaming="ft", ft_over_ds=1)},
    {"ipsec": ipsec(ike_offered=["aes256-sha256-ecp384", "aes128-sha256-ecp256"],
                    ike_accepted=["aes256-sha256-modp3072", "aes128-sha256-ecp256"])},
    {"ipsec": ipsec(ike_offered=["aes128-sha256-ecp256", "aes256-sha256-ecp384"])},
    {"ipsec": ipsec(ike_proposal="aes256-sha512-ecp521", esp_offered=["aes256gcm16",
                                                                      "aes128-sha256"],
                    esp_accepted=["3des-md5", "aes128-sha256"])},
    {"link": link(keys="eap"), "dot1x": {"eap": "PEAP", "inner": "TLS"}},
    *({"link": link(keys="eap", roaming=roaming), "dot1x": {"eap": "TLS"}}
      for roaming in ("ft", "ft-pull", "okc", "pmksa", "fils")),
    {"link": link(keys="sae", pmf=2, station_groups=[21, 20, 19], access_point_groups=[19])},
    {"link": link(keys="sae", pmf=2, group=21, access_point_groups=[20, 21])},
    *({"link": {**SUITE_192, "roaming": roaming},
       "dot1x": {"eap": "TLS", "tls": {"key": "p-384"}}} for roaming in ("ft", "ft-pull")),
]


@pytest.mark.parametrize("layers", GOOD_LAYERS, ids=str)
def test_possible_layers_are_accepted(layers: dict[str, Any], tmp_path: Path) -> None:
    """The cross-checks refuse nothing that works."""
    file = tmp_path / "x.yml"
    file.write_text(yaml.safe_dump({"id": "X", "name": "a test", "layers": layers}))
    assert load_policy(file).id == "X"


# Values that people write in another way, by what each is told to write

SINGLE_VALUES: list[tuple[str, str]] = [
    *((f"link: {{cipher: CCMP, keys: sae, pmf: 2, {field}}}", said) for field, said in [
        ("group: 22", "group: 22 is not known; write one of: 19, 20, 21"),
        ('group: "19"', "group: '19' is text; write 19 without quotes"),
        ("group: [20, 19]", "group: 20, station_groups: [20, 19], access_point_groups: [20, 19]}"),
        ("group: [19, 22]", "group: a list stands where one value belongs; write one of: 19, 20"),
        ("station_groups: 20", "'20' stands where a list belongs; write link: {cipher: CCMP, "),
        ("station_groups: [20, 22]", "station_groups.1: 22 is not known; write one of: 19, 20"),
        ("group: p-256", "group: 'p-256' is 19; write group: 19"),
        ("group: yes", "group: yes is a boolean in YAML, where a number belongs; write one of: 19"),
        ("roaming: ft, over_ds: 1", "over_ds"),
        ("beacon_protection: 2", "beacon_protection: 2 is not known; write one of: 0, 1"),
        ("group_cipher: TKIP", "a network with TKIP has no protected management frames; leave")]),
    *((f"wireguard: {{roams: {value}}}", said) for value, said in [
        ("2", "roams: 2 is not known; write one of: 0, 1"),
        ("'1'", "roams: '1' is text; write 1 without quotes")]),
    ("ipsec: {ike: 2, ike_proposal: aes256-sha256-ecp256, esp_proposal: aes256gcm16, mobike: 2}",
     "mobike: 2 is not known; write one of: 0, 1"),
    *((f"dot1x: {{eap: TLS, tls: {{{field}}}}}", said) for field, said in [
        ("fragment_bytes: 9000", "fragment_bytes: 9000 is too large; write 100 to 1400"),
        ("fragment_bytes: 50", "fragment_bytes: 50 is too small; write 100 to 1400"),
        ('fragment_bytes: "500"', "'500' is text, where a number belongs; write 100 to 1400, with"),
        ("fragment_bytes: yes", "a boolean in YAML, where a number belongs; write 100 to 1400"),
        ("fragment_bytes: [1]", "a list stands where a number belongs; write 100 to 1400")]),
    ("stream: {scheme: tree, bundle: '3'}", "'3' is text, where a number belongs; write 1 to 1024"),
    ("stream: {scheme: tree, range: 50}", "50 stands where a list belongs; write a list, such as"),
    ("stream: {scheme: tree, range: [a, 5]}", "range.0: 'a' stands where a number belongs; write"),
    ("kerberos: {udp_limit_bytes: 0}", "udp_limit_bytes: 0 is too small; write 1 to 32700"),
    ("kerberos: {certificate_bits: yes}", "where a number belongs; write one of: 2048, 3072, 4096"),
    ("link: {cipher: CCMP, keys: psk, pmf: required}", "'required' is 2; write pmf: 2"),
    ("link: {cipher: AES, keys: psk}", "'AES' is CCMP; write cipher: CCMP"),
    ("link: {cipher: CCMP, keys: [psk, sae], pmf: 1}",
     "keys: sae, pmf: 1, offered: [SAE, WPA-PSK]}"),
    ("link: {cipher: CCMP, keys: psk sae, pmf: 1}", "keys: sae, pmf: 1, offered: [SAE, WPA-PSK]}"),
    ("link: {cipher: CCMP, keys: psk, akm: sha1 sha256}",
     "akm: sha256, offered: [WPA-PSK, WPA-PSK-SHA256]}"),
    ("link: {cipher: CCMP, keys: psk, pmf: 1, offered: [WPA-PSK, SAE, DPP]}",
     "layers.link.offered.2: 'DPP' is not known; write one of: FT-EAP"),
    ("link: open", "'open' stands where a block of keys belongs; leave link out, which switches"),
    ("macsec: GCM-AES-128", "write wire: {macsec: GCM-AES-128}")]


@pytest.mark.parametrize(("layer", "said"), SINGLE_VALUES)
def test_value_of_another_kind_is_told_what_belongs_there(layer: str, said: str,
                                                          tmp_path: Path) -> None:
    """The message names the words, the number or the range that belongs in the place."""
    assert said in message(tmp_path, HEAD + f"  {layer}\n")


def _number_fields(model: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for name in model.model_fields:
        declared = find_declaration(model, [name])
        if declared.model is not None:
            yield from _number_fields(declared.model, (*path, name))
        elif declared.is_number and model is not policies.DaemonOptions:
            yield (*path, name)


@pytest.mark.parametrize("path", [*_number_fields(policies.policy.PolicyFile)], ids=".".join)
def test_every_number_says_its_range(path: tuple[str, ...]) -> None:
    """Of each field that is a number, it is known which ones it can be."""
    assert re.fullmatch(r"write (one of: )?\d.*\d", find_declaration(
        policies.policy.PolicyFile, path).range_advice)


@pytest.mark.parametrize(("word", "known"), [
    ("rsa-3072", ["rsa-1024", "rsa-2048", "p-256"]), ("ecp521", ["ecp256", "ecp384"]),
    ("GCM-AES-256", ["GCM-AES-128"]), ("sha384", ["sha1", "sha256"]),
    ("wep", ["WEP-40", "WEP-104"]),
    ("modp8192", ["modp1024", "modp4096"]), ("1.4", ["1.2", "1.3"])])
def test_another_number_is_no_misspelling(word: str, known: list[str]) -> None:
    """Whoever writes a longer key is not sent to a shorter one: what is known is listed."""
    assert advise_choice(word, known) == f"write one of: {', '.join(known)}"


@pytest.mark.parametrize(("word", "meant"), [
    ("rsa2048", "rsa-2048"), ("GMCP-256", "GCMP-256"), ("dotlx", "dot1x"),
    ("mopd1024", "modp1024")])
def test_misspelling_of_a_numbered_word_is_recognised(word: str, meant: str) -> None:
    """The number is right, or none was written where one word alone has one."""
    assert suggest_word(word,
                        ["rsa-1024", "rsa-2048", "GCMP", "GCMP-256", "dot1x", "modp1024"]) == meant


# Daemon options


@pytest.mark.parametrize(("word", "value"), [
    ("yes", 1), ("on", 1), ("True", 1), ("off", 0), ("1.5", "1.5"), ("010", "010"), ("10", 10),
    ("2026-12-01", "2026-12-01"), ("10:30", "10:30")])
def test_unquoted_option_of_a_daemon(word: str, value: int | str, tmp_path: Path) -> None:
    """hostapd and wpa_supplicant have 0 and 1 for YAML's booleans, and read other text."""
    file = tmp_path / "x.yml"
    file.write_text(HEAD + "  link: {cipher: CCMP, keys: psk, options: {hostapd: "
                    f"{{wpa_group_rekey: {word}}}}}}}\n")
    assert load_policy(file).layers.link.options.hostapd == {"wpa_group_rekey": value}


UNTIL_TLS = "dot1x: {eap: TLS, "


@pytest.mark.parametrize(("layer", "field", "value"), [
    (UNTIL_TLS + "tls: {version: 1.2}}", "dot1x.tls.version", "1.2"),
    (UNTIL_TLS + "tls: {version: 1.3}}", "dot1x.tls.version", "1.3"),
    (UNTIL_TLS + "tls: {fragment_bytes: 0500.0}}", "dot1x.tls.fragment_bytes", 500),
    (UNTIL_TLS + "tls: {chain: 03}}", "dot1x.tls.chain", 3),
    ("link: {cipher: CCMP, keys: psk, pmf: 01}", "link.pmf", 1),
    ("link: {cipher: CCMP, keys: psk, pmf: off}", "link.pmf", 0),
    ("link: {cipher: CCMP, keys: psk, pmf: 2.0}", "link.pmf", 2),
    ("link: {cipher: CCMP, keys: psk, pmf: 1, ocv: yes}", "link.ocv", 1),
    ("link: {cipher: CCMP, keys: psk, neighbor_report: on}", "link.neighbor_report", 1),
    ("link: {cipher: CCMP, keys: sae, pmf: 2, group: 019}", "link.group", 19),
    ("link: {cipher: CCMP, keys: sae, pmf: 2, station_groups: [+19, 20.0]}",
     "link.station_groups", [19, 20]),
    ("wire: {macsec: GCM-AES-128, encrypts: false}", "wire.encrypts", 0),
    ("wireguard: {keepalive: 08, preshared_key: True}", "wireguard.keepalive", 8),
    ("wireguard: {keepalive: 2e1}", "wireguard.keepalive", 20),
    ("wireguard: on", "wireguard.preshared_key", None),
    ("link: off", "link", None), ("link: no", "link", None), ("link: false", "link", None)])
def test_unquoted_value_needs_no_correction(layer: str, field: str, value: Any,
                                            tmp_path: Path) -> None:
    """YAML's numbers and booleans are read as the types that the fields have."""
    file = tmp_path / "x.yml"
    file.write_text(f"id: X\nname: x\nlayers:\n  {layer}\n")
    found: Any = load_policy(file).layers
    for name in field.split("."):
        found = getattr(found, name)
    assert found == value and type(found) is type(value)


@pytest.mark.parametrize("word", ["12", "06", "010", "1.20", "0x10", "10:30", "2007-01-01", "on",
                                  "No", "1_000", "1e3"])
def test_unquoted_name_is_its_text(word: str, tmp_path: Path) -> None:
    """An id and a name are text, however YAML reads them."""
    file = tmp_path / "x.yml"
    name = word.replace(":", "-").replace(".", "-")
    file.write_text(f"id: {name}\nname: {word}\nlayers: {{}}\n")
    policy = load_policy(file)
    assert (policy.id, policy.name) == (name, word)


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("  link: {cipher: CCMP, keys: psk, pmf: yes}", "pmf: yes is a boolean .*; write 1"),
        ("  dot1x: {eap: on}", "eap: on is a boolean in YAML, .*; write one of: MD5, TLS"),
        ("  link: on", "link: on is a boolean in YAML, .*; write its keys below it"),
        ("  ipsec: {ike: false}", "ike: false is a boolean in YAML, .*; write one of: 1, 2"),
    ],
)
def test_booleans_elsewhere(lines: str, expected: str, tmp_path: Path) -> None:
    """No field of a policy is a boolean; each says what belongs there instead."""
    assert re.match(rf"x\.yml:4: layers\.(\w+\.)?{expected}", message(tmp_path, HEAD + lines))


REFUSED = [(daemon, name.replace("*", "x")) for daemon in DAEMONS
           for group in load_options().groups_of(daemon) if group.set_by or group.no_effect
           for name in group.names.split()]


@pytest.mark.parametrize(("daemon", "name"), REFUSED)
def test_option_that_no_policy_may_set_is_refused_with_the_reason(daemon: str, name: str) -> None:
    """What others decide, and what cannot take effect here, cannot be set."""
    with pytest.raises(ValidationError, match=rf"{daemon}'s option {name} (is not a policy's to set"
                       "|has no effect here: .+); "):
        policies.DaemonOptions.model_validate({daemon: {name: 1}})


def test_option_table_says_one_thing_of_each_option() -> None:
    """No name stands twice, each owner is known, and needs are fields that a policy has."""
    for daemon in DAEMONS:
        names = [name for group in load_options().groups_of(daemon) for name in group.names.split()]
        assert len(set(names)) == len(names)
        for group in load_options().groups_of(daemon):
            assert sum(map(bool, (group.set_by, group.no_effect, group.needs or group.check))) == 1
            assert not group.set_by or group.set_by in load_options().owners
            for field in (*group.needs, *filter(None, [group.excludes])):
                declared = find_declaration(policies.Layers, field.split("."))
                assert set(group.needs.get(field, ())) <= {"any", *map(str, declared.choices)}
                assert declared.choices or declared.is_number


EAP = {"link": link(keys="eap"), "dot1x": {"eap": "PEAP", "inner": "MSCHAPV2"}}
FAST = {"link": link(roaming="ft")}
NO_EFFECT: list[tuple[dict[str, Any], str, str, Any, str]] = [
    (EAP, "hostapd", "acct_server_addr", "10.1.0.1", "from layers.dot1x.accounting; write 1"),
    (EAP, "hostapd", "radius_acct_interim_interval", 60,
     "hostapd's option radius_acct_interim_interval has no effect without dot1x.accounting 1"),
    (EAP, "hostapd", "auth_server_type", "TLS", "it follows from layers.dot1x.transport; write ra"),
    (EAP, "hostapd", "dynamic_vlan", 2, "it follows from layers.link.vlan; write the number"),
    (EAP, "hostapd", "rrm_neighbor_report", 1, "layers.link.neighbor_report; write 1 there"),
    (EAP, "hostapd", "bss_transition", 1, "it follows from layers.link.bss_transition; write 1"),
    (EAP, "hostapd", "okc", 1, "it follows from layers.link.roaming; write roaming okc"),
    (EAP, "wpa_supplicant", "proactive_key_caching", 1, "layers.link.roaming; write roaming okc"),
    (EAP, "wpa_supplicant", "anonymous_identity", "x", "layers.dot1x.identity; write anonymous"),
    (FAST, "hostapd", "ft_over_ds", 1, "it follows from layers.link.ft_over_ds; write 1 there"),
    (FAST, "wpa_supplicant", "bgscan", "simple:2:-60:20", "no scan in the background decides"),
    ({"link": link(keys="sae", pmf=2, roaming="ft")}, "hostapd", "ft_psk_generate_local", 1,
     "has no effect without link.keys psk, and link.keys is sae; leave it out, or change that"),
    ({"link": link()}, "hostapd", "ft_psk_generate_local", 1,
     "has no effect without link.roaming ft, and there is no link.roaming"),
    ({"link": link()}, "hostapd", "sae_sync", 3, "without link.keys sae, and link.keys is psk"),
    ({"link": link()}, "hostapd", "eap_reauth_period", 9, "without dot1x, and there is no dot1x"),
    ({"link": link(keys="sae", pmf=2)}, "wpa_supplicant", "sae_groups", "20 19",
     "it follows from layers.link.group"),
    (EAP, "hostapd", "radius_require_message_authenticator", 1,
     "write dot1x.message_authenticator required, which the server then insists on"),
    ({"link": link(keys="sae", pmf=2, sae="h2e")}, "hostapd", "sae_pwe", 2,
     "hostapd's option sae_pwe and link.sae say the same; leave out one of them"),
    ({"link": link(keys="owe", pmf=2, owe_transition=1)}, "hostapd", "ignore_broadcast_ssid", 1,
     "hostapd's option ignore_broadcast_ssid and link.owe_transition say the same; leave out"),
    ({"link": link()}, "hostapd", "wmm_enabled", 1, "choose a medium with another physical layer"),
    ({"link": link(keys="owe", pmf=2)}, "hostapd", "owe_transition_ssid", "x",
     "it follows from layers.link.owe_transition; write 1 there"),
    (EAP, "wpa_supplicant", "phase1", "tls_disable_tlsv1_2=1",
     "phase1 switches TLS 1.2 off, and the server speaks TLS 1.2 with EAP-PEAP; leave tls_disa"),
    (EAP, "wpa_supplicant", "phase1", "tls_disable_tlsv1_3=0",
     "phase1 switches TLS 1.3 on without effect: the server speaks TLS 1.2 with EAP-PEAP alone"),
    ({"link": link(keys="eap"), "dot1x": {"eap": "TLS", "tls": {"version": "1.3"}}},
     "wpa_supplicant", "phase1", "tls_disable_session_ticket=1", "add tls_disable_tlsv1_3=0 to it"),
]


@pytest.mark.parametrize(("layers", "daemon", "name", "value", "said"), NO_EFFECT)
def test_option_without_effect_is_refused_with_the_reason(
        layers: dict[str, Any], daemon: str, name: str, value: Any, said: str,
        tmp_path: Path) -> None:
    """What the testbed or the rest of the policy leaves without effect passes for nothing."""
    layers = deepcopy(layers)
    layers["link"]["options"] = {daemon: {name: value}}
    assert said in layers_message(tmp_path, **layers)


@pytest.mark.parametrize(("layers", "daemon", "name", "value"), [
    (FAST, "hostapd", "ft_psk_generate_local", 1), (FAST, "hostapd", "mobility_domain", "4f57"),
    ({"link": link(keys="sae", pmf=2)}, "hostapd", "sae_pwe", 2),
    (EAP, "wpa_supplicant", "phase1", "peaplabel=0 tls_disable_tlsv1_3=1"),
    (EAP, "wpa_supplicant", "domain_match", "ha-a"),
    ({"link": link()}, "hostapd", "ignore_broadcast_ssid", 1),
    ({"link": link()}, "hostapd", "an_option_of_tomorrow", 1)])
def test_option_with_effect_is_accepted(layers: dict[str, Any], daemon: str, name: str,
                                         value: Any) -> None:
    """What can take effect is passed on, known or not."""
    layers = deepcopy(layers)
    layers["link"]["options"] = {daemon: {name: value}}
    policies.Layers.model_validate(layers)


@pytest.mark.parametrize(("daemon", "name", "value"), [
    ("hostapd", "acct_server_shared_secret", "hunter2"), ("hostapd", "r0kh", "hunter2"),
    ("hostapd", "radius_das_client", "10.1.0.1 hunter2"), ("hostapd", "wps_secret", "hunter2"),
    ("hostapd", "acct_server_shared_secret", "hunter2\n"), ("wpa_supplicant", "psk", ["hunter2"]),
    ("hostapd", "auth_server_shared_secret", True),
    ("wpa_supplicant", "machine_password", "{{hunter2"),
    ("wpa_supplicant", "phase1", "password=hunter2"), ("wpa_supplicant", "sim_pin", "hunter2")])
def test_secret_is_refused_and_not_printed(daemon: str, name: str, value: Any,
                                           tmp_path: Path) -> None:
    """No option holds a secret, so that none can stand in a report; nor does the message."""
    layers = deepcopy(EAP)
    layers["dot1x"]["options"] = {daemon: {name: value}}
    found = layers_message(tmp_path, **layers)
    assert "secret" in found
    assert "hunter2" not in found
    assert is_secret(daemon, name, value)


@pytest.mark.parametrize(
    ("option", "expected"),
    [
        ({"ssid": "x"}, "hostapd's option ssid is not a policy's to set; it comes from the topol"),
        ({"a b": 1}, "'a b' cannot be an option of hostapd; write the option's own name"),
        ({"okc\nssid": 1}, r"'okc\\nssid' cannot be an option of hostapd; write the option's own"),
        ({"dtim": "1\nssid=evil"}, "contains a line break or another control character; keep"),
        ({"dtim": "{{ lookup('env', 'HOME') }}"}, "contains {{; leave out {{, a template mark"),
        ({"dtim": [1]}, "the value is a list; write a number or text"),
        ({"dtim": None}, r"the value is empty \(null\); write a number or text"),
    ],
)
def test_impossible_options(option: dict[str, Any], expected: str, tmp_path: Path) -> None:
    """Options cannot break out of their line, be run as templates, or be anything but scalars."""
    found = layers_message(tmp_path, link=link(options={"hostapd": option}))
    assert re.match(rf"x\.yml:(9|10): .*{expected}", found)


# IPsec proposals


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"ike_proposal": "3des-sha-modp1024"}, "6: .*write ike_proposal: 3des-sha1-modp1024"),
        ({"ike_proposal": "3DES-sha1-modp1024"}, "6: .*no encryption known .*did you mean '3des'"),
        ({"ike_proposal": "aes-sha1-modp1024"}, "6: .*write ike_proposal: aes128-sha1-modp1024"),
        ({"ike_proposal": "aes128-sha1-mopd1024"}, "6: .*no Diffie-Hellman .*mean 'modp1024'"),
        ({"ike_proposal": "aes128-sha1"}, "6: .* has 2 parts where .*; write it like aes256-sha"),
        ({"ike_proposal": "aes128-sha1-ecp256-x"}, "6: .*'x' is no additional key exchange known"),
        ({"ike_proposal": "aes128gcm16-sha256-ecp256"}, "6: .*write .*: aes128gcm16-prfsha256-e"),
        ({"ike_proposal": "aes128-prfsha256-ecp256"}, "6: .*no integrity known"),
        ({"ike": 1, "ike_proposal": "aes128gcm16-prfsha1-ecp256"}, "6: .*IKEv2 only, .* or ike: 2"),
        ({"esp_proposal": "3des"}, "7: .*has 1 part where .*; write it like aes128-sha256"),
        ({"esp_proposal": "aes128gcm16-sha256"}, "7: .*write esp_proposal: aes128gcm16"),
        ({"esp_proposal": "aes128-sha256-x25519"}, "7: .*write esp_.*: aes128-sha256-curve25519"),
        ({"esp_proposal": "aes128-sha256,3des-sha1"}, "7: .*esp_offered and esp_accepted; wr"),
        ({"esp_proposal": "3des-sha1!"}, "7: .*; write esp_proposal: 3des-sha1"),
        ({"esp_proposal": ""}, "7: .*not one proposal"),
        ({"esp_proposal": 3}, "7: .*'3' is no encryption known here"),
        ({"mode": "tunel"}, "8: .*did you mean 'tunnel'"),
    ],
)
def test_misspelt_proposals(changes: dict[str, Any], expected: str, tmp_path: Path) -> None:
    """A proposal is checked token by token; the message names the token and the nearest keyword."""
    assert re.match(f"x.yml:{expected}", layers_message(tmp_path, ipsec=ipsec(**changes)))


@pytest.mark.parametrize(
    "changes",
    [
        {"ike": 1, "ike_proposal": "3des-md5-modp1024", "esp_proposal": "3des-md5"},
        {"ike_proposal": "aes256gcm16-prfsha384-ecp384", "esp_proposal": "aes256gcm16-ecp384"},
        {"ike_proposal": "chacha20poly1305-prfsha256-curve25519", "esp_proposal": "aes192-sha512"},
        {"ike": 1, "esp_proposal": "aes128gcm16"},
        {"esp_proposal": "aes128-sha256-modp4096"},
    ],
)
def test_good_proposals(changes: dict[str, Any]) -> None:
    """Classic, AEAD and forward-secret suites are accepted, for the IKE version that has them."""
    policies.IpsecLayer.model_validate(ipsec(**changes))


# extends


def test_extends_replaces_keeps_and_removes_layers(tmp_path: Path) -> None:
    """A layer given replaces the base's as a whole, null removes it, others are inherited."""
    base = os.path.relpath(PROJECT / "policies" / "P10.yml", tmp_path)
    file = tmp_path / "x.yml"
    file.write_text(f"extends: {base}\nid: X\nname: x\nlayers:\n  ipsec: null\n")
    assert load_policy(file).digest() == TWELVE[7].digest()
    file.write_text(
        f"extends: {base}\nid: X\nname: x\nlayers:\n  link: {{cipher: CCMP, keys: eap}}"
    )
    layers = load_policy(file).layers
    assert layers.link and layers.link.cipher == "CCMP"
    assert (layers.dot1x, layers.ipsec) == (TWELVE[9].layers.dot1x, TWELVE[9].layers.ipsec)
    file.write_text(f"extends: {base}\nid: X\nname: x\n")
    assert (load_policy(file).id, load_policy(file).layers) == ("X", TWELVE[9].layers)


def test_extends_checks_the_result(tmp_path: Path) -> None:
    """A combination that only the merge makes impossible is blamed on a line of this file."""
    base = os.path.relpath(PROJECT / "policies" / "P8.yml", tmp_path)
    text = f"id: X\nname: x\nextends: {base}\nlayers:\n  dot1x: null\n"
    assert message(tmp_path, text).startswith("x.yml:5: link.keys: eap has no EAP to take keys")


def test_extends_of_a_broken_base_names_the_base(tmp_path: Path) -> None:
    """An error in the base is reported where it stands."""
    (tmp_path / "base.yml").write_text(HEAD + "  lnik: {}\n")
    found = message(tmp_path, "extends: base.yml\nid: X\nname: x\n")
    assert found.startswith("base.yml:4: unknown key 'lnik' in layers; did you mean 'link'?")


@pytest.mark.parametrize("target", ["nope.yml", "", "/dev/null", "n\\0o", "x" * 300, "x.yml/y"])
def test_extends_of_a_missing_file(target: str, tmp_path: Path) -> None:
    """A base that is not there, or is no file, is blamed on the line of extends."""
    found = message(tmp_path, f'id: X\nname: x\n\nextends: "{target}"\n')
    assert found.startswith("x.yml:4: extends ")
    assert "it starts at this file's folder" in found


def test_extends_in_a_circle(tmp_path: Path) -> None:
    """Files that extend each other are refused, as is one that extends itself."""
    assert message(tmp_path, "extends: x.yml\n").startswith("x.yml:1: extends leads back")
    (tmp_path / "y.yml").write_text("id: Y\nextends: x.yml\n")
    assert message(tmp_path, "extends: y.yml\n").startswith("y.yml:2: extends leads back")


def test_extends_has_a_depth_limit(tmp_path: Path) -> None:
    """Eight bases on top of one another load, nine are refused."""
    (tmp_path / "0.yml").write_text("id: X\nname: x\nlayers: {}\n")
    for number in range(1, EXTENDS_LIMIT + 2):
        text = f"id: X\nname: x\nextends: {number - 1}.yml\n"
        (tmp_path / f"{number}.yml").write_text(text)
    assert load_policy(tmp_path / f"{EXTENDS_LIMIT}.yml").id == "X"
    with pytest.raises(PolicyError, match=r"1\.yml:3: extends goes deeper than 8 files; copy"):
        load_policy(tmp_path / f"{EXTENDS_LIMIT + 1}.yml")


# Files that are no policies

NO_POLICY: dict[str, tuple[str | bytes, str]] = {
    "empty": ("", "1: the file is empty; write id:, name: and layers: lines"),
    "only comments": ("# nothing\n", "1: the file is empty"),
    "a list": ("\n- P1\n- P2\n", "2: the file holds a list; write id:.*, one policy a file"),
    "text": ("hello", "1: the file holds plain text; write id:, name:"),
    "without layers": ("id: X\nname: x\n", "1: the policy has no layers; add layers:"),
    "empty layers": (HEAD, "3: layers: empty .null. stands .*, or {} for none"),
    "unknown key": ("id: X\nname: x\nlayers: {}\nlayer: {}\n", "4: unknown key 'layer'; did you m"),
    "duplicate key": ("id: X\nname: x\nid: Y\n", "3: 'id' was given on line 1; keep one of them"),
    "duplicate layer": (HEAD + "  link: null\n  link: null\n", "5: 'link' was given on line 4"),
    "anchor": ("id: X\nname: &n x\n", "2: anchors and aliases .* are not used; write it out"),
    "alias bomb": ("a: &a [1]\nb: &b [*a,*a]\nc: [*b,*b]\n", "1: anchors and aliases"),
    "alias": ("id: *x\n", "1: anchors and aliases"),
    "merge key": ("id: X\n<<: {name: x}\n", "2: unknown key '<<'"),
    "tag": ("id: X\nname: !!python/object/apply:os.system [x]\n", "2: the tag .* is not used"),
    "local tag": ("id: !x y\n", "1: the tag '!x' is not used; leave it out"),
    "two documents": ("id: X\n---\nid: Y\n", "2: a second document begins here; write one"),
    "bad syntax": ("id: X\nname: [x\n", "3: this is not valid YAML .*; check indentation"),
    "tab": ("id: X\nlayers:\n\tlink: null\n", "3: this is not valid YAML .*; check indentation"),
    "deep flow": ("a: " + "[" * 60_000, f"1: nested deeper than {DEPTH_LIMIT} levels; see"),
    "deep blocks": ("\n".join(" " * n + "a:" for n in range(300)), "8: nested deeper than"),
    "deep lists": ("- " * 30_000, "1: nested deeper than"),
    "not UTF-8": (b"id: X\nname: \xe9\n", "2: this is not UTF-8 text; save the file as UTF-8"),
    "UTF-16": ("id: X\n".encode("utf-16"), "1: this is a binary file .NUL byte.; name a policy"),
    "binary": (b"\x7fELF\n\x00", "2: this is a binary file"),
    "control character": ("id: X\nname: \x07\n", "2: character 0x7 cannot stand in YAML; remove"),
    "impossible escape": ('id: "\\UFFFFFFFF"', "1: this is not valid YAML; check the escapes"),
    "half a character": ('id: "\\uD800"', "1: .* holds half a character; write the whole"),
    "block as key": ("{a: b}: c\n", "1: a block or list stands where a key belongs; write a word"),
    "decimal number": (
        HEAD + "  wireguard: {mtu: 1400.5}\n",
        "4: layers.wireguard.mtu: '1400.5' stands where a number belongs; write 576 to 1440$"),
    "hexadecimal number": (
        HEAD + "  wireguard: {keepalive: 0x19}\n",
        ("4: layers.wireguard.keepalive: YAML reads 0x19 as a hexadecimal number, which is 25; "
         r"write the decimal number \(write 1 to 65535\)$")),
    "octal number": (
        HEAD + "  wireguard: {keepalive: 010}\n",
        "4: layers.wireguard.keepalive: YAML reads 010 as an octal number, which is 8; write the"),
    "decimal word": (
        HEAD + "  dot1x: {eap: TLS, tls: {version: 1.4}}\n",
        "4: layers.dot1x.tls.version: '1.4' is not known; write one of: 1.2, 1.3$"),
    "list as id": ("id: [12]\nname: x\nlayers: {}\n", "1: id: a list stands where text belongs;"),
    "id with a slash": ("id: ../x\nname: x\nlayers: {}\n", "1: id: '../x' cannot name files and"),
    "id with newline": ('id: "X\\n"\nname: x\nlayers: {}\n', "1: id: .* cannot name files and"),
    "template": ("id: X\nname: '{{ x }}'\nlayers: {}\n", "2: name: .* contains {{; leave out {{"),
    "long name": (f"id: X\nname: {'x' * 101}\nlayers: {{}}\n", "2: name: has 101 characters; wri"),
    "several": ("id: []\nname: {}\nlayers: 3\n", r"1: id: .* line of text \(and 2 more\)$"),
    "65 KiB": (b"#" * (SIZE_LIMIT + 1), "1: 65537 bytes are too many; a policy has at most 65536"),
}


@pytest.mark.parametrize("case", NO_POLICY)
def test_what_is_no_policy(case: str, tmp_path: Path) -> None:
    """Whatever the file holds, the answer is one line with file, line, fault and advice."""
    content, expected = NO_POLICY[case]
    assert re.match(f"x.yml:{expected}", message(tmp_path, content))


def test_a_file_larger_than_memory_gets_one_line(tmp_path: Path) -> None:
    """The size is judged before the file is read, let alone parsed."""
    with (tmp_path / "x.yml").open("wb") as file:
        file.truncate(1 << 42)
    with pytest.raises(PolicyError) as caught:
        load_policy(tmp_path / "x.yml")
    assert str(caught.value).endswith(
        f"x.yml:1: {1 << 42} bytes are too many; a policy has at most 65536 bytes")


def test_paths_that_are_no_files(tmp_path: Path) -> None:
    """A missing file, a folder, a device, a pipe and an impossible name each get their line."""
    os.mkfifo(tmp_path / "pipe")
    for path, expected in {
        tmp_path / "nope.yml": "there is no such file; check the path",
        tmp_path: "is a folder; name a policy file in it",
        Path("/dev/zero"): "is not an ordinary file; save the policy in a file",
        tmp_path / "pipe": "is not an ordinary file",
        tmp_path / ("x" * 300): "cannot be opened (file name too long); check the path",
        Path("a\0b"): "cannot be opened (",  # the reason is Python's
        Path("a\nb"): "there is no such file",
    }.items():
        with pytest.raises(PolicyError) as caught:
            load_policy(path)
        shown = re.sub(r"[\0\n]", "?", str(path))
        assert str(caught.value).startswith(f"{shown}:1: {expected}")


# Fuzzing

FUZZ = settings(
    max_examples=75,
    deadline=None,
)


def loads_or_explains(folder: Path, content: bytes) -> None:
    """Loads, or raises a PolicyError of one line that begins with the file's name."""
    file = folder / "fuzz.yml"
    file.write_bytes(content)
    try:
        policy = load_policy(file)
    except PolicyError as error:
        assert re.fullmatch(rf"{re.escape(str(file))}:\d+: .+; .+", str(error))
        assert str(error).isprintable() and len(str(error)) < len(str(file)) + 600
    else:
        json.dumps(policy.model_dump(mode="json")).encode()


@FUZZ
@given(content=st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_fuzz_any_content(content: bytes, tmp_path: Path) -> None:
    """Arbitrary bytes and text never raise anything but a PolicyError of one line."""
    loads_or_explains(tmp_path, content)


@FUZZ
@given(content=st.text(alphabet="ab1:-?[]{}&*!|>'\"%@`#,\\uUx0 \n\t~<=.", max_size=80))
def test_fuzz_yaml_syntax(content: str, tmp_path: Path) -> None:
    """Nor does text made of the characters that mean something to YAML."""
    loads_or_explains(tmp_path, content.encode())


SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=20),
    st.sampled_from(["CCMP", "WEP-104", "eap", "static", "TLS", "3des-sha1", "{{", "\ud800"]),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=5,
)
KEYS = st.sampled_from(["id", "extends", "layers", "link", "cipher", "pmf", "options", "hostapd"])


def blocks(value: Any) -> list[dict[Any, Any]]:
    """All mappings in ``value``, itself included."""
    if not isinstance(value, dict):
        return []
    return [value, *(block for item in value.values() for block in blocks(item))]


@FUZZ
@given(data=st.data())
def test_fuzz_mutated_policies(data: st.DataObject, tmp_path: Path) -> None:
    """Nor do policies in which any keys were removed, added or given any other values."""
    policy = data.draw(st.sampled_from(TWELVE))
    document = deepcopy(policy.model_dump())
    for _ in range(data.draw(st.integers(1, 4))):
        block = data.draw(st.sampled_from(blocks(document)))
        key = data.draw(st.sampled_from(sorted(block, key=str)) if block else KEYS)
        if data.draw(st.booleans()):
            block.pop(key, None)
        block[data.draw(st.just(key) | KEYS | st.text(max_size=8))] = data.draw(VALUES)
    text = yaml.safe_dump(document, allow_unicode=data.draw(st.booleans()))
    loads_or_explains(tmp_path, text.encode("utf-8", "surrogatepass"))


@FUZZ
@given(data=st.data())
def test_fuzz_damaged_files(data: st.DataObject, tmp_path: Path) -> None:
    """Nor do shipped files with bytes cut out or put in anywhere."""
    name = data.draw(st.sampled_from(list(PAPER_NAMES)))
    content = (PROJECT / "policies" / f"{name}.yml").read_bytes()
    start = data.draw(st.integers(0, len(content)))
    end = data.draw(st.integers(start, min(start + 40, len(content))))
    loads_or_explains(tmp_path, content[:start] + data.draw(st.binary(max_size=8)) + content[end:])
