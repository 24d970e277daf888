"""What the documentation says, done: every page, in guests where it measures."""

from __future__ import annotations

import json
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

import doc_commands
import rendering
from doc_commands import CHECKOUT, SHELLS
from doc_reader import Reader

PAGES = doc_commands.pages()


@pytest.mark.guest
@pytest.mark.parametrize("page", [page for page in PAGES if doc_commands.commands(page)
                                  or doc_commands.commands(page, "terminal")])
def test_a_page_does_what_it_says(page: str, tmp_path: Path) -> None:
    """Every command of a page, in its order, in a fresh copy of the checkout."""
    reader = Reader(tmp_path)
    for block in doc_commands.blocks(page):
        if block.language not in SHELLS:
            if block.file:
                reader.save(block)
        elif block.surrounding in {CHECKOUT, "terminal"}:
            for command in block.commands():
                reader.type(command, b"exit\r" if block.surrounding == "terminal" else b"")
    assert reader.left_over() == []


@pytest.mark.guest
def test_more_machines(tmp_path: Path) -> None:
    """The cluster's commands: those that lend a machine stay on while the others measure."""
    reader = Reader(tmp_path)
    with ExitStack() as lent:
        for command in doc_commands.commands("docs/cluster.md", "cluster"):
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
