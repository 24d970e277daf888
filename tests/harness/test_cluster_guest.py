"""Real workers, processes of this machine: what they measure, and what a killed one leaves."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import asyncssh
import psutil
import pytest

from conftest import PATIENCE_S, TESTS, Qop, wait_until
from guest.cache import cache_root
from measure.records.record import Record

pytestmark = [pytest.mark.guest, pytest.mark.shareable]

ARGUMENTS = ("--out", "out", "--scenarios", "N2", "--policies", "P1,P2", "--stream-bytes", "200k")
#: Repetitions of each policy, at first and in all. Which of the others are kept when a run ends
#: early depends on how far dissecting is behind measuring.
FIRST, ALL = ("--repetitions", "1"), ("--repetitions", "3")


class Lent:
    """Two workers, the first of which is the scheduler, too."""

    def __init__(self, qop: Qop) -> None:
        self.first = qop.start("worker", "--scheduler", "tls://127.0.0.1:0")
        self.where = said(self.first, "scheduler at ").split()[-1]
        said(self.first, "on other machines: QOP_CLUSTER_KEY=")
        said(self.first, "to measure from another: QOP_CLUSTER_KEY=")
        said(self.first, "worker at ")
        self.second = qop.start("worker", self.where)
        said(self.second, "worker at ")

    def end(self) -> list[int]:
        """Ask both to end; their exit statuses."""
        for one in (self.second, self.first):
            if one.poll() is None:
                one.send_signal(signal.SIGTERM)
            one.communicate(timeout=PATIENCE_S)
        return [self.first.returncode, self.second.returncode]


def said(process: subprocess.Popen[str], begin: str) -> str:
    """The next line of a process, which begins like this."""
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line.startswith(begin), (line, process.poll() is not None and process.communicate())
    return line


def cache_of(qop: Qop) -> Path:
    """A cache of the test's own, but for the images."""
    cache = qop.folder / "cache"
    cache.mkdir()
    for path in cache_root().iterdir():
        if path.name != "cluster":
            (cache / path.name).symlink_to(path)
    return cache


@pytest.fixture
def lent(qop: Qop, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lent]:
    """Two workers whose files are below the test's folder, so that what is left of them is seen."""
    monkeypatch.setenv("TMPDIR", str(qop.folder))
    monkeypatch.setenv("QOP_CACHE", str(cache_of(qop)))
    lent = Lent(qop)
    yield lent
    lent.end()


def guests(qop: Qop, patience_s: float = 0) -> list[str]:
    """Running guests of a folder."""
    found = [line for line in qop.left_over(0) if "mac80211_hwsim" in line]
    if found and patience_s > 0:
        wait_until(lambda: not guests(qop), patience_s)
        return []
    return found


def guests_of(process: subprocess.Popen[str]) -> list[psutil.Process]:
    """Running guests of a worker."""
    found = []
    for child in psutil.Process(process.pid).children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            found += [child] if "mac80211_hwsim" in " ".join(child.cmdline()) else []
    return found


def measure_first(qop: Qop, lent: Lent) -> dict[str, int]:
    """Measure a part of the plan to its end; its records, and when each was written."""
    done = qop("run", "--cluster", lent.where, *ARGUMENTS, *FIRST)
    assert done.returncode == 0, done.stderr
    kept = stamps(qop)
    assert len(kept) == 2
    return kept


def stamps(qop: Qop) -> dict[str, int]:
    """The records that are kept, and when each was written."""
    return {path.name: path.stat().st_mtime_ns
            for path in (qop.folder / "out" / "records").glob("*.json")}


def assert_whole(records: dict[str, Record]) -> None:
    """Every planned repetition is there, good, and measured by a worker."""
    assert records.keys() == {f"{policy}-N2-00{number}" for policy in ("P1", "P2")
                              for number in (1, 2, 3)}
    for found in records.values():
        assert found.status == "ok", found.reason
        assert found.environment["worker"] in {"worker-1", "worker-2"}
        assert found.captures


def test_a_killed_worker_costs_nothing_that_was_finished(qop: Qop, lent: Lent) -> None:
    """kill -9 in the middle: its guests go with it, the other measures the rest.

    All cells are there, and nothing listens anywhere but on the interface that was given.
    """
    for process, count in ((lent.first, 2), (lent.second, 1)):
        listening = [c.laddr for c in psutil.Process(process.pid).net_connections("inet")
                     if c.status == psutil.CONN_LISTEN]
        assert len(listening) == count and {address.ip for address in listening} == {"127.0.0.1"}
    before = measure_first(qop, lent)
    running = qop.start("run", "--cluster", lent.where, *ARGUMENTS, *ALL)
    wait_until(lambda: guests_of(lent.second))
    lent.second.kill()
    _, errors = running.communicate(timeout=PATIENCE_S)
    assert running.returncode == 0, errors
    assert "is left out: the worker is gone" in errors
    assert_whole(qop.records("out"))
    after = stamps(qop)
    for name, stamp in before.items():
        assert after[name] == stamp
    for name in after:
        assert list((qop.folder / "out" / "captures" / name.removesuffix(".json")).iterdir())
    assert guests(qop, 10) == []
    assert "127.0.0.1" not in (qop.folder / "out" / "provenance.json").read_text()
    assert lent.end()[0] == 130
    assert qop.left_over() == []


def test_an_interrupted_run_frees_its_workers_and_goes_on(qop: Qop, lent: Lent) -> None:
    """Ctrl-C at the client: no guest is left on any worker; the same command measures the rest."""
    before = measure_first(qop, lent)
    running = qop.start("run", "--cluster", lent.where, *ARGUMENTS, *ALL)
    wait_until(lambda: guests(qop))
    running.send_signal(signal.SIGINT)
    _, errors = running.communicate(timeout=PATIENCE_S)
    assert running.returncode == 130 and "Traceback" not in errors
    assert guests(qop, 3) == []
    kept = stamps(qop)
    assert before.items() <= kept.items()
    done = qop("run", "--cluster", lent.where, *ARGUMENTS, *ALL)
    assert done.returncode == 0, done.stderr
    assert f"{len(kept)} of them measured already" in done.stderr
    assert_whole(qop.records("out"))
    assert kept.items() <= stamps(qop).items()
    assert lent.end() == [130, 130]
    assert qop.left_over() == []


SSH_SERVER = TESTS / "ssh_server.py"


@pytest.fixture
def ssh(qop: Qop, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A host that is reached by SSH, this one, with a configuration as a user has it."""
    folder = qop.folder / "home" / ".ssh"
    folder.mkdir(parents=True)
    for name in ("host", "user"):
        key = asyncssh.generate_private_key("ssh-ed25519")
        key.write_private_key(folder / name)
        key.write_public_key(folder / f"{name}.pub")
        (folder / name).chmod(0o600)
    server = subprocess.Popen([sys.executable, str(SSH_SERVER), str(folder)], text=True,
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert server.stdout is not None
    port = server.stdout.readline().strip()
    (folder / "known_hosts").write_text(
        f"[127.0.0.1]:{port} {(folder / 'host.pub').read_text()}")
    (folder / "config").write_text(
        f"Host 127.0.0.1\n  Port {port}\n  IdentityFile {folder / 'user'}\n"
        f"  UserKnownHostsFile {folder / 'known_hosts'}\n")
    # The guest's image is found in the user's cache, wherever the home is.
    monkeypatch.setenv("QOP_CACHE", str(cache_of(qop)))
    monkeypatch.setenv("TMPDIR", str(qop.folder))
    monkeypatch.setenv("HOME", str(folder.parent))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    yield "ssh:127.0.0.1"
    server.communicate()


def test_hosts_by_ssh(qop: Qop, ssh: str) -> None:
    """Scheduler and worker are started by SSH, measure, and are gone with the run."""
    done = qop("run", "--cluster", ssh, "--out", "out", "--scenarios", "N2", "--policies", "P1",
               "--repetitions", "1", "--stream-bytes", "200k")
    assert done.returncode == 0, done.stderr
    [found] = qop.records("out").values()
    assert found.status == "ok" and found.environment["worker"] == "worker-1"
    left = [line for line in qop.left_over() if "ssh_server" not in line]
    assert left == []
