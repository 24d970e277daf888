"""Parse configuration files of other programs into settings with line numbers.

The converters to policies use these parsers. `read_pairs` is for lines KEY=VALUE (hostapd.conf),
`read_blocks` for wpa_supplicant.conf, `read_uci` for OpenWrt, `read_ini` for ini files, and
`read_nested` for strongSwan. Each takes a `Source` (text of a file). configparser of Python would
read ini files, but keeps no line numbers and refuses the repeated `[Peer]` of wg-quick. Each parser
raises a PolicyError with the number of a wrong line, and never shows that line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from policies.conversion.source import Section, Setting, Source

_PAIR_ADVICE = "write KEY=VALUE, or # before a comment"
#: Keys of the daemons. A line of a certificate or key that ends in = has none.
_OPTION = re.compile(r"[a-z][a-z0-9_]{0,39}")


def _split_pair(source: Source, number: int, line: str) -> tuple[str, str]:
    """Return key and value of a configuration line `KEY=VALUE`."""
    key, sign, value = line.partition("=")
    if not sign or not _OPTION.fullmatch(key.strip()) or value.strip() == "=":
        raise source.make_error(number, "this line is no KEY=VALUE", _PAIR_ADVICE)
    return key.strip(), value.strip()


# --- hostapd.conf: lines KEY=VALUE ---

def read_pairs(source: Source) -> list[Setting]:
    """Read a configuration file that consists of lines `KEY=VALUE` and comments."""
    return [Setting(number, *_split_pair(source, number, line))
            for number, line in source.numbered_lines()
            if line.strip() and not line.lstrip().startswith("#")]


# --- wpa_supplicant.conf: lines KEY=VALUE, and blocks of them ---

_BLOCK = re.compile(r"(network|cred|blob-base64-[^=\s]+)\s*=\s*\{")


def read_blocks(source: Source) -> tuple[list[Setting], list[Section]]:
    """Parse wpa_supplicant.conf into settings and blocks.

    Returns:
        The settings outside of blocks, and the blocks with their settings. A blob (a block with a
        certificate or key) has no settings.
    """
    outside: list[Setting] = []
    blocks: list[Section] = []
    settings: list[Setting] | None = None
    for number, raw in source.numbered_lines():
        line = _strip_comment(raw)
        if not line:
            continue
        if settings is not None and line == "}":
            settings = None
        elif settings is not None:
            if not blocks[-1].name.startswith("blob"):
                settings.append(_read_quoted_pair(source, number, line))
        elif found := _BLOCK.match(line):
            if line != found[0]:
                raise source.make_error(number, "settings stand on the line that begins a block",
                                        "write one setting a line, and } on a line of its own")
            settings = []
            blocks.append(Section(number, found[1], settings))
        elif line == "}":
            raise source.make_error(number, "this } closes no block", "remove it")
        else:
            outside.append(_read_quoted_pair(source, number, line))
    if settings is not None:
        raise source.make_error(blocks[-1].line, f"the block {blocks[-1].name.partition('-')[0]}="
                                "{ is not closed", "add a line }")
    return outside, blocks


def _strip_comment(line: str) -> str:
    """Return a line of wpa_supplicant.conf without its comment.

    As the program does, a # behind the last quote begins a comment.
    """
    line = line.strip()
    if line.startswith("#"):
        return ""
    first = line.find('"')
    begin = line.rfind('"') if first >= 0 and line.rfind('"') > first else 0
    end = line.find("#", begin)
    return line if end < 0 else line[:end].rstrip()


def _read_quoted_pair(source: Source, number: int, line: str) -> Setting:
    key, value = _split_pair(source, number, line)
    if value.startswith(('"', 'P"')) and value.count('"') < 2:
        raise source.make_error(number, f"the quotes of {key} are not closed", 'write a second "')
    return Setting(number, key, value)


# --- UCI, OpenWrt's configuration ---

_SHOWN = re.compile(r"\w+\.(?P<section>[^.=]+)(\.(?P<key>\w+))?=(?P<value>.*)", re.DOTALL)


@dataclass
class UciSection:
    """A section of an OpenWrt configuration (UCI), with its type and its name, if it has one."""

    line: int
    type: str
    name: str
    settings: list[Setting] = field(default_factory=list)


def read_uci(source: Source) -> list[UciSection]:
    """Parse an OpenWrt configuration file (UCI), or the output of `uci show`."""
    sections: list[UciSection] = []
    for number, words in _split_uci(source):
        match words:
            case ["package", _]:
                continue
            case ["config", kind] | ["config", kind, _]:
                name = words[2] if len(words) == 3 else ""
                sections.append(UciSection(number, kind, name))
            case ["option" | "list", key, value] if sections and _OPTION.fullmatch(key):
                sections[-1].settings.append(Setting(number, key, value))
            case [text] if found := _SHOWN.fullmatch(text):
                _add_shown(source, number, found, sections)
            case ["option" | "list", *_] if not sections:
                raise source.make_error(number, "this stands before the first section",
                                        "write config wifi-iface above it")
            case _:
                raise source.make_error(number, "this is no line of UCI",
                                        "write config TYPE NAME, or option NAME VALUE")
    return sections


def _add_shown(source: Source, number: int, line: re.Match[str],
               sections: list[UciSection]) -> None:
    """Add the setting or section in a line of `uci show` to the parsed sections."""
    name, key, value = line["section"], line["key"], line["value"]
    if key is None:
        sections.append(UciSection(number, value, name))
        return
    section = next((each for each in sections if each.name == name), None)
    if section is None or not _OPTION.fullmatch(key):
        raise source.make_error(number, "this stands before its section",
                                "add the line that says the section's type")
    section.settings.append(Setting(number, key, value))


def _split_uci(source: Source) -> Iterator[tuple[int, list[str]]]:
    """Yield the words of each statement of an OpenWrt file, with the line where it begins."""
    words: list[str] = []
    begin, number = 1, 1
    text, position = source.text, 0
    while position <= len(text):
        char = text[position:position + 1]
        if char in ("\n", ";", ""):
            if words:
                yield begin, words
            words = []
            number += char == "\n"
            begin = number
            position += 1
        elif char == "#":
            end = text.find("\n", position)
            position = len(text) if end < 0 else end
        elif char.isspace() or text.startswith("\\\n", position):
            number += char == "\\"
            position += 2 if char == "\\" else 1
        else:
            if not words:
                begin = number
            word, end = _read_uci_word(source, position, number)
            number += text.count("\n", position, end)
            words.append(word)
            position = end


def _read_uci_word(source: Source, position: int, number: int) -> tuple[str, int]:
    """Return the word at a position of an OpenWrt file, without quotes, and the word's end."""
    text, word = source.text, ""
    while position < len(text) and not text[position].isspace() and text[position] != ";":
        char = text[position]
        if char in "'\"":
            end = _find_quote(text, position + 1, char)
            if end < 0:
                raise source.make_error(number, "the quotes are not closed",
                                        f"write a second {char}")
            part = text[position + 1:end]
            word += re.sub(r"\\(.)", r"\1", part, flags=re.DOTALL) if char == '"' else part
            position = end + 1
        elif char == "\\":
            word += text[position + 1:position + 2].replace("\n", "")
            position += 2
        else:
            word += char
            position += 1
    return word, min(position, len(text))


def _find_quote(text: str, position: int, quote: str) -> int:
    """Return the position of the closing quote, -1 if there is none."""
    while position < len(text):
        if text[position] == quote:
            return position
        position += 2 if text[position] == "\\" and quote == '"' else 1
    return -1


# --- Ini files: NetworkManager, iwd, wg-quick ---

_HEADER = re.compile(r"\[([^\[\]]+)\]")
#: Prefix of iwd's sections that contain a certificate or key.
_PEM = "@pem@"


#: Keys of NetworkManager, iwd and wg-quick.
LOWER_KEYS = re.compile(r"[a-z][a-z0-9-]{0,47}")
CAPITAL_KEYS = re.compile(r"[A-Z][A-Za-z0-9-]{0,47}")
ANY_LETTERS = re.compile(r"[A-Za-z0-9]{1,24}")
#: Name of a setting whose key cannot be one.
_NO_KEY = "this line"


def read_ini(source: Source, keys: re.Pattern[str], *,
             has_comments_behind: bool = False) -> list[Section]:
    """Parse an ini file, whose sections may be repeated.

    Args:
        source: The file.
        keys: Pattern of permitted keys. Messages do not show other keys, which may have secrets.
        has_comments_behind: Whether # behind a value begins a comment.
    """
    sections: list[Section] = []
    settings: list[Setting] = []
    for number, raw in source.numbered_lines():
        line = raw.strip()
        if not line or line[0] in "#;":
            continue
        if line.startswith("["):
            found = _HEADER.fullmatch(line.partition("#")[0].strip())
            if found is None:
                raise source.make_error(number, "this is no [section]", "write it in [ and ]")
            settings = []
            sections.append(Section(number, found[1].strip(), settings))
        elif not sections:
            raise source.make_error(number, "this stands before the first [section]",
                                    "write the section above it")
        elif not sections[-1].name.startswith(_PEM):
            key, sign, value = (part.strip() for part in line.partition("="))
            if not sign:
                raise source.make_error(number, "this line is no KEY=VALUE", _PAIR_ADVICE)
            if not keys.fullmatch(key) or value == "=" or not (value or keys is LOWER_KEYS):
                key = _NO_KEY
            if has_comments_behind:
                value = value.partition("#")[0].rstrip()
            settings.append(Setting(number, key, value, f"[{_shown_section(sections[-1].name)}] "))
    return sections


def _shown_section(name: str) -> str:
    """Return a section's name for messages, without the key of a peer."""
    begin = name.partition(".")[0]
    return begin if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9-]{0,30}", begin) else "..."


# --- Nested sections: swanctl.conf ---

@dataclass
class NestedSection:
    """A section of strongSwan's configuration, with the sections inside."""

    name: str
    line: int
    settings: list[Setting] = field(default_factory=list)
    sections: list[NestedSection] = field(default_factory=list)
    #: Names of sections whose settings it takes over.
    bases: Sequence[str] = ()

    def find_section(self, name: str) -> NestedSection | None:
        """Return the inner section with a name, None if there is none."""
        return next((each for each in self.sections if each.name == name), None)

    def all_settings(self) -> Iterator[Setting]:
        """Yield the settings of this section and of the sections inside."""
        yield from self.settings
        for section in self.sections:
            yield from section.all_settings()


_TOKEN = re.compile(r"""(?P<comment>\#[^\n]*)|(?P<space>[ \t\r]+)|(?P<newline>\n)|(?P<open>\{)
    |(?P<close>\})|(?P<colon>:)|(?P<comma>,)|(?P<equals>=)
    |(?P<quoted>"(?:\\.|[^"\\])*")|(?P<name>[^\s#{}:,="]+)""", re.VERBOSE | re.DOTALL)
#: Value of a setting: to the end of the line, a comment, or the end of the section.
_VALUE = re.compile(r'(?:[^\S\n]*(?:"(?:\\.|[^"\\])*"|[^#}"\n]+))*', re.DOTALL)


@dataclass
class _NestedReader:
    """A parser of strongSwan's configuration, which knows its position and line."""

    source: Source
    position: int = 0
    line: int = 1

    def next_token(self) -> tuple[str, str, int]:
        """Return the next token: kind, text and line. Kind "" is the end of the file."""
        text = self.source.text
        while self.position < len(text):
            found = _TOKEN.match(text, self.position)
            if found is None:  # a quote that is not closed
                raise self.make_error("the quotes are not closed", 'write a second "')
            line, self.position = self.line, found.end()
            self.line += found[0].count("\n")
            if found.lastgroup not in ("comment", "space", "newline"):
                return found.lastgroup or "", found[0], line
        return "", "", self.line

    def read_value(self) -> str:
        """Return the value behind an equals sign in strongSwan's configuration."""
        found = _VALUE.match(self.source.text, self.position)
        assert found is not None
        self.position = found.end()
        self.line += found[0].count("\n")
        if self.source.text.startswith('"', self.position):
            raise self.make_error("the quotes are not closed", 'write a second "')
        parts = re.findall(r'"(?:\\.|[^"\\])*"|[^"]+', found[0], re.DOTALL)
        return " ".join(" ".join(re.sub(r"\\(.)", r"\1", part[1:-1]) if part[0] == '"' else
                                 part.strip() for part in parts).split())

    def make_error(self, what: str, advice: str) -> Exception:
        """Return an error at the line that is being read."""
        return self.source.make_error(self.line, what, advice)


#: Sections within sections; deeper ones are no configuration.
_DEEPEST = 12


def read_nested(source: Source) -> NestedSection:
    """Parse strongSwan's configuration. Sections inherit settings of sections they refer to."""
    reader, root = _NestedReader(source), NestedSection("", 1)
    _read_section(reader, root, "", 0)
    _take_over(source, root, root, [])
    return root


def _read_section(reader: _NestedReader, section: NestedSection, path: str, depth: int) -> None:
    while True:
        kind, text, line = reader.next_token()
        if (kind, depth) == ("", 0) or (kind == "close" and depth > 0):
            return
        if kind == "":
            raise reader.source.make_error(section.line, f"the section {path.rstrip('.')} is not "
                                           "closed", "add }")
        if kind == "close":
            raise reader.source.make_error(line, "this } closes no section", "remove it")
        name = text.strip('"')
        if kind not in ("name", "quoted") or not re.fullmatch(r"[\w.@+%*/-]{1,64}", name):
            raise reader.source.make_error(line, "a name belongs here",
                                           "write KEY = VALUE, or NAME { ... }")
        if name == "include":
            reader.read_value()
            section.settings.append(Setting(line, "include", "", path))
            continue
        _read_named(reader, section, NestedSection(name, line), path, depth)


def _read_named(reader: _NestedReader, section: NestedSection, new: NestedSection, path: str,
                depth: int) -> None:
    """Read the value or the section behind a name in strongSwan's configuration."""
    kind, _, line = reader.next_token()
    if kind == "colon":
        bases: list[str] = []
        while (token := reader.next_token())[0] in ("name", "comma"):
            bases += [token[1]] if token[0] == "name" else []
        new.bases, kind = bases, token[0]
    if kind == "equals":
        section.settings.append(Setting(new.line, new.name, reader.read_value(), path))
    elif kind == "open" and depth < _DEEPEST:
        known = section.find_section(new.name)
        if known is None:
            section.sections.append(new)
        _read_section(reader, known or new, f"{path}{new.name}.", depth + 1)
    else:
        raise reader.source.make_error(line, "= or { belongs behind a name",
                                       "write KEY = VALUE, or NAME { ... }")


def _take_over(source: Source, root: NestedSection, section: NestedSection,
               above: list[NestedSection]) -> None:
    """Add the settings of the sections that a section refers to, unless it has its own."""
    if any(section is each for each in above) or len(above) > _DEEPEST:
        raise source.make_error(section.line, f"{section.name} refers to itself", "remove that")
    for name in section.bases:
        base: NestedSection | None = root
        for part in name.split("."):
            base = base.find_section(part) if base is not None else None
        if base is None:
            raise source.make_error(section.line, f"{section.name} refers to a section that is not "
                                    "there", "check the name behind the colon")
        _take_over(source, root, base, [*above, section])
        _merge_sections(section, base)
    section.bases = ()
    for each in section.sections:
        _take_over(source, root, each, above)


def _merge_sections(section: NestedSection, base: NestedSection) -> None:
    own = {setting.key for setting in section.settings}
    section.settings += [setting for setting in base.settings if setting.key not in own]
    for each in base.sections:
        known = section.find_section(each.name)
        if known is None:
            section.sections.append(each)
        else:
            _merge_sections(known, each)
