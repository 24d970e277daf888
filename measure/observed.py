"""What a repetition left to be judged, and what a judgement is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from measure.dissect import Packet


@dataclass(frozen=True)
class Check:
    """One finding: what was checked, whether it holds, and the counts behind it."""

    check: str
    ok: bool
    detail: str


@dataclass(frozen=True)
class Observed:
    """What a repetition left to judge: raw values, packets by capture, and who is who."""

    raw: Mapping[str, Any]
    captures: Mapping[str, Sequence[Packet]]
    mac: str
    #: MAC and IP addresses of all mobile nodes that take part, the measured one among them.
    macs: frozenset[str]
    addresses: frozenset[str]
    #: Outer addresses of the home agents: where tunnels between subnets end.
    agents: frozenset[str] = frozenset()
    #: The home agent's address that the mobile node registers with.
    home_agent: str = ""
    #: The care-of address of the visited network, "" at home.
    care_of: str = ""

    def packets(self, name: str) -> Sequence[Packet]:
        """Packets of a capture such as `auth-air`; none if it was not taken."""
        return self.captures.get(name, ())

    def by_stay(self, name: str) -> list[list[Packet]]:
        """A capture's packets at home and, where the mobile node visits a network, those there."""
        moved = self.raw["stamps"].get("foreign_start", float("inf"))
        home = [p for p in self.packets(name) if p.time_s < moved]
        away = [p for p in self.packets(name) if p.time_s >= moved]
        return [home, away] if self.care_of else [home]

    @property
    def stations(self) -> list[Mapping[str, str]]:
        """What the access point's kernel said of the mobile node, at home and where it visits."""
        names = ["station", "foreign_station"] if self.care_of else ["station"]
        return [self.raw["kernel"].get(name, {}) for name in names]

    @property
    def air(self) -> list[Packet]:
        """Data frames on the air from or to mobile nodes, EAPOL left out."""
        return [p for name in ("auth-air", "traffic-air") for p in self.packets(name)
                if p.is_data and not p.is_eapol
                and (p.transmitter in self.macs or p.receiver in self.macs)]
