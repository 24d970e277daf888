"""The caller's environment, limits, files and signals: none changes what a command does."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence

import pytest

from conftest import PATIENCE_S, PROJECT
from harness import cli, host_process

_PREPARED = "from harness import host_process; host_process.prepare_process(); "


def run_prepared(program: str, *, prefix: Sequence[str] = (), output: int = subprocess.PIPE,
                 **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a Python program that prepares its process first."""
    return subprocess.run([*prefix, sys.executable, "-c", _PREPARED + program], text=True,
                          stdout=output, stderr=subprocess.PIPE, check=False, cwd=PROJECT,
                          env={**os.environ, "PYTHONPATH": str(PROJECT), **variables})


@pytest.mark.parametrize("variable", [
    "LC_NUMERIC", "LANG", "LANGUAGE", "LD_PRELOAD", "ANSIBLE_STDOUT_CALLBACK", "PYTHONIOENCODING",
    "WIRESHARK_CONFIG_DIR", "POSIXLY_CORRECT", "GREP_OPTIONS"])
def test_variable_of_the_caller_reaches_no_program(variable: str) -> None:
    done = run_prepared("import subprocess; subprocess.run(['env'])", **{variable: "utf-8"})
    assert f"{variable}=" not in done.stdout
    assert "LC_ALL=C.UTF-8" in done.stdout.splitlines()


def test_variables_that_programs_need_are_kept() -> None:
    given = {"HOME": "/home/x", "https_proxy": "http://proxy:1", "QOP_CACHE": "/cache",
             "XDG_CACHE_HOME": "/xdg", "NO_COLOR": "1", "TMPDIR": "/tmp", "COLUMNS": "70"}
    done = run_prepared("import subprocess; subprocess.run(['env'])", **given)
    assert {f"{name}={value}" for name, value in given.items()} <= set(done.stdout.splitlines())


@pytest.mark.parametrize("closed", [0, 1, 2])
def test_closed_standard_file_is_no_file_of_ours(closed: int) -> None:
    """A file that is opened next does not get its number, and printing does not fail."""
    prefix = ("sh", "-c", f'exec "$@" {closed}<&-', "sh")
    done = run_prepared("import os, sys; print('out'); print('err', file=sys.stderr); "
                        "sys.exit(min(os.open('/dev/null', 0), 9))", prefix=prefix)
    assert done.returncode > 2 and "Traceback" not in done.stderr
    assert done.stdout == ("" if closed == 1 else "out\n")


def test_full_standard_output_is_one_line() -> None:
    full = os.open("/dev/full", os.O_WRONLY)
    done = subprocess.run([sys.executable, "-m", "harness", "studies"], stdout=full,
                          stderr=subprocess.PIPE, text=True, check=False, cwd=PROJECT)
    os.close(full)
    assert done.returncode == 1
    assert done.stderr == ("qop: standard output: cannot be written (No space left on device); "
                           "send it somewhere else, nothing that was measured is lost\n")


def test_full_standard_error_ends_nothing() -> None:
    full = os.open("/dev/full", os.O_WRONLY)
    program = "import sys; print('lost', file=sys.stderr, flush=True); print('kept')"
    done = subprocess.run([sys.executable, "-c", _PREPARED + program], stdout=subprocess.PIPE,
                          stderr=full, text=True, check=False, cwd=PROJECT)
    os.close(full)
    assert (done.returncode, done.stdout) == (0, "kept\n")


@pytest.mark.parametrize(("limit", "said"), [
    ("--nofile=16", "this process may open only 16 files; allow at least 256: ulimit -n 256"),
    ("--as=500000000", "may have only 500 MB of address space; allow at least 2000 MB")])
def test_limit_that_is_too_low_is_one_line(limit: str, said: str) -> None:
    done = subprocess.run(["prlimit", limit, sys.executable, "-m", "harness", "status", "x"],
                          capture_output=True, text=True, check=False, cwd=PROJECT)
    assert done.returncode == 2
    assert said in done.stderr and done.stderr.count("\n") == 1


def test_soft_limit_is_raised() -> None:
    done = run_prepared("import resource; print(resource.getrlimit(resource.RLIMIT_NOFILE)[0])",
                        prefix=("prlimit", "--nofile=16:1024"))
    assert done.stdout == "1024\n"


def test_read_only_shared_memory_is_one_line() -> None:
    prefix = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c",
              'mount -t tmpfs -o ro none /dev/shm; exec "$@"', "sh"]
    done = subprocess.run([*prefix, sys.executable, "-m", "harness", "run", "--dry-run"],
                          capture_output=True, text=True, check=False, cwd=PROJECT)
    assert done.returncode == 2
    assert done.stderr.startswith("qop: /dev/shm: cannot be written (Read-only file system)")
    assert done.stderr.count("\n") == 1


def test_children_are_awaited_where_the_caller_ignores_their_ends() -> None:
    program = ("import signal; signal.signal(signal.SIGCHLD, signal.SIG_IGN); "
               f"{_PREPARED}import subprocess; print(subprocess.run(['false']).returncode)")
    assert run_prepared(program).stdout == "1\n"


@pytest.mark.parametrize("arguments", [("status", "nowhere"), ("report", "--published")])
@pytest.mark.parametrize("part", range(3))
def test_interruption_while_modules_are_imported_is_one_line(
        arguments: Sequence[str], part: int) -> None:
    """Whenever Ctrl-C comes, Python's own start included: one line, status 130."""
    command = ["env", "--block-signal=INT", sys.executable, "-P", "-m", "harness", *arguments]
    begun = time.monotonic()
    subprocess.run(command, capture_output=True, check=False, cwd=PROJECT,
                   env={**os.environ, "PYTHONPATH": str(PROJECT)})
    took_s = time.monotonic() - begun
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               cwd=PROJECT, env={**os.environ, "PYTHONPATH": str(PROJECT)})
    time.sleep(took_s * (part + 0.1) / 5)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=PATIENCE_S)
    assert "Traceback" not in said
    # It may have been quicker this time.
    assert (process.returncode, said.strip()) == (host_process.INTERRUPTED, "qop: interrupted") or (
        process.returncode in (0, 2) and "interrupted" not in said)


def test_interruption_while_ansibles_module_is_half_imported_is_one_line() -> None:
    program = ("import os, signal, sys, types; from harness import host_process; "
               "sys.modules['harness.ansible_process'] = types.ModuleType('half'); "
               "host_process.exit_when_interrupted(); os.kill(os.getpid(), signal.SIGINT)")
    done = run_prepared(program)
    assert (done.returncode, done.stderr) == (host_process.INTERRUPTED, "qop: interrupted\n")


def test_interruption_in_code_whose_errors_python_drops_is_not_lost() -> None:
    """As in a finaliser: Python prints a traceback there, and goes on."""
    program = """
class Fragile:
    def __del__(self):
        raise KeyboardInterrupt
try:
    Fragile()
    import time; time.sleep(60)
except KeyboardInterrupt:
    print('heeded')
"""
    done = run_prepared("\n" + program)
    assert (done.stdout, done.stderr) == ("heeded\n", "")


def test_killed_resource_tracker_prints_nothing() -> None:
    program = """
import multiprocessing, os, signal, time
from multiprocessing import resource_tracker as tracker
context = multiprocessing.get_context("spawn")
before = [context.Lock() for _ in range(5)]
os.kill(tracker._resource_tracker._pid, signal.SIGKILL)
time.sleep(0.1)
context.Lock()
del before
tracker._resource_tracker._stop()
"""
    done = run_prepared("\n" + program)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("error", [
    KeyboardInterrupt(), RuntimeError("Error calling __set_name__")])
def test_interruption_that_became_another_error_is_seen(error: BaseException) -> None:
    if not isinstance(error, KeyboardInterrupt):
        error.__cause__ = ImportError("numpy")
        error.__cause__.__context__ = KeyboardInterrupt()
    assert cli._is_interruption(error)
    assert not cli._is_interruption(RuntimeError("broken"))


def test_shells_that_start_python_hold_the_interruption_back() -> None:
    """Python prints a traceback of one that comes while it starts."""
    for script in ("qop", "harness/container/start"):
        last = (PROJECT / script).read_text().splitlines()[-1]
        assert "env --block-signal=INT" in last and last.endswith('-P -m harness "$@"')
    assert shutil.which("env")
