"""Tests of the design: which cells there are, and what of a user's wishes is refused in a line."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

import studies
from kerberos_realms import OF_KEYS
from policies import KerberosLayer
from studies.kerberos2002 import cells, faults, judge, model, programs, published
from studies.kerberos2002.settings import Settings
from studies.kerberos2002.variants import VARIANTS, protocol_from_layer
from studies.study import Cell, Level, StudyError

STUDY = studies.load_study("kerberos2002")


def cell(*row: str) -> Cell:
    """A cell by its ids."""
    return Cell({name: Level(level) for name, level in zip(cells.NAMES, row, strict=True)})


def test_every_cell_of_a_table_is_there_once() -> None:
    """Table III, loads of three protocols, and both placements of four servers."""
    rows = list(cells.select_cells({factor.name: factor.read((), ()) for factor
                                    in cells.FACTORS}))
    names = [one.name for one in rows]
    assert len(names) == len(set(names))
    assert {"-".join(cells.cell_ids(name)) for name in cells.MOBILE} <= set(names)
    assert {"-".join(cells.cell_ids(name, suite="today")) for name in VARIANTS} <= set(names)
    assert {"-".join(cells.cell_ids(name, wire="2g")) for name in cells.MOBILE} <= set(names)
    assert {"-".join(cells.cell_ids(name, customers=32)) for name in cells.LOADED} <= set(names)
    assert {"-".join(cells.cell_ids("pktapp", servers=4, placement=place, customers=16))
            for place in ("one", "each")} <= set(names)


@pytest.mark.parametrize(("factor", "level"), [
    ("protocol", "pkcross2"), ("servers", "0"), ("speed", "0.5"), ("customers", "0")])
def test_levels_that_there_are_not_are_refused(factor: str, level: str) -> None:
    """No unknown protocol, no server, no slower servers, no customer: what there is, is said."""
    read = next(one for one in cells.FACTORS if one.name == factor).read
    with pytest.raises(StudyError, match="no such level; choose from"):
        read([level], ())


@pytest.mark.parametrize(("chosen", "says"), [
    ({"servers": "8", "placement": "each"}, "servers 8 goes with placement one alone"),
    ({"protocol": "mp-trusted", "wire": "slow"}, "mp-trusted goes with wire lan, 2g, 3g alone"),
    ({"protocol": "mp-trusted", "speed": "10"}, "mp-trusted goes with speed 1 alone"),
    ({"protocol": "m-standard", "suite": "today", "customers": "4"}, "customers 4 goes with suite"),
])
def test_levels_without_a_cell_are_refused(chosen: Mapping[str, str], says: str) -> None:
    """Of levels that there are, those that do not go together are named, and what would."""
    levels = {factor.name: list(factor.read((), ())) for factor in cells.FACTORS}
    for name, wish in chosen.items():
        levels[name] = [level for level in levels[name] if level.id == wish]
    with pytest.raises(StudyError, match=f"nothing of this can be measured: .*{says}"):
        list(cells.select_cells(levels))


@pytest.mark.parametrize(("settings", "says"), [
    ({"today_device": "sun3-50"},
     "setting today_device: device sun3-50: does not say what rsa-2048-private takes"),
    ({"server_device": "nowhere"}, "server_device: .*nowhere: no such file"),
    ({"workstation_device": "today"},
     "setting workstation_device: device today: does not say what rsa-1024-private takes")])
def test_devices_that_lack_figures_are_refused(settings: Mapping[str, str], says: str) -> None:
    """A device has to say what the protocol's operations take, each with a source."""
    with pytest.raises(StudyError, match=says):
        STUDY.testbed(cell(*cells.cell_ids("pkcross", suite="today" if "today_device" in settings
                                           else "era")), Settings(**settings))


def test_the_surface_is_counted_from_the_protocols() -> None:
    """Round trips by hand: 2 + 2n for PKCROSS; for PKTAPP connection, ticket and use, each n."""
    assert [model.far_trips("pkcross", servers) for servers in (1, 2, 4)] == [4, 6, 10]
    assert [model.far_trips("pktapp", servers) for servers in (1, 2, 4)] == [3, 6, 12]


def test_the_surface_turns_where_the_private_operations_do() -> None:
    """Near by, three servers' private operations of PKTAPP are the three of PKCROSS.

    On machines of their own, PKTAPP bears more for any number of servers.
    """
    points = {(point.key, point.round_trip_s, point.servers): point for point
              in model.compute_surface_points()}
    first = {place: min(servers for key, away_s, servers in points
                        if (key, away_s) == place and points[key, away_s, servers].pkcross_s
                        < points[key, away_s, servers].pktapp_s)
             for place in {(key, away_s) for key, away_s, _ in points}}
    assert first["rsa-1024", 0.001] == 3
    assert first["rsa-2048", 0.001] == 3
    assert all(point.pktapp_per_s[1] > point.pkcross_per_s for point in points.values())


@pytest.mark.parametrize(("layer", "protocol"), [
    ({"initial": "password", "realms": "pkcross"}, "pkcross"),
    ({"initial": "pkinit", "realms": "pktapp"}, "pktapp"),
    ({"initial": "pkinit"}, "m-standard"),
    ({"initial": "pkinit", "reply_key": "client"}, "m-client-key"),
    ({"initial": "pkinit", "proxy": "forward"}, "mp-standard"),
    ({"initial": "pkinit", "reply_key": "client", "proxy": "forward"}, "mp-client-key"),
    ({"initial": "pkinit", "reply_key": "client", "proxy": "trusted"}, "mp-trusted"),
    ({"initial": "pkinit", "reply_key": "client", "proxy": "assist"}, "mp-assist")])
def test_a_policys_layer_is_a_protocol(layer: dict[str, str], protocol: str) -> None:
    """Each of the paper's protocols can be said by a policy."""
    assert protocol_from_layer(KerberosLayer.model_validate({"by": "programs",
                                                             **layer})) == protocol
    assert protocol in VARIANTS


def test_a_transaction_over_the_air_is_a_file_away(tmp_path: Path) -> None:
    """A cell by the policy's own protocol and suite; the parties are at the mobile node's home."""
    file = tmp_path / "mine.yml"
    file.write_text("id: mine\nname: mine\nlayers:\n  link: {cipher: CCMP, keys: psk}\n"
                    "  kerberos: {by: programs, initial: pkinit, suite: today}\n")
    levels = {factor.name: list(factor.read((), ())) for factor in cells.FACTORS}
    levels["policy"] = list(cells.FACTORS[7].read((), [file]))
    levels["scenario"] = list(cells.FACTORS[8].read(["R1"], ()))
    [chosen] = cells.select_cells(levels)
    assert chosen.name == "of-policy-1-air-1-1-one-today-mine-R1"
    spec, task = STUDY.testbed(chosen, Settings()), STUDY.task(chosen, Settings())
    assert (task["protocol"], task["scenario"]["peer"]) == ("m-standard", "kdc-l")
    assert spec.policy is not None
    assert spec.policy.layers.kerberos is None  # nothing of it is for Ansible to render
    assert spec.devices["a2"] == spec.devices["kdc-l"] == "celeron-850"
    levels["scenario"] = list(cells.FACTORS[8].read((), ()))
    with pytest.raises(StudyError, match="--scenarios N2"):
        list(cells.select_cells(levels))
    file.write_text("id: mine\nname: mine\nlayers:\n  kerberos: {initial: pkinit}\n")
    with pytest.raises(StudyError, match=r"by MIT krb5, .* choose krb5today"):
        cells.FACTORS[7].read((), [file])


def test_one_record_says_what_operations_take_here() -> None:
    """Table I's operations, counted by this processor: private ones take longest, in both lengths.

    Of the design's cells one is timed, and no other.
    """
    took_s = judge.time_operations()
    assert took_s.keys() == published.load_values().table_1_s.keys()
    for bits in (1024, 2048):
        assert took_s[f"RSA-{bits}-decrypt"] > took_s[f"RSA-{bits}-encrypt"] > 0
    assert sum(judge.is_timed(cell(*row)) for row in dict.fromkeys(cells.design_cells())) == 1


@pytest.mark.parametrize("protocol", cells.MOBILE)
def test_print_is_what_the_papers_programs_did(protocol: str) -> None:
    """With both options operations come to every row of Table III within 2 %, to none without.

    Rows 5 and 6 say something by that: the devices were derived from rows 1 to 4.
    """
    row, paper = cells.cell_ids(protocol), published.load_values()
    asked = [Settings(), Settings(kdc_signs=True, spares_opening=True)]
    ours, theirs = (sum(model.predict_phases(VARIANTS[protocol],
                                             STUDY.task(cell(*row), settings)
                                             ).values()) for settings in asked)
    printed = paper.table_3["transaction_s", *row]
    assert abs(theirs / printed - 1) < 0.02
    assert abs(ours / printed - 1) > 0.15


def test_every_control_is_known() -> None:
    """What programs or keys can be otherwise is a control, and each has a cell and its checks."""
    assert {*programs.FAULTS, OF_KEYS} == set(faults.FAULTS)
    assert all(fault.fails and tuple(fault.on) == cells.NAMES
               for fault in faults.FAULTS.values())
