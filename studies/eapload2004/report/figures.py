"""Draw the report's figures of authentication times at a loaded RADIUS server.

`build_figures` takes the measured values of a run, and those printed and predicted. It yields
Figure 5 of the 2004 paper, times by utilization of the server, and the steps of one authentication.
Predictions are those of the queueing model. The paper is Kambourakis, Rouskas and Gritzalis (2004).
`studies.eapload2004` lists the terms.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from analysis.cells import Cells, Ids
from analysis.present import figures
from analysis.present.figures import Axis, Series
from analysis.present.report import Figure
from analysis.reporting.table_entries import to_quantity
from analysis.table import Quantity
from studies.eapload2004.cells import ALONE, NAMES, NOMINAL, PLACES, TABLE_1, cell_ids
from studies.eapload2004.measurements import BACKGROUND, CAPACITY, UTILIZATION
from studies.eapload2004.model import first_samples, measured_service_times
from studies.eapload2004.published import PublishedValues
from studies.eapload2004.waterfall import DRAWN

# --- Curves of policies at equal utilization of the server ---
# The model of a policy is calibrated like that of the study. The calibration uses the policy's cell
# before any load: one client alone, and saturation.

#: Factors that do not belong to a policy: load, place, distance and driver.
_BESIDE = ("load", "share", "place", "rtt", "driver")
_WORDS: Mapping[str, Mapping[str, str]] = {
    "key": {"rsa-1024": "RSA-1024", "rsa-2048": "RSA-2048", "p-256": "P-256",
            "ml-dsa-44": "ML-DSA-44", "ml-dsa-65": "ML-DSA-65"},
    "group": {"x25519": "X25519", "x25519mlkem768": "X25519MLKEM768"},
    "sessions": {"resumed": "resumed"}, "path": {"proxied": "through a proxy", "near": "near"},
    "identity": {"p-tmsi": "temporary identity"}, "server": {"hostapd": "hostapd"},
    "method": {"aka": "EAP-AKA"}}
_UTILIZATIONS = np.linspace(0, 0.85, 10)

Points = list[tuple[float, Quantity]]


@dataclass
class PolicyCurves:
    """Authentication times by utilization of the server: station, background and model."""

    title: str
    service_s: Points = field(default_factory=list)
    background_s: Points = field(default_factory=list)
    modelled_s: Points = field(default_factory=list)


def policy_curves(cells: Cells) -> list[PolicyCurves]:
    """Return the curves of all measured security settings, at the paper's place and distance."""
    by_policy: dict[tuple[str, ...], PolicyCurves] = {}
    for row in cells.results.cells:
        ids = dict(zip(NAMES, row, strict=True))
        if not cells.good_rows(row) or any(ids[name] != NOMINAL[name]
                                           for name in ("place", "rtt", "driver")):
            continue
        policy = tuple(ids[name] for name in NAMES if name not in _BESIDE)
        curves = by_policy.setdefault(policy, PolicyCurves(_policy_title(ids)))
        _add_cell(curves, cells, row)
    return [by_policy[policy] for policy in sorted(by_policy, key=lambda each: (
        by_policy[each].title != _policy_title(NOMINAL), by_policy[each].title))]


def _add_cell(curves: PolicyCurves, cells: Cells, row: Ids) -> None:
    """Add the values of a combination of factors to its curves."""
    busy, service = cells.mean_of_any(UTILIZATION.name, row), measured_service_times(cells, row)
    background = cells.mean_of_any(BACKGROUND.name, row)
    if busy is None or cells.mean_of_any("growth", row) is not None:  # overloaded: no steady state
        return
    if service is not None:
        curves.service_s.append((busy.estimate.mean, to_quantity(service.estimate)))
    if background is not None:
        curves.background_s.append((busy.estimate.mean, to_quantity(background.estimate)))
    capacity, alone = (cells.mean_of_any(name, row) for name in (CAPACITY.name, "alone_s"))
    if capacity is not None and alone is not None and not curves.modelled_s:
        demand_s = 1 / capacity.estimate.mean
        rest_s = max(0.0, alone.estimate.mean - demand_s)
        curves.modelled_s = [(float(used), Quantity(rest_s + demand_s / (1 - float(used))))
                             for used in _UTILIZATIONS]


def _policy_title(ids: Mapping[str, str]) -> str:
    """Return text with the factor values that differ from the paper's experiment."""
    if ids["method"] == "aka":
        return f"EAP-AKA, HSS at {ids['hss']} ms"
    differing = {name: level for name, level in ids.items()
                 if name not in _BESIDE and level != NOMINAL[name]}
    words = [_WORDS.get(name, {}).get(level) or {
        "chain": f"chain of {level}", "tls": f"TLS {level}",
        "fragment": f"pieces of {level} bytes"}.get(name, level)
        for name, level in differing.items()]
    return ", ".join(words) or "RSA-1024, TLS 1.2"


# --- Figures ---

_LOAD, _TIME = Axis("load", "1/s"), Axis("mean service time", "s")
_SINCE = Axis("time since the first frame", "ms", 1e3)
#: Cells of the waterfall: without load, and at the highest load.
_SHOWN = {"Without load": ALONE, "At 50/s in the background": cell_ids(load=str(TABLE_1[-1]))}
_BUSY = Axis("utilization of the server", "%", 100.0)


def build_figures(cells: Cells, paper: PublishedValues,
                  service: Mapping[float, float]) -> Iterator[Figure]:
    """Yield the figures for which there are measurements."""
    yield from _figure_5(cells, paper, service)
    yield from _utilization_figure(cells)
    yield from _waterfall_figure(cells)


def _figure_5(cells: Cells, paper: PublishedValues,
              service: Mapping[float, float]) -> Iterator[Figure]:
    ours, theirs = [], []
    for place, about in PLACES.items():
        rows = {load: cell_ids(load=str(load), place=place) for load in TABLE_1}
        points = [(float(load), to_quantity(value.estimate)) for load, row in rows.items()
                  if (value := measured_service_times(cells, row))]
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
    yield Figure("fig-5", "Figure 5: service time by load", "The paper's growth does not fit a "
                                                            "queue at its server, and about 4.4 s "
                                                            "of its times do not follow from its "
                                                            "description (see the notes on Table "
                                                            "1). So the three curves are shown "
                                                            "next to each other, and none was "
                                                            "fitted to another.",
                 "The measured times are far below the paper's and grow far less.", panels)


def _relative_series(series: Series) -> Series:
    first = min(series.points)[1].value
    return Series(series.name, [(load, Quantity(value.value / first))
                                for load, value in series.points], series.origin)


def _utilization_figure(cells: Cells) -> Iterator[Figure]:
    policies = policy_curves(cells)
    service = [Series(each.title, each.service_s) for each in policies]
    background = [Series(each.title, points, origin) for each in policies
                  for points, origin in ((each.background_s, "measured"),
                                         (each.modelled_s, "modelled")) if each.background_s]
    if not any(len(each.background_s) > 1 for each in policies):
        return
    panels = (figures.line_panel("The supplicant's mean service time", service, _BUSY, _TIME),
              figures.line_panel("Mean latency in the background: at the server alone", background,
                                 _BUSY, Axis("latency", "ms", 1e3)))
    yield Figure("utilization", "Response against utilization, all policies", "A server that "
                                                                              "resumes sessions "
                                                                              "computes no "
                                                                              "signatures, so it "
                                                                              "stays at 0 %. The "
                                                                              "model of each "
                                                                              "policy is "
                                                                              "calibrated without "
                                                                              "load, by a single "
                                                                              "client and by "
                                                                              "saturation.",
                 "The latency at the server grows as 1 / (1 - utilization) for every policy. A "
                 "supplicant mostly waits for its round trips.", panels)


def _waterfall_figure(cells: Cells) -> Iterator[Figure]:
    panels = tuple(figures.waterfall_panel(title, spans, _SINCE) for title, row in _SHOWN.items()
                   if (spans := _part_spans(cells, row)))
    if panels:
        yield Figure("waterfall", "One authentication, from the first frame of 802.1X to "
                     "EAP-Success", "The median authentication of a repetition, from captures at "
                                    "the supplicant, on both sides of the access point and at the "
                                    "server. Waiting is the time by which an answer takes longer "
                                    "than the fastest of its kind.",
                     "Most of the time is round trips on the wire. Both ends take short times "
                     "between them.", panels)


def _part_spans(cells: Cells, row: Ids) -> dict[str, list[tuple[float, float]]]:
    """Return begin and end (s) of each step in the first `ok` repetition, {} without any."""
    samples = first_samples(cells, row)
    instants = {part: [*samples[name]] for part in DRAWN
                if (name := f"waterfall_{part}_s") in samples}
    return {part: list(zip(those[::2], those[1::2], strict=True))
            for part, those in instants.items()} if any(instants.values()) else {}
