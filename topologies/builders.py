"""Who can build a network: the names, best first, and what keeps one from working here.

`python -m topologies.builders` says so as JSON for the Python that runs it. Nothing is imported
before it is asked for, so that the names can be known where no network can be built.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from pathlib import Path

MININET_WIFI, MININET = "mininet-wifi", "mininet"
#: In order of preference: where both work, the first is taken.
NAMES = (MININET_WIFI, MININET)
_MODULES = {MININET_WIFI: "mn_wifi.net", MININET: "mininet.net"}


def lacking(name: str) -> str:
    """Why a builder does not work under this Python, in a few words; "" if it does."""
    # Whoever has no screen needs no window. (Mininet-WiFi plots.)
    os.environ.setdefault("MPLBACKEND", "Agg")
    try:
        importlib.import_module(_MODULES[name])
    except ImportError as error:
        return " ".join(str(error).split())
    return ""


def version(name: str) -> dict[str, str]:
    """What a record says of a builder that no package tells: Mininet-WiFi's version and revision.

    The revision is unknown where it was not the role `mininet_wifi` that installed it.
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
    """Print what each builder lacks; the exit status."""
    print(json.dumps({name: lacking(name) for name in NAMES}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
