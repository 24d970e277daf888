"""Handle SIGTERM and SIGHUP like Ctrl-C, so that everything is cleaned up before the end."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_NUMBERS = (signal.SIGTERM, signal.SIGHUP)


@contextmanager
def interrupt_on_signals() -> Iterator[None]:
    """Raise KeyboardInterrupt on SIGTERM and SIGHUP inside the context (main thread only)."""
    def interrupt(number: int, frame: FrameType | None) -> None:  # noqa: ARG001  # signal's shape
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in _NUMBERS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
