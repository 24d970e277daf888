"""Place the names of points in a scatter plot, so that no name covers another or a point.

`place_labels` takes points with their names, and returns the offset of each name from its point in
pixels. The width of the plot differs between a phone and a wide screen, but the offset of a name is
the same on all screens. So `place_labels` looks for a place where the name covers nothing at any
width.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

#: Least and largest width of the plotting area, and its height, in pixels.
WIDTHS = (250.0, 900.0)
HEIGHT = 262.0
#: Half the size of a marker, and height and width per character of a name, in pixels.
MARKER = 6.0
LINE_HEIGHT = 13.0
CHARACTER = 7.2
#: Separator of lines of a name, as plotly has it.
LINE_BREAK = "<br>"
#: Distances of a name from its point in pixels, the preferred first.
_DISTANCES = (15.0, *range(28, 240, 14))
#: Least distance from which on a line leads from the name to its point, in pixels.
_LINE_FROM = 28.0
#: Most names of points at nearly one place that stand together.
_MAX_JOINED = 3
#: Number of orders in which names get their places, until one has no overlap.
_ORDERS = 16
#: Distance of the places on a line that are looked at, in pixels.
_LINE_STEP = 4.0
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


def join_near(points: Sequence[NamedPoint]) -> list[NamedPoint]:
    """Return points with one name for those whose markers cover each other on any width.

    Such a name has a line (`LINE_BREAK`) for each of up to three points. It is at the place of the
    first one.
    """
    joined: list[list[NamedPoint]] = []
    for point in points:
        near = next((some for some in joined if len(some) < _MAX_JOINED and
                     abs(some[0].x - point.x) * WIDTHS[1] <= MARKER and
                     abs(some[0].y - point.y) * HEIGHT <= MARKER), None)
        if near is None:
            joined.append([point])
        else:
            near.append(point)
    return [replace(some[0], name=LINE_BREAK.join(point.name for point in some),
                    low=min(point.low for point in some), high=max(point.high for point in some))
            for some in joined]


def place_labels(points: Sequence[NamedPoint],
                 further: Sequence[tuple[float, float]] = ()) -> list[Label]:
    """Return an offset for the name of each point.

    A name without a free place is left out. Error bars and the lines from other names to their
    points are avoided as far as other places are free.

    Args:
        points: The points to name.
        further: Places of further markers, as shares of the axes.
    """
    markers = [marker_box(x, y) for x, y in (*((point.x, point.y) for point in points), *further)]
    best: tuple[tuple[int, int], list[Label]] | None = None
    ordered = sorted(points, key=lambda point: (point.x, point.y))
    for number in range(_ORDERS):
        # The first order is by place, and each further one mixes the names in another way.
        mixed = sorted(ordered, key=lambda point: (number and _mix_name(number, point.name)))
        crossed, labels = _place_in_order(mixed, points, markers)
        cost = (len(points) - len(labels), crossed)
        if best is None or cost < best[0]:
            best = (cost, labels)
        if not any(cost):
            break
    return best[1] if best else []


def _place_in_order(ordered: Sequence[NamedPoint], points: Sequence[NamedPoint],
                    markers: Sequence[Box]) -> tuple[int, list[Label]]:
    """Return how often lines and error bars are crossed, and the offsets of the names.

    A name that is placed later gets one of the places that are left.
    """
    taken, bars, lines = [*markers], [_bar_box(point) for point in points], list[Box]()
    total, labels = 0, []
    for point in ordered:
        # The first place without any overlap, else the first that crosses the least.
        places: dict[int, tuple[Label, Box, list[Box]]] = {}
        for label in _list_candidates(point.name):
            box = label_box(point, label)
            if not box.is_inside or _has_any_overlap([box], taken):
                continue
            own_line = line_boxes(point, label)
            crossed = 2 * (_has_any_overlap([box], lines) or _has_any_overlap(own_line, taken)
                           ) + _has_any_overlap([box], bars)
            places.setdefault(crossed, (label, box, own_line))
            if not crossed:
                break
        if places:
            least = min(places)
            label, box, own_line = places[least]
            total += least
            taken.append(box)
            lines += own_line
            labels.append(label)
    return total, labels


def _mix_name(number: int, name: str) -> int:
    """Return a number for a name that looks random, and is the same in each run."""
    return zlib.crc32(f"{number} {name}".encode())


def _has_any_overlap(boxes: Sequence[Box], obstacles: Sequence[Box]) -> bool:
    return any(box.has_overlap(obstacle) for box in boxes for obstacle in obstacles)


def line_boxes(point: NamedPoint, label: Label) -> list[Box]:
    """Return small boxes along the line from a point to its name, between marker and name."""
    if not label.has_line:
        return []
    length = math.hypot(label.dx, label.dy)
    name = label_box(point, label)
    boxes = []
    for step in range(1, int(length / _LINE_STEP)):
        share = step * _LINE_STEP / length
        x, y = share * label.dx, point.y * HEIGHT - share * label.dy
        piece = Box(point.x, x - 1, x + 1, y - 1, y + 1)
        if share * length > MARKER * math.sqrt(2) and not piece.has_overlap(name):
            boxes.append(piece)
    return boxes


def _list_candidates(name: str) -> Iterator[Label]:
    """Yield the places of a name, the nearest first."""
    half_width, half_height = _half_size(name)
    for distance in _DISTANCES:
        for degrees in _DIRECTIONS:
            across, up = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
            # A name is wider than high, so it begins farther away to the sides.
            reach = distance + (half_width - 3) * abs(across)
            height = distance + (half_height - LINE_HEIGHT / 2) * abs(up)
            yield Label(name, round(reach * across, 1), -round(height * up, 1),
                        distance >= _LINE_FROM)


def marker_box(x: float, y: float) -> Box:
    """Return the rectangle that a marker covers. `x` and `y` are shares of the axes' lengths."""
    return Box(x, -MARKER, MARKER, y * HEIGHT - MARKER, y * HEIGHT + MARKER)


def _bar_box(point: NamedPoint) -> Box:
    return Box(point.x, -MARKER, MARKER, point.low * HEIGHT, point.high * HEIGHT)


def label_box(point: NamedPoint, label: Label) -> Box:
    """Return the box of a point's name."""
    (across, up), middle = _half_size(label.name), point.y * HEIGHT - label.dy
    return Box(point.x, label.dx - across, label.dx + across, middle - up, middle + up)


def _half_size(name: str) -> tuple[float, float]:
    """Return half of a name's width and height in pixels."""
    lines = name.split(LINE_BREAK)
    return max(map(len, lines)) * CHARACTER / 2, len(lines) * LINE_HEIGHT / 2
