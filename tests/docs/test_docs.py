"""The documentation holds: its commands run, its links lead somewhere, its options exist."""

from __future__ import annotations

import doctest
import functools
import importlib
import io
import itertools
import re
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import click
import pytest
from rich.console import Console

import doc_commands
from doc_commands import CHECKOUT, PROJECT, SHELLS, Command
from doc_reader import Reader
from fabricated import paper_run, write_all
from harness.cli import qop as command_line
from import_graph import ROOT

#: Surroundings that a test makes, and the module where it stands.
EXECUTED = {
    **dict.fromkeys((CHECKOUT, "terminal", "cluster", "rendering"), "docs/test_docs_run.py"),
    "container": "harness/test_container.py", "lab": "harness/test_container.py",
    "box": "guest/test_box.py", "site": "docs/test_site.py",
    "vagrant": "guest/test_box.py",
    "mininet-wifi": "topologies/test_topology_scripts.py",
}
#: What no test can run, and why. Options are checked all the same.
UNEXECUTED = {
    "./qop run --cluster ssh:lab1,lab2,lab3": "needs three hosts; tests/harness/"
                                              "test_cluster_guest.py logs in to this one",
    "./qop thermostat": "is for a browser; tests/studies/authenticast1998/ turns dials in one",
    "./qop tell results/FOLDER": "needs streams that last; tests/harness/test_control.py tells",
    "vagrant up": "needs a hypervisor", "vagrant ssh": "needs a hypervisor",
    "./qop import box.tar.gz": "needs what vagrant ssh has fetched; tests/guest/test_box.py "
                               "fetches it by plain ssh and imports it",
    "tar -xf qop.box": "is for the next one",
    "qemu-system-x86_64 ": "has no hypervisor here, and a console for people; tests/guest/"
                           "test_box.py starts the box with options of its own",
    "./qop provision --on vm": "takes minutes; tests/guest/test_vm.py measures in such a machine",
    "./qop run --on vm": "see ./qop provision --on vm",
    "apt-get install": "changes the machine", "mountpoint -q": "changes the machine",
    "QOP_VM_ARCHITECTURE=aarch64 ./qop": "takes half an hour; was tried by hand",
    "./qop provision --mininet-wifi": "fetches from upstream",
    "./qop compare results/emulated results/home": "needs a measurement with a card; "
                                                   "tests/measure/test_cards.py compares",
    "sudo ./qop measure": "needs a card; tests/guest/test_card.py measures with emulated ones",
    "sudo ./qop run --on host --scenarios N2 --policies M2,M5 --card":
        "needs three cards; tests/guest/test_run_cards.py has radios in their place",
    "sudo ./qop provision --on host": "fetches from upstream, and changes the machine",
    "./qop run --builder mininet-wifi": "needs what is fetched from upstream; "
                                        "tests/topologies/test_builders.py measures "
                                        "where it is there",
    'podman run --rm -v "$PWD:/qop"': "pulls a container of Debian from a registry",
    "podman volume rm qop-cache": "is for the former",
    "docker ": "needs docker's daemon", "skopeo copy": "needs docker's daemon, or a registry",
    "python3 -m venv notebook": "is for the next one",
    "pip install jupyterlab": "needs the package index; test_notebook.py executes the notebook",
    "make -C ~/hostap/": "needs sources of the reader's; tests/harness/test_programs.py has builds",
    "./qop run --programs": "is for the former",
    "pip install CHECKOUT": "needs the package index; tests/guest/test_pytest_plugin.py installs",
    "QOP_CHECKOUT=CHECKOUT pytest": "is for the former",
    "examples/hostap-hwsim.sh": "needs a checkout of hostap; tests/guest/test_radio.py has one of "
                                "the same form",
    "podman run --rm --network none --tmpfs": "needs the smaller image; tests/harness/"
                                              "test_container.py runs a command in it",
    "QOP_RESULTS=results/cost jupyter": "is for a browser; test_notebook.py executes the notebook",
    "for name in ansible harness": "asks the package index for the newest versions of everything",
}
#: Top-level folders; what looks like a path below one of them has to be there.
FOLDERS = sorted(path.name for path in PROJECT.iterdir() if path.is_dir() and path.name[0] != ".")
#: Beginnings of commands, which belong into a block that says so.
_COMMANDS = re.compile(r"\s*(\$ |(sudo )?(\./qop|qop|podman|docker|vagrant|apt-get|pip) )")
_SEPARATORS = {"|", "||", "&&", ";", "&", ">", "<", ">>"}
PAGES = doc_commands.pages()
#: Pages with tables that say in which file something is, and by which name it is found there.
INDEXES = ("CONTRIBUTING.md", "docs/glossary.md")
#: Suffixes of files with names that a page may use.
SOURCES = {".py", ".yml", ".j2", ".c", ".h", ".patch", ".sh", ".js", ".html", ".conf", ".toml"}
#: Names on pages that no source has, and why.
FOREIGN = {
    "SSHCluster": "is dask's", "WirelessLink": "is Mininet-WiFi's",
    "binfmt_misc": "is Linux's", "perf_event_open": "is Linux's",
    **dict.fromkeys(("sae_anti_clogging_during_attack", "prefer_ht40", "scan_setband",
                     "ip4_drop_gratuitous_arp", "sigma_dut",
                     "dpp_qr_code_config_event_initiator_no_response"), "is of hostap's tests"),
    "foreign_rates": "has a prefix for the visited network", "air_tcp": "ends with a protocol",
    "wireguard_foreign": "ends with the network where the component was measured",
}
#: Python's comments and docstrings, which may still have an earlier name.
_PROSE = re.compile(r'"""[\s\S]*?"""|(?:^|\s)#.*', re.MULTILINE)
#: A name of several words without underscores, as Python's classes have: SomeClass.
_CAMEL = re.compile(r"\b[A-Z][A-Za-z0-9]*[a-z][A-Za-z0-9]*[A-Z][A-Za-z0-9]*\b")


def in_code(page: str) -> Iterator[tuple[int, str]]:
    """Every code span of a page's text, with its line."""
    for token in doc_commands.parse(page):
        for child in token.children or ():
            if child.type == "code_inline":
                yield token.map[0] + 1, child.content


def table_rows(page: str) -> Iterator[tuple[int, list[list[str]]]]:
    """The code spans of each cell of a row, with its line, for every row of a page's tables."""
    cells: list[list[str]] = []
    for token in doc_commands.parse(page):
        if token.type == "tr_open":
            cells, line = [], token.map[0] + 1
        elif token.type == "inline":
            cells.append([child.content for child in token.children or ()
                          if child.type == "code_inline"])
        elif token.type == "tr_close":
            yield line, cells


def python_names(text: str) -> Iterator[str]:
    """The names in a code span that look like Python's: calls, classes and some_name.

    Of a dotted name, each part counts alone. A name with a placeholder, such as NAME_low_UNIT, does
    not count.
    """
    found = [*re.findall(r"\w+(?=\()", text), *_CAMEL.findall(text)]
    if whole := re.fullmatch(r"(\w+(?:\.\w+)*)(\(.*\))?", text):
        found += [part for part in whole[1].split(".")
                  if "_" in part.strip("_") or part.strip("_")[:1].isupper()]
    for name in dict.fromkeys(found):
        if name.isidentifier() and re.search("[a-z]", name) and not re.search(
                r"(^|_)[A-Z]{2,}(_|$)", name):
            yield name


@functools.cache
def read_code(path: Path) -> str:
    """The text of a source file, of Python's without comments and docstrings."""
    text = path.read_text(encoding="utf-8", errors="ignore")
    return _PROSE.sub("", text) if path.suffix == ".py" else text


@functools.cache
def source_words() -> frozenset[str]:
    """Every word in the project's sources and in the names of these files.

    Words of this file do not count: its examples are wrong on purpose.
    """
    paths = (path for folder in FOLDERS if folder not in {"results", "site"}
             for path in (ROOT / folder).rglob("*"))
    return frozenset(word for path in paths
                     if path.suffix in SOURCES and path.is_file() and path != Path(__file__)
                     for word in re.findall(r"\w+", f"{path.stem} {read_code(path)}"))


def headings(page: str) -> set[str]:
    """The anchors that GitHub makes of a page's headings."""
    tokens, found = doc_commands.parse(page), []
    for before, token in itertools.pairwise(tokens):
        if before.type == "heading_open":
            text = "".join(child.content for child in token.children)
            slug = re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")
            found.append(f"{slug}-{found.count(slug)}" if slug in found else slug)
    return set(found)


@pytest.mark.parametrize("page", PAGES)
def test_every_block_says_what_it_is(page: str) -> None:
    """A fence has a language; commands stand in sh or console, and nowhere else."""
    for block in doc_commands.blocks(page):
        where = f"{page}:{block.line - 1}"
        assert block.language, f"{where}: a block without a language; write ```sh, ```text, ..."
        assert block.language not in {"bash", "shell", "shell-session", "zsh"}, f"{where}: write sh"
        if block.language not in SHELLS:
            said = next(filter(_COMMANDS.match, block.text.splitlines()), None)
            assert not said, f"{where}: '{said}' is a command; write ```sh or ```console"
    for token in doc_commands.parse(page):
        assert token.type != "code_block" or not _COMMANDS.match(token.content), (
            f"{page}:{token.map[0] + 1}: commands belong into a fence ```sh")


@pytest.mark.parametrize("page", PAGES)
def test_every_command_is_executed_or_listed(page: str) -> None:
    """Each surrounding has a module that runs its commands; what has none is in the short list."""
    for block in filter(lambda block: block.language in SHELLS, doc_commands.blocks(page)):
        assert len(block.words) - block.words.count(f"status={block.status}") <= 1, block.words
        if block.surrounding not in EXECUTED:
            for command in block.commands():
                assert command.text.startswith(tuple(UNEXECUTED)), (
                    f"{command}: nothing runs commands of the surrounding {block.surrounding!r}; "
                    f"choose from {', '.join(EXECUTED)}, or list it with its reason")
        else:
            module = PROJECT / "tests" / EXECUTED[block.surrounding]
            text = module.read_text(encoding="utf-8")
            assert "doc_commands" in text
            assert block.surrounding == CHECKOUT or f'"{block.surrounding}"' in text, (
                f"{module} does not run the commands of {block.surrounding!r}")


def test_nothing_is_listed_that_is_gone() -> None:
    """The list of what is not executed holds commands that the documentation still has."""
    texts = [command.text for page in PAGES for block in doc_commands.blocks(page)
             if block.language in SHELLS and block.surrounding not in EXECUTED
             for command in block.commands()]
    for listed in UNEXECUTED:
        assert any(text.startswith(listed) for text in texts), f"{listed}: no page has it any more"


def qop_words(text: str) -> list[list[str]]:
    """The calls of qop in a command line, without what is before and behind them."""
    lexer = shlex.shlex(text, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    found: list[list[str]] = []
    inside = False
    before: list[str] = []
    for word in lexer:
        # A box may be called qop, too; and an image of that name may start something else.
        is_call = word in {"./qop", "qop"} and before[-1:] != ["--name"]
        before.append(word)
        if is_call and "--entrypoint" not in before:
            found.append([])
            inside = True
        elif word in _SEPARATORS or set(word) <= set("();<>|&"):
            inside = False
            before = []
        elif inside:
            found[-1].append(word.strip("[]"))
    return found


def unknown_word(words: Sequence[str]) -> str | None:
    """The first word of a call of qop that is no subcommand or option of it; None if all are."""
    command: click.Command = command_line
    context = click.Context(command)
    for number, word in enumerate(words):
        if isinstance(command, click.Group) and not word.startswith("-"):
            if word in {"COMMAND", "…", "..."}:
                return None
            found = command.get_command(context, word)
            if found is None:
                return word
            command = found
        elif word == "--":
            return None  # from here on it is another program's
        elif word.startswith("--"):
            options = {name for param in command.params for name in (*param.opts,
                                                                     *param.secondary_opts)}
            if word.partition("=")[0] not in options | {"--help", "--version"}:
                return word
        elif command.name in {"lab", "test"} and number > 0 and not words[
                number - 1].startswith("-"):
            return None  # from here on it is another program's
    return None


@pytest.mark.parametrize("page", PAGES)
def test_options_exist(page: str) -> None:
    """Every call of qop, in blocks and in text, names a subcommand and options that there are."""
    told = [(command.line, command.text) for block in doc_commands.blocks(page)
            if block.language in SHELLS for command in block.commands()]
    told += [(line, text) for line, text in in_code(page)
             if re.match(r"(sudo )?(\./)?qop ", text)]
    for line, text in told:
        for words in qop_words(text):
            assert not (wrong := unknown_word(words)), f"{page}:{line}: {text}: what is {wrong}?"


@pytest.mark.parametrize(("text", "wrong"), [
    ("./qop run --scenarois N2", "--scenarois"), ("./qop ruin", "ruin"),
    ("cd x && ./qop report --handof | cat", "--handof"), ("./qop run --out=x", None),
    ("./qop lab --policy P3 --node ha-a ip --brief addr", None), ("./qop COMMAND --help", None),
    ("sudo ./qop provision --on host", None), ("podman run --rm -v x:/y qop ruin", "ruin"),
    ("podman run --entrypoint cat qop /x | podman run -i qop ruin", "ruin"),
    ("vagrant box add --name qop qop.box && ./qop ruin", "ruin"),
    ("podman run --rm --entrypoint cat qop /etc/passwd > mine", None)])
def test_a_misspelt_option_is_found(text: str, wrong: str | None) -> None:
    """The check of options can fail, also in places that nothing executes."""
    assert next(filter(None, map(unknown_word, qop_words(text))), None) == wrong


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    """Links within the project name files, headings and pictures that exist."""
    for token in doc_commands.parse(page):
        for child in token.children or ():
            target = child.attrs.get("href" if child.type == "link_open" else "src")
            if target is None or re.match(r"[a-z]+:", str(target)):
                continue
            name, _, anchor = str(target).partition("#")
            path = (PROJECT / page).parent / name if name else PROJECT / page
            where = f"{page}:{token.map[0] + 1}: {target}"
            assert path.exists(), f"{where}: there is no such file"
            if anchor:
                there = headings(str(path.resolve().relative_to(PROJECT)))
                assert anchor in there, f"{where}: no such heading; there are {sorted(there)}"


@pytest.mark.parametrize("page", PAGES)
def test_rows_of_tables_belong_to_a_table(page: str) -> None:
    """A row after an empty line is no row of the table above: a reader sees its bars."""
    for token in doc_commands.parse(page):
        if token.type == "inline" and token.map:
            assert not token.content.startswith("|"), f"{page}:{token.map[0] + 1}: no table"


@pytest.mark.parametrize("page", PAGES)
def test_files_that_are_named_exist(page: str) -> None:
    """A path of this project in the text is there (or, with a star, matches something)."""
    for line, text in in_code(page):
        if re.fullmatch(rf"({'|'.join(FOLDERS)})/[\w./*-]*", text) and "results" not in text:
            assert list(PROJECT.glob(text.rstrip("/"))), f"{page}:{line}: {text} is not there"


@pytest.mark.parametrize("page", INDEXES)
def test_names_in_tables_are_in_the_files_of_their_row(page: str) -> None:
    """What the last column says to search for is a whole word in one of the row's files."""
    for line, cells in table_rows(page):
        files = [path for span in itertools.chain(*cells)
                 if re.fullmatch(rf"({'|'.join(FOLDERS)})/[\w./*-]+", span)
                 for path in ROOT.glob(span.rstrip("/")) if path.is_file()]
        for span in (span for span in cells[-1] if files and "/" not in span):
            words = [re.compile(rf"(?<!\w){re.escape(part)}(?!\w)") for part in span.split(".")]
            assert any(all(word.search(read_code(path)) for word in words) for path in files), (
                f"{page}:{line}: {span} is in none of the files of its row")


@pytest.mark.parametrize("page", PAGES)
def test_python_names_exist(page: str) -> None:
    """A class, a function or a field that the text names is a word in the project's sources."""
    for line, text in in_code(page):
        for name in python_names(text):
            assert name in source_words() or name in FOREIGN, (
                f"{page}:{line}: {text}: no source has {name}; give its name of today, or list it "
                "in FOREIGN if it is of another program")


def test_no_foreign_name_is_listed_that_is_gone() -> None:
    """The list of foreign names has only those that a page has and no source has."""
    on_pages = {name for page in PAGES for _, text in in_code(page) for name in python_names(text)}
    assert not (gone := set(FOREIGN) - (on_pages - source_words())), gone


@pytest.mark.parametrize(("text", "names"), [
    ("with Air(site).join(step) as stay", ["Air", "join"]), ("Judgement.causes", ["Judgement"]),
    ("statistics.compare_welch", ["compare_welch"]), ("Seal", ["Seal"]), ("hold()", ["hold"]),
    ("device_NODE", []), ("CITATION.cff", []), ("cannot be read (REASON)", []), ("_max", []),
    ("layers.link", []), ("least_look_...", []), ("10.0.0.1", []), ("P12.yml", [])])
def test_python_names_are_told_from_other_words(text: str, names: list[str]) -> None:
    """Placeholders, files, addresses, keys of YAML and messages are no names of Python."""
    assert list(python_names(text)) == names


def test_every_example_is_in_the_gallery() -> None:
    """An example answers a question, so a row has its file, or the folder of a whole project."""
    gallery = (PROJECT / "docs" / "gallery.md").read_text()
    folders = set(re.findall(r"examples/[\w.-]+/", gallery)) - {"examples/scenarios/"}
    files = [file.relative_to(PROJECT) for file in (PROJECT / "examples").rglob("*")
             if file.is_file() and "__pycache__" not in file.parts]
    assert len(files) > 80
    assert [str(file) for file in files if str(file) not in gallery
            and not any(str(file).startswith(folder) for folder in folders)] == []


def test_the_index_names_every_page() -> None:
    """Every page of docs/ can be reached from docs/README.md."""
    linked = {str(child.attrs["href"]).partition("#")[0] for token in
              doc_commands.parse("docs/README.md") for child in token.children or ()
              if child.type == "link_open"}
    there = {Path(page).name for page in PAGES if page.startswith("docs/")} - {"README.md"}
    assert there <= linked, there - linked


@pytest.fixture
def spoilt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    """Makes a page of a text, in a project of its own; its name."""
    monkeypatch.setattr(doc_commands, "PROJECT", tmp_path)
    monkeypatch.setattr(sys.modules[__name__], "PROJECT", tmp_path)

    def make(text: str) -> str:
        name = f"{abs(hash((text, tmp_path)))}.md"
        (tmp_path / name).write_text(text)
        return name

    return make


@pytest.mark.parametrize(("check", "text"), [
    (test_every_block_says_what_it_is, "```\n./qop run\n```"),
    (test_every_block_says_what_it_is, "```text\n./qop run\n```"),
    (test_every_block_says_what_it_is, "```bash\n./qop run\n```"),
    (test_every_block_says_what_it_is, "So:\n\n    ./qop run\n"),
    (test_every_command_is_executed_or_listed, "```sh somewhere\n./qop run\n```"),
    (test_every_command_is_executed_or_listed, "```sh hosts\n./qop run --cluster ssh:a\n```"),
    (test_options_exist, "```sh hosts\n./qop run --scenarois N2\n```"),
    (test_options_exist, "Give `./qop rum` then."),
    (test_links_lead_somewhere, "[there](nowhere.md)"),
    (test_links_lead_somewhere, "# Here\n\n[there](#hear)"),
    (test_links_lead_somewhere, "![picture](nowhere.png)"),
    (test_names_in_tables_are_in_the_files_of_their_row,
     "| file | word |\n|---|---|\n| `harness/cli.py` | `comman` |\n"),
    (test_python_names_exist, "It is kept in `NoSuchJudgement.causes`."),
    (test_python_names_exist, "So `find_no_such_answer` simulates, and `no_such_call(x)` waits."),
    (test_rows_of_tables_belong_to_a_table, "| a | b |\n|---|---|\n| 1 | 2 |\n\n| 3 | 4 |\n"),
], ids=lambda value: value[:24] if isinstance(value, str) else value.__name__[5:])
def test_a_spoilt_page_is_found(check: Callable[[str], None], text: str,
                                spoilt: Callable[[str], str]) -> None:
    """Each of these checks fails for a page that is wrong."""
    with pytest.raises(AssertionError):
        check(spoilt(text))


@pytest.mark.parametrize(("text", "why"), [
    ("```sh\n./qop report results/nowhere\n```", "exit status 2"),
    ("```sh\ncat policies/P99.yml\n```", "exit status 1"),
    ("```console status=1\n$ ./qop report\nqop: …\n```", "exit status 2"),
    ("```console\n$ ./qop --version\nqop, version … beta\n```", "the page shows")])
def test_a_page_that_does_not_work_is_found(
        text: str, why: str, spoilt: Callable[[str], str], tmp_path: Path) -> None:
    """A file that is not there, another exit status, another output: each fails."""
    page = spoilt(text)
    (tmp_path / "qop").write_text(f'#!/bin/sh\nexport PYTHONPATH={ROOT}\n'
                                  f'exec {sys.executable} -P -m harness "$@"\n')
    (tmp_path / "qop").chmod(0o755)
    reader = Reader(tmp_path / "copy", tmp_path)
    [command] = doc_commands.commands(page)
    with pytest.raises(AssertionError, match=why):
        reader.type(command)


def test_shown_output_may_have_other_numbers() -> None:
    """Numbers and what … stands for may differ; words, their order and missing lines may not."""
    command = Command("page", 1, "x", ("P1 4.3 ± 0.7 - (9)", "", "results in …/a", "… done"))
    assert command.missing("a\n P1   12 ± 10  - (13)\nb\nresults in /b/a\nall is done") is None
    assert command.missing("P1 4.3 ± 0.7 - nine\nresults in /b/a\nx done") == "P1 4.3 ± 0.7 - (9)"
    assert command.missing("results in /b/a\nx done\nP1 4.3 ± 0.7 - (9)") == "results in …/a"


@pytest.mark.parametrize("page", ["docs/analysis.md", "docs/policies.md"])
def test_python_examples_run(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One after the other, with the results folder and the console that the page presupposes."""
    write_all(paper_run(("N2", "R1")), tmp_path / "results" / "example")
    (tmp_path / "examples").symlink_to(PROJECT / "examples")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"Path": Path, "console": Console(file=io.StringIO())}
    examples = [block for block in doc_commands.blocks(page) if block.language == "python"]
    for block in examples:
        exec(compile(block.text, f"{page}:{block.line}", "exec"), names)
    assert examples


def test_docstring_examples_hold() -> None:
    """What docstrings of the product show as a session of Python."""
    examples = 0
    for path in sorted(PROJECT.glob("*/**/*.py")):
        name = ".".join(path.relative_to(PROJECT).with_suffix("").parts)
        if path.relative_to(PROJECT).parts[0] != "tests" and ">>> " in path.read_text():
            failed, tried = doctest.testmod(importlib.import_module(name))
            assert not failed, name
            examples += tried
    assert examples > 5
