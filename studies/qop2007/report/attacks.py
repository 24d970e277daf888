"""Attacks and whether policies withstand them, by the reasons of section 6.4 of the paper."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from policies import Policy
from policies.document import read_document
from policies.facts import When, facts_from_policy, is_fulfilled

_FILE = Path(__file__).with_name("attacks.yml")
#: Attacks that the paper does not discuss.
TODAYS_ATTACKS = Path(__file__).with_name("attacks-2026.yml")


@dataclass(frozen=True)
class Attack:
    """An attack: what withstands it, and the paper's statements on its policies."""

    id: str
    title: str
    reason: str
    withstood_by: tuple[When, ...]
    said: Mapping[str, bool]
    #: Test of the attack and its result, or "" where there are only arguments.
    tried: str = ""

    def is_withstood(self, policy: Policy) -> bool:
        """Return whether a policy's layers withstand the attack."""
        said = facts_from_policy(policy)
        return any(is_fulfilled(when, said) for when in self.withstood_by)


@cache
def load_attacks(file: Path = _FILE) -> tuple[Attack, ...]:
    """Return the attacks of a file in its order, by default the paper's."""
    document: dict[str, Any] = read_document(str(file)).data
    return tuple(Attack(key, attack["title"], attack["reason"], tuple(attack["withstood_by"]),
                        {policy: word == "withstands" for policy, word in attack["said"].items()},
                        attack.get("tried", ""))
                 for key, attack in document.items())
