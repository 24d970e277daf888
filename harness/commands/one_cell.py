"""Command-line options that select a single cell, for the lab and live pages."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from harness.commands import options
from harness.engine import request
from harness.engine.request import RunRequest
from studies.study import Study

_LEVEL = "level_of_"


def level_options(study: Study, default_levels: Mapping[str, str]) -> list[click.Parameter]:
    """Return an option for a level of each factor.

    Args:
        study: The study.
        default_levels: Default levels, by factor.
    """
    return [click.Option([f"--{factor.name}", f"{_LEVEL}{factor.name}"],
                         default=default_levels.get(factor.name), show_default=True,
                         help=f"{factor.title}: a name, or a file where the study takes files.")
            for factor in study.factors]


def build_request(study: Study, option_values: Mapping[str, Any],
                  sets: Mapping[str, str] | None = None) -> RunRequest:
    """Return a request for one level of each factor, by name or from a file.

    Factors without a given level have that of the first matching cell.

    Args:
        study: The study.
        option_values: Values of the study's own options, by parameter.
        sets: Settings to use unless an option sets them.
    """
    levels: dict[str, list[str]] = {}
    files: dict[str, list[Path]] = {}
    for factor in study.factors:
        text = option_values[f"{_LEVEL}{factor.name}"]
        if text is not None and factor.file_option and text.endswith((".yml", ".yaml")):
            files[factor.name] = [Path(text)]
        elif text is not None:
            levels[factor.name] = [text]
    open_factors = [factor.name for factor in study.factors
                    if factor.name not in {*levels, *files}]
    if open_factors:
        there = {factor.name: request.read_levels(
            study, factor, levels.get(factor.name, ()), files.get(factor.name, ()))
            for factor in study.factors}
        chosen = {name: every if name in open_factors else every[-1:]
                  for name, every in there.items()}
        with request.convert_study_errors(study, "cells"):
            first = next(iter(study.cells(chosen)), None)
        if first is not None:
            levels |= {name: [first.ids[name]] for name in open_factors}
    asked = options.explicit_settings(option_values)
    return RunRequest(study, levels=levels, files=files, options=asked, is_single=True,
                      sets={name: text for name, text in (sets or {}).items() if name not in asked})
