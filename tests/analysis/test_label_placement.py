"""Tests of the names beside points: none covers another, or a point, on any screen."""

from __future__ import annotations

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.present.label_placement import (
    CHARACTER,
    HEIGHT,
    LINE_BREAK,
    LINE_HEIGHT,
    MARKER,
    WIDTHS,
    Label,
    NamedPoint,
    join_near,
    label_box,
    line_boxes,
    marker_box,
    place_labels,
)

#: Where points lie in a plot, which leaves room at its edges.
SHARES = st.floats(0.05, 0.95)
CLUSTERS = st.lists(st.tuples(SHARES, SHARES), min_size=1, max_size=14)


def name_points(places: list[tuple[float, float]]) -> list[NamedPoint]:
    """Points P1, P2 ... with an error bar of a tenth of the axis."""
    return [NamedPoint(f"P{number}", x, y, y - 0.05, y + 0.05)
            for number, (x, y) in enumerate(places, 1)]


def overlap(first: tuple[float, float, float, float],
            second: tuple[float, float, float, float]) -> bool:
    """Two rectangles, as centre and half sides, share an area."""
    return (abs(first[0] - second[0]) < first[2] + second[2] - 0.01
            and abs(first[1] - second[1]) < first[3] + second[3] - 0.01)


def label_at(point: NamedPoint, label: Label, width: float) -> tuple[float, float, float, float]:
    """Centre and half sides of a name in pixels."""
    return (point.x * width + label.dx, point.y * HEIGHT - label.dy,
            len(label.name) * CHARACTER / 2, LINE_HEIGHT / 2)


@settings(max_examples=60, deadline=None)
@given(CLUSTERS, st.floats(*WIDTHS))
def test_no_name_covers_another_or_a_point(places: list[tuple[float, float]],
                                           width: float) -> None:
    """On a phone, on a wide screen and on all between."""
    points = name_points(places)
    labels = place_labels(points)
    by_name = {point.name: point for point in points}
    boxes = [label_at(by_name[label.name], label, width) for label in labels]
    markers = [(point.x * width, point.y * HEIGHT, MARKER, MARKER) for point in points]
    assert not any(overlap(*pair) for pair in itertools.combinations(boxes, 2))
    assert not any(overlap(box, marker) for box in boxes for marker in markers)


@settings(max_examples=20, deadline=None)
@given(SHARES, SHARES, st.integers(1, 14))
def test_points_at_one_place_are_all_named(x: float, y: float, count: int) -> None:
    """There is room for every name, and a line leads from the distant ones to the point."""
    labels = place_labels(name_points([(x, y)] * count))
    assert sorted(label.name for label in labels) == sorted(f"P{n}" for n in range(1, count + 1))
    assert sum(label.has_line for label in labels) >= count - 16


def test_a_name_without_room_is_left_out() -> None:
    """Instead of covering what is there."""
    name = "x" * 40
    assert place_labels([NamedPoint(name, 0.5, 0.5, 0.5, 0.5)]) == []
    assert [label.dy for label in place_labels([NamedPoint("P1", 0.5, 0.5, 0.5, 0.5)])] == [-15.0]


def test_a_line_crosses_no_name_and_no_marker() -> None:
    """Five points in a row, as close as markers are wide on a phone: some names need a line."""
    points = [NamedPoint(f"M{number}-resumed", 0.3 + 0.05 * number, 0.5, 0.48, 0.52)
              for number in range(5)]
    labels = place_labels(points)
    by_name = {point.name: point for point in points}
    assert len(labels) == len(points) and any(label.has_line for label in labels)
    for label in labels:
        own = by_name[label.name]
        others = [label_box(by_name[each.name], each) for each in labels if each is not label]
        others += [marker_box(point.x, point.y) for point in points if point is not own]
        assert not any(piece.has_overlap(box) for piece in line_boxes(own, label)
                       for box in others)


def test_points_at_one_place_share_a_name_of_lines() -> None:
    """At most three, and none that is beside them."""
    points = [NamedPoint(name, x, 0.5, low, 0.6) for name, x, low in (
        ("M4", 0.5, 0.4), ("M13", 0.6, 0.4), ("M4-ft", 0.501, 0.3), ("M4-okc", 0.5, 0.4),
        ("M4-late", 0.5, 0.4))]
    assert [(point.name, point.x, point.low) for point in join_near(points)] == [
        (LINE_BREAK.join(("M4", "M4-ft", "M4-okc")), 0.5, 0.3), ("M13", 0.6, 0.4),
        ("M4-late", 0.5, 0.4)]
