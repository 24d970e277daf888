"""List the neighbors of access points, as neighbor reports and BSS transition requests name them.

`list_neighbors` returns the access points to which a station may roam from each one. The workload
gives them to hostapd, and the judge looks for them in captured frames.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from studies.drivetest import path
from topologies.medium import tuned_frequency_mhz
from topologies.medium_model import Medium
from topologies.model import ACCESS_POINT, Scenario

#: Lowest and highest channel, and global operating class, of channels of 20 MHz (IEEE 802.11-2020,
#: table E-4).
_CLASSES = ((1, 13, 81), (14, 14, 82), (36, 48, 115), (52, 64, 118), (100, 144, 121),
            (149, 177, 125))
_CLASS_OF_6_GHZ = 131
_LAST_OF_2_4_GHZ = 14
#: BSSID Information: reachable, same security (IEEE 802.11-2020, 9.4.2.36).
_INFORMATION = 0x07
#: PHY types ERP and OFDM, as hostapd 2.10 names radios without HT.
_ERP, _OFDM = 6, 4
#: Level (dBm) from which on wpa_supplicant 2.10 takes a candidate of a BSS transition request, even
#: one that is weaker than its access point.
LEAST_CANDIDATE_DBM = -80.0


@dataclass(frozen=True)
class Neighbor:
    """An access point that another access point lists in its neighbor report.

    - `name`, `bssid`: name of the node, and MAC address of the access point
    - `operating_class`, `channel`: operating class and channel number of IEEE 802.11
    - `frequency_mhz`: centre frequency of the channel in MHz
    """

    name: str
    bssid: str
    operating_class: int
    channel: int
    frequency_mhz: int

    def to_candidate(self) -> str:
        """Return the neighbor in the form of hostapd's command BSS_TM_REQ."""
        return (f"{self.bssid},{_INFORMATION:#x},{self.operating_class},{self.channel},"
                f"{self._phy_type}")

    def to_element(self) -> str:
        """Return the body of the Neighbor Report element in hexadecimal digits."""
        return (bytes.fromhex(self.bssid.replace(":", "")) + _INFORMATION.to_bytes(4, "little")
                + bytes([self.operating_class, self.channel, self._phy_type])).hex()

    @property
    def _phy_type(self) -> int:
        return _ERP if self.channel <= _LAST_OF_2_4_GHZ else _OFDM


def list_neighbors(scenario: Scenario, medium: Medium) -> dict[str, list[Neighbor]]:
    """Return the neighbors of each access point, by its name.

    Neighbors are the access points that it receives. If it receives none, all others are.
    """
    return {name: [_describe_neighbor(scenario, medium, other)
                   for other in _find_names(scenario, medium, name)]
            for name in scenario.network.of_duty(ACCESS_POINT)}


def _find_names(scenario: Scenario, medium: Medium, name: str) -> Sequence[str]:
    assert medium.signal is not None
    signals = path.signals_at(scenario, medium, scenario.network.nodes[name].position or ())
    others = [other for other in signals if other != name]
    return [other for other in others if signals[other] >= medium.signal.sense_dbm] or others


def _describe_neighbor(scenario: Scenario, medium: Medium, name: str) -> Neighbor:
    node, channels = scenario.network.nodes[name], scenario.network.access_point_channels
    channel = medium.tuned_channel(node.channel or 0, channels)
    is_in_6_ghz = medium.phy is not None and medium.phy.is_in_6_ghz
    operating_class = _CLASS_OF_6_GHZ if is_in_6_ghz else next(
        (number for least, most, number in _CLASSES if least <= channel <= most), 0)
    return Neighbor(name, node.radio_mac, operating_class, channel,
                    tuned_frequency_mhz(medium, node.channel or 0, channels))


def find_weak_candidate(scenario: Scenario, medium: Medium) -> str:
    """Return why a BSS transition request would move the station to a weak access point, or "".

    wpa_supplicant 2.10 takes the first candidate above `LEAST_CANDIDATE_DBM`, and does not compare
    it with its access point.
    """
    roaming = scenario.network.nodes[scenario.mobile_node].roaming
    assert roaming is not None
    neighbors: Mapping[str, Sequence[Neighbor]] = list_neighbors(scenario, medium)
    current = former = ""
    for step in path.list_steps(scenario):
        signals = path.signals_at(scenario, medium, step.position)
        current = current or max(signals, key=lambda name: signals[name])
        if signals[current] >= roaming.threshold_dbm:
            continue
        taken = [each.name for each in neighbors[current] if each.name != former
                 and signals[each.name] >= min(signals[current], LEAST_CANDIDATE_DBM)]
        for name in taken:
            if signals[name] < signals[current] + path.CLEARLY_BETTER_DB:
                return (f"at {signals[current]:.0f} dBm of {current}, its station would take "
                        f"{name} at {signals[name]:.0f} dBm")
        if taken:
            current, former = max(taken, key=lambda name: signals[name]), current
    return ""
