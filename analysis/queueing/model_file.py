"""Reader of model.yml, which has stations, chains and optional measurements."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails

from analysis.queueing import document
from analysis.queueing.document import KeyPath
from analysis.queueing.errors import QueueingError, choose_from
from analysis.queueing.network import (
    MAX_COUNT,
    Chain,
    CustomerClass,
    Direction,
    Discipline,
    QueueingNetwork,
    QueueingStation,
    Visit,
)
from analysis.queueing.prediction import Measurement
from topologies import wording

Name = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_-]*$", max_length=40)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1, le=MAX_COUNT)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class _StationEntry(_Strict):
    discipline: Discipline = "ps"
    servers: Count = 1
    scv: NotNegative | None = None
    direction: Direction | None = None
    warm_up_s: NotNegative = 0.0


class _VisitEntry(_Strict):
    station: Name
    service_s: Positive
    visits: Positive = 1.0
    urgent: bool = False


class _ClassEntry(_Strict):
    visits: Annotated[list[_VisitEntry], Field(min_length=1)]
    variant: Name | None = None


class _ChainEntry(_Strict):
    classes: Annotated[dict[Name, _ClassEntry], Field(min_length=1)]
    population: Count | None = None
    rate_per_s: Positive | None = None
    think_s: NotNegative = 0.0
    shares: dict[Name, NotNegative] = {}


class _PointEntry(_Strict):
    load: Positive
    response_s: Positive
    throughput_per_s: Positive | None = None
    p95_s: Positive | None = None
    calibration: bool = False


class _File(_Strict):
    stations: Annotated[dict[Name, _StationEntry], Field(min_length=1)]
    chains: Annotated[dict[Name, _ChainEntry], Field(min_length=1)]
    measured: dict[Name, list[_PointEntry]] = {}


@dataclass(frozen=True)
class Model:
    """A network with the measurements of each of its chains."""

    network: QueueingNetwork
    measured: dict[str, tuple[Measurement, ...]]


def load_model(path: str | os.PathLike[str]) -> Model:
    """Return the model in a file.

    Raises:
        QueueingError: The file is not a valid model; one line `FILE:LINE: what; what to do`.
    """
    file = os.fspath(path)
    values, lines = document.read_document(file)
    try:
        parsed = _File.model_validate(values)
    except ValidationError as error:
        # Report unknown keys first: a misspelt key explains a missing one.
        details = sorted(error.errors(include_url=False),
                         key=lambda detail: detail["type"] != "extra_forbidden")
        raise _explain_error(file, lines, details[0], len(details) - 1) from None
    try:
        return _build_model(parsed)
    except QueueingError as error:
        raise QueueingError(f"{file}: {error.where}", error.what, error.advice) from None


def _build_model(parsed: _File) -> Model:
    stations = tuple(QueueingStation(name, entry.discipline, entry.servers, entry.scv,
                                     entry.direction, entry.warm_up_s)
                     for name, entry in parsed.stations.items())
    network = QueueingNetwork(stations,
                              tuple(_build_chain(name, entry) for name, entry
                                    in parsed.chains.items()))
    for name in set(network.index) & set(parsed.chains):
        raise QueueingError(f"station {name!r}", "and a chain have one name", "rename one of them")
    return Model(network, {
        network.chain(name).name: tuple(Measurement(
            point.load, point.response_s, point.throughput_per_s, point.p95_s,
            calibration=point.calibration) for point in points)
        for name, points in parsed.measured.items()})


def _build_chain(name: str, entry: _ChainEntry) -> Chain:
    classes = tuple(
        CustomerClass(of_class, tuple(Visit(v.station, v.service_s, v.visits, v.urgent)
                                      for v in member.visits), member.variant)
        for of_class, member in entry.classes.items())
    return Chain(name, classes, entry.population, entry.rate_per_s, entry.think_s, entry.shares)


#: Words for numbers out of range by pydantic's type of error, with the context key of the limit.
_EDGES = {"greater_than": ("more than", "gt"), "greater_than_equal": ("at least", "ge"),
          "less_than_equal": ("at most", "le")}
#: Words and advice by pydantic's type of error.
_WORDS = {
    "missing": ("is missing", "add it"),
    "dict_type": ("is not a block of keys", "see docs/queueing.md"),
    "model_type": ("is not a block of keys", "see docs/queueing.md"),
    "float_type": ("is not a number", "write a number such as 0.0015"),
    "int_type": ("is not a whole number", "write 1, 2, ..."),
    "int_from_float": ("is not a whole number", "write 1, 2, ..."),
    "bool_type": ("is neither true nor false", "write true or false"),
    "string_type": ("is not a word", "write a word"),
    "string_pattern_mismatch": ("is not a name", "use letters, digits, _ and -, a letter first"),
    "string_too_long": ("is too long", "use at most 40 characters"),
    "too_short": ("is empty", "give one or more"),
    "finite_number": ("is infinite, or no number (.inf, .nan)", "write a number such as 0.0015"),
}


def _explain_error(file: str, lines: dict[KeyPath, int], detail: ErrorDetails,
                   more: int) -> QueueingError:
    path: KeyPath = tuple(part for part in detail["loc"] if part != "[key]")
    known = path
    while known not in lines:
        known = known[:-1]
    what, advice = _describe_error(detail, path)
    name = ".".join(map(str, path))
    rest = f" (and {more} more)" if more else ""
    return QueueingError(f"{file}:{lines[known]}", f"{name} {what}", advice + rest)


def _describe_error(detail: ErrorDetails, path: KeyPath) -> tuple[str, str]:
    kind, context = detail["type"], detail.get("ctx", {})
    if kind == "extra_forbidden":
        return "is not a key of a model", choose_from(str(path[-1]), _keys_beside(path))
    if kind == "literal_error":
        return f"is {_shorten(detail['input'])}", f"write {context['expected']}"
    if kind in _EDGES:
        words, key = _EDGES[kind]
        return f"is {_shorten(detail['input'])}", f"write {words} {context[key]}"
    if kind in ("float_type", "int_type") and isinstance(detail["input"], str):
        return (f"{_WORDS[kind][0]} but the text {_shorten(detail['input'])}",
                "write the number alone, without a unit and without quotes")
    if kind in _WORDS:
        return _WORDS[kind]
    is_block = kind in ("dict_type", "model_type")
    return "is not a block of keys" if is_block else wording.describe_error(
        detail), "see docs/queueing.md"


def _keys_beside(path: KeyPath) -> tuple[str, ...]:
    """Return the valid keys at the level of `path`."""
    models: dict[int, Any] = {1: _File, 3: _StationEntry if path[0] == "stations" else _ChainEntry,
                              4: _PointEntry, 5: _ClassEntry, 7: _VisitEntry}
    entry = models.get(len(path))
    return tuple(entry.model_fields) if entry else ()


def _shorten(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."
