"""Reads the bodies of records as their study has them, and asks the study for their values.

Whatever a study's own code raises over a record is said of the record.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any, Protocol, TypeVar

from pydantic import BaseModel, ValidationError

from analysis.metrics import Metric
from analysis.text import printable
from measure.body import BodyUpgrades, of_today
from measure.record import Record, RecordError, said

_T = TypeVar("_T")


class NamedFactor(Protocol):
    """What was varied."""

    @property
    def name(self) -> str:
        """What it is called in records."""

    @property
    def title(self) -> str:
        """What it is called in tables."""

    @property
    def is_number(self) -> bool:
        """Whether its levels are numbers."""

    @property
    def unit(self) -> str:
        """The unit of these."""


class Body(Protocol):
    """What a study says of its records and their bodies."""

    @property
    def id(self) -> str:
        """The study's name in records."""

    @property
    def factors(self) -> Sequence[NamedFactor]:
        """What was varied, in the order of a record's cell."""

    @property
    def measured(self) -> type[BaseModel]:
        """The class of a record's body."""

    @property
    def upgrades(self) -> BodyUpgrades:
        """What makes bodies of earlier schemas those of today."""

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """The numbers that every repetition hands up."""

    @property
    def distributions(self) -> tuple[Metric, ...]:
        """The lists that a record's body holds."""

    def values(self, measured: Any) -> Mapping[str, float | int | str | None]:
        """One row of numbers in SI units, by name."""

    def impossible(self, measured: Any) -> str:
        """What cannot be in it, in a few words; empty where nothing is amiss."""

    def samples(self, measured: Any) -> Mapping[str, Sequence[float]]:
        """Lists of numbers by name: distributions within the repetition."""

    def series(self, measured: Any) -> Mapping[str, Sequence[tuple[float, float]]]:
        """Values over time by name: pairs of seconds and value."""


@dataclass(frozen=True)
class Usable:
    """What tables take of a record: its body, its row of values, and its lists by name."""

    body: Any = None
    row: Mapping[str, Any] = field(default_factory=dict)
    samples: Mapping[str, Any] = field(default_factory=dict)
    series: Mapping[str, Any] = field(default_factory=dict)


def check(record: Record, study: Body, where: str) -> Usable:
    """Return what tables take of a record; raise RecordError where no table can use it.

    Every reader of records asks this one function: reports, comparisons, `./qop verify`, imports,
    exports, `./qop status`, and a run that goes on. `where` is the record's file, by its path.
    """
    if PurePath(where).stem != record.name:
        # A copy under another name would count one repetition twice.
        raise RecordError(f"{where}: holds the record {record.name}; not counted, move it away")
    if record.contradiction:
        raise RecordError(f"{where}: says ok, but {record.contradiction}; not counted, measure "
                          "again")
    return take(record, study, where)


def take(record: Record, study: Body, where: str) -> Usable:
    """Return what tables take of a record in memory; raise RecordError where that is no use."""
    body = body_of(record, study, where)
    if body is None:
        return Usable()
    usable = Usable(body, ask(where, study, "values", lambda: values_of(body, study)),
                    ask(where, study, "samples", lambda: dict(study.samples(body))),
                    ask(where, study, "series", lambda: dict(study.series(body))))
    amiss = ask(where, study, "samples", lambda: _unusable(usable, study))
    if amiss:
        raise RecordError(f"{where}: {amiss}, which cannot be; measure again")
    return usable


def _unusable(usable: Usable, study: Body) -> str:
    """Return which number of a record no table can use, in a few words; "" where all can be."""
    signed = {metric.name for metric in (*study.metrics, *study.distributions) if metric.signed}
    for name, value in usable.row.items():
        if isinstance(value, float) and not math.isfinite(value):
            return f"{name} is {value}"
    for metric in study.metrics:
        value = usable.row.get(metric.name)
        if isinstance(value, int | float) and value < 0 and metric.name not in signed:
            return f"{metric.name} is {value}"
    for name, numbers in usable.samples.items():
        if amiss := _odd(numbers, is_signed=name in signed):
            return f"{name} has {amiss}"
    return next((f"{name} has {amiss}" for name, pairs in usable.series.items() if (
        amiss := _odd((number for pair in pairs for number in pair), is_signed=True))), "")


def _odd(numbers: Iterable[float], *, is_signed: bool) -> str:
    """Return the first of some numbers that no table can use; "" where there is none."""
    return next((str(number) for number in numbers
                 if not math.isfinite(number) or (number < 0 and not is_signed)), "")


def body_of(record: Record, study: Body, where: str) -> Any:
    """The body of a record as the study's own class; raises RecordError where it cannot be."""
    factors = [factor.name for factor in study.factors]
    if record.study.id != study.id or list(record.cell) != factors:
        raise RecordError(f"{where}: of the study {record.study.id} with factors "
                          f"{', '.join(record.cell)}, not of {study.id} with {', '.join(factors)}; "
                          "not counted, move it away")
    for name, value in (("repetition", record.repetition), ("elapsed_s", record.elapsed_s)):
        if value < 0:
            raise RecordError(f"{where}: {name} is {value}, which cannot be; measure again")
    if record.measured is None:
        return None
    try:
        document = of_today(record.measured, study.measured, study.upgrades)
    except RecordError as error:
        raise RecordError(f"{where}: {error}") from None
    try:
        # Strictly, and as JSON: "6.0" and true are no numbers, and a list is a tuple's.
        body = study.measured.model_validate_json(json.dumps(document), strict=True)
    except ValidationError as error:
        raise RecordError(f"{where}: measured.{said(error)}; not what the study "
                          f"{record.study.id} measures, move it away or measure again") from None
    amiss = ask(where, study, "impossible", lambda: study.impossible(body))
    if amiss:
        raise RecordError(f"{where}: {amiss}; measure again")
    return body


def ask(where: str, study: Body, what: str, ask: Callable[[], _T]) -> _T:
    """What a study's own code answers; raises RecordError for whatever it raises."""
    try:
        return ask()
    except Exception as error:  # noqa: BLE001 - it may be anything
        said_by = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        raise RecordError(f"{where}: {what} of the study {study.id} cannot read it ({said_by}); "
                          "correct the study, or move it away") from None


def values_of(body: Any, study: Body) -> dict[str, Any]:
    """A body's row of numbers; raises TypeError for what is none."""
    values = {name: printable(value) if isinstance(value, str) else value
              for name, value in study.values(body).items()}
    for name, value in values.items():
        if value is not None and not isinstance(value, str | int | float):
            raise TypeError(f"{name} is {value!r:.40}, no number")
    return values
