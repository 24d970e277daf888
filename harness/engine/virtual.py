"""Measure in virtual machines by QEMU instead of User-Mode Linux guests (`--on vm`).

This is for machines where User-Mode Linux does not run. `make_machine` takes a disk image, and
returns the `VirtualMachine` on which a run starts its emulated networks. The virtual machines have
Debian's kernel. If it does not show the keys of the link layer, some policies cannot be proven by
captures. `check_plan` refuses such a plan before it starts, and `./qop doctor` lists these
policies.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import click

from guest import boot, image, vm
from harness.engine.machine import EmbeddedMachine, console_log, scratch_folder
from harness.engine.plan import Plan
from harness.errors import UserError
from measure.packets.decryption_keys import needs_kernel_keys
from policies import Policy, load_named, policy_ids

#: Memory that Debian's kernel needs beyond that of a guest, in MB.
_KERNEL_MB = 160
#: What emulated processors mean for results.
EMULATED = ("the processor is emulated, which takes many times as long: times and throughput "
            "show only that everything works")

#: Minutes that building an image takes, for this machine's architecture and for another one
#: (measured on two busy processors, 2026-11-28).
_BUILD_MIN, _FOREIGN_BUILD_MIN = 6, 37
#: Factor of time limits for an emulated processor.
_EMULATED_PATIENCE = 10.0
_UNPROVEN = ("cannot be proven, because {} does not show the keys of SAE, OWE, FILS and fast "
             "transition")
_DEBIANS_KERNEL = "Debian's kernel"


class VirtualMachine(EmbeddedMachine):
    """QEMU machines with Debian's kernel.

    Each testbed gets one, which runs on one processor.

    Args:
        built: The image with the virtual machine's kernel.
        architecture: Kind of processor.
    """

    def __init__(self, built: image.GuestImage, architecture: vm.Architecture) -> None:
        super().__init__(built)
        # Nothing tells how long a virtual machine waits for the host, so only one repetition
        # is measured on a processor at a time.
        self.at_once = 1
        self._base_mb += _KERNEL_MB
        # All testbeds start before the first measurement, and an emulated start takes half a minute
        # of a processor.
        self.max_testbeds = len(self.processors)
        self.architecture = architecture
        self.accelerator, self.left_out = vm.choose_accelerator(built, architecture)
        self.patience = _EMULATED_PATIENCE if self.is_emulated else 1.0

    @property
    def is_emulated(self) -> bool:
        """Return whether QEMU emulates the processor, which is slow, instead of using KVM."""
        return self.accelerator == vm.TCG

    @property
    def is_foreign(self) -> bool:
        """Return whether the virtual machine's processor architecture differs from this host's."""
        return vm.is_foreign(self.architecture)

    def read_library(self, source: Path, packages: str = "") -> str:
        """Return a shared library of the image to preload, in base 64.

        The result is "" if the architecture differs from this host's.
        """
        return "" if self.is_foreign else super().read_library(source, packages)

    def describe_machine(self) -> dict[str, str]:
        """Return architecture and accelerator (such as KVM), for records and provenance."""
        return {"architecture": self.architecture.name, "accelerator": self.accelerator}

    async def _boot_machine(self, built: image.GuestImage, job_dir: Path, processor: int,
                            memory_mb: int,
                            clock: boot.Clock) -> boot.Guest:
        assert clock == "real"
        return await vm.boot_vm(
            built, job_dir, architecture=self.architecture, accelerator=self.accelerator,
            cpu=processor, memory_mb=memory_mb, console_log=console_log(job_dir),
            scratch=scratch_folder(job_dir))


def check_program() -> None:
    """Raise UserError if QEMU is missing."""
    try:
        missing = vm.missing_program(vm.find_architecture())
    except boot.GuestError as error:
        missing = str(error)
    if missing:
        raise UserError(f"--on vm: {missing}")


def make_machine(built: image.GuestImage) -> VirtualMachine:
    """Return the machine for `--on vm`, and print why a faster accelerator is not used.

    Raises:
        UserError: The accelerator is not known.
    """
    try:
        machine = VirtualMachine(built, vm.find_architecture())
    except boot.GuestError as error:
        raise UserError(f"--on vm: {error}") from None
    if machine.is_emulated:
        why = f" ({machine.left_out})" if machine.left_out else ""
        click.echo(f"qop: --on vm: {EMULATED}{why}", err=True)
    return machine


def unproven_policies(policies: Iterable[Policy]) -> list[str]:
    """Return the ids of policies that cannot be proven with Debian's kernel.

    Proving them requires reading link-layer keys, which only the guest's patched kernel shows.
    """
    return [policy.id for policy in policies
            if policy.layers.link is not None and needs_kernel_keys(policy.layers.link)]


def check_plan(plan: Plan) -> None:
    """Raise UserError if QEMU is missing, or if policies of the plan cannot be proven in it.

    The proof of some policies needs keys that Debian's kernel in the virtual machine may not show.
    """
    check_program()
    if not _shows_keys(find_vm_image()):
        refuse_unproven(plan, _DEBIANS_KERNEL)


def refuse_unproven(plan: Plan, kernel: str) -> None:
    """Raise UserError if a plan has policies that a kernel without keys cannot prove.

    Args:
        plan: The plan.
        kernel: The kernel's name, for the message.
    """
    lacking = unproven_policies({policy.id: policy for testbed in plan.testbeds.values()
                                 if (policy := testbed.spec.policy)}.values())
    if lacking:
        on = plan.settings.on
        raise UserError(f"--on {on}: {', '.join(lacking)}: {_UNPROVEN.format(kernel)}; leave out "
                        f"{'these policies' if len(lacking) > 1 else 'this policy'}, or --on {on}")


def find_vm_image() -> image.GuestImage | None:
    """Return the plain image of virtual machines, None if it is not built.

    Raises:
        UserError: No virtual machine is provided for this machine's architecture.
    """
    try:
        return image.find_image(vm=vm.find_architecture().name)
    except boot.GuestError as error:
        raise UserError(f"--on vm: {error}") from None


def describe_build() -> str:
    """Return how long building the image of virtual machines takes, "" if it is built."""
    if find_vm_image() is not None:
        return ""
    minutes = _FOREIGN_BUILD_MIN if vm.is_foreign(vm.find_architecture()) else _BUILD_MIN
    return f"the image is built first, which takes about {minutes} min on two processors"


def _shows_keys(built: image.GuestImage | None) -> bool:
    """Return whether an image's kernel was built to show the keys of radios."""
    return built is not None and bool(built.manifest.get("kernel", {}).get("tells_keys"))


@dataclass(frozen=True)
class Support:
    """An answer to whether --on vm works on this machine.

    - `what`: text on what was checked
    - `remedy`: text on what is missing, or how well it works
    - `is_whole`: false if there is no image yet, or the processor is emulated, which is slow
    - `is_possible`: false if runs fail
    """

    what: str
    remedy: str
    is_whole: bool = False
    is_possible: bool = True


def describe_support() -> Support:
    """Return whether --on vm works here, what was checked, and what is missing."""
    what = "--on vm, measuring in virtual machines with Debian's kernel"
    try:
        architecture = vm.find_architecture()
        if missing := vm.missing_program(architecture):
            return Support(what, missing, is_possible=False)
        built = image.find_image(vm=architecture.name)
        if built is None:
            return Support(f"{what}: {architecture.program}", "no image is built yet; './qop "
                           "provision --on vm' or './qop run --on vm' builds it")
        accelerator, left_out = vm.choose_accelerator(built, architecture)
    except boot.GuestError as error:
        return Support(what, str(error), is_possible=False)
    return Support(f"{what}: {architecture.program}, {accelerator}",
                   f"works, but {EMULATED}{f' ({left_out})' if left_out else ''}",
                   is_whole=accelerator != vm.TCG)


def describe_unproven() -> tuple[bool, str, str]:
    """Return which policies cannot be proven with --on vm, for `./qop doctor`.

    Returns:
        Whether all policies can be proven, the name of this check, and a text that lists the
        policies that cannot be proven.
    """
    lacking = unproven_policies(map(load_named, policy_ids()))
    try:
        built = find_vm_image()
    except UserError:
        built = None
    release = built.manifest.get("kernel", {}).get("version", "") if built else ""
    kernel = f"{_DEBIANS_KERNEL} {release}".strip()
    return not lacking or _shows_keys(built), "proofs of every policy with --on vm", (
        f"{', '.join(lacking)}: {_UNPROVEN.format(kernel)}; measure these in guests")
