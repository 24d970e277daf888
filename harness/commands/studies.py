"""`qop studies`: list the studies, and what each of them varies and measures.

A study is a folder that says what is varied (such as policies and scenarios), what is measured, and
how the results are reported. With a study's name, the command lists all its policies, scenarios,
metrics and profiles.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import click

import studies
from guest import image
from guest.root_variants import PackageList
from harness.engine import profiles, progress, request, setup
from harness.engine.progress import format_duration
from harness.engine.request import RunRequest
from harness.errors import UserError
from studies.study import Study, StudyError

#: Number of levels that are shown on a line.
_SHOWN = 12


@click.command("studies", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("study", required=False)
@click.option("--faults", is_flag=True,
              help="List the negative controls of './qop run STUDY --fault NAME' instead.")
def command(study: str | None, faults: bool) -> int:
    """List the studies with their factors, metrics and packages, or one STUDY with all levels.

    The expected duration of each profile on this machine is shown, too. Exit status: 0, or 1 if a
    study's folder lacks a part, or 2 if there is no such study.
    """
    if study is not None:
        with request.convert_refusals():
            chosen = studies.load_study(study)
        _print_study(chosen, faults=faults, max_levels=None)
        return 0
    complaints = []
    for name in (*studies.study_names(), *studies.unfinished_folders()):
        try:
            _print_study(studies.load_study(name), faults=faults, max_levels=_SHOWN)
        except (StudyError, UserError) as error:
            complaints.append(f"qop: {error}")
    for complaint in complaints:
        click.echo(complaint, err=True)
    return int(bool(complaints))


def _print_study(study: Study, *, faults: bool, max_levels: int | None) -> None:
    """Print the description of a study, or its negative controls (deliberate faults)."""
    if faults:
        click.echo(_format_faults(study))
        return
    for line in _describe_study(study, max_levels):
        click.echo(line)


def _format_faults(study: Study) -> str:
    """Return the deliberate faults (negative controls) of a study, each with its effect."""
    titles = {name: fault.title for name in study.faults if (fault := study.find_fault(name))}
    formatter = click.HelpFormatter()
    with formatter.section(study.id):
        formatter.write_dl([(name, f"{title[:1].upper()}{title[1:]}.")
                            for name, title in titles.items()] or [("", "No negative control.")])
    return formatter.getvalue().rstrip("\n")


def _describe_study(study: Study, max_levels: int | None) -> Iterator[str]:
    """Yield the lines that describe a study, with at most `max_levels` levels of a factor."""
    is_default = "  (the default)" if study.id == studies.DEFAULT else ""
    yield f"{study.id}: {study.title}{is_default}"
    if study.paper:
        yield f"  paper: {study.paper}"
    for factor in study.factors:
        levels = [level.id for level in request.read_levels(study, factor)]
        shown = levels[:max_levels]
        more = ", ..." if len(shown) < len(levels) else ""
        unit = f" ({factor.unit})" if factor.unit else ""
        yield f"  factor {factor.name}{unit}: {', '.join(shown)}{more}"
        if factor.other_names and max_levels is None:
            yield f"    also by name: {', '.join(factor.other_names)}"
    for metric in study.metrics:
        better = f", {metric.better} is better" if metric.better else ""
        unit = f" in {metric.unit}" if metric.unit else ""
        yield f"  metric {metric.name}: {metric.title}{unit}{better}"
    with request.convert_refusals():
        brought = setup.read_declared_packages(study.id)
    for name, packages in brought.items():
        yield f"  packages {name}: {_describe_packages(packages)}"
    processors = len(os.sched_getaffinity(0))
    for name in profiles.profile_names(study):
        yield f"  profile {name}: {_describe_profile(study, name, processors)}"


def _describe_packages(packages: PackageList) -> str:
    """Return the additional packages of a study's guest image, and whether it is built."""
    lists = [("Debian's", packages.debian), ("Python's", packages.python),
             ("compiled", setup.list_compiled_packages(packages))]
    brought = "; ".join(f"{where} {', '.join(names)}" for where, names in lists if names)
    state = "built" if image.find_image(packages=packages) else "built when it is first needed"
    return f"{brought}; its guest image is {state}"


def _describe_profile(study: Study, name: str, processors: int) -> str:
    plan = request.build_plan(RunRequest(study, name), {})
    steps = plan.all_steps()
    title = profiles.load_profile(study, name).for_clock(plan.settings.clock).title
    return (f"{title}; {len(steps)} repetitions, about "
            f"{format_duration(progress.estimate_duration_s(plan, steps, processors))} here")
