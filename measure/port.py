"""Check that an unauthorised 802.1X port passes nothing.

A frame is sent past the port, and captures on the air and on the wire show whether it passes.
Standard library only: this runs inside the machine.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from measure import injection
from measure.capture import WHOLE, Point, capturing
from measure.points import AIR, wire_point
from measure.station import MeasuredStation
from measure.workload import Site
from topologies.model import Scenario

_KNOCK_S = 0.25


@dataclass(frozen=True)
class PortCheck:
    """The result of checking a closed port: raw values, and captures with their summaries."""

    raw: dict[str, Any]
    captures: list[tuple[dict[str, Any], bytes]]


def probe_port(site: Site, scenario: Scenario, measured: MeasuredStation,
               out: Path) -> list[tuple[dict[str, Any], bytes]]:
    """Broadcast an ARP request past the station's own closed port, and capture it.

    The station's kernel drops frames while the port is unauthorised. So the frame is sent through a
    monitor interface of the same radio.

    Returns:
        Summary and content of the captures on the air and on the wire.
    """
    nodes, home, mac = site.network.nodes, scenario.home, measured.mac
    station, cell = nodes[measured.name], nodes[home]
    question = injection.arp_request(mac, station.address, nodes[scenario.agent].address)
    frame = injection.station_frame(mac, cell.interfaces[cell.radio_interface].radio or "",
                                    injection.BROADCAST, question)
    points = [Point("air", None, AIR, f"type data and wlan addr2 {mac} and "
                    f"wlan addr3 {injection.BROADCAST}"),
              wire_point(scenario.network, "wire", home, f"arp and ether src {mac}")]
    taken: list[dict[str, Any]] = []
    with capturing(site.testbed, points, WHOLE, part="port", out=out, logs=site.logs,
                   summaries=taken):
        injection.inject(site.testbed, measured.name, station, frame)
        time.sleep(_KNOCK_S)  # time for a frame that must not come
    return [(summary, (out / summary["file"]).read_bytes()) for summary in taken]
