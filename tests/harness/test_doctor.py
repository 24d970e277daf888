"""What `doctor` finds on a machine, and what a run asks before it builds."""

from __future__ import annotations

import gzip
import json
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

import studies
from conftest import PROJECT, Qop
from guest import image, namespaces, vm
from guest.cache import MANIFEST
from harness.commands import doctor, radio, run
from harness.engine import host_checks, setup, trial
from harness.engine.machine import EmbeddedMachine
from harness.errors import UserError
from measure.charging import library
from plans import plan_of
from policies import policy_ids

#: Tests replace it, and pathlib of Python 3.13 reads folders with it.
SCANDIR = os.scandir
needs_tshark = pytest.mark.skipif(shutil.which("tshark") is None, reason="needs tshark")
#: A library that its loader refuses: nothing has the symbol.
BROKEN = """
extern int of_a_newer_library(void);
__attribute__((constructor)) static void begin(void) { of_a_newer_library(); }
"""


@pytest.fixture
def without(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """A function that hides programs: the search path has links to all others."""
    def hide(*hidden: str) -> None:
        folder = tmp_path / "bin"
        folder.mkdir()
        for place in reversed(os.environ["PATH"].split(":")):
            for program in Path(place).glob("*"):
                if program.name not in hidden:
                    (folder / program.name).unlink(missing_ok=True)
                    (folder / program.name).symlink_to(program)
        monkeypatch.setenv("PATH", str(folder))
    return hide


@pytest.mark.parametrize(("tool", "package"), [
    ("mount", "mount"), ("tar2sqfs", "squashfs-tools-ng"), ("mmdebstrap", "mmdebstrap"),
    ("sqfs2tar", "squashfs-tools-ng"), ("taskset", "util-linux"), ("dpkg-deb", "dpkg")])
def test_missing_building_tool_is_named_with_its_package(without, tool: str, package: str) -> None:
    without(tool)
    finding = doctor._check_building_tools()
    assert not finding.ok
    assert f"missing: {tool};" in finding.remedy
    assert finding.remedy.endswith(f"--no-install-recommends {package}'")


@pytest.mark.parametrize(("tool", "package"), [("mergecap", "tshark"), ("openssl", "openssl")])
def test_missing_measuring_tool_is_named_with_its_package(
        without, tool: str, package: str) -> None:
    without(tool)
    finding = doctor._check_measuring_tools()
    assert (finding.ok, finding.needed) == (False, True)
    assert f"missing: {tool};" in finding.remedy and finding.remedy.endswith(f" {package}'")


def test_every_tool_has_a_package() -> None:
    """apt has its own advice, the container image."""
    tools = {*image.TOOLS, *host_checks.MEASURING_TOOLS, "unshare", "newuidmap"}
    assert tools - {"apt-get"} == set(host_checks._PACKAGES)


def test_machine_without_apt_is_led_to_the_container_image() -> None:
    assert "docs/container.md" in host_checks.install_command(["apt-get", "mount"])


@needs_tshark
def test_tshark_dissects_a_frame() -> None:
    assert host_checks.check_dissection().ok


@pytest.mark.parametrize("script", [
    "echo 'tshark: error while loading shared libraries: libwireshark.so.16' >&2; exit 127",
    "echo 'tshark: broken' >&2; exit 1", "echo 10.0.0.9"])
def test_tshark_that_cannot_dissect_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path,
                                               script: str) -> None:
    """Even though a program of that name is installed."""
    (tmp_path / "tshark").write_text(f"#!/bin/sh\n{script}\n")
    (tmp_path / "tshark").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    finding = host_checks.check_dissection()
    assert (finding.ok, finding.needed) == (False, True)
    assert finding.remedy.endswith(" tshark'")


#: A program whose forks the kernel refuses system calls. Each argument has the numbers for a fork.
_REFUSED = """
import ctypes, os, struct, sys
from harness.commands import doctor
from harness.engine import host_checks
for numbers in sys.argv[1:]:
    if not os.fork():
        break
    assert os.wait()[1] == 0
else:
    sys.exit()
calls = [int(number) for number in numbers.split(",") if number]
steps = [(0x20, 0, 0, 0), *((0x15, len(calls) - i, 0, call) for i, call in enumerate(calls)),
         (0x06, 0, 0, 0x7fff0000), (0x06, 0, 0, 0x00050001)]  # load, compare, allow, EPERM
code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(steps), ctypes.addressof(code)))
prctl = ctypes.CDLL(None).prctl
assert prctl(38, 1, 0, 0, 0) == 0 and prctl(22, 2, program, 0, 0) == 0
by_ptrace = host_checks.check_trapping(by_seccomp=False)
obstacles = [finding.what for finding in host_checks.find_build_obstacles()]
vm_obstacles = [finding.what for finding in host_checks.find_build_obstacles(is_vm=True)]
[line] = [finding for finding in doctor._find_all("guest", "", with_trial=False)
          if "trap system calls" in finding.what]
[on_host] = [finding for finding in doctor._find_all("host", "", with_trial=False)
             if "trap system calls" in finding.what]
print(line.ok, line.needed, on_host.needed, by_ptrace.ok, line.what in obstacles,
      line.what in vm_obstacles, line.remedy, sep="|")
"""


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="has numbers of x86_64")
def test_kernel_that_traps_no_system_call_is_an_obstacle_before_the_build(tmp_path: Path) -> None:
    """The kernel itself refuses seccomp(2) (317), ptrace(2) (101) or both; the cache is empty."""
    says = {"317,101": "False|True|False|False|True|False|", "317": "False|True|False|True|True|",
            "101": "True|True|False|False|False|", "": "True|True|False|True|False|"}
    done = subprocess.run(
        [sys.executable, "-P", "-c", _REFUSED, *says], capture_output=True, text=True,
        check=True, env={**os.environ, "PYTHONPATH": str(PROJECT), "QOP_CACHE": str(tmp_path)})
    for line, (refused, begin) in zip(done.stdout.splitlines(), says.items(), strict=True):
        assert line.startswith(begin), refused
        assert ("seccomp(2): Operation not permitted" in line) == ("317" in refused)


@pytest.mark.parametrize(("name", "line", "shows"), [
    ("config", "CONFIG_MAC80211_DEBUGFS=y", True),
    ("config", "# CONFIG_MAC80211_DEBUGFS is not set", False),
    ("config.gz", "CONFIG_MAC80211_DEBUGFS=y", True), ("config.gz", "CONFIG_NET=y", False)])
def test_kernel_configuration_decides_about_host_proofs(
        monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, line: str,
        shows: bool) -> None:
    monkeypatch.setattr(host_checks, "RADIO_KEYS", str(tmp_path / "*/keys"))
    text = f"CONFIG_X=y\n{line}\n".encode()
    (tmp_path / name).write_bytes(gzip.compress(text) if name.endswith("gz") else text)
    assert host_checks.kernel_shows_keys(tmp_path / "none", tmp_path / name) is shows
    assert host_checks.kernel_shows_keys(tmp_path / "none") is None
    (tmp_path / "phy0/keys").mkdir(parents=True)
    assert host_checks.kernel_shows_keys(tmp_path / name) is True


@pytest.mark.parametrize("shows", [None, False])
def test_policies_that_the_host_cannot_prove_are_named(monkeypatch: pytest.MonkeyPatch,
                                                       shows: bool | None) -> None:
    monkeypatch.setattr(host_checks, "kernel_shows_keys", lambda *_: shows)
    finding = doctor._check_host_proofs()
    named = finding.remedy.partition(":")[0].split(", ")
    assert (finding.ok, finding.needed) == (False, False)
    assert {"M1", "M3"} <= set(named) <= set(policy_ids())
    assert "P1" not in named and "M2" not in named


def test_without_an_image_doctor_says_so_and_boots_nothing(
        monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("QOP_CACHE", str(tmp_path))
    monkeypatch.setattr(trial, "run_trial", lambda *_: pytest.fail("a guest was booted"))
    [finding] = doctor._check_trial()
    assert (finding.ok, finding.needed) == (False, False)
    assert "'./qop provision'" in finding.remedy


def test_failed_trial_is_needed_and_gives_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_find_image", lambda _: True)
    monkeypatch.setattr(trial, "run_trial",
                        lambda *_: trial.TrialResult({}, 1.0, "no frame was captured"))
    [finding] = doctor._check_trial()
    assert (finding.ok, finding.needed) == (False, True)
    assert finding.remedy.startswith("no frame was captured;")


def test_obstacle_stops_before_anything_is_built(monkeypatch: pytest.MonkeyPatch, without,
                                                 tmp_path: Path) -> None:
    """One line with what to do. With nothing missing the build begins."""
    built: list[object] = []
    monkeypatch.setenv("QOP_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(image, "ensure_image", lambda **_: built.append(1))
    monkeypatch.setattr(host_checks, "BUILD_ROOM_MB", 1)
    without("mount")
    with pytest.raises(UserError, match="missing: mount; run 'sudo apt-get") as caught:
        setup.ensure_variant(image.PLAIN)
    assert str(caught.value).count("\n") == 0
    assert not built
    monkeypatch.setattr(host_checks, "GUEST_ROOM_MB", 1 << 30)
    with pytest.raises(UserError) as caught:
        setup.ensure_variant(image.PLAIN)
    first, *each = str(caught.value).splitlines()
    assert first == "before the guest is built:" and len(each) == 2
    assert "missing: mount; run 'sudo apt-get" in each[0] and "memory" in each[1]
    monkeypatch.setattr(host_checks, "GUEST_ROOM_MB", 1)
    (tmp_path / "bin/mount").symlink_to("/bin/true")
    obstacles = list(host_checks.find_build_obstacles())
    if obstacles:
        pytest.skip(obstacles[0].remedy)  # this machine cannot build
    setup.ensure_variant(image.PLAIN)
    assert built


def test_radio_that_cannot_be_built_is_refused(monkeypatch: pytest.MonkeyPatch, without,
                                               tmp_path: Path) -> None:
    """It dissects nothing, and so needs no tshark."""
    monkeypatch.setenv("QOP_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(image, "ensure_rootless_image", lambda: pytest.fail("something is built"))
    without("mount", "tshark")
    with pytest.raises(UserError, match="missing: mount; run 'sudo apt-get") as caught:
        radio._ensure_image()
    assert str(caught.value).startswith("before the guest is built: ")
    assert "tshark" not in str(caught.value)


def test_full_disk_stops_a_whole_build_only(monkeypatch: pytest.MonkeyPatch,
                                            tmp_path: Path) -> None:
    """A library takes seconds and no space; kernel and root take gigabytes."""
    monkeypatch.setenv("QOP_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(host_checks, "BUILD_ROOM_MB", 1 << 40)
    assert any("disk" in each.what for each in host_checks.find_build_obstacles())
    assert not any("disk" in each.what for each in host_checks.find_build_obstacles(
        is_whole=False))


def refuse_to_read(folder: Path) -> Iterator[os.DirEntry[str]]:
    """What the system says of another user's folder. Root would read it."""
    if Path(folder).name == "key":
        raise PermissionError(13, "Permission denied", str(folder))
    return SCANDIR(folder)


def test_store_of_another_user_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Its builds cannot even be listed."""
    monkeypatch.setenv("QOP_CACHE", str(tmp_path / "cache"))
    (tmp_path / "cache/roots").mkdir(parents=True)

    def refuse(folder: Path) -> Iterator[Path]:
        raise PermissionError(13, "Permission denied", str(folder))

    monkeypatch.setattr(Path, "iterdir", refuse)
    assert f"{tmp_path}/cache/roots: cannot be read" in host_checks.check_cache().remedy


def test_cache_of_another_user_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """For one, a part that was built by root; a whole cache that can be used is not blamed."""
    monkeypatch.setenv("QOP_CACHE", str(tmp_path / "cache"))
    (tmp_path / "cache/roots/key").mkdir(parents=True)
    assert host_checks.check_cache().ok
    monkeypatch.setattr(host_checks.os, "scandir", refuse_to_read)
    assert f"{tmp_path}/cache/roots/key: cannot be read" in host_checks.check_cache().remedy

    def refuse(dir: Path) -> object:  # noqa: A002 - tempfile's name of it
        if dir.name == "roots":
            raise PermissionError(13, "Permission denied", str(dir / "tmpx"))
        return open(os.devnull)

    monkeypatch.setattr(host_checks.tempfile, "TemporaryFile", refuse)
    finding = host_checks.check_cache()
    assert f"{tmp_path}/cache/roots: cannot be written by this user" in finding.remedy
    assert "QOP_CACHE" in finding.remedy and "chown" not in finding.remedy
    monkeypatch.setenv("HOME", str(tmp_path))
    assert f"sudo chown -R {namespaces.user_name()} {tmp_path}/cache" in (
        host_checks.check_cache().remedy)


def test_run_that_cannot_build_makes_no_results_folder(
        qop_here: Qop, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The obstacle is named before anything is written."""
    (tmp_path / "file").touch()
    monkeypatch.setenv("QOP_CACHE", str(tmp_path / "file/cache"))
    done = qop_here("run", "--policies", "P1", "--scenarios", "N2", "--out", "out")
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.startswith("qop: before the guest is built:")
    assert f"cache: {tmp_path}/file/cache: cannot be written by this user" in done.stderr
    assert not (qop_here.folder / "out").exists()


@pytest.mark.parametrize("study", studies.study_names())
def test_every_study_has_a_trial(monkeypatch: pytest.MonkeyPatch, study: str) -> None:
    """One cell, with its shortest repetition. Studies need not declare one."""
    machine = object()
    monkeypatch.setattr(setup, "make_machine_for_plan", lambda *_, **__: machine)
    planned = trial.plan_trial(trial.choose_study(study), "guest")
    assert planned.machine is machine
    assert planned.cell.name in [cell.name for cell in planned.plan.cells]
    costs = [planned.plan.expected_cost(cell).duration_s for cell in planned.plan.cells]
    assert planned.plan.expected_cost(planned.cell).duration_s == min(costs)


def test_trial_without_a_study_is_the_first_that_declares_one() -> None:
    assert trial.choose_study().trial is not None
    with pytest.raises(UserError, match="no study 'nosuch'"):
        trial.choose_study("nosuch")


@pytest.mark.parametrize(("frames", "required", "reason"), [
    ({"a.pcap": 3, "b.pcap": 0}, ["a.pcap", "b.pcap"], "no frame was captured in b.pcap"),
    ({"a.pcap": 3, "b.pcap": 0}, [], ""), ({}, [], "no frame was captured in any file"),
    ({"a.pcap": 0}, [], "no frame was captured in a.pcap")])
def test_captures_without_frames_fail_a_trial(frames: dict[str, int], required: list[str],
                                              reason: str) -> None:
    """Of a study that declares none, one capture with frames is enough."""
    assert trial.find_lacking_frames(frames, required) == reason


def test_host_that_cannot_measure_fails_and_is_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it lacks is needed then, and what only guests need is not."""
    monkeypatch.setattr(doctor, "TESTBED_PYTHON", Path("/nowhere/python3"))
    monkeypatch.setattr(trial, "run_trial", lambda *_: pytest.fail("something was measured"))
    monkeypatch.setattr(host_checks, "BUILD_ROOM_MB", 1 << 40)
    found = {finding.what.partition(":")[0].partition(",")[0]: finding
             for finding in doctor._find_all("host", "", with_trial=True)}
    host = found["--on host"]
    assert (host.ok, host.needed) == (False, True) and "provision --on host" in host.remedy
    assert not found["disk"].ok and not found["disk"].needed
    assert "not possible before" in found["trial"].remedy
    assert "proofs of every policy with --on host" in found


@pytest.mark.parametrize("shows", [True, False])
def test_kernel_of_a_trial_decides_about_host_proofs(monkeypatch: pytest.MonkeyPatch,
                                                     shows: bool) -> None:
    """Not its configuration: radios were there, and had keys or not."""
    monkeypatch.setattr(doctor, "_find_trial_obstacle", lambda _: "")
    monkeypatch.setattr(host_checks, "kernel_shows_keys", lambda *_: not shows)
    monkeypatch.setattr(trial, "run_trial",
                        lambda *_: trial.TrialResult({"a.pcap": 3}, 1.0, shows_keys=shows))
    tried, proofs = doctor._check_trial("host")
    assert tried.ok and proofs.ok is shows


def test_policy_that_this_kernel_cannot_prove_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """--on host, as --on vm does. Nothing is refused where the configuration is not known."""
    monkeypatch.setattr(setup, "choose_builder", lambda *_: "mininet")
    plan = ("--on", "host", "--policies", "P1,M8", "--scenarios", "E1", "--dry-run")
    for shows in (True, None):
        monkeypatch.setattr(host_checks, "kernel_shows_keys", lambda shows=shows: shows)
        assert CliRunner().invoke(run.command, plan).exit_code == 0
    monkeypatch.setattr(host_checks, "kernel_shows_keys", lambda: False)
    error = CliRunner().invoke(run.command, plan).exception
    assert isinstance(error, UserError)
    assert str(error).startswith(f"--on host: M8: cannot be proven, because kernel "
                                 f"{os.uname().release} does not show")


def test_vm_without_qemu_fails(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """For a guest, QEMU is not needed."""
    monkeypatch.setenv("QOP_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path))
    for on, needed in (("vm", True), ("guest", False)):
        [found] = [finding for finding in doctor._find_all(on, "", with_trial=False)
                   if finding.what.startswith("--on vm")]
        assert (found.ok, found.needed) == (False, needed)
        assert "'sudo apt-get install -y --no-install-recommends qemu-system-x86'" in found.remedy
    [tried] = doctor._check_trial("vm")
    assert not tried.ok and not tried.needed and "QEMU" in tried.remedy


# Image of guests and of virtual machines ----------------------------------------------------------


#: Names of the checks that fail in a place where nothing can be built.
NAMESPACES, DISK = "user namespaces, for building the guest", "disk"


@pytest.fixture
def nothing_can_be_built(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A place with an empty cache, too small a disk and no namespaces. QEMU is an empty program."""
    (tmp_path / "bin").mkdir()
    for architecture in vm.ARCHITECTURES.values():
        (tmp_path / "bin" / architecture.program).touch(mode=0o755)
    for name, value in (("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}"),
                        ("QOP_CACHE", str(tmp_path / "cache")), (vm.ACCELERATOR_VARIABLE, vm.TCG)):
        monkeypatch.setenv(name, value)
    monkeypatch.delenv(vm.ARCHITECTURE_VARIABLE, raising=False)
    monkeypatch.setattr(host_checks, "BUILD_ROOM_MB", 1 << 40)
    monkeypatch.setattr(namespaces, "has_namespaces", lambda: False)
    monkeypatch.setattr(doctor, "TESTBED_PYTHON", Path("/nowhere/python3"))


@pytest.fixture
def on_arm(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine of another processor, for which there is no User-Mode Linux."""
    *names, _ = os.uname()
    monkeypatch.setattr(os, "uname", lambda: os.uname_result((*names, "aarch64")))
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")


def place_image(kind: str) -> None:
    """Make the cache have all parts of an image, without content."""
    for part in image.list_image_parts(vm=setup.vm_architecture(kind)):
        folder = part.store.folder / part.recipe.key()
        folder.mkdir(parents=True, exist_ok=True)
        (folder / MANIFEST).write_text(json.dumps({"sizes": {}, "seccomp": True}))


def run_doctor(*arguments: str) -> tuple[int, set[str], str]:
    """Return the exit status of `doctor`, the names of what is missing, and its output."""
    done = CliRunner().invoke(doctor.command, arguments, standalone_mode=False)
    assert done.exception is None, done.exception
    return done.return_value, {name.partition(":")[0] for name in re.findall(
        r"^MISSING  (.*)", done.output, re.MULTILINE)}, done.output


def list_refusals(on: str) -> set[str]:
    """Return the names of the failed checks for which a run is refused."""
    try:
        setup.check_plan_build(plan_of("P1", on=on))
    except UserError as error:
        lines = str(error).removeprefix("before the guest is built:").strip().splitlines()
        return {line.strip().partition(":")[0] for line in lines}
    return set()


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="User-Mode Linux needs x86_64")
@pytest.mark.parametrize(("on", "built", "lacking"), [
    ("guest", (), {NAMESPACES, DISK}), ("guest", ("guest",), set()),
    ("guest", ("vm",), {NAMESPACES}), ("vm", (), {NAMESPACES, DISK}),
    ("vm", ("guest",), {NAMESPACES}), ("vm", ("vm",), set())])
@pytest.mark.usefixtures("nothing_can_be_built")
def test_doctor_needs_what_a_run_is_refused_for(on: str, built: tuple[str, ...],
                                                lacking: set[str]) -> None:
    """The image that the run boots decides. Guests and virtual machines share a root."""
    for kind in built:
        place_image(kind)
    status, missing, output = run_doctor("--on", on, "--no-trial")
    assert missing & {NAMESPACES, DISK} == list_refusals(on) & {NAMESPACES, DISK} == lacking, output
    assert status == bool(missing)


@pytest.mark.usefixtures("nothing_can_be_built", "on_arm")
@pytest.mark.parametrize("on", ["guest", "vm", "host"])
def test_on_arm_every_advice_is_about_virtual_machines(on: str) -> None:
    """Guests cannot be built there. Without an image nothing is tried."""
    status, missing, output = run_doctor("--on", on)
    commands = re.findall(r"\./qop (?:run|provision)[^';]*", output)
    assert "./qop provision --on vm" in commands and "./qop run --on vm" in commands
    assert [command for command in commands if " --on " not in command] == []
    assert "without  image of virtual machines\n" in output and "guest image" not in output
    assert "with --on vm" in output and "with --on guest" not in output
    assert (status, "processor" in missing) == (1, on == "guest")
    trial_line = output.partition("  trial: ")[2].splitlines()[1]
    assert "'./qop provision --on " in trial_line


@pytest.mark.usefixtures("nothing_can_be_built", "on_arm")
def test_on_arm_a_built_image_needs_no_build() -> None:
    """User-Mode Linux never has an image there. Guests stay impossible."""
    place_image("vm")
    _, missing, output = run_doctor("--on", "vm", "--no-trial")
    assert not missing & {NAMESPACES, DISK, "processor"}, output
    assert "ok       image of virtual machines" in output
    [tried] = doctor._check_trial("guest")
    assert not tried.ok and "'./qop doctor --on vm' tries one" in tried.remedy


@pytest.mark.usefixtures("nothing_can_be_built")
def test_packages_for_another_architecture_are_not_advised(monkeypatch: pytest.MonkeyPatch
                                                           ) -> None:
    """No such image can be built; those of this machine's architecture can."""
    assert "'./qop provision --on vm --study qop2007'" in doctor._check_packages("vm").remedy
    other = next(name for name in vm.ARCHITECTURES if name != platform.machine())
    monkeypatch.setenv(vm.ARCHITECTURE_VARIABLE, other)
    finding = doctor._check_packages("vm")
    assert not finding.ok and not finding.needed and "provision" not in finding.remedy
    assert "an image of another architecture" in finding.remedy


@pytest.mark.parametrize(("on", "command"), [
    ("guest", "./qop provision"), ("vm", "./qop provision --on vm")])
def test_command_that_builds_the_images_of_a_plan_names_the_machine(on: str, command: str) -> None:
    assert setup.provision_command(plan_of("P1", on=on)) == command


@pytest.mark.guest
@pytest.mark.shareable
def test_trial_captures_frames_of_a_station(qop: Qop) -> None:
    """Counts of both captures are in the line."""
    done = qop("doctor")
    line = done.stdout.splitlines()[-1]
    assert line.startswith("ok       trial:"), done.stdout
    counts = [int(word) for word in line.replace(";", ",").replace(",", " ").split()
              if word.isdigit()]
    assert len(counts) == 2 and min(counts) > 0


@pytest.mark.guest
@pytest.mark.shareable
def test_trial_of_a_study_that_declares_none(qop: Qop) -> None:
    """The default study, in the folder of a run, whose disk may be another one than /tmp."""
    done = qop("doctor", "--study", studies.DEFAULT)
    line = done.stdout.splitlines()[-1]
    assert line.startswith(f"ok       trial: a guest boots, {studies.DEFAULT} is measured"), (
        done.stdout)
    assert "traffic-air.pcap " in line


@pytest.mark.guest
@pytest.mark.shareable
def test_trial_fails_if_tcpdump_cannot_be_forked(monkeypatch: pytest.MonkeyPatch,
                                                 tmp_path: Path) -> None:
    """The library that is loaded into tcpdump needs a symbol that the guest lacks."""
    source = tmp_path / library.COPIES.name
    source.write_text(BROKEN)
    plain = EmbeddedMachine.read_library

    def read_library(self: EmbeddedMachine, wanted: Path, packages: str = "") -> str:
        from harness.engine.machine import compile_for_host

        return compile_for_host(source) if wanted == library.COPIES \
            else plain(self, wanted, packages)

    monkeypatch.setattr(EmbeddedMachine, "read_library", read_library)
    monkeypatch.setenv("QOP_CACHE", os.environ.get("QOP_CACHE", str(Path.home() / ".cache/qop")))
    result = trial.run_trial()
    assert "tcpdump" in result.reason
    assert not result.frames
