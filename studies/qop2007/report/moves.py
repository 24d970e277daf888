"""Moves as traffic felt them: how a node moved on, by which frames, and the gap in a stream."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from analysis.cells import Cells, Ids, Observation
from analysis.numbers import NOTHING, exact, of_value
from analysis.results import Results
from analysis.table import Column, Entry, Table
from measure.moves import ANEW
from policies.layers import MOBIKE, MOBILE_IP, WIREGUARD
from studies.qop2007 import matrix
from studies.qop2007.metrics import HANDOFF, LOST, OUTAGE
from studies.qop2007.report.basis import Basis, ScoredPolicy
from studies.qop2007.report.entries import NAME, POLICY
from studies.qop2007.report.from_run import scenario_of

#: Phases of getting to another access point whose frames are counted.
_LINK_PHASES = ("authentication", "association", "dot1x", "four_way_handshake")
_WAYS = {ANEW: "in full", "ft": "fast transition, keys pushed",
         "ft-pull": "fast transition, keys fetched", "okc": "opportunistic key caching",
         "pmksa": "key of an earlier visit", "fils": "FILS with a cached key"}
_SAME_SUBNET = "none needed"
_TUNNELS = {MOBILE_IP: "Mobile IP", MOBIKE: "MOBIKE", WIREGUARD: "WireGuard's own"}
_MADE_BY_EACH = "fast transition, keys made by each"
_UNSAID = replace(NOTHING, note="the results folder does not say how the node moves")
_DIRECTIONS = {"up": "from the node", "down": "to the node"}


@dataclass(frozen=True)
class Move:
    """How a cell's node moves on: on the link, and by what packets find it where it is then."""

    link: str
    network: str


def tables(cells: Cells, basis: Basis) -> Iterator[Table]:
    """All moves over which a stream went, and ways to move by each other; none without one."""
    members = [(section, [ids for ids in cells_there if isinstance(
        cells.value(OUTAGE.name, ids), Observation)])
        for section, cells_there in cells.sections.items()]
    members = [(section, there) for section, there in members if there]
    if not members:
        return
    policies = {policy.id: policy for policy in basis.policies}
    moves = {ids: _move(cells.results, policies.get(ids[0]), ids[1])
             for _, there in members for ids in there}
    rows: list[tuple[Entry, ...]] = []
    sections: list[tuple[int, str]] = []
    for section, there in members:
        sections.append((len(rows), cells.heading(section)))
        rows += [_row(cells, policies.get(ids[0]), moves[ids], ids) for ids in there]
    yield Table(
        "moves", "Moves, by what a stream lost", _COLUMNS, tuple(rows),
        "A datagram each few milliseconds, both ways, from before the order to move until after "
        "the first answered packet: the longest time between two arrivals, and what never arrived.",
        _NOTES, tuple(sections))
    if any(moves.values()):
        yield _crossed(cells, members, moves)


def _crossed(cells: Cells, members: Sequence[tuple[Ids, Sequence[Ids]]],
             moves: Mapping[Ids, Move | None]) -> Table:
    """The shortest outage by each way to move on a link and each to be found by packets."""
    networks = [_SAME_SUBNET, *_TUNNELS.values()]
    rows: list[tuple[Entry, ...]] = []
    sections: list[tuple[int, str]] = []
    for section, there in members:
        if any(moves[ids] for ids in there):
            sections.append((len(rows), cells.heading(section)))
        for link in dict.fromkeys([*_WAYS.values(), _MADE_BY_EACH]):
            row = [_shortest(cells, [ids for ids in there if moves[ids] == Move(link, network)])
                   for network in networks]
            if any(entry != NOTHING for entry in row):
                rows.append((Entry(link), *row))
    columns = (Column("move_link", "Link"), *(
        Column(f"{OUTAGE.name}_{number}", network, OUTAGE.unit, OUTAGE.scale, group="Layer 3")
        for number, network in enumerate(networks)))
    return Table("moves-crossed", "Outages, by how the link and how layer 3 moves", columns,
                 tuple(rows), "The shortest outage of the policies that move so, and which one "
                 "that is.", _NOTES[1:], tuple(sections))


def _shortest(cells: Cells, of: Sequence[Ids]) -> Entry:
    values = {ids: value for ids in of
              if isinstance(value := cells.value(OUTAGE.name, ids), Observation)}
    if not values:
        return NOTHING
    best = min(values, key=lambda ids: values[ids].estimate.mean)
    return replace(of_value(values[best]), detail=best[0])


_NOTES = (
    ("Frames are those of 802.11's authentication and association, EAP and handshakes at the new "
     "access point. The outage is the gap of the worse direction; its smallest value is the "
     "stream's own interval."),
    ("Layer 3 is what makes packets find the node: nothing new within a subnet; between subnets a "
     "registration with an agent, or the node's tunnel, which goes on from an address there (it is "
     "there at once: no DHCP is asked). Keys do not follow past a router, but for those that each "
     "access point makes of the passphrase."))
_COLUMNS = (
    POLICY, NAME, Column("move_link", "Link"), Column("move_network", "Layer 3"),
    Column("move_frames", "Frames", digits=0),
    Column(HANDOFF.name, HANDOFF.sentence, HANDOFF.unit, HANDOFF.scale),
    Column(OUTAGE.name, OUTAGE.sentence, OUTAGE.unit, OUTAGE.scale),
    *(Column(f"outage_{way}_s", words, OUTAGE.unit, OUTAGE.scale, group="Gap")
      for way, words in _DIRECTIONS.items()),
    Column(LOST.name, "Lost", "packets"))


def _move(results: Results, policy: ScoredPolicy | None, scenario_id: str) -> Move | None:
    """As the policy has it in the scenario; None where the folder does not say what they are."""
    scenario = scenario_of(results, scenario_id)
    if policy is None or policy.definition is None or scenario is None:
        return None
    way = matrix.roaming(policy.definition, scenario) or ANEW
    link = policy.definition.layers.link
    by_passphrase = way == "ft" and link is not None and link.keys == "psk"
    return Move(_MADE_BY_EACH if by_passphrase else _WAYS[way],
                _SAME_SUBNET if scenario.foreign_agent is None else
                _TUNNELS[policy.definition.layers.mobility])


def _row(cells: Cells, policy: ScoredPolicy | None, move: Move | None,
         ids: Ids) -> tuple[Entry, ...]:
    ways = (Entry(move.link), Entry(move.network)) if move else (_UNSAID, _UNSAID)
    return (Entry(ids[0]), Entry(policy.name if policy else ""), *ways, _frames(cells, ids),
            *(of_value(cells.value(name, ids)) for name in (
                HANDOFF.name, OUTAGE.name, *(f"outage_{way}_s" for way in _DIRECTIONS),
                LOST.name)))


def _frames(cells: Cells, ids: Ids) -> Entry:
    """The mean number of frames of the phases that took place."""
    counts = [value for phase in _LINK_PHASES if isinstance(
        value := cells.value(f"handoff_{phase}_packets", ids), Observation)]
    return exact(sum(value.estimate.mean for value in counts)) if counts else NOTHING
