"""Decisions of the scheduler: order, one repetition a testbed, power, room."""

from __future__ import annotations

import dataclasses

import pytest

import plans
from harness.engine.plan import Plan, Step
from harness.engine.scheduler import FULL, MIN_FULL, Scheduler
from studies.policy_factors import scenario_level
from topologies.loader import load_scenario


def plan_of(policies: int, scenarios: str = "N1,N2", repetitions: int = 2, seed: int = 1) -> Plan:
    """A plan with the first so many policies."""
    return plans.plan_of(plans.policies(policies), scenarios, repetitions=repetitions, seed=seed)


def scheduler_of(plan: Plan, **changes: object) -> Scheduler:
    """A scheduler with two processors, room for all, and the plan's steps to come."""
    made = dataclasses.replace(Scheduler(plan, [0, 1], at_once=8, max_testbeds=64, free_mb=10_000),
                               **changes)
    made.add_steps(plan.all_steps())
    return made


def started(scheduler: Scheduler) -> list[tuple[Step, int]]:
    """Everything that can be started now."""
    starts = []
    while (start := scheduler.start_next()) is not None:
        starts.append(start)
    return starts


def test_steps_start_in_the_plans_order_one_a_testbed() -> None:
    """The first block's first scenario goes first, and no policy twice at a time."""
    plan = plan_of(4)
    first = started(scheduler_of(plan))
    assert [step for step, _ in first] == plan.all_steps()[:4]
    assert len({step.cell.ids["policy"] for step, _ in first}) == 4


def test_everything_is_measured_exactly_once() -> None:
    """However steps end, each is started once, and the queue runs empty."""
    plan = plan_of(3, repetitions=3)
    scheduler = scheduler_of(plan)
    seen: list[Step] = []
    running: list[Step] = []
    while scheduler.waiting or running:
        running += [step for step, _ in started(scheduler)]
        seen.append(running.pop(len(seen) % len(running)))
        scheduler.note_end(seen[-1], used=0.2)
    assert sorted(step.name for step in seen) == sorted(step.name for step in plan.all_steps())


def test_a_testbed_stays_on_its_processor_and_both_are_used() -> None:
    """Policies spread over the processors and never move."""
    scheduler = scheduler_of(plan_of(4))
    first = {step.cell.ids["policy"]: place for step, place in started(scheduler)}
    assert sorted(first.values()) == [0, 0, 1, 1]
    for step in scheduler.running:
        scheduler.note_end(step)
    second = {step.cell.ids["policy"]: place for step, place in started(scheduler)}
    assert second == first


def test_an_idle_processor_takes_over_a_testbed() -> None:
    """What waits for a busy processor moves to one that has nothing to do, and stays there."""
    plan = plan_of(3, "N2", repetitions=2)
    scheduler = scheduler_of(plan, at_once=1)
    processors = [scheduler.reserve_slot(key) for key in scheduler.waiting_testbeds()]
    assert processors == [0, 1, 0]
    _, (second, where) = started(scheduler)
    assert where == 1 and scheduler.start_next() is None
    third = plan.all_steps()[2]
    scheduler.note_end(second)
    assert scheduler.start_next() == (plan.all_steps()[5], 1)  # its own first, if one waits
    scheduler.note_end(plan.all_steps()[5])
    assert scheduler.start_next() == (third, 1)
    assert scheduler.start_next() is None


def test_a_processor_takes_no_more_than_it_has_power_for() -> None:
    """What cells were seen to need decides how many run side by side."""
    scheduler = scheduler_of(plan_of(12, "N2"))
    assert len(started(scheduler)) == 4  # as long as nothing is known: two on each
    for step in scheduler.running:
        scheduler.note_end(step, used=0.09)
    light = started(scheduler)
    assert len(light) > 4
    for processor in (0, 1):
        needs = [scheduler.expected_share(step.cell) for step, place in light if place == processor]
        assert sum(needs) <= FULL


def test_a_heavy_repetition_still_gets_a_processor() -> None:
    """More than a whole processor is never asked for in vain: it runs alone."""
    plan = plan_of(1, "N2", repetitions=3)
    scheduler = scheduler_of(plan)
    [(step, _)] = started(scheduler)
    scheduler.note_end(step, used=1.7)
    assert len(started(scheduler)) == 1


def test_at_most_so_many_at_once() -> None:
    """Virtual time fills a processor with one repetition."""
    assert len(started(scheduler_of(plan_of(12, "N2"), at_once=1))) == 2


def test_testbeds_without_room_wait_and_get_it() -> None:
    """Memory for two: the third policy is measured when one of the two has ended."""
    plan = plan_of(3, "N2", repetitions=1)
    memory = dict.fromkeys(plan.testbeds, 400)
    scheduler = scheduler_of(plan, free_mb=1000, memory_mb=memory)
    first = started(scheduler)
    assert len(first) == 2 and scheduler.is_short_of_memory()
    scheduler.note_end(first[0][0])
    assert not started(scheduler)  # its testbed is still there
    for key in scheduler.idle_testbeds():
        scheduler.release_slot(key)
    assert len(started(scheduler)) == 1 and not scheduler.is_short_of_memory()


def test_one_testbed_is_always_possible() -> None:
    """A machine with too little memory by the estimate is tried all the same."""
    plan = plan_of(2, "N2", repetitions=1)
    scheduler = scheduler_of(plan, free_mb=0, memory_mb=dict.fromkeys(plan.testbeds, 400))
    assert len(started(scheduler)) == 1


def test_blocks_hold_every_cell_once_and_the_seed_decides_their_order() -> None:
    """Same seed, same order; another seed, another; long scenarios first."""
    one, again, other = plan_of(12), plan_of(12), plan_of(12, seed=2)
    assert one.all_steps() == again.all_steps()
    assert [s.name for s in one.all_steps()] != [s.name for s in other.all_steps()]
    for repetition in (1, 2):
        block = one.block_steps(repetition)
        assert {step.cell.name for step in block} == {cell.name for cell in one.cells}
        assert len(block) == 24
        assert [step.cell.ids["scenario"] for step in block] == ["N1"] * 12 + ["N2"] * 12


def test_scenarios_of_one_network_share_a_testbed() -> None:
    """The paper's five need one a policy; what contradicts their network needs another."""
    five = plan_of(2, "N1,N2,N3,R1,R2")
    assert list(five.testbeds) == ["P1", "P2"]
    networks = [level.value.network for level in five.levels["scenario"]]
    for testbed in five.testbeds.values():
        assert {cell.ids["scenario"] for cell in testbed.cells} == {"N1", "N2", "N3", "R1", "R2"}
        assert set(testbed.spec.network.nodes) == {name for network in networks
                                                   for name in network.nodes}
    third = load_scenario("N3")
    slow = dataclasses.replace(third, id="slow", network=dataclasses.replace(
        third.network, links=[dataclasses.replace(link, delay_ms=60.0) if "router" in
                              " ".join(link.ends) else link for link in third.network.links]))
    six = plans.with_levels(five, scenario=[*five.levels["scenario"], scenario_level(slow)])
    assert list(six.testbeds) == ["P1-N1+N2+N3+R1+R2", "P1-slow", "P2-N1+N2+N3+R1+R2", "P2-slow"]


@pytest.mark.parametrize(("field", "value"), [("seed", 9), ("clock", "virtual"), ("warm_up", 4)])
def test_settings_that_matter_change_the_plan(field: str, value: object) -> None:
    """Results measured otherwise are another plan's; more repetitions are not."""
    plan = plan_of(2)
    other = dataclasses.replace(plan, settings=dataclasses.replace(plan.settings, **{field: value}))
    more = dataclasses.replace(plan, settings=dataclasses.replace(plan.settings, repetitions=9))
    assert plan.digest != other.digest
    assert plan.digest == more.digest


@pytest.mark.parametrize("asked", [{"stream_bytes": "2M"}, {"udp_payload_bytes": "1000"},
                                   {"medium": "none"}, {"detection": "advertisement"}])
def test_what_the_workload_is_asked_for_is_part_of_the_plan(asked: dict[str, str]) -> None:
    """Another size, another medium: another plan."""
    assert plans.plan_of("P1", asked=asked).digest != plans.plan_of("P1").digest


def test_waiting_makes_it_careful_and_idleness_bold() -> None:
    """Processors that were the limit get less to do, within bounds; and slowly more again."""
    scheduler = scheduler_of(plan_of(2))
    for _ in range(3):
        scheduler.note_wait(1.5)
    careful = scheduler.full
    assert careful < FULL
    for _ in range(50):
        scheduler.note_wait(1.5)
    assert scheduler.full == MIN_FULL
    scheduler.note_wait(0.7)
    assert scheduler.full == MIN_FULL
    for _ in range(5):
        scheduler.note_wait(0.1)
    assert MIN_FULL < scheduler.full < careful


def test_testbeds_are_seated_ahead_in_the_order_of_their_steps() -> None:
    """As many as memory has room for, spread over the processors; seating twice changes nothing."""
    plan = plan_of(3, "N2", repetitions=1)
    scheduler = scheduler_of(plan, free_mb=1000,
                             memory_mb=dict.fromkeys(plan.testbeds, 400))
    keys = scheduler.waiting_testbeds()
    assert keys == [step.cell.ids["policy"] for step in plan.all_steps()]
    assert [scheduler.reserve_slot(key) for key in keys] == [0, 1, None]
    assert [scheduler.reserve_slot(key) for key in keys] == [0, 1, None]
    assert {step.name for step, _ in started(scheduler)} == {s.name for s in plan.all_steps()[:2]}
