"""What print contradicts is told from print alone, and holds whichever messages are urgent."""

from __future__ import annotations

import pytest

from studies.adp1987 import consistency, published, urgency
from studies.adp1987.design import URGENCY

ROWS = consistency.rows(published.load())


def test_only_the_nominal_row_of_table_6_can_be() -> None:
    """Table 3 says what a shipment takes; the other rows need more of them than there can be."""
    assert {name for name, row in ROWS.items() if not row.is_contradicted} == {"U3"}
    for row in ROWS.values():
        assert (row.printed < row.least * 0.99) is row.is_contradicted


@pytest.mark.parametrize("name", urgency.CHOICES)
def test_no_way_of_choosing_is_below_the_limit(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """On the model, with costs fitted to all of Table 3: urgent at random, in runs, by size."""
    monkeypatch.setattr(urgency, "_SEEDS", (1,))
    monkeypatch.setattr(urgency, "_MESSAGES", 4000)
    made = urgency.table_6(urgency.CHOICES[name])
    for level in URGENCY:
        assert made[level][0] > ROWS[level].least * 0.9
