"""Programs of the protocol that heed no user's range: a negative control."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from protocols.authenticast.settings import Range, Setting

#: What the user permits, in per cent, while the stream is verified at half.
RANGE = [60, 100]


def serve(path: Path) -> None:
    """The server. Raises ConfigError, OSError."""
    from protocols.authenticast import serve as program

    _run(program.run, path)


def receive(path: Path) -> None:
    """The client. Raises ConfigError, OSError."""
    from protocols.authenticast import receive as program

    _run(program.run, path)


def _run(program: Callable[[Path], object], path: Path) -> None:
    """A program in this process, for which every level is in every range."""
    Setting.check = lambda setting, _: setting  # type: ignore[assignment, method-assign]
    Range.clamp = lambda _, level: level  # type: ignore[assignment, method-assign]
    program(path)
