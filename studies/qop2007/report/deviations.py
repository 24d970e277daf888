"""Printed values of the paper that contradict each other, by name."""

from __future__ import annotations

from collections.abc import Iterator

from analysis.table import Column, Entry, Table
from policies import load_weights
from studies.qop2007.report.basis import Basis
from studies.qop2007.report.from_paper import basis_from_paper
from studies.qop2007.report.protection_tables import table_1, table_3
from studies.qop2007.report.robustness import table_9
from studies.qop2007.report.view_tables import table_attacks

_N2 = ("About half of the difference of the printed throughputs (Tables 7, 8), which by equation 3 "
       "is the same number; see the table on N2.")
_BOLD = ("The text names P8 for TCP at home and UDP roaming, P12 for UDP at home; the same rule "
         "gives P12 for TCP roaming.")
_LATE = ("The authentication times that the text prints for them, 1.4 s and more, are beyond the "
         "limits of 6.1.")
#: Contradictions that no cell shows: place, printed value, value here, and reason.
_OTHERS = (
    ("Tables 5, 6 in N2", "overhead", "shown as printed", _N2),
    ("Table 6 in R2", "241.26 for P9, P10, P11 and P12", "shown as printed",
     "Four policies carry one value, which the throughputs of Table 8 do not bear out."),
    ("Tables 5, 6: bold figure of TCP, roaming", "not named in the text", "P12", _BOLD),
    ("Tables 7, 8: bold figures", "one a scenario, by no rule that is given",
     "as in Tables 5 and 6", "Throughput is the other side of overhead."),
    ("Table 9: heading", "mbits/sec", "kbit/s for overhead",
     "Its means of overhead are those of Table 5, in kbit/s."),
    ("5.3, UDP at home", "6 to 8 percent", "5.8 to 9.3 percent",
     "Table 8's best over its worst throughput in N1, N2 and N3."),
    ("6.6, real-time services", "P3, P4, P8", "none of them qualifies", _LATE))


def table_deviations() -> Table:
    """Build the table of values that are not reproduced, and of other contradictions."""
    basis = basis_from_paper(load_weights())
    rows = [*_deviating_cells(basis), *(tuple(Entry(text) for text in row) for row in _OTHERS)]
    return Table("deviations", "Where the paper does not follow from itself",
                 (Column("where", "Where"), Column("printed", "Printed"), Column("here", "Here"),
                  Column("why", "Why")), tuple(rows),
                 "Every other number of Tables 1 to 9 is reproduced from the published values to "
                 "the printed digit, and every recommendation that the text names.")


def _deviating_cells(basis: Basis) -> Iterator[tuple[Entry, ...]]:
    for table in (table_1(basis), table_3(basis), table_attacks(basis), table_9(basis)):
        name = table.title.partition(":")[0]
        for row in table.rows:
            for column, entry in zip(table.columns, row, strict=True):
                if "differs" in entry.marks:
                    yield (Entry(f"{name}, {row[0].text}: {_column_title(column)}"),
                           *_explain_difference(table.id, column, entry))


def _column_title(column: Column) -> str:
    return " ".join(word for word in (column.group, column.title) if word).lower()


def _explain_difference(table: str, column: Column, entry: Entry) -> tuple[Entry, Entry, Entry]:
    """Return the printed value, the value here and the reason why they differ."""
    if entry.number is not None and entry.published is not None:
        digits = column.digits or 0
        return (Entry(f"{entry.published * column.scale:.{digits}f}"),
                Entry(f"{entry.number.value * column.scale:.{digits}f}"),
                Entry("Recomputed from Table 7; the paper had more digits, or rounded."))
    if table == "table-1":
        return (Entry("no mark"), Entry("Y"),
                Entry("Table 2 gives EAP-MD5 integrity, and Table 3 counts it."))
    return (Entry("weak, as all of its group"), Entry(entry.text),
            Entry("The paper's reason, strong authentication of the user, holds for EAP-TLS."))
