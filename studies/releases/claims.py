"""Verdicts on claims of Köder et al. (arXiv 2601.22892), decided by confidence intervals.

Only the abstract of the paper was available. Claims Q1 and Q2 are sentences of the abstract. Claim
Q3 orders combinations of algorithms by the sizes of their messages: a combination with longer
messages takes longer. It has only combinations that the daemons support. The paper's own order is
not known.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from analysis.cells import Cells
from analysis.claims import MORE, Claim, Question, Verdict, judge_claim, unit_of
from analysis.statistics import Sample
from documents.yaml_reader import load_own
from studies.releases.measurements import AUTHENTICATION

_FILE = Path(__file__).parent / "published/claims.yml"
#: The present scheme, and policies that differ from it only in post-quantum algorithms.
_PRESENT = "M5"
_POST_QUANTUM = ("WPA3-ML-KEM", "M17", "WPA3-ML-DSA-44", "WPA3-ML-DSA-65", "M18")
#: Combinations with a hybrid key agreement, from the shortest messages to the longest. A shipped
#: policy and an example may be the same combination.
_BY_SIZE = (("M17", "WPA3-ML-KEM"), ("WPA3-ML-DSA-44",), ("M18", "WPA3-ML-DSA-65"))
#: Resumed sessions of the present scheme and of ML-DSA-65, and ML-DSA-65 without resumption.
_RESUMED_PRESENT, _RESUMED = "WPA3-EAP-TLS-RESUMED", "WPA3-RESUMED-ML-DSA-65"
_FULL = _BY_SIZE[-1]


def judge_claims(cells: Cells) -> list[Verdict]:
    """Judge each claim on every release on which the policies of the claim were measured."""
    questions = {"Q1": list(_ask_latency(cells)), "Q2": list(_ask_resumption(cells)),
                 "Q3": list(_ask_order(cells))}
    documents: list[dict[str, Any]] = load_own(_FILE)
    return [judge_claim(Claim(**document), asked, cells.observations,
                        looks=cells.results.planned_looks)
            for document in documents if (asked := questions[document["id"]])]


def _ask_latency(cells: Cells) -> Iterator[Question]:
    """Yield the questions whether post-quantum algorithms take longer than the present scheme.

    There is one question for each release, scenario and post-quantum policy.
    """
    for release, scenario in _list_places(cells):
        for policy in _POST_QUANTUM:
            yield from _ask_difference(cells, release, scenario, [policy, _PRESENT])


def _ask_resumption(cells: Cells) -> Iterator[Question]:
    """Yield the questions whether resumption reduces the overhead of post-quantum algorithms."""
    for release, scenario in _list_places(cells):
        for full in _FULL:
            yield from _ask_difference(cells, release, scenario,
                                       [full, _PRESENT, _RESUMED, _RESUMED_PRESENT])


def _ask_order(cells: Cells) -> Iterator[Question]:
    """Yield the questions whether combinations with longer messages take longer.

    Each measured combination is compared with the next smaller combination that was measured.
    """
    for release, scenario in _list_places(cells):
        measured = [found for names in _BY_SIZE if (found := next(
            (name for name in names if _has_time(cells, release, name, scenario)), ""))]
        for shorter, longer in pairwise(measured):
            yield from _ask_difference(cells, release, scenario, [longer, shorter])


def _ask_difference(cells: Cells, release: str, scenario: str,
                    policies: Sequence[str]) -> Iterator[Question]:
    """Yield the question whether a difference of mean times is positive.

    Nothing is yielded if one of the policies was not measured.

    Args:
        cells: The measured cells.
        release: Debian release.
        scenario: Name of the scenario.
        policies: Two policies, whose difference is the first mean minus the second mean. Or four
            policies: the difference of the last two is subtracted from that of the first two.
    """
    if not all(_has_time(cells, release, policy, scenario) for policy in policies):
        return
    text = f"{policies[0]} less {policies[1]}"
    if len(policies) > 2:
        text = f"({text}) less ({policies[2]} less {policies[3]})"
    yield Question(f"{text} on {release} in {scenario}",
                   [(AUTHENTICATION.name, release, policy, scenario) for policy in policies],
                   MORE, unit_of(AUTHENTICATION), _subtract_means)


def _list_places(cells: Cells) -> list[tuple[str, str]]:
    """Return the measured combinations of release and scenario, in order."""
    return list(dict.fromkeys((release, scenario)
                              for release, _, scenario in cells.results.cells))


def _has_time(cells: Cells, release: str, policy: str, scenario: str) -> bool:
    return cells.find_value(AUTHENTICATION.name, (release, policy, scenario)) is not None


def _subtract_means(means: Sample) -> Any:
    """Return the difference of the first two means.

    If there are four means, subtract the difference of the last two means from it.
    """
    difference = means[..., 0] - means[..., 1]
    return difference if means.shape[-1] == 2 else difference - (means[..., 2] - means[..., 3])
