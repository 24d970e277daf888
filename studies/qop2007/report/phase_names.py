"""Names of phases and components in tables and figures, and their order."""

from __future__ import annotations

from analysis.records import Frame
from studies.qop2007.body import FOREIGN
from studies.qop2007.phases import EXCHANGES

#: Components of the authentication time in order, at home before away.
COMPONENTS = tuple(f"{name}_{place}" for place in ("home", "foreign")
                   for name in (*EXCHANGES, "eap", "mip_registration", "wireguard", "ike"))
#: Phases in the order of a mobile node's progress, with the two lines of their headings. Phases of
#: one name are adjacent: 802.11 authentication and association are one short exchange.
_PHASES = {
    "scan": ("", "scan"), "authentication": ("", "802.11"), "association": ("", "802.11"),
    "dot1x": ("", "802.1X"), "four_way_handshake": ("", "4-way"), "agent_discovery":
    ("disco-", "very"), "registration": ("", "regist."), "wireguard": ("Wire-", "Guard"),
    "ike": ("", "IKE"),
    "first_packet": ("first", "packet")}
#: Names of the phases in words, where there is room.
_PHASES_IN_WORDS = {
    "scan": "Scan", "authentication": "802.11 authentication, association",
    "association": "802.11 authentication, association", "dot1x": "802.1X (EAP, keys)",
    "four_way_handshake": "4-way handshake", "agent_discovery": "Agent discovery",
    "registration": "Mobile IP registration", "wireguard": "WireGuard handshake", "ike": "IKE",
    "first_packet": "First answered packet"}
_COMPONENTS = {"eap": "EAP", "mip_registration": "MIP", "wireguard": "WG", "ike": "IKE",
               **{name: name.upper() for name in EXCHANGES}}
_PLACES = {"home": "home", "foreign": "away"}


def phase_heading(name: str) -> tuple[str, str]:
    """Return the two lines of a phase's heading."""
    return _PHASES.get(name, ("", name.replace("_", " ")))


def phase_in_words(name: str) -> str:
    """Return the name of a phase in a legend."""
    return _PHASES_IN_WORDS.get(name, name.replace("_", " ").capitalize())


def component_heading(name: str) -> tuple[str, str]:
    """Return the two lines of the heading of a component of the authentication time."""
    what, _, place = name.rpartition("_")
    if what in _COMPONENTS and place in _PLACES:
        return _COMPONENTS[what], _PLACES[place]
    return "", name.replace("_", " ")


def component_label(name: str) -> str:
    """Return the name of a component on one line."""
    return " ".join(part for part in component_heading(name) if part)


def component_phases(name: str) -> tuple[str, ...]:
    """Return the phases of which a component of the authentication time consists."""
    what, _, place = name.rpartition("_")
    parts = {"eap": ("dot1x", "four_way_handshake"), "ike": ("ike",), "wireguard": ("wireguard",),
             "mip_registration": ("agent_discovery", "registration"), **EXCHANGES}.get(what, ())
    return tuple((FOREIGN if place == "foreign" else "") + part for part in parts)


def phase_names(frame: Frame, prefix: str = "phase_") -> tuple[str, ...]:
    """Return the names of a frame's phases in order (`handoff_`: of its handoffs).

    Phases at home come before those away. An unknown phase comes before `first_packet`, which is
    last by definition.
    """
    names = [column[len(prefix):-len("_duration_s")] for column in frame.columns
             if column.startswith(prefix) and column.endswith("_duration_s")]
    rank = {name: number for number, name in enumerate(_PHASES)}

    def place(name: str) -> tuple[bool, float, str]:
        plain = name.removeprefix(FOREIGN)
        return name != plain, rank.get(plain, rank["first_packet"] - 0.5), name

    return tuple(sorted(names, key=place))


def component_names(frame: Frame) -> tuple[str, ...]:
    """Return the names of the components of authentication times in order, unknown ones last."""
    names = [column[len("component_"):-len("_s")] for column in frame.columns
             if column.startswith("component_")]
    rank = {name: number for number, name in enumerate(COMPONENTS)}
    return tuple(sorted(names, key=lambda name: (rank.get(name, len(rank)), name)))
