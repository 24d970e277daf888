"""Divide the server's signing time fairly among the clients of Authenticast streams.

`FairQueue` takes packets to sign, each with its client and cost, and returns the next one. It is
start-time fair queueing (Goyal, Vin and Cheng, 1996). While two clients both have packets to sign,
their weighted service differs by at most one packet of each. `max_min_shares` computes max-min fair
rates. `best_algorithm` returns the signature algorithm with the least load of the busier end,
server or client. The server and the controllers use this module.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from protocols.authenticast.settings import Algorithm

Client = TypeVar("Client", bound=Hashable)
Job = TypeVar("Job")


@dataclass
class _ClientQueue(Generic[Job]):
    """The waiting jobs of a client, with its weight.

    `finish` is the virtual time at which its last job ends. Each job has the virtual time of its
    end.
    """

    weight: float
    finish: float = 0.0
    jobs: deque[tuple[float, Job]] = field(default_factory=deque)


class FairQueue(Generic[Client, Job]):
    """A fair queue of several clients' jobs on one server. Each job has a cost in CPU time."""

    def __init__(self) -> None:
        self._lines: dict[Client, _ClientQueue[Job]] = {}
        self._now = 0.0
        self._jobs = 0

    def __len__(self) -> int:
        return self._jobs

    def add_client(self, client: Client, weight: float = 1.0) -> None:
        """Add a client with its weight.

        Raises:
            ValueError: the weight is 0 or less.
        """
        if weight <= 0:
            raise ValueError(f"weight {weight:g}; give more than 0")
        self.remove_client(client)
        self._lines[client] = _ClientQueue(weight)

    def remove_client(self, client: Client) -> None:
        """Remove a client and its waiting jobs."""
        line = self._lines.pop(client, None)
        self._jobs -= len(line.jobs) if line is not None else 0

    def count_jobs(self, client: Client) -> int:
        """Return the number of jobs that a client has in the queue."""
        return len(self._lines[client].jobs)

    def push_job(self, client: Client, cost: float, job: Job) -> None:
        """Append a job to a client's queue, with its cost in CPU time."""
        line = self._lines[client]
        start = max(self._now, line.finish)
        line.finish = start + cost / line.weight
        line.jobs.append((start, job))
        self._jobs += 1

    def pop_job(self) -> tuple[Client, Job]:
        """Remove the next job by fair queueing, and return it with its client.

        Raises:
            IndexError: the queue is empty.
        """
        ready = [(line.jobs[0][0], client) for client, line in self._lines.items() if line.jobs]
        if not ready:
            raise IndexError("no jobs")
        self._now, client = min(ready, key=lambda entry: entry[0])
        self._jobs -= 1
        return client, self._lines[client].jobs.popleft()[1]


def max_min_shares(capacity: float, demands: Mapping[Client, float],
                   weights: Mapping[Client, float] | None = None) -> dict[Client, float]:
    """Divide a capacity among clients by weighted max-min fairness (water filling).

    No client receives more than its demand.
    """
    shares: dict[Client, float] = {}
    unserved = dict(demands)
    weight_of = {client: (weights or {}).get(client, 1.0) for client in demands}
    while unserved:
        level = capacity / sum(weight_of[client] for client in unserved)
        modest = {client for client, demand in unserved.items()
                  if demand <= level * weight_of[client]}
        if not modest:
            return shares | {client: level * weight_of[client] for client in unserved}
        for client in modest:
            shares[client] = unserved.pop(client)
            capacity -= shares[client]
    return shares


@dataclass(frozen=True)
class StreamLoad:
    """Load of server and client by other work (0 to 1), and operations per second of the stream."""

    server: float
    client: float
    signs_per_s: float
    verifies_per_s: float


def busier_end_load(cost_s: tuple[float, float], load: StreamLoad) -> float:
    """Return the load of the busier end (server or client) with a given signature algorithm.

    Args:
        cost_s: seconds to sign and to verify one signature.
        load: other load, and signatures per second.
    """
    sign_s, verify_s = cost_s
    return max(load.server + load.signs_per_s * sign_s,
               load.client + load.verifies_per_s * verify_s)


def best_algorithm(costs_s: Mapping[Algorithm, tuple[float, float]], load: StreamLoad) -> Algorithm:
    """Return the signature algorithm that gives the busier end the least load.

    DSA is cheap to sign, RSA is cheap to verify. So a change of the algorithm moves work to the end
    that has time for it (algorithm change of the 1998 paper).

    Args:
        costs_s: seconds to sign and to verify, by algorithm.
        load: other load, and signatures per second.
    """
    return min(costs_s, key=lambda algorithm: busier_end_load(costs_s[algorithm], load))
