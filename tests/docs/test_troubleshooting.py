"""The page on troubleshooting, and that on policies, know every message that a user can get."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache

import doc_commands
from doc_commands import PROJECT

#: Exceptions whose text a user reads: on the terminal, or as the reason in a record.
RAISED = {"UserError", "NoResultsError", "RecordError", "BuildError", "GuestError", "ArchiveError",
          "MeasureError", "TopologyError", "RadioError", "TestbedLost", "WorkerLost",
          "ChecksumError", "ChildProcessError", "DissectorLost", "StudyError", "ManifestError",
          "add_finding", "to_disk_error", "_ended_error", "_kernel_error", "make_error",
          "YamlProblem", "_make_refusal"}
#: Modules with no message for those who measure, and why.
PASSED_OVER = {
    "measure/agent/worker.py": "the harness talks to it, and sends what it knows",
    "studies/qop2007/workload.py": "is for tests",
    "measure/services/hostap.py": "what a daemon's socket may say when the daemon is broken",
    "bench/medium.py": "bench measures the harness itself",
    "bench/medium_trial.py": "the same",
    "bench/report.py": "the same", "bench/cluster.py": "the same",
    "bench/faults.py": "the same",
    "policies/document.py": "docs/policies.md#errors", "policies/loader.py": "the same",
    "policies/weights.py": "the same",
}
#: Which arguments are a text, where not all are: stages and lines stand first, advice last.
_WHAT = {"MeasureError": slice(1, None), "YamlProblem": slice(1, 2), "_make_refusal": slice(1, 2)}
PACKAGES = ("analysis", "documents", "guest", "harness", "measure", "policies", "studies",
            "topologies")


def messages() -> Iterator[tuple[str, str]]:
    """Where, and the longest fixed part of what is said to be wrong, before any advice."""
    for package in PACKAGES:
        for path in sorted((PROJECT / package).rglob("*.py")):
            name = str(path.relative_to(PROJECT))
            if name in PASSED_OVER:
                continue
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Call) and _name(node.func) in RAISED:
                    said = _WHAT.get(_name(node.func), slice(None))
                    fixed = max(map(_fixed, node.args[said]), key=len, default="")
                    if len(fixed) > 5:
                        yield f"{name}:{node.lineno}", fixed


def _name(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _fixed(argument: ast.expr) -> str:
    """The longest literal part of a text, of what stands before its first semicolon."""
    parts = argument.values if isinstance(argument, ast.JoinedStr) else [argument]
    pieces: list[str] = []
    for part in parts:
        text = part.value if isinstance(part, ast.Constant) else ""
        if isinstance(text, str):
            before, semicolon, _ = text.partition(";")
            pieces += re.split(r"\s*[()'\"]\s*", before)
            if semicolon:
                break
    return max((piece.strip(" :,.;") for piece in pieces), key=len, default="")


@cache
def documented() -> str:
    """Every code span of the page, on one line each, blanks made one."""
    return "\n".join(" ".join(child.content.split()) for token in
                     doc_commands.parse("docs/troubleshooting.md")
                     for child in token.children or () if child.type == "code_inline")


def test_every_message_is_on_the_page() -> None:
    """What the code says of a user's circumstances can be found by searching for it."""
    said = list(messages())
    assert len(said) > 200
    assert [f"{where}: '{fixed}'" for where, fixed in said if fixed not in documented()] == []


def test_what_the_entry_point_says_is_on_the_page() -> None:
    """The same for ./qop itself, which is a shell script."""
    text = (PROJECT / "qop").read_text(encoding="utf-8")
    said = re.findall(r"""give_up ["']([^"$]+?)[;:($"']""", text.replace('give_up "$', ""))
    assert len(said) >= 4
    for fixed in said:
        assert fixed.strip() in documented(), fixed
