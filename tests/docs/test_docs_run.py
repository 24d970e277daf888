"""What the documentation says, done: every page, in guests where it measures."""

from __future__ import annotations

import json
import shutil
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

import doc_commands
import rendering
import shared
from doc_commands import CHECKOUT, SHELLS, Command
from doc_reader import Reader

PAGES = doc_commands.pages()
TUTORIAL = "docs/first-study.md"
#: Where several pages look at the same run: the first one measures, the others go on from there.
EXAMPLE = Path("results/example")


@pytest.mark.guest
@pytest.mark.shareable
@pytest.mark.parametrize("page", doc_commands.pages_with(CHECKOUT, "terminal"))
def test_a_page_does_what_it_says(page: str, tmp_path: Path) -> None:
    """Every command of a page, in its order, in a fresh copy of the checkout."""
    reader = Reader(tmp_path)
    if measuring := list(filter(measures_example, doc_commands.commands(page))):
        shutil.copytree(example(measuring[0]), reader.folder / EXAMPLE)
    for block in doc_commands.blocks(page):
        if block.language not in SHELLS:
            if block.file:
                reader.save(block)
        elif block.surrounding in {CHECKOUT, "terminal"}:
            for command in block.commands():
                reader.type(command, b"exit\r" if block.surrounding == "terminal" else b"")
    assert reader.left_over() == []


def measures_example(command: Command) -> bool:
    """Whether this is the run that several pages look at."""
    return "qop run " in command.text and command.text.endswith(f" --out {EXAMPLE}")


def example(command: Command) -> Path:
    """The folder of that run, measured by whoever is first; no page has another command for it."""
    folder = shared.once("example", lambda: measured(command))
    said = {each.text for page in PAGES for each in filter(
        measures_example, doc_commands.commands(page))}
    assert said == {command.text}
    return folder


def measured(command: Command) -> Path:
    """The example's folder after its command was given in a fresh copy of the checkout."""
    reader = Reader(shared.folder("example-run"))
    reader.type(command)
    return reader.folder / EXAMPLE


@pytest.mark.guest
@pytest.mark.shareable
def test_more_machines(tmp_path: Path) -> None:
    """The cluster's commands: those that lend a machine stay on while the others measure.

    Among what is measured is the tutorial's study, which workers know by its folder alone.
    """
    reader = Reader(tmp_path)
    for block in doc_commands.blocks(TUTORIAL):
        if block.file:
            reader.save(block)
    with ExitStack() as lent:
        for command in (command for page in ("docs/cluster.md", TUTORIAL)
                        for command in doc_commands.commands(page, "cluster")):
            if " worker " in command.text:
                lent.enter_context(reader.staying(command))
            else:
                reader.type(command)
    assert reader.left_over() == []


def test_rendering_by_hand(tmp_path: Path) -> None:
    """The playbook's command line, with an inventory and variables as the page describes them."""
    reader = Reader(tmp_path)
    job = rendering.Job({"link": None, "dot1x": None, "ipsec": None}, tmp_path / "conf",
                        tmp_path / "pki")
    (reader.folder / "inventory.json").write_text(json.dumps(rendering.inventory([job])))
    (reader.folder / "vars.json").write_text(json.dumps({"qop": job.qop()}))
    for command in doc_commands.commands("docs/ansible.md", "rendering"):
        reader.type(replace(command, text=f"PATH={rendering.PLAYBOOK.parent}:$PATH {command.text}"))
    assert (tmp_path / "conf").is_dir() and list((tmp_path / "conf").iterdir())
