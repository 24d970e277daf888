"""Name the phases of authentication in tables and figures, and put them in order.

A phase is one part of getting on the network, such as association or IKE. Functions such as
`phase_heading` take its name in the data, and return the text for a table or figure. `phase_names`
returns the phases in a run's data, in the order of time. `component_parts` returns the phases that
count as authentication time, for the comparison of clocks. `studies.qop2007.report` lists the
terms.
"""

from __future__ import annotations

from analysis.cells import Cells
from analysis.records import Frame
from analysis.reporting.clock_comparison import MetricPart
from studies.qop2007.measurements import AUTHENTICATION, FOREIGN
from studies.qop2007.phases import EXCHANGES

#: Components of the authentication time in order, at home before away.
COMPONENTS = tuple(f"{name}_{place}" for place in ("home", "foreign")
                   for name in (*EXCHANGES, "eap", "mip_registration", "wireguard", "quic",
                                "mptcp", "ike"))
#: Phases in the order of a mobile node's progress, with the two lines of their headings. Phases of
#: one name are adjacent: 802.11 authentication and association are one short exchange.
_PHASES = {
    "scan": ("", "scan"), "authentication": ("", "802.11"), "association": ("", "802.11"),
    "dot1x": ("", "802.1X"), "four_way_handshake": ("", "4-way"), "dhcp": ("", "DHCP"),
    "slaac": ("", "SLAAC"),
    "agent_discovery":
    ("disco-", "very"), "registration": ("", "regist."), "wireguard": ("Wire-", "Guard"),
    "quic": ("", "QUIC"), "mptcp": ("", "MPTCP"), "ike": ("", "IKE"),
    "first_packet": ("first", "packet")}
#: Names of the phases in words, where there is room.
_PHASES_IN_WORDS = {
    "scan": "Scan", "authentication": "802.11 authentication, association",
    "association": "802.11 authentication, association", "dot1x": "802.1X (EAP, keys)",
    "four_way_handshake": "4-way handshake", "dhcp": "DHCP",
    "slaac": "SLAAC (IPv6 address)", "agent_discovery": "Agent discovery",
    "registration": "Mobile IP registration", "wireguard": "WireGuard handshake",
    "quic": "QUIC handshake", "mptcp": "MPTCP handshake", "ike": "IKE",
    "first_packet": "First answered packet"}
_COMPONENTS = {"eap": "EAP", "mip_registration": "MIP", "wireguard": "WG", "quic": "QUIC",
               "mptcp": "MPTCP", "ike": "IKE",
               **{name: name.upper() for name in EXCHANGES}}
_PLACES = {"home": "home", "foreign": "away"}


def phase_heading(name: str) -> tuple[str, str]:
    """Return the column heading of a phase, in two lines."""
    return _PHASES.get(name, ("", name.replace("_", " ")))


def phase_in_words(name: str) -> str:
    """Return the name of a phase for a figure's legend."""
    return _PHASES_IN_WORDS.get(name, name.replace("_", " ").capitalize())


def component_heading(name: str) -> tuple[str, str]:
    """Return the column heading of a part of the authentication time, in two lines."""
    what, _, place = name.rpartition("_")
    if what in _COMPONENTS and place in _PLACES:
        return _COMPONENTS[what], _PLACES[place]
    return "", name.replace("_", " ")


def component_label(name: str) -> str:
    """Return the name of a part of the authentication time for a figure, on one line."""
    return " ".join(part for part in component_heading(name) if part)


def component_phases(name: str) -> tuple[str, ...]:
    """Return the phases that make up a part of the authentication time, such as EAP."""
    what, _, place = name.rpartition("_")
    parts = {"eap": ("dot1x", "four_way_handshake"), "ike": ("ike",), "wireguard": ("wireguard",),
             "quic": ("quic",), "mptcp": ("mptcp",),
             "mip_registration": ("agent_discovery", "registration"), **EXCHANGES}.get(what, ())
    return tuple((FOREIGN if place == "foreign" else "") + part for part in parts)


def phase_names(frame: Frame, prefix: str = "phase_") -> tuple[str, ...]:
    """Return the phases that occur in a run's data, in the order of time.

    Phases at home come before those in the visited network. An unknown phase comes before
    `first_packet`, which always ends an authentication.

    Args:
        frame: the data of the run, one row per repetition.
        prefix: `phase_` for authentications, `handoff_` for handoffs.
    """
    names = [column[len(prefix):-len("_duration_s")] for column in frame.columns
             if column.startswith(prefix) and column.endswith("_duration_s")]
    rank = {name: number for number, name in enumerate(_PHASES)}

    def place(name: str) -> tuple[bool, float, str]:
        plain = name.removeprefix(FOREIGN)
        return name != plain, rank.get(plain, rank["first_packet"] - 0.5), name

    return tuple(sorted(names, key=place))


def component_names(frame: Frame) -> tuple[str, ...]:
    """Return the parts of the authentication time that occur in the data, unknown ones last."""
    names = [column[len("component_"):-len("_s")] for column in frame.columns
             if column.startswith("component_")]
    rank = {name: number for number, name in enumerate(COMPONENTS)}
    return tuple(sorted(names, key=lambda name: (rank.get(name, len(rank)), name)))


# --- Components in the comparison of real and virtual time ---

def component_parts(cells: Cells) -> list[MetricPart]:
    """Return the parts of the authentication time, such as EAP or IKE.

    Each part lists the cells (policy in scenario) whose authentication time includes it.
    """
    return [MetricPart(AUTHENTICATION, f"component_{name}_s", component_label(name), frozenset(
        ids for ids in cells.results.cells
        if any(name in text.split("+") for text in cells.find_words("authentication_sum", ids))))
        for name in component_names(cells.results.frame)]
