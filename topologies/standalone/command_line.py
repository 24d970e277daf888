"""Parse the command line of the example scripts in topologies/examples, and run them.

`main` takes the function that runs the example, and returns an exit status. It refuses a machine
that lacks something (`check_machine`), such as hostapd, with one line.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import shutil
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

#: Python of the environment that `./qop provision --on host` creates; Mininet-WiFi may exist only
#: there.
PROVISIONED = Path("/opt/qop/venv/bin/python3")
_PROGRAMS = ("hostapd", "wpa_supplicant", "iw", "rfkill", "ping", "setpriv", "mnexec")


class RequirementError(Exception):
    """An error: this machine lacks something. The text is one line that says what to do."""


def main(topology: Callable[[argparse.Namespace], bool], about: str, scenarios: Sequence[str],
         argv: Sequence[str] | None = None) -> int:
    """Run an example script with the command line's options.

    Args:
        topology: The script's function; it returns whether the scenario succeeded.
        about: The script's docstring; its first line is the description.
        scenarios: Ids of the scenarios that the script runs. The first one is the default.
        argv: Arguments; None for the command line.

    Returns:
        The exit status. 0: the scenario succeeded; 1: it did not, or something failed; 2: this
        machine cannot run it; 130: interrupted.
    """
    options = _option_parser(about, scenarios).parse_args(argv)
    signal.signal(signal.SIGTERM, _raise_interrupt)
    try:
        check_machine()
        from mininet.log import setLogLevel

        setLogLevel("info")
        return 0 if topology(options) else 1
    except RequirementError as error:
        return _print_error(error, 2)
    except KeyboardInterrupt:
        return _print_error("interrupted", 130)
    except (RuntimeError, ValueError, OSError) as error:
        # qop's errors are one line each: a daemon that does not start, an invalid file.
        return _print_error(error, 1)


def check_machine() -> None:
    """Refuse a machine that lacks something that every example script needs.

    Raises:
        RequirementError: Something is missing.
    """
    if importlib.util.find_spec("mn_wifi") is None:
        if PROVISIONED.exists() and Path(sys.prefix) != PROVISIONED.parent.parent:
            # Run the same script with the Python where qop has installed its packages.
            os.execv(PROVISIONED, [str(PROVISIONED), *sys.argv])  # noqa: S606 - as meant
        raise RequirementError("Mininet-WiFi is not installed; see docs/mininet-wifi.md, or take "
                               "'./qop lab', which needs none")
    if importlib.util.find_spec("yaml") is None:
        raise RequirementError("PyYAML is not installed; on Debian: apt-get install python3-yaml")
    missing = [name for name in _PROGRAMS if shutil.which(name) is None]
    if missing:
        raise RequirementError(
            f"not installed: {', '.join(missing)}; on Debian: apt-get install hostapd "
            "wpasupplicant iw rfkill iputils-ping util-linux mininet")
    if os.geteuid() != 0:
        raise RequirementError("Mininet needs root; start it with sudo")


def _option_parser(about: str, scenarios: Sequence[str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=about.splitlines()[0])
    parser.add_argument("scenario", nargs="?", choices=scenarios, default=scenarios[0],
                        help=f"run this scenario (default: {scenarios[0]})")
    parser.add_argument("-p", "--plot", action="store_true",
                        help="show Mininet-WiFi's plot; without a screen it becomes a picture, "
                        "SCENARIO.png in the current folder")
    parser.add_argument("--no-cli", dest="cli", action="store_false",
                        help="end after one pass, without Mininet's command line")
    return parser


def _raise_interrupt(*_: object) -> NoReturn:
    raise KeyboardInterrupt


def _print_error(what: object, status: int) -> int:
    sys.stderr.write(f"{Path(sys.argv[0]).name}: {what}\n")
    return status
