"""Give stations IPv6 addresses by SLAAC, from router advertisements of their gateways (RFC 4862).

dnsmasq on the gateways sends the advertisements (`measure.services.dhcp` starts it). The station's
kernel does the rest. `SlaacClient` switches IPv6 on when the link is up, as a network manager does,
and waits until the address can be used. That takes seconds: the kernel first searches for
duplicates of its link-local address, then of its global one. Standard library only: it runs in the
guest.
"""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv6Address
from pathlib import Path

from measure.agent.errors import MeasureError
from measure.services.dhcp import await_event
from topologies.interfaces import set_sysctls
from topologies.namespaces import network_of

#: linux/rtnetlink.h: messages about IPv6 addresses.
_ADDRESS_GROUP = 0x100
#: linux/if_addr.h: an address that may be a duplicate, or is one.
_UNUSABLE = 0x40 | 0x08


@dataclass(frozen=True)
class SlaacClient:
    """IPv6 on the radio of one station. `pid` is a process in the station's namespace."""

    pid: int
    interface: str
    address: str

    @property
    def has_address(self) -> bool:
        """Return whether the radio has any IPv6 address."""
        return bool(self._read_flags())

    def obtain_address(self, limit_s: float) -> None:
        """Switch IPv6 on, and wait until the global address can be used.

        An interface that has the address keeps it.

        Args:
            limit_s: Time limit in s.

        Raises:
            MeasureError: There is no such address in time.
        """
        if not self._is_usable() and not await_event(
                self.pid, _ADDRESS_GROUP, lambda: self._set_disabled(0),
                lambda _kind, _body: self._is_usable(), limit_s):
            raise MeasureError("slaac", f"{self.interface}: no address {self.address} by router "
                               f"advertisements within {limit_s:.3g} s")

    def release_address(self) -> None:
        """Switch IPv6 off, which removes all addresses, routes and neighbours."""
        self._set_disabled(1)

    def _set_disabled(self, value: int) -> None:
        with network_of(self.pid):
            set_sysctls([f"net/ipv6/conf/{self.interface}/disable_ipv6={value}"])

    def _is_usable(self) -> bool:
        flags = self._read_flags().get(self.address)
        return flags is not None and not flags & _UNUSABLE

    def _read_flags(self) -> dict[str, int]:
        """Return the flags of each IPv6 address of the radio."""
        rows = (line.split() for line in Path(f"/proc/{self.pid}/net/if_inet6").read_text()
                .splitlines())
        return {str(IPv6Address(bytes.fromhex(row[0]))): int(row[4], 16) for row in rows
                if row[5] == self.interface}
