"""Tests of analysis.queueing's questions: what-if, capacity, calibration, predictions."""

from __future__ import annotations

import numpy as np
import pytest

from analysis.queueing import (
    Chain,
    CustomerClass,
    Measurement,
    QueueingError,
    QueueingNetwork,
    QueueingStation,
    ResponseTimeBound,
    Visit,
    apply_settings,
    assess_model,
    calibrate_network,
    find_bottleneck,
    find_capacity,
    parse_bound,
    parse_setting,
    simulate_network,
    solve_network,
)


def radius(**load: float) -> QueueingNetwork:
    """EAP-TLS: seven round trips and 8.7 ms of the server in full, three and 2 ms resumed."""
    stations = (QueueingStation("radius"), QueueingStation("wan", "delay", direction="round_trip"))
    classes = (CustomerClass("full", (Visit("radius", 0.0087 / 7, 7), Visit("wan", 0.04, 7)),
                             "full"),
               CustomerClass("short", (Visit("radius", 0.002 / 3, 3), Visit("wan", 0.04, 3)),
                             "resumed"))
    return QueueingNetwork(stations, (Chain("auth", classes, **load,
                                            shares={"full": 1.0, "resumed": 0.0}),))


def response_s(network: QueueingNetwork, **settings: float) -> float:
    """The mean response time after settings such as radius_speed=10."""
    names = {"radius_speed": "radius.speed", "radius_servers": "radius.servers",
             "rtt_ms": "wan.rtt_ms", "delay_ms": "wan.delay_ms", "rate": "auth.rate_per_s",
             "resumed": "resumed"}
    return solve_network(apply_settings(network,
                                        {names[key]: value for key, value in settings.items()})
                         ).chain().response_s


def test_what_ifs_change_what_they_name() -> None:
    """M/M/1 answers: a faster server, another one, longer wires, resumed sessions, more load."""
    network = radius(rate_per_s=50)
    assert response_s(network) == pytest.approx(0.28 + 0.0087 / (1 - 50 * 0.0087))
    assert response_s(network, radius_speed=10) == pytest.approx(0.28 + 0.00087 / (1 - 0.0435))
    assert response_s(network, rtt_ms=120) - response_s(network) == pytest.approx(7 * 0.08)
    assert response_s(network, delay_ms=0) == pytest.approx(0.0087 / (1 - 0.435))
    demand = 0.1 * 0.0087 + 0.9 * 0.002
    assert response_s(network, resumed=0.9) == pytest.approx(
        3.4 * 0.04 + demand / (1 - 50 * demand))
    assert response_s(network, rate=100, radius_servers=2) == pytest.approx(
        0.28 + 0.0087 / (1 - 0.435**2))
    assert response_s(network, rate=100) == pytest.approx(0.28 + 0.0087 / (1 - 0.87))
    assert network == radius(rate_per_s=50)


def test_one_way_visits_are_half_a_round_trip() -> None:
    """A station that is visited once a message takes half of rtt_ms."""
    visits = (Visit("lan", 0.001, 4), Visit("kdc", 0.01))
    network = QueueingNetwork((QueueingStation("lan", "delay", direction="one_way"),
                               QueueingStation("kdc")),
                              (Chain("login", (CustomerClass("all", visits),), population=1),))
    longer = apply_settings(network, {"lan.rtt_ms": 161.0})
    assert solve_network(longer).chain().response_s == pytest.approx(4 * 0.0805 + 0.01)


def test_shares_of_other_variants_keep_their_proportions() -> None:
    """Of three variants, the other two share what is left as before; from nothing, equally."""
    classes = tuple(CustomerClass(name, (Visit("q", 1.0),), name) for name in "abc")
    network = QueueingNetwork((QueueingStation("q"),), (Chain(
        "only", classes, population=1, shares={"a": 0.2, "b": 0.2, "c": 0.6}),))
    assert apply_settings(network, {"a": 0.6}).chains[0].shares == pytest.approx(
        {"a": 0.6, "b": 0.1, "c": 0.3})
    assert apply_settings(network, {"a": 1.0, "b": 0.5}).chains[0].shares == pytest.approx(
        {"a": 0.5, "b": 0.5, "c": 0.0})
    assert apply_settings(apply_settings(network, {"a": 1.0}),
                          {"a": 0.5}).chains[0].shares == pytest.approx(
        {"a": 0.5, "b": 0.25, "c": 0.25})


@pytest.mark.parametrize(("setting", "words"), [
    ("raduis.speed=10", "there is no station or chain 'raduis'; did you mean radius?"),
    ("radius.sped=10", "radius has no 'sped'; did you mean speed?"),
    ("radius.speed=0", "a speed of 0 ends nothing"),
    ("radius.servers=1.5", "1.5 is not a number of servers"),
    ("radius.servers=1e30", "1e+30 servers are more than can be computed; give 1000000 or fewer"),
    ("radius.rtt_ms=3", "station 'radius' is a queue, not a delay"),
    ("wan.delay_ms=-1", "a delay of -1 ms is negative"),
    ("resumed=1.1", "1.1 is not a share; give a number from 0 to 1"),
    ("resumd=0.5", "is not a variant of any chain; did you mean resumed?"),
    ("auth.population=3", "the chain is open; set its rate_per_s"),
    ("auth.rate_per_s=-3", "rate_per_s is -3.0"),
    ("radius.speed", "is not a setting; write NAME=NUMBER"),
    ("radius.speed=fast", "is not a setting"), ("radius.speed=nan", "is not a setting"),
    ("=3", "is not a setting"),
])
def test_bad_what_ifs_are_one_line(setting: str, words: str) -> None:
    """What is not there, and values that mean nothing: what, where, what to do."""
    with pytest.raises(QueueingError) as refusal:
        apply_settings(radius(rate_per_s=50), dict([parse_setting(setting)]))
    assert words in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_more_customers_than_can_be_computed_are_refused() -> None:
    """In a line: solvers would take minutes, or what counts customers would overflow."""
    closed = radius(population=5)
    for number in (1e7, 1e20):
        with pytest.raises(QueueingError, match="more than can be computed; give 1000000 or"):
            apply_settings(closed, {"auth.population": number})


def test_settings_are_parsed() -> None:
    """NAME=NUMBER, with blanks allowed."""
    assert parse_setting("radius.speed = 10") == ("radius.speed", 10.0)
    assert parse_setting("resumed=0.9") == ("resumed", 0.9)


@pytest.mark.parametrize(("text", "bound"), [
    ("p95 < 150 ms", ResponseTimeBound(95, 0.15)), ("mean<2s", ResponseTimeBound(None, 2.0)),
    ("p99.9 <= .5 ms", ResponseTimeBound(99.9, 0.0005)),
    (" p50 < 10 us ", ResponseTimeBound(50, 1e-5))])
def test_bounds_are_parsed(text: str, bound: ResponseTimeBound) -> None:
    """A mean or percentile, a limit and its unit."""
    parsed = parse_bound(text)
    assert parsed.percent == bound.percent
    assert parsed.limit_s == pytest.approx(bound.limit_s)


@pytest.mark.parametrize("text", ["p95", "p95 > 150 ms", "p95 < 150", "p100 < 1 s", "p0 < 1 s",
                                  "median < 1 s", "p95 < 0 ms", "p95 < -1 ms", ""])
def test_bad_bounds_are_refused(text: str) -> None:
    """Anything else gets an example."""
    with pytest.raises(QueueingError, match="write for example p95 < 150 ms"):
        parse_bound(text)


def test_capacity_by_mean_is_computed() -> None:
    """Open: 1 / D less the reciprocal of the time left. Closed: the last population that holds."""
    answer = find_capacity(radius(rate_per_s=1), parse_bound("mean < 300 ms"))
    assert answer.load.value == pytest.approx(1 / 0.0087 - 1 / 0.02)
    assert answer.load.low == answer.load.high == answer.load.value
    assert answer.response_s.value == pytest.approx(0.3)
    assert (answer.bottleneck, answer.saturation_per_s) == ("radius", pytest.approx(1 / 0.0087))
    network = radius(population=5, think_s=2.0)
    closed = find_capacity(network, parse_bound("mean < 400 ms"))
    below, above = (solve_network(apply_settings(network,
                                                 {"auth.population": closed.load.value + more})
                                  ).chain().response_s for more in (0, 1))
    assert below <= 0.4 < above
    assert "up to 263 customers keep to mean < 400 ms" in closed.to_sentence()


def test_capacity_counts_customers_of_a_mixed_network() -> None:
    """Stations beside a background: the percentile holds at the answer, and fails 20 % above."""
    background = Chain("background", (CustomerClass("all", (Visit("radius", 0.01),)),),
                       rate_per_s=40)
    own = radius(population=5, think_s=2.0)
    network = QueueingNetwork(own.stations, (*own.chains, background))
    bound = parse_bound("p95 < 500 ms")
    answer = find_capacity(network, bound, chain="auth", rng=np.random.default_rng(4),
                           visit_limit=1_000_000)
    assert answer.saturation_per_s == pytest.approx(0.6 / 0.0087)
    assert answer.load.value == int(answer.load.value)
    for factor, holds in ((0.8, True), (1.2, False)):
        population = int(answer.load.value * factor)
        run = simulate_network(apply_settings(network, {"auth.population": population}),
                               np.random.default_rng(9), completions=8000).chain("auth")
        assert (run.percentile(95).value < bound.limit_s) == holds


def test_capacity_may_be_none() -> None:
    """A bound below what one customer takes; a chain that nothing limits; no generator."""
    network = radius(rate_per_s=1)
    assert find_capacity(network, parse_bound("mean < 280 ms")).load.value == 0
    none = find_capacity(network, parse_bound("p95 < 200 ms"), rng=np.random.default_rng(1),
                         visit_limit=300_000)
    assert none.load.value == 0
    assert "not even one customer alone keeps to p95 < 200 ms" in none.to_sentence()
    with pytest.raises(QueueingError, match="pass an rng"):
        find_capacity(network, parse_bound("p95 < 1 s"))
    delays = QueueingNetwork((QueueingStation("wan", "delay"),), (Chain(
        "only", (CustomerClass("all", (Visit("wan", 1.0),)),), population=1),))
    with pytest.raises(QueueingError, match="nothing limits its load"):
        find_capacity(delays, parse_bound("mean < 2 s"))


def test_calibration_needs_two_points_and_predicts_the_others() -> None:
    """Points of a network whose demands are unknown to the model: errors vanish, to rounding."""
    truth = apply_settings(radius(rate_per_s=1), {"radius.speed": 0.8, "wan.rtt_ms": 50})
    guess = radius(rate_per_s=1)
    calibrated = calibrate_network(guess, alone_s=7 * 0.05 + 0.0087 / 0.8,
                                   saturation_per_s=0.8 / 0.0087)
    points = [Measurement(
        load, solve_network(apply_settings(truth, {"auth.rate_per_s": load})).chain().response_s,
                          throughput_per_s=load) for load in (10, 40, 80)]
    assessment = assess_model(calibrated, points, loads=(60, 85))
    assert assessment.worst_error == pytest.approx(0, abs=1e-9)
    assert [entry.mark for entry in assessment.predictions] == [
        "modelled", "modelled", "modelled", "modelled", "extrapolated"]
    assert assessment.predictions[3].response_s.error is None
    assert assessment.bottleneck.station == "radius"
    assert assessment.bottleneck.saturation_per_s == pytest.approx(0.8 / 0.0087)
    assert assess_model(guess, points).worst_error == pytest.approx(-0.4, abs=0.2)


def test_calibration_adds_what_nobody_accounts_for() -> None:
    """load.md's trial: 9.11 ms alone, 8.71 ms a request at saturation, so 0.40 ms are serial."""
    network = QueueingNetwork((QueueingStation("radius"),), (Chain(
        "auth", (CustomerClass("all", (Visit("radius", 0.005),)),), rate_per_s=1),))
    calibrated = calibrate_network(network, alone_s=0.00911, saturation_per_s=1 / 0.00871)
    assert [station.name for station in calibrated.stations] == ["radius", "rest"]
    means = solve_network(apply_settings(calibrated, {"auth.rate_per_s": 75}))
    assert means.station("rest").demand_s == pytest.approx([0.0004])
    assert means.chain().response_s == pytest.approx(0.0004 + 0.00871 / (1 - 75 * 0.00871))


@pytest.mark.parametrize(("alone_s", "saturation", "station", "words"), [
    (0.0, 10.0, None, "alone_s is 0; give more than 0"),
    (0.3, 0.0, None, "saturation_per_s is 0"),
    (0.3, 2.0, None, "its demands add up to 0.78 s with 0.5 s at radius"),
    (0.3, 100.0, "wan", "cannot be the bottleneck"),
    (0.3, 100.0, "moon", "is not in this network"),
])
def test_bad_calibrations_are_one_line(alone_s: float, saturation: float, station: str | None,
                                       words: str) -> None:
    """Measurements that contradict each other, and stations that cannot be it."""
    with pytest.raises(QueueingError, match=words) as refusal:
        calibrate_network(radius(population=1), alone_s=alone_s, saturation_per_s=saturation,
                          station=station)
    assert "\n" not in str(refusal.value)


def test_the_same_arrivals_leave_no_sampling_error() -> None:
    """Constant service, first come first served: the model retraces 200 arrivals exactly."""
    network = QueueingNetwork((QueueingStation("queue", "fcfs", scv=0),), (Chain(
        "only", (CustomerClass("all", (Visit("queue", 0.01),)),), rate_per_s=1),))
    arrivals = np.cumsum(np.random.default_rng(8).exponential(1 / 80, 200))
    start, seen = 0.0, []
    for arrival in arrivals:
        start = max(start, arrival) + 0.01
        seen.append(start - arrival)
    point = Measurement(80, float(np.mean(seen)), p95_s=float(np.percentile(seen, 95)),
                        arrivals_s=arrivals)
    assessment = assess_model(network, [point], rng=np.random.default_rng(0))
    assert assessment.worst_error == pytest.approx(0, abs=1e-9)
    assert assessment.worst_p95_error == pytest.approx(0, abs=1e-9)
    with pytest.raises(QueueingError, match="pass an rng"):
        assess_model(network, [point])


def test_calibrated_points_are_marked_and_not_judged() -> None:
    """The error is that of the other points; percentiles are simulated where they were measured."""
    network = radius(population=1, think_s=1.0)
    points = [Measurement(1, 0.2, calibration=True),
              Measurement(20, solve_network(
                  apply_settings(network, {"auth.population": 20})).chain().response_s,
                          p95_s=0.3)]
    assessment = assess_model(network, points, rng=np.random.default_rng(2), visit_limit=500_000)
    first, second = assessment.predictions
    assert (first.mark, second.mark) == ("calibrated", "modelled")
    assert first.response_s.error == pytest.approx(0.2887 / 0.2 - 1)
    assert assessment.worst_error == pytest.approx(0, abs=1e-12)
    assert second.p95_s is not None
    assert second.p95_s.modelled.low < second.p95_s.modelled.value < second.p95_s.modelled.high
    assert assessment.bottleneck.knee == pytest.approx((1.0 + 0.2887) / 0.0087)
    with pytest.raises(QueueingError, match="visits delays only"):
        find_bottleneck(QueueingNetwork((QueueingStation("wan", "delay"),), (Chain(
            "only", (CustomerClass("all", (Visit("wan", 1.0),)),), population=1),)))
