"""Tests of the report as a page: in headless Chromium, by the rules of accessibility, as text."""

from __future__ import annotations

import importlib.resources
import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import chromium
from analysis.claims import Verdict
from analysis.present import page
from analysis.present.report import Links, Report, Section
from analysis.present.writing import save_report
from analysis.table import Column, Entry, Quantity, Table
from fabricated import STUDY, failed, load, paper_run, write_all
from pdflatex import problems
from studies.qop2007.report import assembling

#: Of a phone, a tablet and a desktop.
WIDTHS = (360, 768, 1280)
SCRIPT = "</script><script>document.title='run'</script>"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A results folder with all policies at home and roaming, a failure, and a damaged file."""
    out = tmp_path_factory.mktemp("report") / "run"
    write_all([*paper_run(("N2", "R1")), failed("P6", 4)], out)
    (out / "records" / "foreign.json").write_text('{"hello": "world"}')
    (out / "captures" / "P8-N2-001").mkdir(parents=True)
    save_report(STUDY.report(load(out), {}), out)
    return out


@pytest.fixture(scope="module")
def paper(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of the published values."""
    out = tmp_path_factory.mktemp("paper")
    save_report(assembling.of_paper(), out)
    return out


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """One for all tests of this file."""
    with chromium.started() as driver:
        yield driver


def opened(browser: Any, folder: Path, width: int = 1280, *, dark: bool = False) -> Any:
    """The page of a folder, at a width and in a colour scheme, once its plots are drawn."""
    from selenium.webdriver.support.ui import WebDriverWait

    chromium.look(browser, width, dark=dark)
    browser.get((folder / "report.html").as_uri())
    WebDriverWait(browser, 30).until(lambda it: it.execute_script(
        "return [...document.querySelectorAll('.plot')].every(p => p.querySelector('.main-svg'))"))
    return browser


def fits_within(browser: Any, width: int) -> None:
    """Wait until nothing is wider: what was widened draws its figures once more. Raises."""
    from selenium.webdriver.support.ui import WebDriverWait
    wide = "return document.documentElement.scrollWidth"
    WebDriverWait(browser, 10).until(lambda it: it.execute_script(wide) <= width,
                                     f"wider than {width} pixels")


# --- in a browser --------------------------------------------------------------------------------

# In the dark, the fuller of the two pages stands for both: they have one style sheet.
LOOKS = [("folder", False), ("folder", True), ("paper", False)]


def look_of(which: tuple[str, bool]) -> str:
    """What a page in a colour scheme is called."""
    return f"{which[0]}-{'dark' if which[1] else 'light'}"


@pytest.fixture(scope="module", params=LOOKS, ids=look_of)
def looked_at(browser: Any, request: pytest.FixtureRequest) -> tuple[Any, str, bool]:
    """A page in a colour scheme, opened once for all tests that change nothing on it."""
    which, dark = request.param
    return opened(browser, request.getfixturevalue(which), dark=dark), which, dark


@pytest.mark.slow
@chromium.needed
def test_opens_without_errors(looked_at: tuple[Any, str, bool]) -> None:
    """Nothing on the console, every plot drawn, every request answered by the file itself."""
    it, which, dark = looked_at
    assert it.get_log("browser") == []
    plots = it.execute_script("return document.querySelectorAll('.plot .main-svg').length")
    assert plots >= (8 if which == "folder" else 4)
    assert it.execute_script("return document.documentElement.dataset.theme") == (
        "dark" if dark else "light")
    assert it.execute_script("return performance.getEntriesByType('resource').filter("
                             "e => !e.name.startsWith('data:')).map(e => e.name)") == []


@pytest.mark.slow
@chromium.needed
@pytest.mark.parametrize("looked_at", LOOKS[:2], ids=look_of, indirect=True)
def test_accessibility(looked_at: tuple[Any, str, bool]) -> None:
    """No finding by axe; in the dark, of contrast, as no other rule looks at colours.

    The run's page stands for the paper's, too: it has all that there is on that one, and more.
    """
    it, _, dark = looked_at
    it.execute_script(importlib.resources.files("axe_core_python").joinpath(
        "axe.min.js").read_text(encoding="utf-8"))
    it.set_script_timeout(120)
    said = it.execute_async_script(REPEATED_ROWS + """
        const done = arguments[1], only = arguments[0] ? {runOnly: ['color-contrast']} : {
            rules: {'label-content-name-mismatch': {enabled: true}}};
        axe.run({exclude: [['[data-repeats]']]}, {resultTypes: ['violations'], ...only}).then(
            r => done({rules: r.passes.length, violations: r.violations.map(
                v => [v.impact, v.id, v.nodes[0].html.slice(0, 200)])}),
            error => done({rules: 0, violations: [['critical', `${error}`]]}))""", dark)
    assert said["rules"] > (0 if dark else 20)
    assert said["violations"] == []


#: Marks rows of tables that differ from an earlier one in nothing but their texts and addresses:
#: axe takes 5 ms for each cell.
REPEATED_ROWS = r"""
    const shapes = new Set();
    for (const row of document.querySelectorAll('tbody tr')) {
        const shape = row.closest('table').className + row.outerHTML.replace(/>[^<]+/g, '>x')
            .replace(/="[^"]*\d[^"]*"/g, '');
        if (shapes.has(shape)) row.setAttribute('data-repeats', '');
        shapes.add(shape);
    }"""


@pytest.mark.slow
@chromium.needed
@pytest.mark.parametrize("which", ["folder", "paper"])
def test_the_page_does_not_scroll_sideways(browser: Any, which: str,
                                           request: pytest.FixtureRequest) -> None:
    """Wide tables scroll in their own box, on a phone as on a desktop; nothing sticks out.

    It is opened on the narrowest, where least fits, and widened.
    """
    it = opened(browser, request.getfixturevalue(which), WIDTHS[0])
    for width in WIDTHS:
        chromium.widen(it, width)
        assert it.execute_script("return innerWidth") == width
        fits_within(it, width)
        out = it.execute_script(
            "return [...document.querySelectorAll('main *')].filter(e => !e.closest('.scroll, "
            ".plot') && e.getBoundingClientRect().right > innerWidth + 1)"
            ".map(e => e.outerHTML.slice(0, 90))")
        assert out == []


@pytest.mark.slow
@chromium.needed
def test_a_number_opens_its_records_and_captures(browser: Any, folder: Path) -> None:
    """The links lead to files that exist."""
    it = opened(browser, folder)
    it.execute_script(
        "[...document.querySelectorAll('#table-7 tbody tr')].find(r => r.textContent.trim()"
        ".startsWith('P8')).querySelectorAll('button.num')[0].click()")
    assert it.execute_script("return document.getElementById('detail').open")
    links = it.execute_script("return [...document.querySelectorAll('#detail .links a')]"
                              ".map(a => decodeURIComponent(new URL(a.href).pathname))")
    names = ["records/P8-N2-001.json", "captures/P8-N2-001/", "records/P8-N2-002.json",
             "records/P8-N2-003.json"]
    assert [str(Path(link).relative_to(folder)) + "/" * link.endswith("/") for link in links] \
        == names
    assert all(Path(link).exists() for link in links)


@pytest.mark.slow
@chromium.needed
def test_the_theme_can_be_chosen(browser: Any, folder: Path) -> None:
    """The button switches page and plots; on paper it is light whatever was chosen."""
    it = opened(browser, folder)
    ink = "return getComputedStyle(document.querySelector('.plot .xtitle')).fill"
    before = it.execute_script(ink)
    it.execute_script("document.getElementById('theme').click()")
    assert it.execute_script("return document.documentElement.dataset.theme") == "dark"
    assert it.execute_script(ink) != before
    it.execute_script("dispatchEvent(new Event('beforeprint'))")
    assert it.execute_script(ink) == before
    assert it.execute_script("return document.querySelector('details.notice').open")


@pytest.mark.slow
@chromium.needed
def test_no_name_of_a_policy_runs(browser: Any, tmp_path: Path) -> None:
    """Texts come from records of whoever; none of them becomes a part of the page."""
    save_report(hostile(), tmp_path)
    it = opened(browser, tmp_path)
    assert it.get_log("browser") == []
    assert it.execute_script("return document.title") == SCRIPT
    it.execute_script("document.querySelector('td button.num').click()")
    assert it.execute_script("return document.querySelector('#detail h2').textContent") == \
        f"{SCRIPT}, {SCRIPT}"


def hostile() -> Report:
    """A report all of whose texts are a script."""
    entry = Entry(SCRIPT, Quantity(1.0), note=SCRIPT, records=(SCRIPT,))
    table = Table("x", SCRIPT, (Column("policy", SCRIPT), Column("x", SCRIPT)), ((entry, entry),),
                  SCRIPT, (SCRIPT,), ((0, SCRIPT),))
    claim = Verdict("Q1", SCRIPT, SCRIPT, "refuted", SCRIPT, (SCRIPT,), (), (SCRIPT,), SCRIPT)
    return Report(SCRIPT, SCRIPT, ((SCRIPT, SCRIPT),), (), SCRIPT, (claim,),
                  (Section("s", SCRIPT, SCRIPT, (), (table,)),), (SCRIPT,), (SCRIPT,), (SCRIPT,),
                  Links("records/", "captures/", frozenset({SCRIPT})))


# --- as text -------------------------------------------------------------------------------------

def test_the_page_needs_no_network(folder: Path) -> None:
    """No address but in the plots' library, and a policy that would block one."""
    text = (folder / "report.html").read_text()
    ours = text.replace(page._load_asset("plotly"), "")
    assert len(ours) < 1_000_000
    assert not re.findall(r"(?:src|href)=\"(?!#|data:|tables/)", ours)
    assert "default-src 'none'" in ours


def test_what_was_left_out_is_named_and_counted(folder: Path) -> None:
    """The damaged file, and the repetition that failed with its reason."""
    text = (folder / "report.html").read_text()
    assert "Files left out: 1" in text
    assert re.search(r"<li>[^<]*foreign\.json", text)
    assert "P6 in N2: failed 1 of 4" in text
    assert "72 good of 73 repetitions" in text


def test_the_landing_view_answers_first(folder: Path) -> None:
    """Which policy for whom at what cost stands before claims, figures and tables."""
    text = (folder / "report.html").read_text()
    answers = text[text.index('id="answers"'):text.index('id="claims"')]
    titles = " ".join(re.findall(r"<h3>([^<]+)</h3>", answers))
    assert all(titles.count(name) == 1 for name in ("Voice calls", "Video conferences", "E-mail"))
    assert re.search(r"<strong>P\d+</strong>", answers)
    assert text.index('id="answers"') < text.index('id="claims"') < text.index('id="fig-2"')


def test_every_table_is_there_as_page_latex_csv_and_parquet(folder: Path) -> None:
    """Tables 1 to 9 and the figure's numbers, none of them empty."""
    text = (folder / "report.html").read_text()
    for name in ("figure-2", *(f"table-{number}" for number in range(1, 10)), "bounds", "overview"):
        assert f'id="{name}"' in text
        for ending in ("tex", "csv", "parquet"):
            assert (folder / "tables" / f"{name}.{ending}").stat().st_size > 100
    assert not list(folder.glob("**/*.tmp"))


def test_details_name_records_up_to_a_number() -> None:
    """A cell of a large run links some of its records and counts the others."""
    many = tuple(f"P1-N1-{number:03d}" for number in range(1, 1001))
    table = Table("t", "T", (Column("policy", "Policy"), Column("x", "x")),
                  ((Entry("P1"), Entry(number=Quantity(1.0), records=many)),))
    text = page.render_page(Report("T", "", sections=(Section("s", "S", tables=(table,)),)))
    found = re.search(r'id="details">(.*?)</script>', text)
    assert found is not None
    data = json.loads(found[1])
    assert data["cells"][0]["records"] == {"set": 0, "count": 1000}
    assert data["sets"] == [list(many[:24])]


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="needs LaTeX (./qop test installs it)")
@pytest.mark.parametrize("which", ["folder", "paper"])
def test_all_tables_compile(which: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """The whole document becomes a PDF, with nothing that sticks out of the page."""
    shutil.copytree(request.getfixturevalue(which) / "tables", tmp_path / "tables")
    assert problems(tmp_path / "tables") == []
