"""Read the YAML file of a policy or of weights into values with line numbers.

`read_document` takes a path, and returns a `YamlDocument`. The general reader is
`documents.yaml_reader`. This module adds the limits of size and depth, and turns each problem into
a `PolicyError` with file, line and advice. If the file is another program's configuration, such as
a hostapd.conf, the message says so. `policies.loader` checks the values afterwards.
"""

from __future__ import annotations

import shlex
from functools import lru_cache

from documents import yaml_reader
from documents.yaml_reader import YamlDocument, YamlProblem, YamlRules, parse_yaml, read_text
from policies.conversion.kinds import KINDS, find_kind
from policies.errors import PolicyError

SIZE_LIMIT = 64 * 1024  # bytes; qop's largest policy has under 1 KiB
DEPTH_LIMIT = 8  # nested blocks; a policy has 5
_RULES = YamlRules(
    "policy", SIZE_LIMIT, DEPTH_LIMIT, is_plain=True, manual="docs/policies.md",
    empty="write id:, name: and layers: lines")


def file_problem(file: str) -> tuple[str, str] | None:
    """Return why a file cannot be a policy's file, and what to do.

    None if it can be one. The file is not opened.
    """
    return yaml_reader.file_problem(file, _RULES)


def read_document(file: str) -> YamlDocument:
    """Read and parse a policy file.

    All callers that read the same file get the same object: it must not be changed.

    Raises:
        PolicyError: The file is invalid in any way; the text is one line.
    """
    try:
        return _parse_document(file, read_text(file, _RULES))
    except YamlProblem as problem:
        raise PolicyError(file, problem.line or 1, problem.what, problem.advice) from None


@lru_cache(maxsize=256)
def _parse_document(file: str, text: str) -> YamlDocument:
    """Parse the text of a policy file once. A report asks for each policy a dozen times."""
    try:
        return parse_yaml(file, text, _RULES)
    except YamlProblem:
        if kind := find_kind(text):
            raise PolicyError(
                file, 1, f"this is {KINDS[kind].title}, and no policy",
                f"'./qop policy from {shlex.quote(file)}' makes one of it") from None
        raise
