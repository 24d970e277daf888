"""Studies in folders outside of the checkout: `--study-path` and QOP_STUDY_PATH."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import own_study
import studies
from conftest import PROJECT, Qop
from harness.commands import study_path
from harness.engine import machine, provenance

#: Commands that use studies, with arguments that they accept.
COMMANDS = (("run", "hops", "--dry-run"), ("studies",), ("report", "there"), ("verify", "there"),
            ("compare", "there", "there"), ("status", "there"), ("export", "there"),
            ("import", "there"), ("prune", "there"), ("lab", "--study", "hops"), ("provision",))


@pytest.fixture(autouse=True)
def _unchanged_path(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Begin without further studies, and forget those of a test after it."""
    with own_study.installed(tmp_path_factory.mktemp("none"), {}):
        del os.environ[studies.PATH_VARIABLE]
        studies.extend_search_path(())
        yield
    for name in [name for name in sys.modules if name.startswith("studies.hops")]:
        del sys.modules[name]


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    """A folder with the tutorial's study."""
    own_study.write_study(tmp_path / "mine" / "hops", own_study.tutorial())
    return tmp_path / "mine"


def make_bad_folders(place: Path) -> dict[str, tuple[str, str]]:
    """Make folders that cannot be used. Return each with what the message says, by its kind."""
    names = {"taken": "qop2007", "taken by a module": "records", "no module": "my-study",
             "keyword": "class"}
    for kind, name in names.items():
        own_study.write_study(place / kind / name, {"study.py": ""})
    for folder in ("first", "second"):
        own_study.write_study(place / folder / "twice", {"study.py": ""})
    (place / "empty" / "docs").mkdir(parents=True)
    (place / "file").write_text("")
    twice = f"{place / 'first'}{os.pathsep}{place / 'second'}"
    return {
        "missing": ("gone", f"{place}/gone: cannot be read (No such file"),
        "unknown user": ("~nobody-here/x", "~nobody-here/x: cannot be read (No such file"),
        "file": ("file", "file: cannot be read (Not a directory)"),
        "empty": ("empty", "empty: has no study; "),
        "study": ("taken/qop2007", f"is itself a study; give the folder around it, {place}/taken"),
        "taken": ("taken", "taken: qop2007 is a name in studies/ already; "),
        "taken by a module": ("taken by a module", "records is a name in studies/ already; "),
        "no module": ("no module", "my-study is no name of a Python module; "),
        "keyword": ("keyword", "class is no name of a Python module; "),
        "twice": (twice, f"{place}/second: twice is a name in {place}/first already; ")}


@pytest.mark.parametrize("kind", ["missing", "unknown user", "file", "empty", "study", "taken",
                                  "taken by a module", "no module", "keyword", "twice"])
@pytest.mark.parametrize("by", ["option", "variable"])
def test_folder_that_cannot_be_used_is_one_line(kind: str, by: str, qop_here: Qop,
                                                monkeypatch: pytest.MonkeyPatch) -> None:
    text, reason = make_bad_folders(qop_here.folder)[kind]
    arguments = ["studies"]
    if by == "option":
        arguments += ["--study-path", text]
    else:
        monkeypatch.setenv(studies.PATH_VARIABLE, text)
    done = qop_here(*arguments)
    assert done.returncode == 2 and done.stderr.count("\n") == 1, done.stderr
    label = "--study-path" if by == "option" else "QOP_STUDY_PATH"
    assert done.stderr.startswith(f"qop: {label} /") and reason in done.stderr


@pytest.mark.parametrize("arguments", COMMANDS)
def test_every_command_with_studies_takes_the_option(arguments: tuple[str, ...],
                                                     qop_here: Qop) -> None:
    name, *rest = arguments
    done = qop_here(name, "--study-path", "gone", *rest)
    assert done.returncode == 2
    assert done.stderr.startswith(f"qop: --study-path {qop_here.folder}/gone: cannot be read")
    assert name in study_path.COMMANDS
    assert "--study-path" in qop_here(name, "--help").stdout


@pytest.mark.usefixtures("mine")
def test_study_outside_is_planned_and_listed(qop_here: Qop) -> None:
    done = qop_here("run", "hops", "--study-path=mine", "--dry-run")
    assert done.returncode == 0 and "9 of 9 repetitions" in done.stdout, done.stderr
    assert "hops: Round-trip time" in qop_here("studies", "--study-path", "mine").stdout
    assert studies.study_names()[0] == studies.DEFAULT


@pytest.mark.usefixtures("mine")
def test_unknown_study_names_the_option(qop_here: Qop) -> None:
    done = qop_here("run", "hops", "--dry-run")
    assert done.returncode == 2
    assert done.stderr.endswith("or name the folder of your studies with --study-path\n")


@pytest.mark.usefixtures("mine")
def test_option_and_variable_add_up(qop_here: Qop, monkeypatch: pytest.MonkeyPatch) -> None:
    """The checkout's own folder, and a folder that is named twice, change nothing."""
    own_study.write_study(qop_here.folder / "other" / "unused", {"study.py": ""})
    monkeypatch.setenv(studies.PATH_VARIABLE, f"other:mine:{PROJECT / 'studies'}")
    assert qop_here("run", "hops", "--study-path", "mine", "--dry-run").returncode == 0
    assert os.environ[studies.PATH_VARIABLE] == \
        f"{qop_here.folder}/mine:{qop_here.folder}/other"
    assert {"hops", "unused", *(path.parent.name for path in PROJECT.glob("studies/*/study.py"))} \
        == set(studies.study_names())


def test_broken_study_is_named_by_its_path(mine: Path, qop_here: Qop) -> None:
    file = mine / "hops" / "study.py"
    other_workload = file.read_text().replace("studies.hops.workload", "studies.hops.gone")
    by_zero = (f"cannot be loaded (ZeroDivisionError: division by zero, in line 1 of {file}); "
               f"correct it, or move the folder out of {mine}/")
    for text, reason in (("1 / 0\n", by_zero), (other_workload, (
            "its STUDY names 'studies.hops.gone' to run in the machine"))):
        file.write_text(text)
        sys.modules.pop("studies.hops.study", None)
        done = qop_here("run", "hops", "--study-path", "mine", "--dry-run")
        assert done.returncode == 2 and done.stderr.count("\n") == 1
        assert f"qop: {mine}/hops: {reason}" in done.stderr


def test_child_process_finds_the_study(mine: Path) -> None:
    study_path.use_study_path("run", ["hops", "--study-path", str(mine)])
    done = subprocess.run(
        [sys.executable, "-c", "import studies; print(studies.load_study('hops').title)"],
        env={**os.environ, "PYTHONPATH": str(PROJECT)}, capture_output=True, text=True, check=True)
    assert done.stdout == "Round-trip time by hops of wire\n"


def test_options_of_a_labs_command_are_its_own(tmp_path: Path) -> None:
    study_path.use_study_path("lab", ["--study", "qop2007", "ls", "--study-path", "gone"])
    study_path.use_study_path("run", ["--", "--study-path", "gone"])
    assert studies.PATH_VARIABLE not in os.environ and not (tmp_path / "gone").exists()


def test_worker_gets_the_study(mine: Path) -> None:
    """The code in a guest has the study as `studies.hops`, without hidden files."""
    (mine / "hops" / ".git").mkdir()
    (mine / "hops" / ".git" / "HEAD").write_text("x")
    studies.extend_search_path([str(mine)])
    files = dict(machine._list_files("hops"))
    own = {name: file.content for name, file in files.items() if name.startswith("studies/")}
    assert own == {"studies/__init__.py": b"", "studies/hops/__init__.py": b"", **{
        f"studies/hops/{name}": (mine / "hops" / name).read_bytes()
        for name in ("study.py", "workload.py")}}


def digest_of(folder: Path) -> tuple[str, dict[str, str]]:
    """Return the digests of the code while a folder is on the search path."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(studies.PATH_VARIABLE, str(folder))
        provenance.hash_code.cache_clear()
        return provenance.hash_code("hops"), provenance.hash_outside_study("hops")


def test_digest_of_the_code_includes_the_study_by_content(mine: Path, tmp_path: Path) -> None:
    """The digest is equal wherever the folder is, and changes with each file of the code."""
    own_study.write_study(tmp_path / "elsewhere" / "hops", own_study.tutorial())
    first = digest_of(mine)
    assert list(first[1]) == ["study_sha256"] and provenance.hash_outside_study("qop2007") == {}
    for name in (".git/HEAD", "__pycache__/study.cpython-311.pyc"):
        (mine / "hops" / name).parent.mkdir()
        (mine / "hops" / name).write_text("x")
    assert digest_of(tmp_path / "elsewhere") == first == digest_of(mine)
    (mine / "hops" / "workload.py").write_text("")
    changed = digest_of(mine)
    assert changed[0] != first[0] and changed[1] != first[1]


@pytest.mark.guest
@pytest.mark.shareable
def test_study_outside_is_measured_and_judged_anew(mine: Path, qop: Qop) -> None:
    """A guest gets the code; the archive is judged anew where the folder is named."""
    done = qop("run", "hops", "--study-path", "mine", "--clock", "virtual", "--only", "hops=2",
               "--repetitions", "1", "--out", "out")
    assert done.returncode == 0, done.stderr
    assert "2-001: round-trip time 4.00 ms; 3 checks hold" in done.stderr
    code = json.loads((qop.folder / "out" / "provenance.json").read_text())[0]["code"]
    assert code["study_sha256"] == digest_of(mine)[1]["study_sha256"]
    assert str(qop.folder) not in (qop.folder / "out" / "plan.json").read_text()
    assert qop("export", "out", "--output", "out.tar.gz", "--captures", "all").returncode == 0
    done = qop("verify", "--redo", "--study-path", "mine", "out.tar.gz")
    assert done.returncode == 0 and "1 records judged anew say the same" in done.stdout, done.stdout
    done = qop("verify", "--redo", "out.tar.gz")
    assert "no study 'hops'" in done.stdout + done.stderr
