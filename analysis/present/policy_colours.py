"""Give each security policy one colour and one marker in the figures of all reports.

Colour and marker of a curve are its style, which has a number (`figures.style_at`). The style of a
built-in policy depends only on the policy's id (`policies/colours.yml`). The name of a user's own
policy decides its colour. It gets another colour only if a policy of the same report already has
this colour.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

import policies
from analysis.present.figures import STYLES
from documents.yaml_reader import load_own

_FILE = "colours.yml"


@cache
def list_policies_by_colour() -> Sequence[Sequence[str]]:
    """Return the built-in policies of each colour, in the order of the colours in `STYLES`."""
    colours: Sequence[Sequence[str]] = load_own(
        Path(policies.__file__).parent / _FILE)["colours"]
    return colours


@cache
def list_built_in_styles() -> Mapping[str, int]:
    """Return the number of each built-in policy's style, for `figures.style_at`."""
    return {policy: position + number * len(STYLES)
            for position, policies_of_colour in enumerate(list_policies_by_colour())
            for number, policy in enumerate(policies_of_colour)}


def assign_styles(report_policies: Iterable[str]) -> dict[str, int]:
    """Return the number of each policy's style in a report, for `figures.style_at`.

    The order of the policies does not matter.

    Args:
        report_policies: Ids of all policies in the report.
    """
    names = set(report_policies)
    styles = {name: style for name, style in list_built_in_styles().items() if name in names}
    for name in sorted(names - styles.keys()):
        styles[name] = _find_free_style(name, set(styles.values()))
    return styles


def _find_free_style(name: str, used: set[int]) -> int:
    """Return a style that depends on a name, with a colour that no policy has, if possible."""
    colours = {style % len(STYLES) for style in used}
    return next(style for style in _list_styles(name)
                if style not in used and (style % len(STYLES) not in colours
                                          or len(colours) == len(STYLES)))


def _list_styles(name: str) -> Iterator[int]:
    """Yield the numbers of all styles, beginning with the colour of a name."""
    first = zlib.crc32(name.encode())
    for number in range(len(STYLES)):
        for step in range(len(STYLES)):
            yield (first + step) % len(STYLES) + number * len(STYLES)
