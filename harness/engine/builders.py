"""Choose the network backend (--builder) of a run: the requested or the first working one."""

from __future__ import annotations

import json
import os
import subprocess

from guest import image
from harness.engine.machine import ROOT, TESTBED_PYTHON
from harness.errors import UserError
from topologies.builders import MININET, MININET_WIFI, NAMES

AUTO = "auto"
#: Values of the option --builder.
CHOICES = (*NAMES, AUTO)
#: The variant of the guest's image that each backend needs.
VARIANTS = {MININET_WIFI: image.MININET_WIFI, MININET: image.PLAIN}
#: The command that builds that variant.
PROVISION = {MININET_WIFI: "./qop provision --mininet-wifi", MININET: "./qop provision"}
_GET = {"guest": "no guest image has Mininet-WiFi; './qop provision --mininet-wifi' builds one",
        "host": "Mininet-WiFi is not installed here; run 'sudo ./qop provision --on host "
                "--mininet-wifi'"}
_PATIENCE_S = 60


def missing_by_builder(on: str) -> dict[str, str]:
    """Return for each network backend why it does not work, best backend first.

    The text says how to install the backend, and is "" if it works. `on` is "guest" or "host".
    """
    if on == "host":
        return _lacking_on_host()
    built = image.find_image(variant=image.MININET_WIFI)
    # The plain image is built on first use.
    return {MININET_WIFI: "" if built else _GET["guest"], MININET: ""}


def working_builders(on: str) -> list[str]:
    """Return the network backends that work, best first. `on` is "guest" or "host"."""
    return [name for name, lack in missing_by_builder(on).items() if not lack]


def choose_builder(requested: str, on: str) -> str:
    """Return the network backend for a plan.

    Args:
        requested: The requested backend, or AUTO for the first one that works.
        on: "guest" or "host".

    Raises:
        UserError: The requested backend does not work.
    """
    lacks = missing_by_builder(on)
    if requested == AUTO:
        return next((name for name, lack in lacks.items() if not lack), MININET)
    if lacks[requested]:
        raise UserError(f"--builder {requested}: {lacks[requested]}")
    return requested


def _lacking_on_host() -> dict[str, str]:
    """Ask the testbed's own Python which backends it cannot import."""
    if not TESTBED_PYTHON.exists():
        return dict.fromkeys(NAMES, "the testbed is not installed here; run "
                             "'sudo ./qop provision --on host'")
    # One minute is enough, even when the modules are read from disk for the first time.
    argv = ["timeout", str(_PATIENCE_S), str(TESTBED_PYTHON), "-P", "-m", "topologies.builders"]
    done = subprocess.run(argv, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True,
                          text=True, check=False)
    try:
        lacks: dict[str, str] = json.loads(done.stdout)
    except ValueError:
        last = (done.stderr.strip().splitlines() or [f"status {done.returncode}"])[-1]
        return dict.fromkeys(NAMES, f"{TESTBED_PYTHON} cannot be asked ({last}); run "
                             "'sudo ./qop provision --on host' again")
    return {name: f"{_GET['host']} ({lacks[name]})" if lacks[name] and name == MININET_WIFI
            else lacks[name] for name in NAMES}
