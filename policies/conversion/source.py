"""Read the configuration file of another program as text, with line numbers.

`read_source` takes a path, and returns a `Source`, the input of all converters to policies. A
`Setting` is a name and a value with its line, a `Section` a group of settings. No message shows a
line of such a file, because any line may have a passphrase or a private key.
"""

from __future__ import annotations

import codecs
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from documents.yaml_reader import YamlRules, file_problem
from policies.errors import PolicyError

#: Bytes of a configuration file. hostapd's own sample has 150 kB.
SIZE_LIMIT = 1024 * 1024
#: Name of standard input on the command line, and in messages.
STANDARD_INPUT, _INPUT_TITLE = "-", "standard input"

_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


@dataclass(frozen=True)
class Source:
    """The text of a configuration file. Line numbers begin with 1."""

    file: str
    text: str

    @property
    def file_name(self) -> str:
        """Return the configuration file's name without its folder."""
        return Path(self.file).name

    def numbered_lines(self) -> Iterator[tuple[int, str]]:
        """Yield each line of the configuration file with its number, without its line end."""
        yield from enumerate(self.text.split("\n"), 1)

    def make_error(self, line: int, what: str, advice: str) -> PolicyError:
        """Return an error that names a line of the configuration file."""
        return PolicyError(self.file, line, what, advice)


@dataclass(frozen=True)
class Setting:
    """A setting of a configuration file.

    `label` is what messages call it: its key, with the sections around it.
    """

    line: int
    key: str
    value: str
    section: str = ""

    @property
    def full_key(self) -> str:
        """Return the setting's key with the names of the sections around it."""
        return f"{self.section}{self.key}"

    @property
    def value_words(self) -> list[str]:
        """Return the words of the setting's value, without quotes.

        Commas and semicolons separate words, too.
        """
        return [word for word in re.split(r"[\s,;]+", strip_quotes(self.value)) if word]


@dataclass(frozen=True)
class Section:
    """A section of a configuration file: a network, a connection or an interface."""

    line: int
    name: str
    settings: Sequence[Setting]


def strip_quotes(value: str) -> str:
    """Return a value without the quotes around it."""
    if len(value) >= 2 and value[0] == value[-1] and value[0] in "\"'":
        return value[1:-1]
    return value


def read_source(file: str) -> Source:
    """Read a configuration file.

    `-` means standard input.

    Raises:
        PolicyError: It is no text file, or too large.
    """
    name = _INPUT_TITLE if file == STANDARD_INPUT else file
    blank = Source(name, "")
    if file == STANDARD_INPUT:
        raw = sys.stdin.buffer.read(SIZE_LIMIT + 1)
    else:
        problem = file_problem(file, YamlRules("configuration", SIZE_LIMIT))
        if problem:
            raise blank.make_error(1, *problem)
        try:
            raw = Path(file).read_bytes()
        except OSError as error:
            raise blank.make_error(1, f"cannot be read ({(error.strerror or str(error)).lower()})",
                                   "check permissions") from None
    return Source(name, decode_text(raw, blank))


def decode_text(raw: bytes, blank: Source) -> str:
    """Return the bytes of a configuration file as text.

    Names that are not UTF-8 become question marks.

    Args:
        raw: The content.
        blank: The file, for its errors.

    Raises:
        PolicyError: The content is no text, or too large.
    """
    if len(raw) > SIZE_LIMIT:
        raise blank.make_error(1, f"more than {SIZE_LIMIT} bytes are too many",
                               "name a configuration file")
    if raw.startswith(_UTF16):
        raise blank.make_error(1, "this is UTF-16 text", "save the file as UTF-8")
    nul = raw.find(b"\0")
    if nul >= 0:
        raise blank.make_error(raw.count(b"\n", 0, nul) + 1, "this is a binary file (NUL byte)",
                               "name a configuration file")
    text = raw.removeprefix(codecs.BOM_UTF8).decode("utf-8", errors="replace")
    return text.replace("\r\n", "\n").replace("\r", "\n")
