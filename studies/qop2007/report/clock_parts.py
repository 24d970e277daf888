"""Parts of the authentication time in the comparison of real and virtual time."""

from __future__ import annotations

from analysis.cells import Cells
from analysis.clock_comparison import MetricPart
from studies.qop2007.metrics import AUTHENTICATION
from studies.qop2007.report.phase_names import component_label, component_names


def component_parts(cells: Cells) -> list[MetricPart]:
    """Return the components, each with the cells whose authentication time adds it up."""
    return [MetricPart(AUTHENTICATION, f"component_{name}_s", component_label(name), frozenset(
        ids for ids in cells.results.cells
        if any(name in text.split("+") for text in cells.find_words("authentication_sum", ids))))
        for name in component_names(cells.results.frame)]
