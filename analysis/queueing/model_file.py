"""Read a queueing model from a YAML file: its servers, kinds of transactions and measurements.

`load_model` reads and checks a file. It returns a `Model`: a `QueueingNetwork` with the
measurements of its chains (kinds of transactions). `./qop model FILE` then computes response times
under load. Every error is one line: `FILE:LINE: what; what to do`.

docs/queueing.md explains every key of the file. The keys are fields of the classes in
`analysis.queueing.network`, whose docstrings explain them, too: `QueueingStation`, `Visit`,
`CustomerClass` and `Chain`.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from analysis.queueing.network import (
    MAX_COUNT,
    Chain,
    CustomerClass,
    Direction,
    Discipline,
    QueueingError,
    QueueingNetwork,
    QueueingStation,
    Visit,
)
from analysis.queueing.prediction import Measurement
from documents.refusals import explain_refusal
from documents.unquoted import validate_values
from documents.yaml_reader import YamlProblem, YamlRules, parse_yaml, read_text

_RULES = YamlRules("model", depth_limit=10, manual="docs/queueing.md",
                   empty="write stations: and chains:")

# --- Entries of the file, and their conversion to a network ---

Name = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_-]*$", max_length=40)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1, le=MAX_COUNT)]


class _StrictModel(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class _StationEntry(_StrictModel):
    """A station (`QueueingStation`). `scv` is the squared coefficient of variation of services."""

    discipline: Discipline = "ps"
    servers: Count = 1
    scv: NotNegative | None = None
    direction: Direction | None = None
    warm_up_s: NotNegative = 0.0


class _VisitEntry(_StrictModel):
    """A visit to a station (`Visit`). An urgent one is served first where there are priorities."""

    station: Name
    service_s: Positive
    visits: Positive = 1.0
    urgent: bool = False


class _ClassEntry(_StrictModel):
    """A step of a transaction (`CustomerClass`), which may be part of only one variant of it."""

    visits: Annotated[list[_VisitEntry], Field(min_length=1)]
    variant: Name | None = None


class _ChainEntry(_StrictModel):
    """A kind of transaction (`Chain`). `shares` has the fraction of cycles of each variant."""

    classes: Annotated[dict[Name, _ClassEntry], Field(min_length=1)]
    population: Count | None = None
    rate_per_s: Positive | None = None
    think_s: NotNegative = 0.0
    shares: dict[Name, NotNegative] = {}


class _PointEntry(_StrictModel):
    """A measurement of a chain at one load (`Measurement`).

    With `calibration`, the model is fitted to it, and not checked by it.
    """

    load: Positive
    response_s: Positive
    throughput_per_s: Positive | None = None
    p95_s: Positive | None = None
    calibration: bool = False


class _ModelDocument(_StrictModel):
    stations: Annotated[dict[Name, _StationEntry], Field(min_length=1)]
    chains: Annotated[dict[Name, _ChainEntry], Field(min_length=1)]
    measured: dict[Name, list[_PointEntry]] = {}


@dataclass(frozen=True)
class Model:
    """A queueing network, with the measurements of each of its chains (kinds of transactions)."""

    network: QueueingNetwork
    measured: dict[str, tuple[Measurement, ...]]


def load_model(path: str | os.PathLike[str]) -> Model:
    """Read and validate a queueing model from a YAML file.

    Raises:
        QueueingError: The file is not a valid model; one line `FILE:LINE: what; what to do`.
    """
    file = os.fspath(path)
    try:
        document = parse_yaml(file, read_text(file, _RULES), _RULES)
    except YamlProblem as problem:
        raise QueueingError(problem.format_place(file), problem.what, problem.advice) from None
    try:
        parsed = validate_values(_ModelDocument.model_validate, document.data, document.spots.get)
    except ValidationError as error:
        refusal = explain_refusal(error, document, _ModelDocument, f"see {_RULES.manual}")
        rest = f" (and {refusal.more} more)" if refusal.more else ""
        raise QueueingError(f"{file}:{refusal.line}", f"{refusal.name}: {refusal.what}",
                            refusal.advice + rest) from None
    try:
        return _build_model(parsed)
    except QueueingError as error:
        raise QueueingError(f"{file}: {error.where}", error.what, error.advice) from None


def _build_model(parsed: _ModelDocument) -> Model:
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

