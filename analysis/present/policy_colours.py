"""Give each security policy one colour and one marker in the figures of all reports.

The look of a built-in policy depends on its code alone (`policies/colours.yml`). A user's own
policy gets a colour by its name, and another one only where a policy of the same report has it.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

import policies
from analysis.present.figures import STYLES
from policies.document import read_document

_FILE = "colours.yml"


@cache
def list_policies_by_colour() -> Sequence[Sequence[str]]:
    """Return the built-in policies by their position in `STYLES`, which has the colours."""
    folder = Path(policies.__file__).parent
    colours: Sequence[Sequence[str]] = read_document(str(folder / _FILE)).data["colours"]
    return colours


@cache
def list_built_in_styles() -> Mapping[str, int]:
    """Return the index of each built-in policy's look, for `figures.style_at`."""
    return {policy: position + number * len(STYLES)
            for position, policies_of_colour in enumerate(list_policies_by_colour())
            for number, policy in enumerate(policies_of_colour)}


def assign_styles(report_policies: Iterable[str]) -> dict[str, int]:
    """Return the index of the look of each policy of a report, for `figures.style_at`.

    The order of the policies does not matter.
    """
    names = set(report_policies)
    styles = {name: style for name, style in list_built_in_styles().items() if name in names}
    for name in sorted(names - styles.keys()):
        styles[name] = _find_free_style(name, set(styles.values()))
    return styles


def _find_free_style(name: str, used: set[int]) -> int:
    """Return a look that depends on a name: with a colour that is free, if there is one."""
    colours = {style % len(STYLES) for style in used}
    return next(style for style in _list_styles(name)
                if style not in used and (style % len(STYLES) not in colours
                                          or len(colours) == len(STYLES)))


def _list_styles(name: str) -> Iterator[int]:
    """Yield all looks, those with the colour of a name first."""
    first = zlib.crc32(name.encode())
    for number in range(len(STYLES)):
        for step in range(len(STYLES)):
            yield (first + step) % len(STYLES) + number * len(STYLES)
