"""Run commands as root of a user namespace, and explain why that is not allowed on this machine.

An ordinary user needs a user namespace to build the root file system of a test network's virtual
machine. `as_root_command` returns the command prefix that creates one. `has_namespaces` tries it.
If it fails, `describe_lack` returns the reason (AppArmor, a sysctl, /etc/subuid) and what root can
do about it.
"""

from __future__ import annotations

import functools
import os
import pwd
import subprocess
from pathlib import Path

_UNSHARE = ("unshare", "--user", "--map-root-user", "--map-auto")
# On Ubuntu, AppArmor gives capabilities in a user namespace only to programs that have a profile.
# mmdebstrap has one there, unshare has none.
_MMDEBSTRAP = ("mmdebstrap", "--unshare-helper")
_SYSCTLS = Path("/proc/sys")
_SUBORDINATE = (Path("/etc/subuid"), Path("/etc/subgid"))
#: Kernel settings that refuse user namespaces to ordinary users: the value that refuses, the value
#: that allows, and what sets it.
_REFUSALS = (
    ("kernel.apparmor_restrict_unprivileged_userns", "1", "0", "AppArmor (Ubuntu's default)"),
    ("kernel.unprivileged_userns_clone", "0", "1", "the kernel's setting"),
    ("user.max_user_namespaces", "0", "10000", "the kernel's setting"),
)


@functools.cache
def as_root_command() -> list[str]:
    """Return a command prefix that runs a program as root of a new user namespace."""
    for prefix in (_UNSHARE, _MMDEBSTRAP):
        if can_run([*prefix, "unshare", "--mount", "true"]):
            return list(prefix)
    return list(_UNSHARE)


def has_namespaces() -> bool:
    """Return whether this user can mount file systems in a user namespace.

    Subordinate ids are needed for that, too. Root needs no namespace.
    """
    return os.geteuid() == 0 or can_run([*as_root_command(), "unshare", "--mount", "true"])


def describe_lack() -> str:
    """Return why this user has no user namespaces, and what root can do about that."""
    if refusal := _find_refusal():
        name, allowed, setter = refusal
        return (f"{setter} refuses user namespaces to ordinary users; have root run "
                f"'sysctl -w {name}={allowed}' (and write '{name}={allowed}' to "
                "/etc/sysctl.d/60-qop.conf to keep it), or build as root into a shared QOP_CACHE")
    user = user_name()
    lacking = [str(file) for file in _SUBORDINATE if not _has_line(file, user)]
    if lacking:
        return (f"{' and '.join(lacking)} has no line for {user}; have root run 'usermod "
                f"--add-subuids 100000-165535 --add-subgids 100000-165535 {user}', or build as "
                "root into a shared QOP_CACHE")
    try:
        said = subprocess.run([*_UNSHARE, "unshare", "--mount", "true"], capture_output=True,
                              text=True, check=False).stderr.strip().splitlines()
    except FileNotFoundError:
        said = ["the program unshare is missing"]
    return ("no user namespace can be made here"
            f"{f' ({said[-1]})' if said else ''}; allow user namespaces, or "
            "build as root into a shared QOP_CACHE")


def can_run(command: list[str]) -> bool:
    """Return whether a command exists and succeeds."""
    try:
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


def _find_refusal() -> tuple[str, str, str] | None:
    """Return the sysctl that forbids user namespaces here, or None.

    Returns:
        Name of the sysctl, the value that allows user namespaces, and a description of its source.
    """
    for name, refused, allowed, setter in _REFUSALS:
        try:
            value = (_SYSCTLS / name.replace(".", "/")).read_text().strip()
        except OSError:
            continue
        if value == refused:
            return name, allowed, setter
    return None


def user_name() -> str:
    """Return this user's name, or the number of a user without a name, as in a container."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


def _has_line(file: Path, user: str) -> bool:
    """Return whether /etc/subuid or a similar file has a line for a user, by name or number."""
    try:
        lines = file.read_text().splitlines()
    except OSError:
        return False
    return any(line.startswith((f"{user}:", f"{os.getuid()}:")) for line in lines)
