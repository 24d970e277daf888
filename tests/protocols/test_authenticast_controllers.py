"""Authenticast's controllers: what they decide, what they never do, and fair signing."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from authenticast_ends import ED, MS, Ends, adds_up, wish
from protocols.authenticast.controllers import (
    AlgorithmController,
    Blend1998,
    BlendParameters,
    BoundedDelayController,
    BoundedDelayParameters,
    DelayedFirst1998,
    LyapunovController,
    StaticController,
    StreamObservation,
    operation_rates,
)
from protocols.authenticast.fairness import (
    FairQueue,
    StreamLoad,
    best_algorithm,
    busier_end_load,
    max_min_shares,
)
from protocols.authenticast.processor import MissingCost, OperationCost, OtherLoad, Processor
from protocols.authenticast.settings import Algorithm, LevelRange, Scheme, StreamSetting

DSA, RSA = Algorithm.DSA, Algorithm.RSA
DELAYED3 = StreamSetting(Scheme.DELAYED, DSA, 3)
# An UltraSPARC of 1998: 50 ms a verification, 1 ms a packet, room for 100 packets.
COSTS = {"handle": MS, "ed25519-256-verify": 50 * MS}


def seen(setting=DELAYED3, delta=0, **changes) -> StreamObservation:
    """What a controller sees of a stream of 100 packets/s on a processor of 1998."""
    plain = StreamObservation(now_s=0.0, setting=setting, permitted=LevelRange(0.05, 1), sent=1000,
                              processed=900, delta=delta, rate_pps=100.0, verify_s=0.05,
                              handle_s=0.001)
    return replace(plain, **changes)


def by_percentage(level, **more) -> StreamSetting:
    """A setting."""
    return StreamSetting(Scheme.PERCENTAGE, DSA, level=level, **more)


def test_the_blend_drops_drastically_and_returns_with_a_larger_bundle():
    """Section 5.2: DELTA beyond LIMIT, below 20 %; stable for long enough, a larger bundle."""
    blend = Blend1998(BlendParameters(limit=60, low=0.1, calm_packets=200))
    assert blend.decide(seen(delta=60)) is None
    dropped = blend.decide(seen(delta=61))
    assert dropped.setting == by_percentage(0.1)
    assert dropped.cause == "DELTA 61 > 60: to 10 %"
    low = dropped.setting
    assert blend.decide(seen(low, delta=40, processed=1000)) is None
    assert blend.decide(seen(low, delta=3, processed=1100)) is None
    assert blend.decide(seen(low, delta=13, processed=1200)) is None  # not calm: count anew
    assert blend.decide(seen(low, delta=3, processed=1300)) is None
    assert blend.decide(seen(low, delta=3, processed=1499)) is None
    assert blend.decide(seen(low, delta=3, processed=1500)).setting == replace(DELAYED3, bundle=6)


def test_the_blend_stays_in_the_range():
    """The drop ends at the user's floor (section 4.5)."""
    dropped = Blend1998(BlendParameters(low=0.1)).decide(seen(delta=999,
                                                              permitted=LevelRange(0.4, 1)))
    assert dropped.setting.level == 0.4


def test_the_other_reading_of_1998():
    """Section 4.5: first a group of more than ten, then a larger one; smaller ones when stable."""
    first = DelayedFirst1998(BlendParameters(limit=60))
    raised = first.decide(seen(delta=61, sent=1000))
    assert raised.setting == replace(DELAYED3, bundle=11)
    # What was sent before cannot show yet whether that helps.
    assert first.decide(seen(raised.setting, delta=90, processed=950, sent=1100)) is None
    again = first.decide(seen(raised.setting, delta=90, processed=1100, sent=1200))
    assert again.setting.bundle == 22
    first.decide(seen(again.setting, processed=1300))
    assert first.decide(seen(again.setting, processed=1600)).setting.bundle == 11
    assert first.decide(seen(by_percentage(1.0), delta=61, processed=2000)).setting.bundle == 11


@settings(deadline=None)
@given(limit=st.integers(1, 200), more=st.integers(0, 200), delta=st.integers(0, 400))
def test_a_higher_limit_never_drops_earlier(limit, more, delta):
    """Monotone in LIMIT: what a patient receiver reacts to, an impatient one reacts to as well."""
    patient = Blend1998(BlendParameters(limit=limit + more)).decide(seen(delta=delta))
    impatient = Blend1998(BlendParameters(limit=limit)).decide(seen(delta=delta))
    assert impatient is not None or patient is None


@pytest.mark.parametrize(("rate", "verify_s", "bundle"), [
    (100, 0.05, 7), (100, 0.005, 1), (118, 0.043, 7), (50, 0.05, 3)])
def test_the_smallest_sustainable_bundle(rate, verify_s, bundle):
    """Rate x (handling + verification / n) stays below 0.9 for this n, and for none below."""
    for scheme in (Scheme.DELAYED, Scheme.TREE):
        decision = BoundedDelayController(scheme).decide(seen(StreamSetting(scheme, DSA, 50),
                                                              rate_pps=rate,
                                                              verify_s=verify_s))
        assert decision.setting == StreamSetting(scheme, DSA, bundle)
        assert rate * (0.001 + verify_s / bundle) <= 0.9
        assert bundle == 1 or rate * (0.001 + verify_s / (bundle - 1)) > 0.9


def test_the_delay_bound_comes_before_the_level():
    """Where no group is sustainable and quick enough, the level falls, as little as it must."""
    decision = BoundedDelayController(Scheme.TREE).decide(seen(delay_bound_s=0.05))
    assert decision.setting == by_percentage(0.16)  # 0.008 s of room for 0.05 s
    assert 5 * 10 <= 50 < 7 * 10  # packets that come in 50 ms, against the bundle that it takes


def test_below_the_floor_packets_are_dropped_not_passed():
    """The floor holds: where not even it can be sustained, so many are shed that it can be."""
    stolen = seen(delay_bound_s=0.05, permitted=LevelRange(0.5, 1))
    decision = BoundedDelayController(Scheme.DELAYED).decide(stolen)
    assert decision.setting.level == 0.5
    shed = decision.setting.shed
    assert 100 * (1 - shed) * (0.001 + 0.5 * 0.05) <= 0.9 < 100 * (1.01 - shed) * 0.026
    assert "shed" in decision.cause


@example("lyapunov", 1.0, [(1, 1e-308, 2.0, 0.0, 1.0)])
@example("bounded", 0.0, [(1, 5e-324, 1.0, 0.0, 1.0)])
@settings(max_examples=75, deadline=None)
@given(kind=st.sampled_from(["blend", "first", "bounded", "tree", "lyapunov"]),
       floor=st.floats(0, 1), history=st.lists(st.tuples(
           st.integers(0, 2000), st.floats(0, 500), st.floats(0, 2), st.floats(0, 0.1),
           st.floats(0.01, 2)), max_size=30))
def test_no_load_brings_the_level_below_the_floor(kind, floor, history):
    """Load is an attack: whatever a receiver reports, no controller decides below its floor."""
    controller = {"blend": Blend1998, "first": DelayedFirst1998, "lyapunov": LyapunovController,
                  "bounded": lambda: BoundedDelayController(Scheme.DELAYED),
                  "tree": BoundedDelayController}[kind]()
    setting, sent = DELAYED3, 0
    for n, (delta, rate, verify_s, handle_s, bound_s) in enumerate(history):
        sent += int(rate)
        decision = controller.decide(StreamObservation(
            n / 2, setting, LevelRange(floor, 1), sent, max(0, sent - delta), delta, rate,
            verify_s=verify_s, handle_s=handle_s, delay_bound_s=bound_s))
        if decision is not None:
            setting = decision.setting
            assert setting.level >= floor
            assert "\n" not in decision.cause


def test_decisions_are_repeatable():
    """The same series of observations gives the same decisions."""
    rng = random.Random(4)
    series = [seen(delta=rng.randrange(200), now_s=n / 10, processed=900 + 10 * n,
                   verify_s=rng.uniform(0.02, 0.2)) for n in range(100)]
    for make in (Blend1998, DelayedFirst1998, BoundedDelayController, LyapunovController):
        runs = [[controller.decide(observation) for observation in series]
                for controller in (make(), make())]
        assert runs[0] == runs[1]


def test_static_is_static():
    """No control is no control."""
    assert StaticController().decide(seen(delta=10 ** 6)) is None


def run(wished, controller, *, steal=lambda _s: 0.0, loss=0.0, packets=1500) -> tuple:
    """A stream of 100 packets/s to a receiver of 1998, closed over real messages."""
    ends = Ends(wished, wire=lambda datagram, rng: [] if rng.random() < loss else [(MS, datagram)],
                buffer=100, costs=COSTS, controller=controller, client_steal=steal).start()
    ends.stream(packets)
    account = ends.finish(60_000 * MS)
    assert adds_up(account)
    assert account["sent"] == packets
    assert account["below_floor_s"] == 0
    return account["processed"] / packets, account["level"], account, ends


def test_by_percentage_alone_has_its_knee():
    """Fig. 4's shape on a processor of 1998: all is retained at 15 %, much is lost at 30 %."""
    assert run(wish(level=0.15), StaticController)[0] > 0.99
    retained, _, account, _ = run(wish(level=0.3), StaticController)
    assert retained < 0.8
    assert account["lost"]["air"] == 0 < account["lost"]["buffer"]


def test_the_blend_retains_what_it_pays_for_in_level():
    """Fig. 6's shape: more than delayed with 3, at a level below 100 %; the level returns."""
    start = wish(Scheme.DELAYED, bundle=3, low=0.05, automatic=True)
    delayed, _, _, _ = run(wish(Scheme.DELAYED, bundle=3), StaticController)
    retained, level, account, ends = run(
        start, lambda: Blend1998(BlendParameters(limit=60)))
    assert delayed < 0.8 < retained
    assert level < 1
    assert account["exposure_s"] > 1
    switched = ends.events("switched")
    assert [step["scheme"] for step in switched[:2]] == ["percentage", "delayed"]
    assert switched[1]["bundle"] == 6


def test_bounded_keeps_the_level_under_theft():
    """Half the processor stolen: trees that grow keep the level at 100 % and most packets."""
    start = wish(Scheme.TREE, bundle=3, low=0.05, automatic=True)
    retained, level, _, ends = run(start, BoundedDelayController,
                                   steal=lambda s: 0.5 * (5 < s < 10), loss=0.02)
    assert retained > 0.95
    assert level == 1
    bundles = [step["bundle"] for step in ends.events("switched")]
    assert max(bundles) >= 12


def test_an_attacker_cannot_push_the_dial_down():
    """95 % stolen and a floor of 100 %: packets are lost, none is processed unverified."""
    start = wish(Scheme.TREE, bundle=3, low=1.0, automatic=True)
    _, level, account, ends = run(start, BoundedDelayController, steal=lambda _: 0.95, packets=800)
    assert level == 1
    assert all(delivered.verified for delivered in ends.delivered)
    assert account["lost"]["shed"] > 0


# --- fairness ------------------------------------------------------------------------------------


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from("abc"), st.floats(0.01, 3)), min_size=1, max_size=200),
       st.tuples(*[st.floats(0.2, 5)] * 3))
def test_nobody_is_signed_for_before_the_turn(jobs, weights):
    """While two clients have work, what they got by weight differs by one job of each at most."""
    queue: FairQueue[str, float] = FairQueue()
    weight = dict(zip("abc", weights, strict=True))
    left = dict.fromkeys("abc", 0)
    biggest, got = dict.fromkeys("abc", 0.0), dict.fromkeys("abc", 0.0)
    for client in "abc":
        queue.add_client(client, weight[client])
    for client, cost in jobs:
        queue.push_job(client, cost, cost)
        left[client] += 1
        biggest[client] = max(biggest[client], cost / weight[client])
    always = {client for client in "abc" if left[client]}
    for _ in jobs:
        client, cost = queue.pop_job()
        left[client] -= 1
        got[client] += cost / weight[client]
        always = {other for other in always if left[other]}
        for one in always:
            for other in always:
                assert got[one] - got[other] <= biggest[one] + biggest[other] + 1e-9
    with pytest.raises(IndexError):
        queue.pop_job()


@settings(deadline=None)
@given(st.floats(0.1, 100), st.dictionaries(st.sampled_from("abcdef"), st.floats(0, 50),
                                            min_size=1))
def test_max_min_shares(capacity, demands):
    """All of the capacity or all demands; who gets less than it asks for gets the most of all."""
    shares = max_min_shares(capacity, demands)
    assert sum(shares.values()) == pytest.approx(min(capacity, sum(demands.values())))
    for client, share in shares.items():
        assert share <= demands[client] + 1e-9
        if share < demands[client] - 1e-6:
            assert share >= max(shares.values()) - 1e-6


def test_twice_the_weight_gives_twice_the_share():
    assert max_min_shares(9, {"a": 9, "b": 9}, {"a": 2}) == {"a": 6, "b": 3}


def test_work_moves_to_the_end_that_has_time():
    """DSA burdens the client, RSA the server (4.3.4): the busier end decides, if it may."""
    costs = {DSA: (0.001, 0.05), RSA: (0.03, 0.004)}
    busy_client = StreamLoad(server=0.0, client=0.5, signs_per_s=20, verifies_per_s=20)
    assert best_algorithm(costs, busy_client) is RSA
    assert best_algorithm(costs, replace(busy_client, server=0.9, client=0.0)) is DSA
    assert busier_end_load(costs[DSA], busy_client) == pytest.approx(1.5)
    assert operation_rates(by_percentage(0.1), 100) == (100, 10)
    assert operation_rates(DELAYED3, 90) == (120, 30)
    assert operation_rates(StreamSetting(Scheme.TREE, DSA, 9), 90) == (10, 10)
    balanced = AlgorithmController(StaticController(), costs)
    loaded = seen(by_percentage(0.2), rate_pps=25.0, algorithm_change=True)
    assert balanced.decide(replace(loaded, algorithm_change=False)) is None
    moved = AlgorithmController(StaticController(), costs).decide(replace(loaded, client_load=0.7))
    assert moved.setting == StreamSetting(Scheme.PERCENTAGE, RSA, level=0.2)
    assert moved.cause.startswith("RSA: the busier end's load falls")


# --- devices -------------------------------------------------------------------------------------


def test_a_processor_charges_and_is_stolen():
    """Costs by kind and byte, first come first served, slower while somebody steals."""
    processor = Processor({"dsa-512-verify": OperationCost(0.05),
                           "hash": OperationCost(0.001, 1e-6)},
                          steal=[OtherLoad(1, 2, 0.5)])
    processor.charge("dsa-512-verify", 32)
    processor.charge("hash", 1000)
    assert processor.settle_charges(0) == 52 * MS
    processor.charge("dsa-512-verify", 32)
    assert processor.settle_charges(10 * MS) == 102 * MS
    processor.charge("dsa-512-verify", 32)
    assert processor.settle_charges(980 * MS) == 1060 * MS  # 20 ms, then 30 ms at half speed
    with pytest.raises(MissingCost, match="rsa-1024-sign is missing"):
        processor.charge("rsa-1024-sign", 32)
    free = Processor({})
    free.charge("anything", 1)
    assert free.settle_charges(5) == 5


def test_two_processors_work_side_by_side():
    """The paper's server has two: the third job waits for the first."""
    processor = Processor({"x": OperationCost(0.01)}, count=2)
    ends = []
    for _ in range(3):
        processor.charge("x", 0)
        ends.append(processor.settle_charges(0))
    assert ends == [10 * MS, 10 * MS, 20 * MS]


def test_bad_parameters():
    """A controller that cannot be is refused in one line."""
    with pytest.raises(ValueError, match="give a scheme with bundles"):
        BoundedDelayController(Scheme.TESLA)
    with pytest.raises(ValueError, match="give a worth above 0"):
        LyapunovController(0)
    with pytest.raises(ValueError, match="give more than 0"):
        FairQueue().add_client("a", 0)
    assert BoundedDelayParameters().utilisation < 1
    assert ED is Algorithm.ED25519
