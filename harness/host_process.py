"""Prepare the qop process: environment, standard streams, resource limits and signals.

Programs that qop starts later inherit these settings. Output is converted to ASCII if the
terminal's encoding lacks characters. SIGTERM and SIGHUP interrupt like Ctrl-C, so that everything
is cleaned up before the end.
"""

from __future__ import annotations

import atexit
import codecs
import contextlib
import io
import os
import resource
import signal
import sys
import tempfile
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn, TextIO

from harness.errors import UserError

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

    from _typeshed import ReadableBuffer


# --- Environment, standard files, limits and SIGINT ---

#: Environment variables that are kept. All others could change the output or the code of programs:
#: locales, LD_PRELOAD, ANSIBLE_STDOUT_CALLBACK, WIRESHARK_CONFIG_DIR, POSIXLY_CORRECT.
_KEPT_VARIABLES = frozenset({
    "APT_CONFIG", "BROWSER", "CI", "COLORTERM", "COLUMNS", "CURL_CA_BUNDLE", "DISPLAY",
    "FORCE_COLOR", "HOME", "LINES", "LOGNAME", "NO_COLOR", "PATH", "PWD", "PYTHONDONTWRITEBYTECODE",
    "PYTHONPATH", "REQUESTS_CA_BUNDLE", "SHELL", "SSH_AUTH_SOCK", "TERM", "TMPDIR", "TZ", "USER",
    "_QOP_COMPLETE", "all_proxy", "ftp_proxy", "http_proxy", "https_proxy", "no_proxy",
    "ALL_PROXY", "FTP_PROXY", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"})
_KEPT_VARIABLE_PREFIXES = ("COVERAGE_", "HYPOTHESIS_", "MKL_", "OMP_", "OPENBLAS_", "PIP_",
                           "PYTEST_",
                           "QOP_", "SSL_CERT_", "VAGRANT_", "XDG_")
#: A locale that every C library of Debian has, even if no locale was generated.
_LOCALE = "C.UTF-8"
#: Open files that a run on two processors needs. 110 were counted for this process; guests have
#: limits of their own.
_OPEN_FILES = 256
#: Address space that pandas, SciPy and a guest need in one process, in bytes. 1.0 GB was enough.
_ADDRESS_SPACE_BYTES = 2_000_000_000
_SHARED_MEMORY = "/dev/shm"
#: Exit status of an interrupted command, by the shells' convention.
INTERRUPTED = 130
#: Delay in seconds before SIGINT is sent again, to run outside of the code that dropped it.
_AGAIN_S = 0.02


class _StandardOutput(io.FileIO):
    """A standard output that reports a write error, such as a full disk, on one line."""

    def write(self, data: ReadableBuffer, /) -> int:
        """Write data to standard output.

        Raises:
            UserError: The write failed for another reason than a closed pipe.
        """
        try:
            return super().write(data) or 0
        except BrokenPipeError:
            raise
        except OSError as error:
            give_up_output()
            raise UserError(f"standard output: cannot be written ({error.strerror}); send it "
                            "somewhere else, nothing that was measured is lost", status=1) from None


class _StandardError(io.FileIO):
    """A standard error stream that drops text that it cannot write.

    There is no other stream to report such a failure to.
    """

    def write(self, data: ReadableBuffer, /) -> int:
        """Write data to standard error, or drop the data if writing fails."""
        with contextlib.suppress(OSError):
            return super().write(data) or 0
        return memoryview(data).nbytes


def prepare_process() -> None:
    """Set the environment and the standard files of this process.

    Soft limits are raised to the hard limits, and SIGCHLD gets its default action.
    """
    environment = _kept_environment(dict(os.environ))
    os.environ.clear()
    os.environ.update(environment)
    _open_standard_files()
    for limit in (resource.RLIMIT_NOFILE, resource.RLIMIT_AS):
        _, hard = resource.getrlimit(limit)
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(limit, (hard, hard))
    # If the caller ignores SIGCHLD, the exit status of children would be lost.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    sys.unraisablehook = _repeat_interruption
    _silence_resource_tracker()


def require_limits(*, measures: bool) -> None:
    """Refuse to start if a limit of this process is too low.

    Args:
        measures: Whether guests and process pools will run, too.

    Raises:
        UserError: Too few open files or too little address space is allowed, or shared memory
            cannot be written.
    """
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files != resource.RLIM_INFINITY and files < _OPEN_FILES:
        raise UserError(f"this process may open only {files} files; allow at least {_OPEN_FILES}: "
                        f"ulimit -n {_OPEN_FILES}")
    space, _ = resource.getrlimit(resource.RLIMIT_AS)
    if space != resource.RLIM_INFINITY and space < _ADDRESS_SPACE_BYTES:
        raise UserError(f"this process may have only {space // 1_000_000} MB of address space; "
                        f"allow at least {_ADDRESS_SPACE_BYTES // 1_000_000} MB: "
                        "ulimit -v unlimited")
    if measures:
        try:
            with tempfile.TemporaryFile(dir=_SHARED_MEMORY):
                pass
        except OSError as error:
            raise UserError(f"{_SHARED_MEMORY}: cannot be written ({error.strerror}), and Ansible "
                            "and pools of processes need it; mount it writable: "
                            f"mount -o remount,rw {_SHARED_MEMORY}") from None


def exit_when_interrupted() -> None:
    """Let Ctrl-C end this process with one line while modules are imported.

    An exception in the middle of an import would turn into another error. The entry point blocks
    SIGINT until this function is called.
    """
    if signal.getsignal(signal.SIGINT) != signal.SIG_IGN:
        signal.signal(signal.SIGINT, _exit_interrupted)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def raise_when_interrupted() -> None:
    """Let Ctrl-C raise KeyboardInterrupt from now on, as usual in Python."""
    if signal.getsignal(signal.SIGINT) == _exit_interrupted:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def give_up_output() -> None:
    """Redirect standard output to /dev/null, so that flushing it at exit cannot fail."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)


def _kept_environment(callers: dict[str, str]) -> dict[str, str]:
    environment = {name: value for name, value in callers.items()
                   if name in _KEPT_VARIABLES or name.startswith(_KEPT_VARIABLE_PREFIXES)}
    return environment | {"LC_ALL": _LOCALE}


def _open_standard_files() -> None:
    for number, how in ((0, os.O_RDONLY), (1, os.O_WRONLY), (2, os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:  # the caller closed it; the next file would get its number
            opened = os.open(os.devnull, how)
            os.dup2(opened, number)
            os.set_inheritable(number, True)  # noqa: FBT003 - the system's shape
            if opened != number:
                os.close(opened)
    sys.stdin = sys.stdin or open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stdout = _open_text(_StandardOutput(1, "w", closefd=False), sys.stdout)
    sys.stderr = _open_text(_StandardError(2, "w", closefd=False), sys.stderr, line_buffering=True)


def _open_text(file: io.FileIO, before: TextIO | None, *,
               line_buffering: bool = False) -> io.TextIOWrapper:
    # A character that the caller's locale lacks must not cause a failure.
    errors = (before and before.errors) or "strict"
    return io.TextIOWrapper(
        io.BufferedWriter(file), encoding=(before and before.encoding) or "utf-8",
        errors="replace" if errors == "strict" else errors,
        line_buffering=line_buffering or file.isatty())


def ignore_interruption() -> None:
    """Ignore Ctrl-C from now on, because the command has ended and its exit status is known."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def exit_with_interrupted_status() -> NoReturn:
    """End an interrupted process with the exit status for Ctrl-C (130).

    Python itself may end by SIGINT if the interruption came within `exec`, for instance while a
    dataclass is created. A thread of a library may receive that signal, so blocking it in the main
    thread is not enough.
    """
    threading._shutdown()  # type: ignore[attr-defined]  # noqa: SLF001 - as Python's own exit
    atexit._run_exitfuncs()  # noqa: SLF001
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(INTERRUPTED)


def _exit_interrupted(_number: int, _frame: FrameType | None) -> None:
    with contextlib.suppress(OSError):
        os.write(2, b"qop: interrupted\n")
    # The module may be half imported, and has started no process then.
    running = sys.modules.get("harness.ansible_process")
    if end := getattr(running, "end_unused_process", None):
        end()
    os._exit(INTERRUPTED)


def _repeat_interruption(unraisable: UnraisableHookArgs) -> None:
    """Send SIGINT again if Ctrl-C interrupted code whose exceptions Python ignores.

    Such code is a destructor, for instance.
    """
    if unraisable.exc_type is not KeyboardInterrupt:
        sys.__unraisablehook__(unraisable)
        return
    with contextlib.suppress(RuntimeError):  # no thread can start while Python exits
        threading.Timer(_AGAIN_S, os.kill, (os.getpid(), signal.SIGINT)).start()


def _silence_resource_tracker() -> None:
    """Keep Python's resource tracker (of semaphores) from printing tracebacks.

    If the tracker is killed, Python starts a new one. The new one prints a traceback for each
    semaphore that the old one had registered. The process that created a semaphore removes it
    anyway.
    """
    # Python offers no public access to the tracker that it uses.
    tracker: Any = resource_tracker._resource_tracker  # noqa: SLF001
    start = tracker.ensure_running

    def start_silently() -> None:
        if tracker._fd is not None and tracker._check_alive():  # noqa: SLF001
            return
        stderr, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 2)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                start()
        finally:
            os.dup2(stderr, 2)
            os.close(stderr)
            os.close(nowhere)

    tracker.ensure_running = start_silently


# --- Output: ASCII in place of characters that the encoding lacks ---

#: Name of the replacement in Python's codec registry.
_ENCODING_ERRORS = "qop-ascii"
#: ASCII replacements of the characters in tables and sentences.
_ASCII = {
    "\N{GREEK SMALL LETTER SIGMA}": "sigma", "\N{MICRO SIGN}": "u", "\N{DEGREE SIGN}": "o",
    "\N{PLUS-MINUS SIGN}": "+-", "\N{NO-BREAK SPACE}": " ", "\N{BLACK CIRCLE}": "*",
    "\N{BLACK STAR}": "#", "\N{NOT EQUAL TO}": "!=", "\N{EN DASH}": "-", "\N{MINUS SIGN}": "-",
    "\N{BOX DRAWINGS LIGHT HORIZONTAL}": "-", "\N{HORIZONTAL ELLIPSIS}": "...",
    "\N{SINGLE LEFT-POINTING ANGLE QUOTATION MARK}": "<",
    "\N{SINGLE RIGHT-POINTING ANGLE QUOTATION MARK}": ">"}


def replace_unencodable() -> None:
    """Make standard output and standard error replace characters that their encoding lacks."""
    codecs.register_error(_ENCODING_ERRORS, _replace_by_ascii)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=_ENCODING_ERRORS)


def _replace_by_ascii(error: UnicodeError) -> tuple[str, int]:
    """Return the ASCII replacement of characters that cannot be encoded.

    This is a codec error handler: the second value is the position to continue at.
    """
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lacking = error.object[error.start:error.end]
    return "".join(_ASCII.get(character, "?") for character in lacking), error.end


# --- SIGTERM and SIGHUP: handled like Ctrl-C, so that everything is cleaned up ---

_INTERRUPTING_SIGNALS = (signal.SIGTERM, signal.SIGHUP)


@contextmanager
def raise_interrupt_on_signals() -> Iterator[None]:
    """Raise KeyboardInterrupt on SIGTERM and SIGHUP inside the context (main thread only)."""
    def interrupt(number: int, frame: FrameType | None) -> None:  # noqa: ARG001  # signal's shape
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in _INTERRUPTING_SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
