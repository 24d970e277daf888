"""How long a repetition will take and how much it will keep, before anything is measured.

Good for an order and for a word to the user; a run's own progress corrects it.
"""

from __future__ import annotations

from topologies.model import Medium, Scenario

#: Getting on the network, starting and ending captures and streams; and moving, where one moves.
_FIXED_S, _MOVE_S = 1.0, 0.6
#: Streams through kernel and processor alone.
_UNLIMITED_BPS = 300e6
#: Compressed captures: of getting on, and for each byte of a stream each time it is on the air.
_FIXED_BYTES, _SHARE_OF_STREAM = 60e3, 0.25


def crossings(scenario: Scenario) -> int:
    """How often a packet between the mobile node and its peer is on the air."""
    return 2 if scenario.network.nodes[scenario.peer].kind == "station" else 1


def repetition_s(scenario: Scenario, medium: Medium | None, tcp_bytes: int, udp_bytes: int,
                 udp_payload_bytes: int) -> float:
    """About how long a repetition keeps the air busy and what goes with it, in seconds."""
    tcp_bps = medium.tcp_ceiling_bps() if medium else _UNLIMITED_BPS
    udp_bps = medium.udp_ceiling_bps(udp_payload_bytes) if medium else _UNLIMITED_BPS
    fixed_s = _FIXED_S + (_MOVE_S if scenario.roams_to else 0.0)
    # UDP is offered at the rate that one crossing can carry, wherever it goes.
    return fixed_s + tcp_bytes * 8 * crossings(scenario) / tcp_bps + udp_bytes * 8 / udp_bps


def kept_bytes(scenario: Scenario, tcp_bytes: int, udp_bytes: int, one_in: int = 1) -> float:
    """About how much the captures of a repetition take, compressed, in bytes."""
    stream_bytes = (tcp_bytes + udp_bytes) * crossings(scenario)
    return _FIXED_BYTES + stream_bytes * _SHARE_OF_STREAM / one_in
