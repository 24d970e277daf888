"""`qop bench`: what the harness itself costs, measured."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import click

import studies

#: What can be measured besides: the module, and which options it takes.
_OTHERS: dict[str, tuple[str, tuple[str, ...]]] = {
    "medium": ("harness.selftest.medium_bench", ("runs",)),
    "report": ("harness.commands.report_bench", ("records",)),
    "paper": ("harness.selftest.paper_bench", ()),
    "clock": ("harness.selftest.clock_bench", ("runs", "out")),
    "cluster": ("harness.selftest.cluster_bench", ("runs",)),
    "faults": ("harness.selftest.faults_bench", ("faults", "seed", "study")),
    "model": ("harness.selftest.model_bench", ()),
    "proof": ("harness.selftest.proof_bench", ("out", "controls"))}


@click.command("bench", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("what", default="harness", type=click.Choice(["harness", *_OTHERS]))
@click.option("--runs", default=3, show_default=True, type=click.IntRange(1, 50))
@click.option("--cold", is_flag=True, help="Also build the guest image into an empty cache.")
@click.option("--records", default=100_000, show_default=True, type=click.IntRange(60, 10_000_000),
              help="How many records to report on (with `report`).")
@click.option("--faults", default=200, show_default=True, type=click.IntRange(1, 100_000),
              help="How many faults to inject (with `faults`).")
@click.option("--seed", default=1, show_default=True,
              help="Decides which faults come when (with `faults`).")
@click.option("--study", default=studies.DEFAULT, show_default=True,
              type=click.Choice(studies.names()), help="Whose runs to disturb (with `faults`).")
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), metavar="FOLDER",
              help="Where to keep what was measured (with `clock` and `proof`); default: "
              "results/clock and results/proof.")
@click.option("--control", "controls", multiple=True, metavar="NAME",
              help="A negative control (with `proof`), and its cell without it; may be given "
              "several times. Default: all.")
def command(what: str, cold: bool, **options: Any) -> int:
    """Measure the harness itself: start-up, fixed cost, processor and memory of a guest.

    With `medium`, measure the emulated air against what 802.11's timing allows. With `report`, the
    time and memory that the report of a large study takes, whose records are made up. With
    `paper`, a tenth of the default study's profile of that name in virtual time, and what that
    says of all of it. With `clock`, the processor clock beside real time, and alone, beside guests
    and beside other programs (goes on where it was interrupted). With
    `cluster`, one plan with one worker and with two. With `faults`, kill, hang, fill and damage
    whatever a run depends on, and count what it loses. With `model`, what the queueing toolkit's
    answers take. With `proof`, every negative control against every check of the evidence; what is
    there already is not measured again. (All but `model` and `report` take minutes each.)

    Medians with ranges. They hold for this machine at this moment; compare within one call.
    """
    if what in _OTHERS:
        module, taken = _OTHERS[what]
        bench = importlib.import_module(module).bench
        return int(bench(*(options[name] for name in taken)) or 0)
    from harness.selftest import harness_bench

    harness_bench.bench(options["runs"], cold=cold)
    return 0
