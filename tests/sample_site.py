"""The documentation site with its sample reports, built once a test run by the page's command."""

from __future__ import annotations

from pathlib import Path

import doc_commands
import shared
from conftest import Qop

#: The runs whose reports the site has.
SAMPLES = ("default", "today", "campus")


def folder() -> Path:
    """The site, built by whichever test needs it first."""
    return shared.once("documentation-site-built", _build)


def report(sample: str) -> Path:
    """The folder of a sample's report."""
    return folder() / "samples" / sample


def _build() -> Path:
    here = shared.folder("documentation-site")
    [command] = doc_commands.commands("docs/samples.md", "site")
    assert command.text == "./qop site"
    done = Qop(here)("site")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["Site: site/index.html", *(
        f"Sample: site/samples/{sample}/report.html" for sample in SAMPLES)]
    return here / "site"
