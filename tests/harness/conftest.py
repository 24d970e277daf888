"""What the tests of a cluster in their own process find there."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from made_up_measuring import Script


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Script:
    """How made-up workers are to behave; their image is made up, too."""
    # Here, because dask takes its time, and other tests of this room do without.
    from guest import image
    from harness.cluster import campaign
    from harness.engine import provenance
    from made_up_measuring import IMAGE, SCRIPT, Script

    for each in fields(Script):
        setattr(SCRIPT, each.name, getattr(Script(), each.name))
    monkeypatch.setattr(image, "find_image", lambda **_: IMAGE)
    monkeypatch.setattr(campaign, "WAIT_S", 1.0)
    monkeypatch.setenv("QOP_CACHE", str(tmp_path_factory.mktemp("cache")))
    # Asking programs for their versions takes its time, and is tested where it is done.
    monkeypatch.setattr(provenance, "describe_provenance",
                        lambda *_: {"host": provenance.describe_host()})
    return SCRIPT
