"""Say and tabulate how long users wait for a connection and for a move to another access point.

Both times end with the first answered packet. They are the answer of a run whose scenarios all have
DHCP, where the time until a station has an address is part of the wait. `waits_table` has a row per
policy and two columns per scenario. `describe_waits` compares the policies with the baseline in
sentences, in the scenario where the baseline waits longest. `studies.qop2007.report` lists the
terms.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from analysis import statistics
from analysis.cells import Cells, Ids
from analysis.metrics import Metric
from analysis.present.entries import format_entry
from analysis.reporting.answer import explain_unproven, format_range
from analysis.reporting.significance import SignificanceDecision
from analysis.reporting.table_entries import MISSING_ENTRY, estimate_entry, value_entry
from analysis.statistics import Estimate
from analysis.table import Column, Entry, Table, count_noun
from studies.qop2007.measurements import CONNECTION, HANDOFF, STREAMS
from studies.qop2007.report.basis import NAME, POLICY, ReportBasis
from studies.qop2007.report.moves import IN_FULL, find_move, settings_key

#: Waits of users: key and title of a table column, what takes the time, and the metric.
_WAITS = (("connection", "connect", "Connecting", CONNECTION),
          ("handoff", "move", "Moving", HANDOFF))
#: Short names for sentences of methods of moves.
_METHODS = {"opportunistic key caching": "OKC", "fast transition, keys pushed": "fast transition"}
#: Differences in a list of a sentence; the table has the others.
_MAX_ITEMS = 8
#: Half of an interval in units, below which a time gets a decimal.
_WHOLE = 0.5


def waits_table(cells: Cells, basis: ReportBasis) -> Iterator[Table]:
    """Yield a table of how long users wait, with a row per policy and columns per scenario.

    There is none where no policy has a connection time, which is measured with DHCP only.
    """
    names = {policy.id: policy.name for policy in basis.policies}
    members = _find_members(cells)
    if not members:
        return
    # Parts of a millisecond matter to no user, and without them the names have room.
    columns = (POLICY, NAME, *(
        Column(f"{key}_{number}_s", words, metric.unit, metric.scale, 0, group=section[0])
        for number, section in enumerate(members) for key, words, _, metric in _WAITS))
    policies = dict.fromkeys(policy for there in members.values() for policy in there)
    rows = tuple((Entry(policy), Entry(names.get(policy, "")), *(
        value_entry(cells.value(metric.name, there[policy])) if policy in there else MISSING_ENTRY
        for there in members.values() for *_, metric in _WAITS)) for policy in policies)
    yield Table("waits", "How long users wait", columns, rows,
                "To connect: from the order to connect to the first answered packet, with scan, "
                "authentication and DHCP. To move: from leaving one access point to the first "
                "answered packet at the other.")


def are_answer(cells: Cells) -> bool:
    """Return whether waits are what a run is about: each of its scenarios has connection times."""
    return len(_find_members(cells)) == len(cells.sections)


def _find_members(cells: Cells) -> dict[Ids, dict[str, Ids]]:
    """Return the cells of each scenario with connection times, by policy."""
    return {section: {ids[0]: ids for ids in there} for section, there in cells.sections.items()
            if any(cells.find_value(CONNECTION.name, ids) for ids in there)}


def describe_waits(cells: Cells, basis: ReportBasis,
                   decisions: Sequence[SignificanceDecision]) -> Iterator[str]:
    """Yield sentences on the waits of the policies against the baseline.

    The first one says which policies are slower, in any scenario. Then follows one for each wait,
    in the scenario where the baseline connects last. There are none without a baseline.
    """
    by_scenario = [there for section, members in _find_members(cells).items() if (there := [
        comparison for *_, taking, metric in _WAITS if (comparison := _compare_policies(
            cells, basis, decisions, f"{taking} in {', '.join(section)}", members, metric))])]
    if not by_scenario:
        return
    shown = max(by_scenario, key=lambda there: there[0].value.mean)
    yield _describe_slower(decisions, shown[0].baseline)
    for comparison in shown:
        yield comparison.to_sentence()
    yield from explain_unproven([decision for comparison in shown
                                 for decision in comparison.undecided])
    rates = [f"{metric.title} {format_range(cells, metric, cells.results.cells)} {metric.unit}"
             for metric in STREAMS.values()
             if any(cells.find_value(metric.name, ids) for ids in cells.results.cells)]
    if rates:
        yield f"Means of all policies and scenarios: {', '.join(rates)}."


def _describe_slower(decisions: Sequence[SignificanceDecision], baseline: str) -> str:
    """Return a sentence with the policies that are proven to wait longer than the baseline."""
    slower = [f"{taking.lower()} with {decision.ids[0]} in {', '.join(decision.section)} "
              f"by {_format_time(decision.comparison.difference, metric)} {metric.unit}"
              for *_, taking, metric in _WAITS for decision in decisions
              if decision.metric is metric and decision.outcome == "different"
              and decision.comparison.difference.mean > 0]
    if not slower:
        return f"No policy is proven to connect or to move more slowly than {baseline}."
    if len(slower) > _MAX_ITEMS:
        slower[_MAX_ITEMS:] = [f"{len(slower) - _MAX_ITEMS} more in the tables of differences"]
    return f"Proven slower than {baseline}: {', '.join(slower)}."


@dataclass(frozen=True)
class _Group:
    """Policies that are compared as one: a single policy, or all that move by one method."""

    members: tuple[str, ...]
    method: str = ""

    def to_text(self) -> str:
        """Return the words that name the group in a sentence."""
        if len(self.members) == 1:
            return self.members[0]
        method = _METHODS.get(self.method, self.method)
        return f"{method} ({count_noun(len(self.members), 'policy', 'policies')}, on average)"


#: How much a group's time differs from the baseline's.
_Difference: TypeAlias = tuple[Estimate, _Group]


@dataclass(frozen=True)
class _Comparison:
    """A wait in one scenario: with the baseline, and how much less or more with others."""

    taking: str
    metric: Metric
    baseline: str
    value: Estimate
    proven: Sequence[_Difference]
    unproven: Sequence[_Difference]
    #: Decisions that a policy does not differ for sure, for groups of a single policy.
    undecided: Sequence[SignificanceDecision]

    def to_sentence(self) -> str:
        """Return the comparison as a sentence, with the largest gain first."""
        value = f"{_format_time(self.value, self.metric)} {self.metric.unit}"
        parts = [f"{self.taking} takes {value} with {self.baseline}"]
        if self.proven:
            parts.append(self._list_differences(self.proven))
        if self.unproven:
            parts.append(f"not proven: {self._list_differences(self.unproven)}")
        return f"{'; '.join(parts)}."

    def _list_differences(self, differences: Sequence[_Difference]) -> str:
        """Return differences in words, with the unit and the direction where this changes."""
        items, direction = [], ""
        for estimate, group in sorted(differences, key=lambda pair: pair[0].mean)[:_MAX_ITEMS]:
            before, direction = direction, "more" if estimate.mean > 0 else "less"
            words = "" if direction == before else f" {self.metric.unit} {direction}"
            items.append(f"{_format_time(estimate, self.metric)}{words} with {group.to_text()}")
        if len(differences) > _MAX_ITEMS:
            items.append(f"{len(differences) - _MAX_ITEMS} more in the table")
        return ", ".join(items)


def _format_time(estimate: Estimate, metric: Metric) -> str:
    """Return a time or the size of a difference, with its interval and without the unit."""
    half = estimate.half_width
    digits = 0 if half is None or half * metric.scale >= _WHOLE else 1
    text = format_entry(estimate_entry(estimate.scale(1 if estimate.mean >= 0 else -1)),
                        Column("", "", scale=metric.scale, digits=digits))
    return f"{text.main} {text.spread}".strip().replace(" ", "\N{NO-BREAK SPACE}")


def _compare_policies(cells: Cells, basis: ReportBasis, decisions: Sequence[SignificanceDecision],
                      taking: str, planned: Mapping[str, Ids], metric: Metric
                      ) -> _Comparison | None:
    """Compare the policies of a scenario with the baseline, or return None without its value."""
    values = {policy: value for policy, ids in planned.items()
              if (value := cells.find_value(metric.name, ids))}
    by_policy = {policy: planned[policy] for policy in values}
    base = next((policy for policy, ids in by_policy.items()
                 if cells.baseline.is_baseline(cells.results, ids)), "")
    if not base:
        return None
    decided = {decision.ids: decision for decision in decisions if decision.metric is metric}
    proven: list[_Difference] = []
    unproven: list[_Difference] = []
    undecided: list[SignificanceDecision] = []
    for group in _group_policies(cells, basis, by_policy, base, metric):
        members = [by_policy[policy] for policy in group.members]
        difference = _find_difference(cells, metric, members, by_policy[base])
        if difference is None:
            continue
        if len(members) == 1:
            decision = decided.get(members[0])
            is_proven = decision is not None and decision.outcome == "different"
            undecided += [decision] if decision and not is_proven else []
        else:
            is_proven = difference.half_width is not None and not difference.spans_zero
        (proven if is_proven else unproven).append((difference, group))
    return _Comparison(taking, metric, base, values[base].estimate, proven, unproven, undecided)


def _group_policies(cells: Cells, basis: ReportBasis, by_policy: Mapping[str, Ids], base: str,
                    metric: Metric) -> Iterator[_Group]:
    """Yield the policies to compare with the baseline, those together that need not be told apart.

    A move without a full authentication depends on its method alone. Before the first move, the
    method changes nothing, so one of the policies that are equal otherwise is enough.
    """
    policies = {policy.id: policy for policy in basis.policies}
    methods = {policy: move.link for policy, ids in by_policy.items()
               if (move := find_move(cells.results, policies.get(policy), ids[1]))
               and move.link != IN_FULL}
    others = [policy for policy in by_policy if policy != base]
    if metric is HANDOFF:
        for method in dict.fromkeys(map(methods.get, others)):
            members = tuple(policy for policy in others if methods.get(policy) == method)
            yield from [_Group(members, method)] if method else [
                _Group((policy,)) for policy in members]
        return
    known = {settings_key(policies[base])}
    for policy in sorted(others, key=methods.__contains__):  # moves in full first
        if (key := settings_key(policies[policy])) not in known:
            known.add(key)
            yield _Group((policy,))


def _find_difference(cells: Cells, metric: Metric, members: Sequence[Ids],
                     baseline: Ids) -> Estimate | None:
    """Return the members' mean less the baseline, with the interval of differences within blocks.

    The result is None without a block that all have.
    """
    base, *values = (cells.values_by_block(metric.name, ids) for ids in (baseline, *members))
    common = sorted(base.keys() & set.intersection(*(set(each) for each in values)))
    if not common:
        return None
    return statistics.mean(sum(each[block] for each in values) / len(values) - base[block]
                           for block in common)
