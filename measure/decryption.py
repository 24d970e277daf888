"""Keys for frames on the air, as tshark takes them: the run's own, and those that EAP delivered."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

from measure import dissect, eap_keys, fields, pcap
from policies import LinkLayer
from policies.link import EXCHANGED

_PMK_BYTES = 32
#: Of the 192-bit suite (IEEE 802.11-2020, 12.7.1.3).
_LONG_PMK_BYTES = 48
#: Where the mobile node's RADIUS passes, at home and in the visited network.
WIRES = ("wire", "foreign")


def keys_in_force(layer: LinkLayer, secrets: Mapping[str, str], out: Path, *,
                  parts: Sequence[str], ssids: Sequence[str], told: Sequence[str] = (),
                  receiving: str = "mn", tls_keys: Sequence[str] = ()) -> list[str] | None:
    """Each key as `kind:value`, from the captures of parts in `out`; None where nobody can know.

    That is so of SAE and OWE, whose keys come of no secret alone and are only known where a kernel
    told them (`told`), of fast transition, and where the run's secret is not given. WEP keys that
    EAP delivers pass the point `receiving`. With `tls_keys`, lines of a server's key log, RADIUS
    inside TLS is read, too. Raises MeasureError for a capture that cannot be read.
    """
    if layer.keys in EXCHANGED or layer.roaming:
        return [f"tk:{key}" for key in told] or None
    if layer.keys == "static" and "wep_key" in secrets:
        return [f"wep:{secrets['wep_key']}"]
    if layer.keys == "psk" and "passphrase" in secrets:
        return [f"wpa-pwd:{secrets['passphrase']}:{ssid}" for ssid in ssids]
    if layer.keys != "eap" or "radius_secret" not in secrets:
        return None
    secret = secrets["radius_secret"].encode()
    sessions = [session for file in _files(out, parts, WIRES) for session in (
        *(_inside_tls(file, tls_keys) if tls_keys else ()), *eap_keys.sessions(
            (message for _, message in pcap.udp_payloads(file, eap_keys.PORT)), secret))]
    if layer.is_wep:
        frames = [frame for file in _files(out, parts, [receiving])
                  for _, frame in pcap.eapol(file)]
        return [f"wep:{key.hex()}" for key in eap_keys.wep_keys(frames, sessions)]
    return [f"wpa-psk:{master_key(layer, session)}" for session in sessions]


def master_key(layer: LinkLayer, session: eap_keys.SessionKey) -> str:
    """The pairwise master key of what an Access-Accept delivered, in hex."""
    size = _LONG_PMK_BYTES if layer.akm == "suite-b-192" else _PMK_BYTES
    return (session.receive + session.send)[:size].hex()


def master_keys_in_use(capture: Path, keys: Sequence[str]) -> Mapping[str, set[str]]:
    """Under which pairwise master keys frames on the air open, by their transmitter (hex).

    Such a key is taken for a station's only if its four-way handshake is signed with what comes of
    it, so that the station had it. Raises MeasureError.
    """
    used: dict[str, set[str]] = defaultdict(set)
    for sender, key in fields.read(capture, ("wlan.ta", "wlan.analysis.pmk"), "wlan.analysis.pmk",
                                   options=dissect.decryption(keys)):
        used[sender].add(key.lower())
    return used


def _inside_tls(file: Path, tls_keys: Sequence[str]) -> list[eap_keys.SessionKey]:
    # Only here: the container image lacks what opens TLS, and judges all other policies.
    from measure import radsec

    return radsec.sessions(file, tls_keys)


def _files(out: Path, parts: Sequence[str], points: Sequence[str]) -> list[Path]:
    """The captures that there are of these."""
    files = [out / f"{part}-{point}.pcap" for part in parts for point in points]
    return [file for file in files if file.exists()]
