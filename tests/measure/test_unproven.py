"""What no check shows is named: options, and fields that pass encrypted or are not read."""

from __future__ import annotations

from typing import Any

import pytest

from conftest import PROJECT
from measure.checks import key_management
from measure.records import judgement
from measure.records.record import CheckRecord
from policies import (
    AaaLayer,
    Dot1xLayer,
    LinkLayer,
    Policy,
    TlsSettings,
    alternatives,
    load_named,
    load_policy,
    policy_ids,
)
from policies.layers import IpsecLayer, Layers, MptcpLayer, QuicLayer, WireGuardLayer, WireLayer
from policies.options import DAEMONS, load_options


def _said(**layers: Any) -> list[str]:
    return [setting.description for setting in judgement.unchecked_settings(
        Policy.model_validate({"id": "X", "name": "X", "layers": layers}))]


SAE_LINK = {"cipher": "CCMP", "keys": "sae", "pmf": 1}
IPSEC = {"ike": 2, "ike_proposal": "aes128-sha256-ecp256", "esp_proposal": "aes128-sha256"}


@pytest.mark.parametrize(("layers", "said"), [
    ({"link": {**SAE_LINK, "offered": ["SAE", "WPA-PSK"], "accepted": ["SAE"]}}, []),
    ({"link": {**SAE_LINK, "offered": ["SAE", "WPA-PSK"], "accepted": ["SAE", "WPA-PSK"]}},
     ["further values of link.accepted (WPA-PSK)"]),
    ({"link": {**SAE_LINK, "station_groups": [21, 20, 19]}}, []),
    ({"link": {**SAE_LINK, "station_groups": [21, 19, 20], "access_point_groups": [19, 20]}},
     ["further values of link.station_groups (20)",
      "further values of link.access_point_groups (20)"]),
    ({"link": {**SAE_LINK, "anti_clogging": 0}}, ["further values of link.anti_clogging (0)"]),
    ({"ipsec": {**IPSEC, "esp_offered": ["aes128-sha256"]}}, []),
    ({"ipsec": {**IPSEC, "esp_offered": ["aes256gcm16", "aes128-sha256"],
                "esp_accepted": ["aes128-sha256", "3des-md5"],
                "ike_accepted": ["aes128-sha256-ecp256", "aes256-sha256-modp2048"]}},
     ["further values of ipsec.ike_accepted (aes256-sha256-modp2048)",
      "further values of ipsec.esp_offered (aes256gcm16)",
      "further values of ipsec.esp_accepted (3des-md5)"]),
    ({"ipsec": {**IPSEC, "esp_proposal": "aes128-sha256-ecp256"}},
     ["the group in ipsec.esp_proposal (ecp256)"])])
def test_what_no_attempt_shows_is_named(layers: dict[str, Any], said: list[str]) -> None:
    """Frames and kernels show what both ends agree on. A study without attempts names the rest."""
    policy = Policy.model_validate({"id": "X", "name": "X", "layers": layers})
    held = [CheckRecord(check=name, ok=True, detail="") for name in (
        *_AT_HOME, "SAE groups tried", "key management offered")]
    assert [each.description for each in judgement.unchecked_settings(policy, held)] == said
    made = [CheckRecord(check=name, ok=True, detail="") for name in alternatives.CHECKS.values()]
    assert judgement.unchecked_settings(policy, [*held, *made]) == []


def test_options_are_named_each() -> None:
    """Those of either layer and either daemon, with what they are set to."""
    link = {"cipher": "CCMP", "keys": "eap", "options": {"hostapd": {"wpa_gmk_rekey": 600}}}
    dot1x = {"eap": "TLS", "options": {"wpa_supplicant": {"fragment_size": 300}}}
    assert _said(link=link, dot1x=dot1x) == [
        "wpa_supplicant's fragment_size (300)", "hostapd's wpa_gmk_rekey (600)"]


@pytest.mark.parametrize(("tls", "said"), [
    ({"key": "p-256"}, []), ({"chain": 3, "fragment_bytes": 300}, []),
    ({"version": "1.3", "key": "ml-dsa-65"}, []),
    ({"realm": "home.example"}, ["dot1x.tls.realm (home.example)"]),
    ({"version": "1.3", "group": "x25519"}, [])])
def test_fields_of_tls_that_nothing_tells(tls: dict[str, Any], said: list[str]) -> None:
    """All but the realm have checks."""
    assert _said(dot1x={"eap": "TLS", "tls": tls}) == said


def test_realm_inside_a_tunnel_is_proven_in_any_network() -> None:
    """PEAP and TTLS carry the user's name with the realm, which a check reads."""
    layer = {"eap": "TTLS", "inner": "PAP", "tls": {"realm": "home.example"}}
    settings = judgement.unchecked_settings(
        Policy.model_validate({"id": "X", "name": "x", "layers": {"dot1x": layer}}),
        [CheckRecord(check=judgement.INNER_USER_CHECK, ok=True, detail="")])
    assert "dot1x.tls.realm" not in {setting.path for setting in settings}


def test_of_the_projects_own_only_known_ones_are_named() -> None:
    """Of all policies that come with it, the station's refusal of another channel alone."""
    left = {name: said for name in policy_ids()
            if (said := judgement.unchecked_settings(load_named(name)))}
    assert set(left) == {"M3", "M7"}
    assert all(said == [("link.ocv.wpa_supplicant", "link.ocv at wpa_supplicant", "")]
               for said in left.values())
    assert judgement.unchecked_settings(
        load_policy(PROJECT / "examples" / "wpa3-eap-aka-prime.yml")) == []


#: By field, a check that fails where it is otherwise; ONE_VALUE where there is no other.
ONE_VALUE = "has one value"
PROVEN_BY = {
    "link.cipher": "pairwise cipher negotiated", "link.keys": "key management negotiated",
    "link.pmf": "protection of management frames negotiated",
    "link.akm": "key management negotiated", "link.sae": "SAE element", "link.group": "SAE group",
    "link.station_groups": "SAE groups tried", "link.access_point_groups": "SAE group",
    "link.accepted": "station accepts further key managements",
    "link.anti_clogging": "access point asks for SAE tokens",
    "link.group_mgmt": "protection of management frames negotiated",
    "link.roaming": "fast transition",
    "link.ft_over_ds": "fast transition over the DS",
    "link.beacon_protection": "beacons are protected",
    "link.neighbor_report": "neighbor reports supported",
    "link.bss_transition": "BSS transition supported",
    "link.offered": "key management offered", "link.group_cipher": "group cipher negotiated",
    "link.station_pmf": "station without protected management frames",
    "link.owe_transition": "OWE transition",
    "link.passphrases": "passphrase is the device's own", "link.vlan": "VLAN tag on the wire",
    "link.further_vlans": "other stations are in their VLANs",
    "dot1x.message_authenticator": "server requires Message-Authenticator",
    "dot1x.accounting": "session is accounted",
    "dot1x.eap": "EAP method TLS", "dot1x.first_offer": "EAP method TLS",
    "dot1x.inner": "inner method MSCHAPV2", "dot1x.identity": "identity is hidden",
    "dot1x.transport": "RADIUS inside TLS", "dot1x.tls.version": "TLS 1.3",
    "dot1x.tls.key": "TLS certificate keys", "dot1x.tls.station_key": "TLS certificate keys",
    "dot1x.tls.chain": "TLS certificate chain",
    "dot1x.tls.fragment_bytes": "TLS fragments", "dot1x.tls.sessions": "session resumed",
    "dot1x.tls.group": "TLS group", "dot1x.tls.revocation": "revoked certificate is refused",
    **dict.fromkeys(("dot1x.tls.server_name", "dot1x.tls.server_domain"),
                    "server with another name is refused"),
    "ipsec.ike_offered": "IKE proposals offered", "ipsec.ike_accepted": "IKE proposal",
    "ipsec.ike": "ISAKMP packets", "ipsec.ike_proposal": "IKE proposal",
    **dict.fromkeys(("ipsec.esp_proposal", "ipsec.esp_offered", "ipsec.esp_accepted"),
                    "ESP transforms in the kernel"),
    "ipsec.authentication": "IKE authentication",
    "ipsec.mode": "ESP transforms in the kernel", "ipsec.mobike": "MOBIKE",
    "ipsec.dpd": "dead peer detection", "ipsec.keepalive": "NAT keepalives",
    "wireguard.authentication": ONE_VALUE, "wireguard.roams": "kernels have the new address",
    "wireguard.mtu": "WireGuard: MTU", "wireguard.keepalive": "WireGuard: keepalive",
    "wireguard.preshared_key": "WireGuard: pre-shared key",
    "quic.authentication": ONE_VALUE, "quic.on_move": "QUIC: new path is validated",
    "wire.macsec": "MACsec in the kernels", "wire.encrypts": "MACsec encrypts",
    "wire.replay_window": "MACsec replay window",
    "aaa.server": "challenge of the subscriber's key"}
#: Those that `settings` names, and those that the study which has the checks refuses.
NAMED = {"link.options", "link.ocv", "dot1x.options", "dot1x.tls.realm"}
REFUSED = {"aaa.authority", "aaa.identity"}
LAYERS = {"link": LinkLayer, "dot1x": Dot1xLayer, "dot1x.tls": TlsSettings, "ipsec": IpsecLayer,
          "wireguard": WireGuardLayer, "quic": QuicLayer, "mptcp": MptcpLayer, "wire": WireLayer,
          "aaa": AaaLayer}


def test_every_field_is_proven_or_named() -> None:
    """A field that comes later needs a check that it is shown by, or a place among the named."""
    fields = {f"{place}.{name}" for place, layer in LAYERS.items() for name in layer.model_fields}
    assert fields - {"dot1x.tls"} == PROVEN_BY.keys() | NAMED | REFUSED
    rows = (PROJECT / "docs" / "records.md").read_text() + (PROJECT / "docs/proof.md").read_text()
    assert [check for check in PROVEN_BY.values() if check != ONE_VALUE
            and check not in rows] == []


def test_option_that_a_check_covers_is_named_where_the_check_does_not_hold() -> None:
    """The table says which check it is; a record's evidence, whether it holds."""
    link = {"cipher": "CCMP", "keys": "psk", "options": {
        "hostapd": {"ignore_broadcast_ssid": 1, "wpa_gmk_rekey": 600}}}
    policy = Policy.model_validate({"id": "X", "name": "X", "layers": {"link": link}})
    rekey, name = (f"link.options.hostapd.{each}" for each in (
        "wpa_gmk_rekey", "ignore_broadcast_ssid"))
    held = CheckRecord(check=key_management.HIDDEN_NETWORK_CHECK, ok=True, detail="")
    assert [each.path for each in judgement.unchecked_settings(policy)] == [rekey]
    made = [held.model_copy(update={"check": name}) for name in (
        "pairwise cipher negotiated", "key management negotiated")]
    assert [each.path for each in judgement.unchecked_settings(policy, [held, *made])] == [rekey]
    for evidence in ([], [held.model_copy(update={"ok": False}), *made]):
        assert [each.path for each
                in judgement.unchecked_settings(policy, evidence)] == [name, rekey]


def test_checks_of_the_table_of_options_exist() -> None:
    """What covers an option is a check that is made."""
    assert {group.check for daemon in DAEMONS for group in load_options().groups_of(daemon)
            if group.check} == {key_management.HIDDEN_NETWORK_CHECK, "group key is renewed"}


def test_renewal_of_group_keys_is_named_where_streams_are_shorter() -> None:
    """No check of it is made then."""
    policy = load_policy(PROJECT / "examples" / "wpa2-psk-group-rekey.yml")
    made = [CheckRecord(check=name, ok=True, detail="") for name in (
        "pairwise cipher negotiated", "key management negotiated")]
    assert [each.path for each in judgement.unchecked_settings(policy, made)] == [
        "link.options.hostapd.wpa_group_rekey"]
    renewed = made[0].model_copy(update={"check": "group key is renewed"})
    assert judgement.unchecked_settings(policy, [*made, renewed]) == []


def _left(policy: Policy, *names: str) -> list[str]:
    return [each.path for each in judgement.unchecked_settings(
        policy, [CheckRecord(check=name, ok=False, detail="") for name in names])]


def test_settings_of_which_a_study_makes_no_check_are_named() -> None:
    """Of streams that fill no packet, none has the length of the MTU."""
    tunnel = Policy.model_validate({"id": "X", "name": "X", "layers": {
        "wireguard": {"mtu": 1280, "keepalive": 25}}})
    made = "WireGuard: keepalive"
    assert _left(tunnel, made) == ["wireguard.mtu"]
    # A check that fails is a failure of the repetition, and no gap. Without any, it broke off.
    assert _left(tunnel, made, "WireGuard: MTU") == [] == _left(tunnel)


def test_a_hall_names_what_its_judge_does_not_look_at() -> None:
    """It has neither management frames nor the inside of tunnels."""
    of_the_hall = ("all let in", "each authenticated", "each station has its own keys",
                   "protected as the policy says")
    assert _left(load_named("M2"), *of_the_hall) == []
    assert _left(load_named("M4"), *of_the_hall) == ["link.pmf", "dot1x.eap", "dot1x.inner",
                                                     "dot1x.identity"]
    assert _left(load_named("M4"), *of_the_hall, "EAP method PEAP", "inner method MSCHAPV2",
                 "identity is hidden", "management frames are protected") == []


def test_checks_that_cover_settings_are_those_that_prove_them() -> None:
    """One word for each check here and there."""
    assert all(PROVEN_BY.get(path, "").startswith(tuple(beginnings))
               or PROVEN_BY[path].startswith("protection of management frames")
               for path, beginnings in judgement._COVERED_BY.items()
               if path not in ("link.ocv", *REFUSED))


#: What authenticast1998 checks of a policy in N2, which has no move and no router with NAT.
_AT_HOME = ("every packet is authentic", "captures are complete", "pairwise cipher negotiated",
            "key management negotiated", "ISAKMP packets", "IKE proposal",
            "ESP transforms in the kernel", "no clear inner packet",
            "management frames are protected", "SAE group")


def test_timers_of_ipsec_are_named_where_there_is_no_router_with_nat() -> None:
    """Only qop2007 refuses them there; other studies make no check of them."""
    policy = load_policy(PROJECT / "examples" / "ikev2-nat.yml")
    timers = [f"ipsec.{name}" for name in ("dpd", "keepalive")
              if getattr(policy.layers.ipsec, name)]
    assert timers
    assert _left(policy, *_AT_HOME) == ["ipsec.mobike", *timers]
    assert _left(policy, *_AT_HOME, "no Mobile IP") == timers
    assert _left(policy, *_AT_HOME, "MOBIKE", "dead peer detection", "NAT keepalives") == []


@pytest.mark.parametrize(("roaming", "left"), [
    ("okc", ["link.roaming"]), ("pmksa", ["link.roaming"]), ("ft", [])])
def test_roaming_is_named_where_nobody_moves(roaming: str, left: list[str]) -> None:
    """Fast transition has a key management of its own, which the first association shows."""
    policy = Policy.model_validate({"id": "X", "name": "X", "layers": {
        "link": {"cipher": "CCMP", "keys": "eap", "roaming": roaming}, "dot1x": {"eap": "TLS"}}})
    assert _left(policy, *_AT_HOME, "EAP method TLS") == left
    assert _left(policy, *_AT_HOME, "EAP method TLS", "goes on with cached keys") == []


def test_zero_that_differs_from_the_default_is_named() -> None:
    """MACsec encrypts unless `encrypts` is 0."""
    wire = Policy.model_validate({"id": "X", "name": "X", "layers": {
        "wire": {"macsec": "GCM-AES-128", "encrypts": 0}}})
    assert _left(wire, "MACsec in the kernels") == ["wire.encrypts"]
    assert _left(wire, "MACsec in the kernels", "MACsec encrypts") == []


#: Fields that a function of their own names, or whose value no policy can change.
_OTHERWISE = {"link.options", "dot1x.options", "dot1x.tls", "dot1x.tls.realm", "link.accepted",
              "link.anti_clogging",
              "dot1x.message_authenticator", "ipsec.esp_offered", "ipsec.esp_accepted",
              "wireguard.authentication", "quic.authentication"}
#: Layers that studies refuse, except the one which measures it by checks of its own.
_OF_ONE_STUDY = {"stream", "kerberos", "channel"}


def test_every_field_is_named_where_a_study_makes_no_check_of_it() -> None:
    """A field that comes later needs checks that cover it, or a function that names it."""
    assert {name.partition(".")[0] for name in LAYERS} == {*Layers.model_fields} - _OF_ONE_STUDY
    fields = {f"{place}.{name}" for place, layer in LAYERS.items() for name in layer.model_fields}
    assert fields - _OTHERWISE == judgement._COVERED_BY.keys()
