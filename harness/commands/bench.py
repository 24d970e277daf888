"""`qop bench`: measure speed, accuracy and robustness of qop itself.

The argument names the benchmark, such as `medium`: the emulated 802.11 medium compared with the
limits of 802.11 timing. Each benchmark is a module of the package `bench`, which prints its
figures.
"""

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
class Benchmark:
    """A benchmark of qop: its module, the options that it uses, and its calibration workload."""

    module: str
    takes: tuple[str, ...] = ()
    yardsticks: str = _GUEST


#: Module that measures this machine's speeds.
_YARDSTICKS = "bench.machine_speed"
_BENCHES = {
    "harness": Benchmark("bench.harness", ("runs", "cold", "scales")),
    "medium": Benchmark("bench.medium", ("runs",)),
    "report": Benchmark("bench.report", ("records",), _CORE),
    "quick": Benchmark("bench.quick", ("clock", "scales")),
    "paper": Benchmark("bench.paper", ("scales",)),
    "clock": Benchmark("bench.clock", ("runs", "out", "scales")),
    "cluster": Benchmark("bench.cluster", ("runs",)),
    "faults": Benchmark("bench.faults", ("faults", "seed", "study"), _NONE),
    "explain": Benchmark("bench.explain", ("faults", "seed", "out", "controls"), _NONE),
    "explain-size": Benchmark("bench.explain_size", ("megabytes",), _CORE),
    "mutations": Benchmark("bench.mutations", ("faults", "seed", "out"), _NONE),
    "model": Benchmark("bench.model", (), _CORE),
    "proof": Benchmark("bench.proof", ("out", "controls"), _NONE),
    "cards": Benchmark("bench.cards", ("kills", "out"), _NONE)}


@click.command("bench", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("what", default="harness", type=click.Choice(list(_BENCHES)))
@click.option("--runs", default=3, type=click.IntRange(1, 50),
              help="Measure this many times (default: 3).")
@click.option("--cold", is_flag=True, help="Also build the guest image into an empty cache.")
@click.option("--records", default=100_000, type=click.IntRange(60, 10_000_000),
              help="Report on this many records, with 'report' (default: 100000).")
@click.option("--megabytes", default=1000, type=click.IntRange(10, 100_000),
              help="Explain captures up to this size in MB, with 'explain-size' (default: 1000).")
@click.option("--faults", default=200, type=click.IntRange(1, 100_000),
              help="Make this many faults or captures, with 'faults', 'explain' and 'mutations' "
              "(default: 200).")
@click.option("--kills", default=50, type=click.IntRange(0, 1000),
              help="Kill so many measurements and so many runs, with 'cards' (default: 50).")
@click.option("--clock", type=click.Choice(get_args(Clock)), default="processor",
              help="Measure by this clock, with 'quick' (default: processor).")
@click.option("--seed", default=1, type=SEED,
              help="Draw faults by this seed, with 'faults', 'explain' and 'mutations' (default: "
              "1).")
@click.option("--study", default=studies.DEFAULT,
              type=click.Choice(studies.study_names()),
              help="Disturb runs of this study, with 'faults' "
              f"(default: {studies.DEFAULT}).")
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), metavar="FOLDER",
              help="Keep the results here, with 'cards', 'clock', 'explain', 'mutations' and "
              "'proof' (default: results/ and the benchmark's name).")
@click.option("--control", "controls", multiple=True, metavar="NAME",
              help="Run this negative control, and its cell without it, with 'proof'; make this "
              "fault only, with 'explain' (may be repeated; default: all).")
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

    explain: blind trials of 'qop explain'. A program makes drawn faults in guests, and another one
    finds their causes in the captures. An interrupted bench continues where it stopped.

    explain-size: time and memory of 'qop explain' for a large capture, a tenth and a hundredth.

    mutations: 'qop explain' of damaged captures. An interrupted bench continues.

    model: time for answers of the queueing models.

    proof: every negative control against every check. Earlier results are not measured again.

    cards: commands with cards in a virtual machine (QEMU) with Debian's kernel, also killed ones.

    All but model and report take several minutes. The output has medians with ranges. They hold for
    this machine and moment, and its yardsticks are printed first. Compare values of one call only.
    """
    bench = _BENCHES[what]
    _refuse_of_others(what, bench)
    if bench.yardsticks:
        machine_speed = importlib.import_module(_YARDSTICKS)
        if bench.yardsticks == _GUEST:
            options["scales"] = machine_speed.measure_machine_speeds()
            click.echo(options["scales"].format_line())
        else:
            click.echo(machine_speed.format_core_speed())
    run = importlib.import_module(bench.module).run_bench
    return int(run(**{name: options[name] for name in bench.takes}) or 0)


def _refuse_of_others(what: str, bench: Benchmark) -> None:
    """Raise UserError for options that the chosen benchmark does not use."""
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
