"""Which workers may measure: those with the same code and the same guest image as this machine."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.cluster import measuring, received
from harness.cluster.connection import Cluster, WorkerLost
from harness.cluster.received import LieError, WorkerIdentity, printable
from harness.engine import provenance, variants
from harness.engine.plan import Plan

#: What a worker may take to say what it measures with.
_PATIENCE_S = 300.0


@dataclass(frozen=True)
class ClusterWorker:
    """A worker that was checked. `label` is its name in records, where no address belongs.

    `finished` are steps that another worker of its machine had finished for this run. With a
    `complaint` it may not measure.
    """

    label: str
    address: str
    processors: int = 1
    finished: Sequence[str] = ()
    complaint: str = ""


class Checker:
    """Looks who is there, and checks everybody once."""

    def __init__(self, plan: Plan, cluster: Cluster, folder: Path) -> None:
        self._plan = plan
        self._cluster = cluster
        self._folder = folder
        #: Whether somebody is being checked.
        self.is_busy = False
        self._seen: set[str] = set()
        self._labelled = 0
        self._advice = f"give '{variants.provision(plan)}'"
        # Without an image of its own this machine takes the first worker's for the right one.
        self._image = variants.key_of(variants.built(plan))

    async def newcomers(self) -> list[ClusterWorker]:
        """The workers that came since this was last asked; what those measure with is kept."""
        addresses = sorted(await self._cluster.workers() - self._seen)
        self._seen.update(addresses)
        self.is_busy = bool(addresses)
        identities = await asyncio.gather(*map(self._identity, addresses))
        self.is_busy = False
        return [self._checked(*each) for each in zip(addresses, identities, strict=True)]

    async def _identity(self, address: str) -> WorkerIdentity | str:
        """What a worker says that it is, or why it cannot."""
        reason = "it says nothing"
        try:
            async with asyncio.timeout(_PATIENCE_S), contextlib.aclosing(self._cluster.call(
                    address, measuring.identify, self._plan)) as said:
                async for document in said:
                    message = received.read(document)
                    if isinstance(message, WorkerIdentity):
                        return message
        except (WorkerLost, LieError, TimeoutError) as error:
            reason = str(error) or reason
        return (f"cannot say what it measures with ({reason}); start it with './qop worker' from "
                "the same checkout as this one")

    def _checked(self, address: str, identity: WorkerIdentity | str) -> ClusterWorker:
        self._labelled += 1
        label = f"worker-{self._labelled}"
        complaint = identity if isinstance(identity, str) else self._complaint(identity)
        if isinstance(identity, str) or complaint:
            return ClusterWorker(label, address, complaint=complaint)
        provenance.keep(self._folder, {**identity.description, "worker": label})
        return ClusterWorker(label, address, max(1, identity.processors), identity.finished)

    def _complaint(self, identity: WorkerIdentity) -> str:
        """What a worker has that differs; "" if nothing does."""
        code = provenance.code_digest(self._plan.study.id)
        if identity.code != code:
            return (f"measures with other code ({printable(identity.code[:12])}, here "
                    f"{code[:12]}); bring both to the same version and start it again")
        if not identity.image:
            return (f"has no guest image for builder {self._plan.settings.builder}; "
                    f"{self._advice} there")
        self._image = self._image or identity.image
        if identity.image != self._image:
            return (f"has another guest image ({printable(identity.image)}, not {self._image}); "
                    f"{self._advice} on both and start it again")
        return ""
