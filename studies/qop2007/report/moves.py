"""Moves as traffic felt them: how a node moved on, by which frames, and the gap in a stream."""

from __future__ import annotations

from collections.abc import Iterator

from analysis.cells import Cells, Ids, Observation
from analysis.numbers import NOTHING, of_value
from analysis.table import Column, Entry, Table
from measure.moves import ANEW
from studies.qop2007.metrics import HANDOFF, LOST, OUTAGE
from studies.qop2007.report.basis import Basis
from studies.qop2007.report.entries import NAME, POLICY

#: Phases of getting to another access point whose frames are counted.
_LINK_PHASES = ("authentication", "association", "dot1x", "four_way_handshake")
_WAYS = {ANEW: "in full", "ft": "fast transition, keys pushed",
         "ft-pull": "fast transition, keys fetched", "okc": "opportunistic key caching",
         "pmksa": "key of an earlier visit", "fils": "FILS with a cached key"}
_MOBILE_IP, _SAME_SUBNET = "Mobile IP", "none needed"
_DIRECTIONS = {"up": "from the node", "down": "to the node"}


def tables(cells: Cells, basis: Basis) -> Iterator[Table]:
    """One table of all moves over which a stream went; none where there was no such stream."""
    members = [(section, [ids for ids in cells_there if isinstance(
        cells.value(OUTAGE.name, ids), Observation)])
        for section, cells_there in cells.sections.items()]
    if not any(there for _, there in members):
        return
    rows: list[tuple[Entry, ...]] = []
    sections: list[tuple[int, str]] = []
    for section, there in members:
        if there:
            sections.append((len(rows), cells.heading(section)))
            rows += [_row(cells, basis, ids) for ids in there]
    yield Table(
        "moves", "Moves, by what a stream lost", _COLUMNS, tuple(rows),
        "A datagram each few milliseconds, both ways, from before the order to move until after "
        "the first answered packet: the longest time between two arrivals, and what never arrived.",
        _NOTES, tuple(sections))


_NOTES = (
    ("Frames are those of 802.11's authentication and association, EAP and handshakes at the new "
     "access point. The outage is the gap of the worse direction; its smallest value is the "
     "stream's own interval."),
    ("Layer 3 is what makes packets find the node: nothing new within a subnet, a registration "
     "with an agent between subnets, where keys do not follow: all is negotiated in full."))
_COLUMNS = (
    POLICY, NAME, Column("move_link", "Link"), Column("move_network", "Layer 3"),
    Column("move_frames", "Frames", digits=0),
    Column(HANDOFF.name, HANDOFF.sentence, HANDOFF.unit, HANDOFF.scale),
    Column(OUTAGE.name, OUTAGE.sentence, OUTAGE.unit, OUTAGE.scale),
    *(Column(f"outage_{way}_s", words, OUTAGE.unit, OUTAGE.scale, group="Gap")
      for way, words in _DIRECTIONS.items()),
    Column(LOST.name, "Lost", "packets"))


def _row(cells: Cells, basis: Basis, ids: Ids) -> tuple[Entry, ...]:
    policy = next((each for each in basis.policies if each.id == ids[0]), None)
    between = isinstance(cells.value("handoff_registration_packets", ids), Observation)
    link = policy.definition.layers.link if policy and policy.definition else None
    way = ANEW if between or link is None else link.roaming or ANEW
    return (Entry(ids[0]), Entry(policy.name if policy else ""), Entry(_WAYS[way]),
            Entry(_MOBILE_IP if between else _SAME_SUBNET), _frames(cells, ids),
            *(of_value(cells.value(name, ids)) for name in (
                HANDOFF.name, OUTAGE.name, *(f"outage_{way}_s" for way in _DIRECTIONS),
                LOST.name)))


def _frames(cells: Cells, ids: Ids) -> Entry:
    """The mean number of frames of the phases that took place."""
    counts = [value for phase in _LINK_PHASES if isinstance(
        value := cells.value(f"handoff_{phase}_packets", ids), Observation)]
    return Entry(f"{sum(value.estimate.mean for value in counts):g}") if counts else NOTHING
