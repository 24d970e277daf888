"""Make the networks in which `qop bench explain` injects faults.

A trial is a small network with at most one fault. Its capture is given to `qop explain`, which has
to find the cause. A `Draft` describes a trial: stations that join and roam, or two ends of a
tunnel. The functions of `bench.explain_faults` change a draft. `make_trial` then returns the job
for the guest (`measure.load.blind_trial`), and the configuration files of its daemons.
"""

from __future__ import annotations

import base64
import random
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from cryptography.hazmat.primitives.asymmetric import x25519

from topologies.model import Interface, Link, Network, Node

Step = dict[str, Any]

STATION, BYSTANDER = "02:00:00:00:01:00", "02:00:00:00:02:00"
BSSIDS = {"join": "02:00:00:00:a0:00", "roam": "02:00:00:00:b0:00"}
#: Radio of the access point that a station joins, and of the one that it roams to.
_RADIOS = {"join": "wlan-a", "roam": "wlan-b"}
SERVER_IP, SECOND_IP, ACCESS_POINT_IP = "10.1.0.1", "10.1.0.9", "10.1.0.2"
#: Folder of the job in the guest, and name of charon's control socket in /run.
HOST, VICI = "/host", "charon.vici"
CONNECTED = "CTRL-EVENT-CONNECTED"
_SSID, _PASSPHRASE, _SECRET = "blind", "a passphrase of the bench", "a secret of the bench"
_USER_SECRET = '"password"'  # noqa: S105 - of a network that exists for seconds


@dataclass(frozen=True)
class Truth:
    """The right answer to a trial: causes that its capture shows, with the station and the keys.

    - `causes`: causes that `qop explain` has to name; none without a fault
    - `consequences`: causes that may be named as well, because the fault has them as effects
    - `station`, `peer`: MAC addresses of the station, and on the air of its access point
    - `keys`: decryption keys that `qop explain` gets (`measure.capture.dissection`)
    """

    causes: tuple[str, ...] = ()
    consequences: tuple[str, ...] = ()
    station: str = STATION
    peer: str = ""
    keys: tuple[str, ...] = ()


@dataclass
class Draft:
    """A trial before a fault is added: policy, daemons' options, and steps."""

    rng: random.Random
    #: Source of keys: "eap", "psk" or "sae"; "" without radios.
    keys: str = "eap"
    eap: str = "TLS"
    tls: str = "1.2"
    pmf: int = 0
    roams: bool = False
    #: Phase in which the fault is: "join" or "roam".
    phase: str = "join"
    #: Capture point: "air", or "wire" between access point and server.
    point: str = "air"
    has_bystander: bool = False
    uses_dhcp: bool = False
    #: Whether `qop explain` gets the passphrase.
    is_decrypted: bool = False
    #: What differs at the initiator of a tunnel: proposals, or the pre-shared key.
    ike: dict[str, Any] | None = None
    wireguard: dict[str, Any] | None = None
    hostapd: dict[str, Any] = field(default_factory=dict)
    hostapd_of: dict[str, dict[str, Any]] = field(default_factory=lambda: {"join": {}, "roam": {}})
    station: dict[str, Any] = field(default_factory=dict)
    radius: dict[str, str] = field(default_factory=dict)
    #: Steps before the phase with the fault, between scan and roam, and after the phase.
    fault: list[Step] = field(default_factory=list)
    turn: list[Step] = field(default_factory=list)
    aftermath: list[Step] = field(default_factory=list)
    #: Time in s that the phase with the fault may take.
    limit_s: float = 8.0

    @property
    def fault_radio(self) -> str:
        """Return the access point's radio in the phase with the fault."""
        return _RADIOS[self.phase]

    @property
    def fault_bssid(self) -> str:
        """Return the BSSID in the phase with the fault."""
        return BSSIDS[self.phase]

    def hold_from_start(self) -> None:
        """Let the fault hold for all stations at any time, as it is in the configuration."""
        self.roams, self.phase, self.has_bystander = False, "join", False

    def state_truth(self, *causes: str, consequences: Sequence[str] = ()) -> Truth:
        """Return the right answer to this trial, with which `qop explain` is compared.

        Args:
            causes: Causes that `qop explain` has to name.
            consequences: Causes that it may name as well.
        """
        keys = (f"wpa-pwd:{_PASSPHRASE.replace(' ', '%20')}:{_SSID}",) * self.is_decrypted
        return Truth(causes, tuple(consequences), STATION,
                     self.fault_bssid if self.point == "air" else "", keys)


def add_transition(draft: Draft) -> None:
    """Let access points and station use fast transition."""
    key = "000102030405060708090a0b0c0d0e0f000102030405060708090a0b0c0d0e0f"
    draft.hostapd |= {"wpa_key_mgmt": "FT-EAP", "mobility_domain": "a1b2", "pmk_r1_push": 1,
                      "r0kh": f"ff:ff:ff:ff:ff:ff * {key}",
                      "r1kh": f"00:00:00:00:00:00 00:00:00:00:00:00 {key}"}
    draft.station |= {"key_mgmt": "FT-EAP"}


def use_certificate(draft: Draft, name: str) -> None:
    """Let the station show another certificate."""
    draft.station |= {"client_cert": f'"{HOST}/pki/{name}.pem"',
                      "private_key": f'"{HOST}/pki/{name}.key"'}


def control_station(*words: str) -> Step:
    """Return a step of a trial in which wpa_cli sends a command to the station."""
    return {"do": "run", "node": "sta",
            "argv": ["wpa_cli", "-p", f"{HOST}/run-sta", "-i", "wlan0", *words]}


def control_access_point(radio: str, *words: str) -> Step:
    """Return a step of a trial in which hostapd_cli sends a command to an access point.

    Args:
        radio: Interface of the access point's radio.
        words: The command of hostapd_cli, such as "disassociate", with its arguments.
    """
    return {"do": "run", "node": "ap-a",
            "argv": ["hostapd_cli", "-p", f"{HOST}/run-ap", "-i", radio, *words]}


def make_network() -> Network:
    """Return the trials' network: two access points in one device, and two stations."""
    def make_station(address: str, mac: str) -> Node:
        return Node(["station"], {"wlan0": Interface(f"{address}/24", mac)}, gateway=SERVER_IP,
                    agent="server")

    return Network("blind", {
        "sta": make_station("10.1.0.11", STATION), "sta2": make_station("10.1.0.12", BYSTANDER),
        "ap-a": Node(["access_point"], {
            "wlan-a": Interface(radio=BSSIDS["join"]), "eth-a": Interface(bridge="br-a"),
            "br-a": Interface(f"{ACCESS_POINT_IP}/24")}, agent="server", ssid=_SSID, channel=1),
        "ap-b": Node(["access_point"], {"wlan-b": Interface(radio=BSSIDS["roam"])},
                     agent="server", ssid=_SSID, channel=6),
        "server": Node(["home_agent"], {"air0": Interface(f"{SERVER_IP}/24")})},
        [Link(["ap-a/eth-a", "server/air0"])])


def make_trial(draft: Draft) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the job of a trial (`measure.load.blind_trial`), and its files by their path."""
    if not draft.keys:
        return _make_tunnel_trial(draft)
    files = {f"hostapd-{phase}.conf": _hostapd_text(draft, phase) for phase in BSSIDS}
    files["sta.conf"] = _station_text(draft, draft.station, "sta")
    files["sta2.conf"] = _station_text(draft, {}, "sta2")
    before: list[Step] = []
    if draft.keys == "eap":
        files["radiusd/radiusd.conf"] = _radius_text(draft)
        before.append(start_step("radius", "server", ["freeradius", "-f", "-l", "stdout", "-d",
                                                  f"{HOST}/radiusd"], "Ready to process"))
        if "first" in draft.radius:
            before.append({"do": "run", "node": "server", "argv": [
                "ip", "address", "add", f"{SECOND_IP}/24", "dev", "air0"]})
    if draft.uses_dhcp:
        before.append(start_step("dnsmasq", "server", [
            "dnsmasq", "--keep-in-foreground", "--log-facility=-", "--port=0", "--conf-file=",
            "--user=root", "--no-ping", "--interface=air0", "--dhcp-authoritative",
            f"--dhcp-leasefile={HOST}/leases", "--dhcp-range=10.1.0.100,10.1.0.120,12h"],
            "started, version"))
    before.append(start_step("hostapd", "ap-a", ["hostapd", f"{HOST}/hostapd-join.conf",
                                             f"{HOST}/hostapd-roam.conf"],
                         "wlan-b: AP-ENABLED"))
    point = (("air", None, "hwsim0", "not type ctl") if draft.point == "air"
             else ("wire", "ap-a", "eth-a", ""))
    job = {"network": asdict(make_network()), "captures": [point], "before": before,
           "steps": list(_make_steps(draft))}
    return job, files


def _make_tunnel_trial(draft: Draft) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the job and the files of a trial with a tunnel over the wire, without radios."""
    files, steps = {}, []
    if draft.ike is not None:
        usual = {"proposals": "aes128-sha256-ecp256", "secret": _SECRET}
        for node, ends, its in (
                ("ap-a", (ACCESS_POINT_IP, SERVER_IP), {**usual, **{
                    name: value for name, value in draft.ike.items() if value}}),
                ("server", (SERVER_IP, ACCESS_POINT_IP), usual)):
            files[f"{node}/strongswan.conf"] = _STRONGSWAN
            files[f"{node}/swanctl.conf"] = _SWANCTL % {**its, "local": ends[0], "remote": ends[1]}
        before: list[Step] = [{"do": "charon", "node": node} for node in ("server", "ap-a")]
        steps = [*draft.fault, {"do": "run", "node": "ap-a", "argv": [
            "swanctl", "--initiate", "--child", "net", "--timeout", "12", "--uri",
            f"unix:///run/{VICI}"]}]
    else:
        assert draft.wireguard is not None
        keys = [_make_wireguard_key(draft.rng) for _ in range(3)]
        expected = keys[2 if draft.wireguard["other"] else 1][1]
        before = [
            {"do": "wireguard", "node": "ap-a", "private": keys[0][0], "public": expected,
             "peer": SERVER_IP, "address": "10.9.0.2/24", "allowed": "10.9.0.0/24"},
            {"do": "wireguard", "node": "server", "private": keys[1][0], "public": keys[0][1],
             "peer": "", "address": "10.9.0.1/24", "allowed": "10.9.0.2/32"}]
        ping = {"do": "run", "node": "ap-a", "argv": ["ping", "-c", "2", "-W", "6", "10.9.0.1"]}
        steps = [ping, {"do": "sleep", "seconds": draft.wireguard["idle_s"]}, ping]
    return {"network": asdict(make_network()), "captures": [("wire", "ap-a", "eth-a", "")],
            "before": before, "steps": [*steps, {"do": "sleep", "seconds": 1.0}]}, files


def _make_wireguard_key(rng: random.Random) -> tuple[str, str]:
    """Return a private and its public key, in base64."""
    private = x25519.X25519PrivateKey.from_private_bytes(rng.randbytes(32))
    return (base64.b64encode(private.private_bytes_raw()).decode(),
            base64.b64encode(private.public_key().public_bytes_raw()).decode())


def start_step(name: str, node: str, argv: Sequence[str], ready: str = "") -> Step:
    """Return a step of a trial in which a program starts on a node, and runs on.

    Args:
        name: Name of the program in the trial.
        node: The node.
        argv: Program with its arguments.
        ready: Text in the program's output that ends the step, "" to go on at once.
    """
    return {"do": "start", "name": name, "node": node, "argv": list(argv), "ready": ready}


def _join_step(name: str) -> Step:
    return start_step(name, name, ["wpa_supplicant", "-i", "wlan0", "-c", f"{HOST}/{name}.conf"])


def _make_steps(draft: Draft) -> list[Step]:
    connected = {"do": "wait", "name": "sta", "pattern": CONNECTED, "timeout_s": 8.0}
    limited = connected | {"timeout_s": draft.limit_s}
    ping = {"do": "run", "node": "sta", "argv": ["ping", "-c", "2", "-i", "0.2", "-W", "1",
                                                 SERVER_IP]}
    steps: list[Step] = [{"do": "sleep", "seconds": 1.0}]
    if draft.has_bystander:
        steps += [_join_step("sta2"), connected | {"name": "sta2"}, {"do": "sleep", "seconds": 0.5}]
    if draft.phase == "join":
        steps += draft.fault
    steps += [_join_step("sta"), limited if draft.phase == "join" else connected]
    if draft.uses_dhcp:
        steps.append({"do": "run", "node": "sta", "argv": [
            "busybox", "udhcpc", "-f", "-q", "-n", "-i", "wlan0", "-s", "/bin/true", "-t", "6",
            "-T", "3"]})
    if not draft.aftermath:
        steps.append(ping)
    if draft.roams:
        if draft.phase == "roam":
            steps += draft.fault
        else:
            steps += [{"do": "undelay", "node": step["node"], "device": step["device"]}
                      for step in draft.fault if step["do"] == "delay"]
        # A fixed BSSID would refuse the handshake with the other access point.
        steps += [control_station("set_network", "0", "bssid", "any"),
                  control_station("scan", "freq=2437"),
                  {"do": "sleep", "seconds": 1.0}, *draft.turn,
                  control_station("roam", BSSIDS["roam"]), limited, ping]
    return [*steps, *draft.aftermath, {"do": "sleep", "seconds": 1.0}]


def _format_lines(options: Mapping[str, Any], indent: str = "") -> str:
    return "".join(f"{indent}{name}={value}\n" for name, value in options.items()
                   if value is not None)


def _hostapd_text(draft: Draft, phase: str) -> str:
    key_management = {"eap": "WPA-EAP", "psk": "WPA-PSK", "sae": "SAE"}[draft.keys]
    options: dict[str, Any] = {
        "interface": _RADIOS[phase], "bridge": "br-a", "driver": "nl80211",
        "driver_params": "control_port=0", "ctrl_interface": f"{HOST}/run-ap", "ssid": _SSID,
        "hw_mode": "g", "channel": {"join": 1, "roam": 6}[phase], "wpa": 2,
        "wpa_key_mgmt": key_management, "rsn_pairwise": "CCMP",
        "ieee80211w": 2 if draft.keys == "sae" else draft.pmf, "wpa_group_rekey": 0,
        "nas_identifier": phase}
    if draft.keys == "eap":
        options |= {"ieee8021x": 1, "eap_reauth_period": 0, "own_ip_addr": ACCESS_POINT_IP,
                    "auth_server_addr": draft.radius.get("first", SERVER_IP),
                    "auth_server_port": 1812, "auth_server_shared_secret": _SECRET}
    else:
        options |= {"wpa_passphrase": _PASSPHRASE}
    text = _format_lines(options | draft.hostapd | draft.hostapd_of[phase])
    if "first" in draft.radius:
        text += _format_lines({"auth_server_addr": SERVER_IP, "auth_server_port": 1812,
                        "auth_server_shared_secret": _SECRET})
    return text


def _station_text(draft: Draft, changes: Mapping[str, Any], name: str) -> str:
    block: dict[str, Any] = {
        "ssid": f'"{_SSID}"', "scan_freq": "2412 2437", "bssid": BSSIDS["join"],
        "key_mgmt": {"eap": "WPA-EAP", "psk": "WPA-PSK", "sae": "SAE"}[draft.keys],
        "pairwise": "CCMP", "ieee80211w": 2 if draft.keys == "sae" else min(draft.pmf, 1)}
    if draft.keys == "eap":
        block |= {"eap": draft.eap, "identity": '"user"', "ca_cert": f'"{HOST}/pki/ca.pem"'}
        if draft.eap == "TLS":
            block |= {"client_cert": f'"{HOST}/pki/client.pem"',
                      "private_key": f'"{HOST}/pki/client.key"'}
            if draft.tls == "1.3":
                block |= {"phase1": '"tls_disable_tlsv1_3=0"'}
        else:
            block |= {"password": _USER_SECRET,
                      "phase2": '"auth=MSCHAPV2"' if draft.eap == "PEAP" else '"auth=PAP"'}
    else:
        block |= {"psk": f'"{_PASSPHRASE}"'}
    block |= changes
    if "key_mgmt" in draft.station:
        block["key_mgmt"] = draft.station["key_mgmt"]
    settings = {"ctrl_interface": f"DIR={HOST}/run-{name}", "driver_param": "control_port=0",
                "p2p_disabled": 1, "fast_reauth": 0}
    return _format_lines(settings) + "network={\n" + _format_lines(block, "\t") + "}\n"


def _radius_text(draft: Draft) -> str:
    its = {"verify": "", "reject_delay": "0", "certificate": "server", "secret": _SECRET,
           "client": ACCESS_POINT_IP, "tls_min": draft.tls, "tls_max": draft.tls,
           "ciphers": "DEFAULT@SECLEVEL=0", "first_offer": draft.eap.lower()} | draft.radius
    check = (f'verify {{\n\t\t\ttmpdir = /tmp\n\t\t\tclient = "{its["verify"]}"\n\t\t}}'
             if its["verify"] else "")
    return _RADIUSD % {**its, "check": check, "host": HOST}


_STRONGSWAN = f"""
charon {{
	load = random nonce aes sha1 sha2 hmac kdf gmp openssl kernel-netlink socket-default vici
	install_routes = no
	plugins {{
		vici {{
			socket = unix:///run/{VICI}
		}}
	}}
	filelog {{
		qop {{
			path = stderr
			default = 1
			flush_line = yes
		}}
	}}
}}
swanctl {{
	load = random openssl pem pkcs1 pkcs8 pubkey
}}
"""
_SWANCTL = """
connections {
	net {
		version = 2
		local_addrs = %(local)s
		remote_addrs = %(remote)s
		proposals = %(proposals)s
		local {
			auth = psk
		}
		remote {
			auth = psk
		}
		children {
			net {
				local_ts = %(local)s
				remote_ts = %(remote)s
				esp_proposals = aes128gcm16
			}
		}
	}
}
secrets {
	ike {
		secret = "%(secret)s"
	}
}
"""
_RADIUSD = """
name = radiusd
raddbdir = %(host)s/radiusd
run_dir = /tmp
logdir = /tmp
libdir = /usr/lib/freeradius
max_request_time = 30
cleanup_delay = 5
hostname_lookups = no
proxy_requests = no
log {
	destination = stdout
	auth = yes
}
security {
	reject_delay = %(reject_delay)s
	status_server = no
}
thread pool {
	start_servers = 1
	max_servers = 4
	min_spare_servers = 1
	max_spare_servers = 2
	max_queue_size = 1024
}
client access-point {
	ipaddr = %(client)s
	secret = '%(secret)s'
}
modules {
	eap {
		default_eap_type = %(first_offer)s
		timer_expire = 60
		max_sessions = 1024
		md5 {
		}
		mschapv2 {
		}
		tls-config certificates {
			private_key_file = %(host)s/pki/%(certificate)s.key
			certificate_file = %(host)s/pki/%(certificate)s.pem
			ca_file = %(host)s/pki/ca.pem
			auto_chain = no
			fragment_size = 1024
			check_crl = no
			cipher_list = "%(ciphers)s"
			tls_min_version = "%(tls_min)s"
			tls_max_version = "%(tls_max)s"
			cache {
				enable = no
			}
			%(check)s
		}
		tls {
			tls = certificates
		}
		peap {
			tls = certificates
			default_eap_type = mschapv2
			virtual_server = inner
		}
		ttls {
			tls = certificates
			default_eap_type = md5
			virtual_server = inner
		}
	}
	mschap {
	}
	pap {
	}
	always reject {
		rcode = reject
	}
}
server outer {
	listen {
		type = auth
		ipaddr = *
		port = 1812
	}
	authorize {
		eap
	}
	authenticate {
		eap
	}
	post-auth {
		Post-Auth-Type REJECT {
			eap
		}
	}
}
server inner {
	authorize {
		if (&User-Name == "user") {
			update control {
				Cleartext-Password := "password"
			}
		}
		eap {
			ok = return
		}
		mschap
		pap
	}
	authenticate {
		Auth-Type PAP {
			pap
		}
		Auth-Type MS-CHAP {
			mschap
		}
		eap
	}
}
"""
