"""Turn failed checks into a failure of a repetition, and list settings without any check.

A repetition is one measurement of a policy. The code of a study that evaluates it uses these
helpers. `make_check` takes a list of complaints, and returns a check that holds if the list is
empty. `failure_reasons` returns why the repetition does not count. `dropped_packets_reason` reports
captures that lost packets. `unchecked_settings` takes a policy and the checks, and returns the
settings for daemons that remain unproven. docs/proof.md states further limits.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any, NamedTuple, Protocol, get_args

from measure.records.record import NOT_PROVEN, CheckRecord
from policies import Dot1xLayer, Policy, alternatives
from policies.link import Cipher
from policies.options import is_secret

# --- Helpers of judges: checks, dropped packets, files and values ---

_SHOWN = 3


class CheckResult(Protocol):
    """A check with its result: a statement that captures or kernel state confirm or refute."""

    @property
    def check(self) -> str:
        """Return the statement that was checked."""

    @property
    def ok(self) -> bool:
        """Return whether the statement holds."""

    @property
    def detail(self) -> str:
        """Return the counts behind the check's result."""


def make_check(name: str, complaints: Sequence[str], detail: str) -> CheckRecord:
    """Return a check that holds if the list of complaints is empty.

    The detail lists the first few complaints.

    Args:
        name: The statement that is checked.
        complaints: Reasons why the statement does not hold.
        detail: Detail of a check that holds.
    """
    text = "; ".join(complaints[:_SHOWN]) + (
        f" and {len(complaints) - _SHOWN} more" if len(complaints) > _SHOWN else "")
    return CheckRecord(check=name, ok=not complaints, detail=text or detail)


def to_records(checks: Iterable[CheckResult]) -> list[CheckRecord]:
    """Convert checks to the form in which records store them."""
    return [CheckRecord(check=each.check, ok=each.ok, detail=each.detail) for each in checks]


def failure_reasons(checks: Iterable[CheckResult]) -> list[str]:
    """Return, for each check that does not hold, the reason why the repetition failed."""
    return [f"{NOT_PROVEN}{check.check} ({check.detail})" for check in checks if not check.ok]


def dropped_packets_reason(raw: Mapping[str, Any]) -> list[str]:
    """Return a list with the reason that captures lost packets, empty if none did."""
    packets = sum(int(capture["dropped"]) for capture in raw["captures"])
    return [f"the captures lack {packets} packets"] * bool(packets)


def select_raw_values(raw: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Return those raw values of a repetition that have one of these names."""
    return {name: raw[name] for name in names if name in raw}


def existing_files(out: Path, names: Sequence[str]) -> list[str]:
    """Return the named files that exist in the repetition's folder."""
    return [name for name in names if (out / name).exists()]


# --- Settings that no check covers ---

#: Name of the check that covers `dot1x.message_authenticator`.
AUTHENTICATOR_CHECK = "server requires Message-Authenticator"
#: Name of the check that covers `dot1x.tls.realm`, where a server forwards.
FORWARDING_CHECK = "server of the realm decides"
#: Name of the check that covers `dot1x.tls.realm` of methods with a tunnel, in any network.
INNER_USER_CHECK = "user inside the tunnel has the realm"


#: By setting of a policy, the beginnings of the names of those checks of which one covers it. A
#: study that makes none of them leaves the setting unproven.
_COVERED_BY: Mapping[str, Sequence[str]] = {
    "link.cipher": ("pairwise cipher negotiated", "static WEP key in use",
                    *(f"{cipher} on every data frame" for cipher in get_args(Cipher)),
                    "protected as the policy says"),
    "link.keys": ("key management negotiated", "static WEP key in use",
                  "keys delivered by EAPOL-Key", "each station has its own keys",
                  "each roam negotiates keys as the policy says",
                  "frames open with the keys in force"),
    "link.roaming": ("fast transition", "FILS with cached keys", "goes on with cached keys",
                     "each roam negotiates keys as the policy says"),
    "link.vlan": ("VLAN tag on the wire",),
    "link.further_vlans": ("other stations are in their VLANs",),
    "link.pmf": ("management frames are protected",
                 "station without protected management frames"),
    "link.akm": ("key management negotiated",), "link.sae": ("SAE element",),
    "link.group": ("SAE group", "OWE exchange"), "link.station_groups": ("SAE groups tried",),
    "link.access_point_groups": ("SAE group",),
    "link.group_mgmt": ("protection of management frames negotiated",),
    "link.neighbor_report": ("neighbor reports supported",),
    "link.bss_transition": ("BSS transition supported",),
    "link.ft_over_ds": ("fast transition over the DS",),
    "link.beacon_protection": ("beacons are protected",),
    "link.ocv": ("operating channel validation negotiated",),
    "link.offered": ("key management offered",),
    "link.station_pmf": ("station without protected management frames",
                         "protection of management frames negotiated"),
    "link.group_cipher": ("group cipher negotiated",),
    "link.owe_transition": ("OWE transition",),
    "link.passphrases": ("passphrase is the device's own",),
    "dot1x.eap": ("EAP method ",), "dot1x.first_offer": ("EAP method ",),
    "dot1x.transport": ("RADIUS inside TLS",), "dot1x.accounting": ("session is accounted",),
    "dot1x.inner": ("inner method ", "no inner method in a resumed session"),
    "dot1x.identity": ("identity is hidden",),
    "dot1x.tls.version": ("TLS 1.",),
    "dot1x.tls.key": ("TLS certificate keys", "session resumed"),
    "dot1x.tls.station_key": ("TLS certificate keys",),
    "dot1x.tls.chain": ("TLS certificate chain", "session resumed"),
    "dot1x.tls.fragment_bytes": ("TLS fragments",), "dot1x.tls.sessions": ("session resumed",),
    "dot1x.tls.group": ("TLS group", "session resumed"),
    "dot1x.tls.revocation": ("revoked certificate is refused",),
    **dict.fromkeys(("dot1x.tls.server_name", "dot1x.tls.server_domain"),
                    ("server with another name is refused",)),
    "ipsec.ike": ("ISAKMP packets",), "ipsec.ike_proposal": ("IKE proposal",),
    "ipsec.ike_offered": ("IKE proposals offered",), "ipsec.ike_accepted": ("IKE proposal",),
    "ipsec.esp_proposal": ("ESP transforms in the kernel",),
    "ipsec.mode": ("ESP transforms in the kernel",),
    "ipsec.authentication": ("IKE authentication",),
    # At home, the tunnel shows itself in place of Mobile IP.
    "ipsec.mobike": ("MOBIKE", "no Mobile IP", "tunnel goes by the new address",
                     "kernels have the new address", "tunnel goes on at the new port"),
    "ipsec.dpd": ("dead peer detection",), "ipsec.keepalive": ("NAT keepalives",),
    "wireguard.roams": ("no Mobile IP", "kernels have the new address",
                        "tunnel goes by the new address", "tunnel goes on at the new port"),
    "wireguard.mtu": ("WireGuard: MTU",), "wireguard.keepalive": ("WireGuard: keepalive",),
    "wireguard.preshared_key": ("WireGuard: pre-shared key",),
    "quic.on_move": ("QUIC: new path is validated", "QUIC: new connection after the move"),
    "wire.macsec": ("MACsec in the kernels",), "wire.encrypts": ("MACsec encrypts",),
    "wire.replay_window": ("MACsec replay window",),
    "aaa.server": ("challenge of the subscriber's key",),
    # Only a study whose own cells have them measures these two.
    "aaa.authority": (), "aaa.identity": ()}
#: Ways to move whose first association shows them: its key management has a number of its own.
_SHOWN_ROAMING = ("ft", "ft-pull", "fils")
#: Fields in which 0 differs from leaving them out.
_ZERO_SAYS = ("link.station_pmf", "wire.encrypts")
#: Values that state the usual behaviour in words. They have no check in any study.
_USUAL_WORDS = ("clear", "udp")


class UncheckedSetting(NamedTuple):
    """A policy setting that no check covers: its path in the policy, description and value."""

    path: str
    statement: str
    value: str

    @property
    def description(self) -> str:
        """Return words that describe the setting and its value."""
        return f"{self.statement} ({self.value})" if self.value else self.statement


def unchecked_settings(policy: Policy,
                       evidence: Iterable[CheckResult] | None = None) -> list[UncheckedSetting]:
    """Return the policy settings for daemons that no check covers.

    Args:
        policy: The policy of the cell.
        evidence: The checks that were made; a check that holds covers its settings. None stands for
            all checks that a repetition with status `ok` has.
    """
    layers = policy.layers
    checks = None if evidence is None else list(evidence)
    holding = None if checks is None else {check.check for check in checks if check.ok}
    found = [*_unchecked_options(policy, holding),
             *_uncovered_settings(policy, {check.check for check in checks or ()}),
             *(_unchecked_dot1x(layers.dot1x, holding) if layers.dot1x else ())]
    if layers.link and layers.link.ocv:
        found.append(UncheckedSetting("link.ocv.wpa_supplicant", "link.ocv at wpa_supplicant", ""))
    return [*found, *_untried_alternatives(policy, {check.check for check in checks or ()})]


def _untried_alternatives(policy: Policy, checks: AbstractSet[str]) -> Iterator[UncheckedSetting]:
    """Yield fields with values that an end accepts, too, and that no attempt of the study shows.

    A repetition that broke off has no checks, and yields no fields.
    """
    by_field: dict[str, list[str]] = {}
    for field, value in alternatives.list_alternatives(policy.layers):
        if checks and alternatives.CHECKS[field] not in checks:
            by_field.setdefault(field, []).append(value)
    for field, values in by_field.items():
        yield UncheckedSetting(field, f"further values of {field}"
                               if field != alternatives.ESP_GROUP else f"the group in {field}",
                               ", ".join(values))


def _uncovered_settings(policy: Policy, checks: AbstractSet[str]) -> Iterator[UncheckedSetting]:
    """Yield the fields of a policy that none of the checks covers, whether these hold or not.

    A repetition that broke off has no checks, and yields no fields.
    """
    for path, beginnings in _COVERED_BY.items() if checks else ():
        place, _, name = path.rpartition(".")
        layer: Any = policy.layers
        for part in place.split("."):
            layer = getattr(layer, part, None)
        if layer is None:
            continue
        value = getattr(layer, name)
        if path == "link.roaming" and value in _SHOWN_ROAMING:
            beginnings = (*beginnings, "key management negotiated")  # noqa: PLW2901
        if _is_usual(path, value, layer) or any(
                check.startswith(tuple(beginnings)) for check in checks):
            continue
        yield UncheckedSetting(path, path, ", ".join(map(str, value)) if isinstance(value, list)
                               else str(value))


def _is_usual(path: str, value: Any, layer: Any) -> bool:
    """Return whether a field states the behaviour of a policy that leaves it out."""
    if path == "dot1x.first_offer":
        return bool(value == layer.eap)
    default = type(layer).model_fields[path.rpartition(".")[2]].default
    return value == default or value in _USUAL_WORDS or (not value and path not in _ZERO_SAYS)


def _unchecked_options(policy: Policy, holding: set[str] | None) -> Iterator[UncheckedSetting]:
    """Yield the daemon options of a policy that have no check, by the table of known options."""
    for setting in sorted(policy.layers.option_settings()):
        check = setting.group.check
        if not check or (holding is not None and check not in holding):
            secret = is_secret(setting.daemon, setting.name, setting.value)
            yield UncheckedSetting(".".join(setting.path), f"{setting.daemon}'s {setting.name}",
                                   "not shown" if secret else str(setting.value))


def _unchecked_dot1x(layer: Dot1xLayer, holding: set[str] | None) -> Iterator[UncheckedSetting]:
    if layer.message_authenticator and holding is not None and AUTHENTICATOR_CHECK not in holding:
        yield UncheckedSetting("dot1x.message_authenticator", "dot1x.message_authenticator",
                               layer.message_authenticator)
    if layer.tls is not None and layer.tls.realm and not {FORWARDING_CHECK, INNER_USER_CHECK} & (
            holding or set()):
        yield UncheckedSetting("dot1x.tls.realm", "dot1x.tls.realm", layer.tls.realm)
