"""Compute Table 6 of the 1987 paper for several ways to choose urgent messages.

The command is `python3 -m studies.adp1987.urgency_model`. ADP sends urgent messages at once, and
collects others. The paper does not say which messages were urgent. For each way to choose them, the
program prints throughput, latency, and how many pairs of latencies are in the printed order.
Nothing is fitted to Table 6. The study uses the first way (random choice). The paper is the report
of Anderson, Ferrari, Rangan and Sartirana (1987).
"""

from __future__ import annotations

import itertools
import random
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from statistics import fmean

from studies.adp1987 import model, published
from studies.adp1987.cells import DEVICES, URGENCY, cell_ids
from studies.adp1987.model import ModelCosts, ModelSetting
from studies.adp1987.programs.endpoint import operation_costs
from studies.adp1987.published import L
from studies.adp1987.traces import TraceMessage, generate_trace
from topologies import loader

_MESSAGES, _SEEDS = 10_000, (1, 2)
_RUN = 20
Choice = Callable[[Sequence[TraceMessage], int, random.Random], set[int]]


def _choose_any(trace: Sequence[TraceMessage], count: int, rng: random.Random) -> set[int]:
    return set(rng.sample(range(len(trace)), count))


def _choose_evenly(trace: Sequence[TraceMessage], count: int, _: random.Random) -> set[int]:
    return {int((place + 0.5) * len(trace) / count) for place in range(count)}


def _choose_largest(trace: Sequence[TraceMessage], count: int, _: random.Random) -> set[int]:
    return set(sorted(range(len(trace)), key=lambda place: -trace[place].bytes)[:count])


def _choose_smallest(trace: Sequence[TraceMessage], count: int, _: random.Random) -> set[int]:
    return set(sorted(range(len(trace)), key=lambda place: trace[place].bytes)[:count])


def _choose_in_runs(trace: Sequence[TraceMessage], count: int, rng: random.Random) -> set[int]:
    chosen: set[int] = set()
    while len(chosen) < count:
        start = rng.randrange(len(trace))
        chosen |= set(range(start, min(len(trace), start + _RUN, start + count - len(chosen))))
    return chosen


CHOICES: Mapping[str, Choice] = {"any": _choose_any, "evenly spaced": _choose_evenly,
                                 "the largest": _choose_largest,
                                 "the smallest": _choose_smallest,
                                 f"runs of {_RUN}": _choose_in_runs}


def device_costs() -> ModelCosts:
    """Return the times of operations on the paper's machine, a Sun 3/50."""
    table = operation_costs(loader.to_json(loader.load_device(DEVICES["HW"]))["work"], 512)
    return ModelCosts(table["user-message-send"][0], table["adp-message-send"][0],
                      table["adp-message-receive"][0], table["user-message-receive"][0],
                      *table["des"])


def model_table_6(choice: Choice) -> Mapping[str, tuple[float, float]]:
    """Compute throughput (bytes/s) and latency (s) by fraction of urgent messages."""
    means, each = {}, device_costs()
    for urgency, share in URGENCY.items():
        results = []
        for seed in _SEEDS:
            trace = generate_trace("ALL", _MESSAGES, seed)
            chosen = choice(trace, round(share * _MESSAGES), random.Random(seed))  # noqa: S311
            marked = [replace(message, urgent=place in chosen)
                      for place, message in enumerate(trace)]
            results.append((model.run_model(marked, each, ModelSetting(),
                                            saturated=True).throughput,
                            model.run_model(marked, each, ModelSetting(),
                                            saturated=False).latency_s))
        means[urgency] = fmean(one for one, _ in results), fmean(other for _, other in results)
    return means


def count_in_order(latencies_s: Mapping[str, float]) -> int:
    """Count how many of Table 6's ten pairs of latencies are in the printed order."""
    printed = published.load_values().tables["6"]
    return sum((printed[L, *cell_ids("ALL",
                                     urgency=one)] < printed[L, *cell_ids("ALL", urgency=other)])
               is (latencies_s[one] < latencies_s[other])
               for one, other in itertools.combinations(URGENCY, 2))


def main() -> int:
    """Print a line for each way to choose urgent messages."""
    for name, choice in CHOICES.items():
        means = model_table_6(choice)
        shown = ", ".join(f"{urgency} {rate / 1e3:.0f} kB/s {latency * 1e3:.1f} ms"
                          for urgency, (rate, latency) in means.items())
        count = count_in_order({urgency: latency for urgency, (_, latency) in means.items()})
        sys.stdout.write(f"{name}: {shown}; {count} of 10 pairs of latencies in order\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
