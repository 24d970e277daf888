"""Keys that decrypt frames on the air, from the run's secrets or from EAP.

Keys are in tshark's syntax.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

from measure import dissect, eap_keys, fields, pcap
from policies import LinkLayer
from policies.link import EXCHANGED

_PMK_BYTES = 32
#: PMK length of the 192-bit security level (IEEE 802.11-2020, 12.7.1.3).
_LONG_PMK_BYTES = 48
#: Points where the mobile node's RADIUS passes, at home and in the visited network.
WIRES = ("wire", "foreign")


def keys_in_force(layer: LinkLayer, secrets: Mapping[str, str], out: Path, *,
                  parts: Sequence[str], ssids: Sequence[str], kernel_keys: Sequence[str] = (),
                  receiving: str = "mn", tls_keys: Sequence[str] = ()) -> list[str] | None:
    """Return the decryption keys as `kind:value`, from the captures of parts in `out`.

    Args:
        layer: The policy's link layer.
        secrets: The run's secrets of the network.
        out: The repetition's folder.
        parts: Prefixes of captures.
        ssids: Names of the networks.
        kernel_keys: Temporal keys that kernels showed.
        receiving: Point where WEP keys from EAP arrive.
        tls_keys: Lines of a server's key log, which decrypt RADIUS inside TLS.

    Returns:
        The keys, None if they cannot be known. Keys of SAE, OWE and fast transition follow from no
            secret alone, so only a kernel shows them. Without the run's secret no key is known
            either.

    Raises:
        MeasureError: A capture cannot be read.
    """
    if layer.keys in EXCHANGED or layer.roaming:
        return [f"tk:{key}" for key in kernel_keys] or None
    if layer.keys == "static" and "wep_key" in secrets:
        return [f"wep:{secrets['wep_key']}"]
    if layer.keys == "psk" and "passphrase" in secrets:
        return [f"wpa-pwd:{secrets['passphrase']}:{ssid}" for ssid in ssids]
    if layer.keys != "eap" or "radius_secret" not in secrets:
        return None
    secret = secrets["radius_secret"].encode()
    sessions = [session for file in _existing_captures(out, parts, WIRES) for session in (
        *(_session_keys_in_tls(file, tls_keys) if tls_keys else ()), *eap_keys.session_keys(
            (message for _, message in pcap.udp_payloads(file, eap_keys.PORT)), secret))]
    if layer.is_wep:
        frames = [frame for file in _existing_captures(out, parts, [receiving])
                  for _, frame in pcap.eapol_frames(file)]
        return [f"wep:{key.hex()}" for key in eap_keys.wep_keys(frames, sessions)]
    return [f"wpa-psk:{master_key(layer, session)}" for session in sessions]


def master_key(layer: LinkLayer, session: eap_keys.SessionKey) -> str:
    """Return the pairwise master key that an Access-Accept delivered, in hex."""
    size = _LONG_PMK_BYTES if layer.akm == "suite-b-192" else _PMK_BYTES
    return (session.receive + session.send)[:size].hex()


def master_keys_in_use(capture: Path, keys: Sequence[str]) -> Mapping[str, set[str]]:
    """Return the pairwise master keys that decrypt frames, by transmitter.

    Keys are in hex. A key counts for a station only if its four-way handshake has a MIC under that
    key. So the station had the key.

    Raises:
        MeasureError: tshark cannot read the file.
    """
    used: dict[str, set[str]] = defaultdict(set)
    for sender, key in fields.read_fields(capture, ("wlan.ta", "wlan.analysis.pmk"),
                                          "wlan.analysis.pmk",
                                          options=dissect.decryption_options(keys)):
        used[sender].add(key.lower())
    return used


def _session_keys_in_tls(file: Path, tls_keys: Sequence[str]) -> list[eap_keys.SessionKey]:
    # Imported here: the container image lacks the TLS library, and judges all other policies.
    from measure import radsec

    return radsec.session_keys(file, tls_keys)


def _existing_captures(out: Path, parts: Sequence[str], points: Sequence[str]) -> list[Path]:
    """Return the existing captures of these parts and points."""
    files = [out / f"{part}-{point}.pcap" for part in parts for point in points]
    return [file for file in files if file.exists()]
