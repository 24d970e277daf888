"""Make tables and lines of a measurement with an 802.11 card (`qop measure`).

`make_tables` takes the record, and returns tables with the means of logins and roams and of their
phases, with 95 % intervals. `make_lines` yields lines on the card and the network.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from analysis.statistics import mean
from analysis.table import Column, Entry, Quantity, Table, count_noun, join_words

if TYPE_CHECKING:
    from measure.cards.results import CardRecord, Sample

_ROAM_TIMES = ("reassociation", "keys", "handoff", "data_gap")
#: Texts of drivers that have no firmware.
_NONE = ("", "N/A")
#: Phases that begin after joining, so that their end is no part of it.
_AFTER = frozenset({"first_packet"})


def make_tables(record: CardRecord) -> list[Table]:
    """Return the tables of a measurement: durations, phases and waits, and roam times."""
    groups = _group_samples(record.samples)
    tables = [_make_durations(groups)]
    phases = dict.fromkeys(name for group in groups for sample in group
                           for name in sample.phases_s if name not in _AFTER)
    if phases:
        tables.append(_make_table("phases", "Phases", groups, [
            (name.replace("_", " "), [[sample.phases_s.get(name) for sample in group]
                                      for group in groups]) for name in phases]))
    nodes = sorted({name for group in groups for sample in group for name in sample.waited_for_s})
    if nodes:
        tables.append(_make_table("waits", "Waited for", groups, [
            (name, [[sample.waited_for_s.get(name, 0.0) for sample in group]
                    for group in groups]) for name in nodes]))
    roams = [group for group in groups if any(sample.roam_times_s for sample in group)]
    if roams:
        tables.append(_make_table("roam-times", "Roam times", roams, [
            (name.replace("_", " "), [[(sample.roam_times_s or {}).get(name) for sample in group]
                                      for group in roams]) for name in _ROAM_TIMES]))
    return tables


def make_lines(record: CardRecord) -> Iterator[str]:
    """Yield lines on failures, network and card, and on properties without a check."""
    failed = [sample for sample in record.samples if sample.reason]
    if failed:
        yield (f"{count_noun(len(failed), 'login or roam', 'logins or roams')} of "
               f"{len(record.samples)} failed; the first: {failed[0].kind} {failed[0].number}: "
               f"{failed[0].reason}")
    yield f"Network {record.ssid}: " + ", ".join(
        f"{each.bssid} on channel {each.channel} ({each.signal_dbm} dBm)"
        for each in record.access_points)
    driver = " ".join(text for text in (record.driver.get("driver", "unknown"),
                                        record.driver.get("firmware", "")) if text not in _NONE)
    yield (f"Card {record.card}: driver {driver}, regulatory domain "
           f"{record.regulatory_domain}, wpa_supplicant "
           f"{record.programs.get('wpa_supplicant', '')}; medium: {record.medium}")
    retries = sum(sample.link_retries for sample in record.samples)
    rates = {rate for sample in record.samples
             for rate in sample.link.get("rates", {}).values()}
    yield (f"Rates after logins and roams: {'; '.join(sorted(rates)) or 'unknown'}; "
           f"{count_noun(retries, 'message was', 'messages were')} repeated by the 802.11 link")
    if record.dropped_frames:
        yield f"The capture lacks {count_noun(record.dropped_frames, 'frame')}"
    if record.monitor_missing:
        yield (f"Not checked, because there is no monitor ({record.monitor_missing}): "
               f"{join_words(record.not_checked)}")


def _group_samples(samples: Iterable[Sample]) -> list[list[Sample]]:
    """Group the successful samples by kind, policy and source of keys."""
    groups: dict[tuple[str, str, str], list[Sample]] = {}
    for sample in samples:
        if not sample.reason:
            groups.setdefault(sample.group_key, []).append(sample)
    return list(groups.values())


def _make_durations(groups: Sequence[Sequence[Sample]]) -> Table:
    return _make_table("durations", "Logins and roams", groups, [
        ("from command to connection", [[sample.duration_s for sample in group]
                                        for group in groups]),
        ("authentication", [[sample.joining_s for sample in group] for group in groups])])


def _make_table(name: str, title: str, groups: Sequence[Sequence[Sample]],
                measured: Sequence[tuple[str, Sequence[Sequence[float | None]]]]) -> Table:
    """Return a table with a row for each group, and a column of means for each measured time."""
    columns = (Column("kind", "what"), Column("policy", "policy seen"), Column("way", "keys by"),
               Column("n", "n"),
               *(Column(f"{key.replace(' ', '_')}_s", key, "ms", 1e3) for key, _ in measured))
    rows = tuple((Entry(group[0].kind), Entry(group[0].policy or "not seen"),
                  Entry(group[0].way or "-"), Entry(str(len(group))),
                  *(_make_entry(values[place]) for _, values in measured))
                 for place, group in enumerate(groups))
    return Table(name, title, columns, rows)


def _make_entry(values: Iterable[float | None]) -> Entry:
    known = [value for value in values if value is not None]
    if not known:
        return Entry("-")
    estimate = mean(known)
    return Entry(number=Quantity(estimate.mean, estimate.low, estimate.high, estimate.n))
