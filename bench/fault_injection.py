"""Start a run whose guests accept injected faults: `python -m bench.fault_injection run ...`.

Everything else about the run is as usual. In each guest the worker's Python starts a shell through
its `sitecustomize`. The shell runs scripts as root that are put into the guest's job folder.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from guest.boot import Clock
from guest.processes import PROC
from harness import cli, host_process
from harness.engine import setup
from harness.engine.machine import EmbeddedMachine, WorkerProcess
from measure.agent.timed_program import PROCESS_NAME
from topologies.builders import MININET

_ORDERS = "sabotage"
_ORDER_LISTENER = """
: >/host/sabotage/ready
while :; do
    for order in /host/sabotage/*.sh; do
        [ -r "$order" ] || continue
        sh "$order" >"$order.said" 2>&1
        mv "$order" "${order%.sh}.done"
    done
    sleep 0.1
done
"""
_SITECUSTOMIZE = f"""
import subprocess, sys
if "measure.agent.worker" in sys.orig_argv:
    subprocess.Popen(["sh", "-c", {_ORDER_LISTENER!r}], stdin=-3, stdout=-3, stderr=-3)
"""
#: Script that kills every process of the first daemon in a list that is running.
_KILL = """
for daemon in {names}; do
    for place in /proc/[0-9]*; do
        read -r name <"$place/comm" || continue
        if [ "$name" = "$daemon" ]; then kill -9 "${{place#/proc/}}" && echo "$daemon"; fi
    done 2>/dev/null | grep . && exit
done
"""
#: Daemons by their process name; qop's own programs share one name.
DAEMONS = ("hostapd", "wpa_supplicant", "freeradius", "charon", "iperf3", "tcpdump", "krb5kdc",
           PROCESS_NAME)


class FaultInjectionMachine(EmbeddedMachine):
    """A machine whose guests run scripts from their job folder, to inject faults."""

    async def start_worker(self, job_dir: Path, processor: int, nodes: int, *, study: str,
                    packages: str = "", clock: Clock = "real", more_mb: int = 0) -> WorkerProcess:
        """Boot a guest that also waits for scripts to run."""
        (job_dir / "code").mkdir()
        (job_dir / "code" / "sitecustomize.py").write_text(_SITECUSTOMIZE)
        (job_dir / _ORDERS).mkdir()
        return await super().start_worker(job_dir, processor, nodes, study=study, packages=packages,
                                          clock=clock, more_mb=more_mb)


def kill_daemon(names: Sequence[str]) -> str:
    """Return a shell script that kills the first of these daemons that is running."""
    return _KILL.format(names=" ".join(names))


def step_clock(seconds: int) -> str:
    """Return a shell script that sets the guest's clock forward or back by `seconds`."""
    return f"date -s @$(( $(date +%s) + {seconds} )) && echo stepped\n"


def is_listening(guest: int) -> bool:
    """Return whether a guest is ready to run scripts."""
    with contextlib.suppress(OSError):
        return (_job_dir(guest) / _ORDERS / "ready").exists()
    return False


def is_measuring(guest: int) -> bool:
    """Return whether a guest is measuring a repetition, or has one that is being dissected."""
    with contextlib.suppress(OSError):
        return len(os.listdir(_job_dir(guest) / "out")) > 1  # the first are its logs
    return False


def _job_dir(guest: int) -> Path:
    """Return the path of a guest's job folder on the host: the guest may have a private disk."""
    guest_root = PROC / str(guest)
    return Path(f"{guest_root / 'root'}{os.readlink(guest_root / 'cwd' / 'host')}")


def send_order_to_guest(guest: int, text: str, patience_s: float) -> bool:
    """Run a script in a guest, and return whether it reported success.

    Args:
        guest: Process id of the guest's kernel.
        text: The script.
        patience_s: Time to wait for its end in seconds.
    """
    try:
        place = _job_dir(guest) / _ORDERS / f"{time.monotonic_ns()}.sh"
        place.with_suffix(".new").write_text(text)
        place.with_suffix(".new").rename(place)
    except OSError:
        return False  # the guest is gone, or has only started
    until = time.monotonic() + patience_s
    while time.monotonic() < until and (PROC / str(guest)).exists():
        try:
            if place.with_suffix(".done").exists():
                return bool(Path(f"{place}.said").read_text().strip())
        except OSError:
            return False
        time.sleep(0.02)
    with contextlib.suppress(OSError):
        place.unlink()  # the script must not run later, when it is not counted
    return False


def main() -> int:
    """Run qop's command line with guests that accept scripts, and return the exit status."""
    host_process.exit_when_interrupted()
    host_process.prepare_process()
    build = setup.make_embedded_machine

    def embedded(builder: str = MININET) -> EmbeddedMachine:
        return FaultInjectionMachine(build(builder).image)

    setup.make_embedded_machine = embedded
    # Under a limit on file sizes Python 3.11 accepts a module's bytecode that was cut off at 4 kB,
    # and every later run of this checkout would fail.
    sys.dont_write_bytecode = True
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    return cli.main()


if __name__ == "__main__":  # processes that dissect import this file, too
    sys.exit(main())
