"""`qop bench report`: how long the report of a large study takes, and how much memory.

The records are made up: of the shape and size of measured ones, every policy in every scenario,
with numbers near those of a quick run. They say nothing about any policy.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import numpy as np

from guest.processes import memory_of_group
from harness.errors import UserError
from harness.machine import ROOT
from measure import phases as measured
from measure.record import CheckRecord, PhaseRecord, Record, StreamRecord
from policies import Policy, load_all
from topologies.loader import load_medium, scenario_ids

MOST_S, MOST_BYTES, PROCESSORS = 60.0, 2_000_000_000, 2
_MEDIUM = "802.11b-short"
_STREAM_BYTES = 1_000_000
#: Goodput under P1 in N2, in bit/s; in the other scenarios every packet crosses the air twice.
_TCP_BPS, _UDP_BPS, _SHARED = 4.6e6, 5.8e6, 0.52
_ROAMING = ("R1", "R2")
#: Duration in seconds, and packets, of the phases of a stay; a policy leaves out what it lacks.
_STAY = {"scan": (0.0394, 3), "authentication": (0.0009, 2), "association": (0.0002, 2),
         "dot1x": (0.0217, 17), "agent_discovery": (0.0017, 2), "registration": (0.0020, 2),
         "ike": (0.0171, 9), "first_packet": (0.0135, 2)}
_POLL_S = 0.05


def bench(records: int) -> None:
    """Make records, report on them, print what it took; raises UserError if a bound is missed."""
    with tempfile.TemporaryDirectory(prefix="qop-bench-") as place:
        folder = Path(place)
        begun = time.monotonic()
        count = make(folder, records, np.random.default_rng(1))
        click.echo(f"{count} records made in {time.monotonic() - begun:.0f} s", err=True)
        elapsed_s, memory = _report(folder)
    kept = elapsed_s <= MOST_S and memory <= MOST_BYTES
    click.echo(f"report of {count} records on {PROCESSORS} processors"
               f" {elapsed_s:8.1f} s  (<= {MOST_S:.0f} s) {memory / 1e6:8.0f} MB"
               f"  (<= {MOST_BYTES / 1e6:.0f} MB)  {'kept' if kept else 'MISSED'}")
    if not kept:
        raise UserError("bench report: a bound is missed; a busy machine can be the reason, so try "
                        "again", status=1)


def make(folder: Path, count: int, generator: np.random.Generator) -> int:
    """Write a results folder with at least `count` records of all cells; how many there are."""
    cells = [(policy, scenario) for policy in load_all() for scenario in scenario_ids()]
    repetitions = -(-count // len(cells))
    (folder / "records").mkdir(parents=True)
    for policy, scenario in cells:
        for record in _cell(policy, scenario, repetitions, generator):
            path = folder / "records" / f"{record.name}.json"
            path.write_text(record.model_dump_json(by_alias=True))
    policies = {policy.id: policy for policy in load_all()}
    (folder / "plan.json").write_text(json.dumps({
        "schema": 1, "policies": {name: policy.digest() for name, policy in policies.items()},
        "names": {name: policy.name for name, policy in policies.items()},
        "scenarios": list(scenario_ids()), "medium": _MEDIUM,
        "settings": {"repetitions": repetitions}}))
    return repetitions * len(cells)


def _cell(policy: Policy, scenario: str, repetitions: int,
          generator: np.random.Generator) -> Iterator[Record]:
    """The repetitions of a cell, each with durations and rates of its own."""
    lost = 0.035 * policy.uses_ipsec + 0.007 * policy.encrypts_air
    share = (1.0 if scenario == "N2" else _SHARED) * (1 - lost)
    ceiling = load_medium(_MEDIUM).udp_ceiling_bps(1400)
    for repetition in range(1, repetitions + 1):
        slower = float(generator.gamma(50, 1 / 50))
        faster = float(generator.normal(1, 0.01))
        yield _record(policy, scenario, repetition, slower,
                      {"tcp": _TCP_BPS * share * faster,
                       "udp": min(_UDP_BPS * share * faster, ceiling)})


def _record(policy: Policy, scenario: str, repetition: int, slower: float,
            goodput_bps: dict[str, float]) -> Record:
    roams = scenario in _ROAMING
    found = _stay(policy, slower, 0.0, "")
    stamps = {"start": 1e9 + 10.0 * repetition}
    if roams:
        stamps["handoff"] = stamps["start"] + found[-1].end_s
        found += _stay(policy, slower, found[-1].end_s + 0.0085, measured.FOREIGN)
        stamps["foreign_first_packet"] = stamps["start"] + found[-1].end_s
    parts, wanted = measured.components(found), measured.table_4(policy, roaming=roams)
    streams = {name: StreamRecord(goodput_bps=bps, bytes=_STREAM_BYTES,
                                  duration_s=8 * _STREAM_BYTES / bps,
                                  iperf={"packets": 713.0, "lost_packets": 300.0})
               for name, bps in goodput_bps.items()}
    return Record(
        schema_=1, policy=policy.id, scenario=scenario, repetition=repetition, status="ok",
        reason="", authentication_components_s=parts, authentication_sum=list(wanted),
        authentication_time_s=measured.authentication_time_s(parts, wanted),
        phases=_kept(found), handoff=_kept(measured.handoff({"stamps": stamps}, found)),
        tcp=streams["tcp"], udp=streams["udp"],
        evidence=[CheckRecord(check=f"made up {number}", ok=True, detail="no packets, 0 dropped")
                  for number in range(9)],
        environment={"policy_sha256": policy.digest(), "medium": _MEDIUM, "clock": "real",
                     "machine": "guest", "fault": None, "made_up": True},
        captures=[], elapsed_s=6.0, raw=_raw(stamps))


def _stay(policy: Policy, slower: float, at: float, prefix: str) -> list[measured.Phase]:
    found = []
    for name, (duration, packets) in _STAY.items():
        if (name != "dot1x" or policy.uses_eap) and (name != "ike" or policy.uses_ipsec):
            found.append(measured.Phase(prefix + name, at, duration * slower, packets))
            at = found[-1].end_s
    return found


def _kept(phases: list[measured.Phase]) -> list[PhaseRecord]:
    return [PhaseRecord(name=phase.name, start_s=phase.start_s, duration_s=phase.duration_s,
                        packets=phase.packets) for phase in phases]


def _raw(stamps: dict[str, float]) -> dict[str, Any]:
    """What reports do not read, but must get past: as much of it as a measured record has."""
    events = [{"at_s": stamps["start"] + number, "name": "CTRL-EVENT-MADE-UP",
               "text": "02:00:00:00:a1:00 no such event, and no such packet either"}
              for number in range(60)]
    return {"stamps": stamps, "events": events,
            "processor_s": {"user": 0.2, "system": 1.9, "idle": 3.9, "iowait": 0.0}}


def _report(folder: Path) -> tuple[float, int]:
    """Seconds and peak bytes that a report takes, all of its processes counted together."""
    chosen = sorted(os.sched_getaffinity(0))[:PROCESSORS]
    begun = time.monotonic()
    with (folder / "said").open("w") as said:
        child = subprocess.Popen(["taskset", "--cpu-list", ",".join(map(str, chosen)),
                                  sys.executable, "-P", "-m", "harness", "report", str(folder)],
                                 stdout=said, stderr=subprocess.STDOUT, process_group=0,
                                 env={**os.environ, "PYTHONPATH": str(ROOT)})
        peaks: list[int] = [0]
        ended = threading.Event()
        watcher = threading.Thread(target=_watch, args=(child.pid, ended, peaks))
        watcher.start()
        status = child.wait()
        elapsed_s = time.monotonic() - begun
        ended.set()
        watcher.join()
    if status:
        said_last = (folder / "said").read_text()[-300:]
        raise UserError(f"bench report: the report failed: {said_last}", status=1)
    return elapsed_s, max(peaks)


def _watch(group: int, ended: threading.Event, peaks: list[int]) -> None:
    while not ended.wait(_POLL_S):
        peaks.append(memory_of_group(group))
