"""The documentation site: all pages, search and sample reports, looked at in a browser."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import axe_core_python
import pytest

import chromium
import doc_commands
import results_folder
import shared
from conftest import Qop
from doc_commands import PROJECT
from harness.site import build

PAGES = doc_commands.pages()
AXE = Path(next(iter(axe_core_python.__path__))) / "axe.min.js"
#: A build by a process of its own.
BUILD = """
import sys
from pathlib import Path
from harness.site import build
build.run_sphinx(*map(Path, sys.argv[1:]), [])
"""
#: Pages that are looked at: those for newcomers, a long one, and the one with a study's tables.
SEEN = ["index.html", "docs/samples.html", "docs/gallery.html", "docs/faq.html",
        "docs/lab-sheet.html", "docs/policies.html", "studies/qop2007/README.html"]


class Quiet(SimpleHTTPRequestHandler):
    """A server of files that writes no log."""

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


def commanded() -> Path:
    """The site that the page's own command and a made-up results folder make."""
    folder = shared.folder("documentation-site")
    results_folder.make(folder / "lab")
    [command] = doc_commands.commands("docs/samples.md", "site")
    assert command.text == "./qop site"
    done = Qop(folder)("site", "--samples", "lab")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "Site: site/index.html", "Sample: site/samples/lab/report.html"]
    return folder / "site"


@pytest.fixture
def site() -> Path:
    """The site, built by whoever needs it first."""
    return shared.once("documentation-site-built", commanded)


@pytest.fixture
def address(site: Path) -> Iterator[str]:
    """The site behind a web server of this machine."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(site))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_site_has_every_page_and_the_sample(site: Path) -> None:
    """Each page of the documentation has its HTML; the list of samples links the report."""
    for page in PAGES:
        assert (site / page).with_suffix(".html").is_file(), page
    assert 'href="../samples/lab/report.html"' in (site / "docs/samples.html").read_text()
    report = (site / "samples/lab/report.html").read_text()
    assert "plotly" in report
    assert (site / "samples/lab/records/P1-N2-001.json").is_file()
    assert not (site / "samples/lab/captures").exists()


def test_site_loads_nothing_from_other_servers(site: Path) -> None:
    """Scripts, styles and pictures are the site's own."""
    for page in site.rglob("*.html"):
        if "samples" not in page.parts:
            for tag in ('<script src="http', '<img src="http', 'stylesheet" href="http', "@import"):
                assert tag not in page.read_text(encoding="utf-8"), page


def violations(browser: Any) -> list[tuple[str, str]]:
    """What axe finds on the open page: the rule, and the first element."""
    browser.execute_script(AXE.read_text(encoding="utf-8"))
    found = browser.execute_async_script("const end = arguments[0]; axe.run().then(end)")
    return [(one["id"], one["nodes"][0]["html"]) for one in found["violations"]]


@chromium.needed
@pytest.mark.slow
def test_site_in_a_browser_is_accessible_and_fits(address: str) -> None:
    """Axe finds nothing; no page is wider than the screen; the console stays empty."""
    with chromium.started() as browser:
        for width, dark in ((1280, False), (390, True)):
            for page in SEEN:
                chromium.look(browser, width, dark=dark)
                browser.get(f"{address}/{page}")
                assert violations(browser) == [], (page, width)
                assert browser.execute_script(
                    "return document.documentElement.scrollWidth") <= width, page
                # Browsers ask every server for this file.
                assert [line["message"] for line in browser.get_log("browser")
                        if "favicon.ico" not in line["message"]] == [], page


@chromium.needed
@pytest.mark.slow
@pytest.mark.parametrize("where", ["server", "disk"])
def test_site_search_finds_a_page(where: str, address: str, site: Path) -> None:
    """A word of one page leads to it, from a server and from the disk."""
    from selenium.webdriver.support.ui import WebDriverWait

    begin = address if where == "server" else site.as_uri()
    with chromium.started() as browser:
        browser.get(f"{begin}/search.html?q=uninstall")
        WebDriverWait(browser, 120).until(lambda _: any(
            "/docs/faq.html" in link for link in browser.execute_script(
                "return [...document.querySelectorAll('#search-results li a')].map(a => a.href)")))


def test_navigation_follows_the_index() -> None:
    """Each section of the index is a part of the navigation, with its pages in order."""
    lines = list(build.format_navigation(
        "# X\n[a](a.md)\n## One\n[b](b.md#x) [c](../C.md)\n## Two\n[d](d.md)"))
    text = "\n".join(lines)
    assert text.index("docs/a") < text.index(":caption: One") < text.index("docs/b\nC\n")
    assert text.index("docs/b\nC\n") < text.index(":caption: Two") < text.index("docs/d")


@pytest.mark.parametrize(("text", "warned"), [
    ("# Page\n\n[x](nowhere.md)\n", "nowhere.md"), ("# Page\n\n[x](#nowhere)\n", "nowhere"),
    ("# Page\n\n![x](nowhere.png)\n", "nowhere.png")])
def test_a_wrong_link_stops_the_build(text: str, warned: str, tmp_path: Path) -> None:
    """One line names the page, its line and the target."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "studies/one").mkdir(parents=True)
    (tmp_path / "studies/one/README.md").write_text("# Study\n")
    (tmp_path / "README.md").write_text(text)
    (tmp_path / "docs/README.md").write_text("# Index\n")
    # Sphinx is for one build a process.
    done = subprocess.run(
        [sys.executable, "-c", BUILD, tmp_path, tmp_path / "out", tmp_path / "trees"],
        capture_output=True, text=True, check=False, cwd=PROJECT)
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert re.search(rf"UserError: site: .*README.md:3: .*{warned}.*; correct the page$", last)


def test_samples_that_cannot_be_made_are_refused(tmp_path: Path, qop: Any) -> None:
    """What is no results folder, two of one name, and another folder in the site's place."""
    results_folder.make(tmp_path / "a/lab")
    results_folder.make(tmp_path / "b/lab")
    (tmp_path / "full").mkdir()
    (tmp_path / "full/mine.txt").touch()
    for arguments, said in (
            (("--samples", "full"), "--samples full: there is no plan with records; give a "),
            (("--samples", "a/lab", "b/lab"), "--samples b/lab: another sample is called lab; "),
            (("--out", "full"), "--out full: this is no documentation site; give a new "),
            (("a/lab",), "site: a/lab belongs to no option; give --samples a/lab")):
        done = qop("site", *arguments)
        assert done.returncode == 2
        assert done.stderr.startswith(f"qop: {said}")
        assert done.stderr.count("\n") == 1
    assert (tmp_path / "full/mine.txt").exists()
    assert not (tmp_path / "site").exists()


def test_a_sample_whose_report_fails_names_the_reason(tmp_path: Path, qop: Any) -> None:
    """The message is that of the report, with the command that shows it."""
    folder = results_folder.make(tmp_path / "lab")
    for record in (folder / "records").iterdir():
        record.write_text(json.dumps({}))
    done = qop("site", "--samples", "lab")
    assert done.returncode == 1
    assert done.stderr.startswith("qop: --samples lab: the report failed (")
    assert done.stderr.endswith("give './qop report lab'\n")


def test_readme_is_short_and_links_the_site() -> None:
    """README stays under 150 lines."""
    text = (PROJECT / "README.md").read_text(encoding="utf-8")
    assert text.count("\n") < 150
    assert "(docs/samples.md)" in text
