"""Tell which radios a medium's signal reaches at their distance.

Only the standard library is used, because the module runs inside the machine and outside.
"""

from __future__ import annotations

from topologies.medium import frequency_mhz
from topologies.model import Medium, Node
from topologies.signal import distance_m


def out_of_reach(medium: Medium | None, station: Node, access_point: Node) -> str:
    """Return why no frame passes between a station and an access point.

    The result is "" if frames may.
    """
    if medium is None or medium.signal is None or not (station.position and access_point.position):
        return ""
    metres = distance_m(station.position, access_point.position)
    received_dbm = medium.signal.received_dbm(
        metres, frequency_mhz(access_point.channel or 1) * 1e6)
    if medium.signal.reaches(received_dbm):
        return ""
    signal = medium.signal
    why = f"its radios hear nothing below {signal.sense_dbm:g} dBm" \
        if received_dbm < signal.sense_dbm else f"its noise is {signal.noise_dbm:g} dBm"
    return f"{metres:.0f} m away, {received_dbm:.1f} dBm arrive by medium {medium.name}, and {why}"
