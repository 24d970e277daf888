"""Read the weights of protection features, by which policies are ranked by strength.

`load_weights` takes a YAML file, or none for Table 2 of the 2007 paper (Agarwal and Wang), and
returns `Weights`. A feature is a kind of protection, such as confidentiality. An `Implementation`,
such as a cipher, has a weight for each of its features. `analysis/protection.py` adds the weights
of a policy, and assigns it to a group (`GroupLimits`): low, middle or high.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal, Self, TypeAlias

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)

from documents.refusals import explain_refusal
from documents.unquoted import validate_values
from policies.document import read_document
from policies.errors import PolicyError, advise_choice, make_fault, show_value
from policies.fields import PolicyName
from policies.policy import KNOWN_FACTS, FactConditions, Policy, facts_from_policy, is_fulfilled

#: A security feature, by its name in a file of weights.
Feature: TypeAlias = str
#: Features in the order of Table 2's columns, with their titles.
FEATURES: Mapping[Feature, str] = {
    "authentication": "Authentication", "mutual_authentication": "Mutual auth.",
    "confidentiality": "Confidentiality", "data_integrity": "Data integrity",
    "non_repudiation": "Non-repudiation"}
DEFAULT = Path(__file__).with_name("weights.yml")
#: Weights of today, in addition to the paper's.
TODAYS = Path(__file__).with_name("weights-2026.yml")

_CONFIG = ConfigDict(frozen=True, extra="forbid", strict=True)
_LARGEST = 1e6  # a larger weight is a typing error


def _check_weight(value: object) -> object:
    """Accept a weight that is a whole number, or the text of a decimal number."""
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            raise make_fault(f"{show_value(value)} is not a number",
                             "write one such as 2 or 1.5") from None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise make_fault(f"{show_value(value)} is not a number", "write one such as 2 or 1.5")
    if not (math.isfinite(value) and 0 <= value <= _LARGEST):
        raise make_fault(f"{value:g} cannot be a weight", "write a number from 0 up")
    return float(value)


def _check_conditions(when: FactConditions) -> FactConditions:
    for key, words in when.items():
        if key not in KNOWN_FACTS:
            raise make_fault(f"{show_value(key)} is nothing that a policy says",
                             advise_choice(key, KNOWN_FACTS), (key,))
        for word in words:
            if word not in KNOWN_FACTS[key]:
                raise make_fault(f"{key} is never {show_value(word)}",
                                 advise_choice(word, KNOWN_FACTS[key]), (key,))
    if not when or not all(when.values()):
        raise make_fault("when is empty, so it would hold for every policy", "write a condition")
    return when


def _check_feature_names(features: Mapping[Feature, str]) -> Mapping[Feature, str]:
    for name in features:
        if not re.fullmatch(r"[a-z][a-z_]{0,39}", name):
            raise make_fault(f"{show_value(name)} cannot name a feature",
                             "write lower case letters and _")
    return features


def _check_feature(name: str, known: Mapping[Feature, str], at: tuple[str, ...]) -> None:
    if name not in known:
        raise make_fault(f"{show_value(name)} is not a feature", advise_choice(name, known), at)


Weight = Annotated[float, BeforeValidator(_check_weight)]


class Implementation(BaseModel):
    """An implementation of protection features, such as a cipher, with its weights.

    Conditions say which policies have it.
    """

    model_config = _CONFIG

    name: PolicyName
    source: Literal["table-2", "extension"] = "extension"
    when: Annotated[Mapping[str, list[str]], AfterValidator(_check_conditions)]
    weights: Mapping[Feature, Weight]


class GroupLimits(BaseModel):
    """The limits of the groups low, middle and high, in percent of the largest sum of weights."""

    model_config = _CONFIG

    middle: Weight = Field(description="Below it a policy is in the low group.")
    high: Weight = Field(description="Above it a policy is in the high group.")

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.middle > self.high:
            raise make_fault("middle begins above high", "write the smaller one as middle",
                             ("middle",))
        return self


class Weights(BaseModel):
    """All implementations with their weights, and the groups of policies.

    `once` has the features of which only the policy's largest weight counts. The weights of any
    other feature are added.
    """

    model_config = _CONFIG

    title: PolicyName = "2007"
    features: Annotated[Mapping[Feature, PolicyName],
                        AfterValidator(_check_feature_names)] = FEATURES
    once: list[Feature] = []
    #: Features of which a policy must have one; else it is not recommended, whatever its sum.
    needed: list[Feature] = []
    #: Policy that has 100 percent: the strongest of those compared, or the best of all features
    #: together.
    hundred: Literal["strongest", "attainable"] = "strongest"
    groups: GroupLimits
    implementations: Mapping[str, Implementation]

    @model_validator(mode="after")
    def _features_are_known(self) -> Self:
        for key, names in (("once", self.once), ("needed", self.needed)):
            for feature in names:
                _check_feature(feature, self.features, (key,))
        for key, implementation in self.implementations.items():
            for feature in implementation.weights:
                _check_feature(feature, self.features,
                               ("implementations", key, "weights", feature))
        if self.hundred == "attainable" and set(self.once) != set(self.features):
            raise make_fault("a feature outside once has no largest sum, which attainable needs",
                             "name all features in once, or leave out hundred", ("hundred",))
        return self

    @property
    def attainable(self) -> float:
        """Return the largest possible sum of weights: the best implementation of each feature."""
        return sum(max((entry.weights.get(feature, 0.0)
                        for entry in self.implementations.values()), default=0.0)
                   for feature in self.features)

    def implementations_of(self, policy: Policy) -> dict[str, Implementation]:
        """Return the implementations (such as a cipher) that a policy has, by id."""
        facts = facts_from_policy(policy)
        return {key: implementation for key, implementation in self.implementations.items()
                if is_fulfilled(implementation.when, facts)}

    def find_unweighted(self, policy: Policy) -> tuple[str, ...]:
        """Return the parts of a policy's protection for which there is no weight."""
        weighted = {(key, word) for implementation in self.implementations.values()
                    for key, words in implementation.when.items() for word in words}
        # Static keys and keys from EAP are weighed with the cipher and with EAP; the mode of ESP
        # is not a matter of strength in the paper.
        counted_elsewhere = {("link.keys", "static"), ("link.keys", "eap"),
                             ("ipsec.mode", "tunnel"), ("ipsec.mode", "transport"),
                             # These negotiate the paper's IPsec, which Table 2 weighs.
                             ("ipsec.ike", "1"), ("ipsec.group", "modp1024")}
        facts = facts_from_policy(policy)
        if facts.get("link.group_cipher") == facts.get("link.cipher"):
            facts.pop("link.group_cipher", None)  # one cipher for all frames
        return tuple(f"{key} {word}" for key, word in facts.items()
                     if (key, word) not in weighted | counted_elsewhere)


def load_weights(path: str | os.PathLike[str] | None = None) -> Weights:
    """Read the weights of the security features from a file, or those that come with qop.

    The weights add up to a policy's quality of protection.

    Raises:
        PolicyError: The file is invalid; the text is one line `FILE:LINE: what is wrong; what to
            do`.
    """
    document = read_document(os.fspath(path or DEFAULT))
    try:
        return validate_values(Weights.model_validate, document.data, document.spots.get)
    except ValidationError as error:
        refusal = explain_refusal(error, document, Weights, f"see policies/{DEFAULT.name}")
        raise PolicyError(document.file, refusal.line, f"{refusal.name}: {refusal.what}",
                          refusal.advice, refusal.more) from None

