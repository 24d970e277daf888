"""Questions that several claims ask: differences and ratios of policies over kinds of scenarios."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from analysis import published
from analysis.claims.finding import MORE, Band, Question, Unit
from analysis.statistics import Sample
from analysis.study.blocks import Cell, Function, measured_places
from analysis.study.model import KIND_TITLES, Kind, Place, Profile, Study

TIME = "authentication_time_s"


def papers(study: Study) -> tuple[Profile, ...]:
    """The policies of the study that are the paper's; claims are about no others."""
    known = {policy for _, policy, _ in study.published}
    return tuple(one for one in study.profiles if one.id in known)


def group(study: Study, name: str) -> list[str]:
    """The paper's policies in the security group that the paper has them in, whatever the weights.

    In order of the study; the baseline is in none.
    """
    members = published.load().groups[name]
    return [one.id for one in papers(study) if one.id in members and one.id != study.baseline]


def kind_words(kind: Kind) -> str:
    """A kind of scenario as it stands within a sentence."""
    return KIND_TITLES[kind].lower()


def cells(study: Study, metric: str, policies: Iterable[str],
          places: Iterable[Place]) -> list[Cell]:
    """The cells of policies in those scenarios where anybody has the metric.

    Where nobody has, a cell that does not exist, so that the question counts as not measured.
    """
    there = measured_places(study, metric, places)
    names = [place.id for place in there] or ["?"]
    return [(metric, policy, name) for policy in policies for name in names]


def more(study: Study, metric: str, first: Sequence[str], second: Sequence[str],
         kind: Kind | None, unit: Unit) -> Question:
    """Whether the mean of the first policies exceeds that of the second, in a kind (None: all)."""
    places = study.places if kind is None else study.of_kind(kind)
    left = cells(study, metric, first, places)
    right = cells(study, metric, second, places)
    label = f"{_names(first)} less {_names(second)}"
    return Question(f"{label}, {kind_words(kind)}" if kind else label, [*left, *right], MORE, unit,
                    halves(len(left)))


def times(study: Study, metric: str, first: Sequence[str], second: Sequence[str], kind: Kind,
          band: Band, unit: Unit) -> Question:
    """Whether the mean of the first policies is a multiple, within a band, of the second's."""
    places = study.of_kind(kind)
    return Question(f"{_names(first)} / {_names(second)}, {kind_words(kind)}",
                    cells(study, metric, first, places), band, unit,
                    below=cells(study, metric, second, places))


def halves(count: int) -> Function:
    """The mean of the first `count` cells less the mean of the rest."""
    def difference(means: Sample) -> Any:
        return means[..., :count].mean(axis=-1) - means[..., count:].mean(axis=-1)

    return difference


def having(study: Study, *, eap: str | None = None, ipsec: bool | None = None,
           link: bool | None = None) -> Iterator[str]:
    """The paper's policies with (or without) layers."""
    for one in papers(study):
        if one.policy is None:
            continue
        layers = one.policy.layers
        asked = ((eap, one.policy.eap_method), (ipsec, layers.ipsec is not None),
                 (link, layers.link is not None))
        if all(want in (None, has) for want, has in asked):
            yield one.id


def _names(policies: Sequence[str]) -> str:
    return " ".join(policies)
