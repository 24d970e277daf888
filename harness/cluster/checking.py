"""Which workers may measure: those with the same code and the same guest image as this machine."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.cluster import measuring, received
from harness.cluster.connection import Cluster, WorkerLost
from harness.cluster.received import LieError, WorkerIdentity, printable
from harness.engine import provenance, variants
from harness.engine.plan import Plan
from harness.errors import UserError

_LOOK_S = 0.5


@dataclass(frozen=True)
class ClusterWorker:
    """A worker that was checked. `label` is its name in records, where no address belongs.

    `finished` are steps that another worker of its machine had finished for this run.
    """

    label: str
    address: str
    processors: int
    finished: Sequence[str] = ()


class Checker:
    """Looks who is there, and checks everybody once."""

    def __init__(self, plan: Plan, cluster: Cluster, folder: Path, run: str) -> None:
        self._plan = plan
        self._run = run
        self._cluster = cluster
        self._folder = folder
        self._seen: set[str] = set()
        self._labelled = 0
        self._builder = plan.settings.builder
        self._advice = f"give '{variants.provision(plan)}'"
        # Without an image of its own this machine takes the first worker's for the right one.
        self._image = variants.key_of(variants.built(plan))

    async def first(self, patience_s: float) -> dict[str, ClusterWorker]:
        """The workers to begin with, by address, once there is one. Raises UserError.

        Every one of them must pass: whoever set them up wants to know before hours of measuring.
        """
        until = asyncio.get_running_loop().time() + patience_s
        while not (addresses := await self._cluster.workers()):
            if asyncio.get_running_loop().time() > until:
                raise UserError("--cluster: the scheduler has no workers; start one on every "
                                "machine with './qop worker'", status=1)
            await asyncio.sleep(_LOOK_S)
        checked = await asyncio.gather(*map(self._identity, addresses))
        workers: dict[str, WorkerIdentity] = {}
        for address, identity in zip(addresses, checked, strict=True):
            if isinstance(identity, str):
                raise UserError(f"--cluster: worker {address} {identity}")
            workers[address] = identity
        return {address: self._admit(address, identity) for address, identity in workers.items()}

    async def newcomers(self) -> list[ClusterWorker]:
        """Workers that came since, and passed; others are left alone."""
        new = [address for address in await self._cluster.workers() if address not in self._seen]
        admitted = []
        for address in new:
            identity = await self._identity(address)
            if isinstance(identity, WorkerIdentity):
                admitted.append(self._admit(address, identity))
        return admitted

    async def _identity(self, address: str) -> WorkerIdentity | str:
        """What a worker says that it is, or what is wrong with it."""
        self._seen.add(address)
        serial, messages, reason = uuid.uuid4().hex, [], ""
        try:
            await self._cluster.call(
                address, measuring.identify, self._plan, self._run, serial, serial=serial,
                take=lambda document: messages.append(received.read(document)))
        except (WorkerLost, LieError) as error:
            reason = str(error)
        identity = messages[0] if messages else None
        if reason or not isinstance(identity, WorkerIdentity):
            reason = reason or "it says nothing"
            return (f"cannot say what it measures with ({reason}); start it with './qop worker' "
                    "from the same checkout as this one")
        return self._complaint(identity) or identity

    def _complaint(self, identity: WorkerIdentity) -> str:
        """What a worker has that differs; "" if nothing does."""
        code = provenance.code_digest(self._plan.study.id)
        if identity.code != code:
            return (f"measures with other code ({printable(identity.code[:12])}, here "
                    f"{code[:12]}); bring both to the same version and start it again")
        if not identity.image:
            return f"has no guest image for builder {self._builder}; {self._advice} there"
        self._image = self._image or identity.image
        if identity.image != self._image:
            return (f"has another guest image ({printable(identity.image)}, not {self._image}); "
                    f"{self._advice} on both and start it again")
        return ""

    def _admit(self, address: str, identity: WorkerIdentity) -> ClusterWorker:
        self._labelled += 1
        label = f"worker-{self._labelled}"
        provenance.keep(self._folder, {**identity.description, "worker": label})
        return ClusterWorker(label, address, max(1, identity.processors), identity.finished)
