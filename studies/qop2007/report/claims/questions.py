"""Questions that several claims ask: differences and ratios of policies over kinds of scenarios."""

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


def papers(basis: Basis) -> tuple[ScoredPolicy, ...]:
    """The policies of the basis that are the paper's; claims are about no others."""
    known = {policy for _, policy, _ in basis.published}
    return tuple(policy for policy in basis.policies if policy.id in known)


def group(basis: Basis, name: str) -> list[str]:
    """The paper's policies in the security group that the paper has them in, whatever the weights.

    In order of the study; the baseline is in none.
    """
    members = published.load().groups[name]
    return [policy.id for policy in papers(basis)
            if policy.id in members and policy.id != basis.baseline]


def kind_words(kind: Kind) -> str:
    """A kind of scenario as it stands within a sentence."""
    return KIND_TITLES[kind].lower()


def cells(basis: Basis, metric: str, policies: Iterable[str],
          places: Iterable[Place]) -> list[Key]:
    """The cells of policies in those scenarios where anybody has the metric.

    Where nobody has, a cell that does not exist, so that the question counts as not measured.
    """
    there = basis.measured_places(metric, places)
    names = [place.id for place in there] or ["?"]
    return [(metric, policy, name) for policy in policies for name in names]


def more(basis: Basis, metric: str, first: Sequence[str], second: Sequence[str],
         kind: Kind | None, unit: Unit) -> Question:
    """Whether the mean of the first policies exceeds that of the second, in a kind (None: all)."""
    places = basis.places if kind is None else basis.of_kind(kind)
    left = cells(basis, metric, first, places)
    right = cells(basis, metric, second, places)
    label = f"{_names(first)} less {_names(second)}"
    return Question(f"{label}, {kind_words(kind)}" if kind else label, [*left, *right],
                    finding.more(negligible(basis, metric, places)), unit, halves(len(left)))


def negligible(basis: Basis, metric: str, places: Sequence[Place]) -> float:
    """The difference of a metric that does not matter, in its SI unit.

    Of overheads, as of the goodput that they are differences of, a share of the baseline's; none
    that is known where it was not measured.
    """
    stream = next((each for each in STREAMS.values()
                   if each.difference is not None and each.difference.name == metric), None)
    if stream is None:
        return AUTHENTICATION.negligible
    means = [seen.estimate.mean for place in places
             if (seen := basis.find(stream.name, basis.baseline or "?", place.id))]
    return stream.negligible * sum(means) / len(means) if means else 0.0


def times(basis: Basis, metric: str, first: Sequence[str], second: Sequence[str], kind: Kind,
          band: Band, unit: Unit) -> Question:
    """Whether the mean of the first policies is a multiple, within a band, of the second's."""
    places = basis.of_kind(kind)
    return Question(f"{_names(first)} / {_names(second)}, {kind_words(kind)}",
                    cells(basis, metric, first, places), band, unit,
                    below=cells(basis, metric, second, places))


def halves(count: int) -> Function:
    """The mean of the first `count` cells less the mean of the rest."""
    def difference(means: Sample) -> Any:
        return means[..., :count].mean(axis=-1) - means[..., count:].mean(axis=-1)

    return difference


def having(basis: Basis, *, eap: str | None = None, ipsec: bool | None = None,
           link: bool | None = None) -> Iterator[str]:
    """The paper's policies with (or without) layers."""
    for policy in papers(basis):
        if policy.definition is None:
            continue
        layers = policy.definition.layers
        asked = ((eap, policy.definition.eap_method), (ipsec, layers.ipsec is not None),
                 (link, layers.link is not None))
        if all(want in (None, has) for want, has in asked):
            yield policy.id


def _names(policies: Sequence[str]) -> str:
    return " ".join(policies)
