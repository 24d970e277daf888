"""Attacks in the guest after all other measurements, with captures of their own.

Standard library only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from measure import capture, replay
from measure.capture import Point
from measure.errors import MeasureError
from measure.points import AIR
from studies.qop2007 import attempts

if TYPE_CHECKING:  # IKE needs vici, which only the guest has.
    from measure.arrival import Arrival


def carry_out(attack: str, arrival: Arrival, captures: Callable[..., Any]) -> None:
    """Carry out the attack of this name, if there is one. Raises MeasureError."""
    if attack in ATTACKS:
        ATTACKS[attack](arrival, captures)


def _replay_frame(arrival: Arrival, captures: Callable[..., Any]) -> None:
    """Send a frame of the mobile node once more, and capture its peer's packets."""
    nodes, scenario = arrival.scenario.network.nodes, arrival.scenario
    peer = nodes[scenario.peer]
    device = arrival.access.tunnel_device(scenario.peer) or peer.interface_of(peer.address)
    with captures([Point("air", None, AIR, "type data"),
                   Point("peer", scenario.peer, device, "icmp[icmptype] == icmp-echo")],
                  capture.WHOLE, part=attempts.PART):
        replay.replay_echo_request(arrival.station, arrival.peer,
                                   arrival.access.limits.data_s(scenario))


def _run_evil_twin(arrival: Arrival, captures: Callable[..., Any]) -> None:
    """Replace the access point by an evil twin, and ping from the mobile node."""
    access, scenario, station = arrival.access, arrival.scenario, arrival.station
    place = scenario.access_point
    cell = scenario.network.nodes[place]
    station.disconnect()
    with (access.evil_twin_of(place, station.name),
          captures([Point("air", None, AIR), Point("twin", place, cell.radio_interface)],
                   capture.WHOLE, part=attempts.PART)):
        with suppress(MeasureError):  # A refusal to join shows in the captures.
            station.join_access_point(cell)
        station.is_reachable(arrival.peer, access.limits.data_s(scenario))
        station.disconnect()


ATTACKS: Mapping[str, Callable[[Arrival, Callable[..., Any]], None]] = {
    attempts.REPLAY: _replay_frame, attempts.TWIN: _run_evil_twin}
