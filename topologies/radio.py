"""Make mac80211_hwsim radios through the kernel's netlink interface, and remove them.

Those of `Radios` belong to the socket that made them (`DESTROY_RADIO_ON_CLOSE`), so none is left
over however the process ends. Numbers are from the kernel's `mac80211_hwsim.h` and `nl80211.h`.
"""

from __future__ import annotations

import contextlib
import struct
from pathlib import Path

from topologies.generic_netlink import GenericNetlink
from topologies.netlink import attribute

_NEW_RADIO, _DEL_RADIO, _GET_RADIO = 4, 5, 6
_FAMILY = "MAC80211_HWSIM"
#: Of nl80211, which has every radio.
_SET_NAMESPACE, _RADIO, _PROCESS = 49, 1, 82
#: HWSIM_ATTR_...
_RADIO_ID, _DESTROY_ON_CLOSE, _RADIO_NAME, _NO_INTERFACE, _ADDRESS = 10, 16, 17, 18, 22
#: The radios of a network namespace, each a folder with the radio's name.
HERE = Path("/sys/class/ieee80211")


class RadioError(RuntimeError):
    """The kernel cannot make or remove a radio; the text says what is missing."""


class Hwsim:
    """The kernel's radio emulation, as one network namespace sees it. A context manager."""

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

    def create(self, name: str, address: str = "", *, belongs_here: bool = False) -> None:
        """Make radio `name`, with an address if one is given.

        One that `belongs_here` has no interface of its own, and vanishes with this object.
        """
        attributes = attribute(_RADIO_NAME, name.encode())
        if address:
            attributes += attribute(_ADDRESS, bytes.fromhex(address.replace(":", "")))
        if belongs_here:
            attributes += attribute(_NO_INTERFACE, b"") + attribute(_DESTROY_ON_CLOSE, b"")
        # A name that is taken gets the kernel's next one instead, so it is not asked for. What
        # counts is whether the radio exists.
        is_taken = (HERE / name).exists()
        if not is_taken:
            with contextlib.suppress(OSError):
                self._netlink.do(_NEW_RADIO, attributes)
        if is_taken or not (HERE / name).exists():
            raise RadioError(f"the kernel refused radio {name}{f' ({address})' if address else ''};"
                             " is one of that name or address there already?")

    def remove(self, name: str) -> None:
        """Remove a radio by its name; raises RadioError if it is not in this namespace."""
        try:
            self._netlink.do(_DEL_RADIO, attribute(_RADIO_NAME, name.encode()))
        except OSError as error:
            raise RadioError(f"radio {name} cannot be removed: {error.strerror}") from None

    def ids(self) -> dict[str, int]:
        """The kernel's numbers of the radios in this namespace, by name."""
        return {radio[_RADIO_NAME].rstrip(b"\0").decode(): struct.unpack("=I", radio[_RADIO_ID])[0]
                for radio in self._netlink.dump(_GET_RADIO)}


class Radios(Hwsim):
    """The radios of one testbed, which vanish when it closes."""

    def add(self, name: str, address: str) -> None:
        """Make radio `name` (a phy, without interfaces) with a permanent MAC address."""
        self.create(name, address, belongs_here=True)


def move(name: str, pid: int) -> int:
    """Move radio `name` into the network namespace of process `pid`; the kernel's number of it."""
    try:
        number = int((HERE / name / "index").read_text())
        with GenericNetlink("nl80211") as netlink:
            netlink.do(_SET_NAMESPACE, attribute(_RADIO, struct.pack("=I", number))
                       + attribute(_PROCESS, struct.pack("=I", pid)))
    except OSError as error:
        raise RadioError(f"radio {name} cannot be moved: {error.strerror}") from None
    return number
