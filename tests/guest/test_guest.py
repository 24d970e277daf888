"""The embedded machine's image: its cache, with stand-ins for the builds, and its build's parts."""

from __future__ import annotations

import multiprocessing
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import PATIENCE_S, PROJECT
from guest import build, image, kernel, root, root_variants
from guest.build import BuildCommands, BuildError
from guest.cache import BuildStore, cache_root, hash_inputs
from guest.processes import build_tied_command

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
    assert len({hash_inputs(inputs) for inputs in [base, *others]}) == 5
    assert hash_inputs(base) == hash_inputs(dict(reversed(base.items())))


def _append(path: Path) -> None:
    path.write_text(path.read_text() + "# more\n")


def test_real_keys_follow_their_files(tmp_path, monkeypatch):
    """Kernel, root file system and its variant each notice their own inputs and no others."""
    for name in ("guest", "ansible", "requirements"):
        shutil.copytree(PROJECT / name, tmp_path / name)
    monkeypatch.setattr(kernel, "HERE", tmp_path / "guest")
    monkeypatch.setattr(root, "HERE", tmp_path / "guest")
    monkeypatch.setattr(root, "PROJECT", tmp_path)
    for module, prefix, name in ((root, "", "testbed"),
                                 (root_variants, "MININET_WIFI_", "mininet_wifi")):
        monkeypatch.setattr(module, f"{prefix}ROLE", tmp_path / f"ansible/roles/{name}")
        monkeypatch.setattr(module, f"{prefix}PLAYBOOK", tmp_path / f"ansible/{name}.yml")
    kernel_key, root_key = kernel.key(), root.key()
    variant = root_variants.RootWithMininetWifi()
    variant_key = variant.key()
    assert variant_key != root_key
    assert root_variants.RootWithMininetWifi("elsewhere").key() == variant_key
    for name in ("kernel.config", "kernel.sh"):
        _append(tmp_path / "guest" / name)
        assert kernel.key() != kernel_key
        kernel_key = kernel.key()
    for patch in [*kernel.list_patches(), *kernel.list_sources()]:
        _append(patch)
        assert kernel.key() != kernel_key, patch
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
        assert variant.key() != variant_key, name
        root_key, variant_key = root.key(), variant.key()
    for name in (
        "guest/root_variants.py",
        "ansible/mininet_wifi.yml",
        "ansible/roles/mininet_wifi/defaults/main.yml",
        "ansible/roles/mininet_wifi/tasks/install.yml",
    ):
        _append(tmp_path / name)
        assert variant.key() != variant_key, name
        variant_key = variant.key()
    assert root.key() == root_key
    assert kernel.key() == kernel_key


def test_built_once(tmp_path):
    """The second call finds what the first made."""
    store = BuildStore(tmp_path, "thing")
    assert store.find_build("k") is None
    place = store.find_or_build("k", write_build("one"))
    assert store.find_or_build("k", write_build("two")) == place == store.find_build("k")
    assert (place / "file").read_text() == "one"
    assert store.read_manifest(place)["made"] == "one"


def test_half_build_is_never_used(tmp_path):
    """No manifest, a truncated file or a broken manifest: not there, and built anew."""
    store = BuildStore(tmp_path, "thing")
    (tmp_path / "k").mkdir()
    (tmp_path / "k/file").write_text("half")
    assert store.find_build("k") is None
    place = store.find_or_build("k", write_build("whole"))
    (place / "file").write_text("who")
    assert store.find_build("k") is None
    assert (store.find_or_build("k", write_build("whole")) / "file").read_text() == "whole"
    (place / "manifest.json").write_text('{"sizes": ')
    assert store.find_build("k") is None


@pytest.mark.parametrize("error", [RuntimeError("no"), KeyboardInterrupt()])
def test_failed_build_leaves_nothing(tmp_path, error):
    """Neither a failure nor Ctrl-C leaves a folder."""

    def build(folder: Path):
        (folder / "file").write_text("half")
        raise error

    store = BuildStore(tmp_path, "thing")
    with pytest.raises(type(error)):
        store.find_or_build("k", build)
    assert [path.name for path in tmp_path.iterdir()] == [".lock"]


def _build_slowly(folder: Path, done_after_s: float) -> None:
    def build(unfinished: Path):
        (unfinished / "file").write_text("half")
        time.sleep(done_after_s)
        return write_build(str(os.getpid()))(unfinished)

    BuildStore(folder, "thing").find_or_build("k", build)


def _until(condition, seconds: float = PATIENCE_S) -> None:
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
    place = BuildStore(tmp_path, "thing").find_or_build("k", write_build("second"), said.append)
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
    store = BuildStore(tmp_path, "thing")
    assert store.find_build("k") is None
    store.find_or_build("k", write_build("second"))
    assert sorted(path.name for path in tmp_path.iterdir()) == [".lock", "k"]


def test_cache_folder():
    """QOP_CACHE wins over XDG_CACHE_HOME, and that over the home folder."""
    assert cache_root({"QOP_CACHE": "/a", "XDG_CACHE_HOME": "/b"}) == Path("/a")
    assert cache_root({"XDG_CACHE_HOME": "/b"}) == Path("/b/qop")
    assert cache_root({}) == Path.home() / ".cache/qop"


# --- what builds are made of


def test_failing_command_shows_the_logs_end(tmp_path):
    """The error has the last lines and the log's name; the log has everything."""
    commands = BuildCommands("thing", tmp_path / "log")
    with pytest.raises(BuildError) as caught:
        commands.run(["sh", "-c", "seq 100; echo broken >&2; exit 3"])
    text = str(caught.value)
    assert text.startswith("building the thing failed: sh exited with 3")
    assert str(tmp_path / "log") in text
    assert text.endswith("  100\n  broken")
    assert "\n1\n2\n" in (tmp_path / "log").read_text()


def test_log_is_of_who_builds(tmp_path):
    """Who waits for another's build of the same leaves its log alone; a new build begins anew."""
    builder = BuildCommands("thing", tmp_path / "log")
    builder.run(["echo", "first"])
    waiting = BuildCommands("thing", tmp_path / "log")
    builder.run(["echo", "second"])
    assert (tmp_path / "log").read_text().splitlines()[1::2] == ["first", "second"]
    waiting.run(["echo", "another"])
    assert (tmp_path / "log").read_text().splitlines() == ["$ echo another", "another"]


def test_stopped_command(tmp_path):
    """Stopping ends the running command, and nothing else is started."""
    commands = BuildCommands("thing", tmp_path / "log")
    with pytest.raises(BuildError, match="was stopped"):
        commands.run(["sh", "-c", "echo on; sleep 60"], each_line=lambda _: commands.stop())
    with pytest.raises(BuildError, match="was stopped"):
        commands.run(["true"])


def test_what_is_tied_to_who_has_ended_never_begins(tmp_path):
    """The kernel is asked too late there: nobody would end it. Of who is there, it begins."""
    late = tmp_path / "bin/setpriv"
    late.parent.mkdir()
    late.write_text('#!/bin/sh\nwhile kill -0 "$STARTER"; do sleep 0.01; done 2>/dev/null\n'
                    f'{shutil.which("setpriv")} "$@"\necho "$?" >{tmp_path}/status\n')
    late.chmod(0o755)
    start = ("import os, subprocess, sys; from guest.processes import build_tied_command; "
             "os.environ['STARTER'] = str(os.getpid()); "
             "subprocess.Popen([*build_tied_command('KILL'), 'touch', sys.argv[1]])")
    path = f"{late.parent}:{os.environ['PATH']}"
    subprocess.run([sys.executable, "-c", start, tmp_path / "begun"], check=True, cwd=PROJECT,
                   env={**os.environ, "PATH": path, "PYTHONPATH": str(PROJECT)})
    until = time.monotonic() + PATIENCE_S
    while not (tmp_path / "status").exists():
        assert time.monotonic() < until
        time.sleep(0.01)
    assert not (tmp_path / "begun").exists()
    subprocess.run([*build_tied_command("KILL"), "touch", tmp_path / "begun"], check=True)
    assert (tmp_path / "begun").exists()


def test_missing_kernel_options_are_named():
    """An option that is absent or differs is missing; one that must be off may be absent."""
    config = "CONFIG_A=y\n# CONFIG_C is not set\nCONFIG_D=y\n"
    wanted = "CONFIG_A=y\nCONFIG_B=y\nCONFIG_C=n\nCONFIG_D=n\n"
    assert kernel.missing_options(wanted, config) == ["CONFIG_B=y", "CONFIG_D=n"]


def test_every_patch_says_what_it_is_for():
    """A patch begins with its reason, and has no diff without one."""
    assert kernel.list_patches()
    for patch in kernel.list_patches():
        reason, _, diff = patch.read_text().partition("\n--- ")
        assert len(reason.split()) > 7, patch
        assert "\n+++ " in diff, patch


def _apply(tmp_path: Path, must: str, source: str,
           reason: str = "Why.") -> tuple[int, str, list[str]]:
    """What the build's own lines do with two patches: how they end, what they say, what is left."""
    if shutil.which("patch") is None:
        pytest.skip("needs patch")
    text = (PROJECT / "guest/kernel.sh").read_text()
    lines = text[text.index("echo '@stage patch'"):text.index("echo '@stage configure'")]
    (tmp_path / "patches").mkdir()
    for name, old, why in (("10-first", "one", "Why."), ("20-second", "two", reason)):
        (tmp_path / "patches" / f"{name}.patch").write_text(
            f"{why}\n\n--- a/{name}\n+++ b/{name}\n@@ -1 +1 @@\n-{old}\n+changed\n")
    (tmp_path / "10-first").write_text("one\n")
    (tmp_path / "20-second").write_text(source)
    done = subprocess.run(["sh", "-euc", f"out={tmp_path} must={must}\n{lines}"], cwd=tmp_path,
                          capture_output=True, text=True, check=False)
    assert (tmp_path / "10-first").read_text() == "changed\n"
    return done.returncode, done.stdout, (tmp_path / "left-out").read_text().split()


def test_patches_apply_strictly(tmp_path):
    """Where a patch does not fit the pinned kernel, the build stops and names it."""
    status, said, _ = _apply(tmp_path, "all", "2\n")
    assert status == 1
    assert "guest/patches/20-second.patch does not apply to this kernel" in said


def test_older_kernel_does_without_a_patch(tmp_path):
    """An older kernel is built without what does not fit, and the build knows what that is."""
    status, _, left_out = _apply(tmp_path, "some", "2\n")
    assert (status, left_out) == (0, ["20-second"])
    assert (tmp_path / "20-second").read_text() == "2\n"


def test_older_kernel_does_without_what_is_the_projects_own(tmp_path):
    """What makes guest/sources a part of the build fits any kernel, and is for the pinned one."""
    status, _, left_out = _apply(tmp_path, "some", "two\n", "It builds what is in guest/sources.")
    assert (status, left_out) == (0, ["20-second"])


def test_fitting_patches_leave_nothing_out(tmp_path):
    """All that fit are applied, for either kernel."""
    status, _, left_out = _apply(tmp_path, "all", "two\n")
    assert (status, left_out) == (0, [])
    assert (tmp_path / "20-second").read_text() == "changed\n"


def test_packages_are_read_from_the_role():
    """The one list of packages is the role's."""
    names = root.parse_packages((PROJECT / "ansible/roles/testbed/defaults/main.yml").read_text())
    assert {"mininet", "hostapd", "freeradius", "iperf3"} <= set(names)
    with pytest.raises(BuildError, match="testbed_packages"):
        root.parse_packages("testbed_packages: []\n")


def _git(*arguments: str) -> str:
    who = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
    done = subprocess.run(["git", *who, *arguments], capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.fixture
def upstream(tmp_path) -> tuple[Path, list[str]]:
    """A repository that could be Mininet-WiFi's, and its two revisions."""
    place = tmp_path / "upstream"
    (place / "mn_wifi").mkdir(parents=True)
    _git("init", "--quiet", str(place))
    revisions = []
    for version in ("2.6", "2.7"):
        (place / "mn_wifi/net.py").write_text(f'VERSION = "{version}"\n')
        _git("-C", str(place), "add", ".")
        _git("-C", str(place), "commit", "--quiet", "--message", version)
        revisions.append(_git("-C", str(place), "rev-parse", "HEAD"))
    return place, revisions


def test_upstream_is_fetched_at_its_revision(upstream, tmp_path):
    """An earlier revision comes from a clone, by its number and without the repository."""
    place, revisions = upstream
    for number, version in zip(revisions, ("2.6", "2.7"), strict=True):
        tree = tmp_path / version
        commands = BuildCommands("variant", tmp_path / "log")
        assert root_variants._fetch_mininet_wifi(str(place), number, tree, commands) == version
        assert version in (tree / "mn_wifi/net.py").read_text()
        assert not (tree / ".git").exists()


@pytest.mark.parametrize(("source", "reason"), [
    ("nowhere", "does not appear to be a git repository"),
    ("upstream", "not our ref"),
])
def test_upstream_out_of_reach_is_one_line(upstream, tmp_path, source, reason):
    """A source that is none, or lacks the revision: what git said, and what to do."""
    del upstream
    with pytest.raises(BuildError) as caught:
        root_variants._fetch_mininet_wifi(str(tmp_path / source), "0" * 40, tmp_path / "tree",
                                          BuildCommands("variant", tmp_path / "log"))
    said = str(caught.value)
    assert said.startswith(f"{tmp_path / source}: Mininet-WiFi cannot be fetched from there")
    assert reason in said
    assert "--mininet-wifi-source" in said
    assert "\n" not in said


def test_the_roles_settings_are_read():
    """Revision and address stand in the role, once; a full revision of 40 digits."""
    defaults = (PROJECT / "ansible/roles/mininet_wifi/defaults/main.yml").read_text()
    assert re.fullmatch("[0-9a-f]{40}",
                        root_variants.parse_mininet_wifi_setting(defaults, "revision"))
    assert root_variants.parse_mininet_wifi_setting(defaults, "source").startswith("https://")
    assert "rfkill" in root.parse_packages(defaults, "mininet_wifi_packages")
    with pytest.raises(BuildError, match="mininet_wifi_revision"):
        root_variants.parse_mininet_wifi_setting("", "revision")


def test_progress():
    """Remaining time follows the usual times, and counted items once there are enough."""
    now = [0.0]
    track = build.BuildProgress("kernel", {"fetch": 10, "compile": 100}, lambda: now[0])
    assert track.remaining_s() == 110
    now[0] = 4
    assert track.remaining_s() == 106
    track.begin_stage("compile", 50)
    now[0] = 44
    for _ in range(10):
        track.count_item()
    assert track.remaining_s() == pytest.approx(160)
    status = build.summarize_progress([track])
    assert status.text == "kernel: compile 10/50"
    assert status.fraction == pytest.approx(44 / (44 + 160))
    track.finish()
    assert track.remaining_s() == 0
    assert track.durations_s == {"fetch": 4, "compile": 40}


def test_progress_of_a_build_slower_than_expected_never_falls(tmp_path: Path) -> None:
    """The remaining time may rise. The fraction that is shown stands until it is reached again."""
    shown: list[float] = []
    estimates: list[float] = []

    def wait_until(condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not condition() and time.monotonic() < deadline:
            time.sleep(0.01)

    def build_slowly(_folder: Path, _commands: BuildCommands,
                     track: build.BuildProgress) -> dict[str, str]:
        wait_until(lambda: bool(shown) and shown[-1] > 0.5)
        track.begin_stage("compile", 1000)
        for _ in range(51):
            track.count_item()
        wait_until(lambda: build.summarize_progress([track]).fraction < 0.4)
        estimates.append(build.summarize_progress([track]).fraction)
        before = len(shown)
        wait_until(lambda: len(shown) > before + 1)
        return {}

    recipe = image.FunctionRecipe({"fetch": 0.001, "compile": 0.001}, lambda: "0123", build_slowly)
    part = image.ImagePart("kernel", BuildStore(tmp_path / "kernels", "kernel"), recipe)
    image.build_all([part], tmp_path, lambda status: shown.append(status.fraction))
    assert estimates[0] < 0.4
    assert max(shown) > 0.5
    assert shown == sorted(shown)
