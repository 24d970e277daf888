"""Place the names of points in a scatter plot, so that no name covers another or a point.

`place_labels` takes points with their names, and returns the offset of each name from its point in
pixels. The width of the plot differs between a phone and a wide screen, but the offset of a name is
the same on all screens. So `place_labels` looks for a place where the name covers nothing at any
width.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

#: Least and largest width of the plotting area, and its height, in pixels.
WIDTHS = (250.0, 900.0)
HEIGHT = 262.0
#: Half the size of a marker, and height and width per character of a name, in pixels.
MARKER = 6.0
LINE_HEIGHT = 13.0
CHARACTER = 7.2
#: Distances of a name from its point in pixels, the preferred first.
_DISTANCES = (15.0, *range(28, 240, 14))
#: Least distance from which on a line leads from the name to its point, in pixels.
_LINE_FROM = 28.0
#: Directions of a name from its point in degrees, the preferred first: above is 90.
_DIRECTIONS = (90, 270, 0, 180, 45, 135, 315, 225, 65, 115, 245, 295, 22, 158, 202, 338)


@dataclass(frozen=True)
class NamedPoint:
    """A point with its name.

    `x` and `y` are shares of the axes. `low` and `high` are the ends of the point's error bar.
    """

    name: str
    x: float
    y: float
    low: float
    high: float


@dataclass(frozen=True)
class Label:
    """A name's offset from its point in pixels, to the right and downwards."""

    name: str
    dx: float
    dy: float
    has_line: bool


@dataclass(frozen=True)
class Box:
    """A rectangle: its sides in pixels, to the right of a place on the x axis and above 0."""

    x: float
    left: float
    right: float
    bottom: float
    top: float

    def has_overlap(self, other: Box) -> bool:
        """Return whether two boxes overlap on any width of the plot."""
        if self.top <= other.bottom or other.top <= self.bottom:
            return False
        apart = sorted((self.x - other.x) * width for width in WIDTHS)
        return apart[0] < other.right - self.left and apart[1] > other.left - self.right

    @property
    def is_inside(self) -> bool:
        """Return whether the box is within the plot on all widths."""
        return self.bottom >= 0 and self.top <= HEIGHT and all(
            self.x * width + self.left >= 0 and self.x * width + self.right <= width
            for width in WIDTHS)


def place_labels(points: Sequence[NamedPoint],
                 further: Sequence[tuple[float, float]] = ()) -> list[Label]:
    """Return an offset for the name of each point.

    A name without a free place is left out. Error bars are avoided as far as other places are free.

    Args:
        points: The points to name.
        further: Places of further markers, as shares of the axes.
    """
    taken = [marker_box(x, y) for x, y in ((*((point.x, point.y) for point in points), *further))]
    bars = [_bar_box(point) for point in points]
    labels = []
    for point in sorted(points, key=lambda point: (point.x, point.y)):
        fallback = None
        for label in _list_candidates(point.name):
            box = label_box(point, label)
            if not box.is_inside or any(box.has_overlap(each) for each in taken):
                continue
            if not any(box.has_overlap(each) for each in bars):
                break
            fallback = fallback or label
        else:
            if fallback is None:
                continue
            label = fallback
        taken.append(label_box(point, label))
        labels.append(label)
    return labels


def _list_candidates(name: str) -> Iterator[Label]:
    """Yield the places of a name, the nearest first."""
    for distance in _DISTANCES:
        for degrees in _DIRECTIONS:
            across, up = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
            # A name is wider than high, so it begins farther away to the sides.
            reach = distance + (len(name) * CHARACTER / 2 - 3) * abs(across)
            yield Label(name, round(reach * across, 1), -round(distance * up, 1),
                        distance >= _LINE_FROM)


def marker_box(x: float, y: float) -> Box:
    """Return the box of a marker at a place in shares of the axes."""
    return Box(x, -MARKER, MARKER, y * HEIGHT - MARKER, y * HEIGHT + MARKER)


def _bar_box(point: NamedPoint) -> Box:
    return Box(point.x, -MARKER, MARKER, point.low * HEIGHT, point.high * HEIGHT)


def label_box(point: NamedPoint, label: Label) -> Box:
    """Return the box of a point's name."""
    half, middle = len(label.name) * CHARACTER / 2, point.y * HEIGHT - label.dy
    return Box(point.x, label.dx - half, label.dx + half, middle - LINE_HEIGHT / 2,
               middle + LINE_HEIGHT / 2)
