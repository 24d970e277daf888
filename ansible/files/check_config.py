"""Check rendered configuration files of daemons, such as hostapd.conf: `check_config.py FILE...`.

The Ansible action `node_files` calls `complaints` before it installs files for a daemon. Input is a
folder and the names by which daemons read the files. The result is a line for each invalid file.

The checks are strict where a template can go wrong. Every line must parse. No value may be empty,
given twice, or a Python or Jinja value that should have become text. Everything that a daemon needs
must exist. The daemon itself checks the values of its options.
"""

# ruff: noqa: INP001  # an __init__.py in ansible/ would shadow ansible-core
from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path


class ConfigError(Exception):
    """An error in a configuration file, as `LINE: what` (line 0: the file as a whole)."""

    def __init__(self, line: int, what: str) -> None:
        super().__init__(f"{line}: {what}")


# Options that hostapd collects instead of replacing.
HOSTAPD_REPEATABLE = frozenset(
    {"r0kh", "r1kh", "radius_auth_req_attr", "roaming_consortium", "sae_password",
     "auth_server_addr", "auth_server_port", "auth_server_shared_secret"}
)
UNRENDERED = re.compile(r"\{\{|\}\}|\{%|AnsibleUndefined|Undefined\(|^\[|^\{")
PYTHON_WORDS = {"True", "False", "None", "undefined"}
HEX_KEY = re.compile(r"[0-9a-fA-F]{10}|[0-9a-fA-F]{26}")
WHOLE_NUMBER = re.compile(r"\d+")
HOSTAPD_NUMBERS = ["channel", "ieee8021x", "wpa", "ieee80211w", "wep_default_key"]
HOSTAPD_DYNAMIC_WEP = ["wep_key_len_broadcast", "wep_key_len_unicast"]
HOSTAPD_RADIUS = ["own_ip_addr", "auth_server_addr", "auth_server_shared_secret"]
SWANCTL_CHILD = ["mode", "esp_proposals", "local_ts", "remote_ts"]
CREDENTIALS = {
    "TLS": ["ca_cert", "client_cert", "private_key"],
    "MD5": ["password"],
    "PWD": ["password"],
    "AKA": [],
    "AKA'": [],
    "PEAP": ["ca_cert", "password", "phase2"],
    "TTLS": ["ca_cert", "password", "phase2"],
}
#: The same where EAP-TLS is inside the tunnel.
CREDENTIALS_INSIDE = ["ca_cert", "ca_cert2", "client_cert2", "private_key2"]
EAP_SERVER = ["radius_server_clients", "eap_user_file", "ca_cert", "server_cert", "private_key",
              "eap_sim_db"]
CERTIFICATE = ["private_key_file", "certificate_file", "ca_file"]
SWANCTL_SHUNT = ["mode", "start_action", "local_ts", "remote_ts"]
MKA_NUMBERS = ["macsec_policy", "macsec_integ_only", "macsec_replay_protect",
               "macsec_replay_window", "mka_priority"]
NETWORK_NUMBERS = ["disabled", "eapol_flags", "wep_tx_keyidx", "ieee80211w"]

#: Keys whose empty value means all that the library has.
MAY_BE_EMPTY = {"ecdh_curve"}
#: Keys whose value is capabilities in brackets, and such a value.
IN_BRACKETS, CAPABILITIES = {"ht_capab", "vht_capab"}, re.compile(r"(\[[A-Z0-9+-]+\])+")


def check_value(line: int, key: str, value: str) -> str:
    """Return a setting's value without quotes. Refuse text that no daemon should read."""
    quote = value[:1] if value[:1] in ('"', "'") else ""
    if quote and (len(value) < 2 or not value.endswith(quote)):
        raise ConfigError(line, f"{key}: the quote is not closed")
    if quote == "'" and "'" in value[1:-1]:
        raise ConfigError(line, f"{key}: a quote inside quotes")
    text = value[1:-1] if quote else value
    if not text.strip() and key not in MAY_BE_EMPTY:
        raise ConfigError(line, f"{key} has no value")
    is_list = key in IN_BRACKETS and CAPABILITIES.fullmatch(text)
    if text in PYTHON_WORDS or (UNRENDERED.search(text) and not is_list):
        raise ConfigError(line, f"{key} has the value {text}, which was never rendered to text")
    return text


def require_keys(values: Mapping[str, object], keys: list[str], where: str) -> None:
    """Raise an error if one of the required settings is missing."""
    for key in keys:
        if key not in values:
            raise ConfigError(0, f"{where} needs {key}")


def require_numbers(values: Mapping[str, str], keys: list[str]) -> None:
    """Raise an error if one of these settings is not a whole number."""
    for key in keys:
        if key in values and not WHOLE_NUMBER.fullmatch(values[key]):
            raise ConfigError(0, f"{key} must be a number, not {values[key]}")


def require_wep_key(values: Mapping[str, str]) -> None:
    """Raise an error for a WEP key whose length is not that of WEP-40 or WEP-104."""
    if "wep_key0" in values and not HEX_KEY.fullmatch(values["wep_key0"]):
        raise ConfigError(0, "wep_key0 must be 10 or 26 hexadecimal digits")


# --- hostapd and wpa_supplicant: KEY=VALUE, and blocks of them ---------------------------------


def parse_settings(
    lines: list[tuple[int, str]], repeatable: frozenset[str] = frozenset()
) -> dict[str, str]:
    """Parse KEY=VALUE lines of a configuration file.

    The daemons allow no space around the sign.
    """
    values: dict[str, str] = {}
    for number, line in lines:
        key, sign, value = line.partition("=")
        if not sign or not re.fullmatch(r"[A-Za-z0-9_]+", key):
            raise ConfigError(number, f"not KEY=VALUE: {line}")
        if key in values and key not in repeatable:
            raise ConfigError(number, f"{key} is given twice")
        values[key] = check_value(number, key, value)
    return values


def significant_lines(text: str) -> list[tuple[int, str]]:
    """Return the lines of a file with their numbers, without indentation.

    Comments and blank lines are left out.
    """
    lines = [(number, line.strip()) for number, line in enumerate(text.split("\n"), 1)]
    return [(number, line) for number, line in lines if line and not line.startswith("#")]


def check_hostapd(text: str) -> None:
    """Check hostapd.conf."""
    first, *others = split_networks(significant_lines(text))
    for lines in others:
        require_keys(parse_settings(lines), ["bss", "bridge", "ssid"], "a further network")
    values = parse_settings(first, HOSTAPD_REPEATABLE)
    require_keys(values, ["interface", "driver", "ctrl_interface", "ssid", "hw_mode", "channel"],
                 "hostapd")
    require_numbers(values, HOSTAPD_NUMBERS + HOSTAPD_DYNAMIC_WEP)
    require_wep_key(values)
    if values.get("ieee8021x") == "1":
        require_keys(values, HOSTAPD_RADIUS, "ieee8021x=1")
    if "wep_key0" in values:
        require_keys(values, ["wep_default_key"], "wep_key0")
    if not values.keys().isdisjoint(HOSTAPD_DYNAMIC_WEP):
        require_keys(values, ["ieee8021x", *HOSTAPD_DYNAMIC_WEP], "dynamic WEP")
    if "wpa" in values:
        check_wpa(values)


def check_passphrases(text: str) -> None:
    """Check hostapd.psk: a MAC address and its passphrase on each line, at least one."""
    if not significant_lines(text):
        raise ConfigError(0, "needs a passphrase")
    for number, line in significant_lines(text):
        if not re.fullmatch(r"(vlanid=\d+ )?([0-9a-f]{2}:){5}[0-9a-f]{2} \S{8,63}", line):
            raise ConfigError(number, "not MAC-ADDRESS PASSPHRASE")


def check_vlans(text: str) -> None:
    """Check that each line of hostapd.vlan has a VLAN ID and the name of its interface.

    Raises:
        ConfigError: A line has another form, or the file has no VLAN.
    """
    if not significant_lines(text):
        raise ConfigError(0, "needs a VLAN")
    for number, line in significant_lines(text):
        if not re.fullmatch(r"[1-9]\d{0,3} \S{1,15}", line):
            raise ConfigError(number, "not VLAN INTERFACE")


def split_networks(lines: list[tuple[int, str]]) -> list[list[tuple[int, str]]]:
    """Split the lines of hostapd.conf by network. Each further network begins with bss=."""
    networks: list[list[tuple[int, str]]] = [[]]
    for number, line in lines:
        if line.startswith("bss="):
            networks.append([])
        networks[-1].append((number, line))
    return networks


def takes_eap(key_management: str) -> bool:
    """Return whether a key management setting gets its keys from EAP."""
    return "EAP" in key_management or key_management.startswith("FILS")


def check_wpa(values: Mapping[str, str]) -> None:
    """Check the settings of hostapd.conf that WPA requires."""
    require_keys(values, ["wpa_key_mgmt"], "wpa")
    if any(key.startswith("wep_") for key in values):
        raise ConfigError(0, "wpa and WEP keys exclude each other")
    if not {"wpa_pairwise", "rsn_pairwise"} & values.keys():
        raise ConfigError(0, "wpa needs wpa_pairwise or rsn_pairwise")
    if takes_eap(values["wpa_key_mgmt"]):
        require_keys(values, ["ieee8021x"], "wpa_key_mgmt with EAP")
    elif values["wpa_key_mgmt"] != "OWE" and not (
        {"wpa_passphrase", "wpa_psk", "wpa_psk_file", "sae_password"} & values.keys()
    ):
        raise ConfigError(0, f"wpa_key_mgmt={values['wpa_key_mgmt']} needs wpa_passphrase")
    if not 8 <= len(values.get("wpa_passphrase", "8 to 63.")) <= 63:
        raise ConfigError(0, "wpa_passphrase must have 8 to 63 characters")


def check_wpa_supplicant(text: str) -> None:
    """Check wpa_supplicant.conf with exactly one network."""
    outside, network = parse_network(text)
    require_keys(outside, ["ctrl_interface", "ap_scan"], "wpa_supplicant")
    check_network(network, outside)


def check_macsec(text: str) -> None:
    """Check macsec.conf, wpa_supplicant's configuration for MACsec key agreement (MKA)."""
    outside, network = parse_network(text)
    require_keys(outside, ["ctrl_interface", "ap_scan", "eapol_version"], "macsec")
    require_keys(network, ["key_mgmt", "mka_cak", "mka_ckn", *MKA_NUMBERS], "network")
    require_numbers(network, MKA_NUMBERS)
    if not re.fullmatch(r"[0-9a-f]{32}", network["mka_cak"]):
        raise ConfigError(0, "mka_cak must be 32 hexadecimal digits")


def parse_network(text: str) -> tuple[dict[str, str], dict[str, str]]:
    """Parse wpa_supplicant.conf into its general settings and its one network block."""
    outside: list[tuple[int, str]] = []
    networks: list[list[tuple[int, str]]] = []
    opened = 0
    for number, line in significant_lines(text):
        if line == "network={":
            if opened:
                raise ConfigError(number, f"the block of line {opened} is still open")
            opened = number
            networks.append([])
        elif line == "}":
            if not opened:
                raise ConfigError(number, "closes a block that was never opened")
            opened = 0
        else:
            (networks[-1] if opened else outside).append((number, line))
    if opened:
        raise ConfigError(opened, "the block is never closed")
    if len(networks) != 1:
        raise ConfigError(0, f"needs one network, has {len(networks)}")
    return parse_settings(outside), parse_settings(networks[0])


def check_network(network: Mapping[str, str], outside: Mapping[str, str]) -> None:
    """Check the one network block of wpa_supplicant.conf, and the channels outside of it."""
    channels = "freq_list" if "freq_list" in outside else "scan_freq"
    require_keys(network, ["ssid", "key_mgmt"], "network")
    require_keys({**outside, **network}, [channels], "network")
    require_numbers(network, NETWORK_NUMBERS)
    for frequency in {**outside, **network}[channels].split():
        require_numbers({channels: frequency}, [channels])
    require_wep_key(network)
    if "eap" in network:
        if network["eap"] not in CREDENTIALS:
            raise ConfigError(0, f"eap={network['eap']} is no method with known credentials")
        has_tls_inside = "auth=TLS" in network.get("phase2", "")
        require_keys(network, ["identity", *(CREDENTIALS_INSIDE if has_tls_inside
                                             else CREDENTIALS[network["eap"]])],
                     f"eap={network['eap']}")
    elif takes_eap(network["key_mgmt"]) or network["key_mgmt"] == "IEEE8021X":
        raise ConfigError(0, f"key_mgmt={network['key_mgmt']} needs eap")
    if network["key_mgmt"].startswith(("WPA", "SAE", "OWE", "FT", "FILS")):
        require_keys(network, ["proto", "pairwise"], f"key_mgmt={network['key_mgmt']}")
        has_secret = not takes_eap(network["key_mgmt"]) and network["key_mgmt"] != "OWE"
        if has_secret and not {"psk", "sae_password"} & network.keys():
            raise ConfigError(0, f"key_mgmt={network['key_mgmt']} needs psk")
    if "wep_tx_keyidx" in network:
        require_keys(network, ["wep_key0"], "wep_tx_keyidx")


# --- strongSwan and FreeRADIUS: KEY = VALUE in nested braces ------------------------------------


class Tree(dict[str, "Tree | str"]):
    """A block of a configuration file: settings and blocks by name."""


def parse_tree(text: str, *, words: bool) -> Tree:
    """Parse a configuration file with nested braces.

    `words` allows FreeRADIUS' bare module names, $INCLUDE, two-word headers and conditions.
    """
    root = Tree()
    path: list[tuple[int, Tree]] = [(0, root)]
    for number, line in significant_lines(text):
        here = path[-1][1]
        header = re.fullmatch(r"([\w.-]+(?: [\w.-]+)?|if \(&[\w-]+ == \"[\w.-]+\"\)) \{", line)
        setting = re.fullmatch(r"([\w-]+) :?= ?(.*)", line)
        if line == "}":
            if len(path) == 1:
                raise ConfigError(number, "closes a block that was never opened")
            path.pop()
            continue
        value: Tree | str
        if header and (words or " " not in header[1]):
            key, value = header[1], Tree()
            path.append((number, value))
        elif setting:
            key, value = setting[1], check_value(number, setting[1], setting[2].strip())
        elif words and re.fullmatch(r"\w+|\$INCLUDE [\w.]+", line) and line not in PYTHON_WORDS:
            key, value = line, line
        else:
            raise ConfigError(number, f"neither a setting nor a block: {line}")
        if key in here:
            raise ConfigError(number, f"{key} is given twice")
        here[key] = value
    if len(path) > 1:
        raise ConfigError(path[-1][0], "the block is never closed")
    return root


def require_block(parent: Tree, key: str, where: str) -> Tree:
    """Return the block `key` of a configuration.

    Raises:
        ConfigError: The block is missing or empty, or a plain value is in its place.
    """
    found = parent.get(key)
    if not isinstance(found, Tree) or not found:
        raise ConfigError(0, f"{where} needs a block {key} with something in it")
    return found


def check_strongswan(text: str) -> None:
    """Check strongswan.conf of one node's charon."""
    charon = require_block(parse_tree(text, words=False), "charon", "strongswan.conf")
    require_keys(charon, ["load"], "charon")
    require_keys(require_block(require_block(charon, "plugins", "charon"), "vici", "plugins"),
                 ["socket"], "vici")
    require_block(charon, "filelog", "charon")


def check_swanctl(text: str) -> None:
    """Check swanctl.conf: at least one connection that has both ends and child SAs."""
    connections = require_block(parse_tree(text, words=False), "connections", "swanctl.conf")
    for name in connections:
        connection = require_block(connections, name, "connections")
        if name.startswith(("hold-", "pass-")):  # not negotiated with a peer
            children = require_block(connection, "children", name)
            for child in children:
                require_keys(require_block(children, child, name), SWANCTL_SHUNT, f"{name}.{child}")
            continue
        require_keys(connection, ["version", "local_addrs", "remote_addrs", "proposals"], name)
        for end in ("local", "remote"):
            side = require_block(connection, end, name)
            require_keys(side, ["auth", "id"], f"{name}.{end}")
            if side["auth"] == "pubkey" and not {"pubkeys", "certs", "cacerts"} & side.keys():
                raise ConfigError(0, f"{name}.{end} has neither pubkeys nor certs nor cacerts")
        children = require_block(connection, "children", name)
        for child in children:
            require_keys(require_block(children, child, name), SWANCTL_CHILD, f"{name}.{child}")


def check_radiusd(text: str) -> None:
    """Check radiusd.conf: its modules and one virtual server."""
    root = parse_tree(text, words=True)
    require_keys(root, ["name", "pidfile", "run_dir", "$INCLUDE clients.conf"], "radiusd.conf")
    modules = require_block(root, "modules", "radiusd.conf")
    require_keys(require_block(modules, "files", "modules"), ["usersfile"], "files")
    eap = require_block(modules, "eap", "modules")
    require_keys(eap, ["default_eap_type"], "eap")
    require_keys(eap, [str(eap["default_eap_type"])], "eap with that default_eap_type")
    server = require_block(root, "server qop", "radiusd.conf")
    listen = require_block(server, "listen", "server")
    require_keys(listen, ["type", "ipaddr", "port"], "listen")
    if listen.get("proto") == "tcp":
        require_keys(listen, ["clients"], "listen by TCP")
        require_keys(require_block(listen, "tls", "listen by TCP"),
                     [*CERTIFICATE, "require_client_cert"], "tls")
    for section in ("authorize", "authenticate"):
        require_keys(require_block(server, section, "server"), ["eap"], section)


def check_proxy(text: str) -> None:
    """Check proxy.conf of a RadSec proxy, which forwards all requests inside TLS."""
    root = parse_tree(text, words=True)
    require_keys(root, ["name", "pidfile", "run_dir"], "proxy.conf")
    require_keys(require_block(root, "client access_point", "proxy.conf"), ["ipaddr", "secret"],
                 "client")
    server = require_block(root, "home_server decides", "proxy.conf")
    require_keys(server, ["proto", "ipaddr", "port", "src_ipaddr", "secret"], "home_server")
    tls = require_block(server, "tls", "home_server")
    require_keys(tls, CERTIFICATE if "private_key_file" in tls else ["ca_file"], "tls")
    listen = require_block(require_block(root, "server qop", "proxy.conf"), "listen", "server")
    require_keys(listen, ["type", "ipaddr", "port"], "listen")


def check_clients(text: str) -> None:
    """Check clients.conf of FreeRADIUS: at least one client."""
    clients = parse_tree(text, words=True)
    if "clients radsec" in clients:
        clients = require_block(clients, "clients radsec", "clients.conf")
    if not clients:
        raise ConfigError(0, "clients.conf needs a client")
    for name in clients:
        require_keys(require_block(clients, name, "clients.conf"), ["ipaddr", "secret"], name)


def check_users(text: str) -> None:
    """Check FreeRADIUS' users file, in the forms that the Ansible role writes."""
    for number, line in significant_lines(text):
        if line == 'DEFAULT Tmp-String-0 := "%{User-Name}"':
            continue
        entry = re.fullmatch(r"('.*') (?:Cleartext-Password|Tmp-String-0) := ('.*')", line)
        if not entry:
            raise ConfigError(number, "not 'NAME' Cleartext-Password := 'PASSWORD'")
        check_value(number, "the name", entry[1])
        check_value(number, "the password", entry[2])


def check_denied(text: str) -> None:
    """Check the file of users that FreeRADIUS rejects: a name and its treatment on each line."""
    for number, line in significant_lines(text):
        entry = re.fullmatch(r"('.*') Auth-Type := Reject", line)
        if not entry:
            raise ConfigError(number, "not 'NAME' Auth-Type := Reject")
        check_value(number, "the name", entry[1])


def check_eap_server(text: str) -> None:
    """Check eap_server.conf, the configuration of hostapd as the authentication server."""
    values = parse_settings(significant_lines(text))
    require_keys(values, EAP_SERVER, "an authentication server")
    require_numbers(values, ["radius_server_auth_port", "fragment_size"])


def check_eap_clients(text: str) -> None:
    """Check the file of RADIUS clients of hostapd: address and secret, at least one."""
    if not significant_lines(text):
        raise ConfigError(0, "needs a client")
    for number, line in significant_lines(text):
        if not re.fullmatch(r"[0-9.]+/32 \S.*", line):
            raise ConfigError(number, "not ADDRESS/32 SECRET")


def check_eap_users(text: str) -> None:
    """Check the file of EAP methods of hostapd, chosen by the first character of a user's name."""
    for number, line in significant_lines(text):
        if line not in ('"0"* AKA', '"6"* AKA\'', "* TLS"):
            raise ConfigError(number, "not a method as the role writes it")


def check_dnsmasq(text: str) -> None:
    """Check dnsmasq.conf with router advertisements, or an address reserved in a range."""
    values: dict[str, list[str]] = {}
    for number, line in significant_lines(text):
        key, _, value = line.partition("=")
        if not re.fullmatch(r"[a-z-]+", key) or ("=" in line and not value):
            raise ConfigError(number, f"neither a word nor KEY=VALUE: {line}")
        values.setdefault(key, []).append(check_value(number, key, value) if value else "")
    leased = [] if "enable-ra" in values else ["dhcp-host", "dhcp-option"]
    require_keys(values, ["port", "interface", "dhcp-leasefile", "dhcp-range", *leased],
                 "dnsmasq.conf")


def check_krb5(text: str) -> None:
    """Check krb5.conf and similar files: sections, settings, and blocks of a realm in them."""
    section, realm, given = "", "", set[tuple[str, str, str]]()
    for number, line in significant_lines(text):
        heading = re.fullmatch(r"\[(\w+)\]", line)
        opening = re.fullmatch(r"([\w.-]+) = \{", line)
        setting = re.fullmatch(r"([\w.-]+) = (.+)", line)
        if heading and not realm:
            section = heading[1]
        elif opening and section and not realm:
            realm = opening[1]
        elif line == "}" and realm:
            realm = ""
        elif setting and section:
            place = (section, realm, setting[1])
            if place in given:
                raise ConfigError(number, f"{setting[1]} is given twice")
            given.add(place)
            check_value(number, setting[1], setting[2])
        else:
            raise ConfigError(number, f"neither a section, a setting nor a block: {line}")
    if realm:
        raise ConfigError(0, f"the block {realm} is never closed")
    if not given:
        raise ConfigError(0, "has no setting at all")


def check_principals(text: str) -> None:
    """Check the commands for kadmin.local, in the forms that the Ansible role writes."""
    for number, line in significant_lines(text):
        if not re.fullmatch(r"addprinc (-nokey|-pw [0-9a-f]+) \S+|ktadd -norandkey -k \S+ \S+",
                            line):
            raise ConfigError(number, "neither addprinc nor ktadd as the role writes them")


def check_openssl(text: str) -> None:
    """Check openssl.cnf of a station: it names one group of TLS."""
    if len(re.findall(r"^Groups = \w+$", text, re.MULTILINE)) != 1:
        raise ConfigError(0, "Groups does not name one group")


def check_tunnel(text: str) -> None:
    """Check the file of a tunnel's end: a duty, an address, and peers with their addresses."""
    settings = json.loads(text)
    if settings.get("duty") not in ("mobile", "gateway") or not settings.get("address"):
        raise ConfigError(0, "duty or address is missing")
    if not settings.get("peers") or not all(
            peer.get("name") and peer.get("address") for peer in settings["peers"]):
        raise ConfigError(0, "there is no peer, or one without a name or an address")


def check_unknown(_text: str) -> None:
    """Raise an error for any file that no daemon here reads."""
    raise ConfigError(0, f"no daemon's file; known are {', '.join(CHECKS)}")


CHECKS: dict[str, Callable[[str], None]] = {
    "hostapd.conf": check_hostapd,
    "hostapd.psk": check_passphrases,
    "hostapd.vlan": check_vlans,
    "wpa_supplicant.conf": check_wpa_supplicant,
    "openssl.cnf": check_openssl,
    "macsec.conf": check_macsec,
    "strongswan.conf": check_strongswan,
    "swanctl.conf": check_swanctl,
    "radiusd.conf": check_radiusd,
    "proxy.conf": check_proxy,
    "clients.conf": check_clients,
    "users": check_users,
    "denied": check_denied,
    "eap_server.conf": check_eap_server,
    "eap_clients": check_eap_clients,
    "eap_users": check_eap_users,
    "krb5.conf": check_krb5,
    "kdcs.conf": check_krb5,
    "kdc.conf": check_krb5,
    "principals": check_principals,
    "wireguard.json": check_tunnel,
    "quic.json": check_tunnel,
    "mptcp.json": check_tunnel,
    "dnsmasq.conf": check_dnsmasq,
}


def complaints(folder: Path, names: Sequence[str]) -> list[str]:
    """Return a line for each invalid configuration file: its name, the line, and the error."""
    wrong = []
    for name in names:
        path = folder / name
        try:
            CHECKS.get(path.name, check_unknown)(path.read_text())
        except (ConfigError, OSError, UnicodeDecodeError) as error:
            wrong.append(f"{name}:{error}")
    return wrong


def main(arguments: list[str]) -> int:
    """Check every file on the command line, and print a line for each invalid one."""
    wrong = complaints(Path(), arguments)
    for line in wrong:
        print(line, file=sys.stderr)
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
