"""Find the keys that decrypt captured Wi-Fi frames.

`derive_decryption_keys` takes a policy's link layer, the secrets of the run, and the folder of
captures. It returns keys in tshark's syntax, such as `wpa-psk:...`. They come from configured keys
and passphrases, from EAP (session keys in captured RADIUS), or from the kernels of the nodes.
`temporal_keys` takes these keys and captured four-way handshakes, and returns the temporal keys
(`TemporalKey`), by which this project decrypts frames without tshark. Checks after a measurement
use both.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from measure.attacks import passphrase_guessing
from measure.attacks.passphrase_guessing import Handshake
from measure.capture import pcap, tshark
from measure.packets import ciphers, eap
from policies import LinkLayer
from policies.link import EXCHANGED

_PMK_BYTES = 32
#: Characters of a device's own passphrase. All 64 of a digest would be a key.
_DEVICE_DIGITS = 32
#: PMK length of the 192-bit security level (IEEE 802.11-2020, 12.7.1.3).
_LONG_PMK_BYTES = 48
#: Hexadecimal digits of a static WEP key. A run makes a key of the longer kind.
_WEP_DIGITS = {"WEP-40": 10, "WEP-104": 26}
#: Points where the mobile node's RADIUS passes, at home and in the visited network.
WIRES = ("wire", "foreign")


def derive_decryption_keys(  # noqa: PLR0913 - sources of keys, most by name
        layer: LinkLayer, secrets: Mapping[str, str], out: Path, *, parts: Sequence[str],
        ssids: Sequence[str], kernel_keys: Sequence[str] = (), receiving: str = "mn",
        tls_keys: Sequence[str] = (), devices: Sequence[str] = ()) -> list[str] | None:
    """Return the keys that decrypt a repetition's Wi-Fi frames, as `kind:value` for tshark.

    Args:
        layer: The policy's link layer.
        secrets: The run's secrets of the network.
        out: The repetition's folder.
        parts: Prefixes of captures.
        ssids: Names of the networks.
        kernel_keys: Temporal keys that kernels showed.
        receiving: Point where WEP keys from EAP arrive.
        tls_keys: Lines of a server's key log, which decrypt RADIUS inside TLS.
        devices: MAC addresses of the stations, for passphrases of their own.

    Returns:
        The keys, None if they cannot be known. Keys of SAE, OWE and fast transition follow from no
        secret alone, so only a kernel shows them. Without the run's secret no key is known either.

    Raises:
        MeasureError: A capture cannot be read.
    """
    if needs_kernel_keys(layer):
        return [f"tk:{key}" for key in kernel_keys] or None
    if layer.keys == "static" and "wep_key" in secrets:
        return [f"wep:{secrets['wep_key'][:_WEP_DIGITS[layer.cipher]]}"]
    if layer.keys == "psk" and "passphrase" in secrets:
        words = [device_passphrase(secrets["passphrase"], mac) for mac in devices] \
            if layer.passphrases else [secrets["passphrase"]]
        return [f"wpa-pwd:{word}:{ssid}" for word in words for ssid in ssids]
    if layer.keys != "eap" or "radius_secret" not in secrets:
        return None
    secret = secrets["radius_secret"].encode()
    sessions = [session for file in _existing_captures(out, parts, WIRES) for session in (
        *(session_keys_in_tls(file, tls_keys) if tls_keys else ()), *eap.session_keys(
            (message for _, message in pcap.udp_payloads(file, eap.RADIUS_PORT)), secret))]
    if layer.is_wep:
        frames = [frame for file in _existing_captures(out, parts, [receiving])
                  for _, frame in pcap.eapol_frames(file)]
        return [f"wep:{key.hex()}" for key in eap.wep_keys(frames, sessions)]
    return [f"wpa-psk:{master_key(layer, session)}" for session in sessions]


def device_passphrase(passphrase: str, mac: str) -> str:
    """Return the passphrase of a device, which follows from the run's secret and its address."""
    return hashlib.sha256(f"{passphrase} {mac}".encode()).hexdigest()[:_DEVICE_DIGITS]


def needs_kernel_keys(layer: LinkLayer) -> bool:
    """Return whether the keys of a Wi-Fi link can only be read from a kernel.

    Keys of SAE, OWE, FILS and fast transition follow from no secret alone.
    """
    return layer.keys in EXCHANGED or bool(layer.roaming)


def master_key(layer: LinkLayer, session: eap.SessionKey) -> str:
    """Return the pairwise master key that a RADIUS Access-Accept delivered, in hex."""
    size = _LONG_PMK_BYTES if layer.is_suite_b else _PMK_BYTES
    return (session.receive + session.send)[:size].hex()


def master_keys_in_use(capture: Path, keys: Sequence[str]) -> Mapping[str, set[str]]:
    """Return the pairwise master keys that decrypt frames, by transmitter address.

    Keys are in hex. A key counts for a station only if its four-way handshake has a MIC under that
    key. So the station had the key.

    Raises:
        MeasureError: tshark cannot read the file.
    """
    used: dict[str, set[str]] = defaultdict(set)
    for sender, key in tshark.read_fields(capture, ("wlan.ta", "wlan.analysis.pmk"),
                                          "wlan.analysis.pmk",
                                          options=tshark.decryption_options(keys)):
        used[sender].add(key.lower())
    return used


def session_keys_in_tls(file: Path, tls_keys: Sequence[str]) -> list[eap.SessionKey]:
    """Return the EAP session keys in RADIUS inside TLS, with the lines of a server's key log."""
    # Imported here: the container image lacks the TLS library, and judges all other policies.
    from measure.checks import radsec

    return radsec.radsec_session_keys(file, tls_keys)


def _existing_captures(out: Path, parts: Sequence[str], points: Sequence[str]) -> list[Path]:
    """Return the capture files that exist for these parts and points of a repetition."""
    files = [out / f"{part}-{point}.pcap" for part in parts for point in points]
    return [file for file in files if file.exists()]


# --- Pairwise temporal keys, from master keys and four-way handshakes ---

#: Bytes of the KCK and KEK, which come before the temporal key, by hash (IEEE 802.11-2020, table
#: 12-8).
_BEFORE = {"sha1": 32, "sha256": 32, "sha384": 56}
#: Length of a temporal key by cipher; TKIP's includes two Michael keys.
TEMPORAL_KEY_BYTES = {"TKIP": 32, "CCMP": 16, "GCMP": 16, "CCMP-256": 32, "GCMP-256": 32}


@dataclass(frozen=True)
class TemporalKey:
    """A temporal key of a Wi-Fi link, and the address of its station (b"" if unknown)."""

    key: bytes
    station: bytes = b""


def temporal_keys(layer: LinkLayer, keys: Sequence[str],
                  captures: Iterable[Path]) -> list[TemporalKey]:
    """Return the temporal keys that may decrypt frames in captures.

    Keys from kernels are taken as they are. Master keys and passphrases yield one key for each
    handshake of a station.

    Raises:
        MeasureError: A capture cannot be read.
    """
    temporal = [TemporalKey(bytes.fromhex(value)) for kind, _, value in map(_split_key, keys)
                if kind in ("tk", "wep")]
    masters = [master for key in keys if (master := _pairwise_master_key(key))]
    shaken = [shake for file in captures if file.exists()
              for shake
              in passphrase_guessing.find_handshakes(pcap.read_frames(file))] if masters else []
    derived = [TemporalKey(_derive_temporal_key(layer, master, shake), shake.addresses[1])
               for shake in shaken for master in masters]
    return list(dict.fromkeys((*temporal, *derived)))


def _split_key(key: str) -> tuple[str, str, str]:
    """Split a key of the form TYPE:VALUE into type, colon and value."""
    return key.partition(":")


def _pairwise_master_key(key: str) -> bytes:
    """Return the pairwise master key in a key text or from a passphrase, b"" for other kinds."""
    kind, _, value = _split_key(key)
    if kind == "wpa-pwd":
        passphrase, _, ssid = value.rpartition(":")
        return passphrase_guessing.master_key(passphrase, ssid)
    return bytes.fromhex(value) if kind == "wpa-psk" else b""


def _derive_temporal_key(layer: LinkLayer, master: bytes, shake: Handshake) -> bytes:
    digest = {"sha256": "sha256", "suite-b-192": "sha384"}.get(layer.akm or "", "sha1")
    begin, size = _BEFORE[digest], TEMPORAL_KEY_BYTES[layer.cipher]
    seed = b"".join((*sorted(shake.addresses), *sorted(shake.nonces)))
    label = ciphers.PAIRWISE_LABEL
    expanded = ciphers.expand_sha1(master, label, seed, begin + size) if digest == "sha1" \
        else ciphers.expand_kdf(master, label, seed, begin + size, digest)
    return expanded[begin:]
