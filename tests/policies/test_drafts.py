"""Drafts in other words than a policy's: each message leads to a valid file in two corrections."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

import policies
from conftest import PROJECT
from policies import PolicyError, load_policy
from policies.conversion.convert import convert_file
from policies.document import read_document
from policies.draft_reader import MODELS
from policies.policy import KNOWN_FACTS
from policies.vocabulary import (
    KEY_MANAGEMENTS,
    KEY_NAMES,
    LEFT_OUT,
    NOT_MEASURED,
    SECURITY,
    VALUE_WORDS,
    find_meaning,
    find_proposal,
    fold_word,
)

DRAFTS = Path(__file__).parent / "drafts"
#: Corrections that a user makes at most.
MOST = 2
#: What comes of a draft: layers with what matters in them.
WPA2_PSK = {"link": {"cipher": "CCMP", "keys": "psk"}}
WPA2_EAP = {"cipher": "CCMP", "keys": "eap"}
PEAP = {"eap": "PEAP", "inner": "MSCHAPV2"}
MEANT: Mapping[str, dict[str, Any]] = {
    # Drafts that were tried on qop before it knew other words (field reports W1 to W17).
    "w01-hostapd-conf": {"link": WPA2_EAP, "dot1x": PEAP},
    "w02-hostapd-as-yaml": {"link": {**WPA2_PSK["link"], "pmf": 1}},
    "w03-network-block": {"link": WPA2_EAP, "dot1x": PEAP},
    "w04-security": {"link": WPA2_EAP, "dot1x": PEAP},
    "w05-aes": WPA2_PSK,
    "w06-sha256": {"link": {**WPA2_EAP, "akm": "sha256", "pmf": 2}, "dot1x": PEAP},
    "w07-swanctl-words": {"ipsec": {"ike": 2, "ike_proposal": "aes256-sha256-curve25519",
                                    "esp_proposal": "aes256gcm16"}},
    "w08-wg-quick-words": {"wireguard": {"mtu": 1420, "keepalive": 25}},
    "w09-netplan": {"link": WPA2_EAP, "dot1x": {"eap": "TLS"}},
    "w10-uci-words": {"link": {"cipher": "CCMP", "keys": "sae", "pmf": 1, "roaming": "ft"}},
    "w11-none": {},
    "w12-json": WPA2_PSK,
    "w13-two-policies": {},
    "w14-required": {"link": {"cipher": "CCMP", "keys": "sae", "pmf": 2}},
    "w15-one-word-layers": {"link": WPA2_EAP, "dot1x": {"eap": "TLS"}},
    "w16-macsec": {"wire": {"macsec": "GCM-AES-128"}},
    "w17-identity": {"link": WPA2_EAP, "dot1x": {**PEAP, "identity": "anonymous"}},
    # Drafts as network engineers would write them without the schema.
    "d01-home": {"link": {"cipher": "CCMP", "keys": "sae", "pmf": 2, "roaming": "ft"}},
    "d02-campus": {"link": {**WPA2_EAP, "pmf": 1},
                   "dot1x": {"eap": "TTLS", "inner": "PAP", "identity": "anonymous"}},
    "d03-ipsec-conf-words": {"ipsec": {
        "ike": 2, "ike_proposal": "aes256-sha256-modp2048", "esp_proposal": "aes256-sha256"}},
    "d04-cnsa": {"link": {"cipher": "GCMP-256", "keys": "eap", "akm": "suite-b-192", "pmf": 2,
                          "group_mgmt": "BIP-GMAC-256"},
                 "dot1x": {"eap": "TLS", "tls": {"key": "p-384"}}},
    "d05-both-daemons": {"link": {**WPA2_EAP, "pmf": 1, "roaming": "ft", "ft_over_ds": 1},
                         "dot1x": PEAP},
    "d06-list-of-layers": {"link": {"cipher": "CCMP", "keys": "owe", "pmf": 2}, "wireguard": {}},
    "d07-tls-settings": {"link": {**WPA2_EAP, "akm": "sha256", "pmf": 2},
                         "dot1x": {"eap": "TLS", "tls": {"version": "1.3", "key": "p-256",
                                                         "fragment_bytes": 1000}}},
    "d08-macsec": {**WPA2_PSK, "wire": {"macsec": "GCM-AES-128"}},
    "d09-netplan-psk": WPA2_PSK,
    "d10-uci-layer": {"link": {**WPA2_PSK["link"], "options": {"hostapd": {
        "ignore_broadcast_ssid": 1, "wpa_group_rekey": 3600}}}},
    "d11-parts-of-a-proposal": {"ipsec": {
        "ike": 2, "ike_proposal": "aes256gcm16-prfsha384-ecp384", "esp_proposal": "aes256gcm16"}},
    "d12-one-word": {"link": WPA2_EAP, "dot1x": PEAP},
    "d13-radsec": {"link": {**WPA2_EAP, "pmf": 2, "roaming": "ft"},
                   "dot1x": {"eap": "TLS", "tls": {"version": "1.3"}, "transport": "radsec"}},
    "d14-transition": {"link": {"cipher": "CCMP", "keys": "sae", "pmf": 1,
                                "offered": ["SAE", "WPA-PSK"]}},
    "d15-nested-eap": {"link": {**WPA2_EAP, "pmf": 1}, "dot1x": {"eap": "TTLS", "inner": "PAP"}},
    "d16-misspelt": {"link": WPA2_EAP, "dot1x": PEAP},
    # Drafts with more than two mistakes of several kinds.
    "d17-vpn-with-eap": {"ipsec": {
        "ike": 2, "authentication": "eap-mschapv2", "mobike": 1, "dpd": 30,
        "ike_offered": ["aes256gcm16-prfsha384-ecp384", "aes256-sha256-modp2048"],
        "esp_accepted": ["aes256gcm16", "aes256-sha256"]}},
    "d18-xpn": {"wire": {"macsec": "GCM-AES-256", "replay_window": 64}},
    "d19-blast-radius": {"link": WPA2_EAP, "dot1x": {"eap": "PEAP", "inner": "GTC",
                                                     "transport": "radsec"}},
    "d20-product": {"link": {**WPA2_EAP, "pmf": 2, "roaming": "ft", "bss_transition": 1},
                    "dot1x": PEAP},
    "d21-teap": {"link": {**WPA2_EAP, "akm": "sha256", "pmf": 2},
                 "dot1x": {"eap": "PEAP", "inner": "TLS"}},
    "d22-roam": {"link": {**WPA2_PSK["link"], "roaming": "ft", "options": {"hostapd": {
        "wpa_group_rekey": 600, "ignore_broadcast_ssid": 1}}}},
    # Files in the style of controllers and of other programs.
    "d30-cloud-managed": {"link": {**WPA2_EAP, "akm": "sha256", "pmf": 2, "vlan": 30},
                          "dot1x": {**PEAP, "accounting": 1}},
    "d31-iwd-as-yaml": {"link": WPA2_EAP, "dot1x": {
        "eap": "TTLS", "inner": "PAP", "identity": "anonymous",
        "tls": {"realm": "uni.example", "server_name": "radius.uni.example"}}},
    "d32-interface-and-peers": {"wireguard": {"mtu": 1280, "keepalive": 25, "preshared_key": 1}},
    "d33-two-networks": {"link": WPA2_EAP, "dot1x": {"eap": "TLS"}},
    "d34-switches": {"link": {"cipher": "CCMP", "keys": "sae", "sae": "h2e", "roaming": "ft"}},
    "d35-nested-encryption": {"link": {
        **WPA2_PSK["link"], "passphrases": "by-device", "vlan": 10, "further_vlans": [20]}},
    "d36-security-profile": {"link": {
        "cipher": "CCMP", "keys": "sae", "pmf": 1, "roaming": "ft", "ft_over_ds": 1,
        "options": {"hostapd": {"wpa_group_rekey": 300}}}},
    "d37-post-quantum": {
        "link": {"cipher": "CCMP", "keys": "sae", "pmf": 2},
        "ipsec": {"ike": 2, "ike_proposal": "aes256gcm16-prfsha384-curve25519-ke1_mlkem768",
                  "esp_proposal": "aes256gcm16-curve25519"}},
    "d38-roaming-standards": {"link": {
        **WPA2_PSK["link"], "roaming": "ft", "neighbor_report": 1, "bss_transition": 1}},
    "d39-group-names": {"link": {
        "cipher": "CCMP", "keys": "sae", "pmf": 2, "group": 20, "station_groups": [20, 19],
        "beacon_protection": 1, "ocv": 1, "options": {"hostapd": {"wpa_group_rekey": 3600}}}},
    "d40-lists-everywhere": {
        "link": {**WPA2_EAP, "pmf": 1, "roaming": "ft",
                 "offered": ["FT-EAP", "WPA-EAP-SHA256", "WPA-EAP"]},
        "dot1x": {**PEAP, "tls": {"server_name": "a.uni.example"}}},
    "d41-numbers-of-methods": {
        "link": {"cipher": "GCMP-256", "keys": "eap", "akm": "suite-b-192", "pmf": 2,
                 "group_mgmt": "BIP-GMAC-256"}, "dot1x": {"eap": "TLS", "tls": {"key": "p-384"}}},
    # Lists of proposals, VLANs and groups; private passphrases; numbers in quotes.
    "d24-list-of-proposals": {"ipsec": {
        "ike": 2, "ike_proposal": "aes256-sha256-modp2048", "esp_proposal": "aes256-sha256",
        "ike_accepted": ["aes256-sha256-modp2048", "aes256gcm16-prfsha384-ecp384"]}},
    "d25-blocks-of-proposals": {"ipsec": {
        "ike": 2, "ike_proposal": "aes256-sha256-modp2048", "authentication": "psk",
        "ike_offered": ["aes256-sha256-modp2048", "aes128gcm16-prfsha256-ecp256"],
        "esp_offered": ["aes256-sha256", "aes128-sha1"], "mode": "transport"}},
    "d26-ikev1": {"ipsec": {"ike": 1, "ike_proposal": "aes256-sha512-modp4096",
                            "esp_proposal": "aes256-sha512-modp4096"}},
    "d27-private-passphrases": {"link": {
        **WPA2_PSK["link"], "passphrases": "by-device", "vlan": 20, "further_vlans": [30, 40],
        "options": {"hostapd": {"wpa_group_rekey": 3600}}}},
    "d28-quoted-numbers": {"link": {
        "cipher": "CCMP", "keys": "sae", "pmf": 2, "group": 19, "station_groups": [19, 20],
        "anti_clogging": 3}, "wireguard": {"mtu": 1380, "keepalive": 25}},
    "d29-macsec-mode": {"link": WPA2_EAP, "dot1x": {**PEAP, "tls": {"version": "1.3"}},
                        "wire": {"macsec": "GCM-AES-128", "encrypts": 0}},
    "d23-vpn-ends": {**WPA2_PSK, "ipsec": {"ike": 2, "ike_proposal": "aes256-sha256-modp2048",
                                           "authentication": "psk"}},
}


class ObedientUser:
    """Someone who does what a message says, and knows nothing else."""

    def __init__(self, file: Path) -> None:
        self.file, self.corrections = file, 0

    def correct(self, error: PolicyError) -> None:
        """Correct the file as the message says."""
        self.corrections += 1
        text = str(error).removeprefix(f"{self.file}:")
        if "./qop policy from" in text:
            assert f"'./qop policy from {self.file}'" in text
            self.file.write_text(convert_file(str(self.file)).text)
        elif "one policy a file" in text:
            [first, *_] = yaml.safe_load(self.file.read_text())
            self.write(first)
        else:
            # "(known: ...)" and "(and N more)" are no part of what is to be written.
            line = re.search(r"; (?:write|add) (.+?)(?: \(.*\))?$", text)[1]
            self.replace(yaml.safe_load(line), int(text.partition(":")[0]))

    def replace(self, part: dict[str, Any], line: int) -> None:
        """Write a part of the file anew: all of it, the block of the same name, or the line."""
        if "id" in part:
            self.write(part)
            return
        [[key, value]] = part.items()
        data = read_document(str(self.file)).data
        spots = [path for path, spot in read_document(str(self.file)).spots.items()
                 if path and spot.key_line == line]
        if key == "layers":
            data["layers"] = value
        elif key in policies.Layers.model_fields:
            wrong = next((path[1] for path in spots if len(path) > 1), key)
            data["layers"] = {key if name == wrong else name: value if name in (wrong, key) else old
                              for name, old in data["layers"].items()}
        else:
            path = next(path for path in spots if len(path) > 2)
            block = data["layers"][path[1]]
            for name in path[2:-1]:
                block = block[name]
            # In a block on one line, the key is the one of that name.
            block.pop(path[-1] if key not in block else key, None)
            block[key] = value
        self.write(data)

    def write(self, data: Any) -> None:
        """Write the whole file anew."""
        self.file.write_text(yaml.safe_dump(data, sort_keys=False))


def read_refusal(layers: str, tmp_path: Path) -> str:
    """Return the message on a policy with these layers, which is refused."""
    file = tmp_path / "x.yml"
    file.write_text(f"id: X\nname: a test\nlayers:\n  {layers}\n")
    with pytest.raises(PolicyError) as refused:
        load_policy(file)
    return str(refused.value)


def test_every_draft_is_meant_for_something() -> None:
    """No file without an expectation, and at least ten beside those of the field."""
    assert {path.stem for path in DRAFTS.iterdir()} == {*MEANT}
    assert sum(name.startswith("d") for name in MEANT) >= 10


@pytest.mark.parametrize("name", MEANT)
def test_draft_is_valid_after_two_corrections(name: str, tmp_path: Path) -> None:
    """A user who does what each message says has a valid policy, and the one that was meant."""
    [source] = DRAFTS.glob(f"{name}.*")
    file = tmp_path / source.name
    file.write_bytes(source.read_bytes())
    user = ObedientUser(file)
    while True:
        try:
            policy = load_policy(file)
        except PolicyError as error:
            assert str(error).isprintable()
            assert "hunter2" not in str(error)
            assert user.corrections < MOST, str(error)
            user.correct(error)
        else:
            break
    found = policy.layers.model_dump(exclude_none=True)
    for layer, fields in MEANT[name].items():
        assert found[layer].items() >= fields.items() or all(
            found[layer][key] == value if key != "tls" else found[layer][key].items() >=
            value.items() for key, value in fields.items() if key != "options")
    assert {*found} == {*MEANT[name]}


@pytest.mark.parametrize(("layers", "said"), [
    ("link: {cipher: AES, keys: psk}", "4: layers.link.cipher: 'AES' is CCMP; write cipher: CCMP"),
    ("link: {cipher: CCMP, keys: WPA3-SAE, pmf: 2}", "keys: 'WPA3-SAE' is cipher: CCMP, keys: sae"),
    ("link: {cipher: CCMP, keys: WPA-EAP-SHA256}\n  dot1x: {eap: TLS}",
     "'WPA-EAP-SHA256' is keys: eap, akm: sha256; write link: {cipher: CCMP, keys: eap, akm: sha2"),
    ("link: {cipher: CCMP, keys: sae, mfp: required}",
     "'mfp: required' is pmf: 2; write pmf: 2"),
    ("link: {cipher: CCMP, keys: psk, roaming: 802.11r}", "'802.11r' is ft; write roaming: ft"),
    ("link: {cipher: CCMP, keys: psk, fast_transition: 1}", "is roaming: ft; write roaming: ft"),
    ("link: {cipher: CCMP, keys: eap}\n  dot1x: {eap: PEAP-MSCHAPv2}",
     "'PEAP-MSCHAPv2' is eap: PEAP, inner: MSCHAPV2; write dot1x: {eap: PEAP, inner: MSCHAPV2}"),
    ("link: {cipher: CCMP, keys: eap}\n  dot1x: {eap: EAP-TTLS/PAP}",
     "'EAP-TTLS/PAP' is eap: TTLS, inner: PAP; write dot1x: {eap: TTLS, inner: PAP}"),
    ("link: {cipher: CCMP, keys: eap}\n  dot1x: {eap: TTLS, inner: auth=PAP}",
     "'auth=PAP' is PAP; write inner: PAP"),
    ("strongswan: {version: 2, proposals: aes256-sha256-x25519, esp_proposals: aes256gcm16}",
     "'strongswan' is called ipsec, "),
    ("ikev2: aes256-sha256-modp2048", "write ipsec: {ike: 2, ike_proposal: aes256-sha256-modp2048"),
    ("macsec: on", "'macsec' is called wire"),
    ("wg: {}", "'wg' is called wireguard; write wireguard: {}"),
    ("link: WPA3-Enterprise 192-bit", "akm: suite-b-192, group_mgmt: BIP-GMAC-256}, dot1x: {eap: "),
    ("ipsec: {ike: IKEv2, ike_proposal: aes128-sha256-ecp256, esp_proposal: aes128-sha256}",
     "ike: 'IKEv2' is 2; write ike: 2"),
    ("link: {cipher: CCMP, keys: psk, ssid: x}",
     "'ssid' comes from the scenario; write link: {cipher: CCMP, keys: psk}"),
    ("link: {cipher: CCMP, keys: psk, passphrase: hunter2}",
     "'passphrase' is a secret that qop makes itself; write link: {cipher: CCMP, keys: psk}"),
    ("link: {cipher: CCMP, keys: psk, wmm_enabled: 1}", "'wmm_enabled' comes from the medium; wr"),
    ("link: {cipher: CCMP, keys: psk, wps_state: 2}", "'wps_state' is not measured here; wr"),
    ("link: {cipher: CCMP, keys: psk, ieee80211k: 1}",
     "'ieee80211k' is called neighbor_report; write neighbor_report: 1"),
    ("link: {cipher: CCMP, keys: psk, rrm_neighbor_report: yes}",
     "'rrm_neighbor_report: yes' is neighbor_report: 1; write neighbor_report: 1"),
    ("link: {cipher: CCMP, keys: psk, 802.11v: on}",
     "'802.11v: on' is bss_transition: 1; write bss_transition: 1"),
    ("link: {cipher: CCMP, keys: psk, ieee80211v: 1}",
     "'ieee80211v' is called bss_transition; write bss_transition: 1"),
    ("link: {cipher: TKIP+AES, keys: psk}", "write link: {cipher: CCMP, keys: psk, group_"),
    ("link: {cipher: CCMP, keys: hunter2hunter2}", "this value is not known; write one of: static"),
])
def test_message_has_the_right_word_and_the_corrected_line(layers: str, said: str,
                                                           tmp_path: Path) -> None:
    """One mistake: one line, which can be copied."""
    assert said in read_refusal(layers, tmp_path)


EAP_TLS = "link: {cipher: CCMP, keys: eap}\n  dot1x: {eap: TLS, "
IKE = "ipsec: {ike: 2, esp_proposal: aes128-sha256, mobike: 1, "
#: Settings that were called not measured, or were weakened, although a field has them.
NAMED_FIELDS: list[tuple[str, str, dict[str, Any]]] = [
    (EAP_TLS + "ocsp: 1}", "'ocsp' is revocation: ocsp", {
        "dot1x": {"eap": "TLS", "tls": {"revocation": "ocsp"}}}),
    (EAP_TLS + "check_crl: yes}", "'check_crl' is revocation: crl", {
        "dot1x": {"eap": "TLS", "tls": {"revocation": "crl"}}}),
    (EAP_TLS + "tls: {crl: true}}", "'crl' is revocation: crl", {
        "dot1x": {"eap": "TLS", "tls": {"revocation": "crl"}}}),
    ("link: {cipher: CCMP, keys: eap}\n  dot1x: {eap: PEAP, inner: MSCHAPV2, ocsp: 1}",
     "'revocation' is left out: revocation is about certificates of stations", {"dot1x": PEAP}),
    *((EAP_TLS + f"{key}: '{value}'}}", f"is tls.{field}: {meant}" if value != meant
       else f"'{key}' is called tls.{field}", {"dot1x": {"tls": {field: meant}}})
      for key, value, field, meant in (
          ("domain_match", "radius.uni.example", "server_name", "radius.uni.example"),
          ("server_name", "Radius.Uni.example", "server_name", "radius.uni.example"),
          ("altsubject_match", "DNS:radius.uni.example", "server_name", "radius.uni.example"),
          ("subject_match", "/C=AT/CN=radius.uni.example", "server_name", "radius.uni.example"),
          ("server_name", "*.uni.example", "server_domain", "uni.example"),
          ("domain_suffix_match", "uni.example", "server_domain", "uni.example"),
          ("domain", "uni.example", "server_domain", "uni.example"))),
    (EAP_TLS + "tls: {domain_match: radius.uni.example}}", "'domain_match' is called",
     {"dot1x": {"tls": {"server_name": "radius.uni.example"}}}),
    (EAP_TLS + "domain_match: a.example;b.example}", "is several where a policy has one",
     {"dot1x": {"tls": {"server_name": "a.example"}}}),
    ("link: {cipher: CCMP, keys: psk, domain_match: radius.uni.example}",
     "'domain_match' is left out: it is server_name of layers.dot1x.tls", {}),
    (EAP_TLS + "vlan: 20}", "'vlan' is called vlan of link", {"link": {"vlan": 20}}),
    ("link: {cipher: CCMP, keys: eap, dynamic_vlan: 1, vlan_id: 7}\n  dot1x: {eap: TLS}",
     "'vlan_id' is called vlan", {"link": {"vlan": 7}}),
    (EAP_TLS + "radius_require_message_authenticator: yes}", "message_authenticator: required",
     {"dot1x": {"message_authenticator": "required"}}),
    (EAP_TLS + "acct_server_addr: 10.0.0.1}", "'acct_server_addr' is accounting: 1",
     {"dot1x": {"accounting": 1}}),
    (EAP_TLS.replace("TLS, ", "PEAP, inner: MSCHAPV2, anonymous_identity: anonymous@uni.example}"),
     "is identity: anonymous, tls.realm: uni.example",
     {"dot1x": {"identity": "anonymous", "tls": {"realm": "uni.example"}}}),
    (EAP_TLS + "phase1: peaplabel=1}", "tls.version has its versions of TLS", {}),
    (EAP_TLS + "realm: uni.example}", "'realm' is called tls.realm",
     {"dot1x": {"tls": {"realm": "uni.example"}}}),
    (IKE + "ike_proposal: aes128-sha256-ecp256, dpd_delay: 30s}", "'dpd_delay: 30s' is dpd: 30",
     {"ipsec": {"dpd": 30}}),
    (IKE + "ike_proposals: [aes128-sha256-ecp256, aes256-sha256-modp2048]}",
     "all of them are ike_offered and ike_accepted",
     {"ipsec": {"ike_proposal": "aes128-sha256-ecp256",
                "ike_offered": ["aes128-sha256-ecp256", "aes256-sha256-modp2048"],
                "ike_accepted": ["aes128-sha256-ecp256", "aes256-sha256-modp2048"]}}),
    (IKE + "proposals: 'aes128-sha256-ecp256, aes256-sha512-modp8192'}",
     "'aes256-sha512-modp8192' is not measured here",
     {"ipsec": {"ike_proposal": "aes128-sha256-ecp256"}}),
    ("link: {cipher: CCMP, keys: psk, wpa_psk_file: /etc/psk}",
     "'wpa_psk_file' is passphrases: by-device", {"link": {"passphrases": "by-device"}}),
    ("link: {encryption: sae-mixed, ieee80211r: 1}", "several key managements",
     {"link": {"keys": "sae", "pmf": 1, "roaming": "ft",
               "offered": ["SAE", "WPA-PSK", "FT-PSK", "FT-SAE"]}}),
    ("link: {cipher: GCMP, keys: psk, group: CCMP}", "'group: CCMP' is group_cipher: CCMP",
     {"link": {"group_cipher": "CCMP"}}),
    ("link: {cipher: CCMP, keys: owe, pmf: 2, owe_transition_ssid: open}",
     "'owe_transition_ssid' is left out: it follows from layers.link.owe_transition", {}),
    ("link: {cipher: CCMP, keys: sae, pmf: 2, transition_disable: 1}",
     "'transition_disable' is an option of hostapd",
     {"link": {"options": {"hostapd": {"transition_disable": 1}, "wpa_supplicant": {}}}}),
    ("link: {cipher: CCMP, keys: psk, dpd_delay: 30}",
     "'dpd_delay' is left out: it is dpd of layers.ipsec", {}),
    ("link: {cipher: CCMP, keys: psk, bgscan: 'simple:5:-70:60'}",
     "'bgscan' is left out: a scenario's roaming has it", {}),
    ("macsec: {cipher: GCM-AES-256, replay_window: 32, xpn: true, key: eap}",
     "'xpn' is left out: wpa_supplicant has no suite with XPN",
     {"wire": {"macsec": "GCM-AES-256", "replay_window": 32}}),
    ("macsec: {cipher: GCM-AES-128, xpn: true, key: eap}",
     ("'xpn' is left out: wpa_supplicant has no suite with XPN, key: eap is left out: a "
      "key (CAK) from EAP is not measured here"), {"wire": {"macsec": "GCM-AES-128"}}),
    ("macsec: {cipher: GCM-AES-128, integ_only: 1, replay-window: 5}",
     "'integ_only' is encrypts: 0",
     {"wire": {"encrypts": 0, "replay_window": 5}}),
    ("link: {cipher: CCMP, keys: eap}\n  dot1x: {eap: TTLS, phase2: auth=CHAP}",
     "'phase2: auth=CHAP' is inner: CHAP", {"dot1x": {"inner": "CHAP"}}),
    *[(IKE.replace("esp_proposal: aes128-sha256, ", "")
       + f"ike_proposal: aes128-sha256-ecp256, esp_proposals: {proposals}}}",
       "all of them are esp_offered and esp_accepted",
       {"ipsec": {"esp_proposal": "aes256gcm16", "esp_offered": ["aes256gcm16", "aes256-sha256"],
                  "esp_accepted": ["aes256gcm16", "aes256-sha256"]}})
      for proposals in ("'aes256gcm16, aes256-sha256'", "[aes256gcm16, aes256-sha256]")],
    # Options that several keys mean, and those in a policy's own words.
    *[(f"link: {{cipher: CCMP, keys: {keys}}}", said,
       {"link": {"options": {"hostapd": hostapd, "wpa_supplicant": supplicant}}})
      for keys, said, hostapd, supplicant in (
          ("sae, pmf: 2, wpa_group_rekey: 600, sae_pwe: 2", "option sae_pwe: 2",
           {"wpa_group_rekey": 600, "sae_pwe": 2}, {"sae_pwe": 2}),
          ("psk, wpa_group_rekey: 600, hidden: yes", "option ignore_broadcast_ssid",
           {"wpa_group_rekey": 600, "ignore_broadcast_ssid": 1}, {}),
          ("psk, hidden: yes, wpa_group_rekey: 600", "option ignore_broadcast_ssid",
           {"wpa_group_rekey": 600, "ignore_broadcast_ssid": 1}, {}),
          ("psk, hidden: yes, options: {hostapd: {wpa_group_rekey: 600}}",
           "option ignore_broadcast_ssid", {"wpa_group_rekey": 600, "ignore_broadcast_ssid": 1},
           {}),
          ("sae, pmf: 2, sae_pwe: 2, options: {hostapd: {wpa_group_rekey: 600}}",
           "option sae_pwe: 2", {"wpa_group_rekey": 600, "sae_pwe": 2}, {"sae_pwe": 2}),
          ("psk, wpa_group_rekey: 600, options: {hostapd: {wpa_strict_rekey: 1}}",
           "is an option of hostapd", {"wpa_group_rekey": 600, "wpa_strict_rekey": 1}, {}))],
]


NAMED_FIELDS += [
    # Lists, and words for a field of a list.
    ("link: {cipher: CCMP, keys: psk, ppsk: true}", "'ppsk: true' is passphrases: by-device",
     {"link": {"passphrases": "by-device"}}),
    ("link: {cipher: CCMP, keys: mpsk}", "'mpsk' is keys: psk, passphrases: by-device",
     {"link": {"passphrases": "by-device"}}),
    (EAP_TLS.replace("eap}", "eap, vlan: [20, 30]}").rstrip(", ") + "}",
     "'20 30' is vlan of the first station, and further_vlans of the others",
     {"link": {"vlan": 20, "further_vlans": [30]}}),
    (EAP_TLS + "vlans: '20, 30'}", "is vlan of the first station",
     {"link": {"vlan": 20, "further_vlans": [30]}}),
    (EAP_TLS.replace("eap}", "eap, vlan: 20, further_vlans: 30}").rstrip(", ") + "}",
     "'30' stands where a list belongs; write further_vlans: [30]",
     {"link": {"further_vlans": [30]}}),
    ("link: {cipher: CCMP, keys: sae, pmf: 1, accepted: SAE}",
     "'SAE' stands where a list belongs; write accepted: [SAE]", {"link": {"accepted": ["SAE"]}}),
    ("link: {cipher: CCMP, keys: sae, mfp: 1, offered: [sae, wpa-psk]}",
     "'sae wpa-psk' is SAE, WPA-PSK", {"link": {"offered": ["SAE", "WPA-PSK"]}}),
    ("link: {cipher: CCMP, keys: sae, pmf: 2, station_groups: 20}",
     "'20' stands where a list belongs", {"link": {"group": 20, "station_groups": [20]}}),
    (IKE + "ike_proposal: aes128-sha256-ecp256, keepalive: '20', dpd_delay: 30}",
     "'20' is text, where a number belongs", {"ipsec": {"keepalive": 20, "dpd": 30}}),
    ("ipsec: {ike: 2, proposals: aes128-sha256-ecp256, dpd: 30}",
     ("'dpd' is left out: it is measured behind a router with NAT, and a policy for that has "
      "mobike: 1 and dpd: 30"), {"ipsec": {"ike_proposal": "aes128-sha256-ecp256"}}),
    ("ipsec: {version: 2, ike: aes128-sha256-ecp256, dpd: 30, mobike: no}",
     "'dpd' is left out: it is measured behind a router with NAT", {"ipsec": {"mobike": 0}}),
    ("ipsec: {ike: 2, encryption: [aes256, aes128], integrity: sha256, dh: [ecp256, modp2048]}",
     "encryption: aes128 and dh: modp2048 are left out: a proposal has one algorithm of a kind",
     {"ipsec": {"ike_proposal": "aes256-sha256-ecp256"}}),
    ("link: {keys: wpa2-psk, offered: [wpa2, wpa3]}", "'wpa2 wpa3' is WPA-PSK, SAE",
     {"link": {"keys": "psk", "pmf": 1, "offered": ["WPA-PSK", "SAE"]}}),
    # Blocks in place of values.
    (IKE + "ike_proposal: aes128-sha256-ecp256, dpd: {delay: 30, action: restart}}",
     "'action' is not known", {"ipsec": {"dpd": 30, "mobike": 1}}),
    ("tunnel: {type: wireguard, mtu: '1400'}", "'tunnel' is called wireguard",
     {"wireguard": {"mtu": 1400}}),
    ("wire: MACsec-256", "write wire: {macsec: GCM-AES-256}", {"wire": {"macsec": "GCM-AES-256"}}),
    (EAP_TLS + "certificate: {type: ecdsa, curve: p384, expired: false}}",
     "'certificate' is no block of keys here", {"dot1x": {"tls": {"key": "p-384"}}}),
    # What other components or faults have.
    (EAP_TLS + "certificate: expired}",
     "policies have valid certificates of one authority, and 'run --fault' others",
     {"dot1x": {"eap": "TLS"}}),
    (EAP_TLS + "tls: {certificate: revoked}}", "tls.revocation: crl or ocsp has the server refuse",
     {"dot1x": {"tls": {"revocation": "crl"}}}),
    (EAP_TLS + "ca_cert: self-signed}", "and 'run --fault' others", {"dot1x": {"eap": "TLS"}}),
    (EAP_TLS.replace("TLS, ", "PEAP, inner: MSCHAPV2, phase1: tls_disable_tlsv1_3=0}"),
     "'phase1: tls_disable_tlsv1_3=0' is tls.version: 1.3, of both station and server",
     {"dot1x": {"tls": {"version": "1.3"}}}),
    ("macsec: {cipher: GCM-AES-128, mode: encrypt}", "'mode: encrypt' is encrypts: 1",
     {"wire": {"encrypts": 1}}),
    # Words that looked like others, were called secrets or another component's, or were dropped.
    (EAP_TLS.replace("eap}", "eap, roaming: ft, ft_over_air: yes}").rstrip(", ") + "}",
     "'ft_over_air' is what fast transition does without ft_over_ds", {"link": {"roaming": "ft"}}),
    (EAP_TLS.replace("eap}", "eap, roaming: ft, ft_over_air: no}").rstrip(", ") + "}",
     "'ft_over_air' is ft_over_ds: 1", {"link": {"ft_over_ds": 1}}),
    ("link: {cipher: CCMP, keys: SAE-PK}",
     "'SAE-PK'", {"link": {"keys": "sae", "sae": "pk", "pmf": 2}}),
    (EAP_TLS + "ocsp: yes, crl: yes}", "'ocsp' is left out: another key says tls.revocation: crl",
     {"dot1x": {"tls": {"revocation": "crl"}}}),
    (EAP_TLS + "tls_min_version: '1.2', tls_max_version: '1.3'}",
     "'tls_min_version' is left out: another key says tls.version: 1.3",
     {"dot1x": {"tls": {"version": "1.3"}}}),
    (EAP_TLS + "tls: {max_version: '1.3', min_version: '1.2'}}",
     "'min_version' is left out: another key says tls.version: 1.3",
     {"dot1x": {"tls": {"version": "1.3"}}}),
    (EAP_TLS + "chain: 3, key: RSA-4096}", "'key: RSA-4096' is tls.key: rsa-4096",
     {"dot1x": {"tls": {"chain": 3, "key": "rsa-4096"}}}),
    (EAP_TLS + "tls: {curve: secp384r1}}", "'curve: secp384r1' is tls.key: p-384",
     {"dot1x": {"tls": {"key": "p-384"}}}),
    ("link: {cipher: CCMP, keys: psk, width: 80, qos: on, wmm: on}",
     "'width', 'qos' and 'wmm' come from the medium", {}),
    ("wireguard: {MTU: 9000, PersistentKeepalive: 25}",
     "MTU: 9000 is no value of mtu (576 to 1440)", {"wireguard": {"keepalive": 25}}),
    ("wire: {macsec: GCM-AES-XPN-256, replay_window: '64', encrypt: true}",
     "'GCM-AES-XPN-256' is not measured here (GCM-AES-256 is), as wpa_supplicant has no suite",
     {"wire": {"macsec": "GCM-AES-256", "replay_window": 64, "encrypts": 1}}),
    ("link: {cipher: CCMP, keys: psk, key_mgmt: SAE}",
     "'key_mgmt' is left out: another key says keys: psk", {"link": {"keys": "psk"}}),
    ("link: {cipher: CCMP, keys: psk, roaming: hand, ssid: x}",
     "'hand' is no value of roaming (ft, ft-pull, okc, pmksa, fils)", {}),
    ("link: {cipher: CCMP, keys: WPA-EAP, pmf: requierd, akm: sah256}\n  dot1x: {eap: TLS}",
     "pmf: 'requierd' is taken for 2, akm: 'sah256' is taken for sha256",
     {"link": {"pmf": 2, "akm": "sha256"}}),
    (("link: {cipher: CCMP, keys: psk, options: {hostapd: {wpa_group_rekey: 600}}}\n  "
      "wifi: {options: {hostapd: {wpa_strict_rekey: 1}}}"), "'wifi' is called link",
     {"link": {"options": {"hostapd": {"wpa_group_rekey": 600, "wpa_strict_rekey": 1},
                           "wpa_supplicant": {}}}}),
    ("link: {cipher: CCMP, keys: psk, group_rekey: 600}", "hostapd's option wpa_group_rekey",
     {"link": {"options": {"hostapd": {"wpa_group_rekey": 600}, "wpa_supplicant": {}}}}),
    (EAP_TLS.replace("TLS, ", "PEAP, accounting: {server: 10.0.0.1, interim: 60}}"),
     "'interim' is not known", {"dot1x": {**PEAP, "accounting": 1}}),
    (EAP_TLS.replace("keys: eap", "keys: WPA-EAP-SHA256").replace("TLS, ", "TEAP}"),
     "'TEAP' is not measured here (PEAP is)", {"link": {"akm": "sha256"}, "dot1x": PEAP}),
    ("vpn: {local: {auth: eap-mschapv2}, remote: {auth: pubkey}, proposals: aes128-sha256-ecp256}",
     "'auth' is called authentication", {"ipsec": {"authentication": "eap-mschapv2"}}),
    (("vpn: {type: ikev2, left: {ike: aes256-sha256-modp2048}, right: {ike: aes128-sha1-modp1024}, "
      "dpd: 30}"), "'ike' is left out: another key says ike_proposal: aes256-sha256-modp2048",
     {"ipsec": {"ike": 2, "ike_proposal": "aes256-sha256-modp2048"}}),
]


@pytest.mark.parametrize(("layers", "said"), [
    ("link: {cipher: CCMP, keys: WPA-EAP-SHA256, isolashun: 1}\n  dot1x: {eap: TLS}",
     "'isolashun' is not known; write link: {cipher: CCMP, keys: eap, akm: sha256}"),
    ("link: {cipher: CCMP, keys: WPA-EAP-SHA256, grup: 600}\n  dot1x: {eap: TLS}",
     "'grup' is not known; write link: {cipher: CCMP, keys: eap, akm: sha256}"),
    *[(f"link: {{cipher: CCMP, keys: {word}, roaming: 3}}\n  dot1x: {{eap: 5}}", said)
      for word, said in {
          "WPA-EAP-SHA256": "write layers: {link: {cipher: CCMP, keys: eap, akm: sha256}, dot1x: {",
          "FT-EAP": "write layers: {link: {cipher: CCMP, keys: eap, roaming: ft}, dot1x: {",
          "WPA-PSK-SHA256": "is keys: psk, akm: sha256; write keys: psk and akm: sha256 (known",
          "WPA-EAP-SUITE-B-192": "write layers: {link: {cipher: GCMP-256, keys: eap, pmf: 2, akm: "
          "suite-b-192, group_mgmt: BIP-GMAC-256}, dot1x: {eap: TLS"}.items()],
    ("dot1x: {eap: PEAP/GTC}\n  link: {cipher: CCMP, keys: 3}",
     "write layers: {link: {cipher: CCMP, keys: eap}, dot1x: {eap: PEAP, inner: GTC}}"),
])
def test_word_beside_an_unknown_one_has_its_whole_meaning(layers: str, said: str,
                                                          tmp_path: Path) -> None:
    """A message that leaves out a part of the meaning would lead to a weaker policy."""
    assert said in read_refusal(layers, tmp_path)


@pytest.mark.parametrize(("layers", "said", "meant"), NAMED_FIELDS)
def test_message_names_the_field_that_exists(layers: str, said: str, meant: dict[str, Any],
                                             tmp_path: Path) -> None:
    """A setting with a field is never called not measured, and nothing is weakened silently."""
    file = tmp_path / "x.yml"
    data = {"id": "X", "name": "a test", "layers": yaml.safe_load(layers.replace("\n  ", "\n"))}
    file.write_text(yaml.safe_dump(data, sort_keys=False))  # with a line for each key
    with pytest.raises(PolicyError) as refused:
        load_policy(file)
    assert said in str(refused.value)
    ObedientUser(file).correct(refused.value)
    found = load_policy(file).layers.model_dump(exclude_none=True)
    for layer, fields in meant.items():
        for key, value in fields.items():
            assert found[layer][key] == value or found[layer][key].items() >= value.items()


def test_everything_that_the_corrected_line_lacks_is_named(tmp_path: Path) -> None:
    """However many mistakes there are, none that weakens the policy is among "and N more"."""
    file = tmp_path / "x.yml"
    file.write_text("""\
id: X
name: a test
layers:
  wifi: {encryption: sae-mixed, ieee80211r: 1, ssid: x, key: hunter2, wps_state: 2, uapsd: 1}
  macsec: {cipher: GCM-AES-256, replay_window: 32, xpn: true, key: eap, validate: strict}
""")
    with pytest.raises(PolicyError) as refused:
        load_policy(file)
    for lost in ("'xpn' is left out", "key: eap is left",
                 "'wps_state', 'uapsd' and 'validate' are not measured here"):
        assert lost in str(refused.value)


#: Keys without a field, by the layer they stand in. Each was compared with policies/schema.json.
_WITHOUT_FIELD = frozenset(map(fold_word, (
    "post-up", "post-down", "pre-up", "pre-down", "save-config", "dpd-action", "dpd-timeout",
    "rekey", "rekey-time", "reauth-time", "life-time", "lifetime", "ike-lifetime", "encap",
    "fragmentation", "start-action", "close-action", "ieee80211be", "uapsd", "validate",
    "wps-state", "wps", "rate-limit", "qos", "band-steering", "mac-filter")))


def test_no_other_key_is_called_not_measured() -> None:
    """A new field needs its words in the table: what has one is not among those without."""
    for layer, names in KEY_NAMES.items():
        unmeasured = {key for key, name in names.items() if name == LEFT_OUT + NOT_MEASURED}
        assert unmeasured <= _WITHOUT_FIELD, layer
    fields = {fold_word(name) for model in MODELS.values() for name in model.model_fields}
    assert not fields & _WITHOUT_FIELD


def test_drafts_are_refused_not_accepted(tmp_path: Path) -> None:
    """A policy has one word for a thing: a file with another is never loaded as it is."""
    for path in DRAFTS.iterdir():
        if path.stem == "w12-json":  # is YAML, and in a policy's words
            continue
        with pytest.raises(PolicyError):
            load_policy(path)


def test_own_words_of_a_policy_are_never_synonyms_of_others() -> None:
    """Each word that a field has means itself, so that no correct file is corrected."""
    for field, words in KNOWN_FACTS.items():
        for word in words:
            meaning = find_meaning(field, word)
            assert meaning is None or str(meaning.get(field)) == word, (field, word)


def test_meanings_are_fields_that_a_policy_has() -> None:
    """Every translation of the table is one that the loader knows."""
    for table in (*VALUE_WORDS.values(), SECURITY, KEY_MANAGEMENTS):
        for fields in table.values():
            for name, value in fields.items():
                layer, *inside = name.split(".")
                block = policies.Layers.model_fields[layer].annotation
                assert name == "link.options" or str(value) in KNOWN_FACTS.get(name, ()) or (
                    inside and block is not None), name


@pytest.mark.parametrize(("written", "ike", "esp"), [
    ("aes256-sha256-x25519", "aes256-sha256-curve25519", "aes256-sha256-curve25519"),
    ("aes256-sha2_256-modp2048!", "aes256-sha256-modp2048", "aes256-sha256-modp2048"),
    ("aes256gcm-sha384-ecp384", "aes256gcm16-prfsha384-ecp384", "aes256gcm16-ecp384"),
    ("aes256-aes128-sha256-sha1-modp2048-modp1024", "aes256-sha256-modp2048",
     "aes256-sha256-modp2048"),
    ("aes128-sha256-prfsha256-modp3072", "aes128-sha256-modp3072", "aes128-sha256-modp3072"),
    ("aes128-sha256-prfsha512-modp3072", None, "aes128-sha256-modp3072"),
    ("aes256-sha512-x448", None, None),
    ("aes256-sha512-p521", "aes256-sha512-ecp521", "aes256-sha512-ecp521"),
    ("camellia256-sha256-modp2048", None, None),
    ("aes256gcm16-noesn", None, "aes256gcm16"), ("", None, None), ("sha256", None, None),
    ("aes256gcm16-prfsha384-x25519-ke1_mlkem768",
     "aes256gcm16-prfsha384-curve25519-ke1_mlkem768", None)])
def test_proposals_in_other_keywords(written: str, ike: str | None, esp: str | None) -> None:
    """Aliases of strongSwan and other programs; never another algorithm in place of one."""
    assert find_proposal(written, is_ike=True) == ike
    if esp is not None:
        assert find_proposal(written, is_ike=False) == esp


@pytest.mark.parametrize(("written", "ike"), [
    ("aes256-sha256-x448-modp2048", "aes256-sha256-modp2048"), ("aes256-sha256-x448", None),
    ("camellia256-aes128-sha256-modp2048", "aes128-sha256-modp2048"),
    ("aes256-sha256-prfaesxcbc-modp2048", None),
    ("aes256-sha256-modp2048-esn", "aes256-sha256-modp2048"),
    ("aes256-sha256-modp2048-ke1_ecp384", None)])
def test_algorithm_that_is_not_there_is_skipped_beside_another_of_its_kind(
        written: str, ike: str | None) -> None:
    """Where a configuration offers several; nothing is taken in place of the only one."""
    assert find_proposal(written, is_ike=True, skips_unknown=True) == ike
    assert find_proposal(written, is_ike=True) is None


def test_examples_and_own_policies_need_no_correction() -> None:
    """What is valid is loaded as ever."""
    for path in (*(PROJECT / "policies").glob("[MP]*.yml"), *(PROJECT / "examples").glob("*.yml")):
        load_policy(path)


WORDS = st.sampled_from([
    "AES", "WPA2-PSK", "WPA-EAP FT-EAP", "required", "ft", "802.11r", "PEAP-MSCHAPv2", "psk sae",
    "suite-b", "1.3", "aes256-sha256-x25519", "wireguard", "hunter2", "none",
    "open"]) | st.integers(0, 30) | st.booleans() | st.none() | st.text(max_size=6)
KEYS = st.sampled_from([
    "wifi", "link", "security", "cipher", "keys", "wpa_key_mgmt", "ieee80211w", "pmf", "okc", "ft",
    "eap", "phase2", "inner", "dot1x", "tls", "version", "ipsec", "proposals", "encryption", "ike",
    "dh_group", "macsec", "wireguard", "PrivateKey", "MTU", "ssid", "passphrase", "hidden", "key",
    "802.1x", "options", "hostapd", "id", "name", "layers", "sae_pwe", "group", "auth", "mode"])
BLOCKS = st.recursive(WORDS, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(
    KEYS, inner, max_size=5), max_leaves=12)


@given(data=st.dictionaries(KEYS, BLOCKS, min_size=1, max_size=5))
def test_fuzz_drafts(data: dict[str, Any], tmp_path: Path) -> None:
    """Whatever stands where, there is one line; and what it says to write for a file is valid."""
    file = tmp_path / "fuzz.yml"
    file.write_text(yaml.safe_dump(data, sort_keys=False, allow_unicode=True))
    try:
        load_policy(file)
    except PolicyError as error:
        text = str(error)
        assert text.isprintable() and len(text) < len(str(file)) + 1400
        line = re.search(r"; write (\{id: .*\})$", text)
        if line:
            again = tmp_path / "again.yml"
            again.write_text(line[1])
            load_policy(again)


@given(word=st.text(max_size=12), field=st.sampled_from([*VALUE_WORDS]))
def test_fuzz_words(word: str, field: str) -> None:
    """Any word has a meaning or none."""
    assert isinstance(fold_word(word), str)
    meaning = find_meaning(field, word)
    assert meaning is None or all("." in name for name in meaning)
