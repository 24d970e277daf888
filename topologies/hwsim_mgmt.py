"""Replacement for Mininet-WiFi's `hwsim_mgmt`, through netlink and debugfs.

The original comes with Mininet-WiFi's installer and has to be compiled. This module accepts the
same options as far as Mininet-WiFi uses them.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from topologies.radio import Hwsim, RadioError

PROGRAM = "hwsim_mgmt"
_DEBUG = Path("/sys/kernel/debug")


@contextlib.contextmanager
def put_into_path() -> Iterator[None]:
    """Put `hwsim_mgmt` into the PATH of child processes: the machine's own, or this one."""
    if shutil.which(PROGRAM):
        yield
        return
    before = os.environ["PATH"]
    with tempfile.TemporaryDirectory(prefix="qop-hwsim-") as folder:
        program = Path(folder, PROGRAM)
        root = shlex.quote(str(Path(__file__).parent.parent))
        program.write_text(f"#!/bin/sh\nPYTHONPATH={root} exec {shlex.quote(sys.executable)} "
                           f'-P -m {__name__} "$@"\n')
        program.chmod(0o755)
        os.environ["PATH"] = f"{folder}:{before}"
        try:
            yield
        finally:
            os.environ["PATH"] = before


def parse_arguments(argv: Sequence[str]) -> argparse.Namespace:
    """Parse the options of the compiled program. An error ends the process."""
    parser = argparse.ArgumentParser(PROGRAM, description="Make and remove emulated radios.")
    mode = parser.add_mutually_exclusive_group(required=True)
    mode.add_argument("-c", "--create", action="store_true", help="make a radio (with -n)")
    mode.add_argument("-d", "--delid", type=int, metavar="ID", help="remove one by its number")
    mode.add_argument("-x", "--delname", metavar="NAME", help="remove one by its name")
    mode.add_argument("-k", "--setrssi", type=int, metavar="ID",
                      help="set the signal by which others hear it (with RSSI)")
    parser.add_argument("-n", "--name", help="name of the new radio")
    parser.add_argument("rssi", nargs="?", type=int, metavar="RSSI", help="in -dBm: 30 to 100")
    options = parser.parse_args(argv)
    if options.create and not options.name:
        parser.error("-c needs a name; add -n NAME")
    if options.setrssi is not None and options.rssi is None:
        parser.error("-k ID needs a signal; add RSSI, in -dBm")
    return options


def run_command(options: argparse.Namespace) -> str:
    """Execute the options and return the text to print.

    Raises:
        RadioError: The kernel refuses, or there is no such radio.
    """
    with Hwsim() as hwsim:
        if options.create:
            hwsim.create_radio(options.name)
            # Mininet-WiFi reads the number.
            return f"Created device with ID {hwsim.radio_ids()[options.name]}"
        if options.delname is not None:
            hwsim.remove_radio(options.delname)
            return f"Successfully deleted device with name '{options.delname}'"
        number = options.delid if options.delid is not None else options.setrssi
        name = next((name for name, other in hwsim.radio_ids().items() if other == number), None)
        if name is None:
            raise RadioError(f"there is no radio with ID {number} in this network namespace")
        if options.delid is not None:
            hwsim.remove_radio(name)
            return f"Successfully deleted device with ID {number}"
        if refused := _set_rssi(name, -abs(options.rssi)):
            raise RadioError(f"radio {name} takes no signal of {options.rssi} -dBm ({refused})")
        return f"new RSSI defined to interface {number}"


def _set_rssi(name: str, dbm: int) -> str:
    """Set a radio's signal, and return what was wrong or ""."""
    if not (_DEBUG / "ieee80211").exists():  # as in a node's namespace, which has its own /sys
        subprocess.run(["mount", "-t", "debugfs", "debugfs", str(_DEBUG)], check=False)
    refused = ""
    # Kernels differ in whether they read a sign there.
    for text in (str(dbm), str(dbm % (1 << 64))):
        try:
            (_DEBUG / "ieee80211" / name / "hwsim" / "rx_rssi").write_text(text)
        except OSError as error:
            refused = str(error.strerror)
        else:
            return ""
    return refused


def main() -> int:
    """Run as a program, and return the exit status."""
    try:
        said = run_command(parse_arguments(sys.argv[1:]))
    except RuntimeError as error:  # a RadioError
        print(f"{PROGRAM}: {error}", file=sys.stderr)
        return 1
    print(said)
    return 0


if __name__ == "__main__":
    sys.exit(main())
