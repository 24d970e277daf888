"""Attacks are withstood, or not, by the reasons of section 6.4 of the paper."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from policies import Policy
from policies.document import read_document
from policies.facts import When, facts, holds

_FILE = Path(__file__).with_name("attacks.yml")
#: Those that the paper does not ask about.
TODAYS_ATTACKS = Path(__file__).with_name("attacks-2026.yml")


@dataclass(frozen=True)
class Attack:
    """An attack, what withstands it, and what the paper says of its own policies."""

    id: str
    title: str
    reason: str
    withstood_by: tuple[When, ...]
    said: Mapping[str, bool]
    #: How it was carried out, and what came of it; "" where it is argued alone.
    tried: str = ""

    def withstood(self, policy: Policy) -> bool:
        """Whether a policy's layers withstand the attack."""
        said = facts(policy)
        return any(holds(when, said) for when in self.withstood_by)


@cache
def attacks(file: Path = _FILE) -> tuple[Attack, ...]:
    """The attacks of a file, in its order; by default the paper's."""
    document: dict[str, Any] = read_document(str(file)).data
    return tuple(Attack(key, attack["title"], attack["reason"], tuple(attack["withstood_by"]),
                        {policy: word == "withstands" for policy, word in attack["said"].items()},
                        attack.get("tried", ""))
                 for key, attack in document.items())
