"""`qop site`: build the documentation as a web site, with sample reports.

Input are the pages in docs/ and the archives in docs/samples/, from which sample reports are made.
Results folders can be added. The result is a folder with static HTML pages and a search.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

import click

from harness.errors import UserError


@click.command("site")
@click.option("--out", type=click.Path(path_type=Path), default=Path("site"),
              help="Write the site here, and replace an earlier one (default: site).")
@click.option("--samples", "folders", metavar="FOLDER...", multiple=True,
              type=click.Path(path_type=Path),
              help="Add a full report of each results folder or archive, under its name (default: "
              "only the samples that come with qop).")
@click.argument("more_folders", nargs=-1, metavar="", type=click.Path(path_type=Path))
def build_documentation(out: Path, folders: tuple[Path, ...],
                        more_folders: tuple[Path, ...]) -> None:
    """Build the documentation as a static site with search.

    Any browser opens it from the disk, and any web server can publish it. It loads nothing from
    elsewhere.
    """
    if more_folders and not folders:
        folder = more_folders[0]
        raise UserError(f"site: {folder} belongs to no option; give --samples {folder}")
    if importlib.util.find_spec("sphinx") is None:
        raise UserError("site: sphinx is missing; start it as './qop site', which installs it")
    from harness.site.build import build_site

    samples = build_site(out, [*folders, *more_folders])
    click.echo(f"Site: {out / 'index.html'}")
    for sample in samples:
        click.echo(f"Sample: {out / sample.report_path}")


command = build_documentation
