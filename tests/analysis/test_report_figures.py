"""Tests of the report's figures: that they draw the tables' numbers, in colours all can tell."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from numpy.typing import NDArray

import analysis.present
from analysis.cells import Cells
from analysis.present import figures as lines
from analysis.present.figure_styles import share_axes, style_figures
from analysis.present.page import render_page
from analysis.present.page_levels import PageLevels
from analysis.present.policy_colours import (
    assign_styles,
    list_built_in_styles,
    list_policies_by_colour,
)
from analysis.present.report import Figure, ReportFactor
from analysis.table import Quantity, Table
from conftest import PROJECT
from fabricated import POLICIES, cells_of, changed, make, paper_run
from studies.qop2007.report import assembly, figures
from studies.qop2007.report.basis import ReportBasis, basis_from_paper, basis_from_run
from studies.qop2007.report.paper_tables import build_paper_tables as tables_of

CSS = Path(analysis.present.__file__).with_name("templates") / "report.css"
#: Machado, Oliveira and Fernandes (2009), "A physiologically-based model for simulation of color
#: vision deficiency", IEEE Trans. Vis. Comput. Graph. 15(6), severity 1, on linear RGB.
DEFICIENCIES = {
    "none": np.eye(3),
    "protan": np.array([[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216],
                        [-0.003882, -0.048116, 1.051998]]),
    "deutan": np.array([[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413],
                        [-0.011820, 0.042940, 0.968881]])}
XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])


@pytest.fixture(scope="module")
def cells() -> Cells:
    """All policies in N1, N2 and R1, three times."""
    return cells_of(*paper_run(("N1", "N2", "R1")))


def table_of(measured: ReportBasis, name: str) -> Table:
    """A table of a study by its id."""
    return next(table for table in tables_of(measured) if table.id == name)


def test_figure_2_has_the_points_of_its_table(cells: Cells) -> None:
    """A panel a kind of scenario; every policy once, with its interval, and what was published."""
    measured = basis_from_run(cells)
    table = table_of(measured, "figure-2")
    figure = figures.draw_times(table, measured)
    assert figure is not None
    assert [panel.title for panel in figure.panels] == [
        "Non-roaming scenarios", "Roaming scenarios"]
    points = {name: (x, y) for trace in figure.panels[0].data if trace["mode"] == "markers"
              and "error_y" in trace
              for name, x, y in zip(trace["text"], trace["x"], trace["y"], strict=True)}
    column = [one.key for one in table.columns].index("authentication_time_s")
    expected = {row[0].text: (row[2].number.value, row[column].number.value)
                for row in table.rows[:12]}
    assert points == expected
    published = next(t for t in figure.panels[0].data if t.get("name") == "published 2007")
    assert dict(zip(published["text"], published["y"], strict=True))["P3"] == 1.4


def test_traffic_shows_intervals_and_published_values(cells: Cells) -> None:
    """The half width of P3's goodput in N2 is its bar; published values wait in the key."""
    measured = basis_from_run(cells)
    [throughput, overhead] = figures.draw_traffic(measured)
    panel = throughput.panels[0]
    trace = next(one for one in panel.data if one["name"] == "P3")
    at = trace["customdata"].index("N2")
    found = measured.find_observation("tcp_goodput_bps", "P3", "N2")
    assert trace["x"][at] == pytest.approx(found.estimate.mean * 1e-6)
    assert trace["error_x"]["array"][at] == pytest.approx(found.estimate.half_width * 1e-6)
    [printed] = [one for one in panel.data if one.get("name") == "published 2007"]
    assert printed["visible"] == "legendonly" and set(printed["customdata"]) == {"N1", "N2", "R1"}
    keys = [one["name"] for one in panel.data if one.get("showlegend", True)]
    assert [name.partition(":")[0] for name in keys] == ["N1", "N2", "R1", "published 2007"]
    assert "P1" not in overhead.panels[0].layout["yaxis"]["ticktext"]


def test_the_published_study_has_no_second_set_of_points() -> None:
    """Nothing stands beside the paper's values but themselves."""
    for figure in figures.draw_traffic(basis_from_paper()):
        assert all(trace.get("name") != "published 2007" for panel in figure.panels
                   for trace in panel.data)


def test_phases_of_a_handoff_add_up_to_its_end(cells: Cells) -> None:
    """Bars are stacked in order; their sum is the marker of the whole."""
    figure = figures.draw_handoffs(cells)
    assert figure is not None
    [panel] = figure.panels
    ends = dict.fromkeys(panel.layout["yaxis"]["categoryarray"], 0.0)
    for trace in panel.data[:-1]:
        for policy, length in zip(trace["y"], trace["x"], strict=True):
            ends[policy] += length
    whole = dict(zip(panel.data[-1]["y"], panel.data[-1]["x"], strict=True))
    assert ends == pytest.approx(whole, abs=5)
    assert len(whole) == 12


def test_a_phase_of_a_handoff_has_one_colour_in_all_reports() -> None:
    """A phase that no policy of a report has leaves the colours of the others as they are."""
    colours: dict[str, set[tuple[str, str]]] = {}
    for policies in (("P1", "P2"), ("P3", "P12"), ("P1", "P12")):
        records = [record for record in paper_run(("R1",)) if record.cell["policy"] in policies]
        figure = figures.draw_handoffs(cells_of(*records))
        assert figure is not None
        for trace in (trace for panel in figure.panels for trace in panel.data
                      if trace["type"] == "bar"):
            colours.setdefault(trace["name"], set()).add(
                (trace["marker"]["color"], trace["marker"]["pattern"]["shape"]))
    assert len(colours) > 4
    assert {len(found) for found in colours.values()} == {1}
    styles = figures.style_phases(["another"])
    assert len(set(styles.values())) == len(styles) > len(colours)
    assert [*styles][-1] == "another"


@pytest.fixture(scope="module")
def drawn() -> dict[str, list[dict[str, Any]]]:
    """The panels of all figures on the page of a run with eight repetitions, by figure."""
    report = assembly.build_run_report(cells_of(*paper_run(("N1", "N2", "R1"), 8)))
    found = re.search(r'id="figures">(.*?)</script>', render_page(report))
    assert found is not None
    return dict(json.loads(found[1]))


def test_a_policy_has_one_colour_in_all_figures(drawn: dict[str, list[dict[str, Any]]]) -> None:
    """Points, error bars and curves; no two of the twelve policies share theirs."""
    colours: dict[str, set[str]] = {}
    for panels in drawn.values():
        for trace in (trace for panel in panels for trace in panel["data"]):
            if trace.get("name") in POLICIES:
                colours.setdefault(trace["name"], set()).update(
                    trace[part]["color"] for part in ("marker", "line", "error_x", "error_y")
                    if "color" in trace.get(part, {}))
    assert set(colours) == set(POLICIES)
    assert {len(each) for each in colours.values()} == {1}
    assert len(set().union(*colours.values())) == len(POLICIES)


def list_profile_policies() -> dict[str, list[str]]:
    """Return the policies of each profile of each study, by the profile's path."""
    profiles = {"paper": [*POLICIES]}
    for path in sorted((PROJECT / "studies").glob("*/profiles/*.yml")):
        document = yaml.safe_load(path.read_text("utf-8"))
        if policies := (document.get("only") or {}).get("policy"):
            profiles[str(path.relative_to(PROJECT))] = policies
    return profiles


def test_each_built_in_policy_has_a_look_of_its_own() -> None:
    """No policy is left out, and no two have the same colour and marker."""
    styles = list_built_in_styles()
    assert set(styles) == {path.stem for path in (PROJECT / "policies").glob("[MP][0-9]*.yml")}
    assert sorted(itertools.chain(*list_policies_by_colour())) == sorted(styles)
    assert len({lines.style_at(style) for style in styles.values()}) == len(styles)


@pytest.mark.parametrize("profile", list_profile_policies())
def test_policies_of_a_profile_differ_in_colour(profile: str) -> None:
    """Profiles of more policies than there are colours have different markers."""
    policies = list_profile_policies()[profile]
    styles = assign_styles(policies)
    looks = {lines.style_at(style) for style in styles.values()}
    assert len(looks) == len(policies)
    assert len({colour for colour, _ in looks}) == len(policies) or len(policies) > len(
        lines.STYLES)
    assert all(styles[policy] == list_built_in_styles()[policy] for policy in policies
               if policy != "no-policy")


def test_profiles_of_the_test_are_those_of_the_project() -> None:
    """The profiles with names in the documentation are among them."""
    assert {"paper", *(f"studies/qop2007/profiles/{name}.yml"
                       for name in ("today", "campus", "subnets", "moves"))} <= set(
        list_profile_policies())


def test_own_policies_have_colours_by_name_that_no_other_policy_of_the_report_has() -> None:
    """Neither the order of policies nor a policy of another colour changes them."""
    alone = assign_styles(["office"])["office"]
    clashing = list_policies_by_colour()[alone % len(lines.STYLES)][0]
    other = list_policies_by_colour()[(alone + 1) % len(lines.STYLES)][0]
    assert assign_styles([other, "office"])["office"] == alone
    both = assign_styles(["office", clashing])
    assert both == assign_styles([clashing, "office"])
    assert both[clashing] == list_built_in_styles()[clashing]
    assert both["office"] % len(lines.STYLES) != both[clashing] % len(lines.STYLES)
    many = assign_styles([*POLICIES, *(f"own-{number}" for number in range(30))])
    assert {name: many[name] for name in POLICIES} == assign_styles(POLICIES)
    assert len({lines.style_at(style) for style in many.values()}) == len(many)


def test_a_policy_has_the_same_colour_in_reports_of_other_policies() -> None:
    """Beside other policies, in another order and where it is not compared with them."""
    first, second = (PageLevels([ReportFactor("policy", "Policy", dict.fromkeys(policies, ""),
                                              is_compared=is_compared)])
                     for policies, is_compared in ((("P1", "M8", "P12"), True),
                                                   (("M13", "office", "P12", "M8"), False)))
    for policy in ("M8", "P12"):
        assert first.colour_index(policy) == second.colour_index(f"{policy}, published") == \
            list_built_in_styles()[policy]


def test_other_compared_levels_have_no_colour_of_a_policy() -> None:
    """As far as there are free colours; the level, not the policy, colours a curve of both."""
    levels = PageLevels([
        ReportFactor("release", "Release", dict.fromkeys(("bookworm", "trixie"), ""), True),
        ReportFactor("policy", "Policy", dict.fromkeys(("P1", "P2"), ""))])
    looks = [levels.colour_index(name) for name in ("bookworm", "trixie", "P1", "P2")]
    assert None not in looks
    assert len(set(looks)) == 4
    assert levels.colour_index("P1, trixie") == looks[1]


def test_curves_of_one_colour_differ_in_marker_and_dashes() -> None:
    """Two policies with one colour in a figure of a user's own choice, and two curves of one."""
    pair = list_policies_by_colour()[0][:2]
    names = [*pair, f"{pair[0]}, N2", f"{pair[1]}, N2"]
    series = [lines.Series(name, [(0.0, Quantity(1.0))]) for name in names]
    panels = (lines.line_panel("", series, lines.Axis("x"), lines.Axis("y")),
              lines.ecdf_panel("", {name: np.array([1.0, 2.0]) for name in names},
                               lines.Axis("x")))
    levels = PageLevels([ReportFactor("policy", "Policy", dict.fromkeys(pair, ""), True)])
    [figure] = style_figures([Figure("f", "", "", "", panels)], levels)
    points, steps = (panel.data for panel in figure.panels)
    assert {trace["marker"]["color"] for trace in points} == {lines.STYLES[0][0]}
    assert len({trace["marker"]["symbol"] for trace in points}) == len(names)
    assert len({trace["line"]["dash"] for trace in steps}) == len(names)


def test_panels_of_a_figure_share_the_axes_of_a_quantity(
        drawn: dict[str, list[dict[str, Any]]]) -> None:
    """Panels with a row per policy share the x axis, others the y axis, and all points fit."""
    shared = 0
    for panels in drawn.values():
        ranges: dict[str, list[list[float]]] = {}
        for panel in panels:
            axis = panel["layout"]["xaxis" if panel["rows"] else "yaxis"]
            ranges.setdefault(axis["title"]["text"], []).append(axis.get("range"))
        for found in ranges.values():
            shared += len(found) > 1
            assert len({tuple(each or ()) for each in found}) == 1
    assert shared >= 6


def test_an_axis_without_zero_and_one_of_powers_reach_all_values() -> None:
    """The ends of intervals count; another quantity keeps its own axis."""
    seconds, share = lines.Axis("time", "s"), lines.Axis("share", from_zero=False)
    power = lines.Axis("size", "B", is_log=True)
    panels = share_axes([
        lines.line_panel("a", [lines.Series("x", [(1.0, Quantity(90.0, 80.0, 100.0))])],
                         seconds, share),
        lines.line_panel("b", [lines.Series("x", [(1.0, Quantity(110.0))])], seconds, share),
        *(lines.line_panel("c", [lines.Series("x", [(1.0, Quantity(value))])], seconds, power)
          for value in (1.0, 1000.0))])
    assert panels[0].layout["yaxis"]["range"] == panels[1].layout["yaxis"]["range"] == [78.5, 111.5]
    assert panels[2].layout["yaxis"]["range"] == pytest.approx([-0.15, 3.15])


def test_no_figure_of_nothing() -> None:
    """A run at home without streams has neither handoffs nor traffic."""
    cells = cells_of(changed(make(), tcp=None, udp=None))
    assert figures.draw_handoffs(cells) is None
    assert figures.draw_traffic(basis_from_run(cells)) == ()


def read_colours(theme: str) -> dict[str, str]:
    """All colours in a theme of the page."""
    block = CSS.read_text().split(":root")[1 if theme == "light" else 2].partition("}")[0]
    return dict(re.findall(r"--(\w+): (#[0-9a-f]{6})", block))


def palette(theme: str) -> dict[str, str]:
    """The colours of the plots in a theme of the page."""
    return {name: colour for name, colour in read_colours(theme).items()
            if re.fullmatch(r"c\d+", name)}


def relative_luminance(colour: str) -> float:
    """The relative luminance of a colour by WCAG, from 0 (black) to 1 (white)."""
    encoded = np.array([int(colour[at:at + 2], 16) for at in (1, 3, 5)]) / 255
    linear = np.where(encoded <= 0.04045, encoded / 12.92, ((encoded + 0.055) / 1.055) ** 2.4)
    return float(linear @ (0.2126, 0.7152, 0.0722))


def lab(colour: str, deficiency: NDArray[np.float64]) -> NDArray[np.float64]:
    """CIE L*a*b* of a colour as somebody sees it, for a white of D65."""
    encoded = np.array([int(colour[at:at + 2], 16) for at in (1, 3, 5)]) / 255
    linear = np.where(encoded <= 0.04045, encoded / 12.92, ((encoded + 0.055) / 1.055) ** 2.4)
    xyz = XYZ @ np.clip(deficiency @ linear, 0, 1) / XYZ.sum(axis=1)
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("deficiency", DEFICIENCIES)
def test_colours_are_told_apart(theme: str, deficiency: str) -> None:
    """Also by those who lack a kind of cone: 10 in CIE76, several just noticeable differences."""
    seen = {name: lab(colour, DEFICIENCIES[deficiency])
            for name, colour in palette(theme).items()}
    assert len(seen) == len(lines.STYLES)
    near = {(a, b): float(np.linalg.norm(seen[a] - seen[b]))
            for a, b in itertools.combinations(seen, 2)}
    assert {pair: distance for pair, distance in near.items() if distance < 10} == {}


@pytest.mark.parametrize(("theme", "background"), [("light", "card"), ("dark", "card"),
                                                   ("light", "paper"), ("dark", "paper")])
def test_colours_stand_out_from_the_background(theme: str, background: str) -> None:
    """WCAG 2.2, 1.4.11: at least 3:1 for what one must see to understand a figure."""
    behind = relative_luminance(read_colours(theme)[background])
    contrasts = {}
    for name, colour in palette(theme).items():
        light = relative_luminance(colour)
        contrasts[name] = (max(light, behind) + 0.05) / (min(light, behind) + 0.05)
    assert {name: ratio for name, ratio in contrasts.items() if ratio < 3} == {}


def test_no_two_of_many_curves_look_alike() -> None:
    """Beyond the palette's end a colour comes again, with another marker."""
    series = [lines.Series(f"policy {number}", [(0.0, Quantity(1.0))]) for number in range(20)]
    drawn = lines.line_panel("", series, lines.Axis("x", ""), lines.Axis("y", "")).data
    looks = {(curve["marker"]["color"], curve["marker"]["symbol"]) for curve in drawn}
    assert len(looks) == len(series)


def test_long_times_are_in_seconds_on_the_landing_view() -> None:
    """The paper's 6.28 s are not read as 6280 ms; a name is above its marker, not on it."""
    made = assembly.build_paper_report()
    costs = [cost for answer in made.answers for offer in answer.offers for cost in offer.costs]
    costs = [(value.replace("\N{NO-BREAK SPACE}", " "), what) for value, what in costs]
    assert ("6.28 s", "auth. time") in costs
    assert ("100 %", "protection (scheme of 2007)") in costs
    assert ("38.5 %", "protection (scheme of 2026)") in costs
    names = [label for section in made.sections for figure in section.figures
             for panel in figure.panels for label in panel.layout.get("annotations", ())]
    assert {label["text"] for label in names} == {"P1", "P3", "P4", "P8", "P12"}
    assert all(label["ay"] < 0 for label in names)
