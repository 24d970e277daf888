"""The documentation site: all pages, search and sample reports, looked at in a browser."""

from __future__ import annotations

import gzip
import json
import lzma
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

import chromium
import doc_commands
import results_folder
import sample_site
from doc_commands import PROJECT
from harness.errors import UserError
from harness.portable import archive, verification
from harness.site import build
from harness.site.samples import SHIPPED, make_samples
from sample_site import SAMPLES

PAGES = doc_commands.pages()
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


@pytest.fixture
def site() -> Path:
    """The site that the page's own command makes."""
    return sample_site.folder()


@pytest.fixture
def address(site: Path) -> Iterator[str]:
    """The site behind a web server of this machine."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(site))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_site_has_every_page_and_the_three_samples(site: Path) -> None:
    """Each page of the documentation has its HTML; three pages link the samples' reports."""
    for page in PAGES:
        assert (site / page).with_suffix(".html").is_file(), page
    assert sorted(path.name for path in (site / "samples").iterdir()) == sorted(SAMPLES)
    for page in ("index.html", "docs/samples.html", "docs/gallery.html"):
        links = re.findall(r'href="([^"]*/report\.html)"', (site / page).read_text())
        assert [(site / page).parent.joinpath(link).resolve() for link in links] == [
            site.resolve() / "samples" / sample / "report.html" for sample in SAMPLES], page


@pytest.mark.parametrize("sample", SAMPLES)
def test_sample_is_a_whole_run(sample: str, site: Path) -> None:
    """The list says date, commit and machine; every repetition of the plan has a proven record.

    Only policies that Debian 12 lacks are skipped, with the way to measure them.
    """
    verdict = verification.verify_results(site / "samples" / sample)
    assert verdict.ok and verdict.survey.plan is not None
    others = {(record.cell["policy"], record.reason) for record in verdict.survey.records.values()
              if record.status != "ok"}
    lacking = "Debian 12 has OpenSSL 3.0, without ML-KEM and ML-DSA; add --release trixie"
    assert others == ({("M17", lacking), ("M18", lacking)} if sample == "today" else set())
    assert len(verdict.survey.records) >= verdict.survey.plan.planned
    assert verdict.digest in (site / "samples" / sample / "report.html").read_text()
    text = (site / "docs/samples.html").read_text()
    row = text[text.index(f"samples/{sample}/report.html"):].partition("</tr>")[0]
    cells = re.findall(r"<p>([^<]*)</p>", row)
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", cells[-3])
    assert re.fullmatch("[0-9a-f]{12}", cells[-2]), "measured with uncommitted changes"
    assert re.fullmatch(r".+, \d+ processors, .+", cells[-1])


@pytest.mark.parametrize("sample", SAMPLES)
def test_sample_is_what_export_makes_of_it(sample: str, site: Path, tmp_path: Path) -> None:
    """The documented command makes the archive: it holds no page, log or capture."""
    [shipped] = [path for path in SHIPPED if path.name == f"{sample}.tar.xz"]
    made = archive.export_folder(site / "samples" / sample, tmp_path / "again.tar.gz", "none",
                                 records_only=True).file
    assert gzip.decompress(made.read_bytes()) == lzma.decompress(shipped.read_bytes())


def test_sample_of_a_folder_has_no_captures(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A results folder of the reader's becomes a sample of its name."""
    monkeypatch.setenv("PYTHONPATH", str(PROJECT))
    results_folder.make(tmp_path / "lab")
    [sample] = make_samples([tmp_path / "lab"], tmp_path / "site")
    assert (sample.name, sample.repetitions, sample.commit) == ("lab", 4, "")
    assert "plotly" in (tmp_path / "site" / sample.report_path).read_text()
    assert (tmp_path / "site/samples/lab/records/P1-N2-001.json").is_file()
    assert not (tmp_path / "site/samples/lab/captures").exists()


def test_site_loads_nothing_from_other_servers(site: Path) -> None:
    """Scripts, styles and pictures are the site's own."""
    for page in site.rglob("*.html"):
        if "samples" not in page.parts:
            for tag in ('<script src="http', '<img src="http', 'stylesheet" href="http', "@import"):
                assert tag not in page.read_text(encoding="utf-8"), page


@chromium.needed
@pytest.mark.slow
def test_site_in_a_browser_is_accessible_and_fits(address: str) -> None:
    """Axe finds nothing; no page is wider than the screen; the console stays empty."""
    with chromium.started() as browser:
        for width, dark in ((1280, False), (390, True)):
            for page in SEEN:
                chromium.look(browser, width, dark=dark)
                browser.get(f"{address}/{page}")
                assert browser.execute_script(
                    "return document.documentElement.scrollWidth") <= width, page
                assert chromium.run_axe(browser)[1] == [], (page, width)
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


def test_samples_that_cannot_be_made_are_refused(tmp_path: Path, qop_here: Any) -> None:
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
        done = qop_here("site", *arguments)
        assert done.returncode == 2
        assert done.stderr.startswith(f"qop: {said}")
        assert done.stderr.count("\n") == 1
    assert (tmp_path / "full/mine.txt").exists()
    assert not (tmp_path / "site").exists()


def test_a_sample_whose_report_fails_names_the_reason(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message is that of the report, with the command that shows it."""
    monkeypatch.setenv("PYTHONPATH", str(PROJECT))
    folder = results_folder.make(tmp_path / "lab")
    for record in (folder / "records").iterdir():
        record.write_text(json.dumps({}))
    with pytest.raises(UserError) as refused:
        make_samples([folder], tmp_path / "site")
    assert refused.value.status == 1
    assert str(refused.value).startswith(f"--samples {folder}: the report failed (")
    assert "measure again" in str(refused.value)
    assert str(refused.value).endswith(f"give './qop report {folder}'")


def test_readme_is_short_and_links_the_site() -> None:
    """README stays under 150 lines."""
    text = (PROJECT / "README.md").read_text(encoding="utf-8")
    assert text.count("\n") < 150
    assert "(docs/samples.md)" in text
