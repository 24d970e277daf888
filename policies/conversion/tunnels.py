"""Make policies from swanctl.conf and wg-quick files, which configure a VPN tunnel.

`read_swanctl` and `read_wg_quick` take the text of a file (`Source`). They return a `Network` for
each connection or interface, which sets the IPsec or WireGuard layer of a policy. Such a file says
nothing of the Wi-Fi link, so the policy has no protection there. `fill_wireguard` also serves
profiles of NetworkManager. `read_other_sections` returns the settings that get into no policy.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from pydantic import ValidationError
from pydantic_core import PydanticCustomError

from policies.conversion import syntax
from policies.conversion.network import Network
from policies.conversion.result import PolicyDraft, make_refusal
from policies.conversion.source import Setting, Source, strip_quotes
from policies.conversion.syntax import NestedSection
from policies.conversion.wifi import join_words
from policies.layers import WireGuardLayer
from policies.loader import find_declaration
from policies.proposals import GROUPS, check_ike, is_post_quantum
from policies.vocabulary import (
    CREDENTIAL,
    FROM_SCENARIO,
    NOT_MEASURED,
    find_proposal,
    find_token,
    read_seconds,
    split_proposal,
    unknown_tokens,
)

# --- swanctl.conf ---

#: What two peers with strongSwan 5.9.8 negotiate if neither file says a proposal (tried).
_DEFAULT_PROPOSALS = {"ipsec.ike_proposal": "aes128-sha256-curve25519",
                      "ipsec.esp_proposal": "aes128gcm16"}
_SITE = re.compile(r"(local|remote)_(addrs|port|ts)|vips|pools|id|if_id_(in|out)|mark_\w+|updown|"
                   r"hostaccess|interface|policies\w*|reqid|priority|label|proxy_mode|aaa_id")
_SECRET = re.compile(r"certs?|cacerts?|pubkeys|secret|keyid|file|token|handle|slot|module|cert_\w+|"
                     r"eap_id|xauth_id|groups|\w*secret\w*")
#: Settings with the values that the harness writes itself.
_USUAL = {"encap": "no", "fragmentation": "no", "send_certreq": "no", "send_cert": "never",
          "dpd_delay": "0", "rekey_time": "0", "reauth_time": "0", "keyingtries": "1",
          "start_action": "none", "dpd_action": "clear", "close_action": "none"}
_NO = ("no", "0", "false", "disabled")
#: Why further rounds of authentication are left out.
_ONE_ROUND = f"a further round of authentication is {NOT_MEASURED}"


def read_swanctl(source: Source) -> list[Network]:
    """Return the connections in a swanctl.conf that build a tunnel.

    Raises:
        PolicyError: The file has no such connection, or its syntax is broken.
    """
    root = syntax.read_nested(source)
    connections = root.find_section("connections")
    if connections is None and any(each.find_section("children") for each in root.sections):
        connections = root  # a file that another one includes
    networks = [_make_connection(each) for each in (connections.sections if connections else ())
                if not _is_shunt(each)]
    if not networks:
        raise source.make_error(1, "there is no connection with a tunnel",
                                "add connections { NAME { ... } }")
    return networks


def read_other_sections(source: Source) -> list[tuple[int, str, str]]:
    """Return each setting of swanctl.conf that belongs to no connection: line, name, reason."""
    root = syntax.read_nested(source)
    connections = root.find_section("connections")
    used = {each.line for each in connections.all_settings()} if connections else set()
    notes = [(each.line, each.full_key, "the other file: convert it by itself"
              if each.key == "include" else NOT_MEASURED) for each in root.settings]
    for section in root.sections:
        if section.name == "connections":
            notes += [(each.line, each.full_key,
                       "packets that pass or are dropped without a tunnel are the scenario's")
                      for shunt in section.sections if _is_shunt(shunt)
                      for each in shunt.all_settings()]
            notes += [(each.line, each.full_key, NOT_MEASURED) for each in section.settings]
        elif section.name in ("secrets", "authorities"):
            notes += [(each.line, each.full_key, CREDENTIAL) for each in section.all_settings()]
        elif section.name == "pools":
            notes += [(each.line, each.full_key, FROM_SCENARIO) for each in section.all_settings()]
        elif connections is not None:
            # Connections take over settings of sections that they refer to.
            notes += [(each.line, each.full_key, NOT_MEASURED) for each in section.all_settings()
                      if each.line not in used]
    return notes


def _is_shunt(connection: NestedSection) -> bool:
    """Return whether a connection only lets packets pass, or drops them (a shunt)."""
    children = connection.find_section("children")
    modes = [strip_quotes(setting.value).lower()
             for child in (children.sections if children else ())
             for setting in child.settings if setting.key == "mode"]
    return bool(modes) and all(mode in ("pass", "drop") for mode in modes)


def _make_connection(section: NestedSection) -> Network:
    settings = list(dict.fromkeys(section.all_settings()))

    def fill_policy(draft: PolicyDraft) -> None:
        _fill_connection(draft, section)
        for setting in settings:
            _place_setting(draft, setting)

    return Network(section.line, (section.name,), settings, fill_policy)


def _fill_connection(draft: PolicyDraft, section: NestedSection) -> None:
    """Set the policy's IPsec layer from a swanctl.conf connection and its first child."""
    values = {setting.key: setting for setting in section.settings}
    children = section.find_section("children")
    child = children.sections[0] if children is not None and children.sections else None
    _set_version(draft, values.get("version"))
    _set_proposal(draft, "ipsec.ike_proposal", values.get("proposals"))
    inside = {setting.key: setting for setting in child.settings} if child is not None else {}
    if (header := inside.get("ah_proposals")) is not None and "esp_proposals" not in inside:
        raise make_refusal(draft.source, header, f"AH is {NOT_MEASURED}", "write esp_proposals")
    _set_proposal(draft, "ipsec.esp_proposal", inside.get("esp_proposals"))
    _set_mode(draft, inside.get("mode"))
    _set_mobike(draft, values.get("mobike"))
    _set_authentication(draft, section)
    if (asks := values.get("dpd_delay")) is not None:
        _leave_dpd(draft, asks)
    for other in (children.sections[1:] if children is not None else ()):
        for setting in other.all_settings():
            draft.leave_out(setting, "a policy has one child")
    draft.layers.add("ipsec")


def _set_version(draft: PolicyDraft, setting: Setting | None) -> None:
    word = strip_quotes(setting.value) if setting is not None else "0"
    if setting is not None and word in ("1", "2"):
        draft.set_field("ipsec.ike", int(word), setting)
    elif setting is None or word == "0":
        draft.assume_field("ipsec.ike", 2, "without a version, strongSwan begins with 2")
        draft.take_over(*([setting] if setting is not None else []))
    else:
        raise make_refusal(draft.source, setting, "0, 1 or 2 belongs here", "write 2")


def _set_proposal(draft: PolicyDraft, name: str, setting: Setting | None) -> None:
    """Set the IKE or ESP proposal: the first of the file's that qop supports."""
    default = _DEFAULT_PROPOSALS[name]
    if setting is None or not setting.value_words or setting.value_words[0] == "default":
        draft.assume_field(name, default, "two peers with strongSwan's default negotiate it")
        draft.take_over(*([setting] if setting is not None else []))
        return
    is_ike = name == "ipsec.ike_proposal"
    words = [word for word in setting.value_words if word != "default"]
    proposals = {
        word: proposal for word in words
        if (proposal := find_proposal(word, is_ike=is_ike, skips_unknown=True)) is not None}
    if not proposals:
        unknown = [token for token in unknown_tokens(words[0]) if re.fullmatch(r"[\w.]{1,24}",
                                                                               token)]
        raise make_refusal(draft.source, setting, "none of its proposals can be measured here"
                           + (f" ({', '.join(unknown)})" if unknown else ""),
                           f"write one such as {default}, or see docs/policies.md for the keywords")
    [chosen, *_] = proposals
    draft.set_field(name, proposals[chosen], setting)
    selection = {word: proposal for word, proposal in proposals.items()
                 if proposal == proposals[chosen]
                 or (_is_measured_with(draft, proposal, proposals[chosen]) if is_ike else
                     _has_group_of(draft, proposal, proposals[chosen]))}
    _note_lost_proposals(draft, setting, proposals, selection, is_ike=is_ike)
    if words[0] != chosen or _lacking_tokens(chosen, is_ike=is_ike):
        draft.replacements.append(f"{proposals[chosen]} in place of {words[0][:40]}")
    several = [*dict.fromkeys(selection.values())]
    if len(several) > 1:
        # The file has one end. The other one is to have the same, so that they agree on the first.
        for field in ("offered", "accepted"):
            draft.set_field(f"{name.removesuffix('proposal')}{field}", several, setting)


def _is_measured_with(draft: PolicyDraft, proposal: str, chosen: str) -> bool:
    """Return whether a list with the chosen IKE proposal can have another proposal, too."""
    try:
        check_ike(proposal, draft.find_value("ipsec.ike"))
    except PydanticCustomError:
        return False
    return is_post_quantum(chosen) or not is_post_quantum(proposal)


def _has_group_of(draft: PolicyDraft, proposal: str, chosen: str) -> bool:
    """Return whether a list with the chosen ESP proposal can have another proposal, too."""
    groups = {last if (last := each.split("-")[-1]) in GROUPS else "" for each in (proposal,
                                                                                   chosen)}
    return draft.find_value("ipsec.ike") != 1 or len(groups) == 1


def _lacking_tokens(word: str, *, is_ike: bool) -> list[str]:
    return [*unknown_tokens(word), *([] if is_ike else re.findall(r"ke\d_\w+", word))]


def _note_lost_proposals(draft: PolicyDraft, setting: Setting, proposals: Mapping[str, str],
                         selection: Mapping[str, str], *, is_ike: bool) -> None:
    """Note the proposals of a setting, and their parts, that the policy does not contain.

    Args:
        draft: The policy in the making, which gets the notes.
        setting: The file's proposals.
        proposals: Those that can be measured, by the file's words, in qop's keywords.
        selection: Those that the policy contains, the chosen one first.
        is_ike: Whether they are IKE's, not ESP's.
    """
    lacking = [word for word in setting.value_words if word not in proposals]
    lacking += [token for word in selection for token in _lacking_tokens(word, is_ike=is_ike)]
    if lacking:
        draft.note_loss(setting, f"{join_words(lacking, lacking)}: {NOT_MEASURED}")
    [chosen, *_] = selection.values()
    if others := [word for word in proposals if word not in selection]:
        draft.note_loss(setting, f"{join_words(others, others)}: not together with {chosen} here")
    for word, proposal in selection.items():
        known = (split_proposal(word, skips_unknown=True) or {}).values()
        further = [token for token in word.rstrip("!").split("-")
                   if (name := find_token(token)) is not None and name not in known]
        if further:
            draft.note_loss(setting, f"{join_words(further, further)} of {word}: a proposal has "
                                     f"one algorithm of a kind here: {proposal}")


def _set_mode(draft: PolicyDraft, setting: Setting | None) -> None:
    if setting is None:
        return
    word = strip_quotes(setting.value).lower()
    if word in ("tunnel", "transport"):
        draft.set_field("ipsec.mode", word, setting)
    else:
        raise make_refusal(draft.source, setting, f"this mode is {NOT_MEASURED}",
                           "write tunnel or transport")


def _set_mobike(draft: PolicyDraft, setting: Setting | None) -> None:
    """Set whether the tunnel moves with its node. strongSwan's default is yes, with IKEv2."""
    is_on = setting is None or strip_quotes(setting.value).lower() not in _NO
    if setting is not None and not is_on:
        draft.take_over(setting)
    elif draft.find_value("ipsec.ike") == 2 and draft.find_value("ipsec.mode") != "transport":
        if setting is not None:
            draft.set_field("ipsec.mobike", 1, setting)
        else:
            draft.assume_field("ipsec.mobike", 1, "strongSwan's default is mobike = yes")
    elif setting is not None:
        draft.leave_out(setting, "MOBIKE is IKEv2's, in tunnel mode")


def _leave_dpd(draft: PolicyDraft, setting: Setting) -> None:
    """Leave out dead peer detection, which a policy has for routers with NAT alone."""
    seconds = read_seconds(strip_quotes(setting.value))
    if seconds:
        mobike = "" if draft.find_value("ipsec.mobike") else "mobike: 1 and "
        draft.leave_out(setting, "ipsec.dpd is measured behind a router with NAT: for such a "
                        f"scenario add {mobike}dpd: {min(max(seconds, 5), 600)}")


class _End(NamedTuple):
    """The first round of authentication of one end of a connection.

    `auth` is the file's setting, None if the file has none. `kind` is its value in a policy's
    words, "" if a policy has none for it, and None if each way is welcome.
    """

    name: str
    auth: Setting | None
    word: str
    kind: str | None
    settings: Sequence[Setting]


def _set_authentication(draft: PolicyDraft, section: NestedSection) -> None:
    """Set how IKE's ends prove who they are.

    A policy has one way for both ends. With EAP, the other end has a certificate.

    Raises:
        PolicyError: The ends authenticate in two ways that cannot be measured together.
    """
    ends = [_read_end(draft, section, name) for name in ("local", "remote")]
    if draft.find_value("ipsec.ike") == 2:
        _refuse_two_ways(draft, *ends)
    has_eap = draft.find_value("ipsec.ike") == 2 and any(
        end.word.startswith("eap") for end in ends)
    has_certificates = any(setting.key in ("certs", "cacerts") for end in ends
                           for setting in end.settings)
    for end in ends:
        if end.auth is None:
            continue
        if end.kind is None:
            draft.note_loss(end.auth, "both ends prove in one way who they are")
        elif has_eap and not end.word.startswith("eap"):
            draft.take_over(end.auth)  # the gateway's, which has a certificate
        else:
            _set_way(draft, end, end.auth, has_certificates=has_certificates)


def _read_end(draft: PolicyDraft, section: NestedSection, name: str) -> _End:
    """Return the first round of authentication of an end. Leave out the end's other rounds."""
    rounds = sorted((each for each in section.sections if each.name.startswith(name)),
                    key=_find_round)
    for later in rounds[1:]:
        for setting in later.settings:
            draft.leave_out(setting, _ONE_ROUND)
        draft.replacements.append(f"one round of authentication in place of {len(rounds)}")
    settings = rounds[0].settings if rounds else []
    for setting in settings:
        if setting.key == "auth2":
            draft.leave_out(setting, _ONE_ROUND)
            draft.replacements.append("one round of authentication in place of 2")
    auth = next((setting for setting in reversed(settings) if setting.key == "auth"), None)
    word = strip_quotes(auth.value).lower() if auth is not None else ""
    kind: str | None = "pubkey" if word in ("pubkey", "") or word.startswith(
        ("rsa", "pubkey-", "rsa-")) else word if word in ("psk", "eap-tls", "eap-mschapv2") else ""
    return _End(name, auth, word, None if word == "any" else kind, settings)


def _find_round(section: NestedSection) -> int:
    """Return the number of a round of authentication, 0 if the section has none."""
    numbers = [strip_quotes(setting.value) for setting in section.settings
               if setting.key == "round"]
    return int(numbers[-1]) if numbers and numbers[-1].isdecimal() else 0


def _refuse_two_ways(draft: PolicyDraft, local: _End, remote: _End) -> None:
    """Refuse a connection whose ends authenticate in two ways that no policy has.

    Raises:
        PolicyError: The ways are not measured together.
    """
    ways = {"eap" if end.word.startswith("eap") else end.kind for end in (local, remote)}
    has_two_eap = local.word.startswith("eap") and remote.word.startswith("eap")
    if None in ways or (len(ways) == 1 and not has_two_eap) or ways == {"eap", "pubkey"} \
            or not ways & {"eap", "psk"}:
        return
    setting = next(end.auth for end in (remote, local) if end.auth is not None)
    shown = " and ".join(f"{end.name} {_show_way(end)}" for end in (local, remote))
    raise make_refusal(draft.source, setting, f"{shown} are {NOT_MEASURED} together",
                       "write psk on both ends, pubkey on both, or EAP on one and pubkey on the "
                       "other")


def _show_way(end: _End) -> str:
    """Return the name of an end's way of authentication, without names of people or keys."""
    found = re.match(r"[a-z0-9]+(-[a-z0-9]+)?", end.word)
    return found[0] if found is not None else "pubkey" if end.auth is None else "it"


def _set_way(draft: PolicyDraft, end: _End, setting: Setting, *, has_certificates: bool) -> None:
    """Set how both ends of IKE prove who they are, by the setting of one end."""
    name, is_new = "ipsec.authentication", draft.find_value("ipsec.ike") == 2
    if end.kind == "pubkey":
        draft.set_field(name, "certificate" if has_certificates and is_new else "pubkey", setting)
        if "-" in end.word:
            draft.note_loss(setting, f"{end.word[:64]}: what it demands of a signature is "
                                     f"{NOT_MEASURED}")
    elif end.kind and is_new:
        draft.set_field(name, end.kind, setting)
    elif end.word.startswith("eap") and is_new:
        draft.set_nearest({name: "eap-tls"}, setting, f"IKE's {end.word}", "eap-tls")
    elif any("IKE's" in replacement for replacement in draft.replacements):
        draft.note_loss(setting, f"{_show_way(end)} is {NOT_MEASURED}: pubkey stands in for it")
        draft.set_field(name, "pubkey", setting)
    else:
        draft.set_nearest({name: "pubkey"}, setting, f"IKE's {_show_way(end)}", "pubkey")


def _place_setting(draft: PolicyDraft, setting: Setting) -> None:
    """Note that a setting is left out because no field of a policy exists for it."""
    if _USUAL.get(setting.key) == strip_quotes(setting.value).lower():
        draft.take_over(setting)
    elif _SECRET.fullmatch(setting.key):
        draft.leave_out(setting, CREDENTIAL)
    elif _SITE.fullmatch(setting.key):
        draft.leave_out(setting, FROM_SCENARIO)
    else:
        draft.leave_out(setting)


# --- wg-quick, and WireGuard in NetworkManager ---

_WG_SECRETS = frozenset(("privatekey", "publickey", "presharedkey", "presharedkeyflags",
                         "privatekeyflags"))
_WG_SITE = frozenset(("address", "listenport", "dns", "table", "fwmark", "allowedips", "endpoint",
                      "ip4autodefaultroute", "ip6autodefaultroute", "peerroutes"))


#: Why settings of further peers are left out.
_ONE_PEER = "a policy has one peer, the file's first"
#: Settings that a policy has, too, by the policy's name.
_WG_NUMBERS = {"mtu": "mtu", "persistentkeepalive": "keepalive"}


def _is_number_of(name: str, number: int) -> bool:
    """Return whether a field of the WireGuard layer accepts a number."""
    try:
        WireGuardLayer.model_validate({name: number})
    except ValidationError:
        return False
    return True


def read_wg_quick(source: Source) -> list[Network]:
    """Return the one WireGuard interface in a file of wg-quick.

    Raises:
        PolicyError: There is no interface, or the syntax is broken.
    """
    sections = syntax.read_ini(source, syntax.ANY_LETTERS, has_comments_behind=True)
    own = [each for each in sections if each.name.casefold() == "interface"]
    peers = [each for each in sections if each.name.casefold() == "peer"]
    others = [each for each in sections if each not in own and each not in peers]
    if others:
        raise source.make_error(others[0].line, "wg-quick has no such section",
                                "write [Interface] or [Peer]")
    if not own:
        raise source.make_error(1, "there is no section [Interface]", "add it")
    settings = [setting for section in sections for setting in section.settings]
    name = source.file_name.removesuffix(".conf")
    return [Network(own[0].line, (name,) if name and " " not in name else (), settings,
                    _wireguard_filler(
                        [setting for section in own for setting in section.settings],
                        peers[0].settings if peers else [],
                        [setting for section in peers[1:] for setting in section.settings]))]


def _wireguard_filler(interface: Sequence[Setting], peer: Sequence[Setting],
                      further_peers: Sequence[Setting]) -> Callable[[PolicyDraft], None]:
    def fill_policy(draft: PolicyDraft) -> None:
        fill_wireguard(draft, interface, peer)
        for setting in further_peers:
            is_site = _fold_key(setting) in _WG_SITE
            draft.leave_out(setting, FROM_SCENARIO if is_site else _ONE_PEER)

    return fill_policy


def _fold_key(setting: Setting) -> str:
    return setting.key.casefold().replace("-", "")


def fill_wireguard(draft: PolicyDraft, interface: Sequence[Setting],
                   peers: Sequence[Setting]) -> None:
    """Set the policy's WireGuard layer. WireGuard has only one suite."""
    draft.layers.add("wireguard")
    draft.assume_field("wireguard.roams", 1, "WireGuard's peers follow each other's addresses")
    numbers: set[str] = set()
    for setting in (*interface, *peers):
        key = _fold_key(setting)
        field = _WG_NUMBERS.get(key, "")
        number = int(setting.value) if setting.value.strip().isdecimal() else 0
        if setting in peers and field in numbers:
            draft.leave_out(setting, _ONE_PEER)
        elif field and _is_number_of(field, number):
            numbers.add(field)
            draft.set_field(f"wireguard.{field}", number, setting)
        elif field and setting.value.strip().lower() in ("0", "off", ""):
            draft.take_over(setting)  # WireGuard's default, as without the setting
        elif field:
            declared = find_declaration(WireGuardLayer, (field,))
            draft.leave_out(setting, f"wireguard.{field} has another range of numbers: "
                            f"{declared.low} to {declared.high}")
        elif key == "presharedkey" and setting.value:
            draft.set_field("wireguard.preshared_key", 1, setting)
        elif key in _WG_SECRETS:
            draft.leave_out(setting, CREDENTIAL)
        elif key in _WG_SITE:
            draft.leave_out(setting, FROM_SCENARIO)
        else:
            draft.leave_out(setting)
