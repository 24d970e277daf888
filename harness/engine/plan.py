"""The plan of a run: its cells and testbeds, and the order of repetitions.

Repetitions are in blocks of random order.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any

from guest import air_module
from guest.boot import Clock
from measure import manifest
from measure.manifest import FactorRecord, LevelRecord, Manifest
from measure.record import StudyRecord, record_name
from studies.parts import EVERY_NODE
from studies.study import Asked, Cell, Expected, Factor, Level, Study, TestbedSpec
from topologies import builders, loader

#: Name of a testbed in a plan, in logs and in the scheduler; unique in its plan.
TestbedKey = str


@dataclass(frozen=True)
class RunSettings:
    """The engine's settings, equal for every repetition of a run.

    `seed` decides the order of repetitions. `fault` names a negative control, None for none. `on`
    is "guest" or "host". `warm_up` is the number of unrecorded repetitions that every testbed
    starts with.
    """

    repetitions: int = 3
    seed: int = 1
    fault: str | None = None
    on: str = "guest"
    clock: Clock = "real"
    warm_up: int = 1
    builder: str = builders.MININET

    @property
    def is_real_time(self) -> bool:
        """Return whether waiting takes wall-clock time."""
        return self.clock == "real"

    @property
    def needs_idle_burners(self) -> bool:
        """Return whether processors of guests must be kept from idling.

        That is the case for guests with the real clock.
        """
        return self.is_real_time and self.on == "guest"


@dataclass(frozen=True)
class Step:
    """A repetition of a cell."""

    cell: Cell
    repetition: int

    @property
    def name(self) -> str:
        """Return the name of the repetition's record, captures and folder."""
        return record_name(self.cell.ids.values(), self.repetition)


@dataclass(frozen=True)
class PlannedTestbed:
    """A testbed and the cells that it serves."""

    key: TestbedKey
    spec: TestbedSpec
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class Plan:
    """A complete description of a run. Plans with equal digests measure the same."""

    study: Study
    levels: Mapping[str, Sequence[Level]]
    asked: Asked
    settings: RunSettings = field(default_factory=RunSettings)

    @cached_property
    def cells(self) -> tuple[Cell, ...]:
        """Return every cell that the study measures of these levels."""
        return tuple(self.study.cells(self.levels))

    def all_steps(self) -> list[Step]:
        """Return all repetitions, block by block."""
        return [step for repetition in range(1, self.settings.repetitions + 1)
                for step in self.block_steps(repetition)]

    def block_steps(self, repetition: int, cells: Iterable[Cell] | None = None) -> list[Step]:
        """Return one block: a repetition of every cell, in an order that the seed decides.

        Cells with the longest repetitions come first. Cells of equal duration are ordered by the
        levels of all factors but the first. The levels of the first factor have a random order in
        each block. A drift during a run then affects every level of the first factor equally.

        Args:
            repetition: Number of the block.
            cells: Cells to include, by default all.
        """
        # The order must be repeatable, and is not a secret.
        rng = random.Random(f"{self.settings.seed}/{repetition}")  # noqa: S311
        mixed = sorted(self.cells, key=self._later_levels)
        rng.shuffle(mixed)
        mixed.sort(key=lambda cell: (-self.expected_cost(cell).duration_s,
                                     self._later_levels(cell)))
        chosen = None if cells is None else {cell.name for cell in cells}
        return [Step(cell, repetition) for cell in mixed if chosen is None or cell.name in chosen]

    def _later_levels(self, cell: Cell) -> tuple[int, ...]:
        """Return the positions of a cell's levels in all factors but the first."""
        return self._positions[cell.name]

    @cached_property
    def _positions(self) -> dict[str, tuple[int, ...]]:
        given = {name: {level.id: number for number, level in enumerate(levels)}
                 for name, levels in self.levels.items()}
        return {cell.name: tuple(given[name][level] for name, level in
                                 list(cell.ids.items())[1:]) for cell in self.cells}

    def expected_cost(self, cell: Cell) -> Expected:
        """Return what one repetition of a cell is expected to take."""
        return self._expected[cell.name]

    @cached_property
    def _expected(self) -> dict[str, Expected]:
        return {cell.name: self.study.expected_cost(cell, self.asked) for cell in self.cells}

    @cached_property
    def testbeds(self) -> dict[TestbedKey, PlannedTestbed]:
        """Return the testbeds for the cells, as few as possible."""
        groups: list[tuple[TestbedSpec, list[Cell]]] = []
        for cell in self.cells:
            spec = _adapt_spec(self.settings.on, self.study.testbed(cell, self.asked))
            for number, (other, sharing) in enumerate(groups):
                joined = other.joined_with(spec)
                if joined is not None:
                    groups[number] = (joined, [*sharing, cell])
                    break
            else:
                groups.append((spec, [cell]))
        keys = _testbed_keys([cells for _, cells in groups])
        return {key: PlannedTestbed(key, spec, tuple(cells))
                for key, (spec, cells) in zip(keys, groups, strict=True)}

    @cached_property
    def _key_of(self) -> dict[str, TestbedKey]:
        return {cell.name: key for key, testbed in self.testbeds.items() for cell in testbed.cells}

    def testbed_of(self, cell: Cell) -> TestbedKey:
        """Return the key of the testbed that measures a cell."""
        return self._key_of[cell.name]

    @property
    def shape(self) -> str:
        """Return the size of the plan in words: levels of each factor, and repetitions."""
        factors = [factor.format_count(len(self.levels[factor.name])) for factor
                   in self.study.factors]
        product = 1
        for levels in self.levels.values():
            product *= len(levels)
        some = "" if len(self.cells) == product else f" ({len(self.cells)} of {product} cells)"
        number = self.settings.repetitions
        return f"{' x '.join(factors)}{some} x {number} repetition{'s' if number != 1 else ''}"

    @cached_property
    def digest(self) -> str:
        """Return a hash of everything that decides what is measured.

        A run continues a results folder only if the digests agree.
        """
        return self.manifest.digest

    @cached_property
    def manifest(self) -> Manifest:
        """Return the plan as it is stored with its results."""
        specs = [testbed.spec for testbed in self.testbeds.values()]
        document: dict[str, Any] = {
            "study": {"id": self.study.id, "version": self.study.version},
            "levels": {name: {level.id: None for level in levels}
                       for name, levels in self.levels.items()},
            "cells": [list(cell.ids.values()) for cell in self.cells],
            "asked": self.asked.to_stored_settings(), "settings": asdict(self.settings),
            "media": {spec.medium.name: loader.to_json(spec.medium)
                      for spec in specs if spec.medium},
            "devices": {document["name"]: document for spec in specs
                        for document in node_devices(spec).values()}}
        return Manifest(
            schema=manifest.SCHEMA, digest=manifest.plan_digest(document),
            factors=[factor_record(factor) for factor in self.study.factors],
            wires=sorted({link.limits for spec in specs for link in spec.network.links} - {""}),
            **{**document, "study": StudyRecord(**document["study"]),
               "levels": {name: {level.id: level_record(level) for level in levels}
                          for name, levels in self.levels.items()}})


def _adapt_spec(machine: str, spec: TestbedSpec) -> TestbedSpec:
    """Return a spec as a machine can provide it.

    On a host without the kernel module for the medium, stations take turns instead of contending.
    """
    if machine != "host" or spec.medium is None or not air_module.describe_missing_module():
        return spec
    return replace(spec, medium=spec.medium.in_turns)


def node_devices(spec: TestbedSpec) -> dict[str, Any]:
    """Return the devices of a testbed's nodes as plain data, by the node's name."""
    of_network = {name: loader.to_json(node.device) for name, node in spec.network.nodes.items()
                  if node.device is not None}
    usual = spec.devices.get(EVERY_NODE)
    names = ({node: usual for node in spec.network.nodes if node not in of_network} if usual
             else {}) | dict(spec.devices)
    return of_network | {node: loader.to_json(loader.load_device(name))
                         for node, name in names.items() if node in spec.network.nodes}


def factor_record(factor: Factor) -> FactorRecord:
    """Return a factor's entry in a manifest."""
    return FactorRecord(name=factor.name, title=factor.title, is_number=factor.is_number,
                        unit=factor.unit)


def level_record(level: Level) -> LevelRecord:
    """Return a level's entry in a manifest."""
    return LevelRecord(title=level.title, number=level.number, digest=level.digest,
                       content=dict(level.content))


def _testbed_keys(groups: Sequence[Sequence[Cell]]) -> list[TestbedKey]:
    """Return a name for each group of cells.

    The name has the levels in which the groups differ, by factor.
    """
    used = [{factor: "+".join(dict.fromkeys(cell.ids[factor] for cell in cells))
             for factor in cells[0].ids} for cells in groups]
    factors = list(used[0]) if used else []
    telling = [factor for factor in factors if len({levels[factor] for levels in used}) > 1]
    return ["-".join(levels[factor] for factor in telling or factors[:1]) for levels in used]
