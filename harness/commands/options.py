"""Options of commands with a study: the engine's own options and the study's."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import click

import studies
from guest.boot import Clock
from harness.engine import builders, profiles, stopping
from harness.engine.request import RunRequest
from harness.engine.results import CAPTURES
from harness.errors import UserError
from studies.study import Study, StudyError

#: Prefixes of a study's own options among a command's parameters.
_LEVELS, _FILES, _SETTING = "levels_of_", "files_of_", "setting_"
#: Type of random seeds, which are 32 bits: the kernel gets them for the random numbers of a
#: channel, together with the channel's number.
SEED = click.IntRange(0, 2**32 - 1)


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
    """

    def __init__(self, name: str, callback: Callable[..., int], *,
                 params: Callable[[Study], list[click.Parameter]],
                 named: Callable[[Sequence[str]], str], naming: str = "--study {}",
                 **settings: Any) -> None:
        self._params = params
        self.named = named
        self._naming = naming
        super().__init__(name, callback=callback, help=callback.__doc__,
                         params=params(studies.load_study(studies.DEFAULT)),
                         context_settings={"help_option_names": ["-h", "--help"], **settings})

    def command_for(self, study: Study) -> click.Command:
        """Return the command for a study."""
        return click.Command(self.name, callback=self.callback, help=self.help,
                             params=self._params(study), context_settings=self.context_settings)

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
        try:
            return command.make_context(info_name, args, parent, **extra)
        except click.UsageError as error:
            if study.id != studies.DEFAULT:  # the default study has the command's own help
                error.ctx = click.Context(
                    command, parent, f"{info_name} {self._naming.format(study.id)}")
            raise


def _with_profile(args: list[str], name: str) -> list[str]:
    """Return the arguments with a study, if they name a profile in its place.

    The profile is then given by --profile.
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
    """Return the values that an option has among arguments."""
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
    """Return a study's own options, for its factors and settings and negative controls."""
    made: list[click.Parameter] = []
    for factor in study.factors:
        if factor.option:
            made.append(click.Option([factor.option, f"{_LEVELS}{factor.name}"], default="",
                                     metavar="LIST", help=factor.help))
        if factor.file_option:
            made.append(click.Option(
                [factor.file_option, f"{_FILES}{factor.name}"], multiple=True, metavar="FILE",
                type=click.Path(path_type=Path), help=factor.file_help))
    made += setting_options(study)
    if study.faults:
        titles = (f"{name}: {fault.title}" for name in study.faults
                  if (fault := study.find_fault(name)))
        made.append(click.Option(
            ["--fault"], type=click.Choice(list(study.faults)), metavar="NAME",
            help="Negative control: spoil one thing and see the cells fail for it. "
                 f"{'; '.join(titles)}."))
    return made


def setting_options(study: Study) -> list[click.Parameter]:
    """Return a study's options for settings of its workload."""
    return [_setting_option(study, name) for name in study.asked.model_fields
            if study.asked.option_of(name)]


def explicit_settings(option_values: Mapping[str, Any]) -> dict[str, str]:
    """Return the settings that have a value from their own option, as texts by name."""
    return {name.removeprefix(_SETTING): text for name, text in option_values.items()
            if name.startswith(_SETTING) and text is not None}


def _setting_option(study: Study, name: str) -> click.Option:
    """Return the option of a setting. Without a value, the profile or the default decides."""
    described = study.asked.model_fields[name]
    choices = get_args(described.annotation) if get_origin(described.annotation) is Literal else ()
    of_profile = profiles.load_profile(study, profiles.DEFAULT).settings
    default = "the profile's" if name in of_profile else described.default
    return click.Option(
        [study.asked.option_of(name), f"{_SETTING}{name}"], metavar=None if choices else "VALUE",
        type=click.Choice(choices) if choices else str,
        help=f"{described.description or ''}  [default: {default}]")


def build_request(study: Study, profile: str, only: Sequence[str], sets: Sequence[str],
                  repetitions: int | None, **option_values: Any) -> RunRequest:
    """Return the request that the options describe.

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
    levels = {name: _split_list(option_values.get(f"{_LEVELS}{name}", ""))
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
        {factor.name: option_values.get(f"{_FILES}{factor.name}", ()) for factor in study.factors},
        explicit_settings(option_values), dict(pairs), repetitions)


def _parse_setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise UserError(f"--set {text}: has no value; give KEY=VALUE")
    return name.strip(), value.strip()


def _split_list(text: str) -> list[str]:
    return list(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))


_FLAGS = (
    click.Option(["--fresh"], is_flag=True, help="Begin a new results folder in any case."),
    click.Option(["--dry-run"], is_flag=True,
                 help="Print cells, order, expected time and disk; measure nothing."),
)


def engine_options(study: Study) -> list[click.Parameter]:
    """Return the options that every study has."""
    metrics = [metric.short for metric in study.metrics if metric.short]
    own = profiles.profile_names(study)
    return [
        click.Option(["--profile"], default=profiles.DEFAULT, show_default=True, metavar="NAME",
                     help=f"How much to measure: {', '.join(own)}, or a .yml file."),
        click.Option(["--only"], multiple=True, metavar="FACTOR=LEVELS",
                     help="Only these levels of a factor, separated by commas: "
                     f"{', '.join(factor.name for factor in study.factors)}. May be repeated."),
        click.Option(["--set", "sets"], multiple=True, metavar="KEY=VALUE",
                     help="A setting of the workload: "
                     f"{', '.join(study.asked.model_fields) or 'none'}. May be repeated."),
        click.Option(["--repetitions"], type=click.IntRange(1, 999),
                     help="Of every cell; default: the profile's."),
        click.Option(["--until-ci"], metavar="WIDTH",
                     help="Go on until 95 % intervals are within this of their means, such as 2%"
                     + (f"; or {','.join(f'{name}:2%' for name in metrics)}." if metrics else ".")),
        click.Option(["--max-repetitions"], type=click.IntRange(2, 999),
                     help="Where --until-ci gives up on a cell.  "
                     f"[default: {stopping.MAX_REPETITIONS}]"),
        # The former name of --max-repetitions.
        click.Option(["--most-repetitions"], type=click.IntRange(2, 999), hidden=True),
        *_run_options(study),
    ]


def _usual_clock(study: Study) -> str:
    """Return the default clock in words."""
    on_host = "; real with --on host" if study.clock == "processor" else ""
    return f"{study.clock}, or the profile's{on_host}"


def _run_options(study: Study) -> list[click.Parameter]:
    """Return options that are equal for every study, except for the default clock."""
    return [
        click.Option(["--clock"], type=click.Choice(get_args(Clock)),
                     show_default=_usual_clock(study),
                     help="By the processor clock what waits is skipped, and computing takes as "
                     "long as the work that was done, on a processor of each node's own; virtual "
                     "time skips what waits, too, and computing takes none of it. Real time waits, "
                     "and has the host's contention in it."),
        click.Option(["--seed"], default=1, show_default=True, type=SEED,
                     help="Decides the order of repetitions."),
        click.Option(["--captures"], type=click.Choice(CAPTURES), default="all", show_default=True,
                     help="Which repetitions' captures to keep."),
        click.Option(["--out"], type=click.Path(path_type=Path, file_okay=False),
                     help="Results folder; default: an unfinished one of the same plan, or a new "
                     "one in results/."),
        *_FLAGS,
        click.Option(["--on"], type=click.Choice(["guest", "host"]), default="guest",
                     show_default=True, help="Embedded guests, or this Linux machine itself (root, "
                     "mac80211_hwsim)."),
        click.Option(["--builder"], type=click.Choice(builders.CHOICES), default=builders.AUTO,
                     envvar="QOP_BUILDER", show_default=True,
                     help="Who makes nodes and radios; auto: the first that works."),
        click.Option(["--cluster"], metavar="WHERE", help="Measure on other machines: a "
                     "scheduler's tls://HOST:PORT whose workers './qop worker' started, or "
                     "ssh:HOST1,HOST2."),
    ]
