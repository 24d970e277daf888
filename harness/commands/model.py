"""`qop model`: what a queueing model predicts, what would change it, and how much it carries."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from harness.commands import showing
from harness.errors import UserError

if TYPE_CHECKING:
    import numpy as np

    from analysis.queueing import Model, QueueingNetwork
    from analysis.table import Table



@click.command("model", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--what-if", "what_ifs", multiple=True, metavar="NAME=NUMBER",
              help="Change the model: STATION.speed, STATION.servers, STATION.rtt_ms, "
                   "CHAIN.rate_per_s, CHAIN.population, or a variant's share. May be repeated.")
@click.option("--capacity", "bounds", multiple=True, metavar="BOUND",
              help="Also say which load keeps to a bound such as 'p95 < 150 ms' or 'mean < 1 s'. "
                   "May be repeated.")
@click.option("--load", "loads", type=float, multiple=True,
              help="Also predict this load of the chain. May be repeated.")
@click.option("--chain", metavar="NAME", help="The chain that loads and bounds are about, where "
                                              "there are several.")
@click.option("--seed", default=1, show_default=True, type=click.IntRange(min=0),
              help="Of what is simulated: percentiles.")
@click.option("--out", type=click.Path(path_type=Path),
              help="Also write the tables into this folder, as report.html, LaTeX, CSV and "
                   "Parquet.")
def command(file: Path, what_ifs: tuple[str, ...], bounds: tuple[str, ...],
            loads: tuple[float, ...], chain: str | None, seed: int, out: Path | None) -> None:
    """Solve the queueing model in FILE: demands, response times, the bottleneck.

    FILE is YAML with stations, chains and their visits, and what was measured of them, if anything
    was; docs/queueing.md describes it. Or it is a results folder of a study with a model: then the
    model is calibrated and judged by what was measured there. Nothing is measured.
    """
    import numpy as np

    from analysis.queueing import QueueingError, load

    try:
        model = _of_results(file) if file.is_dir() else load(file)
        changed = _changed(model.network, what_ifs)
        tables = _tables(model, changed, loads, chain, np.random.default_rng(seed))
        sentences = [f"{version}{sentence}" for version, network in _both(model.network, changed)
                     for sentence in _sentences(network, bounds, chain, seed)]
    except QueueingError as error:
        raise UserError(str(error)) from None
    _print(tables, sentences)
    if out is not None:
        _write(file, tables, sentences, out)


def _of_results(folder: Path) -> Model:
    """The model of a results folder's study, by its measurements. Raises UserError."""
    from analysis.queueing import QueueingError
    from harness.commands import report

    study = report.study_of(folder)
    try:
        model = study.queueing_model(report.load(folder))
    except QueueingError as error:
        raise UserError(f"{folder}: {error}") from None
    if model is None:
        raise UserError(f"{folder}: the study {study.id} has no queueing model; give a model's "
                        "file, as in docs/queueing.md")
    return model


def _changed(network: QueueingNetwork, what_ifs: Sequence[str]) -> QueueingNetwork | None:
    from analysis.queueing import apply, parse_setting

    return apply(network, dict(map(parse_setting, what_ifs))) if what_ifs else None


def _both(network: QueueingNetwork,
          changed: QueueingNetwork | None) -> Sequence[tuple[str, QueueingNetwork]]:
    """What sentences about each network begin with, and the network."""
    return [("", network)] if changed is None else [("As it is: ", network), ("What if: ", changed)]


def _tables(model: Model, changed: QueueingNetwork | None, loads: Sequence[float],
            chain: str | None, rng: np.random.Generator) -> list[Table]:
    """Chains, stations, and predictions where something was measured or is asked for.

    Predictions are of the model as it is: what was measured, was measured of that.
    """
    from analysis import model_tables
    from analysis.queueing import assess

    asked = model.network.chain(chain).name if loads else None
    assessments = {each.name: assess(model.network, model.measured.get(each.name, ()),
                                     chain=each.name, loads=loads if each.name == asked else (),
                                     rng=rng)
                   for each in model.network.chains
                   if model.measured.get(each.name) or each.name == asked}
    tables = model_tables.tables(model.network, changed)
    return [*tables, model_tables.predictions(assessments)] if assessments else tables


def _sentences(network: QueueingNetwork, bounds: Sequence[str], chain: str | None,
               seed: int) -> Iterator[str]:
    """The bottleneck of each chain that is asked about, and its answer to each bound."""
    import numpy as np

    from analysis.queueing import bottleneck, capacity, parse_bound

    for name in [network.chain(chain).name] if chain else [each.name for each in network.chains]:
        limit = bottleneck(network, name)
        yield (f"{name}: {limit.station} saturates first, at {limit.saturation_per_s:.4g} a "
               f"second; it is {limit.utilization:.0%} busy.")
    for bound in map(parse_bound, bounds):
        answer = capacity(network, bound, chain=chain, rng=np.random.default_rng(seed))
        yield f"{answer.sentence()}."


def _print(tables: Sequence[Table], sentences: Sequence[str]) -> None:
    from analysis.present.terminal import terminal

    console = showing.console()
    for table in tables:
        console.print(terminal(table))
    for sentence in sentences:
        click.echo(sentence)


def _write(file: Path, tables: Sequence[Table], sentences: Sequence[str], out: Path) -> None:
    from analysis.present.report import Report, Section

    page = Report(f"The model {file.name}", " ".join(sentences),
                  sections=(Section("model", "Model", "", (), tuple(tables)),))
    showing.write_out(page, out)
