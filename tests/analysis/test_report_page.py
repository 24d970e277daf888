"""Tests of the report as a page: in headless Chromium, by the rules of accessibility, as text.

The reports of the three sample runs (docs/samples/) are those that readers see. A made-up folder
has what these lack: a failed repetition and a damaged file.
"""

from __future__ import annotations

import gzip
import itertools
import json
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

import chromium
import sample_site
from analysis.claims import Verdict
from analysis.present import page, plotly_bundle
from analysis.present.code_names import CodeNames, is_code, name_codes
from analysis.present.page import save_report
from analysis.present.report import RecordLinks, Report, ReportFactor, Section
from analysis.table import Column, Entry, Quantity, Table
from campus_runs import write_campus
from fabricated import STUDY, failed, load, paper_run, write_all
from pdflatex import problems
from sample_site import SAMPLES
from studies.qop2007.report import assembly

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
    save_report(assembly.build_paper_report(), out)
    return out


def folder_of(which: str, request: pytest.FixtureRequest) -> Path:
    """The folder of a sample's page, or of one that a fixture makes."""
    return sample_site.report(which) if which in SAMPLES else request.getfixturevalue(which)


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
        "return [...document.querySelectorAll('.plot')].filter(p => p.clientWidth)"
        ".every(p => p.querySelector('.main-svg'))"))
    return browser


def unfold(browser: Any) -> None:
    """Open all that is folded, and wait for its plots."""
    from selenium.webdriver.support.ui import WebDriverWait
    browser.execute_script("const all = document.getElementById('unfold');"
                           "if (all.getAttribute('aria-pressed') === 'false') all.click()")
    WebDriverWait(browser, 30).until(lambda it: it.execute_script(
        "return [...document.querySelectorAll('.plot')].every(p => p.querySelector('.main-svg'))"))


def fits_within(browser: Any, width: int) -> None:
    """Wait until nothing is wider: what was widened draws its figures once more. Raises."""
    from selenium.webdriver.support.ui import WebDriverWait
    wide = "return document.documentElement.scrollWidth"
    WebDriverWait(browser, 10).until(lambda it: it.execute_script(wide) <= width,
                                     f"wider than {width} pixels")


# --- in a browser --------------------------------------------------------------------------------

@dataclass(frozen=True)
class Look:
    """How a page is looked at: which one, the screen's width in pixels, and whether in the dark."""

    which: str
    width: int = 1280
    dark: bool = False

    def __str__(self) -> str:
        return f"{self.which}-{self.width}-{'dark' if self.dark else 'light'}"


#: A phone is dark, so that each sample is opened twice only.
OF_SAMPLES = [Look(which, *look) for which in SAMPLES for look in ((1280, False), (390, True))]
OF_RUNS = [Look("folder"), Look("folder", dark=True), *OF_SAMPLES]


@pytest.fixture(scope="module", params=[*OF_RUNS, Look("paper")], ids=str)
def looked_at(browser: Any, request: pytest.FixtureRequest) -> tuple[Any, Look]:
    """A page as it is looked at, opened once for all tests of how it looks."""
    look = request.param
    it = opened(browser, folder_of(look.which, request), look.width, dark=look.dark)
    fits_within(it, look.width)
    return it, look


def page_height(browser: Any) -> int:
    """How long the page is, in pixels."""
    height: int = browser.execute_script("return document.documentElement.scrollHeight")
    return height


@pytest.mark.slow
@chromium.needed
def test_opens_without_errors(looked_at: tuple[Any, Look]) -> None:
    """Nothing on the console, every plot drawn, every request answered by the file itself.

    A run's page has at most 15 screens of 1280 x 900, or of 390 x 844, until it is unfolded. It
    never scrolls sideways, and a phone's tables say that they do.
    """
    it, look = looked_at
    assert it.get_log("browser") == []
    short = page_height(it)
    assert short <= 15 * (844 if look.width < 600 else 900)
    says = it.execute_script("return [...document.querySelectorAll("
                             "'#short .scroll, #waits .scroll')].map("
                             "e => getComputedStyle(e, '::before').content)")
    assert {"scrolls" in said for said in says} == {look.width < 600} or look.which == "paper"
    unfold(it)
    fits_within(it, look.width)
    assert page_height(it) > 2 * short
    assert it.get_log("browser") == []
    plots = it.execute_script("return document.querySelectorAll('.plot .main-svg').length")
    assert plots >= (4 if look.which == "paper" else 8)
    assert it.execute_script("return document.documentElement.dataset.theme") == (
        "dark" if look.dark else "light")
    assert it.execute_script("return performance.getEntriesByType('resource').filter("
                             "e => !e.name.startsWith('data:')).map(e => e.name)") == []


@pytest.mark.slow
@chromium.needed
@pytest.mark.parametrize("looked_at", OF_RUNS, ids=str, indirect=True)
def test_accessibility(looked_at: tuple[Any, Look]) -> None:
    """No finding by axe; in the dark, of contrast, as no other rule looks at colours.

    All is unfolded, as axe skips what is not shown. The runs' pages stand for the paper's, too:
    they have all that there is on that one, and more.
    """
    it, look = looked_at
    unfold(it)
    rules, violations = chromium.run_axe(it, colours_only=look.dark)
    assert rules > (0 if look.dark else 20)
    assert violations == []


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
@pytest.mark.parametrize("width", [360, 768, 1280])
def test_no_name_in_a_figure_covers_another(browser: Any, folder: Path, width: int) -> None:
    """The names of the policies beside their points in Fig. 2."""
    it = opened(browser, folder, width)
    boxes = it.execute_script(
        "return [...document.querySelectorAll('#fig-2 .panel')].map(panel => [...panel"
        ".querySelectorAll('text.annotation-text')].map(e => { const b = e.getBoundingClientRect();"
        "return [e.textContent, b.left, b.right, b.top, b.bottom]; }))")
    assert [len(panel) for panel in boxes] == [12, 12]
    overlapping = [(a[0], b[0]) for panel in boxes for a, b in itertools.combinations(panel, 2)
                   if min(a[2], b[2]) > max(a[1], b[1]) and min(a[4], b[4]) > max(a[3], b[3])]
    assert overlapping == []


@pytest.mark.slow
@chromium.needed
def test_the_reader_filters_by_policy_and_scenario(browser: Any, folder: Path) -> None:
    """Rows, points and panels of other levels go, and the page's address keeps the choice."""
    it = opened(browser, folder)
    unfold(it)
    seen = """
        const texts = (within, selector) => [...within.querySelectorAll(selector)].filter(
            e => e.getBoundingClientRect().width).map(e => e.textContent.trim());
        return {rows: texts(document, '#short tbody th'),
            names: [...document.querySelectorAll('#fig-2 .panel')].map(
                panel => texts(panel, 'text.annotation-text').join()),
            count: document.getElementById('filter-count').textContent, address: location.hash}"""
    assert len(it.execute_script(seen)["rows"]) == 12
    it.execute_script("""
        document.querySelector('#filter').open = true;
        document.querySelector('[data-choose="0"][data-to="none"]').click();
        for (const chip of document.querySelectorAll('.chip'))
            if (/^(P3|P12) /.test(chip.textContent.trim() + ' ')) chip.click();""")
    found = it.execute_script(seen)
    assert found["rows"] == ["P3", "P12"]
    assert {frozenset(names.split(",")) for names in found["names"]} == {frozenset({"P3", "P12"})}
    assert "Policy: 2 of 12" in found["count"] and found["address"] == "#policy=P3,P12"
    it.get("about:blank")
    it.get(f"{(folder / 'report.html').as_uri()}#policy=P3,P12&scenario=N2")
    found = it.execute_script(seen)
    assert found["rows"] == ["P3", "P12"]
    assert "Policy: 2 of 12, Scenario: 1 of 2" in found["count"]


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


def test_skips_do_not_hide_the_answer() -> None:
    """The answer comes first; the box of skips is folded, with one line for each reason."""
    page = sample_site.report("today").joinpath("report.html").read_text()
    assert page.index('id="summary"') < page.index('<details class="notice" >')
    box = page[page.index('<details class="notice" >'):].partition("</details>")[0]
    assert "Read this first: 1 reason of skipped repetitions, " in box
    [line] = re.findall("<li>(M17.*?)</li>", box)
    assert line.startswith("M17 (WPA3-Enterprise-ML-KEM) in all 3 scenarios and M18 ")
    assert line.endswith("add --release trixie.")


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
                  RecordLinks("records/", "captures/", frozenset({SCRIPT})))


# --- as text -------------------------------------------------------------------------------------

@pytest.mark.parametrize("which", ["folder", *SAMPLES])
def test_the_page_needs_no_network(which: str, request: pytest.FixtureRequest) -> None:
    """At most 2 MB. No address but in the plots' library, and a policy that would block one."""
    text = (folder_of(which, request) / "report.html").read_text()
    ours = text.replace(page._load_plotly(), "")
    assert len(text.encode()) < 2_000_000
    assert not re.findall(r"(?:src|href)=\"(?!#|data:|tables/)", ours)
    assert "default-src 'none'" in ours


def test_what_was_left_out_is_named_and_counted(folder: Path) -> None:
    """The damaged file, and the repetition that failed with its reason."""
    text = (folder / "report.html").read_text()
    assert "Files left out: 1" in text
    assert len(re.findall(r"<li>[^<]*foreign\.json", text)) == 1
    assert "no usable record" not in text
    assert re.search(r"P6 \([^)]+\) in N2[^:]*: failed 1 of 4", text)
    assert "72 good of 73 repetitions" in text


def test_failures_come_first(folder: Path) -> None:
    """The failed repetition before the answer, and refuted claims before confirmed ones."""
    text = (folder / "report.html").read_text()
    failure = re.search(r"<li>P6 \([^)]+\) in N2[^:]*: failed 1 of 4", text)
    assert failure is not None and failure.start() < text.index('id="summary"')
    words = re.findall(r"<summary><h3>\d+ (refuted|undecided|confirmed)</h3>", text)
    assert words == sorted(words, key=["refuted", "undecided", "confirmed"].index)
    assert words[0] == "refuted"


@pytest.mark.parametrize("which", ["folder", "paper"])
def test_the_first_screen_answers_by_the_weights_of_2007(
        which: str, request: pytest.FixtureRequest) -> None:
    """A code has its name, the broken ciphers stand beside, with the way to today's policies."""
    text = (request.getfixturevalue(which) / "report.html").read_text()
    short = text[text.index('id="summary"'):text.index('id="answers"')]
    assert "P12 (8021x-EAP-TLS-WEP-128-IPsec-3DES-SHA), by the weights of 2007." in short
    assert "WEP and 3DES, which the weights of 2007 still count, are broken today" in short
    assert "A policy that protects data by WEP alone is never recommended." in short
    assert "run\N{NO-BREAK SPACE}today" in short
    known = set(re.findall(r"\b(P\d+|N\d|R\d) \(", short))
    assert known == set(re.findall(r"\b(?:P\d+|N\d|R\d)\b", short))


@pytest.mark.parametrize(("level", "title", "expected"), [
    ("P8", "a policy", True), ("M8-okc", "a policy", True), ("net-80ms", "a scenario", True),
    ("office-ft", "a policy", True), ("NFS", "a trace", True), ("near", "a server", False),
    ("1.2", "TLS", False), ("1987", "a year", False), ("P8", "", False), ("P8", "P8", False),
    ("no-policy", "no policy", False)])
def test_is_code_tells_ids_from_words(level: str, title: str, *, expected: bool) -> None:
    """A word or a number of ordinary text would get a name where it is not that level."""
    assert is_code(level, title) is expected


def test_code_names_are_not_those_of_parts_of_an_id() -> None:
    """An id in a longer one is no use of its own; names of words only go where they repeat."""
    names = CodeNames({"ND": "disk", "ND+NFS": "both", "M8": "FT", "M8-okc": "OKC"},
                      {"near": "a near server"})
    assert names.insert_names("ND+NFS, M8-okc and M8") == "ND+NFS (both), M8-okc (OKC) and M8 (FT)"
    assert names.insert_names("M8-okc, near (a near server), M8 (FT), near (a near server)") == (
        "M8-okc, near (a near server), M8, near")


def test_name_codes_adds_the_names_that_no_row_has() -> None:
    """A row with the name needs no note; headings of sections and columns have codes, too."""
    factors = (ReportFactor("policy", "Policy", {"M4": "PEAP", "M5": "EAP-TLS", "M8": "FT"}),
               ReportFactor("scenario", "Scenario", {"N2": "at home", "near": "a near server"}))
    table = Table("t", "T", (Column("policy", "policy"), Column("name", "name"),
                             Column("cost", "cost of N2")),
                  ((Entry("M4"), Entry("PEAP"), Entry("1")), (Entry("M5"), Entry(""), Entry("2"))))
    assert name_codes(table, factors).notes == ("Names: M5 EAP-TLS; N2 at home.",)
    assert name_codes(replace(table, sections=((0, "M8"),)), factors).notes == (
        "Names: M5 EAP-TLS; M8 FT; N2 at home.",)
    assert name_codes(table, ()) is table


def test_figures_have_the_names_of_their_codes(tmp_path: Path) -> None:
    """Below its plots, each figure names the codes of its legend and axes."""
    save_report(STUDY.report(load(write_campus(tmp_path, 7)), {}), tmp_path)
    text = (tmp_path / "report.html").read_text()
    figure = text[text.index('id="fig-2"'):].partition("</details>")[0]
    assert "<b>M13</b> EAP-TLS-1.2" in figure


def test_codes_with_hyphens_have_their_names(tmp_path: Path) -> None:
    """Policies and scenarios of any id: in the sentences, and below the cards with many codes."""
    save_report(STUDY.report(load(write_campus(tmp_path, 7)), {}), tmp_path)
    text = (tmp_path / "report.html").read_text()
    short = text[text.index('id="summary"'):text.index('id="waits"')]
    codes = set(re.findall(r"(?<![\w-])(?:M\d+|campus)(?:-\w+)?", re.sub(r"\([^)]*\)", "", short)))
    assert {"M8-okc", "M4", "campus-80ms"} <= codes
    assert codes == set(re.findall(r"([\w-]+) \(", short)) & codes
    assert "campus-80ms (roaming on a floor, RADIUS server 80 ms of round trip away)" in short
    waits = text[text.index('id="waits"'):text.index('id="answers"')]
    assert "<b>campus-20ms</b> roaming on a floor, RADIUS server 20 ms of round trip" in waits
    assert "<b>M4</b>" not in waits  # its name is in its row
    cards = text[text.index('id="answers"'):].split("</section>")[0]
    assert "<b>campus-0ms</b> roaming on a floor, RADIUS server in the building" in cards


@pytest.mark.slow
@chromium.needed
def test_the_plotting_library_has_only_what_figures_use(browser: Any) -> None:
    """A quarter of the whole, which draws points and bars, and nothing on a map."""
    bundle = plotly_bundle.make_bundle()
    assert len(bundle) < 1_300_000
    browser.get("about:blank")
    kinds = browser.execute_script(
        bundle + ";document.body.innerHTML = '<div id=plot></div>';"
        "Plotly.newPlot('plot', [{type: 'scatter', y: [1, 2]}, {type: 'bar', y: [1, 2]},"
        "{type: 'scattermap', lat: [0], lon: [0]}]);"
        "return document.getElementById('plot')._fullData.map(trace => trace.type)")
    assert kinds[:2] == ["scatter", "bar"] and "scattermap" not in kinds


def test_a_packed_bundle_is_kept_until_it_is_damaged(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process cuts plotly's script only if the cache has no complete file of it."""
    made = list[int]()
    monkeypatch.setattr(plotly_bundle, "make_bundle",
                        lambda: (made.append(0), f"script {len(made)}")[1])
    cache = tmp_path / "cache/plotly"
    for damage, count, text in ((None, 1, "script 1"), (None, 1, "script 1"),
                                (bytes(40), 2, "script 2"), (b"", 3, "script 3"),
                                (None, 3, "script 3")):
        for file in cache.glob("*") if damage is not None else ():
            file.write_bytes(damage)
        assert gzip.decompress(plotly_bundle.pack_bundle(cache)).decode() == text
        [file] = cache.iterdir()
        assert metadata.version("plotly") in file.name
        assert len(made) == count


def test_a_cache_that_is_no_folder_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert plotly_bundle.pack_bundle(tmp_path / "file/plotly") == plotly_bundle.pack_bundle()


def test_the_landing_view_answers_first(folder: Path) -> None:
    """The recommended policy by application stands before claims, figures and tables."""
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
