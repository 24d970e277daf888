"""Tests of how company on the host is divided out of nodes' factors."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest

from measure.cpu import host_load

if TYPE_CHECKING:
    from topologies.builder import Testbed

LEAST = {"least_look_start_ns": 1000.0, "least_look_errand_ns": 100.0}


def test_slowdown_is_the_geometric_mean_of_the_pieces() -> None:
    """Pieces are of different sizes, and each counts alike."""
    now = {"least_look_start_ns": 4000.0, "least_look_errand_ns": 100.0}
    assert host_load.compute_slowdown(now, LEAST) == pytest.approx(2.0)


def test_less_than_the_least_is_no_company() -> None:
    """Who takes less than was ever seen has none: nodes are not made slower for it."""
    assert host_load.compute_slowdown(dict.fromkeys(LEAST, 1.0), LEAST) == 1.0


def test_one_look_is_enough_where_a_least_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever starts later had more company than the least, or less, which becomes the least."""
    looks: list[float] = []

    def look_ns(*_: object) -> dict[str, float]:
        looks.append(3.0 - len(looks))
        return dict.fromkeys(LEAST, looks[-1])

    monkeypatch.setattr(host_load.CalibrationWorkload, "sample_ns", look_ns)
    assert host_load.CalibrationWorkload().least_ns(is_known=True) == dict.fromkeys(LEAST, 3.0)
    assert host_load.CalibrationWorkload().least_ns(is_known=False) == dict.fromkeys(LEAST, 0.0)
    assert len(looks) == 1 + 3


@pytest.mark.parametrize(("permille", "factor", "expected"), [
    ([1000, 1000, 1000, 1000], 1.25, [800, 800, 800, 800]),
    ([1000, 0, 1, 2], 4.0, [250, 0, 1, 1]),
    ([125000, 1100], 1.25, [100000, 1001]),
    ([1000, 61000], 1.0, [1000, 61000])])
def test_factors_are_divided(permille: list[int], factor: float, expected: list[int]) -> None:
    """What takes no time still takes none, and a slower node stays slower than this machine."""
    assert host_load.divide_factors(permille, factor) == expected


def test_of_a_machine_s_speeds_the_least_ones_are_told() -> None:
    """The others are what devices' factors are ratios to."""
    assert host_load.select_least_times({"entry_ns": 8000.0, **LEAST}) == LEAST


def test_what_was_divided_by_is_told_once() -> None:
    """The mean of all looks since it was last asked: of a repetition's."""
    took = iter([1.0, 2.0, 3.0])

    class Taken:
        """Pieces of work that take longer from look to look."""

        def sample_ns(self) -> dict[str, float]:
            """So many times the least."""
            factor = next(took)
            return {name: factor * value for name, value in LEAST.items()}

    class Networkless:
        """A testbed without nodes: there is nothing to set."""

        network = type("Network", (), {"nodes": {}})

    beside = host_load.LoadCompensation(cast("Testbed", Networkless()),
                                        cast("host_load.CalibrationWorkload", Taken()),
                                        LEAST, {})
    assert beside.take_mean_factor() is None
    beside.apply()
    beside.apply()
    assert beside.take_mean_factor() == pytest.approx(1.5)
    beside.apply()
    assert beside.take_mean_factor() == pytest.approx(3.0)
