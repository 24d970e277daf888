"""Export the captures of a results folder for Wireshark, so that it can decrypt them.

`export_captures` takes the folder of a run and writes each capture as a pcapng file. TLS keys are
inside these files. Keys of 802.11, IPsec and RADIUS are in Wireshark profiles, one for each
repetition (measurement). The result is the number of exported captures.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.errors import UserError
from harness.wireshark import read_keys, write_profile
from measure.agent.errors import MeasureError
from measure.capture import tshark
from measure.explain import recordings
from measure.explain.recordings import Recording

_README = """Captures of qop, each repetition in a folder of its own.

Open one with its keys:

WIRESHARK_CONFIG_DIR=$PWD wireshark -C {name} {name}/{capture}

TLS keys are inside the files. Other keys are in profiles/REPETITION: those of 802.11 in
80211_keys, of IPsec in esp_sa, of MACsec key agreement in mka_ckn_info, of Kerberos in keytab, the
secret of RADIUS in preferences. Copy a profile to your own folder of profiles (Wireshark: Help,
About, Folders) to have it in the menu. If you move a keytab, correct kerberos.file in preferences.
"""


@dataclass(frozen=True)
class WiresharkExport:
    """The number of repetitions and captures that were exported."""

    repetitions: int
    captures: int


def export_captures(folder: Path, target: Path) -> WiresharkExport:
    """Write the captures of a results folder as pcapng files with their keys.

    Args:
        folder: The results folder.
        target: The folder to write to. It is created; if it exists, it must be empty.

    Raises:
        UserError: There are no captures, or a file cannot be read or written.
    """
    try:
        found = recordings.find_recordings(folder)
        if not found:
            raise UserError(f"{folder}: no captures to export; measure with './qop run --captures "
                            "all'", status=1)
        if target.exists() and any(target.iterdir()):
            raise UserError(f"--wireshark {target}: is not empty; give another folder, or remove "
                            "it")
        for recording in found:
            _export_recording(recording, target)
        (target / "README").write_text(_README.format(
            name=found[0].name, capture=next(iter(_name_files(found[0].captures).values()))),
            encoding="utf-8")
    except MeasureError as error:
        raise UserError(str(error)) from None
    except OSError as error:
        raise UserError(f"{error.filename or target}: {error.strerror or error}; the captures were "
                        "not exported", status=1) from None
    return WiresharkExport(len(found), sum(len(each.captures) for each in found))


def _export_recording(recording: Recording, target: Path) -> None:
    folder = target / recording.name
    folder.mkdir(parents=True)
    with tempfile.NamedTemporaryFile("w", suffix=".keys") as keys:
        keys.writelines(f"{line}\n" for line in recording.tls_keys)
        keys.flush()
        secrets = ["--inject-secrets", f"tls,{keys.name}"] if recording.tls_keys else []
        for capture, name in _name_files(recording.captures).items():
            _convert_capture(capture, folder / name, secrets)
    write_profile(target, recording.name, read_keys(recording))


def _name_files(captures: Sequence[Path]) -> dict[Path, str]:
    """Return the name of the pcapng file for each capture of a repetition."""
    names = {capture: re.sub(r"\.pcap(ng)?(\.gz)?$", "", capture.name) for capture in captures}
    counts = Counter(names.values())
    return {capture: f"{name if counts[name] == 1 else capture.name}.pcapng"
            for capture, name in names.items()}


def _convert_capture(capture: Path, target: Path, options: Sequence[str]) -> None:
    try:
        done = subprocess.run(["editcap", "-F", "pcapng", *options, str(capture), str(target)],
                              capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise UserError("editcap is missing; './qop doctor' tells how to get it") from None
    if done.returncode:
        raise UserError(f"{capture}: cannot be converted ({tshark.last_message(done.stderr)}); "
                        "'./qop verify' says whether the folder is damaged", status=1)
