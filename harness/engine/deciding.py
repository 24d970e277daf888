"""Measure until claims or differences are decided (`./qop run --until-decided`).

A claim is a conclusion of a paper that the run can confirm or refute. Differences from the baseline
of policies that no claim is about are decided, too. They count as claims below. `DecisionRule`
judges the claims of the study after the planned repetitions. If a claim is still undecided, the
rule requests more repetitions, and judges again after them. It requests them for the cells that the
claim needs (combinations such as one policy in one scenario).

These judgements, called looks, are planned before the run and stored in the plan (`with_looks`). So
an interrupted run continues by the same rule. The confidence intervals hold over all looks together
(analysis.statistics.sequential).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from harness.engine import request, retries
from harness.engine.plan import Plan, Step
from harness.errors import UserError
from harness.portable.folder import read_manifest
from studies import records as stored
from studies.study import Study

if TYPE_CHECKING:
    from analysis import Results
    from analysis.claims import Verdict
    from analysis.statistics import Looks

#: Whether each measured repetition is good, by the cell's name and the repetition's number.
Tried: TypeAlias = Mapping[str, Mapping[int, bool]]
#: Ids that a line names.
_SHOWN = 6
#: Default number of repetitions of a cell at the last look.
MAX_REPETITIONS = 48


@dataclass
class DecisionRule:
    """A rule that measures more repetitions until the study's claims are decided.

    `line` describes the claims at the last judgement. `open_claims` has the ids of undecided
    claims. The first `line` with such an id also has the claim's words. `noun` is what is judged.
    """

    looks: Looks
    noun: str = field(default="claims", init=False)
    line: str = field(default="", init=False)
    open_claims: tuple[str, ...] = field(default=(), init=False)
    _described: set[str] = field(default_factory=set, init=False)

    def next_block(self, plan: Plan, records: Path) -> list[Step]:
        """Judge the claims, and return the repetitions to measure before the next judgement."""
        import analysis  # numpy and pandas load slowly, and most runs have no rule
        from analysis.cells import Cells
        from analysis.reporting import significance

        folder = records.parent
        try:
            results = analysis.load(folder, plan.study, read_manifest(folder), stored.read_envelope)
            with request.convert_study_errors(plan.study, "report",
                                              passing=analysis.NoResultsError):
                report = plan.study.report(results, {})
                differences = significance.judge_differences(Cells(results), report)
                verdicts: Sequence[Verdict] = (*report.claims, *differences)
                self.noun = " and ".join(noun for noun, some in (
                    ("claims", report.claims), ("differences", differences)) if some) or self.noun
        except (analysis.NoResultsError, UserError) as error:
            self.line, self.open_claims = f"claims cannot be judged: {error}", ()
            return []
        return self.choose_steps(plan, _find_repetitions(results), verdicts)

    def choose_steps(self, plan: Plan, tried: Tried, verdicts: Sequence[Verdict]) -> list[Step]:
        """Return the repetitions that undecided claims need before the next judgement.

        Args:
            plan: The run's plan.
            tried: All repetitions so far.
            verdicts: The verdicts on the claims.
        """
        wanted: dict[int, set[str]] = defaultdict(set)
        at_limit = []
        open_ = [verdict for verdict in verdicts if verdict.verdict == "undecided"]
        for verdict in open_:
            lacking = [pair for cells in verdict.needed
                       for pair in self._missing_repetitions(cells, plan, tried)]
            if not lacking:
                at_limit.append(verdict)
            for cell, number in lacking:
                wanted[number].add(cell)
        cells = {cell.name: cell for cell in plan.cells}
        steps = [step for number, names in sorted(wanted.items())
                 for step in plan.block_steps(number, [cells[name] for name in names])]
        self._describe_claims(verdicts, open_, at_limit, steps)
        return steps

    def _missing_repetitions(self, cells: frozenset[str], plan: Plan,
                             tried: Tried) -> list[tuple[str, int]]:
        """Return the repetitions that a claim of a paper still needs before its next judgement.

        A claim compares its cells by repetition number, so all of them need the same numbers. The
        list is empty after the last planned judgement, or if too many repetitions failed.

        Returns:
            Name of the cell and number of the repetition, for each repetition.
        """
        if not cells or not cells <= {cell.name for cell in plan.cells}:
            return []
        common = [number for number in range(1, self._max_number + 1)
                  if all(tried.get(cell, {}).get(number) for cell in cells)]
        target = self.looks.next_count(len(common))
        usable = [number for number in range(1, self._max_number + 1) if number not in common
                  and all(tried.get(cell, {}).get(number, True) for cell in cells)]
        if target is None or len(usable) < target - len(common):
            return []
        return [(cell, number) for number in usable[:target - len(common)] for cell in cells
                if number not in tried.get(cell, {})]

    @property
    def _max_number(self) -> int:
        """Return the largest repetition number, which allows spare ones for failed repetitions."""
        return self.looks.last_count + int(retries.SPARE_SHARE * self.looks.last_count)

    def _describe_claims(self, verdicts: Sequence[Verdict], open_: Sequence[Verdict],
                         at_limit: Sequence[Verdict], steps: Sequence[Step]) -> None:
        """Set `line` to a text on decided and open claims, and `open_claims` to the open ones."""
        from analysis.table import count_noun

        self.open_claims = tuple(verdict.id for verdict in open_)
        if not verdicts:
            self.line = "this plan has no claims and no differences to decide"
            return
        parts = [f"{len(verdicts) - len(open_)} of {len(verdicts)} {self.noun} decided"]
        going_on = {verdict.id: verdict.says for verdict in open_ if verdict not in at_limit}
        words = {verdict.id: verdict.says for verdict in open_
                 if verdict.id in going_on and not verdict.is_difference}
        if going_on:
            parts.append(f"open: {list_ids(going_on)}, which get "
                         f"{count_noun(len(steps), 'more repetition')} of "
                         f"{count_noun(len({step.cell.name for step in steps}), 'cell')}")
        without = [verdict for verdict in at_limit if not verdict.needed]
        unmeasured = [verdict.id for verdict in without if not verdict.is_difference]
        if unmeasured:
            parts.append(f"not decided by repetitions of this plan: {list_ids(unmeasured)}")
        unlikely = [verdict.id for verdict in without if verdict.is_difference]
        if unlikely:
            parts.append(f"unlikely to be decided by {self.looks.last_count} repetitions: "
                         f"{list_ids(unlikely)}")
        spent = [verdict.id for verdict in at_limit if verdict.needed]
        if spent:
            parts.append(f"undecided at the limit of {self.looks.last_count} repetitions: "
                         f"{list_ids(spent)}")
        self.line = "\n".join(["; ".join(parts), *(
            f"{claim}: {says}" for claim, says in words.items() if claim not in self._described
        ), *(f"{verdict.id} ({verdict.says}) is undecided: {verdict.figure}"
             for verdict in at_limit if not steps and verdict.figure)])
        self._described.update(words)


def list_ids(ids: Collection[str]) -> str:
    """Return ids of claims as text: the first six, and the number of the others."""
    rest = len(ids) - _SHOWN
    return ", ".join([*list(ids)[:_SHOWN], *([f"{rest} more"] if rest > 0 else [])])


def plan_rule(study: Study, folder: Path, repetitions: int,
              max_repetitions: int | None) -> DecisionRule:
    """Return the rule that decides when a run with `--until-decided` stops.

    A continued run keeps the looks (planned judgements) of its results folder.

    Args:
        study: The study.
        folder: The results folder.
        repetitions: Repetitions before the first look.
        max_repetitions: Repetitions at the last look, None for the default.

    Raises:
        UserError: The study makes no claims, or the looks cannot be as requested.
    """
    from analysis.statistics import Looks, plan_looks

    if not study.judges_claims:
        raise UserError(f"--until-decided: {study.id} has no claims that further repetitions "
                        "decide; leave it out, or give --until-ci WIDTH")
    before = read_manifest(folder)
    counts = before.settings.get("looks") if before is not None else None
    if counts:
        looks = Looks(tuple(counts))
        if max_repetitions not in (None, looks.last_count):
            raise UserError(f"--max-repetitions {max_repetitions}: the looks in {folder} were "
                            f"planned up to {looks.last_count}; leave it out, or choose another "
                            "folder with --out")
        return DecisionRule(looks)
    most = max_repetitions or max(MAX_REPETITIONS, 2 * repetitions)
    if most <= repetitions:
        raise UserError(f"--until-decided: {repetitions} repetitions are planned, and it gives up "
                        f"after {most}; give more with --max-repetitions, or fewer with "
                        "--repetitions")
    return DecisionRule(plan_looks(repetitions, most))


def with_looks(plan: Plan, looks: Looks) -> Plan:
    """Return a copy of a plan that contains the planned judgements of its claims."""
    return replace(plan, settings=replace(plan.settings, looks=looks.counts))


def _find_repetitions(results: Results) -> Tried:
    frame = results.frame
    tried: dict[str, dict[int, bool]] = defaultdict(dict)
    columns = [frame[name].tolist() for name in (*results.names, "repetition", "status")]
    for *ids, number, status in zip(*columns, strict=True):
        tried["-".join(ids)][int(number)] = status == "ok"
    return tried
