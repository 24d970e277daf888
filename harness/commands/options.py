"""Define the command-line options of `qop run` and of other commands that measure a study.

A study says what is varied and measured, so options such as `--policy` depend on the study that the
user names. `run_parameters` returns all options for a study: general ones, such as `--clock`, and
the study's own. `build_request` converts the values that the user gave to a `RunRequest`, from
which the plan of a run is made.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import click
from click.core import ParameterSource

import studies
from guest.boot import Clock
from guest.releases import DEFAULT, RELEASES
from harness.commands import study_path
from harness.engine import deciding, profiles, request, setup, stopping_rule
from harness.engine.request import RunRequest
from harness.engine.results import CAPTURES
from harness.errors import UserError
from measure.records.manifest import RELEASE
from measure.services.other_releases import DAEMONS
from studies.release_factor import has_release_factor
from studies.search_path import PATH_VARIABLE
from studies.study import Study, StudyError

#: Prefixes of a study's own options among a command's parameters.
_LEVELS_PREFIX, _FILES_PREFIX, _SETTING_PREFIX = "levels_of_", "files_of_", "setting_"
#: Parameter of the Debian releases, in studies that have such a factor.
RELEASE_LEVELS = f"{_LEVELS_PREFIX}{RELEASE}"
#: Parameter of the setting that names an emulated medium, in studies that have one.
MEDIUM = f"{_SETTING_PREFIX}medium"
#: Type of random seeds, which are 32 bits: the kernel gets them for the random numbers of a
#: channel, together with the channel's number.
SEED = click.IntRange(0, 2**32 - 1)
#: Help text of --builder.
BUILDER_HELP = ("Make nodes and radios with this program; auto takes the first that works "
                f"(default: {setup.AUTO_BUILDER}).")
#: Option for the Debian release of the guests.
_RELEASE = "--release"
#: Options that the help of a run shows only with the name of a study, beside those of its settings.
_RARE = frozenset({"--set", "--max-repetitions", "--seed", "--builder", _RELEASE,
                   "--daemon", "--programs", "--card"})


def parse_releases(text: str, where: str) -> str:
    """Return a list of Debian releases with each suite once.

    Args:
        text: The list, with a comma between two suites.
        where: The option, for the error's text.

    Raises:
        UserError: A release is unknown, or there is none.
    """
    suites = _split_list(text)
    unknown = [suite for suite in suites if suite not in RELEASES]
    if unknown or not suites:
        what = f"{unknown[0]} is" if unknown else "names"
        raise UserError(f"{where}: {what} no Debian release; choose from {', '.join(RELEASES)}")
    return ",".join(suites)


def _check_release_list(_context: click.Context, _param: click.Parameter,
                        text: str | None) -> str | None:
    """Return the value of `--release` with each suite once."""
    return None if text is None else parse_releases(text, f"{_RELEASE} {text}")


class _ShortHelpCommand(click.Command):
    """A command with a short help text.

    It only names the options of a study's settings and rarely used options.
    """

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the frequent options with their texts, and the names of the others."""
        rows, further = [], []
        for parameter in self.get_params(ctx):
            row = parameter.get_help_record(ctx)
            if row is None or not isinstance(parameter, click.Option):
                continue
            if parameter.opts[0] in _RARE or (parameter.name or "").startswith(_SETTING_PREFIX):
                further.append(parameter.opts[0])
            else:
                rows.append(row)
        with formatter.section("Options"):
            formatter.write_dl(rows)
        formatter.write_paragraph()
        formatter.write_text(f"'./qop run {studies.DEFAULT} --help' also describes "
                             f"{', '.join(further[:-1])} and {further[-1]}.")


class StudyCommand(click.Command):
    """A command whose options depend on the study that its arguments name.

    The command itself has the options of the default study. `command_for` returns the command for
    another study.

    Args:
        name: Name of the command.
        callback: Function to call. Its docstring is the help text.
        params: Returns the parameters for a study.
        named: Returns the study's id among arguments, "" if none is named.
        naming: How arguments name the study, for messages.
        has_short_help: Whether the help without a study is short.
    """

    def __init__(self, name: str, callback: Callable[..., int], *,
                 params: Callable[[Study], list[click.Parameter]],
                 named: Callable[[Sequence[str]], str], naming: str = "--study {}",
                 has_short_help: bool = False, **settings: Any) -> None:
        self._params = params
        self.named = named
        self._naming = naming
        self._has_short_help = has_short_help
        super().__init__(name, callback=callback, help=callback.__doc__,
                         params=[*params(studies.load_study(studies.DEFAULT)), study_path.OPTION],
                         context_settings={"help_option_names": ["-h", "--help"], **settings})

    def command_for(self, study: Study) -> click.Command:
        """Return this command with the options of a study."""
        return click.Command(self.name, callback=self.callback, help=self.help,
                             params=[*self._params(study), study_path.OPTION],
                             context_settings=self.context_settings)

    def make_context(self, info_name: str | None, args: list[str],
                     parent: click.Context | None = None, **extra: Any) -> click.Context:
        """Parse the arguments with the options of the study that they name."""
        args = _with_profile(args, self.named(args))
        try:
            study = studies.load_study(self.named(args) or studies.DEFAULT)
        except (StudyError, UserError) as error:
            if extra.get("resilient_parsing"):  # shell completion has incomplete arguments
                return super().make_context(info_name, args, parent, **extra)
            raise UserError(str(error)) from None
        command = self.command_for(study)
        if self._has_short_help and not self.named(args):
            command = _ShortHelpCommand(
                self.name, callback=self.callback, help=self.help, params=command.params,
                context_settings=self.context_settings)
        try:
            return command.make_context(info_name, args, parent, **extra)
        except click.UsageError as error:
            if study.id != studies.DEFAULT:  # the default study has the command's own help
                error.ctx = click.Context(
                    command, parent, f"{info_name} {self._naming.format(study.id)}")
            raise


def _with_profile(args: list[str], name: str) -> list[str]:
    """Replace a profile's name in the place of the study by the study and `--profile`.

    For example, `run PROFILE` becomes `run STUDY --profile PROFILE`.
    """
    if not name or name in studies.study_names() or not (study := profiles.find_only_study(name)):
        return args
    for other in _option_values(args, "--profile"):
        if other != name:
            raise UserError(f"{name}: is a profile of {study}, and --profile {other} names "
                            f"another; give one of them, as in '{study} --profile {other}'")
    at = args.index(name)
    return [*args[:at], study, "--profile", name, *args[at + 1:]]


def _option_values(args: Sequence[str], option: str) -> list[str]:
    """Return all values that the arguments give to an option."""
    return [text.partition("=")[2] if text.startswith(f"{option}=") else following
            for text, following in zip(args, [*args[1:], ""], strict=True)
            if text == option or text.startswith(f"{option}=")]


def run_parameters(study: Study) -> list[click.Parameter]:
    """Return all options of `qop run` for a study, the study's own first."""
    return [click.Argument(["study"], required=False, default=study.id, metavar="[STUDY]"),
            *study_parameters(study), *engine_options(study)]


def find_study_argument(args: Sequence[str]) -> str:
    """Return the study among arguments: the first that is no option and no option's value."""
    flags = {name for option in _FLAGS for name in option.opts} | {"-h", "--help"}
    takes_value = False
    for number, text in enumerate(args):
        if text == "--":
            return next(iter(args[number + 1:]), "")
        if text.startswith("-"):
            takes_value = text not in flags and "=" not in text
        elif not takes_value:
            return text
        else:
            takes_value = False
    return ""


def study_parameters(study: Study) -> list[click.Parameter]:
    """Return the options that a study defines: for its factors, settings and deliberate faults.

    A factor is a property that the study varies, such as the policy.
    """
    parameters: list[click.Parameter] = []
    for factor in study.factors:
        if factor.option:
            parameters.append(click.Option([factor.option, f"{_LEVELS_PREFIX}{factor.name}"],
                                           default="", metavar="LIST", help=factor.help))
        if factor.file_option:
            parameters.append(click.Option(
                [factor.file_option, f"{_FILES_PREFIX}{factor.name}"], multiple=True,
                metavar="FILE",
                type=click.Path(path_type=Path), help=factor.file_help))
    parameters += setting_options(study)
    if study.faults:
        parameters.append(click.Option(
            ["--fault"], type=click.Choice(list(study.faults)), metavar="NAME",
            help=f"Run a negative control; './qop studies {study.id} --faults' lists them "
            "(default: none)."))
    return parameters


def setting_options(study: Study) -> list[click.Parameter]:
    """Return the command-line options for the settings of a study's workload."""
    return [_setting_option(study, name) for name in study.settings_type.model_fields
            if study.settings_type.option_of(name)]


def explicit_settings(option_values: Mapping[str, Any]) -> dict[str, str]:
    """Return the settings whose own option was given, as texts by name."""
    return {name.removeprefix(_SETTING_PREFIX): text for name, text in option_values.items()
            if name.startswith(_SETTING_PREFIX) and text is not None}


def _setting_option(study: Study, name: str) -> click.Option:
    """Return the command-line option for a setting of a study's workload.

    Without a value, the profile or the default decides.
    """
    described = study.settings_type.model_fields[name]
    choices = get_args(described.annotation) if get_origin(described.annotation) is Literal else ()
    of_profile = profiles.load_profile(study, profiles.DEFAULT).settings
    default = "from the profile" if name in of_profile else format_default(described.default)
    return click.Option(
        [study.settings_type.option_of(name), f"{_SETTING_PREFIX}{name}"], metavar=None if choices
        else "VALUE",
        type=click.Choice(choices) if choices else str,
        help=f"{(described.description or name).removesuffix('.')} (default: {default}).")


def format_default(value: object) -> str:
    """Return a default value as it appears in a help text."""
    return "none" if value == "" else str(value).lower() if isinstance(value, bool) else str(value)


def build_request(study: Study, profile: str, only: Sequence[str], sets: Sequence[str],
                  repetitions: int | None, **option_values: Any) -> RunRequest:
    """Convert the values of command-line options to a request for a run.

    Args:
        study: The study.
        profile: Name or path of the profile.
        only: Values of --only.
        sets: Values of --set.
        repetitions: Repetitions per cell, None for the profile's number.
        option_values: Values of the study's own options, by parameter.

    Raises:
        UserError: An option is not valid for this study.
    """
    levels = {name: _split_list(option_values.get(f"{_LEVELS_PREFIX}{name}", ""))
              for name in (factor.name for factor in study.factors)}
    for text in only:
        name, _, names = text.partition("=")
        if name not in levels:
            raise UserError(f"--only {text}: {study.id} has no factor {name!r}; choose from "
                            f"{', '.join(levels)}, as in --only {next(iter(levels))}=LEVEL,LEVEL")
        if levels[name]:
            raise UserError(f"--only {text}: levels of {name} were given before; give one list")
        levels[name] = _split_list(names)
        if not levels[name]:
            raise UserError(f"--only {text}: names no level; give some, as in "
                            f"--only {name}=LEVEL,LEVEL")
    pairs = [_parse_setting(text) for text in sets]
    return RunRequest(
        study, profile, levels,
        {factor.name: option_values.get(f"{_FILES_PREFIX}{factor.name}", ()) for factor
         in study.factors},
        explicit_settings(option_values), dict(pairs), repetitions)


def _parse_setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise UserError(f"--set {text}: has no value; give KEY=VALUE")
    return name.strip(), value.strip()


def _split_list(text: str) -> list[str]:
    return list(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))


_FLAGS = (
    click.Option(["--until-decided"], is_flag=True,
                 help="Repeat the cells of undecided claims until every claim is decided. "
                 "Intervals are wider, as the design is sequential."),
    click.Option(["--fresh"], is_flag=True, help="Begin a new results folder."),
    click.Option(["--dry-run"], is_flag=True,
                 help="Only print the plan, its time and its disk space."),
)


def repeat_command(context: click.Context, without: Collection[str]) -> str:
    """Return the command line that the user gave, without some of its options.

    A profile that only one study has takes the place of the study.

    Args:
        context: The context of the command, with its values.
        without: Names of the parameters to leave out.
    """
    words = ["./qop", context.info_name or ""]
    profile = context.params.get("profile", "")
    study = context.params.get("study") or studies.DEFAULT
    if "profile" not in without and profiles.find_only_study(profile) == study:
        words.append(profile)
        without = {*without, "profile", "study"}
    for param in context.command.params:
        name = str(param.name)
        source = context.get_parameter_source(name)
        if source is not ParameterSource.COMMANDLINE or name in without:
            continue
        # --study-path is read before the command line is, and leaves its folders in the variable.
        value = context.params[name] if name in context.params else tuple(
            os.environ.get(PATH_VARIABLE, "").split(os.pathsep))
        for each in value if param.multiple or isinstance(value, tuple) else (value,):
            is_flag = isinstance(param, click.Option) and param.is_flag
            words += [] if isinstance(param, click.Argument) else [param.opts[0]]
            words += [] if is_flag else [str(each)]
    return shlex.join(words)


def engine_options(study: Study) -> list[click.Parameter]:
    """Return the options of the measurement engine, such as `--clock` and `--on`."""
    metrics = [metric.short for metric in study.metrics if metric.short]
    for_metrics = f", or {metrics[0]}:2% for one of {', '.join(metrics)}" if metrics else ""
    own = profiles.profile_names(study)
    return [
        click.Option(["--profile"], default=profiles.DEFAULT, metavar="NAME",
                     help=f"Take amounts and settings from a profile: {', '.join(own)}, or a .yml "
                     f"file (default: {profiles.DEFAULT})."),
        click.Option(["--only"], multiple=True, metavar="FACTOR=LEVELS",
                     help="Measure only these levels of a factor (may be repeated): "
                     f"{', '.join(factor.name for factor in study.factors)}."),
        click.Option(["--set", "sets"], multiple=True, metavar="KEY=VALUE",
                     help="Set a setting of the workload (may be repeated): "
                     f"{', '.join(study.settings_type.model_fields) or 'none'}."),
        click.Option(["--repetitions"], type=click.IntRange(1, 999), metavar="N",
                     help="Measure each cell this many times (default: from the profile)."),
        click.Option(["--until-ci"], metavar="WIDTH",
                     help="Repeat until 95 % intervals are within this share of their means, "
                     f"such as 2%{for_metrics} (default: off)."),
        click.Option(["--max-repetitions"], type=click.IntRange(2, 999), metavar="N",
                     help="Let --until-ci and --until-decided give up at this many repetitions "
                     f"per cell (default: {stopping_rule.MAX_REPETITIONS} and "
                     f"{deciding.MAX_REPETITIONS})."),
        # The former name of --max-repetitions.
        click.Option(["--most-repetitions"], type=click.IntRange(2, 999), hidden=True),
        *_run_options(study),
    ]


def _usual_clock(study: Study) -> str:
    """Return words that describe a study's default clock, for the help text."""
    elsewhere = ", or real with --on vm or host" if study.clock == "processor" else ""
    return f"from the profile, else {study.clock}{elsewhere}"


def _run_options(study: Study) -> list[click.Parameter]:
    """Return the options of `qop run` that do not depend on the study."""
    return [
        click.Option(["--clock"], type=click.Choice(get_args(Clock)), metavar="CLOCK",
                     help="Wait in real time (real), or skip waiting and count the CPU time of "
                     "nodes (processor) or none (virtual) "
                     f"(default: {_usual_clock(study)})."),
        click.Option(["--seed"], default=1, type=SEED, metavar="N",
                     help="Use this random seed for the order of repetitions and for the "
                     "channels (default: 1)."),
        click.Option(["--captures"], type=click.Choice(CAPTURES), default="all", metavar="WHICH",
                     help=f"Keep captures of these repetitions: {', '.join(CAPTURES)} "
                     "(default: all)."),
        click.Option(["--out"], type=click.Path(path_type=Path, file_okay=False),
                     metavar="FOLDER", help="Write results here (default: an unfinished folder "
                     "of the plan, or a new one, in results/)."),
        click.Option(["--table"], type=click.Choice(["short", "all"]), default="short",
                     metavar="WHICH", help="End with one screen of the table (short), or every "
                     "cell (all) (default: short)."),
        *_FLAGS,
        click.Option(["--on"], type=click.Choice(["guest", "vm", "host"]), default="guest",
                     metavar="WHERE", help="Measure in embedded guests (guest), in virtual "
                     "machines by QEMU (vm), or on this machine as root (host) "
                     "(default: guest)."),
        click.Option(["--builder"], type=click.Choice(setup.BUILDER_CHOICES),
                     default=setup.AUTO_BUILDER,
                     envvar="QOP_BUILDER",
                     help=BUILDER_HELP),
        click.Option(["--programs"], type=click.Path(path_type=Path), metavar="FOLDER",
                     help="Start wpa_supplicant, hostapd, freeradius and charon from this folder "
                     "where it has them, or install its .deb files in guests (default: the "
                     "release's)."),
        click.Option(["--card", "cards"], multiple=True, metavar="NODE=NAME",
                     help="Use this machine's 802.11 card NAME as a node's radio, with --on host. "
                     "As monitor=NAME, the card captures the air, and monitor=NAME,NAME has a card "
                     "for each channel (may be repeated) (default: emulated radios)."),
        # A study that compares releases has an option of its own.
        *([] if has_release_factor(study) else [click.Option(
            [_RELEASE], metavar="LIST", callback=_check_release_list,
            help="Take the guests' programs from these Debian releases, and compare them: "
            f"{', '.join(RELEASES)} (default: those of the results folder, else "
            f"{DEFAULT.suite}).")]),
        click.Option(["--daemon", "daemons"], multiple=True, metavar="NAME=RELEASE",
                     help=f"Take one daemon from another Debian release: {', '.join(DAEMONS)}, or "
                     "NAME/openssl for its OpenSSL only (may be repeated) (default: those of "
                     "--release)."),
        click.Option(["--cluster"], metavar="WHERE", help="Measure on other machines: "
                     "tls://HOST:PORT of a scheduler, or ssh:HOST1,HOST2 (default: here)."),
    ]


# Command-line options that select a single cell, for the lab and live pages.

_LEVEL_PREFIX = "level_of_"


def level_options(study: Study, default_levels: Mapping[str, str]) -> list[click.Parameter]:
    """Return an option for each factor that chooses one level, such as one policy.

    Args:
        study: The study.
        default_levels: Default levels, by factor.
    """
    return [click.Option([f"--{factor.name}", f"{_LEVEL_PREFIX}{factor.name}"],
                         default=default_levels.get(factor.name),
                         help=f"Take this {factor.title.lower()} for the cell: a name"
                         f"{' or a .yml file' if factor.file_option else ''} (default: "
                         f"{default_levels.get(factor.name) or 'of the first fitting cell'}).")
            for factor in study.factors]


def build_cell_request(study: Study, option_values: Mapping[str, Any],
                       sets: Mapping[str, str] | None = None) -> RunRequest:
    """Return a request to measure one combination: one level (such as a policy) per factor.

    Factors without a given level have that of the first matching combination.

    Args:
        study: The study.
        option_values: Values of the study's own options, by parameter.
        sets: Settings to use unless an option sets them.
    """
    levels: dict[str, list[str]] = {}
    files: dict[str, list[Path]] = {}
    for factor in study.factors:
        text = option_values[f"{_LEVEL_PREFIX}{factor.name}"]
        if text is not None and factor.file_option and text.endswith((".yml", ".yaml")):
            files[factor.name] = [Path(text)]
        elif text is not None:
            levels[factor.name] = [text]
    open_factors = [factor.name for factor in study.factors
                    if factor.name not in {*levels, *files}]
    if open_factors:
        by_factor = {factor.name: request.read_levels(
            study, factor, levels.get(factor.name, ()), files.get(factor.name, ()))
            for factor in study.factors}
        chosen = {name: values if name in open_factors else values[-1:]
                  for name, values in by_factor.items()}
        with request.convert_study_errors(study, "cells"):
            first = next(iter(study.cells(chosen)), None)
        if first is not None:
            levels |= {name: [first.ids[name]] for name in open_factors}
    asked = explicit_settings(option_values)
    return RunRequest(study, levels=levels, files=files, options=asked, is_single=True,
                      sets={name: text for name, text in (sets or {}).items() if name not in asked})
