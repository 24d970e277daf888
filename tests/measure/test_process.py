"""Tests of measure.agent.process with real small programs: ready, late, dead, stubborn, gone."""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import wait_until
from measure.agent.errors import MeasureError
from measure.agent.process import Daemon


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Where a daemon's output goes."""
    return tmp_path / "daemon.log"


def _children() -> set[str]:
    """Process ids of this process' children, zombies too; other tests' may be among them."""
    found: set[str] = set()
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(FileNotFoundError):  # a thread that has just ended
            found |= set((task / "children").read_text().split())
    return found


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    """No test leaves a child (running or zombie) behind."""
    children = _children()
    yield
    assert _children() == children


def shell(script: str, log: Path, *, ready: str = "^ready", timeout_s: float = 10.0,
          stop_signal: signal.Signals = signal.SIGTERM,
          env: dict[str, str] | None = None) -> Daemon:
    """A daemon that is a shell script."""
    return start(["sh", "-c", script], log, ready=ready, timeout_s=timeout_s,
                 stop_signal=stop_signal, env=env)


def start(argv: list[str], log: Path, *, ready: str = "^ready", timeout_s: float = 10.0,
          stop_signal: signal.Signals = signal.SIGTERM,
          env: dict[str, str] | None = None) -> Daemon:
    """Any program as a daemon."""
    return Daemon("test daemon", argv, log, ready, timeout_s=timeout_s, stop_signal=stop_signal,
                  env=env)


def is_gone(pid: int) -> bool:
    """Whether no process has this id."""
    return not Path(f"/proc/{pid}").exists()


# Ready ---------------------------------------------------------------------------------------


def test_ready_line_ends_the_wait(log: Path) -> None:
    """Ready is when the line is there, however long the time limit."""
    with shell("echo starting; sleep 0.1; echo ready now; exec sleep infinity", log,
               timeout_s=100_000) as daemon:
        assert daemon.wait_ready() is daemon
        assert daemon.process.poll() is None
    assert is_gone(daemon.pid)


def test_ready_line_on_standard_error_counts(log: Path) -> None:
    """Daemons say it on either stream."""
    with shell("echo 'well: ready' >&2; exec sleep 60", log, ready=r"ready$") as daemon:
        daemon.wait_ready()


def test_ready_before_it_is_waited_for(log: Path) -> None:
    """Slow starters are started all at once and waited for afterwards, in any order."""
    with shell("echo ready; exec sleep 60", log) as daemon:
        wait_until(daemon.last_lines)
        daemon.wait_ready()
        daemon.wait_ready()


def test_never_ready_is_an_error_with_its_last_words(log: Path) -> None:
    """The error names daemon, limit, last output and log; the daemon is ended."""
    daemon = shell("echo cannot find interface; echo; exec sleep 60", log, timeout_s=0.3)
    with pytest.raises(MeasureError, match=r"test daemon gave no sign of being ready within 0\.3 s:"
                       r" cannot find interface \(log: daemon\.log\)") as caught:
        daemon.wait_ready()
    assert caught.value.stage == "testbed"
    assert is_gone(daemon.pid)


def test_silent_daemon(log: Path) -> None:
    """A daemon that never said a word is told from one that did."""
    daemon = shell("exec sleep 60", log, timeout_s=0.2)
    with pytest.raises(MeasureError, match="no output"):
        daemon.wait_ready()


def test_early_death_is_noticed_at_once(log: Path) -> None:
    """A daemon that dies is not waited for until the limit."""
    daemon = shell("echo bad configuration; exit 3", log, timeout_s=100_000)
    daemon.process.wait()
    with pytest.raises(MeasureError, match=r"test daemon ended with status 3 .*bad configuration"):
        daemon.wait_ready()


def test_death_after_the_end_of_output_is_told(log: Path) -> None:
    """Output closes before a process can be waited for; the status is still given."""
    daemon = shell("echo bad configuration; exec >&- 2>&-; sleep 0.3; exit 3", log)
    with pytest.raises(MeasureError, match="ended with status 3"):
        daemon.wait_ready()


def test_missing_program_is_an_os_error(log: Path) -> None:
    """A program that is not installed cannot be started, and is named."""
    with pytest.raises(FileNotFoundError, match="no-such-daemon"):
        Daemon("x", ["no-such-daemon"], log, "ready")


# The end -------------------------------------------------------------------------------------


def test_stop_signal_is_the_one_asked_for(log: Path) -> None:
    """Tcpdump writes its counts at SIGINT: the daemon may say goodbye, and it is heard."""
    # In one piece: it may be told to stop as soon as it has said so.
    script = ("import os, signal, sys\n"
              "signal.signal(signal.SIGINT, lambda *_: sys.exit('79 packets captured'))\n"
              "os.write(1, b'ready\\n')\nsignal.pause()\n")
    daemon = start(["python3", "-c", script], log, stop_signal=signal.SIGINT)
    daemon.wait_ready()
    daemon.stop()
    assert daemon.last_lines() == ["ready", "79 packets captured"]
    assert log.read_text().splitlines() == ["ready", "79 packets captured"]


def test_stubborn_daemon_is_killed(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who ignores SIGTERM is killed after a moment."""
    monkeypatch.setattr("measure.agent.process._STOP_S", 0.3)
    script = ("import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
              "print('ready', flush=True)\nwhile True: signal.pause()\n")
    daemon = start(["python3", "-c", script], log)
    daemon.wait_ready()
    began = time.monotonic()
    daemon.stop()
    assert time.monotonic() - began >= 0.3
    assert daemon.process.returncode == -signal.SIGKILL
    assert is_gone(daemon.pid)


def test_daemon_held_still_is_ended(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stopped process (the port check holds RADIUS so) does not survive."""
    monkeypatch.setattr("measure.agent.process._STOP_S", 0.3)
    daemon = shell("echo ready; exec sleep 60", log).wait_ready()
    os.kill(daemon.pid, signal.SIGSTOP)
    daemon.stop()
    assert is_gone(daemon.pid)


def test_stop_twice_and_after_death(log: Path) -> None:
    """Stopping what is stopped, or what died by itself, does nothing and signals nobody."""
    daemon = shell("echo ready; exit 0", log)
    daemon.process.wait(10)
    daemon.stop()
    daemon.stop()
    assert daemon.process.returncode == 0


def test_leaving_the_context_ends_it_on_an_error(log: Path) -> None:
    """An exception in between is no way out for a daemon."""
    daemon = shell("echo ready; exec sleep 60", log)

    def use() -> None:
        with daemon:
            daemon.wait_ready()
            raise KeyError
    with pytest.raises(KeyError):
        use()
    assert is_gone(daemon.pid)


def test_nobody_reads_along(log: Path) -> None:
    """While a daemon is timed, no thread waits for its words, nor is a descriptor open for them."""
    threads, open_before = set(threading.enumerate()), _descriptors()
    with shell("echo ready; exec sleep 60", log) as daemon:
        daemon.wait_ready()
        assert not set(threading.enumerate()) - threads
        assert _descriptors() == open_before
        assert daemon.process.stdout is None


def _descriptors() -> int:
    """How many this process has open."""
    return len(list(Path("/proc/self/fd").iterdir()))


# Output --------------------------------------------------------------------------------------


def test_output_is_kept_whole_in_the_log_and_in_part_at_hand(log: Path) -> None:
    """The log has every line, the tail the last dozen, and the ready line may be far above."""
    daemon = shell("echo ready; seq 1 500", log)
    daemon.wait_ready()
    daemon.process.wait(10)
    daemon.stop()
    assert log.read_text().splitlines() == ["ready", *map(str, range(1, 501))]
    assert daemon.last_lines() == [str(number) for number in range(489, 501)]
    assert daemon.find_cause() == "500"


def test_log_is_appended_to(log: Path) -> None:
    """Repetition after repetition goes into one log."""
    for _ in range(2):
        daemon = shell("echo ready", log)
        daemon.process.wait(10)
        daemon.stop()
    assert log.read_text() == "ready\nready\n"


def test_what_an_earlier_daemon_said_counts_for_nothing(log: Path) -> None:
    """Ready is who says so himself; the last words are his own."""
    shell("echo ready", log).process.wait(10)
    daemon = shell("exec sleep 60", log, timeout_s=0.2)
    with pytest.raises(MeasureError, match=r"no sign of being ready .*no output"):
        daemon.wait_ready()


def test_odd_bytes_are_kept_and_shown(log: Path) -> None:
    """Bytes that are no UTF-8 reach the log unchanged and the error readable."""
    daemon = shell(r"printf 'caf\351\n'; exit 1", log)
    with pytest.raises(MeasureError, match="caf�"):
        daemon.wait_ready()
    assert log.read_bytes() == b"caf\xe9\n"


def test_environment_is_the_one_given(log: Path) -> None:
    """Variables of the daemon's own replace those of this process."""
    daemon = shell('echo "ready $QOP_TEST ${HOME-none}"', log,
                   env={"QOP_TEST": "yes", "PATH": os.environ["PATH"]})
    daemon.process.wait(10)
    daemon.stop()
    assert daemon.last_lines() == ["ready yes none"]


def test_data_goes_to_its_file(log: Path, tmp_path: Path) -> None:
    """Standard output goes to the file as it is, and only standard error is read."""
    data = tmp_path / "data"
    script = r"printf 'ready\000\377'; echo ready >&2; exec sleep 60"
    with Daemon("test daemon", ["sh", "-c", script], log, "^ready", data=data) as daemon:
        daemon.wait_ready()
        assert data.read_bytes() == b"ready\0\xff"
        assert daemon.last_lines() == ["ready"]
    assert log.read_bytes() == b"ready\n"


def test_reason_survives_the_way_to_another_process() -> None:
    """A judge raises it in a process of its own; stage and reason arrive."""
    arrived = pickle.loads(pickle.dumps(MeasureError("data", "no packet comes back")))
    assert (str(arrived), arrived.stage, arrived.reason) == (
        "no packet comes back", "data", "no packet comes back")
