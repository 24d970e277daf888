"""The bench of cards: which times are equal, and what its lines say of cards that were changed."""

from __future__ import annotations

import pytest

from bench import cards
from bench.cards import Agreement


@pytest.mark.parametrize(("card_s", "capture_s", "is_equal"), [
    (0.0109, 0.0100, True), (0.0112, 0.0100, False), (1.015, 1.0, True), (0.975, 1.0, False)])
def test_times_are_equal_to_2_percent_or_1_ms(card_s: float, capture_s: float,
                                              is_equal: bool) -> None:
    assert Agreement("logins", card_s, capture_s).is_equal is is_equal


def test_lines_count_equal_times_and_restored_cards_by_kind() -> None:
    agreements = [Agreement("logins", 0.020, 0.020), Agreement("logins", 0.030, 0.020),
                  Agreement("M5 EAP", 1.4, 1.41)]
    outcomes = [["measure", "0", "whole", "restored"], ["run", "1", "killed", "restored"],
                ["run", "2", "killed", "changed"], ["run", "3", "late", "restored"]]
    assert list(cards.format_lines(agreements, outcomes, "6.1.0-57-amd64")) == [
        "Linux 6.1.0-57-amd64; equal to 2% or 1 ms",
        "logins: 1 of 2 equal, 20.0 to 30.0 ms, largest difference 10.00 ms",
        "M5 EAP: 1 of 1 equal, 1400.0 to 1400.0 ms, largest difference 10.00 ms",
        "measure, whole: cards as before after 1 of 1",
        "run, killed: cards as before after 1 of 2",
        "run, late: cards as before after 1 of 1"]
