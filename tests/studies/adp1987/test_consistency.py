"""What print contradicts is told from print alone, and holds whichever messages are urgent."""

from __future__ import annotations

import pytest

from studies.adp1987 import published, urgency_model
from studies.adp1987.cells import URGENCY
from studies.adp1987.report import ranking

ROWS = ranking.urgency_rows(published.load_values())


def test_only_the_nominal_row_of_table_6_can_be() -> None:
    """Table 3 says what a shipment takes; the other rows need more of them than there can be."""
    assert {name for name, row in ROWS.items() if not row.is_contradicted} == {"U3"}
    for row in ROWS.values():
        assert (row.printed < row.least * 0.99) is row.is_contradicted


def test_each_rule_finds_its_cells_and_no_others() -> None:
    """Load: Table 3's FE without a queue and both of SW; cost: Table 4's PE without a queue."""
    paper = published.load_values()
    names = {table: {(cell[0], cell[3], cell[4], cell[5]) for cell in
                     ranking.contradicted_cells(paper, table)} for table in ranking.RANKED}
    nominal = ("ALL", "PE", "HW", "ON")
    assert names == {"2": set(), "3": {("ALL", "FE", "HW", "OFF")},
                     "4": {("ND", "PE", "HW", "OFF")},
                     "5": {("ALL", "PE", "SW", "ON"), ("ND", "PE", "SW", "ON")}, "6": {nominal}}
    costs = sorted(ranking.trailer_costs(paper).values())
    assert costs[-1] > 10 * costs[-2]


def test_eight_urgent_messages_do_not_decide() -> None:
    """Table 6: 8 ms of 8 messages and 11 of 1000; all pairs but that one, and equal ones."""
    paper = published.load_values()
    counts = {table: len(list(ranking.decided_pairs(paper, table))) for table
              in ranking.RANKED}
    assert counts == {"2": 9, "3": 14, "4": 14, "5": 6, "6": 9}


def test_a_larger_queue_contradicts_it_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three pages are what print shows to fit; with four or ten, fewer shipments can be."""
    for pages in (4, 10):
        monkeypatch.setattr(ranking, "_PAGES_SEEN", pages)
        rows = ranking.urgency_rows(published.load_values())
        assert all(rows[name].most_share < ROWS[name].most_share for name in ROWS)
        assert {name for name, row in rows.items() if not row.is_contradicted} == {"U3"}


@pytest.mark.parametrize("name", urgency_model.CHOICES)
def test_no_way_of_choosing_is_below_the_limit(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """On the model, with costs fitted to all of Table 3: urgent at random, in runs, by size."""
    monkeypatch.setattr(urgency_model, "_SEEDS", (1,))
    monkeypatch.setattr(urgency_model, "_MESSAGES", 4000)
    made = urgency_model.model_table_6(urgency_model.CHOICES[name])
    for level in URGENCY:
        assert made[level][0] > ROWS[level].least * 0.9
