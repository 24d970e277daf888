"""Build the kernel for QEMU guests: Debian's kernel, with the emulated 802.11 medium as a module.

QEMU guests (`--on vm`) run test networks where User-Mode Linux does not work. `VmKernel` is the
recipe for one processor architecture. Its `build` writes the kernel, the initial file system and
the modules to a folder of the cache.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from guest.build import BuildCommands, BuildProgress
from guest.cache import hash_inputs
from guest.debian import (
    build_mmdebstrap_command,
    find_mirrors,
    make_chroot_hook,
    make_hook,
    run_in_scratch,
)
from guest.root import SUITE

HERE = Path(__file__).parent
#: Folders that the build reads: the machine's own files, and the code of the medium.
INPUTS = ("vm", "module", "sources")
#: Files of the result beside its manifest.
RESULTS = ("linux", "initrd", "modules.squashfs", "release", "tells-keys")


@dataclass(frozen=True)
class VmKernel:
    """A build recipe for the kernel, initial file system and modules of virtual machines.

    Args:
        architecture: Debian's name of the machine's architecture.
    """

    architecture: str
    EXPECTED_S: ClassVar[Mapping[str, float]] = {"packages": 60, "module": 15, "pack": 10}

    def list_packages(self) -> tuple[str, ...]:
        """Return the Debian packages that contain the kernel, and those to build it."""
        return (f"linux-image-{self.architecture}", f"linux-headers-{self.architecture}", "make",
                "kmod", "busybox-static", "cpio", "squashfs-tools")

    def key(self) -> str:
        """Return a hash of all inputs of the kernel, which changes if it must be built again."""
        inputs = {str(path.relative_to(HERE)): path.read_bytes() for name in INPUTS
                  for path in (HERE / name).rglob("*") if path.is_file()}
        return hash_inputs({**inputs, "choice": repr((SUITE, self.list_packages())).encode()})

    def build(self, unfinished: Path, commands: BuildCommands,
              track: BuildProgress) -> Mapping[str, Any]:
        """Build the kernel and the other files of RESULTS in a folder, and return the manifest."""
        track.begin_stage("packages")
        suites = (SUITE, f"{SUITE}-updates", f"{SUITE}-security")
        command = build_mmdebstrap_command(
            SUITE, "/dev/null", find_mirrors().source_lines(*suites), self.list_packages(),
            [
                "--dpkgopt=force-unsafe-io",  # the root is temporary
                # Debian's own first file system is not used; make it small, which takes less time.
                '--essential-hook=mkdir -p "$1/etc/initramfs-tools/conf.d"',
                '--essential-hook=echo MODULES=list >"$1/etc/initramfs-tools/conf.d/qop"',
                f'--customize-hook=mkdir -p {" ".join(f"$1/qop/{name}" for name in INPUTS)}',
                *(make_hook("sync-in", HERE / name, f"/qop/{name}") for name in INPUTS),
                make_chroot_hook("sh", "/qop/vm/kernel.sh", "/qop"),
                *(make_hook("download", f"/qop/{name}", unfinished / name) for name in RESULTS),
            ],
            architecture=self.architecture,
        )
        run_in_scratch(commands, command, unfinished, track.follow_line)
        release, tells_keys = ((unfinished / name).read_text().strip() for name in RESULTS[-2:])
        return {"package": self.list_packages()[0], "version": release, "seccomp": False,
                "architecture": self.architecture, "tells_keys": tells_keys == "yes"}
