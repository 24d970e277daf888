"""`qop model`: answer questions with a queueing model, such as response times under load.

The argument is a YAML file with the model's servers and transactions, or a results folder whose
study has a model. The command prints tables with response times, utilizations and the bottleneck.
Options ask what would change with other servers (`--what-if`), or for the largest load within a
response time (`--capacity`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console

from harness.commands import output
from harness.errors import UserError

if TYPE_CHECKING:
    from analysis.queueing import Model, NetworkEstimate, QueueingNetwork
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
@click.option("--chain", metavar="NAME", help="Apply --load and --capacity to this chain (default: "
              "the only one).")
@click.option("--seed", default=1, type=click.IntRange(min=0),
              help="Simulate with this seed (default: 1).")
@click.option("--out", type=click.Path(path_type=Path),
              help="Also write the tables into this folder, as report.html, LaTeX, CSV and Parquet "
              "(default: nothing is written).")
def command(file: Path, what_ifs: tuple[str, ...], bounds: tuple[str, ...],
            loads: tuple[float, ...], chain: str | None, seed: int, out: Path | None) -> None:
    """Solve the queueing model in FILE: demands, response times and the bottleneck.

    FILE is YAML with stations, chains and their visits, and with measurements if there are any.
    docs/queueing.md describes the format. FILE may also be a results folder of a study with a
    model. The model is then calibrated and checked by the folder's measurements. This command
    measures nothing.
    """
    from analysis.queueing import QueueingError, load_model

    try:
        model = _model_from_results(file) if file.is_dir() else load_model(file)
        questions = _ModelQuestions(model, _apply_what_ifs(model.network, what_ifs), chain, seed,
                                    bounds)
        tables = questions.answer_tables(loads)
        sentences = _print_answers(tables, questions.answer_sentences())
    except QueueingError as error:
        raise UserError(str(error)) from None
    if out is not None:
        _write_report(file, tables, sentences, out)
    if questions.problems:
        raise UserError(" | ".join(questions.problems))
    if questions.has_doubt:
        raise UserError(f"{file}: the simulation was too short for an answer; see above", status=1)


def _model_from_results(folder: Path) -> Model:
    """Return the queueing model of a results folder's study, fitted to its measurements.

    Raises:
        UserError: The study has no queueing model, or the measurements do not suffice.
    """
    from analysis.queueing import QueueingError
    from harness.commands import report

    study = report.find_folder_study(folder)
    try:
        model = study.queueing_model(report.load_results(folder))
    except QueueingError as error:
        raise UserError(f"{folder}: {error}") from None
    if model is None:
        raise UserError(f"{folder}: the study {study.id} has no queueing model; give a model's "
                        "file, as in docs/queueing.md")
    return model


def _apply_what_ifs(network: QueueingNetwork, what_ifs: Sequence[str]) -> QueueingNetwork | None:
    from analysis.queueing import apply_settings, parse_setting

    return apply_settings(network, dict(map(parse_setting, what_ifs))) if what_ifs else None


class _ModelQuestions:
    """Answers to the user's questions about a queueing model, as it is and as --what-if changes it.

    `problems` lists what could not be answered. `has_doubt` is set if a simulation was too short.
    """

    def __init__(self, model: Model, changed: QueueingNetwork | None, chain: str | None,
                 seed: int, bounds: Sequence[str]) -> None:
        import numpy as np

        from analysis.queueing import parse_bound

        self.model, self.chain, self.seed = model, chain, seed
        self.versions = [("", model.network)] if changed is None else [
            ("As it is: ", model.network), ("What if: ", changed)]
        if chain is not None:
            model.network.chain(chain)  # raises an error before the simulation
        self.bounds = [parse_bound(bound) for bound in bounds]
        self.bounded = self._one_chain("--capacity") if bounds else None
        self.rng = np.random.default_rng(seed)
        self.answers: list[NetworkEstimate] = []
        self.problems: list[str] = []
        self.has_doubt = False

    def answer_tables(self, loads: Sequence[float]) -> list[Table]:
        """Return tables of the model's transactions and servers, and predictions under load.

        Predictions are made with the unchanged model, because measurements belong to that model.
        """
        from analysis.queueing import assess_model, estimate_network
        from analysis.reporting import model_tables

        asked = self._one_chain("--load") if loads else None
        with _show_progress() as progress:
            for version, network in self.versions:
                answer = estimate_network(network, self.rng, progress=progress)
                self.answers.append(answer)
                self.problems += [f"{version}{problem}" for problem in answer.problems]
            assessments = {each.name: assess_model(
                self.model.network, self.model.measured.get(each.name, ()), chain=each.name,
                loads=loads if each.name == asked else (), rng=self.rng, progress=progress)
                for each in self.model.network.chains
                if self.model.measured.get(each.name) or each.name == asked}
        self.problems += [str(problem) for each in assessments.values()
                          for problem in each.problems]
        tables = model_tables.make_model_tables([network for _, network in self.versions],
                                                self.answers)
        return [*tables, model_tables.make_prediction_table(assessments)] if assessments else tables

    def answer_sentences(self) -> Iterator[str]:
        """Yield sentences: the bottleneck of each kind of transaction, and answers to `--bound`."""
        import numpy as np

        from analysis.queueing import QueueingError, find_capacity

        for (version, network), answer in zip(self.versions, self.answers, strict=True):
            for each in network.chains:
                if self.chain in (None, each.name):
                    yield version + self._describe_bottleneck(network, answer, each.name)
            for bound in self.bounds:
                try:
                    with _show_progress() as progress:
                        found = find_capacity(network, bound, chain=self.bounded,
                                              rng=np.random.default_rng(self.seed),
                                              progress=progress)
                except QueueingError as error:
                    if f"{version}{error}" not in self.problems:
                        self.problems.append(f"{version}{error}")
                    continue
                self.has_doubt |= not found.is_known
                yield f"{version}{found.to_sentence()}."

    def _one_chain(self, option: str) -> str:
        """Return the kind of transaction (chain) that an option is about.

        Raises UserError if the model has several.
        """
        network = self.model.network
        if self.chain is None and len(network.chains) > 1:
            names = ", ".join(chain.name for chain in network.chains)
            raise UserError(f"{option}: the model has several chains ({names}); say which one by "
                            f"--chain, for example --chain {network.chains[0].name}")
        return network.chain(self.chain).name

    def _describe_bottleneck(self, network: QueueingNetwork, answer: NetworkEstimate,
                             chain: str) -> str:
        from analysis.queueing import QueueingError, find_bottleneck

        try:
            limit = find_bottleneck(network, chain)
        except QueueingError:
            return f"{chain}: it visits delays only, and nothing limits its load."
        [busy] = [each.utilization for each in answer.stations if each.name == limit.station]
        share = limit.utilization if busy is None or limit.utilization >= 1 else busy.value
        sentence = (f"{chain}: {limit.station} saturates first, at {limit.saturation_per_s:.4g} a "
                    f"second; ")
        if share >= 1 and busy is not None and answer.chain(chain).response_s is None:
            return sentence + f"open chains bring {share:.1%} of what it can serve."
        return sentence + f"it is {share:.0%} busy."


@contextlib.contextmanager
def _show_progress() -> Iterator[Callable[[int, int], None] | None]:
    """Show the progress of a simulation on a terminal, inside this context."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield None
        return
    with console.status("") as status:
        yield lambda made, limit: status.update(
            f"simulating: {made:,} visits (up to {limit:,}); Ctrl-C ends it")


def _print_answers(tables: Sequence[Table], sentences: Iterable[str]) -> list[str]:
    """Print the tables and each sentence as soon as it is known, and return the sentences."""
    from analysis.present.terminal import to_console

    console = output.make_console()
    for table in tables:
        console.print(to_console(table))
    printed = []
    for sentence in sentences:
        click.echo(sentence)
        printed.append(sentence)
    return printed


def _write_report(file: Path, tables: Sequence[Table], sentences: Sequence[str], out: Path) -> None:
    from analysis.present.report import Report, Section

    page = Report(f"The model {file.name}", " ".join(sentences),
                  sections=(Section("model", "Model", "", (), tuple(tables)),))
    output.write_out(page, out)
