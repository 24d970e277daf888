"""Start a guest as a virtual machine by QEMU, where User-Mode Linux does not run.

A guest is the virtual machine of a test network. `boot_vm` takes its image and a job folder, boots
Debian's kernel (`guest.vm_kernel`) with the guest's root file system, and returns a `Guest`. Its
command has the same streams and the same shared folder as in a User-Mode Linux guest.
`choose_accelerator` tries KVM and other accelerators, and returns the best that works.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import platform
import shutil
import subprocess
from asyncio.subprocess import PIPE
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from guest.boot import CODE, LINE_LIMIT, Guest, GuestError, make_home, prepare_job
from guest.cache import cache_root, hash_inputs
from guest.image import GuestImage
from guest.processes import build_tied_command

#: Variables that choose the accelerator, and another architecture than this machine's (emulated).
ACCELERATOR_VARIABLE, ARCHITECTURE_VARIABLE = "QOP_VM_ACCELERATOR", "QOP_VM_ARCHITECTURE"
KVM, TCG = "kvm", "tcg"
#: Seconds until a kernel must run under an accelerator. With a working one it takes 1 s.
TRIAL_S = 20.0
#: Text on the console of a machine in a trial (guest/vm/init).
_RUNS = b"qop: this kernel runs"
_KVM_DEVICE = Path("/dev/kvm")
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True)
class Architecture:
    """A processor architecture that QEMU provides.

    `name` is Debian's name, `package` Debian's package of the program. `emulated` is the processor
    model without an accelerator.
    """

    name: str
    program: str
    package: str
    board: str
    console: str
    emulated: str


#: Architectures by the kernel's name of them. 57-bit addresses and pointer authentication cost
#: time in emulation.
ARCHITECTURES = {
    "x86_64": Architecture("amd64", "qemu-system-x86_64", "qemu-system-x86", "pc", "ttyS0",
                           "max,la57=off"),
    "aarch64": Architecture("arm64", "qemu-system-aarch64", "qemu-system-arm",
                            "virt,gic-version=max", "ttyAMA0",
                            "cortex-a72"),
}
_SYNONYMS = {"arm64": "aarch64", "amd64": "x86_64"}


def find_architecture() -> Architecture:
    """Return the architecture of virtual machines: this machine's, or QOP_VM_ARCHITECTURE.

    Raises:
        GuestError: No virtual machine is provided for it.
    """
    asked = os.environ.get(ARCHITECTURE_VARIABLE, "")
    name = asked or platform.machine()
    try:
        return ARCHITECTURES[_SYNONYMS.get(name, name)]
    except KeyError:
        where = f"{ARCHITECTURE_VARIABLE}={asked}: " if asked else ""
        raise GuestError(f"{where}there is no virtual machine for {name}; choose a machine of "
                         f"{' or '.join(ARCHITECTURES)}") from None


def is_foreign(architecture: Architecture) -> bool:
    """Return whether an architecture differs from that of this machine's processor."""
    name = platform.machine()
    return ARCHITECTURES.get(_SYNONYMS.get(name, name)) != architecture


def missing_program(architecture: Architecture) -> str:
    """Return what to install if QEMU is missing, "" if QEMU is installed."""
    if shutil.which(architecture.program):
        return ""
    return (f"there is no {architecture.program} here; run 'sudo apt-get install -y "
            f"--no-install-recommends {architecture.package}', or install QEMU")


def choose_accelerator(image: GuestImage, architecture: Architecture) -> tuple[str, str]:
    """Return the best accelerator of QEMU (such as KVM), and why others are not used.

    A device file alone does not show that a kernel runs: some hosts' KVM stops with it. So each
    candidate starts the kernel once. The result is kept until this machine is started again.
    QOP_VM_ACCELERATOR skips the trial.
    """
    chosen = os.environ.get(ACCELERATOR_VARIABLE, "")
    if chosen:
        if chosen not in (KVM, TCG):
            raise GuestError(f"{ACCELERATOR_VARIABLE}={chosen}: is not an accelerator; choose "
                             f"{KVM} or {TCG}")
        return chosen, ""
    known = _trial_file(image, architecture)
    try:
        kept: dict[str, str] = json.loads(known.read_text())
        return kept["accelerator"], kept["left_out"]
    except (OSError, ValueError, KeyError):
        accelerator, left_out = _try_accelerators(image, architecture)
    with contextlib.suppress(OSError):  # the cache may be another user's
        known.parent.mkdir(parents=True, exist_ok=True)
        known.write_text(json.dumps({"accelerator": accelerator, "left_out": left_out}))
    return accelerator, left_out


def _trial_file(image: GuestImage, architecture: Architecture) -> Path:
    """Return the file that keeps which accelerator works, until this machine is restarted."""
    boot_id = _BOOT_ID.read_text() if _BOOT_ID.exists() else ""
    key = hash_inputs({"kernel": str(image.kernel).encode(), "boot": boot_id.encode(),
                       "program": (shutil.which(architecture.program) or "").encode(),
                       "usable": str(os.access(_KVM_DEVICE, os.R_OK | os.W_OK)).encode()})
    return cache_root() / "accelerators" / f"{key}.json"


def _try_accelerators(image: GuestImage, architecture: Architecture) -> tuple[str, str]:
    """Return the first accelerator that starts the kernel, and why better ones failed."""
    left_out: list[str] = []
    for candidate in list_candidates(architecture, left_out):
        if why := try_accelerator(candidate, image, architecture):
            left_out.append(f"{candidate}: {why}")
        else:
            return candidate, "; ".join(left_out)
    return TCG, "; ".join(left_out)


def list_candidates(architecture: Architecture, left_out: list[str]) -> list[str]:
    """Return the accelerators of QEMU to try, best first.

    Args:
        architecture: The architecture of the machine to start.
        left_out: Gets the reason for each accelerator of this system that cannot be tried.
    """
    if is_foreign(architecture):
        left_out.append(f"{architecture.name} is not this machine's architecture")
        return []
    if not _KVM_DEVICE.exists():
        left_out.append(f"{KVM}: there is no {_KVM_DEVICE}")
    elif not os.access(_KVM_DEVICE, os.R_OK | os.W_OK):
        left_out.append(f"{KVM}: this user may not use {_KVM_DEVICE} (Debian: group kvm)")
    else:
        return [KVM]
    return []


def try_accelerator(accelerator: str, image: GuestImage, architecture: Architecture,
                    limit_s: float = TRIAL_S) -> str:
    """Start the kernel with an accelerator, and return why that fails, "" if it works."""
    argv = [*build_tied_command("KILL"), *_qemu_line(accelerator, architecture, 256),
            *("-kernel", str(image.kernel), "-initrd", str(_initrd_path(image))),
            *("-serial", "stdio", "-append", _kernel_line(architecture, "qop.trial"))]
    try:
        done = subprocess.run(argv, capture_output=True, stdin=subprocess.DEVNULL, timeout=limit_s,
                              check=False)
    except subprocess.TimeoutExpired as error:
        if _RUNS in (error.stdout or b""):
            return ""  # it runs, and did not power off in time
        return f"a kernel was started and did not run within {limit_s:g} s"
    if _RUNS in done.stdout:
        return ""
    said = done.stderr.decode(errors="replace").strip().splitlines()
    last = (said or [f"status {done.returncode}"])[-1]
    return f"{architecture.program} ended: {last[:200]}"


async def boot_vm(image: GuestImage, job_dir: Path, *,  # noqa: PLR0913 - circumstances, most by name
                  architecture: Architecture, accelerator: str, cpu: int,
                  memory_mb: int, console_log: Path, scratch: Path,
                  command: Sequence[str] | None = None, options: Sequence[str] = ()) -> Guest:
    """Start a virtual machine that runs the worker or a command, with one processor.

    Call this function from the main thread, as `guest.boot.boot_guest`. Waiting takes wall-clock
    time. The machine has no network.

    Args:
        image: Kernel and root file system to boot.
        job_dir: Folder that the machine mounts at /host, with a link or folder CODE.
        architecture: Kind of processor.
        accelerator: Result of `choose_accelerator`.
        cpu: The one core that the machine runs on.
        memory_mb: The machine's memory in MB.
        console_log: File for kernel messages and standard error, also of QEMU.
        scratch: Folder for the machine's working folder.
        command: The command to run in the machine's folder /host, None for the worker.
        options: Further options of QEMU.

    Raises:
        GuestError: QEMU cannot be started.
    """
    if missing := missing_program(architecture):
        raise GuestError(missing)
    prepare_job(job_dir, command)
    home = make_home(image, job_dir, console_log, scratch)
    for name, target in (("kernel", image.kernel), ("initrd", _initrd_path(image)),
                         ("modules", image.kernel.parent / "modules.squashfs"),
                         ("code", (job_dir / CODE).resolve())):
        (home / name).symlink_to(target.absolute())
    line = [*build_tied_command("KILL"), *_pin_command(cpu),
            *_qemu_line(accelerator, architecture, memory_mb), *_device_line(architecture),
            *options]
    try:
        with open(console_log, "ab") as console:  # noqa: ASYNC230 - opened, never waited for
            process = await asyncio.create_subprocess_exec(
                *line, stdin=PIPE, stdout=PIPE, stderr=console, cwd=home, start_new_session=True,
                limit=LINE_LIMIT)
    except OSError as error:
        shutil.rmtree(home, ignore_errors=True)
        raise GuestError(f"cannot start {architecture.program}: {error}") from error
    return Guest(process, job_dir, home)


def _pin_command(cpu: int) -> list[str]:
    """Return a command prefix that keeps a program on one core, empty if not available."""
    return ["taskset", "-c", str(cpu)] if shutil.which("taskset") else []


def _initrd_path(image: GuestImage) -> Path:
    return image.kernel.parent / "initrd"


def _qemu_line(accelerator: str, architecture: Architecture, memory_mb: int) -> list[str]:
    """Return the QEMU command for a machine without devices, configuration files and network."""
    processor = architecture.emulated if accelerator == TCG else "max"
    return [architecture.program, "-accel", accelerator, "-cpu", processor, "-machine",
            architecture.board, "-smp", "1", "-m", str(memory_mb), "-no-user-config", "-nodefaults",
            "-display", "none", "-nic", "none", "-no-reboot"]


def _device_line(architecture: Architecture) -> list[str]:
    """Return QEMU's options for the kernel, the machine's devices and its console.

    Files have simple names below the machine's working folder, because a comma has a meaning here.
    """
    disks = [word for name in ("root", "modules") for word in (
        "-drive", f"file={name},if=none,id={name},format=raw,readonly=on,file.locking=off",
        "-device", f"virtio-blk-pci,drive={name}")]
    # "none": files belong to this user, and who they belong to inside is ignored.
    shares = [word for name, mode in (("host", ""), ("code", ",readonly=on")) for word in (
        "-fsdev", f"local,id={name},path={name},security_model=none{mode}",
        "-device", f"virtio-9p-pci,fsdev={name},mount_tag={name}")]
    return [
        *("-kernel", "kernel", "-initrd", "initrd"),
        *("-append", _kernel_line(architecture, "qop.vm")),
        *disks, *shares,
        *("-chardev", "stdio,id=worker,signal=off", "-device", "virtio-serial-pci"),
        *("-device", "virtserialport,chardev=worker"),
        *("-chardev", "file,id=console,path=console,append=on", "-serial", "chardev:console"),
    ]


def _kernel_line(architecture: Architecture, mode: str) -> str:
    return f"console={architecture.console} quiet panic=-1 mac80211_hwsim.radios=0 {mode}"
