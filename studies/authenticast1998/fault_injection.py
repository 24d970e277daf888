"""Run Authenticast server and client so that they ignore the range which the user permits.

The user permits a range of packets to verify, such as 60 to 100 %. `serve` and `receive` run the
programs without this limit, as an injected fault (negative control). The study's checks must then
find that the receiver verified less.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from protocols.authenticast.settings import LevelRange, StreamSetting

#: Range that the user permits (per cent), while the stream is verified at 50 %.
PERMITTED_RANGE = [60, 100]


def serve(path: Path) -> None:
    """Run the server program without checks of the permitted range.

    Raises:
        ConfigError: the configuration is wrong.
        OSError: the system refuses a socket or a file.
    """
    from protocols.authenticast import server_program as program

    _run_unchecked(program.run, path)


def receive(path: Path) -> None:
    """Run the client program without checks of the permitted range.

    Raises:
        ConfigError: the configuration is wrong.
        OSError: the system refuses a socket or a file.
    """
    from protocols.authenticast import client_program as program

    _run_unchecked(program.run, path)


def _run_unchecked(program: Callable[[Path], object], path: Path) -> None:
    """Run a program in this process without the checks of the agreed range of levels.

    A level is the fraction of packets to verify. This is an injected fault.
    """
    StreamSetting.check = lambda setting, _: setting  # type: ignore[assignment, method-assign]
    LevelRange.clamp = lambda _, level: level  # type: ignore[assignment, method-assign]
    program(path)
