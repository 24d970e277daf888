"""`qop studies`: list the studies and what each of them measures."""

from __future__ import annotations

import os
from collections.abc import Iterator

import click

import studies
from guest import image
from guest.packages import Packages
from harness.engine import preview, profiles, request, variants
from harness.engine.progress import duration_text
from harness.engine.request import RunRequest
from harness.errors import UserError
from studies.study import Study, StudyError

#: Number of levels that are shown on a line.
_SHOWN = 12


@click.command("studies", context_settings={"help_option_names": ["-h", "--help"]})
def command() -> int:
    """List the studies with their factors, metrics and packages.

    The expected duration of each profile on this machine is shown, too. Exit status: 0, or 1 if a
    study's folder lacks a part.
    """
    complaints = []
    for name in (*studies.study_names(), *studies.unfinished_folders()):
        try:
            for line in _describe_study(studies.load_study(name)):
                click.echo(line)
        except (StudyError, UserError) as error:
            complaints.append(f"qop: {error}")
    for complaint in complaints:
        click.echo(complaint, err=True)
    return int(bool(complaints))


def _describe_study(study: Study) -> Iterator[str]:
    """Yield the lines that describe a study."""
    is_default = "  (the default)" if study.id == studies.DEFAULT else ""
    yield f"{study.id}: {study.title}{is_default}"
    if study.paper:
        yield f"  paper: {study.paper}"
    for factor in study.factors:
        levels = [level.id for level in request.read_levels(study, factor)]
        more = ", ..." if len(levels) > _SHOWN else ""
        unit = f" ({factor.unit})" if factor.unit else ""
        yield f"  factor {factor.name}{unit}: {', '.join(levels[:_SHOWN])}{more}"
    for metric in study.metrics:
        better = f", {metric.better} is better" if metric.better else ""
        unit = f" in {metric.unit}" if metric.unit else ""
        yield f"  metric {metric.name}: {metric.title}{unit}{better}"
    with request.convert_refusals():
        brought = variants.declared_packages(study.id)
    for name, packages in brought.items():
        yield f"  packages {name}: {_describe_packages(packages)}"
    processors = len(os.sched_getaffinity(0))
    for name in profiles.profile_names(study):
        yield f"  profile {name}: {_describe_profile(study, name, processors)}"


def _describe_packages(packages: Packages) -> str:
    """Return the packages of a variant of the guest's image, and whether it is built."""
    lists = [("Debian's", packages.debian), ("Python's", packages.python),
             ("compiled", variants.compiled_for(packages))]
    brought = "; ".join(f"{where} {', '.join(names)}" for where, names in lists if names)
    state = "built" if image.find_image(packages=packages) else "built when it is first needed"
    return f"{brought}; its guest image is {state}"


def _describe_profile(study: Study, name: str, processors: int) -> str:
    plan = request.build_plan(RunRequest(study, name), {})
    steps = plan.all_steps()
    title = profiles.load_profile(study, name).for_clock(plan.settings.clock).title
    return (f"{title}; {len(steps)} repetitions, about "
            f"{duration_text(preview.expected_s(plan, steps, processors))} here")
