"""Policies made of other programs' configuration files: what is taken over, and what is said."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import policies
from conftest import PROJECT
from in_process import QopHere
from policies import Policy, PolicyError, load_named, load_policy, policy_ids
from policies.conversion import kinds
from policies.conversion.convert import convert_file, convert_source
from policies.conversion.result import Conversion
from policies.conversion.source import Source, decode_text
from templates_by_hand import render_files

SAMPLES = Path(__file__).parent / "samples"
#: What every passphrase, key and secret of the samples has.
SECRET = re.compile(r"hunt(er)?2|0123456789abcdef|00112233445566|486f6d65|010203")
SCENARIO = "comes from the scenario"
CREDENTIAL = "a secret or credential: qop makes its own"
NOT_MEASURED = "not measured here"


class Sample(NamedTuple):
    """What comes of a file: layers without defaults, and some of what is said."""

    layers: dict[str, Any]
    said: tuple[str, ...] = ()
    network: str | None = None
    id: str = ""


WPA2_EAP = {"cipher": "CCMP", "keys": "eap"}
WPA2_PSK = {"cipher": "CCMP", "keys": "psk"}
#: Key managements that a station of NetworkManager or iwd takes with a passphrase.
ALL_PSK = {"accepted": ["SAE", "WPA-PSK-SHA256", "WPA-PSK"]}
#: The 192-bit suite with EAP-TLS.
SUITE_192 = {"link": {"cipher": "GCMP-256", "keys": "eap", "pmf": 2, "akm": "suite-b-192",
                      "group_mgmt": "BIP-GMAC-256"},
             "dot1x": {"eap": "TLS", "tls": {"key": "p-384"}}}
WPA3 = {"cipher": "CCMP", "keys": "sae", "pmf": 2}
PEAP = {"eap": "PEAP", "inner": "MSCHAPV2"}
ANONYMOUS = {"identity": "anonymous"}
WG_QUICK = {"roams": 1, "mtu": 1420, "keepalive": 25, "preshared_key": 1}
EXPECTED: Mapping[str, Sample] = {
    "hostapd-office.conf": Sample(
        {"link": {**WPA2_EAP, "pmf": 1, "roaming": "ft-pull", "ft_over_ds": 1,
                  "offered": ["WPA-EAP", "FT-EAP"],
                  "options": {"hostapd": {"wpa_group_rekey": 3600}}},
         "dot1x": {**PEAP, "accounting": 1}},
        (":2: interface: comes from the scenario", f":31: auth_server_addr: {SCENARIO}",
         f":33: auth_server_shared_secret: {CREDENTIAL}", f":39: r0kh: {CREDENTIAL}",
         ":38: ft_over_ds: hostapd leaves it to each station",
         ":41: dynamic_vlan: left out: a VLAN needs", ":44: rsn_preauth: not measured",
         ":9: channel: ", "layers.dot1x.eap: PEAP is assumed: hostapd.conf does not say the EAP"),
        id="Buro-1"),
    "hostapd-transition.conf": Sample(
        {"link": {"cipher": "CCMP", "keys": "sae", "pmf": 1, "group": 19, "beacon_protection": 1,
                  "access_point_groups": [19, 20, 21],
                  "offered": ["WPA-PSK", "WPA-PSK-SHA256", "SAE"],
                  "neighbor_report": 1, "bss_transition": 1,
                  "options": {"hostapd": {"sae_pwe": 2, "sae_require_mfp": 1}}}},
        (f":8: wpa_psk: {CREDENTIAL}",
         ":7: rsn_pairwise: GCMP: a policy has one cipher", f":9: sae_password: {CREDENTIAL}",
         ":16: unknown_of_tomorrow: not measured here",
         ":19: rrm_beacon_report: not measured here"), id="Home-5-GHz"),
    "hostapd-192-bit.conf": Sample(
        {"link": {"cipher": "GCMP-256", "keys": "eap", "pmf": 2, "akm": "suite-b-192",
                  "group_mgmt": "BIP-GMAC-256"}, "dot1x": {"eap": "TLS", "tls": {"key": "p-384"}}},
        ("FT-EAP-SHA384: not together with WPA-EAP-SUITE-B-192 here",
         "layers.dot1x.eap: TLS is assumed")),
    "hostapd-old.conf": Sample(
        {"link": {**WPA2_PSK, "group_cipher": "TKIP",
                  "options": {"hostapd": {"ignore_broadcast_ssid": 1}}}},
        ("WPA beside WPA2: a policy has one", ":7: wps_state: WPS is not measured here",
         f":9: ap_pin: {CREDENTIAL}")),
    "hostapd-wep.conf": Sample({"link": {"cipher": "WEP-40", "keys": "static"}},
                               (f":5: wep_key0: {CREDENTIAL}", ":3: auth_algs: open system")),
    "hostapd-two-bss.conf": Sample(
        {"link": {**WPA3, "sae": "h2e", "roaming": "ft", "offered": ["SAE", "FT-SAE"]}},
        (":11: network: 'wlan0_0' is another one: --network chooses it",),
        network="corp"),
    "wpa-eduroam.conf": Sample(
        {"link": WPA2_EAP, "dot1x": {"eap": "TTLS", "inner": "PAP", **ANONYMOUS,
                                     "tls": {"realm": "uni.example",
                                             "server_domain": "radius.uni.example"}}},
        (f":14: identity: {CREDENTIAL}", f":17: ca_cert: {CREDENTIAL}",
         "PEAP: a policy has one EAP",
         ":4: fast_reauth: no name of a server is checked where a session is resumed",
         ":8: scan_ssid: add link.options.hostapd.ignore_broadcast_ssid: 1")),
    "wpa-home.conf": Sample(
        {"link": WPA2_PSK}, ("layers.link.keys: psk is assumed", f":2: ssid: {SCENARIO}"),
            id="Home"),
    "wpa-three.conf": Sample(
        {"link": {**WPA3, "sae": "h2e", "group": 20, "station_groups": [20, 19],
                  "beacon_protection": 1, "ocv": 1}},
        (":11: network: 'two \"2\"' is another one",),
        network="one"),
    "wpa-tls13.conf": Sample(
        {"link": {**WPA2_EAP, "pmf": 2, "akm": "sha256", "roaming": "okc",
                  "accepted": ["WPA-EAP-SHA256", "WPA-EAP"],
                  "options": {"wpa_supplicant": {"fragment_size": 1200}}},
         "dot1x": {"eap": "TLS", "tls": {"version": "1.3"}}},
        (":18: ocsp: the testbed's RADIUS server gives no OCSP",)),
    "wpa-teap.conf": Sample(
        {"link": WPA2_EAP, "dot1x": {**PEAP, "inner": "GTC"}},
        (":4: eap: EAP-TEAP is not measured here: EAP-PEAP stands in for it",
         ":1: ca_cert: wpa_supplicant.conf has none, so that its station believes any server",
         f":9: blob: {CREDENTIAL}", ":13: cred realm: Interworking is not measured here")),
    "wpa-wep.conf": Sample({"link": {"cipher": "WEP-40", "keys": "static"},
                            "dot1x": {"eap": "MD5"}},
                           (f":8: wep_key0: {CREDENTIAL}",)),
    "wpa-macsec.conf": Sample({"wire": {"macsec": "GCM-AES-128", "encrypts": 0,
                                        "replay_window": 32}},
                              (f":10: mka_cak: {CREDENTIAL}",
                               "layers.link: left out, the air is open")),
    "openwrt-wireless": Sample(
        {"link": {"cipher": "CCMP", "keys": "sae", "pmf": 1, "roaming": "ft-pull",
                  "offered": ["WPA-PSK", "SAE", "FT-PSK", "FT-SAE", "WPA-PSK-SHA256"],
                  "options": {"hostapd": {"wpa_disable_eapol_key_retries": 1}}}},
        (f":22: key: {CREDENTIAL}",
         ":5: wifi-device channel: the radio comes from the scenario",
         f":47: wifi-station key: {CREDENTIAL}", ":26: ft_psk_generate_local: left out"),
        network="default_radio0", id="Home"),
    "openwrt-enterprise": Sample(
        {"link": {"cipher": "GCMP-256", "keys": "eap", "pmf": 2, "akm": "sha256", "roaming": "okc",
                  "offered": ["WPA-EAP", "WPA-EAP-SHA256"],
                  "neighbor_report": 1, "bss_transition": 1,
                  "options": {"hostapd": {"wpa_group_rekey": 600}}},
         "dot1x": {**PEAP, "accounting": 1}},
        (f":7: auth_secret: {CREDENTIAL}", f":11: dae_secret: {CREDENTIAL}",
         ":18: dynamic_vlan: left out: a VLAN needs", f":19: r0kh: {CREDENTIAL}")),
    "openwrt-station": Sample(
        {"link": {**WPA2_EAP, "pmf": 1, "akm": "sha256",
                  "accepted": ["WPA-EAP", "WPA-EAP-SHA256"]},
         "dot1x": {"eap": "TTLS", "inner": "MSCHAPV2", **ANONYMOUS}},
        (f":11: password: {CREDENTIAL}", f":4: network: {SCENARIO}")),
    "openwrt-shown": Sample(
        {"link": {**WPA2_PSK, "group_cipher": "TKIP"}},
        ("TKIP: a policy has one cipher", f":9: key: {CREDENTIAL}")),
    "office.nmconnection": Sample(
        {"link": {**WPA2_EAP, "pmf": 2, "accepted": ["WPA-EAP-SHA256", "WPA-EAP"],
                  "options": {"hostapd": {"ignore_broadcast_ssid": 1}}}, "dot1x": {
            **PEAP, **ANONYMOUS, "tls": {"server_name": "radius.example.org"}}},
        (f":29: [802-1x] password: {CREDENTIAL}", f":36: [ipv4] address1: {SCENARIO}",
         "domain-suffix-match: a policy has one name of the server, from altsubject-matches"),
        id="Office-WLAN"),
    "sae.nmconnection": Sample({"link": WPA3}, ("layers.link.pmf: 2 is assumed",)),
    "tls.nmconnection": Sample(
        {"link": {"cipher": "GCMP-256", "keys": "eap", "pmf": 2, "akm": "suite-b-192",
                  "group_mgmt": "BIP-GMAC-256"},
         "dot1x": {"eap": "TLS", "tls": {"key": "p-384"}}},
        ("layers.link.cipher: GCMP-256 is assumed", "the 192-bit suite has TLS 1.2 here")),
    "open.nmconnection": Sample({}, ("layers.link: left out, the air is open",)),
    "tunnel.nmconnection": Sample(
        {"wireguard": WG_QUICK},
        (f":7: [wireguard] private-key: {CREDENTIAL}",)),
    "wired.nmconnection": Sample({"wire": {"macsec": "GCM-AES-128", "encrypts": 0}},
                                 (f":6: [macsec] mka-cak: {CREDENTIAL}",)),
    "Home.psk": Sample({"link": WPA3}, ("layers.link.keys: sae is assumed",)),
    "Work.psk": Sample({"link": {**WPA2_PSK, "pmf": 1, **ALL_PSK}},
                       ("iwd takes SAE (WPA3) where the access",)),
    "eduroam.8021x": Sample({"link": {**WPA2_EAP, "pmf": 1, "options": {
        "hostapd": {"ignore_broadcast_ssid": 1}}},
                             "dot1x": {**PEAP, **ANONYMOUS, "tls": {
                                 "realm": "uni.example", "server_name": "radius.uni.example"}}},
                            (f":10: [@pem@...]: {CREDENTIAL}",)),
    "corp.8021x": Sample({"link": {**WPA2_EAP, "pmf": 1},
                          "dot1x": {"eap": "TTLS", "inner": "CHAP"}}),
    "Cafe.open": Sample({}, ("layers.link: left out, the air is open",)),
    "=4c6f62627920f09f9880.open": Sample({}, id="Lobby"),
    "swanctl-roadwarrior.conf": Sample(
        {"ipsec": {"ike": 2, "ike_proposal": "aes256-sha512-ecp521",
                   **{f"ike_{end}": ["aes256-sha512-ecp521", "aes256gcm16-prfsha384-ecp384",
                                     "aes256-sha256-modp2048"] for end in ("offered", "accepted")},
                   **{f"esp_{end}": ["aes256gcm16-curve25519", "aes256-sha256"]
                      for end in ("offered", "accepted")},
                   "esp_proposal": "aes256gcm16-curve25519", "mobike": 1,
                   "authentication": "eap-mschapv2"}},
        (f":39: secrets.eap-jane.secret: {CREDENTIAL}", ":42: include: the other file: convert it",
         ":33: base.ike.rekey_time: not measured here", "remote_ts: a policy has one child"),
        id="home"),
    "swanctl-psk.conf": Sample(
        {"ipsec": {"ike": 1, "ike_proposal": "aes128-sha1-modp1024", "esp_proposal": "aes128-sha1",
                   "mode": "transport"}},
        ("IKE's psk is not measured here: pubkey stands in for it",
         ":17: connections.bypass.children.lan.local_ts: packets",
         f":20: secrets.ike-1.secret: {CREDENTIAL}", ":7: connections.site-b.encap: not measured")),
    "swanctl-default.conf": Sample(
        {"ipsec": {"ike": 2, "ike_proposal": "aes128-sha256-curve25519",
                   "esp_proposal": "aes128gcm16", "mobike": 1}},
        ("mobike: 1 is assumed: strongSwan's default",), network="gw"),
    "wg0.conf": Sample(
        {"wireguard": WG_QUICK},
        (f":3: [Interface] PrivateKey: {CREDENTIAL}",
         f":13: [Peer] Endpoint: {SCENARIO}", ":7: [Interface] PostUp: not measured here",
         f":17: [Peer] AllowedIPs: {SCENARIO}",
         "layers.link: left out, the air is open: the file says nothing of Wi-Fi")),
}


def plain(policy: Policy) -> dict[str, Any]:
    """Layers without defaults, and without what follows from the method."""
    layers = policy.layers.model_dump(exclude_defaults=True, exclude_none=True)
    if "dot1x" in layers and policy.layers.dot1x.first_offer == policy.layers.dot1x.eap:
        layers["dot1x"].pop("first_offer", None)
    return layers


def convert_text(name: str, text: str | bytes, **choices: Any) -> Conversion:
    raw = text if isinstance(text, bytes) else text.encode()
    return convert_source(Source(name, decode_text(raw, Source(name, ""))), **choices)


def refusal(name: str, text: str | bytes, **choices: Any) -> str:
    """The error that a file gives, checked to be one line without a secret."""
    with pytest.raises(PolicyError) as refused:
        convert_text(name, text, **choices)
    said = str(refused.value)
    assert said.isprintable() and re.match(rf"{re.escape(name)}:\d+: .+; .+", said)
    assert not SECRET.search(said)
    return said


def setting_lines(text: str) -> set[int]:
    """Lines that say something: neither comments, nor the frame of a section."""
    found, is_pem = set(), False
    for number, line in enumerate(text.splitlines(), 1):
        words = line.strip()
        is_pem = words.startswith("[@pem@") or (is_pem and not words.startswith("["))
        if is_pem or not words or words[0] in "#;[}" or not re.search(r"=|option|list", words) or \
                re.fullmatch(r"(network|blob.*|cred)=\{|hunter2AAAA==|wireless\.\w+=[\w-]+", words):
            continue
        found.add(number)
    return found


def test_every_sample_has_its_expectation() -> None:
    """And several of each kind."""
    assert {path.name for path in SAMPLES.iterdir()} == {*EXPECTED}
    of_kind = [kinds.find_kind(path.read_text(), path.name) for path in SAMPLES.iterdir()]
    assert {kind: of_kind.count(kind) >= (1 if kind == "wireguard" else 3)
            for kind in kinds.KINDS} == dict.fromkeys(kinds.KINDS, True)


@pytest.mark.parametrize("name", EXPECTED)
def test_sample_becomes_the_policy_that_it_says(name: str, tmp_path: Path) -> None:
    """Layers, id and remarks; the text is a valid policy file without a secret."""
    sample = EXPECTED[name]
    made = convert_file(str(SAMPLES / name), network=sample.network)
    assert plain(made.policy) == sample.layers
    assert not sample.id or made.policy.id == sample.id
    notes = "\n".join(made.notes)
    for said in sample.said:
        assert said in notes, notes
    for line in made.notes:
        assert re.match(rf"{re.escape(str(SAMPLES / name))}(:\d+)?: .+: .+", line)
        assert line.isprintable()
    assert not SECRET.search(made.text) and not SECRET.search(notes.replace(name, ""))
    file = tmp_path / "made.yml"
    file.write_text(made.text)
    assert load_policy(file) == made.policy


@pytest.mark.parametrize("name", EXPECTED)
def test_nothing_is_dropped_silently(name: str) -> None:
    """Each line that says something is in the policy, or is listed."""
    text = (SAMPLES / name).read_text()
    made = convert_file(str(SAMPLES / name), network=EXPECTED[name].network)
    listed = {int(found[1]) for line in made.notes if (found := re.search(r":(\d+): ", line))}
    lines = setting_lines(text)
    if EXPECTED[name].network is not None:  # of the others, the line where each begins
        others = [int(found[1]) for line in made.notes
                  if (found := re.search(r":(\d+): network: .* another one", line))]
        assert others
        lines = {line for line in lines if line <= min(others)}
        lines -= {line for line in lines if line in others}
    assert lines <= listed | {*made.taken_lines}


#: Kinds of files in which a later setting of the same key replaces an earlier one.
LAST_COUNTS = ("hostapd", "wpa_supplicant", "openwrt", "networkmanager", "iwd")
#: Settings that a daemon reads as a list, so that a second one replaces nothing, and lines that
#: begin a network or a device.
LISTS = re.compile(r"(r[01]kh|sae_password|auth_server_|acct_server_|bss|radius_|vendor_)|"
                   r"\s*(option (mac|iface|vid|key\d?) |list )")


@pytest.mark.parametrize("name", [name for name in EXPECTED if kinds.find_kind(
    (SAMPLES / name).read_text(), name) in LAST_COUNTS])
def test_replaced_setting_is_listed(name: str) -> None:
    """Of a line that stands there twice, the first one is listed, and the policy is the same."""
    text, network = (SAMPLES / name).read_text(), EXPECTED[name].network
    made = convert_text(name, text, network=network)
    lines = text.splitlines()
    for number in sorted({*made.taken_lines} & setting_lines(text)):
        if LISTS.match(lines[number - 1]):
            continue
        twice = "\n".join([*lines[:number], *lines[number - 1:], ""])
        again = convert_text(name, twice, network=network)
        assert again.policy == made.policy
        assert any(f":{number}: " in note and f"line {number + 1} has another value" in note
                   for note in again.notes), lines[number - 1]


IWD_PEAP = "[Security]\nEAP-Method=PEAP\nEAP-PEAP-Phase2-Method=MSCHAPV2\n"
HOSTAPD = "interface=wlan0\nssid=x\nwpa=2\nrsn_pairwise=CCMP\n"
NETWORK = 'network={{\nssid="x"\n{}\n}}\n'
WPA2 = 'key_mgmt=WPA-EAP\neap=PEAP\nphase2="auth=MSCHAPV2"\n'
NM_EAP = "[connection]\ntype=wifi\n[wifi-security]\nkey-mgmt=wpa-eap\n[802-1x]\neap=peap\n"


@pytest.mark.parametrize(("name", "text", "said"), [
    ("w.conf", NETWORK.format('key_mgmt=WPA-EAP\neap=PEAP\n'
                              'phase2="auth=MSCHAPV2 mschapv2_retry=0 foo=1"'),
     ":5: phase2: mschapv2_retry=0 and another word: not measured here"),
    ("w.conf", NETWORK.format('key_mgmt=WPA-EAP\neap=PEAP\nphase2="auth=OTP auth=GTC"'),
     ":5: phase2: OTP: a policy has one inner method"),
    ("w.conf", NETWORK.format('key_mgmt=WPA-EAP\neap=TTLS\nphase2="auth=OTP auth=SIM"'),
     ":5: phase2: SIM: a policy has one inner method"),
    ("w.conf", NETWORK.format(WPA2 + "proto=RSN WPA"), ":6: proto: WPA beside WPA2"),
    ("w.conf", NETWORK.format(WPA2 + "proto=RSN OSEN"), ":6: proto: OSEN: not measured"),
    ("w.conf", NETWORK.format(WPA2 + "ieee80211w=1 x"), ":6: ieee80211w: what stands behind"),
    ("w.conf", NETWORK.format(WPA2 + "pairwise=CCMP hunter2"), ":6: pairwise: another word"),
    ("w.conf", NETWORK.format(WPA2 + 'phase1="peapver=0 hunter2=1"'), ":6: phase1: 1 of its"),
    ("w.conf", NETWORK.format("key_mgmt=WPA-EAP hunter2\neap=PEAP"), ":3: key_mgmt: another"),
    ("w.conf", NETWORK.format("key_mgmt=WPA-EAP\neap=TEAP FAST"), ":4: eap: FAST: a policy"),
    ("w.conf", NETWORK.format("key_mgmt=WPA-EAP\neap=PEAP hunter2"), ":4: eap: another word"),
    ("w.conf", NETWORK.format("key_mgmt=SAE\nsae_groups=19 1"), ":4: sae_groups: 1: not"),
    ("hostapd.conf", HOSTAPD + "wpa_key_mgmt=SAE\nsae_groups=19 26\n", ":6: sae_groups: 26: not"),
    ("hostapd.conf", HOSTAPD + "wpa_key_mgmt=WPA-PSK\nwpa_group_rekey=600\nwpa_group_rekey=0\n",
     ":6: wpa_group_rekey: line 7 has another value, and the last one counts"),
    ("a.nmconnection", NM_EAP + "phase1-auth-flags=0x200\n", "flags other than 0x1ff are not"),
    ("a.nmconnection", NM_EAP + "phase1-auth-flags=some\n", "a number belongs here")])
def test_part_of_a_line_is_listed(name: str, text: str, said: str) -> None:
    """Each word of a value is in the policy, or is listed."""
    notes = "\n".join(convert_text(name, text).notes)
    assert said in notes and not SECRET.search(notes)


def test_last_value_of_hostapd_counts() -> None:
    """Also where it is hostapd's default: no renewal."""
    text = HOSTAPD + "wpa_key_mgmt=WPA-PSK\nwpa_group_rekey=600\nwpa_group_rekey=0\n"
    assert plain(convert_text("hostapd.conf", text).policy) == {"link": WPA2_PSK}


def test_each_flag_of_networkmanager_becomes_a_word() -> None:
    """0x28: no check of times, and TLS 1.0 allowed, which changes nothing."""
    made = convert_text("a.nmconnection", NM_EAP + "phase1-peaplabel=1\nphase1-auth-flags=40\n")
    link = made.policy.layers.link
    assert link and link.options.wpa_supplicant == {
        "phase1": "peaplabel=1 tls_disable_time_checks=1"}
    newer = convert_text("a.nmconnection", NM_EAP + "phase1-auth-flags=256\nphase1-peapver=0\n")
    assert plain(newer.policy)["dot1x"]["tls"] == {"version": "1.3"}


@pytest.mark.parametrize("name", EXPECTED)
def test_line_ends_and_marks_of_other_systems_change_nothing(name: str) -> None:
    """CRLF, and a byte order mark as editors of Windows write it."""
    raw = (SAMPLES / name).read_bytes()
    choices = {"network": EXPECTED[name].network}
    made = convert_text(name, raw, **choices)
    for other in (raw.replace(b"\n", b"\r\n"), b"\xef\xbb\xbf" + raw,
                  b"\xef\xbb\xbf" + raw.replace(b"\n", b"\r\n")):
        assert convert_text(name, other, **choices) == made


@pytest.mark.parametrize("name", EXPECTED)
def test_kind_is_found_by_content_alone(name: str) -> None:
    """A file of any name; only an open network of iwd may be empty, which its name says."""
    text = (SAMPLES / name).read_text()
    if kinds.find_kind(text) is not None:
        assert kinds.find_kind(text) == kinds.find_kind(text, name)
    else:
        assert name.endswith(".open")


# Round trip: what qop writes for its daemons, it reads as the policy that it was written for


def file_says(policy: Policy, file: str) -> dict[str, Any]:
    """The layers that a file of a policy says."""
    layers = policy.layers
    if file == "swanctl.conf":
        return {"ipsec": layers.ipsec}
    if file == "macsec.conf":
        return {"wire": layers.wire}
    return {"link": layers.link, "dot1x": layers.dot1x}


@pytest.mark.parametrize("name", policy_ids())
def test_own_policies_survive_a_round_trip(name: str) -> None:
    """hostapd.conf, wpa_supplicant.conf and the others: equal in all that the file says.

    hostapd.conf does not say the EAP method. No file says what the server offers first, its group
    of TLS, RadSec, and whether keys of an earlier visit are used; a station's does not say how
    access points share keys.
    """
    policy = load_named(name)
    for file, text in render_files(policy).items():
        made = convert_text(file, text).policy.layers
        for layer, wanted in file_says(policy, file).items():
            found = getattr(made, layer)
            if layer == "link" and wanted is not None:
                unsaid = {"roaming": None} if wanted.roaming == "pmksa" else {}
                if file == "wpa_supplicant.conf" and wanted.roaming == "ft-pull":
                    unsaid = {"roaming": "ft"}
                wanted = wanted.model_copy(update=unsaid)  # noqa: PLW2901
            elif layer == "dot1x" and wanted is not None:
                assert found is not None
                if file == "hostapd.conf":
                    continue
                # Of certificates, wpa_supplicant's file has names alone.
                key = {"key": "rsa-2048"} if policy.id == "M18" else {}
                tls = wanted.tls and wanted.tls.model_copy(update={"group": None, **key})
                wanted = wanted.model_copy(update={  # noqa: PLW2901
                    "first_offer": wanted.eap, "transport": None, "tls": tls})
            assert found == wanted, (file, layer)


@pytest.mark.parametrize("name", policy_ids())
def test_files_made_again_are_the_same(name: str) -> None:
    """Of the policy that was made of a file, the templates make the same file, to the letter."""
    for file, text in render_files(load_named(name)).items():
        again = render_files(convert_text(file, text).policy)[file]
        # With RadSec, the address is that of a proxy on the access point: the file cannot say so.
        both = [re.sub(r"auth_server_addr=.*", "", each) for each in (text, again)]
        assert both[0] == both[1]


CIPHERS = st.sampled_from(["CCMP", "GCMP", "CCMP-256", "GCMP-256", "TKIP"])
SWITCH = st.just(1)
LINKS = st.fixed_dictionaries(
    {"cipher": CIPHERS, "keys": st.sampled_from(["psk", "sae", "owe", "eap"])},
    optional={"pmf": st.integers(0, 2), "akm": st.just("sha256"), "sae": st.sampled_from(
        ["loop", "h2e"]), "group": st.sampled_from([19, 20, 21]),
        "group_mgmt": st.just("BIP-GMAC-256"), "beacon_protection": SWITCH, "ocv": SWITCH,
        "roaming": st.sampled_from(["ft", "okc", "fils"]),
        "options": st.fixed_dictionaries({}, optional={
            "hostapd": st.fixed_dictionaries({}, optional={
                "wpa_group_rekey": st.integers(1, 9999), "ignore_broadcast_ssid": st.just(1),
                "disable_pmksa_caching": st.just(1)}),
            "wpa_supplicant": st.fixed_dictionaries({}, optional={
                "wpa_ptk_rekey": st.integers(1, 9999)})})})
METHODS = st.sampled_from([
    {"eap": "TLS"}, {"eap": "TLS", "tls": {"version": "1.3"}}, PEAP,
    {**PEAP, "tls": {"version": "1.3"}}, {**PEAP, **ANONYMOUS},
    {**PEAP, **ANONYMOUS, "tls": {"realm": "home.example"}},
    {"eap": "TTLS", "inner": "PAP"}, {"eap": "TTLS", "inner": "MSCHAPV2", **ANONYMOUS},
    {"eap": "PEAP", "inner": "TLS"},
    {"eap": "PWD"}])


@given(link=LINKS, dot1x=METHODS)
def test_files_of_any_policy_made_again_are_the_same(link: dict[str, Any],
                                                     dot1x: dict[str, Any]) -> None:
    """The same of every link layer that the loader accepts."""
    layers = {"link": link} | ({"dot1x": dot1x} if link["keys"] == "eap" else {})
    try:
        policy = Policy.model_validate({"id": "X", "name": "x", "layers": layers})
    except ValueError:
        return
    for file, text in render_files(policy).items():
        # The other side's options are the other file's.
        again = render_files(convert_text(file, text).policy)[file]
        unsaid = {"scan_ssid=1"} if file == "wpa_supplicant.conf" else set()
        assert [line for line in text.splitlines() if line.strip() not in unsaid] == \
            again.splitlines()


# Networks of a file


@pytest.mark.parametrize(("name", "said"), [
    ("hostapd-two-bss.conf",
     ":1: 3 networks; choose one by --network NAME: corp, wlan0_0, wlan0_1"),
    ("wpa-three.conf", ":3: 3 networks; choose one by --network NAME: one, 'two \"2\"', three"),
    ("openwrt-wireless", ":16: 3 networks; choose one by --network NAME: default_radio0, def"),
    ("swanctl-default.conf", ":2: 2 networks; choose one by --network NAME: gw, other")])
def test_several_networks_are_listed_in_one_line(name: str, said: str) -> None:
    """By a name of each that no other one has."""
    assert said in refusal(name, (SAMPLES / name).read_text())


@pytest.mark.parametrize(("network", "said"), [
    ("Home", "2 networks are called 'Home'; choose one by --network NAME: default_radio0, default"),
    ("nope", "there is no network 'nope'; choose from: default_radio0, default_radio1, 'Guest")])
def test_network_that_is_none_or_several(network: str, said: str) -> None:
    """The names follow."""
    assert said in refusal("wireless", (SAMPLES / "openwrt-wireless").read_text(), network=network)


@pytest.mark.parametrize(("name", "network", "layers"), [
    ("hostapd-two-bss.conf", "wlan0_0", {"link": {"cipher": "CCMP", "keys": "owe", "pmf": 2,
                                                  "group": 20, "owe_transition": 1}}),
    ("hostapd-two-bss.conf", "wlan0_1", {}),
    ("wpa-three.conf", 'two "2"', {"link": {**WPA2_PSK, "pmf": 1, "roaming": "ft", "accepted": [
        "WPA-PSK", "FT-PSK"], "options": {
        "wpa_supplicant": {"wpa_ptk_rekey": 600}}}}),
    ("wpa-three.conf", "line-19", {}),
    ("openwrt-wireless", "default_radio1", {"link": WPA2_PSK}),
    ("openwrt-wireless", 'Guest "2"', {"link": {
        "cipher": "CCMP", "keys": "owe", "pmf": 2,
        "options": {"hostapd": {"ignore_broadcast_ssid": 1}}}}),
    ("swanctl-default.conf", "other", {"ipsec": {
        "ike": 2, "ike_proposal": "aes128-sha256-curve25519", "esp_proposal": "aes128gcm16"}})])
def test_network_is_chosen(name: str, network: str, layers: dict[str, Any]) -> None:
    """By any of its names, or by its line."""
    made = convert_text(name, (SAMPLES / name).read_text(), network=network)
    assert plain(made.policy) == layers


def test_id_of_a_built_in_policy_is_not_taken() -> None:
    """The policy would be another one under a known name."""
    text = "ssid=M5\nwpa=2\nwpa_key_mgmt=WPA-PSK\nrsn_pairwise=CCMP\n"
    assert convert_text("a.conf", text).policy.id == "M5-own"
    assert convert_text("a.conf", text, policy_id="home").policy.id == "home"
    assert "--id M5: comes with qop" in refusal("a.conf", text, policy_id="M5")
    assert "--id a b: cannot name files" in refusal("a.conf", text, policy_id="a b")


# Single settings

UNSET = ("[connection]\ntype=wifi\n[wifi-security]\ngroup=\nkey-mgmt=wpa-psk\npairwise=\nproto=\n"
         "psk=hunter2\n")
INCLUDED = ("a {\n remote_addrs = b\n mobike=no\n children { a {\n"
            " esp_proposals = aes256gcm16-x448-ecp384-ke1_mlkem768\n } }\n}\n")
IWD = "[Settings]\n{}\n[Security]\nPassphrase=hunter2hunter2\n"
SETTINGS: list[tuple[str, str, dict[str, Any], str]] = [
    ("h.conf", HOSTAPD + "wpa_key_mgmt=SAE\n", {"link": WPA3}, "pmf: 2 is assumed"),
    ("h.conf", HOSTAPD + "wpa_key_mgmt=SAE\nieee80211w=0\n",
     {"link": {"cipher": "CCMP", "keys": "sae", "pmf": 1}}, "pmf 1 stands in for it"),
    ("h.conf", HOSTAPD + "wpa_key_mgmt=SAE-EXT-KEY\nieee80211w=2\n", {"link": WPA3},
     "SAE-EXT-KEY is not measured here: SAE stands in for it"),
    ("h.conf", HOSTAPD + "wpa_key_mgmt=FT-EAP-SHA384\nrsn_pairwise=GCMP-256\nieee80211w=2\n"
     "group_mgmt_cipher=BIP-GMAC-256\n",
     {"link": {"cipher": "GCMP-256", "keys": "eap", "pmf": 2, "akm": "suite-b-192",
               "group_mgmt": "BIP-GMAC-256", "roaming": "ft-pull"},
      "dot1x": {"eap": "TLS", "tls": {"key": "p-384"}}}, "TLS is assumed"),
    ("h.conf", HOSTAPD + "wpa_key_mgmt=FILS-SHA384\n",
     {"link": {**WPA2_EAP, "roaming": "fils"}, "dot1x": PEAP}, "FILS-SHA256 stands in for it"),
    ("h.conf", "ssid=x\nwpa=1\nwpa_key_mgmt=WPA-PSK\n", {"link": {"cipher": "TKIP", "keys": "psk"}},
     "layers.link.cipher: TKIP is assumed"),
    ("h.conf", "ssid=x\nwpa=1\nwpa_pairwise=CCMP\n", {"link": WPA2_PSK},
     "CCMP goes with WPA2 here"),
    ("h.conf", "ssid=x\nwpa=2\n", {"link": WPA2_PSK}, "hostapd would take TKIP"),
    ("h.conf", HOSTAPD + "wpa_key_mgmt=WPA-PSK\nwpa_psk_file=/etc/hostapd.psk\n",
     {"link": {**WPA2_PSK, "passphrases": "by-device"}}, ""),
    ("h.conf", HOSTAPD + "wpa_key_mgmt=WPA-EAP\ndynamic_vlan=2\nvlan_tagged_interface=eth0\n",
     {"link": {**WPA2_EAP, "vlan": 20}, "dot1x": PEAP},
     ":6: dynamic_vlan: the file does not say the number of the VLAN: 20 stands for it"),
    ("h.conf", HOSTAPD + "dynamic_vlan=1\nwpa_key_mgmt=WPA-PSK\nwpa_psk_file=/etc/hostapd.psk\n",
     {"link": {**WPA2_PSK, "passphrases": "by-device", "vlan": 20}}, "20 stands for it"),
    ("h.conf", HOSTAPD + "wpa_key_mgmt=WPA-PSK\ndynamic_vlan=1\n", {"link": WPA2_PSK},
     ":6: dynamic_vlan: link.vlan is of 802.1X, and of a network with link.passphrases"),
    ("h.conf", "ssid=x\nwpa=2\nrsn_pairwise=TKIP\nieee80211w=1\n",
     {"link": {"cipher": "TKIP", "keys": "psk"}},
         "ieee80211w: left out: TKIP has no protected man"),
    ("h.conf", HOSTAPD + "wpa_key_mgmt=WPA-PSK\nocv=1\n", {"link": WPA2_PSK},
     ":6: ocv: left out: ocv needs protected management frames"),
    ("h.conf", HOSTAPD + "wpa_key_mgmt=SAE\nieee80211w=2\nsae_anti_clogging_threshold=5\n",
     {"link": {**WPA3, "anti_clogging": 5}}, ""),
    ("x.8021x", IWD_PEAP + "EAP-PEAP-FastReauthentication=true\n",
     {"link": {**WPA2_EAP, "pmf": 1}, "dot1x": {**PEAP, "tls": {"sessions": "resumed"}}}, ""),
    ("x.8021x", IWD_PEAP + "EAP-PEAP-FastReauthentication=false\n",
     {"link": {**WPA2_EAP, "pmf": 1}, "dot1x": PEAP}, ""),
    ("x.8021x", IWD_PEAP + "EAP-TLS-FastReauthentication=true\n",
     {"link": {**WPA2_EAP, "pmf": 1}, "dot1x": PEAP},
     ":4: [Security] EAP-TLS-FastReauthentication: it is of EAP-TLS, which the profile does not"),
    ("h.conf", HOSTAPD + "wpa_key_mgmt=WPA-PSK\nsae_sync=5\n", {"link": WPA2_PSK},
     ":6: sae_sync: left out: hostapd's option sae_sync has no effect without link.keys sae"),
    ("h.conf", HOSTAPD + "wpa_key_mgmt=WPA-EAP\nauth_server_type=TLS\n",
     {"link": WPA2_EAP, "dot1x": {**PEAP, "transport": "radsec"}}, ""),
    ("h.conf", HOSTAPD + "wpa_key_mgmt=WPA-EAP-SUITE-B-192\ngroup_mgmt_cipher=BIP-CMAC-256\n",
     {"link": {"cipher": "CCMP", "keys": "eap", "pmf": 2, "group_mgmt": "BIP-GMAC-256"},
      "dot1x": {"eap": "TLS", "tls": {"key": "p-384"}}},
     "only BIP-CMAC-128 and BIP-GMAC-256 are measured here"),
    ("h.conf", "ssid=x\nieee8021x=1\nwep_key_len_unicast=5\nwep_key_len_broadcast=5\n",
     {"link": {"cipher": "WEP-40", "keys": "eap"}, "dot1x": PEAP}, ""),
    ("h.conf", HOSTAPD + "wpa_key_mgmt=WPA-PSK\nvendor_elements={{7*7}}\neapol_version={{7*7}}\n",
     {"link": WPA2_PSK}, ":7: eapol_version: left out: "),
    ("w.conf", NETWORK.format('key_mgmt=WPA-EAP\neap=MD5 LEAP PEAP\nphase2="auth=MSCHAPV2"'),
     {"link": WPA2_EAP, "dot1x": PEAP}, ":4: eap: MD5 and LEAP: a policy has one EAP method"),
    ("w.conf", NETWORK.format("key_mgmt=WPA-PSK\nproto=WPA\npairwise=TKIP"),
     {"link": {"cipher": "TKIP", "keys": "psk"}}, ""),
    ("w.conf", NETWORK.format("key_mgmt=SAE\nsae_pwe=2"),
     {"link": {**WPA3, "options": {"wpa_supplicant": {"sae_pwe": 2}}}}, ""),
    ("w.conf", NETWORK.format("key_mgmt=WPA-EAP\neap=AKA\n"),
     {"link": WPA2_EAP, "dot1x": {"eap": "AKA"}, "aaa": {"server": "hostapd"}}, "aaa.server: host"),
    ("w.conf", NETWORK.format('key_mgmt=WPA-EAP\neap=PEAP\nca_cert="/c"\nphase1="peaplabel=1"'),
     {"link": {**WPA2_EAP, "options": {"wpa_supplicant": {"phase1": "peaplabel=1"}}},
      "dot1x": PEAP}, "this is the most common in PEAP"),
    ("w.conf", NETWORK.format('key_mgmt=WPA-EAP\neap=PEAP\nphase1="password=hunter2 peapver=0"'),
     {"link": WPA2_EAP, "dot1x": PEAP}, ":5: phase1: 1 of its words are not measured here"),
    ("w.conf", NETWORK.format('key_mgmt=WPA-EAP\neap=PEAP\nphase1="tls_disable_tlsv1_2=1"'),
     {"link": WPA2_EAP, "dot1x": PEAP}, "phase1 switches TLS 1.2 off"),
    ("w.conf", NETWORK.format('key_mgmt=WPA-EAP\neap=PWD\nanonymous_identity="anonymous"'),
     {"link": WPA2_EAP, "dot1x": {"eap": "PWD"}}, "needs the user's own identity in clear"),
    ("w.conf", NETWORK.format('key_mgmt=WPA-EAP\neap=TTLS\nphase2="autheap=MSCHAPV2"'),
     {"link": WPA2_EAP, "dot1x": {"eap": "TTLS", "inner": "MSCHAPV2"}}, ""),
    ("a.nmconnection", "[connection]\ntype=wifi\n[wifi-security]\nkey-mgmt=none\nwep-key0=hunt2\n",
     {"link": {"cipher": "WEP-40", "keys": "static"}}, ""),
    ("a.nmconnection", UNSET, {"link": {**WPA2_PSK, "pmf": 1, **ALL_PSK}},
     ":6: [wifi-security] pairwise: the file leaves it empty"),
    ("a.nmconnection", "[connection]\ntype=wifi\n[wifi-security]\nkey-mgmt=wpa-psk\npmf=0\n",
     {"link": {**WPA2_PSK, "pmf": 1, **ALL_PSK}},
     "layers.link.pmf: 1 is assumed: NetworkManager's default"),
    ("a.psk", "[Security]\nhunter2AAAA==\nhunter2B=\nPassphrase=hunter2hunter2\n",
     {"link": {**WPA2_PSK, "pmf": 1, **ALL_PSK}}, ":2: [Security] this line: not measured here"),
    ("a.nmconnection", "[connection]\ntype=wifi\n[wifi]\n[user]\norg.Example.hunter2=5\n", {},
     ":5: [user] this line: comes from the scenario"),
    ("a.psk", IWD.format("TransitionDisable=true\nDisabledTransitionModes=personal"),
     {"link": WPA3}, "sae is assumed"),
    ("a.psk", IWD.format("TransitionDisable=true"), {"link": {**WPA2_PSK, "pmf": 2, **ALL_PSK}},
     "psk is assumed"),
    ("a.psk", IWD.format("DisabledTransitionModes=personal"),
     {"link": {**WPA2_PSK, "pmf": 1, **ALL_PSK}},
     "iwd reads it with TransitionDisable=true alone (assumed)"),
    ("a.psk", IWD.format("TransitionDisable=1\nDisabledTransitionModes=open\n"
                         "UseDefaultEccGroup=true"), {"link": {**WPA2_PSK, "pmf": 2, **ALL_PSK}},
     ":4: [Settings] UseDefaultEccGroup: the group is of SAE and OWE, which the policy lacks"),
    ("a.psk", IWD.format("TransitionDisable=true\nDisabledTransitionModes=personal\n"
                         "UseDefaultEccGroup=true"), {"link": {**WPA3, "group": 19}}, ""),
    ("a.8021x", ("[Security]\nEAP-Method=TLS\n[Settings]\nTransitionDisable=true\n"
                 "DisabledTransitionModes=enterprise, open\n"),
     {"link": {**WPA2_EAP, "pmf": 2, "akm": "sha256"}, "dot1x": {"eap": "TLS"}},
     "open: the profile is not of this kind"),
    ("a.8021x", "[Security]\nEAP-Method=TLS\nTransitionDisable=true\n",
     {"link": {**WPA2_EAP, "pmf": 1}, "dot1x": {"eap": "TLS"}},
     ":3: [Security] TransitionDisable: iwd reads it in the section [Settings] alone (assumed)"),
    ("a.nmconnection", "[connection]\ntype=wifi\n[wifi-security]\nkey-mgmt=wpa-psk\n",
     {"link": {**WPA2_PSK, "pmf": 1, **ALL_PSK}},
     "layers.link.accepted: [SAE, WPA-PSK-SHA256, WPA-PSK] is assumed: NetworkManager takes all"),
    ("a.nmconnection", "[connection]\ntype=wifi\n[wifi-security]\nkey-mgmt=wpa-psk\npmf=1\n",
     {"link": {**WPA2_PSK, "accepted": ["WPA-PSK-SHA256", "WPA-PSK"]}},
     "layers.link.accepted: [WPA-PSK-SHA256, WPA-PSK] is assumed"),
    ("a.nmconnection", "[connection]\ntype=wifi\n[wifi-security]\nkey-mgmt=wpa-psk\npmf=7\n",
     {"link": {**WPA2_PSK, "pmf": 1, **ALL_PSK}},
     ":5: [wifi-security] pmf: 0, 1, 2 or 3 belongs here"),
    ("w", "config wifi-iface\n option encryption psk2\n option ieee80211w 1\n",
     {"link": {**WPA2_PSK, "pmf": 1, "akm": "sha256",
               "offered": ["WPA-PSK", "WPA-PSK-SHA256"]}}, ""),
    ("w", "config wifi-iface\n option encryption wpa2\n option ieee80211w 2\n",
     {"link": {**WPA2_EAP, "pmf": 2, "akm": "sha256",
               "offered": ["WPA-EAP", "WPA-EAP-SHA256"]}, "dot1x": PEAP}, ""),
    ("w", "config wifi-iface\n option encryption psk2\n option encryption sae\n",
     {"link": WPA3}, ":2: encryption: line 3 has another value, and the last one counts"),
    ("a.open", "[Settings]\nTransitionDisable=true\nDisabledTransitionModes=open\n",
     {"link": {"cipher": "CCMP", "keys": "owe", "pmf": 2}}, "OWE alone"),
    ("a.8021x", "[Security]\nEAP-Method=TLS\nEAP-Identity=jane\nEAP-TLS-CACert=/hunter2\n",
     {"link": {**WPA2_EAP, "pmf": 1}, "dot1x": {"eap": "TLS"}}, f"EAP-Identity: {CREDENTIAL}"),
    ("s.conf", INCLUDED,
     {"ipsec": {"ike": 2, "ike_proposal": "aes128-sha256-curve25519",
                "esp_proposal": "aes256gcm16-ecp384"}}, "x448 and ke1_mlkem768: not measured"),
    ("s.conf", "connections { a { mobike = yes\n version=1\n children { a { mode=tunnel } } } }\n",
     {"ipsec": {"ike": 1, "ike_proposal": "aes128-sha256-curve25519",
                "esp_proposal": "aes128gcm16"}}, "MOBIKE is IKEv2's"),
]
SWANCTL = "connections {{ a {{\n{}\n children {{ a {{ }} }} }} }}\n"
IPSEC = {"ike": 2, "ike_proposal": "aes128-sha256-curve25519", "esp_proposal": "aes128gcm16",
         "mobike": 1}
DEVICE = ("config wifi-iface home\n option ssid x\n option encryption {}\n option key hunter2222\n"
          "config wifi-station\n option iface home\n option mac 02:00:00:00:00:01\n"
          " option key hunter2hunter2\n option vid 30\n")
#: Settings that were called not measured, although a field of policies or networks has them.
SETTINGS += [
    ("h.conf", HOSTAPD.replace("CCMP", "GCMP") + "wpa_key_mgmt=WPA-PSK\ngroup_cipher=CCMP\n",
     {"link": {"cipher": "GCMP", "keys": "psk", "group_cipher": "CCMP"}}, ""),
    ("h.conf", HOSTAPD + "wpa_key_mgmt=SAE\nieee80211w=2\ntransition_disable=1\n",
     {"link": {**WPA3, "options": {"hostapd": {"transition_disable": 1}}}}, ""),
    ("h.conf", HOSTAPD + "wpa_key_mgmt=SAE\nieee80211w=2\nsae_password=hunter2|vlanid=20\n",
     {"link": WPA3}, f":7: sae_password: {CREDENTIAL}; SAE with a password, a VLAN or"),
    ("h.conf", HOSTAPD + "wpa_key_mgmt=SAE\nieee80211w=2\nwpa_psk_file=/psk\n", {"link": WPA3},
     ":7: wpa_psk_file: link.passphrases is of WPA2 with a passphrase alone"),
    ("h.conf", HOSTAPD + "wpa_key_mgmt=WPA-PSK\nacct_server_addr=10.0.0.1\n", {"link": WPA2_PSK},
     ":6: acct_server_addr: dot1x.accounting is of 802.1X"),
    ("h.conf", HOSTAPD + "wpa_key_mgmt=WPA-EAP\nacct_server_addr=10.0.0.1\nacct_server_port=1\n"
                         "radius_acct_interim_interval=60\neap_server=1\ncheck_crl=1\n",
     {"link": {**WPA2_EAP, "options": {"hostapd": {"radius_acct_interim_interval": 60}}},
      "dot1x": {"eap": "TLS", "tls": {"revocation": "crl"}, "accounting": 1}},
     ":7: acct_server_port: qop has its own; dot1x.accounting"),
    ("h.conf", HOSTAPD + "wpa_key_mgmt=WPA-EAP\neap_server=1\nfragment_size=1200\n"
                         "tls_flags=[ENABLE-TLSv1.3]\n",
     {"link": WPA2_EAP, "dot1x": {**PEAP, "tls": {"version": "1.3", "fragment_bytes": 1200}}},
     "layers.dot1x.eap: PEAP is assumed"),
    ("h.conf", HOSTAPD + "wpa_key_mgmt=SAE\nieee80211w=2\nsae_track_password=3\n",
     {"link": {**WPA3, "options": {"hostapd": {"sae_track_password": 3}}}}, ""),
    ("s.conf", "connections { a {\n mobike = no\n dpd_delay = 30\n children { a { } } } }\n",
     {"ipsec": {key: value for key, value in IPSEC.items() if key != "mobike"}},
     "for such a scenario add mobike: 1 and dpd: 30"),
    ("a.nmconnection", ("[connection]\ntype=wifi\n[wifi-security]\nkey-mgmt=wpa-eap\nfils=3\n"
                       "[802-1x]\neap=tls\n"),
     {"link": {**WPA2_EAP, "pmf": 1, "roaming": "fils"}, "dot1x": {"eap": "TLS"}},
     "layers.link.pmf: 1 is assumed"),
    ("w.conf", NETWORK.format("key_mgmt=WPA-EAP\neap=PEAP\nsae_pwe=2"),
     {"link": WPA2_EAP, "dot1x": PEAP}, "sae_pwe: it is of SAE, which the policy does not have"),
    ("h.conf", HOSTAPD + "wpa_key_mgmt=SAE\nieee80211w=2\nsae_anti_clogging_threshold=3\n",
     {"link": {**WPA3, "anti_clogging": 3}}, ""),
    ("h.conf", HOSTAPD + "wpa_key_mgmt=WPA-PSK\nwpa_psk_radius=2\ndynamic_vlan=1\n",
     {"link": {**WPA2_PSK, "passphrases": "by-device", "vlan": 20}},
     ":6: wpa_psk_radius: a passphrase by device from RADIUS is not measured here: passphrases"),
    ("h.conf", HOSTAPD + "wpa_key_mgmt=WPA-EAP\nradius_require_message_authenticator=1\n",
     {"link": WPA2_EAP, "dot1x": {**PEAP, "message_authenticator": "required"}},
     "access points of the file insist on it in answers; the policy's server insists on it in"),
    ("h.conf", HOSTAPD + "wpa_key_mgmt=WPA-EAP\ncheck_crl=1\n",
     {"link": WPA2_EAP, "dot1x": PEAP},
     ":6: check_crl: on an access point hostapd is no EAP server, and dot1x.tls.revocation"),
    ("h.conf", HOSTAPD + "wpa_key_mgmt=WPA-PSK\nowe_transition_ifname=b\n", {"link": WPA2_PSK},
     ":6: owe_transition_ifname: it follows from layers.link.owe_transition: write 1 there"),
    ("h.conf", HOSTAPD + "wpa_key_mgmt=WPA-PSK\npmk_r1_push=1\n", {"link": WPA2_PSK},
     ":6: pmk_r1_push: it is of fast transition, which the policy does not have"),
    ("h.conf", HOSTAPD + "wpa_key_mgmt=WPA-PSK\nrsn_preauth=1\n", {"link": WPA2_PSK},
     ":6: rsn_preauth: not measured here, but a policy's options can have it for hostapd"),
    ("h.conf", ("interface=eth0\ndriver=macsec_linux\nmacsec_policy=1\nmacsec_replay_window=8\n"
               "mka_cak=00112233445566778899aabbccddeeff\nmacsec_csindex=1\n"),
     {"wire": {"macsec": "GCM-AES-256", "replay_window": 8}}, ""),
    ("h.conf", ("interface=eth0\ndriver=macsec_linux\nmacsec_policy=1\nmacsec_csindex=3\n"),
     {"wire": {"macsec": "GCM-AES-256"}},
     ":4: macsec_csindex: a cipher suite of MACsec with XPN is not measured here: GCM-AES-256 sta"),
    ("h.conf", "interface=eth0\ndriver=macsec_linux\nmacsec_policy=1\nieee8021x=1\n",
     {"wire": {"macsec": "GCM-AES-128"}},
     ":4: ieee8021x: a key (CAK) from EAP is not measured here: a key of the run stands in for it"),
    ("w.conf", NETWORK.format(
        "key_mgmt=IEEE8021X\neap=TLS\nmacsec_policy=1\nmacsec_replay_protect=0"),
     {"wire": {"macsec": "GCM-AES-128"}},
     ":6: macsec_replay_protect: MACsec always protects from repeated frames here"),
    ("w.conf", NETWORK.format("key_mgmt=IEEE8021X\neap=TLS\nmacsec_policy=1"),
     {"wire": {"macsec": "GCM-AES-128"}},
     ":4: eap: a key (CAK) from EAP is not measured here: a key of the run stands in for it"),
    ("w.conf", NETWORK.format("key_mgmt=WPA-PSK\npairwise=GCMP\ngroup=CCMP"),
     {"link": {"cipher": "GCMP", "keys": "psk", "group_cipher": "CCMP"}}, ""),
    ("w.conf", NETWORK.format("key_mgmt=WPA-PSK\npairwise=CCMP\ngroup=CCMP TKIP"),
     {"link": WPA2_PSK}, "link.group_cipher names it where it differs"),
    ("w.conf", "fast_reauth=1\n" + NETWORK.format(
        'key_mgmt=WPA-EAP\neap=TLS\nphase1="tls_disable_tlsv1_3=0"'),
     {"link": WPA2_EAP, "dot1x": {"eap": "TLS", "tls": {"version": "1.3", "sessions": "resumed"}}},
     ""),
    ("w.conf", NETWORK.format('key_mgmt=WPA-EAP\neap=TLS\nopenssl_ciphers="ECDHE"'),
     {"link": {**WPA2_EAP, "options": {"wpa_supplicant": {"openssl_ciphers": "ECDHE"}}},
      "dot1x": {"eap": "TLS"}}, ""),
    ("w.conf", NETWORK.format("key_mgmt=WPA-EAP\neap=TLS\nocsp=1"), {"link": WPA2_EAP, "dot1x": {
        "eap": "TLS"}}, "and dot1x.tls.revocation has it check the certificates of stations"),
    ("wireless", DEVICE.format("psk2"),
     {"link": {**WPA2_PSK, "passphrases": "by-device", "vlan": 30}},
     f":8: wifi-station key: {CREDENTIAL}"),
    ("wireless", DEVICE.format("psk2") + "config wifi-station\n option mac 02:00:00:00:00:02\n"
     " option vid 31\n", {"link": {**WPA2_PSK, "passphrases": "by-device", "vlan": 30,
                                  "further_vlans": [31]}},
     f":8: wifi-station key: {CREDENTIAL}"),
    ("wireless", ("config wifi-iface\n option encryption wpa2\n option dynamic_vlan 2\n"
                 "config wifi-vlan\n option vid 20\nconfig wifi-vlan\n option vid 40\n"),
     {"link": {**WPA2_EAP, "vlan": 20, "further_vlans": [40]}, "dot1x": PEAP},
     "layers.dot1x.eap: PEAP is assumed"),
    ("wireless", "config wifi-iface\n option encryption owe\n option ieee80211r 1\n",
     {"link": {"cipher": "CCMP", "keys": "owe", "pmf": 2}},
     ":3: ieee80211r: OWE has no fast transition"),
    ("wireless", "config wifi-iface\n option encryption none\n option ieee80211r 1\n", {},
     ":3: ieee80211r: fast transition is of WPA2 and WPA3"),
    ("wireless", "config wifi-iface\n option encryption wpa3-192\n option ieee80211r 1\n",
     SUITE_192, ("FT-EAP-SHA384: not together with WPA-EAP-SUITE-B-192 here, which a station that "
     "has all takes; 'roaming: ft' measures fast transition")),
    ("wireless", "config wifi-iface\n option encryption wpa2\n option fils 1\n",
     {"link": {**WPA2_EAP, "roaming": "fils"}, "dot1x": PEAP},
     "WPA-EAP: not together with FILS-SHA256 here"),
    ("a.nmconnection", ("[connection]\ntype=wifi\n[wifi-security]\nkey-mgmt=wpa-eap-suite-b-192\n"
                       "pairwise=ccmp;\ngroup=ccmp;\n[802-1x]\neap=tls\n"), SUITE_192,
     ":5: [wifi-security] pairwise: NetworkManager has GCMP-256 with this key-mgmt in any case"),
    ("wpa.conf", ('network={\n key_mgmt=WPA-EAP-SUITE-B-192\n eap=TLS\n phase1="tls_suiteb=1"\n'
                 ' openssl_ciphers="ECDHE-RSA-AES256-GCM-SHA384"\n}\n'),
     {**SUITE_192, "dot1x": {"eap": "TLS", "tls": {"key": "rsa-3072"}}},
     "layers.link.pmf: 2 is assumed"),
    ("wpa.conf", "sae_pwe=1\nnetwork={\n key_mgmt=SAE WPA-PSK\n ieee80211w=1\n}\n",
     {"link": {**WPA3, "pmf": 1, "sae": "h2e"}},
     "link.accepted is left out: a station of hash to element joins no access point without it"),
    ("wireless", DEVICE.format("sae"), {"link": WPA3},
     ":7: wifi-station mac: link.passphrases is of WPA2 with a passphrase alone"),
    ("wireless", ("config wifi-iface\n option encryption psk2\n option ieee80211r 0\n"
                 " option vlan_file /etc/vlan\n"), {"link": WPA2_PSK},
     ":4: vlan_file: it follows from layers.link.vlan: write the number of the VLAN there"),
    ("a.nmconnection", "[connection]\ntype=macsec\n[macsec]\nmode=1\n",
     {"wire": {"macsec": "GCM-AES-128"}}, ":4: [macsec] mode: a key (CAK) from EAP is not"),
    ("a.nmconnection", ("[connection]\ntype=wifi\n[wifi-security]\nkey-mgmt=wpa-eap\nfils=2\n"
                       "[802-1x]\neap=tls\n"),
     {"link": {**WPA2_EAP, "pmf": 1, "accepted": ["WPA-EAP-SHA256", "WPA-EAP"]},
      "dot1x": {"eap": "TLS"}}, "'roaming: fils' is FILS alone"),
    ("s.conf", SWANCTL.format(" dpd_delay = 2m"), {"ipsec": IPSEC},
     "such a scenario add dpd: 120"),
    ("s.conf", SWANCTL.format(
        " local {\n auth = pubkey\n certs = a.pem\n }\n remote {\n auth=pubkey\n }"),
     {"ipsec": {**IPSEC, "authentication": "certificate"}}, f"local.certs: {CREDENTIAL}"),
    ("s.conf", SWANCTL.format(" local {\n auth = psk\n }\n remote {\n auth = any\n }"),
     {"ipsec": {**IPSEC, "authentication": "psk"}}, "both ends prove in one way who they are"),
    ("s.conf", SWANCTL.format(" local {\n auth = pubkey-sha384\n }\n remote {\n auth=pubkey\n }"),
     {"ipsec": IPSEC}, "what it demands of a signature is not"),
    ("s.conf", SWANCTL.format(" local {\n auth = pubkey\n }\n remote {\n auth=eap-mschapv2\n }"),
     {"ipsec": {**IPSEC, "authentication": "eap-mschapv2"}}, ""),
    ("wg0.conf", "[Interface]\nMTU = 1500\n[Peer]\nPersistentKeepalive = off\n",
     {"wireguard": {"roams": 1}},
     ":2: [Interface] MTU: wireguard.mtu has another range of numbers: 576 to 1440"),
    ("wg0.conf", ("[Interface]\nPrivateKey=hunter2\n[Peer]\nPersistentKeepalive=25\n[Peer]\n"
                  "PersistentKeepalive=15\n"), {"wireguard": {"roams": 1, "keepalive": 25}},
     ":6: [Peer] PersistentKeepalive: a policy has one peer, the file's first"),
]
UCI = ("config wifi-iface\n option ssid x\n option encryption {}\n option key1 s:hunt2\n"
       " option key 1\n")
SETTINGS += [
    ("w", UCI.format(word), layers, "")
    for word, layers in {
        "none": {}, "psk2": {"link": WPA2_PSK}, "sae": {"link": WPA3}, "psk3": {"link": WPA3},
        "psk2+tkip+ccmp": {"link": {**WPA2_PSK, "group_cipher": "TKIP"}}, "psk": {"link": WPA2_PSK},
        "psk+tkip": {"link": {"cipher": "TKIP", "keys": "psk"}},
        "wpa2": {"link": WPA2_EAP, "dot1x": PEAP},
        "wpa3": {"link": {**WPA2_EAP, "pmf": 2, "akm": "sha256"}, "dot1x": PEAP},
        "wpa3-192": {"link": {"cipher": "GCMP-256", "keys": "eap", "pmf": 2, "akm": "suite-b-192",
                              "group_mgmt": "BIP-GMAC-256"},
                     "dot1x": {"eap": "TLS", "tls": {"key": "p-384"}}},
        "owe": {"link": {"cipher": "CCMP", "keys": "owe", "pmf": 2}},
        "wep-open": {"link": {"cipher": "WEP-40", "keys": "static"}},
        "8021x": {"link": {"cipher": "WEP-104", "keys": "eap"}, "dot1x": PEAP}}.items()]


@pytest.mark.parametrize(("name", "text", "layers", "said"), SETTINGS)
def test_setting_becomes_a_field_or_is_listed(name: str, text: str, layers: dict[str, Any],
                                              said: str) -> None:
    """Single settings, and what the field's daemons make of them."""
    made = convert_text(name, text)
    assert plain(made.policy) == layers
    notes = "\n".join(made.notes)
    assert said in notes, notes
    assert not SECRET.search(notes + made.text)


@pytest.mark.parametrize(("name", "text"), [
    ("hostapd.conf", "interface=wlan0\nssid=x\nwpa=2\nwpa_key_mgmt={}\nieee8021x=1\nokc={}\n"),
    ("w.conf", ('network={{\n ssid="x"\n key_mgmt={}\n eap=PEAP\n'
                " proactive_key_caching={}\n}}\n"))])
def test_cached_keys_are_a_field_or_listed(name: str, text: str) -> None:
    """OKC is the way to move, or stands beside fast transition, which the policy keeps."""
    said = "a policy has one way to move: it keeps fast transition"
    alone, beside, off = (convert_text(name, text.format(*words)) for words in (
        ("WPA-EAP", 1), ("FT-EAP WPA-EAP", 1), ("FT-EAP WPA-EAP", 0)))
    assert plain(alone.policy)["link"]["roaming"] == "okc" and said not in "".join(alone.notes)
    assert plain(beside.policy)["link"]["roaming"].startswith("ft")
    assert any(said in line for line in beside.notes) and said not in "".join(off.notes)
    asleep = convert_text(name, text.format("WPA-PSK", 1))
    assert any("keys are cached after 802.1X" in line for line in asleep.notes)


ONE_OF_A_KIND = "a proposal has one algorithm of a kind here"


@pytest.mark.parametrize(("proposals", "version", "offered", "lost"), [
    ("aes256-sha256-ecp256,aes256-sha256-mlkem768,aes128-sha256-modp2048", 2,
     ["aes256-sha256-ecp256", "aes128-sha256-modp2048"],
     ["aes256-sha256-mlkem768: not together with aes256-sha256-ecp256 here"]),
    ("aes256-sha256-mlkem768,aes128-sha256-modp2048", 2,
     ["aes256-sha256-mlkem768", "aes128-sha256-modp2048"], []),
    ("aes128-sha256-ecp256,aes256gcm16-prfsha256-ecp256,aes128-sha1-modp2048", 1,
     ["aes128-sha256-ecp256", "aes128-sha1-modp2048"],
     ["aes256gcm16-prfsha256-ecp256: not together with aes128-sha256-ecp256 here"]),
    ("aes128-sha256-ecp256,aes256-sha256-x448,aes128-sha256-modp2048", 2,
     ["aes128-sha256-ecp256", "aes128-sha256-modp2048"],
     ["aes256-sha256-x448: not measured here"]),
    ("aes128-sha256-ecp256,aes256-sha256-modp2048-x448,default", 2,
     ["aes128-sha256-ecp256", "aes256-sha256-modp2048"], ["default and x448: not measured here"]),
    ("aes256-sha256-modp2048-ecp256,aes128-sha256-modp2048", 2,
     ["aes256-sha256-modp2048", "aes128-sha256-modp2048"],
     [f"ecp256 of aes256-sha256-modp2048-ecp256: {ONE_OF_A_KIND}: aes256-sha256-modp2048"]),
    ("aes256-sha256-prfsha256-modp2048-noesn,aes256-sha256-dh14,aes128-sha256-modp2048", 2,
     ["aes256-sha256-modp2048", "aes128-sha256-modp2048"], []),
    ("aes256-sha256-modp2048,aes256-sha256-mlkem768", 2, None,
     ["aes256-sha256-mlkem768: not together with aes256-sha256-modp2048 here"]),
], ids=["ML-KEM later", "ML-KEM first", "AEAD with IKEv1", "x448", "x448 as second group",
        "two groups", "nothing lost", "one left"])
def test_list_of_ike_proposals_drops_none_silently(proposals: str, version: int,
                                                   offered: list[str] | None,
                                                   lost: list[str]) -> None:
    """A line names each proposal, and each algorithm, that the policy lacks."""
    made = convert_text("s.conf", f"connections {{ a {{ version = {version}\n proposals = "
                                  f"{proposals}\n children {{ a {{ }} }} }} }}\n")
    layer = plain(made.policy)["ipsec"]
    assert layer.get("ike_offered") == layer.get("ike_accepted") == offered
    label = "connections.a.proposals: "
    assert [note.partition(label)[2] for note in made.notes if label in note] == lost


def test_esp_proposals_drop_none_silently() -> None:
    """Both ends get the list. A line names what it lacks, and further algorithms of each."""
    made = convert_text("s.conf", "connections { a { children { a { esp_proposals = aes128gcm16-"
                                  "aes256gcm16,aes256-sha256,serpent-sha1\n } } } }\n")
    ipsec = plain(made.policy)["ipsec"]
    assert ipsec["esp_proposal"] == "aes128gcm16"
    assert ipsec["esp_offered"] == ipsec["esp_accepted"] == ["aes128gcm16", "aes256-sha256"]
    assert [note.rpartition("esp_proposals: ")[2] for note in made.notes
            if "esp_proposals: " in note] == [
        f"aes256gcm16 of aes128gcm16-aes256gcm16: {ONE_OF_A_KIND}: aes128gcm16",
        "serpent-sha1: not measured here"]


def test_esp_proposals_of_ikev1_have_one_group() -> None:
    """A line names those with another one."""
    made = convert_text("s.conf", "connections { a { version = 1\n children { a { esp_proposals = "
                                  "aes256-sha256-ecp256,aes128-sha1,aes128-sha256-ecp256\n } } } }")
    assert plain(made.policy)["ipsec"]["esp_offered"] == ["aes256-sha256-ecp256",
                                                          "aes128-sha256-ecp256"]
    assert any("aes128-sha1: not together with aes256-sha256-ecp256 here" in note
               for note in made.notes)


def test_name_of_a_policy_says_what_stands_in() -> None:
    """So that no table shows it as what was wanted."""
    made = convert_file(str(SAMPLES / "wpa-teap.conf"))
    assert "EAP-PEAP in place of EAP-TEAP" in made.policy.name
    made = convert_file(str(SAMPLES / "swanctl-psk.conf"))
    assert "pubkey in place of IKE's psk" in made.policy.name


# Bad input

BAD: list[tuple[str, str | bytes, str]] = [
    ("x.conf", "", "1: the file is empty; name a configuration file"),
    ("x.conf", "# only\n",
     "1: this is no configuration file that qop knows; say its kind by --kin"),
    ("x.conf", b"\x7fELF\0", "1: this is a binary file (NUL byte)"),
    ("x.conf", "ssid=x\n".encode("utf-16"), "1: this is UTF-16 text; save the file as UTF-8"),
    ("x.conf", "hello\n", "1: this is no configuration file that qop knows"),
    ("x.conf", "conn a\n  left=%any\n", "1: this format is ipsec.conf's old format"),
    ("x.netdev", "[NetDev]\nName=wg0\n[WireGuard]\nPrivateKey=hunter2\n",
     "1: this format is systemd-networkd's"),
    ("x.xml", "<?xml version='1.0'?><WLANProfile/>", "1: this format is XML"),
    ("x.json", '{"a": 1}', "1: this format is JSON"),
    ("x.yaml", "network:\n  version: 2\n", "1: this format is YAML (netplan's, or a policy"),
    ("h.conf", "ssid=x\nwpa_passphrase hunter2\n", "2: this line is no KEY=VALUE; write KEY=VALUE"),
    ("h.conf", "ssid=x\nmy hunter2=5\n", "2: this line is no KEY=VALUE"),
    ("h.conf", "ssid=x\nwpa=yes\n", "2: wpa: a number belongs here; write 0 or another number"),
    ("h.conf", HOSTAPD + "wpa_key_mgmt=DPP\n", "5: wpa_key_mgmt: DPP is not measured here; known"),
    ("h.conf", HOSTAPD + "wpa_key_mgmt=hunter2\n",
     "5: wpa_key_mgmt: a key management belongs here"),
    ("h.conf", "ssid=x\nwpa=2\nrsn_pairwise=hunter2\n",
     "3: rsn_pairwise: a pairwise cipher belong"),
    ("h.conf", "ssid=x\nwep_key0=hunter2\n", "2: wep_key0: a key of 40 or 104 bits belongs here"),
    ("w.conf", 'network={\nssid="x\n}\n', '2: the quotes of ssid are not closed; write a second "'),
    ("w.conf", "network={\nssid=hunter2\n", "1: the block network={ is not closed; add a line }"),
    ("w.conf", "network={\n}\n}\n", "3: this } closes no block; remove it"),
    ("w.conf", 'network={ ssid="hunter2" }\n', "1: settings stand on the line that begins a block"),
    ("w.conf", NETWORK.format("psk hunter2"), "3: this line is no KEY=VALUE"),
    ("w.conf", "cred={\n}\n", "1: there is no network block"),
    ("w.conf", NETWORK.format("mode=1"), "3: mode: networks without an access point are not measu"),
    ("w.conf", NETWORK.format("key_mgmt=WPA-EAP\neap=LEAP"),
     "4: eap: this EAP method is not measu"),
    ("w.conf", NETWORK.format('key_mgmt=WPA-EAP\neap=TTLS\nphase2="autheap=TLS"'),
     "5: phase2: this inner method is not measured here; known in TTLS are PAP and MSCHAPV2"),
    ("w.conf", NETWORK.format("key_mgmt=WPA-EAP\neap=MD5"), "no policy can be made of it: EAP-MD5"),
    ("wireless", "config wifi-iface\n\toption key 'hunter2\n", "2: the quotes are not closed"),
    ("wireless", "config wifi-iface\noption\n",
     "2: this is no line of UCI; write config TYPE NAME"),
    ("wireless", "option a b\nconfig wifi-iface\n", "1: this stands before the first section"),
    ("wireless", "config wifi-device x\n", "1: there is no section wifi-iface"),
    ("wireless", "config wifi-iface\noption mode mesh\n",
     "2: mode: networks without an access poi"),
    ("wireless", "config wifi-iface\noption encryption hunter2\n",
     "2: encryption: this is no word"),
    ("wireless", "wireless.x.key='hunter2'\n", "1: this stands before its section"),
    ("a.nmconnection", "[connection]\ntype=vpn\n[vpn]\nsecret=hunter2\n",
     "2: [connection] type: connections of vpn are not measured here; known are wifi, wireguard"),
    ("a.nmconnection", "[connection]\ntype=wifi\n[wifi]\nmode=adhoc\n", "4: [wifi] mode: networks"),
    ("a.nmconnection", "[connection]\n[broken\n", "2: this is no [section]; write it in [ and ]"),
    ("a.nmconnection", "[connection]\npsk hunter2\n", "2: this line is no KEY=VALUE"),
    ("a.nmconnection", "[wifi-security]\nkey-mgmt=hunter2\n",
     "2: [wifi-security] key-mgmt: this is"),
    ("a.nmconnection", "x=1\n[connection]\n", "1: this stands before the first [section]"),
    ("s.conf", "connections {\n a {\n", "2: the section connections.a is not closed; add }"),
    ("s.conf", "connections { } }\n", "1: this } closes no section; remove it"),
    ("s.conf", 'connections {\n a = "hunter2\n}\n', "the quotes are not closed"),
    ("s.conf", "connections { a hunter2 }\n", "1: = or { belongs behind a name"),
    ("s.conf", "connections { = }\n", "1: a name belongs here"),
    ("s.conf", "connections { }\n", "1: there is no connection with a tunnel"),
    ("s.conf", "connections { a : b { } }\n", "1: a refers to a section that is not there"),
    ("s.conf", "connections { a : connections.a { } }\n", "1: a refers to itself; remove that"),
    ("s.conf", "connections { a { version = 3 } }\n",
     "1: connections.a.version: 0, 1 or 2 belongs"),
    ("s.conf", "connections { a { proposals = aes256-sha512-modp8192\n } }\n",
     "connections.a.proposals: none of its proposals can be measured here (modp8192); write one"),
    ("s.conf", "connections { a { children { a { ah_proposals = sha256\n } } } }\n",
     "AH is not meas"),
    ("s.conf", "connections { a { children { a { mode = beet\n } } } }\n",
     "this mode is not measure"),
    ("wg0.conf", "[Interface]\n[Server]\n",
     "2: wg-quick has no such section; write [Interface] or"),
    ("wg0.conf", "[Peer]\nPublicKey=hunter2\n", "1: there is no section [Interface]; add it"),
    ("wg0.conf", "[Interface]\nPrivateKey\n", "2: this line is no KEY=VALUE"),
]


@pytest.mark.parametrize(("rounds", "place"), [
    ("local {\n auth = pubkey\n auth2 = eap-mschapv2\n }\n remote {\n auth=pubkey\n }",
     "local.auth2"),
    ("local {\n auth = psk\n }\n remote {\n auth = psk\n }\n remote-2 {\n auth = psk\n }",
     "remote-2.auth"),
    (("local-b {\n round = 2\n auth = eap-tls\n }\n local-a {\n auth = psk\n }\n remote {\n auth = "
      "psk\n }"), "local-b.auth"),
])
def test_further_round_of_authentication_is_named(rounds: str, place: str) -> None:
    """A policy has one round for an end. The policy's name says that the file has several."""
    made = convert_text("s.conf", SWANCTL.format(f" {rounds}"))
    assert any(f"{place}: a further round of authentication is {NOT_MEASURED}" in note
               for note in made.notes)
    assert "one round of authentication in place of 2" in made.policy.name


@pytest.mark.parametrize(("local", "remote"), [
    ("psk", "pubkey"), ("pubkey", "psk"), ("eap-mschapv2", "psk"), ("eap-tls", "eap-tls"),
    ("psk", ""), ("xauth", "eap-tls")])
def test_two_ways_of_authentication_are_refused(local: str, remote: str) -> None:
    """A policy has one way for both ends, so the weaker or stronger one may not stand for both."""
    ends = f" local {{\n auth = {local}\n }}\n" + (
        f" remote {{\n auth = {remote}\n }}" if remote else "")
    assert f"local {local} and remote {remote or 'pubkey'} are {NOT_MEASURED} together" in refusal(
        "s.conf", SWANCTL.format(ends))


def test_sections_of_the_daemon_are_named() -> None:
    """Settings of strongswan.conf belong to no connection, so each has its line."""
    made = convert_text("s.conf", SWANCTL.format("") + "charon {\n x = 1\n}\ncharon-nm {\n y { z "
                                                       "= 2\n }\n}\n")
    for name in ("charon.x", "charon-nm.y.z"):
        assert any(f"{name}: {NOT_MEASURED}" in note for note in made.notes)


@pytest.mark.parametrize(("name", "text", "said"), BAD)
def test_bad_input_is_one_line(name: str, text: str | bytes, said: str) -> None:
    """Not such a file, binary, empty, or broken with its line; never a line of the file itself."""
    assert said in refusal(name, text)


def test_paths_that_are_no_files(tmp_path: Path) -> None:
    """A missing file, a folder, a device, and a file that is too large."""
    large = tmp_path / "large.conf"
    with large.open("wb") as file:
        file.truncate(1 << 40)
    for path, said in {tmp_path / "nope": "there is no such file; check the path",
                       tmp_path: "is a folder; name a configuration file in it",
                       Path("/dev/zero"): "is not an ordinary file; save the configuration in",
                       large: "bytes are too many; a configuration has at most"}.items():
        with pytest.raises(PolicyError) as refused:
            convert_file(str(path))
        assert said in str(refused.value)


def test_kind_may_be_said() -> None:
    """--kind decides where content and name say nothing, or another thing."""
    assert "no configuration file that qop knows" in refusal("x", "driver=nl80211\n")
    assert convert_text("x", "driver=nl80211\n", kind="hostapd").policy.layers.link is None
    assert "no network block" in refusal("x", HOSTAPD, kind="wpa_supplicant")


# The command


def policy_from(tmp_path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return QopHere(tmp_path)("policy", "from", *arguments)


def test_policy_goes_to_standard_output_and_remarks_to_standard_error(tmp_path: Path) -> None:
    """So that `> FILE` makes a policy; --out says how to measure it."""
    done = policy_from(tmp_path, str(SAMPLES / "wpa-eduroam.conf"))
    assert done.returncode == 0
    assert done.stdout.startswith("# Made of wpa-eduroam.conf by './qop policy from'.\n"
                                  "id: eduroam\n")
    assert f":14: identity: {CREDENTIAL}\n" in done.stderr
    assert done.stderr.endswith("qop: policy eduroam: 9 settings taken over, the others are listed "
                                "above\n")
    done = policy_from(tmp_path, str(SAMPLES / "wg0.conf"), "--out", "wg.yml")
    assert done.stdout == "" and "./qop run --policy wg.yml" in done.stderr
    assert load_policy(tmp_path / "wg.yml").uses_wireguard


def test_command_refuses_in_one_line(tmp_path: Path) -> None:
    """A wrong file, a wrong kind, and a place that cannot be written."""
    done = policy_from(tmp_path, "nope.conf")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "qop: nope.conf:1: there is no such file; check the path\n"
    done = policy_from(tmp_path, str(SAMPLES / "wg0.conf"), "--out", "no/where.yml")
    assert done.returncode == 2
    assert "qop: --out no/where.yml: cannot be written (No such file or directory)" in done.stderr
    done = policy_from(tmp_path, "x", "--kind", "wpa")
    assert done.returncode == 2 and "'wpa' is not one of 'hostapd'" in done.stderr


# Fuzzing


FRAGMENTS = sorted({line for path in SAMPLES.iterdir() for line in path.read_text().splitlines()})


NAMING = re.compile(r"\W*(?:option\s+|config\s+\S+\s+)?(?:ssid|name|id)2?\b", re.IGNORECASE)


def converts_or_explains(name: str, raw: bytes, **choices: Any) -> None:
    """A policy that loads, or one line."""
    try:
        made = convert_text(name, raw, **choices)
    except PolicyError as error:
        assert str(error).isprintable() and len(str(error)) < 900
        assert not SECRET.search(str(error))
    else:
        assert Policy.model_validate(made.policy.model_dump()) == made.policy
        assert all(line.isprintable() for line in made.notes)
        assert not SECRET.search("\n".join(made.notes))


@given(raw=st.binary(max_size=200) | st.text(max_size=200).map(str.encode),
       kind=st.sampled_from([None, *kinds.KINDS]))
def test_fuzz_any_content(raw: bytes, kind: str | None) -> None:
    """Any bytes, read as any kind."""
    converts_or_explains("x", raw, kind=kind)


@given(lines=st.lists(st.sampled_from(FRAGMENTS), max_size=25),
       kind=st.sampled_from([None, *kinds.KINDS]))
def test_fuzz_mixed_lines(lines: list[str], kind: str | None) -> None:
    """Lines of all samples in any order, read as any kind."""
    converts_or_explains("x", "\n".join(lines).encode(), kind=kind)


@given(data=st.data())
def test_fuzz_damaged_samples(data: st.DataObject) -> None:
    """Samples with bytes cut out or put in anywhere."""
    path = data.draw(st.sampled_from(sorted(SAMPLES.iterdir())))
    raw = path.read_bytes()
    start = data.draw(st.integers(0, len(raw)))
    end = data.draw(st.integers(start, min(start + 40, len(raw))))
    raw = raw[:start] + data.draw(st.binary(max_size=8)) + raw[end:]
    # A cut may make a network's name of a secret. The name is no secret, and messages have it.
    names = [line for line in raw.decode("utf-8", "replace").splitlines() if NAMING.match(line)]
    assume(not SECRET.search("\n".join(names)))
    converts_or_explains(path.name, raw, network=EXPECTED[path.name].network)


KEYS = st.sampled_from([
    "wpa", "wpa_key_mgmt", "rsn_pairwise", "wpa_pairwise", "ieee80211w", "ieee8021x", "sae_pwe",
    "sae_groups", "owe_groups", "okc", "pmk_r1_push", "group_mgmt_cipher", "beacon_prot", "ocv",
    "wep_key0", "wep_default_key", "wep_key_len_unicast", "auth_server_type", "eapol_version",
    "wpa_group_rekey", "ft_psk_generate_local", "disable_pmksa_caching", "sae_sync", "ssid2",
    "key_mgmt", "pairwise", "proto", "eap", "phase1", "phase2", "anonymous_identity", "identity",
    "macsec_policy", "macsec_integ_only", "eapol_flags", "fragment_size", "mode", "group"])
VALUES = st.sampled_from([
    "0", "1", "2", "3", "99999999999", "-1", "WPA-PSK", "WPA-EAP", "SAE", "WPA-PSK SAE", "FT-EAP",
    "FT-SAE FT-PSK", "OWE", "WPA-EAP-SUITE-B-192", "FILS-SHA256", "DPP", "NONE", "IEEE8021X",
    "CCMP", "TKIP", "GCMP-256", "TKIP CCMP", "19 20", "30", "BIP-GMAC-256", "TLS", "PEAP", "TTLS",
    "MD5", "AKA", "FAST", '"auth=PAP"', '"auth=CHAP"', "RSN", "WPA", '"anonymous"', "{{x}}",
    "0102030405", '"tls_disable_tlsv1_3=0"', '"peaplabel=1 x=y"', "", "\u2028", "a b"])


@given(pairs=st.lists(st.tuples(KEYS, VALUES), max_size=14), is_station=st.booleans())
def test_fuzz_settings(pairs: list[tuple[str, str]], is_station: bool) -> None:
    """Any values of the settings that decide on a policy, in any combination."""
    lines = [f"{key}={value}" for key, value in pairs]
    lines = ["network={", *lines, "}"] if is_station else ["ssid=x", *lines]
    converts_or_explains("x.conf", "\n".join(lines).encode())


def test_package_reads_no_file_of_the_project() -> None:
    """Conversion needs the policy models and the table of options, and nothing else."""
    assert not list((PROJECT / "policies" / "conversion").glob("*.yml"))
    assert policies.json_schema()
