"""What tests of a throughput's bounds are about: scenarios, a medium, policies with other ESP."""

from __future__ import annotations

from fabricated import POLICIES
from policies import Policy
from topologies.loader import load_medium, load_scenario, scenario_ids

SHORT = load_medium("802.11b-short")
SCENARIOS = {name: load_scenario(name) for name in scenario_ids()}


def with_ipsec(proposal: str, mode: str = "tunnel") -> Policy:
    """P3 with another ESP."""
    layers = POLICIES["P3"].layers
    assert layers.ipsec is not None
    ipsec = layers.ipsec.model_copy(update={"esp_proposal": proposal, "mode": mode})
    return POLICIES["P3"].model_copy(update={"layers": layers.model_copy(update={"ipsec": ipsec})})
