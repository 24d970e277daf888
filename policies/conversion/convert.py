"""Make a policy from a configuration file of another program, such as hostapd.conf.

A policy says which protection a network uses. `convert_file` takes the path of a file: hostapd,
wpa_supplicant, OpenWrt, NetworkManager, iwd, swanctl or wg-quick. It finds the kind of file, and
lets the module for this kind read it. It returns a `Conversion`: the policy as YAML, with notes on
what was left out or assumed. The command `qop policy` uses it, so that users can measure their own
network.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from policies.conversion import (
    hostapd,
    iwd,
    network_manager,
    openwrt,
    tunnels,
    wpa_supplicant,
)
from policies.conversion.kinds import KINDS, find_kind, find_other
from policies.conversion.network import Network, choose_network
from policies.conversion.result import Conversion, PolicyDraft
from policies.conversion.source import Source, read_source
from policies.errors import one_line
from policies.fields import make_id
from policies.loader import policy_ids


class _Reader(NamedTuple):
    """The functions that read one kind of configuration file: its networks, other settings."""

    networks: Callable[[Source], Sequence[Network]]
    others: Callable[[Source], Sequence[tuple[int, str, str]]] = lambda _source: ()


_READERS: Mapping[str, _Reader] = {
    "hostapd": _Reader(hostapd.read_networks),
    "wpa_supplicant": _Reader(wpa_supplicant.read_networks, wpa_supplicant.read_other_blocks),
    "openwrt": _Reader(openwrt.read_networks, openwrt.read_other_sections),
    "networkmanager": _Reader(network_manager.read_networks),
    "iwd": _Reader(iwd.read_networks),
    "swanctl": _Reader(tunnels.read_swanctl, tunnels.read_other_sections),
    "wireguard": _Reader(tunnels.read_wg_quick),
}

#: Kinds of files that say nothing of the air.
_WITHOUT_AIR = ("swanctl", "wireguard")


def convert_file(file: str, *, kind: str | None = None, network: str | None = None,
                 policy_id: str | None = None) -> Conversion:
    """Make a policy from a configuration file.

    Args:
        file: The file's path, or - for standard input.
        kind: A name in KINDS, by default found by the file's content and name.
        network: Name of the network, connection or interface, if the file has several.
        policy_id: The policy's id, by default the network's name.

    Raises:
        PolicyError: No policy can be made of the file; the text is one line.
    """
    source = read_source(file)
    return convert_source(source, kind=kind, network=network, policy_id=policy_id)


def convert_source(source: Source, *, kind: str | None = None, network: str | None = None,
                   policy_id: str | None = None) -> Conversion:
    """Make a policy from the text of a configuration file. See `convert_file`.

    `kind` is the kind of file (None: found by its content). `network` is the name of the network to
    take from it.
    """
    kind_name = kind or _require_kind(source)
    reader = _READERS[kind_name]
    networks = reader.networks(source)
    if not networks:
        raise source.make_error(1, "there is no network in this file", "name a file with settings")
    chosen = choose_network(source, networks, network)
    draft = PolicyDraft(source)
    chosen.fill(draft)
    for line, label, reason in reader.others(source):
        if not draft.has_taken(line):
            draft.add_note(line, label, reason)
    for each in networks:
        if each is not chosen:
            name = one_line(each.unique_name(networks))
            draft.add_note(each.line, "network", f"{name!r} is another one: --network chooses it")
    if not any(name.startswith("link.") for name in draft.fields):
        draft.say_open("the file says nothing of Wi-Fi" if kind_name in _WITHOUT_AIR else
                       "the file protects no frames on it")
    names = (*chosen.names, source.file_name.partition(".")[0])
    return draft.make_conversion(chosen.settings, _choose_id(source, names, policy_id))


def _choose_id(source: Source, names: Sequence[str], wanted: str | None) -> str:
    """Return the policy's id: the one that the user wants, or the network's name.

    Raises:
        PolicyError: The wanted id cannot be one, or is that of a built-in policy.
    """
    known = policy_ids()
    if wanted is None:
        policy_id = next((word for name in names if (word := make_id(name)) != "policy"), "policy")
        return f"{policy_id[:36]}-own" if policy_id in known else policy_id
    if wanted in known or make_id(wanted) != wanted:
        raise source.make_error(1, f"--id {one_line(wanted)[:64]}: " + (
            "comes with qop" if wanted in known else "cannot name files and tables"),
                                "use 1 to 40 letters, digits, '-' or '_' of your own")
    return wanted


def _require_kind(source: Source) -> str:
    """Return the kind of a configuration file, given by name or found by its content.

    Raises:
        PolicyError: The kind is not known.
    """
    kind = find_kind(source.text, source.file_name)
    if kind is not None:
        return kind
    known = ", ".join(KINDS)
    if not source.text.strip():
        raise source.make_error(1, "the file is empty", "name a configuration file")
    other = find_other(source.text)
    if other is not None:
        raise source.make_error(1, f"this format is {other}", f"known kinds are {known}")
    raise source.make_error(1, "this is no configuration file that qop knows",
                            f"say its kind by --kind: {known}")
