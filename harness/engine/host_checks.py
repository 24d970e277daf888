"""Check for `./qop doctor` whether this host has the programs, memory, disk and permissions needed.

Each function, such as `check_memory`, checks one thing, and returns a `DoctorFinding`: whether it
is fulfilled, a text, and what to do. `find_build_obstacles` returns the failed checks that prevent
a run, so that `./qop run` can refuse early.
"""

from __future__ import annotations

import glob
import gzip
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from guest import image, namespaces
from guest.cache import cache_root
from harness.engine import host
from measure.agent.errors import MeasureError
from measure.capture import pcap, tshark

#: Debian packages of the programs that measuring and building start.
_PACKAGES = {
    "dpkg-deb": "dpkg", "mergecap": "tshark", "mmdebstrap": "mmdebstrap",
    "mount": "mount", "openssl": "openssl", "setpriv": "util-linux",
    "sqfs2tar": "squashfs-tools-ng", "tar2sqfs": "squashfs-tools-ng", "taskset": "util-linux",
    "tshark": "tshark", "unshare": "util-linux", "newuidmap": "uidmap"}
MEASURING_TOOLS = ("setpriv", "taskset", "tshark", "mergecap", "openssl")
#: Disk that building takes while it runs, in MB.
BUILD_ROOM_MB = 6000
#: Folders of the cache that building an image writes into.
BUILD_STORES = ("kernels", "vm-kernels", "roots", "libraries", "strongswans", "logs")
GUEST_ROOM_MB = 256
#: A datagram to port 9 (discard) with the payload "qop", in IPv4 on Ethernet.
_FRAME = bytes.fromhex("0200000000020200000000010800"
                       "4500001f00000000401126ca0a0000010a000002"
                       "c00000090000b0000000716f70")
_FRAME_FIELDS = ("ip.src", "udp.dstport")
#: Line of a kernel's configuration with which it shows the keys of radios, and their folders.
KEYS_OPTION = "CONFIG_MAC80211_DEBUGFS=y"
RADIO_KEYS = "/sys/kernel/debug/ieee80211/*/keys"
#: Program that lets the kernel trap a system call of its own, as guests do with their programs'.
#: With seccomp(2), the next system call ends it by SIGSYS. Otherwise its parent may trace it.
_TRAP_PROGRAM = """
import ctypes, os, resource, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
def check(call, status):
    if status:
        sys.exit(f"{call}: {os.strerror(ctypes.get_errno())}")
if sys.argv[1] == "ptrace":
    check("ptrace(2)", libc.ptrace(0, 0, 0, 0))  # PTRACE_TRACEME
    sys.exit()
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
step = ctypes.create_string_buffer(struct.pack("HBBI", 0x06, 0, 0, 0x30000))  # return TRAP
filter = ctypes.create_string_buffer(struct.pack("HxxxxxxP", 1, ctypes.addressof(step)))
check("prctl(2)", libc.prctl(38, 1, 0, 0, 0))  # PR_SET_NO_NEW_PRIVS
number = {"x86_64": 317, "aarch64": 277}[os.uname().machine]
check("seccomp(2)", libc.syscall(number, 1, 0, filter))  # SECCOMP_SET_MODE_FILTER
os.getppid()
"""


@dataclass(frozen=True)
class DoctorFinding:
    """A result of one check of `./qop doctor`.

    `what` describes the result, `remedy` what to do. If `needed` is set and the check failed,
    guests cannot be measured on this host.
    """

    ok: bool
    what: str
    remedy: str = ""
    needed: bool = True


def check_tools(names: tuple[str, ...], purpose: str) -> DoctorFinding:
    """Check that programs are installed, and name the command that installs missing ones."""
    missing = [name for name in names if not shutil.which(name)]
    return DoctorFinding(not missing, f"{purpose}: {', '.join(names)}",
                         f"missing: {', '.join(missing)}; {install_command(missing)}")


def install_command(tools: list[str]) -> str:
    """Return the shell command that installs the packages of these programs."""
    if "apt-get" in tools:
        return "this machine has no apt; use the container image (docs/container.md)"
    packages = sorted({_PACKAGES.get(tool, tool) for tool in tools})
    return f"run 'sudo apt-get install -y --no-install-recommends {' '.join(packages)}'"


def building_tools() -> tuple[str, ...]:
    """Return the names of the programs that are needed to build the guest's image."""
    return (*image.TOOLS, *(() if os.geteuid() == 0 else ("unshare", "newuidmap")))


def check_architecture() -> DoctorFinding:
    """Check that User-Mode Linux supports the processor architecture of this host."""
    return DoctorFinding(os.uname().machine == "x86_64", f"processor: {os.uname().machine}",
                         "User-Mode Linux needs x86_64; use --on vm or --on host")


def check_trapping(*, by_seccomp: bool = True) -> DoctorFinding:
    """Check that guests can trap the system calls of their programs, by trapping one.

    Args:
        by_seccomp: Whether the guest's kernel traps by seccomp(2). One older than 6.16 needs
            ptrace(2) instead.
    """
    way = "seccomp" if by_seccomp else "ptrace"
    done = subprocess.run([sys.executable, "-I", "-c", _TRAP_PROGRAM, way], capture_output=True,
                          text=True, check=False)
    reason = (done.stderr.strip().splitlines() or [f"status {done.returncode}"])[-1]
    return DoctorFinding(done.returncode == (-signal.SIGSYS if by_seccomp else 0),
                         f"guests trap system calls, by {way}(2)",
                         f"no system call can be trapped here ({reason}), so guests do not start; "
                         f"allow {way}(2) (containers: --security-opt seccomp=PROFILE; kernels: "
                         "CONFIG_SECCOMP_FILTER), or use --on vm")


def check_memory() -> DoctorFinding:
    """Check that a few guests fit into this machine's memory."""
    mb = host.read_total_mb()
    return DoctorFinding(mb >= 4 * GUEST_ROOM_MB, f"memory: {mb} MB",
                         f"a guest may take {GUEST_ROOM_MB} MB, so {4 * GUEST_ROOM_MB} MB are "
                         "needed; raise the limit of this machine or container (--memory)")


def check_namespaces() -> DoctorFinding:
    """Check that this user may create a user namespace and mount in it.

    AppArmor on Ubuntu may forbid this.
    """
    ok = namespaces.has_namespaces()
    return DoctorFinding(ok, "user namespaces, for building the guest",
                         "" if ok else namespaces.describe_lack())


def check_disk() -> DoctorFinding:
    """Check that there is enough disk space in the cache to build the guest's image."""
    folder = cache_root()
    while not folder.exists():
        folder = folder.parent
    mb = shutil.disk_usage(folder).free >> 20
    return DoctorFinding(mb >= BUILD_ROOM_MB, f"disk: {mb} MB free for {cache_root()}",
                         f"building takes {BUILD_ROOM_MB} MB; set QOP_CACHE to a larger place")


def check_cache() -> DoctorFinding:
    """Check that this user can build into the cache and read what was built there."""
    cache = cache_root()
    stores = [folder for name in BUILD_STORES if (folder := cache / name).is_dir()]
    lack = _find_lack_of_write(cache, *stores) or _find_lack_of_read(*stores)
    is_own = cache.is_relative_to(Path.home())
    advice = f"run 'sudo chown -R {namespaces.user_name()} {cache}', or " if is_own else ""
    return DoctorFinding(not lack, f"cache: {cache}",
                         f"{lack}; {advice}set QOP_CACHE to a folder of yours")


def _find_lack_of_write(*folders: Path) -> str:
    """Return which folder this user cannot write, "" if all can be written."""
    for folder in folders:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder):
                pass
        except OSError as error:
            return f"{folder}: cannot be written by this user ({error.strerror})"
    return ""


def _find_lack_of_read(*stores: Path) -> str:
    """Return which store or build in it this user cannot read, "" if all can be read."""
    try:
        for store in stores:
            for build in (path for path in store.iterdir() if path.is_dir()):
                os.scandir(build).close()
    except OSError as error:
        return f"{error.filename}: cannot be read by this user ({error.strerror})"
    return ""


def check_dissection() -> DoctorFinding:
    """Check tshark by letting it dissect a capture file with one frame."""
    what = "tshark dissects a capture of one frame"
    try:
        with tempfile.TemporaryDirectory(prefix="qop-doctor-") as folder:
            capture = Path(folder, "one.pcap")
            pcap.write_frames(capture, [pcap.CapturedFrame(1.0, _FRAME, len(_FRAME))])
            rows = tshark.read_fields(capture, _FRAME_FIELDS)
    except (MeasureError, OSError) as error:
        return DoctorFinding(ok=False, what=what,
                             remedy=f"{error}; {install_command(['tshark'])}")
    return DoctorFinding(rows == [("10.0.0.1", "9")], what,
                         f"tshark read {rows}; {install_command(['tshark'])}")


def kernel_shows_keys(*configurations: Path) -> bool | None:
    """Return whether this kernel shows the keys of radios, None if that is not known.

    Args:
        configurations: Files with the kernel's configuration, by default this system's.
    """
    if glob.glob(RADIO_KEYS):
        return True
    for file in configurations or (Path(f"/boot/config-{os.uname().release}"),
                                   Path("/proc/config.gz")):
        try:
            data = file.read_bytes()
            text = gzip.decompress(data) if file.suffix == ".gz" else data
        except (OSError, EOFError, zlib.error):
            continue
        return KEYS_OPTION.encode() in text.splitlines()
    return None


def find_build_obstacles(*, is_vm: bool = False, is_whole: bool = True, measures: bool = True
                         ) -> Iterator[DoctorFinding]:
    """Yield the failed checks that prevent building a guest's image or measuring with it.

    Args:
        is_vm: Whether virtual machines will boot the image.
        is_whole: Whether kernel and root are both missing, which takes most disk space.
        measures: Whether captures will be dissected. `./qop radio` does without.
    """
    tools = check_tools(MEASURING_TOOLS, "tools for measuring")
    checks = [check_tools(building_tools(), "tools for building the guest"),
              *([tools] if measures else []),
              *([] if is_vm else [check_architecture(), check_trapping()]), check_memory(),
              check_cache(), check_namespaces(), *([check_disk()] if is_whole else [])]
    if measures and tools.ok:
        checks.append(check_dissection())
    yield from (finding for finding in checks if not finding.ok)
