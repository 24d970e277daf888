"""Extract the measured values from a record, and check that tables can use them.

A record is the JSON file of one repetition (measurement). Its field `measured` has a form that the
study defines, so functions of the study read the values (`RecordSchema` lists these functions).
`check_record` returns the values. It raises an error that names the record's file if the record has
another form or an impossible value. Each exception in the study's code also becomes such an error.
No factor or value may have the name of a column in `RESERVED_COLUMNS`.
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
from analysis.table import to_printable
from measure.records.record import (
    BodyUpgrades,
    Record,
    RecordError,
    describe_validation_error,
    upgrade_body,
)

# --- Columns from a record's envelope; no factor or value may use their names ---

#: Ending of the name of the column with the digests of a factor's levels.
DIGEST_SUFFIX = "_sha256"
#: Circumstances from a record's environment.
CIRCUMSTANCES = ("medium", "air", "clock", "machine", "builder", "debian", "daemons", "programs",
                 "fault")
RESERVED_COLUMNS = frozenset((
    "repetition", "status", "reason", "attempt", "checks_ok", "checks", "verified", "unchecked",
    "elapsed_s", "started_s", "processor_busy_s", "processor_idle_s", "flagged", "flags", "alone",
    *CIRCUMSTANCES))


# --- Error for missing results ---

class NoResultsError(ValueError):
    """An error: results without a usable record. The text says where, and what to do."""


# --- Contract with a study, and the reading of one record ---

_T = TypeVar("_T")


class NamedFactor(Protocol):
    """A factor of a study: a property that it varies, such as the policy."""

    @property
    def name(self) -> str:
        """Return the name of the factor (such as the policy) in records."""

    @property
    def title(self) -> str:
        """Return the name of the factor (such as the policy) in tables."""

    @property
    def is_number(self) -> bool:
        """Return whether the factor's levels are numbers, such as a number of clients."""

    @property
    def unit(self) -> str:
        """Return the unit of the factor's levels, if they are numbers."""


class RecordSchema(Protocol):
    """The description of a study's records: its factors, metrics and measured values."""

    @property
    def id(self) -> str:
        """Return the study's id in records."""

    @property
    def factors(self) -> Sequence[NamedFactor]:
        """Return the factors (varied properties) in the order in which a record names them."""

    @property
    def measurements_type(self) -> type[BaseModel]:
        """Return the pydantic class of the field `measured` in records."""

    @property
    def upgrades(self) -> BodyUpgrades:
        """Return functions that convert the field `measured` of older records."""

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """Return the metrics of which every repetition has one value."""

    @property
    def distributions(self) -> tuple[Metric, ...]:
        """Return the metrics of which every repetition has a list of values."""

    def values(self, measured: Any) -> Mapping[str, float | int | str | None]:
        """Return the values of one repetition by name.

        Args:
            measured: The record's `measured` part, an instance of `measurements_type`.

        Returns:
            Numbers in SI units or words, by name; None for a value that was not measured.
        """

    def impossible_values(self, measured: Any) -> str:
        """Return a short text on a value in a record that cannot be true.

        Args:
            measured: The record's `measured` part, an instance of `measurements_type`.

        Returns:
            The description; "" if all values are possible.
        """

    def samples(self, measured: Any) -> Mapping[str, Sequence[float]]:
        """Return the lists of numbers in a repetition (such as all response times) by name.

        Args:
            measured: The record's `measured` part, an instance of `measurements_type`.

        Returns:
            The values by the distribution's name, in SI units.
        """

    def series(self, measured: Any) -> Mapping[str, Sequence[tuple[float, float]]]:
        """Return the time series of a repetition by name.

        Args:
            measured: The record's `measured` part, an instance of `measurements_type`.

        Returns:
            Pairs of time in seconds and value in SI units, by the name of the series.
        """


@dataclass(frozen=True)
class RecordValues:
    """The contents of a record that tables use.

    - `body`: the study's measured values
    - `row`: values by column
    - `samples`, `series`: lists of values, and time series, by name
    """

    body: Any = None
    row: Mapping[str, Any] = field(default_factory=dict)
    samples: Mapping[str, Any] = field(default_factory=dict)
    series: Mapping[str, Any] = field(default_factory=dict)


def check_record(record: Record, study: RecordSchema, where: str) -> RecordValues:
    """Return the values of a record that tables use, or raise an error if it is unusable.

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


def extract_values(record: Record, study: RecordSchema, where: str) -> RecordValues:
    """Return the values of a record that tables use, without checking the values.

    Raises:
        RecordError: No table can use the record.
    """
    body = body_of(record, study, where)
    if body is None:
        return RecordValues()
    usable = RecordValues(body, call_study(where, study, "values", lambda: values_of(body, study)),
                          call_study(where, study, "samples", lambda: dict(study.samples(body))),
                          call_study(where, study, "series", lambda: dict(study.series(body))))
    amiss = call_study(where, study, "samples", lambda: _find_unusable(usable, study))
    if amiss:
        raise RecordError(f"{where}: {amiss}, which cannot be; measure again")
    return usable


def _find_unusable(usable: RecordValues, study: RecordSchema) -> str:
    """Describe the first value of a record that no table can use, "" for none."""
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
    """Return the first number that no table can use (such as NaN) as text, or ""."""
    return next((str(number) for number in numbers
                 if not math.isfinite(number) or (number < 0 and not is_signed)), "")


def body_of(record: Record, study: RecordSchema, where: str) -> Any:
    """Return the field `measured` of a record as an object of the study's class.

    Returns:
        The object; None where the record has no such field.

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
        document = upgrade_body(record.measured, study.measurements_type, study.upgrades)
    except RecordError as error:
        raise RecordError(f"{where}: {error}") from None
    try:
        # Validate strictly and as JSON: then "6.0" and true are not numbers, and a list is accepted
        # for a tuple.
        body = study.measurements_type.model_validate_json(json.dumps(document), strict=True)
    except ValidationError as error:
        raise RecordError(
            f"{where}: measured.{describe_validation_error(error)}; not what the study "
            f"{record.study.id} measures, move it away or measure again") from None
    amiss = call_study(where, study, "impossible_values", lambda: study.impossible_values(body))
    if amiss:
        raise RecordError(f"{where}: {amiss}; measure again")
    return body


def call_study(where: str, study: RecordSchema, what: str, function: Callable[[], _T]) -> _T:
    """Call a function of a study, and convert any of its exceptions to a RecordError."""
    try:
        return function()
    except Exception as error:  # noqa: BLE001 - study code may raise anything
        said_by = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        raise RecordError(f"{where}: {what} of the study {study.id} cannot read it ({said_by}); "
                          "correct the study, or move it away") from None


def values_of(body: Any, study: RecordSchema) -> dict[str, Any]:
    """Return the values in the field `measured` of a record, by name.

    Raises:
        TypeError: A value is neither a number, a word nor None.
    """
    values = {name: to_printable(value) if isinstance(value, str) else value
              for name, value in study.values(body).items()}
    for name, value in values.items():
        if value is not None and not isinstance(value, str | int | float):
            raise TypeError(f"{name} is {value!r:.40}, no number")
    return values
