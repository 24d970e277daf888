"""Kerberos logins as studies vary them: the mechanism, over wires or on the air.

Two studies use this module: one measures MIT krb5, one measures its own programs. A policy's layer
`kerberos` belongs to one of them and fixes levels of its factors.
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

#: Implementations by the layer's `by`: their names in a layer and in a study.
_BY = {"mit": ("MIT krb5", "MIT krb5"), "programs": ("programs", "programs of its own")}


@dataclass(frozen=True)
class Logins:
    """Part of a study's design for the mechanism and place of logins.

    `factor` is the name of the factor for the mechanism. `by` is the study's implementation, and
    `other` the study with the other implementation. `realms` is the level of `scenario` for clients
    on wires. `of_layer` returns the level that a layer requires ("" if the layer leaves it to the
    study), and `fixes` returns further levels. On the air, only the levels in `always` are
    measured.
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
        """Return the factors `policy` and `scenario`, with wires as the default."""
        return WiresAndAir(
            mobile.wires_level(self.realms, "realms and clients on wires"),
            Policies((), runs={"kerberos"}, refusal=self._refusal_reason), (), waits=True)

    def list_cells(self, names: Sequence[str], design: Iterable[tuple[str, ...]],
              levels: Mapping[str, Sequence[Level]]) -> Iterator[Cell]:
        """Return the design's cells for the chosen levels, and cells for policies on the air.

        Args:
            names: Names of the factors, in the order of the ids in `design`.
            design: Level ids of the design's cells, one row per cell.
            levels: Chosen levels by factor.

        Raises:
            StudyError: No cell has the chosen levels.
        """
        rows = list(design)
        every = [*chosen_cells(names, rows, levels),
                 *mobile.cells_on_air(levels, self.factor, self.always, self._fixed_levels)]
        if not every and self._is_over_wires(levels):
            raise StudyError(
                f"nothing of this can be measured: {_describe_mismatch(names, rows, levels)}; "
                             "choose levels that fit")
        if not every:
            raise StudyError("nothing of this can be measured; a policy goes with a scenario "
                             f"(--scenarios N2), one customer and wire {AIR}, and one whose layer "
                             f"says how the user logs in with {self.factor} {OF_POLICY}: choose "
                             "levels that fit")
        yield from every

    def chosen_mechanism(self, cell: Cell) -> str:
        """Return the mechanism of a cell, from its factor or from its policy."""
        if cell.ids[self.factor] != OF_POLICY:
            return cell.ids[self.factor]
        return self.of_layer(cell.value("policy").layers.kerberos)

    def _is_over_wires(self, levels: Mapping[str, Sequence[Level]]) -> bool:
        """Return whether neither a policy nor a scenario on the air was chosen."""
        return {level.id for name in ("policy", "scenario") for level in levels[name]} == {
            NO_POLICY, self.realms}

    def _refusal_reason(self, policy: Policy) -> str:
        layer = policy.layers.kerberos
        if layer is None or layer.by == self.by:
            return ""
        return (f"layers.kerberos is by {_BY[layer.by][0]}, and this study runs {_BY[self.by][1]}; "
                f"write by: {self.by}, or choose {self.other}")

    def _fixed_levels(self, policy: Policy) -> dict[str, str]:
        """Return the levels that a policy's layer fixes."""
        layer = policy.layers.kerberos
        if layer is None:
            return {}
        says_how = {self.factor: OF_POLICY} if self.of_layer(layer) else {}
        return {**self.fixes(layer), **says_how}


def _describe_mismatch(names: Sequence[str], rows: Sequence[tuple[str, ...]],
           levels: Mapping[str, Sequence[Level]]) -> str:
    """Describe two factors whose chosen levels have no common cell in a design.

    The text also names the levels that occur with those of the first factor.
    """
    chosen = [{level.id for level in levels[name]} for name in names]
    for first, second in combinations(range(len(names)), 2):
        fitting = [row for row in rows if row[first] in chosen[first]]
        if not any(row[second] in chosen[second] for row in fitting):
            own = ", ".join(level.id for level in levels[names[first]])
            there = ", ".join(dict.fromkeys(row[second] for row in fitting)) or "nothing"
            return f"{names[first]} {own} goes with {names[second]} {there} alone"
    return "no cell has all of these levels together"
