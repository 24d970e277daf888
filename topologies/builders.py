"""Name the software that can build networks (Mininet, Mininet-WiFi), and test whether it works.

`NAMES` has the names of these builders in order of preference. `unavailable_reason` returns why a
builder does not work under this Python. `python -m topologies.builders` prints the reasons as JSON
for the Python that runs it. Modules are imported late, so that the names are available where no
network can be built.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from pathlib import Path

MININET_WIFI, MININET = "mininet-wifi", "mininet"
#: Builders in order of preference: the first that works is used.
NAMES = (MININET_WIFI, MININET)
_MODULES = {MININET_WIFI: "mn_wifi.net", MININET: "mininet.net"}


def unavailable_reason(name: str) -> str:
    """Return why a network builder does not work under this Python, "" if it works."""
    # Mininet-WiFi imports a plot library, which must not need a screen.
    os.environ.setdefault("MPLBACKEND", "Agg")
    try:
        importlib.import_module(_MODULES[name])
    except ImportError as error:
        return " ".join(str(error).split())
    return ""


def builder_versions(name: str) -> dict[str, str]:
    """Return versions of a network builder that no package states: Mininet-WiFi's.

    The revision is "unknown" unless the role `mininet_wifi` installed it.
    """
    if name != MININET_WIFI:
        return {}
    module = importlib.import_module(_MODULES[name])
    note = Path(str(module.__file__)).parent.parent / "installed.json"
    try:
        revision = json.loads(note.read_text())["revision"]
    except (OSError, ValueError, KeyError, TypeError):
        revision = "unknown"
    return {name: f"{module.VERSION} {revision}"}


def main() -> int:
    """Print as JSON why each network builder does not work, and return the exit status."""
    print(json.dumps({name: unavailable_reason(name) for name in NAMES}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
