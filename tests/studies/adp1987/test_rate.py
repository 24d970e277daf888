"""The program that asks how much a core carries runs by itself, over loopback."""

from __future__ import annotations

import re

import pytest

from studies.adp1987.programs import measure_rate


def test_both_ends_carry_a_trace_and_say_what_it_took(capsys: pytest.CaptureFixture[str]) -> None:
    """A line with queueing, and one without."""
    assert measure_rate.main("ALL", "5000") == 0
    lines = capsys.readouterr().out.splitlines()
    assert [re.match(r"ALL, queueing (on|off): \d+ messages a second", line) is not None
            for line in lines] == [True, True]


def test_another_trace_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """With how it is called."""
    assert measure_rate.main("NONE") == 2
    assert capsys.readouterr().err.startswith(
        "usage: python3 -m studies.adp1987.programs.measure_rate")
