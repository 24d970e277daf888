"""Whatever breaks while a run lasts: what had been finished stays, once; and the run goes on."""

from __future__ import annotations

import asyncio
import copy
import errno
import functools
import gzip
import json
import os
import shutil
import subprocess
import sys
from collections import Counter, deque
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

import plans
import studies
from bench import fault_injection, fault_kinds, small_plans
from bench import faults as bench_faults
from bench.fault_kinds import RecordTracker
from conftest import PATIENCE_S, Qop, wait_until
from fabricated import failed, make
from harness import errors, render, secrets
from harness.engine import cpu_contention, postprocessing, profiles
from harness.engine import testbed as testbeds
from harness.engine.campaign import Campaign
from harness.engine.events import EventLog, RunState
from harness.engine.postprocessing import DissectorLost, DissectorPool
from harness.engine.results import ResultsFolder
from harness.engine.retries import TESTBED_RETRIES, RetryTracker, has_failed
from harness.engine.setup import make_embedded_machine
from harness.errors import UserError
from measure.agent.errors import MeasureError
from measure.cpu import clock
from measure.records import record
from mortal import end_always, end_once
from recorded import POLICIES, SCENARIO, WEP_KEY, captures, dissected_once, path, raw
from studies import records as stored
from studies.qop2007.judge import judge_repetition
from studies.qop2007.measurements import STAGES, Measurements
from studies.qop2007.settings import Settings
from studies.study import Cell, Judgement, Level, Repetition

HOUR_S = 3600.0


# Dissectors


async def test_a_killed_dissector_costs_nothing(tmp_path: Path) -> None:
    """What it had been given is done again, and the next task finds processes as before."""
    dissectors = DissectorPool(1)
    try:
        done, beside = await asyncio.gather(
            dissectors.run_task(functools.partial(end_once, str(tmp_path / "mark"))),
            dissectors.run_task(os.getpid))
        assert done == "done" and beside != os.getpid()
        assert await dissectors.run_task(os.getpid) != os.getpid()
    finally:
        dissectors.close()


async def test_only_what_kills_twice_is_given_up() -> None:
    """Its neighbour, whose process went down with it, is done all the same."""
    dissectors = DissectorPool(2)
    try:
        bad, good = await asyncio.gather(dissectors.run_task(end_always),
                                         dissectors.run_task(os.getpid),
                                         return_exceptions=True)
        assert isinstance(bad, DissectorLost) and isinstance(good, int)
    finally:
        dissectors.close()


# Testbeds in doubt


def test_a_doubted_testbed_is_replaced_a_bounded_number_of_times() -> None:
    """A policy that fails on fresh testbeds, too, gets no more of them until something works."""
    retries = RetryTracker(is_allowed=True)
    beds: list[Any] = [object() for _ in range(TESTBED_RETRIES + 2)]
    assert not retries.take_retry("P1", beds[0]) and not retries.take_retry("P1", None)
    for bed in beds[:TESTBED_RETRIES]:
        retries.note_result("P1", bed, is_good=False)
        assert retries.take_retry("P1", bed)
    last = beds[TESTBED_RETRIES]
    retries.note_result("P1", last, is_good=False)
    assert not retries.take_retry("P1", last)
    retries.note_result("P1", last, is_good=True)
    assert retries.take_retry("P1", last)


def test_a_late_judgement_is_of_the_testbed_it_was_made_on() -> None:
    """What was measured on an earlier testbed says nothing against the one that is there now."""
    retries, old, new = RetryTracker(is_allowed=True), object(), object()
    retries.note_result("P1", old, is_good=False)  # type: ignore[arg-type]
    assert not retries.take_retry("P1", new)  # type: ignore[arg-type]


def test_under_a_negative_control_nothing_is_replaced() -> None:
    """It fails on every testbed."""
    retries, bed = RetryTracker(is_allowed=False), object()
    retries.note_result("P1", bed, is_good=False)  # type: ignore[arg-type]
    assert not retries.take_retry("P1", bed)  # type: ignore[arg-type]


@pytest.mark.parametrize(("text", "failed"), [
    ('{"failure": null}', False), ('{"failure": {"stage": "link", "reason": "x"}}', True),
    ('{"failure"', True), ("[]", True), (None, True)])
def test_a_repetition_that_broke_off_is_seen_at_once(tmp_path: Path, text: str | None, *,
                                                     failed: bool) -> None:
    """By what its machine left behind, be it nothing."""
    if text is not None:
        (tmp_path / "raw.json").write_text(text)
    assert has_failed(tmp_path) == failed


# A full disk


def full(*_: object) -> None:
    """What the kernel says where there is no room."""
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("where", ["os.fsync", "shutil.copyfileobj"])
def test_a_full_disk_in_the_middle_of_keeping(tmp_path: Path, where: str,
                                              monkeypatch: pytest.MonkeyPatch) -> None:
    """The record before stays as it was, the one that finds no room is not there, half neither."""
    out = tmp_path / "out"
    out.mkdir()
    (out / "auth-air.pcap").write_bytes(b"packets" * 1000)
    (out / "raw.json").write_text("{}")
    taken = [{"point": "air", "file": "auth-air.pcap", "captured": 1, "dropped": 0}]
    folder = tmp_path / "run"

    def keep(repetition: int) -> None:
        postprocessing.pack_files(out, ["auth-air.pcap"], [], keeps_captures=True)
        results.keep_record(make("P1", repetition, captures=taken), out)

    with ResultsFolder(folder) as results:
        keep(1)
        before = (folder / "records" / "P1-N2-001.json").read_bytes()
        with monkeypatch.context() as patch:
            patch.setattr(where, full)
            with pytest.raises(OSError, match="No space left"):
                keep(2)
        assert [p.name for p in (folder / "records").iterdir()] == ["P1-N2-001.json"]
        assert (folder / "records" / "P1-N2-001.json").read_bytes() == before
        keep(2)
    for number in (1, 2):
        packed = folder / "captures" / f"P1-N2-00{number}" / "auth-air.pcap.gz"
        assert gzip.decompress(packed.read_bytes()) == b"packets" * 1000


@pytest.mark.parametrize(("error", "words"), [
    (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), "No space left on device"),
    (OSError(errno.EFBIG, os.strerror(errno.EFBIG), "x"), "File too large"),
    (shutil.Error([("a", "b", f"[Errno 28] {os.strerror(errno.ENOSPC)}: 'a' -> 'b'")] * 9),
     "No space left on device")])
def test_a_full_disk_anywhere_is_one_line(error: OSError, words: str) -> None:
    """Whoever finds the disk full, the user reads what, where, and what to do."""
    found = errors.select_error(Path("out"), ExceptionGroup("", [ValueError("x"), error]))
    assert isinstance(found, UserError) and found.status == 1
    assert str(found) == (f"out: cannot be written ({words}); make room and give the same command "
                          "again, which goes on from here")


def test_other_errors_are_not_made_out_to_be_a_full_disk() -> None:
    """A user's error comes first; what nobody foresaw comes as it is."""
    told, odd = UserError("told"), PermissionError(errno.EACCES, "no")
    full_disk = OSError(errno.ENOSPC, "full")
    assert errors.select_error(Path("out"), ExceptionGroup("", [full_disk, told])) is told
    assert errors.select_error(Path("out"), ExceptionGroup("", [odd])) is odd


# Measured again, with nothing beside it


@pytest.mark.parametrize("is_good", [True, False])
def test_a_flagged_record_is_replaced_by_a_better_one_only(tmp_path: Path, *,
                                                           is_good: bool) -> None:
    """One that fails when it is measured again leaves what there was, and is tried once more."""
    plan = plans.plan_of("P1", repetitions=1)
    [step] = plan.all_steps()
    flagged, state = apart("P1", 1), RunState()
    flagged = flagged.model_copy(update={"environment": {
        **flagged.environment, "flags": ["processor"], "alone": False}})
    again = apart("P1", 1, tcp=1e6) if is_good else failed("P1", 1)
    with ResultsFolder(tmp_path) as results:
        machine = SimpleNamespace(processors=[0], at_once=1, max_testbeds=1, patience=1.0,
                                  memory_mb=lambda nodes, *_: nodes)
        running = Campaign(plan, machine, results, EventLog(tmp_path, state.apply_event))
        running._exclusive_retries = deque()
        running._keep_record(step, flagged, None, exclusive=False)
        assert list(running._exclusive_retries) == [step] and state.flagged == {step.name}
        running._keep_record(step, again, None, exclusive=True)
        kept = stored.read_record(tmp_path / "records" / f"{step.name}.json")
        assert kept == (again if is_good else flagged)
        assert [s.name for s in results.flagged_steps(plan)] == ([] if is_good else [step.name])
    assert state.done == 2 and (step.name in state.failed) != is_good


# Clocks that are set


def stepped(found: dict[str, Any], after: str, by_s: float) -> dict[str, Any]:
    """Raw values of a machine whose clock was set right after a stamp."""
    changed = copy.deepcopy(found)
    limit = changed["stamps"][after]
    changed["stamps"] = {name: at + by_s if at > limit else at
                         for name, at in changed["stamps"].items()}
    for event in changed["events"]:
        event["at_s"] += by_s if event["at_s"] > limit else 0
    return changed


@pytest.mark.parametrize(("after", "by_s"), [
    ("start", -24 * HOUR_S), ("start", 0.05), ("link", -HOUR_S), ("link", 24 * HOUR_S),
    ("first_packet", -0.05), ("first_packet", HOUR_S), ("tcp_start", 0.05),
    ("tcp_start", -24 * HOUR_S), ("udp_start", -0.05), ("udp_start", 24 * HOUR_S)])
def test_a_clock_that_is_set_fails_the_repetition(tmp_path: Path, after: str,
                                                  by_s: float) -> None:
    """Its times are of two clocks: no duration is made of them, and the record says why."""
    found = stepped(raw("P1"), after, by_s) | {"clock_step_s": by_s}
    judged = judged_of(tmp_path, found)
    assert judged.status == "failed" and f"set by {by_s:+.2f} s" in judged.reason
    body = judged.measured
    assert isinstance(body,
                      Measurements) and body.authentication_time_s is None and body.udp is None
    assert body.phases == [] and body.authentication_components_s == {}


def test_stamps_that_run_backwards_need_no_other_witness(tmp_path: Path) -> None:
    """Where the machine did not look at its clock, its stamps tell."""
    judged = judged_of(tmp_path, stepped(raw("P1"), "tcp_start", -HOUR_S))
    assert judged.status == "failed" and "set back" in judged.reason


def judged_of(folder: Path, values: dict[str, Any]) -> Judgement:
    """What the recorded repetition of P1 comes to with other raw values."""
    for name in captures("P1"):
        (folder / f"{name}.pcap").symlink_to(path("P1", name))
    (folder / "raw.json").write_text(json.dumps(values))
    cell = Cell({"policy": Level("P1", value=POLICIES["P1"]),
                 "scenario": Level("N2", value=SCENARIO)})
    with dissected_once():
        return judge_repetition(Repetition(cell, Settings(), folder,
                                           {"network": {"wep_key": WEP_KEY}}))


def test_an_undisturbed_clock_is_not_complained_of() -> None:
    """What two readings differ by is no step."""
    first = clock.offset_s()
    assert abs(clock.offset_s() - first) < clock.TOLERATED_S
    assert not clock.describe_clock_step({"stamps": {"start": 1.0, "end": 1.0},
                                          "clock_step_s": 0.002})


@pytest.mark.parametrize("by_s", [-24 * HOUR_S, -HOUR_S, -1.0, 1.0, HOUR_S, 24 * HOUR_S])
def test_waiting_is_judged_whatever_the_clocks_do(by_s: float) -> None:
    """No stamp and no sample that jumps makes it crash, or a share negative or more than all."""
    stamps = {"start": 100.0, "first_packet": 101.0, "tcp_start": 101.0, "tcp_end": 103.0,
              "udp_start": 103.0, "udp_end": 104.0, "end": 104.0}
    for split in range(len(stamps) + 1):
        jumping = {name: at + by_s * (number >= split)
                   for number, (name, at) in enumerate(stamps.items())}
        for samples in (0, 30, 61):
            waits = cpu_contention.CpuWaitSampler(0)
            for number in range(61):
                waits.at.append(99 + number / 10 + by_s * (number >= samples))
                waits.ran.append(number / 50)
                waits.waited.append(number / 50)
                waits.unseen.append(number / 50)
            shares = [value for name, value in cpu_contention.judge_contention(
                waits, {"stamps": jumping}, STAGES).items() if name.endswith("_share")]
            assert all(0 <= share <= 1 for share in shares), (split, samples, shares)


def test_samples_of_waiting_do_not_follow_the_wall_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Setting the host's clock while a repetition lasts moves no sample."""
    waits = cpu_contention.CpuWaitSampler(os.getpid())
    waits.take_sample()
    monkeypatch.setattr("time.time", lambda: 0.0)
    waits.take_sample()
    assert 0 <= waits.at[1] - waits.at[0] < 60


# The ledger that counts


def ledger_of(folder: Path, *kept: record.Record) -> RecordTracker:
    """A ledger that has seen these records."""
    for entry in kept:
        record.write_record(entry, folder / "records")
    ledger = RecordTracker(folder)
    assert ledger.inspect_folder() == {"lost": [], "doubled": []}
    return ledger


def announced(folder: Path, name: str, *, exclusive: bool = False) -> None:
    """What a run says of a repetition that it has measured."""
    EventLog(folder).emit_event("repetition-recorded", name=name, status="ok", exclusive=exclusive)


def apart(policy: str, repetition: int, **changes: Any) -> record.Record:
    """A record with stamps of its own, as measured ones have."""
    stamps = {"start": 1e3 * repetition, "of": policy}
    return make(policy, repetition, raw={"stamps": stamps}, **changes)


def test_the_ledger_finds_every_loss(tmp_path: Path) -> None:
    """Gone, cut short, replaced, or announced and not there: each is told once."""
    ledger = ledger_of(tmp_path, *(apart("P1", number) for number in (1, 2, 3)))
    places = [tmp_path / "records" / f"P1-N2-00{number}.json" for number in (1, 2, 3)]
    places[0].unlink()
    places[1].write_bytes(places[1].read_bytes()[:100])
    record.write_record(apart("P1", 3, tcp=1e6), tmp_path / "records")
    announced(tmp_path, "P1-N2-004")
    assert not ledger.read_events()
    lost = "\n".join(ledger.inspect_folder()["lost"])
    for words in ("001: was whole and is gone", "002: was whole and is gone", "002.json: is not",
                  "003: another record", "004: was said to be measured"):
        assert words in lost
    assert [line for line in ledger.inspect_folder()["lost"] if "002.json" not in line] == []


def test_the_ledger_finds_what_is_there_twice(tmp_path: Path) -> None:
    """Under another name, as another repetition, or measured a second time."""
    ledger = ledger_of(tmp_path, apart("P1", 1))
    where = tmp_path / "records"
    (where / "P1-N2-009.json").write_bytes((where / "P1-N2-001.json").read_bytes())
    record.write_record(apart("P1", 1).model_copy(update={"repetition": 2}), where)
    doubled = "\n".join(ledger.inspect_folder()["doubled"])
    assert "P1-N2-009: holds the record P1-N2-001" in doubled
    assert "P1-N2-002: is the same measurement as P1-N2-001" in doubled
    announced(tmp_path, "P1-N2-001")
    announced(tmp_path, "P1-N2-001", exclusive=True)
    assert not ledger.read_events()
    announced(tmp_path, "P1-N2-001")
    assert ledger.read_events() == ["P1-N2-001: was measured already, and was measured again"]
    assert not ledger.read_events()


def test_the_ledger_allows_what_the_rules_allow(tmp_path: Path) -> None:
    """A flagged record is replaced by the one measured alone, a damaged one by a new one."""
    flagged = apart("P1", 1)
    flagged = flagged.model_copy(update={"environment": {
        **flagged.environment, "flags": ["processor"], "alone": False}})
    ledger = ledger_of(tmp_path, flagged, apart("P1", 2))
    record.write_record(flagged.model_copy(update={"environment": {
        **flagged.environment, "flags": [], "alone": True}}), tmp_path / "records")
    ledger.expect_again("P1-N2-002")
    (tmp_path / "records" / "P1-N2-002.json").write_bytes(b"")
    assert ledger.inspect_folder() == {"lost": [], "doubled": []}
    record.write_record(apart("P1", 2, tcp=1e6), tmp_path / "records")
    assert ledger.inspect_folder() == {"lost": [], "doubled": []} and len(ledger.names) == 2


@pytest.mark.parametrize("kind", [k.name for k in fault_kinds.KINDS if k.when == "between"])
def test_damage_to_a_folder_is_mended_by_the_next_run(tmp_path: Path, kind: str) -> None:
    """Whatever lies there, the run knows what is missing, and what is whole stays."""
    plan = plans.plan_of("P1,P2", repetitions=2)
    steps = plan.all_steps()
    [inject] = [k.inject for k in fault_kinds.KINDS if k.name == kind]
    for seed in range(12):
        folder = tmp_path / str(seed)
        with ResultsFolder(folder) as results:
            results.adopt_plan(plan)
        ledger = ledger_of(folder, *(apart(s.cell.ids["policy"], s.repetition) for s in steps[:3]))
        assert inject(fault_kinds.FaultTarget(folder, ledger, plan, Random(seed), None))
        fault_kinds.remove_damaged_plan(folder)  # as the refusal says
        with ResultsFolder(folder) as results:
            results.adopt_plan(plan)
            missing = {step.name for step in results.missing_steps(plan)}
        assert ledger.inspect_folder() == {"lost": [], "doubled": []}
        assert missing == {step.name for step in steps} - set(ledger.names)
        assert json.loads((folder / "plan.json").read_text())["digest"] == plan.digest


def test_every_kind_is_injected_as_often() -> None:
    """The order is the seed's, the counts are not."""
    deck = bench_faults._shuffle_faults(200, 1)
    counts = Counter(kind.name for kind in deck)
    assert len(counts) == len(fault_kinds.KINDS) and max(counts.values()) - min(
        counts.values()) <= 1
    assert deck == bench_faults._shuffle_faults(200, 1) != bench_faults._shuffle_faults(200, 2)


@pytest.mark.parametrize("name", studies.study_names())
def test_every_study_has_small_plans(name: str) -> None:
    """What the bench disturbs: a few cells, which the command makes the same plan of."""
    few = small_plans.make_small_plans(name)
    assert few.typical_level() in few.list_levels()
    plan = few.make_plan(few.list_levels()[:2], 3)
    assert {cell.ids[few.study.factors[0].name] for cell
            in plan.cells} == set(few.list_levels()[:2])
    assert len(plan.all_steps()) == 3 * len(plan.cells)
    assert few.run_arguments(few.list_levels()[:2], 3)[0] == name


def test_small_plans_are_small_by_every_clock(tmp_path: Path,
                                              monkeypatch: pytest.MonkeyPatch) -> None:
    """What the default profile asks for by one clock alone is as small as the rest, too."""
    monkeypatch.setattr(profiles, "_folder", lambda _: tmp_path)
    (tmp_path / "quick.yml").write_text("title: x\nby_clock: {virtual: {set: "
                                        "{authentications: 4}}}\n")
    few = small_plans.make_small_plans("qop2007")
    assert few.small_settings() == {"stream_bytes": "50000", "authentications": "1"}


# With guests


@pytest.mark.guest
@pytest.mark.shareable
def test_bench_faults_finds_nothing(qop: Qop) -> None:
    """Every kind once: nothing lost, nothing doubled, nothing left over."""
    done = qop("bench", "faults", "--faults", str(len(fault_kinds.KINDS)), "--seed", "2")
    assert done.returncode == 0, done.stderr
    sums = next(line for line in done.stdout.splitlines() if line.startswith("all "))
    assert sums.split() == ["all", str(len(fault_kinds.KINDS)), "0", "0", "0", "0"]


@pytest.mark.guest
@pytest.mark.shareable
def test_a_killed_daemon_fails_no_more_than_it_was_part_of(qop: Qop) -> None:
    """What it served fails with a reason; the repetitions after it find a fresh testbed.

    In real time, in which a repetition lasts as long as two kills take.
    """
    arguments = ("run", "--out", "out", "--scenarios", "N2", "--policies", "P2",
                 "--repetitions", "12", "--stream-bytes", "200k", "--clock", "real")
    running = subprocess.Popen(
        [sys.executable, "-m", "bench.fault_injection", *arguments], cwd=qop.folder, text=True,
        env=qop.environment(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    target = fault_kinds.FaultTarget(qop.folder / "out", RecordTracker(qop.folder / "out"),
                                     plans.plan_of("P2"),
                                     Random(1), None, running.pid)

    def count(*, good: bool) -> int:
        return sum((entry.status == "ok") == good for entry in qop.records("out").values())

    def is_over() -> bool:
        return running.poll() is not None

    def has_killed(daemon: str) -> bool:
        return is_over() or any(
            fault_injection.send_order_to_guest(pid, fault_injection.kill_daemon([daemon]),
                                                                    10)
                                 for pid in target.guests if fault_injection.is_measuring(pid))

    def is_told(bad: int, good: int) -> bool:
        """Whether the kill shows in a record, or two good ones came: its guest was leaving then."""
        return count(good=False) > bad or count(good=True) > good + 1 or is_over()

    for daemon in ("hostapd", "wpa_supplicant"):
        good, bad = count(good=True), count(good=False)
        # One more that is right, on a testbed that is a fresh one after the first daemon.
        wait_until(lambda before=good: count(good=True) > before or is_over())
        while count(good=False) == bad and not is_over():
            # One kill at a time: a record comes once it is dissected, and by then the next
            # repetition has begun, on a testbed whose daemon must live.
            wait_until(functools.partial(has_killed, daemon))
            wait_until(functools.partial(is_told, bad, count(good=True)))
    _, errors = running.communicate(timeout=PATIENCE_S)
    records = qop.records("out")
    failed = [entry for entry in records.values() if entry.status != "ok"]
    assert errors.count("FAILED") >= 2 and len(records) == 12 and 2 <= len(failed) <= 6, errors
    assert all(entry.reason for entry in failed) and running.returncode == 1
    done = qop(*arguments)
    assert done.returncode == 0, done.stderr
    assert all(found.status == "ok" for found in qop.records("out").values())
    assert fault_kinds.find_leftovers(qop.folder) == []


@pytest.mark.guest
@pytest.mark.shareable
async def test_the_guests_clock_is_set_between_and_during_repetitions(tmp_path: Path) -> None:
    """Between two, the next is right or says what failed; during one, it is never called right."""
    plan = plans.plan_of("P8", asked={"stream_bytes": "300k"})
    machine, made = make_embedded_machine(), secrets.make_secrets()
    [planned], [cell] = plan.testbeds.values(), plan.cells
    testbed = testbeds.TestbedClient(machine, machine.processors[0], planned, plan, tmp_path)

    async def measured(name: str) -> Judgement | None:
        try:
            out = await testbed.measure_repetition(name, plan.study.task(cell, plan.asked),
                                                   plan.study.deadline_s(cell, plan.asked))
            return judge_repetition(Repetition(cell, plan.asked, out, made))
        except (testbeds.TestbedFailed, MeasureError) as failure:
            assert str(failure)
            return None

    try:
        await testbed.open(made, render.Renderer(made, tmp_path))
        first = await measured("untouched")
        assert first is not None and first.status == "ok", first
        for by_s in (-HOUR_S, 7.0, 48 * HOUR_S):
            order = f"date -s @$(( $(date +%s) + {by_s:.0f} ))"
            said = await testbed.run_shell(node="ap-a", argv=["sh", "-c", order])
            assert said["status"] == 0, said
            between = await measured(f"after-{by_s}")
            assert between is None or between.status == "ok" or between.reason
            later = f"(sleep 0.3; {order}) >/dev/null 2>&1 &"
            await testbed.run_shell(node="ap-a", argv=["sh", "-c", later])
            during = await measured(f"during-{by_s}")
            assert during is None or (during.status == "failed" and during.reason)
            for judged in (between, during):
                assert judged is None or all(p.duration_s >= 0 for p in judged.measured.phases)
    finally:
        await testbed.close()


def test_a_missed_bound_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """One record lost is told on one line, and ends with status 1."""
    monkeypatch.setattr(bench_faults.setup, "make_embedded_machine", lambda: None)
    monkeypatch.setattr(bench_faults.FaultRunner, "run_plans",
                        lambda lane: lane._tally.count_findings("guest killed", "lost",
                                                                ["P1-N2-001"]))
    with pytest.raises(UserError, match="lost") as caught:
        bench_faults.run_bench(1, 1, studies.DEFAULT)
    assert caught.value.status == 1 and "\n" not in str(caught.value)


@pytest.mark.parametrize("program", [
    "import numpy, sys; raise RuntimeError('broken')",
    ("class Broken:\n    def __set_name__(self, *_): raise KeyboardInterrupt\n"
     "class A: a = Broken()")])
def test_every_traceback_of_a_run_is_a_crash(program: str) -> None:
    done = subprocess.run([sys.executable, "-c", program], text=True, capture_output=True,
                          check=False)
    said = bench_faults._find_crash(done.stderr.splitlines(keepends=True))
    assert said.startswith(("RuntimeError: broken (File", "RuntimeError: Error calling",
                            "Error calling"))
    assert bench_faults._find_crash(["qop: interrupted\n"]) == ""
