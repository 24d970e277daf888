"""What the documentation tells its readers to type, for the tests that execute it.

A fence says by its info string what it holds:

    ```sh                      commands; they run as they stand, in a fresh copy of the checkout
    ```sh SURROUNDING          commands that need another surrounding (see tests/docs/test_docs.py)
    ```console                 commands after "$ ", each followed by what it prints
    ```console status=1        the same; the last command ends with this status
    ```yaml FILE.yml           (any other language) this text, to be saved as FILE.yml

A test of a surrounding proves that the documents are right by running `commands(page, SURROUNDING)`
for every page that has some (`pages_with`), and by comparing what it sees with `Command.missing`.
"""

from __future__ import annotations

import functools
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from markdown_it import MarkdownIt

PROJECT = Path(__file__).parent.parent
#: Where everything runs that names no surrounding of its own.
CHECKOUT = "checkout"
SHELLS = ("sh", "console")
_PARSER = MarkdownIt("commonmark").enable("table")
_NUMBER = re.compile(r"[-+±(~]*\d[\d.,:-]*[)%,;:.]*")
_RULE = re.compile(r"[─━┄│┃╵╷]+|[=-]{2,}")


@dataclass(frozen=True)
class Command:
    """One command of a page: its text, and what the page shows of its output and exit status."""

    page: str
    line: int
    text: str
    shown: tuple[str, ...] = ()
    status: int = 0

    def __str__(self) -> str:
        return f"{self.page}:{self.line}: {self.text}"

    def missing(self, output: str) -> str | None:
        """The first shown line that the output does not have, in this order; None if all are there.

        Numbers may be others; `…` in a word stands for any rest of it, alone for any words.
        """
        lines = iter(" ".join(line.split()) for line in output.splitlines())
        for shown in self.shown:
            pattern = _pattern(shown)
            if shown.strip() and not any(pattern.fullmatch(line) for line in lines):
                return shown
        return None


@dataclass(frozen=True)
class Block:
    """One fence of a page; `line` is that of its first line of text."""

    page: str
    line: int
    language: str
    words: tuple[str, ...]
    text: str

    @property
    def surrounding(self) -> str:
        """Where its commands can run."""
        names = [word for word in self.words if "=" not in word]
        return names[0] if names else CHECKOUT

    @property
    def status(self) -> int:
        """With what its last command ends."""
        return int(next((word.removeprefix("status=") for word in self.words
                         if word.startswith("status=")), "0"))

    @property
    def file(self) -> str | None:
        """The file that a reader is told to save it as."""
        return self.words[0] if self.words and self.language not in SHELLS else None

    def commands(self) -> Iterator[Command]:
        """Its commands; a comment is none, one that goes on in the next line is one."""
        found = list(_spoken(self) if self.language == "console" else _written(self))
        for number, (line, text, shown) in enumerate(found, 1):
            yield Command(self.page, line, text, shown,
                          self.status if number == len(found) else 0)


def pages() -> list[str]:
    """Every page of the documentation, by its path in the project."""
    names = ["README.md", "CONTRIBUTING.md"]
    return [*names, *sorted(f"docs/{path.name}" for path in (PROJECT / "docs").glob("*.md"))]


@functools.cache
def parse(page: str) -> list:
    """A page as markdown-it's tokens."""
    return _PARSER.parse((PROJECT / page).read_text(encoding="utf-8"))


def blocks(page: str) -> list[Block]:
    """The fences of a page, in order."""
    found = []
    for token in parse(page):
        if token.type == "fence":
            language, *words = token.info.split() or [""]
            found.append(Block(page, token.map[0] + 2, language, tuple(words), token.content))
    return found


def commands(page: str, surrounding: str = CHECKOUT) -> list[Command]:
    """The commands of a page that belong to a surrounding, in order."""
    return [command for block in blocks(page)
            if block.language in SHELLS and block.surrounding == surrounding
            for command in block.commands()]


def pages_with(*surroundings: str) -> list[str]:
    """The pages that have commands of a surrounding, or of one of several."""
    return [page for page in pages() if any(
        block.language in SHELLS and block.surrounding in surroundings and block.text.strip()
        for block in blocks(page))]


def _written(block: Block) -> Iterator[tuple[int, str, tuple[str, ...]]]:
    """Commands as in a script: as many lines as bash wants to have before it understands them."""
    begun, lines = 0, []
    for number, line in enumerate(block.text.splitlines(), block.line):
        if not lines and (not line.strip() or line.lstrip().startswith("#")):
            continue
        begun = begun if lines else number
        lines.append(line)
        if _is_whole("\n".join(lines)):
            yield begun, "\n".join(lines), ()
            lines = []
    assert not lines, f"{block.page}:{begun}: this command has no end"


def _spoken(block: Block) -> Iterator[tuple[int, str, tuple[str, ...]]]:
    """Commands as in a terminal, each with what follows it."""
    found: list[tuple[int, str, list[str]]] = []
    for number, line in enumerate(block.text.splitlines(), block.line):
        if line.startswith("$ "):
            found.append((number, line[2:], []))
        elif found and not found[-1][2] and not _is_whole(found[-1][1]):
            found[-1] = (found[-1][0], f"{found[-1][1]}\n{line}", [])
        else:
            assert found, f"{block.page}:{number}: output without a command ('$ ...') before it"
            found[-1][2].append(line)
    for number, text, shown in found:
        yield number, text, tuple(shown)


def _is_whole(text: str) -> bool:
    done = subprocess.run(["bash", "-n", "-c", text], capture_output=True, text=True, check=False)
    return done.returncode == 0 and not done.stderr and not text.endswith("\\")


def _pattern(shown: str) -> re.Pattern[str]:
    return re.compile(" ".join(_word(word) for word in shown.split()))


def _word(word: str) -> str:
    if word in ("…", "..."):
        return ".*"
    if _NUMBER.fullmatch(word):
        return r"\S*\d\S*"
    if _RULE.fullmatch(word):
        return r"\S+"
    return r"\S*".join(map(re.escape, word.split("…")))
