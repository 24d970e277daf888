"""A cell of the study as the engine needs it: its testbed, its task, what it takes."""

from __future__ import annotations

from typing import Any

from measure.moves import ANEW, BACK
from measure.time_limits import TimeLimits
from policies import Policy
from studies import mobile
from studies.qop2007.asked import STREAM_CAPTURES, Asked, by_node
from studies.study import Cell, Expected, StudyError
from studies.study import TestbedSpec as Spec
from topologies.loader import to_json
from topologies.model import Medium, Scenario

#: What packages.yml calls the strongSwan with ML-KEM.
MLKEM = "mlkem"
#: The first security parameter index that RFC 5944 leaves to users.
SPI = 256
#: So much for each further authentication or move, on a busy machine.
_SLOWEST_FURTHER_S = 3.0
#: UDP is offered above what the medium can carry; without a medium, this much.
_OVERLOAD, _UNLIMITED_OFFER_BPS = 1.1, 500e6
#: Getting on the network, starting and ending captures and streams; and moving, where one moves.
_FIXED_S, _MOVE_S = 1.0, 0.6
#: Streams through kernel and processor alone.
_UNLIMITED_BPS = 300e6
#: A further authentication: in time, processor seconds, compressed captures.
_AUTHENTICATION_S, _AUTHENTICATION_PROCESSOR_S, _AUTHENTICATION_BYTES = 0.4, 0.25, 18e3
#: Processor seconds of a repetition, and of each megabyte each time that it is on the air.
_PROCESSOR_S, _PROCESSOR_S_PER_MB = 1.2, 0.09
#: Compressed captures: of getting on, and for each byte of a stream each time it is on the air.
_FIXED_BYTES, _SHARE_OF_STREAM = 60e3, 0.25


def medium(asked: Asked) -> Medium | None:
    """The air that was asked for; None streams at the processor's pace. Raises StudyError."""
    return mobile.air(asked.medium)


def testbed(cell: Cell, asked: Asked) -> Spec:
    """The policy on the scenario's network, over the air that was asked for."""
    policy: Policy = cell.value("policy")
    scenario: Scenario = cell.value("scenario")
    return Spec(network=scenario.network, policy=policy,
                medium=mobile.air_of(scenario, asked.medium),
                options={"spi": SPI, "detection": asked.detection},
                devices=by_node(asked.devices), packages=MLKEM if policy.needs_mlkem else "")


def task(cell: Cell, asked: Asked) -> dict[str, Any]:
    """The scenario, how often to get on and move, what is special about that, and both streams.

    Sizes are in bytes; with UDP's rate.
    """
    scenario: Scenario = cell.value("scenario")
    policy: Policy = cell.value("policy")
    return {"resumes": policy.resumes_sessions, "scenario": to_json(scenario),
            "authentications": asked.authentications,
            "moves": asked.moves if scenario.roams_to else 1,
            "has_port": policy.uses_eap, "roaming": roaming(policy, scenario),
            "move_stream_ms": asked.move_stream_ms if scenario.roams_to else 0, "streams": {
        "tcp_bytes": asked.stream_bytes, "udp_bytes": asked.stream_bytes,
        "udp_payload_bytes": asked.udp_payload_bytes, "udp_rate_bps": _offered_bps(asked),
        "one_in": STREAM_CAPTURES[asked.stream_captures]}}


def goes_abroad(cell: Cell) -> bool:
    """Whether the cell's mobile node moves to another subnet."""
    scenario: Scenario = cell.value("scenario")
    return scenario.foreign_agent is not None


def roaming(policy: Policy, scenario: Scenario) -> str:
    """How the mobile node moves on; "" where it stays, or leaves first (see Arrival)."""
    if scenario.roams_to is None or not (scenario.moves_on or scenario.foreign_agent is None):
        return ""
    link = policy.layers.link
    return (link.roaming if link else None) or ANEW


def check_move(policy: Policy, scenario: Scenario) -> None:
    """Refuse keys that would have to follow a node past a router. Raises StudyError."""
    link = policy.layers.link
    if link is None or not scenario.moves_on or scenario.foreign_agent is None:
        return
    if link.roaming in (None, BACK) or link.keys == "psk":
        return  # of a passphrase, each access point makes them
    raise StudyError(
        f"policy {policy.id} in scenario {scenario.id}: roaming: {link.roaming} has access points "
        f"share keys on one wire, and a router is between {scenario.home} and {scenario.roams_to}; "
        "leave out roaming, write keys: psk, or choose a scenario within one subnet")


def check_sessions(policy: Policy, scenario: Scenario) -> None:
    """Refuse sessions that another agent's server does not have. Raises StudyError."""
    if policy.resumes_sessions and scenario.foreign_agent is not None:
        raise StudyError(
            f"policy {policy.id} in scenario {scenario.id}: sessions: resumed goes on with what "
            f"one server keeps, and {scenario.agent} and {scenario.foreign_agent} have a server "
            "each; leave out sessions, or choose a scenario within one subnet")


def check_wires(policy: Policy, scenario: Scenario) -> None:
    """Refuse MACsec where access points have no wire that it protects. Raises StudyError."""
    for name in (scenario.home, scenario.access_point) if policy.uses_macsec else ():
        wires = [link for link in scenario.network.links
                 if any(end.startswith(f"{name}/") for end in link.ends)]
        if not wires or wires[0] not in scenario.network.protectable:
            raise StudyError(
                f"policy {policy.id} in scenario {scenario.id}: wire: MACsec is between an access "
                f"point and its agent, or another access point, and {name} has no such wire; leave "
                "out wire, or choose another scenario")


def check_transport_mode(policy: Policy, scenario: Scenario) -> None:
    """Refuse ESP in transport mode where the peer is not the agent. Raises StudyError."""
    ipsec = policy.layers.ipsec
    if ipsec is None or ipsec.mode != "transport":
        return
    if scenario.peer != scenario.agent or scenario.foreign_agent is not None:
        raise StudyError(
            f"policy {policy.id} in scenario {scenario.id}: mode: transport protects packets "
            f"between {scenario.mobile_node} and {scenario.agent} alone, and its stream goes to "
            f"{scenario.peer}; write mode: tunnel, or choose a scenario within one subnet whose "
            "peer is the agent")


def deadline_s(cell: Cell, asked: Asked) -> float:
    """As long as the slowest streams still waited for, and further authentications and moves."""
    scenario: Scenario = cell.value("scenario")
    limits, size = TimeLimits(scenario.network, medium(asked)), asked.stream_bytes
    path = limits.to_peer(scenario)
    arrivals = asked.authentications + (asked.moves if scenario.roams_to else 0)
    further = asked.authentications + asked.moves - 2
    return (limits.tcp_stream_s(path, size) + limits.udp_stream_s(path, size, _offered_bps(asked))
            + arrivals * limits.getting_on_s(scenario) + further * _SLOWEST_FURTHER_S)


def expected(cell: Cell, asked: Asked) -> Expected:
    """By the air's ceilings, so that it is the same for all policies of a scenario.

    UDP is offered at the rate that one crossing can carry, wherever it goes.
    """
    scenario: Scenario = cell.value("scenario")
    size, air = asked.stream_bytes, medium(asked)
    crossings = _crossings(scenario)
    tcp_bps = air.tcp_ceiling_bps() if air else _UNLIMITED_BPS
    udp_bps = air.udp_ceiling_bps(asked.udp_payload_bytes) if air else _UNLIMITED_BPS
    moves = asked.moves if scenario.roams_to else 0
    # After each move but the last, it comes home once more.
    further = asked.authentications - 1 + max(0, moves - 1)
    fixed_s = _FIXED_S + further * _AUTHENTICATION_S + moves * _MOVE_S
    return Expected(
        duration_s=fixed_s + size * 8 * crossings / tcp_bps + size * 8 / udp_bps,
        processor_s=_PROCESSOR_S + further * _AUTHENTICATION_PROCESSOR_S
        + _PROCESSOR_S_PER_MB * 2 * size / 1e6 * crossings,
        capture_bytes=_FIXED_BYTES + further * _AUTHENTICATION_BYTES
        + 2 * size * crossings * _SHARE_OF_STREAM / STREAM_CAPTURES[asked.stream_captures])


def _crossings(scenario: Scenario) -> int:
    """How often a packet between the mobile node and its peer is on the air."""
    return 2 if scenario.network.nodes[scenario.peer].has("station") else 1


def _offered_bps(asked: Asked) -> float:
    air = medium(asked)
    return _OVERLOAD * air.udp_ceiling_bps(asked.udp_payload_bytes) if air else _UNLIMITED_OFFER_BPS
