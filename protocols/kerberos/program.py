"""Run one Kerberos node as a program: `python3 -m protocols.kerberos.program CONFIG.json`.

CONFIG.json gives its role. A `kdc`, a `proxy` or an application server answers requests until a
signal ends it. A `client` logs in the requested number of times, and ends. `CustomerPopulation`
runs several users at the same time. Events, such as all logins with their times, are JSON lines on
standard output, which the study `kerberos2002` evaluates.
"""

from __future__ import annotations

import asyncio
import json
import random
import secrets
import selectors
import signal
import sys
import time
from pathlib import Path
from typing import Any

from protocols.fields import ConfigError
from protocols.kerberos import messages
from protocols.kerberos.client import Client
from protocols.kerberos.config import ClientRole, PartyConfig, ServerRole, load_config
from protocols.kerberos.host import (
    Host,
    RequestAnswerer,
    TransactionStamps,
    VisitTally,
    serve_messages,
)
from protocols.kerberos.kdc import Kdc, KdcSettings
from protocols.kerberos.messages import KrbError
from protocols.kerberos.processor import SharedProcessor
from protocols.kerberos.proxy import Proxy, ProxySettings
from protocols.kerberos.server import AppServer

# Compile the schemas at import, once for all programs that are forked from this process.
messages.load_schema()


def write_event(event: str, **fields: Any) -> None:
    """Write one event as a line of JSON to standard output."""
    sys.stdout.write(json.dumps({"event": event, **fields}) + "\n")
    sys.stdout.flush()


def _create_host(config: PartyConfig) -> Host:
    # Bytes from a seed are repeatable and therefore not secret; they are for emulated networks
    # only.
    random_bytes = secrets.token_bytes if config.seed is None else \
        random.Random(config.seed).randbytes  # noqa: S311
    processor = SharedProcessor(config.speed, config.sharing, config.variation, config.seed or 0)
    return Host(config.suite, config.costs, processor, config.addresses, random_bytes,
                clock_offset_ns=round(config.clock_offset_s * 1e9))


def _describe_tallies(host: Host) -> dict[str, Any]:
    return {name: _describe_tally(tally) for name, tally in sorted(host.tallies.items())}


def _describe_tally(tally: VisitTally) -> dict[str, Any]:
    return {"visits": tally.visits, "work_s": tally.work_s, "operations": dict(tally.operations)}


class CustomerPopulation:
    """Several users who log in at the same time, each again and again."""

    def __init__(self, host: Host, role: ClientRole) -> None:
        self._host, self._role = host, role
        self._client = Client(role.settings)
        self.done: list[dict[str, Any]] = []

    async def run(self) -> None:
        """Run until the requested number of logins is done.

        Logins that are still under way then are cancelled and not counted.
        """
        self._all_done = asyncio.get_running_loop().create_future()
        tasks = [asyncio.create_task(self._run_customer(number))
                 for number in range(self._role.customers)]
        for task in tasks:
            task.add_done_callback(self._handle_failure)
        await self._all_done
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _handle_failure(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and task.exception() and not self._all_done.done():
            self._all_done.set_exception(task.exception() or RuntimeError())

    async def _run_customer(self, number: int) -> None:
        while not self._all_done.done():
            await self._run_transaction(number)
            if len(self.done) >= self._role.transactions and not self._all_done.done():
                self._all_done.set_result(None)

    async def _run_transaction(self, number: int) -> None:
        party, stamps = self._host.create_party(), TransactionStamps()
        row: dict[str, Any] = {"customer": number, "start_ns": time.monotonic_ns(), "refused": ""}
        try:
            await self._host.run_work(self._client.run_transaction(party, self._role.way), party,
                                      "client", stamps=stamps)
        except KrbError as refusal:
            row["refused"] = str(refusal)
        row |= {"end_ns": time.monotonic_ns(), "asks": stamps.asks, "marks": stamps.marks}
        self.done.append(row)


def party_of(role: KdcSettings | ServerRole | ProxySettings) -> RequestAnswerer:
    """Create the KDC, server or proxy that a configuration describes."""
    if isinstance(role, KdcSettings):
        return Kdc(role)
    if isinstance(role, ProxySettings):
        return Proxy(role)
    return AppServer(role.services, lengthens=role.lengthens)


async def _run_server(config: PartyConfig, host: Host,
                      role: KdcSettings | ServerRole | ProxySettings) -> None:
    ended = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    server = await serve_messages((config.address, config.port),
                                  host.create_answerer(party_of(role)))
    write_event("ready", address=config.address, port=config.port)
    await ended.wait()
    server.close()
    write_event("ended", tallies=_describe_tallies(host))


async def _run_client(host: Host, role: ClientRole) -> None:
    customers = CustomerPopulation(host, role)
    await customers.run()
    write_event("ended", tallies=_describe_tallies(host), transactions=customers.done)


def run_node(path: Path) -> None:
    """Run a node's program from its configuration to its end.

    Raises:
        ConfigError: the configuration is wrong.
        OSError: the system refuses a socket or a file.
    """
    config = load_config(path)
    host, role = _create_host(config), config.role
    # The select selector waits to the microsecond; epoll and poll wait for whole milliseconds.
    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(
            selectors.SelectSelector())) as runner:
        runner.run(_run_client(host, role) if isinstance(role, ClientRole) else
                   _run_server(config, host, role))


def main(arguments: list[str]) -> int:
    """Run the program of a node.

    Returns:
        The exit status: 2 if the user can correct the error, 1 if the system refuses an operation.
    """
    if len(arguments) != 1:
        print("usage: python3 -m protocols.kerberos.program CONFIG.json", file=sys.stderr)
        return 2
    try:
        run_node(Path(arguments[0]))
    except ConfigError as error:
        write_event("failed", reason=str(error))
        return 2
    except OSError as error:
        write_event("failed", reason=str(error.strerror or error))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
