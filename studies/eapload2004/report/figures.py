"""Figures of the report: Figure 5, response against utilization, and a waterfall."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from analysis.cells import Cells, Ids
from analysis.numbers import to_quantity
from analysis.present import figures
from analysis.present.figures import Axis, Series
from analysis.present.report import Figure
from analysis.table import Quantity
from studies.eapload2004 import by_policy
from studies.eapload2004.design import ALONE, PLACES, TABLE_1, ids
from studies.eapload2004.published import PrintedTimes
from studies.eapload2004.samples import first_samples, service_times
from studies.eapload2004.waterfall import DRAWN

_LOAD, _TIME = Axis("load", "1/s"), Axis("mean service time", "s")
_SINCE = Axis("time since the first frame", "ms", 1e3)
#: Cells of the waterfall: without load, and at the highest load.
_SHOWN = {"Without load": ALONE, "At 50/s in the background": ids(load=str(TABLE_1[-1]))}
_BUSY = Axis("utilization of the server", "%", 100.0)


def build_figures(cells: Cells, paper: PrintedTimes,
                  service: Mapping[float, float]) -> Iterator[Figure]:
    """Yield the figures whose cells were measured."""
    yield from _figure_5(cells, paper, service)
    yield from _utilization_figure(cells)
    yield from _waterfall_figure(cells)


def _figure_5(cells: Cells, paper: PrintedTimes,
              service: Mapping[float, float]) -> Iterator[Figure]:
    ours, theirs = [], []
    for place, about in PLACES.items():
        rows = {load: ids(load=str(load), place=place) for load in TABLE_1}
        points = [(float(load), to_quantity(value.estimate)) for load, row in rows.items()
                  if (value := service_times(cells, row))]
        if points:
            ours.append(Series(about.title, points))
            theirs.append(Series(about.title, [
                (float(load), Quantity(paper.service_time_s[row])) for load, row in rows.items()],
                "published"))
    if not ours:
        return
    curve = [Series("", [(load, Quantity(seconds)) for load, seconds in service.items()],
                    "modelled")] if service else []
    panels = (figures.line_panel("Measured, modelled and published", [*ours, *theirs, *curve],
                                 _LOAD,
                                 _TIME),
              figures.line_panel("Relative to the lowest load", [
                  _relative_series(each) for each in (*ours, *theirs, *curve)], _LOAD,
                  Axis("times that at the lowest load")))
    yield Figure("fig-5", "Figure 5: service time by load", "The paper's growth fits no queue at "
                 "its server, and some 4.4 s of its times nothing that it describes: see the notes "
                 "on Table 1. So three curves stand side by side, and none was fitted to another.",
                 "Ours are far below the paper's and grow far less.", panels)


def _relative_series(series: Series) -> Series:
    first = min(series.points)[1].value
    return Series(series.name, [(load, Quantity(value.value / first))
                                for load, value in series.points], series.origin)


def _utilization_figure(cells: Cells) -> Iterator[Figure]:
    policies = by_policy.policy_curves(cells)
    service = [Series(each.title, each.service_s) for each in policies]
    background = [Series(each.title, points, origin) for each in policies
                  for points, origin in ((each.background_s, "measured"),
                                         (each.modelled_s, "modelled")) if each.background_s]
    if not any(len(each.background_s) > 1 for each in policies):
        return
    panels = (figures.line_panel("The supplicant's mean service time", service, _BUSY, _TIME),
              figures.line_panel("Mean latency in the background: at the server alone", background,
                                 _BUSY, Axis("latency", "ms", 1e3)))
    yield Figure("utilization", "Response against utilization, all policies", "Without signatures "
                 "of its own to compute, a server of resumed sessions stays at 0 %. The model of "
                 "each policy is calibrated without load: one customer alone, and saturation.",
                 "The latency at the server grows as 1 / (1 - utilization) whatever the policy; "
                 "what a supplicant waits is its round trips.", panels)


def _waterfall_figure(cells: Cells) -> Iterator[Figure]:
    panels = tuple(figures.waterfall_panel(title, spans, _SINCE) for title, row in _SHOWN.items()
                   if (spans := _part_spans(cells, row)))
    if panels:
        yield Figure("waterfall", "One authentication, from the first frame of 802.1X to "
                     "EAP-Success", "The median one of a repetition: where each moment "
                     "goes, from captures at the supplicant, on both sides of the "
                     "access point and at the server. Waiting is what an answer takes longer than "
                     "the quickest of its kind.",
                     "Round trips on the wire, and between them short times at both ends.", panels)


def _part_spans(cells: Cells, row: Ids) -> dict[str, list[tuple[float, float]]]:
    """Return begin and end of each part in the first good repetition, empty without any."""
    samples = first_samples(cells, row)
    instants = {part: [*samples[name]] for part in DRAWN
                if (name := f"waterfall_{part}_s") in samples}
    return {part: list(zip(those[::2], those[1::2], strict=True))
            for part, those in instants.items()} if any(instants.values()) else {}
