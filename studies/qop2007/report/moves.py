"""Moves and their effect on traffic: mechanism, frames and the stream's gap."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from analysis.cells import Cells, Ids, Observation
from analysis.numbers import NOTHING, exact_entry, value_entry
from analysis.results import Results
from analysis.table import Column, Entry, Table
from measure.moves import ANEW
from policies.layers import MOBIKE, MOBILE_IP, WIREGUARD
from studies.qop2007 import matrix
from studies.qop2007.metrics import HANDOFF, LOST, OUTAGE
from studies.qop2007.report.basis import Basis, ScoredPolicy
from studies.qop2007.report.entries import NAME, POLICY
from studies.qop2007.report.from_run import scenario_of

#: Phases of joining another access point whose frames are counted.
_LINK_PHASES = ("authentication", "association", "dot1x", "four_way_handshake")
_IN_FULL = "in full"
_WAYS = {ANEW: _IN_FULL, "ft": "fast transition, keys pushed",
         "ft-pull": "fast transition, keys fetched", "okc": "opportunistic key caching",
         "pmksa": "key of an earlier visit", "fils": "FILS with a cached key"}
_SAME_SUBNET = "none needed"
_TUNNELS = {MOBILE_IP: "Mobile IP", MOBIKE: "MOBIKE", WIREGUARD: "WireGuard's own"}
_MADE_BY_EACH = "fast transition, keys made by each"
_UNSAID = replace(NOTHING, note="the results folder does not say how the node moves")
#: Fields of the link layer that decide how a node moves.
_OF_MOVING = ("roaming", "akm")
_DIRECTIONS = {"up": "from the node", "down": "to the node"}


@dataclass(frozen=True)
class Move:
    """Way of a cell's node to move: on the link, and on layer 3."""

    link: str
    network: str


def move_tables(cells: Cells, basis: Basis) -> Iterator[Table]:
    """Yield the tables of moves during streams, and of link and layer 3 combined.

    There are none without such a move.
    """
    members = [(section, [ids for ids in cells_there if isinstance(
        cells.value(OUTAGE.name, ids), Observation)])
        for section, cells_there in cells.sections.items()]
    members = [(section, there) for section, there in members if there]
    if not members:
        return
    policies = {policy.id: policy for policy in basis.policies}
    moves = {ids: _find_move(cells.results, policies.get(ids[0]), ids[1])
             for _, there in members for ids in there}
    rows: list[tuple[Entry, ...]] = []
    sections: list[tuple[int, str]] = []
    for section, there in members:
        sections.append((len(rows), cells.section_heading(section)))
        rows += [_move_entries(cells, policies.get(ids[0]), moves[ids], ids) for ids in there]
    yield Table(
        "moves", "Moves, by what a stream lost", _COLUMNS, tuple(rows),
        "A datagram each few milliseconds, both ways, from before the order to move until after "
        "the first answered packet: the longest time between two arrivals, and what never arrived.",
        _NOTES, tuple(sections))
    if any(moves.values()):
        yield _crossed_table(cells, basis, members, moves)


def _crossed_table(cells: Cells, basis: Basis, members: Sequence[tuple[Ids, Sequence[Ids]]],
                   moves: Mapping[Ids, Move | None]) -> Table:
    """Build the table of the shortest outages, by moves of the link and of layer 3.

    Below each way to move stands a row of moves with full authentication. Its policies differ from
    those above only in how they move.
    """
    networks = [_SAME_SUBNET, *_TUNNELS.values()]
    families = {policy.id: _settings_key(policy) for policy in basis.policies}
    links = {policy.id: _settings_key(policy, ("link", "dot1x")) for policy in basis.policies}
    rows: list[tuple[Entry, ...]] = []
    sections: list[tuple[int, str]] = []
    for section, there in members:
        if any(moves[ids] for ids in there):
            sections.append((len(rows), cells.section_heading(section)))
        by_move = {(link, network): [ids for ids in there if moves[ids] == Move(link, network)]
                   for link in (*_WAYS.values(), _MADE_BY_EACH) for network in networks}
        others = [link for link in dict.fromkeys(link for link, _ in by_move) if link != _IN_FULL]
        compared = {network for link, network in by_move
                    if link != _IN_FULL and by_move[link, network]}
        for link in others:
            chosen = _choose_cells(cells, links, [by_move[link, network] for network in networks])
            alike = [[ids for ids in by_move[_IN_FULL, network] if best is not None
                      and families.get(ids[0]) == families.get(best[0])]
                     for best, network in zip(chosen, networks, strict=True)]
            rows += _crossed_rows(cells, link, chosen)
            rows += _crossed_rows(cells, f"{_IN_FULL}, the same otherwise",
                                  [_shortest_outage(cells, same) for same in alike])
        rows += _crossed_rows(cells, _IN_FULL, _choose_cells(cells, links, [
            [] if network in compared else by_move[_IN_FULL, network] for network in networks]))
    columns = (Column("move_link", "Link"), *(
        Column(f"{OUTAGE.name}_{number}", network, OUTAGE.unit, OUTAGE.scale, group="Layer 3")
        for number, network in enumerate(networks)))
    return Table("moves-crossed", "Outages, by how the link and how layer 3 moves", columns,
                 tuple(rows), "The shortest outage of the policies that move so, and which one "
                 "that is, of one link layer for all columns where there is one; below it, a "
                 "policy that is the same but moves in full.", _NOTES[1:], tuple(sections))


def _settings_key(policy: ScoredPolicy, names: Sequence[str] = ()) -> str:
    """Return a policy's settings on layers, without those on how its link moves.

    The layers are the named ones, or all.

    A way to move may have a key management of its own, which is left out, too. For unknown layers
    the result is the policy's id.
    """
    if policy.definition is None:
        return policy.id
    layers = policy.definition.layers.model_dump(mode="json")
    link = {name: value for name, value in (layers["link"] or {}).items()
            if name not in _OF_MOVING}
    return json.dumps({name: value for name, value in {**layers, "link": link}.items()
                       if not names or name in names}, sort_keys=True)


def _choose_cells(cells: Cells, links: Mapping[str, str],
                  of: Sequence[Sequence[Ids]]) -> list[Ids | None]:
    """Return the cell of the shortest outage for each column.

    All cells have the link layer that most columns have, so that columns compare how layer 3 moves.
    Of several such link layers, the one with the shortest outages is taken. A column without it has
    any link layer.
    """
    found: dict[str, list[Ids | None]] = {
        link: [_shortest_outage(cells, [ids for ids in column if links.get(ids[0]) == link])
               for column in of]
        for link in dict.fromkeys(links.get(ids[0], "") for column in of for ids in column)}
    anyway = [_shortest_outage(cells, column) for column in of]
    best = max(found.values(), key=lambda chosen: (
        sum(ids is not None for ids in chosen),
        sum(ids is not None and ids in anyway for ids in chosen)), default=anyway)
    return [ids or other for ids, other in zip(best, anyway, strict=True)]


def _crossed_rows(cells: Cells, link: str,
                  chosen: Sequence[Ids | None]) -> Iterator[tuple[Entry, ...]]:
    """Yield a row of outages, if there are any."""
    if any(chosen):
        yield Entry(link), *(NOTHING if ids is None else replace(
            value_entry(cells.value(OUTAGE.name, ids)), detail=ids[0]) for ids in chosen)


def _shortest_outage(cells: Cells, of: Sequence[Ids]) -> Ids | None:
    """Return the cell of the shortest outage."""
    values = {ids: value for ids in of
              if isinstance(value := cells.value(OUTAGE.name, ids), Observation)}
    return min(values, key=lambda ids: values[ids].estimate.mean, default=None)


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


def _find_move(results: Results, policy: ScoredPolicy | None, scenario_id: str) -> Move | None:
    """Return how a policy moves in a scenario, or None if the folder lacks either."""
    scenario = scenario_of(results, scenario_id)
    if policy is None or policy.definition is None or scenario is None:
        return None
    way = matrix.roaming_mode(policy.definition, scenario) or ANEW
    link = policy.definition.layers.link
    by_passphrase = way == "ft" and link is not None and link.keys == "psk"
    return Move(_MADE_BY_EACH if by_passphrase else _WAYS[way],
                _SAME_SUBNET if scenario.foreign_agent is None else
                _TUNNELS[policy.definition.layers.mobility])


def _move_entries(cells: Cells, policy: ScoredPolicy | None, move: Move | None,
                  ids: Ids) -> tuple[Entry, ...]:
    ways = (Entry(move.link), Entry(move.network)) if move else (_UNSAID, _UNSAID)
    return (Entry(ids[0]), Entry(policy.name if policy else ""), *ways, _frames_entry(cells, ids),
            *(value_entry(cells.value(name, ids)) for name in (
                HANDOFF.name, OUTAGE.name, *(f"outage_{way}_s" for way in _DIRECTIONS),
                LOST.name)))


def _frames_entry(cells: Cells, ids: Ids) -> Entry:
    """Return the mean number of frames of the phases that took place."""
    counts = [value for phase in _LINK_PHASES if isinstance(
        value := cells.value(f"handoff_{phase}_packets", ids), Observation)]
    return exact_entry(sum(value.estimate.mean for value in counts)) if counts else NOTHING
