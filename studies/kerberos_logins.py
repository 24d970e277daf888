"""Choose which Kerberos login methods a study measures, on Ethernet or over the air.

Two studies share this module: krb5today measures MIT krb5, kerberos2002 measures the programs of
this project. The layer `kerberos` of a policy file belongs to one of them, and fixes the method.
`LoginDesign.list_cells` takes the values that the user chose. It returns the combinations (cells)
to measure, or refuses the choice with one line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

from policies import KerberosLayer, Policy
from studies import policy_factors
from studies.contract import Cell, Level, StudyError, build_chosen_cells
from studies.policy_factors import AIR, NO_POLICY, OF_POLICY, PolicyReader, WireAirFactors

#: Implementations by the layer's `by`: their names in a layer and in a study.
_BY = {"mit": ("MIT krb5", "MIT krb5"), "programs": ("programs", "programs of its own")}


@dataclass(frozen=True)
class LoginDesign:
    """The choice of login methods and networks in a study of Kerberos.

    - `factor`: name of the factor for the login method
    - `by`: implementation that the study measures. `other` is the study with the other one.
    - `realms`: value of the factor `scenario` for clients on Ethernet
    - `of_layer`: returns the login method that a policy's layer requires ("" if any)
    - `fixes`: returns further factor values that the layer requires
    - `always`: factor values to which measurements over the air are restricted
    """

    factor: str
    by: Literal["mit", "programs"]
    other: str
    realms: str
    always: Mapping[str, str]
    of_layer: Callable[[KerberosLayer], str]
    fixes: Callable[[KerberosLayer], Mapping[str, str]]

    @property
    def places(self) -> WireAirFactors:
        """Return the factors `policy` and `scenario`. The default is Ethernet without a policy."""
        return WireAirFactors(
            policy_factors.wires_level(self.realms, "realms and clients on wires"),
            PolicyReader((), runs={"kerberos"}, refusal=self._refusal_reason), (), waits=True)

    def list_cells(self, names: Sequence[str], design: Iterable[tuple[str, ...]],
                   levels: Mapping[str, Sequence[Level]]) -> Iterator[Cell]:
        """Return the combinations of factor values to measure, on Ethernet and over the air.

        Args:
            names: names of the factors, in the order of the rows in `design`.
            design: combinations that the study measures on Ethernet.
            levels: the chosen values of each factor.

        Raises:
            StudyError: no combination has the chosen values.
        """
        rows = list(design)
        cells = [*build_chosen_cells(names, rows, levels),
                 *policy_factors.cells_on_air(levels, self.factor, self.always, self._fixed_levels)]
        if not cells and self._is_over_wires(levels):
            raise StudyError(
                f"nothing of this can be measured: {_describe_mismatch(names, rows, levels)}; "
                "choose levels that fit")
        if not cells:
            raise StudyError("nothing of this can be measured; a policy goes with a scenario "
                             f"(--scenarios N2), one customer and wire {AIR}, and one whose layer "
                             f"says how the user logs in with {self.factor} {OF_POLICY}: choose "
                             "levels that fit")
        yield from cells

    def chosen_mechanism(self, cell: Cell) -> str:
        """Return the login method of a combination, from its factor or from its policy."""
        if cell.ids[self.factor] != OF_POLICY:
            return cell.ids[self.factor]
        return self.of_layer(cell.value("policy").layers.kerberos)

    def _is_over_wires(self, levels: Mapping[str, Sequence[Level]]) -> bool:
        """Return whether all logins run over wires, because no policy and no scenario is chosen."""
        return {level.id for name in ("policy", "scenario") for level in levels[name]} == {
            NO_POLICY, self.realms}

    def _refusal_reason(self, policy: Policy) -> str:
        layer = policy.layers.kerberos
        if layer is None or layer.by == self.by:
            return ""
        return (f"layers.kerberos is by {_BY[layer.by][0]}, and this study runs {_BY[self.by][1]}; "
                f"write by: {self.by}, or choose {self.other}")

    def _fixed_levels(self, policy: Policy) -> dict[str, str]:
        """Return the factor values that a policy's layer `kerberos` requires."""
        layer = policy.layers.kerberos
        if layer is None:
            return {}
        says_how = {self.factor: OF_POLICY} if self.of_layer(layer) else {}
        return {**self.fixes(layer), **says_how}


def _describe_mismatch(names: Sequence[str], rows: Sequence[tuple[str, ...]],
                       levels: Mapping[str, Sequence[Level]]) -> str:
    """Describe two factors whose chosen values the study never combines.

    The text also names values of the second factor that would fit.
    """
    chosen = [{level.id for level in levels[name]} for name in names]
    for first, second in combinations(range(len(names)), 2):
        fitting = [row for row in rows if row[first] in chosen[first]]
        if not any(row[second] in chosen[second] for row in fitting):
            own = ", ".join(level.id for level in levels[names[first]])
            possible = ", ".join(dict.fromkeys(row[second] for row in fitting)) or "nothing"
            return f"{names[first]} {own} goes with {names[second]} {possible} alone"
    return "no cell has all of these levels together"
