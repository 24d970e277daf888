"""Give each security policy one colour and one marker in the figures of all reports.

The look of a built-in policy depends on its code alone. No two policies of a profile share a
colour. A user's own policy gets a colour by its name, and another one only where a policy of the
same report has it.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Mapping
from functools import cache

from analysis.present.figures import STYLES

#: Built-in policies by their position in `STYLES`, which has the colours. Policies of one position
#: differ in marker and dashes. P1 is the baseline, so no other policy of one layer has its colour.
POLICIES_BY_COLOUR = (
    ("P1", "M4-okc"),
    ("P2", "M13", "M10-ft"),
    ("P3", "M2", "M14-resumed"),
    ("P4", "M11", "M8-okc", "M12-ecdh"),
    ("P5", "M9", "M8-resumed", "M16-ft"),
    ("P6", "M8", "M5-macsec", "M11-mip"),
    ("P7", "M6", "M4-ft"),
    ("P8", "M14", "M2-ft"),
    ("P9", "M5", "M12-kem"),
    ("P10", "M3", "M14-ft", "M15-new"),
    ("P11", "M1", "M16", "M13-ft"),
    ("P12", "M15", "M4-resumed"),
    ("M12", "M5-radsec", "M14-okc", "M15-ft"),
    ("M7", "M10-mip", "M13-okc"),
    ("M10", "M8-pmksa", "M13-resumed"),
    ("M4", "M8-pull", "M11-ft"))


@cache
def list_built_in_styles() -> Mapping[str, int]:
    """Return the index of each built-in policy's look, for `figures.style_at`."""
    return {policy: position + number * len(STYLES)
            for position, policies in enumerate(POLICIES_BY_COLOUR)
            for number, policy in enumerate(policies)}


def assign_styles(policies: Iterable[str]) -> dict[str, int]:
    """Return the index of the look of each policy of a report, for `figures.style_at`.

    The order of the policies does not matter.
    """
    names = set(policies)
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
