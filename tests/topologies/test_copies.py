"""Copies of a program that waits before it begins; here that is a shell under tcpdump's name."""

from __future__ import annotations

import base64
import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from measure.charging import library
from topologies.fork_server import TcpdumpFork, TcpdumpForks


@pytest.fixture(name="shell")
def a_shell_that_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TcpdumpForks]:
    """What is started as tcpdump, and loads the library first."""
    (tmp_path / "tcpdump").symlink_to("/bin/sh")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    (preloaded := tmp_path / "copies.so").write_bytes(
        base64.b64decode(library.compile_library(library.COPIES)))
    with TcpdumpForks(preloaded) as copies:
        yield copies


def run(copies: TcpdumpForks, folder: Path, argv: Sequence[str], promptly_ms: int | None = None,
        of_process: int | None = None) -> tuple[TcpdumpFork, Path, Path]:
    """A copy, and the files that its output and errors go to."""
    output, said = folder / "output", folder / "said"
    with output.open("wb") as one, said.open("wb") as other:
        return copies.start_fork(argv, one, other, of_process=of_process,
                                 promptly_ms=promptly_ms), output, said


def test_a_copy_has_its_own_arguments_and_outputs(shell: TcpdumpForks, tmp_path: Path) -> None:
    """One after the other: nothing is left of what the last one was told."""
    for word, status in (("one", 3), ("two", 0)):
        copy, output, said = run(shell, tmp_path, [
            "tcpdump", "-c", f"echo {word} $0 $#; echo bad >&2; exit {status}", "name", word])
        assert copy.wait() == copy.wait() == copy.poll() == status
        assert output.read_text() == f"{word} name 1\n"
        assert said.read_text() == "bad\n"


def test_a_copy_is_a_child_of_who_asks(shell: TcpdumpForks, tmp_path: Path) -> None:
    """It can be waited for and ended, and several run side by side."""
    copies = [run(shell, tmp_path, ["tcpdump", "-c", "exec sleep 60"])[0] for _ in range(3)]
    assert [copy.poll() for copy in copies] == [None] * 3
    for copy in copies:
        parent = Path(f"/proc/{copy.pid}/stat").read_text().rpartition(")")[2].split()[1]
        assert int(parent) == os.getpid()
    copies[0].send_signal(signal.SIGINT)
    copies[1].kill()
    assert (copies[0].wait(), copies[1].wait(), copies[2].poll()) == (-2, -9, None)
    copies[2].kill()
    assert copies[2].wait() == -9
    copies[2].kill()  # nobody any more


def test_only_a_capture_that_is_told_how_prompt_it_is_has_heard_of_it(
    shell: TcpdumpForks, tmp_path: Path,
) -> None:
    """The next one has not, nor of the line that copies are asked for by."""
    for promptly_ms, heard in ((20, "20"), (None, "")):
        copy, output, _ = run(shell, tmp_path, [
            "tcpdump", "-c", "echo $QOP_PROMPTLY_MS,$QOP_COPIES_LINE"], promptly_ms)
        assert copy.wait() == 0
        assert output.read_text() == f"{heard},\n"


def test_where_there_is_no_such_process_nothing_is_captured(shell: TcpdumpForks,
                                                            tmp_path: Path) -> None:
    """Its network and mounts are entered before anything else is done; or its words say why not."""
    copy, output, said = run(shell, tmp_path, ["tcpdump", "-c", "echo here"], of_process=2 ** 22)
    assert copy.wait() == 1
    assert output.read_text() == ""
    assert "/ns/net: No such file" in said.read_text()


def test_one_that_has_ended_makes_no_copies(tmp_path: Path, shell: TcpdumpForks) -> None:
    """Who asks is told so in a line."""
    shell._process.kill()
    shell._process.wait()
    with pytest.raises(ChildProcessError, match="no copy of tcpdump"):
        run(shell, tmp_path, ["tcpdump", "-c", "echo here"])


def test_what_the_loader_says_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As of a library that another C library was meant for."""
    (tmp_path / "tcpdump").symlink_to("/bin/sh")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    (tmp_path / "newer.c").write_text("int of_newer(void); int one(void) { return of_newer(); }\n")
    subprocess.run([*library.ARGV, "-w", "-o", tmp_path / "newer.so", tmp_path / "newer.c"],
                   check=True)
    with TcpdumpForks(tmp_path / "newer.so") as copies, pytest.raises(
            ChildProcessError, match=r"could be started: .*undefined symbol: of_newer"):
        run(copies, tmp_path, ["tcpdump", "-c", "echo here"])
