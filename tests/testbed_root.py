"""The files of a testbed as a folder, with a manager of cards: the root of machines with radios."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import shared
from bench.cards import PACKAGES
from guest import image, root


def unpack_testbed() -> Path:
    """Return the files of a testbed, unpacked once in a test run."""

    def make() -> Path:
        packed = image.ensure_image(packages=PACKAGES).root
        folder = shared.folder("testbed-root")
        # Without a regulatory database. The kernel reads it whenever its worker gets to that, and
        # so the rules may change amid a test.
        subprocess.run(["sh", "-c", 'sqfs2tar "$1" | tar -x -C "$2" --exclude="*/regulatory.db*"',
                        "sh", packed, folder], check=True)
        return folder

    system = shared.once("testbed-files", make)
    if not (system / f"usr/bin/python{sys.version_info[0]}.{sys.version_info[1]}").exists():
        pytest.skip(f"{root.SUITE} has another Python than this environment")
    return system


def assert_refused(case: Path, text: str) -> None:
    """A command ended with status 1 and one line with this text, and the cards are as before.

    The case's folder has files with the command's errors and status, and the cards' states.
    """
    errors, before, after, status = (
        (case / name).read_text() for name in ("errors", "before", "after", "status"))
    assert text in errors and errors.startswith("qop: "), errors
    assert (errors.count("\n"), status, after) == (1, "1\n", before), case.name
