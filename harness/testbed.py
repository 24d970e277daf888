"""One testbed as the harness sees it: start it, give it a policy, have repetitions measured.

It serves all scenarios of its site, one repetition after the other.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from contextlib import AbstractAsyncContextManager, nullcontext
from pathlib import Path
from typing import Any

from harness import render
from harness.machine import Machine, Running
from harness.plan import Settings, Site, Streams
from harness.secrets import Secrets, withheld
from policies import Policy
from topologies import loader
from topologies.model import Medium, Scenario

READY_S = 60.0
CONFIGURE_S = 60.0
_SPARE_S = 30.0
# What a worker says in the middle of something.
_UNDER_WAY = ("hello", "on_the_network")
# The first index that RFC 5944 leaves to users.
_SPI = 256
_LAST_WORDS_S = 2.0
# The slowest stream still waited for; a cell below this rate counts as hung.
_SLOWEST_BPS = 250_000


class TestbedLost(Exception):
    """The machine died, hung or spoke nonsense; a fresh one may do better."""


class TestbedFailed(Exception):
    """The testbed works, but not with this policy; the text is the reason."""


class Testbed:
    """A worker on a machine, with one policy in force on the network of a site."""

    def __init__(self, machine: Machine, processor: int, policy: Policy, site: Site,
                 medium: Medium | None, settings: Settings, work: Path, serial: int = 1) -> None:
        self.machine = machine
        self.processor = processor
        self.policy = policy
        self.site = site
        self.medium = medium
        self.settings = settings
        self.work = work
        # A folder of its own for every testbed: an earlier one's files may still be read.
        self.job_dir = work / "jobs" / f"{serial}-{self.name}"
        self.environment: dict[str, Any] = {}
        self._running: Running | None = None
        self._sent = 0

    @property
    def name(self) -> str:
        """What it is called in logs: its policy, and the site where a plan has several."""
        return f"{self.policy.id}-{self.site.name}" if self.site.name else self.policy.id

    async def open(self, secrets: Secrets, renderer: render.Renderer) -> None:
        """Boot, build and configure; the policy is rendered meanwhile."""
        (self.job_dir / "out" / "logs").mkdir(parents=True)
        (self.job_dir / "commands").mkdir()
        mount = self.machine.mount(self.job_dir)
        (self.job_dir / "job.json").write_text(json.dumps(self._job(mount, secrets)))
        rendering = asyncio.create_task(renderer.files(self.policy, self.site.network, mount))
        try:
            if self._is_virtual:
                await rendering  # nothing of it must take the machine's time
            self._running = await self.machine.start(
                self.job_dir, self.processor, len(self.site.network.nodes),
                virtual_time=self._is_virtual)
            await self._expect("hello", READY_S)
            ready = await self._expect("ready", READY_S)
            self.environment = ready["environment"]
            shutil.copytree(await rendering, self.job_dir / "conf" / self.name)
        except BaseException:
            rendering.cancel()
            await asyncio.gather(rendering, return_exceptions=True)
            raise
        self._send(do="configure", conf=self.name)
        await self._expect("configured", CONFIGURE_S)

    async def measure(self, name: str, scenario: Scenario, streams: Streams,
                      turn: AbstractAsyncContextManager[Any] | None = None) -> Path:
        """Measure one repetition; the folder with its captures and raw values.

        Until the mobile node is on the network it takes all of a processor; `turn` is held for
        that long. Afterwards its streams leave room for others.
        """
        slowest_s = max(streams.tcp_bytes, streams.udp_bytes) * 8 / _SLOWEST_BPS
        async with turn or nullcontext():
            self._send(do="measure", name=name, scenario=scenario.id, streams={
                "tcp_bytes": streams.tcp_bytes, "udp_bytes": streams.udp_bytes,
                "udp_payload_bytes": streams.udp_payload_bytes,
                "udp_rate_bps": self._offered_bps(), "timeout_s": 10 + slowest_s,
                "one_in": streams.one_in})
            said = await self._expect("on_the_network", _spare_s(), "measured")
        if said["event"] != "measured":
            await self._expect("measured", _spare_s() + 2 * slowest_s)
        return self.job_dir / "out" / name

    async def connect(self, scenario: Scenario) -> None:
        """Bring the mobile node onto the network, without measuring."""
        self._send(do="connect", scenario=scenario.id)
        await self._expect("connected", _spare_s())

    async def shell(self, **command: Any) -> dict[str, Any]:
        """Run the worker's `shell` command to its end, however long; its last event."""
        self._send(do="shell", **command)
        return await self._expect("shell_ended", None)

    def move(self, processor: int) -> None:
        """Have the machine stay on this processor from now on."""
        if processor != self.processor:
            assert self._running is not None
            self._running.move(processor)
            self.processor = processor

    async def close(self) -> None:
        """End the machine; safe at any time and twice."""
        if self._running is not None:
            await self._running.close()

    @property
    def pid(self) -> int:
        """Process id of the machine's worker, or of its guest."""
        assert self._running is not None
        return self._running.pid

    @property
    def logs(self) -> Path:
        """Console, worker's and daemons' logs."""
        return self.job_dir / "out" / "logs"

    @property
    def _is_virtual(self) -> bool:
        return self.settings.clock == "virtual"

    def _job(self, mount: str, secrets: Secrets) -> dict[str, Any]:
        """What the worker is told of its testbed."""
        link = self.policy.layers.link
        return {
            "network": loader.to_json(self.site.network), "mount": mount,
            "scenarios": {scenario.id: loader.to_json(scenario)
                          for scenario in self.site.scenarios},
            "clock": self.settings.clock, "builder": self.settings.builder,
            "medium": loader.to_json(self.medium) if self.medium else None,
            "cipher_bytes": link.frame_expansion_bytes if link else 0,
            "mobile_ip": {"spi": _SPI, **secrets["mobile_ip"],
                          "detection": self.settings.detection},
            "withhold": withheld(self.settings.fault)}

    def _offered_bps(self) -> float:
        """A UDP load a tenth above what the medium can carry; without a medium, 500 Mbit/s."""
        if self.medium is None:
            return 500e6
        return 1.1 * self.medium.udp_ceiling_bps(self.settings.streams.udp_payload_bytes)

    def _send(self, **command: Any) -> None:
        assert self._running is not None
        line = json.dumps(command).encode() + b"\n"
        if not self._is_virtual:
            self._running.stdin.write(line)
            return
        # By file, and only then may the machine go on: see measure.worker.commands.
        self._sent += 1
        place = self.job_dir / "commands" / f"{self._sent}.json"
        place.with_suffix(".new").write_bytes(line)
        place.with_suffix(".new").rename(place)
        self._running.release()

    async def _expect(self, event: str, deadline_s: float | None,
                      other: str = "") -> dict[str, Any]:
        """The next event, which must be `event`, or where it is given, `other`."""
        assert self._running is not None
        try:
            # Not wait_for, which may take a cancellation for an answer that comes with it.
            async with asyncio.timeout(deadline_s):
                line = await self._running.stdout.readline()
        except TimeoutError:
            await self._running.close()
            raise TestbedLost(f"no '{event}' within {deadline_s:g} s; killed by the watchdog") \
                from None
        except (ConnectionError, ValueError) as error:
            raise TestbedLost(f"the worker's line broke ({error})") from error
        if not line:
            await self._running.close(grace_s=_LAST_WORDS_S)
            raise TestbedLost(self._running.post_mortem())
        try:
            said: dict[str, Any] = json.loads(line)
        except ValueError:
            raise TestbedLost(f"the worker said {line[:80]!r}, which is no event") from None
        if self._is_virtual and said["event"] not in _UNDER_WAY:
            self._running.hold()
        if said["event"] == "failed":
            raise TestbedFailed(said["reason"])
        if said["event"] not in (event, other):
            raise TestbedLost(f"the worker said '{said['event']}' instead of '{event}'")
        return said


def _spare_s() -> float:
    """What a repetition may take besides its streams before its machine counts as hung.

    QOP_WATCHDOG_S overrides it, for machines far slower than any we know (and for tests).
    """
    return float(os.environ.get("QOP_WATCHDOG_S", _SPARE_S))
