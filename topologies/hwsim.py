"""Create and remove emulated Wi-Fi radios of the kernel module mac80211_hwsim.

`Radios` creates the radios of one emulated network (testbed) by generic netlink, and `move_radio`
moves a radio into a node's namespace. Mininet-WiFi calls the program `hwsim_mgmt` for this, which
its installer compiles. Where the program is missing, `put_into_path` puts this module in its place,
with the options that Mininet-WiFi uses.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shlex
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from topologies.netlink import GenericNetlink, encode_attribute

# --- Radios, by the kernel's netlink interface ---
# The radios of `Radios` belong to the socket that created them (`DESTROY_RADIO_ON_CLOSE`), so none
# remains however the process ends. Numbers: mac80211_hwsim.h, nl80211.h.

_NEW_RADIO, _DEL_RADIO, _GET_RADIO = 4, 5, 6
_FAMILY = "MAC80211_HWSIM"
#: Constants of nl80211, which manages every radio.
_SET_NAMESPACE, _RADIO, _PROCESS = 49, 1, 82
#: Attributes HWSIM_ATTR_...
_RADIO_ID, _DESTROY_ON_CLOSE, _RADIO_NAME, _NO_INTERFACE, _ADDRESS = 10, 16, 17, 18, 22
#: Folder with the radios of the network namespace, by name.
CURRENT_NAMESPACE = Path("/sys/class/ieee80211")


class RadioError(RuntimeError):
    """An error: the kernel cannot create or remove a radio. The text says what is missing."""


class Hwsim:
    """The kernel's emulation of radios, as seen from one network namespace. A context manager."""

    def __init__(self) -> None:
        try:
            self._netlink = GenericNetlink(_FAMILY)
        except OSError as error:
            raise RadioError("the kernel has no mac80211_hwsim; load it with "
                             "'modprobe mac80211_hwsim radios=0'") from error

    def __enter__(self) -> Hwsim:
        return self

    def __exit__(self, *_: object) -> None:
        self._netlink.close()

    def create_radio(self, name: str, address: str = "", *, belongs_here: bool = False) -> None:
        """Create an emulated radio, with a MAC address if one is given.

        With `belongs_here`, the radio has no interface and vanishes with this object.
        """
        attributes = encode_attribute(_RADIO_NAME, name.encode())
        if address:
            attributes += encode_attribute(_ADDRESS, bytes.fromhex(address.replace(":", "")))
        if belongs_here:
            attributes += encode_attribute(_NO_INTERFACE,
                                           b"") + encode_attribute(_DESTROY_ON_CLOSE, b"")
        # For a name in use the kernel would create a radio with another name, so such a name is
        # not requested. Success is judged by whether the radio exists.
        is_taken = (CURRENT_NAMESPACE / name).exists()
        if not is_taken:
            with contextlib.suppress(OSError):
                self._netlink.send_command(_NEW_RADIO, attributes)
        if is_taken or not (CURRENT_NAMESPACE / name).exists():
            raise RadioError(f"the kernel refused radio {name}{f' ({address})' if address else ''};"
                             " is one of that name or address there already?")

    def remove_radio(self, name: str) -> None:
        """Remove an emulated radio by its name.

        Raises:
            RadioError: The radio is not in this namespace.
        """
        try:
            self._netlink.send_command(_DEL_RADIO, encode_attribute(_RADIO_NAME, name.encode()))
        except OSError as error:
            raise RadioError(f"radio {name} cannot be removed: {error.strerror}") from None

    def radio_ids(self) -> dict[str, int]:
        """Return the kernel's numbers of the radios in this namespace, by name."""
        return {radio[_RADIO_NAME].rstrip(b"\0").decode(): struct.unpack("=I", radio[_RADIO_ID])[0]
                for radio in self._netlink.list_entries(_GET_RADIO)}


class Radios(Hwsim):
    """The emulated radios of one testbed (emulated network), which vanish when it closes."""

    def add_radio(self, name: str, address: str) -> None:
        """Create an emulated radio (a phy, without interfaces) with a permanent MAC address."""
        self.create_radio(name, address, belongs_here=True)


def move_radio(name: str, pid: int) -> int:
    """Move a radio into the network namespace of a process, and return the radio's number."""
    try:
        number = int((CURRENT_NAMESPACE / name / "index").read_text())
        with GenericNetlink("nl80211") as netlink:
            netlink.send_command(_SET_NAMESPACE, encode_attribute(_RADIO, struct.pack("=I", number))
                                 + encode_attribute(_PROCESS, struct.pack("=I", pid)))
    except OSError as error:
        raise RadioError(f"radio {name} cannot be moved: {error.strerror}") from None
    return number


# --- Rules of a country, by which access points may use the 5 or the 6 GHz band ---
# Without a country, radios only listen there. The rules are the kernel's for all radios of the
# machine. Numbers: nl80211.h.

#: Countries by band in GHz: one whose rules leave two blocks of 80 MHz free of radar detection, and
#: one that lets access points of 6 GHz send without a coordination service.
_COUNTRIES = {5.0: "US", 6.0: "DE"}
_GET_RULES, _REQUEST_RULES, _RELOAD_RULES = 31, 27, 126
_ALPHA2 = 33
_RULES_S, _RULES_POLL_S = 5.0, 0.01


@contextlib.contextmanager
def permit_band(band_ghz: float) -> Iterator[None]:
    """Let radios start networks in the 5 or the 6 GHz band until the context ends.

    Raises:
        RadioError: The kernel does not apply a country's rules.
    """
    with GenericNetlink("nl80211") as netlink:
        before = _read_country(netlink)
        # A guest's kernel looked for the file of rules before it had a file system.
        with contextlib.suppress(OSError):
            netlink.send_command(_RELOAD_RULES, b"")
        _request_country(netlink, _COUNTRIES[band_ghz])
        try:
            yield
        finally:
            _request_country(netlink, before)


def _read_country(netlink: GenericNetlink) -> str:
    """Return the country whose rules apply, "00" for the rules of all countries."""
    return next((rules[_ALPHA2].rstrip(b"\0").decode() for rules
                 in netlink.list_entries(_GET_RULES) if _ALPHA2 in rules), "00")


def _request_country(netlink: GenericNetlink, country: str) -> None:
    """Request a country's rules, and wait until they apply."""
    try:
        netlink.send_command(_REQUEST_RULES, encode_attribute(_ALPHA2, country.encode() + b"\0"))
    except OSError as error:
        raise RadioError(f"the kernel takes no rules of a country ({error.strerror})") from None
    until = time.monotonic() + _RULES_S
    while _read_country(netlink) != country:
        if time.monotonic() > until:
            raise RadioError(f"the kernel has no rules of country {country} for its bands; "
                             "install wireless-regdb, or take a medium of 2.4 GHz")
        time.sleep(_RULES_POLL_S)


# --- The program, in place of Mininet-WiFi's `hwsim_mgmt` ---

PROGRAM = "hwsim_mgmt"
_DEBUG = Path("/sys/kernel/debug")


@contextlib.contextmanager
def put_into_path() -> Iterator[None]:
    """Make a command `hwsim_mgmt` available to child processes, if none is installed."""
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
    """Parse the command-line options of `hwsim_mgmt`. An error ends the process."""
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
    """Execute the options of `hwsim_mgmt` and return the text to print.

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
    """Set the signal strength of a radio, and return what was wrong or ""."""
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
    """Run as the program `hwsim_mgmt`, and return the exit status."""
    try:
        text = run_command(parse_arguments(sys.argv[1:]))
    except RuntimeError as error:  # a RadioError
        print(f"{PROGRAM}: {error}", file=sys.stderr)
        return 1
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
