"""Programs of the protocol that ignore the user's range: a negative control."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from protocols.authenticast.settings import Range, Setting

#: Range that the user permits (per cent), while the stream is verified at 50 %.
RANGE = [60, 100]


def serve(path: Path) -> None:
    """Run the server. Raises ConfigError, OSError."""
    from protocols.authenticast import serve as program

    _run_unchecked(program.run, path)


def receive(path: Path) -> None:
    """Run the client. Raises ConfigError, OSError."""
    from protocols.authenticast import receive as program

    _run_unchecked(program.run, path)


def _run_unchecked(program: Callable[[Path], object], path: Path) -> None:
    """Run a program in this process with the checks of levels and ranges disabled."""
    Setting.check = lambda setting, _: setting  # type: ignore[assignment, method-assign]
    Range.clamp = lambda _, level: level  # type: ignore[assignment, method-assign]
    program(path)
