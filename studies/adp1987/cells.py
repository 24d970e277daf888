"""List the combinations of factors that the study adp1987 measures, with network and instructions.

A cell is one such combination. The study measures ADP (Authenticated Datagram Protocol of 1987),
over Ethernet, over the air and in real time. Factors are the trace (list of messages to send), the
encrypted part of a datagram, queueing and others. Like its paper (Anderson, Ferrari, Rangan and
Sartirana, 1987), the study varies one factor at a time. `select_cells` takes the chosen values of
factors, and yields the cells to measure. For a cell, `build_testbed` describes the test network,
and `build_task` the instructions for the workload. A user's own trace comes from a capture file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import Any

from policies import ChannelLayer, Policy
from studies import policy_factors
from studies.adp1987.measurements import (
    ADP_BYTES,
    ESTABLISHMENT,
    LATENCY,
    RATE,
    THROUGHPUT,
    UTILISATION,
    WIRE_BYTES,
    WORK,
)
from studies.adp1987.settings import Settings
from studies.adp1987.traces import TRACES, TraceKind
from studies.study import (
    Cell,
    Factor,
    Level,
    Metric,
    Stage,
    StudyError,
    build_chosen_cells,
    fixed_levels,
)
from studies.study import TestbedSpec as Spec
from topologies import shapes
from topologies.loader import load_wire, to_json
from topologies.model import Interface, Network, Node, Scenario, Wire

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
WIRES, OF_POLICY = "three-hosts", policy_factors.OF_POLICY
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
    """Return traces by name from the paper, and the user's own traces from capture files."""
    from studies.adp1987 import user_traces

    known = fixed_levels([Level(name, f"{kind.mean_bytes} B, {kind.interarrival_s * 1e3:g} ms")
                          for name, kind in TRACES.items()])
    own = [user_traces.read_level(file) for file in files]
    for level in own:
        if level.id in TRACES:
            raise StudyError(f"--trace {level.id}: is a trace of the paper's; call the file "
                             "something else")
    return [*(known(names, ()) if names or not files else ()), *own]


def _refusal_reason(policy: Policy) -> str:
    """Return why the study cannot measure a policy, or "" if it can.

    It cannot measure WireGuard, because it cannot decrypt WireGuard's packets.
    """
    return ("this study opens ESP's captures and not WireGuard's; choose a policy without it, or "
            "compare with WireGuard over wires: --profile beside") if policy.uses_wireguard else ""


PLACES = policy_factors.WireAirFactors(
    Level(WIRES, "two hosts on an Ethernet, and a third one for attacks"),
    policy_factors.PolicyReader(("P1", "P2", "P8", "P12"), runs={"channel"},
                                refusal=_refusal_reason),
    ("N2", "R1"),
    waits=True)


def _format_number(value: float) -> str:
    return f"{value:g}"


def _reader_without(*further: str, levels: Sequence[Level]) -> Callable[
        [Sequence[str], Sequence[Path]], Sequence[Level]]:
    """Return a function that reads a factor's values, and skips some unless they are requested."""
    every = fixed_levels(levels)
    return lambda names, files: [level for level in every(names, files)
                                 if names or level.id not in further]


FACTORS = (
    Factor("trace", "Trace", read=_read_traces, option="--traces", file_option="--trace",
           help=f"Send these traces: {', '.join(TRACES)} (default: from the profile, else all).",
           file_help="Send the packets of your own capture as messages (may be repeated)."),
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


def cell_ids(trace: str, **changes: str) -> tuple[str, ...]:
    """Return a combination of factor values: the paper's nominal values, except for `changes`."""
    nominal = {"trace": trace, "urgency": NOMINAL_URGENCY, "rate": "1", "scope": "PE",
               "technology": "HW", "queue": "ON", "timeout": nominal_timeout(trace),
               "protocol": "1987", "policy": policy_factors.NO_POLICY, "scenario": WIRES}
    return tuple((nominal | changes).values())


def nominal_timeout(trace: str) -> str:
    """Return how long messages of a trace wait in the queue at most (ms), by the paper's Table 1.

    A user's own trace has the timeout of the paper's trace ALL.
    """
    kind: TraceKind = TRACES.get(trace, TRACES["ALL"])
    return _format_number(kind.timeout_s * 1e3)


def real_time_cells(trace: str) -> Iterator[tuple[str, ...]]:
    """Yield the combinations that compare ADP with WireGuard and ESP in real time.

    All protocols but `none` encrypt messages completely.
    """
    for queue in ("ON", "OFF"):
        yield cell_ids(trace, technology=REAL_TIME, protocol="modern", scope="FE", queue=queue)
    for protocol in BESIDE:
        yield cell_ids(trace, technology=REAL_TIME, protocol=protocol, queue="OFF",
                       scope="NE" if protocol == "none" else "FE")


def air_cells(trace: str, policy: str, scenario: str,
              layer: ChannelLayer | None) -> Iterator[tuple[str, ...]]:
    """Yield the combinations to measure over the air for a trace, a policy and a scenario.

    If the policy names a protocol for messages (`layers.channel`), only that is measured. Otherwise
    the protocols of `ON_AIR` are compared.
    """
    rows = ON_AIR if layer is None else ((
        OF_POLICY, next(name for name, scope in SCOPES.items() if scope == layer.scope),
        "ON" if layer.timeout_ms else "OFF"),)
    for protocol, scope, queue in rows:
        yield cell_ids(trace, technology=ON_AIR_TECHNOLOGY, protocol=protocol, scope=scope,
                       queue=queue,
                       policy=policy, scenario=scenario)


def design_cells(traces: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Yield the combinations over Ethernet that tables and figures need, with repetitions."""
    for trace in traces:
        yield cell_ids(trace)
        yield from real_time_cells(trace)
        if trace in ("ALL", "ND") or trace not in TRACES:
            yield from (cell_ids(trace, scope=scope, queue=queue)
                        for scope in SCOPES for queue in ("OFF", "ON"))
        if trace in ("ALL", "ND"):
            yield cell_ids(trace, technology="SW")
        if trace == "ALL":
            yield from (cell_ids(trace, urgency=urgency) for urgency in URGENCY)
            yield from (cell_ids(trace, technology="today", protocol=protocol, scope=scope)
                        for protocol in PROTOCOLS if protocol not in BESIDE
                        for scope in ("PE", "FE"))
            yield cell_ids(trace, technology="today", scope="NE")
        if trace in _BY_RATE:
            yield from (cell_ids(trace, rate=_format_number(rate), queue=queue,
                                 timeout=str(_FIGURE_4_MS))
                        for rate in RATES for queue in ("ON", "OFF"))
        if trace in _BY_TIMEOUT:
            yield from (cell_ids(trace, timeout=str(value)) for value in TIMEOUTS_MS)


def select_cells(levels: Mapping[str, Sequence[Level]]) -> Iterator[Cell]:
    """Yield the combinations to measure for the chosen factor values, each once.

    Args:
        levels: the chosen values of each factor.

    Raises:
        StudyError: there are policies without scenarios, or scenarios without policies.
    """
    policies = [level for level in levels["policy"] if level.id != policy_factors.NO_POLICY]
    places = [level for level in levels["scenario"] if level.id != WIRES]
    if bool(policies) != bool(places):
        raise StudyError("policies go with scenarios of the air: add "
                         + ("--scenarios N2,R1" if policies else "--policies P1,P12"))
    traces = [level.id for level in levels["trace"]]
    rows = [*design_cells(traces), *(
        row for trace in traces if trace in _ON_AIR or trace not in TRACES
        for policy in policies for scenario in places
        for row in air_cells(trace, policy.id, scenario.id, policy.value.layers.channel))]
    return build_chosen_cells(NAMES, rows, levels)


def is_paced(row: Mapping[str, Any]) -> bool:
    """Return whether a combination is measured for latency only, at another message rate."""
    return str(row["rate"]) != "1"


# --- Size and duration of a user's own trace in a repetition ---

#: Messages of a trace: time at which the process has it (s), bytes, urgency.
Arrivals = Sequence[tuple[float, int, bool]]
_DAY_S = 86_400
#: Longest trace in its own time (s). A guest needs 65 s for 30 days on wires, where nothing else
#: happens. One day on the air, with its beacons, takes five minutes.
_LONGEST_S = {"wires": 30 * _DAY_S, "air": _DAY_S, REAL_TIME: _DAY_S}
#: Processor seconds per second of skipped waiting, measured with pauses of 90 s and 6 h on a
#: processor of 2023.
_SKIPPED_S = {"wires": 2.5e-5, "air": 3.5e-3, REAL_TIME: 5e-4}


def select_messages(cell: Cell, settings: Settings) -> Arrivals:
    """Return the messages of a user's own trace that are sent, or [] for a trace of the paper."""
    own: Arrivals = cell.value("trace") or ()
    return own[:settings.messages]


def count_messages(cell: Cell, settings: Settings) -> int:
    """Return the number of messages in the longest phase of a repetition."""
    return len(select_messages(cell, settings)) or settings.messages


def paced_s(cell: Cell, settings: Settings) -> float:
    """Return how long a user's own trace lasts at its own times (s), over all phases."""
    messages = select_messages(cell, settings)
    phases = (settings.proof_messages, _paced_count(cell, settings))
    return sum(messages[:phase][-1][0] for phase in phases) if messages else 0.0


def skipped_s(cell: Cell, settings: Settings) -> float:
    """Return the CPU time (s) that skipping the pauses of a user's own trace takes."""
    return paced_s(cell, settings) * _SKIPPED_S[_network_kind(cell)]


def check_duration(cell: Cell, settings: Settings) -> None:
    """Check that a user's own trace is short enough for a repetition.

    Raises:
        StudyError: the trace lasts too long.
    """
    messages = select_messages(cell, settings)[:max(settings.proof_messages,
                                                    _paced_count(cell, settings))]
    longest_s = _LONGEST_S[_network_kind(cell)]
    if messages and messages[-1][0] > longest_s:
        number, pause_s = _longest_pause(messages)
        raise StudyError(
            f"--trace {cell.ids['trace']}: lasts {_format_duration(messages[-1][0])} in its own "
            f"time, more than the {_format_duration(longest_s)} that a repetition may take "
            f"(message {number} comes {_format_duration(pause_s)} after the one before); take a "
            "part of it with editcap -r")


def describe_traces(cells: Sequence[Cell], settings: Settings) -> Iterator[str]:
    """Yield a line of text for each of the user's own traces.

    It has number and sizes of messages, duration, pauses, and how many messages are urgent.
    """
    for cell in {cell.ids["trace"]: cell for cell in cells}.values():
        messages = select_messages(cell, settings)
        if messages:
            yield f"Trace {cell.ids['trace']}: {_describe_trace(cell, messages)}"


def _describe_trace(cell: Cell, messages: Arrivals) -> str:
    """Return number, sizes, duration and urgency of the messages of a user's own trace as text."""
    content = cell.levels["trace"].content
    total, ends = content["messages"], content["ends"]
    sizes = [size for _, size, _ in messages]
    _, pause_s = _longest_pause(messages)
    urgent = sum(is_urgent for *_, is_urgent in messages)
    taken_of = f"the first {len(messages)} of {total} messages (--messages takes up to 10000)" \
        if len(messages) < total else f"{total} messages"
    parts = [taken_of, f"{min(sizes)} to {max(sizes)} bytes (mean {fmean(sizes):.0f})"
             if min(sizes) < max(sizes) else f"{sizes[0]} bytes each",
             (f"{_format_duration(messages[-1][0])} long with pauses of up to "
              f"{_format_duration(pause_s)}"),
             f"{urgent / len(messages):.1%} urgent".replace("%", " %") if urgent else
             "none urgent, so without latency"]
    parts += [f"the capture is {ends} and is used up to there"] if ends else []
    return "; ".join(parts)


def _longest_pause(messages: Arrivals) -> tuple[int, float]:
    """Return the number of the message after the longest pause, and the pause (s)."""
    pauses = [after - before for (before, *_), (after, *_) in pairwise(messages)]
    longest_s = max(pauses, default=0.0)
    return (pauses.index(longest_s) + 2 if pauses else 1), longest_s


def _network_kind(cell: Cell) -> str:
    if policy_factors.is_on_air(cell):
        return "air"
    return REAL_TIME if cell.ids["technology"] == REAL_TIME else "wires"


def _paced_count(cell: Cell, settings: Settings) -> int:
    """Return the number of messages in the phase that sends a trace at its own times."""
    return settings.messages if _network_kind(cell) == "wires" else settings.paced_messages


def _format_duration(seconds: float) -> str:
    """Format a duration as text, such as `2.5 ms`, `3 h` or `200 days`."""
    for unit_s, unit in ((_DAY_S, "days"), (3600, "h"), (60, "min"), (0.5, "s")):
        if seconds >= 2 * unit_s:
            return f"{seconds / max(1, unit_s):.3g} {unit}"
    return f"{seconds * 1e3:.3g} ms"


# --- Testbed, task and required metrics of a cell ---

#: Ethernet of a cell: the paper's 10 Mbit/s, and 1 Gbit/s for today's processors.
_TODAYS_WIRE = str(Path(__file__).parent / "wires" / "lan-1g.yml")
WIRE_BY_DEVICES = {"today": _TODAYS_WIRE, REAL_TIME: _TODAYS_WIRE}
PAPER_WIRE = "lan-10m"
_PLACES = {"alpha": {"to-beta": "10.9.0.1/24", "to-mid": "10.9.1.1/24"},
           "beta": {"to-alpha": "10.9.0.2/24", "to-mid": "10.9.2.1/24"},
           "mid": {"to-alpha": "10.9.1.2/24", "to-beta": "10.9.2.2/24"}}
#: Host mid is known by one address, which the other hosts reach by their own wire to it.
_ROUTES = {"beta": {"10.9.1.0/24": "10.9.2.2"}, "mid": {"10.9.0.2/32": "10.9.2.1",
                                                        "10.9.0.1/32": "10.9.1.1"}}


def select_wire(cell: Cell) -> Wire:
    """Return the Ethernet of a combination: that of 1987 or one of today."""
    return load_wire(WIRE_BY_DEVICES.get(cell.ids["technology"], PAPER_WIRE))


def build_network(wire: Wire) -> Network:
    """Build a network of three hosts with a wire between each two. The third is for attacks."""
    nodes = {name: Node(["host"], {port: Interface(address=address)
                                   for port, address in ports.items()},
                        routes=_ROUTES.get(name, {})) for name, ports in _PLACES.items()}
    ends = (("alpha", "beta"), ("alpha", "mid"), ("beta", "mid"))
    links = [shapes.make_link(f"{one}/to-{other}", f"{other}/to-{one}", wire) for one, other
             in ends]
    return Network("three-hosts", nodes, links)


def build_testbed(cell: Cell, settings: Settings) -> Spec:
    """Describe the test network of a combination of factors.

    Over Ethernet, hosts have the processor model of the combination. In virtual time (waiting is
    skipped) each trace has its own network, so that traces are measured in parallel. Over the air,
    the network is that of the scenario.

    Raises:
        StudyError: a message of the user's own trace is too large, or the trace is too long.
    """
    check_duration(cell, settings)
    largest = max((size for _, size, _ in select_messages(cell, settings)), default=0)
    if largest > _channel_settings(cell, settings)["bound_bytes"]:
        what_to_do = f"add --set bound_bytes={largest}" if cell.ids["protocol"] != OF_POLICY else \
            f"write queue_bytes: {largest} in policy {cell.ids['policy']}"
        raise StudyError(f"--trace {cell.ids['trace']}: has a message of {largest} bytes, more "
                         f"than the queue's bound; {what_to_do}")
    if policy_factors.is_on_air(cell):
        scenario: Scenario = cell.value("scenario")
        policy_factors.refuse_losses(scenario, policy_factors.ACCOUNTED, at=scenario.peer)
        device = DEVICES[cell.ids["technology"]]
        return Spec(scenario.network, cell.value("policy").without_upper_layers,
                    policy_factors.load_scenario_medium(
            scenario, settings.medium, cell.value("policy")),
                    {scenario.peer: device, scenario.mobile_node: device}, clocks=("virtual",))
    if cell.ids["technology"] == REAL_TIME:
        return Spec(build_network(select_wire(cell)), options={"real_time": True},
                    clocks=("real", "processor"))
    device = DEVICES[cell.ids["technology"]]
    return Spec(build_network(select_wire(cell)), devices=dict.fromkeys(_PLACES, device),
                options={"trace": cell.ids["trace"]})


def build_task(cell: Cell, settings: Settings) -> Mapping[str, Any]:
    """Return the instructions for one repetition: protocol settings, rate of the wire and trace."""
    ids, wire = cell.ids, select_wire(cell)
    urgency, on_air = ids["urgency"], policy_factors.is_on_air(cell)
    return {
        **_channel_settings(cell, settings), "rsa_bits": settings.rsa_bits,
        "wire": {"rate_bps": wire.rate_bps, "overhead_bytes": wire.overhead_bytes},
        "trace": ids["trace"], "own_trace": select_messages(cell, settings),
        "rate": float(ids["rate"]),
        "urgent": None if urgency == NOMINAL_URGENCY else URGENCY[urgency],
        "messages": settings.messages, "proof_messages": settings.proof_messages,
        "paced_messages": (settings.paced_messages if on_air or ids["technology"] == REAL_TIME else
                           settings.messages),
        "seed": settings.trace_seed, "is_quick": ids["technology"] in WIRE_BY_DEVICES,
        "saturated": not is_paced(ids),
        "scenario": to_json(cell.value("scenario")) if on_air else None,
        "has_port": on_air and cell.value("policy").uses_eap}


def required_metrics(cell: Cell, settings: Settings) -> list[Metric]:
    """Return the metrics that a repetition must have.

    Latency is required only if there are urgent messages. That is unknown for a user's own trace,
    so latency is not required there.
    """
    task, ids = build_task(cell, settings), cell.ids
    kind = TRACES.get(ids["trace"])
    share = (task["urgent"] or kind.urgent) if kind else 0.0
    required = [WIRE_BYTES]
    required += [LATENCY] * bool(round(share * task["paced_messages"]))
    required += [ESTABLISHMENT] * (task["protocol"] != "none")
    if task["scenario"]:
        return [*required, THROUGHPUT, RATE]
    if ids["technology"] == REAL_TIME:
        return [*required, THROUGHPUT, RATE, WORK]
    return [*required, UTILISATION, ADP_BYTES, *([THROUGHPUT] if task["saturated"] else [])]


def _channel_settings(cell: Cell, settings: Settings) -> Mapping[str, Any]:
    """Return the settings of ADP, from factor values or from the policy."""
    ids = cell.ids
    if ids["protocol"] == OF_POLICY:
        layer: ChannelLayer = cell.value("policy").layers.channel
        return {"protocol": layer.protocol, "scope": layer.scope,
                "trailer": layer.trailer or "sequence", "queue": layer.timeout_ms > 0,
                "timeout_s": layer.timeout_ms / 1e3, "bound_bytes": layer.queue_bytes}
    return {"protocol": PROTOCOLS[ids["protocol"]], "scope": SCOPES[ids["scope"]],
            "trailer": "sequence", "queue": ids["queue"] == "ON",
            "timeout_s": float(ids["timeout"]) / 1e3, "bound_bytes": settings.bound_bytes}
