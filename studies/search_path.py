"""Find the folders that contain studies: the project's, and those of QOP_STUDY_PATH.

QOP_STUDY_PATH is an environment variable with the user's folders, separated as in PATH.
`search_folders` returns all folders, and `study_folder` that of one study by name.
`find_path_problem` describes what is wrong with a folder or the names of its studies.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from keyword import iskeyword
from pathlib import Path

FOLDER = Path(__file__).parent
#: Environment variable with folders of further studies, separated as in PATH.
PATH_VARIABLE = "QOP_STUDY_PATH"


def search_folders() -> list[Path]:
    """Return the folders that contain studies, the project's first."""
    return [FOLDER, *split_path(os.environ.get(PATH_VARIABLE, ""))]


def split_path(text: str) -> list[Path]:
    """Split a search path into folders, without duplicates and without the project's folder."""
    # Unlike those of pathlib, these functions accept an unknown user and a loop of links.
    folders = dict.fromkeys(Path(os.path.realpath(os.path.expanduser(part)))  # noqa: PTH111
                            for part in text.split(os.pathsep) if part)
    return [folder for folder in folders if folder != FOLDER.resolve()]


def find_path_problem(option_folders: Sequence[str] = ()) -> str:
    """Return what is wrong with the folders of further studies, or "" if they can be used.

    Args:
        option_folders: folders that the option --study-path names.
    """
    from_option = split_path(os.pathsep.join(option_folders))
    folders = split_path(os.pathsep.join((*option_folders, os.environ.get(PATH_VARIABLE, ""))))
    owners = {path.stem: "studies/" for path in FOLDER.glob("*")
              if (path / "study.py").exists() or path.suffix == ".py"}
    for folder in folders:
        label = f"{'--study-path' if folder in from_option else PATH_VARIABLE} {folder}"
        try:
            names = sorted(path.name for path in folder.iterdir() if (path / "study.py").exists())
        except OSError as error:
            return (f"{label}: cannot be read ({error.strerror}); give the folder that holds the "
                    "folders of your studies")
        if problem := _find_name_problem(folder, names, owners):
            return f"{label}: {problem}"
        owners.update(dict.fromkeys(names, str(folder)))
    return ""


def _find_name_problem(folder: Path, names: Sequence[str], owners: Mapping[str, str]) -> str:
    """Return what is wrong with the names of a folder's studies, or "" if they can be used."""
    if (folder / "study.py").exists():
        return f"is itself a study; give the folder around it, {folder.parent}"
    if not names:
        return "has no study; it needs a folder with a study.py, as in docs/first-study.md"
    for name in names:
        if not name.isidentifier() or iskeyword(name):
            return f"{name} is no name of a Python module; rename the folder"
        if name in owners:
            return f"{name} is a name in {owners[name]} already; rename the folder"
    return ""


def study_folder(name: str) -> Path:
    """Return the folder of a study, which may not exist."""
    folders = [folder / name for folder in search_folders()]
    return next((folder for folder in folders if (folder / "study.py").exists()),
                next((folder for folder in folders if folder.is_dir()), FOLDER / name))


def place_of_study(name: str) -> str:
    """Return where a study is, for messages: "studies/NAME", or a path outside of the checkout."""
    folder = study_folder(name)
    return f"studies/{name}" if folder.parent == FOLDER else str(folder)
