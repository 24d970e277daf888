"""Factors, levels and cells of the study.

One factor varies at a time, as in the paper.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from policies import ChannelLayer, Policy
from studies import mobile
from studies.adp1987.traces import TRACES, TraceKind
from studies.study import Cell, Factor, Level, Stage, StudyError, chosen_cells, fixed_levels

NOMINAL_URGENCY = "U3"
#: Shares of urgent messages in the ALL trace (Table 1).
URGENCY = {"U1": 0.0008, "U2": 0.03, "U3": 0.10, "U4": 0.19, "U5": 0.27}
RATES = (0.5, 1.0, 1.5, 2.0)
TIMEOUTS_MS = (1, 10, 40, 60, 100, 200)
SCOPES = {"NE": "none", "PE": "trailer", "FE": "all"}
#: Device by level of the paper's factor Y (technology); `today` is a core of today.
DEVICES = {"HW": "sun3-50", "SW": "sun3-50-des-routine", "today": "epyc-core"}
#: Stages of a real-time run with the largest share of waiting for the processor. More makes
#: messages late and lowers their number per second.
STAGES = (Stage("latency", ("latency",), ("throughput",), 0.3),
          Stage("throughput", ("throughput",), ("end",), 0.3))
#: Level of Y for this machine in real time, and the protocols that are compared there.
REAL_TIME = "real"
PROTOCOLS = {"1987": "adp-1987", "modern": "adp", "wireguard": "wireguard", "esp": "esp",
             "none": "none"}
BESIDE = ("wireguard", "esp", "none")
#: Level of scenario that stands for wires, and level of protocol that takes a policy's channel
#: layer.
WIRES, OF_POLICY = "three-hosts", mobile.OF_POLICY
#: On the air: the technology of both ends, and the protocols that are measured under each policy.
ON_AIR_TECHNOLOGY = "today"
ON_AIR = (("none", "NE", "OFF"), ("modern", "FE", "OFF"), ("modern", "FE", "ON"),
          ("1987", "FE", "ON"))
#: Traces of Figures 4 to 6.
_BY_RATE, _BY_TIMEOUT = ("ALL", "ND"), ("ALL", "TCP", "ND")
_FIGURE_4_MS = 40
#: Traces that are measured on the air.
_ON_AIR = ("ALL", "ND")


def _read_traces(names: Sequence[str], files: Sequence[Path]) -> Sequence[Level]:
    """Return the paper's traces by name and a user's own traces by capture file."""
    from studies.adp1987 import captured

    known = fixed_levels([Level(name, f"{kind.mean_bytes} B, {kind.interarrival_s * 1e3:g} ms")
                          for name, kind in TRACES.items()])
    own = [captured.read_level(file) for file in files]
    for level in own:
        if level.id in TRACES:
            raise StudyError(f"--trace {level.id}: is a trace of the paper's; call the file "
                             "something else")
    return [*(known(names, ()) if names or not files else ()), *own]


def _refusal_reason(policy: Policy) -> str:
    """Return why a policy cannot be measured, "" if it can.

    The study cannot read messages in a WireGuard tunnel.
    """
    return ("this study opens ESP's captures and not WireGuard's; choose a policy without it, or "
            "compare with WireGuard over wires: --profile beside") if policy.uses_wireguard else ""


PLACES = mobile.WiresAndAir(
    Level(WIRES, "two hosts on an Ethernet, and a third one for attacks"),
    mobile.Policies(("P1", "P2", "P8", "P12"), runs={"channel"}, refusal=_refusal_reason),
    ("N2", "R1"),
    waits=True)


def _format_number(value: float) -> str:
    return f"{value:g}"


def _reader_without(*further: str, levels: Sequence[Level]) -> Callable[
        [Sequence[str], Sequence[Path]], Sequence[Level]]:
    """Return a reader for a factor whose `further` levels are measured only on request."""
    every = fixed_levels(levels)
    return lambda names, files: [level for level in every(names, files)
                                 if names or level.id not in further]


FACTORS = (
    Factor("trace", "Trace", read=_read_traces, option="--traces", file_option="--trace",
           help=f"Traces, of {', '.join(TRACES)}.",
           file_help="A capture of your own whose packets are the messages. May be repeated."),
    Factor("urgency", "Urgency", plural="urgencies", read=fixed_levels(
        [Level(name, f"{share:.2%} of ALL's messages" if name != NOMINAL_URGENCY else
               "10 % of ALL's, other traces' own") for name, share in URGENCY.items()])),
    Factor("rate", "Rate", is_number=True, unit="of the nominal", read=fixed_levels(
        [Level(_format_number(rate), number=rate) for rate in RATES])),
    Factor("scope", "Encryption", read=fixed_levels([
        Level("NE", "none"), Level("PE", "trailer"), Level("FE", "all")])),
    Factor("technology", "Technology", plural="technologies",
           read=_reader_without(REAL_TIME, levels=[
        Level("HW", "DES chip"), Level("SW", "DES routine"), Level("today", "a core of today's"),
        Level(REAL_TIME, "this machine's processor, in real time")])),
    Factor("queue", "Queueing", plural="kinds of queueing",
           read=fixed_levels([Level("ON"), Level("OFF")])),
    Factor("timeout", "Timeout", is_number=True, unit="ms", read=fixed_levels(
        [Level(str(value), number=value) for value in TIMEOUTS_MS])),
    Factor("protocol", "Protocol", read=_reader_without(*BESIDE[:-1], levels=[
        Level("1987", "as published"), Level("modern", "X25519, Ed25519, ChaCha20-Poly1305"),
        Level("wireguard", "UDP through the kernel's WireGuard"),
        Level("esp", "UDP in the kernel's ESP, keys by IKEv2"),
        Level("none", "UDP without protection"),
        Level(OF_POLICY, "as the policy's layer says")])),
    *PLACES.build_factors(),
)
NAMES = tuple(factor.name for factor in FACTORS)


def ids(trace: str, **changes: str) -> tuple[str, ...]:
    """Return a cell's ids: the trace's nominal levels (Table 1) except for `changes`."""
    nominal = {"trace": trace, "urgency": NOMINAL_URGENCY, "rate": "1", "scope": "PE",
               "technology": "HW", "queue": "ON", "timeout": nominal_timeout(trace),
               "protocol": "1987", "policy": mobile.NO_POLICY, "scenario": WIRES}
    return tuple((nominal | changes).values())


def nominal_timeout(trace: str) -> str:
    """Return the nominal timeout of a trace (ms).

    A user's own trace has the timeout of ALL.
    """
    kind: TraceKind = TRACES.get(trace, TRACES["ALL"])
    return _format_number(kind.timeout_s * 1e3)


def real_time_cells(trace: str) -> Iterator[tuple[str, ...]]:
    """Yield the real-time cells of a trace.

    A protected message is encrypted whole.
    """
    for queue in ("ON", "OFF"):
        yield ids(trace, technology=REAL_TIME, protocol="modern", scope="FE", queue=queue)
    for protocol in BESIDE:
        yield ids(trace, technology=REAL_TIME, protocol=protocol, queue="OFF",
                  scope="NE" if protocol == "none" else "FE")


def air_cells(trace: str, policy: str, scenario: str,
              layer: ChannelLayer | None) -> Iterator[tuple[str, ...]]:
    """Yield the cells of a trace under a policy in a scenario.

    Without a channel layer in the policy, the protocols of `ON_AIR` are compared with none. A
    channel layer replaces them by its own protocol.
    """
    rows = ON_AIR if layer is None else ((
        OF_POLICY, next(name for name, scope in SCOPES.items() if scope == layer.scope),
        "ON" if layer.timeout_ms else "OFF"),)
    for protocol, scope, queue in rows:
        yield ids(trace, technology=ON_AIR_TECHNOLOGY, protocol=protocol, scope=scope, queue=queue,
                  policy=policy, scenario=scenario)


def design_cells(traces: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Yield every cell over wires, as often as a table or figure has it."""
    for trace in traces:
        yield ids(trace)
        yield from real_time_cells(trace)
        if trace in ("ALL", "ND") or trace not in TRACES:
            yield from (ids(trace, scope=scope, queue=queue)
                        for scope in SCOPES for queue in ("OFF", "ON"))
        if trace in ("ALL", "ND"):
            yield ids(trace, technology="SW")
        if trace == "ALL":
            yield from (ids(trace, urgency=urgency) for urgency in URGENCY)
            yield from (ids(trace, technology="today", protocol=protocol, scope=scope)
                        for protocol in PROTOCOLS if protocol not in BESIDE
                        for scope in ("PE", "FE"))
            yield ids(trace, technology="today", scope="NE")
        if trace in _BY_RATE:
            yield from (ids(trace, rate=_format_number(rate), queue=queue,
                            timeout=str(_FIGURE_4_MS))
                        for rate in RATES for queue in ("ON", "OFF"))
        if trace in _BY_TIMEOUT:
            yield from (ids(trace, timeout=str(value)) for value in TIMEOUTS_MS)


def select_cells(levels: Mapping[str, Sequence[Level]]) -> Iterator[Cell]:
    """Yield each cell of the design for the chosen levels once.

    Raises:
        StudyError: Policies are chosen without scenarios of the air, or scenarios without policies.
    """
    policies = [level for level in levels["policy"] if level.id != mobile.NO_POLICY]
    places = [level for level in levels["scenario"] if level.id != WIRES]
    if bool(policies) != bool(places):
        raise StudyError("policies go with scenarios of the air: add "
                         + ("--scenarios N2,R1" if policies else "--policies P1,P12"))
    traces = [level.id for level in levels["trace"]]
    rows = [*design_cells(traces), *(
        row for trace in traces if trace in _ON_AIR or trace not in TRACES
        for policy in policies for scenario in places
        for row in air_cells(trace, policy.id, scenario.id, policy.value.layers.channel))]
    return chosen_cells(NAMES, rows, levels)


def is_paced(row: Mapping[str, Any]) -> bool:
    """Return whether a cell has latency only, because its rate is not the nominal one."""
    return str(row["rate"]) != "1"
