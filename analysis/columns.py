"""The columns of a summary's table: headings with units, and what stands in each cell."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from analysis.digits import plain, uncertain
from analysis.statistics import Estimate
from analysis.summary import Cell, Missing, Phase, Summary, Value

Group = Literal["cell", "authentication", "traffic"]

#: Phases as people call them; 802.11 authentication and association are one short exchange.
_PHASE_HEADINGS = {
    "scan": ("", "scan"), "authentication": ("", "802.11"), "association": ("", "802.11"),
    "dot1x": ("", "802.1X"), "four_way_handshake": ("", "4-way"), "ike": ("", "IKE"),
    "first_packet": ("first", "packet")}


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


def columns(summary: Summary) -> list[Column]:
    """The columns for a summary, most wanted first; what no cell has is left out."""
    return [
        Column(("", "policy"), "", "cell", lambda cell: Content(cell.policy, style="bold")),
        Column(("", "n"), "", "cell", _count),
        _metric("authentication_time_s", ("auth.", "time"), "ms", 1e3, "authentication"),
        *_phase_columns(summary),
        *(column for name, column in _TRAFFIC.items() if _is_measured(summary, name)),
        Column(("veri-", "fied"), "", "traffic", _verified),
    ]


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


def _is_measured(summary: Summary, name: str) -> bool:
    """Whether any cell has the stream at all (a size of 0 leaves it out)."""
    goodput = name.replace("overhead", "goodput")
    return any(cell.values[goodput] is not Missing.ABSENT
               for row in summary.cells.values() for cell in row)


def _phase_columns(summary: Summary) -> Iterator[Column]:
    together: dict[tuple[str, str], list[str]] = {}
    for name in summary.phases:
        heading = _PHASE_HEADINGS.get(name, ("", name.replace("_", " ")))
        together.setdefault(heading, []).append(name)
    for heading, names in together.items():
        yield Column(heading, "ms", "authentication", _phase_content(names), "packets")


def _phase_content(names: list[str]) -> Callable[[Cell], Content]:
    def content(cell: Cell) -> Content:
        phases = [cell.phases[name] for name in names]
        values = [phase.duration_s for phase in phases]
        found = [value for value in values if isinstance(value, Estimate)]
        if not found:
            return _word(values[0])
        # Table-wide tenths of a millisecond: phases are read against each other.
        return Content(f"{sum(value.mean for value in found) * 1e3:.1f}", packets(phases))

    return content


def packets(phases: list[Phase]) -> str:
    """How many packets phases took together: `17`, or `16-18` where repetitions differ."""
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
