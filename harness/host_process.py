"""Make this process independent of its caller.

It gets an environment, standard files, limits and signal handlers of its own. Programs that are
started later inherit these settings.
"""

from __future__ import annotations

import contextlib
import io
import os
import resource
import signal
import sys
import tempfile
import threading
import warnings
from multiprocessing import resource_tracker
from types import FrameType
from typing import TYPE_CHECKING, Any, TextIO

from harness.errors import UserError

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

    from _typeshed import ReadableBuffer

#: Environment variables that are kept. All others could change the output or the code of programs:
#: locales, LD_PRELOAD, ANSIBLE_STDOUT_CALLBACK, WIRESHARK_CONFIG_DIR, POSIXLY_CORRECT.
_KEPT = frozenset({
    "APT_CONFIG", "BROWSER", "CI", "COLORTERM", "COLUMNS", "CURL_CA_BUNDLE", "DISPLAY",
    "FORCE_COLOR", "HOME", "LINES", "LOGNAME", "NO_COLOR", "PATH", "PWD", "PYTHONDONTWRITEBYTECODE",
    "PYTHONPATH", "REQUESTS_CA_BUNDLE", "SHELL", "SSH_AUTH_SOCK", "TERM", "TMPDIR", "TZ", "USER",
    "_QOP_COMPLETE", "all_proxy", "ftp_proxy", "http_proxy", "https_proxy", "no_proxy",
    "ALL_PROXY", "FTP_PROXY", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"})
_KEPT_PREFIXES = ("COVERAGE_", "HYPOTHESIS_", "MKL_", "OMP_", "OPENBLAS_", "PIP_", "PYTEST_",
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


class _Output(io.FileIO):
    """A standard output that reports a write error on one line.

    An example is the error of a full disk.
    """

    def write(self, data: ReadableBuffer, /) -> int:
        """Write data to the file.

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


class _Complaints(io.FileIO):
    """A standard error that drops data it cannot write.

    There is nowhere to report such a failure.
    """

    def write(self, data: ReadableBuffer, /) -> int:
        """Write data to the file, or drop it if the write fails."""
        with contextlib.suppress(OSError):
            return super().write(data) or 0
        return memoryview(data).nbytes


def prepare_process() -> None:
    """Set the environment and the standard files of this process.

    Soft limits are raised to the hard limits, and SIGCHLD gets its default action.
    """
    kept = _kept_environment(dict(os.environ))
    os.environ.clear()
    os.environ.update(kept)
    _open_standard_files()
    for limit in (resource.RLIMIT_NOFILE, resource.RLIMIT_AS):
        _, hard = resource.getrlimit(limit)
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(limit, (hard, hard))
    # If the caller ignores SIGCHLD, the exit status of children would be lost.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    sys.unraisablehook = _heed_interruption
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
    """Redirect standard output to /dev/null, so that buffered output cannot fail at exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)


def _kept_environment(callers: dict[str, str]) -> dict[str, str]:
    kept = {name: value for name, value in callers.items()
            if name in _KEPT or name.startswith(_KEPT_PREFIXES)}
    return kept | {"LC_ALL": _LOCALE}


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
    sys.stdout = _open_text(_Output(1, "w", closefd=False), sys.stdout)
    sys.stderr = _open_text(_Complaints(2, "w", closefd=False), sys.stderr, line_buffering=True)


def _open_text(file: io.FileIO, before: TextIO | None, *,
               line_buffering: bool = False) -> io.TextIOWrapper:
    # A character that the caller's locale lacks must not cause a failure.
    errors = (before and before.errors) or "strict"
    return io.TextIOWrapper(
        io.BufferedWriter(file), encoding=(before and before.encoding) or "utf-8",
        errors="replace" if errors == "strict" else errors,
        line_buffering=line_buffering or file.isatty())


def block_interruption() -> None:
    """Block SIGINT while an interrupted process exits with its own status.

    Where SIGINT came within `exec` (a dataclass is made so), Python takes the handled interruption
    for an unhandled one and ends itself by SIGINT.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})


def _exit_interrupted(_number: int, _frame: FrameType | None) -> None:
    with contextlib.suppress(OSError):
        os.write(2, b"qop: interrupted\n")
    if playing := sys.modules.get("harness.playing"):
        playing.end_unused_player()
    os._exit(INTERRUPTED)


def _heed_interruption(unraisable: UnraisableHookArgs) -> None:
    """Send SIGINT again if it interrupted code whose exceptions Python drops."""
    if unraisable.exc_type is not KeyboardInterrupt:
        sys.__unraisablehook__(unraisable)
        return
    with contextlib.suppress(RuntimeError):  # no thread can start while Python exits
        threading.Timer(_AGAIN_S, os.kill, (os.getpid(), signal.SIGINT)).start()


def _silence_resource_tracker() -> None:
    """Keep the process that tracks semaphores from printing.

    If that process is killed, Python starts a new one. The new one prints a traceback for each
    semaphore that was registered with the old one. The process that made a semaphore removes it.
    """
    # Python offers no public access to the tracker that it uses.
    tracker: Any = resource_tracker._resource_tracker  # noqa: SLF001
    start = tracker.ensure_running

    def start_silently() -> None:
        if tracker._fd is not None and tracker._check_alive():  # noqa: SLF001
            return
        kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 2)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                start()
        finally:
            os.dup2(kept, 2)
            os.close(kept)
            os.close(nowhere)

    tracker.ensure_running = start_silently
