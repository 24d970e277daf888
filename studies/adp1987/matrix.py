"""Testbed, task and required metrics of a cell."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from policies import ChannelLayer
from studies import mobile
from studies.adp1987 import own_trace
from studies.adp1987.asked import Asked
from studies.adp1987.body import (
    ADP_BYTES,
    ESTABLISHMENT,
    LATENCY,
    RATE,
    THROUGHPUT,
    UTILISATION,
    WIRE_BYTES,
    WORK,
)
from studies.adp1987.design import (
    DEVICES,
    NOMINAL_URGENCY,
    OF_POLICY,
    PROTOCOLS,
    REAL_TIME,
    SCOPES,
    URGENCY,
    is_paced,
)
from studies.adp1987.traces import TRACES
from studies.study import Cell, Metric, StudyError
from studies.study import TestbedSpec as Spec
from topologies import shapes
from topologies.loader import load_wire, to_json
from topologies.model import Interface, Network, Node, Scenario, Wire

#: Ethernet of a cell: the paper's 10 Mbit/s, and 1 Gbit/s for today's processors.
_TODAYS_WIRE = str(Path(__file__).parent / "wires" / "lan-1g.yml")
WIRES = {"today": _TODAYS_WIRE, REAL_TIME: _TODAYS_WIRE}
PAPER_WIRE = "lan-10m"
_PLACES = {"alpha": {"to-beta": "10.9.0.1/24", "to-mid": "10.9.1.1/24"},
           "beta": {"to-alpha": "10.9.0.2/24", "to-mid": "10.9.2.1/24"},
           "mid": {"to-alpha": "10.9.1.2/24", "to-beta": "10.9.2.2/24"}}
#: Host mid is known by one address, which the other hosts reach by their own wire to it.
_ROUTES = {"beta": {"10.9.1.0/24": "10.9.2.2"}, "mid": {"10.9.0.2/32": "10.9.2.1",
                                                       "10.9.0.1/32": "10.9.1.1"}}


def select_wire(cell: Cell) -> Wire:
    """Return the Ethernet that belongs to the technology of a cell."""
    return load_wire(WIRES.get(cell.ids["technology"], PAPER_WIRE))


def build_network(wire: Wire) -> Network:
    """Return three hosts with a wire between each two.

    The third host is for attacks.
    """
    nodes = {name: Node(["host"], {port: Interface(address=address)
                                   for port, address in ports.items()},
                        routes=_ROUTES.get(name, {})) for name, ports in _PLACES.items()}
    ends = (("alpha", "beta"), ("alpha", "mid"), ("beta", "mid"))
    links = [shapes.make_link(f"{one}/to-{other}", f"{other}/to-{one}", wire) for one, other
             in ends]
    return Network("three-hosts", nodes, links)


def build_testbed(cell: Cell, settings: Asked) -> Spec:
    """Return the testbed of a cell.

    Over wires, the hosts have the cell's device. In virtual time each trace has its own testbed
    there, so that traces are measured in parallel. On the air, the testbed is the cell's scenario.

    Args:
        cell: The cell.
        settings: Settings of the workload.

    Raises:
        StudyError: A user's own trace has a message that no queue accepts, or is too long.
    """
    own_trace.check_duration(cell, settings)
    largest = max((size for _, size, _ in own_trace.select_messages(cell, settings)), default=0)
    if largest > _channel_settings(cell, settings)["bound_bytes"]:
        what_to_do = f"add --set bound_bytes={largest}" if cell.ids["protocol"] != OF_POLICY else \
            f"write queue_bytes: {largest} in policy {cell.ids['policy']}"
        raise StudyError(f"--trace {cell.ids['trace']}: has a message of {largest} bytes, more "
                         f"than the queue's bound; {what_to_do}")
    if mobile.is_on_air(cell):
        scenario: Scenario = cell.value("scenario")
        mobile.refuse_losses(scenario, mobile.ACCOUNTED, at=scenario.peer)
        device = DEVICES[cell.ids["technology"]]
        return Spec(scenario.network, cell.value("policy").without_upper_layers, mobile.medium_for(
            scenario, settings.medium),
                    {scenario.peer: device, scenario.mobile_node: device}, clocks=("virtual",))
    if cell.ids["technology"] == REAL_TIME:
        return Spec(build_network(select_wire(cell)), options={"real_time": True},
                    clocks=("real", "processor"))
    device = DEVICES[cell.ids["technology"]]
    return Spec(build_network(select_wire(cell)), devices=dict.fromkeys(_PLACES, device),
                options={"trace": cell.ids["trace"]})


def build_task(cell: Cell, settings: Asked) -> Mapping[str, Any]:
    """Return the workload's task with the protocol's settings, the wire's figures and the trace."""
    ids, wire = cell.ids, select_wire(cell)
    urgency, on_air = ids["urgency"], mobile.is_on_air(cell)
    return {
        **_channel_settings(cell, settings), "rsa_bits": settings.rsa_bits,
        "wire": {"rate_bps": wire.rate_bps, "overhead_bytes": wire.overhead_bytes},
        "trace": ids["trace"], "own_trace": own_trace.select_messages(cell, settings),
        "rate": float(ids["rate"]),
        "urgent": None if urgency == NOMINAL_URGENCY else URGENCY[urgency],
        "messages": settings.messages, "proof_messages": settings.proof_messages,
        "paced_messages": (settings.paced_messages if on_air or ids["technology"] == REAL_TIME else
                           settings.messages),
        "seed": settings.trace_seed, "is_quick": ids["technology"] in WIRES,
        "saturated": not is_paced(ids),
        "scenario": to_json(cell.value("scenario")) if on_air else None,
        "has_port": on_air and cell.value("policy").uses_eap}


def required_metrics(cell: Cell, settings: Asked) -> list[Metric]:
    """Return the metrics that every repetition of a cell must have.

    Latency is required only if the phase has urgent messages. The level of a user's own trace does
    not say whether it has some, so latency is not required there.
    """
    told, ids = build_task(cell, settings), cell.ids
    kind = TRACES.get(ids["trace"])
    share = (told["urgent"] or kind.urgent) if kind else 0.0
    required = [WIRE_BYTES]
    required += [LATENCY] * bool(round(share * told["paced_messages"]))
    required += [ESTABLISHMENT] * (told["protocol"] != "none")
    if told["scenario"]:
        return [*required, THROUGHPUT, RATE]
    if ids["technology"] == REAL_TIME:
        return [*required, THROUGHPUT, RATE, WORK]
    return [*required, UTILISATION, ADP_BYTES, *([THROUGHPUT] if told["saturated"] else [])]


def _channel_settings(cell: Cell, settings: Asked) -> Mapping[str, Any]:
    """Return the settings of the protocol, from the levels or from the policy's channel layer."""
    ids = cell.ids
    if ids["protocol"] == OF_POLICY:
        layer: ChannelLayer = cell.value("policy").layers.channel
        return {"protocol": layer.protocol, "scope": layer.scope,
                "trailer": layer.trailer or "sequence", "queue": layer.timeout_ms > 0,
                "timeout_s": layer.timeout_ms / 1e3, "bound_bytes": layer.queue_bytes}
    return {"protocol": PROTOCOLS[ids["protocol"]], "scope": SCOPES[ids["scope"]],
            "trailer": "sequence", "queue": ids["queue"] == "ON",
            "timeout_s": float(ids["timeout"]) / 1e3, "bound_bytes": settings.bound_bytes}
