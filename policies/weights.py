"""Load and check protection weights.

They are Table 2 of the 2007 paper, or a file of the user.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeAlias

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)

from policies.document import Document, KeyPath, read_document
from policies.errors import PolicyError, advise_choice, make_fault, show_value
from policies.facts import KNOWN, When, facts_from_policy, is_fulfilled
from policies.fields import PolicyName
from policies.policy import Policy

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
    """Accept a whole number, or a decimal number in quotes.

    YAML has several spellings of decimal numbers.
    """
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            raise make_fault(f"{show_value(value)} is not a number",
                             "write one such as 2 or '1.5'") from None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise make_fault(f"{show_value(value)} is not a number", "write one such as 2 or '1.5'")
    if not (math.isfinite(value) and 0 <= value <= _LARGEST):
        raise make_fault(f"{value:g} cannot be a weight", "write a number from 0 up")
    return float(value)


def _check_conditions(when: When) -> When:
    for key, words in when.items():
        if key not in KNOWN:
            raise make_fault(f"{show_value(key)} is nothing that a policy says",
                             advise_choice(key, KNOWN), (key,))
        for word in words:
            if word not in KNOWN[key]:
                raise make_fault(f"{key} is never {show_value(word)}",
                                 advise_choice(word, KNOWN[key]), (key,))
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
    """An implementation of security features: the policies that have it, and its weights."""

    model_config = _CONFIG

    name: PolicyName
    source: Literal["table-2", "extension"] = "extension"
    when: Annotated[Mapping[str, list[str]], AfterValidator(_check_conditions)]
    weights: Mapping[Feature, Weight]


class Groups(BaseModel):
    """Limits of the security groups, in percent of normalised sigma."""

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
    """All implementations with their weights, the features that count once, and the groups."""

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
    groups: Groups
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
            raise make_fault("a feature that adds up has no most that can be attained",
                             "name all features in once, or leave out hundred", ("hundred",))
        return self

    @property
    def attainable(self) -> float:
        """Return the sum over features of the largest weight of any implementation."""
        return sum(max((entry.weights.get(feature, 0.0)
                        for entry in self.implementations.values()), default=0.0)
                   for feature in self.features)

    def implementations_of(self, policy: Policy) -> dict[str, Implementation]:
        """Return the implementations that a policy has, by id."""
        said = facts_from_policy(policy)
        return {key: implementation for key, implementation in self.implementations.items()
                if is_fulfilled(implementation.when, said)}

    def find_unweighted(self, policy: Policy) -> tuple[str, ...]:
        """Return the parts of a policy's protection that no implementation weighs."""
        asked = {(key, word) for implementation in self.implementations.values()
                 for key, words in implementation.when.items() for word in words}
        # Static keys and keys from EAP are weighed with the cipher and with EAP; the mode of ESP
        # is not a matter of strength in the paper.
        counted_elsewhere = {("link.keys", "static"), ("link.keys", "eap"),
                             ("ipsec.mode", "tunnel"), ("ipsec.mode", "transport"),
                             # These negotiate the paper's IPsec, which Table 2 weighs.
                             ("ipsec.ike", "1"), ("ipsec.group", "modp1024")}
        return tuple(f"{key} {word}" for key, word in facts_from_policy(policy).items()
                     if (key, word) not in asked | counted_elsewhere)


def load_weights(path: str | os.PathLike[str] | None = None) -> Weights:
    """Load the weights in a file, or the built-in ones.

    Raises:
        PolicyError: The file is invalid; the text is one line `FILE:LINE: what is wrong; what to
            do`.
    """
    document = read_document(os.fspath(path or DEFAULT))
    try:
        return Weights.model_validate(document.data)
    except ValidationError as error:
        raise _explain_error(error, document) from None


def _explain_error(error: ValidationError, document: Document) -> PolicyError:
    details = error.errors(include_url=False)
    line, what, advice = min(_locate_error(detail, document) for detail in details)
    return PolicyError(document.file, line, what, advice, len(details) - 1)


def _locate_error(detail: Any, document: Document) -> tuple[int, str, str]:
    path: KeyPath = tuple(part for part in detail["loc"] if part != "[key]")
    context = detail.get("ctx", {})
    blamed = [(*path, *keys) for keys in context.get("at", ())] or [path]
    place = next((spot for spot in blamed if spot in document.spots), path)
    while place not in document.spots:
        place = place[:-1]
    line = document.spots[place].key_line
    label = ".".join(str(part) for part in path) or "the file"
    if detail["type"] == "policy":
        return line, f"{label}: {context['what']}", context["advice"]
    if detail["type"] == "missing":
        return line, f"{label} is missing", "add it, as in policies/weights.yml"
    if detail["type"] == "extra_forbidden":
        return line, f"unknown key {label}", "remove it, or see policies/weights.yml"
    if detail["type"] == "literal_error":
        return line, f"{label}: {show_value(detail['input'])} is not known", \
            f"write {context['expected']}"
    return (line, f"{label}: {show_value(detail['input'])} cannot stand here",
            "see policies/weights.yml")
