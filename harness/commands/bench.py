"""`qop bench`: benchmarks of the harness itself."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import click
from click.core import ParameterSource

import studies
from guest.boot import Clock
from harness.commands.options import SEED
from harness.errors import UserError

#: Kind of the yardsticks that are printed first: of a guest, or of a core for benchmarks without
#: guests. Benchmarks that only count need none.
_GUEST, _CORE, _NONE = "guest", "core", ""


@dataclass(frozen=True)
class Bench:
    """A benchmark with the options that it uses and its kind of yardsticks."""

    module: str
    takes: tuple[str, ...] = ()
    yardsticks: str = _GUEST


_BENCHES = {
    "harness": Bench("harness.selftest.harness_bench", ("runs", "cold", "scales")),
    "medium": Bench("harness.selftest.medium_bench", ("runs",)),
    "report": Bench("harness.commands.report_bench", ("records",), _CORE),
    "quick": Bench("harness.selftest.quick_bench", ("clock", "scales")),
    "paper": Bench("harness.selftest.paper_bench", ("scales",)),
    "clock": Bench("harness.selftest.clock_bench", ("runs", "out", "scales")),
    "cluster": Bench("harness.selftest.cluster_bench", ("runs",)),
    "faults": Bench("harness.selftest.faults_bench", ("faults", "seed", "study"), _NONE),
    "model": Bench("harness.selftest.model_bench", (), _CORE),
    "proof": Bench("harness.selftest.proof_bench", ("out", "controls"), _NONE)}


@click.command("bench", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("what", default="harness", type=click.Choice(list(_BENCHES)))
@click.option("--runs", default=3, show_default=True, type=click.IntRange(1, 50))
@click.option("--cold", is_flag=True, help="Also build the guest image into an empty cache.")
@click.option("--records", default=100_000, show_default=True, type=click.IntRange(60, 10_000_000),
              help="How many records to report on (with `report`).")
@click.option("--faults", default=200, show_default=True, type=click.IntRange(1, 100_000),
              help="How many faults to inject (with `faults`).")
@click.option("--clock", type=click.Choice(get_args(Clock)), default="processor",
              show_default=True, help="What time passes by (with `quick`).")
@click.option("--seed", default=1, show_default=True, type=SEED,
              help="Decides which faults come when (with `faults`).")
@click.option("--study", default=studies.DEFAULT, show_default=True,
              type=click.Choice(studies.study_names()),
              help="Whose runs to disturb (with `faults`).")
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), metavar="FOLDER",
              help="Where to keep what was measured (with `clock` and `proof`); default: "
              "results/clock and results/proof.")
@click.option("--control", "controls", multiple=True, metavar="NAME",
              help="A negative control (with `proof`), and its cell without it; may be given "
              "several times. Default: all.")
def command(what: str, **options: Any) -> int:
    """Measure the harness itself.

    harness: start-up, fixed cost, CPU time and memory of a guest (default).

    medium: the emulated medium compared with the limits of 802.11 timing.

    report: time and memory for the report of a large study with synthetic records.

    quick: duration of the default study's default profile, measured completely.

    paper: a tenth of the default study's profile 'paper', with an estimate for the whole profile.

    clock: the processor clock compared with real time: alone, with other guests, and with other
    programs. An interrupted measurement continues where it stopped.

    cluster: one plan with one worker and with two workers.

    faults: kill, hang, fill and damage what a run depends on, and count what is lost.

    model: time for answers of the queueing models.

    proof: every negative control against every check. Earlier results are not measured again.

    All but model and report take several minutes. The output has medians with ranges. They hold for
    this machine and moment, and its yardsticks are printed first. Compare values of one call only.
    """
    bench = _BENCHES[what]
    _refuse_of_others(what, bench)
    if bench.yardsticks:
        from harness.selftest import yardsticks

        if bench.yardsticks == _GUEST:
            options["scales"] = yardsticks.measure_embedded()
            click.echo(options["scales"].format_line())
        else:
            click.echo(yardsticks.core_line())
    run = importlib.import_module(bench.module).run_bench
    return int(run(**{name: options[name] for name in bench.takes}) or 0)


def _refuse_of_others(what: str, bench: Bench) -> None:
    """Raise UserError for options that only other benchmarks use."""
    context = click.get_current_context(silent=True)
    if context is None:  # called as a function, without options of a command line
        return
    for parameter in context.command.params:
        name = parameter.name or ""
        if name != "what" and name not in bench.takes and context.get_parameter_source(
                name) is ParameterSource.COMMANDLINE:
            takers = [other for other, its in _BENCHES.items() if name in its.takes]
            raise UserError(f"bench {what}: {parameter.opts[0]} is for {' and '.join(takers)}; "
                            "leave it out")
