"""What scenarios, phases and components are called in tables and figures."""

from __future__ import annotations

from functools import cache

from analysis.frame import FOREIGN

#: Phases as people call them, as the two lines of a heading. Phases of one name stand together:
#: 802.11 authentication and association are one short exchange.
_PHASES = {
    "scan": ("", "scan"), "authentication": ("", "802.11"), "association": ("", "802.11"),
    "dot1x": ("", "802.1X"), "four_way_handshake": ("", "4-way"), "agent_discovery":
    ("disco-", "very"), "registration": ("", "regist."), "ike": ("", "IKE"),
    "first_packet": ("first", "packet")}
#: The same in words, where there is room for them.
_PHASES_IN_WORDS = {
    "scan": "Scan", "authentication": "802.11 authentication, association",
    "association": "802.11 authentication, association", "dot1x": "802.1X (EAP, keys)",
    "four_way_handshake": "4-way handshake", "agent_discovery": "Agent discovery",
    "registration": "Mobile IP registration", "ike": "IKE",
    "first_packet": "First answered packet"}
_COMPONENTS = {"eap": "EAP", "mip_registration": "MIP", "ike": "IKE"}
_PLACES = {"home": "home", "foreign": "away"}


def phase_heading(name: str) -> tuple[str, str]:
    """The two lines of a phase's heading."""
    return _PHASES.get(name, ("", name.replace("_", " ")))


def phase_in_words(name: str) -> str:
    """What a phase is called in a legend."""
    return _PHASES_IN_WORDS.get(name, name.replace("_", " ").capitalize())


def component_heading(name: str) -> tuple[str, str]:
    """The two lines of the heading of a component of the authentication time."""
    what, _, place = name.rpartition("_")
    if what in _COMPONENTS and place in _PLACES:
        return _COMPONENTS[what], _PLACES[place]
    return "", name.replace("_", " ")


def component_label(name: str) -> str:
    """The same on one line."""
    return " ".join(part for part in component_heading(name) if part)


def component_phases(name: str) -> tuple[str, ...]:
    """The phases of which a component of the authentication time consists."""
    what, _, place = name.rpartition("_")
    parts = {"eap": ("dot1x", "four_way_handshake"), "ike": ("ike",),
             "mip_registration": ("agent_discovery", "registration")}.get(what, ())
    return tuple((FOREIGN if place == "foreign" else "") + part for part in parts)


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


@cache
def scenario_heading(scenario: str) -> str:
    """A scenario's id, with its title where it has one."""
    title = scenario_title(scenario)
    return f"{scenario}: {title}" if title else scenario
