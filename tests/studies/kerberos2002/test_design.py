"""Tests of the design: which cells there are, and what of a user's wishes is refused in a line."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

import studies
from studies.kerberos2002 import design, surface
from studies.kerberos2002.asked import Asked
from studies.study import Cell, Level, StudyError

STUDY = studies.load("kerberos2002")


def cell(*row: str) -> Cell:
    """A cell by its ids."""
    return Cell({name: Level(level) for name, level in zip(design.NAMES, row, strict=True)})


def test_every_cell_of_a_table_is_there_once() -> None:
    """Table III, loads of three protocols, and both placements of four servers."""
    rows = list(design.cells({factor.name: factor.read((), ()) for factor in design.FACTORS}))
    names = [one.name for one in rows]
    assert len(names) == len(set(names))
    assert {"-".join(design.ids(name)) for name in design.MOBILE} <= set(names)
    assert {"-".join(design.ids(name, customers=32)) for name in design.LOADED} <= set(names)
    assert {"-".join(design.ids("pktapp", servers=4, placement=place, customers=16))
            for place in ("one", "each")} <= set(names)


@pytest.mark.parametrize(("factor", "level"), [
    ("protocol", "pkcross2"), ("servers", "0"), ("speed", "0.5"), ("customers", "0")])
def test_levels_that_there_are_not_are_refused(factor: str, level: str) -> None:
    """No unknown protocol, no server, no slower servers, no customer: what there is, is said."""
    read = next(one for one in design.FACTORS if one.name == factor).read
    with pytest.raises(StudyError, match="no such level; choose from"):
        read([level], ())


@pytest.mark.parametrize(("settings", "says"), [
    ({"today_device": "sun3-50"},
     "setting today_device: device sun3-50: does not say what rsa-2048-private takes"),
    ({"server_device": "nowhere"}, "server_device: .*nowhere: no such file"),
    ({"workstation_device": "today"},
     "setting workstation_device: device today: does not say what rsa-1024-private takes")])
def test_devices_that_lack_figures_are_refused(settings: Mapping[str, str], says: str) -> None:
    """A device has to say what the protocol's operations take, each with a source."""
    with pytest.raises(StudyError, match=says):
        STUDY.testbed(cell(*design.ids("pkcross", suite="today" if "today_device" in settings
                                       else "era")), Asked(**settings))


def test_the_surface_is_counted_from_the_protocols() -> None:
    """Round trips by hand: 2 + 2n for PKCROSS; for PKTAPP connection, ticket and use, each n."""
    assert [surface.far_trips("pkcross", servers) for servers in (1, 2, 4)] == [4, 6, 10]
    assert [surface.far_trips("pktapp", servers) for servers in (1, 2, 4)] == [3, 6, 12]


def test_the_surface_turns_where_the_private_operations_do() -> None:
    """Near by, three servers' private operations of PKTAPP are the three of PKCROSS.

    On machines of their own, PKTAPP bears more for any number of servers.
    """
    points = {(point.key, point.round_trip_s, point.servers): point for point in surface.points()}
    first = {place: min(servers for key, away_s, servers in points
                        if (key, away_s) == place and points[key, away_s, servers].pkcross_s
                        < points[key, away_s, servers].pktapp_s)
             for place in {(key, away_s) for key, away_s, _ in points}}
    assert first["rsa-1024", 0.001] == 3
    assert first["rsa-2048", 0.001] == 3
    assert all(point.pktapp_per_s[1] > point.pkcross_per_s for point in points.values())
