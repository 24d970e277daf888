"""A device is plain data: how long kinds of work take on a node's processor, and who says so.

Standard library only, as `model`. Which clock can emulate one, and how, is not known here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

#: Kinds of work that a whole processor is slower or faster at; the only ones that take a `factor`.
KINDS = ("public-key", "cipher", "hash", "system-call", "other")
#: What the processor clock tells apart, and the operation that stands for all work of a kind where
#: a device has no `factor` for it: the machine that emulates times the same one of its own.
STANDS_FOR = {"other": "sha256-in-c", "public-key": "rsa-1024-private", "cipher": "aes-128-in-c",
              "hash": "sha256-in-c"}


class Strict:
    """What the loader's validation must refuse; nothing else reads it."""

    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid", "strict": True}


@dataclass(frozen=True)
class Work(Strict):
    """How quick a device is at one kind of work, in one of three ways, and where that is from.

    `seconds` an operation, `bytes_per_s`, or `factor`: how many times longer it takes than on the
    machine that emulates it.
    """

    source: str
    seconds: float | None = None
    bytes_per_s: float | None = None
    factor: float | None = None


@dataclass(frozen=True)
class Device(Strict):
    """A processor. `work` is by kind (`KINDS`) or by operation, such as `rsa-1024-private`."""

    name: str
    title: str
    work: dict[str, Work]
    processors: int = 1
    #: Remarks for readers: what a figure leaves out, how one was derived.
    notes: list[str] = field(default_factory=list)

    @property
    def is_neutral(self) -> bool:
        """Whether it is the emulating machine as it is: such a device fits every clock."""
        return self.processors == 1 and all(work.factor == 1 for work in self.work.values())

    def unsaid(self) -> list[str]:
        """Kinds of work whose speed the processor clock cannot learn from it."""
        return [kind for kind, operation in STANDS_FOR.items()
                if not ((kind in self.work and self.work[kind].factor) or operation in self.work)]
