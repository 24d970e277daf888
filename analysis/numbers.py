"""Conversion of estimates, probabilities and effect sizes to table entries."""

from __future__ import annotations

from collections.abc import Iterable

from analysis import statistics
from analysis.cells import Observation, Value
from analysis.metrics import Metric, insert_before_unit
from analysis.standing import Missing
from analysis.statistics import Comparison, Estimate
from analysis.table import Column, Entry, Quantity

#: Dash for a missing value (`NOTHING`), and dash for a value that does not apply (`NOT_COUNTED`).
NOTHING = Entry("-", marks=frozenset({"missing"}))
NOT_COUNTED = Entry("-")
#: Reasons for which a possible number is missing.
_LACKING = frozenset((Missing.NOT_RUN, Missing.FAILED, Missing.SKIPPED, Missing.TOO_FEW,
                      Missing.ABSENT))


def to_quantity(value: Estimate) -> Quantity:
    """Return an estimate as a number of a table."""
    return Quantity(value.mean, value.low, value.high, value.n)


def estimate_entry(value: Estimate, marks: Iterable[str] = (),
                   records: tuple[str, ...] = ()) -> Entry:
    """Return an estimate as a table entry."""
    return Entry(number=to_quantity(value), marks=frozenset(marks), records=records)


def value_entry(value: Value, *, is_difference: bool = False) -> Entry:
    """Return a cell's value as a table entry.

    A missing value becomes the word that says why it is missing.
    """
    if isinstance(value, Missing):
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
    """Return an observation as an entry with its published and modelled values.

    Without an observation, the entry is a dash.
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
    """Return the column of a metric with the metric's title and unit."""
    return Column(insert_before_unit(metric.name, ending) if ending else metric.name, title
                  or metric.title,
                  metric.unit, metric.scale, metric.digits, group)


def p_value_entry(p_value: float | None, otherwise: str) -> Entry:
    """Return a p-value as an entry.

    Without a p-value, the entry is a dash with the reason.
    """
    if p_value is None:
        return Entry("-", note=otherwise)
    return Entry("<0.001" if p_value < 0.0005 else "", number=Quantity(p_value))


def effect_entries(comparison: Comparison) -> tuple[Entry, Entry]:
    """Return the entries of Hedges' g and Cliff's delta."""
    return (Entry("-", note="no spread, or too few repetitions") if comparison.g is None
            else estimate_entry(comparison.g),
            Entry(number=Quantity(comparison.delta),
                  note=statistics.magnitude_word(comparison.delta)))


EFFECT_COLUMNS = (
    Column("hedges_g", "Hedges' g", digits=1, group="effect"),
    Column("cliffs_delta", "Cliff's \N{GREEK SMALL LETTER DELTA}", digits=2, group="effect"))
P_COLUMN = Column("p_adjusted", "p, corrected", digits=3)
