"""Check the definition of a study, so that its author gets one clear message about a mistake.

`validate_study` takes a study, and raises an error if a required part is missing or invalid. It
checks names, parts and workload module when the study is loaded. Factor values and testbeds are
checked later, when a run is planned, because a report does not need them.
"""

from __future__ import annotations

import ast
import math
import re
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel

from analysis.measurements import DIGEST_SUFFIX, RESERVED_COLUMNS
from analysis.metrics import Metric, Stage
from studies.contract import (
    Clock,
    Factor,
    Fault,
    LabDefaults,
    LivePage,
    ReportOption,
    Settings,
    StudyError,
)
from studies.search_path import FOLDER, place_of_study, search_folders, study_folder
from studies.study import Study

#: Reserved names: a study's options are added to those of the commands.
RUN_OPTIONS = frozenset((
    "--baseline", "--builder", "--captures", "--card", "--clock", "--cluster", "--daemon",
    "--dry-run", "--fault", "--fresh", "--help", "--max-repetitions", "--most-repetitions",
    "--on", "--only", "--out", "--profile", "--programs", "--release", "--repetitions", "--seed",
    "--set", "--study-path", "--table", "--until-ci", "--until-decided"))
REPORT_OPTIONS = frozenset(("--baseline", "--folder", "--form", "--format", "--help", "--study",
                            "--study-path", "--table", "--tables"))
LAB_OPTIONS = frozenset(("--argv", "--builder", "--help", "--node", "--on", "--study",
                         "--study-path"))
#: Keys of a profile, which also contains settings of a workload.
PROFILE_KEYS = frozenset(("title", "repetitions", "warm_up", "set", "only"))
CLOCKS = get_args(Clock)
_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
_OPTION = re.compile(r"--[a-z][a-z0-9-]*")
_OVERRIDDEN = ("testbed", "judge")

Problems = Iterator[str]


def validate_study(study: Study) -> None:
    """Check that a study has all required parts, and that they are valid.

    Args:
        study: the study to check.

    Raises:
        StudyError: a part is missing or invalid. The text names the first mistake.
    """
    checks: tuple[Callable[[Study], Problems], ...] = (
        _check_title, _check_factors, _check_metrics, _check_declared, _check_classes,
        _check_methods, _check_settings, _check_options, _check_report_alone,
        _check_baseline)
    for check in checks:
        try:
            problem = next(check(study), "")
        except Exception as error:  # noqa: BLE001 - a study may have anything for its parts
            problem = describe_exception(error)
        if problem:
            raise StudyError(f"{place_of_study(study.id)}: {problem}; studies/study.py says what "
                             "belongs there")
    _check_workload(study)


def describe_exception(error: BaseException) -> str:
    """Describe an exception of a study's code in one line.

    The text includes the file and line number in the study, if known.
    """
    text = " ".join(f"{type(error).__name__}: {error}".split())[:300]
    places = [(frame.lineno, folder, Path(frame.filename).relative_to(folder))
              for frame in traceback.extract_tb(error.__traceback__) for folder in search_folders()
              if Path(frame.filename).is_relative_to(folder)]
    if not places or len(places[-1][2].parts) == 1:
        return text
    line, folder, file = places[-1]
    return f"{text}, in line {line} of {'studies' if folder == FOLDER else folder}/{file}"


def _check_title(study: Study) -> Problems:
    for part in ("title", "workload_module"):
        text: Any = getattr(study, part)
        if not isinstance(text, str) or not text.strip() or "\n" in text:
            yield f"{part} is {text!r}, not a line of text"
    clock: Any = study.clock
    if clock not in CLOCKS:
        yield f"clock is {clock!r}, not one of {', '.join(CLOCKS)}"
    if type(study.version) is not int or study.version < 1:
        yield f"version is {study.version!r}, not a number from 1"


def _check_tuple(study: Study, part: str, kind: type, *, is_needed: bool = False) -> Problems:
    """Check that a part of a study is a tuple or list of instances of a class."""
    items = getattr(study, part)
    if not isinstance(items, tuple | list):
        yield f"{part} is {items!r:.80}, not a tuple of {kind.__name__}"
        return
    if is_needed and not items:
        yield f"{part} is empty"
    for item in items:
        if not isinstance(item, kind):
            yield f"{part} has {item!r:.80}, which is no {kind.__name__}"


def _check_unique(names: Iterable[str], what: str) -> Problems:
    for name, count in Counter(names).items():
        if count > 1:
            yield f"{what} {name!r} is there twice"


def _check_factors(study: Study) -> Problems:
    """Yield what is wrong with a study's factors: names, titles and functions."""
    yield from _check_tuple(study, "factors", Factor, is_needed=True)
    for factor in study.factors:
        if not _NAME.fullmatch(factor.name):
            yield f"factor {factor.name!r}: write its name with small letters, digits and '_'"
        if factor.name in RESERVED_COLUMNS or factor.name.endswith(DIGEST_SUFFIX):
            yield f"factor {factor.name!r}: every record has a column of that name"
        if f"--{factor.name}" in LAB_OPTIONS:
            yield f"factor {factor.name!r}: './qop lab' has an option of that name"
        read: Any = factor.read
        if not callable(read):
            yield f"factor {factor.name!r}: read cannot be called"
        if not factor.title:
            yield f"factor {factor.name!r}: has no title"
    yield from _check_unique([factor.name for factor in study.factors], "factor")


def _check_metrics(study: Study) -> Problems:
    """Yield what is wrong with a study's metrics, distributions and timelines."""
    factors = {factor.name for factor in study.factors}
    for part in ("metrics", "distributions", "timelines"):
        yield from _check_tuple(study, part, Metric, is_needed=part == "metrics")
        metrics = list(getattr(study, part))
        metrics += [metric.difference for metric in metrics if metric.difference is not None]
        for metric in metrics:
            yield from _check_metric(metric, factors)
        yield from _check_unique([metric.name for metric in metrics], "metric")
    yield from _check_unique([metric.short for metric in study.metrics if metric.short],
                             "short name")


def _check_metric(metric: Metric, factors: set[str]) -> Problems:
    """Yield what is wrong with a metric: its name, title, scale or direction."""
    if not str(metric.name).isidentifier():
        yield f"metric {metric.name!r}: write its name with letters, digits and '_'"
    if metric.name in RESERVED_COLUMNS or metric.name in factors:
        yield f"metric {metric.name!r}: every record has a column of that name"
    if not metric.title:
        yield f"metric {metric.name!r}: has no title"
    if not _is_finite(metric.scale) or not metric.scale:
        yield f"metric {metric.name!r}: scale is {metric.scale!r}"
    if not _is_finite(metric.negligible) or metric.negligible < 0:
        yield f"metric {metric.name!r}: negligible is {metric.negligible!r}"
    if metric.better not in ("lower", "higher", ""):
        yield f"metric {metric.name!r}: better is {metric.better!r}, not 'lower' or 'higher'"


def _is_finite(value: object) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


def _check_declared(study: Study) -> Problems:
    """Yield what is wrong with a study's other class attributes, such as stages and faults."""
    yield from _check_tuple(study, "stages", Stage)
    yield from _check_tuple(study, "report_options", ReportOption)
    for part in ("baseline", "baseline_digests"):
        texts: Any = getattr(study, part)
        if not isinstance(texts, Mapping) or not all(
                isinstance(text, str) for pair in texts.items() for text in pair):
            yield f"{part} is {texts!r:.80}, not texts by name"
    faults: Any = study.faults
    if not isinstance(faults, Mapping) or not all(
            isinstance(name, str) and isinstance(fault, Fault | str)
            for name, fault in faults.items()):
        yield f"faults is {faults!r:.80}, not Faults or texts by name"
    lab: Any = study.lab
    if not isinstance(lab, LabDefaults):
        yield f"lab is {lab!r:.80}, no LabDefaults"
    live: Any = study.live
    if live is not None and not isinstance(live, LivePage):
        yield f"live is {live!r:.80}, no LivePage"


def _check_classes(study: Study) -> Problems:
    for part, base in (("settings_type", Settings), ("measurements_type", BaseModel)):
        kind = getattr(study, part)
        if not isinstance(kind, type) or not issubclass(kind, base):
            yield f"{part} is {kind!r:.80}, not a class that derives from {base.__name__}"


def _check_methods(study: Study) -> Problems:
    for name in _OVERRIDDEN:
        if getattr(type(study), name) is getattr(Study, name):
            yield f"its STUDY has no {name}"


def _check_report_alone(study: Study) -> Problems:
    for option in study.report_options:
        if option.without_results and type(study).report_alone is Study.report_alone:
            yield f"its STUDY has no report_alone, which {option.name} asks for"


def _check_settings(study: Study) -> Problems:
    for name in study.settings_type.model_fields:
        if name in PROFILE_KEYS:
            yield f"setting {name!r}: profiles have a key of that name"


def _check_options(study: Study) -> Problems:
    settings = [option for name in study.settings_type.model_fields
                if (option := study.settings_type.option_of(name))]
    # A factor "release" takes the place of the run's own option.
    of_factors = [option for factor in study.factors
                  for option in (factor.option, factor.file_option)
                  if option and (factor.name, option) != ("release", "--release")]
    levels = [f"--{factor.name}" for factor in study.factors]
    of_report = [option.name for option in study.report_options]
    for command, own, taken in (("run", settings + of_factors, RUN_OPTIONS),
                                ("lab", settings + levels, LAB_OPTIONS),
                                ("report", of_report, REPORT_OPTIONS)):
        for name in own:
            if command != "lab" and not _OPTION.fullmatch(name):
                yield f"option {name!r}: write two dashes and small letters, as in --name"
            if name in taken:
                yield f"option {name!r}: './qop {command}' has one of that name"
        yield from _check_unique(own, f"an option of './qop {command}',")


def _check_baseline(study: Study) -> Problems:
    for part in ("baseline", "baseline_digests"):
        yield from _check_factor_names(study, part, getattr(study, part))
    yield from _check_factor_names(study, "lab.levels", study.lab.levels)


def _check_factor_names(study: Study, part: str, texts: Mapping[str, str]) -> Problems:
    for name in texts:
        if name not in [factor.name for factor in study.factors]:
            yield f"{part}: there is no factor {name!r}"


def _check_workload(study: Study) -> None:
    """Check that the workload module exists and has a class Workload.

    The module is parsed, not imported.

    Raises:
        StudyError: the module does not exist, or has no class Workload.
    """
    where = place_of_study(study.id)
    package, _, module = study.workload_module.removeprefix("studies.").partition(".")
    path = study_folder(package) / f"{module.replace('.', '/')}.py"
    if not study.workload_module.startswith("studies.") or not path.is_file():
        raise StudyError(
            f"{where}: its STUDY names {study.workload_module!r} to run in the machine, and there "
            "is no such module; studies/study.py says what it has")
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError) as error:
        raise StudyError(
            f"{where}: {study.workload_module} cannot be read ({describe_exception(error)}); "
            "correct it") \
            from None
    if "Workload" not in set(_bound_names(tree)):
        raise StudyError(
            f"{where}: {study.workload_module} has no class Workload; measure/agent/workload.py "
            "says what that is")


def _bound_names(tree: ast.Module) -> Iterator[str]:
    """Return the names that a module binds at top level."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.ImportFrom | ast.Import):
            yield from (alias.asname or alias.name for alias in node.names)
        elif isinstance(node, ast.Assign):
            yield from (target.id for target in node.targets if isinstance(target, ast.Name))
