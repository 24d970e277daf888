"""Make mac80211_hwsim radios through the kernel's netlink interface, and remove them.

Those of `Radios` belong to the socket that made them (`DESTROY_RADIO_ON_CLOSE`), so none is left
over however the process ends. Numbers are from the kernel's `mac80211_hwsim.h`.
"""

from __future__ import annotations

import contextlib
import subprocess
from pathlib import Path
from typing import Any

from pyroute2.netlink import NLM_F_ACK, NLM_F_DUMP, NLM_F_REQUEST, genlmsg
from pyroute2.netlink.exceptions import NetlinkError
from pyroute2.netlink.generic import GenericNetlinkSocket

_NEW_RADIO, _DEL_RADIO, _GET_RADIO = 4, 5, 6
_FAMILY = "MAC80211_HWSIM"
#: The radios of a network namespace, each a folder with the radio's name.
HERE = Path("/sys/class/ieee80211")


class _HwsimMessage(genlmsg):  # type: ignore[misc]
    prefix = "HWSIM_ATTR_"
    nla_map = tuple(
        (f"HWSIM_ATTR_{name}", kind) for name, kind in (
            ("UNSPEC", "none"), ("ADDR_RECEIVER", "l2addr"), ("ADDR_TRANSMITTER", "l2addr"),
            ("FRAME", "hex"), ("FLAGS", "uint32"), ("RX_RATE", "uint32"), ("SIGNAL", "uint32"),
            ("TX_INFO", "hex"), ("COOKIE", "uint64"), ("CHANNELS", "uint32"),
            ("RADIO_ID", "uint32"), ("REG_HINT_ALPHA2", "asciiz"), ("REG_CUSTOM_REG", "uint32"),
            ("REG_STRICT_REG", "flag"), ("SUPPORT_P2P_DEVICE", "flag"), ("USE_CHANCTX", "flag"),
            ("DESTROY_RADIO_ON_CLOSE", "flag"), ("RADIO_NAME", "string"), ("NO_VIF", "flag"),
            ("FREQ", "uint32"), ("PAD", "uint64"), ("TX_INFO_FLAGS", "hex"),
            ("PERM_ADDR", "l2addr")))


class RadioError(RuntimeError):
    """The kernel cannot make or remove a radio; the text says what is missing."""


class Hwsim:
    """The kernel's radio emulation, as one network namespace sees it. A context manager."""

    def __init__(self) -> None:
        self._socket = GenericNetlinkSocket()
        try:
            self._socket.bind(_FAMILY, _HwsimMessage)
        except (NetlinkError, KeyError, OSError) as error:
            self._socket.close()
            raise RadioError("the kernel has no mac80211_hwsim; load it with "
                             "'modprobe mac80211_hwsim radios=0'") from error

    def __enter__(self) -> Hwsim:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def create(self, name: str, **attributes: Any) -> None:
        """Make radio `name`; attributes are the kernel's, in lower case."""
        # A name that is taken gets the kernel's next one instead, so it is not asked for. The
        # acknowledgement carries the new radio's number where an error code belongs: what counts
        # is whether the radio exists.
        is_taken = (HERE / name).exists()
        if not is_taken:
            with contextlib.suppress(NetlinkError):
                self._ask(_NEW_RADIO, NLM_F_ACK, radio_name=name, **attributes)
        if is_taken or not (HERE / name).exists():
            address = attributes.get("perm_addr")
            raise RadioError(f"the kernel refused radio {name}{f' ({address})' if address else ''};"
                             " is one of that name or address there already?")

    def remove(self, name: str) -> None:
        """Remove a radio by its name; raises RadioError if it is not in this namespace."""
        try:
            self._ask(_DEL_RADIO, NLM_F_ACK, radio_name=name)
        except NetlinkError as error:
            raise RadioError(f"radio {name} cannot be removed: {error}") from None

    def ids(self) -> dict[str, int]:
        """The kernel's numbers of the radios in this namespace, by name."""
        radios = [(message.get_attr("HWSIM_ATTR_RADIO_NAME"),
                   message.get_attr("HWSIM_ATTR_RADIO_ID"))
                  for message in self._ask(_GET_RADIO, NLM_F_DUMP)]
        return {str(name): int(number) for name, number in radios}

    def _ask(self, command: int, flags: int, **attributes: Any) -> Any:
        message = _HwsimMessage()
        message["cmd"] = command
        message["version"] = 1
        message["attrs"] = [(f"HWSIM_ATTR_{name.upper()}", value)
                            for name, value in attributes.items()]
        return self._socket.nlm_request(message, msg_type=self._socket.prid,
                                        msg_flags=NLM_F_REQUEST | flags)


class Radios(Hwsim):
    """The radios of one testbed, which vanish when it closes."""

    def add(self, name: str, address: str) -> None:
        """Make radio `name` (a phy, without interfaces) with a permanent MAC address."""
        self.create(name, perm_addr=address, no_vif=True, destroy_radio_on_close=True)


def move(name: str, pid: int) -> None:
    """Move radio `name` into the network namespace of process `pid`."""
    done = subprocess.run(["iw", "phy", name, "set", "netns", str(pid)],
                          capture_output=True, text=True, check=False)
    if done.returncode:
        raise RadioError(f"radio {name} cannot be moved: {done.stderr.strip()}")
