"""Build qop's documentation site with Sphinx, from README.md and the pages in docs/.

`build_site` writes static HTML pages to a folder, with the sample reports (`harness.site.samples`).
The Markdown pages stay as they are. What a site needs in addition is given to Sphinx while it reads
them: the navigation, which follows docs/README.md, and the list of sample reports.
"""

from __future__ import annotations

import io
import re
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.util.console import nocolor

from harness.engine.machine import ROOT
from harness.errors import UserError
from harness.site.samples import FOLDER, SHIPPED, Sample, make_samples

START, INDEX, SAMPLES = "README", "docs/README", "docs/samples"
#: Pages of the project besides those of docs/.
OTHER_PAGES = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")
#: A file by which a folder is known to be a site.
MARK = "searchindex.js"
SETTINGS = {
    "project": "qop",
    "root_doc": START,
    "extensions": ["myst_parser"],
    "include_patterns": [*OTHER_PAGES, "docs/*.md", "studies/*/README.md"],
    "html_theme": "furo",
    "html_title": "qop",
    "html_copy_source": False,
    "html_show_sourcelink": False,
    "html_use_index": False,
    "html_show_sphinx": False,
    "html_show_copyright": False,
    # Only anchors of headings as GitHub makes them: the pages link those.
    "myst_heading_anchors": 4,
    # Pages begin with the title, but CHANGELOG.md and some tables skip a level of headings.
    "suppress_warnings": ["myst.header"],
    "highlight_language": "text",
}
#: What pages of Sphinx and furo lack for readers with a screen reader or without a mouse.
ACCESSIBILITY = {
    '<p class="caption" role="heading">': '<p class="caption" role="heading" aria-level="2">',
    '<aside class="sidebar-drawer">': '<aside class="sidebar-drawer" aria-label="Pages">',
    '<aside class="toc-drawer': '<aside aria-label="This page" class="toc-drawer',
    "<pre>": '<pre tabindex="0">',
    '<div class="table-wrapper': '<div tabindex="0" class="table-wrapper',
    '<div id="search-results">': '<h1>Search</h1><div id="search-results">',
}
_LINK = re.compile(r"\]\(([^)#]+\.md)[^)]*\)")
_SECTION = re.compile(r"^## (.+)$", re.MULTILINE)
_SAMPLES_MARK = "<!-- samples -->"


def build_site(out: Path, folders: Sequence[Path]) -> list[Sample]:
    """Build the site, and replace an earlier one.

    Args:
        out: The folder of the site.
        folders: The results folders to make further sample reports from.

    Returns:
        The samples.

    Raises:
        UserError: `out` is something else, a sample cannot be made, or a page has an error.
    """
    if out.is_file() or (out.is_dir() and any(out.iterdir()) and not (out / MARK).is_file()):
        raise UserError(f"--out {out}: this is no documentation site; give a new or empty folder")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".qop-site-",
                                         dir=out.parent.resolve()) as temporary:
            folder = Path(temporary) / "site"
            samples = make_samples([*SHIPPED, *folders], folder)
            run_sphinx(ROOT, folder, Path(temporary) / "doctrees", samples)
            if out.exists():
                shutil.rmtree(out)
            folder.chmod(0o755)
            folder.rename(out)
    except OSError as error:
        raise UserError(f"{error.filename or out}: the site cannot be written ({error.strerror}); "
                        "give another folder by --out") from None
    return samples


def run_sphinx(project: Path, out: Path, doctrees: Path, samples: Sequence[Sample]) -> None:
    """Convert the pages of a project to HTML.

    Args:
        project: The folder with README.md and docs/.
        out: The folder for the HTML files.
        doctrees: A folder for Sphinx's intermediate files.
        samples: The sample reports that pages link.

    Raises:
        UserError: Sphinx warns of something, such as a link without target.
    """
    warnings = io.StringIO()
    nocolor()
    sphinx = Sphinx(project, None, out, doctrees, "html", confoverrides=dict(SETTINGS),
                    status=None, warning=warnings)

    def complete_page(_: Sphinx, page: str, source: list[str]) -> None:
        """Add to a page's text the parts that only the web site has."""
        source[0] = source[0].replace(_SAMPLES_MARK, list_samples(samples, page))
        if page == START:
            index = (project / f"{INDEX}.md").read_text("utf-8")
            source[0] += "\n" + "\n".join(format_navigation(index))

    sphinx.connect("source-read", complete_page)
    sphinx.build()
    if lines := warnings.getvalue().strip().splitlines():
        more = f" (and {len(lines) - 1} more)" if len(lines) > 1 else ""
        raise UserError(f"site: {lines[0].strip()}{more}; correct the page", status=1)
    complete_html(out)
    # Sphinx names the first page after its source, and web servers look for this name.
    shutil.copy2(out / f"{START}.html", out / "index.html")


def complete_html(out: Path) -> None:
    """Add the accessibility attributes in ACCESSIBILITY to the HTML pages.

    Sample reports are not changed.
    """
    for page in out.rglob("*.html"):
        if FOLDER not in page.relative_to(out).parts:
            text = page.read_text("utf-8")
            for old, new in ACCESSIBILITY.items():
                text = text.replace(old, new)
            page.write_text(text, "utf-8")


def format_navigation(index: str) -> Iterator[str]:
    """Yield Sphinx's navigation directives, one for each section of docs/README.md.

    Args:
        index: The text of docs/README.md.
    """
    parts = _SECTION.split(index)
    for caption, text in zip(["qop", *parts[1::2]], parts[0::2], strict=True):
        pages = dict.fromkeys(_LINK.findall(text))
        names = [f"docs/{name}" if "/" not in name else name.removeprefix("../") for name in pages]
        if caption == "qop":
            names = ["docs/README.md", *names]
        yield from ("```{toctree}", ":hidden:", f":caption: {caption}", "",
                    *(name.removesuffix(".md") for name in names), "```", "")
    yield from ("```{toctree}", ":hidden:", ":caption: Studies", ":glob:", "", "studies/*/README",
                "```", "")


def list_samples(samples: Sequence[Sample], page: str) -> str:
    """Return the links of a page to the sample reports in Markdown: docs/samples.md has a table."""
    links = [f'<a href="{"../" * page.count("/")}{sample.report_path}">{sample.name}</a>'
             for sample in samples]
    if page != SAMPLES:
        return f"Sample reports: {', '.join(links)}."
    rows = [f"| {link} | {sample.study} | {sample.repetitions} | {sample.day} | {sample.commit} | "
            f"{sample.machine} |" for link, sample in zip(links, samples, strict=True)]
    return "\n".join(["| report | study | repetitions | measured | commit | machine |",
                      "|---|---|--:|---|---|---|", *rows])
