"""Load a policy from its file, with all files that it extends."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from policies.document import Document, file_problem, read_document
from policies.errors import one_line
from policies.explain import explain_error
from policies.policy import Policy, PolicyFile

EXTENDS_LIMIT = 8  # depth of files that a policy may extend

PAPER_IDS = tuple(f"P{number}" for number in range(1, 13))
_FOLDER = Path(__file__).parent
#: Pattern of built-in ids: a letter and a number; a variant has an additional word.
_ID = re.compile(r"([A-Z])([0-9]+)(-[a-z]+)?")


def load_policy(path: str | os.PathLike[str]) -> Policy:
    """Load and check the policy in the YAML file ``path``.

    Raises:
        PolicyError: The policy is invalid; the text is one line ``FILE:LINE: what is wrong; what
            to do``. FILE may be a file that ``path`` extends.
    """
    policy = _load_file(os.fspath(path), ())
    own = _FOLDER / f"{policy.id}.yml"
    if (_ID.fullmatch(policy.id) and own.exists() and not own.samefile(path)
            and _load_file(os.fspath(own), ()).layers != policy.layers):
        document = read_document(os.fspath(path))
        raise document.make_error(document.spots[("id",)].key_line,
                                  f"id: {policy.id} comes with qop, and is another policy there",
                                  "give yours an id of its own")
    return policy


def load_all() -> tuple[Policy, ...]:
    """Load the twelve policies of the 2007 paper, in its order."""
    return tuple(map(load_named, PAPER_IDS))


def policy_ids() -> tuple[str, ...]:
    """Return the ids of the built-in policies: the paper's twelve, and then today's."""
    ids = [match for path in _FOLDER.glob("*.yml") if (match := _ID.fullmatch(path.stem))]
    return tuple(match[0] for match in sorted(
        ids, key=lambda match: (match[0] not in PAPER_IDS, match[1], int(match[2]),
                                        match[3] or "")))


def load_named(policy_id: str) -> Policy:
    """Load a built-in policy by its id."""
    return load_policy(_FOLDER / f"{policy_id}.yml")


def _load_file(file: str, above: tuple[str, ...]) -> Policy:
    """Load ``file``. ``above`` are the real paths of the files that extend it."""
    document = read_document(file)
    data = dict(document.data)
    if isinstance(data.get("extends"), str):
        data["layers"] = _inherit_layers(document, (*above, os.path.realpath(file)))
    try:
        parsed = PolicyFile.model_validate(data)
    except ValidationError as error:
        raise explain_error(error, document) from None
    return Policy(id=parsed.id, name=parsed.name, layers=parsed.layers)


def _inherit_layers(document: Document, above: tuple[str, ...]) -> Any:
    """Return the layers of ``document`` over those of its base.

    The result is not a dict if they are no block.
    """
    own = document.data.get("layers", {})
    extends = document.data["extends"]
    line = document.spots[("extends",)].key_line
    base = str(Path(document.file).parent / extends)
    problem = file_problem(base)
    if problem:
        what, advice = problem
        shown = one_line(base)[-120:]
        raise document.make_error(
            line, f"extends {shown}: {what}", f"{advice} (it starts at this file's folder)"
        )
    if os.path.realpath(base) in above:
        raise document.make_error(line, "extends leads back to this policy", "remove one extends")
    if len(above) > EXTENDS_LIMIT:
        raise document.make_error(
            line, f"extends goes deeper than {EXTENDS_LIMIT} files", "copy the layers you need"
        )
    inherited = _load_file(base, above).layers.model_dump()
    return {**inherited, **own} if isinstance(own, dict) else own
