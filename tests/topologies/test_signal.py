"""Tests of signals: power by distance as Mininet-WiFi has it, errors as ns-3's models have them."""

from __future__ import annotations

import dataclasses

import pytest

from topologies import queueing_disciplines
from topologies.loader import load_medium, load_network, load_scenario
from topologies.medium import Transmitters
from topologies.medium_model import Medium, Signal, bit_errors, distance_m

#: What ns-3.44 answers (DsssErrorRateModel, NistErrorRateModel): 1000 bytes at a ratio in dB.
NS3 = [
    (1_000_000, -5, 0.0221779), (1_000_000, -4, 0.533341), (1_000_000, -3, 0.936988),
    (2_000_000, 0, 0.211445), (2_000_000, 1, 0.770221), (2_000_000, 2, 0.971920),
    (5_500_000, 3, 0.432322), (5_500_000, 4, 0.905366), (5_500_000, 5, 0.993248),
    (11_000_000, 6, 0.425251), (11_000_000, 7, 0.903129), (11_000_000, 8, 0.993037),
    (6_000_000, 3, 0.141636), (6_000_000, 4, 0.940859), (9_000_000, 6, 0.311367),
    (9_000_000, 7, 0.958163), (12_000_000, 6, 0.132042), (12_000_000, 7, 0.938691),
    (18_000_000, 9, 0.299179), (18_000_000, 10, 0.956689), (24_000_000, 13, 0.703249),
    (36_000_000, 16, 0.621768), (36_000_000, 17, 0.980636), (48_000_000, 21, 0.805814),
    (54_000_000, 22, 0.640672), (54_000_000, 23, 0.978859)]


@pytest.mark.parametrize(("rate_bps", "ratio_db", "success"), NS3)
def test_errors_are_ns3s(rate_bps: int, ratio_db: float, success: float) -> None:
    """How probably 8000 bits survive: within 0.016, which is 0.1 dB; without CCK within 0.001."""
    within = 0.016 if rate_bps in (5_500_000, 11_000_000) else 0.001
    assert (1 - bit_errors(rate_bps, 10 ** (ratio_db / 10))) ** 8000 == pytest.approx(
        success, abs=within)


def signal(name: str = "802.11g-positions") -> Signal:
    """A shipped medium's."""
    found = load_medium(name).signal
    assert found is not None
    return found


@pytest.mark.parametrize(("place", "dbm"), [((40, 40), -62), ((71, 40), -70), ((101, 40), -84)])
def test_power_is_mininet_wifis(place: tuple[float, float], dbm: int) -> None:
    """What a drive of topologies/examples/roaming.py printed under Mininet-WiFi."""
    assert signal().received_dbm(distance_m(place, (50, 50)), 2.412e9) == pytest.approx(dbm, abs=1)


def test_rates_fall_with_distance() -> None:
    """Near all, far some, at the edge the lowest; and nothing lasts beyond it."""
    g = signal()
    rates = [g.best_rate_bps(g.received_dbm(metres, 2.412e9)) for metres in (10, 40, 58)]
    assert rates == [54_000_000, 18_000_000, 6_000_000]
    assert g.frame_loss(6_000_000, g.received_dbm(58, 2.412e9), 1536) < 0.01
    assert g.frame_loss(6_000_000, g.received_dbm(80, 2.412e9), 1536) == pytest.approx(1)


def test_places_are_part_of_what_a_placed_scenario_is() -> None:
    """Nodes stand where `positions` says, and elsewhere would be another scenario."""
    from studies import policy_factors
    from topologies.loader import to_json

    digests = set()
    for name, metres in (("near", 10), ("far", 40), ("edge", 58)):
        scenario = load_scenario(f"N2-{name}")
        nodes = scenario.network.nodes
        assert distance_m(nodes["a2"].position or (), nodes["ap-a"].position or ()) == metres
        digests.add(policy_factors.scenario_digest({**to_json(scenario), "id": "same"}))
    assert len(digests) == 3


def test_a_medium_reads_back_with_its_signal() -> None:
    """Plain JSON and back, as into the machine."""
    from topologies.loader import to_json
    from topologies.model import from_json

    medium = load_medium("802.11b-positions")
    assert from_json(Medium, to_json(medium)) == medium


def test_a_radio_without_a_place_is_named() -> None:
    """In one line, before anything is built: where it stands would be a guess."""
    network = load_network("two-subnets")
    nowhere = dataclasses.replace(network.nodes["a2"], position=None)
    there = Transmitters.from_network(dataclasses.replace(
        network, nodes={**network.nodes, "a2": nowhere}))
    with pytest.raises(RuntimeError, match="02:00:00:00:a2:00 has no position; give its node"):
        there.received_dbm(load_medium("802.11b-positions"), 1)
    assert there.received_dbm(load_medium("802.11b-short"), 1) == {}


def test_more_radios_than_fit_are_refused() -> None:
    """A channel of 91 with positions, by number and with a way out."""
    channel = queueing_disciplines.DcfChannel(load_medium("802.11b-positions"), stations=91,
                                              access_points=(3,),
                                              cipher_bytes=0, seed=1,
                                              received_dbm={(3, 4): -50.0})
    with pytest.raises(RuntimeError, match="91 radios have positions on one channel; take 90"):
        queueing_disciplines.make_channel(1, "air1", 1 << 16, channel)


def test_only_access_points_of_a_channel_send_its_beacons() -> None:
    """Two access points on two channels: each channel has one."""
    network = load_network("two-subnets")
    nodes = {**network.nodes, "ap-b": dataclasses.replace(network.nodes["ap-b"], channel=6)}
    there = Transmitters.from_network(dataclasses.replace(network, nodes=nodes))
    assert len(there.access_points_on(1)) == len(there.access_points_on(6)) == 1
    assert there.access_points_on(1) != there.access_points_on(6)
