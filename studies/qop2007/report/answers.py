"""First view of the report: a policy and its cost for each application."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from analysis.present.entries import format_entry
from analysis.present.report import Answer, Offer
from analysis.table import Entry, Table

_MOST_RUNNERS = 6


def build_answers(overview: Table) -> tuple[Answer, ...]:
    """Return an answer for each application of the overview.

    The overview has a row for each kind of scenario. Applications with equal answers share one.
    """
    grouped: dict[str, list[Sequence[Entry]]] = {}
    for row in overview.rows:
        grouped.setdefault(_find_entry(overview, row, "application").text, []).append(row)
    every = [Answer(application, _capitalize(_find_entry(overview, rows[0], "application").note),
                    tuple(_build_offer(overview, row) for row in rows))
             for application, rows in grouped.items()]
    alike: dict[object, list[Answer]] = {}
    for answer in every:
        key = tuple((offer.place, offer.choice, offer.runners) for offer in answer.offers)
        alike.setdefault(key, []).append(answer)
    return tuple(_join_answers(together) for together in alike.values())


def _join_answers(together: Sequence[Answer]) -> Answer:
    """Join the equal answers of several applications."""
    if len(together) == 1:
        return together[0]
    first = together[0]
    offers = tuple(
        replace(offer, costs=tuple(dict.fromkeys(
            cost for answer in together for cost in answer.offers[number].costs)))
        for number, offer in enumerate(first.offers))
    return Answer(" \N{MIDDLE DOT} ".join(answer.application for answer in together),
                  ". ".join(f"{answer.application}: {answer.limits[:1].lower()}{answer.limits[1:]}"
                            for answer in together), offers)


def _build_offer(overview: Table, row: Sequence[Entry]) -> Offer:
    policy, place = _find_entry(overview, row, "policy"), _find_entry(overview, row, "kind").text
    others = _find_entry(overview, row, "others").text
    if "missing" in policy.marks:
        return Offer(place, reason="No policy that protects data is sure to meet the limits.",
                     runners=tuple(_runner_up_lines(others)))
    return Offer(place, policy.text, _find_entry(overview, row, "name").text,
                 tuple((said, what) for key, what in _cost_columns(overview, row)
                       if (said := _number_text(overview, row, key))),
                 tuple(_runner_up_lines(others)))


def _cost_columns(overview: Table, row: Sequence[Entry]) -> Iterator[tuple[str, str]]:
    """Yield the columns of a policy's protection and costs, and the meaning of their numbers."""
    for column in overview.columns:
        if column.key.startswith("sigma_"):
            yield column.key, f"protection (scheme of {column.title.rpartition(' ')[2]})"
    yield from (("authentication_time_s", "auth. time"), ("handoff_s", "handoff"),
                ("cost", f"{_find_entry(overview, row, 'stream').text} rate less than baseline"),
                ("calls", "G.711 calls at most"))


def _number_text(overview: Table, row: Sequence[Entry], key: str) -> str:
    """Return a number with its unit and scenario, without its interval.

    The result is "" where there is none.
    """
    index = next(index for index, column in enumerate(overview.columns) if column.key == key)
    number = row[index].number
    if number is None:
        return ""
    column = overview.columns[index]
    if column.unit == "ms" and number.value >= 1:
        column = replace(column, unit="s", scale=1.0)
    main = format_entry(row[index], column).main.removesuffix(".0")
    detail = f" ({row[index].detail})" if row[index].detail else ""
    return f"{main} {column.unit}".strip() + detail


def _find_entry(overview: Table, row: Sequence[Entry], key: str) -> Entry:
    return next(entry for entry, column in zip(row, overview.columns, strict=True)
                if column.key == key)


def _runner_up_lines(listed_policies: str) -> Iterator[str]:
    """Yield each list of policies on a line, the strongest first, and shorten long ones.

    An example of the text is `P2, P10; undecided: P3`.
    """
    for part in filter(None, (part.strip() for part in listed_policies.split(";"))):
        title, colon, listed = part.rpartition(":")
        names = [name.strip() for name in listed.split(",")][::-1]
        more = len(names) - _MOST_RUNNERS
        shown = [*names[:_MOST_RUNNERS], *([f"{more} more"] if more > 0 else [])]
        yield f"{title if colon else 'also'}: {', '.join(shown)}"


def _capitalize(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}" if text else ""
