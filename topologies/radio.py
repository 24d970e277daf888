"""Create and remove mac80211_hwsim radios through the kernel's netlink interface.

The radios of `Radios` belong to the socket that created them (`DESTROY_RADIO_ON_CLOSE`), so none
remains however the process ends. Numbers are from the kernel's `mac80211_hwsim.h` and `nl80211.h`.
"""

from __future__ import annotations

import contextlib
import struct
from pathlib import Path

from topologies.generic_netlink import GenericNetlink
from topologies.netlink import encode_attribute

_NEW_RADIO, _DEL_RADIO, _GET_RADIO = 4, 5, 6
_FAMILY = "MAC80211_HWSIM"
#: Constants of nl80211, which manages every radio.
_SET_NAMESPACE, _RADIO, _PROCESS = 49, 1, 82
#: Attributes HWSIM_ATTR_...
_RADIO_ID, _DESTROY_ON_CLOSE, _RADIO_NAME, _NO_INTERFACE, _ADDRESS = 10, 16, 17, 18, 22
#: Folder with the radios of the network namespace, by name.
HERE = Path("/sys/class/ieee80211")


class RadioError(RuntimeError):
    """The kernel cannot create or remove a radio. The text says what is missing."""


class Hwsim:
    """The kernel's radio emulation, as seen from one network namespace. A context manager."""

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
        """Create radio `name`, with a MAC address if one is given.

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
        is_taken = (HERE / name).exists()
        if not is_taken:
            with contextlib.suppress(OSError):
                self._netlink.send_command(_NEW_RADIO, attributes)
        if is_taken or not (HERE / name).exists():
            raise RadioError(f"the kernel refused radio {name}{f' ({address})' if address else ''};"
                             " is one of that name or address there already?")

    def remove_radio(self, name: str) -> None:
        """Remove a radio by its name.

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
    """The radios of one testbed, which vanish when it closes."""

    def add_radio(self, name: str, address: str) -> None:
        """Create radio `name` (a phy, without interfaces) with a permanent MAC address."""
        self.create_radio(name, address, belongs_here=True)


def move_radio(name: str, pid: int) -> int:
    """Move radio `name` into the network namespace of process `pid`. Return its number."""
    try:
        number = int((HERE / name / "index").read_text())
        with GenericNetlink("nl80211") as netlink:
            netlink.send_command(_SET_NAMESPACE, encode_attribute(_RADIO, struct.pack("=I", number))
                                 + encode_attribute(_PROCESS, struct.pack("=I", pid)))
    except OSError as error:
        raise RadioError(f"radio {name} cannot be moved: {error.strerror}") from None
    return number
