"""Verdicts on a claim of Köder et al. (arXiv 2601.22892), decided by confidence intervals."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from analysis.cells import Cells, Ids
from analysis.claims import MORE, Claim, Question, Verdict, judge_claim, unit_of
from analysis.statistics import Sample
from documents.yaml_reader import load_own
from studies.releases.measurements import AUTHENTICATION

_FILE = Path(__file__).parent / "published/claims.yml"
#: The present scheme, and policies that differ from it by post-quantum algorithms alone.
_PRESENT = "M5"
_POST_QUANTUM = ("WPA3-ML-KEM", "WPA3-ML-DSA-44", "WPA3-ML-DSA-65")


def judge_claims(cells: Cells) -> list[Verdict]:
    """Judge the claim on every release that measured post-quantum policies, if there is one."""
    questions = list(_ask_latency(cells))
    documents: list[dict[str, Any]] = load_own(_FILE)
    return [judge_claim(Claim(**document), questions, cells.observations,
                        looks=cells.results.planned_looks)
            for document in documents if questions]


def _ask_latency(cells: Cells) -> Iterator[Question]:
    measured = set(cells.results.cells)
    for release, policy, scenario in cells.results.cells:
        present: Ids = (release, _PRESENT, scenario)
        if policy in _POST_QUANTUM and present in measured and (
                cells.find_value(AUTHENTICATION.name, (release, policy, scenario))):
            yield Question(
                f"{policy} less {_PRESENT} on {release} in {scenario}",
                [(AUTHENTICATION.name, release, policy, scenario),
                 (AUTHENTICATION.name, *present)], MORE, unit_of(AUTHENTICATION), _subtract_means)


def _subtract_means(means: Sample) -> Any:
    """Return the first mean minus the second one."""
    return means[..., 0] - means[..., 1]
