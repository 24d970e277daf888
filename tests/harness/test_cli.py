"""The command line: help without set-up, and one clear line for whatever is wrong."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from pydantic import ValidationError

import studies
from conftest import Qop
from harness import cli
from harness.cli import COMMANDS
from harness.commands import lab, options
from harness.engine.request import build_plan
from studies.contract import parse_byte_size
from studies.qop2007.settings import Settings

#: Also those that pages of studies are.
EVERY = [*COMMANDS, *studies.live_pages()]
GOOD = "id: X1\nname: a policy\nlayers:\n  link: {cipher: WEP-104, keys: static}\n"


def test_help(qop_here: Qop) -> None:
    """The program explains itself."""
    done = qop_here("--help")
    assert done.returncode == 0 and "Usage:" in done.stdout


@pytest.mark.parametrize("command", EVERY)
def test_help_everywhere(command: str) -> None:
    """So does every subcommand."""
    done = CliRunner().invoke(cli.qop, [command, "--help"])
    assert done.exit_code == 0 and "Usage:" in done.output


def _walk_commands() -> Iterator[tuple[str, click.Command]]:
    """Yield all commands, also those of groups and those of `qop run` for each study."""
    context = click.Context(cli.qop)
    for name in EVERY:
        command = cli.qop.get_command(context, name)
        assert command is not None
        yield name, command
        if isinstance(command, click.Group):
            yield from ((f"{name} {each}", part) for each, part in command.commands.items())
        if isinstance(command, options.StudyCommand):
            for study in map(studies.load_study, studies.study_names()):
                yield f"{name} ({study.id})", command.command_for(study)


@pytest.mark.parametrize("command", [pytest.param(part, id=name) for name, part
                                     in _walk_commands()])
def test_help_of_each_option_is_a_sentence_with_its_default(command: click.Command) -> None:
    """A flag and an option that may be repeated need no default."""
    for option in command.params:
        if not isinstance(option, click.Option) or option.hidden:
            continue
        text = option.help or ""
        assert text[:1].isupper() and text.endswith("."), f"{option.opts[0]}: {text}"
        assert text.count("(") == text.count(")"), text
        if option.is_flag or option.multiple or option.required:
            continue
        assert "default: " in text, f"{option.opts[0]}: {text}"
        default = option.get_default(click.Context(command))
        if isinstance(default, str | int | Path) and default != "" \
                and option.opts[0] not in DEFAULT_IN_WORDS:
            assert f"default: {default}" in text, f"{option.opts[0]}: {text}"


#: Options whose default value stands for another one: the folder's study, any free port.
DEFAULT_IN_WORDS = {"--study", "--port"}


def test_help_of_run_fits_on_a_page(monkeypatch: pytest.MonkeyPatch) -> None:
    """60 lines of 80 columns name every option and point to the list of negative controls."""
    monkeypatch.setenv("COLUMNS", "80")
    output = CliRunner().invoke(cli.qop, ["run", "--help"]).output
    lines = output.splitlines()
    assert len(lines) <= 60 and max(map(len, lines)) <= 80
    assert "./qop studies" in output and "--faults" in output
    run = cli.qop.get_command(click.Context(cli.qop), "run")
    assert run is not None
    visible = [option for option in run.params
               if isinstance(option, click.Option) and not option.hidden]
    assert not [option.opts[0] for option in visible
                if not re.search(rf"{option.opts[0]}\b", output)]


@pytest.mark.parametrize("study", studies.study_names())
def test_help_of_run_with_a_study_describes_every_option(study: str) -> None:
    """Each option is a row, in contrast to the short help without a study."""
    output = CliRunner().invoke(cli.qop, ["run", study, "--help"]).output
    rows = set(re.findall(r"^  (--[a-z-]+)", output, re.MULTILINE))
    named = [part.opts[0] for part in options.run_parameters(studies.load_study(study))
             if isinstance(part, click.Option) and not part.hidden]
    assert set(named) <= rows


@pytest.mark.parametrize("arguments", [["--faults"], ["kerberos2002", "--faults"]], ids=" ".join)
def test_studies_lists_each_negative_control_with_its_effect(arguments: list[str]) -> None:
    """All studies without a name, else the named one only."""
    output = CliRunner().invoke(cli.qop, ["studies", *arguments]).output
    names = arguments[:-1] or studies.study_names()
    assert [line for line in output.splitlines() if not line.startswith(" ")] == [
        f"{name}:" for name in names]
    words = " ".join(re.sub(r"(?<=\w)-\n\s+", "-", output).split())  # lines may end at a hyphen
    for study in map(studies.load_study, names):
        for name in study.faults:
            fault = study.find_fault(name)
            assert fault is not None
            assert f"{name} {fault.title[:1].upper()}{fault.title[1:]}." in words


def test_studies_of_a_name_shows_all_levels_and_refuses_an_unknown_name(
        capsys: pytest.CaptureFixture[str]) -> None:
    """The levels include those that a run measures only by name."""
    assert cli.main(["studies", "qop2007"]) == 0
    output = capsys.readouterr().out
    assert "M12-kem" in output and "N2-far" in output and "adp1987:" not in output
    assert cli.main(["studies", "qop2008"]) == 2
    assert capsys.readouterr().err.startswith("qop: no study 'qop2008'; choose from qop2007, ")


#: Subcommands that pass on to another program what they do not know.
PASSES_ON = {"test"}


def _wrong_arguments() -> Iterator[tuple[str, ...]]:
    """Unknown options, and every mistake that the parameters of a subcommand can tell."""
    yield "", "--no-such-option"
    yield "", "no-such-subcommand"
    for name in EVERY:
        command = cli.qop.get_command(click.Context(cli.qop), name)
        assert command is not None
        if name not in PASSES_ON:
            yield name, "--no-such-option"
        if any(parameter.required for parameter in command.params):
            yield name,
        for parameter in command.params:
            option = parameter.opts[:1] if isinstance(parameter, click.Option) else []
            if isinstance(parameter.type, click.Choice | click.types.IntParamType):
                yield name, *option, "no-such-value"
            if isinstance(parameter, click.Option) and not parameter.is_flag:
                yield name, *option


@pytest.mark.parametrize("arguments", [*_wrong_arguments(), ("image", "no-such-subcommand")],
                         ids=" ".join)
def test_wrong_arguments_are_one_line(arguments: tuple[str, ...],
                                      capsys: pytest.CaptureFixture[str]) -> None:
    """What, in which subcommand, and where help is, and status 2; no usage around it."""
    command, *rest = arguments
    assert cli.main([*filter(None, [command]), *rest]) == 2
    said = capsys.readouterr()
    assert said.out == "" and said.err.count("\n") == 1
    where, help_of = (f"qop: {command}: ", f"./qop {command} --help") if command else \
        ("qop: no such ", "./qop --help")
    assert said.err.startswith(where) and said.err.endswith(f"; see '{help_of}'\n")
    assert all(word in said.err for word in rest[-1:] or ["missing "])


def test_the_lab_hands_on_what_stands_behind_its_own_options() -> None:
    """A command's options are the command's; before it, an unknown one is refused (above)."""
    for words in (["ping", "-c", "3", "--node"], ["--", "--odd"]):
        context = lab.command.make_context("lab", ["--node", "a2", *words])
        assert context.params["argv"] == tuple(word for word in words if word != "--")
        assert context.params["node"] == "a2"


def test_choices_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    """A value that an option does not have is told with those that it has."""
    cli.main(["run", "--clock", "sundial"])
    assert capsys.readouterr().err == (
        "qop: run: invalid value for '--clock': 'sundial' is not one of 'real', 'virtual', "
        "'processor'; see './qop run --help'\n")


@pytest.mark.parametrize("arguments", [("run", "--dry-run"), ("bench", "faults")], ids=" ".join)
@pytest.mark.parametrize("seed", ["-1", str(2**32)])
def test_a_seed_that_no_generator_takes_is_one_line(
        arguments: tuple[str, ...], seed: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The kernel's random numbers, too, begin where it says; nothing starts."""
    assert cli.main([*arguments, "--seed", seed]) == 2
    assert capsys.readouterr().err == (
        f"qop: {arguments[0]}: invalid value for '--seed': {seed} is not in the range "
        f"0<=x<=4294967295; see './qop {arguments[0]} --help'\n")


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_completion(qop_here: Qop, shell: str) -> None:
    """The completion scripts name the program and the variable that triggers them."""
    done = qop_here("completion", shell)
    assert done.returncode == 0 and "_QOP_COMPLETE" in done.stdout


@pytest.mark.parametrize(("text", "line", "advice"), [
    (GOOD.replace("keys: static", "keys: static, colour: red"), 4, "colour"),
    (GOOD.replace("WEP-104", "WEP-140"), 4, "WEP-104"),
    (GOOD.replace("{cipher: WEP-104, keys: static}", "{cipher: CCMP, keys: psk, pmf: yes}"), 4,
     "0"),
    ("x" * 3_000_000, 1, ""),
    ("id: X1\nname: a policy\nextends: nowhere.yml\nlayers: {}\n", 3, "nowhere.yml"),
], ids=["unknown key", "misspelt cipher", "boolean", "3 MB of junk", "missing file"])
def test_bad_policy_is_one_line(qop_here: Qop, text: str, line: int, advice: str) -> None:
    """File, line and advice on one line, exit status 2, and nothing was started or written."""
    path = qop_here.folder / "bad.yml"
    path.write_text(text)
    done = qop_here("run", "--policy", str(path), "--out", "out")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith(f"qop: {path}:{line}: ")
    assert advice in done.stderr and ";" in done.stderr
    assert not (qop_here.folder / "out").exists()


@pytest.mark.parametrize(("arguments", "words"), [
    (["--policies", "P99"], "qop2007, factor policy: P99: no such policy; choose from P1, "),
    (["--only", "policy=P99"], "qop2007, factor policy: P99: no such policy; "),
    (["--scenarios", "N9"],
     "qop2007, factor scenario: N9: no such scenario; choose from D1, D2, E1, "),
    (["--scenarios", "N9.yml"], "N9.yml: there is no such file"),
    (["--medium", "ether"], "ether: no such file"),
    (["--policy", "nowhere.yml"], "nowhere.yml:1: "),
    (["--policy", "M5"], "--policy M5: takes a file, and M5 comes with qop; write --policies M5"),
    (["--policy", "m5-radsec"], "and M5-radsec comes with qop; write --policies M5-radsec"),
    (["--policies", "p12"], "factor policy: p12: no such policy; did you mean P12?"),
])
def test_unknown_names_are_one_line(qop_here: Qop, arguments: list[str], words: str) -> None:
    """What does not exist is named, with what there is to choose from."""
    done = qop_here("run", "--out", "out", *arguments)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1 and words in done.stderr
    assert not (qop_here.folder / "out").exists()


def test_unwritable_results_folder(qop_here: Qop) -> None:
    """A results folder that cannot be made is one line."""
    (qop_here.folder / "file").write_text("")
    done = qop_here("run", "--policies", "P1", "--out", "file/out")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1 and "file/out" in done.stderr


@pytest.mark.parametrize(("arguments", "study"), [
    (("--study", "hops", "grep", "--study", "x"), "hops"), (("--study=hops", "ip"), "hops"),
    (("--node", "--study", "ip"), ""), (("grep", "--study", "x"), ""),
    (("--", "grep", "--study", "x"), "")])
def test_the_lab_takes_its_study_from_its_own_options(arguments: tuple[str, ...],
                                                      study: str) -> None:
    """Behind them the command for the node begins, which may have an option of that name."""
    assert lab.command.named(arguments) == study


@pytest.mark.parametrize("study", studies.study_names())
def test_the_lab_has_a_testbed_of_every_study(study: str) -> None:
    """Without any level asked for, that of a cell that the study measures, in real time."""
    loaded = studies.load_study(study)
    asked = {f"level_of_{factor.name}": loaded.lab.levels.get(factor.name)
             for factor in loaded.factors}
    made = build_plan(options.build_cell_request(loaded, asked), {"clock": "real"})
    assert len(made.cells) == len(made.testbeds) == 1


def test_the_lab_takes_the_first_cell_of_the_levels_asked_for() -> None:
    """A study need not have every combination of levels."""
    asked = {f"level_of_{factor.name}": None for factor in studies.load_study("adp1987").factors}
    made = build_plan(options.build_cell_request(studies.load_study("adp1987"),
                                                 {**asked, "level_of_technology": "SW",
                                                          "level_of_trace": "ND"}),
                      {"clock": "real"})
    [cell] = made.cells
    assert (cell.ids["technology"], cell.ids["trace"]) == ("SW", "ND")


@pytest.mark.parametrize("command", ["report", "status"])
def test_no_results_yet(qop_here: Qop, command: str) -> None:
    """Without results, the commands that read them say how to get some."""
    done = qop_here(command)
    assert done.returncode == 2
    assert "./qop run" in done.stderr and done.stderr.count("\n") == 1


def test_doctor_tells_what_there_is(qop_here: Qop) -> None:
    """Every line of the diagnosis has a verdict, and what is missing has a remedy under it."""
    done = qop_here("doctor", "--no-trial")
    lines = [line for line in done.stdout.splitlines() if not line.startswith(" ")]
    assert {line.split()[0] for line in lines} <= {"ok", "MISSING", "without"}
    assert "disk in use: " in done.stdout and "'./qop uninstall'" in done.stdout
    assert done.returncode == int(any(line.startswith("MISSING") for line in lines))


@pytest.mark.parametrize(("text", "size"), [("500k", 500_000), ("1M", 1_000_000),
                                            ("16000000", 16_000_000), ("2mb", 2_000_000)])
def test_byte_sizes(text: str, size: int) -> None:
    """Sizes are decimal, as rates on networks are."""
    assert parse_byte_size(text) == size


@pytest.mark.parametrize("text", ["", "1T", "-5", "1 k", "10", "99999999999"])
def test_impossible_byte_sizes(text: str) -> None:
    """What is not a size, or cannot be timed, is refused."""
    with pytest.raises(ValidationError, match=r"size|between"):
        Settings(stream_bytes=text)  # type: ignore[arg-type]


@pytest.mark.parametrize(("image", "says"), [("container", "use a checkout"), ("", sys.prefix)])
def test_a_package_that_is_not_there_is_one_line(
        image: str, says: str, monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str]) -> None:
    """The container image leaves some out; elsewhere the environment is damaged, and made anew."""
    monkeypatch.delenv(cli.IN_IMAGE, raising=False)
    if image:
        monkeypatch.setenv(cli.IN_IMAGE, image)
    _lacks(monkeypatch, "cryptography")
    assert cli.main(["studies"]) == 1
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("qop: cryptography is not installed here; ") and says in line


def test_a_module_of_our_own_that_is_not_there_is_our_mistake(
        monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not told as a package that somebody has left out."""
    _lacks(monkeypatch, "harness.commands.nothing")
    with pytest.raises(ModuleNotFoundError):
        cli.main(["studies"])


def test_an_interrupted_import_is_an_interruption(
        monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Python 3.11 tells the interrupted making of a class as an error of its own."""
    class Interrupted:
        def __set_name__(self, owner: type, name: str) -> None:
            raise KeyboardInterrupt

    def importing(*_: object, **__: object) -> int:
        type("Imported", (), {"field": Interrupted()})
        return 0

    monkeypatch.setattr(cli.qop, "main", importing)
    assert cli.main(["studies"]) == 130
    assert capsys.readouterr().err == "qop: interrupted\n"


def test_an_error_while_running_is_no_interruption(monkeypatch: pytest.MonkeyPatch) -> None:
    """It keeps its traceback."""
    def failing(*_: object, **__: object) -> int:
        raise RuntimeError("a mistake") from ValueError("of ours")

    monkeypatch.setattr(cli.qop, "main", failing)
    with pytest.raises(RuntimeError, match="a mistake"):
        cli.main(["studies"])


def _lacks(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Have the command line not find a module."""
    def lacking(*_: object, **__: object) -> int:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    monkeypatch.setattr(cli.qop, "main", lacking)
