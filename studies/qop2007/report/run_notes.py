"""Notes of the study below the run's table: components of sums, and meaning of numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from analysis import run_table as toolkit
from analysis.cells import Cells, Ids
from analysis.run_table import Remarks
from analysis.table import Table
from analysis.text import format_size
from studies.qop2007.metrics import HANDOFF, STREAMS
from studies.qop2007.report.handoff import gap_warnings
from studies.qop2007.report.phase_names import component_label, component_names
from studies.qop2007.report.run_columns import run_columns

_COMPONENTS = {
    "mip_registration": "MIP is Mobile IP registration, from the first solicitation or request to "
                        "the accepted reply (discovery and regist. are its parts)",
    "eap": "EAP is 802.1X or, without it, the 4-way handshake",
    "wireguard": "WG is WireGuard's handshake",
    "ike": "IKE is both of its phases"}
_PHASES = ("Scan, 802.11 (authentication and association) and the time to the first answered "
           "packet come beside T_A, all of the stay at home.")
_HANDOFF = ("Handoff is the time from leaving the home network to the first answered packet in the "
            "visited one; --handoff shows its phases.")


def run_table(cells: Cells) -> Table:
    """Build the run's table with components and phases."""
    return toolkit.make_run_table(cells, run_columns(cells), Remarks(
        (*_authentication_notes(cells), _throughput_note(cells)),
        (*_mixed_sums(cells), *gap_warnings(cells)), _overhead_note(cells)))


def _overhead_note(cells: Cells) -> str:
    name = cells.baseline.name
    return (f"Overhead C_C is the goodput under {name} minus that under the policy in the same "
            "block (repetition), averaged. Where its interval holds 0 (°), no overhead is proven."
            if name else "")


def _authentication_notes(cells: Cells) -> Iterator[str]:
    """Yield notes on the components of T_A in the records, and on other phases."""
    there = {name.rpartition("_")[0] for name in component_names(cells.results.good)
             if cells.results.good[f"component_{name}_s"].notna().any()}
    said = [text for name, text in _COMPONENTS.items() if name in there]
    if said:
        yield (f"{'; '.join(said)}; each from its first to its last packet (packets in "
               "parentheses: fewest and most of the repetitions' means, rounded outwards).")
    yield from _sum_notes(cells)
    yield _PHASES
    yield from _repetition_notes(cells)
    if HANDOFF.name in cells.results.good and cells.results.good[HANDOFF.name].notna().any():
        yield _HANDOFF


def _repetition_notes(cells: Cells) -> Iterator[str]:
    """Yield the note on values of repetitions with several authentications."""
    good = cells.results.good
    counts = sorted({int(count) for count in good["authentications"].dropna()}
                    if "authentications" in good else ())
    if counts and counts[-1] > 1:
        times = " or ".join(map(str, counts))
        yield (f"A repetition authenticates {times} times from nothing: T_A, its components and "
               "the phases at home are means over these; n and intervals are of repetitions.")


def _sum_notes(cells: Cells) -> Iterator[str]:
    """Yield a line for scenarios with equal sums, with the policies of each sum."""
    order = component_names(cells.results.frame)
    places: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for section, members in cells.sections.items():
        sums: dict[str, list[str]] = {}
        for ids in members:
            for text in dict.fromkeys(filter(None, cells.find_words("authentication_sum", ids))):
                sums.setdefault(_in_words(text, order), []).append(ids[0])
        key = tuple((text, ", ".join(policies)) for text, policies in sums.items())
        places.setdefault(key, []).append(", ".join(section))
    for key, scenarios in places.items():
        if key:
            listed = "; ".join(f"{text} ({policies})" for text, policies in key)
            yield f"T_A in {', '.join(scenarios)} (Table 4 of the 2007 paper): {listed}."


def _in_words(sum_: str, order: Sequence[str]) -> str:
    """Return a sum's components in the order of the table's columns.

    Components that no record has come last.
    """
    names = sum_.split("+")
    ordered = [name for name in order if name in names]
    return " + ".join(component_label(name) for name in
                      [*ordered, *(name for name in names if name not in order)])


def _throughput_note(cells: Cells) -> str:
    good = cells.results.good
    columns = {name: f"{name}_bytes" for name in STREAMS}
    sizes = [f"{name.upper()} {format_size(good[column].median())}" for name, column
             in columns.items()
             if column in good and good[column].notna().any()]
    return (f"Throughput is goodput at the receiver. The median stream delivered "
            f"{' and '.join(sizes)}. UDP is offered faster than the path carries; what no "
            "queue holds is lost.") \
        if sizes else "No throughput was measured."


def _mixed_sums(cells: Cells) -> Iterator[str]:
    """Yield warnings where authentication times of one cell are sums of different components."""
    mixed: list[Ids] = [ids for ids in cells.results.cells
                        if len(set(cells.find_words("authentication_sum", ids))) > 1]
    for ids in mixed:
        yield (f"{cells.cell_name(ids)}: authentication times of different sums are averaged; "
               "measure the cell again.")
