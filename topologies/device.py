"""Define device models: how fast the processor of an emulated node does each kind of work.

A `Device` is read from YAML, such as a Celeron of 850 MHz. It has for each kind of work (such as
RSA or a hash) a time, a rate or a factor, with its source. `measure.cpu.device_speeds` and
`measure.charging.device` make nodes as slow as their devices. Standard library only, because the
module also runs inside the guest (virtual machine).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

#: Kinds of work that a whole processor is slower or faster at; only they take a `factor`.
KINDS = ("public-key", "cipher", "hash", "system-call", "other")
#: Kinds of work that the processor clock distinguishes, with the operation that represents each if
#: a device has no `factor` for it: the emulating machine times the same operation of its own.
STANDS_FOR = {"other": "sha256-in-c", "public-key": "rsa-1024-private", "cipher": "aes-128-in-c",
              "hash": "sha256-in-c"}


class Strict:
    """A base class for data read from YAML: unknown fields and wrong types are refused."""

    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid", "strict": True}


@dataclass(frozen=True)
class Work(Strict):
    """The speed of a device for one kind of work, with its source.

    It is in one of three units: `seconds` for an operation, `bytes_per_s`, or `factor`: the time
    relative to the machine that emulates the device.
    """

    source: str
    seconds: float | None = None
    bytes_per_s: float | None = None
    factor: float | None = None


@dataclass(frozen=True)
class Device(Strict):
    """A device: a processor model with its speed for each kind of work.

    `work` is by kind (`KINDS`) or by operation, such as `rsa-1024-private`.
    """

    name: str
    title: str
    work: dict[str, Work]
    processors: int = 1
    #: Remarks for readers: what a value leaves out, or how it was derived.
    notes: list[str] = field(default_factory=list)

    @property
    def is_neutral(self) -> bool:
        """Return whether the device is as fast as the machine that emulates it.

        Such a device fits every clock.
        """
        return self.processors == 1 and all(work.factor == 1 for work in self.work.values())

    def missing_kinds(self) -> list[str]:
        """Return the kinds of work whose speed the device does not state.

        Under the processor clock (time passes with CPU time), all kinds are needed.
        """
        return [kind for kind, operation in STANDS_FOR.items()
                if not ((kind in self.work and self.work[kind].factor) or operation in self.work)]
