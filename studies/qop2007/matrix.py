"""A cell of the study for the engine: testbed, task and expected cost."""

from __future__ import annotations

from typing import Any

from measure.moves import ANEW, BACK
from measure.time_limits import TimeLimits
from policies import Policy
from studies import mobile
from studies.qop2007.asked import STREAM_CAPTURES, Asked, parse_devices
from studies.study import Cell, Expected, StudyError
from studies.study import TestbedSpec as Spec
from topologies.loader import to_json
from topologies.model import Medium, Scenario

#: Name of the strongSwan with ML-KEM in packages.yml.
MLKEM = "mlkem"
#: First security parameter index that RFC 5944 leaves to users.
SPI = 256
#: Time (s) of each further authentication or move on a busy machine.
_SLOWEST_FURTHER_S = 3.0
#: Ratio of UDP's offered rate to the medium's capacity, and its rate without a medium (bit/s).
_OVERLOAD, _UNLIMITED_OFFER_BPS = 1.1, 500e6
#: Time (s) to get on the network and to start and end captures and streams, and time of a move.
_FIXED_S, _MOVE_S = 1.0, 0.6
#: Rate of streams without a medium (bit/s), limited by kernel and processor.
_UNLIMITED_BPS = 300e6
#: Time (s), processor seconds and bytes of compressed captures of a further authentication.
_AUTHENTICATION_S, _AUTHENTICATION_PROCESSOR_S, _AUTHENTICATION_BYTES = 0.4, 0.25, 18e3
#: Processor seconds of a repetition, and of each megabyte each time that it is on the air.
_PROCESSOR_S, _PROCESSOR_S_PER_MB = 1.2, 0.09
#: Bytes of compressed captures: of an authentication, and per byte of a stream each time that it is
#: on the air.
_FIXED_BYTES, _SHARE_OF_STREAM = 60e3, 0.25


def load_medium(settings: Asked) -> Medium | None:
    """Return the medium of the settings, or None to stream without one. Raises StudyError."""
    return mobile.read_medium(settings.medium)


def testbed_spec(cell: Cell, settings: Asked) -> Spec:
    """Return the testbed: the policy on the scenario's network, over the chosen medium."""
    policy: Policy = cell.value("policy")
    scenario: Scenario = cell.value("scenario")
    return Spec(network=scenario.network, policy=policy,
                medium=mobile.medium_for(scenario, settings.medium),
                options={"spi": SPI, "detection": settings.detection},
                devices=parse_devices(settings.devices), packages=MLKEM if policy.needs_mlkem
                else "")


def build_task(cell: Cell, settings: Asked) -> dict[str, Any]:
    """Return the task of a repetition: scenario, authentications, moves and streams.

    Sizes are in bytes, UDP's rate in bit/s.
    """
    scenario: Scenario = cell.value("scenario")
    policy: Policy = cell.value("policy")
    return {"resumes": policy.resumes_sessions, "scenario": to_json(scenario),
            "authentications": settings.authentications,
            "moves": settings.moves if scenario.roams_to else 1,
            "has_port": policy.uses_eap, "roaming": roaming_mode(policy, scenario),
            "move_stream_ms": settings.move_stream_ms if scenario.roams_to else 0, "streams": {
        "tcp_bytes": settings.stream_bytes, "udp_bytes": settings.stream_bytes,
        "udp_payload_bytes": settings.udp_payload_bytes, "udp_rate_bps": _offered_bps(settings),
        "one_in": STREAM_CAPTURES[settings.stream_captures]}}


def goes_abroad(cell: Cell) -> bool:
    """Return whether the cell's mobile node moves to another subnet."""
    scenario: Scenario = cell.value("scenario")
    return scenario.foreign_agent is not None


def roaming_mode(policy: Policy, scenario: Scenario) -> str:
    """Return how the mobile node roams.

    The result is "" where the node stays, or leaves first (see Arrival).
    """
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
        return  # With a passphrase, each access point derives the keys itself.
    raise StudyError(
        f"policy {policy.id} in scenario {scenario.id}: roaming: {link.roaming} has access points "
        f"share keys on one wire, and a router is between {scenario.home} and {scenario.roams_to}; "
        "leave out roaming, write keys: psk, or choose a scenario within one subnet")


def check_sessions(policy: Policy, scenario: Scenario) -> None:
    """Refuse to resume sessions at another agent's server. Raises StudyError."""
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


def deadline_s(cell: Cell, settings: Asked) -> float:
    """Return the deadline: the slowest accepted streams, and further authentications and moves."""
    scenario: Scenario = cell.value("scenario")
    limits, size = TimeLimits(scenario.network, load_medium(settings)), settings.stream_bytes
    path = limits.to_peer(scenario)
    arrivals = settings.authentications + (settings.moves if scenario.roams_to else 0)
    further = settings.authentications + settings.moves - 2
    return (limits.tcp_stream_s(path, size)
            + limits.udp_stream_s(path, size, _offered_bps(settings))
            + arrivals * limits.getting_on_s(scenario) + further * _SLOWEST_FURTHER_S)


def estimate_costs(cell: Cell, settings: Asked) -> Expected:
    """Estimate duration and costs by the medium's ceilings, which all policies share.

    UDP is offered at the rate that one crossing of the air can carry, on every path.
    """
    scenario: Scenario = cell.value("scenario")
    size, air = settings.stream_bytes, load_medium(settings)
    crossings = _count_crossings(scenario)
    tcp_bps = air.tcp_ceiling_bps() if air else _UNLIMITED_BPS
    udp_bps = air.udp_ceiling_bps(settings.udp_payload_bytes) if air else _UNLIMITED_BPS
    moves = settings.moves if scenario.roams_to else 0
    # After each move except the last, the node comes home once more.
    further = settings.authentications - 1 + max(0, moves - 1)
    fixed_s = _FIXED_S + further * _AUTHENTICATION_S + moves * _MOVE_S
    return Expected(
        duration_s=fixed_s + size * 8 * crossings / tcp_bps + size * 8 / udp_bps,
        processor_s=_PROCESSOR_S + further * _AUTHENTICATION_PROCESSOR_S
        + _PROCESSOR_S_PER_MB * 2 * size / 1e6 * crossings,
        capture_bytes=_FIXED_BYTES + further * _AUTHENTICATION_BYTES
        + 2 * size * crossings * _SHARE_OF_STREAM / STREAM_CAPTURES[settings.stream_captures])


def _count_crossings(scenario: Scenario) -> int:
    """Count a packet's crossings of the air between mobile node and peer."""
    return 2 if scenario.network.nodes[scenario.peer].has_duty("station") else 1


def _offered_bps(settings: Asked) -> float:
    air = load_medium(settings)
    return _OVERLOAD * air.udp_ceiling_bps(
        settings.udp_payload_bytes) if air else _UNLIMITED_OFFER_BPS
