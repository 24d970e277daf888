"""Admit only workers with the same code and the same guest images as this machine."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path

from harness.cluster import measuring, received
from harness.cluster.connection import Cluster, WorkerLost
from harness.cluster.received import InvalidWorkerMessage, WorkerIdentity, printable_line
from harness.engine import provenance, variants
from harness.engine.plan import Plan

#: Time limit in seconds for a worker to describe its code and images.
_PATIENCE_S = 300.0


@dataclass(frozen=True)
class ClusterWorker:
    """A worker of a run.

    `label` is its name in records, which contain no addresses. `packages` are the package sets
    that its guest images contain, "" for none. `finished` are the steps that another worker of the
    same machine had finished for this run.
    """

    label: str
    address: str
    processors: int = 1
    packages: frozenset[str] = frozenset()
    finished: Collection[str] = ()


class Checker:
    """A checker of workers. It stores a description of each machine that passes."""

    def __init__(self, plan: Plan, cluster: Cluster, folder: Path) -> None:
        self._plan = plan
        self._cluster = cluster
        self._folder = folder
        self._advice = f"give '{variants.provision_command(plan)}'"
        # Where this machine lacks an image, the first worker's image is the reference.
        self._images = variants.built_image_keys(plan)

    async def check_worker(self, worker: ClusterWorker) -> ClusterWorker:
        """Return the worker with its processors, packages and finished steps.

        Raises:
            WorkerLost: The worker may not measure; the text is the reason.
        """
        identity = await self._request_identity(worker.address)
        if complaint := self._find_difference(identity):
            raise WorkerLost(complaint)
        self._images = identity.images | self._images
        provenance.add_circumstances(self._folder, {**identity.description, "worker": worker.label})
        return replace(worker, processors=identity.processors, finished=identity.finished,
                       packages=frozenset(identity.images))

    async def _request_identity(self, address: str) -> WorkerIdentity:
        reason = "it says nothing"
        try:
            async with asyncio.timeout(_PATIENCE_S), contextlib.aclosing(
                self._cluster.run_on_worker(
                    address, measuring.send_identity, self._plan)) as said:
                async for document in said:
                    message = received.parse_message(document)
                    if isinstance(message, WorkerIdentity):
                        return message
        except (WorkerLost, InvalidWorkerMessage, TimeoutError) as error:
            reason = str(error) or reason
        raise WorkerLost(f"cannot say what it measures with ({reason}); start it with './qop "
                         "worker' from the same checkout as this one")

    def _find_difference(self, identity: WorkerIdentity) -> str:
        """Return a message about how the worker's code or images differ, "" if they do not."""
        code = provenance.code_digest(self._plan.study.id)
        if identity.code != code:
            return (f"measures with other code ({printable_line(identity.code[:12])}, here "
                    f"{code[:12]}); bring both to the same version and start it again")
        if not variants.can_measure(self._plan, identity.images):
            return (f"has no guest image for builder {self._plan.settings.builder}; "
                    f"{self._advice} there")
        image = identity.description.get("image")
        kernel = image.get("kernel") if isinstance(image, dict) else None
        if self._plan.settings.clock == "processor" and isinstance(kernel, dict) \
                and not kernel.get("processor_clock"):
            return ("has a guest image whose kernel lacks the processor clock; add --clock real, "
                    f"or {self._advice} there")
        for name, key in identity.images.items():
            if key != self._images.get(name, key):
                return (
                    f"has another guest image ({printable_line(key)}, not {self._images[name]}); "
                        f"{self._advice} on both and start it again")
        return ""
