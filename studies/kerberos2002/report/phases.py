"""Table III: phases as measured, as predicted and as printed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from analysis.cells import Cells
from analysis.numbers import NOTHING, exact_entry, metric_column, observation_entry
from analysis.table import Column, Entry, Table
from studies.kerberos2002 import model, prediction
from studies.kerberos2002.body import PHASES, RESPONSE
from studies.kerberos2002.design import cell_ids
from studies.kerberos2002.published import PublishedValues
from studies.kerberos2002.variants import MOBILE, VARIANTS

#: Largest relative difference of a phase from its operations and messages that counts as near.
NEAR_COUNTS = 0.05
_FINDINGS = {
    "m-standard": "Post-auth holds the private operation that draft 05 needs to open the KDC's "
                  "temporary key; the paper's 255 ms do not (I4).",
    "m-client-key": "The KDC does one private operation; the paper's Auth holds two (I4; "
                    "--kdc-signs does that, too).",
    "mp-standard": "As row 1, with the proxy's messages.",
    "mp-client-key": "As row 2.",
    "mp-trusted": "The proxy's own operations are a prediction: the device was derived from rows 1 "
                  "to 4.",
    "mp-assist": "As row 5; here the client builds no chain, which saves 81 ms of Pre-auth and "
                 "nothing in print."}
#: Finding that replaces a row's own where an option repeats what the paper's programs did.
_AS_PAPER = "Done as the paper's programs evidently did it (I4)."


def phase_tables(cells: Cells, paper: PublishedValues) -> Iterator[Table]:
    """Yield Table III, and the table of each phase's differences from counts and print."""
    yield from (_table_3(cells, paper), _prediction_table(cells, paper))


def _run_settings(cells: Cells) -> Mapping[str, Any]:
    """Return the run's settings, or {} for a run without a manifest."""
    return cells.results.manifest.asked if cells.results.manifest else {}


def _find_reasons(cells: Cells) -> dict[str, str]:
    """Return the reason why each row differs from print."""
    asked = _run_settings(cells)
    options = {"m-standard": "spares_opening", "m-client-key": "kdc_signs"}
    return {row: _AS_PAPER if asked.get(options.get(row, "")) else said
            for row, said in _FINDINGS.items()}


def _table_3(cells: Cells, paper: PublishedValues) -> Table:
    rows, findings = [], _find_reasons(cells)
    for protocol in MOBILE:
        cell = cell_ids(protocol)
        if cells.find_value(RESPONSE.name, cell):
            rows.append((Entry(VARIANTS[protocol].title, note=findings[protocol]), *(
                observation_entry(cells.find_value(metric.name, cell),
                                  paper.table_3[(metric.name, *cell)])
                for metric in (*PHASES, RESPONSE))))
    return Table("table-3", "Table III: service times by phase", (
        Column("protocol", "Protocol"), *(metric_column(metric) for metric in PHASES),
        Column(RESPONSE.name, "Total", "ms", 1e3, 0)), tuple(rows),
        "Devices are derived from print's rows 1 to 4, read as its skeleton did its operations; "
        "the protocols do those of their drafts.",
        tuple(f"{VARIANTS[name].title}: {said}" for name, said in findings.items()),
        clock=cells.results.clock, source="the 2002 paper")


def _skeleton_changes(cells: Cells, protocol: str) -> dict[str, float]:
    """Return the changes of the phases (s) with the operations of the paper's programs."""
    asked = _run_settings(cells)
    devices = cells.results.manifest.devices if cells.results.manifest else {}
    own, server = (devices.get(str(asked.get(f"{role}_device"))) for role in ("mobile", "server"))
    if own is None or server is None:
        return {}
    task = {"devices": {"mobile": own, "server": server}, "speed": 1, "suite": "era",
            "chain_length": asked["chain_length"]}
    here, there = (prediction.predict_phases(VARIANTS[protocol], {**task, **options}) for options
                   in (
        asked, {"kdc_signs": True, "spares_opening": True}))
    return {name: there[name] - here[name] for name in here}


def _prediction_table(cells: Cells, paper: PublishedValues) -> Table:
    """Compare each phase with its operations, and the printed value with both readings of them."""
    rows = []
    for protocol in MOBILE:
        cell, changes = cell_ids(protocol), _skeleton_changes(cells, protocol)
        for metric in PHASES:
            seen = model.mean_of(cells, metric.name, cell)
            due = model.mean_of(cells, f"predicted_{metric.name}", cell)
            if seen is None or due is None:
                continue
            printed = paper.table_3[(metric.name, *cell)]
            skeleton = due + changes[metric.name] if changes else None
            rows.append((Entry(VARIANTS[protocol].title), Entry(metric.title), exact_entry(seen),
                         exact_entry(due), exact_entry(seen - due), exact_entry(seen / due - 1),
                         exact_entry(printed),
                         exact_entry(seen / printed - 1),
                         *([NOTHING] * 2 if skeleton is None else
                           [exact_entry(skeleton), exact_entry(skeleton / printed - 1)])))
    near = sum(abs(row[5].number.value) <= NEAR_COUNTS for row in rows if row[5].number)
    return Table("table-3-predicted", "Table III against operation counts, and against print", (
        Column("protocol", "Protocol"), Column("phase", "Phase"),
        Column("measured_s", "measured", "ms", 1e3, 0),
        Column("counted_s", "counted", "ms", 1e3, 0),
        Column("difference_s", "difference", "ms", 1e3, 1),
        Column("count_error", "", "%", 100, 1),
        Column("printed_s", "print", "ms", 1e3, 0),
        Column("print_error", "off print", "%", 100, 0),
        Column("skeleton_s", "counted", "ms", 1e3, 0, group="as the paper's programs"),
        Column("skeleton_error", "off print", "%", 100, 1, group="as the paper's programs")),
        tuple(rows),
        f"{near} of {len(rows)} phases are within 5 % of what their operations and messages take. "
        "The last two columns count the operations that the paper's programs evidently did (I4): "
        "a KDC signs under a client's key, too, and a client opens its temporary key for nothing "
        "(--kdc-signs, --spares-opening). Rows 5 and 6 are no part of what devices were derived "
        "from.", clock=cells.results.clock)
