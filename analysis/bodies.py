"""Validation of the `measured` part of records, and access to its values.

Each exception in the study's code is reported as an error of the record.
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
from analysis.text import to_printable
from measure.body import BodyUpgrades, upgrade_body
from measure.record import Record, RecordError, describe_validation_error

_T = TypeVar("_T")


class NamedFactor(Protocol):
    """A factor of a study."""

    @property
    def name(self) -> str:
        """Return the name of the factor in records."""

    @property
    def title(self) -> str:
        """Return the name of the factor in tables."""

    @property
    def is_number(self) -> bool:
        """Return whether the levels of the factor are numbers."""

    @property
    def unit(self) -> str:
        """Return the unit of numeric levels."""


class Body(Protocol):
    """The part of a study that describes its records and their `measured` parts."""

    @property
    def id(self) -> str:
        """Return the study's id in records."""

    @property
    def factors(self) -> Sequence[NamedFactor]:
        """Return the factors in the order of a record's cell."""

    @property
    def measured(self) -> type[BaseModel]:
        """Return the model class of a record's `measured` part."""

    @property
    def upgrades(self) -> BodyUpgrades:
        """Return the conversions of `measured` parts from earlier schemas to the current one."""

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """Return the metrics that every repetition provides."""

    @property
    def distributions(self) -> tuple[Metric, ...]:
        """Return the metrics of which a repetition has a list of values."""

    def values(self, measured: Any) -> Mapping[str, float | int | str | None]:
        """Return the values of one repetition by name.

        Args:
            measured: The record's `measured` part, an instance of the class `measured`.

        Returns:
            Numbers in SI units or words, by name; None for a value that was not measured.
        """

    def impossible_values(self, measured: Any) -> str:
        """Return a short description of an impossible value in a record.

        Args:
            measured: The record's `measured` part, an instance of the class `measured`.

        Returns:
            The description; "" if all values are possible.
        """

    def samples(self, measured: Any) -> Mapping[str, Sequence[float]]:
        """Return lists of numbers by name, the distributions within the repetition.

        Args:
            measured: The record's `measured` part, an instance of the class `measured`.

        Returns:
            The values by the distribution's name, in SI units.
        """

    def series(self, measured: Any) -> Mapping[str, Sequence[tuple[float, float]]]:
        """Return time series by name.

        Args:
            measured: The record's `measured` part, an instance of the class `measured`.

        Returns:
            Pairs of time in seconds and value in SI units, by the name of the series.
        """


@dataclass(frozen=True)
class Usable:
    """The parts of a record that tables use.

    These are the body, the row of values, and the lists by name.
    """

    body: Any = None
    row: Mapping[str, Any] = field(default_factory=dict)
    samples: Mapping[str, Any] = field(default_factory=dict)
    series: Mapping[str, Any] = field(default_factory=dict)


def check_record(record: Record, study: Body, where: str) -> Usable:
    """Return the parts of a record that tables use.

    Every reader of records calls this function: reports, comparisons, `./qop verify`, imports,
    exports, `./qop status`, and a resumed run.

    Args:
        record: The record.
        study: The study of the record.
        where: Path of the record's file, for messages.

    Raises:
        RecordError: No table can use the record.
    """
    if PurePath(where).stem != record.name:
        # A copy of a record under another file name would count the repetition twice.
        raise RecordError(f"{where}: holds the record {record.name}; not counted, move it away")
    if record.contradiction:
        raise RecordError(f"{where}: says ok, but {record.contradiction}; not counted, measure "
                          "again")
    return extract_values(record, study, where)


def extract_values(record: Record, study: Body, where: str) -> Usable:
    """Return the parts of a record in memory that tables use.

    Raises:
        RecordError: No table can use the record.
    """
    body = body_of(record, study, where)
    if body is None:
        return Usable()
    usable = Usable(body, call_study(where, study, "values", lambda: values_of(body, study)),
                    call_study(where, study, "samples", lambda: dict(study.samples(body))),
                    call_study(where, study, "series", lambda: dict(study.series(body))))
    amiss = call_study(where, study, "samples", lambda: _find_unusable(usable, study))
    if amiss:
        raise RecordError(f"{where}: {amiss}, which cannot be; measure again")
    return usable


def _find_unusable(usable: Usable, study: Body) -> str:
    """Return a description of the first number that no table can use, or ""."""
    signed = {metric.name for metric in (*study.metrics, *study.distributions) if metric.signed}
    for name, value in usable.row.items():
        if isinstance(value, float) and not math.isfinite(value):
            return f"{name} is {value}"
    for metric in study.metrics:
        value = usable.row.get(metric.name)
        if isinstance(value, int | float) and value < 0 and metric.name not in signed:
            return f"{metric.name} is {value}"
    for name, numbers in usable.samples.items():
        if amiss := _first_unusable(numbers, is_signed=name in signed):
            return f"{name} has {amiss}"
    return next((f"{name} has {amiss}" for name, pairs in usable.series.items() if (
        amiss := _first_unusable((number for pair in pairs for number in pair), is_signed=True))),
                "")


def _first_unusable(numbers: Iterable[float], *, is_signed: bool) -> str:
    """Return the first number that no table can use as text, or ""."""
    return next((str(number) for number in numbers
                 if not math.isfinite(number) or (number < 0 and not is_signed)), "")


def body_of(record: Record, study: Body, where: str) -> Any:
    """Return the `measured` part of a record as an instance of the study's class.

    Returns:
        The instance; None where the record has no `measured` part.

    Raises:
        RecordError: The record is of another study or does not fit the class.
    """
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
        document = upgrade_body(record.measured, study.measured, study.upgrades)
    except RecordError as error:
        raise RecordError(f"{where}: {error}") from None
    try:
        # Validate strictly and as JSON: then "6.0" and true are not numbers, and a list is accepted
        # for a tuple.
        body = study.measured.model_validate_json(json.dumps(document), strict=True)
    except ValidationError as error:
        raise RecordError(
            f"{where}: measured.{describe_validation_error(error)}; not what the study "
                          f"{record.study.id} measures, move it away or measure again") from None
    amiss = call_study(where, study, "impossible_values", lambda: study.impossible_values(body))
    if amiss:
        raise RecordError(f"{where}: {amiss}; measure again")
    return body


def call_study(where: str, study: Body, what: str, function: Callable[[], _T]) -> _T:
    """Return the result of a study's function, with its exceptions turned into RecordError."""
    try:
        return function()
    except Exception as error:  # noqa: BLE001 - study code may raise anything
        said_by = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        raise RecordError(f"{where}: {what} of the study {study.id} cannot read it ({said_by}); "
                          "correct the study, or move it away") from None


def values_of(body: Any, study: Body) -> dict[str, Any]:
    """Return the values of a record's `measured` part by name.

    Raises:
        TypeError: A value is neither a number, a word nor None.
    """
    values = {name: to_printable(value) if isinstance(value, str) else value
              for name, value in study.values(body).items()}
    for name, value in values.items():
        if value is not None and not isinstance(value, str | int | float):
            raise TypeError(f"{name} is {value!r:.40}, no number")
    return values
