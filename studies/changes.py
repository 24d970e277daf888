"""Changes of a policy for negative controls.

The nodes get the changed policy, and the repetition is judged by the original one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from policies import Policy

#: Function that returns a changed copy of a policy.
Change = Callable[[Policy], Policy]


def control_cell(policy: str, scenario: str = "N2") -> dict[str, str]:
    """Return the cell for a control, as levels of `policy` and `scenario`."""
    return {"policy": policy, "scenario": scenario}


def change_layer(layer: str, **changes: Any) -> Change:
    """Return a change that sets fields of a layer.

    Args:
        layer: Name of the layer, such as "link".
        changes: New values by field.
    """
    def change(policy: Policy) -> Policy:
        altered = getattr(policy.layers, layer).model_copy(update=changes)
        return add_layer(layer, altered)(policy)
    return change


def add_layer(layer: str, value: Any) -> Change:
    """Return a change that adds or replaces a layer."""
    return lambda policy: policy.model_copy(update={"layers": policy.layers.model_copy(
        update={layer: value})})


def remove_layer(layer: str) -> Change:
    """Return a change that removes a layer."""
    return add_layer(layer, None)
