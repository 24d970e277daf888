"""Refuse numbers that YAML 1.1 misreads.

These are octal, sexagesimal (base 60), hexadecimal and binary numbers.
"""

from __future__ import annotations

import re
from typing import Any

import yaml

_TAG = "tag:yaml.org,2002:"
_PLAIN = re.compile(r"[-+]?(0|[1-9][0-9]*)")


class MisreadNumber(yaml.MarkedYAMLError):  # type: ignore[misc,unused-ignore]
    """A number that YAML would misread. `problem` says how, `note` what to write."""


def explain_number(node: Any) -> tuple[str, str] | None:
    """Return why YAML misreads a scalar node, and what to write.

    The result is None if it does not.
    """
    text: str = node.value
    if node.style is not None or node.tag not in (_TAG + "int", _TAG + "float"):
        return None
    if ":" in text:
        kind = "a sexagesimal number (base 60)"
    elif node.tag == _TAG + "float" or _PLAIN.fullmatch(text):
        return None
    else:
        digits = text.lstrip("+-").lower()
        kind = ("a number with underscores" if digits[0] != "0" else
                "a hexadecimal number" if digits.startswith("0x") else
                "a binary number" if digits.startswith("0b") else "an octal number")
    value = yaml.safe_load(text)
    return (f"YAML reads {text[:40]} as {kind}, which is {str(value)[:40]}",
            f"write the decimal number, or '{text[:40]}' in quotes where it is text")


class PlainNumberLoader(yaml.SafeLoader):  # type: ignore[misc,unused-ignore]
    """A YAML loader that accepts only decimal numbers, and raises MisreadNumber for others."""


def _construct_number(loader: Any, node: Any) -> Any:
    problem = explain_number(node)
    if problem is not None:
        raise MisreadNumber(problem=problem[0], problem_mark=node.start_mark, note=problem[1])
    if node.tag == _TAG + "int":
        return loader.construct_yaml_int(node)
    return loader.construct_yaml_float(node)


for _kind in ("int", "float"):
    PlainNumberLoader.add_constructor(  # type: ignore[no-untyped-call,unused-ignore]
        _TAG + _kind, _construct_number)
