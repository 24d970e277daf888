"""The columns of a summary's table: headings with units, and what stands in each cell."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from analysis.digits import plain, uncertain
from analysis.frame import FOREIGN
from analysis.names import component_heading, component_phases, phase_heading
from analysis.statistics import Estimate
from analysis.summary import Cell, Missing, Phase, Summary, Value

Group = Literal["cell", "authentication", "phases", "traffic"]


@dataclass(frozen=True)
class Content:
    """A value, and what goes with it: the half interval, or a phase's packets."""

    main: str
    second: str = ""
    style: str = ""


@dataclass(frozen=True)
class Column:
    """A column: its heading's two lines and unit, its side of a split table, and its contents."""

    heading: tuple[str, str]
    unit: str
    group: Group
    content: Callable[[Cell], Content]
    second_is: Literal["", "interval", "packets"] = ""

    @property
    def is_text(self) -> bool:
        """Whether words stand here, which start at the left and may be folded."""
        return self.heading[1] in ("policy", "name")

    @property
    def title(self) -> str:
        """The heading on one line."""
        words = " ".join(part for part in self.heading if part).replace("- ", "")
        return f"{words} [{self.unit}]" if self.unit else words


def columns(summary: Summary, cells: Sequence[Cell]) -> list[Column]:
    """The columns for a scenario's cells, most wanted first; what no cell has is left out."""
    return [
        *_about_cell(),
        _metric("authentication_time_s", ("auth.", "time"), "ms", 1e3, "authentication"),
        *_handoff_total(cells, ("hand-", "off")),
        *(_component(name) for name in _summed(summary, cells)),
        *_phase_columns(_not_shown_yet(summary, cells), cells, lambda cell: cell.phases),
        *(column for name, column in _TRAFFIC.items() if _is_measured(cells, name)),
        Column(("veri-", "fied"), "", "traffic", _verified),
    ]


def handoff_columns(summary: Summary, cells: Sequence[Cell]) -> list[Column]:
    """The columns for the handoffs of a scenario's cells: phases, their sum, the measured whole."""
    return [
        *_about_cell(),
        *_phase_columns(summary.handoff, cells, lambda cell: cell.handoff),
        Column(("", "sum"), "ms", "authentication", lambda cell: _tenths([cell.handoff_sum_s])),
        *_handoff_total(cells, ("", "total")),
    ]


def _about_cell() -> list[Column]:
    return [Column(("", "policy"), "", "cell", lambda cell: Content(cell.policy, style="bold")),
            Column(("", "n"), "", "cell", _count)]


def _handoff_total(cells: Sequence[Cell], heading: tuple[str, str]) -> list[Column]:
    if any(isinstance(cell.values["handoff_s"], Estimate) for cell in cells):
        return [_metric("handoff_s", heading, "ms", 1e3, "authentication")]
    return []


def name_column() -> Column:
    """The policies' names, where there is room for them."""
    return Column(("", "name"), "", "cell", lambda cell: Content(cell.name))


def _metric(name: str, heading: tuple[str, str], unit: str, factor: float,
            group: Group) -> Column:
    def content(cell: Cell) -> Content:
        value = cell.values[name]
        if isinstance(value, Missing):
            return _word(value)
        if value.mean == 0 and not value.half_width:  # nothing is negotiated; no uncertainty
            return Content("0")
        half = None if value.half_width is None else value.half_width * factor
        main, second = uncertain(value.mean * factor, half)
        zero = name.endswith("overhead_bps") and value.spans_zero
        return Content(main, second + "\N{DEGREE SIGN}" * zero, "dim" if zero else "")

    return Column(heading, unit, group, content, "interval")


_TRAFFIC = {
    "tcp_goodput_bps": _metric("tcp_goodput_bps", ("goodput", "TCP"), "Mbit/s", 1e-6, "traffic"),
    "udp_goodput_bps": _metric("udp_goodput_bps", ("goodput", "UDP"), "Mbit/s", 1e-6, "traffic"),
    "tcp_overhead_bps": _metric("tcp_overhead_bps", ("overhead", "TCP"), "kbit/s", 1e-3, "traffic"),
    "udp_overhead_bps": _metric("udp_overhead_bps", ("overhead", "UDP"), "kbit/s", 1e-3, "traffic"),
}


def _is_measured(cells: Sequence[Cell], name: str) -> bool:
    """Whether any cell has the stream at all (a size of 0 leaves it out)."""
    goodput = name.replace("overhead", "goodput")
    return any(cell.values[goodput] is not Missing.ABSENT for cell in cells)


def _summed(summary: Summary, cells: Sequence[Cell]) -> list[str]:
    """Components that the authentication time of any cell adds up."""
    return [name for name in summary.components
            if any(name in cell.summed and isinstance(cell.components[name], Estimate)
                   for cell in cells)]


def _component(name: str) -> Column:
    """A component, in the cells that count it; so that a row of components adds up to its T_A."""
    def content(cell: Cell) -> Content:
        value = cell.components[name]
        if isinstance(value, Estimate) and name not in cell.summed:
            return _word(Missing.ABSENT)
        return _tenths([value], _took_place(name, cell))

    return Column(component_heading(name), "ms", "authentication", content, "packets")


def _took_place(component: str, cell: Cell) -> list[Phase]:
    """The phases of a component that there are in a cell."""
    found = [cell.phases[name] for name in component_phases(component) if name in cell.phases]
    return [phase for phase in found if isinstance(phase.duration_s, Estimate)]


def _not_shown_yet(summary: Summary, cells: Sequence[Cell]) -> list[str]:
    """Phases of the stay at home, but for those that are all of a component that is shown."""
    shown = {name for component in _summed(summary, cells)
             if all(len(_took_place(component, cell)) < 2 for cell in cells)
             for name in component_phases(component)}
    return [name for name in summary.phases if not name.startswith(FOREIGN) and name not in shown]


def _phase_columns(names: Sequence[str], cells: Sequence[Cell],
                   of: Callable[[Cell], Mapping[str, Phase]]) -> Iterator[Column]:
    together: dict[tuple[str, str], list[str]] = {}
    for name in names:
        if any(isinstance(of(cell)[name].duration_s, Estimate) for cell in cells):
            together.setdefault(phase_heading(name), []).append(name)
    for heading, members in together.items():
        yield Column(heading, "ms", "phases", _phase_content(members, of), "packets")


def _phase_content(names: list[str],
                   of: Callable[[Cell], Mapping[str, Phase]]) -> Callable[[Cell], Content]:
    def content(cell: Cell) -> Content:
        phases = [of(cell)[name] for name in names]
        return _tenths([phase.duration_s for phase in phases], phases)

    return content


def _tenths(values: list[Value], phases: Sequence[Phase] = ()) -> Content:
    """The sum of what there is, with its packets, or a word.

    Table-wide tenths of a millisecond: phases are read against each other.
    """
    found = [value for value in values if isinstance(value, Estimate)]
    if not found:
        return _word(values[0])
    return Content(f"{sum(value.mean for value in found) * 1e3:.1f}", packets(phases))


def packets(phases: Sequence[Phase]) -> str:
    """How many packets phases took together: `17`, or `16-18` where repetitions differ."""
    if not phases:
        return ""
    counts = [phase.packets for phase in phases if phase.packets]
    fewest, most = sum(low for low, _ in counts), sum(high for _, high in counts)
    return str(fewest) if fewest == most else f"{fewest}-{most}"


def _count(cell: Cell) -> Content:
    return Content(f"{cell.good}/{cell.total}", style="" if cell.good == cell.total else "yellow")


def _verified(cell: Cell) -> Content:
    if cell.state == Missing.NOT_RUN.value:
        return Content(Missing.ABSENT.value, style="dim")
    return Content("yes", style="green") if cell.verified else Content("no", style="red")


def _word(value: Value) -> Content:
    styles = {Missing.FAILED: "red", Missing.SKIPPED: "yellow", Missing.TOO_FEW: "yellow"}
    if isinstance(value, Missing):
        return Content(value.value, style=styles.get(value, "dim"))
    return Content(plain(value.mean))
