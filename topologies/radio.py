"""Make mac80211_hwsim radios through the kernel's netlink interface, and only for our lifetime.

Radios belong to the socket that made them (`DESTROY_RADIO_ON_CLOSE`), so none is left over however
the process ends. Attribute numbers are from the kernel's `mac80211_hwsim.h`.
"""

from __future__ import annotations

import contextlib
import subprocess
from pathlib import Path
from typing import Any

from pyroute2.netlink import NLM_F_ACK, NLM_F_REQUEST, genlmsg
from pyroute2.netlink.exceptions import NetlinkError
from pyroute2.netlink.generic import GenericNetlinkSocket

_NEW_RADIO = 4
_FAMILY = "MAC80211_HWSIM"


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
    """The kernel cannot make a radio; the text says what is missing."""


class Radios:
    """The radios of one testbed. A context manager: they vanish when it closes."""

    def __init__(self) -> None:
        self._socket = GenericNetlinkSocket()
        try:
            self._socket.bind(_FAMILY, _HwsimMessage)
        except (NetlinkError, KeyError, OSError) as error:
            self._socket.close()
            raise RadioError("the kernel has no mac80211_hwsim; load it with "
                             "'modprobe mac80211_hwsim radios=0'") from error

    def __enter__(self) -> Radios:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def add(self, name: str, address: str) -> None:
        """Make radio `name` (a phy, without interfaces) with a permanent MAC address."""
        message = _HwsimMessage()
        message["cmd"] = _NEW_RADIO
        message["version"] = 1
        attributes: list[tuple[str, Any]] = [
            ("HWSIM_ATTR_RADIO_NAME", name), ("HWSIM_ATTR_PERM_ADDR", address),
            ("HWSIM_ATTR_NO_VIF", True), ("HWSIM_ATTR_DESTROY_RADIO_ON_CLOSE", True)]
        message["attrs"] = attributes
        # The acknowledgement carries the new radio's number where an error code belongs, so what
        # counts is whether the radio exists.
        with contextlib.suppress(NetlinkError):
            self._socket.nlm_request(message, msg_type=self._socket.prid,
                                     msg_flags=NLM_F_REQUEST | NLM_F_ACK)
        if not Path("/sys/class/ieee80211", name).exists():
            raise RadioError(f"the kernel refused radio {name} ({address}); "
                             "is one of that name or address there already?")


def move(name: str, pid: int) -> None:
    """Move radio `name` into the network namespace of process `pid`."""
    done = subprocess.run(["iw", "phy", name, "set", "netns", str(pid)],
                          capture_output=True, text=True, check=False)
    if done.returncode:
        raise RadioError(f"radio {name} cannot be moved: {done.stderr.strip()}")
