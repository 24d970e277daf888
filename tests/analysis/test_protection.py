"""Tests of quality of protection: weights, sigma, its sensitivity, other views, attacks."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.protection import (
    WeightMatrix,
    compare_policies,
    dominates,
    rank_sensitivity,
    score_policies,
    score_policy,
    smallest_swap,
)
from policies import (
    Policy,
    PolicyError,
    load_all,
    load_named,
    load_policy,
    load_weights,
    policy_ids,
)
from policies.policy import KNOWN_FACTS, facts_from_policy
from policies.weights import DEFAULT, FEATURES, TODAYS
from studies.policy_factors import change_layer
from studies.qop2007 import published
from studies.qop2007.report.protection_tables import TODAYS_ATTACKS, load_attacks

ROOT = Path(__file__).parents[2]
PAPER = load_all()
WEIGHTS = load_weights()
EXAMPLES = tuple(load_policy(path) for path in sorted((ROOT / "examples").glob("*.yml")))
WPA2_PSK = next(policy for policy in EXAMPLES if policy.id == "WPA2-PSK")


def weights_in(folder: Path, text: str) -> Path:
    path = folder / "weights.yml"
    path.write_text(text)
    return path


def changed(folder: Path, *replacements: tuple[str, str]) -> Path:
    """The project's own weights with some text replaced."""
    text = DEFAULT.read_text()
    for old, new in replacements:
        assert old in text
        text = text.replace(old, new)
    return weights_in(folder, text)


def policy_of(name: str, **layers: dict[str, object]) -> Policy:
    return Policy.model_validate({"id": name, "name": name, "layers": layers})


# --- Tables 1 to 3 --------------------------------------------------------------------------------

#: Table 3, as printed.
TABLE_3 = {
    "P1": (0, "0.0", "none"), "P2": (2, "10.5", "low"), "P5": (3, "15.8", "low"),
    "P7": (5, "26.3", "low"), "P6": (8, "42.1", "low"), "P3": (9, "47.4", "middle"),
    "P8": (10, "52.6", "middle"), "P4": (11, "57.9", "middle"), "P9": (12, "63.2", "middle"),
    "P11": (13, "68.4", "middle"), "P10": (18, "94.7", "high"), "P12": (19, "100.0", "high")}


def test_sigma_is_that_of_table_3_cell_by_cell() -> None:
    """Sum, normalised sum and group of all twelve, in the order of the printed table."""
    found = {one.policy: (one.sigma, f"{one.sigma_normalized:.1f}", one.group)
             for one in score_policies(PAPER, WEIGHTS, PAPER)}
    assert list(found.items()) == list(TABLE_3.items())
    paper = published.load_values()
    assert paper.sigma == {policy: row[0] for policy, row in TABLE_3.items()}
    assert {policy: f"{value:.1f}" for policy, value in paper.sigma_normalized.items()} == \
        {policy: row[1] for policy, row in TABLE_3.items()}


def test_a_plain_sum_is_not_what_the_paper_printed(tmp_path: Path) -> None:
    """Without `once`, P9 and P11 come out one higher, as the note on integrity says; only they."""
    plain = load_weights(changed(tmp_path, ("once: [data_integrity]", "once: []")))
    off = {policy.id: score_policy(policy, plain, PAPER).sigma - TABLE_3[policy.id][0] for policy
           in PAPER}
    assert {name: more for name, more in off.items() if more} == {"P9": 1, "P11": 1}


def test_weights_are_those_of_table_2() -> None:
    """Every printed weight, and none beside them in a printed row."""
    ours = {key: dict(one.weights) for key, one in WEIGHTS.implementations.items()
            if one.source == "table-2"}
    assert ours == published.load_values().weights


def test_features_are_those_of_table_1_but_for_two_by_name() -> None:
    """Table 1 leaves out the integrity that Table 3 counts for EAP-MD5 alone."""
    printed, differing = published.load_values().features, set()
    for policy in PAPER:
        ours = set(score_policy(policy, WEIGHTS, PAPER).features)
        differing |= {(policy.id, feature) for feature in ours ^ printed[policy.id]}
    assert differing == {("P5", "data_integrity"), ("P7", "data_integrity")}


def test_parts_of_p12_are_those_of_the_papers_walk_through() -> None:
    """Section 3.3: 3 + 1 + 2 + 2 + 1 + 4 + 2 + 2 + 1 + 1."""
    parts = score_policy(next(p for p in PAPER if p.id == "P12"), WEIGHTS,
                         PAPER).parts
    assert sorted(parts.values()) == sorted([3, 1, 2, 2, 1, 4, 2, 2, 1, 1])


# --- policies of one's own ------------------------------------------------------------------------

def test_any_policy_has_a_sigma_from_its_layers() -> None:
    """WPA2 with a passphrase and WPA3 with SAE: nothing in them goes without a weight."""
    found = {policy.id: score_policy(policy, WEIGHTS, PAPER) for policy in EXAMPLES}
    assert found["WPA2-PSK"].sigma == 2 + 1 + 3 + 3
    assert found["WPA3-SAE"].sigma == 3 + 1 + 3 + 3
    assert {name: one.group for name, one in found.items() if one.group != "middle"} == {
        "WPA2-EAP-TLS": "high", "WPA2-EAP-TLS-RESUMED": "high", "WPA3-EAP-AKA-PRIME": "low",
        "OWE-TRANSITION": "low", "WPA2-WPA3-EAP": "low", "WPA2-EAP-AUTHENTIC": "low",
        "WPA2-EAP-REALM": "high",
        "WPA2-EAP-ACCOUNTING": "low", "eduroam": "low", "PEAP-GTC": "low", "PEAP-3072": "low",
        "PEAP-13": "low", "PEAP-EAP-TLS": "low", "TTLS-CHAP": "low", "TTLS-MSCHAP": "low",
        "TTLS-REALM": "low",
        "TLS-1000": "high", "TLS-500": "high", "PEAP-LABEL": "low", "PMKSA-OFF": "low",
        "WPA2-PEAP-FT-PULL": "low",
        "TLS-CRL": "high", "TLS-OCSP": "high", "PEAP-NAME": "low", "TLS-DOMAIN": "high",
        "IKEv2-NAT": "high", "WG-NAT": "low",
        "WG-PSK": "low", "EAP-TLS-4096": "high",
        "WPA3-P384-ML-KEM": "high", "WPA3-192-FT": "high", "WPA3-192-RSA": "high",
        "WPA3-ML-DSA-44": "high", "WPA3-ML-DSA-65": "high", "WPA3-ML-DSA-87": "high",
        "WPA3-MIXED-KEYS": "high",
        "WPA3-ML-KEM": "high", "WPA3-EAP-TLS-RESUMED": "high", "MACSEC-WINDOW": "high",
        "MACSEC-256": "high", "PEAP-TLS-FIRST": "low", "WPA2-EAP-VLANS": "low",
        "WPA2-EAP-VLAN": "low", "WPA3-PEAP-ML-DSA-65": "low", "WPA3-TTLS-ML-DSA-65": "low",
        **{f"WPA3-{way}-ML-DSA-65": "high" for way in ("FILS", "FT", "OKC", "RESUMED", "RadSec")}}
    assert "dot1x.eap AKA'" in found["WPA3-EAP-AKA-PRIME"].unweighted
    assert not found["WPA2-PSK"].unweighted
    assert found["WPA3-SAE"].unweighted == ("link.pmf 2",)


def every_policy() -> Iterator[Policy]:
    """A policy for each word that policies can say."""
    for cipher in KNOWN_FACTS["link.cipher"]:
        keys = "static" if cipher.startswith("WEP") else "psk"
        yield policy_of("X", link={"cipher": cipher, "keys": keys})
    yield policy_of("X", link={"cipher": "CCMP", "keys": "eap"}, dot1x={"eap": "TLS"})
    yield policy_of("X", dot1x={"eap": "MD5"})
    yield from todays_policies()
    for cipher in KNOWN_FACTS["ipsec.encryption"]:
        ends = [""] if "gcm" in cipher or "poly" in cipher else \
            [f"-{word}" for word in ("md5", "sha1", "sha256", "sha384", "sha512")]
        for mode in KNOWN_FACTS["ipsec.mode"]:
            for end in ends:
                yield policy_of("X", ipsec={
                    "ike": 2, "ike_proposal": "aes256-sha256-modp2048",
                    "esp_proposal": f"{cipher}{end}", "mode": mode})


def todays_policies() -> Iterator[Policy]:
    """The same for words that came after the paper's."""
    sae = {"cipher": "CCMP", "keys": "sae", "pmf": 2}
    for group in (19, 20, 21):
        yield policy_of("X", link={**sae, "keys": "owe", "group": group})
    yield policy_of("X", link={**sae, "sae": "loop", "pmf": 1, "group_mgmt": "BIP-CMAC-128"})
    yield policy_of("X", link={**sae, "sae": "pk"})
    yield policy_of("X", link={**sae, "sae": "h2e", "beacon_protection": 1, "ocv": 1,
                               "roaming": "ft"})
    for akm in ("sha1", "sha256"):
        yield policy_of("X", link={"cipher": "CCMP", "keys": "psk", "akm": akm})
    for roaming in KNOWN_FACTS["link.roaming"]:
        yield policy_of("X", dot1x={"eap": "TLS"}, link={
            "cipher": "CCMP", "keys": "eap", "roaming": roaming})
    yield policy_of("X", wireguard={})
    yield policy_of("X", quic={})
    yield from (policy_of("X", wire={"macsec": suite}) for suite in KNOWN_FACTS["wire.macsec"])
    yield policy_of("X", dot1x={"eap": "TLS", "tls": {"key": "p-384"}}, link={
        "cipher": "GCMP-256", "keys": "eap", "pmf": 2, "akm": "suite-b-192",
        "group_mgmt": "BIP-GMAC-256"})
    for key in KNOWN_FACTS["dot1x.key"]:
        for version in KNOWN_FACTS["dot1x.tls"][key.startswith("ml-dsa"):]:  # of TLS 1.3 alone
            yield policy_of("X", dot1x={"eap": "TLS", "identity": "anonymous",
                                        "tls": {"version": version, "key": key}})
    yield policy_of("X", dot1x={"eap": "PEAP", "inner": "MSCHAPV2", "identity": "clear"})
    yield from authenticated_policies()
    for method in ("AKA", "AKA'"):
        yield policy_of("X", dot1x={"eap": method}, aaa={"server": "hostapd"})
    yield policy_of("X", dot1x={"eap": "PWD"})
    for transport in KNOWN_FACTS["dot1x.transport"]:
        yield policy_of("X", dot1x={"eap": "TLS", "transport": transport})
    for exchange in ("mlkem768", "curve25519-ke1_mlkem768"):
        yield policy_of("X", ipsec={"ike": 2, "ike_proposal": f"aes256-sha256-{exchange}",
                                    "esp_proposal": "aes128-sha256"})
    for group in KNOWN_FACTS["ipsec.pfs"]:
        yield policy_of("X", ipsec={"ike": 1, "ike_proposal": f"aes256-sha256-{group}",
                                    "esp_proposal": f"aes128-sha256-{group}"})


def authenticated_policies() -> Iterator[Policy]:
    """A policy for each method inside a tunnel of EAP, and for each of IKE."""
    for method, inner in (("TTLS", "PAP"), ("TTLS", "CHAP"), ("TTLS", "MSCHAP"), ("PEAP", "GTC"),
                          ("PEAP", "TLS")):
        yield policy_of("X", dot1x={"eap": method, "inner": inner})
    for authentication in KNOWN_FACTS["ipsec.authentication"]:
        yield policy_of("X", ipsec={"ike": 2, "ike_proposal": "aes256-sha256-modp2048",
                                    "esp_proposal": "aes128-sha256",
                                    "authentication": authentication})


def test_every_word_that_a_policy_can_say_is_known() -> None:
    """The list of facts is complete; the paper's weights know all words but those after it."""
    said = {(key, word) for policy in every_policy() for key, word
            in facts_from_policy(policy).items()}
    assert said == {(key, word) for key, words in KNOWN_FACTS.items() for word in words}
    later = ("link.pmf", "link.akm", "link.sae", "link.group", "link.beacon", "link.ocv",
             "link.roaming", "link.keys owe", "link.group_cipher", "dot1x.", "wireguard.", "quic.",
             "wire.",
             "ipsec.ike", "ipsec.group", "ipsec.pfs", "ipsec.additional")
    assert [text for policy in every_policy() for text in WEIGHTS.find_unweighted(policy)
            if not text.startswith(later)] == []


def test_todays_scheme_counts_the_weaker_cipher_of_a_link() -> None:
    """Between TKIP alone and CCMP alone is CCMP with TKIP for frames to all."""
    today = load_weights(TODAYS)

    def strengths(cipher: str, to_all: str | None = None) -> tuple[float, ...]:
        score = score_policy(policy_of("X", link={"cipher": cipher, "keys": "psk",
                                                  "group_cipher": to_all}), today, ())
        assert score.unweighted == ()
        return tuple(score.strongest.get(name, 0.0)
                     for name in ("confidentiality", "data_integrity"))

    assert strengths("TKIP") < strengths("CCMP", "TKIP") < strengths("CCMP") == (3.0, 3.0)
    assert strengths("GCMP-256", "TKIP") == strengths("CCMP", "TKIP")
    assert strengths("GCMP-256", "CCMP") == strengths("CCMP") < strengths("GCMP-256")


def test_the_papers_scheme_names_a_cipher_for_frames_to_all_as_without_weight() -> None:
    """One cipher for all frames is weighed as that cipher, and not named a second time."""
    def unweighted(to_all: str | None) -> tuple[str, ...]:
        return WEIGHTS.find_unweighted(policy_of("X", link={
            "cipher": "CCMP", "keys": "psk", "group_cipher": to_all}))

    assert unweighted(None) == ()
    assert unweighted("TKIP") == ("link.group_cipher TKIP",)


def test_todays_scheme_does_not_reward_broken_ciphers_on_top_of_each_other() -> None:
    """P12 has all of 2007's hundred, and less than WPA3 in 2026; more of the same adds nothing."""
    today = load_weights(TODAYS)
    policies = {name: load_named(name) for name in policy_ids()}
    then = {name: score_policy(policy, WEIGHTS, PAPER).sigma_normalized
            for name, policy in policies.items()}
    now = {name: score_policy(policy, today, PAPER) for name, policy in policies.items()}
    assert then["P12"] == 100 > then["M5"] > then["M3"]
    assert now["M5"].sigma > now["M3"].sigma > now["P12"].sigma
    assert now["P2"].sigma == now["P5"].sigma == now["P7"].sigma == 0
    assert now["P3"].sigma == now["P4"].sigma == now["P11"].sigma
    assert all(entry.sigma_normalized <= 100 for entry in now.values())
    assert now["M12"].sigma > now["M12-kem"].sigma > now["M12-ecdh"].sigma > now["M5"].sigma
    best = policy_of("X", link={"cipher": "CCMP", "keys": "owe", "pmf": 2})
    assert score_policy(best, today,
                        ()).sigma_normalized == pytest.approx(100 * 12 / today.attainable)


def test_todays_scheme_never_protects_with_data_in_the_open() -> None:
    """EAP-TLS with WEP, TKIP, or no cipher at all scores, and its data is read and changed."""
    today = load_weights(TODAYS)
    tls = {"eap": "TLS"}
    bare = {"link": None, "dot1x": tls}
    for policy in (load_named("P6"), load_named("P8"), policy_of("X", **bare),
                   policy_of("X", link={"cipher": "TKIP", "keys": "eap"}, dot1x=tls)):
        found = score_policy(policy, today, PAPER)
        assert found.sigma > 0
        assert (found.group, found.protects) == ("open", False)
    for name in ("M2", "P3", "P12", "M5"):
        assert score_policy(load_named(name), today, PAPER).protects
    assert not score_policy(load_named("P1"), today, PAPER).protects
    assert score_policy(load_named("P8"), WEIGHTS, PAPER).protects  # as the paper has it


def test_todays_weights_know_what_policies_can_say() -> None:
    """What has no weight there is named with its reason, so nobody has to be warned of it."""
    today = load_weights(TODAYS)
    for name in policy_ids():
        assert today.find_unweighted(load_named(name)) == ()
    asked = {(key, word) for entry in today.implementations.values()
             for key, words in entry.when.items() for word in words}
    assert {(key, word) for key, words in KNOWN_FACTS.items() for word in words} - asked == {
        ("link.keys", "static"), ("dot1x.key", "rsa-1024"), ("ipsec.mode", "tunnel"),
        ("ipsec.mode", "transport")}


@pytest.mark.parametrize(("old", "new", "said"), [
    ("needed: [confidentiality,", "needed: [secrecy,", "'secrecy' is not a feature"),
    ("  post_quantum: Against", "  Post: Against", "cannot name a feature"),
    ("post_quantum]", "post_quant]", "'post_quant' is not a feature; did you mean 'post_quantum'?"),
    ("management_frames: 3}", "frames: 3}", "'frames' is not a feature"),
    ("identity_privacy, post_quantum]", "identity_privacy]",
     "a feature outside once has no largest sum, which attainable needs"),
])
def test_a_wrong_feature_is_refused(tmp_path: Path, old: str, new: str, said: str) -> None:
    """Features are the file's own; what names none of them, or cannot be one, is one line."""
    text = TODAYS.read_text()
    assert old in text
    with pytest.raises(PolicyError) as caught:
        load_weights(weights_in(tmp_path, text.replace(old, new)))
    assert said in str(caught.value) and "\n" not in str(caught.value)


def test_stronger_words_of_the_extension_weigh_more() -> None:
    """The order of strength that the weights' file argues for, from sigma of single layers."""
    def link(cipher: str, keys: str = "psk", **more: object) -> float:
        return score_policy(policy_of("X", link={"cipher": cipher, "keys": keys, **more}), WEIGHTS,
                            PAPER).sigma

    assert link("WEP-104", "static") < link("TKIP") < link("CCMP") < link("CCMP-256")
    assert link("CCMP") < link("CCMP", "sae", pmf=2)


def test_what_has_no_weight_is_named(tmp_path: Path) -> None:
    """Weights of one's own need not know every word; the policy then says what counts nothing."""
    path = changed(tmp_path, ("[CCMP, GCMP]}", "[GCMP]}"))
    found = score_policy(WPA2_PSK, load_weights(path), PAPER)
    assert found.unweighted == ("link.cipher CCMP",)
    assert found.sigma == 3


def test_weights_can_be_replaced_by_a_file(tmp_path: Path) -> None:
    """A file of one's own decides; percentages stay relative to the paper's strongest."""
    found = load_weights(changed(tmp_path, ("{authentication: 4,", "{authentication: 14,")))
    by_id = {one.policy: one for one in score_policies(PAPER, found, PAPER)}
    assert by_id["P12"].sigma == 29
    assert by_id["P6"].sigma == 18 and by_id["P6"].group == "middle"
    assert by_id["P12"].sigma_normalized == 100


def test_all_weights_zero_leaves_everything_without_protection(tmp_path: Path) -> None:
    """No division by the strongest sigma where there is none."""
    text = ("groups: {middle: 45, high: 70}\nimplementations:\n  wep:\n    name: WEP\n"
            "    when: {link.cipher: [WEP-104]}\n    weights: {authentication: 0}\n")
    found = score_policies(PAPER, load_weights(weights_in(tmp_path, text)), PAPER)
    assert {(one.sigma, one.sigma_normalized, one.group) for one in found} == {(0, 0, "none")}


@pytest.mark.parametrize(("old", "new", "said"), [
    ("authentication: 2, data_integrity: 1}", "authentification: 2, data_integrity: 1}",
     "authentification"),
    ("dot1x.eap: [MD5]", "dot1x.method: [MD5]", "'dot1x.method' is nothing that a policy says"),
    ("dot1x.eap: [MD5]", "dot1x.eap: [MD6]", "dot1x.eap is never 'MD6'; write one of: MD5"),
    ("dot1x.eap: [MD5]", "dot1x.eap: []", "would hold for every policy"),
    ("when: {dot1x.eap: [MD5]}", "when: {}", "would hold for every policy"),
    ("authentication: 2, data_integrity: 1}", "authentication: -2, data_integrity: 1}",
     "-2 cannot be a weight"),
    ("authentication: 2, data_integrity: 1}", "authentication: yes, data_integrity: 1}",
     "True is not a number"),
    ("authentication: 2, data_integrity: 1}", "authentication: much, data_integrity: 1}",
     "'much' is not a number"),
    ("authentication: 2, data_integrity: 1}", "authentication: 'inf', data_integrity: 1}",
     "cannot be a weight"),
    ("authentication: 2, data_integrity: 1}", "authentication: 1:30, data_integrity: 1}",
     "'1:30' is not a number"),
    ("middle: 45, high: 70", "middle: 75, high: 70", "middle begins above high"),
    ("once: [data_integrity]", "once: [integrity]", "'integrity' is not a feature"),
    ("groups: {middle", "group: {middle", "group: there is no such field; did you mean groups?"),
])
def test_a_wrong_file_is_refused_with_its_line(tmp_path: Path, old: str, new: str,
                                               said: str) -> None:
    """One line for the user, which names the line of the mistake and what to do."""
    path = changed(tmp_path, (old, new))
    line = next(number for number, text in enumerate(path.read_text().splitlines(), 1)
                if new in text)
    with pytest.raises(PolicyError) as caught:
        load_weights(path)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value) and "; " in str(caught.value)
    assert caught.value.line == line or "missing" in said


def test_a_missing_or_empty_file_is_refused(tmp_path: Path) -> None:
    """As policies are: with a path and advice, without a traceback's text."""
    with pytest.raises(PolicyError, match="there is no such file"):
        load_weights(tmp_path / "none.yml")
    with pytest.raises(PolicyError, match="empty"):
        load_weights(weights_in(tmp_path, ""))


# --- views beside the sum -------------------------------------------------------------------------

def test_dominance_is_not_taken_in_by_many_weak_implementations(tmp_path: Path) -> None:
    """Section 3.4: four authentications of weight 1 sum up above one of 3, but do not dominate."""
    weak = "".join(f"  weak-{number}:\n    name: weak\n    when: {{link.cipher: [WEP-104]}}\n"
                   "    weights: {authentication: 1}\n" for number in range(4))
    strong = ("  strong:\n    name: strong\n    when: {dot1x.eap: [TLS]}\n"
              "    weights: {authentication: 3}\n")
    path = weights_in(tmp_path, f"groups: {{middle: 45, high: 70}}\nimplementations:\n{weak}"
                                f"{strong}")
    pair = [policy for policy in PAPER if policy.id in ("P2", "P6")]
    found = score_policies(pair, load_weights(path), PAPER)
    assert [(one.policy, one.sigma) for one in found] == [("P6", 3), ("P2", 4)]
    by_id = {one.policy: one for one in compare_policies(found)}
    assert by_id["P6"].maximum == 3 > by_id["P2"].maximum == 1
    assert by_id["P2"].dominated_by == ("P6",) and by_id["P6"].on_front


def test_views_of_the_papers_policies() -> None:
    """P12 alone is on the front; P3, P4 and P11 are the same once features do not add up."""
    found = {one.policy: one for one in compare_policies(score_policies(PAPER, WEIGHTS, PAPER))}
    assert [name for name, one in found.items() if one.on_front] == ["P12"]
    assert set(found["P3"].equals) == {"P4", "P11"}
    assert set(found["P6"].dominated_by) == {"P8", "P10", "P12"}
    assert found["P12"].maximum == 4 + 2 + 2 + 2 + 2


_STRENGTHS = st.lists(st.integers(0, 3), min_size=5, max_size=5)


@given(_STRENGTHS, _STRENGTHS, _STRENGTHS)
def test_dominance_is_a_strict_order(first: list[float], second: list[float],
                                     third: list[float]) -> None:
    """Nothing dominates itself, no two dominate each other, and dominance passes on."""
    assert not dominates(first, first)
    assert not (dominates(first, second) and dominates(second, first))
    if dominates(first, second) and dominates(second, third):
        assert dominates(first, third)


# --- sensitivity ----------------------------------------------------------------------------------

def test_sigma_of_many_weights_agrees_with_the_plain_function() -> None:
    """The design that perturbations go through is the same sum, `once` included."""
    policies = [*PAPER, *EXAMPLES]
    design = WeightMatrix.from_policies(policies, WEIGHTS)
    found = design.compute_sigmas(np.stack([design.weights, 2 * design.weights]))
    plain = [score_policy(policy, WEIGHTS, PAPER).sigma for policy in policies]
    assert found[0].tolist() == plain
    assert found[1].tolist() == [2 * value for value in plain]


@pytest.mark.parametrize("scheme", ["dirichlet", "uniform"])
def test_rank_intervals_hold_the_plain_ranks(scheme: str) -> None:
    """Ranks 1 to 12 in the order of Table 3; P12 stays first, P1 last, the middle moves."""
    found = rank_sensitivity(PAPER, WEIGHTS, np.random.default_rng(5), draws=4000, scheme=scheme)
    assert [one.policy for one in found.ranks] == list(TABLE_3)[::-1]
    assert [one.rank for one in found.ranks] == list(range(1, 13))
    assert all(one.low <= one.rank <= one.high for one in found.ranks)
    by_id = {one.policy: one for one in found.ranks}
    assert (by_id["P12"].low, by_id["P12"].high) == (1, 1)
    assert (by_id["P1"].low, by_id["P1"].high) == (12, 12)
    assert by_id["P8"].high - by_id["P8"].low >= 2
    assert 0 < found.kept < 1


def test_uniform_ranks_follow_the_exact_probability(tmp_path: Path) -> None:
    """Two weights 3 and 2, each varying by half: the weaker overtakes in 3/16 of the draws.

    x uniform on (1.5, 4.5), y on (1, 3): P(y > x) is the area of y - x > 0, a triangle of side
    1.5 (y from 1.5 to 3), over the rectangle of 3 x 2: 1.125 / 6 = 0.1875.
    """
    text = ("groups: {middle: 45, high: 70}\nimplementations:\n"
            "  a:\n    name: a\n    when: {dot1x.eap: [TLS]}\n    weights: {authentication: 3}\n"
            "  b:\n    name: b\n    when: {dot1x.eap: [MD5]}\n    weights: {authentication: 2}\n")
    two = [policy for policy in PAPER if policy.id in ("P5", "P6")]
    weights = load_weights(weights_in(tmp_path, text))
    found = rank_sensitivity(two, weights, np.random.default_rng(3), draws=40_000, scheme="uniform",
                             in_order=False)
    assert found.kept == pytest.approx(1 - 0.1875, abs=0.01)
    kept = rank_sensitivity(two, weights, np.random.default_rng(3), draws=1000, scheme="uniform")
    assert kept.kept == 1  # the order of two authentications is what a weight says


def test_dirichlet_keeps_the_sum_and_spreads_as_asked() -> None:
    """Each draw has the weights' sum; an average weight varies by the spread asked for."""
    from analysis.protection import _draw_dirichlet

    weights = np.full(10, 2.0)
    drawn = _draw_dirichlet(weights, np.random.default_rng(7), 20_000, 0.3)
    assert np.allclose(drawn.sum(axis=1), 20)
    assert drawn.std(axis=0) / drawn.mean(axis=0) == pytest.approx(np.full(10, 0.3), rel=0.05)


@pytest.mark.parametrize("spread", [0.0, 1.0, -1.0])
def test_an_impossible_spread_is_refused(spread: float) -> None:
    """A spread of everything or nothing is no perturbation."""
    with pytest.raises(ValueError, match="spread"):
        rank_sensitivity(PAPER, WEIGHTS, np.random.default_rng(1), spread=spread)


def test_equal_policies_share_a_rank() -> None:
    """P3 and WPA2-PSK both have sigma 9 under the project's weights."""
    found = rank_sensitivity([*PAPER, WPA2_PSK], WEIGHTS, np.random.default_rng(1), draws=200)
    ranks = {one.policy: one.rank for one in found.ranks}
    assert ranks["P3"] == ranks["WPA2-PSK"] == 7.5


def test_a_single_policy_has_one_rank_and_no_swap() -> None:
    """Nothing assumes twelve."""
    found = rank_sensitivity(PAPER[:1], WEIGHTS, np.random.default_rng(1), draws=10)
    assert [(one.rank, one.low, one.high) for one in found.ranks] == [(1, 1, 1)]
    assert found.swaps == ()


def test_the_smallest_swap_swaps_and_nothing_smaller_does() -> None:
    """Just beyond it the order is reversed; a scan of every weight finds no smaller change."""
    design = WeightMatrix.from_policies(PAPER, WEIGHTS)
    plain = design.compute_sigmas(design.weights[np.newaxis])[0]
    steps = np.linspace(-1, 4, 1001)
    for first, second in combinations(range(len(PAPER)), 2):
        above, below = (first, second) if plain[first] > plain[second] else (second, first)
        scan = np.repeat(design.weights[np.newaxis], steps.size * len(design.parts), axis=0)
        for part in range(len(design.parts)):
            rows = slice(part * steps.size, (part + 1) * steps.size)
            scan[rows, part] = design.weights[part] * (1 + steps)
        sigmas = design.compute_sigmas(scan)
        swapped = sigmas[:, below] > sigmas[:, above] + 1e-9
        least = min(np.abs(np.tile(steps, len(design.parts)))[swapped], default=np.inf)
        found = smallest_swap(design, above, below)
        # A policy that has all that another has stays ahead, whatever a weight is.
        assert (found is None) == (not (design.has[below] & ~design.has[above]).any())
        if found is None:
            assert least == np.inf
        elif found.change < 4:
            assert found.change <= least <= found.change + 0.0051


# --- attacks --------------------------------------------------------------------------------------

def test_attacks_are_withstood_as_section_6_4_says() -> None:
    """Everything that the paper says of its policies, but for one by name.

    It counts all of its low group as weak against other users, P6 with its certificates, too.
    """
    differing = {(attack.id, policy.id) for attack in load_attacks() for policy in PAPER
                 if policy.id in attack.said
                 and attack.is_withstood(policy) != attack.said[policy.id]}
    assert differing == {("user-impersonation", "P6")}
    assert sum(len(attack.said) for attack in load_attacks()) > 35


def test_attacks_on_policies_of_ones_own() -> None:
    """A passphrase can be guessed, SAE cannot; CCMP's frames cannot be made up."""
    found = {policy.id: {attack.id: attack.is_withstood(policy) for attack in load_attacks()}
             for policy in EXAMPLES}
    assert not found["WPA2-PSK"]["authentication-forging"]
    assert found["WPA3-SAE"]["authentication-forging"]
    assert found["WPA2-PSK"]["message-fabrication"]
    # The station of the one accepts a passphrase beside SAE, so an evil twin gets its answer.
    assert not found["WPA2-WPA3-SAE"]["authentication-forging"]
    mixed = next(policy for policy in EXAMPLES if policy.id == "WPA2-WPA3-SAE")
    [guessing] = [attack for attack in load_attacks(TODAYS_ATTACKS)
                  if attack.id == "offline-guessing"]
    assert not guessing.is_withstood(mixed)
    assert guessing.is_withstood(change_layer("link", accepted=None)(mixed))
    assert not any(attack.is_withstood(PAPER[0]) for attack in load_attacks())


#: What came of attacks that were carried out, as the table's file and docs/policies.md say.
CAME_OF = {
    "forged-deauthentication": ({"M2"}, {"M3"}), "offline-guessing": ({"M2"}, {"M3"}),
    "replay": ({"P1", "P2", "P8"}, {"P3", "P12", "M1", "M2", "M6"}),
    "evil-twin": ({"P1", "P5", "M1"}, {"P3", "P6", "P8", "M2", "M3", "M4", "M5", "M6", "M7",
                                       "M8-okc", "M9", "M10"})}


def test_todays_attacks_that_were_tried_came_out_as_argued() -> None:
    """Each policy that was attacked fell or withstood as its layers say, and the table names it."""
    kinds = {attack.id: attack for attack in load_attacks(TODAYS_ATTACKS)}
    assert {name for name, attack in kinds.items() if attack.tried} == set(CAME_OF)
    for name, (fell, withstood) in CAME_OF.items():
        assert not any(kinds[name].is_withstood(load_named(policy)) for policy in fell)
        assert all(kinds[name].is_withstood(load_named(policy)) for policy in withstood)
        assert all(policy in kinds[name].tried for policy in fell)


def test_attacks_ask_only_for_what_policies_can_say() -> None:
    """A misspelt word would silently withstand nothing."""
    asked = {(key, word) for attack in load_attacks() for when in attack.withstood_by
             for key, words in when.items() for word in words}
    assert asked <= {(key, word) for key, words in KNOWN_FACTS.items() for word in words}
    assert len(FEATURES) == 5
