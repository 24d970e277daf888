"""Logins by Kerberos as studies vary them: what says how, over wires or a policy on the air.

Two studies have it: one of MIT krb5, one of programs of its own. A policy's layer `kerberos` is for
one of them, and leaves no choice of what it says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

from policies import KerberosLayer, Policy
from studies import mobile
from studies.mobile import AIR, NO_POLICY, OF_POLICY, Policies, WiresAndAir
from studies.parts import Cell, Level, StudyError, chosen_cells

#: Who logs users in, as a layer says it and as a study does.
_BY = {"mit": ("MIT krb5", "MIT krb5"), "programs": ("programs", "programs of its own")}


@dataclass(frozen=True)
class Logins:
    """The part of a study's design that is about who logs in how, and where.

    `factor` says how; `by` is who does it, and `other` the study of who does not; `realms` is the
    level of `scenario` of clients on wires. A layer asks for the level `of_layer` ("" where it
    leaves that to the study) and `fixes` further ones; on the air, those in `always` are all that
    is measured.
    """

    factor: str
    by: Literal["mit", "programs"]
    other: str
    realms: str
    always: Mapping[str, str]
    of_layer: Callable[[KerberosLayer], str]
    fixes: Callable[[KerberosLayer], Mapping[str, str]]

    @property
    def places(self) -> WiresAndAir:
        """The factors of where: over wires unless asked."""
        return WiresAndAir(
            mobile.wires_level(self.realms, "realms and clients on wires"),
            Policies((), runs={"kerberos"}, refusal=self._refusal), (), waits=True)

    def cells(self, names: Sequence[str], design: Iterable[tuple[str, ...]],
              levels: Mapping[str, Sequence[Level]]) -> Iterator[Cell]:
        """The design's cells of the levels that were chosen, and policies on the air as asked for.

        Raises StudyError where nothing can be.
        """
        rows = list(design)
        every = [*chosen_cells(names, rows, levels),
                 *mobile.cells_on_air(levels, self.factor, self.always, self._said)]
        if not every and self._is_over_wires(levels):
            raise StudyError(f"nothing of this can be measured: {_apart(names, rows, levels)}; "
                             "choose levels that fit")
        if not every:
            raise StudyError("nothing of this can be measured; a policy goes with a scenario "
                             f"(--scenarios N2), one customer and wire {AIR}, and one whose layer "
                             f"says how the user logs in with {self.factor} {OF_POLICY}: choose "
                             "levels that fit")
        yield from every

    def chosen(self, cell: Cell) -> str:
        """How a cell's user logs in, also where its policy says it."""
        if cell.ids[self.factor] != OF_POLICY:
            return cell.ids[self.factor]
        return self.of_layer(cell.value("policy").layers.kerberos)

    def _is_over_wires(self, levels: Mapping[str, Sequence[Level]]) -> bool:
        """Whether no policy and no scenario of the air was chosen."""
        return {level.id for name in ("policy", "scenario") for level in levels[name]} == {
            NO_POLICY, self.realms}

    def _refusal(self, policy: Policy) -> str:
        layer = policy.layers.kerberos
        if layer is None or layer.by == self.by:
            return ""
        return (f"layers.kerberos is by {_BY[layer.by][0]}, and this study runs {_BY[self.by][1]}; "
                f"write by: {self.by}, or choose {self.other}")

    def _said(self, policy: Policy) -> dict[str, str]:
        """What a policy's layer leaves no choice of."""
        layer = policy.layers.kerberos
        if layer is None:
            return {}
        says_how = {self.factor: OF_POLICY} if self.of_layer(layer) else {}
        return {**self.fixes(layer), **says_how}


def _apart(names: Sequence[str], rows: Sequence[tuple[str, ...]],
           levels: Mapping[str, Sequence[Level]]) -> str:
    """Which of the chosen levels have no cell of a design together, and what the first go with."""
    chosen = [{level.id for level in levels[name]} for name in names]
    for first, second in combinations(range(len(names)), 2):
        fitting = [row for row in rows if row[first] in chosen[first]]
        if not any(row[second] in chosen[second] for row in fitting):
            own = ", ".join(level.id for level in levels[names[first]])
            there = ", ".join(dict.fromkeys(row[second] for row in fitting)) or "nothing"
            return f"{names[first]} {own} goes with {names[second]} {there} alone"
    return "no cell has all of these levels together"
