"""Convert means, differences, p-values and effect sizes to entries of report tables.

An entry is the content of one place of a table: a number with its confidence interval, or a word.
Modules that make tables call these functions, such as `estimate_entry`, and pass computed
statistics. `analysis.present` formats the returned entries later. `metric_column` returns a column
with the title and unit of a metric.
"""

from __future__ import annotations

from collections.abc import Iterable

from analysis import statistics
from analysis.cell_status import MissingReason
from analysis.cells import Observation, Value
from analysis.metrics import Metric, insert_before_unit
from analysis.statistics import Comparison, Estimate
from analysis.table import Column, Entry, Quantity

#: Dash for a missing value (`MISSING_ENTRY`), and dash for a value that does not apply
#: (`NOT_COUNTED_ENTRY`).
MISSING_ENTRY = Entry("-", marks=frozenset({"missing"}))
NOT_COUNTED_ENTRY = Entry("-")
#: Reasons for which a possible number is missing.
_LACKING = frozenset((MissingReason.NOT_RUN, MissingReason.FAILED, MissingReason.SKIPPED,
                      MissingReason.TOO_FEW,
                      MissingReason.ABSENT))


def to_quantity(value: Estimate) -> Quantity:
    """Return an estimate as a number of a table, with its interval."""
    return Quantity(value.mean, value.low, value.high, value.n)


def estimate_entry(value: Estimate, marks: Iterable[str] = (),
                   records: tuple[str, ...] = ()) -> Entry:
    """Return an estimate as a table entry."""
    return Entry(number=to_quantity(value), marks=frozenset(marks), records=records)


def value_entry(value: Value, *, is_difference: bool = False) -> Entry:
    """Return a cell's value as a table entry.

    A missing value becomes the word that says why it is missing. A difference (`is_difference`) is
    marked if its interval includes zero.
    """
    if isinstance(value, MissingReason):
        return Entry(value.value, marks=frozenset({"missing"} if value in _LACKING else ()))
    estimate = value.estimate
    if estimate.mean == 0 and not estimate.half_width and not is_difference:
        # All values are 0: the event never happened, so show no uncertainty.
        return Entry("0", to_quantity(estimate), records=value.records)
    zero = is_difference and estimate.spans_zero
    return estimate_entry(estimate, ("spans-zero",) if zero else (), value.records)


def observation_entry(observation: Observation | None, published: float | None = None,
                      marks: Iterable[str] = (), note: str = "",
                      modelled: float | None = None) -> Entry:
    """Return a measured value as a table entry, with its published and modelled values.

    Without a measured value, the entry is a dash.
    """
    if observation is None:
        return Entry("-", None, published, frozenset({"missing"}), (), note, modelled)
    return Entry("", to_quantity(observation.estimate), published, frozenset(marks),
                 observation.records, note, modelled)


def exact_entry(value: float, published: float | None = None, marks: Iterable[str] = (),
                note: str = "") -> Entry:
    """Return a number without uncertainty as a table entry."""
    return Entry(number=Quantity(value), published=published, marks=frozenset(marks), note=note)


def metric_column(metric: Metric, ending: str = "", title: str = "", group: str = "") -> Column:
    """Return the table column of a metric, with the metric's title and unit."""
    return Column(insert_before_unit(metric.name, ending) if ending else metric.name, title
                  or metric.title,
                  metric.unit, metric.scale, metric.digits, group)


def p_value_entry(p_value: float | None, otherwise: str) -> Entry:
    """Return a p-value as a table entry, or a dash with the reason for its absence."""
    if p_value is None:
        return Entry("-", note=otherwise)
    return Entry("<0.001" if p_value < 0.0005 else "", number=Quantity(p_value))


def effect_entries(comparison: Comparison) -> tuple[Entry, Entry]:
    """Return the table entries of two effect sizes: Hedges' g and Cliff's delta."""
    return (Entry("-", note="no spread, or too few repetitions") if comparison.g is None
            else estimate_entry(comparison.g),
            Entry(number=Quantity(comparison.delta),
                  note=statistics.magnitude_word(comparison.delta)))


EFFECT_COLUMNS = (
    Column("hedges_g", "Hedges' g", digits=1, group="effect"),
    Column("cliffs_delta", "Cliff's \N{GREEK SMALL LETTER DELTA}", digits=2, group="effect"))
P_COLUMN = Column("p_adjusted", "p, corrected", digits=3)
