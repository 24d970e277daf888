"""Which builder of networks a run has: the one asked for, or the first that works there."""

from __future__ import annotations

import json
import os
import subprocess

from guest import image
from harness.engine.machine import ROOT, TESTBED_PYTHON
from harness.errors import UserError
from topologies.builders import MININET, MININET_WIFI, NAMES

AUTO = "auto"
#: What may be asked for.
CHOICES = (*NAMES, AUTO)
#: Which variant of the guest's image a builder works in.
VARIANTS = {MININET_WIFI: image.MININET_WIFI, MININET: image.PLAIN}
#: What builds that variant.
PROVISION = {MININET_WIFI: "./qop provision --mininet-wifi", MININET: "./qop provision"}
_GET = {"guest": "no guest image has Mininet-WiFi; './qop provision --mininet-wifi' builds one",
        "host": "Mininet-WiFi is not installed here; run 'sudo ./qop provision --on host "
                "--mininet-wifi'"}
_PATIENCE_S = 60


def lacking(on: str) -> dict[str, str]:
    """What each builder lacks there and how to get it, best builder first; "" where it works."""
    if on == "host":
        return _lacking_on_host()
    built = image.find(variant=image.MININET_WIFI)
    # The plain image is built when it is needed.
    return {MININET_WIFI: "" if built else _GET["guest"], MININET: ""}


def working(on: str) -> list[str]:
    """The builders that work there, best first."""
    return [name for name, lack in lacking(on).items() if not lack]


def resolve(asked: str, on: str) -> str:
    """The builder for a plan: the one asked for, or of those that work the first.

    Raises UserError where the one that is asked for does not work.
    """
    lacks = lacking(on)
    if asked == AUTO:
        return next((name for name, lack in lacks.items() if not lack), MININET)
    if lacks[asked]:
        raise UserError(f"--builder {asked}: {lacks[asked]}")
    return asked


def _lacking_on_host() -> dict[str, str]:
    """What the testbed's own Python can import."""
    if not TESTBED_PYTHON.exists():
        return dict.fromkeys(NAMES, "the testbed is not installed here; run "
                             "'sudo ./qop provision --on host'")
    # In a minute, also where modules are read for the first time.
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
