"""Changes to a policy, for negative controls: what nodes get in place of what is judged by."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from policies import Policy

Change = Callable[[Policy], Policy]


def on(policy: str, scenario: str = "N2") -> dict[str, str]:
    """The cell of the mobile world that a control is shown in."""
    return {"policy": policy, "scenario": scenario}


def changed(layer: str, **changes: Any) -> Change:
    """What makes a policy with another layer: with some of its fields changed."""
    def change(policy: Policy) -> Policy:
        altered = getattr(policy.layers, layer).model_copy(update=changes)
        return added(layer, altered)(policy)
    return change


def added(layer: str, value: Any) -> Change:
    """What makes a policy with a layer that it does not have."""
    return lambda policy: policy.model_copy(update={"layers": policy.layers.model_copy(
        update={layer: value})})


def without(layer: str) -> Change:
    """What makes a policy without a layer."""
    return added(layer, None)
