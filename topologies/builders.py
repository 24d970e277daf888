"""Names of the network builders, best first, and the reasons why one does not work here.

`python -m topologies.builders` prints the reasons as JSON for the Python that runs it. Modules are
imported late, so that the names are available where no network can be built.
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
    """Return why a builder does not work under this Python, in a few words.

    The result is "" if it does.
    """
    # Mininet-WiFi imports a plot library, which must not need a screen.
    os.environ.setdefault("MPLBACKEND", "Agg")
    try:
        importlib.import_module(_MODULES[name])
    except ImportError as error:
        return " ".join(str(error).split())
    return ""


def builder_versions(name: str) -> dict[str, str]:
    """Return versions of a builder that no package states: Mininet-WiFi's version and revision.

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
    """Print what each builder lacks, and return the exit status."""
    print(json.dumps({name: unavailable_reason(name) for name in NAMES}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
