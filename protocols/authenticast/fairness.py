"""Fair sharing of the server's signing among clients.

`FairQueue` is start-time fair queueing (Goyal, Vin and Cheng, 1996). Between two streams that both
have jobs, the service by weight differs by no more than one job of each.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from protocols.authenticast.settings import Algorithm

Client = TypeVar("Client", bound=Hashable)
Job = TypeVar("Job")


@dataclass
class _Line(Generic[Job]):
    weight: float
    finish: float = 0.0
    jobs: deque[tuple[float, Job]] = field(default_factory=deque)


class FairQueue(Generic[Client, Job]):
    """A queue of several clients' jobs on one server, each with its processor time."""

    def __init__(self) -> None:
        self._lines: dict[Client, _Line[Job]] = {}
        self._now = 0.0
        self._jobs = 0

    def __len__(self) -> int:
        return self._jobs

    def add_client(self, client: Client, weight: float = 1.0) -> None:
        """Add a client with its weight. Raises ValueError for a weight of 0 or less."""
        if weight <= 0:
            raise ValueError(f"weight {weight:g}; give more than 0")
        self.remove_client(client)
        self._lines[client] = _Line(weight)

    def remove_client(self, client: Client) -> None:
        """Remove a client and its jobs."""
        line = self._lines.pop(client, None)
        self._jobs -= len(line.jobs) if line is not None else 0

    def count_jobs(self, client: Client) -> int:
        """Return the number of jobs that a client has in the queue."""
        return len(self._lines[client].jobs)

    def push_job(self, client: Client, cost: float, job: Job) -> None:
        """Append a job to the client's jobs, with its cost in processor time."""
        line = self._lines[client]
        start = max(self._now, line.finish)
        line.finish = start + cost / line.weight
        line.jobs.append((start, job))
        self._jobs += 1

    def pop_job(self) -> tuple[Client, Job]:
        """Remove and return the next job and its client.

        Raises IndexError when the queue is empty.
        """
        ready = [(line.jobs[0][0], client) for client, line in self._lines.items() if line.jobs]
        if not ready:
            raise IndexError("no jobs")
        self._now, client = min(ready, key=lambda entry: entry[0])
        self._jobs -= 1
        return client, self._lines[client].jobs.popleft()[1]


def max_min_shares(capacity: float, demands: Mapping[Client, float],
                   weights: Mapping[Client, float] | None = None) -> dict[Client, float]:
    """Return the weighted max-min shares of a capacity (water filling).

    No client receives more than its demand.
    """
    shares: dict[Client, float] = {}
    left = dict(demands)
    weight_of = {client: (weights or {}).get(client, 1.0) for client in demands}
    while left:
        level = capacity / sum(weight_of[client] for client in left)
        modest = {client for client, demand in left.items()
                  if demand <= level * weight_of[client]}
        if not modest:
            return shares | {client: level * weight_of[client] for client in left}
        for client in modest:
            shares[client] = left.pop(client)
            capacity -= shares[client]
    return shares


def jain_index(values: Iterable[float]) -> float:
    """Return Jain's index of fairness.

    The index is 1 when all values are equal, and 1/n when one of n values has all.
    """
    amounts = list(values)
    squares = sum(amount * amount for amount in amounts)
    return sum(amounts) ** 2 / (len(amounts) * squares) if squares else 1.0


@dataclass(frozen=True)
class Load:
    """Other load of server and client, and the stream's operations per second.

    Loads are shares of a processor.
    """

    server: float
    client: float
    signs_per_s: float
    verifies_per_s: float


def busier_end_load(cost_s: tuple[float, float], load: Load) -> float:
    """Return the load of the busier end for the given costs of a signature.

    `cost_s` has the seconds to sign and to verify one signature.
    """
    sign_s, verify_s = cost_s
    return max(load.server + load.signs_per_s * sign_s,
               load.client + load.verifies_per_s * verify_s)


def best_algorithm(costs_s: Mapping[Algorithm, tuple[float, float]], load: Load) -> Algorithm:
    """Return the algorithm that gives the busier end the least load.

    `costs_s` has the seconds to sign and to verify, by algorithm. The algorithm change of 1998 pays
    off in this case: it moves work to the end that has time for it.
    """
    return min(costs_s, key=lambda algorithm: busier_end_load(costs_s[algorithm], load))
