"""A Vagrant box started with QEMU, without any network: a serial console, and ssh by a port."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from conftest import PATIENCE_S
from guest import image as guest_image
from guest import vm

# The kernel's, after those of the boot loader (guest/vagrant/root/boot/grub/grub.cfg).
FIRST_WORDS = "Linux version"
#: What to start it with, one after the other, and how long each may take to the kernel's first
#: words: some machines have a /dev/kvm that gets nowhere, or only to the boot loader; and software
#: with a thread for each processor may hang.
ACCELERATORS = {"kvm": vm.TRIAL_S, "tcg,thread=multi": 180.0, "tcg,thread=single": PATIENCE_S}


def find_accelerators() -> dict[str, float]:
    """What `ACCELERATORS` has, without a KVM that has failed to start another kernel here."""
    built = guest_image.find_image(vm="amd64")
    if built is None or vm.choose_accelerator(built, vm.ARCHITECTURES["x86_64"])[0] == vm.KVM:
        return ACCELERATORS
    return {name: limit_s for name, limit_s in ACCELERATORS.items() if name != vm.KVM}


class Box:
    """A running box. A context manager: leaving it ends the machine; its disk stays as it was."""

    def __init__(self, disk: Path, folder: Path, key: Path) -> None:
        self.folder = folder
        self.disk = disk
        self.key = key
        self.accelerator = ""
        self._console = folder / "console.log"
        self._control = folder / "ssh"
        self._keyboard: socket.socket | None = None
        self._processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Box:
        try:
            self._start()
            self._log_in()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for process in reversed(self._processes):
            process.kill()
            process.wait()
        if self._keyboard is not None:
            self._keyboard.close()

    def ssh(self, command: str, timeout_s: float = PATIENCE_S,
            data: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
        """Run a shell command as the user vagrant, as `vagrant ssh -c` does."""
        return subprocess.run([*self._ssh(), command], input=data, capture_output=True,
                              timeout=timeout_s, check=False)

    def _ssh(self) -> list[str]:
        return ["ssh", "-S", str(self._control), "vagrant@box"]

    def _start(self) -> None:
        """With the first accelerator that works."""
        for accelerator, seconds in find_accelerators().items():
            if accelerator == "kvm" and not os.access("/dev/kvm", os.R_OK | os.W_OK):
                continue
            self.accelerator = accelerator.partition(",")[0]
            with socket.create_server(("127.0.0.1", 0)) as ssh, \
                    socket.create_server(("127.0.0.1", 0)) as console:
                machine = self._boot(accelerator, ssh.fileno(), console.fileno())
                self._port = ssh.getsockname()[1]
                self._keyboard = socket.create_connection(console.getsockname())
            self._processes.append(machine)
            if self._says(FIRST_WORDS, seconds):
                return
            machine.kill()
            machine.wait()
            self._keyboard.close()
        raise AssertionError(f"the kernel never came: {self._tail()}")

    def _boot(self, accelerator: str, ssh: int, console: int) -> subprocess.Popen[bytes]:
        self._console.write_bytes(b"")
        processors = str(len(os.sched_getaffinity(0)))
        argv = ["qemu-system-x86_64", "-accel", accelerator, "-cpu", "max", "-smp", processors,
                "-m", "2048", "-nodefaults", "-display", "none", "-nic", "none",
                "-drive", f"file={self.disk},if=virtio,format=qcow2,snapshot=on",
                "-chardev",
                f"socket,id=console,fd={console},server=on,wait=off,logfile={self._console}",
                "-serial", "chardev:console", "-device", "virtio-serial-pci",
                "-chardev", f"socket,id=ssh,fd={ssh},server=on,wait=off",
                "-device", "virtserialport,chardev=ssh,name=ssh", "-device", "virtio-rng-pci"]
        with (self.folder / "qemu.log").open("wb") as log:
            return subprocess.Popen(argv, pass_fds=(ssh, console), stdin=subprocess.DEVNULL,
                                    env={**os.environ, "TMPDIR": str(self.folder)},
                                    stdout=log, stderr=log)

    def _log_in(self) -> None:
        """On the console, to have an ssh server answer on the port; then by ssh."""
        self._await("login: ")
        self._type("vagrant")
        self._await("Password: ")
        self._type("vagrant")
        self._await(r"vagrant@qop:~\$ ")
        # The client first: what it sends waits for the server, but not the other way round.
        options = ["IdentitiesOnly=yes", "StrictHostKeyChecking=no", "BatchMode=yes",
                   f"UserKnownHostsFile={self.folder / 'known_hosts'}", "ConnectTimeout=120"]
        client = ["ssh", "-M", "-N", "-S", str(self._control), "-i", str(self.key),
                  "-p", str(self._port), *(word for option in options for word in ("-o", option))]
        with (self.folder / "ssh.log").open("wb") as log:
            self._processes.append(subprocess.Popen(
                [*client, "vagrant@127.0.0.1"], stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL, stderr=log))
        # Host keys are made at the first start, which takes a while.
        self._type("sudo systemctl start ssh && "
                   "sudo sh -c 'exec /usr/sbin/sshd -i <>/dev/virtio-ports/ssh >&0'")
        until = time.monotonic() + PATIENCE_S
        while not self._control.exists():
            said = (self.folder / "ssh.log").read_text()
            assert self._processes[-1].poll() is None, f"ssh: {said}\n{self._tail()}"
            assert time.monotonic() < until, f"no ssh: {said}\n{self._tail()}"
            time.sleep(0.2)

    def _type(self, line: str) -> None:
        assert self._keyboard is not None
        self._keyboard.sendall(line.encode() + b"\r")

    def _await(self, pattern: str) -> None:
        assert self._says(pattern, PATIENCE_S), f"no {pattern!r}: {self._tail()}"

    def _says(self, pattern: str, seconds: float) -> bool:
        until = time.monotonic() + seconds
        while not re.search(pattern, self._console.read_text(errors="replace")):
            if time.monotonic() > until or self._processes[-1].poll() is not None:
                return False
            time.sleep(0.2)
        return True

    def _tail(self, lines: int = 15) -> str:
        said = self._console.read_text(errors="replace").splitlines()
        return "\n".join([*said[-lines:], (self.folder / "qemu.log").read_text()])


def missing(programs: Sequence[str]) -> str:
    """Which of these programs are not here."""
    import shutil

    return ", ".join(name for name in programs if shutil.which(name) is None)
