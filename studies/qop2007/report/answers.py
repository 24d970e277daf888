"""The landing view: for each application the policy to take, at home and roaming, and its cost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from analysis.present.entries import show
from analysis.present.report import Answer, Offer
from analysis.table import Entry, Table

#: Columns of the overview that say what a policy gives and costs, and what their numbers are.
_COSTS = (("sigma_normalized_percent", "protection"), ("authentication_time_s", "auth. time"),
          ("handoff_s", "handoff"), ("cost", "rate lost"), ("calls", "calls fit"))
_MOST_RUNNERS = 6


def answers(overview: Table) -> tuple[Answer, ...]:
    """An answer for each application of the overview, which has a row a kind of scenario."""
    grouped: dict[str, list[Sequence[Entry]]] = {}
    for row in overview.rows:
        grouped.setdefault(_entry(overview, row, "application").text, []).append(row)
    return tuple(Answer(application, _sentence(_entry(overview, rows[0], "application").note),
                        tuple(_offer(overview, row) for row in rows))
                 for application, rows in grouped.items())


def _offer(overview: Table, row: Sequence[Entry]) -> Offer:
    policy, place = _entry(overview, row, "policy"), _entry(overview, row, "kind").text
    others = _entry(overview, row, "others").text
    if "missing" in policy.marks:
        return Offer(place, reason="No policy that protects is sure to meet the limits.",
                     runners=tuple(_runners(others, "without protection")))
    return Offer(place, policy.text, _entry(overview, row, "name").text,
                 tuple((said, what) for key, what in _COSTS
                       if (said := _said(overview, row, key))), tuple(_runners(others)))


def _said(overview: Table, row: Sequence[Entry], key: str) -> str:
    """A number with its unit, without its interval; empty where there is none."""
    index = next(index for index, column in enumerate(overview.columns) if column.key == key)
    number = row[index].number
    if number is None:
        return ""
    column = overview.columns[index]
    if column.unit == "ms" and number.value >= 1:
        column = replace(column, unit="s", scale=1.0)
    main = show(row[index], column).main.removesuffix(".0")
    return f"{main} {column.unit}".strip()


def _entry(overview: Table, row: Sequence[Entry], key: str) -> Entry:
    return next(entry for entry, column in zip(row, overview.columns, strict=True)
                if column.key == key)


def _runners(others: str, word: str = "also") -> Iterator[str]:
    """`P2, P10; undecided: P3` as two lines, the strongest first and not too many of them."""
    for part in filter(None, (part.strip() for part in others.split(";"))):
        title, colon, listed = part.rpartition(":")
        names = [name.strip() for name in listed.split(",")][::-1]
        more = len(names) - _MOST_RUNNERS
        shown = [*names[:_MOST_RUNNERS], *([f"{more} more"] if more > 0 else [])]
        yield f"{title if colon else word}: {', '.join(shown)}"


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}" if text else ""
