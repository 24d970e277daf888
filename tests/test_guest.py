"""The embedded machine's image: its cache, with stand-ins for the builds, and its build's parts."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import time
from pathlib import Path

import pytest

from guest import kernel, progress, root
from guest.cache import Store, cache_root, key_of
from guest.commands import BuildError, Commands

PROJECT = Path(__file__).parent.parent
SPAWN = multiprocessing.get_context("spawn")


# --- the cache -----------------------------------------------------------------------------------


def write_build(content: str):
    """A stand-in for a build."""

    def build(folder: Path):
        (folder / "file").write_text(content)
        return {"made": content}

    return build


def test_key_changes_with_each_input():
    """Every input's name and content counts, and so does where one ends."""
    base = {"a": b"1", "b": b"2"}
    others = [{"a": b"1"}, {"a": b"1", "b": b"3"}, {"a": b"1", "c": b"2"}, {"a": b"12", "b": b""}]
    assert len({key_of(inputs) for inputs in [base, *others]}) == 5
    assert key_of(base) == key_of(dict(reversed(base.items())))


def _append(path: Path) -> None:
    path.write_text(path.read_text() + "# more\n")


def test_real_keys_follow_their_files(tmp_path, monkeypatch):
    """Kernel and root file system each notice their own inputs and not the other's."""
    for name in ("guest", "ansible", "requirements"):
        shutil.copytree(PROJECT / name, tmp_path / name)
    monkeypatch.setattr(kernel, "HERE", tmp_path / "guest")
    monkeypatch.setattr(root, "HERE", tmp_path / "guest")
    monkeypatch.setattr(root, "PROJECT", tmp_path)
    monkeypatch.setattr(root, "ROLE", tmp_path / "ansible/roles/testbed")
    kernel_key, root_key = kernel.key(), root.key()
    for name in ("kernel.config", "kernel.sh"):
        _append(tmp_path / "guest" / name)
        assert kernel.key() != kernel_key
        kernel_key = kernel.key()
    assert root.key() == root_key
    for name in (
        "guest/first-init",
        "guest/root.py",
        "ansible/testbed.yml",
        "ansible/roles/testbed/defaults/main.yml",
        "ansible/roles/testbed/tasks/check.yml",
        "requirements/testbed.lock",
        "requirements/ansible.lock",
    ):
        _append(tmp_path / name)
        assert root.key() != root_key, name
        root_key = root.key()
    assert kernel.key() == kernel_key


def test_built_once(tmp_path):
    """The second call finds what the first made."""
    store = Store(tmp_path, "thing")
    assert store.find("k") is None
    place = store.obtain("k", write_build("one"))
    assert store.obtain("k", write_build("two")) == place == store.find("k")
    assert (place / "file").read_text() == "one"
    assert store.manifest(place)["made"] == "one"


def test_half_build_is_never_used(tmp_path):
    """No manifest, a truncated file or a broken manifest: not there, and built anew."""
    store = Store(tmp_path, "thing")
    (tmp_path / "k").mkdir()
    (tmp_path / "k/file").write_text("half")
    assert store.find("k") is None
    place = store.obtain("k", write_build("whole"))
    (place / "file").write_text("who")
    assert store.find("k") is None
    assert (store.obtain("k", write_build("whole")) / "file").read_text() == "whole"
    (place / "manifest.json").write_text('{"sizes": ')
    assert store.find("k") is None


@pytest.mark.parametrize("error", [RuntimeError("no"), KeyboardInterrupt()])
def test_failed_build_leaves_nothing(tmp_path, error):
    """Neither a failure nor Ctrl-C leaves a folder."""

    def build(folder: Path):
        (folder / "file").write_text("half")
        raise error

    store = Store(tmp_path, "thing")
    with pytest.raises(type(error)):
        store.obtain("k", build)
    assert [path.name for path in tmp_path.iterdir()] == [".lock"]


def _build_slowly(folder: Path, done_after_s: float) -> None:
    def build(unfinished: Path):
        (unfinished / "file").write_text("half")
        time.sleep(done_after_s)
        return write_build(str(os.getpid()))(unfinished)

    Store(folder, "thing").obtain("k", build)


def _until(condition, seconds: float = 10) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_two_at_once(tmp_path):
    """The second waits, says for whom and for what, and takes what the first made."""
    first = SPAWN.Process(target=_build_slowly, args=(tmp_path, 1.0))
    first.start()
    _until(lambda: list(tmp_path.glob(".unfinished-*/file")))
    said = []
    place = Store(tmp_path, "thing").obtain("k", write_build("second"), said.append)
    first.join()
    assert (place / "file").read_text() == str(first.pid)
    assert said[0] == f"waiting for process {first.pid}, which builds the thing"


def test_orphan_is_removed(tmp_path):
    """What a killed builder left is not used, and the next build removes it."""
    first = SPAWN.Process(target=_build_slowly, args=(tmp_path, 60))
    first.start()
    _until(lambda: list(tmp_path.glob(".unfinished-*/file")))
    first.kill()
    first.join()
    store = Store(tmp_path, "thing")
    assert store.find("k") is None
    store.obtain("k", write_build("second"))
    assert sorted(path.name for path in tmp_path.iterdir()) == [".lock", "k"]


def test_cache_folder():
    """QOP_CACHE wins over XDG_CACHE_HOME, and that over the home folder."""
    assert cache_root({"QOP_CACHE": "/a", "XDG_CACHE_HOME": "/b"}) == Path("/a")
    assert cache_root({"XDG_CACHE_HOME": "/b"}) == Path("/b/qop")
    assert cache_root({}) == Path.home() / ".cache/qop"


# --- what builds are made of


def test_failing_command_shows_the_logs_end(tmp_path):
    """The error has the last lines and the log's name; the log has everything."""
    commands = Commands("thing", tmp_path / "log")
    with pytest.raises(BuildError) as caught:
        commands.run(["sh", "-c", "seq 100; echo broken >&2; exit 3"])
    text = str(caught.value)
    assert text.startswith("building the thing failed: sh exited with 3")
    assert str(tmp_path / "log") in text
    assert text.endswith("  100\n  broken")
    assert "\n1\n2\n" in (tmp_path / "log").read_text()


def test_stopped_command(tmp_path):
    """Stopping ends the running command, and nothing else is started."""
    commands = Commands("thing", tmp_path / "log")
    with pytest.raises(BuildError, match="was stopped"):
        commands.run(["sh", "-c", "echo on; sleep 60"], each_line=lambda _: commands.stop())
    with pytest.raises(BuildError, match="was stopped"):
        commands.run(["true"])


def test_missing_kernel_options_are_named():
    """An option that is absent or differs is missing; one that must be off may be absent."""
    config = "CONFIG_A=y\n# CONFIG_C is not set\nCONFIG_D=y\n"
    wanted = "CONFIG_A=y\nCONFIG_B=y\nCONFIG_C=n\nCONFIG_D=n\n"
    assert kernel.missing_options(wanted, config) == ["CONFIG_B=y", "CONFIG_D=n"]


def test_packages_are_read_from_the_role():
    """The one list of packages is the role's."""
    names = root.packages((PROJECT / "ansible/roles/testbed/defaults/main.yml").read_text())
    assert {"mininet", "hostapd", "freeradius", "iperf3"} <= set(names)
    with pytest.raises(BuildError, match="testbed_packages"):
        root.packages("testbed_packages: []\n")


def test_progress():
    """Remaining time follows the usual times, and counted items once there are enough."""
    now = [0.0]
    track = progress.Track("kernel", {"fetch": 10, "compile": 100}, lambda: now[0])
    assert track.remaining_s() == 110
    now[0] = 4
    assert track.remaining_s() == 106
    track.stage("compile", 50)
    now[0] = 44
    for _ in range(10):
        track.step()
    assert track.remaining_s() == pytest.approx(160)
    status = progress.status_of([track])
    assert status.text == "kernel: compile 10/50"
    assert status.fraction == pytest.approx(44 / (44 + 160))
    track.finish()
    assert track.remaining_s() == 0
    assert track.durations_s == {"fetch": 4, "compile": 40}
