"""Questions for several claims: differences and ratios of policies over kinds of scenarios."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from analysis.blocks import Function
from analysis.cells import Key
from analysis.claims import finding
from analysis.claims.finding import Band, Question, Unit, unit_of
from analysis.statistics import Sample
from studies.qop2007 import published
from studies.qop2007.metrics import AUTHENTICATION, STREAMS
from studies.qop2007.report.basis import KIND_TITLES, Basis, Kind, Place, ScoredPolicy

TIME = AUTHENTICATION.name
MILLISECONDS = unit_of(AUTHENTICATION)
KILOBITS = Unit("kbit/s", 1e-3)
PACKETS = Unit("packets")
VARIANCE = Unit("1000 (kbit/s)\N{SUPERSCRIPT TWO}", 1e-9)


def papers_policies(basis: Basis) -> tuple[ScoredPolicy, ...]:
    """Return the policies of the basis that are the paper's. Claims are about no others."""
    known = {policy for _, policy, _ in basis.published}
    return tuple(policy for policy in basis.policies if policy.id in known)


def papers_group(basis: Basis, name: str) -> list[str]:
    """Return the paper's policies in a security group of the paper, whatever the weights.

    They are in order of the study. The baseline is in no group.
    """
    members = published.load().groups[name]
    return [policy.id for policy in papers_policies(basis)
            if policy.id in members and policy.id != basis.baseline]


def kind_words(kind: Kind) -> str:
    """Return the name of a kind of scenario for use inside a sentence."""
    return KIND_TITLES[kind].lower()


def cell_keys(basis: Basis, metric: str, policies: Iterable[str],
              places: Iterable[Place]) -> list[Key]:
    """Return the cells of policies in the scenarios where any policy has the metric.

    If there are none, the cells do not exist, so that the question counts as not measured.
    """
    there = basis.measured_places(metric, places)
    names = [place.id for place in there] or ["?"]
    return [(metric, policy, name) for policy in policies for name in names]


def difference_question(basis: Basis, metric: str, first: Sequence[str], second: Sequence[str],
                        kind: Kind | None, unit: Unit) -> Question:
    """Ask whether the first policies' mean exceeds the second ones'.

    The mean is over the scenarios of a kind, or over all.
    """
    places = basis.places if kind is None else basis.of_kind(kind)
    left = cell_keys(basis, metric, first, places)
    right = cell_keys(basis, metric, second, places)
    label = f"{_join_names(first)} less {_join_names(second)}"
    return Question(f"{label}, {kind_words(kind)}" if kind else label, [*left, *right],
                    finding.positive_band(negligible_difference(basis, metric, places)), unit,
                    halves_difference(len(left)))


def negligible_difference(basis: Basis, metric: str, places: Sequence[Place]) -> float:
    """Return the difference of a metric that does not matter, in its SI unit.

    For overheads and for the goodput behind them it is a share of the baseline's goodput, or 0
    where that was not measured.
    """
    stream = next((each for each in STREAMS.values()
                   if each.difference is not None and each.difference.name == metric), None)
    if stream is None:
        return AUTHENTICATION.negligible
    means = [seen.estimate.mean for place in places
             if (seen := basis.find_observation(stream.name, basis.baseline or "?", place.id))]
    return stream.negligible * sum(means) / len(means) if means else 0.0


def ratio_question(basis: Basis, metric: str, first: Sequence[str], second: Sequence[str],
                   kind: Kind,
                   band: Band, unit: Unit) -> Question:
    """Ask whether the first policies' mean is a multiple of the second ones'.

    The multiple must lie within a band.
    """
    places = basis.of_kind(kind)
    return Question(f"{_join_names(first)} / {_join_names(second)}, {kind_words(kind)}",
                    cell_keys(basis, metric, first, places), band, unit,
                    below=cell_keys(basis, metric, second, places))


def halves_difference(count: int) -> Function:
    """Return a function: the first `count` cells' mean minus the others'."""
    def difference(means: Sample) -> Any:
        return means[..., :count].mean(axis=-1) - means[..., count:].mean(axis=-1)

    return difference


def policies_having(basis: Basis, *, eap: str | None = None, ipsec: bool | None = None,
                    link: bool | None = None) -> Iterator[str]:
    """Yield the paper's policies with (or without) certain layers."""
    for policy in papers_policies(basis):
        if policy.definition is None:
            continue
        layers = policy.definition.layers
        asked = ((eap, policy.definition.eap_method), (ipsec, layers.ipsec is not None),
                 (link, layers.link is not None))
        if all(want in (None, has) for want, has in asked):
            yield policy.id


def _join_names(policies: Sequence[str]) -> str:
    return " ".join(policies)
