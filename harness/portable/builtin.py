"""Compare levels, media and devices of a plan with qop's own of the same names."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import studies
from measure.manifest import LevelRecord, Manifest
from studies.study import Factor, Level, Study, StudyError
from topologies.checks import TopologyError
from topologies.device import Device
from topologies.loader import device_names, load_device, load_medium, medium_names
from topologies.model import Medium, from_json

_OTHER = "is not qop's own of that name: somebody's file has its name, or it has changed since"


def find_changed_builtins(plan: Manifest) -> list[str]:
    """Return a line for each level, medium and device that differs from qop's own of its name."""
    try:
        study = studies.load_study(plan.study.id)
    except StudyError:
        return []
    lines = [f"{factor.name} {name} {_OTHER}" for factor, name, entry
             in _iterate_levels(study, plan)
             if entry.digest and (own := _load_builtin_level(factor, name)) is not None
             and entry.digest != own.digest]
    lines += _find_changed("medium", plan.media, medium_names(), Medium, _medium_forms)
    return lines + list(_find_changed("device", plan.devices, device_names(), Device,
                                      lambda name: [load_device(name)]))


def find_changed_texts(study: Study, plan: Manifest) -> Iterator[str]:
    """Yield a line for each changed title, number or content of a built-in level.

    Only levels with an unchanged digest are compared: titles, drives and places are in no digest.
    """
    for factor, name, entry in _iterate_levels(study, plan):
        own = _load_builtin_level(factor, name)
        if own is None or own.digest != entry.digest:
            continue
        for what, then, here in (("title", entry.title, own.title),
                                 ("number", entry.number, own.number)):
            if then != here:
                yield (f"levels.{factor.name}.{name}.{what} is {then!r}, and {here!r} comes with "
                       "qop")
        if entry.content and own.content and entry.title == own.title and (
                entry.content != json.loads(json.dumps(dict(own.content)))):
            yield f"levels.{factor.name}.{name}.content is another one than comes with qop"


def _iterate_levels(study: Study, plan: Manifest) -> Iterator[tuple[Factor, str, LevelRecord]]:
    for factor in study.factors:
        for name, entry in plan.levels.get(factor.name, {}).items():
            yield factor, name, entry


def _load_builtin_level(factor: Factor, name: str) -> Level | None:
    """Return the level that qop ships under a name. The result is None if there is none."""
    # A path would be read relative to the current directory.
    if "/" in name or name.endswith((".yml", ".yaml")):
        return None
    try:
        return next(iter(factor.read([name], [])), None)
    except Exception:  # noqa: BLE001 - a study's own code may raise anything for a name
        return None


def _medium_forms(name: str) -> Sequence[Medium]:
    """Return the forms that a built-in medium can have in a plan."""
    medium = load_medium(name)
    return medium, medium.in_turns


def _find_changed(what: str, documents: Any, names: Sequence[str], kind: type[Any],
                  load_builtin: Callable[[str], Sequence[Any]]) -> Iterator[str]:
    for name, document in documents.items():
        if name not in names:
            continue
        try:
            is_own = from_json(kind, document) in load_builtin(name)
        except (TopologyError, AttributeError, LookupError, TypeError, ValueError):
            is_own = False
        if not is_own:
            yield f"{what} {name} {_OTHER}"
