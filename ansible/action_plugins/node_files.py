"""Render all configuration files of one role for one node in one step: the action `node_files`.

Arguments are the names of the files, the node's folder, and a Python file that checks them
(`ansible/files/check_config.py`). First all templates are rendered, then all files are checked,
then each is renamed into place. If one file is refused, no file is replaced. An unchanged file is
not touched. With `state: absent` the files are removed.

The action replaces ansible.builtin.template and file. These need two module processes for each
file, a third of a second of processor time. Twelve policies are rendered while measurements run on
the same cores, and this was most of the time.
"""

# ruff: noqa: INP001  # an __init__.py in ansible/ would shadow ansible-core
from __future__ import annotations

import functools
import importlib.util
import os
import shutil
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any

from ansible.errors import AnsibleActionFail  # type: ignore[import-untyped,unused-ignore]
from ansible.plugins.action import ActionBase  # type: ignore[import-untyped,unused-ignore]
from ansible.template import trust_as_template  # type: ignore[import-untyped,unused-ignore]

ARGUMENTS: dict[str, dict[str, Any]] = {
    "dest": {"type": "path", "required": True},  # the node's folder; created with mode 0700
    "files": {"type": "list", "elements": "str", "default": []},  # A/NAME comes from NAME.j2
    "folders": {"type": "list", "elements": "str", "default": []},  # removed with the files
    "validate": {"type": "path"},  # a Python file with `complaints(folder, names)`
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
}
FILE_MODE, FOLDER_MODE = 0o600, 0o700
SOCKETS = "run"  # folder of sockets that every node with a daemon has


class ActionModule(ActionBase):  # type: ignore[misc,unused-ignore]  # ansible-core carries no types
    """The Ansible action that renders `files` into the folder `dest`, or removes them there."""

    _requires_connection = False
    _supports_check_mode = True

    def run(self, tmp: None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Write or remove the files, and return the paths that changed.

        They are under `written` and `removed`. Check mode changes nothing.
        """
        result: dict[str, Any] = super().run(tmp, task_vars)
        _, arguments = self.validate_argument_spec(argument_spec=ARGUMENTS)
        if arguments["files"] and not arguments["validate"]:
            raise AnsibleActionFail("files need a Python file that validates them")
        dest, stale, leftover = Path(arguments["dest"]), {}, []
        if arguments["state"] == "absent":
            leftover = [name for name in owned_paths(arguments["files"], arguments["folders"])
                        if os.path.lexists(dest / name)]
        else:
            rendered = {name: self._render_file(name, task_vars or {}) for name
                        in arguments["files"]}
            stale = {name: text for name, text in rendered.items()
                     if not is_current(dest / name, text)}
        result.update(written=sorted(stale), removed=leftover, changed=bool(stale or leftover))
        if not self._task.check_mode:
            remove_paths(dest, leftover)
            if stale:
                replace_files(dest, stale, arguments["validate"])
        return result

    def _render_file(self, name: str, task_vars: dict[str, Any]) -> str:
        source = self._find_needle("templates", f"{Path(name).name}.j2")
        template = trust_as_template(self._loader.get_text_file_contents(source))
        templar = self._templar.copy_with_new_env(
            searchpath=[str(Path(source).parent)], available_variables=task_vars
        )
        text = templar.template(template, escape_backslashes=False, overrides={"trim_blocks": True})
        return str(text).strip("\n") + "\n"


def owned_paths(files: list[str], folders: list[str]) -> list[str]:
    """Return the paths that a role removes: its folders, and its files outside of them."""
    return folders + [name for name in files
                      if not any(name.startswith(f"{folder}/") for folder in folders)]


def is_current(path: Path, text: str) -> bool:
    """Return whether `path` is a file with exactly `text` that only its owner can read."""
    return (
        path.is_file()
        and path.stat().st_mode & 0o777 == FILE_MODE
        and path.read_bytes() == text.encode()
    )


def make_folder(path: Path) -> None:
    """Create `path` and its missing parents, closed to others from the start."""
    if not path.is_dir():
        make_folder(path.parent)
        path.mkdir(mode=FOLDER_MODE, exist_ok=True)


def remove_paths(dest: Path, names: list[str]) -> None:
    """Remove files and folders from `dest`, and `dest` itself if no other files are left there."""
    for name in names:
        path = dest / name
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
    if names and {path.name for path in dest.iterdir()} <= {SOCKETS}:
        shutil.rmtree(dest)


@functools.cache
def load_checker(path: str) -> ModuleType:
    """Load the Python file that checks rendered files, once for all nodes."""
    plain = path.encode().decode()  # compiled code cannot contain Ansible's own strings
    spec = importlib.util.spec_from_file_location(Path(plain).stem, plain)
    if spec is None or spec.loader is None:
        raise AnsibleActionFail(f"{path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def replace_files(dest: Path, texts: dict[str, str], validate: str) -> None:
    """Write all files below `dest`, or none if one of them is invalid.

    `validate` is the Python file that checks them under their names.
    """
    make_folder(dest / SOCKETS)
    scratch = Path(tempfile.mkdtemp(prefix=".files.", dir=dest))
    try:
        for name, text in texts.items():
            make_folder((scratch / name).parent)
            (scratch / name).touch(mode=FILE_MODE)
            (scratch / name).write_bytes(text.encode())
        if complaints := load_checker(validate).complaints(scratch, sorted(texts)):
            lines = "\n".join(complaints)
            raise AnsibleActionFail(f"refused, nothing written to {dest}: {lines}")
        for name in texts:
            make_folder((dest / name).parent)
            (scratch / name).rename(dest / name)
    finally:
        shutil.rmtree(scratch)
