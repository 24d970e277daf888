"""Build the report's tables of handoffs: method, number of frames, and the longest gap in a stream.

A handoff has a method on the 802.11 link (such as fast transition) and one on layer 3 (such as
Mobile IP). `move_tables` takes the measured values of a run, and yields tables of handoffs during a
stream.
`studies.qop2007.report` lists the terms.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from analysis.cells import Cells, Ids, Observation
from analysis.reporting.table_entries import MISSING_ENTRY, exact_entry, value_entry
from analysis.results import Results
from analysis.table import Column, Entry, Table
from measure.agent.workload import HANDOFF_FULL
from policies.layers import MOBIKE, MOBILE_IP, MPTCP, QUIC, WIREGUARD
from studies.qop2007 import cells
from studies.qop2007.measurements import HANDOFF, LOST, OUTAGE
from studies.qop2007.report.basis import NAME, POLICY, ReportBasis, ScoredPolicy, scenario_of

#: Phases of joining another access point whose frames are counted.
_LINK_PHASES = ("authentication", "association", "dot1x", "four_way_handshake")
IN_FULL = "in full"
_WAYS = {HANDOFF_FULL: IN_FULL, "ft": "fast transition, keys pushed",
         "ft-pull": "fast transition, keys fetched", "okc": "opportunistic key caching",
         "pmksa": "key of an earlier visit", "fils": "FILS with a cached key"}
_SAME_SUBNET = "none needed"
_TUNNELS = {MOBILE_IP: "Mobile IP", MOBIKE: "MOBIKE", WIREGUARD: "WireGuard's own",
            QUIC: "QUIC's own", MPTCP: "Multipath TCP"}
_MADE_BY_EACH = "fast transition, keys made by each"
#: Added to a fast transition over the DS.
_OVER_DS = ", over the DS"
#: All methods of the 802.11 link, in the order of the tables.
_LINKS = (*_WAYS.values(), _MADE_BY_EACH, *(
    words + _OVER_DS for words in (_WAYS["ft"], _WAYS["ft-pull"], _MADE_BY_EACH)))
_UNSAID = replace(MISSING_ENTRY, note="the results folder does not say how the node moves")
#: Fields of the link layer that decide how a node moves.
_OF_MOVING = ("roaming", "ft_over_ds", "akm")
_DIRECTIONS = {"up": "from the node", "down": "to the node"}


@dataclass(frozen=True)
class Move:
    """A handoff method: that of the 802.11 link, and that of layer 3."""

    link: str
    network: str


def move_tables(cells: Cells, basis: ReportBasis) -> Iterator[Table]:
    """Yield two tables of handoffs during a stream, or none if no stream ran.

    The first has a row per policy. The second compares link methods with layer 3 methods.
    """
    members = [(section, [ids for ids in cells_there if isinstance(
        cells.value(OUTAGE.name, ids), Observation)])
        for section, cells_there in cells.sections.items()]
    members = [(section, there) for section, there in members if there]
    if not members:
        return
    policies = {policy.id: policy for policy in basis.policies}
    moves = {ids: find_move(cells.results, policies.get(ids[0]), ids[1])
             for _, there in members for ids in there}
    rows: list[tuple[Entry, ...]] = []
    sections: list[tuple[int, str]] = []
    for section, there in members:
        sections.append((len(rows), cells.section_heading(section)))
        rows += [_move_entries(cells, policies.get(ids[0]), moves[ids], ids) for ids in there]
    yield Table(
        "moves", "Handoffs and their effect on a stream", _COLUMNS, tuple(rows),
        "A datagram is sent every few milliseconds in both directions, from before the handoff "
        "until after the first answered packet. The table shows the longest time between two "
        "arrivals, and how many never arrived.",
        _NOTES, tuple(sections))
    if any(moves.values()):
        yield _crossed_table(cells, basis, members, moves)


def _crossed_table(cells: Cells, basis: ReportBasis, members: Sequence[tuple[Ids, Sequence[Ids]]],
                   moves: Mapping[Ids, Move | None]) -> Table:
    """Build the table of the shortest outages: link methods as rows, layer 3 methods as columns.

    Below each fast handoff method stands a row of handoffs with full authentication. Their policies
    differ from those above only in the method.
    """
    networks = [_SAME_SUBNET, *_TUNNELS.values()]
    families = {policy.id: settings_key(policy) for policy in basis.policies}
    links = {policy.id: settings_key(policy, ("link", "dot1x")) for policy in basis.policies}
    rows: list[tuple[Entry, ...]] = []
    sections: list[tuple[int, str]] = []
    for section, there in members:
        if any(moves[ids] for ids in there):
            sections.append((len(rows), cells.section_heading(section)))
        by_move = {(link, network): [ids for ids in there if moves[ids] == Move(link, network)]
                   for link in _LINKS for network in networks}
        others = [link for link in dict.fromkeys(link for link, _ in by_move) if link != IN_FULL]
        compared = {network for link, network in by_move
                    if link != IN_FULL and by_move[link, network]}
        for link in others:
            chosen = _choose_cells(cells, links, [by_move[link, network] for network in networks])
            alike = [[ids for ids in by_move[IN_FULL, network] if best is not None
                      and families.get(ids[0]) == families.get(best[0])]
                     for best, network in zip(chosen, networks, strict=True)]
            rows += _crossed_rows(cells, link, chosen)
            rows += _crossed_rows(cells, f"{IN_FULL}, the same otherwise",
                                  [_shortest_outage(cells, same) for same in alike])
        rows += _crossed_rows(cells, IN_FULL, _choose_cells(cells, links, [
            [] if network in compared else by_move[IN_FULL, network] for network in networks]))
    columns = (Column("move_link", "Link"), *(
        Column(f"{OUTAGE.name}_{number}", network, OUTAGE.unit, OUTAGE.scale, group="Layer 3")
        for number, network in enumerate(networks)))
    return Table("moves-crossed", "Outages, by how the link and how layer 3 moves", columns,
                 tuple(rows), "The shortest outage of the policies that move so, and which one "
                 "that is, of one link layer for all columns where there is one; below it, a "
                 "policy that is the same but moves in full.", _NOTES[1:], tuple(sections))


def settings_key(policy: ScoredPolicy, names: Sequence[str] = ()) -> str:
    """Return a policy's settings as text for comparison, without its handoff method.

    A handoff method may need another key management (AKM), which is left out, too. If the layers of
    the policy are unknown, the result is its id.

    Args:
        policy: the policy.
        names: layers to include. None given means all.
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
    """Choose for each layer 3 method the policy and scenario with the shortest outage.

    The chosen policies have equal link layers if possible, so that the columns differ only in layer
    3. Of several such link layers, the one with the shortest outages is used.
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
    """Yield a table row of outages, unless all of its entries are missing."""
    if any(chosen):
        yield Entry(link), *(MISSING_ENTRY if ids is None else replace(
            value_entry(cells.value(OUTAGE.name, ids)), detail=ids[0]) for ids in chosen)


def _shortest_outage(cells: Cells, of: Sequence[Ids]) -> Ids | None:
    """Return the policy and scenario with the shortest mean outage, or None."""
    values = {ids: value for ids in of
              if isinstance(value := cells.value(OUTAGE.name, ids), Observation)}
    return min(values, key=lambda ids: values[ids].estimate.mean, default=None)


_NOTES = (
    ("Frames are those of 802.11's authentication and association, EAP and handshakes at the new "
     "access point. The outage is the gap of the worse direction; its smallest value is the "
     "stream's own interval."),
    ("Layer 3 delivers packets to the node. Within a subnet nothing is needed. Between subnets "
     "the node registers with an agent, or its tunnel continues from an address there (which it "
     "has at once, without DHCP). Keys do not follow past a router, except those that each access "
     "point derives from the passphrase."))
_COLUMNS = (
    POLICY, NAME, Column("move_link", "Link"), Column("move_network", "Layer 3"),
    Column("move_frames", "Frames", digits=0),
    Column(HANDOFF.name, HANDOFF.sentence, HANDOFF.unit, HANDOFF.scale),
    Column(OUTAGE.name, OUTAGE.sentence, OUTAGE.unit, OUTAGE.scale),
    *(Column(f"outage_{way}_s", words, OUTAGE.unit, OUTAGE.scale, group="Gap")
      for way, words in _DIRECTIONS.items()),
    Column(LOST.name, "Lost", "packets"))


def find_move(results: Results, policy: ScoredPolicy | None, scenario_id: str) -> Move | None:
    """Return the handoff method of a policy in a scenario, or None if the plan lacks either."""
    scenario = scenario_of(results, scenario_id)
    if policy is None or policy.definition is None or scenario is None:
        return None
    way = cells.roaming_mode(policy.definition, scenario) or HANDOFF_FULL
    link = policy.definition.layers.link
    by_passphrase = way == "ft" and link is not None and link.keys == "psk"
    over_ds = cells.moves_over_ds(policy.definition, scenario)
    return Move((_MADE_BY_EACH if by_passphrase else _WAYS[way]) + _OVER_DS * over_ds,
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
    """Return the mean number of 802.11, EAP and handshake frames of a handoff."""
    counts = [value for phase in _LINK_PHASES if isinstance(
        value := cells.value(f"handoff_{phase}_packets", ids), Observation)]
    return exact_entry(sum(value.estimate.mean for value in counts)) if counts else MISSING_ENTRY
