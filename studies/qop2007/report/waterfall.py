"""Draw a run's handoffs: one panel per scenario, and in it one bar of phases per policy.

`draw_figure` takes the measured values of a run of qop2007, and returns a Matplotlib figure.
`save_figure` writes it as SVG and PNG. A phase is one part of the handoff, such as association or
IKE.

The colours are those of Okabe and Ito (2008), one of them lighter, which colour-blind readers can
tell apart. Neighbours also differ in lightness and the last phase is hatched, so that the figure
can be read in print without colours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import matplotlib as mpl
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from analysis.cells import Cells
from analysis.circumstances import VIRTUAL
from analysis.present.entries import PLUS_MINUS, round_to_uncertainty
from studies.qop2007.report.phase_names import phase_in_words
from studies.qop2007.report.run_table import HandoffBar, bar_labels, handoff_bars

FORMATS = ("svg", "png")
_WIDTH_IN = 7.16  # both columns of a page of the IEEE's journals
_BAR_IN = 0.24
_BAR_HEIGHT = 0.62
_AROUND_PANEL_IN = 0.42
_LEGEND_IN = 0.95
_PNG_DPI = 300
_ID_LENGTH = 16
_Panels: TypeAlias = Mapping[str, Sequence[HandoffBar]]

_COLOURS = {
    "scan": "#BBBBBB", "authentication": "#555555", "dot1x": "#56B4E9",
    "four_way_handshake": "#EBC2D8", "agent_discovery": "#D55E00", "registration": "#F0E442",
    "ike": "#0072B2", "first_packet": "#FFFFFF"}
_STYLES = {phase_in_words(name): colour for name, colour in _COLOURS.items()}
_OTHERS = ("#009E73", "#E69F00", "#000000")
_HATCHED = {phase_in_words("first_packet"): "////"}
_SETTINGS: Any = {
    "font.family": "sans-serif", "font.sans-serif": ["DejaVu Sans"], "font.size": 7.5,
    "axes.titlesize": 8, "axes.linewidth": 0.6, "xtick.major.width": 0.6, "hatch.linewidth": 0.5,
    "svg.hashsalt": "qop"}


def save_figure(cells: Cells, folder: Path) -> list[Path]:
    """Draw the handoffs and write them to the folder as handoff.svg and handoff.png.

    Raises:
        OSError: a file cannot be written.
        NothingToReport: no scenario has a handoff.
    """
    figure = draw_figure(cells)
    paths = []
    with mpl.rc_context(_SETTINGS):
        for form in FORMATS:
            path = folder / f"handoff.{form}"
            # A date would make two files of the same records differ.
            undated = {"Date": None} if form == "svg" else None
            figure.savefig(path, dpi=_PNG_DPI, metadata=undated)
            paths.append(path)
    return paths


def draw_figure(cells: Cells) -> Figure:
    """Draw the handoffs as a Matplotlib figure.

    Raises:
        NothingToReport: no scenario has a handoff.
    """
    panels = handoff_bars(cells)
    styles = _label_colours(bar_labels(panels, cells))
    heights = [len(row) * _BAR_IN for row in panels.values()]
    height = sum(heights) + len(heights) * _AROUND_PANEL_IN + _LEGEND_IN
    with mpl.rc_context(_SETTINGS):
        figure = Figure(figsize=(_WIDTH_IN, height), layout="constrained")
        axes = figure.subplots(len(panels), 1, sharex=True, squeeze=False,
                               gridspec_kw={"height_ratios": heights})[:, 0]
        for ax, (title, row) in zip(axes, panels.items(), strict=True):
            _draw_panel(ax, row, styles)
            ax.set_title(title, loc="left")
            ax.set_title(_repetitions_text(row), loc="right", fontsize=7, color="0.35")
        axes[-1].set_xlabel("Time since the order to move [ms]"
                            + ", virtual time" * (cells.results.clock == VIRTUAL))
        axes[0].set_xlim(0, _right_edge(panels))
        figure.legend(handles=_legend_handles(panels, styles), loc="outside lower center", ncols=4,
                      frameon=False, handlelength=1.6)
    return figure


def _legend_handles(panels: _Panels, styles: Mapping[str, str]) -> list[Artist]:
    handles: list[Artist] = [
        Patch(facecolor=colour, hatch=_HATCHED.get(label), edgecolor="black", linewidth=0.4,
              label=label) for label, colour in styles.items()]
    if any(bar.total and bar.total.n > 1 for row in panels.values() for bar in row):
        handles.append(Line2D([], [], color="black", linewidth=0.8, marker="|", markersize=4,
                              label="95 % interval of the total"))
    return handles


def _label_colours(labels: Sequence[str]) -> dict[str, str]:
    """Assign a colour to each phase label. Unknown phases get colours that are left over."""
    unknown = [label for label in labels if label not in _STYLES]
    return {label: _STYLES.get(label) or _OTHERS[unknown.index(label) % len(_OTHERS)]
            for label in labels}


def _repetitions_text(row: Sequence[HandoffBar]) -> str:
    counts = sorted({bar.total.n for bar in row if bar.total})
    if counts == [1]:
        return "one repetition"
    ends = dict.fromkeys((counts[0], counts[-1]))
    return f"means of {' to '.join(map(str, ends))} repetitions"


def _draw_panel(ax: Axes, row: Sequence[HandoffBar], styles: Mapping[str, str]) -> None:
    for y, bar in enumerate(row):
        for segment in bar.segments:
            ax.barh(y, segment.duration_s * 1e3, left=segment.start_s * 1e3, height=_BAR_HEIGHT,
                    color=styles[segment.label], hatch=_HATCHED.get(segment.label),
                    edgecolor="black", linewidth=0.4)
        _draw_total(ax, y, bar)
    ax.set_yticks(range(len(row)), [_shorten_id(bar.policy) for bar in row])
    ax.set_ylim(len(row) - 0.3, -0.6)  # The first policy is on top.
    ax.set_ylabel("Policy")
    ax.tick_params(axis="y", length=0)
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(axis="x", color="0.85", linewidth=0.5)
    ax.set_axisbelow(True)


def _draw_total(ax: Axes, y: int, bar: HandoffBar) -> None:
    """Draw the measured total of a handoff with its interval, or write why it is missing."""
    if bar.total is None:
        ax.annotate(bar.state, (0, y), (3, 0), textcoords="offset points", va="center",
                    color="0.35", style="italic")
        return
    total = bar.total.mean * 1e3
    half = None if bar.total.half_width is None else bar.total.half_width * 1e3
    shown, width = round_to_uncertainty(total, half)
    if half is not None:
        # The interval is drawn below the bar, where it hides no phase. It may be wide on a busy
        # machine.
        ax.errorbar(total, y + _BAR_HEIGHT / 2 + 0.12, xerr=half, color="black", capsize=1.6,
                    linewidth=0.8)
    ax.annotate(f"{shown} {PLUS_MINUS} {width} ms" if width else f"{shown} ms",
                (total, y), (4, 0), textcoords="offset points", va="center")


def _right_edge(panels: _Panels) -> float:
    """Return the right end (ms) of the axis, with room for intervals and numbers."""
    totals = [bar.total for row in panels.values() for bar in row if bar.total]
    return 1e3 * max(1.2 * max(total.mean for total in totals),
                     1.02 * max(total.high or 0.0 for total in totals))


def _shorten_id(policy: str) -> str:
    if len(policy) <= _ID_LENGTH:
        return policy
    return f"{policy[:_ID_LENGTH - 1]}\N{HORIZONTAL ELLIPSIS}"
