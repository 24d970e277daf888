"""Decisions of the scheduler: order, one repetition a testbed, power, room."""

from __future__ import annotations

import dataclasses

import pytest

from harness.engine.plan import Plan, Settings, Step
from harness.engine.scheduler import FULL, LEAST, Scheduler
from policies import load_all
from topologies.loader import load_medium, load_scenario

MEDIUM = load_medium("802.11b-short")
TWELVE = load_all()


def plan_of(policies: int, scenarios: str = "N1,N2", repetitions: int = 2, seed: int = 1) -> Plan:
    """A plan with the first so many policies."""
    return Plan(TWELVE[:policies], [load_scenario(name) for name in scenarios.split(",")], MEDIUM,
                Settings(repetitions=repetitions, seed=seed))


def scheduler_of(plan: Plan, **changes: object) -> Scheduler:
    """A scheduler with two processors, room for all, and the plan's steps to come."""
    made = dataclasses.replace(Scheduler(plan, [0, 1], at_once=8, most=64, room_mb=10_000),
                               **changes)
    made.add(plan.steps())
    return made


def started(scheduler: Scheduler) -> list[tuple[Step, int]]:
    """Everything that can be started now."""
    found = []
    while (one := scheduler.start()) is not None:
        found.append(one)
    return found


def test_steps_start_in_the_plans_order_one_a_testbed() -> None:
    """The first block's first scenario goes first, and no policy twice at a time."""
    plan = plan_of(4)
    first = started(scheduler_of(plan))
    assert [step for step, _ in first] == plan.steps()[:4]
    assert len({step.cell.policy.id for step, _ in first}) == 4


def test_everything_is_measured_exactly_once() -> None:
    """However steps end, each is started once, and the queue runs empty."""
    plan = plan_of(3, repetitions=3)
    scheduler = scheduler_of(plan)
    seen: list[Step] = []
    running: list[Step] = []
    while scheduler.waiting or running:
        running += [step for step, _ in started(scheduler)]
        seen.append(running.pop(len(seen) % len(running)))
        scheduler.ended(seen[-1], used=0.2)
    assert sorted(step.name for step in seen) == sorted(step.name for step in plan.steps())


def test_a_testbed_stays_on_its_processor_and_both_are_used() -> None:
    """Policies spread over the processors and never move."""
    scheduler = scheduler_of(plan_of(4))
    first = {step.cell.policy.id: place for step, place in started(scheduler)}
    assert sorted(first.values()) == [0, 0, 1, 1]
    for step in scheduler.running:
        scheduler.ended(step)
    second = {step.cell.policy.id: place for step, place in started(scheduler)}
    assert second == first


def test_an_idle_processor_takes_over_a_testbed() -> None:
    """What waits for a busy processor moves to one that has nothing to do, and stays there."""
    plan = plan_of(3, "N2", repetitions=2)
    scheduler = scheduler_of(plan, at_once=1)
    seats = {place: scheduler.seat(place) for place in scheduler.places()}
    assert list(seats.values()) == [0, 1, 0]
    _, (second, where) = started(scheduler)
    assert where == 1 and scheduler.start() is None
    third = plan.steps()[2]
    scheduler.ended(second)
    assert scheduler.start() == (plan.steps()[5], 1)  # its own first, if one waits
    scheduler.ended(plan.steps()[5])
    assert scheduler.start() == (third, 1)
    assert scheduler.start() is None


def test_a_processor_takes_no_more_than_it_has_power_for() -> None:
    """What cells were seen to need decides how many run side by side."""
    scheduler = scheduler_of(plan_of(12, "N2"))
    assert len(started(scheduler)) == 4  # as long as nothing is known: two on each
    for step in scheduler.running:
        scheduler.ended(step, used=0.09)
    light = started(scheduler)
    assert len(light) > 4
    for processor in (0, 1):
        needs = [scheduler.need(step.cell) for step, place in light if place == processor]
        assert sum(needs) <= FULL


def test_a_heavy_repetition_still_gets_a_processor() -> None:
    """More than a whole processor is never asked for in vain: it runs alone."""
    plan = plan_of(1, "N2", repetitions=3)
    scheduler = scheduler_of(plan)
    [(step, _)] = started(scheduler)
    scheduler.ended(step, used=1.7)
    assert len(started(scheduler)) == 1


def test_at_most_so_many_at_once() -> None:
    """Virtual time fills a processor with one repetition."""
    assert len(started(scheduler_of(plan_of(12, "N2"), at_once=1))) == 2


def test_testbeds_without_room_wait_and_get_it() -> None:
    """Memory for two: the third policy is measured when one of the two has ended."""
    plan = plan_of(3, "N2", repetitions=1)
    memory = {(policy.id, ""): 400 for policy in plan.policies}
    scheduler = scheduler_of(plan, room_mb=1000, memory_mb=memory)
    first = started(scheduler)
    assert len(first) == 2 and scheduler.is_short_of_room()
    scheduler.ended(first[0][0])
    assert not started(scheduler)  # its testbed is still there
    for place in scheduler.idle():
        scheduler.gone(place)
    assert len(started(scheduler)) == 1 and not scheduler.is_short_of_room()


def test_one_testbed_is_always_possible() -> None:
    """A machine with too little memory by the estimate is tried all the same."""
    plan = plan_of(2, "N2", repetitions=1)
    scheduler = scheduler_of(plan, room_mb=0, memory_mb={(p.id, ""): 400 for p in plan.policies})
    assert len(started(scheduler)) == 1


def test_blocks_hold_every_cell_once_and_the_seed_decides_their_order() -> None:
    """Same seed, same order; another seed, another; long scenarios first."""
    one, again, other = plan_of(12), plan_of(12), plan_of(12, seed=2)
    assert one.steps() == again.steps()
    assert [s.name for s in one.steps()] != [s.name for s in other.steps()]
    for repetition in (1, 2):
        block = one.block(repetition)
        assert {step.cell.name for step in block} == {cell.name for cell in one.cells()}
        assert len(block) == 24
        assert [step.cell.scenario.id for step in block] == ["N1"] * 12 + ["N2"] * 12


def test_scenarios_of_one_network_share_a_site() -> None:
    """The paper's five need one built network; what contradicts it needs another."""
    five = [load_scenario(name) for name in ("N1", "N2", "N3", "R1", "R2")]
    [site] = Plan(TWELVE, five, MEDIUM).sites
    assert site.name == "" and {s.id for s in site.scenarios} == {s.id for s in five}
    assert set(site.network.nodes) == {name for s in five for name in s.network.nodes}
    slow = dataclasses.replace(five[2], id="slow", network=dataclasses.replace(
        five[2].network, links=[dataclasses.replace(link, delay_ms=60.0) if "router" in
                                " ".join(link.ends) else link for link in five[2].network.links]))
    two = Plan(TWELVE, [*five, slow], MEDIUM).sites
    assert [site.name for site in two] == ["N1+N2+N3+R1+R2", "slow"]


@pytest.mark.parametrize("field", ["seed", "clock", "udp_bytes", "warm_up"])
def test_settings_that_matter_change_the_plan(field: str) -> None:
    """Results measured otherwise are another plan's; more repetitions are not."""
    plan = plan_of(2)
    changed = {"seed": 9, "clock": "virtual", "udp_bytes": 5, "warm_up": 4}
    other = dataclasses.replace(plan, settings=dataclasses.replace(
        plan.settings, **{field: changed[field]}))
    more = dataclasses.replace(plan, settings=dataclasses.replace(plan.settings, repetitions=9))
    assert plan.digest() != other.digest()
    assert plan.digest() == more.digest()


def test_waiting_makes_it_careful_and_idleness_bold() -> None:
    """Processors that were the limit get less to do, within bounds; and slowly more again."""
    scheduler = scheduler_of(plan_of(2))
    for _ in range(3):
        scheduler.waited(1.5)
    careful = scheduler.full
    assert careful < FULL
    for _ in range(50):
        scheduler.waited(1.5)
    assert scheduler.full == LEAST
    scheduler.waited(0.7)
    assert scheduler.full == LEAST
    for _ in range(5):
        scheduler.waited(0.1)
    assert LEAST < scheduler.full < careful


def test_testbeds_are_seated_ahead_in_the_order_of_their_steps() -> None:
    """As many as memory has room for, spread over the processors; seating twice changes nothing."""
    plan = plan_of(3, "N2", repetitions=1)
    scheduler = scheduler_of(plan, room_mb=1000,
                             memory_mb={(policy.id, ""): 400 for policy in plan.policies})
    places = scheduler.places()
    assert [place[0] for place in places] == [step.cell.policy.id for step in plan.steps()]
    assert [scheduler.seat(place) for place in places] == [0, 1, None]
    assert [scheduler.seat(place) for place in places] == [0, 1, None]
    assert {step.name for step, _ in started(scheduler)} == {s.name for s in plan.steps()[:2]}
