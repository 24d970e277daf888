"""What the project's own scenarios are called."""

from __future__ import annotations


def scenario_title(scenario: str) -> str:
    """The title of a scenario that comes with the project, or nothing."""
    from topologies.loader import TopologyError, load_scenario, scenario_ids

    # The name comes from a record; it must not be taken for a path.
    if scenario not in scenario_ids():
        return ""
    try:
        return load_scenario(scenario).title
    except TopologyError:
        return ""
