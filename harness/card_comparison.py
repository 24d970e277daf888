"""Compare logins and roams of a card with those of an emulated network, phase by phase.

`compare_folders` takes two results folders, of which one or both are of `qop measure`. Those of
`qop run` are read from their captures, as `qop explain` does. Logins and roams of the same policy
are compared. It returns a table for each such pair, with the difference of every phase, and lines
that name the phase with the largest difference.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from analysis import statistics
from analysis.reporting.comparison import correct_p_values, describe_significant_count
from analysis.reporting.significance import SIGNIFICANT
from analysis.reporting.table_entries import P_COLUMN, estimate_entry, p_value_entry
from analysis.statistics import Comparison
from analysis.table import Column, Entry, Table
from harness.errors import UserError
from measure.cards import results
from measure.explain.messages import POLICY_FIELDS
from measure.explain.references import explain_records
from measure.records.record import read_records

#: Name of the whole time in tables, beside those of phases.
_WHOLE_TITLE = "all, to the last key"
#: Fields of a policy that must agree. A station may offer PMF or not.
_EQUAL_FIELDS = ("akm", "cipher", "eap", "tls", "session")
#: Phases after joining, which are no part of the whole time.
_AFTER = frozenset({"scan", "first_packet", "group_key", "dhcp", "arp"})


@dataclass(frozen=True)
class _Group:
    """Logins or roams of one policy in a folder: where they were measured, and times by phase."""

    kind: str
    policy: Mapping[str, str]
    way: str
    place: str
    title: str
    times_s: Mapping[str, Sequence[float]]

    @property
    def sort_key(self) -> tuple[str, ...]:
        """Return kind, source of keys and policy fields, which must be equal for a comparison."""
        return (self.kind, self.way, *(self.policy[name] for name in _EQUAL_FIELDS))


@dataclass(frozen=True)
class _Pair:
    first: _Group
    second: _Group
    phases: Mapping[str, Comparison]


def is_card_folder(folder: Path) -> bool:
    """Return whether a results folder is of `qop measure`."""
    return (folder / results.FILE).is_file()


def compare_folders(folders: tuple[Path, Path], names: tuple[str, str],
                    correction: str) -> tuple[list[Table], list[str]]:
    """Return a table for each login or roam that both folders have, and lines of text.

    Args:
        folders: Two results folders, at least one of `qop measure`.
        names: Names of the folders in tables.
        correction: Method of correction, as in `analysis.reporting.comparison`.

    Raises:
        UserError: The folders have no login or roam of the same policy.
        MeasureError: A record or capture cannot be read.
    """
    for folder in folders:
        if not folder.is_dir():
            raise UserError(f"{folder}: no such folder; give a results folder")
    groups = [_read_groups(folder) for folder in folders]
    pairs = [_make_pair(first, second) for first in groups[0]
             if (second := _find_partner(first, groups[1]))]
    if not pairs:
        titles = [", ".join(sorted({f"{group.kind} by {group.title or 'no known policy'}"
                                    for group in each})) or "none" for each in groups]
        raise UserError(f"{names[0]} and {names[1]} have no login or roam of the same policy "
                        f"({titles[0]}; {titles[1]}); measure the same policy")
    adjusted = correct_p_values([each for pair in pairs for each in pair.phases.values()],
                                correction)
    notes = (describe_significant_count(adjusted, correction),
             (f"Differences are {names[1]} minus {names[0]}. Means and differences have 95 % "
             "intervals, p-values are Welch's t test's."),
             *(f"{name}: {_describe_source(folder)}" for name, folder
               in zip(names, folders, strict=True)))
    return ([_make_table(number, pair, names, adjusted, notes)
             for number, pair in enumerate(pairs, 1)],
            [_describe_pair(pair, names) for pair in pairs])


def _find_partner(group: _Group, candidates: Sequence[_Group]) -> _Group | None:
    """Return the group of the other folder with the same policy, also in PMF if there is one."""
    same = [other for other in candidates if other.sort_key == group.sort_key]
    return min(same, key=lambda other: other.policy != group.policy, default=None)


def _make_pair(first: _Group, second: _Group) -> _Pair:
    return _Pair(first, second, {
        name: statistics.compare_welch(second.times_s[name], first.times_s[name])
        for name in first.times_s if name in second.times_s})


# --- Groups of a folder ---


def _read_groups(folder: Path) -> list[_Group]:
    found: dict[tuple[Any, ...], list[tuple[dict[str, float], str]]] = defaultdict(list)
    for kind, policy, way, place, title, times_s in (
            _read_card(folder) if is_card_folder(folder) else _read_emulated(folder)):
        found[kind, tuple(policy.items()), way, place].append((times_s, title))
    groups = []
    for (kind, fields, way, place), measured in found.items():
        names = dict.fromkeys(name for times_s, _ in measured for name in times_s)
        groups.append(_Group(kind, dict(fields), way, place, measured[0][1], {
            name: [times_s[name] for times_s, _ in measured if name in times_s]
            for name in names}))
    return groups


_Row = tuple[str, Mapping[str, str], str, str, str, dict[str, float]]


def _read_card(folder: Path) -> Iterator[_Row]:
    record = results.read_record(folder)
    for sample in record.samples:
        if not sample.reason and sample.joining_s is not None:
            yield (sample.kind, sample.policy_fields, sample.way, f"card {record.card}",
                   sample.policy, {_WHOLE_TITLE: sample.joining_s, **sample.phases_s})


def _read_emulated(folder: Path) -> Iterator[_Row]:
    for record, each in explain_records(folder):
        yield ("roam" if each["previous"] else "login",
               {name: each["policy"][name] for name in POLICY_FIELDS},
               results.describe_way(each), " in ".join(record.cell.values()),
               each["policy"]["title"],
               {_WHOLE_TITLE: each["duration_s"],
                **{phase["name"]: phase["duration_s"] for phase in each["phases"]
                   if phase["name"] != "first_packet"}})


def _describe_source(folder: Path) -> str:
    if is_card_folder(folder):
        record = results.read_record(folder)
        return (f"a card ({record.driver.get('driver', 'unknown driver')}), medium "
                f"{record.medium}, regulatory domain {record.regulatory_domain}")
    records, _ = read_records(folder / "records")
    clocks = {str(record.environment.get("clock") or "unknown") for record in records}
    media = {str(record.environment.get("medium") or "none") for record in records}
    return (f"emulated, medium {', '.join(sorted(media))}, clock "
            f"{', '.join(sorted(clocks))}")


# --- Tables and lines ---


def _make_table(number: int, pair: _Pair, names: tuple[str, str], adjusted: Mapping[int, float],
                notes: tuple[str, ...]) -> Table:
    columns = (Column("phase", "phase"), Column("first_s", names[0], "ms", 1e3),
               Column("second_s", names[1], "ms", 1e3),
               Column("difference_s", "difference", "ms", 1e3), P_COLUMN)
    rows = []
    for name, comparison in pair.phases.items():
        p_value = adjusted.get(id(comparison))
        marks = ["significant"] if p_value is not None and p_value < SIGNIFICANT else []
        rows.append((Entry(name.replace("_", " ")),
                     estimate_entry(statistics.mean(pair.first.times_s[name])),
                     estimate_entry(statistics.mean(pair.second.times_s[name])),
                     estimate_entry(comparison.difference, marks),
                     p_value_entry(p_value, "too few logins or roams")))
    return Table(f"phases-{number}", f"{_name_pair(pair)}: {pair.first.place} and "
                 f"{pair.second.place}", columns, tuple(rows), notes=notes)


def _name_pair(pair: _Pair) -> str:
    way = f" ({pair.first.way})" if pair.first.way else ""
    return f"{pair.first.kind} by {pair.first.title}{way}"


def _describe_pair(pair: _Pair, names: tuple[str, str]) -> str:
    """Return a line on the whole difference, and on the phase that has most of it."""
    whole = pair.phases[_WHOLE_TITLE].difference.mean
    phases = {name: each.difference.mean for name, each in pair.phases.items()
              if name != _WHOLE_TITLE and name not in _AFTER}
    text = (f"{_name_pair(pair)}: {abs(whole) * 1e3:.1f} ms "
            f"{'longer' if whole > 0 else 'shorter'} in {names[1]} ({pair.second.place}) than in "
            f"{names[0]} ({pair.first.place})")
    if phases:
        name = max(phases, key=lambda each: phases[each] * (1 if whole > 0 else -1))
        text += (f"; the largest part within a phase: {name.replace('_', ' ')} "
                 f"{phases[name] * 1e3:+.1f} ms")
    differs = [name for name in POLICY_FIELDS
               if pair.first.policy[name] != pair.second.policy[name]]
    return text + (f"; the policies differ in {', '.join(differs)}" if differs else "")
