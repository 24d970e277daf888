"""Fork server for ansible-playbook, with Ansible and the files of all policies loaded.

`python -P ansible/ready.py DESCRIPTOR FOLDER` takes requests as JSON lines from a socket.
`{"name", "arguments", "log", "temporary"}` makes a fork do what `ansible-playbook` does with these
arguments, with its output in the log. `{"name", "status"}` answers when it has ended. Imports,
plugins' documentation and the YAML files of FOLDER's playbook are the same for all policies. They
take half of the time of rendering one. The server ends when the socket's other end is closed.
"""

# ruff: noqa: INP001  # an __init__.py in ansible/ would shadow ansible-core
from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import json
import os
import re
import selectors
import shutil
import signal
import socket
import sys
import warnings
from pathlib import Path
from types import ModuleType
from typing import Any

#: Modules that a playbook has loaded at its end, except those that these and qop's own import.
_IMPORTED = ("ansible.cli.playbook", "ansible.executor.task_executor",
             "ansible.playbook.role_include", "ansible.plugins.strategy.linear",
             "ansible.plugins.callback.default", "ansible.plugins.connection.local",
             "ansible.plugins.shell.sh", "ansible.utils.encrypt", "multiprocessing.synchronize")
#: Modules that the roles' programs import, if they are installed.
_OF_PROGRAMS = ("cryptography.x509", "cryptography.hazmat.primitives.asymmetric.rsa",
                "cryptography.hazmat.primitives.serialization", "concurrent.futures.thread")
_IMPORTED_ROLE = re.compile(r"import_role: \{name: (\w+)")
_PR_SET_PDEATHSIG = 1
_CHUNK_BYTES = 1 << 16


def load_ansible(folder: Path) -> None:
    """Import Ansible and its plugins, and parse the files that it reads in `folder`."""
    # Each run of a playbook has its own folder for temporary files.
    shutil.rmtree(_ansible_constants().DEFAULT_LOCAL_TMP, ignore_errors=True)
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
                files_of(folder / "policy.yml"))


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
    """Parse these files once for all file loaders that are created later."""
    parsed = loader()
    for file in files:
        parsed.load_from_file(str(file), unsafe=True, trusted_as_template=True)
    begin = loader.__init__

    def init(self: Any, *given: Any, **named: Any) -> None:
        begin(self, *given, **named)
        self._FILE_CACHE = dict(parsed._FILE_CACHE)  # noqa: SLF001

    loader.__init__ = init


def play_playbook(request: dict[str, Any]) -> int:
    """Run `ansible-playbook` in this process, and return its exit status."""
    _ansible_constants().DEFAULT_LOCAL_TMP = request["temporary"]
    os.environ["ANSIBLE_REMOTE_TEMP"] = request["temporary"]
    Path(request["temporary"]).mkdir(mode=0o700, parents=True, exist_ok=True)
    nothing = os.open(os.devnull, os.O_RDONLY)
    log = os.open(request["log"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    for source, target in ((nothing, 0), (log, 1), (log, 2)):
        os.dup2(source, target)
    sys.argv = ["ansible-playbook", *request["arguments"]]
    warnings.filterwarnings("ignore", "AnsibleCollectionFinder has already been configured")
    try:
        status = importlib.import_module("ansible.cli.playbook").main()
    except SystemExit as ended:
        status = ended.code
    sys.stdout.flush()
    sys.stderr.flush()
    return int(status or 0)


def _ansible_constants() -> ModuleType:
    return importlib.import_module("ansible.constants")


class Server:
    """A server that takes requests and waits for the forks."""

    def __init__(self, line: socket.socket) -> None:
        self._line = line
        self._pending = b""
        self._waiting = selectors.DefaultSelector()
        self._waiting.register(line, selectors.EVENT_READ)

    def serve(self) -> None:
        """Serve until the socket is closed. Running playbooks then end with this process."""
        while True:
            for key, _ in self._waiting.select():
                if key.data is not None:
                    self._send_status(key.fd, *key.data)
                elif not self._read_requests():
                    return

    def _read_requests(self) -> bool:
        chunk = self._line.recv(_CHUNK_BYTES)
        *lines, self._pending = (self._pending + chunk).split(b"\n")
        for line in lines:
            self._start_playbook(json.loads(line))
        return bool(chunk)

    def _start_playbook(self, request: dict[str, Any]) -> None:
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                _end_with(parent)
                self._line.close()
                status = play_playbook(request)
            finally:
                os._exit(status)
        self._waiting.register(os.pidfd_open(pid), selectors.EVENT_READ, (pid, request["name"]))

    def _send_status(self, descriptor: int, pid: int, name: str) -> None:
        self._waiting.unregister(descriptor)
        os.close(descriptor)
        _, status = os.waitpid(pid, 0)
        answer = {"name": name, "status": os.waitstatus_to_exitcode(status)}
        self._line.sendall(json.dumps(answer).encode() + b"\n")


def _end_with(parent: int) -> None:
    """Make this process end with the one that started it."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def main() -> None:
    """Load everything, then serve."""
    line = socket.socket(fileno=int(sys.argv[1]))
    # Loaded objects are never freed: searching them for garbage takes a tenth of the loading time.
    gc.disable()
    load_ansible(Path(sys.argv[2]))
    Server(line).serve()


if __name__ == "__main__":
    main()
