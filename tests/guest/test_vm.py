"""Virtual machines by QEMU (--on vm): accelerator, command line, messages, a proven policy."""

from __future__ import annotations

import base64
import dataclasses
import json
import os
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

import plans
import policies
from analysis import records
from conftest import PROJECT, Qop
from guest import image, vm, vm_kernel
from guest.boot import GuestError
from guest.image import GuestImage
from harness.commands import run
from harness.engine import progress, virtual
from harness.engine.machine import EmbeddedMachine
from harness.engine.plan import Plan
from harness.engine.results import ResultsFolder
from harness.errors import UserError
from keyed import changing
from measure.charging import library

X86 = vm.ARCHITECTURES["x86_64"]
#: A QEMU whose kvm fails as on a host that cannot nest machines, and whose tcg runs the kernel.
_QEMU = """#!/bin/sh
echo "$*" >>"$CALLS"
case "$*" in
*"-accel kvm"*) echo 'kvm.c: MSR 0x10a cannot be set' >&2; exit 134 ;;
*) echo 'SeaBIOS'; echo 'qop: this kernel runs' ;;
esac
"""


@pytest.fixture
def built(tmp_path: Path) -> GuestImage:
    """An image whose files have no content."""
    for name in ("linux", "initrd", "modules.squashfs", "root.squashfs"):
        (tmp_path / "image" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "image" / name).touch()
    return GuestImage(tmp_path / "image/linux", tmp_path / "image/root.squashfs", seccomp=False,
                      key="x", manifest={})


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file with the command lines of QEMU, which is a script here. There is a /dev/kvm."""
    (tmp_path / "bin").mkdir()
    place_program(tmp_path / "bin", _QEMU)
    (tmp_path / "kvm").touch()
    for name, value in (("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}"),
                        ("CALLS", str(tmp_path / "calls")), ("QOP_CACHE", str(tmp_path / "cache"))):
        monkeypatch.setenv(name, value)
    for name in (vm.ACCELERATOR_VARIABLE, vm.ARCHITECTURE_VARIABLE):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(vm, "_KVM_DEVICE", tmp_path / "kvm")
    monkeypatch.setattr(vm.platform, "machine", lambda: "x86_64")
    return tmp_path / "calls"


def place_program(folder: Path, script: str) -> None:
    """Write a script in place of QEMU."""
    (folder / X86.program).write_text(script)
    (folder / X86.program).chmod(0o755)


def test_accelerator_that_does_not_run_a_kernel_is_left_out(built, calls) -> None:
    """A trial decides, not the device file; the reason has QEMU's last line. It is tried once."""
    chosen = vm.choose_accelerator(built, X86)
    assert chosen == (vm.TCG, f"kvm: {X86.program} ended: kvm.c: MSR 0x10a cannot be set")
    assert vm.choose_accelerator(built, X86) == chosen
    [line] = calls.read_text().splitlines()
    assert "-accel kvm -cpu max" in line and "qop.trial" in line


def test_accelerator_whose_kernel_stands_still_is_left_out(built, calls, tmp_path) -> None:
    """A kernel that says nothing counts as one that does not run."""
    place_program(tmp_path / "bin", "#!/bin/sh\nexec sleep 60\n")
    assert vm.try_accelerator(vm.KVM, built, X86, limit_s=0.3) == (
        "a kernel was started and did not run within 0.3 s")
    place_program(tmp_path / "bin", _QEMU)
    assert vm.try_accelerator(vm.TCG, built, X86) == ""


def test_accelerator_that_runs_a_kernel_is_chosen(built, calls, tmp_path) -> None:
    """A KVM that works needs no emulation."""
    place_program(tmp_path / "bin", "#!/bin/sh\necho 'qop: this kernel runs'\n")
    assert vm.choose_accelerator(built, X86) == (vm.KVM, "")


@pytest.mark.parametrize(("machine", "device", "expected", "reason"), [
    ("x86_64", True, [vm.KVM], ""), ("x86_64", False, [], "kvm: there is no "),
    ("aarch64", True, [], "amd64 is not this machine's architecture")])
def test_candidates(monkeypatch, calls, tmp_path, machine, device, expected, reason) -> None:
    """KVM, but not for the processor of another architecture."""
    monkeypatch.setattr(vm.platform, "machine", lambda: machine)
    if not device:
        (tmp_path / "kvm").unlink()
    left_out: list[str] = []
    assert vm.list_candidates(X86, left_out) == expected
    assert "; ".join(left_out).startswith(reason) and bool(left_out) == bool(reason)


def test_device_that_this_user_may_not_use_is_named(monkeypatch, calls) -> None:
    """With the group that may."""
    monkeypatch.setattr(vm.os, "access", lambda *_: False)
    left_out: list[str] = []
    assert vm.list_candidates(X86, left_out) == []
    [reason] = left_out
    assert "this user may not use" in reason and "group kvm" in reason


def test_accelerator_of_the_environment_is_not_tried(built, calls, monkeypatch) -> None:
    """QOP_VM_ACCELERATOR decides; a name that QEMU is not asked for is refused."""
    monkeypatch.setenv(vm.ACCELERATOR_VARIABLE, "kvm")
    assert vm.choose_accelerator(built, X86) == (vm.KVM, "") and not calls.exists()
    monkeypatch.setenv(vm.ACCELERATOR_VARIABLE, "xen")
    with pytest.raises(GuestError, match=r"QOP_VM_ACCELERATOR=xen: .* choose kvm or tcg"):
        vm.choose_accelerator(built, X86)


@pytest.mark.parametrize(("machine", "name"), [
    ("x86_64", "amd64"), ("aarch64", "arm64"), ("arm64", "arm64")])
def test_architecture_of_this_machine(calls, monkeypatch, machine, name) -> None:
    """Also by the name that other systems give it."""
    monkeypatch.setattr(vm.platform, "machine", lambda: machine)
    assert vm.find_architecture().name == name
    assert not vm.is_foreign(vm.find_architecture())


def test_other_architectures(calls, monkeypatch) -> None:
    """One that is named is emulated; one that nobody provides is refused in one line."""
    monkeypatch.setenv(vm.ARCHITECTURE_VARIABLE, "arm64")
    assert vm.find_architecture().name == "arm64" and vm.is_foreign(vm.find_architecture())
    monkeypatch.setenv(vm.ARCHITECTURE_VARIABLE, "riscv64")
    with pytest.raises(UserError, match=r"^--on vm: QOP_VM_ARCHITECTURE=riscv64: ") as told:
        virtual.check_program()
    assert "\n" not in str(told.value)


def test_missing_qemu_is_named_with_its_package(calls, monkeypatch, tmp_path) -> None:
    """Before anything is built."""
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError, match=r"here; run 'sudo apt-get .* qemu-system-x86'"):
        virtual.check_program()


@pytest.mark.parametrize(("name", "accelerator", "patience", "foreign"), [
    ("x86_64", "kvm", 1.0, False), ("x86_64", "tcg", 10.0, False), ("aarch64", "tcg", 10.0, True)])
def test_machine_of_a_run(built, calls, monkeypatch, name, accelerator, patience, foreign) -> None:
    """Only an emulated processor gets more time; records name it; one repetition at a time."""
    monkeypatch.setenv(vm.ACCELERATOR_VARIABLE, accelerator)
    made = virtual.VirtualMachine(built, vm.ARCHITECTURES[name])
    assert (made.patience, made.at_once, made.is_foreign) == (patience, 1, foreign)
    assert made.describe_machine() == {"architecture": vm.ARCHITECTURES[name].name,
                                       "accelerator": accelerator}
    assert made.memory_mb(3) == EmbeddedMachine(built).memory_mb(3) + 160


def test_library_to_preload_is_the_images_file(built, calls, monkeypatch, tmp_path) -> None:
    """As compiled in the guest's root, byte by byte; no compiler of this machine is asked."""
    monkeypatch.setenv(vm.ACCELERATOR_VARIABLE, "tcg")
    (tmp_path / "libraries").mkdir()
    (tmp_path / "libraries/copies.so").write_bytes(b"of the image")
    with_libraries = dataclasses.replace(built, libraries=tmp_path / "libraries")
    for made in (EmbeddedMachine(with_libraries), virtual.VirtualMachine(with_libraries, X86)):
        assert base64.b64decode(made.read_library(library.COPIES)) == b"of the image"


async def boot(built: GuestImage, folder: Path) -> vm.Guest:
    """Start a machine whose folder is below another."""
    job = folder / "a,b" / "job"
    (job / "code").mkdir(parents=True)
    return await vm.boot_vm(built, job, architecture=X86, accelerator=vm.TCG, cpu=0, memory_mb=300,
                            console_log=folder / "console.log", scratch=folder / "scratch")


async def test_failure_has_the_cause_that_qemu_states(built, calls, tmp_path) -> None:
    """The console ends with QEMU's own message."""
    place_program(tmp_path / "bin", "#!/bin/sh\necho 'qemu: no memory' >&2\nexit 1\n")
    end = await (await boot(built, tmp_path)).wait()
    assert end.reason == ("the guest ended with status 1 before its command did; "
                          "its console ended: qemu: no memory")
    assert not list((tmp_path / "scratch").iterdir())


async def test_machine_is_ended_as_a_group(built, calls, tmp_path) -> None:
    """What QEMU started ends with it, and nothing is left."""
    place_program(tmp_path / "bin", "#!/bin/sh\nsleep 600 &\nexec sleep 600\n")
    machine = await boot(built, tmp_path)
    end = await machine.kill()
    assert end.reason == "killed" and not vm_members(machine.pid)


def vm_members(group: int) -> list[int]:
    """Return the processes of a group."""
    from guest.processes import list_members

    return list_members(group)


async def test_command_line(built, calls, tmp_path) -> None:
    """No network, no configuration of the user's, and no path that a comma could split."""
    await (await boot(built, tmp_path)).wait()
    line = calls.read_text()
    for words in ("-accel tcg -cpu max,la57=off", "-nodefaults", "-nic none", "-m 300",
                  "mount_tag=host", "mount_tag=code", "readonly=on", "qop.vm"):
        assert words in line
    assert str(tmp_path) not in line


def test_kernel_key(tmp_path, monkeypatch) -> None:
    """Another architecture, first process or medium makes another kernel."""
    shutil.copytree(PROJECT / "guest", tmp_path / "guest")
    monkeypatch.setattr(vm_kernel, "HERE", tmp_path / "guest")
    recipe = vm_kernel.VmKernel("amd64")
    assert recipe.key() != vm_kernel.VmKernel("arm64").key()
    assert changing(tmp_path, recipe.key, [
        ("guest/vm/init", "switch_root", "chroot"), ("guest/vm/kernel.sh", "zstd", "xz"),
        ("guest/module/sch_dcf.c", "hwsim0", "hwsim1"), ("guest/vm.py", "def ", "def  ")]) == [
            True, True, True, False]


def test_image_of_another_architecture_is_separate(monkeypatch) -> None:
    """Guests and machines of one architecture share a root file system; others have their own."""
    monkeypatch.setattr(image.platform, "machine", lambda: "x86_64")
    keys = {name: tuple(part.recipe.key() for part in image.list_image_parts(vm=name))
            for name in ("", "amd64", "arm64")}
    assert keys[""][1] == keys["amd64"][1] != keys["arm64"][1]
    assert len({kernel for kernel, *_ in keys.values()}) == 3


@pytest.mark.parametrize(("arguments", "said"), [
    (["--clock", "virtual"],
     "--clock virtual: only embedded guests have it; leave out --on vm"),
    (["--clock", "processor"],
     "--clock processor: only embedded guests have it; leave out --on vm"),
    (["--cluster", "tls://127.0.0.1:1"],
     "--cluster: workers measure in embedded guests; leave out --on vm"),
    (["lecturehall"],
     "--clock virtual: only embedded guests have it; leave out --on vm, or add --clock real")])
def test_what_only_guests_have_is_refused(arguments, said) -> None:
    """One line, before anything starts."""
    done = CliRunner().invoke(run.command, ["--on", "vm", *arguments])
    assert isinstance(done.exception, UserError) and str(done.exception) == said


def test_policy_that_the_kernel_cannot_prove_is_refused(qop_here: Qop) -> None:
    """One line names the policy and the reason; no image is built for it."""
    done = qop_here("run", "--on", "vm", "--policies", "P1,M8", "--scenarios", "N2", "--out", "out")
    assert done.returncode == 2 and done.stdout == "" and not (qop_here.folder / "out").exists()
    [line] = done.stderr.splitlines()
    assert line.startswith("qop: --on vm: M8: cannot be proven, because Debian's kernel does not")


def test_policies_without_proof_are_those_of_exchanged_keys() -> None:
    """SAE, OWE, FILS and fast transition; all policies of the paper have their proof."""
    every = [policies.load_named(name) for name in policies.policy_ids()]
    lacking = virtual.unproven_policies(every)
    assert {"M1", "M3", "M7", "M8", "M9"} <= set(lacking)
    assert not {"P1", "P8", "P12", "M2", "M4", "M5", "M6"} & set(lacking)
    assert "M8" in virtual.describe_unproven()[2]


def test_time_with_an_emulated_processor_is_expected_before_the_start() -> None:
    """A start takes a processor long, so more testbeds do; a guest's preview has one time."""
    def plan_of(count: int, on: str) -> Plan:
        made = plans.plan_of(plans.policies(count), "N2", repetitions=2, clock="real")
        return dataclasses.replace(made, settings=dataclasses.replace(made.settings, on=on))

    few, many = plan_of(2, "vm"), plan_of(12, "vm")
    expected_s = [progress.estimate_emulated_s(plan, plan.all_steps(), 2) for plan in (few, many)]
    assert expected_s[0] > progress.estimate_duration_s(few, few.all_steps(), 2)
    assert expected_s[1] > 4 * expected_s[0]
    assert f"; {progress.format_duration(expected_s[0])} if the processor is emulated" in (
        progress.describe_expected_time(few, few.all_steps(), 2))
    guests = plan_of(2, "guest")
    assert "emulated" not in progress.describe_expected_time(guests, guests.all_steps(), 2)


@pytest.mark.parametrize("is_built", [True, False])
def test_run_says_how_long_image_and_measurement_take(built, calls, monkeypatch, tmp_path, capsys,
                                                      is_built) -> None:
    """With an emulated processor. The line about the image comes before the build."""
    monkeypatch.setenv(vm.ACCELERATOR_VARIABLE, "tcg")
    monkeypatch.setattr(image, "find_image", lambda **_: built if is_built else None)
    made = plans.plan_of(plans.policies(2), "N2", repetitions=2, clock="real")
    plan = dataclasses.replace(made, settings=dataclasses.replace(made.settings, on="vm"))
    before: list[str] = []

    def make_machine(_: Plan) -> virtual.VirtualMachine:
        before.append(capsys.readouterr().err)
        return virtual.VirtualMachine(built, X86)

    monkeypatch.setattr(run.setup, "make_machine_for_plan", make_machine)
    monkeypatch.setattr(run, "Campaign", lambda *_, **__: None)
    run._local_campaign_factory(plan, tmp_path)(ResultsFolder(tmp_path / "out"), None, list)
    assert before == ["" if is_built else "qop: --on vm: the image is built first, which takes "
                      "about 6 min on two processors\n"]
    assert capsys.readouterr().err.startswith("qop: --on vm: expect ")


def test_accelerator_is_found_without_a_cache_that_can_be_written(built, calls, tmp_path,
                                                                   monkeypatch) -> None:
    """As where root built the image, and an ordinary user measures."""
    (tmp_path / "file").touch()
    monkeypatch.setenv("QOP_CACHE", str(tmp_path / "file/cache"))
    assert vm.choose_accelerator(built, X86)[0] == vm.TCG


@pytest.mark.parametrize(("tells", "ok"), [(True, True), (False, False)])
def test_configuration_of_the_built_kernel_decides_about_proofs(monkeypatch, built, tells,
                                                                ok) -> None:
    """A kernel that shows keys proves all policies, and the plan is not refused."""
    monkeypatch.setattr(image, "find_image", lambda **_: dataclasses.replace(
        built, manifest={"kernel": {"version": "6.1.0-56-amd64", "tells_keys": tells}}))
    is_whole, _, remedy = virtual.describe_unproven()
    assert is_whole is ok and "Debian's kernel 6.1.0-56-amd64 does not show" in remedy


@pytest.mark.parametrize(("environment", "shown"), [
    ({"machine": "guest"}, "guest"), ({"machine": "vm"}, "vm"),
    ({"machine": "vm", "accelerator": "kvm", "architecture": "arm64"}, "vm (kvm)"),
    ({"machine": "vm", "accelerator": "tcg", "architecture": "arm64"},
     "vm (emulated processor, arm64)")])
def test_tables_name_an_emulated_processor(environment, shown) -> None:
    """So that its values are neither averaged with others nor taken for them."""
    assert records.describe_machine(environment) == shown


@pytest.mark.guest
@pytest.mark.slow
@pytest.mark.skipif(not shutil.which(X86.program), reason=f"{X86.program} is not installed "
                    f"(Debian: {X86.package})")
@pytest.mark.skipif("QOP_NO_TIME" in os.environ, reason="QOP_NO_TIME is set: an emulated processor "
                    "takes minutes")
def test_policies_are_proven_in_a_virtual_machine(qop_here: Qop) -> None:
    """WEP with keys of EAP-TLS is proven on Debian's kernel; provenance names the accelerator."""
    done = qop_here("run", "--on", "vm", "--policies", "P8", "--scenarios", "N2", "--repetitions",
                    "1", "--stream-bytes", "100k", "--out", "out", timeout_s=1400)
    assert done.returncode == 0, done.stdout + done.stderr
    record = json.loads((qop_here.folder / "out/records/P8-N2-001.json").read_text())
    assert record["status"] == "ok"
    assert all(check["ok"] for check in record["evidence"])
    [made] = json.loads((qop_here.folder / "out/provenance.json").read_text())
    assert made["vm"]["architecture"] == X86.name
    assert made["vm"]["accelerator"] == record["environment"]["accelerator"] in (vm.KVM, vm.TCG)
    report = qop_here("report", "out", "--table", "run")
    assert report.returncode == 0 and "Machine: vm (" in report.stdout, report.stdout
    assert made["image"]["kernel"]["package"] == "linux-image-amd64"


@pytest.mark.guest
@pytest.mark.slow
@pytest.mark.skipif(not shutil.which(X86.program), reason=f"{X86.program} is not installed "
                    f"(Debian: {X86.package})")
@pytest.mark.skipif("QOP_NO_TIME" in os.environ, reason="QOP_NO_TIME is set: an emulated processor "
                    "takes minutes")
def test_doctor_tries_a_virtual_machine(qop: Qop) -> None:
    """It boots, a station joins, and captures have frames; the image is built by the other test."""
    qop("provision", "--on", "vm", timeout_s=1400)
    done = qop("doctor", "--on", "vm", timeout_s=1400)
    line = done.stdout.splitlines()[-1]
    assert line.startswith("ok       trial: a virtual machine boots"), done.stdout + done.stderr
    assert done.returncode == 0 and "hall-air.pcap " in line
