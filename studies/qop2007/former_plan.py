"""Upgrade of a plan of schema 1 to a manifest of schema 2.

Schema 1 knew this study alone.

The plan has the layers. The history of the results has scenarios and the medium.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from measure.manifest import SCHEMA, plan_digest
from studies.mobile import NO_MEDIUM, scenario_digest
from topologies.loader import to_json
from topologies.model import Medium, from_json

_ASKED = {"tcp_bytes": "stream_bytes", "udp_payload_bytes": "udp_payload_bytes",
          "detection": "detection", "stream_captures": "stream_captures"}
#: Values from before these settings and options were added to plans of schema 1.
_ASKED_BEFORE = {"stream_bytes": 1_000_000, "udp_payload_bytes": 1400, "detection": "event",
                 "stream_captures": "whole"}
_SETTINGS_BEFORE = {"seed": 1, "fault": None, "on": "guest", "clock": "real", "warm_up": 1,
                    "builder": "mininet"}
STUDY = {"id": "qop2007", "version": 1}
FACTORS = [{"name": "policy", "title": "Policy", "is_number": False, "unit": ""},
           {"name": "scenario", "title": "Scenario", "is_number": False, "unit": ""}]


def plan_from_schema_1(plan: dict[str, Any], history: Sequence[Any]) -> dict[str, Any]:
    """Return the manifest. Raises LookupError, TypeError or ValueError for an unfit plan."""
    old = plan["settings"]
    asked = _ASKED_BEFORE | {new: old[name] for name, new in _ASKED.items() if name in old}
    asked["medium"] = plan.get("medium") or NO_MEDIUM
    settings = {"repetitions": old["repetitions"]} | {
        name: old.get(name, before) for name, before in _SETTINGS_BEFORE.items()}
    manifest = {
        "schema": SCHEMA, "study": STUDY, "factors": FACTORS,
        "levels": {"policy": {name: _upgrade_policy(plan, name) for name in plan["policies"]},
                   "scenario": {name: _upgrade_scenario(history, name) for name
                                in plan["scenarios"]}},
        "cells": [[policy, scenario] for policy in plan["policies"]
                  for scenario in plan["scenarios"]],
        "asked": asked, "settings": settings, "media": _upgrade_media(plan, history), "devices": {},
        "former_digests": [plan["digest"]] if plan.get("digest") else []}
    return {**manifest, "digest": plan_digest(manifest)}


def _upgrade_policy(plan: Mapping[str, Any], name: str) -> dict[str, Any]:
    title = plan.get("names", {}).get(name, "")
    layers = plan.get("layers", {}).get(name)
    return {"title": title, "digest": plan["policies"][name],
            "content": {"name": title, "layers": layers} if layers is not None else {}}


def _upgrade_scenario(history: Sequence[Any], name: str) -> dict[str, Any]:
    """Return a scenario from the newest entry that has it, or {} if none has."""
    for entry in reversed(history):
        content = entry.get("scenarios", {}).get(name)
        if content:
            content = _upgrade_duties(content)
            return {"title": content["title"], "content": content,
                    "digest": scenario_digest(content)}
    return {}


def _upgrade_duties(scenario: dict[str, Any]) -> dict[str, Any]:
    """Convert the one `kind` that nodes had to today's list of duties."""
    nodes = {name: {"duties": [node["kind"]],
                    **{key: value for key, value in node.items() if key != "kind"}}
             if "kind" in node else node for name, node in scenario["network"]["nodes"].items()}
    return {**scenario, "network": {**scenario["network"], "nodes": nodes}}


def _upgrade_media(plan: Mapping[str, Any], history: Sequence[Any]) -> dict[str, Any]:
    for entry in reversed(history):
        medium = entry.get("medium")
        if medium and medium.get("name") == plan.get("medium"):
            # A field that was added later gets its default here.
            return {medium["name"]: to_json(from_json(Medium, medium))}
    return {}
