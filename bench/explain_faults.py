"""Faults that `qop bench explain` injects, each with the causes that its capture shows.

Such a blind trial tests whether `qop explain` finds the cause of a slow or failed negotiation
(docs/explain-causes.md). Each function of `CONTROLS` is one fault. It changes the draft of a small
network (`bench.explain_network.Draft`), with details drawn at random. It returns the causes that
`qop explain` has to name.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping

from bench.explain_network import (
    ACCESS_POINT_IP,
    BSSIDS,
    CONNECTED,
    HOST,
    SECOND_IP,
    STATION,
    Draft,
    Truth,
    add_transition,
    control_access_point,
    control_station,
    start_step,
    use_certificate,
)
from measure.attacks import injection

#: Matches of u32 behind the Ethernet header: type of an EAPOL frame.
_IS_EAP, _IS_KEY = ("match", "u8", "0", "0xff", "at", "1"), ("match", "u8", "3", "0xff", "at", "1")
#: High and low byte of the key information: value and mask of messages 1 to 4.
_KEY_BITS = {1: (0, 1, 0x80), 2: (1, 3, 0), 3: (1, 1, 0x80), 4: (3, 3, 0)}
_EAP_TYPES = {"TLS": 13, "TTLS": 21, "PEAP": 25}
#: After an attempt to roam, the old access point asks the station to come back later (status 30).
_LATER = "association-refused"
#: A basic rate of the access points in Mbit/s, at which 1400 bytes take 2.3 ms.
_SLOW_MBPS = "5.5"
#: Match of u32 of any UDP datagram.
_UDP = ("match", "ip", "protocol", "17", "0xff")


def match_byte(value: int, at: int, mask: int = 0xFF) -> tuple[str, ...]:
    """Return a match of u32 of one byte, counted from the end of the Ethernet header."""
    return "match", "u8", hex(value), hex(mask), "at", str(at)


def match_key_message(number: int) -> tuple[str, ...]:
    """Return a match of one message of the four-way handshake."""
    high, mask, low = _KEY_BITS[number]
    return (*_IS_KEY, *match_byte(high, 5, mask), *match_byte(low, 6, 0x80))


def draw_draft(rng: random.Random) -> Draft:
    """Return a draft without a fault, whose policy and steps are drawn at random."""
    draft = Draft(rng)
    draft.eap = rng.choice(("TLS", "PEAP", "TTLS"))
    draft.tls = rng.choice(("1.2", "1.3")) if draft.eap == "TLS" else "1.2"
    draft.pmf = rng.choice((0, 0, 1, 2))
    draft.roams = rng.random() < 0.5
    draft.phase = rng.choice(("join", "roam")) if draft.roams else "join"
    draft.has_bystander = rng.random() < 0.5
    return draft


# --- Who was late ---

def delay_radius(draft: Draft) -> Truth:
    """Delay every answer of the RADIUS server."""
    draft.point = draft.rng.choice(("air", "wire"))
    draft.fault = [{"do": "delay", "node": "server", "device": "air0",
                    "delay_ms": draft.rng.randrange(260, 1500)}]
    draft.limit_s = 40.0
    return draft.state_truth("late-radius", consequences=("server-stall-after-certificate",))


def stall_server(draft: Draft) -> Truth:
    """Let the server wait while it checks the station's certificate, as for OCSP."""
    draft.hold_from_start()
    draft.point = draft.rng.choice(("air", "wire"))
    draft.eap = "TLS"
    draft.radius["verify"] = f"/bin/sleep {draft.rng.uniform(0.4, 2.4):.2f}"
    return draft.state_truth("server-stall-after-certificate")


def delay_rejection(draft: Draft) -> Truth:
    """Reject wrong credentials after FreeRADIUS' `reject_delay`."""
    draft.hold_from_start()
    draft.point = draft.rng.choice(("air", "wire"))
    draft.eap, draft.tls = draft.rng.choice(("PEAP", "TTLS")), "1.2"
    draft.station |= {"password": '"not the password"'}
    draft.radius["reject_delay"] = str(draft.rng.randrange(1, 5))
    # The access point repeats its request after 3 s.
    return draft.state_truth("rejected-by-server", "reject-delay",
                             consequences=("deauthenticated", "radius-retransmission"))


def delay_station(draft: Draft) -> Truth:
    """Delay every EAP message of the station, as a slow processor does."""
    draft.fault = [{"do": "delay", "node": "sta", "device": "wlan0",
                    "delay_ms": draft.rng.randrange(600, 2400), "match": _IS_EAP}]
    draft.limit_s = 40.0
    return draft.state_truth("late-station")


def delay_access_point(draft: Draft) -> Truth:
    """Delay the key messages of the access point."""
    draft.keys = draft.rng.choice(("eap", "psk", "sae"))
    number = draft.rng.choice((1, 3))
    draft.fault = [{"do": "delay", "node": "ap-a", "device": draft.fault_radio,
                    "delay_ms": draft.rng.randrange(250, 900),
                    "match": match_key_message(number)}]
    return draft.state_truth("late-access-point", consequences=("key-message-lost",))


def withhold_identity(draft: Draft) -> Truth:
    """Let a person enter the identity after some seconds."""
    draft.roams, draft.phase = False, "join"
    draft.station["identity"] = None
    draft.aftermath = [
        {"do": "wait", "name": "sta", "pattern": "CTRL-REQ-IDENTITY", "timeout_s": 10.0},
        {"do": "sleep", "seconds": draft.rng.uniform(2.5, 14.0)},
        control_station("identity", "0", "user"),
        {"do": "wait", "name": "sta", "pattern": CONNECTED, "timeout_s": 20.0}]
    draft.limit_s = 0.0
    return draft.state_truth("identity-unanswered")


def scan_all_channels(draft: Draft) -> Truth:
    """Let the station scan every channel of its bands."""
    draft.roams, draft.phase = False, "join"
    draft.station["scan_freq"] = None
    draft.limit_s = 20.0
    return draft.state_truth("long-scan")


# --- What was lost ---

def lose_key_message(draft: Draft) -> Truth:
    """Drop one message of the four-way handshake at its receiver, or before it is on the air."""
    draft.keys = draft.rng.choice(("eap", "psk", "sae"))
    number = draft.rng.randrange(1, 5)
    is_by_station = number in (2, 4)
    # Nothing in a capture shows a first message that was lost before.
    is_at_receiver = number == 1 or draft.rng.random() < 0.5
    node, device = (("sta", "wlan0") if is_by_station != is_at_receiver
                    else ("ap-a", draft.fault_radio))
    draft.fault = [{"do": "drop", "node": node, "device": device, "count": 1,
                    "direction": "ingress" if is_at_receiver else "egress",
                    "match": match_key_message(number)}]
    return draft.state_truth("key-message-lost")


def lose_eap_message(draft: Draft) -> Truth:
    """Drop one EAP message at its receiver."""
    code = draft.rng.choice((1, 2))
    node, device = ("sta", "wlan0") if code == 1 else ("ap-a", draft.fault_radio)
    kind = draft.rng.choice((1, _EAP_TYPES[draft.eap]))
    # A request for the identity ends with its type, where u32 finds no whole word.
    which = match_byte(5, 7) if (code, kind) == (1, 1) else match_byte(kind, 8)
    draft.fault = [{"do": "drop", "node": node, "device": device, "count": 1,
                    "direction": "ingress",
                    "match": (*_IS_EAP, *match_byte(code, 4), *which)}]
    draft.limit_s = 20.0
    return draft.state_truth("eap-message-lost")


def lose_fragments(draft: Draft) -> Truth:
    """Drop IP fragments between access point and server, with large certificates."""
    draft.hold_from_start()
    draft.point = draft.rng.choice(("air", "wire"))
    draft.eap, draft.limit_s = "TLS", 45.0
    use_certificate(draft, "large-client")
    draft.station["fragment_size"] = 1480
    # The first fragment says that more follow, and without it the others are useless.
    draft.fault = [{"do": "drop", "node": "server", "device": "air0", "direction": "ingress",
                    "protocol": "ip", "match": match_byte(0x20, 6, 0x20)}]
    return draft.state_truth("eap-fragment-lost", consequences=(
        "radius-retransmission", "radius-unanswered", "deauthenticated"))


def lose_radius(draft: Draft) -> Truth:
    """Drop RADIUS requests or answers on the wire."""
    draft.point = draft.rng.choice(("air", "wire"))
    is_request = draft.rng.random() < 0.5
    draft.fault = [{"do": "drop", "node": "server", "device": "air0", "protocol": "ip",
                    "count": draft.rng.randrange(1, 3),
                    "direction": "ingress" if is_request else "egress",
                    "match": _UDP}]
    draft.limit_s = 30.0
    return draft.state_truth("radius-retransmission" if draft.point == "wire" else "late-radius",
                       consequences=("server-stall-after-certificate",))


def disable_first_server(draft: Draft) -> Truth:
    """Let the access point's first RADIUS server not answer, and the second one answer."""
    draft.hold_from_start()
    draft.point = draft.rng.choice(("air", "wire"))
    draft.radius["first"] = SECOND_IP
    draft.fault = [{"do": "drop", "node": "server", "device": "air0", "direction": "ingress",
                    "protocol": "ip", "match": ("match", "ip", "dst", f"{SECOND_IP}/32")}]
    draft.limit_s = 60.0
    return draft.state_truth("radius-failover" if draft.point == "wire" else "late-radius",
                       consequences=("radius-retransmission", "radius-unanswered"))


def silence_server(draft: Draft) -> Truth:
    """Let the RADIUS server not answer: another secret, an unknown client, or no server."""
    draft.hold_from_start()
    draft.point = draft.rng.choice(("air", "wire"))
    draft.limit_s = 45.0
    how = draft.rng.choice(("secret", "client", "none"))
    if how == "none":
        draft.fault = [{"do": "drop", "node": "server", "device": "air0", "direction": "ingress",
                        "protocol": "ip", "match": _UDP}]
    else:
        draft.radius[how] = {"secret": "another secret", "client": "10.1.0.77"}[how]
    return draft.state_truth("radius-unanswered",
                       consequences=("radius-retransmission", "deauthenticated"))


def lose_group_keys(draft: Draft) -> Truth:
    """Drop new group keys at the station."""
    draft.hold_from_start()
    draft.keys = "psk"
    # A protected deauthentication hides its reason without the passphrase.
    draft.is_decrypted = draft.pmf > 0
    draft.hostapd["wpa_group_rekey"] = draft.rng.randrange(8, 20)
    draft.aftermath = [
        {"do": "drop", "node": "sta", "device": "wlan0", "direction": "ingress",
         "match": (*_IS_KEY, *match_byte(0, 6, 0x08))},
        {"do": "sleep", "seconds": 30.0}]
    return draft.state_truth("group-rekey-failed", consequences=("deauthenticated",))


def deauthenticate_station(draft: Draft) -> Truth:
    """Let the access point end the association."""
    draft.roams, draft.phase, draft.pmf = False, "join", 0
    draft.keys = draft.rng.choice(("eap", "psk"))
    reason = draft.rng.choice((1, 2, 4, 5, 8))
    kind = draft.rng.choice(("deauthenticate", "disassociate"))
    draft.aftermath = [{"do": "sleep", "seconds": draft.rng.uniform(1, 5)},
                       control_access_point(draft.fault_radio, kind, STATION, f"reason={reason}"),
                       {"do": "sleep", "seconds": 3.0}]
    return draft.state_truth("deauthenticated")


# --- What was refused ---

def change_passphrase(draft: Draft) -> Truth:
    """Give the station another passphrase."""
    draft.roams, draft.phase = False, "join"
    draft.keys = draft.rng.choice(("psk", "sae"))
    draft.station["psk"] = '"another passphrase"'
    draft.limit_s = 12.0
    return draft.state_truth("wrong-passphrase", consequences=("deauthenticated",))


def distrust_server(draft: Draft) -> Truth:
    """Give the station another CA or name to expect, or the server an expired certificate."""
    how = draft.rng.choice(("authority", "name", "expired"))
    draft.point = draft.rng.choice(("air", "wire"))
    draft.roams, draft.phase = False, "join"
    if how == "authority":
        draft.station["ca_cert"] = f'"{HOST}/pki/other-ca.pem"'
    elif how == "name":
        draft.station["domain_suffix_match"] = '"radius.example.org"'
    else:
        draft.hold_from_start()
        draft.radius["certificate"] = "expired-server"
    return draft.state_truth("server-not-trusted", consequences=("deauthenticated",))


def refuse_client(draft: Draft) -> Truth:
    """Give the station a certificate of another CA, or an expired one."""
    draft.point = draft.rng.choice(("air", "wire"))
    draft.roams, draft.phase, draft.eap = False, "join", "TLS"
    which = draft.rng.choice(("other-client", "expired-client"))
    use_certificate(draft, which)
    return draft.state_truth("client-certificate-refused", consequences=("deauthenticated",))


def refuse_version(draft: Draft) -> Truth:
    """Let station and server have no TLS version in common."""
    draft.point = draft.rng.choice(("air", "wire"))
    draft.hold_from_start()
    draft.eap = draft.rng.choice(("TLS", "PEAP", "TTLS"))
    draft.tls = "1.2"
    if draft.rng.random() < 0.5:
        draft.radius["tls_min"] = draft.radius["tls_max"] = "1.3"
    else:
        draft.station["phase1"] = '"tls_disable_tlsv1_2=1 tls_disable_tlsv1_1=0"'
        draft.station["openssl_ciphers"] = '"DEFAULT@SECLEVEL=0"'
    return draft.state_truth("tls-version-refused", consequences=("deauthenticated",))


def refuse_cipher(draft: Draft) -> Truth:
    """Let station and server have no cipher suite in common."""
    draft.point = draft.rng.choice(("air", "wire"))
    draft.hold_from_start()
    draft.tls = "1.2"
    draft.radius["ciphers"] = "ECDHE-ECDSA-AES256-GCM-SHA384"
    draft.station["openssl_ciphers"] = '"ECDHE-ECDSA-AES128-GCM-SHA256"'
    return draft.state_truth("tls-refused", consequences=("deauthenticated",))


def reject_user(draft: Draft) -> Truth:
    """Let the station have a wrong password, or be unknown to the server."""
    draft.roams, draft.phase = False, "join"
    draft.point = draft.rng.choice(("air", "wire"))
    draft.eap, draft.tls = draft.rng.choice(("PEAP", "TTLS")), "1.2"
    name, value = draft.rng.choice((("password", '"wrong"'), ("identity", '"nobody"')))
    draft.station[name] = value
    return draft.state_truth("rejected-by-server", consequences=("deauthenticated",))


def refuse_association(draft: Draft) -> Truth:
    """Let the access point refuse the station: it is full, or the station is denied."""
    draft.keys = draft.rng.choice(("eap", "psk"))
    draft.hold_from_start()
    if draft.rng.random() < 0.5:
        draft.hostapd["macaddr_acl"] = 1
    else:
        draft.has_bystander = True
        draft.hostapd["max_num_sta"] = 1
        draft.hostapd["no_probe_resp_if_max_sta"] = 0
    return draft.state_truth("association-refused")


def require_protection(draft: Draft) -> Truth:
    """Let the second access point require PMF, which the station has switched off."""
    draft.roams, draft.phase, draft.pmf = True, "roam", 0
    draft.keys = draft.rng.choice(("eap", "psk"))
    draft.hostapd_of["roam"]["ieee80211w"] = 2
    return draft.state_truth("pmf-mismatch")


def change_key_management(draft: Draft) -> Truth:
    """Let the second access point change its AKM after the station's scan."""
    draft.keys = draft.rng.choice(("eap", "psk", "sae"))
    change_offer(draft, "wpa_key_mgmt",
                 {"eap": "WPA-EAP-SHA256", "psk": "WPA-PSK-SHA256", "sae": "WPA-PSK"}[draft.keys])
    return draft.state_truth("akm-mismatch", consequences=(_LATER,))


def change_cipher(draft: Draft) -> Truth:
    """Let the second access point change its cipher after the station's scan."""
    draft.keys = draft.rng.choice(("eap", "psk", "sae"))
    change_offer(draft, "rsn_pairwise", draft.rng.choice(("GCMP", "CCMP-256", "GCMP-256")))
    return draft.state_truth("cipher-mismatch", consequences=(_LATER,))


def change_offer(draft: Draft, option: str, value: str) -> None:
    """Let the second access point take another value of an option between scan and roam."""
    draft.roams, draft.phase = True, "roam"
    draft.turn = [control_access_point(draft.fault_radio, "set", option, value),
                  control_access_point(draft.fault_radio, "raw", "RELOAD")]


def fill_channel(draft: Draft) -> Truth:
    """Let another station fill the channel with frames of a low rate, or the beacons say so."""
    draft.roams, draft.phase, draft.point, draft.keys = False, "join", "air", "eap"
    # Each wait is short, all together are not: a slow negotiation without a node that is late. The
    # first answer waits twice, as ARP does.
    draft.fault = [{"do": "delay", "node": "server", "device": "air0",
                    "delay_ms": draft.rng.randrange(60, 90)}]
    if draft.rng.random() < 0.3:
        load = round(255 * draft.rng.uniform(0.75, 1.0))
        draft.hostapd["vendor_elements"] = f"0b050300{load:02x}0000"
    else:
        draft.has_bystander = True
        draft.fault[:0] = [
            {"do": "run", "node": "sta2", "argv": ["iw", "dev", "wlan0", "set", "bitrates",
                                                   "legacy-2.4", _SLOW_MBPS]},
            start_step("ping", "sta2", ["ping", "-q", "-s", "1400", "-i",
                                        f"{draft.rng.uniform(0.0026, 0.0030):.4f}",
                                        ACCESS_POINT_IP])]
    return draft.state_truth("busy-channel")


def refuse_method(draft: Draft) -> Truth:
    """Let the server offer a method first that the station refuses."""
    draft.hold_from_start()
    draft.radius["first_offer"] = draft.rng.choice(
        [name for name in ("md5", "tls", "peap", "ttls") if name != draft.eap.lower()])
    return draft.state_truth("eap-method-refused")


# --- Shortcuts not taken ---

def skip_transition(draft: Draft) -> Truth:
    """Let the station not use the fast transition that the access points offer."""
    draft.roams, draft.phase = True, "roam"
    add_transition(draft)
    draft.hostapd["wpa_key_mgmt"] = "WPA-EAP FT-EAP"
    draft.station["key_mgmt"] = "WPA-EAP"
    return draft.state_truth("ft-not-used")


def split_domain(draft: Draft) -> Truth:
    """Give both access points different mobility domains."""
    draft.roams, draft.phase = True, "roam"
    add_transition(draft)
    draft.hostapd_of["roam"]["mobility_domain"] = "c3d4"
    return draft.state_truth("ft-other-domain", consequences=(_LATER,))


def withhold_key(draft: Draft) -> Truth:
    """Let the second access point have no way to the key holder of the first one."""
    draft.roams, draft.phase = True, "roam"
    add_transition(draft)
    draft.hostapd_of["roam"]["r0kh"] = None
    draft.hostapd_of["join"]["r1kh"] = None
    draft.hostapd["pmk_r1_push"] = 0
    draft.limit_s = 15.0
    return draft.state_truth("ft-key-missing", consequences=(_LATER,))


def forget_pmksa(draft: Draft) -> Truth:
    """Let the access point not know the PMK that the station names."""
    if draft.rng.random() < 0.5:  # opportunistic key caching at the station alone
        draft.roams, draft.phase = True, "roam"
        draft.station["proactive_key_caching"] = 1
    else:
        draft.roams, draft.phase = False, "join"
        draft.hostapd["disable_pmksa_caching"] = 1
        draft.aftermath = [control_station("disconnect"), {"do": "sleep", "seconds": 1.0},
                           control_station("reconnect"),
                           {"do": "wait", "name": "sta", "pattern": CONNECTED, "timeout_s": 8.0}]
    return draft.state_truth("pmksa-miss")


# --- Above the link ---

def delay_dhcp(draft: Draft) -> Truth:
    """Drop or delay messages of DHCP."""
    draft.roams, draft.phase, draft.uses_dhcp, draft.keys = False, "join", True, "psk"
    if draft.rng.random() < 0.5:
        draft.fault = [{"do": "drop", "node": "server", "device": "air0", "protocol": "ip",
                        "direction": draft.rng.choice(("ingress", "egress")),
                        "count": draft.rng.randrange(1, 3),
                        "match": _UDP}]
    else:
        draft.fault = [{"do": "delay", "node": "server", "device": "air0",
                        "delay_ms": draft.rng.randrange(600, 2500)}]
    draft.limit_s = 15.0
    draft.point = draft.rng.choice(("air", "wire"))
    draft.is_decrypted = draft.point == "air"
    return draft.state_truth("dhcp-slow", consequences=("arp-stall",))


def stall_arp(draft: Draft) -> Truth:
    """Drop answers about the address of the first hop, which the passphrase shows."""
    draft.roams, draft.phase, draft.keys, draft.is_decrypted = False, "join", "psk", True
    draft.fault = [{"do": "drop", "node": "server", "device": "air0", "protocol": "arp",
                    "direction": "egress", "count": draft.rng.randrange(1, 4),
                    "match": match_byte(2, 7)}]
    return draft.state_truth("arp-stall")


def put_to_sleep(draft: Draft) -> Truth:
    """Let the station go to sleep during the authentication, and wake up later."""
    draft.roams, draft.phase, draft.eap = False, "join", "TLS"
    draft.has_bystander, draft.limit_s = False, 0.0
    switch = "$(cat /sys/class/net/wlan0/phy80211/name)/hwsim/ps"
    draft.fault = [{"do": "delay", "node": "server", "device": "air0", "delay_ms": 80}]
    draft.aftermath = [
        {"do": "wait", "name": "sta", "pattern": "CTRL-EVENT-EAP-STARTED", "timeout_s": 5.0},
        # Each message of the station would wake it up, so it goes to sleep after each.
        {"do": "run", "node": "sta", "argv": ["sh", "-c", (
            "mount -t debugfs none /mnt; cd /mnt/ieee80211; for i in 1 2 3 4 5 6; do "
            f"echo 0 > {switch}; echo 1 > {switch}; sleep 0.03; done; "
            f"sleep {draft.rng.uniform(0.4, 1.8):.2f}; echo 0 > {switch}")]},
        {"do": "wait", "name": "sta", "pattern": CONNECTED, "timeout_s": 8.0}]
    return draft.state_truth("power-save")


def repeat_data(draft: Draft) -> Truth:
    """Let the station repeat its data frames before it roams, as with a weak signal."""
    draft.roams, draft.phase = True, "roam"
    retry = 0x08 | injection.PROTECTED
    frames = [injection.station_frame(
        STATION, BSSIDS["join"], STATION[:-2] + "ff", bytes((number, 1, 0, 0x20, 0, 0, 0, 0))
        + bytes(60), flags=retry).hex() for number in range(draft.rng.randrange(8, 14))]
    draft.fault = [{"do": "inject", "node": "sta", "frames": frames, "interval_s": 0.05}]
    return draft.state_truth("roam-too-late")


def change_proposals(draft: Draft) -> Truth:
    """Let the ends of a tunnel have no proposal in common."""
    draft.ike = {"proposals": draft.rng.choice(("aes128-sha256-modp2048", "aes256-sha1-ecp256"))}
    return ike_truth(draft, "ike-no-proposal")


def change_ike_key(draft: Draft) -> Truth:
    """Give the responder another pre-shared key."""
    draft.ike = {"secret": "another key"}
    return ike_truth(draft, "ike-authentication-failed")


def refuse_group(draft: Draft) -> Truth:
    """Let the initiator begin with a group that the responder refuses."""
    draft.ike = {"proposals": "aes128-sha256-modp2048-ecp256"}
    return ike_truth(draft, "ike-group-refused")


def lose_ike(draft: Draft) -> Truth:
    """Drop messages of IKE."""
    draft.ike = {"secret": None}
    draft.fault = [{"do": "drop", "node": "server", "device": "air0", "protocol": "ip",
                    "direction": draft.rng.choice(("ingress", "egress")),
                    "count": draft.rng.randrange(1, 3),
                    "match": _UDP}]
    return ike_truth(draft, "ike-retransmission")


def change_wireguard_key(draft: Draft) -> Truth:
    """Give the responder another key than the initiator expects."""
    draft.wireguard = {"other": True, "idle_s": 0.0}
    draft.keys, draft.point = "", "wire"
    return Truth(("wireguard-unanswered",), (), ACCESS_POINT_IP)


def idle_tunnel(draft: Draft) -> Truth:
    """Let a tunnel be idle until its keys are too old."""
    draft.wireguard = {"other": False, "idle_s": draft.rng.uniform(185, 900)}
    draft.keys, draft.point = "", "wire"
    return Truth(("wireguard-after-idle",), (), ACCESS_POINT_IP)


def ike_truth(draft: Draft, cause: str) -> Truth:
    """Return the truth of a draft of IKE between the access point's device and the server."""
    draft.keys, draft.point = "", "wire"
    return Truth((cause,), (), ACCESS_POINT_IP)


def change_nothing(draft: Draft) -> Truth:
    """Change nothing."""
    if draft.rng.random() < 0.15:
        draft.keys, draft.point, draft.ike = "", "wire", {"secret": None}
        return Truth()
    draft.keys = draft.rng.choice(("eap", "eap", "psk", "sae"))
    draft.uses_dhcp = draft.rng.random() < 0.3
    if draft.keys == "eap":
        draft.point = draft.rng.choice(("air", "wire"))
        if draft.roams and draft.rng.random() < 0.3:
            add_transition(draft)
    return draft.state_truth()


Control = Callable[[Draft], Truth]
#: Controls by name. A name is that of the cause where there is one control for it.
CONTROLS: Mapping[str, Control] = {
    "healthy": change_nothing,
    "late-radius": delay_radius, "server-stall-after-certificate": stall_server,
    "reject-delay": delay_rejection, "late-station": delay_station,
    "late-access-point": delay_access_point, "identity-unanswered": withhold_identity,
    "long-scan": scan_all_channels, "key-message-lost": lose_key_message,
    "eap-message-lost": lose_eap_message, "eap-fragment-lost": lose_fragments,
    "radius-retransmission": lose_radius, "radius-failover": disable_first_server,
    "radius-unanswered": silence_server, "group-rekey-failed": lose_group_keys,
    "deauthenticated": deauthenticate_station, "wrong-passphrase": change_passphrase,
    "server-not-trusted": distrust_server, "client-certificate-refused": refuse_client,
    "tls-version-refused": refuse_version, "tls-refused": refuse_cipher,
    "rejected-by-server": reject_user, "association-refused": refuse_association,
    "eap-method-refused": refuse_method, "ft-not-used": skip_transition,
    "pmf-mismatch": require_protection, "akm-mismatch": change_key_management,
    "cipher-mismatch": change_cipher, "busy-channel": fill_channel,
    "ft-other-domain": split_domain, "ft-key-missing": withhold_key, "pmksa-miss": forget_pmksa,
    "dhcp-slow": delay_dhcp, "arp-stall": stall_arp, "power-save": put_to_sleep,
    "roam-too-late": repeat_data, "ike-no-proposal": change_proposals,
    "ike-authentication-failed": change_ike_key, "ike-group-refused": refuse_group,
    "ike-retransmission": lose_ike, "wireguard-unanswered": change_wireguard_key,
    "wireguard-after-idle": idle_tunnel}
