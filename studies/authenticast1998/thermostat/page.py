"""Supply the data for a web page that shows and controls the study's running streams.

The page shows which fraction of a signed stream each client verifies, and lets the user change it.
`PAGE` describes the page for the program that serves it. The functions describe the streams of a
combination of factors, and compute the states of recorded measurements from their stored events.
`studies.authenticast1998` lists the terms.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from measure.records.manifest import Manifest
from studies import records
from studies.authenticast1998 import cells
from studies.authenticast1998.thermostat.readings import (
    EVERY_S,
    StreamReadings,
    settings_from_configuration,
)
from studies.study import LivePage, StudyError

_SCHEMES = {"percentage": False, "delayed": True, "tree": True, "secret_key": False,
            "tesla": False}

#: Parts of the names of checks, by layer. Checks below the stream are those of
#: `measure.checks.layer_checks`.
_CHECKS: Mapping[str, Sequence[str]] = {
    "stream": ("messages are", "control messages", "every packet", "no packet arrives",
               "as announced", "level", "secret key is used"),
    "link": ("data frame", "initialisation vectors", "keys in force", "WEP key", "by EAPOL-Key",
             "negotiated", "management frames", "SAE", "four-way", "the air charges"),
    "dot1x": ("EAP method", "EAP-Success", "mutual authentication", "port is"),
    "ipsec": ("ISAKMP", "inner packet", "IKE", "ESP transforms")}


def _describe_cell(plan: Manifest, cell: Mapping[str, str]) -> dict[str, Any]:
    """Describe the streams of a combination of factors for the page, such as clients and limits."""
    levels = {name: plan.levels[name][level] for name, level in cell.items()}
    heuristic = levels["heuristic"].content
    controller = heuristic["controller"]
    is_blend = controller["kind"] in {"blend-1998", "delayed-first-1998"}
    devices = [plan.devices[plan.asked[end]]["title"] for end in ("server_device", "client_device")
               if plan.asked[end] in plan.devices]
    return {
        "titles": {name: level.title or cell[name] for name, level in levels.items()},
        "clients": [cells.client_name(number) for number in range(1, int(cell["clients"]) + 1)],
        "wish": settings_from_configuration({"algorithm": "DSA", **heuristic["wish"]}),
        "limit": controller.get("limit", plan.asked["limit"]) if is_blend else None,
        "buffer": plan.asked["buffer_packets"], "controller": controller["kind"],
        "schemes": [{"name": name, "has_bundles": has} for name, has in _SCHEMES.items()],
        "algorithms": ["dsa", "rsa"] if plan.settings["clock"] == "real" else ["dsa"],
        "devices": devices, "layers": _describe_layers(levels)}


def _describe_layers(levels: Mapping[str, Any]) -> list[dict[str, Any]]:
    """List the stream and the protection layers below it, with settings and names of checks."""
    policies = [level.content["layers"] for level in levels.values() if "layers" in level.content]
    described = [{"layer": name, "does": ", ".join(
        f"{key} {value}" for key, value in settings.items() if isinstance(value, str | int))}
        for layers in policies for name, settings in layers.items()
        if settings and name != "stream"]
    wire = {"layer": "wire", "does": f"{cells.RATE_BPS / 1e6:g} Mbit/s, nothing protects it"}
    stream = {"layer": "stream", "does": levels["heuristic"].title}
    return [{**layer, "checks": _CHECKS.get(layer["layer"], ())}
            for layer in (stream, *(described or [wire]))]


def _recorded_readings(folder: Path, name: str) -> list[dict[str, Any]]:
    """Compute the states of a recorded repetition's streams from the events of its programs."""
    plan = records.read_manifest(folder)
    try:
        raw = json.loads(gzip.decompress((folder / "files" / name / "raw.json.gz").read_bytes()))
        events = raw["events"]
        readings = _readings_from_events(plan, name, events)
    except (OSError, EOFError, ValueError, LookupError, TypeError, AttributeError, RecursionError,
            zlib.error):
        raise StudyError(f"{name}: what its programs said is not kept; choose another") from None
    return readings


def _readings_from_events(plan: Manifest, name: str,
                          events: Mapping[str, Any]) -> list[dict[str, Any]]:
    factors = [factor.name for factor in plan.factors]
    [cell] = [row for row in plan.cells if "-".join(row) == name.rpartition("-")[0]]
    wish = plan.levels["heuristic"][cell[factors.index("heuristic")]].content["wish"]
    clients = [node for node in events if node != cells.SERVER]
    return list(_replay_readings(
        events, dict.fromkeys(clients, settings_from_configuration({"algorithm": "DSA", **wish}))))


def _replay_readings(events: Mapping[str, Any],
                     wishes: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the readings that a live page would have had, from the events of a recorded run.

    Args:
        events: events of the programs, by node.
        wishes: the clients' requests for their streams.
    """
    timed = sorted(((event["at_s"], node, event) for node, of_node in events.items()
                    for event in of_node), key=lambda entry: entry[0])
    readings = StreamReadings(wishes)
    due_s = timed[0][0] if timed else 0.0
    for at_s, node, event in timed:
        while at_s > due_s:
            yield {"event": "report", "name": "reading", "time_s": due_s, **readings.take_reading()}
            due_s += EVERY_S
        readings.apply_event(node, event)
    yield {"event": "report", "name": "reading", "time_s": due_s, **readings.take_reading()}


PAGE = LivePage(
    folder=Path(__file__).parent, about=_describe_cell, recorded=_recorded_readings,
    help="Turn the dials of streams that run, on a page of this machine.",
    levels={"heuristic": "adaptive-1998", "clients": "3", "load": "idle"},
    sets={"frames": "9000"}, stop={"stop": True}, fleeting=frozenset({"reading"}))
