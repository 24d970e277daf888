"""Tests of the figures of repetitions: their distribution, and their change over the run."""

from __future__ import annotations

import pytest

from analysis.reporting.repetition_figures import MIN_REPETITIONS, make_repetition_section
from fabricated import cells_of, make


def run_of(repetitions: int) -> list[float]:
    """TCP goodputs of a run whose rate falls by 1 % of the first with each repetition."""
    return [4.0e6 - 0.04e6 * number for number in range(repetitions)]


def test_a_distribution_has_all_repetitions_of_a_cell() -> None:
    """A curve per policy from 0 to 100 %, a panel per scenario, in the metric's unit."""
    cells = cells_of(*(make(policy, number, scenario=scenario, tcp=tcp)
                       for policy in ("P1", "P12") for scenario in ("N1", "N2")
                       for number, tcp in enumerate(run_of(8), 1)))
    section = make_repetition_section(cells)
    assert section is not None
    [figure] = [figure for figure in section.figures if figure.id == "fig-cdf-tcp-goodput-bps"]
    assert [panel.title.partition(":")[0] for panel in figure.panels] == [
        "N1", "N2"]
    for panel in figure.panels:
        assert [trace["name"] for trace in panel.data] == ["P1", "P12"]
        [first, _] = panel.data
        values = sorted(tcp * 1e-6 for tcp in run_of(8))
        assert first["x"] == pytest.approx([values[0], *values])
        assert first["y"] == pytest.approx([number / 8 for number in range(9)])


def test_a_drift_shows_over_the_run() -> None:
    """Each repetition as a share of its cell's mean, whatever the policy's rate."""
    cells = cells_of(*(make(policy, number, tcp=factor * tcp)
                       for policy, factor in (("P1", 1.0), ("P12", 0.5))
                       for number, tcp in enumerate(run_of(8), 1)))
    section = make_repetition_section(cells)
    assert section is not None
    drift = section.figures[0]
    assert drift.id == "fig-drift"
    [panel] = [panel for panel in drift.panels if "TCP" in panel.title]
    mean = sum(run_of(8)) / 8
    expected = [100 * tcp / mean for tcp in run_of(8)]
    assert [trace["name"] for trace in panel.data] == ["P1", "P12", "mean of all"]
    for trace in panel.data:
        assert trace["x"] == list(range(1, 9))
        assert trace["y"] == pytest.approx(expected)


def test_few_repetitions_have_no_figures() -> None:
    """Five values are no distribution."""
    assert make_repetition_section(cells_of(*(
        make("P1", number) for number in range(1, MIN_REPETITIONS)))) is None
