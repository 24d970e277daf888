"""What `uninstall` removes, and what it leaves."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from conftest import PROJECT
from harness import removal
from harness.commands import uninstall
from harness.errors import UserError


@pytest.fixture
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A small cache with two parts and a list of packages."""
    folder = tmp_path / "home/cache"
    for name in ("roots/one/root.squashfs", "python/harness-1/bin/python"):
        (folder / name).parent.mkdir(parents=True)
        (folder / name).write_bytes(bytes(200_000))
    (folder / "installed-packages").write_text("tshark\nmount\ntshark\n")
    monkeypatch.setenv("QOP_CACHE", str(folder))
    monkeypatch.delenv("QOP_IMAGE", raising=False)
    monkeypatch.setattr(removal, "describe_testbed", list)
    return folder


def give(*arguments: str, answer: str = "") -> str:
    """Run the command and return its output; an error is raised."""
    done = CliRunner().invoke(uninstall.command, arguments, input=answer, standalone_mode=False)
    if done.exception:
        raise done.exception
    return done.output


def test_cache_is_removed_and_packages_are_named(cache: Path) -> None:
    output = give("--yes")
    assert not cache.exists()
    assert cache.parent.exists()
    assert f"{cache}/roots" in output and "removed 4" in output
    assert output.endswith("sudo apt-get remove --autoremove mount tshark\n")


def test_without_a_record_the_log_of_apt_is_named(cache: Path) -> None:
    (cache / "installed-packages").unlink()
    output = give("--yes")
    assert "/var/log/apt/history.log" in output
    assert {"python3", "util-linux"} <= set(output.partition("It uses: ")[2].split())


def test_packages_that_an_administrator_installed_are_named(cache: Path) -> None:
    """Those that ./qop asked for, where they are installed now."""
    (cache / "installed-packages").unlink()
    (cache / "requested-packages").write_text("mount\nnever-installed\n")
    assert give("--yes").endswith("sudo apt-get remove --autoremove mount\n")


def test_files_of_others_stay(cache: Path) -> None:
    """QOP_CACHE may be a folder that has something else in it."""
    (cache / "thesis").mkdir()
    (cache / "thesis/chapter.tex").touch()
    output = give("--yes")
    assert sorted(path.name for path in cache.iterdir()) == ["thesis"]
    assert "kept: thesis" in output


def test_target_of_a_link_stays(cache: Path, tmp_path: Path) -> None:
    """Somebody moved a part to another disk, or links to a folder of theirs."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/file").touch()
    (cache / "boxes").symlink_to(tmp_path / "elsewhere")
    give("--yes")
    assert not cache.exists()
    assert (tmp_path / "elsewhere/file").exists()


def test_without_terminal_and_yes_nothing_is_removed(cache: Path) -> None:
    with pytest.raises(UserError, match="add --yes"):
        give()
    assert (cache / "roots/one/root.squashfs").exists()


@pytest.mark.parametrize(("answer", "stays"), [("n\n", True), ("\n", True), ("y\n", False)])
def test_answer_decides(cache: Path, monkeypatch: pytest.MonkeyPatch, answer: str,
                        stays: bool) -> None:
    class Terminal:
        """The answer of a user at a terminal."""

        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(removal, "sys", type("Sys", (), {"stdin": Terminal()}))
    assert ("nothing was removed" in give(answer=answer)) is stays
    assert cache.exists() is stays


def test_cache_in_use_is_kept(cache: Path) -> None:
    """A guest or a harness of another run has its program there."""
    program = cache / "python/harness-1/bin/sleeping"
    shutil.copy(str(shutil.which("sleep")), program)
    with subprocess.Popen([str(program), "600"]) as running:
        try:
            while not Path(f"/proc/{running.pid}/cmdline").read_bytes():
                pass  # the program is being replaced
            with pytest.raises(UserError, match=f"in use by process {running.pid};"):
                give("--yes")
        finally:
            running.kill()
    assert (cache / "roots/one/root.squashfs").exists()


def test_testbed_of_this_machine_is_named_with_what_removes_it(tmp_path: Path) -> None:
    """`provision --on host` leaves files and masked services; a service of the user's is none."""
    assert removal.describe_testbed(tmp_path) == []
    for name in ("opt/qop/venv/bin/python3", "etc/modprobe.d/qop.conf",
                 "lib/modules/6.1.0-1-amd64/updates/sch_dcf.ko", "etc/modprobe.d/other.conf",
                 "etc/systemd/system/freeradius.service"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "etc/systemd/system/hostapd.service").symlink_to("/dev/null")
    _, files, services = removal.describe_testbed(tmp_path)
    assert files.split()[:3] == ["sudo", "rm", "-rf"]
    assert sorted(files.split()[3:]) == [f"{tmp_path}/{name}" for name in (
        "etc/modprobe.d/qop.conf", "lib/modules/6.1.0-1-amd64/updates/sch_dcf.ko", "opt/qop")]
    assert services == "  sudo systemctl unmask hostapd.service"


def test_every_change_of_provisioning_is_known() -> None:
    """Files that the roles write, and services that they mask."""
    roles = PROJECT / "ansible/roles"
    text = "".join(path.read_text() for name in ("testbed", "air_module")
                   for path in (roles / name / "tasks").glob("*.yml"))
    written = set(re.findall(r"dest: /(etc/\S+)", text)) | {"opt/qop"}
    written -= {"etc/systemd/system/{{"}
    assert written <= set(removal._TESTBED_FILES)
    defaults = (roles / "testbed/defaults/main.yml").read_text()
    services = defaults.partition("testbed_services:")[2].partition("\n\n")[0]
    assert tuple(re.findall(r"- (\S+)", services)) == removal._TESTBED_SERVICES


def test_no_cache_is_no_error(cache: Path) -> None:
    shutil.rmtree(cache)
    assert "there is no cache" in give("--yes")


def test_container_image_has_no_cache(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QOP_IMAGE", "container")
    with pytest.raises(UserError, match="podman rmi qop"):
        give("--yes")
    assert cache.exists()


def test_disk_use_counts_a_file_with_two_names_once(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(bytes(1_000_000))
    once = removal.measure_disk_use(tmp_path)
    (tmp_path / "b").hardlink_to(tmp_path / "a")
    assert 1_000_000 <= once == removal.measure_disk_use(tmp_path)


def test_every_part_of_the_cache_is_known() -> None:
    """The sources name each part behind the cache's folder."""
    pattern = re.compile(r'(?:BuildStore\(\w+(?:\(\))?|cache_root\(\)|\bcache|unfinished\.parent'
                         r'\.parent) / "([\w-]+)"')
    parts = {name for package in ("guest", "harness", "measure")
             for path in (PROJECT / package).rglob("*.py")
             for name in pattern.findall(path.read_text())}
    parts |= {name.rstrip("/") for name in re.findall(
        r"\$cache/([\w-]+)", (PROJECT / "qop").read_text())}
    assert {"roots", "kernels", "boxes", "python", "strongswans"} <= parts
    assert parts <= set(removal.CACHE_PARTS)
