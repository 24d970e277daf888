"""Tests of attacks that are carried out: what is sent again, what a twin has, what it answers."""

from __future__ import annotations

from pathlib import Path

import pytest

from measure.attacks import evil_twin, evil_twin_responder, injection

STATION, CELL, OTHER = "02:00:00:00:a2:00", "02:00:00:00:a0:00", "02:00:00:00:a1:00"
NODE, TWIN = (bytes.fromhex(mac.replace(":", "")) for mac in (STATION, CELL))
RADIOTAP = bytes.fromhex("00000a00000000000000")
REAL = """# Rendered by ansible/policy.yml; changes here are lost.
interface=wlan-a
bridge=br-a
ssid=qop
channel=1
eap_server=0
nas_identifier=ap-a
ctrl_interface=/mount/ap-a/run/hostapd
"""
EAP = """ieee8021x=1
own_ip_addr=10.1.0.2
radius_client_addr=10.1.0.2
auth_server_addr=10.1.0.1
auth_server_shared_secret=told-nobody
"""
HIS = Path("/run/twin")


def test_the_longest_data_frame_of_the_station_is_sent_again() -> None:
    """Neither a longer one of somebody else's, nor of management; without the radio's header."""
    asked = injection.station_frame(STATION, CELL, CELL, bytes(90))
    heard = [injection.station_frame(STATION, CELL, CELL, bytes(8)), asked,
             injection.station_frame(OTHER, CELL, CELL, bytes(200)),
             injection.deauthentication_frame(STATION, CELL) + bytes(200)]
    assert injection.longest_frame([RADIOTAP + frame for frame in heard], STATION) == asked
    assert injection.longest_frame([RADIOTAP + heard[2]], STATION) == b""


@pytest.mark.parametrize("secret", ["wpa_passphrase=correct horse battery", "wep_key0=" + "5" * 26,
                                    "wep_key0=" + "5" * 10])
def test_a_twin_looks_the_same_and_has_no_secret(secret: str) -> None:
    """Name and channel are the network's; its passphrase or key, bridge and sockets are not."""
    name, _, value = secret.partition("=")
    settings = evil_twin.twin_settings(f"{REAL}{secret}\n", HIS, says_yes=False)
    assert (settings["ssid"], settings["channel"], settings["interface"]) == ("qop", "1", "wlan-a")
    assert settings[name] != value and (name != "wep_key0" or len(settings[name]) == len(value))
    assert "bridge" not in settings and settings["ctrl_interface"] == "/run/twin/hostapd"
    assert "server_cert" not in settings


def test_a_twin_is_its_own_authentication_server() -> None:
    """With a certificate of its own for TLS's methods; for MD5 it needs none and lets all in."""
    certified = evil_twin.twin_settings(REAL + EAP, HIS, says_yes=False)
    assert certified["eap_server"] == "1" and certified["server_cert"] == "/run/twin/cert.pem"
    assert certified["ieee8021x"] == "1"
    open_to_all = evil_twin.twin_settings(REAL + EAP, HIS, says_yes=True)
    assert "ieee8021x" not in open_to_all and "server_cert" not in open_to_all
    for settings in (certified, open_to_all):
        assert "told-nobody" not in settings.values() and "auth_server_addr" not in settings


def test_a_downgrading_twin_offers_wpa2_alone() -> None:
    """Neither SAE nor protected management frames, nor the network's passphrase or server."""
    real = (f"{REAL}{EAP}wpa=2\nwpa_key_mgmt=WPA-PSK SAE\nieee80211w=1\nsae_require_mfp=1\n"
            "wpa_passphrase=correct horse battery\n")
    settings = evil_twin.downgrade_settings(evil_twin.twin_settings(real, HIS, says_yes=False))
    assert (settings["wpa_key_mgmt"], settings["ieee80211w"]) == ("WPA-PSK", "0")
    assert settings["ssid"] == "qop" and settings["wpa_passphrase"] != "correct horse battery"
    assert not {"sae_require_mfp", "ieee8021x", "server_cert", "eap_server"} & settings.keys()


def said(kind: str, data: str, sender: bytes = NODE) -> bytes:
    """An Ethernet frame to the twin."""
    return TWIN + sender + bytes.fromhex(kind) + bytes.fromhex(data)


def test_a_twin_is_whoever_is_asked_for() -> None:
    """A question by ARP for any address gets the twin's; its own is not answered."""
    question = "0001080006040001" + NODE.hex() + "0a01000c" + "000000000000" + "0a010001"
    reply = "0001080006040002" + TWIN.hex() + "0a010001" + NODE.hex() + "0a01000c"
    assert evil_twin_responder.build_answer(said("0806", question), TWIN, says_yes=False) == (
        NODE + TWIN + bytes.fromhex("0806" + reply))
    assert evil_twin_responder.build_answer(said("0806", question, TWIN), TWIN,
                                            says_yes=False) == b""
    assert evil_twin_responder.build_answer(said("0806", reply), TWIN, says_yes=True) == b""


@pytest.mark.parametrize(("heard", "expected"), [
    ("02010000", "02000005" + "0101000501"),
    ("02000009" + "0201000901" + "75736572", "02000016" + "0102001604" + "10" + bytes(
        range(16)).hex()),
    ("02000016" + "0202001604" + "10" + "ab" * 16, "02000004" + "03020004"),
    ("02000006" + "020200060319", "")],
    ids=["start", "a name", "any proof", "another method asked for"])
def test_a_twin_lets_everybody_in_by_md5(heard: str, expected: str) -> None:
    """It asks for a name and for a proof, and takes any; with another method it has nothing."""
    answer = evil_twin_responder.build_answer(said("888e", heard), TWIN, says_yes=True)
    assert answer == (NODE + TWIN + bytes.fromhex("888e" + expected) if expected else b"")
    assert evil_twin_responder.build_answer(said("888e", heard), TWIN, says_yes=False) == b""
