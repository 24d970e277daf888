"""Find the captures of earlier measurements in a results folder, with their decryption keys.

A results folder is the output of `qop run`: records, captures and files. `find_recordings` takes
the folder, and returns a `Recording` for each repetition (one measurement). It has the capture
files, and the keys of 802.11, TLS, ESP and RADIUS that were stored with them. `qop explain` and the
export for Wireshark use it.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from measure.agent.errors import MeasureError
from measure.records.record import RecordError, read_record

#: Hexadecimal digits of WEP keys, which are shorter than all other keys of 802.11.
_WEP_DIGITS = (10, 26)
_Value = TypeVar("_Value", str, dict[str, Any])


@dataclass(frozen=True)
class Recording:
    """Captures of the same events by one clock, and the keys that decrypt them.

    - `captures`: the files
    - `link_keys`: keys of 802.11, as for `measure.capture.dissection`
    - `tls_keys`: lines of a TLS key log
    - `esp_keys`: keys of IPsec SAs, as `measure.agent.kernel_state.xfrm_keys` returns them
    - `radius_secret`: the secret of RADIUS clients and servers, "" if it was not kept
    - `mka_key`: the connectivity association key (CAK) of MACsec's wires, in hexadecimal digits
    - `keytabs`: files with the keys of Kerberos realms
    - `name`: name of the repetition
    """

    captures: Sequence[Path]
    link_keys: Sequence[str] = ()
    tls_keys: Sequence[str] = ()
    esp_keys: Sequence[Mapping[str, str]] = ()
    radius_secret: str = ""
    mka_key: str = ""
    keytabs: Sequence[Path] = ()
    name: str = ""


def find_recordings(folder: Path) -> list[Recording]:
    """Return the recordings of a results folder, or of the captures of one repetition in it.

    Raises:
        MeasureError: A file with keys cannot be read.
    """
    if folder.absolute().parent.name == "captures" and list(folder.glob("*.pcap*")):
        return [read_recording(folder.absolute())]
    repetitions = sorted(each for each in folder.glob("captures/*") if each.is_dir())
    return [read_recording(each) for each in repetitions if list(each.glob("*.pcap*"))]


def read_recording(captures: Path) -> Recording:
    """Return the captures of one repetition and their keys.

    Args:
        captures: The folder of the repetition's captures.

    Raises:
        MeasureError: The file with keys cannot be read.
    """
    folder = captures.parent.parent
    raw = _read_raw(folder / "files" / captures.name / "raw.json.gz")
    secrets = _read_secrets(folder / "records" / f"{captures.name}.json")
    static_key = secrets.get("network.wep_key", "")
    link_keys = [*(key for name in ("link_keys", "companion_keys")
                   for key in _collect_values(raw, name, str)),
                 *(static_key[:digits] for digits in _WEP_DIGITS if static_key)]
    passphrase = secrets.get("network.passphrase")
    return Recording(
        tuple(sorted(captures.glob("*.pcap*"))),
        (*(f"{'wep' if len(key) in _WEP_DIGITS else 'tk'}:{key}" for key in
           dict.fromkeys(link_keys)), *([f"wpa-pwd:{passphrase}"] if passphrase else ())),
        tuple(dict.fromkeys(line for name in ("radsec_keys", "tls_keys", "quic_keys")
                            for line in _collect_values(raw, name, str))),
        tuple(_collect_values(raw, "esp_keys", dict)), secrets.get("network.radius_secret", ""),
        secrets.get("wires.cak", ""),
        tuple(sorted((folder / "files" / captures.name).glob("*.keytab"))), captures.name)


def _read_raw(file: Path) -> dict[str, Any]:
    """Return the raw values of a repetition, empty if they were not kept."""
    if not file.exists():
        return {}
    try:
        raw = json.loads(gzip.decompress(file.read_bytes()))
    except (OSError, EOFError, ValueError, RecursionError, zlib.error) as error:
        raise MeasureError("data", f"{file}: cannot be read ({error}); './qop verify' says what "
                           "else is damaged in the folder") from None
    return raw if isinstance(raw, dict) else {}


def _read_secrets(file: Path) -> Mapping[str, str]:
    """Return the secrets that a repetition's record has, empty without a readable record."""
    try:
        return read_record(file).secrets
    except (OSError, RecordError):
        return {}


def _collect_values(raw: Mapping[str, Any], name: str, kind: type[_Value]) -> Iterator[_Value]:
    """Yield the values in a list of raw values, in all parts of a repetition.

    Values of another type than `kind` are left out.
    """
    parts: Any = raw.get("parts")
    for part in (*(parts.values() if isinstance(parts, dict) else ()), raw):
        values = part.get(name) if isinstance(part, dict) else None
        yield from (value for value in (values if isinstance(values, list) else ())
                    if isinstance(value, kind))
