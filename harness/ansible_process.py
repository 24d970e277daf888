"""Run Ansible playbooks quickly, in forks of a process that has already loaded Ansible.

Each policy's daemon configuration (hostapd.conf and others) is made by a playbook, and loading
Ansible takes seconds. So one process loads it once, and forks itself for each playbook.
`start_ansible_process` starts it in the background, `take_ansible_process` returns it as an
`AnsibleProcess`. Its `run_playbook` takes the arguments of ansible-playbook and returns the exit
status.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import importlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from guest.cache import cache_root
from guest.processes import build_tied_command
from topologies.fork_server import ForkServerLost, PythonForks, read_status

ANSIBLE = Path(__file__).parent.parent / "ansible"
#: Longest time that Ansible may take to load, in seconds. It takes 1 s, several on a busy machine.
_LOADING_S = 600.0
_preloaded_process: AnsibleProcess | None = None


class AnsibleProcessLost(Exception):
    """An error: the process with Ansible loaded has ended, or could not be started."""


class AnsibleProcess:
    """A process with Ansible loaded, used by one event loop.

    Ansible starts to load as soon as the object is created.
    """

    def __init__(self) -> None:
        self._forks = PythonForks(
            [__name__], errors=subprocess.DEVNULL, new_session=True,
            wrapper=[*build_tied_command("KILL"), "nice", "-n", "10"],
            environment={**os.environ, "PYTHONPATH": str(ANSIBLE.parent),
                         "ANSIBLE_CONFIG": str(ANSIBLE / "ansible.cfg"),
                         "ANSIBLE_LOCAL_TEMP": str(_folder_for_loading())})

    @property
    def pid(self) -> int:
        """Return the process id of the loaded Ansible process."""
        return self._forks.process.pid

    async def run_playbook(self, arguments: Sequence[str], *, log: Path, temporary: Path) -> int:
        """Run `ansible-playbook` with these arguments and return its exit status.

        Args:
            arguments: Arguments of `ansible-playbook`.
            log: File for the output.
            temporary: Folder for Ansible's temporary files.

        Raises:
            AnsibleProcessLost: The Ansible process has ended.
        """
        descriptor = self._request_playbook([str(temporary), *arguments], log)
        try:
            await _wait_until_readable(descriptor)
            status = read_status(descriptor)
        finally:
            os.close(descriptor)
        if status is None:
            raise AnsibleProcessLost
        self._forks.receive_pid()
        return status

    def _request_playbook(self, arguments: Sequence[str], log: Path) -> int:
        """Start a playbook in a fork, and return the descriptor for its exit status."""
        log.touch(0o600)
        try:
            with open(os.devnull, "rb") as nothing, log.open("wb") as output:
                return self._forks.request_program(
                    ["", "", __name__, *arguments], (nothing, output, output))
        except ForkServerLost:
            raise AnsibleProcessLost from None

    def kill_process(self) -> None:
        """Kill the Ansible process and all running playbooks. A second call has no effect."""
        if self._forks.process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
        self._forks.close()


async def _wait_until_readable(descriptor: int) -> None:
    loop = asyncio.get_running_loop()
    readable = asyncio.Event()
    loop.add_reader(descriptor, readable.set)
    try:
        await readable.wait()
    finally:
        loop.remove_reader(descriptor)


def _folder_for_loading() -> Path:
    """Return the cache folder in which Ansible creates temporary folders while it loads.

    A killed Ansible leaves its temporary folder behind. This function removes such old folders.
    """
    folder = cache_root() / "ansible"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:  # the cache of the container image is read-only
        return Path(tempfile.gettempdir())
    for left in folder.iterdir():
        with contextlib.suppress(OSError):
            if left.stat().st_mtime < time.time() - _LOADING_S:
                shutil.rmtree(left, ignore_errors=True)
    return folder


def start_ansible_process() -> None:
    """Start to load Ansible in the background.

    The first call of `take_ansible_process` gets this process.
    """
    global _preloaded_process  # noqa: PLW0603 - a process has one command line
    if _preloaded_process is None:
        with contextlib.suppress(OSError):  # setpriv is missing; later code reports it
            _preloaded_process = AnsibleProcess()


def take_ansible_process() -> AnsibleProcess:
    """Return the Ansible process that `start_ansible_process` started, or a new one.

    The caller has to close it.
    """
    global _preloaded_process
    taken, _preloaded_process = _preloaded_process or AnsibleProcess(), None
    return taken


def end_unused_process() -> None:
    """End the Ansible process of `start_ansible_process` if no caller has taken it."""
    if _preloaded_process is not None:
        take_ansible_process().kill_process()


# --- In the Ansible process ---

#: Modules that a playbook has loaded at its end, except those that these and qop's own import.
_IMPORTED = ("ansible.cli.playbook", "ansible.executor.task_executor",
             "ansible.playbook.role_include", "ansible.plugins.strategy.linear",
             "ansible.plugins.callback.default", "ansible.plugins.connection.local",
             "ansible.plugins.shell.sh", "ansible.utils.encrypt", "multiprocessing.synchronize")
#: Modules that the roles' programs import, if they are installed.
_OF_PROGRAMS = ("cryptography.x509", "cryptography.hazmat.primitives.asymmetric.rsa",
                "cryptography.hazmat.primitives.serialization", "concurrent.futures.thread")
_IMPORTED_ROLE = re.compile(r"import_role: \{name: (\w+)")


def preload() -> None:
    """Import Ansible and its plugins, and parse the files that it reads."""
    # Each run of a playbook has its own folder for temporary files.
    shutil.rmtree(importlib.import_module("ansible.constants").DEFAULT_LOCAL_TMP,
                  ignore_errors=True)
    for name in _IMPORTED:
        importlib.import_module(name)
    with contextlib.suppress(ImportError):
        for name in _OF_PROGRAMS:
            importlib.import_module(name)
    loader = importlib.import_module("ansible.plugins.loader")
    loader.init_plugin_loader()
    for plugins in (loader.connection_loader, loader.shell_loader, loader.become_loader,
                    loader.callback_loader, loader.vars_loader):
        list(plugins.all(class_only=True))
    for plugins in (loader.filter_loader, loader.test_loader):
        list(plugins.all())
    cache_files(importlib.import_module("ansible.parsing.dataloader").DataLoader,
                files_of(ANSIBLE / "policy.yml"))


def files_of(playbook: Path) -> list[Path]:
    """Return the YAML files that a playbook reads.

    These are the playbook itself, its variables and the parts of roles.

    Specifications of roles are not read where they are not checked (qop_checks_roles).
    """
    roles = sorted(set(_IMPORTED_ROLE.findall(playbook.read_text())))
    parts = [playbook.parent / "roles" / role / part / "main.yml"
             for role in roles for part in ("defaults", "vars", "tasks")]
    return [playbook, *sorted((playbook.parent / "vars").glob("*.yml")),
            *(part for part in parts if part.exists())]


def cache_files(loader: type[Any], files: list[Path]) -> None:
    """Parse YAML files once, for all of Ansible's file loaders that are created later."""
    parsed = loader()
    for file in files:
        parsed.load_from_file(str(file), unsafe=True, trusted_as_template=True)
    begin = loader.__init__

    def init(self: Any, *given: Any, **named: Any) -> None:
        begin(self, *given, **named)
        self._FILE_CACHE = dict(parsed._FILE_CACHE)  # noqa: SLF001

    loader.__init__ = init


def main(arguments: Sequence[str]) -> int:
    """Run `ansible-playbook` in this fork, and return its exit status.

    Args:
        arguments: Folder for temporary files, then arguments of `ansible-playbook`.
    """
    temporary, *given = arguments
    gc.disable()  # a playbook ends before it has much garbage
    importlib.import_module("ansible.constants").__dict__["DEFAULT_LOCAL_TMP"] = temporary
    os.environ["ANSIBLE_REMOTE_TEMP"] = temporary
    Path(temporary).mkdir(mode=0o700, parents=True, exist_ok=True)
    sys.argv = ["ansible-playbook", *given]
    warnings.filterwarnings("ignore", "AnsibleCollectionFinder has already been configured")
    try:
        status = importlib.import_module("ansible.cli.playbook").main()
    except SystemExit as ended:
        status = ended.code
    return int(status or 0)
